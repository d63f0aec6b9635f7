//! Weights that stream past single pixels: in how many chains K is summed, which kernels sum them, and how many blocks do so.

use super::bench::{Bench, Form};
use super::patch::{WGMMA, ZeroMaps};
use super::*;
use crate::plan::format::Tactic;
use crate::plan::tactic::conv_wgmma::{Chains, WgmmaTile};
use crate::primitive::{Primitive, Window};

/// A fully connected layer of one sample.
fn connected(bench: &mut Bench, inputs: u32, outputs: u32) -> Operator {
    let x = bench.tensor(DType::F16, &[1, inputs, 1, 1], Form::Pixels);
    let weights = bench.constant(DType::F16, &[outputs, inputs, 1, 1], &[0, 2, 3, 1]);
    let bias = bench.constant(DType::F16, &[outputs], &[0]);
    let y = bench.tensor(DType::F16, &[1, outputs, 1, 1], Form::Pixels);
    let window = Window::new(&[1, 1]);
    let mut operator = bench.operator(Primitive::Conv { window, groups: 1 }, &[x, weights, bias], &[], &[y]);
    operator.class = arithmetic_class(&bench.plan, &operator, WGMMA);
    operator
}

#[test]
fn few_channels_of_long_sums_take_eight_chains_which_no_other_cluster_sums() {
    let chains = |inputs, outputs| {
        let mut bench = Bench::new(4);
        let operator = connected(&mut bench, inputs, outputs);
        let tactics = menu(&bench.plan, &operator, WGMMA);
        assert!(tactics.iter().any(|t| t.kernel == Kernel::StreamWgmma));
        let clusters = |t: &&Tactic| WgmmaTile::of(**t).is_some_and(|tile| tile.chains == Chains::Cluster);
        (operator.class.split_k, tactics.iter().filter(clusters).count() > 0)
    };
    assert_eq!(chains(4096, 1000), (8, false));
    assert_eq!(chains(2048, 1000), (4, true), "shorter");
    assert_eq!(chains(4096, 4096), (2, false), "so many weights that no other kernel is asked");
}

#[test]
fn blocks_whose_chains_are_summed_through_memory_find_places_at_once() {
    let mut bench = Bench::new(5);
    let mut operator = connected(&mut bench, 4096, 1000);
    let apart = menu(&bench.plan, &operator, WGMMA)
        .into_iter()
        .find(|t| t.kernel == Kernel::StreamWgmma && t.variant == 3);
    operator.tactic = apart.unwrap();
    let (kernel, packs) = bench.compile(&operator);
    let placed = Placed::new(&bench, &packs, 1 << 40);
    let blocks = |multiprocessors, width| {
        let at = Addresses {
            maps: &ZeroMaps,
            multiprocessors,
            workspace: Area {
                address: 1 << 50,
                bytes: kernel.workspace(),
            },
            ..placed.addresses(&bench)
        };
        let whole = Region { batch: 0..1, rows: 0..1 };
        let [launch] = <[Launch; 1]>::try_from(kernel.launches(&at, &whole, width).unwrap()).unwrap();
        (launch.function, launch.blocks)
    };
    let name = "stream_wgmma_8_s12_t1_apart".to_owned();
    // 16 tiles of 64 channels in 8 chains.
    assert_eq!(blocks(0, 0), (name.clone(), 128), "an unknown GPU");
    assert_eq!(blocks(132, 0), (name.clone(), 128));
    assert_eq!(blocks(16, 0), (name.clone(), 32));
    assert_eq!(blocks(16, 5), (name, 5), "a launch width");
}
