//! What is known of quantized values besides their bytes: the whole numbers from their zero points on, and which floats lie on a grid
//! already, so that rounding them to it again changes nothing.

use super::host::Elem;
use super::values::Operand;
use crate::planner::graph::{Graph, Op, ValueId, ViewOp};
use crate::primitive::{PoolKind, Primitive, Unary};
use std::collections::BTreeMap;

/// Nodes that are looked at for the grid of one value.
const MOST: u32 = 64;

/// The multiples of a scale that the bytes of a type stand for; one scale and one zero point for a whole value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    /// The distance of neighbours.
    pub scale: f64,
    /// The byte that stands for 0.
    pub zero: f64,
    /// The type of the bytes, which says where the grid ends.
    pub elem: Elem,
}

/// What was seen of one network's values.
#[derive(Debug, Default)]
pub(super) struct Grids {
    /// Floats that lie on a grid, by value.
    on: BTreeMap<ValueId, Grid>,
    /// The floats, on a grid, that bytes were made of.
    made_of: BTreeMap<ValueId, (Operand, Grid)>,
    /// The whole numbers less the zero point that bytes stand for.
    centred: BTreeMap<ValueId, (Operand, f64)>,
}

impl Grids {
    /// Remembers that the floats `x` lie on `grid`.
    pub fn put(&mut self, x: &Operand, grid: Grid) {
        if let Operand::Computed { id, .. } = x {
            self.on.insert(*id, grid);
        }
    }

    /// Remembers that `bytes` are `centred` more than `zero`.
    pub fn remember_centred(&mut self, bytes: &Operand, centred: Operand, zero: f64) {
        if let Operand::Computed { id, .. } = bytes {
            self.centred.insert(*id, (centred, zero));
        }
    }

    /// What `bytes` are more than `zero`, where that is known.
    pub fn centred(&self, bytes: &Operand, zero: f64) -> Option<Operand> {
        let Operand::Computed { id, .. } = bytes else { return None };
        let (centred, of) = self.centred.get(id)?;
        (*of == zero).then(|| centred.clone())
    }

    /// Remembers that `bytes` are `x` on `grid`, if `x` lay on it before.
    pub fn remember(&mut self, graph: &Graph, bytes: &Operand, x: &Operand, grid: Grid) {
        if let (Operand::Computed { id: bytes, .. }, Operand::Computed { id: value, .. }) = (bytes, x)
            && self.of(graph, *value, &mut MOST.clone()) == Some(grid)
        {
            self.made_of.insert(*bytes, (x.clone(), grid));
        }
    }

    /// The floats on `grid` that `bytes` were made of.
    pub fn floats(&self, bytes: &Operand, grid: Grid) -> Option<Operand> {
        let Operand::Computed { id, .. } = bytes else { return None };
        let (floats, of) = self.made_of.get(id)?;
        (*of == grid).then(|| floats.clone())
    }

    /// The grid that a value lies on: what only looks at, joins or picks elements of a grid stays on it.
    fn of(&self, graph: &Graph, value: ValueId, left: &mut u32) -> Option<Grid> {
        if let Some(grid) = self.on.get(&value) {
            return Some(*grid);
        }
        *left = left.checked_sub(1)?;
        // The node that makes a value is among the last ones.
        let node = graph.nodes.iter().rfind(|n| n.outputs.contains(&value))?;
        let picks = match &node.op {
            Op::View(ViewOp::Reshape | ViewOp::Transpose { .. } | ViewOp::Slice { .. } | ViewOp::Broadcast) | Op::Concat { .. } => true,
            Op::Primitive(Primitive::Unary(Unary::Relu)) => true,
            Op::Primitive(Primitive::Pool {
                kind: PoolKind::Max { .. },
                ..
            }) => true,
            Op::Primitive(_) => false,
        };
        let mut grids = node.inputs.iter().filter(|_| picks).map(|&v| self.of(graph, v, left));
        let first = grids.next()??;
        grids.all(|grid| grid == Some(first)).then_some(first)
    }
}
