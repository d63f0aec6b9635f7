//! Matrix products on ordinary arithmetic units: `kernels/matmul.cu`.

use super::matrices::Matrices;
use super::operands::check;
use super::tail::Tail;
use super::views::{DeviceView, Divisor};
use super::{Addresses, BindError, Kernel, Launch};
use crate::limits::MAX_RANK;
use crate::plan::format::Operator;
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;
/// Outputs of a tile, along rows and along columns.
const SIDE: u32 = 64;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    a: DeviceView,
    b: DeviceView,
    bias: DeviceView,
    tail: Tail,
    start: [u32; MAX_RANK],
    outer: [Divisor; MAX_RANK],
    tiles_down: Divisor,
    tiles_across: Divisor,
    row_axis: u32,
    rows: u32,
    columns: u32,
    depth: u32,
    tiles: u32,
    padding: u32,
}

struct MatMul {
    operator: Operator,
}

/// Compiles a matrix product of floats.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    Ok(Box::new(MatMul {
        operator: operator.clone(),
    }))
}

impl Kernel for MatMul {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let Some(product) = Matrices::new(at, &self.operator, region, [SIDE; 2])? else {
            return Ok(Vec::new());
        };
        let params = Params {
            y: product.y,
            a: product.a,
            b: product.b,
            bias: product.bias,
            tail: Tail::new(at, &self.operator)?,
            start: product.start,
            outer: product.outer,
            tiles_down: Divisor::new(product.tiles[0]),
            tiles_across: Divisor::new(product.tiles[1]),
            row_axis: product.row_axis as u32,
            rows: product.rows,
            columns: product.columns,
            depth: product.depth,
            tiles: product.count,
            padding: 0,
        };
        Ok(vec![Launch::new("matmul", "matmul", params.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 4 * 88 + 1080 + 24 + 72 + 24 + 24);
    }
}
