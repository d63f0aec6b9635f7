//! Task sets: `tasks.toml`, which networks run side by side in which driving mode, on which cameras, how often, how urgently.
//!
//! ```toml
//! default = "urban"                # the task set that runs unless told otherwise
//! slots = 2                        # frames in flight, optional
//! base_hz = 30                     # frames a second, optional; for predictions of lateness
//!
//! [[cameras]]
//! name = "front"
//! max_width = 1280                 # largest picture it may give, in pixels
//! max_height = 720
//!
//! [[sets.urban.tenants]]
//! name = "scout"
//! model = "models/yolox_nano_416"  # the card or its folder, relative to this file
//! cameras = ["front"]              # one a picture of the batch
//! every = 1                        # runs in the frames f with f % every == phase
//! phase = 0
//! priority = 2                     # 0..=255, higher goes first
//! deadline_ms = 50.0               # optional, from the start of the frame's work
//! sources = []                     # tenants listed before it whose results it reads, due in each of its frames
//! ```

pub mod crops;

use super::card::{Card, Decode};
use super::document::{Document, TomlError};
use crate::limits::{MAX_CAMERAS, MAX_CYCLE, MAX_IMAGE_SIDE, MAX_PLANS, MAX_SLOTS, MAX_TENANTS};
use crate::plan::table::{MAX_PLAN_FILE, plan_file};
use crate::task::{Rate, Urgency};
use crate::units::Nanos;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Frames in flight unless the file says otherwise.
const DEFAULT_SLOTS: u16 = 2;
/// Shortest deadline, in milliseconds: a launch takes a microsecond.
const MIN_DEADLINE_MS: f64 = 0.001;
/// Longest deadline, in milliseconds: one hour, so that times in nanoseconds never overflow.
const MAX_DEADLINE_MS: f64 = 3_600_000.0;

/// A task file, checked, with its cards.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// The file.
    pub path: PathBuf,
    /// The task set that runs unless told otherwise; one of `sets`.
    pub default: String,
    /// Frames in flight, 1..=[`MAX_SLOTS`].
    pub slots: u16,
    /// Frames a second, if given; above 0.
    pub base_hz: Option<f64>,
    /// The cameras, in table order.
    pub cameras: Vec<CameraSpec>,
    /// The task sets by name, at least one.
    pub sets: BTreeMap<String, TaskSetSpec>,
}

/// A camera.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CameraSpec {
    /// Its name.
    pub name: String,
    /// Widest picture it may give, in pixels, 1..=[`MAX_IMAGE_SIDE`].
    pub max_width: u32,
    /// Highest picture it may give, in pixels, 1..=[`MAX_IMAGE_SIDE`].
    pub max_height: u32,
}

/// The tenants active in one driving mode.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSetSpec {
    /// The tenants, at least one; sources stand before those who read them.
    pub tenants: Vec<TenantSpec>,
}

/// One network of a task set.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantSpec {
    /// Its name, unique in its set.
    pub name: String,
    /// Its model card.
    pub card: Card,
    /// The camera of each picture of its batch, each one of [`Tasks::cameras`]; empty for a network fed with tensors.
    pub cameras: Vec<String>,
    /// How often it runs.
    pub rate: Rate,
    /// Priority and deadline.
    pub urgency: Urgency,
    /// Tenants whose results it reads in the same frame, each listed before it.
    pub sources: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TasksTable {
    default: Spanned<String>,
    slots: Option<Spanned<u16>>,
    base_hz: Option<Spanned<f64>>,
    #[serde(default)]
    cameras: Vec<CameraTable>,
    sets: Spanned<BTreeMap<Spanned<String>, Spanned<SetTable>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CameraTable {
    name: Spanned<String>,
    max_width: Spanned<u32>,
    max_height: Spanned<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetTable {
    tenants: Vec<TenantTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TenantTable {
    name: Spanned<String>,
    model: Spanned<String>,
    #[serde(default)]
    cameras: Vec<Spanned<String>>,
    every: Option<Spanned<u16>>,
    phase: Option<Spanned<u16>>,
    #[serde(default)]
    priority: u8,
    deadline_ms: Option<Spanned<f64>>,
    #[serde(default)]
    sources: Vec<Spanned<String>>,
}

impl Tasks {
    /// Reads a task file and the cards it names.
    pub fn load(path: &Path) -> Result<Tasks, TomlError> {
        parse(&Document::read(path)?)
    }
}

fn parse(document: &Document) -> Result<Tasks, TomlError> {
    let table: TasksTable = document.parse()?;
    let slots = table.slots.as_ref().map_or(DEFAULT_SLOTS, |s| *s.get_ref());
    let place = table.slots.as_ref().map_or(0..0, |s| s.span());
    document.need(
        (1..=MAX_SLOTS).contains(&usize::from(slots)),
        &place,
        format!("`slots` must be in 1..={MAX_SLOTS}"),
    )?;
    if let Some(hz) = &table.base_hz {
        let positive = hz.get_ref().is_finite() && *hz.get_ref() > 0.0;
        document.need(positive, &hz.span(), "`base_hz` must be a number above 0")?;
    }
    let cameras = cameras(document, table.cameras)?;
    let place = table.sets.span();
    let tables = table.sets.into_inner();
    let count = format!("`sets` must hold 1 to {MAX_PLANS} task sets");
    document.need((1..=MAX_PLANS).contains(&tables.len()), &place, count)?;
    let mut sets: BTreeMap<String, TaskSetSpec> = BTreeMap::new();
    for (name, set) in tables {
        let span = name.span();
        let name = document.name("sets", name)?;
        let file = plan_file(&name);
        let reason = format!("the name of a task set must leave its plan's file at most {MAX_PLAN_FILE} bytes: make it shorter");
        document.need(file.len() <= MAX_PLAN_FILE, &span, reason)?;
        if let Some(other) = sets.keys().find(|other| plan_file(other.as_str()) == file) {
            let reason = format!("the plans of task sets `{other}` and `{name}` would both be `{file}`: rename one");
            return Err(document.invalid(&span, reason));
        }
        sets.insert(name, task_set(document, set, &cameras)?);
    }
    if !sets.contains_key(table.default.get_ref()) {
        let known: Vec<&str> = sets.keys().map(String::as_str).collect();
        let reason = format!("`default` names no task set; there are {}", known.join(", "));
        return Err(document.invalid(&table.default.span(), reason));
    }
    Ok(Tasks {
        path: document.path().to_owned(),
        default: table.default.into_inner(),
        slots,
        base_hz: table.base_hz.map(Spanned::into_inner),
        cameras,
        sets,
    })
}

fn cameras(document: &Document, tables: Vec<CameraTable>) -> Result<Vec<CameraSpec>, TomlError> {
    let mut cameras: Vec<CameraSpec> = Vec::new();
    for table in tables {
        let place = table.name.span();
        document.need(
            cameras.len() < MAX_CAMERAS,
            &place,
            format!("there are more than {MAX_CAMERAS} cameras"),
        )?;
        for (key, side) in [("max_width", &table.max_width), ("max_height", &table.max_height)] {
            let inside = (1..=MAX_IMAGE_SIDE).contains(side.get_ref());
            document.need(inside, &side.span(), format!("`{key}` must be in 1..={MAX_IMAGE_SIDE}"))?;
        }
        let name = document.file_part("name", table.name)?;
        document.need(
            cameras.iter().all(|c| c.name != name),
            &place,
            format!("there are two cameras `{name}`"),
        )?;
        cameras.push(CameraSpec {
            name,
            max_width: table.max_width.into_inner(),
            max_height: table.max_height.into_inner(),
        });
    }
    Ok(cameras)
}

fn task_set(document: &Document, table: Spanned<SetTable>, cameras: &[CameraSpec]) -> Result<TaskSetSpec, TomlError> {
    let place = table.span();
    let tables = table.into_inner().tenants;
    let count = format!("a task set has 1 to {MAX_TENANTS} tenants");
    document.need((1..=MAX_TENANTS).contains(&tables.len()), &place, count)?;
    let mut tenants = Vec::new();
    for table in tables {
        let tenant = tenant(document, table, cameras, &tenants)?;
        tenants.push(tenant);
    }
    Ok(TaskSetSpec { tenants })
}

fn tenant(document: &Document, table: TenantTable, cameras: &[CameraSpec], before: &[TenantSpec]) -> Result<TenantSpec, TomlError> {
    let place = table.name.span();
    let name = document.file_part("name", table.name)?;
    document.need(
        before.iter().all(|t| t.name != name),
        &place,
        format!("there are two tenants `{name}` in this task set"),
    )?;
    let card = Card::load(&document.locate(table.model.get_ref(), &table.model.span())?)?;
    let fed = !table.cameras.is_empty();
    let reason = format!("tenant `{name}` needs `cameras`: its results are read in pictures");
    document.need(fed || card.decode == Decode::Tensors, &place, reason)?;
    for camera in &table.cameras {
        let known: Vec<&str> = cameras.iter().map(|c| c.name.as_str()).collect();
        let reason = format!("there is no camera `{}`; there are: {}", camera.get_ref(), known.join(", "));
        document.need(known.contains(&camera.get_ref().as_str()), &camera.span(), reason)?;
    }
    for source in &table.sources {
        let known = before.iter().any(|t| t.name == *source.get_ref());
        let reason = format!("no tenant `{}` stands before `{name}` in this task set", source.get_ref());
        document.need(known, &source.span(), reason)?;
    }
    let rate = rate(document, table.every, table.phase)?;
    for source in &table.sources {
        let rare = before.iter().find(|t| t.name == *source.get_ref() && !rate.within(t.rate));
        let reason = format!("`{name}` runs in frames in which its source `{}` does not", source.get_ref());
        document.need(rare.is_none(), &source.span(), reason)?;
    }
    let tenant = TenantSpec {
        rate,
        urgency: Urgency {
            priority: table.priority,
            deadline: deadline(document, table.deadline_ms)?,
        },
        cameras: table.cameras.into_iter().map(Spanned::into_inner).collect(),
        sources: table.sources.into_iter().map(Spanned::into_inner).collect(),
        name,
        card,
    };
    crops::resolve(&tenant, before).map_err(|error| document.invalid(&place, error.to_string()))?;
    Ok(tenant)
}

fn rate(document: &Document, every: Option<Spanned<u16>>, phase: Option<Spanned<u16>>) -> Result<Rate, TomlError> {
    let divisor = every.as_ref().map_or(1, |e| *e.get_ref());
    let place = every.map_or(0..0, |e| e.span());
    document.need(
        (1..=MAX_CYCLE).contains(&usize::from(divisor)),
        &place,
        format!("`every` must be in 1..={MAX_CYCLE}"),
    )?;
    let place = phase.as_ref().map_or(0..0, |p| p.span());
    let phase = phase.map_or(0, Spanned::into_inner);
    document.need(
        phase < divisor,
        &place,
        format!("`phase` must be below `every`, which is {divisor}"),
    )?;
    Ok(Rate { divisor, phase })
}

fn deadline(document: &Document, ms: Option<Spanned<f64>>) -> Result<Option<Nanos>, TomlError> {
    let Some(ms) = ms else { return Ok(None) };
    let inside = (MIN_DEADLINE_MS..=MAX_DEADLINE_MS).contains(ms.get_ref());
    document.need(
        inside,
        &ms.span(),
        format!("`deadline_ms` must be in {MIN_DEADLINE_MS}..={MAX_DEADLINE_MS}"),
    )?;
    Ok(Some(Nanos::from_ms(ms.into_inner())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "default = \"day\"\n[[cameras]]\nname = \"front\"\nmax_width = 640\nmax_height = 480\n";
    const TENANT: &str = "[[sets.day.tenants]]\nname = \"a\"\nmodel = \"card.toml\"\ncameras = [\"front\"]\n";

    #[test]
    fn task_sets_whose_plans_would_be_one_file_are_refused_where_they_stand() {
        let set = |name: &str| TENANT.replace("sets.day", &format!("sets.\"{name}\""));
        let refused = |other: &str| load(&format!("{HEAD}{TENANT}{}", set(other))).unwrap_err().to_string();
        let both = load(&format!("{HEAD}{TENANT}{}{}", set("a/b"), set("a_b")))
            .unwrap_err()
            .to_string();
        assert!(
            both.contains("`a/b`") && both.contains("`a_b`") && both.contains("a_b.plan"),
            "{both}"
        );
        let long = refused(&"q".repeat(186));
        assert!(long.contains("at most 190 bytes") && long.contains("tasks.toml"), "{long}");
        assert!(load(&format!("{HEAD}{TENANT}{}", set(&"q".repeat(185)))).is_ok());
    }

    #[test]
    fn names_that_would_not_fit_in_a_files_name_are_refused_where_they_stand() {
        let named = |name: &str| {
            let tenant = format!("{HEAD}{}", TENANT.replace("\"a\"", &format!("\"{name}\"")));
            let camera = format!("{HEAD}{TENANT}").replace("front", name);
            [tenant, camera]
        };
        for (text, line) in named(&"q".repeat(101)).iter().zip([7, 3]) {
            let (found, reason) = refused(text);
            assert_eq!(found, line, "{reason}");
            assert!(
                reason.contains("1 to 100 bytes") && reason.contains("files are named by it"),
                "{reason}"
            );
        }
        for text in named(&"q".repeat(100)) {
            assert!(load(&text).is_ok());
        }
    }

    fn load(text: &str) -> Result<Tasks, TomlError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("n.onnx"), "").unwrap();
        let card = "name = \"n\"\nonnx = \"n.onnx\"\nsource = \"s\"\nlicence = \"MIT\"\n";
        std::fs::write(folder.path().join("card.toml"), card).unwrap();
        let detector = "[detection]\ndecoder = \"yolox\"\nscore = 0.3\niou = 0.5\nmax = 9\nlabels = [\"car\", \"light\", \"sign\"]\n";
        std::fs::write(folder.path().join("detector.toml"), format!("{card}{detector}")).unwrap();
        let crops = "[input]\ncrops = { classes = [\"sign\", \"light\"], margin = 0.1 }\n[classification]\nk = 1\n";
        std::fs::write(folder.path().join("crops.toml"), format!("{card}{crops}")).unwrap();
        let late = crops.replace("light", "lamp");
        std::fs::write(folder.path().join("lamps.toml"), format!("{card}{late}")).unwrap();
        let path = folder.path().join("tasks.toml");
        std::fs::write(&path, text).unwrap();
        Tasks::load(&path)
    }

    /// Line and reason of the error that `text` gives.
    fn refused(text: &str) -> (usize, String) {
        match load(text) {
            Err(TomlError::Invalid { line, reason, .. }) => (line, reason),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_task_file_is_read_with_its_cards() {
        let second = TENANT.replace("\"a\"", "\"b\"") + "every = 3\nphase = 2\npriority = 9\ndeadline_ms = 1.5\nsources = [\"a\"]\n";
        let tasks = load(&format!("{HEAD}{TENANT}{second}")).unwrap();
        assert_eq!((tasks.slots, tasks.default.as_str(), tasks.cameras.len()), (2, "day", 1));
        let tenants = &tasks.sets["day"].tenants;
        assert_eq!((tenants[0].rate, tenants[0].urgency.deadline), (Rate::EVERY_FRAME, None));
        assert_eq!(tenants[1].rate, Rate { divisor: 3, phase: 2 });
        assert_eq!(
            (tenants[1].urgency.priority, tenants[1].urgency.deadline),
            (9, Some(Nanos(1_500_000)))
        );
        assert_eq!((tenants[1].sources[0].as_str(), tenants[1].card.name.as_str()), ("a", "n"));
    }

    #[test]
    fn what_does_not_fit_together_is_an_error_where_it_stands() {
        assert!(refused(&format!("{HEAD}{TENANT}prioritty = 1\n")).1.contains("`priority`"));
        assert_eq!(refused(&format!("{HEAD}{TENANT}prioritty = 1\n")).0, 10);
        assert_eq!(refused(&format!("{HEAD}{TENANT}every = 2\nphase = 2\n")).0, 11);
        assert_eq!(refused(&format!("{HEAD}{TENANT}every = 0\n")).0, 10);
        for ms in ["nan", "0.0", "1e-9", "1e9"] {
            assert_eq!(refused(&format!("{HEAD}{TENANT}deadline_ms = {ms}\n")).0, 10);
        }
        assert_eq!(refused(&format!("{HEAD}{TENANT}sources = [\"a\"]\n")).0, 10);
        assert_eq!(refused(&format!("{HEAD}{TENANT}{TENANT}")).0, 11);
        assert_eq!(refused(&format!("slots = 99\n{HEAD}{TENANT}")).0, 1);
        let (line, reason) = refused(&format!("{HEAD}{}", TENANT.replace("front", "rear")));
        assert!(line == 9 && reason.contains("front"), "{line} {reason}");
        let (line, reason) = refused(&format!("{HEAD}{TENANT}").replace("\"day\"", "\"night\""));
        assert!(line == 1 && reason.contains("day"), "{line} {reason}");
        assert_eq!(refused(&format!("{HEAD}{}", TENANT.replace("card.toml", "cart.toml"))).0, 8);
    }

    #[test]
    fn crops_are_resolved_against_the_source_and_its_cameras() {
        let head = format!("{HEAD}[[cameras]]\nname = \"rear\"\nmax_width = 64\nmax_height = 48\n");
        let scout = TENANT
            .replace("card.toml", "detector.toml")
            .replace("[\"front\"]", "[\"rear\", \"front\"]");
        let signal = TENANT.replace("\"a\"", "\"b\"").replace("card.toml", "crops.toml");
        let sources = "sources = [\"a\"]\n";
        let tasks = load(&format!("{head}{scout}{signal}{sources}")).unwrap();
        let tenants = &tasks.sets["day"].tenants;
        let crops = crops::resolve(&tenants[1], &tenants[..1]).unwrap().unwrap();
        assert_eq!((crops.source, crops.image, crops.classes, crops.margin), (0, 1, 0b110, 0.1));
        assert_eq!(crops::resolve(&tenants[0], &[]).unwrap(), None);

        let refused = |text: String| {
            let (line, reason) = refused(&text);
            assert_eq!(line, 15, "{reason}");
            reason
        };
        let none = refused(format!("{head}{scout}{signal}"));
        assert!(none.contains("`b`") && none.contains("`sources`"), "{none}");
        let plain = scout.replace("detector.toml", "card.toml");
        let other = refused(format!("{head}{plain}{signal}{sources}"));
        assert!(other.contains("its source `a` does not make"), "{other}");
        let lamps = signal.replace("crops.toml", "lamps.toml");
        let label = refused(format!("{head}{scout}{lamps}{sources}"));
        assert!(label.contains("`lamp`") && label.contains("car, light, sign"), "{label}");
        let one = scout.replace(", \"front\"", "");
        let camera = refused(format!("{head}{one}{signal}{sources}"));
        assert!(camera.contains("which has: rear"), "{camera}");
        let both = signal.replace("[\"front\"]", "[\"front\", \"rear\"]");
        assert!(refused(format!("{head}{scout}{both}{sources}")).contains("one camera"));
    }

    #[test]
    fn a_source_is_due_in_every_frame_of_its_readers() {
        let source = |rate: &str| format!("{TENANT}{rate}");
        let reader = |rate: &str| TENANT.replace("\"a\"", "\"b\"") + rate + "sources = [\"a\"]\n";
        for (of_source, of_reader) in [("", "every = 3\n"), ("every = 2\nphase = 1\n", "every = 4\nphase = 3\n")] {
            load(&format!("{HEAD}{}{}", source(of_source), reader(of_reader))).unwrap();
        }
        for (of_source, of_reader, line) in [
            ("every = 2\n", "", 15),
            ("every = 2\n", "every = 3\n", 16),
            ("every = 2\n", "every = 4\nphase = 1\n", 17),
        ] {
            let (found, reason) = refused(&format!("{HEAD}{}{}", source(of_source), reader(of_reader)));
            assert!(found == line && reason.contains("its source `a` does not"), "{found} {reason}");
        }
    }

    #[test]
    #[allow(clippy::print_stderr)]
    fn the_real_networks_cards_are_sound_and_their_files_unaltered() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        if std::env::var_os("PLATOON_AV_DATA").is_none() && !root.join("../shared/av-data").is_dir() {
            eprintln!("SKIPPED the_real_networks_cards_are_sound_and_their_files_unaltered: set PLATOON_AV_DATA to the networks' folder");
            return;
        }
        let tasks = Tasks::load(&root.join("tests/av/tasks.toml")).unwrap();
        let counts: Vec<_> = tasks.sets.iter().map(|(name, set)| (name.as_str(), set.tenants.len())).collect();
        assert_eq!(counts, [("highway", 2), ("parking", 2), ("urban", 3)]);
        for tenant in tasks.sets.values().flat_map(|set| &set.tenants) {
            assert!(tenant.card.digest.is_some());
            tenant.card.verify().unwrap();
        }
    }
}
