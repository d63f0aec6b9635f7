//! The board's units, and the blocks that lie on them.
//!
//! Units that hold the same blocks, begun together, are one bay, so that a wave over all of a GPU is one entry and not one a
//! block. A launch that does not fill a bay splits it; empty bays are one again. Blocks go to the units that have
//! the least on them, one each, and again as long as there is room.

use super::costs::{Cost, ONE};
use super::machine::{GRAIN, Machine, WHOLE};
use super::room::Room;

/// Like units.
#[derive(Clone, Copy, Debug)]
struct Bay {
    units: u32,
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
    /// Whose they are: a number of the caller's.
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
    fn speed(&self, demand: u64, bay: &Bay) -> u64 {
        // Wanted over had, of the board's bandwidth and of the unit's throughput.
        let over = |load: u64, bound: u64| ONE + load.saturating_sub(ONE) * bound / ONE;
        let slowest = over(demand * ONE / WHOLE, self.bound).max(over(bay.wanted, ONE));
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
}

impl Bays {
    /// The units of a board.
    pub fn new(machine: Machine) -> Bays {
        Bays {
            machine,
            bays: Vec::new(),
            waves: Vec::new(),
            demand: 0,
        }
    }

    /// All units empty.
    pub fn clear(&mut self) {
        self.waves.clear();
        self.demand = 0;
        self.bays.clear();
        self.bays.push(Bay {
            units: self.machine.units,
            free: [GRAIN; 2],
            wanted: 0,
            waves: 0,
        });
    }

    /// Puts up to `blocks` blocks of a launch down, each of which works for `time` nanoseconds from `from` on: how many found
    /// room.
    pub fn place(&mut self, flight: u32, cost: &Cost, blocks: u32, time: u64, from: u64) -> u32 {
        let mut left = blocks;
        while left > 0 {
            let fits = |bay: &Bay| bay.units > 0 && (0..2).all(|r| bay.free[r] >= cost.room[r]);
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
            self.demand += wave.demand * u64::from(wave.each) * u64::from(bay.units);
        }
    }

    /// When the next blocks begin to work or have ended, if nothing else happens; `None` if none lie here that will.
    pub fn next(&self, now: u64) -> Option<u64> {
        let at = |wave: &Wave| match wave.at_work {
            true => {
                let speed = wave.speed(self.demand, &self.bays[wave.bay as usize]);
                now.saturating_add(wave.left.div_ceil(speed))
            }
            false => wave.from,
        };
        self.waves.iter().map(at).filter(|&at| at != u64::MAX).min()
    }

    /// Lets blocks work for a while, in which none begin or end.
    pub fn advance(&mut self, time: u64) {
        let (bays, demand) = (&self.bays, self.demand);
        for wave in self.waves.iter_mut().filter(|w| w.at_work) {
            let done = time.saturating_mul(wave.speed(demand, &bays[wave.bay as usize]));
            wave.left = wave.left.saturating_sub(done);
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
        self.demand -= wave.demand * u64::from(wave.each) * u64::from(units);
        if bay.waves == 0 {
            self.join(wave.bay as usize);
        }
        Some((wave.flight, wave.each * units))
    }

    /// Empty bays are one.
    fn join(&mut self, empty: usize) {
        let units = self.bays[empty].units;
        if let Some(other) = (0..self.bays.len()).find(|&b| b != empty && self.bays[b].units > 0 && self.bays[b].waves == 0) {
            self.bays[other].units += units;
            self.bays[empty].units = 0;
        }
    }

    /// Parts of units that are held: of each unit, of what is scarcest on it.
    pub fn held(&self) -> u64 {
        let scarce = |b: &Bay| u64::from(GRAIN - b.free[0].min(b.free[1]));
        self.bays.iter().map(|b| scarce(b) * u64::from(b.units)).sum()
    }
}
