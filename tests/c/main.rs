//! The C ABI from C and C++: the programs of this folder, compiled, linked with the library as a vehicle gets it, and run.
//!
//! Needs gcc, g++, cmake and Valgrind; a test that lacks one says so. .ci/run installs them.
#![cfg(all(feature = "capi", feature = "planner", feature = "replay"))]
#![allow(clippy::print_stderr)] // the lines that say what ran

#[allow(dead_code)] // other binaries use other parts
#[path = "../common/av.rs"]
mod av;
#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)] // other binaries use other parts
#[path = "../common/data.rs"]
mod data;
mod header;
mod perception;
mod plans;
mod replay;
mod toolchain;

use toolchain::{Language, Link, Program, SANITIZE, build, needs, run};

fn c(name: &'static str) -> Program {
    Program::of(Language::C, &["tests/c"], name)
}

#[test]
fn every_mistake_gives_a_status_and_nothing_else() {
    if !needs("every_mistake_gives_a_status_and_nothing_else", &["gcc"]) {
        return;
    }
    let plans = plans::by_hand();
    for link in [Link::Static, Link::Shared] {
        let program = build(&c("misuse").with(SANITIZE), link);
        assert!(run(&program, &[&plans]).contains("every mistake gave its status"));
    }
}

#[test]
fn threads_share_an_engine_and_engines_a_process() {
    if !needs("threads_share_an_engine_and_engines_a_process", &["gcc"]) {
        return;
    }
    let program = build(&c("threads").with(SANITIZE), Link::Static);
    assert!(run(&program, &[&plans::by_hand()]).contains("threads: 1200 frames"));
}

#[test]
fn the_wrapper_for_cpp_owns_its_handles() {
    if !needs("the_wrapper_for_cpp_owns_its_handles", &["g++"]) {
        return;
    }
    let program = Program::of(Language::Cpp, &["tests/c"], "wrapper").with(SANITIZE);
    let program = build(&program, Link::Static);
    assert!(run(&program, &[&plans::by_hand()]).contains("handles were owned"));
}

#[test]
fn nothing_takes_memory_once_an_engine_is_open() {
    if !needs("nothing_takes_memory_once_an_engine_is_open", &["gcc"]) {
        return;
    }
    for link in [Link::Static, Link::Shared] {
        let program = build(&c("quiet"), link);
        assert!(run(&program, &[&plans::by_hand()]).contains("0 calls of the allocator"));
    }
}

#[test]
fn the_program_behind_the_figures_of_the_guide_runs() {
    if !needs("the_program_behind_the_figures_of_the_guide_runs", &["gcc"]) {
        return;
    }
    let plans = plans::by_hand();
    let program = build(&c("start"), Link::Shared);
    let arguments = [plans.parent().unwrap().as_os_str(), "by-hand".as_ref(), "b".as_ref()];
    assert!(run(&program, &arguments).contains("open to sealed"));
}

#[test]
fn valgrind_finds_nothing() {
    if !needs("valgrind_finds_nothing", &["gcc", "valgrind"]) {
        return;
    }
    let plans = plans::by_hand();
    let program = build(&c("misuse"), Link::Shared);
    let options = [
        "--error-exitcode=9",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
        "--quiet",
    ];
    let mut arguments: Vec<&std::ffi::OsStr> = options.iter().map(|o| o.as_ref()).collect();
    arguments.extend([program.as_os_str(), plans.as_os_str()]);
    assert!(run("valgrind".as_ref(), &arguments).contains("every mistake gave its status"));
    data::ran("valgrind_finds_nothing", "tests/c/misuse.c");
}
