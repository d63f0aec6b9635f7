//! Values of more axes than a tensor may have ([`MAX_RANK`]). Exports pass through seven and eight axes between two reshapes:
//! windows of pictures with a frame axis, upsampling by a mask of neighbours, rays of cameras.
//!
//! Such a value is kept as its elements, in order, beside its extents. Nodes that read or give one are imported over fewer axes:
//! axes of extent 1 vanish, and neighbours that a node treats alike become one. What is left must fit.

mod call;
mod repeat;

use super::builder::Builder;
use super::error::{Fallible, malformed, ungiven};
use super::host::shape_of;
use super::node::OnnxNode;
use super::ops::reshape::extents;
use super::proto::NodeProto;
use super::values::{Deep, Operand};
use crate::limits::MAX_RANK;
use crate::planner::graph::ViewOp;
use call::Call;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// True if a node reads values of too many axes or gives some.
pub(super) fn concerns(node: &NodeProto, builder: &Builder, names: &BTreeMap<String, Operand>) -> bool {
    let operand = |index: usize| node.input.get(index).and_then(|name| names.get(name));
    let listed = |index: usize| operand(index).map_or(0, |x| x.shape().elements() as usize);
    let rank = || operand(0).map_or(0, |x| x.shape().rank());
    let attribute = || node.attribute.iter().find(|a| a.name == "axes").map_or(0, |a| a.ints.len());
    node.input.iter().any(|name| builder.deep.contains_key(name))
        || match node.op_type.as_str() {
            "Reshape" | "Expand" => listed(1) > MAX_RANK,
            "ConstantOfShape" => listed(0) > MAX_RANK,
            "Constant" => node
                .attribute
                .iter()
                .any(|a| a.name == "value" && a.t.as_ref().is_some_and(|t| t.dims.len() > MAX_RANK)),
            "Unsqueeze" => rank() + listed(1).max(attribute()) > MAX_RANK,
            _ => false,
        }
}

/// Imports such a node: its outputs.
pub(super) fn import(
    node: &NodeProto,
    opset: i64,
    path: &Path,
    builder: &mut Builder,
    names: &BTreeMap<String, Operand>,
) -> Fallible<Vec<Deep>> {
    let mut inputs = Vec::with_capacity(node.input.len());
    for name in &node.input {
        inputs.push(match (names.get(name), builder.deep.get(name)) {
            (Some(operand), _) => Some(Deep::of(operand)),
            (None, Some(deep)) => Some(deep.clone()),
            (None, None) if name.is_empty() => None,
            (None, None) => return Err(ungiven(name)),
        });
    }
    let operands = inputs.iter().map(|x| x.as_ref().map(|x| x.elements.clone())).collect();
    let call = Call {
        proto: node,
        node: OnnxNode::new(node, opset, operands)?,
        opset,
        path,
        inputs,
    };
    let made = call.import(builder)?;
    call.node.finish()?;
    Ok(made)
}

impl Deep {
    fn of(operand: &Operand) -> Deep {
        Deep {
            elements: operand.clone(),
            dims: extents(operand.shape()),
        }
    }

    /// The value as a tensor, if it has few enough axes.
    pub fn flat(&self, builder: &mut Builder) -> Fallible<Option<Operand>> {
        match self.dims.len() <= MAX_RANK {
            true => builder.reshape(&self.elements, shape_of(&self.dims)?).map(Some),
            false => Ok(None),
        }
    }

    /// What to say of a value that would have to be a tensor.
    pub fn refused(&self) -> String {
        format!(
            "rank {} (at most {MAX_RANK} outside of operators that order, broadcast or reduce axes): cut the network in front of it with \
             --output NAME",
            self.dims.len()
        )
    }

    /// Its elements with every range of axes as one.
    fn over(&self, builder: &mut Builder, ranges: &[Range<usize>]) -> Fallible<Operand> {
        let dims: Vec<i64> = ranges.iter().map(|r| self.dims[r.clone()].iter().product()).collect();
        builder.reshape(&self.elements, shape_of(&dims)?)
    }

    /// Its axes of extent 1 repeated up to the extents `dims`.
    fn repeated(&self, builder: &mut Builder, dims: Vec<i64>) -> Fallible<Deep> {
        let ranges = ranges(&merged(std::slice::from_ref(self), &dims, |_| 0));
        let narrow = self.over(builder, &ranges)?;
        let wide: Vec<i64> = ranges.iter().map(|r| dims[r.clone()].iter().product()).collect();
        let shape = shape_of(&wide)?;
        let elements = match narrow.shape() == shape {
            true => narrow,
            false => builder.view(ViewOp::Broadcast, &narrow, shape)?,
        };
        Ok(Deep { elements, dims })
    }

    /// The same with leading axes of extent 1 up to a rank.
    fn aligned(&self, rank: usize) -> Deep {
        let mut dims = vec![1; rank.saturating_sub(self.dims.len())];
        dims.extend(&self.dims);
        Deep {
            elements: self.elements.clone(),
            dims,
        }
    }

    /// Before an axis, the axis, and behind it.
    fn around(&self, axis: usize) -> [Range<usize>; 3] {
        [0..axis, axis..axis + 1, axis + 1..self.dims.len()]
    }
}

/// Neighbouring axes as one, as far as every operand has all of their elements or repeats one along all of them, and a node treats
/// them alike: `class` 0 is what it treats as if they were not there.
fn merged(operands: &[Deep], out: &[i64], class: impl Fn(usize) -> u32) -> Vec<(Range<usize>, u32)> {
    let mut groups: Vec<(Range<usize>, u32, Option<Vec<bool>>)> = Vec::new();
    for (axis, &extent) in out.iter().enumerate() {
        let own = class(axis);
        let whole: Vec<bool> = operands.iter().map(|x| x.dims[axis] == extent).collect();
        let free = extent == 1 && own == 0;
        match groups.last_mut() {
            Some((range, ..)) if free => range.end = axis + 1,
            Some((range, class, known)) if known.as_ref().is_none_or(|k| *class == own && *k == whole) => {
                range.end = axis + 1;
                (*class, *known) = (own, Some(whole));
            }
            _ => groups.push((axis..axis + 1, own, (!free).then_some(whole))),
        }
    }
    groups.into_iter().map(|(range, class, _)| (range, class)).collect()
}

fn ranges(groups: &[(Range<usize>, u32)]) -> Vec<Range<usize>> {
    groups.iter().map(|(range, _)| range.clone()).collect()
}

/// The extents that operands are broadcast to.
fn broadcast(operands: &[Deep]) -> Fallible<Vec<i64>> {
    let rank = operands.first().map_or(0, |x| x.dims.len());
    (0..rank)
        .map(|axis| {
            let mut extents = operands.iter().map(|x| x.dims[axis]).filter(|&d| d != 1);
            let first = extents.next().unwrap_or(1);
            match extents.all(|d| d == first) {
                true => Ok(first),
                false => Err(malformed("inputs that cannot be broadcast together")),
            }
        })
        .collect()
}
