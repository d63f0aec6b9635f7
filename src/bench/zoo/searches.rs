//! Searches over the zoo's networks on a GPU's board with its measured times: what they find.

use super::run::Group;
use crate::planner::optable::{self, OpTable};
use crate::planner::{CompileOptions, Compiled, Searcher, boards};
use crate::tensor::DType;
use std::path::Path;
use std::sync::Arc;

fn compile(name: &str, searcher: Searcher, budget: u64) -> Compiled {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("boards");
    let board = boards::load(folder.join("h200.toml").to_str().unwrap()).unwrap();
    let table = OpTable::load(&optable::path(&folder, &board), &board).unwrap();
    let group = Group::parse(name, None).unwrap();
    let models = group.members.iter().map(|m| m.network.model(m.batch)).collect();
    let options = CompileOptions {
        dtype: DType::F16,
        times: table.map(Arc::new),
        searcher,
        budget,
        ..CompileOptions::default()
    };
    group.compile(models, &board, &options).unwrap()
}

/// The papers' mix of three networks: every searcher is at least as good as the baselines.
#[test]
fn searchers_beat_the_baselines_of_a_mix_in_prediction() {
    let name = "r50:8+v16:8+m3:8";
    let budget = 10_000;
    let compiled = compile(name, Searcher::Platoon, budget);
    let report = &compiled.report;
    assert!(
        report.looked_at >= budget && report.looked_at < budget + budget / 10,
        "{}",
        report.looked_at
    );
    let of = |name: &str| report.searchers.iter().find(|s| s.searcher == name).unwrap().frame_ms;
    let baseline = of("streams").min(of("sequential"));
    assert_eq!(report.searchers.len(), 8);
    assert!(report.searchers[0].frame_ms <= baseline && of("platoon") <= of("gacer"));
    assert_eq!(compiled.plan.searcher, report.searchers[0].searcher);
}
