//! In which order each value's elements are stored, before any of them has a place.
//!
//! Values that image-like primitives make or read are stored channels-last; elementwise functions and their like keep the
//! order of what they read; everything else is stored in C order. Views are looked through: the order of a view's output is
//! what its input's storage looks like through it. Pixels of f16 that convolutions read begin 16 bytes apart or a multiple, with
//! unused elements behind odd counts of channels: so copy engines and wide loads take them.

use super::group::Unit;
use crate::plan::format::View;
use crate::plan::tactic::pictures;
use crate::plan::tactic::product::Pixels;
use crate::planner::graph::{Graph, Op, Value, ValueId, ViewOp};
use crate::planner::passes::PassSet;
use crate::planner::strided::{self, Strided, nested_as};
use crate::primitive::{Places, Primitive, Sample};
use crate::tensor::{DType, Layout, Shape};

/// Halves in the 16 bytes of which the pixels that convolutions read begin at multiples.
const ALIGNED: u32 = 8;

/// Least products of a row whose start is worth moving to a multiple of [`ALIGNED`]: shorter ones are copied as fast as they are read.
const LONG_ROW: u32 = 32;
/// Rows of a product from which on shorter ones are worth it, too: kernels that read elements one by one are slow, not the copy.
const MANY_ROWS: u64 = 1 << 15;
/// The same where a row, or a pixel's channels, would be copied for that alone.
pub const LONG_COPY: u32 = 128;

/// Results of a product that its kernel stores one by one, between others, faster than a copy turns them round.
const FEW_RESULTS: u64 = 1 << 19;

/// True for primitives over pixels, which want the channels of a pixel side by side.
pub fn is_spatial(primitive: &Primitive) -> bool {
    matches!(
        primitive,
        Primitive::Conv { .. } | Primitive::ConvTranspose { .. } | Primitive::Pool { .. } | Primitive::Resize(_) | Primitive::Sample(_)
    ) || reads_pictures(primitive)
}

/// True for primitives whose first input is a camera's bytes, which have no layout to choose.
pub fn reads_pictures(primitive: &Primitive) -> bool {
    matches!(primitive, Primitive::Prepare(_) | Primitive::Crop(_))
}

/// True for primitives whose output is stored like their input because they walk both alike.
fn keeps_order(primitive: &Primitive) -> bool {
    matches!(
        primitive,
        Primitive::Unary(_)
            | Primitive::Binary(_)
            | Primitive::Copy
            | Primitive::Reduce { .. }
            | Primitive::Softmax { .. }
            | Primitive::Normalise { .. }
            | Primitive::RmsNormalise { .. }
            | Primitive::GroupNormalise { .. }
            | Primitive::Pad { .. }
            | Primitive::ArgMax { .. }
    )
}

/// The layout each value would have in storage of its own (for views: through which its input's storage is seen).
pub fn natural(graph: &Graph, units: &[Unit], set: PassSet) -> Vec<Layout> {
    let channels_last = set.has(PassSet::LAYOUT);
    let wanted = if channels_last {
        feeds_pixels(graph, units)
    } else {
        vec![false; graph.values.len()]
    };
    let producers = strided::producers(graph);
    let convolved = convolved(graph);
    let multiplied = multiplied(graph, &producers, set);
    // Views that no strides can say: storing them anew, they go wherever they are wanted.
    let mut anew = vec![false; graph.values.len()];
    let mut layouts: Vec<Layout> = graph.values.iter().map(|v| Layout::contiguous(v.shape)).collect();
    let fresh = |value: ValueId, spatial: bool, like: Option<Layout>| -> Layout {
        let shape: Shape = graph.values[value.index()].shape;
        match like {
            _ if shape.rank() >= 3 && channels_last && (spatial || wanted[value.index()]) => match convolved[value.index()] {
                true => apart(shape).unwrap_or(Layout::channels_last(shape)),
                false => Layout::channels_last(shape),
            },
            _ if channels_last && multiplied[value.index()] => rows_apart(shape).unwrap_or(Layout::contiguous(shape)),
            Some(like) if channels_last => nested_as(shape, &like),
            _ => Layout::contiguous(shape),
        }
    };
    for unit in units {
        match unit {
            Unit::View(node) => {
                let node = &graph.nodes[*node];
                let (input, output) = (node.inputs[0], node.outputs[0]);
                let Op::View(view) = &node.op else { continue };
                let seen = Strided::whole(layouts[input.index()]).view(view, graph.values[output.index()].shape);
                anew[output.index()] = seen.is_none();
                layouts[output.index()] = seen.map_or_else(|| fresh(output, false, None), |s| s.layout);
            }
            Unit::Concat(node) => {
                let node = &graph.nodes[*node];
                // The largest part that is not stored anew says most about the order.
                let parts = node.inputs.iter().filter(|v| graph.values[v.index()].data.is_none());
                let like = parts.filter(|v| !repeats(&layouts[v.index()])).rev();
                let like = like.max_by_key(|v| (!anew[v.index()], layouts[v.index()].shape.elements()));
                layouts[node.outputs[0].index()] = fresh(node.outputs[0], false, like.map(|v| layouts[v.index()]));
            }
            Unit::Operator(nodes) => {
                let primitives = nodes.iter().filter_map(|&n| match &graph.nodes[n].op {
                    Op::Primitive(p) => Some((n, p)),
                    _ => None,
                });
                let primitives: Vec<_> = primitives.collect();
                let spatial = primitives.iter().any(|(_, p)| is_spatial(p));
                let mut like = None;
                // A conversion of a result, or of a part of one, writes it where and as the result lies, in C order.
                let result = |n: usize| graph.nodes[n].outputs.iter().any(|&v| graph.is_of_result(v));
                let conversion = |n: usize| graph.nodes[n].op == Op::Primitive(Primitive::Copy) && result(n);
                let converts = primitives.iter().all(|(_, p)| **p == Primitive::Copy) && nodes.iter().any(|&n| result(n));
                if !converts && primitives.iter().all(|(_, p)| keeps_order(p)) {
                    let inputs = nodes.iter().flat_map(|&n| &graph.nodes[n].inputs);
                    let mut models = inputs.map(|v| layouts[v.index()]).filter(|l| !repeats(l));
                    like = models.next();
                }
                // Rows that are brought into order stay so.
                let scattered = |&(n, p): &(usize, &Primitive)| match p {
                    Primitive::Normalise { axis, .. } | Primitive::RmsNormalise { axis, .. } => {
                        scatters_rows(&layouts[graph.nodes[n].inputs[0].index()], usize::from(*axis))
                    }
                    _ => false,
                };
                like = like.filter(|_| !primitives.iter().any(scattered));
                let attends = primitives.iter().any(|(_, p)| matches!(p, Primitive::Attention { .. }));
                // Products of two computed matrices write in any order, whole rows of it above all.
                let computed = |v: &ValueId| strided::constant(graph, &producers, *v).is_none();
                let multiplies = primitives
                    .iter()
                    .any(|(n, p)| matches!(p, Primitive::MatMul) && graph.nodes[*n].inputs.iter().skip(1).all(computed));
                let turns = |layout: &Layout| {
                    let rows = layout.shape.rank().checked_sub(1).is_some_and(|last| layout.stride(last) == 1);
                    attends || multiplies && (rows || layout.shape.elements() <= FEW_RESULTS)
                };
                let sums = |p: &Primitive| {
                    matches!(
                        p,
                        Primitive::Sample(Sample {
                            places: Places::Sums { .. },
                            ..
                        })
                    )
                };
                let sums = primitives.iter().any(|(_, p)| sums(p));
                for &node in nodes {
                    for &output in &graph.nodes[node].outputs {
                        if let Some(turned) = sums.then(|| joined_for_reader(graph, output)).flatten() {
                            layouts[output.index()] = turned;
                            continue;
                        }
                        let turned = || pixels_for_reader(graph, output, &wanted, &convolved).or_else(|| turned_for_reader(graph, output));
                        if let Some(turned) = (attends || multiplies).then(turned).flatten().filter(turns) {
                            layouts[output.index()] = turned;
                            continue;
                        }
                        layouts[output.index()] = fresh(output, spatial && !conversion(node), like);
                    }
                }
            }
        }
    }
    layouts
}

/// Which values of f16 convolutions of all channels read, whole or a part, and are no pictures of few channels, which kernels read as
/// they come; and which pictures attention reads pixel by pixel.
fn convolved(graph: &Graph) -> Vec<bool> {
    let mut read = vec![false; graph.values.len()];
    let mut attended = vec![false; graph.values.len()];
    for node in graph.nodes.iter().rev() {
        let Some(&value) = node.inputs.first() else { continue };
        let Value { dtype, shape, .. } = graph.value(value);
        read[value.index()] |= match &node.op {
            Op::Primitive(primitive) => convolves(primitive, *dtype, *shape),
            Op::View(ViewOp::Slice { .. }) => read[node.outputs[0].index()],
            _ => false,
        };
        match &node.op {
            Op::Primitive(Primitive::Attention { .. }) => node.inputs.iter().take(3).for_each(|v| attended[v.index()] = true),
            Op::View(ViewOp::Reshape | ViewOp::Transpose { .. }) => attended[value.index()] |= attended[node.outputs[0].index()],
            _ => {}
        }
        read[value.index()] |= attended[value.index()] && shape.rank() == 4 && *dtype == DType::F16;
    }
    read
}

/// Which values of f16 are rows of products by constants that lie in whole pieces only if they are stored apart; nobody reads them
/// through views, which could not see them so.
fn multiplied(graph: &Graph, producers: &[Option<usize>], set: PassSet) -> Vec<bool> {
    let mut read = vec![false; graph.values.len()];
    let mut seen = vec![false; graph.values.len()];
    for node in &graph.nodes {
        match (&node.op, node.inputs.as_slice()) {
            (Op::Primitive(Primitive::MatMul), [rows, weights, ..]) => {
                let value = graph.value(*rows);
                let constant = strided::constant(graph, producers, *weights).is_some();
                let ragged = is_ragged(value.shape, LONG_ROW) || has_many_rows(value.shape, set);
                read[rows.index()] |= constant && value.dtype == DType::F16 && ragged;
            }
            (Op::View(_) | Op::Concat { .. }, inputs) => inputs.iter().for_each(|v| seen[v.index()] = true),
            _ => {}
        }
    }
    read.iter().zip(seen).map(|(read, seen)| *read && !seen).collect()
}

/// True for several rows of `least` elements or more that do not fill whole pieces.
fn is_ragged(shape: Shape, least: u32) -> bool {
    let Some(last) = shape.rank().checked_sub(1) else { return false };
    let row = shape.dim(last);
    row >= least && !row.is_multiple_of(ALIGNED) && shape.elements() > u64::from(row)
}

/// True for so many short rows that do not fill whole pieces that reading their elements one by one costs more than a copy, on targets
/// whose kernels bring them in pieces.
fn has_many_rows(shape: Shape, set: PassSet) -> bool {
    let row = shape.rank().checked_sub(1).map_or(0, |last| shape.dim(last));
    set.has(PassSet::FULLER) && (2..LONG_ROW).contains(&row) && is_ragged(shape, row) && shape.elements() / u64::from(row) >= MANY_ROWS
}

/// Rows along the last axis, in order, that begin at multiples of [`ALIGNED`] elements.
pub fn rows_apart(shape: Shape) -> Option<Layout> {
    pitched(shape, shape.rank().checked_sub(1)?, Layout::contiguous)
}

/// An `order` in which what lies along `axis` begins at multiples of [`ALIGNED`] elements.
fn pitched(shape: Shape, axis: usize, order: impl Fn(Shape) -> Layout) -> Option<Layout> {
    let pitch = shape.with_dim(axis, shape.dim(axis).checked_next_multiple_of(ALIGNED)?)?;
    Layout::new(shape, order(pitch).strides())
}

/// True for long rows along the last axis that begin between whole pieces, and for very many short ones.
pub fn splits_rows(rows: &View, set: PassSet) -> bool {
    let layout = rows.layout;
    let axes = layout.shape.rank().saturating_sub(1);
    let begins = |a: usize| layout.shape.dim(a) <= 1 || layout.stride(a) % i64::from(ALIGNED) == 0;
    let whole = rows.origin.is_multiple_of(ALIGNED.into()) && (0..axes).all(begins);
    axes > 0 && (layout.shape.dim(axes) >= LONG_COPY || has_many_rows(layout.shape, set)) && !whole
}

/// True if the primitive convolves all channels of such a picture.
pub fn convolves(primitive: &Primitive, dtype: DType, shape: Shape) -> bool {
    let several = shape.rank() == 4 && shape.dim(1) > pictures::MAX_CHANNELS;
    matches!(primitive, Primitive::Conv { groups: 1, .. }) && several && dtype == DType::F16
}

/// True for pixels that begin at multiples of [`ALIGNED`] elements of their buffer.
pub fn in_pieces(pixels: &View) -> bool {
    pixels.origin.is_multiple_of(ALIGNED.into()) && Pixels::of(pixels).is_some_and(|at| at.wide())
}

/// True for rows along the last axis of which kernels find neither the elements nor whole groups of rows side by side.
pub fn scatters_rows(layout: &Layout, axis: usize) -> bool {
    let shape = layout.shape;
    let beside = |a: usize| layout.stride(a) == 1 && (a == axis || shape.dim(a).is_multiple_of(ALIGNED));
    axis + 1 == shape.rank() && shape.dim(axis) > 1 && !(0..shape.rank()).any(beside)
}

/// Channels-last storage of pixels that begin at multiples of [`ALIGNED`] elements; `None` for single pixels.
pub fn apart(shape: Shape) -> Option<Layout> {
    let several = shape.dims()[2..].iter().any(|&extent| extent > 1);
    several.then(|| pitched(shape, 1, Layout::channels_last))?
}

/// The order in which views of `value` end as pixels that are `wanted` so; `None` where they do not, or where no order does.
fn pixels_for_reader(graph: &Graph, value: ValueId, wanted: &[bool], convolved: &[bool]) -> Option<Layout> {
    let mut views = Vec::new();
    let mut seen = value;
    while let Some(reader) = graph.nodes.iter().find(|n| n.inputs.first() == Some(&seen)) {
        let Op::View(view) = &reader.op else { break };
        views.push((view, graph.value(seen).shape));
        seen = reader.outputs[0];
    }
    let shape = graph.value(seen).shape;
    if views.is_empty() || shape.rank() < 3 || !wanted[seen.index()] {
        return None;
    }
    let pixels = apart(shape)
        .filter(|_| convolved[seen.index()])
        .unwrap_or(Layout::channels_last(shape));
    let first = views
        .iter()
        .rev()
        .try_fold(Strided::whole(pixels), |at, (view, before)| at.unview(view, *before))?;
    Some(first.layout)
}

/// The order in which the transpose that reads `value` finds its result in C order; `None` where none reads it.
///
/// Attention, and products of its parts, put heads behind each other, and their reader side by side: so neither has to move them.
fn turned_for_reader(graph: &Graph, value: ValueId) -> Option<Layout> {
    let reader = graph.nodes.iter().find(|n| n.inputs.first() == Some(&value))?;
    let Op::View(view @ ViewOp::Transpose { .. }) = &reader.op else {
        return None;
    };
    let seen = Strided::whole(Layout::contiguous(graph.values[reader.outputs[0].index()].shape));
    seen.unview(view, graph.values[value.index()].shape).map(|s| s.layout)
}

/// The same of the transpose behind reshapes, if it leaves channels side by side: sums of samples write whole runs of these in any order,
/// and heads of attention are joined so.
fn joined_for_reader(graph: &Graph, value: ValueId) -> Option<Layout> {
    let mut views = Vec::new();
    let mut seen = value;
    loop {
        let reader = graph.nodes.iter().find(|n| n.inputs.first() == Some(&seen))?;
        let Op::View(view @ (ViewOp::Reshape | ViewOp::Transpose { .. })) = &reader.op else {
            return None;
        };
        views.push((view, graph.value(seen).shape));
        seen = reader.outputs[0];
        if matches!(view, ViewOp::Transpose { .. }) {
            break;
        }
    }
    let mut at = Strided::whole(Layout::contiguous(graph.value(seen).shape));
    for (view, shape) in views.into_iter().rev() {
        at = at.unview(view, shape)?;
    }
    (at.layout.shape.rank() > 1 && at.layout.stride(1) == 1).then_some(at.layout)
}

/// True if some elements are seen more than once: such an operand says nothing about the order of the others.
fn repeats(layout: &Layout) -> bool {
    (0..layout.shape.rank()).any(|a| layout.shape.dim(a) > 1 && layout.stride(a) == 0) || layout.shape.elements() <= 1
}

/// Which values image-like primitives read, directly or through elementwise functions and concatenations.
fn feeds_pixels(graph: &Graph, units: &[Unit]) -> Vec<bool> {
    let mut wanted = vec![false; graph.values.len()];
    for unit in units.iter().rev() {
        match unit {
            Unit::View(_) => {}
            Unit::Concat(node) => {
                let node = &graph.nodes[*node];
                if wanted[node.outputs[0].index()] {
                    node.inputs.iter().for_each(|v| wanted[v.index()] = true);
                }
            }
            Unit::Operator(nodes) => {
                for &node in nodes.iter().rev() {
                    let node = &graph.nodes[node];
                    let Op::Primitive(primitive) = &node.op else { continue };
                    if is_spatial(primitive) && !reads_pictures(primitive) {
                        wanted[node.inputs[0].index()] = true;
                    } else if keeps_order(primitive) && node.outputs.iter().any(|v| wanted[v.index()]) {
                        node.inputs.iter().for_each(|v| wanted[v.index()] = true);
                    }
                }
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_scattered_where_nothing_that_is_read_at_once_lies_side_by_side() {
        let rows = |dims: [u32; 3], strides: [i64; 3], axis| {
            let layout = Layout::new(Shape::new(&dims).unwrap(), &strides).unwrap();
            scatters_rows(&layout, axis)
        };
        assert!(rows([4, 256, 144], [1, 4, 1024], 2), "patches of four pixels");
        assert!(!rows([4, 256, 144], [36864, 144, 1], 2), "in order");
        assert!(!rows([8, 256, 144], [1, 8, 2048], 2), "eight rows side by side");
        assert!(!rows([4, 256, 144], [1, 4, 1024], 1), "along another axis");
    }
}
