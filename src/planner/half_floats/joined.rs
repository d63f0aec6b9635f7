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
        Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_)) => !is_of_product(graph, index, made),
        // What is not halves yet is converted on its way.
        Op::Primitive(Primitive::Copy) => graph.value(node.inputs[0]).dtype != DType::F16,
        Op::Concat { .. } => node.inputs.iter().all(|&v| is_of_function(graph, index, v)),
        _ => false,
    })
}

/// True for what a product makes, functions behind it or not, and stores where it belongs.
fn is_of_product(graph: &Graph, index: &Index, value: ValueId) -> bool {
    let Some((node, primitive)) = index.primitive(graph, value) else {
        return false;
    };
    match primitive {
        Primitive::Conv { .. } | Primitive::ConvTranspose { .. } | Primitive::MatMul => true,
        Primitive::Unary(_) | Primitive::Binary(_) => {
            let mut inputs = graph.nodes[node].inputs.iter();
            inputs.any(|&v| index.uses[v.index()] == 1 && is_of_product(graph, index, v))
        }
        _ => false,
    }
}

fn split(graph: &mut Graph, copy: usize, concat: usize) {
    let (widens, joins) = (graph.nodes[copy].clone(), graph.nodes[concat].clone());
    let (mut nodes, mut inputs) = (Vec::new(), Vec::new());
    for (part, &halves) in joins.inputs.iter().enumerate() {
        let name = format!("{}.part{part}", widens.name);
        let wide = graph.add_value(name.clone(), DType::F32, graph.value(halves).shape);
        nodes.push(Node::copy(name, halves, wide));
        inputs.push(wide);
    }
    nodes.push(Node {
        name: widens.name,
        op: joins.op,
        inputs,
        outputs: widens.outputs,
    });
    // Parts of a part are in front of the result that it is put into.
    graph.nodes.splice(copy..=copy, nodes);
    graph.nodes.remove(concat);
}
