//! One function an operator over values of any rank: which axes it treats alike, and what it gives.

use super::{broadcast, merged, ranges};
use crate::limits::MAX_RANK;
use crate::planner::import::builder::Builder;
use crate::planner::import::error::{Fallible, limit, malformed};
use crate::planner::import::host::{Elem, Host, shape_of};
use crate::planner::import::node::OnnxNode;
use crate::planner::import::ops;
use crate::planner::import::ops::reshape::{extents, wanted_extents};
use crate::planner::import::proto::{AttributeProto, NodeProto, attribute_type};
use crate::planner::import::values::{Deep, Operand};
use std::ops::Range;
use std::path::Path;

/// True for what computes each element from the one in its place; further inputs have one element.
fn in_place(op: &str) -> bool {
    matches!(
        op,
        "Identity"
            | "Cast"
            | "Relu"
            | "LeakyRelu"
            | "Sigmoid"
            | "HardSigmoid"
            | "HardSwish"
            | "Tanh"
            | "Exp"
            | "Sqrt"
            | "Neg"
            | "Erf"
            | "Log"
            | "Round"
            | "Abs"
            | "Floor"
            | "Ceil"
            | "Clip"
            | "Not"
            | "Sign"
            | "IsNaN"
            | "IsInf"
            | "ThresholdedRelu"
            | "Shrink"
            | "Swish"
            | "Mish"
            | "Gelu"
            | "Reciprocal"
            | "Softplus"
            | "Softsign"
            | "Elu"
            | "Celu"
            | "Selu"
            | "Sin"
            | "Cos"
            | "Dropout"
            | "Tan"
            | "Sinh"
            | "Cosh"
            | "Asin"
            | "Acos"
            | "Atan"
            | "Asinh"
            | "Acosh"
            | "Atanh"
    )
}

/// True for what computes each element from those in its place of inputs that are broadcast against each other.
fn is_broadcast(op: &str) -> bool {
    matches!(
        op,
        "Add"
            | "Sub"
            | "Mul"
            | "Div"
            | "Pow"
            | "Mod"
            | "Sum"
            | "Min"
            | "Max"
            | "Mean"
            | "Equal"
            | "Greater"
            | "GreaterOrEqual"
            | "Less"
            | "LessOrEqual"
            | "And"
            | "Or"
            | "Xor"
            | "Where"
    )
}

/// A node to import.
pub(super) struct Call<'a> {
    pub proto: &'a NodeProto,
    /// The node over the elements of its inputs: for its attributes and parameters.
    pub node: OnnxNode<'a>,
    pub opset: i64,
    pub path: &'a Path,
    pub inputs: Vec<Option<Deep>>,
}

impl Call<'_> {
    pub(super) fn input(&self, index: usize) -> Fallible<&Deep> {
        let input = self.inputs.get(index).and_then(Option::as_ref);
        input.ok_or_else(|| malformed(format!("input {index} is missing")))
    }

    fn all_inputs(&self) -> Fallible<Vec<Deep>> {
        (0..self.inputs.len()).map(|i| self.input(i).cloned()).collect()
    }

    /// The inputs behind the first as they are: parameters of few axes.
    fn parameters(&self) -> impl Iterator<Item = Option<Operand>> {
        self.inputs.iter().skip(1).map(|x| x.as_ref().map(|x| x.elements.clone()))
    }

    /// The node's operator over other inputs, with some attributes replaced.
    fn over(&self, builder: &mut Builder, inputs: Vec<Option<Operand>>, attributes: &[(&str, i64)]) -> Fallible<Vec<Operand>> {
        let mut proto = self.proto.clone();
        proto.input = inputs
            .iter()
            .map(|x| if x.is_some() { "x".to_owned() } else { String::new() })
            .collect();
        proto.attribute.retain(|a| attributes.iter().all(|(name, _)| a.name != *name));
        proto.attribute.extend(attributes.iter().map(|&(name, i)| AttributeProto {
            name: name.to_owned(),
            i,
            r#type: attribute_type::INT,
            ..AttributeProto::default()
        }));
        // They are looked at over there.
        self.proto.attribute.iter().for_each(|a| self.node.ignore_any(&a.name));
        let node = OnnxNode::new(&proto, self.opset, inputs)?;
        let made = ops::import(builder, &node, self.path)?;
        node.finish()?;
        Ok(made)
    }

    /// The same of one output, whose extents are known.
    pub(super) fn one(
        &self,
        builder: &mut Builder,
        inputs: Vec<Option<Operand>>,
        attributes: &[(&str, i64)],
        dims: Vec<i64>,
    ) -> Fallible<Vec<Deep>> {
        let mut made = self.over(builder, inputs, attributes)?;
        made.truncate(1);
        Ok(made
            .into_iter()
            .map(|elements| Deep {
                elements,
                dims: dims.clone(),
            })
            .collect())
    }

    pub fn import(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        match self.proto.op_type.as_str() {
            "Constant" => self.constant(b),
            "ConstantOfShape" => self.constant_of_shape(b),
            "Reshape" => self.reshape(),
            "Flatten" | "Squeeze" | "Unsqueeze" => self.regroup(),
            "Shape" | "Size" => self.measure(b),
            "Transpose" => self.transpose(b),
            "Expand" => self.expand(b),
            "Tile" => self.tile(b),
            "Softmax" | "LogSoftmax" => self.softmax(b),
            "LayerNormalization" => self.layer_normalization(b),
            "MatMul" => self.mat_mul(b),
            "Concat" => self.concat(b),
            "Split" => self.split(b),
            "Gather" => self.gather(b),
            "Slice" => self.slice(b),
            op if op.starts_with("Reduce") => self.reduce(b),
            op if is_broadcast(op) => {
                let inputs = self.all_inputs()?;
                let rank = inputs.iter().map(|x| x.dims.len()).max().unwrap_or(0);
                let inputs: Vec<Deep> = inputs.iter().map(|x| x.aligned(rank)).collect();
                let out = broadcast(&inputs)?;
                let ranges = ranges(&merged(&inputs, &out, |_| 0));
                let narrow = inputs.iter().map(|x| x.over(b, &ranges).map(Some)).collect::<Fallible<Vec<_>>>()?;
                self.one(b, narrow, &[], out)
            }
            op if in_place(op) => {
                let x = self.input(0)?;
                let inputs = std::iter::once(Some(x.elements.clone())).chain(self.parameters()).collect();
                self.one(b, inputs, &[], x.dims.clone())
            }
            _ => {
                let deepest = self.inputs.iter().flatten().max_by_key(|x| x.dims.len());
                Err(limit(deepest.map_or_else(String::new, Deep::refused)))
            }
        }
    }

    /// The elements of the first input under other extents.
    fn under(&self, dims: Vec<i64>) -> Fallible<Vec<Deep>> {
        let elements = self.input(0)?.elements.clone();
        match dims.iter().try_fold(1i64, |all, &d| all.checked_mul(d)) {
            Some(all) if all == elements.shape().elements() as i64 => Ok(vec![Deep { elements, dims }]),
            _ => Err(malformed(format!("{dims:?} for an input {:?}", self.input(0)?.dims))),
        }
    }

    fn reshape(&self) -> Fallible<Vec<Deep>> {
        let wanted = self.node.int_input(1, "shape")?.ok_or_else(|| malformed("missing").at("shape"))?;
        let dims = wanted_extents(&self.input(0)?.dims, &wanted, self.node.flag("allowzero", false)?)?;
        self.under(dims)
    }

    /// Axes of Squeeze, Unsqueeze and the reductions: an attribute in older operator sets, an input since.
    fn axes(&self) -> Fallible<Option<Vec<i64>>> {
        match self.node.ints("axes")? {
            Some(axes) => Ok(Some(axes.to_vec())),
            None => self.node.int_input(1, "axes"),
        }
    }

    fn regroup(&self) -> Fallible<Vec<Deep>> {
        let dims = &self.input(0)?.dims;
        let rank = dims.len();
        self.under(match self.proto.op_type.as_str() {
            "Flatten" => {
                let axis = match self.node.int("axis")?.unwrap_or(1) {
                    a if a == rank as i64 => rank,
                    a => OnnxNode::axis(a, rank, "axis")?,
                };
                vec![dims[..axis].iter().product(), dims[axis..].iter().product()]
            }
            "Squeeze" => {
                let axes = match self.axes()? {
                    Some(axes) => OnnxNode::axes(&axes, rank, "axes")?,
                    None => (0..rank).filter(|&a| dims[a] == 1).collect(),
                };
                if let Some(a) = axes.iter().find(|&&a| dims[a] != 1) {
                    return Err(malformed(format!("axis {a} of {dims:?} has more than one element")).at("axes"));
                }
                (0..rank).filter(|a| !axes.contains(a)).map(|a| dims[a]).collect()
            }
            _ => {
                let axes = self.axes()?.ok_or_else(|| malformed("missing").at("axes"))?;
                let axes = OnnxNode::axes(&axes, rank + axes.len(), "axes")?;
                let mut old = dims.iter();
                let extent = |a| if axes.contains(&a) { 1 } else { old.next().copied().unwrap_or(1) };
                (0..rank + axes.len()).map(extent).collect()
            }
        })
    }

    /// Shape and Size: known numbers.
    fn measure(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let dims = &self.input(0)?.dims;
        let rank = dims.len() as i64;
        let at = |axis: i64| (if axis < 0 { axis + rank } else { axis }).clamp(0, rank) as usize;
        let numbers: Vec<f64> = match self.proto.op_type.as_str() {
            "Size" => vec![dims.iter().product::<i64>() as f64],
            _ => {
                let (start, end) = (at(self.node.int("start")?.unwrap_or(0)), at(self.node.int("end")?.unwrap_or(rank)));
                dims[start.min(end)..end].iter().map(|&d| d as f64).collect()
            }
        };
        let shape: &[i64] = if self.proto.op_type == "Size" {
            &[]
        } else {
            &[numbers.len() as i64]
        };
        let known = b.constant(Host::from_f64s(Elem::I64, shape_of(shape)?, numbers)?);
        Ok(vec![Deep::of(&known)])
    }

    fn transpose(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let x = self.input(0)?;
        let rank = x.dims.len();
        let perm = match self.node.ints("perm")? {
            Some(perm) if perm.len() == rank => OnnxNode::axes(perm, rank, "perm")?,
            Some(perm) => return Err(malformed(format!("{} axes of {rank}", perm.len())).at("perm")),
            None => (0..rank).rev().collect(),
        };
        // Runs of axes that stay neighbours, those of extent 1 aside, which may stand anywhere.
        let wide: Vec<usize> = (0..rank).filter(|&a| x.dims[a] != 1).collect();
        let place = |axis: usize| wide.iter().position(|&w| w == axis);
        let moved: Vec<usize> = perm.iter().filter_map(|&a| place(a)).collect();
        let mut runs: Vec<Range<usize>> = Vec::new();
        for &at in &moved {
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        let mut stored = runs.clone();
        stored.sort_by_key(|run| run.start);
        let extent = |run: &Range<usize>| wide[run.clone()].iter().map(|&a| x.dims[a]).product::<i64>();
        let dims: Vec<i64> = stored.iter().map(extent).collect();
        let narrow = b.reshape(&x.elements, shape_of(&dims)?)?;
        let order: Vec<usize> = runs.iter().filter_map(|run| stored.iter().position(|s| s == run)).collect();
        let elements = b.transpose(&narrow, &order)?;
        let dims = perm.iter().map(|&a| x.dims[a]).collect();
        Ok(vec![Deep { elements, dims }])
    }

    fn softmax(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let x = self.input(0)?;
        let rank = x.dims.len();
        let flattens = self.opset < 13;
        let axis = OnnxNode::axis(self.node.int("axis")?.unwrap_or(if flattens { 1 } else { -1 }), rank, "axis")?;
        let ranges = match flattens {
            true => vec![0..axis, axis..rank],
            false => x.around(axis).to_vec(),
        };
        let narrow = x.over(b, &ranges)?;
        self.one(b, vec![Some(narrow)], &[("axis", 1)], x.dims.clone())
    }

    fn layer_normalization(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let x = self.input(0)?;
        let rank = x.dims.len();
        let axis = OnnxNode::axis(self.node.int("axis")?.unwrap_or(-1), rank, "axis")?;
        if self.node.wants(1) || self.node.wants(2) {
            return Err(limit(x.refused()));
        }
        let ranges: Vec<Range<usize>> = std::iter::once(0..axis).chain((axis..rank).map(|a| a..a + 1)).collect();
        let narrow = x.over(b, &ranges)?;
        let inputs = std::iter::once(Some(narrow)).chain(self.parameters()).collect();
        self.one(b, inputs, &[("axis", 1)], x.dims.clone())
    }

    fn reduce(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let x = self.input(0)?;
        let rank = x.dims.len();
        let keep = self.node.flag("keepdims", true)?;
        let axes = match self.axes()?.filter(|a| !a.is_empty()) {
            Some(axes) => OnnxNode::axes(&axes, rank, "axes")?,
            None if self.node.flag("noop_with_empty_axes", false)? => {
                return self.one(b, vec![Some(x.elements.clone())], &[], x.dims.clone());
            }
            None => (0..rank).collect(),
        };
        let groups = merged(std::slice::from_ref(x), &x.dims, |a| u32::from(axes.contains(&a)));
        let narrow = x.over(b, &ranges(&groups))?;
        let reduced: Vec<i64> = (0..groups.len()).filter(|&g| groups[g].1 == 1).map(|g| g as i64).collect();
        let dims = (0..rank).filter(|a| keep || !axes.contains(a));
        let dims: Vec<i64> = dims.map(|a| if axes.contains(&a) { 1 } else { x.dims[a] }).collect();
        // They are looked at over there.
        self.proto.attribute.iter().for_each(|a| self.node.ignore_any(&a.name));
        // The axes in the form of the node's operator set.
        let mut own = self.proto.clone();
        let as_attribute = own.attribute.iter_mut().find(|a| a.name == "axes");
        let since = if own.op_type == "ReduceSum" { 13 } else { 18 };
        let mut inputs = vec![Some(narrow)];
        match as_attribute {
            Some(attribute) => attribute.ints.clone_from(&reduced),
            None if self.opset < since => own.attribute.push(AttributeProto {
                name: "axes".to_owned(),
                ints: reduced,
                r#type: attribute_type::INTS,
                ..AttributeProto::default()
            }),
            None => {
                let numbers = reduced.iter().map(|&a| a as f64).collect();
                let shape = shape_of(&[reduced.len() as i64])?;
                inputs.push(Some(b.constant(Host::from_f64s(Elem::I64, shape, numbers)?)));
            }
        }
        let call = Call {
            proto: &own,
            node: OnnxNode::new(&own, self.opset, Vec::new())?,
            opset: self.opset,
            path: self.path,
            inputs: Vec::new(),
        };
        call.one(b, inputs, &[("keepdims", 1)], dims)
    }

    fn mat_mul(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let (x, y) = (self.input(0)?, self.input(1)?);
        if x.dims.len() < 2 || y.dims.len() < 2 {
            return Err(limit(x.refused()));
        }
        let rank = x.dims.len().max(y.dims.len());
        let both = [x.aligned(rank), y.aligned(rank)];
        let stacks = both.each_ref().map(|m| Deep {
            elements: m.elements.clone(),
            dims: m.dims[..rank - 2].to_vec(),
        });
        let mut out = broadcast(&stacks)?;
        let mut ranges = ranges(&merged(&stacks, &out, |_| 0));
        ranges.extend([rank - 2..rank - 1, rank - 1..rank]);
        let narrow = both.iter().map(|m| m.over(b, &ranges).map(Some)).collect::<Fallible<Vec<_>>>()?;
        out.extend([both[0].dims[rank - 2], both[1].dims[rank - 1]]);
        self.one(b, narrow, &[], out)
    }

    fn concat(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let parts = self.all_inputs()?;
        let rank = self.input(0)?.dims.len();
        let axis = self.node.int("axis")?.ok_or_else(|| malformed("missing").at("axis"))?;
        let axis = OnnxNode::axis(axis, rank, "axis")?;
        let mut out = parts[0].dims.clone();
        out[axis] = 0;
        for part in &parts {
            let alike = part.dims.len() == rank && (0..rank).all(|a| a == axis || part.dims[a] == out[a]);
            if !alike {
                return Err(malformed("parts of other extents"));
            }
            out[axis] += part.dims[axis];
        }
        let narrow = parts
            .iter()
            .map(|p| p.over(b, &p.around(axis)).map(Some))
            .collect::<Fallible<Vec<_>>>()?;
        self.one(b, narrow, &[("axis", 1)], out)
    }

    fn split(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let x = self.input(0)?;
        let axis = OnnxNode::axis(self.node.int("axis")?.unwrap_or(0), x.dims.len(), "axis")?;
        let narrow = x.over(b, &x.around(axis))?;
        let inputs = std::iter::once(Some(narrow)).chain(self.parameters()).collect();
        let parts = self.over(b, inputs, &[("axis", 1)])?;
        let deep = |elements: Operand| {
            let mut dims = x.dims.clone();
            dims[axis] = i64::from(elements.shape().dim(1));
            Deep { elements, dims }
        };
        Ok(parts.into_iter().map(deep).collect())
    }

    fn gather(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let (x, indices) = (self.input(0)?, self.input(1)?);
        let axis = OnnxNode::axis(self.node.int("axis")?.unwrap_or(0), x.dims.len(), "axis")?;
        if indices.dims.len() + 2 > MAX_RANK {
            return Err(limit(indices.refused()));
        }
        let narrow = x.over(b, &x.around(axis))?;
        let mut dims = x.dims.clone();
        dims.splice(axis..=axis, indices.dims.iter().copied());
        self.one(b, vec![Some(narrow), Some(indices.elements.clone())], &[("axis", 1)], dims)
    }

    /// Slice, an axis at a time.
    fn slice(&self, b: &mut Builder) -> Fallible<Vec<Deep>> {
        let mut x = self.input(0)?.clone();
        let rank = x.dims.len();
        let list = |index: usize, name: &'static str| match self.opset < 10 {
            true => Ok(self.node.ints(name)?.map(<[i64]>::to_vec)),
            false => self.node.int_input(index, name),
        };
        let missing = |name: &'static str| malformed("missing").at(name);
        let starts = list(1, "starts")?.ok_or_else(|| missing("starts"))?;
        let ends = list(2, "ends")?.ok_or_else(|| missing("ends"))?;
        let axes = list(3, "axes")?.unwrap_or_else(|| (0..starts.len() as i64).collect());
        let steps = if self.opset < 10 { None } else { self.node.int_input(4, "steps")? };
        let steps = steps.unwrap_or_else(|| vec![1; starts.len()]);
        let axes = OnnxNode::axes(&axes, rank, "axes")?;
        if [starts.len(), ends.len(), steps.len()].iter().any(|&n| n != axes.len()) {
            return Err(malformed("lists of different lengths"));
        }
        for (index, &axis) in axes.iter().enumerate() {
            let narrow = x.over(b, &x.around(axis))?;
            let (extent, step) = (x.dims[axis], steps[index]);
            if step == 0 {
                return Err(malformed("a step of 0").at("steps"));
            }
            let bound = |at: i64| if at < 0 { at.saturating_add(extent) } else { at };
            let (start, end) = match step > 0 {
                true => (bound(starts[index]).clamp(0, extent), bound(ends[index]).clamp(0, extent)),
                false => (bound(starts[index]).clamp(0, extent - 1), bound(ends[index]).clamp(-1, extent - 1)),
            };
            let taken = if step > 0 { end - start } else { start - end };
            let count = taken.max(0).div_euclid(step.abs()) + i64::from(taken.max(0) % step.abs() != 0);
            let mut shape = extents(narrow.shape());
            shape[1] = count;
            x.elements = b.slice(&narrow, vec![0, start, 0], vec![1, step, 1], shape_of(&shape)?)?;
            x.dims[axis] = count;
        }
        Ok(vec![x])
    }
}
