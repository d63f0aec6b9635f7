//! The contact sheet: thumbnails of a replay's overlays on one page.

use super::canvas::{Canvas, Color};
use crate::replay::picture::Picture;

/// Most thumbnails on a sheet.
pub const MOST: usize = 24;
/// Width of a thumbnail, in pixels.
const WIDTH: u32 = 480;
/// Space around thumbnails, in pixels.
const GAP: u32 = 8;
const PAPER: Color = [28, 30, 36];

/// Gathers thumbnails, evenly spaced over a replay of known length.
pub struct ContactSheet {
    every: usize,
    seen: usize,
    thumbnails: Vec<Picture>,
}

impl ContactSheet {
    /// A sheet for `pictures` pictures.
    pub fn new(pictures: usize) -> ContactSheet {
        ContactSheet {
            every: pictures.div_ceil(MOST).max(1),
            seen: 0,
            thumbnails: Vec::new(),
        }
    }

    /// Adds the next picture, if it is one of those shown. Up to [`MOST`] are kept.
    pub fn add(&mut self, picture: &Picture) {
        if self.seen.is_multiple_of(self.every) && self.thumbnails.len() < MOST {
            self.thumbnails.push(picture.thumbnail(WIDTH));
        }
        self.seen += 1;
    }

    /// The sheet, about as wide as it is high; `None` without pictures.
    pub fn finish(self) -> Option<Picture> {
        let n = u32::try_from(self.thumbnails.len()).ok().filter(|&n| n > 0)?;
        let height = self.thumbnails.iter().map(Picture::height).max()?;
        let width = self.thumbnails.iter().map(Picture::width).max()?;
        let columns = (1..=n).find(|c| c * width >= n.div_ceil(*c) * height)?;
        let rows = n.div_ceil(columns);
        let sheet = Picture::filled(GAP + columns * (width + GAP), GAP + rows * (height + GAP), PAPER)?;
        let mut canvas = Canvas::new(sheet);
        for (i, thumbnail) in (0..n).zip(&self.thumbnails) {
            let (column, row) = (i % columns, i / columns);
            canvas.paste(
                thumbnail,
                (GAP + column * (width + GAP)) as i32,
                (GAP + row * (height + GAP)) as i32,
            );
        }
        Some(canvas.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_replay_is_sampled_evenly() {
        let mut sheet = ContactSheet::new(100);
        for i in 0..100u8 {
            sheet.add(&Picture::filled(16, 9, [i; 3]).unwrap());
        }
        let shown: Vec<u8> = sheet.thumbnails.iter().map(|t| t.rgb()[0]).collect();
        assert_eq!(shown.len(), 20);
        assert!(shown.iter().enumerate().all(|(i, &v)| usize::from(v) == 5 * i));
        let page = sheet.finish().unwrap();
        assert!(page.width() >= page.height());
    }

    #[test]
    fn every_thumbnail_has_its_place() {
        let mut sheet = ContactSheet::new(3);
        for i in 1..=3 {
            sheet.add(&Picture::filled(10, 10, [i * 60; 3]).unwrap());
        }
        let page = sheet.finish().unwrap();
        assert_eq!(page.size(), (2 * 10 + 3 * 8, 2 * 10 + 3 * 8));
        assert_eq!(
            [page.pixel(8, 8), page.pixel(26, 8), page.pixel(8, 26)],
            [[60; 3], [120; 3], [180; 3]]
        );
        assert_eq!(page.pixel(26, 26), PAPER);
        assert!(ContactSheet::new(0).finish().is_none());
    }
}
