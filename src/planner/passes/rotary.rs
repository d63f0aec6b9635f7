//! Pairs of features that are turned by the angles of their positions (Su et al. 2021) are one function of elements, whose other
//! factor is the feature's partner: features seen with their halves, or neighbours, changed round.
//!
//! Exporters write `x cos + turned(x) sin`, and `turned(x)` out as a concatenation with one part negated. The signs go into the
//! sines, so nothing is stored in between, and every product has the bits that it had. Rows in front that have no position, as the
//! tokens of classes and registers, and are joined with the others again, are turned by an angle of 0 among them.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided::{self, Strided};
use crate::primitive::{Binary, Primitive, Unary};
use crate::tensor::{Data, Layout, Shape, Tensor};
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// Which features are a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pairs {
    /// The `i`-th of the first half and the `i`-th of the second.
    Halves,
    /// Neighbours.
    Neighbours,
}

impl Pairs {
    /// The last axis as two, and which of them leads from a feature to its partner.
    fn split(self, shape: Shape) -> Option<(Shape, usize)> {
        let (last, outer) = shape.dims().split_last()?;
        let (two, axis) = match self {
            Pairs::Halves => ([2, last / 2], outer.len()),
            Pairs::Neighbours => ([last / 2, 2], outer.len() + 1),
        };
        Some((Shape::new(&[outer, &two].concat())?, axis))
    }

    /// True if a feature's partner is negated: of a pair `(a, b)` the first becomes `a cos - b sin`.
    fn negates(self, feature: usize, features: usize) -> bool {
        match self {
            Pairs::Halves => feature < features / 2,
            Pairs::Neighbours => feature.is_multiple_of(2),
        }
    }
}

/// A sum of products that turns pairs.
struct Found {
    sum: usize,
    pairs: Pairs,
    x: ValueId,
    cosines: Tensor,
    sines: Tensor,
    among: Option<Among>,
}

/// A concatenation that puts what is turned back among the rows that it was cut from.
struct Among {
    node: usize,
    /// The rows from which it was cut.
    rows: ValueId,
    axis: usize,
    /// Rows in front of those that are turned, and all of them.
    before: u32,
    all: u32,
}

fn find(graph: &Graph, index: &Index, sum: usize) -> Option<Found> {
    let &[made] = graph.nodes[sum].outputs.as_slice() else {
        return None;
    };
    let [a, b] = index.operands(graph, Binary::Add, made)?;
    let factors = |value: ValueId| {
        let alone = index.uses[value.index()] == 1;
        alone.then(|| index.operands(graph, Binary::Mul, value))?
    };
    let ([a, b], shape) = ([factors(a)?, factors(b)?], graph.value(made).shape);
    let either = |[a, b]: [ValueId; 2]| [[a, b], [b, a]];
    let ways = [(a, b), (b, a)].into_iter();
    let ways = ways.flat_map(|(kept, turned)| either(kept).into_iter().flat_map(move |k| either(turned).map(|t| (k, t))));
    ways.filter_map(|([x, cosines], [turned, sines])| {
        let pairs = turns(graph, index, x, turned)?;
        let alike = graph.value(x).shape == shape && pairs.split(shape).is_some();
        alike.then_some(())?;
        Some(Found {
            sum,
            pairs,
            x,
            cosines: compact(graph, index, cosines)?,
            sines: compact(graph, index, sines)?,
            among: among(graph, index, x, made),
        })
    })
    .next()
}

/// Which pairs `turned` has changed round of `x`, each with its first one's partner negated, if it is that.
fn turns(graph: &Graph, index: &Index, x: ValueId, turned: ValueId) -> Option<Pairs> {
    let shape = graph.value(x).shape;
    let last = shape.rank().checked_sub(1)?;
    let half = shape.dim(last) / 2;
    if shape.dim(last) != 2 * half || half == 0 || graph.value(turned).shape != shape {
        return None;
    }
    let node = &graph.nodes[index.producers[turned.index()]?];
    let (pairs, concat) = match &node.op {
        Op::Concat { axis } if *axis == last => (Pairs::Halves, node),
        Op::View(ViewOp::Reshape) => (Pairs::Neighbours, &graph.nodes[index.producers[node.inputs[0].index()]?]),
        _ => return None,
    };
    let &[first, second] = concat.inputs.as_slice() else {
        return None;
    };
    let stacked = graph.value(concat.outputs[0]).shape;
    let beside = concat.op == Op::Concat { axis: last + 1 } && stacked.rank() == last + 2 && stacked.dim(last + 1) == 2;
    if pairs == Pairs::Neighbours && !beside {
        return None;
    }
    // Negation may be seen through a view that gives neighbours an axis of their own.
    let whole = |value: ValueId| match index.producers[value.index()].map(|n| &graph.nodes[n]) {
        Some(node) if pairs == Pairs::Neighbours && node.op == Op::View(ViewOp::Reshape) => node.inputs[0],
        _ => value,
    };
    let (Unary::Neg, negated) = index.unary(graph, whole(first))? else {
        return None;
    };
    let part = shape.with_dim(last, half)?;
    let parts_of = |from: i64| {
        let step = if pairs == Pairs::Neighbours { 2 } else { 1 };
        let (mut start, mut steps) = (vec![0; last + 1], vec![1; last + 1]);
        (start[last], steps[last]) = (from, step);
        let (base, at) = look(graph, index, x);
        Some((base, at.view(&ViewOp::Slice { start, step: steps }, part)?))
    };
    let second_begins = if pairs == Pairs::Neighbours { 1 } else { i64::from(half) };
    // Of neighbours each part has an axis of one element more, which says nothing of where it lies.
    let seen = |value: ValueId| {
        let (base, at) = look(graph, index, value);
        Some((base, at.view(&ViewOp::Reshape, part)?))
    };
    let same = |(a, at): (ValueId, Strided), (b, other): (ValueId, Strided)| a == b && at.same_places(&other);
    let fits = same(seen(negated)?, parts_of(second_begins)?) && same(seen(whole(second))?, parts_of(0)?);
    fits.then_some(pairs)
}

/// The concatenation that joins `turned`, made of `x`, with all other rows of what `x` was cut from, each in its place.
fn among(graph: &Graph, index: &Index, x: ValueId, turned: ValueId) -> Option<Among> {
    let cut = &graph.nodes[index.producers[x.index()]?];
    let node = graph.nodes.iter().position(|n| n.inputs.contains(&turned))?;
    let (Op::View(ViewOp::Slice { .. }), Op::Concat { axis }, 1) = (&cut.op, &graph.nodes[node].op, index.uses[turned.index()]) else {
        return None;
    };
    let (rows, axis) = (cut.inputs[0], *axis);
    let shape = graph.value(rows).shape;
    if axis + 1 >= shape.rank() || shape != graph.value(graph.nodes[node].outputs[0]).shape {
        return None;
    }
    let (base, whole) = look(graph, index, rows);
    let (mut start, mut before) = (0, 0);
    for &part in &graph.nodes[node].inputs {
        let extent = graph.value(part).shape.dim(axis);
        let (of, at) = look(graph, index, if part == turned { x } else { part });
        if of != base || !at.same_places(&whole.band(axis, start, extent)?) {
            return None;
        }
        if part == turned {
            before = start;
        }
        start += extent;
    }
    Some(Among {
        node,
        rows,
        axis,
        before,
        all: start,
    })
}

impl Among {
    /// The factors of all rows: those given, and `other` in front of and behind them.
    fn factors(&self, given: &Tensor, own: u32, other: f32) -> Option<Tensor> {
        let shape = given.shape();
        let (floats, inner) = (
            given.as_f32()?,
            shape.dims()[self.axis + 1..].iter().map(|&d| d as usize).product::<usize>(),
        );
        let rows = shape.dim(self.axis) as usize;
        let outer: usize = shape.dims()[..self.axis].iter().map(|&d| d as usize).product();
        let (before, own, all) = (self.before as usize, own as usize, self.all as usize);
        let mut elements = Vec::with_capacity(outer * all * inner);
        for block in 0..outer {
            for row in 0..all {
                match row.checked_sub(before).filter(|&r| r < own) {
                    // A single row is every row's.
                    Some(row) => {
                        let first = (block * rows + if rows == 1 { 0 } else { row }) * inner;
                        elements.extend_from_slice(floats.get(first..first + inner)?);
                    }
                    None => elements.extend(std::iter::repeat_n(other, inner)),
                }
            }
        }
        Tensor::new(shape.with_dim(self.axis, self.all)?, Data::F32(elements))
    }
}

/// What `value` is a view of, and where its elements lie in that in C order.
fn look(graph: &Graph, index: &Index, value: ValueId) -> (ValueId, Strided) {
    let shape = graph.value(value).shape;
    if let Some(node) = index.producers[value.index()].map(|n| &graph.nodes[n])
        && let Op::View(op) = &node.op
    {
        let (base, at) = look(graph, index, node.inputs[0]);
        if let Some(at) = at.view(op, shape) {
            return (base, at);
        }
    }
    (value, Strided::whole(Layout::contiguous(shape)))
}

/// The floats of a constant, once where it repeats them along an axis before the last.
fn compact(graph: &Graph, index: &Index, value: ValueId) -> Option<Tensor> {
    let (tensor, at) = strided::constant(graph, &index.producers, value)?;
    let shape = at.layout.shape;
    let mut once = shape;
    for axis in 0..shape.rank().checked_sub(1)? {
        if at.layout.stride(axis) == 0 {
            once = once.with_dim(axis, 1)?;
        }
    }
    let first = ViewOp::Slice {
        start: vec![0; shape.rank()],
        step: vec![1; shape.rank()],
    };
    let floats = strided::gather(&tensor, &at.view(&first, once)?)?;
    floats.as_f32().is_some().then_some(floats)
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { sum, pairs, .. } = found;
    let (name, output) = (graph.nodes[sum].name.clone(), graph.nodes[sum].outputs[0]);
    let (x, cosines, sines, output) = match &found.among {
        Some(among) => {
            let own = graph.value(output).shape.dim(among.axis);
            let widened = (among.factors(&found.cosines, own, 1.0), among.factors(&found.sines, own, 0.0));
            let (Some(cosines), Some(sines)) = widened else { return };
            (among.rows, cosines, sines, graph.nodes[among.node].outputs[0])
        }
        None => (found.x, found.cosines, found.sines, output),
    };
    let (dtype, whole) = graph.operand(output);
    let Some((shape, axis)) = pairs.split(whole) else { return };
    let mut nodes = Vec::new();
    let mut add = |graph: &mut Graph, part: &str, op: Op, inputs: Vec<ValueId>| {
        let name = format!("{name}.{part}");
        let made = graph.add_value(name.clone(), dtype, shape);
        nodes.push(Node {
            name,
            op,
            inputs,
            outputs: vec![made],
        });
        made
    };
    let signed = signed(&sines, pairs);
    let [cosines, sines] = [(Some(cosines), "cosines"), (signed, "sines")].map(|(tensor, part)| {
        let tensor = tensor?;
        let split = Tensor::from_bytes(tensor.dtype(), pairs.split(tensor.shape())?.0, tensor.bytes())?;
        let constant = graph.add_constant(format!("{name}.{part}"), Arc::new(split));
        Some(add(graph, part, Op::View(ViewOp::Broadcast), vec![constant]))
    });
    let (Some(cosines), Some(sines)) = (cosines, sines) else { return };
    let features = add(graph, "features", Op::View(ViewOp::Reshape), vec![x]);
    let (mut start, mut step) = (vec![0; shape.rank()], vec![1; shape.rank()]);
    (start[axis], step[axis]) = (1, -1);
    let partners = add(graph, "partners", Op::View(ViewOp::Slice { start, step }), vec![features]);
    let times = Op::Primitive(Primitive::Binary(Binary::Mul));
    let kept = add(graph, "kept", times.clone(), vec![features, cosines]);
    let turned = add(graph, "turned", times, vec![partners, sines]);
    let total = add(graph, "sum", Op::Primitive(Primitive::Binary(Binary::Add)), vec![kept, turned]);
    nodes.push(Node {
        name,
        op: Op::View(ViewOp::Reshape),
        inputs: vec![total],
        outputs: vec![output],
    });
    // The concatenation stands behind the sum.
    if let Some(among) = &found.among {
        graph.nodes.remove(among.node);
    }
    graph.nodes.splice(sum..=sum, nodes);
}

/// The sines with the signs of the partners that they multiply.
fn signed(sines: &Tensor, pairs: Pairs) -> Option<Tensor> {
    let features = sines.shape().dims().last().map_or(0, |&d| d as usize);
    let sign = |(at, &sine): (usize, &f32)| if pairs.negates(at % features, features) { -sine } else { sine };
    let elements = sines.as_f32()?.iter().enumerate().map(sign).collect();
    Tensor::new(sines.shape(), Data::F32(elements))
}
