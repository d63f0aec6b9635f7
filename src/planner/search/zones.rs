//! Sweet zones: how a frame's predicted time changes with the granularity of its regulation, as the papers plot it.
//!
//! Along time: every tenant has so many pointers, at the best places that coordinate descent finds. Along space: every operator of
//! a tenant that can be cut is cut into so many chunks of its batch or of its rows, on free streams. Both have their best place in
//! the middle, or show that a mix needs neither.

use super::candidate::{Candidate, Field};
use super::judge::Judge;
use super::menu::Menu;
use super::pointers;
use crate::planner::schedule::Problem;
use crate::planner::simulate::Costs;
use crate::units::Nanos;

/// Most pointers of a tenant that are looked at.
const POINTERS: usize = 12;
/// Most chunks of an operator.
const CHUNKS: u32 = 4;
/// Candidates that may be looked at for one number of pointers.
const BUDGET: u64 = 2_000;

/// One line of a plot: frames' mean predicted time over a count, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Who is regulated.
    pub name: String,
    /// Count and time.
    pub points: Vec<(u32, Nanos)>,
}

impl Curve {
    /// The count at which the frame is shortest, and its time; the smallest of several.
    pub fn best(&self) -> Option<(u32, Nanos)> {
        self.points.iter().copied().min_by_key(|&(_, time)| time)
    }
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
        over_pointers.push((count as u32, Nanos(score.time / frames)));
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
                points.push((chunks, Nanos(judge.score(&candidate).time / frames)));
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

    #[test]
    fn curves_begin_at_free_streams_and_have_their_best_somewhere() {
        let world = World::new(6, true);
        let problem = world.problem();
        let board = super::super::tests::board(BackendKind::Cuda, 8);
        let costs = Costs::of(&world.operators, &board, &|_| None);
        let zones = zones(&problem, &costs).unwrap();
        let free = super::super::search(
            &problem,
            &costs,
            crate::planner::Searcher::Streams,
            super::super::Effort { seed: 0, budget: 1 },
            &|_, _| {},
        );
        let free = Nanos(free.unwrap().ranking[0].score.time / 2);
        assert_eq!(zones.pointers.points.len(), POINTERS + 1);
        assert_eq!(zones.pointers.points[0], (0, free));
        assert_eq!(zones.chunks.len(), 3);
        for curve in &zones.chunks {
            assert_eq!(curve.points[0], (1, free), "{}", curve.name);
            assert!(curve.points.is_sorted_by_key(|p| p.0) && curve.best().unwrap().1 <= free);
        }
    }
}
