//! Depthwise convolutions of shares of a picture's channels, by windows of several sizes around the same pixels, become one by the
//! largest, whose other taps are zeros (Tan and Le, "MixConv", 2019; Xu et al., "CoaT", 2021, section 3.2).
//!
//! Shares that begin between whole pieces of 16 bytes would be copied, and stored channel by channel; taps of zeros cost less.

use super::fold_batchnorm::{plain_bias, plain_weights};
use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
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
struct Share {
    window: Window,
    /// `[C, 1, rows, columns]`.
    weights: Tensor,
    bias: Option<Vec<f32>>,
    /// The picture, and its first channel that is convolved.
    picture: ValueId,
    start: i64,
}

impl Share {
    fn of(graph: &Graph, index: &Index, value: ValueId) -> Option<Share> {
        let (node, primitive) = index.primitive(graph, value).filter(|_| index.uses[value.index()] == 1)?;
        let it = &graph.nodes[node];
        let &Primitive::Conv { window, groups } = primitive else {
            return None;
        };
        let weights = plain_weights(graph, index, it, primitive).filter(|w| w.dtype() == DType::F32)?;
        let shape = graph.value(it.inputs[0]).shape;
        let depthwise = shape.rank() == 4 && groups == shape.dim(CHANNELS) && weights.shape().dims()[..2] == [groups, 1];
        let view = &graph.nodes[index.producers[it.inputs[0].index()]?];
        let Op::View(ViewOp::Slice { start, step }) = &view.op else {
            return None;
        };
        let picture = view.inputs[0];
        let whole = graph.value(picture).shape;
        let band = step.iter().all(|s| *s == 1) && (0..4).all(|a| a == CHANNELS || whole.dim(a) == shape.dim(a));
        (depthwise && band).then_some(Share {
            window,
            weights,
            bias: plain_bias(graph, index, it, primitive)?,
            picture,
            start: start[CHANNELS],
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
    picture: ValueId,
    start: i64,
    window: Window,
    weights: Tensor,
    bias: Option<Tensor>,
}

fn find(graph: &Graph, index: &Index, concat: usize) -> Option<Found> {
    let node = &graph.nodes[concat];
    if node.op != (Op::Concat { axis: CHANNELS }) || node.inputs.len() < 2 {
        return None;
    }
    let shares: Vec<Share> = node.inputs.iter().map(|v| Share::of(graph, index, *v)).collect::<Option<_>>()?;
    let largest = shares.iter().max_by_key(|s| s.work() / u64::from(s.channels().max(1)))?;
    let window = largest.window;
    let first = shares.first()?;
    let (mut next, mut split) = (first.start, false);
    for share in &shares {
        if share.picture != first.picture || share.start != next {
            return None;
        }
        split |= share.start % i64::from(PIECE) != 0;
        next += i64::from(share.channels());
    }
    let channels: u32 = shares.iter().map(Share::channels).sum();
    let [rows, columns, _] = window.kernel;
    let work: u64 = shares.iter().map(Share::work).sum();
    let few = rows.max(columns) <= MOST_TAPS && u64::from(channels) * u64::from(rows * columns) <= MOST_WORK * work;
    if !(split && few) {
        return None;
    }
    let mut weights = Vec::new();
    shares.iter().try_for_each(|share| share.widened(&window, &mut weights))?;
    let biased = shares.iter().any(|s| s.bias.is_some());
    let bias = |s: &Share| s.bias.clone().unwrap_or_else(|| vec![0.0; s.channels() as usize]);
    let biases: Vec<f32> = shares.iter().filter(|_| biased).flat_map(bias).collect();
    Some(Found {
        concat,
        picture: first.picture,
        start: first.start,
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
    let channels = found.weights.shape().dim(0);
    let picture = graph.value(found.picture);
    let (dtype, shape) = (picture.dtype, picture.shape);
    let Some(band) = shape.with_dim(CHANNELS, channels) else { return };
    let share = graph.add_value(format!("{name}.share"), dtype, band);
    let mut inputs = vec![share, graph.add_constant(format!("{name}.weights"), Arc::new(found.weights))];
    if let Some(bias) = found.bias {
        inputs.push(graph.add_constant(format!("{name}.bias"), Arc::new(bias)));
    }
    graph.nodes[concat].op = Op::Primitive(Primitive::Conv {
        window: found.window,
        groups: channels,
    });
    graph.nodes[concat].inputs = inputs;
    let view = Node {
        name: format!("{name}.share"),
        op: Op::View(ViewOp::band(shape.rank(), CHANNELS, found.start)),
        inputs: vec![found.picture],
        outputs: vec![share],
    };
    graph.nodes.insert(concat, view);
}
