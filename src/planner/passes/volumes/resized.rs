//! Resizes of volumes: one of pictures' rows and columns, and one along the depth.
//!
//! Resizes are separable, so the steps make what all axes at once do, rounded once more. Along the depth whole slices are what a pixel's
//! channels are otherwise. Of volumes of one channel the depth becomes the channels: there pixels of pictures have nothing side by side,
//! and what follows a cost volume, the shares of its disparities (Kendall et al. 2017), is over the depth of each pixel.

use super::Work;
use super::transposed::{CHANNELS_LAST, CHANNELS_SECOND};
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Coordinates, Primitive, Resize, Scalar};
use crate::tensor::Shape;

/// Channels that kernels resize at once.
const PIECE: u32 = 8;

/// What a resize was written as.
pub(super) enum Made {
    /// Pictures of the volume.
    Pictures(ValueId),
    /// The volume itself.
    Volume,
}

/// What is resized, and what it becomes.
struct Sides {
    samples: u32,
    channels: u32,
    /// Depth, rows and columns.
    from: [u32; 3],
    to: [u32; 3],
}

impl Sides {
    /// The steps' elements of a sample's channel between them: along the depth first, and along rows and columns first.
    fn between(&self) -> [u64; 2] {
        let ([a, b, c], [d, e, f]) = (self.from.map(u64::from), self.to.map(u64::from));
        [d.saturating_mul(b * c), a.saturating_mul(e * f)]
    }

    /// The depth that channels stand for.
    fn depth_as_channels(&self) -> bool {
        let [first, second] = self.between();
        self.channels == 1 && self.to[0].is_multiple_of(PIECE) && first <= second
    }
}

/// A resize of the axes of a picture by scales of the volume's, in the same order; `None` along those that stay.
fn of_picture(resize: &Resize, axes: [Option<usize>; 2]) -> Op {
    let mut scales = [Scalar(1.0); MAX_RANK];
    for (scale, axis) in scales[2..].iter_mut().zip(axes) {
        *scale = axis.map_or(Scalar(1.0), |axis| resize.scales[axis]);
    }
    Op::Primitive(Primitive::Resize(Resize { scales, ..*resize }))
}

impl Work {
    /// A resize of a volume as two of pictures.
    pub(super) fn resized(&mut self, graph: &mut Graph, node: &Node, resize: Resize) -> Option<Made> {
        let (x, output) = (node.inputs[0], node.outputs[0]);
        let (from, to) = (graph.value(x).shape, graph.value(output).shape);
        let (&[samples, channels, ref from @ ..], &[batch, planes, ref to @ ..]) = (from.dims(), to.dims()) else {
            return None;
        };
        let sides = Sides {
            samples,
            channels,
            from: from.try_into().ok()?,
            to: to.try_into().ok()?,
        };
        let whole = !matches!(resize.coordinates, Coordinates::CropAndResize { .. });
        let alone = resize.scales[..2].iter().all(|s| s.0 == 1.0) && [samples, channels] == [batch, planes];
        let changes = |axis: usize| sides.from[axis] != sides.to[axis] || resize.scales[axis + 2].0 != 1.0;
        let (deep, flat) = (changes(0), changes(1) || changes(2));
        if !whole || !alone || !(deep || flat) {
            return None;
        }
        let pictures = self.enter(graph, x)?;
        if deep && flat && sides.depth_as_channels() {
            let channels = self.depth_as_channels(graph, node, pictures, (&resize, &sides))?;
            let [depth, rows, columns] = sides.to;
            let made = Shape::new(&[samples, depth, rows, columns])?;
            let made = self.node(graph, &node.name, of_picture(&resize, [Some(3), Some(4)]), vec![channels], made);
            graph.values[made.index()].single = graph.value(output).single;
            self.nodes.push(Node {
                name: format!("{}.volume", node.name),
                op: Op::View(ViewOp::Reshape),
                inputs: vec![made],
                outputs: vec![output],
            });
            return Some(Made::Volume);
        }
        let [first, second] = sides.between();
        let mut made = pictures;
        let steps = if first <= second {
            [deep, flat, false]
        } else {
            [false, flat, deep]
        };
        for (step, _) in steps.into_iter().enumerate().filter(|(_, wanted)| *wanted) {
            made = match step {
                1 => {
                    let shape = graph.value(made).shape.with_dim(2, sides.to[1])?.with_dim(3, sides.to[2])?;
                    self.node(
                        graph,
                        &format!("{}.pictures", node.name),
                        of_picture(&resize, [Some(3), Some(4)]),
                        vec![made],
                        shape,
                    )
                }
                _ => self.deepened(graph, node, made, (&resize, &sides))?,
            };
        }
        Some(Made::Pictures(made))
    }

    /// Pictures resized along the depth, of which each is a row of one pixel.
    fn deepened(&mut self, graph: &mut Graph, node: &Node, pictures: ValueId, of: (&Resize, &Sides)) -> Option<ValueId> {
        let (resize, sides) = of;
        let &[_, channels, rows, columns] = graph.value(pictures).shape.dims() else {
            return None;
        };
        let [from, to] = [sides.from[0], sides.to[0]];
        let slice = [sides.samples, channels, rows, columns]
            .into_iter()
            .try_fold(1u32, u32::checked_mul)?;
        let name = |step: &str| format!("{}.{step}", node.name);
        let pixels = |depth: u32| Shape::new(&[depth.checked_mul(sides.samples)?, rows, columns, channels]);
        let last = self.turned(graph, &name("last"), pictures, &CHANNELS_LAST, pixels(from)?);
        let slices = self.seen(graph, &name("slices"), last, Shape::new(&[from, slice])?);
        let turned = self.turned(graph, &name("turned"), slices, &[1, 0], Shape::new(&[slice, from])?);
        let picture = self.seen(graph, &name("picture"), turned, Shape::new(&[1, slice, from, 1])?);
        let made = Shape::new(&[1, slice, to, 1])?;
        let made = self.node(graph, &name("depth"), of_picture(resize, [Some(2), None]), vec![picture], made);
        let apart = self.seen(graph, &name("apart"), made, Shape::new(&[slice, to])?);
        let slices = self.turned(graph, &name("back"), apart, &[1, 0], Shape::new(&[to, slice])?);
        let last = self.seen(graph, &name("pixels"), slices, pixels(to)?);
        let frames = Shape::new(&[to.checked_mul(sides.samples)?, channels, rows, columns])?;
        Some(self.turned(graph, &name("frames"), last, &CHANNELS_SECOND, frames))
    }

    /// Pictures of one channel resized along the depth, as one of as many channels.
    fn depth_as_channels(&mut self, graph: &mut Graph, node: &Node, pictures: ValueId, of: (&Resize, &Sides)) -> Option<ValueId> {
        let (resize, sides) = of;
        let samples = sides.samples;
        let ([from, rows, columns], to) = (sides.from, sides.to[0]);
        let pixels = rows.checked_mul(columns)?;
        let name = |step: &str| format!("{}.{step}", node.name);
        let slices = self.seen(graph, &name("slices"), pictures, Shape::new(&[from, samples, pixels])?);
        let lines = self.turned(graph, &name("lines"), slices, &[1, 2, 0], Shape::new(&[samples, pixels, from])?);
        let picture = self.seen(graph, &name("picture"), lines, Shape::new(&[samples, 1, pixels, from])?);
        let made = Shape::new(&[samples, 1, pixels, to])?;
        let made = self.node(graph, &name("depth"), of_picture(resize, [None, Some(2)]), vec![picture], made);
        let lines = self.seen(graph, &name("deep"), made, Shape::new(&[samples, pixels, to])?);
        let channels = self.turned(graph, &name("channels"), lines, &[0, 2, 1], Shape::new(&[samples, to, pixels])?);
        Some(self.seen(graph, &name("pixels"), channels, Shape::new(&[samples, to, rows, columns])?))
    }
}
