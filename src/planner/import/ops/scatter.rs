//! Elements by lists of places: GatherElements, GatherND, ScatterElements, ScatterND.
//!
//! All are Gathers over the elements in C order: of computed places, the number of each is computed from them in integers.
//! What is scattered is picked from the data and the updates joined: by places that are known while importing, or by those that a
//! frame finds ([`Primitive::Sources`]).

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed};
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::boxes;
use super::combine::{Combination, MAX_PLACES};
use super::elementwise::convert;
use super::reshape::extents;
use crate::primitive::{Binary, Primitive};
use crate::tensor::Shape;

fn of_integers<'n>(node: &'n OnnxNode<'_>, index: usize) -> Fallible<&'n Operand> {
    let x = node.input(index)?;
    match x.elem() {
        Elem::I32 | Elem::I64 => Ok(x),
        other => Err(malformed(format!("elements of {other:?}")).at("indices")),
    }
}

/// Strides in C order.
fn strides(shape: Shape) -> Vec<i64> {
    let mut strides = vec![1i64; shape.rank()];
    for a in (1..shape.rank()).rev() {
        strides[a - 1] = strides[a] * i64::from(shape.dim(a));
    }
    strides
}

/// Indices with those that count from the end of an axis of `extent` moved to its start.
fn from_start(b: &mut Builder, indices: &Operand, extent: u32) -> Fallible<Operand> {
    if let Some(known) = indices.host().and_then(Host::as_i64s) {
        let extent = i64::from(extent);
        let moved = known
            .iter()
            .map(|&i| super::super::fold::checked_index(i, extent))
            .collect::<Fallible<Vec<_>>>()?;
        return Ok(b.constant(Host::i64s(indices.shape(), moved)?));
    }
    let elem = indices.elem();
    // -1 where the index is negative, else 0.
    let (zero, one) = (b.scalar(elem, 0.0)?, b.scalar(elem, -1.0)?);
    let below = b.binary(Binary::Min, indices, &zero)?;
    let below = b.binary(Binary::Max, &below, &one)?;
    let extent = b.scalar(elem, f64::from(extent))?;
    let missing = b.binary(Binary::Mul, &below, &extent)?;
    b.binary(Binary::Sub, indices, &missing)
}

/// `data`'s elements at the numbers `places` (in C order), in the shape of the places followed by `inner`.
fn pick(b: &mut Builder, data: &Operand, places: &Operand, inner: &[i64]) -> Fallible<Operand> {
    let run: i64 = inner.iter().product();
    let rows = if run == 0 { 0 } else { data.shape().elements() as i64 / run };
    let matrix = b.reshape(data, shape_of(&[rows, run])?)?;
    let count = places.shape().elements() as i64;
    let flat = b.reshape(places, shape_of(&[count])?)?;
    let picked = b.one(
        Primitive::Gather { axis: 0 },
        &[&matrix, &flat],
        data.elem(),
        shape_of(&[count, run])?,
    )?;
    let mut dims = extents(places.shape());
    dims.extend_from_slice(inner);
    b.reshape(&picked, shape_of(&dims)?)
}

/// Numbers in C order of `shape` of the positions of `part`, a corner of it, with `axis` left out.
fn numbers_without(shape: Shape, part: Shape, axis: usize) -> Fallible<Host> {
    let strides = strides(shape);
    let mut numbers = Vec::with_capacity(part.elements() as usize);
    for i in 0..part.elements() {
        let (mut rest, mut number) = (i, 0i64);
        for a in (0..part.rank()).rev() {
            let extent = u64::from(part.dim(a));
            if a != axis {
                number += (rest % extent) as i64 * strides[a];
            }
            rest /= extent;
        }
        numbers.push(number);
    }
    Host::i64s(part, numbers)
}

/// The numbers of the elements that the indices of GatherElements and ScatterElements name.
fn named(b: &mut Builder, data: Shape, indices: &Operand, axis: usize) -> Fallible<Operand> {
    let part = indices.shape();
    let inside = part.rank() == data.rank() && (0..part.rank()).all(|a| a == axis || part.dim(a) <= data.dim(a));
    if !inside {
        return Err(malformed(format!("shape {part} for data {data} along axis {axis}")).at("indices"));
    }
    if part.elements() > MAX_PLACES || data.elements() > i32::MAX as u64 {
        return Err(limit(format!("indices of shape {part} into data {data}")));
    }
    let at = from_start(b, indices, data.dim(axis))?;
    let at = convert(b, &at, Elem::I64)?;
    let stride = b.scalar(Elem::I64, strides(data)[axis] as f64)?;
    let along = b.binary(Binary::Mul, &at, &stride)?;
    let others = b.constant(numbers_without(data, part, axis)?);
    b.binary(Binary::Add, &along, &others)
}

/// GatherElements: of every place the element whose position along `axis` the indices give.
pub(super) fn gather_elements(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (data, indices) = (node.input(0)?, of_integers(node, 1)?);
    let rank = data.shape().rank();
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(0), rank, "axis")?;
    let repeated = repeated_row(b, data.shape(), indices, axis);
    if let Some(rows) = repeated {
        let rows = from_start(b, &rows, data.shape().dim(axis))?;
        return gather_rows(b, data, &rows, axis, indices.shape());
    }
    let places = named(b, data.shape(), indices, axis)?;
    pick(b, data, &places, &[])
}

/// The indices without the axes behind `axis`, where those only repeat them: whole rows are picked then.
fn repeated_row(b: &Builder, data: Shape, indices: &Operand, axis: usize) -> Option<Operand> {
    let part = indices.shape();
    let whole = part.rank() == data.rank() && part.dims()[axis + 1..] == data.dims()[axis + 1..];
    let rows = b.repeats(indices)?;
    let narrow = rows.shape();
    let front_is_one = (0..axis).all(|a| part.dim(a) == 1 && data.dim(a) == 1);
    (whole
        && front_is_one
        && narrow.rank() == part.rank()
        && narrow.dims()[axis + 1..].iter().all(|&d| d == 1)
        && narrow.dim(axis) == part.dim(axis))
    .then_some(rows)
}

fn gather_rows(b: &mut Builder, data: &Operand, rows: &Operand, axis: usize, shape: Shape) -> Fallible<Operand> {
    let rows = b.reshape(rows, shape_of(&[i64::from(shape.dim(axis))])?)?;
    b.one(Primitive::Gather { axis: axis as u8 }, &[data, &rows], data.elem(), shape)
}

/// The numbers of the slices that the last axis of the indices of GatherND and ScatterND names, and the slices' shape.
fn sliced(b: &mut Builder, data: Shape, indices: &Operand, batch: usize) -> Fallible<(Operand, Vec<i64>)> {
    let shape = indices.shape();
    let wrong = || malformed(format!("shape {shape} for data {data} with {batch} batch axes")).at("indices");
    let depth = *shape.dims().last().ok_or_else(wrong)? as usize;
    let outer = shape.rank() - 1;
    let fits = depth >= 1 && batch + depth <= data.rank() && batch <= outer && shape.dims()[..batch] == data.dims()[..batch];
    if !fits {
        return Err(wrong());
    }
    if shape.elements() > MAX_PLACES || data.elements() > i32::MAX as u64 {
        return Err(limit(format!("indices of shape {shape} into data {data}")));
    }
    let inner: Vec<i64> = data.dims()[batch + depth..].iter().map(|&d| i64::from(d)).collect();
    let rows = shape_of(&data.dims()[..batch + depth].iter().map(|&d| i64::from(d)).collect::<Vec<_>>())?;
    let strides = strides(rows);
    let mut part = extents(shape);
    part[outer] = 1;
    let part = shape_of(&part)?;
    let mut total: Option<Operand> = None;
    for d in 0..depth {
        let mut start = vec![0; shape.rank()];
        start[outer] = d as i64;
        let at = b.slice(indices, start, vec![1; shape.rank()], part)?;
        let at = from_start(b, &at, rows.dim(batch + d))?;
        let mut at = convert(b, &at, Elem::I64)?;
        if strides[batch + d] != 1 {
            let stride = b.scalar(Elem::I64, strides[batch + d] as f64)?;
            at = b.binary(Binary::Mul, &at, &stride)?;
        }
        total = Some(match total {
            Some(total) => b.binary(Binary::Add, &total, &at)?,
            None => at,
        });
    }
    let mut total = total.ok_or_else(wrong)?;
    if batch > 0 {
        let mut dims = vec![1i64; shape.rank()];
        for (a, d) in dims.iter_mut().enumerate().take(batch) {
            *d = i64::from(shape.dim(a));
        }
        let corner = shape_of(&dims)?;
        let mut numbers = Vec::with_capacity(corner.elements() as usize);
        for i in 0..corner.elements() {
            let (mut rest, mut number) = (i, 0i64);
            for a in (0..batch).rev() {
                number += (rest % u64::from(corner.dim(a))) as i64 * strides[a];
                rest /= u64::from(corner.dim(a));
            }
            numbers.push(number);
        }
        let offsets = b.constant(Host::i64s(corner, numbers)?);
        total = b.binary(Binary::Add, &total, &offsets)?;
    }
    let flat = b.reshape(&total, shape_of(&extents(shape)[..outer])?)?;
    Ok((flat, inner))
}

/// GatherND: slices of the data by tuples of indices.
pub(super) fn gather_nd(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(2, 2)?;
    let (data, indices) = (node.input(0)?, of_integers(node, 1)?);
    let batch = usize::try_from(node.int("batch_dims")?.unwrap_or(0)).map_err(|_| malformed("negative").at("batch_dims"))?;
    let (places, inner) = sliced(b, data.shape(), indices, batch)?;
    pick(b, data, &places, &inner)
}

/// The data with the updates at `places` (numbers of runs of `inner` elements): later ones over earlier ones, or combined with
/// what is there.
fn scatter(b: &mut Builder, node: &OnnxNode<'_>, places: &Operand, inner: &[i64]) -> Fallible<Operand> {
    let combination = Combination::of(node)?;
    let (data, updates) = (node.input(0)?, node.input(2)?);
    if data.elem() != updates.elem() {
        return Err(malformed(format!("{:?} into {:?}", updates.elem(), data.elem())).at("updates"));
    }
    let count = places.shape().elements();
    let run: i64 = inner.iter().product();
    if updates.shape().elements() != count * run as u64 {
        return Err(malformed(format!("shape {} for indices {}", updates.shape(), places.shape())).at("updates"));
    }
    // Slices without elements change nothing; exporters leave those of windows as large as their picture.
    if updates.shape().elements() == 0 {
        return Ok(data.clone());
    }
    let rows = data.shape().elements() as i64 / run;
    if let Some(combination) = combination {
        return combination.scatter(b, [data, updates], places, [rows, count as i64, run]);
    }
    let Some(known) = places.host().and_then(Host::as_i64s) else {
        return scatter_computed(b, [data, updates], places, [rows, count as i64, run]);
    };
    // The row that each row of the result comes from: its own, or behind them an update.
    let mut sources: Vec<i64> = (0..rows).collect();
    for (update, &place) in known.iter().enumerate() {
        let source = usize::try_from(place).ok().and_then(|p| sources.get_mut(p));
        *source.ok_or_else(|| malformed(format!("place {place} of {rows}")).at("indices"))? = rows + update as i64;
    }
    let matrix = b.reshape(data, shape_of(&[rows, run])?)?;
    let more = b.reshape(updates, shape_of(&[count as i64, run])?)?;
    if count as i64 == rows && sources.iter().enumerate().all(|(i, &s)| s == rows + i as i64) {
        return b.reshape(&more, data.shape());
    }
    let joined = b.concat(&[&matrix, &more], 0, shape_of(&[rows + count as i64, run])?)?;
    let sources = b.constant(Host::i64s(shape_of(&[rows])?, sources)?);
    let picked = b.one(
        Primitive::Gather { axis: 0 },
        &[&joined, &sources],
        data.elem(),
        shape_of(&[rows, run])?,
    )?;
    b.reshape(&picked, data.shape())
}

/// The same where a frame computes the places: it finds the source of each row. Data of one constant is one row.
fn scatter_computed(b: &mut Builder, [data, updates]: [&Operand; 2], places: &Operand, [rows, count, run]: [i64; 3]) -> Fallible<Operand> {
    let narrow = b.repeats(data).unwrap_or_else(|| data.clone());
    let values = narrow.host().map(Host::as_f64s).unwrap_or_default();
    let common = values.first().is_some_and(|first| values.iter().all(|v| v == first));
    let (own, front) = if common {
        let all = b.reshape(&narrow, shape_of(&[values.len() as i64])?)?;
        let one = b.slice(&all, vec![0], vec![1], shape_of(&[1])?)?;
        let one = b.reshape(&one, shape_of(&[1, 1])?)?;
        (b.broadcast(&one, shape_of(&[1, run])?)?, 1)
    } else {
        (b.reshape(data, shape_of(&[rows, run])?)?, rows)
    };
    let more = b.reshape(updates, shape_of(&[count, run])?)?;
    let joined = b.concat(&[&own, &more], 0, shape_of(&[front + count, run])?)?;
    let places = b.reshape(places, shape_of(&[count])?)?;
    let sources = b.one(Primitive::Sources { common }, &[&places], places.elem(), shape_of(&[rows])?)?;
    let picked = b.one(
        Primitive::Gather { axis: 0 },
        &[&joined, &sources],
        data.elem(),
        shape_of(&[rows, run])?,
    )?;
    b.reshape(&picked, data.shape())
}

/// ScatterElements (and Scatter, its name before operator set 11).
pub(super) fn scatter_elements(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 3)?;
    let (data, indices) = (node.input(0)?, of_integers(node, 1)?);
    let axis = OnnxNode::axis(node.int("axis")?.unwrap_or(0), data.shape().rank(), "axis")?;
    if node.input(2)?.shape() != indices.shape() {
        return Err(malformed(format!("shape {} for indices {}", node.input(2)?.shape(), indices.shape())).at("updates"));
    }
    let places = named(b, data.shape(), indices, axis)?;
    scatter(b, node, &places, &[])
}

pub(super) fn scatter_nd(b: &mut Builder, node: &OnnxNode<'_>) -> Fallible<Operand> {
    node.arity(3, 3)?;
    let (data, indices) = (node.input(0)?, of_integers(node, 1)?);
    if let Some(starts) = boxes::named(b, data.shape(), indices) {
        let updates = node.input(2)?;
        let (shape, whole) = (indices.shape(), data.shape());
        let extents = &shape.dims()[..starts.len()];
        let wanted = [extents, &whole.dims()[starts.len()..]].concat();
        if Combination::of(node)?.is_none() && updates.elem() == data.elem() && updates.shape().dims() == wanted {
            return boxes::pasted(b, data, updates, &starts, extents);
        }
    }
    let (places, inner) = sliced(b, data.shape(), indices, 0)?;
    scatter(b, node, &places, &inner)
}
