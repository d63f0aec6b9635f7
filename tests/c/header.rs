//! The header against the library: compilers compare every struct, number and signature of `platoon.h` with Rust's.

use crate::plans::folder;
use crate::toolchain::{Language, compiler, finish, needs};
use platoon::capi::guard::exports::{EXPORTS, Export};
use platoon::capi::guard::types::{LAYOUTS, MESSAGE};
use platoon::capi::status::Status;
use platoon::capi::values::*;
use platoon::error::Fault;
use platoon::ids::{SegmentId, TenantId};
use platoon::limits::{MAX_CAMERAS, MAX_RANK, MAX_TENANTS};
use platoon::runtime::State;
use platoon::task::{PixelFormat, ResultKind, Status as Currency};
use platoon::tensor::DType;
use std::fmt::Write;
use std::path::Path;

/// Functions that return no status.
const PLAIN: &[&str] = &["platoon_abi", "platoon_version", "platoon_status_name"];

fn header() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/platoon.h")).unwrap()
}

/// The words of a C text that begin with `platoon_` or `PLATOON_`, without its comments.
fn words(text: &str) -> Vec<&str> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let code = text
        .split("/*")
        .flat_map(|part| part.split_once("*/").map_or([part, ""], |(_, code)| [code, ""]));
    code.flat_map(move |code| code.split(move |c| !word(c)))
        .filter(|w| w.starts_with("platoon_") || w.starts_with("PLATOON_"))
        .collect()
}

/// What C calls the type of a parameter.
fn c_type(rust: &str) -> String {
    let plain = |name: &str| -> String {
        match name {
            "u8" => "uint8_t".into(),
            "u32" => "uint32_t".into(),
            "i32" => "int32_t".into(),
            "u64" => "uint64_t".into(),
            "c_char" => "char".into(),
            // Structs have the header's names in lower case with underscores.
            name => name.chars().fold(String::from("platoon"), |c, x| match x.is_uppercase() {
                true => c + "_" + &x.to_lowercase().to_string(),
                false => c + &x.to_string(),
            }),
        }
    };
    let rust = rust.trim();
    if let Some(to) = rust.strip_prefix("*const ") {
        format!("const {} *", c_type(to))
    } else if let Some(to) = rust.strip_prefix("*mut ") {
        format!("{} *", c_type(to))
    } else {
        plain(rust)
    }
}

fn declaration(export: &Export) -> String {
    let parameters: Vec<String> = export.parameters.iter().map(|(_, rust)| c_type(rust)).collect();
    format!("platoon_status {}({});\n", export.name, parameters.join(", "))
}

/// All numbers of the header, with the library's values.
fn numbers() -> Vec<(String, u64)> {
    let mut all: Vec<(String, u64)> = Status::ALL.iter().map(|s| (s.name().to_str().unwrap().into(), *s as u64)).collect();
    let fault = Fault::Hang {
        tenant: TenantId(0),
        segment: SegmentId(0),
        frame: 0,
    };
    let mut put = |name: &str, value: u64| all.push((format!("PLATOON_{name}"), value));
    put("ABI", ABI.into());
    put("FOREVER", FOREVER);
    put("MAX_TENANTS", MAX_TENANTS as u64);
    put("MAX_CAMERAS", MAX_CAMERAS as u64);
    put("MAX_RANK", MAX_RANK as u64);
    put("MESSAGE_BYTES", MESSAGE as u64);
    put("MAX_ENGINES", MAX_ENGINES as u64);
    put("BACKEND_OF_TABLE", BACKEND_OF_TABLE as u64);
    put("BACKEND_CPU", BACKEND_CPU as u64);
    put("BACKEND_CUDA", BACKEND_CUDA as u64);
    put("OPEN_SEGMENTS", OPEN_SEGMENTS.into());
    put("OPEN_UNPINNED", OPEN_UNPINNED.into());
    put("OPEN_LOCK_MEMORY", OPEN_LOCK_MEMORY.into());
    put("OPEN_SPIN", OPEN_SPIN.into());
    put("OPEN_PREFAULT", OPEN_PREFAULT.into());
    put("OPEN_MAPPED", OPEN_MAPPED.into());
    put("OPEN_COPIED", OPEN_COPIED.into());
    put("LOG_ERROR", LOG_ERROR as u64);
    put("LOG_WARNING", LOG_WARNING as u64);
    put("LOG_INFO", LOG_INFO as u64);
    put("NONE", Currency::None as u64);
    put("FRESH", Currency::Fresh as u64);
    put("HELD", Currency::Held as u64);
    put("STALE", Currency::Stale as u64);
    put("DETECTION", kind(ResultKind::Detection).into());
    put("SEGMENTATION", kind(ResultKind::Segmentation).into());
    put("CLASSIFICATION", kind(ResultKind::Classification).into());
    put("TENSORS", kind(ResultKind::Tensors).into());
    put("F32", dtype(DType::F32).into());
    put("F16", dtype(DType::F16).into());
    put("I32", dtype(DType::I32).into());
    put("U8", dtype(DType::U8).into());
    put("BOOL", dtype(DType::Bool).into());
    put("RGB8", PixelFormat::Rgb8 as u64);
    put("BGR8", PixelFormat::Bgr8 as u64);
    put("GRAY8", PixelFormat::Gray8 as u64);
    put("NV12", PixelFormat::Nv12 as u64);
    put("STATE_PREPARED", state(State::Prepared).into());
    put("STATE_RUNNING", state(State::Running).into());
    put("PREPARED", state(State::Prepared).into());
    put("RUNNING", state(State::Running).into());
    put("STATE_FAULTED", state(State::Faulted(fault)).into());
    put("FAULT_NONE", 0);
    put("FAULT_HANG", fault.number().into());
    put("FAULT_DEVICE", 2);
    put("FAULT_PANIC", 3);
    all
}

#[test]
fn compilers_find_the_same_structs_numbers_and_signatures_in_both() {
    if !needs("compilers_find_the_same_structs_numbers_and_signatures_in_both", &["gcc", "g++"]) {
        return;
    }
    let mut source = String::from("#include \"platoon.h\"\n#include <stddef.h>\n");
    source += "#ifdef __cplusplus\n#define _Static_assert static_assert\nextern \"C\" {\n#endif\n";
    let mut claim = |what: String| writeln!(source, "_Static_assert({what}, \"{what}\");").unwrap();
    for layout in LAYOUTS {
        claim(format!("sizeof({}) == {}", layout.name, layout.size));
        for (field, offset) in layout.fields {
            claim(format!("offsetof({}, {field}) == {offset}", layout.name));
        }
    }
    for (name, value) in numbers() {
        claim(format!("{name} == {value}u{}", if value > u64::from(u32::MAX) { "ll" } else { "" }));
    }
    // A declaration that differs from the header's is refused.
    EXPORTS.iter().for_each(|e| source += &declaration(e));
    source += "#ifdef __cplusplus\n}\n#endif\n";
    for (language, name) in [(Language::C, "layout.c"), (Language::Cpp, "layout.cpp")] {
        let file = folder("header").join(name);
        std::fs::write(&file, &source).unwrap();
        let mut command = compiler(language);
        // C11 has no signed and unsigned constants that differ in a comparison of constants; nothing else is let through.
        command.args(["-Wno-sign-compare", "-fsyntax-only", "-I"]);
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include")).arg(&file);
        finish(command);
    }
}

/// Vehicle code is compiled with more warnings than the tests, under any of these standards; headers must not be what they are about.
#[test]
fn no_standard_has_a_warning_about_the_headers() {
    if !needs("no_standard_has_a_warning_about_the_headers", &["gcc", "g++"]) {
        return;
    }
    const BOTH: &[&str] = &["-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef", "-Wcast-qual"];
    const C: &[&str] = &["-Wstrict-prototypes", "-Wc++-compat"];
    const CPP: &[&str] = &["-Wold-style-cast", "-Wuseless-cast", "-Wzero-as-null-pointer-constant", "-Weffc++"];
    const ANSWER: &str = "int main(void) { PLATOON_SIZED(platoon_report, report); return (int)(report.size - report.size); }";
    const THROWN: &str = "int main() { platoon::Options options(\"\"); try { platoon::Engine engine(options); return engine.info().size != 0; } \
                          catch (const platoon::Error &e) { return e.status(); } }";
    const ALONE: &str = "int main() { PLATOON_SIZED(platoon_report, report); return report.size == 0; }";
    let folder = folder("header");
    let cases = [
        ("strict.c", "platoon.h", ANSWER, C, &["-std=c99", "-std=c11", "-std=c17"][..]),
        ("alone.cpp", "platoon.h", ALONE, CPP, &["-std=c++11", "-std=c++14", "-std=c++20"]),
        ("strict.cpp", "platoon.hpp", THROWN, CPP, &["-std=c++17", "-std=c++20"]),
    ];
    for (file, header, body, flags, standards) in cases {
        let source = folder.join(file);
        std::fs::write(&source, format!("#include \"{header}\"\n{body}\n")).unwrap();
        let language = if file.ends_with(".c") { Language::C } else { Language::Cpp };
        for standard in standards {
            let mut command = compiler(language);
            command.args(BOTH).args(flags).arg(standard).arg("-fsyntax-only").arg("-I");
            command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include")).arg(&source);
            finish(command);
        }
    }
}

#[test]
fn the_header_declares_what_the_library_has_and_nothing_else() {
    let header = header();
    let words = words(&header);
    let known: Vec<&str> = EXPORTS.iter().map(|e| e.name).chain(PLAIN.iter().copied()).collect();
    for name in known.iter().chain(&LAYOUTS.iter().map(|l| l.name).collect::<Vec<_>>()) {
        assert!(words.contains(name), "the header lacks {name}");
    }
    for word in &words {
        let named = known.contains(word) || LAYOUTS.iter().any(|l| l.name == *word);
        let number = numbers().iter().any(|(name, _)| name == word);
        let other = ["platoon_status", "platoon_log_callback", "PLATOON_H", "PLATOON_SIZED"].contains(word);
        assert!(named || number || other, "the library lacks {word}");
    }
    for (name, _) in numbers() {
        assert!(words.contains(&name.as_str()), "the header lacks {name}");
    }
}

#[test]
fn every_function_says_which_threads_may_call_it() {
    let header = header();
    for name in EXPORTS.iter().map(|e| e.name).chain(PLAIN.iter().copied()) {
        let at = header.find(&format!("{name}(")).unwrap();
        let comment = header[..at].rfind("/*").unwrap();
        assert!(header[comment..at].contains("Threads:"), "{name}");
    }
}

#[test]
fn the_shared_library_exports_nothing_else() {
    if !needs("the_shared_library_exports_nothing_else", &["nm"]) {
        return;
    }
    let library = crate::toolchain::library().join("libplatoon.so");
    let mut nm = std::process::Command::new("nm");
    nm.args(["--dynamic", "--defined-only", "--format=just-symbols"]).arg(library);
    let symbols = finish(nm);
    let mut symbols: Vec<&str> = symbols.lines().collect();
    symbols.sort_unstable();
    let mut known: Vec<&str> = EXPORTS.iter().map(|e| e.name).chain(PLAIN.iter().copied()).collect();
    known.sort_unstable();
    assert_eq!(symbols, known);
}

#[test]
fn packages_have_the_headers_version() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let capi = &manifest["package"]["metadata"]["capi"];
    for part in ["library", "pkg_config"] {
        assert_eq!(capi[part]["version"].as_str(), Some(format!("{ABI}.0.0").as_str()));
    }
    assert!(read("cmake/platoon-config-version.cmake").contains(&format!("set(PACKAGE_VERSION {ABI})")));
}
