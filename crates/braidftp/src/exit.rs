//! Exit codes, and the error type that carries them to `main`.
//!
//! Every error states what was being done, why it failed, and what to try. The table of codes is [`Exit`];
//! nothing else in the program chooses a number.

use std::fmt;
use std::io;

use crate::identity::stranger::Stranger;

/// The exit codes. Their meaning never changes, so that scripts can rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Everything requested was done.
    Ok = 0,
    /// The command line, a URL or a configuration file is invalid.
    Usage = 1,
    /// No connection to the peer.
    Connect = 2,
    /// The peer is not trusted, or TLS failed.
    Trust = 3,
    /// The server refused the user or the password.
    Login = 4,
    /// The remote path does not exist.
    NoSuchPath = 5,
    /// A local file could not be read or written.
    Local = 6,
    /// The server refused: permission, quota or disk space.
    Refused = 7,
    /// The server sent no answer for `--timeout`, although its packets arrived; the job is not retried.
    TimedOut = 8,
    /// The received data differs from what was sent.
    Verify = 9,
    /// Some files failed and the others were transferred.
    SomeFailed = 10,
    /// The job ended early; the same command resumes it.
    Interrupted = 11,
    /// The peer violated the protocol.
    Protocol = 14,
    /// Ctrl-C.
    Sigint = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// An error: what failed, why, and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The exit code of the program if nothing handles the error.
    pub exit: Exit,
    /// The operation: `fetch /a/b`, `connect to ftp://…`.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// What the user could try.
    pub hint: Option<String>,
    /// Whether the reporter has printed the error.
    pub told: Told,
    /// Whether repeating the same request may succeed.
    pub again: Again,
    /// The server that was refused because it is unknown, if the user may be asked
    /// ([`crate::identity::ask`]).
    pub stranger: Option<Box<Stranger>>,
}

/// Whether repeating the same request may succeed, over any connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Again {
    /// It would fail again.
    #[default]
    Vain,
    /// The data connection could not be opened or was aborted (425 and 426): on a bad link the next one may
    /// succeed.
    Worthwhile,
}

/// Whether an error was printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Told {
    /// It was not.
    #[default]
    No,
    /// It was printed on standard error.
    Yes,
}

/// The result type of the program.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error of the operation `what`, with the reason `why`.
    pub fn new(exit: Exit, what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self {
            exit,
            what: escape(what.to_string().as_bytes()),
            why: escape(why.to_string().as_bytes()),
            hint: None,
            told: Told::No,
            again: Again::Vain,
            stranger: None,
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Adds a list to the reason, one item per line.
    #[must_use]
    pub fn list<T: AsRef<str>>(mut self, items: impl IntoIterator<Item = T>) -> Self {
        for item in items {
            self.why.push_str("\n  ");
            self.why.push_str(&escape(item.as_ref().as_bytes()));
        }
        self
    }

    /// A usage error.
    pub fn usage(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, what, why)
    }

    /// An error of a local file, with a hint for common kinds.
    pub fn local(what: impl fmt::Display, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => Some("check that the path exists"),
            io::ErrorKind::PermissionDenied => Some("check the permissions of the file and of its folder"),
            io::ErrorKind::StorageFull => Some("free some space, then run the same command again to resume"),
            io::ErrorKind::QuotaExceeded => {
                Some("free some of your quota, then run the same command again to resume")
            }
            _ => None,
        };
        Self { hint: hint.map(str::to_owned), ..Self::new(Exit::Local, what, error) }
    }

    /// Whether a retry over a new connection may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self.exit, Exit::Connect | Exit::TimedOut | Exit::Interrupted)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.what, self.why)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  try: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Makes bytes from the peer, or from a file name, safe to print: control characters and invalid UTF-8 become
/// `\xNN`, so that a name cannot move the cursor or start a new line.
pub fn escape(bytes: &[u8]) -> String {
    if bytes.iter().all(|byte| matches!(byte, b' '..=b'~')) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || is_bidi_or_invisible(c) {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    out.push_str(&format!("\\x{byte:02x}"));
                }
            } else {
                out.push(c);
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Characters that invisibly change how the rest of a line is displayed.
fn is_bidi_or_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_states_what_failed_why_and_what_to_try() {
        let error = Error::new(Exit::Connect, "connect to ftp://h", "refused").hint("check the port");
        assert_eq!(error.to_string(), "cannot connect to ftp://h: refused\n  try: check the port");
    }

    #[test]
    fn a_name_cannot_send_control_sequences_to_the_terminal() {
        assert_eq!(escape(b"a\x1b[31mb\r\n\xff\xc3\xa9"), "a\\x1b[31mb\\x0d\\x0a\\xff\u{e9}");
        assert_eq!(escape("x\u{202e}y".as_bytes()), "x\\xe2\\x80\\xaey");
    }

    #[test]
    fn exit_codes_are_the_documented_ones() {
        let table = [
            (Exit::Ok, 0),
            (Exit::Usage, 1),
            (Exit::Connect, 2),
            (Exit::Trust, 3),
            (Exit::Login, 4),
            (Exit::NoSuchPath, 5),
            (Exit::Local, 6),
            (Exit::Refused, 7),
            (Exit::TimedOut, 8),
            (Exit::Verify, 9),
            (Exit::SomeFailed, 10),
            (Exit::Interrupted, 11),
            (Exit::Protocol, 14),
            (Exit::Sigint, 130),
        ];
        for (exit, code) in table {
            assert_eq!(exit as u8, code);
        }
    }
}
