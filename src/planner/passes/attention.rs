//! `softmax(scale * Q K + mask) V` along the keys, as exporters spell it, becomes [`Primitive::Attention`].

use super::rewrite::Index;
use crate::plan::tactic::MAX_ATTENTION_WIDTH;
use crate::plan::tactic::attention::MAX_DEPTH;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Primitive, Scalar};
use crate::tensor::Shape;

/// What the kernels of a target take.
#[derive(Clone, Copy)]
struct Limits {
    /// Most elements of a key.
    depth: u32,
    /// Most elements of a value.
    width: u32,
    /// Most keys.
    keys: u32,
    /// Masks, and products that were exported the other way round.
    any_form: bool,
}

/// Longer rows of scores are worth storing where products are computed in blocks of queries, as they are on a CPU.
const SHORT: Limits = Limits {
    depth: MAX_ATTENTION_WIDTH,
    width: MAX_ATTENTION_WIDTH,
    keys: 512,
    any_form: false,
};

/// On tensor cores the matrix is never worth storing.
const LONG: Limits = Limits {
    depth: MAX_DEPTH,
    width: u32::MAX,
    keys: u32::MAX,
    any_form: true,
};

/// What any target's kernels take.
pub fn run(graph: &mut Graph) {
    rewrite(graph, SHORT);
}

/// What kernels on tensor cores take.
pub fn run_long(graph: &mut Graph) {
    rewrite(graph, LONG);
}

fn rewrite(graph: &mut Graph, limits: Limits) {
    let mut index = Index::of(graph);
    let mut node = 0;
    while node < graph.nodes.len() {
        if let Some(found) = attention(graph, &index, node, limits) {
            node += apply(graph, node, found);
            index = Index::of(graph);
        }
        node += 1;
    }
    super::drop_dead::run(graph);
}

/// What a product of a softmax of a product is.
struct Found {
    /// Queries, keys, values, and a mask, if any; values in the order in which the product reads them.
    inputs: Vec<ValueId>,
    scale: f32,
    /// The product is `V^T softmax^T`, where attention gives `softmax V`.
    turned: bool,
}

/// The attention that ends with `node`, whose matrices nobody else reads.
fn attention(graph: &Graph, index: &Index, node: usize, limits: Limits) -> Option<Found> {
    let Op::Primitive(Primitive::MatMul) = graph.nodes[node].op else {
        return None;
    };
    let [left, right] = graph.nodes[node].inputs[..] else {
        return None;
    };
    let alone = |value: ValueId| index.uses[value.index()] == 1;
    let rank = graph.value(left).shape.rank();
    let last = rank.checked_sub(1)?;
    let softmax = |shares: ValueId| match index.primitive(graph, shares) {
        Some((softmax, Primitive::Softmax { axis })) if usize::from(*axis) == last && alone(shares) => Some(softmax),
        _ => None,
    };
    let (softmax, values, turned) = match softmax(left) {
        Some(softmax) => (softmax, right, false),
        None => {
            let turn = &graph.nodes[index.producers[right.index()].filter(|_| limits.any_form && alone(right))?];
            let turns = matches!(&turn.op, Op::View(ViewOp::Transpose { perm }) if *perm == swapped(rank));
            (softmax(*turn.inputs.first().filter(|_| turns)?)?, left, true)
        }
    };
    let scores = graph.nodes[softmax].inputs[0];
    let shape = |value: ValueId| graph.value(value).shape;
    let of_product = |value: ValueId| product(graph, index, value, alone);
    let (product, mask) = match of_product(scores) {
        Some(product) => (product, None),
        None => {
            let [a, b] = index
                .operands(graph, Binary::Add, scores)
                .filter(|_| limits.any_form && alone(scores))?;
            let whole = |mask: ValueId| shape(mask) == shape(scores);
            match (of_product(a).filter(|_| whole(b)), of_product(b).filter(|_| whole(a))) {
                (Some(product), _) => (product, Some(b)),
                (None, Some(product)) => (product, Some(a)),
                (None, None) => return None,
            }
        }
    };
    let (queries, keys, scale) = product;
    let (depth, count) = (shape(queries).dim(last), shape(keys).dim(last));
    let width = shape(values).dim(if turned { last - 1 } else { last });
    let fits = depth <= limits.depth && width <= limits.width && (1..=limits.keys).contains(&count);
    (fits && scale.is_finite()).then(|| Found {
        inputs: [queries, keys, values].into_iter().chain(mask).collect(),
        scale,
        turned,
    })
}

/// Queries, keys and scale of the scores that `value` is, if it is a product that nobody else reads.
fn product(graph: &Graph, index: &Index, value: ValueId, alone: impl Fn(ValueId) -> bool) -> Option<(ValueId, ValueId, f32)> {
    let (scores, scale) = scaled(graph, index, value, &alone);
    let (product, Primitive::MatMul) = index.primitive(graph, scores)? else {
        return None;
    };
    let [queries, keys] = graph.nodes[product].inputs[..] else {
        return None;
    };
    let always = |_| true;
    let (queries, of_queries) = scaled(graph, index, queries, always);
    let (keys, of_keys) = scaled(graph, index, keys, always);
    alone(scores).then_some((queries, keys, scale * of_queries * of_keys))
}

/// Puts the attention in the place of `node`; says how many nodes that put before it.
fn apply(graph: &mut Graph, node: usize, found: Found) -> usize {
    let op = Op::Primitive(Primitive::Attention {
        scale: Scalar(found.scale),
    });
    if !found.turned {
        (graph.nodes[node].op, graph.nodes[node].inputs) = (op, found.inputs);
        return 0;
    }
    let (name, values) = (graph.nodes[node].name.clone(), found.inputs[2]);
    let result = graph.nodes[node].outputs[0];
    let perm = swapped(graph.value(result).shape.rank());
    let shapes = [values, result].map(|v| turned(graph.value(v).shape, &perm));
    let [Some(values_shape), Some(made_shape)] = shapes else { return 0 };
    let dtype = graph.value(result).dtype;
    let turned_values = graph.add_value(format!("{name}.values"), graph.value(values).dtype, values_shape);
    let made = graph.add_value(format!("{name}.attention"), dtype, made_shape);
    let mut inputs = found.inputs;
    inputs[2] = turned_values;
    let before = [
        Node {
            name: format!("{name}.values"),
            op: Op::View(ViewOp::Transpose { perm: perm.clone() }),
            inputs: vec![values],
            outputs: vec![turned_values],
        },
        Node {
            name: name.clone(),
            op,
            inputs,
            outputs: vec![made],
        },
    ];
    graph.nodes[node].op = Op::View(ViewOp::Transpose { perm });
    graph.nodes[node].inputs = vec![made];
    graph.nodes.splice(node..node, before);
    2
}

/// The order of axes that turns matrices.
fn swapped(rank: usize) -> Vec<usize> {
    let mut perm: Vec<usize> = (0..rank).collect();
    if rank >= 2 {
        perm.swap(rank - 2, rank - 1);
    }
    perm
}

fn turned(shape: Shape, perm: &[usize]) -> Option<Shape> {
    Shape::new(&perm.iter().map(|&axis| shape.dim(axis)).collect::<Vec<_>>())
}

/// `value` without the constant factors that it is multiplied by, and their product. Looks through what `passes` only.
fn scaled(graph: &Graph, index: &Index, value: ValueId, passes: impl Fn(ValueId) -> bool) -> (ValueId, f32) {
    let (mut value, mut scale) = (value, 1.0);
    while passes(value) {
        let factor = |x| index.scalar(graph, x);
        let product = index.operands(graph, Binary::Mul, value).and_then(|[a, b]| match factor(b) {
            Some(f) => Some((a, f)),
            None => factor(a).map(|f| (b, f)),
        });
        let quotient = || {
            index
                .operands(graph, Binary::Div, value)
                .and_then(|[a, b]| factor(b).map(|f| (a, 1.0 / f)))
        };
        let Some((inner, factor)) = product.or_else(quotient) else { break };
        (value, scale) = (inner, scale * factor);
    }
    (value, scale)
}
