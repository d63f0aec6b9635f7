//! Top-1 of classified crops, over the objects whose boxes were found.
//!
//! A crop finds the free object of its detection's class that it overlaps most, if by an IoU of one half or more; each
//! object is found once, by the first crop in the order given. The class of objects without a crop is not asked for:
//! missing them is the detector's error, and counted there.

use super::detection::LEAST_IOU;
use super::overlap::iou;

/// A classified crop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crop {
    /// Class number of the detection it shows.
    pub class: usize,
    /// The detection's x0, y0, x1, y1.
    pub bounds: [f64; 4],
    /// Number of the best class; `None` where the ground truth does not know it.
    pub best: Option<usize>,
}

/// An object that says something.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spoken {
    /// Class number of the object.
    pub class: usize,
    /// x0, y0, x1, y1.
    pub bounds: [f64; 4],
    /// Number of what it says.
    pub signal: usize,
}

/// How many of the objects that were found were understood.
#[derive(Clone, Debug)]
pub struct Top1 {
    /// Found and understood, by what the objects say.
    tallies: Vec<(u64, u64)>,
}

impl Top1 {
    /// Nothing added yet, for signals 0 to `signals - 1`.
    pub fn new(signals: usize) -> Top1 {
        Top1 {
            tallies: vec![(0, 0); signals],
        }
    }

    /// Adds a frame.
    pub fn add(&mut self, crops: &[Crop], objects: &[Spoken]) {
        let mut free: Vec<&Spoken> = objects.iter().filter(|o| o.signal < self.tallies.len()).collect();
        for crop in crops {
            let overlaps = free.iter().enumerate().filter(|(_, o)| o.class == crop.class);
            let best = overlaps
                .map(|(i, o)| (i, iou(crop.bounds, o.bounds)))
                .filter(|o| o.1 >= LEAST_IOU)
                .max_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((index, _)) = best {
                let object = free.remove(index);
                let (found, right) = &mut self.tallies[object.signal];
                *found += 1;
                *right += u64::from(crop.best == Some(object.signal));
            }
        }
    }

    /// Share of the found objects saying `signal` that were understood, 0 to 1; `None` where none was found.
    pub fn share(&self, signal: usize) -> Option<f64> {
        self.shares([signal])
    }

    /// Share of the found objects saying one of `signals` that were understood, 0 to 1; `None` where none was found.
    pub fn shares(&self, signals: impl IntoIterator<Item = usize>) -> Option<f64> {
        let tallies = signals.into_iter().filter_map(|s| self.tallies.get(s));
        let (found, right) = tallies.fold((0, 0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
        (found > 0).then(|| right as f64 / found as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(x: f64) -> [f64; 4] {
        [x, 0.0, x + 10.0, 10.0]
    }

    fn crop(class: usize, x: f64, best: usize) -> Crop {
        Crop {
            class,
            bounds: at(x),
            best: Some(best),
        }
    }

    fn spoken(class: usize, x: f64, signal: usize) -> Spoken {
        Spoken {
            class,
            bounds: at(x),
            signal,
        }
    }

    fn top1(crops: &[Crop], objects: &[Spoken]) -> Option<f64> {
        let mut top1 = Top1::new(4);
        top1.add(crops, objects);
        top1.shares(0..4)
    }

    #[test]
    fn the_share_is_of_the_objects_that_were_found() {
        let objects = [spoken(5, 0.0, 1), spoken(5, 50.0, 2)];
        assert_eq!(top1(&[crop(5, 1.0, 1), crop(5, 50.0, 2)], &objects), Some(1.0));
        assert_eq!(top1(&[crop(5, 1.0, 1), crop(5, 50.0, 3)], &objects), Some(0.5));
        assert_eq!(top1(&[crop(5, 1.0, 1)], &objects), Some(1.0), "the other one was not found");
        assert_eq!(top1(&[], &objects), None);
        assert_eq!(top1(&[crop(5, 0.0, 1)], &[]), None);
    }

    #[test]
    fn an_object_is_found_once_by_a_box_of_its_class() {
        let objects = [spoken(5, 0.0, 1)];
        assert_eq!(top1(&[crop(5, 1.0, 3), crop(5, 0.0, 1)], &objects), Some(0.0));
        assert_eq!(top1(&[crop(4, 0.0, 3), crop(5, 0.0, 1)], &objects), Some(1.0));
        assert_eq!(top1(&[crop(5, 5.0, 1)], &objects), None, "a third is too little");
    }

    #[test]
    fn shares_are_kept_by_what_objects_say() {
        let mut top1 = Top1::new(4);
        let unknown = Crop {
            best: None,
            ..crop(5, 50.0, 0)
        };
        top1.add(&[crop(5, 0.0, 1), unknown], &[spoken(5, 0.0, 1), spoken(5, 50.0, 0)]);
        top1.add(&[crop(5, 0.0, 2)], &[spoken(5, 0.0, 1)]);
        assert_eq!((top1.share(1), top1.share(0), top1.share(2)), (Some(0.5), Some(0.0), None));
        assert_eq!(top1.shares([1, 2]), Some(0.5));
        assert_eq!(top1.share(9), None);
    }
}
