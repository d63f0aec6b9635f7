//! The program as a person meets it: exit codes, streams, files. What the networks compute is tested elsewhere.

#![cfg(feature = "cli")]

use std::path::Path;
use std::process::{Command, Output};

#[allow(dead_code)] // other binaries use other parts
#[path = "common/crops.rs"]
mod crops;
#[path = "cli/folders.rs"]
mod folders;
#[path = "cli/gpu.rs"]
mod gpu;
#[path = "cli/messages.rs"]
mod messages;
#[allow(dead_code)] // other binaries use other parts
#[path = "common/onnx.rs"]
mod onnx;
#[path = "cli/own.rs"]
mod own;
#[path = "cli/planning.rs"]
mod planning;
#[path = "cli/raw.rs"]
mod raw;
#[path = "cli/vehicle.rs"]
mod vehicle;

/// Runs the program in `dir`.
fn platoon(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_platoon"))
        .args(arguments)
        .current_dir(dir)
        .env_remove("RUST_LOG")
        .output()
        .expect("the program starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("results are text")
}

/// The one line on stderr of a run that ended with code 1.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).expect("complaints are text");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(text.starts_with("platoon: "), "{text}");
    text
}

/// A task file with the tenants of `tenants` (name, divisor), all on one tiny network, and the files it needs.
fn task_file(dir: &Path, tenants: &[(&str, u16)]) {
    std::fs::write(dir.join("tiny.onnx"), raw::shades()).unwrap();
    let card = "\
name = \"tiny\"
onnx = \"tiny.onnx\"
source = \"made by this test\"
licence = \"Apache-2.0 OR MIT\"
[input]
fit = \"stretch\"
order = \"rgb\"
[segmentation]
maps = [{ output = \"shades\", axis = 1, labels = [\"background\", \"bright\"] }]
";
    std::fs::write(dir.join("model.toml"), card).unwrap();
    let mut tasks = String::from("default = \"day\"\n[[cameras]]\nname = \"front\"\nmax_width = 64\nmax_height = 48\n");
    for (name, divisor) in tenants {
        tasks.push_str(&format!(
            "[[sets.day.tenants]]\nname = \"{name}\"\nmodel = \"model.toml\"\ncameras = [\"front\"]\nevery = {divisor}\n"
        ));
    }
    std::fs::write(dir.join("tasks.toml"), tasks).unwrap();
}

/// A folder of pictures of `size` with a bright right half, darker from frame to frame.
fn pictures(dir: &Path, count: u8, size: (u32, u32)) {
    std::fs::create_dir_all(dir).unwrap();
    for i in 0..count {
        let picture = image::RgbImage::from_fn(size.0, size.1, |x, _| image::Rgb([if x >= size.0 / 2 { 250 - i } else { 10 }; 3]));
        picture.save(dir.join(format!("{i:04}.png"))).unwrap();
    }
}

#[test]
fn the_zoo_is_measured_and_exported_without_a_task_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let arguments = [
        "bench",
        "--zoo",
        "bst:2+bst:1",
        "--peer",
        "none",
        "--frames",
        "3",
        "--json",
        "f.json",
    ];
    let output = platoon(path, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout(&output).contains("bst:2+bst:1"), "{}", stdout(&output));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path.join("f.json")).unwrap()).unwrap();
    let group = &json["zoo"][0];
    assert_eq!(
        (group["networks"][1]["batch"].as_u64(), group["ours"]["frame"]["frames"].as_u64()),
        (Some(1), Some(3))
    );
    assert!(
        group["peer"].is_null() && group["ours"]["networks"]["median_ms"].as_f64().is_some_and(|ms| ms > 0.0),
        "{group}"
    );

    let output = platoon(path, &["bench", "--zoo", "bst", "--batch", "1", "--export", "out"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for file in [
        "parameters/t.self_attn.in_proj_weight.npy",
        "inputs/tokens.npy",
        "outputs/score.npy",
    ] {
        assert!(path.join("out/bst").join(file).is_file(), "{file}");
    }
    let unknown = complaint(&platoon(path, &["bench", "--zoo", "r51"]));
    assert!(unknown.contains("`r51`") && unknown.contains("r50"), "{unknown}");
    assert_eq!(
        platoon(path, &["bench", "--export", "out"]).status.code(),
        Some(2),
        "an export of nothing"
    );
}

/// A `.npy` file.
fn npy(descr: &str, shape: &str, body: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), body].concat()
}

#[test]
fn help_teaches_and_wrong_usage_is_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let help = platoon(dir.path(), &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(stdout(&help).contains("First steps") && help.stderr.is_empty());
    for command in ["plan", "inspect", "verify", "replay", "scenes", "infer", "doctor"] {
        let help = platoon(dir.path(), &[command, "--help"]);
        assert_eq!(help.status.code(), Some(0), "{command}");
        assert!(stdout(&help).contains("Example"), "{command}");
    }
    let wrong: [&[&str]; 18] = [
        &[],
        &["fly"],
        &["replay"],
        &["replay", "--input", "x", "--overlay"],
        &["replay", "--input", "x", "--rate", "0"],
        &["replay", "--input", "x", "--score"],
        &["replay", "--input", "synthetic:"],
        &["replay", "--input", "synthetic:-7"],
        &["scenes", "--seed", "7", "--frames", "1"],
        &["scenes", "--seed", "seven", "--frames", "1", "--out", "o"],
        &["scenes", "--seed", "-1", "--frames", "1", "--out", "o"],
        &["scenes", "--seed", "7", "--frames", "0", "--out", "o"],
        &["scenes", "--seed", "7", "--frames", "1", "--every", "0", "--out", "o"],
        &["scenes", "--seed", "7", "--frames", "1", "--start", "4294967296", "--out", "o"],
        &["scenes", "--seed", "7", "--frames", "1", "--format", "jpg", "--out", "o"],
        &["plan", "--workers", "0"],
        &["plan", "--batch", "0"],
        &["infer", "--model", "x.onnx", "--out", "o", "--batch", "0"],
    ];
    for arguments in wrong {
        let output = platoon(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert!(!dir.path().join("o").exists(), "wrong usage writes nothing");
}

#[test]
fn bad_input_is_one_line_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("noise.plan"), [7; 300]).unwrap();
    std::fs::write(dir.join("typo.toml"), "default = \"day\"\ncolour = 3\n").unwrap();
    std::fs::write(dir.join("noise.onnx"), "not a network").unwrap();
    let cases: [(&[&str], &str); 9] = [
        (&["plan"], "tasks.toml"),
        (&["plan", "--tasks", "typo.toml"], "typo.toml:2"),
        (&["plan", "--board", "nowhere"], "nowhere"),
        (&["plan", "--backend", "cuda", "--board", "host"], "has no GPU"),
        (&["inspect", "noise.plan"], "noise.plan"),
        (&["verify", "noise.plan"], "noise.plan"),
        (&["verify", "none.plan"], "none.plan"),
        (&["replay", "--frozen", "--input", "."], "--frozen"),
        (&["infer", "--model", "noise.onnx", "--input", "x.npy", "--out", "o"], "noise.onnx"),
    ];
    for (arguments, named) in cases {
        let output = platoon(dir, arguments);
        let line = complaint(&output);
        assert!(line.contains(named), "{arguments:?}: {line}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn options_that_would_be_ignored_or_mean_nothing_are_wrong_usage() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [&[&str]; 3] = [
        &["replay", "--input", "synthetic:1", "--frames", "0"],
        &["replay", "--input", "synthetic:1", "--frozen", "--dtype", "f16"],
        &["replay", "--input", "synthetic:1-0"],
    ];
    for arguments in cases {
        assert_eq!(platoon(dir.path(), arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_shorter_replay_leaves_nothing_of_a_longer_one() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("every", 1)]);
    pictures(&dir.join("frames"), 3, (64, 48));
    let run = |frames: &str| {
        let more = ["--input", "frames", "--out", "o", "--overlay", "--masks", "--frames", frames];
        let output = platoon(dir, &[&["replay", "--tasks", "tasks.toml"], &more[..]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    run("3");
    let kept = ["o/overlay/notes.txt", "o/masks/12.png"].map(|name| dir.join(name));
    kept.iter().for_each(|file| std::fs::write(file, "mine").unwrap());
    std::fs::write(dir.join("o/score.json"), "{}").unwrap();
    run("1");
    let names = |folder: &str| -> Vec<String> {
        let entries = std::fs::read_dir(dir.join("o").join(folder)).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(names("overlay"), ["0000.png", "contact.png", "notes.txt"]);
    assert_eq!(names("masks").len(), 2, "{:?}", names("masks"));
    assert!(kept.iter().all(|file| file.exists()), "files of others stay");
    assert!(!dir.join("o/score.json").exists());
}

#[test]
fn a_replay_compiles_what_it_needs_and_gives_the_same_bytes_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("every", 1), ("second", 2)]);
    pictures(&dir.join("frames"), 5, (64, 48));
    let run = |out: &str, more: &[&str]| {
        let arguments = [
            "replay",
            "--tasks",
            "tasks.toml",
            "--input",
            "frames",
            "--out",
            out,
            "--masks",
            "--overlay",
        ];
        let output = platoon(dir, &[&arguments, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        (
            stdout(&output),
            std::fs::read_to_string(dir.join(out).join("results.jsonl")).unwrap(),
        )
    };
    let (table, first) = run("a", &[]);
    assert!(table.contains("every") && table.contains("5 frames"), "{table}");
    let (summary, again) = run("b", &["--frozen", "--json"]);
    assert_eq!(first, again);
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["tenants"]["second"]["held"], 2);

    let lines: Vec<serde_json::Value> = first.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[3]["source"], "0003.png");
    let every = &lines[3]["tenants"]["every"];
    assert_eq!((every["status"].as_str(), every["of_frame"].as_u64()), (Some("fresh"), Some(3)));
    let map = &every["maps"]["shades"];
    assert_eq!(map["fractions"], serde_json::json!([0.5, 0.5]));
    let second = &lines[3]["tenants"]["second"];
    assert_eq!((second["status"].as_str(), second["of_frame"].as_u64()), (Some("held"), Some(2)));
    assert_eq!(second["maps"], lines[2]["tenants"]["second"]["maps"], "a held result repeats");

    let mask = image::open(dir.join("a").join(map["file"].as_str().unwrap())).unwrap().into_luma8();
    assert_eq!(mask.dimensions(), (64, 48));
    assert!(mask.enumerate_pixels().all(|(x, _, p)| p.0[0] == u8::from(x >= 32)));
    assert!(!dir.join("a/masks/0003.second.png").exists(), "a held map is not written twice");
    assert_eq!(
        image::open(dir.join("a/overlay/0004.png")).unwrap().into_rgb8().dimensions(),
        (64, 48)
    );
    assert!(dir.join("a/overlay/contact.png").exists() && dir.join("a/summary.json").exists());
    assert_eq!(std::fs::read_to_string(dir.join("a/timing.jsonl")).unwrap().lines().count(), 5);
}

#[test]
fn crops_of_detections_are_classified_under_their_boxes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    crops::write(dir, 2);
    pictures(&dir.join("frames"), 2, (64, 48));
    let arguments = ["replay", "--tasks", "tasks.toml", "--input", "frames", "--out", "out", "--overlay"];
    let output = platoon(dir, &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let results = std::fs::read_to_string(dir.join("out/results.jsonl")).unwrap();
    let frames: Vec<serde_json::Value> = results.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let found = &frames[0]["tenants"]["scout"]["detections"];
    let labels: Vec<_> = (0..3).map(|i| found[i]["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["car", "sign", "light"]);
    let signal = &frames[0]["tenants"]["signal"];
    let items = signal["items"].as_array().unwrap();
    // The car is no crop; of the four crops two show something. The sign stands in the dark half, the light in the bright one.
    let expected = [(1, [16.0, 16.0, 32.0, 32.0], "dark"), (2, [32.0, 32.0, 48.0, 48.0], "bright")];
    assert_eq!(items.len(), expected.len());
    for (item, (row, bounds, label)) in items.iter().zip(expected) {
        assert_eq!(item["detection"], row);
        assert_eq!(item["box"], serde_json::json!(bounds));
        assert_eq!(item["box"], found[row as usize]["box"]);
        assert_eq!(item["top"][0]["label"], label);
    }
    // In the next frame `signal` does not run, and says so.
    let held = &frames[1]["tenants"]["signal"];
    assert_eq!((held["status"].as_str(), held["of_frame"].as_u64()), (Some("held"), Some(0)));
    assert_eq!(held["items"], signal["items"]);
}

/// A task file whose one tenant, `only`, tells the bright from the dark in pictures of 1280 x 720, under these labels.
fn brightness(dir: &Path, labels: [&str; 2]) {
    task_file(dir, &[("only", 2)]);
    let replace = |name: &str, from: &str, to: String| {
        let text = std::fs::read_to_string(dir.join(name)).unwrap();
        assert!(text.contains(from));
        std::fs::write(dir.join(name), text.replace(from, &to)).unwrap();
    };
    replace(
        "model.toml",
        "\"background\", \"bright\"",
        format!("{:?}, {:?}", labels[0], labels[1]),
    );
    replace(
        "tasks.toml",
        "max_width = 64\nmax_height = 48",
        "max_width = 1280\nmax_height = 720".into(),
    );
}

#[test]
fn a_synthetic_drive_is_replayed_and_scored() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    brightness(dir, ["road", "sky"]);
    let run = |out: &str, more: &[&str]| {
        let arguments = [
            "replay",
            "--tasks",
            "tasks.toml",
            "--input",
            "synthetic:7",
            "--frames",
            "3",
            "--out",
            out,
        ];
        let output = platoon(dir, &[&arguments, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let results = std::fs::read_to_string(dir.join(out).join("results.jsonl")).unwrap();
        (stdout(&output), results)
    };
    let (table, first) = run("a", &["--score", "--overlay"]);
    assert!(table.contains("accuracy") && table.contains("mIoU 0."), "{table}");
    let (summary, again) = run("b", &["--score", "--json"]);
    assert_eq!(first, again);
    let lines: Vec<serde_json::Value> = first.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let sources: Vec<&str> = lines.iter().map(|l| l["source"].as_str().unwrap()).collect();
    assert_eq!(sources, ["synthetic:7#0", "synthetic:7#1", "synthetic:7#2"]);

    let score: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(dir.join("a/score.json")).unwrap()).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["score"], score);
    assert_eq!(
        (&score["map50"], &score["top1"], &score["frames"]),
        (&serde_json::Value::Null, &serde_json::Value::Null, &3.into())
    );
    let miou = score["miou"].as_f64().unwrap();
    assert!(miou > 0.0 && miou < 1.0, "{miou}");
    let only = &score["tenants"]["only"];
    assert_eq!(
        (only["frames"].as_u64(), only["miou"].as_f64()),
        (Some(2), Some(miou)),
        "the held frame is not counted"
    );
    let classes: Vec<&String> = only["classes"].as_object().unwrap().keys().collect();
    assert_eq!(classes, ["road", "sky"]);

    let contact = image::open(dir.join("a/overlay/contact.png")).unwrap();
    assert!(contact.width() > 400);
    let (table, _) = run("c", &[]);
    assert!(!table.contains("accuracy") && !dir.join("c/score.json").exists());
}

#[test]
fn what_has_nothing_to_be_scored_by_is_said_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    brightness(dir, ["dark", "bright"]);
    let replay = ["replay", "--tasks", "tasks.toml", "--frames", "2", "--input"];
    let run = |more: &[&str]| platoon(dir, &[&replay, more].concat());
    let refused = complaint(&run(&["synthetic:7", "--score", "--out", "out"]));
    assert!(refused.contains("`only`") && refused.contains("lane mark"), "{refused}");
    assert!(!dir.join("out/results.jsonl").exists());
    assert_eq!(run(&["synthetic:7"]).status.code(), Some(0), "it runs all the same");
    let recorded = run(&["frames", "--score"]);
    assert_eq!(recorded.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&recorded.stderr).contains("synthetic:"));
}

#[test]
fn scenes_are_the_same_files_by_any_number_of_workers_and_in_either_format() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let run = |out: &str, more: &[&str]| {
        let arguments = [
            "scenes", "--seed", "7", "--frames", "3", "--every", "40", "--start", "5", "--out", out,
        ];
        let output = platoon(dir, &[&arguments, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        stdout(&output)
    };
    let summary: serde_json::Value = serde_json::from_str(&run("png", &["--json", "--workers", "3"])).unwrap();
    assert_eq!(
        (&summary["seed"], &summary["frames"], &summary["format"]),
        (&7.into(), &3.into(), &"png".into())
    );
    assert!(run("raw", &["--format", "raw", "--workers", "1"]).contains("3 frames of drive 7"));

    let read = |file: &str| std::fs::read(dir.join(file)).unwrap();
    let truth = |out: &str| -> Vec<serde_json::Value> {
        let text = String::from_utf8(read(&format!("{out}/truth.jsonl"))).unwrap();
        text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
    };
    let (pixels, labels) = (read("raw/frames.bin"), read("raw/labels.bin"));
    assert_eq!((pixels.len(), labels.len()), (3 * 1280 * 720 * 3, 3 * 1280 * 720));
    let (png, raw) = (truth("png"), truth("raw"));
    assert_eq!((png.len(), raw.len()), (3, 3));
    let mut objects = 0;
    for (i, (png, raw)) in png.iter().zip(&raw).enumerate() {
        assert_eq!(
            (&png["frame"], &png["number"], &png["seed"]),
            (&i.into(), &(5 + 40 * i).into(), &7.into())
        );
        assert_eq!((&raw["picture"], &raw["labels"]), (&"frames.bin".into(), &"labels.bin".into()));
        assert_eq!(png["objects"], raw["objects"]);
        let open = |key: &str| image::open(dir.join("png").join(png[key].as_str().unwrap())).unwrap();
        assert!(
            open("picture").into_rgb8().into_raw() == pixels[i * 1280 * 720 * 3..][..1280 * 720 * 3],
            "picture {i}"
        );
        assert!(
            open("labels").into_luma8().into_raw() == labels[i * 1280 * 720..][..1280 * 720],
            "labels {i}"
        );
        for object in png["objects"].as_array().unwrap() {
            objects += 1;
            let edges: Vec<u64> = object["box"].as_array().unwrap().iter().map(|e| e.as_u64().unwrap()).collect();
            assert!(
                edges[0] < edges[2] && edges[1] < edges[3] && edges[2] <= 1280 && edges[3] <= 720,
                "{object}"
            );
            assert_eq!(object["signal"].is_u64(), object["class"].as_u64() >= Some(4), "{object}");
        }
    }
    assert!(objects > 0, "drive 7 has traffic");
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "no folder").unwrap();
    for format in ["png", "raw"] {
        let arguments = ["scenes", "--seed", "7", "--frames", "2", "--out", "file/set", "--format", format];
        let line = complaint(&platoon(dir.path(), &arguments));
        assert!(line.contains("file/set"), "{line}");
    }
}

#[test]
fn a_changed_network_is_compiled_again_unless_frozen() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join("frames"), 1, (32, 24));
    let plan = || std::fs::read(dir.join("plans/host/day.plan")).unwrap();
    let replay = |more: &[&str]| {
        let arguments = ["replay", "--tasks", "tasks.toml", "--input", "frames/0000.png"];
        let output = platoon(dir, &[&arguments, more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    };
    replay(&[]);
    let before = plan();
    replay(&[]);
    assert_eq!(plan(), before, "nothing changed");
    let card = std::fs::read_to_string(dir.join("model.toml")).unwrap();
    std::fs::write(dir.join("model.toml"), card.replace("bright", "light")).unwrap();
    replay(&["--frozen"]);
    assert_eq!(plan(), before, "frozen plans stay");
    replay(&[]);
    assert_ne!(plan(), before);

    // A card that vouches for another network than the one that its plans are made from.
    let card = std::fs::read_to_string(dir.join("model.toml")).unwrap();
    std::fs::write(dir.join("model.toml"), format!("digest = \"{}\"\n{card}", "0".repeat(64))).unwrap();
    let other = platoon(dir, &["replay", "--tasks", "tasks.toml", "--input", "frames/0000.png"]);
    assert!(complaint(&other).contains("model.toml"));
    replay(&["--frozen"]);
}

#[test]
fn pictures_of_any_width_run() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    pictures(&dir.join("frames"), 1, (64, 48));
    // What is beside a picture under a hidden name is none.
    std::fs::write(dir.join("frames/._0000.png"), "no picture").unwrap();
    for columns in 201..205 {
        std::fs::write(dir.join("tiny.onnx"), raw::shades_of(&[3, 3], &[66, columns])).unwrap();
        let output = platoon(dir, &["replay", "--tasks", "tasks.toml", "--input", "frames", "--out", "out"]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{columns}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let results = std::fs::read_to_string(dir.join("out/results.jsonl")).unwrap();
        let result: serde_json::Value = serde_json::from_str(results.lines().next().unwrap()).unwrap();
        assert_eq!(result["tenants"]["only"]["status"], "fresh", "{columns}: {results}");
    }
}

#[test]
fn pictures_that_cannot_be_used_are_named_and_the_replay_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    let frames = dir.join("frames");
    pictures(&frames, 4, (64, 48));
    std::fs::write(frames.join("0001.png"), "no picture").unwrap();
    pictures(&dir.join("large"), 1, (65, 48));
    std::fs::copy(dir.join("large/0000.png"), frames.join("0002.png")).unwrap();
    let output = platoon(dir, &["replay", "--tasks", "tasks.toml", "--input", "frames", "--out", "out"]);
    assert_eq!(output.status.code(), Some(1));
    let complaints = String::from_utf8(output.stderr.clone()).unwrap();
    let complaints: Vec<&str> = complaints.lines().collect();
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].contains("0001.png") && complaints[1].contains("0002.png") && complaints[1].contains("65x48"));
    assert!(stdout(&output).contains("2 pictures could not be used"));
    let results = std::fs::read_to_string(dir.join("out/results.jsonl")).unwrap();
    let states: Vec<(String, u64)> = results
        .lines()
        .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap()["tenants"]["only"].clone())
        .map(|t| (t["status"].as_str().unwrap().to_owned(), t["of_frame"].as_u64().unwrap()))
        .collect();
    let expected = [("fresh", 0), ("stale", 0), ("stale", 0), ("fresh", 3)].map(|(s, f)| (s.to_owned(), f));
    assert_eq!(states, expected);
}

#[test]
fn plans_are_made_inspected_verified_and_found_by_the_doctor() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("only", 1)]);
    let made = platoon(dir, &["plan", "--tasks", "tasks.toml", "--json"]);
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let made: serde_json::Value = serde_json::from_str(&stdout(&made)).unwrap();
    assert_eq!(
        (&made["plans"][0]["task_set"], &made["plans"][0]["prediction"]),
        (&"day".into(), &"estimated".into())
    );
    let unknown = complaint(&platoon(dir, &["plan", "--tasks", "tasks.toml", "--task-set", "night"]));
    assert!(unknown.contains("`night`") && unknown.contains("`day`"), "{unknown}");

    let plan = "plans/host/day.plan";
    assert!(stdout(&platoon(dir, &["inspect", plan])).contains("tenant t0 \"only\""));
    let summary: serde_json::Value = serde_json::from_str(&stdout(&platoon(dir, &["inspect", plan, "--json"]))).unwrap();
    assert_eq!(
        (&summary["sound"], &summary["tenants"][0]["kind"]),
        (&true.into(), &"segmentation".into())
    );
    assert_eq!(platoon(dir, &["inspect", plan, "--svg", "day.svg"]).status.code(), Some(0));
    assert!(std::fs::read_to_string(dir.join("day.svg")).unwrap().starts_with("<svg"));
    let verified = platoon(dir, &["verify", plan]);
    assert_eq!(verified.status.code(), Some(0));
    assert!(stdout(&verified).contains("names this plan"));
    assert_eq!(platoon(dir, &["doctor"]).status.code(), Some(0));

    let weights = std::fs::read_dir(dir.join("plans/host/weights"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = std::fs::read(&weights).unwrap();
    bytes[0] ^= 1;
    std::fs::write(&weights, bytes).unwrap();
    let name = weights.file_name().unwrap().to_string_lossy().into_owned();
    assert!(complaint(&platoon(dir, &["verify", plan])).contains(&name));
    let doctor = platoon(dir, &["doctor", "--json"]);
    assert_eq!(doctor.status.code(), Some(1));
    let doctor: serde_json::Value = serde_json::from_str(&stdout(&doctor)).unwrap();
    assert!(doctor["plans"]["found"]["error"].as_str().unwrap().contains(&name));
}

#[test]
fn infer_fixes_shapes_and_writes_tensors_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let values = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.5];
    let body = folders::reshaping(dir, values);
    let given = ["infer", "--model", "net.onnx", "--out", "out", "--input", "x=x.npy"];
    let output = platoon(dir, &[&given[..], &["--input", "shape=s.npy"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = r#"{"outputs":{"double/y:0":{"file":"out/double_y_0.npy","shape":[3,2],"dtype":"float32"}}}"#;
    assert_eq!(stdout(&output), format!("{expected}\n"));
    let written = std::fs::read(dir.join("out/double_y_0.npy")).unwrap();
    let doubled: Vec<u8> = values.iter().flat_map(|v| (2.0 * v).to_le_bytes()).collect();
    assert_eq!(written[written.len() - doubled.len()..], doubled);

    assert!(
        complaint(&platoon(dir, &given)).contains("`shape`"),
        "an input without data is named"
    );
    std::fs::write(dir.join("short.npy"), npy("<f4", "(2, 3)", &body[4..])).unwrap();
    let short = [
        "infer",
        "--model",
        "net.onnx",
        "--out",
        "out",
        "--input",
        "shape=s.npy",
        "--input",
        "x=short.npy",
    ];
    assert!(complaint(&platoon(dir, &short)).contains("short.npy"));

    // An output of which a file that is read has the name.
    std::fs::create_dir(dir.join("own")).unwrap();
    let input = std::fs::read(dir.join("x.npy")).unwrap();
    std::fs::write(dir.join("own/double_y_0.npy"), &input).unwrap();
    let over = [
        "infer",
        "--model",
        "net.onnx",
        "--out",
        "own",
        "--input",
        "x=own/double_y_0.npy",
        "--input",
        "shape=s.npy",
    ];
    assert!(complaint(&platoon(dir, &over)).contains("another file"));
    assert_eq!(std::fs::read(dir.join("own/double_y_0.npy")).unwrap(), input);
}
