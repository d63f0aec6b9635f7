//! Operators of a stream share its workspace: what one leaves there changes nothing of what the next computes.

use crate::data;
use crate::gpu;
use crate::network::Machine;
use crate::road;
use platoon::bench::stage::{Results, Stage, same_bits};
use platoon::bench::zoo::run::Group;
use platoon::plan::check;
use platoon::plan::format::{Kernel, Operator, Plan, Tactic};
use platoon::plan::tactic::conv_mma::{MmaTile, Splits};
use platoon::plan::tactic::stream_wgmma::StreamTile;
use platoon::plan::tactic::{Target, menu};
use platoon::planner::{CompileOptions, Compiled, Searcher};
use platoon::runtime::Options;

/// Frames of each run: what the last operator of one leaves, the first of the next meets.
const FRAMES: usize = 3;

/// True if blocks of the operator count each other in the workspace.
fn counts(operator: &Operator, tactic: Tactic) -> bool {
    let apart = |tile: &MmaTile| tile.splits == Splits::Apart;
    match tactic.kernel {
        Kernel::StreamWgmma => StreamTile::of(tactic).is_some_and(|tile| tile.apart),
        _ => operator.class.split_k > 1 && MmaTile::of(tactic).is_some_and(apart),
    }
}

/// An engine on a compiled group, with data for its inputs.
pub fn open(machine: &Machine, group: &Group, compiled: Compiled) -> Stage {
    let inputs = group.inputs(&compiled);
    let options = Options {
        kernels: Some(gpu::kernels()),
        ..Options::default()
    };
    Stage::open(compiled, inputs, &machine.board, &options).unwrap_or_else(|e| panic!("{e}"))
}

/// Runs a group one network after another on one stream, with operators that count wherever there is such a tactic, or nowhere:
/// the results of each tenant, and how many operators count and how many squeeze.
fn run(machine: &Machine, group: &str, counting: bool) -> (Vec<Results>, usize, usize) {
    let group = Group::parse(group, None).unwrap();
    let options = CompileOptions {
        searcher: Searcher::Sequential,
        ..road::half()
    };
    let mut compiled = group.plan(&machine.board, &options).unwrap();
    let mut plan = compiled.plan.clone();
    let other = |plan: &Plan, operator: &Operator| {
        let offered = menu(plan, operator, Target::of(&machine.board));
        offered.into_iter().find(|&tactic| counts(operator, tactic) == counting)
    };
    for index in 0..plan.operators.len() {
        if let Some(tactic) = other(&plan, &plan.operators[index]) {
            plan.operators[index].tactic = tactic;
        }
    }
    assert_eq!(plan.streams.len(), 1);
    let number = |of: &dyn Fn(&Operator) -> bool| plan.operators.iter().filter(|o| of(o)).count();
    let found = (number(&|o| counts(o, o.tactic)), number(&|o| o.tactic.kernel == Kernel::Squeeze));
    compiled.plan = check::check(plan).unwrap_or_else(|e| panic!("{e}")).into_inner();
    let mut stage = open(machine, &group, compiled);
    let frames: Vec<_> = (0..FRAMES).map(|_| stage.results().unwrap()).collect();
    stage.close();
    assert!(frames.iter().all(|f| same_bits(f, &frames[0])), "frames of one input differ");
    (frames.into_iter().next().unwrap_or_default(), found.0, found.1)
}

#[test]
fn squeezes_change_nothing_for_layers_that_count_their_blocks() {
    let test = "gpu_squeezes_change_nothing_for_layers_that_count_their_blocks";
    let Some(facts) = gpu::need(test) else { return };
    let machine = Machine::gpu(&facts);
    let (squeezing, none, squeezes) = run(&machine, "m3:1", false);
    let (layers, others, _) = run(&machine, "alex:1", false);
    assert_eq!((none, others), (0, 0));
    for (group, first) in [("m3:1+alex:1", 0), ("alex:1+m3:1", 1)] {
        let (found, counting, squeezed) = run(&machine, group, true);
        assert!(counting > 0 && squeezed == squeezes && squeezes > 0, "{counting} {squeezed}");
        for (expected, at) in [(&squeezing, first), (&layers, 1 - first)] {
            assert!(
                same_bits(&found[at..=at], expected),
                "{group}: tenant {at} gives other bits beside the other"
            );
        }
    }
    data::ran(test, &format!("{squeezes} squeezes beside fully connected layers on one stream"));
}
