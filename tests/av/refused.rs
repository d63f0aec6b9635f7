//! Damaged deployments of the real task sets: each is refused by name when the engine is opened.

use super::{data, plans};
use platoon::plan::deployment::Reason;
use platoon::plan::file::{self, HEADER};
use platoon::plan::format::Digest;
use platoon::plan::table::Table;
use platoon::plan::weights::WeightError;
use platoon::runtime::{Engine, OpenError, Options};
use std::fs;
use std::path::{Path, PathBuf};

/// A deployment whose files can be replaced without harm to the others that share them.
struct Copy(tempfile::TempDir);

impl Copy {
    fn new() -> Copy {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        fs::create_dir(dir.path().join("weights")).unwrap();
        for folder in ["", "weights"] {
            for entry in fs::read_dir(plans().join(folder)).unwrap() {
                let file = entry.unwrap().path();
                if file.is_file() {
                    fs::hard_link(&file, dir.path().join(folder).join(file.file_name().unwrap())).unwrap();
                }
            }
        }
        Copy(dir)
    }

    fn file(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.path().join(name)
    }

    /// Replaces a file; the linked original stays.
    fn change(&self, name: impl AsRef<Path>, change: impl FnOnce(&mut Vec<u8>)) {
        let file = self.file(name);
        let mut bytes = fs::read(&file).unwrap();
        change(&mut bytes);
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
    }

    /// Some weight file of the deployment.
    fn weights(&self) -> PathBuf {
        let mut all: Vec<PathBuf> = fs::read_dir(self.file("weights")).unwrap().map(|e| e.unwrap().path()).collect();
        all.sort();
        all.swap_remove(0)
    }

    /// Why it does not open; the message names the file.
    fn refusal(&self, file: &Path) -> Reason {
        match Engine::open(self.0.path(), &Options::default()) {
            Err(OpenError::Load(error)) => {
                assert_eq!(error.file, file, "{error}");
                assert!(error.to_string().starts_with(&file.display().to_string()), "{error}");
                *error.reason
            }
            Err(other) => panic!("{other:?}"),
            Ok(_) => panic!("{} was accepted", file.display()),
        }
    }
}

#[test]
fn weights_that_are_missing_cut_off_or_altered() {
    let test = "weights_that_are_missing_cut_off_or_altered";
    if data::need(test, &data::av_data()).is_none() {
        return;
    }
    let copy = Copy::new();
    Engine::open(copy.0.path(), &Options::default()).unwrap_or_else(|e| panic!("{e:?}"));
    let file = copy.weights();
    let whole = fs::read(&file).unwrap();
    copy.change(&file, |bytes| bytes.truncate(whole.len() - 1));
    assert!(matches!(copy.refusal(&file), Reason::Weights(WeightError::Length { .. })));
    copy.change(&file, Vec::clear);
    assert!(matches!(copy.refusal(&file), Reason::Weights(WeightError::Length { .. })));
    for at in [0, whole.len() / 2, whole.len() - 1] {
        copy.change(&file, |bytes| {
            bytes.clone_from(&whole);
            bytes[at] ^= 1;
        });
        assert!(
            matches!(copy.refusal(&file), Reason::Weights(WeightError::Digest { .. })),
            "byte {at}"
        );
    }
    fs::remove_file(&file).unwrap();
    assert!(matches!(copy.refusal(&file), Reason::Weights(WeightError::Io(_))));
    data::ran(test, "6 damages");
}

#[test]
fn plans_that_are_altered_missing_or_of_another_board() {
    let test = "plans_that_are_altered_missing_or_of_another_board";
    if data::need(test, &data::av_data()).is_none() {
        return;
    }
    let whole = fs::read(plans().join("urban.plan")).unwrap();
    let copy = Copy::new();
    let plan = copy.file("urban.plan");
    // Some bits of every part: the header, the body's start, middle and end.
    let places = (0..HEADER).step_by(3).chain([HEADER, HEADER + 1, whole.len() / 2, whole.len() - 1]);
    for (i, at) in places.enumerate() {
        copy.change(&plan, |bytes| {
            bytes.clone_from(&whole);
            bytes[at] ^= 1 << (i % 8);
        });
        let reason = copy.refusal(&plan);
        assert!(matches!(reason, Reason::File(_)), "byte {at}: {reason}");
    }
    copy.change(&plan, |bytes| *bytes = whole[..whole.len() / 2].to_vec());
    assert!(matches!(copy.refusal(&plan), Reason::File(_)));

    // A sound plan of another board: the table's digest gives it away, and so does the plan where the table was made to fit.
    let mut other = file::decode(&whole).unwrap();
    other.board = Digest::of(b"another board");
    let other = file::encode(&other);
    copy.change(&plan, |bytes| bytes.clone_from(&other));
    assert!(matches!(copy.refusal(&plan), Reason::Digest));
    copy.change("table", |bytes| {
        let mut table = Table::decode(bytes).unwrap();
        table
            .entries
            .iter_mut()
            .filter(|e| e.task_set == "urban")
            .for_each(|e| e.digest = Digest::of(&other));
        *bytes = table.encode();
    });
    assert!(matches!(copy.refusal(&plan), Reason::Board(_)));

    fs::remove_file(&plan).unwrap();
    assert!(matches!(copy.refusal(&plan), Reason::Io(_)));
    let table = copy.file("table");
    fs::remove_file(&table).unwrap();
    assert!(matches!(copy.refusal(&table), Reason::Io(_)));
    data::ran(test, "single bits in 24 places, cut off, another board's, missing plan and table");
}
