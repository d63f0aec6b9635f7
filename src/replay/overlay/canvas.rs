//! Drawing on an RGB picture: rectangles, blends and text, all clipped to the picture.

use super::font;
use crate::replay::picture::Picture;

/// Red, green, blue.
pub type Color = [u8; 3];

/// White text.
pub const WHITE: Color = [255, 255, 255];
/// Dark text on light plates, and panels.
pub const INK: Color = [16, 18, 22];

/// A picture being drawn on.
pub struct Canvas {
    picture: Picture,
}

/// A rectangle in pixels; may reach outside the picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// Left edge.
    pub x: i32,
    /// Top edge.
    pub y: i32,
    /// Width; nothing is drawn for 0 and below.
    pub width: i32,
    /// Height; nothing is drawn for 0 and below.
    pub height: i32,
}

impl Rect {
    /// True if the rectangles share a pixel. Both lie near the picture, so that their far edges can be counted.
    pub fn meets(&self, other: &Rect) -> bool {
        let across = self.x < other.x + other.width && other.x < self.x + self.width;
        across && self.y < other.y + other.height && other.y < self.y + self.height
    }

    /// The part of the rectangle inside a picture of `width` x `height`: columns and rows, or `None` if there is none.
    fn clipped(self, width: u32, height: u32) -> Option<(std::ops::Range<usize>, std::ops::Range<usize>)> {
        let span = |start: i32, length: i32, limit: u32| {
            let limit = i64::from(limit);
            let from = i64::from(start).clamp(0, limit);
            let to = (i64::from(start) + i64::from(length)).clamp(0, limit);
            (from < to).then_some(from as usize..to as usize)
        };
        Some((span(self.x, self.width, width)?, span(self.y, self.height, height)?))
    }
}

/// `over` laid on `under` with `alpha` of 256 parts.
pub fn mix(under: Color, over: Color, alpha: u32) -> Color {
    let alpha = alpha.min(256);
    std::array::from_fn(|c| ((u32::from(under[c]) * (256 - alpha) + u32::from(over[c]) * alpha + 128) >> 8).min(255) as u8)
}

/// Dark or white, whichever is read better on `plate`.
pub fn readable_on(plate: Color) -> Color {
    let luma = 299 * u32::from(plate[0]) + 587 * u32::from(plate[1]) + 114 * u32::from(plate[2]);
    if luma > 140_000 { INK } else { WHITE }
}

impl Canvas {
    /// Starts drawing on `picture`.
    pub fn new(picture: Picture) -> Canvas {
        Canvas { picture }
    }

    /// The drawn picture.
    pub fn finish(self) -> Picture {
        self.picture
    }

    /// Width in pixels.
    pub fn width(&self) -> u32 {
        self.picture.width()
    }

    /// Height in pixels.
    pub fn height(&self) -> u32 {
        self.picture.height()
    }

    /// Lays `color` over the rectangle with `alpha` of 256 parts.
    pub fn fill(&mut self, rect: Rect, color: Color, alpha: u32) {
        let Some((columns, rows)) = rect.clipped(self.width(), self.height()) else {
            return;
        };
        for y in rows {
            for x in columns.clone() {
                let pixel = self.picture.pixel_mut(x, y);
                *pixel = mix(*pixel, color, alpha);
            }
        }
    }

    /// Draws a frame of `thickness` pixels inside the rectangle's edges, with a thin dark rim on both sides.
    pub fn outline(&mut self, rect: Rect, thickness: i32, color: Color) {
        let rim = |rect: Rect, by: i32| Rect {
            x: rect.x - by,
            y: rect.y - by,
            width: rect.width + 2 * by,
            height: rect.height + 2 * by,
        };
        self.edges(rim(rect, 1), 1, INK, 128);
        self.edges(rect, thickness, color, 256);
        self.edges(rim(rect, -thickness), 1, INK, 96);
    }

    fn edges(&mut self, rect: Rect, thickness: i32, color: Color, alpha: u32) {
        let Rect { x, y, width, height } = rect;
        let t = thickness.min(width).min(height);
        let side = height - 2 * t;
        self.fill(Rect { x, y, width, height: t }, color, alpha);
        self.fill(
            Rect {
                x,
                y: y + height - t,
                width,
                height: t,
            },
            color,
            alpha,
        );
        self.fill(
            Rect {
                x,
                y: y + t,
                width: t,
                height: side,
            },
            color,
            alpha,
        );
        self.fill(
            Rect {
                x: x + width - t,
                y: y + t,
                width: t,
                height: side,
            },
            color,
            alpha,
        );
    }

    /// Lays the colour that `label_color` gives for each byte of `map` over its pixel, with `alpha` of 256 parts.
    /// `map` has the picture's size, row by row; a shorter map covers its rows only.
    pub fn labels(&mut self, map: &[u8], label_color: impl Fn(u8) -> Option<Color>, alpha: u32) {
        let colors: Vec<Option<Color>> = (0..=u8::MAX).map(label_color).collect();
        for (pixel, &label) in self.picture.pixels_mut().zip(map) {
            if let Some(color) = colors[usize::from(label)] {
                *pixel = mix(*pixel, color, alpha);
            }
        }
    }

    /// Writes `text` with its top left corner at `(x, y)`, `scale` pixels a dot.
    pub fn text(&mut self, x: i32, y: i32, text: &str, scale: u32, color: Color) {
        let scale = scale.max(1);
        let mut left = x;
        for c in text.chars() {
            let glyph = font::glyph(c);
            for dy in 0..font::GLYPH_HEIGHT * scale {
                for dx in (0..font::GLYPH_WIDTH * scale).filter(|&dx| font::inked(&glyph, scale, dx, dy)) {
                    let (px, py) = (left + dx as i32, y + dy as i32);
                    if (0..self.width() as i32).contains(&px) && (0..self.height() as i32).contains(&py) {
                        *self.picture.pixel_mut(px as usize, py as usize) = color;
                    }
                }
            }
            left += (font::ADVANCE * scale) as i32;
            if left >= self.width() as i32 {
                break;
            }
        }
    }

    /// Writes `text` on a filled plate with its top left corner at `(x, y)`; returns the plate.
    pub fn plate(&mut self, x: i32, y: i32, text: &str, scale: u32, plate: Color) -> Rect {
        let rect = plate_size(text, scale);
        let rect = Rect { x, y, ..rect };
        self.fill(rect, plate, 230);
        let margin = margin(scale);
        self.text(x + margin, y + margin, text, scale, readable_on(plate));
        rect
    }

    /// Copies `picture` with its top left corner at `(x, y)`.
    pub fn paste(&mut self, picture: &Picture, x: i32, y: i32) {
        let rect = Rect {
            x,
            y,
            width: picture.width() as i32,
            height: picture.height() as i32,
        };
        let Some((columns, rows)) = rect.clipped(self.width(), self.height()) else {
            return;
        };
        for row in rows {
            for column in columns.clone() {
                let (from_x, from_y) = ((column as i32 - x) as usize, (row as i32 - y) as usize);
                *self.picture.pixel_mut(column, row) = picture.pixel(from_x, from_y);
            }
        }
    }
}

/// Space between a plate's edge and its text.
pub fn margin(scale: u32) -> i32 {
    2 * scale as i32
}

/// The size of the plate under `text`, at the origin.
pub fn plate_size(text: &str, scale: u32) -> Rect {
    Rect {
        x: 0,
        y: 0,
        width: font::width(text, scale) as i32 + 2 * margin(scale),
        height: (font::GLYPH_HEIGHT * scale) as i32 + margin(scale) + margin(scale) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blank(width: u32, height: u32) -> Canvas {
        Canvas::new(Picture::filled(width, height, [0, 0, 0]).unwrap())
    }

    fn count(canvas: Canvas, color: Color) -> usize {
        let picture = canvas.finish();
        picture.rgb().chunks_exact(3).filter(|p| *p == color).count()
    }

    #[test]
    fn drawing_outside_the_picture_is_clipped() {
        let mut canvas = blank(8, 6);
        let rect = Rect {
            x: -3,
            y: -2,
            width: 5,
            height: 4,
        };
        canvas.fill(rect, WHITE, 256);
        canvas.fill(
            Rect {
                x: i32::MAX - 1,
                y: 0,
                width: i32::MAX,
                height: 9,
            },
            WHITE,
            256,
        );
        canvas.fill(
            Rect {
                x: 0,
                y: 0,
                width: -4,
                height: 9,
            },
            WHITE,
            256,
        );
        assert_eq!(count(canvas, WHITE), 2 * 2);
        let mut canvas = blank(8, 6);
        canvas.text(-4, -3, "W", 2, WHITE);
        canvas.text(6, 5, "WWWWWW", 1, WHITE);
        let mut outlined = blank(8, 6);
        outlined.outline(
            Rect {
                x: -9,
                y: -9,
                width: 100,
                height: 100,
            },
            3,
            WHITE,
        );
        assert_eq!(count(outlined, WHITE), 0);
    }

    #[test]
    fn outline_covers_the_edges_only() {
        let mut canvas = blank(40, 30);
        canvas.outline(
            Rect {
                x: 5,
                y: 5,
                width: 20,
                height: 10,
            },
            2,
            WHITE,
        );
        assert_eq!(count(canvas, WHITE), 20 * 10 - 16 * 6);
    }

    #[test]
    fn a_plate_holds_its_text() {
        let mut canvas = blank(200, 60);
        let plate = canvas.plate(4, 3, "gjy {88%", 2, WHITE);
        let drawn = canvas.finish();
        for y in 0..60usize {
            for x in 0..200usize {
                let inside =
                    (plate.x..plate.x + plate.width).contains(&(x as i32)) && (plate.y..plate.y + plate.height).contains(&(y as i32));
                assert_eq!(drawn.pixel(x, y) != [0, 0, 0], inside, "at {x},{y}");
            }
        }
    }

    #[test]
    fn mixing_keeps_the_ends() {
        assert_eq!(mix([10, 200, 0], [255, 0, 7], 0), [10, 200, 0]);
        assert_eq!(mix([10, 200, 0], [255, 0, 7], 256), [255, 0, 7]);
    }
}
