//! Random cases with the figures that reference implementations give them: `tests/score/cases.py` makes them with
//! pycocotools and scikit-learn.

use super::classification::{Crop, Spoken, Top1};
use super::detection::{Actual, Found, Precision};
use super::segmentation::Confusion;
use serde_json::Value;

fn cases(kind: &str) -> Vec<Value> {
    let text = include_str!("../../../tests/score/cases.json");
    let all: Value = serde_json::from_str(text).expect("the file is JSON");
    let cases = all[kind].as_array().expect("cases").clone();
    assert!(cases.len() >= 40, "{kind}: {} cases", cases.len());
    cases
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a whole number") as usize
}

fn bounds(value: &Value) -> [f64; 4] {
    std::array::from_fn(|i| value[i].as_f64().expect("a coordinate"))
}

/// Compares a figure with the reference's, null where there is none.
fn agree(ours: Option<f64>, reference: &Value, of: &str) {
    match (ours, reference.as_f64()) {
        (Some(ours), Some(reference)) => assert!((ours - reference).abs() < 1e-9, "{of}: {ours}, the reference says {reference}"),
        (ours, reference) => assert_eq!(ours, reference, "{of}"),
    }
}

#[test]
fn average_precision_agrees_with_pycocotools() {
    for (i, case) in cases("detection").iter().enumerate() {
        let classes = number(&case["classes"]);
        let frames: Vec<(Vec<Found>, Vec<Actual>)> = list(&case["frames"]).iter().map(detections).collect();
        let of = |order: &mut dyn Iterator<Item = usize>| {
            let mut precision = Precision::new(classes);
            order.for_each(|f| precision.add(f as u64, &frames[f].0, &frames[f].1));
            precision
        };
        let precision = of(&mut (0..frames.len()));
        for class in 0..classes {
            agree(
                precision.average(class),
                &case["average"][class],
                &format!("case {i}, class {class}"),
            );
        }
        agree(precision.mean(0..classes), &case["mean"], &format!("case {i}"));
        let backwards = of(&mut (0..frames.len()).rev());
        assert_eq!(backwards.mean(0..classes), precision.mean(0..classes), "case {i}, backwards");
    }
}

fn detections(frame: &Value) -> (Vec<Found>, Vec<Actual>) {
    let found = |f: &Value| Found {
        class: number(&f["class"]),
        score: f["score"].as_f64().expect("a score") as f32,
        bounds: bounds(&f["box"]),
    };
    let actual = |a: &Value| Actual {
        class: number(&a["class"]),
        bounds: bounds(&a["box"]),
        ignored: a["ignored"].as_bool().expect("a flag"),
    };
    (
        list(&frame["found"]).iter().map(found).collect(),
        list(&frame["actual"]).iter().map(actual).collect(),
    )
}

#[test]
fn intersection_over_union_agrees_with_scikit_learn() {
    for (i, case) in cases("segmentation").iter().enumerate() {
        let classes = number(&case["classes"]);
        let map = |value: &Value| -> Vec<u8> { list(value).iter().map(|v| number(v) as u8).collect() };
        let mut confusion = Confusion::new(classes);
        for frame in list(&case["frames"]) {
            confusion.add(&map(&frame["found"]), &map(&frame["actual"]), |label| Some(label.into()));
        }
        for class in 0..classes {
            agree(confusion.iou(class), &case["iou"][class], &format!("case {i}, class {class}"));
        }
        agree(confusion.mean(0..classes), &case["mean"], &format!("case {i}"));
    }
}

#[test]
fn top_1_agrees_with_scikit_learn() {
    for (i, case) in cases("classification").iter().enumerate() {
        let signals = number(&case["signals"]);
        let mut top1 = Top1::new(signals);
        for frame in list(&case["frames"]) {
            let crop = |c: &Value| Crop {
                class: number(&c["class"]),
                bounds: bounds(&c["box"]),
                best: Some(number(&c["best"])),
            };
            let object = |o: &Value| Spoken {
                class: number(&o["class"]),
                bounds: bounds(&o["box"]),
                signal: number(&o["signal"]),
            };
            let crops: Vec<Crop> = list(&frame["crops"]).iter().map(crop).collect();
            let objects: Vec<Spoken> = list(&frame["objects"]).iter().map(object).collect();
            top1.add(&crops, &objects);
        }
        agree(top1.shares(0..signals), &case["share"], &format!("case {i}"));
    }
}
