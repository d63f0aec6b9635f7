//! Convolutions whose chains are summed side by side: which operators have them, what leads, and how their launches lie.

use super::bench::{Bench, three_by_three};
use super::patch::{WGMMA, ZeroMaps};
use super::*;
use crate::board::{BackendKind, BoardRecord};
use crate::plan::format::{Family, Tactic};
use crate::plan::tactic::conv_chains::ChainsTile;
use crate::plan::tactic::conv_patch::PatchTile;
use crate::plan::tactic::{arithmetic_class_on, fits_on, has_class, menu_on};
use crate::units::Nanos;

/// A Hopper GPU of so many units.
fn hopper(units: u32) -> BoardRecord {
    BoardRecord {
        name: String::new(),
        backend: BackendKind::Cuda,
        architecture: "sm_90a".into(),
        units,
        memory_budget: 0,
        macs_per_ns: 1.0,
        bytes_per_ns: 1.0,
        issue: Nanos(1),
    }
}

/// The menu on such a GPU.
fn offered(bench: &Bench, operator: &Operator, units: u32) -> Vec<Tactic> {
    menu_on(&bench.plan, operator, &hopper(units))
}

#[test]
fn small_pictures_of_many_channels_have_them_first_where_they_fill_the_board() {
    let offered = |samples, channels, size, units| {
        let mut bench = Bench::new(1);
        let operator = three_by_three(&mut bench, samples, channels, size, 1, WGMMA);
        let menu = offered(&bench, &operator, units);
        let own = menu.iter().filter(|t| t.kernel == Kernel::ConvChains);
        let variants: Vec<u16> = own.map(|t| t.variant).collect();
        (variants, menu[0].kernel == Kernel::ConvChains)
    };
    // 128 tiles in four chains; few stages of weights lead.
    assert_eq!(offered(8, [256, 256], [14, 14], 132), (vec![1, 0], true));
    // The same of one picture, on as few units, and on many.
    assert_eq!(offered(1, [256, 256], [14, 14], 16), (vec![1, 0], true));
    assert_eq!(offered(1, [256, 256], [14, 14], 132), (vec![1, 0], false));
    // A second round.
    assert_eq!(offered(8, [256, 256], [14, 14], 64), (vec![1, 0], false));
    // Patches of 512 channels leave room for one number of stages.
    assert_eq!(offered(1, [512, 512], [28, 28], 132), (vec![0], true));
    // One chain; too few channels for the sums to pass.
    assert_eq!(offered(1, [256, 256], [112, 112], 132), (vec![], false));
    assert_eq!(offered(1, [64, 256], [14, 14], 132), (vec![], false));
}

#[test]
fn launches_cover_the_rows_of_a_chunk() {
    let mut bench = Bench::new(1);
    let operator = three_by_three(&mut bench, 3, [200, 128], [20, 12], 1, WGMMA);
    assert_eq!(operator.class.split_k, 4);
    let own: Vec<_> = offered(&bench, &operator, 132)
        .into_iter()
        .filter(|t| t.kernel == Kernel::ConvChains)
        .collect();
    assert_eq!(own.len(), 2);
    for tactic in own {
        let entry = ChainsTile::of(tactic).unwrap();
        let operator = Operator {
            tactic,
            ..operator.clone()
        };
        let (kernel, packs) = bench.compile(&operator);
        let placed = Placed::new(&bench, &packs, 1 << 40);
        // Two times 64 channels; two tiles across.
        for (region, tiles) in [
            (Region { batch: 0..3, rows: 0..20 }, 2 * 2 * 3 * 3),
            (Region { batch: 1..2, rows: 5..14 }, 2 * 2 * 2),
        ] {
            for (multiprocessors, width, blocks) in [(0, 0, tiles), (132, 0, tiles), (4, 0, 4), (132, 7, 7), (4, 7, 4)] {
                let at = Addresses {
                    maps: &ZeroMaps,
                    multiprocessors,
                    ..placed.addresses(&bench)
                };
                let [launch] = <[Launch; 1]>::try_from(kernel.launches(&at, &region, width).unwrap()).unwrap();
                assert_eq!(launch.blocks, blocks, "{multiprocessors} {width}");
                assert_eq!((launch.unit, launch.function.as_str()), ("conv_chains", "conv_chains_c4_plain"));
                assert_eq!(launch.shared, entry.shared(4));
            }
        }
    }
}

#[test]
fn a_smaller_gpu_has_fewer_chains_and_tactics_that_take_one() {
    let wide = |t: &Tactic| PatchTile::of(*t).is_some_and(PatchTile::is_wide);
    for (channels, side, chains) in [
        ([256, 256], 14, [(132, 4), (64, 4), (32, 4), (16, 2), (8, 1)]),
        ([512, 512], 28, [(132, 2), (64, 2), (32, 1), (16, 1), (8, 1)]),
        ([512, 512], 7, [(132, 4), (64, 4), (32, 4), (16, 4), (8, 2)]),
        // As many as there ever are, on whatever board.
        ([128, 128], 56, [(1000, 2), (132, 2), (64, 1), (16, 1), (1, 1)]),
    ] {
        let mut bench = Bench::new(1);
        let mut operator = three_by_three(&mut bench, 8, channels, [side, side], 1, WGMMA);
        for (units, split_k) in chains {
            operator.class = arithmetic_class_on(&bench.plan, &operator, &hopper(units));
            assert_eq!(
                (operator.class.family, operator.class.split_k),
                (Family::Wgmma, split_k),
                "{channels:?}, {units}"
            );
            assert!(has_class(&bench.plan, &operator));
            let menu = offered(&bench, &operator, units);
            assert!(!menu.is_empty(), "{channels:?}, {units}");
            assert!(split_k == 1 || !menu.iter().any(wide), "{channels:?}, {units}");
        }
        // What no board gives it.
        for split_k in [0, 3, 8] {
            operator.class.split_k = split_k;
            assert!(!has_class(&bench.plan, &operator), "{split_k}");
            for tactic in offered(&bench, &operator, 16) {
                operator.tactic = tactic;
                assert!(fits_on(BackendKind::Cuda, &bench.plan, &operator).is_err(), "{split_k}, {tactic:?}");
            }
        }
    }
    let mut bench = Bench::new(1);
    let mut operator = three_by_three(&mut bench, 8, [256, 256], [28, 28], 1, WGMMA);
    let widest = |operator: &Operator, units| offered(&bench, operator, units).iter().any(wide);
    assert!(!widest(&operator, 132), "four chains");
    operator.class = arithmetic_class_on(&bench.plan, &operator, &hopper(16));
    assert!(widest(&operator, 16));
}
