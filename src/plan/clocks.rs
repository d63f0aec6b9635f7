//! The happens-before relation of a frame schedule as vector clocks: for every segment, how many steps of each stream are
//! complete when it starts.

use super::format::FrameSchedule;
use crate::ids::SyncId;

/// The clocks of one frame schedule.
#[derive(Clone, Debug)]
pub struct Clocks {
    complete: Vec<u32>,
    streams: usize,
}

impl Clocks {
    /// The clock of every segment, in issue order: its stream's, joined with those of the segments it waits for.
    ///
    /// Streams and segments that the schedule names must exist. A sync point that waits for a segment which is not issued
    /// before the waiting one is the error.
    pub fn of(streams: usize, schedule: &FrameSchedule) -> Result<Clocks, SyncId> {
        let segments = &schedule.segments;
        // A sync point is joined once, after its last `after`; each waiting segment then takes the joined clock.
        let mut complete_at: Vec<Vec<u32>> = vec![Vec::new(); segments.len()];
        let mut waits: Vec<Vec<u32>> = vec![Vec::new(); segments.len()];
        for (i, sync) in schedule.syncs.iter().enumerate() {
            let (last, first) = (sync.after.iter().max(), sync.before.iter().min());
            let (Some(last), Some(first)) = (last, first) else { continue };
            if last >= first {
                return Err(SyncId(i as u32));
            }
            complete_at[last.index()].push(i as u32);
            sync.before.iter().for_each(|b| waits[b.index()].push(i as u32));
        }
        let mut clocks = vec![0u32; segments.len() * streams];
        // Per segment, the steps of its own stream that are complete when it ends.
        let mut ends = vec![0u32; segments.len()];
        let mut now = vec![0u32; streams * streams];
        let mut joined: Vec<Vec<u32>> = vec![Vec::new(); schedule.syncs.len()];
        for (i, segment) in segments.iter().enumerate() {
            let stream = segment.stream.index();
            let own = &mut now[stream * streams..(stream + 1) * streams];
            for &sync in &waits[i] {
                join(own, &joined[sync as usize]);
            }
            clocks[i * streams..(i + 1) * streams].copy_from_slice(own);
            own[stream] += segment.steps.len() as u32;
            ends[i] = own[stream];
            for &sync in &complete_at[i] {
                let mut clock = vec![0; streams];
                for after in &schedule.syncs[sync as usize].after {
                    let (index, stream) = (after.index(), segments[after.index()].stream.index());
                    join(&mut clock, &clocks[index * streams..(index + 1) * streams]);
                    clock[stream] = clock[stream].max(ends[index]);
                }
                joined[sync as usize] = clock;
            }
        }
        Ok(Clocks { complete: clocks, streams })
    }

    /// Steps of `stream` that are complete when `segment` starts.
    pub fn complete(&self, segment: usize, stream: usize) -> u32 {
        self.complete[segment * self.streams + stream]
    }
}

fn join(clock: &mut [u32], other: &[u32]) {
    for (mine, theirs) in clock.iter_mut().zip(other) {
        *mine = (*mine).max(*theirs);
    }
}
