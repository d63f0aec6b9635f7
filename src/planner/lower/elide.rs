//! Which values are born inside another value's storage: parts of a concatenation, views among them that have to be stored anew, and
//! results in their port.
//!
//! Decided from the outermost storage inwards, before anything has a place: a result's port first, then concatenations from
//! the last to the first, so that a concatenation inside another one finds its own place already known.

use super::group::Unit;
use super::layout::is_spatial;
use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::planner::strided::{Strided, producers};
use crate::primitive::{Primitive, ReduceKind};
use crate::tensor::Layout;

/// Storage that several values may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Storage of the arena, of so many elements.
    Arena {
        /// Distinguishes the roots of one network.
        id: usize,
    },
    /// The storage of the graph's output number `index`.
    Port {
        /// Index into the graph's outputs.
        index: usize,
    },
}

/// Where a value is born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The storage.
    pub root: Root,
    /// Where in it.
    pub at: Strided,
    /// The whole value whose storage it is.
    pub owner: ValueId,
}

/// The homes of all values that do not simply get storage of their own. Concatenations always have one.
///
/// With `elide` unset no value but a concatenation's own output has a home, and each part is copied.
pub fn homes(graph: &Graph, units: &[Unit], natural: &[Layout], elide: bool) -> Vec<Option<Home>> {
    let mut search = Search {
        graph,
        natural,
        producers: producers(graph),
        spatial: over_pixels(graph, units),
        homes: vec![None; graph.values.len()],
    };
    if elide {
        for (index, named) in graph.outputs.iter().enumerate() {
            let shape = graph.values[named.value.index()].shape;
            let at = Strided::whole(Layout::contiguous(shape));
            let root = Root::Port { index };
            // A port's order is fixed, so only a value that is stored in that order anyway is born there.
            search.settle(
                named.value,
                Home {
                    root,
                    at,
                    owner: named.value,
                },
                true,
            );
        }
    }
    for (id, unit) in units.iter().enumerate().rev() {
        let Unit::Concat(node) = unit else { continue };
        let node = &graph.nodes[*node];
        let Op::Concat { axis } = node.op else { continue };
        let output = node.outputs[0];
        let home = *search.homes[output.index()].get_or_insert(Home {
            root: Root::Arena { id },
            at: Strided::whole(natural[output.index()]),
            owner: output,
        });
        if !elide {
            continue;
        }
        let mut start = 0;
        for &part in &node.inputs {
            let extent = graph.values[part.index()].shape.dim(axis);
            if let Some(at) = home.at.band(axis, start, extent) {
                search.settle(part, Home { at, ..home }, false);
            }
            start += extent;
        }
    }
    search.homes
}

struct Search<'a> {
    graph: &'a Graph,
    natural: &'a [Layout],
    producers: Vec<Option<usize>>,
    /// For each node, whether its operator has a primitive over pixels.
    spatial: Vec<bool>,
    homes: Vec<Option<Home>>,
}

fn over_pixels(graph: &Graph, units: &[Unit]) -> Vec<bool> {
    let mut spatial = vec![false; graph.nodes.len()];
    for unit in units {
        let Unit::Operator(nodes) = unit else { continue };
        let any = nodes
            .iter()
            .any(|&n| matches!(&graph.nodes[n].op, Op::Primitive(p) if is_spatial(p)));
        nodes.iter().for_each(|&n| spatial[n] = any);
    }
    spatial
}

impl Search<'_> {
    /// Lets `value`, or the value it is a reshape or transpose of, be born at `home`, if that is possible and good.
    fn settle(&mut self, value: ValueId, home: Home, exact: bool) {
        let part = value;
        let mut value = value;
        let mut at = home.at;
        loop {
            let Some(node) = self.producers[value.index()] else { return };
            let node = &self.graph.nodes[node];
            let Op::View(view @ (ViewOp::Reshape | ViewOp::Transpose { .. })) = &node.op else {
                break;
            };
            value = node.inputs[0];
            match at.unview(view, self.graph.values[value.index()].shape) {
                Some(inner) => at = inner,
                None => return,
            }
        }
        let Some(producer) = self.producers[value.index()] else { return };
        let made_here = !matches!(self.graph.nodes[producer].op, Op::View(_)) && self.graph.values[value.index()].data.is_none();
        let natural = &self.natural[value.index()];
        let good = if exact {
            at.layout.is_dense_as(natural)
        } else {
            self.keeps_runs(producer, natural, &at.layout)
        };
        if !made_here && !exact && self.is_reshape(part) {
            // Unless its input's storage can be seen so, it is stored anew.
            self.homes[part.index()].get_or_insert(home);
            return;
        }
        let home_of = &mut self.homes[value.index()];
        if made_here && good && home_of.is_none() {
            *home_of = Some(Home { at, ..home });
        }
    }

    fn is_reshape(&self, value: ValueId) -> bool {
        self.producers[value.index()].is_some_and(|node| self.graph.nodes[node].op == Op::View(ViewOp::Reshape))
    }

    /// True if the elements that lie side by side in storage of its own do so there, where kernels need that. A picture of one
    /// channel has no neighbours to keep: kernels step from pixel to pixel by strides.
    fn keeps_runs(&self, producer: usize, natural: &Layout, there: &Layout) -> bool {
        let run = (0..natural.shape.rank()).find(|&a| natural.shape.dim(a) > 1 && natural.stride(a) == 1);
        let free = if self.spatial[producer] || reduces_channels(&self.graph.nodes[producer].op) {
            natural.shape.dim(1) <= 1
        } else {
            natural.shape.rank() < 3
        };
        free || run.is_none_or(|axis| there.stride(axis) == 1)
    }
}

/// True for a reduction of each pixel's channels: kernels walk what they read, and write pixel by pixel.
fn reduces_channels(op: &Op) -> bool {
    matches!(
        op,
        Op::Primitive(Primitive::Reduce {
            kind: ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Max,
            axes: 0b10
        })
    )
}
