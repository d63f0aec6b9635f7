//! Names that exist before the first node: initializers, and graph inputs with their shapes made static.

use super::ImportOptions;
use super::builder::Builder;
use super::error::{Fallible, ImportError, Reason, malformed, options as option_error, unsupported};
use super::file;
use super::host::{Elem, Host, shape_of};
use super::proto::{DimensionProto, GraphProto, TensorTypeProto, ValueInfoProto};
use super::values::{Deep, Operand};
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Named};
use crate::tensor::{DType, Shape, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Declares the initializers among `needed` and the inputs. An input that is an initializer too is a constant, unless the options fix
/// it otherwise.
pub(super) fn declare(
    proto: &GraphProto,
    path: &Path,
    options: &ImportOptions,
    needed: &BTreeSet<&str>,
    builder: &mut Builder,
) -> Result<BTreeMap<String, Operand>, ImportError> {
    let mut names = BTreeMap::new();
    let mut given = BTreeSet::new();
    for initializer in &proto.initializer {
        let failed = |e: Reason| e.in_tensor(path, &initializer.name);
        if initializer.name.is_empty() {
            return Err(failed(malformed("an initializer without a name")));
        }
        if !given.insert(initializer.name.as_str()) {
            return Err(failed(malformed("two initializers of one name")));
        }
        // What nobody reads may be of any type.
        if needed.contains(initializer.name.as_str()) {
            if initializer.dims.len() > MAX_RANK {
                let host = file::flat(initializer, path).map_err(failed)?;
                let elements = builder.given_constant(&initializer.name, host);
                let dims = initializer.dims.clone();
                builder.deep.insert(initializer.name.clone(), Deep { elements, dims });
                continue;
            }
            let host = file::tensor(initializer, path).map_err(failed)?;
            let constant = builder.given_constant(&initializer.name, host);
            names.insert(initializer.name.clone(), constant);
        }
    }
    let mut seen = BTreeMap::new();
    for input in &proto.input {
        let failed = |e: Reason| e.in_tensor(path, &input.name);
        if input.name.is_empty() || seen.insert(input.name.as_str(), ()).is_some() {
            return Err(failed(unnamed()));
        }
        if let Some(tensor) = options.fixed.get(&input.name) {
            let host = fixed(input, tensor).map_err(failed)?;
            names.insert(input.name.clone(), builder.given_constant(&input.name, host));
            continue;
        }
        if given.contains(input.name.as_str()) {
            continue;
        }
        let (elem, shape) = static_input(input, options).map_err(failed)?;
        let operand = builder.computed(input.name.clone(), elem, shape).map_err(failed)?;
        let value = builder.value(&operand).map_err(failed)?;
        builder.graph.inputs.push(Named {
            name: input.name.clone(),
            value,
            widened: elem == Elem::I64,
        });
        names.insert(input.name.clone(), operand);
    }
    let known = |name: &&String| seen.contains_key(name.as_str());
    match options.fixed.keys().chain(options.shapes.keys()).find(|name| !known(name)) {
        Some(name) => Err(option_error("the model has no input of this name").in_tensor(path, name)),
        None => Ok(names),
    }
}

/// Inputs that names do not tell apart.
pub(super) fn unnamed() -> Reason {
    malformed("an input without a name, or two of one name")
}

fn tensor_type(value: &ValueInfoProto) -> Fallible<Option<&TensorTypeProto>> {
    let Some(kind) = &value.r#type else {
        return Ok(None);
    };
    let present = [
        (kind.sequence_type.is_some(), "sequence"),
        (kind.map_type.is_some(), "map"),
        (kind.sparse_tensor_type.is_some(), "sparse tensor"),
        (kind.optional_type.is_some(), "optional"),
    ];
    match present.iter().find(|(is, _)| *is) {
        Some((_, what)) => Err(unsupported(format!(
            "a value of type {what}: export the network with tensors as its inputs and results, or cut it with --output NAME"
        ))),
        None => Ok(kind.tensor_type.as_ref()),
    }
}

/// The element type that the file declares for a graph input or output; `None` if it declares none.
pub(super) fn declared_elem(value: &ValueInfoProto) -> Fallible<Option<Elem>> {
    tensor_type(value)?.map(|t| Elem::from_onnx(t.elem_type)).transpose()
}

/// Type and static shape of a graph input.
fn static_input(input: &ValueInfoProto, options: &ImportOptions) -> Fallible<(Elem, Shape)> {
    let declared = tensor_type(input)?.ok_or_else(|| malformed("an input without a type"))?;
    let elem = Elem::from_onnx(declared.elem_type)?;
    let given = options.shapes.get(&input.name);
    let Some(shape) = &declared.shape else {
        let given = given.ok_or_else(|| option_error("the file leaves the shape open: give one for this input"))?;
        return Ok((elem, checked_shape(given)?));
    };
    if let Some(given) = given
        && given.len() != shape.dim.len()
    {
        return Err(option_error(format!(
            "a shape of {} axes is given, the file has {}",
            given.len(),
            shape.dim.len()
        )));
    }
    let mut dims = Vec::with_capacity(shape.dim.len());
    for (axis, dim) in shape.dim.iter().enumerate() {
        let given = given.and_then(|g| g.get(axis)).map(|&g| i64::from(g));
        dims.push(match (fixed_extent(dim), given) {
            (Some(fixed), Some(given)) if given != fixed => {
                return Err(option_error(format!("axis {axis} is {fixed} in the file, {given} is given")));
            }
            (Some(fixed), _) => fixed,
            (None, Some(given)) => given,
            (None, None) => match options.batch {
                Some(batch @ 1..) => i64::from(batch),
                Some(0) => return Err(option_error("a batch of 0")),
                None => {
                    let name = dim.dim_param.as_deref().unwrap_or("unknown");
                    return Err(option_error(format!(
                        "axis {axis} is symbolic (`{name}`): give a batch or this input's shape"
                    )));
                }
            },
        });
    }
    Ok((elem, shape_of(&dims)?))
}

/// Refuses a batch that no input of an imported graph has taken: all its axes are fixed in the file, to other extents.
///
/// # Errors
/// The graph has inputs, and none has an axis of the extent `batch`.
pub fn takes_batch(graph: &Graph, path: &Path, batch: u32) -> Result<(), ImportError> {
    let shape = |named: &Named| graph.value(named.value).shape;
    let has = |shape: Shape| (0..shape.rank()).any(|axis| shape.dim(axis) == batch);
    match graph.inputs.first() {
        Some(first) if !graph.inputs.iter().any(|input| has(shape(input))) => Err(option_error(format!(
            "a batch of {batch}, but the file fixes all axes of its inputs (`{}` is {}): export the network with a symbolic batch, or \
             leave the batch out",
            first.name,
            shape(first)
        ))
        .in_file(path)),
        _ => Ok(()),
    }
}

/// The extent, where the file gives one. Exporters write symbolic axes as names, as nothing, as -1, and as 0 with a name.
fn fixed_extent(dim: &DimensionProto) -> Option<i64> {
    let named = dim.dim_param.as_ref().is_some_and(|p| !p.is_empty());
    dim.dim_value.filter(|&v| v > 0 || (v == 0 && !named))
}

fn checked_shape(dims: &[u32]) -> Fallible<Shape> {
    shape_of(&dims.iter().map(|&d| i64::from(d)).collect::<Vec<_>>())
}

/// An input that the options fix: the tensor, in the declared type.
fn fixed(input: &ValueInfoProto, tensor: &Tensor) -> Fallible<Host> {
    let declared = tensor_type(input)?.ok_or_else(|| malformed("an input without a type"))?;
    let elem = Elem::from_onnx(declared.elem_type)?;
    let host = Host::Tensor(Arc::new(tensor.clone()));
    let fits = host.elem() == elem
        || (matches!(elem, Elem::I64 | Elem::I8) && tensor.dtype() == DType::I32)
        || (elem == Elem::F64 && tensor.dtype() == DType::F32);
    if !fits {
        return Err(option_error(format!(
            "fixed with elements of {}, the file declares {elem:?}",
            tensor.dtype()
        )));
    }
    if let Some(shape) = &declared.shape {
        let given = tensor.shape();
        let agrees = given.rank() == shape.dim.len()
            && shape
                .dim
                .iter()
                .zip(given.dims())
                .all(|(dim, &g)| fixed_extent(dim).is_none_or(|d| d == i64::from(g)));
        if !agrees {
            return Err(option_error(format!(
                "fixed with shape {given}, which is not what the file declares"
            )));
        }
    }
    host.cast(elem)
}
