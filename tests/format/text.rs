//! The dump of a plan.

use super::sample;
use platoon::plan::dump::dump;

#[test]
fn the_sample_s_dump_is_the_stored_one() {
    let text = dump(&sample::plan());
    assert_eq!(text, dump(&sample::plan()));
    let stored = include_str!("sample.txt");
    for (number, (found, stored)) in text.lines().zip(stored.lines()).enumerate() {
        assert_eq!(found, stored, "line {}", number + 1);
    }
    assert_eq!(text.lines().count(), stored.lines().count());
}

#[test]
fn a_plan_with_wrong_references_is_dumped_all_the_same() {
    let mut plan = sample::plan();
    plan.buffers.clear();
    plan.operators.clear();
    plan.prediction.frames.clear();
    assert!(dump(&plan).contains("seg0 of t0: op0[0]"));
}
