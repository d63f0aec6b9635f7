//! An ONNX node as the operators see it: inputs, attributes and parameters, each checked as it is read.

use super::error::{Fallible, malformed, unsupported};
use super::host::Elem;
use super::proto::{AttributeProto, NodeProto, TensorProto, attribute_type};
use super::values::Operand;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Elements that a parameter (shape, axes, pads ..) may have.
const MAX_PARAMETER: u64 = 1 << 16;

/// One node. Attributes that no operator asked for are refused at the end, see [`OnnxNode::finish`].
pub(super) struct OnnxNode<'a> {
    pub op: &'a str,
    /// Version of the standard operator set.
    pub opset: i64,
    attributes: BTreeMap<&'a str, &'a AttributeProto>,
    asked: RefCell<BTreeSet<&'a str>>,
    inputs: Vec<Option<Operand>>,
    outputs: &'a [String],
}

impl<'a> OnnxNode<'a> {
    pub fn new(proto: &'a NodeProto, opset: i64, inputs: Vec<Option<Operand>>) -> Fallible<OnnxNode<'a>> {
        let mut attributes = BTreeMap::new();
        for a in &proto.attribute {
            if !a.ref_attr_name.is_empty() {
                return Err(unsupported(
                    "a reference to an attribute of a function, outside of one: export the network with its functions inlined \
                     (onnx.inliner)",
                )
                .at(&a.name));
            }
            if attributes.insert(a.name.as_str(), a).is_some() {
                return Err(malformed("given twice").at(&a.name));
            }
        }
        Ok(OnnxNode {
            op: &proto.op_type,
            opset,
            attributes,
            asked: RefCell::new(BTreeSet::new()),
            inputs,
            outputs: &proto.output,
        })
    }

    /// Refuses attributes that were not read.
    pub fn finish(&self) -> Fallible<()> {
        let asked = self.asked.borrow();
        match self.attributes.keys().find(|name| !asked.contains(*name)) {
            Some(name) => Err(unsupported(
                "this attribute is not known at this version of the operator: export the network without it, or convert it with \
                 onnx.version_converter to the operator set that has it",
            )
            .at(name)),
            None => Ok(()),
        }
    }

    /// Input `index`, which must be there.
    pub fn input(&self, index: usize) -> Fallible<&Operand> {
        self.optional(index).ok_or_else(|| malformed(format!("input {index} is missing")))
    }

    /// Input `index`, if it is there.
    pub fn optional(&self, index: usize) -> Option<&Operand> {
        self.inputs.get(index)?.as_ref()
    }

    /// All inputs, which must be there: of an operator with any number of them.
    pub fn all_inputs(&self) -> Fallible<Vec<&Operand>> {
        if self.inputs.is_empty() {
            return Err(malformed("no inputs"));
        }
        (0..self.inputs.len()).map(|i| self.input(i)).collect()
    }

    /// Checks the number of inputs.
    pub fn arity(&self, low: usize, high: usize) -> Fallible<()> {
        if (low..=high).contains(&self.inputs.len()) {
            Ok(())
        } else {
            Err(malformed(format!("{} inputs (of {low} to {high})", self.inputs.len())))
        }
    }

    /// Number of inputs that the node lists.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Number of outputs that the node lists.
    pub fn output_count(&self) -> usize {
        self.outputs.len()
    }

    /// True if output `index` has a name.
    pub fn wants(&self, index: usize) -> bool {
        self.outputs.get(index).is_some_and(|name| !name.is_empty())
    }

    fn attribute(&self, name: &'static str, number: i32, what: &str) -> Fallible<Option<&'a AttributeProto>> {
        self.asked.borrow_mut().insert(name);
        match self.attributes.get(name) {
            None => Ok(None),
            Some(a) if a.r#type == number => Ok(Some(a)),
            Some(_) => Err(malformed(format!("not {what}")).at(name)),
        }
    }

    /// True if the node has an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.attributes.contains_key(name)
    }

    pub fn int(&self, name: &'static str) -> Fallible<Option<i64>> {
        Ok(self.attribute(name, attribute_type::INT, "an integer")?.map(|a| a.i))
    }

    pub fn float(&self, name: &'static str) -> Fallible<Option<f32>> {
        Ok(self.attribute(name, attribute_type::FLOAT, "a float")?.map(|a| a.f))
    }

    pub fn ints(&self, name: &'static str) -> Fallible<Option<&'a [i64]>> {
        Ok(self
            .attribute(name, attribute_type::INTS, "a list of integers")?
            .map(|a| a.ints.as_slice()))
    }

    pub fn floats(&self, name: &'static str) -> Fallible<Option<&'a [f32]>> {
        Ok(self
            .attribute(name, attribute_type::FLOATS, "a list of floats")?
            .map(|a| a.floats.as_slice()))
    }

    pub fn strings(&self, name: &'static str) -> Fallible<Option<Vec<&'a str>>> {
        let Some(a) = self.attribute(name, attribute_type::STRINGS, "a list of strings")? else {
            return Ok(None);
        };
        let text = |s: &'a bytes::Bytes| std::str::from_utf8(s).map_err(|_| malformed("not UTF-8").at(name));
        a.strings.iter().map(text).collect::<Fallible<Vec<_>>>().map(Some)
    }

    pub fn tensor(&self, name: &'static str) -> Fallible<Option<&'a TensorProto>> {
        match self.attribute(name, attribute_type::TENSOR, "a tensor")? {
            None => Ok(None),
            Some(a) => {
                a.t.as_ref()
                    .map(Some)
                    .ok_or_else(|| malformed("an empty tensor attribute").at(name))
            }
        }
    }

    pub fn string(&self, name: &'static str) -> Fallible<Option<&'a str>> {
        match self.attribute(name, attribute_type::STRING, "a string")? {
            None => Ok(None),
            Some(a) => std::str::from_utf8(&a.s).map(Some).map_err(|_| malformed("not UTF-8").at(name)),
        }
    }

    /// An attribute of 0 or 1.
    pub fn flag(&self, name: &'static str, default: bool) -> Fallible<bool> {
        match self.int(name)? {
            None => Ok(default),
            Some(v @ 0..=1) => Ok(v == 1),
            Some(v) => Err(malformed(format!("{v} is neither 0 nor 1")).at(name)),
        }
    }

    /// Accepts and skips an attribute that has no bearing on inference.
    pub fn ignore(&self, name: &'static str) {
        self.asked.borrow_mut().insert(name);
    }

    /// The same for a name that is not known beforehand.
    pub fn ignore_any(&self, name: &str) {
        let known = self.attributes.keys().find(|known| **known == name);
        self.asked.borrow_mut().extend(known);
    }

    /// A list of integers from constant input `index` (called `name` in the standard); `None` if the input is absent.
    pub fn int_input(&self, index: usize, name: &str) -> Fallible<Option<Vec<i64>>> {
        let Some(x) = self.parameter(index, name)? else {
            return Ok(None);
        };
        let ints = match x.elem() {
            Elem::I32 | Elem::I64 => x.host().and_then(|h| h.as_i64s()),
            _ => None,
        };
        ints.map(Some).ok_or_else(|| malformed("not integers").at(name))
    }

    /// A list of numbers from constant input `index` (called `name` in the standard); `None` if the input is absent.
    pub fn float_input(&self, index: usize, name: &str) -> Fallible<Option<Vec<f64>>> {
        Ok(self.parameter(index, name)?.and_then(|x| x.host()).map(|h| h.as_f64s()))
    }

    /// The truth value of constant input `index`; `None` if the input is absent.
    pub fn bool_input(&self, index: usize, name: &str) -> Fallible<Option<bool>> {
        Ok(self.float_input(index, name)?.map(|v| v.first().is_some_and(|&x| x != 0.0)))
    }

    fn parameter(&self, index: usize, name: &str) -> Fallible<Option<&Operand>> {
        let Some(x) = self.optional(index) else {
            return Ok(None);
        };
        if x.host().is_none() {
            return Err(unsupported(
                "computed at run time: shapes must be static, so export the network with fixed shapes, fix the input that this comes \
                 from, or cut the network in front of this node with --output NAME",
            )
            .at(name));
        }
        if x.shape().rank() > 1 && x.shape().elements() > 1 || x.shape().elements() > MAX_PARAMETER {
            return Err(malformed(format!("shape {} where a list is expected", x.shape())).at(name));
        }
        Ok(Some(x))
    }

    /// Axis `axis` of `rank` axes, where negative ones count from the end.
    pub fn axis(axis: i64, rank: usize, name: &str) -> Fallible<usize> {
        let rank = rank as i64;
        let at = if axis < 0 { axis.saturating_add(rank) } else { axis };
        if (0..rank).contains(&at) {
            Ok(at as usize)
        } else {
            Err(malformed(format!("axis {axis} of {rank}")).at(name))
        }
    }

    /// Distinct axes.
    pub fn axes(axes: &[i64], rank: usize, name: &str) -> Fallible<Vec<usize>> {
        if axes.len() > rank {
            return Err(malformed(format!("{} of {rank} axes", axes.len())).at(name));
        }
        let mut all = Vec::with_capacity(axes.len());
        for &axis in axes {
            let axis = Self::axis(axis, rank, name)?;
            if all.contains(&axis) {
                return Err(malformed(format!("axis {axis} twice")).at(name));
            }
            all.push(axis);
        }
        Ok(all)
    }
}
