//! Which nodes and names the results need: nothing else of a file is looked at.

use super::proto::{GraphProto, NodeProto};
use std::collections::BTreeSet;

/// What the results depend on.
pub(super) struct Needed<'a> {
    /// For every node whether a result does.
    pub nodes: Vec<bool>,
    /// The names that those nodes read, and the results' own.
    pub names: BTreeSet<&'a str>,
}

/// What the tensors `outputs` need, or those that the file lists if none are named.
pub(super) fn needed<'a>(graph: &'a GraphProto, outputs: &'a [String]) -> Needed<'a> {
    let mut nodes = vec![false; graph.node.len()];
    let mut names: BTreeSet<&str> = if outputs.is_empty() {
        graph.output.iter().map(|o| o.name.as_str()).collect()
    } else {
        outputs.iter().map(String::as_str).collect()
    };
    // Nodes stand before those that read them.
    for (node, needed) in graph.node.iter().zip(&mut nodes).rev() {
        if node.output.iter().any(|o| !o.is_empty() && names.contains(o.as_str())) {
            *needed = true;
            read(node, &mut names);
        }
    }
    Needed { nodes, names }
}

/// The names that a node reads, its branches included.
pub(super) fn read<'a>(node: &'a NodeProto, names: &mut BTreeSet<&'a str>) {
    names.extend(node.input.iter().map(String::as_str));
    for branch in node.attribute.iter().filter_map(|a| a.g.as_deref()) {
        branch.node.iter().for_each(|inner| read(inner, names));
        names.extend(branch.output.iter().map(|o| o.name.as_str()));
    }
}
