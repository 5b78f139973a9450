//! A store in memory, and a driver that executes the requests of a server session immediately.
#![allow(dead_code, reason = "each test takes what it needs of it")]

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use braidftp_ftp::command::{Secret, Type};
use braidftp_ftp::listing::{FactSet, encode_line, encode_name, encode_unix};
use braidftp_ftp::path::SafePath;
use braidftp_ftp::server::{Change, Extent, Failure, Form, Outcome, Part, Query, Sink, Source, Write};
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::{FileKind, Metadata, StoreError};

pub(crate) const NOW: Timestamp = Timestamp::from_seconds(1_795_000_000);

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) metadata: Metadata,
    pub(crate) content: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryStore {
    nodes: BTreeMap<SafePath, Node>,
    pub(crate) partial: BTreeMap<SafePath, Vec<u8>>,
    made_up: u32,
}

pub(crate) fn path(text: &str) -> SafePath {
    SafePath::ROOT.resolve(text.as_bytes()).unwrap()
}

impl MemoryStore {
    pub(crate) fn new() -> Self {
        let mut store = Self::default();
        store.insert(SafePath::ROOT, FileKind::Directory, Vec::new());
        store
    }

    pub(crate) fn with(files: &[(&str, &[u8])]) -> Self {
        let mut store = Self::new();
        for (name, content) in files {
            store.file(name, content);
        }
        store
    }

    pub(crate) fn file(&mut self, name: &str, content: &[u8]) {
        let path = path(name);
        let mut folder = path.parent();
        while let Some(parent) = folder {
            if !self.nodes.contains_key(&parent) {
                self.insert(parent.clone(), FileKind::Directory, Vec::new());
            }
            folder = parent.parent();
        }
        self.insert(path, FileKind::File, content.to_vec());
    }

    pub(crate) fn read(&self, name: &str) -> Option<&[u8]> {
        self.nodes.get(&path(name)).map(|node| node.content.as_slice())
    }

    fn insert(&mut self, path: SafePath, kind: FileKind, content: Vec<u8>) {
        let metadata = Metadata { modified: Some(NOW), ..Metadata::new(kind, content.len() as u64) };
        self.nodes.insert(path, Node { metadata, content });
    }

    fn node(&self, path: &SafePath) -> Result<&Node, Failure> {
        self.nodes.get(path).ok_or(Failure::Store(StoreError::NotFound))
    }

    fn children<'a>(&'a self, folder: &'a SafePath) -> impl Iterator<Item = (&'a SafePath, &'a Node)> {
        self.nodes.iter().filter(|(path, _)| path.parent().as_ref() == Some(folder))
    }

    pub(crate) fn authenticate(&self, user: &[u8], password: &Secret) -> bool {
        user == b"anonymous" || (user == b"user" && password.expose() == b"secret")
    }

    pub(crate) fn query(&self, path: &SafePath, query: Query) -> Result<Outcome, Failure> {
        match query {
            Query::Facts | Query::Followed => {
                self.node(path).map(|node| Outcome::Facts(node.metadata.clone()))
            }
            // The same digest for each function: the reply shows which one was requested.
            Query::Digest(hash) => self
                .node(path)
                .map(|_| Outcome::Digest { digest: vec![7; hash.digest_bytes()].into(), bytes: 3 }),
            Query::Parts => Ok(Outcome::Parts(self.parts(path))),
            Query::Partial => {
                Ok(Outcome::Partial(self.partial.get(path).map_or(0, |bytes| bytes.len() as u64)))
            }
        }
    }

    fn parts(&self, path: &SafePath) -> Vec<Part> {
        let below = |kept: &SafePath| kept.as_bytes().starts_with(path.as_bytes());
        let part = |(path, bytes): (&SafePath, &Vec<u8>)| Part {
            path: path.clone(),
            size: bytes.len() as u64,
            changed: Timestamp { seconds: 0, nanos: 0 },
        };
        self.partial.iter().filter(|(path, _)| below(path)).map(part).collect()
    }

    pub(crate) fn change(&mut self, change: Change) -> Result<Outcome, Failure> {
        match change {
            Change::MakeDirectory(path) => {
                if self.nodes.contains_key(&path) {
                    return Err(Failure::Store(StoreError::Exists));
                }
                self.node(&path.parent().unwrap())?;
                self.insert(path, FileKind::Directory, Vec::new());
            }
            Change::RemoveDirectory(path) => {
                if self.node(&path)?.metadata.kind != FileKind::Directory {
                    return Err(Failure::Store(StoreError::NotADirectory));
                }
                if self.children(&path).next().is_some() {
                    return Err(Failure::Store(StoreError::NotEmpty));
                }
                self.nodes.remove(&path);
            }
            Change::Remove(path) => {
                if self.node(&path)?.metadata.kind == FileKind::Directory {
                    return Err(Failure::Store(StoreError::NotAFile));
                }
                self.nodes.remove(&path);
            }
            Change::Rename { from, to } => {
                let node = self.nodes.remove(&from).ok_or(Failure::Store(StoreError::NotFound))?;
                self.nodes.insert(to, node);
            }
            Change::SetModified(path, stamp) => {
                self.node(&path)?;
                self.nodes.get_mut(&path).unwrap().metadata.modified = Some(stamp);
            }
            Change::SetUnixMode(path, mode) => {
                self.node(&path)?;
                self.nodes.get_mut(&path).unwrap().metadata.unix_mode = Some(mode);
            }
            Change::RemoveParts(path) => {
                let removed = self.parts(&path);
                removed.iter().for_each(|part| drop(self.partial.remove(&part.path)));
                return Ok(Outcome::Parts(removed));
            }
            Change::Symlink { path, target } => {
                self.insert(path.clone(), FileKind::Symlink, Vec::new());
                self.nodes.get_mut(&path).unwrap().metadata.target = Some(target);
            }
            Change::HardLink { existing, path } => {
                let (kind, content) =
                    (self.node(&existing)?.metadata.kind, self.node(&existing)?.content.clone());
                if kind != FileKind::File {
                    return Err(Failure::Store(StoreError::NotAFile));
                }
                self.insert(path, kind, content);
            }
        }
        Ok(Outcome::Changed)
    }

    /// The bytes to send, and the result to report after them.
    pub(crate) fn source(&self, source: &Source) -> Result<(Vec<u8>, Option<Failure>), Failure> {
        match source {
            Source::File { path, offset, representation, extent } => {
                let node = self.node(path)?;
                if node.metadata.kind != FileKind::File {
                    return Err(Failure::Store(StoreError::NotAFile));
                }
                let content = match representation {
                    Type::Image => node.content.clone(),
                    Type::Ascii => String::from_utf8_lossy(&node.content).replace('\n', "\r\n").into_bytes(),
                };
                let offset = usize::try_from(*offset).unwrap();
                let rest = content.get(offset..).ok_or(Failure::Store(StoreError::BadOffset))?;
                match extent {
                    Extent::ToEnd => Ok((rest.to_vec(), None)),
                    Extent::Exactly(length) => {
                        let length = usize::try_from(*length).unwrap();
                        let mut bytes = rest[..length.min(rest.len())].to_vec();
                        let short = (bytes.len() < length).then_some(Failure::Shrank);
                        bytes.resize(length, 0);
                        Ok((bytes, short))
                    }
                }
            }
            Source::Listing { path, form, .. } => {
                let node = self.node(path)?;
                let mut bytes = Vec::new();
                let is_folder = node.metadata.kind == FileKind::Directory;
                if matches!(form, Form::Facts(_)) && !is_folder {
                    return Err(Failure::Store(StoreError::NotADirectory));
                }
                if *form == Form::Tree {
                    bytes.extend(encode_line(&node.metadata, &SafePath::ROOT, FactSet::ALL));
                    for (below, node) in
                        self.nodes.iter().filter(|(below, _)| *below != path && path.contains(below))
                    {
                        let start = if path.is_root() { 0 } else { path.as_bytes().len() + 1 };
                        let relative = SafePath::strict(&below.as_bytes()[start..]).unwrap();
                        bytes.extend(encode_line(&node.metadata, &relative, FactSet::ALL));
                    }
                    return Ok((bytes, None));
                }
                for (child, node) in self.children(path) {
                    let name = SafePath::from(child.name().unwrap());
                    bytes.extend(match form {
                        Form::Facts(set) => encode_line(&node.metadata, &name, *set),
                        Form::Names => encode_name(&name),
                        _ => encode_unix(&node.metadata, &name, NOW),
                    });
                }
                Ok((bytes, None))
            }
        }
    }

    /// Whether the sink can be written, and its name.
    pub(crate) fn open(&mut self, sink: &Sink) -> Result<SafePath, Failure> {
        if sink.path.components().any(|name| name.as_bytes() == b"forbidden") {
            return Err(Failure::Store(StoreError::Denied));
        }
        if let Write::From(offset) = sink.write {
            let held = self
                .partial
                .get(&sink.path)
                .map_or_else(|| self.nodes.get(&sink.path).map_or(0, |node| node.content.len()), Vec::len);
            if offset > held as u64 {
                return Err(Failure::Store(StoreError::BadOffset));
            }
        }
        if sink.write == Write::Unique {
            self.made_up += 1;
            return Ok(sink.path.resolve(format!("unique-{}", self.made_up).as_bytes()).unwrap());
        }
        Ok(sink.path.clone())
    }

    pub(crate) fn finish(&mut self, path: &SafePath, write: Write, bytes: &[u8]) {
        let before = self.nodes.get(path).map(|node| node.content.clone()).unwrap_or_default();
        let kept = match write {
            Write::Replace | Write::Unique => Vec::new(),
            Write::Append => before,
            Write::From(offset) => {
                let mut kept = self.partial.remove(path).unwrap_or(before);
                kept.truncate(usize::try_from(offset).unwrap());
                kept
            }
        };
        self.insert(path.clone(), FileKind::File, [&kept[..], bytes].concat());
    }
}

/// One message of a stream: payload protocol identifier and bytes.
pub(crate) type Messages = VecDeque<(u32, Vec<u8>)>;

/// A separate connection or association for one transfer.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) bytes: Vec<u8>,
    pub(crate) ended: bool,
}

/// A digest for tests: different bytes have different digests.
pub(crate) fn digest(bytes: &[u8]) -> [u8; 16] {
    let mut digest = [0_u8; 16];
    for (at, byte) in bytes.iter().enumerate() {
        let cell = &mut digest[at % 16];
        *cell = cell.rotate_left(3) ^ byte.wrapping_add(at as u8);
    }
    digest
}

pub(crate) fn tcp() -> braidftp_ftp::server::Carrier {
    let local: SocketAddr = "127.0.0.1:2121".parse().unwrap();
    let peer: SocketAddr = "127.0.0.1:50000".parse().unwrap();
    braidftp_ftp::server::Carrier::Tcp { local, peer }
}
