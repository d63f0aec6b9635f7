//! Parts of one value that a concatenation puts side by side again become one part.
//!
//! Cross-stage blocks (Wang et al. 2020) split what a convolution makes, compute on with the last share, and join both shares
//! with all that follows. A share of a value has no storage of its own to be born in, so each would be copied to its place; the
//! value whole is stored there from the start, and who computes on reads its share there.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    let mut added = Vec::new();
    for node in 0..graph.nodes.len() {
        let Op::Concat { axis } = graph.nodes[node].op else { continue };
        let parts = graph.nodes[node].inputs.clone();
        let mut joined: Vec<ValueId> = Vec::with_capacity(parts.len());
        let mut at = 0;
        while at < parts.len() {
            let (count, whole) = run_of_shares(graph, &index, &parts[at..], axis);
            match whole {
                Some(share) if count > 1 => {
                    let whole = share.value(graph, axis, &graph.nodes[node].name.clone());
                    added.extend(whole.1.map(|view| (node, view)));
                    joined.push(whole.0);
                }
                _ => joined.extend(&parts[at..at + count]),
            }
            at += count;
        }
        graph.nodes[node].inputs = joined;
    }
    for (node, view) in added.into_iter().rev() {
        graph.nodes.insert(node, view);
    }
}

/// Places `start..end` of `base` along an axis, all of it along the others.
#[derive(Clone, Copy)]
struct Share {
    base: ValueId,
    start: i64,
    end: i64,
}

impl Share {
    /// The share that `value` is along `axis`.
    fn of(graph: &Graph, index: &Index, value: ValueId, axis: usize) -> Option<Share> {
        let node = &graph.nodes[index.producers[value.index()]?];
        let Op::View(ViewOp::Slice { start, step }) = &node.op else {
            return None;
        };
        let base = *node.inputs.first()?;
        let (from, to) = (graph.value(base).shape, graph.value(value).shape);
        let whole = (0..from.rank()).all(|a| a == axis || (start[a] == 0 && from.dim(a) == to.dim(a)));
        let forward = step.iter().all(|&s| s == 1);
        (whole && forward && graph.value(base).data.is_none()).then_some(Share {
            base,
            start: start[axis],
            end: start[axis] + i64::from(to.dim(axis)),
        })
    }

    /// The share as a value: the base if it is all of it, else a view of it that is still to be added.
    fn value(self, graph: &mut Graph, axis: usize, name: &str) -> (ValueId, Option<Node>) {
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

/// How many of the first parts are shares of one value that follow each other, and the share that they are together. Of parts
/// that are none it is one.
fn run_of_shares(graph: &Graph, index: &Index, parts: &[ValueId], axis: usize) -> (usize, Option<Share>) {
    let Some(first) = parts.first().and_then(|&p| Share::of(graph, index, p, axis)) else {
        return (1, None);
    };
    let mut whole = first;
    let mut count = 1;
    while let Some(next) = parts.get(count).and_then(|&p| Share::of(graph, index, p, axis))
        && next.base == whole.base
        && next.start == whole.end
    {
        whole.end = next.end;
        count += 1;
    }
    (count, Some(whole))
}
