//! Drops nodes whose outputs nobody reads.

use crate::planner::graph::Graph;

pub fn run(graph: &mut Graph) {
    let mut live = vec![false; graph.values.len()];
    for named in &graph.outputs {
        live[named.value.index()] = true;
    }
    let mut keep = vec![false; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate().rev() {
        keep[index] = node.outputs.iter().any(|v| live[v.index()]);
        if keep[index] {
            node.inputs.iter().for_each(|v| live[v.index()] = true);
        }
    }
    let mut keep = keep.iter();
    graph.nodes.retain(|_| keep.next() == Some(&true));
}
