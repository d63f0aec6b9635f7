//! Resize and Upsample.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::shape_of;
use super::super::node::OnnxNode;
use super::super::values::Operand;
use crate::limits::MAX_RANK;
use crate::primitive::{Coordinates, Nearest, Primitive, Resize, ResizeMode, Scalar};
use crate::tensor::Shape;

/// The extents after resizing, and the scale per axis (1 on axes that are left alone).
struct Target {
    shape: Shape,
    scales: [Scalar; MAX_RANK],
}

/// Upsample, which is the Resize of operator set 10 under an older name.
pub(super) fn upsample(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let scales = if node.opset < 9 {
        node.arity(1, 1)?;
        node.floats("scales")?.map(|s| s.iter().map(|&v| f64::from(v)).collect())
    } else {
        node.arity(2, 2)?;
        node.float_input(1, "scales")?
    };
    first_form(b, node, scales)
}

pub(super) fn resize(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    if node.opset < 11 {
        node.arity(2, 2)?;
        let scales = node.float_input(1, "scales")?;
        return first_form(b, node, scales);
    }
    node.arity(1, 4)?;
    let x = node.input(0)?;
    let rank = x.shape().rank();
    let axes = match node.ints("axes")? {
        Some(axes) => OnnxNode::axes(axes, rank, "axes")?,
        None => (0..rank).collect(),
    };
    let antialias = node.flag("antialias", false)?;
    let rounding = node.string("nearest_mode")?.unwrap_or("round_prefer_floor");
    let rule = node.string("coordinate_transformation_mode")?.unwrap_or("half_pixel");
    // For half pixels counted from the corner, rounding down is what rounding halves up is for centred ones.
    let (rule, rounding) = match (rule, rounding) {
        ("tf_half_pixel_for_nn", "floor") => ("half_pixel", "round_prefer_ceil"),
        other => other,
    };
    let coefficient = node.float("cubic_coeff_a")?.unwrap_or(-0.75);
    let exclude_outside = node.flag("exclude_outside", false)?;
    let outside = node.float("extrapolation_value")?.unwrap_or(0.0);
    let mode = match node.string("mode")?.unwrap_or("nearest") {
        "nearest" => ResizeMode::Nearest(match rounding {
            "round_prefer_floor" => Nearest::RoundPreferFloor,
            "round_prefer_ceil" => Nearest::RoundPreferCeil,
            "floor" => Nearest::Floor,
            "ceil" => Nearest::Ceil,
            other => return Err(malformed(format!("`{other}`")).at("nearest_mode")),
        }),
        // Without a widened filter, dropping taps outside and repeating the edge are the same for linear weights.
        "linear" if exclude_outside && antialias => ResizeMode::LinearInside,
        "linear" => ResizeMode::Linear { antialias },
        "cubic" => ResizeMode::Cubic {
            coefficient: Scalar(coefficient),
            exclude_outside,
            antialias,
        },
        other => return Err(unsupported(format!("`{other}`")).at("mode")),
    };
    let coordinates = match rule {
        "half_pixel" => Coordinates::HalfPixel,
        "half_pixel_symmetric" => Coordinates::HalfPixelSymmetric,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        "tf_crop_and_resize" => crop(node, &axes, outside)?,
        other => return Err(unsupported(format!("`{other}`")).at("coordinate_transformation_mode")),
    };
    let target = target(node, x.shape(), &axes)?;
    emit(b, x, mode, coordinates, target)
}

/// The region of interest: first corners, then last corners, of `axes`; all of the other axes.
fn crop(node: &OnnxNode<'_>, axes: &[usize], outside: f32) -> Fallible<Coordinates> {
    let roi = node.float_input(1, "roi")?.ok_or_else(|| malformed("missing").at("roi"))?;
    if roi.len() != 2 * axes.len() || roi.iter().any(|v| !v.is_finite()) {
        return Err(malformed(format!("{} numbers for {} axes", roi.len(), axes.len())).at("roi"));
    }
    let (mut start, mut end) = ([Scalar(0.0); MAX_RANK], [Scalar(1.0); MAX_RANK]);
    for (i, &axis) in axes.iter().enumerate() {
        start[axis] = Scalar(roi[i] as f32);
        end[axis] = Scalar(roi[axes.len() + i] as f32);
    }
    Ok(Coordinates::CropAndResize {
        start,
        end,
        outside: Scalar(outside),
    })
}

/// The result's extents from the `scales` or `sizes` input.
fn target(node: &OnnxNode<'_>, x: Shape, axes: &[usize]) -> Fallible<Target> {
    let given = |v: &Vec<_>| !v.is_empty();
    let scales = node.float_input(2, "scales")?.filter(given);
    let sizes = node.int_input(3, "sizes")?.filter(|v| !v.is_empty());
    let policy = node.string("keep_aspect_ratio_policy")?.unwrap_or("stretch");
    match (scales, sizes) {
        (Some(scales), None) => scaled(x, axes, &scales),
        (None, Some(sizes)) => sized(x, axes, &sizes, policy),
        (Some(_), Some(_)) => Err(malformed("scales and sizes are both given").at("sizes")),
        (None, None) => Err(malformed("neither scales nor sizes are given").at("scales")),
    }
}

fn scaled(x: Shape, axes: &[usize], given: &[f64]) -> Fallible<Target> {
    if given.len() != axes.len() {
        return Err(malformed(format!("{} scales for {} axes", given.len(), axes.len())).at("scales"));
    }
    let mut dims: Vec<i64> = x.dims().iter().map(|&d| i64::from(d)).collect();
    let mut scales = [Scalar(1.0); MAX_RANK];
    for (&axis, &scale) in axes.iter().zip(given) {
        let scale = scale as f32;
        if !(scale.is_finite() && scale > 0.0) {
            return Err(malformed(format!("a scale of {scale}")).at("scales"));
        }
        // In f32, as the standard's shape inference does it: 10 times 0.7 is 7. A float cast saturates. A region of interest changes
        // nothing: the text says so, but neither the inference nor the reference nor onnxruntime does it.
        dims[axis] = (x.dim(axis) as f32 * scale).floor() as i64;
        scales[axis] = Scalar(scale);
    }
    Ok(Target {
        shape: shape_of(&dims).map_err(|e| e.at("scales"))?,
        scales,
    })
}

fn sized(x: Shape, axes: &[usize], sizes: &[i64], policy: &str) -> Fallible<Target> {
    if sizes.len() != axes.len() {
        return Err(malformed(format!("{} sizes for {} axes", sizes.len(), axes.len())).at("sizes"));
    }
    let mut dims: Vec<i64> = x.dims().iter().map(|&d| i64::from(d)).collect();
    let mut scales = [Scalar(1.0); MAX_RANK];
    let ratios = || axes.iter().zip(sizes).map(|(&a, &s)| s as f64 / f64::from(x.dim(a).max(1)));
    let common = match policy {
        "stretch" => None,
        "not_larger" => ratios().reduce(f64::min),
        "not_smaller" => ratios().reduce(f64::max),
        other => return Err(malformed(format!("`{other}`")).at("keep_aspect_ratio_policy")),
    };
    for (&axis, &size) in axes.iter().zip(sizes) {
        let extent = f64::from(x.dim(axis));
        dims[axis] = match common {
            // Halves are rounded up.
            Some(scale) => (scale * extent + 0.5).floor() as i64,
            None => size,
        };
        if dims[axis] < 1 || extent == 0.0 {
            return Err(malformed(format!("size {} for an extent of {extent}", dims[axis])).at("sizes"));
        }
        scales[axis] = Scalar(common.unwrap_or(dims[axis] as f64 / extent) as f32);
    }
    Ok(Target {
        shape: shape_of(&dims).map_err(|e| e.at("sizes"))?,
        scales,
    })
}

/// Resize of operator set 10 and Upsample: source coordinate `x / scale`; where nearest, rounded down along axes that grow, and
/// up along those that shrink, as that version's own test has it (1 2 3 4 by 0.6 is 1 3).
fn first_form(b: &mut Builder, node: &OnnxNode<'_>, scales: Option<Vec<f64>>) -> Fallible<Operand> {
    let x = node.input(0)?;
    let scales = scales.ok_or_else(|| malformed("missing").at("scales"))?;
    let axes: Vec<usize> = (0..x.shape().rank()).collect();
    let to = |b: &mut Builder, x: &Operand, mode, scales: &[f64]| {
        let target = scaled(x.shape(), &axes, scales)?;
        emit(b, x, mode, Coordinates::Asymmetric, target)
    };
    match node.string("mode")?.unwrap_or("nearest") {
        "nearest" => {
            // Where there are both, those that shrink go first.
            let of = |shrinks: bool| {
                scales
                    .iter()
                    .map(|&s| if (s < 1.0) == shrinks { s } else { 1.0 })
                    .collect::<Vec<_>>()
            };
            if scales.iter().all(|s| *s >= 1.0) || scales.len() != axes.len() {
                return to(b, x, ResizeMode::Nearest(Nearest::Floor), &scales);
            }
            let shrunk = to(b, x, ResizeMode::Nearest(Nearest::Ceil), &of(true))?;
            to(b, &shrunk, ResizeMode::Nearest(Nearest::Floor), &of(false))
        }
        "linear" | "bilinear" => to(b, x, ResizeMode::Linear { antialias: false }, &scales),
        other => Err(unsupported(format!("`{other}`")).at("mode")),
    }
}

fn emit(b: &mut Builder, x: &Operand, mode: ResizeMode, coordinates: Coordinates, target: Target) -> Fallible<Operand> {
    let still = target.shape == x.shape() && target.scales.iter().all(|s| s.0 == 1.0);
    if still && !matches!(coordinates, Coordinates::CropAndResize { .. }) {
        return Ok(x.clone());
    }
    if !x.elem().is_float() && !matches!(mode, ResizeMode::Nearest(_)) {
        return Err(unsupported(format!(
            "interpolation of {:?}: Cast the input to FLOAT, or take the nearest element",
            x.elem()
        ))
        .at("mode"));
    }
    let resize = Resize {
        mode,
        coordinates,
        scales: target.scales,
    };
    b.one(Primitive::Resize(resize), &[x], x.elem(), target.shape)
}
