//! Depthwise convolutions of shares of a picture's channels, by windows of several sizes around the same pixels, become one by the
//! largest, whose other taps are zeros (Tan and Le, "MixConv", 2019; Xu et al., "CoaT", 2021, section 3.2).
//!
//! Shares that begin between whole pieces of 16 bytes would be copied, and stored channel by channel; taps of zeros cost less.

use super::fold_batchnorm::{plain_bias, plain_weights};
use super::rewrite::{Index, at_each_node};
use super::share::Share;
use crate::planner::graph::{Graph, Op, ValueId};
use crate::primitive::{Primitive, Window};
use crate::tensor::{DType, Data, Shape, Tensor};
use std::sync::Arc;

/// The axis of channels.
const CHANNELS: usize = 1;
/// Channels of a whole piece in f16.
const PIECE: u32 = 8;
/// Most taps of the one window along an axis: kernels for larger ones are others.
const MOST_TAPS: u32 = 7;
/// Products of the one window for each of the several.
const MOST_WORK: u64 = 3;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A depthwise convolution of a share of channels.
struct Part {
    window: Window,
    /// `[C, 1, rows, columns]`.
    weights: Tensor,
    bias: Option<Vec<f32>>,
    /// The channels of a picture that it convolves.
    share: Share,
}

impl Part {
    fn of(graph: &Graph, index: &Index, value: ValueId) -> Option<Part> {
        let (node, primitive) = index.primitive(graph, value).filter(|_| index.uses[value.index()] == 1)?;
        let it = &graph.nodes[node];
        let &Primitive::Conv { window, groups } = primitive else {
            return None;
        };
        let weights = plain_weights(graph, index, it, primitive).filter(|w| w.dtype() == DType::F32)?;
        let shape = graph.value(it.inputs[0]).shape;
        let depthwise = shape.rank() == 4 && groups == shape.dim(CHANNELS) && weights.shape().dims()[..2] == [groups, 1];
        depthwise.then_some(())?;
        Some(Part {
            window,
            weights,
            bias: plain_bias(graph, index, it, primitive)?,
            share: Share::of(graph, index, it.inputs[0], CHANNELS)?,
        })
    }

    fn channels(&self) -> u32 {
        self.weights.shape().dim(0)
    }

    /// Products of a pixel.
    fn work(&self) -> u64 {
        self.weights.shape().elements()
    }

    /// Taps that `whole`, a window around the same pixels, has in front of this one's, rows and columns; `None` for other windows.
    fn margins(&self, whole: &Window) -> Option<[u32; 2]> {
        let own = &self.window;
        let mut margins = [0; 2];
        for (a, margin) in margins.iter_mut().enumerate() {
            let more = whole.kernel[a].checked_sub(own.kernel[a])?;
            let reach = own.dilation[a] * (more / 2);
            let centred = [(own.pad_begin, whole.pad_begin), (own.pad_end, whole.pad_end)]
                .iter()
                .all(|(own, whole)| whole[a].checked_sub(own[a]) == Some(reach));
            let alike = own.axes == 2 && own.stride[a] == whole.stride[a] && own.dilation[a] == whole.dilation[a];
            if !(alike && centred && more.is_multiple_of(2)) {
                return None;
            }
            *margin = more / 2;
        }
        Some(margins)
    }

    /// The weights of the window `whole`.
    fn widened(&self, whole: &Window, to: &mut Vec<f32>) -> Option<()> {
        let [above, left] = self.margins(whole)?;
        let [rows, columns] = [self.window.kernel[0], self.window.kernel[1]];
        let from = self.weights.as_f32()?;
        for channel in 0..self.channels() {
            for row in 0..whole.kernel[0] {
                for column in 0..whole.kernel[1] {
                    let tap = row.checked_sub(above).zip(column.checked_sub(left));
                    let tap = tap.filter(|(row, column)| *row < rows && *column < columns);
                    to.push(tap.map_or(0.0, |(row, column)| from[((channel * rows + row) * columns + column) as usize]));
                }
            }
        }
        Some(())
    }
}

/// A concatenation of what one convolution can compute.
struct Found {
    concat: usize,
    share: Share,
    window: Window,
    weights: Tensor,
    bias: Option<Tensor>,
}

fn find(graph: &Graph, index: &Index, concat: usize) -> Option<Found> {
    let node = &graph.nodes[concat];
    if node.op != (Op::Concat { axis: CHANNELS }) || node.inputs.len() < 2 {
        return None;
    }
    let parts: Vec<Part> = node.inputs.iter().map(|v| Part::of(graph, index, *v)).collect::<Option<_>>()?;
    let window = parts.iter().max_by_key(|p| p.work() / u64::from(p.channels().max(1)))?.window;
    let (first, rest) = parts.split_first()?;
    let share = rest.iter().try_fold(first.share, |all, part| all.followed_by(part.share))?;
    let channels: u32 = parts.iter().map(Part::channels).sum();
    let [rows, columns, _] = window.kernel;
    let work: u64 = parts.iter().map(Part::work).sum();
    let split = parts.iter().any(|p| p.share.start % i64::from(PIECE) != 0);
    let few = rows.max(columns) <= MOST_TAPS && u64::from(channels) * u64::from(rows * columns) <= MOST_WORK * work;
    if !(split && few) {
        return None;
    }
    let mut weights = Vec::new();
    parts.iter().try_for_each(|part| part.widened(&window, &mut weights))?;
    let biased = parts.iter().any(|p| p.bias.is_some());
    let bias = |p: &Part| p.bias.clone().unwrap_or_else(|| vec![0.0; p.channels() as usize]);
    let biases: Vec<f32> = parts.iter().filter(|_| biased).flat_map(bias).collect();
    Some(Found {
        concat,
        share,
        window,
        weights: Tensor::new(Shape::new(&[channels, 1, rows, columns])?, Data::F32(weights))?,
        bias: match biased {
            true => Some(Tensor::new(Shape::new(&[channels])?, Data::F32(biases))?),
            false => None,
        },
    })
}

fn apply(graph: &mut Graph, found: Found) {
    let concat = found.concat;
    let name = graph.nodes[concat].name.clone();
    let groups = found.weights.shape().dim(0);
    let (share, view) = found.share.value(graph, CHANNELS, &name);
    let mut inputs = vec![share, graph.add_constant(format!("{name}.weights"), Arc::new(found.weights))];
    if let Some(bias) = found.bias {
        inputs.push(graph.add_constant(format!("{name}.bias"), Arc::new(bias)));
    }
    let window = found.window;
    graph.nodes[concat].op = Op::Primitive(Primitive::Conv { window, groups });
    graph.nodes[concat].inputs = inputs;
    graph.nodes.splice(concat..concat, view);
}
