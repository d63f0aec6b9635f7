//! Where the real networks, frames and test cases lie, and the lines that say which tests ran without them.

#![allow(clippy::print_stderr, reason = "a test says which data it ran on, or why it did not")]

use std::io::{Cursor, Read};
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

/// The regular files of a `.tar.xz`, by path, in memory.
pub fn unpack(archive: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let packed = std::fs::read(archive).unwrap_or_else(|e| panic!("{}: {e}", archive.display()));
    let mut tar = Vec::new();
    lzma_rs::xz_decompress(&mut Cursor::new(packed), &mut tar).unwrap_or_else(|e| panic!("{}: {e:?}", archive.display()));
    let mut files = Vec::new();
    for entry in tar::Archive::new(Cursor::new(tar)).entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.header().entry_type().is_file() {
            let path = entry.path().unwrap().into_owned();
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).unwrap();
            files.push((path, bytes));
        }
    }
    files
}

/// A small generator with a seed (xorshift64*, Vigna 2016).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Chance {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    /// A number in `-1..1`, of 16 bits.
    pub fn signed(&mut self) -> f32 {
        self.below(1 << 16) as f32 / f32::from(1u16 << 15) - 1.0
    }
}
