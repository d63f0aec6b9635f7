//! The library as a vehicle gets it, and programs that are linked with it.

use crate::plans::folder;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

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
    let (program, standard) = match language {
        Language::C => ("gcc", "-std=c11"),
        Language::Cpp => ("g++", "-std=c++17"),
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
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

/// The folder of `libplatoon.a` and `libplatoon.so`: the CPU backend and the C ABI, and nothing of the tools.
pub fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // The tests' own folder lies in that of all builds, which knows the dependencies already.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.args(["rustc", "--quiet", "--locked", "--lib", "--crate-type", "cdylib,staticlib"]);
        cargo
            .args(["--no-default-features", "--features", "capi", "--target-dir"])
            .arg(target);
        finish(cargo);
        target.join("debug")
    })
}

/// Compiles and links a program; where it lies.
pub fn build(program: &Program, link: Link) -> PathBuf {
    let extension = if program.language == Language::C { "c" } else { "cpp" };
    let (library, out) = (library(), folder("programs"));
    let sanitized = if program.flags.is_empty() { "" } else { "-sanitized" };
    let out = out.join(format!("{}-{link:?}{sanitized}", program.name));
    let mut command = compiler(program.language);
    command.args(&program.flags);
    for folder in &program.folders {
        command.arg("-I").arg(folder);
    }
    command.arg("-o").arg(&out);
    command.arg(program.folders[0].join(format!("{}.{extension}", program.name)));
    match link {
        Link::Static => command.arg(library.join("libplatoon.a")),
        Link::Shared => command.arg("-L").arg(library).arg("-lplatoon").arg(rpath(library)),
    };
    command.args(["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"]);
    finish(command);
    out
}

fn rpath(folder: &Path) -> String {
    format!("-Wl,-rpath,{}", folder.display())
}

/// Runs a program, which must end well; what it printed.
pub fn run(program: &Path, arguments: &[impl AsRef<OsStr>]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    finish(command)
}

/// Runs a command, which must end well; what it printed.
pub fn finish(mut command: Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}", output.status);
    text.into_owned()
}
