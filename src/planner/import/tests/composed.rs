//! Operators that are written as several primitives: which ones, and what is refused.

use super::*;
use crate::primitive::{PoolKind, ReduceKind};

fn primitives(graph: &Graph) -> Vec<Primitive> {
    let primitive = |n: &crate::planner::graph::Node| match n.op {
        Op::Primitive(primitive) => Some(primitive),
        _ => None,
    };
    graph.nodes.iter().filter_map(primitive).collect()
}

#[test]
fn a_pool_of_a_norm_counts_the_taps_that_ceil_mode_leaves_outside() {
    let pool = |ceil: i64| {
        let attributes = vec![ints("kernel_shape", &[3]), ints("strides", &[2]), int("ceil_mode", ceil)];
        imported(&model(18, &[1, 1, 6], vec![node("LpPool", &["x"], &["y"], attributes)], vec![]))
    };
    let (floor, ceil) = (pool(0), pool(1));
    assert_eq!((output_dims(&floor), output_dims(&ceil)), (vec![1, 1, 2], vec![1, 1, 3]));
    assert_eq!((window(&floor).pad_end[0], window(&ceil).pad_end[0]), (0, 1));
    let pools = primitives(&ceil).into_iter().filter_map(|p| match p {
        Primitive::Pool { kind, .. } => Some(kind),
        _ => None,
    });
    assert_eq!(pools.collect::<Vec<_>>(), [PoolKind::Average { count_pad: true }]);
}

#[test]
fn a_norm_of_whole_channels_is_the_reduction_to_a_norm() {
    let of = |attributes| {
        imported(&model(
            13,
            &[1, 2, 3, 4],
            vec![node("GlobalLpPool", &["x"], &["y"], attributes)],
            vec![],
        ))
    };
    let euclidean = of(vec![]);
    assert_eq!(output_dims(&euclidean), [1, 2, 1, 1]);
    let norm = Primitive::Reduce {
        kind: ReduceKind::Norm,
        axes: 0b1100,
    };
    assert_eq!(primitives(&euclidean), [norm]);
    assert_eq!(output_dims(&of(vec![int("p", 3)])), [1, 2, 1, 1]);
    let wrong = model(
        13,
        &[1, 2, 3],
        vec![node("GlobalLpPool", &["x"], &["y"], vec![int("p", -1)])],
        vec![],
    );
    assert!(refused(&wrong).contains("attribute `p`"));
}

#[test]
fn updates_of_known_places_are_picked_and_reduced() {
    let scatter = |places: &[i64], reduction| {
        let count = places.len() as i64;
        model(
            18,
            &[5],
            vec![node(
                "ScatterElements",
                &["x", "i", "u"],
                &["y"],
                vec![string("reduction", reduction)],
            )],
            vec![longs("i", places), floats("u", &[count])],
        )
    };
    for (reduction, kind) in [("add", ReduceKind::Sum), ("max", ReduceKind::Max)] {
        let graph = imported(&scatter(&[1, 3, 1, -1], reduction));
        let reduced = Primitive::Reduce { kind, axes: 0b10 };
        let gather = Primitive::Gather { axis: 0 };
        assert_eq!(primitives(&graph), [gather, reduced, gather], "{reduction}");
    }
    // Twenty to one place are three groups of eight, with the element that is there, and then one of three.
    let graph = imported(&scatter(&[2; 20], "add"));
    let sums = primitives(&graph).into_iter().filter(|p| matches!(p, Primitive::Reduce { .. }));
    assert_eq!(sums.count(), 2);
    assert!(refused(&scatter(&[5], "add")).contains("5"));
    assert!(refused(&scatter(&[0], "median")).contains("`reduction`"));
}

#[test]
fn updates_without_elements_change_nothing() {
    let scatter = |columns: i64| {
        let nodes = vec![
            node("Slice", &["x", "first", "end", "axis"], &["none"], vec![]),
            node("Reshape", &["places", "column"], &["i"], vec![]),
            node("ScatterND", &["none", "i", "u"], &["same"], vec![]),
            node("Concat", &["same", "x"], &["y"], vec![int("axis", 1)]),
        ];
        let shapes = [
            ("first", [0].as_slice()),
            ("end", &[0]),
            ("axis", &[1]),
            ("places", &[0, 3]),
            ("column", &[2, 1]),
        ];
        let mut constants: Vec<TensorProto> = shapes.iter().map(|(name, values)| longs(name, values)).collect();
        constants.push(floats("u", &[2, columns]));
        model(18, &[5, 4], nodes, constants)
    };
    assert_eq!(output_dims(&imported(&scatter(0))), [5, 4]);
    assert!(refused(&scatter(1)).contains("`updates`"));
}

/// The operators of `x[1:3, 1:] = u`, of five rows of four, by indices that are all there, and as exporters join them.
#[test]
fn assignments_to_slices_pick_no_elements_by_their_places() {
    let operators = |nodes: Vec<NodeProto>, constants: Vec<TensorProto>| {
        let graph = imported(&model(18, &[5, 4], nodes, constants));
        assert_eq!(output_dims(&graph), [5, 4]);
        let gathers = primitives(&graph).len();
        let concats = graph.nodes.iter().filter(|n| matches!(n.op, Op::Concat { .. })).count();
        (gathers, concats)
    };
    let listed = |places: &[i64]| {
        let nodes = vec![
            node("Reshape", &["places", "box"], &["i"], vec![]),
            node("ScatterND", &["x", "i", "u"], &["y"], vec![]),
        ];
        operators(nodes, vec![longs("places", places), longs("box", &[2, 3, 2]), floats("u", &[2, 3])])
    };
    assert_eq!(listed(&[1, 1, 1, 2, 1, 3, 2, 1, 2, 2, 2, 3]), (0, 2));
    assert_eq!(listed(&[-4, -3, -4, -2, -4, -1, -3, -3, -3, -2, -3, -1]), (0, 2), "from the end");
    assert_eq!(listed(&[1, 1, 1, 2, 1, 3, 2, 1, 2, 2, 2, 2]), (1, 1), "no box");
    let beyond = [4, 1, 4, 2, 4, 3, 5, 1, 5, 2, 5, 3];
    let far = [1, i64::MAX, 1, i64::MIN, 1, 0, 2, i64::MAX, 2, 0, 2, 1];
    let passing_the_end = [-1, 1, -1, 2, -1, 3, 0, 1, 0, 2, 0, 3];
    assert_eq!(listed(&passing_the_end), (1, 1), "two ranges of rows");
    for places in [beyond, far] {
        let nodes = vec![
            node("Reshape", &["places", "box"], &["i"], vec![]),
            node("ScatterND", &["x", "i", "u"], &["y"], vec![]),
        ];
        let constants = vec![longs("places", &places), longs("box", &[2, 3, 2]), floats("u", &[2, 3])];
        refused(&model(18, &[5, 4], nodes, constants));
    }
    assert_eq!(listed(&[1, 1, 2, 1, 1, 2, 2, 2, 1, 3, 2, 3]), (1, 1), "in another order");
    // Of more elements than are folded: each axis stays a constant that is repeated.
    let nodes = vec![
        node("Expand", &["rows", "box"], &["down"], vec![]),
        node("Expand", &["columns", "box"], &["across"], vec![]),
        node("Unsqueeze", &["down", "last"], &["a"], vec![]),
        node("Unsqueeze", &["across", "last"], &["b"], vec![]),
        node("Concat", &["a", "b"], &["i"], vec![int("axis", 2)]),
        node("Slice", &["x", "first", "end"], &["u"], vec![]),
        node("ScatterND", &["x", "i", "u"], &["y"], vec![]),
    ];
    let (rows, columns): (Vec<i64>, Vec<i64>) = ((1..2048).collect(), (0..1099).collect());
    let mut down = longs("rows", &rows);
    down.dims = vec![2047, 1];
    let constants = vec![
        down,
        longs("columns", &columns),
        longs("box", &[2047, 1099]),
        longs("last", &[2]),
        longs("first", &[0, 1]),
        longs("end", &[2047, 1100]),
    ];
    let graph = imported(&model(18, &[2048, 1100], nodes, constants));
    assert_eq!((output_dims(&graph), primitives(&graph)), (vec![2048, 1100], vec![]));
}

#[test]
fn a_rotary_embedding_needs_heads_of_an_even_size_and_caches_that_fit() {
    let rotary = |dims: &[i64], cache: &[i64], attributes| {
        let caches = vec![floats("cos", cache), floats("sin", cache), longs("far", &[3, 0, 1])];
        model(
            23,
            dims,
            vec![node("RotaryEmbedding", &["x", "cos", "sin"], &["y"], attributes)],
            caches,
        )
    };
    assert_eq!(output_dims(&imported(&rotary(&[1, 2, 3, 8], &[1, 3, 4], vec![]))), [1, 2, 3, 8]);
    let flat = rotary(&[1, 3, 16], &[1, 3, 4], vec![int("num_heads", 2)]);
    assert_eq!(output_dims(&imported(&flat)), [1, 3, 16]);
    for (dims, cache, attributes, at) in [
        (&[1, 3, 16][..], &[1, 3, 4][..], vec![], "num_heads"),
        (&[1, 3, 16], &[1, 3, 4], vec![int("num_heads", 3)], "num_heads"),
        (&[1, 2, 3, 8], &[1, 3, 4], vec![int("num_heads", 3)], "num_heads"),
        (&[1, 2, 3, 7], &[1, 3, 3], vec![], "rotary_embedding_dim"),
        (
            &[1, 2, 3, 8],
            &[1, 3, 4],
            vec![int("rotary_embedding_dim", 10)],
            "rotary_embedding_dim",
        ),
        (&[1, 2, 3, 8], &[1, 3, 3], vec![], "cos_cache"),
    ] {
        let message = refused(&rotary(dims, cache, attributes));
        assert!(message.contains(&format!("`{at}`")), "{message}");
    }
    // A position behind the caches.
    let mut far = rotary(&[1, 2, 3, 8], &[3, 4], vec![]);
    let graph = far.graph.as_mut().unwrap();
    graph.initializer.push(longs("row", &[1, 3]));
    graph.node.insert(0, node("Reshape", &["far", "row"], &["positions"], vec![]));
    graph.node[1].input.push("positions".into());
    assert!(refused(&far).contains("`position_ids`"));
}

fn equation(text: &str) -> AttributeProto {
    AttributeProto {
        name: "equation".into(),
        r#type: attribute_type::STRING,
        s: bytes::Bytes::from(text.to_owned().into_bytes()),
        ..Default::default()
    }
}

#[test]
fn a_letter_that_an_operand_has_several_times_is_its_diagonal() {
    let of = |text: &str, dims: &[i64]| {
        let nodes = vec![node("Einsum", &["c"], &["y"], vec![equation(text)])];
        let graph = imported(&model(13, &[1], nodes, vec![floats("c", dims)]));
        let data = graph.value(graph.outputs[0].value).data.clone().unwrap();
        (output_dims(&graph), data.as_f32().unwrap().to_vec())
    };
    assert_eq!(of("ii->i", &[3, 3]), (vec![3], vec![0.0, 4.0, 8.0]));
    assert_eq!(of("ii", &[3, 3]), (vec![], vec![12.0]));
    assert_eq!(of("iji->ji", &[2, 3, 2]), (vec![3, 2], vec![0.0, 7.0, 2.0, 9.0, 4.0, 11.0]));
    assert_eq!(of("iii->i", &[2, 2, 2]), (vec![2], vec![0.0, 7.0]));
    assert_eq!(of("...ii->...i", &[2, 2, 2]), (vec![2, 2], vec![0.0, 3.0, 4.0, 7.0]));
    // Of what a frame computes it is a look at it.
    let nodes = vec![node("Einsum", &["x"], &["y"], vec![equation("bii->bi")])];
    let graph = imported(&model(13, &[2, 4, 4], nodes, vec![]));
    assert!(graph.nodes.iter().all(|n| matches!(n.op, Op::View(_))));
    let uneven = vec![node("Einsum", &["x"], &["y"], vec![equation("ii->i")])];
    assert!(refused(&model(13, &[2, 3], uneven, vec![])).contains("axis i is 2 and 3"));
}

#[test]
fn products_over_several_axes_keep_the_last_of_them_apart() {
    // Samples, windows and heads; what lies inside the rows of a joined projection is read where it lies.
    let of = |text: &str| {
        let nodes = vec![node("Einsum", &["x", "x"], &["y"], vec![equation(text)])];
        let model = model(13, &[2, 3, 4, 5, 6], nodes, vec![]);
        let graph = imported(&model);
        let product = graph.nodes.iter().find(|n| n.op == Op::Primitive(Primitive::MatMul)).unwrap();
        (graph.value(product.outputs[0]).shape.dims().to_vec(), output_dims(&graph))
    };
    assert_eq!(of("bghid,bghjd->bghij"), (vec![6, 4, 5, 5], vec![2, 3, 4, 5, 5]));
    assert_eq!(of("bghid,bghid->bgid"), (vec![30, 6, 1, 1], vec![2, 3, 5, 6]));
}
