//! Shares of a value along an axis, as slices cut them, for passes that find several of one value side by side.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::tensor::Shape;

/// Places `start..end` of `base` along an axis, all of it along the others.
#[derive(Clone, Copy)]
pub struct Share {
    /// What it is a share of.
    pub base: ValueId,
    /// The first place.
    pub start: i64,
    /// The place behind the last.
    pub end: i64,
}

impl Share {
    /// The share that `value` is along `axis`.
    pub fn of(graph: &Graph, index: &Index, value: ValueId, axis: usize) -> Option<Share> {
        let node = &graph.nodes[index.producers[value.index()]?];
        let Op::View(ViewOp::Slice { start, step }) = &node.op else {
            return None;
        };
        let base = *node.inputs.first()?;
        // Joined along an axis that they get behind views, shares have none of it themselves.
        let begin = *start.get(axis)?;
        let (from, to) = (graph.value(base).shape, graph.value(value).shape);
        let whole = (0..from.rank()).all(|a| a == axis || (start[a] == 0 && from.dim(a) == to.dim(a)));
        let forward = step.iter().all(|&s| s == 1);
        (whole && forward && graph.value(base).data.is_none()).then_some(Share {
            base,
            start: begin,
            end: begin + i64::from(to.dim(axis)),
        })
    }

    /// The share that this and `next` are together, if that follows.
    pub fn followed_by(self, next: Share) -> Option<Share> {
        let follows = next.base == self.base && next.start == self.end;
        follows.then_some(Share { end: next.end, ..self })
    }

    /// The share as a value: the base if it is all of it, else a view of it that is still to be added.
    pub fn value(self, graph: &mut Graph, axis: usize, name: &str) -> (ValueId, Option<Node>) {
        let base = graph.value(self.base);
        let (shape, dtype) = (base.shape, base.dtype);
        let extent = u32::try_from(self.end - self.start).unwrap_or(0);
        if extent == shape.dim(axis) {
            return (self.base, None);
        }
        let name = format!("{name}.shares");
        let narrow = shape.with_dim(axis, extent).unwrap_or(Shape::SCALAR);
        let output = graph.add_value(name.clone(), dtype, narrow);
        let view = Node {
            name,
            op: Op::View(ViewOp::band(shape.rank(), axis, self.start)),
            inputs: vec![self.base],
            outputs: vec![output],
        };
        (output, Some(view))
    }
}
