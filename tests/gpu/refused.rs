//! What cannot be prepared on a real GPU: an error that says what to do, and afterwards a GPU that works.

use crate::child;
use crate::data;
use crate::gpu;
use crate::network::{Machine, told};
use crate::road;
use platoon::backend::PrepareError;
use platoon::backend::cuda::CudaError;
use platoon::backend::cuda::raw::{Context, DeviceMemory};
use platoon::plan::deployment::Deployment;
use platoon::plan::format::Digest;
use platoon::planner::boards;
use platoon::runtime::{Engine, OpenError, Options};
use std::sync::Arc;

/// Device memory that is left when the rest is taken: half of what the networks' weights alone need.
const LEFT: u64 = 4 << 20;

/// Times that memory is taken and an engine opened, before a test says that it opens in any.
const ATTEMPTS: usize = 20;

/// The error of a deployment; `None` if it opens.
fn opened(machine: &Machine, deployment: Deployment, options: &Options) -> Option<CudaError> {
    match Engine::over(deployment, &*machine.backend, options) {
        Err(OpenError::Prepare(PrepareError::Cuda(error))) => Some(error),
        Err(other) => panic!("{}", told(&other)),
        Ok(engine) => {
            engine.close();
            None
        }
    }
}

/// The error of a deployment that does not open.
fn refusal(machine: &Machine, deployment: Deployment, options: &Options) -> CudaError {
    opened(machine, deployment, options).expect("it does not open")
}

/// Takes the device's memory in ever smaller pieces, until little is left.
fn take(context: &Arc<Context>, taken: &mut Vec<DeviceMemory>) {
    let free = || context.free_memory().unwrap();
    let mut piece = free().saturating_sub(LEFT);
    while free() > LEFT && piece > LEFT / 4 {
        match DeviceMemory::new(context, piece) {
            Ok(memory) => taken.push(memory),
            Err(_) => piece /= 2,
        }
    }
}

fn urban(machine: &Machine) -> Deployment {
    road::deployment(machine, &road::tasks(), &["urban"], 2, &road::half())
}

/// The GPU still runs frames.
fn works(machine: &Machine) {
    let mut engine = road::open(machine, urban(machine), &Options::default());
    assert_eq!(road::drive(&mut engine, 2, road::pictures()).len(), road::pictures().len());
    assert_eq!(engine.close(), 0);
}

#[test]
fn plans_for_another_gpu_are_refused() {
    let test = "gpu_plans_for_another_gpu_are_refused";
    let Some(facts) = gpu::need(test) else { return };
    let machine = Machine::gpu(&facts);
    let mut other = Machine::gpu(&facts);
    other.board.architecture = if facts.architecture() == "sm_87" { "sm_89" } else { "sm_87" }.into();
    let error = refusal(&other, urban(&other), &Options::default());
    assert!(
        matches!(error, CudaError::Architecture { found, .. } if found == facts.capability),
        "{error:?}"
    );

    let half = boards::confined(&machine.board, facts.sms / 2).unwrap();
    let other = Machine {
        board: half,
        ..Machine::gpu(&facts)
    };
    let error = refusal(&other, urban(&other), &Options::default());
    assert!(
        matches!(error, CudaError::Units { units, found, .. } if (units, found) == (facts.sms / 2, facts.sms)),
        "{error:?}"
    );
    works(&machine);
    data::ran(test, "another architecture, another number of SMs");
}

#[test]
fn plans_for_other_kernels_are_refused() {
    let test = "gpu_plans_for_other_kernels_are_refused";
    let Some(facts) = gpu::need(test) else { return };
    let machine = Machine::gpu(&facts);
    let stale = road::changed(&machine, &road::tasks(), &["urban"], 2, &road::half(), |plan| {
        plan.kernels = Some(Digest([7; 32]));
    });
    let error = refusal(&machine, stale, &Options::default());
    assert!(matches!(error, CudaError::Digest(_)), "{error:?}");
    works(&machine);
    data::ran(test, "another digest");
}

#[test]
fn memory_that_is_not_to_be_had_is_an_error_and_no_fault() {
    let test = "refused::memory_that_is_not_to_be_had_is_an_error_and_no_fault";
    child::enter(test, || {
        let machine = Machine::gpu(&gpu::need(test).unwrap());
        let context = Context::open().unwrap_or_else(|e| panic!("{e}"));
        context.enter().unwrap();
        let mut taken = Vec::new();
        // Tests beside this one give memory back while it is taken; then the engine opens in that, and it is taken too.
        let attempt = |_| {
            take(&context, &mut taken);
            opened(&machine, urban(&machine), &Options::default())
        };
        let error = (0..ATTEMPTS).find_map(attempt).expect("it does not open");
        let memory = matches!(error, CudaError::Memory { .. } | CudaError::Exhausted { .. });
        assert!(memory, "{error:?}");
        drop(taken);
        works(&machine);
    });
    if gpu::need(test).is_some() {
        child::run(child::command(test));
        data::ran(test, "all but a little of the GPU's memory taken");
    }
}
