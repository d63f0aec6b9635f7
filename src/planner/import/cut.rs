//! Which nodes the wanted results need.

use super::proto::{GraphProto, NodeProto};
use std::collections::BTreeSet;

/// For every node whether a tensor of `outputs` depends on it; all of them without any such tensor.
pub(super) fn needed(graph: &GraphProto, outputs: &[String]) -> Vec<bool> {
    let mut needed = vec![outputs.is_empty(); graph.node.len()];
    if outputs.is_empty() {
        return needed;
    }
    let mut wanted: BTreeSet<&str> = outputs.iter().map(String::as_str).collect();
    // Nodes stand before those that read them.
    for (node, needed) in graph.node.iter().zip(&mut needed).rev() {
        if node.output.iter().any(|o| !o.is_empty() && wanted.contains(o.as_str())) {
            *needed = true;
            read(node, &mut wanted);
        }
    }
    needed
}

/// The names that a node reads, its branches included.
fn read<'a>(node: &'a NodeProto, names: &mut BTreeSet<&'a str>) {
    names.extend(node.input.iter().map(String::as_str));
    for branch in node.attribute.iter().filter_map(|a| a.g.as_deref()) {
        branch.node.iter().for_each(|inner| read(inner, names));
        names.extend(branch.output.iter().map(|o| o.name.as_str()));
    }
}
