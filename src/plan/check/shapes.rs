//! P6: primitives, operands and views of every operator agree, and every view lies inside its buffer.

use crate::ids::{BufferId, OperatorId};
use crate::limits::MAX_ELEMENTS;
use crate::plan::format::{Call, Operand, Operator, Plan, Space, View};
use crate::plan::tactic::{self, Misfit};
use crate::primitive::{Primitive, PrimitiveError, Window};
use crate::tensor::{DType, Layout, Shape};

/// An operator does not agree with its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A primitive refuses its operands.
    #[error("primitive {call} of operator {operator}: {error}")]
    Primitive {
        /// The operator.
        operator: OperatorId,
        /// Index of the primitive.
        call: usize,
        /// What it says.
        error: PrimitiveError,
    },
    /// A window with more taps than a tensor may have elements.
    #[error("primitive {call} of operator {operator} has a window of too many taps")]
    Taps {
        /// The operator.
        operator: OperatorId,
        /// Index of the primitive.
        call: usize,
    },
    /// An inner operand that is not computed yet.
    #[error("primitive {call} of operator {operator} reads primitive {inner}, which is not before it")]
    Inner {
        /// The operator.
        operator: OperatorId,
        /// Index of the primitive.
        call: usize,
        /// What it reads.
        inner: u8,
    },
    /// An intermediate that nobody reads.
    #[error("primitive {call} of operator {operator} is not the last, but none after it reads it")]
    Unread {
        /// The operator.
        operator: OperatorId,
        /// Index of the primitive.
        call: usize,
    },
    /// The first output is not what the last primitive computes.
    #[error("the output of operator {0} has another type or shape than its last primitive computes")]
    Output(OperatorId),
    /// A view that leaves its buffer.
    #[error("a view of operator {operator} leaves buffer {buffer}")]
    Outside {
        /// The operator.
        operator: OperatorId,
        /// The buffer.
        buffer: BufferId,
    },
    /// An output view that writes an element twice.
    #[error("an output of operator {0} writes an element more than once")]
    Folded(OperatorId),
    /// An output in memory that is only read.
    #[error("operator {operator} writes buffer {buffer}, which holds weights or inputs")]
    ReadOnly {
        /// The operator.
        operator: OperatorId,
        /// The buffer.
        buffer: BufferId,
    },
    /// A picture of a camera that is not the tenant's, or read from another buffer.
    #[error("operator {0} uses a camera that is not its tenant's, or not that camera's image")]
    Camera(OperatorId),
    /// A tactic that cannot run the operator.
    #[error("operator {operator}: {misfit}")]
    Tactic {
        /// The operator.
        operator: OperatorId,
        /// Why not.
        misfit: Misfit,
    },
    /// Not the arithmetic class that operator and backend have.
    #[error("operator {0} has another arithmetic class than the rule gives it")]
    Class(OperatorId),
}

pub(super) fn check(plan: &Plan) -> Result<(), ShapeError> {
    for (i, operator) in plan.operators.iter().enumerate() {
        let id = OperatorId(i as u32);
        calls(plan, id, operator)?;
        outputs(plan, id, operator)?;
        tactic::fits(plan, operator).map_err(|misfit| ShapeError::Tactic { operator: id, misfit })?;
        if !tactic::has_class(plan, operator) {
            return Err(ShapeError::Class(id));
        }
    }
    Ok(())
}

fn calls(plan: &Plan, id: OperatorId, operator: &Operator) -> Result<(), ShapeError> {
    let mut read = 0u32;
    for (i, call) in operator.calls.iter().enumerate() {
        let mut inputs = heapless::Vec::<(DType, Shape), { crate::limits::MAX_INPUTS }>::new();
        for input in &call.inputs {
            let operand = match input {
                Operand::View(view) => {
                    inside(plan, view).ok_or(ShapeError::Outside {
                        operator: id,
                        buffer: view.buffer,
                    })?;
                    (view.dtype, view.layout.shape)
                }
                Operand::Inner(j) => {
                    let error = ShapeError::Inner {
                        operator: id,
                        call: i,
                        inner: *j,
                    };
                    let earlier = operator.calls[..i].get(usize::from(*j)).ok_or(error)?;
                    read |= 1 << j;
                    (earlier.dtype, earlier.shape)
                }
            };
            // `counts` established that there are no more inputs than this holds.
            inputs.push(operand).unwrap_or_default();
        }
        let mut results = heapless::Vec::<(DType, Shape), { crate::limits::MAX_OUTPUTS }>::new();
        results.push((call.dtype, call.shape)).unwrap_or_default();
        if i + 1 == operator.calls.len() {
            let more = operator.outputs.iter().skip(1).map(|v| (v.dtype, v.layout.shape));
            results.extend(more);
        }
        let primitive = |error| ShapeError::Primitive {
            operator: id,
            call: i,
            error,
        };
        call.primitive.check(&inputs, &results).map_err(primitive)?;
        if window(&call.primitive).is_some_and(|w| !few_taps(w)) {
            return Err(ShapeError::Taps { operator: id, call: i });
        }
        camera(plan, id, operator, call)?;
    }
    match (0..operator.calls.len() - 1).find(|i| read & (1 << i) == 0) {
        Some(call) => Err(ShapeError::Unread { operator: id, call }),
        None => Ok(()),
    }
}

fn window(primitive: &Primitive) -> Option<&Window> {
    match primitive {
        Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. } | Primitive::Pool { window, .. } => Some(window),
        _ => None,
    }
}

fn few_taps(window: &Window) -> bool {
    let taps = window.kernel.iter().try_fold(1u64, |n, &k| n.checked_mul(u64::from(k)));
    taps.is_some_and(|n| n <= MAX_ELEMENTS)
}

/// A picture is read from the buffer of its own camera, which is one of the tenant's.
fn camera(plan: &Plan, id: OperatorId, operator: &Operator, call: &Call) -> Result<(), ShapeError> {
    let is_image = |operand: &Operand, camera| match operand {
        Operand::View(view) => plan.buffers[view.buffer.index()].space == Space::Camera(camera),
        Operand::Inner(_) => false,
    };
    let (camera, right) = match &call.primitive {
        Primitive::Prepare(p) => (p.camera, is_image(&call.inputs[0], p.camera)),
        Primitive::Crop(c) => (c.camera, is_image(&call.inputs[0], c.camera)),
        Primitive::Nms(n) => (n.camera, true),
        _ => return Ok(()),
    };
    if right && plan.tenants[operator.tenant.index()].cameras.contains(&camera) {
        return Ok(());
    }
    Err(ShapeError::Camera(id))
}

fn outputs(plan: &Plan, id: OperatorId, operator: &Operator) -> Result<(), ShapeError> {
    let (first, last) = (&operator.outputs[0], &operator.calls[operator.calls.len() - 1]);
    if (first.dtype, first.layout.shape) != (last.dtype, last.shape) {
        return Err(ShapeError::Output(id));
    }
    for view in &operator.outputs {
        let (operator, buffer) = (id, view.buffer);
        inside(plan, view).ok_or(ShapeError::Outside { operator, buffer })?;
        match plan.buffers[buffer.index()].space {
            Space::Arena { .. } | Space::Persistent { .. } | Space::Output { .. } => {}
            Space::Input { .. } | Space::Camera(_) | Space::Weights(_) => return Err(ShapeError::ReadOnly { operator, buffer }),
        }
        if !writes_once(&view.layout) {
            return Err(ShapeError::Folded(id));
        }
    }
    Ok(())
}

/// `Some` if every element of the view is inside its buffer, an empty view's origin included.
pub(super) fn inside(plan: &Plan, view: &View) -> Option<()> {
    let buffer = plan.buffers[view.buffer.index()];
    let elements = buffer.bytes / view.dtype.bytes();
    if view.layout.shape.elements() == 0 {
        return (view.origin <= elements).then_some(());
    }
    let (low, high) = view.layout.bounds()?;
    let origin = i64::try_from(view.origin).ok()?;
    let (first, last) = (origin.checked_add(low)?, origin.checked_add(high)?);
    (first >= 0 && u64::try_from(last).ok()? < elements).then_some(())
}

/// True if the strides alone tell that no two elements share a place: each axis steps over all that the finer ones reach.
fn writes_once(layout: &Layout) -> bool {
    let mut axes = heapless::Vec::<(u64, u64), { crate::limits::MAX_RANK }>::new();
    for (&extent, stride) in layout.shape.dims().iter().zip(layout.strides()) {
        match extent {
            0 => return true,
            1 => {}
            _ => axes.push((stride.unsigned_abs(), u64::from(extent))).unwrap_or_default(),
        }
    }
    axes.sort_unstable();
    let mut reach = 0u64;
    axes.iter().all(|&(stride, extent)| {
        let apart = stride > reach;
        // The layout is inside its buffer, so that its reach cannot overflow.
        reach = reach.saturating_add(stride.saturating_mul(extent - 1));
        apart
    })
}
