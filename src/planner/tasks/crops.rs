//! Which detections a tenant's crops show: the card's wish and the tenant's sources, brought together.

use super::TenantSpec;
use crate::planner::card::Decode;

/// A tenant's crops, resolved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CropsOf {
    /// The position of the detecting tenant among those before this one.
    pub source: usize,
    /// Which picture of its batch.
    pub image: u16,
    /// Bit set of the classes that are cut out.
    pub classes: u64,
    /// Share of its width and height by which a box is enlarged on each side.
    pub margin: f32,
}

/// Why a tenant's crops cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CropsError {
    /// None or several tenants could be meant.
    #[error("tenant `{tenant}` takes crops of detections, but has {found} `sources`: name the one tenant that detects")]
    Sources {
        /// The tenant.
        tenant: String,
        /// How many it names.
        found: usize,
    },
    /// The source does not detect, or does not stand before the tenant.
    #[error("tenant `{tenant}` takes crops of detections, which its source `{source_tenant}` does not make")]
    Detector {
        /// The tenant.
        tenant: String,
        /// Its source.
        source_tenant: String,
    },
    /// A class that the source does not know.
    #[error("tenant `{tenant}` takes crops of `{label}`, which is no class of its source; there are: {known}")]
    Label {
        /// The tenant.
        tenant: String,
        /// The class it wants.
        label: String,
        /// The source's classes.
        known: String,
    },
    /// A class with too high a number.
    #[error("tenant `{tenant}` takes crops of `{label}`, class {class} of its source: only classes below 64 can be cut out")]
    Class {
        /// The tenant.
        tenant: String,
        /// The class it wants.
        label: String,
        /// Its number.
        class: usize,
    },
    /// Not the picture that the detections belong to.
    #[error("tenant `{tenant}` takes crops of detections: its `cameras` must be one camera of its source, which has: {known}")]
    Camera {
        /// The tenant.
        tenant: String,
        /// The source's cameras.
        known: String,
    },
}

/// Resolves the crops of `tenant`, whose sources are among the tenants `before` it; `None` if its card asks for none.
pub fn resolve(tenant: &TenantSpec, before: &[TenantSpec]) -> Result<Option<CropsOf>, CropsError> {
    let Some(crops) = &tenant.card.input.crops else { return Ok(None) };
    let name = || tenant.name.clone();
    let [source_name] = tenant.sources.as_slice() else {
        return Err(CropsError::Sources {
            tenant: name(),
            found: tenant.sources.len(),
        });
    };
    let no_detector = || CropsError::Detector {
        tenant: name(),
        source_tenant: source_name.clone(),
    };
    let source = before.iter().position(|t| t.name == *source_name).ok_or_else(no_detector)?;
    let Decode::Yolox { labels, .. } = &before[source].card.decode else {
        return Err(no_detector());
    };
    let mut classes = 0u64;
    for label in &crops.classes {
        let class = labels.iter().position(|l| l == label).ok_or_else(|| CropsError::Label {
            tenant: name(),
            label: label.clone(),
            known: labels.join(", "),
        })?;
        let bit = u32::try_from(class).ok().and_then(|c| 1u64.checked_shl(c));
        classes |= bit.ok_or_else(|| CropsError::Class {
            tenant: name(),
            label: label.clone(),
            class,
        })?;
    }
    let cameras = &before[source].cameras;
    let image = match tenant.cameras.as_slice() {
        [camera] => cameras.iter().position(|c| c == camera),
        _ => None,
    };
    let image = image.and_then(|i| u16::try_from(i).ok()).ok_or_else(|| CropsError::Camera {
        tenant: name(),
        known: cameras.join(", "),
    })?;
    Ok(Some(CropsOf {
        source,
        image,
        classes,
        margin: crops.margin,
    }))
}
