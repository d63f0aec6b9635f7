//! Convolutions of few channels whose taps share a patch: which operators have them, and what is launched for a chunk.

use super::bench::{Bench, three_by_three};
use super::*;
use crate::plan::tactic::conv_narrow::NarrowTile;

#[test]
fn few_channels_of_large_maps_have_them_first_without_wgmma() {
    let first = |wgmma, channels, size, stride| {
        let target = Target::Cuda { wgmma };
        let mut bench = Bench::new(1);
        let operator = three_by_three(&mut bench, 2, channels, size, stride, target);
        (operator.class.family, menu(&bench.plan, &operator, target)[0].kernel)
    };
    let narrow = (Family::TensorCore, Kernel::ConvNarrow);
    for (channels, size, stride) in [([16, 16], [120, 90], 1), ([24, 16], [120, 90], 2), ([8, 24], [20, 30], 1)] {
        assert_eq!(first(false, channels, size, stride), narrow);
        // Where there is `wgmma`, it takes patches, too.
        assert_eq!(first(true, channels, size, stride), (Family::Wgmma, Kernel::ConvShallow));
    }
    for wgmma in [false, true] {
        assert_ne!(first(wgmma, [16, 16], [30, 30], 1), narrow);
        assert_ne!(first(wgmma, [32, 64], [120, 90], 1), narrow);
    }
}

#[test]
fn launches_cover_the_rows_of_a_chunk() {
    let target = Target::Cuda { wgmma: false };
    let mut bench = Bench::new(1);
    let operator = three_by_three(&mut bench, 2, [16, 19], [120, 90], 1, target);
    let offered: Vec<_> = menu(&bench.plan, &operator, target)
        .into_iter()
        .filter(|t| t.kernel == Kernel::ConvNarrow)
        .collect();
    assert_eq!(offered.len(), 4);
    for tactic in offered {
        let entry = NarrowTile::of(tactic).unwrap();
        let operator = Operator {
            tactic,
            ..operator.clone()
        };
        let (kernel, packs) = bench.compile(&operator);
        let placed = Placed::new(&bench, &packs, 1 << 40);
        for (region, samples, rows) in [
            (Region { batch: 0..2, rows: 0..120 }, 2, 120u32),
            (Region { batch: 1..2, rows: 7..50 }, 1, 43),
        ] {
            let launch = |multiprocessors, width| {
                let at = Addresses {
                    multiprocessors,
                    ..placed.addresses(&bench)
                };
                kernel.launches(&at, &region, width).unwrap().remove(0)
            };
            let tiles = samples * 90u32.div_ceil(16) * rows.div_ceil(entry.rows());
            assert_eq!(launch(0, 0).blocks, tiles, "a block for each tile where nothing is known");
            for (multiprocessors, width) in [(0, 5), (1, 0), (16, 0), (132, 0), (132, 7)] {
                let launch = launch(multiprocessors, width);
                assert!(launch.blocks >= 1 && launch.blocks <= tiles);
                assert!(width == 0 || launch.blocks <= u32::from(width));
                assert_eq!(launch.threads, entry.threads());
                let end = launch.params.len();
                let number = |from: usize| u32::from_le_bytes(launch.params[from..from + 4].try_into().unwrap());
                let (lines, patch_bytes, patches) = (number(end - 20), number(end - 12), number(end - 4));
                assert_eq!(lines, entry.rows() + 2);
                assert_eq!(launch.shared, patches + 2 * patch_bytes);
            }
            // As many tiles for each block as for the others, or one less.
            let blocks = launch(3, 0).blocks;
            assert_eq!(blocks, tiles.div_ceil(tiles.div_ceil(blocks)));
        }
    }
}
