//! A frame's bits depend on its picture and on nothing else: not on schedule, submission, slots, company, or the SMs at hand.

use crate::data;
use crate::gpu;
use crate::network::Machine;
use crate::road::{self, Results};
use platoon::backend::Submission;
use platoon::board::{BackendKind, Division};
use platoon::planner::{CompileOptions, Searcher, boards};
use platoon::runtime::{Options, keeping};

/// SMs that a confined run takes.
const SMS: u32 = 16;
/// SMs of which streams are confined to some.
const HALF: u32 = 64;

/// The machine, and what `urban` gives on it in sequence.
fn sequence(test: &str) -> Option<(Machine, Vec<Results>)> {
    let machine = Machine::gpu(&gpu::need(test)?);
    let options = CompileOptions {
        searcher: Searcher::Sequential,
        ..road::half()
    };
    let results = run(&machine, "urban", 1, &options, &Options::default());
    assert!(results.iter().all(|r| r.len() == 3), "every tenant has a result in every frame");
    assert!(results.windows(2).all(|w| w[0] != w[1]), "frames of a drive differ");
    Some((machine, results))
}

fn run(machine: &Machine, set: &str, slots: u16, compile: &CompileOptions, options: &Options) -> Vec<Results> {
    let deployment = road::deployment(machine, &road::tasks(), &[set], slots, compile);
    let mut engine = road::open(machine, deployment, options);
    let results = road::drive(&mut engine, usize::from(slots), road::pictures());
    assert_eq!(engine.close(), 0);
    results
}

#[test]
fn schedules_submissions_and_slots_do_not_change_a_bit() {
    let test = "gpu_schedules_submissions_and_slots_do_not_change_a_bit";
    let Some((machine, expected)) = sequence(test) else { return };
    let mut runs = 0;
    let mut same = |what: String, slots, compile: &CompileOptions, options: &Options| {
        let found = run(&machine, "urban", slots, compile, options);
        assert_eq!(road::differ(&found, &expected), None, "frame and tenant; {what}");
        runs += 1;
    };
    for submission in [Submission::Frame, Submission::Segments] {
        let options = Options {
            submission,
            ..Options::default()
        };
        for slots in [1, 2, 3] {
            let what = format!("a stream each, {submission:?}, {slots} slots");
            same(what, slots, &road::half(), &options);
        }
        for seed in 0..6 {
            let random = CompileOptions {
                searcher: Searcher::Random,
                seed,
                ..road::half()
            };
            same(format!("random schedule {seed}, {submission:?}"), 2, &random, &options);
        }
    }
    data::ran(test, &format!("{runs} runs of 6 frames as in sequence"));
}

#[test]
fn a_tenant_gives_the_same_alone_and_beside_others() {
    let test = "gpu_a_tenant_gives_the_same_alone_and_beside_others";
    let Some((machine, beside)) = sequence(test) else { return };
    for name in ["scout", "surface"] {
        let mut tasks = road::tasks();
        let set = tasks.sets.get_mut("urban").unwrap();
        set.tenants.retain(|t| t.name == name);
        let deployment = road::deployment(&machine, &tasks, &["urban"], 2, &road::half());
        let mut engine = road::open(&machine, deployment, &Options::default());
        let alone = road::drive(&mut engine, 2, road::pictures());
        for (frame, (alone, beside)) in alone.iter().zip(&beside).enumerate() {
            assert!(alone[name] == beside[name], "{name} gives other bits alone, frame {frame}");
        }
        engine.close();
    }
    data::ran(test, "scout and surface, 6 frames");
}

#[test]
fn a_frame_gives_the_same_two_hundred_times() {
    let test = "gpu_a_frame_gives_the_same_two_hundred_times";
    let Some((machine, expected)) = sequence(test) else { return };
    let deployment = road::deployment(&machine, &road::tasks(), &["urban"], 2, &road::half());
    let mut engine = road::open(&machine, deployment, &Options::default());
    let pictures = std::iter::repeat_n(&road::pictures()[2], 200);
    let found = road::drive(&mut engine, 2, pictures);
    let other = found.iter().position(|results| *results != expected[2]);
    assert_eq!(other, None, "the first time that it gave something else");
    engine.close();
    data::ran(test, "200 frames");
}

#[test]
fn some_sms_give_the_bits_of_all() {
    let test = "gpu_some_sms_give_the_bits_of_all";
    let Some((mut machine, expected)) = sequence(test) else { return };
    machine.board = boards::confined(&machine.board, SMS).unwrap_or_else(|e| panic!("{e}"));
    for submission in [Submission::Frame, Submission::Segments] {
        let options = Options {
            sms: Some(SMS),
            submission,
            ..Options::default()
        };
        let found = run(&machine, "urban", 2, &road::half(), &options);
        assert_eq!(
            road::differ(&found, &expected),
            None,
            "frame and tenant, on {SMS} SMs, {submission:?}"
        );
    }
    data::ran(test, "6 frames in a graph and segment by segment");
}

#[test]
fn streams_apart_give_the_bits_of_all() {
    let test = "gpu_streams_apart_give_the_bits_of_all";
    let Some((mut machine, expected)) = sequence(test) else { return };
    let mut runs = 0;
    for sms in [None, Some(HALF)] {
        if let Some(sms) = sms {
            machine.board = boards::confined(&machine.board, sms).unwrap_or_else(|e| panic!("{e}"));
        }
        let division = Division::of(&machine.board);
        if division.parcels() < 2 {
            continue;
        }
        // Two streams have all SMs together, the third lies over both; then all of them but the first share them.
        let first = u16::try_from(division.parcel * (division.parcels() / 2)).unwrap();
        let rest = u16::try_from(division.units).unwrap() - first;
        for units in [[first, rest, 0], [rest, 0, first], [0, first, 0]] {
            for submission in [Submission::Frame, Submission::Segments] {
                let options = Options {
                    sms,
                    submission,
                    ..Options::default()
                };
                let mut engine = road::open(&machine, road::apart(&machine, units), &options);
                let found = road::drive(&mut engine, 2, road::pictures());
                assert_eq!(engine.close(), 0);
                assert_eq!(road::differ(&found, &expected), None, "{units:?} of {sms:?}, {submission:?}");
                runs += 1;
            }
        }
    }
    data::ran(test, &format!("{runs} runs of 6 frames"));
}

#[test]
fn what_one_engine_leaves_for_the_next_changes_no_bit() {
    let test = "gpu_what_one_engine_leaves_for_the_next_changes_no_bit";
    let Some((mut machine, expected)) = sequence(test) else { return };
    let options = Options {
        kernels: Some(gpu::kernels()),
        ..Options::default()
    };
    machine.backend = keeping(BackendKind::Cuda, &options).unwrap_or_else(|e| panic!("{e}"));
    for seed in 0..4 {
        let random = CompileOptions {
            searcher: Searcher::Random,
            seed,
            ..road::half()
        };
        let found = run(&machine, "urban", 1, &random, &Options::default());
        assert_eq!(road::differ(&found, &expected), None, "frame and tenant, engine {seed}");
    }
    data::ran(test, "4 engines of 6 frames");
}
