//! The verifier: what must hold of a graph after import and after every pass.

use super::{Graph, Node, Op, ValueId};
use crate::primitive::PrimitiveError;
use crate::tensor::Layout;

/// Where and why a graph is not well-formed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// An id beyond the table of values.
    #[error("node {node}: no value {id}")]
    Id {
        /// The node, or `graph` for the graph's inputs and outputs.
        node: String,
        /// The id.
        id: u32,
    },
    /// A value is read before (or without) being an input, a constant or a node's output.
    #[error("node {node} reads `{value}` before anything gives it")]
    Order {
        /// The node, or `graph` for the graph's outputs.
        node: String,
        /// The value's name.
        value: String,
    },
    /// A value is given twice: by two nodes, or by a node though it is an input or a constant.
    #[error("node {node} gives `{value}`, which is given already")]
    Twice {
        /// The node, or `graph` for the graph's inputs.
        node: String,
        /// The value's name.
        value: String,
    },
    /// A constant's elements do not have the value's type and shape.
    #[error("constant `{value}` differs from its elements in type or shape")]
    Constant {
        /// The value's name.
        value: String,
    },
    /// A primitive that does not fit its operands.
    #[error("node {node}: {primitive} does not fit its operands {operands}: {reason}")]
    Primitive {
        /// The node.
        node: String,
        /// The primitive with its attributes.
        primitive: String,
        /// Types and shapes of inputs and outputs.
        operands: String,
        /// What does not fit.
        reason: PrimitiveError,
    },
    /// A view or a join that does not fit its operands.
    #[error("node {node}: {op} does not fit its operands {operands}")]
    Form {
        /// The node.
        node: String,
        /// The operation.
        op: String,
        /// Types and shapes of inputs and outputs.
        operands: String,
    },
}

/// Checks that ids exist, that nodes stand in topological order and give each value once, and that every node fits its operands.
pub fn verify(graph: &Graph) -> Result<(), VerifyError> {
    let mut given = vec![false; graph.values.len()];
    for (value, given) in graph.values.iter().zip(&mut given) {
        if let Some(data) = &value.data {
            if (data.dtype(), data.shape()) != (value.dtype, value.shape) {
                return Err(VerifyError::Constant { value: value.name.clone() });
            }
            *given = true;
        }
    }
    for input in &graph.inputs {
        give(graph, &mut given, input.value, "graph")?;
    }
    for node in &graph.nodes {
        for &id in &node.inputs {
            have(graph, &given, id, &node.name)?;
        }
        for &id in &node.outputs {
            give(graph, &mut given, id, &node.name)?;
        }
        check_node(graph, node)?;
    }
    for output in &graph.outputs {
        have(graph, &given, output.value, "graph")?;
    }
    Ok(())
}

fn have(graph: &Graph, given: &[bool], id: ValueId, node: &str) -> Result<(), VerifyError> {
    match given.get(id.index()) {
        Some(true) => Ok(()),
        Some(false) => Err(VerifyError::Order {
            node: node.to_owned(),
            value: graph.value(id).name.clone(),
        }),
        None => Err(no_id(node, id)),
    }
}

fn give(graph: &Graph, given: &mut [bool], id: ValueId, node: &str) -> Result<(), VerifyError> {
    match given.get_mut(id.index()) {
        Some(given) if !*given => {
            *given = true;
            Ok(())
        }
        Some(_) => Err(VerifyError::Twice {
            node: node.to_owned(),
            value: graph.value(id).name.clone(),
        }),
        None => Err(no_id(node, id)),
    }
}

fn no_id(node: &str, id: ValueId) -> VerifyError {
    VerifyError::Id {
        node: node.to_owned(),
        id: id.0,
    }
}

/// Checks one node whose ids exist.
fn check_node(graph: &Graph, node: &Node) -> Result<(), VerifyError> {
    let operands = |ids: &[ValueId]| ids.iter().map(|&id| graph.operand(id)).collect::<Vec<_>>();
    let (inputs, outputs) = (operands(&node.inputs), operands(&node.outputs));
    let fits = match &node.op {
        Op::Primitive(primitive) => {
            return primitive.check(&inputs, &outputs).map_err(|reason| VerifyError::Primitive {
                node: node.name.clone(),
                primitive: format!("{primitive:?}"),
                operands: format!("{inputs:?} -> {outputs:?}"),
                reason,
            });
        }
        Op::View(view) => match (inputs.as_slice(), outputs.as_slice()) {
            ([(xt, x)], [(yt, y)]) => xt == yt && view.apply(&Layout::contiguous(*x), *y).is_some(),
            _ => false,
        },
        Op::Concat { axis } => match (inputs.as_slice(), outputs.as_slice()) {
            ([_, ..], [(yt, y)]) => {
                let joined: u64 = inputs.iter().map(|(_, x)| u64::from(x.dim(*axis))).sum();
                let alike = |(t, x): &(_, crate::tensor::Shape)| t == yt && x.with_dim(*axis, y.dim(*axis)) == Some(*y);
                *axis < y.rank() && joined == u64::from(y.dim(*axis)) && inputs.iter().all(alike)
            }
            _ => false,
        },
    };
    if fits {
        return Ok(());
    }
    Err(VerifyError::Form {
        node: node.name.clone(),
        op: format!("{:?}", node.op),
        operands: format!("{inputs:?} -> {outputs:?}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planner::graph::{Named, ViewOp};
    use crate::primitive::{Primitive, Unary};
    use crate::tensor::{DType, Shape};

    fn shape(dims: &[u32]) -> Shape {
        Shape::new(dims).unwrap()
    }

    /// `x -> Relu -> y -> Concat(x) -> z`.
    fn graph() -> Graph {
        let mut g = Graph::default();
        let x = g.add_value("x", DType::F32, shape(&[2, 3]));
        let y = g.add_value("y", DType::F32, shape(&[2, 3]));
        let z = g.add_value("z", DType::F32, shape(&[2, 6]));
        g.inputs.push(Named {
            name: "x".into(),
            value: x,
            widened: false,
        });
        g.add_node("relu", Op::Primitive(Primitive::Unary(Unary::Relu)), vec![x], vec![y]);
        g.add_node("join", Op::Concat { axis: 1 }, vec![y, x], vec![z]);
        g.outputs.push(Named {
            name: "z".into(),
            value: z,
            widened: false,
        });
        g
    }

    #[test]
    fn a_sound_graph_passes() {
        assert_eq!(verify(&graph()), Ok(()));
    }

    #[test]
    fn order_and_ids_are_checked() {
        let mut g = graph();
        g.nodes.swap(0, 1);
        assert!(matches!(verify(&g), Err(VerifyError::Order { .. })));
        let mut g = graph();
        g.nodes[1].inputs[0] = ValueId(9);
        assert!(matches!(verify(&g), Err(VerifyError::Id { id: 9, .. })));
        let mut g = graph();
        g.nodes[1].outputs[0] = ValueId(1);
        assert!(matches!(verify(&g), Err(VerifyError::Twice { .. })));
        let mut g = graph();
        g.outputs[0].value = g.add_value("orphan", DType::F32, Shape::SCALAR);
        assert!(matches!(verify(&g), Err(VerifyError::Order { .. })));
    }

    #[test]
    fn operands_are_checked() {
        let mut g = graph();
        g.values[1].shape = shape(&[3, 2]);
        assert!(matches!(verify(&g), Err(VerifyError::Primitive { .. })));
        let mut g = graph();
        g.values[2].shape = shape(&[2, 7]);
        assert!(matches!(verify(&g), Err(VerifyError::Form { .. })));
        let mut g = graph();
        g.nodes[1].op = Op::View(ViewOp::Reshape);
        assert!(matches!(verify(&g), Err(VerifyError::Form { .. })));
    }
}
