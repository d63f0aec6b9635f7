//! Which nodes run as one operator: a product or an elementwise function, and the elementwise functions that follow it; the
//! scale, shift and relu of a product's input channels before it, or their factors, or the copy of its picture; the copy that
//! makes a result of a matrix product; and squeeze and excitation.

use super::tails;
use crate::limits::MAX_PRIMITIVES;
use crate::plan::tactic::squeeze::is_form;
use crate::plan::tactic::{conv_warps, pictures, pooled, prologue, resized, takes_functions};
use crate::planner::graph::{Graph, Node, Op, ValueId};
use crate::planner::passes::PassSet;
use crate::planner::strided;
use crate::primitive::{Binary, Primitive, Resize, Unary};
use crate::tensor::DType;

/// Most elements whose conversion to a result the functions that make them do: more are turned by a kernel for that.
const FEW: u64 = 1 << 16;

/// A step of lowering, in an order in which every input is made before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nodes that become one operator, each but the last read by a later one of them alone.
    Operator(Vec<usize>),
    /// A view.
    View(usize),
    /// A concatenation.
    Concat(usize),
}

/// Cuts the graph into units.
///
/// A node joins the operator that made one of its inputs if that value is read nowhere else, has the node's own shape, and
/// both are of the kinds that fuse: any elementwise function behind a convolution, a matrix product, a normalisation, a
/// gathering or an elementwise function; behind large products, on boards whose kernels say so, those that [`tails`] names. The operator stands where its last node stands, so whatever else its members read is
/// made before.
pub fn units(graph: &Graph, set: PassSet) -> Vec<Unit> {
    let mut uses = vec![0u32; graph.values.len()];
    let read = graph
        .nodes
        .iter()
        .flat_map(|n| &n.inputs)
        .chain(graph.outputs.iter().map(|n| &n.value));
    read.for_each(|v| uses[v.index()] += 1);
    let producers = strided::producers(graph);

    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut group_of: Vec<Option<usize>> = vec![None; graph.nodes.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        let Op::Primitive(primitive) = &node.op else { continue };
        let mut joined = None;
        if set.has(PassSet::GROUP) && is_tail(primitive) {
            // Of two inputs that could be joined the later made one is the longer chain in practice.
            let candidate = |v: &ValueId| {
                let producer = producers[v.index()]?;
                let group = group_of[producer]?;
                let fits = uses[v.index()] == 1
                    && members[group].last() == Some(&producer)
                    && members[group].len() < MAX_PRIMITIVES
                    && graph.values[v.index()].shape == graph.values[node.outputs[0].index()].shape
                    && (is_head(graph, members[group][0]) || members[group].len() > 1)
                    && (!set.has(PassSet::SHORT_TAILS) || tails::stores(graph, &producers, &members[group], index));
                fits.then_some((producer, group))
            };
            joined = node.inputs.iter().filter_map(candidate).max().map(|(_, group)| group);
        }
        if set.has(PassSet::GROUP) && set.has(PassSet::LAYOUT) {
            joined = joined.or_else(|| {
                let (last, calls) = prologue_of(graph, &producers, &uses, node)?;
                group_of[last].filter(|&g| members[g].len() == calls)
            });
            let copy = || picture_of(graph, &producers, &uses, node);
            joined = joined.or_else(|| copy().and_then(|last| group_of[last]).filter(|&g| members[g].len() == 1));
        }
        if set.has(PassSet::GROUP) {
            joined = joined.or_else(|| {
                let product = copied_product(graph, &producers, &uses, node)?;
                let group = group_of[product]?;
                let fits = members[group].last() == Some(&product) && members[group].len() < MAX_PRIMITIVES;
                let head = members[group][0];
                let stores = is_matrix_product(graph, &producers, head)
                    || set.has(PassSet::LAYOUT) && is_resize(graph, head, node)
                    || set.has(PassSet::SPREAD) && are_few(graph, &members[group]);
                (fits && stores).then_some(group)
            });
        }
        let group = joined.unwrap_or_else(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        members[group].push(index);
        group_of[index] = Some(group);
    }

    if set.has(PassSet::GROUP) && set.has(PassSet::LAYOUT) && set.has(PassSet::POOLED) {
        pool(graph, &producers, &uses, &mut members, &group_of);
    }
    if set.has(PassSet::GROUP) && set.has(PassSet::MEETING) {
        meet(graph, &mut members, &mut group_of);
    }
    if set.has(PassSet::GROUP) {
        squeeze(graph, &producers, &uses, &mut members, &group_of);
    }

    let mut units = Vec::new();
    for (index, node) in graph.nodes.iter().enumerate() {
        match (&node.op, group_of[index]) {
            (Op::View(_), _) => units.push(Unit::View(index)),
            (Op::Concat { .. }, _) => units.push(Unit::Concat(index)),
            (Op::Primitive(_), Some(group)) if members[group].last() == Some(&index) => {
                units.push(Unit::Operator(std::mem::take(&mut members[group])));
            }
            (Op::Primitive(_), _) => {}
        }
    }
    units
}

/// Joins chains of elementwise functions where they meet: a chain whose result another alone reads, as often as it likes, is computed
/// with it. The groups in front are left empty.
fn meet(graph: &Graph, members: &mut [Vec<usize>], group_of: &mut [Option<usize>]) {
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
    for (index, node) in graph.nodes.iter().enumerate() {
        node.inputs.iter().for_each(|v| readers[v.index()].push(index));
    }
    let elementwise = |nodes: &[usize]| nodes.iter().all(|&n| matches!(&graph.nodes[n].op, Op::Primitive(p) if is_tail(p)));
    // A conversion may end what functions make.
    let functions = |nodes: &[usize]| match nodes {
        [first @ .., last] if graph.nodes[*last].op == Op::Primitive(Primitive::Copy) => !first.is_empty() && elementwise(first),
        _ => elementwise(nodes),
    };
    // From the last chain on, so that one that was joined takes those in front of it.
    for front in (0..members.len()).rev() {
        let Some(&last) = members[front].last() else { continue };
        let made = graph.nodes[last].outputs[0];
        let Some(&reader) = readers[made.index()].first() else { continue };
        let Some(behind) = group_of[reader].filter(|&g| g != front) else {
            continue;
        };
        let alone = readers[made.index()].iter().all(|&r| group_of[r] == Some(behind)) && graph.outputs.iter().all(|o| o.value != made);
        let fits = members[front].len() + members[behind].len() <= MAX_PRIMITIVES;
        let alike = members[behind]
            .iter()
            .all(|&n| graph.value(graph.nodes[n].outputs[0]).shape == graph.value(made).shape);
        if alone && fits && alike && elementwise(&members[front]) && functions(&members[behind]) {
            let joined = std::mem::take(&mut members[front]);
            joined.iter().for_each(|&n| group_of[n] = Some(behind));
            members[behind].extend(joined);
            members[behind].sort_unstable();
        }
    }
}

/// Joins a convolution of halves and the maxima of its results, which alone read them and are read by convolutions alone. The
/// group in front is left empty.
fn pool(graph: &Graph, producers: &[Option<usize>], uses: &[u32], members: &mut [Vec<usize>], group_of: &[Option<usize>]) {
    let read_by_convolutions = |value: ValueId| {
        let convolves = |n: &Node| matches!(n.op, Op::Primitive(Primitive::Conv { .. })) && n.inputs.first() == Some(&value);
        let readers = graph.nodes.iter().filter(|n| n.inputs.contains(&value)).count();
        readers > 0 && readers == graph.nodes.iter().filter(|n| convolves(n)).count() && !graph.is_result(value)
    };
    for last in 0..members.len() {
        let &[pool] = members[last].as_slice() else { continue };
        let node = &graph.nodes[pool];
        let &[value] = node.inputs.as_slice() else { continue };
        let &[pooled] = node.outputs.as_slice() else { continue };
        let front = producers[value.index()]
            .and_then(|p| group_of[p])
            .filter(|_| uses[value.index()] == 1);
        let Some(front) = front.filter(|&f| f != last) else { continue };
        if is_pooled(graph, producers, &members[front], pool) && read_by_convolutions(pooled) {
            let mut nodes = std::mem::take(&mut members[front]);
            nodes.push(pool);
            members[last] = nodes;
        }
    }
}

/// True for a convolution with its function and a pool of the form that `plan::tactic::pooled` takes: halves, with constant
/// weights and bias.
fn is_pooled(graph: &Graph, producers: &[Option<usize>], before: &[usize], pool: usize) -> bool {
    let primitive = |n: usize| match &graph.nodes[n].op {
        Op::Primitive(primitive) => Some(primitive),
        _ => None,
    };
    let (conv, function) = match *before {
        [conv] => (conv, None),
        [conv, function] => (conv, primitive(function)),
        _ => return false,
    };
    let (Some(first), Some(last)) = (primitive(conv), primitive(pool)) else {
        return false;
    };
    let value = |v: &ValueId| &graph.values[v.index()];
    let nodes = &graph.nodes;
    let shapes = [&nodes[conv].inputs[0], &nodes[conv].outputs[0], &nodes[pool].outputs[0]].map(|v| value(v).shape);
    let touched = before
        .iter()
        .chain([&pool])
        .flat_map(|&n| &nodes[n].outputs)
        .chain(&nodes[conv].inputs[..1]);
    let constants = nodes[conv].inputs.iter().skip(1);
    pooled::is_form(first, function, last, shapes)
        && touched.clone().all(|v| value(v).dtype == DType::F16)
        && constants.clone().all(|v| strided::constant(graph, producers, *v).is_some())
}

/// Joins squeeze and excitation of halves, which GPUs run as one operator: the mean of a picture and the two layers with their
/// functions, each read by the next alone. The groups in front are left empty.
fn squeeze(graph: &Graph, producers: &[Option<usize>], uses: &[u32], members: &mut [Vec<usize>], group_of: &[Option<usize>]) {
    // The group whose last value is the first input of a node that alone reads it.
    let before = |node: usize, members: &[Vec<usize>]| {
        let value = graph.nodes[node].inputs.first()?.index();
        let producer = producers[value]?;
        let group = group_of[producer]?;
        (uses[value] == 1 && members[group].last() == Some(&producer)).then_some(group)
    };
    for last in 0..members.len() {
        let &[layer, _] = members[last].as_slice() else { continue };
        let Some(middle) = before(layer, members) else { continue };
        let &[layer, _] = members[middle].as_slice() else { continue };
        let Some(front) = before(layer, members) else { continue };
        let nodes = [front, middle, last].map(|g| members[g].as_slice()).concat();
        if is_squeeze(graph, producers, &nodes) {
            members[front].clear();
            members[middle].clear();
            members[last] = nodes;
        }
    }
}

/// True for nodes of the form that `plan::tactic::squeeze` takes: halves, with constant weights and biases.
fn is_squeeze(graph: &Graph, producers: &[Option<usize>], nodes: &[usize]) -> bool {
    let primitive = |&n: &usize| match &graph.nodes[n].op {
        Op::Primitive(primitive) => Some(primitive),
        _ => None,
    };
    let Some(primitives) = nodes.iter().map(primitive).collect::<Option<Vec<_>>>() else {
        return false;
    };
    let value = |v: &crate::planner::graph::ValueId| &graph.values[v.index()];
    let shapes = [&graph.nodes[nodes[0]].inputs, &graph.nodes[nodes[0]].outputs].map(|v| value(&v[0]).shape);
    let Some(hidden) = nodes.get(1).map(|&n| value(&graph.nodes[n].outputs[0]).shape) else {
        return false;
    };
    let touched = nodes
        .iter()
        .flat_map(|&n| &graph.nodes[n].outputs)
        .chain(&graph.nodes[nodes[0]].inputs);
    let constants = nodes.iter().flat_map(|&n| graph.nodes[n].inputs.iter().skip(1));
    is_form(&primitives, [shapes[0], shapes[1], hidden])
        && touched.clone().all(|v| value(v).dtype == DType::F16)
        && constants.clone().all(|v| strided::constant(graph, producers, *v).is_some())
}

/// The node that ends the prologue of a convolution in f16, and the nodes that the prologue has.
fn prologue_of(graph: &Graph, producers: &[Option<usize>], uses: &[u32], node: &Node) -> Option<(usize, usize)> {
    let Op::Primitive(Primitive::Conv { window, groups }) = &node.op else {
        return None;
    };
    let constant = |v: ValueId| strided::constant(graph, producers, v).is_some();
    if !prologue::serves(window, *groups) || !node.inputs[1..].iter().all(|&v| constant(v)) {
        return None;
    }
    let made = |v: ValueId, wanted: Primitive| {
        let index = producers[v.index()].filter(|_| uses[v.index()] == 1 && graph.value(v).dtype == DType::F16)?;
        (graph.nodes[index].op == Op::Primitive(wanted)).then_some(index)
    };
    // Of the two values that a function joins, the one that is computed.
    let computed = |index: usize| match graph.nodes[index].inputs[..] {
        [a, b] if constant(b) && !constant(a) => Some(a),
        [a, b] if constant(a) && !constant(b) => Some(b),
        _ => None,
    };
    if let Some(mul) = made(node.inputs[0], Primitive::Binary(Binary::Mul)) {
        return is_gate(graph, producers, &graph.nodes[mul], constant).then_some((mul, prologue::GATE_CALLS));
    }
    let relu = made(node.inputs[0], Primitive::Unary(Unary::Relu))?;
    let add = made(graph.nodes[relu].inputs[0], Primitive::Binary(Binary::Add))?;
    let mul = made(computed(add)?, Primitive::Binary(Binary::Mul))?;
    let x = computed(mul)?;
    let same_shape = graph.value(x).shape == graph.value(node.inputs[0]).shape;
    (same_shape && graph.value(x).dtype == DType::F16).then_some((relu, prologue::AFFINE_CALLS))
}

/// True for a product of halves: pixels, and a computed factor for each channel of a sample.
fn is_gate(graph: &Graph, producers: &[Option<usize>], mul: &Node, constant: impl Fn(ValueId) -> bool) -> bool {
    let [a, b] = mul.inputs[..] else { return false };
    let shape = graph.value(mul.outputs[0]).shape;
    let halves = |v: ValueId| graph.value(v).dtype == DType::F16 && graph.value(v).shape == shape && !constant(v);
    // A view that repeats one pixel.
    let factors = |v: ValueId| {
        let node = producers[v.index()].map(|n| &graph.nodes[n]);
        let view = node.filter(|n| matches!(n.op, Op::View(_)));
        view.is_some_and(|n| graph.value(n.inputs[0]).shape.dims() == [shape.dim(0), shape.dim(1), 1, 1])
    };
    conv_warps::gated(shape) && halves(a) && halves(b) && factors(a) != factors(b)
}

/// The copy that turns a picture round or rounds it to f16 for a convolution in f16 alone.
fn picture_of(graph: &Graph, producers: &[Option<usize>], uses: &[u32], node: &Node) -> Option<usize> {
    let Op::Primitive(Primitive::Conv { window, groups }) = &node.op else {
        return None;
    };
    let x = node.inputs[0];
    let value = graph.value(x);
    let constants = node.inputs[1..].iter().all(|&v| strided::constant(graph, producers, v).is_some());
    let picture = value.shape.rank() == 4 && pictures::serves(window, *groups, value.shape.dim(1));
    let copy = producers[x.index()].filter(|_| uses[x.index()] == 1 && value.dtype == DType::F16)?;
    let copies = graph.nodes[copy].op == Op::Primitive(Primitive::Copy);
    let halves = node.outputs.iter().all(|&v| graph.value(v).dtype == DType::F16);
    (constants && picture && copies && halves).then_some(copy)
}

/// The node whose halves alone a copy makes a result of, as they are or widened: what makes them can store them so.
fn copied_product(graph: &Graph, producers: &[Option<usize>], uses: &[u32], node: &Node) -> Option<usize> {
    let (&[x], &[y]) = (node.inputs.as_slice(), node.outputs.as_slice()) else {
        return None;
    };
    let keeps = graph.value(x).dtype == DType::F16 && graph.value(y).dtype.is_float();
    let copies = node.op == Op::Primitive(Primitive::Copy) && keeps;
    let alone = uses[x.index()] == 1 && graph.value(x).shape == graph.value(y).shape && graph.is_of_result(y);
    producers[x.index()].filter(|_| copies && alone)
}

/// Functions of few elements, which are stored in any order as fast.
fn are_few(graph: &Graph, members: &[usize]) -> bool {
    let function = |&n: &usize| {
        let few = graph.value(graph.nodes[n].outputs[0]).shape.elements() <= FEW;
        few && matches!(&graph.nodes[n].op, Op::Primitive(p) if is_tail(p))
    };
    members.iter().all(function)
}

/// A matrix of halves times constant weights.
fn is_matrix_product(graph: &Graph, producers: &[Option<usize>], node: usize) -> bool {
    let node = &graph.nodes[node];
    let constants = node
        .inputs
        .iter()
        .skip(1)
        .all(|&v| strided::constant(graph, producers, v).is_some());
    let halves = node.inputs.iter().chain(&node.outputs).all(|&v| graph.value(v).dtype == DType::F16);
    node.op == Op::Primitive(Primitive::MatMul) && constants && halves
}

/// A resize of halves whose result a copy of its own turns into planes.
fn is_resize(graph: &Graph, node: usize, copy: &Node) -> bool {
    let (node, shape) = (&graph.nodes[node], |v: ValueId| graph.value(v).shape);
    let halves = node.inputs.iter().chain(&node.outputs).all(|&v| graph.value(v).dtype == DType::F16);
    let turns = copy.inputs == node.outputs && graph.value(copy.outputs[0]).dtype.is_float();
    let resize = |r: &Resize| resized::is_form(r, shape(node.inputs[0]), shape(node.outputs[0]));
    matches!(&node.op, Op::Primitive(Primitive::Resize(r)) if resize(r)) && halves && turns
}

fn is_tail(primitive: &Primitive) -> bool {
    matches!(primitive, Primitive::Unary(_) | Primitive::Binary(_))
}

fn is_head(graph: &Graph, node: usize) -> bool {
    matches!(&graph.nodes[node].op, Op::Primitive(p) if is_tail(p) || takes_functions(p))
}
