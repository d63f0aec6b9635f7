//! What the recurrent primitives have in common.

use super::Primitive;

/// What a recurrent layer does with the sums of its gates, of which every cell has four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell {
    /// [`Primitive::Lstm`].
    Lstm,
    /// [`Primitive::Gru`].
    Gru,
}

impl Cell {
    /// Tensors of states between two steps: h, and c of long short-term memory.
    pub const fn states(self) -> usize {
        match self {
            Cell::Lstm => 2,
            Cell::Gru => 1,
        }
    }
}

impl Primitive {
    /// The cell of a recurrent layer, and whether it walks from the last step to the first; `None` of other primitives.
    pub const fn recurrence(&self) -> Option<(Cell, bool)> {
        match self {
            Primitive::Lstm { reverse } => Some((Cell::Lstm, *reverse)),
            Primitive::Gru { reverse } => Some((Cell::Gru, *reverse)),
            _ => None,
        }
    }
}
