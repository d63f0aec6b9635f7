//! Sequences whose places are known.

use super::*;

fn scalar(name: &str, value: i64) -> TensorProto {
    TensorProto {
        dims: vec![],
        ..longs(name, &[value])
    }
}

/// The network's operations, on an input of `[2, 4, 3]`.
fn graph(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> Graph {
    imported(&model(13, &[2, 4, 3], nodes, constants))
}

#[test]
fn tensors_go_into_sequences_and_come_out_at_their_places() {
    let nodes = vec![
        node("SequenceEmpty", &[], &["none"], vec![]),
        node("Relu", &["x"], &["r"], vec![]),
        node("SequenceInsert", &["none", "x"], &["one"], vec![]),
        node("SequenceInsert", &["one", "r", "zero"], &["two"], vec![]),
        node("SequenceErase", &["two"], &["first"], vec![]),
        node("SequenceAt", &["first", "last"], &["y"], vec![]),
    ];
    let graph = graph(nodes, vec![scalar("zero", 0), scalar("last", -1)]);
    let relu = graph.nodes.iter().find(|n| n.name == "r").unwrap();
    assert_eq!(graph.outputs[0].value, relu.outputs[0]);
}

#[test]
fn sequences_are_joined_along_an_axis_and_along_a_new_one() {
    let join = |axis, new| {
        let attributes = vec![int("axis", axis), int("new_axis", new)];
        let nodes = vec![
            node("SequenceConstruct", &["x", "x", "x"], &["s"], vec![]),
            node("ConcatFromSequence", &["s"], &["y"], attributes),
        ];
        output_dims(&graph(nodes, vec![]))
    };
    assert_eq!(join(1, 0), [2, 12, 3]);
    assert_eq!(join(-1, 1), [2, 4, 3, 3]);
    assert_eq!(join(0, 1), [3, 2, 4, 3]);
}

#[test]
fn splits_have_the_sizes_that_are_asked_for() {
    let part = |split: Option<TensorProto>, keepdims: i64, place: i64| {
        let inputs: &[&str] = if split.is_some() { &["x", "sizes"] } else { &["x"] };
        let nodes = vec![
            node("SplitToSequence", inputs, &["s"], vec![int("axis", 1), int("keepdims", keepdims)]),
            node("SequenceLength", &["s"], &["length"], vec![]),
            node("Sub", &["length", "back"], &["place"], vec![]),
            node("SequenceAt", &["s", "place"], &["y"], vec![]),
        ];
        output_dims(&graph(nodes, split.into_iter().chain([scalar("back", place)]).collect()))
    };
    assert_eq!(part(Some(longs("sizes", &[1, 3])), 1, 1), [2, 3, 3]);
    assert_eq!(part(Some(longs("sizes", &[1, 3])), 0, 2), [2, 1, 3]);
    assert_eq!(part(Some(scalar("sizes", 3)), 1, 1), [2, 1, 3]);
    assert_eq!(part(None, 1, 4), [2, 1, 3]);
    assert_eq!(part(None, 0, 4), [2, 3]);
}

#[test]
fn what_is_no_tensor_again_is_refused_with_what_to_do() {
    let construct = || node("SequenceConstruct", &["x", "x"], &["s"], vec![]);
    let at = |places: Vec<TensorProto>, inputs: &[&str]| {
        let nodes = vec![construct(), node("SequenceAt", inputs, &["y"], vec![])];
        refused(&model(13, &[2, 4, 3], nodes, places))
    };
    assert!(at(vec![scalar("place", 2)], &["s", "place"]).contains("place 2 of a sequence with 2"));
    assert!(at(vec![scalar("place", 0)], &["x", "place"]).contains("no sequence"));
    let nodes = vec![construct(), node("Relu", &["s"], &["y"], vec![])];
    assert!(refused(&model(13, &[2, 4, 3], nodes, vec![])).contains("SequenceAt"));
    let result = model(13, &[2, 4, 3], vec![node("SequenceConstruct", &["x"], &["y"], vec![])], vec![]);
    assert!(refused(&result).contains("a sequence as a result"));
    let nodes = vec![
        node("SequenceEmpty", &[], &["s"], vec![]),
        node("ConcatFromSequence", &["s"], &["y"], vec![int("axis", 0)]),
    ];
    assert!(refused(&model(13, &[2, 4, 3], nodes, vec![])).contains("empty"));
}
