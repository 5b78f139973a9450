//! The bytes that a transfer sends, block by block: a file or a listing, generated on demand.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use braidftp_ftp::command::Type;
use braidftp_ftp::listing::{
    Gap, What, encode_incomplete, encode_line, encode_name, encode_tree_line, encode_unix, put_tree_line,
};
use braidftp_ftp::mapping::FIRST_FILES;
use braidftp_ftp::path::PathError;
use braidftp_ftp::server::{Extent, Failure, Form, Source};
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::StoreError;
use braidftp_ftp::{SafeName, SafePath};
use bytes::{BufMut, Bytes, BytesMut};

use super::store::{Store, failure, metadata, native, stamp};
use crate::packed::{Follows, PACKER_BYTES, Packer};
use crate::store::fs::{self, BLOCK_BYTES, Growing, Kind, Pieces, WalkItem};
use crate::store::{Lister, Reader, Walk};
use crate::user_limits::Right;

/// The number of content bytes of a file in a message over SCTP. A reply on stream 0 waits for at most one
/// message of each data stream, so short messages keep it fast on a slow link. Where a message is the whole
/// data of a stream, the sender chooses its size (specs/ftp-over-sctp.md §3.2, §4.2).
pub(super) const MESSAGE_BYTES: usize = 16 << 10;
/// The memory that a line of a listing usually takes, in bytes.
const USUAL_LINE_BYTES: usize = 100;

/// The units in which a body is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gives {
    /// Pieces of [`MESSAGE_BYTES`], each with its own memory.
    Messages,
    /// The same, with packed listings of facts, for braid.
    Frames,
    /// Blocks as large as they are read.
    Blocks,
}

/// Data to send.
#[derive(Debug)]
pub(super) struct Body {
    /// The offset of the first byte in the file.
    pub offset: u64,
    /// The size of the whole file, if it is a file.
    pub size: Option<u64>,
    /// The number of bytes that will be sent, if known.
    pub length: Option<u64>,
    /// The modification time of the file.
    pub modified: Option<Timestamp>,
    /// The source of memory for its blocks, the limits of the user, and the transfer that counts its bytes.
    pub store: Store,
    kind: BodyKind,
}

#[derive(Debug)]
enum BodyKind {
    File(Reader),
    Text(Reader, Crlf),
    Exactly(Exactly),
    Listing(Listing),
}

impl Body {
    /// Opens the data to send.
    pub(super) async fn open(store: &Store, source: Source, pieces: Gives) -> Result<Self, Failure> {
        match source {
            Source::File { path, offset, representation, extent } => {
                store.may(Right::Read)?;
                let bytes = match (pieces, representation) {
                    (Gives::Messages | Gives::Frames, _) | (_, Type::Ascii) => MESSAGE_BYTES,
                    (Gives::Blocks, _) => BLOCK_BYTES,
                };
                let pieces = Pieces { bytes, blocks: store.blocks.clone() };
                let place = native(&path)?;
                let reader = store.root.reader(pieces, &place, offset).await.map_err(|e| failure(&e))?;
                let found = reader.metadata();
                let (size, modified) = (found.size, stamp(found.modified));
                let (kind, length) = match (extent, representation) {
                    (Extent::Exactly(count), _) => {
                        (BodyKind::Exactly(Exactly { reader, left: count, fault: None }), Some(count))
                    }
                    (Extent::ToEnd, Type::Ascii) => (BodyKind::Text(reader, Crlf::default()), None),
                    (Extent::ToEnd, _) => (BodyKind::File(reader), Some(size - offset)),
                };
                Ok(Self {
                    offset,
                    size: Some(size),
                    length,
                    modified: Some(modified),
                    store: store.clone(),
                    kind,
                })
            }
            Source::Listing { path, form, pattern } => {
                store.may(Right::List)?;
                let is_packed = pieces == Gives::Frames && matches!(form, Form::Facts(_) | Form::Tree);
                let mut listing = Listing::open(store, path, form, pattern).await?;
                if pieces == Gives::Frames {
                    listing.piece_bytes = MESSAGE_BYTES;
                }
                if is_packed {
                    // Otherwise a client could make the server hold a packer for each of its streams.
                    let has_room = listing.packer_room.grow_to(PACKER_BYTES);
                    listing.packer = Some(if has_room { Packer::default() } else { Packer::storing() });
                }
                let kind = BodyKind::Listing(listing);
                Ok(Self { offset: 0, size: None, length: None, modified: None, store: store.clone(), kind })
            }
        }
    }

    /// The same body, which reports the first files of a tree while it lists it.
    pub(super) fn reporting(mut self, first_files: Option<FirstFiles>) -> Self {
        if let BodyKind::Listing(listing) = &mut self.kind {
            listing.first_files = first_files;
        }
        self
    }

    /// Whether the last returned bytes were the end. For a listing this may be unknown.
    pub(super) fn is_at_end(&self) -> bool {
        match &self.kind {
            BodyKind::File(reader) | BodyKind::Text(reader, _) => reader.is_at_end(),
            BodyKind::Exactly(exactly) => exactly.left == 0 && exactly.fault.is_none(),
            BodyKind::Listing(listing) => listing.is_over(),
        }
    }

    /// Returns the next bytes, at least one.
    ///
    /// # Cancel safety
    ///
    /// Not safe: after a cancelled call nothing more may be sent.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let block = match &mut self.kind {
            BodyKind::File(reader) => reader.next_block().await.map_err(|e| failure(&e))?,
            BodyKind::Text(reader, crlf) => {
                let block = reader.next_block().await.map_err(|e| failure(&e))?;
                block.map(|block| crlf.encode(&block))
            }
            BodyKind::Exactly(exactly) => exactly.next().await?,
            BodyKind::Listing(listing) => listing.next().await?,
        };
        let bytes = block.as_ref().map_or(0, Bytes::len);
        if let Some(transfer) = self.store.transfer.as_ref().filter(|_| bytes > 0) {
            transfer.passed(bytes);
        }
        if self.size.is_some() {
            self.store.share.pass(bytes).await;
        }
        Ok(block)
    }
}

/// Exactly this many bytes, whatever happens to the file, because the client counts them.
#[derive(Debug)]
struct Exactly {
    reader: Reader,
    left: u64,
    fault: Option<Failure>,
}

impl Exactly {
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if self.left == 0 {
            return match self.fault.take() {
                Some(fault) => Err(fault),
                None => Ok(None),
            };
        }
        let mut block = match self.fault {
            Some(_) => Bytes::new(),
            None => match self.reader.next_block().await {
                Ok(Some(block)) => block,
                Ok(None) | Err(_) => {
                    self.fault = Some(Failure::Shrank);
                    Bytes::new()
                }
            },
        };
        if block.is_empty() {
            block = vec![0; self.left.min(MESSAGE_BYTES as u64) as usize].into();
        }
        block.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= block.len() as u64;
        Ok(Some(block))
    }
}

/// Converts LF to CRLF (RFC 959 §3.1.1.1), except in an existing CRLF.
#[derive(Debug, Default)]
struct Crlf {
    after_cr: AfterCr,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum AfterCr {
    #[default]
    No,
    Yes,
}

impl Crlf {
    fn encode(&mut self, block: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(block.len() + block.len() / 16);
        for byte in block {
            if *byte == b'\n' && self.after_cr == AfterCr::No {
                out.push(b'\r');
            }
            out.push(*byte);
            self.after_cr = if *byte == b'\r' { AfterCr::Yes } else { AfterCr::No };
        }
        exact(out)
    }
}

/// Bytes without spare capacity: the transport counts data that waits for a client by its length.
fn exact(mut bytes: Vec<u8>) -> Bytes {
    bytes.shrink_to_fit();
    bytes.into()
}

/// Converts CRLF to LF, also across block boundaries; a CR alone is kept.
#[derive(Debug, Default)]
pub(super) struct Lf {
    held: AfterCr,
}

impl Lf {
    /// Converts bytes from the wire to those of the file.
    pub(super) fn decode(&mut self, block: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(block.len() + 1);
        for byte in block {
            if self.held == AfterCr::Yes && *byte != b'\n' {
                out.put_u8(b'\r');
            }
            self.held = if *byte == b'\r' { AfterCr::Yes } else { AfterCr::No };
            if *byte != b'\r' {
                out.put_u8(*byte);
            }
        }
        out.freeze()
    }

    /// Returns the byte that is still held back at the end.
    pub(super) fn finish(self) -> Bytes {
        if self.held == AfterCr::Yes { Bytes::from_static(b"\r") } else { Bytes::new() }
    }
}

/// The lines of a stream of entries.
#[derive(Debug)]
struct Listing {
    form: Form,
    pattern: Option<Bytes>,
    now: Timestamp,
    /// The lines before the first entry, or all lines.
    head: VecDeque<Bytes>,
    entries: Entries,
    /// Packs the lines, if requested.
    packer: Option<Packer>,
    /// The memory of the packer.
    packer_room: Growing,
    /// Whether all entries have been listed.
    is_listed: bool,
    /// Listed lines that were not returned yet, in pieces with their own memory, because the transport may
    /// hold one of them for a long time.
    listed: VecDeque<Bytes>,
    /// The maximum size of a piece in bytes.
    piece_bytes: usize,
    /// Reports the first files, if requested.
    first_files: Option<FirstFiles>,
}

/// Reports the first files of a tree while it is listed (specs/ftp-over-sctp.md §8.6).
pub(super) struct FirstFiles {
    to: Box<dyn FnMut(Vec<SafePath>) + Send + Sync>,
    /// The number of files that are still to be reported.
    left: usize,
}

impl FirstFiles {
    /// For the listing of a tree; `None` for other sources.
    pub(super) fn of(source: &Source, to: impl FnMut(Vec<SafePath>) + Send + Sync + 'static) -> Option<Self> {
        let is_tree = matches!(source, Source::Listing { form: Form::Tree, .. });
        is_tree.then(|| Self { to: Box::new(to), left: FIRST_FILES })
    }

    fn report(&mut self, items: &[WalkItem]) {
        if self.left == 0 {
            return;
        }
        let file = |item: &WalkItem| match item {
            WalkItem::Found { path, metadata } if metadata.kind == Kind::File => safe(path).ok(),
            _ => None,
        };
        let files: Vec<SafePath> = items.iter().filter_map(file).take(self.left).collect();
        self.left -= files.len();
        if !files.is_empty() {
            (self.to)(files);
        }
    }
}

impl fmt::Debug for FirstFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FirstFiles").field("left", &self.left).finish_non_exhaustive()
    }
}

#[derive(Debug)]
enum Entries {
    None,
    Folder(Lister),
    Tree(Walk),
}

impl Listing {
    async fn open(
        store: &Store,
        path: SafePath,
        form: Form,
        pattern: Option<Bytes>,
    ) -> Result<Self, Failure> {
        let place = native(&path)?;
        let found = store.root.metadata(&place).await.map_err(|e| failure(&e))?;
        let now = stamp(SystemTime::now());
        let mut head = VecDeque::new();
        let entries = match (form, &found.kind) {
            (Form::Tree, Kind::Folder) => {
                // The folder itself comes first: its facts, and a mark if it cannot be read completely.
                head.push_back(encode_tree_line(&metadata(&found), &SafePath::ROOT).into());
                let walk = store.root.walk(&place).await.map_err(|e| failure(&e))?;
                Entries::Tree(walk.counted_by(store.blocks.clone()))
            }
            (_, Kind::Folder) => {
                let lister = store.root.list(&place).await.map_err(|e| failure(&e))?;
                Entries::Folder(lister.counted_by(store.blocks.clone()))
            }
            // XTREE of a file consists of its own line.
            (Form::Tree, _) => {
                head.push_back(encode_tree_line(&metadata(&found), &SafePath::ROOT).into());
                Entries::None
            }
            (Form::Facts(_), _) => return Err(Failure::Store(StoreError::NotADirectory)),
            // LIST and NLST of a file list only the file.
            (Form::List | Form::Names, _) => {
                let name = path.name().map_or(SafePath::ROOT, SafePath::from);
                head.push_back(line(form, &found, &name, now));
                Entries::None
            }
        };
        let packer_room = Growing::new(store.blocks.clone());
        let (packer, listed, piece_bytes) = (None, VecDeque::new(), usize::MAX);
        Ok(Self {
            form,
            pattern,
            now,
            head,
            entries,
            packer,
            packer_room,
            is_listed: false,
            listed,
            piece_bytes,
            first_files: None,
        })
    }

    /// Whether everything was returned.
    fn is_over(&self) -> bool {
        self.is_listed && self.listed.is_empty()
    }

    /// Returns the next bytes, packed if requested.
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if self.listed.is_empty() {
            self.list_more().await?;
        }
        Ok(self.listed.pop_front())
    }

    /// Lists more entries, unless all are listed.
    async fn list_more(&mut self) -> Result<(), Failure> {
        if self.is_listed {
            return Ok(());
        }
        let lines = self.next_lines().await?;
        self.is_listed = self.entries.are_done();
        let follows = if self.is_listed { Follows::Nothing } else { Follows::More };
        let bytes = match &mut self.packer {
            Some(packer) => packer.pack(&lines, follows),
            None => exact(lines),
        };
        match bytes.len() <= self.piece_bytes {
            true => self.listed.extend(Some(bytes).filter(|bytes| !bytes.is_empty())),
            false => self.listed.extend(bytes.chunks(self.piece_bytes).map(Bytes::copy_from_slice)),
        }
        Ok(())
    }

    /// Returns the next lines; none at the end.
    async fn next_lines(&mut self) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while let Some(line) = self.head.pop_front() {
            out.put_slice(&line);
        }
        // A chunk may produce nothing, if no name in it matches.
        let had = out.len();
        while out.len() == had {
            match &mut self.entries {
                Entries::None => break,
                Entries::Folder(lister) => {
                    let Some(chunk) = lister.next_chunk().await.map_err(|e| failure(&e))? else { break };
                    for entry in chunk {
                        if self
                            .pattern
                            .as_ref()
                            .is_some_and(|pattern| !matches(pattern, entry.name.as_bytes()))
                        {
                            continue;
                        }
                        match SafeName::new(entry.name.as_bytes().to_vec()) {
                            Ok(name) => {
                                out.put_slice(&line(self.form, &entry.metadata, &name.into(), self.now))
                            }
                            // LIST and NLST cannot express this.
                            Err(_) if matches!(self.form, Form::Facts(_)) => {
                                out.put_slice(&encode_incomplete(
                                    &SafePath::ROOT,
                                    What::This,
                                    &unsaid(&entry.name),
                                ));
                            }
                            Err(_) => {}
                        }
                    }
                }
                Entries::Tree(walk) => {
                    let Some(chunk) = walk.next_chunk().await else { break };
                    if let Some(first_files) = &mut self.first_files {
                        first_files.report(&chunk);
                    }
                    out.reserve(chunk.len() * USUAL_LINE_BYTES);
                    chunk.iter().for_each(|item| put_tree_item(&mut out, item));
                }
            }
        }
        Ok(out)
    }
}

impl Entries {
    fn are_done(&self) -> bool {
        match self {
            Self::None => true,
            Self::Folder(lister) => lister.is_done(),
            Self::Tree(walk) => walk.is_done(),
        }
    }
}

fn line(form: Form, found: &fs::Metadata, name: &SafePath, now: Timestamp) -> Bytes {
    match form {
        Form::List => encode_unix(&metadata(found), name, now).into(),
        Form::Names => encode_name(name).into(),
        Form::Facts(set) => encode_line(&metadata(found), name, set).into(),
        Form::Tree => encode_tree_line(&metadata(found), name).into(),
    }
}

/// A path of a tree, if a command can carry it.
fn safe(path: &Path) -> Result<SafePath, PathError> {
    if path.as_os_str().is_empty() {
        return Ok(SafePath::ROOT);
    }
    SafePath::strict(path.as_os_str().as_bytes())
}

fn put_tree_item(lines: &mut Vec<u8>, item: &WalkItem) {
    let incomplete = |folder: &Path, what: &Gap| {
        safe(folder).map(|folder| encode_incomplete(&folder, What::Entry, what)).unwrap_or_default()
    };
    match item {
        WalkItem::Found { path, metadata: found } => match safe(path) {
            Ok(path) => put_tree_line(lines, &metadata(found), &path),
            // A path that no command can carry: its folder is marked as incomplete.
            Err(_) => {
                let gap = unsaid(path.file_name().unwrap_or_default());
                lines.extend(incomplete(path.parent().unwrap_or(Path::new("")), &gap));
            }
        },
        WalkItem::Unreadable { path, error } => {
            lines.extend(incomplete(path, &Gap { why: failure(error).code(), name: None }));
        }
    }
}

/// What a listing lacks because of a name that no line can contain.
//= specs/ftp-over-sctp.md#section-8.3
//# If a folder cannot be read, or not completely, or has a name that no line can contain, the server MUST send a line
//# `type=dir;x.error=code;` with the folder's path
fn unsaid(name: &OsStr) -> Gap {
    Gap { why: StoreError::BadName.code(), name: Some(Bytes::copy_from_slice(name.as_bytes())) }
}

/// Whether `name` matches a pattern of `*`, `?` and `[a-z]`, `[!a-z]`. The time is at most proportional to
/// the product of their lengths, for any pattern (RFC 2577 mentions servers for which it was not).
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // The position to which the match returns if the rest after the last star fails: the star then takes one
    // more byte.
    let mut back: Option<(usize, usize)> = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some(b'*') => {
                back = Some((p + 1, n));
                p += 1;
                continue;
            }
            Some(b'?') => Some(1),
            Some(b'[') => class(&pattern[p..], name[n]),
            Some(byte) if *byte == name[n] => Some(1),
            _ => None,
        };
        match (step, back) {
            (Some(width), _) => {
                p += width;
                n += 1;
            }
            (None, Some((after_star, from))) => {
                p = after_star;
                n = from + 1;
                back = Some((after_star, n));
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// The length of the class at the beginning of `pattern`, if `byte` is in it. A class that is not closed is
/// the byte `[`.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let begin = if negated { 2 } else { 1 };
    // A `]` at the beginning belongs to the class.
    let Some(end) = pattern.iter().skip(begin + 1).position(|b| *b == b']').map(|at| at + begin + 1) else {
        return (byte == b'[').then_some(1);
    };
    let members = &pattern[begin..end];
    let (mut at, mut inside) = (0, false);
    while at < members.len() {
        if members.get(at + 1) == Some(&b'-') && at + 2 < members.len() {
            inside |= (members[at]..=members[at + 2]).contains(&byte);
            at += 3;
        } else {
            inside |= members[at] == byte;
            at += 1;
        }
    }
    (inside != negated).then_some(end + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_as_a_shell_s_do() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.gz", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXcYb", false),
            ("?", "", false),
            ("??", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]]", "]", true),
            ("[", "[", true),
            ("[a", "[a", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern.as_bytes(), name.as_bytes()), expected, "{pattern} {name}");
        }
        let hostile = b"*a".repeat(2000);
        assert!(!matches(&hostile, &[b'b'; 255]));
    }

    #[test]
    fn line_ends_survive_any_cut() {
        let text = b"one\ntwo\r\nthree\rfour\n\n";
        let wire = b"one\r\ntwo\r\nthree\rfour\r\n\r\n";
        for cut in 0..=text.len() {
            let mut crlf = Crlf::default();
            let out = [crlf.encode(&text[..cut]), crlf.encode(&text[cut..])].concat();
            assert_eq!(out, wire, "{cut}");
        }
        for cut in 0..=wire.len() {
            let mut lf = Lf::default();
            let out = [lf.decode(&wire[..cut]), lf.decode(&wire[cut..]), lf.finish()].concat();
            assert_eq!(out, b"one\ntwo\nthree\rfour\n\n", "{cut}");
        }
        let mut lf = Lf::default();
        assert_eq!([lf.decode(b"a\r\r\n\r"), lf.finish()].concat(), b"a\r\n\r");
    }

    proptest! {
        #[test]
        fn a_pattern_without_signs_matches_itself_alone(name in "[a-z]{0,8}", other in "[a-z]{0,8}") {
            prop_assert_eq!(matches(name.as_bytes(), other.as_bytes()), name == other);
        }

        #[test]
        fn no_pattern_panics(
            pattern in proptest::collection::vec(prop_oneof![Just(b'*'), Just(b'['), Just(b']'), Just(b'-'), any::<u8>()], 0..12),
            name in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            matches(&pattern, &name);
        }
    }
}
