//! Convolutions and pools over lines, `[N, C, L]`, and the elementwise functions around them become those of pictures of one
//! row, `[N, C, 1, L]`, which is what fast kernels take. The same products are summed in the same order.

use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::primitive::{Primitive, Window};
use crate::tensor::{Shape, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

pub fn run(graph: &mut Graph) {
    let lifted = lifted(graph);
    if !lifted.contains(&true) {
        return;
    }
    let mut work = Lifting {
        pictures: BTreeMap::new(),
        lines: BTreeMap::new(),
        nodes: Vec::with_capacity(graph.nodes.len()),
    };
    for node in std::mem::take(&mut graph.nodes) {
        let first = node.outputs.first().copied();
        if first.is_some_and(|v| lifted[v.index()]) {
            work.lift(graph, node);
        } else {
            work.keep(graph, node, &lifted);
        }
    }
    for at in 0..graph.outputs.len() {
        let value = graph.outputs[at].value;
        if lifted[value.index()] {
            graph.outputs[at].value = work.line(graph, value);
        }
    }
    graph.nodes = work.nodes;
    super::drop_dead::run(graph);
}

/// The values that get a row axis: what windows over one axis make, and what elementwise functions and joins make of it.
fn lifted(graph: &Graph) -> Vec<bool> {
    let mut lifted = vec![false; graph.values.len()];
    for node in &graph.nodes {
        let reads_lifted = node.inputs.iter().any(|v| lifted[v.index()]);
        let makes_lines = node.outputs.iter().all(|v| graph.value(*v).shape.rank() == 3);
        let lifts = match &node.op {
            Op::Primitive(Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. } | Primitive::Pool { window, .. }) => {
                window.axes == 1
            }
            Op::Primitive(Primitive::Unary(_) | Primitive::Binary(_) | Primitive::Copy) | Op::Concat { .. } => reads_lifted && makes_lines,
            _ => false,
        };
        if lifts {
            node.outputs.iter().for_each(|v| lifted[v.index()] = true);
        }
    }
    lifted
}

/// `[a, b, c]` as `[a, b, 1, c]`; other shapes as they are.
fn with_row(shape: Shape) -> Shape {
    match *shape.dims() {
        [a, b, c] => Shape::new(&[a, b, 1, c]).unwrap_or(shape),
        _ => shape,
    }
}

/// The window of one axis as one of a row of one tap, and that axis.
fn widened(window: Window) -> Window {
    let behind = |[one, ..]: [u32; 3], row: u32| [row, one, row];
    Window {
        axes: 2,
        kernel: behind(window.kernel, 1),
        stride: behind(window.stride, 1),
        dilation: behind(window.dilation, 1),
        pad_begin: behind(window.pad_begin, 0),
        pad_end: behind(window.pad_end, 0),
    }
}

/// The graph being written anew.
struct Lifting {
    /// Values that stay lines, as lifted nodes read them.
    pictures: BTreeMap<ValueId, ValueId>,
    /// Lifted values, as nodes that stay read them.
    lines: BTreeMap<ValueId, ValueId>,
    nodes: Vec<Node>,
}

impl Lifting {
    fn lift(&mut self, graph: &mut Graph, mut node: Node) {
        // What has the row already was made by a node before; constants and lines get it here.
        node.inputs = node.inputs.iter().map(|&v| self.picture(graph, v)).collect();
        for &v in &node.outputs {
            graph.values[v.index()].shape = with_row(graph.value(v).shape);
        }
        node.op = match node.op {
            Op::Primitive(Primitive::Conv { window, groups }) => Op::Primitive(Primitive::Conv {
                window: widened(window),
                groups,
            }),
            Op::Primitive(Primitive::ConvTranspose { window, groups }) => Op::Primitive(Primitive::ConvTranspose {
                window: widened(window),
                groups,
            }),
            Op::Primitive(Primitive::Pool { kind, window }) => Op::Primitive(Primitive::Pool {
                kind,
                window: widened(window),
            }),
            Op::Concat { axis } => Op::Concat {
                axis: if axis == 2 { 3 } else { axis },
            },
            op => op,
        };
        self.nodes.push(node);
    }

    /// A node that stays: it reads lifted values as lines.
    fn keep(&mut self, graph: &mut Graph, mut node: Node, lifted: &[bool]) {
        for input in &mut node.inputs {
            if lifted.get(input.index()) == Some(&true) {
                *input = self.line(graph, *input);
            }
        }
        self.nodes.push(node);
    }

    /// `value` with a row; one of another rank than 3 as it is.
    fn picture(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        let (dtype, shape) = graph.operand(value);
        if shape.rank() != 3 {
            return value;
        }
        if let Some(&known) = self.pictures.get(&value) {
            return known;
        }
        let wide = with_row(shape);
        let name = format!("{}:row", graph.value(value).name);
        let data = graph.value(value).data.clone();
        let made = match data.and_then(|t| Tensor::from_bytes(t.dtype(), wide, t.bytes())) {
            Some(tensor) => graph.add_constant(name, Arc::new(tensor)),
            None => {
                let made = graph.add_value(name.clone(), dtype, wide);
                self.view(name, value, made);
                made
            }
        };
        self.pictures.insert(value, made);
        made
    }

    /// A lifted value without its row.
    fn line(&mut self, graph: &mut Graph, value: ValueId) -> ValueId {
        if let Some(&known) = self.lines.get(&value) {
            return known;
        }
        let (dtype, shape) = graph.operand(value);
        let narrow = match *shape.dims() {
            [a, b, _, c] => Shape::new(&[a, b, c]).unwrap_or(shape),
            _ => shape,
        };
        let name = format!("{}:line", graph.value(value).name);
        let made = graph.add_value(name.clone(), dtype, narrow);
        self.view(name, value, made);
        self.lines.insert(value, made);
        made
    }

    fn view(&mut self, name: String, from: ValueId, to: ValueId) {
        self.nodes.push(Node {
            name,
            op: Op::View(ViewOp::Reshape),
            inputs: vec![from],
            outputs: vec![to],
        });
    }
}
