//! One network through the whole path: ONNX file, plan, deployment in memory, engine, outputs.

use platoon::backend::Backend;
use platoon::backend::cpu::CpuBackend;
use platoon::board::BoardRecord;
use platoon::ids::TenantId;
use platoon::plan::deployment::Deployment;
use platoon::planner::{self, CompileOptions, Compiled, PlannerError, boards};
use platoon::runtime::{Engine, Options};
use platoon::tensor::{DType, Data, Tensor};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// The board that these tests run on.
pub fn board() -> BoardRecord {
    boards::load("host").expect("the board `host` is always known")
}

/// A board and the backend that runs its plans here.
pub struct Machine {
    pub board: BoardRecord,
    pub backend: Box<dyn Backend>,
    pub options: Options,
}

impl Machine {
    /// This processor, with `workers` workers.
    pub fn host(workers: usize) -> Machine {
        let options = Options {
            workers: Some(workers),
            // Generic kernels take long on large networks, and a loaded machine longer.
            watchdog: None,
            ..Options::default()
        };
        Machine {
            board: board(),
            backend: Box::new(CpuBackend::native()),
            options,
        }
    }

    /// Compiles a network whose inputs' shapes the file gives.
    pub fn compile(&self, model: &Path, options: &CompileOptions) -> Result<Compiled, Box<PlannerError>> {
        planner::compile_network(model, BTreeMap::new(), BTreeMap::new(), &self.board, options).map_err(Box::new)
    }

    /// An engine on a compiled network.
    pub fn engine(&self, compiled: Compiled) -> Result<Engine, Box<dyn Error>> {
        let table = planner::table(std::slice::from_ref(&compiled), &self.board, &compiled.plan.task_set, 1)?;
        let weights = compiled.weight_files.into_iter().map(|(_, bytes)| bytes).collect();
        let deployment = Deployment::assemble(table, vec![compiled.plan], weights)?;
        Ok(Engine::over(deployment, &*self.backend, &self.options)?)
    }

    /// Runs one frame of a compiled network, and closes.
    pub fn run(&self, compiled: Compiled, inputs: &Tensors) -> Result<Tensors, Box<dyn Error>> {
        let mut engine = self.engine(compiled)?;
        let outputs = infer(&mut engine, inputs)?;
        match engine.close() {
            0 => Ok(outputs),
            stuck => Err(format!("{stuck} workers did not stop").into()),
        }
    }
}

/// Compiles a network whose inputs' shapes the file gives for this processor.
pub fn compile(model: &Path, options: &CompileOptions) -> Result<Compiled, Box<PlannerError>> {
    Machine::host(1).compile(model, options)
}

/// One frame: the outputs by name.
pub fn infer(engine: &mut Engine, inputs: &Tensors) -> Result<Tensors, Box<dyn Error>> {
    let ports = engine.plan().tenants[0].inputs.iter();
    let ports: Vec<(String, DType)> = ports.map(|p| (p.name.clone(), p.view.dtype)).collect();
    let mut draft = engine.begin()?;
    for (index, (port, dtype)) in ports.iter().enumerate() {
        let tensor = inputs.get(port).ok_or_else(|| format!("no data for input `{port}`"))?;
        draft.copy_input(TenantId(0), index, &bytes_for(*dtype, tensor))?;
    }
    let ticket = draft.submit()?;
    engine.wait(&ticket, None)?;
    let mut outputs = Tensors::new();
    for (port, bytes) in engine.result(&ticket, TenantId(0))?.tensors() {
        let tensor = Tensor::from_bytes(port.view.dtype, port.view.layout.shape, bytes);
        outputs.insert(port.name.clone(), tensor.ok_or("an output of another length than its shape's")?);
    }
    engine.release(ticket)?;
    Ok(outputs)
}

/// A tensor's bytes as a port of a type takes them: floats are rounded to halves for those that are f16.
fn bytes_for(dtype: DType, tensor: &Tensor) -> Cow<'_, [u8]> {
    match tensor.as_f32() {
        Some(values) if dtype == DType::F16 => values.iter().flat_map(|&v| half::f16::from_f32(v).to_le_bytes()).collect(),
        _ => tensor.bytes().into(),
    }
}

/// One frame of a compiled network on `workers` workers of this processor.
pub fn run(compiled: Compiled, inputs: &Tensors, workers: usize) -> Result<Tensors, Box<dyn Error>> {
    Machine::host(workers).run(compiled, inputs)
}

/// Float data for every input of a plan, from `value`.
pub fn inputs_of(compiled: &Compiled, mut value: impl FnMut() -> f32) -> Tensors {
    let ports = &compiled.plan.tenants[0].inputs;
    let tensor = |port: &platoon::plan::format::Port| {
        let shape = port.view.layout.shape;
        let count = shape.elements();
        match port.view.dtype {
            DType::F32 | DType::F16 => Tensor::new(shape, Data::F32((0..count).map(|_| value()).collect())).unwrap(),
            other => Tensor::zeros(other, shape),
        }
    };
    let mut tensor = tensor;
    ports.iter().map(|p| (p.name.clone(), tensor(p))).collect()
}

/// Why `found` is not `expected`: type, shape, or the first element whose difference is above `absolute + relative * |expected|`.
/// Integers and booleans must be equal; NaN equals NaN; infinities equal themselves.
pub fn difference(found: &Tensor, expected: &Tensor, relative: f64, absolute: f64) -> Option<String> {
    if (found.dtype(), found.shape()) != (expected.dtype(), expected.shape()) {
        let of = |t: &Tensor| format!("{}{}", t.dtype(), t.shape());
        return Some(format!("{} instead of {}", of(found), of(expected)));
    }
    let exact = !found.dtype().is_float();
    (0..found.len()).find_map(|i| {
        let (f, e) = (found.get_f64(i)?, expected.get_f64(i)?);
        let near = !exact && (f - e).abs() <= absolute + relative * e.abs();
        (!(f == e || near || (f.is_nan() && e.is_nan()))).then(|| format!("element {i} is {f} instead of {e}"))
    })
}

/// Why the bits of two sets of tensors differ.
pub fn bits_differ(found: &Tensors, expected: &Tensors) -> Option<String> {
    if !found.keys().eq(expected.keys()) {
        return Some("other outputs".into());
    }
    let pair = |(name, f): (&String, &Tensor)| {
        let e = &expected[name];
        if (f.shape(), f.bytes()) == (e.shape(), e.bytes()) {
            return None;
        }
        let unequal = (0..f.len().min(e.len())).filter(|&i| f.get_f64(i).map(f64::to_bits) != e.get_f64(i).map(f64::to_bits));
        let unequal: Vec<usize> = unequal.collect();
        let first = unequal.first().map(|&i| (i, f.get_f64(i), e.get_f64(i)));
        Some(format!("`{name}`: {} of {} elements, first {first:?}", unequal.len(), e.len()))
    };
    found.iter().find_map(pair)
}

/// An error with its causes.
pub fn told(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&e| e.source()).map(ToString::to_string);
    causes.collect::<Vec<_>>().join(": ")
}
