//! All weights of a deployment on the device: sections as they are in their files, and packings, each once for all plans.

use super::bind::{Area, Packs};
use super::error::CudaError;
use super::memory::{Account, Parts};
use super::raw::{DeviceMemory, Stream};
use crate::ids::{PlanId, SectionId};
use crate::plan::deployment::Deployment;
use crate::plan::format::Digest;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often it is asked whether a copy has ended.
const NAP: Duration = Duration::from_micros(50);

/// The weights.
pub struct Weights {
    /// Per plan, its sections.
    pub sections: Vec<Vec<Area>>,
    /// The packings, by number.
    pub packs: Vec<Area>,
    _memory: [DeviceMemory; 2],
}

impl Weights {
    /// Uploads them in the root's order, and waits for it.
    pub fn upload(deployment: &Deployment, packs: &Packs, root: &Stream, account: &mut Account) -> Result<Weights, CudaError> {
        let mut parts = Parts::default();
        let mut known: BTreeMap<(Digest, u64, u64), usize> = BTreeMap::new();
        let mut contents: Vec<&[u8]> = Vec::new();
        let mut numbers: Vec<Vec<usize>> = Vec::new();
        for (p, plan) in deployment.plans.iter().enumerate() {
            let mut of_plan = Vec::with_capacity(plan.sections.len());
            for (s, section) in plan.sections.iter().enumerate() {
                let file = plan.weight_files[section.file as usize].digest;
                let number = *known.entry((file, section.offset, section.bytes)).or_insert_with(|| {
                    contents.push(deployment.section(PlanId(p as u16), SectionId(s as u32)));
                    parts.push(section.bytes)
                });
                of_plan.push(number);
            }
            numbers.push(of_plan);
        }
        let plain = upload(account, root, "weights", &parts, &contents)?;
        let mut packed = Parts::default();
        let contents: Vec<&[u8]> = packs.bytes().iter().map(Vec::as_slice).collect();
        contents.iter().for_each(|bytes| {
            packed.push(bytes.len() as u64);
        });
        let packings = upload(account, root, "packed weights", &packed, &contents)?;
        let area = |&n: &usize| parts.area(plain.area(), n);
        Ok(Weights {
            sections: numbers.iter().map(|plan| plan.iter().map(area).collect()).collect(),
            packs: (0..packed.count()).map(|n| packed.area(packings.area(), n)).collect(),
            _memory: [plain, packings],
        })
    }
}

fn upload(account: &mut Account, root: &Stream, what: &'static str, parts: &Parts, contents: &[&[u8]]) -> Result<DeviceMemory, CudaError> {
    let memory = account.device(what, parts.bytes())?;
    for (number, bytes) in contents.iter().enumerate() {
        memory.write(parts.offset(number), bytes, root)?;
    }
    while !root.is_idle()? {
        std::thread::sleep(NAP);
    }
    Ok(memory)
}
