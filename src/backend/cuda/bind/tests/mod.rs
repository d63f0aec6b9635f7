//! Every tactic of the plain kernels, bound without a GPU.

mod activations;
pub mod bench;
mod cases;
mod conv_affine;
mod conv_chains;
mod conv_grouped;
mod conv_narrow;
mod conv_pooled;
mod conv_shallow;
mod conv_slender;
mod conv_warps;
mod conv_wgmma;
mod pad;
mod patch;
mod reduce;
mod squeeze;
mod stream;

use super::{
    Addresses, Area, BindError, COUNTER_BYTES, Im2colMap, Launch, MAX_PARAMS, Packer, Packs, TensorMap, TensorMaps, TiledMap, compile,
};
use crate::plan::format::{Family, Kernel, Operator};
use crate::plan::tactic::{Target, arithmetic_class, menu};
use crate::primitive::Region;
use crate::tensor::{DType, Shape};
use bench::{Bench, Form, Random};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// No kernel here asks for a tensor map.
struct NoMaps;

impl TensorMaps for NoMaps {
    fn tiled(&self, _: &TiledMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }

    fn im2col(&self, _: &Im2colMap) -> Result<TensorMap, BindError> {
        Err(BindError::TensorMap(0))
    }
}

/// Places of a bench's arena, sections and packs, one behind the other from `base` on.
struct Placed {
    arena: Area,
    sections: Vec<Area>,
    packs: Vec<Area>,
}

impl Placed {
    fn new(bench: &Bench, packs: &Packs, base: u64) -> Placed {
        let mut next = base;
        let mut take = |bytes: usize| {
            let area = Area {
                address: next,
                bytes: bytes as u64,
            };
            next = (next + bytes as u64).next_multiple_of(256);
            area
        };
        Placed {
            arena: take(bench.arena.len()),
            sections: bench.sections.iter().map(|s| take(s.len())).collect(),
            packs: packs.bytes().iter().map(|p| take(p.len())).collect(),
        }
    }

    fn addresses<'a>(&'a self, bench: &'a Bench) -> Addresses<'a> {
        Addresses {
            plan: &bench.plan,
            arena: self.arena,
            persistent: Area::default(),
            input: Area::default(),
            output: Area::default(),
            images: &[],
            weights: &self.sections,
            packs: &self.packs,
            slot: 0,
            workspace: Area::default(),
            clusters: false,
            multiprocessors: 132,
            maps: &NoMaps,
        }
    }
}

/// As large a workspace as a kernel wants.
fn workspace(kernel: &dyn super::Kernel) -> Area {
    Area {
        address: 1 << 50,
        bytes: kernel.workspace(),
    }
}

/// The launches of every tactic of the operator's menu over every list of chunks, under a width.
fn bound(bench: &Bench, operator: &Operator, chunks: &[Region], width: u16, base: u64) -> Vec<(Kernel, Vec<Launch>, Packs)> {
    let mut all = Vec::new();
    for tactic in menu(&bench.plan, operator, Target::Cuda { wgmma: false }) {
        let chosen = Operator {
            tactic,
            ..operator.clone()
        };
        let (kernel, packs) = bench.compile(&chosen);
        let placed = Placed::new(bench, &packs, base);
        let at = Addresses {
            workspace: workspace(kernel.as_ref()),
            ..placed.addresses(bench)
        };
        assert!(kernel.workspace() == 0 || tactic.kernel == Kernel::GroupNormalise);
        let launches = chunks.iter().flat_map(|c| kernel.launches(&at, c, width).unwrap()).collect();
        all.push((tactic.kernel, launches, packs));
    }
    all
}

/// The operator's output cut at random along the axes that its head can be cut along.
fn cuts(random: &mut Random, operator: &Operator, shape: Shape) -> Vec<Region> {
    let splits = operator.calls[0].primitive.splits(shape);
    let whole = Region::whole(shape);
    let mut cut = |range: std::ops::Range<u32>, allowed: bool| {
        if !allowed || range.len() < 2 {
            return vec![range];
        }
        let middle = range.start + 1 + random.below(range.len() as u64 - 1) as u32;
        vec![range.start..middle, middle..range.end]
    };
    let (batches, rows) = (cut(whole.batch, splits.batch), cut(whole.rows, splits.rows));
    let region = |batch: &std::ops::Range<u32>, rows: &std::ops::Range<u32>| Region {
        batch: batch.clone(),
        rows: rows.clone(),
    };
    batches.iter().flat_map(|b| rows.iter().map(move |r| region(b, r))).collect()
}

#[test]
fn every_tactic_of_the_menu_is_bound() {
    let mut kernels = BTreeMap::new();
    let mut random = Random(5);
    for case in cases::cases() {
        let shape = case.operator.outputs[0].layout.shape;
        let chunks = cuts(&mut random, &case.operator, shape);
        let menu = bound(&case.bench, &case.operator, &[Region::whole(shape)], 0, 1 << 40);
        assert!(!menu.is_empty(), "{}: nothing runs it", case.name);
        for (kernel, launches, _) in &menu {
            let most = if *kernel == Kernel::GroupNormalise { 2 } else { 1 };
            assert!((1..=most).contains(&launches.len()), "{}: {kernel:?}", case.name);
            for launch in launches {
                let source = crate::backend::cuda::sources::unit(launch.unit).unwrap().source;
                // The source defines it, or names it in a line of its menu.
                let function = &launch.function;
                let named = [format!(" {function}("), format!("({function}, ")]
                    .iter()
                    .any(|n| source.contains(n));
                assert!(named, "{}: {function}", launch.unit);
                assert!(
                    crate::backend::cuda::sources::serves(launch.unit, *kernel),
                    "{kernel:?} is timed without {}",
                    launch.unit
                );
                assert!(launch.params.len() <= MAX_PARAMS && launch.blocks > 0 && launch.threads % 32 == 0);
            }
            *kernels.entry(*kernel).or_insert(0) += 1;
        }
        // A narrower launch differs in its blocks alone.
        for ((_, all, _), (_, few, _)) in menu
            .iter()
            .zip(bound(&case.bench, &case.operator, &[Region::whole(shape)], 3, 1 << 40))
        {
            assert_eq!(few.len(), all.len());
            for (few, all) in few.iter().zip(all) {
                assert_eq!(few.blocks, all.blocks.min(3), "{}", case.name);
                assert_eq!((&few.params, &few.function), (&all.params, &all.function));
            }
        }
        for (kernel, launches, _) in bound(&case.bench, &case.operator, &chunks, 0, 1 << 40) {
            let distinct: BTreeSet<&[u8]> = launches.iter().map(|l| &*l.params).collect();
            assert_eq!(distinct.len(), chunks.len(), "{}: {kernel:?}", case.name);
        }
    }
    use Kernel::*;
    for kernel in [
        Generic,
        MatVec,
        ConvDepthwise,
        ConvFma,
        ConvTranspose,
        MatMul,
        Elementwise,
        Copy,
        Pool,
        Reduce,
        Softmax,
        Resize,
        Recurrent,
        Normalise,
        GroupNormalise,
        Places,
        Attention,
        AttentionMma,
        PairMma,
    ] {
        assert!(kernels.get(&kernel).is_some_and(|&n| n >= 6), "{kernel:?} in {kernels:?}");
    }
}

/// The first launch of the menu for the case of a name, and its operator.
fn first(name: &str) -> (Operator, Launch) {
    let case = cases::case(|n| n == name);
    let target = Target::Cuda { wgmma: true };
    let class = arithmetic_class(&case.bench.plan, &case.operator, target);
    let operator = Operator {
        class,
        ..case.operator.clone()
    };
    let tactic = menu(&case.bench.plan, &operator, target)[0];
    let operator = Operator { tactic, ..operator };
    let (kernel, packs) = case.bench.compile(&operator);
    let placed = Placed::new(&case.bench, &packs, 1 << 40);
    let whole = Region::whole(operator.outputs[0].layout.shape);
    let launch = kernel.launches(&placed.addresses(&case.bench), &whole, 0).unwrap().remove(0);
    (operator, launch)
}

#[test]
fn depthwise_kernels_read_as_many_channels_at_once_as_there_are() {
    let unit = |channels, form| {
        first(&format!("depthwise of {channels} channels of {} {form:?}, rectified", DType::F16))
            .1
            .unit
    };
    assert_eq!(unit(22, Form::Pixels), "depthwise_burst");
    assert_eq!(unit(20, Form::Pixels), "depthwise_burst");
    assert_eq!(unit(20, Form::OddSlice), "depthwise", "pixels lie 25 channels apart");
}

#[test]
fn depthwise_kernels_of_few_pixels_ask_for_all_at_once() {
    let of = |kernel: [u32; 2], dtype| {
        let (_, launch) = first(&format!("depthwise {kernel:?} of few pixels of {dtype}"));
        (launch.function, launch.threads, launch.shared > 0)
    };
    assert!(of([7, 7], DType::F16).0.starts_with("depthwise_patch_7_"));
    assert!(of([9, 9], DType::F16).0.starts_with("depthwise_patch_9_") && of([9, 9], DType::F16).2);
    assert_eq!(of([1, 5], DType::F16), ("depthwise_burst_1_5_1_1".to_owned(), 128, false));
    assert_eq!(of([1, 5], DType::F32).0, "depthwise_any", "no halves");
}

#[test]
fn elementwise_functions_take_more_runs_a_thread_the_larger_the_tensor() {
    let function = |dims: [u32; 4], form| first(&format!("a chain of {} {dims:?} over {form:?}", DType::F16)).1.function;
    assert_eq!(function([2, 24, 6, 5], Form::Pixels), "elementwise_ones");
    assert_eq!(function([2, 24, 80, 81], Form::Slice), "elementwise_pairs");
    assert_eq!(function([2, 40, 120, 121], Form::Pixels), "elementwise_fours");
    assert_eq!(function([2, 21, 6, 5], Form::Pixels), "elementwise", "no whole runs of channels");
    assert_eq!(function([2, 24, 6, 5], Form::OddSlice), "elementwise", "nor on 16 bytes");
    assert_eq!(function([2, 24, 6, 5], Form::Plain), "elementwise", "what it meets lies otherwise");
}

#[test]
fn chains_of_sums_and_bounds_have_short_kernels() {
    let function = |dims: [u32; 4], form| first(&format!("a brief chain of {} {dims:?} over {form:?}", DType::F16)).1.function;
    assert_eq!(function([2, 24, 6, 5], Form::Pixels), "elementwise_brief_ones");
    assert_eq!(function([2, 24, 80, 81], Form::Slice), "elementwise_brief_pairs");
    assert_eq!(
        function([2, 40, 120, 121], Form::Pixels),
        "elementwise_fours",
        "their instructions are needed again and again"
    );
    assert_eq!(
        function([2, 21, 6, 5], Form::Pixels),
        "elementwise_brief",
        "no whole runs of channels"
    );
}

#[test]
fn threads_of_coordinates_go_over_several_axes() {
    let function = |what: &str, of: &str| first(&format!("{what} of {} {of}", DType::F16)).1.function;
    for of in [
        "[2, 24, 6, 2] Plain with Row",
        "[2, 5, 6, 4] Plain with Row",
        "[3, 2, 6, 8] Pixels with Channels",
        "[3, 4, 5, 2] Pixels with Gate",
        "[3, 6, 2, 2] Plain with Reversed",
    ] {
        assert_eq!(function("coordinates", of), "elementwise_lanes_brief", "{of}");
        assert_eq!(function("quotients", of), "elementwise_lanes", "{of}");
    }
    for of in ["[3, 5, 7, 2] Plain with Row", "[3, 5, 2, 2] Plain with Reversed"] {
        assert_eq!(function("coordinates", of), "elementwise_brief", "{of}");
        assert_eq!(function("quotients", of), "elementwise", "{of}");
    }
}

#[test]
fn a_copy_turns_pieces_where_both_sides_have_them_and_takes_boxes_where_they_have_not() {
    let function = |from: DType, dims: [u32; 4], there: Form, to: DType, here: Form| {
        let (_, launch) = first(&format!("{from} {dims:?} {there:?} turned to {to} {here:?}"));
        assert_eq!(launch.unit, "permute");
        launch.function
    };
    use DType::{F16, F32};
    let to_pixels = |dims, dtype| function(dtype, dims, Form::Plain, dtype, Form::Pixels);
    assert_eq!(to_pixels([2, 3, 16, 24], F16), "interleave_3_halves");
    assert_eq!(to_pixels([2, 4, 8, 72], F16), "interleave_4_halves");
    assert_eq!(to_pixels([2, 2, 40, 16], F32), "interleave_2_floats");
    assert_eq!(to_pixels([2, 3, 25, 23], F16), "permute_halves", "575 pixels");
    assert_eq!(to_pixels([2, 40, 12, 16], F16), "pieces_halves");
    assert_eq!(to_pixels([2, 40, 12, 16], F32), "pieces_floats");
    let dims = [2, 3, 16, 24];
    assert_eq!(function(F32, dims, Form::Plain, F16, Form::Pixels), "permute_to_halves");
    assert_eq!(function(F16, dims, Form::Plain, F32, Form::Pixels), "permute_to_floats");
    assert_eq!(
        function(F16, [2, 40, 12, 16], Form::Plain, F16, Form::OddSlice),
        "permute_halves",
        "45 channels apart"
    );
    let planes = |dims, there, dtype| function(dtype, dims, there, dtype, Form::Plain);
    assert_eq!(planes([2, 72, 6, 8], Form::Slice, F16), "pieces_halves");
    assert_eq!(planes([2, 21, 9, 11], Form::Pixels, F16), "permute_halves");
    assert_eq!(planes([1, 70, 7, 19], Form::OddSlice, F32), "permute_floats");
}

#[test]
fn samples_are_taken_as_their_channels_lie() {
    let function = |dtype: DType, from: Form, to: Form, dims: [u32; 4]| {
        let (_, launch) = first(&format!("samples of {dtype} {from:?} to {to:?} {dims:?}"));
        launch.function
    };
    use DType::{F16, F32};
    use Form::{OddSlice, Pixels, Plain, Slice};
    let dims = [2, 40, 30, 4];
    assert_eq!(function(F16, Pixels, Plain, dims), "sample_linear_planes");
    assert_eq!(function(F16, Slice, Plain, dims), "sample_linear_planes");
    assert_eq!(function(F16, Pixels, Plain, [2, 8, 7, 1]), "sample_linear_planes", "a column");
    assert_eq!(function(F16, OddSlice, Plain, dims), "sample_linear_lots", "between pieces");
    assert_eq!(function(F16, Pixels, Plain, [2, 5, 5, 11]), "sample_linear_lots", "no whole pieces");
    assert_eq!(function(F32, Pixels, Plain, dims), "sample_linear_lots", "no halves");
    assert_eq!(function(F16, Plain, Pixels, dims), "sample_linear_lots");
    assert_eq!(function(F16, Pixels, OddSlice, dims), "sample_linear", "channels by channels");
    assert_eq!(function(F16, Pixels, Plain, [2, 1, 5, 11]), "sample_linear", "one channel");
    let alike = |form| first(&format!("Linear samples of {F16} {form:?}, Zero outside")).1.function;
    assert_eq!(alike(Pixels), "sample_linear_pieces");
    assert_eq!(alike(Plain), "sample_linear_lots");
}

#[test]
fn rows_of_a_softmax_stay_in_registers_where_halves_come_of_them() {
    let function = |extent: u32, dtype: DType| first(&format!("softmax of {extent} {dtype}")).1.function;
    assert_eq!(function(128, DType::F16), "softmax_rows_128");
    assert_eq!(function(1000, DType::F16), "softmax_wide", "three long rows have a block each");
    assert_eq!(function(8192, DType::F16), "softmax_wide");
    assert_eq!(function(8193, DType::F16), "softmax_long");
    assert_eq!(function(128, DType::F32), "softmax_wide", "no f16 hides what is left out");
}

#[test]
fn rows_of_an_expectation_are_kept_by_the_least_kernel_that_holds_them() {
    let function = |bins: u32, dtype: DType| first(&format!("expectation of {bins} along 3 of {dtype} Plain")).1.function;
    assert_eq!(function(5, DType::F16), "expectation_halves_8");
    assert_eq!(function(17, DType::F32), "expectation_floats_32");
    assert_eq!(function(33, DType::F16), "expectation_halves");
    let (operator, launch) = first(&format!("distances of {}", DType::F16));
    assert_eq!(
        (operator.tactic.kernel, launch.function.as_str()),
        (Kernel::Softmax, "expectation_halves_16")
    );
}

#[test]
fn packs_are_shared_by_what_they_are_made_of() {
    let case = cases::case(|n| n.starts_with("depthwise"));
    let sections: Vec<&[u8]> = case.bench.sections.iter().map(Vec::as_slice).collect();
    let packs = Mutex::new(Packs::default());
    let packer = Packer {
        plan: &case.bench.plan,
        sections: &sections,
        packs: &packs,
    };
    let tactic = menu(&case.bench.plan, &case.operator, Target::Cuda { wgmma: false })[0];
    let operator = Operator {
        tactic,
        ..case.operator.clone()
    };
    compile(&packer, &operator).unwrap();
    let count = || packs.lock().unwrap().bytes().len();
    let once = count();
    compile(&packer, &operator).unwrap();
    assert_eq!((once, count()), (2, 2));
    assert_eq!(operator.class.family, Family::Fma);
}

/// The launch of a recurrent layer of halves on a GPU with clusters, under a width.
fn recurrent(hidden: u32, width: u16) -> Launch {
    let name = format!("rows of {hidden} {}", DType::F16);
    let case = cases::case(|n| n.ends_with(&name));
    let sections: Vec<&[u8]> = case.bench.sections.iter().map(Vec::as_slice).collect();
    let packs = Mutex::new(Packs::default());
    let packer = Packer {
        plan: &case.bench.plan,
        sections: &sections,
        packs: &packs,
    };
    let class = arithmetic_class(&case.bench.plan, &case.operator, Target::Cuda { wgmma: true });
    let operator = Operator {
        class,
        ..case.operator.clone()
    };
    let tactic = menu(&case.bench.plan, &operator, Target::Cuda { wgmma: true })[0];
    assert_eq!((tactic.kernel, class.family), (Kernel::Recurrent, Family::TensorCore));
    let operator = Operator { tactic, ..operator };
    let kernel = compile(&packer, &operator).unwrap();
    let placed = Placed::new(&case.bench, &packs.into_inner().unwrap(), 1 << 40);
    let at = Addresses {
        clusters: true,
        multiprocessors: 0,
        ..placed.addresses(&case.bench)
    };
    let whole = Region::whole(operator.outputs[0].layout.shape);
    kernel.launches(&at, &whole, width).unwrap().remove(0)
}

#[test]
fn a_recurrent_layer_takes_clusters_where_its_units_and_the_width_fit_them() {
    let shape = |hidden, width| {
        let launch = recurrent(hidden, width);
        (launch.function, launch.blocks, launch.cluster)
    };
    // 65 units are 17 groups of four, eight a block.
    assert_eq!(shape(65, 0), ("recurrent_cluster_lstm_16x8_halves".into(), 3, 3));
    assert_eq!(shape(65, 5), ("recurrent_cluster_lstm_16x8_halves".into(), 3, 3));
    assert_eq!(shape(65, 2), ("recurrent_stream_lstm".into(), 1, 1));
    assert_eq!(shape(7, 1), ("recurrent_stream_lstm".into(), 1, 1), "one block is no cluster");
    // More units than a cluster has weights of.
    assert_eq!(shape(300, 0), ("recurrent_stream_lstm".into(), 2, 1));
}

#[test]
fn a_group_normalisation_takes_two_launches_or_a_cluster_where_blocks_share_a_sample() {
    let launch = |clusters, width, name: &str| {
        let case = cases::case(|n| n == name);
        let whole = Region::whole(case.operator.outputs[0].layout.shape);
        let target = Target::Cuda { wgmma: true };
        let tactic = menu(&case.bench.plan, &case.operator, target)[0];
        let operator = Operator {
            tactic,
            ..case.operator.clone()
        };
        let (kernel, packs) = case.bench.compile(&operator);
        let placed = Placed::new(&case.bench, &packs, 1 << 40);
        let at = Addresses {
            clusters,
            workspace: workspace(kernel.as_ref()),
            ..placed.addresses(&case.bench)
        };
        let launches = kernel.launches(&at, &whole, width).unwrap();
        let last = launches.last().unwrap();
        assert_eq!(launches.len(), if last.function == "group_spread" { 2 } else { 1 });
        (last.function.clone(), last.blocks, last.cluster)
    };
    let large = format!("normalisation of a large picture of {}", DType::F16);
    assert_eq!(launch(true, 0, &large), ("group_spread".into(), 75, 1));
    assert_eq!(launch(false, 7, &large), ("group_spread".into(), 7, 1), "no room");
    let one = format!("normalisation of 1 groups of 64 {}, scaled, shifted and rectified", DType::F16);
    assert_eq!(launch(true, 0, &one), ("group_spread".into(), 6, 1), "one slab");
    let planes = format!("normalisation of 1 groups of 64 {} Plain", DType::F16);
    assert_eq!(launch(true, 0, &planes), ("group_normalise_shares".into(), 6, 2), "channels apart");
    assert_eq!(launch(true, 1, &planes), ("group_normalise_alone".into(), 1, 1), "no room");
    assert_eq!(launch(false, 0, &planes), ("group_normalise_alone".into(), 3, 1), "no clusters");
    let several = format!("normalisation of 8 groups of 64 {}, scaled, shifted and rectified", DType::F16);
    assert_eq!(launch(true, 0, &several), ("group_normalise_alone_pieces".into(), 6, 1), "one part");
    let odd = format!("normalisation of 5 groups of 60 {} OddSlice", DType::F16);
    // Slabs of 24 channels, three a sample.
    assert_eq!(launch(true, 0, &odd), ("group_normalise_alone".into(), 9, 1));
    let floats = format!("normalisation of 5 groups of 60 {} Pixels", DType::F32);
    assert_eq!(launch(true, 0, &floats), ("group_normalise_floats".into(), 15, 1));
}
