//! Heads of attention whose elements fill no whole pieces of 16 bytes get columns of zeros behind them, in the product that makes them:
//! every head's rows then begin where copy engines take them (MobileViT's heads of 36 and 60 elements, Mehta and Rastegari 2022).
//! Readers see a head's own elements, each computed as before.

use super::fold_batchnorm::{plain_bias, plain_weights, repeated};
use super::rewrite::{Index, at_each_node, zeros_behind};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::Primitive;
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// Elements of a piece: 16 bytes of f16.
const PIECE: u32 = 8;
/// Elements of a head that may get some behind them: to fewer they would add too much, and larger ones have no kernel that copies them.
const HEADS: std::ops::RangeInclusive<u32> = 12..=128;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A product with constants of which shares are read head by head.
struct Found {
    product: usize,
    weights: Tensor,
    bias: Option<Vec<f32>>,
    /// Elements of a head.
    head: u32,
    shares: Vec<Share>,
}

/// Neighbouring columns that a reshape cuts into heads.
struct Share {
    /// The view of the columns; `None` where these are all.
    slice: Option<usize>,
    reshape: usize,
    /// The first column, and how many there are.
    start: u32,
    columns: u32,
}

fn find(graph: &Graph, index: &Index, product: usize) -> Option<Found> {
    let node = &graph.nodes[product];
    let matrix = node.op == Op::Primitive(Primitive::MatMul);
    let made = *node.outputs.first()?;
    let shape = graph.value(made).shape;
    if !matrix || shape.rank() != 3 || graph.is_result(made) {
        return None;
    }
    let shares: Option<Vec<Share>> = readers(graph, made).map(|reader| share(graph, index, made, reader)).collect();
    let shares = shares.filter(|shares| !shares.is_empty())?;
    let last = |share: &Share| graph.value(graph.nodes[share.reshape].outputs[0]).shape.dims().last().copied();
    let head = shares.first().and_then(last)?;
    let whole = |n: u32| n.is_multiple_of(head);
    let alike = |share: &Share| last(share) == Some(head) && whole(share.start) && whole(share.columns);
    let attended = || shares.iter().any(|share| is_attended(graph, graph.nodes[share.reshape].outputs[0]));
    if !HEADS.contains(&head) || head.is_multiple_of(PIECE) || !whole(shape.dim(2)) || !shares.iter().all(alike) || !attended() {
        return None;
    }
    let weights = plain_weights(graph, index, node, &Primitive::MatMul).filter(|w| w.dtype() == DType::F32)?;
    let bias = plain_bias(graph, index, node, &Primitive::MatMul)?;
    Some(Found {
        product,
        weights,
        bias,
        head,
        shares,
    })
}

fn readers(graph: &Graph, value: ValueId) -> impl Iterator<Item = usize> + '_ {
    (0..graph.nodes.len()).filter(move |&node| graph.nodes[node].inputs.contains(&value))
}

/// The share that a reader of the product sees.
fn share(graph: &Graph, index: &Index, made: ValueId, reader: usize) -> Option<Share> {
    let whole = graph.value(made).shape;
    let node = &graph.nodes[reader];
    let (slice, value, start) = match &node.op {
        Op::View(ViewOp::Slice { start, step }) => {
            let along = start[..2] == [0, 0] && step.iter().all(|&s| s == 1);
            let value = node.outputs[0];
            let rows = graph.value(value).shape.dims()[..2] == whole.dims()[..2];
            (along && rows && index.uses[value.index()] == 1).then_some((Some(reader), value, u32::try_from(start[2]).ok()?))?
        }
        _ => (None, made, 0),
    };
    let reshape = match slice {
        Some(_) => readers(graph, value).next()?,
        None => reader,
    };
    let node = &graph.nodes[reshape];
    let [from, to] = [node.inputs[0], *node.outputs.first()?].map(|v| graph.value(v).shape);
    let cuts = node.op == Op::View(ViewOp::Reshape) && to.rank() > 3 && to.dims()[..2] == from.dims()[..2];
    cuts.then_some(Share {
        slice,
        reshape,
        start,
        columns: from.dim(2),
    })
}

/// True if attention reads the value, or views of it.
fn is_attended(graph: &Graph, value: ValueId) -> bool {
    readers(graph, value).any(|node| match &graph.nodes[node].op {
        Op::Primitive(Primitive::Attention { .. }) => true,
        Op::View(_) => graph.nodes[node].outputs.iter().any(|&v| is_attended(graph, v)),
        _ => false,
    })
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { product, head, shares, .. } = &found;
    let (pitch, head) = (head.next_multiple_of(PIECE), *head);
    let spaced = |columns: u32| columns / head * pitch;
    let node = graph.nodes[*product].clone();
    let (made, one) = (graph.value(node.outputs[0]).shape, graph.value(node.inputs[1]).shape);
    let columns = spaced(made.dim(2));
    let (Some(whole), Some(repeats)) = (made.with_dim(2, columns), one.with_dim(one.rank() - 1, columns)) else {
        return;
    };
    let Some((weights, bias)) = widened(&found, pitch) else { return };
    let mut before = Vec::new();
    let name = format!("{}.spaced", node.name);
    let base = graph.add_constant(format!("{name}.weights"), Arc::new(weights));
    let mut inputs = vec![node.inputs[0], repeated(graph, &mut before, base, repeats)];
    if let Some(bias) = bias {
        let base = graph.add_constant(format!("{name}.bias"), Arc::new(bias));
        inputs.push(repeated(graph, &mut before, base, whole));
    }
    let dtype = graph.value(node.outputs[0]).dtype;
    let output = graph.add_value(name.clone(), dtype, whole);
    before.push(Node {
        name,
        op: node.op.clone(),
        inputs,
        outputs: vec![output],
    });
    // Behind their product, so from the last reshape on: places in front stay.
    let mut order: Vec<&Share> = shares.iter().collect();
    order.sort_by_key(|share| std::cmp::Reverse(share.reshape));
    for share in order {
        let cut = graph.nodes[share.reshape].clone();
        let own = graph.value(cut.outputs[0]).shape;
        let rank = own.rank();
        let (Some(of), Some(heads)) = (made.with_dim(2, spaced(share.columns)), own.with_dim(rank - 1, pitch)) else {
            return;
        };
        let mut views = Vec::new();
        let mut value = output;
        let steps = [
            share
                .slice
                .map(|_| (ViewOp::band(3, 2, i64::from(spaced(share.start))), of, "columns")),
            Some((ViewOp::Reshape, heads, "heads")),
        ];
        for (view, shape, what) in steps.into_iter().flatten() {
            let seen = graph.add_value(format!("{}.{what}", cut.name), dtype, shape);
            views.push(Node {
                name: format!("{}.{what}", cut.name),
                op: Op::View(view),
                inputs: vec![value],
                outputs: vec![seen],
            });
            value = seen;
        }
        let own_elements = &mut graph.nodes[share.reshape];
        own_elements.op = Op::View(ViewOp::band(rank, rank - 1, 0));
        own_elements.inputs = vec![value];
        graph.nodes.splice(share.reshape..share.reshape, views);
    }
    graph.nodes.splice(*product..*product, before);
}

/// The weights `[K, heads x pitch]` and the bias, with zeros behind each head.
fn widened(found: &Found, pitch: u32) -> Option<(Tensor, Option<Tensor>)> {
    let with_zeros = |elements: &[f32]| zeros_behind(elements, found.head as usize, pitch as usize);
    let shape = found.weights.shape();
    let columns = shape.dim(1) / found.head * pitch;
    let weights = Tensor::new(shape.with_dim(1, columns)?, Data::F32(with_zeros(found.weights.as_f32()?)))?;
    let bias = match &found.bias {
        Some(bias) => Some(Tensor::new(Shape::new(&[columns])?, Data::F32(with_zeros(bias)))?),
        None => None,
    };
    Some((weights, bias))
}
