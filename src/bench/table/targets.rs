//! What a row's plan should reach, beside what it reaches.
//!
//! Ratios divide medians of the device's clock; above 1 the plan is faster. Where a side has no such clock, as PyTorch without a
//! graph, its frames stand in. Of MPS there are only frames: with those of the plan it is compared.

use super::contest::{Entry, FREE, Runner};
use super::rows::Row;
use crate::bench::choice::REFERENCE;
use crate::bench::measure::Samples;
use crate::plan::format::Plan;
use crate::planner::floor::Limits;

/// The plan should come so near to what the floor allows over sequential execution, where that is less than the papers found.
const NEAR: f64 = 0.9;
/// A plan within this multiple of the floor needs not be so much faster than PyTorch.
const OF_FLOOR: f64 = 1.25;

/// The shortest time in nanoseconds that networks side by side could take: that of the longest of them by itself, all their
/// arithmetic, or all their bytes, whichever is longest.
pub fn floor(plan: &Plan, limits: &Limits) -> f64 {
    let (mut arithmetic, mut memory) = (0.0, 0.0);
    let mut chains = vec![0.0; plan.tenants.len()];
    for operator in &plan.operators {
        let own = limits.floor(operator);
        arithmetic += own.arithmetic;
        memory += own.memory;
        if let Some(chain) = chains.get_mut(operator.tenant.index()) {
            *chain += own.total();
        }
    }
    chains.into_iter().fold(f64::max(arithmetic, memory), f64::max)
}

/// How a row's plan stands to what it should reach. Ratios are `None` where there is nothing to compare with.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The plan's time over the floor.
    pub of_floor: f64,
    /// Over our sequential plan.
    pub over_sequential: Option<f64>,
    /// What that should be by the papers.
    pub paper: Option<f64>,
    /// The most that it could be, as near to the floor as is asked for.
    pub possible: Option<f64>,
    /// Over our plan with free streams.
    pub over_streams: Option<f64>,
    /// Over the fastest way of PyTorch, and its name.
    pub over_peer: Option<(f64, String)>,
    /// What that should be.
    pub peer_aim: Option<f64>,
    /// Over MPS, frame by frame.
    pub over_mps: Option<f64>,
    /// True if every searcher's results are those of the sequential plan.
    pub identical: bool,
}

impl Verdict {
    /// The verdict on the first of the entries, which is the plan that is kept; `floor` in nanoseconds.
    pub fn of(row: &Row, entries: &[Entry], floor: f64) -> Option<Verdict> {
        let plan = entries.first()?;
        let device = |e: &Entry| e.side.device().median().0 as f64;
        let own = device(plan).max(1.0);
        let named = |name: &str| entries.iter().find(|e| e.name == name);
        let sequential = named(REFERENCE).map(device);
        // Without a graph PyTorch is not confined where the board is a part of its GPU: it counts only where nothing else is there.
        let graph = |e: &Entry| e.side.networks.count() > 0;
        let peers = || entries.iter().filter(|e| e.runner == Runner::Peer);
        let confined = peers().any(graph);
        let best = peers()
            .filter(|e| graph(e) || !confined)
            .min_by(|a, b| device(a).total_cmp(&device(b)));
        let frame = |e: &Entry| e.side.frame.median().0 as f64;
        let mps = entries.iter().find(|e| e.runner == Runner::Mps);
        Some(Verdict {
            of_floor: own / floor.max(1.0),
            over_sequential: sequential.map(|s| s / own),
            paper: row.paper,
            possible: sequential.map(|s| NEAR * s / floor.max(1.0)),
            over_streams: named(FREE).map(|s| device(s) / own),
            over_peer: best.map(|b| (device(b) / own, b.name.clone())),
            peer_aim: row.over_peer,
            over_mps: mps.map(|m| frame(m) / frame(plan).max(1.0)),
            identical: entries.iter().all(|e| !matches!(e.runner, Runner::Plan { identical: false, .. })),
        })
    }

    /// What the speed-up over sequential execution should be: the papers', or what the floor allows; `None` without a paper.
    pub fn sequential_aim(&self) -> Option<f64> {
        Some(self.possible?.min(self.paper?))
    }

    /// True if the speed-up over sequential execution is reached; `None` if none is asked for.
    pub fn meets_sequential(&self) -> Option<bool> {
        Some(self.over_sequential? >= self.sequential_aim()?)
    }

    /// True if the plan is no slower than free streams.
    pub fn meets_streams(&self) -> Option<bool> {
        Some(self.over_streams? >= 1.0)
    }

    /// True if PyTorch is left behind as far as asked for, or the floor is near.
    pub fn meets_peer(&self) -> Option<bool> {
        Some(self.over_peer.as_ref()?.0 >= self.peer_aim? || self.of_floor <= OF_FLOOR)
    }
}

/// The geometric mean of some ratios; `None` of none.
pub fn geometric_mean(ratios: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for ratio in ratios {
        sum += ratio.ln();
        count += 1;
    }
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// How far a prediction is off, as a part of what was measured; above 0 where it was too long. `None` for who makes none.
pub fn error(entry: &Entry) -> Option<f64> {
    let Runner::Plan { predicted, .. } = entry.runner else {
        return None;
    };
    let measured: &Samples = entry.side.device();
    Some(predicted.0 as f64 / measured.median().0.max(1) as f64 - 1.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::stage::Side;
    use crate::units::Nanos;

    pub fn entry(name: &str, runner: Runner, frame: u64, networks: Option<u64>) -> Entry {
        let mut side = Side::default();
        side.frame.extend([Nanos(frame * 1000)]);
        side.networks.extend(networks.map(|n| Nanos(n * 1000)));
        Entry {
            name: name.into(),
            runner,
            side,
        }
    }

    /// A mix that took 100 us by the plan, 150 in turn, 110 on free streams.
    pub fn entries() -> Vec<Entry> {
        let plan = |predicted| Runner::Plan {
            predicted: Nanos(predicted),
            identical: true,
        };
        vec![
            entry("platoon", plan(90_000), 120, Some(100)),
            entry("streams", plan(110_000), 130, Some(110)),
            entry("sequential", plan(150_000), 170, Some(150)),
            entry("PyTorch eager, sequential", Runner::Peer, 4000, None),
            entry("PyTorch graph, streams", Runner::Peer, 200, Some(180)),
            entry("MPS, a process each", Runner::Mps, 180, None),
        ]
    }

    #[test]
    fn a_verdict_compares_like_with_like() {
        let row = Row::of("r50+v16+m3", None).unwrap();
        let verdict = Verdict::of(&row, &entries(), 80_000.0).unwrap();
        assert_eq!(
            (verdict.of_floor, verdict.over_sequential, verdict.paper),
            (1.25, Some(1.5), Some(1.5))
        );
        assert_eq!(verdict.possible, Some(0.9 * 150.0 / 80.0));
        assert_eq!(verdict.over_peer, Some((1.8, "PyTorch graph, streams".to_string())));
        assert_eq!((verdict.over_streams, verdict.over_mps), (Some(1.1), Some(1.5)));
        let met = (verdict.meets_sequential(), verdict.meets_streams(), verdict.meets_peer());
        assert_eq!(met, (Some(true), Some(true), Some(true)));
        assert!(verdict.identical && verdict.sequential_aim() == Some(1.5));
    }

    #[test]
    fn a_peer_without_a_graph_counts_where_there_is_no_other() {
        let row = Row::of("r50+v16+m3", None).unwrap();
        let mut entries = entries();
        entries[3].side.frame = Samples::default();
        entries[3].side.frame.extend([Nanos(150_000)]);
        let over = |entries: &[Entry]| Verdict::of(&row, entries, 80_000.0).unwrap().over_peer;
        assert_eq!(
            over(&entries),
            Some((1.8, "PyTorch graph, streams".to_string())),
            "the other is not confined"
        );
        entries.remove(4);
        assert_eq!(over(&entries), Some((1.5, "PyTorch eager, sequential".to_string())));
    }

    #[test]
    fn what_is_not_reached_is_not_met() {
        let row = Row::of("r50:1+v16:1+m3:1", None).unwrap();
        let mut entries = entries();
        entries[0].side.networks.extend([Nanos(160_000), Nanos(160_000)]);
        let verdict = Verdict::of(&row, &entries, 80_000.0).unwrap();
        let met = (verdict.meets_sequential(), verdict.meets_streams(), verdict.meets_peer());
        assert_eq!(met, (Some(false), Some(false), Some(false)));
        let alone = Verdict::of(&row, &entries[..1], 80_000.0).unwrap();
        assert_eq!((alone.meets_sequential(), alone.meets_peer(), alone.over_mps), (None, None, None));
    }

    #[test]
    fn means_of_ratios_are_geometric() {
        assert!((geometric_mean([2.0, 8.0]).unwrap() - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean([]), None);
    }

    #[test]
    fn predictions_that_are_too_short_are_below_nothing() {
        let errors: Vec<Option<f64>> = entries().iter().map(error).collect();
        assert!((errors[0].unwrap() + 0.1).abs() < 1e-12 && errors[3].is_none() && errors[5].is_none());
    }
}
