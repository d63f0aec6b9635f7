//! Convolutions behind scale, shift and relu whose blocks keep their weights: where they are on the menu, and how they are launched.

use super::conv_warps::normalised;
use super::patch::ZeroMaps;
use super::*;
use crate::plan::format::{Operand, Tactic};
use crate::plan::tactic::conv_affine::{AffineTile, Order};
use crate::plan::tactic::prologue_wgmma::PrologueTile;
use crate::primitive::{Binary, Primitive};

const HOPPER: Target = Target::Cuda { wgmma: true };

fn keepers(bench: &Bench, operator: &Operator, target: Target) -> Vec<&'static AffineTile> {
    let tactics = menu(&bench.plan, operator, target).into_iter();
    tactics.filter_map(AffineTile::of).collect()
}

#[test]
fn kernels_that_keep_weights_have_the_order_of_the_class() {
    for (channels, side, order, count) in [
        (256, 14, Order::Pieces, 1),
        (224, 56, Order::Ascending, 2),
        (1032, 15, Order::Ascending, 1),
        (2048, 15, Order::Ascending, 0),
    ] {
        let (bench, operator) = normalised(channels, side);
        let found = keepers(&bench, &operator, HOPPER);
        assert!(
            found.len() == count && found.iter().all(|e| e.order == order),
            "{channels} {found:?}"
        );
        // Their shared memory is Hopper's.
        assert!(keepers(&bench, &operator, Target::Cuda { wgmma: false }).is_empty());
        // The other order is another class.
        for tactic in AffineTile::tactics().filter(|t| AffineTile::of(*t).is_some_and(|e| e.order != order)) {
            let wrong = Operator {
                tactic,
                ..operator.clone()
            };
            assert!(crate::plan::tactic::fits_on(crate::board::BackendKind::Cuda, &bench.plan, &wrong).is_err());
        }
    }
}

#[test]
fn kernels_that_keep_weights_come_first_where_there_are_many_tiles() {
    for (side, first) in [(112, true), (56, false), (14, false)] {
        let (bench, operator) = normalised(64, side);
        let tactics = menu(&bench.plan, &operator, HOPPER);
        assert_eq!(PrologueTile::of(tactics[0]).is_some(), first, "{side}");
        let kept: Vec<bool> = tactics.iter().map(|t| AffineTile::of(*t).is_some()).collect();
        assert!(
            kept.contains(&true) && !kept[0],
            "{side}: those of warpgroups come before those of warps"
        );
    }
}

/// Function and blocks of each keeping tactic's launch, by `mma.sync`.
fn launches(bench: &Bench, operator: &Operator, region: &Region, width: u16, multiprocessors: u32) -> Vec<(String, u32)> {
    let own = |t: &Tactic| AffineTile::of(*t).is_some();
    launches_of(own, bench, operator, region, width, multiprocessors)
}

/// The same of some tactics.
fn launches_of(
    own: impl Fn(&Tactic) -> bool,
    bench: &Bench,
    operator: &Operator,
    region: &Region,
    width: u16,
    multiprocessors: u32,
) -> Vec<(String, u32)> {
    let tactics = menu(&bench.plan, operator, HOPPER).into_iter();
    let launch = |tactic| {
        let chosen = Operator {
            tactic,
            ..operator.clone()
        };
        let (kernel, packs) = bench.compile(&chosen);
        let placed = Placed::new(bench, &packs, 1 << 40);
        let at = Addresses {
            multiprocessors,
            maps: &ZeroMaps,
            ..placed.addresses(bench)
        };
        let launch = kernel.launches(&at, region, width).unwrap().remove(0);
        (launch.function, launch.blocks)
    };
    tactics.filter(own).map(launch).collect()
}

#[test]
fn a_block_for_each_place_and_range_of_channels() {
    let (bench, operator) = normalised(256, 56);
    let whole = Region::whole(operator.outputs[0].layout.shape);
    let named = |blocks: [u32; 2]| {
        let names = ["conv_affine_128_s3_ascending", "conv_affine_64_s4_ascending"];
        names.into_iter().map(str::to_owned).zip(blocks).collect::<Vec<_>>()
    };
    // 98 tiles of 32 pixels, of 128 channels or twice 64.
    assert_eq!(launches(&bench, &operator, &whole, 0, 16), named([16, 16]));
    assert_eq!(launches(&bench, &operator, &whole, 0, 132), named([98, 132]));
    assert_eq!(launches(&bench, &operator, &whole, 7, 132), named([7, 6]));
    let band = Region { batch: 0..1, rows: 2..4 };
    assert_eq!(launches(&bench, &operator, &band, 0, 132), named([4, 8]));
    // One block has no place for two ranges of channels.
    let narrow = launches(&bench, &operator, &whole, 1, 132);
    assert_eq!(narrow[0], named([1, 1])[0]);
    assert_eq!(narrow[1], ("conv_mma_64x64x64_32x32_s3_affine".to_owned(), 1));
}

/// The same by `wgmma`.
#[test]
fn warpgroups_keep_weights_of_as_many_blocks_as_they_have_places_for() {
    let by_wgmma = |t: &Tactic| PrologueTile::of(*t).is_some();
    let found = |channels: u32, side: u32, width: u16, multiprocessors: u32| {
        let (bench, operator) = normalised(channels, side);
        let whole = Region::whole(operator.outputs[0].layout.shape);
        launches_of(by_wgmma, &bench, &operator, &whole, width, multiprocessors)
    };
    let named = |names: &[(&str, u32)]| names.iter().map(|(n, b)| (format!("prologue_{n}"), *b)).collect::<Vec<_>>();
    // 49 tiles of 64 pixels, of 128 channels or twice 64.
    let six = [
        "wgmma_128_k4_g3_s4",
        "wgmma_128_k8_g2_s4",
        "wgmma_64_k8_g4_s3",
        "wgmma_64_k16_g3_s2",
        "streamed_128_g2_s5",
        "streamed_128_g3_s4",
    ];
    let six = six.map(|n| format!("{n}_affine_ascending"));
    let all = |blocks: [u32; 6]| {
        let each: Vec<(&str, u32)> = six.iter().map(String::as_str).zip(blocks).collect();
        named(&each)
    };
    assert_eq!(found(256, 56, 0, 16), all([16; 6]));
    assert_eq!(found(256, 56, 0, 132), all([49, 49, 98, 98, 49, 49]));
    assert_eq!(found(256, 56, 7, 132), all([7, 7, 6, 6, 7, 7]));
    // No block keeps more weights than it has memory for.
    assert_eq!(found(320, 56, 0, 16), all([16; 6])[1..]);
    let many = [
        ("wgmma_64_k16_g3_s2_affine_pieces", 8),
        ("streamed_128_g2_s5_affine_pieces", 4),
        ("streamed_64_g3_s5_affine_pieces", 8),
    ];
    assert_eq!(found(992, 14, 0, 16), named(&many));
    // One block has no place for two ranges of channels.
    assert_eq!(found(256, 56, 1, 132)[2], ("conv_mma_64x64x64_32x32_s3_affine".to_owned(), 1));
}

#[test]
fn other_tails_go_through_the_kernel_of_the_class() {
    for (channels, side, name) in [(256, 56, "conv_mma_"), (256, 14, "conv_warps_")] {
        let (bench, mut operator) = normalised(channels, side);
        let last = operator.calls.last().unwrap().clone();
        let value = Operand::Inner(operator.calls.len() as u8 - 1);
        operator.calls.push(crate::plan::format::Call {
            primitive: Primitive::Binary(Binary::Mul),
            inputs: vec![value, Operand::View(operator.outputs[0])],
            ..last
        });
        let whole = Region::whole(operator.outputs[0].layout.shape);
        let keeps = |t: &Tactic| AffineTile::of(*t).is_some() || PrologueTile::of(*t).is_some();
        let found = launches_of(keeps, &bench, &operator, &whole, 0, 16);
        assert!(found.len() > 1 && found.iter().all(|l| l.0.starts_with(name)), "{found:?}");
    }
}
