//! Transposed convolutions whose windows stand side by side, as where decoders double a picture, become ordinary ones of single
//! pixels. What a pixel gives to a row of its window is `kw O` channels, and these lie in the result as the pixels of a row do: so
//! there is one convolution for each row of the window, and together they are the result seen as `[N, H, kh W kw O]`.
//!
//! Where a concatenation of channels takes the result, its pixels are apart, and each phase has a convolution of its own: the result
//! is seen as `[N, H, kh, W, kw, O]`. Functions of the result alone are those of each part. Every part is written where it lies in
//! the result; the same products are summed in the same order. Each launch reads the picture again, so small ones stay as they are.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Primitive, Unary, Window};
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Channels of both pictures are a multiple of this, so that pixels are whole pieces of 16 bytes in f16.
const PIECE: u32 = 8;
/// Elements of one sample, read and written, from which on the convolution of a row is worth its launch: by the paces of an H200, where
/// those of all rows then take four fifths or less of the time of the transposed convolution.
const OF_ROW: u64 = 1 << 20;
/// The same of a phase. Phases read the picture more often than rows do, and write short runs.
const OF_PHASE: u64 = 1 << 22;
/// The axis of channels.
const CHANNELS: usize = 1;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A transposed convolution of windows side by side.
struct Found {
    node: usize,
    /// The functions of its result alone, in order, and the node that makes what others read.
    functions: Vec<Unary>,
    last: usize,
    /// Weights `[C, O, kh, kw]`, and `O` biases.
    weights: Tensor,
    bias: Option<Tensor>,
    /// Each column of the window has a convolution of its own.
    apart: bool,
}

/// What has a convolution of its own: a row of the window, and some of its columns.
struct Part {
    row: u32,
    column: u32,
    columns: u32,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let it = &graph.nodes[node];
    let Op::Primitive(Primitive::ConvTranspose { window, groups: 1 }) = it.op else {
        return None;
    };
    let beside =
        |a: usize| window.stride[a] == window.kernel[a] && window.dilation[a] == 1 && window.pad_begin[a] == 0 && window.pad_end[a] == 0;
    let (x, y) = (graph.value(it.inputs[0]).shape, graph.value(it.outputs[0]).shape);
    let (&[_, inputs, height, width], &[_, outputs, rows, columns]) = (x.dims(), y.dims()) else {
        return None;
    };
    let whole = [height.checked_mul(window.kernel[0])?, width.checked_mul(window.kernel[1])?] == [rows, columns];
    let pieces = inputs.is_multiple_of(PIECE) && outputs.is_multiple_of(PIECE);
    if window.axes != 2 || window.taps() == 1 || !(beside(0) && beside(1) && whole && pieces) {
        return None;
    }
    let readers = |value: ValueId| (0..graph.nodes.len()).filter(move |&n| graph.nodes[n].inputs.contains(&value));
    let (mut functions, mut last) = (vec![], node);
    loop {
        let made = graph.nodes[last].outputs[0];
        let alone = readers(made).next().filter(|_| index.uses[made.index()] == 1);
        match alone.map(|reader| (reader, &graph.nodes[reader].op)) {
            Some((reader, Op::Primitive(Primitive::Unary(function)))) => {
                functions.push(*function);
                last = reader;
            }
            // What is joined to the result is joined in the operator of the whole.
            Some((_, Op::Primitive(Primitive::Binary(_)))) => return None,
            _ => break,
        }
    }
    let apart = readers(graph.nodes[last].outputs[0]).any(|n| matches!(graph.nodes[n].op, Op::Concat { axis: CHANNELS }));
    let fewest = match apart {
        true => window.taps() * OF_PHASE,
        false => u64::from(window.kernel[0]) * OF_ROW,
    };
    let sample = |shape: Shape| shape.dims()[1..].iter().map(|&d| u64::from(d)).product::<u64>();
    if sample(x) + sample(y) < fewest {
        return None;
    }
    let constant = |value: ValueId| {
        let (tensor, at) = strided::constant(graph, &index.producers, value)?;
        strided::gather(&tensor, &at)
    };
    let bias = match it.inputs.get(2) {
        Some(&bias) => Some(constant(bias)?),
        None => None,
    };
    Some(Found {
        node,
        functions,
        last,
        weights: constant(it.inputs[1])?,
        bias,
        apart,
    })
}

impl Found {
    /// Weights `[columns O, C, 1, 1]` of a part, and its biases.
    fn constants(&self, part: &Part) -> Option<(Tensor, Option<Tensor>)> {
        let &[inputs, outputs, ..] = self.weights.shape().dims() else {
            return None;
        };
        let channels = part.columns * outputs;
        let whole = strided::Strided::whole(crate::tensor::Layout::contiguous(self.weights.shape()));
        let start = vec![0, 0, i64::from(part.row), i64::from(part.column)];
        let taps = ViewOp::Slice { start, step: vec![1; 4] };
        let taps = whole.view(&taps, Shape::new(&[inputs, outputs, 1, part.columns])?)?;
        let perm = vec![3, 1, 0, 2];
        let turned = taps.view(&ViewOp::Transpose { perm }, Shape::new(&[part.columns, outputs, inputs, 1])?)?;
        let weights = strided::gather(&self.weights, &turned)?.reshaped(Shape::new(&[channels, inputs, 1, 1])?)?;
        let repeated = |bias: &Tensor| {
            let one = strided::Strided::whole(crate::tensor::Layout::contiguous(bias.shape()));
            let all = one.view(&ViewOp::Broadcast, Shape::new(&[part.columns, outputs])?)?;
            strided::gather(bias, &all)?.reshaped(Shape::new(&[channels])?)
        };
        let bias = match &self.bias {
            Some(bias) => Some(repeated(bias)?),
            None => None,
        };
        Some((weights, bias))
    }
}

fn apply(graph: &mut Graph, found: Found) {
    // Nothing reads what is written before a step that does not fit.
    let _ = rewritten(graph, &found);
}

fn rewritten(graph: &mut Graph, found: &Found) -> Option<()> {
    let Node { name, inputs, outputs, .. } = graph.nodes[found.node].clone();
    let [samples, _, height, width] = graph.value(inputs[0]).shape.dims().try_into().ok()?;
    let shape = graph.value(outputs[0]).shape;
    let (channels, rows, columns) = (shape.dim(1), shape.dim(2) / height, shape.dim(3) / width);
    let mut write = Writer {
        graph,
        of: outputs[0],
        nodes: vec![],
    };
    let mut parts = vec![];
    for row in 0..rows {
        let step = if found.apart { 1 } else { columns };
        let mut phases = vec![];
        for column in (0..columns).step_by(step as usize) {
            let part = Part {
                row,
                column,
                columns: step,
            };
            let (weights, bias) = found.constants(&part)?;
            let name = format!("{name}.{row}.{column}");
            let mut read = vec![inputs[0], write.graph.add_constant(format!("{name}.weights"), Arc::new(weights))];
            read.extend(bias.map(|bias| write.graph.add_constant(format!("{name}.bias"), Arc::new(bias))));
            let convolution = Primitive::Conv {
                window: Window::new(&[1, 1]),
                groups: 1,
            };
            let made = Shape::new(&[samples, step * channels, height, width])?;
            let mut value = write.node(&name, Op::Primitive(convolution), read, made);
            for (number, function) in found.functions.iter().enumerate() {
                let function = Op::Primitive(Primitive::Unary(*function));
                value = write.node(&format!("{name}.function{number}"), function, vec![value], made);
            }
            let last = Shape::new(&[samples, height, width, step * channels])?;
            let perm = vec![0, 2, 3, 1];
            value = write.node(&format!("{name}.last"), Op::View(ViewOp::Transpose { perm }), vec![value], last);
            let lies = match found.apart {
                true => Shape::new(&[samples, height, 1, width, 1, channels])?,
                false => Shape::new(&[samples, height, width * step * channels])?,
            };
            phases.push(write.node(&format!("{name}.part"), Op::View(ViewOp::Reshape), vec![value], lies));
        }
        if found.apart {
            let joined = Shape::new(&[samples, height, 1, width, columns, channels])?;
            phases = vec![write.joined(&format!("{name}.{row}"), 4, phases, joined)];
        }
        parts.append(&mut phases);
    }
    let joined = match found.apart {
        true => write.joined(
            &format!("{name}.rows"),
            2,
            parts,
            Shape::new(&[samples, height, rows, width, columns, channels])?,
        ),
        false => write.joined(
            &format!("{name}.rows"),
            2,
            parts,
            Shape::new(&[samples, height, rows * width * columns * channels])?,
        ),
    };
    let last = Shape::new(&[samples, shape.dim(2), shape.dim(3), channels])?;
    let pixels = write.node(&format!("{name}.pixels"), Op::View(ViewOp::Reshape), vec![joined], last);
    let nodes = write.nodes;
    let view = &mut graph.nodes[found.last];
    view.op = Op::View(ViewOp::Transpose { perm: vec![0, 3, 1, 2] });
    view.inputs = vec![pixels];
    graph.nodes.splice(found.last..found.last, nodes);
    Some(())
}

/// The nodes of one rewriting, whose values have the type of one that is there.
struct Writer<'a> {
    graph: &'a mut Graph,
    of: ValueId,
    nodes: Vec<Node>,
}

impl Writer<'_> {
    fn node(&mut self, name: &str, op: Op, inputs: Vec<ValueId>, shape: Shape) -> ValueId {
        let output = self.graph.add_value(name, self.graph.value(self.of).dtype, shape);
        self.graph.values[output.index()].single = self.graph.value(self.of).single;
        self.nodes.push(Node {
            name: name.to_owned(),
            op,
            inputs,
            outputs: vec![output],
        });
        output
    }

    /// The parts side by side along an axis; one alone is all there is.
    fn joined(&mut self, name: &str, axis: usize, parts: Vec<ValueId>, shape: Shape) -> ValueId {
        match parts[..] {
            [part] => part,
            _ => self.node(name, Op::Concat { axis }, parts, shape),
        }
    }
}
