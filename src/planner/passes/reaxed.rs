//! A graph written anew in which some values have other axes, of the same elements in the same order: views lead from one side to
//! the other.

use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::tensor::{Shape, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The graph being written.
pub struct Reaxed {
    /// The values that get other axes, by index; values that are made meanwhile do not.
    changed: Vec<bool>,
    /// The shape that a value gets or is read in; `None` for shapes that stay.
    shape: fn(Shape) -> Option<Shape>,
    /// All values' shapes before.
    before: Vec<Shape>,
    /// Values that stay, as changed nodes read them.
    inside: BTreeMap<ValueId, ValueId>,
    /// Changed values, as nodes that stay read them.
    outside: BTreeMap<ValueId, ValueId>,
    nodes: Vec<Node>,
}

/// Gives the values `changed` the axes that `shape` makes of theirs. `rewrite` does a changed node: its inputs through
/// [`Reaxed::read`], what its operation says of axes; its outputs get their new shapes afterwards.
pub fn run(
    graph: &mut Graph,
    changed: Vec<bool>,
    shape: fn(Shape) -> Option<Shape>,
    mut rewrite: impl FnMut(&mut Reaxed, &mut Graph, &mut Node),
) {
    if !changed.contains(&true) {
        return;
    }
    let mut work = Reaxed {
        changed,
        shape,
        before: graph.values.iter().map(|v| v.shape).collect(),
        inside: BTreeMap::new(),
        outside: BTreeMap::new(),
        nodes: Vec::with_capacity(graph.nodes.len()),
    };
    for mut node in std::mem::take(&mut graph.nodes) {
        if node.outputs.iter().any(|v| work.is_changed(*v)) {
            rewrite(&mut work, graph, &mut node);
            for &v in &node.outputs {
                let before = graph.value(v).shape;
                graph.values[v.index()].shape = shape(before).unwrap_or(before);
            }
        } else {
            node.inputs.iter_mut().for_each(|v| *v = work.restored(graph, *v));
        }
        work.nodes.push(node);
    }
    for at in 0..graph.outputs.len() {
        graph.outputs[at].value = work.restored(graph, graph.outputs[at].value);
    }
    graph.nodes = work.nodes;
    super::drop_dead::run(graph);
}

impl Reaxed {
    fn is_changed(&self, value: ValueId) -> bool {
        self.changed.get(value.index()) == Some(&true)
    }

    /// The shape that `value` had before.
    pub fn before(&self, value: ValueId) -> Shape {
        self.before[value.index()]
    }

    /// `value` as changed nodes read it.
    pub fn read(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        let Some(shape) = (self.shape)(graph.value(value).shape).filter(|_| !self.is_changed(value)) else {
            return value;
        };
        if let Some(&known) = self.inside.get(&value) {
            return known;
        }
        let data = graph.value(value).data.clone();
        let made = match data.and_then(|t| Tensor::from_bytes(t.dtype(), shape, t.bytes())) {
            Some(tensor) => graph.add_constant(format!("{}:inside", graph.value(value).name), Arc::new(tensor)),
            None => self.view(graph, ViewOp::Reshape, value, shape),
        };
        self.inside.insert(value, made);
        made
    }

    /// `value` with the axes that it had.
    fn restored(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        if !self.is_changed(value) {
            return value;
        }
        if let Some(&known) = self.outside.get(&value) {
            return known;
        }
        let made = self.view(graph, ViewOp::Reshape, value, self.before(value));
        self.outside.insert(value, made);
        made
    }

    /// A view of `from`, in front of the node that is being rewritten.
    pub fn view(&mut self, graph: &mut Graph, op: ViewOp, from: ValueId, shape: Shape) -> ValueId {
        let name = format!("{}:{}", graph.value(from).name, shape);
        let made = graph.add_value(name.clone(), graph.value(from).dtype, shape);
        self.nodes.push(Node {
            name,
            op: Op::View(op),
            inputs: vec![from],
            outputs: vec![made],
        });
        made
    }
}
