//! Splits the control connection into lines, removes TELNET commands, and limits the length of a line (RFC
//! 959 §4.1.3, RFC 1123 §4.1.2.10, RFC 2640 §3.1).
//!
//! A line ends with LF; a CR before LF is dropped. TELNET commands are removed and options are never
//! answered: IAC IAC is the byte 0xFF, IAC WILL/WONT/DO/DONT has one more byte, and any other IAC command,
//! such as the IP and DM before ABOR, has two bytes. An IAC before any other byte is kept as the byte 0xFF of
//! a name, because many peers do not double 0xFF. CR NUL is a CR (RFC 854). No command may contain one, so
//! the caller refuses the line.

use bytes::{Bytes, BytesMut};

/// The maximum length of a line in bytes, without its end.
pub const LINE_MAX: usize = 8192;
/// Bytes reserved for a line, which most commands and replies do not exceed.
const LINE_USUAL: usize = 64;

const IAC: u8 = 0xff;

/// A line without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line(pub Bytes);

/// Why a line is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineError {
    /// More than [`LINE_MAX`] bytes. Reported once per line, whose rest is discarded.
    TooLong,
}

/// Splits a byte stream into lines.
#[derive(Debug, Default)]
pub struct Splitter {
    /// Received bytes that have not been processed.
    waiting: BytesMut,
    /// The incomplete line.
    line: BytesMut,
    telnet: Telnet,
    overlong: Overlong,
}

#[derive(Debug, Default, Clone, Copy)]
enum Telnet {
    #[default]
    Text,
    Iac,
    Option,
}

#[derive(Debug, Default, Clone, Copy)]
enum Overlong {
    #[default]
    No,
    /// The line was reported; the rest of it is discarded.
    Dropping,
}

impl Splitter {
    /// Creates a splitter.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds received bytes, divided in any way.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Returns the next complete line, or an error for one that is too long.
    pub fn next_line(&mut self) -> Option<Result<Line, LineError>> {
        let mut taken = 0;
        let mut found = None;
        for byte in self.waiting.iter().copied() {
            taken += 1;
            match (self.telnet, byte) {
                (Telnet::Text, IAC) => self.telnet = Telnet::Iac,
                (Telnet::Text, _) => found = keep(&mut self.line, &mut self.overlong, byte),
                (Telnet::Iac, IAC) => {
                    self.telnet = Telnet::Text;
                    found = keep(&mut self.line, &mut self.overlong, IAC);
                }
                // WILL, WONT, DO and DONT are followed by an option.
                (Telnet::Iac, 251..=254) => self.telnet = Telnet::Option,
                (Telnet::Iac, 240..=250) | (Telnet::Option, _) => self.telnet = Telnet::Text,
                // Not a TELNET command: some peers do not double 0xFF in file names.
                (Telnet::Iac, _) => {
                    self.telnet = Telnet::Text;
                    let _ = keep(&mut self.line, &mut self.overlong, IAC);
                    found = keep(&mut self.line, &mut self.overlong, byte);
                }
            }
            if found.is_some() {
                break;
            }
        }
        let _ = self.waiting.split_to(taken);
        found
    }

    /// Bytes held: unprocessed lines and the incomplete one.
    pub fn held_bytes(&self) -> usize {
        self.waiting.len() + self.line.len()
    }
}

fn keep(line: &mut BytesMut, overlong: &mut Overlong, byte: u8) -> Option<Result<Line, LineError>> {
    match (byte, *overlong) {
        (b'\n', Overlong::Dropping) => {
            *overlong = Overlong::No;
            line.clear();
            None
        }
        (_, Overlong::Dropping) => None,
        (b'\n', Overlong::No) => {
            let mut whole = line.split().freeze();
            if whole.last() == Some(&b'\r') {
                whole.truncate(whole.len() - 1);
            }
            Some(Ok(Line(whole)))
        }
        // One more for the CR of the line end.
        (byte, Overlong::No) if line.len() < LINE_MAX || (line.len() == LINE_MAX && byte == b'\r') => {
            if line.capacity() == 0 {
                line.reserve(LINE_USUAL);
            }
            line.extend_from_slice(&[byte]);
            None
        }
        (_, Overlong::No) => {
            *overlong = Overlong::Dropping;
            line.clear();
            Some(Err(LineError::TooLong))
        }
    }
}

/// Appends `text` to a line, with each 0xFF doubled, as TELNET requires (RFC 854).
pub fn escape_iac(text: &[u8], line: &mut Vec<u8>) {
    for piece in text.split_inclusive(|byte| *byte == IAC) {
        line.extend_from_slice(piece);
        if piece.ends_with(&[IAC]) {
            line.push(IAC);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lines(wire: &[u8]) -> Vec<Result<Line, LineError>> {
        let mut splitter = Splitter::new();
        splitter.push(wire);
        std::iter::from_fn(|| splitter.next_line()).collect()
    }

    fn line(text: &[u8]) -> Result<Line, LineError> {
        Ok(Line(Bytes::copy_from_slice(text)))
    }

    #[test]
    fn crlf_and_bare_lf_end_a_line_and_cr_alone_does_not() {
        assert_eq!(lines(b"NOOP\r\nQUIT\na\rb\r\nrest"), [line(b"NOOP"), line(b"QUIT"), line(b"a\rb")]);
    }

    #[test]
    fn telnet_commands_are_removed() {
        // IAC IP and IAC DM before ABOR; IAC DO ECHO; a name with 0xFF.
        let wire = b"\xff\xf4\xff\xf2ABOR\r\n\xff\xfd\x01NOOP\r\nRETR a\xff\xffb\r\n";
        assert_eq!(lines(wire), [line(b"ABOR"), line(b"NOOP"), line(b"RETR a\xffb")]);
    }

    #[test]
    fn the_limit_holds_at_its_edge() {
        let fits = [vec![b'a'; LINE_MAX], b"\r\n".to_vec()].concat();
        assert_eq!(lines(&fits), [line(&fits[..LINE_MAX])]);
        let over = [vec![b'a'; LINE_MAX + 1], b"\r\nNOOP\r\n".to_vec()].concat();
        assert_eq!(lines(&over), [Err(LineError::TooLong), line(b"NOOP")]);
    }

    #[test]
    fn an_endless_line_is_reported_once_and_not_stored() {
        let mut splitter = Splitter::new();
        let mut told = 0;
        for _ in 0..1000 {
            splitter.push(&[b'x'; 1000]);
            while let Some(found) = splitter.next_line() {
                assert_eq!(found, Err(LineError::TooLong));
                told += 1;
            }
            assert!(splitter.held_bytes() <= LINE_MAX + 1);
        }
        assert_eq!(told, 1);
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(
            wire in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(0xff), Just(0xfd), any::<u8>()], 0..80),
            cut in 0_usize..80,
        ) {
            let whole = lines(&wire);
            let cut = cut.min(wire.len());
            let mut splitter = Splitter::new();
            let mut found = Vec::new();
            for part in [&wire[..cut], &wire[cut..]] {
                splitter.push(part);
                found.extend(std::iter::from_fn(|| splitter.next_line()));
            }
            prop_assert_eq!(found, whole);
        }

        #[test]
        fn escaped_text_comes_back(text in proptest::collection::vec(any::<u8>().prop_filter("line end", |b| !matches!(b, b'\n' | b'\r')), 0..80)) {
            let mut wire = Vec::new();
            escape_iac(&text, &mut wire);
            wire.extend_from_slice(b"\r\n");
            prop_assert_eq!(lines(&wire), [line(&text)]);
        }
    }
}
