//! If: the branch that a condition known while importing chooses, in place of the node.

use super::builder::Builder;
use super::error::{Fallible, Reason, given_twice, malformed, unsupported};
use super::proto::NodeProto;
use super::values::Operand;
use super::{file, import_node, node_name};
use std::collections::BTreeMap;
use std::path::Path;

/// Imports the nodes of the chosen branch, which see the names around the node, and binds the node's outputs.
pub(super) fn import(
    node: &NodeProto,
    opset: i64,
    path: &Path,
    builder: &mut Builder,
    names: &mut BTreeMap<String, Operand>,
) -> Fallible<()> {
    let condition = node.input.first().and_then(|name| names.get(name));
    let condition = condition.ok_or_else(|| malformed("no condition").at("cond"))?;
    let truths = condition.host().and_then(|h| h.as_i64s());
    let Some([truth]) = truths.as_deref() else {
        return Err(unsupported(
            "computed at run time, and a frame's work is fixed ahead of time: export the network with fixed shapes, or cut it in \
             front of this node with --output NAME",
        )
        .at("cond"));
    };
    let chosen = if *truth != 0 { "then_branch" } else { "else_branch" };
    let branch = node.attribute.iter().find(|a| a.name == chosen).and_then(|a| a.g.as_deref());
    let branch = branch.ok_or_else(|| malformed("missing").at(chosen))?;
    let mut inner = names.clone();
    for initializer in &branch.initializer {
        let host = file::tensor(initializer, path)?;
        inner.insert(initializer.name.clone(), builder.given_constant(&initializer.name, host));
    }
    for (position, inside) in branch.node.iter().enumerate() {
        let name = node_name(inside, position);
        let told = |e: Reason| e.inside(&format!("in this branch, node `{name}` ({})", inside.op_type), chosen);
        import_node(inside, &name, opset, path, builder, &mut inner).map_err(told)?;
    }
    for (output, given) in node.output.iter().zip(&branch.output).filter(|(o, _)| !o.is_empty()) {
        let operand = inner
            .get(&given.name)
            .ok_or_else(|| malformed(format!("gives no `{}`", given.name)).at(chosen))?;
        if names.insert(output.clone(), operand.clone()).is_some() {
            return Err(given_twice(output));
        }
    }
    Ok(())
}
