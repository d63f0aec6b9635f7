//! ONNX's own operator cases (`onnx/backend/test/data/node`), with ONNX's own tolerances.

use crate::network::Tensors;
use crate::skips::{SKIPS, TYPES};
use crate::{data, network, onnx};
use platoon::planner::import::{model_inputs, read_tensor};
use platoon::planner::{self, CompileOptions};
use platoon::tensor::DType;
use prost::Message;
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::path::Path;

/// The operators that Platoon imports.
const OPERATORS: &str = "Conv ConvTranspose BatchNormalization Relu LeakyRelu PRelu Clip Sigmoid HardSigmoid HardSwish Tanh Exp Sqrt \
    Add Sub Mul Div Pow Min Max MaxPool AveragePool GlobalAveragePool GlobalMaxPool Neg ReduceMean ReduceMax ReduceSum Gemm MatMul \
    Softmax Concat Split Slice Gather Pad Resize Upsample Expand Reshape Flatten Squeeze Unsqueeze Transpose Dropout Identity Cast \
    Constant ConstantOfShape Shape LayerNormalization Mish LSTM GRU RNN Gelu Erf Log Round Abs Floor Ceil Reciprocal Softplus Softsign \
    Elu Celu Selu LogSoftmax QuantizeLinear DequantizeLinear";

/// Files of a case by their path in it.
type Case = BTreeMap<String, Vec<u8>>;

/// The cases by name.
fn cases(archive: &Path) -> BTreeMap<String, Case> {
    let mut cases: BTreeMap<String, Case> = BTreeMap::new();
    for (path, bytes) in data::unpack(archive) {
        let parts: Vec<_> = path.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        let [_, case, rest @ ..] = &parts[..] else { continue };
        cases.entry(case.clone()).or_default().insert(rest.join("/"), bytes);
    }
    cases
}

/// True if all operators of the case's model are in the list.
fn listed(case: &Case) -> bool {
    let model = case.get("model.onnx").and_then(|m| onnx::Model::decode(&m[..]).ok());
    let graph = model.and_then(|m| m.graph).expect("every case has a model");
    let known = |n: &onnx::Node| n.domain.is_empty() && OPERATORS.split_whitespace().any(|o| o == n.op_type);
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

/// Runs a case; says why it does not pass.
fn run(folder: &Path, case: &Case) -> Result<(), Box<dyn Error>> {
    let model = folder.join("model.onnx");
    std::fs::write(&model, &case["model.onnx"])?;
    let mut inputs = tensors(folder, case, "input")?;
    let expected = tensors(folder, case, "output")?;
    let given = model_inputs(&model)?.into_iter().filter(|i| i.gives_shape);
    let fixed: Tensors = given.filter_map(|i| inputs.remove_entry(&i.name)).collect();
    let shapes = inputs.iter().map(|(name, t)| (name.clone(), t.shape().dims().to_vec())).collect();
    let compiled = planner::compile_network(&model, fixed, shapes, &network::board(), &CompileOptions::default())?;
    let found = network::run(compiled, &inputs, 2)?;
    for (name, expected) in &expected {
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

#[test]
fn operators_give_what_onnx_says() {
    let archive = data::av_data().join("onnx-conformance/node.tar.xz");
    let Some(archive) = data::need("conformance", &archive) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let skipped = |name: &str| SKIPS.iter().find(|(_, cases)| cases.contains(&name)).map(|(reason, _)| *reason);
    let cases: Vec<_> = cases(&archive).into_iter().filter(|(_, case)| listed(case)).collect();
    let (mut passed, mut wrong) = (0, String::new());
    let mut skips: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, case) in &cases {
        let name = name.strip_prefix("test_").unwrap_or(name);
        let outcome = run(folder.path(), case);
        match (outcome, skipped(name)) {
            (Ok(()), None) => passed += 1,
            (Err(_), Some(reason)) => *skips.entry(reason).or_default() += 1,
            (Ok(()), Some(reason)) => writeln!(wrong, "{name} passes, but stands in the table of skips ({reason})").unwrap(),
            (Err(error), None) => writeln!(
                wrong,
                "{name}: {}",
                network::told(&*error).replace(&*folder.path().to_string_lossy(), "")
            )
            .unwrap(),
        }
    }
    let unknown = SKIPS
        .iter()
        .flat_map(|(_, names)| *names)
        .filter(|n| !cases.iter().any(|(c, _)| c.strip_prefix("test_") == Some(n)));
    unknown.for_each(|name| writeln!(wrong, "{name} stands in the table of skips, but is no case").unwrap());
    let by_reason: Vec<_> = skips.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let total = cases.len();
    let what = format!(
        "{passed} of {total} cases, {} skipped: {}",
        skips.values().sum::<usize>(),
        by_reason.join(", ")
    );
    data::ran("conformance", &what);
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(total >= 440, "the archive holds only {total} cases of the listed operators");
    // Cases of types that are not imported say nothing of the operators.
    let typed = total - skips.get(TYPES).copied().unwrap_or(0);
    assert!(passed * 100 >= typed * 85, "{passed} of {typed} cases of imported types");
}
