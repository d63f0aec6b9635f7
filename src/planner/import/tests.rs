//! Small models, made from messages, through the whole import.

mod composed;
mod constants;
mod deep;
mod functions;
mod needed;
mod quantize;
mod recurrent;
mod sequence;
mod unroll;

use super::proto::{
    AttributeProto, DimensionProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
    attribute_type, data_type,
};
use super::*;
use crate::planner::graph::{Op, ViewOp};
use crate::primitive::{Binary, Coordinates, Nearest, Primitive, ResizeMode, Scalar, Unary, Window};
use prost::Message;

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::INT,
        i,
        ..Default::default()
    }
}

fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::INTS,
        ints: ints.to_vec(),
        ..Default::default()
    }
}

fn string(name: &str, s: &'static str) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: attribute_type::STRING,
        s: bytes::Bytes::from_static(s.as_bytes()),
        ..Default::default()
    }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str], attribute: Vec<AttributeProto>) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
    NodeProto {
        op_type: op.into(),
        input: owned(inputs),
        output: owned(outputs),
        attribute,
        ..Default::default()
    }
}

fn longs(name: &str, values: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: vec![values.len() as i64],
        data_type: data_type::INT64,
        int64_data: values.to_vec(),
        ..Default::default()
    }
}

fn floats(name: &str, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: name.into(),
        dims: dims.to_vec(),
        data_type: data_type::FLOAT,
        float_data: (0..dims.iter().product::<i64>()).map(|i| i as f32).collect(),
        ..Default::default()
    }
}

fn info(name: &str, elem_type: i32, dims: Option<&[i64]>) -> ValueInfoProto {
    let dim = |&d: &i64| DimensionProto {
        dim_value: (d >= 0).then_some(d),
        dim_param: (d < 0).then(|| "N".to_owned()),
    };
    ValueInfoProto {
        name: name.into(),
        r#type: Some(TypeProto {
            tensor_type: Some(TensorTypeProto {
                elem_type,
                shape: dims.map(|d| TensorShapeProto {
                    dim: d.iter().map(dim).collect(),
                }),
            }),
            ..Default::default()
        }),
    }
}

/// A model with the float input `x` of `dims` (-1: symbolic) and the output `y`.
fn model(opset: i64, dims: &[i64], nodes: Vec<NodeProto>, initializer: Vec<TensorProto>) -> ModelProto {
    ModelProto {
        opset_import: vec![OperatorSetIdProto {
            domain: String::new(),
            version: opset,
        }],
        graph: Some(GraphProto {
            node: nodes,
            initializer,
            input: vec![info("x", data_type::FLOAT, Some(dims))],
            output: vec![ValueInfoProto {
                name: "y".into(),
                r#type: None,
            }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn import_with(model: &ModelProto, options: &ImportOptions) -> Result<Graph, ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    std::fs::write(&path, model.encode_to_vec()).unwrap();
    import(&path, options)
}

fn imported(model: &ModelProto) -> Graph {
    import_with(model, &ImportOptions::default()).unwrap()
}

fn refused(model: &ModelProto) -> String {
    import_with(model, &ImportOptions::default()).unwrap_err().to_string()
}

fn output_dims(graph: &Graph) -> Vec<u32> {
    graph.value(graph.outputs[0].value).shape.dims().to_vec()
}

/// The window of the only node that has one.
fn window(graph: &Graph) -> Window {
    let mut windows = graph.nodes.iter().filter_map(|n| match n.op {
        Op::Primitive(Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. } | Primitive::Pool { window, .. }) => {
            Some(window)
        }
        _ => None,
    });
    windows.next_back().unwrap()
}

#[test]
fn auto_pad_puts_the_odd_pad_where_it_says() {
    let conv = |auto| {
        imported(&model(
            13,
            &[1, 1, 6, 5],
            vec![node(
                "Conv",
                &["x", "w"],
                &["y"],
                vec![string("auto_pad", auto), ints("strides", &[2, 2])],
            )],
            vec![floats("w", &[2, 1, 3, 3])],
        ))
    };
    let upper = conv("SAME_UPPER");
    assert_eq!(output_dims(&upper), [1, 2, 3, 3]);
    assert_eq!((window(&upper).pad_begin, window(&upper).pad_end), ([0, 1, 0], [1, 1, 0]));
    let lower = conv("SAME_LOWER");
    assert_eq!((window(&lower).pad_begin, window(&lower).pad_end), ([1, 1, 0], [0, 1, 0]));
    assert_eq!(output_dims(&conv("VALID")), [1, 2, 2, 2]);
}

#[test]
fn a_ceil_mode_window_that_starts_in_the_end_padding_is_dropped() {
    let pool = |extent: i64, kernel: i64, stride: i64| {
        let attributes = vec![
            ints("kernel_shape", &[kernel]),
            ints("strides", &[stride]),
            ints("pads", &[0, 1]),
            int("ceil_mode", 1),
        ];
        output_dims(&imported(&model(
            12,
            &[1, 1, extent],
            vec![node("MaxPool", &["x"], &["y"], attributes)],
            vec![],
        )))[2]
    };
    assert_eq!(pool(4, 2, 2), 2);
    assert_eq!(pool(5, 2, 2), 3);
    assert_eq!(pool(5, 3, 2), 3);
    assert_eq!(pool(4, 2, 4), 1);
}

#[test]
fn a_ceil_mode_window_over_more_than_the_input_has_the_taps_that_lie_inside() {
    let of = |kernel: i64, stride: i64, dilation: i64, ceil: i64| {
        let attributes = vec![
            ints("kernel_shape", &[kernel]),
            ints("strides", &[stride]),
            ints("dilations", &[dilation]),
            ints("pads", &[1, 0]),
            int("ceil_mode", ceil),
        ];
        model(19, &[1, 1, 7], vec![node("AveragePool", &["x"], &["y"], attributes)], vec![])
    };
    // The mean of a picture as transformers writes that of EfficientNet: 2560 x 2560 taps in steps of 2560.
    let whole = imported(&of(2560, 2560, 1, 1));
    assert_eq!((output_dims(&whole), window(&whole).kernel[0]), (vec![1, 1, 1], 8));
    assert_eq!(window(&imported(&of(4, 9, 3, 1))).kernel[0], 3);
    // No position begins inside: there is no output.
    assert!(refused(&of(20, 4, 1, 1)).contains("larger than the padded input"));
    assert!(refused(&of(2560, 2560, 1, 0)).contains("larger than the padded input"));
}

#[test]
fn output_shape_of_a_transposed_convolution_fixes_the_pads() {
    let transposed = |auto| {
        imported(&model(
            11,
            &[1, 1, 3],
            vec![node(
                "ConvTranspose",
                &["x", "w"],
                &["y"],
                vec![string("auto_pad", auto), ints("strides", &[2]), ints("output_shape", &[7])],
            )],
            vec![floats("w", &[1, 1, 4])],
        ))
    };
    for (auto, begin, end) in [("NOTSET", 1, 0), ("SAME_UPPER", 0, 1), ("SAME_LOWER", 1, 0)] {
        let graph = transposed(auto);
        assert_eq!(output_dims(&graph), [1, 1, 7]);
        assert_eq!((window(&graph).pad_begin[0], window(&graph).pad_end[0]), (begin, end), "{auto}");
    }
}

#[test]
fn shape_chains_fold_away_and_wide_ends_mean_to_the_end() {
    // y = x reshaped to [Shape(x)[0], -1], and the rows from the second on.
    let nodes = vec![
        node("Shape", &["x"], &["s"], vec![]),
        node("Slice", &["s", "zero", "one"], &["batch"], vec![]),
        node("Concat", &["batch", "rest"], &["target"], vec![int("axis", 0)]),
        node("Reshape", &["x", "target"], &["flat"], vec![]),
        node("Unsqueeze", &["last", "zero"], &["nested"], vec![]),
        node("Squeeze", &["nested", "zero"], &["ends"], vec![]),
        node("Slice", &["flat", "one", "ends"], &["y"], vec![]),
    ];
    let constants = vec![
        longs("zero", &[0]),
        longs("one", &[1]),
        longs("rest", &[-1]),
        longs("last", &[i64::MAX]),
    ];
    let graph = imported(&model(13, &[4, 2, 3], nodes, constants));
    assert_eq!(output_dims(&graph), [3, 6]);
    let ops: Vec<&Op> = graph.nodes.iter().map(|n| &n.op).collect();
    assert!(
        matches!(ops[..], [Op::View(ViewOp::Reshape), Op::View(ViewOp::Slice { .. })]),
        "{ops:?}"
    );
    assert!(graph.values.iter().all(|v| v.data.is_none()));
}

#[test]
fn wide_integers_as_data_are_refused() {
    let message = refused(&model(
        13,
        &[1],
        vec![
            node("Cast", &["x"], &["i"], vec![int("to", 7)]),
            node("Add", &["i", "k"], &["y"], vec![]),
        ],
        vec![longs("k", &[1 << 40])],
    ));
    assert!(message.contains("does not fit 32 bits"), "{message}");
}

#[test]
fn i64_borders_are_marked() {
    let graph = imported(&model(13, &[2, 3], vec![node("Cast", &["x"], &["y"], vec![int("to", 7)])], vec![]));
    assert!(graph.outputs[0].widened && !graph.inputs[0].widened);
    assert_eq!(graph.value(graph.outputs[0].value).dtype, crate::tensor::DType::I32);
}

#[test]
fn negative_steps_slice_backwards() {
    let slice = |start: i64, end: i64, step: i64| {
        let constants = vec![longs("s", &[start]), longs("e", &[end]), longs("a", &[-1]), longs("t", &[step])];
        let graph = imported(&model(
            13,
            &[2, 10],
            vec![node("Slice", &["x", "s", "e", "a", "t"], &["y"], vec![])],
            constants,
        ));
        let view = match graph.nodes.first().map(|n| &n.op) {
            Some(Op::View(ViewOp::Slice { start, step })) => Some((start[1], step[1])),
            _ => None,
        };
        (output_dims(&graph)[1], view)
    };
    assert_eq!(slice(-1, i64::MIN, -3), (4, Some((9, -3))));
    assert_eq!(slice(20, 2, -4), (2, Some((9, -4))));
    assert_eq!(slice(3, 3, 1), (0, Some((0, 1))));
    assert_eq!(slice(4, i64::MAX, i64::MAX), (1, Some((4, 1))));
    assert_eq!(slice(4, i64::MIN, i64::MIN), (1, Some((4, 1))));
    assert_eq!(slice(0, i64::MAX, 1), (10, None));
}

#[test]
fn old_softmax_flattens_and_new_softmax_does_not() {
    let softmax = |opset| {
        imported(&model(
            opset,
            &[2, 3, 4],
            vec![node("Softmax", &["x"], &["y"], vec![int("axis", 1)])],
            vec![],
        ))
        .nodes
    };
    let axes = |nodes: &[crate::planner::graph::Node]| {
        nodes
            .iter()
            .map(|n| match n.op {
                Op::Primitive(Primitive::Softmax { axis }) => usize::from(axis),
                _ => 99,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(axes(&softmax(11)), [99, 1, 99]);
    assert_eq!(axes(&softmax(13)), [1]);
}

#[test]
fn every_form_of_resize_fixes_its_target() {
    let resize = |opset: i64, inputs: &[&str], attributes: Vec<AttributeProto>, constants: Vec<TensorProto>| {
        let mut constants = constants;
        constants.push(TensorProto {
            float_data: vec![1.0, 1.0, 0.7, 2.0],
            ..floats("scales", &[4])
        });
        let graph = imported(&model(
            opset,
            &[1, 1, 10, 4],
            vec![node("Resize", inputs, &["y"], attributes)],
            constants,
        ));
        let Op::Primitive(Primitive::Resize(resize)) = graph.nodes[0].op else {
            panic!("{:?}", graph.nodes[0].op);
        };
        (output_dims(&graph), resize)
    };
    // Of the first form, what shrinks goes before what grows.
    let (dims, first) = resize(10, &["x", "scales"], vec![], vec![]);
    assert_eq!((dims, first.mode), (vec![1, 1, 7, 8], ResizeMode::Nearest(Nearest::Ceil)));
    assert_eq!([first.scales[2].0, first.scales[3].0], [0.7, 1.0]);
    assert_eq!(first.coordinates, Coordinates::Asymmetric);
    // A region of interest does not change the extents.
    let (dims, crop) = resize(
        11,
        &["x", "roi", "scales"],
        vec![string("coordinate_transformation_mode", "tf_crop_and_resize")],
        vec![TensorProto {
            float_data: vec![0.0, 0.0, 0.25, 0.25, 1.0, 1.0, 0.5, 0.75],
            ..floats("roi", &[8])
        }],
    );
    assert_eq!(dims, [1, 1, 7, 8]);
    assert!(matches!(crop.coordinates, Coordinates::CropAndResize { .. }));
    let (dims, keras) = resize(
        11,
        &["x", "", "scales"],
        vec![
            string("coordinate_transformation_mode", "tf_half_pixel_for_nn"),
            string("nearest_mode", "floor"),
        ],
        vec![],
    );
    assert_eq!(
        (dims, keras.mode),
        (vec![1, 1, 7, 8], ResizeMode::Nearest(Nearest::RoundPreferCeil))
    );
    assert_eq!(keras.coordinates, Coordinates::HalfPixel);
    let (dims, kept) = resize(
        18,
        &["x", "", "", "sizes"],
        vec![
            string("mode", "linear"),
            ints("axes", &[3, 2]),
            string("keep_aspect_ratio_policy", "not_larger"),
        ],
        vec![longs("sizes", &[8, 9])],
    );
    assert_eq!(dims, [1, 1, 9, 4]);
    assert_eq!([kept.scales[2].0, kept.scales[3].0], [0.9, 0.9]);
}

#[test]
fn a_bias_stays_a_view_and_constants_of_both_sides_fold() {
    let graph = imported(&model(
        13,
        &[1, 3, 32, 32],
        vec![node("Mul", &["c", "c"], &["d"], vec![]), node("Add", &["x", "d"], &["y"], vec![])],
        vec![floats("c", &[3, 1, 1])],
    ));
    let broadcasts = graph.nodes.iter().filter(|n| n.op == Op::View(ViewOp::Broadcast)).count();
    assert_eq!(broadcasts, 1);
    let largest = graph.values.iter().filter_map(|v| v.data.as_ref()).map(|d| d.len()).max();
    assert_eq!(largest, Some(3));
}

#[test]
fn clip_takes_constant_and_computed_bounds() {
    let bounds = |name: &str| TensorProto {
        dims: vec![],
        float_data: vec![6.0],
        ..floats(name, &[1])
    };
    let clip = |inputs: &[&str]| {
        imported(&model(
            13,
            &[2, 2],
            vec![
                node("ReduceMax", &["x"], &["top"], vec![int("keepdims", 0)]),
                node("Clip", inputs, &["y"], vec![]),
            ],
            vec![bounds("six")],
        ))
        .nodes
        .pop()
        .unwrap()
        .op
    };
    let constant = clip(&["x", "", "six"]);
    assert!(matches!(constant, Op::Primitive(Primitive::Unary(Unary::Clip(low, high))) if low.0 == f32::NEG_INFINITY && high.0 == 6.0));
    assert!(matches!(
        clip(&["x", "six", "top"]),
        Op::Primitive(Primitive::Binary(crate::primitive::Binary::Min))
    ));
}

#[test]
fn symbolic_axes_are_fixed_by_the_options() {
    let relu = model(13, &[-1, 3], vec![node("Relu", &["x"], &["y"], vec![])], vec![]);
    let message = refused(&relu);
    assert!(message.contains("`x`") && message.contains("symbolic (`N`)"), "{message}");
    let batch = ImportOptions {
        batch: Some(5),
        ..Default::default()
    };
    assert_eq!(output_dims(&import_with(&relu, &batch).unwrap()), [5, 3]);
    let shaped = |name: &str, shape: &[u32]| ImportOptions {
        batch: Some(5),
        shapes: BTreeMap::from([(name.to_owned(), shape.to_vec())]),
        ..Default::default()
    };
    assert_eq!(output_dims(&import_with(&relu, &shaped("x", &[2, 3])).unwrap()), [2, 3]);
    let taken = |options: &ImportOptions, batch| takes_batch(&import_with(&relu, options).unwrap(), Path::new("relu.onnx"), batch);
    assert!(taken(&batch, 5).is_ok());
    let message = taken(&shaped("x", &[2, 3]), 5).unwrap_err().to_string();
    assert!(message.contains("a batch of 5") && message.contains("`x`"), "{message}");
    assert!(import_with(&relu, &shaped("x", &[2, 4])).is_err());
    assert!(import_with(&relu, &shaped("z", &[2, 3])).is_err());
}

#[test]
fn a_fixed_input_becomes_a_constant() {
    let mut expand = model(13, &[3], vec![node("Expand", &["x", "shape"], &["y"], vec![])], vec![]);
    expand
        .graph
        .as_mut()
        .unwrap()
        .input
        .push(info("shape", data_type::INT64, Some(&[2])));
    assert!(refused(&expand).contains("attribute `shape`"));
    let shape = Tensor::new(crate::tensor::Shape::new(&[2]).unwrap(), crate::tensor::Data::I32(vec![2, 3])).unwrap();
    let options = ImportOptions {
        fixed: BTreeMap::from([("shape".to_owned(), shape)]),
        ..Default::default()
    };
    let graph = import_with(&expand, &options).unwrap();
    assert_eq!((output_dims(&graph), graph.inputs.len()), (vec![2, 3], 1));
}

#[test]
fn refusals_name_file_node_operator_and_attribute() {
    let unknown = model(
        13,
        &[1, 1, 4],
        vec![node("MaxPool", &["x"], &["y"], vec![ints("kernel_shape", &[2]), int("fancy", 1)])],
        vec![],
    );
    let message = refused(&unknown);
    for part in ["m.onnx", "node `y`", "(MaxPool)", "attribute `fancy`"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(refused(&model(13, &[1], vec![node("Frob", &["x"], &["y"], vec![])], vec![])).contains("(Frob)"));
    assert!(refused(&model(6, &[1], vec![node("Add", &["x", "x"], &["y"], vec![])], vec![])).contains("operator set 6"));
    assert!(refused(&model(MAX_OPSET + 1, &[1], vec![node("Relu", &["x"], &["y"], vec![])], vec![])).contains("operator set"));
}

#[test]
fn broken_graphs_are_refused() {
    let relu = |a: &str, b: &str| node("Relu", &[a], &[b], vec![]);
    let broken = [
        vec![relu("y", "y")],
        vec![relu("b", "a"), relu("a", "b"), relu("b", "y")],
        vec![relu("x", "x"), relu("x", "y")],
        vec![relu("x", "y"), relu("x", "y")],
        vec![relu("", "y")],
        vec![relu("x", "z")],
        vec![node("Conv", &["x", "w"], &["y"], vec![ints("strides", &[0, 1])])],
        vec![node("Conv", &["x", "w"], &["y"], vec![ints("dilations", &[1, 0])])],
        vec![node("Conv", &["x", "w"], &["y"], vec![ints("dilations", &[1, i64::MAX])])],
        vec![node("Conv", &["x", "w"], &["y"], vec![ints("pads", &[1, 1])])],
        vec![node("Conv", &["x", "w"], &["y"], vec![int("group", 0)])],
        vec![node("Pad", &["x", "far"], &["y"], vec![])],
        vec![node("Split", &["x", "far"], &["y"], vec![])],
        vec![node("Reshape", &["x", "far"], &["y"], vec![])],
        vec![node("Gather", &["x", "far"], &["y"], vec![])],
    ];
    for nodes in broken {
        let constants = vec![floats("w", &[1, 1, 3, 3]), longs("far", &[i64::MIN; 8])];
        let model = model(13, &[1, 1, 8, 8], nodes, constants);
        let error = import_with(&model, &ImportOptions::default()).unwrap_err();
        assert!(error.kind().is_some(), "{error}");
    }
}

#[test]
fn a_repeated_constant_beyond_the_cap_stays_a_view() {
    let graph = imported(&model(
        13,
        &[1],
        vec![
            node("Expand", &["k", "shape"], &["big"], vec![]),
            node("Relu", &["big"], &["y"], vec![]),
        ],
        vec![floats("k", &[1]), longs("shape", &[1 << 15, 1 << 15])],
    ));
    assert_eq!(output_dims(&graph), [1 << 15, 1 << 15]);
    assert!(graph.values.iter().filter_map(|v| v.data.as_ref()).all(|d| d.len() <= 1));
}

#[test]
fn constants_that_grow_without_bounds_are_left_to_the_graph() {
    // Each node doubles; when the budget is spent, joining goes on as nodes.
    let doubled = |i: usize| (if i == 0 { "k".to_owned() } else { format!("k{i}") }, format!("k{}", i + 1));
    let mut nodes: Vec<NodeProto> = (0..14)
        .map(|i| {
            let (from, to) = doubled(i);
            node("Concat", &[&from, &from], &[&to], vec![int("axis", 0)])
        })
        .collect();
    nodes.push(node("Relu", &["k14"], &["y"], vec![]));
    let graph = imported(&model(13, &[1], nodes, vec![floats("k", &[1 << 10])]));
    assert_eq!(output_dims(&graph), [1 << 24]);
    let bytes: usize = graph.values.iter().filter_map(|v| v.data.as_ref()).map(|d| d.bytes().len()).sum();
    assert!(bytes <= 16 << 20, "{bytes}");
}

#[test]
fn shapes_are_known_however_much_was_folded() {
    let mut nodes = Vec::new();
    // 16 MiB that each file may fold, the share of the one constant besides, and what is left of both in the smallest of these.
    for (i, of) in ["k"; 3].iter().enumerate() {
        nodes.push(node("Concat", &[of, of], &[&format!("other{i}")], vec![int("axis", 0)]));
    }
    for i in 0..14 {
        let (from, to) = (if i == 0 { "k".to_owned() } else { format!("k{i}") }, format!("k{}", i + 1));
        nodes.push(node("Concat", &[&from, &from], &[&to], vec![int("axis", 0)]));
    }
    for i in 0..64 {
        let from = if i == 0 { "shape".to_owned() } else { format!("shape{i}") };
        nodes.push(node("Add", &[&from, "none"], &[&format!("shape{}", i + 1)], vec![]));
    }
    nodes.push(node("Sum", &["other0", "other1", "other2"], &["z"], vec![]));
    nodes.push(node("Reshape", &["k14", "shape64"], &["y"], vec![]));
    let mut model = model(
        13,
        &[1],
        nodes,
        vec![floats("k", &[1 << 10]), longs("shape", &[1 << 12, 1 << 12]), longs("none", &[0, 0])],
    );
    model.graph.as_mut().unwrap().output.push(ValueInfoProto {
        name: "z".into(),
        ..Default::default()
    });
    let graph = imported(&model);
    assert_eq!(output_dims(&graph), [1 << 12, 1 << 12]);
}
