//! Sweet zones: how a frame's predicted time changes with the granularity of its regulation, as the papers plot it.
//!
//! Along time: every tenant has so many pointers, at the best places that coordinate descent finds. Along space: every operator of
//! a tenant that can be cut is cut into so many chunks of its batch or of its rows, on free streams. Both have their best place in
//! the middle, or show that a mix needs neither.

use super::candidate::{Candidate, Field};
use super::judge::{Judge, Score};
use super::menu::Menu;
use super::pointers;
use crate::planner::schedule::{Decisions, Problem};
use crate::planner::simulate::Costs;
use crate::units::Nanos;

/// Most pointers of a tenant that are looked at.
const POINTERS: usize = 12;
/// Most chunks of an operator.
const CHUNKS: u32 = 4;
/// Candidates that may be looked at for one number of pointers.
const BUDGET: u64 = 2_000;

/// One granularity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Pointers, or chunks.
    pub count: u32,
    /// The mean predicted frame.
    pub predicted: Nanos,
    /// The median measured frame; `None` unless somebody measured.
    pub measured: Option<Nanos>,
    /// What makes it so.
    pub decisions: Decisions,
}

/// One line of a plot: frames' time over a count, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Who is regulated.
    pub name: String,
    /// The points.
    pub points: Vec<Point>,
}

/// The plots of a task set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones {
    /// Over the number of pointers of each tenant: one curve.
    pub pointers: Curve,
    /// Over the chunks of its operators: a curve for each tenant.
    pub chunks: Vec<Curve>,
}

/// The sweet zones of a problem; `None` where its rates do not repeat within the limits.
pub fn zones(problem: &Problem<'_>, costs: &Costs<'_>) -> Option<Zones> {
    problem.cycle_length()?;
    let field = Field::of(problem);
    let menu = Menu::of(problem, costs);
    let plain = Candidate::plain(problem, &field, false);
    let untold = |_: u64, _: u64| {};
    let mut judge = Judge::new(problem.tenants, &field, &menu, *costs.machine(), u64::MAX, &untold);
    let frames = field.cycle.max(1) as u64;
    let point = |count, score: Score, candidate: &Candidate| {
        Some(Point {
            count,
            predicted: Nanos(score.time / frames),
            measured: None,
            decisions: candidate.decisions(&field, &menu)?,
        })
    };
    let mut over_pointers = Vec::new();
    for count in 0..=POINTERS {
        judge.open(BUDGET);
        let mut candidate = plain.clone();
        for set in 0..field.sets.len() {
            pointers::spread(&judge, &mut candidate, set, count);
        }
        let mut score = judge.score(&candidate);
        for set in 0..field.sets.len() {
            score = pointers::descend(&mut judge, &mut candidate, set, score);
        }
        over_pointers.extend(point(count as u32, score, &candidate));
    }
    judge.open(u64::MAX);
    let mut over_chunks = Vec::new();
    for (tenant, record) in problem.tenants.iter().enumerate() {
        let mut points = Vec::new();
        for chunks in 1..=CHUNKS {
            let mut candidate = plain.clone();
            let mut cut_any = chunks == 1;
            for operator in &field.operators[tenant] {
                let index = operator.index();
                // Of several ways to cut it so, the first is that into equal pieces.
                let cut = (0..menu.cuts(index) as u8).find(|&cut| menu.chunks(index, cut) == chunks);
                if let Some(cut) = cut.filter(|_| chunks > 1) {
                    (candidate.cuts[index], cut_any) = (cut, true);
                }
            }
            if cut_any {
                let score = judge.score(&candidate);
                points.extend(point(chunks, score, &candidate));
            }
        }
        over_chunks.push(Curve {
            name: record.name.clone(),
            points,
        });
    }
    Some(Zones {
        pointers: Curve {
            name: "all".into(),
            points: over_pointers,
        },
        chunks: over_chunks,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::World;
    use super::*;
    use crate::board::BackendKind;
    use crate::planner::{Searcher, schedule};

    fn found(world: &World) -> (Zones, Nanos) {
        let problem = world.problem();
        let costs = Costs::of(&world.operators, &super::super::tests::board(BackendKind::Cuda, 8), &|_| None);
        let effort = super::super::Effort { seed: 0, budget: 1 };
        let free = super::super::search(&problem, &costs, Searcher::Streams, effort, &|_, _| {}).unwrap();
        let found = zones(&problem, &costs).unwrap();
        let points = found.chunks.iter().chain([&found.pointers]).flat_map(|c| &c.points);
        points.for_each(|p| assert!(schedule::apply(&problem, &p.decisions).is_ok(), "{}", p.count));
        (found, Nanos(free.ranking[0].score.time / 2))
    }

    #[test]
    fn curves_begin_at_free_streams_and_every_point_is_legal() {
        let (zones, free) = found(&World::new(6, false));
        let first = |curve: &Curve| (curve.points[0].count, curve.points[0].predicted);
        assert_eq!((first(&zones.pointers), zones.chunks.len()), ((0, free), 3));
        for curve in &zones.chunks {
            assert_eq!(first(curve), (1, free), "{}", curve.name);
            assert!(curve.points.is_sorted_by_key(|p| p.count));
        }
    }

    #[test]
    fn pointers_of_one_that_reads_another_leave_its_source_in_front_of_it() {
        // The gate, which asks that what is read comes first, has taken every point.
        let (zones, _) = found(&World::new(6, true));
        let counts: Vec<_> = zones.pointers.points.iter().map(|p| p.count).collect();
        assert_eq!(counts.len(), POINTERS + 1);
        assert!(counts[0] == 0 && counts.is_sorted());
    }
}
