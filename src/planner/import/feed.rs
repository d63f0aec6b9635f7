//! What feeds a model from outside: its inputs, which of them give shapes, and tensor files as ONNX's test data has them.

use super::error::{Fallible, ImportError, Reason, limit, malformed};
use super::file;
use super::host::{Elem, Host};
use super::inputs::unnamed;
use super::is_standard;
use super::proto::{GraphProto, TensorProto};
use crate::plan::regular;
use crate::tensor::{Data, Shape, Tensor};
use prost::Message;
use std::collections::BTreeSet;
use std::path::Path;

/// Bytes of the largest tensor file that is read.
const MAX_TENSOR_FILE: u64 = 2 << 30;

/// A tensor from a file, with what narrowing it to Platoon's types hides.
#[derive(Clone, Debug, PartialEq)]
pub struct Feed {
    /// The elements; i64 becomes i32, values beyond it its nearest end.
    pub tensor: Tensor,
    /// True if the file holds i64.
    pub widened: bool,
    /// The first i64 that i32 cannot hold. Where a shape is given, "very large" means "to the end", and the nearest end
    /// says it too; as data it would be wrong.
    pub beyond: Option<i64>,
}

impl From<Tensor> for Feed {
    fn from(tensor: Tensor) -> Feed {
        Feed {
            tensor,
            widened: false,
            beyond: None,
        }
    }
}

impl Feed {
    /// From i64 elements in C order; `None` if their count is not the shape's.
    pub fn from_i64(shape: Shape, values: impl Iterator<Item = i64>) -> Option<Feed> {
        let mut beyond = None;
        let narrowed = values.map(|value| {
            let nearest = value.clamp(i32::MIN.into(), i32::MAX.into());
            if nearest != value {
                beyond.get_or_insert(value);
            }
            nearest as i32
        });
        let tensor = Tensor::new(shape, Data::I32(narrowed.collect()))?;
        Some(Feed {
            tensor,
            widened: true,
            beyond,
        })
    }
}

/// An input of a model: a graph input that no initializer gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInput {
    /// Its name.
    pub name: String,
    /// True if some node takes its shape, or another parameter that must be known beforehand, from this input.
    pub gives_shape: bool,
}

/// The inputs of an ONNX file that data must be given for, in the file's order.
///
/// # Errors
/// The file cannot be read or is no ONNX model.
pub fn model_inputs(path: &Path) -> Result<Vec<ModelInput>, ImportError> {
    let (model, _) = file::read_model(path)?;
    let graph = model.graph.as_ref();
    let graph = graph.ok_or_else(|| malformed("not an ONNX model: it holds no graph").in_file(path))?;
    let given = |name: &str| graph.initializer.iter().any(|i| i.name == name);
    let inputs = graph.input.iter().filter(|i| !given(&i.name));
    let mut seen = BTreeSet::new();
    if let Some(again) = inputs.clone().find(|i| i.name.is_empty() || !seen.insert(&i.name)) {
        return Err(unnamed().in_tensor(path, &again.name));
    }
    Ok(inputs
        .map(|i| ModelInput {
            name: i.name.clone(),
            gives_shape: gives_shape(graph, &i.name),
        })
        .collect())
}

/// True if an operator has `name` as a parameter, or a shape is computed from its elements.
fn gives_shape(graph: &GraphProto, name: &str) -> bool {
    let standard = || graph.node.iter().filter(|node| is_standard(&node.domain));
    let mut wanted: BTreeSet<&str> = BTreeSet::new();
    for node in standard() {
        let parameters = parameters(&node.op_type).iter().filter_map(|&at| node.input.get(at));
        if parameters.clone().any(|input| input == name) {
            return true;
        }
        // Bounds of a clip and ratios of a dropout may be computed while the network runs.
        if !matches!(node.op_type.as_str(), "Clip" | "Dropout") {
            wanted.extend(parameters.map(String::as_str));
        }
    }
    // Nodes stand before those that read them; a shape depends on no element.
    for node in graph.node.iter().rev().filter(|node| node.op_type != "Shape") {
        if node
            .output
            .iter()
            .any(|output| !output.is_empty() && wanted.contains(output.as_str()))
        {
            wanted.extend(node.input.iter().map(String::as_str));
        }
    }
    wanted.contains(name)
}

/// Positions of the inputs of an ONNX operator that are parameters rather than data.
fn parameters(operator: &str) -> &'static [usize] {
    match operator {
        "ConstantOfShape" => &[0],
        "Reshape" | "Expand" | "Squeeze" | "Unsqueeze" | "Split" | "Upsample" | "Tile" | "TopK" | "CumSum" | "Trilu" | "OneHot" => &[1],
        "Compress" | "ReverseSequence" => &[1],
        reduction if reduction.starts_with("Reduce") => &[1],
        "NonZero" | "Unique" | "HannWindow" | "HammingWindow" | "BlackmanWindow" => &[0],
        "Loop" => &[0, 1],
        "SequenceAt" | "SequenceErase" | "SplitToSequence" => &[1],
        "SequenceInsert" => &[2],
        "Range" => &[0, 1, 2],
        "Clip" | "Dropout" => &[1, 2],
        "LSTM" | "GRU" | "RNN" => &[4],
        "Pad" | "Resize" => &[1, 2, 3],
        "Col2Im" => &[1, 2],
        "Slice" => &[1, 2, 3, 4],
        _ => &[],
    }
}

/// Reads a tensor file (a serialized `TensorProto`): its tensor's name, which may be empty, and its elements.
///
/// # Errors
/// The file cannot be read, is no tensor, is of a type that is not imported, or its lengths disagree.
pub fn read_tensor(path: &Path) -> Result<(String, Feed), ImportError> {
    let failed = |source| ImportError::Read {
        file: path.to_owned(),
        source,
    };
    let bytes = match regular::read(path, MAX_TENSOR_FILE) {
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => return Err(limit(error.to_string()).in_file(path)),
        other => other.map_err(failed)?,
    };
    let in_file = |e: Reason| e.in_file(path);
    let proto = TensorProto::decode(bytes::Bytes::from(bytes)).map_err(|e| in_file(malformed(format!("not a tensor file: {e}"))))?;
    let feed = decoded(&proto, path).map_err(in_file)?;
    Ok((proto.name, feed))
}

fn decoded(proto: &TensorProto, path: &Path) -> Fallible<Feed> {
    let host = file::tensor(proto, path)?;
    match host.as_i64s() {
        Some(values) if host.elem() == Elem::I64 => {
            Feed::from_i64(host.shape(), values.into_iter()).ok_or_else(|| malformed("a payload of another length"))
        }
        _ => Ok(Feed::from(Host::narrowed(&host)?.as_ref().clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::DType;

    fn file(dims: &[i64], data_type: i32, raw: &[u8]) -> TensorProto {
        TensorProto {
            dims: dims.to_vec(),
            data_type,
            raw_data: Some(bytes::Bytes::copy_from_slice(raw)),
            name: "x".into(),
            ..TensorProto::default()
        }
    }

    fn read(proto: &TensorProto) -> Result<(String, Feed), ImportError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.pb");
        std::fs::write(&path, proto.encode_to_vec()).unwrap();
        read_tensor(&path)
    }

    #[test]
    fn tensor_files_keep_their_name_and_elements() {
        let (name, feed) = read(&file(&[2], 1, &[0, 0, 128, 63, 0, 0, 0, 64])).unwrap();
        assert_eq!((name.as_str(), feed.tensor.as_f32().unwrap()), ("x", &[1.0, 2.0][..]));
        let (_, feed) = read(&file(&[], 9, &[1])).unwrap();
        assert_eq!((feed.tensor.dtype(), feed.widened), (DType::Bool, false));
    }

    #[test]
    fn wide_integers_beyond_the_range_are_told() {
        let raw = [3i64, i64::MIN].map(i64::to_le_bytes).concat();
        let (_, feed) = read(&file(&[2], 7, &raw)).unwrap();
        assert_eq!((feed.tensor.as_i32().unwrap(), feed.widened), (&[3, i32::MIN][..], true));
        assert_eq!(feed.beyond, Some(i64::MIN));
    }

    #[test]
    fn lengths_that_disagree_are_refused() {
        assert!(read(&file(&[3], 1, &[0; 8])).is_err());
        assert!(read(&file(&[i64::MAX, i64::MAX], 1, &[0; 8])).is_err());
        assert!(read(&file(&[-1], 1, &[])).is_err());
        assert!(read(&file(&[1], 8, &[0])).is_err(), "strings are not tensors of ours");
    }
}
