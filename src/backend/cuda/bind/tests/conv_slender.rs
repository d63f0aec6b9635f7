//! Convolutions from many channels to few by `wgmma`: which operators have them, in which classes, and how their launches lie.

use super::bench::{Bench, three_by_three};
use super::patch::{WGMMA, ZeroMaps};
use super::*;
use crate::plan::format::Tactic;
use crate::plan::tactic::conv_slender::SlenderTile;

/// A convolution of samples of so many channels and pixels, and its tactics.
fn offered(samples: u32, channels: [u32; 2], size: [u32; 2]) -> (Bench, Operator, Vec<Tactic>) {
    let mut bench = Bench::new(1);
    let operator = three_by_three(&mut bench, samples, channels, size, 1, WGMMA);
    let menu = menu(&bench.plan, &operator, WGMMA);
    (bench, operator, menu)
}

/// The own ones among them, and whether they are the first choice.
fn own(menu: &[Tactic]) -> (usize, bool) {
    let is_own = |t: &Tactic| t.kernel == Kernel::ConvSlender;
    (menu.iter().filter(|t| is_own(t)).count(), menu.first().is_some_and(is_own))
}

#[test]
fn both_classes_offer_them() {
    for (samples, channels, size, class, expected) in [
        (8, [128, 32], [56, 56], (Family::Wgmma, 2), (3, true)),
        (1, [72, 30], [100, 100], (Family::Wgmma, 1), (3, true)),
        (8, [128, 32], [14, 14], (Family::TensorCore, 9), (3, false)),
        (40, [128, 32], [14, 14], (Family::TensorCore, 9), (3, true)),
        (8, [128, 40], [28, 28], (Family::Wgmma, 2), (0, false)),
        (8, [136, 32], [28, 28], (Family::Wgmma, 4), (0, false)),
    ] {
        let (_, operator, menu) = offered(samples, channels, size);
        assert_eq!((operator.class.family, operator.class.split_k), class, "{channels:?}, {size:?}");
        assert_eq!(own(&menu), expected, "{channels:?}, {size:?}");
    }
}

#[test]
fn other_targets_do_not_offer_them() {
    let (bench, operator, _) = offered(8, [128, 32], [14, 14]);
    let other = menu(&bench.plan, &operator, Target::Cuda { wgmma: false });
    assert_eq!((own(&other), other.is_empty()), ((0, false), false));
}

#[test]
fn launches_cover_the_rows_of_a_chunk() {
    for (size, chains) in [([50, 20], 2), ([12, 13], 9)] {
        let (bench, operator, menu) = offered(3, [96, 24], size);
        for tactic in menu.into_iter().filter(|t| t.kernel == Kernel::ConvSlender) {
            let entry = SlenderTile::of(tactic).unwrap();
            let operator = Operator {
                tactic,
                ..operator.clone()
            };
            let (kernel, packs) = bench.compile(&operator);
            let placed = Placed::new(&bench, &packs, 1 << 40);
            let whole = Region {
                batch: 0..3,
                rows: 0..size[0],
            };
            let chunk = Region { batch: 1..2, rows: 3..12 };
            for (region, rows) in [(&whole, 3 * size[0].div_ceil(8)), (&chunk, 2)] {
                let tiles = rows * size[1].div_ceil(8);
                for (multiprocessors, width) in [(132, 0), (2, 0), (132, 3), (2, 3)] {
                    let at = Addresses {
                        maps: &ZeroMaps,
                        multiprocessors,
                        ..placed.addresses(&bench)
                    };
                    let [launch] = <[Launch; 1]>::try_from(kernel.launches(&at, region, width).unwrap()).unwrap();
                    let rooms = multiprocessors * entry.together;
                    let most = if width == 0 { rooms } else { rooms.min(width.into()) };
                    assert_eq!(launch.blocks, tiles.min(most), "{entry:?}, {multiprocessors}, {width}");
                    assert_eq!((launch.unit, launch.function), ("conv_slender", entry.function(chains, true)));
                    assert_eq!(launch.shared, entry.shared());
                }
            }
        }
    }
}
