//! Decoding of boxes and their suppression against plain definitions.

use super::super::nms::CANDIDATES;
use super::{Image, Rig, Share, cast, random, shape};
use crate::ids::CameraId;
use crate::primitive::{Fit, Nms, Primitive, Scalar};
use crate::task::PixelFormat;
use crate::tensor::{DType, Layout};

/// Numbers in -1..1.
fn fractions(seed: u64) -> impl Iterator<Item = f32> {
    random(seed).map(|r| (r as f32 / (1u32 << 30) as f32) - 1.0)
}

#[test]
fn decoding_follows_the_definition_in_any_layout_and_cut() {
    let input = (96, 64);
    let (anchors, classes) = (12 * 8 + 6 * 4 + 3 * 2, 3);
    let head: Vec<f32> = fractions(1).map(|v| 2.0 * v).take(anchors * (5 + classes)).collect();
    let of = shape(&[1, anchors as u32, 5 + classes as u32]);
    let (boxes, scores) = (shape(&[anchors as u32, 4]), shape(&[anchors as u32, classes as u32]));
    let run = |head_layout, boxes_layout, scores_layout, share| {
        let rig = Rig::new(Primitive::DecodeYolox { input }).input(DType::F32, head_layout, &head);
        let out = rig
            .output(DType::F32, boxes_layout)
            .output(DType::F32, scores_layout)
            .run(None, share);
        (cast::<f32>(&out[0]), cast::<f32>(&out[1]))
    };
    let plain = (Layout::contiguous(boxes), Layout::contiguous(scores));
    let found = run(Layout::contiguous(of), plain.0, plain.1, Share::Whole);
    let mut anchor = 0;
    for stride in [8, 16, 32] {
        for y in 0..input.1 / stride {
            for x in 0..input.0 / stride {
                let row = &head[anchor * (5 + classes)..][..5 + classes];
                let v = |i: usize| f64::from(row[i]);
                let s = f64::from(stride);
                let (cx, cy) = ((v(0) + f64::from(x)) * s, (v(1) + f64::from(y)) * s);
                let (w, h) = (v(2).exp() * s / 2.0, v(3).exp() * s / 2.0);
                for (i, edge) in [cx - w, cy - h, cx + w, cy + h].into_iter().enumerate() {
                    // Sums of a few rounded terms of up to 300 pixels: within a few units of 2^-16.
                    assert!((f64::from(found.0[anchor * 4 + i]) - edge).abs() < 1e-4);
                }
                for class in 0..classes {
                    assert_eq!(found.1[anchor * classes + class], row[4] * row[5 + class]);
                }
                anchor += 1;
            }
        }
    }
    assert_eq!(anchor, anchors);
    let turned = (Layout::ordered(boxes, &[1, 0]), Layout::ordered(scores, &[1, 0]));
    for share in [Share::Whole, Share::Tiles, Share::Chunks] {
        assert_eq!(run(Layout::ordered(of, &[0, 2, 1]), turned.0, turned.1, share), found);
        assert_eq!(run(Layout::contiguous(of), plain.0, plain.1, share), found);
    }
}

fn nms(score: f32, iou: f32) -> Nms {
    Nms {
        score: Scalar(score),
        iou: Scalar(iou),
        camera: CameraId(0),
        fit: Fit::Stretch,
        input: (64, 64),
    }
}

/// A detection: x0, y0, x1, y1, score, class.
type Row = [f32; 6];

fn suppress(nms: Nms, boxes: &[[f32; 4]], scores: &[f32], max: u32, image: Option<&Image>) -> Vec<Row> {
    let (anchors, classes) = (boxes.len() as u32, (scores.len() / boxes.len()) as u32);
    let rig = Rig::new(Primitive::Nms(nms)).floats(&[anchors, 4], boxes.as_flattened());
    let turned = Layout::ordered(shape(&[anchors, classes]), &[1, 0]);
    let run = |rig: Rig| {
        let rig = rig.output(DType::F32, Layout::contiguous(shape(&[max, 6])));
        let out = rig.output(DType::I32, Layout::contiguous(shape(&[1]))).run(image, Share::Whole);
        let mut rows: Vec<Row> = cast(&out[0]);
        let count = cast::<i32>(&out[1])[0] as usize;
        assert!(rows.split_off(count).iter().all(|r| *r == [0.0; 6]));
        rows
    };
    let found = run(rig.floats(&[anchors, classes], scores));
    let rig = Rig::new(Primitive::Nms(nms)).floats(&[anchors, 4], boxes.as_flattened());
    assert_eq!(run(rig.input(DType::F32, turned, scores)), found);
    found
}

fn grey(width: u32, height: u32) -> Image {
    Image::new(PixelFormat::Gray8, width, height, width, vec![0; (width * height) as usize])
}

#[test]
fn worse_boxes_of_a_class_go_and_the_rest_comes_in_falling_score() {
    let boxes = [
        [0.0, 0.0, 20.0, 20.0],
        [1.0, 1.0, 21.0, 21.0],
        [40.0, 40.0, 60.0, 60.0],
        [0.0, 0.0, 20.0, 20.0],
    ];
    // Two classes. The second box falls to the first in class 0 and stands alone in class 1; 0.3 itself is kept, NaN is not.
    let scores = [0.9, 0.1, 0.8, 0.7, 0.3, f32::NAN, f32::NAN, 0.299];
    let found = suppress(nms(0.3, 0.5), &boxes, &scores, 5, Some(&grey(64, 64)));
    let expected: [Row; 3] = [
        [0.0, 0.0, 20.0, 20.0, 0.9, 0.0],
        [1.0, 1.0, 21.0, 21.0, 0.7, 1.0],
        [40.0, 40.0, 60.0, 60.0, 0.3, 0.0],
    ];
    assert_eq!(found, expected);
    assert_eq!(suppress(nms(0.3, 0.5), &boxes, &scores, 2, Some(&grey(64, 64))), expected[..2]);
    assert_eq!(suppress(nms(0.3, 0.5), &boxes, &scores, 5, None), [] as [Row; 0]);
}

#[test]
fn boxes_come_back_in_pixels_of_the_source_and_inside_it() {
    let boxes = [[-5.0, 20.0, 32.0, 90.0], [f32::NAN, 0.0, 1.0, 1.0], [0.0, 0.0, f32::INFINITY, 1.0]];
    let scores = [0.5, 0.9, 0.9];
    let find = |fit| {
        let nms = Nms { fit, ..nms(0.1, 0.5) };
        suppress(nms, &boxes, &scores, 3, Some(&grey(128, 64)))
    };
    // 128 x 64 into 64 x 64: halved along x; or halved along both, at the top or 16 rows down.
    assert_eq!(find(Fit::Stretch), [[0.0, 20.0, 64.0, 64.0, 0.5, 0.0]]);
    assert_eq!(find(Fit::LetterboxTopLeft), [[0.0, 40.0, 64.0, 64.0, 0.5, 0.0]]);
    assert_eq!(find(Fit::LetterboxCentred), [[0.0, 8.0, 64.0, 64.0, 0.5, 0.0]]);
}

/// Greedy suppression in the order of a full sort.
fn greedy(nms: &Nms, boxes: &[[f32; 4]], scores: &[f32], max: usize) -> Vec<Row> {
    let classes = scores.len() / boxes.len();
    let mut order: Vec<usize> = (0..scores.len()).filter(|&i| scores[i] >= nms.score.0).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(CANDIDATES);
    let mut kept: Vec<(usize, Row)> = Vec::new();
    for i in order {
        let (b, class) = (boxes[i / classes], i % classes);
        let area = |r: &[f32]| (r[2] - r[0]) * (r[3] - r[1]);
        let iou = |k: &Row| {
            let (w, h) = (b[2].min(k[2]) - b[0].max(k[0]), b[3].min(k[3]) - b[1].max(k[1]));
            let both = w.max(0.0) * h.max(0.0);
            both / (area(&b) + area(k) - both)
        };
        if kept.len() < max && kept.iter().all(|(c, k)| *c != class || iou(k) <= nms.iou.0) {
            kept.push((class, [b[0], b[1], b[2], b[3], scores[i], class as f32]));
        }
    }
    kept.into_iter().map(|(_, row)| row).collect()
}

#[test]
fn suppression_equals_a_full_sort_with_few_and_with_too_many_candidates() {
    for (seed, anchors, classes) in [(1, 60, 3), (2, 500, 4), (3, 3549, 8)] {
        let mut numbers = random(seed);
        let mut next = |below: u32| (numbers.next().unwrap() >> 8) % below;
        let boxes: Vec<[f32; 4]> = (0..anchors)
            .map(|_| {
                let (x, y) = (next(50) as f32, next(50) as f32);
                [x, y, x + 1.0 + next(13) as f32, y + 1.0 + next(13) as f32]
            })
            .collect();
        // Few different scores, so that ties decide.
        let scores: Vec<f32> = (0..anchors * classes).map(|_| next(1000) as f32 / 1000.0).collect();
        for (score, iou, max) in [(0.5, 0.3, 40), (0.0, 0.0, 1000), (0.99, 1.0, 20), (0.0, 0.5, 5)] {
            let nms = nms(score, iou);
            let found = suppress(nms, &boxes, &scores, max, Some(&grey(64, 64)));
            assert_eq!(found, greedy(&nms, &boxes, &scores, max as usize), "{seed} {score} {iou} {max}");
        }
    }
}
