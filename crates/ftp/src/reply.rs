//! Replies: three digits and text on one or several lines (RFC 959 §4.2).
//!
//! [`Parser`] accepts the deviations of real servers: LF without CR, a last line without text, inner lines
//! that begin with digits. It holds at most [`REPLY_MAX`] bytes.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::line::{LINE_MAX, Line, LineError, Splitter};
use crate::path::escape;

/// The maximum length of a reply that a client accepts, in bytes, over all its lines.
pub const REPLY_MAX: usize = 1 << 20;

/// A reply code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u16);

/// The meaning of a code's first digit (RFC 959 §4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// 1yz: started; another reply follows.
    Preliminary,
    /// 2yz: done.
    Completion,
    /// 3yz: accepted; more input is needed.
    Intermediate,
    /// 4yz: a transient failure.
    Transient,
    /// 5yz: a permanent failure.
    Permanent,
}

macro_rules! codes {
    ($($name:ident $value:literal $says:literal)*) => {
        impl Code {
            $(#[doc = $says] pub const $name: Self = Self($value);)*
        }
    };
}

codes! {
    TRANSFER_STARTING 125 "125: data connection already open; transfer starting."
    OPENING_DATA 150 "150: about to open the data connection."
    OK 200 "200: command okay."
    SUPERFLUOUS 202 "202: command not needed here."
    SYSTEM_STATUS 211 "211: system status; also FEAT."
    FILE_STATUS 213 "213: file status: SIZE, MDTM, MFMT."
    HELP 214 "214: help."
    SYSTEM_TYPE 215 "215: the answer to SYST."
    READY 220 "220: ready for a new user."
    CLOSING 221 "221: goodbye."
    DATA_OPEN 225 "225: nothing to abort."
    TRANSFER_COMPLETE 226 "226: transfer complete; abort done."
    PASSIVE 227 "227: entering passive mode."
    EXTENDED_PASSIVE 229 "229: entering extended passive mode."
    LOGGED_IN 230 "230: logged in."
    AUTHORIZED 232 "232: logged in by the security exchange, without a password (RFC 4217 §12.2, RFC 2228 §4)."
    SECURITY_ACCEPTED 234 "234: the mechanism of AUTH is accepted, and its exchange begins (RFC 2228 §4)."
    FILE_OK 250 "250: file action okay."
    PATH_CREATED 257 "257: a path name, quoted."
    NEED_PASSWORD 331 "331: send the password."
    NEED_ACCOUNT 332 "332: send an account."
    NEED_MORE 350 "350: waiting for the rest: REST, RNFR."
    UNAVAILABLE 421 "421: service closes this session."
    CANNOT_OPEN_DATA 425 "425: cannot open the data connection."
    TRANSFER_ABORTED 426 "426: transfer aborted."
    FILE_BUSY 450 "450: file busy."
    LOCAL_ERROR 451 "451: local error."
    NO_SPACE 452 "452: no space left."
    SYNTAX_ERROR 500 "500: not a command."
    BAD_PARAMETER 501 "501: bad argument."
    NOT_IMPLEMENTED 502 "502: command not implemented."
    BAD_SEQUENCE 503 "503: bad sequence of commands."
    NOT_FOR_THAT_PARAMETER 504 "504: not implemented for that argument."
    DATA_UNPROTECTED 521 "521: no data connection with this protection (RFC 4217 §10.2)."
    BAD_PROTOCOL 522 "522: network protocol not supported (RFC 2428 §2)."
    DATA_TLS_FAILED 522 "522: TLS of the data connection failed, or was not a session resumed (RFC 4217 §10.2)."
    NOT_LOGGED_IN 530 "530: not logged in."
    PROTECTION_DENIED 533 "533: this protection of commands is refused (RFC 2228 §4)."
    POLICY_DENIED 534 "534: refused by policy (RFC 2228 §4)."
    PROTECTION_UNSUPPORTED 536 "536: the mechanism has no such protection (RFC 2228 §4)."
    FILE_UNAVAILABLE 550 "550: no such file, or no access."
    QUOTA 552 "552: storage allocation exceeded."
    NAME_NOT_ALLOWED 553 "553: file name not allowed."
    BAD_RESTART 554 "554: bad restart position (RFC 3659 §5.4)."
}

impl Code {
    /// Returns the code for a number from 100 to 599.
    pub const fn new(number: u16) -> Option<Self> {
        if number >= 100 && number < 600 { Some(Self(number)) } else { None }
    }

    /// Returns the number.
    pub const fn number(self) -> u16 {
        self.0
    }

    /// Returns the class given by the first digit.
    pub const fn class(self) -> Class {
        match self.0 / 100 {
            1 => Class::Preliminary,
            2 => Class::Completion,
            3 => Class::Intermediate,
            4 => Class::Transient,
            _ => Class::Permanent,
        }
    }

    /// Whether the code is 4yz or 5yz.
    pub const fn is_error(self) -> bool {
        self.0 >= 400
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:03}", self.0)
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A complete reply.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// The code.
    pub code: Code,
    /// The text of the lines without code and line ends; never empty. Inner lines are kept unchanged, so a
    /// line of MLST or FEAT still begins with its space.
    pub lines: Vec<Bytes>,
}

impl Reply {
    /// Creates a reply of one line. CR, LF and NUL in the text become `?`, so that no text can forge a
    /// second reply.
    pub fn new(code: Code, text: impl AsRef<[u8]>) -> Self {
        Self { code, lines: vec![clean(text.as_ref())] }
    }

    /// Creates a reply of several lines: `first`, the `inner` lines with a leading space, `last`.
    pub fn multi<I>(code: Code, first: &str, inner: I, last: &str) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        let mut lines = vec![clean(first.as_bytes())];
        for line in inner {
            // The leading space distinguishes an inner line from the last one (RFC 959 §4.2).
            lines.push(clean(&[b" ", line.as_ref().trim_ascii_start()].concat()));
        }
        lines.push(clean(last.as_bytes()));
        Self { code, lines }
    }

    /// Returns the text of the first line.
    pub fn text(&self) -> &[u8] {
        self.lines.first().map_or(&[], |line| line)
    }

    /// Returns the lines between the first and the last.
    pub fn inner(&self) -> &[Bytes] {
        self.lines.get(1..self.lines.len().saturating_sub(1)).unwrap_or(&[])
    }

    /// Encodes the reply for the wire.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::new();
        for (at, line) in self.lines.iter().enumerate() {
            match (at, at + 1 == self.lines.len()) {
                (_, true) => wire.put_slice(format!("{} ", self.code).as_bytes()),
                (0, false) => wire.put_slice(format!("{}-", self.code).as_bytes()),
                _ => {}
            }
            wire.put_slice(line);
            wire.put_slice(b"\r\n");
        }
        wire.freeze()
    }
}

impl fmt::Display for Reply {
    /// `550 no such file`, with control characters escaped; further lines follow after ` / `.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        for (at, line) in self.lines.iter().enumerate() {
            f.write_str(if at == 0 { " " } else { " / " })?;
            escape(line, f)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

fn clean(text: &[u8]) -> Bytes {
    text.iter().map(|byte| if matches!(byte, b'\r' | b'\n' | 0) { b'?' } else { *byte }).collect()
}

/// Why bytes of the server are not a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplyError {
    /// A line without a code where a code is required; its first bytes, escaped.
    NoCode(String),
    /// More than [`LINE_MAX`] bytes without a line end.
    LineTooLong,
    /// More than [`REPLY_MAX`] bytes in one reply.
    ReplyTooLong,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCode(line) => write!(f, "expected a reply, got \"{line}\""),
            Self::LineTooLong => write!(f, "a reply line of more than {LINE_MAX} bytes"),
            Self::ReplyTooLong => write!(f, "a reply of more than {REPLY_MAX} bytes"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// Assembles replies from the bytes of the control connection.
#[derive(Debug, Default)]
pub struct Parser {
    splitter: Splitter,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    code: Code,
    lines: Vec<Bytes>,
    bytes: usize,
}

impl Parser {
    /// Creates a parser.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds received bytes, divided in any way.
    pub fn push(&mut self, bytes: &[u8]) {
        self.splitter.push(bytes);
    }

    /// Whether bytes were received that have not been returned as a reply.
    pub fn holds_some(&self) -> bool {
        self.open.is_some() || self.splitter.held_bytes() > 0
    }

    /// Returns the next complete reply, if there is one. After an error the connection is unusable.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, ReplyError> {
        while let Some(line) = self.splitter.next_line() {
            let Line(line) = line.map_err(|LineError::TooLong| ReplyError::LineTooLong)?;
            if let Some(reply) = self.take(line)? {
                return Ok(Some(reply));
            }
        }
        Ok(None)
    }

    fn take(&mut self, line: Bytes) -> Result<Option<Reply>, ReplyError> {
        let head = parse_head(&line);
        let Some(open) = &mut self.open else {
            return match head {
                Some((code, Sep::Last)) => {
                    Ok(Some(Reply { code, lines: vec![line.slice(4.min(line.len())..)] }))
                }
                Some((code, Sep::More)) => {
                    self.open = Some(Open { code, lines: vec![line.slice(4..)], bytes: line.len() });
                    Ok(None)
                }
                None => {
                    let mut shown = String::new();
                    let _ = escape(&line[..line.len().min(60)], &mut shown);
                    Err(ReplyError::NoCode(shown))
                }
            };
        };
        // Line ends count, so empty lines count, too.
        open.bytes += line.len() + 2;
        if open.bytes > REPLY_MAX {
            return Err(ReplyError::ReplyTooLong);
        }
        match head {
            // Only the same code and a space end the reply (RFC 959 §4.2); some servers write `ddd-` inside
            // it.
            Some((code, Sep::Last)) if code == open.code => {
                open.lines.push(line.slice(4.min(line.len())..));
                let Open { code, lines, .. } = self.open.take().expect("a reply is open in this branch");
                Ok(Some(Reply { code, lines }))
            }
            Some((code, Sep::More)) if code == open.code => {
                open.lines.push(line.slice(4..));
                Ok(None)
            }
            _ => {
                open.lines.push(line);
                Ok(None)
            }
        }
    }
}

enum Sep {
    Last,
    More,
}

/// The code at the beginning of a line, and whether `-` or an end of the reply follows.
fn parse_head(line: &[u8]) -> Option<(Code, Sep)> {
    let digits = line.get(..3).filter(|head| head.iter().all(u8::is_ascii_digit))?;
    let number = digits.iter().fold(0_u16, |sum, digit| sum * 10 + u16::from(digit - b'0'));
    let code = Code::new(number)?;
    match line.get(3) {
        None | Some(b' ') => Some((code, Sep::Last)),
        Some(b'-') => Some((code, Sep::More)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(wire: &[u8]) -> Vec<Reply> {
        let mut parser = Parser::new();
        parser.push(wire);
        std::iter::from_fn(|| parser.next_reply().unwrap()).collect()
    }

    #[test]
    fn replies_of_one_and_several_lines_are_read_back() {
        for reply in [
            Reply::new(Code::READY, "hello"),
            Reply::new(Code::OK, ""),
            Reply::multi(Code::SYSTEM_STATUS, "Features:", ["SIZE", " 226 Not the end", "MDTM"], "End"),
        ] {
            assert_eq!(parse(&reply.encode()), [reply]);
        }
    }

    #[test]
    fn deviations_of_real_servers_are_accepted() {
        let replies = parse(b"220-hi\n220-there\n 220 not yet\n221 nor this\n220\n200\r\n");
        assert_eq!(replies.len(), 2);
        assert_eq!(replies[0].lines.len(), 5);
        assert_eq!(replies[0].inner()[1], " 220 not yet");
        assert_eq!(replies[1], Reply::new(Code::OK, ""));
    }

    #[test]
    fn text_cannot_forge_a_reply() {
        let wire = Reply::new(Code::FILE_UNAVAILABLE, "a\r\n226 done\0").encode();
        assert_eq!(&wire[..], b"550 a??226 done?\r\n");
    }

    #[test]
    fn invalid_replies_are_reported() {
        for (wire, why) in [
            (&b"hello\r\n"[..], ReplyError::NoCode("hello".into())),
            (b"099 x\r\n", ReplyError::NoCode("099 x".into())),
            (b"600 x\r\n", ReplyError::NoCode("600 x".into())),
            (b"220x\r\n", ReplyError::NoCode("220x".into())),
            (&[b'2'; LINE_MAX + 1], ReplyError::LineTooLong),
        ] {
            let mut parser = Parser::new();
            parser.push(wire);
            assert_eq!(parser.next_reply(), Err(why));
        }
    }

    #[test]
    fn the_length_of_a_reply_is_limited() {
        // Empty lines count, too.
        for text in [1000, 0] {
            let mut parser = Parser::new();
            parser.push(b"211-begin\r\n");
            let line = [&b" ".repeat(text)[..], b"\r\n"].concat();
            let mut taken = 0;
            let error = loop {
                parser.push(&line);
                match parser.next_reply() {
                    Ok(None) => taken += line.len(),
                    Ok(Some(reply)) => panic!("{reply}"),
                    Err(error) => break error,
                }
            };
            assert_eq!(error, ReplyError::ReplyTooLong);
            assert!(taken <= REPLY_MAX && taken + 1_020 > REPLY_MAX, "{taken}");
        }
    }

    proptest! {
        #[test]
        fn any_cut_gives_the_same(text in proptest::collection::vec("[ -~]{0,20}", 1..5), cut in 0_usize..100) {
            let inner: Vec<_> = text.iter().map(|line| line.as_bytes()).collect();
            let replies = [Reply::multi(Code::HELP, "a", inner, "b"), Reply::new(Code::OK, &text[0])];
            let wire = [replies[0].encode(), replies[1].encode()].concat();
            let cut = cut.min(wire.len());
            let mut parser = Parser::new();
            let mut found = Vec::new();
            for part in [&wire[..cut], &wire[cut..]] {
                parser.push(part);
                while let Some(reply) = parser.next_reply().unwrap() {
                    found.push(reply);
                }
            }
            prop_assert_eq!(&found[..], &replies[..]);
        }

        #[test]
        fn no_bytes_panic(wire in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut parser = Parser::new();
            parser.push(&wire);
            while let Ok(Some(_)) = parser.next_reply() {}
        }
    }
}
