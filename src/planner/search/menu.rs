//! What can be done with each operator: the ways to cut it, its tactics and launch widths, each with its costs looked up beforehand.

use crate::board::{BackendKind, Division};
use crate::plan::format::{Operator, Tactic};
use crate::planner::schedule::{Cut, Problem, splits};
use crate::planner::simulate::{Cost, Costs};
use crate::primitive::Region;
use crate::tensor::Shape;
use std::ops::Range;

/// Launch widths as parts of the board's units, in sixteenths.
const SIXTEENTHS: [u32; 10] = [1, 2, 3, 4, 6, 8, 10, 12, 14, 16];
/// Pieces that an axis is cut into; each band of rows is at least [`LEAST_ROWS`] high.
const PIECES: [u32; 3] = [2, 3, 4];
/// Least rows of a band.
const LEAST_ROWS: u32 = 4;

/// The choices of one operator. The first cut is the whole; the first way is its own tactic at full width.
#[derive(Clone, Debug)]
struct Choices {
    cuts: Vec<Vec<Region>>,
    /// Tactics with launch widths; its own tactic's come first.
    ways: Vec<(Tactic, u16)>,
    /// How many are its own tactic's.
    own: usize,
    /// First cost of each cut in each way: cut by cut.
    first: Vec<u32>,
    /// For each of [`Menu::sizes`] how it is best run there at full width, where that is known: ways behind the others.
    confined: Vec<Option<Confined>>,
}

/// How an operator is run on a stream that has some units for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Confined {
    tactic: Tactic,
    /// The cost of the operator in one piece.
    cost: u32,
    /// The way whose costs stand for it where the operator is cut.
    cut: u16,
}

/// The choices of all operators.
#[derive(Clone, Debug)]
pub struct Menu {
    operators: Vec<Choices>,
    /// The costs that [`Menu::cost`] names.
    pub costs: Vec<Cost>,
    /// The numbers of units that a stream may have for itself.
    sizes: Vec<u32>,
}

impl Menu {
    /// The menu of a problem.
    pub fn of(problem: &Problem<'_>, costs: &Costs<'_>) -> Menu {
        let mut table = Vec::new();
        let sizes = problem.division.sizes();
        let choices = problem.operators.iter().enumerate().map(|(index, operator)| {
            let cuts = cuts(operator);
            let widths = |tactic| (tactic, widths(index, tactic, costs, problem.division));
            let tactics: Vec<(Tactic, Vec<u16>)> = costs.tactics(index).map(widths).collect();
            let mut first = Vec::new();
            for cut in &cuts {
                for (tactic, widths) in &tactics {
                    for own in costs.widths(index, cut, *tactic, widths) {
                        first.push(table.len() as u32);
                        table.extend(own);
                    }
                }
            }
            let ways: Vec<(Tactic, u16)> = tactics.iter().flat_map(|(t, widths)| widths.iter().map(|&w| (*t, w))).collect();
            let confined = sizes.iter().map(|&units| {
                let tactic = costs.confined(index, units)?;
                let cost = *costs.apart(index, &cuts[0], tactic, units)?.first()?;
                table.push(cost);
                let cut = ways.iter().position(|way| *way == (tactic, 0)).unwrap_or(0) as u16;
                let cost = table.len() as u32 - 1;
                Some(Confined { tactic, cost, cut })
            });
            Choices {
                own: tactics.first().map_or(0, |(_, widths)| widths.len()),
                first,
                confined: confined.collect(),
                cuts,
                ways,
            }
        });
        Menu {
            operators: choices.collect(),
            costs: table,
            sizes,
        }
    }

    /// Ways to cut an operator, the whole one included.
    pub fn cuts(&self, operator: usize) -> usize {
        self.operators[operator].cuts.len()
    }

    /// Ways to run an operator on any stream: tactics with launch widths. The first is its own tactic at full width.
    pub fn ways(&self, operator: usize) -> usize {
        self.operators[operator].ways.len()
    }

    /// The first of them, which are its own tactic at its launch widths.
    pub fn widths(&self, operator: usize) -> usize {
        self.operators[operator].own
    }

    /// The tactic of a way.
    pub fn tactic(&self, operator: usize, way: u16) -> Tactic {
        self.operators[operator].way(way).0
    }

    /// The way that is an operator's tactic `number` at full width, its own tactic being the first; `None` if it has no so many.
    pub fn at_full_width(&self, operator: usize, number: usize) -> Option<u16> {
        let ways = self.operators[operator].ways.iter().enumerate();
        let way = ways.filter(|(_, (_, width))| *width == 0).nth(number)?.0;
        u16::try_from(way).ok()
    }

    /// True if two operators can be done in the same ways, and cost the same in each.
    pub fn alike(&self, one: usize, other: usize) -> bool {
        let costs = |own: &Choices| {
            let first = own.first.first().map_or(0, |&f| f as usize);
            let launches = own.cuts.iter().map(|cut| cut.len() * own.ways.len()).sum::<usize>();
            &self.costs[first..first + launches]
        };
        let (one, other) = (&self.operators[one], &self.operators[other]);
        (&one.ways, &one.cuts) == (&other.ways, &other.cuts) && costs(one) == costs(other)
    }

    /// The way that takes an operator in one piece least time on so many units, its own tactic first among equals; where none finds room
    /// there, the one with the fewest blocks.
    pub fn within(&self, operator: usize, units: u32) -> u16 {
        let own = &self.operators[operator];
        let price = |&way: &usize| {
            let cost = &self.costs[own.first[way] as usize];
            let held = cost.abreast();
            (if held <= units { 0 } else { held }, cost.alone())
        };
        self.cheapest(operator, price)
    }

    /// The way to run an operator on so many units that nobody else has: how it is best run there where that is known, else the way that takes
    /// it in one piece least time, its own tactic first among equals.
    pub fn apart(&self, operator: usize, units: u32) -> u16 {
        let own = &self.operators[operator];
        let size = self.sizes.iter().position(|&size| size == units);
        match size.filter(|&size| own.confined[size].is_some()) {
            Some(size) => (own.ways.len() + size) as u16,
            None => self.cheapest(operator, |&way: &usize| self.costs[own.first[way] as usize].alone_on(units)),
        }
    }

    /// The first of an operator's ways that has the least price.
    fn cheapest<P: Ord>(&self, operator: usize, price: impl FnMut(&usize) -> P) -> u16 {
        let ways = 0..self.operators[operator].ways.len().min(usize::from(u16::MAX));
        ways.min_by_key(price).unwrap_or(0) as u16
    }

    /// Chunks of an operator under a cut.
    pub fn chunks(&self, operator: usize, cut: u8) -> u32 {
        self.operators[operator].cuts[usize::from(cut)].len() as u32
    }

    /// The cost of the first of an operator's chunks; those of the others follow.
    pub fn cost(&self, operator: usize, cut: u8, way: u16) -> u32 {
        let own = &self.operators[operator];
        let way = match own.confined(way) {
            Some(confined) if cut == 0 => return confined.cost,
            Some(confined) => confined.cut,
            None => way,
        };
        own.first[usize::from(cut) * own.ways.len() + usize::from(way)]
    }

    /// The choice as a decision.
    pub fn decision(&self, operator: usize, cut: u8, way: u16) -> Cut {
        let own = &self.operators[operator];
        let (tactic, width) = own.way(way);
        Cut {
            chunks: own.cuts[usize::from(cut)].clone(),
            tactic,
            width,
        }
    }
}

impl Choices {
    /// The tactic and the launch width of a way.
    fn way(&self, way: u16) -> (Tactic, u16) {
        match self.confined(way) {
            Some(confined) => (confined.tactic, 0),
            None => self.ways[usize::from(way)],
        }
    }

    /// What a way behind the others is.
    fn confined(&self, way: u16) -> Option<Confined> {
        *self.confined.get(usize::from(way).checked_sub(self.ways.len())?)?
    }
}

/// Launch widths that are worth a look: all, then parts of the board's units, or some of a few workers.
fn widths(operator: usize, tactic: Tactic, costs: &Costs<'_>, division: Division) -> Vec<u16> {
    let mut widths = vec![0];
    if costs.resizable(operator, tactic) {
        let (units, most, step) = (costs.machine().units, costs.abreast(operator, tactic), costs.step(operator, tactic));
        let parts = parts(units, most, division);
        let parts = parts.iter().map(|part| part / step * step).filter(|&w| w > 0 && w < most);
        match costs.machine().backend {
            BackendKind::Cuda => widths.extend(parts.filter_map(|w| u16::try_from(w).ok())),
            BackendKind::Cpu => widths.extend((1..units.min(8)).map(|w| w as u16)),
        }
        widths.dedup();
    }
    widths
}

/// Parts of the units, in blocks, ascending; of a divided board those that streams are confined to, where a unit holds several of an
/// operator's `most` blocks as many for each besides.
fn parts(units: u32, most: u32, division: Division) -> Vec<u32> {
    let mut parts: Vec<u32> = SIXTEENTHS.iter().map(|e| (units * e / 16).max(1)).collect();
    if division.parcel > 0 {
        // Whole parcels, and what these leave of the board.
        let whole = |part: &u32| part / division.parcel * division.parcel;
        parts = parts.iter().map(whole).flat_map(|own| [own, units.saturating_sub(own)]).collect();
        parts.retain(|&own| own >= division.parcel);
        let each = most / units.max(1);
        if each > 1 {
            parts.extend_from_within(..);
            let own = parts.len() / 2;
            parts[own..].iter_mut().for_each(|part| *part *= each);
        }
    }
    parts.sort_unstable();
    parts.dedup();
    parts
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_of_divided_boards_are_what_streams_may_have() {
        let whole = Division { units: 132, parcel: 8 };
        let one_each = parts(132, 132, whole);
        assert_eq!(
            one_each,
            [8, 16, 20, 24, 32, 36, 48, 52, 64, 68, 80, 84, 96, 100, 108, 112, 116, 124, 128]
        );
        let three_each = parts(132, 396, whole);
        assert!(
            one_each
                .iter()
                .all(|part| three_each.contains(part) && three_each.contains(&(3 * part)))
        );
        assert!(
            three_each
                .iter()
                .all(|part| one_each.contains(part) || one_each.contains(&(part / 3)) && part % 3 == 0)
        );
        assert_eq!(parts(16, 32, Division::default()), [1, 2, 3, 4, 6, 8, 10, 12, 14, 16]);
    }
}
