//! The networks of models/ are as right as their cards say, in f32 on the CPU, and as right as they are meant to be.
#![cfg(all(feature = "planner", feature = "replay"))]

use platoon::backend::{FaultKind, FaultPlace, InjectedFault};
use platoon::ids::TenantId;
use platoon::plan::check::CheckedPlan;
use platoon::plan::deployment::Deployment;
use platoon::planner::card::Measured;
use platoon::planner::tasks::Tasks;
use platoon::planner::{CompileOptions, boards, compile_task_set, write_deployment};
use platoon::replay::report::Summary;
use platoon::replay::run::{ReplayError, Settings, replay};
use platoon::replay::score::Score;
use platoon::replay::score::accuracy::{Accuracy, Figures};
use platoon::replay::source::{Input, Source};
use platoon::runtime::{Engine, Options};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

#[allow(dead_code)] // other binaries use other parts
#[path = "common/data.rs"]
mod data;

/// How far a figure may lie from its card's: another processor's libraries are not involved, so this is for rounding.
const WITHIN: f64 = 0.005;

/// Least figures the networks are meant to reach on drives that they were not trained on.
const LEAST: [(&str, f64); 3] = [("map50", 0.80), ("miou", 0.85), ("top1", 0.95)];

fn tasks() -> Tasks {
    Tasks::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/tasks.toml")).expect("plans/tasks.toml loads")
}

/// A task set planned for this machine: the folder of its deployment, its plan and an engine with these faults.
fn open(tasks: &Tasks, task_set: &str, faults: Vec<InjectedFault>) -> (TempDir, CheckedPlan, Engine) {
    let board = boards::load("host").unwrap();
    let compiled = compile_task_set(tasks, task_set, &board, &CompileOptions::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    write_deployment(folder.path(), tasks, &board, &[compiled]).unwrap();
    let plan = Deployment::load(folder.path()).unwrap().plans[0].clone();
    let options = Options {
        watchdog: None,
        faults,
        ..Options::default()
    };
    let engine = Engine::open(folder.path(), &options).unwrap();
    (folder, plan, engine)
}

/// Runs `frames` frames of `input`, scored.
fn run(engine: &mut Engine, plan: &CheckedPlan, input: &str, frames: usize) -> Result<Summary, ReplayError> {
    let input: Input = input.parse().unwrap();
    let cameras: Vec<(&str, bool)> = plan.cameras.iter().map(|c| (c.name.as_str(), true)).collect();
    let settings = Settings {
        frames,
        rate: None,
        score: Some(Score::new(plan).unwrap()),
        stop: &AtomicBool::new(false),
    };
    let source = Source::open(&input, &cameras).unwrap();
    replay(engine, plan, &source, settings, None, &mut |_| {})
}

/// The figures of a replay of `frames` frames of `input` by `task_set`.
fn measure(tasks: &Tasks, task_set: &str, input: &str, frames: usize) -> Accuracy {
    let (_folder, plan, mut engine) = open(tasks, task_set, Vec::new());
    let summary = run(&mut engine, &plan, input, frames).unwrap();
    engine.close();
    summary.accuracy.unwrap()
}

#[test]
fn the_networks_are_as_right_as_their_cards_say() {
    let tasks = tasks();
    // The cards by what they were measured in, so that networks that run together are measured together.
    let mut runs: BTreeMap<_, Vec<(&str, &Measured)>> = BTreeMap::new();
    for tenant in tasks.sets.values().flat_map(|set| &set.tenants) {
        let card = &tenant.card;
        let said = card
            .accuracy
            .as_ref()
            .unwrap_or_else(|| panic!("the card of {} gives no accuracy", card.name));
        let run = runs.entry((said.task_set.as_str(), said.input.as_str(), said.frames)).or_default();
        if !run.iter().any(|(name, _)| *name == tenant.name) {
            run.push((&tenant.name, said));
        }
    }
    let mut measured = 0;
    for ((task_set, input, frames), cards) in runs {
        let accuracy = measure(&tasks, task_set, input, frames);
        for (name, said) in cards {
            let tenant = accuracy
                .tenants
                .iter()
                .find(|t| t.name == name)
                .expect("the tenant runs in the task set");
            let Figures { measure, value, .. } = tenant.figures.as_ref().expect("it can be scored");
            let found = value.expect("there was something to score");
            assert_eq!(measure.key(), said.metric, "{name}");
            let apart = (found - said.value).abs();
            assert!(
                apart <= WITHIN,
                "{name}: {} is {found:.4}, its card says {}",
                said.metric,
                said.value
            );
            let least = LEAST.iter().find(|(metric, _)| *metric == said.metric).expect("a known metric").1;
            assert!(found >= least, "{name}: {} is {found:.4}, meant is at least {least}", said.metric);
            data::ran(
                "the_networks_are_as_right_as_their_cards_say",
                &format!("{name}: {} {found:.4}", said.metric),
            );
            measured += 1;
        }
    }
    assert_eq!(measured, 3, "scout, surface and signal");
}

#[test]
fn a_frame_that_did_not_run_names_the_network() {
    let fault = InjectedFault {
        frame: 1,
        at: FaultPlace::Tenant(TenantId(0)),
        kind: FaultKind::Fail(7),
    };
    let (_folder, plan, mut engine) = open(&tasks(), "parking", vec![fault]);
    let Err(error) = run(&mut engine, &plan, "synthetic:1", 3) else {
        panic!("the fault stops the replay")
    };
    let name = &plan.tenants[0].name;
    assert_eq!(error.to_string(), format!("frame 1 did not run (t0 is `{name}`)"));
    let ReplayError::Run { source, .. } = error else {
        panic!("{error}")
    };
    assert!(source.to_string().starts_with("tenant t0 failed in segment "), "{source}");
}

#[test]
fn the_driving_modes_run_their_networks_at_their_rates() {
    let tasks = tasks();
    let rates = |set: &str| -> Vec<(&str, u16)> {
        let tenants = tasks.sets[set].tenants.iter();
        tenants.map(|t| (t.name.as_str(), t.rate.divisor)).collect()
    };
    assert_eq!(tasks.default, "urban");
    assert_eq!(rates("urban"), [("scout", 1), ("surface", 1), ("signal", 1)]);
    assert_eq!(rates("highway"), [("scout", 1), ("surface", 2)]);
    assert_eq!(rates("parking"), [("surface", 1), ("scout", 3)]);
    for card in tasks.sets.values().flat_map(|set| &set.tenants).map(|t| &t.card) {
        card.verify().expect("the weights are those of the card");
    }
}

#[test]
fn what_ships_with_the_repository_is_small() {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    fn bytes(path: &Path) -> u64 {
        let entries = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().path());
        entries
            .map(|p| if p.is_dir() { bytes(&p) } else { p.metadata().unwrap().len() })
            .sum()
    }
    let all = bytes(&models);
    assert!(all < 12_000_000, "models/ holds {all} bytes");
}
