//! The discrete-event simulation of a frame.
//!
//! Streams run their launches in order. A launch takes its time to arrive; then its blocks go onto the units as room comes
//! free, and stay until they are done: nothing is preempted. Among launches that have arrived, streams of higher priority go
//! first, then those that arrived first, and none passes one that still has blocks to place: the order that Amert, Otterness,
//! Yang, Anderson and Smith found on NVIDIA's GPUs (GPU scheduling on the NVIDIA TX2, RTSS 2017). Where blocks together
//! want more bandwidth or arithmetic than there is, those that are bound by it slow down. All figures are integers.

use super::costs::{Cost, ONE};
use super::frame::{Frame, NONE};
use super::machine::{Machine, WHOLE};

/// Hears what happens in a simulated frame; times are nanoseconds from its start.
pub trait Witness {
    /// The first blocks of a launch begin.
    fn begins(&mut self, _launch: u32, _at: u64) {}
    /// The last block of a launch has ended.
    fn ends(&mut self, _launch: u32, _at: u64) {}
    /// From one time to another, blocks hold so many parts of units.
    fn holds(&mut self, _from: u64, _to: u64, _parts: u64) {}
}

/// Hears nothing.
impl Witness for () {}

/// What a stream is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its segment waits for others.
    Waiting,
    /// Its launch arrives at this time.
    Arriving(u64),
    /// Its launch has blocks to place or running.
    Placing,
    /// It is through.
    Through,
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    state: State,
    segment: u32,
    launch: u32,
    priority: u8,
    /// The launch's costs; of its groups, the blocks that are not placed yet.
    cost: Cost,
    /// Blocks on the units.
    running: u32,
    begun: bool,
}

/// Blocks of a lane that started together.
#[derive(Clone, Copy, Debug)]
struct Wave {
    lane: u32,
    blocks: u32,
    /// Work left: nanoseconds at full speed, times [`ONE`].
    left: u64,
}

/// The simulator, with the memory that it uses over and over.
#[derive(Clone, Debug)]
pub struct Simulator {
    machine: Machine,
    lanes: Vec<Lane>,
    waves: Vec<Wave>,
    /// Lanes that are placing, in the order in which they may.
    order: Vec<u32>,
    pending: Vec<u32>,
    ends: Vec<u64>,
    free: u64,
    demand: [u64; 2],
}

impl Simulator {
    /// A simulator of a board.
    pub fn new(machine: Machine) -> Simulator {
        Simulator {
            machine,
            lanes: Vec::new(),
            waves: Vec::new(),
            order: Vec::new(),
            pending: Vec::new(),
            ends: Vec::new(),
            free: 0,
            demand: [0; 2],
        }
    }

    /// When each segment of the last frame ended, in nanoseconds.
    pub fn ends(&self) -> &[u64] {
        &self.ends
    }

    /// Runs a frame: its time in nanoseconds. `costs` are those that its launches name.
    ///
    /// Segments that wait in a circle never run and end with the frame; the gate lets none through.
    pub fn run<W: Witness>(&mut self, frame: &Frame, costs: &[Cost], witness: &mut W) -> u64 {
        self.reset(frame, costs);
        let mut now = 0u64;
        loop {
            self.arrive(now);
            self.place(now, witness);
            let Some(next) = self.next(now) else {
                break;
            };
            witness.holds(now, next, self.machine.pool() - self.free);
            self.advance(next - now);
            now = next;
            self.retire(now, frame, costs, witness);
        }
        self.ends.iter_mut().filter(|e| **e == u64::MAX).for_each(|e| *e = now);
        now
    }

    fn reset(&mut self, frame: &Frame, costs: &[Cost]) {
        self.free = self.machine.pool();
        self.demand = [0; 2];
        self.waves.clear();
        self.order.clear();
        self.ends.clear();
        self.ends.resize(frame.segments.len(), u64::MAX);
        self.pending.clear();
        self.pending.extend(frame.segments.iter().map(|s| s.waits));
        self.lanes.clear();
        let lane = |(&(first, _), &priority): (&(u32, u32), &u8)| Lane {
            state: State::Through,
            segment: first,
            launch: 0,
            priority,
            cost: Cost::default(),
            running: 0,
            begun: false,
        };
        self.lanes.extend(frame.streams.iter().zip(&frame.priorities).map(lane));
        for lane in 0..self.lanes.len() {
            self.open(lane, 0, frame, costs);
        }
    }

    /// Starts the lane's segment if nothing holds it up.
    fn open(&mut self, index: usize, now: u64, frame: &Frame, costs: &[Cost]) {
        let segment = self.lanes[index].segment;
        if segment == NONE {
            self.lanes[index].state = State::Through;
        } else if self.pending[segment as usize] > 0 {
            self.lanes[index].state = State::Waiting;
        } else {
            let it = &frame.segments[segment as usize];
            let meeting = if it.waits > 0 { self.machine.sync } else { 0 };
            self.send(index, it.launches.0, now.saturating_add(meeting), frame, costs);
        }
    }

    /// Sends the lane's next launch on its way.
    fn send(&mut self, index: usize, launch: u32, now: u64, frame: &Frame, costs: &[Cost]) {
        let others = self
            .lanes
            .iter()
            .enumerate()
            .any(|(i, l)| i != index && l.state != State::Through && l.state != State::Waiting);
        let crowd = if others { self.machine.crowd } else { 0 };
        let lane = &mut self.lanes[index];
        lane.launch = launch;
        lane.cost = costs[frame.launches[launch as usize].cost as usize];
        lane.state = State::Arriving(now.saturating_add(lane.cost.launch).saturating_add(crowd));
    }

    /// Launches whose time has come take their places among those that want room.
    fn arrive(&mut self, now: u64) {
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            if !matches!(lane.state, State::Arriving(at) if at <= now) {
                continue;
            }
            (lane.state, lane.running, lane.begun) = (State::Placing, 0, false);
            let priority = lane.priority;
            let behind = self.order.iter().position(|&o| self.lanes[o as usize].priority < priority);
            self.order.insert(behind.unwrap_or(self.order.len()), index as u32);
        }
    }

    /// Puts blocks onto the units, until the first launch that does not get all of its own on.
    fn place<W: Witness>(&mut self, now: u64, witness: &mut W) {
        let mut placed = 0;
        for at in 0..self.order.len() {
            let index = self.order[at];
            let lane = &mut self.lanes[index as usize];
            let hold = u64::from(lane.cost.hold.max(1));
            let room = (self.free / hold).min(u64::from(lane.cost.most.saturating_sub(lane.running))) as u32;
            let mut room = room;
            for group in &mut lane.cost.groups {
                let blocks = group.blocks.min(room);
                if blocks == 0 {
                    continue;
                }
                group.blocks -= blocks;
                room -= blocks;
                lane.running += blocks;
                self.free -= hold * u64::from(blocks);
                for (sum, own) in self.demand.iter_mut().zip(lane.cost.demand) {
                    *sum += u64::from(own) * u64::from(blocks);
                }
                let left = group.time.saturating_mul(ONE);
                match self.waves.iter_mut().find(|w| w.lane == index && w.left == left) {
                    Some(wave) => wave.blocks += blocks,
                    None => self.waves.push(Wave { lane: index, blocks, left }),
                }
            }
            if !lane.begun && lane.running > 0 {
                lane.begun = true;
                witness.begins(lane.launch, now);
            }
            if lane.cost.groups.iter().any(|g| g.blocks > 0) {
                break;
            }
            placed = at + 1;
        }
        self.order.drain(..placed);
    }

    /// Work that a block of the lane does in a nanosecond, of [`ONE`].
    fn speed(&self, lane: u32) -> u64 {
        let cost = &self.lanes[lane as usize].cost;
        let mut slowest = ONE;
        for (demand, bound) in self.demand.iter().zip(cost.bound) {
            // Wanted over had.
            let load = demand * ONE / WHOLE;
            slowest = slowest.max(ONE + load.saturating_sub(ONE) * u64::from(bound) / ONE);
        }
        (ONE * ONE / slowest).max(1)
    }

    /// When something happens next; `None` if nothing will.
    fn next(&self, now: u64) -> Option<u64> {
        let arrivals = self.lanes.iter().filter_map(|l| match l.state {
            State::Arriving(at) => Some(at),
            _ => None,
        });
        let ends = self.waves.iter().map(|w| now.saturating_add(w.left.div_ceil(self.speed(w.lane))));
        arrivals.chain(ends).min()
    }

    fn advance(&mut self, time: u64) {
        for index in 0..self.waves.len() {
            let done = time.saturating_mul(self.speed(self.waves[index].lane));
            self.waves[index].left = self.waves[index].left.saturating_sub(done);
        }
    }

    /// Frees the room of blocks that are done, and moves on where a launch is.
    fn retire<W: Witness>(&mut self, now: u64, frame: &Frame, costs: &[Cost], witness: &mut W) {
        let mut index = 0;
        while index < self.waves.len() {
            if self.waves[index].left > 0 {
                index += 1;
                continue;
            }
            let wave = self.waves.swap_remove(index);
            let lane = &mut self.lanes[wave.lane as usize];
            lane.running -= wave.blocks;
            self.free += u64::from(lane.cost.hold.max(1)) * u64::from(wave.blocks);
            for (sum, own) in self.demand.iter_mut().zip(lane.cost.demand) {
                *sum -= u64::from(own) * u64::from(wave.blocks);
            }
            if lane.running == 0 && lane.cost.groups.iter().all(|g| g.blocks == 0) {
                witness.ends(lane.launch, now);
                self.finish(wave.lane as usize, now, frame, costs);
            }
        }
    }

    /// The lane's launch is done: its next one, or its next segment and those that waited.
    fn finish(&mut self, index: usize, now: u64, frame: &Frame, costs: &[Cost]) {
        let (segment, next) = (self.lanes[index].segment as usize, self.lanes[index].launch + 1);
        let it = &frame.segments[segment];
        if next < it.launches.1 {
            self.send(index, next, now, frame, costs);
            return;
        }
        self.ends[segment] = now;
        let mut link = it.followers;
        while link != NONE {
            let (after, follower) = frame.links[link as usize];
            link = after;
            self.pending[follower as usize] -= 1;
            let lane = frame.segments[follower as usize].stream.index();
            let waits = self.lanes[lane].state == State::Waiting && self.lanes[lane].segment == follower;
            if waits && self.pending[follower as usize] == 0 {
                self.open(lane, now, frame, costs);
            }
        }
        self.lanes[index].segment = it.next;
        self.open(index, now, frame, costs);
    }
}
