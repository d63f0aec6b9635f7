//! Attention: `kernels/attention.cu`.

use super::super::operands::{input, output};
use super::super::views::{DeviceView, Divisor, dtype_number};
use super::super::{Addresses, BindError, Kernel, Launch};
use super::{Chunk, LEADING, scale};
use crate::plan::format::{Operator, View};
use crate::plan::tactic::MAX_ATTENTION_WIDTH;
use crate::primitive::Region;
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;
/// Queries of a block.
const QUERIES: u32 = 32;
/// Keys of a step, and how far apart in memory the elements of a key lie.
const KEYS: u32 = 32;
const KEY_PITCH: u32 = KEYS + 1;
/// Elements of the keys and values that have kernels of their own, and most keys of these.
const NARROW: [u32; 2] = [8, 16];
const NARROW_KEYS: u32 = 64;
/// Threads of a block of theirs: a query each.
const NARROW_THREADS: u32 = 32;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    queries: DeviceView,
    keys: DeviceView,
    values: DeviceView,
    leading: [Divisor; LEADING],
    steps: Divisor,
    first_row: u32,
    rows: u32,
    row_axis: u32,
    depth: u32,
    count: u32,
    width: u32,
    tiles: u32,
    scale: f32,
    padding: u32,
}

impl Params {
    /// True if the kernels of narrow heads can read and write it: halves, whose heads lie in one run of whole pieces each.
    fn is_narrow(&self) -> bool {
        let (rows, columns) = (self.row_axis as usize, self.row_axis as usize + 1);
        let whole = |view: &DeviceView, head: usize| view.dtype == dtype_number(DType::F16) && view.in_pieces(head);
        let heads = [
            (&self.y, columns),
            (&self.queries, columns),
            (&self.keys, rows),
            (&self.values, columns),
        ];
        let narrow = self.depth == self.width && NARROW.contains(&self.depth) && self.count <= NARROW_KEYS;
        narrow && heads.into_iter().all(|(view, head)| whole(view, head))
    }
}

struct Attention {
    operator: Operator,
    scale: f32,
}

/// Compiles attention of narrow keys and values.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let scale = scale(operator)?;
    if operator.calls.len() > 1 {
        return Err(BindError::Tactic("its tail is too long"));
    }
    let (depth, width) = extents(operator)?;
    if depth.max(width) > MAX_ATTENTION_WIDTH {
        return Err(BindError::Large("a key or a value"));
    }
    Ok(Box::new(Attention {
        operator: operator.clone(),
        scale,
    }))
}

/// Elements of a key and of a value.
fn extents(operator: &Operator) -> Result<(u32, u32), BindError> {
    let last = |view: &View| view.layout.shape.dim(view.layout.shape.rank() - 1);
    Ok((last(input(operator, 0)?), last(output(operator, 0)?)))
}

impl Kernel for Attention {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let y = output(&self.operator, 0)?;
        let chunk = Chunk::of(&y.layout.shape, region);
        let steps = chunk.rows.div_ceil(QUERIES);
        let tiles = chunk.tiles([steps, 1])?;
        let (depth, columns) = extents(&self.operator)?;
        if tiles == 0 || columns == 0 {
            return Ok(Vec::new());
        }
        let keys = input(&self.operator, 1)?;
        let params = Params {
            y: chunk.view(at, y)?,
            queries: chunk.view(at, input(&self.operator, 0)?)?,
            keys: chunk.view(at, keys)?,
            values: chunk.view(at, input(&self.operator, 2)?)?,
            leading: chunk.divisors(),
            steps: Divisor::new(steps),
            first_row: chunk.first_row,
            rows: chunk.rows,
            row_axis: chunk.row_axis as u32,
            depth,
            count: keys.layout.shape.dim(chunk.row_axis + 1),
            width: columns,
            tiles,
            scale: self.scale,
            padding: 0,
        };
        if params.is_narrow() {
            let function = format!("attention_narrow_{depth}");
            return Ok(vec![Launch::new("attention", function, tiles, width, NARROW_THREADS, &params)]);
        }
        Ok(vec![Launch {
            shared: 4 * (depth * (QUERIES + KEY_PITCH) + columns * KEYS),
            ..Launch::new("attention", "attention", tiles, width, THREADS, &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 4 * 88 + 60 + 36);
    }

    #[test]
    fn heads_of_whole_pieces_are_narrow() {
        // Heads of 8 side by side in rows of 64 halves, as `[samples, heads, rows, 8]`; keys turned.
        let view = |address, inner: [i64; 2]| DeviceView {
            address,
            dtype: dtype_number(DType::F16),
            rank: 4,
            strides: [21 * 64, 8, inner[0], inner[1], 0, 0],
            extents: [1, 8, 21, 21, 1, 1],
        };
        let params = |address| Params {
            y: view(256, [64, 1]),
            queries: view(256, [64, 1]),
            keys: view(address, [1, 64]),
            values: view(512, [64, 1]),
            row_axis: 2,
            depth: 8,
            width: 8,
            count: 21,
            ..Params::zeroed()
        };
        assert!(params(1024).is_narrow());
        assert!(!params(1032).is_narrow(), "keys between pieces");
        assert!(!Params { count: 65, ..params(1024) }.is_narrow(), "too many keys");
        assert!(!Params { width: 16, ..params(1024) }.is_narrow(), "values of another width");
        let turned = Params {
            keys: view(1024, [64, 1]),
            ..params(1024)
        };
        assert!(!turned.is_narrow(), "elements of a key apart");
    }
}
