//! Files that take the place of others whole.

use crate::plan::regular;
use std::fs::File;
use std::io::{Error, Write};
use std::path::Path;

/// Writes a file so that a reader sees the old or the new content, never a part, also after a power cut; an unchanged file stays
/// untouched, and where writing fails, so does the old one, and no draft is left.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if holds(path, bytes) {
        return Ok(());
    }
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.tmp", std::process::id()));
    let draft = path.with_file_name(name);
    let write = || {
        let mut file = File::create(&draft)?;
        file.write_all(bytes)?;
        // On disk before it has its name: a power cut leaves the old file or the new one.
        file.sync_all()?;
        std::fs::rename(&draft, path)
    };
    write().inspect_err(|_| {
        // Of a full disk this is what frees some of it; that it may fail too says nothing new.
        let _ = std::fs::remove_file(&draft);
    })
}

/// True if a file has this content already.
pub fn holds(path: &Path, bytes: &[u8]) -> bool {
    let same_length = path.metadata().is_ok_and(|m| m.is_file() && m.len() == bytes.len() as u64);
    same_length && regular::read(path, bytes.len() as u64).is_ok_and(|old| old == bytes)
}

#[cfg(test)]
mod tests {
    use super::replace;

    #[test]
    fn files_are_replaced_whole_and_leave_no_draft() {
        let folder = tempfile::tempdir().unwrap();
        let names = || -> Vec<_> { std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect() };
        let file = folder.path().join("table");
        replace(&file, b"old").unwrap();
        replace(&file, b"newer").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"newer");
        assert_eq!(names(), ["table"]);

        // The draft can be written, but takes no folder's place.
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        replace(&file, b"newest").unwrap_err();
        assert!(file.is_dir());
        assert_eq!(names(), ["table"]);
    }

    #[test]
    fn unchanged_files_stay_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("table");
        replace(&file, b"same").unwrap();
        let hour = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
        std::fs::File::options()
            .append(true)
            .open(&file)
            .unwrap()
            .set_modified(hour)
            .unwrap();
        let before = file.metadata().unwrap().modified().unwrap();
        replace(&file, b"same").unwrap();
        assert_eq!(file.metadata().unwrap().modified().unwrap(), before);
    }
}
