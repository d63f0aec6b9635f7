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

/// Device memory that is left when the rest is taken: half of what the networks' weights alone need.
const LEFT: u64 = 4 << 20;

/// The error of a deployment that does not open.
fn refusal(machine: &Machine, deployment: Deployment, options: &Options) -> CudaError {
    match Engine::over(deployment, &*machine.backend, options) {
        Err(OpenError::Prepare(PrepareError::Cuda(error))) => error,
        Err(other) => panic!("{}", told(&other)),
        Ok(_) => panic!("it opens"),
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
fn streams_that_no_sms_can_be_set_aside_for_are_refused() {
    let test = "gpu_streams_that_no_sms_can_be_set_aside_for_are_refused";
    let Some(facts) = gpu::need(test) else { return };
    let machine = Machine::gpu(&facts);
    // No parcel of any GPU, and more SMs than there are.
    let all = u16::try_from(facts.sms).unwrap();
    for units in [[1, 0], [all, all]] {
        let error = refusal(&machine, road::apart(&machine, units), &Options::default());
        assert!(matches!(error, CudaError::Divide { .. }), "{error:?}");
    }
    works(&machine);
    data::ran(test, "a single SM, and twice all SMs");
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
        let deployment = urban(&machine);
        let free = context.free_memory().unwrap();
        let mut taken = Vec::new();
        // Others may take and give memory meanwhile: ever smaller pieces, until little is left.
        let mut piece = free - LEFT;
        while context.free_memory().unwrap() > LEFT && piece > LEFT / 4 {
            match DeviceMemory::new(&context, piece) {
                Ok(memory) => taken.push(memory),
                Err(_) => piece /= 2,
            }
        }
        let error = refusal(&machine, deployment, &Options::default());
        let memory = matches!(error, CudaError::Memory { .. } | CudaError::Exhausted { .. });
        assert!(memory, "{error:?}");
        drop(taken);
        works(&machine);
    });
    if gpu::need(test).is_some() {
        let _alone = gpu::alone();
        child::run(child::command(test));
        data::ran(test, "all but a little of the GPU's memory taken");
    }
}
