//! Why a file is not imported.

use std::path::PathBuf;

/// What kind of trouble it is: whom to ask for a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file breaks the ONNX standard.
    Malformed,
    /// The file is ONNX that Platoon does not import.
    Unsupported,
    /// The file is beyond a limit.
    Limit,
    /// The import's options lack something or contradict the file.
    Options,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Malformed => "malformed",
            Kind::Unsupported => "not supported",
            Kind::Limit => "beyond a limit",
            Kind::Options => "what is asked for",
        })
    }
}

/// Why an ONNX file was not imported: file, place, reason.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error("{}: cannot be read", file.display())]
    Read {
        /// The model, or its external data.
        file: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The file as a whole.
    #[error("{}: {kind}: {reason}", file.display())]
    File {
        /// The model.
        file: PathBuf,
        /// Whom to ask.
        kind: Kind,
        /// The reason.
        reason: String,
    },
    /// An initializer, an input or an output.
    #[error("{}: tensor `{tensor}`: {kind}: {reason}", file.display())]
    Tensor {
        /// The model.
        file: PathBuf,
        /// The tensor's name.
        tensor: String,
        /// Whom to ask.
        kind: Kind,
        /// The reason.
        reason: String,
    },
    /// A node.
    #[error("{}: node `{node}` ({operator}){}: {kind}: {reason}", file.display(), attribute.as_ref().map(|a| format!(", attribute `{a}`")).unwrap_or_default())]
    Node {
        /// The model.
        file: PathBuf,
        /// The node's name, or its first output's.
        node: String,
        /// ONNX operator, with its domain where it is not the standard one.
        operator: String,
        /// The attribute (or input, by its name in the standard) at fault, where one is.
        attribute: Option<String>,
        /// Whom to ask.
        kind: Kind,
        /// The reason.
        reason: String,
    },
}

impl ImportError {
    /// Whom to ask for a fix; `None` where the file cannot be read.
    pub fn kind(&self) -> Option<Kind> {
        match self {
            ImportError::Read { .. } => None,
            ImportError::File { kind, .. } | ImportError::Tensor { kind, .. } | ImportError::Node { kind, .. } => Some(*kind),
        }
    }
}

/// A reason whose place (file, node) is added by the caller.
#[derive(Debug)]
pub(super) struct Reason {
    pub kind: Kind,
    pub attribute: Option<String>,
    pub text: String,
}

pub(super) type Fallible<T> = Result<T, Reason>;

impl Reason {
    fn new(kind: Kind, text: impl Into<String>) -> Reason {
        Reason {
            kind,
            attribute: None,
            text: text.into(),
        }
    }

    /// Names the attribute or input at fault.
    pub fn at(mut self, attribute: &str) -> Reason {
        self.attribute.get_or_insert_with(|| attribute.to_owned());
        self
    }

    /// The same of a node inside a graph that is an attribute of the node at fault.
    pub fn inside(self, place: &str, attribute: &str) -> Reason {
        Reason {
            kind: self.kind,
            attribute: Some(attribute.to_owned()),
            text: format!("{place}: {}", self.text),
        }
    }

    pub fn in_tensor(self, file: &std::path::Path, tensor: &str) -> ImportError {
        ImportError::Tensor {
            file: file.to_owned(),
            tensor: tensor.to_owned(),
            kind: self.kind,
            reason: self.text,
        }
    }

    pub fn in_file(self, file: &std::path::Path) -> ImportError {
        ImportError::File {
            file: file.to_owned(),
            kind: self.kind,
            reason: self.text,
        }
    }
}

pub(super) fn malformed(text: impl Into<String>) -> Reason {
    Reason::new(Kind::Malformed, text)
}

/// A name that is read and that nothing has given before.
pub(super) fn ungiven(name: &str) -> Reason {
    malformed(format!(
        "reads `{name}`, which no input, initializer or node gives, or only a circle of nodes"
    ))
}

/// A name that is given a second time.
pub(super) fn given_twice(name: &str) -> Reason {
    malformed(format!("gives `{name}`, which is given already"))
}

pub(super) fn unsupported(text: impl Into<String>) -> Reason {
    Reason::new(Kind::Unsupported, text)
}

pub(super) fn limit(text: impl Into<String>) -> Reason {
    Reason::new(Kind::Limit, text)
}

pub(super) fn options(text: impl Into<String>) -> Reason {
    Reason::new(Kind::Options, text)
}
