//! Shares of what several maps are collected to.

use super::*;

/// Distances and scores of two maps, joined, looked at as rows, collected and cut apart at `cut`; with `whole` all of it is read too.
fn head(cut: u32, whole: bool) -> (Net, [Vec<u32>; 4]) {
    let mut net = Net::default();
    let mut inputs = Vec::new();
    let maps = [[4, 6], [2, 3]].map(|[high, wide]| {
        let parts = [8, 3].map(|channels| {
            inputs.push(vec![2, channels, high, wide]);
            net.input(&[2, channels, high, wide])
        });
        let joined = net.concat(1, &parts);
        net.view(ViewOp::Reshape, joined, &[2, 11, high * wide])
    });
    let all = net.concat(2, &maps);
    let share = |net: &mut Net, first: u32, count: u32| {
        let view = ViewOp::band(3, 1, i64::from(first));
        let share = net.view(view, all, &[2, count, 30]);
        net.unary(Unary::Sigmoid, share)
    };
    for made in [share(&mut net, 0, cut), share(&mut net, cut, 11 - cut)] {
        net.output(made);
    }
    if whole {
        let made = net.unary(Unary::Relu, all);
        net.output(made);
    }
    (net, std::array::from_fn(|i| inputs[i].clone()))
}

fn concatenated(graph: &Graph) -> Vec<Vec<u32>> {
    let joins = graph.nodes.iter().filter(|n| matches!(n.op, Op::Concat { .. }));
    joins.map(|n| graph.value(n.outputs[0]).shape.dims().to_vec()).collect()
}

#[test]
fn distances_and_scores_are_collected_apart() {
    let (net, dims) = head(8, false);
    let passed = run(net.graph.clone(), PassSet::COLLECTED).unwrap();
    assert_eq!(concatenated(&passed), [[2, 8, 30], [2, 3, 30]]);
    let mut draw = Draw::new(5);
    let inputs = dims.map(|d| draw.tensor(&d));
    assert_eq!(evaluate(&passed, &inputs), evaluate(&net.graph, &inputs));
}

#[test]
fn shares_of_parts_and_collections_that_are_read_whole_stay() {
    for (cut, whole) in [(7, false), (8, true)] {
        let (net, _) = head(cut, whole);
        let passed = run(net.graph.clone(), PassSet::COLLECTED).unwrap();
        assert_eq!(concatenated(&passed), concatenated(&net.graph), "{cut} {whole}");
    }
}
