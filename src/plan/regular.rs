//! Reading files that others made: regular ones only, of a length that is known before it is believed, and never waiting for
//! anybody.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
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

/// The bytes of a regular file of at most `most` bytes. A longer one is refused before it is read
/// ([`io::ErrorKind::FileTooLarge`]), and so is one that grows meanwhile.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let too_large = |bytes: u64| {
        let reason = format!("{bytes} bytes are more than the {most} such a file may have");
        io::Error::new(io::ErrorKind::FileTooLarge, reason)
    };
    let (file, metadata) = open(path)?;
    if metadata.len() > most {
        return Err(too_large(metadata.len()));
    }
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(metadata.len() as usize)?;
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        length if length > most => Err(too_large(length)),
        _ => Ok(bytes),
    }
}

/// The same as text; an error for what is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(read(path, most)?).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_it_may_be_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, b"abc").unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"abc");
        assert_eq!(read(&file, 2).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(read_text(&file, 3).unwrap(), "abc");
        std::fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_text(&file, 3).unwrap_err().kind(), io::ErrorKind::InvalidData);
        // Its length is given as 0.
        assert!(read(Path::new("/proc/self/maps"), 10).is_err());
    }

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
