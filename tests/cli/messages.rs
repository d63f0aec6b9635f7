//! What is said of mistakes: which file, what to do, in one line.

use super::folders::reshaping;
use super::{complaint, npy, platoon, raw, stdout, task_file};

#[test]
fn inputs_of_a_wrong_type_are_named_by_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    reshaping(dir, [1.0; 6]);
    let whole: Vec<u8> = [7i32; 6].iter().flat_map(|v| v.to_le_bytes()).collect();
    std::fs::write(dir.join("whole.npy"), npy("<i4", "(2, 3)", &whole)).unwrap();
    let infer = |x: &str| {
        platoon(
            dir,
            &["infer", "--model", "net.onnx", "--input", "shape=s.npy", "--input", x, "--out", "o"],
        )
    };
    let refused = complaint(&infer("x=whole.npy"));
    assert!(refused.contains("whole.npy: input `x` takes"), "{refused}");
    let refused = complaint(&infer("x="));
    assert!(refused.contains("--input x=: no file is named"), "{refused}");
}

#[test]
fn what_is_wrong_with_a_network_is_told_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("x.npy"), npy("<f4", "(4,)", &[0; 16])).unwrap();
    std::fs::write(dir.join("wide.npy"), npy("<i8", "(4,)", &[0; 32])).unwrap();
    std::fs::write(dir.join("elsewhere.onnx"), raw::elsewhere("w.bin")).unwrap();
    std::fs::write(dir.join("twice.onnx"), raw::two_of_one_name()).unwrap();
    std::fs::write(dir.join("circle.onnx"), raw::circle()).unwrap();
    let infer = |model: &str, x: &str| platoon(dir, &["infer", "--model", model, "--input", x, "--out", "o"]);
    let refused = complaint(&infer("elsewhere.onnx", "x.npy"));
    assert!(refused.contains("elsewhere.onnx: its external data w.bin"), "{refused}");
    let refused = complaint(&infer("twice.onnx", "x.npy"));
    assert!(
        refused.contains("twice.onnx: tensor `x`") && refused.contains("two of one name"),
        "{refused}"
    );
    let refused = complaint(&infer("circle.onnx", "x.npy"));
    assert!(
        refused.contains("circle.onnx: node `a`") && refused.contains("a circle of nodes"),
        "{refused}"
    );
    std::fs::write(dir.join("w.bin"), [0; 16]).unwrap();
    let refused = complaint(&infer("elsewhere.onnx", "wide.npy"));
    assert!(refused.contains("takes float32, the file holds int64"), "{refused}");
    assert_eq!(infer("elsewhere.onnx", "x.npy").status.code(), Some(0));
}

#[test]
fn plans_as_they_are_take_no_budget_of_a_search() {
    let dir = tempfile::tempdir().unwrap();
    let replay = ["replay", "--frozen", "--input", "synthetic:1", "--budget", "7"];
    assert_eq!(platoon(dir.path(), &replay).status.code(), Some(2));
}

#[test]
fn a_file_with_symbolic_axes_is_measured_with_a_batch() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(dir.join("sym.onnx"), raw::symbolic()).unwrap();
    let profile = |model: &str| platoon(dir, &["profile", "--models", model, "--budget", "0", "--out", "times", "--json"]);
    let refused = complaint(&profile("sym.onnx"));
    assert!(
        refused.contains("give a batch") && refused.matches("sym.onnx").count() == 1,
        "{refused}"
    );
    assert!(complaint(&profile("sym.onnx:0")).contains("sym.onnx:0: the batch is no number above 0"));
    let done = profile("sym.onnx:2");
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn the_doctor_looks_at_the_board_and_the_task_file_that_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(complaint(&platoon(dir, &["doctor", "--board", "nope"])).contains("`nope`"));
    std::fs::write(dir.join("garbage.toml"), "colour = 3\n").unwrap();
    for file in ["garbage.toml", "none.toml"] {
        let found = platoon(dir, &["doctor", "--tasks", file]);
        assert_eq!(found.status.code(), Some(1), "{file}");
        assert!(stdout(&found).contains(&format!("{file} is not in order")), "{}", stdout(&found));
    }
    assert_eq!(platoon(dir, &["doctor"]).status.code(), Some(0));
    task_file(dir, &[("only", 1)]);
    let found = platoon(dir, &["doctor", "--tasks", "tasks.toml"]);
    assert_eq!(found.status.code(), Some(0));
    assert!(stdout(&found).contains("tasks.toml: day"), "{}", stdout(&found));
}
