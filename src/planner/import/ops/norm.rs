//! Normalisations: BatchNormalization, LayerNormalization, RMSNormalization, InstanceNormalization, GroupNormalization,
//! LpNormalization, LRN, MeanVarianceNormalization.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{apply, convert};
use super::reduce;
use super::reshape::extents;
use crate::primitive::{Binary, PoolKind, Primitive, ReduceKind, Scalar, Unary, Window};

/// What a normalisation computes on its way.
struct Normal {
    mean: Operand,
    deviation: Operand,
    /// `(x - mean) / deviation`.
    normal: Operand,
}

/// `x` less its mean over `axes`, over its deviation `sqrt(var + epsilon)`.
fn normal(b: &mut Builder, x: &Operand, axes: &[usize], epsilon: f32) -> Fallible<Normal> {
    let mean = reduce::over(b, x, ReduceKind::Mean, axes)?;
    let centred = b.binary(Binary::Sub, x, &mean)?;
    let squared = b.binary(Binary::Mul, &centred, &centred)?;
    let variance = reduce::over(b, &squared, ReduceKind::Mean, axes)?;
    let epsilon = b.scalar(x.elem(), f64::from(epsilon))?;
    let shifted = b.binary(Binary::Add, &variance, &epsilon)?;
    let deviation = apply(b, Unary::Sqrt, &shifted)?;
    let normal = b.binary(Binary::Div, &centred, &deviation)?;
    Ok(Normal { mean, deviation, normal })
}

/// The axes that a node's statistics of `x` go over, from its `axis` on, and its `epsilon`. They are taken in f32.
fn statistics(node: &OnnxNode<'_>, x: &Operand) -> Fallible<(Vec<usize>, f32)> {
    let rank = x.shape().rank();
    let first = OnnxNode::axis(node.int("axis")?.unwrap_or(-1), rank, "axis")?;
    if node.int("stash_type")?.unwrap_or(1) != 1 {
        return Err(unsupported("statistics in another type than f32: export it with 1, which is FLOAT").at("stash_type"));
    }
    Ok(((first..rank).collect(), node.float("epsilon")?.unwrap_or(1e-5)))
}

/// LayerNormalization: `(x - mean) / sqrt(var + epsilon) * scale + bias`, mean and variance over the axes from `axis` on, in f32.
/// The mean and the reciprocal deviation are its second and third output.
pub(super) fn layer_normalization(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(2, 3)?;
    let x = floats(node)?;
    let (axes, epsilon) = statistics(node, x)?;
    let wide = convert(b, x, Elem::F32)?;
    let Normal { mean, deviation, normal } = normal(b, &wide, &axes, epsilon)?;
    let normal = convert(b, &normal, x.elem())?;
    let mut result = b.binary(Binary::Mul, &normal, node.input(1)?)?;
    if let Some(bias) = node.optional(2) {
        result = b.binary(Binary::Add, &result, bias)?;
    }
    if result.shape() != x.shape() {
        return Err(malformed(format!(
            "a scale or bias that widens {} to {}",
            x.shape(),
            result.shape()
        )));
    }
    let mut outputs = vec![result];
    if node.output_count() > 1 {
        outputs.push(mean);
    }
    if node.output_count() > 2 {
        let one = b.scalar(Elem::F32, 1.0)?;
        outputs.push(b.binary(Binary::Div, &one, &deviation)?);
    }
    Ok(outputs)
}

fn floats<'n>(node: &'n OnnxNode<'_>) -> Fallible<&'n Operand> {
    let x = node.input(0)?;
    if x.elem().is_float() {
        Ok(x)
    } else {
        Err(malformed(format!("elements of {:?}", x.elem())))
    }
}

/// RMSNormalization: `x / sqrt(mean of x^2 + epsilon) * scale` over the axes from `axis` on.
pub(super) fn rms_normalization(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let x = floats(node)?;
    let (axes, epsilon) = statistics(node, x)?;
    let wide = convert(b, x, Elem::F32)?;
    let squared = b.binary(Binary::Mul, &wide, &wide)?;
    let mean = reduce::over(b, &squared, ReduceKind::Mean, &axes)?;
    let epsilon = b.scalar(Elem::F32, f64::from(epsilon))?;
    let shifted = b.binary(Binary::Add, &mean, &epsilon)?;
    let size = apply(b, Unary::Sqrt, &shifted)?;
    let normal = b.binary(Binary::Div, &wide, &size)?;
    let normal = convert(b, &normal, x.elem())?;
    b.binary(Binary::Mul, &normal, node.input(1)?)
}

/// InstanceNormalization: each channel of each sample normalised over its places, then scaled and shifted.
pub(super) fn instance_normalization(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let channels = i64::from(floats(node)?.shape().dims().get(1).copied().unwrap_or(0));
    grouped(b, node, channels)
}

/// GroupNormalization: the same over groups of channels. Before operator set 21 scale and shift are those of the groups.
pub(super) fn group_normalization(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    let groups = node.int("num_groups")?.ok_or_else(|| malformed("missing").at("num_groups"))?;
    node.ignore("stash_type");
    grouped(b, node, groups)
}

fn grouped(b: &mut Builder, node: &OnnxNode<'_>, groups: i64) -> Fallible<Operand> {
    node.arity(3, 3)?;
    let x = floats(node)?;
    let epsilon = node.float("epsilon")?.unwrap_or(1e-5);
    let dims = extents(x.shape());
    let &[n, channels, ..] = &dims[..] else {
        return Err(malformed(format!("an input {} without channels", x.shape())));
    };
    if groups < 1 || channels % groups != 0 {
        return Err(malformed(format!("{channels} channels in {groups} groups")).at("num_groups"));
    }
    let each = dims[2..].iter().product::<i64>() * (channels / groups);
    let runs = b.reshape(x, shape_of(&[n, groups, each])?)?;
    let runs = convert(b, &runs, Elem::F32)?;
    let normal = normal(b, &runs, &[2], epsilon)?.normal;
    let normal = convert(b, &normal, x.elem())?;
    // Of a channel alone, scale and shift come before its places are rows and columns again: so they join the normalisation.
    let mut result = if groups == channels {
        normal
    } else {
        b.reshape(&normal, x.shape())?
    };
    for (index, kind) in [(1, Binary::Mul), (2, Binary::Add)] {
        let p = node.input(index)?;
        let per = i64::from(p.shape().dims().first().copied().unwrap_or(0));
        let p = if per == channels {
            p.clone()
        } else if per == groups {
            // One for each group: repeated for its channels.
            let column = b.reshape(p, shape_of(&[groups, 1])?)?;
            let wide = b.broadcast(&column, shape_of(&[groups, channels / groups])?)?;
            b.reshape(&wide, shape_of(&[channels])?)?
        } else {
            return Err(malformed(format!("shape {} for {channels} channels", p.shape())).at(if index == 1 { "scale" } else { "bias" }));
        };
        let p = convert(b, &p, x.elem())?;
        let p = b.per_channel(&p, result.shape().rank())?;
        result = b.binary(kind, &result, &p)?;
    }
    b.reshape(&result, x.shape())
}

/// LpNormalization: over the sum of sizes, or the root of the sum of squares, along an axis.
pub(super) fn lp_normalization(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = floats(node)?;
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(-1), x.shape().rank(), "axis")?;
    let size = match node.int("p")?.unwrap_or(2) {
        1 => {
            let sizes = apply(b, Unary::Abs, x)?;
            reduce::over(b, &sizes, ReduceKind::Sum, &[axis])?
        }
        2 => reduce::over(b, x, ReduceKind::Norm, &[axis])?,
        other => return Err(malformed(format!("{other}")).at("p")),
    };
    // Nothing but zeros stays zeros.
    let size = apply(b, Unary::Clip(Scalar(f32::MIN_POSITIVE), Scalar(f32::INFINITY)), &size)?;
    b.binary(Binary::Div, x, &size)
}

/// LRN (Krizhevsky et al. 2012): `x / (bias + alpha * mean of the squares of size neighbouring channels)^beta`, where channels
/// that do not exist count as 0.
pub(super) fn local_response(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = floats(node)?;
    let (alpha, beta) = (node.float("alpha")?.unwrap_or(1e-4), node.float("beta")?.unwrap_or(0.75));
    let bias = node.float("bias")?.unwrap_or(1.0);
    let size = node.int("size")?.ok_or_else(|| malformed("missing").at("size"))?;
    let dims = extents(x.shape());
    let &[n, channels, ..] = &dims[..] else {
        return Err(malformed(format!("an input {} without channels", x.shape())));
    };
    let size = u32::try_from(size)
        .ok()
        .filter(|&s| s >= 1)
        .ok_or_else(|| malformed(format!("{size}")).at("size"))?;
    let places = dims[2..].iter().product::<i64>();
    // Scaled first, squares stay within f16's range as long as what they are added to does.
    let (root, sign) = (f64::from(alpha.abs()).sqrt(), f64::from(alpha.signum()));
    let root = b.scalar(x.elem(), root)?;
    let scaled = b.binary(Binary::Mul, x, &root)?;
    let squares = b.binary(Binary::Mul, &scaled, &scaled)?;
    let picture = shape_of(&[n, 1, channels, places])?;
    let squares = b.reshape(&squares, picture)?;
    let mut window = Window::new(&[size, 1]);
    (window.pad_begin[0], window.pad_end[0]) = ((size - 1) / 2, size / 2);
    let kind = PoolKind::Average { count_pad: true };
    let mean = b.one(Primitive::Pool { kind, window }, &[&squares], x.elem(), picture)?;
    let mean = b.reshape(&mean, x.shape())?;
    let (sign, bias) = (b.scalar(x.elem(), sign)?, b.scalar(x.elem(), f64::from(bias))?);
    let exponent = b.scalar(x.elem(), f64::from(beta))?;
    let signed = b.binary(Binary::Mul, &mean, &sign)?;
    let shifted = b.binary(Binary::Add, &signed, &bias)?;
    let divisor = b.binary(Binary::Pow, &shifted, &exponent)?;
    b.binary(Binary::Div, x, &divisor)
}

/// MeanVarianceNormalization: without scale and shift, and next to nothing added to the variance.
pub(super) fn mean_variance(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = floats(node)?;
    let axes = node.ints("axes")?.unwrap_or(&[0, 2, 3]);
    let axes = OnnxNode::axes(axes, x.shape().rank(), "axes")?;
    let mean = reduce::over(b, x, ReduceKind::Mean, &axes)?;
    let centred = b.binary(Binary::Sub, x, &mean)?;
    let squared = b.binary(Binary::Mul, &centred, &centred)?;
    let variance = reduce::over(b, &squared, ReduceKind::Mean, &axes)?;
    let deviation = apply(b, Unary::Sqrt, &variance)?;
    let epsilon = b.scalar(x.elem(), 1e-9)?;
    let deviation = b.binary(Binary::Add, &deviation, &epsilon)?;
    b.binary(Binary::Div, &centred, &deviation)
}

/// BatchNormalization with the statistics of its own input, as weights that are standardised on the way are exported. The running
/// mean and variance, which follow those of the input by what `momentum` leaves of them, are its second and third output; before
/// operator set 14 the input's mean and the reciprocal of its deviation, as onnxruntime has them, are the fourth and fifth.
fn normalised_by_itself(
    b: &mut Builder,
    node: &OnnxNode<'_>,
    x: &Operand,
    parameters: &[&Operand],
    epsilon: f32,
) -> Fallible<Vec<Operand>> {
    let rank = x.shape().rank();
    let momentum = f64::from(node.float("momentum")?.unwrap_or(0.9));
    let axes: Vec<usize> = (0..rank).filter(|&a| a != 1).collect();
    let mean = reduce::over(b, x, ReduceKind::Mean, &axes)?;
    let centred = b.binary(Binary::Sub, x, &mean)?;
    let squared = b.binary(Binary::Mul, &centred, &centred)?;
    let variance = reduce::over(b, &squared, ReduceKind::Mean, &axes)?;
    let epsilon = b.scalar(x.elem(), f64::from(epsilon))?;
    let shifted = b.binary(Binary::Add, &variance, &epsilon)?;
    let deviation = apply(b, Unary::Sqrt, &shifted)?;
    let normal = b.binary(Binary::Div, &centred, &deviation)?;
    let along = |b: &mut Builder, p: &Operand| {
        let p = convert(b, p, x.elem())?;
        b.per_channel(&p, rank)
    };
    let (scale, bias) = (along(b, parameters[0])?, along(b, parameters[1])?);
    let scaled = b.binary(Binary::Mul, &normal, &scale)?;
    let mut outputs = vec![b.binary(Binary::Add, &scaled, &bias)?];
    for (index, found) in [(2, &mean), (3, &variance)] {
        if node.output_count() < index {
            break;
        }
        let running = parameters[index];
        let found = b.reshape(found, running.shape())?;
        let found = convert(b, &found, running.elem())?;
        let (kept, rest) = (b.scalar(running.elem(), momentum)?, b.scalar(running.elem(), 1.0 - momentum)?);
        let old = b.binary(Binary::Mul, running, &kept)?;
        let new = b.binary(Binary::Mul, &found, &rest)?;
        outputs.push(b.binary(Binary::Add, &old, &new)?);
    }
    if node.output_count() > 3 {
        let one = b.scalar(x.elem(), 1.0)?;
        let reciprocal = b.binary(Binary::Div, &one, &deviation)?;
        outputs.push(b.reshape(&mean, parameters[2].shape())?);
        outputs.push(b.reshape(&reciprocal, parameters[3].shape())?);
    }
    Ok(outputs)
}

/// BatchNormalization at inference: `x * a + c` per channel with `a = scale / sqrt(var + epsilon)`, `c = bias - mean * a`.
/// Constant parameters are combined in f64; others are computed on the way.
pub(super) fn batch_normalization(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Vec<Operand>> {
    node.arity(5, 5)?;
    let x = node.input(0)?;
    let epsilon = node.float("epsilon")?.unwrap_or(1e-5);
    // Before operator set 14 the outputs say that the statistics are the input's own.
    let more = (1..node.output_count()).any(|i| node.wants(i));
    let training = if node.opset < 14 {
        more
    } else {
        node.flag("training_mode", false)?
    };
    if node.opset < 9 && !node.flag("spatial", true)? {
        return Err(unsupported("statistics per position: write them as Sub, Div, Mul and Add of constants when exporting").at("spatial"));
    }
    if more && !training {
        return Err(malformed("more outputs than one, which only a `training_mode` of 1 gives"));
    }
    let (rank, channels) = (x.shape().rank(), x.shape().dim(1));
    if rank < 2 || !x.elem().is_float() {
        return Err(malformed(format!("an input {} of {:?}", x.shape(), x.elem())));
    }
    let names = ["scale", "B", "mean", "var"];
    let mut parameters = Vec::with_capacity(4);
    for (i, name) in names.iter().enumerate() {
        let p = node.input(i + 1)?;
        if p.shape().dims() != [channels] {
            return Err(malformed(format!("shape {} for {channels} channels", p.shape())).at(name));
        }
        parameters.push(p);
    }
    if training {
        return normalised_by_itself(b, node, x, &parameters, epsilon);
    }
    node.ignore("momentum");
    let hosts: Option<Vec<Vec<f64>>> = parameters.iter().map(|p| p.host().map(Host::as_f64s)).collect();
    if let Some(hosts) = hosts {
        let [scale, bias, mean, var] = [&hosts[0], &hosts[1], &hosts[2], &hosts[3]];
        let a: Vec<f64> = scale.iter().zip(var).map(|(s, v)| s / (v + f64::from(epsilon)).sqrt()).collect();
        let c: Vec<f64> = bias.iter().zip(mean).zip(&a).map(|((b, m), a)| b - m * a).collect();
        let mut parameter = |values: Vec<f64>| {
            let vector = b.constant(Host::from_f64s(x.elem(), parameters[0].shape(), values)?);
            b.per_channel(&vector, rank)
        };
        let (a, c) = (parameter(a)?, parameter(c)?);
        let scaled = b.binary(Binary::Mul, x, &a)?;
        return Ok(vec![b.binary(Binary::Add, &scaled, &c)?]);
    }
    if parameters.iter().any(|p| p.elem() != x.elem()) {
        return Err(unsupported("computed parameters of another type than the input's: Cast them to it"));
    }
    let epsilon = b.scalar(x.elem(), f64::from(epsilon))?;
    let shifted = b.binary(Binary::Add, parameters[3], &epsilon)?;
    let deviation = apply(b, Unary::Sqrt, &shifted)?;
    let factor = b.binary(Binary::Div, parameters[0], &deviation)?;
    let (mean, factor, bias) = (
        b.per_channel(parameters[2], rank)?,
        b.per_channel(&factor, rank)?,
        b.per_channel(parameters[1], rank)?,
    );
    let centred = b.binary(Binary::Sub, x, &mean)?;
    let scaled = b.binary(Binary::Mul, &centred, &factor)?;
    Ok(vec![b.binary(Binary::Add, &scaled, &bias)?])
}
