//! Small networks: a builder, and random ones that use every kind of node that passes and lowering treat specially.

use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Named, Op, ValueId, ViewOp};
use crate::primitive::*;
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// A linear congruential generator: the same networks everywhere.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Draw {
        Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A multiple of 1/16 in -1..1.
    fn unit(&mut self) -> f32 {
        self.below(32) as f32 / 16.0 - 1.0
    }

    pub fn tensor(&mut self, dims: &[u32]) -> Tensor {
        let shape = Shape::new(dims).unwrap();
        let elements = (0..shape.elements()).map(|_| self.unit()).collect();
        Tensor::new(shape, Data::F32(elements)).unwrap()
    }
}

/// A graph under construction. Every method adds one node and returns its output.
#[derive(Default)]
pub struct Net {
    pub graph: Graph,
}

impl Net {
    pub fn dims(&self, v: ValueId) -> Vec<u32> {
        self.graph.value(v).shape.dims().to_vec()
    }

    pub fn input(&mut self, dims: &[u32]) -> ValueId {
        let name = format!("in{}", self.graph.inputs.len());
        let value = self.graph.add_value(name.clone(), DType::F32, Shape::new(dims).unwrap());
        self.graph.inputs.push(Named {
            name,
            value,
            widened: false,
        });
        value
    }

    pub fn output(&mut self, value: ValueId) {
        let name = format!("out{}", self.graph.outputs.len());
        self.graph.outputs.push(Named {
            name,
            value,
            widened: false,
        });
    }

    pub fn constant(&mut self, tensor: Tensor) -> ValueId {
        self.graph.add_constant(format!("c{}", self.graph.values.len()), Arc::new(tensor))
    }

    pub fn node(&mut self, op: Op, inputs: &[ValueId], dims: &[u32]) -> ValueId {
        let name = format!("n{}", self.graph.nodes.len());
        let dtype = self.graph.value(inputs[0]).dtype;
        let output = self.graph.add_value(format!("{name}.y"), dtype, Shape::new(dims).unwrap());
        self.graph.add_node(name, op, inputs.to_vec(), vec![output]);
        output
    }

    pub fn view(&mut self, op: ViewOp, x: ValueId, dims: &[u32]) -> ValueId {
        self.node(Op::View(op), &[x], dims)
    }

    pub fn same(&mut self, primitive: Primitive, inputs: &[ValueId]) -> ValueId {
        let dims = self.dims(inputs[0]);
        self.node(Op::Primitive(primitive), inputs, &dims)
    }

    pub fn unary(&mut self, function: Unary, x: ValueId) -> ValueId {
        self.same(Primitive::Unary(function), &[x])
    }

    pub fn binary(&mut self, function: Binary, a: ValueId, b: ValueId) -> ValueId {
        let (dims, b_dims) = (self.dims(a), self.dims(b));
        let b = if dims == b_dims {
            b
        } else {
            self.view(ViewOp::Broadcast, b, &dims)
        };
        self.same(Primitive::Binary(function), &[a, b])
    }

    #[allow(clippy::too_many_arguments)] // one call a layer reads best in one line
    pub fn conv(&mut self, draw: &mut Draw, x: ValueId, outputs: u32, kernel: u32, stride: u32, groups: u32, bias: bool) -> ValueId {
        let dims = self.dims(x);
        let mut window = Window::new(&[kernel, kernel]);
        window.stride = [stride, stride, 1];
        window.pad_begin = [kernel / 2, kernel / 2, 0];
        window.pad_end = window.pad_begin;
        let w = self.constant(draw.tensor(&[outputs, dims[1] / groups, kernel, kernel]));
        let mut inputs = vec![x, w];
        if bias {
            inputs.push(self.constant(draw.tensor(&[outputs])));
        }
        let extent = |a: usize| window.output(a, dims[a + 2]).unwrap();
        let out = [dims[0], outputs, extent(0), extent(1)];
        self.node(Op::Primitive(Primitive::Conv { window, groups }), &inputs, &out)
    }

    pub fn concat(&mut self, axis: usize, parts: &[ValueId]) -> ValueId {
        let mut dims = self.dims(parts[0]);
        dims[axis] = parts.iter().map(|p| self.dims(*p)[axis]).sum();
        self.node(Op::Concat { axis }, parts, &dims)
    }

    pub fn transpose(&mut self, x: ValueId, perm: &[usize]) -> ValueId {
        let dims = self.dims(x);
        let out: Vec<u32> = perm.iter().map(|&a| dims[a]).collect();
        self.view(ViewOp::Transpose { perm: perm.to_vec() }, x, &out)
    }
}

/// A random network over one picture-like input, of about `nodes` layers, with up to four outputs; and its input.
pub fn random(seed: u64, nodes: usize) -> (Graph, Vec<Tensor>) {
    let mut draw = Draw::new(seed);
    let mut net = Net::default();
    net.graph.name = format!("random {seed}");
    let dims = [1 + draw.below(2) as u32, 2 + 2 * draw.below(3) as u32, 5 + draw.below(4) as u32, 6];
    let x = net.input(&dims);
    let mut live = vec![x];
    for _ in 0..nodes {
        // The newest value most often, so that chains grow.
        let x = if draw.below(3) == 0 {
            live[draw.below(live.len() as u64) as usize]
        } else {
            live[live.len() - 1]
        };
        let y = layer(&mut net, &mut draw, x, &live);
        live.push(y);
    }
    net.output(live[live.len() - 1]);
    for _ in 0..draw.below(4) {
        net.output(live[draw.below(live.len() as u64) as usize]);
    }
    let input = draw.tensor(&dims);
    (net.graph, vec![input])
}

/// One random layer over the rank-4 value `x`, of rank 4 again.
fn layer(net: &mut Net, draw: &mut Draw, x: ValueId, live: &[ValueId]) -> ValueId {
    let d = net.dims(x);
    let even = d[1].is_multiple_of(2);
    match draw.below(18) {
        0 => {
            let bias = draw.below(2) == 1;
            net.conv(draw, x, 4, 3, 1, 1, bias)
        }
        1 => net.conv(draw, x, d[1], 3, 1, d[1], true),
        2 if d[2] > 3 => net.conv(draw, x, 6, 1, 2, if even { 2 } else { 1 }, true),
        3 => {
            // Batch normalisation as the importer writes it, after a convolution.
            let y = net.conv(draw, x, 4, 3, 1, 1, draw_bool(d[0]));
            let scale = net.constant(draw.tensor(&[4, 1, 1]));
            let shift = net.constant(draw.tensor(&[4, 1, 1]));
            let y = net.binary(Binary::Mul, y, scale);
            net.binary(Binary::Add, y, shift)
        }
        4 => {
            let s = net.unary(Unary::Sigmoid, x);
            net.binary(Binary::Mul, x, s)
        }
        5 => {
            let three = net.constant(Tensor::new(Shape::SCALAR, Data::F32(vec![3.0])).unwrap());
            let six = net.constant(Tensor::new(Shape::SCALAR, Data::F32(vec![6.0])).unwrap());
            let y = net.binary(Binary::Add, x, three);
            let y = net.unary(Unary::Clip(Scalar(0.0), Scalar(6.0)), y);
            let y = net.binary(Binary::Mul, x, y);
            net.binary(Binary::Div, y, six)
        }
        6 => net.unary(Unary::Relu, x),
        7 => {
            let slope = net.constant(draw.tensor(&[d[1], 1, 1]));
            net.binary(Binary::PRelu, x, slope)
        }
        8 => {
            let twin = live.iter().rev().find(|v| net.dims(**v) == d);
            net.binary(Binary::Add, x, *twin.unwrap_or(&x))
        }
        9 if d[1] <= 16 => {
            let fits = |v: &ValueId| {
                let e = net.dims(*v);
                e[0] == d[0] && e[2..] == d[2..] && e[1] <= 16
            };
            let others: Vec<ValueId> = live.iter().copied().filter(fits).collect();
            let other = others[draw.below(others.len() as u64) as usize];
            net.concat(1, &[x, other])
        }
        10 if d[1] > 1 => {
            let half = d[1] / 2;
            let slice = |start: u32| ViewOp::Slice {
                start: vec![0, i64::from(start), 0, 0],
                step: vec![1; 4],
            };
            let a = net.view(slice(0), x, &[d[0], half, d[2], d[3]]);
            let b = net.view(slice(half), x, &[d[0], d[1] - half, d[2], d[3]]);
            let b = net.unary(Unary::LeakyRelu(Scalar(0.25)), b);
            net.concat(1, &[b, a])
        }
        11 => {
            let flip = ViewOp::Slice {
                start: vec![0, 0, i64::from(d[2]) - 1, 0],
                step: vec![1, 1, -1, 1],
            };
            net.view(flip, x, &d)
        }
        12 => {
            let y = net.transpose(x, &[0, 2, 3, 1]);
            let y = net.same(Primitive::Softmax { axis: 3 }, &[y]);
            net.transpose(y, &[0, 3, 1, 2])
        }
        13 => {
            // Pixels as rows through a matrix product and back, as in attention.
            let (pixels, c) = (d[2] * d[3], d[1]);
            let y = net.view(ViewOp::Reshape, x, &[d[0], c, pixels]);
            let y = net.transpose(y, &[0, 2, 1]);
            let w = net.constant(draw.tensor(&[c, c]));
            let w = net.view(ViewOp::Broadcast, w, &[d[0], c, c]);
            let y = net.same(Primitive::MatMul, &[y, w]);
            let shift = net.constant(draw.tensor(&[c]));
            let y = net.binary(Binary::Add, y, shift);
            let y = net.transpose(y, &[0, 2, 1]);
            net.view(ViewOp::Reshape, y, &d)
        }
        14 if d[2] > 2 && d[3] > 2 => {
            let mut window = Window::new(&[2, 2]);
            window.stride = [2, 2, 1];
            let kind = match draw.below(2) {
                0 => PoolKind::Max { column_major: false },
                _ => PoolKind::Average { count_pad: false },
            };
            net.node(
                Op::Primitive(Primitive::Pool { kind, window }),
                &[x],
                &[d[0], d[1], d[2] / 2, d[3] / 2],
            )
        }
        15 => {
            let mut begin = [0; MAX_RANK];
            (begin[2], begin[3]) = (1, 2);
            let mode = PadMode::Constant(Scalar(0.0));
            let y = net.node(
                Op::Primitive(Primitive::Pad { mode, begin }),
                &[x],
                &[d[0], d[1], d[2] + 2, d[3] + 3],
            );
            net.conv(draw, y, 4, 3, 2, 1, true)
        }
        16 if d[2] < 12 => {
            let mut scales = [Scalar(1.0); MAX_RANK];
            (scales[2], scales[3]) = (Scalar(2.0), Scalar(2.0));
            let resize = Resize {
                mode: ResizeMode::Linear { antialias: false },
                coordinates: Coordinates::HalfPixel,
                scales,
            };
            net.node(Op::Primitive(Primitive::Resize(resize)), &[x], &[d[0], d[1], d[2] * 2, d[3] * 2])
        }
        _ => {
            let axes = 0b1100;
            let kind = ReduceKind::Mean;
            let y = net.node(Op::Primitive(Primitive::Reduce { kind, axes }), &[x], &[d[0], d[1], 1, 1]);
            let y = net.unary(Unary::Sigmoid, y);
            net.binary(Binary::Mul, x, y)
        }
    }
}

fn draw_bool(n: u32) -> bool {
    n == 1
}
