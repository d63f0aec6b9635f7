//! What a launch costs: the figures that the simulator runs on, one set for each operator, chunk and launch width.
//!
//! They come from the operator's time alone on the board (the lookup table's, else the estimate), which is spread over the
//! waves in which its blocks run. The time of a chunk or of another width follows from the same blocks, unless it was
//! measured itself.

use super::footprint::{Footprint, shape};
use super::machine::{Machine, WHOLE};
use crate::board::BoardRecord;
use crate::plan::format::{Basis, Operator, Tactic};
use crate::planner::cost::{estimate, work};
use crate::primitive::Region;
use crate::units::Nanos;

/// Fractions in the costs are in parts of this: 10 binary digits.
pub const ONE: u64 = 1 << 10;
/// Share of the best rates from which on a kernel counts as bound by them, in percent.
const BOUND: u64 = 80;

/// Blocks that start together and take equally long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// How many.
    pub blocks: u32,
    /// How long each takes, undisturbed, in nanoseconds.
    pub time: u64,
}

/// What a launch costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// From the end of what comes before to the first block, in nanoseconds.
    pub launch: u64,
    /// Its blocks, longest first.
    pub groups: [Group; 2],
    /// Blocks that the whole board holds at once.
    pub most: u32,
    /// Part of a unit that a block holds: of [`super::machine::GRAIN`].
    pub hold: u32,
    /// Demand of a block on the board's bandwidth and arithmetic, of `WHOLE`.
    pub demand: [u32; 2],
    /// How far its time follows its share of either, of `ONE`: all of it where that is what bounds it.
    pub bound: [u32; 2],
}

impl Cost {
    /// Its time alone on the board, in nanoseconds: what the simulator gives for it.
    pub fn alone(&self) -> u64 {
        let [long, short] = self.groups;
        let most = u64::from(self.most.max(1));
        // Groups of two sizes fit the board at once, as launch widths are clamped to it.
        let waves = match short.blocks {
            0 => u64::from(long.blocks).div_ceil(most),
            _ => 1,
        };
        self.launch.saturating_add(waves.saturating_mul(long.time))
    }

    /// Unit time that its blocks hold together, in parts of a unit and nanoseconds.
    pub fn held(&self) -> u128 {
        let all = |g: &Group| u128::from(g.blocks) * u128::from(g.time);
        self.groups.iter().map(all).sum::<u128>() * u128::from(self.hold)
    }
}

/// One operator under one tactic, ready to be cut and resized.
#[derive(Clone, Copy, Debug)]
struct Known {
    tactic: Tactic,
    footprint: Footprint,
    /// Its blocks in one piece.
    blocks: u32,
    launch: u64,
    /// A wave of blocks at full width.
    wave: u64,
    /// Rounding of the waves, added to the launch.
    rest: u64,
    bytes: u64,
    macs: u64,
}

/// Measured times: of the operator as it is cut, nothing else.
pub type Measured<'a> = &'a dyn Fn(&Operator) -> Option<Nanos>;

/// The costs of a problem's operators on a board.
pub struct Costs<'a> {
    machine: Machine,
    operators: &'a [Operator],
    /// For each operator its own tactic, and others that may run it.
    known: Vec<Vec<Known>>,
    measured: Measured<'a>,
    /// Where the operators' times come from: measured if all are.
    pub basis: Basis,
}

impl<'a> Costs<'a> {
    /// Costs from measured times where there are any, else from estimates.
    pub fn of(operators: &'a [Operator], board: &BoardRecord, measured: Measured<'a>) -> Costs<'a> {
        let machine = Machine::of(board);
        let mut basis = Basis::Measured;
        let known = operators.iter().map(|operator| {
            let uncut = Operator {
                chunks: Vec::new(),
                ..operator.clone()
            };
            let time = measured(&uncut).map(|t| t.0.saturating_add(machine.chain)).unwrap_or_else(|| {
                basis = Basis::Estimated;
                estimate(operator, board).0
            });
            vec![Known::of(operator, Footprint::of(operator, board), time, &machine)]
        });
        let known = known.collect();
        Costs {
            machine,
            operators,
            known,
            measured,
            basis,
        }
    }

    /// Adds tactics that an operator may also run with, in its arithmetic class; those without a measured time are left out.
    pub fn offer(&mut self, operator: usize, board: &BoardRecord, tactics: &[Tactic]) {
        for &tactic in tactics {
            let other = Operator {
                tactic,
                chunks: Vec::new(),
                ..self.operators[operator].clone()
            };
            if let Some(time) = (self.measured)(&other) {
                let known = Known::of(
                    &other,
                    Footprint::of(&other, board),
                    time.0.saturating_add(self.machine.chain),
                    &self.machine,
                );
                self.known[operator].push(known);
            }
        }
    }

    /// The board.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The tactics of an operator, its own first.
    pub fn tactics(&self, operator: usize) -> impl Iterator<Item = Tactic> {
        self.known[operator].iter().map(|k| k.tactic)
    }

    /// Whether a launch width changes how an operator runs under one of its tactics.
    pub fn resizable(&self, operator: usize, tactic: Tactic) -> bool {
        self.under(operator, tactic).footprint.resizable
    }

    /// Blocks of an operator in one piece that the whole board holds at once.
    pub fn abreast(&self, operator: usize, tactic: Tactic) -> u32 {
        let known = self.under(operator, tactic);
        known.blocks.min(known.most(&self.machine))
    }

    /// An operator under one of its tactics; under its own for any other.
    fn under(&self, operator: usize, tactic: Tactic) -> &Known {
        let all = &self.known[operator];
        all.iter().find(|k| k.tactic == tactic).unwrap_or(&all[0])
    }

    /// The costs of an operator's chunks under a tactic and a launch width, 0 for all blocks.
    pub fn chunks(&self, operator: usize, chunks: &[Region], tactic: Tactic, width: u16) -> Vec<Cost> {
        self.widths(operator, chunks, tactic, &[width]).pop().unwrap_or_default()
    }

    /// The costs of an operator's chunks under a tactic, once for each of some launch widths.
    pub fn widths(&self, operator: usize, chunks: &[Region], tactic: Tactic, widths: &[u16]) -> Vec<Vec<Cost>> {
        let (known, own) = (self.under(operator, tactic), &self.operators[operator]);
        let blocks: Vec<u32> = chunks.iter().map(|c| known.footprint.blocks(own, c)).collect();
        let wave = self.wave(operator, known, chunks, &blocks);
        let area = |r: &Region| r.batch.len() as u64 * r.rows.len() as u64;
        let whole = area(&Region::whole(shape(own))).max(1);
        let under = |&width: &u16| {
            let share = |(chunk, &blocks): (&Region, &u32)| known.cost(area(chunk), whole, blocks, wave, width, &self.machine);
            chunks.iter().zip(&blocks).map(share).collect()
        };
        widths.iter().map(under).collect()
    }

    /// How long a wave of blocks takes: what makes the chunks take as long together as was measured, else as in one piece.
    fn wave(&self, operator: usize, known: &Known, chunks: &[Region], blocks: &[u32]) -> u64 {
        if chunks.len() <= 1 {
            return known.wave;
        }
        let cut = Operator {
            tactic: known.tactic,
            chunks: chunks.to_vec(),
            ..self.operators[operator].clone()
        };
        let Some(time) = (self.measured)(&cut) else {
            return known.wave;
        };
        let waves: u64 = blocks.iter().map(|b| u64::from(b.div_ceil(known.most(&self.machine)))).sum();
        let launches = known.launch.saturating_sub(self.machine.chain) * chunks.len() as u64;
        (time.0.saturating_sub(launches) / waves.max(1)).max(1)
    }
}

impl Known {
    fn of(operator: &Operator, footprint: Footprint, time: u64, machine: &Machine) -> Known {
        let (macs, bytes) = work(operator);
        let blocks = footprint.blocks(operator, &Region::whole(shape(operator)));
        let launch = (machine.issue + machine.chain).min(time / 2);
        let waves = u64::from(blocks.div_ceil(machine.units.saturating_mul(footprint.residents).max(1)));
        let wave = ((time - launch) / waves).max(1);
        Known {
            tactic: operator.tactic,
            footprint,
            blocks,
            launch,
            wave,
            rest: (time - launch).saturating_sub(wave * waves),
            bytes,
            macs,
        }
    }

    fn most(&self, machine: &Machine) -> u32 {
        machine.units.saturating_mul(self.footprint.residents).max(1)
    }

    /// The cost of `blocks` blocks that are `part` of `whole` of the operator.
    fn cost(&self, part: u64, whole: u64, blocks: u32, wave: u64, width: u16, machine: &Machine) -> Cost {
        let most = self.most(machine);
        // How many run side by side, and how long each takes, at full width.
        let abreast = blocks.min(most);
        let waves = u64::from(blocks.div_ceil(most));
        let parts = |amount: u64, rate: u64| {
            // Amount moved in the blocks' time, over what the units that they have could move in it.
            let units = u64::from(abreast.min(machine.units));
            let rate = u128::from(rate) * u128::from(units) / u128::from(machine.units.max(1));
            let could = rate.saturating_mul(u128::from(waves.saturating_mul(wave)));
            let moved = (u128::from(amount) * u128::from(part) / u128::from(whole.max(1))) * u128::from(machine.scale);
            (moved * u128::from(ONE) / could.max(1)).min(u128::from(ONE)) as u64
        };
        let used = [parts(self.bytes, machine.bytes), parts(self.macs, machine.macs)];
        // Blocks that have a unit to themselves leave little of it to others, whatever they use it for.
        let wanted = [used[0], used[1].max(machine.share)];
        let demand = wanted.map(|u| {
            let all = WHOLE * u64::from(abreast.min(machine.units)) / u64::from(machine.units.max(1));
            (all * u / ONE / u64::from(abreast.max(1))) as u32
        });
        let bound = [(used[0] * 100 / BOUND).min(ONE) as u32, ONE as u32];
        let groups = match width {
            1.. if self.footprint.resizable && u32::from(width) < blocks => {
                let held = u32::from(width).min(most);
                let (rounds, more) = (u64::from(blocks / held), blocks % held);
                let group = |blocks, rounds: u64| Group {
                    blocks,
                    time: rounds.saturating_mul(wave).max(1),
                };
                match more {
                    0 => [group(held, rounds), Group::default()],
                    more => [group(more, rounds + 1), group(held - more, rounds)],
                }
            }
            _ => [Group { blocks, time: wave }, Group::default()],
        };
        Cost {
            launch: self.launch + self.rest * part / whole.max(1),
            groups,
            most,
            hold: machine.hold(self.footprint.residents),
            demand,
            bound,
        }
    }
}
