//! Convolutions of which the greatest of every 2 by 2 results are stored: which operators have them, and how their launches lie.

use super::patch::{WGMMA, ZeroMaps, convolution};
use super::*;
use crate::plan::tactic::conv_pooled::{SHARED, THREADS};

/// A convolution of so many channels of such pixels with its maxima, and its tactic of these kernels.
fn offered(size: [u32; 2], channels: [u32; 2], form: Form) -> (Bench, Operator, bool) {
    let mut bench = Bench::new(3);
    let operator = convolution(&mut bench, size, 3, channels, true, form);
    let tactic = menu(&bench.plan, &operator, WGMMA)
        .into_iter()
        .find(|t| t.kernel == Kernel::ConvPooled);
    let found = tactic.is_some();
    let operator = Operator {
        tactic: tactic.unwrap_or(operator.tactic),
        ..operator
    };
    (bench, operator, found)
}

#[test]
fn one_chain_whose_maxima_follow_each_other_is_served() {
    assert!(offered([112, 113], [128, 256], Form::Pixels).2);
    assert!(!offered([28, 28], [512, 512], Form::Pixels).2, "several chains");
    assert!(!offered([112, 113], [128, 256], Form::OddSlice).2, "not aligned");
}

#[test]
fn whole_samples_are_one_launch_and_rows_of_samples_one_each() {
    let (bench, operator, _) = offered([112, 113], [128, 256], Form::Pixels);
    let (kernel, packs) = bench.compile(&operator);
    let placed = Placed::new(&bench, &packs, 1 << 40);
    let at = |multiprocessors| Addresses {
        maps: &ZeroMaps,
        multiprocessors,
        ..placed.addresses(&bench)
    };
    // Of three samples; 56 pairs of rows, 112 columns that are pooled.
    let blocks = |batch: std::ops::Range<u32>, rows: std::ops::Range<u32>, width, multiprocessors| -> Vec<u32> {
        let launches = kernel.launches(&at(multiprocessors), &Region { batch, rows }, width).unwrap();
        assert!(
            launches
                .iter()
                .all(|l| l.unit == "conv_pooled" && (l.threads, l.shared) == (THREADS, SHARED))
        );
        launches.iter().map(|l| l.blocks).collect()
    };
    let tiles = |pairs: u32| (pairs * 112).div_ceil(64) * 2;
    assert_eq!(blocks(0..3, 0..56, 0, 10_000), [tiles(3 * 56)]);
    assert_eq!(blocks(0..3, 0..56, 7, 132), [7]);
    assert_eq!(blocks(1..2, 0..56, 0, 132), [132]);
    assert_eq!(blocks(0..3, 5..7, 0, 132), [tiles(2); 3]);
}
