//! Putting a graph together: values, nodes, look-ups.

use super::{Graph, Node, Op, Value, ValueId};
use crate::tensor::{DType, Shape, Tensor};
use std::sync::Arc;

impl Graph {
    /// The value of an id that this graph handed out. Panics on another graph's id.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Type and shape of a value, as [`crate::primitive::Primitive::check`] takes them.
    pub fn operand(&self, id: ValueId) -> (DType, Shape) {
        let value = self.value(id);
        (value.dtype, value.shape)
    }

    /// Adds a value without elements: an input, or what a node will compute.
    pub fn add_value(&mut self, name: impl Into<String>, dtype: DType, shape: Shape) -> ValueId {
        self.push(Value {
            name: name.into(),
            dtype,
            shape,
            data: None,
            single: false,
        })
    }

    /// Adds a constant.
    pub fn add_constant(&mut self, name: impl Into<String>, data: Arc<Tensor>) -> ValueId {
        self.push(Value {
            name: name.into(),
            dtype: data.dtype(),
            shape: data.shape(),
            data: Some(data),
            single: false,
        })
    }

    /// True for a result.
    pub fn is_result(&self, value: ValueId) -> bool {
        self.outputs.iter().any(|named| named.value == value)
    }

    /// True for a result, and for a part of one that is put together.
    pub fn is_of_result(&self, value: ValueId) -> bool {
        let joins = |n: &Node| matches!(n.op, Op::Concat { .. }) && n.inputs.contains(&value) && self.is_of_result(n.outputs[0]);
        self.is_result(value) || self.nodes.iter().any(joins)
    }

    /// Adds a node after all that are there.
    pub fn add_node(&mut self, name: impl Into<String>, op: Op, inputs: Vec<ValueId>, outputs: Vec<ValueId>) {
        self.nodes.push(Node {
            name: name.into(),
            op,
            inputs,
            outputs,
        });
    }

    fn push(&mut self, value: Value) -> ValueId {
        // Importers and passes stay far below the 2^32 values that an id can name.
        let id = ValueId(self.values.len() as u32);
        self.values.push(value);
        id
    }
}
