//! If: the branch that a condition known while importing chooses, in place of the node; of a computed condition both branches, whose
//! results it chooses between. A frame's work is fixed ahead of time, so both are computed in each.

use super::builder::Builder;
use super::error::{Fallible, Reason, given_twice, malformed, unsupported};
use super::host::Elem;
use super::ops::logic;
use super::proto::NodeProto;
use super::values::Operand;
use super::{file, import_node, node_name};
use crate::tensor::Shape;
use std::collections::BTreeMap;
use std::path::Path;

/// What a node's branches see of the file around it.
pub(super) struct Around<'a> {
    pub opset: i64,
    pub path: &'a Path,
}

/// Imports the nodes of the branches that may be chosen, which see the names around the node, and binds the node's outputs.
pub(super) fn import(
    node: &NodeProto,
    name: &str,
    around: &Around<'_>,
    builder: &mut Builder,
    names: &mut BTreeMap<String, Operand>,
) -> Fallible<()> {
    let condition = node.input.first().and_then(|name| names.get(name)).cloned();
    let condition = condition.ok_or_else(|| malformed("no condition").at("cond"))?;
    let truths = condition.host().and_then(|h| h.as_i64s());
    let results = match truths.as_deref() {
        Some([truth]) => results(
            node,
            if *truth != 0 { "then_branch" } else { "else_branch" },
            around,
            builder,
            names,
        )?,
        Some(_) => return Err(malformed("more or less than one truth value").at("cond")),
        None => {
            if condition.elem() != Elem::Bool || condition.shape().elements() != 1 {
                return Err(malformed("not one truth value").at("cond"));
            }
            let then = results(node, "then_branch", around, builder, names)?;
            let other = results(node, "else_branch", around, builder, names)?;
            builder.start_node(name);
            let pairs = then.iter().zip(&other);
            pairs.map(|(x, y)| either(builder, &condition, x, y)).collect::<Fallible<_>>()?
        }
    };
    for (output, operand) in node.output.iter().zip(results).filter(|(o, _)| !o.is_empty()) {
        if names.insert(output.clone(), operand).is_some() {
            return Err(given_twice(output));
        }
    }
    Ok(())
}

/// The result of one branch or the other.
fn either(builder: &mut Builder, condition: &Operand, x: &Operand, y: &Operand) -> Fallible<Operand> {
    if (x.elem(), x.shape()) != (y.elem(), y.shape()) {
        return Err(unsupported(format!(
            "the branches give {:?} {} and {:?} {}, chosen at run time, and a frame's work is fixed ahead of time: let both give one shape, \
             or cut the network in front of this node with --output NAME",
            x.elem(),
            x.shape(),
            y.elem(),
            y.shape()
        ))
        .at("cond"));
    }
    // A condition of more axes than the results has one element all the same.
    let condition = builder.reshape(condition, Shape::SCALAR)?;
    logic::choice(builder, &condition, x, y)
}

/// Imports the nodes of a branch; its results, one for each of the node's outputs.
fn results(
    node: &NodeProto,
    which: &'static str,
    around: &Around<'_>,
    builder: &mut Builder,
    names: &BTreeMap<String, Operand>,
) -> Fallible<Vec<Operand>> {
    let branch = node.attribute.iter().find(|a| a.name == which).and_then(|a| a.g.as_deref());
    let branch = branch.ok_or_else(|| malformed("missing").at(which))?;
    let mut inner = names.clone();
    for initializer in &branch.initializer {
        let host = file::tensor(initializer, around.path)?;
        inner.insert(initializer.name.clone(), builder.given_constant(&initializer.name, host));
    }
    for (position, inside) in branch.node.iter().enumerate() {
        let name = node_name(inside, position);
        let told = |e: Reason| e.inside(&format!("in this branch, node `{name}` ({})", inside.op_type), which);
        import_node(inside, &name, around.opset, around.path, builder, &mut inner).map_err(told)?;
    }
    let given = branch.output.iter().take(node.output.len()).map(|given| {
        let operand = inner.get(&given.name).cloned();
        operand.ok_or_else(|| malformed(format!("gives no `{}`", given.name)).at(which))
    });
    given.collect()
}
