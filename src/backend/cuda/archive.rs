//! The archive of compiled kernels for one architecture, made by one toolkit: `<arch>-cuda<major.minor>.kernels`.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `PLTKERN\0` |
//! | 8..12 | format version, u32 |
//! | 12..16 | length of the index, u32 |
//! | 16..48 | SHA-256 of the index |
//! | 48..52 | CRC-32 of bytes 0..48 |
//! | 52.. | the index in postcard: architecture, toolkit, digest of the sources, the units by name |
//! | then | the cubins in the index's order, each packed (DEFLATE, RFC 1951) and at the next multiple of 16, zeros between; the last one ends the file |
//!
//! Numbers are little endian. Nothing is used before everything is checked: every byte of the file is covered by a
//! checksum or must be zero. The same kernels and compiler always give the same bytes.

use super::architecture::Toolkit;
use super::sources;
use crate::plan::format::Digest;
use crate::plan::regular;
use serde::{Deserialize, Serialize};
use std::io::Read;
use std::path::{Path, PathBuf};

/// First bytes of every archive.
const MAGIC: [u8; 8] = *b"PLTKERN\0";
/// Version of the format that this program writes, and the only one it reads.
const VERSION: u32 = 2;
/// Bytes before the index.
const HEADER: usize = 52;
/// What the offset of a cubin is a multiple of.
const ALIGN: usize = 16;
/// Bytes of the longest index that is read.
const MAX_INDEX: usize = 1 << 20;
/// Bytes of the longest archive that is read.
const MAX_ARCHIVE: u64 = 256 << 20;
/// Bytes of the largest cubin that is unpacked.
const MAX_CUBIN: u64 = 256 << 20;
/// Effort of packing, of 10.
const EFFORT: u8 = 6;
/// Extension of an archive's file name.
const EXTENSION: &str = "kernels";

/// What an archive says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Index {
    architecture: String,
    toolkit: Toolkit,
    sources: Digest,
    units: Vec<Entry>,
}

/// Where a cubin lies and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    /// Of what it was made from.
    made_from: Digest,
    offset: u64,
    /// Of its bytes as they lie there.
    length: u64,
    /// Of what they unpack to.
    unpacked: u64,
    /// Of its bytes as they lie there.
    digest: Digest,
}

/// A compiled unit on its way into an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cubin {
    /// Name of the unit.
    pub name: String,
    /// Digest of what it was made from: [`sources::unit_digest`].
    pub made_from: Digest,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A checked archive in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archive {
    index: Index,
    bytes: Vec<u8>,
}

/// Why bytes are no archive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(String),
    /// Longer than any archive.
    #[error("longer than {MAX_ARCHIVE} bytes: no kernel archive is")]
    Large,
    /// It does not start as archives do.
    #[error("does not start as kernel archives do")]
    Magic,
    /// Another version of the format.
    #[error("has format {0}, this program reads {VERSION}")]
    Version(u32),
    /// A checksum is wrong, or the file is cut off or padded.
    #[error("is damaged ({0} does not match): make or copy it again")]
    Damaged(&'static str),
    /// The checksums hold, but the contents are not what the format says.
    #[error("is malformed ({0}): it was not written by this program")]
    Malformed(&'static str),
}

/// Why a folder has no archive for a GPU. Says what is there and what makes what is missing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no usable kernels for {architecture} in {}: {}; make them with `platoon kernels --arch {architecture}`", folder.display(), told(seen))]
pub struct FindError {
    /// The architecture.
    pub architecture: String,
    /// The folder.
    pub folder: PathBuf,
    /// Every archive there by file name, with the reason why it is not usable.
    pub seen: Vec<(String, Unusable)>,
}

/// Why an archive is not usable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// It is for other GPUs.
    #[error("is for other GPUs")]
    Architecture,
    /// It was made by a newer toolkit than the driver serves.
    #[error("needs a driver for CUDA {needed}, this one serves {driver}")]
    Driver {
        /// The archive's toolkit.
        needed: Toolkit,
        /// The newest toolkit that the driver serves.
        driver: Toolkit,
    },
    /// It is of other sources than this program.
    #[error("is of other kernel sources than this program's")]
    Sources,
    /// It does not read.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

fn told(seen: &[(String, Unusable)]) -> String {
    match seen {
        [] => "there are none".to_owned(),
        some => some.iter().map(|(n, why)| format!("{n} {why}")).collect::<Vec<_>>().join("; "),
    }
}

/// The file name of the archive for an architecture, made by a toolkit.
pub fn file_name(architecture: &str, toolkit: Toolkit) -> String {
    format!("{architecture}-cuda{toolkit}.{EXTENSION}")
}

/// Architecture and toolkit that a file name tells of; `None` for other files.
pub fn parse_file_name(name: &str) -> Option<(&str, Toolkit)> {
    let (architecture, toolkit) = name.strip_suffix(EXTENSION)?.strip_suffix('.')?.rsplit_once("-cuda")?;
    Some((architecture, Toolkit::parse(toolkit)?))
}

/// Every archive in a folder: file name, architecture and toolkit as the name says, by name. Empty if there is no folder.
pub fn list(folder: &Path) -> Vec<(String, String, Toolkit)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|e| e.file_name().into_string().ok());
    let mut found: Vec<_> = names
        .filter_map(|name| {
            let (architecture, toolkit) = parse_file_name(&name)?;
            let architecture = architecture.to_owned();
            Some((name, architecture, toolkit))
        })
        .collect();
    found.sort();
    found
}

/// The archive by the newest toolkit that a driver serves (`driver_version` as `cuDriverGetVersion` gives it, as 13000),
/// for the architecture and of this program's kernel sources.
pub fn find(folder: &Path, architecture: &str, driver_version: u32) -> Result<Archive, FindError> {
    let driver = Toolkit::from_number(driver_version);
    let mut files = list(folder);
    files.sort_by_key(|(_, _, toolkit)| std::cmp::Reverse(*toolkit));
    let mut seen = Vec::new();
    for (name, made_for, toolkit) in files {
        let usable = || {
            if made_for != architecture {
                return Err(Unusable::Architecture);
            }
            if !toolkit.runs_under(driver) {
                return Err(Unusable::Driver { needed: toolkit, driver });
            }
            let archive = Archive::open(&folder.join(&name))?;
            let as_named = (archive.architecture(), archive.toolkit()) == (architecture, toolkit);
            if !as_named {
                return Err(ArchiveError::Malformed("it is not for what its file name says").into());
            }
            if archive.source_digest() != sources::digest() {
                return Err(Unusable::Sources);
            }
            Ok(archive)
        };
        match usable() {
            Ok(archive) => return Ok(archive),
            Err(why) => seen.push((name, why)),
        }
    }
    Err(FindError {
        architecture: architecture.to_owned(),
        folder: folder.to_path_buf(),
        seen,
    })
}

impl Archive {
    /// An archive of these cubins, which come in ascending order of their names.
    pub fn new(architecture: &str, toolkit: Toolkit, sources: Digest, cubins: &[Cubin]) -> Result<Archive, ArchiveError> {
        // Offsets count from the first cubin, so that they do not depend on the index's length.
        let mut units = Vec::with_capacity(cubins.len());
        let mut body = Vec::new();
        for cubin in cubins {
            let packed = miniz_oxide::deflate::compress_to_vec(&cubin.bytes, EFFORT);
            body.resize(body.len().next_multiple_of(ALIGN), 0);
            units.push(Entry {
                name: cubin.name.clone(),
                made_from: cubin.made_from,
                offset: body.len() as u64,
                length: packed.len() as u64,
                unpacked: cubin.bytes.len() as u64,
                digest: Digest::of(&packed),
            });
            body.extend(packed);
        }
        let index = Index {
            architecture: architecture.to_owned(),
            toolkit,
            sources,
            units,
        };
        // An index holds strings, numbers and a sequence of known length only, which postcard cannot fail to write to memory.
        let text = postcard::to_allocvec(&index).expect("an index is serialisable");
        let mut bytes = Vec::with_capacity(HEADER + text.len() + ALIGN + body.len());
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(Digest::of(&text).0);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes.extend(text);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes.extend(body);
        Archive::from_bytes(bytes)
    }

    /// Reads an archive's file and checks all of it.
    pub fn open(path: &Path) -> Result<Archive, ArchiveError> {
        let io = |e: std::io::Error| ArchiveError::Io(e.to_string());
        let (file, _) = regular::open(path).map_err(io)?;
        let mut bytes = Vec::new();
        file.take(MAX_ARCHIVE + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 > MAX_ARCHIVE {
            return Err(ArchiveError::Large);
        }
        Archive::from_bytes(bytes)
    }

    /// Checks an archive's bytes, all of them.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Archive, ArchiveError> {
        use ArchiveError::{Damaged, Malformed};
        let cut = Damaged("its length");
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(cut.clone())?;
        if header[..8] != MAGIC {
            return Err(ArchiveError::Magic);
        }
        if crc32fast::hash(&header[..48]) != u32_at(header, 48) {
            return Err(Damaged("the header's CRC-32"));
        }
        match u32_at(header, 8) {
            VERSION => {}
            other => return Err(ArchiveError::Version(other)),
        }
        let length = u32_at(header, 12) as usize;
        if length > MAX_INDEX {
            return Err(Malformed("a longer index than there is"));
        }
        let text = rest.get(..length).ok_or(cut)?;
        if Digest::of(text).0 != header[16..48] {
            return Err(Damaged("the index's SHA-256"));
        }
        // A sequence's length is not believed: serde takes at most 1 MiB ahead of elements that cost a byte each.
        let index: Index = match postcard::take_from_bytes(text) {
            Ok((index, [])) => index,
            _ => return Err(Malformed("the index")),
        };
        check_cubins(&index, &bytes, HEADER + length)?;
        Ok(Archive { index, bytes })
    }

    /// The architecture that the kernels are for, as `sm_90a`.
    pub fn architecture(&self) -> &str {
        &self.index.architecture
    }

    /// The toolkit whose compiler made them.
    pub fn toolkit(&self) -> Toolkit {
        self.index.toolkit
    }

    /// Digest of all sources that they were made from: [`sources::digest`] of the program that made them.
    pub fn source_digest(&self) -> Digest {
        self.index.sources
    }

    /// The cubin of a unit; `None` if there is none, or if it does not unpack to what the index says of it.
    pub fn unit(&self, name: &str) -> Option<Vec<u8>> {
        let entry = self.entry(name)?;
        let unpacked = miniz_oxide::inflate::decompress_to_vec_with_limit(self.packed(entry), entry.unpacked as usize).ok()?;
        (unpacked.len() as u64 == entry.unpacked).then_some(unpacked)
    }

    /// Bytes of a unit's cubin, unpacked.
    pub fn unit_bytes(&self, name: &str) -> Option<u64> {
        self.entry(name).map(|entry| entry.unpacked)
    }

    /// What a unit's cubin was made from: [`sources::unit_digest`] when it was compiled.
    pub fn unit_digest(&self, name: &str) -> Option<Digest> {
        self.entry(name).map(|entry| entry.made_from)
    }

    /// Names of the units, ascending.
    pub fn units(&self) -> impl Iterator<Item = &str> {
        self.index.units.iter().map(|u| u.name.as_str())
    }

    /// The bytes of the archive's file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        let at = self.index.units.binary_search_by(|u| u.name.as_str().cmp(name)).ok()?;
        self.index.units.get(at)
    }

    fn packed(&self, entry: &Entry) -> &[u8] {
        // The cubins fill the end of the file (checked), so their start follows from the last one's end.
        let last = self.index.units.last().map_or(0, |u| (u.offset + u.length) as usize);
        let start = self.bytes.len() - last + entry.offset as usize;
        &self.bytes[start..start + entry.length as usize]
    }
}

/// Checks names, places and digests of the cubins, which begin at the next multiple of [`ALIGN`] from byte `from`.
fn check_cubins(index: &Index, bytes: &[u8], from: usize) -> Result<(), ArchiveError> {
    use ArchiveError::{Damaged, Malformed};
    let plain =
        |name: &str| (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !plain(&index.architecture) {
        return Err(Malformed("the architecture's name"));
    }
    if !index.units.iter().all(|u| plain(&u.name)) || !index.units.is_sorted_by(|a, b| a.name < b.name) {
        return Err(Malformed("the units' names"));
    }
    let body = bytes.get(from.next_multiple_of(ALIGN)..).ok_or(Damaged("its length"))?;
    let mut gaps = bytes[from..from.next_multiple_of(ALIGN)].to_vec();
    let mut end = 0;
    for unit in &index.units {
        let start = end as usize;
        if unit.offset != (start.next_multiple_of(ALIGN)) as u64 {
            return Err(Malformed("the place of a unit"));
        }
        end = unit.offset.checked_add(unit.length).ok_or(Malformed("the length of a unit"))?;
        if end > body.len() as u64 {
            return Err(Damaged("its length"));
        }
        if unit.unpacked > MAX_CUBIN {
            return Err(Malformed("the length of a unit"));
        }
        let (offset, end) = (unit.offset as usize, end as usize);
        gaps.extend(&body[start..offset]);
        if Digest::of(&body[offset..end]) != unit.digest {
            return Err(Damaged("a unit's SHA-256"));
        }
    }
    if end != body.len() as u64 {
        return Err(Damaged("its length"));
    }
    match gaps.iter().all(|&b| b == 0) {
        true => Ok(()),
        false => Err(Damaged("the space between the units")),
    }
}

fn u32_at(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests;
