//! Documents that people write: TOML files read strictly, so that a typo is an error with file and line.

use crate::limits::{MAX_FILE_PART, MAX_NAME};
use crate::plan::regular;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Largest TOML document or label file that is read, in bytes.
const MAX_DOCUMENT: u64 = 4 << 20;

/// Why a card, a task file or a board file was refused.
#[derive(Debug, thiserror::Error)]
pub enum TomlError {
    /// The file cannot be read.
    #[error("{}: cannot be read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file says something that it cannot say.
    #[error("{}:{line}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What is wrong there, with the key and what would be right.
        reason: String,
    },
}

/// The text of a document with its path, to say where something is wrong.
pub(super) struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    /// Reads a file of at most 4 MiB of UTF-8.
    pub(super) fn read(path: &Path) -> Result<Document, TomlError> {
        let text = read_text(path).map_err(|source| TomlError::Read {
            path: path.to_owned(),
            source,
        })?;
        Ok(Document::new(path, text))
    }

    /// A document from text at hand; `path` names it in errors and is what relative paths in it start from.
    pub(super) fn new(path: &Path, text: String) -> Document {
        Document {
            path: path.to_owned(),
            text,
        }
    }

    /// Parses the document; `T` denies unknown keys.
    pub(super) fn parse<T: DeserializeOwned>(&self) -> Result<T, TomlError> {
        toml::from_str(&self.text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let shown = self.text.lines().nth(self.line(&span) - 1).unwrap_or("").trim();
            let place = if shown.is_empty() {
                String::new()
            } else {
                format!(" (in `{shown}`)")
            };
            self.invalid(&span, format!("{}{place}", error.message()))
        })
    }

    /// The line, from 1, that a byte range starts in.
    fn line(&self, span: &Range<usize>) -> usize {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        before.iter().filter(|&&b| b == b'\n').count() + 1
    }

    /// An error at a byte range of the document.
    pub(super) fn invalid(&self, span: &Range<usize>, reason: impl Into<String>) -> TomlError {
        TomlError::Invalid {
            path: self.path.clone(),
            line: self.line(span),
            reason: reason.into(),
        }
    }

    /// Fails with `reason` at `span` unless `ok`.
    pub(super) fn need(&self, ok: bool, span: &Range<usize>, reason: impl Into<String>) -> Result<(), TomlError> {
        if ok { Ok(()) } else { Err(self.invalid(span, reason)) }
    }

    /// A name as results and plans carry it: 1 to [`MAX_NAME`] bytes without control characters.
    pub(super) fn name(&self, key: &str, name: Spanned<String>) -> Result<String, TomlError> {
        self.name_within(key, name, MAX_NAME, "")
    }

    /// A name that files are named by, too: of at most [`MAX_FILE_PART`] bytes.
    pub(super) fn file_part(&self, key: &str, name: Spanned<String>) -> Result<String, TomlError> {
        self.name_within(key, name, MAX_FILE_PART, ": files are named by it")
    }

    fn name_within(&self, key: &str, name: Spanned<String>, most: usize, why: &str) -> Result<String, TomlError> {
        let span = name.span();
        let name = name.into_inner();
        let fits = (1..=most).contains(&name.len()) && !name.chars().any(char::is_control);
        self.need(
            fits,
            &span,
            format!("`{key}` must have 1 to {most} bytes and no control characters{why}"),
        )?;
        Ok(name)
    }

    /// The document's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The existing file or folder that `written` names; see [`locate`].
    pub(super) fn locate(&self, written: &str, span: &Range<usize>) -> Result<PathBuf, TomlError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        locate(folder, written, &|name| std::env::var(name).ok()).map_err(|reason| self.invalid(span, reason))
    }
}

/// Reads at most [`MAX_DOCUMENT`] bytes of UTF-8.
pub(super) fn read_text(path: &Path) -> std::io::Result<String> {
    regular::read_text(path, MAX_DOCUMENT)
}

/// The existing path that `written` names, for a document in `folder`.
///
/// `${NAME}` stands for an environment variable and `${NAME:-default}` has a default for where it is unset or empty. What is
/// written in the document, defaults included, is relative to the document; what the environment says is relative to the
/// current directory, as for any program. The error says which variable to set.
fn locate(folder: &Path, written: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, String> {
    let mut expanded = String::new();
    let mut rest = written;
    let mut variables = Vec::new();
    while let Some(start) = rest.find("${") {
        let end = rest[start..].find('}').ok_or_else(|| format!("`{written}`: `${{` without `}}`"))?;
        let inside = &rest[start + 2..start + end];
        let (name, default) = inside.split_once(":-").map_or((inside, None), |(n, d)| (n, Some(d)));
        expanded.push_str(&rest[..start]);
        match (environment(name).filter(|v| !v.is_empty()), default) {
            (Some(value), _) if expanded.is_empty() => {
                let absolute = std::path::absolute(&value).map_err(|e| format!("{name} = `{value}`: {e}"))?;
                expanded.push_str(&absolute.to_string_lossy());
            }
            (Some(value), _) => expanded.push_str(&value),
            (None, Some(default)) => expanded.push_str(default),
            (None, None) => return Err(format!("`{written}`: set the environment variable {name}")),
        }
        variables.push(name);
        rest = &rest[start + end + 1..];
    }
    expanded.push_str(rest);
    let path = folder.join(expanded);
    if path.exists() {
        return Ok(path);
    }
    let hint = match variables.as_slice() {
        [] => String::new(),
        names => format!(": set the environment variable {} to where it is", names.join(" or ")),
    };
    Err(format!("`{}` does not exist{hint}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str) -> Option<String> {
        (name == "SET").then(|| "/".to_owned())
    }

    #[test]
    fn variables_are_expanded_and_defaults_are_relative_to_the_document() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("weights"), "").unwrap();
        let at = |written: &str| locate(folder.path(), written, &environment);
        assert_eq!(at("weights").unwrap(), folder.path().join("weights"));
        assert_eq!(at("${UNSET:-weights}").unwrap(), folder.path().join("weights"));
        assert_eq!(at("${SET:-weights}").unwrap(), Path::new("/"));
    }

    #[test]
    fn a_path_that_leads_nowhere_says_which_variable_to_set() {
        let at = |written: &str| locate(Path::new("cards"), written, &environment).unwrap_err();
        assert!(at("${UNSET}/x").contains("set the environment variable UNSET"));
        assert!(at("${UNSET:-nowhere}/x").contains("does not exist: set the environment variable UNSET"));
        assert!(at("nowhere").ends_with("`cards/nowhere` does not exist"));
        assert!(at("${UNSET").contains("without"));
    }
}
