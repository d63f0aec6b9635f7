//! What grows beyond f16 on its way to a quotient, a root or a logarithm, which bring it back.
//!
//! | grows | for instance | up to |
//! |---|---|---|
//! | exponentials | `exp(x) / (1 + exp(x))`, `log(1 + exp(x))`, `exp(x) / sum(exp(x))` | a quotient or logarithm |
//! | squares | `sqrt(a * a + b * b)` | a quotient, root or logarithm |
//! | sums of 1024 elements and more | `sum(x * m) / sum(m)` | a quotient or logarithm |
//! | quotients | `log(p / (1 - p))` | a logarithm |
//!
//! All that lies between is f32, and what the last function leaves as well, if nothing else reads what lies between.

use crate::planner::graph::{Graph, Node, Op, ValueId};
use crate::planner::passes::rewrite::Index;
use crate::primitive::{Binary, Primitive, ReduceKind, Unary};
use crate::tensor::DType;
use std::collections::BTreeSet;

/// Most functions between.
const MOST: usize = 32;
/// Elements of a sum that f16 may not hold where it holds a mean of ordinary size, 64.
const MANY: u64 = 1024;

/// The functions that end it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Quotients,
    Roots,
    Logarithms,
}

/// What a function does to what has grown.
enum Step {
    GoesOn,
    Ends(Ends),
}

/// The values that are f32 for that; those that are `kept` so anyway are left alone.
pub fn find(graph: &Graph, kept: &BTreeSet<ValueId>) -> BTreeSet<ValueId> {
    let index = Index::of(graph);
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        node.inputs.iter().for_each(|v| readers[v.index()].push(at));
    }
    let mut wide = BTreeSet::new();
    for node in &graph.nodes {
        if let Some(ends) = grows(graph, &index, node)
            && !wide.contains(&node.outputs[0])
            && !kept.contains(&node.outputs[0])
            && let Some(between) = follow(graph, &index, &readers, node.outputs[0], ends)
        {
            wide.extend(between.into_iter().filter(|v| !kept.contains(v)));
        }
    }
    wide
}

/// Which functions bring back what a node makes, if that may be large though its operands are not.
fn grows(graph: &Graph, index: &Index, node: &Node) -> Option<&'static [Ends]> {
    let Op::Primitive(primitive) = &node.op else { return None };
    if graph.value(node.outputs[0]).dtype != DType::F32 {
        return None;
    }
    match primitive {
        Primitive::Unary(Unary::Exp) if !is_below_greatest(graph, index, node.inputs[0]) => Some(&[Ends::Quotients, Ends::Logarithms]),
        Primitive::Reduce {
            kind: ReduceKind::Sum,
            axes,
        } => {
            let elements = graph.value(node.inputs[0]).shape.elements_along(*axes);
            (elements >= MANY).then_some(&[Ends::Quotients, Ends::Logarithms])
        }
        Primitive::Binary(Binary::Mul | Binary::Pow) if index.root(graph, node.outputs[0]).is_some() => {
            Some(&[Ends::Quotients, Ends::Roots, Ends::Logarithms])
        }
        // A quotient by a number is scaled, and no more.
        Primitive::Binary(Binary::Div) if !is_number(graph, index, node.inputs[1]) => Some(&[Ends::Logarithms]),
        _ => None,
    }
}

/// True for what the greatest of all has been taken from: its exponential is 1 at most.
fn is_below_greatest(graph: &Graph, index: &Index, value: ValueId) -> bool {
    let subtracted = index
        .operands(graph, Binary::Sub, value)
        .map(|[_, greatest]| index.behind_views(graph, greatest).0);
    let maker = subtracted.and_then(|v| index.primitive(graph, v));
    matches!(maker, Some((_, Primitive::Reduce { kind: ReduceKind::Max, .. })))
}

fn is_number(graph: &Graph, index: &Index, value: ValueId) -> bool {
    index.scalar(graph, value).is_some()
}

/// All that is made of `value` up to the functions that end it, what these make included; nothing if something else reads any of it.
fn follow(graph: &Graph, index: &Index, readers: &[Vec<usize>], value: ValueId, ends: &[Ends]) -> Option<BTreeSet<ValueId>> {
    let is_output = |value: ValueId| graph.outputs.iter().any(|n| n.value == value);
    let (mut between, mut last) = (BTreeSet::from([value]), BTreeSet::new());
    let mut left = vec![value];
    while let Some(value) = left.pop() {
        if is_output(value) || readers[value.index()].is_empty() || between.len() > MOST {
            return None;
        }
        for &reader in &readers[value.index()] {
            let node = &graph.nodes[reader];
            let made = node.outputs[0];
            match step(graph, index, node, value)? {
                Step::GoesOn => {
                    if between.insert(made) {
                        left.push(made);
                    }
                }
                Step::Ends(end) if ends.contains(&end) => {
                    last.insert(made);
                }
                Step::Ends(_) => return None,
            }
        }
    }
    between.extend(last);
    Some(between)
}

/// What a node that reads `value` does with it; nothing if it is none of these functions.
fn step(graph: &Graph, index: &Index, node: &Node, value: ValueId) -> Option<Step> {
    let primitive = match &node.op {
        Op::View(_) => return Some(Step::GoesOn),
        Op::Primitive(primitive) => primitive,
        Op::Concat { .. } => return None,
    };
    match primitive {
        Primitive::Reduce {
            kind: ReduceKind::Sum | ReduceKind::Max,
            ..
        }
        | Primitive::Unary(Unary::Clip(..) | Unary::Neg | Unary::Abs | Unary::Relu)
        | Primitive::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Max | Binary::Min) => Some(Step::GoesOn),
        Primitive::Binary(Binary::Div) if node.inputs[0] == value && is_number(graph, index, node.inputs[1]) => Some(Step::GoesOn),
        Primitive::Binary(Binary::Div) => Some(Step::Ends(Ends::Quotients)),
        Primitive::Unary(Unary::Log) => Some(Step::Ends(Ends::Logarithms)),
        Primitive::Unary(Unary::Sqrt) => Some(Step::Ends(Ends::Roots)),
        Primitive::Binary(Binary::Pow) => {
            let exponent = index.scalar(graph, node.inputs[1])?;
            (0.0..1.0).contains(&exponent).then_some(Step::Ends(Ends::Roots))
        }
        _ => None,
    }
}
