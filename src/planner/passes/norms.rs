//! The root of the sum of squares along axes, spelled in three functions, becomes a reduction of its own, [`ReduceKind::Norm`]: it
//! holds squares and their sum in f32, where f16 overflows from 256 on.

use super::rewrite::{Index, replace};
use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::primitive::{Primitive, ReduceKind, Unary};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Some(found) = norm(graph, &index, node) else { continue };
        let op = Op::Primitive(Primitive::Reduce {
            kind: ReduceKind::Norm,
            axes: found.axes,
        });
        // The root of a sum that is looked at without its axes is the norm looked at so.
        let at = match found.view {
            None => node,
            Some(view) => {
                let (root, seen) = (graph.nodes[node].outputs[0], graph.nodes[view].outputs[0]);
                replace(graph, root, seen);
                found.sum
            }
        };
        graph.nodes[at].op = op;
        graph.nodes[at].inputs = vec![found.x];
    }
    super::drop_dead::run(graph);
}

/// A root of a sum of squares.
struct Found {
    x: ValueId,
    axes: u8,
    /// The node that sums, and the one that looks at the sum without its axes, which nobody else reads.
    sum: usize,
    view: Option<usize>,
}

/// What `node` is the norm of, and along which axes.
fn norm(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    if graph.nodes[node].op != Op::Primitive(Primitive::Unary(Unary::Sqrt)) {
        return None;
    }
    let of = graph.nodes[node].inputs[0];
    let alone = |value: ValueId| index.uses[value.index()] == 1;
    let seen = |view: &usize| graph.nodes[*view].op == Op::View(ViewOp::Reshape);
    let view = index.producers[of.index()].filter(seen);
    let value = match view {
        Some(view) => Some(graph.nodes[view].inputs[0]).filter(|&sum| alone(of) && alone(sum))?,
        None => of,
    };
    let (sum, primitive) = index.primitive(graph, value)?;
    let &Primitive::Reduce {
        kind: ReduceKind::Sum,
        axes,
    } = primitive
    else {
        return None;
    };
    let squares = graph.nodes[sum].inputs[0];
    let x = index.root(graph, squares)?;
    (graph.value(x).dtype == graph.value(squares).dtype).then_some(Found { x, axes, sum, view })
}
