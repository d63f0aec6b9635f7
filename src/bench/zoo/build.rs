//! The graph under construction: values with an estimate of their size, and primitives that infer their results' shapes.
//!
//! Building cannot fail on good definitions, and definitions are code: a shape that does not fit is a bug of the network's
//! definition and panics with the node's name.

use super::weights::Draw;
use crate::planner::graph::{Graph, Named, Op, ValueId, ViewOp, broadcast};
use crate::primitive::{Binary, PoolKind, Primitive, ReduceKind, Unary, Window};
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// A computed value of a network.
#[derive(Clone, Copy, Debug)]
pub struct Signal {
    /// The graph's value.
    pub value: ValueId,
    /// An estimate of its mean square, which weights are scaled by.
    pub power: f32,
}

impl Signal {
    /// The same value under another estimate.
    pub fn with_power(self, power: f32) -> Signal {
        Signal { power, ..self }
    }
}

/// A finished network.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its graph.
    pub graph: Graph,
    /// The constants that are its parameters (and running statistics); their names are torchvision's.
    pub parameters: Vec<ValueId>,
}

/// A network under construction.
pub struct Net {
    model: Model,
    seed: u64,
}

/// The shape of these extents, which a definition gives.
fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap_or_else(|| panic!("no shape {dims:?}"))
}

/// A square window over pictures with `pad` pixels of padding on each side.
pub fn square(side: u32, stride: u32, pad: u32) -> Window {
    let mut window = Window::new(&[side, side]);
    window.stride[..2].fill(stride);
    window.pad_begin[..2].fill(pad);
    window.pad_end[..2].fill(pad);
    window
}

impl Net {
    /// An empty network.
    pub fn new(name: &str, seed: u64) -> Net {
        let graph = Graph {
            name: name.into(),
            ..Graph::default()
        };
        Net {
            model: Model {
                graph,
                parameters: Vec::new(),
            },
            seed,
        }
    }

    /// The network, once all of it is there.
    pub fn finish(self) -> Model {
        self.model
    }

    /// The shape of a value.
    pub fn shape(&self, x: Signal) -> Shape {
        self.model.graph.value(x.value).shape
    }

    /// An input of mean square one.
    pub fn input(&mut self, name: &str, dtype: DType, dims: &[u32]) -> Signal {
        let value = self.model.graph.add_value(name, dtype, shape(dims));
        let name = name.to_string();
        self.model.graph.inputs.push(Named {
            name,
            value,
            widened: false,
        });
        Signal { value, power: 1.0 }
    }

    /// Makes a value a result of the network.
    pub fn output(&mut self, name: &str, x: Signal) {
        let (name, value) = (name.to_string(), x.value);
        self.model.graph.outputs.push(Named {
            name,
            value,
            widened: false,
        });
    }

    /// A parameter under torchvision's name.
    pub fn parameter(&mut self, name: &str, dims: &[u32], draw: Draw) -> Signal {
        let data = draw.tensor(self.seed, name, shape(dims));
        let value = self.model.graph.add_constant(name, Arc::new(data));
        self.model.parameters.push(value);
        let mean = (draw.low + draw.high) / 2.0;
        let half = (draw.high - draw.low) / 2.0;
        Signal {
            value,
            power: mean * mean + half * half / 3.0,
        }
    }

    /// A number that is no parameter.
    pub fn number(&mut self, name: &str, number: f32) -> Signal {
        let data = Tensor::new(Shape::SCALAR, Data::F32(vec![number])).unwrap_or_else(|| Tensor::zeros(DType::F32, Shape::SCALAR));
        let value = self.model.graph.add_constant(name, Arc::new(data));
        Signal {
            value,
            power: number * number,
        }
    }

    /// Adds a node with one result, which is called as the node is.
    fn node(&mut self, name: &str, op: Op, inputs: &[Signal], result: Shape, power: f32) -> Signal {
        let graph = &mut self.model.graph;
        let dtype = graph.value(inputs[0].value).dtype;
        let value = graph.add_value(name, dtype, result);
        graph.add_node(name, op, inputs.iter().map(|x| x.value).collect(), vec![value]);
        Signal { value, power }
    }

    /// A primitive with one result of shape `dims`.
    pub fn primitive(&mut self, name: &str, primitive: Primitive, inputs: &[Signal], dims: &[u32], power: f32) -> Signal {
        self.node(name, Op::Primitive(primitive), inputs, shape(dims), power)
    }

    /// A function of each element.
    pub fn unary(&mut self, name: &str, function: Unary, x: Signal, power: f32) -> Signal {
        let result = self.shape(x);
        self.node(name, Op::Primitive(Primitive::Unary(function)), &[x], result, power)
    }

    /// A function of each pair of elements, after NumPy's broadcasting.
    pub fn binary(&mut self, name: &str, function: Binary, a: Signal, b: Signal) -> Signal {
        let wide = broadcast(self.shape(a), self.shape(b)).unwrap_or_else(|| panic!("{name}: operands that do not broadcast"));
        let (x, y) = (self.broadcast(a, wide.dims()), self.broadcast(b, wide.dims()));
        let power = match function {
            Binary::Mul => a.power * b.power,
            Binary::Div => a.power / b.power.max(1e-6),
            Binary::Add | Binary::Sub => a.power + b.power,
            _ => a.power.max(b.power),
        };
        self.node(name, Op::Primitive(Primitive::Binary(function)), &[x, y], wide, power)
    }

    /// The result repeated to `dims`; itself if it has them.
    pub fn broadcast(&mut self, x: Signal, dims: &[u32]) -> Signal {
        self.view("repeated", ViewOp::Broadcast, x, dims)
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, x: Signal, dims: &[u32]) -> Signal {
        self.view("reshaped", ViewOp::Reshape, x, dims)
    }

    /// Axes permuted: axis `a` of the result is axis `perm[a]` of `x`.
    pub fn transpose(&mut self, x: Signal, perm: &[usize]) -> Signal {
        let from = self.shape(x);
        let dims: Vec<u32> = perm.iter().map(|&a| from.dim(a)).collect();
        self.view("transposed", ViewOp::Transpose { perm: perm.to_vec() }, x, &dims)
    }

    /// `extent` elements from `start` on along `axis`.
    pub fn slice(&mut self, x: Signal, axis: usize, start: u32, extent: u32) -> Signal {
        let from = self.shape(x);
        let mut dims = from.dims().to_vec();
        dims[axis] = extent;
        let mut starts = vec![0; dims.len()];
        starts[axis] = i64::from(start);
        let view = ViewOp::Slice {
            start: starts,
            step: vec![1; dims.len()],
        };
        self.view(&format!("from{start}"), view, x, &dims)
    }

    fn view(&mut self, what: &str, view: ViewOp, x: Signal, dims: &[u32]) -> Signal {
        let from = self.model.graph.value(x.value);
        if from.shape == shape(dims) && !matches!(view, ViewOp::Transpose { .. }) {
            return x;
        }
        let name = format!("{}.{what}", from.name);
        self.node(&name, Op::View(view), &[x], shape(dims), x.power)
    }

    /// Values side by side along `axis`.
    pub fn concat(&mut self, name: &str, parts: &[Signal], axis: usize) -> Signal {
        let extent = |net: &Net, x: &Signal| net.shape(*x).dim(axis);
        let whole: u32 = parts.iter().map(|x| extent(self, x)).sum();
        let weighted: f32 = parts.iter().map(|x| x.power * extent(self, x) as f32).sum();
        let mut dims = self.shape(parts[0]).dims().to_vec();
        dims[axis] = whole;
        self.node(name, Op::Concat { axis }, parts, shape(&dims), weighted / whole as f32)
    }

    /// The mean over `axes`, which stay as extent 1.
    pub fn mean(&mut self, name: &str, x: Signal, axes: &[usize], power: f32) -> Signal {
        self.reduce(name, ReduceKind::Mean, x, axes, power)
    }

    /// The Euclidean norm along axes, which stay with extent 1.
    pub fn norm(&mut self, name: &str, x: Signal, axes: &[usize]) -> Signal {
        let count: f32 = axes.iter().map(|&a| self.shape(x).dim(a) as f32).product();
        self.reduce(name, ReduceKind::Norm, x, axes, x.power * count)
    }

    fn reduce(&mut self, name: &str, kind: ReduceKind, x: Signal, axes: &[usize], power: f32) -> Signal {
        let mut dims = self.shape(x).dims().to_vec();
        axes.iter().for_each(|&a| dims[a] = 1);
        let axes = axes.iter().fold(0, |set, &a| set | 1 << a);
        self.primitive(name, Primitive::Reduce { kind, axes }, &[x], &dims, power)
    }

    /// A pooling window over pictures; `ceil` counts a last window that begins inside the picture and sticks out of it.
    pub fn pool(&mut self, name: &str, x: Signal, kind: PoolKind, window: Window, ceil: bool) -> Signal {
        let from = self.shape(x);
        let extent = |a: usize| {
            let (input, stride, pad) = (from.dim(a + 2), window.stride[a], window.pad_begin[a]);
            let whole = window
                .output(a, input)
                .unwrap_or_else(|| panic!("{name}: a window larger than its input"));
            let covered = (whole - 1) * stride + window.kernel[a];
            whole + u32::from(ceil && covered < input + 2 * pad && whole * stride < input + pad)
        };
        let dims = [from.dim(0), from.dim(1), extent(0), extent(1)];
        let power = match kind {
            // The mean square of the largest of 4 or 9 rectified normal numbers, from their order statistics.
            PoolKind::Max { .. } => x.power * if window.taps() <= 4 { 3.0 } else { 5.0 },
            // That of equal numbers, which neighbours deep in a network nearly are.
            PoolKind::Average { .. } => x.power,
        };
        self.primitive(name, Primitive::Pool { kind, window }, &[x], &dims, power)
    }
}
