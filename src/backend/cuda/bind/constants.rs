//! Reading constant tensors wherever a view says their elements lie, to pack them.

use super::{BindError, PackId, Packer};
use crate::ids::SectionId;
use crate::plan::format::View;
use crate::tensor::DType;
use half::f16;

/// A constant tensor of floats in a weight section.
#[derive(Clone, Copy)]
pub struct Constant {
    section: SectionId,
    view: View,
}

impl Constant {
    /// The constant under a view; an error if it is none, or reaches out of its section.
    pub fn new(packer: &Packer<'_>, view: &View) -> Result<Constant, BindError> {
        let section = packer.section(view).ok_or(BindError::Tactic("its weights are no constants"))?;
        let elements = packer.contents(section)?.len() as u64 / view.dtype.bytes();
        let (low, high) = view.layout.bounds().ok_or(BindError::Reference)?;
        let origin = i64::try_from(view.origin).map_err(|_| BindError::Reference)?;
        let first = origin.checked_add(low).ok_or(BindError::Reference)?;
        let last = origin.checked_add(high).ok_or(BindError::Reference)?;
        if first < 0 || last as u64 >= elements || !view.dtype.is_float() {
            return Err(BindError::Reference);
        }
        Ok(Constant { section, view: *view })
    }

    /// The packing `name` of the tensor: `make` gets a reader of its elements by coordinates.
    pub fn pack(&self, packer: &Packer<'_>, name: &str, make: impl FnOnce(&dyn Fn(&[u32]) -> f32) -> Vec<u8>) -> Result<PackId, BindError> {
        let view = self.view;
        let name = format!("{name} of {} at {} {:?}", view.dtype, view.origin, view.layout);
        packer.pack(self.section, name, |bytes| make(&|at| read(bytes, &view, at)))
    }
}

/// An element; 0 outside of the bytes, which [`Constant::new`] has ruled out.
fn read(bytes: &[u8], view: &View, at: &[u32]) -> f32 {
    let steps = at.iter().zip(view.layout.strides()).map(|(&i, &s)| i64::from(i) * s);
    let element = (view.origin as i64 + steps.sum::<i64>()) as usize;
    match view.dtype {
        DType::F32 => bytes.as_chunks::<4>().0.get(element).map_or(0.0, |&b| f32::from_le_bytes(b)),
        _ => bytes
            .as_chunks::<2>()
            .0
            .get(element)
            .map_or(0.0, |&b| f16::from_le_bytes(b).to_f32()),
    }
}

/// The bytes of floats in a type.
pub fn floats(dtype: DType, values: impl Iterator<Item = f32>) -> Vec<u8> {
    match dtype {
        DType::F16 => values.flat_map(|v| f16::from_f32(v).to_le_bytes()).collect(),
        _ => values.flat_map(f32::to_le_bytes).collect(),
    }
}
