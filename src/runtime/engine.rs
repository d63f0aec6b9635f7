//! The engine: what a vehicle holds.

use super::images::Newest;
use super::inputs::Inputs;
use super::latest::Latest;
use super::lifecycle::{Lifecycle, State};
use super::realtime::{Realtime, Refused};
use super::result::{Place, extent};
use super::slot::Slots;
use super::stats::PlanStats;
use crate::backend::trace::TraceEvent;
use crate::backend::{InjectedFault, Prepared, SegmentWords, SlotMemory, Submission, Wait};
use crate::board::BackendKind;
use crate::error::{Fault, RunError};
use crate::ids::{PlanId, TenantId};
use crate::plan::deployment::Deployment;
use crate::plan::format::Plan;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How an engine runs; everything has a default.
#[derive(Clone, Debug)]
pub struct Options {
    /// What runs the plans; `None` for what the table says. The CPU backend runs a GPU's plans too, as their reference.
    pub backend: Option<BackendKind>,
    /// GPU: the folder of kernel archives; `None` for the one beside the deployment.
    pub kernels: Option<PathBuf>,
    /// CPU workers; `None` for one a core.
    pub workers: Option<usize>,
    /// Frames in flight or unreleased; `None` for what the table says.
    pub slots: Option<u16>,
    /// Whole frames or segment by segment.
    pub submission: Submission,
    /// A frame whose work takes longer is a hang; `None` waits for ever. The default, 30 s, is far above any frame.
    pub watchdog: Option<Duration>,
    /// How long closing waits for workers that do not stop.
    pub close_limit: Duration,
    /// What is asked of the operating system.
    pub realtime: Realtime,
    /// Entries of the trace ring, 0 for no tracing.
    pub trace: usize,
    /// Faults to inject.
    pub faults: Vec<InjectedFault>,
    /// GPU: confines the work to that many SMs; `None` for all.
    pub sms: Option<u32>,
    /// GPU: how the host waits.
    pub wait: Wait,
    /// GPU: where images, inputs and results lie.
    pub slot_memory: SlotMemory,
    /// GPU: where the progress words of segments are written.
    pub segment_words: SegmentWords,
    /// GPU: no kernel begins before the one in front of it has ended, to measure what that brings.
    pub no_early_launches: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            backend: None,
            kernels: None,
            workers: None,
            slots: None,
            submission: Submission::Frame,
            watchdog: Some(Duration::from_secs(30)),
            close_limit: Duration::from_secs(2),
            realtime: Realtime::default(),
            trace: 0,
            faults: Vec::new(),
            sms: None,
            wait: Wait::default(),
            slot_memory: SlotMemory::default(),
            segment_words: SegmentWords::default(),
            no_early_launches: false,
        }
    }
}

/// What the runtime keeps of a plan beside it.
pub(super) struct PlanFacts {
    /// Result ports, per tenant.
    pub(super) outputs: Vec<Vec<Place>>,
    /// Tensor inputs, per tenant.
    pub(super) inputs: Vec<Vec<Place>>,
    /// Figures since the engine opened.
    pub(super) stats: PlanStats,
}

/// A plan table in operation. Opened once; after that nothing here takes memory until it is closed.
///
/// Frames run one after another. A vehicle's loop is: [`Engine::submit`], [`Engine::wait`] (or
/// [`Engine::wait_tenant`] for an urgent one), [`Engine::result`] for each tenant, [`Engine::release`].
pub struct Engine {
    pub(super) lifecycle: Lifecycle,
    pub(super) deployment: Arc<Deployment>,
    pub(super) facts: Vec<PlanFacts>,
    /// `None` only while it is being closed.
    pub(super) prepared: Option<Box<dyn Prepared>>,
    pub(super) slots: Slots,
    /// The plan of the frames in flight.
    pub(super) active: PlanId,
    /// The plan of the next frame.
    pub(super) selected: PlanId,
    /// Number of the next frame.
    pub(super) next_frame: u64,
    /// When the last finalised frame ended, on the backend's clock.
    pub(super) previous_end: u64,
    pub(super) newest: Newest,
    /// The tensor inputs of the draft at hand.
    pub(super) inputs: Inputs,
    pub(super) latest: Latest,
    pub(super) watchdog: Option<Duration>,
    pub(super) close_limit: Duration,
    pub(super) threads: Vec<String>,
    pub(super) refused: Vec<Refused>,
}

impl Engine {
    /// Where the engine stands.
    pub fn state(&self) -> State {
        self.lifecycle.state()
    }

    /// Names of the task sets, in the table's order.
    pub fn task_sets(&self) -> Vec<&str> {
        self.deployment.plans.iter().map(|p| p.task_set.as_str()).collect()
    }

    /// The task set of the next frame.
    pub fn task_set(&self) -> &str {
        &self.plan().task_set
    }

    /// The plan of the next frame.
    pub fn plan(&self) -> &Plan {
        self.plan_of(self.selected)
    }

    /// The number of the plan of the next frame.
    pub fn plan_id(&self) -> PlanId {
        self.selected
    }

    /// The number of the next frame.
    pub fn next_frame(&self) -> u64 {
        self.next_frame
    }

    /// Everything the engine was opened on.
    pub fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Latencies and counts of a plan's frames so far; a frame is counted when a call of this engine notices its end.
    pub fn stats(&self, plan: PlanId) -> Option<&PlanStats> {
        self.facts.get(plan.index()).map(|f| &f.stats)
    }

    /// Bytes that hold any result of a tenant of the plan: the room [`super::TenantResult::copied`] needs. 0 where there is no such
    /// tenant.
    pub fn result_bytes(&self, plan: PlanId, tenant: TenantId) -> usize {
        let places = self.facts.get(plan.index()).and_then(|f| f.outputs.get(tenant.index()));
        places.map_or(0, |places| extent(places).len())
    }

    /// Names of the threads that the engine started.
    pub fn threads(&self) -> &[String] {
        &self.threads
    }

    /// What the operating system refused when the engine was opened.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Gives `visit` the recorded segments, oldest first; none unless [`Options::trace`] is set.
    pub fn trace(&self, mut visit: impl FnMut(TraceEvent)) {
        if let Some(prepared) = &self.prepared {
            prepared.trace(&mut visit);
        }
    }

    /// Stops the workers and frees everything. Frames in flight are given up. Returns how many workers were stuck and
    /// had to be leaked; returns within [`Options::close_limit`] whatever they do.
    pub fn close(mut self) -> usize {
        self.shut()
    }

    pub(super) fn shut(&mut self) -> usize {
        // Every state an engine can be in may become closed.
        let _ = self.lifecycle.advance(State::Closed);
        self.prepared.take().map_or(0, |p| p.close(self.close_limit))
    }

    pub(super) fn plan_of(&self, plan: PlanId) -> &Plan {
        &self.deployment.plans[plan.index()]
    }

    pub(super) fn prepared(&self) -> Result<&dyn Prepared, RunError> {
        self.prepared.as_deref().ok_or(RunError::State)
    }

    pub(super) fn prepared_mut(&mut self) -> Result<&mut (dyn Prepared + 'static), RunError> {
        self.prepared.as_deref_mut().ok_or(RunError::State)
    }

    /// The engine stops here; the first fault is kept.
    pub(super) fn fail(&mut self, fault: Fault) -> RunError {
        let first = self.lifecycle.advance(State::Faulted(fault));
        if let Some(prepared) = self.prepared.as_deref_mut() {
            prepared.abandon();
        }
        match first {
            Ok(()) => RunError::Faulted(fault),
            Err(earlier) => earlier,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shut();
    }
}
