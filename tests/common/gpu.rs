//! The GPU of this machine, for the tests that need a real one.

#![allow(clippy::print_stderr, reason = "a test says that it waits for a GPU")]

use crate::network::{Machine, told};
use platoon::backend::cpu::CpuBackend;
use platoon::backend::cuda::CudaBackend;
use platoon::backend::cuda::raw::{self, Facts};
use platoon::board::{BackendKind, BoardRecord};
use platoon::planner::{CompileOptions, Compiled, boards};
use platoon::runtime::Options;
use platoon::units::Nanos;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Where kernel archives lie if not in the repository's own plans.
const KERNELS: &str = "PLATOON_KERNELS";

/// Held for reading by every test that needs the GPU, for writing by one that leaves the others nothing of it.
static GPU: RwLock<()> = RwLock::new(());

thread_local! {
    /// What this test, or the one before on the same thread, holds of it.
    static SHARE: RefCell<Option<RwLockReadGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// The GPU to this test alone: it begins when the others have ended, and they wait for it.
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    SHARE.with_borrow_mut(Option::take);
    GPU.write().unwrap_or_else(PoisonError::into_inner)
}

/// The GPU, shared with other tests until this one ends. Where there is none, says that test `test` waits for one; that fails where `PLATOON_KERNELS` says that there is one.
pub fn need(test: &str) -> Option<Facts> {
    match raw::probe() {
        Ok(facts) => {
            SHARE.with_borrow_mut(|share| {
                share.get_or_insert_with(|| GPU.read().unwrap_or_else(PoisonError::into_inner));
            });
            Some(facts)
        }
        Err(error) => {
            assert!(std::env::var_os(KERNELS).is_none(), "{test}: {KERNELS} is set, but {error}");
            eprintln!("NO GPU {test}: it waits for one ({error})");
            None
        }
    }
}

/// The folder of kernel archives.
pub fn kernels() -> PathBuf {
    match std::env::var_os(KERNELS) {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/kernels"),
    }
}

/// The board of a GPU: a file of the folder `boards`, else a record of its own. Its rates are estimates, which change how long
/// a schedule takes and not what it computes.
pub fn board(facts: &Facts) -> BoardRecord {
    let known = boards::all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("boards"));
    let same = |b: &BoardRecord| b.backend == BackendKind::Cuda && b.architecture == facts.architecture() && b.units == facts.sms;
    known
        .into_iter()
        .filter_map(|(_, board)| board.ok())
        .find(same)
        .unwrap_or_else(|| BoardRecord {
            name: "gpu".into(),
            backend: BackendKind::Cuda,
            architecture: facts.architecture(),
            units: facts.sms,
            memory_budget: 4 << 30,
            macs_per_ns: 500.0 * facts.sms as f32,
            bytes_per_ns: 500.0,
            issue: Nanos(1500),
        })
}

impl Machine {
    /// The GPU of this machine.
    pub fn gpu(facts: &Facts) -> Machine {
        Machine {
            board: board(facts),
            backend: Box::new(CudaBackend::new(kernels())),
            options: Options::default(),
        }
    }

    /// This processor running another machine's plans, as their reference.
    pub fn reference(of: &Machine, workers: usize) -> Machine {
        Machine {
            board: of.board.clone(),
            backend: Box::new(CpuBackend::native()),
            options: Machine::host(workers).options,
        }
    }
}

/// A network that the GPU runs beside the processor's reference.
pub struct Beside {
    /// The GPU.
    pub machine: Machine,
    /// What it is held against.
    pub reference: Machine,
    model: PathBuf,
    _folder: tempfile::TempDir,
}

impl Beside {
    /// Both, and a file of the network; `None`, said loudly, where there is no GPU.
    pub fn of(test: &str, model: &[u8]) -> Option<Beside> {
        let machine = Machine::gpu(&need(test)?);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("network.onnx");
        std::fs::write(&path, model).unwrap();
        Some(Beside {
            reference: Machine::reference(&machine, 1),
            machine,
            model: path,
            _folder: folder,
        })
    }

    /// The network compiled for the GPU.
    pub fn compile(&self, options: &CompileOptions) -> Compiled {
        let compiled = self.machine.compile(&self.model, options);
        compiled.unwrap_or_else(|e| panic!("{}", told(&*e)))
    }
}
