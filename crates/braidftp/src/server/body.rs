//! The bytes that a transfer sends, block by block: a file or a listing, generated on demand.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use braidftp_ftp::command::Type;
use braidftp_ftp::listing::{
    Gap, What, encode_incomplete, encode_line, encode_name, encode_tree_line, encode_unix,
};
use braidftp_ftp::server::{Extent, Failure, Form, Source};
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::StoreError;
use braidftp_ftp::{SafeName, SafePath};
use bytes::{BufMut, Bytes, BytesMut};

use super::activity::Transfer;
use super::store::{Store, failure, metadata, native, stamp};
use crate::packed::{Follows, PACKER_BYTES, Packer};
use crate::store::fs::{
    self, BLOCK_BYTES, Blocks, Digest, Growing, Kind, Lister, Pieces, Reader, Walk, WalkItem,
};
use crate::user_limits::{Right, Share};

/// Bytes of a file that share a message over SCTP. A reply on stream 0 waits for one of each data stream at most, so that short
/// ones keep it quick on a slow link; where a message is all data of a stream, its size is left to the sender
/// (specs/ftp-over-sctp.md §3.2, §4.2).
pub(super) const MESSAGE_BYTES: usize = 16 << 10;

/// In what a body comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gives {
    /// In pieces of [`MESSAGE_BYTES`], each with memory of its own.
    Messages,
    /// The same, and listings of facts packed, as braid has them.
    Frames,
    /// In blocks as large as they are read.
    Blocks,
}

/// Something to be sent.
#[derive(Debug)]
pub(super) struct Body {
    /// Where in the file the first byte belongs.
    pub offset: u64,
    /// Bytes of the whole file, if it is a file.
    pub size: Option<u64>,
    /// Bytes that will be sent, if known.
    pub length: Option<u64>,
    /// When the file changed last.
    pub modified: Option<Timestamp>,
    /// Where room for what it holds comes from.
    pub blocks: Blocks,
    /// Limits of the user.
    share: Arc<Share>,
    /// What counts its bytes.
    transfer: Option<Arc<Transfer>>,
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
    /// Opens what shall be sent.
    pub(super) async fn open(store: &Store, source: Source, pieces: Gives) -> Result<Self, Failure> {
        let (blocks, share, transfer) = (store.blocks.clone(), store.share.clone(), store.transfer.clone());
        match source {
            Source::File { path, offset, representation, extent } => {
                store.may(Right::Read)?;
                let bytes = match (pieces, representation) {
                    (Gives::Messages | Gives::Frames, _) | (_, Type::Ascii) => MESSAGE_BYTES,
                    (Gives::Blocks, _) => BLOCK_BYTES,
                };
                let pieces = Pieces { bytes, blocks: blocks.clone() };
                let place = native(&path)?;
                let reader = store.root.reader_in(pieces, &place, offset, Digest::None);
                let reader = reader.await.map_err(|e| failure(&e))?;
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
                    blocks,
                    share,
                    transfer,
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
                    // Else a client could have the server hold a packer for each of its streams.
                    let has_room = listing.packer_room.grow_to(PACKER_BYTES);
                    listing.packer = Some(if has_room { Packer::default() } else { Packer::storing() });
                }
                let kind = BodyKind::Listing(listing);
                Ok(Self {
                    offset: 0,
                    size: None,
                    length: None,
                    modified: None,
                    blocks,
                    share,
                    transfer,
                    kind,
                })
            }
        }
    }

    /// Whether what was given out last was the end. In a listing it may be without being known.
    pub(super) fn is_at_end(&self) -> bool {
        match &self.kind {
            BodyKind::File(reader) | BodyKind::Text(reader, _) => reader.is_at_end(),
            BodyKind::Exactly(exactly) => exactly.left == 0 && exactly.fault.is_none(),
            BodyKind::Listing(listing) => listing.is_over(),
        }
    }

    /// The next bytes; never none of them.
    ///
    /// # Cancel safety
    /// Not safe: after a cancelled call, send nothing more.
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
        if let Some(transfer) = self.transfer.as_ref().filter(|_| bytes > 0) {
            transfer.passed(bytes);
        }
        if self.size.is_some() {
            self.share.pass(bytes).await;
        }
        Ok(block)
    }
}

/// Exactly so many bytes, whatever the file does: the other side counts.
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

/// LF becomes CRLF (RFC 959 §3.1.1.1), unless it is one already.
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

/// Bytes without room for more: what the transport holds of a client that takes nothing is counted by its length.
fn exact(mut bytes: Vec<u8>) -> Bytes {
    bytes.shrink_to_fit();
    bytes.into()
}

/// CRLF becomes LF, across the cuts of blocks too; a CR alone stays.
#[derive(Debug, Default)]
pub(super) struct Lf {
    held: AfterCr,
}

impl Lf {
    /// The next bytes from the wire, as the file has them.
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

    /// What is still held back when no more comes.
    pub(super) fn finish(self) -> Bytes {
        if self.held == AfterCr::Yes { Bytes::from_static(b"\r") } else { Bytes::new() }
    }
}

/// Lines, made from a stream of entries.
#[derive(Debug)]
struct Listing {
    form: Form,
    pattern: Option<Bytes>,
    now: Timestamp,
    /// What stands before the first entry, or is all there is.
    head: VecDeque<Bytes>,
    entries: Entries,
    /// Packs the lines, if they are packed.
    packer: Option<Packer>,
    /// The memory of the packer.
    packer_room: Growing,
    /// Whether nothing is left to list.
    is_listed: bool,
    /// What was listed and not given out, in pieces with memory of their own: the transport may hold one of them for long.
    listed: VecDeque<Bytes>,
    /// Bytes of a piece, at most.
    piece_bytes: usize,
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
        let found = store.root.blocking({
            let place = place.clone();
            move |root| root.metadata(&place)
        });
        let found = found.await.map_err(|e| failure(&e))?;
        let now = stamp(SystemTime::now());
        let mut head = VecDeque::new();
        let entries = match (form, &found.kind) {
            (Form::Tree, Kind::Folder) => {
                // The folder itself comes first: its facts, and a place to say that not all of it can be read.
                head.push_back(encode_tree_line(&metadata(&found), &SafePath::ROOT).into());
                let walk = store.root.walk(&place).await.map_err(|e| failure(&e))?;
                Entries::Tree(walk.counted_by(store.blocks.clone()))
            }
            (_, Kind::Folder) => {
                let lister = store.root.list(&place).await.map_err(|e| failure(&e))?;
                Entries::Folder(lister.counted_by(store.blocks.clone()))
            }
            // XTREE of a file is its own line and nothing else.
            (Form::Tree, _) => {
                head.push_back(encode_tree_line(&metadata(&found), &SafePath::ROOT).into());
                Entries::None
            }
            (Form::Facts(_), _) => return Err(Failure::Store(StoreError::NotADirectory)),
            // LIST and NLST of a file are a listing of it alone.
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
        })
    }

    /// Whether all was given out.
    fn is_over(&self) -> bool {
        self.is_listed && self.listed.is_empty()
    }

    /// The next bytes, packed if they are to be.
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

    /// The next lines; none at the end.
    async fn next_lines(&mut self) -> Result<Vec<u8>, Failure> {
        let mut out = Vec::new();
        while let Some(line) = self.head.pop_front() {
            out.put_slice(&line);
        }
        // A chunk may come to nothing, if no name in it matches.
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
                            // LIST and NLST have no words for it.
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
                    chunk.iter().for_each(|item| out.put_slice(&tree_line(item)));
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

fn tree_line(item: &WalkItem) -> Vec<u8> {
    let safe = |path: &Path| {
        if path.as_os_str().is_empty() {
            return Ok(SafePath::ROOT);
        }
        SafePath::strict(path.as_os_str().as_bytes())
    };
    match item {
        WalkItem::Found { path, metadata: found } => match safe(path) {
            Ok(path) => encode_tree_line(&metadata(found), &path),
            // A path that no command can carry: its folder is incomplete for the other side.
            Err(_) => match safe(path.parent().unwrap_or(Path::new(""))) {
                Ok(folder) => {
                    let gap = unsaid(path.file_name().unwrap_or_default());
                    encode_incomplete(&folder, What::Entry, &gap)
                }
                Err(_) => Vec::new(),
            },
        },
        WalkItem::Unreadable { path, error } => match safe(path) {
            Ok(path) => {
                encode_incomplete(&path, What::Entry, &Gap { why: failure(error).code(), name: None })
            }
            Err(_) => Vec::new(),
        },
    }
}

/// What a listing lacks for a name that no line can carry.
//= specs/ftp-over-sctp.md#section-8.3
//# If a folder cannot be read, or not to its end, or holds a name that no
//# line can carry, the server MUST send a line
//# `type=dir;x.error=code;` with the folder's path
fn unsaid(name: &OsStr) -> Gap {
    Gap { why: StoreError::BadName.code(), name: Some(Bytes::copy_from_slice(name.as_bytes())) }
}

/// Whether `name` matches a pattern of `*`, `?` and `[a-z]`, `[!a-z]`. Takes time in proportion to the product of
/// their lengths at most, whatever the pattern (RFC 2577 knows servers that did not).
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on if what follows the last star does not match: the star takes one byte more.
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

/// How long the class at the head of `pattern` is, if `byte` is in it. One without an end is the byte `[`.
fn class(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let begin = if negated { 2 } else { 1 };
    // A `]` right at the beginning is one of the class.
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
