//! `platoon infer`: any network on tensors from files, through the same path as a plan of one tenant.

use super::inspect::read_bounded;
use super::options::{ActivationType, Common};
use super::{Outcome, compile, npy, output};
use crate::board::{BackendKind, BoardRecord};
use crate::ids::TenantId;
use crate::plan::deployment::Deployment;
use crate::plan::format::{Plan, Port};
use crate::planner::import::{self, Feed, ModelInput};
use crate::planner::{self, CompileOptions, Compiled};
use crate::replay::names::unused;
use crate::runtime::{self, Engine, TenantResult};
use crate::tensor::{DType, Data, Tensor};
use anyhow::{Context, bail, ensure};
use clap::Args;
use half::f16;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of the largest `.npy` file that is read.
const MAX_NPY: u64 = 2 << 30;

#[derive(Args)]
#[command(after_help = "\
Examples:
  platoon infer --model net.onnx --input x.npy --out out/
  platoon infer --model two.onnx --input a=a.npy --input b=b.pb --out out/ --dtype f16
  platoon infer --model net.onnx --input x.npy --out out/ --output scores    cut behind the tensor `scores`

Inputs are .npy files (f8, f4, f2, i8, i4, i1, u1, b1) or ONNX tensor files (.pb). NAME may be left out where the model has one
input, or where a .pb file holds the name. Inputs that give shapes (shape, axes, pads, scales, sizes, starts, k, clip
bounds) are fixed as constants. Each output goes to DIR/<name>.npy; a line of JSON on stdout lists them.")]
pub struct Arguments {
    /// The ONNX file
    #[arg(long, value_name = "F.onnx")]
    model: PathBuf,
    /// Data of an input; once for each
    #[arg(long, value_name = "[NAME=]FILE")]
    input: Vec<OsString>,
    /// Where the outputs are written
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Extent of axes that the network leaves symbolic and its data does not give
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    batch: Option<u32>,
    /// A tensor of the network that is a result, in place of those the file lists; may be given several times
    #[arg(long, value_name = "NAME")]
    output: Vec<String>,
    /// Type that activations are stored in [default: f32 on the CPU backend, f16 on GPU boards]
    #[arg(long, value_enum)]
    dtype: Option<ActivationType>,
}

pub fn run(common: &Common, arguments: &Arguments) -> anyhow::Result<Outcome> {
    let board = common.board()?;
    let inputs = import::model_inputs(&arguments.model)?;
    let mut feeds = read_inputs(&arguments.input, &inputs)?;
    let read: Vec<PathBuf> = feeds
        .values()
        .map(|given| given.file.clone())
        .chain([arguments.model.clone()])
        .collect();
    let mut fixed = BTreeMap::new();
    let mut shapes = BTreeMap::new();
    for input in &inputs {
        let Given { feed, file } = feeds
            .get(&input.name)
            .with_context(|| format!("no data for input `{}`: give --input {}=FILE", input.name, input.name))?;
        if input.gives_shape {
            fixed.insert(input.name.clone(), feed.tensor.clone());
            feeds.remove(&input.name);
        } else if let Some(value) = feed.beyond {
            bail!(
                "{}: input `{}` holds {value}, which does not fit the 32-bit integers that Platoon computes with",
                file.display(),
                input.name
            );
        } else {
            shapes.insert(input.name.clone(), feed.tensor.shape().dims().to_vec());
        }
    }
    let options = CompileOptions {
        dtype: ActivationType::dtype(arguments.dtype, &board),
        batch: arguments.batch,
        outputs: arguments.output.clone(),
        best_effort: true,
        times: compile::measured(&board)?,
        ..CompileOptions::default()
    };
    let compiled = planner::compile_network(&arguments.model, fixed, shapes, &board, &options)?;
    let files = output_files(
        &arguments.out,
        compiled.plan.tenants.iter().flat_map(|t| &t.outputs).map(|p| p.name.as_str()),
    );
    files
        .iter()
        .try_for_each(|file| output::spares(file, read.iter().map(PathBuf::as_path)))?;
    let mut engine = Engine::with(deployment(compiled, &board)?, &engine_options(common, &board))?;
    let listed = infer(&mut engine, &feeds, |result| {
        std::fs::create_dir_all(&arguments.out).with_context(|| format!("{}: cannot be made", arguments.out.display()))?;
        write_outputs(&files, result)
    })?;
    engine.close();
    output::print(&json!({ "outputs": listed }).to_string())?;
    Ok(Outcome::Good)
}

/// The data of an input, and the file that it is from.
struct Given {
    feed: Feed,
    file: PathBuf,
}

/// The data of each input by name.
fn read_inputs(given: &[OsString], inputs: &[ModelInput]) -> anyhow::Result<BTreeMap<String, Given>> {
    let mut feeds = BTreeMap::new();
    for text in given {
        let (bytes, text) = (text.as_bytes(), text.display());
        // A name may hold `=`, and so may a path, which need not be text: the model's names decide.
        let named = inputs
            .iter()
            .find_map(|i| Some((i.name.as_str(), bytes.strip_prefix(i.name.as_bytes())?.strip_prefix(b"=")?)));
        let path = |bytes| Path::new(OsStr::from_bytes(bytes));
        let (name, file) = match named {
            Some((name, file)) => (Some(name), path(file)),
            None => (None, path(bytes)),
        };
        let mut parts = bytes.splitn(2, |&b| b == b'=');
        if named.is_none()
            && !file.exists()
            && let (Some(unknown), Some(_)) = (parts.next(), parts.next().filter(|file| path(file).exists()))
        {
            let unknown = String::from_utf8_lossy(unknown);
            bail!("--input {text}: the model has no input `{unknown}`; it has {}", known(inputs));
        }
        ensure!(!file.as_os_str().is_empty(), "--input {text}: no file is named: give [NAME=]FILE");
        let (stored, feed) = read_feed(file)?;
        let stored = inputs.iter().map(|i| i.name.as_str()).find(|i| *i == stored);
        let name = match (name.or(stored), inputs) {
            (Some(name), _) => name,
            (None, [only]) => only.name.as_str(),
            (None, _) => {
                bail!("--input {text}: say which input it is, NAME=FILE; the model has {}", known(inputs));
            }
        };
        let file = file.to_path_buf();
        ensure!(
            feeds.insert(name.to_owned(), Given { feed, file }).is_none(),
            "input `{name}` is given twice"
        );
    }
    Ok(feeds)
}

fn known(inputs: &[ModelInput]) -> String {
    let names: Vec<String> = inputs.iter().map(|i| i.name.clone()).collect();
    super::plan::names(&names)
}

/// The tensor of a file, and the name stored with it (empty for `.npy`).
fn read_feed(file: &Path) -> anyhow::Result<(String, Feed)> {
    if file.extension().is_some_and(|e| e.eq_ignore_ascii_case("pb")) {
        return Ok(import::read_tensor(file)?);
    }
    let bytes = read_bounded(file, MAX_NPY)?;
    let feed = npy::read(&bytes).with_context(|| file.display().to_string())?;
    Ok((String::new(), feed))
}

/// Options of the one frame: a processor may take as long for it as it needs, since nothing hangs there but the network is large.
fn engine_options(common: &Common, board: &BoardRecord) -> runtime::Options {
    let options = common.engine_options(board);
    runtime::Options {
        watchdog: options.watchdog.filter(|_| options.backend == Some(BackendKind::Cuda)),
        ..options
    }
}

/// The compiled network as a deployment in memory: a table of one plan with one slot.
fn deployment(compiled: Compiled, board: &BoardRecord) -> anyhow::Result<Deployment> {
    let table = planner::table(std::slice::from_ref(&compiled), board, &compiled.plan.task_set, 1)?;
    let weights = compiled.weight_files.into_iter().map(|(_, bytes)| bytes);
    Ok(Deployment::assemble(table, vec![compiled.plan], weights.collect())?)
}

/// Runs one frame, and does something with its result.
fn infer<T>(
    engine: &mut Engine,
    feeds: &BTreeMap<String, Given>,
    with: impl FnOnce(&TenantResult<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let tenant = TenantId(0);
    let plan: Plan = engine.plan().clone();
    let ports = &plan.tenants[tenant.index()].inputs;
    let mut draft = engine.begin()?;
    for (index, port) in ports.iter().enumerate() {
        let Given { feed, file } = feeds
            .get(&port.name)
            .with_context(|| format!("no data for input `{}`", port.name))?;
        let tensor = converted(feed, port).with_context(|| file.display().to_string())?;
        draft
            .copy_input(tenant, index, tensor.bytes())
            .with_context(|| format!("input `{}`", port.name))?;
    }
    let ticket = draft.submit()?;
    engine.wait(&ticket, None)?;
    let done = with(&engine.result(&ticket, tenant)?)?;
    engine.release(ticket)?;
    Ok(done)
}

/// The tensor in the port's type; floats are converted between their widths, anything else must be of the type.
fn converted(feed: &Feed, port: &Port) -> anyhow::Result<Tensor> {
    let tensor = &feed.tensor;
    let data = match (tensor.data(), port.view.dtype) {
        (Data::F32(v), DType::F16) => Data::F16(v.iter().map(|&x| f16::from_f32(x)).collect()),
        (Data::F16(v), DType::F32) => Data::F32(v.iter().map(|x| x.to_f32()).collect()),
        (_, wanted) => {
            ensure!(
                tensor.dtype() == wanted,
                "input `{}` takes {wanted}, the file holds {}",
                port.name,
                type_name(tensor.dtype(), feed.widened)
            );
            return Ok(tensor.clone());
        }
    };
    Tensor::new(tensor.shape(), data).with_context(|| format!("input `{}`", port.name))
}

/// The files of outputs of these names, in their order.
fn output_files<'a>(folder: &Path, names: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
    let mut taken = BTreeSet::new();
    let file = |name| folder.join(format!("{}.npy", unused(&file_name(name), &mut taken)));
    names.map(file).collect()
}

/// What NumPy calls the elements of a file.
fn type_name(dtype: DType, widened: bool) -> &'static str {
    if widened { "int64" } else { dtype.name() }
}

/// Writes outputs from where they lie: they may be most of what memory holds.
fn write_outputs(files: &[PathBuf], result: &TenantResult<'_>) -> anyhow::Result<Map<String, Value>> {
    let mut listed = Map::new();
    for (file, (port, bytes)) in files.iter().zip(result.tensors()) {
        let (dtype, shape) = (port.view.dtype, port.view.layout.shape);
        ensure!(
            bytes.len() as u64 == shape.elements() * dtype.bytes(),
            "output `{}` was not computed",
            port.name
        );
        output::write_by(file, |out| npy::write(out, (dtype, shape), bytes, port.widened))?;
        listed.insert(
            port.name.clone(),
            // A path that is no text is told as near as text comes to it.
            json!({ "file": relative(file).to_string_lossy(), "shape": shape.dims(), "dtype": type_name(dtype, port.widened) }),
        );
    }
    Ok(listed)
}

/// Characters of an output's name that its file's name takes: file systems hold 255 bytes.
const MAX_NAME: usize = 200;

/// `name` with every character outside `[A-Za-z0-9_.-]` replaced by `_`.
fn file_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' };
    name.chars().take(MAX_NAME).map(plain).collect()
}

/// `file` relative to the current directory, where it lies below it.
fn relative(file: &Path) -> PathBuf {
    let here = std::env::current_dir().unwrap_or_default();
    file.strip_prefix(here).unwrap_or(file).to_path_buf()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Shape;

    #[test]
    fn output_names_become_distinct_file_names() {
        let mut taken = BTreeSet::new();
        let names: Vec<String> = ["a/b:0", "a_b_0", "x.y-z", "a b 0"]
            .iter()
            .map(|n| unused(&file_name(n), &mut taken))
            .collect();
        assert_eq!(names, ["a_b_0", "a_b_0_2", "x.y-z", "a_b_0_3"]);
        assert_eq!(file_name(&"ё".repeat(300)), "_".repeat(MAX_NAME));
    }

    #[test]
    fn inputs_are_told_by_name_by_file_or_by_being_the_only_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("k=v.npy");
        output::write_by(&path, |out| npy::write(out, (DType::U8, Shape::SCALAR), &[0], false)).unwrap();
        let input = |name: &str| ModelInput {
            name: name.into(),
            gives_shape: false,
        };
        let file = path.display().to_string();
        let names = |given: &[String], inputs: &[ModelInput]| {
            let given: Vec<OsString> = given.iter().map(OsString::from).collect();
            read_inputs(&given, inputs).map(|f| f.into_keys().collect::<Vec<_>>())
        };
        assert_eq!(names(std::slice::from_ref(&file), &[input("x")]).unwrap(), ["x"]);
        assert_eq!(names(&[format!("b={file}")], &[input("a"), input("b")]).unwrap(), ["b"]);
        let unnamed = names(std::slice::from_ref(&file), &[input("a"), input("b")])
            .unwrap_err()
            .to_string();
        assert!(unnamed.contains("`a`, `b`"), "{unnamed}");
        let unknown = names(&[format!("q={file}")], &[input("a"), input("b")]).unwrap_err().to_string();
        assert!(unknown.contains("no input `q`") && unknown.contains("`a`, `b`"), "{unknown}");
        assert!(names(&[format!("a={file}"), format!("a={file}")], &[input("a")]).is_err());
        for nothing in ["a=", ""] {
            let refused = names(&[nothing.into()], &[input("a")]).unwrap_err().to_string();
            assert!(refused.contains("no file is named"), "{refused}");
        }
    }
}
