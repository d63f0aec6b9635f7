//! The loop on a real driver: 10,000 frames without memory, with no call but those that issue a frame.

use crate::calls::allowed;
use crate::child;
use crate::data;
use crate::gpu;
use crate::meter::allocations;
use crate::network::Machine;
use crate::road;
use platoon::backend::cuda::driver_calls;
use platoon::backend::{Submission, Wait};
use platoon::runtime::{Engine, Options};
use platoon::task::Status;

const FRAMES: usize = 10_000;
/// Frames between changes of the task set.
const TURN: usize = 250;

#[test]
fn ten_thousand_frames_take_no_memory_and_make_only_calls_that_do_not_wait() {
    let name = "frames::ten_thousand_frames_take_no_memory_and_make_only_calls_that_do_not_wait";
    child::enter(name, || {
        let machine = Machine::gpu(&gpu::need(name).unwrap());
        loops(&machine, Submission::Frame, FRAMES);
        loops(&machine, Submission::Segments, FRAMES / 20);
    });
    if gpu::need(name).is_some() {
        child::run(child::command(name));
        data::ran(name, &format!("{FRAMES} frames in graphs, {} segment by segment", FRAMES / 20));
    }
}

/// Runs frames of three task sets in turn, and watches each.
fn loops(machine: &Machine, submission: Submission, frames: usize) {
    let sets = ["urban", "highway", "parking"];
    let deployment = road::deployment(machine, &road::tasks(), &sets, 2, &road::half());
    let options = Options {
        submission,
        wait: Wait::Spin,
        trace: 256,
        ..Options::default()
    };
    let mut engine = road::open(machine, deployment, &options);
    let allowed = allowed(submission);
    let pictures = road::pictures();
    let mut fresh = 0;
    for frame in 0..frames {
        if frame % TURN == 0 {
            let set = sets[frame / TURN % sets.len()];
            assert_eq!(
                allocations(|| engine.select(set).unwrap()),
                0,
                "a change of the task set called the allocator"
            );
        }
        let before = driver_calls();
        let taken = allocations(|| fresh += one(&mut engine, &pictures[frame % pictures.len()]));
        assert_eq!(taken, 0, "frame {frame} called the allocator, {submission:?}");
        let after = driver_calls();
        for (call, count) in after.since(&before) {
            let most = allowed.iter().find(|&&(c, _)| c == call);
            assert!(
                most.is_some_and(|&(_, most)| count <= most),
                "frame {frame}: {count} calls of {}",
                call.symbol()
            );
        }
    }
    // Two tenants at least are due in most frames of every task set.
    assert!(fresh >= frames * 4 / 3, "{fresh} results in {frames} frames");
    assert!(allocations(|| drop(std::hint::black_box(vec![0u8; 10]))) > 0, "the meter counts");
    assert_eq!(engine.close(), 0);
}

/// One frame; how many of its tenants' results are its own.
fn one(engine: &mut Engine, picture: &platoon::replay::picture::Picture) -> usize {
    let ticket = road::submit(engine, picture);
    let report = engine.wait(&ticket, None).unwrap();
    let frame = report.frame;
    let own = report
        .tenants
        .iter()
        .filter(|t| t.status == Status::Fresh && t.of_frame == frame)
        .count();
    engine.release(ticket).unwrap();
    own
}
