//! Facts: `type=file;size=10;modify=20261120110900; name` (RFC 3659 §7), and the lines of XTREE
//! (specs/ftp-over-sctp.md §8).

use bytes::Bytes;

use super::{Entry, Gap, Listed, ListingError, Parsed};
use crate::command::{parse_number, percent_decode, percent_encode, split_verb};
use crate::path::SafePath;
use crate::reply::Code;
use crate::stamp::Timestamp;
use crate::store::{FileKind, Metadata};

/// The facts to send: all, or those that the client selected with OPTS MLST (RFC 3659 §7.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactSet(u8);

impl FactSet {
    /// All facts.
    pub const ALL: Self = Self(0b11_1111);

    const TYPE: Self = Self(1);
    const SIZE: Self = Self(2);
    const MODIFY: Self = Self(4);
    const UNIX_MODE: Self = Self(8);
    const UNIQUE: Self = Self(16);
    const TARGET: Self = Self(32);

    const NAMES: [(Self, &str); 6] = [
        (Self::TYPE, "type"),
        (Self::SIZE, "size"),
        (Self::MODIFY, "modify"),
        (Self::UNIX_MODE, "UNIX.mode"),
        (Self::UNIQUE, "unique"),
        (Self::TARGET, "x.target"),
    ];

    /// The facts named in `type;size;`, in any case; unknown ones are ignored.
    pub fn named(names: &[u8]) -> Self {
        let named = |wanted: &str| {
            names.split(|byte| *byte == b';').any(|name| name.eq_ignore_ascii_case(wanted.as_bytes()))
        };
        Self(Self::NAMES.iter().filter(|(_, name)| named(name)).fold(0, |set, (fact, _)| set | fact.0))
    }

    const fn has(self, fact: Self) -> bool {
        self.0 & fact.0 != 0
    }

    /// The line of FEAT: all facts, the selected ones with a `*` (RFC 3659 §7.8).
    pub fn feature(self) -> String {
        let fact = |(fact, name): &(Self, &str)| format!("{name}{};", if self.has(*fact) { "*" } else { "" });
        format!("MLST {}", Self::NAMES.iter().map(fact).collect::<String>())
    }

    /// The reply to OPTS MLST (RFC 3659 §7.9.1).
    pub fn options(self) -> String {
        let told = Self::NAMES.iter().filter(|(fact, _)| self.has(*fact));
        let names: String = told.map(|(_, name)| format!("{name};")).collect();
        format!("MLST OPTS {names}").trim_end().into()
    }
}

/// Encodes the facts of a file, each with its `;`, as they precede the space.
pub fn encode_facts(metadata: &Metadata, set: FactSet) -> Vec<u8> {
    let mut facts = Vec::with_capacity(LINE_BYTES);
    put_facts(&mut facts, metadata, set);
    facts
}

/// The usual length of a line, in bytes.
const LINE_BYTES: usize = 128;

fn put_facts(facts: &mut Vec<u8>, metadata: &Metadata, set: FactSet) {
    if set.has(FactSet::TYPE) {
        facts.extend_from_slice(match metadata.kind {
            FileKind::File => b"type=file;",
            FileKind::Directory => b"type=dir;",
            FileKind::Symlink => b"type=OS.unix=slink;",
            FileKind::Other => b"type=OS.unix=other;",
        });
    }
    // A link whose target is not a file cannot be retrieved, so no size is sent.
    let is_sized =
        metadata.kind == FileKind::File || (metadata.kind == FileKind::Symlink && metadata.size > 0);
    if set.has(FactSet::SIZE) && is_sized {
        put_number(facts, b"size=", metadata.size, 10);
    }
    if let Some(modified) = metadata.modified.filter(|_| set.has(FactSet::MODIFY)) {
        facts.extend_from_slice(b"modify=");
        modified.put(facts);
        facts.push(b';');
    }
    if let Some(mode) = metadata.unix_mode.filter(|_| set.has(FactSet::UNIX_MODE)) {
        put_number(facts, b"UNIX.mode=0", u64::from(mode & 0o7777), 8);
    }
    if let Some((device, file)) = metadata.unique.filter(|_| set.has(FactSet::UNIQUE)) {
        put_number(facts, b"unique=", device, 16);
        facts.pop();
        put_number(facts, b"g", file, 16);
    }
    if let Some(target) = metadata.target.as_ref().filter(|_| set.has(FactSet::TARGET)) {
        facts.extend_from_slice(b"x.target=");
        facts.extend_from_slice(&percent_encode(target));
        facts.push(b';');
    }
}

/// Adds a fact that ends with a number, and its `;`.
fn put_number(facts: &mut Vec<u8>, fact: &[u8], number: u64, base: u64) {
    facts.extend_from_slice(fact);
    let begin = facts.len();
    let mut left = number;
    loop {
        facts.push(b"0123456789abcdef"[(left % base) as usize]);
        left /= base;
        if left == 0 {
            break;
        }
    }
    facts[begin..].reverse();
    facts.push(b';');
}

/// Encodes a line of XTREE with its end ([`put_tree_line`]).
pub fn encode_tree_line(metadata: &Metadata, path: &SafePath) -> Vec<u8> {
    let mut line = Vec::with_capacity(LINE_BYTES);
    put_tree_line(&mut line, metadata, path);
    line
}

/// Adds a line of XTREE with its end to others; the root is written `.`. The fact `unique` is sent for folders, where
/// clients need it to detect cycles, and for files with several names, which have the same one.
pub fn put_tree_line(lines: &mut Vec<u8>, metadata: &Metadata, path: &SafePath) {
    let set = match metadata.kind {
        FileKind::Directory => FactSet::ALL,
        FileKind::File if metadata.is_linked => FactSet::ALL,
        _ => FactSet(FactSet::ALL.0 & !FactSet::UNIQUE.0),
    };
    put_facts(lines, metadata, set);
    end_line(lines, path);
}

/// Encodes a line of MLSD with its end. The path is one name.
pub fn encode_line(metadata: &Metadata, path: &SafePath, set: FactSet) -> Vec<u8> {
    let mut line = encode_facts(metadata, set);
    end_line(&mut line, path);
    line
}

/// Encodes the line that marks a folder as incompletely listed: one of a tree, or with the root path in MLSD the listed
/// folder itself (`what`).
pub fn encode_incomplete(path: &SafePath, what: What, gap: &Gap) -> Vec<u8> {
    let kind = if what == What::This { "cdir" } else { "dir" };
    let mut line = format!("type={kind};x.error={};", gap.why).into_bytes();
    if let Some(name) = &gap.name {
        line.extend_from_slice(b"x.name=");
        line.extend_from_slice(&percent_encode(name));
        line.push(b';');
    }
    end_line(&mut line, path);
    line
}

fn end_line(line: &mut Vec<u8>, path: &SafePath) {
    line.push(b' ');
    line.extend_from_slice(if path.is_root() { b"." } else { path.as_bytes() });
    line.extend_from_slice(b"\r\n");
}

/// Parses a line of MLSD or XTREE without its end; `depth` says whether names may contain `/`.
pub fn parse_line(line: &[u8]) -> Result<Parsed, ListingError> {
    if line.is_empty() {
        return Ok(Parsed::Nothing);
    }
    let (facts, name) = split_verb(line);
    let name = name.ok_or(ListingError::Form)?;
    let found = parse_facts(facts).ok_or(ListingError::Form)?;
    let path = match found.what {
        What::Parent => return Ok(Parsed::Nothing),
        // Servers name it `.`, or by its complete path.
        What::This => SafePath::ROOT,
        What::Entry => SafePath::strict(name)?,
    };
    let name = found.missing;
    let listed = found.error.map_or(Listed::Whole, |why| Listed::Incomplete(Gap { why, name }));
    Ok(Parsed::Entry(Entry { path, metadata: found.metadata, listed }))
}

/// The parsed facts of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// What the line describes.
    pub what: What,
    /// The facts.
    pub metadata: Metadata,
    /// The fact `x.error`.
    pub error: Option<Code>,
    /// The fact `x.name`.
    pub missing: Option<Bytes>,
}

/// What a line of MLSD describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// `type=cdir`: the listed folder itself.
    This,
    /// `type=pdir`: the parent folder.
    Parent,
    /// Anything else.
    Entry,
}

/// Parses facts, with or without the last `;`, with names in any case. Unknown facts and facts with invalid
/// values are ignored. `None` if there is no type.
pub fn parse_facts(facts: &[u8]) -> Option<Facts> {
    let mut kind = None;
    let mut what = What::Entry;
    let (mut error, mut missing) = (None, None);
    let mut metadata = Metadata::new(FileKind::Other, 0);
    for fact in facts.split(|byte| *byte == b';').filter(|fact| !fact.is_empty()) {
        let at = fact.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (Lowercase::of(&fact[..at]), &fact[at + 1..]);
        match name.as_slice() {
            b"type" => {
                kind = Some(match Lowercase::of(value).as_slice() {
                    b"file" => FileKind::File,
                    b"dir" => FileKind::Directory,
                    b"cdir" => {
                        what = What::This;
                        FileKind::Directory
                    }
                    b"pdir" => {
                        what = What::Parent;
                        FileKind::Directory
                    }
                    // `OS.unix=slink:target` of ProFTPD, `OS.unix=symlink` of Pure-FTPd.
                    lower if lower.starts_with(b"os.unix=slink") => {
                        if let Some(target) =
                            value.get(b"os.unix=slink:".len()..).filter(|target| !target.is_empty())
                        {
                            metadata.target = Some(Bytes::copy_from_slice(target));
                        }
                        FileKind::Symlink
                    }
                    lower if lower.starts_with(b"os.unix=symlink") => FileKind::Symlink,
                    _ => FileKind::Other,
                });
            }
            b"size" => metadata.size = parse_number(value).unwrap_or(0),
            b"modify" => metadata.modified = Timestamp::parse(value),
            b"unix.mode" => metadata.unix_mode = parse_octal(value),
            b"unique" => metadata.unique = parse_unique(value),
            b"x.target" => {
                metadata.target = percent_decode(value).filter(|target| !target.is_empty()).map(Bytes::from)
            }
            b"x.name" => missing = percent_decode(value).filter(|name| !name.is_empty()).map(Bytes::from),
            b"x.error" => {
                error = parse_number(value)
                    .and_then(|code| u16::try_from(code).ok())
                    .and_then(Code::new)
                    .or(Some(Code::LOCAL_ERROR));
            }
            _ => {}
        }
    }
    metadata.kind = kind?;
    Some(Facts { what, metadata, error, missing })
}

/// The beginning of a name in lower case, in which all known names fit.
struct Lowercase([u8; 16], usize);

impl Lowercase {
    fn of(text: &[u8]) -> Self {
        let mut lower = [0; 16];
        let length = text.len().min(lower.len());
        lower[..length].copy_from_slice(&text[..length]);
        lower.make_ascii_lowercase();
        Self(lower, length)
    }

    fn as_slice(&self) -> &[u8] {
        &self.0[..self.1]
    }
}

fn parse_octal(text: &[u8]) -> Option<u32> {
    let octal = (1..=7).contains(&text.len()) && text.iter().all(|digit| (b'0'..=b'7').contains(digit));
    octal.then(|| text.iter().fold(0, |sum, digit| sum * 8 + u32::from(digit - b'0')) & 0o7777)
}

/// `801g2f3`, device and file in hexadecimal, as most servers write it.
fn parse_unique(text: &[u8]) -> Option<(u64, u64)> {
    let (device, file) = std::str::from_utf8(text).ok()?.split_once(['g', 'U'])?;
    Some((u64::from_str_radix(device, 16).ok()?, u64::from_str_radix(file, 16).ok()?))
}
