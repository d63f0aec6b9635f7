//! Convolutions of shared patches: which operators they are, with and without maxima behind, and how their launches lie.

use super::bench::{Bench, Form, shape};
use super::*;
use crate::backend::cpu::fixture;
use crate::plan::format::{Call, Operand, Rounding};
use crate::primitive::{PoolKind, Primitive, Unary, Window};

pub(super) const WGMMA: Target = Target::Cuda { wgmma: true };

/// Gives every map as zeros.
pub(super) struct ZeroMaps;

impl TensorMaps for ZeroMaps {
    fn tiled(&self, _: &TiledMap) -> Result<TensorMap, BindError> {
        Ok(TensorMap([0; 16]))
    }

    fn im2col(&self, _: &Im2colMap) -> Result<TensorMap, BindError> {
        Ok(TensorMap([0; 16]))
    }
}

/// A convolution of three pictures, its relu, and perhaps maxima of 2 by 2.
pub(super) fn convolution(bench: &mut Bench, size: [u32; 2], side: u32, [inputs, outputs]: [u32; 2], pooled: bool, form: Form) -> Operator {
    let dtype = DType::F16;
    let x = bench.tensor(dtype, &[3, inputs, size[0], size[1]], Form::Slice);
    let weights = bench.constant(dtype, &[outputs, inputs, side, side], &[0, 2, 3, 1]);
    let bias = bench.constant(dtype, &[outputs], &[0]);
    let [rows, columns] = size.map(|n| if pooled { n / 2 } else { n });
    let y = bench.tensor(dtype, &[3, outputs, rows, columns], form);
    let pad = side / 2;
    let window = Window {
        pad_begin: [pad, pad, 0],
        pad_end: [pad, pad, 0],
        ..Window::new(&[side, side])
    };
    let halves = Window {
        stride: [2, 2, 1],
        ..Window::new(&[2, 2])
    };
    let call = |primitive, inputs, dims: [u32; 2]| Call {
        primitive,
        inputs,
        dtype,
        shape: shape(&[3, outputs, dims[0], dims[1]]),
        rounding: Rounding::Rounded,
    };
    let conv = Primitive::Conv { window, groups: 1 };
    let mut calls = vec![
        call(conv, [x, weights, bias].map(Operand::View).to_vec(), size),
        call(Primitive::Unary(Unary::Relu), vec![Operand::Inner(0)], size),
    ];
    if pooled {
        let kind = PoolKind::Max { column_major: false };
        let pool = Primitive::Pool { kind, window: halves };
        calls.push(call(pool, vec![Operand::Inner(1)], [rows, columns]));
    }
    let mut operator = fixture::operator(Kernel::Generic, calls, vec![y]);
    operator.class = arithmetic_class(&bench.plan, &operator, WGMMA);
    operator
}

#[test]
fn windows_of_three_by_three_over_few_channels_share_patches() {
    let patches = |side, channels, pooled| {
        let mut bench = Bench::new(1);
        let operator = convolution(&mut bench, [20, 12], side, channels, pooled, Form::Pixels);
        let shares = |t: &crate::plan::format::Tactic| matches!(t.kernel, Kernel::ConvPatch | Kernel::ConvChains);
        let (own, others): (Vec<_>, Vec<_>) = menu(&bench.plan, &operator, WGMMA).into_iter().partition(shares);
        (operator.class.family, own.len(), others.len())
    };
    let (family, own, others) = patches(3, [64, 128], false);
    assert!(family == Family::Wgmma && own > 0 && others > 0);
    for (side, channels) in [(1, [64, 128]), (5, [64, 128]), (3, [520, 128]), (3, [64, 72])] {
        assert_eq!(patches(side, channels, false).1, 0, "{side} {channels:?}");
    }
    // No other kernel takes maxima of several chains.
    let (family, own, others) = patches(3, [128, 64], true);
    assert!(family == Family::Wgmma && own > 0 && others == 0);
}

/// The function and blocks of every tactic's launch on a GPU of so many multiprocessors, 0 for any.
fn launches(
    size: [u32; 2],
    inputs: u32,
    pooled: bool,
    form: Form,
    region: &Region,
    width: u16,
    multiprocessors: u32,
) -> Vec<(String, u32)> {
    let mut bench = Bench::new(2);
    let mut operator = convolution(&mut bench, size, 3, [inputs, 128], pooled, form);
    let tactics = menu(&bench.plan, &operator, WGMMA).into_iter();
    let own = tactics.filter(|t| t.kernel == Kernel::ConvPatch).collect::<Vec<_>>();
    let bind = |tactic| {
        operator.tactic = tactic;
        let (kernel, packs) = bench.compile(&operator);
        let placed = Placed::new(&bench, &packs, 1 << 40);
        let at = Addresses {
            maps: &ZeroMaps,
            multiprocessors,
            ..placed.addresses(&bench)
        };
        let [launch] = <[Launch; 1]>::try_from(kernel.launches(&at, region, width).unwrap()).unwrap();
        (launch.function, launch.blocks)
    };
    own.into_iter().map(bind).collect()
}

#[test]
fn blocks_are_dealt_to_the_channels() {
    let whole = Region { batch: 0..3, rows: 0..20 };
    // Two times 64 channels; tiles of 14 or 8 rows by 8 columns.
    let found = launches([20, 12], 64, false, Form::Pixels, &whole, 0, 0);
    let name = |rows: &str, store: &str| format!("conv_patch_{rows}_c1_{store}");
    let mut expected = vec![(name("r14_k1_s7_g3", "plain"), 2 * 12), (name("r8_k1_s10_g3", "plain"), 2 * 18)];
    let sorted = |mut all: Vec<(String, u32)>| {
        all.sort();
        all
    };
    expected.sort();
    assert_eq!(sorted(found), expected);
    // One block takes all channels in turn; an odd width leaves a block out.
    for (width, blocks) in [(1, 1), (2, 2), (7, 6)] {
        assert!(
            launches([20, 12], 64, false, Form::Pixels, &whole, width, 132)
                .iter()
                .all(|l| l.1 == blocks)
        );
    }
    // A small GPU has a block for each of its multiprocessors, whatever the width asks for.
    for (width, multiprocessors) in [(0, 16), (40, 16), (16, 0)] {
        let found = launches([20, 12], 64, false, Form::Pixels, &whole, width, multiprocessors);
        assert!(found.iter().all(|l| l.1 == 16), "{width} of {multiprocessors}: {found:?}");
    }
    // Rows of a chunk, of maxima half as many as a tile has.
    let rows = Region { batch: 1..2, rows: 3..10 };
    let found = sorted(launches([20, 12], 64, true, Form::Pixels, &rows, 0, 132));
    assert_eq!(
        found,
        [(name("r14_k1_s7_g3", "pooled"), 2 * 2), (name("r8_k1_s10_g3", "pooled"), 2 * 4)]
    );
    // What is not aligned is stored another way.
    let odd = launches([20, 12], 64, false, Form::OddSlice, &whole, 0, 132);
    assert!(odd.iter().all(|(name, _)| name.ends_with("_any")));
}

#[test]
fn wide_tiles_take_what_they_can_store_and_leave_the_rest() {
    let wide = |form, region: &Region, multiprocessors| {
        let all = launches([56, 64], 256, false, form, region, 0, multiprocessors);
        let wide = |l: &&(String, u32)| l.0.starts_with("conv_wide");
        (all.iter().find(wide).cloned(), all.len())
    };
    let found = |blocks| Some(("conv_wide_224".to_owned(), blocks));
    // Of each picture 16 tiles of pixels, and of each of these twice 64 channels: apart where there is room, else together.
    let whole = Region { batch: 0..3, rows: 0..56 };
    assert_eq!(wide(Form::Pixels, &whole, 132).0, found(96));
    assert_eq!(wide(Form::Pixels, &whole, 48).0, found(48));
    assert_eq!(wide(Form::Pixels, &whole, 16).0, found(16));
    // Three rows are one tile.
    let band = Region { batch: 1..2, rows: 3..6 };
    assert_eq!(wide(Form::Pixels, &band, 132).0, found(2));
    // What is not aligned goes through another kernel of the menu.
    assert_eq!(wide(Form::OddSlice, &whole, 132), (None, wide(Form::Pixels, &whole, 132).1));
}
