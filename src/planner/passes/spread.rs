//! Functions of one element behind a concatenation go to each part, where what makes the part computes them too; and functions of few
//! elements are computed by each operator that reads them.
//!
//! Detectors turn distances into corners, corners into centres and sizes, join these and scale them: each is a launch for a few
//! thousand numbers, which takes as long as it takes to begin. A function that several others read is stored and read again; computed by
//! each of them it is neither. Scores of several maps are joined before one function of all, which is the convolutions' own.

use super::parted;
use super::rewrite::{Index, at_each_node};
use crate::limits::MAX_PRIMITIVES;
use crate::plan::tactic::product::{has_path, is_usual};
use crate::plan::tactic::takes_functions;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::Primitive;

/// Most elements of functions that are computed more than once, and behind which any function of a product is as fast in its kernel as in a
/// launch of its own: that takes as long as it takes to begin.
const FEW: u64 = 1 << 17;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, to_parts);
    while let Some(found) = repeated(graph) {
        repeat(graph, found);
    }
}

/// A function of a concatenation that nobody else reads.
struct Found {
    function: usize,
    concat: usize,
}

fn find(graph: &Graph, index: &Index, function: usize) -> Option<Found> {
    let node = &graph.nodes[function];
    if !is_function(node) {
        return None;
    }
    let joined = |v: &ValueId| {
        let concat = index.producers[v.index()]?;
        (matches!(graph.nodes[concat].op, Op::Concat { .. }) && index.uses[v.index()] == 1).then_some(concat)
    };
    let (input, concat) = node.inputs.iter().enumerate().find_map(|(i, v)| Some((i, joined(v)?)))?;
    let shape = graph.value(node.outputs[0]).shape;
    let others = || node.inputs.iter().enumerate().filter(|(i, _)| *i != input).map(|(_, v)| *v);
    let constants = others().all(|v| strided::constant(graph, &index.producers, v).is_some() && graph.value(v).shape == shape);
    let alone = others().next().is_none();
    let takes = |v: &ValueId| match node.op {
        Op::Primitive(Primitive::Unary(function)) if is_product(graph, index, *v) => {
            alone && (is_usual(function) || has_path(function) && graph.value(*v).shape.elements() <= FEW)
        }
        _ => {
            let made = index.producers[v.index()].filter(|_| index.uses[v.index()] == 1);
            made.is_some_and(|made| is_function(&graph.nodes[made]))
                && functions(graph, index, *v).is_some_and(|before| before < MAX_PRIMITIVES)
        }
    };
    (constants && graph.nodes[concat].inputs.iter().all(takes)).then_some(Found { function, concat })
}

fn is_function(node: &Node) -> bool {
    matches!(node.op, Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)))
}

/// True for what a product makes, looked at in another way or not, if nobody else reads it.
fn is_product(graph: &Graph, index: &Index, value: ValueId) -> bool {
    let mut at = value;
    while index.uses[at.index()] == 1 {
        let Some(node) = index.producers[at.index()].map(|n| &graph.nodes[n]) else {
            return false;
        };
        match node.op {
            Op::View(ViewOp::Reshape | ViewOp::Transpose { .. }) => at = node.inputs[0],
            Op::Primitive(Primitive::Conv { .. } | Primitive::ConvTranspose { .. } | Primitive::MatMul) => return true,
            _ => return false,
        }
    }
    false
}

/// How many functions an operator has that makes `value`, if functions are all it has.
fn functions(graph: &Graph, index: &Index, value: ValueId) -> Option<usize> {
    let Some(node) = index.producers[value.index()].map(|n| &graph.nodes[n]) else {
        return Some(0);
    };
    let Op::Primitive(primitive) = &node.op else { return Some(0) };
    if !is_function(node) {
        return (!takes_functions(primitive)).then_some(0);
    }
    let before = |v: &ValueId| match index.uses[v.index()] {
        1 => functions(graph, index, *v),
        _ => Some(0),
    };
    let all = node.inputs.iter().map(before).try_fold(1, |sum, count| Some(sum + count?));
    all.filter(|&count| count <= MAX_PRIMITIVES)
}

fn to_parts(graph: &mut Graph, found: Found) {
    let Found { function, concat } = found;
    let single = graph.value(graph.nodes[function].outputs[0]).single;
    for part in parted::apply(graph, concat, function) {
        graph.values[part.index()].single = single;
    }
}

/// A function of few elements that operators of functions alone read.
struct Repeated {
    function: usize,
    /// The readers of each operator but the last.
    readers: Vec<Vec<usize>>,
}

fn repeated(graph: &Graph) -> Option<Repeated> {
    let index = Index::of(graph);
    (0..graph.nodes.len()).rev().find_map(|function| {
        let node = &graph.nodes[function];
        let &[made] = node.outputs.as_slice() else { return None };
        let shape = graph.value(made).shape;
        let own = functions(graph, &index, made).filter(|_| is_function(node) && index.uses[made.index()] > 1)?;
        // Each with the last function of its operator.
        let readers: Vec<(usize, usize)> = (function + 1..graph.nodes.len())
            .filter(|&n| graph.nodes[n].inputs.contains(&made))
            .map(|n| (n, last_of(graph, &index, n)))
            .collect();
        let reads = |&(n, _): &(usize, usize)| graph.nodes[n].inputs.iter().filter(|&&v| v == made).count();
        let all = readers.iter().map(reads).sum::<usize>() == index.uses[made.index()] as usize;
        // Longer chains are several operators, which would only begin elsewhere.
        let takes = |&(n, last): &(usize, usize)| {
            let (reader, last) = (&graph.nodes[n], &graph.nodes[last]);
            let alike = is_function(reader) && reader.inputs.iter().all(|&v| graph.value(v).shape == shape);
            alike && functions(graph, &index, last.outputs[0]).is_some_and(|count| count + own <= MAX_PRIMITIVES)
        };
        if shape.elements() > FEW || !all || !readers.iter().all(takes) {
            return None;
        }
        let mut operators: Vec<(usize, Vec<usize>)> = Vec::new();
        for (reader, last) in readers {
            match operators.iter_mut().find(|(other, _)| *other == last) {
                Some((_, readers)) => readers.push(reader),
                None => operators.push((last, vec![reader])),
            }
        }
        operators.pop();
        let readers: Vec<Vec<usize>> = operators.into_iter().map(|(_, readers)| readers).collect();
        (!readers.is_empty()).then_some(Repeated { function, readers })
    })
}

/// The last function of the operator that `function` is in: of each that a function alone reads the next is there too.
fn last_of(graph: &Graph, index: &Index, function: usize) -> usize {
    let mut last = function;
    loop {
        let made = graph.nodes[last].outputs[0];
        let next = (last + 1..graph.nodes.len()).find(|&n| graph.nodes[n].inputs.contains(&made));
        match next.filter(|&n| index.uses[made.index()] == 1 && is_function(&graph.nodes[n])) {
            Some(next) => last = next,
            None => return last,
        }
    }
}

fn repeat(graph: &mut Graph, found: Repeated) {
    let Repeated { function, readers } = found;
    let node = graph.nodes[function].clone();
    let made = node.outputs[0];
    let (dtype, shape) = graph.operand(made);
    let mut nodes = Vec::new();
    for (again, readers) in readers.into_iter().enumerate() {
        let name = format!("{}.again{again}", node.name);
        let own = graph.add_value(name.clone(), dtype, shape);
        graph.values[own.index()].single = graph.value(made).single;
        for reader in readers {
            let inputs = graph.nodes[reader].inputs.iter_mut();
            inputs.filter(|v| **v == made).for_each(|v| *v = own);
        }
        nodes.push(Node {
            name,
            outputs: vec![own],
            ..node.clone()
        });
    }
    graph.nodes.splice(function..function, nodes);
}
