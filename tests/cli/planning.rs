//! What the program says of plans before they run: changes, zones, rates that cannot be kept; and the table of all methods.

use super::gpu::board;
use super::{complaint, platoon, stdout, task_file};

#[test]
fn a_change_is_told_beside_what_is_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("one", 1), ("two", 1)]);
    board(dir);
    let changes = ["drop:two", "batch:one:3", "board:bench.toml", "drop:three"];
    let mut arguments = vec!["plan", "--tasks", "tasks.toml", "--json"];
    changes.iter().for_each(|c| arguments.extend(["--what-if", c]));
    let told = platoon(dir, &arguments);
    // A change that can be made to no task set is an error; the others are told all the same.
    assert_eq!(told.status.code(), Some(1), "{}", String::from_utf8_lossy(&told.stderr));
    let told: serde_json::Value = serde_json::from_str(&stdout(&told)).unwrap();
    let rows = told["predictions"].as_array().unwrap();
    assert_eq!(rows.len(), 1 + changes.len(), "{told}");
    let mean = |row: usize| rows[row]["mean_ms"].as_f64().unwrap();
    assert!(rows[0]["change"].is_null() && mean(0) > 0.0);
    assert!(mean(1) < mean(0) && rows[1]["finishes_ms"].get("two").is_none(), "{told}");
    assert!((rows[1]["to_as_it_is"].as_f64().unwrap() - mean(1) / mean(0)).abs() < 1e-9);
    let fixed = rows[2]["error"].as_str().unwrap();
    assert!(
        fixed.contains("one picture for each camera"),
        "the network takes one picture: {told}"
    );
    assert!(mean(3) > 0.0 && mean(3) != mean(0), "{told}");
    assert!(rows[4]["error"].as_str().unwrap().contains("there are one, two"), "{told}");
    assert!(!dir.join("plans").exists());
    let dropped = platoon(dir, &["plan", "--tasks", "tasks.toml", "--what-if", "drop:two"]);
    assert_eq!(dropped.status.code(), Some(0));
    let table = stdout(&dropped);
    assert!(table.contains("as it is") && table.contains("drop:two"), "{table}");
    // What can be made to no task set of several is one line.
    let tasks = std::fs::read_to_string(dir.join("tasks.toml")).unwrap();
    let night = tasks
        .split_once("[[sets")
        .unwrap()
        .1
        .replace("sets.day", "sets.night")
        .replace(".day", ".night");
    std::fs::write(dir.join("tasks.toml"), format!("{tasks}[[sets{night}")).unwrap();
    let nowhere = complaint(&platoon(dir, &["plan", "--tasks", "tasks.toml", "--what-if", "drop:nope"]));
    assert!(
        nowhere.contains("day, drop:nope") && nowhere.contains("night, drop:nope"),
        "{nowhere}"
    );
    let wrong = platoon(dir, &["plan", "--tasks", "tasks.toml", "--what-if", "rate:one:2"]);
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn zones_are_drawn_of_a_plan_that_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("one", 1), ("two", 2)]);
    assert_eq!(platoon(dir, &["plan", "--tasks", "tasks.toml"]).status.code(), Some(0));
    let drawn = platoon(dir, &["inspect", "plans/host/day.plan", "--zones", "zones.svg"]);
    assert_eq!(drawn.status.code(), Some(0), "{}", String::from_utf8_lossy(&drawn.stderr));
    let picture = std::fs::read_to_string(dir.join("zones.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains(">two</text>"), "{picture}");
}

#[test]
fn a_file_that_is_read_is_not_written_over() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("one", 1)]);
    assert_eq!(platoon(dir, &["plan", "--tasks", "tasks.toml"]).status.code(), Some(0));
    std::os::unix::fs::symlink("plans/host/day.plan", dir.join("link.svg")).unwrap();
    let plan = std::fs::read(dir.join("plans/host/day.plan")).unwrap();
    for (option, file) in [("--svg", "plans/host/day.plan"), ("--zones", "link.svg")] {
        let refused = complaint(&platoon(dir, &["inspect", "plans/host/day.plan", option, file]));
        assert!(refused.contains(file) && refused.contains("another file"), "{refused}");
    }
    assert_eq!(std::fs::read(dir.join("plans/host/day.plan")).unwrap(), plan);
    let tasks = std::fs::read(dir.join("tasks.toml")).unwrap();
    let bench = ["bench", "--tasks", "tasks.toml", "--peer", "none", "--json", "tasks.toml"];
    assert!(complaint(&platoon(dir, &bench)).contains("tasks.toml"));
    assert_eq!(std::fs::read(dir.join("tasks.toml")).unwrap(), tasks);
}

#[test]
fn a_task_set_that_falls_behind_the_cameras_is_refused_with_who_and_by_how_much() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("one", 1), ("two", 1)]);
    board(dir);
    let tasks = std::fs::read_to_string(dir.join("tasks.toml")).unwrap();
    std::fs::write(dir.join("tasks.toml"), format!("base_hz = 400000\n{tasks}")).unwrap();
    let plan = ["plan", "--board", "bench.toml", "--tasks", "tasks.toml"];
    let refused = complaint(&platoon(dir, &plan));
    assert!(refused.contains("400000 a second") && refused.contains("too long"), "{refused}");
    assert!(refused.contains("tenant `one`") || refused.contains("tenant `two`"), "{refused}");
    let wished = [&plan[..], &["--best-effort"]].concat();
    assert_eq!(platoon(dir, &wished).status.code(), Some(0));
    std::fs::write(dir.join("tasks.toml"), format!("base_hz = 30\n{tasks}")).unwrap();
    assert_eq!(platoon(dir, &plan).status.code(), Some(0));
}

#[test]
fn the_table_of_all_methods_is_written_as_text_json_and_picture() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    task_file(dir, &[("one", 1), ("two", 1)]);
    let arguments = "bench --table out --tasks tasks.toml --mix day --mix bst:1+bst:2 --frames 4 --budget 300 --peer none --workers 1";
    let made = platoon(dir, &arguments.split(' ').collect::<Vec<_>>());
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(dir.join("out/table.json")).unwrap()).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(
        (rows.len(), &rows[0]["name"], &rows[1]["name"]),
        (2, &"day".into(), &"bst:1+bst:2".into())
    );
    for row in rows {
        assert_eq!(row["entries"].as_array().unwrap().len(), 8, "{row}");
        assert_eq!(row["verdict"]["identical"], true);
        assert!(row["verdict"]["over_streams"].as_f64().unwrap() > 0.0);
    }
    let text = std::fs::read_to_string(dir.join("out/table.md")).unwrap();
    assert!(stdout(&made).contains(&text) && text.contains("| day | "), "{text}");
    assert!(std::fs::read_to_string(dir.join("out/table.svg")).unwrap().starts_with("<svg"));
    let unknown = complaint(&platoon(dir, &["bench", "--table", "out", "--mix", "night", "--peer", "none"]));
    assert!(unknown.contains("night"), "{unknown}");
}
