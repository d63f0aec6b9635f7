//! What the program does about GPUs on any machine: boards, kernels and plans need none.

use super::{complaint, pictures, platoon, stdout, task_file};
use std::path::Path;

/// A board file for a GPU that no machine has: nothing here may depend on one being there.
pub fn board(dir: &Path) {
    let board = "\
name = \"bench\"
backend = \"cuda\"
architecture = \"sm_87\"
units = 7
memory_mib = 512
[rates]
macs_per_ns_and_unit = 600.0
bytes_per_ns = 100.0
issue_ns = 2000
";
    std::fs::write(dir.join("bench.toml"), board).unwrap();
}

#[test]
fn plans_for_a_gpu_are_made_without_one_and_run_on_the_processor_as_their_reference() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    board(dir);
    task_file(dir, &[("only", 1)]);
    let made = platoon(dir, &["plan", "--board", "bench.toml", "--tasks", "tasks.toml", "--best-effort"]);
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let plan = "plans/bench/day.plan";
    let summary: serde_json::Value = serde_json::from_str(&stdout(&platoon(dir, &["inspect", plan, "--json"]))).unwrap();
    assert_eq!(
        summary["kernels"].as_str().map(str::len),
        Some(64),
        "the plan names its kernels: {summary}"
    );
    assert!(stdout(&platoon(dir, &["inspect", plan])).contains("float16"), "activations are f16");

    let verified = platoon(dir, &["verify", plan, "--backend", "cpu"]);
    assert_eq!(verified.status.code(), Some(0), "{}", String::from_utf8_lossy(&verified.stderr));
    assert!(
        stdout(&verified).contains("operators agree with the processor"),
        "{}",
        stdout(&verified)
    );

    pictures(&dir.join("frames"), 2, (64, 48));
    let common = [
        "--board",
        "bench.toml",
        "--tasks",
        "tasks.toml",
        "--best-effort",
        "--input",
        "frames",
    ];
    let replay = [&["replay", "--backend", "cpu", "--json"][..], &common].concat();
    let replayed = platoon(dir, &replay);
    assert_eq!(replayed.status.code(), Some(0), "{}", String::from_utf8_lossy(&replayed.stderr));
    let summary: serde_json::Value = serde_json::from_str(&stdout(&replayed)).unwrap();
    assert_eq!(summary["frames"], 2);

    // A GPU of seven SMs is nowhere, so the same without --backend fails, with one line that says why.
    let refused = platoon(dir, &[&["replay"][..], &common].concat());
    assert!(!complaint(&refused).is_empty() && refused.stdout.is_empty());
}

#[test]
fn plans_of_another_board_in_a_boards_folder_do_not_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    board(dir);
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join("frames"), 1, (64, 48));
    let made = platoon(dir, &["plan", "--board", "bench.toml", "--tasks", "tasks.toml", "--best-effort"]);
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    std::fs::rename(dir.join("plans/bench"), dir.join("plans/host")).unwrap();
    let refused = platoon(dir, &["replay", "--frozen", "--input", "frames"]);
    let line = complaint(&refused);
    assert!(
        line.contains("`bench`") && line.contains("`host`") && line.contains("--board"),
        "{line}"
    );
}

#[test]
fn what_gpus_lack_is_one_line_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    board(dir);
    task_file(dir, &[("only", 1)]);
    std::fs::create_dir(dir.join("empty")).unwrap();
    let cases: [(&[&str], &str); 6] = [
        (
            &["plan", "--tasks", "tasks.toml", "--backend", "cuda", "--board", "host"],
            "has no GPU",
        ),
        (&["plan", "--tasks", "tasks.toml", "--sms", "4"], "--sms is for GPUs"),
        (
            &["plan", "--tasks", "tasks.toml", "--board", "bench.toml", "--sms", "8"],
            "has 7 SMs",
        ),
        (&["kernels", "--nvrtc", "empty"], "--nvrtc"),
        (&["kernels", "--nvrtc", "tasks.toml"], "tasks.toml"),
        (&["kernels", "--unpack", "cubins"], "platoon kernels"),
    ];
    for (arguments, named) in cases {
        let output = platoon(dir, arguments);
        let line = complaint(&output);
        assert!(line.contains(named), "{arguments:?}: {line}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_share_of_a_gpu_is_a_board_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    board(dir);
    task_file(dir, &[("only", 1)]);
    let plan = [
        "plan",
        "--tasks",
        "tasks.toml",
        "--board",
        "bench.toml",
        "--best-effort",
        "--sms",
        "4",
    ];
    assert_eq!(platoon(dir, &plan).status.code(), Some(0));
    assert!(dir.join("plans/bench-sm4/day.plan").exists());
}

#[test]
fn archives_are_listed_and_damaged_ones_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let none = platoon(dir, &["kernels", "--list"]);
    assert_eq!(none.status.code(), Some(0));
    assert!(stdout(&none).contains("no kernels in plans/kernels"), "{}", stdout(&none));
    std::fs::create_dir_all(dir.join("plans/kernels")).unwrap();
    std::fs::write(dir.join("plans/kernels/sm_87-cuda12.6.kernels"), b"PLTKERN\0 and no more").unwrap();
    let damaged = platoon(dir, &["kernels", "--list"]);
    assert_eq!(damaged.status.code(), Some(1));
    assert!(
        stdout(&damaged).contains("sm_87-cuda12.6.kernels: is damaged"),
        "{}",
        stdout(&damaged)
    );
    let doctor = platoon(dir, &["doctor", "--json"]);
    let doctor: serde_json::Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    let state = doctor["kernels"]["found"]["archives"][0]["state"].as_str().unwrap();
    assert!(state.contains("damaged"), "{state}");
    for key in ["cuda", "nvrtc"] {
        assert!(doctor[key]["found"]["present"].is_boolean(), "{key}: {doctor}");
    }
}
