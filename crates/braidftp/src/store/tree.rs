//! The tree that a server serves: a folder of this machine, or a bucket of an object store.
//!
//! An enum and not a trait: with a trait object every block that is read would be a future on the heap, and these two are all
//! there are (each object store is one to OpenDAL).

use std::collections::{BTreeMap, btree_map};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use braidftp_ftp::HashName;
use bytes::Bytes;

use super::bucket::{self, Bucket};
use super::fs::{
    self, Allowance, Blocks, Claimant, Commit, Digest, Digested, Entry, Error, Keep, Kind, Metadata, Part,
    Pieces, Removal, Root, Start, WalkItem, Why,
};

/// The files with several names that a count of bytes holds at once, some 50 bytes each. Beyond them every name counts.
const LINKED_MAX: usize = 10_000;

/// A tree of files. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Tree {
    /// A folder of this machine.
    Folder(Root),
    /// Objects of an object store.
    Bucket(Bucket),
}

impl From<Root> for Tree {
    fn from(root: Root) -> Self {
        Self::Folder(root)
    }
}

impl From<Bucket> for Tree {
    fn from(bucket: Bucket) -> Self {
        Self::Bucket(bucket)
    }
}

impl Tree {
    /// Opens a folder, or the tree at an address of an object store.
    ///
    /// # Errors
    ///
    /// The folder cannot be opened, or the address is wrong: a sentence.
    pub fn open(place: &Path) -> Result<Self, String> {
        match place.to_str().filter(|text| Bucket::is_address(text)) {
            Some(address) => Bucket::open(address).map(Self::Bucket),
            None => Root::open(place).map(Self::Folder).map_err(|error| error.to_string()),
        }
    }

    /// The text for people and hooks of what [`Tree::open`] takes: an address without secrets, or the whole path.
    pub fn shown(place: &Path) -> PathBuf {
        match place.to_str().filter(|text| Bucket::is_address(text)) {
            Some(address) => Bucket::without_secrets(address).into(),
            None => place.canonicalize().unwrap_or_else(|_| place.to_owned()),
        }
    }

    /// Whether [`Tree::open`] takes this for the address of an object store.
    pub fn is_address(place: &Path) -> bool {
        place.to_str().is_some_and(Bucket::is_address)
    }

    /// The folder, if it is one.
    pub fn folder(&self) -> Option<&Root> {
        match self {
            Self::Folder(root) => Some(root),
            Self::Bucket(_) => None,
        }
    }

    /// Opens a folder below as a separate tree.
    ///
    /// # Errors
    ///
    /// It does not exist (in a bucket it need not), or is outside the tree.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn beneath(&self, path: &Path) -> Result<Self, Error> {
        match self {
            Self::Folder(_) if path.as_os_str().is_empty() => Ok(self.clone()),
            Self::Folder(root) => {
                let path = path.to_owned();
                root.blocking(move |root| root.beneath(&path)).await.map(Self::Folder)
            }
            Self::Bucket(bucket) => bucket.beneath(path).map(Self::Bucket),
        }
    }

    /// The metadata of `path`; links are followed.
    ///
    /// # Errors
    ///
    /// It does not exist, or is outside the tree.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn metadata(&self, path: &Path) -> Result<Metadata, Error> {
        self.look(path, Root::metadata).await
    }

    /// The metadata of `path` itself: a link is a [`Kind::Link`].
    ///
    /// # Errors
    ///
    /// It does not exist, or is outside the tree.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn link_metadata(&self, path: &Path) -> Result<Metadata, Error> {
        self.look(path, Root::link_metadata).await
    }

    async fn look(
        &self,
        path: &Path,
        look: fn(&Root, &Path) -> Result<Metadata, Error>,
    ) -> Result<Metadata, Error> {
        match self {
            Self::Folder(root) => {
                let path = path.to_owned();
                root.blocking(move |root| look(root, &path)).await
            }
            Self::Bucket(bucket) => bucket.metadata(path).await,
        }
    }

    /// Opens a file to read it from `offset` on.
    ///
    /// # Errors
    ///
    /// It does not exist, is not a file, or ends before `offset` ([`Why::PastEnd`]).
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn reader(&self, pieces: Pieces, path: &Path, offset: u64) -> Result<Reader, Error> {
        Ok(match self {
            Self::Folder(root) => Reader::Folder(root.reader_in(pieces, path, offset, Digest::None).await?),
            Self::Bucket(bucket) => Reader::Bucket(Box::new(bucket.reader(pieces, path, offset).await?)),
        })
    }

    /// Creates a writer of `path`; nothing happens yet. `size_hint` is the expected size, if known.
    pub fn writer(&self, path: &Path, start: Start, size_hint: Option<u64>) -> Writer {
        match self {
            Self::Folder(root) => Writer::Folder(root.writer(path, start, size_hint, Digest::None)),
            Self::Bucket(bucket) => Writer::Bucket(Box::new(bucket.writer(path, start, size_hint))),
        }
    }

    /// Opens a folder to be read as a stream.
    ///
    /// # Errors
    ///
    /// It does not exist, or cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn list(&self, path: &Path) -> Result<Lister, Error> {
        Ok(match self {
            Self::Folder(root) => Lister::Folder(root.list(path).await?),
            Self::Bucket(bucket) => Lister::Bucket(Box::new(bucket.list(path).await?)),
        })
    }

    /// Reads a whole tree as a stream, folders before their contents.
    ///
    /// # Errors
    ///
    /// `path` does not exist, or cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn walk(&self, path: &Path) -> Result<Walk, Error> {
        Ok(match self {
            Self::Folder(root) => Walk::Folder(root.walk(path).await?),
            Self::Bucket(bucket) => Walk::Bucket(Box::new(bucket.walk(path).await?)),
        })
    }

    /// Computes the digest of a file. Ends early, with [`Why::Busy`], when `stop` becomes true.
    ///
    /// # Errors
    ///
    /// It does not exist, is not a file, or cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn digest(
        &self,
        path: &Path,
        hash: HashName,
        stop: Arc<AtomicBool>,
    ) -> Result<Digested, Error> {
        match self {
            Self::Folder(root) => {
                let path = path.to_owned();
                root.blocking(move |root| root.digest(&path, hash, &stop)).await
            }
            Self::Bucket(bucket) => bucket.digest(path, hash, &stop).await,
        }
    }

    /// The bytes that files, and at most `parts_max` unfinished uploads, occupy.
    ///
    /// # Errors
    ///
    /// The tree cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn used_bytes(&self, parts_max: usize) -> Result<u64, Error> {
        let root = match self {
            Self::Folder(root) => root,
            Self::Bucket(bucket) => return bucket.used_bytes().await,
        };
        let mut bytes: u64 = 0;
        // Those with other names that may still come, and how many.
        let mut linked: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        let mut walk = root.walk(Path::new("")).await?;
        while let Some(chunk) = walk.next_chunk().await {
            for item in chunk {
                let WalkItem::Found { metadata, .. } = item else { continue };
                if metadata.kind == Kind::File && is_first_name(&mut linked, &metadata) {
                    bytes = bytes.saturating_add(metadata.size);
                }
            }
        }
        let parts = root.blocking(move |root| root.parts(Path::new(""), parts_max)).await?;
        Ok(bytes.saturating_add(parts.iter().map(|part| part.size).sum()))
    }

    /// The size of the disk in bytes, if there is one and it is known.
    pub fn disk_bytes(&self) -> Option<u64> {
        self.folder()?.disk_bytes().ok()
    }

    /// Up to `most` unfinished uploads of `path` or below. In a bucket there are none: they begin again.
    ///
    /// # Errors
    ///
    /// `path` cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn parts(&self, path: PathBuf, most: usize) -> Result<Vec<Part>, Error> {
        match self {
            Self::Folder(root) => root.blocking(move |root| root.parts(&path, most)).await,
            Self::Bucket(_) => Ok(Vec::new()),
        }
    }

    /// Removes unfinished uploads of `path` or below, and returns them.
    ///
    /// # Errors
    ///
    /// `path` cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Work that has begun runs to its end.
    pub async fn remove_parts(&self, path: PathBuf, removal: Removal) -> Result<Vec<Part>, Error> {
        match self {
            Self::Folder(root) => root.blocking(move |root| root.remove_parts(&path, &removal)).await,
            Self::Bucket(_) => Ok(Vec::new()),
        }
    }

    /// The bytes that an interrupted upload of `path` has left.
    ///
    /// # Errors
    ///
    /// `path` cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn unfinished_bytes(&self, path: PathBuf) -> Result<Option<u64>, Error> {
        match self {
            Self::Folder(root) => root.blocking(move |root| root.unfinished_bytes(&path)).await,
            Self::Bucket(_) => Ok(None),
        }
    }

    /// Makes a change.
    ///
    /// # Errors
    ///
    /// It is not possible ([`Why::Unsupported`] for some in a bucket).
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown what was changed.
    pub async fn edit(&self, edit: Edit) -> Result<(), Error> {
        let bucket = match self {
            Self::Folder(root) => return root.blocking(move |root| edit.in_folder(root)).await,
            Self::Bucket(bucket) => bucket,
        };
        let unsupported = |what, path: &Path, why| Err(Error::new(what, path, Why::Unsupported(why)));
        match &edit {
            Edit::MakeFolder(path) => bucket.mkdir(path).await,
            Edit::RemoveFolder(path) => bucket.remove_dir(path).await,
            Edit::Remove(path) => bucket.remove_file(path).await,
            Edit::Rename { from, to } => bucket.rename(from, to).await,
            Edit::SetModified(path, time) => bucket.set_modified(path, *time).await,
            Edit::SetMode(path, _) => unsupported("set the mode of", path, "objects have no permission bits"),
            Edit::Link { path, .. } => unsupported("make the link", path, "there are no symbolic links"),
            Edit::HardLink { path, .. } => unsupported("make the link", path, "an object has one name"),
        }
    }
}

/// Whether this is the first name of a file among those seen. Files whose names have all been seen are forgotten.
fn is_first_name(linked: &mut BTreeMap<(u64, u64), u64>, metadata: &Metadata) -> bool {
    if metadata.links <= 1 {
        return true;
    }
    let seen = linked.len();
    match linked.entry(metadata.identity) {
        btree_map::Entry::Vacant(_) if seen >= LINKED_MAX => true,
        btree_map::Entry::Vacant(vacant) => {
            vacant.insert(metadata.links - 1);
            true
        }
        btree_map::Entry::Occupied(mut left) if *left.get() > 1 => {
            *left.get_mut() -= 1;
            false
        }
        btree_map::Entry::Occupied(left) => {
            left.remove();
            false
        }
    }
}

/// A change of a tree.
#[derive(Debug)]
pub enum Edit {
    /// Creates a folder, whose parent exists.
    MakeFolder(PathBuf),
    /// Removes an empty folder.
    RemoveFolder(PathBuf),
    /// Removes a file or a link.
    Remove(PathBuf),
    /// Renames; a file of the new name is replaced.
    Rename {
        /// The old name.
        from: PathBuf,
        /// The new name.
        to: PathBuf,
    },
    /// Sets the modification time.
    SetModified(PathBuf, SystemTime),
    /// Sets the permission bits.
    SetMode(PathBuf, u32),
    /// Creates a symbolic link.
    Link {
        /// The text of the link.
        target: PathBuf,
        /// Its name.
        path: PathBuf,
    },
    /// Gives a file another name, which replaces a file or link.
    HardLink {
        /// The file.
        existing: PathBuf,
        /// The other name.
        path: PathBuf,
    },
}

impl Edit {
    fn in_folder(&self, root: &Root) -> Result<(), Error> {
        match self {
            Self::MakeFolder(path) => root.mkdir(path),
            Self::RemoveFolder(path) => root.remove_dir(path),
            Self::Remove(path) => root.remove_file(path),
            Self::Rename { from, to } => root.rename(from, to),
            Self::SetModified(path, time) => root.set_modified(path, *time),
            Self::SetMode(path, mode) => root.set_mode(path, *mode),
            Self::Link { target, path } => root.symlink(target, path),
            Self::HardLink { existing, path } => root.hard_link(existing, path).map(drop),
        }
    }
}

/// Reads one file.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a small file of a folder is read without an allocation")]
pub enum Reader {
    /// In a folder.
    Folder(fs::Reader),
    /// In a bucket.
    Bucket(Box<bucket::Reader>),
}

impl Reader {
    /// The metadata of the file when it was opened.
    pub fn metadata(&self) -> &Metadata {
        match self {
            Self::Folder(reader) => reader.metadata(),
            Self::Bucket(reader) => reader.metadata(),
        }
    }

    /// Whether everything was returned.
    pub fn is_at_end(&self) -> bool {
        match self {
            Self::Folder(reader) => reader.is_at_end(),
            Self::Bucket(reader) => reader.is_at_end(),
        }
    }

    /// Returns the next bytes, or `None` at the end.
    ///
    /// # Errors
    ///
    /// The file cannot be read further, or is too short.
    ///
    /// # Cancel safety
    ///
    /// Not safe: bytes may be lost.
    pub async fn next_block(&mut self) -> Result<Option<Bytes>, Error> {
        match self {
            Self::Folder(reader) => reader.next_block().await,
            Self::Bucket(reader) => reader.next_block().await,
        }
    }
}

/// Writes one file, which appears under its name when it is complete.
#[derive(Debug)]
pub enum Writer {
    /// In a folder.
    Folder(fs::Writer),
    /// In a bucket.
    Bucket(Box<bucket::Writer>),
}

impl Writer {
    /// Sets what the folder needs to know: the owner, the source of memory, the limits on disk usage.
    #[must_use]
    pub fn owned_by(self, claimant: Claimant, blocks: &Blocks, allowance: &Allowance) -> Self {
        match self {
            Self::Folder(writer) => {
                Self::Folder(writer.claimed_by(claimant).counted_by(blocks.clone()).within(allowance.clone()))
            }
            bucket @ Self::Bucket(_) => bucket,
        }
    }

    /// Sets what became known before the first byte: the number of bytes that follow, and the modification time. A bucket needs
    /// them early; a folder takes the time at the end.
    pub fn expect(&mut self, bytes: Option<u64>, modified: Option<SystemTime>) {
        if let Self::Bucket(writer) = self {
            writer.expect(bytes, modified);
        }
    }

    /// Opens the file now instead of later, so that an error occurs before the first byte.
    ///
    /// # Errors
    ///
    /// It cannot be written.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn open(&mut self) -> Result<(), Error> {
        match self {
            Self::Folder(writer) => writer.open().await,
            Self::Bucket(writer) => writer.open().await,
        }
    }

    /// Accepts the next bytes.
    ///
    /// # Errors
    ///
    /// These or earlier bytes could not be written.
    ///
    /// # Cancel safety
    ///
    /// In a folder safe: the bytes are accepted at the first poll. In a bucket bytes may be lost.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        match self {
            Self::Folder(writer) => writer.write(bytes).await,
            Self::Bucket(writer) => writer.write(bytes).await,
        }
    }

    /// Whether [`Writer::commit_then`] returns without waiting.
    pub fn is_small(&self) -> bool {
        match self {
            Self::Folder(writer) => writer.is_small(),
            Self::Bucket(_) => false,
        }
    }

    /// Completes the file; `then` is called with the result, perhaps on a thread that may block.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the file is complete and whether `then` is called.
    pub async fn commit_then(self, commit: Commit, then: impl FnOnce(Result<(), Error>) + Send + 'static) {
        match self {
            Self::Folder(writer) => writer.commit_then(commit, move |put| then(put.map(|_| ()))).await,
            Self::Bucket(writer) => then(writer.commit(commit).await),
        }
    }

    /// Ends the transfer without a complete file.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown what was kept.
    pub async fn abandon(self, keep: Keep) {
        match self {
            Self::Folder(writer) => {
                // What could not be kept is sent again.
                let _ = writer.abandon(keep).await;
            }
            Self::Bucket(writer) => writer.abandon().await,
        }
    }
}

/// Reads one folder, one chunk at a time.
#[derive(Debug)]
pub enum Lister {
    /// Of this machine.
    Folder(fs::Lister),
    /// Of a bucket.
    Bucket(Box<bucket::Lister>),
}

impl Lister {
    /// Sets the source of memory for chunks.
    #[must_use]
    pub fn counted_by(self, blocks: Blocks) -> Self {
        match self {
            Self::Folder(lister) => Self::Folder(lister.counted_by(blocks)),
            Self::Bucket(lister) => Self::Bucket(Box::new(lister.counted_by(blocks))),
        }
    }

    /// Returns the next entries, or `None` at the end.
    ///
    /// # Errors
    ///
    /// The folder could not be read further; nothing follows.
    ///
    /// # Cancel safety
    ///
    /// Not safe: entries may be lost.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        match self {
            Self::Folder(lister) => lister.next_chunk().await,
            Self::Bucket(lister) => lister.next_chunk().await,
        }
    }

    /// Whether everything was returned.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Folder(lister) => lister.is_done(),
            Self::Bucket(lister) => lister.is_done(),
        }
    }
}

/// Reads a tree, one chunk at a time.
#[derive(Debug)]
pub enum Walk {
    /// Of this machine.
    Folder(fs::Walk),
    /// Of a bucket.
    Bucket(Box<bucket::Walk>),
}

impl Walk {
    /// Sets the source of memory for chunks and open folders.
    #[must_use]
    pub fn counted_by(self, blocks: Blocks) -> Self {
        match self {
            Self::Folder(walk) => Self::Folder(walk.counted_by(blocks)),
            Self::Bucket(walk) => Self::Bucket(Box::new(walk.counted_by(blocks))),
        }
    }

    /// Returns the next items, or `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// Not safe: items may be lost.
    pub async fn next_chunk(&mut self) -> Option<Vec<WalkItem>> {
        match self {
            Self::Folder(walk) => walk.next_chunk().await,
            Self::Bucket(walk) => walk.next_chunk().await,
        }
    }

    /// Whether everything was returned.
    pub fn is_done(&self) -> bool {
        match self {
            Self::Folder(walk) => walk.is_done(),
            Self::Bucket(walk) => walk.is_done(),
        }
    }
}
