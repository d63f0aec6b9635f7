//! Grouped convolutions of shared patches: which operators they are, and how their launches lie.

use super::bench::{Bench, Form, in_groups};
use super::patch::{WGMMA, ZeroMaps};
use super::*;
use crate::plan::tactic::conv_grouped::{GroupedTile, MENU, product};
use crate::primitive::Window;

/// A convolution of 3 by 3 neighbours, one pixel of padding around it.
fn convolution(bench: &mut Bench, extents: [u32; 4], group: u32, dilation: u32, form: Form, target: Target) -> Operator {
    let mut window = Window::new(&[3, 3]);
    for a in 0..2 {
        (window.pad_begin[a], window.pad_end[a], window.dilation[a]) = (dilation, dilation, dilation);
    }
    in_groups(bench, extents, group, window, form, target)
}

#[test]
fn hopper_alone_has_a_class_and_a_menu_for_them() {
    let offered = |channels, group, dilation, target| {
        let mut bench = Bench::new(1);
        let operator = convolution(&mut bench, [1, channels, 14, 14], group, dilation, Form::Pixels, target);
        let tactics = menu(&bench.plan, &operator, target);
        let own = tactics.iter().filter(|t| t.kernel == Kernel::ConvGrouped).count();
        (operator.class.family, operator.class.split_k, own, tactics.len() - own)
    };
    // No other kernel has these bits.
    assert_eq!(offered(128, 4, 1, WGMMA), (Family::Wgmma, 1, MENU.len(), 0));
    assert_eq!(offered(104, 8, 1, WGMMA), (Family::Wgmma, 1, MENU.len(), 0));
    // The weights of wider slabs leave four blocks no room for patches.
    assert_eq!(offered(128, 32, 1, WGMMA), (Family::Wgmma, 1, MENU.len() - 1, 0));
    // Other GPUs; groups that no slab holds; channels that fill less than half of one; taps apart.
    let others = Target::Cuda { wgmma: false };
    for (channels, group, dilation, target) in [
        (128, 4, 1, others),
        (224, 112, 1, WGMMA),
        (144, 72, 1, WGMMA),
        (16, 8, 1, WGMMA),
        (128, 4, 2, WGMMA),
    ] {
        let (family, _, own, rest) = offered(channels, group, dilation, target);
        assert!(family == Family::TensorCore && own == 0 && rest > 0, "{channels} by {group}");
    }
}

#[test]
fn launches_cover_the_rows_of_a_chunk() {
    for (form, name) in [
        (Form::Pixels, "conv_grouped_s1_w16_plain"),
        (Form::OddSlice, "conv_grouped_s1_w16_any"),
    ] {
        let mut bench = Bench::new(2);
        let operator = convolution(&mut bench, [3, 104, 20, 12], 8, 1, form, WGMMA);
        let tactics = menu(&bench.plan, &operator, WGMMA);
        assert_eq!(tactics.len(), MENU.len());
        for tactic in tactics {
            let entry = GroupedTile::of(tactic).unwrap();
            let operator = Operator {
                tactic,
                ..operator.clone()
            };
            let (kernel, packs) = bench.compile(&operator);
            let placed = Placed::new(&bench, &packs, 1 << 40);
            let shared = entry.shared(&product(&bench.plan, &operator).unwrap().form);
            // Two blocks of channels; two tiles across.
            for (region, tiles) in [
                (Region { batch: 0..3, rows: 0..20 }, 2 * 3 * 3),
                (Region { batch: 1..2, rows: 5..14 }, 2 * 2),
            ] {
                for (multiprocessors, width) in [(0, 0), (132, 0), (1, 0), (132, 7), (132, 1)] {
                    let at = Addresses {
                        maps: &ZeroMaps,
                        multiprocessors,
                        ..placed.addresses(&bench)
                    };
                    let [launch] = <[Launch; 1]>::try_from(kernel.launches(&at, &region, width).unwrap()).unwrap();
                    let room = match multiprocessors {
                        0 => u32::MAX,
                        units => units * entry.together,
                    };
                    let most = if width == 0 { room } else { room.min(width.into()) };
                    let lanes = most.min(2);
                    assert_eq!(launch.blocks, (most / lanes).min(tiles) * lanes, "{multiprocessors} {width}");
                    assert_eq!((launch.unit, launch.function.as_str()), ("conv_grouped", name));
                    assert_eq!((launch.threads, launch.shared), (entry.threads(), shared));
                }
            }
        }
    }
}
