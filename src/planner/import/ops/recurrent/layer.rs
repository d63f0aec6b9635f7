//! What all recurrent layers of ONNX have in common: directions, weights of each, layouts of inputs and outputs.

use super::super::super::builder::Builder;
use super::super::super::error::{Fallible, limit, malformed, unsupported};
use super::super::super::host::{Elem, Host, shape_of};
use super::super::super::node::OnnxNode;
use super::super::super::values::Operand;
use crate::primitive::{Binary, Primitive};
use crate::tensor::Shape;

/// Along which way a direction of a layer walks the steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the first to the last.
    Forward,
    /// From the last to the first.
    Reverse,
}

/// A layer of `directions.len()` directions over inputs `[T,B,I]`.
pub(super) struct Layer {
    pub elem: Elem,
    pub directions: Vec<Direction>,
    pub steps: u32,
    pub rows: u32,
    pub hidden: u32,
    /// Gates of hidden size.
    gates: u32,
    /// Inputs and outputs have the batch outside (`layout = 1`).
    batch_first: bool,
    /// The input as `[T * B, I]`.
    flat: Operand,
}

/// The weights of one direction.
pub(super) struct Weights {
    /// `[I, gates * H]`.
    pub inputs: Operand,
    /// `[gates * H, H]`.
    pub recurrence: Operand,
    /// Of the input and of the recurrence, `[gates * H]` each.
    pub biases: Option<[Operand; 2]>,
}

impl Layer {
    /// Reads inputs X, W, R and the attributes that all layers have, of a layer with `gates` gates.
    pub fn read(b: &mut Builder, node: &OnnxNode<'_>, gates: u32) -> Fallible<Layer> {
        let (x, w, r) = (node.input(0)?, node.input(1)?, node.input(2)?);
        if !x.elem().is_float() || (1..node.input_count()).any(|i| i != 4 && node.optional(i).is_some_and(|y| y.elem() != x.elem())) {
            return Err(malformed("inputs that are no floats of one type"));
        }
        let directions = match node.string("direction")?.unwrap_or("forward") {
            "forward" => vec![Direction::Forward],
            "reverse" => vec![Direction::Reverse],
            "bidirectional" => vec![Direction::Forward, Direction::Reverse],
            other => return Err(malformed(format!("`{other}`")).at("direction")),
        };
        if node.float("clip")?.is_some() {
            return Err(unsupported("clipped gates: export the layer without `clip`").at("clip"));
        }
        let batch_first = node.flag("layout", false)?;
        if x.shape().rank() != 3 || r.shape().rank() != 3 {
            return Err(malformed(format!("an input {} and recurrent weights {}", x.shape(), r.shape())));
        }
        let hidden = r.shape().dim(2);
        if node.int("hidden_size")?.is_some_and(|h| h != i64::from(hidden)) {
            return Err(malformed(format!("{hidden} columns of R")).at("hidden_size"));
        }
        let x = if batch_first { b.transpose(x, &[1, 0, 2])? } else { x.clone() };
        let [steps, rows, inputs] = [0, 1, 2].map(|axis| x.shape().dim(axis));
        let flat = b.reshape(&x, shape_of(&[i64::from(steps) * i64::from(rows), inputs.into()])?)?;
        let layer = Layer {
            elem: x.elem(),
            steps,
            rows,
            hidden,
            gates,
            batch_first,
            flat,
            directions,
        };
        let count = layer.directions.len() as i64;
        layer.shaped(w, &[count, layer.width(), inputs.into()], "W")?;
        layer.shaped(r, &[count, layer.width(), hidden.into()], "R")?;
        if steps == 0 || rows == 0 || hidden == 0 {
            return Err(unsupported("a layer without steps, rows or hidden units"));
        }
        Ok(layer)
    }

    /// Values of all gates, `gates * H`.
    fn width(&self) -> i64 {
        i64::from(self.gates) * i64::from(self.hidden)
    }

    fn shaped(&self, x: &Operand, dims: &[i64], name: &str) -> Fallible<()> {
        if x.shape() == shape_of(dims)? {
            return Ok(());
        }
        Err(malformed(format!("shape {} instead of {dims:?}", x.shape())).at(name))
    }

    /// Refuses layers of too many steps to unroll.
    pub fn limited(&self, most: u32) -> Fallible<()> {
        if self.steps <= most {
            return Ok(());
        }
        let steps = self.steps;
        Err(limit(format!(
            "{steps} steps: this form of the layer is unrolled, and that up to {most} steps only. Give it shorter sequences, one after another \
             from the state before, or export a form that has a kernel: an LSTM and a GRU with the functions of the standard and sequences of \
             one length, the GRU with linear_before_reset = 1"
        )))
    }

    /// `[T,B,H]`.
    pub fn output_shape(&self) -> Fallible<Shape> {
        shape_of(&[self.steps, self.rows, self.hidden].map(i64::from))
    }

    /// `[B,H]`.
    pub fn state_shape(&self) -> Fallible<Shape> {
        shape_of(&[self.rows, self.hidden].map(i64::from))
    }

    /// Part `index` along `axis` of `x`, without that axis.
    pub fn part(b: &mut Builder, x: &Operand, axis: usize, index: usize) -> Fallible<Operand> {
        let mut dims: Vec<i64> = x.shape().dims().iter().map(|&d| i64::from(d)).collect();
        let mut start = vec![0; dims.len()];
        (dims[axis], start[axis]) = (1, index as i64);
        let one = b.slice(x, start, vec![1; dims.len()], shape_of(&dims)?)?;
        dims.remove(axis);
        b.reshape(&one, shape_of(&dims)?)
    }

    /// The weights and biases of direction `index`.
    pub fn weights(&self, b: &mut Builder, node: &OnnxNode<'_>, index: usize) -> Fallible<Weights> {
        let inputs = Self::part(b, node.input(1)?, 0, index)?;
        let inputs = b.transpose(&inputs, &[1, 0])?;
        let recurrence = Self::part(b, node.input(2)?, 0, index)?;
        let biases = match node.optional(3) {
            None => None,
            Some(both) => {
                self.shaped(both, &[self.directions.len() as i64, 2 * self.width()], "B")?;
                let both = Self::part(b, both, 0, index)?;
                let mut half = |from: i64| b.slice(&both, vec![from], vec![1], shape_of(&[self.width()])?);
                Some([half(0)?, half(self.width())?])
            }
        };
        Ok(Weights {
            inputs,
            recurrence,
            biases,
        })
    }

    /// Inputs times weights and the input's bias, with `both` the recurrent bias as well: `[T, B, gates * H]`.
    pub fn projected(&self, b: &mut Builder, weights: &Weights, both: bool) -> Fallible<Operand> {
        let bias = match &weights.biases {
            Some([input, recurrent]) if both => Some(b.binary(Binary::Add, input, recurrent)?),
            Some([input, _]) => Some(input.clone()),
            None => None,
        };
        self.project(b, &weights.inputs, bias.as_ref())
    }

    /// Inputs times weights `[I, N]`, and a bias `[N]`: `[T, B, N]`.
    pub fn project(&self, b: &mut Builder, weights: &Operand, bias: Option<&Operand>) -> Fallible<Operand> {
        let width = i64::from(weights.shape().dim(1));
        let shape = shape_of(&[i64::from(self.flat.shape().dim(0)), width])?;
        let bias = bias.map(|bias| b.broadcast(bias, shape)).transpose()?;
        let operands: Vec<&Operand> = [&self.flat, weights].into_iter().chain(&bias).collect();
        let product = b.one(Primitive::MatMul, &operands, self.elem, shape)?;
        b.reshape(&product, shape_of(&[self.steps.into(), self.rows.into(), width])?)
    }

    /// The initial state of direction `index` from input `input`, `[B,H]`; `None` where there is none, which means zeros.
    pub fn state(&self, b: &mut Builder, node: &OnnxNode<'_>, input: usize, name: &str, index: usize) -> Fallible<Option<Operand>> {
        let Some(all) = node.optional(input) else { return Ok(None) };
        let count = self.directions.len() as i64;
        let (rows, hidden) = (self.rows.into(), self.hidden.into());
        let (dims, axis) = if self.batch_first {
            ([rows, count, hidden], 1)
        } else {
            ([count, rows, hidden], 0)
        };
        self.shaped(all, &dims, name)?;
        Self::part(b, all, axis, index).map(Some)
    }

    /// The state, or zeros.
    pub fn or_zeros(&self, b: &mut Builder, state: Option<Operand>) -> Fallible<Operand> {
        match state {
            Some(state) => Ok(state),
            None => self.zeros(b, self.state_shape()?),
        }
    }

    /// Zeros of the layer's type.
    pub fn zeros(&self, b: &mut Builder, shape: Shape) -> Fallible<Operand> {
        Ok(b.constant(Host::from_f64s(self.elem, shape, vec![0.0; shape.elements() as usize])?))
    }

    /// The peephole weights i, o, f of direction `index`, `[H]` each.
    pub fn peepholes(&self, b: &mut Builder, node: &OnnxNode<'_>, index: usize) -> Fallible<Option<[Operand; 3]>> {
        let Some(all) = node.optional(7) else { return Ok(None) };
        let hidden = i64::from(self.hidden);
        self.shaped(all, &[self.directions.len() as i64, 3 * hidden], "P")?;
        let own = Self::part(b, all, 0, index)?;
        let mut gate = |gate: i64| b.slice(&own, vec![gate * hidden], vec![1], shape_of(&[hidden])?);
        Ok(Some([gate(0)?, gate(1)?, gate(2)?]))
    }

    /// `h R^T + bias`: `across` is `[H, N]`, the result `[B, N]`.
    pub fn recurrent(&self, b: &mut Builder, h: &Operand, across: &Operand, bias: Option<&Operand>) -> Fallible<Operand> {
        let shape = shape_of(&[self.rows.into(), across.shape().dim(1).into()])?;
        let bias = bias.map(|bias| b.broadcast(bias, shape)).transpose()?;
        let operands: Vec<&Operand> = [h, across].into_iter().chain(&bias).collect();
        b.one(Primitive::MatMul, &operands, self.elem, shape)
    }

    /// h after the last step of `y`, `[T,B,H]`.
    pub fn last(&self, b: &mut Builder, y: &Operand, direction: Direction) -> Fallible<Operand> {
        match direction {
            Direction::Forward => Self::part(b, y, 0, self.steps as usize - 1),
            Direction::Reverse => Self::part(b, y, 0, 0),
        }
    }

    /// Output Y of all directions' `[T,B,H]`: `[T,D,B,H]`, or `[B,T,D,H]` with the batch outside.
    pub fn join(&self, b: &mut Builder, ys: &[Operand]) -> Fallible<Operand> {
        let [t, n, h] = [self.steps, self.rows, self.hidden].map(i64::from);
        let wide = ys
            .iter()
            .map(|y| b.reshape(y, shape_of(&[t, 1, n, h])?))
            .collect::<Fallible<Vec<_>>>()?;
        let joined = b.concat(&wide.iter().collect::<Vec<_>>(), 1, shape_of(&[t, ys.len() as i64, n, h])?)?;
        if self.batch_first {
            b.transpose(&joined, &[2, 0, 1, 3])
        } else {
            Ok(joined)
        }
    }

    /// Output Y_h or Y_c of all directions' `[B,H]`: `[D,B,H]`, or `[B,D,H]` with the batch outside.
    pub fn join_states(&self, b: &mut Builder, states: &[Operand]) -> Fallible<Operand> {
        let [n, h] = [self.rows, self.hidden].map(i64::from);
        let wide = states
            .iter()
            .map(|s| b.reshape(s, shape_of(&[1, n, h])?))
            .collect::<Fallible<Vec<_>>>()?;
        let joined = b.concat(&wide.iter().collect::<Vec<_>>(), 0, shape_of(&[states.len() as i64, n, h])?)?;
        if self.batch_first {
            b.transpose(&joined, &[1, 0, 2])
        } else {
            Ok(joined)
        }
    }
}
