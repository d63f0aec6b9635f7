//! Places that a frame computes in pictures: GridSample, DeformConv, Col2Im.

use super::super::builder::Builder;
use super::super::error::{Fallible, malformed, unsupported};
use super::super::host::{Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::reshape::extents;
use super::window;
use crate::primitive::{Outside, Places, Primitive, Sample, Sampling, Window};
use crate::tensor::Data;

/// GridSample of pictures: what lies at the places of a grid.
pub(super) fn grid_sample(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (x, grid) = (node.input(0)?, node.input(1)?);
    let sampling = match node.string("mode")?.unwrap_or("linear") {
        "linear" | "bilinear" => Sampling::Linear,
        "nearest" => Sampling::Nearest,
        "cubic" | "bicubic" => Sampling::Cubic,
        other => return Err(malformed(format!("`{other}`")).at("mode")),
    };
    let outside = match node.string("padding_mode")?.unwrap_or("zeros") {
        "zeros" => Outside::Zero,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return Err(malformed(format!("`{other}`")).at("padding_mode")),
    };
    let align_corners = node.flag("align_corners", false)?;
    if !x.elem().is_float() || !grid.elem().is_float() {
        return Err(malformed(format!("{:?} at places of {:?}", x.elem(), grid.elem())));
    }
    let (&[n, c, ..], &[_, rows, columns, _]) = (&extents(x.shape())[..], &extents(grid.shape())[..]) else {
        return Err(unsupported(format!(
            "an input {} and a grid {}: only pictures are sampled, not volumes",
            x.shape(),
            grid.shape()
        )));
    };
    let sample = Sample {
        sampling,
        outside,
        places: Places::Grid { align_corners },
    };
    b.one(Primitive::Sample(sample), &[x, grid], x.elem(), shape_of(&[n, c, rows, columns])?)
}

/// DeformConv: a convolution whose taps are moved, and weighed. The taps are sampled, and a 1x1 convolution adds them up.
pub(super) fn deform_conv(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 5)?;
    let (x, w, moves) = (node.input(0)?, node.input(1)?, node.input(2)?);
    let count = |name: &'static str| {
        let number = node.int(name)?.unwrap_or(1);
        u32::try_from(number)
            .ok()
            .filter(|&n| n >= 1)
            .ok_or_else(|| malformed(format!("{number}")).at(name))
    };
    let (parts, groups) = (count("group")?, count("offset_group")?);
    let (&[n, channels, ..], &[outputs, each, ..]) = (&extents(x.shape())[..], &extents(w.shape())[..]) else {
        return Err(malformed(format!("an input {} with weights {}", x.shape(), w.shape())));
    };
    if x.shape().rank() != 4 || w.shape().rank() != 4 {
        return Err(unsupported(format!(
            "an input {}: only pictures are imported. Cut the network in front of this node with --output NAME",
            x.shape()
        )));
    }
    if each * i64::from(parts) != channels || outputs % i64::from(parts) != 0 {
        return Err(malformed(format!("an input {} with weights {} in {parts} groups", x.shape(), w.shape())).at("group"));
    }
    let (window, _) = window::read(node, 4, w.shape().dims().get(2..))?;
    let taps = i64::try_from(window.taps()).unwrap_or(i64::MAX);
    let mut dims = vec![n, channels.saturating_mul(taps)];
    for a in 0..2 {
        dims.push(window::output_extent(&window, a, x.shape().dim(a + 2), false)?.into());
    }
    let sample = Sample {
        sampling: Sampling::Linear,
        outside: Outside::Zero,
        places: Places::Taps { window, groups, parts },
    };
    let mut operands = vec![x, moves];
    operands.extend(node.optional(4));
    let sampled = b.one(Primitive::Sample(sample), &operands, x.elem(), shape_of(&dims)?)?;
    // The weights of an output tap by tap, as they are sampled.
    let by_tap = b.transpose(w, &[0, 2, 3, 1])?;
    let weights = b.reshape(&by_tap, shape_of(&[outputs, taps * each, 1, 1])?)?;
    let mut operands = vec![&sampled, &weights];
    operands.extend(node.optional(3));
    let primitive = Primitive::Conv {
        window: Window::new(&[1, 1]),
        groups: parts,
    };
    b.one(primitive, &operands, x.elem(), shape_of(&[n, outputs, dims[2], dims[3]])?)
}

/// Col2Im of pictures: the sum of the blocks that cover each place, which a transposed convolution of each channel adds up, each of
/// whose inputs is one tap.
pub(super) fn col2im(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 3)?;
    let x = node.input(0)?;
    let extents_of = |index: usize, name: &'static str| {
        let known = node.input(index)?.host().and_then(Host::as_i64s);
        let known = known.filter(|v| v.len() == 2 && v.iter().all(|&e| (1..1 << 16).contains(&e)));
        known.ok_or_else(|| unsupported("anything but two constants: only pictures of known extents are imported").at(name))
    };
    let (image, block) = (extents_of(1, "image_shape")?, extents_of(2, "block_shape")?);
    let kernel: Vec<u32> = block.iter().map(|&e| e as u32).collect();
    let (mut window, _) = window::read(node, 4, Some(&kernel))?;
    let taps = block[0] * block[1];
    let &[n, columns, places] = &extents(x.shape())[..] else {
        return Err(malformed(format!("an input {}", x.shape())));
    };
    let mut blocks = Vec::with_capacity(2);
    for a in 0..2 {
        blocks.push(i64::from(window::output_extent(&window, a, image[a] as u32, false)?));
        // What no block reaches at the end is filled up.
        window.pad_end[a] = ((blocks[a] - 1) * i64::from(window.stride[a]) + i64::from(window.reach(a).unwrap_or(1)))
            .saturating_sub(image[a] + i64::from(window.pad_begin[a]))
            .max(0) as u32;
    }
    if columns % taps != 0 || places != blocks[0] * blocks[1] {
        return Err(malformed(format!(
            "an input {} of {} x {} blocks of {taps}",
            x.shape(),
            blocks[0],
            blocks[1]
        )));
    }
    let channels = columns / taps;
    let pictures = b.reshape(x, shape_of(&[n, columns, blocks[0], blocks[1]])?)?;
    let one = |i: i64| if i / taps % taps == i % taps { 1.0 } else { 0.0 };
    let ones = Data::F32((0..columns * taps).map(one).collect());
    let weights = Host::tensor(shape_of(&[columns, 1, block[0], block[1]])?, ones)?.cast(x.elem())?;
    let weights = b.constant(weights);
    let primitive = Primitive::ConvTranspose {
        window,
        groups: u32::try_from(channels).map_err(|_| malformed("too many channels"))?,
    };
    b.one(
        primitive,
        &[&pictures, &weights],
        x.elem(),
        shape_of(&[n, channels, image[0], image[1]])?,
    )
}
