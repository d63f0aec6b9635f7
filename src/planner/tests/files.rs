//! What a deployment's directory holds after it was written, and what makes a stored plan stale.

use super::nets::random;
use super::oracle::{board, compile};
use crate::plan::deployment::Deployment;
use crate::planner::{CompileOptions, Compiled, deployment, source_digest, tasks::Tasks};
use std::collections::BTreeSet;
use std::path::Path;

fn named(task_set: &str, seed: u64) -> Compiled {
    let mut compiled = compile(&[random(seed, 8).0], &CompileOptions::default());
    compiled.plan.task_set = task_set.to_owned();
    compiled
}

fn write(dir: &Path, compiled: &[Compiled], keep: &[&str]) {
    let table = deployment::table(compiled, &board(), "day", 2).unwrap();
    let keep: Vec<String> = keep.iter().map(|k| (*k).to_owned()).collect();
    deployment::write(dir, table, compiled, &keep).unwrap();
}

fn files(dir: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[test]
fn a_deployment_loads_and_holds_nothing_stale() {
    let folder = tempfile::tempdir().unwrap();
    let (day, night) = (named("day", 1), named("night", 2));
    write(folder.path(), &[day.clone(), night.clone()], &["day", "night"]);
    let expected = ["day.plan", "day.report.json", "night.plan", "night.report.json", "table", "weights"];
    assert_eq!(files(folder.path()), expected.map(str::to_owned).into());
    assert_eq!(Deployment::load(folder.path()).unwrap().plans.len(), 2);

    // Another `day`: its old weights go, `night` stays.
    let other = named("day", 3);
    write(folder.path(), std::slice::from_ref(&other), &["day", "night"]);
    let loaded = Deployment::load(folder.path()).unwrap();
    assert_eq!(loaded.table.default_task_set, "day");
    assert_eq!(loaded.plans.len(), 2);
    let digests = [&other, &night].map(|c| c.weight_files[0].0.to_string());
    assert_eq!(files(&folder.path().join("weights")), digests.into());

    // A task file without `night`: its plan goes too.
    write(folder.path(), &[other], &["day"]);
    assert_eq!(
        files(folder.path()),
        ["day.plan", "day.report.json", "table", "weights"].map(str::to_owned).into()
    );
}

#[test]
fn a_kept_plan_without_its_weights_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (day, night) = (named("day", 1), named("night", 2));
    write(folder.path(), &[day.clone(), night.clone()], &[]);
    std::fs::remove_file(folder.path().join("weights").join(night.weight_files[0].0.to_string())).unwrap();
    write(folder.path(), &[day], &["day", "night"]);
    assert_eq!(Deployment::load(folder.path()).unwrap().plans.len(), 1);
}

#[test]
fn a_file_that_has_its_content_stays_untouched() {
    let folder = tempfile::tempdir().unwrap();
    let day = named("day", 1);
    write(folder.path(), std::slice::from_ref(&day), &[]);
    let plan = folder.path().join("day.plan");
    let mut permissions = plan.metadata().unwrap().permissions();
    let before = plan.metadata().unwrap().modified().unwrap();
    permissions.set_readonly(true);
    std::fs::set_permissions(&plan, permissions).unwrap();
    write(folder.path(), &[day], &[]);
    assert!(plan.metadata().unwrap().permissions().readonly());
    assert_eq!(plan.metadata().unwrap().modified().unwrap(), before);
}

#[test]
fn whatever_a_plan_is_made_from_changes_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let card = "name = \"n\"\nonnx = \"n.onnx\"\nsource = \"s\"\nlicence = \"MIT\"\n";
    let tasks = "default = \"day\"\n[[sets.day.tenants]]\nname = \"a\"\nmodel = \"card.toml\"\n";
    let digest = |options: &CompileOptions| source_digest(&Tasks::load(&at("tasks.toml")).unwrap(), "day", &board(), options).unwrap();
    // An empty file is an ONNX model without a graph, which is enough to be digested; the second one has a version.
    std::fs::write(at("n.onnx"), []).unwrap();
    std::fs::write(at("card.toml"), card).unwrap();
    std::fs::write(at("tasks.toml"), tasks).unwrap();
    let plain = digest(&CompileOptions::default());
    assert_eq!(plain, digest(&CompileOptions::default()));
    let seeded = CompileOptions {
        seed: 1,
        ..CompileOptions::default()
    };
    let mut seen = BTreeSet::from([plain, digest(&seeded)]);
    let mut differs = || seen.insert(digest(&CompileOptions::default()));
    std::fs::write(at("n.onnx"), [8, 7]).unwrap();
    assert!(differs(), "network");
    std::fs::write(at("card.toml"), format!("{card}[input]\nfill = 3\n")).unwrap();
    assert!(differs(), "card");
    std::fs::write(at("tasks.toml"), format!("{tasks}every = 2\n")).unwrap();
    assert!(differs(), "tasks");
}
