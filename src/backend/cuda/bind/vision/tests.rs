//! What is launched, for operators whole and cut; what the kernels compute is compared with the CPU backend on a GPU.

use super::super::{Addresses, Area, BindError, COUNTER_BYTES, Im2colMap, Kernel, Launch, TensorMap, TensorMaps, TiledMap};
use super::boxes::{DecodeParams, NmsParams};
use super::picture::{CropParams, PrepareParams};
use super::ranks::{ArgMaxParams, TopKParams};
use super::{compile, source};
use crate::backend::cpu::fixture;
use crate::ids::{BufferId, CameraId};
use crate::plan::format::{self, Buffer, Call, Operand, Operator, Plan, Rounding, Space, View};
use crate::primitive::{self, ColorOrder, Fit, Primitive, Region, Scalar};
use crate::tensor::{DType, Layout, Shape};
use bytemuck::pod_read_unaligned;
use std::mem::{offset_of, size_of};

const ARENA: u64 = 1 << 32;
const SLOT: u64 = 2 << 32;
const IMAGE: u64 = 3 << 32;
const WORKSPACE: u64 = 4 << 32;

struct NoMaps;

impl TensorMaps for NoMaps {
    fn tiled(&self, _: &TiledMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }
    fn im2col(&self, _: &Im2colMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }
}

/// An operator with each tensor in a buffer of its own, and the plan of these buffers.
struct Rig {
    plan: Plan,
    operator: Operator,
}

impl Rig {
    fn new(primitive: Primitive, inputs: &[(DType, Layout)], outputs: &[(DType, Layout)]) -> Rig {
        let mut buffers = Vec::new();
        let mut offset = 0;
        let mut view = |&(dtype, layout): &(DType, Layout)| {
            let bytes = layout.bounds().map_or(0, |(_, high)| (high as u64 + 1) * dtype.bytes());
            let buffer = BufferId(buffers.len() as u32);
            buffers.push(Buffer {
                space: Space::Arena { offset },
                bytes,
            });
            offset += bytes.next_multiple_of(64);
            View {
                buffer,
                origin: 0,
                dtype,
                layout,
            }
        };
        let inputs: Vec<View> = inputs.iter().map(&mut view).collect();
        let outputs: Vec<View> = outputs.iter().map(&mut view).collect();
        let call = Call {
            primitive,
            inputs: inputs.into_iter().map(Operand::View).collect(),
            dtype: outputs[0].dtype,
            shape: outputs[0].layout.shape,
            rounding: Rounding::Kept,
        };
        Rig {
            plan: fixture::plan(buffers),
            operator: fixture::operator(format::Kernel::Decode, vec![call], outputs),
        }
    }

    fn launches(&self, region: &Region, width: u16) -> Vec<Launch> {
        let kernel = compile(&self.operator).unwrap();
        self.try_launches(kernel.as_ref(), kernel.workspace(), region, width).unwrap()
    }

    fn try_launches(&self, kernel: &dyn Kernel, workspace: u64, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let area = |address, bytes| Area { address, bytes };
        let at = Addresses {
            plan: &self.plan,
            arena: area(ARENA, 1 << 31),
            persistent: Area::default(),
            input: Area::default(),
            output: Area::default(),
            images: &[area(IMAGE, 1000)],
            weights: &[],
            packs: &[],
            slot: SLOT,
            workspace: area(WORKSPACE, workspace),
            clusters: false,
            multiprocessors: 0,
            maps: &NoMaps,
        };
        kernel.launches(&at, region, width)
    }

    fn whole(&self) -> Region {
        Region::whole(self.operator.outputs[0].layout.shape)
    }
}

fn dense(dims: &[u32]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

fn last(dims: &[u32]) -> Layout {
    Layout::channels_last(Shape::new(dims).unwrap())
}

fn prepare(output: Layout, dtype: DType) -> Rig {
    let prepare = primitive::Prepare {
        camera: CameraId(0),
        fit: Fit::LetterboxCentred,
        fill: 114,
        order: ColorOrder::Bgr,
        mean: [0.0; 3].map(Scalar),
        std: [255.0; 3].map(Scalar),
    };
    Rig::new(Primitive::Prepare(prepare), &[(DType::U8, dense(&[1000]))], &[(dtype, output)])
}

fn params<P: bytemuck::AnyBitPattern>(launch: &Launch) -> P {
    pod_read_unaligned(&launch.params)
}

#[test]
fn structs_have_the_sources_bytes() {
    assert_eq!((size_of::<source::Source>(), size_of::<source::Matrix>()), (24, 32));
    assert_eq!((size_of::<PrepareParams>(), offset_of!(PrepareParams, first_row)), (120, 88));
    assert_eq!((size_of::<CropParams>(), offset_of!(CropParams, first)), (184, 164));
    assert_eq!((size_of::<DecodeParams>(), offset_of!(DecodeParams, first)), (120, 104));
    assert_eq!((size_of::<NmsParams>(), offset_of!(NmsParams, counters)), (176, 112));
    assert_eq!((size_of::<TopKParams>(), offset_of!(TopKParams, first)), (104, 96));
    assert_eq!((size_of::<ArgMaxParams>(), offset_of!(ArgMaxParams, start)), (192, 120));
}

#[test]
fn bands_of_rows_are_prepared_on_their_own() {
    let rig = prepare(last(&[1, 3, 100, 130]), DType::F16);
    let [launch] = rig.launches(&rig.whole(), 0).try_into().unwrap();
    assert_eq!((launch.unit, launch.function.as_str()), ("prepare", "prepare_f16"));
    // Three tiles of 64 columns by thirteen of 8 rows.
    assert_eq!((launch.blocks, launch.threads), (39, 256));
    let band = Region { batch: 0..1, rows: 41..60 };
    let [launch] = rig.launches(&band, 5).try_into().unwrap();
    let p: PrepareParams = params(&launch);
    assert_eq!((p.first_row, p.end_row, p.tiles, p.tile_columns), (41, 60, 9, 3));
    assert_eq!(launch.blocks, 5);
}

#[test]
fn a_camera_beyond_the_block_is_refused() {
    let mut rig = prepare(dense(&[1, 3, 8, 8]), DType::F32);
    let Primitive::Prepare(p) = &mut rig.operator.calls[0].primitive else {
        panic!("the rig prepares");
    };
    p.camera = CameraId(1);
    let kernel = compile(&rig.operator).unwrap();
    assert_eq!(rig.try_launches(kernel.as_ref(), 0, &rig.whole(), 0), Err(BindError::Reference));
}

#[test]
fn crops_are_chosen_once_and_cut_by_batch() {
    let crop = primitive::Crop {
        camera: CameraId(0),
        classes: 1,
        margin: Scalar(0.1),
        order: ColorOrder::Rgb,
        mean: [0.0; 3].map(Scalar),
        std: [1.0; 3].map(Scalar),
    };
    let inputs = [
        (DType::U8, dense(&[1000])),
        (DType::F32, dense(&[50, 6])),
        (DType::I32, dense(&[1])),
    ];
    let outputs = [(DType::F32, dense(&[8, 3, 20, 30])), (DType::I32, dense(&[8]))];
    let rig = Rig::new(Primitive::Crop(crop), &inputs, &outputs);
    let [choose, cut] = rig.launches(&Region { batch: 3..8, rows: 0..20 }, 0).try_into().unwrap();
    assert_eq!((choose.function.as_str(), choose.blocks), ("crop_choose", 1));
    assert_eq!((cut.function.as_str(), cut.blocks), ("crop_cut_f32", 15));
    let p: CropParams = params(&cut);
    assert_eq!((p.first, p.end, p.tiles, p.tiles_each), (3, 8, 15, 3));
    assert_eq!(choose.params, cut.params);
}

#[test]
fn suppression_has_a_workspace_for_every_score() {
    let nms = primitive::Nms {
        score: Scalar(0.3),
        iou: Scalar(0.5),
        camera: CameraId(0),
        fit: Fit::Stretch,
        input: (64, 64),
    };
    let inputs = [(DType::F32, dense(&[700, 4])), (DType::F32, dense(&[700, 3]))];
    let outputs = [(DType::F32, dense(&[100, 6])), (DType::I32, dense(&[1]))];
    let rig = Rig::new(Primitive::Nms(nms), &inputs, &outputs);
    let kernel = compile(&rig.operator).unwrap();
    let needed = kernel.workspace();
    // Behind the counters that operators of one stream share.
    let (counters, listed, sorted, covers) = (COUNTER_BYTES, 2112 * 8, 2112 * 32, 33 * 34 / 2 * 64 * 8);
    assert_eq!(needed, counters + listed + sorted + covers);
    let launches = rig.launches(&rig.whole(), 0);
    let names: Vec<(&str, u32)> = launches.iter().map(|l| (l.function.as_str(), l.blocks)).collect();
    assert_eq!(names, [("nms_filter", 1), ("nms_rank", 66), ("nms_cover", 561), ("nms_pick", 1)]);
    let p: NmsParams = params(&launches[3]);
    let covers_at = WORKSPACE + counters + listed + sorted;
    assert_eq!((p.counters, p.listed, p.covers), (WORKSPACE, WORKSPACE + counters, covers_at));
    assert_eq!(p.tiles, 1);
    let short = rig.try_launches(kernel.as_ref(), needed - 1, &rig.whole(), 0);
    assert_eq!(short, Err(BindError::Reference));
    // Of more scores than take part, those that may be among the best are read once more.
    let inputs = [(DType::F32, dense(&[7000, 4])), (DType::F32, dense(&[7000, 3]))];
    let rig = Rig::new(Primitive::Nms(nms), &inputs, &outputs);
    let launches = rig.launches(&rig.whole(), 0);
    assert_eq!((launches[1].function.as_str(), launches[1].blocks), ("nms_narrow", 6));
}

#[test]
fn heads_are_decoded_in_tiles_of_anchors() {
    let (head, anchors) = (dense(&[1, 84, 7]), 84);
    let outputs = [(DType::F32, dense(&[anchors, 4])), (DType::F32, dense(&[anchors, 2]))];
    let rig = Rig::new(Primitive::DecodeYolox { input: (64, 64) }, &[(DType::F16, head)], &outputs);
    let [launch] = rig.launches(&rig.whole(), 0).try_into().unwrap();
    assert_eq!((launch.function.as_str(), launch.blocks), ("decode_f16", 3));
    let p: DecodeParams = params(&launch);
    assert_eq!((p.first, p.end, p.tiles), (0, 84, 3));
}

#[test]
fn rows_are_ranked_by_a_block_each() {
    let outputs = [(DType::F32, dense(&[9, 5])), (DType::I32, dense(&[9, 5]))];
    let rig = Rig::new(Primitive::TopK, &[(DType::F32, dense(&[9, 1000]))], &outputs);
    let [launch] = rig.launches(&Region { batch: 4..9, rows: 0..1 }, 2).try_into().unwrap();
    let p: TopKParams = params(&launch);
    assert_eq!((p.first, p.tiles, launch.blocks), (4, 5, 2));
}

#[test]
fn few_of_short_rows_are_ranked_by_warps() {
    let ranked = |columns: u32, kept: u32| {
        let outputs = [(DType::F16, dense(&[9, kept])), (DType::I32, dense(&[9, kept]))];
        let rig = Rig::new(Primitive::TopK, &[(DType::F16, dense(&[9, columns]))], &outputs);
        let [launch] = rig.launches(&rig.whole(), 0).try_into().unwrap();
        (launch.function, launch.blocks, launch.threads)
    };
    let source = include_str!("../../kernels/topk.cu");
    assert!(source.contains("u32 WARPS = 8;") && source.contains("u32 LANE_HELD = 4;"));
    assert_eq!(ranked(128, 32), ("topk_lanes_f16".into(), 2, 256));
    assert_eq!(ranked(129, 32), ("topk_f16".into(), 9, 1024));
    assert_eq!(ranked(128, 33), ("topk_f16".into(), 9, 1024));
}

#[test]
fn label_maps_of_dense_pixels_are_staged() {
    let label = |input, output: &[u32], dtype| {
        let axis = 1;
        Rig::new(Primitive::ArgMax { axis }, &[(dtype, input)], &[(DType::U8, dense(output))])
    };
    let rig = label(last(&[2, 21, 10, 200]), &[2, 1, 10, 200], DType::F16);
    let [launch] = rig.launches(&Region { batch: 0..2, rows: 3..7 }, 0).try_into().unwrap();
    let p: ArgMaxParams = params(&launch);
    assert_eq!(launch.function, "argmax_pixels_f16_u8");
    assert_eq!((p.start, p.size), ([0, 0, 0, 0, 3, 0], [1, 1, 2, 1, 4, 200]));
    assert_eq!((launch.blocks, launch.shared), (16, 128 * 21 * 2));
    // Channels first, a type that is not staged, and rows shorter than a warp.
    for (input, dims, dtype) in [
        (dense(&[2, 21, 10, 200]), [2, 1, 10, 200], DType::F16),
        (last(&[2, 21, 10, 200]), [2, 1, 10, 200], DType::I32),
        (last(&[1, 19, 70, 31]), [1, 1, 70, 31], DType::F32),
    ] {
        let rig = label(input, &dims, dtype);
        let [launch] = rig.launches(&rig.whole(), 0).try_into().unwrap();
        let elements: u32 = dims.iter().product();
        assert!(!launch.function.starts_with("argmax_pixels"));
        assert_eq!(launch.blocks, elements.div_ceil(128));
    }
}
