//! Which arithmetic of integers goes, and that what is left computes the same.

use super::PassSet;
use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::planner::passes::run;
use crate::planner::tests::nets::{Draw, Net};
use crate::planner::tests::oracle::evaluate;
use crate::primitive::{Binary, Primitive, Scalar, Unary};
use crate::tensor::{DType, Data, Shape, Tensor};

/// Places that are looked at.
const PLACES: [u32; 2] = [4, 50];
/// Places that there are.
const EXTENT: i32 = 40;

/// A network over places of a line.
struct Places {
    net: Net,
}

impl Places {
    /// The places 0 to 39, and primitives that make them of any numbers.
    fn new() -> (Places, ValueId) {
        let mut net = Net::default();
        let x = net.input(&PLACES);
        let sixty = net.constant(Tensor::new(Shape::SCALAR, Data::F32(vec![60.0])).unwrap());
        let x = net.binary(Binary::Mul, x, sixty);
        let x = net.unary(Unary::Clip(Scalar(0.0), Scalar(39.0)), x);
        let mut net = Places { net };
        let places = net.copy(x, DType::I32);
        (net, places)
    }

    fn number(&mut self, number: i32) -> ValueId {
        let one = self.net.constant(Tensor::new(Shape::SCALAR, Data::I32(vec![number])).unwrap());
        self.net.view(ViewOp::Broadcast, one, &PLACES)
    }

    /// A function of a value and a number, which has a view of its own.
    fn with(&mut self, kind: Binary, x: ValueId, number: i32) -> ValueId {
        let number = self.number(number);
        self.net.binary(kind, x, number)
    }

    fn copy(&mut self, x: ValueId, dtype: DType) -> ValueId {
        let y = self.net.graph.add_value("copy", dtype, Shape::new(&PLACES).unwrap());
        self.net.graph.add_node("copy", Op::Primitive(Primitive::Copy), vec![x], vec![y]);
        y
    }

    /// `x - x / d * d`.
    fn remainder(&mut self, x: ValueId, divisor: i32) -> ValueId {
        let quotient = self.with(Binary::Div, x, divisor);
        let whole = self.with(Binary::Mul, quotient, divisor);
        self.net.binary(Binary::Sub, x, whole)
    }

    /// Counts from the end: `x - extent * max(min(x, 0), -1)`.
    fn counted_from_start(&mut self, x: ValueId) -> ValueId {
        let below = self.with(Binary::Min, x, 0);
        let sign = self.with(Binary::Max, below, -1);
        let turn = self.with(Binary::Mul, sign, EXTENT);
        self.net.binary(Binary::Sub, x, turn)
    }

    /// The primitives that are left behind the places to compute `y`, whose results must be the same.
    fn left(mut self, y: ValueId) -> Vec<Primitive> {
        self.net.output(y);
        let graph: Graph = self.net.graph;
        let passed = run(graph.clone(), PassSet::FOLD_CONSTANTS.with(PassSet::DROP_DEAD)).unwrap();
        let inputs = [Draw::new(3).tensor(&PLACES)];
        let [found, expected] = [&passed, &graph].map(|g| evaluate(g, &inputs));
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!((found.dtype(), found.bytes()), (expected.dtype(), expected.bytes()));
        }
        let primitives = passed.nodes.iter().filter_map(|n| match &n.op {
            Op::Primitive(p) => Some(*p),
            Op::View(_) | Op::Concat { .. } => None,
        });
        primitives.skip(3).collect()
    }
}

const fn binary(kind: Binary) -> Primitive {
    Primitive::Binary(kind)
}

#[test]
fn places_are_not_counted_from_the_end() {
    let (mut net, places) = Places::new();
    let y = net.counted_from_start(places);
    assert_eq!(net.left(y), []);

    // Two less may be negative.
    let (mut net, places) = Places::new();
    let less = net.with(Binary::Sub, places, 2);
    let y = net.counted_from_start(less);
    assert_eq!(net.left(y).len(), 5);
}

#[test]
fn a_remainder_of_places_needs_no_turning_round() {
    // As Mod is imported: one divisor more, and what is then too much off again.
    let (mut net, places) = Places::new();
    let remainder = net.remainder(places, 8);
    let moved = net.with(Binary::Add, remainder, 8);
    let y = net.remainder(moved, 8);
    assert_eq!(net.left(y), [Binary::Div, Binary::Mul, Binary::Sub].map(binary));

    // What is less than the divisor is its own remainder.
    let (mut net, places) = Places::new();
    let y = net.remainder(places, EXTENT);
    assert_eq!(net.left(y), []);

    let (mut net, places) = Places::new();
    let less = net.with(Binary::Sub, places, 1);
    let remainder = net.remainder(less, 8);
    let moved = net.with(Binary::Add, remainder, 8);
    let y = net.remainder(moved, 8);
    assert_eq!(net.left(y).len(), 8, "of what may be negative");
}

#[test]
fn truth_values_that_are_always_the_same_are_constants() {
    // Less: max(0, x) - x as a truth value, and a function of it.
    let less = |net: &mut Places, x: ValueId| {
        let zero = net.number(0);
        let larger = net.net.binary(Binary::Max, zero, x);
        let more = net.net.binary(Binary::Sub, larger, x);
        let truth = net.copy(more, DType::Bool);
        let mask = net.copy(truth, DType::F32);
        let other = net.net.unary(Unary::HardSigmoid(Scalar(-1.0), Scalar(1.0)), mask);
        net.copy(other, DType::I32)
    };
    let (mut net, places) = Places::new();
    let y = less(&mut net, places);
    let y = net.net.binary(Binary::Sub, places, y);
    assert_eq!(net.left(y), [binary(Binary::Sub)], "1 less everywhere");

    let (mut net, places) = Places::new();
    let shifted = net.with(Binary::Sub, places, 7);
    let y = less(&mut net, shifted);
    assert!(net.left(y).len() >= 5);
}

#[test]
fn conversions_there_and_back_go() {
    let (mut net, places) = Places::new();
    let float = net.copy(places, DType::F32);
    let back = net.copy(float, DType::I32);
    assert_eq!(net.left(back), []);

    let (mut net, places) = Places::new();
    let float = net.copy(places, DType::F32);
    let truth = net.copy(float, DType::Bool);
    assert_eq!(net.left(truth), [Primitive::Copy], "a truth value of the integer");

    // A byte does not hold what a thousand more is.
    let (mut net, places) = Places::new();
    let more = net.with(Binary::Add, places, 1000);
    let byte = net.copy(more, DType::U8);
    let back = net.copy(byte, DType::I32);
    assert_eq!(net.left(back).len(), 3);
}
