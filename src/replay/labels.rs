//! Label maps from a network's resolution to the size of the picture they belong to.

use crate::primitive::Fit;

/// Resamples a label map of `size` (width, height) to the `source` picture it was computed from.
///
/// Nearest neighbour with half-pixel centres: source pixel `x` reads map column `floor((x + 0.5) * w / W)` of the part
/// of the map that `fit` places the picture in, so letterbox bars are cut off. `None` where the map does not hold
/// `width * height` labels, or a size is 0.
pub fn to_source(map: &[u8], size: (u32, u32), fit: Fit, source: (u32, u32)) -> Option<Vec<u8>> {
    let (width, height) = size;
    let empty = [width, height, source.0, source.1].contains(&0);
    if empty || map.len() as u64 != u64::from(width) * u64::from(height) {
        return None;
    }
    let placed = fit.place(source, size);
    let columns = nearest(source.0, placed.x, placed.width, width);
    let rows = nearest(source.1, placed.y, placed.height, height);
    let mut out = Vec::with_capacity(columns.len() * rows.len());
    for row in rows {
        let line = &map[row * width as usize..][..width as usize];
        out.extend(columns.iter().map(|&column| line[column]));
    }
    Some(out)
}

/// For each of `n` source pixels the nearest of the `length` map pixels from `start` on, within a map of `limit` pixels.
fn nearest(n: u32, start: u32, length: u32, limit: u32) -> Vec<usize> {
    let (n, length) = (u64::from(n), u64::from(length));
    (0..n)
        .map(|i| (u64::from(start) + (2 * i + 1) * length / (2 * n)).min(u64::from(limit) - 1) as usize)
        .collect()
}

/// The share of each of the first `labels` labels among the pixels of `map`; zeros for an empty map.
pub fn fractions(map: &[u8], labels: usize) -> Vec<f64> {
    let mut counts = [0u64; 256];
    map.iter().for_each(|&label| counts[usize::from(label)] += 1);
    let all = map.len().max(1) as f64;
    counts.iter().take(labels).map(|&n| n as f64 / all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretching_doubles_and_halves_around_centres() {
        let map = [1, 2, 3, 4];
        let double = to_source(&map, (2, 2), Fit::Stretch, (4, 4)).unwrap();
        assert_eq!(double, [1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4]);
        assert_eq!(to_source(&double, (4, 4), Fit::Stretch, (2, 2)).unwrap(), map);
        // Three pixels over two: the middle one's centre lies on the border and goes right.
        assert_eq!(to_source(&[7, 8], (2, 1), Fit::Stretch, (3, 1)).unwrap(), [7, 8, 8]);
    }

    #[test]
    fn letterbox_bars_are_cut_off() {
        // An 8 x 4 picture in a 4 x 4 map: two rows of picture, the rest filled.
        let top_left: Vec<u8> = [[1; 4], [2; 4], [9; 4], [9; 4]].concat();
        let out = to_source(&top_left, (4, 4), Fit::LetterboxTopLeft, (8, 4)).unwrap();
        assert_eq!(out, [[1; 16], [2; 16]].concat());
        let centred: Vec<u8> = [[9; 4], [1; 4], [2; 4], [9; 4]].concat();
        assert_eq!(to_source(&centred, (4, 4), Fit::LetterboxCentred, (8, 4)).unwrap(), out);
    }

    #[test]
    fn a_map_of_the_wrong_length_is_refused() {
        assert_eq!(to_source(&[0; 5], (2, 2), Fit::Stretch, (2, 2)), None);
        assert_eq!(to_source(&[], (0, 2), Fit::Stretch, (2, 2)), None);
        assert_eq!(to_source(&[0; 4], (2, 2), Fit::Stretch, (2, 0)), None);
    }

    #[test]
    fn fractions_count_the_named_labels_only() {
        assert_eq!(fractions(&[0, 1, 1, 7], 3), [0.25, 0.5, 0.0]);
        assert_eq!(fractions(&[], 2), [0.0, 0.0]);
    }
}
