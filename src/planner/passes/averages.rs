//! Averages of large windows that lie side by side are means: a window's pixels are added in ranges side by side, where an average adds
//! them one behind the other. Pyramids of averages have such windows, up to half a picture.
//!
//! Exact but for rounding, which is less.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{PoolKind, Primitive, ReduceKind, Window};
use crate::tensor::Shape;

/// Fewest pixels of a window, up to which adding them takes no longer than the launch's other parts.
const LARGE: u64 = 100;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// Windows side by side that a picture consists of: their sides.
struct Found {
    node: usize,
    sides: [u32; 2],
}

fn find(graph: &Graph, _: &Index, node: usize) -> Option<Found> {
    let it = &graph.nodes[node];
    let Op::Primitive(Primitive::Pool {
        kind: PoolKind::Average { .. },
        window,
    }) = &it.op
    else {
        return None;
    };
    let [from, to] = [*it.inputs.first()?, *it.outputs.first()?].map(|v| graph.value(v).shape);
    let sides = [window.kernel[0], window.kernel[1]];
    let covers = |axis: usize| to.dim(axis + 2).checked_mul(sides[axis]) == Some(from.dim(axis + 2));
    let side_by_side =
        |w: &Window| w.axes == 2 && w.stride[..2] == sides && w.dilation == [1; 3] && w.pad_begin == [0; 3] && w.pad_end == [0; 3];
    let whole = to.rank() == 4 && to.dim(2) == 1 && to.dim(3) == 1;
    let large = (whole || window.taps() >= LARGE) && from.rank() == 4 && from.elements() > 0;
    (large && side_by_side(window) && (0..2).all(covers)).then_some(Found { node, sides })
}

fn apply(graph: &mut Graph, Found { node, sides }: Found) {
    let Node { name, inputs, outputs, .. } = graph.nodes[node].clone();
    let (dtype, _) = graph.operand(inputs[0]);
    let to = graph.value(outputs[0]).shape;
    let [samples, channels, down, across] = [0, 1, 2, 3].map(|a| to.dim(a));
    let mean = |from: ValueId, axes: u8, to: ValueId| Node {
        name: name.clone(),
        op: Op::Primitive(Primitive::Reduce {
            kind: ReduceKind::Mean,
            axes,
        }),
        inputs: vec![from],
        outputs: vec![to],
    };
    if (down, across) == (1, 1) {
        graph.nodes[node] = mean(inputs[0], 1 << 2 | 1 << 3, outputs[0]);
        return;
    }
    let dims = [samples, channels, down, sides[0], across, sides[1]];
    let (Some(apart), Some(kept)) = (Shape::new(&dims), Shape::new(&[samples, channels, down, 1, across, 1])) else {
        return;
    };
    let windows = graph.add_value(format!("{name}.windows"), dtype, apart);
    let means = graph.add_value(format!("{name}.means"), dtype, kept);
    let reshape = |name: String, from: ValueId, to: ValueId| Node {
        name,
        op: Op::View(ViewOp::Reshape),
        inputs: vec![from],
        outputs: vec![to],
    };
    let nodes = [
        reshape(format!("{name}.apart"), inputs[0], windows),
        mean(windows, 1 << 3 | 1 << 5, means),
        reshape(format!("{name}.seen"), means, outputs[0]),
    ];
    graph.nodes.splice(node..=node, nodes);
}
