//! Typed views of a tenant's outputs. Whatever bytes are there, reading them never panics.

use crate::backend::Prepared;
use crate::ids::SlotId;
use crate::plan::format::{Plan, Port, Role, Space, Tenant};
use crate::primitive::Fit;
use crate::task::{ResultKind, Status};
use std::ops::Range;

/// Where a port's bytes lie among a slot's results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: usize,
    pub(super) bytes: usize,
}

/// Where the result ports of each tenant of `plan` lie. Ports that are no results have no bytes.
pub(super) fn output_places(plan: &Plan) -> Vec<Vec<Place>> {
    let place = |port: &Port| {
        place_of(plan, port, |space| match space {
            Space::Output { offset } => Some(offset),
            _ => None,
        })
    };
    plan.tenants.iter().map(|t| t.outputs.iter().map(place).collect()).collect()
}

/// Where the tensor inputs of each tenant of `plan` lie in a slot.
pub(super) fn input_places(plan: &Plan) -> Vec<Vec<Place>> {
    let place = |port: &Port| {
        place_of(plan, port, |space| match space {
            Space::Input { offset } => Some(offset),
            _ => None,
        })
    };
    plan.tenants.iter().map(|t| t.inputs.iter().map(place).collect()).collect()
}

fn place_of(plan: &Plan, port: &Port, offset: impl Fn(Space) -> Option<u64>) -> Place {
    let view = &port.view;
    let start = offset(plan.buffers[view.buffer.index()].space);
    start.map_or(Place { offset: 0, bytes: 0 }, |start| Place {
        offset: (start + view.origin * view.dtype.bytes()) as usize,
        bytes: (view.layout.shape.elements() * view.dtype.bytes()) as usize,
    })
}

/// The stretch of a slot's results in which all of these lie.
pub(super) fn extent(places: &[Place]) -> Range<usize> {
    let full = || places.iter().filter(|p| p.bytes > 0);
    let start = full().map(|p| p.offset).min().unwrap_or(0);
    let end = full().map(|p| p.offset + p.bytes).max().unwrap_or(0);
    start..end
}

/// Which memory a result is read from.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// The frame's slot.
    Slot(&'a dyn Prepared, SlotId),
    /// The slot of an earlier frame, which may be used again before the ticket is released.
    Earlier(&'a dyn Prepared, SlotId),
    /// The engine's copy of the tenant's latest result.
    Saved(&'a [u8]),
    /// A copy of a part of it, which begins at this byte.
    Part(usize, &'a [u8]),
    /// There is no result.
    Nothing,
}

/// A tenant's result in a frame.
#[derive(Clone, Copy)]
pub struct TenantResult<'a> {
    /// How current it is.
    pub status: Status,
    /// The frame it was computed from; of no meaning for [`Status::None`].
    pub of_frame: u64,
    pub(super) tenant: &'a Tenant,
    pub(super) places: &'a [Place],
    pub(super) source: Source<'a>,
    /// The tenant computed in this frame, so that the device has its results too.
    pub(super) computed: bool,
}

/// A detected object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Detection {
    /// Its class.
    pub class: u32,
    /// From 0 to 1.
    pub score: f32,
    /// x0, y0, x1, y1 in pixels of the source picture.
    pub bounds: [f32; 4],
}

/// What one crop of a tenant's batch shows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crop {
    /// Which picture of the batch the crop is: the argument of [`TenantResult::top`].
    pub image: usize,
    /// Row of the detection among the source's detections in the frame that this result is of.
    pub row: usize,
    /// The detection, as the tenant saw it.
    pub detection: Detection,
}

/// A label map: one class a pixel of the network's output.
#[derive(Clone, Copy)]
pub struct LabelMap<'a> {
    /// Which output of the tenant it is.
    pub port: usize,
    /// The head's name.
    pub name: &'a str,
    /// Which picture of the batch.
    pub image: usize,
    /// Pixels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Names of the classes; may be shorter than their number.
    pub labels: &'a [String],
    /// One byte a pixel, row by row.
    pub data: &'a [u8],
    /// How the source picture was fitted into the network's input, if it was.
    pub fit: Option<Fit>,
}

impl<'a> TenantResult<'a> {
    /// The tenant's name.
    pub fn name(&self) -> &'a str {
        &self.tenant.name
    }

    /// What kind of result it is.
    pub fn kind(&self) -> ResultKind {
        self.tenant.kind
    }

    /// Names of the classes of the tenant's first output that has any.
    pub fn labels(&self) -> &'a [String] {
        let mut labels = self.tenant.outputs.iter().map(|p| &p.labels[..]);
        labels.find(|l| !l.is_empty()).unwrap_or_default()
    }

    /// Pictures in the tenant's batch; crops are pictures.
    pub fn images(&self) -> usize {
        self.tenant.pictures()
    }

    fn bytes(&self, port: usize) -> &'a [u8] {
        let Some(&Place { offset, bytes }) = self.places.get(port) else {
            return &[];
        };
        match self.source {
            Source::Slot(prepared, slot) | Source::Earlier(prepared, slot) => prepared.output(slot, offset, bytes).unwrap_or_default(),
            Source::Saved(all) => all.get(offset..).and_then(|rest| rest.get(..bytes)).unwrap_or_default(),
            Source::Part(base, part) => {
                let rest = offset.checked_sub(base).and_then(|at| part.get(at..));
                rest.and_then(|rest| rest.get(..bytes)).unwrap_or_default()
            }
            Source::Nothing => &[],
        }
    }

    /// Address in the GPU's memory of an output's bytes, valid until the ticket is released: of a tenant that the GPU computed
    /// in this frame. What is repeated from an earlier frame is in the host's memory alone.
    pub fn device_address(&self, port: usize) -> Option<u64> {
        let place = self.places.get(port)?;
        match self.source {
            Source::Slot(prepared, slot) if self.computed => prepared.device_output(slot, place.offset, place.bytes),
            _ => None,
        }
    }

    /// True if the result's bytes stay as they are, where they are, until the ticket is released. False for a result of an
    /// earlier frame that stands in for one that is not there yet.
    pub fn is_settled(&self) -> bool {
        matches!(self.source, Source::Slot(..))
    }

    /// The same result, copied into `room`; what does not fit is missing. [`super::Engine::result_bytes`] says how much fits
    /// every result of a tenant.
    pub fn copied<'b>(&self, room: &'b mut [u8]) -> TenantResult<'b>
    where
        'a: 'b,
    {
        let base = extent(self.places).start;
        for (port, place) in self.places.iter().enumerate() {
            let to = place.offset - base.min(place.offset);
            if let Some(to) = room.get_mut(to..).and_then(|rest| rest.get_mut(..place.bytes)) {
                let from = self.bytes(port);
                let bytes = from.len().min(to.len());
                to[..bytes].copy_from_slice(&from[..bytes]);
            }
        }
        TenantResult {
            source: match self.source {
                Source::Nothing => Source::Nothing,
                _ => Source::Part(base, room),
            },
            ..*self
        }
    }

    fn ports(&self, role: Role) -> impl Iterator<Item = (usize, &'a Port)> + use<'a> {
        let outputs = &self.tenant.outputs;
        outputs.iter().enumerate().filter(move |(_, p)| p.role == role)
    }

    /// The objects in all pictures of the batch, best first in each picture.
    pub fn detections(&self) -> impl Iterator<Item = Detection> + use<'a> {
        let result = *self;
        (0..self.images()).flat_map(move |image| result.detections_of(image))
    }

    /// The objects in one picture of the batch, best first; none where there is no such picture.
    pub fn detections_of(&self, image: usize) -> impl Iterator<Item = Detection> + use<'a> {
        let of = |role| {
            self.ports(role)
                .find(|(_, p)| usize::from(p.image) == image)
                .map(|(i, _)| self.bytes(i))
        };
        let rows = of(Role::Detections).unwrap_or_default();
        let count = of(Role::Count).and_then(|b| word(b, 0)).map_or(0, i32::from_ne_bytes);
        // A count beyond the rows gives all rows, a negative one none.
        let count = usize::try_from(count).unwrap_or(0);
        rows.chunks_exact(DETECTION_BYTES).take(count).map(detection)
    }

    /// What the crops of the batch show, best first; empty crops are left out. `None` for a tenant whose pictures are not
    /// crops of detections.
    pub fn crops(&self) -> Option<impl Iterator<Item = Crop> + use<'a>> {
        self.tenant.crop_rows()?;
        let of = |role| self.ports(role).next().map_or(&[][..], |(i, _)| self.bytes(i));
        let rows = of(Role::CropRows)
            .chunks_exact(4)
            .filter_map(|b| word(b, 0))
            .map(i32::from_ne_bytes);
        let detections = of(Role::Detections).chunks_exact(DETECTION_BYTES).map(detection);
        let crop = |(image, (row, detection))| {
            let row = usize::try_from(row).ok()?;
            Some(Crop { image, row, detection })
        };
        Some(rows.zip(detections).enumerate().filter_map(crop))
    }

    /// The best classes of one picture of the batch with their scores, best first.
    pub fn top(&self, image: usize) -> impl Iterator<Item = (u32, f32)> + use<'a> {
        let row = |role| -> &'a [u8] {
            let Some((index, port)) = self.ports(role).next() else {
                return &[];
            };
            let shape = port.view.layout.shape;
            let k = if shape.rank() == 0 { 1 } else { shape.dim(shape.rank() - 1) } as usize;
            self.bytes(index).chunks_exact(k.max(1) * 4).nth(image).unwrap_or_default()
        };
        let classes = row(Role::TopIndices)
            .chunks_exact(4)
            .filter_map(|b| word(b, 0))
            .map(i32::from_ne_bytes);
        let scores = row(Role::TopValues)
            .chunks_exact(4)
            .filter_map(|b| word(b, 0))
            .map(f32::from_ne_bytes);
        classes.map(|c| u32::try_from(c).unwrap_or(0)).zip(scores)
    }

    /// The label maps of all heads and pictures.
    pub fn maps(&self) -> impl Iterator<Item = LabelMap<'a>> + use<'a> {
        let result = *self;
        self.ports(Role::LabelMap).filter_map(move |(index, port)| {
            let data = result.bytes(index);
            let shape = port.view.layout.shape;
            let (height, width) = (shape.dim(shape.rank().checked_sub(2)?), shape.dim(shape.rank() - 1));
            let (height, width) = (height as usize, width as usize);
            Some(LabelMap {
                port: index,
                name: &port.name,
                image: usize::from(port.image),
                width,
                height,
                labels: &port.labels,
                data: data.get(..width.checked_mul(height)?)?,
                fit: port.fit,
            })
        })
    }

    /// All outputs as they are: bytes in C order, native endian; empty where there is no result.
    pub fn tensors(&self) -> impl Iterator<Item = (&'a Port, &'a [u8])> + use<'a> {
        let result = *self;
        self.tenant
            .outputs
            .iter()
            .enumerate()
            .map(move |(index, port)| (port, result.bytes(index)))
    }
}

/// Bytes of a detection: box, score and class as f32.
const DETECTION_BYTES: usize = 24;

/// A detection from the bytes of its row.
fn detection(row: &[u8]) -> Detection {
    let value = |i| word(row, i).map_or(0.0, f32::from_ne_bytes);
    Detection {
        bounds: [value(0), value(1), value(2), value(3)],
        score: value(4),
        class: value(5) as u32,
    }
}

/// Word `index` of `bytes`, wherever they are aligned.
fn word(bytes: &[u8], index: usize) -> Option<[u8; 4]> {
    bytes.get(index * 4..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::BufferId;
    use crate::plan::format::View;
    use crate::task::{Rate, Urgency};
    use crate::tensor::{DType, Layout, Shape};

    fn port(role: Role, dtype: DType, dims: &[u32]) -> Port {
        Port {
            name: "head".into(),
            image: 0,
            role,
            view: View {
                buffer: BufferId(0),
                origin: 0,
                dtype,
                layout: Layout::contiguous(Shape::new(dims).unwrap()),
            },
            labels: vec!["road".into()],
            fit: None,
            widened: false,
        }
    }

    fn tenant(outputs: Vec<Port>) -> Tenant {
        Tenant {
            name: "scout".into(),
            model: "m".into(),
            cameras: vec![],
            rate: Rate::EVERY_FRAME,
            urgency: Urgency {
                priority: 0,
                deadline: None,
            },
            kind: ResultKind::Detection,
            sources: vec![],
            inputs: vec![],
            outputs,
        }
    }

    fn result<'a>(tenant: &'a Tenant, places: &'a [Place], bytes: &'a [u8]) -> TenantResult<'a> {
        TenantResult {
            status: Status::Fresh,
            of_frame: 0,
            tenant,
            places,
            source: Source::Saved(bytes),
            computed: false,
        }
    }

    /// A boundary-free layout: ports one after another, from an odd byte so that nothing is aligned.
    fn places(tenant: &Tenant) -> Vec<Place> {
        let mut offset = 1;
        let place = |p: &Port| {
            let bytes = (p.view.layout.shape.elements() * p.view.dtype.bytes()) as usize;
            offset += bytes;
            Place {
                offset: offset - bytes,
                bytes,
            }
        };
        tenant.outputs.iter().map(place).collect()
    }

    #[test]
    fn detections_stop_at_the_count_and_survive_any_contents() {
        let tenant = tenant(vec![
            port(Role::Detections, DType::F32, &[2, 6]),
            port(Role::Count, DType::I32, &[1]),
        ]);
        let places = places(&tenant);
        let rows = [
            [1.0f32, 2.0, 3.0, 4.0, 0.5, 2.0],
            [f32::NAN, 0.0, f32::INFINITY, 0.0, f32::NAN, -7.0],
        ];
        for (count, seen) in [(0, 0), (1, 1), (2, 2), (3, 2), (i32::MAX, 2), (-1, 0), (i32::MIN, 0)] {
            let mut bytes = vec![0];
            rows.iter().flatten().for_each(|v| bytes.extend(v.to_ne_bytes()));
            bytes.extend(i32::to_ne_bytes(count));
            let result = result(&tenant, &places, &bytes);
            let found: Vec<Detection> = result.detections().collect();
            assert_eq!(found.len(), seen, "count {count}");
            if let Some(first) = found.first() {
                let bounds = [1.0, 2.0, 3.0, 4.0];
                let expected = Detection {
                    class: 2,
                    score: 0.5,
                    bounds,
                };
                assert_eq!(*first, expected);
            }
            assert_eq!(result.detections_of(1).count(), 0);
            assert_eq!((result.top(0).count(), result.maps().count()), (0, 0));
            assert_eq!(result.labels(), ["road"]);
        }
        // Bytes that are missing are no result.
        assert_eq!(result(&tenant, &places, &[0; 20]).detections().count(), 0);
        assert_eq!(result(&tenant, &[], &[]).tensors().map(|(_, b)| b.len()).sum::<usize>(), 0);
    }

    #[test]
    fn crops_name_their_detections_and_survive_any_contents() {
        let tenant = tenant(vec![
            port(Role::TopValues, DType::F32, &[3, 1]),
            port(Role::TopIndices, DType::I32, &[3, 1]),
            port(Role::CropRows, DType::I32, &[3]),
            port(Role::Detections, DType::F32, &[3, 6]),
        ]);
        let places = places(&tenant);
        let mut bytes = vec![0];
        [0.9f32, 0.8, 0.7].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
        [5i32, 6, 7].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
        [40i32, i32::MIN, 2].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
        let rows = [[1.0f32, 2.0, 3.0, 4.0, 0.5, 1.0], [0.0; 6], [f32::NAN; 6]];
        rows.iter().flatten().for_each(|v| bytes.extend(v.to_ne_bytes()));
        let found = result(&tenant, &places, &bytes);
        let crops: Vec<Crop> = found.crops().unwrap().collect();
        assert_eq!((found.images(), crops.len()), (3, 2));
        let detection = Detection {
            class: 1,
            score: 0.5,
            bounds: [1.0, 2.0, 3.0, 4.0],
        };
        let expected = Crop {
            image: 0,
            row: 40,
            detection,
        };
        assert_eq!(crops[0], expected);
        assert_eq!((crops[1].image, crops[1].row, crops[1].detection.class), (2, 2, 0));
        assert_eq!(found.top(crops[1].image).collect::<Vec<_>>(), [(7, 0.7)]);
        // Bytes that are missing are no crop, and neither are pictures that are none.
        assert_eq!(result(&tenant, &places, &bytes[..40]).crops().unwrap().count(), 0);
        assert!(result(&super::tests::tenant(vec![]), &[], &[]).crops().is_none());
    }

    #[test]
    fn top_gives_the_row_of_its_picture_and_maps_their_pixels() {
        let tenant = tenant(vec![
            port(Role::TopValues, DType::F32, &[2, 2]),
            port(Role::TopIndices, DType::I32, &[2, 2]),
            port(Role::LabelMap, DType::U8, &[1, 2, 3]),
        ]);
        let places = places(&tenant);
        let mut bytes = vec![0];
        [0.9f32, 0.1, 0.7, 0.3].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
        [5i32, -1, 8, 0].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
        bytes.extend([0, 1, 2, 3, 4, 5]);
        let result = result(&tenant, &places, &bytes);
        assert_eq!(result.top(0).collect::<Vec<_>>(), [(5, 0.9), (0, 0.1)]);
        assert_eq!(result.top(1).collect::<Vec<_>>(), [(8, 0.7), (0, 0.3)]);
        assert_eq!(result.top(2).count(), 0);
        let map = result.maps().next().unwrap();
        assert_eq!((map.width, map.height, map.data), (3, 2, &[0, 1, 2, 3, 4, 5][..]));
    }
}
