//! Transposed convolutions over volumes.
//!
//! Output slices that lie a stride apart meet the same slices of the window, as the phases of a transposed convolution of pictures do:
//! so each phase of the depth is a sum of transposed convolutions of pictures, and the phases' slices stand in turn in the result.
//! Every phase is written where it lies there, with the functions that follow alone.

use super::{Met, Work, flat, slices_of};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Primitive, Window};
use crate::tensor::{Shape, Tensor};
use std::sync::Arc;

/// Axes of pictures with their channels last, and back again.
pub(super) const CHANNELS_LAST: [usize; 4] = [0, 2, 3, 1];
pub(super) const CHANNELS_SECOND: [usize; 4] = [0, 3, 1, 2];

/// A slice of the window that a phase meets: its number, and the input slices from a phase's slice to where it lands.
struct Tap {
    slice: usize,
    lands: i64,
}

/// The taps of each phase of the depth; `None` if one has none.
fn taps(window: &Window) -> Option<Vec<Vec<Tap>>> {
    let stride = i64::from(window.stride[0]);
    let tap = |phase: i64, slice: u32| {
        let lands = phase + i64::from(window.pad_begin[0]) - i64::from(slice) * i64::from(window.dilation[0]);
        (lands.rem_euclid(stride) == 0).then(|| Tap {
            slice: slice as usize,
            lands: lands.div_euclid(stride),
        })
    };
    let of_phase = |phase: i64| {
        let taps: Vec<Tap> = (0..window.kernel[0]).filter_map(|slice| tap(phase, slice)).collect();
        (!taps.is_empty()).then_some(taps)
    };
    (0..stride).map(of_phase).collect()
}

impl Work {
    /// The phases of a transposed convolution, all of as many slices: those of the last phases may lie behind the result.
    pub(super) fn transposed(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        (window, groups): (Window, u32),
        weights: &Tensor,
        frames: Shape,
    ) -> Option<Vec<ValueId>> {
        let phases = taps(&window)?;
        let slices = slices_of(weights)?;
        let x = node.inputs[0];
        let (samples, depth) = (graph.value(x).shape.dim(0), graph.value(x).shape.dim(2));
        let each = (frames.dim(0) / samples).div_ceil(window.stride[0]);
        let (mut before, mut behind) = (0, 0);
        for tap in phases.iter().flatten() {
            before = before.max(-tap.lands);
            behind = behind.max(tap.lands + i64::from(each) - i64::from(depth));
        }
        let sides = [u32::try_from(before).ok()?, u32::try_from(behind).ok()?];
        let pictures = self.enter(graph, x)?;
        let pictures = self.padded(graph, &node.name, pictures, (sides, samples), 0.0)?;
        let made = frames.with_dim(0, each.checked_mul(samples)?)?;
        let weights: Vec<ValueId> = slices
            .into_iter()
            .enumerate()
            .map(|(slice, weights)| graph.add_constant(format!("{}.slice{slice}.weights", node.name), Arc::new(weights)))
            .collect();
        let mut parts = Vec::with_capacity(phases.len());
        for (phase, taps) in phases.iter().enumerate() {
            let mut products: Vec<(ValueId, String)> = Vec::with_capacity(taps.len());
            for Tap { slice, lands } in taps {
                let name = format!("{}.phase{phase}.slice{slice}", node.name);
                let first = lands + before;
                let met = self.step(graph, &name, pictures, Met { first, step: 1 }, samples, each)?;
                let mut inputs = vec![met, *weights.get(*slice)?];
                inputs.extend(node.inputs.get(2).filter(|_| products.is_empty()));
                let convolution = Primitive::ConvTranspose {
                    window: flat(window),
                    groups,
                };
                products.push((self.node(graph, &name, Op::Primitive(convolution), inputs, made), name));
            }
            parts.push(self.sum(graph, products, made)?);
        }
        Some(parts)
    }

    /// The slices of several values of as many in turn, as the pictures of what `node` makes; what is behind these is left out.
    pub(super) fn interleaved(&mut self, graph: &mut Graph, node: &Node, parts: Vec<ValueId>, frames: Shape) -> Option<ValueId> {
        let &[all, channels, height, width] = frames.dims() else {
            return None;
        };
        let output = node.outputs[0];
        let samples = graph.value(output).shape.dim(0);
        let pictures = graph.value(*parts.first()?).shape.dim(0);
        let run = [samples, height, width, channels].into_iter().try_fold(1u32, u32::checked_mul)?;
        let count = u32::try_from(parts.len()).ok()?;
        let of = |run: u32| Shape::new(&[pictures / samples, run]);
        let (each, joined) = (of(run)?, of(run.checked_mul(count)?)?);
        let made = Shape::new(&[pictures.checked_mul(count)?, height, width, channels])?;
        // As runs of whole slices: what has one sample only tells nothing about the order in which it is stored.
        let mut runs = Vec::with_capacity(parts.len());
        for (phase, part) in parts.iter().enumerate() {
            let name = format!("{}.phase{phase}", node.name);
            let last = Shape::new(&[pictures, height, width, channels])?;
            let last = self.turned(graph, &format!("{name}.last"), *part, &CHANNELS_LAST, last);
            runs.push(self.seen(graph, &format!("{name}.run"), last, each));
        }
        let name = &node.name;
        let joined = match runs[..] {
            [one] => one,
            _ => self.node(graph, &format!("{name}.runs"), Op::Concat { axis: 1 }, runs, joined),
        };
        let mut pixels = self.seen(graph, &format!("{name}.pixels"), joined, made);
        if made.dim(0) > all {
            let whole = ViewOp::Slice {
                start: vec![0; 4],
                step: vec![1; 4],
            };
            pixels = self.node(
                graph,
                &format!("{name}.whole"),
                Op::View(whole),
                vec![pixels],
                made.with_dim(0, all)?,
            );
        } else {
            self.phases.insert(output, parts);
        }
        Some(self.turned(graph, &format!("{name}.frames"), pixels, &CHANNELS_SECOND, frames))
    }

    /// True for a function of what has phases, if it alone reads that and everything else it reads is as large.
    pub(super) fn is_phased(&self, graph: &Graph, node: &Node) -> bool {
        let alone = |v: &ValueId| self.uses.get(v.index()) == Some(&1);
        let alike = |v: &ValueId| graph.value(*v).shape == graph.value(node.outputs[0]).shape;
        node.inputs.iter().any(|v| self.phases.contains_key(v) && alone(v)) && node.inputs.iter().all(alike)
    }

    /// A function of each phase.
    pub(super) fn functions(&mut self, graph: &mut Graph, node: &Node) -> Option<Vec<ValueId>> {
        let parts = node.inputs.iter().find_map(|v| self.phases.get(v)).cloned()?;
        let (step, made) = (u32::try_from(parts.len()).ok()?, graph.value(*parts.first()?).shape);
        let samples = graph.value(node.outputs[0]).shape.dim(0);
        let function = |phase: usize| {
            let name = format!("{}.phase{phase}", node.name);
            let mut inputs = Vec::with_capacity(node.inputs.len());
            for &input in &node.inputs {
                inputs.push(match self.phases.get(&input).filter(|p| p.len() == parts.len()) {
                    Some(own) => *own.get(phase)?,
                    None => {
                        let pictures = self.enter(graph, input)?;
                        let first = i64::try_from(phase).ok()?;
                        self.step(graph, &name, pictures, Met { first, step }, samples, made.dim(0) / samples)?
                    }
                });
            }
            Some(self.function(graph, &name, node, inputs, made))
        };
        (0..parts.len()).map(function).collect()
    }

    /// A value with its axes in another order.
    pub(super) fn turned(&mut self, graph: &mut Graph, name: &str, value: ValueId, perm: &[usize], shape: Shape) -> ValueId {
        let perm = perm.to_vec();
        self.node(graph, name, Op::View(ViewOp::Transpose { perm }), vec![value], shape)
    }

    /// A value in another shape.
    pub(super) fn seen(&mut self, graph: &mut Graph, name: &str, value: ValueId, shape: Shape) -> ValueId {
        self.node(graph, name, Op::View(ViewOp::Reshape), vec![value], shape)
    }
}
