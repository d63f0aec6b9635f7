//! Nodes in an order in which each stands behind those that it reads: ONNX asks for it, and some converters do not care.

use super::cut::read;
use super::proto::{GraphProto, NodeProto};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Sorts the nodes of a graph and of its branches, unless they are sorted: of those that could come next always the one that stands
/// first in the file. Nodes that wait for each other, or for themselves, stay behind the others, where importing tells of them.
pub(super) fn sort(graph: &mut GraphProto) {
    let attributes = graph.node.iter_mut().flat_map(|node| &mut node.attribute);
    attributes.filter_map(|a| a.g.as_deref_mut()).for_each(sort);
    if let Some(order) = order(&graph.node) {
        let mut nodes: Vec<Option<NodeProto>> = std::mem::take(&mut graph.node).into_iter().map(Some).collect();
        graph.node = order.into_iter().filter_map(|at| nodes[at].take()).collect();
    }
}

/// The places of nodes in a sorted order; `None` if they have one.
fn order(nodes: &[NodeProto]) -> Option<Vec<usize>> {
    let mut makers: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            makers.entry(output).or_insert(at);
        }
    }
    let awaited = |node: &NodeProto| -> BTreeSet<usize> {
        let mut names = BTreeSet::new();
        read(node, &mut names);
        names.into_iter().filter_map(|name| makers.get(name).copied()).collect()
    };
    let awaited: Vec<BTreeSet<usize>> = nodes.iter().map(awaited).collect();
    if awaited.iter().enumerate().all(|(at, of)| of.iter().all(|&maker| maker < at)) {
        return None;
    }
    let mut readers = vec![Vec::new(); nodes.len()];
    for (at, of) in awaited.iter().enumerate() {
        of.iter().for_each(|&maker| readers[maker].push(at));
    }
    let mut left: Vec<usize> = awaited.iter().map(BTreeSet::len).collect();
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes.len()).filter(|&at| left[at] == 0).map(Reverse).collect();
    let mut sorted = Vec::with_capacity(nodes.len());
    while let Some(Reverse(at)) = ready.pop() {
        sorted.push(at);
        for &reader in &readers[at] {
            left[reader] -= 1;
            if left[reader] == 0 {
                ready.push(Reverse(reader));
            }
        }
    }
    sorted.extend((0..nodes.len()).filter(|&at| left[at] > 0));
    Some(sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(nodes: &[(&str, &str)]) -> Option<Vec<usize>> {
        let names = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        let nodes: Vec<NodeProto> = nodes
            .iter()
            .map(|(input, output)| NodeProto {
                input: names(input),
                output: names(output),
                ..NodeProto::default()
            })
            .collect();
        order(&nodes)
    }

    #[test]
    fn what_is_sorted_stays_and_what_is_not_moves_behind_what_it_reads() {
        assert_eq!(sorted(&[("x", "a"), ("a x", "b"), ("b a", "c")]), None);
        assert_eq!(sorted(&[("b", "c"), ("x", "a"), ("a", "b"), ("x", "d")]), Some(vec![1, 2, 0, 3]));
    }

    #[test]
    fn circles_stay_behind_the_others() {
        assert_eq!(
            sorted(&[("b", "a"), ("a", "b"), ("d", "c"), ("x", "d"), ("e", "e")]),
            Some(vec![3, 2, 0, 1, 4])
        );
    }
}
