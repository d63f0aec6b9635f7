//! Values of seven and eight axes on their way between two reshapes. Inputs are constants, so that folding gives elements.

use super::*;
use crate::planner::strided;

/// The elements of the only result.
fn elements(model: &ModelProto) -> Vec<f64> {
    let graph = imported(model);
    let producers = strided::producers(&graph);
    let (tensor, layout) = strided::constant(&graph, &producers, graph.outputs[0].value).expect("everything folds");
    let dense = strided::gather(&tensor, &layout).unwrap();
    (0..dense.len()).map(|i| dense.get_f64(i).unwrap()).collect()
}

/// The places in C order of every index of `dims`, whose axes stand in the order `perm`, in a tensor of extents `dims`.
fn places(dims: &[usize], perm: &[usize]) -> Vec<usize> {
    let strides: Vec<usize> = (0..dims.len()).map(|a| dims[a + 1..].iter().product()).collect();
    let all: usize = dims.iter().product();
    (0..all)
        .map(|mut at| {
            let mut place = 0;
            for &axis in perm.iter().rev() {
                place += at % dims[axis] * strides[axis];
                at /= dims[axis];
            }
            place
        })
        .collect()
}

fn longs_of(name: &str, dims: &[usize]) -> TensorProto {
    longs(name, &dims.iter().map(|&d| d as i64).collect::<Vec<_>>())
}

/// `nodes` from the constant `c` (0, 1, 2 ..) to the result `y`.
fn chain(opset: i64, count: usize, nodes: Vec<NodeProto>, mut initializer: Vec<TensorProto>) -> ModelProto {
    initializer.push(floats("c", &[count as i64]));
    model(opset, &[1], nodes, initializer)
}

#[test]
fn windows_of_eight_axes_are_ordered_over_fewer() {
    for (dims, perm) in [
        (vec![1, 2, 2, 2, 4, 2, 4, 2], vec![0, 1, 3, 5, 2, 4, 6, 7]),
        (vec![2, 1, 3, 1, 2, 2, 1], vec![6, 4, 0, 1, 5, 3, 2]),
        (vec![1, 2, 3, 1, 2, 1, 2], vec![0, 1, 4, 5, 2, 3, 6]),
    ] {
        let count: usize = dims.iter().product();
        let order: Vec<i64> = perm.iter().map(|&a| a as i64).collect();
        let model = chain(
            13,
            count,
            vec![
                node("Reshape", &["c", "deep"], &["a"], vec![]),
                node("Transpose", &["a"], &["b"], vec![ints("perm", &order)]),
                node("Relu", &["b"], &["r"], vec![]),
                node("Reshape", &["r", "flat"], &["y"], vec![]),
            ],
            vec![longs_of("deep", &dims), longs("flat", &[-1])],
        );
        let expected: Vec<f64> = places(&dims, &perm).into_iter().map(|p| p as f64).collect();
        assert_eq!(elements(&model), expected, "{dims:?} {perm:?}");
    }
}

#[test]
fn axes_that_do_not_merge_are_refused_with_what_to_do() {
    let dims = [2, 2, 2, 2, 2, 2, 2];
    let model = chain(
        13,
        128,
        vec![
            node("Reshape", &["c", "deep"], &["a"], vec![]),
            node("Transpose", &["a"], &["b"], vec![]),
            node("Reshape", &["b", "flat"], &["y"], vec![]),
        ],
        vec![longs_of("deep", &dims), longs("flat", &[-1])],
    );
    assert!(refused(&model).contains("rank 7"), "{}", refused(&model));
    let open = chain(
        13,
        128,
        vec![node("Reshape", &["c", "deep"], &["y"], vec![])],
        vec![longs_of("deep", &dims)],
    );
    assert!(refused(&open).contains("--output"), "{}", refused(&open));
}

#[test]
fn neighbours_are_weighed_and_summed_over_seven_axes() {
    // A mask of 3 neighbours for blocks of 2 by 2 over pictures of 2 by 2, as flow is upsampled: the sum over the third axis.
    let dims = [1, 2, 3, 2, 2, 2, 2];
    for (opset, axes_input) in [(11, false), (13, true)] {
        let sum = match axes_input {
            true => node("ReduceSum", &["m", "two"], &["s"], vec![int("keepdims", 0)]),
            false => node("ReduceSum", &["m"], &["s"], vec![ints("axes", &[2]), int("keepdims", 0)]),
        };
        let model = chain(
            opset,
            96,
            vec![
                node("Reshape", &["c", "deep"], &["a"], vec![]),
                node("Reshape", &["w", "narrow"], &["v"], vec![]),
                node("Mul", &["a", "v"], &["m"], vec![]),
                sum,
                node("Reshape", &["s", "flat"], &["y"], vec![]),
            ],
            vec![
                longs_of("deep", &dims),
                floats("w", &[6]),
                longs("narrow", &[1, 1, 3, 1, 1, 2, 1]),
                longs("two", &[2]),
                longs("flat", &[-1]),
            ],
        );
        let mut expected = Vec::new();
        for outer in 0..2 {
            for inner in 0..16 {
                let row = inner / 2 % 2;
                expected.push(
                    (0..3)
                        .map(|k| ((outer * 3 + k) * 16 + inner) as f64 * (k * 2 + row) as f64)
                        .sum::<f64>(),
                );
            }
        }
        assert_eq!(elements(&model), expected, "operator set {opset}");
    }
}

#[test]
fn matrices_of_many_cameras_meet_points_of_rays() {
    // [1, 2, 1, 1, 1, 2, 3] by [1, 2, 2, 1, 2, 3, 1].
    let model = chain(
        13,
        24,
        vec![
            node("Reshape", &["c", "points"], &["p"], vec![]),
            node("Reshape", &["k", "matrices"], &["m"], vec![]),
            node("MatMul", &["m", "p"], &["r"], vec![]),
            node("Squeeze", &["r", "last"], &["q"], vec![]),
            node("Reshape", &["q", "flat"], &["y"], vec![]),
        ],
        vec![
            longs("points", &[1, 2, 2, 1, 2, 3, 1]),
            floats("k", &[12]),
            longs("matrices", &[1, 2, 1, 1, 1, 2, 3]),
            longs("last", &[-1]),
            longs("flat", &[-1]),
        ],
    );
    // Products are not folded: the cameras are an axis, and the points of a camera are one.
    let graph = imported(&model);
    let product = graph
        .nodes
        .iter()
        .find(|n| matches!(n.op, Op::Primitive(Primitive::MatMul)))
        .unwrap();
    let dims = |value| graph.value(value).shape.dims().to_vec();
    let read: Vec<Vec<u32>> = product.inputs.iter().map(|&v| dims(v)).collect();
    assert_eq!(dims(product.outputs[0]), [2, 4, 2, 1]);
    let sources: Vec<Vec<u32>> = graph
        .nodes
        .iter()
        .filter(|n| matches!(n.op, Op::View(ViewOp::Broadcast)))
        .map(|n| dims(n.inputs[0]))
        .collect();
    assert!(
        read.iter().all(|d| d.len() == 4) && (sources.is_empty() || sources == [[2, 1, 2, 3]]),
        "{read:?} {sources:?}"
    );
    assert_eq!(output_dims(&graph), [16]);
}

#[test]
fn parts_are_cut_joined_picked_and_measured() {
    let dims = [1, 2, 1, 3, 1, 2, 2];
    let deep = |nodes: Vec<NodeProto>, more: Vec<TensorProto>| {
        let mut all = vec![node("Reshape", &["c", "deep"], &["a"], vec![])];
        all.extend(nodes);
        all.push(node("Reshape", &["z", "flat"], &["y"], vec![]));
        let mut constants = vec![longs_of("deep", &dims), longs("flat", &[-1])];
        constants.extend(more);
        elements(&chain(13, 24, all, constants))
    };
    let at = |keep: &dyn Fn(usize, usize, usize) -> bool| -> Vec<f64> {
        (0..24).filter(|i| keep(i / 12, i / 4 % 3, i % 4)).map(|i| i as f64).collect()
    };
    // Slices backwards and forwards.
    let lists = || {
        vec![
            longs("starts", &[-1, 1]),
            longs("ends", &[i64::MIN, i64::MAX]),
            longs("axes", &[3, -1]),
            longs("steps", &[-2, 1]),
        ]
    };
    let sliced = deep(
        vec![node("Slice", &["a", "starts", "ends", "axes", "steps"], &["z"], vec![])],
        lists(),
    );
    let mut expected = Vec::new();
    for outer in 0..2 {
        for middle in [2, 0] {
            expected.extend([1, 3].map(|inner| f64::from(outer * 12 + middle * 4 + inner)));
        }
    }
    assert_eq!(sliced, expected);
    // Split, and joined the other way round.
    let nodes = vec![
        node("Split", &["a", "parts"], &["p", "q"], vec![int("axis", 3)]),
        node("Concat", &["q", "p"], &["z"], vec![int("axis", 3)]),
    ];
    let mut expected = Vec::new();
    for outer in 0..2 {
        expected.extend(
            [1, 2, 0]
                .iter()
                .flat_map(|m| (0..4).map(move |i| f64::from(outer * 12 + m * 4 + i))),
        );
    }
    assert_eq!(deep(nodes, vec![longs("parts", &[1, 2])]), expected);
    // One position of an axis.
    let nodes = vec![node("Gather", &["a", "one"], &["z"], vec![int("axis", 3)])];
    assert_eq!(deep(nodes, vec![longs("one", &[1])]), at(&|_, middle, _| middle == 1));
    // Repeated.
    let nodes = vec![
        node("Expand", &["a", "wide"], &["e"], vec![]),
        node("Slice", &["e", "from", "to", "of"], &["z"], vec![]),
    ];
    let more = vec![
        longs("wide", &[1, 2, 2, 3, 1, 2, 2]),
        longs("from", &[1]),
        longs("to", &[2]),
        longs("of", &[2]),
    ];
    assert_eq!(deep(nodes, more), at(&|_, _, _| true));
    // Its extents are known.
    let nodes = vec![
        node("Shape", &["a"], &["s"], vec![]),
        node("Cast", &["s"], &["z"], vec![int("to", 1)]),
    ];
    assert_eq!(deep(nodes, vec![]), dims.map(|d| d as f64));
}

#[test]
fn rows_are_normalised_over_seven_axes() {
    let dims = [1, 2, 1, 2, 1, 2, 2];
    let softmax = chain(
        13,
        16,
        vec![
            node("Reshape", &["c", "deep"], &["a"], vec![]),
            node("Softmax", &["a"], &["b"], vec![int("axis", 3)]),
            node("Reshape", &["b", "flat"], &["y"], vec![]),
        ],
        vec![longs_of("deep", &dims), longs("flat", &[-1])],
    );
    // Partners lie 4 apart.
    let low = 1.0 / (1.0 + 4f64.exp());
    for (i, found) in elements(&softmax).into_iter().enumerate() {
        let expected = if i / 4 % 2 == 0 { low } else { 1.0 - low };
        assert!((found - expected).abs() < 1e-6, "{i}: {found}");
    }
}

#[test]
fn a_reduction_along_no_axis_still_squares() {
    let dims = [1, 2, 1, 2, 1, 1, 1];
    let squares = chain(
        18,
        4,
        vec![
            node("Reshape", &["c", "deep"], &["a"], vec![]),
            node("ReduceSumSquare", &["a"], &["b"], vec![int("noop_with_empty_axes", 1)]),
            node("Reshape", &["b", "flat"], &["y"], vec![]),
        ],
        vec![longs_of("deep", &dims), longs("flat", &[-1])],
    );
    assert_eq!(elements(&squares), [0.0, 1.0, 4.0, 9.0]);
}

/// Of the numbers 0, 1, 2 .. under extents `dims` those that repeating the whole `times` along each axis gives, in order.
fn tiled(dims: &[usize], times: &[usize]) -> Vec<f64> {
    let wide: Vec<usize> = dims.iter().zip(times).map(|(d, n)| d * n).collect();
    let source = |mut at: usize| {
        let (mut place, mut stride) = (0, 1);
        for (d, w) in dims.iter().zip(&wide).rev() {
            place += at % w % d * stride;
            (at, stride) = (at / w, stride * d);
        }
        place as f64
    };
    (0..wide.iter().product()).map(source).collect()
}

#[test]
fn values_of_seven_axes_are_tiled() {
    for (dims, times) in [
        // Points of a grid for each of six cameras, and the cameras' matrices for each point.
        (vec![1, 1, 2, 3, 2, 4, 1], vec![1, 6, 1, 1, 1, 1, 1]),
        (vec![1, 3, 1, 1, 1, 2, 2], vec![1, 1, 2, 2, 3, 1, 1]),
        (vec![1, 2, 1, 2, 1, 1, 3], vec![2, 1, 3, 2, 1, 1, 2]),
        (vec![2, 1, 1, 1, 1, 1, 1, 2], vec![1; 8]),
    ] {
        let model = chain(
            13,
            dims.iter().product(),
            vec![
                node("Reshape", &["c", "deep"], &["a"], vec![]),
                node("Tile", &["a", "times"], &["b"], vec![]),
                node("Reshape", &["b", "flat"], &["y"], vec![]),
            ],
            vec![longs_of("deep", &dims), longs_of("times", &times), longs("flat", &[-1])],
        );
        assert_eq!(elements(&model), tiled(&dims, &times), "{dims:?} {times:?}");
    }
    let tile = |times: &[i64]| {
        let nodes = vec![
            node("Reshape", &["c", "deep"], &["a"], vec![]),
            node("Tile", &["a", "times"], &["b"], vec![]),
            node("Reshape", &["b", "flat"], &["y"], vec![]),
        ];
        let constants = vec![
            longs_of("deep", &[1, 1, 2, 1, 1, 1, 1]),
            longs("times", times),
            longs("flat", &[-1]),
        ];
        refused(&chain(13, 2, nodes, constants))
    };
    for times in [
        &[1, 1][..],
        &[1, -1, 1, 1, 1, 1, 1],
        &[1, 1, -1, 1, 1, 1, 1],
        &[1 << 40, 1 << 40, 1, 1, 1, 1, 1],
    ] {
        assert!(tile(times).contains("repeats"), "{}", tile(times));
    }
}

#[test]
fn constants_of_seven_and_eight_axes_are_read() {
    let deep = floats("k", &[1, 2, 1, 3, 1, 1, 2]);
    let value = AttributeProto {
        name: "value".into(),
        r#type: attribute_type::TENSOR,
        t: Some(deep.clone()),
        ..Default::default()
    };
    let of = |first: Vec<NodeProto>, constants: Vec<TensorProto>| {
        let mut nodes = first;
        nodes.extend([
            node("Transpose", &["k"], &["t"], vec![ints("perm", &[3, 0, 2, 1, 4, 5, 6])]),
            node("Reshape", &["t", "flat"], &["y"], vec![]),
        ]);
        let mut all = vec![longs("flat", &[-1])];
        all.extend(constants);
        chain(13, 1, nodes, all)
    };
    let expected = [0.0, 1.0, 6.0, 7.0, 2.0, 3.0, 8.0, 9.0, 4.0, 5.0, 10.0, 11.0];
    assert_eq!(elements(&of(vec![], vec![deep.clone()])), expected);
    assert_eq!(elements(&of(vec![node("Constant", &[], &["k"], vec![value])], vec![])), expected);

    let filled = chain(
        13,
        1,
        vec![
            node("ConstantOfShape", &["extents"], &["a"], vec![]),
            node("Reshape", &["a", "flat"], &["y"], vec![]),
        ],
        vec![longs("extents", &[1, 2, 1, 1, 1, 1, 1, 2]), longs("flat", &[-1])],
    );
    assert_eq!(elements(&filled), [0.0; 4]);

    // What reads them says what it cannot do, and so does a claim that the file does not hold.
    let open = chain(13, 1, vec![node("Identity", &["k"], &["y"], vec![])], vec![deep.clone()]);
    assert!(refused(&open).contains("--output"), "{}", refused(&open));
    for dims in [
        vec![1; 9],
        vec![1 << 40; 7],
        vec![0, 1 << 40, 1 << 40, 1, 1, 1, 1],
        vec![-1, 1, 1, 1, 1, 1, 1],
    ] {
        let claimed = TensorProto { dims, ..deep.clone() };
        assert!(refused(&of(vec![], vec![claimed])).contains("`k`"));
    }
}
