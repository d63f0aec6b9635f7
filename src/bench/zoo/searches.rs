//! Searches over the zoo's networks on a GPU's board with its measured times: what they find, and how fast they look.

use super::run::Group;
use crate::planner::optable::{self, OpTable};
use crate::planner::{CompileOptions, Compiled, Progress, Searcher, boards};
use crate::tensor::DType;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn compile(name: &str, searcher: Searcher, budget: u64) -> (Compiled, Duration) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
    let board = boards::load(folder.join("h200.toml").to_str().unwrap()).unwrap();
    let table = OpTable::load(&optable::path(&folder, &board), &board).unwrap();
    let group = Group::parse(name, None).unwrap();
    let models = group.members.iter().map(|m| m.network.model(m.batch)).collect();
    // From the first word of the search to its last.
    let span = Arc::new(Mutex::new((None, None)));
    let heard = span.clone();
    let listener = move |_, _| {
        let (first, last) = &mut *heard.lock().unwrap();
        *last = Some(Instant::now());
        *first = first.or(*last);
    };
    let options = CompileOptions {
        progress: Progress::new(listener),
        dtype: DType::F16,
        times: table.map(Arc::new),
        searcher,
        budget,
        ..CompileOptions::default()
    };
    let compiled = group.compile(models, &board, &options).unwrap();
    let (first, last) = *span.lock().unwrap();
    (compiled, last.zip(first).map_or(Duration::ZERO, |(last, first)| last - first))
}

/// The papers' mix of three networks: every searcher is at least as good as the baselines, and figures are printed.
#[test]
fn searchers_beat_the_baselines_of_a_mix_in_prediction() {
    let name = "r50:8+v16:8+m3:8";
    let budget = 10_000;
    let (compiled, searched) = compile(name, Searcher::Platoon, budget);
    let report = &compiled.report;
    assert!(
        report.looked_at >= budget && report.looked_at < budget + budget / 10,
        "{}",
        report.looked_at
    );
    println!(
        "{name}: {} schedules in {:.2} s; predicted ({})",
        report.looked_at,
        searched.as_secs_f64(),
        report.basis,
    );
    report
        .searchers
        .iter()
        .for_each(|s| println!("  {:12} {:.4} ms", s.searcher, s.frame_ms));
    let of = |name: &str| report.searchers.iter().find(|s| s.searcher == name).unwrap().frame_ms;
    let baseline = of("streams").min(of("sequential"));
    assert_eq!(report.searchers.len(), 8);
    assert!(report.searchers[0].frame_ms <= baseline && of("platoon") <= of("gacer"));
    assert_eq!(compiled.plan.searcher, report.searchers[0].searcher);
}
