//! A race of plans by successive halving (Jamieson and Talwalkar 2016): all run a few frames, the better half more, and so on.

use super::Meter;
use crate::bench::BenchError;
use crate::bench::measure::{Samples, TURN};
use crate::units::Nanos;

/// Counted frames of the stages of a race; after each the better half of the plans stays.
pub(super) const STAGES: &[usize] = &[4, 8, 16, 32];
/// The same where most plans differ by little, and many of them are wanted with as many frames.
pub(super) const FEW: &[usize] = &[8, 24];
/// What a plan's tail is read from: of so few frames the p99 would be the slowest one.
const TAIL: f64 = 0.9;

/// What plans are ranked by: the middle between their median and their tail.
pub(super) fn mark(samples: &Samples) -> Nanos {
    Nanos((samples.median().0 + samples.quantile(TAIL).0) / 2)
}

/// Runs the plans that are loaded in turns; after each stage only the better half of those goes on that are not among the first
/// `stay`, and none once the time is `over`.
pub(super) fn race(
    meter: &mut dyn Meter,
    plans: usize,
    stay: usize,
    stages: &[usize],
    over: &dyn Fn() -> bool,
) -> Result<Vec<Samples>, BenchError> {
    let mut samples = vec![Samples::default(); plans];
    let mut alive: Vec<usize> = (0..plans).collect();
    for &stage in stages {
        for _ in 0..stage / TURN {
            for &plan in &alive {
                samples[plan].extend(meter.run(plan, TURN)?);
            }
        }
        let mut rest: Vec<usize> = alive.iter().copied().filter(|&p| p >= stay).collect();
        rest.sort_by_key(|&p| mark(&samples[p]));
        rest.truncate(rest.len().div_ceil(2));
        alive.retain(|&p| p < stay || rest.contains(&p));
        if over() {
            break;
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::format::Plan;

    #[test]
    fn a_race_keeps_who_stays_and_the_better_half() {
        struct Fixed([u64; 8], [usize; 8]);
        impl Meter for Fixed {
            fn load(&mut self, _: Vec<Plan>) -> Result<(), BenchError> {
                Ok(())
            }
            fn run(&mut self, plan: usize, frames: usize) -> Result<Vec<Nanos>, BenchError> {
                self.1[plan] += frames;
                Ok(vec![Nanos(self.0[plan]); frames])
            }
            fn unload(&mut self) {}
        }
        let mut fixed = Fixed([900, 800, 7, 3, 6, 4, 5, 8], [0; 8]);
        let samples = race(&mut fixed, 8, 2, STAGES, &|| false).unwrap();
        assert_eq!(fixed.1, [60, 60, 4, 60, 4, 28, 12, 4]);
        assert_eq!(samples.iter().map(Samples::count).collect::<Vec<_>>(), fixed.1);
        // Where frames are long, the first stage is all there is time for.
        let samples = race(&mut fixed, 8, 2, STAGES, &|| true).unwrap();
        assert!(samples.iter().all(|s| s.count() == STAGES[0]));
    }
}
