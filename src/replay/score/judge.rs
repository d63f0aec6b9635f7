//! What of a tenant's results is held against what of the ground truth: by the kind of the results and the names of classes.

use super::accuracy::{Figures, Measure};
use super::classification::{Crop, Spoken, Top1};
use super::detection::{Actual, Found, Precision};
use super::segmentation::Confusion;
use crate::plan::format::{Plan, Role, Tenant};
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

    /// The figure of every shared class, by its name.
    fn classes(&self, figure: impl Fn(usize) -> Option<f64>) -> Vec<(&'static str, Option<f64>)> {
        self.shared().map(|n| (self.known[n], figure(n))).collect()
    }
}

impl Judge {
    /// The judge of `tenant`, one of `plan`.
    pub fn of(plan: &Plan, tenant: &Tenant) -> Result<Judge, Unscored> {
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
                    detector: Meaning::of(plan.tenants.get(source.index()).map(labels).unwrap_or_default(), &Class::LABELS)?,
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
            },
            Judge::Segmentation { meaning, confusion, .. } => Figures {
                measure: Measure::Miou,
                value: confusion.mean(meaning.shared()),
                classes: meaning.classes(|c| confusion.iou(c)),
            },
            Judge::Classification { meaning, top1, .. } => Figures {
                measure: Measure::Top1,
                value: top1.shares(meaning.shared()),
                classes: meaning.classes(|c| top1.share(c)),
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
