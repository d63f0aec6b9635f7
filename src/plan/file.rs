//! The container of plans and tables: a fixed header, then a body in postcard.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | magic `PLATOON\0` |
//! | 8..12 | kind, u32: 1 plan, 2 table |
//! | 12..16 | format version, u32 |
//! | 16..24 | length of the body, u64 |
//! | 24..56 | SHA-256 of the body |
//! | 56..60 | CRC-32 of bytes 0..56 |
//!
//! Numbers are little endian. The body ends with the file; its digest covers every byte of it, so postcard's own
//! checksum would add nothing and is not used. The same value always gives the same bytes.
//!
//! A digest can be recomputed by whoever altered the body, so decoding believes no length in it: serde takes at most
//! 1 MiB ahead of the elements of a sequence, and every element costs at least one byte of a body of bounded length.

use super::format::{Digest, Plan};
use crate::limits::MAX_PLAN_FILE;
use serde::{Serialize, de::DeserializeOwned};

/// First bytes of every plan and table.
pub const MAGIC: [u8; 8] = *b"PLATOON\0";
/// Version of the format that this program writes, and the only one it reads. Raised with every change of
/// [`super::format`] or [`super::table`] that gives bytes another meaning. A primitive or kernel behind the last one gives none: a
/// program that does not know it refuses the plan as malformed.
pub const VERSION: u32 = 7;
/// The version since which an operator has the bytes that it has: what operators were measured as stays known as long.
pub const OPERATOR_VERSION: u32 = 6;
/// Length of the header in bytes.
pub const HEADER: usize = 60;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A plan for one task set.
    Plan = 1,
    /// A table of plans.
    Table = 2,
}

/// Why bytes are no plan or table, in the order in which this is found out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// Shorter than a header.
    #[error("{0} bytes are too short for a header: the file is cut off or no plan file")]
    Short(usize),
    /// Foreign bytes.
    #[error("the file does not start as plan files do: is it another kind of file?")]
    Magic,
    /// The header's checksum is wrong.
    #[error("the header is damaged (its CRC-32 is {found:08x}, stored is {stored:08x}): copy or compile the file again")]
    Header {
        /// Stored checksum.
        stored: u32,
        /// Checksum of the bytes at hand.
        found: u32,
    },
    /// A table where a plan is wanted, or the other way round, or a kind this version does not know.
    #[error("the file is of kind {found} where kind {wanted} is wanted (1 is a plan, 2 a table)")]
    Kind {
        /// The wanted kind's number.
        wanted: u32,
        /// The file's.
        found: u32,
    },
    /// Written by an older program.
    #[error("the file has the older format {0}, this program reads {VERSION}: compile it again")]
    Older(u32),
    /// Written by a newer program.
    #[error("the file has the newer format {0}, this program reads {VERSION}: update the program or compile with this one")]
    Newer(u32),
    /// The body is longer than any plan.
    #[error("a body of {0} bytes is longer than the limit of {MAX_PLAN_FILE} bytes")]
    Large(u64),
    /// The body is cut off, or something follows it.
    #[error("the body has {found} bytes where the header says {stored}: the file is cut off or padded")]
    Length {
        /// What the header says.
        stored: u64,
        /// What there is.
        found: u64,
    },
    /// The body is altered.
    #[error("the body does not match its SHA-256: copy or compile the file again")]
    Body,
    /// The body matches its digest, but is not what the format says.
    #[error("the body is malformed ({0}): it was not written by this program")]
    Malformed(String),
    /// Bytes are left after the last field.
    #[error("{0} bytes follow the body's last field: it was not written by this program")]
    Trailing(usize),
}

/// The bytes of a plan file.
pub fn encode(plan: &Plan) -> Vec<u8> {
    seal(Kind::Plan, plan)
}

/// The plan in a file's bytes. Nothing in it is believed before [`super::check::check`].
pub fn decode(bytes: &[u8]) -> Result<Plan, FileError> {
    open(Kind::Plan, bytes)
}

/// Header and body of a value.
pub(super) fn seal<T: Serialize>(kind: Kind, value: &T) -> Vec<u8> {
    // Plans and tables hold sequences of known length only, which postcard cannot fail to write to memory.
    let body = postcard::to_allocvec(value).expect("plans and tables are serialisable");
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend(MAGIC);
    bytes.extend((kind as u32).to_le_bytes());
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((body.len() as u64).to_le_bytes());
    bytes.extend(Digest::of(&body).0);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// The value in a file's bytes.
pub(super) fn open<T: DeserializeOwned>(wanted: Kind, bytes: &[u8]) -> Result<T, FileError> {
    let (header, body) = bytes.split_first_chunk::<HEADER>().ok_or(FileError::Short(bytes.len()))?;
    if header[..8] != MAGIC {
        return Err(FileError::Magic);
    }
    let (stored, found) = (u32_at(header, 56), crc32fast::hash(&header[..56]));
    if stored != found {
        return Err(FileError::Header { stored, found });
    }
    let (wanted, found) = (wanted as u32, u32_at(header, 8));
    if wanted != found {
        return Err(FileError::Kind { wanted, found });
    }
    match u32_at(header, 12) {
        VERSION => {}
        version if version < VERSION => return Err(FileError::Older(version)),
        version => return Err(FileError::Newer(version)),
    }
    let (stored, found) = (
        u64::from(u32_at(header, 16)) | u64::from(u32_at(header, 20)) << 32,
        body.len() as u64,
    );
    if stored > MAX_PLAN_FILE {
        return Err(FileError::Large(stored));
    }
    if stored != found {
        return Err(FileError::Length { stored, found });
    }
    if Digest::of(body).0 != header[24..56] {
        return Err(FileError::Body);
    }
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(FileError::Trailing(rest.len())),
        Err(error) => Err(FileError::Malformed(error.to_string())),
    }
}

fn u32_at(header: &[u8; HEADER], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}
