//! The folder that `platoon scenes` writes: pictures of a synthetic drive, their label maps, and `truth.jsonl`.
//!
//! `truth.jsonl` has one object a line and frame: the drive's seed and the frame's number in it, where its picture and its
//! label map are, and its objects. As PNG every picture and label map is a file of its own; raw, all pictures of the folder
//! stand one after another in `frames.bin` (u8, [frames, 720, 1280, 3]) and all label maps in `labels.bin`
//! (u8, [frames, 720, 1280]).

use crate::replay::folder::{FolderError, claim};
use crate::replay::picture::{Picture, WriteError, write_map};
use crate::scenes::{Class, Drive, Frame, HEIGHT, Object, Renderer, WIDTH};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The list of what the folder holds.
const TRUTH: &str = "truth.jsonl";
/// Finished frames that each worker holds ready for the writer.
const AHEAD: usize = 2;

/// How pictures and label maps are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A PNG file for each picture and each label map
    Png,
    /// All pictures in one file and all label maps in another, bytes without headers
    Raw,
}

impl Format {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Format::Png => "png",
            Format::Raw => "raw",
        }
    }
}

/// Which frames of which drive are written, and how.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// The drive's seed.
    pub seed: u64,
    /// How many frames.
    pub frames: u32,
    /// The first one's number in the drive.
    pub start: u32,
    /// From one frame's number to the next one's.
    pub every: u32,
    /// How they are stored.
    pub format: Format,
}

impl Selection {
    /// The number in the drive of frame `index` of the folder.
    fn number(&self, index: u32) -> u32 {
        self.start.saturating_add(index.saturating_mul(self.every))
    }

    /// Where the picture and the label map of frame `index` are, relative to the folder.
    fn files(&self, index: u32) -> [String; 2] {
        match self.format {
            Format::Png => [format!("frames/{index:04}.png"), format!("labels/{index:04}.png")],
            Format::Raw => ["frames.bin".into(), "labels.bin".into()],
        }
    }

    /// The line of `truth.jsonl` of frame `index`.
    fn line(&self, index: u32, objects: &[Object]) -> Value {
        let [picture, labels] = self.files(index);
        json!({
            "frame": index,
            "seed": self.seed,
            "number": self.number(index),
            "picture": picture,
            "labels": labels,
            "objects": objects.iter().map(object).collect::<Vec<_>>(),
        })
    }
}

/// An object of the ground truth.
fn object(object: &Object) -> Value {
    json!({
        "id": object.id,
        "class": object.class as u8,
        "label": object.class.label(),
        "box": object.bounds,
        "visible": f64::from(object.visible) / 1000.0,
        "ignored": object.ignored,
        "signal": object.signal.map(|s| s as u8),
    })
}

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames.
    pub frames: u32,
    /// Objects that count, by the number of their class.
    pub counted: [u64; Class::LABELS.len()],
    /// Objects too small or too hidden to be asked for.
    pub ignored: u64,
}

impl Totals {
    fn add(&mut self, objects: &[Object]) {
        self.frames += 1;
        for object in objects {
            match object.ignored {
                true => self.ignored += 1,
                false => self.counted[object.class as usize] += 1,
            }
        }
    }
}

/// Why the folder cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The folder or one of its files.
    #[error("{path}: cannot be written", path = .path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder is not to be had.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A picture or a label map.
    #[error(transparent)]
    Picture(#[from] WriteError),
}

/// A rendered frame on its way to the writer: what is left to write of it.
struct Rendered {
    objects: Vec<Object>,
    /// Picture and label map, where they belong into files that all frames share.
    raw: Option<[Vec<u8>; 2]>,
}

/// Renders the frames of `selection` on `workers` threads and writes them to `folder`, which is created. Files of an
/// earlier run are removed. `progress` is told the number of frames written so far.
///
/// The files have the same bytes for any number of workers.
pub fn write(folder: &Path, selection: Selection, workers: usize, mut progress: impl FnMut(u32)) -> Result<Totals, DatasetError> {
    let mut writer = Writer::create(folder, selection)?;
    let drive = Drive::new(selection.seed);
    let workers = u32::try_from(workers).unwrap_or(u32::MAX).clamp(1, selection.frames.max(1));
    std::thread::scope(|scope| {
        let mut finished: Vec<Receiver<Result<Rendered, DatasetError>>> = Vec::new();
        for worker in 0..workers {
            let (sender, receiver) = sync_channel(AHEAD);
            finished.push(receiver);
            let share = (worker..selection.frames).step_by(workers as usize);
            let drive = &drive;
            scope.spawn(move || render(drive, folder, selection, share, &sender));
        }
        // The workers take turns, so their frames come in order. Leaving early closes the channels, which ends them.
        for (index, from) in (0..selection.frames).zip((0..workers as usize).cycle()) {
            let Ok(rendered) = finished[from].recv() else {
                break;
            };
            writer.frame(index, rendered?)?;
            progress(index + 1);
        }
        Ok::<(), DatasetError>(())
    })?;
    writer.finish()
}

/// A worker: renders the frames of its share, writes what is theirs alone, sends the rest.
fn render(
    drive: &Drive,
    folder: &Path,
    selection: Selection,
    share: impl Iterator<Item = u32>,
    to_writer: &SyncSender<Result<Rendered, DatasetError>>,
) {
    let mut renderer = Renderer::new();
    let mut frame = Frame::default();
    for index in share {
        renderer.render(drive, selection.number(index), &mut frame);
        let rendered = match selection.format {
            Format::Png => pictures(folder, selection.files(index), &mut frame).map(|()| None),
            Format::Raw => Ok(Some([std::mem::take(&mut frame.pixels), std::mem::take(&mut frame.labels)])),
        };
        let objects = std::mem::take(&mut frame.objects);
        if to_writer.send(rendered.map(|raw| Rendered { objects, raw })).is_err() {
            return;
        }
    }
}

/// Writes a frame's picture and label map as PNG.
fn pictures(folder: &Path, [picture, labels]: [String; 2], frame: &mut Frame) -> Result<(), DatasetError> {
    let size = (WIDTH as u32, HEIGHT as u32);
    let rendered = Picture::new(size.0, size.1, std::mem::take(&mut frame.pixels));
    rendered
        .unwrap_or_else(|| unreachable!("a rendered frame has its size"))
        .write_png(&folder.join(picture))?;
    Ok(write_map(&folder.join(labels), &frame.labels, size)?)
}

/// The files that all frames share.
struct Writer {
    selection: Selection,
    truth: Output,
    /// Pictures and label maps, if they are stored raw.
    raw: Option<[Output; 2]>,
    totals: Totals,
}

impl Writer {
    fn create(folder: &Path, selection: Selection) -> Result<Writer, DatasetError> {
        let folders = match selection.format {
            Format::Png => vec![folder.join("frames"), folder.join("labels")],
            Format::Raw => vec![folder.to_path_buf()],
        };
        for path in folders {
            std::fs::create_dir_all(&path).map_err(|source| DatasetError::Write { path, source })?;
        }
        // Nothing in the folder is of another drive than its truth.
        let truth = claim(folder, TRUTH, &["frames.bin", "labels.bin"], &["frames", "labels"])?;
        let open = |name: &str| Output::create(folder.join(name));
        Ok(Writer {
            truth: Output::over(folder.join(TRUTH), truth),
            raw: match selection.format {
                Format::Png => None,
                Format::Raw => Some([open("frames.bin")?, open("labels.bin")?]),
            },
            selection,
            totals: Totals::default(),
        })
    }

    fn frame(&mut self, index: u32, rendered: Rendered) -> Result<(), DatasetError> {
        let line = self.selection.line(index, &rendered.objects);
        self.truth.push(format!("{line}\n").as_bytes())?;
        for (file, bytes) in self.raw.iter_mut().flatten().zip(rendered.raw.iter().flatten()) {
            file.push(bytes)?;
        }
        self.totals.add(&rendered.objects);
        Ok(())
    }

    fn finish(self) -> Result<Totals, DatasetError> {
        for file in [self.truth].into_iter().chain(self.raw.into_iter().flatten()) {
            file.finish()?;
        }
        Ok(self.totals)
    }
}

/// A file being written, with its name for the error.
struct Output {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Output {
    fn create(path: PathBuf) -> Result<Output, DatasetError> {
        match File::create(&path) {
            Ok(file) => Ok(Output::over(path, file)),
            Err(source) => Err(DatasetError::Write { path, source }),
        }
    }

    fn over(path: PathBuf, file: File) -> Output {
        Output {
            path,
            file: BufWriter::new(file),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), DatasetError> {
        self.file.write_all(bytes).map_err(|source| self.unwritable(source))
    }

    fn finish(mut self) -> Result<(), DatasetError> {
        self.file.flush().map_err(|source| self.unwritable(source))
    }

    fn unwritable(&self, source: std::io::Error) -> DatasetError {
        DatasetError::Write {
            path: self.path.clone(),
            source,
        }
    }
}
