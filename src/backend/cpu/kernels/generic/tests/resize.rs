//! Resizing against ONNX's reference implementation, every mode under every coordinate rule.

use super::{f32s, shape};
use crate::backend::cpu::eval::eval;
use crate::limits::MAX_RANK;
use crate::primitive::{Coordinates, Nearest, Primitive, Resize, ResizeMode, Scalar};
use crate::tensor::DType;

const X: [f32; 20] = [
    1.25, -1.75, -1.25, -1.0, -1.25, 1.25, 1.5, 0.25, -2.0, -1.75, -0.75, -0.25, 0.5, 0.0, -1.0, -1.5, 0.75, 1.0, -2.0, -1.75,
];

fn coordinates(name: &str) -> Coordinates {
    let axes = |rows: f32, columns: f32, other: f32| {
        let mut all = [Scalar(other); MAX_RANK];
        (all[2], all[3]) = (Scalar(rows), Scalar(columns));
        all
    };
    match name {
        "HalfPixel" => Coordinates::HalfPixel,
        "HalfPixelSymmetric" => Coordinates::HalfPixelSymmetric,
        "PytorchHalfPixel" => Coordinates::PytorchHalfPixel,
        "AlignCorners" => Coordinates::AlignCorners,
        "Asymmetric" => Coordinates::Asymmetric,
        "Crop" => Coordinates::CropAndResize {
            start: axes(-0.2, 0.3, 0.0),
            end: axes(0.7, 1.4, 1.0),
            outside: Scalar(9.0),
        },
        other => panic!("no coordinates {other}"),
    }
}

fn mode(name: &str) -> ResizeMode {
    let cubic = |coefficient: f32, exclude_outside: bool, antialias: bool| ResizeMode::Cubic {
        coefficient: Scalar(coefficient),
        exclude_outside,
        antialias,
    };
    match name {
        "NF" => ResizeMode::Nearest(Nearest::RoundPreferFloor),
        "NC" => ResizeMode::Nearest(Nearest::RoundPreferCeil),
        "Floor" => ResizeMode::Nearest(Nearest::Floor),
        "Ceil" => ResizeMode::Nearest(Nearest::Ceil),
        "L" => ResizeMode::Linear { antialias: false },
        "LA" => ResizeMode::Linear { antialias: true },
        "C" => cubic(-0.75, false, false),
        "CE" => cubic(-0.5, true, false),
        "CA" => cubic(-0.75, false, true),
        "CAE" => cubic(-0.75, true, true),
        other => panic!("no mode {other}"),
    }
}

#[test]
fn every_mode_agrees_with_the_reference_of_onnx() {
    let x = f32s(&[1, 1, 4, 5], &X);
    let mut compared = 0;
    for line in include_str!("resize.txt").lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |i: usize| words[i].parse::<f32>().unwrap();
        let (rows, columns) = (number(1), number(2));
        let mut scales = [Scalar(1.0); MAX_RANK];
        (scales[2], scales[3]) = match number(4) == 0.0 {
            true => (Scalar(rows / 4.0), Scalar(columns / 5.0)),
            false => (Scalar(number(4)), Scalar(number(5))),
        };
        let resize = Resize {
            mode: mode(words[3]),
            coordinates: coordinates(words[0]),
            scales,
        };
        let out = shape(&[1, 1, rows as u32, columns as u32]);
        let y = eval(&Primitive::Resize(resize), &[&x], &[(DType::F32, out)]).unwrap();
        assert_eq!(y[0].len(), words.len() - 6);
        for (i, (&got, word)) in y[0].as_f32().unwrap().iter().zip(&words[6..]).enumerate() {
            // The file holds six digits.
            let expected: f32 = word.parse().unwrap();
            assert!((got - expected).abs() <= 1e-5, "{}: element {i} is {got}", words[..6].join(" "));
        }
        compared += 1;
    }
    assert_eq!(compared, 129);
}

#[test]
fn one_output_under_pytorch_half_pixel_is_the_first_element() {
    let x = f32s(&[4], &[1.0, 2.0, 4.0, 8.0]);
    let mut scales = [Scalar(1.0); MAX_RANK];
    scales[0] = Scalar(0.25);
    let resize = Resize {
        mode: mode("C"),
        coordinates: Coordinates::PytorchHalfPixel,
        scales,
    };
    let y = eval(&Primitive::Resize(resize), &[&x], &[(DType::F32, shape(&[1]))]).unwrap();
    assert_eq!(y[0].as_f32().unwrap(), [1.0]);
}

/// The columns that a nearest resize of `from` columns to `to` by `scale` takes.
fn columns(rule: &str, rounding: &str, from: u32, to: u32, scale: f32) -> Vec<f32> {
    let x = f32s(&[from], &(0..from).map(|i| i as f32).collect::<Vec<_>>());
    let mut scales = [Scalar(1.0); MAX_RANK];
    scales[0] = Scalar(scale);
    let resize = Resize {
        mode: mode(rounding),
        coordinates: coordinates(rule),
        scales,
    };
    let y = eval(&Primitive::Resize(resize), &[&x], &[(DType::F32, shape(&[to]))]).unwrap();
    y[0].as_f32().unwrap().to_vec()
}

/// The scales are not those numbers in f32; onnxruntime and the frameworks that networks come from take these columns.
#[test]
fn positions_that_are_whole_by_a_decimal_scale_are_whole() {
    assert_eq!(columns("Asymmetric", "Floor", 18, 5, 0.3), [0.0, 3.0, 6.0, 10.0, 13.0]);
    assert_eq!(
        columns("Asymmetric", "Floor", 18, 10, 0.6),
        [0.0, 1.0, 3.0, 5.0, 6.0, 8.0, 10.0, 11.0, 13.0, 15.0]
    );
    assert_eq!(columns("HalfPixelSymmetric", "Floor", 5, 2, 0.5), [1.0, 3.0]);
    assert_eq!(columns("HalfPixelSymmetric", "Ceil", 3, 4, 1.5), [0.0, 1.0, 2.0, 2.0]);
}

#[test]
fn a_filter_far_wider_than_the_input_is_refused() {
    let x = f32s(&[4], &[1.0; 4]);
    let mut scales = [Scalar(1.0); MAX_RANK];
    scales[0] = Scalar(1e-30);
    let resize = Resize {
        mode: mode("LA"),
        coordinates: Coordinates::HalfPixel,
        scales,
    };
    let refused = eval(&Primitive::Resize(resize), &[&x], &[(DType::F32, shape(&[2]))]);
    assert_eq!(refused.unwrap_err(), crate::primitive::PrimitiveError::Attribute);
}
