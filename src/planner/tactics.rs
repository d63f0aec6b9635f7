//! The tactic of each operator: the fastest that is known, or one that is hardly slower and runs others of the plan as well.
//!
//! A launch whose kernel an SM has not run lately waits for its instructions, some hundred bytes at a time from the second cache, and the
//! first cache of instructions holds few kernels. Times of operators alone, in chains of repetitions, do not show it: there the
//! instructions lie near from the second repetition on. So the operators of a plan make do with few kernels where that costs them next to
//! nothing: a greedy set cover (Chvátal 1979) of operators by the tactics that are within a bound of their fastest
//! (boards/h200/figures.md, "Few kernels").

use super::CompileOptions;
use super::simulate::paces::{Loads, Paces};
use crate::board::{BackendKind, BoardRecord};
use crate::plan::format::{Operator, Plan, Tactic};
use crate::plan::tactic;

/// How much longer than by its fastest tactic an operator may take, in percent and in nanoseconds: whichever is less.
const HARDLY: (f64, f64) = (8.0, 300.0);

/// Gives each operator of a plan its arithmetic class and its tactic.
pub(super) fn choose(plan: &mut Plan, board: &BoardRecord, options: &CompileOptions) {
    for index in 0..plan.operators.len() {
        // The menu depends on the class.
        plan.operators[index].class = tactic::arithmetic_class_on(plan, &plan.operators[index], board);
        if let Some(fastest) = fastest(plan, &plan.operators[index], board, options) {
            plan.operators[index].tactic = fastest;
        }
    }
    if board.backend == BackendKind::Cuda && !options.generic_kernels {
        let served: Vec<Vec<Tactic>> = plan.operators.iter().map(|o| serving(plan, o, board, options)).collect();
        for (operator, tactic) in plan.operators.iter_mut().zip(few(&served)) {
            operator.tactic = tactic.unwrap_or(operator.tactic);
        }
    }
}

/// The tactics of a plan's operators where a stream has some of the board's units for itself, for several numbers of units: the fastest of
/// those whose pace is known, or few that are hardly slower, as on the whole board ([`choose`]); the operator's own where nothing is known. What
/// operators take on the whole board alone says little about a quarter of it: ResNet-50 took 1.05 ms on 32 SMs of an H200 with
/// tactics that were chosen by it, and 0.67 with these.
pub(super) fn confined(plan: &Plan, board: &BoardRecord, options: &CompileOptions, sizes: &[u32]) -> Vec<(u32, Vec<Tactic>)> {
    let Some(paces) = Paces::of(board) else { return Vec::new() };
    let known = plan.operators.iter().map(|operator| {
        let mut menu = tactic::menu_on(plan, operator, board);
        menu.retain(|&t| paces.knows(t));
        let measured = options.times.as_ref().map(|t| t.under(plan, operator, &menu));
        let measured = measured.unwrap_or_else(|| vec![None; menu.len()]).into_iter();
        let differing = menu.into_iter().zip(measured).map(|(tactic, measured)| {
            let own = under(operator, tactic);
            let differs = Paces::differs(&own, board, measured);
            (own, differs)
        });
        differing.collect()
    });
    let known: Vec<Vec<(Operator, f64)>> = known.collect();
    let on = |&units: &u32| {
        let served = known.iter().map(|known| {
            let time = |(own, differs): &(Operator, f64)| Some((own.tactic, Paces::on_part(own, board, units, *differs)?.0 as f64));
            let mut timed: Vec<(Tactic, f64)> = known.iter().filter_map(time).collect();
            timed.sort_by(|a, b| a.1.total_cmp(&b.1));
            let most = timed.first().map_or(0.0, |(_, fastest)| bound(*fastest));
            timed
                .iter()
                .take_while(|(_, time)| *time <= most)
                .map(|(tactic, _)| *tactic)
                .collect()
        });
        let chosen = few(&served.collect::<Vec<Vec<Tactic>>>());
        (
            units,
            chosen
                .into_iter()
                .zip(&plan.operators)
                .map(|(t, o)| t.unwrap_or(o.tactic))
                .collect(),
        )
    };
    sizes.iter().map(on).collect()
}

/// An operator under another tactic.
fn under(operator: &Operator, tactic: Tactic) -> Operator {
    Operator {
        tactic,
        ..operator.clone()
    }
}

/// The nanoseconds up to which a tactic is hardly slower than one of so many.
fn bound(fastest: f64) -> f64 {
    let (percent, nanos) = HARDLY;
    fastest + (fastest * percent / 100.0).min(nanos)
}

/// The tactic of an operator: the fastest that the board's table knows, else the fastest by pace, else the first of the menu.
fn fastest(plan: &Plan, operator: &Operator, board: &BoardRecord, options: &CompileOptions) -> Option<Tactic> {
    let mut menu = tactic::menu_on(plan, operator, board);
    if options.generic_kernels {
        return menu.pop();
    }
    let measured = options.times.as_ref().and_then(|t| t.fastest(plan, operator, &menu));
    let paced = || Paces::guide(board)?.fastest(operator, board, &menu);
    measured.map(|(tactic, _)| tactic).or_else(paced).or_else(|| menu.first().copied())
}

/// An operator's own tactic, the fastest, and those of its menu that are hardly slower: measured ones beside a measured one, by
/// paces beside a pace.
fn serving(plan: &Plan, operator: &Operator, board: &BoardRecord, options: &CompileOptions) -> Vec<Tactic> {
    let mut menu = tactic::menu_on(plan, operator, board);
    menu.retain(|&t| t != operator.tactic);
    menu.insert(0, operator.tactic);
    let measured = options.times.as_ref().map(|t| t.under(plan, operator, &menu));
    let paced = |tactic| Paces::guide(board)?.own(tactic, &Loads::of(&under(operator, tactic), board));
    let times: Vec<Option<f64>> = match measured {
        Some(times) if times[0].is_some() => times.into_iter().map(|t| t.map(|t| t.0 as f64)).collect(),
        _ => menu.iter().map(|&t| paced(t)).collect(),
    };
    let most = times[0].map_or(0.0, bound);
    let serves = |(place, time): (usize, Option<f64>)| (place == 0 || time.is_some_and(|t| t <= most)).then(|| menu[place]);
    times.into_iter().enumerate().filter_map(serves).collect()
}

/// For each list one of its tactics, so that there are few different ones: that which stands in most lists is taken for all of them, then the
/// same of the lists that are left. Of equals the one that is first in more lists, then the one that comes first.
fn few(served: &[Vec<Tactic>]) -> Vec<Option<Tactic>> {
    let mut chosen: Vec<Option<Tactic>> = vec![None; served.len()];
    loop {
        // Each tactic, the lists that it stands in, and those that it is first in.
        let mut counts: Vec<(Tactic, usize, usize)> = Vec::new();
        for (list, _) in served.iter().zip(&chosen).filter(|(_, chosen)| chosen.is_none()) {
            for (place, &tactic) in list.iter().enumerate() {
                let first = usize::from(place == 0);
                match counts.iter_mut().find(|(known, ..)| *known == tactic) {
                    Some((_, lists, firsts)) => (*lists, *firsts) = (*lists + 1, *firsts + first),
                    None => counts.push((tactic, 1, first)),
                }
            }
        }
        // The last of equals is the greatest.
        let most = counts.iter().rev().max_by_key(|(_, lists, firsts)| (*lists, *firsts));
        let Some(&(most, ..)) = most else { return chosen };
        for (list, chosen) in served.iter().zip(&mut chosen) {
            if chosen.is_none() && list.contains(&most) {
                *chosen = Some(most);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::format::Kernel;
    use proptest::prelude::*;

    const KERNELS: [Kernel; 6] = [
        Kernel::Generic,
        Kernel::Elementwise,
        Kernel::Copy,
        Kernel::Softmax,
        Kernel::Reduce,
        Kernel::Normalise,
    ];

    #[test]
    fn operators_share_what_serves_most_of_them() {
        let [a, b, c, d, ..] = KERNELS.map(Tactic::of);
        // `b` serves three of four, though only one runs fastest with it.
        let served = [vec![a, b], vec![b, c], vec![c, b], vec![d]];
        assert_eq!(few(&served), [Some(b), Some(b), Some(b), Some(d)]);
        // Of equals the one that is fastest for more of them; then the first.
        assert_eq!(few(&[vec![a, b], vec![b, a], vec![b, a]]), [Some(b); 3]);
        assert_eq!(few(&[vec![a, b], vec![b, a]]), [Some(a); 2]);
        assert_eq!(few(&[]), []);
    }

    proptest! {
        #[test]
        fn what_serves_most_operators_runs_all_of_those_and_every_operator_has_one_that_serves_it(
            kernels in proptest::collection::vec(proptest::sample::subsequence(KERNELS.to_vec(), 1..5).prop_shuffle(), 1..40),
        ) {
            let served: Vec<Vec<Tactic>> = kernels.iter().map(|l| l.iter().copied().map(Tactic::of).collect()).collect();
            let chosen = few(&served);
            let runs = |tactic| chosen.iter().filter(|c| **c == Some(tactic)).count();
            for (list, chosen) in served.iter().zip(&chosen) {
                prop_assert!(chosen.is_some_and(|c| list.contains(&c)));
            }
            let serves = |k: &Kernel| served.iter().filter(|list| list.contains(&Tactic::of(*k))).count();
            let most = KERNELS.iter().map(serves).max();
            prop_assert_eq!(KERNELS.iter().map(|k| runs(Tactic::of(*k))).max(), most);
        }
    }
}
