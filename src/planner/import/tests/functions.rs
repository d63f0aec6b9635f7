//! Functions that a model brings along: their bodies stand in the place of their calls.

use super::*;
use crate::planner::import::proto::FunctionProto;

const DOMAIN: &str = "my";

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn function(name: &str, input: &[&str], output: &[&str], node: Vec<NodeProto>) -> FunctionProto {
    FunctionProto {
        name: name.into(),
        domain: DOMAIN.into(),
        input: owned(input),
        output: owned(output),
        node,
        ..Default::default()
    }
}

fn call(name: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    NodeProto {
        domain: DOMAIN.into(),
        ..node(name, inputs, outputs, attribute)
    }
}

/// An attribute of a body that is one of the function.
fn of_call(name: &str, kind: i32, given: &str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: kind,
        ref_attr_name: given.into(),
        ..Default::default()
    }
}

fn with(functions: Vec<FunctionProto>, nodes: Vec<NodeProto>) -> ModelProto {
    ModelProto {
        functions,
        ..model(18, &[2, 3], nodes, vec![])
    }
}

fn unaries(graph: &Graph) -> Vec<Unary> {
    let unary = |n: &crate::planner::graph::Node| match n.op {
        Op::Primitive(Primitive::Unary(unary)) => Some(unary),
        _ => None,
    };
    graph.nodes.iter().filter_map(unary).collect()
}

#[test]
fn bodies_stand_in_the_place_of_calls_and_of_calls_inside_them() {
    let inner = function(
        "Inner",
        &["X"],
        &["Y"],
        vec![node("Exp", &["X"], &["t"], vec![]), node("Sqrt", &["t"], &["Y"], vec![])],
    );
    let outer = function(
        "Outer",
        &["X"],
        &["Y"],
        vec![call("Inner", &["X"], &["t"], vec![]), call("Inner", &["t"], &["Y"], vec![])],
    );
    // The caller has values of the names that the body uses, and of one that the body's would get.
    let nodes = vec![
        node("Neg", &["x"], &["t"], vec![]),
        node("Abs", &["t"], &["y/t"], vec![]),
        call("Outer", &["y/t"], &["y"], vec![]),
    ];
    let graph = imported(&with(vec![inner, outer], nodes));
    let exp_sqrt = [Unary::Exp, Unary::Sqrt];
    assert_eq!(unaries(&graph), [&[Unary::Neg, Unary::Abs], &exp_sqrt[..], &exp_sqrt[..]].concat());
    assert_eq!(output_dims(&graph), [2, 3]);
}

#[test]
fn attributes_come_from_the_call_else_from_the_function_else_from_the_operator() {
    let reduce = vec![node(
        "LeakyRelu",
        &["X"],
        &["Y"],
        vec![of_call("alpha", attribute_type::FLOAT, "slope")],
    )];
    let slope = |f: f32| AttributeProto {
        name: "slope".into(),
        r#type: attribute_type::FLOAT,
        f,
        ..Default::default()
    };
    let given = FunctionProto {
        attribute: owned(&["slope"]),
        ..function("F", &["X"], &["Y"], reduce.clone())
    };
    let default = FunctionProto {
        attribute_proto: vec![slope(0.5)],
        ..function("F", &["X"], &["Y"], reduce)
    };
    let of = |f: &FunctionProto, attributes| {
        let graph = imported(&with(vec![f.clone()], vec![call("F", &["x"], &["y"], attributes)]));
        unaries(&graph)
    };
    let leaky = |slope| vec![Unary::LeakyRelu(Scalar(slope))];
    assert_eq!(of(&given, vec![slope(0.25)]), leaky(0.25));
    assert_eq!(of(&default, vec![slope(0.25)]), leaky(0.25));
    assert_eq!(of(&default, vec![]), leaky(0.5));
    assert_eq!(of(&given, vec![]), leaky(0.01));
    let unknown = with(vec![given], vec![call("F", &["x"], &["y"], vec![int("other", 1)])]);
    assert!(refused(&unknown).contains("`other`"));
}

#[test]
fn inputs_may_be_missing_and_outputs_may_be_inputs() {
    let body = vec![node("Clip", &["X", "low", "high"], &["Y"], vec![])];
    let clip = function("F", &["X", "low", "high"], &["Y", "X"], body);
    let one = |inputs: &[&str]| {
        let mut model = with(vec![clip.clone()], vec![call("F", inputs, &["y", "same"], vec![])]);
        let graph = model.graph.as_mut().unwrap();
        graph.initializer.push(TensorProto {
            dims: vec![],
            ..floats("zero", &[1])
        });
        graph.output.push(info("same", data_type::FLOAT, None));
        imported(&model)
    };
    for inputs in [&["x"][..], &["x", "zero"], &["x", "", "zero"]] {
        let graph = one(inputs);
        assert_eq!(graph.outputs[1].value, graph.inputs[0].value, "{inputs:?}");
    }
    let more = with(vec![clip.clone()], vec![call("F", &["x", "", "", "x"], &["y"], vec![])]);
    assert!(refused(&more).contains("4 inputs"));
}

#[test]
fn branches_see_what_is_around_them_and_keep_names_of_their_own() {
    let graph = |op: &str| GraphProto {
        node: vec![node(op, &["t"], &["b"], vec![])],
        output: vec![info("b", data_type::FLOAT, None)],
        ..Default::default()
    };
    let branch = |name: &str, g| AttributeProto {
        name: name.into(),
        r#type: 5,
        g: Some(Box::new(g)),
        ..Default::default()
    };
    let truth = AttributeProto {
        t: Some(TensorProto {
            dims: vec![],
            data_type: data_type::BOOL,
            int32_data: vec![0],
            ..Default::default()
        }),
        r#type: attribute_type::TENSOR,
        name: "value".into(),
        ..Default::default()
    };
    let body = vec![
        node("Constant", &[], &["c"], vec![truth]),
        node("Exp", &["X"], &["t"], vec![]),
        node(
            "If",
            &["c"],
            &["Y"],
            vec![branch("then_branch", graph("Sqrt")), branch("else_branch", graph("Neg"))],
        ),
    ];
    let calls = vec![call("F", &["x"], &["b"], vec![]), call("F", &["b"], &["y"], vec![])];
    let graph = imported(&with(vec![function("F", &["X"], &["Y"], body)], calls));
    assert_eq!(unaries(&graph), [Unary::Exp, Unary::Neg, Unary::Exp, Unary::Neg]);
}

#[test]
fn a_body_has_the_operator_set_of_its_function() {
    // Before operator set 13, Softmax flattens what is behind its axis.
    let old = FunctionProto {
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: 12,
        }],
        ..function("F", &["X"], &["Y"], vec![node("Softmax", &["X"], &["Y"], vec![int("axis", 0)])])
    };
    let own = function("F", &["X"], &["Y"], vec![node("Softmax", &["X"], &["Y"], vec![int("axis", 0)])]);
    let views = |f: FunctionProto| {
        let graph = imported(&with(vec![f], vec![call("F", &["x"], &["y"], vec![])]));
        graph.nodes.iter().filter(|n| matches!(n.op, Op::View(_))).count()
    };
    assert_ne!(views(old), views(own));
    let mut future = function("F", &["X"], &["Y"], vec![]);
    future.opset_import = vec![OperatorSetIdProto {
        domain: String::new(),
        version: MAX_OPSET + 1,
    }];
    assert!(refused(&with(vec![future], vec![call("F", &["x"], &["y"], vec![])])).contains("operator set"));
}

#[test]
fn what_calls_itself_or_grows_without_end_is_refused_where_it_is_needed() {
    let itself = function("F", &["X"], &["Y"], vec![call("F", &["X"], &["Y"], vec![])]);
    let calls = |f: &str| vec![call(f, &["x"], &["y"], vec![])];
    assert!(refused(&with(vec![itself.clone()], calls("F"))).contains("calls itself"));
    let unneeded = vec![call("F", &["x"], &["dead"], vec![]), node("Exp", &["x"], &["y"], vec![])];
    assert_eq!(unaries(&imported(&with(vec![itself], unneeded))), [Unary::Exp]);

    let twice = |of: &str| vec![call(of, &["X"], &["t"], vec![]), call(of, &["t"], &["Y"], vec![])];
    let mut chain = vec![function("0", &["X"], &["Y"], vec![node("Exp", &["X"], &["Y"], vec![])])];
    chain.extend((1..25).map(|level| function(&level.to_string(), &["X"], &["Y"], twice(&(level - 1).to_string()))));
    assert!(refused(&with(chain.clone(), calls("24"))).contains("beyond a limit: the functions of the model"));
    assert_eq!(unaries(&imported(&with(chain, calls("3")))).len(), 8);

    let once = |of: &str| vec![call(of, &["X"], &["Y"], vec![])];
    let mut deep = vec![function("0", &["X"], &["Y"], vec![node("Exp", &["X"], &["Y"], vec![])])];
    deep.extend((1..40).map(|level| function(&level.to_string(), &["X"], &["Y"], once(&(level - 1).to_string()))));
    assert!(refused(&with(deep, calls("39"))).contains("deep inside each other"));
}

#[test]
fn a_large_attribute_is_not_copied_without_end() {
    let body = (0..2000).map(|i| {
        let inputs = format!("t{i}");
        let outputs = format!("t{}", i + 1);
        node(
            "Foo",
            &[&inputs],
            &[&outputs],
            vec![of_call("list", attribute_type::FLOATS, "list")],
        )
    });
    let mut large = function("F", &["t0"], &["t2000"], body.collect());
    large.attribute = owned(&["list"]);
    let list = AttributeProto {
        name: "list".into(),
        r#type: attribute_type::FLOATS,
        floats: vec![1.0; 1 << 16],
        ..Default::default()
    };
    let model = with(vec![large], vec![call("F", &["x"], &["y"], vec![list])]);
    assert!(refused(&model).contains("256 MiB"));
}

#[test]
fn a_domain_without_functions_is_refused_with_what_to_do() {
    let text = refused(&with(vec![], vec![call("Silu", &["x"], &["y"], vec![])]));
    assert!(text.contains("`my`") && text.contains("--output"));
    let twice = || function("F", &["X"], &["Y"], vec![]);
    assert!(refused(&with(vec![twice(), twice()], vec![])).contains("two functions"));
}
