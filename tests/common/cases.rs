//! ONNX's own operator cases (`onnx/backend/test/data/node`), with ONNX's own tolerances.

use crate::network::{self, Machine, Tensors};
use crate::{data, onnx};
use platoon::planner::import::{model_inputs, read_tensor};
use platoon::planner::{self, CompileOptions, Compiled};
use platoon::tensor::DType;
use prost::Message;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};

/// The operators that Platoon imports.
pub const OPERATORS: &str = "Conv ConvTranspose BatchNormalization Relu LeakyRelu PRelu Clip Sigmoid HardSigmoid HardSwish Tanh Exp Sqrt \
    Add Sub Mul Div Pow Min Max MaxPool AveragePool GlobalAveragePool GlobalMaxPool Neg ReduceMean ReduceMax ReduceSum Gemm MatMul \
    Softmax Concat Split Slice Gather Pad Resize Upsample Expand Reshape Flatten Squeeze Unsqueeze Transpose Dropout Identity Cast \
    Constant ConstantOfShape Shape LayerNormalization Mish LSTM GRU RNN Gelu Erf Log Round Abs Floor Ceil Reciprocal Softplus Softsign \
    Elu Celu Selu LogSoftmax QuantizeLinear DequantizeLinear Mod Sum \
    InstanceNormalization GroupNormalization TopK QLinearConv ConvInteger ArgMax Tile Where DepthToSpace SpaceToDepth ReduceL2 Einsum \
    Attention ReduceMin ReduceL1 Sign Greater Less Equal Not And Or Range Trilu CumSum \
    Sin Cos Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh \
    GridSample DeformConv Col2Im ScatterND ScatterElements LpPool GlobalLpPool RotaryEmbedding";

/// Files of a case by their path in it.
pub type Case = BTreeMap<String, Vec<u8>>;

/// The cases by name.
pub fn cases(archive: &Path) -> BTreeMap<String, Case> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for (path, bytes) in data::unpack(archive) {
        let parts: Vec<_> = path.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        let [_, case, rest @ ..] = &parts[..] else { continue };
        cases.entry(case.clone()).or_default().insert(rest.join("/"), bytes);
    }
    cases
}

/// True if all operators of the case's model are in the list `operators`.
pub fn listed(operators: &str, case: &Case) -> bool {
    let model = case.get("model.onnx").and_then(|m| onnx::Model::decode(&m[..]).ok());
    let graph = model.and_then(|m| m.graph).expect("every case has a model");
    let known = |n: &onnx::Node| n.domain.is_empty() && operators.split_whitespace().any(|o| o == n.op_type);
    graph.node.iter().all(known)
}

/// The tensors `kind`_0.pb, `kind`_1.pb ... of a case, by name.
fn tensors(folder: &Path, case: &Case, kind: &str) -> Result<Tensors, Box<dyn Error>> {
    let mut tensors = Tensors::new();
    let prefix = format!("test_data_set_0/{kind}_");
    for (name, bytes) in case.iter().filter(|(name, _)| name.starts_with(&prefix)) {
        let path = folder.join("tensor.pb");
        std::fs::write(&path, bytes)?;
        let (name, feed) = read_tensor(&path).map_err(|e| format!("{name}: {e}"))?;
        tensors.insert(name, feed.tensor);
    }
    Ok(tensors)
}

/// A case that was read.
pub struct Loaded {
    model: PathBuf,
    /// Inputs whose values give shapes: they become part of the plan.
    fixed: Tensors,
    /// The other inputs.
    pub inputs: Tensors,
    expected: Tensors,
}

impl Loaded {
    /// Reads a case; `folder` takes its model.
    pub fn new(folder: &Path, case: &Case) -> Result<Loaded, Box<dyn Error>> {
        let model = folder.join("model.onnx");
        std::fs::write(&model, &case["model.onnx"])?;
        let mut inputs = tensors(folder, case, "input")?;
        let expected = tensors(folder, case, "output")?;
        let given = model_inputs(&model)?.into_iter().filter(|i| i.gives_shape);
        let fixed: Tensors = given.filter_map(|i| inputs.remove_entry(&i.name)).collect();
        Ok(Loaded {
            model,
            fixed,
            inputs,
            expected,
        })
    }

    /// The plan of the case for a machine.
    pub fn compile(&self, machine: &Machine, options: &CompileOptions) -> Result<Compiled, Box<dyn Error>> {
        let shapes = self.inputs.iter().map(|(name, t)| (name.clone(), t.shape().dims().to_vec()));
        let compiled = planner::compile_network(&self.model, self.fixed.clone(), shapes.collect(), &machine.board, options)?;
        Ok(compiled)
    }

    /// Says why outputs are not what the case expects.
    pub fn judge(&self, found: &Tensors) -> Result<(), Box<dyn Error>> {
        for (name, expected) in &self.expected {
            let found = found.get(name).ok_or_else(|| format!("no output `{name}`"))?;
            let (relative, absolute) = match expected.dtype() {
                DType::F16 => (1e-2, 1e-3),
                _ => (1e-3, 1e-5),
            };
            if let Some(difference) = network::difference(found, expected, relative, absolute) {
                return Err(format!("`{name}`: {difference}").into());
            }
        }
        Ok(())
    }
}

/// Runs a case on a machine; says why it does not pass.
pub fn run(machine: &Machine, folder: &Path, case: &Case) -> Result<(), Box<dyn Error>> {
    let loaded = Loaded::new(folder, case)?;
    let compiled = loaded.compile(machine, &CompileOptions::default())?;
    loaded.judge(&machine.run(compiled, &loaded.inputs)?)
}
