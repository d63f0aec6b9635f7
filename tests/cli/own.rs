//! `bench --zoo` of networks by their files.

use super::*;

#[test]
fn a_file_is_measured_in_place_of_a_network_and_beside_some() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(path.join("tiny.onnx"), raw::shades()).unwrap();
    let arguments = [
        "bench",
        "--zoo",
        "tiny.onnx",
        "tiny.onnx:1+bst:1",
        "--peer",
        "none",
        "--frames",
        "2",
        "--json",
        "f.json",
        "--gaps",
        "gaps.md",
    ];
    let output = platoon(path, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path.join("f.json")).unwrap()).unwrap();
    let told = |at: usize| {
        let networks = json["zoo"][at]["networks"].as_array().unwrap();
        let names: Vec<_> = networks.iter().map(|n| n["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(json["zoo"][at]["ours"]["frame"]["frames"].as_u64(), Some(2));
        names
    };
    assert_eq!((told(0), told(1)), (vec!["tiny".into()], vec!["tiny".into(), "bst".to_owned()]));
    let gaps = std::fs::read_to_string(path.join("gaps.md")).unwrap();
    assert!(gaps.contains("## tiny x 1 + Behaviour Sequence Transformer x 1"), "{gaps}");
}

#[test]
fn what_is_no_network_is_told_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(path.join("tiny.onnx"), raw::shades()).unwrap();
    std::fs::write(path.join("noise.onnx"), "not a network").unwrap();
    let bench = |zoo: &str, more: &[&str]| complaint(&platoon(path, &[&["bench", "--zoo", zoo], more].concat()));
    for file in ["none.onnx", "noise.onnx"] {
        let text = bench(file, &["--peer", "none"]);
        assert!(text.contains(file), "{text}");
    }
    let text = bench("tiny.pt2", &["--peer", "none"]);
    assert!(text.contains("FILE.onnx"), "{text}");
    let text = bench("tiny.onnx", &["--export", "out"]);
    assert!(text.contains("tiny.onnx") && !path.join("out").exists(), "{text}");
}

#[test]
fn one_of_several_that_is_no_network_leaves_the_others_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    std::fs::write(path.join("tiny.onnx"), raw::shades()).unwrap();
    std::fs::write(path.join("noise.onnx"), "not a network").unwrap();
    let bench = |zoo: &[&str]| {
        platoon(
            path,
            &[&["bench", "--peer", "none", "--frames", "2", "--json", "f.json", "--zoo"], zoo].concat(),
        )
    };
    let output = bench(&["noise.onnx", "tiny.onnx"]);
    let said = complaint(&output);
    assert!(said.contains("noise.onnx") && said.contains("not measured"), "{said}");
    assert!(stdout(&output).contains("tiny.onnx"), "{}", stdout(&output));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path.join("f.json")).unwrap()).unwrap();
    assert_eq!(json["zoo"].as_array().map(Vec::len), Some(1));
    let output = bench(&["noise.onnx", "none.onnx"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 3), "{said}");
}
