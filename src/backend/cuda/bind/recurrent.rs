//! Recurrent layers: `kernels/recurrent.cu`.

use super::generic::{check, head, input, optional_input, output};
use super::views::DeviceView;
use super::{Addresses, BindError, Kernel, Launch};
use crate::plan::format::Operator;
use crate::primitive::{Primitive, Region};
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
    padding: u32,
}

struct Recurrent {
    operator: Operator,
    reverse: bool,
}

/// Compiles a layer of long short-term memory.
pub fn compile(operator: &Operator) -> Result<Box<dyn Kernel>, BindError> {
    check(operator)?;
    let Primitive::Lstm { reverse } = head(operator)?.primitive else {
        return Err(BindError::Tactic("it is no recurrent layer"));
    };
    Ok(Box::new(Recurrent {
        operator: operator.clone(),
        reverse,
    }))
}

impl Kernel for Recurrent {
    fn launches(&self, at: &Addresses<'_>, region: &Region, width: u16) -> Result<Vec<Launch>, BindError> {
        if region.is_empty() {
            return Ok(Vec::new());
        }
        let view = |view: Option<_>| view.map_or(Ok(DeviceView::default()), |v| DeviceView::new(at, v));
        let y = DeviceView::new(at, output(&self.operator, 0)?)?;
        let params = Params {
            gates: DeviceView::new(at, input(&self.operator, 0)?)?,
            weights: DeviceView::new(at, input(&self.operator, 1)?)?,
            first_h: view(optional_input(&self.operator, 2))?,
            first_c: view(optional_input(&self.operator, 3))?,
            y,
            last_c: view(self.operator.outputs.get(1))?,
            steps: y.extents[0],
            hidden: y.extents[2],
            reverse: u32::from(self.reverse),
            first_row: region.rows.start,
            tiles: region.rows.len() as u32,
            padding: 0,
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
