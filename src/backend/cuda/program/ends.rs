//! Where segments and tenants end, and who waits for that.

use crate::ids::{StreamId, TenantId};
use crate::plan::format::FrameSchedule;
use std::collections::BTreeMap;

/// Which segments end where: worked out before the commands are put together.
pub struct Ends {
    /// Per segment: another lane waits for its end.
    pub awaited: Vec<bool>,
    /// Per segment: the segments of other streams that it waits for, the last of each.
    pub waits: Vec<Vec<usize>>,
    /// Per tenant: its last segment of all, and its last of each stream.
    pub tenants: BTreeMap<TenantId, BTreeMap<StreamId, usize>>,
}

impl Ends {
    /// The ends of a frame schedule's segments.
    pub fn of(schedule: &FrameSchedule) -> Ends {
        let count = schedule.segments.len();
        let stream = |s: usize| schedule.segments[s].stream;
        let mut last: Vec<BTreeMap<StreamId, usize>> = vec![BTreeMap::new(); count];
        for sync in &schedule.syncs {
            for before in &sync.before {
                for after in sync
                    .after
                    .iter()
                    .map(|s| s.index())
                    .filter(|&a| stream(a) != stream(before.index()))
                {
                    let latest = last[before.index()].entry(stream(after)).or_insert(after);
                    *latest = (*latest).max(after);
                }
            }
        }
        let waits: Vec<Vec<usize>> = last.into_iter().map(|l| l.into_values().collect()).collect();
        let mut tenants: BTreeMap<TenantId, BTreeMap<StreamId, usize>> = BTreeMap::new();
        for (index, segment) in schedule.segments.iter().enumerate() {
            tenants.entry(segment.tenant).or_default().insert(segment.stream, index);
        }
        let mut awaited = vec![false; count];
        let results = tenants.values().flat_map(|ends| ends.values());
        waits.iter().flatten().chain(results).for_each(|&s| awaited[s] = true);
        Ends { awaited, waits, tenants }
    }

    /// True if the segment is the tenant's last of all.
    pub fn finishes(&self, tenant: TenantId, segment: usize) -> bool {
        self.tenants.get(&tenant).and_then(|ends| ends.values().max()) == Some(&segment)
    }
}
