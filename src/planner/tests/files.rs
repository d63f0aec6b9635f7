//! What a deployment's directory holds after it was written, and what makes a stored plan stale.

use super::nets::random;
use super::oracle::{board, compile};
use crate::board::BoardRecord;
use crate::plan::deployment::{Deployment, Reason};
use crate::plan::file;
use crate::plan::format::Digest;
use crate::plan::table::Entry;
use crate::planner::{CompileOptions, Compiled, PlannerError, deployment, source_digest, tasks::Tasks};
use std::collections::BTreeSet;
use std::path::Path;

fn named(task_set: &str, seed: u64) -> Compiled {
    let mut compiled = compile(&[random(seed, 8).0], &CompileOptions::default());
    compiled.plan.task_set = task_set.to_owned();
    compiled
}

fn write(dir: &Path, compiled: &[Compiled], keep: &[&str]) -> Vec<String> {
    let table = deployment::table(compiled, &board(), "day", 2).unwrap();
    let keep: Vec<String> = keep.iter().map(|k| (*k).to_owned()).collect();
    deployment::write(dir, table, compiled, &keep).unwrap()
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

    // A task file without `night`: its plan goes too, and that is said.
    assert_eq!(write(folder.path(), &[other], &["day"]), ["night"]);
    assert_eq!(
        files(folder.path()),
        ["day.plan", "day.report.json", "table", "weights"].map(str::to_owned).into()
    );
}

#[test]
fn whoever_is_stopped_while_writing_leaves_a_deployment_that_loads() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let (old, new) = (named("day", 1), named("day", 2));
    write(folder.path(), std::slice::from_ref(&old), &[]);
    let entry = Entry::of(&new.plan);
    let bytes = file::encode(&new.plan);
    let loads = |expected: &Compiled| {
        let loaded = Deployment::load(folder.path()).unwrap();
        assert_eq!(*loaded.plans[0], expected.plan);
    };

    // Stopped before the table: weights and the new plan lie beside the old ones, and half of a file.
    std::fs::write(at("weights").join(new.weight_files[0].0.to_string()), &new.weight_files[0].1).unwrap();
    std::fs::write(at(&entry.awaiting()), &bytes).unwrap();
    std::fs::write(at("table.4711.tmp"), b"half").unwrap();
    loads(&old);
    // Stopped behind the table.
    let table = deployment::table(std::slice::from_ref(&new), &board(), "day", 2).unwrap();
    std::fs::write(at("table"), table.encode()).unwrap();
    loads(&new);
    // The next writer, of another task set, keeps what is whole and clears away the rest.
    let night = named("night", 3);
    assert!(write(folder.path(), std::slice::from_ref(&night), &["day", "night"]).is_empty());
    let loaded = Deployment::load(folder.path()).unwrap();
    let plans: BTreeSet<&str> = loaded.plans.iter().map(|p| p.task_set.as_str()).collect();
    assert_eq!(plans, BTreeSet::from(["day", "night"]));
    assert_eq!(std::fs::read(at("day.plan")).unwrap(), bytes);
    let expected = ["day.plan", "day.report.json", "night.plan", "night.report.json", "table", "weights"];
    assert_eq!(files(folder.path()), expected.map(str::to_owned).into());
    // An awaiting file of other bytes is nobody's plan.
    std::fs::write(at(&entry.awaiting()), b"other").unwrap();
    std::fs::write(at("day.plan"), file::encode(&old.plan)).unwrap();
    let refused = Deployment::load(folder.path()).err().unwrap();
    assert!(matches!(*refused.reason, Reason::Digest), "{refused}");
}

#[test]
fn files_that_no_table_accounts_for_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let weights = |compiled: &Compiled| at("weights").join(compiled.weight_files[0].0.to_string());
    let (old, new, stopped) = (named("day", 1), named("day", 2), named("day", 3));
    write(folder.path(), std::slice::from_ref(&old), &[]);
    let strangers = [at("a-backup.plan"), at("mine.report.json"), at("weights").join("ab".repeat(32))];
    for stranger in &strangers {
        std::fs::write(stranger, b"somebody's").unwrap();
    }
    // A writer that was stopped before its table: its plan and its weights go, as the old ones do.
    std::fs::write(at(&Entry::of(&stopped.plan).awaiting()), file::encode(&stopped.plan)).unwrap();
    std::fs::write(weights(&stopped), &stopped.weight_files[0].1).unwrap();
    write(folder.path(), std::slice::from_ref(&new), &[]);
    for stranger in &strangers {
        assert_eq!(std::fs::read(stranger).unwrap(), b"somebody's", "{}", stranger.display());
    }
    assert!(weights(&new).is_file() && !weights(&old).exists() && !weights(&stopped).exists());
    let expected = [
        "a-backup.plan",
        "day.plan",
        "day.report.json",
        "mine.report.json",
        "table",
        "weights",
    ];
    assert_eq!(files(folder.path()), expected.map(str::to_owned).into());

    // Without a table that can be read nothing is known of the plans, and only left-overs go.
    std::fs::write(at("table"), b"none").unwrap();
    std::fs::write(at("table.4711.tmp"), b"half").unwrap();
    write(folder.path(), &[named("night", 4)], &["night"]);
    assert!(at("day.plan").is_file() && weights(&new).is_file() && !at("table.4711.tmp").exists());
    assert_eq!(Deployment::load(folder.path()).unwrap().plans.len(), 1);
}

#[test]
fn several_writers_at_once_leave_what_the_last_one_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let sets: Vec<Compiled> = (0..3).map(|seed| named("day", seed)).collect();
    write(folder.path(), std::slice::from_ref(&sets[0]), &[]);
    std::thread::scope(|scope| {
        for own in &sets {
            scope.spawn(|| {
                for _ in 0..8 {
                    write(folder.path(), std::slice::from_ref(own), &[]);
                    Deployment::load(folder.path()).unwrap();
                }
            });
        }
    });
    assert_eq!(Deployment::load(folder.path()).unwrap().plans.len(), 1);
    assert_eq!(files(&folder.path().join("weights")).len(), 1);
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
fn plans_that_do_not_fit_the_board_leave_the_old_ones_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (day, night, third) = (named("day", 1), named("night", 2), named("third", 3));
    let needed = {
        let plain = tempfile::tempdir().unwrap();
        write(plain.path(), &[day.clone(), night.clone()], &[]);
        Deployment::load(plain.path()).unwrap().memory_bytes().unwrap()
    };
    let small = BoardRecord {
        memory_budget: needed,
        ..board()
    };
    let write = |dir: &Path, compiled: &[Compiled], slots: u16| {
        let mut compiled = compiled.to_vec();
        compiled.iter_mut().for_each(|c| c.plan.board = Digest::of_board(&small));
        let table = deployment::table(&compiled, &small, "day", slots).unwrap();
        deployment::write(dir, table, &compiled, &["day", "night", "third"].map(str::to_owned))
    };
    let budget = |refused: Result<Vec<String>, PlannerError>| match refused {
        Err(PlannerError::Budget { needed, budget, .. }) => (needed, budget),
        other => panic!("{other:?}"),
    };
    // All that there is, and a slot more: of a folder that is not there none is made.
    let none = folder.path().join("none");
    let (found, had) = budget(write(&none, &[day.clone(), night.clone()], 3));
    assert!(found > needed && had == needed && !none.exists());
    write(folder.path(), &[day, night], 2).unwrap();
    // One that fits alone and not beside those that stay.
    let before = std::fs::read(folder.path().join("table")).unwrap();
    budget(write(folder.path(), &[third], 2));
    assert_eq!(std::fs::read(folder.path().join("table")).unwrap(), before);
    assert_eq!(Deployment::load(folder.path()).unwrap().plans.len(), 2);
    let expected = ["day.plan", "day.report.json", "night.plan", "night.report.json", "table", "weights"];
    assert_eq!(files(folder.path()), expected.map(str::to_owned).into());
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
