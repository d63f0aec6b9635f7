//! Plans beside the rate at which cameras give frames.

use super::nets::random;
use super::oracle::compile;
use crate::plan::format::{FramePrediction, Plan};
use crate::planner::CompileOptions;
use crate::planner::rates::{Overrun, keeps_up};
use crate::units::Nanos;

/// Two networks in frames that are predicted to take so many microseconds, of which the second network needs all, the first half.
fn plan(totals: &[u64]) -> Plan {
    let graphs: Vec<_> = (0..2).map(|seed| random(seed, 6).0).collect();
    let mut plan = compile(&graphs, &CompileOptions::default()).plan;
    let frame = |us: u64| FramePrediction {
        total: Nanos(us * 1000),
        finish: vec![Nanos(us * 500), Nanos(us * 1000)],
        misses: Vec::new(),
    };
    plan.cycle = vec![plan.cycle[0].clone(); totals.len()];
    plan.prediction.frames = totals.iter().map(|&us| frame(us)).collect();
    plan
}

#[test]
fn frames_that_are_too_long_on_average_are_refused_with_who_and_by_how_much() {
    let plan = plan(&[700, 1500]);
    assert_eq!(keeps_up(&plan, 900.0), Ok(()), "the short frame makes up for the long one");
    let overrun = keeps_up(&plan, 1000.0).unwrap_err();
    let Overrun::Rate {
        ref tenant, late, mean, ..
    } = overrun
    else {
        panic!("{overrun}")
    };
    assert_eq!((tenant, late, mean), (&plan.tenants[1].name, Nanos(100_000), Nanos(1_100_000)));
    assert!(
        overrun.to_string().contains("100.0 us too long") && overrun.to_string().contains(tenant.as_str()),
        "{overrun}"
    );
}

#[test]
fn a_wait_for_the_frame_before_counts_against_a_deadline() {
    let mut plan = plan(&[1300, 600, 600]);
    plan.tenants[0].urgency.deadline = Some(Nanos(700_000));
    // Alone the second frame's first tenant ends after 300 us; it waits 300 for the long frame before it.
    assert_eq!(keeps_up(&plan, 1000.0), Ok(()));
    plan.tenants[0].urgency.deadline = Some(Nanos(550_000));
    plan.prediction.frames[0].finish[0] = Nanos(100_000);
    let found = keeps_up(&plan, 1000.0).unwrap_err();
    let expected = Overrun::Deadline {
        hz: 1000.0,
        tenant: plan.tenants[0].name.clone(),
        deadline: Nanos(550_000),
        wait: Nanos(300_000),
        late: Nanos(50_000),
    };
    assert_eq!(found, expected);
    assert_eq!(keeps_up(&plan, 500.0), Ok(()), "with time to spare nobody waits");
}
