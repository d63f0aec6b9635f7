//! ONNX's own operator cases on the GPU: with ONNX's tolerances in f32, and against the processor in both types.
//!
//! The processor runs the very plan that the GPU runs. Operators whose arithmetic is the processor's (family `Fma`) must have
//! its bits; those of the tensor cores, which add products in another order, must lie within [`TENSOR_CORES`].

use crate::cases::{self, Case, Loaded, OPERATORS};
use crate::data;
use crate::gpu;
use crate::network::{self, Machine, Tensors};
use crate::skips::SKIPS;
use platoon::backend::cuda::raw::{Context, Facts};
use platoon::plan::format::Family;
use platoon::planner::{CompileOptions, Compiled, Ports, Searcher};
use platoon::tensor::{DType, Tensor};
use std::error::Error;
use std::fmt::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of a tensor's largest value: sums of f16 products in another order round to a neighbour of f16 (2^-11 of the value), and
/// what follows in the case, at most a recurrent network's few steps, carries that on.
const TENSOR_CORES: f64 = 1.0 / 256.0;
/// Threads that run cases.
const THREADS: usize = 8;
/// Runs cases whose name contains this only; for tools under which everything takes long.
const ONLY: &str = "PLATOON_CASES";

/// Cases in f32 whose bits are not the processor's, with the reason.
const OTHER_BITS: [(&str, &[&str]); 0] = [];

/// What became of the cases.
#[derive(Default)]
struct Tally {
    ran: usize,
    /// With the processor's bits.
    same: usize,
    /// Of the processor's arithmetic, and so bound to its bits.
    bound: usize,
    wrong: String,
}

#[test]
fn operators_give_what_onnx_says_and_the_processors_bits() {
    check("gpu_conformance_f32", DType::F32);
}

#[test]
fn operators_in_f16_give_what_the_processor_gives() {
    check("gpu_conformance_f16", DType::F16);
}

fn check(test: &str, dtype: DType) {
    let Some(facts) = gpu::need(test) else { return };
    let archive = data::av_data().join("onnx-conformance/node.tar.xz");
    let Some(archive) = data::need(test, &archive) else { return };
    let only = std::env::var(ONLY).unwrap_or_default();
    let skipped = |name: &str| SKIPS.iter().any(|(_, cases)| cases.contains(&name));
    let cases: Vec<(String, Case)> = cases::cases(&archive)
        .into_iter()
        .filter(|(_, case)| cases::listed(OPERATORS, case))
        .map(|(name, case)| (name.trim_start_matches("test_").to_owned(), case))
        .filter(|(name, _)| !skipped(name) && name.contains(&only))
        .collect();
    // Held so that the engines that come and go do not make and destroy the device's context each time.
    let _held = Context::open().unwrap_or_else(|e| panic!("{e}"));
    let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
    // Some cases alone are asked for under a sanitizer, whose own work would invalidate what another thread captures.
    let threads = if only.is_empty() { THREADS } else { 1 };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let runner = Runner::new(&facts, dtype);
                while let Some((name, case)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = runner.run(case);
                    tally.lock().unwrap().count(name, outcome, runner.folder.path());
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap();
    data::ran(
        test,
        &format!(
            "{} cases, {} of them with the processor's bits, {} bound to them",
            tally.ran, tally.same, tally.bound
        ),
    );
    assert!(tally.wrong.is_empty(), "\n{}", tally.wrong);
    assert!(!only.is_empty() || tally.ran >= 470, "only {} cases ran", tally.ran);
}

impl Tally {
    fn count(&mut self, name: &str, outcome: Result<Outcome, Box<dyn Error>>, folder: &Path) {
        self.ran += 1;
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                let told = network::told(&*error).replace(&*folder.to_string_lossy(), "");
                return writeln!(self.wrong, "{name}: {told}").unwrap();
            }
        };
        let listed = OTHER_BITS.iter().find(|(_, cases)| cases.contains(&name));
        self.bound += usize::from(outcome.bound);
        self.same += usize::from(outcome.differs.is_none());
        match (outcome.differs, listed) {
            (Some(how), None) if outcome.bound => writeln!(self.wrong, "{name}: other bits than the processor's, {how}").unwrap(),
            (None, Some((reason, _))) => writeln!(self.wrong, "{name} has the processor's bits, but is listed ({reason})").unwrap(),
            _ => (),
        }
    }
}

/// How a case's results relate to the processor's.
struct Outcome {
    /// No operator's arithmetic is another than the processor's.
    bound: bool,
    differs: Option<String>,
}

/// Runs cases one after another.
struct Runner {
    folder: tempfile::TempDir,
    gpu: Machine,
    reference: Machine,
    dtype: DType,
}

impl Runner {
    fn new(facts: &Facts, dtype: DType) -> Runner {
        let gpu = Machine::gpu(facts);
        let reference = Machine::reference(&gpu, 1);
        let folder = tempfile::tempdir().unwrap();
        Runner {
            folder,
            gpu,
            reference,
            dtype,
        }
    }

    fn run(&self, case: &Case) -> Result<Outcome, Box<dyn Error>> {
        let loaded = Loaded::new(self.folder.path(), case)?;
        let options = CompileOptions {
            dtype: self.dtype,
            // Single operators between f32 ports would stay f32.
            ports: if self.dtype == DType::F16 { Ports::Half } else { Ports::Declared },
            searcher: Searcher::Sequential,
            ..CompileOptions::default()
        };
        let compiled = loaded.compile(&self.gpu, &options)?;
        let bound = compiled.plan.operators.iter().all(|o| o.class.family == Family::Fma);
        let found = self.gpu.run(compiled.clone(), &loaded.inputs)?;
        if self.dtype == DType::F32 {
            loaded.judge(&found)?;
        }
        let expected = self.reference.run(compiled, &loaded.inputs)?;
        if let Some(how) = far(&found, &expected) {
            return Err(format!("far from the processor: {how}").into());
        }
        self.scheduled_otherwise(&loaded, &options, &found)?;
        let differs = network::bits_differ(&found, &expected);
        Ok(Outcome { bound, differs })
    }

    /// Other chunks, widths and streams give the same bits.
    fn scheduled_otherwise(&self, loaded: &Loaded, options: &CompileOptions, found: &Tensors) -> Result<(), Box<dyn Error>> {
        let options = CompileOptions {
            searcher: Searcher::Random,
            seed: 5,
            ..options.clone()
        };
        let compiled: Compiled = loaded.compile(&self.gpu, &options)?;
        let again = self.gpu.run(compiled, &loaded.inputs)?;
        match network::bits_differ(&again, found) {
            Some(how) => Err(format!("a random schedule gives other bits: {how}").into()),
            None => Ok(()),
        }
    }
}

/// Why results are beyond the tolerance of the tensor cores.
fn far(found: &Tensors, expected: &Tensors) -> Option<String> {
    let largest = |t: &Tensor| {
        let values = (0..t.len()).filter_map(|i| t.get_f64(i)).filter(|v| v.is_finite());
        values.fold(0.0, |most: f64, v| most.max(v.abs()))
    };
    expected.iter().find_map(|(name, expected)| {
        let found = found.get(name)?;
        network::difference(found, expected, 0.0, largest(expected) * TENSOR_CORES).map(|how| format!("`{name}`: {how}"))
    })
}
