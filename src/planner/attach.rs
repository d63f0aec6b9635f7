//! What a model card adds to a network: the camera's preparation in front, the result's decoding behind, as nodes.

mod crops;
mod pictures;

pub use crops::{CropSource, attach_crops};

use super::card::{Card, Decode, MapCard};
use super::graph::{Graph, Named, Op, ValueId, ViewOp};
use crate::ids::{CameraId, TenantId};
use crate::limits::MAX_RANK;
use crate::plan::format::{Camera, Role};
use crate::primitive::{Coordinates, Fit, Nms, Primitive, Resize, ResizeMode, Scalar};
use crate::tensor::{DType, Shape};
use std::collections::BTreeMap;

/// A network with its ends: ready to be lowered.
#[derive(Clone, Debug)]
pub struct Attached {
    /// The graph. Its inputs are camera images, other tenants' results and tensor inputs, its outputs the tenant's results.
    pub graph: Graph,
    /// The inputs that are camera images.
    pub cameras: BTreeMap<ValueId, CameraId>,
    /// The inputs that are other tenants' results of the same frame.
    pub results: BTreeMap<ValueId, ResultOf>,
    /// What the graph's outputs carry, in their order.
    pub ports: Vec<PortSpec>,
}

/// A result of another tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResultOf {
    /// The tenant; one that is lowered before the reader.
    pub tenant: TenantId,
    /// Which of its outputs.
    pub port: usize,
}

/// What one output of the graph carries.
#[derive(Clone, Debug)]
pub struct PortSpec {
    /// Which picture of the batch it belongs to.
    pub image: u16,
    /// What it is.
    pub role: Role,
    /// Names of the classes.
    pub labels: Vec<String>,
    /// How the picture was fitted, for maps of it.
    pub fit: Option<Fit>,
}

/// A network that is not what its card says.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// No tensor of the name in the card, or none named and more than one there.
    #[error("{graph} has no {direction} `{name}`; there are: {known}")]
    Unknown {
        /// The network.
        graph: String,
        /// `input` or `output`.
        direction: &'static str,
        /// What the card says, or `(the only one)`.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A tensor whose shape or type does not fit what the card does with it.
    #[error("{graph}, tensor `{tensor}` is {dtype}{shape}, {need}")]
    Tensor {
        /// The network.
        graph: String,
        /// The tensor.
        tensor: String,
        /// Its element type.
        dtype: DType,
        /// Its shape.
        shape: Shape,
        /// What it would have to be.
        need: String,
    },
    /// A source of crops that gives no detections of the picture.
    #[error("{graph} takes crops of detections, which {source_graph} does not give for that picture")]
    NoDetections {
        /// The network.
        graph: String,
        /// Its source's network.
        source_graph: String,
    },
    /// An input that no camera feeds.
    #[error("{graph} has the input `{input}` besides the picture: a network of a camera has one input")]
    Unfed {
        /// The network.
        graph: String,
        /// The input.
        input: String,
    },
}

/// The network as a tenant fed with tensors, its outputs as they are.
pub fn tensors(graph: Graph) -> Attached {
    let port = |_: &Named| PortSpec {
        image: 0,
        role: Role::Tensor,
        labels: Vec::new(),
        fit: None,
    };
    Attached {
        ports: graph.outputs.iter().map(port).collect(),
        graph,
        cameras: BTreeMap::new(),
        results: BTreeMap::new(),
    }
}

/// The network as its card wants it, with one picture of the batch from each of `cameras` (ids into `table`).
/// Without cameras the inputs stay tensors, which only [`Decode::Tensors`] allows.
pub fn attach(graph: Graph, card: &Card, cameras: &[CameraId], table: &[Camera]) -> Result<Attached, AttachError> {
    let mut attached = tensors(graph);
    let mut input = (0, 0);
    if !cameras.is_empty() {
        input = pictures::prepare(&mut attached, &card.input, cameras, table)?;
    }
    decode(attached, card, cameras, cameras.len() as u32, input)
}

/// Reads the network's outputs as the card says: the results of a batch of `batch` pictures, one from each of `cameras` where
/// a result goes back to its picture's pixels. `input` is the width and height of the network's pictures.
fn decode(mut attached: Attached, card: &Card, cameras: &[CameraId], batch: u32, input: (u32, u32)) -> Result<Attached, AttachError> {
    let ports = std::mem::take(&mut attached.ports);
    let outputs = std::mem::take(&mut attached.graph.outputs);
    let mut decoder = Decoder {
        attached,
        outputs,
        cameras,
        batch,
        fit: card.input.fit,
        input,
    };
    match &card.decode {
        Decode::Tensors => {
            decoder.attached.ports = ports;
            decoder.attached.graph.outputs = decoder.outputs;
            return Ok(decoder.attached);
        }
        Decode::Yolox {
            output,
            score,
            iou,
            max,
            labels,
        } => decoder.yolox(output.as_deref(), [*score, *iou], *max, labels)?,
        Decode::Segmentation { maps } => maps.iter().try_for_each(|map| decoder.map(map))?,
        Decode::Classification {
            output,
            k,
            softmax,
            labels,
        } => decoder.classes(output.as_deref(), *k, *softmax, labels)?,
    }
    Ok(decoder.attached)
}

fn find<'n>(graph: &str, direction: &'static str, all: &'n [Named], name: Option<&str>) -> Result<&'n Named, AttachError> {
    let found = match name {
        Some(name) => all.iter().find(|n| n.name == name),
        None if all.len() == 1 => all.first(),
        None => None,
    };
    found.ok_or_else(|| AttachError::Unknown {
        graph: graph.to_owned(),
        direction,
        name: name.unwrap_or("(the only one)").to_owned(),
        known: all.iter().map(|n| n.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

fn mismatch(graph: &Graph, value: ValueId, need: String) -> AttachError {
    let it = graph.value(value);
    AttachError::Tensor {
        graph: graph.name.clone(),
        tensor: it.name.clone(),
        dtype: it.dtype,
        shape: it.shape,
        need,
    }
}

/// Appends decoding nodes behind the network's outputs.
struct Decoder<'a> {
    attached: Attached,
    outputs: Vec<Named>,
    cameras: &'a [CameraId],
    batch: u32,
    fit: Fit,
    input: (u32, u32),
}

impl Decoder<'_> {
    fn source(&self, name: Option<&str>) -> Result<(String, ValueId), AttachError> {
        let named = find(&self.attached.graph.name, "output", &self.outputs, name)?;
        Ok((named.name.clone(), named.value))
    }

    fn fail(&self, value: ValueId, need: &str) -> AttachError {
        mismatch(&self.attached.graph, value, need.to_owned())
    }

    /// A node with one new output value.
    fn node(&mut self, name: String, op: Op, inputs: Vec<ValueId>, dtype: DType, dims: &[u32]) -> Result<ValueId, AttachError> {
        let shape = Shape::new(dims).ok_or_else(|| self.fail(inputs[0], "too large to be decoded"))?;
        let output = self.attached.graph.add_value(name.clone(), dtype, shape);
        self.attached.graph.add_node(name, op, inputs, vec![output]);
        Ok(output)
    }

    fn port(&mut self, name: String, value: ValueId, image: u16, role: Role, labels: &[String]) {
        self.attached.graph.outputs.push(Named {
            name,
            value,
            widened: false,
        });
        self.attached.ports.push(PortSpec {
            image,
            role,
            labels: labels.to_vec(),
            fit: matches!(role, Role::LabelMap).then_some(self.fit),
        });
    }

    /// Picture `image` of `value`, whose axis 0 is the batch.
    fn picture(&mut self, value: ValueId, image: u16) -> Result<ValueId, AttachError> {
        let (dtype, shape) = self.attached.graph.operand(value);
        if shape.batch() == 1 {
            return Ok(value);
        }
        let mut start = vec![0; shape.rank()];
        start[0] = i64::from(image);
        let step = vec![1; shape.rank()];
        let mut dims = shape.dims().to_vec();
        dims[0] = 1;
        let name = format!("{}.{image}", self.attached.graph.value(value).name);
        self.node(name, Op::View(ViewOp::Slice { start, step }), vec![value], dtype, &dims)
    }

    /// A card that names classes names all of them: names that slip by one make every result a lie.
    fn named(&self, value: ValueId, labels: &[String], classes: u32) -> Result<(), AttachError> {
        if labels.is_empty() || labels.len() as u64 == u64::from(classes) {
            return Ok(());
        }
        let need = format!(
            "which has {classes} classes, but the card has {} labels: give one for each, or none",
            labels.len()
        );
        Err(self.fail(value, &need))
    }

    fn yolox(&mut self, output: Option<&str>, [score, iou]: [f32; 2], max: u32, labels: &[String]) -> Result<(), AttachError> {
        let (name, head) = self.source(output)?;
        let (dtype, shape) = self.attached.graph.operand(head);
        let strides = [8, 16, 32];
        let anchors: u32 = strides.iter().map(|s| (self.input.0 / s) * (self.input.1 / s)).sum();
        let whole = self.input.0.is_multiple_of(32) && self.input.1.is_multiple_of(32);
        let fits = shape.rank() == 3 && shape.dim(0) as usize == self.cameras.len() && shape.dim(1) == anchors && shape.dim(2) > 5;
        if !whole || !fits || !dtype.is_float() {
            let need = format!("but a YOLOX head of this input is float [B,{anchors},5+classes], with sides that are multiples of 32");
            return Err(mismatch(&self.attached.graph, head, need));
        }
        let (anchors, classes) = (shape.dim(1), shape.dim(2) - 5);
        self.named(head, labels, classes)?;
        for (image, &camera) in (0u16..).zip(self.cameras) {
            let picture = self.picture(head, image)?;
            let decode = Op::Primitive(Primitive::DecodeYolox { input: self.input });
            let boxes = self.node(format!("{name}.boxes.{image}"), decode, vec![picture], DType::F32, &[anchors, 4])?;
            let scores = self.second(format!("{name}.scores.{image}"), DType::F32, &[anchors, classes])?;
            let nms = Op::Primitive(Primitive::Nms(Nms {
                score: Scalar(score),
                iou: Scalar(iou),
                camera,
                fit: self.fit,
                input: self.input,
            }));
            let kept = self.node(
                format!("{name}.detections.{image}"),
                nms,
                vec![boxes, scores],
                DType::F32,
                &[max, 6],
            )?;
            let count = self.second(format!("{name}.count.{image}"), DType::I32, &[1])?;
            self.port(name.clone(), kept, image, Role::Detections, labels);
            self.port(format!("{name}.count"), count, image, Role::Count, &[]);
        }
        Ok(())
    }

    /// A second output of the node added last.
    fn second(&mut self, name: String, dtype: DType, dims: &[u32]) -> Result<ValueId, AttachError> {
        let graph = &mut self.attached.graph;
        let shape = Shape::new(dims).unwrap_or_default();
        let value = graph.add_value(name, dtype, shape);
        if let Some(node) = graph.nodes.last_mut() {
            node.outputs.push(value);
        }
        Ok(value)
    }

    fn map(&mut self, map: &MapCard) -> Result<(), AttachError> {
        let (_, scores) = self.source(Some(&map.output))?;
        let (dtype, shape) = self.attached.graph.operand(scores);
        let batch = self.cameras.len() as u32;
        if shape.rank() != 4 || shape.batch() != batch || !matches!(map.axis, 1 | 3) || !dtype.is_float() {
            return Err(self.fail(scores, "but a label map comes from float [B,classes,H,W] or [B,H,W,classes]"));
        }
        if shape.dim(map.axis) == 0 || shape.dim(map.axis) > 256 {
            return Err(self.fail(scores, "but a label map has 1 to 256 classes"));
        }
        self.named(scores, &map.labels, shape.dim(map.axis))?;
        for image in 0..self.cameras.len() as u16 {
            let mut value = self.picture(scores, image)?;
            let name = |step: &str| format!("{}.{step}.{image}", map.name);
            let (classes, mut height, mut width) = match map.axis {
                1 => (shape.dim(1), shape.dim(2), shape.dim(3)),
                _ => (shape.dim(3), shape.dim(1), shape.dim(2)),
            };
            if map.axis == 3 {
                let perm = vec![0, 3, 1, 2];
                let op = Op::View(ViewOp::Transpose { perm });
                value = self.node(name("classes_first"), op, vec![value], dtype, &[1, classes, height, width])?;
            }
            if let Some((w, h)) = map.resize.filter(|size| *size != (width, height)) {
                let mut scales = [Scalar(1.0); MAX_RANK];
                scales[2] = Scalar(h as f32 / height as f32);
                scales[3] = Scalar(w as f32 / width as f32);
                let op = Op::Primitive(Primitive::Resize(Resize {
                    mode: ResizeMode::Linear { antialias: false },
                    coordinates: Coordinates::HalfPixel,
                    scales,
                }));
                (width, height) = (w, h);
                value = self.node(name("resized"), op, vec![value], dtype, &[1, classes, height, width])?;
            }
            let op = Op::Primitive(Primitive::ArgMax { axis: 1 });
            value = self.node(name("labels"), op, vec![value], DType::U8, &[1, 1, height, width])?;
            value = self.node(name("map"), Op::View(ViewOp::Reshape), vec![value], DType::U8, &[1, height, width])?;
            self.port(map.name.clone(), value, image, Role::LabelMap, &map.labels);
        }
        Ok(())
    }

    fn classes(&mut self, output: Option<&str>, k: u32, softmax: bool, labels: &[String]) -> Result<(), AttachError> {
        let (name, mut scores) = self.source(output)?;
        let (dtype, shape) = self.attached.graph.operand(scores);
        let batch = self.batch;
        let classes = shape.dim(1);
        let flat = shape.rank() >= 2 && shape.dims()[2..].iter().all(|&d| d == 1);
        if !flat || shape.batch() != batch || classes < k || !dtype.is_float() {
            let need = format!("but the {k} best classes come from float [{batch},classes] with at least {k} classes");
            return Err(mismatch(&self.attached.graph, scores, need));
        }
        self.named(scores, labels, classes)?;
        if shape.rank() > 2 {
            scores = self.node(
                format!("{name}.flat"),
                Op::View(ViewOp::Reshape),
                vec![scores],
                dtype,
                &[batch, classes],
            )?;
        }
        if softmax {
            let op = Op::Primitive(Primitive::Softmax { axis: 1 });
            scores = self.node(format!("{name}.softmax"), op, vec![scores], dtype, &[batch, classes])?;
        }
        if dtype != DType::F32 {
            scores = self.node(
                format!("{name}.f32"),
                Op::Primitive(Primitive::Copy),
                vec![scores],
                DType::F32,
                &[batch, classes],
            )?;
        }
        let values = self.node(
            format!("{name}.top"),
            Op::Primitive(Primitive::TopK),
            vec![scores],
            DType::F32,
            &[batch, k],
        )?;
        let indices = self.second(format!("{name}.classes"), DType::I32, &[batch, k])?;
        self.port(name.clone(), values, 0, Role::TopValues, labels);
        self.port(format!("{name}.classes"), indices, 0, Role::TopIndices, &[]);
        Ok(())
    }
}
