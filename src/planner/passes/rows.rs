//! Rows of channels that concatenations of slices and views bring into another order are gathered at once, by constant places.
//!
//! Shifted windows (Liu et al., "Swin Transformer", 2021, section 3.2) roll a picture along both axes and cut it into windows, and roll
//! it back behind attention; merged patches put four neighbours side by side. Each step would be stored anew. Tokens are moved whole,
//! so all steps are one list of places, the same for every sample, and functions behind a gathering are computed with it: so what is
//! added to windows brought back needs no launch of its own.

use super::drop_dead;
use super::rewrite::Index;
use super::through_views::{DEEPEST, stored};
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided::{self, Strided};
use crate::primitive::Primitive;
use crate::tensor::{Data, Layout, Shape, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most elements of a value whose places are followed.
const LARGEST: u64 = 1 << 23;
/// Fewest elements of a row, and what its elements are a multiple of: whole pieces of 16 bytes in f16.
const PIECE: u32 = 8;

pub fn run(graph: &mut Graph) {
    let (mut node, mut index) = (graph.nodes.len(), Index::of(graph));
    // From the last on, so that all steps to a value are one gathering, and those before it are read no more.
    while node > 0 {
        node -= 1;
        let Some(found) = find(graph, &index, node) else { continue };
        let made = graph.nodes[node].outputs[0];
        apply(graph, node, found);
        drop_dead::run(graph);
        index = Index::of(graph);
        node = index.producers[made.index()].unwrap_or(0);
    }
}

/// Rows of a value in another order.
struct Found {
    base: ValueId,
    /// Samples, rows of each in the base, and elements of a row.
    samples: u32,
    rows: u32,
    width: u32,
    /// Which row of its sample each of the result is, of one sample.
    places: Vec<i32>,
}

fn find(graph: &Graph, index: &Index, node: usize) -> Option<Found> {
    let &[output] = graph.nodes[node].outputs.as_slice() else {
        return None;
    };
    let (made, shape) = (graph.value(output), graph.value(output).shape);
    let moved = |n: &Node| matches!(n.op, Op::View(_) | Op::Concat { .. });
    let fits = moved(&graph.nodes[node]) && made.dtype.is_float() && (1..=LARGEST).contains(&shape.elements()) && shape.rank() >= 2;
    let read = fits && graph.nodes.iter().any(|n| n.inputs.contains(&output) && !moved(n));
    if !read || graph.is_result(output) {
        return None;
    }
    let function =
        |n: &Node| matches!(n.op, Op::Primitive(Primitive::Binary(_))) && n.inputs.iter().all(|&v| graph.value(v).shape == shape);
    let added = index.uses[output.index()] == 1 && graph.nodes.iter().any(|n| n.inputs.contains(&output) && function(n));
    if !stored_anew(graph, index, output, added) {
        return None;
    }
    let mut steps = Steps {
        graph,
        index,
        known: BTreeMap::new(),
        base: None,
    };
    let places = steps.places(output, true)?;
    let base = steps.base?;
    let from = graph.value(base).shape;
    let width = from.dim(from.rank().checked_sub(1)?);
    let (all, elements) = (places.as_i32()?, u64::from(width));
    if !width.is_multiple_of(PIECE) || !shape.elements().is_multiple_of(elements) {
        return None;
    }
    let row = |row: &[i32]| {
        let first = row[0];
        let whole = first % width as i32 == 0 && row.iter().zip(first..).all(|(&at, wanted)| at == wanted);
        whole.then_some(first / width as i32)
    };
    let all: Vec<i32> = all.chunks(width as usize).map(row).collect::<Option<_>>()?;
    let (given, taken) = (u32::try_from(from.elements() / elements).ok()?, u32::try_from(all.len()).ok()?);
    // A result whose rows are cut apart has more positions along its first axis than rows: samples are whole rows of both sides.
    let samples = common(common(shape.dim(0), from.dim(0)), common(given, taken));
    let (rows, made) = (given / samples, (taken / samples) as usize);
    let alike = all.chunks(made).zip(0..).all(|(sample, n)| {
        let first = n * rows as i32;
        sample.iter().zip(&all).all(|(&at, &one)| at == first + one && one < rows as i32)
    });
    let places = all[..made].to_vec();
    alike.then_some(Found {
        base,
        samples,
        rows,
        width,
        places,
    })
}

/// True if views lead to `value` from a concatenation or, where it is `added` to another value, if they cannot be said by strides.
fn stored_anew(graph: &Graph, index: &Index, value: ValueId, added: bool) -> bool {
    let (mut views, mut at) = (Vec::new(), value);
    while let Some(node) = index.producers[at.index()].map(|n| &graph.nodes[n]) {
        match &node.op {
            Op::View(view) => views.push((view, graph.value(at).shape)),
            Op::Concat { .. } => return true,
            Op::Primitive(_) => break,
        }
        at = node.inputs[0];
    }
    let base = Strided::whole(Layout::contiguous(graph.value(at).shape));
    added
        && views
            .iter()
            .rev()
            .try_fold(base, |at, (view, shape)| at.view(view, *shape))
            .is_none()
}

/// The greatest number that divides both.
fn common(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common(b, a % b) }
}

/// Follows a value's elements through views and concatenations to the one value that they all are of.
struct Steps<'a> {
    graph: &'a Graph,
    index: &'a Index,
    known: BTreeMap<ValueId, Arc<Tensor>>,
    base: Option<ValueId>,
}

impl Steps<'_> {
    /// Where each element of `value` lies in the base, in C order.
    fn places(&mut self, value: ValueId, last: bool) -> Option<Arc<Tensor>> {
        if let Some(known) = self.known.get(&value) {
            return Some(known.clone());
        }
        let (graph, shape) = (self.graph, self.graph.value(value).shape);
        let node = self.index.producers[value.index()].map(|n| &graph.nodes[n]);
        // What others read too is stored for them in any case.
        let alone = last || self.inside(value);
        let places = match node.filter(|_| alone).map(|n| (n, &n.op)) {
            Some((node, Op::View(view @ (ViewOp::Reshape | ViewOp::Transpose { .. } | ViewOp::Slice { .. })))) => {
                let before = self.places(node.inputs[0], false)?;
                let at = Strided::whole(Layout::contiguous(before.shape())).view(view, shape)?;
                strided::gather(&before, &at)?
            }
            Some((node, Op::Concat { axis })) => {
                let parts: Vec<Arc<Tensor>> = node.inputs.iter().map(|&v| self.places(v, false)).collect::<Option<_>>()?;
                joined(&parts, *axis, shape)?
            }
            _ => self.whole(value)?,
        };
        let places = Arc::new(places);
        self.known.insert(value, places.clone());
        Some(places)
    }

    /// True if views and concatenations alone read the value.
    fn inside(&self, value: ValueId) -> bool {
        let mut readers = self.graph.nodes.iter().filter(|n| n.inputs.contains(&value));
        readers.all(|n| matches!(n.op, Op::View(_) | Op::Concat { .. })) && self.graph.outputs.iter().all(|o| o.value != value)
    }

    /// The places of the base itself, which is computed.
    fn whole(&mut self, value: ValueId) -> Option<Tensor> {
        let it = self.graph.value(value);
        let rows = matches!(
            self.index.primitive(self.graph, value)?.1,
            Primitive::MatMul
                | Primitive::Normalise { .. }
                | Primitive::RmsNormalise { .. }
                | Primitive::Unary(_)
                | Primitive::Binary(_)
                | Primitive::Gather { .. }
        );
        // Pictures are stored channels-last, whatever their axes say.
        let ordered = stored(self.graph, self.index, value, DEEPEST).is_some_and(|at| at.layout.is_contiguous());
        let first = self.base.is_none_or(|base| base == value);
        if !rows || !ordered || !first || it.data.is_some() || it.shape.elements() > LARGEST {
            return None;
        }
        self.base = Some(value);
        let elements = i32::try_from(it.shape.elements()).ok()?;
        Tensor::new(it.shape, Data::I32((0..elements).collect()))
    }
}

/// The parts side by side along `axis`.
fn joined(parts: &[Arc<Tensor>], axis: usize, shape: Shape) -> Option<Tensor> {
    let outside: u64 = shape.dims()[..axis].iter().map(|&d| u64::from(d)).product();
    let mut all = Vec::with_capacity(shape.elements() as usize);
    for run in 0..outside as usize {
        for part in parts {
            let length = part.len() / outside as usize;
            all.extend_from_slice(&part.as_i32()?[run * length..(run + 1) * length]);
        }
    }
    Tensor::new(shape, Data::I32(all))
}

/// Puts the gathering in the place of the last step.
fn apply(graph: &mut Graph, node: usize, found: Found) {
    let Found {
        base,
        samples,
        rows,
        width,
        places,
    } = found;
    let (name, output) = (graph.nodes[node].name.clone(), graph.nodes[node].outputs[0]);
    let (dtype, shape) = (graph.value(output).dtype, graph.value(output).shape);
    let (rank, count) = (shape.rank(), places.len() as u32);
    // The result's own axes, where its rows are the base's: functions behind it join the gathering.
    let direct = rank >= 3 && shape.dim(0) == samples && shape.dim(rank - 1) == width;
    let axes: &[u32] = if direct { &shape.dims()[1..rank - 1] } else { &[count] };
    let shapes = [&[samples, rows, width][..], axes, &[samples, count, width]].map(Shape::new);
    let [Some(data), Some(axes), Some(flat)] = shapes else { return };
    let Some(places) = Tensor::new(axes, Data::I32(places)) else {
        return;
    };
    let places = graph.add_constant(format!("{name}.places"), Arc::new(places));
    let mut nodes = Vec::new();
    let mut add = |name: String, op: Op, inputs: Vec<ValueId>, output: ValueId| {
        nodes.push(Node {
            name,
            op,
            inputs,
            outputs: vec![output],
        });
    };
    let seen = graph.add_value(format!("{name}.rows"), dtype, data);
    add(format!("{name}.rows"), Op::View(ViewOp::Reshape), vec![base], seen);
    let gather = Op::Primitive(Primitive::Gather { axis: 1 });
    if direct {
        add(name, gather, vec![seen, places], output);
    } else {
        let gathered = graph.add_value(format!("{name}.gathered"), dtype, flat);
        add(format!("{name}.gathered"), gather, vec![seen, places], gathered);
        add(name, Op::View(ViewOp::Reshape), vec![gathered], output);
    }
    graph.nodes.splice(node..=node, nodes);
}
