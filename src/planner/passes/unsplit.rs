//! Shares of a value that go through the same functions, each by numbers of its own, and are joined again in their order stay one.
//!
//! Coordinates are normalised so before a picture is sampled at them (Jaderberg et al., "Spatial Transformer Networks", 2015, section
//! 3.2): the columns by the width, the rows by the height. One function of both by two numbers replaces two of every other element.

use super::rewrite::{Index, at_each_node};
use super::share::Share;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Primitive, Unary};
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// Elements that kernels take at once, side by side.
const PIECE: u32 = 8;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A function of a share's elements.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Unary(Unary),
    /// A function of an element and a number, which is its second operand or its first.
    Number(Primitive, bool),
}

/// A share of a value, and what becomes of it.
struct Chain {
    share: Share,
    /// Its places.
    extent: u32,
    /// The last one first.
    steps: Vec<Step>,
    numbers: Vec<f32>,
}

impl Chain {
    /// What `value` is, which a concatenation along `axis` reads. Reshapes between do not move an element of what is taken one by one.
    fn of(graph: &Graph, index: &Index, value: ValueId, axis: usize) -> Option<Chain> {
        let part = graph.value(value).shape;
        let (mut value, mut steps, mut numbers) = (value, Vec::new(), Vec::new());
        loop {
            let node = &graph.nodes[index.producers[value.index()]?];
            match &node.op {
                Op::View(ViewOp::Slice { .. }) => {
                    let alike = graph.value(value).shape == part;
                    return alike.then_some(Chain {
                        share: Share::of(graph, index, value, axis)?,
                        extent: part.dim(axis),
                        steps,
                        numbers,
                    });
                }
                _ if index.uses[value.index()] != 1 => return None,
                Op::View(ViewOp::Reshape) => value = node.inputs[0],
                Op::Primitive(Primitive::Unary(function)) => {
                    steps.push(Step::Unary(*function));
                    value = node.inputs[0];
                }
                Op::Primitive(primitive @ Primitive::Binary(_)) => {
                    let &[a, b] = node.inputs.as_slice() else { return None };
                    let (of, number, second) = match index.scalar(graph, b) {
                        Some(number) => (a, number, true),
                        None => (b, index.scalar(graph, a)?, false),
                    };
                    let float = graph.value(of).dtype == DType::F32 && graph.value(value).dtype == DType::F32;
                    if !float {
                        return None;
                    }
                    steps.push(Step::Number(*primitive, second));
                    numbers.push(number);
                    value = of;
                }
                _ => return None,
            }
        }
    }
}

struct Found {
    concat: usize,
    axis: usize,
    /// What all shares are together.
    share: Share,
    chains: Vec<Chain>,
}

fn find(graph: &Graph, index: &Index, concat: usize) -> Option<Found> {
    let node = &graph.nodes[concat];
    let Op::Concat { axis } = node.op else { return None };
    if node.inputs.len() < 2 || graph.value(node.outputs[0]).dtype != DType::F32 {
        return None;
    }
    let chain = |v: &ValueId| Chain::of(graph, index, *v, axis);
    let chains: Vec<Chain> = node.inputs.iter().map(chain).collect::<Option<_>>()?;
    let (first, rest) = chains.split_first()?;
    let share = rest.iter().try_fold(first.share, |all, chain| all.followed_by(chain.share))?;
    let alike = !first.steps.is_empty() && rest.iter().all(|chain| chain.steps == first.steps);
    alike.then_some(Found {
        concat,
        axis,
        share,
        chains,
    })
}

/// The shape in which the functions run, and the axis of their numbers there: elements of few shares in pieces, along which kernels
/// find neighbours, else as they are.
fn worked(shape: Shape, axis: usize) -> Option<(Shape, usize)> {
    let pieces = shape.elements() / u64::from(PIECE);
    let few = axis + 1 == shape.rank() && shape.dim(axis) < PIECE && PIECE.is_multiple_of(shape.dim(axis));
    match few && shape.elements().is_multiple_of(PIECE.into()) {
        true => Some((Shape::new(&[u32::try_from(pieces).ok()?, PIECE])?, 1)),
        false => Some((shape, axis)),
    }
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { concat, share, chains, .. } = found;
    let Some(first) = chains.first() else { return };
    let (name, output) = (graph.nodes[concat].name.clone(), graph.nodes[concat].outputs[0]);
    let whole = graph.value(output).shape;
    let single = graph.value(output).single || graph.nodes[concat].inputs.iter().any(|v| graph.value(*v).single);
    let Some((shape, axis)) = worked(whole, found.axis) else { return };
    let mut one_row = vec![1; shape.rank()];
    one_row[axis] = shape.dim(axis);
    let Some(row) = Shape::new(&one_row) else { return };
    let (value, view) = share.value(graph, found.axis, &name);
    let mut nodes = Vec::from_iter(view);
    let mut push = |graph: &mut Graph, op: Op, inputs: Vec<ValueId>, shape: Shape| {
        let made = graph.add_value(format!("{name}.{}", nodes.len()), DType::F32, shape);
        graph.values[made.index()].single = single;
        nodes.push(Node {
            name: name.clone(),
            op,
            inputs,
            outputs: vec![made],
        });
        made
    };
    let mut value = push(graph, Op::View(ViewOp::Reshape), vec![value], shape);
    let mut number = first.numbers.len();
    for step in first.steps.iter().rev() {
        value = match *step {
            Step::Unary(function) => push(graph, Op::Primitive(Primitive::Unary(function)), vec![value], shape),
            Step::Number(primitive, second) => {
                number -= 1;
                let each = |chain: &Chain| vec![chain.numbers[number]; chain.extent as usize];
                let numbers: Vec<f32> = chains.iter().flat_map(each).collect();
                let numbers = numbers.into_iter().cycle().take(row.elements() as usize).collect();
                let Some(numbers) = Tensor::new(row, Data::F32(numbers)) else {
                    return;
                };
                let numbers = graph.add_constant(format!("{name}.numbers{number}"), Arc::new(numbers));
                let numbers = push(graph, Op::View(ViewOp::Broadcast), vec![numbers], shape);
                let operands = if second { vec![value, numbers] } else { vec![numbers, value] };
                push(graph, Op::Primitive(primitive), operands, shape)
            }
        };
    }
    // The concatenation's place is that of the last of them.
    graph.nodes[concat].op = Op::View(ViewOp::Reshape);
    graph.nodes[concat].inputs = vec![value];
    graph.nodes.splice(concat..concat, nodes);
}
