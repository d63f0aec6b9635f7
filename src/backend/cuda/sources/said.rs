//! What of a source makes a kernel.

/// The bytes of a source that a compiler heeds: without comments to the end of a line, blank lines and the blanks around lines, and
/// with one blank for several. So another comment or indentation is no other kernel, and what was measured stays known.
pub struct Said<'s> {
    source: &'s [u8],
    at: usize,
    /// Something of the line has been given, and a blank is due before the next of it.
    begun: bool,
    blank: bool,
}

impl<'s> Said<'s> {
    /// All of a source.
    pub const fn new(source: &'s str) -> Said<'s> {
        Said {
            source: source.as_bytes(),
            at: 0,
            begun: false,
            blank: false,
        }
    }

    /// The next byte.
    pub const fn next(&mut self) -> Option<u8> {
        while self.at < self.source.len() {
            let byte = self.source[self.at];
            if byte == b'\n' {
                self.at += 1;
                let begun = self.begun;
                (self.begun, self.blank) = (false, false);
                if begun {
                    return Some(b'\n');
                }
            } else if byte == b' ' {
                self.at += 1;
                self.blank = self.begun;
            } else if byte == b'/' && self.at + 1 < self.source.len() && self.source[self.at + 1] == b'/' {
                while self.at < self.source.len() && self.source[self.at] != b'\n' {
                    self.at += 1;
                }
            } else if self.blank {
                self.blank = false;
                return Some(b' ');
            } else {
                self.at += 1;
                self.begun = true;
                return Some(byte);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HEADERS, UNITS};

    #[test]
    fn what_looks_like_a_comment_is_one() {
        for source in UNITS.iter().map(|u| u.source).chain(HEADERS.iter().map(|h| h.source)) {
            assert!(!source.contains("/*") && !source.contains('\t'));
            for line in source.lines() {
                let before = line.split("//").next().unwrap_or_default();
                assert!(before.matches('"').count() % 2 == 0, "{line}");
            }
        }
    }
}
