//! Products of few rows with a constant matrix that is read once: `kernels/matvec.cu`.

use super::constants::{Constant, floats};
use super::operands::{check, head, input, optional_input, output};
use super::tail::Tail;
use super::views::DeviceView;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::Operator;
use crate::plan::tactic::PRODUCT_STEP;
use crate::primitive::{Primitive, Region};
use crate::tensor::DType;
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 64;
/// Outputs of a tile: four a warp.
const COLUMNS: u32 = THREADS / 32 * 4;
/// Ranges of K, one a lane.
const LANES: u32 = 32;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    y: DeviceView,
    x: DeviceView,
    bias: DeviceView,
    tail: Tail,
    weights: u64,
    depth: u32,
    share: u32,
    ranges: u32,
    columns: u32,
    first_row: u32,
    rows: u32,
    tiles: u32,
    padding: u32,
}

struct MatVec {
    operator: Operator,
    weights: PackId,
}

/// Compiles a product of a matrix `[M, K]`, or of pixels `[M, K, 1, 1]`, with constant weights, all of f16.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let transposed = head(operator)?.primitive == Primitive::MatMul;
    let (depth, columns) = (input(operator, 0)?.layout.shape.dim(1), output(operator, 0)?.layout.shape.dim(1));
    let share = operator.class.range(depth, PRODUCT_STEP);
    if share.saturating_mul(LANES) < depth {
        return Err(BindError::Tactic("its class has more ranges than a warp has lanes"));
    }
    let weights = Constant::new(packer, input(operator, 1)?)?.pack(packer, &format!("rows in ranges of {share}"), |read| {
        let value = |n: u32, k: u32| match (k < depth, transposed) {
            (false, _) => 0.0,
            (true, true) => read(&[k, n]),
            (true, false) => read(&[n, k, 0, 0]),
        };
        let steps = share / PRODUCT_STEP;
        let row = |n: u32| {
            let pieces = (0..steps).flat_map(|step| (0..LANES).map(move |lane| lane * share + step * PRODUCT_STEP));
            pieces.flat_map(move |first| (first..first + PRODUCT_STEP).map(move |k| (n, k)))
        };
        floats(DType::F16, (0..columns).flat_map(row).map(|(n, k)| value(n, k)))
    })?;
    Ok(Box::new(MatVec {
        operator: operator.clone(),
        weights,
    }))
}

impl Kernel for MatVec {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let (x, y) = (
            DeviceView::new(at, input(&self.operator, 0)?)?,
            DeviceView::new(at, output(&self.operator, 0)?)?,
        );
        let mut bias = optional_input(&self.operator, 2).map_or(Ok(DeviceView::default()), |view| DeviceView::new(at, view))?;
        if bias.rank == 1 {
            // A convolution's bias has channels only.
            bias.strides.swap(0, 1);
        }
        let (depth, columns) = (x.extents[1], y.extents[1]);
        let share = self.operator.class.range(depth, PRODUCT_STEP);
        let params = Params {
            y,
            x,
            bias,
            tail: Tail::new(at, &self.operator)?,
            weights: at.pack(self.weights)?.address,
            depth,
            share,
            ranges: depth.div_ceil(share),
            columns,
            first_row: region.batch.start,
            rows: region.batch.len() as u32,
            tiles: columns.div_ceil(COLUMNS),
            padding: 0,
        };
        Ok(vec![Launch::new("matvec", "matvec", params.tiles, width, THREADS, &params)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 3 * 88 + 1080 + 8 + 32);
    }
}
