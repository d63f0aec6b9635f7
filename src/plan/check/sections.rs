//! P7: weight sections lie in their files, aligned. That the files match their digests is checked where they are read.

use crate::ids::SectionId;
use crate::plan::format::Plan;

/// A weight section is not inside its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionError {
    /// It starts where no section may.
    #[error("weight section {0} starts at no multiple of 64 bytes")]
    Alignment(SectionId),
    /// It ends after its file.
    #[error("weight section {0} ends after its file")]
    Outside(SectionId),
}

pub(super) fn check(plan: &Plan) -> Result<(), SectionError> {
    for (i, section) in plan.sections.iter().enumerate() {
        let id = SectionId(i as u32);
        if !section.offset.is_multiple_of(64) {
            return Err(SectionError::Alignment(id));
        }
        let end = section.offset.checked_add(section.bytes);
        if end.is_none_or(|end| end > plan.weight_files[section.file as usize].bytes) {
            return Err(SectionError::Outside(id));
        }
    }
    Ok(())
}
