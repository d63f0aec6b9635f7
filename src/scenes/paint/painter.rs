//! Convex polygons with soft edges on a picture that knows what each pixel shows.
//!
//! Each row of pixels is cut into four thin rows; on each the polygon covers one interval, so that a pixel's coverage is the
//! sum of four overlaps. Later polygons cover earlier ones: the caller paints from far to near.

use crate::scenes::mesh::Rgb;
use crate::scenes::truth::Surface;
use crate::scenes::{HEIGHT, WIDTH};

/// Thin rows in a row of pixels.
const THIN: i32 = 4;
/// Coverage of a pixel that is covered fully: each thin row gives up to 256.
const FULL: i32 = THIN * 256;

/// A place in the picture, in 1/256 pixels from its left top corner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Spot {
    /// To the right.
    pub x: i32,
    /// Down.
    pub y: i32,
}

/// What a polygon leaves behind.
#[derive(Clone, Copy, Debug)]
pub struct Ink {
    /// Its colour.
    pub colour: Rgb,
    /// How much it hides, 0..=256.
    pub alpha: i32,
    /// Half a pixel wider on every side at half strength, so that no seam shows between neighbouring faces of a solid.
    pub sealed: bool,
    /// What the pixels show that it covers at least by half; `None` leaves them as they are.
    pub claim: Option<(Surface, u16)>,
}

impl Ink {
    /// Paint that changes no label.
    pub fn wash(colour: Rgb, alpha: i32) -> Ink {
        Ink {
            colour,
            alpha,
            sealed: false,
            claim: None,
        }
    }

    /// Paint on the ground that changes the label.
    pub fn mark(colour: Rgb, alpha: i32, surface: Surface) -> Ink {
        Ink {
            colour,
            alpha,
            sealed: false,
            claim: Some((surface, 0)),
        }
    }
}

/// The picture under work.
#[derive(Clone, Debug, Default)]
pub struct Canvas {
    /// RGB8.
    pub pixels: Vec<u8>,
    /// [`Surface`] by number.
    pub labels: Vec<u8>,
    /// Number in this frame of the object that each pixel shows; 0 for none.
    pub owners: Vec<u16>,
    /// Interval of each thin row, in 1/256 pixels.
    spans: Vec<(i32, i32)>,
}

/// Mixes a share of `weight`/256 of `colour` into a pixel.
#[inline(always)]
pub fn blend(pixel: &mut [u8], colour: Rgb, weight: i32) {
    for (value, target) in pixel.iter_mut().zip([colour.0, colour.1, colour.2]) {
        let old = i32::from(*value);
        *value = (old + (((i32::from(target) - old) * weight + 128) >> 8)) as u8;
    }
}

impl Canvas {
    /// Makes room for a picture; what it showed before is arbitrary.
    pub fn prepare(&mut self) {
        self.pixels.resize(WIDTH * HEIGHT * 3, 0);
        self.labels.resize(WIDTH * HEIGHT, Surface::Other as u8);
        self.owners.resize(WIDTH * HEIGHT, 0);
        self.owners.fill(0);
        self.spans.resize(HEIGHT * THIN as usize, (0, 0));
    }

    /// Paints a convex polygon. Returns how many pixels came newly into the hands of the ink's object.
    pub fn polygon(&mut self, corners: &[Spot], ink: &Ink) -> u32 {
        let Some((top, bottom)) = self.trace(corners) else { return 0 };
        let mut claimed = 0;
        for row in top / THIN..=(bottom - 1) / THIN {
            claimed += self.row(row, top, bottom, ink);
        }
        claimed
    }

    /// Fills the intervals of the thin rows that the polygon meets; returns the first and the one after the last.
    fn trace(&mut self, corners: &[Spot]) -> Option<(i32, i32)> {
        const STEP: i32 = 256 / THIN;
        let (mut low, mut high) = (i32::MAX, i32::MIN);
        for corner in corners {
            low = low.min(corner.y);
            high = high.max(corner.y);
        }
        // Thin row t is measured at y = t * STEP + STEP / 2.
        let line_at = |y: i32| (y - STEP / 2 + STEP - 1).div_euclid(STEP);
        let top = line_at(low).max(0);
        let bottom = line_at(high).min(HEIGHT as i32 * THIN);
        if top >= bottom {
            return None;
        }
        self.spans[top as usize..bottom as usize].fill((i32::MAX, i32::MIN));
        for (index, &from) in corners.iter().enumerate() {
            let to = corners[if index + 1 == corners.len() { 0 } else { index + 1 }];
            let (a, b) = if from.y <= to.y { (from, to) } else { (to, from) };
            let (first, last) = (line_at(a.y).max(top), line_at(b.y).min(bottom));
            if first >= last {
                continue;
            }
            let slope = (i64::from(b.x - a.x) << 16) / i64::from(b.y - a.y);
            let mut x = (i64::from(a.x) << 16) + slope * i64::from(first * STEP + STEP / 2 - a.y);
            for span in &mut self.spans[first as usize..last as usize] {
                let at = (x >> 16).clamp(0, WIDTH as i64 * 256) as i32;
                span.0 = span.0.min(at);
                span.1 = span.1.max(at);
                x += slope * i64::from(STEP);
            }
        }
        Some((top, bottom))
    }

    /// Paints the part of a traced polygon in one row of pixels.
    fn row(&mut self, row: i32, top: i32, bottom: i32, ink: &Ink) -> u32 {
        let mut thin = [(0, 0); THIN as usize];
        let (mut outer, mut inner) = ((i32::MAX, i32::MIN), (i32::MIN, i32::MAX));
        for (index, span) in thin.iter_mut().enumerate() {
            let line = row * THIN + index as i32;
            if line >= top && line < bottom {
                *span = self.spans[line as usize];
            }
            if span.0 < span.1 {
                outer = (outer.0.min(span.0), outer.1.max(span.1));
            }
            inner = (inner.0.max(span.0), inner.1.min(span.1));
        }
        if outer.0 >= outer.1 {
            return 0;
        }
        let (start, end) = (outer.0 >> 8, ((outer.1 + 255) >> 8).min(WIDTH as i32));
        let whole = thin.iter().all(|span| span.0 < span.1);
        let (solid_start, solid_end) = if whole { ((inner.0 + 255) >> 8, inner.1 >> 8) } else { (end, end) };
        let (solid_start, solid_end) = if solid_start < solid_end {
            (solid_start, solid_end)
        } else {
            (end, end)
        };
        let mut claimed = self.soft(row, start..solid_start.min(end), &thin, ink);
        if solid_start < solid_end {
            claimed += self.solid(row, solid_start, solid_end, ink);
            claimed += self.soft(row, solid_end..end, &thin, ink);
        }
        claimed
    }

    /// Pixels that the polygon may cover in part.
    fn soft(&mut self, row: i32, columns: std::ops::Range<i32>, thin: &[(i32, i32)], ink: &Ink) -> u32 {
        let mut claimed = 0;
        for column in columns {
            let (left, right) = (column << 8, (column + 1) << 8);
            let covered: i32 = thin.iter().map(|span| (span.1.min(right) - span.0.max(left)).max(0)).sum();
            if covered == 0 {
                continue;
            }
            let at = row as usize * WIDTH + column as usize;
            let strength = if ink.sealed { (covered + covered / 2).min(FULL) } else { covered };
            blend(&mut self.pixels[at * 3..at * 3 + 3], ink.colour, (strength * ink.alpha) >> 10);
            if let Some((surface, owner)) = ink.claim
                && covered * 2 >= FULL
            {
                self.labels[at] = surface as u8;
                claimed += u32::from(self.owners[at] != owner);
                self.owners[at] = owner;
            }
        }
        claimed
    }

    /// Pixels that the polygon covers fully.
    fn solid(&mut self, row: i32, start: i32, end: i32, ink: &Ink) -> u32 {
        let range = row as usize * WIDTH + start as usize..row as usize * WIDTH + end as usize;
        let pixels = &mut self.pixels[range.start * 3..range.end * 3];
        if ink.alpha >= 256 {
            for pixel in pixels.chunks_exact_mut(3) {
                pixel.copy_from_slice(&[ink.colour.0, ink.colour.1, ink.colour.2]);
            }
        } else {
            for pixel in pixels.chunks_exact_mut(3) {
                blend(pixel, ink.colour, ink.alpha);
            }
        }
        let Some((surface, owner)) = ink.claim else { return 0 };
        self.labels[range.clone()].fill(surface as u8);
        let owners = &mut self.owners[range];
        let claimed = owners.iter().filter(|&&old| old != owner).count() as u32;
        owners.fill(owner);
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(left: i32, top: i32, right: i32, bottom: i32) -> [Spot; 4] {
        [
            Spot { x: left, y: top },
            Spot { x: right, y: top },
            Spot { x: right, y: bottom },
            Spot { x: left, y: bottom },
        ]
    }

    #[test]
    fn coverage_adds_up_to_the_area() {
        let mut canvas = Canvas::default();
        canvas.prepare();
        // 10.5 by 6.25 pixels: a quarter of a row and half of a column are covered in part.
        canvas.polygon(&square(2560, 2560, 2560 + 2688, 2560 + 1600), &Ink::wash(Rgb(255, 255, 255), 256));
        let sum: u32 = canvas.pixels.iter().map(|&value| u32::from(value)).sum();
        let expected = 3 * 255 * 105 * 625 / 1000;
        assert!(sum.abs_diff(expected) < expected / 100, "{sum} for {expected}");
    }

    #[test]
    fn a_polygon_beyond_the_border_is_cut_and_claims_what_is_inside() {
        let mut canvas = Canvas::default();
        canvas.prepare();
        let ink = Ink {
            colour: Rgb(9, 9, 9),
            alpha: 256,
            sealed: false,
            claim: Some((Surface::Vehicle, 7)),
        };
        assert_eq!(canvas.polygon(&square(-100_000_000, -5000, 20 * 256, 10 * 256), &ink), 200);
        assert_eq!(canvas.polygon(&square(0, 0, 10 * 256, 10 * 256), &ink), 0, "already its own");
        assert_eq!(canvas.labels.iter().filter(|&&label| label == Surface::Vehicle as u8).count(), 200);
    }

    #[test]
    fn half_covered_pixels_are_claimed_and_others_not() {
        let mut canvas = Canvas::default();
        canvas.prepare();
        let ink = Ink {
            colour: Rgb(9, 9, 9),
            alpha: 256,
            sealed: false,
            claim: Some((Surface::Person, 1)),
        };
        assert_eq!(canvas.polygon(&square(128, 0, 512 + 100, 256), &ink), 2);
    }
}
