//! Results as C reads them: arrays of structs that stay where they are until the ticket is released.
//!
//! Every slot has a shelf for each tenant, with room for the largest result that any plan gives it there; the room is taken
//! when the engine is opened. Label maps and tensors are not copied: their addresses lie in the slot, which nobody writes
//! before the release. A result that stands in for one that is not there yet is copied, because its memory changes. It has
//! a page of its own on the shelf, and the first one is kept: what was handed out is not written again.

use super::guard::layout::Address;
use super::guard::types::{ClassScore, Detection, LabelMap, Result as View, Tensor};
use super::names::TenantNames;
use super::values;
use crate::backend::PrepareError;
use crate::ids::{PlanId, TenantId};
use crate::plan::format::{Role, Tenant};
use crate::runtime::{Engine, TenantResult};
use crate::task::Status as Currency;

/// One tenant's results in one slot.
pub(super) struct Shelf {
    /// The frame's.
    settled: Page,
    /// The one that stands in for it.
    stand_in: Page,
    /// What the stand-in's addresses lead to.
    copy: Vec<u8>,
}

/// A result, once it is written.
struct Page {
    written: bool,
    currency: Currency,
    of_frame: u64,
    detections: Vec<Detection>,
    crops: Vec<Detection>,
    scores: Vec<ClassScore>,
    maps: Vec<LabelMap>,
    tensors: Vec<Tensor>,
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
pub(super) fn shelves(engine: &Engine) -> Result<Vec<Shelf>, PrepareError> {
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

/// An empty array with room for so many entries; an error if the system has not that much memory.
fn taken<T>(entries: usize) -> Result<Vec<T>, PrepareError> {
    let mut array = Vec::new();
    array.try_reserve_exact(entries).map_err(|_| PrepareError::Memory {
        what: "results as C reads them",
        bytes: (entries as u64).saturating_mul(size_of::<T>() as u64),
    })?;
    Ok(array)
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
    fn with(room: Room) -> Result<Shelf, PrepareError> {
        let mut copy = taken(room.bytes)?;
        copy.resize(room.bytes, 0);
        Ok(Shelf {
            settled: Page::with(room)?,
            stand_in: Page::with(room)?,
            copy,
        })
    }

    /// The ticket was released: what was handed out is no more.
    pub(super) fn clear(&mut self) {
        self.settled.written = false;
        self.stand_in.written = false;
    }

    /// The result as C reads it.
    pub(super) fn show(&mut self, result: &TenantResult<'_>, names: &TenantNames) -> View {
        let head = View {
            kind: values::kind(result.kind()),
            images: result.images() as u32,
            ..View::default()
        };
        if result.is_settled() {
            if !self.settled.written {
                self.settled.write(result, names);
            }
            return self.settled.view(head);
        }
        if result.status == Currency::None {
            return head;
        }
        if !self.stand_in.written {
            self.stand_in.write(&result.copied(&mut self.copy), names);
        }
        self.stand_in.view(head)
    }
}

impl Page {
    fn with(room: Room) -> Result<Page, PrepareError> {
        Ok(Page {
            written: false,
            currency: Currency::None,
            of_frame: 0,
            detections: taken(room.detections)?,
            crops: taken(room.crops)?,
            scores: taken(room.scores)?,
            maps: taken(room.maps)?,
            tensors: taken(room.tensors)?,
        })
    }

    fn view(&self, head: View) -> View {
        View {
            currency: self.currency as u32,
            of_frame: self.of_frame,
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
            ..head
        }
    }

    fn write(&mut self, result: &TenantResult<'_>, names: &TenantNames) {
        self.written = true;
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
        for (index, ((port, bytes), names)) in result.tensors().zip(&names.outputs).enumerate() {
            let shape = port.view.layout.shape;
            let mut tensor = Tensor {
                name: Address::text(&names.name),
                data: Address::of(bytes),
                bytes: bytes.len() as u64,
                device: result.device_address(index).unwrap_or(0),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_that_is_not_to_be_had_is_an_error() {
        assert_eq!(taken::<u64>(3).unwrap().capacity(), 3);
        for entries in [usize::MAX / 16, usize::MAX] {
            assert!(matches!(taken::<u64>(entries), Err(PrepareError::Memory { .. })));
        }
        let room = Room {
            detections: usize::MAX / 64,
            ..Room::default()
        };
        assert!(Shelf::with(Room::default()).is_ok() && Shelf::with(room).is_err());
    }
}
