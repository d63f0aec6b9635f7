//! Samples of pictures that are weighed and added are sums of samples, one for each picture that begins with the one before: deformable
//! attention (Zhu et al., "Deformable DETR", 2020, equations 2 and 3), which exporters spell as samples of each level, put together,
//! multiplied by the weights and summed. What it is made of is never stored.
//!
//! Exact but for rounding, which is less.

use super::rewrite::{Index, at_each_node, broadcasted};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Places, Primitive, ReduceKind, Sample};

/// The axis of the samples of a query.
const POINTS: usize = 3;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A sum of weighed samples.
struct Found {
    node: usize,
    /// `[N, 1, Q, P]` of all levels.
    factors: ValueId,
    levels: Vec<Level>,
}

/// The samples of a picture.
struct Level {
    sample: Sample,
    picture: ValueId,
    places: ValueId,
    points: u32,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let it = &graph.nodes[node];
    let sums = Primitive::Reduce {
        kind: ReduceKind::Sum,
        axes: 1 << POINTS,
    };
    let weighed = *it.inputs.first()?;
    let product = index.producers[weighed.index()].filter(|_| index.uses[weighed.index()] == 1)?;
    let Node { op, inputs, .. } = &graph.nodes[product];
    if it.op != Op::Primitive(sums) || *op != Op::Primitive(Primitive::Binary(Binary::Mul)) || graph.value(weighed).shape.rank() != 4 {
        return None;
    }
    let &[a, b] = inputs.as_slice() else { return None };
    let shape = graph.value(weighed).shape;
    let of = |samples: ValueId, factors: ValueId| {
        let factors = broadcasted(graph, index, factors);
        let fits = graph.value(factors).shape.dims() == [shape.dim(0), 1, shape.dim(2), shape.dim(3)];
        let levels = levels(graph, index, samples).filter(|_| fits)?;
        Some(Found { node, factors, levels })
    };
    of(a, b).or_else(|| of(b, a))
}

/// The levels that `samples`, `[N, C, Q, P]`, are of: one, or several put together along the points.
fn levels(graph: &Graph, index: &Index, samples: ValueId) -> Option<Vec<Level>> {
    if let Some(level) = level(graph, index, samples) {
        return Some(vec![level]);
    }
    let joined = seen(graph, index, samples)?;
    let node = &graph.nodes[index.producers[joined.index()]?];
    let (whole, parts) = (graph.value(samples).shape, graph.value(joined).shape);
    // Side by side, or as many of each on an axis of their own before the points.
    let stacked = parts.rank() == 5 && parts.dims()[..3] == whole.dims()[..3];
    if node.op != (Op::Concat { axis: POINTS }) || !(joined == samples || stacked) {
        return None;
    }
    let level_of = |&part: &ValueId| {
        let samples = seen(graph, index, part)?;
        let level = level(graph, index, samples)?;
        let own = graph.value(samples).shape;
        let apart = graph.value(part).shape;
        let alone = !stacked || (apart.dim(POINTS) == 1 && apart.dim(POINTS + 1) == level.points);
        (alone && own.dims()[..3] == whole.dims()[..3]).then_some(level)
    };
    let levels: Vec<Level> = node.inputs.iter().map(level_of).collect::<Option<_>>()?;
    let points: u32 = levels.iter().map(|l| l.points).sum();
    (points == whole.dim(POINTS)).then_some(levels)
}

/// What `value`, which one node reads, has the elements of, in the same order.
fn seen(graph: &Graph, index: &Index, value: ValueId) -> Option<ValueId> {
    let mut value = value;
    loop {
        let node = &graph.nodes[index.producers[value.index()].filter(|_| index.uses[value.index()] == 1)?];
        match node.op {
            Op::View(ViewOp::Reshape) => value = node.inputs[0],
            _ => return Some(value),
        }
    }
}

fn level(graph: &Graph, index: &Index, samples: ValueId) -> Option<Level> {
    let node = &graph.nodes[index.producers[samples.index()].filter(|_| index.uses[samples.index()] == 1)?];
    let Op::Primitive(Primitive::Sample(sample)) = node.op else {
        return None;
    };
    let Places::Grid { align_corners } = sample.places else {
        return None;
    };
    let &[picture, places] = node.inputs.as_slice() else { return None };
    Some(Level {
        sample: Sample {
            places: Places::Sums { align_corners },
            ..sample
        },
        picture,
        places,
        points: graph.value(samples).shape.dim(POINTS),
    })
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { node, factors, levels } = found;
    let (name, result) = (graph.nodes[node].name.clone(), graph.nodes[node].outputs[0]);
    let (dtype, shape) = graph.operand(result);
    let (kind, all) = graph.operand(factors);
    let (count, mut first, mut before) = (levels.len(), 0, None);
    let mut nodes = Vec::new();
    for (level, of) in levels.into_iter().enumerate() {
        let mut own = factors;
        if let Some(part) = all.with_dim(POINTS, of.points).filter(|_| count > 1) {
            own = graph.add_value(format!("{name}.factors{level}"), kind, part);
            nodes.push(Node {
                name: format!("{name}.factors{level}"),
                op: Op::View(ViewOp::Slice {
                    start: vec![0, 0, 0, i64::from(first)],
                    step: vec![1; 4],
                }),
                inputs: vec![factors],
                outputs: vec![own],
            });
        }
        first += of.points;
        let output = match level + 1 == count {
            true => result,
            false => graph.add_value(format!("{name}.level{level}"), dtype, shape),
        };
        nodes.push(Node {
            name: if output == result {
                name.clone()
            } else {
                format!("{name}.level{level}")
            },
            op: Op::Primitive(Primitive::Sample(of.sample)),
            inputs: [of.picture, of.places, own].into_iter().chain(before).collect(),
            outputs: vec![output],
        });
        before = Some(output);
    }
    graph.nodes.splice(node..=node, nodes);
}
