//! A folder of results, held by one writer at a time: what an earlier one wrote goes when the next begins, what others keep there stays.
//!
//! One of its files lists the frames that there are, `results.jsonl` of a replay, `truth.jsonl` of scenes: whoever writes it writes the folder.

use super::names::{of_frames, remove_all};
use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};

/// Why a folder is not written to.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// Somebody else writes there.
    #[error("{path}: is being written by another process: wait for it, or give another folder", path = .path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// Pictures lie where those of frames go, and nothing says that they may be replaced.
    #[error("{path}: stands where pictures of frames go, and no earlier run wrote it (there is no {list}): move such files away, or give another folder", path = .path.display())]
    Foreign {
        /// One of them.
        path: PathBuf,
        /// The file that an earlier run would have left.
        list: String,
    },
    /// A folder or file.
    #[error("{path}: cannot be written", path = .path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Takes `folder` for its next frames: the file `list`, empty, which keeps others away until it is closed, once what an earlier run left is
/// gone: `files`, and the pictures of frames in the subfolders `pictures`. Where a file system has no locks, writers are not kept apart.
pub fn claim(folder: &Path, list: &str, files: &[&str], pictures: &[&str]) -> Result<File, FolderError> {
    let path = folder.join(list);
    let failed = |source| FolderError::Write {
        path: path.clone(),
        source,
    };
    let old: Vec<PathBuf> = pictures.iter().flat_map(|part| of_frames(&folder.join(part))).collect();
    if let Some(first) = old.first().filter(|_| !path.exists()) {
        return Err(FolderError::Foreign {
            path: first.clone(),
            list: list.to_owned(),
        });
    }
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            return Err(FolderError::Busy {
                path: folder.to_path_buf(),
            });
        }
        Err(TryLockError::Error(error)) if error.kind() != std::io::ErrorKind::Unsupported => return Err(failed(error)),
        _ => {}
    }
    // The list goes first: it never names what is no longer there. Devices and pipes have nothing to lose.
    if file.metadata().is_ok_and(|m| m.is_file()) {
        file.set_len(0).map_err(failed)?;
    }
    let old = files.iter().map(|name| folder.join(name)).chain(old);
    remove_all(old).map_err(|(path, source)| FolderError::Write { path, source })?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_that_no_run_wrote_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let claim = || claim(dir.path(), "list", &["sum", "list.bin"], &["frames"]);
        std::fs::create_dir(at("frames")).unwrap();
        std::fs::create_dir(at("frames/0003.png")).unwrap();
        for name in ["frames/0001.png", "frames/x.png", "sum"] {
            std::fs::write(at(name), "old").unwrap();
        }
        let foreign = claim().unwrap_err();
        assert!(
            matches!(&foreign, FolderError::Foreign { path, .. } if *path == at("frames/0001.png")),
            "{foreign}"
        );
        assert!(at("sum").exists() && !at("list").exists());
        std::fs::write(at("list"), "old").unwrap();
        let list = claim().unwrap();
        assert!(std::fs::read(at("list")).unwrap().is_empty());
        assert!(!at("frames/0001.png").exists() && !at("sum").exists());
        assert!(at("frames/x.png").exists() && at("frames/0003.png").is_dir());
        assert!(matches!(claim(), Err(FolderError::Busy { .. })));
        drop(list);
        claim().unwrap();
    }
}
