//! Binding convolutions without a GPU: what launches say is compared with what the operator asks for.

use super::super::epilogue::{flags, function};
use super::super::{Area, Im2colMap, MAX_PARAMS, Packs, TensorMap, TensorMaps, TiledMap};
use super::*;
use crate::backend::cpu::fixture;
use crate::ids::{BufferId, SectionId};
use crate::plan::format::Kernel;
use crate::plan::format::*;
use crate::plan::tactic::conv_mma::MENU;
use crate::plan::tactic::{Target, arithmetic_class, fits_on, menu};
use crate::primitive::{Binary, Primitive, Unary, Window};
use crate::tensor::{DType, Layout, Shape};
use half::f16;
use std::mem::{offset_of, size_of};
use std::sync::Mutex;

const CUDA: Target = Target::Cuda { wgmma: false };

struct NoMaps;

impl TensorMaps for NoMaps {
    fn tiled(&self, _: &TiledMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }

    fn im2col(&self, _: &Im2colMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }
}

/// An operator with its plan and the contents of its weight sections.
struct Bench {
    plan: Plan,
    sections: Vec<Vec<u8>>,
    operator: Operator,
}

impl Bench {
    fn new() -> Bench {
        let digest = Digest([0; 32]);
        let mut operator = fixture::operator(Kernel::ConvMma, Vec::new(), Vec::new());
        operator.class.family = Family::TensorCore;
        Bench {
            plan: Plan {
                weight_files: vec![WeightFile { digest, bytes: 0 }],
                ..fixture::plan(Vec::new())
            },
            sections: Vec::new(),
            operator,
        }
    }

    fn view(&mut self, space: Space, bytes: u64, layout: Layout) -> View {
        self.plan.buffers.push(Buffer { space, bytes });
        View {
            buffer: BufferId(self.plan.buffers.len() as u32 - 1),
            origin: 0,
            dtype: DType::F16,
            layout,
        }
    }

    fn tensor(&mut self, layout: Layout) -> View {
        let bytes = 2 * layout.shape.elements();
        let offset = self.plan.arena_bytes;
        self.plan.arena_bytes = (offset + bytes).next_multiple_of(64);
        self.view(Space::Arena { offset }, bytes, layout)
    }

    fn constant(&mut self, layout: Layout) -> View {
        let count = layout.shape.elements();
        let halves = (0..count).flat_map(|i| f16::from_f32((i % 2000) as f32).to_le_bytes());
        self.sections.push(halves.collect());
        self.plan.sections.push(Section {
            file: 0,
            offset: 64 * self.plan.sections.len() as u64,
            bytes: 2 * count,
        });
        let section = SectionId(self.sections.len() as u32 - 1);
        self.view(Space::Weights(section), 2 * count, layout)
    }

    fn call(&mut self, primitive: Primitive, inputs: Vec<Operand>, shape: Shape) {
        self.operator.calls.push(Call {
            primitive,
            inputs,
            dtype: DType::F16,
            shape,
            rounding: Rounding::Rounded,
        });
    }

    /// The class of the operator, and the first tactic of its menu.
    fn ready(mut self) -> Bench {
        self.operator.class = arithmetic_class(&self.plan, &self.operator, CUDA);
        let menu = menu(&self.plan, &self.operator, CUDA);
        if let Some(tactic) = menu.into_iter().find(|t| t.kernel == Kernel::ConvMma) {
            self.operator.tactic = tactic;
        }
        self
    }

    fn sections(&self) -> Vec<&[u8]> {
        self.sections.iter().map(Vec::as_slice).collect()
    }

    /// What a tactic launches for a chunk, and the packed weights.
    fn launch(&self, tactic: Tactic, region: &Region, width: u16) -> (Launch, Vec<Vec<u8>>) {
        let packs = Mutex::new(Packs::default());
        let operator = Operator {
            tactic,
            ..self.operator.clone()
        };
        let sections = self.sections();
        let packer = Packer {
            plan: &self.plan,
            sections: &sections,
            packs: &packs,
        };
        let kernel = super::super::compile(&packer, &operator).unwrap();
        let packs = packs.into_inner().unwrap();
        let area = |address: u64, bytes: usize| Area {
            address,
            bytes: bytes as u64,
        };
        let weights: Vec<Area> = self.sections.iter().map(|s| area(1 << 40, s.len())).collect();
        let placed: Vec<Area> = packs
            .bytes()
            .iter()
            .enumerate()
            .map(|(i, p)| area((i as u64 + 1) << 32, p.len()))
            .collect();
        let at = Addresses {
            plan: &self.plan,
            arena: area(1 << 20, self.plan.arena_bytes as usize),
            persistent: Area::default(),
            input: Area::default(),
            output: Area::default(),
            images: &[],
            weights: &weights,
            packs: &placed,
            slot: 0,
            workspace: area(1 << 50, kernel.workspace() as usize),
            clusters: false,
            multiprocessors: 0,
            maps: &NoMaps,
        };
        let mut launches = kernel.launches(&at, region, width).unwrap();
        assert_eq!(launches.len(), 1);
        (launches.remove(0), packs.bytes().to_vec())
    }
}

fn params(launch: &Launch) -> Convolution {
    bytemuck::pod_read_unaligned(&launch.params)
}

fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

/// A convolution of `[n, c, h, w]` to `o` channels with a square kernel, a bias, and these functions of its value.
fn convolution([n, c, h, w]: [u32; 4], o: u32, kernel: u32, stride: u32, pad: u32, tail: &[Primitive]) -> Bench {
    let mut bench = Bench::new();
    let mut window = Window::new(&[kernel, kernel]);
    (window.stride[0], window.stride[1]) = (stride, stride);
    window.pad_begin[..2].fill(pad);
    window.pad_end[..2].fill(pad);
    let y = shape(&[n, o, window.output(0, h).unwrap(), window.output(1, w).unwrap()]);
    let x = bench.tensor(Layout::channels_last(shape(&[n, c, h, w])));
    let weights = bench.constant(Layout::channels_last(shape(&[o, c, kernel, kernel])));
    let bias = bench.constant(Layout::contiguous(shape(&[o])));
    let out = bench.tensor(Layout::channels_last(y));
    let inputs = [x, weights, bias].map(Operand::View).to_vec();
    bench.call(Primitive::Conv { window, groups: 1 }, inputs, y);
    for (index, primitive) in tail.iter().enumerate() {
        let previous = Operand::Inner(index as u8);
        let inputs = match primitive {
            Primitive::Binary(_) => vec![previous, Operand::View(bench.tensor(Layout::channels_last(y)))],
            _ => vec![previous],
        };
        bench.call(*primitive, inputs, y);
    }
    bench.operator.outputs.push(out);
    bench.ready()
}

#[test]
fn the_struct_has_the_source_s_bytes() {
    assert_eq!(size_of::<Convolution>(), 240 + size_of::<Epilogue>());
    assert_eq!(
        (offset_of!(Convolution, step_channels), offset_of!(Convolution, epilogue)),
        (104, 240)
    );
    assert!(size_of::<Convolution>() <= MAX_PARAMS);
}

#[test]
fn every_entry_of_the_menu_has_its_kernel() {
    let source = include_str!("../../kernels/conv_mma.cu");
    let kernels: Vec<&str> = source.lines().filter(|l| l.starts_with("CONV_MMA(")).collect();
    assert_eq!(kernels.len(), MENU.len());
    for entry in MENU {
        let (loader, folding) = (
            match entry.loader {
                Loader::Taps => "TapLoader",
                Loader::Gather => "GatherLoader",
                Loader::Affine => "AffineLoader",
            },
            entry.splits == Splits::Folded,
        );
        let head = format!("CONV_MMA({}, {loader}, {folding}, ", entry.function());
        let cut = format!(
            ", {}, {}, {}, {}, {}, {})",
            entry.tile.0, entry.tile.1, entry.step, entry.warp.0, entry.warp.1, entry.stages
        );
        assert!(kernels.iter().any(|k| k.starts_with(&head) && k.ends_with(&cut)), "{head}..{cut}");
        // What the smallest GPUs of the supported generations give a block, with the longest table.
        assert!(entry.shared(2048) <= 99 << 10, "{}", entry.function());
        assert!(entry.threads() <= 256);
    }
}

#[test]
fn chunks_cover_the_output_once() {
    for bench in [
        convolution([3, 16, 9, 7], 40, 3, 2, 1, &[]),
        convolution([2, 64, 5, 5], 24, 1, 1, 0, &[]),
        convolution([3, 3, 17, 11], 16, 3, 2, 1, &[]),
    ] {
        let out = bench.operator.outputs[0].layout.shape;
        let (rows, columns) = (out.dim(2), out.dim(3));
        let regions = [0..1, 1..out.batch()].into_iter().flat_map(|batch| {
            [0..2, 2..rows].map(|rows| Region {
                batch: batch.clone(),
                rows,
            })
        });
        let mut seen = vec![0; (out.batch() * rows * columns) as usize];
        for region in regions {
            let (launch, _) = bench.launch(bench.operator.tactic, &region, 0);
            let p = params(&launch);
            for index in 0..p.m {
                // As `place_of` counts.
                let sample = p.sample.divide(index);
                let inside = index - sample * p.sample.divisor;
                let row = p.row.divide(inside);
                let place = ((p.first_batch + sample) * rows + p.first_row + row) * columns + inside - row * p.row.divisor;
                seen[place as usize] += 1;
                if p.epilogue.flags & flags::FLAT != 0 {
                    assert_eq!(place, p.first_pixel + index);
                }
            }
            let entry = MmaTile::of(bench.operator.tactic).unwrap();
            assert_eq!(
                p.tiles,
                p.m.div_ceil(u32::from(entry.tile.0)) * p.n.div_ceil(u32::from(entry.tile.1))
            );
            assert_eq!(launch.blocks, p.tiles);
        }
        assert!(seen.iter().all(|&count| count == 1));
    }
}

#[test]
fn width_bounds_blocks_and_nothing_else() {
    let bench = convolution([2, 32, 28, 28], 64, 3, 1, 1, &[]);
    let region = Region::whole(bench.operator.outputs[0].layout.shape);
    let (whole, _) = bench.launch(bench.operator.tactic, &region, 0);
    for width in [1, 7] {
        let (narrow, _) = bench.launch(bench.operator.tactic, &region, width);
        assert_eq!(narrow.blocks, u32::from(width));
        assert_eq!(narrow.params, whole.params);
    }
}

#[test]
fn a_step_along_k_is_one_step_in_mixed_digits() {
    for (channels, kernel) in [(8, 3), (24, 5), (64, 1), (512, 3), (40, 7)] {
        let bench = convolution([1, channels, 8, 8], 16, kernel, 1, kernel / 2, &[]);
        let region = Region::whole(bench.operator.outputs[0].layout.shape);
        for tactic in menu(&bench.plan, &bench.operator, CUDA) {
            let Some(entry) = MmaTile::of(tactic) else { continue };
            let p = params(&bench.launch(tactic, &region, 0).0);
            let step = (p.step_rows * p.kernel_columns.divisor + p.step_columns) * p.channels.divisor + p.step_channels;
            assert_eq!(step, u32::from(entry.step));
            assert!(p.step_channels < channels && p.step_columns < kernel);
        }
    }
}

#[test]
fn weights_are_packed_tap_by_tap() {
    let bench = convolution([1, 8, 4, 4], 3, 3, 1, 1, &[]);
    let region = Region::whole(bench.operator.outputs[0].layout.shape);
    let (launch, packs) = bench.launch(bench.operator.tactic, &region, 0);
    let p = params(&launch);
    assert_eq!((p.k, p.k_padded), (72, 128));
    let packed: Vec<f16> = packs[0].chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]])).collect();
    assert_eq!(packed.len(), 3 * 128);
    for (o, row) in packed.chunks(128).enumerate() {
        // The section holds output channel, tap row, tap column, input channel: already in the order of K.
        for (k, half) in row.iter().enumerate() {
            let expected = if k < 72 { (o * 72 + k) as f32 } else { 0.0 };
            assert_eq!(half.to_f32(), expected);
        }
    }
    let bias: Vec<f32> = bytemuck::pod_collect_to_vec(&packs[1]);
    assert_eq!(bias, [0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn matrices_are_packed_by_columns() {
    let mut bench = Bench::new();
    let (m, k, n) = (5, 16, 24);
    // Rows of one sample: as samples of one row each, so few of them would have kernels of their own.
    let x = bench.tensor(Layout::contiguous(shape(&[1, m, k])));
    let weights = bench.constant(Layout::contiguous(shape(&[1, k, n])));
    let out = bench.tensor(Layout::contiguous(shape(&[1, m, n])));
    bench.call(Primitive::MatMul, vec![Operand::View(x), Operand::View(weights)], shape(&[1, m, n]));
    bench.operator.outputs.push(out);
    let bench = bench.ready();
    let (launch, packs) = bench.launch(bench.operator.tactic, &Region::whole(shape(&[1, m, n])), 0);
    let p = params(&launch);
    assert_eq!((p.m, p.n, p.k, p.walk), (m, n, k, walk::FLAT));
    assert_eq!(p.epilogue.bias, 0);
    let packed: Vec<f16> = packs[0].chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]])).collect();
    for column in 0..n as usize {
        for row in 0..k as usize {
            assert_eq!(packed[column * 64 + row].to_f32(), (row * n as usize + column) as f32);
        }
    }
}

#[test]
fn channels_choose_the_loader_and_depth_the_splits() {
    let loader = |bench: &Bench| MmaTile::of(bench.operator.tactic).unwrap().loader;
    let first = convolution([1, 3, 32, 32], 16, 3, 2, 1, &[]);
    assert_eq!((loader(&first), first.operator.class.split_k), (Loader::Gather, 1));
    let wide = convolution([1, 64, 56, 56], 64, 3, 1, 1, &[]);
    assert_eq!((loader(&wide), wide.operator.class.split_k), (Loader::Taps, 1));
    for samples in [1, 8] {
        let deep = convolution([samples, 512, 7, 7], 512, 3, 1, 1, &[]);
        assert_eq!((loader(&deep), deep.operator.class.split_k), (Loader::Taps, 4));
        let region = Region::whole(deep.operator.outputs[0].layout.shape);
        for tactic in menu(&deep.plan, &deep.operator, CUDA) {
            let Some(entry) = MmaTile::of(tactic) else { continue };
            let (launch, _) = deep.launch(tactic, &region, 0);
            let p = params(&launch);
            let apart = entry.splits == Splits::Apart;
            assert_eq!((p.partials != 0, p.counters != 0), (apart, apart));
            assert_eq!(launch.blocks, p.tiles * if apart { 4 } else { 1 });
        }
    }
}

#[test]
fn what_the_kernels_cannot_walk_is_refused() {
    let mut bench = convolution([1, 8, 6, 6], 8, 3, 1, 1, &[]);
    let good = bench.operator.clone();
    assert_eq!(fits_on(crate::board::BackendKind::Cuda, &bench.plan, &good), Ok(()));
    bench.operator.tactic.tile = (7, 7);
    assert!(fits_on(crate::board::BackendKind::Cuda, &bench.plan, &bench.operator).is_err());
    // Channels apart.
    bench.operator = good.clone();
    bench.operator.outputs[0].layout = Layout::contiguous(bench.operator.outputs[0].layout.shape);
    assert!(fits_on(crate::board::BackendKind::Cuda, &bench.plan, &bench.operator).is_err());
    // A class that splits K otherwise.
    bench.operator = good;
    bench.operator.class.split_k = 2;
    assert!(fits_on(crate::board::BackendKind::Cuda, &bench.plan, &bench.operator).is_err());
}

#[test]
fn tails_take_their_paths() {
    let relu = Primitive::Unary(Unary::Relu);
    let add = Primitive::Binary(Binary::Add);
    let [silu, gelu] = [Unary::Silu, Unary::Gelu].map(Primitive::Unary);
    let (joins, both) = (flags::JOINS, flags::JOINS | flags::JOINS_RELU);
    for (tail, function, joining) in [
        (&[][..], function::IDENTITY, 0),
        (&[relu], function::RELU, 0),
        (&[Primitive::Unary(Unary::HardSwish)], function::HARD_SWISH, 0),
        (&[add], function::IDENTITY, joins),
        (&[add, relu], function::IDENTITY, both),
        (&[silu], function::SILU, 0),
        (&[relu, add], function::RELU, joins),
        (&[silu, add], function::SILU, joins),
        (&[silu, add, relu], function::SILU, both),
        (&[add, silu], function::TAIL, 0),
        (&[add, relu, add], function::TAIL, 0),
        (&[relu, silu], function::TAIL, 0),
        (&[Primitive::Unary(Unary::Sigmoid)], function::SIGMOID, 0),
        (&[Primitive::Unary(Unary::Tanh)], function::TANH, 0),
        (&[gelu], function::GELU, 0),
        (&[gelu, add], function::GELU, joins),
        (&[Primitive::Unary(Unary::GeluTanh)], function::GELU_TANH, 0),
        (&[Primitive::Unary(Unary::Erf)], function::TAIL, 0),
    ] {
        let bench = convolution([2, 8, 6, 6], 16, 3, 1, 1, tail);
        let region = Region::whole(bench.operator.outputs[0].layout.shape);
        let e = params(&bench.launch(bench.operator.tactic, &region, 0).0).epilogue;
        assert_eq!(e.function, function, "{tail:?}");
        assert_eq!(e.tail.calls as usize, tail.len());
        assert_eq!(e.flags & (flags::JOINS | flags::JOINS_RELU), joining, "{tail:?}");
        assert_eq!(e.joined.address != 0, joining != 0);
        assert_eq!(e.flags & flags::ROUNDED != 0, !tail.is_empty());
        assert_ne!(e.flags & flags::WIDE_STORE, 0);
        assert_ne!(e.flags & flags::FLAT, 0);
    }
    // 12 channels: pixels do not begin at multiples of 16 bytes. Rows of several samples do not follow each other.
    let bench = convolution([2, 8, 6, 6], 12, 3, 1, 1, &[]);
    let region = Region { batch: 0..2, rows: 1..3 };
    let e = params(&bench.launch(bench.operator.tactic, &region, 0).0).epilogue;
    assert_eq!(e.flags & (flags::WIDE_STORE | flags::FLAT), 0);
}

/// A 1x1 convolution behind a scale, a shift and a relu of its input's channels, with a relu behind it.
fn behind_a_prologue([n, c, h, w]: [u32; 4], o: u32) -> Bench {
    let mut bench = Bench::new();
    let (before, after) = (shape(&[n, c, h, w]), shape(&[n, o, h, w]));
    let x = bench.tensor(Layout::channels_last(before));
    let [scale, shift] = [(); 2].map(|()| {
        let mut view = bench.constant(Layout::contiguous(shape(&[c])));
        view.layout = Layout::new(before, &[0, 1, 0, 0]).unwrap();
        view
    });
    let weights = bench.constant(Layout::channels_last(shape(&[o, c, 1, 1])));
    let bias = bench.constant(Layout::contiguous(shape(&[o])));
    let out = bench.tensor(Layout::channels_last(after));
    let relu = Primitive::Unary(Unary::Relu);
    let window = Window::new(&[1, 1]);
    bench.call(Primitive::Binary(Binary::Mul), vec![Operand::View(x), Operand::View(scale)], before);
    bench.call(
        Primitive::Binary(Binary::Add),
        vec![Operand::View(shift), Operand::Inner(0)],
        before,
    );
    bench.call(relu, vec![Operand::Inner(1)], before);
    let product = vec![Operand::Inner(2), Operand::View(weights), Operand::View(bias)];
    bench.call(Primitive::Conv { window, groups: 1 }, product, after);
    bench.call(relu, vec![Operand::Inner(3)], after);
    bench.operator.outputs.push(out);
    bench.ready()
}

#[test]
fn a_prologue_is_packed_in_the_order_of_the_fragments() {
    let bench = behind_a_prologue([2, 24, 15, 15], 16);
    let region = Region::whole(bench.operator.outputs[0].layout.shape);
    let entry = MmaTile::of(bench.operator.tactic).unwrap();
    assert_eq!((entry.loader, bench.operator.class.split_k), (Loader::Affine, 1));
    let (launch, packs) = bench.launch(bench.operator.tactic, &region, 0);
    let p = params(&launch);
    assert_eq!((p.k, p.k_padded, p.walk), (24, 64, walk::FLAT));
    assert_eq!((p.epilogue.function, p.epilogue.tail.calls), (function::RELU, 1));
    assert_eq!(launch.shared, entry.shared(64));
    let table = &packs[(p.affine >> 32) as usize - 1];
    let halves: Vec<f32> = table.chunks(2).map(|b| f16::from_le_bytes([b[0], b[1]]).to_f32()).collect();
    assert_eq!(halves.len(), 2 * 64);
    // Scales and shifts of the fixture are the channel's number.
    for (index, entry) in halves.chunks(8).enumerate() {
        let first = index / 4 * 16 + index % 4 * 2;
        let expected = [0, 1, 8, 9].map(|step| if first + step < 24 { (first + step) as f32 } else { 0.0 });
        assert_eq!([&entry[..4], &entry[4..]], [&expected[..]; 2]);
    }
}

#[test]
fn a_prologue_keeps_to_its_own_entries() {
    use crate::plan::format::Kernel::{ConvAffine, PrologueWgmma};
    let bench = behind_a_prologue([2, 64, 15, 15], 128);
    for target in [CUDA, Target::Cuda { wgmma: true }] {
        let class = arithmetic_class(&bench.plan, &bench.operator, target);
        assert_eq!(class.family, Family::TensorCore);
        let mut tactics = menu(&bench.plan, &bench.operator, target);
        tactics.retain(|t| !matches!(t.kernel, ConvAffine | PrologueWgmma));
        let loaders: Vec<Loader> = tactics.iter().filter_map(|t| Some(MmaTile::of(*t)?.loader)).collect();
        assert_eq!(
            loaders,
            vec![Loader::Affine; MENU.iter().filter(|e| e.loader == Loader::Affine).count()]
        );
        assert_eq!(loaders.len(), tactics.len());
    }
    // Without the shift it is no prologue, and a value that is read twice must be kept.
    let cuda = crate::board::BackendKind::Cuda;
    assert_eq!(fits_on(cuda, &bench.plan, &bench.operator), Ok(()));
    let mut other = bench.operator.clone();
    other.calls[1].primitive = Primitive::Binary(Binary::Mul);
    assert!(fits_on(cuda, &bench.plan, &other).is_err());
    let mut other = bench.operator.clone();
    other.calls[2].inputs = vec![Operand::Inner(0)];
    assert!(fits_on(cuda, &bench.plan, &other).is_err());
}
