//! From bytes to messages: the model's file, its payloads, and the files beside it.

use super::error::{Fallible, ImportError, Kind, limit, malformed, unsupported};
use super::host::{Elem, Host, elements_of, shape_of};
use super::inline::{self, Refusals};
use super::proto::{ModelProto, TensorProto, data_type};
use super::{order, scan};
use crate::plan::regular;
use crate::tensor::{Data, Shape, Tensor};
use bytes::Bytes;
use half::{bf16, f16};
use prost::Message;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Bytes of a model's file: what protobuf itself allows.
const MAX_FILE: u64 = (2 << 30) - 1;

/// Reads and decodes a model, with its functions in the place of their calls, but for those that are told beside it.
pub(super) fn read_model(file: &Path) -> Result<(ModelProto, Refusals), ImportError> {
    let failed = |source| ImportError::Read {
        file: file.to_owned(),
        source,
    };
    let refused = |kind, reason: String| ImportError::File {
        file: file.to_owned(),
        kind,
        reason,
    };
    let bytes = match regular::read(file, MAX_FILE) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Err(refused(Kind::Malformed, "not a file".into())),
        Err(error) if error.kind() == ErrorKind::FileTooLarge => return Err(refused(Kind::Limit, error.to_string())),
        other => Bytes::from(other.map_err(failed)?),
    };
    scan::check(&bytes).map_err(|e| e.in_file(file))?;
    let mut model = ModelProto::decode(bytes).map_err(|e| refused(Kind::Malformed, format!("not an ONNX model: {e}")))?;
    let refusals = inline::inline(&mut model).map_err(|e| e.in_file(file))?;
    model.graph.iter_mut().for_each(order::sort);
    Ok((model, refusals))
}

/// The files beside `file` that initializers of `model` keep their elements in, each once, in the order of their names.
pub(super) fn external_files(model: &ModelProto, file: &Path) -> Vec<PathBuf> {
    let initializers = model.graph.iter().flat_map(|g| &g.initializer).filter(|t| t.data_location == 1);
    let location = |t: &TensorProto| {
        t.external_data
            .iter()
            .find(|e| e.key == "location")
            .map(|e| PathBuf::from(&e.value))
    };
    let inside = |p: &PathBuf| p.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    let files: BTreeSet<PathBuf> = initializers.filter_map(location).filter(inside).collect();
    files.iter().map(|p| file.with_file_name(p)).collect()
}

/// An initializer or a tensor attribute. `model` is the model's file, beside which external data lies.
pub(super) fn tensor(proto: &TensorProto, model: &Path) -> Fallible<Host> {
    elements(proto, shape_of(&proto.dims)?, model)
}

/// The elements of a tensor of any rank, in order along one axis.
pub(super) fn flat(proto: &TensorProto, model: &Path) -> Fallible<Host> {
    elements(proto, shape_of(&[elements_of(&proto.dims)?])?, model)
}

/// The elements of a tensor as one of `shape`.
fn elements(proto: &TensorProto, shape: Shape, model: &Path) -> Fallible<Host> {
    let elem = Elem::from_onnx(proto.data_type)?;
    if proto.segment.is_some() {
        return Err(unsupported(
            "a segmented tensor: save the model again with onnx.save, whole or with external data",
        ));
    }
    // Every path below compares this with the payload before it takes memory.
    let elements = shape.elements();
    let brain = proto.data_type == data_type::BFLOAT16;
    let bytes = elements * if brain { 2 } else { elem.bytes() };
    let from_bytes = |bytes: &[u8]| match brain {
        true => brain_floats(shape, bytes.as_chunks().0.iter().map(|b| u16::from_le_bytes(*b))),
        false => from_bytes(elem, shape, bytes),
    };
    let counted = |n: usize| {
        if n as u64 == elements {
            Ok(())
        } else {
            Err(malformed(format!("shape {shape} needs {elements} elements, the file holds {n}")))
        }
    };
    match proto.data_location {
        0 => {}
        1 => return from_bytes(&external(proto, bytes, model)?),
        other => return Err(malformed(format!("data location {other}"))),
    }
    if let Some(raw) = &proto.raw_data {
        if raw.len() as u64 != bytes {
            return Err(malformed(format!(
                "shape {shape} needs {bytes} bytes, the file holds {}",
                raw.len()
            )));
        }
        return from_bytes(raw);
    }
    match elem {
        Elem::F32 if brain => {
            counted(proto.int32_data.len())?;
            let bits = |&v: &i32| u16::try_from(v).map_err(|_| malformed(format!("{v} is out of the element type's range")));
            let bits = proto.int32_data.iter().map(bits).collect::<Fallible<Vec<u16>>>()?;
            brain_floats(shape, bits.into_iter())
        }
        Elem::F32 => {
            counted(proto.float_data.len())?;
            Host::tensor(shape, Data::F32(proto.float_data.clone()))
        }
        Elem::F64 => {
            counted(proto.double_data.len())?;
            Host::f64s(shape, proto.double_data.clone())
        }
        Elem::I64 => {
            counted(proto.int64_data.len())?;
            Host::i64s(shape, proto.int64_data.clone())
        }
        Elem::I8 => {
            counted(proto.int32_data.len())?;
            let narrow = |&v: &i32| i8::try_from(v).map_err(|_| malformed(format!("{v} is out of the element type's range")));
            Host::i8s(shape, proto.int32_data.iter().map(narrow).collect::<Fallible<_>>()?)
        }
        Elem::I32 | Elem::F16 | Elem::U8 | Elem::Bool => {
            counted(proto.int32_data.len())?;
            let small = |most: i32| match proto.int32_data.iter().find(|v| !(0..=most).contains(*v)) {
                Some(v) => Err(malformed(format!("{v} is out of the element type's range"))),
                None => Ok(&proto.int32_data),
            };
            let data = match elem {
                Elem::F16 => Data::F16(small(0xffff)?.iter().map(|&v| f16::from_bits(v as u16)).collect()),
                Elem::U8 => Data::U8(small(0xff)?.iter().map(|&v| v as u8).collect()),
                Elem::Bool => Data::Bool(proto.int32_data.iter().map(|&v| u8::from(v != 0)).collect()),
                _ => Data::I32(proto.int32_data.clone()),
            };
            Host::tensor(shape, data)
        }
    }
}

/// BFLOAT16 elements: the upper halves of floats.
fn brain_floats(shape: Shape, bits: impl Iterator<Item = u16>) -> Fallible<Host> {
    Host::tensor(shape, Data::F32(bits.map(|b| bf16::from_bits(b).to_f32()).collect()))
}

fn from_bytes(elem: Elem, shape: Shape, bytes: &[u8]) -> Fallible<Host> {
    match elem {
        Elem::I64 => Host::i64s(shape, bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)).collect()),
        Elem::I8 => Host::i8s(shape, bytes.iter().map(|&b| b as i8).collect()),
        Elem::F64 => Host::f64s(shape, bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()),
        _ => {
            let tensor = Tensor::from_bytes(elem.stored()?, shape, bytes).ok_or_else(|| malformed("a payload of another length"))?;
            Ok(Host::Tensor(Arc::new(tensor)))
        }
    }
}

/// Reads `bytes` bytes of external data. Only files inside the model's folder are opened, also behind links.
fn external(proto: &TensorProto, bytes: u64, model: &Path) -> Fallible<Vec<u8>> {
    let entry = |key: &str| proto.external_data.iter().find(|e| e.key == key).map(|e| e.value.as_str());
    let number = |key: &str| match entry(key) {
        None => Ok(None),
        Some(v) => v
            .parse::<u64>()
            .map(Some)
            .map_err(|_| malformed(format!("external data with {key} `{v}`"))),
    };
    let location = entry("location").ok_or_else(|| malformed("external data without a location"))?;
    let relative = Path::new(location);
    if location.is_empty() || !relative.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
        return Err(malformed(format!("external data at `{location}`, outside the model's folder")));
    }
    let offset = number("offset")?.unwrap_or(0);
    if number("length")?.is_some_and(|n| n != bytes) {
        return Err(malformed(format!("external data of another length than the shape's {bytes} bytes")));
    }
    let folder = match model.parent() {
        Some(p) if !p.as_os_str().is_empty() => p.to_owned(),
        _ => PathBuf::from("."),
    };
    let failed = |e: std::io::Error| malformed(format!("external data `{location}`: {e}"));
    let folder = folder.canonicalize().map_err(failed)?;
    let path = folder.join(relative).canonicalize().map_err(failed)?;
    if !path.starts_with(&folder) {
        return Err(malformed(format!(
            "external data at `{location}`, a link out of the model's folder"
        )));
    }
    if !path.metadata().map_err(failed)?.is_file() {
        return Err(malformed(format!("external data `{location}` is not a file")));
    }
    let mut file = std::fs::File::open(&path).map_err(failed)?;
    let held = file.metadata().map_err(failed)?.len();
    if offset.checked_add(bytes).is_none_or(|end| end > held) {
        return Err(malformed(format!(
            "external data `{location}` holds {held} bytes, {bytes} from {offset} on are needed"
        )));
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let length = usize::try_from(bytes).map_err(|_| limit("external data larger than memory"))?;
    let mut data = vec![0; length];
    file.read_exact(&mut data).map_err(failed)?;
    Ok(data)
}

#[cfg(test)]
mod tests {
    use super::super::proto::StringStringEntryProto;
    use super::*;

    fn floats(dims: &[i64]) -> TensorProto {
        TensorProto {
            dims: dims.to_vec(),
            data_type: data_type::FLOAT,
            ..TensorProto::default()
        }
    }

    fn beside(folder: &Path, entries: &[(&str, &str)]) -> Fallible<Host> {
        let proto = TensorProto {
            data_location: 1,
            external_data: entries
                .iter()
                .map(|(k, v)| StringStringEntryProto {
                    key: (*k).into(),
                    value: (*v).into(),
                })
                .collect(),
            ..floats(&[2])
        };
        tensor(&proto, &folder.join("m.onnx"))
    }

    #[test]
    fn claimed_shapes_are_compared_with_the_payload_first() {
        for dims in [&[1 << 30][..], &[-1], &[1 << 40], &[1 << 20, 1 << 20], &[1; 9]] {
            let short = TensorProto {
                raw_data: Some(Bytes::from_static(&[0; 8])),
                ..floats(dims)
            };
            assert!(tensor(&short, Path::new("m.onnx")).is_err(), "{dims:?}");
            assert!(tensor(&floats(dims), Path::new("m.onnx")).is_err(), "{dims:?}");
        }
        let good = TensorProto {
            float_data: vec![1.0, 2.0],
            ..floats(&[2])
        };
        assert_eq!(tensor(&good, Path::new("m.onnx")).unwrap().as_f64s(), [1.0, 2.0]);
    }

    #[test]
    fn brain_floats_are_widened_wherever_they_lie() {
        let folder = tempfile::tempdir().unwrap();
        let bits = [0x3fc0u16, 0xc100, 0x7f80];
        let bytes: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
        std::fs::write(folder.path().join("w.bin"), &bytes).unwrap();
        let path = folder.path().join("m.onnx");
        let brain = TensorProto {
            data_type: data_type::BFLOAT16,
            ..floats(&[3])
        };
        let listed = TensorProto {
            int32_data: bits.map(i32::from).to_vec(),
            ..brain.clone()
        };
        let raw = TensorProto {
            raw_data: Some(Bytes::from(bytes)),
            ..brain.clone()
        };
        let outside = TensorProto {
            data_location: 1,
            external_data: vec![StringStringEntryProto {
                key: "location".into(),
                value: "w.bin".into(),
            }],
            ..brain.clone()
        };
        for proto in [&listed, &raw, &outside] {
            let host = tensor(proto, &path).unwrap();
            assert_eq!((host.elem(), host.as_f64s()), (Elem::F32, vec![1.5, -8.0, f64::INFINITY]));
        }
        let short = TensorProto {
            dims: vec![6],
            ..raw.clone()
        };
        let wide = TensorProto {
            int32_data: vec![1 << 16, 0, 0],
            ..brain
        };
        assert!(tensor(&short, &path).is_err() && tensor(&wide, &path).is_err());
    }

    #[test]
    fn external_data_stays_inside_the_models_folder() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("model");
        std::fs::create_dir(&folder).unwrap();
        let bytes = [0.5f32, 1.5, 2.5].iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>();
        std::fs::write(folder.join("w.bin"), &bytes).unwrap();
        std::fs::write(outer.path().join("secret"), &bytes).unwrap();
        std::os::unix::fs::symlink(outer.path().join("secret"), folder.join("link")).unwrap();
        let good = beside(&folder, &[("location", "w.bin"), ("offset", "4"), ("length", "8")]).unwrap();
        assert_eq!(good.as_f64s(), [1.5, 2.5]);
        let absolute = outer.path().join("secret");
        for location in ["../secret", "link", absolute.to_str().unwrap(), "", "nothing", "."] {
            assert!(beside(&folder, &[("location", location)]).is_err(), "{location}");
        }
        assert!(beside(&folder, &[("location", "w.bin"), ("offset", "8")]).is_err());
        assert!(beside(&folder, &[("location", "w.bin"), ("offset", "18446744073709551615")]).is_err());
        assert!(beside(&folder, &[("location", "w.bin"), ("length", "12")]).is_err());
        assert!(beside(&folder, &[("offset", "0")]).is_err());
    }
}
