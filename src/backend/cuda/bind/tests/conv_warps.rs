//! Convolutions whose K is summed in ranges of a warp each: which operators are such, and what is launched for them.

use super::bench::{Bench, Form, shape};
use super::*;
use crate::backend::cpu::fixture;
use crate::plan::format::{ArithmeticClass, Call, Operand, Rounding, View};
use crate::plan::tactic::fits_on;
use crate::primitive::{Binary, Primitive, Unary, Window};

const TARGETS: [Target; 2] = [Target::Cuda { wgmma: false }, Target::Cuda { wgmma: true }];

/// Calls one after another: each reads the value before it where its first input is `None`.
struct Chain {
    bench: Bench,
    calls: Vec<Call>,
}

impl Chain {
    fn call(&mut self, primitive: Primitive, inputs: &[Option<View>], dims: &[u32]) {
        let last = self.calls.len() as u8;
        let operand = |view: &Option<View>| view.map_or_else(|| Operand::Inner(last - 1), Operand::View);
        self.calls.push(Call {
            primitive,
            inputs: inputs.iter().map(operand).collect(),
            dtype: DType::F16,
            shape: shape(dims),
            rounding: Rounding::Rounded,
        });
    }

    fn convolve(mut self, x: Option<View>, window: Window, dims: [u32; 4], from: u32) -> (Bench, Operator) {
        let [_, o, ..] = dims;
        let weights = self
            .bench
            .constant(DType::F16, &[o, from, window.kernel[0], window.kernel[1]], &[0, 2, 3, 1]);
        let bias = self.bench.constant(DType::F16, &[o], &[0]);
        self.call(Primitive::Conv { window, groups: 1 }, &[x, Some(weights), Some(bias)], &dims);
        let y = self.bench.tensor(DType::F16, &dims, Form::Slice);
        let mut operator = fixture::operator(Kernel::Generic, self.calls, vec![y]);
        operator.class = arithmetic_class(&self.bench.plan, &operator, TARGETS[0]);
        (self.bench, operator)
    }
}

fn chain() -> Chain {
    Chain {
        bench: Bench::new(3),
        calls: Vec::new(),
    }
}

/// Factors of two pictures' channels, and a 1x1 convolution of the products.
fn gated(channels: u32, side: u32, form: Form) -> (Bench, Operator) {
    let mut chain = chain();
    let dims = [2, channels, side, side];
    let x = chain.bench.tensor(DType::F16, &dims, Form::Slice);
    let gate = chain.bench.tensor(DType::F16, &dims, form);
    chain.call(Primitive::Binary(Binary::Mul), &[Some(gate), Some(x)], &dims);
    chain.convolve(None, Window::new(&[1, 1]), [2, 40, side, side], channels)
}

/// Scales and shifts of a picture's channels, cut off at zero, and a 1x1 convolution.
pub(super) fn normalised(channels: u32, side: u32) -> (Bench, Operator) {
    let mut chain = chain();
    let dims = [1, channels, side, side];
    let x = chain.bench.tensor(DType::F16, &dims, Form::Slice);
    for kind in [Binary::Mul, Binary::Add] {
        let mut constant = chain.bench.constant(DType::F16, &[channels], &[0]);
        constant.layout = crate::tensor::Layout::new(shape(&dims), &[0, 1, 0, 0]).unwrap();
        let first = (kind == Binary::Mul).then_some(x);
        chain.call(Primitive::Binary(kind), &[first, Some(constant)], &dims);
    }
    chain.call(Primitive::Unary(Unary::Relu), &[None], &dims);
    chain.convolve(None, Window::new(&[1, 1]), [1, 128, side, side], channels)
}

/// A 3x3 convolution.
fn windowed(channels: u32, outputs: u32, side: u32) -> (Bench, Operator) {
    let mut chain = chain();
    let dims = [1, channels, side, side];
    let x = chain.bench.tensor(DType::F16, &dims, Form::Pixels);
    let mut window = Window::new(&[3, 3]);
    (window.pad_begin, window.pad_end) = ([1, 1, 0], [1, 1, 0]);
    chain.convolve(Some(x), window, [1, outputs, side, side], channels)
}

/// A fully connected layer of several samples, its result stored as f32.
fn connected(channels: u32, outputs: u32) -> (Bench, Operator) {
    let mut chain = chain();
    let x = chain.bench.tensor(DType::F16, &[5, channels], Form::Plain);
    let weights = chain.bench.constant(DType::F16, &[channels, outputs], &[1, 0]);
    chain.call(Primitive::MatMul, &[Some(x), Some(weights)], &[5, outputs]);
    chain.call(Primitive::Copy, &[None], &[5, outputs]);
    chain.calls[1].dtype = DType::F32;
    let y = chain.bench.tensor(DType::F32, &[5, outputs], Form::Plain);
    let operator = fixture::operator(Kernel::Generic, chain.calls, vec![y]);
    let class = arithmetic_class(&chain.bench.plan, &operator, TARGETS[0]);
    (chain.bench, Operator { class, ..operator })
}

/// Kernels of the operator's menu, each once.
fn kernels(bench: &Bench, operator: &Operator, target: Target) -> BTreeSet<Kernel> {
    let class = arithmetic_class(&bench.plan, operator, target);
    let operator = Operator { class, ..operator.clone() };
    menu(&bench.plan, &operator, target).iter().map(|t| t.kernel).collect()
}

/// The same without the kernels that have the bits of others and the shared memory of Hopper.
fn without_keepers(bench: &Bench, operator: &Operator, target: Target) -> BTreeSet<Kernel> {
    let mut all = kernels(bench, operator, target);
    all.remove(&Kernel::ConvAffine);
    all.remove(&Kernel::PrologueWgmma);
    all.remove(&Kernel::ConvTaps);
    all.remove(&Kernel::ConvSlender);
    all
}

#[test]
fn operators_of_few_pixels_have_a_class_of_their_own() {
    let of = |split_k| ArithmeticClass {
        family: Family::TensorCore,
        split_k,
    };
    for target in TARGETS {
        for ((bench, operator), split_k) in [
            (gated(72, 14, Form::Gate), 8),
            (normalised(992, 7), 8),
            (windowed(128, 32, 14), 9),
            (windowed(96, 8, 7), 9),
            (connected(1344, 1000), 8),
            (connected(256, 1), 8),
        ] {
            assert_eq!(arithmetic_class(&bench.plan, &operator, target), of(split_k));
            assert_eq!(without_keepers(&bench, &operator, target), BTreeSet::from([Kernel::ConvWarps]));
        }
        for (bench, operator) in [windowed(64, 32, 14), windowed(128, 40, 14), windowed(160, 32, 7)] {
            assert!(!kernels(&bench, &operator, target).contains(&Kernel::ConvWarps));
        }
        for (bench, operator) in [connected(1544, 8), connected(1024, 4096)] {
            assert!(!kernels(&bench, &operator, target).contains(&Kernel::ConvWarps));
        }
        // More channels than a block's warps have places for.
        let (bench, operator) = normalised(1032, 7);
        assert_eq!(without_keepers(&bench, &operator, target), BTreeSet::from([Kernel::ConvMma]));
    }
}

#[test]
fn single_pixels_have_small_tiles_and_widened_results() {
    use crate::backend::cuda::bind::epilogue::flags;
    let (bench, operator) = connected(1344, 40);
    let menu = menu(&bench.plan, &operator, TARGETS[0]);
    assert!(!menu.is_empty() && menu.iter().all(|t| t.tile.0 == 16));
    let tactic = menu[0];
    let chosen = Operator { tactic, ..operator };
    let (kernel, packs) = bench.compile(&chosen);
    let placed = Placed::new(&bench, &packs, 1 << 40);
    let whole = Region::whole(chosen.outputs[0].layout.shape);
    let launch = kernel.launches(&placed.addresses(&bench), &whole, 0).unwrap().remove(0);
    assert_eq!(launch.function, format!("conv_warps_16x{}_single_6", tactic.tile.1));
    let widened = |bits: u32| bits & flags::WIDENED != 0 && bits & flags::WIDE_STORE == 0;
    let epilogue = launch.params.len() - 32 - std::mem::size_of::<crate::backend::cuda::bind::epilogue::Epilogue>();
    let bits = launch.params[epilogue + 76..epilogue + 80].try_into().unwrap();
    assert!(widened(u32::from_le_bytes(bits)));
}

#[test]
fn factors_are_the_same_for_all_pixels_of_a_sample() {
    let cuda = crate::board::BackendKind::Cuda;
    let fits = |channels, form| {
        let (bench, mut operator) = gated(channels, 9, form);
        let class = ArithmeticClass {
            family: Family::TensorCore,
            split_k: 8,
        };
        operator.class = class;
        operator.tactic = menu(&bench.plan, &gated(72, 9, Form::Gate).1, TARGETS[0])[0];
        fits_on(cuda, &bench.plan, &operator).is_ok()
    };
    assert!(fits(72, Form::Gate));
    assert!(!fits(72, Form::Pixels), "factors of every pixel");
    assert!(!fits(72, Form::Plain));
}

#[test]
fn launches_cover_the_pixels_of_a_chunk() {
    let (bench, operator) = gated(72, 9, Form::Gate);
    let chunk = Region { batch: 1..2, rows: 2..9 };
    let whole = Region::whole(operator.outputs[0].layout.shape);
    for (tactic, entry) in menu(&bench.plan, &operator, TARGETS[0])
        .into_iter()
        .map(|t| (t, *crate::plan::tactic::conv_warps::WarpsTile::of(t).unwrap()))
    {
        let chosen = Operator {
            tactic,
            ..operator.clone()
        };
        let (kernel, packs) = bench.compile(&chosen);
        let placed = Placed::new(&bench, &packs, 1 << 40);
        let at = placed.addresses(&bench);
        for (region, pixels) in [(&whole, 2 * 81u32), (&chunk, 63)] {
            let launch = kernel.launches(&at, region, 0).unwrap().remove(0);
            let down = pixels.div_ceil(u32::from(entry.tile.0)).div_ceil(entry.turns);
            assert_eq!(launch.blocks, down * 40u32.div_ceil(u32::from(entry.tile.1)), "{entry:?}");
            let source = crate::backend::cuda::sources::unit(launch.unit).unwrap().source;
            assert!(source.contains(&format!("({}, ", launch.function)), "{}", launch.function);
            assert_eq!(kernel.launches(&at, region, 1).unwrap()[0].blocks, 1);
        }
    }
}

#[test]
fn taps_that_share_a_patch_cover_the_rows_of_a_chunk() {
    let launch = |side, region: &Region, width, multiprocessors| {
        let (bench, operator) = windowed(128, 32, side);
        let tactic = crate::plan::tactic::conv_taps::TACTIC;
        assert!(menu(&bench.plan, &operator, TARGETS[1]).contains(&tactic));
        assert!(
            !menu(&bench.plan, &operator, TARGETS[0]).contains(&tactic),
            "the shared memory is Hopper's"
        );
        let chosen = Operator { tactic, ..operator };
        let (kernel, packs) = bench.compile(&chosen);
        let placed = Placed::new(&bench, &packs, 1 << 40);
        let at = Addresses {
            multiprocessors,
            ..placed.addresses(&bench)
        };
        let launch = kernel.launches(&at, region, width).unwrap().remove(0);
        let end = launch.params.len();
        let number = |from: usize| u32::from_le_bytes(launch.params[from..from + 4].try_into().unwrap());
        let (band, units, parts) = (number(end - 24), number(end - 20), number(end - 4));
        assert_eq!((parts, launch.shared), ((band + 2) * (side + 2) * 256, parts + 92_160));
        (launch.blocks, band, units)
    };
    let whole = Region { batch: 0..1, rows: 0..14 };
    assert_eq!(launch(14, &whole, 0, 16), (14, 1, 14));
    assert_eq!(launch(14, &whole, 0, 4), (4, 4, 4));
    assert_eq!(launch(14, &whole, 3, 4), (3, 4, 4));
    assert_eq!(launch(14, &Region { batch: 0..1, rows: 3..8 }, 0, 132), (5, 1, 5));
}

#[test]
fn scales_and_shifts_are_packed_one_behind_the_other() {
    let (bench, operator) = normalised(40, 7);
    let tactic = menu(&bench.plan, &operator, TARGETS[0])[0];
    let chosen = Operator { tactic, ..operator };
    let (_, packs) = bench.compile(&chosen);
    let padding = [0u8; 2 * 24];
    let expected = [&bench.sections[0][..], &padding, &bench.sections[1], &padding].concat();
    assert!(packs.bytes().contains(&expected));
}
