//! Typed results of the task sets on whole camera frames against `refs/decoded.json`.
//!
//! The references were made with another JPEG decoder (libjpeg-turbo), whose pixels differ from ours by a few levels:
//! hence tolerances also where the arithmetic is the same.

use super::compare::{self, SCORE};
use super::{av, data, plans};
use platoon::replay::picture::Picture;
use platoon::runtime::{Detection, Engine, Options, Ticket};
use platoon::task::{ResultKind, Status};
use serde_json::Value;
use std::path::Path;

/// The detectors' threshold.
const THRESHOLD: f64 = 0.3;
/// A class's share of a label map. One pixel column in a hundred: borders between classes may move by the decoder's
/// differences, areas may not.
const SHARE: f64 = 0.01;

/// Frames with references, and their files.
const FRAMES: [(&str, &str); 3] = [
    ("seq_0020", "seq_vehicle/0020.jpg"),
    ("advlane_test1", "udacity/advlane_test1.jpg"),
    ("advlane_test6", "udacity/advlane_test6.jpg"),
];
/// Smaller frames of another camera, without references.
const SMALL: [&str; 3] = [
    "udacity/lanelines_solidWhiteRight.jpg",
    "udacity/lanelines_solidYellowLeft.jpg",
    "udacity/lanelines_whiteCarLaneSwitch.jpg",
];

#[test]
fn urban() {
    check("urban", &FRAMES);
}

#[test]
fn highway() {
    check("highway", &FRAMES);
}

#[test]
fn parking() {
    check("parking", &FRAMES);
}

#[test]
fn single_things_are_named() {
    let files = [
        ("kitten_224", "classify/kitten_224.png"),
        ("advlane_test1_carcrop", "classify/advlane_test1_carcrop.png"),
    ];
    for set in ["urban", "parking"] {
        let Some(mut run) = Run::new("single_things_are_named", set) else {
            return;
        };
        for (name, file) in files {
            let picture = av::picture(&run.frames.join(file));
            let ticket = run.submit(&picture);
            run.compare(&ticket, name, &[ResultKind::Classification]);
            run.engine.release(ticket).unwrap();
        }
        data::ran("single_things_are_named", &format!("{set}: {}", run.summary()));
    }
}

/// Runs frames of two sizes in turn through one plan: those with references against them, all of them twice with the
/// same bytes, whatever frame of whatever size came before.
fn check(set: &str, files: &[(&str, &str)]) {
    let Some(mut run) = Run::new(set, set) else { return };
    let all = [ResultKind::Detection, ResultKind::Segmentation, ResultKind::Classification];
    let small: Vec<Picture> = SMALL.iter().map(|file| av::picture(&run.frames.join(file))).collect();
    assert!(small.iter().all(|p| p.size() == (960, 540)));
    let alone: Vec<Vec<u8>> = small
        .iter()
        .map(|picture| {
            let ticket = run.submit(picture);
            let bytes = run.bytes(&ticket);
            run.engine.release(ticket).unwrap();
            bytes
        })
        .collect();
    for ((name, file), (small, alone)) in files.iter().zip(small.iter().zip(&alone)) {
        let large = av::picture(&run.frames.join(file));
        assert_eq!(large.size(), (1280, 720));
        let first = run.submit(&large);
        let second = run.submit(small);
        run.compare(&first, name, &all);
        assert_eq!(run.bytes(&second), *alone, "{set}: a frame depends on the one before it");
        run.engine.release(first).unwrap();
        run.engine.release(second).unwrap();
    }
    data::ran(set, &run.summary());
}

struct Run {
    engine: Engine,
    frames: std::path::PathBuf,
    expected: Value,
    /// The largest deviations seen: score, side, share.
    worst: [f64; 3],
    compared: usize,
}

impl Run {
    fn new(test: &str, set: &str) -> Option<Run> {
        let root = data::need(test, &data::av_data())?;
        let mut engine = Engine::open(plans(), &Options::default()).unwrap_or_else(|e| panic!("{e:?}"));
        engine.select(set).unwrap();
        Some(Run {
            engine,
            frames: root.join("frames"),
            expected: json(&root.join("refs/decoded.json")),
            worst: [0.0; 3],
            compared: 0,
        })
    }

    fn submit(&mut self, picture: &Picture) -> Ticket {
        self.engine.submit(&[Some(av::image(picture))]).unwrap()
    }

    /// All results of a frame, one after another.
    fn bytes(&mut self, ticket: &Ticket) -> Vec<u8> {
        let report = self.engine.wait(ticket, None).unwrap();
        let mut bytes = Vec::new();
        for tenant in &report.tenants {
            let result = self.engine.result(ticket, tenant.tenant).unwrap();
            bytes.extend(result.tensors().flat_map(|(_, b)| b.iter().copied()));
        }
        bytes
    }

    /// Compares the results of the given kinds of a frame with the references.
    fn compare(&mut self, ticket: &Ticket, frame: &str, kinds: &[ResultKind]) {
        let report = self.engine.wait(ticket, None).unwrap();
        let models: Vec<String> = self.engine.plan().tenants.iter().map(|t| t.model.clone()).collect();
        for (tenant, model) in report.tenants.iter().zip(models) {
            let what = format!("{model} {frame}");
            let expected = &self.expected[&model][frame];
            let result = self.engine.result(ticket, tenant.tenant).unwrap();
            assert_eq!(result.status, Status::Fresh, "{what}");
            if !kinds.contains(&result.kind()) {
                continue;
            }
            assert!(!expected.is_null(), "{what}: no reference");
            let worst = match result.kind() {
                ResultKind::Detection => detections(&what, &result.detections().collect::<Vec<_>>(), expected),
                ResultKind::Segmentation => {
                    let shares = result.maps().flat_map(|map| {
                        let labels = map.labels.iter().enumerate();
                        labels
                            .map(move |(class, label)| (label.clone(), share(map.data, class)))
                            .collect::<Vec<_>>()
                    });
                    classes(&what, &shares.collect::<Vec<_>>(), expected)
                }
                _ => top(&what, &result.top(0).collect::<Vec<_>>(), result.labels(), expected),
            };
            self.worst.iter_mut().zip(worst).for_each(|(a, b)| *a = a.max(b));
            self.compared += 1;
        }
    }

    fn summary(&self) -> String {
        let ([score, side, share], n) = (self.worst, self.compared);
        format!("{n} results compared; scores within {score:.4}, sides within {side:.2} pixels, shares within {share:.4}")
    }
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// The part of a map that has this class.
fn share(map: &[u8], class: usize) -> f64 {
    map.iter().filter(|&&c| usize::from(c) == class).count() as f64 / map.len() as f64
}

/// The reference's boxes.
fn boxes(expected: &Value) -> Vec<Detection> {
    let number = |v: &Value| v.as_f64().unwrap() as f32;
    let detection = |e: &Value| {
        let sides: Vec<f32> = e["box_xyxy"].as_array().unwrap().iter().map(number).collect();
        Detection {
            class: e["id"].as_u64().unwrap() as u32,
            score: number(&e["score"]),
            bounds: sides.try_into().unwrap(),
        }
    };
    expected.as_array().unwrap().iter().map(detection).collect()
}

/// Each sure box on one side has a partner on the other.
fn detections(what: &str, found: &[Detection], expected: &Value) -> [f64; 3] {
    let [score, side] = compare::detections(found, &boxes(expected), THRESHOLD).unwrap_or_else(|e| panic!("{what}: {e}"));
    [score, side, 0.0]
}

/// Every class has the reference's share of its map; a class without one has none.
fn classes(what: &str, found: &[(String, f64)], expected: &Value) -> [f64; 3] {
    let expected = expected.as_object().unwrap();
    let name = |label: &str| label.replace(' ', "_");
    for label in expected.keys() {
        assert!(found.iter().any(|(l, _)| name(l) == name(label)), "{what}: no class {label}");
    }
    // The complement of a map's only foreground class is not listed.
    let listed = |label: &String| {
        expected
            .iter()
            .find(|(l, _)| name(l) == name(label))
            .map(|(_, v)| v.as_f64().unwrap())
    };
    let mut worst = 0f64;
    for (label, share) in found {
        let Some(reference) = listed(label).or((label != "background").then_some(0.0)) else {
            continue;
        };
        worst = worst.max((share - reference).abs());
        assert!(
            (share - reference).abs() <= SHARE,
            "{what}: {label} covers {share} instead of {reference}"
        );
    }
    [0.0, 0.0, worst]
}

/// The same best class; the reference's three among the five found, each as probable.
///
/// Second and third may change places: they are told apart by less than the decoders' differences.
fn top(what: &str, found: &[(u32, f32)], labels: &[String], expected: &Value) -> [f64; 3] {
    let expected = expected.as_array().unwrap();
    let mut worst = 0f64;
    assert_eq!(expected[0][0].as_u64().unwrap(), u64::from(found[0].0), "{what}: {found:?}");
    for entry in expected {
        let (class, probability) = (entry[0].as_u64().unwrap(), entry[2].as_f64().unwrap());
        let Some((_, p)) = found.iter().find(|(c, _)| u64::from(*c) == class) else {
            panic!("{what}: {entry} is missing in {found:?}");
        };
        let deviation = (f64::from(*p) - probability).abs();
        worst = worst.max(deviation);
        assert!(deviation <= SCORE, "{what}: {entry} has {p}");
        assert_eq!(labels[class as usize], entry[1].as_str().unwrap(), "{what}");
    }
    [worst, 0.0, 0.0]
}
