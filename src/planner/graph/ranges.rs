//! Between which numbers values lie, and which are whole, as far as their making says it.

use super::{Graph, Node, Op, ValueId};
use crate::planner::strided;
use crate::primitive::{Binary, PadMode, Primitive, ReduceKind, Scalar, Unary};
use crate::tensor::{DType, Tensor};

/// Most elements of a constant of floats that are looked at: weights are no integers.
const MOST_LOOKED_AT: usize = 4096;

/// The least and the greatest number that a value may be.
pub type Range = (f64, f64);

/// Up to this size f16 holds every whole number.
pub const WHOLE_HALVES: f64 = 2048.0;
/// Up to this size f32 does.
pub const WHOLE_FLOATS: f64 = 16_777_216.0;

/// The ranges of all values; `None` where nothing is known. What is no number is left out of account.
pub struct Ranges {
    ranges: Vec<Option<Range>>,
    whole: Vec<bool>,
}

impl Ranges {
    /// The ranges of a graph's values.
    pub fn of(graph: &Graph) -> Ranges {
        let known = |v: &super::Value| v.data.as_deref().map_or_else(|| of_type(v.dtype), constant);
        let mut ranges = Ranges {
            ranges: graph.values.iter().map(known).collect(),
            whole: graph.values.iter().map(|v| !v.dtype.is_float()).collect(),
        };
        let producers = strided::producers(graph);
        for (whole, value) in ranges.whole.iter_mut().zip(&graph.values) {
            *whole |= value.data.as_deref().is_some_and(is_whole);
        }
        for node in &graph.nodes {
            for (index, &output) in node.outputs.iter().enumerate() {
                let dtype = graph.value(output).dtype;
                let made = ranges.remainder(graph, &producers, node);
                let found = made.or_else(|| ranges.made(graph, node, index));
                // What is no number is true, whatever else it lies between.
                let sure = dtype != DType::Bool || node.inputs.iter().all(|v| ranges.is_whole(*v));
                let found = found.filter(|_| sure).and_then(|range| stored(range, dtype));
                ranges.ranges[output.index()] = found.or(of_type(dtype));
                ranges.whole[output.index()] |= ranges.stays_whole(node) && ranges.within(output, WHOLE_FLOATS);
            }
        }
        ranges
    }

    /// Between which numbers a value lies.
    pub fn of_value(&self, value: ValueId) -> Option<Range> {
        self.ranges[value.index()]
    }

    /// True if a value is known to be no greater than `most` in size.
    pub fn within(&self, value: ValueId, most: f64) -> bool {
        self.of_value(value).is_some_and(|(low, high)| -most <= low && high <= most)
    }

    /// True if every element of a value is known to be a whole number: integers are, and floats made of such that f32 holds.
    pub fn is_whole(&self, value: ValueId) -> bool {
        self.whole[value.index()]
    }

    /// True if two values of integers are known to be the same: one value, or one number.
    pub fn same(&self, a: ValueId, b: ValueId) -> bool {
        let one = self.of_value(a).filter(|(low, high)| low == high);
        a == b || (one.is_some() && one == self.of_value(b) && self.is_whole(a) && self.is_whole(b))
    }

    /// True if a node makes whole numbers of floats.
    fn stays_whole(&self, node: &Node) -> bool {
        let all = node.inputs.iter().all(|v| self.is_whole(*v));
        let steps = |scalars: [Scalar; 2]| scalars.iter().all(|s| s.0.fract() == 0.0);
        match &node.op {
            Op::View(_) | Op::Concat { .. } => all,
            Op::Primitive(Primitive::Copy) => all,
            Op::Primitive(Primitive::Gather { .. }) => node.inputs.first().is_some_and(|v| self.is_whole(*v)),
            Op::Primitive(Primitive::Unary(Unary::HardSigmoid(a, b) | Unary::Clip(a, b))) => all && steps([*a, *b]),
            Op::Primitive(Primitive::Binary(Binary::Min | Binary::Max | Binary::Add | Binary::Sub | Binary::Mul)) => all,
            _ => false,
        }
    }

    /// The range of `x - x / d * d`, where no integer is negative and `d` is none.
    fn remainder(&self, graph: &Graph, producers: &[Option<usize>], node: &Node) -> Option<Range> {
        let operands = |node: &Node, kind: Binary| match (&node.op, node.inputs.as_slice()) {
            (Op::Primitive(Primitive::Binary(own)), &[a, b]) if *own == kind => Some((a, b)),
            _ => None,
        };
        let of = |value: ValueId, kind| operands(&graph.nodes[producers[value.index()]?], kind);
        let (x, multiple) = operands(node, Binary::Sub)?;
        let (quotient, divisor) = of(multiple, Binary::Mul)?;
        let (dividend, by) = of(quotient, Binary::Div)?;
        let integers = graph.value(x).dtype == DType::I32 && dividend == x && self.same(by, divisor);
        let ((low, high), (least, most)) = (self.of_value(x)?, self.of_value(divisor)?);
        (integers && low >= 0.0 && least >= 1.0).then_some((0.0, high.min(most - 1.0)))
    }

    /// The range of a node's output of an index.
    fn made(&self, graph: &Graph, node: &Node, index: usize) -> Option<Range> {
        let all = || node.inputs.iter().map(|v| self.ranges[v.index()]);
        let first = self.ranges[node.inputs.first()?.index()];
        let shape = graph.value(*node.inputs.first()?).shape;
        let primitive = match &node.op {
            Op::View(_) => return first,
            Op::Concat { .. } => return all().reduce(|a, b| Some(hull(a?, b?)))?,
            Op::Primitive(primitive) => primitive,
        };
        let below = |extent: u64| (0.0, extent.saturating_sub(1) as f64);
        match primitive {
            Primitive::Copy | Primitive::Gather { .. } => first,
            Primitive::ArgMax { axis } => Some(below(u64::from(shape.dim(usize::from(*axis))))),
            Primitive::TopK if index == 1 => Some(below(u64::from(shape.dim(1)))),
            Primitive::Pool { .. } if index == 1 => Some(below(shape.elements())),
            Primitive::TopK => first,
            Primitive::Sources { .. } => Some(below(shape.elements() + graph.value(node.outputs[0]).shape.elements())),
            Primitive::Reduce {
                kind: ReduceKind::Max | ReduceKind::Mean,
                ..
            } => first.filter(|_| shape.elements() > 0),
            Primitive::Pad {
                mode: PadMode::Constant(outside),
                ..
            } => Some(hull(first?, (f64::from(outside.0), f64::from(outside.0)))),
            Primitive::Pad { .. } => first,
            Primitive::Unary(function) => unary(*function, first),
            Primitive::Binary(kind) => {
                let [a, b] = node.inputs[..] else { return None };
                binary(*kind, self.ranges[a.index()]?, self.ranges[b.index()]?)
            }
            _ => None,
        }
    }
}

fn of_type(dtype: DType) -> Option<Range> {
    match dtype {
        DType::Bool => Some((0.0, 1.0)),
        DType::U8 => Some((0.0, 255.0)),
        DType::I32 | DType::F32 | DType::F16 => None,
    }
}

fn constant(tensor: &Tensor) -> Option<Range> {
    if tensor.dtype().is_float() && tensor.len() > MOST_LOOKED_AT {
        return None;
    }
    let numbers = (0..tensor.len()).filter_map(|i| tensor.get_f64(i));
    numbers.map(|x| (x, x)).reduce(hull).filter(|(low, high)| low <= high)
}

fn is_whole(tensor: &Tensor) -> bool {
    let looked_at = !tensor.dtype().is_float() || tensor.len() <= MOST_LOOKED_AT;
    let whole = |x: f64| x.fract() == 0.0 && x.abs() <= WHOLE_FLOATS;
    looked_at && (0..tensor.len()).all(|i| tensor.get_f64(i).is_some_and(whole))
}

fn hull(a: Range, b: Range) -> Range {
    (a.0.min(b.0), a.1.max(b.1))
}

/// A range as numbers of a type: integers are cut off towards zero, and those that wrap around may be any.
fn stored((low, high): Range, dtype: DType) -> Option<Range> {
    match dtype {
        DType::F32 | DType::F16 => Some((low, high)),
        DType::I32 => {
            let (low, high) = (low.trunc(), high.trunc());
            (f64::from(i32::MIN) <= low && high <= f64::from(i32::MAX)).then_some((low, high))
        }
        DType::U8 => Some((low.trunc(), high.trunc())).filter(|&(low, high)| low >= 0.0 && high <= 255.0),
        DType::Bool if low > 0.0 || high < 0.0 => Some((1.0, 1.0)),
        DType::Bool => (low == 0.0 && high == 0.0).then_some((0.0, 0.0)),
    }
}

fn unary(function: Unary, x: Option<Range>) -> Option<Range> {
    match (function, x) {
        (Unary::HardSigmoid(slope, middle), Some(x)) => {
            let of = |x: f64| (f64::from(slope.0) * x + f64::from(middle.0)).clamp(0.0, 1.0);
            let ends = [of(x.0), of(x.1)];
            ends.iter()
                .all(|y| !y.is_nan())
                .then(|| hull((ends[0], ends[0]), (ends[1], ends[1])))
        }
        (Unary::Sigmoid | Unary::HardSigmoid(..), _) => Some((0.0, 1.0)),
        (Unary::Clip(low, high), Some(x)) => {
            let (low, high) = (f64::from(low.0), f64::from(high.0));
            Some((x.0.max(low).min(high), x.1.max(low).min(high)))
        }
        (Unary::Clip(low, high), None) => Some((f64::from(low.0), f64::from(high.0))),
        (Unary::Relu, Some((low, high))) => Some((low.max(0.0), high.max(0.0))),
        (Unary::Neg, Some((low, high))) => Some((-high, -low)),
        (Unary::Abs, Some((low, high))) if low <= 0.0 && high >= 0.0 => Some((0.0, high.max(-low))),
        (Unary::Abs, Some((low, high))) => Some((low.abs().min(high.abs()), low.abs().max(high.abs()))),
        (Unary::Floor, Some((low, high))) => Some((low.floor(), high.floor())),
        (Unary::Ceil, Some((low, high))) => Some((low.ceil(), high.ceil())),
        (Unary::Round, Some((low, high))) => Some((low.floor(), high.ceil())),
        _ => None,
    }
}

fn binary(kind: Binary, a: Range, b: Range) -> Option<Range> {
    let corners = |f: fn(f64, f64) -> f64| {
        let corners = [f(a.0, b.0), f(a.0, b.1), f(a.1, b.0), f(a.1, b.1)];
        let all = corners.iter().all(|x| !x.is_nan());
        all.then(|| corners.into_iter().fold((corners[0], corners[0]), |range, x| hull(range, (x, x))))
    };
    match kind {
        Binary::Add => corners(|a, b| a + b),
        Binary::Sub => corners(|a, b| a - b),
        Binary::Mul => corners(|a, b| a * b),
        Binary::Div if b.0 > 0.0 || b.1 < 0.0 => corners(|a, b| a / b),
        Binary::Min => Some((a.0.min(b.0), a.1.min(b.1))),
        Binary::Max => Some((a.0.max(b.0), a.1.max(b.1))),
        Binary::Div | Binary::Pow | Binary::PRelu => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::{Data, Shape};
    use std::sync::Arc;

    #[test]
    fn integers_are_bound_by_what_makes_them() {
        let mut graph = Graph::default();
        let shape = |dims: &[u32]| Shape::new(dims).unwrap();
        let one = shape(&[1, 1]);
        let given = graph.add_value("given", DType::I32, one);
        let x = graph.add_value("x", DType::F32, shape(&[1, 3000]));
        let mut add = |op: Primitive, inputs: &[ValueId], dtype: DType| {
            let value = graph.add_value("made", dtype, one);
            graph.add_node("made", Op::Primitive(op), inputs.to_vec(), vec![value]);
            value
        };
        let place = add(Primitive::ArgMax { axis: 1 }, &[x], DType::I32);
        let clipped = add(Primitive::Unary(Unary::Clip(Scalar(-128.0), Scalar(127.5))), &[x], DType::F32);
        let byte = add(Primitive::Copy, &[clipped], DType::I32);
        let product = add(Primitive::Binary(Binary::Mul), &[place, byte], DType::I32);
        let wrapping = add(Primitive::Binary(Binary::Mul), &[product, product], DType::I32);
        let least = add(Primitive::Binary(Binary::Min), &[place, given], DType::I32);
        let eight = graph.add_constant("eight", Arc::new(Tensor::new(one, Data::I32(vec![8])).unwrap()));
        let row = graph.add_value("row", DType::I32, one);
        graph.add_node("row", Op::Primitive(Primitive::Binary(Binary::Div)), vec![place, eight], vec![row]);
        let ranges = Ranges::of(&graph);
        let of = |value: ValueId| ranges.of_value(value);
        assert_eq!(
            [place, byte, row].map(of),
            [Some((0.0, 2999.0)), Some((-128.0, 127.0)), Some((0.0, 374.0))]
        );
        assert_eq!(of(product), Some((-128.0 * 2999.0, 127.0 * 2999.0)));
        assert_eq!([wrapping, least, given].map(of), [None; 3]);
        assert!(ranges.within(row, 374.0) && !ranges.within(row, 373.0) && !ranges.within(given, 1e12));
    }
}
