//! What the table has rows for: the papers' mixes, the same at batch 1, a vehicle's three networks, and task sets.

use crate::bench::BenchError;
use crate::bench::inputs::{self, Picture};
use crate::bench::mixes::Mix;
use crate::bench::stage::{Inputs, Stage};
use crate::bench::zoo::member::{Member, Source};
use crate::bench::zoo::run::Group;
use crate::bench::zoo::{self, Input};
use crate::board::BoardRecord;
use crate::planner::tasks::Tasks;
use crate::planner::{CompileOptions, Compiled, Ports};
use crate::runtime::Options;

/// The papers' mixes with GACER's speed-up over sequential cuDNN on the P6000 (Yu et al. 2023, table 1).
const MIXES: [(&str, &str, f64); 5] = [
    ("ALEX+V16+R18", "alex+v16+r18", 1.39),
    ("D121+V16+LSTM", "d121+v16+lstm", 1.38),
    ("R50+V16+M3", "r50+v16+m3", 1.50),
    ("R101+D121+M3", "r101+d121+m3", 1.58),
    ("R34+LSTM+BST", "r34+lstm+bst", 1.55),
];
/// Detection of one picture, classification of eight crops, segmentation of a wide picture.
const VEHICLE: (&str, &str) = ("SSD300+R50+DLV3", "ssd+r50+dlv3");
/// How many times as fast as PyTorch a mix should be, and at batch 1.
const OVER_PEER: (f64, f64) = (1.5, 2.0);

/// What runs in a frame.
pub enum Load {
    /// Networks of the zoo.
    Zoo(Group),
    /// A task set of the task file, every tenant in every frame.
    TaskSet(Box<Mix>),
}

/// A row of the table.
pub struct Row {
    /// What the table calls it.
    pub name: String,
    /// What runs.
    pub load: Load,
    /// The papers' speed-up over sequential execution; `None` for what they do not have.
    pub paper: Option<f64>,
    /// How many times as fast as the best of PyTorch it should be; `None` for what PyTorch does not run.
    pub over_peer: Option<f64>,
}

impl Row {
    /// All rows, with the task sets of a file if there is one.
    pub fn all(tasks: Option<&Tasks>) -> Result<Vec<Row>, BenchError> {
        let usual = MIXES.iter().map(|(_, text, _)| text.to_string());
        let single = MIXES.iter().map(|(_, text, _)| at_batch_1(text));
        let sets = tasks.iter().flat_map(|t| t.sets.keys().cloned());
        let texts = usual.chain(single).chain([VEHICLE.1.to_string()]).chain(sets);
        texts.map(|text| Row::of(&text, tasks)).collect()
    }

    /// The row of a task set of the file, or else of networks of the zoo joined by `+`.
    pub fn of(text: &str, tasks: Option<&Tasks>) -> Result<Row, BenchError> {
        if let Some(tasks) = tasks.filter(|t| t.sets.contains_key(text)) {
            return Ok(Row {
                name: text.to_string(),
                load: Load::TaskSet(Box::new(Mix::of(tasks, text)?)),
                paper: None,
                over_peer: None,
            });
        }
        let group = Group::parse(text, None)?;
        let known = MIXES.iter().find(|(_, usual, _)| *usual == text || at_batch_1(usual) == text);
        let name = match known {
            Some((name, usual, _)) if *usual != text => format!("{name}, batch 1"),
            Some((name, ..)) => name.to_string(),
            None if text == VEHICLE.1 => VEHICLE.0.to_string(),
            None => text.to_string(),
        };
        Ok(Row {
            name,
            paper: known.map(|(.., paper)| *paper),
            over_peer: Some(if single(&group) { OVER_PEER.1 } else { OVER_PEER.0 }),
            load: Load::Zoo(group),
        })
    }

    /// The best `most` plans of every searcher, for a board.
    pub fn compile(&self, board: &BoardRecord, options: &CompileOptions, most: usize) -> Result<Compiled, BenchError> {
        let options = CompileOptions {
            rivals: most,
            ..options.clone()
        };
        match &self.load {
            Load::Zoo(group) => {
                // The peer's inputs and results are of the activations' type too.
                let ports = Ports::Half;
                group.plan(board, &CompileOptions { ports, ..options })
            }
            Load::TaskSet(mix) => mix.compile_frame(board, &options),
        }
    }

    /// An engine on the row's plans, with inputs.
    pub fn open(&self, compiled: Compiled, board: &BoardRecord, options: &Options) -> Result<Stage, BenchError> {
        let inputs = self.inputs(&compiled);
        Stage::open(compiled, inputs, board, options)
    }

    /// What its frames run on.
    pub fn inputs(&self, compiled: &Compiled) -> Inputs {
        match &self.load {
            Load::Zoo(group) => group.inputs(compiled),
            Load::TaskSet(mix) => {
                let ranges: Vec<(f32, f32)> = mix.networks.iter().map(|n| n.range).collect();
                Inputs {
                    pictures: compiled.plan.cameras.iter().map(Picture::of).collect(),
                    tensors: inputs::tensors(&compiled.plan, &ranges),
                }
            }
        }
    }

    /// The networks by name or file and batch, as MPS runs them; none for a task set.
    pub fn networks(&self) -> Vec<(String, u32)> {
        match &self.load {
            Load::Zoo(group) => group.members.iter().map(|m| (m.address(), m.batch)).collect(),
            Load::TaskSet(_) => Vec::new(),
        }
    }

    /// The same as PyTorch runs them; `None` if it has not all of them.
    pub fn programs(&self) -> Option<Vec<(String, u32)>> {
        match &self.load {
            Load::Zoo(group) => group.programs().ok(),
            Load::TaskSet(_) => None,
        }
    }
}

/// A mix of networks with all that look at pictures at batch 1.
fn at_batch_1(mix: &str) -> String {
    let member = |name: &str| match zoo::find(name).map(|n| n.input) {
        Some(Input::Picture { .. }) => format!("{name}:1"),
        _ => name.to_string(),
    };
    mix.split('+').map(member).collect::<Vec<_>>().join("+")
}

/// True if every network that looks at pictures looks at one.
fn single(group: &Group) -> bool {
    let batch = |m: &Member| match &m.source {
        Source::Zoo(network) if matches!(network.input, Input::Tokens { .. }) => 1,
        _ => m.batch,
    };
    group.members.iter().all(|m| batch(m) == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mixes_stand_at_their_usual_batch_and_at_batch_1() {
        let rows = Row::all(None).unwrap();
        assert_eq!(rows.len(), 11);
        let told = |at: usize| (rows[at].name.as_str(), rows[at].paper, rows[at].over_peer);
        let networks = |at: usize| -> Vec<(String, u32)> { rows[at].networks() };
        let named = |all: [(&str, u32); 3]| all.map(|(name, batch)| (name.to_string(), batch));
        assert_eq!(told(2), ("R50+V16+M3", Some(1.5), Some(1.5)));
        assert_eq!(networks(2), named([("r50", 8), ("v16", 8), ("m3", 8)]));
        assert_eq!(told(6), ("D121+V16+LSTM, batch 1", Some(1.38), Some(2.0)));
        assert_eq!(networks(6), named([("d121", 1), ("v16", 1), ("lstm", 128)]));
        assert_eq!(told(10), ("SSD300+R50+DLV3", None, Some(1.5)));
        assert_eq!(networks(10), named([("ssd", 1), ("r50", 8), ("dlv3", 1)]));
    }

    #[test]
    fn other_mixes_may_be_asked_for_by_their_networks() {
        let row = Row::of("bst:2+lstm:4", None).unwrap();
        assert_eq!((row.name.as_str(), row.paper), ("bst:2+lstm:4", None));
        assert!(matches!(Row::of("urban", None), Err(BenchError::Network { .. })));
    }
}
