//! Plans that are unusual and right, and large ones.

use super::sample::{self, buffer as b, operator as o, rows, segment, sync};
use platoon::ids::*;
use platoon::plan::check::{CheckError, check};
use platoon::plan::format::*;
use platoon::primitive::{Primitive, Unary};
use platoon::task::ResultKind;
use platoon::tensor::{DType, Layout};
use platoon::units::Nanos;

#[test]
fn the_sample_passes_and_comes_back_unchanged() {
    let checked = check(sample::plan()).unwrap();
    assert_eq!(*checked, sample::plan());
    assert_eq!(checked.into_inner(), sample::plan());
}

#[test]
fn best_effort_plans_store_their_misses() {
    let mut plan = sample::plan();
    plan.tenants[0].urgency.deadline = Some(Nanos(1));
    plan.prediction.frames.iter_mut().for_each(|f| f.misses = vec![0]);
    plan.prediction.best_effort = true;
    check(plan).unwrap();
}

#[test]
fn a_chunk_may_start_before_the_chunks_it_does_not_need() {
    // Pooled rows 0 to 3 need convolved rows 0 to 4, the first chunk: the second may follow.
    let mut plan = sample::plan();
    plan.cycle[0].segments[0].steps.swap(1, 2);
    check(plan).unwrap();
}

#[test]
fn chunks_of_one_operator_may_run_on_two_streams() {
    let mut plan = sample::plan();
    plan.cycle[0].segments = vec![
        segment(0, 0, &[(o::CONV, 0)]),
        segment(0, 1, &[(o::CONV, 1)]),
        segment(0, 0, &[(o::SUM, 0)]),
        segment(0, 1, &[(o::SUM, 1)]),
        segment(0, 0, &[(o::SCOUT_OUT, 0), (o::RECALL, 0)]),
        segment(2, 1, &[(o::PREPARE, 0), (o::MEAN, 0), (o::TOP, 0)]),
    ];
    // The second half waits for the first half's halo row; the first needs nothing of the second.
    plan.cycle[0].syncs = vec![sync(&[0], &[3]), sync(&[3], &[4])];
    check(plan.clone()).unwrap();
    // A chain of waits orders as one does; without its first link, the halo is not there.
    plan.cycle[0].syncs.remove(0);
    assert!(matches!(check(plan), Err(CheckError::Read(_))));
}

#[test]
fn persistent_memory_may_be_written_before_it_is_read() {
    let mut plan = sample::plan();
    let tail = plan.cycle[1].segments[0].steps.split_off(5);
    plan.cycle[1].segments.push(Segment {
        tenant: TenantId(0),
        stream: StreamId(0),
        steps: tail,
    });
    plan.cycle[1].syncs.push(sync(&[2], &[3]));
    check(plan).unwrap();
}

#[test]
fn empty_tensors_are_legal() {
    let mut plan = sample::plan();
    let empty = sample::dense(b::FOLLOWER_OUT, &[0, 4]);
    plan.operators[o::FOLLOWER_OUT] = sample::simple(1, Primitive::Copy, &[sample::dense(b::REUSED, &[0, 4])], &[empty]);
    plan.tenants[1].outputs[0].view = empty;
    check(plan).unwrap();
}

#[test]
fn strides_of_an_empty_view_do_not_matter() {
    let mut plan = sample::plan();
    let shape = sample::shape(&[3, 0]);
    let wild = sample::view(b::REUSED, DType::F32, Layout::new(shape, &[i64::MIN, i64::MAX]).unwrap());
    let empty = sample::dense(b::FOLLOWER_OUT, &[3, 0]);
    plan.operators[o::FOLLOWER_OUT] = sample::simple(1, Primitive::Copy, &[wild], &[empty]);
    plan.tenants[1].outputs[0].view = empty;
    check(plan).unwrap();
}

/// One tenant: a chain of `count` operators over an image of `side` pixels squared, every second one writing one of four
/// interleaved bands of a concatenated buffer, every fourth of the others reading the whole.
fn concatenating(count: usize, side: u32) -> Plan {
    let mut plan = sample::plan();
    let (narrow, wide) = ([1, 4, side, side], [1, 16, side, side]);
    let pixels = u64::from(side) * u64::from(side);
    plan.cameras.clear();
    plan.weight_files.clear();
    plan.sections.clear();
    plan.persistent_bytes = 0;
    (plan.buffers, plan.operators) = (Vec::new(), Vec::new());
    let mut offset = 0;
    let mut arena = |plan: &mut Plan, bytes: u64| {
        plan.buffers.push(Buffer {
            space: Space::Arena { offset },
            bytes,
        });
        offset += bytes;
        plan.arena_bytes = offset;
        plan.buffers.len() - 1
    };
    plan.buffers.push(Buffer {
        space: Space::Input { offset: 0 },
        bytes: pixels * 16,
    });
    plan.input_bytes = pixels * 16;
    let relu = Primitive::Unary(Unary::Relu);
    let mut from = sample::pixels(0, &narrow);
    for _ in 0..count / 5 {
        let joined = arena(&mut plan, pixels * 64);
        for band in 0..4 {
            let mut slice = sample::pixels(joined, &wide);
            let strides = slice.layout.strides().to_vec();
            slice.layout = Layout::new(sample::shape(&narrow), &strides).unwrap();
            slice.origin = band * 4;
            plan.operators.push(sample::simple(0, relu, &[from], &[slice]));
            from = slice;
        }
        let whole = arena(&mut plan, pixels * 64);
        let all = sample::pixels(joined, &wide);
        plan.operators
            .push(sample::simple(0, relu, &[all], &[sample::pixels(whole, &wide)]));
        from = sample::view(
            whole,
            DType::F32,
            Layout::new(sample::shape(&narrow), all.layout.strides()).unwrap(),
        );
    }
    let out = plan.buffers.len();
    plan.buffers.push(Buffer {
        space: Space::Output { offset: 0 },
        bytes: pixels * 16,
    });
    plan.output_bytes = pixels * 16;
    plan.operators
        .push(sample::simple(0, Primitive::Copy, &[from], &[sample::dense(out, &narrow)]));
    plan.tenants.truncate(1);
    plan.tenants[0].kind = ResultKind::Tensors;
    plan.tenants[0].inputs[0].view = sample::dense(0, &narrow);
    plan.tenants[0].outputs = vec![sample::port("out", Role::Tensor, sample::dense(out, &narrow))];
    let steps: Vec<(usize, u16)> = (0..plan.operators.len()).map(|i| (i, 0)).collect();
    plan.cycle.truncate(1);
    plan.cycle[0] = FrameSchedule {
        tenants: vec![TenantId(0)],
        segments: vec![segment(0, 0, &steps)],
        syncs: Vec::new(),
    };
    plan.prediction.frames.truncate(1);
    plan.prediction.frames[0].finish.truncate(1);
    plan
}

#[test]
fn interleaved_bands_of_one_buffer_are_told_apart() {
    let plan = concatenating(10, 4);
    check(plan.clone()).unwrap();
    // The whole is read before its last band is written.
    let mut early = plan.clone();
    early.cycle[0].segments[0].steps.swap(3, 4);
    assert!(matches!(check(early), Err(CheckError::Read(_))));
    // A band that is shifted by one channel writes into its neighbour.
    let mut shifted = plan;
    shifted.operators[1].outputs[0].origin += 1;
    assert!(matches!(check(shifted), Err(CheckError::Read(_))));
}

#[test]
fn a_plan_of_four_hundred_operators_with_scattered_bands_is_checked_within_the_bound() {
    check(concatenating(400, 104)).unwrap();
}

#[test]
fn a_plan_that_would_take_too_long_is_refused() {
    // A quarter of a billion runs of one element: legal in itself, but not worth a start-up's time.
    let mut plan = sample::plan();
    let shape = sample::shape(&[1 << 14, 1 << 13]);
    let scattered = |buffer| sample::view(buffer, DType::U8, Layout::new(shape, &[1 << 14, 2]).unwrap());
    plan.arena_bytes = 1 << 30;
    plan.buffers[b::REUSED] = Buffer {
        space: Space::Arena { offset: 1 << 29 },
        bytes: 1 << 28,
    };
    let input = sample::view(b::INPUT, DType::U8, Layout::new(shape, &[0, 0]).unwrap());
    plan.operators[o::FOLLOW] = sample::simple(1, Primitive::Copy, &[input], &[scattered(b::REUSED)]);
    assert!(matches!(check(plan), Err(CheckError::Work(_))));
}

#[test]
fn bands_of_a_batch_may_be_cut_each_in_its_own_way() {
    let mut plan = sample::plan();
    let dims = [4, 1, 8, 8];
    let region = |batch, r: (u32, u32)| platoon::primitive::Region {
        batch,
        rows: rows(r.0, r.1).rows,
    };
    let follow = &mut plan.operators[o::FOLLOW];
    *follow = sample::simple(
        1,
        Primitive::Unary(Unary::Relu),
        &[sample::dense(b::SUM, &dims)],
        &[sample::dense(b::REUSED, &dims)],
    );
    follow.chunks = vec![
        region(0..1, (0, 8)),
        region(1..3, (0, 3)),
        region(1..3, (3, 8)),
        region(3..4, (0, 8)),
    ];
    let steps = [
        (o::FOLLOW, 0),
        (o::FOLLOW, 1),
        (o::FOLLOW, 2),
        (o::FOLLOW, 3),
        (o::FOLLOWER_OUT, 0),
        (o::REMEMBER, 0),
    ];
    plan.cycle[1].segments[2] = segment(1, 1, &steps);
    check(plan).unwrap();
}
