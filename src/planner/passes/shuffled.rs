//! Slices of a shuffle take their elements of what was shuffled: a transposed value that nothing but slices reads in other axes is
//! sliced before its axes are joined. So the whole, which no strides can say, is not stored anew, and each slice goes at once where it
//! is wanted. Channel shuffles are spelled so (Ma et al., "ShuffleNet V2", 2018, section 3.2).

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    let mut made = Vec::new();
    for joined in (0..graph.nodes.len()).rev() {
        for (reader, view, shape) in slices(graph, &index, joined).unwrap_or_default() {
            let (from, name) = (graph.nodes[joined].inputs[0], format!("{}.part", graph.nodes[reader].name));
            let part = graph.add_value(name.clone(), graph.value(from).dtype, shape);
            graph.nodes[reader].op = Op::View(ViewOp::Reshape);
            graph.nodes[reader].inputs = vec![part];
            made.push((
                reader,
                Node {
                    name,
                    op: Op::View(view),
                    inputs: vec![from],
                    outputs: vec![part],
                },
            ));
        }
    }
    // From the last on, so that the places of those before stay.
    made.sort_by_key(|(reader, _)| std::cmp::Reverse(*reader));
    for (reader, node) in made {
        graph.nodes.insert(reader, node);
    }
    super::drop_dead::run(graph);
}

/// The readers of the reshape `joined` of a transposed value, if all are slices, each with the slice of the transposed value that
/// has the same elements.
fn slices(graph: &Graph, index: &Index, joined: usize) -> Option<Vec<(usize, ViewOp, Shape)>> {
    let node = &graph.nodes[joined];
    let (Op::View(ViewOp::Reshape), &[from], &[to]) = (&node.op, &node.inputs[..], &node.outputs[..]) else {
        return None;
    };
    let turned = &graph.nodes[index.producers[from.index()]?];
    if !matches!(turned.op, Op::View(ViewOp::Transpose { .. })) {
        return None;
    }
    let readers = (joined + 1..graph.nodes.len()).filter(|&n| graph.nodes[n].inputs.contains(&to));
    let all: Vec<_> = readers
        .map(|reader| slice_before(graph, reader, from, to).map(|(view, shape)| (reader, view, shape)))
        .collect::<Option<_>>()?;
    (all.len() == index.uses[to.index()] as usize).then_some(all)
}

/// The slice of `from` that has the elements which the slice `reader` has of `to`, a reshape of `from`.
fn slice_before(graph: &Graph, reader: usize, from: ValueId, to: ValueId) -> Option<(ViewOp, Shape)> {
    let node = &graph.nodes[reader];
    let Op::View(ViewOp::Slice { start, step }) = &node.op else {
        return None;
    };
    let [before, after, cut] = [from, to, *node.outputs.first()?].map(|v| graph.value(v).shape);
    let mut shortened = (0..after.rank()).filter(|&a| cut.dim(a) != after.dim(a));
    let (axis, None) = (shortened.next()?, shortened.next()) else {
        return None;
    };
    if step.iter().any(|&s| s != 1) {
        return None;
    }
    // The axis of `from` that the sliced one begins with: as many positions are outside of both.
    let positions = |dims: &[u32]| dims.iter().map(|&d| u64::from(d)).product::<u64>();
    let outside = positions(&after.dims()[..axis]);
    let first = (0..before.rank()).find(|&a| positions(&before.dims()[..a]) == outside && before.dim(a) != 1)?;
    let inside = after.dim(axis).checked_div(before.dim(first))?;
    let joins = (first + 1..=before.rank()).any(|end| positions(&before.dims()[first + 1..end]) == u64::from(inside));
    let whole = |n: u64| inside > 0 && n.is_multiple_of(u64::from(inside));
    let begin = u64::try_from(*start.get(axis)?).ok()?;
    if !joins || after.dim(axis) != before.dim(first) * inside || !whole(begin) || !whole(cut.dim(axis).into()) {
        return None;
    }
    let view = ViewOp::band(before.rank(), first, (begin / u64::from(inside)) as i64);
    Some((view, before.with_dim(first, cut.dim(axis) / inside)?))
}
