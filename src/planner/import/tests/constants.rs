//! Operators on constants leave constants, and those that move elements by constants only move them.

use super::*;
use crate::tensor::DType;

/// The elements of the output, which is a constant.
fn folded(opset: i64, nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> (Vec<u32>, Vec<f64>) {
    let graph = imported(&model(opset, &[1], nodes, constants));
    assert!(graph.nodes.is_empty(), "{:?}", graph.nodes);
    let data = graph.value(graph.outputs[0].value).data.clone().unwrap();
    (output_dims(&graph), (0..data.len()).map(|i| data.get_f64(i).unwrap()).collect())
}

fn of_type(name: &str, data_type: i32, dims: &[i64], values: &[i32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type,
        int32_data: values.to_vec(),
        ..Default::default()
    }
}

fn bools(name: &str, values: &[i32]) -> TensorProto {
    of_type(name, data_type::BOOL, &[values.len() as i64], values)
}

fn wide(name: &str, dims: &[i64], values: &[i64]) -> TensorProto {
    TensorProto {
        dims: dims.to_vec(),
        ..longs(name, values)
    }
}

fn scalar(name: &str, value: i64) -> TensorProto {
    wide(name, &[], &[value])
}

#[test]
fn the_greatest_and_the_least_of_constants_are_constants_however_wide() {
    const LARGE: i64 = 1 << 40;
    let c = || wide("c", &[2, 4], &[LARGE, i64::MIN, LARGE + 1, 3, 5, 5, i64::MAX, 5]);
    let top = |part: &str, k: i64, largest: i64| {
        let outputs = if part == "values" { ["y", "other"] } else { ["other", "y"] };
        let mut nodes = vec![node("TopK", &["c", "k"], &outputs, vec![int("largest", largest)])];
        if part == "values" {
            // Wide values cannot be results: their distance to the first one can.
            nodes[0].output[0] = "best".into();
            nodes.push(node("Sub", &["best", "base"], &["y"], vec![]));
        }
        folded(13, nodes, vec![c(), longs("k", &[k]), longs("base", &[LARGE])]).1
    };
    assert_eq!(top("places", 3, 1), [2.0, 0.0, 3.0, 2.0, 0.0, 1.0]);
    assert_eq!(top("places", 2, 0), [1.0, 3.0, 0.0, 1.0]);
    let smaller = |values: [i64; 4]| wide("c", &[4], &values);
    let arg = |op: &str, last: i64| {
        let nodes = vec![node(op, &["c"], &["y"], vec![int("axis", 0), int("select_last_index", last)])];
        folded(13, nodes, vec![smaller([LARGE, 1 - LARGE, LARGE, 1 - LARGE])]).1
    };
    assert_eq!([arg("ArgMax", 0), arg("ArgMin", 0)], [[0.0], [1.0]]);
    assert_eq!([arg("ArgMax", 1), arg("ArgMin", 1)], [[2.0], [3.0]]);
    let nodes = vec![
        node("TopK", &["c", "k"], &["best", ""], vec![]),
        node("Sub", &["best", "base"], &["y"], vec![]),
    ];
    let constants = vec![smaller([LARGE, 7, LARGE + 2, 9]), longs("k", &[2]), longs("base", &[LARGE])];
    assert_eq!(folded(13, nodes, constants), (vec![2], vec![2.0, 0.0]));
}

#[test]
fn what_a_constant_condition_chooses_is_moved_alone() {
    let compress = |condition: &[i32], attributes| {
        model(
            13,
            &[2, 3],
            vec![node("Compress", &["x", "c"], &["y"], attributes)],
            vec![bools("c", condition)],
        )
    };
    let chosen = imported(&compress(&[1, 0, 1], vec![int("axis", -1)]));
    assert_eq!(output_dims(&chosen), [2, 2]);
    assert!(matches!(chosen.nodes[0].op, Op::Primitive(Primitive::Gather { axis: 1 })));
    // Neighbours are a look at the input; without an axis the elements stand side by side, and a condition may end early.
    let flat = imported(&compress(&[0, 1, 1], vec![]));
    assert_eq!(output_dims(&flat), [2]);
    assert!(flat.nodes.iter().all(|n| matches!(n.op, Op::View(_))));
    assert!(refused(&compress(&[0, 0, 1], vec![int("axis", 0)])).contains("`condition`"));
    let computed = model(
        13,
        &[2],
        vec![
            node("Cast", &["x"], &["c"], vec![int("to", 9)]),
            node("Compress", &["x", "c"], &["y"], vec![]),
        ],
        vec![],
    );
    assert!(refused(&computed).contains("--output"));
}

#[test]
fn different_elements_of_a_constant_are_counted_and_found() {
    let unique = |output: usize, attributes: &[AttributeProto]| {
        let mut outputs = ["", "", "", ""];
        outputs[output] = "y";
        let nodes = vec![node("Unique", &["c"], &outputs, attributes.to_vec())];
        folded(13, nodes, vec![longs("c", &[2, 1, 1, 3, 4, 3])]).1
    };
    assert_eq!(unique(0, &[]), [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(unique(1, &[]), [1.0, 0.0, 3.0, 4.0]);
    assert_eq!(unique(2, &[]), [1.0, 0.0, 0.0, 2.0, 3.0, 2.0]);
    assert_eq!(unique(3, &[]), [2.0, 1.0, 2.0, 1.0]);
    assert_eq!(unique(0, &[int("sorted", 0)]), [2.0, 1.0, 3.0, 4.0]);
    assert_eq!(unique(3, &[int("sorted", 0)]), [1.0, 2.0, 2.0, 1.0]);
    let rows = TensorProto {
        float_data: vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 3.0, 4.0],
        ..floats("c", &[3, 3])
    };
    let nodes = vec![node("Unique", &["c"], &["y"], vec![int("axis", 0)])];
    assert_eq!(folded(13, nodes, vec![rows]), (vec![2, 3], vec![1.0, 0.0, 0.0, 2.0, 3.0, 4.0]));
    let computed = model(13, &[2], vec![node("Unique", &["x"], &["y"], vec![])], vec![]);
    assert!(refused(&computed).contains("--output"));
}

#[test]
fn bits_of_constants_are_looked_at() {
    let bits = |op: &str, elem: i32, attributes: &[AttributeProto]| {
        let nodes = vec![node(op, &["a", "b"], &["y"], attributes.to_vec())];
        let operands = vec![of_type("a", elem, &[3], &[12, 10, 255]), of_type("b", elem, &[1], &[6])];
        folded(18, nodes, operands).1
    };
    assert_eq!(bits("BitwiseAnd", data_type::INT32, &[]), [4.0, 2.0, 6.0]);
    assert_eq!(bits("BitwiseOr", data_type::UINT8, &[]), [14.0, 14.0, 255.0]);
    assert_eq!(bits("BitwiseXor", data_type::INT32, &[]), [10.0, 12.0, 249.0]);
    let way = |way| [string("direction", way)];
    assert_eq!(bits("BitShift", data_type::UINT8, &way("LEFT")), [0.0, 128.0, 192.0]);
    assert_eq!(bits("BitShift", data_type::UINT8, &way("RIGHT")), [0.0, 0.0, 3.0]);
    let not = |elem| {
        let nodes = vec![node("BitwiseNot", &["a"], &["y"], vec![])];
        folded(18, nodes, vec![of_type("a", elem, &[2], &[0, 9])]).1
    };
    assert_eq!(not(data_type::UINT8), [255.0, 246.0]);
    assert_eq!(not(data_type::INT32), [-1.0, -10.0]);
    let computed = model(
        18,
        &[2],
        vec![
            node("Cast", &["x"], &["i"], vec![int("to", 6)]),
            node("BitwiseAnd", &["i", "i"], &["y"], vec![]),
        ],
        vec![],
    );
    assert!(refused(&computed).contains("at run time"));
}

#[test]
fn windows_of_signals_are_constants() {
    let window = |op: &str, attributes: &[AttributeProto]| {
        let nodes = vec![node(op, &["size"], &["y"], attributes.to_vec())];
        folded(17, nodes, vec![scalar("size", 4)]).1
    };
    let near = |found: Vec<f64>, expected: [f64; 4]| {
        let close = found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-6);
        assert!(found.len() == 4 && close, "{found:?} instead of {expected:?}");
    };
    near(window("HannWindow", &[]), [0.0, 0.5, 1.0, 0.5]);
    near(window("HannWindow", &[int("periodic", 0)]), [0.0, 0.75, 0.75, 0.0]);
    near(window("HammingWindow", &[]), [4.0 / 46.0, 25.0 / 46.0, 1.0, 25.0 / 46.0]);
    near(window("BlackmanWindow", &[int("periodic", 0)]), [0.0, 0.63, 0.63, 0.0]);
    let halves = imported(&model(
        17,
        &[1],
        vec![node("HannWindow", &["size"], &["y"], vec![int("output_datatype", 10)])],
        vec![scalar("size", 3)],
    ));
    assert_eq!(halves.value(halves.outputs[0].value).dtype, DType::F16);
}

#[test]
fn sequences_of_known_lengths_are_turned_round_by_moving_them() {
    let reverse = |input: &str, lengths: &[i64], attributes: &[AttributeProto]| {
        let nodes = vec![node("ReverseSequence", &[input, "l"], &["y"], attributes.to_vec())];
        model(13, &[4, 2], nodes, vec![floats("c", &[4, 2]), longs("l", lengths)])
    };
    let constant = |lengths: &[i64]| {
        let graph = imported(&reverse("c", lengths, &[]));
        let data = graph.value(graph.outputs[0].value).data.clone().unwrap();
        data.as_f32().unwrap().to_vec()
    };
    assert_eq!(constant(&[2, 4]), [2.0, 7.0, 0.0, 5.0, 4.0, 3.0, 6.0, 1.0]);
    assert_eq!(constant(&[3, 3]), [4.0, 5.0, 2.0, 3.0, 0.0, 1.0, 6.0, 7.0]);
    let turned = imported(&reverse("x", &[1, 2, 0, 2], &[int("batch_axis", 0), int("time_axis", 1)]));
    let moves = |graph: &Graph| {
        let primitive = |n: &&crate::planner::graph::Node| matches!(n.op, Op::Primitive(_));
        graph.nodes.iter().filter(primitive).map(|n| n.op.clone()).collect::<Vec<_>>()
    };
    assert_eq!(moves(&turned), [Op::Primitive(Primitive::Gather { axis: 0 })]);
    // Sequences of one length are looked at the other way round.
    assert_eq!(moves(&imported(&reverse("x", &[4, 4], &[]))), []);
    assert!(refused(&reverse("x", &[5, 4], &[])).contains("`sequence_lens`"));
    assert!(refused(&reverse("x", &[4, 4], &[int("time_axis", 1)])).contains("`batch_axis`"));
}

#[test]
fn a_hard_maximum_is_one_at_the_first_of_the_largest() {
    let hard = |opset: i64, attributes: &[AttributeProto]| {
        let tied = TensorProto {
            float_data: vec![1.0, 3.0, 3.0, 0.0, -1.0, -2.0, 9.0, 9.0],
            ..floats("c", &[2, 2, 2])
        };
        folded(opset, vec![node("Hardmax", &["c"], &["y"], attributes.to_vec())], vec![tied]).1
    };
    assert_eq!(hard(13, &[]), [0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
    assert_eq!(hard(13, &[int("axis", 0)]), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]);
    // Before operator set 13 what is behind the axis belongs to it.
    assert_eq!(hard(11, &[]), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    let computed = imported(&model(13, &[2, 3], vec![node("Hardmax", &["x"], &["y"], vec![])], vec![]));
    assert_eq!(output_dims(&computed), [2, 3]);
}

#[test]
fn inputs_that_have_to_be_known_are_told_apart() {
    let told = |nodes: Vec<NodeProto>| {
        let mut model = model(13, &[2], nodes, vec![floats("c", &[4, 2])]);
        model.graph.as_mut().unwrap().input.push(info("p", data_type::INT64, Some(&[2])));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        std::fs::write(&path, model.encode_to_vec()).unwrap();
        let inputs = model_inputs(&path).unwrap();
        inputs.iter().map(|input| input.gives_shape).collect::<Vec<_>>()
    };
    for op in ["Compress", "ReverseSequence"] {
        assert_eq!(told(vec![node(op, &["c", "p"], &["y"], vec![])]), [false, true], "{op}");
    }
    for op in ["Unique", "HannWindow", "Loop"] {
        assert_eq!(told(vec![node(op, &["p", "", "x"], &["y"], vec![])]), [false, true], "{op}");
    }
}

#[test]
fn a_sparse_constant_is_refused_with_what_to_do() {
    // The payload is not looked at.
    let sparse = AttributeProto {
        name: "sparse_value".into(),
        r#type: 11,
        ..Default::default()
    };
    let nodes = vec![
        node("Constant", &[], &["k"], vec![sparse]),
        node("Add", &["x", "k"], &["y"], vec![]),
    ];
    let message = refused(&model(13, &[4], nodes, vec![]));
    assert!(message.contains("sparse_value") && message.contains("densely"), "{message}");
}
