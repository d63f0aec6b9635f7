//! Where the frames of a replay come from: picture files, or the synthetic camera.

use super::drives::{Drives, DrivesError};
use super::picture::{Picture, PictureError};
use crate::scenes::{Drive, Frame, HEIGHT, Object, Renderer, WIDTH};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Frames of a synthetic drive, which has no end, where their number is not said.
pub const DEFAULT_FRAMES: usize = 120;
/// What stands before synthetic drives.
const SYNTHETIC: &str = "synthetic:";

/// What a replay is asked to run on. As text: a path, or `synthetic:` and [`Drives`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A picture file, or a folder of them.
    Recorded(PathBuf),
    /// Drives through the synthetic camera.
    Synthetic(Drives),
}

impl FromStr for Input {
    type Err = DrivesError;

    fn from_str(text: &str) -> Result<Input, DrivesError> {
        match text.strip_prefix(SYNTHETIC) {
            Some(drives) => drives.parse().map(Input::Synthetic),
            None => Ok(Input::Recorded(text.into())),
        }
    }
}

/// The pictures of every camera, frame by frame.
///
/// A folder gives its JPEG and PNG files in the order of their names. Where a task set looks through several cameras,
/// the folder has one subfolder for each, named like the camera. Pictures whose names but for their endings are alike belong to one frame,
/// and a camera that has none of a name has no picture there; where no two cameras share a name, the n-th picture of each belongs to
/// frame n. The synthetic camera is one camera: it feeds task sets that look through one.
pub struct Source {
    pictures: Pictures,
    cameras: usize,
}

enum Pictures {
    /// The files of each camera, frame by frame.
    Recorded(Vec<Vec<Option<PathBuf>>>),
    /// Drives, and which camera sees them.
    Synthetic { drives: Drives, camera: usize },
}

/// One frame of a source.
pub struct Shot {
    /// Every camera's picture, in table order; `None` for a camera that has none.
    pub pictures: Vec<Option<Result<Picture, PictureError>>>,
    /// What the pictures show, of the synthetic camera.
    pub truth: Option<Truth>,
}

/// The ground truth of a picture of the synthetic camera.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    /// The [`Surface`](crate::scenes::Surface) of every pixel by number, row by row.
    pub labels: Vec<u8>,
    /// What is in the picture.
    pub objects: Vec<Object>,
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
    /// Nobody knows which pictures of several cameras belong together.
    #[error("{path}: the cameras have different numbers of pictures ({counts}) and no names in common: name those of one moment alike", path = .path.display())]
    Uneven {
        /// The folder.
        path: PathBuf,
        /// Cameras and numbers.
        counts: String,
    },
    /// The synthetic camera cannot feed several cameras.
    #[error("the synthetic camera is one camera; the task set looks through {cameras}: give a folder of pictures, or another --task-set")]
    Synthetic {
        /// The cameras' names.
        cameras: String,
    },
    /// The task set looks through no camera.
    #[error("the task set looks through no camera, so there is nothing to replay: use `platoon infer`")]
    NoCamera,
}

impl Source {
    /// Finds the pictures of `input` for `cameras`: names in table order, and whether any tenant looks through them.
    pub fn open(input: &Input, cameras: &[(&str, bool)]) -> Result<Source, SourceError> {
        let used: Vec<&str> = cameras.iter().filter(|c| c.1).map(|c| c.0).collect();
        let pictures = match input {
            _ if used.is_empty() => return Err(SourceError::NoCamera),
            Input::Recorded(path) => Pictures::Recorded(recorded(path, cameras, &used)?),
            Input::Synthetic(_) if used.len() > 1 => {
                return Err(SourceError::Synthetic { cameras: used.join(", ") });
            }
            Input::Synthetic(drives) => Pictures::Synthetic {
                drives: *drives,
                camera: cameras.iter().position(|c| c.1).unwrap_or(0),
            },
        };
        Ok(Source {
            pictures,
            cameras: cameras.len(),
        })
    }

    /// The number of frames where `asked` are wanted at most: of recorded pictures as many as there
    /// are, of a synthetic drive as many as asked for, by default [`DEFAULT_FRAMES`].
    pub fn frames(&self, asked: Option<usize>) -> usize {
        match &self.pictures {
            Pictures::Recorded(files) => {
                let longest = files.iter().map(Vec::len).max().unwrap_or(0);
                longest.min(asked.unwrap_or(usize::MAX))
            }
            // A drive's frames are numbered in 32 bits.
            Pictures::Synthetic { .. } => asked.unwrap_or(DEFAULT_FRAMES).min(u32::MAX as usize),
        }
    }

    /// The number of cameras, those without pictures included.
    pub fn cameras(&self) -> usize {
        self.cameras
    }

    /// The name of `camera`'s picture in `frame`, if it has one: of a file its name without folders, of a synthetic drive
    /// its seed and the frame's number, as in `synthetic:7#12`.
    pub fn name(&self, frame: usize, camera: usize) -> Option<String> {
        match &self.pictures {
            Pictures::Recorded(files) => {
                let name = files.get(camera)?.get(frame)?.as_ref()?.file_name()?;
                Some(name.to_string_lossy().into_owned())
            }
            Pictures::Synthetic { drives, camera: own } => (camera == *own).then(|| {
                let (seed, number) = drives.look(frame);
                format!("{SYNTHETIC}{seed}#{number}")
            }),
        }
    }

    /// Where `camera`'s picture in `frame` is, for messages: a file with its folders; else its name.
    pub fn place(&self, frame: usize, camera: usize) -> Option<String> {
        match &self.pictures {
            Pictures::Recorded(files) => Some(files.get(camera)?.get(frame)?.as_ref()?.display().to_string()),
            Pictures::Synthetic { .. } => self.name(frame, camera),
        }
    }

    /// The first `count` frames in order, each read or rendered when it is asked for.
    pub fn shots(&self, count: usize) -> impl Iterator<Item = Shot> + Send {
        let mut renderer = None;
        let mut drive: Option<Drive> = None;
        (0..count).map(move |frame| match &self.pictures {
            Pictures::Recorded(files) => Shot {
                pictures: files.iter().map(|of| of.get(frame)?.as_deref().map(Picture::read)).collect(),
                truth: None,
            },
            Pictures::Synthetic { drives, camera } => {
                let renderer = renderer.get_or_insert_with(Renderer::new);
                let (seed, number) = drives.look(frame);
                drive = drive.take().filter(|d| d.seed() == seed);
                let drive = drive.get_or_insert_with(|| Drive::new(seed));
                let mut rendered = Frame::default();
                renderer.render(drive, number, &mut rendered);
                let mut picture = Picture::new(WIDTH as u32, HEIGHT as u32, rendered.pixels);
                Shot {
                    pictures: (0..self.cameras).map(|c| picture.take_if(|_| c == *camera).map(Ok)).collect(),
                    truth: Some(Truth {
                        labels: rendered.labels,
                        objects: rendered.objects,
                    }),
                }
            }
        })
    }

    /// True if its frames come with their ground truth.
    pub fn has_truth(&self) -> bool {
        matches!(self.pictures, Pictures::Synthetic { .. })
    }
}

/// The picture files of every camera; `used` are those that tenants look through.
fn recorded(input: &Path, cameras: &[(&str, bool)], used: &[&str]) -> Result<Vec<Vec<Option<PathBuf>>>, SourceError> {
    let unreadable = |source| SourceError::Read {
        path: input.into(),
        source,
    };
    let is_folder = std::fs::metadata(input).map_err(unreadable)?.is_dir();
    let mut all = vec![Vec::new(); cameras.len()];
    match used {
        [name] => {
            let folder = input.join(name);
            let files = match is_folder {
                false => vec![input.to_path_buf()],
                true if folder.is_dir() => pictures(&folder)?,
                true => pictures(input)?,
            };
            let camera = cameras.iter().position(|c| c.1).unwrap_or(0);
            all[camera] = files.into_iter().map(Some).collect();
        }
        names if !is_folder => {
            return Err(SourceError::Single {
                path: input.into(),
                cameras: names.join(", "),
            });
        }
        names => {
            let folders = names.iter().map(|name| pictures(&input.join(name)));
            let of_used = side_by_side(folders.collect::<Result<_, _>>()?).map_err(|counts| SourceError::Uneven {
                path: input.into(),
                counts: names
                    .iter()
                    .zip(counts)
                    .map(|(name, count)| format!("{name} {count}"))
                    .collect::<Vec<_>>()
                    .join(", "),
            })?;
            let places = all.iter_mut().zip(cameras).filter(|(_, camera)| camera.1);
            places.zip(of_used).for_each(|((place, _), files)| *place = files);
        }
    }
    Ok(all)
}

/// The pictures of several cameras, frame by frame: see [`Source`]. The cameras' numbers of pictures where nothing says which belong together.
fn side_by_side(cameras: Vec<Vec<PathBuf>>) -> Result<Vec<Vec<Option<PathBuf>>>, Vec<usize>> {
    // A name may stand twice in a folder, with two endings.
    let mut frames: BTreeMap<(OsString, usize), Vec<Option<PathBuf>>> = BTreeMap::new();
    for (camera, files) in cameras.iter().enumerate() {
        let mut earlier: BTreeMap<OsString, usize> = BTreeMap::new();
        for file in files {
            let name = file.file_stem().unwrap_or_default().to_owned();
            let count = earlier.entry(name.clone()).or_default();
            frames.entry((name, *count)).or_insert_with(|| vec![None; cameras.len()])[camera] = Some(file.clone());
            *count += 1;
        }
    }
    if frames.len() < cameras.iter().map(Vec::len).sum() {
        return Ok((0..cameras.len())
            .map(|c| frames.values().map(|f| f[c].clone()).collect())
            .collect());
    }
    let counts: Vec<usize> = cameras.iter().map(Vec::len).collect();
    match counts.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(cameras.into_iter().map(|files| files.into_iter().map(Some).collect()).collect()),
        false => Err(counts),
    }
}

/// The JPEG and PNG files of a folder, by name. One that cannot be read, a dangling link for instance, keeps its frame, in which it
/// is a problem.
fn pictures(folder: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let unreadable = |source| SourceError::Read {
        path: folder.into(),
        source,
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // Files that a folder hides, as what some systems keep beside a picture, are none of its pictures.
        if path.file_name().is_some_and(|name| name.as_bytes().starts_with(b".")) {
            continue;
        }
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        if ["jpg", "jpeg", "png"].contains(&extension.as_str()) && !path.is_dir() {
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
        (0..source.frames(None)).filter_map(|f| source.name(f, camera)).collect()
    }

    fn open(path: &Path, cameras: &[(&str, bool)]) -> Result<Source, SourceError> {
        Source::open(&Input::Recorded(path.into()), cameras)
    }

    /// The error of a source that does not open.
    fn refused(source: Result<Source, SourceError>) -> SourceError {
        source.err().expect("an error")
    }

    #[test]
    fn one_camera_takes_the_pictures_of_the_folder_in_order() {
        let dir = tempfile::tempdir().unwrap();
        touch(dir.path(), &["b.JPG", "a.png", "c.txt", "0010.jpeg", "0009.jpeg"]);
        let source = open(dir.path(), &[("rear", false), ("front", true)]).unwrap();
        assert_eq!(names(&source, 1), ["0009.jpeg", "0010.jpeg", "a.png", "b.JPG"]);
        assert_eq!((source.cameras(), source.name(0, 0)), (2, None));
        let one = open(&dir.path().join("a.png"), &[("front", true)]).unwrap();
        assert_eq!(names(&one, 0), ["a.png"]);
    }

    #[test]
    fn several_cameras_have_a_subfolder_each() {
        let dir = tempfile::tempdir().unwrap();
        let cameras = [("front", true), ("rear", true)];
        touch(&dir.path().join("front"), &["0.png", "1.png"]);
        let missing = refused(open(dir.path(), &cameras));
        assert!(
            matches!(&missing, SourceError::Read { path, .. } if path.ends_with("rear")),
            "{missing}"
        );
        touch(&dir.path().join("rear"), &["0.png"]);
        let source = open(dir.path(), &cameras).unwrap();
        assert_eq!((source.frames(None), names(&source, 0).len(), names(&source, 1).len()), (2, 2, 1));
        assert!(source.shots(2).nth(1).unwrap().pictures[1].is_none());
        // What one camera has lost leaves a gap there, and moves nothing.
        touch(&dir.path().join("rear"), &["2.jpg"]);
        touch(&dir.path().join("front"), &["2.png", "2.jpg"]);
        let source = open(dir.path(), &cameras).unwrap();
        let frames = |camera: usize| (0..source.frames(None)).map(|f| source.name(f, camera)).collect::<Vec<_>>();
        let named = |names: [&str; 4]| names.map(|n| (!n.is_empty()).then(|| n.to_owned())).to_vec();
        assert_eq!(frames(0), named(["0.png", "1.png", "2.jpg", "2.png"]));
        assert_eq!(frames(1), named(["0.png", "", "2.jpg", ""]));
        let single = refused(open(&dir.path().join("front/0.png"), &cameras));
        assert!(matches!(single, SourceError::Single { .. }));
    }

    #[test]
    fn pictures_without_common_names_are_paired_where_there_are_as_many() {
        let dir = tempfile::tempdir().unwrap();
        let cameras = [("front", true), ("side", false), ("rear", true)];
        touch(&dir.path().join("front"), &["17.00.png", "17.04.png"]);
        touch(&dir.path().join("rear"), &["17.01.png", "17.05.png"]);
        let source = open(dir.path(), &cameras).unwrap();
        assert_eq!(
            (names(&source, 0), names(&source, 1).len()),
            (vec!["17.00.png".into(), "17.04.png".into()], 0)
        );
        assert_eq!(names(&source, 2), ["17.01.png", "17.05.png"]);
        touch(&dir.path().join("rear"), &["17.09.png"]);
        let uneven = refused(open(dir.path(), &cameras)).to_string();
        assert!(uneven.contains("front 2, rear 3"), "{uneven}");
    }

    #[test]
    fn nothing_to_replay_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(open(dir.path(), &[("front", true)]), Err(SourceError::Empty { .. })));
        assert!(matches!(open(dir.path(), &[("front", false)]), Err(SourceError::NoCamera)));
        assert!(matches!(
            open(&dir.path().join("x"), &[("front", true)]),
            Err(SourceError::Read { .. })
        ));
    }

    #[test]
    fn a_text_names_a_path_or_drives() {
        let of = |text: &str| text.parse::<Input>();
        assert_eq!(of("synthetic:7"), Ok(Input::Synthetic(Drives::one(7))));
        assert!(matches!(of("synthetic:1-3@5"), Ok(Input::Synthetic(_))));
        assert_eq!(of("./synthetic:7"), Ok(Input::Recorded("./synthetic:7".into())));
        assert_eq!(of("frames"), Ok(Input::Recorded("frames".into())));
        assert!(of("synthetic:").is_err());
    }

    #[test]
    fn a_drive_is_seen_by_the_camera_in_use_with_its_truth() {
        let cameras = [("rear", false), ("front", true)];
        let source = Source::open(&Input::Synthetic(Drives::one(7)), &cameras).unwrap();
        assert_eq!((source.frames(None), source.frames(Some(3))), (DEFAULT_FRAMES, 3));
        assert!(source.has_truth());
        assert_eq!((source.name(12, 1).as_deref(), source.name(12, 0)), (Some("synthetic:7#12"), None));
        let shot = |source: &Source, frame| source.shots(3).nth(frame).unwrap();
        let Shot { pictures, truth } = shot(&source, 2);
        assert!(pictures[0].is_none());
        let picture = pictures[1].as_ref().unwrap().as_ref().unwrap();
        assert_eq!(picture.size(), (WIDTH as u32, HEIGHT as u32));
        assert_eq!(truth.as_ref().unwrap().labels.len(), WIDTH * HEIGHT);
        let again = shot(&Source::open(&Input::Synthetic(Drives::one(7)), &cameras).unwrap(), 2);
        assert_eq!(
            (again.pictures[1].as_ref().unwrap().as_ref().unwrap(), again.truth),
            (picture, truth)
        );
        let other = shot(&Source::open(&Input::Synthetic(Drives::one(8)), &cameras).unwrap(), 2);
        assert_ne!(other.pictures[1].as_ref().unwrap().as_ref().unwrap(), picture);
        assert_eq!(source.shots(3).count(), 3);
        // Drives by turns show what each shows alone.
        let turns = Source::open(&"synthetic:6-7@2".parse().unwrap(), &cameras).unwrap();
        assert_eq!(turns.name(3, 1).as_deref(), Some("synthetic:7#2"));
        let fourth = turns.shots(4).nth(3).unwrap();
        assert_eq!(fourth.pictures[1].as_ref().unwrap().as_ref().unwrap(), picture);
    }

    #[test]
    fn one_drive_cannot_feed_two_cameras() {
        let error = refused(Source::open(&Input::Synthetic(Drives::one(7)), &[("front", true), ("rear", true)]));
        assert!(
            matches!(&error, SourceError::Synthetic { cameras } if cameras == "front, rear"),
            "{error}"
        );
        let none = refused(Source::open(&Input::Synthetic(Drives::one(7)), &[("front", false)]));
        assert!(matches!(none, SourceError::NoCamera));
    }
}
