//! Convolutions of the same maps, whose results several concatenations collect map by map, become one convolution a map.
//!
//! A detector's heads (Liu et al. 2016, section 2.1) predict for each box of each pixel some numbers of several kinds, such as its place
//! and its classes, and join each kind's over all maps. What is small, as the places are, costs a launch a map that hardly does anything.
//! One convolution makes a box's numbers of all kinds side by side, so one concatenation collects them where they are made, and each
//! kind is a view of its columns. Every element is computed as before.

use super::rewrite::{Index, at_each_node};
use super::stack::{Layer, stacked};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::tensor::Shape;

/// A box's numbers fill whole pieces of so many, 16 bytes of f16, where that adds little.
const PIECE: u32 = 8;
/// The part of all numbers that may be added.
const PADDING: u32 = 8;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, kinds, |graph, found| apply(graph, &found));
}

/// What a map gives to a concatenation: pixels' channels seen as boxes' numbers.
struct Part {
    layer: Layer,
    /// The views behind it: channels last, then `[samples, boxes, columns]`.
    views: [usize; 2],
    /// Boxes of a pixel.
    boxes: u32,
}

/// A concatenation of such parts.
struct Kind {
    concat: usize,
    columns: u32,
    parts: Vec<Part>,
}

/// The concatenations of the same maps of which `first` is the first.
fn kinds(graph: &Graph, index: &Index, first: usize) -> Option<Vec<Kind>> {
    let head = kind(graph, index, first)?;
    let rest = (first + 1..graph.nodes.len()).filter_map(|node| kind(graph, index, node));
    let alike = |other: &Kind| {
        let pairs = || head.parts.iter().zip(&other.parts);
        head.parts.len() == other.parts.len() && pairs().all(|(a, b)| a.layer.beside(&b.layer) && a.boxes == b.boxes)
    };
    let mut all: Vec<Kind> = rest.filter(alike).collect();
    all.insert(0, head);
    (all.len() > 1).then_some(all)
}

fn kind(graph: &Graph, index: &Index, concat: usize) -> Option<Kind> {
    let node = &graph.nodes[concat];
    let shape = graph.value(*node.outputs.first()?).shape;
    if node.op != (Op::Concat { axis: 1 }) || shape.rank() != 3 {
        return None;
    }
    let columns = shape.dim(2);
    let parts: Option<Vec<Part>> = node.inputs.iter().map(|&v| part(graph, index, v, columns)).collect();
    let parts = parts.filter(|parts| !parts.is_empty())?;
    Some(Kind { concat, columns, parts })
}

fn part(graph: &Graph, index: &Index, value: ValueId, columns: u32) -> Option<Part> {
    let alone = |value: ValueId| index.producers[value.index()].filter(|_| index.uses[value.index()] == 1);
    let reshape = alone(value)?;
    let transpose = alone(graph.nodes[reshape].inputs[0])?;
    let last = ViewOp::Transpose { perm: vec![0, 2, 3, 1] };
    if graph.nodes[reshape].op != Op::View(ViewOp::Reshape) || graph.nodes[transpose].op != Op::View(last) {
        return None;
    }
    let layer = Layer::of(graph, index, alone(graph.nodes[transpose].inputs[0])?)?;
    let [samples, rows, across, channels] = graph.value(graph.nodes[transpose].outputs[0]).shape.dims()[..] else {
        return None;
    };
    let boxes = channels.checked_div(columns).filter(|b| b * columns == channels)?;
    let whole = Shape::new(&[samples, rows.checked_mul(across)?.checked_mul(boxes)?, columns]);
    (whole == Some(graph.value(value).shape)).then_some(Part {
        layer,
        views: [transpose, reshape],
        boxes,
    })
}

/// Lets the first kind's convolutions, views and concatenation make all kinds, which are views of it then.
fn apply(graph: &mut Graph, kinds: &[Kind]) {
    let head = &kinds[0];
    let used: u32 = kinds.iter().map(|k| k.columns).sum();
    let padded = used.next_multiple_of(PIECE);
    let columns = if (padded - used) * PADDING <= used { padded } else { used };
    let concat = head.concat;
    let out = graph.value(graph.nodes[concat].outputs[0]);
    let (dtype, Some(whole)) = (out.dtype, out.shape.with_dim(2, columns)) else {
        return;
    };
    // Convolutions in the place of the first kind's, all of them or none.
    let mut made = Vec::with_capacity(head.parts.len());
    for (number, part) in head.parts.iter().enumerate() {
        let Part { layer, views, boxes } = part;
        let name = format!("{}.heads", graph.nodes[layer.node].name);
        let beside: Vec<&Layer> = kinds.iter().map(|k| &k.parts[number].layer).collect();
        let read = stacked(graph, &name, &beside, &channels(kinds, *boxes, columns));
        let extents = [
            (layer.node, 1, boxes * columns),
            (views[0], 3, boxes * columns),
            (views[1], 2, columns),
        ];
        let wider = |(node, axis, extent): (usize, usize, u32)| {
            Some((node, graph.value(graph.nodes[node].outputs[0]).shape.with_dim(axis, extent)?))
        };
        let (Some(read), Some(steps)) = (read, extents.into_iter().map(wider).collect::<Option<Vec<(usize, Shape)>>>()) else {
            return;
        };
        made.push((name, read, steps));
    }
    let mut parts = Vec::with_capacity(made.len());
    for (name, mut inputs, steps) in made {
        for (step, (node, shape)) in steps.into_iter().enumerate() {
            let output = graph.add_value(format!("{name}.{step}"), dtype, shape);
            let node = &mut graph.nodes[node];
            node.inputs = std::mem::replace(&mut inputs, vec![output]);
            node.outputs = vec![output];
        }
        parts.extend(inputs);
    }
    let all = graph.add_value(format!("{}.heads", graph.nodes[concat].name), dtype, whole);
    let mut start = 0;
    let mut seen = Vec::with_capacity(kinds.len());
    for kind in kinds {
        let made = graph.nodes[kind.concat].outputs[0];
        seen.push(Node {
            name: graph.nodes[kind.concat].name.clone(),
            op: Op::View(ViewOp::band(3, 2, start)),
            inputs: vec![all],
            outputs: vec![made],
        });
        start += i64::from(kind.columns);
    }
    graph.nodes[concat].inputs = parts;
    graph.nodes[concat].outputs = vec![all];
    // The other kinds' concatenations lie behind the first one.
    for kind in kinds[1..].iter().rev() {
        graph.nodes.remove(kind.concat);
    }
    graph.nodes.splice(concat + 1..concat + 1, seen);
}

/// The channels of a pixel: box by box the columns of all kinds, and what fills them up.
fn channels(kinds: &[Kind], boxes: u32, columns: u32) -> Vec<Option<(usize, usize)>> {
    let mut channels = Vec::with_capacity((boxes * columns) as usize);
    for number in 0..boxes {
        for (layer, kind) in kinds.iter().enumerate() {
            channels.extend((0..kind.columns).map(|c| Some((layer, (number * kind.columns + c) as usize))));
        }
        channels.resize(((number + 1) * columns) as usize, None);
    }
    channels
}
