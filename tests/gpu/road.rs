//! The networks of the repository on the synthetic camera: task sets, engines, and what they give frame by frame.

use crate::av;
use crate::network::Machine;
use platoon::plan::deployment::Deployment;
use platoon::plan::format::Plan;
use platoon::planner::tasks::Tasks;
use platoon::planner::{CompileOptions, compile_task_set, table};
use platoon::replay::picture::Picture;
use platoon::replay::source::{Input, Source};
use platoon::runtime::{Engine, Options, Ticket};
use platoon::task::Status;
use platoon::tensor::DType;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

/// The results of a frame: each tenant's bytes by its name.
pub type Results = BTreeMap<String, Vec<u8>>;

/// The task file over the networks of `models/`.
pub fn tasks() -> Tasks {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/tasks.toml");
    Tasks::load(&file).unwrap_or_else(|e| panic!("{e}"))
}

/// Six frames of a drive, far enough apart to differ.
pub fn pictures() -> &'static [Picture] {
    static PICTURES: OnceLock<Vec<Picture>> = OnceLock::new();
    PICTURES.get_or_init(|| {
        let input: Input = "synthetic:203@40".parse().unwrap_or_else(|e| panic!("{e}"));
        let source = Source::open(&input, &[("front", true)]).unwrap_or_else(|e| panic!("{e}"));
        let shots = source.shots(6);
        shots.map(|mut shot| shot.pictures.remove(0).unwrap().unwrap()).collect()
    })
}

/// In f16, as a GPU's plans are.
pub fn half() -> CompileOptions {
    CompileOptions {
        dtype: DType::F16,
        best_effort: true,
        ..CompileOptions::default()
    }
}

/// Task sets compiled for a machine, the first the default.
pub fn deployment(machine: &Machine, tasks: &Tasks, sets: &[&str], slots: u16, options: &CompileOptions) -> Deployment {
    changed(machine, tasks, sets, slots, options, |_| ())
}

/// The same with a change of each plan.
pub fn changed(
    machine: &Machine,
    tasks: &Tasks,
    sets: &[&str],
    slots: u16,
    options: &CompileOptions,
    change: impl Fn(&mut Plan),
) -> Deployment {
    let compile = |set: &&str| compile_task_set(tasks, set, &machine.board, options).unwrap_or_else(|e| panic!("{set}: {e:?}"));
    let mut compiled: Vec<_> = sets.iter().map(compile).collect();
    compiled.iter_mut().for_each(|c| change(&mut c.plan));
    let table = table(&compiled, &machine.board, sets[0], slots).unwrap();
    let mut weights: BTreeMap<_, _> = BTreeMap::new();
    let plans: Vec<_> = compiled
        .into_iter()
        .map(|c| {
            weights.extend(c.weight_files);
            c.plan
        })
        .collect();
    Deployment::assemble(table, plans, weights.into_values().collect()).unwrap_or_else(|e| panic!("{e}"))
}

/// `urban` in two slots, its streams confined to so many SMs each, 0 for all.
pub fn apart<const N: usize>(machine: &Machine, units: [u16; N]) -> Deployment {
    changed(machine, &tasks(), &["urban"], 2, &half(), |plan| {
        plan.streams.iter_mut().zip(units).for_each(|(stream, units)| stream.units = units);
    })
}

/// An engine on a machine.
pub fn open(machine: &Machine, deployment: Deployment, options: &Options) -> Engine {
    Engine::over(deployment, &*machine.backend, options).unwrap_or_else(|e| panic!("{}", crate::network::told(&e)))
}

/// Submits a frame with one picture.
pub fn submit(engine: &mut Engine, picture: &Picture) -> Ticket {
    engine.submit(&[Some(av::image(picture))]).unwrap_or_else(|e| panic!("{e}"))
}

/// Waits for a frame and takes what its tenants gave; its slot is free again.
pub fn finish(engine: &mut Engine, ticket: Ticket) -> Results {
    let report = engine.wait(&ticket, None).unwrap_or_else(|e| panic!("{e}"));
    let mut results = Results::new();
    for tenant in &report.tenants {
        let result = engine.result(&ticket, tenant.tenant).unwrap();
        if result.status == Status::Fresh && result.of_frame == report.frame {
            let bytes = result.tensors().flat_map(|(_, b)| b.iter().copied()).collect();
            results.insert(result.name().to_owned(), bytes);
        }
    }
    engine.release(ticket).unwrap();
    results
}

/// Runs pictures, as many frames in flight as there are slots.
pub fn drive<'a>(engine: &mut Engine, slots: usize, pictures: impl IntoIterator<Item = &'a Picture>) -> Vec<Results> {
    let mut results = Vec::new();
    let mut open = std::collections::VecDeque::new();
    for picture in pictures {
        open.push_back(submit(engine, picture));
        if open.len() == slots {
            let ticket = open.pop_front().unwrap();
            results.push(finish(engine, ticket));
        }
    }
    for ticket in open {
        results.push(finish(engine, ticket));
    }
    results
}

/// The first frame and tenant whose bytes differ.
pub fn differ(found: &[Results], expected: &[Results]) -> Option<(usize, String)> {
    assert_eq!(found.len(), expected.len());
    found.iter().zip(expected).enumerate().find_map(|(frame, (f, e))| {
        let all = f.keys().chain(e.keys());
        let name = all.into_iter().find(|name| f.get(*name) != e.get(*name))?;
        Some((frame, name.clone()))
    })
}
