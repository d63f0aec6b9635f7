//! Functions behind a concatenation of products' channels go to each part, where the products take them.
//!
//! Networks that convolve shares of their channels by windows of several sizes (Tan and Le 2019) normalise what they join, and an
//! elementwise function of a concatenation is the concatenation of the functions. Only where every part is a product that nobody
//! else reads is none of them left an operator of its own.

use super::fold_batchnorm::per_channel;
use super::rewrite::Index;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Binary, Primitive};

pub fn run(graph: &mut Graph) {
    let mut from = 0;
    loop {
        let index = Index::of(graph);
        let Some((concat, follower)) = (from..graph.nodes.len()).find_map(|node| find(graph, &index, node)) else {
            break;
        };
        apply(graph, concat, follower);
        from = concat;
    }
}

/// A concatenation of products, and the function of its result that alone reads it; other operands vary along its axis alone.
fn find(graph: &Graph, index: &Index, follower: usize) -> Option<(usize, usize)> {
    let node = &graph.nodes[follower];
    let made = match node.op {
        Op::Primitive(Primitive::Unary(_)) => node.inputs[0],
        Op::Primitive(Primitive::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)) => {
            *node.inputs.iter().find(|v| concatenated(graph, index, **v).is_some())?
        }
        _ => return None,
    };
    let concat = concatenated(graph, index, made)?;
    let Op::Concat { axis } = graph.nodes[concat].op else {
        return None;
    };
    let constants = node
        .inputs
        .iter()
        .all(|&v| v == made || per_channel(graph, index, v, axis).is_some());
    let once = node.inputs.iter().filter(|v| **v == made).count() == 1;
    let convolved = |v: &ValueId| match index.primitive(graph, *v) {
        // A function that went there before.
        Some((_, Primitive::Unary(_) | Primitive::Binary(_))) => through(graph, index, *v),
        Some((_, primitive)) => is_product(primitive),
        None => false,
    };
    let alone = |v: &ValueId| index.uses[v.index()] == 1;
    let parts = &graph.nodes[concat].inputs;
    (constants && once && axis == 1 && parts.iter().all(|v| alone(v) && convolved(v))).then_some((concat, follower))
}

/// The concatenation that makes `value`, of which nobody else reads.
fn concatenated(graph: &Graph, index: &Index, value: ValueId) -> Option<usize> {
    let node = index.producers[value.index()]?;
    (matches!(graph.nodes[node].op, Op::Concat { .. }) && index.uses[value.index()] == 1).then_some(node)
}

fn is_product(primitive: &Primitive) -> bool {
    matches!(primitive, Primitive::Conv { .. } | Primitive::ConvTranspose { .. })
}

/// True for functions of one product each, of constants, that nobody else reads.
fn through(graph: &Graph, index: &Index, value: ValueId) -> bool {
    let mut value = value;
    while let Some((node, primitive)) = index.primitive(graph, value) {
        if is_product(primitive) {
            return true;
        }
        let computed = graph.nodes[node]
            .inputs
            .iter()
            .copied()
            .filter(|&v| per_channel(graph, index, v, 1).is_none());
        let inputs: Vec<ValueId> = computed.collect();
        match (primitive, &inputs[..]) {
            (Primitive::Unary(_) | Primitive::Binary(_), &[x]) if index.uses[x.index()] == 1 => value = x,
            _ => return false,
        }
    }
    false
}

/// Gives the function `follower` of what `concat` puts together to each part, puts together what these make, and says what that is.
pub(super) fn apply(graph: &mut Graph, concat: usize, follower: usize) -> Vec<ValueId> {
    let Op::Concat { axis } = graph.nodes[concat].op else {
        return Vec::new();
    };
    let made = graph.nodes[concat].outputs[0];
    let function = graph.nodes.remove(follower);
    let parts = graph.nodes[concat].inputs.clone();
    let (mut nodes, mut changed) = (Vec::new(), Vec::new());
    let mut first = 0i64;
    for &part in &parts {
        let shape = graph.value(part).shape;
        let name = format!("{}.{}", function.name, changed.len());
        let mut inputs = Vec::with_capacity(function.inputs.len());
        for &input in &function.inputs {
            if input == made {
                inputs.push(part);
                continue;
            }
            let dtype = graph.value(input).dtype;
            let share = graph.add_value(format!("{name}.share"), dtype, shape);
            nodes.push(Node {
                name: format!("{name}.share"),
                op: Op::View(ViewOp::band(shape.rank(), axis, first)),
                inputs: vec![input],
                outputs: vec![share],
            });
            inputs.push(share);
        }
        let output = graph.add_value(name.clone(), graph.value(function.outputs[0]).dtype, shape);
        nodes.push(Node {
            name,
            op: function.op.clone(),
            inputs,
            outputs: vec![output],
        });
        changed.push(output);
        first += i64::from(shape.dim(axis));
    }
    // The constants may be made behind the concatenation, so it moves to where its follower was.
    let mut joined = graph.nodes.remove(concat);
    joined.inputs.clone_from(&changed);
    joined.outputs = function.outputs;
    nodes.push(joined);
    let at = follower - 1;
    graph.nodes.splice(at..at, nodes);
    changed
}
