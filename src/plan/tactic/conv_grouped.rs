//! The tiles of the kernels for grouped convolutions of 3 by 3 neighbours by `wgmma`, whose taps share a patch of pixels, and what
//! they demand.
//!
//! A block of threads has up to 64 channels, whole groups of them. Their weights are multiplied in slabs: as many groups as fill a
//! product, with zeros between different groups; wider groups are a slab each.

use super::Misfit;
use super::conv_3x3::{BLOCK_BYTES, PIXEL_BYTES, SWIZZLE_BYTES, TAPS};
use super::conv_parts;
use super::conv_wgmma::BLOCK_K;
use super::forms::{cheapest_first, need};
use super::product::Product;
use crate::plan::format::{Kernel, Operator, Plan, Tactic};

/// Rows and columns of a tile: one product has its pixels as rows.
pub const SIDE: u32 = 8;
/// Channels of a step along K.
pub const STEP_K: u32 = 16;
/// Bytes that the warps of a warpgroup turn their sums round in.
const STRIP_BYTES: u32 = 4 * 16 * 128;
/// Bytes kept for barriers, and what a stage's and the weights' take.
const BARRIER_BYTES: u32 = 512;
/// Most patches in shared memory at once.
const MAX_STAGES: u32 = 12;
/// Bytes of shared memory of a multiprocessor, and those that it keeps for itself of each block.
const UNIT_BYTES: u32 = 228 << 10;
const RESERVED_BYTES: u32 = 1 << 10;
/// Registers of a thread.
pub const REGISTERS: u32 = 96;

/// A convolution as the kernels see it, whatever its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Pixels from a window to the next, along both axes.
    pub stride: u32,
    /// Channels of a slab.
    pub slab: u32,
    /// Channels of a group.
    pub group: u32,
}

/// Slabs that there are kernels for, narrowest first.
const SLABS: [u32; 6] = [16, 32, 40, 48, 56, 64];

impl Form {
    /// The form of groups of so many channels; `None` for groups that fill no slab, and for other steps.
    fn of(stride: u32, group: u32) -> Option<Form> {
        let slab = SLABS.into_iter().find(|&slab| group > 0 && slab.is_multiple_of(group))?;
        matches!(stride, 1 | 2).then_some(Form { stride, slab, group })
    }

    /// Channels of a block of threads: narrow slabs fill a patch's pixels.
    pub fn channels(&self) -> u32 {
        if self.slab > BLOCK_K / 2 { self.slab } else { BLOCK_K }
    }

    /// Slabs of a block.
    pub fn slabs(&self) -> u32 {
        self.channels() / self.slab
    }

    /// Steps along K of a slab.
    pub fn steps(&self) -> u32 {
        self.slab.div_ceil(STEP_K)
    }

    /// Rows and columns of a plane of a patch, which has every `stride`-th column; there are as many planes.
    pub fn plane(&self) -> [u32; 2] {
        [(SIDE - 1) * self.stride + TAPS, SIDE + (TAPS - 1) / self.stride]
    }

    /// Bytes of a plane, up to where the next one may begin.
    pub fn plane_bytes(&self) -> u32 {
        let [rows, columns] = self.plane();
        (rows * columns * PIXEL_BYTES).next_multiple_of(SWIZZLE_BYTES)
    }

    /// Bytes of a patch.
    fn stage_bytes(&self) -> u32 {
        self.stride * self.plane_bytes()
    }

    /// Bytes of the weights of a slab's step along K.
    pub fn matrix_bytes(&self) -> u32 {
        self.slab * STEP_K * 2
    }

    /// Bytes of the weights of a block.
    pub fn weight_bytes(&self) -> u32 {
        TAPS * TAPS * self.slabs() * self.steps() * self.matrix_bytes()
    }
}

/// How many warpgroups take the tiles in turn, and how many blocks of them share a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedTile {
    /// Warpgroups of a block that multiply; one warp more loads.
    pub warpgroups: u32,
    /// Blocks that share a multiprocessor.
    pub together: u32,
}

const fn entry(warpgroups: u32, together: u32) -> GroupedTile {
    GroupedTile { warpgroups, together }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[GroupedTile] = &[entry(4, 1), entry(2, 2), entry(1, 4), entry(2, 1), entry(1, 2)];

impl GroupedTile {
    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static GroupedTile> {
        let (pixels, channels) = (u32::from(tactic.tile.0), u32::from(tactic.tile.1));
        let exists = pixels == SIDE * SIDE && (channels == BLOCK_K || channels > BLOCK_K / 2 && SLABS.contains(&channels));
        (tactic.kernel == Kernel::ConvGrouped && exists).then(|| MENU.get(usize::from(tactic.variant)))?
    }

    /// The kernel's name in `conv_grouped.cu`.
    pub fn function(form: &Form, plain: bool) -> String {
        let Form { stride, slab, .. } = form;
        format!("conv_grouped_s{stride}_w{slab}_{}", if plain { "plain" } else { "any" })
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.warpgroups * 128 + 32
    }

    /// Bytes of shared memory that a block may have.
    fn room(&self) -> u32 {
        (UNIT_BYTES / self.together - RESERVED_BYTES).min(BLOCK_BYTES)
    }

    /// Bytes of shared memory of a block besides its patches.
    fn others(&self, form: &Form) -> u32 {
        form.weight_bytes().next_multiple_of(SWIZZLE_BYTES) + self.warpgroups * STRIP_BYTES + BARRIER_BYTES
    }

    /// Patches in shared memory at once: as many as there is room for, of every warpgroup as many. A barrier tells a phase only from the
    /// next one, so a patch's place is always the same warpgroup's.
    pub fn stages(&self, form: &Form) -> u32 {
        let most = (self.room().saturating_sub(self.others(form)) / form.stage_bytes()).min(MAX_STAGES);
        most - most % self.warpgroups
    }

    /// Bytes of shared memory of a block.
    pub fn shared(&self, form: &Form) -> u32 {
        self.others(form) + self.stages(form) * form.stage_bytes()
    }

    /// Relative time of a product on so many units, in cycles.
    fn estimate(&self, grouped: &Grouped<'_>, units: u64) -> u64 {
        /// Cycles that a tile takes the multiplier, and those that it keeps a warpgroup besides.
        const MULTIPLIED: u64 = 700;
        const STORED: u64 = 900;
        /// Bytes of weights that come in a cycle.
        const LOADED: u64 = 24;
        let tiles = grouped.tiles().div_ceil(units);
        let warpgroups = u64::from(self.warpgroups * self.together);
        let blocks = tiles.min(u64::from(self.together));
        let weights = blocks * u64::from(grouped.form.weight_bytes()) / LOADED;
        weights + tiles * MULTIPLIED + tiles.div_ceil(warpgroups) * STORED
    }
}

/// A grouped convolution that the kernels take.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<'a> {
    /// Its tensors; weights are `[O, C / g, 3, 3]`.
    pub product: Product<'a>,
    /// How it is cut.
    pub form: Form,
}

impl Grouped<'_> {
    /// Blocks of channels.
    pub fn channel_tiles(&self) -> u32 {
        self.product.out.extents[3].div_ceil(self.form.channels())
    }

    /// Tiles of pixels and channels.
    fn tiles(&self) -> u64 {
        let [samples, rows, columns, _] = self.product.out.extents;
        let pixels = u64::from(samples) * u64::from(rows.div_ceil(SIDE)) * u64::from(columns.div_ceil(SIDE));
        pixels * u64::from(self.channel_tiles())
    }

    /// The tactic of a place in the menu.
    fn tactic(&self, variant: usize) -> Tactic {
        Tactic {
            kernel: Kernel::ConvGrouped,
            tile: ((SIDE * SIDE) as u16, self.form.channels() as u16),
            variant: variant as u16,
        }
    }
}

/// The product that an operator begins with, if the kernels take it: from the shape of a sample alone.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Grouped<'a>, Misfit> {
    let parted = conv_parts::product(plan, operator)?;
    need(matches!(parted.cut, conv_parts::Cut::Groups(_)), Misfit::Primitive)?;
    let product = parted.product;
    let (window, [inputs, outputs]) = (&product.window, parted.group());
    let neighbours = (0..2).all(|a| window.kernel[a] == TAPS && window.dilation[a] == 1 && window.stride[a] == window.stride[0]);
    need(neighbours && inputs == outputs, Misfit::Primitive)?;
    let form = Form::of(window.stride[0], inputs).ok_or(Misfit::Primitive)?;
    let grouped = Grouped { product, form };
    // Of channels that fill less than half of what blocks multiply, few groups at a time leave less undone.
    let channels = product.out.extents[3];
    need(2 * channels >= grouped.channel_tiles() * form.channels(), Misfit::Primitive)?;
    // The copy engine steps along every axis that has more than one position.
    let x = &product.x;
    need((0..3).all(|a| x.extents[a] == 1 || x.strides[a] > 0), Misfit::Layout)?;
    Ok(grouped)
}

/// Checks that a tactic computes a product.
pub fn fits(tactic: Tactic, grouped: &Grouped<'_>) -> Result<(), Misfit> {
    let entry = GroupedTile::of(tactic).ok_or(Misfit::Tile)?;
    need(tactic == grouped.tactic(tactic.variant.into()), Misfit::Tile)?;
    // While one patch is multiplied, the next one comes.
    need(entry.stages(&grouped.form) >= 2, Misfit::Tile)
}

/// The menu's tactics for a product, best first by estimate on a GPU of so many units.
pub fn menu(grouped: &Grouped<'_>, units: u32) -> Vec<Tactic> {
    let costs = MENU.iter().enumerate().filter_map(|(variant, entry)| {
        let tactic = grouped.tactic(variant);
        fits(tactic, grouped).ok()?;
        Some((entry.estimate(grouped, u64::from(units.max(1))), tactic))
    });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMS: [(u32, u32); 9] = [
        (4, 16),
        (8, 16),
        (16, 16),
        (24, 48),
        (32, 32),
        (40, 40),
        (48, 48),
        (56, 56),
        (64, 64),
    ];

    #[test]
    fn slabs_hold_whole_groups_and_have_kernels() {
        for (group, slab) in FORMS {
            for stride in [1, 2] {
                let form = Form::of(stride, group).unwrap();
                assert_eq!(form.slab, slab);
                assert!(form.channels() <= BLOCK_K && form.channels() == form.slabs() * form.slab);
                assert!(
                    form.slabs() * form.steps() * STEP_K <= BLOCK_K,
                    "steps stay inside a pixel's channels"
                );
            }
        }
        assert!([0, 9, 72, 112].iter().all(|&group| Form::of(1, group).is_none()));
        assert_eq!(Form::of(3, 8), None);
    }

    #[test]
    fn every_form_is_a_line_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_grouped.cu");
        for slab in SLABS {
            for stride in [1, 2] {
                let line = format!("\nCONV_GROUPED({stride}, {slab})\n");
                assert_eq!(source.matches(&line).count(), 1, "{line}");
            }
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_GROUPED(")).count(), 2 * SLABS.len());
    }

    #[test]
    fn blocks_fit_a_multiprocessor() {
        for entry in MENU {
            let forms = FORMS
                .iter()
                .flat_map(|&(group, _)| [1, 2].map(|stride| Form::of(stride, group).unwrap()));
            for form in forms.filter(|f| entry.stages(f) >= 2) {
                let stages = entry.stages(&form);
                assert!(entry.shared(&form) <= BLOCK_BYTES);
                assert!(
                    (entry.shared(&form) + RESERVED_BYTES) * entry.together <= UNIT_BYTES,
                    "{entry:?} {form:?}"
                );
                assert!((stages + 1) * 16 <= BARRIER_BYTES && stages.is_multiple_of(entry.warpgroups));
                assert!(entry.threads() * REGISTERS * entry.together <= 65_536);
            }
        }
        // Some entry takes every form.
        for (group, _) in FORMS {
            assert!(
                [1, 2]
                    .iter()
                    .all(|&s| MENU.iter().any(|e| e.stages(&Form::of(s, group).unwrap()) >= 2)),
                "{group}"
            );
        }
    }

    #[test]
    fn tactics_name_entries() {
        for (variant, entry) in MENU.iter().enumerate() {
            let tactic = |channels| Tactic {
                kernel: Kernel::ConvGrouped,
                tile: (64, channels),
                variant: variant as u16,
            };
            for channels in [40, 48, 56, 64] {
                assert_eq!(GroupedTile::of(tactic(channels)), Some(entry));
            }
            assert_eq!(GroupedTile::of(tactic(32)), None);
            let other = Tactic {
                kernel: Kernel::ConvPatch,
                ..tactic(64)
            };
            assert_eq!(GroupedTile::of(other), None);
        }
    }
}
