//! All weights of a deployment on the device: sections as they are in their files, and packings, each once for all plans.

use super::bind::{Area, PackId, Packs};
use super::error::CudaError;
use super::memory::{Account, Parts};
use super::raw::{DeviceMemory, Stream};
use crate::ids::{PlanId, SectionId};
use crate::plan::deployment::Deployment;
use crate::plan::format::{Digest, Plan};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

/// How often it is asked whether a copy has ended.
const NAP: Duration = Duration::from_micros(50);

/// The weights.
pub struct Weights {
    /// Per plan, its sections.
    pub sections: Vec<Vec<Area>>,
    /// What is on the device.
    pub uploaded: Uploaded,
}

/// Sections and packings on the device; a clone shares them.
#[derive(Clone, Default)]
pub struct Uploaded {
    known: BTreeMap<(Digest, u64, u64), Area>,
    /// The packings, by number.
    pub packs: Vec<Area>,
    memory: Vec<Arc<DeviceMemory>>,
}

impl Weights {
    /// Uploads in the root's order what is not `there` yet, the packings behind those that are, and waits for it.
    pub fn upload(
        deployment: &Deployment,
        packs: &Packs,
        there: Uploaded,
        root: &Stream,
        account: &mut Account,
    ) -> Result<Weights, CudaError> {
        let mut uploaded = there;
        let mut keys = Vec::new();
        let mut contents: Vec<&[u8]> = Vec::new();
        for (p, plan) in deployment.plans.iter().enumerate() {
            for s in 0..plan.sections.len() {
                let key = key(plan, s);
                if let Entry::Vacant(place) = uploaded.known.entry(key) {
                    place.insert(Area::default());
                    contents.push(deployment.section(PlanId(p as u16), SectionId(s as u32)));
                    keys.push(key);
                }
            }
        }
        let (areas, memory) = upload(account, root, "weights", &contents)?;
        uploaded.known.extend(keys.into_iter().zip(areas));
        uploaded.memory.push(memory);
        let (numbers, contents): (Vec<PackId>, Vec<&[u8]>) = packs.behind(uploaded.packs.len()).unzip();
        let (areas, memory) = upload(account, root, "packed weights", &contents)?;
        uploaded.packs.resize(packs.bytes().len(), Area::default());
        numbers.iter().zip(areas).for_each(|(id, area)| uploaded.packs[id.0] = area);
        uploaded.memory.push(memory);
        let of_plan = |plan: &Plan| (0..plan.sections.len()).map(|s| uploaded.known[&key(plan, s)]).collect();
        Ok(Weights {
            sections: deployment.plans.iter().map(|p| of_plan(p)).collect(),
            uploaded,
        })
    }
}

/// What a section is known by.
fn key(plan: &Plan, section: usize) -> (Digest, u64, u64) {
    let section = &plan.sections[section];
    (plan.weight_files[section.file as usize].digest, section.offset, section.bytes)
}

/// Uploads contents one behind the other: where each lies, and the memory.
fn upload(
    account: &mut Account,
    root: &Stream,
    what: &'static str,
    contents: &[&[u8]],
) -> Result<(Vec<Area>, Arc<DeviceMemory>), CudaError> {
    let mut parts = Parts::default();
    contents.iter().for_each(|bytes| {
        parts.push(bytes.len() as u64);
    });
    let memory = account.device(what, parts.bytes())?;
    for (number, bytes) in contents.iter().enumerate() {
        memory.write(parts.offset(number), bytes, root)?;
    }
    while !root.is_idle()? {
        std::thread::sleep(NAP);
    }
    let areas = (0..parts.count()).map(|n| parts.area(memory.area(), n)).collect();
    Ok((areas, Arc::new(memory)))
}
