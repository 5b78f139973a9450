//! Errors that end `braidftp serve`, and their exit codes.

use std::fmt;

use super::StartError;
use super::confine::ConfineError;
use crate::exit::Error;

/// Why `braidftp serve` ended.
#[derive(Debug)]
pub enum ServeError {
    /// The command line or a file in it is invalid: exit code 1.
    Usage(String),
    /// The file of settings has these mistakes: exit code 1.
    Settings(Vec<String>),
    /// The folder cannot be opened: exit code 6.
    Folder(String),
    /// An address cannot be bound: exit code 2.
    Start(StartError),
    /// The process cannot be confined as required: exit code 1.
    Confine(ConfineError),
    /// The key or the certificate cannot be used; the exit code depends on the error.
    Key(Error),
    /// `--check` found these problems: the exit code is that of the first.
    Check {
        /// The problems, one sentence each.
        sentences: Vec<String>,
        /// The exit code.
        code: u8,
    },
    /// The task of an SCTP endpoint panicked: exit code 101, as for a program that panics. The server was
    /// serving until then.
    Sctp,
}

impl ServeError {
    /// The exit code of the error.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Settings(_) | Self::Confine(_) => 1,
            Self::Start(_) => 2,
            Self::Folder(_) => 6,
            Self::Key(error) => error.exit as u8,
            Self::Check { code, .. } => *code,
            Self::Sctp => 101,
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Folder(why) => f.write_str(why),
            Self::Start(error) => error.fmt(f),
            Self::Confine(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::Settings(sentences) | Self::Check { sentences, .. } => f.write_str(&sentences.join("\nbraidftp: ")),
            Self::Sctp => f.write_str(
                "SCTP has failed: the task that drives it panicked, as said above, and all of its associations are lost; \
                 start the server again, and report this as a bug",
            ),
        }
    }
}

impl std::error::Error for ServeError {}
