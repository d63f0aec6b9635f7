//! Scattering that combines updates with what is at their places: `reduction` of ScatterElements and ScatterND.
//!
//! No primitive writes to one place twice. Places that are known while importing give the list of rows that each of them combines,
//! which are picked and reduced. Places that a frame computes are compared with all there are, and every place reduces all updates,
//! of which those that go elsewhere change nothing.

use super::super::builder::Builder;
use super::super::error::{Fallible, limit, malformed, unsupported};
use super::super::host::{Elem, Host, shape_of};
use super::super::node::OnnxNode;
use super::super::values::Operand;
use super::logic::{self, Comparison};
use super::reduce::{self, MAX_FACTORS, Reduction};
use crate::primitive::{Binary, Primitive, ReduceKind};
use std::collections::BTreeMap;

/// Elements up to which a scattering is written as places of a Gather.
pub(super) const MAX_PLACES: u64 = 1 << 26;
/// Rows that are reduced at a time: what is padded to so many stays small where a few places have most updates.
const GROUP: usize = 8;
/// Elements up to which every place that a frame may compute reduces every update.
const MAX_PAIRS: i64 = 1 << 22;

/// How an update and what is at its place become one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Combination {
    Add,
    Multiply,
    Max,
    Min,
}

impl Combination {
    /// The combination that a node asks for; `None` where updates overwrite.
    pub fn of(node: &OnnxNode<'_>) -> Fallible<Option<Combination>> {
        Ok(Some(match node.string("reduction")?.unwrap_or("none") {
            "none" => return Ok(None),
            "add" => Combination::Add,
            "mul" => Combination::Multiply,
            "max" => Combination::Max,
            "min" => Combination::Min,
            other => return Err(malformed(format!("`{other}`")).at("reduction")),
        }))
    }

    fn binary(self) -> Binary {
        match self {
            Combination::Add => Binary::Add,
            Combination::Multiply => Binary::Mul,
            Combination::Max => Binary::Max,
            Combination::Min => Binary::Min,
        }
    }

    fn reduction(self) -> Reduction {
        match self {
            Combination::Add => Reduction::Of(ReduceKind::Sum),
            Combination::Multiply => Reduction::Product,
            Combination::Max => Reduction::Of(ReduceKind::Max),
            Combination::Min => Reduction::Min,
        }
    }

    /// The element that changes nothing.
    fn neutral(self, elem: Elem) -> f64 {
        let (least, greatest) = match elem.is_float() {
            true => (f64::NEG_INFINITY, f64::INFINITY),
            // The reduction to the least negates, which the least integer has no room for.
            false => (f64::from(-i32::MAX), f64::from(i32::MAX)),
        };
        match self {
            Combination::Add => 0.0,
            Combination::Multiply => 1.0,
            Combination::Max => least,
            Combination::Min => greatest,
        }
    }

    /// `data` as `rows` rows of `run` elements, combined with the `count` rows of `updates` at the rows `places`.
    pub fn scatter(
        self,
        b: &mut Builder,
        [data, updates]: [&Operand; 2],
        places: &Operand,
        [rows, count, run]: [i64; 3],
    ) -> Fallible<Operand> {
        if !data.elem().is_float() && !matches!(data.elem(), Elem::I32 | Elem::I64) {
            return Err(unsupported(format!(
                "of elements of {:?}: floats, INT32 and INT64 are combined. Cast the data and the updates to INT32 in front of this node",
                data.elem()
            ))
            .at("reduction"));
        }
        if count == 0 {
            return Ok(data.clone());
        }
        let matrix = b.reshape(data, shape_of(&[rows, run])?)?;
        let more = b.reshape(updates, shape_of(&[count, run])?)?;
        let result = match places.host().and_then(Host::as_i64s) {
            Some(known) => self.at_known(b, [&matrix, &more], &known, [rows, count, run])?,
            None => self.at_computed(b, [&matrix, &more], places, [rows, count, run])?,
        };
        b.reshape(&result, data.shape())
    }

    fn at_known(self, b: &mut Builder, [data, updates]: [&Operand; 2], known: &[i64], [rows, count, run]: [i64; 3]) -> Fallible<Operand> {
        // The rows of data and updates, joined, that each place combines: its own and its updates.
        let mut lists: BTreeMap<i64, Vec<i64>> = BTreeMap::new();
        for (update, &place) in (rows..).zip(known) {
            if !(0..rows).contains(&place) {
                return Err(malformed(format!("place {place} of {rows}")).at("indices"));
            }
            lists.entry(place).or_insert_with(|| vec![place]).push(update);
        }
        let (touched, mut lists): (Vec<i64>, Vec<Vec<i64>>) = lists.into_iter().unzip();
        let mut source = b.concat(&[data, updates], 0, shape_of(&[rows + count, run])?)?;
        while let Some(longest) = lists.iter().map(Vec::len).max().filter(|&longest| longest > 1) {
            (source, lists) = self.grouped(b, &source, &lists, longest.min(GROUP))?;
        }
        // Every place touched has one row now, in the order of the places.
        let mut sources: Vec<i64> = (0..rows).collect();
        for (row, &place) in (rows..).zip(&touched) {
            sources[place as usize] = row;
        }
        if touched.len() as i64 == rows {
            return Ok(source);
        }
        let joined = b.concat(&[data, &source], 0, shape_of(&[rows + touched.len() as i64, run])?)?;
        rows_of(b, &joined, sources)
    }

    /// Rows of `source` reduced in groups of up to `group` of each list, and for each list those that are left.
    fn grouped(self, b: &mut Builder, source: &Operand, lists: &[Vec<i64>], group: usize) -> Fallible<(Operand, Vec<Vec<i64>>)> {
        let (extent, run) = (i64::from(source.shape().dim(0)), i64::from(source.shape().dim(1)));
        let mut picked: Vec<i64> = Vec::new();
        let mut left = Vec::with_capacity(lists.len());
        let mut padded = false;
        for list in lists {
            let first = (picked.len() / group) as i64;
            for rows in list.chunks(group) {
                picked.extend(rows);
                let missing = group - rows.len();
                padded |= missing > 0;
                // The largest and the least are the same of one more of them; a sum and a product are of a neutral row, the last one.
                let filling = match self {
                    Combination::Max | Combination::Min => rows[0],
                    Combination::Add | Combination::Multiply => extent,
                };
                picked.extend(std::iter::repeat_n(filling, missing));
            }
            left.push((first..(picked.len() / group) as i64).collect());
        }
        if picked.len() as u64 > MAX_PLACES {
            return Err(limit(format!("{} rows to combine (up to {MAX_PLACES})", picked.len())).at("indices"));
        }
        let mut all = source.clone();
        if padded && matches!(self, Combination::Add | Combination::Multiply) {
            let neutral = b.scalar(source.elem(), self.neutral(source.elem()))?;
            let row = b.broadcast(&neutral, shape_of(&[1, run])?)?;
            all = b.concat(&[source, &row], 0, shape_of(&[extent + 1, run])?)?;
        }
        let groups = (picked.len() / group) as i64;
        let rows = rows_of(b, &all, picked)?;
        let rows = b.reshape(&rows, shape_of(&[groups, group as i64, run])?)?;
        let reduced = reduce::reduced(b, &rows, self.reduction(), &[1])?;
        Ok((b.reshape(&reduced, shape_of(&[groups, run])?)?, left))
    }

    fn at_computed(
        self,
        b: &mut Builder,
        [data, updates]: [&Operand; 2],
        places: &Operand,
        [rows, count, run]: [i64; 3],
    ) -> Fallible<Operand> {
        let instead = "Make the indices constants, or cut the network in front of this node with --output NAME and scatter in the program";
        let pairs = rows.checked_mul(count).and_then(|n| n.checked_mul(run));
        if pairs.is_none_or(|n| n > MAX_PAIRS) {
            return Err(limit(format!(
                "{count} updates of {run} elements to places among {rows} that a frame computes: their product may be up to {MAX_PAIRS}. {instead}"
            ))
            .at("indices"));
        }
        if self == Combination::Multiply && count > MAX_FACTORS {
            return Err(limit(format!(
                "a product of {count} updates at places that a frame computes: up to {MAX_FACTORS} are imported. {instead}"
            ))
            .at("indices"));
        }
        let numbers = b.constant(Host::i64s(shape_of(&[rows, 1])?, (0..rows).collect())?);
        let numbers = super::elementwise::convert(b, &numbers, places.elem())?;
        let places = b.reshape(places, shape_of(&[1, count])?)?;
        let here = logic::compared(b, &numbers, &places, Comparison::Equal)?;
        let here = super::elementwise::mask(b, &here)?;
        let here = b.reshape(&here, shape_of(&[rows, count, 1])?)?;
        let updates = b.reshape(updates, shape_of(&[1, count, run])?)?;
        let neutral = b.scalar(data.elem(), self.neutral(data.elem()))?;
        let each = logic::chosen_by(b, &here, &updates, &neutral, shape_of(&[rows, count, run])?)?;
        let all = reduce::reduced(b, &each, self.reduction(), &[1])?;
        let all = b.reshape(&all, shape_of(&[rows, run])?)?;
        b.binary(self.binary(), data, &all)
    }
}

/// The rows of a matrix that `numbers` names.
fn rows_of(b: &mut Builder, matrix: &Operand, numbers: Vec<i64>) -> Fallible<Operand> {
    let count = numbers.len() as i64;
    let numbers = b.constant(Host::i64s(shape_of(&[count])?, numbers)?);
    let shape = shape_of(&[count, i64::from(matrix.shape().dim(1))])?;
    b.one(Primitive::Gather { axis: 0 }, &[matrix, &numbers], matrix.elem(), shape)
}
