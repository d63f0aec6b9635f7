//! What ONNX names stand for: operands, values of too many axes, sequences.

use super::error::{Fallible, given_twice, limit};
use super::host::{Elem, Host};
use crate::planner::graph::ValueId;
use crate::tensor::Shape;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Places that the sequences of one network may have together: a list that grows by a tensor at each of many nodes has their square.
const MAX_PLACES: usize = 1 << 20;

/// A constant, and its value in the graph once a node reads it.
#[derive(Debug)]
pub(super) struct Constant {
    /// Its name.
    pub name: String,
    /// Its elements.
    pub host: Host,
    /// The value, once there is one.
    pub value: Cell<Option<ValueId>>,
}

/// What an ONNX name stands for.
#[derive(Clone, Debug)]
pub(super) enum Operand {
    /// Known now.
    Constant(Rc<Constant>),
    /// Known when the network runs.
    Computed {
        /// The value in the graph.
        id: ValueId,
        /// ONNX element type.
        elem: Elem,
        /// Its shape.
        shape: Shape,
    },
}

impl Operand {
    pub fn shape(&self) -> Shape {
        match self {
            Operand::Constant(c) => c.host.shape(),
            Operand::Computed { shape, .. } => *shape,
        }
    }

    pub fn elem(&self) -> Elem {
        match self {
            Operand::Constant(c) => c.host.elem(),
            Operand::Computed { elem, .. } => *elem,
        }
    }

    /// The elements, of a constant.
    pub fn host(&self) -> Option<&Host> {
        match self {
            Operand::Constant(c) => Some(&c.host),
            Operand::Computed { .. } => None,
        }
    }
}

/// A value of any rank: see [`deep`](super::deep).
#[derive(Clone, Debug)]
pub(super) struct Deep {
    /// Its elements in C order, under any shape.
    pub elements: Operand,
    /// Its extents.
    pub dims: Vec<i64>,
}

/// The sequences of a network.
#[derive(Debug, Default)]
pub(super) struct Sequences {
    by_name: BTreeMap<String, Rc<[Operand]>>,
    places: usize,
}

impl Sequences {
    /// The sequence of this name.
    pub fn get(&self, name: &str) -> Option<Rc<[Operand]>> {
        self.by_name.get(name).cloned()
    }

    /// Adds a sequence under a name of its own.
    pub fn add(&mut self, name: &str, parts: Vec<Operand>) -> Fallible<()> {
        self.places = self.places.saturating_add(parts.len());
        if self.places > MAX_PLACES {
            return Err(limit(format!("sequences of more than {MAX_PLACES} tensors together")));
        }
        match self.by_name.insert(name.to_owned(), parts.into()) {
            None => Ok(()),
            Some(_) => Err(given_twice(name)),
        }
    }
}
