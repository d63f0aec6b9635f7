//! Recurrent layers: `kernels/recurrent.cu`.

use super::constants::{Constant, floats};
use super::operands::{check, head, input, optional_input, output};
use super::views::DeviceView;
use super::{Addresses, BindError, Kernel, Launch, PackId, Packer};
use crate::plan::format::Operator;
use crate::primitive::{Cell, Region};
use bytemuck::{Pod, Zeroable};

/// Threads of a block.
const THREADS: u32 = 256;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    gates: DeviceView,
    weights: DeviceView,
    first_h: DeviceView,
    first_c: DeviceView,
    y: DeviceView,
    last_c: DeviceView,
    steps: u32,
    hidden: u32,
    reverse: u32,
    first_row: u32,
    tiles: u32,
    gated: u32,
}

struct Recurrent {
    operator: Operator,
    cell: Cell,
    reverse: bool,
    /// Constant weights, the gates of each k side by side.
    packed: Option<PackId>,
}

/// Gates of a thread: rows of packed weights are a multiple of this.
const GROUP: u32 = 8;

/// Compiles a recurrent layer.
pub fn compile(packer: &Packer<'_>, operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let recurrence = head(operator)?.primitive.recurrence();
    let (cell, reverse) = recurrence.ok_or(BindError::Tactic("it is no recurrent layer"))?;
    let weights = input(operator, 1)?;
    let [gates, hidden] = [0, 1].map(|axis| weights.layout.shape.dim(axis));
    let pitch = gates.next_multiple_of(GROUP);
    let transposed = |read: &dyn Fn(&[u32]) -> f32| {
        let value = |k: u32, gate: u32| if gate < gates { read(&[gate, k]) } else { 0.0 };
        let values = (0..hidden).flat_map(|k| (0..pitch).map(move |gate| (k, gate)));
        floats(weights.dtype, values.map(|(k, gate)| value(k, gate)))
    };
    let packed = match packer.section(weights) {
        Some(_) => Some(Constant::new(packer, weights)?.pack(packer, "gates side by side", transposed)?),
        None => None,
    };
    Ok(Box::new(Recurrent {
        operator: operator.clone(),
        cell,
        reverse,
        packed,
    }))
}

impl Kernel for Recurrent {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let view = |view: Option<_>| view.map_or(Ok(DeviceView::default()), |v| DeviceView::new(at, v));
        let y = DeviceView::new(at, output(&self.operator, 0)?)?;
        let mut weights = DeviceView::new(at, input(&self.operator, 1)?)?;
        if let Some(pack) = self.packed {
            weights.address = at.pack(pack)?.address;
            weights.strides[0] = 1;
            weights.strides[1] = i64::from(weights.extents[0].next_multiple_of(GROUP));
        }
        let params = Params {
            gates: DeviceView::new(at, input(&self.operator, 0)?)?,
            weights,
            first_h: view(optional_input(&self.operator, 2))?,
            first_c: view(optional_input(&self.operator, 3))?,
            y,
            last_c: view(self.operator.outputs.get(1))?,
            steps: y.extents[0],
            hidden: y.extents[2],
            reverse: u32::from(self.reverse),
            first_row: region.rows.start,
            tiles: region.rows.len() as u32,
            gated: u32::from(self.cell == Cell::Gru),
        };
        // h, c and four gates of each hidden unit.
        let shared = params.hidden.checked_mul(6 * 4).ok_or(BindError::Large("a hidden state"))?;
        Ok(vec![Launch {
            shared,
            ..Launch::new("recurrent", "recurrent_rows", params.tiles, width, THREADS, &params)
        }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 6 * 88 + 24);
    }
}
