//! The tiles of the kernels for convolutions that are several matrix products of one kind, and what they demand: grouped
//! convolutions, transposed ones, and pictures cut into patches.
//!
//! A grouped convolution is a product for each few groups, as many as fill an instruction: what stands between different
//! groups has weight zero. A transposed one is a product for each phase of its strides: outputs that lie a stride apart meet
//! the same taps. A picture of few channels whose windows do not reach outside, and whose window rows are whole pieces of 8
//! halves side by side in memory, is one product of such rows.

use super::Misfit;
use super::forms::{cheapest_first, computes_halves, need};
use super::product::{Pixels, Product};
use crate::plan::format::{Call, Kernel, Operand, Operator, Plan, Space, Tactic, View};
use crate::primitive::Primitive;
use crate::tensor::DType;

/// Halves of a piece, which one copy brings into shared memory.
pub const PIECE: u32 = 8;
/// Halves that a row of packed weights is a multiple of.
pub const PITCH: u32 = 64;
/// Fewest output channels of a part that has several groups: the width of the narrowest tile.
const NARROWEST: u32 = 16;
/// Most parts of an operator, and most pieces of a part.
const MAX_PARTS: u64 = 1 << 14;
const MAX_PIECES: u64 = 1 << 14;
/// Rows and pixels of the padded input are counted in 16 bits with a sign.
const MAX_SIDE: u32 = 1 << 14;

/// One kernel of `conv_parts.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartTile {
    /// Pixels and output channels of a block's tile.
    pub tile: (u16, u16),
    /// Pixels and output channels of a warp's share.
    pub warp: (u16, u16),
    /// Depth of a step along K.
    pub step: u16,
    /// Steps in shared memory at once.
    pub stages: u16,
}

const fn entry(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> PartTile {
    PartTile { tile, warp, step, stages }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[PartTile] = &[
    entry((64, 16), 32, (16, 16), 4),
    entry((64, 32), 64, (32, 16), 4),
    entry((64, 64), 64, (32, 32), 4),
    entry((128, 64), 64, (64, 32), 3),
    entry((32, 32), 64, (16, 16), 5),
];

impl PartTile {
    /// The kernel's name in `conv_parts.cu`.
    pub fn function(&self) -> String {
        let PartTile { tile, warp, step, stages } = self;
        format!("conv_parts_{}x{}x{step}_{}x{}_s{stages}", tile.0, tile.1, warp.0, warp.1)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static PartTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvParts && tactic.tile == entry.tile).then_some(entry)
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        32 * u32::from(self.tile.0 / self.warp.0) * u32::from(self.tile.1 / self.warp.1)
    }

    /// Bytes of shared memory of a block: the ring of stages or, if larger, the strips in which warps turn their sums.
    pub fn shared(&self) -> u32 {
        let stage = 2 * u32::from(self.step) * (u32::from(self.tile.0) + u32::from(self.tile.1));
        let turn = self.threads() / 32 * 16 * (u32::from(self.warp.1) + 8) * 4;
        (stage * u32::from(self.stages)).max(turn)
    }

    /// Relative time of a product, in cycles of a multiprocessor.
    fn estimate(&self, product: &Parted<'_>, units: u64) -> u64 {
        /// What a tile costs before and behind its products.
        const FIXED: u64 = 1500;
        let [high, wide] = [self.tile.0, self.tile.1].map(u64::from);
        let [samples, rows, columns, _] = product.product.out.extents.map(u64::from);
        let [down, across] = product.step().map(u64::from);
        let pixels = samples * rows.div_ceil(down) * columns.div_ceil(across);
        let deepest = u64::from(product.widest().1).div_ceil(u64::from(self.step));
        let tiles = pixels.div_ceil(high) * u64::from(product.widest().0).div_ceil(wide) * product.count();
        let blocks = deepest * (high * wide * u64::from(self.step) / 2048 + (high + wide) * 2);
        let resident = (160 << 10) / u64::from(self.shared()).max(1);
        tiles.div_ceil(units) * blocks + tiles.div_ceil(units * resident.clamp(1, 6)) * FIXED
    }
}

/// What a convolution is cut along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// So many groups to a part.
    Groups(u32),
    /// The phases of the strides, and so many groups to a part.
    Phases(u32),
    /// One part, of windows whose rows lie in one piece.
    Patches,
}

/// An operator's head as several products of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Parted<'a> {
    /// Its tensors. The weights of a transposed convolution are `[C, O / g, kh, kw]`, others `[O, C / g, kh, kw]`.
    pub product: Product<'a>,
    /// Groups of channels.
    pub groups: u32,
    /// What it is cut along.
    pub cut: Cut,
}

/// One of the products: some groups of channels, and one phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Groups.
    pub groups: std::ops::Range<u32>,
    /// Output row and pixel of the first pixel of its grid.
    pub phase: [u32; 2],
    /// Taps, in row-major order.
    pub taps: Vec<Tap>,
}

/// A tap that a part's pixels meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tap {
    /// Its row and column in the window.
    pub at: [u32; 2],
    /// Input rows and pixels from a pixel of the grid to where it lands.
    pub lands: [i32; 2],
}

impl Parted<'_> {
    /// Input and output channels of a group.
    pub fn group(&self) -> [u32; 2] {
        [self.product.x.extents[3], self.product.out.extents[3]].map(|channels| channels / self.groups)
    }

    /// Groups of a part, the last one excepted.
    fn groups_each(&self) -> u32 {
        match self.cut {
            Cut::Groups(each) | Cut::Phases(each) => each,
            Cut::Patches => 1,
        }
    }

    /// Output rows and pixels from a pixel of a part's grid to the next.
    pub fn step(&self) -> [u32; 2] {
        match self.cut {
            Cut::Phases(_) => [0, 1].map(|a| self.product.window.stride[a]),
            _ => [1, 1],
        }
    }

    /// Input rows and pixels from a pixel of a part's grid to the next.
    pub fn walk(&self) -> [u32; 2] {
        match self.cut {
            Cut::Phases(_) => [1, 1],
            _ => [0, 1].map(|a| self.product.window.stride[a]),
        }
    }

    /// Parts.
    fn count(&self) -> u64 {
        u64::from(self.groups.div_ceil(self.groups_each())) * self.step().map(u64::from).iter().product::<u64>()
    }

    /// Output channels and halves of K of the widest part.
    pub fn widest(&self) -> (u32, u32) {
        let [inputs, outputs] = self.group().map(|channels| channels * self.groups_each());
        let window = &self.product.window;
        let taps = |a: usize| match self.cut {
            Cut::Phases(_) => window.kernel[a].div_ceil(window.stride[a]),
            _ => window.kernel[a],
        };
        (outputs, inputs * taps(0) * taps(1))
    }

    /// The parts, those of the same groups side by side.
    pub fn parts(&self) -> Vec<Part> {
        let each = self.groups_each();
        let groups = (0..self.groups).step_by(each as usize).map(|g| g..(g + each).min(self.groups));
        let [down, across] = self.step();
        let phases: Vec<[u32; 2]> = (0..down).flat_map(|row| (0..across).map(move |pixel| [row, pixel])).collect();
        let part = |groups: std::ops::Range<u32>, phase: [u32; 2]| {
            let [rows, columns] = [0, 1].map(|a| self.taps_along(a, phase[a]));
            let taps = rows.iter().flat_map(|r| columns.iter().map(move |c| (r, c)));
            Part {
                groups,
                phase,
                taps: taps
                    .map(|(r, c)| Tap {
                        at: [r.0, c.0],
                        lands: [r.1, c.1],
                    })
                    .collect(),
            }
        };
        groups
            .flat_map(|g| phases.iter().map(move |&phase| (g.clone(), phase)))
            .map(|(g, phase)| part(g, phase))
            .collect()
    }

    /// The taps along an axis that outputs of a phase meet, each with the distance at which it lands.
    fn taps_along(&self, axis: usize, phase: u32) -> Vec<(u32, i32)> {
        let window = &self.product.window;
        let signed = |value: u32| value as i32;
        (0..window.kernel[axis])
            .filter_map(|tap| {
                let (reach, pad, stride) = (tap * window.dilation[axis], window.pad_begin[axis], window.stride[axis]);
                match self.cut {
                    Cut::Phases(_) => {
                        let lands = signed(phase + pad) - signed(reach);
                        (lands.rem_euclid(signed(stride)) == 0).then(|| (tap, lands.div_euclid(signed(stride))))
                    }
                    _ => Some((tap, signed(reach) - signed(pad))),
                }
            })
            .collect()
    }
}

/// Groups of a part: their channels are whole pieces of the input and whole groups of the output, and fill a tile's width.
fn groups_each(groups: u32, inputs: u32, outputs: u32) -> u32 {
    let whole = |each: u32| (each * inputs).is_multiple_of(PIECE) && (each * outputs).is_multiple_of(PIECE);
    (1..groups)
        .find(|&each| whole(each) && each * outputs >= NARROWEST)
        .unwrap_or(groups)
}

/// The products that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Parted<'a>, Misfit> {
    let head = operator.calls.first().ok_or(Misfit::Primitive)?;
    let (window, groups, transposed) = match head.primitive {
        Primitive::Conv { window, groups } => (window, groups, false),
        Primitive::ConvTranspose { window, groups } => (window, groups, true),
        _ => return Err(Misfit::Primitive),
    };
    need(window.axes == 2 && groups > 0, Misfit::Primitive)?;
    let (input, weights) = (view(head, 0)?, constant(plan, head, 1)?);
    let bias = (head.inputs.len() > 2).then(|| constant(plan, head, 2)).transpose()?;
    let output = operator.outputs.first().ok_or(Misfit::Primitive)?;
    let halves = input.dtype == DType::F16 && weights.dtype == DType::F16;
    need(halves && computes_halves(operator), Misfit::Type)?;
    let product = Product {
        input,
        x: Pixels::of(input).ok_or(Misfit::Primitive)?,
        output,
        out: Pixels::of(output).ok_or(Misfit::Primitive)?,
        weights,
        bias,
        window,
        matrix: false,
    };
    let (x, out) = (&product.x, &product.out);
    need(x.channels_last() && out.channels_last(), Misfit::Layout)?;
    let [inputs, outputs] = [x.extents[3], out.extents[3]].map(|channels| channels / groups);
    let each = || groups_each(groups, inputs, outputs);
    let cut = match (transposed, groups) {
        (true, _) => Cut::Phases(each()),
        (false, 1) => Cut::Patches,
        // Depthwise convolutions have kernels of their own.
        (false, _) if inputs == 1 && outputs == 1 => return Err(Misfit::Primitive),
        (false, _) => Cut::Groups(each()),
    };
    let parted = Parted { product, groups, cut };
    match cut {
        Cut::Patches => patches(&parted)?,
        _ => need(x.extents[3].is_multiple_of(PIECE) && x.wide(), Misfit::Layout)?,
    }
    need(input.origin.is_multiple_of(u64::from(PIECE)), Misfit::Layout)?;
    bounded(&parted)?;
    Ok(parted)
}

/// Windows of a picture of few channels that never reach outside, and whose rows are whole pieces in memory.
fn patches(parted: &Parted<'_>) -> Result<(), Misfit> {
    let Product { x, out, window, .. } = &parted.product;
    let channels = x.extents[3];
    need(!channels.is_multiple_of(PIECE) && window.dilation[..2] == [1, 1], Misfit::Primitive)?;
    let inside = |a: usize| {
        let last = u64::from(out.extents[a + 1] - 1) * u64::from(window.stride[a]) + u64::from(window.kernel[a]);
        window.pad_begin[a] == 0 && last <= u64::from(x.extents[a + 1])
    };
    need(inside(0) && inside(1), Misfit::Primitive)?;
    let whole = |pixels: u32| u64::from(pixels) * u64::from(channels) % u64::from(PIECE) == 0;
    need(whole(window.kernel[1]) && whole(window.stride[1]), Misfit::Primitive)?;
    let aligned = x.strides[..2].iter().all(|s| s % i64::from(PIECE) == 0);
    need(aligned && x.strides[2] == i64::from(channels), Misfit::Layout)
}

/// What the kernels count in few bits.
fn bounded(parted: &Parted<'_>) -> Result<(), Misfit> {
    let Product { x, out, window, .. } = &parted.product;
    let inside = |a: usize| {
        let reach = window.reach(a).unwrap_or(u32::MAX);
        let sides = [
            x.extents[a + 1],
            out.extents[a + 1],
            window.pad_begin[a],
            window.pad_end[a],
            reach,
            window.stride[a],
        ];
        sides.iter().all(|&side| side < MAX_SIDE)
    };
    need(inside(0) && inside(1), Misfit::Layout)?;
    let k = window.taps() * u64::from(x.extents[3]);
    need(
        (1..=MAX_PIECES * u64::from(PIECE)).contains(&k) && parted.count() <= MAX_PARTS,
        Misfit::Primitive,
    )?;
    // Elements of the input, those around it included, are counted in 32 bits with a sign.
    let around = |a: usize| window.reach(a).unwrap_or(u32::MAX) + window.pad_begin[a] + window.pad_end[a] + window.stride[a];
    let farthest = (0..4).try_fold(0i64, |sum, axis| {
        let beyond = if (1..3).contains(&axis) { around(axis - 1) } else { 1 };
        sum.checked_add((i64::from(x.extents[axis]) + i64::from(beyond)).checked_mul(x.strides[axis])?)
    });
    need(farthest.is_some_and(|f| f <= i64::from(i32::MAX)), Misfit::Layout)?;
    let pixels = out.extents[..3].iter().try_fold(1u32, |all, &n| all.checked_mul(n));
    let tiles = pixels.and_then(|n| u64::from(n).checked_mul(parted.count())?.checked_mul(u64::from(out.extents[3])));
    need(
        tiles.is_some_and(|n| (1..i64::from(i32::MAX) as u64).contains(&n)),
        Misfit::Primitive,
    )
}

fn view(call: &Call, index: usize) -> Result<&View, Misfit> {
    match call.inputs.get(index) {
        Some(Operand::View(view)) => Ok(view),
        _ => Err(Misfit::Primitive),
    }
}

/// An input that lies in the weight files.
fn constant<'a>(plan: &Plan, call: &'a Call, index: usize) -> Result<&'a View, Misfit> {
    let view = view(call, index)?;
    let buffer = plan.buffers.get(view.buffer.index());
    let kept = buffer.is_some_and(|b| matches!(b.space, Space::Weights(_)));
    need(kept && view.layout.strides().iter().all(|&s| s >= 0), Misfit::Weights)?;
    Ok(view)
}

/// The menu's tactics, best first by estimate for a GPU of so many `units`.
pub fn menu(product: &Parted<'_>, units: u32) -> Vec<Tactic> {
    let costs = (0..).zip(MENU).map(|(variant, entry)| {
        let tactic = Tactic {
            kernel: Kernel::ConvParts,
            tile: entry.tile,
            variant,
        };
        (entry.estimate(product, u64::from(units.max(1))), tactic)
    });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_kernel_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_parts.cu");
        for entry in MENU {
            let line = format!("\nCONV_PARTS({}, ", entry.function());
            assert_eq!(source.matches(&line).count(), 1, "{line}");
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_PARTS(")).count(), MENU.len());
    }

    #[test]
    fn tactics_name_entries() {
        for (variant, entry) in (0..).zip(MENU) {
            let tactic = Tactic {
                kernel: Kernel::ConvParts,
                tile: entry.tile,
                variant,
            };
            assert_eq!(PartTile::of(tactic), Some(entry));
            assert_eq!(PartTile::of(Tactic { tile: (16, 8), ..tactic }), None);
        }
    }

    #[test]
    fn groups_are_joined_until_they_fill_pieces_and_a_tile() {
        assert_eq!(
            [(32, 4, 4), (8, 8, 8), (10, 24, 24), (7, 16, 16)].map(|(g, i, o)| groups_each(g, i, o)),
            [4, 2, 1, 1]
        );
        // Of three channels eight groups are whole pieces, and four groups are all there are of the last.
        assert_eq!([(16, 3, 3), (4, 6, 6)].map(|(g, i, o)| groups_each(g, i, o)), [8, 4]);
    }
}
