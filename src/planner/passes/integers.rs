//! Arithmetic of integers whose ranges say what it gives: an index that is never negative needs no turning round, a truth value that
//! is always the same is a constant, and a conversion there and back is none.
//!
//! Exporters guard indices and divisions against negative numbers, and detectors index by places that TopK and ArgMax give. The
//! results are the same to the bit.

use super::{drop_dead, fold_constants};
use crate::planner::graph::{Graph, Node, Op, Ranges, ValueId, ViewOp, WHOLE_FLOATS, WHOLE_HALVES};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive, Unary};
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// Most rounds: each may let another find more.
const ROUNDS: usize = 16;

pub fn run(graph: &mut Graph) {
    for _ in 0..ROUNDS {
        if !round(graph) {
            break;
        }
        drop_dead::run(graph);
        fold_constants::run(graph);
    }
}

/// What a node's result is instead.
enum Instead {
    /// Another value.
    Value(ValueId),
    /// One number.
    Number(f64),
    /// A conversion of another value.
    CopyOf(ValueId),
}

/// Looks at every node once; says whether anything was found.
fn round(graph: &mut Graph) -> bool {
    let (ranges, producers) = (Ranges::of(graph), strided::producers(graph));
    let mut now: Vec<ValueId> = (0..graph.values.len() as u32).map(ValueId).collect();
    let mut found = false;
    for at in 0..graph.nodes.len() {
        for input in 0..graph.nodes[at].inputs.len() {
            let value = graph.nodes[at].inputs[input];
            graph.nodes[at].inputs[input] = now[value.index()];
        }
        let Some(instead) = find(graph, &ranges, &producers, at) else {
            continue;
        };
        let output = graph.nodes[at].outputs[0];
        match instead {
            Instead::Value(value) => now[output.index()] = value,
            Instead::CopyOf(value) => graph.nodes[at].inputs[0] = value,
            Instead::Number(number) => {
                let Some(number) = tensor(number, graph.value(output).dtype) else {
                    continue;
                };
                let name = format!("{}.number", graph.nodes[at].name);
                graph.nodes[at].inputs = vec![graph.add_constant(name, Arc::new(number))];
                graph.nodes[at].op = Op::View(ViewOp::Broadcast);
            }
        }
        found = true;
    }
    for named in &mut graph.outputs {
        named.value = now[named.value.index()];
    }
    found
}

fn find(graph: &Graph, ranges: &Ranges, producers: &[Option<usize>], at: usize) -> Option<Instead> {
    let node = &graph.nodes[at];
    let (&[output], Op::Primitive(primitive)) = (node.outputs.as_slice(), &node.op) else {
        return None;
    };
    if let Some(number) = number(graph, ranges, primitive, output) {
        return Some(Instead::Number(number));
    }
    let maker = |value: ValueId| producers[value.index()].map(|n| &graph.nodes[n]);
    match *primitive {
        Primitive::Copy => {
            let from = node.inputs[0];
            let first = maker(from).filter(|n| n.op == Op::Primitive(Primitive::Copy))?.inputs[0];
            let passes = ranges.is_whole(first) && keeps(graph, ranges, first, from);
            let same = graph.operand(first) == graph.operand(output);
            match passes {
                true if same => Some(Instead::Value(first)),
                true => Some(Instead::CopyOf(first)),
                false => None,
            }
        }
        Primitive::Binary(kind) if graph.value(output).dtype == DType::I32 => {
            let &[a, b] = node.inputs.as_slice() else { return None };
            integers(kind, [a, b], ranges, |v| sum(maker(v)))
                .filter(|instead| !matches!(instead, Instead::Value(v) if graph.operand(*v) != graph.operand(output)))
        }
        _ => None,
    }
}

/// The one number that a result can be. Of floats those of truth values alone: they have no negative zeros.
fn number(graph: &Graph, ranges: &Ranges, primitive: &Primitive, output: ValueId) -> Option<f64> {
    let (low, high) = ranges.of_value(output)?;
    let logic = match primitive {
        Primitive::Copy | Primitive::Unary(Unary::HardSigmoid(..)) | Primitive::Binary(Binary::Min | Binary::Max) => true,
        _ => !graph.value(output).dtype.is_float(),
    };
    (low == high && logic && ranges.is_whole(output)).then_some(low)
}

/// True if a copy of `first`, whose elements are whole, holds the same numbers.
fn keeps(graph: &Graph, ranges: &Ranges, first: ValueId, copy: ValueId) -> bool {
    let range = ranges.of_value(first);
    match graph.value(copy).dtype {
        DType::F16 => ranges.within(first, WHOLE_HALVES),
        DType::F32 => ranges.within(first, WHOLE_FLOATS),
        DType::I32 => graph.value(first).dtype == DType::I32 || ranges.within(first, f64::from(i32::MAX)),
        DType::U8 => range.is_some_and(|(low, high)| low >= 0.0 && high <= 255.0),
        DType::Bool => range.is_some_and(|(low, high)| low >= 0.0 && high <= 1.0),
    }
}

/// The summands, if a node adds.
fn sum(node: Option<&Node>) -> Option<[ValueId; 2]> {
    let node = node.filter(|n| n.op == Op::Primitive(Primitive::Binary(Binary::Add)))?;
    node.inputs.as_slice().try_into().ok()
}

/// What a function of two integers is instead, by their ranges.
fn integers(kind: Binary, [a, b]: [ValueId; 2], ranges: &Ranges, sum: impl Fn(ValueId) -> Option<[ValueId; 2]>) -> Option<Instead> {
    let [x, y] = [a, b].map(|v| ranges.of_value(v));
    let is = |range: Option<(f64, f64)>, number: f64| range == Some((number, number));
    let below = |x: Option<(f64, f64)>, y: Option<(f64, f64)>| x.zip(y).is_some_and(|(x, y)| x.1 <= y.0);
    let same = ranges.same(a, b);
    // Integers wrap around, so what was added comes off again whatever it is.
    let left = match sum(a).filter(|_| kind == Binary::Sub) {
        Some([p, q]) if ranges.same(q, b) => Some(p),
        Some([p, q]) if ranges.same(p, b) => Some(q),
        _ => None,
    };
    let value = match kind {
        Binary::Sub if same => return Some(Instead::Number(0.0)),
        Binary::Sub if left.is_some() => left?,
        Binary::Add | Binary::Sub if is(y, 0.0) => a,
        Binary::Add if is(x, 0.0) => b,
        Binary::Mul | Binary::Div if is(y, 1.0) => a,
        Binary::Mul if is(x, 1.0) => b,
        Binary::Max if same || below(y, x) => a,
        Binary::Max if below(x, y) => b,
        Binary::Min if same || below(x, y) => a,
        Binary::Min if below(y, x) => b,
        _ => return None,
    };
    Some(Instead::Value(value))
}

/// One number of a type, in the least of tensors.
fn tensor(number: f64, dtype: DType) -> Option<Tensor> {
    let data = match dtype {
        DType::F32 => Data::F32(vec![number as f32]),
        DType::F16 => Data::F16(vec![half::f16::from_f64(number)]),
        DType::I32 => Data::I32(vec![number as i32]),
        DType::U8 => Data::U8(vec![number as u8]),
        DType::Bool => Data::Bool(vec![u8::from(number != 0.0)]),
    };
    Tensor::new(Shape::SCALAR, data)
}
