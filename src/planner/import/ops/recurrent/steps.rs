//! Recurrent layers step by step, as primitives over one step's projected inputs `[B, gates * H]` and the states `[B,H]`.

use super::super::super::builder::Builder;
use super::super::super::error::{Fallible, malformed, unsupported};
use super::super::super::host::{Host, shape_of};
use super::super::super::node::OnnxNode;
use super::super::super::values::Operand;
use super::super::elementwise::apply;
use super::layer::{Direction, Layer, Weights};
use crate::primitive::{Binary, Scalar, Unary};

/// A function of gates. Those of ONNX with parameters of their own are there with the parameters' defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    Relu,
    Tanh,
    Sigmoid,
    HardSigmoid,
}

impl Function {
    pub fn apply(self, b: &mut Builder, x: &Operand) -> Fallible<Operand> {
        let function = match self {
            Function::Relu => Unary::Relu,
            Function::Tanh => Unary::Tanh,
            Function::Sigmoid => Unary::Sigmoid,
            Function::HardSigmoid => Unary::HardSigmoid(Scalar(0.2), Scalar(0.5)),
        };
        apply(b, function, x)
    }
}

/// The gates' functions of all directions, `usual` for each where the node names none.
pub(super) fn functions(node: &OnnxNode<'_>, usual: &[Function], directions: usize) -> Fallible<Vec<Function>> {
    for name in ["activation_alpha", "activation_beta"] {
        if node.floats(name)?.is_some_and(|v| !v.is_empty()) {
            return Err(unsupported("parameters of activations").at(name));
        }
    }
    let Some(names) = node.strings("activations")? else {
        return Ok(usual.repeat(directions));
    };
    if names.len() != usual.len() * directions {
        return Err(malformed(format!("{} functions for {directions} directions", names.len())).at("activations"));
    }
    let known = |name: &&str| match name.to_ascii_lowercase().as_str() {
        "relu" => Ok(Function::Relu),
        "tanh" => Ok(Function::Tanh),
        "sigmoid" => Ok(Function::Sigmoid),
        "hardsigmoid" => Ok(Function::HardSigmoid),
        _ => Err(unsupported(format!("the function `{name}`")).at("activations")),
    };
    names.iter().map(known).collect()
}

/// Which rows of the batch go on at which step, where their sequences are of different lengths.
pub(super) struct Masks {
    lengths: Vec<i64>,
}

impl Masks {
    /// From input `sequence_lens`, a constant; `None` where all rows have all steps.
    pub fn read(node: &OnnxNode<'_>, layer: &Layer) -> Fallible<Option<Masks>> {
        let Some(lengths) = node.int_input(4, "sequence_lens")? else {
            return Ok(None);
        };
        let steps = i64::from(layer.steps);
        if lengths.len() != layer.rows as usize || lengths.iter().any(|l| !(0..=steps).contains(l)) {
            let rows = layer.rows;
            return Err(malformed(format!("{lengths:?} for {rows} rows of {steps} steps")).at("sequence_lens"));
        }
        Ok(lengths.iter().any(|&l| l != steps).then_some(Masks { lengths }))
    }

    /// Lets the rows that go on at step `t` have the states `next`; gives h, with zeros in the other rows.
    pub fn apply<const N: usize>(
        &self,
        b: &mut Builder,
        layer: &Layer,
        t: u32,
        states: &mut [Operand; N],
        next: [Operand; N],
    ) -> Fallible<Operand> {
        let mut factors = |on: f64, off: f64| {
            let of = |&length: &i64| if i64::from(t) < length { on } else { off };
            let values = self.lengths.iter().map(of).collect();
            Ok(b.constant(Host::from_f64s(layer.elem, shape_of(&[layer.rows.into(), 1])?, values)?))
        };
        let (goes, stays) = (factors(1.0, 0.0)?, factors(0.0, 1.0)?);
        let mut y = None;
        for (state, next) in states.iter_mut().zip(next) {
            let fresh = b.binary(Binary::Mul, &next, &goes)?;
            let kept = b.binary(Binary::Mul, state, &stays)?;
            *state = b.binary(Binary::Add, &fresh, &kept)?;
            y.get_or_insert(fresh);
        }
        y.ok_or_else(|| malformed("no state"))
    }
}

/// Walks the steps of `gates`, `[T, B, gates * H]`, from `states` (h first): the h of all steps in the input's order, and
/// the last states. Rows that a mask hides keep their states and give 0.
pub(super) fn unroll<const N: usize>(
    b: &mut Builder,
    layer: &Layer,
    gates: &Operand,
    direction: Direction,
    mut states: [Operand; N],
    masks: Option<&Masks>,
    advance: impl Fn(&mut Builder, &Operand, [&Operand; N]) -> Fallible<[Operand; N]>,
) -> Fallible<(Operand, [Operand; N])> {
    let mut ys: Vec<Option<Operand>> = vec![None; layer.steps as usize];
    for step in 0..layer.steps {
        let t = match direction {
            Direction::Forward => step,
            Direction::Reverse => layer.steps - 1 - step,
        };
        let x = Layer::part(b, gates, 0, t as usize)?;
        let next = advance(b, &x, states.each_ref())?;
        let y = match masks {
            None => {
                states = next;
                states[0].clone()
            }
            Some(masks) => masks.apply(b, layer, t, &mut states, next)?,
        };
        ys[t as usize] = Some(b.reshape(&y, shape_of(&[1, layer.rows.into(), layer.hidden.into()])?)?);
    }
    let ys: Vec<&Operand> = ys.iter().flatten().collect();
    Ok((b.concat(&ys, 0, layer.output_shape()?)?, states))
}

/// Columns `from..to` of a matrix.
fn columns(b: &mut Builder, x: &Operand, from: u32, to: u32) -> Fallible<Operand> {
    let shape = shape_of(&[i64::from(x.shape().dim(0)), i64::from(to - from)])?;
    b.slice(x, vec![0, i64::from(from)], vec![1, 1], shape)
}

/// A step of an LSTM with any functions, and peepholes from c to the gates i, o and f.
pub(super) fn lstm(
    b: &mut Builder,
    layer: &Layer,
    x: &Operand,
    [h, c]: [&Operand; 2],
    across: &Operand,
    peepholes: Option<&[Operand; 3]>,
    functions: &[Function],
) -> Fallible<[Operand; 2]> {
    let n = layer.hidden;
    let sums = layer.recurrent(b, h, across, Some(x))?;
    let gate = |b: &mut Builder, index: u32, c: &Operand, peephole: Option<&Operand>| {
        let mut sum = columns(b, &sums, index * n, (index + 1) * n)?;
        if let Some(peephole) = peephole {
            let seen = b.binary(Binary::Mul, c, peephole)?;
            sum = b.binary(Binary::Add, &sum, &seen)?;
        }
        Ok(sum)
    };
    let hole = |index: usize| peepholes.map(|p| &p[index]);
    let i = gate(b, 0, c, hole(0))?;
    let f = gate(b, 2, c, hole(2))?;
    let g = gate(b, 3, c, None)?;
    let (i, f, g) = (functions[0].apply(b, &i)?, functions[0].apply(b, &f)?, functions[1].apply(b, &g)?);
    let kept = b.binary(Binary::Mul, &f, c)?;
    let fresh = b.binary(Binary::Mul, &i, &g)?;
    let c = b.binary(Binary::Add, &kept, &fresh)?;
    let o = gate(b, 1, &c, hole(1))?;
    let o = functions[0].apply(b, &o)?;
    let shown = functions[2].apply(b, &c)?;
    Ok([b.binary(Binary::Mul, &o, &shown)?, c])
}

/// One direction of a gated recurrent unit; gates in the order z (update), r (reset), h (hidden).
pub(super) struct Gru {
    /// `[H, 2H]` and the bias `[2H]` of z and r.
    gates: (Operand, Option<Operand>),
    /// `[H, H]` and the bias `[H]` of the hidden gate.
    hidden: (Operand, Option<Operand>),
    reset_after: bool,
    functions: Vec<Function>,
}

impl Gru {
    /// Splits the weights of one direction. `reset_after` is ONNX's `linear_before_reset`.
    pub fn new(b: &mut Builder, layer: &Layer, weights: &Weights, reset_after: bool, functions: Vec<Function>) -> Fallible<Gru> {
        let n = layer.hidden;
        let across = b.transpose(&weights.recurrence, &[1, 0])?;
        let mut part = |from: u32, to: u32| {
            let matrix = columns(b, &across, from, to)?;
            let bias = match &weights.biases {
                Some([_, recurrent]) => Some(b.slice(recurrent, vec![from.into()], vec![1], shape_of(&[i64::from(to - from)])?)?),
                None => None,
            };
            Ok((matrix, bias))
        };
        Ok(Gru {
            gates: part(0, 2 * n)?,
            hidden: part(2 * n, 3 * n)?,
            reset_after,
            functions,
        })
    }

    /// `(1 - z) * g(..) + z * h`.
    pub fn step(&self, b: &mut Builder, layer: &Layer, x: &Operand, h: &Operand) -> Fallible<Operand> {
        let n = layer.hidden;
        let own = columns(b, x, 0, 2 * n)?;
        let (across, bias) = &self.gates;
        let sums = layer.recurrent(b, h, across, bias.as_ref())?;
        let sums = b.binary(Binary::Add, &sums, &own)?;
        let gates = self.functions[0].apply(b, &sums)?;
        let (z, r) = (columns(b, &gates, 0, n)?, columns(b, &gates, n, 2 * n)?);
        let (across, bias) = &self.hidden;
        let recurrent = if self.reset_after {
            let sum = layer.recurrent(b, h, across, bias.as_ref())?;
            b.binary(Binary::Mul, &r, &sum)?
        } else {
            let reset = b.binary(Binary::Mul, &r, h)?;
            layer.recurrent(b, &reset, across, bias.as_ref())?
        };
        let own = columns(b, x, 2 * n, 3 * n)?;
        let sum = b.binary(Binary::Add, &recurrent, &own)?;
        let fresh = self.functions[1].apply(b, &sum)?;
        let one = b.scalar(layer.elem, 1.0)?;
        let rest = b.binary(Binary::Sub, &one, &z)?;
        let fresh = b.binary(Binary::Mul, &rest, &fresh)?;
        let kept = b.binary(Binary::Mul, &z, h)?;
        b.binary(Binary::Add, &fresh, &kept)
    }
}
