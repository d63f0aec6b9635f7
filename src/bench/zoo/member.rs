//! What runs as one tenant: a network of the zoo, or an ONNX file of the user's.
//!
//! Beside `net.onnx` a file `net.pt2` may lie, a program that `torch.export.save` wrote of the same network: PyTorch runs it then.

use super::build::Model;
use super::{Network, find};
use crate::bench::noise::Noise;
use crate::bench::{BenchError, inputs};
use crate::plan::format::Tenant;
use crate::planner::import::{self, ImportOptions};
use crate::tensor::{DType, Data, Tensor};
use half::f16;
use std::path::{Path, PathBuf};

/// How a file of the user's is told from a network of the zoo.
const ONNX: &str = "onnx";
/// The ending of what PyTorch runs in its place.
const PROGRAM: &str = "pt2";
/// Floats that a file's inputs are given lie as far from 0 as those of the zoo's pictures: of mean 0 and mean square 1.
const RANGE: (f32, f32) = (-1.732_050_8, 1.732_050_8);

/// Where a network comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The zoo.
    Zoo(Network),
    /// An ONNX file.
    File(PathBuf),
}

/// A network with its batch.
#[derive(Clone, Debug)]
pub struct Member {
    /// The network.
    pub source: Source,
    /// Its batch, at least 1; of a file the extent of the axes that it leaves open.
    pub batch: u32,
}

impl Member {
    /// `NAME[:BATCH]` or `FILE.onnx[:BATCH]`; without a batch of its own `batch`, else the usual one, which of files is 1. `None`
    /// if it is neither.
    pub fn parse(text: &str, batch: Option<u32>) -> Option<Member> {
        let (name, own) = match text.rsplit_once(':') {
            Some((name, own)) => (name, Some(own.parse().ok()?)),
            None => (text, None),
        };
        let source = match find(name) {
            Some(network) => Source::Zoo(*network),
            None if Path::new(name).extension().is_some_and(|e| e == ONNX) => Source::File(name.into()),
            None => return None,
        };
        let usual = match &source {
            Source::Zoo(network) => network.batch,
            Source::File(_) => 1,
        };
        let batch = own.or(batch).unwrap_or(usual);
        (batch > 0).then_some(Member { source, batch })
    }

    /// A short name: the zoo's, or the file's without its ending.
    pub fn name(&self) -> String {
        match &self.source {
            Source::Zoo(network) => network.name.into(),
            Source::File(file) => file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }

    /// The name for people.
    pub fn title(&self) -> String {
        match &self.source {
            Source::Zoo(network) => network.title.into(),
            Source::File(_) => self.name(),
        }
    }

    /// What [`parse`](Member::parse) finds the network by, without its batch.
    pub fn address(&self) -> String {
        match &self.source {
            Source::Zoo(network) => network.name.into(),
            Source::File(file) => file.to_string_lossy().into_owned(),
        }
    }

    /// What PyTorch runs: a network of the zoo by its name, or the program beside a file. The error is the file that is not there.
    pub fn program(&self) -> Result<String, PathBuf> {
        match &self.source {
            Source::Zoo(network) => Ok(network.name.into()),
            Source::File(file) => {
                let program = file.with_extension(PROGRAM);
                if program.is_file() {
                    Ok(program.to_string_lossy().into_owned())
                } else {
                    Err(program)
                }
            }
        }
    }

    /// Its graph.
    pub fn model(&self) -> Result<Model, BenchError> {
        match &self.source {
            Source::Zoo(network) => Ok(network.model(self.batch)),
            Source::File(file) => {
                let options = ImportOptions {
                    batch: Some(self.batch),
                    ..ImportOptions::default()
                };
                let refused = |error| BenchError::Import(Box::new(error));
                let graph = import::import(file, &options).map_err(refused)?;
                if self.batch > 1 {
                    import::takes_batch(&graph, file, self.batch).map_err(refused)?;
                }
                Ok(Model {
                    graph,
                    parameters: Vec::new(),
                })
            }
        }
    }

    /// Seeded data for the inputs of its tenant: port and bytes.
    pub fn inputs(&self, record: &Tenant) -> Vec<(usize, Vec<u8>)> {
        let dtype = record.inputs.first().map(|port| port.view.dtype);
        match &self.source {
            Source::Zoo(network) => vec![(0, stored(network.data(self.batch), dtype).bytes().to_vec())],
            Source::File(_) => {
                let mut noise = Noise::named(super::SEED, &self.name());
                let data = record.inputs.iter().map(|port| inputs::tensor(port, &mut noise, RANGE));
                data.enumerate().collect()
            }
        }
    }
}

/// A tensor as its port stores it: f32 data of an f16 port is rounded.
fn stored(tensor: Tensor, dtype: Option<DType>) -> Tensor {
    let rounded = match (tensor.as_f32(), dtype) {
        (Some(data), Some(DType::F16)) => Tensor::new(tensor.shape(), Data::F16(data.iter().map(|&x| f16::from_f32(x)).collect())),
        _ => None,
    };
    rounded.unwrap_or(tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_from_networks_of_the_zoo() {
        let parsed = |text: &str| Member::parse(text, None).map(|m| (m.name(), m.address(), m.batch));
        let told = |name: &str, address: &str, batch| Some((name.to_string(), address.to_string(), batch));
        assert_eq!(parsed("r50"), told("r50", "r50", 8));
        assert_eq!(parsed("nets/a.b.onnx"), told("a.b", "nets/a.b.onnx", 1));
        assert_eq!(parsed("/nets/c:d.onnx:4"), told("c:d", "/nets/c:d.onnx", 4));
        for neither in ["", "r51", "net.pt2", "net.onnx:", "net.onnx:0", "net.onnx:-1", "onnx"] {
            assert_eq!(parsed(neither), None, "{neither}");
        }
    }

    #[test]
    fn a_file_is_imported_and_gets_data_for_each_input() {
        let member = Member::parse("models/scout/scout.onnx", None).unwrap();
        let model = member.model().unwrap();
        assert_eq!(model.graph.inputs.len(), 1);
        assert_eq!(member.program(), Err("models/scout/scout.pt2".into()), "nobody exported one");
        let error = Member::parse("models/none.onnx", None).unwrap().model().unwrap_err();
        assert!(error.to_string().contains("models/none.onnx"), "{error}");
        let error = Member::parse("models/scout/scout.onnx:8", None).unwrap().model().unwrap_err();
        assert!(error.to_string().contains("a batch of 8"), "its file fixes the batch: {error}");
    }
}
