use super::super::tests::bench::{Bench, Form, Link, shape};
use super::super::{Area, Im2colMap, TensorMap, TensorMaps, TiledMap};
use super::*;
use crate::plan::format::{Call, Family, Kernel as Named, Operand, Rounding, Tactic};
use crate::plan::tactic::stem::MENU;
use crate::plan::tactic::{Target, arithmetic_class, menu};
use crate::primitive::{Primitive, Unary, Window};
use crate::tensor::Shape;
use std::mem::{offset_of, size_of};

const HOPPER: Target = Target::Cuda { wgmma: true };

/// A map that says nothing but that it is one.
struct SomeMaps;

impl TensorMaps for SomeMaps {
    fn tiled(&self, map: &TiledMap) -> Result<TensorMap, BindError> {
        let aligned = map.address.is_multiple_of(16) && map.strides.iter().all(|s| *s > 0 && s.is_multiple_of(16));
        if aligned {
            Ok(TensorMap([7; 16]))
        } else {
            Err(BindError::TensorMap(1))
        }
    }

    fn im2col(&self, _: &Im2colMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }
}

/// A first layer with a bias and a relu; the last argument says of which type a picture in C order is copied first.
fn layer(bench: &mut Bench, [n, c, h, w]: [u32; 4], o: u32, kernel: [u32; 2], stride: u32, copied: Option<DType>) -> Operator {
    let mut window = Window::new(&kernel);
    (window.stride[0], window.stride[1]) = (stride, stride);
    (window.pad_begin[0], window.pad_begin[1], window.pad_end[1]) = (1, 2, 1);
    let out = [n, o, window.output(0, h).unwrap(), window.output(1, w).unwrap()];
    let picture = [n, c, h, w];
    let x = match copied {
        Some(dtype) => bench.tensor(dtype, &picture, Form::Plain),
        None => bench.tensor(DType::F16, &picture, Form::Pixels),
    };
    let weights = bench.constant(DType::F16, &[o, c, kernel[0], kernel[1]], &[0, 2, 3, 1]);
    let bias = bench.constant(DType::F16, &[o], &[0]);
    let y = bench.tensor(DType::F16, &out, Form::Pixels);
    let conv = Primitive::Conv { window, groups: 1 };
    let mut operator = bench.operator(conv, &[x, weights, bias], &[Link::Of(Unary::Relu)], &[y]);
    if copied.is_some() {
        operator.calls[0].inputs[0] = Operand::Inner(0);
        operator.calls[1].inputs[0] = Operand::Inner(1);
        let copy = Call {
            primitive: Primitive::Copy,
            inputs: vec![Operand::View(x)],
            dtype: DType::F16,
            shape: shape(&picture),
            rounding: Rounding::Rounded,
        };
        operator.calls.insert(0, copy);
    }
    operator.class = arithmetic_class(&bench.plan, &operator, HOPPER);
    if let Some(&first) = menu(&bench.plan, &operator, HOPPER).first() {
        operator.tactic = first;
    }
    operator
}

/// What launches a chunk, its parameters, and the packed weights.
fn launch(bench: &Bench, operator: &Operator, region: &Region, width: u16) -> (Launch, Params, Vec<Vec<u8>>) {
    let (kernel, packs) = bench.compile(operator);
    let area = |address: u64, bytes: usize| Area {
        address,
        bytes: bytes as u64,
    };
    let weights: Vec<Area> = bench.sections.iter().map(|s| area(1 << 40, s.len())).collect();
    let placed: Vec<Area> = (1u64..).zip(packs.bytes()).map(|(i, p)| area(i << 32, p.len())).collect();
    let at = Addresses {
        plan: &bench.plan,
        arena: area(1 << 20, bench.arena.len()),
        persistent: Area::default(),
        input: Area::default(),
        output: Area::default(),
        images: &[],
        weights: &weights,
        packs: &placed,
        slot: 0,
        workspace: Area::default(),
        clusters: true,
        multiprocessors: 0,
        maps: &SomeMaps,
    };
    assert_eq!(kernel.workspace(), 0);
    let mut launches = kernel.launches(&at, region, width).unwrap();
    assert_eq!(launches.len(), 1);
    let launch = launches.remove(0);
    let params = bytemuck::pod_read_unaligned(&launch.params);
    (launch, params, packs.bytes().to_vec())
}

fn whole(operator: &Operator) -> Region {
    Region::whole(output(operator))
}

fn output(operator: &Operator) -> Shape {
    operator.outputs[0].layout.shape
}

#[test]
fn params_have_the_sources_bytes() {
    assert_eq!(size_of::<Params>(), 288 + size_of::<Epilogue>() + 16);
    assert_eq!((offset_of!(Params, x_pixel), offset_of!(Params, height)), (160, 176));
    assert_eq!((offset_of!(Params, rows), offset_of!(Params, items)), (232, 260));
    assert_eq!(offset_of!(Params, epilogue), 288);
}

#[test]
fn hopper_has_a_kernel_for_first_layers_and_others_gather() {
    for copied in [None, Some(DType::F16), Some(DType::F32)] {
        let mut bench = Bench::new(3);
        let mut operator = layer(&mut bench, [2, 3, 40, 41], 24, [7, 7], 2, copied);
        assert_eq!((operator.class.family, operator.class.split_k), (Family::Wgmma, 1));
        let kernels =
            |operator: &Operator, target| -> Vec<Named> { menu(&bench.plan, operator, target).iter().map(|t| t.kernel).collect() };
        let all = kernels(&operator, HOPPER);
        assert!(!all.is_empty() && all.iter().all(|&k| k == Named::Stem), "{copied:?}: {all:?}");
        let others = Target::Cuda { wgmma: false };
        operator.class = arithmetic_class(&bench.plan, &operator, others);
        assert_eq!(operator.class.family, Family::TensorCore);
        let all = kernels(&operator, others);
        assert!(!all.is_empty() && all.iter().all(|&k| k == Named::ConvMma), "{copied:?}: {all:?}");
    }
}

#[test]
fn what_the_kernel_cannot_read_keeps_another_class() {
    let family = |dims, kernel, stride| {
        let mut bench = Bench::new(4);
        layer(&mut bench, dims, 16, kernel, stride, None).class.family
    };
    assert_eq!(family([1, 4, 20, 20], [3, 3], 1), Family::Wgmma);
    assert_eq!(
        family([1, 5, 20, 20], [3, 3], 1),
        Family::TensorCore,
        "pixels of more than 4 channels"
    );
    assert_eq!(
        family([1, 3, 20, 20], [3, 3], 3),
        Family::TensorCore,
        "a stride that no plane of pairs has"
    );
}

#[test]
fn every_weight_stands_once_in_its_quad() {
    let (outputs, channels, rows, columns) = (70, 3, 2, 5);
    let mut bench = Bench::new(5);
    let operator = layer(&mut bench, [1, channels, 9, 12], outputs, [rows, columns], 1, None);
    let (.., packs) = launch(&bench, &operator, &whole(&operator), 0);
    let packed: Vec<u16> = packs[0].chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    // Two blocks of channels, two rows, two quads of taps.
    assert_eq!(packed.len(), 2 * 2 * 2 * 64 * 16);
    let mut expected = vec![0; packed.len()];
    let source: Vec<u16> = bench.sections[0].chunks(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
    for (index, &bits) in source.iter().enumerate() {
        // Channels last.
        let index = index as u32;
        let (channel, column) = (index % channels, index / channels % columns);
        let (row, output) = (index / channels / columns % rows, index / channels / columns / rows);
        let matrix = (output / 64 * rows + row) * 2 + column / 4;
        let k = column % 4 * 4 + channel;
        let core = k / 8 * 8 + output % 64 / 8;
        expected[(matrix * 1024 + core * 64 + output % 8 * 8 + k % 8) as usize] = bits;
    }
    assert!(expected == packed);
}

#[test]
fn a_picture_is_read_as_it_lies() {
    let dims = [2, 3, 40, 41];
    let of = |copied| {
        let mut bench = Bench::new(6);
        let operator = layer(&mut bench, dims, 64, [7, 7], 2, copied);
        launch(&bench, &operator, &whole(&operator), 0).1
    };
    let strides = |p: &Params| (p.x_batch, p.x_row, p.x_pixel, p.x_channel, p.x_single);
    assert_eq!(strides(&of(None)), (3 * 40 * 41, 3 * 41, 3, 1, 0));
    assert_eq!(strides(&of(Some(DType::F16))), (3 * 40 * 41, 41, 1, 40 * 41, 0));
    assert_eq!(strides(&of(Some(DType::F32))), (3 * 40 * 41, 41, 1, 40 * 41, 1));
    let (a, b) = (of(None), of(Some(DType::F32)));
    assert_eq!(
        (a.items, a.row_bytes, a.epilogue.function),
        (b.items, b.row_bytes, b.epilogue.function)
    );
}

#[test]
fn chunks_share_the_items_and_a_width_bounds_the_blocks() {
    let mut bench = Bench::new(7);
    let mut operator = layer(&mut bench, [3, 3, 60, 200], 130, [3, 3], 1, Some(DType::F16));
    let ring = |t: &Tactic| StemTile::of(*t).is_some_and(|e| e.band.is_none());
    operator.tactic = menu(&bench.plan, &operator, HOPPER).into_iter().find(ring).unwrap();
    let [samples, _, rows, columns] = [0, 1, 2, 3].map(|a| output(&operator).dim(a));
    let entry = StemTile::of(operator.tactic).unwrap();
    let segments = columns.div_ceil(u32::from(entry.pixels));
    let (all, params, _) = launch(&bench, &operator, &whole(&operator), 0);
    assert_eq!((params.items, params.blocks_across), (samples * rows * segments * 3, 3));
    assert_eq!((all.blocks, all.threads, all.cluster), (132, THREADS, 1));
    assert!(all.shared <= 227 << 10 && params.ahead >= 2);
    let cut = |batch, rows| Region { batch, rows };
    let parts = [cut(0..1, 0..rows), cut(1..3, 0..7), cut(1..3, 7..rows)];
    let items: u32 = parts.iter().map(|part| launch(&bench, &operator, part, 0).1.items).sum();
    assert_eq!(items, params.items);
    let (few, narrow, _) = launch(&bench, &operator, &parts[1], 5);
    assert_eq!((few.blocks, narrow.first_batch, narrow.first_row), (5, 1, 0));
}

#[test]
fn whole_groups_of_channels_are_stored_by_the_copy_engine() {
    let of = |outputs| {
        let mut bench = Bench::new(8);
        let operator = layer(&mut bench, [1, 3, 20, 20], outputs, [3, 3], 1, None);
        launch(&bench, &operator, &whole(&operator), 0).1
    };
    let (even, odd) = (of(24), of(23));
    assert_eq!((even.plain, even.output), (1, TensorMap([7; 16])));
    assert_eq!((odd.plain, odd.output), (0, TensorMap([0; 16])));
}

#[test]
fn constants_are_the_sources() {
    let sources = [include_str!("../../kernels/stem.cu"), include_str!("../../kernels/stem_tile.cuh")];
    for line in [
        "constexpr u32 GROUPS = 2; ",
        "constexpr u32 LOADERS = 8; ",
        "constexpr u32 BLOCK_CHANNELS = 64; ",
        "WEIGHTS = 1024;",
    ] {
        assert!(sources.iter().any(|source| source.contains(line)), "{line}");
    }
}

#[test]
fn bands_cover_the_rows_of_a_chunk_and_leave_other_tails_to_the_ring() {
    let mut bench = Bench::new(9);
    let mut operator = layer(&mut bench, [2, 3, 60, 200], 64, [3, 3], 1, Some(DType::F16));
    let (variant, entry) = MENU.iter().enumerate().find(|(_, e)| e.band.is_some_and(|b| b.rows == 4)).unwrap();
    let band = entry.band.unwrap();
    let tactic = Tactic {
        tile: (entry.pixels, 64),
        variant: variant as u16,
        ..operator.tactic
    };
    assert!(menu(&bench.plan, &operator, HOPPER).contains(&tactic));
    operator.tactic = tactic;
    let [rows, columns] = [2, 3].map(|a| output(&operator).dim(a));
    let segments = columns.div_ceil(u32::from(entry.pixels));
    let part = Region {
        batch: 1..2,
        rows: 3..rows,
    };
    let (launch_of_part, params, _) = launch(&bench, &operator, &part, 0);
    assert_eq!(
        (launch_of_part.unit, launch_of_part.threads),
        ("stem_band", u32::from(band.groups) * 128)
    );
    assert_eq!(
        (params.rows.divisor, params.items),
        ((rows - 3).div_ceil(4), (rows - 3).div_ceil(4) * segments)
    );
    assert_eq!(
        (params.ahead, params.ring_rows, params.first_row, params.row_end),
        (4, 3 + 3, 3, rows)
    );
    assert!((launch_of_part.shared + 1024) * u32::from(band.together) <= 228 << 10);
    // A width bounds the blocks.
    assert_eq!(launch(&bench, &operator, &part, 5).0.blocks, 5);
    // Functions that are usual have a kernel beside that of bounds.
    assert!(!launch_of_part.function.ends_with("_curved"));
    let mut curved = operator.clone();
    curved.calls[1].rounding = Rounding::Rounded;
    curved.calls[2].primitive = Primitive::Unary(Unary::Silu);
    assert_eq!(
        launch(&bench, &curved, &part, 0).0.function,
        format!("{}_curved", launch_of_part.function)
    );
    // Single channels are stored by threads.
    let mut odd = layer(&mut bench, [2, 3, 60, 200], 23, [3, 3], 1, Some(DType::F16));
    odd.tactic = tactic;
    let (ring, params, _) = launch(&bench, &odd, &whole(&odd), 0);
    assert_eq!((ring.unit, ring.threads, ring.blocks, params.plain), ("stem", THREADS, 132, 0));
}
