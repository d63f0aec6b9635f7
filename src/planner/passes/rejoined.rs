//! Parts of one value that a concatenation puts side by side again become one part.
//!
//! Cross-stage blocks (Wang et al. 2020) split what a convolution makes, compute on with the last share, and join both shares
//! with all that follows. A share of a value has no storage of its own to be born in, so each would be copied to its place; the
//! value whole is stored there from the start, and who computes on reads its share there.

use super::rewrite::Index;
use super::share::Share;
use crate::planner::graph::{Graph, Op, ValueId};

pub fn run(graph: &mut Graph) {
    let index = Index::of(graph);
    let mut added = Vec::new();
    for node in 0..graph.nodes.len() {
        let Op::Concat { axis } = graph.nodes[node].op else { continue };
        let parts = graph.nodes[node].inputs.clone();
        let mut joined: Vec<ValueId> = Vec::with_capacity(parts.len());
        let mut at = 0;
        while at < parts.len() {
            let (count, whole) = run_of_shares(graph, &index, &parts[at..], axis);
            match whole {
                Some(share) if count > 1 => {
                    let whole = share.value(graph, axis, &graph.nodes[node].name.clone());
                    added.extend(whole.1.map(|view| (node, view)));
                    joined.push(whole.0);
                }
                _ => joined.extend(&parts[at..at + count]),
            }
            at += count;
        }
        graph.nodes[node].inputs = joined;
    }
    for (node, view) in added.into_iter().rev() {
        graph.nodes.insert(node, view);
    }
}

/// How many of the first parts are shares of one value that follow each other, and the share that they are together. Of parts
/// that are none it is one.
fn run_of_shares(graph: &Graph, index: &Index, parts: &[ValueId], axis: usize) -> (usize, Option<Share>) {
    let Some(first) = parts.first().and_then(|&p| Share::of(graph, index, p, axis)) else {
        return (1, None);
    };
    let mut whole = first;
    let mut count = 1;
    while let Some(next) = parts.get(count).and_then(|&p| Share::of(graph, index, p, axis))
        && let Some(both) = whole.followed_by(next)
    {
        whole = both;
        count += 1;
    }
    (count, Some(whole))
}
