//! Weight files `weights/<digest>`: the canonical tensors of one network, mapped into memory on board (P7).
//!
//! A weight file has no header: it is its sections one after another, each starting at a multiple of 64 bytes, zeros
//! between them. Which section means what is said by the plan; that the bytes are the right ones, by the digest in the
//! plan, which is also the file's name.
#![allow(unsafe_code)]

use super::format::{Digest, Section, WeightFile};
use super::regular;
use crate::limits::MAX_WEIGHT_FILE;
use bytemuck::Zeroable;
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Alignment of sections in a weight file, and of the slices handed out.
pub const SECTION_ALIGN: usize = 64;

/// Collects the sections of one weight file.
pub struct WeightFileBuilder {
    file: u32,
    bytes: Vec<u8>,
}

impl WeightFileBuilder {
    /// An empty file that will be number `file` of the plan's weight files.
    pub fn new(file: u32) -> WeightFileBuilder {
        WeightFileBuilder { file, bytes: Vec::new() }
    }

    /// Appends a section and says where it lies.
    pub fn push(&mut self, section: &[u8]) -> Section {
        self.bytes.resize(self.bytes.len().next_multiple_of(SECTION_ALIGN), 0);
        let offset = self.bytes.len() as u64;
        self.bytes.extend_from_slice(section);
        Section {
            file: self.file,
            offset,
            bytes: section.len() as u64,
        }
    }

    /// The file's record for the plan, and its bytes.
    pub fn finish(self) -> (WeightFile, Vec<u8>) {
        let record = WeightFile {
            digest: Digest::of(&self.bytes),
            bytes: self.bytes.len() as u64,
        };
        (record, self.bytes)
    }
}

/// Why a weight file is refused.
#[derive(Debug, thiserror::Error)]
pub enum WeightError {
    /// The file cannot be opened or mapped.
    #[error("cannot read the weights: {0}")]
    Io(#[from] io::Error),
    /// A directory, a device, a pipe.
    #[error("not a regular file")]
    NotAFile,
    /// Its length is not the plan's.
    #[error("has {found} bytes where the plan says {stored}: copy it again")]
    Length {
        /// What the plan says.
        stored: u64,
        /// What there is.
        found: u64,
    },
    /// Longer than any weight file.
    #[error("{0} bytes are more than the limit of {MAX_WEIGHT_FILE} bytes")]
    Large(u64),
    /// Its bytes are not the plan's.
    #[error("does not match its SHA-256 (its bytes have {found}): copy it again")]
    Digest {
        /// Digest of the bytes at hand.
        found: Digest,
    },
}

/// 64 aligned bytes, the unit of owned storage.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; SECTION_ALIGN]);

// SAFETY: an array of bytes without padding (the size is the alignment); all zeros is a valid value.
unsafe impl Zeroable for Line {}
// SAFETY: as above; every bit pattern is valid, and it has no interior mutability and no pointers.
unsafe impl bytemuck::Pod for Line {}

enum Storage {
    Mapped(Mmap),
    Owned { lines: Vec<Line>, bytes: usize },
}

impl Storage {
    fn bytes(&self) -> &[u8] {
        match self {
            Storage::Mapped(map) => map,
            Storage::Owned { lines, bytes } => &bytemuck::cast_slice(lines)[..*bytes],
        }
    }
}

/// Weight files at hand, each once, however many plans name it. Every file in it matched its digest when it was added. A clone
/// shares the bytes.
#[derive(Clone, Default)]
pub struct WeightStore {
    files: BTreeMap<Digest, Arc<Storage>>,
}

impl WeightStore {
    /// An empty store.
    pub fn new() -> WeightStore {
        WeightStore::default()
    }

    /// Maps the file at `path` and verifies it against the plan's record. A file that is in the store already is not read again.
    pub fn map(&mut self, path: &Path, record: &WeightFile) -> Result<(), WeightError> {
        if let Some(storage) = self.files.get(&record.digest) {
            return same_length(record, storage.bytes().len() as u64);
        }
        let (file, metadata) = regular::open(path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => WeightError::NotAFile,
            _ => WeightError::Io(error),
        })?;
        same_length(record, metadata.len())?;
        if metadata.len() > MAX_WEIGHT_FILE {
            return Err(WeightError::Large(metadata.len()));
        }
        if metadata.len() == 0 {
            return self.insert(record.digest, own(&[]));
        }
        // SAFETY: the mapping is read only and owned by the store. Weight files are named by their content and replaced
        // only as a whole, by renaming, which leaves a mapped file alone. Were one written in place all the same, the
        // bytes would still be bytes: wrong numbers, never an invalid value or an access outside the mapping; were it
        // cut short, the process would be killed by the system. Neither is reachable through this interface.
        let map = unsafe { Mmap::map(&file)? };
        same_length(record, map.len() as u64)?;
        self.insert(record.digest, Storage::Mapped(map))
    }

    /// Keeps a copy of `bytes` as a weight file, and says its digest. For plans that never were files.
    pub fn own(&mut self, bytes: &[u8]) -> Digest {
        let digest = Digest::of(bytes);
        self.files.insert(digest, Arc::new(own(bytes)));
        digest
    }

    /// Verifies that the file of this record is at hand, with the recorded length.
    pub fn holds(&self, record: &WeightFile) -> Result<(), WeightError> {
        let storage = self.files.get(&record.digest).ok_or(io::Error::from(io::ErrorKind::NotFound))?;
        same_length(record, storage.bytes().len() as u64)
    }

    /// The bytes of a section of the file with this digest, aligned to 64; `None` if there is no such file or section.
    pub fn section(&self, file: &Digest, section: &Section) -> Option<&[u8]> {
        let bytes = self.files.get(file)?.bytes();
        let start = usize::try_from(section.offset).ok()?;
        let end = start.checked_add(usize::try_from(section.bytes).ok()?)?;
        bytes.get(start..end).filter(|_| start.is_multiple_of(SECTION_ALIGN))
    }

    /// The bytes of the file with this digest.
    pub fn file(&self, digest: &Digest) -> Option<&[u8]> {
        self.files.get(digest).map(|s| s.bytes())
    }

    /// Bytes of all files.
    pub fn total_bytes(&self) -> u64 {
        self.files.values().map(|f| f.bytes().len() as u64).sum()
    }

    fn insert(&mut self, digest: Digest, storage: Storage) -> Result<(), WeightError> {
        let found = Digest::of(storage.bytes());
        if found != digest {
            return Err(WeightError::Digest { found });
        }
        self.files.insert(digest, Arc::new(storage));
        Ok(())
    }
}

fn own(bytes: &[u8]) -> Storage {
    let mut lines = vec![Line::zeroed(); bytes.len().div_ceil(SECTION_ALIGN)];
    bytemuck::cast_slice_mut(&mut lines)[..bytes.len()].copy_from_slice(bytes);
    Storage::Owned { lines, bytes: bytes.len() }
}

fn same_length(record: &WeightFile, found: u64) -> Result<(), WeightError> {
    if found == record.bytes {
        return Ok(());
    }
    Err(WeightError::Length {
        stored: record.bytes,
        found,
    })
}
