//! The walls of the house: which module may name which, and where `unsafe` may stand.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Rooms from the ground up. A module may name modules of a lower rank only; rooms of one rank do not know each other.
const RANKS: &[(&str, u32)] = &[
    ("units", 0),
    ("ids", 0),
    ("limits", 0),
    ("tensor", 0),
    ("error", 0),
    ("board", 0),
    ("task", 0),
    ("primitive", 0),
    ("plan", 1),
    ("backend", 2),
    ("runtime", 3),
    ("capi", 4),
    ("planner", 4),
    ("scenes", 4),
    ("replay", 5),
    ("bench", 6),
    ("cli", 7),
];

/// Rooms of the scenes, as above; files at their root are rooms too.
const SCENES: &[(&str, u32)] = &[
    ("fixed", 0),
    ("mesh", 0),
    ("truth", 0),
    ("light", 1),
    ("models", 1),
    ("world", 2),
    ("paint", 3),
    ("render", 4),
];

/// The fenced places where `unsafe` is allowed.
const FENCES: &[&str] = &[
    "backend/cpu/simd/",
    "backend/cpu/arena.rs",
    "backend/cuda/raw",
    "capi/guard",
    "cli/stop.rs",
    "plan/weights.rs",
    "runtime/realtime.rs",
];

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        let mut entries: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
        entries.sort();
        for path in entries {
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&root, &mut found);
    let relative = |p: PathBuf| {
        let text = std::fs::read_to_string(&p).unwrap();
        (p.strip_prefix(&root).unwrap().to_path_buf(), text)
    };
    found.into_iter().map(relative).collect()
}

/// The code of a file without line comments, doc comments and string contents that merely talk about modules.
fn code(text: &str) -> String {
    text.lines()
        .map(|l| l.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

/// Modules named in the code: after the prefix (such as `crate::`), and first in the braces of a `use crate::{..}`.
fn named(code: &str, prefix: &str) -> Vec<String> {
    let mut modules = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => {
                let (mut depth, mut start, mut parts) = (0, 0, Vec::new());
                for (i, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => {
                            parts.push(&list[start..i]);
                            break;
                        }
                        '}' => depth -= 1,
                        ',' if depth == 0 => {
                            parts.push(&list[start..i]);
                            start = i + 1;
                        }
                        _ => {}
                    }
                }
                parts
            }
            None => vec![rest],
        };
        for name in names {
            let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            modules.push(name);
        }
    }
    modules
}

#[test]
fn modules_name_only_what_lies_below_them() {
    let ranks: BTreeMap<&str, u32> = RANKS.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut edges = 0;
    for (path, text) in sources() {
        let first = path.iter().next().unwrap().to_str().unwrap();
        let room = first.strip_suffix(".rs").unwrap_or(first);
        if room == "lib" || room == "main" {
            continue;
        }
        let Some(&rank) = ranks.get(room) else {
            wrong.push(format!("{}: the room `{room}` is not in the picture", path.display()));
            continue;
        };
        for name in named(&code(&text), "crate::") {
            if let Some(&other) = ranks.get(name.as_str()) {
                edges += 1;
                // The shared words may know each other; every other room knows only what lies below.
                if name != room && other >= rank && rank > 0 || other > rank {
                    wrong.push(format!("{}: `{room}` names `{name}`", path.display()));
                }
            }
        }
    }
    assert!(edges > 50, "the test finds no imports: it is blind");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn rooms_of_the_scenes_name_only_what_lies_below_them() {
    let ranks: BTreeMap<&str, u32> = SCENES.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut edges = 0;
    for (path, text) in sources() {
        let Ok(inside) = path.strip_prefix("scenes") else { continue };
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let room = first.strip_suffix(".rs").unwrap_or(first);
        if room == "mod" || room == "tests" {
            continue;
        }
        let Some(&rank) = ranks.get(room) else {
            wrong.push(format!("{}: the room `{room}` is not in the picture", path.display()));
            continue;
        };
        let code = code(&text);
        let mut names = named(&code, "crate::scenes::");
        // What is one step up from the root's files and from the rooms' own.
        if inside.iter().count() == 1 || inside.ends_with("mod.rs") {
            names.extend(named(&code, "super::"));
        }
        for name in names {
            if let Some(&other) = ranks.get(name.as_str()) {
                edges += 1;
                if name != room && other >= rank {
                    wrong.push(format!("{}: `{room}` names `{name}`", path.display()));
                }
            }
        }
        if code.contains("super::super::") {
            wrong.push(format!("{}: a path from the crate tells which room it names", path.display()));
        }
    }
    assert!(edges > 50, "the test finds no imports: it is blind");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_only_behind_its_fences_and_with_its_reason() {
    let mut wrong = Vec::new();
    let mut blocks = 0;
    for (path, text) in sources() {
        let fenced = FENCES.iter().any(|f| path.to_str().unwrap().starts_with(f));
        let word = |l: &str| l.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|w| w == "unsafe");
        for (number, line) in code(&text).lines().enumerate() {
            if word(line) {
                blocks += 1;
                if !fenced {
                    wrong.push(format!("{}:{}: unsafe outside the fences", path.display(), number + 1));
                }
            }
        }
    }
    assert!(blocks > 10, "the test finds no unsafe: it is blind");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_file_grows_past_what_a_reader_holds() {
    let long: Vec<String> = sources()
        .iter()
        .filter(|(_, text)| text.lines().count() > 700)
        .map(|(p, t)| format!("{}: {} lines", p.display(), t.lines().count()))
        .collect();
    assert!(long.is_empty(), "split by responsibility:\n{}", long.join("\n"));
}
