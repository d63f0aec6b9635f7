//! Convolutions, transposed ones, pools and resizes over volumes, `[N, C, D, H, W]`, and the functions around them become those of
//! pictures, one a slice: `[D N, C, H, W]`, which is what fast kernels take.
//!
//! A window that is several slices deep is a convolution of pictures for each of them, and the sum of these: what a step of depth
//! apart lies in memory is a view, and the sums are made as the products are stored. The same products are summed in another order.

mod resized;
mod transposed;

use super::drop_dead;
use super::rewrite::Index;
use crate::limits::MAX_RANK;
use crate::planner::graph::{Graph, Node, Op, ValueId, ViewOp};
use crate::planner::strided;
use crate::primitive::{Binary, PadMode, PoolKind, Primitive, Scalar, Window};
use crate::tensor::{Layout, Shape, Tensor};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A volume's axes with depth in front, and back again.
const DEPTH_FIRST: [usize; 5] = [2, 0, 1, 3, 4];
const DEPTH_THIRD: [usize; 5] = [1, 2, 0, 3, 4];

pub fn run(graph: &mut Graph) {
    if !graph.nodes.iter().any(|n| is_over_volumes(graph, n)) {
        return;
    }
    let producers = strided::producers(graph);
    let constants: Vec<Option<Tensor>> = graph.nodes.iter().map(|node| weights(graph, &producers, node)).collect();
    let mut work = Work {
        pictures: BTreeMap::new(),
        phases: BTreeMap::new(),
        sums: BTreeMap::new(),
        uses: Index::of(graph).uses,
        nodes: Vec::with_capacity(graph.nodes.len()),
    };
    for (node, weights) in std::mem::take(&mut graph.nodes).into_iter().zip(constants) {
        if work.rewritten(graph, &node, weights.as_ref()).is_none() {
            work.nodes.push(node);
        }
    }
    graph.nodes = work.nodes;
    drop_dead::run(graph);
}

/// True for what makes volumes of volumes by more than functions of single elements.
fn is_over_volumes(graph: &Graph, node: &Node) -> bool {
    match &node.op {
        Op::Primitive(Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. } | Primitive::Pool { window, .. }) => {
            window.axes == 3
        }
        Op::Primitive(Primitive::Resize(_)) => graph.value(node.outputs[0]).shape.rank() == 5,
        _ => false,
    }
}

/// The weights of a convolution over volumes, if they are constant.
fn weights(graph: &Graph, producers: &[Option<usize>], node: &Node) -> Option<Tensor> {
    match &node.op {
        Op::Primitive(Primitive::Conv { window, .. } | Primitive::ConvTranspose { window, .. }) if window.axes == 3 => {
            let (tensor, at) = strided::constant(graph, producers, *node.inputs.get(1)?)?;
            strided::gather(&tensor, &at)
        }
        _ => None,
    }
}

/// The graph being written.
struct Work {
    /// Volumes that are there as pictures too.
    pictures: BTreeMap<ValueId, ValueId>,
    /// Volumes whose pictures are those of several values in turn.
    phases: BTreeMap<ValueId, Vec<ValueId>>,
    /// Pictures that are sums of products, with these.
    sums: BTreeMap<ValueId, Vec<ValueId>>,
    /// How often each value of the graph as it was is read.
    uses: Vec<u32>,
    nodes: Vec<Node>,
}

/// Which slices of a volume are met: from one on, every so many.
#[derive(Clone, Copy)]
struct Met {
    first: i64,
    step: u32,
}

impl Met {
    /// What a slice of a window meets.
    fn by(window: &Window, slice: u32) -> Met {
        Met {
            first: i64::from(slice) * i64::from(window.dilation[0]),
            step: window.stride[0],
        }
    }
}

/// A window over pictures: what is left of one over volumes without its depth.
pub(super) fn flat(window: Window) -> Window {
    window.over(2, |[_, rows, columns], last| [rows, columns, last])
}

impl Work {
    /// Writes a node over volumes as nodes over pictures; `None` for nodes that stay: nobody reads what
    /// was written then.
    fn rewritten(&mut self, graph: &mut Graph, node: &Node, weights: Option<&Tensor>) -> Option<()> {
        let (&[output], Op::Primitive(primitive)) = (node.outputs.as_slice(), &node.op) else {
            return None;
        };
        let shape = graph.value(output).shape;
        let &[samples, channels, depth, height, width] = shape.dims() else {
            return None;
        };
        let empty = |v: &ValueId| graph.value(*v).shape.elements() == 0;
        if node.inputs.iter().chain(&[output]).any(empty) {
            return None;
        }
        let frames = Shape::new(&[depth.checked_mul(samples)?, channels, height, width])?;
        let known = node.inputs.iter().any(|v| self.pictures.contains_key(v));
        let deep = |window: &Window| window.kernel[0] > 1 || window.stride[0] > 1 || window.pad_begin[0] > 0 || window.pad_end[0] > 0;
        let made = match *primitive {
            Primitive::Conv { window, groups } if window.axes == 3 => self.convolution(graph, node, (window, groups), weights?, frames)?,
            Primitive::Pool {
                kind: kind @ PoolKind::Max { .. },
                window,
            } if window.axes == 3 => self.maxima(graph, node, (kind, window), frames)?,
            Primitive::Pool { kind, window } if window.axes == 3 && !deep(&window) => {
                let pictures = self.enter(graph, node.inputs[0])?;
                let window = flat(window);
                self.node(
                    graph,
                    &node.name,
                    Op::Primitive(Primitive::Pool { kind, window }),
                    vec![pictures],
                    frames,
                )
            }
            Primitive::ConvTranspose { window, groups } if window.axes == 3 => {
                let parts = self.transposed(graph, node, (window, groups), weights?, frames)?;
                self.interleaved(graph, node, parts, frames)?
            }
            Primitive::Resize(resize) => match self.resized(graph, node, resize)? {
                resized::Made::Pictures(pictures) => pictures,
                resized::Made::Volume => return Some(()),
            },
            Primitive::Unary(_) | Primitive::Binary(_) if self.is_phased(graph, node) => {
                let parts = self.functions(graph, node)?;
                self.interleaved(graph, node, parts, frames)?
            }
            Primitive::Unary(_) | Primitive::Binary(_) if known => {
                let inputs: Vec<ValueId> = node.inputs.iter().map(|v| self.enter(graph, *v)).collect::<Option<_>>()?;
                self.function(graph, &node.name, node, inputs, frames)
            }
            _ => return None,
        };
        graph.values[made.index()].single = graph.value(output).single;
        self.pictures.insert(output, made);
        let apart = Shape::new(&[depth, samples, channels, height, width])?;
        let apart = self.node(graph, &format!("{}.apart", node.name), Op::View(ViewOp::Reshape), vec![made], apart);
        self.nodes.push(Node {
            name: format!("{}.volume", node.name),
            op: turned(DEPTH_THIRD),
            inputs: vec![apart],
            outputs: vec![output],
        });
        Some(())
    }

    /// Convolutions of pictures, one for each slice of the window, and their sum.
    fn convolution(
        &mut self,
        graph: &mut Graph,
        node: &Node,
        (window, groups): (Window, u32),
        weights: &Tensor,
        frames: Shape,
    ) -> Option<ValueId> {
        let slices = slices_of(weights)?;
        let x = node.inputs[0];
        let samples = graph.value(x).shape.dim(0);
        let volume = self.enter(graph, x)?;
        let sides = [window.pad_begin[0], window.pad_end[0]];
        let volume = self.padded(graph, &node.name, volume, (sides, samples), 0.0)?;
        let mut products = Vec::with_capacity(slices.len());
        for (slice, weights) in slices.into_iter().enumerate() {
            let name = format!("{}.slice{slice}", node.name);
            let met = Met::by(&window, slice as u32);
            let pictures = self.step(graph, &name, volume, met, samples, frames.dim(0) / samples)?;
            let mut inputs = vec![pictures, graph.add_constant(format!("{name}.weights"), Arc::new(weights))];
            inputs.extend(node.inputs.get(2).filter(|_| slice == 0));
            let convolution = Op::Primitive(Primitive::Conv {
                window: flat(window),
                groups,
            });
            products.push((self.node(graph, &name, convolution, inputs, frames), name));
        }
        self.sum(graph, products, frames)
    }

    /// The sum of products, each by its name.
    fn sum(&mut self, graph: &mut Graph, products: Vec<(ValueId, String)>, shape: Shape) -> Option<ValueId> {
        let values: Vec<ValueId> = products.iter().map(|(product, _)| *product).collect();
        let mut sum = None;
        for (product, name) in products {
            sum = Some(match sum {
                Some(sum) => self.added(graph, &format!("{name}.sum"), [product, sum], shape),
                None => product,
            });
        }
        self.sums.insert(sum?, values);
        sum
    }

    fn added(&mut self, graph: &mut Graph, name: &str, terms: [ValueId; 2], shape: Shape) -> ValueId {
        let add = Op::Primitive(Primitive::Binary(Binary::Add));
        self.node(graph, name, add, terms.to_vec(), shape)
    }

    /// The function that `node` is of volumes, of pictures. What is added to a sum of products that nobody else reads is added to the
    /// first product: then each product is stored with one addition, which kernels do, and none of them is left for itself.
    fn function(&mut self, graph: &mut Graph, name: &str, node: &Node, inputs: Vec<ValueId>, shape: Shape) -> ValueId {
        let alone = |at: usize| self.uses.get(node.inputs[at].index()) == Some(&1);
        let single = graph.value(node.outputs[0]).single;
        let sum = (0..inputs.len()).rev().find_map(|at| {
            let products = self.sums.get(&inputs[at]).filter(|p| p.len() > 1 && alone(at))?;
            Some((products.clone(), *inputs.get(1 - at)?))
        });
        match (&node.op, sum) {
            (Op::Primitive(Primitive::Binary(Binary::Add)), Some((products, other))) if !single => {
                let mut sum = other;
                for (number, &product) in products.iter().enumerate() {
                    let name = match number + 1 == products.len() {
                        true => name.to_owned(),
                        false => format!("{name}.product{number}"),
                    };
                    sum = self.added(graph, &name, [product, sum], shape);
                }
                sum
            }
            _ => {
                let made = self.node(graph, name, node.op.clone(), inputs, shape);
                graph.values[made.index()].single = single;
                made
            }
        }
    }

    /// The maxima of pictures, then those of slices.
    fn maxima(&mut self, graph: &mut Graph, node: &Node, (kind, window): (PoolKind, Window), frames: Shape) -> Option<ValueId> {
        let x = node.inputs[0];
        let (samples, depth) = (graph.value(x).shape.dim(0), graph.value(x).shape.dim(2));
        let pictures = self.enter(graph, x)?;
        let flat = Primitive::Pool {
            kind,
            window: flat(window),
        };
        let pooled = frames.with_dim(0, depth * samples)?;
        let pooled = self.node(
            graph,
            &format!("{}.pictures", node.name),
            Op::Primitive(flat),
            vec![pictures],
            pooled,
        );
        // Rounded up, the last windows reach behind the padding.
        let reach = (frames.dim(0) / samples - 1) * window.stride[0] + (window.kernel[0] - 1) * window.dilation[0] + 1;
        let sides = [window.pad_begin[0], reach.saturating_sub(depth + window.pad_begin[0])];
        let pooled = self.padded(graph, &node.name, pooled, (sides, samples), f32::NEG_INFINITY)?;
        let mut most = None;
        for slice in 0..window.kernel[0] {
            let name = format!("{}.slice{slice}", node.name);
            let met = Met::by(&window, slice);
            let part = self.step(graph, &name, pooled, met, samples, frames.dim(0) / samples)?;
            most = Some(match most {
                Some(most) => {
                    let max = Op::Primitive(Primitive::Binary(Binary::Max));
                    self.node(graph, &name, max, vec![most, part], frames)
                }
                None => part,
            });
        }
        most
    }

    /// Pictures a step of depth apart, of `depth` slices.
    fn step(&mut self, graph: &mut Graph, name: &str, pictures: ValueId, met: Met, samples: u32, depth: u32) -> Option<ValueId> {
        let shape = graph.value(pictures).shape;
        let &[all, channels, height, width] = shape.dims() else {
            return None;
        };
        if met.first == 0 && depth * samples == all {
            return Some(pictures);
        }
        let with = |depth: u32| Shape::new(&[depth, samples, channels, height, width]);
        let apart = self.node(
            graph,
            &format!("{name}.apart"),
            Op::View(ViewOp::Reshape),
            vec![pictures],
            with(all / samples)?,
        );
        let (mut start, mut step) = (vec![0; 5], vec![1; 5]);
        start[0] = met.first;
        step[0] = if depth > 1 { i64::from(met.step) } else { 1 };
        let met = self.node(
            graph,
            &format!("{name}.met"),
            Op::View(ViewOp::Slice { start, step }),
            vec![apart],
            with(depth)?,
        );
        let joined = shape.with_dim(0, depth * samples)?;
        Some(self.node(graph, &format!("{name}.joined"), Op::View(ViewOp::Reshape), vec![met], joined))
    }

    /// Pictures with so many slices of one `value` before and behind them, along the depth of so many samples.
    fn padded(&mut self, graph: &mut Graph, name: &str, pictures: ValueId, sides: ([u32; 2], u32), value: f32) -> Option<ValueId> {
        let ([before, behind], samples) = sides;
        let shape = graph.value(pictures).shape;
        let [before, behind] = [before.checked_mul(samples)?, behind.checked_mul(samples)?];
        if before == 0 && behind == 0 {
            return Some(pictures);
        }
        let mut begin = [0; MAX_RANK];
        begin[0] = i32::try_from(before).ok()?;
        let mode = PadMode::Constant(Scalar(value));
        let pad = Op::Primitive(Primitive::Pad { mode, begin });
        let padded = shape.with_dim(0, shape.dim(0).checked_add(before)?.checked_add(behind)?)?;
        Some(self.node(graph, &format!("{name}.padded"), pad, vec![pictures], padded))
    }

    /// A volume as pictures.
    fn enter(&mut self, graph: &mut Graph, volume: ValueId) -> Option<ValueId> {
        if let Some(&pictures) = self.pictures.get(&volume) {
            return Some(pictures);
        }
        let shape = graph.value(volume).shape;
        let &[samples, channels, depth, height, width] = shape.dims() else {
            return None;
        };
        let front = Shape::new(&[depth, samples, channels, height, width])?;
        let joined = Shape::new(&[depth.checked_mul(samples)?, channels, height, width])?;
        let name = graph.value(volume).name.clone();
        let front = self.node(graph, &format!("{name}.turned"), turned(DEPTH_FIRST), vec![volume], front);
        let pictures = self.node(graph, &format!("{name}.pictures"), Op::View(ViewOp::Reshape), vec![front], joined);
        self.pictures.insert(volume, pictures);
        Some(pictures)
    }

    fn node(&mut self, graph: &mut Graph, name: &str, op: Op, inputs: Vec<ValueId>, shape: Shape) -> ValueId {
        let dtype = graph.value(inputs[0]).dtype;
        let output = graph.add_value(name, dtype, shape);
        self.nodes.push(Node {
            name: name.to_owned(),
            op,
            inputs,
            outputs: vec![output],
        });
        output
    }
}

fn turned(perm: [usize; 5]) -> Op {
    Op::View(ViewOp::Transpose { perm: perm.to_vec() })
}

/// Weights `[O, C, D, H, W]`, or transposed ones, `[C, O, D, H, W]`, as those of pictures, one for each slice.
fn slices_of(weights: &Tensor) -> Option<Vec<Tensor>> {
    let &[outputs, channels, depth, rows, columns] = weights.shape().dims() else {
        return None;
    };
    let whole = strided::Strided::whole(Layout::contiguous(weights.shape()));
    let slice = |at: u32| {
        let start = vec![0, 0, i64::from(at), 0, 0];
        let cut = ViewOp::Slice { start, step: vec![1; 5] };
        let one = whole.view(&cut, Shape::new(&[outputs, channels, 1, rows, columns])?)?;
        strided::gather(weights, &one)?.reshaped(Shape::new(&[outputs, channels, rows, columns])?)
    };
    (0..depth).map(slice).collect()
}
