//! Transposed convolutions whose windows stand side by side, as where decoders double a picture, become ordinary ones of single
//! pixels. What a pixel gives to a row of its window is `kw O` channels, and these lie in the result as the pixels of a row do: so
//! there is one convolution for each row of the window, and together they are the result seen as `[N, H, kh W kw O]`.
//!
//! Where a concatenation of channels takes the result, its pixels are apart, and each phase has a convolution of its own: the result
//! is seen as `[N, H, kh, W, kw, O]`. Functions of the result alone are those of each part. Every part is written where it lies in
//! the result; the same products are summed in the same order. Each launch reads the picture again, so small ones stay as they are.
//!
//! Windows of few channels may overlap: an output row of a phase then meets several input rows, and the columns that all its pixels
//! meet are multiplied by zeros where one does not. Results of one or two channels, whose runs would be short, are the channels of one
//! convolution, which are brought into order behind it.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Primitive, Unary, Window};
use crate::tensor::{Shape, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// Channels of both pictures are a multiple of this, so that pixels are whole pieces of 16 bytes in f16.
const PIECE: u32 = 8;
/// Elements of one sample, read and written, from which on the convolution of a row is worth its launch: by the paces of an H200, where
/// those of all rows then take four fifths or less of the time of the transposed convolution.
const OF_ROW: u64 = 1 << 20;
/// The same of a phase. Phases read the picture more often than rows do, and write short runs.
const OF_PHASE: u64 = 1 << 22;
/// Most channels of both pictures where windows overlap, those of the result for all columns: kernels whose taps share pixels have them.
const MOST_INPUTS: u32 = 32;
const MOST_OUTPUTS: u32 = 32;
/// Pixels of a result of few channels from which on a copy of it is worth its launch, and most channels of one convolution.
const FEW_PIXELS: u64 = 1 << 17;
const MOST_ALL: u32 = 32;
/// The axis of channels.
const CHANNELS: usize = 1;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// What a convolution of its own makes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    /// A row of each stride.
    Rows,
    /// A pixel of each stride.
    Phases,
    /// All of them.
    All,
}

/// A transposed convolution whose result has a whole number of pixels for each of its input.
struct Found {
    node: usize,
    window: Window,
    /// The functions of its result alone, in order, and the node that makes what others read.
    functions: Vec<Unary>,
    last: usize,
    /// Weights `[C, O, kh, kw]`, and `O` biases.
    weights: Tensor,
    bias: Option<Tensor>,
    parts: Parts,
}

/// What has a convolution of its own: rows and columns of a stride.
struct Part {
    rows: Range<u32>,
    columns: Range<u32>,
}

impl Part {
    /// Results of a pixel.
    fn pixels(&self) -> u32 {
        self.rows.len() as u32 * self.columns.len() as u32
    }
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let it = &graph.nodes[node];
    let Op::Primitive(Primitive::ConvTranspose { window, groups: 1 }) = it.op else {
        return None;
    };
    let beside = |a: usize| window.stride[a] == window.kernel[a] && window.pad_begin[a] == 0 && window.pad_end[a] == 0;
    let (x, y) = (graph.value(it.inputs[0]).shape, graph.value(it.outputs[0]).shape);
    let (&[_, inputs, height, width], &[_, outputs, rows, columns]) = (x.dims(), y.dims()) else {
        return None;
    };
    let whole = [height.checked_mul(window.stride[0])?, width.checked_mul(window.stride[1])?] == [rows, columns];
    let phases = u64::from(window.stride[0]) * u64::from(window.stride[1]);
    let simple = window.axes == 2 && window.taps() > 1 && phases > 1 && window.dilation[..2] == [1, 1];
    if !(simple && whole && inputs.is_multiple_of(PIECE)) {
        return None;
    }
    let alike = beside(0) && beside(1);
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
    let joined = readers(graph.nodes[last].outputs[0]).any(|n| matches!(graph.nodes[n].op, Op::Concat { axis: CHANNELS }));
    let parts = match outputs.is_multiple_of(PIECE) {
        true if joined => Parts::Phases,
        true => Parts::Rows,
        false => Parts::All,
    };
    let across = u64::from(outputs) * u64::from(window.stride[1]);
    let few = inputs <= MOST_INPUTS && across <= MOST_OUTPUTS.into();
    let sample = |shape: Shape| shape.dims()[1..].iter().map(|&d| u64::from(d)).product::<u64>();
    let elements = sample(x) + sample(y);
    let worth = match parts {
        Parts::All => u64::from(rows) * u64::from(columns) >= FEW_PIXELS && u64::from(outputs) * phases <= MOST_ALL.into(),
        Parts::Rows => (alike || few) && elements >= u64::from(window.stride[0]) * OF_ROW,
        Parts::Phases => alike && elements >= phases * OF_PHASE,
    };
    if !worth {
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
        window,
        functions,
        last,
        weights: constant(it.inputs[1])?,
        bias,
        parts,
    })
}

/// Input pixels from a result's own to those that the phases of an axis meet: the first and the last, that one among them.
fn met(window: &Window, axis: usize, phases: &Range<u32>) -> [i64; 2] {
    let [kernel, stride, pad] = [window.kernel[axis], window.stride[axis], window.pad_begin[axis]].map(i64::from);
    // Taps further on are of pixels further back.
    let last = (i64::from(phases.end) - 1 + pad).div_euclid(stride);
    let first = -(kernel - 1 - i64::from(phases.start) - pad).div_euclid(stride);
    [first.min(0), last.max(0)]
}

impl Found {
    /// The window of a part over the input.
    fn window(&self, part: &Part) -> Option<Window> {
        let met = [met(&self.window, 0, &part.rows), met(&self.window, 1, &part.columns)];
        let mut window = Window::new(&met.map(|[first, last]| (last - first + 1) as u32));
        for (axis, [first, last]) in met.into_iter().enumerate() {
            window.pad_begin[axis] = u32::try_from(-first).ok()?;
            window.pad_end[axis] = u32::try_from(last).ok()?;
        }
        Some(window)
    }

    /// The phases of a part's channels, and the channel of the result that each is of.
    fn channels(&self, part: &Part, outputs: u32) -> Vec<([u32; 2], u32)> {
        let phases: Vec<[u32; 2]> = part.rows.clone().flat_map(|r| part.columns.clone().map(move |c| [r, c])).collect();
        let all = 0..phases.len() * outputs as usize;
        match self.parts {
            // Pixels lie side by side in planes of few channels.
            Parts::All => all.map(|i| (phases[i % phases.len()], (i / phases.len()) as u32)).collect(),
            _ => all.map(|i| (phases[i / outputs as usize], i as u32 % outputs)).collect(),
        }
    }

    /// Weights of a part, and its biases.
    fn constants(&self, part: &Part) -> Option<(Tensor, Option<Tensor>)> {
        let &[inputs, outputs, down, across] = self.weights.shape().dims() else {
            return None;
        };
        let (window, channels) = (self.window(part)?, self.channels(part, outputs));
        let bytes = self.weights.dtype().bytes() as usize;
        let [rows, columns, _] = window.kernel;
        let mut weights = Vec::with_capacity(channels.len() * (inputs * rows * columns) as usize * bytes);
        // The tap of a phase that lands so many pixels from where the window begins.
        let tap = |axis: usize, phase: u32, at: u32, taps: u32| {
            let lands = i64::from(at) - i64::from(window.pad_begin[axis]);
            let tap = i64::from(phase + self.window.pad_begin[axis]) - lands * i64::from(self.window.stride[axis]);
            u32::try_from(tap).ok().filter(|&tap| tap < taps)
        };
        for &([row, column], output) in &channels {
            for (input, at) in (0..inputs).flat_map(|i| (0..rows * columns).map(move |at| (i, at))) {
                match tap(0, row, at / columns, down).zip(tap(1, column, at % columns, across)) {
                    Some((r, c)) => {
                        let from = (((input * outputs + output) * down + r) * across + c) as usize * bytes;
                        weights.extend_from_slice(&self.weights.bytes()[from..from + bytes]);
                    }
                    None => weights.resize(weights.len() + bytes, 0),
                }
            }
        }
        let count = channels.len() as u32;
        let weights = Tensor::from_bytes(self.weights.dtype(), Shape::new(&[count, inputs, rows, columns])?, &weights)?;
        let bias = match &self.bias {
            Some(bias) => {
                let each = bias.dtype().bytes() as usize;
                let all: Vec<u8> = channels
                    .iter()
                    .flat_map(|&(_, o)| &bias.bytes()[o as usize * each..(o as usize + 1) * each])
                    .copied()
                    .collect();
                Some(Tensor::from_bytes(bias.dtype(), Shape::new(&[count])?, &all)?)
            }
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
    let view = if found.parts == Parts::All {
        let part = Part {
            rows: 0..rows,
            columns: 0..columns,
        };
        let value = write.convolved(&name, inputs[0], found, &part)?;
        let split = Shape::new(&[samples, channels, rows, columns, height, width])?;
        let split = write.node(&format!("{name}.phases"), Op::View(ViewOp::Reshape), vec![value], split);
        let turned = Shape::new(&[samples, channels, height, rows, width, columns])?;
        let perm = vec![0, 1, 4, 2, 5, 3];
        let turned = write.node(&format!("{name}.turned"), Op::View(ViewOp::Transpose { perm }), vec![split], turned);
        (ViewOp::Reshape, turned)
    } else {
        let joined = write.parts(&name, inputs[0], found, [samples, height, width, channels, rows, columns])?;
        let last = Shape::new(&[samples, shape.dim(2), shape.dim(3), channels])?;
        let pixels = write.node(&format!("{name}.pixels"), Op::View(ViewOp::Reshape), vec![joined], last);
        (ViewOp::Transpose { perm: vec![0, 3, 1, 2] }, pixels)
    };
    let nodes = write.nodes;
    let last = &mut graph.nodes[found.last];
    (last.op, last.inputs) = (Op::View(view.0), vec![view.1]);
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
    /// The convolution of a part, and the functions of the result.
    fn convolved(&mut self, name: &str, x: ValueId, found: &Found, part: &Part) -> Option<ValueId> {
        let (weights, bias) = found.constants(part)?;
        let channels = part.pixels() * self.graph.value(self.of).shape.dim(CHANNELS);
        let made = self.graph.value(x).shape.with_dim(CHANNELS, channels)?;
        let mut read = vec![x, self.graph.add_constant(format!("{name}.weights"), Arc::new(weights))];
        read.extend(bias.map(|bias| self.graph.add_constant(format!("{name}.bias"), Arc::new(bias))));
        let convolution = Primitive::Conv {
            window: found.window(part)?,
            groups: 1,
        };
        let mut value = self.node(name, Op::Primitive(convolution), read, made);
        for (number, function) in found.functions.iter().enumerate() {
            let function = Op::Primitive(Primitive::Unary(*function));
            value = self.node(&format!("{name}.function{number}"), function, vec![value], made);
        }
        Some(value)
    }

    /// All rows or phases where they lie in the result.
    fn parts(
        &mut self,
        name: &str,
        x: ValueId,
        found: &Found,
        [samples, height, width, channels, rows, columns]: [u32; 6],
    ) -> Option<ValueId> {
        let apart = found.parts == Parts::Phases;
        let step = if apart { 1 } else { columns };
        let mut parts = vec![];
        for row in 0..rows {
            let mut phases = vec![];
            for column in (0..columns).step_by(step as usize) {
                let part = Part {
                    rows: row..row + 1,
                    columns: column..column + step,
                };
                let name = format!("{name}.{row}.{column}");
                let value = self.convolved(&name, x, found, &part)?;
                let last = Shape::new(&[samples, height, width, step * channels])?;
                let perm = vec![0, 2, 3, 1];
                let value = self.node(&format!("{name}.last"), Op::View(ViewOp::Transpose { perm }), vec![value], last);
                let lies = match apart {
                    true => Shape::new(&[samples, height, 1, width, 1, channels])?,
                    false => Shape::new(&[samples, height, width * step * channels])?,
                };
                phases.push(self.node(&format!("{name}.part"), Op::View(ViewOp::Reshape), vec![value], lies));
            }
            if apart {
                let joined = Shape::new(&[samples, height, 1, width, columns, channels])?;
                phases = vec![self.joined(&format!("{name}.{row}"), 4, phases, joined)];
            }
            parts.append(&mut phases);
        }
        let joined = match apart {
            true => Shape::new(&[samples, height, rows, width, columns, channels])?,
            false => Shape::new(&[samples, height, rows * width * columns * channels])?,
        };
        Some(self.joined(&format!("{name}.rows"), 2, parts, joined))
    }

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
