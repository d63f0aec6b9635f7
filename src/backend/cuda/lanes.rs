//! The streams behind the lanes of all plans.

use super::error::CudaError;
use super::program::{Lane, Lanes};
use super::raw::{Context, DriverError, GreenContext, Parcels, Stream};
use crate::board::{BoardRecord, Division};
use crate::plan::format::Plan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All streams: one root for everything, those of the plans by urgency, and the rest, which all plans share.
pub struct Streams {
    streams: Vec<Stream>,
    /// Per plan and lane, the index of its stream.
    lanes: Vec<Vec<usize>>,
}

/// Green contexts of a plan's streams; none for those that are not confined.
type Confined = Vec<Option<Arc<GreenContext>>>;

impl Streams {
    /// Makes the streams of `plans` for a board, on the SMs of `green` or on all.
    pub fn new<'a>(
        context: &Arc<Context>,
        green: Option<&Arc<GreenContext>>,
        board: &BoardRecord,
        plans: impl Iterator<Item = &'a Plan>,
    ) -> Result<Streams, CudaError> {
        let (least, greatest) = context.priorities()?;
        // Copies and marks are short, and somebody waits for them.
        let mut all = Streams {
            streams: vec![Stream::new(context, green, greatest)?],
            lanes: Vec::new(),
        };
        let mut known: BTreeMap<(i32, usize, Vec<u16>), usize> = BTreeMap::new();
        let mut divisions: BTreeMap<Vec<u16>, Confined> = BTreeMap::new();
        for plan in plans {
            let lanes = Lanes::of(plan);
            let division: Vec<u16> = plan.streams.iter().map(|s| s.units).collect();
            if !divisions.contains_key(&division) {
                divisions.insert(division.clone(), divide(context, green, board, plan)?);
            }
            let mut of_plan = vec![0; lanes.count()];
            for (number, place) in of_plan.iter_mut().enumerate().skip(1) {
                let stream = lanes.is_stream(Lane(number)).map(|s| s.index());
                let priority = stream.map_or(greatest, |s| urgency(plan, plan.streams[s].priority, least, greatest));
                let own = stream.and_then(|s| divisions.get(&division)?.get(s)?.as_ref());
                // Streams on all SMs are the same whatever others are confined to.
                let among = if own.is_some() { division.clone() } else { Vec::new() };
                *place = match known.get(&(priority, number, among.clone())) {
                    Some(&index) => index,
                    None => {
                        all.streams.push(Stream::new(context, own.or(green), priority)?);
                        known.insert((priority, number, among), all.streams.len() - 1);
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

/// Sets aside what the plan's streams are confined to, of the SMs of `green` or of all: whole parcels, and what is left for the one that
/// has the rest.
fn divide(context: &Arc<Context>, green: Option<&Arc<GreenContext>>, board: &BoardRecord, plan: &Plan) -> Result<Confined, CudaError> {
    let mut confined = vec![None; plan.streams.len()];
    if plan.streams.iter().all(|s| s.units == 0) {
        return Ok(confined);
    }
    let refused = |source| CudaError::Divide {
        task_set: plan.task_set.clone(),
        units: plan.streams.iter().map(|s| s.units).filter(|&u| u > 0).collect(),
        source,
    };
    let division = Division::of(board);
    let units = plan.streams.iter().map(|s| s.units);
    if !division.allows(units.clone()) {
        return Err(refused(None));
    }
    let rest = division.has_rest(units);
    let mut all = Parcels::new(context, green.map(|g| &**g), division.parcel).map_err(|e| refused(Some(e)))?;
    let whole = (0..plan.streams.len()).filter(|&s| plan.streams[s].units > 0 && Some(s) != rest);
    for stream in whole.chain(rest) {
        let units = u32::from(plan.streams[stream].units);
        let own = if Some(stream) == rest { all.rest() } else { all.take(units) };
        let own = own.filter(|own| own.count() == units).ok_or_else(|| refused(None))?;
        confined[stream] = Some(GreenContext::new(context, own).map_err(|e| refused(Some(e)))?);
    }
    Ok(confined)
}

/// The driver's priority of a stream of the plan. The driver has few: the most urgent of the plan comes right behind the
/// marks, and the others follow in order until there are no more.
fn urgency(plan: &Plan, priority: u8, least: i32, greatest: i32) -> i32 {
    let mut above: Vec<u8> = plan.streams.iter().map(|s| s.priority).filter(|&p| p > priority).collect();
    above.sort_unstable();
    above.dedup();
    (greatest + 1 + above.len() as i32).clamp(greatest.min(least), least.max(greatest))
}
