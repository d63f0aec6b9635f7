//! A GPU that other processes use, too. It puts a process's kernels aside in their midst, and when they go on, what elsewhere comes in the
//! order it was asked for may come late in parts. Kernels whose warps pass stages to each other must not depend on that order.

use crate::child;
use crate::data::{self, Chance};
use crate::gpu::{self, Beside};
use crate::network::{self, Machine};
use crate::road;
use crate::tiles::{self, PATCHES, Tail};
use platoon::bench::stage::Stage;
use platoon::bench::zoo::run::Group;
use platoon::plan::check;
use platoon::plan::format::Kernel;
use platoon::plan::tactic::{Target, menu};
use platoon::planner::{CompileOptions, Compiled, Ports, Searcher};
use platoon::runtime::Options;
use platoon::tensor::DType;
use std::time::{Duration, Instant};

/// How long others use the GPU, and what each of them runs: several at a time, so that one is always waiting for its turn.
const BUSY: Duration = Duration::from_secs(24);
const OTHERS: [&str; 3] = ["v16:8", "r50:8", "v16:1"];
/// Which of them a child is.
const OTHER: &str = "PLATOON_OTHER";

/// What another process does: frame after frame of a network.
fn keep_busy() {
    let facts = gpu::need("gpu_others").unwrap();
    let machine = Machine::gpu(&facts);
    let group = Group::parse(&std::env::var(OTHER).unwrap(), None).unwrap();
    let compiled = group.plan(&machine.board, &road::half()).unwrap();
    let inputs = group.inputs(&compiled);
    let options = Options {
        kernels: Some(gpu::kernels()),
        ..Options::default()
    };
    let mut stage = Stage::open(compiled, inputs, &machine.board, &options).unwrap_or_else(|e| panic!("{e}"));
    let end = Instant::now() + BUSY;
    while Instant::now() < end {
        stage.results().unwrap();
    }
    stage.close();
}

/// The plan with the `variant`-th tactic of a kernel wherever it is offered, in few blocks, whose warps have time to drift apart.
fn under(compiled: &Compiled, machine: &Machine, kernel: Kernel, variant: u16) -> (Compiled, usize) {
    let mut plan = compiled.plan.clone();
    let mut count = 0;
    for index in 0..plan.operators.len() {
        let offered = menu(&plan, &plan.operators[index], Target::of(&machine.board));
        if let Some(tactic) = offered.into_iter().find(|t| t.kernel == kernel && t.variant == variant) {
            plan.operators[index].tactic = tactic;
            plan.operators[index].width = 7;
            count += 1;
        }
    }
    let mut changed = compiled.clone();
    changed.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
    (changed, count)
}

#[test]
fn chains_have_their_bits_beside_other_processes() {
    let test = "gpu_chains_have_their_bits_beside_other_processes";
    let path = "sharing::chains_have_their_bits_beside_other_processes";
    child::enter(path, keep_busy);
    if !tiles::has_wgmma(test) {
        return;
    }
    let file = tiles::model(&PATCHES, &[Tail::Relu, Tail::Joined, Tail::Gelu]);
    let Some(beside) = Beside::of(test, &file) else { return };
    let machine = &beside.machine;
    let compiled = beside.compile(&CompileOptions {
        dtype: DType::F16,
        ports: Ports::Half,
        searcher: Searcher::Sequential,
        ..CompileOptions::default()
    });
    let mut random = Chance::new(9);
    let inputs = network::inputs_of(&compiled, || random.signed());
    let expected = machine.run(compiled.clone(), &inputs).unwrap();
    let engines = (0..2).map(|variant| {
        let (changed, count) = under(&compiled, machine, Kernel::ConvChains, variant);
        assert!(count > 0, "no layer has variant {variant}");
        machine.engine(changed).unwrap()
    });
    let mut engines: Vec<_> = engines.collect();
    let start = |of: &&str| child::command(path).env(OTHER, of).spawn().unwrap();
    let mut others: Vec<_> = OTHERS.iter().map(start).collect();
    let mut frames = 0;
    while others.iter_mut().any(|other| other.try_wait().unwrap().is_none()) {
        for (variant, engine) in engines.iter_mut().enumerate() {
            let found = network::infer(engine, &inputs).unwrap_or_else(|e| panic!("variant {variant}, frame {frames}: {e}"));
            assert_eq!(network::bits_differ(&found, &expected), None, "variant {variant}, frame {frames}");
        }
        frames += 1;
    }
    for mut other in others {
        let status = other.wait().unwrap();
        assert!(status.success(), "another process ended with {status}");
    }
    assert!(engines.into_iter().all(|engine| engine.close() == 0), "a worker did not stop");
    data::ran(test, &format!("{frames} frames beside {} processes", OTHERS.len()));
}
