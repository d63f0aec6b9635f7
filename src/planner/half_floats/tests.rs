//! What becomes f16, what stays f32, and what f16 makes of constants.

use super::*;
use crate::planner::attach;
use crate::planner::graph::{Named, verify};
use crate::primitive::{Binary, Outside, Places, Sample, Sampling};
use crate::tensor::{Data, Shape, Tensor};
use half::f16;

fn port(name: &str, value: ValueId) -> Named {
    Named {
        name: name.into(),
        value,
        widened: false,
    }
}

/// Floats of an input go through a primitive of the network's own to a result.
fn network() -> Graph {
    let mut graph = Graph::default();
    let shape = Shape::new(&[2, 3]).unwrap();
    let (x, y) = (graph.add_value("x", DType::F32, shape), graph.add_value("y", DType::F32, shape));
    graph.add_node("softmax", softmax(), vec![x], vec![y]);
    graph.inputs.push(port("x", x));
    graph.outputs.push(port("y", y));
    graph
}

#[test]
fn what_keeps_a_divisor_from_zero_does_not_become_zero() {
    let mut graph = network();
    graph.nodes[0].op = Op::Primitive(Primitive::Unary(Unary::Clip(Scalar(1e-12), Scalar(f32::INFINITY))));
    let tensor =
        |numbers: &[f32]| Arc::new(Tensor::new(Shape::new(&[numbers.len() as u32]).unwrap(), Data::F32(numbers.to_vec())).unwrap());
    let numbers = [&[1e-12][..], &[-1e-12; 3], &[0.0], &[1e-12, 1.0]].map(|n| graph.add_constant("constant", tensor(n)));
    let graph = convert(attach::tensors(graph), Ports::Half).graph;
    let bits = |v: ValueId| {
        graph
            .value(v)
            .data
            .as_deref()
            .map(|t| (0..t.len()).filter_map(|i| t.get_f64(i)).collect::<Vec<_>>())
    };
    let least = f64::from(f16::from_bits(1).to_f32());
    assert_eq!(
        numbers.map(|v| bits(v).unwrap()),
        [vec![least], vec![-least; 3], vec![0.0], vec![0.0, 1.0]]
    );
    let clips = graph.nodes.iter().filter_map(|n| match n.op {
        Op::Primitive(Primitive::Unary(Unary::Clip(low, high))) => Some((low.0, high.0)),
        _ => None,
    });
    assert_eq!(clips.collect::<Vec<_>>(), [(least as f32, f32::INFINITY)]);
}

#[test]
fn ports_keep_their_type_or_become_half_and_everything_inside_is_half() {
    for (ports, wanted) in [(Ports::Declared, DType::F32), (Ports::Half, DType::F16)] {
        let graph = convert(attach::tensors(network()), ports).graph;
        verify(&graph).unwrap();
        let ends = [graph.inputs[0].value, graph.outputs[0].value];
        assert_eq!(ends.map(|v| graph.value(v).dtype), [wanted; 2], "{ports:?}");
        let inner = graph.nodes.iter().find(|n| n.name == "softmax").unwrap();
        assert!(!ends.contains(&inner.inputs[0]) && !ends.contains(&inner.outputs[0]));
        assert_eq!(graph.value(inner.outputs[0]).dtype, DType::F16);
    }
}

/// A picture cut into patches, which are copied side by side; and two parts that are joined and given as a result.
fn looked_at() -> Graph {
    let mut graph = Graph::default();
    let shape = |dims: &[u32]| Shape::new(dims).unwrap();
    let copy = |name: &str, graph: &mut Graph, from, dims: &[u32]| {
        let to = graph.add_value(name, DType::F32, shape(dims));
        graph.add_node(name, Op::Primitive(Primitive::Copy), vec![from], vec![to]);
        to
    };
    let x = graph.add_value("x", DType::F32, shape(&[1, 2, 4]));
    let cut = graph.add_value("cut", DType::F32, shape(&[2, 2, 2]));
    graph.add_node("cut", Op::View(ViewOp::Reshape), vec![x], vec![cut]);
    let turned = graph.add_value("turned", DType::F32, shape(&[2, 2, 2]));
    graph.add_node(
        "turned",
        Op::View(ViewOp::Transpose { perm: vec![1, 0, 2] }),
        vec![cut],
        vec![turned],
    );
    let patches = copy("patches", &mut graph, turned, &[2, 2, 2]);
    let softmaxed = graph.add_value("softmax", DType::F32, shape(&[2, 2, 2]));
    graph.add_node("softmax", softmax(), vec![patches], vec![softmaxed]);
    let joined = graph.add_value("joined", DType::F32, shape(&[4, 2, 2]));
    graph.add_node("joined", Op::Concat { axis: 0 }, vec![softmaxed, patches], vec![joined]);
    graph.inputs.push(port("x", x));
    graph.outputs.push(port("joined", joined));
    graph
}

#[test]
fn half_ports_are_read_and_written_without_copies_that_leave_nothing_free() {
    let names = |graph: &Graph| graph.nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>();
    let declared = convert(attach::tensors(looked_at()), Ports::Declared).graph;
    assert_eq!(
        names(&declared),
        ["x.f16", "cut", "turned", "patches", "softmax", "joined", "joined.f32"]
    );
    let half = convert(attach::tensors(looked_at()), Ports::Half).graph;
    verify(&half).unwrap();
    assert_eq!(names(&half), ["cut", "turned", "patches", "softmax", "joined"]);
    assert_eq!(half.value(half.inputs[0].value).dtype, DType::F16);
    // What a function reads may be wanted in another layout; and what is a result twice lies in two places.
    let mut used = looked_at();
    used.nodes[2].op = Op::Primitive(Primitive::Unary(Unary::Relu));
    assert!(names(&convert(attach::tensors(used), Ports::Half).graph).contains(&"x.f16".to_string()));
    let mut twice = looked_at();
    let again = Named {
        name: "again".into(),
        ..twice.outputs[0].clone()
    };
    twice.outputs.push(again);
    let twice = convert(attach::tensors(twice), Ports::Half).graph;
    verify(&twice).unwrap();
    assert_eq!(names(&twice).iter().filter(|n| n.ends_with(".f32")).count(), 2);
}

/// Two parts, each of a function or of a softmax, put together as the result.
fn parts_of(functions: [bool; 2]) -> Graph {
    let mut graph = Graph::default();
    let dims = shape(&[1, 4, 8]);
    let x = graph.add_value("x", DType::F32, dims);
    let weighed = graph.add_value("weighed", DType::F32, dims);
    graph.add_node("weighed", softmax(), vec![x], vec![weighed]);
    let mut inputs = Vec::new();
    for (part, function) in functions.into_iter().enumerate() {
        let made = graph.add_value(format!("made{part}"), DType::F32, dims);
        let op = match function {
            true => Op::Primitive(Primitive::Unary(Unary::Sigmoid)),
            false => softmax(),
        };
        graph.add_node(format!("made{part}"), op, vec![weighed], vec![made]);
        inputs.push(made);
    }
    let joined = graph.add_value("joined", DType::F32, shape(&[1, 8, 8]));
    graph.add_node("joined", Op::Concat { axis: 1 }, inputs, vec![joined]);
    graph.inputs.push(port("x", x));
    graph.outputs.push(port("joined", joined));
    graph
}

#[test]
fn results_of_functions_are_widened_part_by_part() {
    let names = |functions| {
        let graph = convert(attach::tensors(parts_of(functions)), Ports::Declared).graph;
        verify(&graph).unwrap();
        graph.nodes.iter().map(|n| n.name.clone()).collect::<Vec<_>>()
    };
    let ends = |functions, with: &[&str]| names(functions).ends_with(&with.iter().map(|n| n.to_string()).collect::<Vec<_>>());
    for functions in [[true, true], [true, false], [false, true]] {
        let parts = ["made1", "joined.f32.part0", "joined.f32.part1", "joined.f32"];
        assert!(ends(functions, &parts), "{functions:?}");
    }
    assert!(ends([false, false], &["made1", "joined", "joined.f32"]));
}

/// Boxes, put together of two functions' halves, and scores of two maps, each a function of what a product makes: a detector's result.
#[test]
fn boxes_are_widened_by_their_parts_and_scores_whole() {
    let mut graph = Graph::default();
    let wide = |graph: &mut Graph, name: &str, op: Op, inputs: &[ValueId], dims: &[u32]| add(graph, name, op, inputs, DType::F32, dims);
    let x = graph.add_value("x", DType::F32, shape(&[1, 8, 8]));
    let weights = Tensor::new(shape(&[1, 8, 8]), Data::F32((0..64).map(|i| i as f32 / 8.0).collect())).unwrap();
    let weights = graph.add_constant("weights", Arc::new(weights));
    let weighed = wide(&mut graph, "weighed", softmax(), &[x], &[1, 8, 8]);
    let sigmoid = || Op::Primitive(Primitive::Unary(Unary::Sigmoid));
    let boxes = ["centres", "sizes"].map(|name| wide(&mut graph, name, sigmoid(), &[weighed], &[1, 8, 8]));
    let boxes = wide(&mut graph, "boxes", Op::Concat { axis: 1 }, &boxes, &[1, 16, 8]);
    let scores = ["near", "far"].map(|name| {
        let made = wide(
            &mut graph,
            &format!("{name}.made"),
            Op::Primitive(Primitive::MatMul),
            &[weighed, weights],
            &[1, 8, 8],
        );
        wide(&mut graph, name, sigmoid(), &[made], &[1, 8, 8])
    });
    let scores = wide(&mut graph, "scores", Op::Concat { axis: 1 }, &scores, &[1, 16, 8]);
    let all = wide(&mut graph, "all", Op::Concat { axis: 1 }, &[boxes, scores], &[1, 32, 8]);
    graph.inputs.push(port("x", x));
    graph.outputs.push(port("all", all));
    let graph = convert(attach::tensors(graph), Ports::Declared).graph;
    verify(&graph).unwrap();
    let copies = graph.nodes.iter().filter(|n| n.op == Op::Primitive(Primitive::Copy));
    let widened: Vec<&str> = copies.map(|n| n.name.as_str()).filter(|name| name.starts_with("all")).collect();
    assert_eq!(widened, ["all.f32.part0.part0", "all.f32.part0.part1", "all.f32.part1"]);
}

fn shape(dims: &[u32]) -> Shape {
    Shape::new(dims).unwrap()
}

fn floats(graph: &mut Graph, name: &str, numbers: &[f32]) -> ValueId {
    let tensor = Tensor::new(shape(&[numbers.len() as u32]), Data::F32(numbers.to_vec())).unwrap();
    graph.add_constant(name, Arc::new(tensor))
}

/// Adds a node of one result, which is called as the node is.
fn add(graph: &mut Graph, name: &str, op: Op, inputs: &[ValueId], dtype: DType, dims: &[u32]) -> ValueId {
    let value = graph.add_value(name, dtype, shape(dims));
    graph.add_node(name, op, inputs.to_vec(), vec![value]);
    value
}

fn binary(kind: Binary) -> Op {
    Op::Primitive(Primitive::Binary(kind))
}

const COPY: Op = Op::Primitive(Primitive::Copy);

fn made<'g>(graph: &'g Graph, name: &str) -> &'g Node {
    graph.nodes.iter().find(|n| n.name == name).unwrap()
}

/// The type of what the node of a name makes.
fn dtype(graph: &Graph, name: &str) -> DType {
    graph.value(made(graph, name).outputs[0]).dtype
}

fn elements(graph: &Graph, value: ValueId) -> Vec<f64> {
    let data = graph.value(value).data.as_deref().unwrap();
    (0..data.len()).filter_map(|i| data.get_f64(i)).collect()
}

fn softmax() -> Op {
    Op::Primitive(Primitive::Softmax { axis: 0 })
}

#[test]
fn finite_constants_stay_finite_and_infinities_stay() {
    let mut graph = Graph::default();
    let x = graph.add_value("x", DType::F32, shape(&[4]));
    graph.inputs.push(port("x", x));
    let far = floats(&mut graph, "far", &[-f32::MAX, 1e9, f32::INFINITY, f32::NEG_INFINITY]);
    let clip = Op::Primitive(Primitive::Unary(Unary::Clip(Scalar(-f32::MAX), Scalar(f32::INFINITY))));
    let bound = add(&mut graph, "clip", clip, &[x], DType::F32, &[4]);
    let sum = add(&mut graph, "sum", binary(Binary::Add), &[bound, far], DType::F32, &[4]);
    let y = add(&mut graph, "softmax", softmax(), &[sum], DType::F32, &[4]);
    graph.outputs.push(port("y", y));
    let graph = convert(attach::tensors(graph), Ports::Declared).graph;
    verify(&graph).unwrap();
    assert_eq!(elements(&graph, far), [-65504.0, 65504.0, f64::INFINITY, f64::NEG_INFINITY]);
    let clip = Op::Primitive(Primitive::Unary(Unary::Clip(Scalar(-65504.0), Scalar(f32::INFINITY))));
    assert_eq!(made(&graph, "clip").op, clip);
}

/// `softmax(x) > constant` or `softmax(x) < constant`, as comparisons are imported: the sign of a difference.
fn compared(greater: bool, constant: f32) -> (Graph, ValueId) {
    let mut graph = Graph::default();
    let x = graph.add_value("x", DType::F32, shape(&[2]));
    graph.inputs.push(port("x", x));
    let x = add(&mut graph, "softmax", softmax(), &[x], DType::F32, &[2]);
    let c = floats(&mut graph, "c", &[constant]);
    let view = |graph: &mut Graph, name| add(graph, name, Op::View(ViewOp::Broadcast), &[c], DType::F32, &[2]);
    let (first, second) = (view(&mut graph, "first"), view(&mut graph, "second"));
    let difference = if greater {
        let larger = add(&mut graph, "bound", binary(Binary::Max), &[x, first], DType::F32, &[2]);
        add(&mut graph, "difference", binary(Binary::Sub), &[second, larger], DType::F32, &[2])
    } else {
        let smaller = add(&mut graph, "bound", binary(Binary::Min), &[first, x], DType::F32, &[2]);
        add(&mut graph, "difference", binary(Binary::Sub), &[smaller, second], DType::F32, &[2])
    };
    // Another reader takes the nearest number.
    let third = view(&mut graph, "third");
    let y = add(&mut graph, "other", binary(Binary::Add), &[difference, third], DType::F32, &[2]);
    graph.outputs.push(port("y", y));
    (graph, c)
}

#[test]
fn comparisons_with_constants_are_as_true_of_halves_as_they_were() {
    let neighbours = [0.99951171875, 1.0];
    let cases = [
        (true, 0.9999, neighbours[0]),
        (false, 0.9999, neighbours[1]),
        (true, 0.9996, neighbours[0]),
        (false, 0.9996, neighbours[1]),
        (true, -0.9999, -1.0),
        (false, -0.9999, -neighbours[0]),
        (true, 1e-8, 0.0),
        (false, -1e-8, 0.0),
        (true, 1e9, 65504.0),
        (false, -1e9, -65504.0),
        (true, -1e9, -65504.0),
        (true, 0.5, 0.5),
    ];
    for (greater, constant, wanted) in cases {
        let (graph, c) = compared(greater, constant);
        let graph = convert(attach::tensors(graph), Ports::Declared).graph;
        verify(&graph).unwrap();
        let root = |name: &str, input: usize| {
            let look = made(&graph, name).inputs[input];
            let view = graph.nodes.iter().find(|n| n.outputs.contains(&look)).unwrap();
            assert!(matches!(view.op, Op::View(ViewOp::Broadcast)));
            elements(&graph, view.inputs[0])
        };
        let read = if greater {
            [root("bound", 1), root("difference", 0)]
        } else {
            [root("bound", 0), root("difference", 1)]
        };
        assert_eq!(read, [[wanted], [wanted]], "{greater} {constant}");
        let nearest = numbers::held(constant);
        assert_eq!(root("other", 1), [f16::from_f32(nearest).to_f64()], "{constant}");
        assert_eq!(elements(&graph, c), root("other", 1));
    }
}

/// Integers of the kind `count` makes of the input become floats, are divided, and meet the network's own values.
fn counted(most: u32) -> Graph {
    let mut graph = Graph::default();
    let x = graph.add_value("x", DType::F32, shape(&[1, most]));
    graph.inputs.push(port("x", x));
    let place = add(
        &mut graph,
        "place",
        Op::Primitive(Primitive::ArgMax { axis: 1 }),
        &[x],
        DType::I32,
        &[1, 1],
    );
    let float = add(&mut graph, "float", COPY, &[place], DType::F32, &[1, 1]);
    let width = graph.add_constant("width", Arc::new(Tensor::new(shape(&[1, 1]), Data::F32(vec![152.0])).unwrap()));
    let row = add(&mut graph, "row", binary(Binary::Div), &[float, width], DType::F32, &[1, 1]);
    let weight = add(
        &mut graph,
        "weight",
        Op::Primitive(Primitive::Softmax { axis: 1 }),
        &[x],
        DType::F32,
        &[1, most],
    );
    let repeated = add(&mut graph, "repeated", Op::View(ViewOp::Broadcast), &[row], DType::F32, &[1, most]);
    let moved = add(
        &mut graph,
        "moved",
        binary(Binary::Add),
        &[weight, repeated],
        DType::F32,
        &[1, most],
    );
    let softmax = add(
        &mut graph,
        "y",
        Op::Primitive(Primitive::Softmax { axis: 1 }),
        &[moved],
        DType::F32,
        &[1, most],
    );
    graph.outputs.push(port("y", softmax));
    graph
}

#[test]
fn integers_that_f16_does_not_hold_stay_single_until_they_meet_the_network() {
    for ports in [Ports::Declared, Ports::Half] {
        let graph = convert(attach::tensors(counted(2050)), ports).graph;
        verify(&graph).unwrap();
        let types = ["float", "row", "repeated", "moved"].map(|name| dtype(&graph, name));
        assert_eq!(types, [DType::F32, DType::F32, DType::F16, DType::F16]);
        // What leaves is bound first, and copied before it is repeated.
        let bound = made(&graph, "row.bound");
        assert!(matches!(
            bound.op,
            Op::Primitive(Primitive::Unary(Unary::Clip(Scalar(-65504.0), Scalar(65504.0))))
        ));
        assert_eq!(made(&graph, "repeated").inputs, made(&graph, "row.f16").outputs);
        // Up to 2048 nothing is lost.
        let small = convert(attach::tensors(counted(2049)), ports).graph;
        assert!(["float", "row", "moved"].iter().all(|name| dtype(&small, name) == DType::F16));
        assert!(small.nodes.iter().all(|n| n.name != "row.f16"));
    }
}

/// Points of an input by a matrix, what the network adds, and the picture sampled there.
fn projected() -> Graph {
    let mut graph = Graph::default();
    let inputs = [("points", &[1, 16, 4][..]), ("picture", &[1, 2, 8, 8])];
    let [points, picture] = inputs.map(|(name, dims)| {
        let value = graph.add_value(name, DType::F32, shape(dims));
        graph.inputs.push(port(name, value));
        value
    });
    let camera = Tensor::new(shape(&[1, 4, 2]), Data::F32(vec![1266.0; 8])).unwrap();
    let camera = graph.add_constant("camera", Arc::new(camera));
    let places = add(
        &mut graph,
        "places",
        Op::Primitive(Primitive::MatMul),
        &[points, camera],
        DType::F32,
        &[1, 16, 2],
    );
    let features = add(
        &mut graph,
        "features",
        Op::Primitive(Primitive::Softmax { axis: 3 }),
        &[picture],
        DType::F32,
        &[1, 2, 8, 8],
    );
    let band = ViewOp::Slice {
        start: vec![0, 0, 0, 0],
        step: vec![1; 4],
    };
    let part = add(&mut graph, "part", Op::View(band), &[features], DType::F32, &[1, 2, 4, 4]);
    let moves = add(&mut graph, "moves", Op::View(ViewOp::Reshape), &[part], DType::F32, &[1, 16, 2]);
    let moved = add(&mut graph, "moved", binary(Binary::Add), &[places, moves], DType::F32, &[1, 16, 2]);
    let grid = add(&mut graph, "grid", Op::View(ViewOp::Reshape), &[moved], DType::F32, &[1, 4, 4, 2]);
    let sample = Primitive::Sample(Sample {
        sampling: Sampling::Linear,
        outside: Outside::Zero,
        places: Places::Grid { align_corners: false },
    });
    let sampled = add(
        &mut graph,
        "sampled",
        Op::Primitive(sample),
        &[features, grid],
        DType::F32,
        &[1, 2, 4, 4],
    );
    graph.outputs.push(port("y", sampled));
    graph
}

#[test]
fn grids_stay_single_with_what_they_are_computed_from() {
    let graph = convert(attach::tensors(projected()), Ports::Declared).graph;
    verify(&graph).unwrap();
    let types = ["places", "moved", "grid"].map(|name| dtype(&graph, name));
    assert_eq!(types, [DType::F32; 3]);
    assert_eq!(made(&graph, "places").inputs[0], graph.inputs[0].value, "read as it is");
    // The network's own values are halves, of which no more becomes single than is read.
    let types = ["features", "part", "moves", "sampled"].map(|name| dtype(&graph, name));
    assert_eq!(types, [DType::F16; 4]);
    assert_eq!(made(&graph, "moved").inputs[1], made(&graph, "moves.f32").outputs[0]);
    assert_eq!(made(&graph, "moves.f32").inputs, made(&graph, "moves").outputs);
}

#[test]
fn constants_are_single_where_single_numbers_meet_them_and_halves_elsewhere() {
    let mut graph = Graph::default();
    let x = graph.add_value("x", DType::F32, shape(&[2]));
    graph.inputs.push(port("x", x));
    let c = floats(&mut graph, "c", &[1e6, 0.1]);
    let whole = add(&mut graph, "scaled", binary(Binary::Mul), &[x, c], DType::F32, &[2]);
    let whole = add(&mut graph, "whole", COPY, &[whole], DType::I32, &[2]);
    let weight = add(&mut graph, "weight", softmax(), &[x], DType::F32, &[2]);
    let sum = add(&mut graph, "sum", binary(Binary::Add), &[weight, c], DType::F32, &[2]);
    graph.outputs.extend([port("whole", whole), port("sum", sum)]);
    let graph = convert(attach::tensors(graph), Ports::Declared).graph;
    verify(&graph).unwrap();
    assert_eq!(["scaled", "sum"].map(|name| dtype(&graph, name)), [DType::F32, DType::F16]);
    assert_eq!(made(&graph, "scaled").inputs, [x, c]);
    assert_eq!(graph.value(c).data.as_deref().unwrap().as_f32(), Some(&[1e6, 0.1][..]));
    let rounded = elements(&graph, made(&graph, "sum").inputs[1]);
    assert_eq!(rounded, [65504.0, f16::from_f32(0.1).to_f64()]);
    assert_eq!(made(&graph, "weight").inputs, made(&graph, "x.f16").outputs);
}

#[test]
fn what_formulas_mark_stays_single_with_the_functions_it_is_computed_by() {
    let shape = Shape::new(&[8, 8]).unwrap();
    let mut graph = Graph::default();
    let names = ["x", "product", "angle", "turns", "wave", "y"];
    let [x, product, angle, turns, wave, y] = names.map(|name| graph.add_value(name, DType::F32, shape));
    let data = Tensor::new(
        Shape::new(&[8]).unwrap(),
        Data::F32((0..8).map(|i| 1000.0 + i as f32 / 8.0).collect()),
    )
    .unwrap();
    let factor = graph.add_constant("factor", Arc::new(data));
    let wide = graph.add_value("wide", DType::F32, shape);
    graph.values[turns.index()].single = true;
    let unary = |function| Op::Primitive(Primitive::Unary(function));
    graph.add_node("product", Op::Primitive(Primitive::MatMul), vec![x, x], vec![product]);
    graph.add_node("wide", Op::View(ViewOp::Broadcast), vec![factor], vec![wide]);
    graph.add_node(
        "angle",
        Op::Primitive(Primitive::Binary(Binary::Mul)),
        vec![product, wide],
        vec![angle],
    );
    graph.add_node("turns", unary(Unary::Round), vec![angle], vec![turns]);
    graph.add_node("wave", unary(Unary::Abs), vec![turns], vec![wave]);
    graph.add_node("y", Op::Primitive(Primitive::MatMul), vec![wave, x], vec![y]);
    graph.inputs.push(port("x", x));
    graph.outputs.push(port("y", y));
    for ports in [Ports::Declared, Ports::Half] {
        let graph = convert(attach::tensors(graph.clone()), ports).graph;
        verify(&graph).unwrap();
        let dtype = |name: &str| graph.values.iter().find(|v| v.name == name).unwrap().dtype;
        let types = ["product", "factor", "angle", "turns", "wave", "y"].map(dtype);
        let [single, half] = [DType::F32, DType::F16];
        assert_eq!(types, [half, single, single, single, half, half], "{ports:?}");
    }
}

#[test]
fn casts_inside_a_network_that_was_exported_in_halves_go() {
    let mut graph = Graph::default();
    let shape = Shape::new(&[2, 3]).unwrap();
    let types = [DType::F16, DType::F16, DType::F32, DType::F32, DType::F16, DType::F16, DType::F32];
    let values = types.map(|dtype| graph.add_value("value", dtype, shape));
    let copy = || Op::Primitive(Primitive::Copy);
    // The softmax is wanted in f32, and so is the result.
    let steps = [softmax(), copy(), softmax(), copy(), softmax(), copy()];
    for (step, ends) in steps.into_iter().zip(values.windows(2)) {
        graph.add_node("step", step, vec![ends[0]], vec![ends[1]]);
    }
    graph.inputs.push(port("x", values[0]));
    graph.outputs.push(port("y", values[6]));
    let graph = convert(attach::tensors(graph), Ports::Declared).graph;
    verify(&graph).unwrap();
    let steps: Vec<Op> = graph.nodes.iter().map(|n| n.op.clone()).collect();
    assert_eq!(steps, [softmax(), softmax(), softmax(), copy()]);
    let ports = [&graph.inputs[0], &graph.outputs[0]].map(|n| graph.value(n.value).dtype);
    assert_eq!(ports, [DType::F16, DType::F32]);
}
