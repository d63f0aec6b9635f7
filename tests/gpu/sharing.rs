//! A GPU that other processes use, too. It puts a process's kernels aside in their midst, and when they go on, what elsewhere comes in the
//! order it was asked for may come late in parts. Kernels whose warps pass stages to each other must not depend on that order.

use crate::child;
use crate::company;
use crate::data::{self, Chance};
use crate::gpu::{self, Beside};
use crate::network::{self, Machine};
use crate::road;
use crate::tiles::{self, PATCHES, Tail};
use platoon::bench::zoo::run::Group;
use platoon::plan::format::Kernel;
use std::time::{Duration, Instant};

/// How long others use the GPU, and what each of them runs: several at a time, so that one is always waiting for its turn.
const BUSY: Duration = Duration::from_secs(24);
const OTHERS: [&str; 3] = ["v16:8", "r50:8", "v16:1"];
/// Which of them a child is.
const OTHER: &str = "PLATOON_OTHER";

/// Blocks of a launch: so few that each has many tiles, and its warps time to drift apart.
const WIDTH: u16 = 7;
/// Tactics of a layer under `ConvChains`, at most.
const TACTICS: usize = 2;

/// What another process does: frame after frame of a network.
fn keep_busy() {
    let facts = gpu::need("gpu_others").unwrap();
    let machine = Machine::gpu(&facts);
    let group = Group::parse(&std::env::var(OTHER).unwrap(), None).unwrap();
    let compiled = group.plan(&machine.board, &road::half()).unwrap();
    let mut stage = company::open(&machine, &group, compiled);
    let end = Instant::now() + BUSY;
    while Instant::now() < end {
        stage.results().unwrap();
    }
    stage.close();
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
    let compiled = beside.compile(&tiles::one_by_one());
    let mut random = Chance::new(9);
    let inputs = network::inputs_of(&compiled, || random.signed());
    let expected = machine.run(compiled.clone(), &inputs).unwrap();
    let engines = (0..TACTICS).map(|round| {
        let mut plan = compiled.plan.clone();
        let (_, fresh) = tiles::under(&mut plan, machine, &[Kernel::ConvChains], round);
        assert!(fresh > 0, "no layer has a tactic of its own in round {round}");
        machine.engine(tiles::of_width(&compiled, plan, WIDTH)).unwrap()
    });
    let mut engines: Vec<_> = engines.collect();
    let start = |of: &&str| child::command(path).env(OTHER, of).spawn().unwrap();
    let mut others: Vec<_> = OTHERS.iter().map(start).collect();
    let mut frames = 0;
    while others.iter_mut().any(|other| other.try_wait().unwrap().is_none()) {
        for (round, engine) in engines.iter_mut().enumerate() {
            let found = network::infer(engine, &inputs).unwrap_or_else(|e| panic!("round {round}, frame {frames}: {e}"));
            assert_eq!(network::bits_differ(&found, &expected), None, "round {round}, frame {frames}");
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
