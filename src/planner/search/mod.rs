//! The searchers: from a problem and its costs to decisions.
//!
//! ```text
//! Problem --Field, Menu--> Candidate --Judge (simulator)--> Score      a searcher changes candidates, the judge scores them
//! best candidates, baselines --gate--> Schedule --simulate--> ranking  the first of the ranking is what a plan is made of
//! first of the ranking --auxiliary streams, gate, simulate--> ranking  operators of one network side by side
//! ```
//! All searchers share the candidate, the judge and the gate; they differ in what they change and how. Whatever one finds is
//! ranked beside the baselines, so that nothing predicted slower than the best of them is chosen.

mod alike;
mod apart;
mod auxiliary;
mod candidate;
mod chunks;
mod judge;
mod menu;
mod own;
mod pointers;
mod rivals;
mod sample;
mod shares;
mod workshop;
mod zones;

#[cfg(test)]
mod tests;

pub use alike::Change;
pub use judge::Score;
pub use sample::samples;
pub use workshop::{DIRECTIONS, Idea, Proposal, Workshop};
pub use zones::{Curve, Point, Zones, zones};

use super::Searcher;
use super::lots::Lots;
use super::schedule::{self, Decisions, Problem, ScheduleError};
use super::simulate::{Costs, predict};
use candidate::{Candidate, Field};
use judge::{Judge, Told};
use menu::Menu;
use rivals::Granularity;

/// How hard to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// Seed of searchers that draw lots.
    pub seed: u64,
    /// Candidates that may be looked at.
    pub budget: u64,
}

/// The methods that [`Searcher::Platoon`] starts from, in this order.
const RIVALS: [Searcher; 6] = [
    Searcher::Barriers,
    Searcher::Shares,
    Searcher::Apart,
    Searcher::Spatial,
    Searcher::Temporal,
    Searcher::Gacer,
];
/// Each of them has this part of the budget.
const RIVALS_PART: u64 = 12;

/// What predictions of streams apart are doubted by, in percent: on an H200 those that were to be shorter than all others by less were
/// longer as often as not, and those by more were shorter (boards/h200/table.md).
const APART_DOUBT: u64 = 4;
/// The same of operators of one tenant side by side: of 48 networks on an H200, all that were to be shorter by more were shorter, by up to
/// 48 %, and one that was to be by less took 4 % longer (boards/h200/networks.md, auxiliary streams).
const AUXILIARY_DOUBT: u64 = 1;
/// The best decisions whose tenants' operators are put side by side as well.
const HELPED: usize = 2;
/// How many times as many decisions of streams apart are measured as of others: predictions tell least about them.
const APART_TIMES: usize = 3;

/// A decision in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// Who decided.
    pub searcher: Searcher,
    /// What.
    pub decisions: Decisions,
    /// What the simulator says of it.
    pub score: Score,
    /// The same in the form that it was searched in, and what the simulator says of that, without auxiliary streams; `None` for random
    /// decisions.
    candidate: Option<(Candidate, Score)>,
}

impl Ranked {
    fn of(
        problem: &Problem<'_>,
        costs: &Costs<'_>,
        searcher: Searcher,
        decisions: Decisions,
        candidate: Option<Candidate>,
    ) -> Result<Ranked, ScheduleError> {
        let score = judge_schedule(problem, costs, &decisions)?;
        Ok(Ranked {
            searcher,
            decisions,
            score,
            candidate: candidate.map(|c| (c, score)),
        })
    }

    /// Its score in the order of the ranking: streams apart, and operators of one tenant side by side, come before others where they are
    /// predicted to be shorter by more than what their predictions are off by.
    fn weighed(&self) -> Score {
        let doubt = match (self.decisions.is_confined(), auxiliary::has_auxiliary(&self.decisions)) {
            (true, _) => self.score.time / 100 * APART_DOUBT,
            (false, true) => self.score.time / 100 * AUXILIARY_DOUBT,
            (false, false) => 0,
        };
        Score {
            time: self.score.time.saturating_add(doubt),
            ..self.score
        }
    }
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// All that is worth a measurement, best first: some of every searcher that was at work, and the baselines.
    pub ranking: Vec<Ranked>,
    /// Candidates that were looked at.
    pub looked_at: u64,
}

impl Found {
    /// The best decision that the searcher asked for or a baseline found; `None` if it found nothing.
    pub fn best(&self) -> Option<&Ranked> {
        self.ranking.first()
    }

    /// Each searcher's best decision, best first.
    pub fn best_of_each(&self) -> impl Iterator<Item = &Ranked> {
        let first = |index: &usize| self.before(*index) == 0;
        (0..self.ranking.len()).filter(first).map(|i| &self.ranking[i])
    }

    /// The decisions behind the best one: of each searcher, baselines too, its `most` best, and several times as many of streams apart.
    pub fn rivals(&self, most: usize) -> impl Iterator<Item = &Ranked> {
        let most_of = move |searcher| if searcher == Searcher::Apart { APART_TIMES * most } else { most };
        let among = move |index: &usize| self.before(*index) < most_of(self.ranking[*index].searcher);
        (1..self.ranking.len()).filter(among).map(|i| &self.ranking[i])
    }

    /// How many of the same searcher stand before an entry of the ranking.
    fn before(&self, index: usize) -> usize {
        let searcher = self.ranking[index].searcher;
        self.ranking[..index].iter().filter(|r| r.searcher == searcher).count()
    }
}

/// Searches. `told` hears of the progress.
///
/// The same problem, costs and effort give the same decisions. Among equals the plainer method comes first.
pub fn search(problem: &Problem<'_>, costs: &Costs<'_>, wanted: Searcher, effort: Effort, told: Told<'_>) -> Result<Found, ScheduleError> {
    let mut found: Vec<(Searcher, Decisions, Option<Candidate>)> = Vec::new();
    let mut looked_at = 0;
    let plain = |together| {
        problem
            .cycle_length()
            .map(|_| Candidate::plain(problem, &Field::of(problem), together))
    };
    let sequential = || (Searcher::Sequential, schedule::sequential(problem), plain(true));
    let streams = || (Searcher::Streams, schedule::streams(problem), plain(false));
    match wanted {
        Searcher::Sequential => found.push(sequential()),
        Searcher::Streams | Searcher::Auxiliary => found.push(streams()),
        Searcher::Random => found.push((wanted, schedule::random(problem, effort.seed), None)),
        _ => {
            problem.cycle_length().ok_or(ScheduleError::Cycle)?;
            found.extend([sequential(), streams()]);
            let field = Field::of(problem);
            let menu = Menu::of(problem, costs);
            let mut judge = Judge::new(problem.tenants, &field, &menu, *costs.machine(), effort.budget, told);
            for (searcher, candidate) in walk(problem, &field, &mut judge, wanted, effort) {
                if let Some(decisions) = candidate.decisions(&field, &menu) {
                    found.push((searcher, decisions, Some(candidate)));
                }
            }
            looked_at = judge.spent();
            told(effort.budget, effort.budget);
        }
    }
    let mut ranking = Vec::with_capacity(found.len());
    for (searcher, decisions, candidate) in found {
        ranking.push(Ranked::of(problem, costs, searcher, decisions, candidate)?);
    }
    ranking.sort_by_key(Ranked::weighed);
    let helped = helped(problem, costs, wanted, &ranking)?;
    looked_at += helped.len() as u64;
    ranking.extend(helped);
    ranking.sort_by_key(Ranked::weighed);
    Ok(Found { ranking, looked_at })
}

/// What auxiliary streams make of the free streams, and of the best that all searchers found.
fn helped(problem: &Problem<'_>, costs: &Costs<'_>, wanted: Searcher, ranking: &[Ranked]) -> Result<Vec<Ranked>, ScheduleError> {
    let most = match wanted {
        Searcher::Auxiliary => 0,
        Searcher::Platoon => HELPED,
        _ => return Ok(Vec::new()),
    };
    let free = ranking
        .iter()
        .filter(|r| r.searcher == Searcher::Streams)
        .map(|r| (Searcher::Auxiliary, r));
    let best = ranking
        .iter()
        .filter(|r| !r.decisions.is_confined())
        .take(most)
        .map(|r| (wanted, r));
    let mut found = Vec::new();
    for (searcher, base) in free.chain(best) {
        for (way, decisions) in auxiliary::auxiliary(problem, costs, &base.decisions) {
            let ranked = Ranked::of(problem, costs, searcher, decisions, None)?;
            let candidate = base.candidate.clone().map(|(candidate, score)| {
                let auxiliary = Some(way);
                (Candidate { auxiliary, ..candidate }, score)
            });
            found.push(Ranked { candidate, ..ranked });
        }
    }
    Ok(found)
}

/// The candidates of the searcher that is wanted, and of those that it starts from.
fn walk(problem: &Problem<'_>, field: &Field, judge: &mut Judge<'_>, wanted: Searcher, effort: Effort) -> Vec<(Searcher, Candidate)> {
    let mut kept: Vec<(Searcher, Score, Candidate)> = Vec::new();
    let rivals = if wanted == Searcher::Platoon { &RIVALS[..] } else { &[] };
    let mut left = effort.budget;
    for &searcher in rivals.iter().chain([&wanted]) {
        let budget = if searcher == wanted { left } else { effort.budget / RIVALS_PART };
        let before = judge.spent();
        judge.open(budget);
        let mut lots = Lots::new(effort.seed);
        let plain = Candidate::plain(problem, field, false);
        if !field.sets.is_empty() && field.operators.iter().any(|o| !o.is_empty()) && budget > 0 {
            run(searcher, judge, &plain, problem, field, &kept, &mut lots);
        }
        left = left.saturating_sub(judge.spent() - before);
        kept.extend(judge.close().into_iter().map(|(score, candidate)| (searcher, score, candidate)));
    }
    kept.into_iter().map(|(searcher, _, candidate)| (searcher, candidate)).collect()
}

fn run(
    searcher: Searcher,
    judge: &mut Judge<'_>,
    plain: &Candidate,
    problem: &Problem<'_>,
    field: &Field,
    kept: &[(Searcher, Score, Candidate)],
    lots: &mut Lots,
) {
    let granularity = |temporal, spatial| Granularity { temporal, spatial };
    match searcher {
        Searcher::Sequential | Searcher::Streams | Searcher::Auxiliary | Searcher::Random | Searcher::Measured => {}
        Searcher::Barriers => rivals::barriers(judge, plain, lots),
        Searcher::Shares => shares::shares(judge, plain),
        Searcher::Apart => apart::apart(judge, plain),
        Searcher::Spatial => rivals::gacer(judge, plain, granularity(false, true)),
        Searcher::Temporal => rivals::gacer(judge, plain, granularity(true, false)),
        Searcher::Gacer => rivals::gacer(judge, plain, granularity(true, true)),
        Searcher::Platoon => {
            let together = Candidate::plain(problem, field, true);
            let mut known: Vec<(Score, Candidate)> = kept.iter().map(|(_, score, c)| (*score, c.clone())).collect();
            for baseline in [plain.clone(), together] {
                known.push((judge.score(&baseline), baseline));
            }
            let starts = own::starts(judge, plain, &known);
            own::platoon(judge, &starts, lots);
        }
    }
}

/// The score of decisions as the gate makes them.
fn judge_schedule(problem: &Problem<'_>, costs: &Costs<'_>, decisions: &Decisions) -> Result<Score, ScheduleError> {
    let schedule = schedule::apply(problem, decisions)?;
    // Best effort: a search weighs misses, the planner refuses them.
    let prediction = match predict(problem.tenants, &schedule, costs, true) {
        Ok(prediction) => prediction,
        Err(_) => return Ok(Score::WORST),
    };
    let mut score = Score { late: 0, time: 0 };
    for (frame, own) in prediction.frames.iter().zip(&schedule.cycle) {
        score.time = score.time.saturating_add(frame.total.0);
        for (tenant, finish) in own.tenants.iter().zip(&frame.finish) {
            if let Some(deadline) = problem.tenants[tenant.index()].urgency.deadline {
                score.late = score.late.saturating_add(finish.0.saturating_sub(deadline.0));
            }
        }
    }
    Ok(score)
}
