//! NumPy's `.npy` files: one tensor each, read in versions 1 to 3, written in version 1.

use crate::limits::MAX_RANK;
use crate::planner::import::Feed;
use crate::tensor::{DType, Data, Shape, Tensor};
use std::io::{self, Write};

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Bytes of the longest header that is read.
const MAX_HEADER: usize = 4096;

/// Why bytes are no `.npy` file that can be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    /// The magic number is missing.
    #[error("not a .npy file")]
    Magic,
    /// A version that is not known.
    #[error("version {0}.{1} of the .npy format is not known: 1 to 3 are read")]
    Version(u8, u8),
    /// The file ends within its header, or the header is too long.
    #[error("the header is truncated or longer than {MAX_HEADER} bytes")]
    HeaderLength,
    /// The header is no dictionary of descr, fortran_order and shape.
    #[error("the header is damaged: {0}")]
    Header(&'static str),
    /// An element type that is not read.
    #[error("elements of type {0:?} are not read: <f8, <f4, <f2, <i8, <i4, |i1, |u1 and |b1 are (convert them with NumPy's `astype`)")]
    Type(String),
    /// Too many axes or elements.
    #[error("the shape has more than {MAX_RANK} axes or too many elements")]
    Shape,
    /// Elements are missing or left over.
    #[error("{found} bytes of elements where shape and type need {needed}")]
    Length {
        /// Bytes there are.
        found: u64,
        /// Bytes there should be.
        needed: u64,
    },
}

/// Reads a file's bytes.
pub fn read(bytes: &[u8]) -> Result<Feed, NpyError> {
    let (header, body) = split(bytes)?;
    let header = Header::parse(header)?;
    let stored = match header.descr.as_str() {
        "<f8" => Stored::Double,
        "<f4" => Stored::As(DType::F32),
        "<f2" => Stored::As(DType::F16),
        "<i8" => Stored::Wide,
        "<i4" => Stored::As(DType::I32),
        "|i1" | "<i1" => Stored::Signed,
        "|u1" | "<u1" => Stored::As(DType::U8),
        "|b1" => Stored::As(DType::Bool),
        _ => return Err(NpyError::Type(header.descr)),
    };
    let dims: Option<Vec<u32>> = header.shape.iter().map(|&d| u32::try_from(d).ok()).collect();
    let shape = dims.and_then(|d| Shape::new(&d)).ok_or(NpyError::Shape)?;
    let item = match stored {
        Stored::As(dtype) => dtype.bytes(),
        Stored::Double | Stored::Wide => 8,
        Stored::Signed => 1,
    };
    let needed = shape.elements() * item;
    if body.len() as u64 != needed {
        return Err(NpyError::Length {
            found: body.len() as u64,
            needed,
        });
    }
    let reordered;
    let body = if header.fortran_order && shape.rank() > 1 {
        reordered = to_c_order(body, shape, item as usize);
        &reordered
    } else {
        body
    };
    // Shape and length agree by now.
    let feed = match stored {
        Stored::As(dtype) => Tensor::from_bytes(dtype, shape, body).map(Feed::from),
        Stored::Wide => Feed::from_i64(shape, body.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b))),
        Stored::Double => {
            let nearest = body.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b) as f32);
            Tensor::new(shape, Data::F32(nearest.collect())).map(Feed::from)
        }
        Stored::Signed => {
            let whole = body.iter().map(|&b| i32::from(b.cast_signed()));
            Tensor::new(shape, Data::I32(whole.collect())).map(Feed::from)
        }
    };
    feed.ok_or(NpyError::Shape)
}

/// How a file holds elements.
#[derive(Clone, Copy)]
enum Stored {
    /// As tensors of this type do.
    As(DType),
    /// As f64, which become f32.
    Double,
    /// As i64, which become i32.
    Wide,
    /// As i8, which become i32.
    Signed,
}

/// Writes a file of a tensor of this type and shape from its elements' bytes, native-endian in C order; an i32 one as i64 with `widened`.
pub fn write(out: &mut dyn Write, (dtype, shape): (DType, Shape), elements: &[u8], widened: bool) -> io::Result<()> {
    let wide = widened && dtype == DType::I32;
    let descr = match dtype {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::I32 if wide => "<i8",
        DType::I32 => "<i4",
        DType::U8 => "|u1",
        DType::Bool => "|b1",
    };
    let shape = match shape.dims() {
        [one] => format!("{one},"),
        dims => dims.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
    };
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Magic, version and length take 10 bytes; the elements start at a multiple of 64, after a line break.
    let start = (10 + header.len() + 1).next_multiple_of(64);
    out.write_all(MAGIC)?;
    out.write_all(&[1, 0])?;
    // At most MAX_RANK extents of ten digits: far below 64 KiB.
    out.write_all(&((start - 10) as u16).to_le_bytes())?;
    writeln!(out, "{header:<width$}", width = start - 11)?;
    if !wide {
        return out.write_all(elements);
    }
    let mut values = elements.as_chunks().0.iter().map(|b| i64::from(i32::from_ne_bytes(*b)));
    values.try_for_each(|value| out.write_all(&value.to_le_bytes()))
}

/// Header text and elements.
fn split(bytes: &[u8]) -> Result<(&str, &[u8]), NpyError> {
    let rest = bytes.strip_prefix(MAGIC).ok_or(NpyError::Magic)?;
    let (&[major, minor], rest) = rest.split_first_chunk().ok_or(NpyError::HeaderLength)?;
    let (length, rest) = match (major, minor) {
        (1, 0) => rest
            .split_first_chunk()
            .map(|(n, rest)| (usize::from(u16::from_le_bytes(*n)), rest)),
        (2 | 3, 0) => rest.split_first_chunk().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        _ => return Err(NpyError::Version(major, minor)),
    }
    .ok_or(NpyError::HeaderLength)?;
    let header = rest.get(..length).filter(|h| h.len() <= MAX_HEADER).ok_or(NpyError::HeaderLength)?;
    let header = std::str::from_utf8(header).map_err(|_| NpyError::Header("not UTF-8"))?;
    Ok((header, &rest[length..]))
}

/// Elements of `item` bytes from first-axis-fastest to last-axis-fastest order.
fn to_c_order(bytes: &[u8], shape: Shape, item: usize) -> Vec<u8> {
    let dims = shape.dims();
    let mut strides = [0usize; MAX_RANK];
    let mut step = item;
    for (stride, &dim) in strides.iter_mut().zip(dims) {
        *stride = step;
        step *= dim as usize;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = [0u32; MAX_RANK];
    while out.len() < bytes.len() {
        let at: usize = (0..dims.len()).map(|a| index[a] as usize * strides[a]).sum();
        out.extend_from_slice(&bytes[at..at + item]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    out
}

/// The header's dictionary.
#[derive(Default)]
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<u64>,
}

impl Header {
    fn parse(text: &str) -> Result<Header, NpyError> {
        let mut text = Text(text.trim());
        let mut header = Header::default();
        let mut seen = [false; 3];
        text.expect('{')?;
        while !text.take('}') {
            let key = text.string()?;
            text.expect(':')?;
            let which = match key {
                "descr" => {
                    if text.0.trim_start().starts_with('[') {
                        return Err(NpyError::Type("of several fields".into()));
                    }
                    header.descr = text.string()?.to_owned();
                    0
                }
                "fortran_order" => {
                    header.fortran_order = text.truth()?;
                    1
                }
                "shape" => {
                    header.shape = text.extents()?;
                    2
                }
                _ => return Err(NpyError::Header("an unknown key")),
            };
            if std::mem::replace(&mut seen[which], true) {
                return Err(NpyError::Header("a key occurs twice"));
            }
            if !text.take(',') {
                text.expect('}')?;
                break;
            }
        }
        match (seen, text.0.trim()) {
            ([true, true, true], "") => Ok(header),
            ([true, true, true], _) => Err(NpyError::Header("text behind the dictionary")),
            _ => Err(NpyError::Header("descr, fortran_order or shape is missing")),
        }
    }
}

/// What is left to read of a header.
struct Text<'a>(&'a str);

impl<'a> Text<'a> {
    fn take(&mut self, c: char) -> bool {
        let rest = self.0.trim_start().strip_prefix(c);
        rest.inspect(|rest| self.0 = rest).is_some()
    }

    fn expect(&mut self, c: char) -> Result<(), NpyError> {
        self.take(c)
            .then_some(())
            .ok_or(NpyError::Header("not a dictionary as NumPy writes it"))
    }

    fn string(&mut self) -> Result<&'a str, NpyError> {
        let damaged = NpyError::Header("a string is expected");
        let quote = ['\'', '"'].into_iter().find(|&q| self.take(q)).ok_or(damaged.clone())?;
        let (string, rest) = self.0.split_once(quote).ok_or(damaged)?;
        self.0 = rest;
        Ok(string)
    }

    fn truth(&mut self) -> Result<bool, NpyError> {
        let text = self.0.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = text.strip_prefix(word) {
                self.0 = rest;
                return Ok(value);
            }
        }
        Err(NpyError::Header("fortran_order is neither True nor False"))
    }

    fn extents(&mut self) -> Result<Vec<u64>, NpyError> {
        self.expect('(')?;
        let mut extents = Vec::new();
        while !self.take(')') {
            let text = self.0.trim_start();
            let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let extent = text[..digits].parse().map_err(|_| NpyError::Header("an extent is no number"))?;
            if extents.len() == MAX_RANK {
                return Err(NpyError::Shape);
            }
            extents.push(extent);
            self.0 = text[digits..].strip_prefix('L').unwrap_or(&text[digits..]);
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(extents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    fn shape(dims: &[u32]) -> Shape {
        Shape::new(dims).unwrap()
    }

    fn file(version: u8, header: &str, body: &[u8]) -> Vec<u8> {
        let mut file = MAGIC.to_vec();
        file.extend([version, 0]);
        match version {
            1 => file.extend((header.len() as u16).to_le_bytes()),
            _ => file.extend((header.len() as u32).to_le_bytes()),
        }
        file.extend(header.as_bytes());
        file.extend(body);
        file
    }

    fn written(tensor: &Tensor, widened: bool) -> Vec<u8> {
        let mut file = Vec::new();
        write(&mut file, (tensor.dtype(), tensor.shape()), tensor.bytes(), widened).unwrap();
        file
    }

    #[test]
    fn every_type_survives_a_round_trip() {
        let tensors = [
            Tensor::new(shape(&[2, 3]), Data::F32(vec![1.5, -2.0, 0.0, f32::MAX, 4.0, 5.0])),
            Tensor::new(shape(&[2]), Data::F16(vec![f16::from_f32(0.5), f16::MIN])),
            Tensor::new(shape(&[]), Data::I32(vec![-7])),
            Tensor::new(shape(&[3]), Data::U8(vec![0, 128, 255])),
            Tensor::new(shape(&[1, 2]), Data::Bool(vec![0, 1])),
            Tensor::new(shape(&[0, 4]), Data::F32(vec![])),
        ];
        for tensor in tensors.map(Option::unwrap) {
            for widened in [false, true] {
                let bytes = written(&tensor, widened);
                let array = read(&bytes).unwrap();
                assert_eq!(array.tensor, tensor);
                assert_eq!(array.widened, widened && tensor.dtype() == DType::I32);
                let body = tensor.bytes().len() * if array.widened { 2 } else { 1 };
                assert_eq!((bytes.len() - body) % 64, 0, "elements are aligned");
            }
        }
    }

    #[test]
    fn the_header_is_as_numpy_writes_it() {
        let bytes = written(&Tensor::zeros(DType::F32, shape(&[1, 3])), false);
        assert!(bytes.starts_with(b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"));
        assert_eq!(bytes[127], b'\n');
        let scalar = written(&Tensor::zeros(DType::U8, Shape::SCALAR), false);
        assert!(scalar[10..].starts_with(b"{'descr': '|u1', 'fortran_order': False, 'shape': (), }"));
    }

    #[test]
    fn all_versions_and_key_orders_are_read() {
        let body = [1u8, 2, 3, 4, 5, 6];
        for version in 1..=3 {
            let header = "{\"shape\": (2L, 3), 'descr': '|u1', 'fortran_order': True}\n";
            let array = read(&file(version, header, &body)).unwrap();
            assert_eq!(array.tensor.bytes(), [1, 3, 5, 2, 4, 6]);
        }
        assert_eq!(read(&file(4, "{}", &[])), Err(NpyError::Version(4, 0)));
    }

    #[test]
    fn doubles_and_signed_bytes_become_what_platoon_computes_with() {
        let header = |descr: &str| format!("{{'descr': '{descr}', 'fortran_order': True, 'shape': (2, 2), }}");
        let body = [0.1, -2.0, 1e300, f64::NAN].map(f64::to_le_bytes).concat();
        let array = read(&file(1, &header("<f8"), &body)).unwrap();
        let values = array.tensor.as_f32().unwrap();
        assert_eq!(values[..3], [0.1, f32::INFINITY, -2.0]);
        assert!(values[3].is_nan());
        let array = read(&file(1, &header("|i1"), &[1, 0xff, 0x80, 0x7f])).unwrap();
        assert_eq!((array.tensor.as_i32().unwrap(), array.widened), (&[1, -128, -1, 127][..], false));
        let fields = "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }";
        let message = read(&file(1, fields, &[0; 4])).unwrap_err().to_string();
        assert!(message.contains("several fields"), "{message}");
    }

    #[test]
    fn wide_integers_are_narrowed_with_a_check() {
        let header = "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }";
        let body = |values: [i64; 2]| values.map(i64::to_le_bytes).concat();
        let array = read(&file(1, header, &body([-1, i64::from(i32::MAX)]))).unwrap();
        assert_eq!((array.tensor.as_i32().unwrap(), array.widened), (&[-1, i32::MAX][..], true));
        let beyond = i64::from(i32::MAX) + 1;
        let array = read(&file(1, header, &body([0, beyond]))).unwrap();
        assert_eq!((array.tensor.as_i32().unwrap(), array.beyond), (&[0, i32::MAX][..], Some(beyond)));
    }

    #[test]
    fn damaged_files_are_refused_without_trusting_their_lengths() {
        let good = written(&Tensor::zeros(DType::F32, shape(&[4, 4])), false);
        for length in 0..good.len() {
            assert!(read(&good[..length]).is_err(), "truncated to {length}");
        }
        let long = [good.as_slice(), &[0]].concat();
        assert_eq!(read(&long), Err(NpyError::Length { found: 65, needed: 64 }));
        let headers = [
            ("", "empty"),
            ("{'descr': '<f4', 'fortran_order': False}", "no shape"),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                "an endless extent",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,)}",
                "an extent beyond 32 bits",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (65536, 65536)}",
                "too many elements",
            ),
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1)}",
                "too many axes",
            ),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "a negative extent"),
            ("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "big endian"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "objects"),
            (
                "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
                "a key twice",
            ),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + 1", "text behind"),
            ("{'descr': '<f4', 'fortran_order': 1, 'shape': ()}", "no truth value"),
        ];
        for (header, why) in headers {
            assert!(read(&file(1, header, &[0; 4])).is_err(), "{why}");
            assert!(read(&file(2, header, &[])).is_err(), "{why}");
        }
        let mut huge = file(2, "{", &[]);
        huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(read(&huge), Err(NpyError::HeaderLength));
    }
}
