//! Functions behind views of what a product makes go in front of the views, where one operator computes both.
//!
//! Pictures become rows of tokens and rows become pictures again: a hierarchical transformer convolves between two layers of tokens
//! (Xie et al., "SegFormer", 2021, section 3.1), windows of attention are joined before their block's input is added. Functions of
//! single elements do not care for axes; only what else they read has to lie as what they are computed of.

use super::rewrite::{Index, at_each_node};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided::{self, Strided, nested_as};
use crate::primitive::Primitive;
use crate::tensor::{Layout, Shape};

/// Pixels and rows of multiples of this many channels lie in whole pieces of 16 bytes in f16, whatever their axes are called.
const PIECE: u32 = 8;
/// Nodes that are looked through for the order in which a value is stored.
pub(super) const DEEPEST: usize = 64;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// A function that reads what another node makes through views.
struct Found {
    function: usize,
    /// Which of its inputs.
    input: usize,
    /// The views from what is made to what is read, as nodes.
    views: Vec<usize>,
}

fn find(graph: &Graph, index: &Index, function: usize) -> Option<Found> {
    let node = &graph.nodes[function];
    let (Op::Primitive(primitive), &[output]) = (&node.op, node.outputs.as_slice()) else {
        return None;
    };
    if !is_function(primitive) || node.inputs.iter().any(|v| graph.operand(*v) != graph.operand(output)) {
        return None;
    }
    let candidates = (0..node.inputs.len()).filter_map(|input| {
        let views = views(graph, index, node.inputs[input])?;
        let made = graph.nodes[*views.first()?].inputs[0];
        let others = node.inputs.iter().enumerate().filter(|(at, _)| *at != input);
        let fits = others.clone().all(|(_, other)| lies_alike(graph, index, *other, made, &views));
        fits.then_some((index.producers[made.index()], Found { function, input, views }))
    });
    // Of two inputs the later made one is the longer chain, as where nodes are grouped.
    candidates.max_by_key(|(producer, _)| *producer).map(|(_, found)| found)
}

fn is_function(primitive: &Primitive) -> bool {
    matches!(primitive, Primitive::Unary(_) | Primitive::Binary(_))
}

/// The views, each read once, that lead to `value` from the result of a product or of a function that nobody else reads.
fn views(graph: &Graph, index: &Index, value: ValueId) -> Option<Vec<usize>> {
    let (mut views, mut at) = (Vec::new(), value);
    while index.uses[at.index()] == 1 {
        let producer = index.producers[at.index()]?;
        let node = &graph.nodes[producer];
        match &node.op {
            Op::View(ViewOp::Reshape | ViewOp::Transpose { .. }) => {
                views.push(producer);
                at = node.inputs[0];
            }
            Op::Primitive(primitive) => {
                let product = matches!(
                    primitive,
                    Primitive::Conv { .. } | Primitive::ConvTranspose { .. } | Primitive::MatMul
                );
                views.reverse();
                return (product || is_function(primitive)).then_some(views);
            }
            _ => return None,
        }
    }
    None
}

/// True if `value`, seen as what lies in front of `views`, is a constant or stored in the order of `made`.
fn lies_alike(graph: &Graph, index: &Index, value: ValueId, made: ValueId, views: &[usize]) -> bool {
    let undone = |at: Strided| {
        views.iter().rev().try_fold(at, |at, &view| {
            let node = &graph.nodes[view];
            match &node.op {
                Op::View(op) => at.unview(op, graph.value(node.inputs[0]).shape),
                _ => None,
            }
        })
    };
    if let Some((_, at)) = strided::constant(graph, &index.producers, value) {
        return undone(at).is_some();
    }
    let (Some(model), Some(seen)) = (
        stored(graph, index, made, DEEPEST),
        stored(graph, index, value, DEEPEST).and_then(undone),
    ) else {
        return false;
    };
    let (shape, model, seen) = (graph.value(made).shape, model.layout, seen.layout);
    let beside = |layout: &Layout| (0..shape.rank()).find(|&a| shape.dim(a) > 1 && layout.stride(a) == 1);
    let pieces = beside(&model).is_some_and(|a| shape.dim(a).is_multiple_of(PIECE));
    pieces && beside(&model) == beside(&seen) && nested_as(shape, &model) == nested_as(shape, &seen)
}

/// How `value` is going to be stored, as far as its making says it: pictures channels-last, what functions make like what they read.
pub(super) fn stored(graph: &Graph, index: &Index, value: ValueId, deepest: usize) -> Option<Strided> {
    let shape = graph.value(value).shape;
    let whole = |layout: Layout| Some(Strided::whole(layout));
    let Some(producer) = index.producers[value.index()] else {
        return whole(Layout::contiguous(shape));
    };
    let node = &graph.nodes[producer];
    let before = |v: ValueId| stored(graph, index, v, deepest.checked_sub(1)?);
    match &node.op {
        Op::View(op) => before(node.inputs[0])?.view(op, shape),
        Op::Primitive(primitive) if is_spatial(primitive) && shape.rank() >= 3 => whole(Layout::channels_last(shape)),
        Op::Primitive(
            Primitive::Unary(_)
            | Primitive::Binary(_)
            | Primitive::Copy
            | Primitive::Normalise { .. }
            | Primitive::RmsNormalise { .. }
            | Primitive::GroupNormalise { .. }
            | Primitive::Softmax { .. }
            | Primitive::Reduce { .. },
        ) => {
            let model = node.inputs.iter().find(|v| index.producers[v.index()].is_some())?;
            whole(nested_as(shape, &before(*model)?.layout))
        }
        Op::Concat { .. } => whole(nested_as(shape, &before(*node.inputs.last()?)?.layout)),
        Op::Primitive(_) => whole(Layout::contiguous(shape)),
    }
}

fn is_spatial(primitive: &Primitive) -> bool {
    matches!(
        primitive,
        Primitive::Conv { .. } | Primitive::ConvTranspose { .. } | Primitive::Pool { .. } | Primitive::Resize(_) | Primitive::Sample(_)
    )
}

/// Puts the function before the views, which lead from its result to its readers.
fn apply(graph: &mut Graph, found: Found) {
    let Found { function, input, views } = found;
    let node = graph.nodes[function].clone();
    let (name, output) = (node.name.clone(), node.outputs[0]);
    let made = graph.nodes[views[0]].inputs[0];
    let (dtype, shape) = (graph.value(output).dtype, graph.value(made).shape);
    let steps: Vec<(ViewOp, Shape, Shape)> = views
        .iter()
        .filter_map(|&view| {
            let it = &graph.nodes[view];
            let shape = |v: &[ValueId]| graph.value(v[0]).shape;
            match &it.op {
                Op::View(op) => Some((op.clone(), shape(&it.inputs), shape(&it.outputs))),
                _ => None,
            }
        })
        .collect();
    let mut nodes = Vec::new();
    let mut view = |graph: &mut Graph, op: ViewOp, from: ValueId, to: Option<ValueId>, shape: Shape| {
        let name = format!("{name}.view{}", nodes.len());
        let to = to.unwrap_or_else(|| graph.add_value(name.clone(), dtype, shape));
        nodes.push(Node {
            name,
            op: Op::View(op),
            inputs: vec![from],
            outputs: vec![to],
        });
        to
    };
    let mut inputs = node.inputs.clone();
    for (at, other) in inputs.iter_mut().enumerate() {
        *other = match at == input {
            true => made,
            false => steps
                .iter()
                .rev()
                .fold(*other, |from, (op, before, _)| view(graph, inverse(op), from, None, *before)),
        };
    }
    let computed = graph.add_value(format!("{name}.first"), dtype, shape);
    let mut from = computed;
    let at = inputs.len().saturating_sub(1) * steps.len();
    for (step, (op, _, after)) in steps.iter().enumerate() {
        let to = (step + 1 == steps.len()).then_some(output);
        from = view(graph, op.clone(), from, to, *after);
    }
    let moved = Node {
        name,
        op: node.op,
        inputs,
        outputs: vec![computed],
    };
    nodes.insert(at, moved);
    graph.nodes.splice(function..=function, nodes);
}

/// What undoes a reshape or a transpose.
fn inverse(op: &ViewOp) -> ViewOp {
    match op {
        ViewOp::Transpose { perm } => {
            let mut inverse = vec![0; perm.len()];
            perm.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
            ViewOp::Transpose { perm: inverse }
        }
        other => other.clone(),
    }
}
