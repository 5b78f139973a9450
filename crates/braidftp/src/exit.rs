//! Exit codes, and the one error type that carries them to `main`.
//!
//! Every error says three things: what was being done, why it failed, and what to try. The table of codes is
//! [`Exit`]; nothing else in the program chooses a number.

use std::fmt;
use std::io;

use crate::identity::Stranger;

/// How the program ends. The numbers are promised to scripts and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Everything asked for was done.
    Ok = 0,
    /// The command line, a URL or a configuration file is wrong.
    Usage = 1,
    /// No connection to the other side.
    Connect = 2,
    /// The other side is not trusted, or TLS failed.
    Trust = 3,
    /// The server refused the user or the password.
    Login = 4,
    /// The remote path does not exist.
    NoSuchPath = 5,
    /// A local file could not be read or written.
    Local = 6,
    /// The server refused: permission, quota or space.
    Refused = 7,
    /// The server said nothing for longer than `--timeout`, though its packets came; that is not tried again.
    TimedOut = 8,
    /// What arrived is not what was sent.
    Verify = 9,
    /// Some files failed and the others arrived.
    SomeFailed = 10,
    /// The job ended early; the same command goes on where it was.
    Interrupted = 11,
    /// The other side broke the protocol.
    Protocol = 14,
    /// Ctrl-C.
    Sigint = 130,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// What failed, why, and what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The code the program ends with if nothing handles this.
    pub exit: Exit,
    /// What was being done: `fetch /a/b`, `connect to ftp://…`.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// What the person at the terminal could do about it.
    pub hint: Option<String>,
    /// Whether the reporter has told it already.
    pub told: Told,
    /// Whether asking for the same once more may well help.
    pub again: Again,
    /// The server that was refused because nobody vouches for it, where a person may be asked ([`crate::identity::ask`]).
    pub stranger: Option<Box<Stranger>>,
}

/// Whether asking for the same thing once more may well help, over whichever connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Again {
    /// It would fail alike.
    #[default]
    Vain,
    /// Its data connection did not open, or broke off (425 and 426): on a bad link the next may fare better.
    Worthwhile,
}

/// Whether somebody has been told of an error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Told {
    /// Not yet.
    #[default]
    No,
    /// It stands on standard error.
    Yes,
}

/// The result of everything in the program that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// `what` failed because of `why`.
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

    /// Adds what to try.
    #[must_use]
    pub fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// Adds a list to why, an item a line.
    #[must_use]
    pub fn list<T: AsRef<str>>(mut self, items: impl IntoIterator<Item = T>) -> Self {
        for item in items {
            self.why.push_str("\n  ");
            self.why.push_str(&escape(item.as_ref().as_bytes()));
        }
        self
    }

    /// A mistake on the command line.
    pub fn usage(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, what, why)
    }

    /// A local file's error. What to try is told for the kinds that people meet.
    pub fn local(what: impl fmt::Display, error: &io::Error) -> Self {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => Some("check that the path exists"),
            io::ErrorKind::PermissionDenied => Some("check the permissions of the file and of its folder"),
            io::ErrorKind::StorageFull => {
                Some("free some space; the same command then goes on where it stopped")
            }
            io::ErrorKind::QuotaExceeded => Some("free some of your quota; the same command then goes on"),
            _ => None,
        };
        Self { hint: hint.map(str::to_owned), ..Self::new(Exit::Local, what, error) }
    }

    /// Whether trying again over a new connection could help.
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

/// Bytes from the other side, or from a file's name, made safe to print: control characters and what is not
/// UTF-8 come out as `\xNN`, so that a name cannot move the cursor or start a new line.
pub fn escape(bytes: &[u8]) -> String {
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

/// Characters that change how the rest of a line is shown without showing themselves.
fn is_bidi_or_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_why_and_what_to_try() {
        let error = Error::new(Exit::Connect, "connect to ftp://h", "refused").hint("check the port");
        assert_eq!(error.to_string(), "cannot connect to ftp://h: refused\n  try: check the port");
    }

    #[test]
    fn a_name_cannot_write_to_the_terminal() {
        assert_eq!(escape(b"a\x1b[31mb\r\n\xff\xc3\xa9"), "a\\x1b[31mb\\x0d\\x0a\\xff\u{e9}");
        assert_eq!(escape("x\u{202e}y".as_bytes()), "x\\xe2\\x80\\xaey");
    }

    #[test]
    fn codes_are_the_promised_ones() {
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
