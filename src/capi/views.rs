//! Results as C reads them: arrays of structs that stay where they are until the ticket is released.
//!
//! Every slot has a shelf for each tenant, with room for the largest result that any plan gives it there; the room is taken
//! when the engine is opened. Label maps and tensors are not copied: their addresses lie in the slot, which nobody writes
//! before the release. A result that stands in for one that is not there yet is copied, because its memory changes; a
//! shelf keeps the first such result, so that what was handed out stays, until the tenant's own result is there.

use super::guard::layout::Address;
use super::guard::types::{ClassScore, Detection, LabelMap, Result as View, Tensor};
use super::names::TenantNames;
use super::values;
use crate::ids::{PlanId, TenantId};
use crate::plan::format::{Role, Tenant};
use crate::runtime::{Engine, TenantResult};
use crate::task::Status as Currency;

/// What a shelf holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Nothing,
    /// A result that stands in for the frame's.
    StandIn,
    /// The frame's result.
    Settled,
}

/// One tenant's result in one slot.
pub(super) struct Shelf {
    holds: Holds,
    currency: Currency,
    of_frame: u64,
    detections: Vec<Detection>,
    crops: Vec<Detection>,
    scores: Vec<ClassScore>,
    maps: Vec<LabelMap>,
    tensors: Vec<Tensor>,
    /// Room for a copied result.
    copy: Vec<u8>,
}

/// Most entries of each array.
#[derive(Clone, Copy, Default)]
struct Room {
    detections: usize,
    crops: usize,
    scores: usize,
    maps: usize,
    tensors: usize,
    bytes: usize,
}

impl Room {
    fn of(tenant: &Tenant, bytes: usize) -> Room {
        let ports = |role| tenant.outputs.iter().filter(move |p| p.role == role);
        let rows = |role| ports(role).map(|p| p.view.layout.shape.dim(0) as usize).sum::<usize>();
        Room {
            detections: rows(Role::Detections),
            crops: rows(Role::CropRows),
            scores: ports(Role::TopIndices).map(|p| p.view.layout.shape.elements() as usize).sum(),
            maps: ports(Role::LabelMap).count(),
            tensors: tenant.outputs.len(),
            bytes,
        }
    }

    /// Room for either.
    fn both(self, other: Room) -> Room {
        Room {
            detections: self.detections.max(other.detections),
            crops: self.crops.max(other.crops),
            scores: self.scores.max(other.scores),
            maps: self.maps.max(other.maps),
            tensors: self.tensors.max(other.tensors),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

/// The shelves of one slot, one for each tenant of the plan with the most tenants.
pub(super) fn shelves(engine: &Engine) -> Vec<Shelf> {
    let plans = &engine.deployment().plans;
    let tenants = plans.iter().map(|p| p.tenants.len()).max().unwrap_or(0);
    let room = |t: usize| {
        let each = plans.iter().enumerate().filter_map(|(p, plan)| {
            let bytes = engine.result_bytes(PlanId(p as u16), TenantId(t as u16));
            Some(Room::of(plan.tenants.get(t)?, bytes))
        });
        each.fold(Room::default(), Room::both)
    };
    (0..tenants).map(|t| Shelf::with(room(t))).collect()
}

/// Adds an entry if there is room: arrays never grow.
fn put<T>(array: &mut Vec<T>, entry: T) {
    debug_assert!(array.len() < array.capacity(), "room is made for the largest result");
    if array.len() < array.capacity() {
        array.push(entry);
    }
}

fn detection(found: crate::runtime::Detection, image: usize, row: usize) -> Detection {
    let [x0, y0, x1, y1] = found.bounds;
    Detection {
        class_index: found.class,
        score: found.score,
        x0,
        y0,
        x1,
        y1,
        image: image as u32,
        row: row as u32,
    }
}

impl Shelf {
    fn with(room: Room) -> Shelf {
        Shelf {
            holds: Holds::Nothing,
            currency: Currency::None,
            of_frame: 0,
            detections: Vec::with_capacity(room.detections),
            crops: Vec::with_capacity(room.crops),
            scores: Vec::with_capacity(room.scores),
            maps: Vec::with_capacity(room.maps),
            tensors: Vec::with_capacity(room.tensors),
            copy: vec![0; room.bytes],
        }
    }

    /// The ticket was released: what was handed out is no more.
    pub(super) fn clear(&mut self) {
        self.holds = Holds::Nothing;
    }

    /// The result as C reads it.
    pub(super) fn show(&mut self, result: &TenantResult<'_>, names: &TenantNames) -> View {
        let holds = match (result.is_settled(), self.holds) {
            (true, _) => Holds::Settled,
            // What is not there yet cannot take back what was.
            (false, Holds::Nothing) => Holds::StandIn,
            (false, kept) => kept,
        };
        if holds != self.holds {
            if holds == Holds::Settled {
                self.fill(result, names);
            } else {
                let mut copy = std::mem::take(&mut self.copy);
                self.fill(&result.copied(&mut copy), names);
                self.copy = copy;
            }
            // There may be no result at all yet; the next look may find one.
            self.holds = if result.status == Currency::None { Holds::Nothing } else { holds };
        }
        View {
            size: 0,
            currency: self.currency as u32,
            of_frame: self.of_frame,
            kind: values::kind(result.kind()),
            images: result.images() as u32,
            detections: Address::of(&self.detections),
            crops: Address::of(&self.crops),
            scores: Address::of(&self.scores),
            maps: Address::of(&self.maps),
            tensors: Address::of(&self.tensors),
            detection_count: self.detections.len() as u32,
            crop_count: self.crops.len() as u32,
            score_count: self.scores.len() as u32,
            map_count: self.maps.len() as u32,
            tensor_count: self.tensors.len() as u32,
            reserved: 0,
        }
    }

    fn fill(&mut self, result: &TenantResult<'_>, names: &TenantNames) {
        (self.currency, self.of_frame) = (result.status, result.of_frame);
        self.detections.clear();
        self.crops.clear();
        self.scores.clear();
        self.maps.clear();
        self.tensors.clear();
        for image in 0..result.images() {
            for (row, found) in result.detections_of(image).enumerate() {
                put(&mut self.detections, detection(found, image, row));
            }
        }
        if let Some(crops) = result.crops() {
            for crop in crops {
                put(&mut self.crops, detection(crop.detection, crop.image, crop.row));
                self.scores_of(result, crop.image);
            }
        } else {
            for image in 0..result.images() {
                self.scores_of(result, image);
            }
        }
        for map in result.maps() {
            let labels = names.outputs[map.port].labels();
            put(
                &mut self.maps,
                LabelMap {
                    name: Address::text(&names.outputs[map.port].name),
                    data: Address::of(map.data),
                    labels: Address::of(labels),
                    label_count: labels.len() as u32,
                    image: map.image as u32,
                    width: map.width as u32,
                    height: map.height as u32,
                },
            );
        }
        for ((port, bytes), names) in result.tensors().zip(&names.outputs) {
            let shape = port.view.layout.shape;
            let mut tensor = Tensor {
                name: Address::text(&names.name),
                data: Address::of(bytes),
                bytes: bytes.len() as u64,
                dtype: values::dtype(port.view.dtype),
                rank: shape.rank() as u32,
                ..Tensor::default()
            };
            tensor.dims[..shape.rank()].copy_from_slice(shape.dims());
            put(&mut self.tensors, tensor);
        }
    }

    fn scores_of(&mut self, result: &TenantResult<'_>, image: usize) {
        for (class_index, score) in result.top(image) {
            let image = image as u32;
            put(&mut self.scores, ClassScore { image, class_index, score });
        }
    }
}
