//! Reference arrays in NumPy's format: f32, C order, version 1.

use std::path::Path;

/// An array.
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Vec<f32>,
}

/// Reads an array; anything but f32 in C order is a mistake in the data.
pub fn read(path: &Path) -> Array {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(bytes[..8], *b"\x93NUMPY\x01\x00", "{}", path.display());
    let header_end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..header_end]).unwrap();
    assert!(
        header.contains("'<f4'") && header.contains("'fortran_order': False"),
        "{}: {header}",
        path.display()
    );
    let (_, shape) = header.split_once("'shape': (").unwrap();
    let (shape, _) = shape.split_once(')').unwrap();
    let dims = shape.split(',').map(str::trim).filter(|d| !d.is_empty());
    let shape: Vec<usize> = dims.map(|d| d.parse().unwrap()).collect();
    let values: Vec<f32> = bytes[header_end..]
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect();
    assert_eq!(values.len(), shape.iter().product::<usize>(), "{}", path.display());
    Array { shape, values }
}
