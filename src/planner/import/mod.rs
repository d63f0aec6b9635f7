//! ONNX files to graphs.
//!
//! The way of a model: `file` reads its bytes (`scan` bounds what decoding may take, `proto` is the format, `inline` puts functions
//! in the place of their calls, `order` sorts nodes),
//! `import` fixes the inputs' shapes and walks the nodes in order, `ops` says what each ONNX operator means as
//! primitives and views (`branch` chooses among nodes, `unroll` repeats them, `sequence` keeps lists of tensors, `deep` takes values of more axes than
//! a tensor may have), and `builder` emits them, or folds them at once where all operands are constants (`host`, `fold`). What
//! comes out has static shapes, explicit broadcasts, and passes [`super::graph::verify`].

mod branch;
mod builder;
mod cut;
mod deep;
mod error;
mod feed;
mod file;
mod fold;
mod grid;
mod host;
mod inline;
mod inputs;
mod node;
mod ops;
mod order;
mod proto;
mod scan;
mod sequence;
#[cfg(test)]
mod tests;
mod unroll;
mod values;

pub use error::{ImportError, Kind};
pub use feed::{Feed, ModelInput, model_inputs, read_tensor};
pub use inputs::takes_batch;

use crate::limits::MAX_OPERATORS;
use crate::planner::graph::{Graph, Named, verify};
use crate::tensor::Tensor;
use builder::Builder;
use error::{Fallible, Reason, given_twice, limit, malformed, options, ungiven, unsupported};
use host::Elem;
use node::OnnxNode;
use proto::{GraphProto, ModelProto, NodeProto};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use values::Operand;

/// Newest version of the standard operator set that is imported. Attributes that a later version adds are refused one by one.
pub const MAX_OPSET: i64 = 28;

/// What the model's file leaves open.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// The extent of inputs' axes that the file leaves symbolic (most often the batch). At least 1.
    pub batch: Option<u32>,
    /// Graph inputs that become constants of the given elements (i64 inputs take i32 tensors).
    pub fixed: BTreeMap<String, Tensor>,
    /// Shapes of graph inputs, where the file leaves axes symbolic; stronger than `batch`.
    pub shapes: BTreeMap<String, Vec<u32>>,
    /// The tensors that are the network's results; none for those that the file lists. Any tensor of the file can be one:
    /// nodes that no result needs are not imported, so that a network may be cut in front of what is not supported.
    pub outputs: Vec<String>,
}

/// Imports an ONNX file. External data is read from the file's folder only.
///
/// # Errors
/// The file cannot be read, is no valid ONNX, uses what Platoon does not import, is beyond a limit, or the options lack a shape.
pub fn import(path: &Path, options: &ImportOptions) -> Result<Graph, ImportError> {
    let (model, refusals) = file::read_model(path)?;
    let (proto, opset) = checked_header(&model).map_err(|e| e.in_file(path))?;
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
    let mut builder = Builder::new(name.unwrap_or_default());
    builder.refusals = refusals;
    let needed = cut::needed(proto, &options.outputs);
    let mut names = inputs::declare(proto, path, options, &needed.names, &mut builder)?;
    for (position, node) in proto.node.iter().enumerate() {
        if !needed.nodes[position] {
            continue;
        }
        let name = node_name(node, position);
        let node_error = |e: Reason| ImportError::Node {
            file: path.to_owned(),
            node: name.clone(),
            operator: if node.domain.is_empty() {
                node.op_type.clone()
            } else {
                format!("{}.{}", node.domain, node.op_type)
            },
            attribute: e.attribute,
            kind: e.kind,
            reason: e.text,
        };
        import_node(node, &name, opset, path, &mut builder, &mut names).map_err(node_error)?;
    }
    bind_outputs(proto, path, &options.outputs, &mut builder, &names)?;
    verify(&builder.graph).map_err(|e| malformed(e.to_string()).in_file(path))?;
    Ok(builder.graph)
}

/// The files beside an ONNX file that hold its external data, in the order of their names: what [`import`] reads besides the
/// file itself. Places outside the model's folder, which it refuses to read, are not among them.
///
/// # Errors
/// The file cannot be read or is no ONNX model.
pub fn external_files(path: &Path) -> Result<Vec<PathBuf>, ImportError> {
    Ok(file::external_files(&file::read_model(path)?.0, path))
}

/// The graph and the version of the standard operator set.
fn checked_header(model: &ModelProto) -> Fallible<(&GraphProto, i64)> {
    let graph = model
        .graph
        .as_ref()
        .ok_or_else(|| malformed("not an ONNX model: it holds no graph"))?;
    let mut versions = model.opset_import.iter().filter(|o| is_standard(&o.domain));
    let opset = versions
        .next()
        .ok_or_else(|| malformed("no version of the standard operator set"))?
        .version;
    if versions.next().is_some() {
        return Err(malformed("two versions of the standard operator set"));
    }
    // Old versions are refused operator by operator, see `ops`.
    if !(1..=MAX_OPSET).contains(&opset) {
        return Err(unsupported(format!(
            "operator set {opset}: those from 1 to {MAX_OPSET} are imported. Export the network for one of these, or convert it with \
             onnx.version_converter"
        )));
    }
    if graph.node.len() > MAX_OPERATORS {
        return Err(limit(format!("{} nodes (at most {MAX_OPERATORS})", graph.node.len())));
    }
    if !graph.sparse_initializer.is_empty() {
        return Err(unsupported("sparse initializers: store the constants densely when exporting"));
    }
    Ok((graph, opset))
}

fn is_standard(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// What errors and dumps call a node: its name, else its first output's, else its position.
fn node_name(node: &NodeProto, position: usize) -> String {
    match (node.name.as_str(), node.output.iter().find(|o| !o.is_empty())) {
        ("", Some(output)) => output.clone(),
        ("", None) => format!("#{position}"),
        (name, _) => name.to_owned(),
    }
}

/// Why a node of another domain is not imported.
fn foreign(proto: &NodeProto, builder: &Builder) -> Reason {
    let domain = &proto.domain;
    if let Some((kind, text)) = builder.refusals.get(&(domain.clone(), proto.op_type.clone())) {
        return Reason {
            kind: *kind,
            attribute: None,
            text: text.clone(),
        };
    }
    let hint = match domain.as_str() {
        "com.microsoft" | "com.microsoft.nchwc" => {
            " (onnxruntime writes them into files that it optimises or quantises: give the file from before, save it with \
             ORT_ENABLE_BASIC, or quantise it with QuantFormat.QDQ)"
        }
        _ => "",
    };
    unsupported(format!(
        "operators of the domain `{domain}`{hint}: export the network with those of the standard, or cut it in front of this node with \
         --output NAME"
    ))
}

/// Imports one node and binds its outputs' names.
fn import_node(
    proto: &NodeProto,
    name: &str,
    opset: i64,
    path: &Path,
    builder: &mut Builder,
    names: &mut BTreeMap<String, Operand>,
) -> Fallible<()> {
    if !is_standard(&proto.domain) {
        return Err(foreign(proto, builder));
    }
    let opset = proto.version.unwrap_or(opset);
    if builder.unrolling > 0 {
        let read = proto.input.iter().filter_map(|input| names.get(input)?.host());
        builder.take_unrolled(read.map(|host| host.shape().elements()).sum())?;
    }
    if proto.op_type == "If" {
        return branch::import(proto, name, &branch::Around { opset, path }, builder, names);
    }
    if unroll::is_one(&proto.op_type) {
        return unroll::import(proto, opset, path, builder, names);
    }
    if deep::concerns(proto, builder, names) {
        return import_deep(proto, name, opset, path, builder, names);
    }
    let of_sequences = sequence::is_one(&proto.op_type);
    let inputs = proto
        .input
        .iter()
        .map(|input| match names.get(input) {
            _ if input.is_empty() => Ok(None),
            Some(operand) => Ok(Some(operand.clone())),
            None if builder.sequences.get(input).is_some() => {
                if of_sequences {
                    Ok(None)
                } else {
                    Err(sequence::refused(input))
                }
            }
            None => Err(ungiven(input)),
        })
        .collect::<Fallible<Vec<_>>>()?;
    let fresh = builder.graph.values.len();
    builder.start_node(name);
    let node = OnnxNode::new(proto, opset, inputs)?;
    let results = if of_sequences {
        let first = proto.input.first().and_then(|name| builder.sequences.get(name));
        match sequence::import(builder, &node, first.as_deref())? {
            sequence::Given::Tensor(operand) => vec![operand],
            sequence::Given::Sequence(parts) => {
                node.finish()?;
                let made = proto.output.first().ok_or_else(|| malformed("no output"))?;
                if names.contains_key(made) {
                    return Err(given_twice(made));
                }
                return builder.sequences.add(made, parts);
            }
        }
    } else {
        ops::import(builder, &node, path)?
    };
    node.finish()?;
    for output in outputs(proto, &results) {
        let (output, operand) = output?;
        bind(output, operand, fresh, builder, names)?;
    }
    Ok(())
}

/// The outputs that a node names, each with its result.
fn outputs<'a, T>(proto: &'a NodeProto, results: &'a [T]) -> impl Iterator<Item = Fallible<(&'a String, &'a T)>> {
    let named = proto.output.iter().enumerate().filter(|(_, output)| !output.is_empty());
    named.map(|(index, output)| match results.get(index) {
        Some(result) => Ok((output, result)),
        None => Err(unsupported(format!(
            "output {index} (`{output}`) is not computed: export the network without it, or cut the network in front of what reads it with \
             --output NAME"
        ))),
    })
}

/// Gives an operand its ONNX name, and its value too if it is no older than `fresh`.
fn bind(output: &str, operand: &Operand, fresh: usize, builder: &mut Builder, names: &mut BTreeMap<String, Operand>) -> Fallible<()> {
    if let Operand::Computed { id, .. } = operand
        && id.index() >= fresh
    {
        output.clone_into(&mut builder.graph.values[id.index()].name);
    }
    match names.insert(output.to_owned(), operand.clone()) {
        Some(_) => Err(given_twice(output)),
        None => Ok(()),
    }
}

/// Imports a node over values of too many axes.
fn import_deep(
    proto: &NodeProto,
    name: &str,
    opset: i64,
    path: &Path,
    builder: &mut Builder,
    names: &mut BTreeMap<String, Operand>,
) -> Fallible<()> {
    let fresh = builder.graph.values.len();
    builder.start_node(name);
    let results = deep::import(proto, opset, path, builder, names)?;
    for output in outputs(proto, &results) {
        let (output, result) = output?;
        match result.flat(builder)? {
            Some(operand) => bind(output, &operand, fresh, builder, names)?,
            None => {
                if builder.deep.insert(output.clone(), result.clone()).is_some() {
                    return Err(given_twice(output));
                }
            }
        }
    }
    Ok(())
}

/// Makes the graph's outputs of the names that are asked for, or that the file lists.
fn bind_outputs(
    proto: &GraphProto,
    path: &Path,
    wanted: &[String],
    builder: &mut Builder,
    names: &BTreeMap<String, Operand>,
) -> Result<(), ImportError> {
    let listed: Vec<&str> = proto.output.iter().map(|o| o.name.as_str()).collect();
    let bound = if wanted.is_empty() {
        listed.clone()
    } else {
        wanted.iter().map(String::as_str).collect()
    };
    if bound.is_empty() {
        return Err(malformed("no outputs").in_file(path));
    }
    let mut seen = BTreeSet::new();
    for name in bound {
        let failed = |e: Reason| e.in_tensor(path, name);
        let operand = names.get(name).ok_or_else(|| {
            failed(if let Some(deep) = builder.deep.get(name) {
                limit(deep.refused())
            } else if builder.sequences.get(name).is_some() {
                unsupported("a sequence as a result: let the tensors in it be results, by --output or a card's `output`")
            } else if wanted.is_empty() {
                malformed("a graph output that no node gives")
            } else {
                options(format!(
                    "the network has no tensor of this name to be a result; the file lists {}",
                    listed.join(", ")
                ))
            })
        })?;
        if !seen.insert(name) {
            return Err(failed(malformed("a graph output listed twice")));
        }
        let declared = proto.output.iter().find(|o| o.name == name);
        if let Some(declared) = declared.map(inputs::declared_elem).transpose().map_err(failed)?.flatten()
            && declared != operand.elem()
        {
            return Err(failed(malformed(format!(
                "declared as {declared:?}, computed as {:?}",
                operand.elem()
            ))));
        }
        let value = builder.value(operand).map_err(failed)?;
        builder.graph.outputs.push(Named {
            name: name.to_owned(),
            value,
            widened: operand.elem() == Elem::I64,
        });
    }
    Ok(())
}
