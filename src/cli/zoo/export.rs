//! Parameters, inputs and results of the zoo's networks as files.

use super::Setting;
use crate::bench::stage::Results;
use crate::bench::zoo::build::Model;
use crate::bench::zoo::member::Source;
use crate::bench::zoo::run::Group;
use crate::cli::{npy, output};
use crate::planner::graph::ValueId;
use crate::tensor::Tensor;
use anyhow::{Context, ensure};
use std::path::Path;

/// Writes parameters, input and our results of each network: one line each.
pub fn export(groups: Vec<Group>, setting: &Setting<'_>, folder: &Path) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for group in groups {
        let [member] = &group.members[..] else {
            anyhow::bail!("{}: networks are exported one by one", group.name);
        };
        let Source::Zoo(network) = &member.source else {
            anyhow::bail!(
                "{}: networks of the zoo are exported, as only their parameters have names",
                group.name
            );
        };
        let folder = folder.join(network.name);
        let model = network.model(member.batch);
        let parameters: Vec<(String, Tensor)> = model.parameters.iter().filter_map(|&id| constant(&model, id)).collect();
        let data: Results = model
            .graph
            .inputs
            .iter()
            .map(|n| (n.name.clone(), network.data(member.batch)))
            .collect();
        let compiled = group.compile(vec![model], setting.board, setting.compile)?;
        let mut zoo = group.open(compiled, setting.board, setting.engine)?;
        let results = zoo.results();
        zoo.close();
        let results = results?.pop().unwrap_or_default();
        ensure!(!results.is_empty(), "{}: no results", group.name);
        write(&folder.join("parameters"), &parameters)?;
        write(&folder.join("inputs"), &data)?;
        write(&folder.join("outputs"), &results)?;
        lines.push(format!(
            "{} parameters, {} inputs, {} outputs: {}",
            parameters.len(),
            data.len(),
            results.len(),
            folder.display()
        ));
    }
    Ok(lines.join("\n"))
}

/// A parameter by its name, with its elements.
fn constant(model: &Model, id: ValueId) -> Option<(String, Tensor)> {
    let value = model.graph.value(id);
    Some((value.name.clone(), Tensor::clone(value.data.as_deref()?)))
}

/// Tensors as files of a folder. Names are torchvision's: letters, digits, dots and underscores.
fn write(folder: &Path, tensors: &[(String, Tensor)]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("{}: cannot be made", folder.display()))?;
    for (name, tensor) in tensors {
        let file = folder.join(format!("{name}.npy"));
        output::write_by(&file, |out| {
            npy::write(out, (tensor.dtype(), tensor.shape()), tensor.bytes(), false)
        })?;
    }
    Ok(())
}
