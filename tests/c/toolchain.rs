//! The library as a vehicle gets it, and programs that are linked with it: for this machine, or for another one that is emulated.

use crate::plans::folder;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a program is written in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
}

/// How it finds the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    Static,
    Shared,
}

/// The machine that programs are built for, where it is not this one: `.ci/aarch64` sets the variables.
pub struct Cross {
    /// `PLATOON_C_TARGET`: what cargo builds the library for.
    target: String,
    /// `PLATOON_C_COMPILER`: the C compiler.
    compiler: String,
    /// `PLATOON_C_RUNNER`: what runs programs of that machine.
    runner: String,
    /// `PLATOON_C_CARGO` and `PLATOON_C_RUSTC`: the Rust toolchain that knows the target.
    cargo: String,
    rustc: Option<String>,
}

/// The other machine; `None` for this one.
pub fn cross() -> Option<&'static Cross> {
    static CROSS: OnceLock<Option<Cross>> = OnceLock::new();
    let read = || {
        let variable = |name: &str| std::env::var(format!("PLATOON_C_{name}")).ok();
        let given = |name: &str| variable(name).unwrap_or_else(|| panic!("PLATOON_C_TARGET is set, and PLATOON_C_{name} is not"));
        Some(Cross {
            target: variable("TARGET")?,
            compiler: given("COMPILER"),
            runner: given("RUNNER"),
            cargo: given("CARGO"),
            rustc: variable("RUSTC"),
        })
    };
    CROSS.get_or_init(read).as_ref()
}

/// How programs find the library here: statically alone where they are emulated, without a loader of the other machine.
pub fn links() -> &'static [Link] {
    match cross() {
        None => &[Link::Static, Link::Shared],
        Some(_) => &[Link::Static],
    }
}

/// Address and undefined-behaviour sanitizers; every finding ends the program with a failure.
pub const SANITIZE: &[&str] = &[
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
];

/// A program to compile.
pub struct Program {
    language: Language,
    name: &'static str,
    /// Folders that its headers are in; its source is in the first one.
    folders: Vec<PathBuf>,
    flags: Vec<&'static str>,
}

impl Program {
    /// The program `name` in the first of these folders of the crate.
    pub fn of(language: Language, folders: &[&str], name: &'static str) -> Program {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        Program {
            language,
            name,
            folders: folders.iter().chain(&["include"]).map(|f| root.join(f)).collect(),
            flags: Vec::new(),
        }
    }

    /// The same with more flags for the compiler.
    pub fn with(mut self, flags: &[&'static str]) -> Program {
        self.flags.extend(flags);
        self
    }
}

/// A compiler that takes no warning, for the standards that the header promises.
pub fn compiler(language: Language) -> Command {
    let (program, standard) = match (language, cross()) {
        (Language::C, None) => ("gcc", "-std=c11"),
        (Language::C, Some(cross)) => (cross.compiler.as_str(), "-std=c11"),
        (Language::Cpp, _) => ("g++", "-std=c++17"),
    };
    let mut command = Command::new(program);
    command.args([
        standard,
        "-D_POSIX_C_SOURCE=200809L",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
    ]);
    command
}

/// True if a program of this name is installed.
fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// True if these programs are installed; says so where the test is skipped because they are not.
pub fn needs(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs.iter().copied().filter(|p| !has(p)).collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED {test}: {} not installed", missing.join(" and "));
    }
    missing.is_empty()
}

/// The folder of `libplatoon.a` and `libplatoon.so`: the CPU backend and the C ABI, and nothing of the tools.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // The tests' own folder lies in that of all builds, which knows the dependencies already.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut cargo = Command::new(cross().map_or(env!("CARGO"), |c| c.cargo.as_str()));
        cargo
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .args(["rustc", "--quiet", "--locked", "--lib"]);
        cargo
            .args(["--no-default-features", "--features", "capi", "--target-dir"])
            .arg(target);
        let Some(cross) = cross() else {
            cargo.args(["--crate-type", "cdylib,staticlib"]);
            finish(cargo);
            return target.join("debug");
        };
        cargo.args(["--crate-type", "staticlib", "--target", &cross.target]);
        match &cross.rustc {
            Some(rustc) => cargo.env("RUSTC", rustc),
            None => cargo.env_remove("RUSTC"),
        };
        // What the tests' own cargo has set is for its toolchain.
        cargo.env_remove("RUSTUP_TOOLCHAIN");
        finish(cargo);
        target.join(&cross.target).join("debug")
    })
}

/// Compiles and links a program; where it lies.
pub fn build(program: &Program, link: Link) -> PathBuf {
    let extension = if program.language == Language::C { "c" } else { "cpp" };
    let (library, out) = (library(), folder("programs"));
    // Tests run side by side: each has its own copy.
    static BUILT: AtomicUsize = AtomicUsize::new(0);
    let out = out.join(format!("{}-{}", program.name, BUILT.fetch_add(1, Ordering::Relaxed)));
    let mut command = compiler(program.language);
    match cross() {
        // A sanitizer's memory map and an emulator's do not go together.
        Some(_) => command.arg("-static"),
        None => command.args(&program.flags),
    };
    for folder in &program.folders {
        command.arg("-I").arg(folder);
    }
    command.arg("-o").arg(&out);
    command.arg(program.folders[0].join(format!("{}.{extension}", program.name)));
    match link {
        Link::Static => command.arg(library.join("libplatoon.a")),
        Link::Shared => command.arg("-L").arg(library).arg("-lplatoon").arg(rpath(library)),
    };
    // A program without shared libraries unwinds by the compiler's own archive.
    command.arg(if cross().is_some() { "-lgcc_eh" } else { "-lgcc_s" });
    command.args(["-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]);
    finish(command);
    out
}

fn rpath(folder: &Path) -> String {
    format!("-Wl,-rpath,{}", folder.display())
}

/// Runs a program, which must end well; what it printed.
pub fn run(program: &Path, arguments: &[impl AsRef<OsStr>]) -> String {
    let mut command = emulated(program);
    command.args(arguments);
    finish(command)
}

/// A command that runs a program, one of ours on the machine that it is for.
pub fn emulated(program: &Path) -> Command {
    match cross() {
        Some(cross) if program.is_absolute() => {
            let mut command = Command::new(&cross.runner);
            command.arg(program);
            command
        }
        _ => Command::new(program),
    }
}

/// Runs a command, which must end well; what it printed.
pub fn finish(mut command: Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text.into_owned()
}
