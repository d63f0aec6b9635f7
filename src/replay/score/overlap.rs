//! Areas of boxes: x0, y0, x1, y1, of which the first two are not above the last two. Other boxes are empty.

/// The area of a box.
pub fn area([x0, y0, x1, y1]: [f64; 4]) -> f64 {
    // `max` turns not-a-number into 0.
    (x1 - x0).max(0.0) * (y1 - y0).max(0.0)
}

/// The area that two boxes share.
pub fn intersection(a: [f64; 4], b: [f64; 4]) -> f64 {
    let is_number = a.iter().chain(&b).all(|v| !v.is_nan());
    match is_number {
        true => area([a[0].max(b[0]), a[1].max(b[1]), a[2].min(b[2]), a[3].min(b[3])]),
        false => 0.0,
    }
}

/// The area that two boxes share, as a share of what they cover together, 0 to 1; 0 where they are empty.
pub fn iou(a: [f64; 4], b: [f64; 4]) -> f64 {
    let shared = intersection(a, b);
    let covered = area(a) + area(b) - shared;
    if shared > 0.0 && covered > 0.0 { shared / covered } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_overlap_by_what_they_share() {
        let a = [0.0, 0.0, 10.0, 10.0];
        assert_eq!(iou(a, a), 1.0);
        assert_eq!(iou(a, [5.0, 0.0, 15.0, 10.0]), 1.0 / 3.0);
        assert_eq!(iou(a, [10.0, 0.0, 20.0, 10.0]), 0.0);
        assert_eq!(intersection(a, [-5.0, 8.0, 5.0, 100.0]), 10.0);
        assert_eq!(area([3.0, 3.0, 1.0, 1.0]), 0.0);
    }

    #[test]
    fn what_is_no_box_overlaps_nothing() {
        let a = [0.0, 0.0, 10.0, 10.0];
        for b in [[f64::NAN; 4], [0.0, f64::NAN, 10.0, 10.0], [4.0; 4], [10.0, 10.0, 0.0, 0.0]] {
            assert_eq!((iou(a, b), iou(b, b)), (0.0, 0.0), "{b:?}");
        }
        assert_eq!(iou(a, [f64::NEG_INFINITY, 0.0, f64::INFINITY, 10.0]), 0.0);
    }
}
