//! Names of cameras, tenants and maps as parts of file names, and the files of frames that were written earlier.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

/// `name` as a part of a file name: characters outside `[A-Za-z0-9_-]` become `_`.
pub fn file_part(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "_-".contains(c) { c } else { '_' };
    name.chars().map(plain).collect()
}

/// The parts of names that are written side by side, each another: see [`unused`].
pub fn file_parts<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    names.into_iter().map(|name| unused(&file_part(name), &mut taken)).collect()
}

/// `name`, or where it is taken, `name` with the lowest free number behind it; taken from now on.
pub fn unused(name: &str, taken: &mut BTreeSet<String>) -> String {
    let numbered = (2..).map(|n| format!("{name}_{n}"));
    let free = std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|n| !taken.contains(n))
        .unwrap_or_default();
    taken.insert(free.clone());
    free
}

/// The pictures of frames in a folder, by their names: four or more digits, whatever follows a dot, and `.png`. A folder that is
/// not there, or cannot be read, holds none; folders are no pictures.
pub fn of_frames(folder: &Path) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let number = name.split('.').next().unwrap_or_default();
        number.len() >= 4 && number.bytes().all(|b| b.is_ascii_digit()) && name.ends_with(".png") && !path.is_dir()
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|e| Some(e.ok()?.path())).filter(is_one).collect()
}

/// Removes files, as far as they are there; the first that cannot be removed, and why.
pub fn remove_all(files: impl IntoIterator<Item = PathBuf>) -> Result<(), (PathBuf, io::Error)> {
    files.into_iter().try_for_each(|path| match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err((path, error)),
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_of_frames_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["0001.png", "12345.lanes.png", "1.png", "frame0001.png", "0001.jpg"] {
            std::fs::write(at(name), []).unwrap();
        }
        let mut found = of_frames(folder.path());
        found.sort();
        assert_eq!(found, [at("0001.png"), at("12345.lanes.png")]);
        remove_all(found.into_iter().chain([at("none.png")])).unwrap();
        assert!(of_frames(folder.path()).is_empty() && at("1.png").exists());
        assert!(of_frames(&at("nothing")).is_empty());
    }

    #[test]
    fn names_that_become_alike_stay_apart() {
        assert_eq!(file_parts(["front", "ä", "ö", "_", "a/b"]), ["front", "_", "__2", "__3", "a_b"]);
        assert_eq!(file_parts(["a b", "a_b_2", "a_b"]), ["a_b", "a_b_2", "a_b_3"]);
    }
}
