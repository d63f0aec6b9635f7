//! Lowers one network: walks its units in order, finds each value's place, writes down the operators.

mod views;

use super::constants::{Constants, weight_order};
use super::elide::{Home, Root, homes};
use super::group::{Unit, units};
use super::layout::{LONG_COPY, apart, convolves, in_pieces, is_spatial, natural, reads_pictures, rows_apart, scatters_rows, splits_rows};
use super::{Buffer, LowerError, Lowered, Room};
use crate::ids::{BufferId, OperatorId, TenantId};
use crate::limits::{MAX_BUFFERS, MAX_BYTES, MAX_NAME, MAX_OPERATORS};
use crate::plan::format::{ArithmeticClass, Call, Family, Kernel, Operand, Operator, Port, Role, Rounding, Tactic, Tenant, View};
use crate::plan::tactic::{pictures, pooled, prologue};
use crate::planner::attach::{Attached, ResultOf};
use crate::planner::graph::{Graph, Named, Node, Op, ValueId};
use crate::planner::passes::PassSet;
use crate::planner::strided::{Strided, constant, gather, nested_as, producers};
use crate::primitive::{Primitive, Region};
use crate::tensor::{DType, Layout};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Appends `tenant`'s network to `lowered`, with its ports.
pub fn lower(lowered: &mut Lowered, mut tenant: Tenant, attached: &Attached, set: PassSet) -> Result<(), LowerError> {
    let graph = &attached.graph;
    let id = TenantId::from_index(lowered.tenants.len()).ok_or_else(|| limit(graph, "the number of tenants"))?;
    let units = units(graph, set);
    let natural = natural(graph, &units, set);
    let homes = homes(graph, &units, &natural, set.has(PassSet::ELIDE));
    let mut network = Network {
        graph,
        set,
        tenant: id,
        producers: producers(graph),
        constants: Constants::new(id),
        places: vec![None; graph.values.len()],
        roots: BTreeMap::new(),
        rearranged: BTreeMap::new(),
        anew: BTreeMap::new(),
        natural,
        homes,
        lowered,
    };
    tenant.inputs = network.inputs(attached)?;
    for unit in &units {
        match unit {
            Unit::View(node) => network.view(&graph.nodes[*node])?,
            Unit::Concat(node) => network.concat(&graph.nodes[*node])?,
            Unit::Operator(nodes) => network.operator(nodes)?,
        }
    }
    let (ports, writers) = network.outputs(attached)?;
    tenant.outputs = ports;
    lowered.tenants.push(tenant);
    lowered.writers.push(writers);
    Ok(())
}

fn limit(graph: &Graph, what: &'static str) -> LowerError {
    LowerError::Limit {
        graph: graph.name.clone(),
        what,
    }
}

/// The operators that write a value.
type Writers = Arc<BTreeSet<OperatorId>>;

/// Where a value lies, and who wrote it there.
#[derive(Clone, Debug)]
struct Place {
    view: View,
    writers: Writers,
}

impl Place {
    fn strided(&self) -> Strided {
        Strided {
            origin: self.view.origin as i64,
            layout: self.view.layout,
        }
    }
}

struct Network<'a> {
    graph: &'a Graph,
    set: PassSet,
    tenant: TenantId,
    producers: Vec<Option<usize>>,
    constants: Constants,
    places: Vec<Option<Place>>,
    /// Buffers of storage that several values share, by [`Root`].
    roots: BTreeMap<(bool, usize), BufferId>,
    /// Copies made for readers that need another order, by value.
    rearranged: BTreeMap<ValueId, Place>,
    /// Copies made for views that strides cannot say of a value, as the value's own elements.
    anew: BTreeMap<ValueId, Vec<Place>>,
    natural: Vec<Layout>,
    homes: Vec<Option<Home>>,
    lowered: &'a mut Lowered,
}

impl Network<'_> {
    fn limit(&self, what: &'static str) -> LowerError {
        limit(self.graph, what)
    }

    fn buffer(&mut self, room: Room, elements: u64, dtype: DType) -> Result<BufferId, LowerError> {
        let bytes = elements.checked_mul(dtype.bytes()).filter(|&b| b <= MAX_BYTES);
        let bytes = bytes.ok_or_else(|| self.limit("the size of a tensor"))?;
        let id = BufferId::from_index(self.lowered.buffers.len()).filter(|id| id.index() < MAX_BUFFERS);
        self.lowered.buffers.push(Buffer { room, bytes });
        id.ok_or_else(|| self.limit("the number of buffers"))
    }

    fn seen(&self, buffer: BufferId, dtype: DType, at: Strided) -> Result<View, LowerError> {
        // An empty tensor has no element to be anywhere, and a view of something starts inside its buffer.
        let origin = if at.layout.shape.elements() == 0 { 0 } else { at.origin };
        Ok(View {
            buffer,
            origin: u64::try_from(origin).map_err(|_| self.limit("the offset of a view"))?,
            dtype,
            layout: at.layout,
        })
    }

    fn inputs(&mut self, attached: &Attached) -> Result<Vec<Port>, LowerError> {
        let mut ports = Vec::new();
        for named in &self.graph.inputs {
            if let Some(result) = attached.results.get(&named.value) {
                self.result(named, *result)?;
                continue;
            }
            let value = self.graph.value(named.value);
            let room = attached
                .cameras
                .get(&named.value)
                .map_or(Room::Input, |camera| Room::Camera(*camera));
            let buffer = self.buffer(room, value.shape.elements(), value.dtype)?;
            let view = self.seen(buffer, value.dtype, Strided::whole(Layout::contiguous(value.shape)))?;
            self.settle(named.value, view, Arc::default());
            if room == Room::Input {
                ports.push(Port {
                    name: named.name.clone(),
                    image: 0,
                    role: Role::Tensor,
                    view,
                    labels: Vec::new(),
                    fit: None,
                    widened: named.widened,
                });
            }
        }
        Ok(ports)
    }

    /// An input that is another tenant's result: read where it lies, after its writers.
    fn result(&mut self, named: &Named, of: ResultOf) -> Result<(), LowerError> {
        let (tenant, port) = (of.tenant.index(), of.port);
        let view = self.lowered.tenants.get(tenant).and_then(|t| t.outputs.get(port)).map(|p| p.view);
        let writers = self.lowered.writers.get(tenant).and_then(|w| w.get(port)).cloned();
        let (Some(view), Some(writers)) = (view, writers) else {
            return Err(LowerError::Source {
                graph: self.graph.name.clone(),
                input: named.name.clone(),
            });
        };
        self.settle(named.value, view, writers);
        Ok(())
    }

    /// The results, and who writes each.
    fn outputs(&mut self, attached: &Attached) -> Result<(Vec<Port>, Vec<Writers>), LowerError> {
        let (mut ports, mut writers) = (Vec::new(), Vec::new());
        for (index, (named, spec)) in self.graph.outputs.iter().zip(&attached.ports).enumerate() {
            let value = self.graph.value(named.value);
            let born_here = self.roots.get(&(true, index)).copied();
            let place = self.place(named.value)?;
            let (view, written_by) = if born_here == Some(place.view.buffer) {
                (place.view, place.writers)
            } else {
                let buffer = self.buffer(Room::Output, value.shape.elements(), value.dtype)?;
                let view = self.seen(buffer, value.dtype, Strided::whole(Layout::contiguous(value.shape)))?;
                (view, self.copy(&value.name, &place, view)?)
            };
            writers.push(written_by);
            ports.push(Port {
                name: named.name.clone(),
                image: spec.image,
                role: spec.role,
                view,
                labels: spec.labels.clone(),
                fit: spec.fit,
                widened: named.widened,
            });
        }
        Ok((ports, writers))
    }

    fn settle(&mut self, value: ValueId, view: View, writers: Writers) {
        self.places[value.index()] = Some(Place { view, writers });
    }

    /// Where `value` lies; constants are stored on the way, in C order.
    fn place(&mut self, value: ValueId) -> Result<Place, LowerError> {
        if let Some(place) = &self.places[value.index()] {
            return Ok(place.clone());
        }
        // Values come before their readers in a verified graph, so what has no place yet is a constant.
        let it = self.graph.value(value);
        let data = it.data.clone().ok_or_else(|| LowerError::View {
            graph: self.graph.name.clone(),
            node: it.name.clone(),
        })?;
        let view = self.constants.store(self.lowered, &data, Layout::contiguous(it.shape));
        let view = view.ok_or_else(|| self.limit("the number of weight sections"))?;
        self.settle(value, view, Arc::default());
        self.place(value)
    }

    /// Storage for a value that is about to be written: its home, or a buffer of its own.
    fn storage(&mut self, value: ValueId) -> Result<View, LowerError> {
        let dtype = self.graph.value(value).dtype;
        let Some(home) = self.homes[value.index()] else {
            return self.fresh(self.natural[value.index()], dtype);
        };
        let (key, room) = match home.root {
            Root::Arena { id } => ((false, id), Room::Arena),
            Root::Port { index } => ((true, index), Room::Output),
        };
        let buffer = match self.roots.get(&key) {
            Some(buffer) => *buffer,
            None => {
                let elements = match home.root {
                    Root::Arena { .. } => self.reach(&self.natural[home.owner.index()])?,
                    Root::Port { .. } => self.graph.value(home.owner).shape.elements(),
                };
                let buffer = self.buffer(room, elements, dtype)?;
                self.roots.insert(key, buffer);
                buffer
            }
        };
        self.seen(buffer, dtype, home.at)
    }

    fn fresh(&mut self, layout: Layout, dtype: DType) -> Result<View, LowerError> {
        let buffer = self.buffer(Room::Arena, self.reach(&layout)?, dtype)?;
        self.seen(buffer, dtype, Strided::whole(layout))
    }

    fn reach(&self, layout: &Layout) -> Result<u64, LowerError> {
        layout.reach().ok_or_else(|| self.limit("the size of a tensor"))
    }

    /// False for a convolution with maxima behind it that no kernel takes: its input does not lie so.
    fn keeps_maxima(&mut self, nodes: &[usize]) -> Result<bool, LowerError> {
        let graph = self.graph;
        let pools = |&n: &usize| matches!(graph.nodes[n].op, Op::Primitive(Primitive::Pool { .. }));
        if nodes.len() == 1 || !nodes.last().is_some_and(pools) {
            return Ok(true);
        }
        let x = graph.nodes[nodes[0]].inputs[0];
        Ok(pooled::reads(&self.place(x)?.view))
    }

    /// How many of an operator's nodes are a prologue that no kernel takes: its input or factors do not lie so, or its constants
    /// do not belong to channels.
    fn refused_prologue(&mut self, nodes: &[usize]) -> Result<usize, LowerError> {
        let graph = self.graph;
        let conv = |&n: &usize| matches!(graph.nodes[n].op, Op::Primitive(Primitive::Conv { .. }));
        let binary = matches!(graph.nodes[nodes[0]].op, Op::Primitive(Primitive::Binary(_)));
        let behind = |calls: usize| binary && nodes.get(calls).is_some_and(conv);
        if behind(prologue::GATE_CALLS) {
            let mul = &graph.nodes[nodes[0]];
            let shape = graph.value(mul.outputs[0]).shape;
            let [a, b] = [self.place(mul.inputs[0])?.view, self.place(mul.inputs[1])?.view];
            let pixels = if prologue::gates(&b, shape) {
                Some(a)
            } else {
                prologue::gates(&a, shape).then_some(b)
            };
            return Ok(match pixels.filter(prologue::reads) {
                Some(_) => 0,
                None => prologue::GATE_CALLS,
            });
        }
        if !behind(prologue::AFFINE_CALLS) {
            return Ok(0);
        }
        let constants = nodes[..2].iter().flat_map(|&n| &graph.nodes[n].inputs);
        let mut constants = constants.filter_map(|&v| constant(graph, &self.producers, v));
        let by_channel = constants.all(|(_, at)| prologue::varies_by_channel(&at.layout));
        let inputs = graph.nodes[nodes[0]].inputs.iter();
        let computed = inputs.copied().find(|&v| constant(graph, &self.producers, v).is_none());
        let reads = match computed.filter(|_| by_channel) {
            Some(x) => prologue::reads(&self.place(x)?.view),
            None => false,
        };
        Ok(if reads { 0 } else { prologue::AFFINE_CALLS })
    }

    /// False for a convolution with the copy of its picture that not all kernels can read as it is.
    fn keeps_picture(&mut self, nodes: &[usize]) -> Result<bool, LowerError> {
        let graph = self.graph;
        let copies = |n: usize| graph.nodes[n].op == Op::Primitive(Primitive::Copy);
        let (&[first, _, ..], true) = (nodes, copies(nodes[0])) else {
            return Ok(true);
        };
        let made = nodes.iter().flat_map(|&n| &graph.nodes[n].outputs);
        let halves = made.into_iter().all(|&v| graph.value(v).dtype == DType::F16);
        Ok(halves && pictures::reads(&self.place(graph.nodes[first].inputs[0])?.view))
    }

    fn operator(&mut self, nodes: &[usize]) -> Result<(), LowerError> {
        let graph = self.graph;
        let Some((&last, _)) = nodes.split_last() else { return Ok(()) };
        let refused = self.refused_prologue(nodes)?;
        if refused > 0 {
            let (prologue, product) = nodes.split_at(refused);
            self.operator(prologue)?;
            return self.operator(product);
        }
        if !self.keeps_maxima(nodes)? {
            let (product, pool) = nodes.split_at(nodes.len() - 1);
            self.operator(product)?;
            return self.operator(pool);
        }
        if !self.keeps_picture(nodes)? {
            let (copy, product) = nodes.split_at(1);
            self.operator(copy)?;
            return self.operator(product);
        }
        let mut outputs = Vec::new();
        for &value in &graph.nodes[last].outputs {
            outputs.push(self.storage(value)?);
        }
        let mut calls = Vec::with_capacity(nodes.len());
        let mut needs = BTreeSet::new();
        let mut inner: BTreeMap<ValueId, u8> = BTreeMap::new();
        for (position, &index) in nodes.iter().enumerate() {
            let node = &graph.nodes[index];
            let Op::Primitive(primitive) = node.op else { continue };
            let mut inputs = Vec::with_capacity(node.inputs.len());
            for (k, &value) in node.inputs.iter().enumerate() {
                inputs.push(match inner.get(&value) {
                    Some(&call) => Operand::Inner(call),
                    None => {
                        let place = match k == 0 && self.is_pair(node) {
                            true => self.place(value)?,
                            false => self.operand(&primitive, k, value, &outputs[0].layout)?,
                        };
                        needs.extend(place.writers.iter());
                        Operand::View(place.view)
                    }
                });
            }
            let made = graph.value(node.outputs[0]);
            inner.insert(node.outputs[0], position as u8);
            calls.push(Call {
                primitive,
                inputs,
                dtype: made.dtype,
                shape: made.shape,
                rounding: Rounding::Rounded,
            });
        }
        let writers = if outputs.iter().all(|v| v.layout.shape.elements() == 0) {
            Arc::default()
        } else {
            self.emit(&graph.nodes[last].name, calls, outputs.clone(), needs)?
        };
        for (&value, &view) in graph.nodes[last].outputs.iter().zip(&outputs) {
            self.settle(value, view, writers.clone());
        }
        Ok(())
    }

    /// A product of two computed matrices of halves, which the target's kernels read in any order.
    fn is_pair(&self, node: &Node) -> bool {
        let computed = |v: &ValueId| self.graph.value(*v).dtype == DType::F16 && constant(self.graph, &self.producers, *v).is_none();
        node.op == Op::Primitive(Primitive::MatMul) && self.set.has(PassSet::PAIRS) && node.inputs.iter().take(2).all(computed)
    }

    /// Input `k` of `primitive`, in an order its kernels take; `result` is how the operator's output is stored.
    fn operand(&mut self, primitive: &Primitive, k: usize, value: ValueId, result: &Layout) -> Result<Place, LowerError> {
        if let Some((data, at)) = constant(self.graph, &self.producers, value) {
            let shape = at.layout.shape;
            let repeats = (0..shape.rank()).any(|a| shape.dim(a) > 1 && at.layout.stride(a) == 0);
            let same_shape = shape == result.shape && matches!(primitive, Primitive::Binary(_));
            let order = weight_order(primitive, k, &at.layout).or(same_shape.then(|| nested_as(shape, result)));
            if let (Some(order), false) = (order, repeats)
                && let Some(data) = gather(&data, &at)
            {
                let view = self.constants.store(self.lowered, &data, order);
                let view = view.ok_or_else(|| self.limit("the number of weight sections"))?;
                return Ok(Place {
                    view,
                    writers: Arc::default(),
                });
            }
            return self.place(value);
        }
        let place = self.place(value)?;
        let layout = place.view.layout;
        let shape = layout.shape;
        // Rows of a product by a constant, on targets whose kernels bring them in pieces.
        let product = *primitive == Primitive::MatMul && place.view.dtype == DType::F16 && self.set.has(PassSet::PAIRS);
        // Kernels walk pixels channel by channel, and the rows of a matrix product along K.
        let side_by_side = match primitive {
            p if is_spatial(p) && k == 0 && !reads_pictures(p) => 1,
            Primitive::MatMul if k == 0 => shape.rank() - 1,
            Primitive::Normalise { axis, .. } | Primitive::RmsNormalise { axis, .. }
                if k == 0 && self.orders_rows(&place.view, usize::from(*axis)) =>
            {
                usize::from(*axis)
            }
            Primitive::Binary(_) => return Ok(self.as_result(value, place, result)),
            _ => return Ok(place),
        };
        let wanted = |view: &View| {
            let run = shape.dim(side_by_side) <= 1 || view.layout.stride(side_by_side) == 1;
            run && !self.scatters_taps(primitive, view) && !(product && splits_rows(view, self.set))
        };
        if wanted(&place.view) || !self.set.has(PassSet::LAYOUT) || shape.elements() == 0 {
            return Ok(place);
        }
        if let Some(copy) = self.rearranged.get(&value).filter(|copy| wanted(&copy.view)) {
            return Ok(copy.clone());
        }
        let order = match primitive {
            Primitive::MatMul if product => rows_apart(shape).unwrap_or(Layout::contiguous(shape)),
            Primitive::MatMul | Primitive::Normalise { .. } | Primitive::RmsNormalise { .. } => Layout::contiguous(shape),
            p if convolves(p, place.view.dtype, shape) => apart(shape).unwrap_or(Layout::channels_last(shape)),
            _ => Layout::channels_last(shape),
        };
        let target = self.fresh(order, place.view.dtype)?;
        let name = self.graph.value(value).name.clone();
        let writers = self.copy(&name, &place, target)?;
        let copy = Place { view: target, writers };
        self.rearranged.insert(value, copy.clone());
        Ok(copy)
    }

    /// Pixels that the target's kernels read channel by channel as they lie: parts of a picture's channels that begin between whole
    /// pieces, under a window of several taps, which would read them once for each, or many of them.
    fn scatters_taps(&self, primitive: &Primitive, view: &View) -> bool {
        let Primitive::Conv { window, .. } = primitive else { return false };
        let read = convolves(primitive, view.dtype, view.layout.shape) && (window.taps() > 1 || view.layout.shape.dim(1) >= LONG_COPY);
        read && self.set.has(PassSet::PAIRS) && !in_pieces(view)
    }

    /// Rows of halves that the target's kernels read one by one as they lie.
    fn orders_rows(&self, view: &View, axis: usize) -> bool {
        view.dtype == DType::F16 && self.set.has(PassSet::PAIRS) && scatters_rows(&view.layout, axis)
    }

    /// Where a function reads `value`, which lies at `place`: in a copy made for another reader, if that alone lies like the result.
    fn as_result(&self, value: ValueId, place: Place, result: &Layout) -> Place {
        let alike = |p: &Place| p.view.layout == nested_as(p.view.layout.shape, result);
        match self.rearranged.get(&value) {
            Some(copy) if !alike(&place) && alike(copy) => copy.clone(),
            _ => place,
        }
    }

    /// An operator that copies `from` to `target`; none if there is nothing to copy.
    fn copy(&mut self, name: &str, from: &Place, target: View) -> Result<Writers, LowerError> {
        if target.layout.shape.elements() == 0 {
            return Ok(Arc::default());
        }
        let call = Call {
            primitive: Primitive::Copy,
            inputs: vec![Operand::View(from.view)],
            dtype: target.dtype,
            shape: target.layout.shape,
            rounding: Rounding::Rounded,
        };
        self.emit(name, vec![call], vec![target], (*from.writers).clone())
    }

    fn emit(&mut self, name: &str, calls: Vec<Call>, outputs: Vec<View>, needs: BTreeSet<OperatorId>) -> Result<Writers, LowerError> {
        let id = OperatorId::from_index(self.lowered.operators.len()).filter(|id| id.index() < MAX_OPERATORS);
        let id = id.ok_or_else(|| self.limit("the number of operators"))?;
        let whole = Region::whole(outputs[0].layout.shape);
        self.lowered.operators.push(Operator {
            tenant: self.tenant,
            name: shortened(name),
            calls,
            outputs,
            class: ArithmeticClass {
                family: Family::Fma,
                split_k: 1,
            },
            tactic: Tactic::of(Kernel::Generic),
            width: 0,
            chunks: vec![whole],
        });
        self.lowered.needs.push(needs.into_iter().collect());
        Ok(Arc::new(BTreeSet::from([id])))
    }
}

/// The name, cut at a character boundary to what a plan may hold.
fn shortened(name: &str) -> String {
    let end = (0..=name.len().min(MAX_NAME)).rev().find(|&i| name.is_char_boundary(i));
    name[..end.unwrap_or(0)].to_owned()
}
