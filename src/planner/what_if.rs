//! Task sets as they might be: one tenant fewer, more pictures, another board. What that does to a frame is for a compilation to say.

use super::tasks::{CameraSpec, Tasks};
use crate::limits::MAX_CAMERAS;
use std::str::FromStr;

/// A change of a task set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Without a tenant.
    Drop(String),
    /// With so many pictures, or crops, in a tenant's batch.
    Batch(String, u32),
    /// On another board, by its name or file.
    Board(String),
}

/// Why a task set cannot be changed so.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// It says something else than a change.
    #[error("`{0}` is no change: say drop:TENANT, batch:TENANT:N or board:NAME")]
    Words(String),
    /// No tenant has the name.
    #[error("there is no tenant `{name}`; there are {known}")]
    Tenant {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Another tenant reads what the dropped one finds.
    #[error("`{reader}` reads what `{name}` finds: drop it too")]
    Source {
        /// The dropped tenant.
        name: String,
        /// Who reads it.
        reader: String,
    },
    /// It is the only tenant.
    #[error("`{0}` is the only tenant")]
    Last(String),
    /// Its network takes tensors.
    #[error("`{0}` has neither cameras nor crops: its batch is its network's")]
    Pictures(String),
    /// More pictures than a plan has cameras.
    #[error("`{name}` cannot have {count} pictures: a plan has at most {MAX_CAMERAS} cameras")]
    Cameras {
        /// The tenant.
        name: String,
        /// What was asked for.
        count: u32,
    },
}

impl FromStr for Change {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<Change, ChangeError> {
        let wrong = || ChangeError::Words(text.to_string());
        let (what, of) = text.split_once(':').filter(|(_, of)| !of.is_empty()).ok_or_else(wrong)?;
        match what {
            "drop" => Ok(Change::Drop(of.to_string())),
            "board" => Ok(Change::Board(of.to_string())),
            "batch" => {
                let (name, count) = of.rsplit_once(':').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
                let count = count.parse().ok().filter(|&n| n > 0).ok_or_else(wrong)?;
                Ok(Change::Batch(name.to_string(), count))
            }
            _ => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Change::Drop(name) => write!(f, "drop:{name}"),
            Change::Batch(name, count) => write!(f, "batch:{name}:{count}"),
            Change::Board(name) => write!(f, "board:{name}"),
        }
    }
}

impl Change {
    /// The task file with the task set `set` changed; a change of the board leaves it as it is. Further pictures of a tenant come
    /// from cameras like its last one.
    pub fn apply(&self, tasks: &Tasks, set: &str) -> Result<Tasks, ChangeError> {
        let mut changed = tasks.clone();
        let Some(own) = changed.sets.get_mut(set) else {
            return Ok(changed);
        };
        let find = |name: &String| {
            let at = own.tenants.iter().position(|t| t.name == *name);
            at.ok_or_else(|| ChangeError::Tenant {
                name: name.clone(),
                known: own.tenants.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", "),
            })
        };
        match self {
            Change::Board(_) => {}
            Change::Drop(name) => {
                let at = find(name)?;
                if let Some(reader) = own.tenants.iter().find(|t| t.sources.contains(name)) {
                    return Err(ChangeError::Source {
                        name: name.clone(),
                        reader: reader.name.clone(),
                    });
                }
                if own.tenants.len() == 1 {
                    return Err(ChangeError::Last(name.clone()));
                }
                own.tenants.remove(at);
            }
            Change::Batch(name, count) => {
                let at = find(name)?;
                let tenant = &mut own.tenants[at];
                if let Some(crops) = &mut tenant.card.input.crops {
                    crops.count = Some(*count);
                    return Ok(changed);
                }
                let last = tenant.cameras.last().cloned().ok_or_else(|| ChangeError::Pictures(name.clone()))?;
                if *count as usize > MAX_CAMERAS {
                    return Err(ChangeError::Cameras {
                        name: name.clone(),
                        count: *count,
                    });
                }
                let like = changed.cameras.iter().find(|c| c.name == last).cloned();
                tenant.cameras.truncate(*count as usize);
                for number in tenant.cameras.len() + 1..=*count as usize {
                    let camera = format!("{last}, {number}");
                    tenant.cameras.push(camera.clone());
                    let known = changed.cameras.iter().any(|c| c.name == camera);
                    changed.cameras.extend(like.iter().filter(|_| !known).map(|like| CameraSpec {
                        name: camera.clone(),
                        ..like.clone()
                    }));
                }
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn tasks() -> Tasks {
        Tasks::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/tasks.toml")).unwrap()
    }

    fn change(text: &str, set: &str) -> Result<Tasks, ChangeError> {
        text.parse::<Change>()?.apply(&tasks(), set)
    }

    #[test]
    fn changes_are_told_as_they_are_read() {
        for text in ["drop:scout", "batch:scout:2", "board:boards/jetson-agx-orin.toml"] {
            assert_eq!(text.parse::<Change>().unwrap().to_string(), text);
        }
        for wrong in ["", "drop", "drop:", "batch:scout", "batch:scout:0", "batch::2", "rate:scout:2"] {
            assert_eq!(wrong.parse::<Change>(), Err(ChangeError::Words(wrong.into())), "{wrong}");
        }
    }

    #[test]
    fn a_tenant_is_dropped_unless_somebody_reads_it() {
        let names = |tasks: &Tasks| tasks.sets["urban"].tenants.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&change("drop:signal", "urban").unwrap()), ["scout", "surface"]);
        let reader = "signal".to_string();
        assert_eq!(
            change("drop:scout", "urban"),
            Err(ChangeError::Source {
                name: "scout".into(),
                reader
            })
        );
        assert!(matches!(change("drop:lidar", "urban"), Err(ChangeError::Tenant { .. })));
        let mut one = change("drop:surface", "highway").unwrap();
        assert_eq!(
            Change::Drop("scout".into()).apply(&one, "highway"),
            Err(ChangeError::Last("scout".into()))
        );
        one.sets.clear();
        assert_eq!(Change::Drop("scout".into()).apply(&one, "highway"), Ok(one));
    }

    #[test]
    fn more_pictures_come_from_more_cameras_or_crops() {
        let wider = change("batch:surface:3", "urban").unwrap();
        let surface = &wider.sets["urban"].tenants[1];
        assert_eq!(surface.cameras, ["front", "front, 2", "front, 3"]);
        assert!(
            surface
                .cameras
                .iter()
                .all(|name| wider.cameras.iter().filter(|c| c.name == *name).count() == 1)
        );
        let many = change("batch:surface:999999999", "urban").unwrap_err();
        assert_eq!(
            many.to_string(),
            "`surface` cannot have 999999999 pictures: a plan has at most 16 cameras"
        );
        let crops = change("batch:signal:2", "urban").unwrap();
        assert_eq!(crops.sets["urban"].tenants[2].card.input.crops.as_ref().unwrap().count, Some(2));
    }
}
