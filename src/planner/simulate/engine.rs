//! The discrete-event simulation of a frame.
//!
//! Streams run their launches in order. A launch takes its time to arrive; then its blocks go onto the units as room comes
//! free, and stay until they are done: nothing is preempted. Among launches that have arrived, streams of higher priority go
//! first, then those that arrived first: the order that Amert, Otterness, Yang, Anderson and Smith found on NVIDIA's GPUs (GPU
//! scheduling on the NVIDIA TX2, RTSS 2017). There none passes one that still has blocks to place; frames of an H200 are
//! predicted better if those whose blocks find room do. Blocks of a stream that is confined to units of its own find room there alone,
//! and no other confined stream's do. On a GPU whose launches begin early (programmatic dependent launch), the
//! next of a stream comes as soon as all blocks of the one before it lie on units, and its blocks take the room that they find,
//! though they wait there. Where blocks together want more bandwidth or more of a unit's throughput than there is, those that are
//! bound by it slow down. All figures are integers.

use super::bays::{Bays, FLIGHTS};
use super::costs::Cost;
use super::frame::{Frame, NONE};
use super::machine::Machine;
use crate::plan::format::Stream;

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

/// A launch between its sending and its end.
#[derive(Clone, Copy, Debug)]
struct Flight {
    launch: u32,
    /// Its costs; of its groups, the blocks that are not placed yet.
    cost: Cost,
    /// When it is among those that want room.
    arrives: u64,
    /// When its blocks may work; `u64::MAX` while the launch before it runs.
    ready: u64,
    /// It has its place among those that want room.
    queued: bool,
    /// Blocks on units.
    running: u32,
    /// Its first block works; between two waves none may lie on a unit.
    begun: bool,
}

impl Flight {
    fn placed(&self) -> bool {
        self.queued && self.cost.groups.iter().all(|g| g.blocks == 0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Lane {
    priority: u8,
    /// The segment that runs or waits; [`NONE`] behind the last.
    segment: u32,
    /// Its segment waits for others.
    waiting: bool,
    /// The launch that runs, and the one behind it that has come early.
    flights: [Option<Flight>; FLIGHTS as usize],
    /// Which of the two runs.
    first: usize,
}

/// The simulator, with the memory that it uses over and over.
#[derive(Clone, Debug)]
pub struct Simulator {
    machine: Machine,
    lanes: Vec<Lane>,
    bays: Bays,
    /// Flights that want room, in the order in which they get it: lane and place in it.
    order: Vec<(u32, u32)>,
    pending: Vec<u32>,
    ends: Vec<u64>,
}

impl Simulator {
    /// A simulator of a board.
    pub fn new(machine: Machine) -> Simulator {
        Simulator {
            machine,
            lanes: Vec::new(),
            bays: Bays::new(machine),
            order: Vec::new(),
            pending: Vec::new(),
            ends: Vec::new(),
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
            self.bays.begin(now);
            self.look_ahead(now, frame, costs);
            let Some(next) = self.next(now) else {
                break;
            };
            witness.holds(now, next, self.bays.held());
            self.bays.advance(next - now);
            now = next;
            while let Some((flight, blocks)) = self.bays.pop() {
                self.land(flight, blocks, now, frame, costs, witness);
            }
        }
        self.ends.iter_mut().filter(|e| **e == u64::MAX).for_each(|e| *e = now);
        now
    }

    fn reset(&mut self, frame: &Frame, costs: &[Cost]) {
        self.bays.clear(frame.lanes.iter().map(|l| u32::from(l.units)));
        self.order.clear();
        self.ends.clear();
        self.ends.resize(frame.segments.len(), u64::MAX);
        self.pending.clear();
        self.pending.extend(frame.segments.iter().map(|s| s.waits));
        self.lanes.clear();
        let lane = |(&(segment, _), stream): (&(u32, u32), &Stream)| Lane {
            priority: stream.priority,
            segment,
            waiting: false,
            flights: [None; FLIGHTS as usize],
            first: 0,
        };
        self.lanes.extend(frame.streams.iter().zip(&frame.lanes).map(lane));
        for lane in 0..self.lanes.len() {
            self.open(lane, 0, frame, costs);
        }
    }

    /// Starts the lane's segment if nothing holds it up.
    fn open(&mut self, lane: usize, now: u64, frame: &Frame, costs: &[Cost]) {
        let segment = self.lanes[lane].segment;
        if segment == NONE {
            return;
        }
        self.lanes[lane].waiting = self.pending[segment as usize] > 0;
        if !self.lanes[lane].waiting {
            let it = &frame.segments[segment as usize];
            let meeting = if it.waits > 0 { self.machine.calibration.sync } else { 0 };
            self.send(lane, it.launches.0, now.saturating_add(meeting), frame, costs);
        }
    }

    /// Sends the lane's next launch on its way, after the one before it has ended.
    fn send(&mut self, lane: usize, launch: u32, now: u64, frame: &Frame, costs: &[Cost]) {
        let cost = costs[frame.launches[launch as usize].cost as usize];
        let ready = now.saturating_add(cost.launch).saturating_add(self.crowd(lane));
        let own = &mut self.lanes[lane];
        own.flights[own.first] = Some(Flight {
            launch,
            cost,
            arrives: ready,
            ready,
            queued: false,
            running: 0,
            begun: false,
        });
    }

    /// What a launch takes longer while other streams are at work: all of the figure where they hold every unit, since it then waits
    /// for its turn, and less where units are free of theirs. What its own stream holds is its predecessor's, and about to go.
    fn crowd(&self, lane: usize) -> u64 {
        self.machine.calibration.crowd * self.bays.held_beside(lane as u32) / self.machine.pool().max(1)
    }

    /// Launches whose time has come take their places among those that want room.
    fn arrive(&mut self, now: u64) {
        for lane in 0..self.lanes.len() {
            let priority = self.lanes[lane].priority;
            // The one that runs has come before the one behind it.
            for step in 0..2 {
                let place = (self.lanes[lane].first + step) % 2;
                let Some(flight) = &mut self.lanes[lane].flights[place] else {
                    continue;
                };
                if flight.queued || flight.arrives > now {
                    continue;
                }
                flight.queued = true;
                let behind = self
                    .order
                    .iter()
                    .position(|&(other, _)| self.lanes[other as usize].priority < priority);
                self.order.insert(behind.unwrap_or(self.order.len()), (lane as u32, place as u32));
            }
        }
    }

    /// Puts blocks onto the units, launch by launch.
    fn place<W: Witness>(&mut self, now: u64, witness: &mut W) {
        for &(lane, place) in &self.order {
            let Some(flight) = &mut self.lanes[lane as usize].flights[place as usize] else {
                continue;
            };
            let cost = flight.cost;
            let from = flight.ready.max(now);
            for (own, group) in flight.cost.groups.iter_mut().zip(cost.groups) {
                if own.blocks > 0 {
                    let on = self.bays.place(lane * FLIGHTS + place, &cost, group.blocks, group.time, from);
                    own.blocks -= on;
                    flight.running += on;
                }
            }
            if !flight.begun && flight.running > 0 && flight.ready != u64::MAX {
                flight.begun = true;
                witness.begins(flight.launch, from);
            }
            // Where launches pass others, the next may have smaller blocks.
            if flight.cost.groups.iter().any(|g| g.blocks > 0) && !self.machine.early {
                break;
            }
        }
        let lanes = &self.lanes;
        let open = |&(lane, place): &(u32, u32)| lanes[lane as usize].flights[place as usize].is_some_and(|f| !f.placed());
        self.order.retain(open);
    }

    /// Where launches begin early, the next of a stream comes once all blocks of the one that runs are at work.
    fn look_ahead(&mut self, now: u64, frame: &Frame, costs: &[Cost]) {
        if !self.machine.early {
            return;
        }
        for lane in &mut self.lanes {
            let Some(flight) = lane.flights[lane.first] else { continue };
            let behind = 1 - lane.first;
            if lane.flights[behind].is_some() || !flight.placed() || flight.ready > now {
                continue;
            }
            let own = &frame.segments[lane.segment as usize];
            let next = match flight.launch + 1 {
                within if within < own.launches.1 => within,
                // A segment that waits for nobody else follows at once.
                _ => match frame.segments.get(own.next as usize) {
                    Some(follower) if follower.waits == 0 => follower.launches.0,
                    _ => continue,
                },
            };
            lane.flights[behind] = Some(Flight {
                launch: next,
                cost: costs[frame.launches[next as usize].cost as usize],
                arrives: now.saturating_add(self.machine.calibration.lead),
                ready: u64::MAX,
                queued: false,
                running: 0,
                begun: false,
            });
        }
    }

    /// When something happens next; `None` if nothing will.
    fn next(&self, now: u64) -> Option<u64> {
        let flights = self.lanes.iter().flat_map(|l| &l.flights).flatten();
        let arrivals = flights.filter(|f| !f.queued).map(|f| f.arrives);
        arrivals.chain(self.bays.next(now)).min()
    }

    /// Blocks of a launch have ended; with its last, the lane's next launch may work, or its next segment and those that waited.
    fn land<W: Witness>(&mut self, flight: u32, blocks: u32, now: u64, frame: &Frame, costs: &[Cost], witness: &mut W) {
        let (lane, place) = ((flight / FLIGHTS) as usize, (flight % FLIGHTS) as usize);
        let Some(own) = &mut self.lanes[lane].flights[place] else { return };
        own.running -= blocks;
        if own.running > 0 || !own.placed() {
            return;
        }
        let launch = own.launch;
        witness.ends(launch, now);
        self.lanes[lane].flights[place] = None;
        self.lanes[lane].first = 1 - place;
        let segment = self.lanes[lane].segment as usize;
        let it = &frame.segments[segment];
        let last = launch + 1 == it.launches.1;
        if last {
            self.ends[segment] = now;
            self.lanes[lane].segment = it.next;
            self.follow(segment, now, frame, costs);
        }
        if self.lanes[lane].flights[1 - place].is_some() {
            self.take_over(lane, 1 - place, now, witness);
        } else if last {
            self.open(lane, now, frame, costs);
        } else {
            self.send(lane, launch + 1, now, frame, costs);
        }
    }

    /// The launch that came early is the one that runs.
    fn take_over<W: Witness>(&mut self, lane: usize, place: usize, now: u64, witness: &mut W) {
        let crowd = self.crowd(lane);
        if let Some(flight) = &mut self.lanes[lane].flights[place] {
            flight.ready = now.saturating_add(flight.cost.launch).saturating_add(crowd);
            if flight.running > 0 {
                flight.begun = true;
                witness.begins(flight.launch, flight.ready);
                self.bays.release(lane as u32 * FLIGHTS + place as u32, flight.ready);
            }
        }
    }

    /// Segments that waited for one that has ended.
    fn follow(&mut self, segment: usize, now: u64, frame: &Frame, costs: &[Cost]) {
        let mut link = frame.segments[segment].followers;
        while link != NONE {
            let (after, follower) = frame.links[link as usize];
            link = after;
            self.pending[follower as usize] -= 1;
            let lane = frame.segments[follower as usize].stream.index();
            let waits = self.lanes[lane].waiting && self.lanes[lane].segment == follower;
            if waits && self.pending[follower as usize] == 0 {
                self.open(lane, now, frame, costs);
            }
        }
    }
}
