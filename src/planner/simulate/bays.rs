//! The board's units, and the blocks that lie on them.
//!
//! Units that hold the same blocks, begun together, are one bay, so that a wave over all of a GPU is one entry and not one a
//! block. A launch that does not fill a bay splits it; empty bays are one again. Blocks go to the units that have
//! the least on them, one each, and again as long as there is room. Units that a stream is confined to are bays of their own.

use super::costs::{Cost, ONE};
use super::machine::{GRAIN, Machine, WHOLE};
use super::room::Room;

/// Flights of a stream: of the launch that runs, and of the one behind it that has come early.
pub const FLIGHTS: u32 = 2;
/// Of units that no stream is confined to.
const SHARED: u32 = u32::MAX;

/// Like units.
#[derive(Clone, Copy, Debug)]
struct Bay {
    units: u32,
    /// The stream that is confined to them, or [`SHARED`].
    owner: u32,
    /// Room left on each.
    free: Room,
    /// What the blocks at work on each want of its throughput, of [`ONE`].
    wanted: u64,
    /// Waves that lie here.
    waves: u32,
}

/// Blocks of a launch on a bay that began together.
#[derive(Clone, Copy, Debug)]
pub struct Wave {
    /// Whose they are: [`FLIGHTS`] times the stream, and which of its flights.
    pub flight: u32,
    bay: u32,
    /// On each of the bay's units.
    each: u32,
    /// When they begin to work.
    pub from: u64,
    /// Work left: nanoseconds at full speed, times [`ONE`].
    left: u64,
    /// True once they are at work.
    at_work: bool,
    room: Room,
    demand: u64,
    bound: u64,
    using: u64,
}

impl Wave {
    /// Work that a block does in a nanosecond, of [`ONE`], where so much bandwidth is wanted, and others have so much to do.
    fn speed(&self, demand: u64, bay: &Bay, others: u64) -> u64 {
        // Wanted over had, of the board's bandwidth and of the unit's throughput.
        let over = |load: u64, bound: u64| ONE + load.saturating_sub(ONE) * bound / ONE;
        let slowest = over(demand * ONE / WHOLE, self.bound).max(over(bay.wanted, ONE)) + others;
        (ONE * ONE / slowest).max(1)
    }
}

/// All units, with memory that is used over and over.
#[derive(Clone, Debug)]
pub struct Bays {
    machine: Machine,
    bays: Vec<Bay>,
    waves: Vec<Wave>,
    /// What the blocks at work want of the board's bandwidth, of [`WHOLE`].
    demand: u64,
    /// What they want of all units' throughput: each launch, and all.
    loads: Vec<u64>,
    load: u64,
    /// For each stream the units that it is confined to, 0 for all.
    confined: Vec<u32>,
}

impl Bays {
    /// The units of a board.
    pub fn new(machine: Machine) -> Bays {
        Bays {
            machine,
            bays: Vec::new(),
            waves: Vec::new(),
            demand: 0,
            loads: Vec::new(),
            load: 0,
            confined: Vec::new(),
        }
    }

    /// All units empty, for streams that are confined to so many units each, 0 to all.
    pub fn clear(&mut self, confined: impl Iterator<Item = u32>) {
        self.waves.clear();
        self.demand = 0;
        self.load = 0;
        self.loads.iter_mut().for_each(|l| *l = 0);
        self.bays.clear();
        self.confined.clear();
        self.confined.extend(confined);
        let bay = |owner, units| Bay {
            units,
            owner,
            free: [GRAIN; 2],
            wanted: 0,
            waves: 0,
        };
        self.bays.push(bay(SHARED, self.machine.units));
        for (stream, &own) in self.confined.iter().enumerate().filter(|(_, own)| **own > 0) {
            let own = own.min(self.bays[0].units);
            self.bays[0].units -= own;
            self.bays.push(bay(stream as u32, own));
        }
    }

    /// Puts up to `blocks` blocks of a launch down, each of which works for `time` nanoseconds from `from` on: how many found
    /// room.
    pub fn place(&mut self, flight: u32, cost: &Cost, blocks: u32, time: u64, from: u64) -> u32 {
        let stream = flight / FLIGHTS;
        let confined = self.confined_to(stream);
        let own = |bay: &Bay| bay.units > 0 && (confined == 0 || bay.owner == stream);
        let fits = |bay: &Bay| own(bay) && (0..2).all(|r| bay.free[r] >= cost.room[r]);
        let mut blocks = blocks;
        if cost.cluster > 1 {
            let each = |bay: &Bay| (0..2).map(|r| bay.free[r] / cost.room[r].max(1)).min().unwrap_or(0);
            let places: u32 = self
                .bays
                .iter()
                .filter(|&bay| own(bay))
                .map(|bay| bay.units.saturating_mul(each(bay)))
                .fold(0, u32::saturating_add);
            // No cluster is larger than a parcel, on a board; one that is must not wait forever.
            let cluster = if (1..cost.cluster).contains(&confined) { 1 } else { cost.cluster };
            blocks = blocks.min(places / cluster * cluster);
        }
        let mut left = blocks;
        while left > 0 {
            let roomy = |bay: &Bay| (bay.free[0].min(bay.free[1]), bay.free[0] + bay.free[1]);
            let among = (0..self.bays.len()).filter(|&b| fits(&self.bays[b]));
            let Some(bay) = among.max_by_key(|&b| (roomy(&self.bays[b]), std::cmp::Reverse(b))) else {
                break;
            };
            if self.bays[bay].units > left {
                self.split(bay, left);
            }
            let units = self.bays[bay].units;
            self.put(bay, flight, cost, time, from);
            left -= units;
        }
        blocks - left
    }

    /// Units that a stream is confined to; 0 for all.
    fn confined_to(&self, stream: u32) -> u32 {
        self.confined.get(stream as usize).copied().unwrap_or(0)
    }

    fn speed(&self, wave: &Wave) -> u64 {
        let others = self.load - self.loads[wave.flight as usize];
        let weighs = self.machine.calibration;
        let mutual = match self.confined_to(wave.flight / FLIGHTS) {
            0 => weighs.mutual,
            _ => weighs.apart,
        };
        let slower = mutual * others / (u64::from(self.machine.units) * ONE);
        wave.speed(self.demand, &self.bays[wave.bay as usize], slower)
    }

    /// Leaves `units` of a bay's units in it; the others become a bay of their own with the same waves.
    fn split(&mut self, bay: usize, units: u32) {
        let rest = Bay {
            units: self.bays[bay].units - units,
            ..self.bays[bay]
        };
        self.bays[bay].units = units;
        // A bay that was joined with another is a place to use again.
        let place = match self.bays.iter().position(|b| b.units == 0) {
            Some(place) => {
                self.bays[place] = rest;
                place
            }
            None => {
                self.bays.push(rest);
                self.bays.len() - 1
            }
        };
        for wave in 0..self.waves.len() {
            if self.waves[wave].bay == bay as u32 {
                let twin = self.waves[wave];
                self.waves.push(Wave { bay: place as u32, ..twin });
            }
        }
    }

    /// One more block on each unit of a bay.
    fn put(&mut self, bay: usize, flight: u32, cost: &Cost, time: u64, from: u64) {
        let own = &mut self.bays[bay];
        (0..2).for_each(|r| own.free[r] -= cost.room[r]);
        let left = time.saturating_mul(ONE);
        let like = |w: &&mut Wave| w.bay == bay as u32 && w.flight == flight && w.left == left && w.from == from && !w.at_work;
        match self.waves.iter_mut().find(like) {
            Some(wave) => wave.each += 1,
            None => {
                own.waves += 1;
                self.waves.push(Wave {
                    flight,
                    bay: bay as u32,
                    each: 1,
                    from,
                    left,
                    at_work: false,
                    room: cost.room,
                    demand: u64::from(cost.demand),
                    bound: u64::from(cost.bound),
                    using: u64::from(cost.using),
                });
            }
        }
    }

    /// Blocks of a launch that lay down before their time begin at `from`.
    pub fn release(&mut self, flight: u32, from: u64) {
        self.waves
            .iter_mut()
            .filter(|w| w.flight == flight && !w.at_work)
            .for_each(|w| w.from = from);
    }

    /// Blocks whose time has come are at work.
    pub fn begin(&mut self, now: u64) {
        for wave in self.waves.iter_mut().filter(|w| !w.at_work && w.from <= now) {
            let bay = &mut self.bays[wave.bay as usize];
            wave.at_work = true;
            bay.wanted += wave.using * u64::from(wave.each);
            let (flight, load) = (wave.flight as usize, wave.using * u64::from(wave.each) * u64::from(bay.units));
            if self.loads.len() <= flight {
                self.loads.resize(flight + 1, 0);
            }
            self.loads[flight] += load;
            self.load += load;
            self.demand += wave.demand * u64::from(wave.each) * u64::from(bay.units);
        }
    }

    /// When the next blocks begin to work or have ended, if nothing else happens; `None` if none lie here that will.
    pub fn next(&self, now: u64) -> Option<u64> {
        let at = |wave: &Wave| match wave.at_work {
            true => now.saturating_add(wave.left.div_ceil(self.speed(wave))),
            false => wave.from,
        };
        self.waves.iter().map(at).filter(|&at| at != u64::MAX).min()
    }

    /// Lets blocks work for a while, in which none begin or end.
    pub fn advance(&mut self, time: u64) {
        for index in 0..self.waves.len() {
            if self.waves[index].at_work {
                let done = time.saturating_mul(self.speed(&self.waves[index]));
                self.waves[index].left = self.waves[index].left.saturating_sub(done);
            }
        }
    }

    /// Takes blocks that are done away: a launch and how many of its own, one entry at a time.
    pub fn pop(&mut self) -> Option<(u32, u32)> {
        let done = self.waves.iter().position(|w| w.at_work && w.left == 0)?;
        let wave = self.waves.swap_remove(done);
        let bay = &mut self.bays[wave.bay as usize];
        let units = bay.units;
        (0..2).for_each(|r| bay.free[r] += wave.room[r] * wave.each);
        bay.wanted -= wave.using * u64::from(wave.each);
        bay.waves -= 1;
        let load = wave.using * u64::from(wave.each) * u64::from(units);
        self.loads[wave.flight as usize] -= load;
        self.load -= load;
        self.demand -= wave.demand * u64::from(wave.each) * u64::from(units);
        if bay.waves == 0 {
            self.join(wave.bay as usize);
        }
        Some((wave.flight, wave.each * units))
    }

    /// Empty bays are one.
    fn join(&mut self, empty: usize) {
        let units = self.bays[empty].units;
        let owner = self.bays[empty].owner;
        let like = |b: &Bay| b.owner == owner && b.units > 0 && b.waves == 0;
        if let Some(other) = (0..self.bays.len()).find(|&b| b != empty && like(&self.bays[b])) {
            self.bays[other].units += units;
            self.bays[empty].units = 0;
        }
    }

    /// Parts of units that are held: of each unit, of what is scarcest on it.
    pub fn held(&self) -> u64 {
        let scarce = |b: &Bay| u64::from(GRAIN - b.free[0].min(b.free[1]));
        self.bays.iter().map(|b| scarce(b) * u64::from(b.units)).sum()
    }

    /// The same, of streams beside one: by what each wave holds most of, at most all.
    pub fn held_beside(&self, stream: u32) -> u64 {
        let others = self.waves.iter().filter(|w| w.flight / FLIGHTS != stream);
        let held = |w: &Wave| u64::from(w.room[0].max(w.room[1]) * w.each) * u64::from(self.bays[w.bay as usize].units);
        others.map(held).sum::<u64>().min(self.machine.pool())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::BoardRecord;
    use crate::planner::simulate::tests::board;

    fn bays(units: u32) -> Bays {
        let board = BoardRecord {
            bytes_per_ns: 1.0,
            ..board(units, 0)
        };
        let mut bays = Bays::new(Machine::of(&board));
        bays.clear(std::iter::empty());
        bays
    }

    fn cost(room: Room, using: u64) -> Cost {
        Cost {
            room,
            using: using as u32,
            ..Cost::default()
        }
    }

    /// Runs what lies on the units to its end: when each launch's last block ended.
    fn run(bays: &mut Bays) -> Vec<(u32, u64)> {
        let (mut now, mut ended) = (0, Vec::new());
        bays.begin(now);
        while let Some(next) = bays.next(now) {
            bays.advance(next - now);
            now = next;
            bays.begin(now);
            while let Some((flight, _)) = bays.pop() {
                ended.retain(|(other, _)| *other != flight);
                ended.push((flight, now));
            }
        }
        ended
    }

    #[test]
    fn blocks_go_where_there_is_most_room_and_no_further() {
        let mut bays = bays(8);
        let (half, whole) = (cost([GRAIN / 2, 10], 0), cost([GRAIN, 10], 0));
        assert_eq!(bays.place(0, &half, 5, 100, 0), 5, "a block a unit");
        assert_eq!(bays.place(1, &whole, 8, 50, 0), 3, "units that hold others have no room for them");
        assert_eq!(bays.place(2, &half, 9, 10, 0), 5, "the other halves");
        assert_eq!(bays.held(), 8 * u64::from(GRAIN));
        assert_eq!(run(&mut bays), [(2, 10), (1, 50), (0, 100)]);
        assert_eq!(
            (bays.held(), bays.bays.iter().filter(|b| b.units > 0).count()),
            (0, 1),
            "one bay again"
        );
        let mut scarce = cost([10, GRAIN / 3], 0);
        assert_eq!(
            bays.place(0, &scarce, 100, 10, 0),
            24,
            "registers run out where shared memory does not"
        );
        scarce.room = [10, 0];
        assert_eq!(bays.place(1, &scarce, 8, 10, 0), 8);
    }

    #[test]
    fn blocks_slow_each_other_down_where_they_want_too_much_of_a_unit() {
        let mut bays = bays(2);
        let busy = cost([GRAIN / 4, 0], ONE);
        // One unit has two blocks, the other one.
        assert_eq!(bays.place(0, &busy, 3, 100, 0), 3);
        assert_eq!(run(&mut bays), [(0, 200)]);
        let easy = cost([GRAIN / 4, 0], ONE / 2);
        assert_eq!(bays.place(0, &easy, 4, 100, 0), 4);
        assert_eq!(run(&mut bays), [(0, 100)]);
    }

    #[test]
    fn blocks_that_lie_early_wait_for_their_time() {
        let mut bays = bays(1);
        assert_eq!(bays.place(0, &cost([GRAIN, 0], 0), 1, 100, u64::MAX), 1);
        bays.begin(0);
        assert_eq!(bays.next(0), None, "nothing happens by itself");
        assert_eq!(bays.held(), u64::from(GRAIN), "but the room is taken");
        bays.release(0, 40);
        assert_eq!(bays.next(0), Some(40));
        assert_eq!(run(&mut bays), [(0, 140)]);
    }

    #[test]
    fn what_a_stream_holds_is_beside_the_others_alone() {
        let mut bays = bays(4);
        bays.place(0, &cost([GRAIN / 2, 10], 0), 4, 100, 0);
        bays.place(1, &cost([GRAIN / 4, 10], 0), 2, 100, u64::MAX);
        let whole = u64::from(GRAIN);
        assert_eq!(
            (bays.held(), bays.held_beside(0)),
            (4 * whole / 2 + 2 * whole / 4, 0),
            "both flights are its own"
        );
        bays.place(2, &cost([10, GRAIN / 2], 0), 4, 50, 0);
        assert_eq!(
            (bays.held_beside(0), bays.held_beside(1)),
            (4 * whole / 2, 4 * whole / 2 + 2 * whole / 4)
        );
        assert_eq!(run(&mut bays), [(2, 50), (0, 100)]);
        assert_eq!(
            (bays.held_beside(0), bays.held_beside(1)),
            (0, 2 * whole / 4),
            "what waits for its time holds its room"
        );
    }

    #[test]
    fn confined_streams_keep_to_their_units_and_others_may_use_them() {
        let mut bays = bays(12);
        bays.clear([4, 0, 8].into_iter());
        let whole = cost([GRAIN, 0], 0);
        assert_eq!(bays.place(0, &whole, 12, 100, 0), 4, "its own units");
        assert_eq!(bays.place(2, &whole, 12, 50, 0), 8, "of all units, those that are free");
        assert_eq!(bays.place(4, &whole, 12, 10, 0), 0, "its own are taken");
        assert_eq!(run(&mut bays), [(2, 50), (0, 100)]);
        assert_eq!(bays.place(4, &whole, 12, 10, 0), 8);
        let cluster = Cost { cluster: 6, ..whole };
        assert_eq!(
            bays.place(0, &cluster, 6, 10, 0),
            4,
            "of a cluster that its units never hold, what they do"
        );
        assert_eq!(run(&mut bays), [(4, 10), (0, 10)]);
    }
}
