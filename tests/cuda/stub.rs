//! Runs tests in processes of their own, which find the stub where they look for the driver.

use crate::child;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the stub said at the child's end.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// Objects of the driver that were not given back.
    pub live: i32,
    /// Calls made after the driver had told an error of the work itself.
    pub calls_after_error: i32,
}

impl Report {
    /// Everything was given back, and no error happened.
    pub const CLEAN: Report = Report {
        live: 0,
        calls_after_error: 0,
    };
}

/// Runs `body` in a child process on the stub, under `settings` (see `stub/stub.h`). `test` is the path of the test that
/// calls this, as the test harness names it.
pub fn on_stub(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Report {
    on_library(test, library(&[]), settings, body)
}

/// The same on a stub without the functions that a driver need not have.
pub fn on_old_stub(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) -> Report {
    on_library(test, library(&["-DWITHOUT_OPTIONAL"]), settings, body)
}

/// The same where the driver's library is what lies in a folder.
pub fn on_library(test: &str, folder: PathBuf, settings: &[(&str, &str)], body: impl FnOnce()) -> Report {
    child::enter(test, body);
    let scratch = tempfile::tempdir().unwrap();
    let report = scratch.path().join("report");
    let mut command = child::command(test);
    command
        .env("LD_LIBRARY_PATH", folder)
        .env("STUB_REPORT", &report)
        .envs(settings.iter().copied());
    child::run(command);
    let report = std::fs::read_to_string(&report).unwrap_or_default();
    let mut words = report.split_whitespace().filter_map(|w| w.parse().ok());
    Report {
        live: words.next().unwrap_or(0),
        calls_after_error: words.next().unwrap_or(0),
    }
}

/// A folder with the stub, compiled with these options; made once in a process. The child makes none.
fn library(options: &[&str]) -> PathBuf {
    static FOLDERS: [OnceLock<tempfile::TempDir>; 2] = [const { OnceLock::new() }; 2];
    if child::is_child() {
        return PathBuf::new();
    }
    let make = || {
        let folder = tempfile::tempdir().unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/stub");
        let files = ["calls.c", "kernels.c", "queue.c"].map(|f| sources.join(f));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let done = Command::new(compiler)
            .args(["-shared", "-fPIC", "-O1", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"])
            .args(options)
            .arg("-o")
            .arg(folder.path().join("libcuda.so"))
            .args(files)
            .args(["-lpthread", "-lm"])
            .status()
            .unwrap();
        assert!(done.success(), "the stub does not compile");
        folder
    };
    FOLDERS[usize::from(!options.is_empty())].get_or_init(make).path().to_path_buf()
}
