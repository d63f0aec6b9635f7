//! What a launch costs: the figures that the simulator runs on, one set for each operator, chunk and launch width.
//!
//! They come from the operator's time alone on the board (the lookup table's, else the estimate), which is spread over the
//! waves in which its blocks run. The time of a chunk or of another width follows from the same blocks, unless it was
//! measured itself.

use super::footprint::{Footprint, shape};
use super::machine::{GRAIN, Machine, WHOLE};
use super::room::Room;
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
    /// From the end of what comes before to the first block's work, in nanoseconds.
    pub launch: u64,
    /// Its blocks, longest first.
    pub groups: [Group; 2],
    /// Blocks that the whole board holds at once.
    pub most: u32,
    /// Units of the board.
    pub units: u32,
    /// Parts of a unit that a block holds.
    pub room: Room,
    /// Demand of a block on the board's bandwidth, of `WHOLE`.
    pub demand: u32,
    /// How far its time follows its share of it, of `ONE`: all of it where that is what bounds it.
    pub bound: u32,
    /// Demand of a block on its unit's throughput, of `ONE`.
    pub using: u32,
}

impl Cost {
    /// Its time alone on the board, in nanoseconds: what the simulator gives for it.
    pub fn alone(&self) -> u64 {
        let [long, short] = self.groups;
        let most = u64::from(self.most.max(1));
        let blocks = u64::from(long.blocks + short.blocks);
        let waves = blocks.div_ceil(most);
        // Blocks that want more of a unit together than it has slow each other down.
        let each = blocks.min(most).div_ceil(u64::from(self.units.max(1)));
        let wanted = (each * u64::from(self.using)).max(ONE);
        self.launch
            .saturating_add((waves.saturating_mul(long.time)).saturating_mul(wanted) / ONE)
    }

    /// Unit time that its blocks hold together of either kind of room, in parts of a unit and nanoseconds.
    pub fn held(&self) -> [u128; 2] {
        let all = self.groups.iter().map(|g| u128::from(g.blocks) * u128::from(g.time)).sum::<u128>();
        self.room.map(|part| all * u128::from(part))
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
    /// A tile.
    tile: u64,
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
        Costs::on(Machine::of(board), operators, board, measured)
    }

    /// The same on a machine that is not quite the board's.
    pub fn on(machine: Machine, operators: &'a [Operator], board: &BoardRecord, measured: Measured<'a>) -> Costs<'a> {
        let mut basis = Basis::Measured;
        let known = operators.iter().map(|operator| {
            let uncut = Operator {
                chunks: Vec::new(),
                ..operator.clone()
            };
            let time = measured(&uncut)
                .map(|t| t.0.saturating_add(machine.calibration.chain))
                .unwrap_or_else(|| {
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
                    time.0.saturating_add(self.machine.calibration.chain),
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
        known.blocks.min(known.abreast(&self.machine))
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
        let tiles: Vec<u32> = chunks.iter().map(|c| known.footprint.tiles(own, c)).collect();
        let tile = self.tile(operator, known, chunks, &tiles);
        let area = |r: &Region| r.batch.len() as u64 * r.rows.len() as u64;
        let whole = area(&Region::whole(shape(own))).max(1);
        let under = |&width: &u16| {
            let share = |(chunk, &tiles): (&Region, &u32)| known.cost(area(chunk), whole, tiles, tile, width, &self.machine);
            chunks.iter().zip(&tiles).map(share).collect()
        };
        widths.iter().map(under).collect()
    }

    /// How long a tile takes: what makes the chunks take as long together as was measured, else as in one piece.
    fn tile(&self, operator: usize, known: &Known, chunks: &[Region], tiles: &[u32]) -> u64 {
        if chunks.len() <= 1 {
            return known.tile;
        }
        let cut = Operator {
            tactic: known.tactic,
            chunks: chunks.to_vec(),
            ..self.operators[operator].clone()
        };
        let Some(time) = (self.measured)(&cut) else {
            return known.tile;
        };
        let rounds: u64 = tiles.iter().map(|&t| known.rounds(t, &self.machine)).sum();
        let launches = known.launch.saturating_sub(self.machine.calibration.chain) * chunks.len() as u64;
        (time.0.saturating_sub(launches) / rounds.max(1)).max(1)
    }
}

impl Known {
    fn of(operator: &Operator, footprint: Footprint, time: u64, machine: &Machine) -> Known {
        let (macs, bytes) = work(operator);
        let tiles = footprint.tiles(operator, &Region::whole(shape(operator)));
        let mut known = Known {
            tactic: operator.tactic,
            footprint,
            blocks: tiles.min(footprint.most),
            launch: (machine.issue + machine.calibration.chain).min(time / 2),
            tile: 1,
            rest: 0,
            bytes,
            macs,
        };
        // Blocks of its own kind are beside each tile.
        let each = u64::from(known.blocks.min(known.abreast(machine)).div_ceil(machine.units));
        let wanted = (each * known.using(machine)).max(ONE);
        let (all, rounds) = ((time - known.launch) * ONE / wanted, known.rounds(tiles, machine));
        known.tile = (all / rounds).max(1);
        known.rest = all.saturating_sub(known.tile * rounds);
        known
    }

    /// Blocks that the whole board holds at once.
    fn abreast(&self, machine: &Machine) -> u32 {
        let each = self.footprint.room.iter().map(|&part| GRAIN / part.max(1)).min();
        machine.units.saturating_mul(each.unwrap_or(1).max(1)).max(1)
    }

    /// Part of a unit's throughput that a block wants at least, of [`ONE`]: as many as fit want all of it, more or less.
    fn using(&self, machine: &Machine) -> u64 {
        machine.calibration.share * u64::from(machine.units) / u64::from(self.abreast(machine))
    }

    /// Tiles one after another where so many are shared out at full width, at least 1.
    fn rounds(&self, tiles: u32, machine: &Machine) -> u64 {
        let blocks = tiles.min(self.footprint.most).max(1);
        u64::from(tiles.div_ceil(blocks)) * u64::from(blocks.div_ceil(self.abreast(machine)))
    }

    /// The cost of `tiles` tiles that are `part` of `whole` of the operator, each of which takes `tile` nanoseconds.
    fn cost(&self, part: u64, whole: u64, tiles: u32, tile: u64, width: u16, machine: &Machine) -> Cost {
        let most = self.abreast(machine);
        let full = tiles.min(self.footprint.most).max(1);
        let blocks = match width {
            1.. if self.footprint.resizable => full.min(u32::from(width)),
            _ => full,
        };
        // What the operator uses of bandwidth and arithmetic alone and at full width.
        let abreast = full.min(most);
        let time = self.rounds(tiles, machine).saturating_mul(tile);
        let used = |amount: u64, rate: u64| {
            let could = u128::from(rate).saturating_mul(u128::from(time));
            let moved = (u128::from(amount) * u128::from(part) / u128::from(whole.max(1))) * u128::from(machine.scale);
            (moved * u128::from(ONE) / could.max(1)).min(u128::from(ONE)) as u64
        };
        let units = u64::from(abreast.min(machine.units)).max(1);
        let moving = used(self.bytes, machine.shared_bytes());
        // Arithmetic is that of the units that it runs on.
        let computing = (used(self.macs, machine.macs) * u64::from(machine.units) / units).min(ONE);
        // Blocks that leave room for others of their kind leave them throughput, too.
        let using = (computing * units / u64::from(abreast.max(1))).max(self.using(machine));
        let (rounds, more) = (u64::from(tiles / blocks), tiles % blocks);
        let group = |blocks, rounds: u64| Group {
            blocks,
            time: rounds.saturating_mul(tile).max(1),
        };
        Cost {
            launch: self.launch + self.rest * part / whole.max(1),
            groups: match more {
                0 => [group(blocks, rounds), Group::default()],
                more => [group(more, rounds + 1), group(blocks - more, rounds)],
            },
            most,
            units: machine.units,
            room: self.footprint.room,
            demand: (WHOLE * moving / ONE / u64::from(abreast.max(1))) as u32,
            bound: (moving * 100 / BOUND).min(ONE) as u32,
            using: using as u32,
        }
    }
}
