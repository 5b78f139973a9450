//! Commands: one enum that clients encode and servers parse (RFC 959 §4.1, §5.3, and the extensions named
//! at the variants).
//!
//! A [`Command`] is always well-formed: [`Command::parse`] rejects NUL, CR and LF, and arguments that do
//! not match their command. [`Command::encode`] of a parsed command parses to the same command. Paths are
//! bytes. The session decides which commands a state permits.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;

use crate::line::{Line, escape_iac};
use crate::path::escape;
use crate::stamp::Timestamp;

/// A path as an argument: any bytes except NUL, CR and LF, not resolved, not empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathArg(Bytes);

impl PathArg {
    /// Creates a path argument; `None` if it is empty or contains NUL, CR or LF.
    pub fn new(path: impl Into<Bytes>) -> Option<Self> {
        let path = path.into();
        let fits = !path.is_empty() && !path.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        fits.then_some(Self(path))
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&crate::path::SafePath> for PathArg {
    /// The absolute form, which does not depend on the current folder.
    fn from(path: &crate::path::SafePath) -> Self {
        Self(path.to_absolute().into())
    }
}

impl fmt::Display for PathArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.0, f)
    }
}

impl fmt::Debug for PathArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A text argument that is not a path: any bytes except NUL, CR and LF; may be empty.
pub type Text = Bytes;

/// An argument that must not appear in logs: that of PASS.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Bytes);

impl Secret {
    /// Wraps a secret.
    pub fn new(secret: impl Into<Bytes>) -> Self {
        Self(secret.into())
    }

    /// Returns the secret.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// TYPE (RFC 959 §3.1.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Type {
    /// `A`: lines end with CRLF on the wire.
    #[default]
    Ascii,
    /// `I`, also `L 8`: bytes unchanged.
    Image,
}

/// The protocol requested by EPSV (RFC 2428 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epsv {
    /// No argument: the protocol of the control connection.
    Same,
    /// `1`.
    Ipv4,
    /// `2`.
    Ipv6,
    /// `ALL`: only EPSV opens data connections from now on.
    All,
}

/// The subcommands of SITE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Site {
    /// `HELP`.
    Help,
    /// `CHMOD mode path`: permission bits in octal.
    Chmod(u32, PathArg),
    /// `UTIME YYYYMMDDhhmmss path`.
    Utime(Timestamp, PathArg),
    /// `SYMLINK target path`: the target is percent-encoded, since it may contain spaces
    /// (specs/ftp-over-sctp.md §8).
    Symlink(Bytes, PathArg),
    /// `HARDLINK existing path`: the existing path is percent-encoded, like the target above
    /// (specs/ftp-over-sctp.md §8.5).
    HardLink(PathArg, PathArg),
    /// `PARTS [path]`: lists the unfinished uploads below a folder, or of a file (specs/ftp-over-sctp.md
    /// §7.3).
    Parts(Option<PathArg>),
    /// `DELPARTS path`: removes them.
    RemoveParts(PathArg),
}

impl Site {
    /// The argument of SITE.
    fn argument(&self) -> Cow<'_, [u8]> {
        let own = |argument: Vec<u8>| Cow::Owned(argument);
        match self {
            Self::Help => Cow::Borrowed(b"HELP"),
            Self::Chmod(mode, path) => own([format!("CHMOD {mode:o} ").as_bytes(), &path.0].concat()),
            Self::Utime(stamp, path) => own([format!("UTIME {stamp} ").as_bytes(), &path.0].concat()),
            Self::Parts(None) => Cow::Borrowed(b"PARTS"),
            Self::Parts(Some(path)) => own([&b"PARTS "[..], &path.0].concat()),
            Self::RemoveParts(path) => own([&b"DELPARTS "[..], &path.0].concat()),
            Self::Symlink(target, path) => {
                own([b"SYMLINK ", percent_encode(target).as_slice(), b" ", &path.0].concat())
            }
            Self::HardLink(existing, path) => {
                own([b"HARDLINK ", percent_encode(&existing.0).as_slice(), b" ", &path.0].concat())
            }
        }
    }
}

macro_rules! commands {
    ($($(#[doc = $doc:literal])* $verb:literal $variant:ident $(($($field:ty),+))?;)*) => {
        /// A command with its arguments.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Command {
            $($(#[doc = $doc])* $variant $(($($field),+))?,)*
        }

        impl Command {
            /// The verb.
            pub const fn verb(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $verb,)* }
            }
        }
    };
}

commands! {
    /// ABOR: aborts transfers; in braid optionally only the one with this number (specs/ftp-over-sctp.md
    /// §6.5).
    "ABOR" Abort(Option<u32>);
    /// ACCT: never needed.
    "ACCT" Account(Text);
    /// ALLO: the size of a file; in ms and ms-cp its exact length (specs/ftp-over-sctp.md §4.3).
    "ALLO" Allocate(u64);
    /// APPE: append to a file.
    "APPE" Append(PathArg);
    /// AUTH (RFC 4217): the mechanism.
    "AUTH" Auth(Text);
    /// CCC (RFC 2228).
    "CCC" ClearCommandChannel;
    /// CDUP: change to the parent folder.
    "CDUP" ToParent;
    /// CLNT: the client's name.
    "CLNT" ClientName(Text);
    /// CWD: change the folder.
    "CWD" ChangeDirectory(PathArg);
    /// DELE: delete a file.
    "DELE" Delete(PathArg);
    /// EPRT: data connection to this address (RFC 2428 §2).
    "EPRT" ExtendedPort(SocketAddr);
    /// EPSV: extended passive mode.
    "EPSV" ExtendedPassive(Epsv);
    /// FEAT: features (RFC 2389 §3).
    "FEAT" Features;
    /// HASH: the digest of a file, by the function that OPTS HASH chose (draft-bryan-ftpext-hash).
    "HASH" Hash(PathArg);
    /// Help.
    "HELP" Help(Text);
    /// HOST: the virtual host (RFC 7151).
    "HOST" Host(Text);
    /// LANG: the language of replies (RFC 2640 §4.1).
    "LANG" Language(Text);
    /// LIST: a listing for humans.
    "LIST" List(Option<PathArg>);
    /// MDTM: the modification time (RFC 3659 §3).
    "MDTM" ModifiedTime(PathArg);
    /// MFMT: set the modification time (draft-somers-ftp-mfxx).
    "MFMT" SetModifiedTime(Timestamp, PathArg);
    /// MKD: create a folder.
    "MKD" MakeDirectory(PathArg);
    /// MLSD: a folder's entries as facts (RFC 3659 §7).
    "MLSD" MachineList(Option<PathArg>);
    /// MLST: one file's facts (RFC 3659 §7).
    "MLST" MachineFacts(Option<PathArg>);
    /// MODE: the letter.
    "MODE" Mode(u8);
    /// NLST: names only.
    "NLST" NameList(Option<PathArg>);
    /// NOOP.
    "NOOP" Noop;
    /// OPTS: options of a command (RFC 2389 §4).
    "OPTS" Options(Text);
    /// PASS: the password.
    "PASS" Password(Secret);
    /// PASV: passive mode.
    "PASV" Passive;
    /// PBSZ (RFC 2228).
    "PBSZ" ProtectionBuffer(Text);
    /// PORT: data connection to this address.
    "PORT" Port(SocketAddr);
    /// PROT (RFC 2228).
    "PROT" Protection(Text);
    /// PWD: the current folder.
    "PWD" PrintDirectory;
    /// QUIT: ends the session after all previous commands.
    "QUIT" Quit;
    /// REIN: log out and stay connected.
    "REIN" Reinitialize;
    /// REST: the offset of the next transfer (RFC 3659 §5).
    "REST" Restart(u64);
    /// RETR: retrieve a file.
    "RETR" Retrieve(PathArg);
    /// RETR without a path: the next of the first files of a tree that is being listed (specs/ftp-over-sctp.md §8.6).
    "RETR" RetrieveNext;
    /// RMD: delete a folder.
    "RMD" RemoveDirectory(PathArg);
    /// RNFR: the old name.
    "RNFR" RenameFrom(PathArg);
    /// RNTO: the new name.
    "RNTO" RenameTo(PathArg);
    /// SITE: commands specific to a server.
    "SITE" Site(Site);
    /// SIZE: the size of a file (RFC 3659 §4).
    "SIZE" Size(PathArg);
    /// STAT: status.
    "STAT" Status(Option<PathArg>);
    /// STOR: store a file.
    "STOR" Store(PathArg);
    /// STOU: store under a name that the server chooses.
    "STOU" StoreUnique(Option<PathArg>);
    /// STRU: the letter.
    "STRU" Structure(u8);
    /// SYST: the system.
    "SYST" System;
    /// TYPE: the representation.
    "TYPE" Type(Type);
    /// USER: the user name.
    "USER" User(Text);
    /// XCRC: the CRC-32 of a file, in the form of older servers.
    "XCRC" Crc32(PathArg);
    /// XMD5: likewise.
    "XMD5" Md5(PathArg);
    /// XPART: the length of the unfinished upload that the server keeps (specs/ftp-over-sctp.md §7.3).
    "XPART" Partial(PathArg);
    /// XSHA1: likewise.
    "XSHA1" Sha1(PathArg);
    /// XSHA256: likewise.
    "XSHA256" Sha256(PathArg);
    /// XSHA512: likewise.
    "XSHA512" Sha512(PathArg);
    /// The listing of a complete tree (specs/ftp-over-sctp.md §8).
    "XTREE" Tree(Option<PathArg>);
}

/// The direction of a transfer command; only these commands are numbered (specs/ftp-over-sctp.md §6.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferKind {
    /// The server sends: RETR, LIST, NLST, MLSD, XTREE.
    Download,
    /// The client sends: STOR, STOU, APPE.
    Upload,
}

impl TransferKind {
    /// The kind of transfer of a verb, in any case. Numbering uses the verb only, so that both sides agree
    /// even if the command's argument is refused.
    pub fn of_verb(verb: &[u8]) -> Option<Self> {
        match verb.to_ascii_uppercase().as_slice() {
            b"RETR" | b"LIST" | b"NLST" | b"MLSD" | b"XTREE" => Some(Self::Download),
            b"STOR" | b"STOU" | b"APPE" => Some(Self::Upload),
            _ => None,
        }
    }
}

/// Why a line is not a valid command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandError {
    /// It does not begin with a verb.
    Syntax,
    /// It contains NUL, CR or LF.
    Forbidden,
    /// An unknown verb.
    Unknown,
    /// The argument is missing, or invalid for the verb.
    Argument,
    /// The argument is valid and not supported: `TYPE E`, `EPRT |3|`.
    Unsupported,
    /// EPRT for a network protocol other than 1 and 2 (RFC 2428 §2).
    Protocol,
}

impl Command {
    /// Parses a line without its end.
    pub fn parse(line: &Line) -> Result<Self, CommandError> {
        let line = &line.0;
        if line.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
            return Err(CommandError::Forbidden);
        }
        let (verb, argument) = split_verb(line);
        if !is_verb(verb) {
            return Err(CommandError::Syntax);
        }
        // A path includes every byte after the first space; tokens are trimmed.
        let raw = argument.map_or_else(Bytes::new, |argument| line.slice_ref(argument));
        let token = raw.trim_ascii();
        let path = || PathArg::new(raw.clone()).ok_or(CommandError::Argument);
        let maybe_path = || Ok(PathArg::new(raw.clone()));
        let text = || (!token.is_empty()).then(|| line.slice_ref(token)).ok_or(CommandError::Argument);
        let number = || parse_number(token).ok_or(CommandError::Argument);
        let letter = || match token {
            [letter] => Ok(letter.to_ascii_uppercase()),
            _ => Err(CommandError::Argument),
        };
        let none = |command: Self| if token.is_empty() { Ok(command) } else { Err(CommandError::Argument) };
        match verb.to_ascii_uppercase().as_slice() {
            b"ABOR" => parse_abort(token).map(Self::Abort),
            b"ACCT" => Ok(Self::Account(text()?)),
            // `ALLO n R m`: the record size is ignored.
            b"ALLO" => parse_number(split_verb(token).0).map(Self::Allocate).ok_or(CommandError::Argument),
            b"APPE" => Ok(Self::Append(path()?)),
            b"AUTH" => Ok(Self::Auth(text()?)),
            b"CCC" => none(Self::ClearCommandChannel),
            b"CDUP" | b"XCUP" => none(Self::ToParent),
            b"CLNT" => Ok(Self::ClientName(text()?)),
            b"CWD" | b"XCWD" => Ok(Self::ChangeDirectory(path()?)),
            b"DELE" => Ok(Self::Delete(path()?)),
            b"EPRT" => parse_eprt(token).map(Self::ExtendedPort),
            b"EPSV" => parse_epsv(token).map(Self::ExtendedPassive),
            b"FEAT" => none(Self::Features),
            b"HASH" => Ok(Self::Hash(path()?)),
            b"HELP" => Ok(Self::Help(line.slice_ref(token))),
            b"HOST" => Ok(Self::Host(text()?)),
            b"LANG" => Ok(Self::Language(line.slice_ref(token))),
            b"LIST" => Ok(Self::List(maybe_path()?)),
            b"MDTM" => Ok(Self::ModifiedTime(path()?)),
            b"MFMT" => stamp_and_path(&raw).map(|(stamp, path)| Self::SetModifiedTime(stamp, path)),
            b"MKD" | b"XMKD" => Ok(Self::MakeDirectory(path()?)),
            b"MLSD" => Ok(Self::MachineList(maybe_path()?)),
            b"MLST" => Ok(Self::MachineFacts(maybe_path()?)),
            b"MODE" => Ok(Self::Mode(letter()?)),
            b"NLST" => Ok(Self::NameList(maybe_path()?)),
            b"NOOP" => Ok(Self::Noop),
            b"OPTS" => Ok(Self::Options(text()?)),
            b"PASS" => Ok(Self::Password(Secret::new(raw))),
            b"PASV" => none(Self::Passive),
            b"PBSZ" => Ok(Self::ProtectionBuffer(text()?)),
            b"PORT" => parse_port(token).map(Self::Port),
            b"PROT" => Ok(Self::Protection(text()?)),
            b"PWD" | b"XPWD" => none(Self::PrintDirectory),
            b"QUIT" => none(Self::Quit),
            b"REIN" => none(Self::Reinitialize),
            b"REST" => number().map(Self::Restart),
            b"RETR" => argument.map_or(Ok(Self::RetrieveNext), |_| path().map(Self::Retrieve)),
            b"RMD" | b"XRMD" => Ok(Self::RemoveDirectory(path()?)),
            b"RNFR" => Ok(Self::RenameFrom(path()?)),
            b"RNTO" => Ok(Self::RenameTo(path()?)),
            b"SITE" => parse_site(&raw).map(Self::Site),
            b"SIZE" => Ok(Self::Size(path()?)),
            b"STAT" => Ok(Self::Status(maybe_path()?)),
            b"STOR" => Ok(Self::Store(path()?)),
            b"STOU" => Ok(Self::StoreUnique(maybe_path()?)),
            b"STRU" => Ok(Self::Structure(letter()?)),
            b"SYST" => none(Self::System),
            b"TYPE" => parse_type(token).map(Self::Type),
            b"USER" => Ok(Self::User(text()?)),
            b"XCRC" => Ok(Self::Crc32(path()?)),
            b"XMD5" => Ok(Self::Md5(path()?)),
            b"XPART" => Ok(Self::Partial(path()?)),
            b"XSHA1" => Ok(Self::Sha1(path()?)),
            b"XSHA256" => Ok(Self::Sha256(path()?)),
            b"XSHA512" => Ok(Self::Sha512(path()?)),
            b"XTREE" => Ok(Self::Tree(maybe_path()?)),
            _ => Err(CommandError::Unknown),
        }
    }

    /// Encodes the line with its end, and 0xFF bytes doubled for TELNET.
    pub fn encode(&self) -> Bytes {
        let (verb, argument) = (self.verb(), self.argument());
        let mut line = Vec::with_capacity(verb.len() + argument.len() + 3);
        line.extend_from_slice(verb.as_bytes());
        if !argument.is_empty() {
            line.push(b' ');
            escape_iac(&argument, &mut line);
        }
        line.extend_from_slice(b"\r\n");
        line.into()
    }

    /// The kind of transfer, if this command is one.
    pub fn transfer(&self) -> Option<TransferKind> {
        TransferKind::of_verb(self.verb().as_bytes())
    }

    fn argument(&self) -> Cow<'_, [u8]> {
        let own = |argument: Vec<u8>| Cow::Owned(argument);
        match self {
            Self::Abort(number) => {
                own(number.map(|number| number.to_string().into_bytes()).unwrap_or_default())
            }
            Self::Account(text)
            | Self::Auth(text)
            | Self::ClientName(text)
            | Self::Help(text)
            | Self::Host(text)
            | Self::Language(text)
            | Self::Options(text)
            | Self::ProtectionBuffer(text)
            | Self::Protection(text)
            | Self::User(text) => Cow::Borrowed(text),
            Self::Allocate(number) | Self::Restart(number) => own(number.to_string().into_bytes()),
            Self::Append(path)
            | Self::ChangeDirectory(path)
            | Self::Crc32(path)
            | Self::Delete(path)
            | Self::Hash(path)
            | Self::Md5(path)
            | Self::ModifiedTime(path)
            | Self::MakeDirectory(path)
            | Self::Partial(path)
            | Self::Retrieve(path)
            | Self::RemoveDirectory(path)
            | Self::RenameFrom(path)
            | Self::RenameTo(path)
            | Self::Sha1(path)
            | Self::Sha256(path)
            | Self::Sha512(path)
            | Self::Size(path)
            | Self::Store(path) => Cow::Borrowed(&path.0),
            Self::List(path)
            | Self::MachineList(path)
            | Self::MachineFacts(path)
            | Self::NameList(path)
            | Self::Status(path)
            | Self::StoreUnique(path)
            | Self::Tree(path) => Cow::Borrowed(path.as_ref().map_or(&[][..], |path| &path.0)),
            Self::ClearCommandChannel
            | Self::ToParent
            | Self::Features
            | Self::Noop
            | Self::Passive
            | Self::PrintDirectory
            | Self::Quit
            | Self::Reinitialize
            | Self::RetrieveNext
            | Self::System => Cow::Borrowed(b""),
            Self::ExtendedPort(address) => {
                let family = if address.is_ipv4() { 1 } else { 2 };
                own(format!("|{family}|{}|{}|", address.ip(), address.port()).into_bytes())
            }
            Self::ExtendedPassive(epsv) => Cow::Borrowed(match epsv {
                Epsv::Same => b"",
                Epsv::Ipv4 => b"1",
                Epsv::Ipv6 => b"2",
                Epsv::All => b"ALL",
            }),
            Self::SetModifiedTime(stamp, path) => own([stamp.to_string().as_bytes(), b" ", &path.0].concat()),
            Self::Mode(letter) | Self::Structure(letter) => Cow::Borrowed(std::slice::from_ref(letter)),
            Self::Password(secret) => Cow::Borrowed(&secret.0),
            Self::Port(address) => own(host_port(*address).into_bytes()),
            Self::Site(site) => site.argument(),
            Self::Type(Type::Ascii) => Cow::Borrowed(b"A"),
            Self::Type(Type::Image) => Cow::Borrowed(b"I"),
        }
    }
}

impl fmt::Display for Command {
    /// The line for a log: escaped, without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.verb())?;
        let argument = self.argument();
        match self {
            Self::Password(_) => f.write_str(" ***"),
            _ if argument.is_empty() => Ok(()),
            _ => {
                f.write_str(" ")?;
                escape(&argument, f)
            }
        }
    }
}

/// Splits a line into the verb and what follows the space.
pub fn split_verb(line: &[u8]) -> (&[u8], Option<&[u8]>) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(at) => (&line[..at], Some(&line[at + 1..])),
        None => (line, None),
    }
}

/// `h1,h2,h3,h4,p1,p2` of PORT and reply 227; an IPv6 address, which neither can express, becomes 0,0,0,0.
pub fn host_port(address: SocketAddr) -> String {
    let [a, b, c, d] = match address.ip() {
        IpAddr::V4(ip) => ip.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    let [high, low] = address.port().to_be_bytes();
    format!("{a},{b},{c},{d},{high},{low}")
}

/// Parses `h1,h2,h3,h4,p1,p2`.
pub fn parse_host_port(text: &[u8]) -> Option<SocketAddr> {
    let mut numbers = [0_u8; 6];
    let mut parts = text.split(|byte| *byte == b',');
    for number in &mut numbers {
        *number = u8::try_from(parse_number(parts.next()?)?).ok()?;
    }
    let [a, b, c, d, high, low] = numbers;
    parts
        .next()
        .is_none()
        .then(|| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(a, b, c, d)), u16::from_be_bytes([high, low])))
}

/// Percent-encodes everything except letters, digits and `-._~/` (RFC 3986 §2.1), so that the result has no
/// space, `;` or control character.
pub fn percent_encode(bytes: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => encoded.push(*byte),
            byte => encoded.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    encoded
}

/// Reverses [`percent_encode`]; `None` if a `%` is not followed by two hexadecimal digits or the result
/// contains NUL.
pub fn percent_decode(text: &[u8]) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            decoded.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    (!decoded.contains(&0)).then_some(decoded)
}

/// Parses decimal digits without overflow.
pub fn parse_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 32 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Whether the first word of a line may be a command: letters and digits, eight at most.
fn is_verb(word: &[u8]) -> bool {
    word.first().is_some_and(u8::is_ascii_alphabetic)
        && word.len() <= 8
        && word.iter().all(u8::is_ascii_alphanumeric)
}

/// The argument of ABOR: none, or the number of a transfer.
fn parse_abort(text: &[u8]) -> Result<Option<u32>, CommandError> {
    if text.is_empty() {
        return Ok(None);
    }
    let number = parse_number(text).ok_or(CommandError::Argument)?;
    u32::try_from(number).map(Some).map_err(|_| CommandError::Argument)
}

fn parse_epsv(text: &[u8]) -> Result<Epsv, CommandError> {
    match text.to_ascii_uppercase().as_slice() {
        b"" => Ok(Epsv::Same),
        b"1" => Ok(Epsv::Ipv4),
        b"2" => Ok(Epsv::Ipv6),
        b"ALL" => Ok(Epsv::All),
        other if parse_number(other).is_some() => Err(CommandError::Protocol),
        _ => Err(CommandError::Argument),
    }
}

fn parse_type(text: &[u8]) -> Result<Type, CommandError> {
    match text.to_ascii_uppercase().as_slice() {
        b"A" | b"A N" => Ok(Type::Ascii),
        b"I" | b"L 8" | b"L8" => Ok(Type::Image),
        b"" => Err(CommandError::Argument),
        other if matches!(other[0], b'A' | b'E' | b'L') => Err(CommandError::Unsupported),
        _ => Err(CommandError::Argument),
    }
}

fn parse_port(text: &[u8]) -> Result<SocketAddr, CommandError> {
    parse_host_port(text).ok_or(CommandError::Argument)
}

/// `|1|132.235.1.2|6275|`, with any printable character as delimiter (RFC 2428 §2).
fn parse_eprt(text: &[u8]) -> Result<SocketAddr, CommandError> {
    let text = std::str::from_utf8(text).map_err(|_| CommandError::Argument)?;
    let delimiter =
        text.chars().next().filter(|c| ('\x21'..='\x7e').contains(c)).ok_or(CommandError::Argument)?;
    let parts: Vec<_> = text.split(delimiter).collect();
    let ["", protocol, address, port, ""] = parts[..] else { return Err(CommandError::Argument) };
    let port = parse_number(port.as_bytes()).and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or(CommandError::Argument)?;
    let address = match protocol {
        "1" => address.parse().ok().map(IpAddr::V4),
        "2" => address.parse().ok().map(IpAddr::V6),
        other if parse_number(other.as_bytes()).is_some() => return Err(CommandError::Protocol),
        _ => None,
    };
    address.map(|address| SocketAddr::new(address, port)).ok_or(CommandError::Argument)
}

fn stamp_and_path(raw: &Bytes) -> Result<(Timestamp, PathArg), CommandError> {
    let (stamp, path) = split_verb(raw);
    let stamp = Timestamp::parse(stamp).ok_or(CommandError::Argument)?;
    let path = path.and_then(|path| PathArg::new(raw.slice_ref(path)));
    Ok((stamp, path.ok_or(CommandError::Argument)?))
}

fn parse_site(raw: &Bytes) -> Result<Site, CommandError> {
    let (verb, argument) = split_verb(raw);
    let argument = argument.map(|argument| raw.slice_ref(argument)).unwrap_or_default();
    let first_and_path = || {
        let (first, path) = split_verb(&argument);
        let path = path.and_then(|path| PathArg::new(argument.slice_ref(path)));
        path.map(|path| (argument.slice_ref(first), path)).ok_or(CommandError::Argument)
    };
    match verb.to_ascii_uppercase().as_slice() {
        b"HELP" => Ok(Site::Help),
        b"CHMOD" => {
            let (mode, path) = first_and_path()?;
            let octal =
                (1..=4).contains(&mode.len()) && mode.iter().all(|digit| (b'0'..=b'7').contains(digit));
            let mode = mode.iter().fold(0, |sum, digit| sum * 8 + u32::from(digit.wrapping_sub(b'0')));
            if octal { Ok(Site::Chmod(mode, path)) } else { Err(CommandError::Argument) }
        }
        b"PARTS" if argument.is_empty() => Ok(Site::Parts(None)),
        b"PARTS" => PathArg::new(argument).map(|path| Site::Parts(Some(path))).ok_or(CommandError::Argument),
        b"DELPARTS" => PathArg::new(argument).map(Site::RemoveParts).ok_or(CommandError::Argument),
        b"UTIME" => stamp_and_path(&argument).map(|(stamp, path)| Site::Utime(stamp, path)),
        b"SYMLINK" => {
            let (target, path) = first_and_path()?;
            let target =
                percent_decode(&target).filter(|target| !target.is_empty()).ok_or(CommandError::Argument)?;
            Ok(Site::Symlink(target.into(), path))
        }
        b"HARDLINK" => {
            let (existing, path) = first_and_path()?;
            let existing = percent_decode(&existing).and_then(PathArg::new).ok_or(CommandError::Argument)?;
            Ok(Site::HardLink(existing, path))
        }
        b"" => Err(CommandError::Argument),
        _ => Err(CommandError::Unsupported),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &[u8]) -> Result<Command, CommandError> {
        Command::parse(&Line(Bytes::copy_from_slice(text)))
    }

    fn path(text: &str) -> PathArg {
        PathArg::new(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn commands_of_other_clients_are_parsed() {
        let stamp = Timestamp::from_seconds(0);
        for (text, command) in [
            ("noop", Command::Noop),
            ("NOOP ", Command::Noop),
            ("retr  a b ", Command::Retrieve(path(" a b "))),
            ("XCUP", Command::ToParent),
            ("xmkd d", Command::MakeDirectory(path("d"))),
            ("type a n", Command::Type(Type::Ascii)),
            ("TYPE L 8", Command::Type(Type::Image)),
            ("ALLO 12 R 3", Command::Allocate(12)),
            ("REST 0018446744073709551615", Command::Restart(u64::MAX)),
            ("LIST ", Command::List(None)),
            ("PORT 127,0,0,1,39,16", Command::Port("127.0.0.1:10000".parse().unwrap())),
            ("EPRT |2|::1|10000|", Command::ExtendedPort("[::1]:10000".parse().unwrap())),
            ("EPRT !1!127.0.0.1!1!", Command::ExtendedPort("127.0.0.1:1".parse().unwrap())),
            ("epsv all", Command::ExtendedPassive(Epsv::All)),
            ("MFMT 19700101000000 a b", Command::SetModifiedTime(stamp, path("a b"))),
            ("site chmod 0755 x y", Command::Site(Site::Chmod(0o755, path("x y")))),
            ("SITE SYMLINK ..%2Fa%20b l n", Command::Site(Site::Symlink("../a b".into(), path("l n")))),
            ("SITE HARDLINK /d/a%20b l n", Command::Site(Site::HardLink(path("/d/a b"), path("l n")))),
            ("ABOR 7", Command::Abort(Some(7))),
            ("PASS  with spaces ", Command::Password(Secret::new(" with spaces "))),
            ("PASS", Command::Password(Secret::new(""))),
        ] {
            assert_eq!(parse(text.as_bytes()), Ok(command), "{text}");
        }
    }

    #[test]
    fn invalid_commands_are_distinguished() {
        for (text, error) in [
            (&b""[..], CommandError::Syntax),
            (b" NOOP", CommandError::Syntax),
            (b"NO-OP", CommandError::Syntax),
            (b"FROBNICATE x", CommandError::Syntax),
            (b"FROB x", CommandError::Unknown),
            (b"RETR a\0", CommandError::Forbidden),
            (b"RETR a\rb", CommandError::Forbidden),
            (b"RETR ", CommandError::Argument),
            (b"QUIT now", CommandError::Argument),
            (b"REST -1", CommandError::Argument),
            (b"REST 18446744073709551616", CommandError::Argument),
            (b"PORT 1,2,3,4,5", CommandError::Argument),
            (b"PORT 1,2,3,4,5,256", CommandError::Argument),
            (b"PORT 1,2,3,4,5,6,7", CommandError::Argument),
            (b"EPRT |1|::1|80|", CommandError::Argument),
            (b"EPRT |1|127.0.0.1|65536|", CommandError::Argument),
            (b"EPRT |1|127.0.0.1|80", CommandError::Argument),
            (b"EPRT |9|x|80|", CommandError::Protocol),
            (b"EPSV 3", CommandError::Protocol),
            (b"TYPE E", CommandError::Unsupported),
            (b"TYPE X", CommandError::Argument),
            (b"SITE CHMOD 888 a", CommandError::Argument),
            (b"SITE CHMOD 644", CommandError::Argument),
            (b"SITE SYMLINK %zz a", CommandError::Argument),
            (b"SITE SYMLINK %00 a", CommandError::Argument),
            (b"SITE HARDLINK a", CommandError::Argument),
            (b"SITE HARDLINK %0a a", CommandError::Argument),
            (b"SITE HARDLINK  a", CommandError::Argument),
            (b"SITE CPFR a", CommandError::Unsupported),
            (b"SITE DELPARTS", CommandError::Argument),
            (b"ABOR 4294967296", CommandError::Argument),
        ] {
            assert_eq!(parse(text), Err(error), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn passwords_are_not_shown() {
        let command = parse(b"PASS secret").unwrap();
        assert_eq!(command.to_string(), "PASS ***");
        assert!(!format!("{command:?}").contains("secret"));
        assert_eq!(&command.encode()[..], b"PASS secret\r\n");
    }

    #[test]
    fn names_are_shown_escaped_and_sent_raw() {
        let command = Command::Retrieve(PathArg::new(&b"a\x1b[2J\xff"[..]).unwrap());
        assert_eq!(command.to_string(), "RETR a\\x1b[2J\\xff");
        assert_eq!(&command.encode()[..], b"RETR a\x1b[2J\xff\xff\r\n");
    }

    fn argument() -> impl Strategy<Value = PathArg> {
        proptest::collection::vec(any::<u8>(), 1..20).prop_filter_map("not a path", PathArg::new)
    }

    fn command() -> impl Strategy<Value = Command> {
        let one = argument().prop_flat_map(|path| {
            proptest::sample::select(vec![
                Command::Append(path.clone()),
                Command::ChangeDirectory(path.clone()),
                Command::Delete(path.clone()),
                Command::List(Some(path.clone())),
                Command::MachineList(Some(path.clone())),
                Command::Hash(path.clone()),
                Command::Sha256(path.clone()),
                Command::Partial(path.clone()),
                Command::RenameTo(path.clone()),
                Command::Retrieve(path.clone()),
                Command::Size(path.clone()),
                Command::StoreUnique(Some(path.clone())),
                Command::Tree(Some(path.clone())),
                Command::Site(Site::Chmod(0o640, path.clone())),
                Command::Site(Site::Parts(Some(path.clone()))),
                Command::Site(Site::RemoveParts(path.clone())),
                Command::Site(Site::Symlink(Bytes::copy_from_slice(path.as_bytes()), path.clone())),
                Command::Site(Site::HardLink(path.clone(), path.clone())),
                Command::SetModifiedTime(Timestamp { seconds: 5, nanos: 250 }, path),
            ])
        });
        let other = (any::<u64>(), any::<[u8; 16]>(), any::<u16>()).prop_flat_map(|(number, ip, port)| {
            proptest::sample::select(vec![
                Command::Restart(number),
                Command::Allocate(number),
                Command::Abort(u32::try_from(number >> 32).ok()),
                Command::ExtendedPort(SocketAddr::new(ip.into(), port)),
                Command::Port(SocketAddr::new([ip[0], ip[1], ip[2], ip[3]].into(), port)),
                Command::ExtendedPassive(Epsv::All),
                Command::Type(Type::Image),
                Command::Site(Site::Help),
                Command::Site(Site::Parts(None)),
                Command::Quit,
                Command::Tree(None),
            ])
        });
        prop_oneof![one, other]
    }

    proptest! {
        #[test]
        fn writing_and_reading_agree(command in command()) {
            let mut splitter = crate::line::Splitter::new();
            splitter.push(&command.encode());
            let line = splitter.next_line().unwrap().unwrap();
            prop_assert_eq!(splitter.next_line(), None);
            prop_assert_eq!(TransferKind::of_verb(split_verb(&line.0).0), command.transfer());
            prop_assert_eq!(Command::parse(&line), Ok(command));
        }

        #[test]
        fn no_line_panics_and_a_parsed_line_parses_again(
            verb in proptest::sample::select(vec!["", "RETR ", "PORT ", "EPRT ", "SITE ", "SITE UTIME ", "MFMT ", "TYPE ", "OPTS ", "ABOR ", "REST "]),
            rest in proptest::collection::vec(prop_oneof![any::<u8>(), proptest::sample::select(b" |,%01AHCMODS".to_vec())], 0..30),
        ) {
            let line = [verb.as_bytes(), &rest].concat();
            if let Ok(command) = parse(&line) {
                let again = command.encode();
                let mut splitter = crate::line::Splitter::new();
                splitter.push(&again);
                prop_assert_eq!(Command::parse(&splitter.next_line().unwrap().unwrap()), Ok(command));
            }
        }

        #[test]
        fn percent_encoding_comes_back(bytes in proptest::collection::vec(1_u8.., 0..40)) {
            let encoded = percent_encode(&bytes);
            prop_assert!(!encoded.iter().any(|byte| b" ;\r\n".contains(byte)));
            prop_assert_eq!(percent_decode(&encoded), Some(bytes));
        }
    }
}
