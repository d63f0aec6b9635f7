//! A batch of crops as a network's input: an edge from another tenant's detections, and results that say what they are of.

use super::pictures::Pictures;
use super::{AttachError, Attached, PortSpec, ResultOf, decode, tensors};
use crate::ids::{CameraId, TenantId};
use crate::limits::MAX_CROPS;
use crate::plan::format::{Camera, Role};
use crate::planner::card::Card;
use crate::planner::graph::{Graph, Named, Op, ValueId};
use crate::primitive::{Crop, Primitive, Scalar};
use crate::tensor::{DType, Shape};

/// Whose detections a tenant's crops show.
pub struct CropSource<'a> {
    /// The tenant that detects.
    pub tenant: TenantId,
    /// Its network with its ends.
    pub attached: &'a Attached,
    /// Which picture of its batch.
    pub image: u16,
    /// The camera of that picture.
    pub camera: CameraId,
    /// Bit set of the classes that are cut out.
    pub classes: u64,
    /// Share of its width and height by which a box is enlarged on each side.
    pub margin: f32,
}

impl CropSource<'_> {
    /// The graph input that reads the source's output of a role, and its shape.
    fn result(&self, attached: &mut Attached, role: Role) -> Option<(ValueId, Shape)> {
        let of_image = |p: &PortSpec| p.role == role && p.image == self.image;
        let port = self.attached.ports.iter().position(of_image)?;
        let named = self.attached.graph.outputs.get(port)?;
        let (dtype, shape) = self.attached.graph.operand(named.value);
        let name = format!("{}.{}", self.attached.graph.name, named.name);
        let value = attached.graph.add_value(name.clone(), dtype, shape);
        attached.graph.inputs.push(Named {
            name,
            value,
            widened: false,
        });
        let tenant = self.tenant;
        attached.results.insert(value, ResultOf { tenant, port });
        Some((value, shape))
    }
}

/// The network as its card wants it, its batch filled with crops of `source`'s detections.
///
/// Its results are the card's, one a crop, and two more: which row of the detections each crop shows, and that row.
pub fn attach_crops(graph: Graph, card: &Card, source: &CropSource<'_>, table: &[Camera]) -> Result<Attached, AttachError> {
    let wanted = card.input.crops.as_ref().and_then(|c| c.count);
    let need = match wanted {
        Some(n) => format!("but {n} crops are asked for, an input that is float [{n},3,H,W] or [{n},H,W,3]"),
        None => format!("but an input of crops is float [N,3,H,W] or [N,H,W,3], N of them, 1 to {MAX_CROPS}"),
    };
    let fits = |n: u32| (1..=MAX_CROPS).contains(&n) && wanted.is_none_or(|w| w == n);
    let input = Pictures::of(&graph, &card.input, fits, &need)?;
    let mut attached = tensors(graph);
    attached.graph.inputs.clear();
    let first = attached.graph.nodes.len();
    let image = input.image(&mut attached, source.camera, table)?;
    let (Some((detections, _)), Some((count, _))) = (
        source.result(&mut attached, Role::Detections),
        source.result(&mut attached, Role::Count),
    ) else {
        return Err(AttachError::NoDetections {
            graph: attached.graph.name,
            source_graph: source.attached.graph.name.clone(),
        });
    };
    let graph = &mut attached.graph;
    let (width, height) = input.size;
    let value =
        |graph: &mut Graph, what: &str, dtype, dims: &[u32]| graph.add_value(input.name(what), dtype, Shape::new(dims).unwrap_or_default());
    let crops = value(graph, "crops", input.dtype, &[input.batch, 3, height, width]);
    let rows = value(graph, "rows", DType::I32, &[input.batch]);
    let crop = Crop {
        camera: source.camera,
        classes: source.classes,
        margin: Scalar(source.margin),
        order: card.input.order,
        mean: card.input.mean.map(Scalar),
        std: card.input.std.map(Scalar),
    };
    let op = Op::Primitive(Primitive::Crop(crop));
    graph.add_node(input.name("crops"), op, vec![image, detections, count], vec![crops, rows]);
    // The detections go into the results: where this tenant runs less often than its source, they are still those it saw.
    let seen = value(graph, "detections", DType::F32, &[input.batch, 6]);
    let gather = Op::Primitive(Primitive::Gather { axis: 0 });
    graph.add_node(input.name("detections"), gather, vec![detections, rows], vec![seen]);
    input.replace(graph, crops, first);
    let mut attached = decode(attached, card, &[source.camera], input.batch, input.size)?;
    for (what, value, role) in [("rows", rows, Role::CropRows), ("detections", seen, Role::Detections)] {
        attached.graph.outputs.push(Named {
            name: input.name(what),
            value,
            widened: false,
        });
        attached.ports.push(PortSpec {
            image: 0,
            role,
            labels: Vec::new(),
            fit: None,
        });
    }
    Ok(attached)
}
