//! Descriptors that the tensor memory accelerator reads, encoded by the driver.

use super::device::Context;
use super::driver::DriverError;
use crate::backend::cuda::bind::{BindError, Im2colMap, Swizzle, TensorMap, TensorMaps, TiledMap};

/// `CU_TENSOR_MAP_DATA_TYPE_FLOAT16`.
const FLOAT16: u32 = 6;
/// `CU_TENSOR_MAP_INTERLEAVE_NONE`, and `CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE`: what lies outside reads as zero.
const NONE: u32 = 0;
/// `CU_TENSOR_MAP_L2_PROMOTION_L2_128B`.
const PROMOTE_128: u32 = 2;

fn swizzle(swizzle: Swizzle) -> u32 {
    match swizzle {
        Swizzle::None => 0,
        Swizzle::B32 => 1,
        Swizzle::B64 => 2,
        Swizzle::B128 => 3,
    }
}

fn refused(error: DriverError) -> BindError {
    BindError::TensorMap(error.code)
}

impl TensorMaps for Context {
    fn tiled(&self, map: &TiledMap) -> Result<TensorMap, BindError> {
        let rank = map.extents.len();
        if rank == 0 || rank > 5 || map.strides.len() + 1 != rank || map.tile.len() != rank || map.steps.len() != rank {
            return Err(BindError::Large("the rank of a tensor map"));
        }
        let mut encoded = TensorMap([0; 16]);
        // SAFETY: the descriptor has the size and alignment that the driver asks for; each array has as many entries as
        // the rank says (strides one less), by the check above.
        let encoding = unsafe {
            self.api.tensor_map_encode_tiled(
                (&raw mut encoded).cast(),
                FLOAT16,
                rank as u32,
                map.address,
                map.extents.as_ptr(),
                map.strides.as_ptr(),
                map.tile.as_ptr(),
                map.steps.as_ptr(),
                NONE,
                swizzle(map.swizzle),
                PROMOTE_128,
                NONE,
            )
        };
        encoding.map(|()| encoded).map_err(refused)
    }

    fn im2col(&self, map: &Im2colMap) -> Result<TensorMap, BindError> {
        let mut encoded = TensorMap([0; 16]);
        // SAFETY: as above, for rank 4.
        let encoding = unsafe {
            self.api.tensor_map_encode_im2col(
                (&raw mut encoded).cast(),
                FLOAT16,
                4,
                map.address,
                map.extents.as_ptr(),
                map.strides.as_ptr(),
                map.lower.as_ptr(),
                map.upper.as_ptr(),
                map.channels,
                map.pixels,
                map.steps.as_ptr(),
                NONE,
                swizzle(map.swizzle),
                PROMOTE_128,
                NONE,
            )
        };
        encoding.map(|()| encoded).map_err(refused)
    }
}
