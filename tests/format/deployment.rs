//! Whole deployments, in memory and as directories.

use super::sample;
use platoon::ids::{PlanId, SectionId};
use platoon::plan::deployment::{Deployment, LoadError, Reason};
use platoon::plan::file::encode;
use platoon::plan::format::{Family, Plan};
use platoon::plan::table::{Table, TableError};
use platoon::plan::weights::{WeightError, WeightStore};
use std::fs;
use std::path::Path;

type Damage = fn(&Path);

fn two_plans() -> Vec<Plan> {
    let mut second = sample::plan();
    second.task_set = "parking lot".to_string();
    vec![sample::plan(), second]
}

fn write(dir: &Path, table: &Table, plans: &[Plan]) {
    let (_, file, bytes) = sample::weights();
    fs::create_dir_all(dir.join("weights")).unwrap();
    fs::write(dir.join("weights").join(file.digest.to_string()), bytes).unwrap();
    for (entry, plan) in table.entries.iter().zip(plans) {
        fs::write(dir.join(&entry.file), encode(plan)).unwrap();
    }
    fs::write(dir.join("table"), table.encode()).unwrap();
}

fn reason(result: Result<Deployment, LoadError>) -> Reason {
    match result {
        Ok(_) => panic!("the deployment was accepted"),
        Err(error) => *error.reason,
    }
}

#[test]
fn a_directory_is_loaded_as_it_was_written() {
    let (dir, plans) = (tempfile::tempdir().unwrap(), two_plans());
    let table = sample::table(&plans);
    write(dir.path(), &table, &plans);
    let loaded = Deployment::load(dir.path()).unwrap();
    let assembled = Deployment::assemble(table.clone(), plans.clone(), vec![sample::weights().2]).unwrap();
    let (sections, _, bytes) = sample::weights();
    for deployment in [loaded, assembled] {
        assert_eq!(deployment.table, table);
        assert!(deployment.plans.iter().zip(&plans).all(|(a, b)| **a == *b));
        for (s, section) in sections.iter().enumerate() {
            let found = deployment.section(PlanId(1), SectionId(s as u32));
            assert_eq!(found, &bytes[section.offset as usize..][..section.bytes as usize]);
            assert_eq!(found.as_ptr().align_offset(64), 0);
        }
        // One arena, two persistent regions, two slots, the weights once.
        assert_eq!(
            deployment.memory_bytes(),
            Some(2304 + 2 * 1024 + 2 * (9216 + 1024 + 3200) + bytes.len() as u64)
        );
    }
    assert_eq!(table.entries[1].file, "parking_lot.plan");
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let assemble = |change: fn(&mut Table, &mut Vec<Plan>, &mut Vec<Vec<u8>>), renew: bool| {
        let (mut plans, mut weights) = (two_plans(), vec![sample::weights().2]);
        let mut table = sample::table(&plans);
        change(&mut table, &mut plans, &mut weights);
        if renew {
            table.entries = sample::table(&plans).entries;
        }
        reason(Deployment::assemble(table, plans, weights))
    };
    assert!(matches!(assemble(|_, p, _| p[0].searcher.push('x'), false), Reason::Digest));
    assert!(matches!(
        assemble(|_, p, _| p.truncate(1), false),
        Reason::Plans { entries: 2, plans: 1 }
    ));
    assert!(matches!(
        assemble(|t, _, _| t.entries[0].task_set = "other".into(), false),
        Reason::Table(TableError::Default(_))
    ));
    assert!(matches!(
        assemble(|t, _, _| t.entries[1].task_set = "other".into(), false),
        Reason::TaskSet { .. }
    ));
    assert!(matches!(assemble(|t, _, _| t.board.units = 3, false), Reason::Board(_)));
    assert!(matches!(assemble(|t, _, _| t.cameras[0].bytes += 1, false), Reason::Cameras));
    assert!(matches!(
        assemble(|_, p, _| p[1].operators[0].class.family = Family::TensorCore, true),
        Reason::Check(_)
    ));
    assert!(matches!(assemble(|_, p, _| p[1].cycle.clear(), true), Reason::Check(_)));
    assert!(matches!(assemble(|_, _, w| w.clear(), false), Reason::Weights(WeightError::Io(_))));
    assert!(matches!(
        assemble(|_, _, w| w[0][0] ^= 1, false),
        Reason::Weights(WeightError::Io(_))
    ));
    assert!(matches!(
        assemble(
            |t, p, _| {
                t.board.memory_budget = 31_000;
                let board = platoon::plan::format::Digest::of_board(&t.board);
                p.iter_mut().for_each(|plan| plan.board = board);
            },
            true
        ),
        Reason::Budget { budget: 31_000, .. }
    ));
}

#[test]
fn damaged_directories_are_refused_by_file() {
    let plans = two_plans();
    let (_, weight_file, _) = sample::weights();
    let weights = format!("weights/{}", weight_file.digest);
    let flip: Damage = |path| {
        let mut bytes = fs::read(path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    };
    for file in ["table", "urban.plan", "parking_lot.plan", &weights] {
        let damages: [(&str, Damage); 4] = [
            ("missing", |path| fs::remove_file(path).unwrap()),
            ("flipped", flip),
            ("short", |path| fs::write(path, &fs::read(path).unwrap()[..50]).unwrap()),
            ("directory", |path| {
                fs::remove_file(path).unwrap();
                fs::create_dir(path).unwrap();
            }),
        ];
        for (what, damage) in damages {
            let dir = tempfile::tempdir().unwrap();
            write(dir.path(), &sample::table(&plans), &plans);
            damage(&dir.path().join(file));
            let Err(error) = Deployment::load(dir.path()) else {
                panic!("{file} {what}: accepted")
            };
            assert_eq!(error.file, dir.path().join(file), "{what}: {error}");
        }
    }
}

#[test]
fn file_names_stay_in_the_directory() {
    for name in [
        "",
        "/etc/passwd",
        "../urban.plan",
        "a/b",
        "a\\b",
        "..",
        ".hidden",
        "a\0b",
        "C:x",
        "a..b",
    ] {
        let mut table = sample::table(&[sample::plan()]);
        table.entries[0].file = name.to_string();
        assert_eq!(table.check(), Err(TableError::FileName(name.to_string())));
        assert!(Table::decode(&table.encode()).is_err());
    }
}

#[test]
fn tables_are_checked() {
    let refused = |change: fn(&mut Table)| {
        let mut table = sample::table(&two_plans());
        change(&mut table);
        table.check().unwrap_err()
    };
    assert!(matches!(refused(|t| t.slots = 0), TableError::Limit { .. }));
    assert!(matches!(refused(|t| t.slots = 9), TableError::Limit { .. }));
    assert!(matches!(refused(|t| t.entries.clear()), TableError::Limit { .. }));
    assert!(matches!(refused(|t| t.board.units = 0), TableError::Limit { .. }));
    assert!(matches!(refused(|t| t.cameras[0].max_height = 0), TableError::Limit { .. }));
    assert!(matches!(refused(|t| t.board.macs_per_ns = f32::NAN), TableError::Board));
    assert!(matches!(refused(|t| t.entries[1] = t.entries[0].clone()), TableError::Twice(_)));
    assert!(matches!(refused(|t| t.default_task_set = "x".into()), TableError::Default(_)));
}

#[test]
fn weights_are_verified_before_they_are_used() {
    let dir = tempfile::tempdir().unwrap();
    let (sections, mut record, bytes) = sample::weights();
    let path = dir.path().join("w");
    fs::write(&path, &bytes).unwrap();
    let mut store = WeightStore::new();
    store.map(&path, &record).unwrap();
    store.map(&path, &record).unwrap();
    assert_eq!(store.total_bytes(), bytes.len() as u64);
    let mut outside = sections[1];
    outside.bytes += 1;
    assert_eq!(store.section(&record.digest, &outside), None);
    outside.offset = u64::MAX;
    assert_eq!(store.section(&record.digest, &outside), None);
    record.bytes += 1;
    assert!(matches!(store.map(&path, &record), Err(WeightError::Length { .. })));
    let empty = platoon::plan::weights::WeightFileBuilder::new(0).finish();
    fs::write(&path, &empty.1).unwrap();
    store.map(&path, &empty.0).unwrap();
    store.holds(&empty.0).unwrap();
}
