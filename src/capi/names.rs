//! Every name of a deployment as C reads it, made once when the engine is opened.

use super::guard::layout::Address;
use crate::plan::deployment::Deployment;
use crate::plan::format::{Port, Tenant};
use std::ffi::{CString, c_char};
use std::fmt;

/// All names.
pub(super) struct Names {
    pub(super) board: CString,
    pub(super) cameras: Vec<CString>,
    /// In the order of the plans.
    pub(super) task_sets: Vec<TaskSet>,
}

/// Names of a task set.
pub(super) struct TaskSet {
    pub(super) name: CString,
    pub(super) tenants: Vec<TenantNames>,
}

/// Names of a tenant.
pub(super) struct TenantNames {
    pub(super) name: CString,
    pub(super) model: CString,
    pub(super) inputs: Vec<PortNames>,
    pub(super) outputs: Vec<PortNames>,
    /// The output whose labels are the tenant's.
    labelled: Option<usize>,
}

/// Names of an input or output.
pub(super) struct PortNames {
    pub(super) name: CString,
    labels: Vec<Address<c_char>>,
    /// What the addresses above point to.
    _texts: Vec<CString>,
}

/// The text up to its first zero.
pub(super) fn text(text: &str) -> CString {
    let end = text.find('\0').unwrap_or(text.len());
    CString::new(&text[..end]).unwrap_or_default()
}

/// Names of task sets as messages list them, without memory of their own.
pub(super) struct Listed<'a>(&'a [TaskSet]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(i, set)| {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{}", set.name.to_str().unwrap_or_default())
        })
    }
}

impl Names {
    /// The task sets.
    pub(super) fn listed(&self) -> Listed<'_> {
        Listed(&self.task_sets)
    }

    pub(super) fn of(deployment: &Deployment) -> Names {
        Names {
            board: text(&deployment.table.board.name),
            cameras: deployment.table.cameras.iter().map(|c| text(&c.name)).collect(),
            task_sets: deployment
                .plans
                .iter()
                .map(|plan| TaskSet {
                    name: text(&plan.task_set),
                    tenants: plan.tenants.iter().map(TenantNames::of).collect(),
                })
                .collect(),
        }
    }
}

impl TenantNames {
    fn of(tenant: &Tenant) -> TenantNames {
        TenantNames {
            name: text(&tenant.name),
            model: text(&tenant.model),
            inputs: tenant.inputs.iter().map(PortNames::of).collect(),
            outputs: tenant.outputs.iter().map(PortNames::of).collect(),
            labelled: tenant.outputs.iter().position(|p| !p.labels.is_empty()),
        }
    }

    /// Names of the tenant's classes.
    pub(super) fn labels(&self) -> &[Address<c_char>] {
        self.labelled.map_or(&[], |port| self.outputs[port].labels())
    }
}

impl PortNames {
    fn of(port: &Port) -> PortNames {
        let texts: Vec<CString> = port.labels.iter().map(|l| text(l)).collect();
        PortNames {
            name: text(&port.name),
            labels: texts.iter().map(|t| Address::text(t)).collect(),
            _texts: texts,
        }
    }

    /// Names of the port's classes.
    pub(super) fn labels(&self) -> &[Address<c_char>] {
        &self.labels
    }
}
