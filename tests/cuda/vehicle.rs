//! What the tests drive: hand-built plans for a GPU, kernels for it, an engine, and frames.

use crate::common::build::{self, PIXELS};
use crate::common::{gray, pixels};
use crate::rows;
use platoon::backend::cuda::CudaBackend;
use platoon::backend::cuda::architecture::Toolkit;
use platoon::backend::cuda::archive::{Archive, Cubin, file_name};
use platoon::backend::cuda::sources;
use platoon::board::{BackendKind, BoardRecord};
use platoon::ids::{CameraId, TenantId};
use platoon::plan::deployment::Deployment;
use platoon::plan::format::{Digest, Plan};
use platoon::plan::table::{Entry, Table};
use platoon::runtime::{Engine, OpenError, Options, Ticket};
use platoon::task::Status;
use std::path::Path;

pub const ARCHITECTURE: &str = "sm_90a";
pub const UNITS: u32 = 132;

/// A board with the GPU that the stub is unless told otherwise.
pub fn board(units: u32) -> BoardRecord {
    BoardRecord {
        name: "stub".into(),
        backend: BackendKind::Cuda,
        architecture: ARCHITECTURE.into(),
        units,
        ..build::board()
    }
}

/// The plans for a board.
pub fn deploy_on(board: &BoardRecord, slots: u16, plans: Vec<Plan>) -> Deployment {
    let mut plans = plans;
    for plan in &mut plans {
        plan.board = Digest::of_board(board);
        plan.kernels = Some(sources::digest());
    }
    let table = Table {
        board: board.clone(),
        backend: board.backend,
        default_task_set: plans[0].task_set.clone(),
        slots,
        cameras: plans[0].cameras.clone(),
        entries: plans.iter().map(Entry::of).collect(),
    };
    Deployment::assemble(table, plans, Vec::new()).unwrap_or_else(|e| panic!("the plan is not legal: {e}"))
}

/// The plans for the stub's GPU.
pub fn deploy(slots: u16, plans: Vec<Plan>) -> Deployment {
    deploy_on(&board(UNITS), slots, plans)
}

/// Writes kernels that only the stub can run: whole files of machine code that hold nothing.
pub fn write_kernels(folder: &Path, units: &[&str]) {
    let mut elf = vec![0u8; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    let cubin = |name: &&str| Cubin {
        name: (*name).to_owned(),
        made_from: Digest::of(name.as_bytes()),
        bytes: elf.clone(),
    };
    let toolkit = Toolkit { major: 13, minor: 0 };
    let cubins: Vec<Cubin> = units.iter().map(cubin).collect();
    let archive = Archive::new(ARCHITECTURE, toolkit, sources::digest(), &cubins).unwrap();
    std::fs::write(folder.join(file_name(ARCHITECTURE, toolkit)), archive.bytes()).unwrap();
}

/// An engine on the stub.
pub fn open(deployment: Deployment, options: &Options) -> Result<Engine, OpenError> {
    let kernels = tempfile::tempdir().unwrap();
    write_kernels(kernels.path(), &["marks", "rows"]);
    Engine::over(
        deployment,
        &CudaBackend::with_kernels(kernels.path().to_path_buf(), rows::compile),
        options,
    )
}

/// All results of some frames: per frame and tenant status, frame and bytes.
pub type Record = Vec<(Status, u64, Vec<u8>)>;

/// Submits the next frame. In some frames a camera has no image, and the tensor-fed tenant no input.
pub fn submit(engine: &mut Engine, frame: u64, gaps: bool) -> Ticket {
    let probe = engine.plan().tenants.iter().position(|t| !t.inputs.is_empty());
    let mut draft = engine.begin().unwrap();
    for camera in 0..2 {
        if !gaps || !(frame + camera).is_multiple_of(4) {
            let data = pixels(camera, frame);
            draft.copy_image(CameraId(camera as u16), &gray(&data)).unwrap();
        }
    }
    if let Some(t) = probe.filter(|_| !gaps || !frame.is_multiple_of(3)) {
        let values: Vec<u8> = (0..PIXELS).flat_map(|i| ((i as f32).sin() * frame as f32).to_ne_bytes()).collect();
        draft.copy_input(TenantId(t as u16), 0, &values).unwrap();
    }
    draft.submit().unwrap()
}

/// Notes all results of a frame that has ended.
pub fn note(engine: &mut Engine, ticket: &Ticket, record: &mut Record) {
    for t in 0..engine.plan().tenants.len() {
        let result = engine.result(ticket, TenantId(t as u16)).unwrap();
        let bytes = result.tensors().flat_map(|(_, b)| b.to_vec()).collect();
        record.push((result.status, result.of_frame, bytes));
    }
}

/// Runs frames, two in flight, and notes all results.
pub fn drive(engine: &mut Engine, frames: std::ops::Range<u64>, gaps: bool) -> Record {
    let mut record = Record::new();
    let mut open = std::collections::VecDeque::new();
    for frame in frames {
        open.push_back(submit(engine, frame, gaps));
        if open.len() == 2 {
            let ticket = open.pop_front().unwrap();
            engine.wait(&ticket, None).unwrap();
            note(engine, &ticket, &mut record);
            engine.release(ticket).unwrap();
        }
    }
    for ticket in open {
        engine.wait(&ticket, None).unwrap();
        note(engine, &ticket, &mut record);
        engine.release(ticket).unwrap();
    }
    record
}
