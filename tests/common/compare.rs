//! Typed results against others of the same picture: how far apart they may be, and how far apart they are.

use platoon::runtime::Detection;

/// Scores and probabilities.
pub const SCORE: f64 = 0.02;
/// Pixels of a box's sides.
pub const SIDE: f64 = 2.0;
/// Intersection over union of a class's pixels.
pub const OVERLAP: f64 = 0.99;
/// The part of a map that a class must fill to be compared.
pub const FILLED: f64 = 0.01;

/// Score and side deviations of two detections that may be one object.
pub fn deviation(a: &Detection, b: &Detection) -> Option<[f64; 2]> {
    let score = (f64::from(a.score) - f64::from(b.score)).abs();
    let sides = a.bounds.iter().zip(b.bounds).map(|(a, b)| (f64::from(*a) - f64::from(b)).abs());
    let side = sides.fold(0.0, f64::max);
    (a.class == b.class && score <= SCORE && side <= SIDE).then_some([score, side])
}

/// Each detection on one side has a partner on the other; those within [`SCORE`] of the detector's threshold may have none.
/// Returns the largest deviations of score and side.
pub fn detections(found: &[Detection], expected: &[Detection], threshold: f64) -> Result<[f64; 2], String> {
    let mut open = expected.to_vec();
    let mut worst = [0f64; 2];
    let sure = |d: &Detection| f64::from(d.score) >= threshold + SCORE;
    for detection in found {
        match open.iter().position(|e| deviation(detection, e).is_some()) {
            Some(i) => {
                let [score, side] = deviation(detection, &open.remove(i)).unwrap_or_default();
                worst = [worst[0].max(score), worst[1].max(side)];
            }
            None if sure(detection) => return Err(format!("{detection:?} is not expected: {open:?}")),
            None => (),
        }
    }
    match open.iter().find(|d| sure(d)) {
        Some(missing) => Err(format!("{missing:?} is missing in {found:?}")),
        None => Ok(worst),
    }
}

/// Every class that fills more than [`FILLED`] of the expected map covers the same pixels in the other. Returns the smallest
/// intersection over union.
pub fn map(found: &[u8], expected: &[u8]) -> Result<f64, String> {
    if found.len() != expected.len() {
        return Err(format!("{} pixels instead of {}", found.len(), expected.len()));
    }
    let (mut both, mut either, mut filled) = ([0u64; 256], [0u64; 256], [0u64; 256]);
    for (&f, &e) in found.iter().zip(expected) {
        filled[usize::from(e)] += 1;
        either[usize::from(e)] += 1;
        if f == e {
            both[usize::from(e)] += 1;
        } else {
            either[usize::from(f)] += 1;
        }
    }
    let mut least = 1f64;
    for class in (0..256).filter(|&c| filled[c] as f64 > FILLED * expected.len() as f64) {
        let overlap = both[class] as f64 / either[class] as f64;
        if overlap < OVERLAP {
            return Err(format!(
                "class {class} overlaps by {overlap:.4}, with {} of {} pixels",
                filled[class],
                expected.len()
            ));
        }
        least = least.min(overlap);
    }
    Ok(least)
}

/// The same best class, or one that is nearly as good: its expected score is within [`SCORE`] of the best. Returns the
/// deviation of the best class's score.
pub fn best(found: &[(u32, f32)], expected: &[(u32, f32)]) -> Result<f64, String> {
    let (Some(&(class, score)), Some(&(_, top))) = (found.first(), expected.first()) else {
        return match found.len() == expected.len() {
            true => Ok(0.0),
            false => Err(format!("{found:?} instead of {expected:?}")),
        };
    };
    match expected.iter().find(|&&(c, _)| c == class) {
        Some(&(_, same)) if f64::from(top) - f64::from(same) <= SCORE => Ok((f64::from(score) - f64::from(same)).abs()),
        _ => Err(format!("{found:?} instead of {expected:?}")),
    }
}
