//! What a launch costs: the figures that the simulator runs on, one set for each operator, chunk and launch width.
//!
//! They come from the operator's time alone on the board (the lookup table's, else that of the tactic's pace, else the estimate),
//! which is spread over the
//! waves in which its blocks run. The time of a chunk or of another width follows from the same blocks, unless it was
//! measured itself.

use super::extents::shape;
use super::footprint::Footprint;
use super::machine::{GRAIN, Machine, WHOLE};
use super::paces::Paces;
use super::room::Room;
use crate::board::BoardRecord;
use crate::ids::BufferId;
use crate::plan::format::{Basis, Operator, Tactic};
use crate::planner::cost::{estimate, unwritten, work};
use crate::primitive::Region;
use crate::units::Nanos;
use std::collections::BTreeSet;

/// Fractions in the costs are in parts of this: 10 binary digits.
pub const ONE: u64 = 1 << 10;
/// Share of the best rates from which on a kernel counts as bound by them, in percent.
const BOUND: u64 = 80;

/// Most that a block takes besides its tiles, in percent of what it takes with those that it has at full width: measured on an
/// H200, short kernels at an eighth of its units take nearly as many times as long as they have tiles.
const AHEAD: u64 = 20;

/// Bytes a nanosecond that a block loads its weights with before its first tile, and the most of its time that this takes, in
/// percent: layers of DenseNet-121 of 49 pixels a sample, on an H200 and under 16 of its SMs.
const LOADING: u64 = 17;
const LOADED: u64 = 85;

/// How much longer tiles take where a launch width has no room for the weights that a kernel keeps: measured under 16 SMs, where
/// ResNet-101's take 1.8 to 2.1 times as long.
const UNKEPT: u64 = 2;

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
    /// Blocks that find room together or not at all.
    pub cluster: u32,
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
        self.alone_on(self.units)
    }

    /// Its time alone on some of the board's units, at least 1.
    pub fn alone_on(&self, units: u32) -> u64 {
        let [long, short] = self.groups;
        let board = u64::from(self.units.max(1));
        let units = u64::from(units.max(1)).min(board);
        let most = (u64::from(self.most) * units / board).max(1);
        let blocks = u64::from(long.blocks + short.blocks);
        let waves = blocks.div_ceil(most);
        // Blocks that want more of a unit together than it has slow each other down.
        let each = blocks.min(most).div_ceil(units);
        let wanted = (each * u64::from(self.using)).max(ONE);
        self.launch
            .saturating_add((waves.saturating_mul(long.time)).saturating_mul(wanted) / ONE)
    }

    /// Its blocks that lie on the board at once, if nothing else does.
    pub fn abreast(&self) -> u32 {
        let [long, short] = self.groups;
        (long.blocks + short.blocks).min(self.most)
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
    /// What a block takes besides its tiles.
    block: u64,
    /// A tile.
    tile: u64,
    /// Rounding of the waves, and what fetching weights takes: added to the launch.
    rest: u64,
    bytes: u64,
    /// What a block wants of its unit's throughput, of [`ONE`].
    using: u64,
}

/// Where an operator's time comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The board's operator table.
    Measured,
    /// The pace of its tactic on other operators.
    Paced,
    /// The board's rates.
    Estimated,
}

/// Measured times: of the operator as it is cut, nothing else.
pub type Measured<'a> = &'a dyn Fn(&Operator) -> Option<Nanos>;

/// The costs of a problem's operators on a board.
pub struct Costs<'a> {
    machine: Machine,
    board: BoardRecord,
    operators: &'a [Operator],
    /// What each takes longer in a frame for its weights, beside a measured time, in nanoseconds.
    cold: Vec<u64>,
    /// For each operator its own tactic, and others that may run it.
    known: Vec<Vec<Known>>,
    measured: Measured<'a>,
    /// For each operator where its time comes from.
    sources: Vec<Source>,
    /// For some numbers of units the tactic of each operator on a stream that has so many for itself.
    confined: Vec<(u32, Vec<Tactic>)>,
}

impl<'a> Costs<'a> {
    /// Costs from measured times where there are any, else from the tactics' paces, else from estimates.
    pub fn of(operators: &'a [Operator], board: &BoardRecord, measured: Measured<'a>) -> Costs<'a> {
        Costs::on(Machine::of(board), operators, board, measured)
    }

    /// The same on a machine that is not quite the board's.
    pub fn on(machine: Machine, operators: &'a [Operator], board: &BoardRecord, measured: Measured<'a>) -> Costs<'a> {
        let cold = cold(operators, &machine);
        let mut sources = vec![Source::Estimated; operators.len()];
        let known = operators.iter().zip(&cold).zip(&mut sources).map(|((operator, &cold), source)| {
            let uncut = Operator {
                chunks: Vec::new(),
                ..operator.clone()
            };
            let footprint = Footprint::of(operator, board);
            let paced = || Some((Paces::of(board)?.time(&uncut, board)?, Source::Paced));
            let timed = measured(&uncut).map(|time| (time, Source::Measured)).or_else(paced);
            vec![match timed {
                Some((time, from)) => {
                    *source = from;
                    Known::measured(operator, footprint, time, cold, &machine)
                }
                None => Known::of(operator, footprint, estimate(operator, board).0, &machine),
            }]
        });
        let known = known.collect();
        Costs {
            machine,
            board: board.clone(),
            operators,
            cold,
            known,
            measured,
            sources,
            confined: Vec::new(),
        }
    }

    /// Adds tactics that an operator may also run with, in its arithmetic class; those are left out whose time comes from elsewhere
    /// than that of its own, measured or by pace: only what is known alike is told apart.
    pub fn offer(&mut self, operator: usize, board: &BoardRecord, tactics: &[Tactic]) {
        for &tactic in tactics {
            let other = Operator {
                tactic,
                chunks: Vec::new(),
                ..self.operators[operator].clone()
            };
            let time = match self.sources[operator] {
                Source::Paced => Paces::of(board).and_then(|p| p.time(&other, board)),
                _ => (self.measured)(&other),
            };
            if let Some(time) = time {
                let footprint = Footprint::of(&other, board);
                let known = Known::measured(&other, footprint, time, self.cold[operator], &self.machine);
                self.known[operator].push(known);
            }
        }
    }

    /// The board.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Where the operators' times come from: measured if all are.
    pub fn basis(&self) -> Basis {
        match self.sources.iter().all(|s| *s == Source::Measured) {
            true => Basis::Measured,
            false => Basis::Estimated,
        }
    }

    /// How many operators have their times from there.
    pub fn from(&self, source: Source) -> usize {
        self.sources.iter().filter(|s| **s == source).count()
    }

    /// The tactics of an operator, its own first.
    pub fn tactics(&self, operator: usize) -> impl Iterator<Item = Tactic> {
        self.known[operator].iter().map(|k| k.tactic)
    }

    /// Whether a launch width changes how an operator runs under one of its tactics.
    pub fn resizable(&self, operator: usize, tactic: Tactic) -> bool {
        self.under(operator, tactic).footprint.resizable
    }

    /// Launch widths are multiples of this under one of an operator's tactics.
    pub fn step(&self, operator: usize, tactic: Tactic) -> u32 {
        self.under(operator, tactic).footprint.step
    }

    /// Blocks of an operator in one piece that the whole board holds at once.
    pub fn abreast(&self, operator: usize, tactic: Tactic) -> u32 {
        let known = self.under(operator, tactic);
        known.blocks.min(known.abreast(&self.machine))
    }

    /// The tactic that takes an operator in one piece least time with so many blocks at most, of those that it may run with; `None` where
    /// all have more.
    pub fn narrow(&self, operator: usize, width: u16) -> Option<Tactic> {
        let whole = [Region::whole(shape(&self.operators[operator]))];
        let timed = self.known[operator].iter().filter_map(|known| {
            let cost = *self.chunks(operator, &whole, known.tactic, width).first()?;
            (cost.abreast() <= u32::from(width)).then_some((cost.alone(), known.tactic))
        });
        timed.min_by_key(|(time, _)| *time).map(|(_, tactic)| tactic)
    }

    /// Says with which tactics operators are best run on a stream that has so many units for itself: for some numbers of units, ascending,
    /// one an operator.
    pub fn confine(&mut self, tactics: Vec<(u32, Vec<Tactic>)>) {
        self.confined = tactics;
    }

    /// The tactic of an operator on a stream that has so many units for itself; `None` where none is known.
    pub fn confined(&self, operator: usize, units: u32) -> Option<Tactic> {
        let (_, tactics) = self.confined.iter().find(|(known, _)| *known == units)?;
        tactics.get(operator).copied()
    }

    /// The costs of an operator's chunks under a tactic at full width, on a stream that has so many units for itself, from its time there
    /// ([`Paces::on_part`]); `None` where that is not known.
    pub fn apart(&self, operator: usize, chunks: &[Region], tactic: Tactic, units: u32) -> Option<Vec<Cost>> {
        let own = Operator {
            tactic,
            chunks: Vec::new(),
            ..self.operators[operator].clone()
        };
        let board = BoardRecord {
            units,
            ..self.board.clone()
        };
        let machine = Machine {
            units,
            macs: self.machine.macs * u64::from(units) / u64::from(self.machine.units.max(1)),
            ..self.machine
        };
        let differs = Paces::differs(&own, &self.board, (self.measured)(&own));
        let time = Paces::on_part(&own, &self.board, units, differs)?;
        let known = Known::measured(&own, Footprint::of(&own, &board), time, self.cold[operator], &machine);
        let tiles: Vec<u32> = chunks.iter().map(|c| known.footprint.tiles(&own, c)).collect();
        Some(known.shares(&own, (chunks, &tiles), known.tile, 0, &machine))
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
        let under = |&width: &u16| known.shares(own, (chunks, &tiles), tile, width, &self.machine);
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
        let (waves, rounds) = tiles.iter().fold((0, 0), |(waves, rounds), &tiles| {
            let (own, each) = known.rounds(tiles, &self.machine);
            (waves + own, rounds + own * each)
        });
        let launches = known.launch.saturating_sub(self.machine.calibration.chain) * chunks.len() as u64;
        let blocks = known.block * waves;
        // Blocks slow down beside their like, chunk by chunk as in one piece.
        let alone = time.0.saturating_sub(launches) * ONE / known.wanted(&self.machine);
        (alone.saturating_sub(blocks) / rounds.max(1)).max(1)
    }
}

/// What each operator takes longer in a frame than in the chain of its like, for weights that no cache keeps until the next
/// frame. Inputs of the frame count as weights: nothing in it has written them either.
fn cold(operators: &[Operator], machine: &Machine) -> Vec<u64> {
    let written: BTreeSet<BufferId> = operators.iter().flat_map(|o| &o.outputs).map(|v| v.buffer).collect();
    let read = operators.iter().map(|o| unwritten(o, |buffer| written.contains(&buffer)));
    let read: Vec<u64> = read.collect();
    let (cache, each) = (machine.calibration.cache << 10, machine.calibration.cold);
    let kept = read.iter().copied().fold(0, u64::saturating_add) <= cache;
    // Weights that find no room in the cache came from memory in the chain, too.
    let one = |bytes: u64| {
        if kept || bytes > cache {
            0
        } else {
            bytes.saturating_mul(each) >> 20
        }
    };
    read.into_iter().map(one).collect()
}

impl Known {
    /// An operator that took so long in a chain of its like, and takes `cold` longer in a frame for its weights.
    fn measured(operator: &Operator, footprint: Footprint, time: Nanos, cold: u64, machine: &Machine) -> Known {
        let time = time.0.saturating_add(machine.calibration.chain);
        let known = Known::of(operator, footprint, time, machine);
        Known {
            rest: known.rest.saturating_add(cold),
            ..known
        }
    }

    fn of(operator: &Operator, footprint: Footprint, time: u64, machine: &Machine) -> Known {
        let (macs, bytes) = work(operator);
        let tiles = footprint.tiles(operator, &Region::whole(shape(operator)));
        let mut known = Known {
            tactic: operator.tactic,
            footprint,
            blocks: tiles.min(footprint.most),
            launch: (machine.issue + machine.calibration.chain).min(time / 2),
            block: 0,
            tile: 1,
            rest: 0,
            bytes,
            using: 0,
        };
        let (waves, rounds) = known.rounds(tiles, machine);
        let all = time - known.launch;
        known.using = known.throughput(macs, all, machine);
        let wave = all * ONE / known.wanted(machine) / waves;
        let loading = (footprint.loaded / LOADING).min(wave * LOADED / 100);
        known.block = machine.calibration.block.min(wave * AHEAD / 100).max(loading);
        known.tile = ((wave - known.block) / rounds).max(1);
        known.rest = all.saturating_sub((known.block + known.tile * rounds) * waves * known.wanted(machine) / ONE);
        known
    }

    /// What blocks of a launch at full width want together of each unit's throughput, at least [`ONE`].
    fn wanted(&self, machine: &Machine) -> u64 {
        let each = u64::from(self.blocks.min(self.abreast(machine)).div_ceil(machine.units));
        (each * self.using).max(ONE)
    }

    /// Blocks that the whole board holds at once.
    fn abreast(&self, machine: &Machine) -> u32 {
        let each = self.footprint.room.iter().map(|&part| GRAIN / part.max(1)).min();
        machine.units.saturating_mul(each.unwrap_or(1).max(1)).max(1)
    }

    /// What a block wants of its unit's throughput, of [`ONE`], where the operator computes so much in so many nanoseconds: its
    /// part of the arithmetic of the units that it runs on, at least its share among as many of its kind as fit. So blocks
    /// that leave room for others leave them throughput, too.
    fn throughput(&self, macs: u64, time: u64, machine: &Machine) -> u64 {
        let abreast = u64::from(self.blocks.min(self.abreast(machine)).max(1));
        let units = u64::from(machine.units);
        let could = u128::from(machine.macs) * u128::from(time.max(1)) * u128::from(abreast.min(units));
        let computed = u128::from(macs) * u128::from(machine.scale) * u128::from(units) * u128::from(ONE);
        let computing = (computed / could.max(1)).min(u128::from(ONE)) as u64;
        let share = machine.calibration.share * u64::from(self.footprint.crowding) / 100;
        let least = share * units / u64::from(self.abreast(machine));
        (computing * abreast.min(units) / abreast).max(least)
    }

    /// Waves of blocks where so many tiles are shared out at full width, and tiles of a block, both at least 1.
    fn rounds(&self, tiles: u32, machine: &Machine) -> (u64, u64) {
        let blocks = tiles.min(self.footprint.most).max(1);
        (
            u64::from(blocks.div_ceil(self.abreast(machine))),
            u64::from(tiles.div_ceil(blocks)).max(1),
        )
    }

    /// The costs of an operator's chunks of so many tiles each, one of which takes `tile` nanoseconds.
    fn shares(&self, own: &Operator, (chunks, tiles): (&[Region], &[u32]), tile: u64, width: u16, machine: &Machine) -> Vec<Cost> {
        let area = |r: &Region| r.batch.len() as u64 * r.rows.len() as u64;
        let whole = area(&Region::whole(shape(own))).max(1);
        let share = |(chunk, &tiles): (&Region, &u32)| self.cost(area(chunk), whole, tiles, tile, width, machine);
        chunks.iter().zip(tiles).map(share).collect()
    }

    /// The cost of `tiles` tiles that are `part` of `whole` of the operator, each of which takes `tile` nanoseconds.
    fn cost(&self, part: u64, whole: u64, tiles: u32, tile: u64, width: u16, machine: &Machine) -> Cost {
        let most = self.abreast(machine);
        let full = tiles.min(self.footprint.most).max(1);
        let step = self.footprint.step;
        let (blocks, slower) = match u32::from(width) {
            // A launch has as many blocks for each range of channels. With fewer than one for each, weights are not kept.
            width @ 1.. if self.footprint.resizable && width < step => (full.min(width), UNKEPT),
            width @ 1.. if self.footprint.resizable => (full.min(width / step * step), 1),
            _ => (full, 1),
        };
        // What it moves, of what the board could meanwhile, alone and at full width.
        let abreast = full.min(most);
        let (waves, each) = self.rounds(tiles, machine);
        let time = waves.saturating_mul(self.block + each * tile);
        let could = u128::from(machine.shared_bytes()).saturating_mul(u128::from(time));
        let moved = (u128::from(self.bytes) * u128::from(part) / u128::from(whole.max(1))) * u128::from(machine.scale);
        let moving = (moved * u128::from(ONE) / could.max(1)).min(u128::from(ONE)) as u64;
        let (rounds, more) = (u64::from(tiles / blocks), tiles % blocks);
        let group = |blocks, rounds: u64| Group {
            blocks,
            time: (self.block + rounds.saturating_mul(tile * slower)).max(1),
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
            // One that the board never has room for would never begin.
            cluster: self.footprint.cluster.min(most),
            demand: (WHOLE * moving / ONE / u64::from(abreast.max(1))) as u32,
            bound: (moving * 100 / BOUND).min(ONE) as u32,
            using: self.using as u32,
        }
    }
}
