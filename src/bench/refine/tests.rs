use super::*;
use crate::bench::bed::Bed;
use crate::bench::zoo::run::Group;
use crate::board::BoardRecord;
use crate::planner::optable::{self, OpTable};
use crate::planner::{CompileOptions, Searcher, boards};
use crate::runtime::Options;
use crate::tensor::DType;
use std::path::Path;
use std::sync::Arc;

/// A machine that likes what the simulator does not: each segment more makes the frame shorter.
#[derive(Default)]
struct Eager {
    loaded: Vec<Nanos>,
    runs: usize,
    loads: usize,
}

impl Meter for Eager {
    fn load(&mut self, plans: Vec<Plan>) -> Result<(), BenchError> {
        let time = |plan: &Plan| {
            let segments = plan.cycle[0].segments.len() as u64;
            Nanos(plan.prediction.longest().0 * (1000 - 12 * segments.min(50)) / 1000)
        };
        self.loaded = plans.iter().map(time).collect();
        self.loads += 1;
        Ok(())
    }

    fn run(&mut self, plan: usize, frames: usize) -> Result<Vec<Nanos>, BenchError> {
        self.runs += 1;
        // Frames differ by up to a thousandth, each time otherwise.
        let noise = |f: usize| self.loaded[plan].0 / 1000 * ((self.runs * 7 + f * 3) % 11) as u64 / 10;
        Ok((0..frames).map(|f| Nanos(self.loaded[plan].0 + noise(f))).collect())
    }

    fn unload(&mut self) {
        self.loaded.clear();
    }
}

fn compiled(name: &str, board: &BoardRecord, times: Option<Arc<OpTable>>) -> Compiled {
    let group = Group::parse(name, None).unwrap();
    let options = CompileOptions {
        searcher: Searcher::Platoon,
        dtype: if times.is_some() { DType::F16 } else { DType::F32 },
        times,
        budget: 400,
        rivals: 2,
        refine: true,
        ..CompileOptions::default()
    };
    group.plan(board, &options).unwrap()
}

#[test]
fn plans_get_faster_on_a_machine_that_the_simulator_does_not_know() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
    let board = boards::load(folder.join("h200.toml").to_str().unwrap()).unwrap();
    let times = Arc::new(OpTable::load(&optable::path(&folder, &board), &board).unwrap().unwrap());
    let start = compiled("bst:64+bst:8", &board, Some(times));
    let refined = |rounds| {
        let mut meter = Eager::default();
        let limit = Limit {
            time: Duration::MAX,
            rounds,
        };
        let (mut own, mut heard) = (start.clone(), 0);
        refine(&mut own, &mut meter, limit, |_| heard += 1).unwrap();
        assert_eq!((heard, meter.loads), (rounds + 1, rounds + 1));
        assert!(meter.loaded.is_empty(), "the machine is given back");
        own
    };
    let (before, after) = (refined(0), refined(3));
    let best = |c: &Compiled| c.report.refined.as_ref().unwrap().tried[0].of_anchor;
    assert!(best(&after) < best(&before), "{} after {}", best(&after), best(&before));
    assert_eq!(after.plan.searcher, "measured");
    // Each searcher's best is still among the plans, and some new ones.
    let plans = || std::iter::once(&after.plan).chain(&after.rivals);
    let of = |name: &str| plans().filter(|p| p.searcher == name).count();
    assert!(["sequential", "streams", "gacer", "platoon"].iter().all(|s| of(s) == 1) && of("measured") == LEFT);
    assert!(plans().all(|p| p.task_set == start.plan.task_set && p.weight_files == start.plan.weight_files));
    // The board was divided between the streams, where every operator launches what fills its own part.
    let mut tried = after.report.refined.iter().flat_map(|r| &r.tried);
    assert!(tried.any(|t| t.direction == Some("divided")));
    let confined: Vec<&Plan> = plans().filter(|p| p.streams.iter().any(|s| s.units > 0)).collect();
    assert!(
        confined.iter().any(|p| p.operators.iter().all(|o| o.width == 0)),
        "{}",
        confined.len()
    );
    // Its report tells of every plan, where it came from and what it took.
    let report = after.report.refined.as_ref().unwrap();
    assert_eq!(report.rounds.iter().map(|r| r.plans).sum::<usize>(), report.tried.len());
    let child = &report.tried[0];
    let parent = &report.tried[child.parent.unwrap()];
    assert!(child.direction.is_some() && child.round > 0 && child.round <= 3 && parent.of_anchor > child.of_anchor);
    // Times and seed give the plans.
    assert_eq!((after.plan, after.rivals), {
        let again = refined(3);
        (again.plan, again.rivals)
    });
}

/// A machine on which operators do not take what they take alone: every tactic has a factor of its own.
#[derive(Default)]
struct Moody(Vec<Nanos>);

impl Meter for Moody {
    fn load(&mut self, plans: Vec<Plan>) -> Result<(), BenchError> {
        let operator = |o: &crate::plan::format::Operator| {
            let tactic = (o.tactic.variant as u64 * 7 + u64::from(o.tactic.tile.0) + u64::from(o.tactic.tile.1)) % 5;
            10_000 + 1_000 * tactic
        };
        self.0 = plans.iter().map(|p| Nanos(p.operators.iter().map(operator).sum())).collect();
        Ok(())
    }

    fn run(&mut self, plan: usize, frames: usize) -> Result<Vec<Nanos>, BenchError> {
        Ok(vec![self.0[plan]; frames])
    }

    fn unload(&mut self) {}
}

#[test]
fn a_sweep_finds_the_tactics_that_frames_prefer() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
    let board = boards::load(folder.join("h200.toml").to_str().unwrap()).unwrap();
    let times = Arc::new(OpTable::load(&optable::path(&folder, &board), &board).unwrap().unwrap());
    let mut own = compiled("r18:1", &board, Some(times));
    let limit = Limit {
        time: Duration::MAX,
        rounds: 8,
    };
    refine(&mut own, &mut Moody::default(), limit, |_| {}).unwrap();
    let report = own.report.refined.as_ref().unwrap();
    let step = |t: &TriedReport| t.direction.unwrap_or_default();
    let of = |name: &str| report.tried.iter().filter(|t| step(t) == name).count();
    assert!(of("swept") > 20 && of("joined") > 2, "{} {}", of("swept"), of("joined"));
    // Together the changes bring more than any of them, and the last word is not the first sweep's.
    let best = |name: &str| {
        report
            .tried
            .iter()
            .filter(|t| step(t) == name)
            .map(|t| t.of_anchor)
            .fold(1.0, f64::min)
    };
    let first = report
        .tried
        .iter()
        .filter(|t| step(t) == "swept" && t.round <= 2)
        .map(|t| t.of_anchor)
        .fold(1.0, f64::min);
    assert!(best("joined") < 0.99 * first && best("joined") < 0.97, "{} {first}", best("joined"));
    assert_eq!(own.plan.searcher, "measured");
}

#[test]
fn plans_are_loaded_one_set_after_another_on_an_engine() {
    let board = boards::load("host").unwrap();
    let mut compiled = compiled("bst:1+bst:2", &board, None);
    let group = Group::parse("bst:1+bst:2", None).unwrap();
    let options = Options {
        workers: Some(1),
        ..Options::default()
    };
    let mut bed = Bed::new(&compiled.weight_files, group.inputs(&compiled), &board, &options).unwrap();
    let limit = Limit {
        time: Duration::MAX,
        rounds: 1,
    };
    refine(&mut compiled, &mut bed, limit, |_| {}).unwrap();
    let report = compiled.report.refined.as_ref().unwrap();
    assert!(report.rounds.len() == 2 && report.tried.iter().all(|t| t.frames >= race::STAGES[0] && t.ms > 0.0));
    assert!(report.tried.iter().any(|t| t.round == 1));
    assert!(
        compiled
            .weight_files
            .iter()
            .any(|(d, _)| compiled.plan.weight_files.iter().any(|w| w.digest == *d))
    );
}
