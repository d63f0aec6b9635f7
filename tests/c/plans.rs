//! Plans for the C programs, on disk as a vehicle finds them.

use crate::common::build::{Decisions, Feed, Layer, Net, deploy, plan};
use platoon::plan::file;
use platoon::plan::table::Entry;
use platoon::planner::tasks::Tasks;
use platoon::planner::{CompileOptions, boards, compile_task_set, write_deployment};
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
        let deployment = deploy(2, vec![set("a", 1), set("b", 2)]);
        let folder = folder("by-hand");
        std::fs::write(folder.join("table"), deployment.table.encode()).unwrap();
        for plan in &deployment.plans {
            std::fs::write(folder.join(Entry::of(plan).file), file::encode(plan)).unwrap();
        }
        folder
    })
    .clone()
}

/// The crate's own task sets, compiled for this machine: a folder of plans with the folder `host` in it.
pub fn driving() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let tasks = Tasks::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/tasks.toml")).unwrap_or_else(|e| panic!("{e}"));
        let board = boards::load("host").unwrap();
        let sets = tasks.sets.keys();
        let compiled: Vec<_> = sets
            .map(|set| compile_task_set(&tasks, set, &board, &CompileOptions::default()).unwrap_or_else(|e| panic!("{set}: {e:?}")))
            .collect();
        let folder = folder("driving");
        write_deployment(&folder.join("host"), &tasks, &board, &compiled).unwrap_or_else(|e| panic!("{e:?}"));
        folder
    })
    .clone()
}
