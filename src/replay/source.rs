//! Where the frames of a replay come from: a picture file, or a folder of them.

use super::picture::{Picture, PictureError};
use std::path::{Path, PathBuf};

/// The pictures of every camera, frame by frame.
///
/// A folder gives its JPEG and PNG files in the order of their names. Where a task set looks through several cameras,
/// the folder has one subfolder for each, named like the camera; the n-th picture of each belongs to frame n.
#[derive(Debug)]
pub struct Source {
    cameras: Vec<Vec<PathBuf>>,
}

/// Why there are no frames to replay.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The input, or a camera's subfolder, is not there or cannot be listed.
    #[error("{path}: cannot be read", path = .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A folder holds no pictures.
    #[error("{path}: no JPEG or PNG files in this folder", path = .path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// One file cannot feed several cameras.
    #[error("{path}: one file cannot feed the cameras {cameras}: give a folder with a subfolder for each", path = .path.display())]
    Single {
        /// The file.
        path: PathBuf,
        /// The cameras' names.
        cameras: String,
    },
    /// The task set looks through no camera.
    #[error("the task set looks through no camera, so there is nothing to replay: use `platoon infer`")]
    NoCamera,
}

impl Source {
    /// Finds the pictures of `input` for `cameras`: names in table order, and whether any tenant looks through them.
    pub fn open(input: &Path, cameras: &[(&str, bool)]) -> Result<Source, SourceError> {
        let used: Vec<&str> = cameras.iter().filter(|c| c.1).map(|c| c.0).collect();
        let mut all = vec![Vec::new(); cameras.len()];
        let unreadable = |source| SourceError::Read {
            path: input.into(),
            source,
        };
        let is_folder = std::fs::metadata(input).map_err(unreadable)?.is_dir();
        match used.as_slice() {
            [] => return Err(SourceError::NoCamera),
            [name] => {
                let folder = input.join(name);
                let files = match is_folder {
                    false => vec![input.to_path_buf()],
                    true if folder.is_dir() => pictures(&folder)?,
                    true => pictures(input)?,
                };
                let camera = cameras.iter().position(|c| c.1).unwrap_or(0);
                all[camera] = files;
            }
            names if !is_folder => {
                return Err(SourceError::Single {
                    path: input.into(),
                    cameras: names.join(", "),
                });
            }
            _ => {
                for (files, (name, _)) in all.iter_mut().zip(cameras).filter(|(_, c)| c.1) {
                    *files = pictures(&input.join(name))?;
                }
            }
        }
        Ok(Source { cameras: all })
    }

    /// The number of frames: as many as the camera with the most pictures has.
    pub fn frames(&self) -> usize {
        self.cameras.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// The number of cameras, those without pictures included.
    pub fn cameras(&self) -> usize {
        self.cameras.len()
    }

    /// The file of `camera` in `frame`, if it has one.
    pub fn file(&self, frame: usize, camera: usize) -> Option<&Path> {
        self.cameras.get(camera)?.get(frame).map(PathBuf::as_path)
    }

    /// Reads the picture of every camera in `frame`; `None` for a camera that has none.
    pub fn read(&self, frame: usize) -> Vec<Option<Result<Picture, PictureError>>> {
        (0..self.cameras())
            .map(|camera| self.file(frame, camera).map(Picture::read))
            .collect()
    }
}

/// The JPEG and PNG files of a folder, by name.
fn pictures(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let unreadable = |source| SourceError::Read {
        path: folder.into(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        if ["jpg", "jpeg", "png"].contains(&extension.as_str()) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(SourceError::Empty { path: folder.into() });
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(dir: &Path, names: &[&str]) {
        std::fs::create_dir_all(dir).unwrap();
        names.iter().for_each(|n| std::fs::write(dir.join(n), "").unwrap());
    }

    fn names(source: &Source, camera: usize) -> Vec<String> {
        (0..source.frames())
            .filter_map(|f| Some(source.file(f, camera)?.file_name()?.to_str()?.to_owned()))
            .collect()
    }

    #[test]
    fn one_camera_takes_the_pictures_of_the_folder_in_order() {
        let dir = tempfile::tempdir().unwrap();
        touch(dir.path(), &["b.JPG", "a.png", "c.txt", "0010.jpeg", "0009.jpeg"]);
        let source = Source::open(dir.path(), &[("rear", false), ("front", true)]).unwrap();
        assert_eq!(names(&source, 1), ["0009.jpeg", "0010.jpeg", "a.png", "b.JPG"]);
        assert_eq!((source.cameras(), source.file(0, 0)), (2, None));
        let one = Source::open(&dir.path().join("a.png"), &[("front", true)]).unwrap();
        assert_eq!(names(&one, 0), ["a.png"]);
    }

    #[test]
    fn several_cameras_have_a_subfolder_each() {
        let dir = tempfile::tempdir().unwrap();
        let cameras = [("front", true), ("rear", true)];
        touch(&dir.path().join("front"), &["0.png", "1.png"]);
        let missing = Source::open(dir.path(), &cameras).unwrap_err();
        assert!(
            matches!(&missing, SourceError::Read { path, .. } if path.ends_with("rear")),
            "{missing}"
        );
        touch(&dir.path().join("rear"), &["0.png"]);
        let source = Source::open(dir.path(), &cameras).unwrap();
        assert_eq!((source.frames(), names(&source, 0).len(), names(&source, 1).len()), (2, 2, 1));
        assert!(source.read(1)[1].is_none());
        let single = Source::open(&dir.path().join("front/0.png"), &cameras).unwrap_err();
        assert!(matches!(single, SourceError::Single { .. }));
    }

    #[test]
    fn nothing_to_replay_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            Source::open(dir.path(), &[("front", true)]),
            Err(SourceError::Empty { .. })
        ));
        assert!(matches!(Source::open(dir.path(), &[("front", false)]), Err(SourceError::NoCamera)));
        assert!(matches!(
            Source::open(&dir.path().join("x"), &[("front", true)]),
            Err(SourceError::Read { .. })
        ));
    }
}
