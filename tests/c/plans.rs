//! Plans for the C programs, on disk as a vehicle finds them.

use crate::av::deploy;
use crate::common::build::{self, Decisions, Feed, Layer, Net, plan};
use platoon::plan::file;
use platoon::plan::table::Entry;
use platoon::planner::tasks::Tasks;
use platoon::task::Rate;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A folder of the tests' own.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c").join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Two task sets, `a` and `b`, of two small networks on two gray cameras.
pub fn by_hand() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let net = |name, feed, every, layers: &[Layer]| Net {
            name,
            feed,
            rate: Rate { divisor: every, phase: 0 },
            layers: layers.to_vec(),
        };
        let decisions = Decisions {
            streams: 2,
            segment: 2,
            stream: |net, _| 1 - net,
            ..Decisions::plain()
        };
        let set = |name, every| {
            let nets = [
                net("scout", Feed::Camera(0), 1, &[Layer::Max3, Layer::Remember]),
                net("surface", Feed::Camera(1), every, &[Layer::Leak(0.5), Layer::Max3]),
            ];
            plan(name, 2, &nets, &decisions)
        };
        let deployment = build::deploy(2, vec![set("a", 1), set("b", 2)]);
        let folder = folder("by-hand");
        std::fs::write(folder.join("table"), deployment.table.encode()).unwrap();
        for plan in &deployment.plans {
            std::fs::write(folder.join(Entry::of(plan).file), file::encode(plan)).unwrap();
        }
        folder
    })
    .clone()
}

/// The task sets of a file of the crate, compiled for this machine: a folder of plans with the folder `host` in it.
fn compiled(name: &str, tasks: &str) -> PathBuf {
    let tasks = Tasks::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(tasks)).unwrap_or_else(|e| panic!("{e}"));
    let folder = folder(name);
    deploy(&tasks, &folder.join("host"));
    folder
}

/// The crate's own task sets.
pub fn driving() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| compiled("driving", "plans/tasks.toml")).clone()
}

/// The task sets of the perception example.
pub fn perception() -> PathBuf {
    compiled("perception", "examples/perception/tasks.toml")
}
