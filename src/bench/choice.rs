//! The measured choice: of a task set's plan and its rivals, the one that is fastest on this machine.
//!
//! The simulator ranks, a measurement decides: the best few of each searcher and the baselines run in turns on one engine, and
//! the one with the shortest tail is kept. As the baselines are among them, what is kept is no slower than the best baseline was
//! in the same run; and a searcher's plan must be faster by more than two runs of one plan differ by. A plan that computes other
//! bits than the sequential one is shown, and not kept however fast it is.

use super::BenchError;
use super::bed::Bed;
use super::inputs::{self, Picture};
use super::measure::{Samples, TURN, WARM};
use super::refine::{self, BASELINES, Limit};
use super::stage::{Inputs, Stage};
use crate::board::BoardRecord;
use crate::plan::format::Plan;
use crate::planner::Compiled;
use crate::planner::report::{MeasuredReport, RoundReport};
use crate::runtime::Options;
use std::sync::Arc;
use std::time::Duration;

/// Plans of each searcher that are measured, unless another number is asked for.
pub const MOST: usize = 3;
/// The searcher whose plan's results the others' are compared with.
pub const REFERENCE: &str = "sequential";
/// How much shorter than the best baseline's the median of another plan must be, as a part of it: medians of one plan in two runs
/// differ by less.
const MARGIN: f64 = 0.005;

/// Plans by searcher and times, the one to keep first: that with the shortest tail, the quantile `tail`, then the shortest median,
/// unless it is hardly faster than the best baseline. Those that are not `identical` come last. Among equals, the first.
pub fn order(plans: &[(&str, &Samples)], identical: &[bool], tail: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..plans.len()).collect();
    order.sort_by_key(|&p| (!identical[p], plans[p].1.quantile(tail), plans[p].1.median()));
    let median = |p: usize| plans[p].1.median().0 as f64;
    let baseline = |p: usize| identical[p] && BASELINES.contains(&plans[p].0);
    if let (Some(&first), Some(place)) = (order.first(), order.iter().position(|&p| baseline(p)))
        && median(first) > (1.0 - MARGIN) * median(order[place])
    {
        order[..=place].rotate_right(1);
    }
    order
}

/// Which of some plans the others' results are compared with.
pub fn reference(plans: &[Plan]) -> usize {
    plans.iter().position(|p| p.searcher == REFERENCE).unwrap_or(0)
}

/// What frames of a plan run on where nobody says: noise from a fixed seed.
pub fn noise(plan: &Plan) -> Inputs {
    Inputs {
        pictures: plan.cameras.iter().map(Picture::of).collect(),
        tensors: inputs::tensors(plan, &vec![(-1.0, 1.0); plan.tenants.len()]),
    }
}

/// Refines a compiled task set's plans on this machine for about as long as is said, if it was compiled for that.
pub fn refine(
    compiled: &mut Compiled,
    inputs: impl Into<Arc<Inputs>>,
    board: &BoardRecord,
    options: &Options,
    time: Duration,
    told: impl FnMut(&RoundReport),
) -> Result<(), BenchError> {
    if compiled.refinery.is_none() {
        return Ok(());
    }
    let mut bed = Bed::new(&compiled.weight_files, inputs, board, options)?;
    refine::refine(compiled, &mut bed, Limit::of(time), told)
}

/// What a frame's time is, and which tail of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The host's, from submission until the last result is there; the p99 counts. Copying a picture in takes a host as long with any plan,
    /// and several times as long as small networks take.
    Frame,
    /// The device's, of the networks alone; the p90 counts, as few frames are enough for it.
    Networks,
}

impl Clock {
    fn tail(self) -> f64 {
        match self {
            Clock::Frame => 0.99,
            Clock::Networks => 0.9,
        }
    }
}

/// Runs at least `frames` counted frames of a compiled task set's plan and of each of its rivals, in turns of whole cycles. Gives
/// the task set back with the fastest plan whose results have the sequential plan's bits, by its tail and then by its median, and
/// with the figures of all in its report; its rivals are gone. `progress` gets the number of frames done of each.
pub fn choose(
    mut compiled: Compiled,
    (inputs, clock): (impl Into<Arc<Inputs>>, Clock),
    board: &BoardRecord,
    options: &Options,
    frames: usize,
    mut progress: impl FnMut(usize),
) -> Result<Compiled, BenchError> {
    let plans: Vec<Plan> = std::iter::once(&compiled.plan).chain(&compiled.rivals).cloned().collect();
    let mut stage = Stage::open(compiled.clone(), inputs, board, options)?;
    let identical = stage.identical(reference(&plans))?;
    let cycle = compiled.plan.cycle.len().max(1);
    let turn = TURN.next_multiple_of(cycle);
    let mut samples = vec![Samples::default(); plans.len()];
    let mut done = 0;
    while done < frames {
        for (plan, samples) in samples.iter_mut().enumerate() {
            stage.select(plan)?;
            samples.extend(match clock {
                Clock::Frame => stage.run(WARM, turn)?.frame,
                Clock::Networks => stage.run(WARM, turn)?.device(),
            });
        }
        done += turn;
        progress(done.min(frames));
    }
    stage.close();

    // Among equals, what was predicted to be faster.
    let measured: Vec<(&str, &Samples)> = plans.iter().map(|p| p.searcher.as_str()).zip(&samples).collect();
    let order = order(&measured, &identical, clock.tail());
    let figures = order.iter().map(|&p| MeasuredReport {
        searcher: plans[p].searcher.clone(),
        predicted_ms: plans[p].prediction.longest().as_ms(),
        p50_ms: samples[p].median().as_ms(),
        p99_ms: samples[p].quantile(0.99).as_ms(),
        frames: samples[p].count(),
        identical: identical[p],
    });
    let figures = figures.collect();
    compiled.rivals.clear();
    compiled.plan = plans.into_iter().nth(order[0]).unwrap_or(compiled.plan);
    compiled.report.choose(&compiled.plan, figures);
    Ok(compiled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::zoo::run::Group;
    use crate::planner::{CompileOptions, Searcher, boards};
    use crate::units::Nanos;

    #[test]
    fn a_plan_that_is_hardly_faster_than_a_baseline_is_not_kept() {
        let samples = |times: [u64; 3]| {
            let mut samples = Samples::default();
            samples.extend(times.map(Nanos));
            samples
        };
        let [a, b, c] = [[990, 999, 1000], [990, 1000, 1001], [900, 980, 1002]].map(samples);
        let order = |plans: &[_], tail| order(plans, &[true; 3][..plans.len()], tail);
        let found = |gacer, streams| order(&[("gacer", gacer), ("sequential", &c), ("streams", streams)], 0.99);
        assert_eq!(found(&a, &b), [2, 0, 1]);
        assert_eq!(order(&[("streams", &b), ("gacer", &c)], 0.9), [0, 1], "the tail counts first");
        let fast = samples([900, 900, 900]);
        assert_eq!(found(&fast, &b), [0, 2, 1]);
        assert_eq!(order(&[("gacer", &a)], 0.9), [0]);
        // What computes something else is not kept, nor does it stand for the baselines.
        let plans = [("gacer", &fast), ("streams", &fast), ("platoon", &a), ("sequential", &c)];
        assert_eq!(super::order(&plans, &[false, false, true, true], 0.99), [3, 2, 0, 1]);
        assert_eq!(super::order(&plans, &[false; 4], 0.99)[..2], [0, 1]);
    }

    #[test]
    fn the_plan_with_the_shortest_tail_is_kept_and_the_others_are_told_of() {
        let group = Group::parse("bst:1+bst:2", None).unwrap();
        let board = boards::load("host").unwrap();
        let options = CompileOptions {
            searcher: Searcher::Gacer,
            budget: 200,
            rivals: 2,
            ..CompileOptions::default()
        };
        let compiled = group.plan(&board, &options).unwrap();
        let all: Vec<Plan> = std::iter::once(&compiled.plan).chain(&compiled.rivals).cloned().collect();
        let engine = Options {
            workers: Some(1),
            ..Options::default()
        };
        let mut heard = Vec::new();
        let inputs = noise(&compiled.plan);
        let chosen = choose(compiled, (inputs, Clock::Frame), &board, &engine, 6, |done| heard.push(done)).unwrap();
        assert_eq!(heard, [4, 6]);
        let figures = &chosen.report.measured;
        assert!(figures.len() == all.len() && figures.iter().all(|f| f.frames == 8 && f.p50_ms > 0.0 && f.identical));
        // A baseline that is as good as any stands before those that are better by less than the noise.
        let rest = if BASELINES.contains(&figures[0].searcher.as_str()) {
            &figures[1..]
        } else {
            &figures[..]
        };
        assert!(rest.is_sorted_by_key(|f| (f.p99_ms, f.p50_ms)));
        assert!(all.contains(&chosen.plan) && chosen.rivals.is_empty());
        assert_eq!(
            (&chosen.plan.searcher, &chosen.report.searcher),
            (&figures[0].searcher, &figures[0].searcher)
        );
        let searchers: Vec<&str> = figures.iter().map(|f| f.searcher.as_str()).collect();
        assert!(
            ["sequential", "streams", "gacer"].iter().all(|s| searchers.contains(s)),
            "{searchers:?}"
        );
        let weights = chosen
            .plan
            .weight_files
            .iter()
            .all(|w| chosen.weight_files.iter().any(|(d, _)| *d == w.digest));
        assert!(weights, "the weights are there for whichever plan is kept");
    }
}
