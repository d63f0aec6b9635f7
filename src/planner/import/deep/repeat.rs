//! Values of any rank that are constants, or that repeat others: Constant, ConstantOfShape, Expand, Tile.

use super::broadcast;
use super::call::Call;
use crate::planner::graph::ViewOp;
use crate::planner::import::builder::Builder;
use crate::planner::import::error::{Fallible, malformed};
use crate::planner::import::file;
use crate::planner::import::host::{Host, elements_of, shape_of};
use crate::planner::import::values::Deep;

impl Call<'_> {
    pub(super) fn constant(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let value = self.node.tensor("value")?.ok_or_else(|| malformed("missing").at("value"))?;
        let host = file::flat(value, self.path).map_err(|e| e.at("value"))?;
        Ok(vec![Deep {
            elements: b.constant(host),
            dims: value.dims.clone(),
        }])
    }

    pub(super) fn constant_of_shape(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let dims = self.node.int_input(0, "input")?.ok_or_else(|| malformed("missing").at("input"))?;
        let all = elements_of(&dims).map_err(|e| e.at("input"))?;
        let flat = b.constant(Host::i64s(shape_of(&[1])?, vec![all])?);
        self.one(b, vec![Some(flat)], &[], dims)
    }

    pub(super) fn expand(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let wanted = self.node.int_input(1, "shape")?.ok_or_else(|| malformed("missing").at("shape"))?;
        let rank = wanted.len().max(self.input(0)?.dims.len());
        let x = self.input(0)?.aligned(rank);
        let like = Deep {
            elements: x.elements.clone(),
            dims: wanted,
        };
        let out = broadcast(&[x.clone(), like.aligned(rank)])?;
        Ok(vec![x.repeated(b, out)?])
    }

    pub(super) fn tile(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let x = self.input(0)?;
        let times = self
            .node
            .int_input(1, "repeats")?
            .ok_or_else(|| malformed("missing").at("repeats"))?;
        if times.len() != x.dims.len() {
            return Err(malformed(format!("{} numbers for an input {:?}", times.len(), x.dims)).at("repeats"));
        }
        // Axes of one element are repeated together, as Expand repeats them.
        let once: Vec<i64> = x.dims.iter().zip(&times).map(|(&d, &n)| if d == 1 { n } else { d }).collect();
        elements_of(&once).map_err(|e| e.at("repeats"))?;
        let mut tiled = x.repeated(b, once)?;
        for (axis, &n) in times.iter().enumerate().filter(|&(axis, &n)| x.dims[axis] != 1 && n != 1) {
            // A new axis in front of it, repeated; what lies before and behind is one axis each.
            let product = |dims: &[i64]| dims.iter().product::<i64>();
            let (before, behind) = (product(&tiled.dims[..axis]), product(&tiled.dims[axis..]));
            let one = b.reshape(&tiled.elements, shape_of(&[before, 1, behind])?)?;
            let many = shape_of(&[before, n, behind]).map_err(|e| e.at("repeats"))?;
            tiled.elements = b.view(ViewOp::Broadcast, &one, many)?;
            tiled.dims[axis] *= n;
        }
        Ok(vec![tiled])
    }
}
