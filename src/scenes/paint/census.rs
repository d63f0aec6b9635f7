//! Counts which pixels show which object, and gives the frame its list of objects.

use super::brush::Footprint;
use crate::scenes::truth::{Class, MAX_HAZE, MIN_HEIGHT, MIN_VISIBLE, Object, Signal};
use crate::scenes::{HEIGHT, WIDTH};

/// Lower objects are not listed at all, in pixels.
const LISTED: u32 = 8;

/// An object that was painted.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Its number in the drive.
    pub id: u32,
    /// What it is.
    pub class: Class,
    /// What it says.
    pub signal: Option<Signal>,
    /// What it covers.
    pub footprint: Footprint,
    /// Share of haze before it, 0..=256.
    pub haze: i32,
}

/// Pixels of an object.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    count: u32,
    /// Left, top, right, bottom, the last two exclusive.
    bounds: [u32; 4],
}

/// The objects of a frame while it is painted.
#[derive(Clone, Debug, Default)]
pub struct Census {
    seen: Vec<Seen>,
    tallies: Vec<Tally>,
}

impl Census {
    /// Forgets the last frame.
    pub fn start(&mut self) {
        self.seen.clear();
    }

    /// Number that the pixels of the next object carry.
    pub fn next(&self) -> u16 {
        self.seen.len() as u16 + 1
    }

    /// Adds the object that carries [`Census::next`].
    pub fn add(&mut self, seen: Seen) {
        self.seen.push(seen);
    }

    /// Lists the objects by what is left of them in the finished picture.
    pub fn count(&mut self, owners: &[u16], objects: &mut Vec<Object>) {
        self.tallies.clear();
        self.tallies.resize(
            self.seen.len() + 1,
            Tally {
                count: 0,
                bounds: [u32::MAX, u32::MAX, 0, 0],
            },
        );
        for (y, row) in owners.chunks_exact(WIDTH).enumerate() {
            let mut x = 0;
            while x < WIDTH {
                // Most of the picture belongs to no object.
                if x % 16 == 0 && row[x..x + 16].iter().all(|&owner| owner == 0) {
                    x += 16;
                    continue;
                }
                let owner = row[x];
                let mut end = x + 1;
                while end < WIDTH && row[end] == owner && (owner != 0 || end % 16 != 0) {
                    end += 1;
                }
                if owner != 0 {
                    let tally = &mut self.tallies[usize::from(owner)];
                    let bounds = &mut tally.bounds;
                    tally.count += (end - x) as u32;
                    *bounds = [
                        bounds[0].min(x as u32),
                        bounds[1].min(y as u32),
                        bounds[2].max(end as u32),
                        bounds[3].max(y as u32 + 1),
                    ];
                }
                x = end;
            }
        }
        objects.clear();
        objects.extend(
            self.seen
                .iter()
                .zip(&self.tallies[1..])
                .filter_map(|(seen, tally)| object(seen, tally)),
        );
    }
}

fn object(seen: &Seen, tally: &Tally) -> Option<Object> {
    let height = tally.bounds[3].saturating_sub(tally.bounds[1]);
    if tally.count == 0 || height < LISTED {
        return None;
    }
    let whole = u64::from(seen.footprint.covered.max(1)) * 1000 / u64::from(inside(&seen.footprint)).max(1);
    let visible = (u64::from(tally.count) * 1000 / whole.max(1)).min(1000) as u16;
    let ignored = height < MIN_HEIGHT || visible < MIN_VISIBLE || seen.haze > MAX_HAZE;
    Some(Object {
        id: seen.id,
        class: seen.class,
        signal: seen.signal,
        bounds: tally.bounds,
        visible,
        ignored,
    })
}

/// Share of an object's rectangle that lies in the picture, in thousandths: an estimate of the share of its pixels.
fn inside(footprint: &Footprint) -> u32 {
    let Some([left, top, right, bottom]) = footprint.reach else {
        return 1000;
    };
    let area = |left: i32, top: i32, right: i32, bottom: i32| i64::from((right - left).max(1)) * i64::from((bottom - top).max(1));
    let (width, height) = (WIDTH as i32 * 256, HEIGHT as i32 * 256);
    let cut = area(
        left.max(0).min(width),
        top.max(0).min(height),
        right.min(width).max(0),
        bottom.min(height).max(0),
    );
    (cut * 1000 / area(left, top, right, bottom)).clamp(1, 1000) as u32
}
