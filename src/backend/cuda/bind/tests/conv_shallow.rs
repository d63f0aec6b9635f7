//! Convolutions of few channels from patches by `wgmma`: which operators have them, and how their launches lie.

use super::bench::{Bench, three_by_three};
use super::patch::WGMMA;
use super::*;
use crate::plan::tactic::conv_shallow::ShallowTile;
use std::cell::RefCell;

/// Keeps the boxes of the maps that it is asked for.
#[derive(Default)]
struct Boxes(RefCell<Vec<TiledMap>>);

impl TensorMaps for Boxes {
    fn tiled(&self, map: &TiledMap) -> Result<TensorMap, BindError> {
        self.0.borrow_mut().push(map.clone());
        Ok(TensorMap([0; 16]))
    }

    fn im2col(&self, _: &Im2colMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }
}

#[test]
fn few_channels_are_their_first_choice() {
    let offered = |channels, stride| {
        let mut bench = Bench::new(1);
        let operator = three_by_three(&mut bench, 2, channels, [60, 50], stride, WGMMA);
        let menu = menu(&bench.plan, &operator, WGMMA);
        let own = menu.iter().filter(|t| t.kernel == Kernel::ConvShallow).count();
        assert_eq!(operator.class.family, Family::Wgmma);
        (own, menu[0].kernel == Kernel::ConvShallow)
    };
    assert_eq!(offered([32, 32], 1), (2, true));
    assert_eq!(offered([64, 16], 1), (2, true));
    assert_eq!(offered([24, 60], 2), (1, true));
    assert_eq!(offered([64, 64], 1), (0, false));
    assert_eq!(offered([72, 16], 2), (0, false));
}

#[test]
fn launches_cover_the_rows_of_a_chunk() {
    for (stride, boxes) in [
        (1, [[32, 10, 18, 1], [32, 10, 10, 1]].as_slice()),
        (2, [[32, 17, 17, 1]].as_slice()),
    ] {
        let mut bench = Bench::new(1);
        let operator = three_by_three(&mut bench, 3, [24, 40], [50, 20], stride, WGMMA);
        let own = menu(&bench.plan, &operator, WGMMA)
            .into_iter()
            .filter(|t| t.kernel == Kernel::ConvShallow);
        let mut seen = Vec::new();
        for tactic in own {
            let entry = ShallowTile::of(tactic).unwrap();
            let operator = Operator {
                tactic,
                ..operator.clone()
            };
            let (kernel, packs) = bench.compile(&operator);
            let placed = Placed::new(&bench, &packs, 1 << 40);
            for (region, samples, rows) in [
                (Region { batch: 0..3, rows: 0..50 }, 3, 50u32),
                (Region { batch: 1..2, rows: 5..14 }, 1, 9),
            ] {
                let tiles = samples * 3 * rows.div_ceil(entry.rows.into());
                for (multiprocessors, width, most) in [(132, 0, 132), (4, 0, 4), (132, 7, 7), (4, 7, 4)] {
                    let maps = Boxes::default();
                    let at = Addresses {
                        maps: &maps,
                        multiprocessors,
                        ..placed.addresses(&bench)
                    };
                    let [launch] = <[Launch; 1]>::try_from(kernel.launches(&at, &region, width).unwrap()).unwrap();
                    assert_eq!(launch.blocks, tiles.min(most), "{multiprocessors} {width}");
                    let name = format!("conv_shallow_c32_n64_s{stride}_r{}_plain", entry.rows);
                    assert_eq!((launch.unit, launch.function), ("conv_shallow", name));
                    let map = maps.0.take().remove(0);
                    assert_eq!(map.steps, [1, stride, stride, 1]);
                    seen.push(map.tile);
                }
            }
        }
        seen.sort();
        seen.dedup();
        let mut expected: Vec<_> = boxes.iter().map(|b| b.to_vec()).collect();
        expected.sort();
        assert_eq!(seen, expected);
    }
}
