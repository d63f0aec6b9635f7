//! Quantization read as arithmetic: what is left of it in the graph, and what is refused.

use super::*;
use crate::tensor::DType;

fn bytes(name: &str, data_type: i32, values: &[i32]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: if values.len() == 1 { vec![] } else { vec![values.len() as i64] },
        data_type,
        int32_data: values.to_vec(),
        ..Default::default()
    }
}

fn scale(values: &[f32]) -> TensorProto {
    TensorProto {
        name: "s".into(),
        dims: if values.len() == 1 { vec![] } else { vec![values.len() as i64] },
        data_type: data_type::FLOAT,
        float_data: values.to_vec(),
        ..Default::default()
    }
}

fn quantize() -> NodeProto {
    node("QuantizeLinear", &["x", "s", "z"], &["q"], vec![])
}

fn dequantize() -> NodeProto {
    node("DequantizeLinear", &["q", "s", "z"], &["y"], vec![])
}

/// The functions on the way back from the first output to the input.
fn chain(graph: &Graph) -> Vec<Primitive> {
    let mut value = graph.outputs[0].value;
    let mut found = vec![];
    while let Some(node) = graph.nodes.iter().find(|n| n.outputs.contains(&value)) {
        if let Op::Primitive(primitive) = node.op {
            found.push(primitive);
        }
        value = node.inputs[0];
    }
    found
}

#[test]
fn a_pair_stays_in_floats() {
    for (data_type, low, high) in [(data_type::UINT8, 0.0, 255.0), (data_type::INT8, -128.0, 127.0)] {
        let z = bytes("z", data_type, &[3]);
        let graph = imported(&model(13, &[2, 4], vec![quantize(), dequantize()], vec![scale(&[0.5]), z]));
        // The zero point is in what is cut off.
        let [mul, clip, round, div] = chain(&graph)[..] else {
            panic!("{:?}", chain(&graph));
        };
        assert_eq!([mul, div], [Binary::Mul, Binary::Div].map(Primitive::Binary));
        assert_eq!(clip, Primitive::Unary(Unary::Clip(Scalar(low - 3.0), Scalar(high - 3.0))));
        assert_eq!(round, Primitive::Unary(Unary::Round));
        assert_eq!(graph.value(graph.outputs[0].value).dtype, DType::F32);
    }
}

#[test]
fn quantized_weights_fold_per_axis() {
    let nodes = vec![
        node("DequantizeLinear", &["q", "s", "z"], &["w"], vec![int("axis", 0)]),
        node("Mul", &["x", "w"], &["y"], vec![]),
    ];
    let constants = vec![
        bytes("q", data_type::INT8, &[-128, 127, 5]),
        scale(&[0.5, 2.0, 1.0]),
        bytes("z", data_type::INT8, &[0, -1, 5]),
    ];
    let graph = imported(&model(13, &[2, 3], nodes, constants));
    let weights = graph.values.iter().find_map(|v| v.data.as_ref().filter(|d| d.len() == 3));
    assert_eq!(weights.unwrap().as_f32().unwrap(), [-64.0, 256.0, 0.0]);
    assert!(graph.nodes.iter().all(|n| !matches!(n.op, Op::Primitive(Primitive::Copy))));
}

#[test]
fn what_is_no_byte_is_refused_by_name() {
    let z = |data_type, value| vec![scale(&[0.5]), bytes("z", data_type, &[value])];
    let pair = || vec![quantize(), dequantize()];
    let message = refused(&model(21, &[2, 4], pair(), z(data_type::INT32, 0)));
    assert!(message.contains("quantized to I32"), "{message}");
    let message = refused(&model(13, &[2, 4], pair(), z(data_type::INT8, 128)));
    assert!(message.contains("out of the element type's range"), "{message}");
    let blocks = node("QuantizeLinear", &["x", "s", "z"], &["y"], vec![int("block_size", 2)]);
    let message = refused(&model(21, &[2, 4], vec![blocks], z(data_type::UINT8, 0)));
    assert!(message.contains("block_size"), "{message}");
    let bytes = vec![node("Cast", &["x"], &["y"], vec![int("to", i64::from(data_type::INT8))])];
    let message = refused(&model(13, &[2, 4], bytes, vec![]));
    assert!(message.contains("INT8 but by QuantizeLinear"), "{message}");
}

/// Another QuantizeLinear and DequantizeLinear behind `between`, which reads `y` and gives `v`.
fn again(between: Vec<NodeProto>, scale: &str, zero: &str) -> Vec<NodeProto> {
    let mut nodes = vec![quantize(), dequantize()];
    nodes.extend(between);
    nodes.push(node("QuantizeLinear", &["v", scale, zero], &["r"], vec![]));
    nodes.push(node("DequantizeLinear", &["r", scale, zero], &["w"], vec![]));
    nodes
}

#[test]
fn what_lies_on_a_grid_is_not_rounded_to_it_again() {
    let rounded = |between: Vec<NodeProto>, scale_name: &str, zero: &str| {
        let mut other = scale(&[0.25]);
        other.name = "t".into();
        let constants = vec![
            scale(&[0.5]),
            other,
            bytes("z", data_type::UINT8, &[3]),
            bytes("u", data_type::UINT8, &[4]),
            bytes("i", data_type::INT8, &[3]),
            longs("shape", &[4, 2]),
        ];
        let mut model = model(13, &[2, 4], again(between, scale_name, zero), constants);
        model.graph.as_mut().unwrap().output[0].name = "w".into();
        let graph = imported(&model);
        chain(&graph).iter().filter(|p| **p == Primitive::Unary(Unary::Round)).count()
    };
    let reshaped = || {
        vec![
            node("Reshape", &["y", "shape"], &["m"], vec![]),
            node("Transpose", &["m"], &["n"], vec![]),
            node("Concat", &["n", "n"], &["v"], vec![int("axis", 1)]),
        ]
    };
    assert_eq!(rounded(reshaped(), "s", "z"), 1, "seen otherwise and joined");
    assert_eq!(rounded(vec![node("Relu", &["y"], &["v"], vec![])], "s", "z"), 1, "cut off at 0");
    for (scale, zero) in [("t", "z"), ("s", "u"), ("s", "i")] {
        assert_eq!(rounded(reshaped(), scale, zero), 2, "scale {scale}, zero point {zero}");
    }
    assert_eq!(rounded(vec![node("Neg", &["y"], &["v"], vec![])], "s", "z"), 2, "no element of it");
}

#[test]
fn a_scale_that_is_no_finite_number_is_refused_where_it_is_read() {
    for bad in [f32::INFINITY, f32::NAN] {
        let z = bytes("z", data_type::UINT8, &[3]);
        let mut other = scale(&[0.5]);
        other.name = "t".into();
        for (first, second, attribute) in [("s", "t", "y_scale"), ("t", "s", "x_scale")] {
            let nodes = vec![
                node("QuantizeLinear", &["x", first, "z"], &["q"], vec![]),
                node("DequantizeLinear", &["q", second, "z"], &["y"], vec![]),
            ];
            let message = refused(&model(13, &[2, 4], nodes, vec![scale(&[bad]), other.clone(), z.clone()]));
            assert!(message.contains(attribute) && message.contains("quantise"), "{message}");
        }
        // One of the channels' scales.
        let per_channel = vec![scale(&[0.5, bad, 1.0, 2.0]), bytes("z", data_type::UINT8, &[0; 4])];
        let message = refused(&model(13, &[2, 4], vec![quantize(), dequantize()], per_channel));
        assert!(message.contains("y_scale"), "{message}");
    }
}
