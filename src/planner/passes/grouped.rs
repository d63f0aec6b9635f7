//! Convolutions in groups of channels become convolutions of all channels, or of blocks of groups side by side, with zeros
//! where a group does not look: tensor cores multiply by zeros faster than other units do without. For GPUs.
//!
//! Exact for finite numbers: a product with zero adds nothing.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::Primitive;
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Multiplications of one convolution, zeros included, above which its groups are cut into blocks: some six microseconds.
const MAX_PRODUCTS: u64 = 3 << 29;
/// Channels that a block has at least.
const MIN_CHANNELS: u32 = 64;
/// Elements of the weights with their zeros: 64 MB of halves.
const MAX_WEIGHTS: u64 = 32 << 20;

pub fn run(graph: &mut Graph) {
    let mut node = 0;
    while node < graph.nodes.len() {
        if let Some(form) = find(graph, node) {
            node += apply(graph, node, &form);
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

/// A convolution in groups, and the number of blocks that its groups are joined to.
struct Form {
    weights: Tensor,
    bias: Option<Tensor>,
    groups: u32,
    blocks: u32,
}

fn find(graph: &Graph, node: usize) -> Option<Form> {
    let Op::Primitive(Primitive::Conv { window, groups }) = graph.nodes[node].op else {
        return None;
    };
    let inputs = &graph.nodes[node].inputs;
    let (x, y) = (graph.value(inputs[0]).shape, graph.value(graph.nodes[node].outputs[0]).shape);
    let float = graph.value(inputs[0]).dtype.is_float();
    // One channel in and out of each group is what depthwise kernels are for; there are none where a channel makes several.
    let depthwise = x.dim(1) == groups && y.dim(1) == groups;
    if groups < 2 || depthwise || window.axes != 2 || !float || y.elements() == 0 {
        return None;
    }
    let index = Index::of(graph);
    let whole = |value: ValueId| {
        let (tensor, at) = strided::constant(graph, &index.producers, value)?;
        strided::gather(&tensor, &at)
    };
    let weights = whole(inputs[1])?;
    let bias = match inputs.get(2) {
        Some(&bias) => Some(whole(bias)?),
        None => None,
    };
    let dense = u64::from(x.dim(1)) * u64::from(y.dim(1)) * window.taps();
    let pixels = y.elements() / u64::from(y.dim(1));
    let products = dense.checked_mul(pixels)?;
    let narrow = x.dim(1).min(y.dim(1));
    let divides = |blocks: &u32| groups.is_multiple_of(*blocks);
    let enough = |blocks: &u32| products / u64::from(*blocks) <= MAX_PRODUCTS && dense / u64::from(*blocks) <= MAX_WEIGHTS;
    let wide = |blocks: &u32| narrow / blocks >= MIN_CHANNELS;
    let candidates = (1..=groups).filter(divides).filter(|b| *b == 1 || wide(b));
    let blocks = candidates.clone().find(enough).or_else(|| candidates.clone().next_back())?;
    (dense / u64::from(blocks) <= MAX_WEIGHTS).then_some(Form {
        weights,
        bias,
        groups,
        blocks,
    })
}

/// The weights of block `block` with zeros between its groups.
fn spread(form: &Form, block: u32) -> Option<Tensor> {
    let shape = form.weights.shape();
    let &[outputs, inputs, ..] = shape.dims() else { return None };
    let taps: usize = shape.dims()[2..].iter().map(|&d| d as usize).product();
    let (each, joined) = (outputs / form.groups, form.groups / form.blocks);
    let run = inputs as usize * taps * form.weights.dtype().bytes() as usize;
    let rows = each * joined;
    let mut bytes = vec![0u8; rows as usize * joined as usize * run];
    for row in 0..rows {
        let from = (block * rows + row) as usize * run;
        let to = (row as usize * joined as usize + (row / each) as usize) * run;
        bytes
            .get_mut(to..to + run)?
            .copy_from_slice(form.weights.bytes().get(from..from + run)?);
    }
    let mut dims = shape.dims().to_vec();
    (dims[0], dims[1]) = (rows, inputs * joined);
    Tensor::from_bytes(form.weights.dtype(), Shape::new(&dims)?, &bytes)
}

/// Writes the convolution anew; says how many nodes that put before its place.
fn apply(graph: &mut Graph, node: usize, form: &Form) -> usize {
    let Some(weights) = (0..form.blocks).map(|b| spread(form, b)).collect::<Option<Vec<_>>>() else {
        return 0;
    };
    let Op::Primitive(Primitive::Conv { window, .. }) = graph.nodes[node].op else {
        return 0;
    };
    let conv = Op::Primitive(Primitive::Conv { window, groups: 1 });
    let (name, inputs) = (graph.nodes[node].name.clone(), graph.nodes[node].inputs.clone());
    if let [weights] = &weights[..] {
        let weights = graph.add_constant(format!("{name}:dense"), Arc::new(weights.clone()));
        graph.nodes[node].op = conv;
        graph.nodes[node].inputs[1] = weights;
        return 0;
    }
    let output = graph.nodes[node].outputs[0];
    let ((dtype, x), y) = (graph.operand(inputs[0]), graph.value(output).shape);
    let (wide, narrow) = (x.dim(1) / form.blocks, y.dim(1) / form.blocks);
    let (Some(part_in), Some(part_out)) = (x.with_dim(1, wide), y.with_dim(1, narrow)) else {
        return 0;
    };
    let mut nodes = Vec::new();
    let mut parts = Vec::new();
    for (block, weights) in weights.into_iter().enumerate() {
        let name = format!("{name}:{block}");
        let part = graph.add_value(format!("{name}:x"), dtype, part_in);
        let mut start = vec![0i64; x.rank()];
        start[1] = block as i64 * i64::from(wide);
        nodes.push(Node {
            name: name.clone(),
            op: Op::View(ViewOp::Slice {
                start,
                step: vec![1; x.rank()],
            }),
            inputs: vec![inputs[0]],
            outputs: vec![part],
        });
        let mut operands = vec![part, graph.add_constant(format!("{name}:w"), Arc::new(weights))];
        if let Some(bias) = form.bias.as_ref().and_then(|bias| share(bias, block, narrow)) {
            operands.push(graph.add_constant(format!("{name}:bias"), Arc::new(bias)));
        }
        let made = graph.add_value(format!("{name}:y"), dtype, part_out);
        nodes.push(Node {
            name,
            op: conv.clone(),
            inputs: operands,
            outputs: vec![made],
        });
        parts.push(made);
    }
    let before = nodes.len();
    graph.nodes[node].op = Op::Concat { axis: 1 };
    graph.nodes[node].inputs = parts;
    graph.nodes.splice(node..node, nodes);
    before
}

/// The bias of one block of `count` channels.
fn share(bias: &Tensor, block: usize, count: u32) -> Option<Tensor> {
    let run = count as usize * bias.dtype().bytes() as usize;
    let bytes = bias.bytes().get(block * run..(block + 1) * run)?;
    Tensor::from_bytes(bias.dtype(), Shape::new(&[count])?, bytes)
}
