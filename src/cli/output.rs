//! What goes where: results to stdout, everything else to stderr.

use anyhow::{Context, bail};
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes that are gathered before they are written to a file.
const BUFFER: usize = 1 << 18;

/// Writes a result to stdout, ending in a line break.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.write_all(end.as_bytes()));
    written.and_then(|()| stdout.flush()).context("results cannot be written to stdout")
}

/// Writes one line to stderr, with the program's name in front.
pub fn complain(text: &str) {
    // Where even stderr is closed there is nobody to tell.
    let _ = writeln!(io::stderr(), "platoon: {}", line(text));
}

/// `text` as one line: line breaks and what else would steer a terminal become blanks.
pub fn line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Writes a file, whole or not at all: what a full disk left of it goes away again.
pub fn write(file: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    write_by(file, |out| out.write_all(bytes.as_ref()))
}

/// The same of bytes that are written piece by piece.
pub fn write_by(file: &Path, pieces: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let cannot = || format!("{}: cannot be written", file.display());
    let out = File::create(file).with_context(cannot)?;
    // Pipes and devices, which a name may stand for, stay.
    let plain = out.metadata().is_ok_and(|m| m.is_file());
    let mut out = BufWriter::with_capacity(BUFFER, out);
    let written = pieces(&mut out).and_then(|()| out.flush());
    if written.is_err() && plain {
        // That this may fail too says nothing new.
        let _ = std::fs::remove_file(file);
    }
    written.with_context(cannot)
}

/// Refuses, before any work, to write a file over one that the command reads.
pub fn spares<'a>(file: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    let identity = |path: &Path| {
        let metadata = path.metadata().ok().filter(Metadata::is_file)?;
        Some((metadata.dev(), metadata.ino()))
    };
    let Some(own) = identity(file) else { return Ok(()) };
    match inputs.into_iter().find(|input| identity(input) == Some(own)) {
        Some(input) => bail!(
            "{}: it is what this command reads ({}): write to another file",
            file.display(),
            input.display()
        ),
        None => Ok(()),
    }
}

/// A use of the program that clap cannot tell to be wrong; it ends with code 2.
pub fn wrong_usage(text: impl std::fmt::Display) -> anyhow::Error {
    clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{text}\n")).into()
}

/// An error with its causes in one line: `what: why: why`. A cause that its effect's text ends with already is not repeated.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut last = text.clone();
    let mut next = error.source();
    while let Some(cause) = next {
        let why = cause.to_string();
        if !last.ends_with(&why) {
            text.push_str(": ");
            text.push_str(&why);
        }
        last = why;
        next = cause.source();
    }
    text
}

/// True if the reader of stdout went away, as `head` does: no failure of ours.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::BrokenPipe)
}

/// A table for people: the first column to the left, the others to the right.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub fn new(headings: &[&str]) -> Table {
        Table {
            rows: vec![headings.iter().map(|h| h.to_string()).collect()],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The table's text, a line a row.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max();
        let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
        let mut text = String::new();
        for row in &self.rows {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(i, (cell, &width))| {
                    if i == 0 {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                })
                .collect();
            text.push_str(cells.join("  ").trim_end());
            text.push('\n');
        }
        text
    }
}

/// Bytes in MB (10^6) with two decimals.
pub fn megabytes(bytes: u64) -> String {
    format!("{:.2}", bytes as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Error {
        #[error("no plan: {0}")]
        Told(#[source] io::Error),
        #[error("no plan")]
        Untold(#[source] io::Error),
    }

    #[test]
    fn every_cause_is_told_once() {
        let cause = || io::Error::other("disk full");
        assert_eq!(chain(&Error::Told(cause())), "no plan: disk full");
        assert_eq!(chain(&Error::Untold(cause())), "no plan: disk full");
        let outer = anyhow::Error::new(Error::Told(cause())).context("urban");
        assert_eq!(chain(outer.as_ref()), "urban: no plan: disk full");
    }

    #[test]
    fn a_file_is_written_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        write(&file, "text").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"text");
        let full = |out: &mut dyn Write| out.write_all(&[0; 2 * BUFFER]).and(Err(io::Error::other("disk full")));
        let refused = format!("{:#}", write_by(&file, full).unwrap_err());
        assert!(refused.contains("cannot be written") && refused.contains("disk full"), "{refused}");
        assert!(!file.exists());
        assert!(write(&dir.path().join("none/a"), "").is_err());
        // A device is no file to take away.
        assert!(write_by(Path::new("/dev/null"), full).is_err() && Path::new("/dev/null").exists());
    }

    #[test]
    fn files_that_are_read_are_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a.plan"), b"a").unwrap();
        std::fs::write(at("b.svg"), b"b").unwrap();
        std::os::unix::fs::symlink("a.plan", at("link")).unwrap();
        let inputs = [at("none"), at("a.plan")];
        let spares = |file: &str| spares(&at(file), inputs.iter().map(|i| i.as_path()));
        assert!(spares("b.svg").is_ok() && spares("none").is_ok());
        for file in ["a.plan", "link", "./a.plan"] {
            let refused = spares(file).unwrap_err().to_string();
            assert!(refused.contains("a.plan") && refused.contains("another file"), "{refused}");
        }
    }

    #[test]
    fn what_is_told_is_one_line_that_steers_no_terminal() {
        assert_eq!(line(" a\n b\x1b[31mc\u{9b}d\0"), "a b [31mc d");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["name", "ms"]);
        table.row(["a longer name".into(), "1.25".into()]);
        table.row(["b".into(), "100.00".into()]);
        assert_eq!(
            table.render(),
            "name               ms\na longer name    1.25\nb              100.00\n"
        );
    }
}
