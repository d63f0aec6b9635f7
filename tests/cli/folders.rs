//! Folders that several runs share: nothing is lost without a word, nothing is mixed.

use super::*;
use std::collections::BTreeSet;

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("what is said is text")
}

/// A network that doubles `x.npy` in the shape of `s.npy`, as `net.onnx`, and both: the bytes of `x`.
pub fn reshaping(dir: &Path, values: [f32; 6]) -> Vec<u8> {
    std::fs::write(dir.join("net.onnx"), raw::reshaping()).unwrap();
    let body: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(dir.join("x.npy"), npy("<f4", "(2, 3)", &body)).unwrap();
    let shape: Vec<u8> = [3i64, -1].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(dir.join("s.npy"), npy("<i8", "(2,)", &shape)).unwrap();
    body
}

#[test]
fn plans_of_another_task_file_go_with_a_word() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    let tasks = std::fs::read_to_string(dir.join("tasks.toml")).unwrap();
    std::fs::write(dir.join("night.toml"), tasks.replace("day", "night")).unwrap();
    let first = platoon(dir, &["plan", "--tasks", "tasks.toml"]);
    assert_eq!((first.status.code(), stderr(&first)), (Some(0), String::new()));
    let second = platoon(dir, &["plan", "--tasks", "night.toml"]);
    assert_eq!(second.status.code(), Some(0));
    let said = stderr(&second);
    assert!(
        said.contains("plans removed") && said.contains("day") && said.contains("--plans"),
        "{said}"
    );
    // What is asked for again is no loss.
    assert_eq!(stderr(&platoon(dir, &["plan", "--tasks", "night.toml"])), "");
}

#[test]
fn a_folder_in_a_files_place_is_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    for file in ["day.plan", "table", "day.report.json"] {
        let place = dir.join("plans/host").join(file);
        std::fs::create_dir_all(&place).unwrap();
        let said = complaint(&platoon(dir, &["plan", "--tasks", "tasks.toml"]));
        let named = format!("plans/host/{file}: ");
        assert!(
            said.contains(&named) && said.contains("folder") && said.contains("--plans"),
            "{said}"
        );
        let there: Vec<_> = std::fs::read_dir(dir.join("plans/host"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert!(there.iter().all(|name| name == file || name == "weights"), "{there:?}");
        std::fs::remove_dir(place).unwrap();
    }
    assert_eq!(platoon(dir, &["plan", "--tasks", "tasks.toml"]).status.code(), Some(0));
}

#[test]
fn several_programs_at_once_leave_plans_that_hold() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("one", 1), ("two", 2)]);
    std::thread::scope(|scope| {
        for searcher in ["sequential", "streams", "barriers", "shares"] {
            scope.spawn(move || {
                for _ in 0..4 {
                    let planned = platoon(dir, &["plan", "--tasks", "tasks.toml", "--searcher", searcher, "--budget", "50"]);
                    assert_eq!(planned.status.code(), Some(0), "{searcher}: {}", stderr(&planned));
                }
            });
        }
    });
    let verified = platoon(dir, &["verify", "plans/host/day.plan"]);
    assert_eq!(verified.status.code(), Some(0), "{}", stderr(&verified));
    let names = std::fs::read_dir(dir.join("plans/host")).unwrap();
    let names: BTreeSet<String> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["day.plan", "day.report.json", "table", "weights"].map(String::from).into());
}

#[test]
fn tenants_whose_names_make_one_file_name_have_masks_of_their_own() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("ä", 1), ("ö", 1)]);
    pictures(&dir.join("frames"), 2, (64, 48));
    let arguments = [
        "replay",
        "--tasks",
        "tasks.toml",
        "--input",
        "frames",
        "--masks",
        "--trace",
        "--out",
        "out",
    ];
    let replayed = platoon(dir, &arguments);
    assert_eq!(replayed.status.code(), Some(0), "{}", stderr(&replayed));
    assert!(stdout(&replayed).contains("written to out"));
    let masks = std::fs::read_dir(dir.join("out/masks")).unwrap().count();
    assert_eq!(masks, 4, "two frames of two tenants");
    let results = std::fs::read_to_string(dir.join("out/results.jsonl")).unwrap();
    let named: BTreeSet<&str> = results.split('"').filter(|part| part.starts_with("masks/")).collect();
    assert_eq!(named.len(), 4, "{named:?}");
    // A trace of another run does not stay.
    assert!(dir.join("out/trace.json").exists());
    assert_eq!(platoon(dir, &arguments[..5]).status.code(), Some(0));
    let again = platoon(dir, &["replay", "--tasks", "tasks.toml", "--input", "frames", "--out", "out"]);
    assert_eq!(again.status.code(), Some(0));
    assert!(!dir.join("out/trace.json").exists() && std::fs::read_dir(dir.join("out/masks")).unwrap().next().is_none());
}

#[test]
fn scenes_of_one_drive_leave_nothing_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (seed, frames) in [("3", "3"), ("1", "2")] {
        let made = platoon(dir, &["scenes", "--seed", seed, "--frames", frames, "--out", "drive"]);
        assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    }
    for part in ["frames", "labels"] {
        assert_eq!(std::fs::read_dir(dir.join("drive").join(part)).unwrap().count(), 2, "{part}");
    }
}

#[test]
fn pictures_of_others_stay_where_frames_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join("drive/frames"), 2, (64, 48));
    let own = std::fs::read_dir(dir.join("drive/frames")).unwrap().count();
    for format in ["png", "raw"] {
        let said = complaint(&platoon(
            dir,
            &["scenes", "--seed", "1", "--frames", "1", "--out", "drive", "--format", format],
        ));
        assert!(said.contains("drive/frames/") && said.contains("truth.jsonl"), "{said}");
        assert_eq!(std::fs::read_dir(dir.join("drive/frames")).unwrap().count(), own);
    }
    // Neither does a replay take its own pictures away before it reads them.
    let replay = |input: &str| {
        platoon(
            dir,
            &["replay", "--tasks", "tasks.toml", "--input", input, "--overlay", "--out", "out"],
        )
    };
    assert_eq!(replay("drive/frames").status.code(), Some(0));
    let said = complaint(&replay("out/overlay"));
    assert!(said.contains("out/overlay") && said.contains("--out"), "{said}");
    assert_eq!(std::fs::read_dir(dir.join("out/overlay")).unwrap().count(), own + 1);
}

#[test]
fn what_has_no_end_or_no_writer_is_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    assert!(Command::new("mkfifo").arg(dir.join("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", dir.join("zero.npy")).unwrap();
    for endless in ["/dev/zero", "pipe"] {
        for arguments in [
            &["inspect", endless][..],
            &["verify", endless],
            &["plan", "--tasks", endless],
            &["infer", "--model", endless, "--input", "zero.npy", "--out", "o"],
            &["replay", "--tasks", "tasks.toml", "--input", endless],
        ] {
            let refused = platoon(dir, arguments);
            let said = stderr(&refused);
            assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {said}");
            assert!(said.contains(endless), "{arguments:?}: {said}");
        }
    }
    let text = complaint(&platoon(
        dir,
        &["infer", "--model", "tiny.onnx", "--input", "zero.npy", "--out", "o"],
    ));
    assert!(text.contains("zero.npy") && text.contains("not a regular file"), "{text}");
}

#[cfg(unix)]
#[test]
fn files_and_folders_whose_names_are_no_text_do_all_the_same() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    reshaping(dir, [1.0; 6]);
    let out = std::ffi::OsStr::from_bytes(b"o\xff");
    let input = std::ffi::OsStr::from_bytes(b"x=x\xff.npy");
    std::fs::rename(dir.join("x.npy"), dir.join(std::ffi::OsStr::from_bytes(b"x\xff.npy"))).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_platoon"))
        .current_dir(dir)
        .args(["infer", "--model", "net.onnx", "--input", "shape=s.npy", "--input"])
        .args([input, "--out".as_ref(), out])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&output).contains("double_y_0.npy"));
    assert!(dir.join(out).join("double_y_0.npy").is_file());
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join(out), 1, (64, 48));
    let replay = ["replay", "--tasks", "tasks.toml", "--input"].map(std::ffi::OsStr::new);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_platoon"))
        .current_dir(dir)
        .args(replay)
        .arg(out)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_do_not_reach_stdout_are_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_platoon"))
        .current_dir(dir.path())
        .args(["doctor", "--json"])
        .stdout(full)
        .output()
        .unwrap();
    assert!(complaint(&output).contains("stdout"), "{}", stderr(&output));
}
