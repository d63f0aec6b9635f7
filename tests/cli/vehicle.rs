//! What the program does for vehicles on any machine: plans for boards that are not here, real-time options, a clean stop.

use super::{complaint, pictures, platoon, stdout, task_file};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const ORIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/boards/jetson-agx-orin.toml");

#[test]
fn plans_for_a_jetson_say_that_their_times_are_modelled_and_modes_are_boards() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    let plan = ["plan", "--tasks", "tasks.toml", "--board", ORIN];
    let made = platoon(dir, &[&plan[..], &["--json"]].concat());
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert_eq!(made.status.code(), Some(0), "{said}");
    assert!(said.contains("sm_87") && said.contains("--complete"), "kernels are missing: {said}");
    let made: serde_json::Value = serde_json::from_str(&stdout(&made)).unwrap();
    assert_eq!((&made["times"], &made["kernels"]), (&"modelled".into(), &serde_json::Value::Null));
    let fast = made["plans"][0]["predicted_ms"].as_f64().unwrap();

    let slow = platoon(dir, &[&plan[..], &["--power-mode", "mode_15w", "--json"]].concat());
    let slow: serde_json::Value = serde_json::from_str(&stdout(&slow)).unwrap();
    assert!(slow["plans"][0]["predicted_ms"].as_f64().unwrap() > fast, "{slow}");
    assert!(dir.join("plans/jetson-agx-orin-mode-15w/day.plan").exists());
    let table = stdout(&platoon(dir, &[&plan[..], &["--power-mode", "mode_15w"]].concat()));
    assert!(
        table.contains("modelled from the rates of board jetson-agx-orin-mode-15w"),
        "{table}"
    );
    assert!(
        table.contains(&format!("`platoon profile --board {ORIN} --power-mode mode_15w`")),
        "{table}"
    );
    let wrong = complaint(&platoon(dir, &[&plan[..], &["--power-mode", "TURBO"]].concat()));
    assert!(wrong.contains("`TURBO`") && wrong.contains("MODE_30W"), "{wrong}");

    // Where they do not belong, the doctor says so, and nothing is wrong with them.
    let doctor = platoon(dir, &["doctor", "--json"]);
    assert_eq!(doctor.status.code(), Some(0));
    let doctor: serde_json::Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    let plans = &doctor["plans"][0];
    assert_eq!(
        (&plans["found"]["for_this_machine"], &plans["found"]["fits"]),
        (&false.into(), &false.into())
    );
    assert!(plans["advice"].as_str().unwrap().contains("sm_87"), "{plans}");
    for key in ["mlock", "real time", "affinity"] {
        let found = &doctor[key]["found"]["refused"];
        let refused = found.as_str().is_some_and(|text| !text.is_empty());
        assert!(!refused || doctor[key]["advice"].is_string(), "{key}: {doctor}");
    }
}

#[test]
fn plans_that_are_for_this_machine_fit_it() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    assert_eq!(platoon(dir, &["plan", "--tasks", "tasks.toml"]).status.code(), Some(0));
    let doctor: serde_json::Value = serde_json::from_str(&stdout(&platoon(dir, &["doctor", "--json"]))).unwrap();
    let found = &doctor["plans"]["found"];
    assert_eq!((&found["fits"], &found["amiss"]), (&true.into(), &serde_json::json!([])));
}

#[test]
fn what_the_system_refuses_is_said_and_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join("frames"), 2, (64, 48));
    let replay = ["replay", "--tasks", "tasks.toml", "--input", "frames"];
    let refused = platoon(
        dir,
        &[&replay[..], &["--loop-cores", "1023", "--cores", "1022-1023", "--prefault"]].concat(),
    );
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(0), "{said}");
    for line in ["pinning was refused for the loop's thread", "pinning was refused for worker 0"] {
        assert!(said.contains(line), "{said}");
    }
    let granted = platoon(dir, &[&replay[..], &["--prefault"]].concat());
    assert_eq!((granted.status.code(), granted.stderr.len()), (Some(0), 0));
    for wrong in [
        ["--cores", "3-1"],
        ["--fifo", "100"],
        ["--loop-fifo", "0"],
        ["--slot-memory", "lost"],
    ] {
        assert_eq!(platoon(dir, &[&replay[..], &wrong].concat()).status.code(), Some(2), "{wrong:?}");
    }
}

/// A child that is gone with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Starts `program`, a replay, over `frames` in `dir`, 20 a second, and comes back when there are some results.
    fn replay(mut program: Command, dir: &Path, out: &Path) -> Running {
        let child = program
            .args(["--tasks", "tasks.toml", "--input", "frames", "--rate", "20", "--overlay", "--out"])
            .arg(out)
            .current_dir(dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let mut child = Running(child);
        let began = Instant::now();
        // An overlay is written frame by frame; text is buffered.
        while std::fs::read_dir(out.join("overlay")).map_or(0, Iterator::count) < 3 {
            assert!(began.elapsed() < Duration::from_secs(60), "no frame came");
            assert!(child.0.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::sleep(Duration::from_millis(20));
        }
        child
    }

    /// Sends it a signal, and waits for its end: its exit code.
    fn signal(&mut self, signal: &str) -> Option<i32> {
        let kill = format!("kill -{signal} {}", self.0.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
        self.0.wait().unwrap().code()
    }
}

/// Lines of a file that are complete.
fn lines(file: &Path) -> usize {
    std::fs::read_to_string(file).map_or(0, |text| text.matches('\n').count())
}

#[test]
fn a_stop_lets_the_frame_finish_and_writes_results_and_trace() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join("frames"), 200, (64, 48));
    assert_eq!(platoon(dir, &["plan", "--tasks", "tasks.toml"]).status.code(), Some(0));
    for signal in ["TERM", "INT"] {
        let out = dir.join(signal);
        let mut program = Command::new(env!("CARGO_BIN_EXE_platoon"));
        program.args(["replay", "--frozen", "--trace", "--json"]);
        let mut child = Running::replay(program, dir, &out);
        assert_eq!(child.signal(signal), Some(0), "{signal}");
        let summary: serde_json::Value = serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap();
        let frames = summary["frames"].as_u64().unwrap() as usize;
        assert!((3..200).contains(&frames), "{summary}");
        assert_eq!((&summary["asked"], &summary["stopped"]), (&200.into(), &true.into()));
        assert_eq!(lines(&out.join("results.jsonl")), frames);
        let results = std::fs::read_to_string(out.join("results.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(results.lines().last().unwrap()).unwrap();
        assert_eq!(last["tenants"]["only"]["status"], "fresh");
        let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(out.join("trace.json")).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        let of_last = events.iter().filter(|e| e["args"]["frame"] == last["frame"]);
        assert!(of_last.count() > 0 && events.iter().all(|e| e["dur"].as_f64().is_some_and(|us| us > 0.0)));
    }
}

#[test]
fn a_hangup_ends_a_replay_in_order_unless_it_was_started_to_ignore_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join("frames"), 30, (64, 48));
    // Whoever runs the tests may have been started to ignore hangups.
    let hung_up = |start: &str, out: &str| {
        let mut program = Command::new("env");
        program.args([start, env!("CARGO_BIN_EXE_platoon"), "replay"]);
        let out = dir.join(out);
        let mut child = Running::replay(program, dir, &out);
        let code = child.signal("HUP");
        let said = std::io::read_to_string(child.0.stderr.take().unwrap()).unwrap();
        assert_eq!(code, Some(0), "{said}");
        (said, lines(&out.join("results.jsonl")))
    };
    let (said, frames) = hung_up("--default-signal=HUP", "asked");
    assert!(said.contains(&format!("stopped: {frames} of 30 frames have run")), "{said}");
    assert!((1..30).contains(&frames), "{frames} of 30");
    let (said, frames) = hung_up("--ignore-signal=HUP", "ignored");
    assert_eq!((said.contains("stopped"), frames), (false, 30), "{said}");
}
