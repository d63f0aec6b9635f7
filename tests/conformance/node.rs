//! ONNX's own operator cases on the CPU backend.

use crate::cases::{self, OPERATORS};
use crate::data;
use crate::network::{self, Machine};
use crate::skips::{SKIPS, TYPES};
use std::collections::BTreeMap;
use std::fmt::Write;

#[test]
fn operators_give_what_onnx_says() {
    let archive = data::av_data().join("onnx-conformance/node.tar.xz");
    let Some(archive) = data::need("conformance", &archive) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::host(2);
    let skipped = |name: &str| SKIPS.iter().find(|(_, cases)| cases.contains(&name)).map(|(reason, _)| *reason);
    let cases: Vec<_> = cases::cases(&archive)
        .into_iter()
        .filter(|(_, case)| cases::listed(OPERATORS, case))
        .collect();
    let (mut passed, mut wrong) = (0, String::new());
    let mut skips: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, case) in &cases {
        let name = name.strip_prefix("test_").unwrap_or(name);
        let outcome = cases::run(&machine, folder.path(), case);
        match (outcome, skipped(name)) {
            (Ok(()), None) => passed += 1,
            (Err(_), Some(reason)) => *skips.entry(reason).or_default() += 1,
            (Ok(()), Some(reason)) => writeln!(wrong, "{name} passes, but stands in the table of skips ({reason})").unwrap(),
            (Err(error), None) => writeln!(
                wrong,
                "{name}: {}",
                network::told(&*error).replace(&*folder.path().to_string_lossy(), "")
            )
            .unwrap(),
        }
    }
    let unknown = SKIPS
        .iter()
        .flat_map(|(_, names)| *names)
        .filter(|n| !cases.iter().any(|(c, _)| c.strip_prefix("test_") == Some(n)));
    unknown.for_each(|name| writeln!(wrong, "{name} stands in the table of skips, but is no case").unwrap());
    let by_reason: Vec<_> = skips.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let total = cases.len();
    let what = format!(
        "{passed} of {total} cases, {} skipped: {}",
        skips.values().sum::<usize>(),
        by_reason.join(", ")
    );
    data::ran("conformance", &what);
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(total >= 700, "the archive holds only {total} cases of the listed operators");
    // Cases of types that are not imported say nothing of the operators.
    let typed = total - skips.get(TYPES).copied().unwrap_or(0);
    assert!(passed * 100 >= typed * 95, "{passed} of {typed} cases of imported types");
}
