//! Digests: what ties plans, weights and boards together (P7).

use super::format::Digest;
use crate::board::BoardRecord;
use sha2::{Digest as _, Sha256};

impl Digest {
    /// SHA-256 of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// Digest of a board record: of its bytes as a table stores them.
    pub fn of_board(board: &BoardRecord) -> Digest {
        // A record is a flat struct of sized fields, which postcard cannot fail to write to memory.
        Digest::of(&postcard::to_allocvec(board).expect("a board record is serialisable"))
    }

    /// Reads 64 hexadecimal digits, as [`std::fmt::Display`] writes them; `None` for anything else.
    pub fn from_hex(text: &str) -> Option<Digest> {
        let text = text.as_bytes();
        let mut bytes = [0; 32];
        if text.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16);
            *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        }
        Some(Digest(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_empty_string_is_the_published_value() {
        let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::of(b"").to_string(), hex);
        assert_eq!(Digest::from_hex(hex), Some(Digest::of(b"")));
        assert_eq!(Digest::from_hex(&hex[1..]), None);
        assert_eq!(Digest::from_hex(&hex.replace('e', "x")), None);
    }
}
