//! What no result needs is not looked at, and what the file leaves open or says in an old way is taken.

use super::*;

#[test]
fn nodes_and_initializers_that_no_result_needs_are_not_looked_at() {
    let wide = TensorProto {
        data_type: 5,
        ..floats("nobody", &[3])
    };
    let nodes = vec![
        node("Frob", &["x", "nobody"], &["dead"], vec![]),
        node("Relu", &["x"], &["y"], vec![]),
    ];
    let unread = model(13, &[3], nodes.clone(), vec![wide.clone()]);
    assert_eq!(output_dims(&imported(&unread)), [3]);
    let both = ImportOptions {
        outputs: vec!["y".into(), "dead".into()],
        ..Default::default()
    };
    assert!(import_with(&unread, &both).unwrap_err().to_string().contains("`nobody`"));
    // A constant that is listed among the inputs, as old files do, stays one where nobody reads it.
    let mut listed = unread;
    listed
        .graph
        .as_mut()
        .unwrap()
        .input
        .push(info("nobody", data_type::FLOAT, Some(&[3])));
    assert_eq!(imported(&listed).inputs.len(), 1);
    let twice = model(13, &[3], nodes, vec![wide.clone(), wide]);
    assert!(refused(&twice).contains("two initializers"));
}

#[test]
fn an_extent_of_minus_one_is_symbolic_with_and_without_a_name() {
    let mut open = model(13, &[2, 3], vec![node("Relu", &["x"], &["y"], vec![])], vec![]);
    let kind = open.graph.as_mut().unwrap().input[0].r#type.as_mut().unwrap();
    kind.tensor_type.as_mut().unwrap().shape.as_mut().unwrap().dim[0].dim_value = Some(-1);
    assert!(refused(&open).contains("symbolic"));
    let batch = ImportOptions {
        batch: Some(4),
        ..Default::default()
    };
    assert_eq!(output_dims(&import_with(&open, &batch).unwrap()), [4, 3]);
}

#[test]
fn batch_normalisation_with_five_outputs_takes_its_own_statistics_before_operator_set_14() {
    let vector = |name: &str| floats(name, &[3]);
    let of = |opset: i64, outputs: &[&str]| {
        model(
            opset,
            &[2, 3, 4, 4],
            vec![node("BatchNormalization", &["x", "s", "b", "m", "v"], outputs, vec![])],
            ["s", "b", "m", "v"].map(vector).to_vec(),
        )
    };
    let means = |graph: &Graph| {
        let mean = |n: &crate::planner::graph::Node| matches!(n.op, Op::Primitive(Primitive::Reduce { .. }));
        graph.nodes.iter().filter(|n| mean(n)).count()
    };
    let five = ["y", "mean", "var", "saved_mean", "saved_var"];
    assert_eq!(means(&imported(&of(13, &five))), 2);
    assert_eq!(means(&imported(&of(13, &["y"]))), 0);
    assert!(refused(&of(15, &["y", "mean", "var"])).contains("training_mode"));
}

#[test]
fn functions_of_angles_are_folded_of_constants_and_arithmetic_of_others() {
    let nodes = |x: &str| vec![node("Sin", &[x], &["s"], vec![]), node("Add", &["x", "s"], &["y"], vec![])];
    let primitives = |graph: &Graph| graph.nodes.iter().filter(|n| matches!(n.op, Op::Primitive(_))).count();
    assert_eq!(primitives(&imported(&model(13, &[3], nodes("c"), vec![floats("c", &[3])]))), 1);
    let computed = imported(&model(13, &[3], nodes("x"), vec![]));
    assert!(primitives(&computed) > 10);
    // All but the sum stays f32 in plans of halves.
    let sum = computed.nodes.iter().find(|n| n.outputs == [computed.outputs[0].value]).unwrap();
    let halves = computed.nodes.iter().filter(|n| !computed.value(n.outputs[0]).single);
    assert_eq!(halves.map(|n| &n.name).collect::<Vec<_>>(), [&sum.name]);
}

#[test]
fn remainders_of_floats_follow_the_dividend_alone() {
    let of = |fmod| {
        model(
            13,
            &[3],
            vec![node("Mod", &["x", "d"], &["y"], vec![int("fmod", fmod)])],
            vec![floats("d", &[3])],
        )
    };
    assert_eq!(output_dims(&imported(&of(1))), [3]);
    assert!(refused(&of(0)).contains("`fmod`"));
}

#[test]
fn brain_floats_are_computed_and_returned_as_floats() {
    let weights = TensorProto {
        data_type: data_type::BFLOAT16,
        float_data: vec![],
        int32_data: vec![0x3fc0, 0x4000],
        ..floats("w", &[2])
    };
    let nodes = vec![
        node("Mul", &["x", "w"], &["p"], vec![]),
        node("Cast", &["p"], &["y"], vec![int("to", data_type::BFLOAT16.into())]),
    ];
    let mut brain = model(13, &[2], nodes, vec![weights]);
    let graph = brain.graph.as_mut().unwrap();
    graph.input[0] = info("x", data_type::BFLOAT16, Some(&[2]));
    graph.output[0] = info("y", data_type::BFLOAT16, None);
    let graph = imported(&brain);
    let types = graph.inputs.iter().chain(&graph.outputs).map(|n| graph.value(n.value).dtype);
    assert!(types.into_iter().all(|dtype| dtype == crate::tensor::DType::F32));
    let constant = graph.values.iter().find_map(|v| v.data.clone()).unwrap();
    assert_eq!(constant.as_f32(), Some(&[1.5, 2.0][..]));
}

#[test]
fn what_is_not_supported_is_refused_with_what_to_do() {
    let one = |op: &str, inputs: &[&str], attributes: Vec<AttributeProto>| vec![node(op, inputs, &["y"], attributes)];
    let integers = |op: &str, attributes: Vec<AttributeProto>, elem: i32| {
        vec![
            node("Cast", &["x"], &["i"], vec![int("to", elem.into())]),
            node(op, &["i", "i"], &["y"], attributes),
        ]
    };
    let refusals = [
        (
            one("MaxPool", &["x"], vec![ints("kernel_shape", &[1, 2]), int("fancy", 1)]),
            "onnx.version_converter",
        ),
        (one("NonMaxSuppression", &["x"], vec![]), "--output"),
        (one("MaxUnpool", &["x"], vec![]), "--output"),
        (one("Optional", &["x"], vec![]), "onnxsim"),
        (one("RandomNormal", &["x"], vec![]), "inference"),
        (one("STFT", &["x"], vec![]), "--output"),
        (one("Attention", &["x", "x", "x", "", "x"], vec![]), "without a cache"),
        (one("QuantizeLinear", &["x", "c"], vec![int("block_size", 2)]), "by channel"),
        (one("Cast", &["x"], vec![int("to", 3)]), "Cast to INT32"),
        (one("Cast", &["x"], vec![int("to", 12)]), "UINT32: only FLOAT"),
        (one("ReduceProd", &["wide"], vec![]), "Split"),
        (integers("MatMul", vec![], data_type::INT32), "MatMulInteger"),
        (integers("Mod", vec![], data_type::BOOL), "Cast the operands"),
        (integers("BitwiseXor", vec![], data_type::INT32), "--output"),
    ];
    for (mut nodes, what_to_do) in refusals {
        let wide = node("Concat", &["x"; 300], &["wide"], vec![int("axis", 0)]);
        if nodes[0].input[0] == "wide" {
            nodes.insert(0, wide);
        }
        let text = refused(&model(23, &[1, 1, 2, 4], nodes, vec![floats("c", &[1, 1, 1, 2])]));
        assert!(text.contains("node `") && text.contains(what_to_do), "{text}");
    }
}
