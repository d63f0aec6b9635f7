//! What f16 makes of constants: the nearest half, but finite ones stay finite, and what a comparison is made with is rounded to the
//! side on which it stays as true as it was.

use crate::planner::graph::{Graph, Node, Op, ValueId};
use crate::planner::passes::drop_dead;
use crate::planner::strided;
use crate::primitive::{Binary, Primitive};
use crate::tensor::{DType, Data, Tensor};
use half::f16;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A number as a bound or factor of halves: at least the least half in size if it is not zero, and no more than the largest if it is
/// finite, so that 0 times it is 0.
pub fn held(x: f32) -> f32 {
    let least = f16::from_bits(1).to_f32();
    if x != 0.0 && x.abs() < least {
        return least.copysign(x);
    }
    bounded(x)
}

/// A number, no more than the largest half in size if it is finite.
fn bounded(x: f32) -> f32 {
    let most = f16::MAX.to_f32();
    if x.is_finite() { x.clamp(-most, most) } else { x }
}

/// Floats as halves. What is one number all over, such as 1e-12, keeps a divisor from zero and does not become zero.
pub fn rounded(tensor: &Tensor) -> Option<Tensor> {
    let numbers = tensor.as_f32()?;
    let one = numbers.windows(2).all(|pair| pair[0] == pair[1]);
    let half = |&x: &f32| f16::from_f32(if one { held(x) } else { bounded(x) });
    Tensor::new(tensor.shape(), Data::F16(numbers.iter().map(half).collect()))
}

/// A side of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Below,
    Above,
}

/// The half next to a number on a side, or the number if it is one; finite if the number is.
fn beside(x: f32, side: Side) -> f32 {
    match side {
        Side::Above => -beside(-x, Side::Below),
        Side::Below => {
            let half = f16::from_f32(x);
            let below = match half.to_bits() {
                _ if half.to_f32() <= x || x.is_nan() => half,
                0 | 0x8000 => f16::from_bits(0x8001),
                bits @ 0x8000.. => f16::from_bits(bits + 1),
                bits => f16::from_bits(bits - 1),
            };
            let most = f16::MAX.to_f32();
            if x.is_finite() { below.to_f32().clamp(-most, most) } else { x }
        }
    }
}

/// A comparison of halves with a constant, as the importer spells it: the nodes that read the constant, and where.
struct Comparison {
    readers: [(usize, usize); 2],
    side: Side,
}

/// Lets comparisons with constants read these as the halves next to them, for those that are no halves.
///
/// Of a half `x`, `x > c` is as true as `x > h` with `h` the greatest half that is no greater than `c`: between the two lies none.
/// And `x < c` is as true as `x < h` with `h` the least one that is no less. `x <= c` and `x >= c` are what is left of these.
pub fn settle_comparisons(graph: &mut Graph, kept: &BTreeSet<ValueId>) {
    let producers = strided::producers(graph);
    let found: Vec<Comparison> = (0..graph.nodes.len())
        .filter_map(|node| comparison(graph, &producers, node, kept))
        .collect();
    let mut beside = Beside::default();
    for Comparison { readers, side } in found {
        for (node, input) in readers {
            let value = graph.nodes[node].inputs[input];
            if let Some(other) = beside.of(graph, &producers, value, side) {
                graph.nodes[node].inputs[input] = other;
            }
        }
    }
    if !beside.made.is_empty() {
        graph.nodes.splice(0..0, beside.views);
        drop_dead(graph);
    }
}

/// The comparison whose difference `node` makes: `c - max(x, c)` is below zero where `x` is greater, `min(c, x) - c` where it is less.
fn comparison(graph: &Graph, producers: &[Option<usize>], node: usize, kept: &BTreeSet<ValueId>) -> Option<Comparison> {
    let function = |node: usize, kind: Binary| graph.nodes[node].op == Op::Primitive(Primitive::Binary(kind));
    let &[a, b] = graph.nodes[node].inputs.as_slice() else {
        return None;
    };
    let (dtype, made) = (graph.value(a).dtype, graph.nodes[node].outputs[0]);
    if !function(node, Binary::Sub) || dtype != DType::F32 || kept.contains(&made) {
        return None;
    }
    [(0, a, b, Binary::Max, Side::Below), (1, b, a, Binary::Min, Side::Above)]
        .into_iter()
        .find_map(|(input, constant, bound, kind, side)| {
            let inner = producers[bound.index()].filter(|&inner| function(inner, kind) && !kept.contains(&bound))?;
            let wanted = strided::constant(graph, producers, constant)?;
            let inputs = &graph.nodes[inner].inputs;
            let at = inputs
                .iter()
                .position(|&v| v == constant || strided::constant(graph, producers, v).as_ref() == Some(&wanted))?;
            Some(Comparison {
                readers: [(node, input), (inner, at)],
                side,
            })
        })
}

/// Constants rounded to a side, and the looks at them.
#[derive(Default)]
struct Beside {
    made: BTreeMap<(ValueId, Side), ValueId>,
    views: Vec<Node>,
}

impl Beside {
    /// A value that is a constant or looks at one, with that one's elements rounded to the side; nothing if all are halves.
    fn of(&mut self, graph: &mut Graph, producers: &[Option<usize>], value: ValueId, side: Side) -> Option<ValueId> {
        if let Some(&made) = self.made.get(&(value, side)) {
            return Some(made);
        }
        let name = graph.value(value).name.clone();
        let made = if let Some(data) = graph.value(value).data.clone() {
            let numbers: Vec<f32> = data.as_f32()?.iter().map(|&x| beside(x, side)).collect();
            if numbers == data.as_f32()? {
                return None;
            }
            graph.add_constant(name, Arc::new(Tensor::new(data.shape(), Data::F32(numbers))?))
        } else {
            let node = graph.nodes[producers[value.index()]?].clone();
            let from = self.of(graph, producers, *node.inputs.first()?, side)?;
            let (dtype, shape) = graph.operand(value);
            let look = graph.add_value(name, dtype, shape);
            self.views.push(Node {
                inputs: vec![from],
                outputs: vec![look],
                ..node
            });
            look
        };
        self.made.insert((value, side), made);
        Some(made)
    }
}
