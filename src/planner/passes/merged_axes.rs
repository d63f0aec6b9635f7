//! Products of more than a matrix a sample, `[N, .., M, K]`, by one constant matrix, and the functions of the same rows around
//! them, become those of one matrix a sample, `[N, rows, K]`: pictures whose channels come last, which is what ConvNeXt and Swin
//! Transformers compute in. The same products are summed in the same order.

use super::rewrite::{Index, broadcasted};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::Primitive;
use crate::tensor::Shape;
use std::collections::BTreeMap;

pub fn run(graph: &mut Graph) {
    let merged = merged(graph);
    if !merged.contains(&true) {
        return;
    }
    let index = Index::of(graph);
    let weights = |v: ValueId| broadcasted(graph, &index, v);
    // What products are of is looked up before the nodes move.
    let matrices: BTreeMap<ValueId, ValueId> = (graph.nodes.iter())
        .filter(|n| n.op == Op::Primitive(Primitive::MatMul))
        .map(|n| (n.inputs[1], weights(n.inputs[1])))
        .collect();
    let mut work = Merging {
        matrices,
        rows: BTreeMap::new(),
        apart: BTreeMap::new(),
        shapes: graph.values.iter().map(|v| v.shape).collect(),
        nodes: Vec::with_capacity(graph.nodes.len()),
    };
    for node in std::mem::take(&mut graph.nodes) {
        if node.outputs.iter().any(|v| merged[v.index()]) {
            work.merge(graph, node);
        } else {
            work.keep(graph, node, &merged);
        }
    }
    for at in 0..graph.outputs.len() {
        let value = graph.outputs[at].value;
        if merged[value.index()] {
            graph.outputs[at].value = work.unmerged(graph, value);
        }
    }
    graph.nodes = work.nodes;
    super::drop_dead::run(graph);
}

/// The values whose axes between the first and the last become one: what such products make, and what functions of single
/// elements or of rows make of it.
fn merged(graph: &Graph) -> Vec<bool> {
    let index = Index::of(graph);
    let mut merged = vec![false; graph.values.len()];
    for node in &graph.nodes {
        let [output] = *node.outputs.as_slice() else { continue };
        let shape = graph.value(output).shape;
        if rows(shape).is_none() {
            continue;
        }
        let last = shape.rank() - 1;
        let reads_merged = node.inputs.iter().any(|v| merged[v.index()]);
        merged[output.index()] = match &node.op {
            Op::Primitive(Primitive::MatMul) => {
                let same = graph.value(node.inputs[0]).shape.dims()[..last] == shape.dims()[..last];
                same && is_matrix(graph, &index, node.inputs[1])
            }
            Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy) => reads_merged,
            Op::Primitive(Primitive::Normalise { axis, .. } | Primitive::Softmax { axis }) => reads_merged && usize::from(*axis) == last,
            _ => false,
        };
    }
    merged
}

/// True for one constant matrix, repeated for every sample.
fn is_matrix(graph: &Graph, index: &Index, value: ValueId) -> bool {
    let source = broadcasted(graph, index, value);
    let shape = graph.value(source).shape;
    let single = shape.rank() >= 2 && shape.dims()[..shape.rank() - 2].iter().all(|&n| n == 1);
    single && strided::constant(graph, &index.producers, source).is_some()
}

/// `[n, .., m, c]` of rank 4 and up as `[n, rows, c]`.
fn rows(shape: Shape) -> Option<Shape> {
    let [first, ref between @ .., last] = *shape.dims() else {
        return None;
    };
    let rows = between.iter().try_fold(1u32, |all, &n| all.checked_mul(n))?;
    (between.len() > 1).then(|| Shape::new(&[first, rows, last])).flatten()
}

/// The graph being written anew.
struct Merging {
    /// The matrices that products are of, by their repetitions.
    matrices: BTreeMap<ValueId, ValueId>,
    /// Values that keep their axes, as merged nodes read them.
    rows: BTreeMap<ValueId, ValueId>,
    /// Merged values, as nodes that stay read them.
    apart: BTreeMap<ValueId, ValueId>,
    /// All values' shapes before.
    shapes: Vec<Shape>,
    nodes: Vec<Node>,
}

impl Merging {
    fn merge(&mut self, graph: &mut Graph, mut node: Node) {
        let product = node.op == Op::Primitive(Primitive::MatMul);
        for (at, input) in node.inputs.iter_mut().enumerate() {
            *input = match at {
                1 if product => self.matrix(graph, *input),
                _ => self.of_rows(graph, *input),
            };
        }
        for &v in &node.outputs {
            let shape = graph.value(v).shape;
            graph.values[v.index()].shape = rows(shape).unwrap_or(shape);
        }
        node.op = match node.op {
            Op::Primitive(Primitive::Normalise { epsilon, .. }) => Op::Primitive(Primitive::Normalise { axis: 2, epsilon }),
            Op::Primitive(Primitive::Softmax { .. }) => Op::Primitive(Primitive::Softmax { axis: 2 }),
            op => op,
        };
        self.nodes.push(node);
    }

    /// A node that stays: it reads merged values with all their axes.
    fn keep(&mut self, graph: &mut Graph, mut node: Node, merged: &[bool]) {
        for input in &mut node.inputs {
            if merged.get(input.index()) == Some(&true) {
                *input = self.unmerged(graph, *input);
            }
        }
        self.nodes.push(node);
    }

    /// `value` as `[n, rows, c]`; what is so already as it is.
    fn of_rows(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        let (_, shape) = graph.operand(value);
        let Some(merged) = rows(shape) else { return value };
        if let Some(&known) = self.rows.get(&value) {
            return known;
        }
        let made = self.view(graph, "rows", ViewOp::Reshape, value, merged);
        self.rows.insert(value, made);
        made
    }

    /// A merged value with all its axes.
    fn unmerged(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        if let Some(&known) = self.apart.get(&value) {
            return known;
        }
        let shape = self.shapes[value.index()];
        let made = self.view(graph, "apart", ViewOp::Reshape, value, shape);
        self.apart.insert(value, made);
        made
    }

    /// The matrix that `value` repeats, repeated for each sample alone.
    fn matrix(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        let source = self.matrices.get(&value).copied().unwrap_or(value);
        let (repeated, own) = (self.shapes[value.index()], graph.value(source).shape);
        let (samples, rank) = (repeated.dim(0), repeated.rank());
        let [depth, columns] = [repeated.dim(rank - 2), repeated.dim(rank - 1)];
        let wanted = |dims: &[u32]| Shape::new(dims).unwrap_or(own);
        let source = match own.rank() {
            2 => source,
            _ => self.view(graph, "matrix", ViewOp::Reshape, source, wanted(&[depth, columns])),
        };
        self.view(graph, "repeated", ViewOp::Broadcast, source, wanted(&[samples, depth, columns]))
    }

    fn view(&mut self, graph: &mut Graph, what: &str, op: ViewOp, from: ValueId, shape: Shape) -> ValueId {
        let name = format!("{}:{what}", graph.value(from).name);
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
