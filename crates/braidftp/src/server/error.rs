//! Errors that end `braidftp serve`, and their exit codes.

use std::fmt;

use super::StartError;
use super::confine::ConfineError;
use crate::exit::Error;

/// Why `braidftp serve` ended.
#[derive(Debug)]
pub enum ServeError {
    /// The command line or a file it names cannot be used: exit code 1.
    Usage(String),
    /// The file of settings is wrong, in each of these: exit code 1.
    Settings(Vec<String>),
    /// The folder cannot be opened: exit code 6.
    Folder(String),
    /// An address cannot be had: exit code 2.
    Start(StartError),
    /// The process cannot be confined as it must be: exit code 1.
    Confine(ConfineError),
    /// The key or the certificate cannot be used; the exit code says in which way.
    Key(Error),
    /// `--check` found this wrong: the code is that of the first of it.
    Check {
        /// What is wrong, a sentence each.
        sentences: Vec<String>,
        /// The exit code.
        code: u8,
    },
    /// The task of an SCTP endpoint panicked: exit code 101, as of a program that panics. It served until then.
    Sctp,
}

impl ServeError {
    /// The exit code for it.
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
