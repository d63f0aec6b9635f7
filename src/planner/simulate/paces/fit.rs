//! Paces from measured times: least squares with no negative pace (Lawson and Hanson 1974, chapter 23), of each time's relative error,
//! by coordinate descent.

use super::{COUNT, Loads, Pace, Paces, kernel};
use crate::plan::format::Tactic;
use crate::planner::optable::told;
use crate::units::Nanos;
use std::collections::BTreeMap;

/// What holds paces near nothing that the times do not ask for: part of a time that a pace may be short for being smaller.
const RIDGE: f64 = 0.03;
/// Sweeps of the descent at most, and the step, in parts of the largest pace, below which it has ended.
const SWEEPS: usize = 20_000;
const STILL: f64 = 1e-9;
/// Figures of a pace that are kept.
const FIGURES: usize = 5;

/// A measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// The tactic.
    pub tactic: Tactic,
    /// What its launch did.
    pub loads: Loads,
    /// How long it took.
    pub time: Nanos,
    /// What its error counts, above 0.
    pub weight: f64,
}

/// The paces of all tactics and kernels that were observed.
pub fn paces(observed: &[Observed], provenance: Vec<String>) -> Paces {
    let mut named: BTreeMap<String, BTreeMap<([u64; COUNT], Nanos), &Observed>> = BTreeMap::new();
    for one in observed {
        for name in [told(one.tactic), kernel(one.tactic)] {
            // Operators that are alike are measured once.
            let alike = (one.loads.0.map(f64::to_bits), one.time);
            named.entry(name).or_default().insert(alike, one);
        }
    }
    let fit = |(name, own): (String, BTreeMap<_, &Observed>)| {
        let own: Vec<&Observed> = own.into_values().collect();
        let each = pace(&own).map(kept);
        (
            name,
            Pace {
                each,
                times: own.len() as u32,
            },
        )
    };
    Paces::new(provenance, named.into_iter().map(fit).collect())
}

/// Nanoseconds for one of each load.
fn pace(observed: &[&Observed]) -> [f64; COUNT] {
    // In parts of the time, and each load in parts of its largest: so all are alike to the ridge.
    let part = |o: &Observed, load: usize| o.loads.0[load] / o.time.0.max(1) as f64;
    let mut scale = [0.0f64; COUNT];
    for (load, scale) in scale.iter_mut().enumerate() {
        *scale = observed.iter().map(|o| part(o, load)).fold(0.0, f64::max);
    }
    let mut products = [[0.0; COUNT]; COUNT];
    let mut target = [0.0; COUNT];
    let all: f64 = observed.iter().map(|o| o.weight).sum();
    let even = observed.len() as f64 / all;
    for one in observed {
        let row: [f64; COUNT] = std::array::from_fn(|load| if scale[load] > 0.0 { part(one, load) / scale[load] } else { 0.0 });
        let weight = one.weight * even;
        for a in 0..COUNT {
            target[a] += weight * row[a];
            for b in 0..COUNT {
                products[a][b] += weight * row[a] * row[b];
            }
        }
    }
    (0..COUNT).for_each(|load| products[load][load] += RIDGE * RIDGE);
    let mut paces = [0.0f64; COUNT];
    for _ in 0..SWEEPS {
        let mut step = 0.0f64;
        for load in 0..COUNT {
            let others: f64 = (0..COUNT).filter(|&o| o != load).map(|o| products[load][o] * paces[o]).sum();
            let next = ((target[load] - others) / products[load][load]).max(0.0);
            step = step.max((next - paces[load]).abs());
            paces[load] = next;
        }
        if step <= STILL * paces.iter().copied().fold(1e-12, f64::max) {
            break;
        }
    }
    std::array::from_fn(|load| if scale[load] > 0.0 { paces[load] / scale[load] } else { 0.0 })
}

/// A figure as it is written: a few digits of it.
fn kept(value: f64) -> f64 {
    format!("{value:.*e}", FIGURES - 1).parse().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::format::Kernel;

    fn observed(loads: [f64; COUNT], time: f64) -> Observed {
        Observed {
            tactic: Tactic::of(Kernel::Pool),
            loads: Loads(loads),
            time: Nanos(time as u64),
            weight: 1.0,
        }
    }

    #[test]
    fn a_pace_that_is_there_is_found() {
        let all: Vec<Observed> = (1..40)
            .map(|i| {
                let (rounds, bytes) = (f64::from(i % 7 + 1), f64::from(i * i % 90) * 100.0);
                let loads = [1.0, rounds, 0.0, 0.0, bytes, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
                observed(loads, 2_000.0 + 900.0 * rounds + 1.5 * bytes)
            })
            .collect();
        let paces = paces(&all, Vec::new());
        let found = paces.paces[&told(Tactic::of(Kernel::Pool))];
        assert_eq!(found.times, 39);
        for one in &all {
            let error = found.of(&one.loads) / one.time.0 as f64 - 1.0;
            assert!(error.abs() < 0.02, "{error}: {found:?}");
        }
        assert_eq!(paces.paces["Pool"], found, "a kernel of one tactic has its pace");
    }

    #[test]
    fn what_weighs_more_is_closer() {
        let launch = |time, weight| Observed {
            weight,
            ..observed([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], time)
        };
        let found = |weight| {
            let all = [launch(1_000.0, 1.0), launch(1_001.0, 1.0), launch(2_000.0, weight)];
            paces(&all, Vec::new()).paces["Pool"].each[0]
        };
        assert!(found(1.0) < 1_200.0 && found(20.0) > 1_600.0, "{} {}", found(1.0), found(20.0));
    }

    #[test]
    fn no_pace_is_below_nothing() {
        // Less time for more bytes: nothing a pace could say.
        let all: Vec<Observed> = (1..9)
            .map(|i| {
                observed(
                    [1.0, 0.0, 0.0, 0.0, f64::from(i), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
                    9_000.0 - 500.0 * f64::from(i),
                )
            })
            .collect();
        let paces = paces(&all, Vec::new());
        assert!(
            paces
                .paces
                .values()
                .all(|p| p.each.iter().all(|&e| e >= 0.0) && p.each[0] > 1_000.0)
        );
    }
}
