//! Average precision of detections, as COCO counts it, at one IoU.
//!
//! In each frame and class the detections, best first, take the free counted object of their class that they overlap most,
//! if by an IoU of [`LEAST_IOU`] or more; the later object where two are overlapped alike. A detection that takes none is
//! dropped, neither right nor wrong, if [`LEAST_INSIDE`] of its own area or more lies in an ignored object, of whatever
//! class; else it is a false alarm. This is what pycocotools does where every ignored object is a crowd (`iscrowd`) of
//! every class; an IoU of one half with an ignored object lies within this rule.
//!
//! The detections of all frames, best first, give precision and recall after each; precision is made to fall with recall
//! only, and the average precision is its mean at the recalls 0, 0.01 .. 1. Equal scores count in order of their frames'
//! numbers, and in the order given within a frame, so that the order in which frames are added does not matter.

use super::overlap::{area, intersection, iou};

/// Least IoU of a detection with the object it finds.
pub const LEAST_IOU: f64 = 0.5;
/// Least share of a detection's area inside an ignored object that keeps it from being counted as false.
pub const LEAST_INSIDE: f64 = 0.5;
/// Recalls that precision is read at.
const RECALLS: u32 = 101;

/// A detected object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
    /// Class number.
    pub class: usize,
    /// Better is higher; not a number counts as the lowest.
    pub score: f32,
    /// x0, y0, x1, y1.
    pub bounds: [f64; 4],
}

/// An object of the ground truth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Actual {
    /// Class number.
    pub class: usize,
    /// x0, y0, x1, y1.
    pub bounds: [f64; 4],
    /// Neither a hit nor a miss.
    pub ignored: bool,
}

/// What became of the detections of all frames.
#[derive(Clone, Debug)]
pub struct Precision {
    classes: Vec<ClassTally>,
}

#[derive(Clone, Debug, Default)]
struct ClassTally {
    /// Objects to be found.
    counted: u64,
    verdicts: Vec<Verdict>,
}

/// A detection that is right or wrong.
#[derive(Clone, Copy, Debug)]
struct Verdict {
    score: f32,
    frame: u64,
    hit: bool,
}

impl Precision {
    /// Nothing added yet, for classes 0 to `classes - 1`.
    pub fn new(classes: usize) -> Precision {
        Precision {
            classes: vec![ClassTally::default(); classes],
        }
    }

    /// Adds frame number `frame`, once. Classes beyond the known ones are passed over, save as ignored objects.
    pub fn add(&mut self, frame: u64, found: &[Found], actual: &[Actual]) {
        let ignored: Vec<[f64; 4]> = actual.iter().filter(|a| a.ignored).map(|a| a.bounds).collect();
        for (class, tally) in self.classes.iter_mut().enumerate() {
            let mut free: Vec<[f64; 4]> = actual.iter().filter(|a| a.class == class && !a.ignored).map(|a| a.bounds).collect();
            tally.counted += free.len() as u64;
            let mut found: Vec<Found> = found.iter().filter(|f| f.class == class).copied().collect();
            found.sort_by(|a, b| key(b.score).total_cmp(&key(a.score)));
            for f in found {
                let taken = most_overlapped(f.bounds, &free);
                let is_dropped = || ignored.iter().any(|i| lies_inside(f.bounds, *i));
                let hit = match taken {
                    Some(object) => {
                        free.remove(object);
                        true
                    }
                    None if is_dropped() => continue,
                    None => false,
                };
                let score = key(f.score);
                tally.verdicts.push(Verdict { score, frame, hit });
            }
        }
    }

    /// The average precision of a class, 0 to 1; `None` where there was nothing of it to be found.
    pub fn average(&self, class: usize) -> Option<f64> {
        let tally = self.classes.get(class).filter(|t| t.counted > 0)?;
        let mut verdicts = tally.verdicts.clone();
        // Stable: detections of a frame stay in their order.
        verdicts.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.frame.cmp(&b.frame)));
        let mut hits = 0u64;
        let mut curve: Vec<(f64, f64)> = Vec::with_capacity(verdicts.len());
        for (n, verdict) in (1u64..).zip(&verdicts) {
            hits += u64::from(verdict.hit);
            curve.push((hits as f64 / tally.counted as f64, hits as f64 / n as f64));
        }
        let mut best = 0.0f64;
        for (_, precision) in curve.iter_mut().rev() {
            best = best.max(*precision);
            *precision = best;
        }
        let at = |recall: f64| curve.get(curve.partition_point(|c| c.0 < recall)).map_or(0.0, |c| c.1);
        // Multiples of 0.01 as floats: the very thresholds that the reference compares with.
        let sum: f64 = (0..RECALLS).map(|i| at(f64::from(i) * 0.01)).sum();
        Some(sum / f64::from(RECALLS))
    }

    /// The mean of the average precisions of those of `classes` that there was anything of to be found.
    pub fn mean(&self, classes: impl IntoIterator<Item = usize>) -> Option<f64> {
        super::mean(classes.into_iter().filter_map(|c| self.average(c)))
    }
}

/// A score that can be sorted.
fn key(score: f32) -> f32 {
    if score.is_nan() { f32::NEG_INFINITY } else { score }
}

/// The index of the box that `bounds` overlaps most and enough.
fn most_overlapped(bounds: [f64; 4], boxes: &[[f64; 4]]) -> Option<usize> {
    let overlaps = boxes.iter().enumerate().map(|(i, b)| (i, iou(bounds, *b)));
    // `max_by` gives the last of equals.
    let best = overlaps.filter(|o| o.1 >= LEAST_IOU).max_by(|a, b| a.1.total_cmp(&b.1));
    best.map(|(index, _)| index)
}

fn lies_inside(bounds: [f64; 4], ignored: [f64; 4]) -> bool {
    let area = area(bounds);
    area > 0.0 && intersection(bounds, ignored) / area >= LEAST_INSIDE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(class: usize, score: f32, bounds: [f64; 4]) -> Found {
        Found { class, score, bounds }
    }

    fn actual(class: usize, bounds: [f64; 4], ignored: bool) -> Actual {
        Actual { class, bounds, ignored }
    }

    /// A square of side 10 at `x`.
    fn at(x: f64) -> [f64; 4] {
        [x, 0.0, x + 10.0, 10.0]
    }

    fn average(frames: &[(&[Found], &[Actual])]) -> Option<f64> {
        let mut precision = Precision::new(2);
        for (i, (found, actual)) in (0..).zip(frames) {
            precision.add(i, found, actual);
        }
        precision.average(0)
    }

    #[test]
    fn perfect_detections_give_one_and_none_give_zero() {
        let objects = [actual(0, at(0.0), false), actual(0, at(50.0), false)];
        let all = [found(0, 0.3, at(0.0)), found(0, 0.9, at(50.0))];
        assert_eq!(average(&[(&all, &objects), (&all, &objects)]), Some(1.0));
        assert_eq!(average(&[(&[], &objects)]), Some(0.0));
        assert_eq!(average(&[(&all, &[])]), None, "nothing to find");
        assert_eq!(average(&[]), None);
    }

    #[test]
    fn a_false_alarm_costs_by_its_rank() {
        let objects = [actual(0, at(0.0), false)];
        let with = |score| [found(0, 0.5, at(0.0)), found(0, score, at(50.0))];
        assert_eq!(average(&[(&with(0.9), &objects)]), Some(0.5));
        assert_eq!(average(&[(&with(0.1), &objects)]), Some(1.0));
        // Found twice: the second is false.
        let twice = [found(0, 0.5, at(0.0)), found(0, 0.9, at(1.0))];
        let pair = [actual(0, at(0.0), false), actual(0, at(50.0), false)];
        let value = average(&[(&twice, &pair)]).unwrap();
        assert!((value - 51.0 / 101.0).abs() < 1e-12, "{value}");
    }

    #[test]
    fn an_overlap_of_exactly_one_half_is_enough() {
        let objects = [actual(0, [0.0, 0.0, 10.0, 10.0], false)];
        let half = |height| [found(0, 0.5, [0.0, 0.0, 10.0, height])];
        assert_eq!(average(&[(&half(5.0), &objects)]), Some(1.0));
        assert_eq!(average(&[(&half(4.9), &objects)]), Some(0.0));
        assert_eq!(average(&[(&[found(1, 0.5, at(0.0))], &objects)]), Some(0.0), "of another class");
    }

    #[test]
    fn what_lies_on_an_ignored_object_of_any_class_is_dropped() {
        let objects = |class| [actual(0, at(0.0), false), actual(class, [40.0, 0.0, 60.0, 10.0], true)];
        for class in [0, 1] {
            let on = [found(0, 0.9, at(45.0)), found(0, 0.8, at(40.0)), found(0, 0.5, at(0.0))];
            assert_eq!(average(&[(&on, &objects(class))]), Some(1.0), "class {class}");
            let beside = [found(0, 0.9, at(56.0)), found(0, 0.5, at(0.0))];
            assert_eq!(average(&[(&beside, &objects(class))]), Some(0.5), "class {class}");
        }
        assert_eq!(
            average(&[(&[], &[actual(0, at(0.0), true)])]),
            None,
            "an ignored object need not be found"
        );
        // A counted object under an ignored one is found before anything is dropped.
        let both = [actual(0, at(0.0), false), actual(1, at(0.0), true)];
        assert_eq!(average(&[(&[found(0, 0.5, at(0.0))], &both)]), Some(1.0));
    }

    #[test]
    fn the_order_of_frames_does_not_matter_though_scores_are_equal() {
        let objects = [actual(0, at(0.0), false)];
        let right = [found(0, 0.5, at(0.0))];
        let wrong = [found(0, 0.5, at(30.0))];
        let frames: [(u64, &[Found]); 4] = [(0, &wrong), (1, &right), (2, &wrong), (3, &right)];
        let of = |order: [usize; 4]| {
            let mut precision = Precision::new(1);
            order.iter().for_each(|&i| precision.add(frames[i].0, frames[i].1, &objects));
            precision.average(0).unwrap()
        };
        let first = of([0, 1, 2, 3]);
        assert!(first > 0.0 && first < 1.0);
        for order in [[3, 2, 1, 0], [2, 0, 3, 1]] {
            assert_eq!(of(order), first);
        }
    }

    #[test]
    fn wild_numbers_are_false_alarms() {
        let objects = [actual(0, at(0.0), false), actual(0, at(0.0), true)];
        let wild = [
            [f64::NAN; 4],
            [0.0; 4],
            [10.0, 10.0, 0.0, 0.0],
            [f64::NEG_INFINITY, 0.0, f64::INFINITY, 10.0],
        ];
        for bounds in wild {
            let all = [found(0, f32::NAN, bounds), found(0, 0.5, at(0.0))];
            assert_eq!(average(&[(&all, &objects)]), Some(1.0), "{bounds:?}");
            let only = [found(0, 0.7, bounds)];
            assert_eq!(average(&[(&only, &objects)]), Some(0.0), "{bounds:?}");
        }
    }

    #[test]
    fn the_mean_is_over_classes_with_objects() {
        let mut precision = Precision::new(3);
        precision.add(
            0,
            &[found(0, 0.5, at(0.0)), found(2, 0.5, at(0.0))],
            &[actual(0, at(0.0), false), actual(1, at(0.0), false)],
        );
        assert_eq!(precision.mean(0..3), Some(0.5));
        assert_eq!(precision.mean([0, 2]), Some(1.0));
        assert_eq!(precision.mean([2]), None);
    }
}
