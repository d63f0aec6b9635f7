//! What can be done with each operator: the ways to cut it and the launch widths, each with its costs looked up beforehand.

use crate::board::BackendKind;
use crate::plan::format::Operator;
use crate::planner::schedule::{Cut, Problem, splits};
use crate::planner::simulate::{Cost, Costs};
use crate::primitive::Region;
use crate::tensor::Shape;
use std::ops::Range;

/// Launch widths as parts of the board's units, in eighths.
const EIGHTHS: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// Pieces that an axis is cut into; each band of rows is at least [`LEAST_ROWS`] high.
const PIECES: [u32; 3] = [2, 3, 4];
/// Least rows of a band.
const LEAST_ROWS: u32 = 4;

/// The choices of one operator. The first cut is the whole, the first width is 0.
#[derive(Clone, Debug)]
struct Choices {
    cuts: Vec<Vec<Region>>,
    widths: Vec<u16>,
    /// First cost of each cut under each width: cut by cut.
    first: Vec<u32>,
}

/// The choices of all operators.
#[derive(Clone, Debug)]
pub struct Menu {
    operators: Vec<Choices>,
    /// The costs that [`Menu::cost`] names.
    pub costs: Vec<Cost>,
}

impl Menu {
    /// The menu of a problem.
    pub fn of(problem: &Problem<'_>, costs: &Costs<'_>) -> Menu {
        let mut table = Vec::new();
        let units = costs.machine().units;
        let choices = problem.operators.iter().enumerate().map(|(index, operator)| {
            let cuts = cuts(operator);
            let mut widths = vec![0];
            if costs.resizable(index) {
                let most = costs.blocks(index).min(costs.most(index));
                let parts = EIGHTHS.iter().map(|e| (units * e / 8).max(1)).filter(|&w| w < most);
                let workers = 1..units.min(8);
                match costs.machine().backend {
                    BackendKind::Cuda => widths.extend(parts.filter_map(|w| u16::try_from(w).ok())),
                    BackendKind::Cpu => widths.extend(workers.map(|w| w as u16)),
                }
                widths.dedup();
            }
            let mut first = Vec::with_capacity(cuts.len() * widths.len());
            for cut in &cuts {
                for own in costs.widths(index, cut, &widths) {
                    first.push(table.len() as u32);
                    table.extend(own);
                }
            }
            Choices { cuts, widths, first }
        });
        Menu {
            operators: choices.collect(),
            costs: table,
        }
    }

    /// Ways to cut an operator, the whole one included.
    pub fn cuts(&self, operator: usize) -> usize {
        self.operators[operator].cuts.len()
    }

    /// Launch widths of an operator, the full one included.
    pub fn widths(&self, operator: usize) -> &[u16] {
        &self.operators[operator].widths
    }

    /// Chunks of an operator under a cut.
    pub fn chunks(&self, operator: usize, cut: u8) -> u32 {
        self.operators[operator].cuts[usize::from(cut)].len() as u32
    }

    /// The cost of the first of an operator's chunks; those of the others follow.
    pub fn cost(&self, operator: usize, cut: u8, width: u8) -> u32 {
        let own = &self.operators[operator];
        own.first[usize::from(cut) * own.widths.len() + usize::from(width)]
    }

    /// The choice as a decision.
    pub fn decision(&self, operator: usize, cut: u8, width: u8) -> Cut {
        let own = &self.operators[operator];
        Cut {
            chunks: own.cuts[usize::from(cut)].clone(),
            width: own.widths[usize::from(width)],
        }
    }
}

/// The ways to cut an operator: whole, in equal pieces of the batch, in a large and a small share of it, in bands of rows.
fn cuts(operator: &Operator) -> Vec<Vec<Region>> {
    let shape = operator.outputs.first().map_or(Shape::SCALAR, |v| v.layout.shape);
    let whole = Region::whole(shape);
    let mut cuts = vec![vec![whole.clone()]];
    if operator.outputs.is_empty() || whole.is_empty() {
        return cuts;
    }
    let splits = splits(operator);
    let (batch, rows) = (shape.batch(), shape.rows());
    if splits.batch {
        let by = |bounds: Vec<Range<u32>>| {
            let region = |batch| Region {
                batch,
                rows: whole.rows.clone(),
            };
            bounds.into_iter().map(region).collect()
        };
        cuts.extend(PIECES.iter().filter(|&&p| p <= batch).map(|&p| by(equal(batch, p))));
        if batch >= 4 {
            let large = batch - batch / 4;
            cuts.push(by(vec![0..large, large..batch]));
        }
    }
    if splits.rows {
        let by = |bounds: Vec<Range<u32>>| {
            let region = |rows| Region {
                batch: whole.batch.clone(),
                rows,
            };
            bounds.into_iter().map(region).collect()
        };
        cuts.extend(
            PIECES
                .iter()
                .filter(|&&p| rows >= p * LEAST_ROWS && batch == 1)
                .map(|&p| by(equal(rows, p))),
        );
    }
    cuts
}

/// `0..extent` in about equal pieces; `pieces` is at most `extent`.
fn equal(extent: u32, pieces: u32) -> Vec<Range<u32>> {
    let bound = |i: u32| (u64::from(extent) * u64::from(i) / u64::from(pieces)) as u32;
    (0..pieces).map(|i| bound(i)..bound(i + 1)).collect()
}
