//! Products of more than a matrix a sample, `[N, .., M, K]`, by one constant matrix, and the functions of the same rows around
//! them, become those of one matrix a sample, `[N, rows, K]`: pictures whose channels come last, which is what ConvNeXt and Swin
//! Transformers compute in. The same products are summed in the same order.

use super::reaxed::{self, Reaxed};
use super::rewrite::{Index, broadcasted};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::Primitive;
use crate::tensor::Shape;
use std::collections::BTreeMap;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    let (merged, matrices) = (merged(graph, &index), matrices(graph, &index));
    reaxed::run(graph, merged, rows, |work, graph, node| {
        let product = node.op == Op::Primitive(Primitive::MatMul);
        for (at, input) in node.inputs.iter_mut().enumerate() {
            *input = match matrices.get(input).filter(|_| product && at == 1) {
                Some(&source) => repeated(work, graph, source, *input),
                None => work.read(graph, *input),
            };
        }
        merge(node);
    });
}

/// What the second factors of products repeat.
fn matrices(graph: &Graph, index: &Index) -> BTreeMap<ValueId, ValueId> {
    let products = graph.nodes.iter().filter(|n| n.op == Op::Primitive(Primitive::MatMul));
    products.map(|n| (n.inputs[1], broadcasted(graph, index, n.inputs[1]))).collect()
}

/// The values whose axes between the first and the last become one: what such products make, and what functions of single
/// elements or of rows make of it.
fn merged(graph: &Graph, index: &Index) -> Vec<bool> {
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
                same && is_matrix(graph, index, node.inputs[1])
            }
            Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy) => reads_merged,
            Op::Primitive(Primitive::Normalise { axis, .. } | Primitive::RmsNormalise { axis, .. } | Primitive::Softmax { axis }) => {
                reads_merged && usize::from(*axis) == last
            }
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

/// The matrix `source`, which `value` repeats, repeated for each sample alone.
fn repeated(work: &mut Reaxed, graph: &mut Graph, source: ValueId, value: ValueId) -> ValueId {
    let (whole, own) = (work.before(value), graph.value(source).shape);
    let (samples, rank) = (whole.dim(0), whole.rank());
    let [depth, columns] = [whole.dim(rank - 2), whole.dim(rank - 1)];
    let shape = |dims: &[u32]| Shape::new(dims).unwrap_or(own);
    let matrix = match own.rank() {
        2 => source,
        _ => work.view(graph, ViewOp::Reshape, source, shape(&[depth, columns])),
    };
    work.view(graph, ViewOp::Broadcast, matrix, shape(&[samples, depth, columns]))
}

/// A function of rows as that of the last of three axes.
fn merge(node: &mut Node) {
    if let Op::Primitive(Primitive::Normalise { axis, .. } | Primitive::RmsNormalise { axis, .. } | Primitive::Softmax { axis }) =
        &mut node.op
    {
        *axis = 2;
    }
}
