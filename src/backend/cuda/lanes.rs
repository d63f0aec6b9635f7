//! The streams behind the lanes of all plans.

use super::program::{Lane, Lanes};
use super::raw::{Context, DriverError, GreenContext, Stream};
use crate::plan::format::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All streams: one root for everything, those of the plans by urgency, and the rest, which all plans share.
pub struct Streams {
    streams: Vec<Stream>,
    /// Per plan and lane, the index of its stream.
    lanes: Vec<Vec<usize>>,
}

impl Streams {
    /// Makes the streams of `plans`, on the SMs of `green` or on all.
    pub fn new<'a>(
        context: &Arc<Context>,
        green: Option<&Arc<GreenContext>>,
        plans: impl Iterator<Item = &'a Plan>,
    ) -> Result<Streams, DriverError> {
        let (least, greatest) = context.priorities()?;
        // Copies and marks are short, and somebody waits for them.
        let mut all = Streams {
            streams: vec![Stream::new(context, green, greatest)?],
            lanes: Vec::new(),
        };
        let mut known: BTreeMap<(i32, usize), usize> = BTreeMap::new();
        for plan in plans {
            let lanes = Lanes::of(plan);
            let mut of_plan = vec![0; lanes.count()];
            for (number, place) in of_plan.iter_mut().enumerate().skip(1) {
                let priority = match lanes.is_stream(Lane(number)) {
                    Some(stream) => urgency(plan, plan.streams[stream.index()].priority, least, greatest),
                    None => greatest,
                };
                *place = match known.get(&(priority, number)) {
                    Some(&index) => index,
                    None => {
                        all.streams.push(Stream::new(context, green, priority)?);
                        known.insert((priority, number), all.streams.len() - 1);
                        all.streams.len() - 1
                    }
                };
            }
            all.lanes.push(of_plan);
        }
        Ok(all)
    }

    /// Where every frame begins and ends.
    pub fn root(&self) -> &Stream {
        &self.streams[0]
    }

    /// True if everything in every stream has ended.
    pub fn are_idle(&self) -> Result<bool, DriverError> {
        for stream in &self.streams {
            if !stream.is_idle()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The stream of a plan's lane.
    pub fn lane(&self, plan: usize, lane: Lane) -> &Stream {
        &self.streams[self.lanes[plan][lane.0]]
    }
}

/// The driver's priority of a stream of the plan. The driver has few: the most urgent of the plan comes right behind the
/// marks, and the others follow in order until there are no more.
fn urgency(plan: &Plan, priority: u8, least: i32, greatest: i32) -> i32 {
    let mut above: Vec<u8> = plan.streams.iter().map(|s| s.priority).filter(|&p| p > priority).collect();
    above.sort_unstable();
    above.dedup();
    (greatest + 1 + above.len() as i32).clamp(greatest.min(least), least.max(greatest))
}
