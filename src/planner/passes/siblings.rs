//! Products of one matrix with several constant ones, as queries, keys and values are, become one product with all their columns,
//! of which each reader sees its own.
//!
//! Every element is computed as before. Only where views read the results, or several nodes do, or a reduction: no function that could
//! follow its product in one operator loses it.

use super::fold_batchnorm::{plain_bias, plain_weights, repeated};
use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::Primitive;
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// Columns begin at multiples of this, so that rows stay runs of whole pieces of 16 bytes in f16.
const PIECE: u32 = 8;
/// Most columns of one product: beyond it a product fills a GPU on its own.
const MAX_COLUMNS: u32 = 8192;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, siblings, apply);
}

/// A product with constants: its weights `[K,N]` and its bias.
struct Product {
    node: usize,
    weights: Tensor,
    bias: Option<Vec<f32>>,
}

impl Product {
    fn columns(&self) -> u32 {
        self.weights.shape().dim(1)
    }
}

/// The products of the matrix that `first` reads, `first` being the first of several; all lie behind it.
fn siblings(graph: &Graph, index: &Index, first: usize) -> Option<Vec<Product>> {
    let head = product(graph, index, first)?;
    let x = graph.nodes[first].inputs[0];
    let rows = |node: usize| graph.value(graph.nodes[node].outputs[0]).shape.with_dim(last(graph, node), 1);
    let mut columns = head.columns();
    let mut all = vec![head];
    for node in first + 1..graph.nodes.len() {
        if graph.nodes[node].inputs.first() != Some(&x) || rows(node) != rows(first) {
            continue;
        }
        let Some(next) = product(graph, index, node) else { continue };
        if columns + next.columns() <= MAX_COLUMNS {
            columns += next.columns();
            all.push(next);
        }
    }
    (all.len() > 1).then_some(all)
}

fn last(graph: &Graph, node: usize) -> usize {
    graph.value(graph.nodes[node].outputs[0]).shape.rank().saturating_sub(1)
}

/// A product of several rows with constants in f32, which no function follows in one operator.
fn product(graph: &Graph, index: &Index, node: usize) -> Option<Product> {
    let it = &graph.nodes[node];
    let made = *it.outputs.first()?;
    let several = index.uses[made.index()] > 1;
    let takes_a_share = |reader: &Node| match &reader.op {
        Op::View(_) => true,
        Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)) => several,
        Op::Primitive(Primitive::Reduce { .. } | Primitive::Normalise { .. } | Primitive::RmsNormalise { .. }) => true,
        _ => false,
    };
    let read_in_shares = || {
        let mut readers = graph.nodes.iter().filter(|n| n.inputs.contains(&made)).peekable();
        readers.peek().is_some() && readers.all(takes_a_share) && !graph.is_result(made)
    };
    let matrix = it.op == Op::Primitive(Primitive::MatMul) && graph.value(made).shape.rank() == 3;
    if !matrix || !read_in_shares() {
        return None;
    }
    let weights = plain_weights(graph, index, it, &Primitive::MatMul)?;
    let bias = plain_bias(graph, index, it, &Primitive::MatMul)?;
    let fits = weights.dtype() == DType::F32 && weights.shape().dim(1).is_multiple_of(PIECE);
    fits.then_some(Product { node, weights, bias })
}

/// Puts one product before the first of them and a view in the place of each.
fn apply(graph: &mut Graph, found: Vec<Product>) {
    let first = found[0].node;
    let (x, name) = (graph.nodes[first].inputs[0], format!("{}.joined", graph.nodes[first].name));
    let columns: u32 = found.iter().map(Product::columns).sum();
    let shape = graph.value(graph.nodes[first].outputs[0]).shape;
    let rank = shape.rank();
    let depth = found[0].weights.shape().dim(0);
    let one = graph.value(graph.nodes[first].inputs[1]).shape;
    let (Some(made_shape), Some(matrix), Some(whole), Some(row)) = (
        shape.with_dim(rank - 1, columns),
        Shape::new(&[depth, columns]),
        one.with_dim(rank - 1, columns),
        Shape::new(&[columns]),
    ) else {
        return;
    };
    let (Some(weights), bias) = (joined(&found, matrix), joined_bias(&found, row)) else {
        return;
    };
    let mut before: Vec<Node> = Vec::new();
    let base = graph.add_constant(format!("{name}.weights"), Arc::new(weights));
    let mut inputs = vec![x, repeated(graph, &mut before, base, whole)];
    if let Some(bias) = bias {
        let base = graph.add_constant(format!("{name}.bias"), Arc::new(bias));
        inputs.push(repeated(graph, &mut before, base, made_shape));
    }
    let made: ValueId = graph.add_value(name.clone(), graph.value(x).dtype, made_shape);
    before.push(Node {
        name,
        op: Op::Primitive(Primitive::MatMul),
        inputs,
        outputs: vec![made],
    });
    let mut start = 0;
    for product in &found {
        let node = &mut graph.nodes[product.node];
        node.op = Op::View(ViewOp::band(rank, rank - 1, i64::from(start)));
        node.inputs = vec![made];
        start += product.columns();
    }
    graph.nodes.splice(first..first, before);
}

/// The matrices beside each other.
fn joined(found: &[Product], shape: Shape) -> Option<Tensor> {
    let parts: Option<Vec<(&[f32], usize)>> = found.iter().map(|p| Some((p.weights.as_f32()?, p.columns() as usize))).collect();
    let parts = parts?;
    let mut elements = Vec::with_capacity(usize::try_from(shape.elements()).ok()?);
    for row in 0..shape.dim(0) as usize {
        for (part, columns) in &parts {
            elements.extend_from_slice(part.get(row * columns..(row + 1) * columns)?);
        }
    }
    Tensor::new(shape, Data::F32(elements))
}

/// The biases behind each other, zeros for those that have none; `None` where none has.
fn joined_bias(found: &[Product], shape: Shape) -> Option<Tensor> {
    found.iter().any(|p| p.bias.is_some()).then_some(())?;
    let none = |p: &Product| vec![0.0; p.columns() as usize];
    let elements = found.iter().flat_map(|p| p.bias.clone().unwrap_or_else(|| none(p))).collect();
    Tensor::new(shape, Data::F32(elements))
}
