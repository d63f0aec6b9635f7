//! Views in a row that cut axes, change their order and join them again, more than once, do so once: what lies between has no order
//! that strides can say, and would be stored.
//!
//! Patches are unfolded so, and folded again (Mehta and Rastegari 2022, MobileViT): a picture's axes are cut into those of patches and
//! their pixels in two steps. Every axis is a product of factors that no step cuts, so the steps are one order of these.

use super::rewrite::{Index, at_each_node};
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::tensor::Shape;

pub fn run(graph: &mut Graph) {
    at_each_node(graph, find, apply);
}

/// Views that are as few as one order of factors takes: cut, turn, join.
const SHORTEST: usize = 3;

/// A run of views, and what they are.
struct Found {
    /// The last one.
    last: usize,
    from: ValueId,
    factors: Shape,
    perm: Vec<usize>,
}

fn find(graph: &Graph, index: &Index, last: usize) -> Option<Found> {
    let arranges = |node: usize| is_order(&graph.nodes[node]);
    let followed = |value: ValueId| index.uses[value.index()] == 1 && graph.nodes.iter().any(|n| is_order(n) && n.inputs.contains(&value));
    let &[made] = graph.nodes[last].outputs.as_slice() else {
        return None;
    };
    if !arranges(last) || followed(made) {
        return None;
    }
    let mut run = vec![last];
    let mut from = graph.nodes[last].inputs[0];
    while let Some(node) = index.producers[from.index()].filter(|&node| arranges(node) && index.uses[from.index()] == 1) {
        run.push(node);
        from = graph.nodes[node].inputs[0];
    }
    let cuts = run
        .iter()
        .filter(|&&node| graph.nodes[node].op == Op::View(ViewOp::Reshape))
        .count();
    if run.len() <= SHORTEST || cuts < 2 {
        return None;
    }
    let mut factors = Factors::of(graph.value(from).shape);
    for &node in run.iter().rev() {
        match &graph.nodes[node].op {
            Op::View(ViewOp::Transpose { perm }) => factors.turn(perm),
            _ => factors.cut(graph.value(graph.nodes[node].outputs[0]).shape)?,
        }
    }
    let (factors, perm) = factors.ordered()?;
    Some(Found { last, from, factors, perm })
}

/// True for views of all elements in some order.
fn is_order(node: &Node) -> bool {
    matches!(node.op, Op::View(ViewOp::Reshape | ViewOp::Transpose { .. }))
}

/// The axes of a value as products of factors of those that it was begun with.
struct Factors {
    /// Extent of each factor, and the axis that it is of, in the order of the beginning.
    extents: Vec<(u32, usize)>,
    /// The factors of each axis now, outermost first.
    axes: Vec<Vec<usize>>,
}

impl Factors {
    fn of(shape: Shape) -> Factors {
        let (mut extents, mut axes) = (Vec::new(), Vec::new());
        for (axis, &extent) in shape.dims().iter().enumerate() {
            axes.push(if extent == 1 { Vec::new() } else { vec![extents.len()] });
            if extent != 1 {
                extents.push((extent, axis));
            }
        }
        Factors { extents, axes }
    }

    fn turn(&mut self, perm: &[usize]) {
        self.axes = perm.iter().map(|&axis| self.axes[axis].clone()).collect();
    }

    /// Makes the axes those of `shape`, of as many elements; `None` where one begins inside of a factor that it does not divide.
    fn cut(&mut self, shape: Shape) -> Option<()> {
        let mut rest: Vec<usize> = self.axes.concat();
        rest.reverse();
        self.axes.clear();
        for &extent in shape.dims() {
            let (mut axis, mut left) = (Vec::new(), extent);
            while left > 1 {
                let factor = rest.pop()?;
                let (whole, of) = self.extents[factor];
                if left.is_multiple_of(whole) {
                    axis.push(factor);
                    left /= whole;
                    continue;
                }
                if !whole.is_multiple_of(left) {
                    return None;
                }
                // The factor's outer part ends this axis; its inner part begins what follows, and comes behind it from the beginning on.
                self.extents[factor] = (left, of);
                self.extents.insert(factor + 1, (whole / left, of));
                let moved = |f: &mut usize| *f += usize::from(*f > factor);
                self.axes.iter_mut().flatten().for_each(moved);
                axis.iter_mut().for_each(moved);
                rest.iter_mut().for_each(moved);
                axis.push(factor);
                rest.push(factor + 1);
                left = 1;
            }
            self.axes.push(axis);
        }
        rest.is_empty().then_some(())
    }

    /// The factors' extents in the order of the beginning, and which of them comes where now; neighbours that stayed neighbours, of one
    /// axis then and of one now, are one. `None` where there are more than a tensor has axes.
    fn ordered(&self) -> Option<(Shape, Vec<usize>)> {
        let mut runs: Vec<Vec<usize>> = Vec::new();
        for axis in &self.axes {
            for (at, &factor) in axis.iter().enumerate() {
                let follows = at > 0 && axis[at - 1] + 1 == factor && self.extents[factor - 1].1 == self.extents[factor].1;
                match runs.last_mut().filter(|_| follows) {
                    Some(run) => run.push(factor),
                    None => runs.push(vec![factor]),
                }
            }
        }
        if runs.len() > MAX_RANK {
            return None;
        }
        let mut begun: Vec<usize> = (0..runs.len()).collect();
        begun.sort_by_key(|&run| runs[run][0]);
        let extent = |run: &usize| runs[*run].iter().map(|&factor| self.extents[factor].0).product();
        let dims: Vec<u32> = begun.iter().map(extent).collect();
        let place = |run: usize| begun.iter().position(|&b| b == run);
        let perm: Option<Vec<usize>> = (0..runs.len()).map(place).collect();
        Some((Shape::new(&dims)?, perm?))
    }
}

fn apply(graph: &mut Graph, found: Found) {
    let Found { last, from, factors, perm } = found;
    let name = graph.nodes[last].name.clone();
    let dtype = graph.value(from).dtype;
    let turned: Vec<u32> = perm.iter().map(|&axis| factors.dim(axis)).collect();
    let Some(turned) = Shape::new(&turned) else { return };
    let mut steps = vec![
        (ViewOp::Reshape, factors, "factors"),
        (ViewOp::Transpose { perm: perm.clone() }, turned, "turned"),
    ];
    if perm.is_sorted() {
        steps.clear();
    }
    let mut nodes = Vec::new();
    let mut value = from;
    for (view, shape, what) in steps {
        let output = graph.add_value(format!("{name}.{what}"), dtype, shape);
        nodes.push(Node {
            name: format!("{name}.{what}"),
            op: Op::View(view),
            inputs: vec![value],
            outputs: vec![output],
        });
        value = output;
    }
    graph.nodes[last].op = Op::View(ViewOp::Reshape);
    graph.nodes[last].inputs = vec![value];
    graph.nodes.splice(last..last, nodes);
}
