//! Loops whose iterations are known: their bodies stand in their place as often as they run.

use super::*;

fn scalar(name: &str, value: i64) -> TensorProto {
    TensorProto {
        dims: vec![],
        ..longs(name, &[value])
    }
}

fn truth(name: &str, value: i32) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: vec![],
        data_type: data_type::BOOL,
        int32_data: vec![value],
        ..Default::default()
    }
}

fn body(inputs: &[&str], outputs: &[&str], node: Vec<NodeProto>, initializer: Vec<TensorProto>) -> AttributeProto {
    let untyped = |name: &&str| ValueInfoProto {
        name: (*name).to_owned(),
        r#type: None,
    };
    AttributeProto {
        name: "body".into(),
        r#type: 5,
        g: Some(Box::new(GraphProto {
            node,
            initializer,
            input: inputs.iter().map(untyped).collect(),
            output: outputs.iter().map(untyped).collect(),
            ..Default::default()
        })),
        ..Default::default()
    }
}

fn unaries(graph: &Graph) -> Vec<Unary> {
    let unary = |n: &crate::planner::graph::Node| match n.op {
        Op::Primitive(Primitive::Unary(unary)) => Some(unary),
        _ => None,
    };
    graph.nodes.iter().filter_map(unary).collect()
}

/// A loop over `x` that takes its exponential, and lists its root and the number of the iteration.
fn exponentials(inputs: &[&str], outputs: &[&str], after: NodeProto) -> NodeProto {
    let nodes = vec![
        after,
        node("Exp", &["v"], &["w"], vec![]),
        node("Sqrt", &["w"], &["root"], vec![]),
        node("Identity", &["i"], &["number"], vec![]),
        node("Frob", &["w"], &["dead"], vec![]),
    ];
    let body = body(&["i", "c", "v"], &["after", "w", "root", "number"], nodes, vec![]);
    node("Loop", inputs, outputs, vec![body])
}

fn same() -> NodeProto {
    node("Identity", &["c"], &["after"], vec![])
}

#[test]
fn a_known_number_of_iterations_is_written_out_and_lists_are_stacked() {
    let of = |outputs: &[&str], most: i64| {
        let nodes = vec![exponentials(&["m", "", "x"], outputs, same())];
        imported(&model(13, &[2, 3], nodes, vec![scalar("m", most)]))
    };
    let last = of(&["y", "", ""], 3);
    let step = [Unary::Exp, Unary::Sqrt];
    assert_eq!(unaries(&last), [step, step, step].concat());
    assert_eq!(output_dims(&last), [2, 3]);
    assert_eq!(output_dims(&of(&["", "y", ""], 4)), [4, 2, 3]);
    let numbers = of(&["", "", "y"], 3);
    let numbers = numbers.value(numbers.outputs[0].value).data.clone().unwrap();
    assert_eq!(numbers.as_i32(), Some(&[0, 1, 2][..]));
}

#[test]
fn no_iteration_gives_what_it_was_given_and_no_list() {
    let of = |outputs: &[&str]| {
        let nodes = vec![
            node("Neg", &["x"], &["n"], vec![]),
            exponentials(&["m", "never", "n"], outputs, same()),
        ];
        // Lists are looked at as long as the body gives them.
        model(13, &[2], nodes, vec![scalar("m", 3), truth("never", 0)])
    };
    let text = refused(&of(&["y"]));
    assert!(text.contains("no iteration") && text.contains("--output"), "{text}");
    let body = body(&["i", "c", "v"], &["c", "v"], vec![], vec![]);
    let plain = vec![
        node("Neg", &["x"], &["n"], vec![]),
        node("Loop", &["m", "never", "n"], &["y"], vec![body]),
    ];
    let graph = imported(&model(13, &[2], plain, vec![scalar("m", 3), truth("never", 0)]));
    assert_eq!(unaries(&graph), [Unary::Neg]);
}

#[test]
fn a_condition_that_is_known_ends_a_loop() {
    let below = node("Less", &["i", "two"], &["after"], vec![]);
    let nodes = vec![exponentials(&["", "", "x"], &["", "y", ""], below)];
    let graph = imported(&model(13, &[2], nodes, vec![scalar("two", 2)]));
    assert_eq!(output_dims(&graph), [3, 2]);
}

#[test]
fn iterations_that_are_not_known_and_those_without_end_are_refused_with_what_to_do() {
    let computed = vec![
        node("ReduceMax", &["x"], &["top"], vec![int("keepdims", 0)]),
        node("Cast", &["top"], &["m"], vec![int("to", 7)]),
        exponentials(&["m", "", "x"], &["y", "", ""], same()),
    ];
    let text = refused(&model(13, &[2], computed, vec![]));
    assert!(text.contains("`M`") && text.contains("--output"), "{text}");
    let positive = node("Cast", &["v"], &["after"], vec![int("to", 9)]);
    let open = vec![exponentials(&["m", "", "x"], &["y", "", ""], positive.clone())];
    let text = refused(&model(13, &[1], open.clone(), vec![scalar("m", 2)]));
    assert!(text.contains("`cond`") && text.contains("--output"), "{text}");
    // Of the last iteration nobody asks whether another follows.
    assert_eq!(unaries(&imported(&model(13, &[1], open, vec![scalar("m", 1)]))).len(), 2);
    for most in [1 << 20, i64::MAX] {
        let endless = vec![exponentials(&["m", "", "x"], &["y", "", ""], same())];
        let text = refused(&model(13, &[2], endless, vec![scalar("m", most)]));
        assert!(text.contains("beyond a limit") && text.contains("--output"), "{text}");
    }
    let nothing = node(
        "Loop",
        &["", "", "x"],
        &["y"],
        vec![body(&["i", "c", "v"], &["c", "v"], vec![], vec![])],
    );
    assert!(refused(&model(13, &[2], vec![nothing], vec![])).contains("beyond a limit"));
    let broken = vec![node("Conv", &["v"], &["w"], vec![])];
    let broken = node(
        "Loop",
        &["m", "", "x"],
        &["y"],
        vec![body(&["i", "c", "v"], &["c", "w"], broken, vec![])],
    );
    let text = refused(&model(13, &[2], vec![broken], vec![scalar("m", 2)]));
    assert!(text.contains("in iteration 0") && text.contains("(Conv)"), "{text}");
}

#[test]
fn constants_of_a_body_are_one_for_all_iterations() {
    let value = AttributeProto {
        name: "value".into(),
        r#type: attribute_type::TENSOR,
        t: Some(floats("", &[2])),
        ..Default::default()
    };
    let nodes = vec![
        node("Constant", &[], &["k"], vec![value]),
        node("Mul", &["v", "k"], &["scaled"], vec![]),
        node("Add", &["scaled", "b"], &["w"], vec![]),
    ];
    let body = body(&["i", "c", "v"], &["c", "w"], nodes, vec![floats("b", &[2])]);
    let nodes = vec![node("Loop", &["m", "", "x"], &["y"], vec![body])];
    let graph = imported(&model(13, &[2], nodes, vec![scalar("m", 5)]));
    assert_eq!(graph.values.iter().filter(|v| v.data.is_some()).count(), 2);
    let products = |n: &&crate::planner::graph::Node| n.op == Op::Primitive(Primitive::Binary(Binary::Mul));
    assert_eq!(graph.nodes.iter().filter(products).count(), 5);
}

#[test]
fn loops_stand_in_loops_and_carry_sequences() {
    let inner = body(
        &["j", "d", "list"],
        &["d", "longer"],
        vec![
            node("Exp", &["v"], &["e"], vec![]),
            node("SequenceInsert", &["list", "e"], &["longer"], vec![]),
        ],
        vec![],
    );
    let outer = body(
        &["i", "c", "v", "all"],
        &["c", "w", "more"],
        vec![
            node("Sqrt", &["v"], &["w"], vec![]),
            node("Loop", &["m", "", "all"], &["more"], vec![inner]),
        ],
        vec![],
    );
    let nodes = vec![
        node("SequenceEmpty", &[], &["none"], vec![]),
        node("Loop", &["m", "", "x", "none"], &["", "list"], vec![outer]),
        node("ConcatFromSequence", &["list"], &["y"], vec![int("axis", 0)]),
    ];
    let graph = imported(&model(13, &[2, 3], nodes, vec![scalar("m", 3)]));
    assert_eq!(output_dims(&graph), [18, 3]);
    assert_eq!(unaries(&graph).iter().filter(|u| **u == Unary::Exp).count(), 9);
}

#[test]
fn a_scan_walks_along_axes_in_either_direction() {
    let of = |outputs: &[&str], attributes: Vec<AttributeProto>| {
        let nodes = vec![
            node("Add", &["s", "slice"], &["sum"], vec![]),
            node("Neg", &["sum"], &["listed"], vec![]),
        ];
        let mut all = vec![body(&["s", "slice"], &["sum", "listed"], nodes, vec![]), int("num_scan_inputs", 1)];
        all.extend(attributes);
        model(
            13,
            &[4, 3],
            vec![node("Scan", &["zero", "x"], outputs, all)],
            vec![floats("zero", &[1])],
        )
    };
    let axis = |axis| ints("scan_input_axes", &[axis]);
    let last = imported(&of(&["y", ""], vec![]));
    assert_eq!(output_dims(&last), [3]);
    let additions = |graph: &Graph| {
        let add = |n: &&crate::planner::graph::Node| n.op == Op::Primitive(Primitive::Binary(Binary::Add));
        graph.nodes.iter().filter(add).count()
    };
    assert_eq!(additions(&last), 4);
    assert_eq!(output_dims(&imported(&of(&["", "y"], vec![axis(-1)]))), [3, 4]);
    let sideways = imported(&of(&["", "y"], vec![axis(1), ints("scan_output_axes", &[1])]));
    assert_eq!(output_dims(&sideways), [4, 3]);
    let first_slice = |directions: &[i64]| {
        let graph = imported(&of(&["y", ""], vec![ints("scan_input_directions", directions)]));
        let start = |n: &crate::planner::graph::Node| match &n.op {
            Op::View(ViewOp::Slice { start, .. }) => Some(start[0]),
            _ => None,
        };
        graph.nodes.iter().find_map(start)
    };
    assert_eq!([first_slice(&[0]), first_slice(&[1])], [Some(0), Some(3)]);
    assert!(refused(&of(&["y", ""], vec![axis(2)])).contains("`scan_input_axes`"));
    assert!(refused(&of(&["y", ""], vec![int("fancy", 1)])).contains("`fancy`"));
}

/// The elements of the output, which is a constant.
fn folded(nodes: Vec<NodeProto>, constants: Vec<TensorProto>) -> Vec<f32> {
    let graph = imported(&model(13, &[1], nodes, constants));
    assert!(graph.nodes.is_empty(), "{:?}", graph.nodes);
    let data = graph.value(graph.outputs[0].value).data.clone().unwrap();
    data.as_f32().unwrap().to_vec()
}

#[test]
fn what_iterations_make_of_constants_is_what_they_say() {
    // Each sum is the one before it and the number of the iteration.
    let sums = vec![
        node("Cast", &["i"], &["number"], vec![int("to", 1)]),
        node("Add", &["v", "number"], &["w"], vec![]),
    ];
    let sums = body(&["i", "c", "v"], &["c", "w", "w"], sums, vec![]);
    let of = |outputs: &[&str]| {
        folded(
            vec![node("Loop", &["m", "", "start"], outputs, vec![sums.clone()])],
            vec![scalar("m", 4), floats("start", &[2])],
        )
    };
    assert_eq!(of(&["y", ""]), [6.0, 7.0]);
    assert_eq!(of(&["", "y"]), [0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 6.0, 7.0]);
    let scan = |attributes: Vec<AttributeProto>| {
        let step = vec![node("Add", &["s", "slice"], &["sum"], vec![])];
        let mut all = vec![body(&["s", "slice"], &["sum", "sum"], step, vec![]), int("num_scan_inputs", 1)];
        all.extend(attributes);
        let nodes = vec![node("Scan", &["zero", "c"], &["", "y"], all)];
        folded(nodes, vec![floats("zero", &[1]), floats("c", &[3, 2])])
    };
    assert_eq!(scan(vec![]), [0.0, 1.0, 2.0, 4.0, 6.0, 9.0]);
    assert_eq!(scan(vec![ints("scan_input_directions", &[1])]), [4.0, 5.0, 6.0, 8.0, 6.0, 9.0]);
    let backwards = vec![ints("scan_input_directions", &[1]), ints("scan_output_directions", &[1])];
    assert_eq!(scan(backwards), [6.0, 9.0, 6.0, 8.0, 4.0, 5.0]);
    let columns = vec![ints("scan_input_axes", &[1]), ints("scan_output_axes", &[-1])];
    assert_eq!(scan(columns), [0.0, 1.0, 2.0, 5.0, 4.0, 9.0]);
}
