//! The folder that a replay writes: results, timing, masks, overlays, summary.

use super::folder::{FolderError, claim};
use super::names::file_parts;
use super::overlay::{self, contact::ContactSheet};
use super::picture::{self, Picture, WriteError};
use super::report::Summary;
use super::results::{FrameRecord, Output};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

const RESULTS: &str = "results.jsonl";

/// What is written besides results, timing and summary.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// `masks/`: label maps at the size of their pictures, one byte a pixel.
    pub masks: bool,
    /// `overlay/`: the pictures with everything that was found, and a contact sheet.
    pub overlay: bool,
}

/// Why the folder cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// A folder or text file.
    #[error("{path}: cannot be written", path = .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder is not to be had.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A picture.
    #[error(transparent)]
    Picture(#[from] WriteError),
}

/// An open results folder.
pub struct Sink {
    folder: PathBuf,
    extras: Extras,
    /// The cameras' parts of the names of overlays.
    cameras: Vec<String>,
    results: Lines,
    timing: Lines,
    sheet: ContactSheet,
    /// The file written last for each map of each tenant.
    masks: BTreeMap<(usize, String), String>,
}

struct Lines {
    path: PathBuf,
    file: BufWriter<File>,
}

impl Lines {
    fn create(path: PathBuf) -> Result<Lines, SinkError> {
        let file = File::create(&path).map_err(|source| SinkError::Write {
            path: path.clone(),
            source,
        })?;
        Ok(Lines::over(path, file))
    }

    fn over(path: PathBuf, file: File) -> Lines {
        Lines {
            path,
            file: BufWriter::new(file),
        }
    }

    fn push(&mut self, line: &Value) -> Result<(), SinkError> {
        writeln!(self.file, "{line}").map_err(|source| SinkError::Write {
            path: self.path.clone(),
            source,
        })
    }

    fn finish(mut self) -> Result<(), SinkError> {
        self.file.flush().map_err(|source| SinkError::Write { path: self.path, source })
    }
}

impl Sink {
    /// Creates the folder and its files, replacing those of an earlier replay. `cameras` are the table's names; `pictures`
    /// is how many pictures the replay has, for the spacing of the contact sheet.
    pub fn create(folder: &Path, extras: Extras, cameras: Vec<String>, pictures: usize) -> Result<Sink, SinkError> {
        let wanted = [
            (true, folder.to_path_buf()),
            (extras.masks, folder.join("masks")),
            (extras.overlay, folder.join("overlay")),
        ];
        for (_, path) in wanted.into_iter().filter(|w| w.0) {
            std::fs::create_dir_all(&path).map_err(|source| SinkError::Write { path, source })?;
        }
        // Nothing in the folder is of other frames than its results.
        let others = ["score.json", "summary.json", "trace.json", "overlay/contact.png"];
        let results = claim(folder, RESULTS, &others, &["overlay", "masks"])?;
        Ok(Sink {
            results: Lines::over(folder.join(RESULTS), results),
            timing: Lines::create(folder.join("timing.jsonl"))?,
            folder: folder.to_path_buf(),
            extras,
            cameras: file_parts(cameras.iter().map(String::as_str)),
            sheet: ContactSheet::new(pictures),
            masks: BTreeMap::new(),
        })
    }

    /// True if label maps are written.
    pub fn has_masks(&self) -> bool {
        self.extras.masks
    }

    /// Writes a frame. `pictures` has the picture of each camera, in table order.
    pub fn frame(&mut self, frame: &FrameRecord, timing: &Value, pictures: &[Option<Picture>]) -> Result<(), SinkError> {
        self.results.push(&frame.to_json())?;
        self.timing.push(timing)?;
        for (index, tenant) in frame.tenants.iter().enumerate() {
            if let Output::Maps(maps) = &tenant.output {
                for (map, file) in maps.iter().filter_map(|m| Some((m, m.file.as_ref()?))) {
                    // A repeated map has been written under its old frame.
                    let last = self.masks.insert((index, map.name.clone()), file.clone());
                    if last.as_ref() != Some(file) {
                        picture::write_map(&self.folder.join(file), &map.pixels, map.size)?;
                    }
                }
            }
        }
        if self.extras.overlay {
            for (camera, picture) in pictures.iter().enumerate().filter_map(|(c, p)| Some((c, p.as_ref()?))) {
                let drawn = overlay::draw(picture.clone(), frame, camera);
                // The panel's words are too small to be read on a thumbnail.
                self.sheet.add(&drawn);
                let drawn = overlay::add_panel(drawn, frame, camera);
                let part = match self.cameras.as_slice() {
                    [_] => String::new(),
                    several => format!(".{}", several[camera]),
                };
                drawn.write_png(&self.folder.join(format!("overlay/{:04}{part}.png", frame.frame)))?;
            }
        }
        Ok(())
    }

    /// Writes the contact sheet, the score and the summary, and closes the files.
    pub fn finish(self, summary: &Summary) -> Result<(), SinkError> {
        self.results.finish()?;
        self.timing.finish()?;
        if self.extras.overlay
            && let Some(sheet) = self.sheet.finish()
        {
            sheet.write_png(&self.folder.join("overlay/contact.png"))?;
        }
        if let Some(accuracy) = &summary.accuracy {
            write_json(self.folder.join("score.json"), &accuracy.to_json())?;
        }
        write_json(self.folder.join("summary.json"), &summary.to_json())
    }
}

fn write_json(path: PathBuf, value: &Value) -> Result<(), SinkError> {
    std::fs::write(&path, format!("{value:#}\n")).map_err(|source| SinkError::Write { path, source })
}
