//! Means of values weighed by a softmax, as detectors find the edges of boxes: the bits of the processor, in every spelling, of bins side by
//! side and in planes, of rows that a thread keeps and of longer ones.

use crate::data::Chance;
use crate::onnx::{Graph, int, ints};
use crate::processor::check_bits_of;
use platoon::plan::format::Operator;
use platoon::planner::Ports;
use platoon::primitive::Primitive;
use platoon::tensor::DType;

/// How the bins of an anchor's sides lie, and what weighs and adds their shares.
#[derive(Clone, Copy)]
enum Spelling {
    /// Bins in planes, a convolution to one channel.
    Planes,
    /// All bins of an anchor side by side, the same convolution.
    Anchors,
    /// The last axis, side by side, and a matrix of one column.
    Rows,
    /// The last axis, in planes, and the same matrix.
    Columns,
    /// Bins in planes, a product and a sum.
    Sum,
}
use Spelling::*;

const SPELLINGS: [Spelling; 5] = [Planes, Anchors, Rows, Columns, Sum];
const BINS: [i64; 6] = [8, 16, 17, 32, 33, 100];
const BATCHES: [i64; 2] = [1, 3];
const SIDES: i64 = 4;

/// Anchors: long rows become expectations where there are many.
fn anchors(bins: i64) -> i64 {
    if bins > 32 { 2051 } else { 301 }
}

/// Short sums over other axes than the last become additions.
fn is_case(bins: i64, spelling: Spelling) -> bool {
    bins > 8 || !matches!(spelling, Sum)
}

/// Every case, and how many there are.
fn model() -> (Vec<u8>, usize) {
    let (mut graph, mut count) = (Graph::default().constant("wide", &[], || 7.0), 0);
    let mut random = Chance::new(12);
    let cases = BINS
        .iter()
        .flat_map(|&n| BATCHES.iter().flat_map(move |&b| SPELLINGS.map(|s| (n, b, s))));
    for (bins, batch, spelling) in cases.filter(|&(bins, _, spelling)| is_case(bins, spelling)) {
        let name = |of: &str| format!("{of}{count}");
        let with = |of: &str, other: &str| format!("{} {}", name(of), name(other));
        let all = anchors(bins);
        // Whole numbers, as edges have, and others.
        let mut bin = 0.0;
        let mut value = || {
            bin += 1.0;
            if count % 2 == 0 { bin - 1.0 } else { 3.0 * random.signed() }
        };
        let given = match spelling {
            Planes | Sum => vec![batch, SIDES, bins, all],
            Anchors => vec![batch, all, SIDES, bins],
            Rows => vec![batch, all, SIDES, bins],
            Columns => vec![batch, SIDES, bins, all],
        };
        // To `[batch, bins, sides, anchors]`, or bins last.
        let order = match spelling {
            Planes | Sum => [0, 2, 1, 3],
            Anchors => [0, 3, 2, 1],
            Rows => [0, 1, 2, 3],
            Columns => [0, 3, 1, 2],
        };
        let axis = if matches!(spelling, Rows | Columns) { 3 } else { 1 };
        graph = graph
            .input(&name("x"), &given)
            .node("Mul", &format!("{} wide", name("x")), &name("logits"), &[])
            .node("Transpose", &name("logits"), &name("bins"), &[ints("perm", &order)])
            .node("Softmax", &name("bins"), &name("shares"), &[int("axis", axis)]);
        graph = match spelling {
            Planes | Anchors => {
                let weights = graph.constant(&name("w"), &[1, bins, 1, 1], &mut value);
                weights.node("Conv", &with("shares", "w"), &name("mean"), &[])
            }
            Rows | Columns => {
                let weights = graph.constant(&name("w"), &[bins, 1], &mut value);
                weights.node("MatMul", &with("shares", "w"), &name("mean"), &[])
            }
            Sum => graph
                .constant(&name("w"), &[bins, 1, 1], &mut value)
                .integers(&name("axes"), &[1])
                .node("Mul", &with("shares", "w"), &name("weighed"), &[])
                .node("ReduceSum", &with("weighed", "axes"), &name("mean"), &[int("keepdims", 1)]),
        };
        graph = graph.node("Neg", &name("mean"), &name("y"), &[]).output(&name("y"));
        count += 1;
    }
    (graph.file(), count)
}

fn expects(operator: &Operator) -> bool {
    matches!(operator.calls[0].primitive, Primitive::Expectation { .. })
}

#[test]
fn expectations_have_the_processors_bits() {
    let (file, count) = model();
    let types = [
        (DType::F16, Ports::Half),
        (DType::F16, Ports::Declared),
        (DType::F32, Ports::Declared),
    ];
    let what = format!("{count} expectations");
    check_bits_of(
        "gpu_expectations_have_the_processors_bits",
        &file,
        &types,
        &what,
        |compiled, seed| {
            // Few blocks, too, each with many tiles.
            let expectations = compiled.plan.operators.iter_mut().filter(|o| expects(o));
            let found = expectations.map(|o| o.width = if seed == 4 { 2 } else { o.width }).count();
            assert_eq!(found, count);
        },
    );
}
