//! The C ABI from C and C++: the programs of this folder, compiled, linked with the library as a vehicle gets it, and run.
//!
//! Needs gcc and g++. Valgrind runs where it is installed; .ci/run installs it.
#![cfg(all(feature = "capi", feature = "planner", feature = "replay"))]
#![allow(clippy::print_stderr)] // the lines that say what ran

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // other binaries use other parts
#[path = "../common/data.rs"]
mod data;
mod header;
mod plans;
mod replay;
mod toolchain;

use toolchain::{Language, Link, Program, SANITIZE, build, run};

fn c(name: &'static str) -> Program {
    Program::of(Language::C, &["tests/c"], name)
}

#[test]
fn every_mistake_gives_a_status_and_nothing_else() {
    let plans = plans::by_hand();
    for link in [Link::Static, Link::Shared] {
        let program = build(&c("misuse").with(SANITIZE), link);
        assert!(run(&program, &[&plans]).contains("every mistake gave its status"));
    }
}

#[test]
fn threads_share_an_engine_and_engines_a_process() {
    let program = build(&c("threads").with(SANITIZE), Link::Static);
    assert!(run(&program, &[&plans::by_hand()]).contains("threads: 1200 frames"));
}

#[test]
fn nothing_takes_memory_once_an_engine_is_open() {
    for link in [Link::Static, Link::Shared] {
        let program = build(&c("quiet"), link);
        assert!(run(&program, &[&plans::by_hand()]).contains("0 calls of the allocator"));
    }
}

#[test]
fn valgrind_finds_nothing() {
    let plans = plans::by_hand();
    if !toolchain::has("valgrind") {
        eprintln!("SKIPPED valgrind_finds_nothing: no valgrind here");
        return;
    }
    let program = build(&c("misuse"), Link::Shared);
    let options = [
        "--error-exitcode=9",
        "--leak-check=full",
        "--errors-for-leak-kinds=definite",
        "--quiet",
    ];
    let mut arguments: Vec<&std::ffi::OsStr> = options.map(|o| o.as_ref()).collect();
    arguments.extend([program.as_os_str(), plans.as_os_str()]);
    assert!(run("valgrind".as_ref(), &arguments).contains("every mistake gave its status"));
    data::ran("valgrind_finds_nothing", "tests/c/misuse.c");
}
