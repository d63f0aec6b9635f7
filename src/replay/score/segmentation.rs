//! Mean intersection over union of label maps, from one confusion matrix over all pixels of all frames.

/// How often each actual label was taken for each label.
#[derive(Clone, Debug)]
pub struct Confusion {
    classes: usize,
    /// Pixels by actual label, then by the label found; the last of each stands for everything else.
    counts: Vec<u64>,
}

impl Confusion {
    /// Nothing added yet, for labels 0 to `classes - 1`, of which there are at most 255.
    pub fn new(classes: usize) -> Confusion {
        Confusion {
            classes,
            counts: vec![0; (classes + 1) * (classes + 1)],
        }
    }

    /// Adds a map with its ground truth, pixel by pixel; where one is shorter, the other's rest is passed over.
    /// `meaning` gives the actual label that each byte of `found` stands for, `None` where it is none of them.
    pub fn add(&mut self, found: &[u8], actual: &[u8], meaning: impl Fn(u8) -> Option<usize>) {
        let side = self.classes + 1;
        let place = |class: Option<usize>| class.filter(|&c| c < self.classes).unwrap_or(self.classes);
        // Tables for all bytes, so that a pixel costs one addition.
        let columns: Vec<usize> = (0..=u8::MAX).map(|byte| place(meaning(byte))).collect();
        let rows: Vec<usize> = (0..=u8::MAX).map(|byte| side * place(Some(byte.into()))).collect();
        for (&found, &actual) in found.iter().zip(actual) {
            self.counts[rows[usize::from(actual)] + columns[usize::from(found)]] += 1;
        }
    }

    /// Intersection over union of a label, 0 to 1; `None` where no pixel has it, actual or found.
    pub fn iou(&self, class: usize) -> Option<f64> {
        let side = self.classes + 1;
        if class >= self.classes {
            return None;
        }
        let right = self.counts[class * side + class];
        let actual: u64 = self.counts[class * side..][..side].iter().sum();
        let found: u64 = self.counts[class..].iter().step_by(side).sum();
        let either = actual + found - right;
        (either > 0).then(|| right as f64 / either as f64)
    }

    /// The mean over those of `classes` that any pixel has.
    pub fn mean(&self, classes: impl IntoIterator<Item = usize>) -> Option<f64> {
        super::mean(classes.into_iter().filter_map(|c| self.iou(c)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(byte: u8) -> Option<usize> {
        Some(byte.into())
    }

    #[test]
    fn a_perfect_map_gives_one_and_a_wrong_one_zero() {
        let mut perfect = Confusion::new(3);
        perfect.add(&[0, 1, 1, 0], &[0, 1, 1, 0], same);
        assert_eq!((perfect.iou(0), perfect.iou(1), perfect.iou(2)), (Some(1.0), Some(1.0), None));
        assert_eq!(perfect.mean(0..3), Some(1.0));
        let mut wrong = Confusion::new(2);
        wrong.add(&[1, 0], &[0, 1], same);
        assert_eq!(wrong.mean(0..2), Some(0.0));
        assert_eq!(Confusion::new(2).mean(0..2), None);
    }

    #[test]
    fn pixels_of_all_frames_are_summed_before_dividing() {
        let frames: [([u8; 3], [u8; 3]); 2] = [([0, 0, 1], [0, 1, 1]), ([1, 1, 1], [1, 0, 1])];
        let of = |order: [usize; 2]| {
            let mut confusion = Confusion::new(2);
            order.iter().for_each(|&i| confusion.add(&frames[i].0, &frames[i].1, same));
            (confusion.iou(0), confusion.iou(1))
        };
        assert_eq!(of([0, 1]), (Some(1.0 / 3.0), Some(3.0 / 5.0)));
        assert_eq!(of([1, 0]), of([0, 1]));
    }

    #[test]
    fn labels_of_another_network_count_by_their_meaning() {
        // Its 1 is our 0; its 0 is nothing we know.
        let meaning = |byte: u8| (byte == 1).then_some(0);
        let mut confusion = Confusion::new(2);
        confusion.add(&[1, 1, 0, 0, 200], &[0, 1, 0, 1, 77], meaning);
        assert_eq!((confusion.iou(0), confusion.iou(1)), (Some(1.0 / 3.0), Some(0.0)));
        assert_eq!(confusion.iou(2), None);
    }
}
