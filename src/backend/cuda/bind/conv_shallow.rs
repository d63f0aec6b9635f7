//! Convolutions of few channels of large pictures: the launches of `kernels/conv_shallow.cu`.
//!
//! Weights and what follows the sums are those of [`conv_wgmma`](super::conv_wgmma).

use super::conv_wgmma::{MISFIT, is_plain, pack_weights};
use super::epilogue::{Epilogue, pack_bias};
use super::patches::{Constants, Grid, Params, steps};
use super::{Addresses, BindError, Kernel, Launch, Packer, Swizzle, TiledMap, blocks};
use crate::plan::format::Operator;
use crate::plan::tactic::conv_3x3::COLUMNS;
use crate::plan::tactic::conv_shallow::{Form, ShallowTile, product};
use crate::plan::tactic::product::Product;
use crate::primitive::Region;

/// An operator bound to an entry of the menu.
struct ConvShallow {
    operator: Operator,
    entry: ShallowTile,
    constants: Constants,
}

/// Binds a convolution whose tactic is an entry of the menu.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    let entry = ShallowTile::of(operator.tactic).ok_or(BindError::Tactic("conv_shallow has no such tile"))?;
    let product = product(packer.plan, operator).map_err(|_| MISFIT)?;
    let constants = Constants {
        weights: pack_weights(packer, &product)?,
        bias: pack_bias(packer, &product)?,
    };
    Ok(Box::new(ConvShallow {
        operator: operator.clone(),
        entry,
        constants,
    }))
}

/// The input in boxes of the pixels of one parity under a tile of so many rows.
fn image(address: u64, product: &Product<'_>, form: Form, rows: u32) -> TiledMap {
    let [samples, height, width, channels] = product.x.extents;
    let [rows, columns] = form.plane(rows);
    // A box counts the pixels that are left out between its first and its last.
    let span = |pixels: u32| (pixels - 1) * form.stride + 1;
    TiledMap {
        address,
        extents: [channels, width, height, samples].map(u64::from).to_vec(),
        strides: steps(&product.x).to_vec(),
        tile: vec![form.inputs, span(columns), span(rows), 1],
        steps: vec![1, form.stride, form.stride, 1],
        swizzle: match form.inputs {
            16 => Swizzle::B32,
            32 => Swizzle::B64,
            _ => Swizzle::B128,
        },
    }
}

impl Kernel for ConvShallow {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        let product = product(at.plan, &self.operator).map_err(|_| MISFIT)?;
        let form = Form::of_product(&product).ok_or(MISFIT)?;
        let [samples, rows, columns, channels] = product.out.extents;
        if region.batch.end > samples || region.rows.end > rows || region.is_empty() {
            return Err(BindError::Reference);
        }
        let high = u32::from(self.entry.rows);
        let grid = Grid {
            channel_tiles: 1,
            across: columns.div_ceil(COLUMNS),
            down: (region.rows.len() as u32).div_ceil(high),
        };
        let image = at.maps.tiled(&image(at.view(product.input)?, &product, form, high))?;
        let epilogue = Epilogue::new(at, &self.operator, &product, self.constants.bias, region)?;
        let plain = is_plain(&epilogue, channels);
        let weights = at.pack(self.constants.weights)?.address;
        let params = Params::new(image, weights, &product, region, grid, epilogue);
        // One block fills a multiprocessor: more of them would only load the weights more often.
        let count = blocks(at.rooms(), width).min(params.tiles);
        let function = self.entry.function(form, plain);
        let launch = Launch::new("conv_shallow", function, count, 0, self.entry.threads(form), &params);
        Ok(vec![Launch {
            shared: self.entry.shared(form),
            ..launch
        }])
    }
}
