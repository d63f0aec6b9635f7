//! What a session says of itself: what it was opened on, how long frames take, how it is.

use super::guard::layout::Address;
use super::guard::types::{CameraInfo, Health, Info, PortInfo, Stats, TaskSetInfo, TenantInfo, TenantStats};
use super::names::{PortNames, TenantNames};
use super::session::Session;
use super::status::{Blame, Failure, Status};
use super::values;
use crate::error::RunError;
use crate::ids::PlanId;
use crate::plan::format::{Port, Tenant};
use crate::runtime::State;
use crate::runtime::stats::{Histogram, PlanStats};
use std::ffi::CStr;

/// The library's version.
pub(super) const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no zero in it"),
};

/// The shares of frames that are told of.
const HALF: f64 = 0.5;
const MOST: f64 = 0.99;

/// p50, p99 and the longest, in nanoseconds.
fn times(histogram: &Histogram) -> (u64, u64, u64) {
    (histogram.percentile(HALF).0, histogram.percentile(MOST).0, histogram.max().0)
}

/// Bits of small indices.
fn bits(indices: impl Iterator<Item = u16>) -> u32 {
    indices.fold(0, |set, i| set | 1u32.checked_shl(u32::from(i)).unwrap_or(0))
}

/// A plan's number from its index in the table.
fn plan_id(task_set: u32) -> Result<PlanId, Failure> {
    u16::try_from(task_set).map(PlanId).map_err(|_| RunError::Unknown.into())
}

impl Session {
    /// What the engine was opened on.
    pub(super) fn info(&self) -> Result<Info, Failure> {
        let mut inner = self.enter()?;
        let engine = inner.engine()?;
        Ok(Info {
            backend: values::backend(self.facts.backend),
            cameras: self.names.cameras.len() as u32,
            task_sets: self.names.task_sets.len() as u32,
            slots: self.facts.slots as u32,
            threads: engine.threads().len() as u32,
            refused: engine.refused().len() as u32,
            open_ns: u64::try_from(self.facts.open.as_nanos()).unwrap_or(u64::MAX),
            board: Address::text(&self.names.board),
            version: Address::text(VERSION),
            ..Info::default()
        })
    }

    /// A camera of the table.
    pub(super) fn camera(&self, camera: u32) -> Result<CameraInfo, Failure> {
        let mut inner = self.enter()?;
        let cameras = &inner.engine()?.deployment().table.cameras;
        let facts = cameras.get(camera as usize).ok_or(RunError::Unknown)?;
        Ok(CameraInfo {
            max_width: facts.max_width,
            max_height: facts.max_height,
            name: Address::text(&self.names.cameras[camera as usize]),
            bytes: facts.bytes,
            ..CameraInfo::default()
        })
    }

    /// A task set of the table.
    pub(super) fn task_set(&self, task_set: u32) -> Result<TaskSetInfo, Failure> {
        let names = self.names.task_sets.get(task_set as usize).ok_or(RunError::Unknown)?;
        Ok(TaskSetInfo {
            tenants: names.tenants.len() as u32,
            name: Address::text(&names.name),
            ..TaskSetInfo::default()
        })
    }

    /// Gives `read` a tenant and its names.
    fn of_tenant<R>(
        &self,
        task_set: u32,
        tenant: u32,
        read: impl FnOnce(&Tenant, &TenantNames) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut inner = self.enter()?;
        let (set, tenant) = (task_set as usize, tenant as usize);
        let facts = inner.engine()?.deployment().plans.get(set).and_then(|p| p.tenants.get(tenant));
        let names = self.names.task_sets.get(set).and_then(|s| s.tenants.get(tenant));
        read(facts.ok_or(RunError::Unknown)?, names.ok_or(RunError::Unknown)?)
    }

    /// A tenant of a task set.
    pub(super) fn tenant(&self, task_set: u32, tenant: u32) -> Result<TenantInfo, Failure> {
        self.of_tenant(task_set, tenant, |tenant, names| {
            let labels = names.labels();
            Ok(TenantInfo {
                kind: values::kind(tenant.kind),
                divisor: u32::from(tenant.rate.divisor),
                phase: u32::from(tenant.rate.phase),
                priority: u32::from(tenant.urgency.priority),
                images: tenant.pictures() as u32,
                cameras: bits(tenant.cameras.iter().map(|c| c.0)),
                sources: bits(tenant.sources.iter().map(|s| s.0)),
                inputs: tenant.inputs.len() as u32,
                outputs: tenant.outputs.len() as u32,
                label_count: labels.len() as u32,
                deadline_ns: tenant.urgency.deadline.map_or(0, |d| d.0),
                name: Address::text(&names.name),
                model: Address::text(&names.model),
                labels: Address::of(labels),
                ..TenantInfo::default()
            })
        })
    }

    /// An input of a tenant.
    pub(super) fn input(&self, task_set: u32, tenant: u32, port: u32) -> Result<PortInfo, Failure> {
        self.of_tenant(task_set, tenant, |tenant, names| c_port(&tenant.inputs, &names.inputs, port))
    }

    /// An output of a tenant.
    pub(super) fn output(&self, task_set: u32, tenant: u32, port: u32) -> Result<PortInfo, Failure> {
        self.of_tenant(task_set, tenant, |tenant, names| c_port(&tenant.outputs, &names.outputs, port))
    }

    /// Selects the task set of the next frame.
    pub(super) fn select(&self, task_set: &str) -> Result<(), Failure> {
        let mut inner = self.enter()?;
        if inner.draft.is_some() {
            return Err(RunError::State.into());
        }
        inner.engine()?.select(task_set).map_err(|error| match error {
            RunError::Unknown => Failure::new(
                Status::Unknown,
                format_args!("no task set {task_set:?}; there are {}", self.names.listed()),
            ),
            other => other.into(),
        })
    }

    /// Gives `read` the figures of a task set.
    fn of_stats<R>(&self, task_set: u32, read: impl FnOnce(&PlanStats) -> Result<R, Failure>) -> Result<R, Failure> {
        let mut inner = self.enter()?;
        read(inner.engine()?.stats(plan_id(task_set)?).ok_or(RunError::Unknown)?)
    }

    /// Figures of a task set.
    pub(super) fn stats(&self, task_set: u32) -> Result<Stats, Failure> {
        self.of_stats(task_set, |stats| {
            let (p50_ns, p99_ns, max_ns) = times(&stats.frame);
            Ok(Stats {
                frames: stats.frame.count(),
                p50_ns,
                p99_ns,
                max_ns,
                ..Stats::default()
            })
        })
    }

    /// Figures of a tenant.
    pub(super) fn tenant_stats(&self, task_set: u32, tenant: u32) -> Result<TenantStats, Failure> {
        self.of_stats(task_set, |stats| {
            let stats = stats.tenants.get(tenant as usize).ok_or(RunError::Unknown)?;
            let (p50_ns, p99_ns, max_ns) = times(&stats.finish);
            Ok(TenantStats {
                fresh: stats.fresh,
                held: stats.held,
                stale: stats.stale,
                none: stats.none,
                missed: stats.missed,
                p50_ns,
                p99_ns,
                max_ns,
                ..TenantStats::default()
            })
        })
    }

    /// How the engine is.
    pub(super) fn health(&self) -> Result<Health, Failure> {
        let mut inner = self.enter()?;
        let tickets = inner.tickets.iter().flatten().count() as u32;
        let drafting = u32::from(inner.draft.is_some());
        let engine = inner.engine()?;
        let mut health = Health {
            state: values::state(engine.state()),
            tenant: -1,
            segment: -1,
            task_set: u32::from(engine.plan_id().0),
            next_frame: engine.next_frame(),
            tickets,
            drafting,
            ..Health::default()
        };
        if let State::Faulted(fault) = engine.state() {
            let blame = Blame::of(fault);
            health.fault = fault.number();
            (health.tenant, health.segment, health.frame) = (blame.tenant, blame.segment, blame.frame);
            (health.device_code, health.suspects) = (blame.device_code, blame.suspects);
        }
        Ok(health)
    }
}

fn c_port(ports: &[Port], names: &[PortNames], index: u32) -> Result<PortInfo, Failure> {
    let (port, names) = ports.get(index as usize).zip(names.get(index as usize)).ok_or(RunError::Unknown)?;
    let shape = port.view.layout.shape;
    let mut info = PortInfo {
        dtype: values::dtype(port.view.dtype),
        rank: shape.rank() as u32,
        name: Address::text(&names.name),
        bytes: shape.elements() * port.view.dtype.bytes(),
        ..PortInfo::default()
    };
    info.dims[..shape.rank()].copy_from_slice(shape.dims());
    Ok(info)
}
