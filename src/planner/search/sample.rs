//! Random legal decisions, which predictions are held against: plain candidates after some random changes.
//!
//! Unlike those of [`crate::planner::schedule::random`], which are there to find gaps in the gate, they are of the kind that
//! searchers look at: most operators are as they were, few or many are cut, narrowed or made to wait.

use super::candidate::{Candidate, Field};
use super::judge::{Judge, Score};
use super::menu::Menu;
use super::own;
use crate::planner::lots::Lots;
use crate::planner::schedule::{Decisions, Problem};
use crate::planner::simulate::Costs;

/// Most changes are 2 to the power of this.
const MOST: usize = 8;

/// `count` random decisions for a problem whose rates repeat within the limits. The same problem, costs and seed give the same.
///
/// Each has a taste of its own for what it changes, so that the effects of launch widths, chunks and sync points show one by one as
/// well as together.
pub fn samples(problem: &Problem<'_>, costs: &Costs<'_>, seed: u64, count: usize) -> Vec<Decisions> {
    let field = Field::of(problem);
    if field.sets.is_empty() || field.operators.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let menu = Menu::of(problem, costs);
    let mut judge = Judge::new(problem.tenants, &field, &menu, *costs.machine(), 0, &|_, _| {});
    let mut draw = |number: u64| {
        let mut lots = Lots::new(seed.wrapping_add((number + 1).rotate_left(32)));
        let mut candidate = Candidate::plain(problem, &field, false);
        let (taste, changes) = (own::TASTES[lots.below(own::TASTES.len())], 1 << lots.below(MOST + 1));
        for _ in 0..changes {
            let before = candidate.clone();
            own::change(&judge, &mut candidate, own::draw(&judge, taste, &mut lots), &mut lots);
            // Waits that go in a circle, or units that the board cannot divide so.
            if judge.score(&candidate) == Score::WORST {
                candidate = before;
            }
        }
        candidate.decisions(&field, &menu)
    };
    (0..count as u64).filter_map(&mut draw).collect()
}
