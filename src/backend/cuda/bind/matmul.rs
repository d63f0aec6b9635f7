//! Matrix products on ordinary arithmetic units: `kernels/matmul.cu`.

use super::generic::{ElementBox, check, input, optional_input, output};
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
        let view = output(&self.operator, 0)?;
        let outputs = ElementBox::new(view, region)?;
        if outputs.count == 0 {
            return Ok(Vec::new());
        }
        let row_axis = view.layout.shape.rank().checked_sub(2).ok_or(BindError::Reference)?;
        let a = DeviceView::new(at, input(&self.operator, 0)?)?;
        let bias = optional_input(&self.operator, 2)
            .map(|view| DeviceView::new(at, view))
            .transpose()?;
        let (rows, columns) = (outputs.extents[row_axis].divisor, outputs.extents[row_axis + 1].divisor);
        let mut outer = outputs.extents;
        outer[row_axis..].fill(Divisor::new(1));
        let tiles = [rows, columns].map(|n| n.div_ceil(SIDE));
        let matrices: u64 = outer.iter().map(|d| u64::from(d.divisor)).product();
        let count = matrices * u64::from(tiles[0]) * u64::from(tiles[1]);
        let params = Params {
            y: DeviceView::new(at, view)?,
            a,
            b: DeviceView::new(at, input(&self.operator, 1)?)?,
            bias: bias.unwrap_or_default(),
            tail: Tail::new(at, &self.operator)?,
            start: outputs.start,
            outer,
            tiles_down: Divisor::new(tiles[0]),
            tiles_across: Divisor::new(tiles[1]),
            row_axis: row_axis as u32,
            rows,
            columns,
            depth: a.extents[row_axis + 1],
            tiles: u32::try_from(count)
                .ok()
                .filter(|&n| n < 1 << 31)
                .ok_or(BindError::Large("a product"))?,
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
