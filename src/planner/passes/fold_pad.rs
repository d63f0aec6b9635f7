//! Zero padding of spatial axes before a convolution or an averaging window moves into the window, where that is exact.

use super::rewrite::Index;
use crate::planner::graph::{Graph, Op};
use crate::primitive::{PadMode, PoolKind, Primitive, Window};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    for node in 0..graph.nodes.len() {
        let Op::Primitive(consumer) = graph.nodes[node].op else { continue };
        if !matches!(consumer, Primitive::Conv { .. } | Primitive::Pool { .. }) {
            continue;
        }
        let padded = graph.nodes[node].inputs[0];
        let Some((pad, Primitive::Pad { mode, begin })) = index.primitive(graph, padded) else {
            continue;
        };
        // Both zeros are padding: a product with either adds nothing but the sign of a zero.
        if !matches!(mode, PadMode::Constant(zero) if zero.0 == 0.0) {
            continue;
        }
        let before = graph.nodes[pad].inputs[0];
        let (inner, outer) = (graph.values[before.index()].shape, graph.values[padded.index()].shape);
        let out = graph.values[graph.nodes[node].outputs[0].index()].shape;
        if let Some(folded) = folded(consumer, begin, inner, outer, out) {
            let fits = |primitive: &Primitive| {
                let operand = |v: &crate::planner::graph::ValueId| (graph.values[v.index()].dtype, graph.values[v.index()].shape);
                let mut inputs: Vec<_> = graph.nodes[node].inputs.iter().map(operand).collect();
                inputs[0].1 = inner;
                let outputs: Vec<_> = graph.nodes[node].outputs.iter().map(operand).collect();
                primitive.check(&inputs, &outputs).is_ok()
            };
            if fits(&folded) {
                graph.nodes[node].op = Op::Primitive(folded);
                graph.nodes[node].inputs[0] = before;
            }
        }
    }
    super::drop_dead::run(graph);
}

/// The consumer with the padding in its window; `None` where that would not be exact.
fn folded(consumer: Primitive, begin: &[i32], inner: Shape, outer: Shape, out: Shape) -> Option<Primitive> {
    match consumer {
        Primitive::Conv { window, groups } => Some(Primitive::Conv {
            window: widened(window, begin, inner, outer)?,
            groups,
        }),
        Primitive::Pool {
            kind: PoolKind::Average { count_pad },
            window,
        } => {
            // The padding counts as elements, so it may join only pads that count, and no window may reach past them.
            let unpadded = window.pad_begin == [0; 3] && window.pad_end == [0; 3];
            let floor = (0..usize::from(window.axes)).all(|a| window.output(a, outer.dim(a + 2)) == Some(out.dim(a + 2)));
            ((count_pad || unpadded) && floor).then_some(Primitive::Pool {
                kind: PoolKind::Average { count_pad: true },
                window: widened(window, begin, inner, outer)?,
            })
        }
        _ => None,
    }
}

/// The window with the padding from `inner` to `outer` added; `None` if other axes are padded or an axis is cropped.
fn widened(mut window: Window, begin: &[i32], inner: Shape, outer: Shape) -> Option<Window> {
    for (axis, &before) in begin.iter().enumerate().take(inner.rank()) {
        let after = i64::from(outer.dim(axis)) - i64::from(inner.dim(axis)) - i64::from(before);
        let (before, after) = (u32::try_from(before).ok()?, u32::try_from(after).ok()?);
        match axis.checked_sub(2) {
            Some(spatial) => {
                window.pad_begin[spatial] = window.pad_begin[spatial].checked_add(before)?;
                window.pad_end[spatial] = window.pad_end[spatial].checked_add(after)?;
            }
            None if before == 0 && after == 0 => {}
            None => return None,
        }
    }
    Some(window)
}
