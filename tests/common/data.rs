//! Where the real networks, frames and test cases lie, and the lines that say which tests ran without them.

use std::path::{Path, PathBuf};

/// Folder of the real networks and frames: `PLATOON_AV_DATA`, else `../shared/av-data` beside the crate.
pub fn av_data() -> PathBuf {
    match std::env::var_os("PLATOON_AV_DATA") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/av-data"),
    }
}

/// `path` if it is there. Where it is not, says so as test `test` is skipped; that fails where the data ought to be there: where a
/// variable names its folder, or the folder `shared` lies beside the crate.
pub fn need(test: &str, path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return Some(path.to_path_buf());
    }
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let named = ["PLATOON_AV_DATA", "PLATOON_MALFORMED"]
        .iter()
        .any(|v| std::env::var_os(v).is_some());
    assert!(
        !named && !shared.exists(),
        "{test}: {} is missing, though test data is here",
        path.display()
    );
    eprintln!(
        "SKIPPED {test}: {} is not here; PLATOON_AV_DATA names the folder of the test data",
        path.display()
    );
    None
}

/// Says that a test ran, and what of it; CI collects these lines.
pub fn ran(test: &str, what: &str) {
    eprintln!("RAN {test}: {what}");
}
