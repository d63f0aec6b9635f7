//! Weights read into the GPU's cache before the kernels that need them begin.
//!
//! At a small batch a network's first layers leave memory idle, while its last ones wait for nothing else. Where the weights
//! of a frame do not stay in the cache from frame to frame, launches beside the streams ask for those to come: some when the
//! frame begins, more as layers end and leave room. What is asked for and not yet used stays within a part of the cache.

use super::bind::{Area, Launch, Weights};
use bytemuck::{Pod, Zeroable};

/// Smallest cache that is worth it: in smaller ones, weights would push out what layers hand on.
const SMALLEST_CACHE: u64 = 32 << 20;
/// Stretches of one launch; more are left out.
const MAX_STRETCHES: usize = 64;
/// [`Part::part`] of weights that are asked for whole.
const WHOLE: u32 = 1024;
const BLOCKS: u32 = 8;
const THREADS: u32 = 128;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Stretch {
    address: u64,
    bytes: u64,
    step: u64,
    part: u32,
    padding: u32,
}

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Params {
    count: u32,
    padding: u32,
    stretches: [Stretch; MAX_STRETCHES],
}

/// What is asked for of a step's weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The step of the frame, counted in the order of issue.
    pub step: usize,
    /// How much of its weights, in 1024ths.
    pub part: u32,
}

/// The weights of a step: how many bytes, and whether a part of them is of use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Bytes, 0 for none.
    pub bytes: u64,
    /// True if the kernel reads them evenly, so that a part of all its steps helps every block.
    pub divides: bool,
}

/// What to ask for, by moment: 0 is the frame's beginning, `m` the end of step `m - 1`, when step `m` begins. Empty where the
/// weights of all steps stay in a cache of `cache` bytes anyway.
pub fn requests(needs: &[Need], cache: u64) -> Vec<Vec<Part>> {
    // What layers hand on needs room, too, and lines are placed by chance.
    let budget = cache / 8 * 5;
    let total: u64 = needs.iter().map(|n| n.bytes).sum();
    if cache < SMALLEST_CACHE || total <= budget {
        return Vec::new();
    }
    let mut all = vec![Vec::new(); needs.len()];
    let mut taken = vec![0; needs.len()];
    let (mut held, mut next) = (0, 0);
    for (moment, parts) in all.iter_mut().enumerate() {
        if moment > 0 {
            held -= taken[moment - 1];
            // The step that begins now reads its weights itself.
            next = next.max(moment + 1);
            if budget - held < budget / 4 {
                continue;
            }
        }
        while let Some(need) = needs.get(next) {
            let room = budget - held;
            // A part of what never fits, once most of the room is there.
            let part = match need.bytes {
                bytes if bytes <= room => WHOLE,
                bytes if need.divides && bytes > budget / 2 && room >= budget / 4 * 3 => (room * u64::from(WHOLE) / bytes) as u32,
                _ => break,
            };
            taken[next] = need.bytes.min(room);
            held += taken[next];
            if need.bytes > 0 {
                parts.push(Part { step: next, part });
            }
            next += 1;
        }
    }
    all
}

/// The launch that asks for parts of weights.
pub fn launch(parts: &[(Area, Weights, u32)]) -> Launch {
    let mut params = Params::zeroed();
    for (to, (area, weights, part)) in params.stretches.iter_mut().zip(parts) {
        *to = Stretch {
            address: area.address,
            bytes: area.bytes,
            step: weights.step.unwrap_or(area.bytes).max(1),
            part: *part,
            padding: 0,
        };
        params.count += 1;
    }
    Launch::new("ahead", "ahead", BLOCKS, 0, THREADS, &params)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;
    /// Of which 40 MiB are used.
    const CACHE: u64 = 64 * MB;

    fn of(megabytes: &[u64]) -> Vec<Vec<(usize, u32)>> {
        let needs: Vec<Need> = megabytes
            .iter()
            .map(|m| Need {
                bytes: m * MB,
                divides: *m >= 50,
            })
            .collect();
        let pairs = |parts: &Vec<Part>| parts.iter().map(|p| (p.step, p.part)).collect();
        requests(&needs, CACHE).iter().map(pairs).collect()
    }

    #[test]
    fn the_struct_has_the_sources_bytes() {
        assert_eq!(std::mem::size_of::<Params>(), 8 + 32 * MAX_STRETCHES);
        let source = include_str!("kernels/ahead.cu");
        for line in ["MAX_STRETCHES = 64;", "WHOLE = 1024;"] {
            assert!(source.contains(line), "{line}");
        }
    }

    #[test]
    fn weights_that_stay_in_the_cache_are_not_asked_for() {
        assert!(of(&[10, 0, 30]).is_empty());
        let small = [Need {
            bytes: 60 * MB,
            divides: true,
        }];
        assert!(requests(&small, SMALLEST_CACHE - 1).is_empty());
    }

    #[test]
    fn what_fits_comes_at_the_beginning_and_the_rest_as_room_is_made() {
        // The third has no room before the first has ended; the fourth, none beside it.
        let found = of(&[15, 15, 15, 20]);
        assert_eq!(found, [vec![(0, WHOLE), (1, WHOLE)], vec![(2, WHOLE)], vec![(3, WHOLE)], vec![]]);
    }

    #[test]
    fn of_what_never_fits_a_part_is_asked_for_once_most_of_the_room_is_there() {
        // 10 MiB leave 30 of the 80 that the third reads.
        assert_eq!(of(&[10, 0, 80]), [vec![(0, WHOLE), (2, 384)], vec![], vec![]]);
        assert_eq!(of(&[30, 0, 80]), [vec![(0, WHOLE)], vec![(2, 512)], vec![]]);
        // What one kernel reads unevenly is read whole or not at all.
        assert!(of(&[45, 41]).concat().is_empty());
    }
}
