//! The task sets of `tests/av/tasks.toml`, compiled and written as the command line does, and real pictures to run them on.

use platoon::planner::tasks::Tasks;
use platoon::planner::{CompileOptions, boards, compile_task_set, write_deployment};
use platoon::replay::picture::Picture;
use platoon::runtime::Image;
use platoon::task::PixelFormat;
use std::path::{Path, PathBuf};

/// The task file.
pub fn tasks() -> Tasks {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/av/tasks.toml");
    Tasks::load(&file).unwrap_or_else(|e| panic!("{e}"))
}

/// Compiles every task set for this machine and writes the deployment into the folder `name` of the tests' own.
pub fn deployment(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    deploy(&tasks(), &dir);
    dir
}

/// Compiles every task set for this machine and writes the deployment.
pub fn deploy(tasks: &Tasks, dir: &Path) {
    let board = boards::load("host").unwrap();
    let compiled: Vec<_> = tasks
        .sets
        .keys()
        .map(|set| compile_task_set(tasks, set, &board, &CompileOptions::default()).unwrap_or_else(|e| panic!("{set}: {e:?}")))
        .collect();
    write_deployment(dir, tasks, &board, &compiled).unwrap_or_else(|e| panic!("{e:?}"));
}

/// A picture as a camera's image.
pub fn image(picture: &Picture) -> Image<'_> {
    Image {
        data: picture.rgb(),
        width: picture.width(),
        height: picture.height(),
        stride: picture.width() * 3,
        format: PixelFormat::Rgb8,
    }
}

/// A picture file.
pub fn picture(file: &Path) -> Picture {
    Picture::read(file).unwrap_or_else(|e| panic!("{e}"))
}
