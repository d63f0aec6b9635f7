//! shim
use crate::ids::*;
use super::format::Plan;
pub struct Table { pub slots: u16, pub default: String }
pub struct CheckedPlan(pub Plan);
impl std::ops::Deref for CheckedPlan { type Target = Plan; fn deref(&self) -> &Plan { &self.0 } }
pub struct Deployment { pub table: Table, pub plans: Vec<CheckedPlan>, pub files: Vec<Vec<u8>> }
#[derive(Debug, thiserror::Error)]
#[error("load")]
pub struct LoadError;
impl Deployment {
    pub fn load(_dir: &std::path::Path) -> Result<Deployment, LoadError> { Err(LoadError) }
    pub fn assemble(table: Table, plans: Vec<Plan>, files: Vec<Vec<u8>>) -> Result<Deployment, LoadError> {
        Ok(Deployment { table, plans: plans.into_iter().map(CheckedPlan).collect(), files })
    }
    pub fn section(&self, plan: PlanId, section: SectionId) -> &[u8] {
        let s = &self.plans[plan.index()].sections[section.index()];
        &self.files[s.file as usize][s.offset as usize..(s.offset + s.bytes) as usize]
    }
}
