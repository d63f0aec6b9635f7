//! The tiles of the kernels that convolve with `mma.sync`: data that the menu offers and the CUDA backend looks up.

use crate::plan::format::{Kernel, Tactic};

/// How pixels come into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// In pieces of 8 channels, by asynchronous copies.
    Taps,
    /// One by one through a table of K, for any number of channels.
    Gather,
}

/// What adds up the K ranges of an operator whose class splits K.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Splits {
    /// A block for each range, the last of which adds; the whole of K where the class does not split it.
    Apart,
    /// One block makes all ranges in turn.
    Folded,
}

/// One kernel of `conv_mma.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmaTile {
    /// Pixels and output channels of a block's tile.
    pub tile: (u16, u16),
    /// Pixels and output channels of a warp's share.
    pub warp: (u16, u16),
    /// Depth of a step along K, 32 or 64.
    pub step: u16,
    /// Steps in shared memory at once.
    pub stages: u16,
    /// How pixels are loaded.
    pub loader: Loader,
    /// What adds the ranges of K.
    pub splits: Splits,
}

const fn taps(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> MmaTile {
    MmaTile {
        tile,
        warp,
        step,
        stages,
        loader: Loader::Taps,
        splits: Splits::Apart,
    }
}

const fn folded(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> MmaTile {
    MmaTile {
        splits: Splits::Folded,
        ..taps(tile, step, warp, stages)
    }
}

const fn gather(tile: (u16, u16), step: u16, warp: (u16, u16), stages: u16) -> MmaTile {
    MmaTile {
        loader: Loader::Gather,
        ..taps(tile, step, warp, stages)
    }
}

/// The menu. A tactic's `variant` is the place in it: only ever append, and keep what tables were measured with.
pub const MENU: &[MmaTile] = &[
    taps((128, 256), 32, (64, 64), 4),
    taps((256, 128), 32, (64, 64), 4),
    taps((128, 128), 32, (64, 64), 4),
];

impl MmaTile {
    /// The kernel's name in `conv_mma.cu`.
    pub fn function(&self) -> String {
        let MmaTile {
            tile,
            warp,
            step,
            stages,
            ..
        } = self;
        let suffix = match (self.loader, self.splits) {
            (Loader::Gather, _) => "_gather",
            (_, Splits::Folded) => "_fold",
            _ => "",
        };
        format!("conv_mma_{}x{}x{step}_{}x{}_s{stages}{suffix}", tile.0, tile.1, warp.0, warp.1)
    }

    /// The entry that a tactic names; `None` for tactics of other kernels or tiles that do not exist.
    pub fn of(tactic: Tactic) -> Option<&'static MmaTile> {
        let entry = MENU.get(usize::from(tactic.variant))?;
        (tactic.kernel == Kernel::ConvMma && tactic.tile == entry.tile).then_some(entry)
    }

    /// The tactics of the whole menu.
    pub fn tactics() -> impl Iterator<Item = Tactic> {
        MENU.iter().enumerate().map(|(variant, entry)| Tactic {
            kernel: Kernel::ConvMma,
            tile: entry.tile,
            variant: variant as u16,
        })
    }
}
