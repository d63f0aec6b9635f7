//! Squeeze and excitation: which operators are one launch, and how it is laid out.

use super::bench::{Bench, Form, shape};
use super::*;
use crate::backend::cpu::fixture;
use crate::plan::format::{ArithmeticClass, Call, Operand, Rounding, View};
use crate::primitive::{Primitive, ReduceKind, Scalar, Unary, Window};

/// Mean, layer, function, layer, function over three pictures of 40 channels in `dtype`.
fn excitation(bench: &mut Bench, dtype: DType, hidden: u32, [rows, columns]: [u32; 2]) -> Operator {
    let x = bench.tensor(dtype, &[3, 40, rows, columns], Form::Slice);
    let constants = [(hidden, 40), (40, hidden)].map(|(to, from)| {
        let weights = bench.constant(dtype, &[to, from, 1, 1], &[0, 2, 3, 1]);
        (weights, bench.constant(dtype, &[to], &[0]))
    });
    let y = bench.tensor(dtype, &[3, 40, 1, 1], Form::Pixels);
    let call = |primitive, inputs, channels| Call {
        primitive,
        inputs,
        dtype,
        shape: shape(&[3, channels, 1, 1]),
        rounding: Rounding::Rounded,
    };
    let conv = Primitive::Conv {
        window: Window::new(&[1, 1]),
        groups: 1,
    };
    let layer = |from: u8, (weights, bias): (View, View), channels| {
        let inputs = vec![Operand::Inner(from), Operand::View(weights), Operand::View(bias)];
        call(conv, inputs, channels)
    };
    let function = |kind, from: u8, channels| call(Primitive::Unary(kind), vec![Operand::Inner(from)], channels);
    let (kind, axes) = (ReduceKind::Mean, 0b1100);
    let gate = Unary::HardSigmoid(Scalar(1.0 / 6.0), Scalar(0.5));
    let calls = vec![
        call(Primitive::Reduce { kind, axes }, vec![Operand::View(x)], 40),
        layer(0, constants[0], hidden),
        function(Unary::Relu, 1, hidden),
        layer(2, constants[1], 40),
        function(gate, 3, 40),
    ];
    fixture::operator(Kernel::Generic, calls, vec![y])
}

#[test]
fn only_halves_in_one_class_are_squeezed_in_one_launch() {
    for target in [Target::Cuda { wgmma: false }, Target::Cuda { wgmma: true }] {
        let kernels = |dtype, hidden, split_k: Option<u16>| -> Vec<Kernel> {
            let mut bench = Bench::new(1);
            let mut operator = excitation(&mut bench, dtype, hidden, [5, 6]);
            operator.class = match split_k {
                None => arithmetic_class(&bench.plan, &operator, target),
                Some(split_k) => ArithmeticClass {
                    family: Family::TensorCore,
                    split_k,
                },
            };
            menu(&bench.plan, &operator, target).iter().map(|t| t.kernel).collect()
        };
        // One for each number of samples a block: 1, or 2 of the three.
        assert_eq!(kernels(DType::F16, 16, None), [Kernel::Squeeze; 2]);
        assert!(kernels(DType::F16, 16, Some(1)).is_empty());
        assert!(kernels(DType::F16, 513, None).is_empty());
        assert!(kernels(DType::F32, 16, None).is_empty());
    }
}

#[test]
fn a_squeeze_is_two_launches_over_ranges_and_slabs_of_channels() {
    let mut bench = Bench::new(2);
    let mut operator = excitation(&mut bench, DType::F16, 12, [5, 6]);
    let target = Target::Cuda { wgmma: true };
    operator.class = arithmetic_class(&bench.plan, &operator, target);
    operator.tactic = menu(&bench.plan, &operator, target)[0];
    let (kernel, packs) = bench.compile(&operator);
    // Fragments of 16 by 16: three ranges of 16 inputs, and three of 16 outputs; each with its bias.
    let bytes: Vec<usize> = packs.bytes().iter().map(Vec::len).collect();
    assert_eq!(bytes, [3 * 512, 12 * 4, 3 * 512, 40 * 4]);
    let placed = Placed::new(&bench, &packs, 1 << 40);
    // Sums of three samples, three ranges of sixteen channels, twelve hidden units rounded up to sixteen.
    // They lie behind the counters of others: operators of one stream share its workspace.
    assert_eq!(kernel.workspace(), COUNTER_BYTES + 3 * 3 * 16 * 4);
    let workspace = Area {
        address: 1 << 50,
        bytes: kernel.workspace(),
    };
    let launch = |width, samples| -> Vec<(String, u32, u32)> {
        let at = Addresses {
            workspace,
            ..placed.addresses(&bench)
        };
        let region = Region {
            batch: samples,
            rows: 0..1,
        };
        let launches = kernel.launches(&at, &region, width).unwrap();
        for launch in &launches {
            let words = launch
                .params
                .chunks_exact(8)
                .map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
            let inside: Vec<u64> = words.filter(|w| (1 << 50..(1 << 50) + workspace.bytes).contains(w)).collect();
            assert_eq!(inside, [(1 << 50) + COUNTER_BYTES]);
        }
        launches.into_iter().map(|l| (l.function, l.blocks, l.threads)).collect()
    };
    let both = |means, gates| vec![("squeeze_means_16_1".into(), means, 256), ("squeeze_gates_1".into(), gates, 256)];
    assert_eq!(launch(0, 0..3), both(9, 3));
    assert_eq!(launch(4, 0..3), both(4, 3));
    assert_eq!(launch(1, 1..3), both(1, 1));
    assert!(launch(0, 2..2).is_empty());
    let small = placed.addresses(&bench);
    let whole = Region { batch: 0..3, rows: 0..1 };
    assert_eq!(kernel.launches(&small, &whole, 0), Err(BindError::Reference));
}

#[test]
fn clusters_share_many_pixels_where_they_have_room() {
    let mut bench = Bench::new(3);
    let mut operator = excitation(&mut bench, DType::F16, 12, [32, 32]);
    let target = Target::Cuda { wgmma: true };
    operator.class = arithmetic_class(&bench.plan, &operator, target);
    // Blocks of several samples sum few pixels only.
    assert_eq!(menu(&bench.plan, &operator, target).len(), 1);
    operator.tactic = menu(&bench.plan, &operator, target)[0];
    let (kernel, packs) = bench.compile(&operator);
    let placed = Placed::new(&bench, &packs, 1 << 40);
    let workspace = Area {
        address: 1 << 50,
        bytes: kernel.workspace(),
    };
    let means = |clusters, multiprocessors, width, samples| {
        let at = Addresses {
            workspace,
            clusters,
            multiprocessors,
            ..placed.addresses(&bench)
        };
        let region = Region {
            batch: samples,
            rows: 0..1,
        };
        let first = kernel.launches(&at, &region, width).unwrap().swap_remove(0);
        let kind = if first.cluster > 1 { "shares" } else { "alone" };
        assert_eq!(first.function, format!("squeeze_{kind}_16_1"));
        (first.blocks, first.cluster)
    };
    assert_eq!(means(true, 132, 0, 0..3), (72, 8));
    assert_eq!(means(true, 132, 20, 0..3), (16, 8));
    assert_eq!(means(true, 132, 7, 0..3), (7, 1), "a width below a cluster");
    assert_eq!(means(true, 16, 0, 0..3), (9, 1), "few multiprocessors");
    assert_eq!(means(true, 0, 0, 0..3), (72, 8), "unknown");
    assert_eq!(means(false, 132, 0, 0..3), (9, 1), "no clusters");
}
