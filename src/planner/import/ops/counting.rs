//! Operators that make constants of shapes and numbers: Range, Size, EyeLike, Trilu's mask, NonZero, OneHot, CumSum.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed, unsupported};
use super::super::host::{Elem, Host, runs, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::elementwise::{self, convert};
use super::logic::{self, Comparison};
use crate::primitive::{Binary, Primitive};
use crate::tensor::{Data, Shape};

/// Elements that a constant of these operators may have.
pub(super) const MAX_MADE: u64 = 1 << 24;

/// The elements of input `index`, which must be known while importing.
pub(super) fn known<'n>(node: &'n OnnxNode<'_>, index: usize, name: &str) -> Fallible<&'n Host> {
    node.input(index)?.host().ok_or_else(|| {
        unsupported(
            "computed at run time, and the result's extent or its numbers depend on it: fix the inputs it comes from, or cut the \
             network in front of this node with --output NAME",
        )
        .at(name)
    })
}

/// Range: the numbers from `start` to before `limit` in steps of `delta`.
pub(super) fn range(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 3)?;
    let names = ["start", "limit", "delta"];
    let mut hosts = Vec::with_capacity(3);
    for (i, name) in names.iter().enumerate() {
        let host = known(node, i, name)?;
        if host.shape().elements() != 1 {
            return Err(malformed(format!("shape {} where a scalar is expected", host.shape())).at(name));
        }
        hosts.push(host);
    }
    let elem = hosts[0].elem();
    let too_long = || limit(format!("more than {MAX_MADE} numbers"));
    let host = match hosts.iter().map(|h| h.as_i64s()).collect::<Option<Vec<_>>>() {
        Some(ints) => {
            let (start, end, step) = (ints[0][0], ints[1][0], ints[2][0]);
            if step == 0 {
                return Err(malformed("0").at("delta"));
            }
            let span = i128::from(end) - i128::from(start);
            let step_wide = i128::from(step);
            let count = if (span > 0) == (step > 0) {
                (span.abs() + step_wide.abs() - 1) / step_wide.abs()
            } else {
                0
            };
            let count = u64::try_from(count).ok().filter(|&n| n <= MAX_MADE).ok_or_else(too_long)?;
            let numbers = (0..count as i64).map(|i| start.wrapping_add(step.wrapping_mul(i))).collect();
            Host::i64s(shape_of(&[count as i64])?, numbers)?.cast(elem)?
        }
        None => {
            let [start, end, step] = [0, 1, 2].map(|i| hosts[i].as_f64s()[0]);
            if step == 0.0 || ![start, end, step].iter().all(|v| v.is_finite()) {
                return Err(malformed(format!("from {start} to {end} in steps of {step}")).at("delta"));
            }
            let count = ((end - start) / step).ceil().max(0.0);
            if count > MAX_MADE as f64 {
                return Err(too_long());
            }
            let numbers = (0..count as u32).map(|i| start + step * f64::from(i)).collect();
            Host::from_f64s(elem, shape_of(&[count as i64])?, numbers)?
        }
    };
    Ok(b.constant(host))
}

/// Size: the number of elements.
pub(super) fn size(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let elements = node.input(0)?.shape().elements() as i64;
    Ok(b.constant(Host::i64s(Shape::SCALAR, vec![elements])?))
}

/// A matrix of `rows` and `columns` with a 1 where `on` holds of its row and column.
fn pattern(elem: Elem, rows: u32, columns: u32, on: impl Fn(i64, i64) -> bool) -> Fallible<Host> {
    if u64::from(rows) * u64::from(columns) > MAX_MADE {
        return Err(limit(format!("a matrix of {rows} by {columns}")));
    }
    let cells = (0..i64::from(rows)).flat_map(|r| (0..i64::from(columns)).map(move |c| (r, c)));
    let values = cells.map(|(r, c)| u8::from(on(r, c))).collect();
    let shape = shape_of(&[i64::from(rows), i64::from(columns)])?;
    Host::tensor(shape, Data::U8(values))?.cast(elem)
}

/// EyeLike: ones on diagonal `k` of a matrix of the input's shape.
pub(super) fn eye_like(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let x = node.input(0)?;
    let k = node.int("k")?.unwrap_or(0);
    let elem = match node.int("dtype")? {
        Some(number) => Elem::from_onnx(i32::try_from(number).unwrap_or(-1)).map_err(|e| e.at("dtype"))?,
        None => x.elem(),
    };
    let &[rows, columns] = x.shape().dims() else {
        return Err(malformed(format!("an input {} that is no matrix", x.shape())));
    };
    let host = pattern(elem, rows, columns, |r, c| c - r == k)?;
    Ok(b.constant(host))
}

/// Trilu: the upper (or lower) triangle of the last two axes from diagonal `k` on, zeros elsewhere.
pub(super) fn triangle(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 2)?;
    let x = node.input(0)?;
    let upper = node.flag("upper", true)?;
    let k = match node.optional(1) {
        None => 0,
        Some(_) => known(node, 1, "k")?.as_i64s().and_then(|v| v.first().copied()).unwrap_or(0),
    };
    let &[.., rows, columns] = x.shape().dims() else {
        return Err(malformed(format!("an input {} without a matrix", x.shape())));
    };
    let kept = |r: i64, c: i64| if upper { c - r >= k } else { c - r <= k };
    if let Some(host) = x.host() {
        let per = (u64::from(rows) * u64::from(columns)).max(1) as usize;
        let keep = |i: usize| {
            let at = (i % per) as i64;
            kept(at / i64::from(columns), at % i64::from(columns))
        };
        let host = match host.as_i64s() {
            Some(v) => {
                let values = v.iter().enumerate().map(|(i, &v)| if keep(i) { v } else { 0 }).collect();
                Host::i64s(x.shape(), values)?.cast(x.elem())?
            }
            None => {
                let values = host
                    .as_f64s()
                    .iter()
                    .enumerate()
                    .map(|(i, &v)| if keep(i) { v } else { 0.0 })
                    .collect();
                Host::from_f64s(x.elem(), x.shape(), values)?
            }
        };
        return Ok(b.constant(host));
    }
    let elem = if x.elem() == Elem::Bool { Elem::F32 } else { x.elem() };
    let mask = pattern(elem, rows, columns, kept)?;
    let mask = b.constant(mask);
    if x.elem() == Elem::Bool {
        let x = elementwise::mask(b, x)?;
        let both = b.binary(Binary::Min, &x, &mask)?;
        return elementwise::truth(b, both);
    }
    // Between the two ends that the mask sets, an infinity outside the triangle leaves nothing behind.
    if !elem.is_float() {
        return b.binary(Binary::Mul, x, &mask);
    }
    let endless = |inside: f64, outside: f64| -> Fallible<Host> {
        let sides = mask_values(rows, columns, kept).map(|on| if on { inside } else { outside });
        Host::from_f64s(elem, shape_of(&[i64::from(rows), i64::from(columns)])?, sides.collect())
    };
    let (high, low) = (
        b.constant(endless(f64::INFINITY, 0.0)?),
        b.constant(endless(f64::NEG_INFINITY, 0.0)?),
    );
    let cut = b.binary(Binary::Min, x, &high)?;
    b.binary(Binary::Max, &cut, &low)
}

fn mask_values(rows: u32, columns: u32, on: impl Fn(i64, i64) -> bool + Copy) -> impl Iterator<Item = bool> {
    (0..i64::from(rows)).flat_map(move |r| (0..i64::from(columns)).map(move |c| on(r, c)))
}

/// NonZero of a constant: the places of what is not 0, a row for each axis.
pub(super) fn non_zero(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(1, 1)?;
    let host = known(node, 0, "X")?;
    let shape = host.shape();
    let places: Vec<usize> = host
        .as_f64s()
        .iter()
        .enumerate()
        .filter(|(_, v)| **v != 0.0)
        .map(|(i, _)| i)
        .collect();
    let mut rows = Vec::with_capacity(shape.rank() * places.len());
    for axis in 0..shape.rank() {
        let inner: usize = shape.dims()[axis + 1..].iter().map(|&d| d as usize).product();
        rows.extend(places.iter().map(|p| (p / inner.max(1) % (shape.dim(axis) as usize).max(1)) as i64));
    }
    let shape = shape_of(&[shape.rank() as i64, places.len() as i64])?;
    Ok(b.constant(Host::i64s(shape, rows)?))
}

/// OneHot: along a new axis the second value where the position is the index, else the first.
pub(super) fn one_hot(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 3)?;
    let (indices, values) = (node.input(0)?, node.input(2)?);
    let depth = known(node, 1, "depth")?.as_f64s().first().copied().unwrap_or(0.0);
    if !(1.0..=MAX_MADE as f64).contains(&depth) || values.shape().elements() != 2 {
        return Err(malformed(format!("a depth of {depth}, values of shape {}", values.shape())));
    }
    let (depth, rank) = (depth as i64, indices.shape().rank());
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(-1), rank + 1, "axis")?;
    let indices = convert(b, indices, Elem::I64)?;
    let mut dims: Vec<i64> = indices.shape().dims().iter().map(|&d| i64::from(d)).collect();
    dims.insert(axis, 1);
    let indices = b.reshape(&indices, shape_of(&dims)?)?;
    let mut along = vec![1; rank + 1];
    along[axis] = depth;
    let along = shape_of(&along)?;
    let positions = b.constant(Host::i64s(along, (0..depth).collect())?);
    let from_end = b.constant(Host::i64s(along, (-depth..0).collect())?);
    let forward = logic::compared(b, &indices, &positions, Comparison::Equal)?;
    let backward = logic::compared(b, &indices, &from_end, Comparison::Equal)?;
    let (forward, backward) = (elementwise::mask(b, &forward)?, elementwise::mask(b, &backward)?);
    let hot = b.binary(Binary::Max, &forward, &backward)?;
    let wide = convert(b, &hot, values.elem())?;
    let pair = b.reshape(values, shape_of(&[2])?)?;
    let off = b.slice(&pair, vec![0], vec![1], shape_of(&[1])?)?;
    let on = b.slice(&pair, vec![1], vec![1], shape_of(&[1])?)?;
    let (off, on) = (b.reshape(&off, Shape::SCALAR)?, b.reshape(&on, Shape::SCALAR)?);
    let step = b.binary(Binary::Sub, &on, &off)?;
    let scaled = b.binary(Binary::Mul, &wide, &step)?;
    b.binary(Binary::Add, &scaled, &off)
}

/// CumSum along an axis, as the product with a triangle of ones.
pub(super) fn cumulative_sum(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let x = node.input(0)?;
    let rank = x.shape().rank();
    let axis = known(node, 1, "axis")?.as_i64s().and_then(|v| v.first().copied());
    let axis = OnnxNode::axis(axis.ok_or_else(|| malformed("not an integer").at("axis"))?, rank, "axis")?;
    let (exclusive, reverse) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    let n = x.shape().dim(axis);
    if let Some(ints) = x.host().and_then(Host::as_i64s) {
        return summed_constant(b, x, &ints, axis, exclusive, reverse);
    }
    // Element j of the sums takes element i of the input.
    let takes = |i: i64, j: i64| {
        let (i, j) = if reverse { (j, i) } else { (i, j) };
        i < j || (i == j && !exclusive)
    };
    let float = if x.elem().is_float() { x.elem() } else { Elem::F32 };
    if !x.elem().is_float() && !matches!(x.elem(), Elem::I32 | Elem::I64) {
        return Err(unsupported(format!("sums of {:?}: Cast the input to FLOAT or INT32", x.elem())));
    }
    let triangle = pattern(float, n, n, takes)?;
    let triangle = b.constant(triangle);
    let wide = convert(b, x, float)?;
    let mut order: Vec<usize> = (0..rank).filter(|&a| a != axis).collect();
    order.push(axis);
    let turned = b.transpose(&wide, &order)?;
    let rows = (x.shape().elements() / u64::from(n.max(1))) as i64;
    let flat = shape_of(&[rows, i64::from(n)])?;
    let matrix = b.reshape(&turned, flat)?;
    let sums = b.one(Primitive::MatMul, &[&matrix, &triangle], float, flat)?;
    let sums = b.reshape(&sums, turned.shape())?;
    let mut back = vec![0; rank];
    for (to, &from) in order.iter().enumerate() {
        back[from] = to;
    }
    let sums = b.transpose(&sums, &back)?;
    convert(b, &sums, x.elem())
}

fn summed_constant(b: &mut Builder, x: &Operand, ints: &[i64], axis: usize, exclusive: bool, reverse: bool) -> Fallible<Operand> {
    let shape = x.shape();
    let mut sums = vec![0i64; ints.len()];
    for mut run in runs(shape, axis) {
        if reverse {
            run.reverse();
        }
        let mut total = 0i64;
        for at in run {
            let after = total.wrapping_add(ints[at]);
            sums[at] = if exclusive { total } else { after };
            total = after;
        }
    }
    let host = Host::i64s(shape, sums)?.cast(x.elem())?;
    Ok(b.constant(host))
}
