//! Sums that f16 does not hold though it holds what is made of them, computed another way.
//!
//! | spelled | computed |
//! |---|---|
//! | the sum or mean of `x * x` | the square, in f32, of the norm of `x`, which is f16; f32 as well is what follows, to the first root, logarithm or quotient |
//! | the sum of `x`, by `c` or more for `c` elements | the mean of `x`, times 1 or less |
//! | `log(sum(exp(x)))` | `log(sum(exp(x - max(x)))) + max(x)` |
//!
//! Views may stand between the parts. What passes have made one primitive of is no sum any more, and stays.

use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::passes::drop_dead;
use crate::planner::passes::rewrite::{Index, broadcasted, replace};
use crate::primitive::{Binary, Primitive, ReduceKind, Scalar, Unary};
use crate::tensor::{DType, Data, Shape, Tensor};
use half::f16;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Elements whose mean square has a norm beyond f16 only where f16 does not hold the mean square either.
const MOST_MEANT: u64 = 1 << 16;

/// Rewrites such sums, but for those that are `kept` in f32 anyway; the values that have to be f32 for that.
pub fn settle(graph: &mut Graph, kept: &BTreeSet<ValueId>) -> BTreeSet<ValueId> {
    let mut wide = BTreeSet::new();
    let mut at = 0;
    let mut index = Index::of(graph);
    while at < graph.nodes.len() {
        let made = graph.nodes[at].outputs.first();
        let free = made.is_some_and(|v| !kept.contains(v) && !wide.contains(v) && graph.value(*v).dtype.is_float());
        let added = if free {
            squares(graph, &index, kept, at, &mut wide)
                .or_else(|| scaled(graph, &index, kept, at))
                .or_else(|| exponentials(graph, &index, kept, at))
        } else {
            None
        };
        if let Some(added) = added {
            index = Index::of(graph);
            at += added;
        }
        at += 1;
    }
    drop_dead(graph);
    wide
}

/// New nodes, in front of one that there is.
struct Nodes<'g> {
    graph: &'g mut Graph,
    name: String,
    made: Vec<Node>,
}

impl Nodes<'_> {
    /// Adds a node; its result.
    fn add(&mut self, op: Op, inputs: &[ValueId], dtype: DType, shape: Shape) -> ValueId {
        let name = format!("{}.{}", self.name, self.made.len());
        let value = self.graph.add_value(name.clone(), dtype, shape);
        self.made.push(Node {
            name,
            op,
            inputs: inputs.to_vec(),
            outputs: vec![value],
        });
        value
    }

    fn binary(&mut self, kind: Binary, a: ValueId, b: ValueId) -> ValueId {
        let (dtype, shape) = self.graph.operand(a);
        self.add(Op::Primitive(Primitive::Binary(kind)), &[a, b], dtype, shape)
    }

    fn unary(&mut self, function: Unary, x: ValueId) -> ValueId {
        let (dtype, shape) = self.graph.operand(x);
        self.add(Op::Primitive(Primitive::Unary(function)), &[x], dtype, shape)
    }

    /// A number, and the same repeated to the shape of `like`.
    fn number(&mut self, number: f32, like: ValueId) -> Option<[ValueId; 2]> {
        let tensor = Tensor::new(Shape::SCALAR, Data::F32(vec![number]))?;
        let scalar = self.graph.add_constant(format!("{}.number", self.name), Arc::new(tensor));
        let shape = self.graph.value(like).shape;
        Some([scalar, self.add(Op::View(ViewOp::Broadcast), &[scalar], DType::F32, shape)])
    }

    /// `x` looked at as the `views` look at something of its shape.
    fn seen(&mut self, x: ValueId, views: &[usize]) -> ValueId {
        views.iter().rev().fold(x, |x, &view| {
            let (op, output) = (self.graph.nodes[view].op.clone(), self.graph.nodes[view].outputs[0]);
            let (dtype, shape) = (self.graph.value(x).dtype, self.graph.value(output).shape);
            self.add(op, &[x], dtype, shape)
        })
    }

    /// Puts the nodes in front of node `at`; how many there are.
    fn put(self, at: usize) -> usize {
        let count = self.made.len();
        self.graph.nodes.splice(at..at, self.made);
        count
    }
}

fn nodes(graph: &mut Graph, at: usize) -> Nodes<'_> {
    let name = graph.nodes[at].name.clone();
    Nodes {
        graph,
        name,
        made: Vec::new(),
    }
}

/// The kind and the axes of a reduction, and how many elements each of its results has.
fn reduction(graph: &Graph, node: usize) -> Option<(ReduceKind, u8, u64)> {
    let Op::Primitive(Primitive::Reduce { kind, axes }) = graph.nodes[node].op else {
        return None;
    };
    let shape = graph.value(graph.nodes[node].inputs[0]).shape;
    Some((kind, axes, shape.elements_along(axes)))
}

/// A sum or mean of squares becomes the square of a norm; that and what follows is `wide`. The number of nodes in front of it.
fn squares(graph: &mut Graph, index: &Index, kept: &BTreeSet<ValueId>, at: usize, wide: &mut BTreeSet<ValueId>) -> Option<usize> {
    let (kind, axes, count) = reduction(graph, at)?;
    let (squared, views) = index.behind_views(graph, graph.nodes[at].inputs[0]);
    let x = index.root(graph, squared)?;
    let sums = kind == ReduceKind::Sum || (kind == ReduceKind::Mean && (1..=MOST_MEANT).contains(&count));
    if !sums || kept.contains(&x) || kept.contains(&squared) || !graph.value(x).dtype.is_float() {
        return None;
    }
    let output = graph.nodes[at].outputs[0];
    let shape = graph.value(output).shape;
    let mut made = nodes(graph, at);
    let seen = made.seen(x, &views);
    let norm = Op::Primitive(Primitive::Reduce {
        kind: ReduceKind::Norm,
        axes,
    });
    let dtype = made.graph.value(x).dtype;
    let mut root = made.add(norm, &[seen], dtype, shape);
    if kind == ReduceKind::Mean {
        let [number, share] = made.number(1.0 / (count as f32).sqrt(), output)?;
        let divided = Op::Primitive(Primitive::Binary(Binary::Mul));
        root = made.add(divided, &[root, share], DType::F32, shape);
        wide.extend([root, number, share]);
    }
    let added = made.put(at);
    let node = &mut graph.nodes[at + added];
    node.op = Op::Primitive(Primitive::Binary(Binary::Mul));
    node.inputs = vec![root, root];
    follow(graph, output, wide);
    Some(added)
}

/// Lets `value` be f32, and what is made of it up to functions that leave something that f16 holds.
fn follow(graph: &mut Graph, value: ValueId, wide: &mut BTreeSet<ValueId>) {
    let index = Index::of(graph);
    let mut values = vec![value];
    while let Some(value) = values.pop() {
        let half_result = graph.value(value).dtype == DType::F16 && graph.outputs.iter().any(|n| n.value == value);
        if half_result || !wide.insert(value) {
            continue;
        }
        graph.values[value.index()].dtype = DType::F32;
        for node in graph.nodes.iter().filter(|n| n.inputs.contains(&value)) {
            let goes_on = match node.op {
                Op::View(_) | Op::Primitive(Primitive::Unary(Unary::Clip(..))) => true,
                // A number that is added or that scales.
                Op::Primitive(Primitive::Binary(Binary::Div)) if node.inputs[0] != value => false,
                Op::Primitive(Primitive::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div | Binary::Max | Binary::Min)) => node
                    .inputs
                    .iter()
                    .any(|&other| other != value && index.scalar(graph, other).is_some()),
                _ => false,
            };
            let ends = matches!(
                node.op,
                Op::Primitive(Primitive::Unary(_) | Primitive::Binary(Binary::Mul | Binary::Div | Binary::Pow))
            );
            if goes_on {
                values.extend(&node.outputs);
            } else if ends {
                wide.extend(node.outputs.iter().filter(|v| graph.value(**v).dtype == DType::F32));
            }
            if goes_on || ends {
                // What keeps a root from zero is f32 as well.
                let numbers = node.inputs.iter().filter(|v| index.scalar(graph, **v).is_some());
                numbers.for_each(|&v| {
                    let (constant, views) = index.behind_views(graph, v);
                    wide.insert(constant);
                    wide.extend(views.iter().map(|&view| graph.nodes[view].outputs[0]));
                });
            }
        }
    }
}

/// A sum that is scaled to the mean or less becomes the mean. The number of nodes in front of it.
fn scaled(graph: &mut Graph, index: &Index, kept: &BTreeSet<ValueId>, at: usize) -> Option<usize> {
    let Op::Primitive(Primitive::Binary(kind @ (Binary::Mul | Binary::Div))) = graph.nodes[at].op else {
        return None;
    };
    let &[a, b] = graph.nodes[at].inputs.as_slice() else { return None };
    let (sum, factor) = match (index.scalar(graph, b), index.scalar(graph, a)) {
        (Some(by), None) if kind == Binary::Mul => (a, by),
        (Some(by), None) => (a, 1.0 / by),
        (None, Some(by)) if kind == Binary::Mul => (b, by),
        _ => return None,
    };
    let (total, views) = index.behind_views(graph, sum);
    let alone = |value: ValueId| index.uses[value.index()] == 1;
    let only = alone(total) && views.iter().all(|&view| alone(graph.nodes[view].outputs[0]));
    let summing = index.producers[total.index()].filter(|_| only && !kept.contains(&total))?;
    let (ReduceKind::Sum, axes, count) = reduction(graph, summing)? else {
        return None;
    };
    // A factor of the mean is 1 but for its rounding.
    let of_mean = factor * count as f32;
    if count == 0 || !of_mean.is_finite() || of_mean.abs() > 1.0 + f32::EPSILON * 4.0 {
        return None;
    }
    graph.nodes[summing].op = Op::Primitive(Primitive::Reduce {
        kind: ReduceKind::Mean,
        axes,
    });
    let output = graph.nodes[at].outputs[0];
    if (of_mean - 1.0).abs() <= f32::EPSILON * 4.0 && graph.operand(output) == graph.operand(sum) {
        replace(graph, output, sum);
        return Some(0);
    }
    let mut made = nodes(graph, at);
    let [_, factor] = made.number(of_mean.clamp(-1.0, 1.0), sum)?;
    let added = made.put(at);
    let node = &mut graph.nodes[at + added];
    node.op = Op::Primitive(Primitive::Binary(Binary::Mul));
    node.inputs = vec![sum, factor];
    Some(added)
}

/// The logarithm of a sum of exponentials takes their largest one out of the sum. The number of nodes in front of it.
fn exponentials(graph: &mut Graph, index: &Index, kept: &BTreeSet<ValueId>, at: usize) -> Option<usize> {
    if graph.nodes[at].op != Op::Primitive(Primitive::Unary(Unary::Log)) {
        return None;
    }
    let (sum, views) = index.behind_views(graph, graph.nodes[at].inputs[0]);
    let summing = index.producers[sum.index()]?;
    let (ReduceKind::Sum, axes, _) = reduction(graph, summing)? else {
        return None;
    };
    let (Unary::Exp, x) = index.unary(graph, graph.nodes[summing].inputs[0])? else {
        return None;
    };
    if kept.contains(&sum) || kept.contains(&x) || is_below_largest(graph, index, x) {
        return None;
    }
    let (dtype, whole) = graph.operand(x);
    let reduced = graph.value(sum).shape;
    let reduce = |kind| Op::Primitive(Primitive::Reduce { kind, axes });
    let mut made = nodes(graph, at);
    let largest = made.add(reduce(ReduceKind::Max), &[x], dtype, reduced);
    let most = f16::MAX.to_f32();
    let largest = made.unary(Unary::Clip(Scalar(-most), Scalar(most)), largest);
    let repeated = made.add(Op::View(ViewOp::Broadcast), &[largest], dtype, whole);
    let below = made.binary(Binary::Sub, x, repeated);
    let powers = made.unary(Unary::Exp, below);
    let sum = made.add(reduce(ReduceKind::Sum), &[powers], dtype, reduced);
    let sum = made.seen(sum, &views);
    let log = made.unary(Unary::Log, sum);
    let largest = made.seen(largest, &views);
    let added = made.put(at);
    let node = &mut graph.nodes[at + added];
    node.op = Op::Primitive(Primitive::Binary(Binary::Add));
    node.inputs = vec![log, largest];
    Some(added)
}

/// True if `x` is something less its largest element already.
fn is_below_largest(graph: &Graph, index: &Index, x: ValueId) -> bool {
    let Some([_, taken]) = index.operands(graph, Binary::Sub, x) else {
        return false;
    };
    let taken = broadcasted(graph, index, taken);
    let taken = match index.unary(graph, taken) {
        Some((Unary::Clip(..), largest)) => largest,
        _ => taken,
    };
    let (taken, _) = index.behind_views(graph, taken);
    let largest = index.producers[taken.index()].and_then(|node| reduction(graph, node));
    matches!(largest, Some((ReduceKind::Max, ..)))
}
