//! The picture input of a network, and what feeds it instead: one preparation a camera.

use super::{AttachError, Attached, find, mismatch};
use crate::ids::CameraId;
use crate::plan::format::Camera;
use crate::planner::card::CardInput;
use crate::planner::graph::{Graph, Named, Op, ValueId, ViewOp};
use crate::primitive::{Prepare, Primitive, Scalar};
use crate::tensor::{DType, Shape};

/// The network's only input: a batch of pictures.
pub(super) struct Pictures {
    /// The input as the network declares it.
    pub(super) named: Named,
    /// Its element type, a float.
    pub(super) dtype: DType,
    /// Its shape.
    shape: Shape,
    /// Pictures in the batch.
    pub(super) batch: u32,
    /// Width and height of a picture, neither 0.
    pub(super) size: (u32, u32),
    channels_first: bool,
}

impl Pictures {
    /// The picture input of `graph`; `allowed` says which batches will do, `need` what they are.
    pub(super) fn of(graph: &Graph, card: &CardInput, allowed: impl Fn(u32) -> bool, need: &str) -> Result<Pictures, AttachError> {
        let named = find(&graph.name, "input", &graph.inputs, card.tensor.as_deref())?.clone();
        if let Some(other) = graph.inputs.iter().find(|n| n.value != named.value) {
            return Err(AttachError::Unfed {
                graph: graph.name.clone(),
                input: other.name.clone(),
            });
        }
        let (dtype, shape) = graph.operand(named.value);
        let (batch, channels_first, size) = match shape.dims() {
            [n, 3, h, w] => (*n, true, (*w, *h)),
            [n, h, w, 3] => (*n, false, (*w, *h)),
            _ => (0, true, (0, 0)),
        };
        if size.0 == 0 || size.1 == 0 || !dtype.is_float() || !allowed(batch) {
            return Err(mismatch(graph, named.value, need.to_owned()));
        }
        Ok(Pictures {
            named,
            dtype,
            shape,
            batch,
            size,
            channels_first,
        })
    }

    /// A name for a node or value made for the input.
    pub(super) fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.named.name)
    }

    /// A new input of the graph: the newest image of a camera of the table.
    pub(super) fn image(&self, attached: &mut Attached, camera: CameraId, table: &[Camera]) -> Result<ValueId, AttachError> {
        let graph = &mut attached.graph;
        let record = &table[camera.index()];
        // A camera's bytes are bounded by its sides, which keeps their number far below what a shape can hold.
        let bytes = u32::try_from(record.bytes).ok().and_then(|b| Shape::new(&[b]));
        let Some(bytes) = bytes else {
            let need = format!("but camera {} has too large pictures", record.name);
            return Err(mismatch(graph, self.named.value, need));
        };
        let image = graph.add_value(format!("camera {}", record.name), DType::U8, bytes);
        attached.cameras.insert(image, camera);
        graph.inputs.push(Named {
            name: record.name.clone(),
            value: image,
            widened: false,
        });
        Ok(image)
    }

    /// Lets every reader of the input read `batch` (`[N, 3, H, W]`) instead, which the nodes from `first` on make: they move
    /// before all others.
    pub(super) fn replace(&self, graph: &mut Graph, batch: ValueId, first: usize) {
        let mut whole = batch;
        if !self.channels_first {
            let name = self.name("channels_last");
            let turned = graph.add_value(name.clone(), self.dtype, self.shape);
            let perm = vec![0, 2, 3, 1];
            graph.add_node(name, Op::View(ViewOp::Transpose { perm }), vec![whole], vec![turned]);
            whole = turned;
        }
        let new = graph.nodes.split_off(first);
        graph.nodes.splice(0..0, new);
        let old = self.named.value;
        for value in graph.nodes.iter_mut().flat_map(|n| &mut n.inputs).filter(|v| **v == old) {
            *value = whole;
        }
        for output in graph.outputs.iter_mut().filter(|o| o.value == old) {
            output.value = whole;
        }
    }
}

/// Replaces the picture input by one preparation a camera. Returns width and height of the network's input.
pub(super) fn prepare(
    attached: &mut Attached,
    card: &CardInput,
    cameras: &[CameraId],
    table: &[Camera],
) -> Result<(u32, u32), AttachError> {
    let batch = cameras.len() as u32;
    let need = format!("but a picture input is float [{batch},3,H,W] or [{batch},H,W,3]: one picture for each camera");
    let input = Pictures::of(&attached.graph, card, |n| n == batch, &need)?;
    attached.graph.inputs.clear();
    let first = attached.graph.nodes.len();
    let (width, height) = input.size;
    let picture = Shape::new(&[1, 3, height, width]).unwrap_or_default();
    let mut pictures = Vec::new();
    for &camera in cameras {
        let image = input.image(attached, camera, table)?;
        let prepare = Prepare {
            camera,
            fit: card.fit,
            fill: card.fill,
            order: card.order,
            mean: card.mean.map(Scalar),
            std: card.std.map(Scalar),
        };
        let graph = &mut attached.graph;
        let name = input.name(&table[camera.index()].name);
        let prepared = graph.add_value(name.clone(), input.dtype, picture);
        let op = Op::Primitive(Primitive::Prepare(prepare));
        graph.add_node(name, op, vec![image], vec![prepared]);
        pictures.push(prepared);
    }
    let graph = &mut attached.graph;
    let mut whole = pictures[0];
    if pictures.len() > 1 {
        let shape = Shape::new(&[batch, 3, height, width]).unwrap_or_default();
        whole = graph.add_value(input.name("batch"), input.dtype, shape);
        graph.add_node(input.name("batch"), Op::Concat { axis: 0 }, pictures, vec![whole]);
    }
    input.replace(graph, whole, first);
    Ok(input.size)
}
