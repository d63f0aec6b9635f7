//! From the engine's typed views, which die with their slot, to records that stay.

use super::labels;
use super::names::file_parts;
use super::results::{ClassRecord, CropRecord, DetectionRecord, ItemRecord, MapRecord, Output, TenantRecord, TensorRecord};
use crate::plan::format::{Digest, Plan, Tenant};
use crate::primitive::Fit;
use crate::runtime::{self, TenantResult};
use crate::task::{ResultKind, Status};

/// Records tenants' results frame by frame, and repeats the last record of a tenant that has no newer result.
pub struct Recorder {
    /// The tenants' parts of the names of label maps; `None` where those are not written.
    masks: Option<Vec<String>>,
    last: Vec<Option<TenantRecord>>,
}

/// What is known of each camera's newest picture, in table order.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// The frame it was given in.
    pub frame: u64,
}

impl Recorder {
    /// A recorder for the tenants of `plan`; with `masks`, label maps are given the files they will be written to.
    pub fn new(plan: &Plan, masks: bool) -> Recorder {
        Recorder {
            masks: masks.then(|| file_parts(plan.tenants.iter().map(|t| t.name.as_str()))),
            last: plan.tenants.iter().map(|_| None).collect(),
        }
    }

    /// The record of tenant number `index` of `plan`.
    ///
    /// A result of a frame that was recorded before is that record again, under its own status.
    pub fn record(&mut self, plan: &Plan, index: usize, result: &TenantResult<'_>, newest: &[Option<Newest>]) -> TenantRecord {
        let tenant = &plan.tenants[index];
        let of = |status, of_frame, output| TenantRecord {
            name: tenant.name.clone(),
            status,
            of_frame,
            output,
        };
        if result.status == Status::None {
            return of(Status::None, None, empty(tenant.kind));
        }
        let (status, of_frame) = (result.status, result.of_frame);
        if let Some(last) = self.last[index].as_ref().filter(|last| last.of_frame == Some(of_frame)) {
            return TenantRecord { status, ..last.clone() };
        }
        let mut record = of(status, Some(of_frame), output(plan, tenant, result, newest));
        if let Some(parts) = &self.masks {
            name_masks(&mut record, &parts[index], of_frame);
        }
        self.last[index] = Some(record.clone());
        record
    }
}

/// Names the file of each label map: `masks/<frame>.<tenant>.png`, or `masks/<frame>.<tenant>.<map>.png` where there are several.
fn name_masks(record: &mut TenantRecord, tenant: &str, frame: u64) {
    if let Output::Maps(maps) = &mut record.output {
        let parts = file_parts(maps.iter().map(|m| m.name.as_str()));
        for (map, part) in maps.iter_mut().zip(&parts) {
            map.file = Some(match parts.as_slice() {
                [_] => format!("masks/{frame:04}.{tenant}.png"),
                _ => format!("masks/{frame:04}.{tenant}.{part}.png"),
            });
        }
    }
}

fn empty(kind: ResultKind) -> Output {
    match kind {
        ResultKind::Detection => Output::Detections(Vec::new()),
        ResultKind::Segmentation => Output::Maps(Vec::new()),
        ResultKind::Classification => Output::Items(Vec::new()),
        ResultKind::Tensors => Output::Tensors(Vec::new()),
    }
}

fn output(plan: &Plan, tenant: &Tenant, result: &TenantResult<'_>, newest: &[Option<Newest>]) -> Output {
    let label = |class: u32| result.labels().get(class as usize).cloned().unwrap_or_default();
    let images = || tenant.cameras.iter().map(|c| c.index()).enumerate();
    match tenant.kind {
        ResultKind::Detection => {
            let of = |(image, camera)| {
                result.detections_of(image).map(move |d| DetectionRecord {
                    camera,
                    class: d.class,
                    label: label(d.class),
                    score: d.score,
                    bounds: d.bounds,
                })
            };
            Output::Detections(images().flat_map(of).collect())
        }
        ResultKind::Segmentation => Output::Maps(maps(plan, tenant, result, newest)),
        ResultKind::Classification => {
            let class = |(class, score)| ClassRecord {
                class,
                label: label(class),
                score,
            };
            let item = |image, camera, crop| ItemRecord {
                camera,
                crop,
                top: result.top(image).map(class).collect(),
            };
            let Some(crops) = result.crops() else {
                return Output::Items(images().map(|(image, camera)| item(image, camera, None)).collect());
            };
            let camera = tenant.cameras.first().map_or(0, |c| c.index());
            let of = |crop: runtime::Crop| {
                let record = CropRecord {
                    detection: crop.row,
                    class: crop.detection.class,
                    bounds: crop.detection.bounds,
                };
                item(crop.image, camera, Some(record))
            };
            Output::Items(crops.map(of).collect())
        }
        ResultKind::Tensors => {
            let tensors = result.tensors().map(|(port, bytes)| TensorRecord {
                name: port.name.clone(),
                shape: port.view.layout.shape.dims().to_vec(),
                dtype: port.view.dtype.name(),
                digest: Digest::of(bytes).to_string(),
            });
            Output::Tensors(tensors.collect())
        }
    }
}

fn maps(plan: &Plan, tenant: &Tenant, result: &TenantResult<'_>, newest: &[Option<Newest>]) -> Vec<MapRecord> {
    let mut records = Vec::new();
    for map in result.maps() {
        let (Ok(width), Ok(height)) = (u32::try_from(map.width), u32::try_from(map.height)) else {
            continue;
        };
        let camera = tenant.cameras.get(map.image).map_or(0, |c| c.index());
        let size = newest.get(camera).copied().flatten().map_or((width, height), |n| n.size);
        let fit = map.fit.unwrap_or(Fit::Stretch);
        let Some(pixels) = labels::to_source(map.data, (width, height), fit, size) else {
            continue;
        };
        let camera_name = plan.cameras.get(camera).map_or("", |c| c.name.as_str());
        records.push(MapRecord {
            name: if tenant.cameras.len() > 1 {
                format!("{}/{camera_name}", map.name)
            } else {
                map.name.to_string()
            },
            camera,
            labels: map.labels.into(),
            fractions: labels::fractions(&pixels, map.labels.len()),
            file: None,
            size,
            pixels: pixels.into(),
        });
    }
    records
}
