//! What every primitive demands of its operands: arity, types, shapes, attributes (invariant P6).

use super::{MAX_CROP_MARGIN, PadMode, Places, PoolKind, Primitive, PrimitiveError, ResizeMode, Sample, Scalar, Window};
use crate::limits::{MAX_CROP_CANDIDATES, MAX_CROPS, MAX_IMAGE_SIDE, MAX_RANK};
use crate::tensor::{DType, Shape};

/// Type and logical shape of an operand.
pub type Operand = (DType, Shape);

fn need(ok: bool, error: PrimitiveError) -> Result<(), PrimitiveError> {
    if ok { Ok(()) } else { Err(error) }
}

impl Primitive {
    /// The fewest and most inputs and outputs: `(inputs, outputs)` as inclusive ranges.
    pub const fn arity(&self) -> ((usize, usize), (usize, usize)) {
        match self {
            Primitive::Conv { .. } | Primitive::ConvTranspose { .. } | Primitive::MatMul => ((2, 3), (1, 1)),
            Primitive::Binary(_) | Primitive::Gather { .. } | Primitive::Expectation { .. } => ((2, 2), (1, 1)),
            Primitive::Pool {
                kind: PoolKind::Max { .. },
                ..
            } => ((1, 1), (1, 2)),
            Primitive::DecodeYolox { .. } | Primitive::TopK => ((1, 1), (2, 2)),
            Primitive::Nms(_) => ((2, 2), (2, 2)),
            Primitive::Crop(_) => ((3, 3), (2, 2)),
            Primitive::Lstm { .. } => ((2, 4), (1, 2)),
            Primitive::Gru { .. } => ((2, 3), (1, 1)),
            Primitive::Attention { .. } => ((3, 4), (1, 1)),
            Primitive::Sample(Sample {
                places: Places::Grid { .. },
                ..
            }) => ((2, 2), (1, 1)),
            Primitive::Sample(Sample {
                places: Places::Sums { .. },
                ..
            }) => ((3, 4), (1, 1)),
            Primitive::Sample(_) => ((2, 3), (1, 1)),
            _ => ((1, 1), (1, 1)),
        }
    }

    /// Checks the operands against the primitive. Everything a kernel relies on (but memory bounds) is established here.
    pub fn check(&self, inputs: &[Operand], outputs: &[Operand]) -> Result<(), PrimitiveError> {
        use PrimitiveError::{Arity, Attribute, Shape as BadShape, Type};
        let ((in_low, in_high), (out_low, out_high)) = self.arity();
        need(
            (in_low..=in_high).contains(&inputs.len()) && (out_low..=out_high).contains(&outputs.len()),
            Arity,
        )?;
        let (xt, x) = inputs[0];
        let (yt, y) = outputs[0];
        match self {
            Primitive::Conv { window, groups } | Primitive::ConvTranspose { window, groups } => {
                let transposed = matches!(self, Primitive::ConvTranspose { .. });
                need(window.is_valid() && *groups >= 1, Attribute)?;
                need(inputs.iter().all(|(t, _)| *t == xt) && xt == yt && xt.is_float(), Type)?;
                let (_, w) = inputs[1];
                let rank = usize::from(window.axes) + 2;
                need(
                    x.rank() == rank && w.rank() == rank && y.rank() == rank && x.dim(0) == y.dim(0),
                    BadShape,
                )?;
                let (cin, cout) = (x.dim(1), y.dim(1));
                need(cin % groups == 0 && cout % groups == 0, BadShape)?;
                let (w0, w1) = if transposed { (cin, cout / groups) } else { (cout, cin / groups) };
                need(w.dim(0) == w0 && w.dim(1) == w1, BadShape)?;
                need((0..rank - 2).all(|a| w.dim(a + 2) == window.kernel[a]), BadShape)?;
                if let Some((_, bias)) = inputs.get(2) {
                    need(bias.dims() == [cout], BadShape)?;
                }
                if transposed {
                    // The output may be shorter than the full result (pads) or longer (output padding below one stride).
                    need(
                        (0..rank - 2).all(|a| transposed_fits(window, a, x.dim(a + 2), y.dim(a + 2))),
                        BadShape,
                    )
                } else {
                    need(
                        (0..rank - 2).all(|a| window.output(a, x.dim(a + 2)) == Some(y.dim(a + 2))),
                        BadShape,
                    )
                }
            }
            Primitive::MatMul => {
                need(inputs.iter().all(|(t, _)| *t == xt) && xt == yt && xt.is_float(), Type)?;
                let (_, b) = inputs[1];
                let r = x.rank();
                need(r >= 2 && b.rank() == r && y.rank() == r, BadShape)?;
                need((0..r - 2).all(|a| x.dim(a) == y.dim(a) && b.dim(a) == y.dim(a)), BadShape)?;
                need(
                    x.dim(r - 2) == y.dim(r - 2) && b.dim(r - 1) == y.dim(r - 1) && x.dim(r - 1) == b.dim(r - 2),
                    BadShape,
                )?;
                need(inputs.get(2).is_none_or(|(_, c)| *c == y), BadShape)
            }
            Primitive::Unary(_) => {
                need(xt == yt, Type)?;
                need(x == y, BadShape)
            }
            Primitive::Binary(kind) => {
                let (bt, b) = inputs[1];
                need(xt == yt && (bt == xt || *kind == super::Binary::Pow), Type)?;
                need(x == y && b == y, BadShape)
            }
            Primitive::Copy => need(x == y, BadShape),
            Primitive::Pool { kind, window } => {
                need(window.is_valid(), Attribute)?;
                need(xt == yt && (xt.is_float() || matches!(kind, PoolKind::Max { .. })), Type)?;
                let rank = usize::from(window.axes) + 2;
                need(
                    x.rank() == rank && y.rank() == rank && x.dim(0) == y.dim(0) && x.dim(1) == y.dim(1),
                    BadShape,
                )?;
                // Every window starts inside the padded input before its end padding, and touches at least one element.
                need((0..rank - 2).all(|a| pool_fits(window, a, x.dim(a + 2), y.dim(a + 2))), BadShape)?;
                if let Some((it, i)) = outputs.get(1) {
                    need(*it == DType::I32, Type)?;
                    need(*i == y, BadShape)?;
                }
                Ok(())
            }
            Primitive::Reduce { kind, axes } => {
                need(xt == yt && (xt.is_float() || *kind != super::ReduceKind::Norm), Type)?;
                need(u32::from(*axes) < 1u32 << x.rank(), Attribute)?;
                let reduced = |a: usize| axes & (1 << a) != 0;
                need(
                    x.rank() == y.rank() && (0..x.rank()).all(|a| y.dim(a) == if reduced(a) { 1 } else { x.dim(a) }),
                    BadShape,
                )?;
                // A mean of nothing has no value.
                let empty = (0..x.rank()).any(|a| reduced(a) && x.dim(a) == 0);
                need(!(empty && *kind == super::ReduceKind::Mean && y.elements() > 0), BadShape)
            }
            Primitive::Softmax { axis } => {
                need(xt == yt && xt.is_float(), Type)?;
                need(usize::from(*axis) < x.rank(), Attribute)?;
                need(x == y, BadShape)
            }
            Primitive::Expectation { axis } => {
                let (vt, values) = inputs[1];
                let a = usize::from(*axis);
                need(xt == yt && vt == xt && xt.is_float(), Type)?;
                need(a < x.rank(), Attribute)?;
                // A mean of nothing has no value.
                need(x.with_dim(a, 1) == Some(y) && values.dims() == [x.dim(a)] && x.dim(a) > 0, BadShape)
            }
            Primitive::Normalise { axis, epsilon } | Primitive::RmsNormalise { axis, epsilon } => {
                need(xt == yt && xt.is_float(), Type)?;
                need(usize::from(*axis) < x.rank() && epsilon.0.is_finite(), Attribute)?;
                need(x == y, BadShape)
            }
            Primitive::GroupNormalise { groups, epsilon } => {
                need(xt == yt && xt.is_float(), Type)?;
                need(*groups >= 1 && epsilon.0.is_finite(), Attribute)?;
                need(x.rank() >= 2 && x.dim(1) % groups == 0 && x == y, BadShape)
            }
            Primitive::Attention { scale } => {
                need(inputs.iter().all(|(t, _)| *t == xt) && xt == yt && xt.is_float(), Type)?;
                need(scale.0.is_finite(), Attribute)?;
                let (k, v, r) = (inputs[1].1, inputs[2].1, x.rank());
                need(r >= 2 && k.rank() == r && v.rank() == r && y.rank() == r, BadShape)?;
                need((0..r - 2).all(|a| [x, k, v].iter().all(|s| s.dim(a) == y.dim(a))), BadShape)?;
                let (row, column) = (r - 2, r - 1);
                need(x.dim(row) == y.dim(row) && x.dim(column) == k.dim(row), BadShape)?;
                need(k.dim(column) == v.dim(row) && v.dim(column) == y.dim(column), BadShape)?;
                if let Some((_, mask)) = inputs.get(3) {
                    let scores = |a: usize| if a == column { k.dim(column) } else { y.dim(a) };
                    need(mask.rank() == r && (0..r).all(|a| mask.dim(a) == scores(a)), BadShape)?;
                }
                // A mean of nothing has no value.
                need(k.dim(column) > 0, BadShape)
            }
            Primitive::Pad { mode, begin } => {
                need(xt == yt, Type)?;
                need(x.rank() == y.rank() && begin[x.rank()..].iter().all(|&b| b == 0), BadShape)?;
                let constant = matches!(mode, PadMode::Constant(_));
                let fits = |a: usize| {
                    let (d, before) = (i64::from(x.dim(a)), i64::from(begin[a]));
                    let after = i64::from(y.dim(a)) - d - before;
                    match mode {
                        PadMode::Constant(_) => true,
                        PadMode::Reflect => before < d.max(1) && after < d.max(1),
                        PadMode::Edge | PadMode::Wrap => d > 0 || y.dim(a) == 0,
                    }
                };
                need(constant || (0..x.rank()).all(fits), BadShape)
            }
            Primitive::Resize(r) => {
                need(xt == yt && (xt.is_float() || matches!(r.mode, ResizeMode::Nearest(_))), Type)?;
                need(x.rank() == y.rank(), BadShape)?;
                need((0..MAX_RANK).all(|a| r.scales[a].0.is_finite() && r.scales[a].0 > 0.0), Attribute)?;
                need(y.elements() == 0 || x.elements() > 0, BadShape)
            }
            Primitive::Gather { axis } => {
                let (it, i) = inputs[1];
                need(it == DType::I32 && xt == yt, Type)?;
                let a = usize::from(*axis);
                need(a < x.rank(), Attribute)?;
                let mut dims = heapless::Vec::<u32, { 2 * MAX_RANK }>::new();
                let parts = [&x.dims()[..a], i.dims(), &x.dims()[a + 1..]];
                need(parts.iter().all(|p| dims.extend_from_slice(p).is_ok()), BadShape)?;
                need(y.dims() == dims.as_slice() && (x.dim(a) > 0 || y.elements() == 0), BadShape)
            }
            Primitive::Prepare(p) => {
                need(xt == DType::U8 && yt.is_float(), Type)?;
                need(normalises(&p.mean, &p.std), Attribute)?;
                need(x.rank() == 1 && y.rank() == 4 && y.dim(0) == 1 && y.dim(1) == 3, BadShape)?;
                need(
                    (1..=MAX_IMAGE_SIDE).contains(&y.dim(2)) && (1..=MAX_IMAGE_SIDE).contains(&y.dim(3)),
                    BadShape,
                )
            }
            Primitive::DecodeYolox { input } => {
                let (st, s) = outputs[1];
                need(xt.is_float() && yt == DType::F32 && st == DType::F32, Type)?;
                let (w, h) = (u64::from(input.0), u64::from(input.1));
                need(w % 32 == 0 && h % 32 == 0 && w > 0 && h > 0, Attribute)?;
                let anchors: u64 = [8, 16, 32].iter().map(|stride| (w / stride) * (h / stride)).sum();
                need(
                    x.rank() == 3 && x.dim(0) == 1 && u64::from(x.dim(1)) == anchors && x.dim(2) > 5,
                    BadShape,
                )?;
                need(y.dims() == [x.dim(1), 4] && s.dims() == [x.dim(1), x.dim(2) - 5], BadShape)
            }
            Primitive::Nms(n) => {
                let ((st, s), (ct, c)) = (inputs[1], outputs[1]);
                need([xt, yt, st] == [DType::F32; 3] && ct == DType::I32, Type)?;
                need(
                    n.score.0.is_finite() && (0.0..=1.0).contains(&n.iou.0) && n.input.0 > 0 && n.input.1 > 0,
                    Attribute,
                )?;
                need(x.rank() == 2 && x.dim(1) == 4 && s.rank() == 2 && s.dim(0) == x.dim(0), BadShape)?;
                need(y.rank() == 2 && y.dim(1) == 6 && c.dims() == [1], BadShape)
            }
            Primitive::TopK => {
                let (it, i) = outputs[1];
                need(xt == yt && it == DType::I32, Type)?;
                need(
                    x.rank() == 2 && y.rank() == 2 && i == y && x.dim(0) == y.dim(0) && y.dim(1) <= x.dim(1),
                    BadShape,
                )
            }
            Primitive::ArgMax { axis } => {
                let a = usize::from(*axis);
                need(a < x.rank(), Attribute)?;
                need(yt == DType::I32 || (yt == DType::U8 && x.dim(a) <= 256), Type)?;
                need(x.with_dim(a, 1) == Some(y) && x.dim(a) > 0, BadShape)
            }
            Primitive::Crop(crop) => {
                let ((dt, d), (ct, c), (rt, r)) = (inputs[1], inputs[2], outputs[1]);
                need([dt, ct, rt] == [DType::F32, DType::I32, DType::I32], Type)?;
                need(xt == DType::U8 && yt.is_float(), Type)?;
                need(crop.classes != 0 && (0.0..=MAX_CROP_MARGIN).contains(&crop.margin.0), Attribute)?;
                need(normalises(&crop.mean, &crop.std), Attribute)?;
                need(x.rank() == 1 && d.rank() == 2 && d.dim(1) == 6 && c.dims() == [1], BadShape)?;
                need(y.rank() == 4 && y.dim(1) == 3 && r.dims() == [y.dim(0)], BadShape)?;
                need(d.dim(0) <= MAX_CROP_CANDIDATES, BadShape)?;
                let side = 1..=MAX_IMAGE_SIDE;
                let sides = side.contains(&y.dim(2)) && side.contains(&y.dim(3));
                need(sides && (1..=MAX_CROPS).contains(&y.dim(0)), BadShape)
            }
            Primitive::Sample(sample) => {
                need(inputs.iter().all(|(t, _)| t.is_float()) && xt == yt, Type)?;
                let places = inputs[1].1;
                need([x, places, y].iter().all(|s| s.rank() == 4 && s.dim(0) == y.dim(0)), BadShape)?;
                need(x.dim(1) > 0 && x.dim(2) > 0 && x.dim(3) > 0, BadShape)?;
                match sample.places {
                    Places::Grid { .. } => need(x.dim(1) == y.dim(1) && places.dims()[1..] == [y.dim(2), y.dim(3), 2], BadShape),
                    Places::Sums { .. } => {
                        let (queries, points) = (y.dim(2), places.dim(2));
                        need(x.dim(1) == y.dim(1) && y.dim(3) == 1, BadShape)?;
                        need(places.dims()[1..] == [queries, points, 2], BadShape)?;
                        need(inputs[2].1.dims() == [y.dim(0), 1, queries, points], BadShape)?;
                        need(inputs.get(3).is_none_or(|(_, start)| *start == y), BadShape)
                    }
                    Places::Taps { window, groups, parts } => {
                        need(window.is_valid() && window.axes == 2, Attribute)?;
                        need(
                            groups >= 1 && parts >= 1 && x.dim(1) % groups == 0 && x.dim(1) % parts == 0,
                            Attribute,
                        )?;
                        let under = [0, 1].map(|a| window.output(a, x.dim(a + 2)));
                        need(under == [Some(y.dim(2)), Some(y.dim(3))], BadShape)?;
                        let moved = u64::from(groups) * window.taps();
                        let fits = |s: &Shape, each: u64| u64::from(s.dim(1)) == each * moved && s.dims()[2..] == y.dims()[2..];
                        need(fits(&places, 2), BadShape)?;
                        need(
                            inputs
                                .get(2)
                                .is_none_or(|(_, f)| f.rank() == 4 && f.dim(0) == y.dim(0) && fits(f, 1)),
                            BadShape,
                        )?;
                        need(u64::from(y.dim(1)) == u64::from(x.dim(1)) * window.taps(), BadShape)
                    }
                }
            }
            Primitive::Sources { .. } => {
                need([xt, yt] == [DType::I32; 2], Type)?;
                need(x.rank() == 1 && y.rank() == 1, BadShape)?;
                need(x.elements() + y.elements() < 1 << 31, BadShape)
            }
            Primitive::Lstm { .. } | Primitive::Gru { .. } => {
                // All initial states or none.
                let states = self.recurrence().map_or(0, |(cell, _)| cell.states());
                need(inputs.len() == 2 || inputs.len() == 2 + states, Arity)?;
                need(inputs.iter().chain(outputs).all(|(t, _)| *t == xt) && xt.is_float(), Type)?;
                need(x.rank() == 3 && y.rank() == 3, BadShape)?;
                let (steps, rows, hidden) = (y.dim(0), y.dim(1), y.dim(2));
                let gates = hidden.checked_mul(4).ok_or(BadShape)?;
                need(steps > 0 && hidden > 0 && x.dims() == [steps, rows, gates], BadShape)?;
                need(inputs[1].1.dims() == [gates, hidden], BadShape)?;
                let states = inputs[2..].iter().chain(&outputs[1..]);
                need(states.into_iter().all(|(_, s)| s.dims() == [rows, hidden]), BadShape)
            }
        }
    }
}

/// True if `(value - mean) / std` is a number for every pixel value.
fn normalises(mean: &[Scalar; 3], std: &[Scalar; 3]) -> bool {
    std.iter().all(|s| s.0.is_finite() && s.0 != 0.0) && mean.iter().all(|m| m.0.is_finite())
}

/// The extent of a transposed window's full result without pads, `(in - 1) * stride + reach`.
fn transposed_full(window: &Window, axis: usize, extent: u32) -> Option<u64> {
    Some(u64::from(extent.checked_sub(1)?) * u64::from(window.stride[axis]) + u64::from(window.reach(axis)?))
}

/// True if `output` is the full result less the pads, longer by less than a stride or a dilation (output padding).
fn transposed_fits(window: &Window, axis: usize, input: u32, output: u32) -> bool {
    let Some(full) = transposed_full(window, axis, input) else {
        return false;
    };
    let pads = u64::from(window.pad_begin[axis]) + u64::from(window.pad_end[axis]);
    let slack = u64::from(window.stride[axis].max(window.dilation[axis])) - 1;
    full > pads && (full - pads..=full - pads + slack).contains(&u64::from(output))
}

/// True if each of the `output` windows starts before the end of the input, so that it sees at least its first element or padding before it.
fn pool_fits(window: &Window, axis: usize, input: u32, output: u32) -> bool {
    let (begin, reach) = (u64::from(window.pad_begin[axis]), window.reach(axis).map(u64::from));
    let Some(reach) = reach else { return false };
    let last = u64::from(output.max(1) - 1) * u64::from(window.stride[axis]);
    let longest = u64::from(input) + begin + u64::from(window.pad_end[axis]);
    begin < reach
        && u64::from(window.pad_end[axis]) < reach.max(1) + u64::from(window.stride[axis])
        && last < u64::from(input) + begin
        && input > 0
        && output > 0
        && last < longest
}
