//! The tiles of the kernels that convolve few channels of large pictures from patches of pixels which all taps share: the class of
//! [`conv_wgmma`], for windows of 3 by 3 neighbours.

use super::conv_3x3::{BLOCK_BYTES, COLUMNS, PIXEL_BYTES, SWIZZLE_BYTES, TAPS};
use super::conv_wgmma::{self, BLOCK_K};
use super::forms::{cheapest_first, need};
use super::product::Product;
use super::{LARGE, Misfit};
use crate::plan::format::{Kernel, Operator, Plan, Tactic};
use crate::primitive::Window;

/// Bytes kept for barriers, and of the strips in which the warps of a warpgroup turn their sums.
const BARRIER_BYTES: u32 = 256;
const STRIP_BYTES: u32 = 4 * 2048;
/// Warpgroups of a block and patches in its shared memory, best first: of the first there is room for. A patch is always the same
/// warpgroup's. Small patches may be more.
const SHARES: [(u32, u32); 5] = [(4, 12), (4, 8), (3, 6), (4, 4), (3, 3)];
/// Output rows of a product, which is 64 pixels.
const BLOCK_ROWS: u32 = 8;
/// Most output channels, which a block has all.
const MAX_OUTPUTS: u32 = 64;
/// Most output channels of a product of 64 input channels: with more, patches beside the weights find no room, and other kernels are as good.
const MAX_DEEP_OUTPUTS: u32 = 32;

/// A tile: one kernel of `conv_shallow.cu` for each number of input channels, stride and way to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShallowTile {
    /// Output rows of a tile.
    pub rows: u16,
    /// Output channels of a product.
    pub channels: u16,
}

/// The menu. A tactic's `variant` is the place in it: only ever append.
pub const MENU: [ShallowTile; 6] = [tile(16, 16), tile(16, 32), tile(16, 64), tile(8, 16), tile(8, 32), tile(8, 64)];

const fn tile(rows: u16, channels: u16) -> ShallowTile {
    ShallowTile { rows, channels }
}

/// What the pixels of a product are to these kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Channels of a pixel in shared memory: 16, 32 or 64.
    pub inputs: u32,
    /// Pixels and rows that windows step by, 1 or 2.
    pub stride: u32,
}

impl Form {
    /// The form of a window over so many channels, if there is one.
    fn of(window: &Window, inputs: u32, outputs: u32) -> Option<Form> {
        let stride = window.stride[0];
        let neighbours = (0..2).all(|a| window.kernel[a] == TAPS && window.dilation[a] == 1 && window.stride[a] == stride);
        let form = Form {
            inputs: inputs.next_power_of_two().max(16),
            stride,
        };
        let most = if form.inputs == BLOCK_K { MAX_DEEP_OUTPUTS } else { MAX_OUTPUTS };
        let served = inputs > 0 && form.inputs <= BLOCK_K && (1..=most).contains(&outputs);
        (window.axes == 2 && neighbours && matches!(stride, 1 | 2) && served).then_some(form)
    }

    /// The form of a product that [`product`] gave.
    pub fn of_product(product: &Product<'_>) -> Option<Form> {
        Form::of(&product.window, product.x.extents[3], product.out.extents[3])
    }

    /// Rows and columns of the pixels of one parity under a tile of so many rows, of which there are `stride` by `stride`.
    pub fn plane(&self, rows: u32) -> [u32; 2] {
        [rows, COLUMNS].map(|outputs| outputs + (TAPS - 1) / self.stride)
    }
}

impl ShallowTile {
    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<ShallowTile> {
        let entry = *MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvShallow && tactic.tile == entry.tile()).then_some(entry)
    }

    /// The tactics of the whole menu.
    fn tactics() -> impl Iterator<Item = (ShallowTile, Tactic)> {
        (0..).zip(MENU).map(|(variant, entry)| {
            let tactic = Tactic {
                kernel: Kernel::ConvShallow,
                tile: entry.tile(),
                variant,
            };
            (entry, tactic)
        })
    }

    /// Pixels and output channels.
    fn tile(self) -> (u16, u16) {
        (self.rows * COLUMNS as u16, self.channels)
    }

    /// The kernel's name in its unit.
    pub fn function(self, form: Form, plain: bool) -> String {
        let store = if plain { "plain" } else { "any" };
        let ShallowTile { rows, channels } = self;
        format!("conv_shallow_c{}_n{channels}_s{}_r{rows}_{store}", form.inputs, form.stride)
    }

    /// Warpgroups of a block that multiply, and patches in its shared memory at once.
    fn share(self, form: Form) -> (u32, u32) {
        let small = u32::from(self.rows) == BLOCK_ROWS && form.stride == 1;
        let mut offered = SHARES.into_iter().skip(usize::from(!small));
        let fitting = offered.find(|&share| self.bytes(form, share) <= BLOCK_BYTES);
        fitting.unwrap_or(SHARES[SHARES.len() - 1])
    }

    /// Threads of a block: the warpgroups that multiply, and a warp that loads.
    pub fn threads(self, form: Form) -> u32 {
        self.share(form).0 * 128 + 32
    }

    /// Bytes of the weights.
    fn weights(self) -> u32 {
        TAPS * TAPS * u32::from(self.channels) * PIXEL_BYTES
    }

    /// Bytes of a patch.
    fn stage(self, form: Form) -> u32 {
        let [rows, columns] = form.plane(u32::from(self.rows));
        let plane = (rows * columns * form.inputs * 2).next_multiple_of(SWIZZLE_BYTES);
        plane * form.stride * form.stride
    }

    /// Bytes of shared memory of a block: weights, patches, strips, barriers.
    pub fn shared(self, form: Form) -> u32 {
        self.bytes(form, self.share(form))
    }

    fn bytes(self, form: Form, (warpgroups, stages): (u32, u32)) -> u32 {
        self.weights() + stages * self.stage(form) + warpgroups * STRIP_BYTES + BARRIER_BYTES
    }

    /// Relative time of a product on a GPU of so many units, in cycles.
    fn estimate(self, product: &Product<'_>, form: Form, units: u64) -> u64 {
        /// What a launch costs, and a tile besides its products.
        const START: u64 = 1500;
        const FIXED: u64 = 100;
        let [samples, rows, columns, _] = product.out.extents.map(u64::from);
        let (high, wide) = (u64::from(self.rows), u64::from(self.channels));
        let tiles = samples * rows.div_ceil(high) * columns.div_ceil(u64::from(COLUMNS));
        // A product reads 64 pixels and its weights from shared memory, 128 bytes a cycle.
        let products = u64::from(TAPS * TAPS * form.inputs / 16) * (16 + wide / 4);
        START + tiles.div_ceil(units) * (high / u64::from(BLOCK_ROWS) * products + FIXED)
    }
}

/// The product that an operator begins with, if the kernels take it.
pub fn product<'a>(plan: &Plan, operator: &'a Operator) -> Result<Product<'a>, Misfit> {
    let product = conv_wgmma::product(plan, operator)?;
    need(!product.matrix && Form::of_product(&product).is_some(), Misfit::Primitive)?;
    need(conv_wgmma::splits(&product, LARGE) == 1, Misfit::Class)?;
    Ok(product)
}

/// Checks that an entry of the menu computes a product.
pub fn fits(entry: ShallowTile, product: &Product<'_>, split_k: u16) -> Result<(), Misfit> {
    need(split_k == 1, Misfit::Class)?;
    let form = Form::of_product(product).ok_or(Misfit::Primitive)?;
    let channels = product.out.extents[3].next_power_of_two().clamp(16, 64);
    need(u32::from(entry.channels) == channels, Misfit::Tile)?;
    // Patches of windows that leave pixels out are four times as large.
    need(form.stride == 1 || u32::from(entry.rows) == BLOCK_ROWS, Misfit::Tile)
}

/// The menu's tactics for a product, best first by estimate.
pub fn menu(product: &Product<'_>, split_k: u16, units: u32) -> Vec<Tactic> {
    let costs = ShallowTile::tactics().filter_map(|(entry, tactic)| {
        fits(entry, product, split_k).ok()?;
        let form = Form::of_product(product)?;
        Some((entry.estimate(product, form, u64::from(units.max(1))), tactic))
    });
    cheapest_first(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every form that an entry may have.
    fn forms(entry: ShallowTile) -> impl Iterator<Item = Form> {
        let strides = if u32::from(entry.rows) == BLOCK_ROWS { 1..=2 } else { 1..=1 };
        let inputs = if u32::from(entry.channels) > MAX_DEEP_OUTPUTS {
            16..=32
        } else {
            16..=64
        };
        strides.flat_map(move |stride| {
            let inputs = inputs.clone();
            [16, 32, 64]
                .into_iter()
                .filter(move |i| inputs.contains(i))
                .map(move |inputs| Form { inputs, stride })
        })
    }

    #[test]
    fn every_form_of_an_entry_is_a_line_of_the_source() {
        let source = include_str!("../../backend/cuda/kernels/conv_shallow.cu");
        let mut lines = 0;
        for (entry, form) in MENU.into_iter().flat_map(|e| forms(e).map(move |f| (e, f))) {
            let ShallowTile { rows, channels } = entry;
            let (warpgroups, stages) = entry.share(form);
            let line = format!(
                "\nCONV_SHALLOW({}, {channels}, {}, {rows}, {warpgroups}, {stages})\n",
                form.inputs, form.stride,
            );
            assert_eq!(source.matches(&line).count(), 1, "{line}");
            assert!(entry.shared(form) <= BLOCK_BYTES && stages.is_multiple_of(warpgroups), "{line}");
            lines += 1;
        }
        assert_eq!(source.lines().filter(|l| l.starts_with("CONV_SHALLOW(")).count(), lines);
    }

    #[test]
    fn windows_of_neighbours_over_few_channels_have_a_form() {
        let form = |stride: [u32; 2], inputs, outputs| {
            let mut window = Window::new(&[3, 3]);
            window.stride[..2].copy_from_slice(&stride);
            Form::of(&window, inputs, outputs)
        };
        assert_eq!(form([1, 1], 24, 60), Some(Form { inputs: 32, stride: 1 }));
        assert_eq!(form([2, 2], 3, 1), Some(Form { inputs: 16, stride: 2 }));
        assert_eq!(form([2, 2], 64, 32).map(|f| f.plane(8)), Some([9, 9]));
        assert_eq!(form([1, 1], 64, 32).map(|f| f.plane(16)), Some([18, 10]));
        for (stride, inputs, outputs) in [
            ([1, 2], 16, 16),
            ([3, 3], 16, 16),
            ([1, 1], 65, 16),
            ([1, 1], 64, 33),
            ([1, 1], 16, 65),
        ] {
            assert_eq!(form(stride, inputs, outputs), None);
        }
        let mut window = Window::new(&[3, 3]);
        window.dilation[1] = 2;
        assert_eq!(Form::of(&window, 16, 16), None);
        assert_eq!(Form::of(&Window::new(&[3, 5]), 16, 16), None);
    }

    #[test]
    fn tactics_name_their_entries() {
        for (entry, tactic) in ShallowTile::tactics() {
            assert_eq!(ShallowTile::of(tactic), Some(entry));
            assert_eq!(ShallowTile::of(Tactic { tile: (8, 8), ..tactic }), None);
            let other = Tactic {
                kernel: Kernel::ConvPatch,
                ..tactic
            };
            assert_eq!(ShallowTile::of(other), None);
        }
    }
}
