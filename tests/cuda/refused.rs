//! What cannot be prepared: an error that says what to do, nothing left behind, never a panic.

use crate::common::build::{self, Decisions, plan};
use crate::frames::{nets, options};
use crate::rows;
use crate::stub::{Report, on_library, on_stub};
use crate::vehicle::{UNITS, board, deploy, deploy_on, open, write_kernels};
use platoon::backend::cuda::{CudaBackend, CudaError};
use platoon::backend::{Backend, PrepareError, PrepareOptions};
use platoon::plan::deployment::Deployment;
use platoon::plan::format::{Digest, Plan};
use platoon::runtime::OpenError;
use std::sync::Arc;

fn two() -> Plan {
    let decisions = Decisions {
        streams: 2,
        stream: |net, _| net,
        ..Decisions::plain()
    };
    plan("two", 2, &nets()[..2], &decisions)
}

/// The error of a deployment that does not open, with its causes.
fn refusal(deployment: Deployment) -> (PrepareError, String) {
    match open(deployment, &options()) {
        Err(OpenError::Prepare(error)) => {
            let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |e| e.source());
            let told = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
            (error, told)
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("it opens"),
    }
}

#[test]
fn a_machine_that_is_not_the_boards_is_refused_with_what_to_do() {
    let name = "refused::a_machine_that_is_not_the_boards_is_refused_with_what_to_do";
    let cases = [
        ("STUB_DEVICES", "0", "finds no GPU"),
        ("STUB_DRIVER", "11080", "too old, it is for CUDA 11.8"),
        ("STUB_DRIVER", "12060", "needs a driver for CUDA 13.0"),
        ("STUB_CAPABILITY", "87", "this GPU has compute capability 8.7"),
        ("STUB_SMS", "78", "--sms 132"),
    ];
    for (variable, value, expected) in cases {
        let report = on_stub(name, &[(variable, value), ("EXPECTED", expected)], || {
            let told = refusal(deploy(2, vec![two()])).1;
            let expected = std::env::var("EXPECTED").unwrap();
            assert!(told.contains(&expected), "{told}");
        });
        assert_eq!(report, Report::CLEAN);
    }
}

#[test]
fn no_driver_is_an_error_and_not_a_panic() {
    // Whatever driver the machine has, its names lead to files that are no libraries.
    let folder = tempfile::tempdir().unwrap();
    for stem in ["libcuda", "libnvcuda"] {
        for version in ["", ".1", ".11", ".12", ".13", ".10"] {
            std::fs::write(folder.path().join(format!("{stem}.so{version}")), "no library").unwrap();
        }
    }
    let name = "refused::no_driver_is_an_error_and_not_a_panic";
    on_library(name, folder.path().to_path_buf(), &[], || {
        let probed = CudaBackend::new("kernels".into()).probe();
        assert!(matches!(probed, Err(PrepareError::Cuda(CudaError::Probe(_)))), "{probed:?}");
        let told = refusal(deploy(2, vec![two()])).1;
        assert!(told.contains("libcuda.so is not found"), "{told}");
    });
}

#[test]
fn plans_and_kernels_that_do_not_belong_together_are_refused() {
    let name = "refused::plans_and_kernels_that_do_not_belong_together_are_refused";
    let report = on_stub(name, &[], || {
        let told = refusal(build::deploy(2, vec![two()])).1;
        assert!(told.contains("runs plans on the CPU"), "{told}");

        let mut stale = two();
        let board = board(UNITS);
        stale.board = Digest::of_board(&board);
        stale.kernels = Some(Digest([7; 32]));
        let table = |plan: &Plan| platoon::plan::table::Table {
            board: board.clone(),
            backend: board.backend,
            default_task_set: plan.task_set.clone(),
            slots: 2,
            cameras: plan.cameras.clone(),
            entries: vec![platoon::plan::table::Entry::of(plan)],
        };
        let told = refusal(Deployment::assemble(table(&stale), vec![stale], Vec::new()).unwrap()).1;
        assert!(told.contains("other GPU kernels than this program's"), "{told}");

        let mut small = board.clone();
        // What the plans say they take, with nothing left for the backend's own.
        small.memory_budget = deploy(2, vec![two()]).memory_bytes().unwrap();
        let told = refusal(deploy_on(&small, 2, vec![two()])).1;
        assert!(told.contains(&format!("the board allows {}", small.memory_budget)), "{told}");

        let options = PrepareOptions {
            slots: 2,
            ..PrepareOptions::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let refused = |units: &[&str]| {
            if !units.is_empty() {
                write_kernels(folder.path(), units);
            }
            let backend = CudaBackend::with_kernels(folder.path().to_path_buf(), rows::compile);
            let error = backend.prepare(&Arc::new(deploy(2, vec![two()])), &options).err();
            error.map(|e| e.to_string()).unwrap_or_default()
        };
        assert!(refused(&[]).contains("platoon kernels --arch sm_90a"));
        assert!(refused(&["marks"]).contains("kernel rows of unit rows"));
    });
    assert_eq!(report, Report::CLEAN);
}

/// Every function of the driver that prepare calls, failing at its first calls and at a later one.
#[test]
fn whatever_call_fails_prepare_says_so_and_leaves_nothing_behind() {
    let name = "refused::whatever_call_fails_prepare_says_so_and_leaves_nothing_behind";
    let functions = [
        ("cuInit", 1),
        ("cuDevicePrimaryCtxRetain", 1),
        ("cuCtxSetCurrent", 2),
        ("cuCtxGetStreamPriorityRange", 1),
        ("cuMemGetInfo_v2", 2),
        ("cuMemAlloc_v2", 6),
        ("cuMemHostAlloc", 12),
        ("cuMemHostGetDevicePointer_v2", 2),
        ("cuMemsetD8Async", 5),
        ("cuStreamCreateWithPriority", 3),
        ("cuEventCreate", 2),
        ("cuModuleLoadData", 2),
        ("cuModuleGetFunction", 3),
        ("cuFuncSetAttribute", 1),
        ("cuStreamBeginCapture_v2", 2),
        ("cuLaunchKernel", 3),
        ("cuLaunchKernelEx", 1),
        ("cuEventRecord", 2),
        ("cuStreamWaitEvent", 2),
        ("cuStreamEndCapture", 2),
        ("cuGraphInstantiateWithFlags", 2),
        ("cuGraphUpload", 1),
        ("cuGraphLaunch", 2),
    ];
    for (function, times) in functions {
        // The first and the last of those that are looked at.
        for nth in if times == 1 { vec![1] } else { vec![1, times] } {
            let fail = format!("{function}:{nth}:2");
            let report = on_stub(name, &[("STUB_FAIL", &fail)], || {
                let (error, told) = refusal(deploy(2, vec![two()]));
                let fail = std::env::var("STUB_FAIL").unwrap();
                let function = fail.split(':').next().unwrap();
                assert!(told.contains(function) && told.contains("code 2"), "{told}");
                // What was to be had is named where the allocation itself failed; else that there is no memory left.
                let named = matches!(error, PrepareError::Cuda(CudaError::Memory { .. }));
                let exhausted = matches!(error, PrepareError::Cuda(CudaError::Exhausted { .. }));
                let allocates = ["cuMemAlloc_v2", "cuMemHostAlloc"].contains(&function);
                let says_memory = named || (exhausted && !allocates);
                assert!(says_memory, "{told}");
            });
            assert_eq!(report.live, 0, "{fail}");
        }
    }
}
