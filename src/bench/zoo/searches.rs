//! Searches over the zoo's networks on a GPU's board with its measured times: what they find.

use super::run::Group;
use crate::board::BoardRecord;
use crate::plan::format::{Operator, Plan};
use crate::planner::optable::{self, OpTable};
use crate::planner::simulate::{Calibration, Machine, Observed};
use crate::planner::{CompileOptions, Compiled, Searcher, boards};
use crate::tensor::DType;
use crate::units::Nanos;
use std::path::Path;
use std::sync::Arc;

/// The H200, and its measured times.
fn board() -> (BoardRecord, OpTable) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
    let board = boards::load(folder.join("h200.toml").to_str().unwrap()).unwrap();
    let table = OpTable::load(&optable::path(&folder, &board), &board).unwrap().unwrap();
    (board, table)
}

fn compile(name: &str, searcher: Searcher, budget: u64, samples: usize) -> Compiled {
    let (board, table) = board();
    let group = Group::parse(name, None).unwrap();
    let options = CompileOptions {
        dtype: DType::F16,
        times: Some(Arc::new(table)),
        samples,
        searcher,
        budget,
        ..CompileOptions::default()
    };
    group.plan(&board, &options).unwrap()
}

/// The papers' mix of three networks: every searcher is at least as good as the baselines.
#[test]
fn searchers_beat_the_baselines_of_a_mix_in_prediction() {
    let name = "r50:8+v16:8+m3:8";
    let budget = 10_000;
    let compiled = compile(name, Searcher::Platoon, budget, 0);
    let report = &compiled.report;
    assert!(
        report.looked_at >= budget && report.looked_at < budget + budget / 10,
        "{}",
        report.looked_at
    );
    let of = |name: &str| report.searchers.iter().find(|s| s.searcher == name).unwrap().frame_ms;
    let baseline = of("streams").min(of("sequential"));
    assert_eq!(report.searchers.len(), 9);
    assert!(report.searchers[0].frame_ms <= baseline && of("platoon") <= of("gacer"));
    assert_eq!(compiled.plan.searcher, report.searchers[0].searcher);
}

/// Random decisions whose times another machine predicted: a fit finds back to it, or nearly.
#[test]
fn a_fit_comes_nearer_to_what_was_observed() {
    let compiled = compile("bst:64+bst:8", Searcher::Streams, 0, 12);
    let (board, table) = board();
    let measured = |plan: &Plan, operator: &Operator| table.of(plan, operator);
    let usual = Machine::of(&board);
    let other = usual.calibrated(Some(Calibration {
        crowd: usual.calibration.crowd / 2,
        sync: usual.calibration.sync * 2,
        ..usual.calibration
    }));
    let plans = std::iter::once(&compiled.plan).chain(&compiled.rivals);
    let observed: Vec<Observed> = plans
        .map(|plan| {
            let unit = Observed {
                plan: plan.clone(),
                time: Nanos(1),
            };
            let time = Nanos((unit.error(other, &board, &measured) + 1.0) as u64);
            Observed { time, ..unit }
        })
        .collect();
    assert_eq!(observed.len(), 13);
    let off = |machine| {
        let errors = observed.iter().map(|o| o.error(machine, &board, &measured).abs());
        errors.sum::<f64>() / observed.len() as f64
    };
    let fitted = usual.calibration.fit(&observed, &board, &measured);
    let (before, after) = (off(usual), off(usual.calibrated(Some(fitted))));
    assert!(off(other) < 1e-3 && after < before, "{before} to {after}");
    assert_eq!(fitted, usual.calibration.fit(&observed, &board, &measured), "the same twice");
}
