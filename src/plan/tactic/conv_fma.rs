//! The tiles of the kernels for convolutions and products of floats with constants on ordinary arithmetic units, in groups or not.
//!
//! They take f32 and f16 in any mixture and layout, and sum like the CPU: what tensor cores do not take, and all of f32.

use super::Misfit;
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};

/// Floats that one copy brings into shared memory; rows of packed weights are a multiple of it.
pub const PIECE: u32 = 4;
/// Fewest output channels of a group, unless there is one group.
const NARROWEST: u32 = 4;

/// One kernel of `conv_fma.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FmaTile {
    /// Pixels and output channels of a block's tile.
    pub tile: (u16, u16),
    /// Pixels and output channels of a thread.
    pub thread: (u16, u16),
    /// Depth of a step along K.
    pub step: u16,
    /// Steps in shared memory at once.
    pub stages: u16,
    /// Registers of a thread, at most.
    pub registers: u16,
}

const fn entry(tile: (u16, u16), thread: (u16, u16), step: u16, stages: u16, registers: u16) -> FmaTile {
    FmaTile {
        tile,
        thread,
        step,
        stages,
        registers,
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[FmaTile] = &[
    entry((128, 64), (8, 8), 16, 4, 168),
    entry((64, 64), (8, 4), 16, 5, 128),
    entry((64, 32), (4, 4), 32, 4, 96),
    entry((32, 16), (2, 4), 32, 5, 96),
];

impl FmaTile {
    /// The kernel's name in `conv_fma.cu`.
    pub fn function(&self) -> String {
        format!("conv_fma_{}x{}", self.tile.0, self.tile.1)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static FmaTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvFma && tactic.tile == entry.tile).then_some(entry)
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        u32::from(self.tile.0 / self.thread.0) * u32::from(self.tile.1 / self.thread.1)
    }

    /// Bytes of shared memory of a block: the ring of stages. A piece lies between the pixels' rows.
    pub fn shared(&self) -> u32 {
        let step = u32::from(self.step);
        let floats = u32::from(self.tile.0) * (step + PIECE) + u32::from(self.tile.1) * step;
        4 * u32::from(self.stages) * floats
    }

    /// Tiles of so many pixels and groups of so many channels.
    pub fn tiles(&self, pixels: u32, groups: u32, channels: u32) -> u64 {
        let across = channels.div_ceil(u32::from(self.tile.1));
        u64::from(pixels.div_ceil(u32::from(self.tile.0))) * u64::from(groups) * u64::from(across)
    }

    /// Relative time of a product: of the rounds in which so many units take the tiles, each the more for a product the fewer
    /// a thread has of them.
    fn estimate(&self, grouped: &Grouped<'_>, units: u64) -> u64 {
        /// What a tile costs before and behind its products, in steps along K of one pixel and channel a thread.
        const FIXED: u64 = 1 << 14;
        let pixels = grouped.product.out.extents[..3].iter().product();
        let rounds = self.tiles(pixels, grouped.groups, grouped.outputs()).div_ceil(units);
        let [down, across] = [self.thread.0, self.thread.1].map(u64::from);
        let each = down * across * (8 + 16 / down + 16 / across);
        rounds * (grouped.depth() * each * u64::from(self.threads()) / 128 + FIXED)
    }
}

/// An operator's head as a product for each of its groups.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<'a> {
    /// Its tensors; weights are `[O, C / g, kh, kw]`, or of a matrix product `[.., C, O]`.
    pub product: Product<'a>,
    /// Groups of channels.
    pub groups: u32,
}

impl Grouped<'_> {
    /// Input channels of a group.
    pub fn inputs(&self) -> u32 {
        self.product.x.extents[3] / self.groups
    }

    /// Output channels of a group.
    pub fn outputs(&self) -> u32 {
        self.product.out.extents[3] / self.groups
    }

    /// Products summed for one element of the output.
    pub fn depth(&self) -> u64 {
        self.product.k() / u64::from(self.groups)
    }
}

/// The products that an operator begins with, if the kernels take it. Its tensors and values are floats, and none is empty.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Grouped<'a>, Misfit> {
    let (product, groups) = Product::grouped(plan, operator)?;
    need(groups > 0 && operator.outputs.len() == 1, Misfit::Primitive)?;
    let grouped = Grouped { product, groups };
    // Depthwise convolutions have kernels of their own.
    need(groups == 1 || grouped.outputs() >= NARROWEST, Misfit::Primitive)?;
    // Of a matrix product a fourth axis is none of pixels.
    need(!product.matrix || product.input.layout.shape.rank() <= 3, Misfit::Primitive)?;
    let forward = |strides: &[i64; 4]| strides.iter().all(|&s| s >= 0);
    need(forward(&product.x.strides), Misfit::Layout)?;
    need((1..1 << 30).contains(&grouped.depth()), Misfit::Primitive)?;
    need(product.is_counted(), Misfit::Layout)?;
    need(product.has_pixels(), Misfit::Primitive)?;
    let pixels = product.out.extents[..3].iter().product();
    let few = |e: &FmaTile| e.tiles(pixels, groups, grouped.outputs()) < 1 << 31;
    need(MENU.iter().all(few), Misfit::Primitive)?;
    Ok(grouped)
}

/// The menu's tactics, best first by estimate for a GPU of so many `units`.
pub fn menu(grouped: &Grouped<'_>, units: u32) -> Vec<Tactic> {
    let costs = (0..).zip(MENU).map(|(variant, entry)| {
        let tactic = Tactic {
            kernel: Kernel::ConvFma,
            tile: entry.tile,
            variant,
        };
        (entry.estimate(grouped, u64::from(units.max(1))), tactic)
    });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_a_kernel_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_fma.cu");
        for entry in MENU {
            let FmaTile {
                tile,
                thread,
                step,
                stages,
                registers,
            } = entry;
            // A multiprocessor has 64 Ki registers.
            let resident = (1 << 16) / (entry.threads() * u32::from(*registers));
            let line = format!(
                "\nCONV_FMA({}, {resident}, {}, {}, {}, {}, {step}, {stages})\n",
                entry.function(),
                tile.0,
                tile.1,
                thread.0,
                thread.1
            );
            assert_eq!(source.matches(&line).count(), 1, "{line}");
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_FMA(")).count(), MENU.len());
        assert!(source.contains(&format!("FLOATS = {PIECE};")));
    }

    #[test]
    fn tactics_name_entries() {
        for (variant, entry) in (0..).zip(MENU) {
            let tactic = Tactic {
                kernel: Kernel::ConvFma,
                tile: entry.tile,
                variant,
            };
            assert_eq!(FmaTile::of(tactic), Some(entry));
            assert_eq!(FmaTile::of(Tactic { tile: (16, 8), ..tactic }), None);
        }
    }
}
