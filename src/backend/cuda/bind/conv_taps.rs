//! Convolutions of 3 by 3 neighbours to few channels whose taps share a patch: the launches of `kernels/conv_taps.cu`.
//!
//! Weights and most parameters are those of [`conv_mma`](super::conv_mma).

use super::conv_mma::{Convolution, Packed, convolution};
use super::views::Divisor;
use super::{Addresses, BindError, Kernel, Launch, Packer, blocks};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_mma::K_BLOCK;
use crate::plan::tactic::conv_taps::{SIDE, TACTIC, TILE, band, patch, product, shared};
use crate::primitive::Region;
use bytemuck::{Pod, Zeroable};

/// Threads of a block: a warp for each tap.
const THREADS: u32 = SIDE * SIDE * 32;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    product: Convolution,
    band: u32,
    units: u32,
    bands: Divisor,
    parts: u32,
}

/// An operator bound to the kernel.
struct ConvTaps {
    operator: Operator,
    packed: Packed,
}

const MISFIT: BindError = BindError::Tactic("conv_taps does not compute such products");

/// Binds a convolution.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
    if operator.tactic != TACTIC {
        return Err(BindError::Tactic("conv_taps has no such tile"));
    }
    let packed = Packed::plain(packer, &product)?;
    Ok(Box::new(ConvTaps {
        operator: operator.clone(),
        packed,
    }))
}

impl Kernel for ConvTaps {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let params = convolution(at, &self.operator, &product, &self.packed, region, (TILE, K_BLOCK as u16))?;
        let (samples, rows, columns) = (region.batch.len() as u32, region.rows.len() as u32, product.out.extents[2]);
        // One block fills a multiprocessor.
        let band = band(rows, columns, samples, at.rooms());
        let bands = rows.div_ceil(band);
        let units = samples * bands;
        let params = Params {
            product: params,
            band,
            units,
            bands: Divisor::new(bands),
            parts: patch(band, columns),
        };
        let launch = Launch::new(
            "conv_taps",
            "conv_taps_32x32",
            units.min(blocks(at.rooms(), width)),
            0,
            THREADS,
            &params,
        );
        Ok(vec![Launch {
            shared: shared(band, columns),
            ..launch
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(size_of::<Params>(), size_of::<Convolution>() + 24);
        assert_eq!(offset_of!(Params, parts), size_of::<Convolution>() + 20);
    }
}
