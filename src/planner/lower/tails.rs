//! Which functions the kernels of products and of normalisations store with their results without asking for each value what to do.
//!
//! Of any tail products have an interpreter, which takes some 14 to 45 elements a nanosecond of a whole H200, where a launch of its own
//! takes 300, and asks for each operand when it needs it: from a few thousand elements on what is no path of a kernel is an operator of its own. Halves are rounded after
//! every function either way.

use crate::plan::tactic::product::has_path;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive, Unary, Window};
use crate::tensor::{DType, Shape};

/// Elements from which on a launch costs less than the interpreter.
const LARGE: u64 = 1 << 12;
/// Elements of which rows of halves are multiples where they are read at once.
const GROUP: u32 = 8;

/// How far along the paths of a product's kernels its tail is: a function, then what is added, then a relu.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Place {
    Sums,
    Function,
    Sum,
    End,
}

/// True if `node` may join the nodes of an operator as `members` says, for its kernel to store: behind a product of many halves or
/// rows of them, if the kernels have a path for it, behind anything else always.
pub fn stores(graph: &Graph, producers: &[Option<usize>], members: &[usize], node: usize) -> bool {
    let primitive = |n: usize| match &graph.nodes[n].op {
        Op::Primitive(primitive) => Some(primitive),
        _ => None,
    };
    if let Some(Primitive::Normalise { axis, .. } | Primitive::RmsNormalise { axis, .. }) = primitive(members[0]) {
        let rows = graph.value(graph.nodes[members[0]].outputs[0]);
        let last = usize::from(*axis) + 1 == rows.shape.rank() && rows.shape.dim(usize::from(*axis)).is_multiple_of(GROUP);
        let constant = |v: &ValueId| strided::constant(graph, producers, *v).is_some();
        let of_constant = |kind| primitive(node) == Some(&Primitive::Binary(kind)) && graph.nodes[node].inputs.iter().any(constant);
        return rows.dtype != DType::F16
            || !last
            || match members.len() {
                1 => of_constant(Binary::Mul),
                2 => of_constant(Binary::Add),
                _ => false,
            };
    }
    if let Some(Primitive::GroupNormalise { .. }) = primitive(members[0]) {
        let pictures = graph.value(graph.nodes[members[0]].outputs[0]);
        let pieces = pictures.shape.dim(1).is_multiple_of(GROUP) && pictures.shape.elements() >= LARGE;
        return pictures.dtype != DType::F16 || !pieces || scales_and_bounds(graph, producers, &members[1..], node);
    }
    let product = members
        .iter()
        .position(|&n| primitive(n).is_some_and(|p| is_product(graph, producers, n, p)));
    let output = graph.value(graph.nodes[node].outputs[0]);
    let large = output.dtype == DType::F16 && output.shape.elements() >= LARGE && !is_one_pixel(output.shape);
    let Some(at) = product.filter(|_| large) else {
        return true;
    };
    let depthwise = primitive(members[at]).is_some_and(|p| is_depthwise(graph, members[at], p));
    let mut place = Place::Sums;
    let mut before = members[at];
    for &next in members[at + 1..].iter().chain([&node]) {
        let reached = primitive(next).and_then(|p| reach(graph, place, before, next, p));
        let Some(reached) = reached.filter(|&p| !depthwise || p == Place::Function) else {
            return false;
        };
        (place, before) = (reached, next);
    }
    true
}

/// True for a scale of each channel, a shift and a relu, or some of these in their order.
fn scales_and_bounds(graph: &Graph, producers: &[Option<usize>], behind: &[usize], node: usize) -> bool {
    let per_channel = |v: &ValueId| {
        strided::constant(graph, producers, *v).is_some_and(|(_, at)| {
            let (shape, apart) = (at.layout.shape, |a: usize| at.layout.stride(a) == 0);
            (0..shape.rank()).all(|a| a == 1 || shape.dim(a) == 1 || apart(a))
        })
    };
    let mut steps = behind.iter().chain([&node]).map(|&n| &graph.nodes[n]).peekable();
    for kind in [Binary::Mul, Binary::Add] {
        steps.next_if(|n| n.op == Op::Primitive(Primitive::Binary(kind)) && n.inputs.iter().any(per_channel));
    }
    steps.next_if(|n| n.op == Op::Primitive(Primitive::Unary(Unary::Relu)));
    steps.next().is_none()
}

/// One pixel a sample: what squeezes and classifiers compute.
fn is_one_pixel(shape: Shape) -> bool {
    shape.dims().iter().skip(2).all(|&extent| extent == 1)
}

/// The place behind a function of what `before` made.
fn reach(graph: &Graph, place: Place, before: usize, node: usize, primitive: &Primitive) -> Option<Place> {
    let (node, made) = (&graph.nodes[node], graph.nodes[before].outputs[0]);
    let shape = |v: &ValueId| graph.value(*v).shape;
    match (primitive, node.inputs.as_slice()) {
        (Primitive::Unary(Unary::Relu), _) if place == Place::Sum => Some(Place::End),
        (Primitive::Unary(function), _) if place == Place::Sums && has_path(*function) => Some(Place::Function),
        (Primitive::Binary(Binary::Add), [a, b]) if place < Place::Sum && a != b => {
            let other = if *a == made { b } else { a };
            (shape(other) == shape(&made)).then_some(Place::Sum)
        }
        _ => None,
    }
}

/// A convolution, or a product with a constant matrix.
fn is_product(graph: &Graph, producers: &[Option<usize>], node: usize, primitive: &Primitive) -> bool {
    let constant = |v: &ValueId| strided::constant(graph, producers, *v).is_some();
    match primitive {
        Primitive::Conv { .. } | Primitive::ConvTranspose { .. } => true,
        Primitive::MatMul => graph.nodes[node].inputs.iter().skip(1).all(constant),
        _ => false,
    }
}

/// A convolution of each channel on its own.
fn is_depthwise(graph: &Graph, node: usize, primitive: &Primitive) -> bool {
    let Primitive::Conv { groups, window } = primitive else {
        return false;
    };
    let Window { axes, .. } = window;
    *axes == 2 && *groups > 1 && u64::from(*groups) == u64::from(graph.value(graph.nodes[node].inputs[0]).shape.dim(1))
}
