//! Opening files that others made: regular ones only, and never waiting for anybody.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading. A pipe without a writer would keep an ordinary opening waiting for ever: here it, a
/// directory and a device are errors.
pub fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata)),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_open_and_nothing_waits() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"abc").unwrap();
        assert_eq!(open(&file).unwrap().1.len(), 3);
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            assert_eq!(open(path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
        assert_eq!(open(&folder.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
