//! Cameras in front and decoders behind: what cards make of networks, and which networks they refuse.

use super::nets::{Draw, Net};
use super::oracle::board;
use crate::ids::CameraId;
use crate::plan::format::{Camera, Digest, Plan, Role, Tenant};
use crate::planner::attach::{AttachError, Attached, attach};
use crate::planner::card::{Card, CardInput, Decode, MapCard};
use crate::planner::graph::{Graph, verify};
use crate::planner::half_floats::Ports;
use crate::planner::{CompileOptions, emit, half_floats, lower};
use crate::primitive::{ColorOrder, Fit, Primitive, Unary};
use crate::task::{Rate, Urgency};
use crate::tensor::DType;

pub fn cameras() -> Vec<Camera> {
    let camera = |name: &str, bytes| Camera {
        name: name.to_owned(),
        max_width: 40,
        max_height: 30,
        bytes,
    };
    vec![camera("front", 5760), camera("rear", 4800)]
}

pub fn card(decode: Decode) -> Card {
    Card {
        name: "n".to_owned(),
        path: "n/model.toml".into(),
        onnx: "n/n.onnx".into(),
        digest: None,
        source: String::new(),
        licence: String::new(),
        input: CardInput {
            tensor: None,
            fit: Fit::LetterboxCentred,
            fill: 114,
            order: ColorOrder::Bgr,
            mean: [1.0, 2.0, 3.0],
            std: [255.0; 3],
            crops: None,
        },
        decode,
        single: false,
        accuracy: None,
    }
}

pub fn yolox(max: u32) -> Decode {
    Decode::Yolox {
        output: None,
        score: 0.3,
        iou: 0.45,
        max,
        labels: vec!["car".to_owned(), "truck".to_owned()],
    }
}

pub fn classes(k: u32, softmax: bool) -> Decode {
    Decode::Classification {
        output: Some("out0".to_owned()),
        k,
        softmax,
        labels: Vec::new(),
    }
}

pub fn map(axis: usize, resize: Option<(u32, u32)>) -> Decode {
    Decode::Segmentation {
        maps: vec![MapCard {
            name: "road".to_owned(),
            output: "out0".to_owned(),
            axis,
            resize,
            labels: vec!["other".to_owned(), "road".to_owned()],
        }],
    }
}

/// A network over a picture input of `dims` whose output has `out`: a convolution, brought into shape by a matrix product.
pub fn pictures(dims: &[u32], out: &[u32]) -> Graph {
    let (mut net, mut draw) = (Net::default(), Draw::new(1));
    let x = net.input(dims);
    let y = if dims[1] == 3 { x } else { net.transpose(x, &[0, 3, 1, 2]) };
    let y = net.conv(&mut draw, y, 2, 3, 1, 1, true);
    let d = net.dims(y);
    let flat = d[1] * d[2] * d[3];
    let y = net.view(crate::planner::graph::ViewOp::Reshape, y, &[d[0], flat]);
    let columns: u32 = out[1..].iter().product();
    let w = net.constant(draw.tensor(&[flat, columns]));
    let y = net.node(crate::planner::graph::Op::Primitive(Primitive::MatMul), &[y, w], &[d[0], columns]);
    let y = net.view(crate::planner::graph::ViewOp::Reshape, y, out);
    let y = net.unary(Unary::Sigmoid, y);
    net.output(y);
    net.graph.name = "n.onnx".to_owned();
    net.graph
}

fn attached(graph: Graph, decode: Decode, pictures: u16) -> Result<Attached, AttachError> {
    let ids: Vec<CameraId> = (0..pictures).map(CameraId).collect();
    attach(graph, &card(decode), &ids, &cameras())
}

/// The checked plan of a network behind `pictures` cameras, in both types.
fn planned(graph: Graph, decode: Decode, pictures: u16) -> Plan {
    let plan = |dtype: DType| {
        let ends = attached(graph.clone(), decode.clone(), pictures).unwrap();
        let ends = if dtype == DType::F16 {
            half_floats::convert(ends, Ports::Declared)
        } else {
            ends
        };
        verify(&ends.graph).unwrap();
        let tenant = Tenant {
            name: "t".to_owned(),
            model: "n".to_owned(),
            cameras: (0..pictures).map(CameraId).collect(),
            rate: Rate::EVERY_FRAME,
            urgency: Urgency {
                priority: 0,
                deadline: None,
            },
            kind: decode.kind(),
            sources: Vec::new(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let options = CompileOptions {
            dtype,
            ..CompileOptions::default()
        };
        let lowered = lower::lower(cameras(), vec![(tenant, ends)], options.passes).unwrap();
        emit::emit("test", Digest::of(b""), lowered, &board(), &options).unwrap().plan
    };
    // Half precision changes no port: what results mean and how they are typed is the card's and ONNX's business.
    let (single, half) = (plan(DType::F32), plan(DType::F16));
    assert_eq!(roles(&single), roles(&half));
    single
}

fn roles(plan: &Plan) -> Vec<(Role, u16, DType, Vec<u32>)> {
    let ports = plan.tenants[0].outputs.iter();
    let role = ports.map(|p| (p.role, p.image, p.view.dtype, p.view.layout.shape.dims().to_vec()));
    role.collect()
}

fn count(plan: &Plan, is: impl Fn(&Primitive) -> bool) -> usize {
    plan.operators.iter().flat_map(|o| &o.calls).filter(|c| is(&c.primitive)).count()
}

#[test]
fn each_picture_of_a_batch_has_its_camera_and_its_detections() {
    let plan = planned(pictures(&[2, 3, 32, 32], &[2, 21, 7]), yolox(9), 2);
    let expected = |image| {
        [
            (Role::Detections, image, DType::F32, vec![9, 6]),
            (Role::Count, image, DType::I32, vec![1]),
        ]
    };
    assert_eq!(roles(&plan), [expected(0), expected(1)].concat());
    let prepared = plan.operators.iter().flat_map(|o| &o.calls).filter_map(|c| match c.primitive {
        Primitive::Prepare(p) => Some(p.camera),
        _ => None,
    });
    assert_eq!(prepared.collect::<Vec<_>>(), [CameraId(0), CameraId(1)]);
    // Both are written straight into the batch.
    let batch = |o: &&crate::plan::format::Operator| matches!(o.calls[0].primitive, Primitive::Prepare(_));
    let places = plan
        .operators
        .iter()
        .filter(batch)
        .map(|o| (o.outputs[0].buffer, o.outputs[0].origin));
    let places: Vec<_> = places.collect();
    assert_eq!((places[0].0, places[0].1, places[1].1), (places[1].0, 0, 3 * 32 * 32));
    assert!(plan.tenants[0].inputs.is_empty());
}

#[test]
fn scores_become_label_maps_in_either_order_of_axes() {
    let size = (Role::LabelMap, 0, DType::U8, vec![1, 6, 8]);
    let first = planned(pictures(&[1, 3, 6, 8], &[1, 2, 6, 8]), map(1, None), 1);
    assert_eq!(roles(&first), std::slice::from_ref(&size));
    let last = planned(pictures(&[1, 6, 8, 3], &[1, 3, 4, 2]), map(3, Some((8, 6))), 1);
    assert_eq!(roles(&last), [size]);
    assert_eq!(count(&last, |p| matches!(p, Primitive::Resize(_))), 1);
    assert_eq!(last.tenants[0].outputs[0].fit, Some(Fit::LetterboxCentred));
    assert_eq!(last.tenants[0].outputs[0].labels.len(), 2);
}

#[test]
fn a_batch_of_scores_gives_one_port_of_best_classes() {
    let plan = planned(pictures(&[2, 3, 6, 8], &[2, 5, 1, 1]), classes(3, true), 2);
    let expected = [
        (Role::TopValues, 0, DType::F32, vec![2, 3]),
        (Role::TopIndices, 0, DType::I32, vec![2, 3]),
    ];
    assert_eq!(roles(&plan), expected);
    assert_eq!(count(&plan, |p| matches!(p, Primitive::Softmax { .. })), 1);
}

#[test]
fn without_a_decoder_the_outputs_stay_tensors() {
    let plan = planned(pictures(&[1, 3, 6, 8], &[1, 5]), Decode::Tensors, 1);
    assert_eq!(roles(&plan), [(Role::Tensor, 0, DType::F32, vec![1, 5])]);
}

#[test]
fn a_network_that_is_not_its_cards_is_refused_by_name() {
    let refused = |graph: Graph, decode: Decode, cameras: u16| attached(graph, decode, cameras).unwrap_err().to_string();
    let batch = refused(pictures(&[2, 3, 6, 8], &[2, 5]), classes(1, false), 1);
    assert!(
        batch.contains("n.onnx") && batch.contains("in0") && batch.contains("[1,3,H,W]"),
        "{batch}"
    );
    let head = refused(pictures(&[1, 3, 32, 32], &[1, 20, 7]), yolox(9), 1);
    assert!(head.contains("[B,21,5+classes]"), "{head}");
    let many = refused(pictures(&[1, 3, 6, 8], &[1, 5]), classes(6, false), 1);
    assert!(many.contains("at least 6"), "{many}");
    let axis = refused(pictures(&[1, 3, 6, 8], &[1, 5]), map(1, None), 1);
    assert!(axis.contains("label map"), "{axis}");
    let names = refused(pictures(&[1, 3, 32, 32], &[1, 21, 9]), yolox(9), 1);
    assert!(names.contains("4 classes") && names.contains("2 labels"), "{names}");
    let names = refused(pictures(&[1, 3, 6, 8], &[1, 3, 6, 8]), map(1, None), 1);
    assert!(names.contains("3 classes") && names.contains("2 labels"), "{names}");
    let mut other = card(classes(1, false));
    other.input.tensor = Some("images".to_owned());
    let unknown = attach(pictures(&[1, 3, 6, 8], &[1, 5]), &other, &[CameraId(0)], &cameras()).unwrap_err();
    assert!(unknown.to_string().contains("`images`; there are: in0"), "{unknown}");
    let mut two = pictures(&[1, 3, 6, 8], &[1, 5]);
    let shape = two.value(two.inputs[0].value).shape;
    let value = two.add_value("more", DType::F32, shape);
    two.inputs.push(crate::planner::graph::Named {
        name: "more".to_owned(),
        value,
        widened: false,
    });
    let mut named = card(classes(1, false));
    named.input.tensor = Some("in0".to_owned());
    let unfed = attach(two, &named, &[CameraId(0)], &cameras()).unwrap_err();
    assert!(matches!(&unfed, AttachError::Unfed { input, .. } if input == "more"), "{unfed}");
}
