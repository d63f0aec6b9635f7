//! `x / 2 * (1 + erf(x / sqrt(2)))`, as exporters spell it, becomes [`Unary::Gelu`], and its approximation with a hyperbolic tangent
//! (Hendrycks and Gimpel 2016, section 2) [`Unary::GeluTanh`].

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Binary, Primitive, Unary};
use std::f32::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

/// Functions that a polynomial is followed through.
const DEPTH: u32 = 8;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Some((x, function)) = gelu(graph, &index, node) else { continue };
        graph.nodes[node].op = Op::Primitive(Primitive::Unary(function));
        graph.nodes[node].inputs = vec![x];
    }
    super::drop_dead::run(graph);
}

/// The input, if `node` is the product of it, of one half, and of `1 + erf(x / sqrt(2))` or its like, in any order.
fn gelu(graph: &Graph, index: &Index, node: usize) -> Option<(ValueId, Unary)> {
    let Op::Primitive(Primitive::Binary(Binary::Mul)) = graph.nodes[node].op else {
        return None;
    };
    let [a, b] = graph.nodes[node].inputs[..] else { return None };
    let inner = |value| index.operands(graph, Binary::Mul, value);
    let orders = [(inner(a), b), (inner(b), a)];
    orders.into_iter().find_map(|(pair, last)| {
        let [p, q] = pair?;
        [[p, q, last], [p, last, q], [q, p, last], [q, last, p], [last, p, q], [last, q, p]]
            .into_iter()
            .find_map(|[x, half, sum]| {
                let is_half = index.scalar(graph, half) == Some(0.5);
                let function = is_half.then(|| gate_of(graph, index, sum, x)).flatten()?;
                Some((x, function))
            })
    })
}

/// The function whose gate of `x` `value` is: `1 + erf(..)` or `1 + tanh(..)`.
fn gate_of(graph: &Graph, index: &Index, value: ValueId, x: ValueId) -> Option<Unary> {
    let [a, b] = index.operands(graph, Binary::Add, value)?;
    let bent = match () {
        () if index.scalar(graph, a) == Some(1.0) => b,
        () if index.scalar(graph, b) == Some(1.0) => a,
        () => return None,
    };
    let (bend, inside) = index.unary(graph, bent)?;
    let root = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let (function, wanted) = match bend {
        Unary::Erf => (Unary::Gelu, [0.0, FRAC_1_SQRT_2, 0.0, 0.0]),
        Unary::Tanh => (Unary::GeluTanh, [0.0, root, 0.0, root * 0.044_715]),
        _ => return None,
    };
    let found = polynomial(graph, index, inside, x, DEPTH)?;
    let near = |(f, w): (&f32, &f32)| if *w == 0.0 { *f == 0.0 } else { (f / w - 1.0).abs() < 1e-3 };
    found.iter().zip(&wanted).all(near).then_some(function)
}

/// `value` as a polynomial in `x` of degree 3 at most: the factors of its powers from the lowest.
fn polynomial(graph: &Graph, index: &Index, value: ValueId, x: ValueId, depth: u32) -> Option<[f32; 4]> {
    if value == x {
        return Some([0.0, 1.0, 0.0, 0.0]);
    }
    if let Some(number) = index.scalar(graph, value) {
        return Some([number, 0.0, 0.0, 0.0]);
    }
    let (node, Primitive::Binary(kind)) = index.primitive(graph, value)? else {
        return None;
    };
    let depth = depth.checked_sub(1)?;
    let [a, b] = graph.nodes[node].inputs[..] else { return None };
    let of = |value| polynomial(graph, index, value, x, depth);
    let number = |value| index.scalar(graph, value);
    match kind {
        Binary::Add => Some(combined(of(a)?, of(b)?, 1.0)),
        Binary::Sub => Some(combined(of(a)?, of(b)?, -1.0)),
        Binary::Mul => product(of(a)?, of(b)?),
        Binary::Div => Some(of(a)?.map(|factor| factor / number(b).unwrap_or(f32::NAN))),
        Binary::Pow if number(b) == Some(2.0) => product(of(a)?, of(a)?),
        Binary::Pow if number(b) == Some(3.0) => product(product(of(a)?, of(a)?)?, of(a)?),
        _ => None,
    }
}

fn combined(a: [f32; 4], b: [f32; 4], sign: f32) -> [f32; 4] {
    std::array::from_fn(|i| a[i] + sign * b[i])
}

/// The product, if its degree is 3 at most.
fn product(a: [f32; 4], b: [f32; 4]) -> Option<[f32; 4]> {
    let mut factors = [0.0; 4];
    for (i, &p) in a.iter().enumerate().filter(|(_, p)| **p != 0.0) {
        for (j, &q) in b.iter().enumerate().filter(|(_, q)| **q != 0.0) {
            *factors.get_mut(i + j)? += p * q;
        }
    }
    Some(factors)
}
