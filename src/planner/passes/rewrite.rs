//! What all passes need: who makes and who reads a value, and replacing one value by another.

use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive, Unary};

/// Producers and numbers of readers of all values, as of the moment it was made.
pub struct Index {
    /// The node that makes each value.
    pub producers: Vec<Option<usize>>,
    /// How often each value is read, graph outputs included.
    pub uses: Vec<u32>,
}

impl Index {
    /// The index of `graph`.
    pub fn of(graph: &Graph) -> Index {
        let mut uses = vec![0; graph.values.len()];
        for value in graph.nodes.iter().flat_map(|n| &n.inputs) {
            uses[value.index()] += 1;
        }
        for named in &graph.outputs {
            uses[named.value.index()] += 1;
        }
        Index {
            producers: strided::producers(graph),
            uses,
        }
    }

    /// The primitive that makes `value`, with its node's index.
    pub fn primitive<'g>(&self, graph: &'g Graph, value: ValueId) -> Option<(usize, &'g Primitive)> {
        let node = self.producers[value.index()]?;
        match &graph.nodes[node].op {
            Op::Primitive(primitive) => Some((node, primitive)),
            _ => None,
        }
    }

    /// The input of the unary function that makes `value`, with that function.
    pub fn unary(&self, graph: &Graph, value: ValueId) -> Option<(Unary, ValueId)> {
        match self.primitive(graph, value)? {
            (node, Primitive::Unary(function)) => Some((*function, graph.nodes[node].inputs[0])),
            _ => None,
        }
    }

    /// The operands of the function `kind` that makes `value`.
    pub fn operands(&self, graph: &Graph, kind: Binary, value: ValueId) -> Option<[ValueId; 2]> {
        match self.primitive(graph, value)? {
            (node, Primitive::Binary(own)) if *own == kind => graph.nodes[node].inputs[..].try_into().ok(),
            _ => None,
        }
    }

    /// What `value` is the square of: it times itself, or its second power.
    pub fn root(&self, graph: &Graph, value: ValueId) -> Option<ValueId> {
        let product = self.operands(graph, Binary::Mul, value).filter(|[a, b]| a == b);
        let power = || {
            let power = self.operands(graph, Binary::Pow, value);
            power.filter(|&[_, exponent]| self.scalar(graph, exponent) == Some(2.0))
        };
        product.or_else(power).map(|[x, _]| x)
    }

    /// What `value` looks at, and the nodes that look, the first one last.
    pub fn behind_views(&self, graph: &Graph, value: ValueId) -> (ValueId, Vec<usize>) {
        let (mut value, mut views) = (value, Vec::new());
        while let Some(node) = self.producers[value.index()].filter(|&node| matches!(graph.nodes[node].op, Op::View(_))) {
            views.push(node);
            value = graph.nodes[node].inputs[0];
        }
        (value, views)
    }

    /// The one number that all elements of `value` are, if it is a constant, or views of one, of equal floats.
    pub fn scalar(&self, graph: &Graph, value: ValueId) -> Option<f32> {
        let (tensor, _) = strided::constant(graph, &self.producers, value)?;
        let first = tensor.get_f64(0)?;
        let equal = tensor.dtype().is_float() && (1..tensor.len()).all(|i| tensor.get_f64(i) == Some(first));
        equal.then_some(first as f32)
    }
}

/// Changes what `find` finds at one node after another by `apply`, which may put nodes before it; then drops what nobody reads.
pub fn at_each_node<T>(graph: &mut Graph, find: impl Fn(&Graph, &Index, usize) -> Option<T>, apply: impl Fn(&mut Graph, T)) {
    let mut index = Index::of(graph);
    let mut node = 0;
    while node < graph.nodes.len() {
        if let Some(found) = find(graph, &index, node) {
            apply(graph, found);
            index = Index::of(graph);
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

/// What `value` is repeated from; itself if it is no repetition.
pub fn broadcasted(graph: &Graph, index: &Index, value: ValueId) -> ValueId {
    match index.producers[value.index()].map(|node| &graph.nodes[node]) {
        Some(node) if node.op == Op::View(ViewOp::Broadcast) => node.inputs[0],
        _ => value,
    }
}

/// Lets every reader of `old`, the graph's outputs included, read `new`.
pub fn replace(graph: &mut Graph, old: ValueId, new: ValueId) {
    for input in graph.nodes.iter_mut().flat_map(|n| &mut n.inputs).filter(|v| **v == old) {
        *input = new;
    }
    for named in graph.outputs.iter_mut().filter(|n| n.value == old) {
        named.value = new;
    }
}

/// Runs of so many elements with zeros behind each, `whole` elements from run to run.
pub fn zeros_behind(elements: &[f32], run: usize, whole: usize) -> Vec<f32> {
    let mut all = Vec::with_capacity(elements.len() / run.max(1) * whole);
    for own in elements.chunks(run.max(1)) {
        all.extend_from_slice(own);
        all.resize(all.len() + whole - run, 0.0);
    }
    all
}
