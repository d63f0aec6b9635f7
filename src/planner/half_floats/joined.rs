//! Results that are put together of what functions make are widened part by part: a part is turned and widened as it is brought to its
//! place, where the whole would be put together first and be read and written once more. Boxes and scores of a detector are such.

use crate::planner::graph::{Graph, Node, Op, ValueId};
use crate::planner::passes::rewrite::Index;
use crate::primitive::Primitive;
use crate::tensor::DType;

/// Most parts that no function makes: products and joins store what they make where the whole has it, so that one copy of the whole is
/// fewer launches than one of each.
const STORED: usize = 1;

/// Widens joined results part by part, where that is no more launches.
pub fn widen(graph: &mut Graph) {
    while let Some((copy, concat)) = (0..graph.nodes.len()).find_map(|node| Some((node, joined(graph, node)?))) {
        split(graph, copy, concat);
    }
}

/// The node whose halves alone `copy` widens to a result, if it puts functions' results together.
fn joined(graph: &Graph, copy: usize) -> Option<usize> {
    let Node { op, inputs, outputs, .. } = &graph.nodes[copy];
    let (&[halves], &[result]) = (inputs.as_slice(), outputs.as_slice()) else {
        return None;
    };
    let index = Index::of(graph);
    let widens = graph.value(halves).dtype == DType::F16 && graph.value(result).dtype == DType::F32;
    if *op != Op::Primitive(Primitive::Copy)
        || !widens
        || !graph.is_of_result(result)
        || graph.is_result(halves)
        || index.uses[halves.index()] != 1
    {
        return None;
    }
    let concat = index.producers[halves.index()]?;
    let node = &graph.nodes[concat];
    let functions = node.inputs.iter().filter(|&&part| is_of_function(graph, &index, part)).count();
    let few = functions > 0 && node.inputs.len() - functions <= STORED;
    (matches!(node.op, Op::Concat { .. }) && few).then_some(concat)
}

/// True for what functions of one or two values make, however it is looked at, or put together of that.
fn is_of_function(graph: &Graph, index: &Index, part: ValueId) -> bool {
    let (made, _) = index.behind_views(graph, part);
    let node = index.producers[made.index()].map(|node| &graph.nodes[node]);
    node.is_some_and(|node| match node.op {
        Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)) => true,
        Op::Concat { .. } => node.inputs.iter().all(|&v| is_of_function(graph, index, v)),
        _ => false,
    })
}

fn split(graph: &mut Graph, copy: usize, concat: usize) {
    let (copy, concat) = (graph.nodes[copy].clone(), graph.nodes[concat].clone());
    graph.nodes.retain(|n| n.outputs != copy.outputs && n.outputs != concat.outputs);
    let widened = concat.inputs.iter().enumerate().map(|(part, &halves)| {
        let name = format!("{}.part{part}", copy.name);
        let wide = graph.add_value(name.clone(), DType::F32, graph.value(halves).shape);
        graph.nodes.push(Node::copy(name, halves, wide));
        wide
    });
    let inputs = widened.collect();
    graph.nodes.push(Node {
        name: copy.name,
        op: concat.op,
        inputs,
        outputs: copy.outputs,
    });
}
