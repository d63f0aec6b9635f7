//! What of a tenant's results is held against what of the ground truth: by the kind of the results and the names of classes.

use super::accuracy::{Figures, Measure};
use super::classification::{Crop, Spoken, Top1};
use super::detection::{Actual, Found, Precision};
use super::segmentation::Confusion;
use crate::plan::format::{Role, Tenant};
use crate::replay::results::Output;
use crate::replay::source::Truth;
use crate::scenes::{Class, HEIGHT, Object, Signal, Surface, WIDTH};
use crate::task::ResultKind;

/// Counts what a tenant got right.
#[derive(Clone, Debug)]
pub enum Judge {
    /// Of boxes.
    Detection {
        /// What each of the tenant's classes is.
        meaning: Meaning,
        /// The count.
        precision: Precision,
    },
    /// Of the first label map that shares a label with the ground truth.
    Segmentation {
        /// The map's name.
        map: String,
        /// What each of its labels is.
        meaning: Meaning,
        /// The count.
        confusion: Confusion,
    },
    /// Of crops.
    Classification {
        /// What each of the tenant's classes says.
        meaning: Meaning,
        /// What each of the detector's classes is.
        detector: Meaning,
        /// The count.
        top1: Top1,
    },
}

/// Why a tenant's results are not scored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unscored {
    /// The tenant looks through several cameras, or none.
    #[error("does not look through one camera")]
    Cameras,
    /// Its results have no meaning that is known.
    #[error("gives plain tensors")]
    Tensors,
    /// It classifies whole pictures.
    #[error("classifies pictures, not crops of detections")]
    Pictures,
    /// None of its labels is in the ground truth.
    #[error("has no label of the ground truth ({known})")]
    Labels {
        /// The labels that would have been understood.
        known: String,
    },
}

/// The numbers that a network's classes have in the ground truth, by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// For each of the network's classes.
    numbers: Vec<Option<usize>>,
    known: &'static [&'static str],
}

impl Meaning {
    /// Finds `labels` among the `known` ones, upper and lower case alike; an error where none is there.
    fn of(labels: &[String], known: &'static [&'static str]) -> Result<Meaning, Unscored> {
        let number = |label: &String| known.iter().position(|k| k.eq_ignore_ascii_case(label));
        let numbers: Vec<Option<usize>> = labels.iter().map(number).collect();
        if numbers.iter().all(Option::is_none) {
            return Err(Unscored::Labels { known: known.join(", ") });
        }
        Ok(Meaning { numbers, known })
    }

    /// What the network's class `class` is.
    fn number(&self, class: usize) -> Option<usize> {
        self.numbers.get(class).copied().flatten()
    }

    /// The numbers that both know, ascending.
    fn shared(&self) -> impl Iterator<Item = usize> {
        (0..self.known.len()).filter(|n| self.numbers.contains(&Some(*n)))
    }

    /// The names that only the ground truth has.
    fn unnamed(&self) -> Vec<&'static str> {
        let numbers = 0..self.known.len();
        numbers
            .filter(|n| !self.numbers.contains(&Some(*n)))
            .map(|n| self.known[n])
            .collect()
    }

    /// The figure of every shared class, by its name.
    fn classes(&self, figure: impl Fn(usize) -> Option<f64>) -> Vec<(&'static str, Option<f64>)> {
        self.shared().map(|n| (self.known[n], figure(n))).collect()
    }
}

impl Judge {
    /// The judge of `tenant`, one of a plan's `tenants`.
    pub fn of(tenants: &[Tenant], tenant: &Tenant) -> Result<Judge, Unscored> {
        if tenant.cameras.len() != 1 {
            return Err(Unscored::Cameras);
        }
        match tenant.kind {
            ResultKind::Detection => Ok(Judge::Detection {
                meaning: Meaning::of(labels(tenant), &Class::LABELS)?,
                precision: Precision::new(Class::LABELS.len()),
            }),
            ResultKind::Segmentation => {
                let maps = tenant.outputs.iter().filter(|p| p.role == Role::LabelMap);
                let mut known = maps.map(|p| (&p.name, Meaning::of(&p.labels, &Surface::LABELS)));
                let first = known.next().ok_or(Unscored::Tensors)?;
                let (name, meaning) = match first.1 {
                    Ok(_) => first,
                    Err(_) => known.find(|k| k.1.is_ok()).unwrap_or(first),
                };
                Ok(Judge::Segmentation {
                    map: name.clone(),
                    meaning: meaning?,
                    confusion: Confusion::new(Surface::LABELS.len()),
                })
            }
            ResultKind::Classification => {
                let source = tenant.crop_rows().and(tenant.sources.first()).ok_or(Unscored::Pictures)?;
                Ok(Judge::Classification {
                    meaning: Meaning::of(labels(tenant), &Signal::LABELS)?,
                    detector: Meaning::of(tenants.get(source.index()).map(labels).unwrap_or_default(), &Class::LABELS)?,
                    top1: Top1::new(Signal::LABELS.len()),
                })
            }
            ResultKind::Tensors => Err(Unscored::Tensors),
        }
    }

    /// Counts the tenant's result of frame number `frame`. Label maps of another size than the camera's are passed over.
    pub fn add(&mut self, frame: u64, output: &Output, truth: &Truth) {
        match (self, output) {
            (Judge::Detection { meaning, precision }, Output::Detections(all)) => {
                let known = all.iter().filter_map(|d| {
                    Some(Found {
                        class: meaning.number(d.class as usize)?,
                        score: d.score,
                        bounds: d.bounds.map(f64::from),
                    })
                });
                let actual: Vec<Actual> = truth.objects.iter().map(actual).collect();
                precision.add(frame, &known.collect::<Vec<_>>(), &actual);
            }
            (Judge::Segmentation { map, meaning, confusion }, Output::Maps(all)) => {
                let own = all.iter().filter(|m| m.name == *map && m.size == (WIDTH as u32, HEIGHT as u32));
                own.for_each(|m| confusion.add(&m.pixels, &truth.labels, |label| meaning.number(label.into())));
            }
            (Judge::Classification { meaning, detector, top1 }, Output::Items(all)) => {
                let crops = all.iter().filter_map(|item| {
                    let shown = item.crop?;
                    Some(Crop {
                        class: detector.number(shown.class as usize)?,
                        bounds: shown.bounds.map(f64::from),
                        best: item.top.first().and_then(|best| meaning.number(best.class as usize)),
                    })
                });
                let spoken: Vec<Spoken> = truth.objects.iter().filter_map(spoken).collect();
                top1.add(&crops.collect::<Vec<_>>(), &spoken);
            }
            // A tenant's results are of its kind in all frames.
            _ => {}
        }
    }

    /// The figures so far.
    pub fn figures(&self) -> Figures {
        match self {
            Judge::Detection { meaning, precision } => Figures {
                measure: Measure::Map50,
                value: precision.mean(meaning.shared()),
                classes: meaning.classes(|c| precision.average(c)),
                unnamed: meaning.unnamed(),
            },
            Judge::Segmentation { meaning, confusion, .. } => Figures {
                measure: Measure::Miou,
                value: confusion.mean(meaning.shared()),
                classes: meaning.classes(|c| confusion.iou(c)),
                unnamed: meaning.unnamed(),
            },
            Judge::Classification { meaning, top1, .. } => Figures {
                measure: Measure::Top1,
                value: top1.shares(meaning.shared()),
                classes: meaning.classes(|c| top1.share(c)),
                unnamed: meaning.unnamed(),
            },
        }
    }
}

/// The names of a tenant's classes.
fn labels(tenant: &Tenant) -> &[String] {
    let mut labels = tenant.outputs.iter().map(|p| &p.labels[..]);
    labels.find(|l| !l.is_empty()).unwrap_or_default()
}

fn actual(object: &Object) -> Actual {
    Actual {
        class: object.class as usize,
        bounds: object.bounds.map(f64::from),
        ignored: object.ignored,
    }
}

/// An object that counts and says something.
fn spoken(object: &Object) -> Option<Spoken> {
    let signal = object.signal.filter(|_| !object.ignored)?;
    Some(Spoken {
        class: object.class as usize,
        bounds: object.bounds.map(f64::from),
        signal: signal as usize,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{BufferId, CameraId, TenantId};
    use crate::plan::format::{Port, View};
    use crate::replay::results::{ClassRecord, CropRecord, DetectionRecord, ItemRecord, MapRecord};
    use crate::task::{Rate, Urgency};
    use crate::tensor::{DType, Layout, Shape};

    fn port(name: &str, role: Role, labels: &[&str]) -> Port {
        Port {
            name: name.into(),
            image: 0,
            role,
            view: View {
                buffer: BufferId(0),
                origin: 0,
                dtype: DType::F32,
                layout: Layout::contiguous(Shape::new(&[8]).unwrap()),
            },
            labels: labels.iter().map(|l| l.to_string()).collect(),
            fit: None,
            widened: false,
        }
    }

    fn tenant(kind: ResultKind, outputs: Vec<Port>) -> Tenant {
        Tenant {
            name: "t".into(),
            model: "m".into(),
            cameras: vec![CameraId(0)],
            rate: Rate::EVERY_FRAME,
            urgency: Urgency {
                priority: 0,
                deadline: None,
            },
            kind,
            sources: vec![],
            inputs: vec![],
            outputs,
        }
    }

    /// A detector that calls people pedestrians and cars by two names, the second of which is the ground truth's.
    fn detector() -> Tenant {
        tenant(
            ResultKind::Detection,
            vec![port(
                "boxes",
                Role::Detections,
                &["pedestrian", "automobile", "Traffic Sign", "car"],
            )],
        )
    }

    fn object(class: Class, signal: Option<Signal>, left: u32, ignored: bool) -> Object {
        Object {
            id: left,
            class,
            signal,
            bounds: [left, 0, left + 40, 40],
            visible: 1000,
            ignored,
        }
    }

    fn at(left: f32) -> [f32; 4] {
        [left, 0.0, left + 40.0, 40.0]
    }

    fn truth(objects: Vec<Object>) -> Truth {
        Truth {
            labels: Vec::new(),
            objects,
        }
    }

    fn detection(class: u32, left: f32) -> DetectionRecord {
        DetectionRecord {
            camera: 0,
            class,
            label: String::new(),
            score: 0.5,
            bounds: at(left),
        }
    }

    #[test]
    fn boxes_are_scored_by_the_classes_both_sides_know_by_name() {
        let mut judge = Judge::of(&[], &detector()).unwrap();
        let objects = vec![
            object(Class::Car, None, 0, false),
            object(Class::Person, None, 100, false),
            object(Class::TrafficSign, Some(Signal::Stop), 200, false),
        ];
        // The pedestrian is passed over on both sides; the sign is not found.
        let found = vec![detection(3, 0.0), detection(0, 100.0), detection(0, 500.0), detection(9, 0.0)];
        judge.add(0, &Output::Detections(found), &truth(objects));
        let figures = judge.figures();
        assert_eq!((figures.measure, figures.value), (Measure::Map50, Some(0.5)));
        assert_eq!(figures.classes, [("car", Some(1.0)), ("traffic sign", Some(0.0))]);
    }

    #[test]
    fn the_first_map_with_a_known_label_is_scored() {
        let maps = vec![
            port("lanes", Role::LabelMap, &["background", "line"]),
            port("ground", Role::LabelMap, &["rest", "road"]),
        ];
        let mut judge = Judge::of(&[], &tenant(ResultKind::Segmentation, maps)).unwrap();
        let size = (WIDTH as u32, HEIGHT as u32);
        let map = |name: &str, label: u8| MapRecord {
            name: name.into(),
            camera: 0,
            labels: [].into(),
            fractions: vec![],
            file: None,
            size,
            pixels: vec![label; WIDTH * HEIGHT].into(),
        };
        let mut labels = vec![Surface::Sky as u8; WIDTH * HEIGHT];
        labels[..WIDTH * HEIGHT / 4].fill(Surface::Road as u8);
        let truth = Truth { labels, objects: vec![] };
        judge.add(0, &Output::Maps(vec![map("lanes", 1), map("ground", 1)]), &truth);
        assert_eq!(judge.figures().classes, [("road", Some(0.25))]);
        judge.add(1, &Output::Maps(vec![map("ground", 0)]), &truth);
        assert_eq!(
            judge.figures().value,
            Some(0.2),
            "a quarter of the first map's pixels, none of the second's"
        );
    }

    #[test]
    fn crops_are_scored_by_the_detection_they_show() {
        let ends = vec![
            port("rows", Role::CropRows, &[]),
            port("classes", Role::TopIndices, &["stop", "teapot", "yield"]),
        ];
        let signal = Tenant {
            sources: vec![TenantId(0)],
            ..tenant(ResultKind::Classification, ends)
        };
        let mut judge = Judge::of(&[detector(), signal.clone()], &signal).unwrap();
        let sign = |signal, left, ignored| object(Class::TrafficSign, Some(signal), left, ignored);
        let objects = vec![
            sign(Signal::Stop, 0, false),
            sign(Signal::Yield, 100, false),
            sign(Signal::Stop, 200, true),
            sign(Signal::Stop, 300, false),
        ];
        let item = |class, left, best| ItemRecord {
            camera: 0,
            crop: Some(CropRecord {
                detection: 0,
                class,
                bounds: at(left),
            }),
            top: vec![ClassRecord {
                class: best,
                label: String::new(),
                score: 0.9,
            }],
        };
        // Right; taken for a teapot; ignored; a car's box.
        let items = vec![item(2, 1.0, 0), item(2, 100.0, 1), item(2, 200.0, 1), item(3, 300.0, 1)];
        judge.add(0, &Output::Items(items), &truth(objects));
        let figures = judge.figures();
        assert_eq!((figures.measure, figures.value), (Measure::Top1, Some(0.5)));
        assert_eq!(figures.classes, [("stop", Some(1.0)), ("yield", Some(0.0))]);
    }

    #[test]
    fn what_cannot_be_scored_says_why() {
        let of = |tenant: Tenant| Judge::of(&[], &tenant).err();
        let pictures = tenant(ResultKind::Classification, vec![port("c", Role::TopIndices, &["stop"])]);
        assert_eq!(of(pictures), Some(Unscored::Pictures));
        assert_eq!(of(tenant(ResultKind::Tensors, vec![])), Some(Unscored::Tensors));
        let two = Tenant {
            cameras: vec![CameraId(0), CameraId(1)],
            ..detector()
        };
        assert_eq!(of(two), Some(Unscored::Cameras));
        let strange = of(tenant(ResultKind::Detection, vec![port("b", Role::Detections, &["teapot"])])).unwrap();
        assert!(strange.to_string().contains("traffic light"), "{strange}");
    }
}
