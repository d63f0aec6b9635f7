//! The graph under construction: operands, emission of nodes, and folding of what is constant.
//!
//! Whatever an operator emits passes through here. If all inputs of a node are constants and the result stays under a
//! cap, the node is evaluated at once and leaves a constant; so chains such as Shape, Slice, Concat, Cast, Resize vanish.

use super::error::{Fallible, limit, malformed};
use super::fold;
use super::grid::Grids;
use super::host::{Elem, Host};
use super::inline::Refusals;
use super::unroll::MAX_UNROLLED;
use super::values::{Constant, Deep, Operand, Sequences};
use crate::limits::{MAX_OPERATORS, MAX_RANK};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp, broadcast};
use crate::planner::strided;
use crate::primitive::{Binary, Primitive};
use crate::tensor::{Layout, Shape};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes that one folded result may have.
const MAX_FOLDED: u64 = 64 << 20;
/// Bytes that all folded results of one network may have together: this much, and so many times its own constants.
const FREE_BYTES: u64 = 16 << 20;
const BYTES_PER_CONSTANT_BYTE: u64 = 4;
/// Bytes of a result that are not counted: shapes have to be known however much was folded, and no node makes many of them.
const UNCOUNTED_BYTES: u64 = 512;
/// Multiplications that folding may take in one node (about a second's worth), and in all.
const MAX_WORK: u64 = 1 << 28;
const MAX_WORK_IN_ALL: u64 = 1 << 32;
/// Bytes up to which a repeated constant is stored as such instead of as a view.
const MAX_REPEATED: u64 = 64 << 10;

/// Bytes up to which a repeated constant is stored as such: integers give places and shapes, which have to be known.
fn most_repeated(elem: Elem) -> u64 {
    match elem {
        Elem::I64 | Elem::I32 => MAX_FOLDED,
        _ => MAX_REPEATED,
    }
}

/// What integers were made of.
#[derive(Debug)]
struct MadeOf {
    /// The same numbers as floats.
    float: Operand,
    /// For truth values whose float may be no number, the integers in between.
    integers: Option<Operand>,
}

/// A graph under construction.
#[derive(Debug)]
pub(super) struct Builder {
    pub graph: Graph,
    /// Sequences of operands.
    pub sequences: Sequences,
    /// Why calls of the model's functions are still there.
    pub refusals: Refusals,
    /// The ONNX node being imported.
    node: String,
    /// Values made for that node so far.
    made: u32,
    /// Values that are made now stay f32 in plans of halves.
    single: bool,
    /// What values of bytes and truth values were made of.
    floats: BTreeMap<ValueId, MadeOf>,
    /// What is known of quantized values.
    pub grids: Grids,
    /// The narrow operands that values repeat.
    repeated: BTreeMap<ValueId, Operand>,
    /// What softmaxes made, with the node of each.
    softmaxes: BTreeMap<ValueId, usize>,
    /// Values of too many axes, by name.
    pub deep: BTreeMap<String, Deep>,
    /// Bytes that may still be folded.
    bytes_left: u64,
    /// Multiplications that folding may still take.
    work_left: u64,
    /// Bodies of loops inside each other that nodes come from now.
    pub unrolling: u32,
    /// Nodes that bodies of loops may still give.
    unrolled_left: usize,
}

impl Builder {
    /// An empty graph. `name` is what errors and dumps call it.
    pub fn new(name: String) -> Builder {
        Builder {
            graph: Graph { name, ..Graph::default() },
            sequences: Sequences::default(),
            refusals: Refusals::new(),
            node: String::new(),
            made: 0,
            single: false,
            floats: BTreeMap::new(),
            grids: Grids::default(),
            repeated: BTreeMap::new(),
            softmaxes: BTreeMap::new(),
            deep: BTreeMap::new(),
            bytes_left: FREE_BYTES,
            work_left: MAX_WORK_IN_ALL,
            unrolling: 0,
            unrolled_left: MAX_UNROLLED,
        }
    }

    /// Names the ONNX node that the following nodes come from.
    pub fn start_node(&mut self, name: &str) {
        name.clone_into(&mut self.node);
        self.made = 0;
    }

    /// What `emit` makes stays f32 in plans of halves: for formulas whose intermediates say more than a half holds.
    pub fn in_single<T>(&mut self, emit: impl FnOnce(&mut Builder) -> Fallible<T>) -> Fallible<T> {
        let outside = std::mem::replace(&mut self.single, true);
        let made = emit(self);
        self.single = outside;
        made
    }

    fn fresh_name(&mut self) -> String {
        self.made += 1;
        format!("{}:{}", self.node, self.made)
    }

    /// A constant of the file or the options. It adds to what may be folded.
    pub fn given_constant(&mut self, name: &str, host: Host) -> Operand {
        let bytes = host.elem().bytes() * host.shape().elements();
        self.bytes_left = self.bytes_left.saturating_add(BYTES_PER_CONSTANT_BYTE * bytes);
        Self::named_constant(name, host)
    }

    fn named_constant(name: &str, host: Host) -> Operand {
        Operand::Constant(Rc::new(Constant {
            name: name.to_owned(),
            host,
            value: Cell::new(None),
        }))
    }

    /// A constant that the current node makes.
    pub fn constant(&mut self, host: Host) -> Operand {
        let name = self.fresh_name();
        Self::named_constant(&name, host)
    }

    /// A constant of one element.
    pub fn scalar(&mut self, elem: Elem, value: f64) -> Fallible<Operand> {
        Ok(self.constant(Host::from_f64s(elem, Shape::SCALAR, vec![value])?))
    }

    /// The operand's value in the graph; made of a constant when it is first asked for.
    pub fn value(&mut self, x: &Operand) -> Fallible<ValueId> {
        match x {
            Operand::Computed { id, .. } => Ok(*id),
            Operand::Constant(c) => {
                if let Some(id) = c.value.get() {
                    return Ok(id);
                }
                let id = self.graph.add_constant(c.name.clone(), c.host.narrowed()?);
                self.graph.values[id.index()].single = self.single;
                c.value.set(Some(id));
                Ok(id)
            }
        }
    }

    /// Remembers that the integers `x` are the numbers `float`.
    pub fn remember_float(&mut self, x: &Operand, float: Operand) {
        if let Operand::Computed { id, .. } = x {
            self.floats.insert(*id, MadeOf { float, integers: None });
        }
    }

    /// Remembers that the truth value `x` is `float`, which may be no number where `x` is false, and the integers that say so.
    pub fn remember_loose_float(&mut self, x: &Operand, float: Operand, integers: Operand) {
        if let Operand::Computed { id, .. } = x {
            let integers = Some(integers);
            self.floats.insert(*id, MadeOf { float, integers });
        }
    }

    fn made_of(&self, x: &Operand) -> Option<&MadeOf> {
        match x {
            Operand::Computed { id, .. } => self.floats.get(id),
            Operand::Constant(_) => None,
        }
    }

    /// The floats that the integers `x` are known to be.
    pub fn known_float(&self, x: &Operand) -> Option<Operand> {
        self.made_of(x).map(|of| of.float.clone())
    }

    /// The integers to go by in place of the float that is known of `x`, which may be no number.
    pub fn doubted(&self, x: &Operand) -> Option<Operand> {
        self.made_of(x)?.integers.clone()
    }

    /// What `x` repeats along axes of extent 1 or missing ones, if it does nothing else.
    pub fn repeats(&self, x: &Operand) -> Option<Operand> {
        match x {
            Operand::Computed { id, .. } => self.repeated.get(id).cloned(),
            Operand::Constant(_) => None,
        }
    }

    /// The scores and the axis of a softmax `x` that something is added to, or that something cuts off: a mask may have emptied
    /// whole rows of them.
    pub fn masked_scores(&self, x: &Operand) -> Option<(Operand, u8)> {
        let Operand::Computed { id, elem, shape } = x else { return None };
        let node = &self.graph.nodes[*self.softmaxes.get(id)?];
        let Op::Primitive(Primitive::Softmax { axis }) = node.op else {
            return None;
        };
        let producers = strided::producers(&self.graph);
        let made = |value: ValueId| producers[value.index()].map(|node| &self.graph.nodes[node]);
        let masks = |node: &Node| {
            matches!(
                node.op,
                Op::Primitive(Primitive::Binary(Binary::Add | Binary::Sub | Binary::Min | Binary::Max))
            )
        };
        let scores = node.inputs[0];
        (made(scores).is_some_and(masks) && !self.weighs(x)).then_some((
            Operand::Computed {
                id: scores,
                elem: *elem,
                shape: *shape,
            },
            axis,
        ))
    }

    /// True if `x` is a softmax of finite scores, to which no more is added than constants of which every row has a finite one.
    pub fn weighs(&self, x: &Operand) -> bool {
        let Operand::Computed { id, .. } = x else { return false };
        let producers = strided::producers(&self.graph);
        let made = |value: ValueId| producers[value.index()].map(|node| &self.graph.nodes[node]);
        let Some(node) = made(*id) else { return false };
        let Op::Primitive(Primitive::Softmax { axis }) = node.op else {
            return false;
        };
        let scores = node.inputs[0];
        let axis = usize::from(axis);
        match made(scores).map(|n| (&n.op, &n.inputs[..])) {
            Some((Op::Primitive(Primitive::MatMul), _)) => true,
            Some((Op::Primitive(Primitive::Binary(Binary::Mul | Binary::Div)), &[_, b])) => {
                strided::constant(&self.graph, &producers, b).is_some_and(|(t, _)| t.len() == 1)
            }
            Some((Op::Primitive(Primitive::Binary(Binary::Add)), inputs)) => inputs.iter().any(|&mask| {
                let Some((tensor, at)) = strided::constant(&self.graph, &producers, mask) else {
                    return false;
                };
                let Some(mask) = strided::gather(&tensor, &at) else { return false };
                let inner: usize = mask.shape().dims()[axis + 1..].iter().map(|&d| d as usize).product();
                let extent = mask.shape().dim(axis) as usize;
                let finite = |i: usize| mask.get_f64(i).is_some_and(f64::is_finite);
                let rows = mask.len() / (inner * extent).max(1);
                (0..rows * inner).all(|row| (0..extent).any(|k| finite(row / inner * inner * extent + k * inner + row % inner)))
            }),
            _ => false,
        }
    }

    /// A fresh computed value.
    pub fn computed(&mut self, name: String, elem: Elem, shape: Shape) -> Fallible<Operand> {
        let id = self.graph.add_value(name, elem.stored()?, shape);
        self.graph.values[id.index()].single = self.single;
        Ok(Operand::Computed { id, elem, shape })
    }

    fn emit(&mut self, op: Op, inputs: &[&Operand], outputs: &[(Elem, Shape)]) -> Fallible<Vec<Operand>> {
        if self.graph.nodes.len() >= MAX_OPERATORS {
            return Err(limit(format!("more than {MAX_OPERATORS} nodes after import")));
        }
        let inputs = inputs.iter().map(|x| self.value(x)).collect::<Fallible<Vec<_>>>()?;
        let mut made = Vec::with_capacity(outputs.len());
        for &(elem, shape) in outputs {
            let name = self.fresh_name();
            made.push(self.computed(name, elem, shape)?);
        }
        let outputs = made.iter().map(|x| self.value(x)).collect::<Fallible<Vec<_>>>()?;
        if let Op::Primitive(Primitive::Softmax { .. }) = op {
            self.softmaxes.extend(outputs.iter().map(|&v| (v, self.graph.nodes.len())));
        }
        self.graph.add_node(self.node.clone(), op, inputs, outputs);
        Ok(made)
    }

    /// Takes results of these types and shapes from the budget; false if they may not be folded.
    fn take_bytes(&mut self, outputs: &[(Elem, Shape)]) -> bool {
        let bytes: u64 = outputs.iter().map(|(e, s)| e.bytes() * s.elements()).sum();
        if bytes <= UNCOUNTED_BYTES {
            return true;
        }
        let fits = bytes <= MAX_FOLDED.min(self.bytes_left);
        if fits {
            self.bytes_left -= bytes;
        }
        fits
    }

    /// Takes work from the budget; false if it may not be done.
    fn take_work(&mut self, work: u64) -> bool {
        let fits = work <= MAX_WORK.min(self.work_left);
        if fits {
            self.work_left -= work;
        }
        fits
    }

    /// Takes a node of a loop's body, which looks at so many elements of constants, from the budget.
    pub fn take_unrolled(&mut self, elements: u64) -> Fallible<()> {
        let left = self.unrolled_left.checked_sub(1).filter(|_| self.take_work(elements));
        self.unrolled_left = left.ok_or_else(|| {
            limit(format!(
                "the bodies of loops make more than {MAX_UNROLLED} nodes, or too much work on constants: let them run less often, or cut \
                 the network in front of the loop with --output NAME"
            ))
        })?;
        Ok(())
    }

    /// Emits (or folds) a primitive. The operands are checked against it.
    pub fn primitive(&mut self, primitive: Primitive, inputs: &[&Operand], outputs: &[(Elem, Shape)]) -> Fallible<Vec<Operand>> {
        let hosts: Option<Vec<&Host>> = inputs.iter().map(|x| x.host()).collect();
        if let Some(hosts) = hosts
            && self.take_work(fold::work(&primitive, &hosts, outputs))
            && self.take_bytes(outputs)
            && let Some(results) = fold::evaluate(&primitive, &hosts, outputs)?
        {
            return Ok(results.into_iter().map(|host| self.constant(host)).collect());
        }
        let typed = |list: &mut dyn Iterator<Item = (Elem, Shape)>| list.map(|(e, s)| Ok((e.stored()?, s))).collect::<Fallible<Vec<_>>>();
        let ins = typed(&mut inputs.iter().map(|x| (x.elem(), x.shape())))?;
        let outs = typed(&mut outputs.iter().copied())?;
        if let Err(e) = primitive.check(&ins, &outs) {
            return Err(malformed(format!("{e}: {ins:?} -> {outs:?}")));
        }
        self.emit(Op::Primitive(primitive), inputs, outputs)
    }

    /// Emits a primitive with one output.
    pub fn one(&mut self, primitive: Primitive, inputs: &[&Operand], elem: Elem, shape: Shape) -> Fallible<Operand> {
        self.primitive(primitive, inputs, &[(elem, shape)])?
            .pop()
            .ok_or_else(|| malformed("no result"))
    }

    /// Emits (or folds) a view.
    pub fn view(&mut self, view: ViewOp, x: &Operand, shape: Shape) -> Fallible<Operand> {
        let Some((layout, offset)) = view.apply(&Layout::contiguous(x.shape()), shape) else {
            return Err(malformed(format!("{view:?} of {} is not {shape}", x.shape())));
        };
        if let Some(host) = x.host()
            && (view != ViewOp::Broadcast || shape.elements() * x.elem().bytes() <= most_repeated(x.elem()))
            && self.take_bytes(&[(x.elem(), shape)])
        {
            let host = host.strided(&layout, offset)?;
            return Ok(self.constant(host));
        }
        self.view_node(view, x, shape)
    }

    fn view_node(&mut self, view: ViewOp, x: &Operand, shape: Shape) -> Fallible<Operand> {
        let repeats = view == ViewOp::Broadcast;
        let mut made = self.emit(Op::View(view), &[x], &[(x.elem(), shape)])?;
        let made = made.pop().ok_or_else(|| malformed("no result"))?;
        if let (true, Operand::Computed { id, .. }) = (repeats, &made) {
            self.repeated.insert(*id, x.clone());
        }
        Ok(made)
    }

    /// The same elements under another shape.
    pub fn reshape(&mut self, x: &Operand, shape: Shape) -> Fallible<Operand> {
        if x.shape() == shape {
            return Ok(x.clone());
        }
        if x.shape().elements() != shape.elements() {
            return Err(malformed(format!("{} cannot be reshaped to {shape}", x.shape())));
        }
        self.view(ViewOp::Reshape, x, shape)
    }

    /// Axes permuted: axis `a` of the result is axis `perm[a]` of `x`.
    pub fn transpose(&mut self, x: &Operand, perm: &[usize]) -> Fallible<Operand> {
        if perm.iter().enumerate().all(|(a, &p)| a == p) && perm.len() == x.shape().rank() {
            return Ok(x.clone());
        }
        let Some(layout) = Layout::contiguous(x.shape()).permuted(perm) else {
            return Err(malformed(format!("{perm:?} is no permutation of the axes of {}", x.shape())));
        };
        self.view(ViewOp::Transpose { perm: perm.to_vec() }, x, layout.shape)
    }

    /// `extent[a]` elements from `start[a]` on in steps of `step[a]`, per axis.
    pub fn slice(&mut self, x: &Operand, start: Vec<i64>, step: Vec<i64>, shape: Shape) -> Fallible<Operand> {
        if shape == x.shape() && start.iter().all(|&s| s == 0) && step.iter().all(|&s| s == 1) {
            return Ok(x.clone());
        }
        self.view(ViewOp::Slice { start, step }, x, shape)
    }

    /// Repeats extents of 1 and missing leading axes. A constant stays a view, so that a bias is not blown up to a feature map.
    pub fn broadcast(&mut self, x: &Operand, shape: Shape) -> Fallible<Operand> {
        if x.shape() == shape {
            return Ok(x.clone());
        }
        if broadcast(x.shape(), shape) != Some(shape) {
            return Err(malformed(format!("{} cannot be broadcast to {shape}", x.shape())));
        }
        self.view_node(ViewOp::Broadcast, x, shape)
    }

    /// Joins operands of one type along `axis`.
    pub fn concat(&mut self, parts: &[&Operand], axis: usize, shape: Shape) -> Fallible<Operand> {
        if let [only] = parts {
            return Ok((*only).clone());
        }
        let elem = parts.first().ok_or_else(|| malformed("no inputs"))?.elem();
        let hosts: Option<Vec<Host>> = parts.iter().map(|x| x.host().cloned()).collect();
        if let Some(hosts) = hosts
            && self.take_bytes(&[(elem, shape)])
        {
            let host = Host::concat(&hosts, axis, shape)?;
            return Ok(self.constant(host));
        }
        let mut made = self.emit(Op::Concat { axis }, parts, &[(elem, shape)])?;
        made.pop().ok_or_else(|| malformed("no result"))
    }

    /// A function of two operands, broadcast against each other. The result has the first one's type.
    pub fn binary(&mut self, kind: Binary, a: &Operand, b: &Operand) -> Fallible<Operand> {
        let Some(shape) = broadcast(a.shape(), b.shape()) else {
            return Err(malformed(format!("{} and {} cannot be broadcast together", a.shape(), b.shape())));
        };
        if a.elem() != b.elem() && kind != Binary::Pow {
            return Err(malformed(format!("operands of types {:?} and {:?}", a.elem(), b.elem())));
        }
        let folds = a.host().is_some() && b.host().is_some() && shape.elements() * a.elem().bytes().max(b.elem().bytes()) <= MAX_FOLDED;
        let (wide_a, wide_b) = if folds {
            (self.repeated(a, shape)?, self.repeated(b, shape)?)
        } else {
            (self.broadcast(a, shape)?, self.broadcast(b, shape)?)
        };
        self.one(Primitive::Binary(kind), &[&wide_a, &wide_b], a.elem(), shape)
    }

    /// A constant broadcast and stored as such, within the budget; else a view.
    fn repeated(&mut self, x: &Operand, shape: Shape) -> Fallible<Operand> {
        if let (Some(host), Some((layout, offset))) = (x.host(), ViewOp::Broadcast.apply(&Layout::contiguous(x.shape()), shape))
            && x.shape() != shape
            && self.take_bytes(&[(x.elem(), shape)])
        {
            let host = host.strided(&layout, offset)?;
            return Ok(self.constant(host));
        }
        self.broadcast(x, shape)
    }

    /// A vector `[C]` along the channel axis (axis 1) of tensors of rank `rank`: `[1, C, 1..]`.
    pub fn per_channel(&mut self, x: &Operand, rank: usize) -> Fallible<Operand> {
        let mut dims = [1; MAX_RANK];
        dims[1] = x.shape().elements() as u32;
        let shape = Shape::new(&dims[..rank.max(2)]).ok_or_else(|| malformed("too many channels"))?;
        self.reshape(x, shape)
    }
}
