//! Recurrent layers: which become one primitive, which are unrolled, and which are refused.

use super::*;

/// An LSTM of 3 hidden units over 5 steps of 2 rows of 4 values, with these further inputs and attributes.
fn lstm(inputs: &[&str], attributes: Vec<AttributeProto>, constants: Vec<TensorProto>) -> ModelProto {
    let inputs = [&["x", "W", "R"], inputs].concat();
    let constants = [vec![floats("W", &[1, 12, 4]), floats("R", &[1, 12, 3])], constants].concat();
    model(14, &[5, 2, 4], vec![node("LSTM", &inputs, &["y"], attributes)], constants)
}

fn strings(name: &str, values: &[&'static str]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::STRINGS,
        strings: values.iter().map(|s| bytes::Bytes::from_static(s.as_bytes())).collect(),
        ..Default::default()
    }
}

fn lengths(values: &[i64]) -> Vec<TensorProto> {
    vec![longs("n", values)]
}

/// Whether the layer is one primitive, and how many matrix products there are.
fn form(model: &ModelProto) -> (bool, usize) {
    let graph = imported(model);
    let count = |wanted: fn(&Primitive) -> bool| {
        graph
            .nodes
            .iter()
            .filter(|n| matches!(&n.op, Op::Primitive(p) if wanted(p)))
            .count()
    };
    (
        count(|p| matches!(p, Primitive::Lstm { .. })) == 1,
        count(|p| matches!(p, Primitive::MatMul)),
    )
}

#[test]
fn the_usual_layer_is_one_primitive_and_others_are_unrolled() {
    let usual = strings("activations", &["Sigmoid", "tanh", "Tanh"]);
    assert_eq!(form(&lstm(&[], vec![], vec![])), (true, 1));
    assert_eq!(form(&lstm(&[], vec![usual], vec![])), (true, 1));
    assert_eq!(form(&lstm(&["", "n"], vec![], lengths(&[5, 5]))), (true, 1));
    assert_eq!(form(&lstm(&["", "n"], vec![], lengths(&[5, 2]))), (false, 6));
    assert_eq!(form(&lstm(&["", "", "", "", "P"], vec![], vec![floats("P", &[1, 9])])), (false, 6));
    let other = strings("activations", &["HardSigmoid", "Relu", "Tanh"]);
    assert_eq!(form(&lstm(&[], vec![other], vec![])), (false, 6));
    assert_eq!(output_dims(&imported(&lstm(&[], vec![], vec![]))), [5, 1, 2, 3]);
    // With the batch outside the same numbers are 2 steps of 5 rows.
    let graph = imported(&lstm(&[], vec![int("layout", 1)], vec![]));
    assert_eq!(output_dims(&graph), [5, 2, 1, 3]);
}

#[test]
fn gated_units_that_reset_behind_the_recurrence_are_one_primitive_of_any_length() {
    let layer = |steps: i64, inputs: &[&str], attributes: Vec<AttributeProto>, constants: Vec<TensorProto>| {
        let inputs = [&["x", "W", "R"], inputs].concat();
        let constants = [vec![floats("W", &[1, 9, 4]), floats("R", &[1, 9, 3])], constants].concat();
        model(14, &[steps, 2, 4], vec![node("GRU", &inputs, &["y"], attributes)], constants)
    };
    let whole = |model: &ModelProto| {
        let graph = imported(model);
        graph.nodes.iter().any(|n| matches!(n.op, Op::Primitive(Primitive::Gru { .. })))
    };
    let behind = || vec![int("linear_before_reset", 1)];
    assert!(whole(&layer(5, &["B"], behind(), vec![floats("B", &[1, 18])])));
    assert!(whole(&layer(3000, &[], behind(), vec![])));
    assert!(!whole(&layer(5, &[], vec![], vec![])), "the reset comes first");
    assert!(
        !whole(&layer(5, &["", "n"], behind(), lengths(&[5, 2]))),
        "sequences of other lengths"
    );
    let other = strings("activations", &["HardSigmoid", "Tanh"]);
    assert!(!whole(&layer(5, &[], [behind(), vec![other]].concat(), vec![])), "another function");
}

#[test]
fn what_no_form_computes_is_refused() {
    let told = |inputs: &[&str], attributes, constants, part: &str| {
        let message = refused(&lstm(inputs, attributes, constants));
        assert!(message.contains(part), "{message}");
    };
    told(&[], vec![int("input_forget", 1)], vec![], "input_forget");
    told(&[], vec![string("direction", "sideways")], vec![], "sideways");
    told(&[], vec![int("hidden_size", 4)], vec![], "hidden_size");
    told(&[], vec![strings("activations", &["Sigmoid"])], vec![], "activations");
    told(&[], vec![strings("activations", &["Affine", "Tanh", "Tanh"])], vec![], "Affine");
    told(&["B"], vec![], vec![floats("B", &[1, 12])], "B");
    told(&["", "n"], vec![], lengths(&[5, 6]), "sequence_lens");
    let long = model(
        14,
        &[300, 2, 4],
        vec![node("GRU", &["x", "W", "R"], &["y"], vec![])],
        vec![floats("W", &[1, 9, 4]), floats("R", &[1, 9, 3])],
    );
    let message = refused(&long);
    assert!(
        message.contains("300 steps") && message.contains("linear_before_reset"),
        "{message}"
    );
}
