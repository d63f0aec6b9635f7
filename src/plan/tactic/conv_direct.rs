//! The tiles of the kernels for convolutions of few channels whose pixels come straight into registers: the class of [`conv_wgmma`] where
//! that has one chain of products, and of [`conv_mma`] where its steps along K do not reach from tap to tap.

use super::Misfit;
use super::conv_mma::{self, Loader};
use super::conv_wgmma;
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{Family, Kernel, Operator, Plan, Tactic};

/// Channels of the input that a product multiplies, and of the output that a lane's sums are of.
pub const STEP: u32 = 16;
/// Output channels of a group.
pub const CHANNELS: u32 = 16;
/// Pixels that a warp makes at a time.
pub const PIXELS: u32 = 32;
/// Bytes of the weights of a group under a step.
pub const FRAGMENT_BYTES: u32 = 512;
/// Most input channels under a single tap, and under each of a window's.
const MAX_CHANNELS: u32 = 64;
const MAX_WINDOW_CHANNELS: u32 = 32;
/// Most output channels: with more, the pixels' rounds cost as much as tiles in shared memory.
const MAX_OUTPUTS: u32 = 128;
/// Most bytes of weights, which a block has all.
const MAX_WEIGHTS: u64 = 64 << 10;
/// Most groups of zeros behind the last, which rounds of most groups have.
pub const PADDED: u32 = 3;
/// Registers and bytes of shared memory of a unit that are counted with: Orin has as much, and Hopper more. Most blocks of a unit.
const UNIT_REGISTERS: u32 = 65_536;
const UNIT_BYTES: u32 = 164 << 10;
const MAX_TOGETHER: u32 = 16;
/// Groups of a round in the kernels of pixels that follow each other and of windows, fewest first.
const FLAT_GROUPS: [u32; 4] = [1, 2, 3, 4];
const WINDOW_GROUPS: [u32; 3] = [1, 2, 4];

/// Warps of a block, each entry of the menu. A tactic's `variant` is the place in it: only ever append.
pub const MENU: [u32; 3] = [4, 2, 1];

/// A block's tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectTile {
    /// Warps of a block, each with pixels of its own.
    pub warps: u32,
}

/// The ways of the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Single taps of pixels that follow each other, behind whose sums are bounds or nothing.
    Flat,
    /// With a sum with another tensor behind them.
    Joined,
    /// Windows over pixels that lie anyhow, with either behind their sums.
    Plain,
    /// With anything behind them.
    Any,
}

/// What a launch is to the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Steps of [`STEP`] channels under a tap.
    pub steps: u32,
    /// Groups of [`CHANNELS`] that a round makes.
    pub groups: u32,
    /// Rounds in which all groups are made.
    pub rounds: u32,
    /// Taps of the window.
    pub taps: u32,
    /// Which kernel.
    pub way: Way,
}

impl Form {
    /// The form of a launch of a product that [`product`] gave.
    pub fn of(product: &Product<'_>, way: Way) -> Form {
        let all = product.out.extents[3].div_ceil(CHANNELS);
        let offered: &[u32] = match way {
            Way::Flat | Way::Joined => &FLAT_GROUPS,
            Way::Plain | Way::Any => &WINDOW_GROUPS,
        };
        // A round costs about what a group does besides those that it makes.
        let cost = |groups: u32| all.div_ceil(groups) * (groups + 1);
        let groups = offered.iter().copied().min_by_key(|&groups| cost(groups)).unwrap_or(1);
        Form {
            steps: product.x.extents[3].div_ceil(STEP),
            groups,
            rounds: all.div_ceil(groups),
            taps: product.window.taps() as u32,
            way,
        }
    }

    /// The kernel's name in its unit.
    pub fn function(&self) -> String {
        let way = match self.way {
            Way::Flat => "flat",
            Way::Joined => "flat_joined",
            Way::Plain => "plain",
            Way::Any => "any",
        };
        format!("conv_direct_k{}_n{}_{way}", self.steps, self.groups)
    }

    /// Registers of a thread, as compilers say, in whole lots.
    pub fn registers(&self) -> u32 {
        const LOT: u32 = 24;
        match self.way {
            Way::Flat => 32 + LOT * self.groups + if self.steps > 1 { LOT } else { 0 },
            Way::Joined => 40 + (LOT + 8) * self.groups + if self.steps > 1 { LOT } else { 0 },
            Way::Plain => 72 + LOT * self.groups,
            Way::Any => 104 + LOT * self.groups,
        }
    }

    /// Bytes of the weights, all of which a block has in its shared memory.
    pub fn shared(&self) -> u32 {
        self.rounds * self.groups * self.taps * self.steps * FRAGMENT_BYTES
    }
}

impl DirectTile {
    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<DirectTile> {
        let entry = DirectTile {
            warps: *MENU.get(usize::from(tactic.variant))?,
        };
        (tactic.kernel == Kernel::ConvDirect && tactic.tile == entry.tile()).then_some(entry)
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = (DirectTile, Tactic)> {
        (0..).zip(MENU).map(|(variant, warps)| {
            let entry = DirectTile { warps };
            let tactic = Tactic {
                kernel: Kernel::ConvDirect,
                tile: entry.tile(),
                variant,
            };
            (entry, tactic)
        })
    }

    /// Pixels and output channels.
    fn tile(self) -> (u16, u16) {
        ((self.warps * PIXELS) as u16, MAX_OUTPUTS as u16)
    }

    /// Threads of a block.
    pub fn threads(self) -> u32 {
        self.warps * 32
    }

    /// Blocks that share a unit, by registers and by shared memory.
    pub fn together(self, form: &Form) -> u32 {
        let registers = UNIT_REGISTERS / (form.registers() * self.threads());
        registers.min(UNIT_BYTES / (form.shared() + 1024)).clamp(1, MAX_TOGETHER)
    }
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    need(operator.class.split_k <= 1, Misfit::Class)?;
    let product = match operator.class.family {
        Family::Wgmma => conv_wgmma::product(plan, operator)?,
        Family::TensorCore => {
            let product = conv_mma::product(plan, operator)?;
            need(conv_mma::loader(&product) == Loader::Taps, Misfit::Layout)?;
            need(conv_mma::splits(&product) == 1, Misfit::Class)?;
            // Their steps go on behind a tap's last channel.
            let whole = product.x.extents[3].is_multiple_of(STEP) || product.window.taps() == 1;
            need(whole, Misfit::Class)?;
            product
        }
        _ => return Err(Misfit::Class),
    };
    let window = &product.window;
    let [inputs, outputs] = [product.x.extents[3], product.out.extents[3]];
    let most = if window.taps() > 1 { MAX_WINDOW_CHANNELS } else { MAX_CHANNELS };
    need(inputs.is_multiple_of(2) && inputs <= most && outputs <= MAX_OUTPUTS, Misfit::Tile)?;
    need(product.is_counted(), Misfit::Layout)?;
    let fragments = (outputs.div_ceil(CHANNELS) + PADDED) * inputs.div_ceil(STEP);
    let held = window.taps().saturating_mul(u64::from(fragments * FRAGMENT_BYTES)) <= MAX_WEIGHTS;
    need(held, Misfit::Tile)?;
    Ok(product)
}

/// Checks that an entry of the menu computes a product that an operator begins with.
pub fn fits(tactic: Tactic, plan: &Plan, operator: &Operator) -> Result<(), Misfit> {
    need(DirectTile::of(tactic).is_some(), Misfit::Tile)?;
    product(plan, operator).map(|_| ())
}

/// The menu's tactics for a product on a GPU of so many units, best first by estimate: blocks of more warps where all units still have some.
pub fn menu(product: &Product<'_>, units: u32) -> Vec<Tactic> {
    let [samples, rows, columns, _] = product.out.extents.map(u64::from);
    let pixels = samples * rows * columns;
    let costs = DirectTile::tactics().map(|(entry, tactic)| {
        let blocks = pixels.div_ceil(u64::from(entry.warps * PIXELS));
        let idle = u64::from(units).saturating_sub(blocks);
        (idle * 8 + 4 / u64::from(entry.warps), tactic)
    });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_a_kernel_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_direct.cu");
        let mut kernels = 0;
        let ways = [
            (Way::Flat, &FLAT_GROUPS[..]),
            (Way::Joined, &FLAT_GROUPS[..]),
            (Way::Plain, &WINDOW_GROUPS[..]),
            (Way::Any, &WINDOW_GROUPS[..]),
        ];
        for (way, offered) in ways {
            for steps in 1..=MAX_CHANNELS / STEP {
                for &groups in offered {
                    let line = match way {
                        Way::Flat => format!("\nFLAT({steps}, {groups}, _flat, false)\n"),
                        Way::Joined => format!("\nFLAT({steps}, {groups}, _flat_joined, true)\n"),
                        Way::Plain => format!("\nWINDOW({steps}, {groups}, _plain, true)\n"),
                        Way::Any => format!("\nWINDOW({steps}, {groups}, _any, false)\n"),
                    };
                    assert_eq!(source.matches(&line).count(), 1, "{line}");
                    kernels += 1;
                }
            }
        }
        let entries = source.lines().filter(|l| l.starts_with("FLAT(") || l.starts_with("WINDOW("));
        assert_eq!(entries.count(), kernels);
    }
}
