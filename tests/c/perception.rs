//! The example's node between two cameras in processes of their own, and its build by CMake against an installed library.

use crate::data;
use crate::plans::{folder, perception};
use crate::toolchain::{Language, Link, Program, SANITIZE, build, finish, library, needs, run};
use std::path::Path;
use std::process::{Child, Command};

/// Frames that the node runs.
const FRAMES: usize = 24;

fn program(name: &'static str) -> Program {
    Program::of(Language::Cpp, &["examples/perception"], name).with(SANITIZE)
}

/// A camera in a process of its own, which ends with the test.
struct Camera(Child);

impl Drop for Camera {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn camera(program: &Path, ring: &Path, hz: u32) -> Camera {
    // Longer than any run of the node.
    let images = (hz * 600).to_string();
    let mut command = Command::new(program);
    command.arg(ring).args(["640", "360", &hz.to_string(), &images]);
    Camera(command.spawn().unwrap())
}

/// The number that stands behind `what` in the text.
fn figure(text: &str, what: &str) -> usize {
    let rest = text.rsplit_once(what).unwrap_or_else(|| panic!("no {what:?} in {text}")).1;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[test]
fn a_node_runs_two_cameras_and_changes_its_mode() {
    if !needs("a_node_runs_two_cameras_and_changes_its_mode", &["g++"]) {
        return;
    }
    let plans = perception();
    let rings = folder("rings");
    let (front, rear) = (rings.join("front"), rings.join("rear"));
    for ring in [&front, &rear] {
        let _ = std::fs::remove_file(ring);
    }
    let driver = build(&program("camera"), Link::Static);
    let node = build(&program("perception"), Link::Static);
    let _cameras = [camera(&driver, &front, 15), camera(&driver, &rear, 5)];
    let frames = FRAMES.to_string();
    let arguments = [
        plans.as_os_str(),
        "host".as_ref(),
        front.as_os_str(),
        rear.as_os_str(),
        "60000".as_ref(), // a deadline that no load of the machine makes it miss
        frames.as_ref(),
    ];
    let text = run(&node, &arguments);
    assert!(text.contains(&format!("{FRAMES} frames, ")), "{text}");
    assert_eq!((figure(&text, "fresh ahead"), figure(&text, "late")), (FRAMES, 0), "{text}");
    assert_eq!(figure(&text, "switches"), 1, "{text}");
    // The rear tenant is due in 4 frames of the city and 2 of the other mode; its camera may miss some.
    assert!((1..=6).contains(&figure(&text, "fresh behind")), "{text}");
    assert!(
        text.contains("city: ahead fresh") && text.contains("reduced: ahead fresh"),
        "{text}"
    );
}

/// Puts the library where an installation has it.
fn install(prefix: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let put = |file: &Path, folder: &str| {
        let folder = prefix.join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
    };
    for header in ["include/platoon.h", "include/platoon.hpp"] {
        put(&root.join(header), "include");
    }
    for file in ["cmake/platoon-config.cmake", "cmake/platoon-config-version.cmake"] {
        put(&root.join(file), "share/platoon/cmake");
    }
    for file in ["libplatoon.so", "libplatoon.a"] {
        put(&library().join(file), "lib");
    }
}

#[test]
fn cmake_finds_an_installed_library() {
    if !needs("cmake_finds_an_installed_library", &["g++", "cmake"]) {
        return;
    }
    let prefix = folder("prefix");
    install(&prefix);
    for (name, kind) in [("shared", "OFF"), ("static", "ON")] {
        let out = folder("cmake").join(name);
        // What another checkout configured there would be refused.
        let _ = std::fs::remove_dir_all(&out);
        let mut configure = Command::new("cmake");
        configure
            .arg("-S")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/perception"));
        configure.arg("-B").arg(&out);
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        configure.arg(format!("-DPLATOON_STATIC={kind}"));
        finish(configure);
        let mut make = Command::new("cmake");
        make.arg("--build").arg(&out);
        finish(make);
        // Without arguments it says how it is used, which takes a program that was linked and loads.
        let output = Command::new(out.join("perception")).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).starts_with("usage: perception"));
    }
    data::ran("cmake_finds_an_installed_library", "examples/perception");
}
