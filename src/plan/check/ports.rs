//! P6: inputs and results of a tenant have the place, type and shape that their meaning asks for.

use super::shapes::inside;
use crate::ids::TenantId;
use crate::plan::format::{Plan, Port, Role, Space, Tenant};
use crate::task::ResultKind;
use crate::tensor::DType;

/// An input or result does not agree with its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// A port that is not a whole tensor in C order in the memory for its direction.
    #[error("{direction} {port} of tenant {tenant} does not lie contiguously in its part of the slot")]
    Place {
        /// Whose it is.
        tenant: TenantId,
        /// `input` or `result`.
        direction: &'static str,
        /// Which one.
        port: usize,
    },
    /// Type or shape do not fit the role, or the role does not fit the kind of result.
    #[error("{direction} {port} of tenant {tenant} has a role, type or shape that its kind of result does not have")]
    Role {
        /// Whose it is.
        tenant: TenantId,
        /// `input` or `result`.
        direction: &'static str,
        /// Which one.
        port: usize,
    },
    /// Results that belong together are not complete.
    #[error("tenant {0} lacks a result that its kind has for every picture, or has one twice")]
    Missing(TenantId),
}

pub(super) fn check(plan: &Plan) -> Result<(), PortError> {
    for (i, tenant) in plan.tenants.iter().enumerate() {
        let id = TenantId(i as u16);
        for (direction, ports) in [("input", &tenant.inputs), ("result", &tenant.outputs)] {
            for (index, port) in ports.iter().enumerate() {
                let (tenant_id, port_index) = (id, index);
                if !is_placed(plan, port, direction == "input") {
                    return Err(PortError::Place {
                        tenant: tenant_id,
                        direction,
                        port: port_index,
                    });
                }
                let role = if direction == "input" {
                    port.role == Role::Tensor
                } else {
                    has_role(tenant, port)
                };
                if !role || (port.widened && port.view.dtype != DType::I32) {
                    return Err(PortError::Role {
                        tenant: tenant_id,
                        direction,
                        port: port_index,
                    });
                }
            }
        }
        if !is_complete(tenant) {
            return Err(PortError::Missing(id));
        }
    }
    Ok(())
}

fn is_placed(plan: &Plan, port: &Port, input: bool) -> bool {
    let space = match plan.buffers[port.view.buffer.index()].space {
        Space::Input { .. } => input,
        Space::Output { .. } => !input,
        _ => false,
    };
    space && port.view.layout.is_contiguous() && inside(plan, &port.view).is_some()
}

/// True if a result's role, type, shape and picture are those of the tenant's kind.
fn has_role(tenant: &Tenant, port: &Port) -> bool {
    let dims = port.view.layout.shape.dims();
    let crops = tenant.crop_rows().is_some();
    let whole = dims.first().is_some_and(|&d| d as usize == tenant.pictures());
    let batch = whole || (tenant.cameras.is_empty() && !crops);
    usize::from(port.image) < tenant.cameras.len().max(1)
        && match (tenant.kind, port.role, port.view.dtype) {
            (ResultKind::Detection, Role::Detections, DType::F32) => dims.len() == 2 && dims[1] == 6,
            (ResultKind::Detection, Role::Count, DType::I32) => dims == [1],
            (ResultKind::Segmentation, Role::LabelMap, DType::U8) => dims.len() == 3 && dims[0] == 1 && port.fit.is_some(),
            (ResultKind::Classification, Role::TopValues, DType::F32) => dims.len() == 2 && batch,
            (ResultKind::Classification, Role::TopIndices, DType::I32) => dims.len() == 2 && batch,
            (ResultKind::Classification, Role::CropRows, DType::I32) => dims.len() == 1 && !tenant.sources.is_empty(),
            (ResultKind::Classification, Role::Detections, DType::F32) => crops && whole && dims.len() == 2 && dims[1] == 6,
            (ResultKind::Tensors, Role::Tensor, _) => true,
            _ => false,
        }
}

/// True if every picture has its detections and their number, a classification its classes and scores, and a classification
/// of crops their rows and detections.
fn is_complete(tenant: &Tenant) -> bool {
    let of = |role, image: Option<usize>| {
        let matching = move |p: &&Port| p.role == role && image.is_none_or(|i| usize::from(p.image) == i);
        let mut found = tenant.outputs.iter().filter(matching);
        (found.next(), found.count())
    };
    match tenant.kind {
        ResultKind::Detection => (0..tenant.cameras.len().max(1)).all(|image| {
            let one = |role| matches!(of(role, Some(image)), (Some(_), 0));
            one(Role::Detections) && one(Role::Count)
        }),
        ResultKind::Classification => match (of(Role::TopValues, None), of(Role::TopIndices, None)) {
            ((Some(values), 0), (Some(indices), 0)) => {
                let crops = match (of(Role::CropRows, None), of(Role::Detections, None)) {
                    ((None, _), (None, _)) => true,
                    ((Some(_), rest), (Some(_), more)) => rest == 0 && more == 0,
                    _ => false,
                };
                crops && values.view.layout.shape == indices.view.layout.shape
            }
            _ => false,
        },
        ResultKind::Segmentation | ResultKind::Tensors => true,
    }
}
