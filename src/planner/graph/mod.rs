//! The graph: a network between import and lowering, all shapes static, nodes in topological order.

mod build;
mod ranges;
mod verify;
mod view;

pub use ranges::{Ranges, WHOLE_FLOATS, WHOLE_HALVES};
pub use verify::{VerifyError, verify};
pub use view::broadcast;

use crate::primitive::Primitive;
use crate::tensor::{DType, Shape, Tensor};
use std::sync::Arc;

/// Index of a value in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The position in [`Graph::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A tensor in the graph.
#[derive(Clone, Debug)]
pub struct Value {
    /// The ONNX name, or one made from the node's.
    pub name: String,
    /// Element type (ONNX i64 is narrowed to i32).
    pub dtype: DType,
    /// Logical shape, ONNX axis order.
    pub shape: Shape,
    /// The elements, for a constant.
    pub data: Option<Arc<Tensor>>,
    /// An f32 that stays one in plans of halves, as far as passes leave it in place.
    pub single: bool,
}

/// What a node does.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Computes.
    Primitive(Primitive),
    /// Looks at the same elements in another way; one input, one output.
    View(ViewOp),
    /// Joins its inputs along an axis; one output.
    Concat {
        /// The axis.
        axis: usize,
    },
}

/// Ways to look at the elements of a value without computing. The output value's shape says the rest.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewOp {
    /// Same elements in C order under another shape (also Flatten, Squeeze, Unsqueeze, Identity).
    Reshape,
    /// Axes permuted: axis `a` of the output is axis `perm[a]` of the input.
    Transpose {
        /// The permutation.
        perm: Vec<usize>,
    },
    /// Every `step[a]`-th element from `start[a]` along each axis (also the parts of Split); steps may be negative, not 0.
    Slice {
        /// First element per axis.
        start: Vec<i64>,
        /// Step per axis.
        step: Vec<i64>,
    },
    /// Repeats extents of 1 (and missing leading axes) as NumPy broadcasting does.
    Broadcast,
}

/// A node of the graph.
#[derive(Clone, Debug)]
pub struct Node {
    /// The ONNX node's name (or its output's name), for errors and dumps.
    pub name: String,
    /// What it does.
    pub op: Op,
    /// Inputs, in the primitive's order.
    pub inputs: Vec<ValueId>,
    /// Outputs.
    pub outputs: Vec<ValueId>,
}

impl Node {
    /// A node that copies a value into another, between types too.
    pub fn copy(name: String, from: ValueId, to: ValueId) -> Node {
        Node {
            name,
            op: Op::Primitive(Primitive::Copy),
            inputs: vec![from],
            outputs: vec![to],
        }
    }
}

/// A graph input or output by name.
#[derive(Clone, Debug)]
pub struct Named {
    /// The ONNX name.
    pub name: String,
    /// The value.
    pub value: ValueId,
    /// True if ONNX declares it as i64: widened again at the border.
    pub widened: bool,
}

/// A network.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Name for errors: the file's name.
    pub name: String,
    /// All values.
    pub values: Vec<Value>,
    /// All nodes, in topological order.
    pub nodes: Vec<Node>,
    /// Inputs that are not constants.
    pub inputs: Vec<Named>,
    /// Outputs. May name inputs or constants.
    pub outputs: Vec<Named>,
}
