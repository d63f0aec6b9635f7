//! Squeeze and excitation in two launches: `kernels/squeeze.cu`.

use super::constants::{Constant, floats};
use super::operands::{check, output};
use super::tail::{attributes, unary_number};
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer, blocks, count, workspace_of};
use crate::plan::format::Operator;
use crate::plan::tactic::squeeze::{Squeeze as Form, range, span};
use crate::primitive::{Region, Unary};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;
/// Channels of a block of the second layer.
const GATES: u32 = 64;
/// Samples of such a block, where it takes several.
const GATE_SPAN: u32 = 4;
/// Outputs and inputs of a fragment of weights.
const STEP: u32 = 16;
/// Blocks a multiprocessor up to which blocks of a cluster share pixels: of more blocks there are enough without.
const SHARING: u32 = 2;
/// Clusters of which the multiprocessors have room, at the least: they do not lie side by side.
const CLUSTERS: u32 = 8;

#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct LayerParams {
    weights: u64,
    bias: u64,
    function: u32,
    first: f32,
    second: f32,
    padding: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    x: DeviceView,
    layers: [LayerParams; 2],
    parts: u64,
    ranges: Divisor,
    slabs: Divisor,
    width: Divisor,
    channels: u32,
    hidden: u32,
    pixels: u32,
    first_batch: u32,
    samples: u32,
    padding: [u32; 2],
}

/// A fully connected layer's packed constants and its function.
struct Layer {
    weights: PackId,
    bias: PackId,
    function: Unary,
}

struct Squeeze {
    operator: Operator,
    layers: [Layer; 2],
    /// Bytes of the first layer's sums by samples and ranges.
    parts: u64,
    /// Samples that a block computes with the same weights.
    span: u32,
}

const MISFIT: BindError = BindError::Tactic("it is no squeeze and excitation of halves");

/// Compiles the mean of all pixels with the two layers behind it.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let form = Form::of(packer.plan, operator).map_err(|_| MISFIT)?;
    let channels = form.x.layout.shape.dim(1);
    // Fragments of ranges of the inputs, of sixteen outputs, of sixteen of a range's inputs, in this order.
    let layer = |index: usize, outputs: u32, inputs: u32, range: u32| -> Result<Layer, BindError> {
        let (weights, bias, function) = form.layers[index];
        let name = format!("fragments of a small layer by {range} inputs");
        let weights = Constant::new(packer, weights)?.pack(packer, &name, |read| {
            let ranges = (0..inputs.div_ceil(range)).map(|r| r * range);
            let fragments = ranges.flat_map(|k| {
                let rows = (0..outputs.div_ceil(STEP)).map(|n| n * STEP);
                rows.flat_map(move |n| (0..range / STEP).map(move |step| (n, k + step * STEP)))
            });
            let places = fragments.flat_map(|(n, k)| fragment().map(move |(row, column)| (n + row, k + column)));
            let value = |(n, k)| if n < outputs && k < inputs { read(&[n, k, 0, 0]) } else { 0.0 };
            floats(DType::F16, places.map(value))
        })?;
        let bias = match bias {
            None => packer.table(format!("{outputs} zeros"), || floats(DType::F32, (0..outputs).map(|_| 0.0))),
            Some(view) => {
                let values = |read: &dyn Fn(&[u32]) -> f32| floats(DType::F32, (0..outputs).map(|n| read(&[n])));
                Constant::new(packer, view)?.pack(packer, "f32 bias of a small layer", values)?
            }
        };
        Ok(Layer { weights, bias, function })
    };
    let units = form.hidden.next_multiple_of(STEP);
    let layers = [
        layer(0, form.hidden, channels, range(channels))?,
        layer(1, channels, form.hidden, units)?,
    ];
    let sums = u64::from(form.x.layout.shape.dim(0)) * u64::from(channels.div_ceil(range(channels))) * u64::from(units);
    Ok(Box::new(Squeeze {
        operator: operator.clone(),
        layers,
        parts: sums * 4,
        span: span(operator.tactic, channels).ok_or(MISFIT)?,
    }))
}

/// Whether so many tiles leave room for clusters that share their pixels, under a width and on so many multiprocessors (0: unknown).
fn sharing(tiles: u32, shares: u32, width: u16, multiprocessors: u32) -> bool {
    let sharers = u64::from(tiles) * u64::from(shares);
    let room = width == 0 || u32::from(width) >= shares;
    let fit = multiprocessors >= CLUSTERS * shares && sharers <= u64::from(SHARING * multiprocessors);
    room && (multiprocessors == 0 || fit)
}

/// Rows and columns of the elements of a fragment of 16 by 16 weights, as the lanes of `mma.sync.m16n8k16` hold them.
fn fragment() -> impl Iterator<Item = (u32, u32)> {
    let of_lane = |lane: u32| (0..8).map(move |i| (lane / 4 + i / 2 % 2 * 8, lane % 4 * 2 + i % 2 + i / 4 * 8));
    (0..32).flat_map(of_lane)
}

impl Squeeze {
    fn layer(&self, at: &Addresses<'_>, index: usize) -> Result<LayerParams, BindError> {
        let layer = &self.layers[index];
        let (first, second) = attributes(layer.function);
        Ok(LayerParams {
            weights: at.pack(layer.weights)?.address,
            bias: at.pack(layer.bias)?.address,
            function: unary_number(layer.function),
            first,
            second,
            padding: 0,
        })
    }
}

impl Kernel for Squeeze {
    fn workspace(&self) -> u64 {
        workspace_of(self.parts)
    }

    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let form = Form::of(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let x = DeviceView::new(at, form.x)?;
        let range = range(x.extents[1]);
        let [ranges, slabs] = [range, GATES].map(|some| Divisor::new(x.extents[1].div_ceil(some)));
        let params = Params {
            y: DeviceView::new(at, output(&self.operator, 0)?)?,
            x,
            layers: [self.layer(at, 0)?, self.layer(at, 1)?],
            parts: at.scratch(self.parts)?.address,
            ranges,
            slabs,
            width: Divisor::new(x.extents[3]),
            channels: x.extents[1],
            hidden: form.hidden,
            pixels: x.extents[2].checked_mul(x.extents[3]).ok_or(BindError::Large("a picture"))?,
            first_batch: region.batch.start,
            samples: region.batch.len() as u32,
            padding: [0; 2],
        };
        let tiles = |span: u32, parts: Divisor| count([params.samples.div_ceil(span), parts.divisor], "a batch");
        let means = tiles(self.span, ranges)?;
        let cluster = if form.shares > 1 && at.clusters && sharing(means, form.shares, width, at.multiprocessors) {
            form.shares
        } else {
            1
        };
        let kind = match (form.shares, cluster) {
            (1, _) => "means",
            (_, 1) => "alone",
            _ => "shares",
        };
        let function = format!("squeeze_{kind}_{range}_{}", self.span);
        // A width that has room for a cluster has so for whole ones.
        let blocks = blocks(means, width / cluster as u16) * cluster;
        let means = Launch {
            cluster,
            ..Launch::new("squeeze", function, blocks, 0, THREADS, &params)
        };
        let span = if self.span == 1 { 1 } else { GATE_SPAN };
        let function = format!("squeeze_gates_{span}");
        Ok(vec![
            means,
            Launch::new("squeeze", function, tiles(span, slabs)?, width, THREADS, &params),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tactic::squeeze::tactics;
    use std::mem::size_of;

    #[test]
    fn structs_have_the_sources_bytes() {
        assert_eq!(size_of::<LayerParams>(), 32);
        assert_eq!(size_of::<Params>(), 2 * 88 + 2 * 32 + 72);
    }

    #[test]
    fn every_tactic_is_kernels_of_the_source() {
        let source = include_str!("../kernels/squeeze.cu");
        for channels in [8, 128, 129, 512, 513, 1024, 1025, 2048] {
            let range = range(channels);
            assert!(source.contains(&format!("\nMEANS(squeeze_shares_{range}_1, 2, {range}, 1, MANY_SHARES, 1)\n")));
            assert!(source.contains(&format!(
                "\nMEANS(squeeze_alone_{range}_1, 1, {range}, 1, MANY_SHARES, MANY_SHARES)\n"
            )));
            for tactic in tactics() {
                let span = span(tactic, channels).unwrap();
                assert!(source.contains(&format!("\nMEANS(squeeze_means_{range}_{span}, 2, {range}, {span}, 1, 1)\n")));
            }
        }
        let numbers = [("THREADS", THREADS), ("GATES", GATES), ("STEP", STEP)];
        assert!(
            numbers
                .iter()
                .all(|(name, value)| source.contains(&format!("constexpr u32 {name} = {value};")))
        );
        assert!([1, GATE_SPAN].iter().all(|span| source.contains(&format!("\nGATES_OF({span})\n"))));
    }

    #[test]
    fn a_fragment_holds_every_weight_once() {
        let places: std::collections::BTreeSet<_> = fragment().collect();
        assert_eq!((places.len(), fragment().count()), (256, 256));
        assert!(places.iter().all(|&(row, column)| row < STEP && column < STEP));
        // Lane 5 has rows 1 and 9, columns 2, 3, 10 and 11.
        let lane: Vec<_> = fragment().skip(5 * 8).take(8).collect();
        assert_eq!(lane, [(1, 2), (1, 3), (9, 2), (9, 3), (1, 10), (1, 11), (9, 10), (9, 11)]);
    }
}
