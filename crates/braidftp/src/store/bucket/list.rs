//! Listings of an object store as streams: [`Lister`] for one folder, [`Walk`] for a tree.
//!
//! The store lists keys, sizes and the times at which objects were written. The modification times of files are metadata
//! of the objects, so every file is one more request, some at once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use futures_util::{StreamExt, stream};

use super::super::fs::{Blocks, Entry, Error, MAX_DEPTH, Metadata, Permit, WalkItem, Why, is_unfinished};
use super::{AT_ONCE, Bucket, failed, file, folder, is_missing, root_or};

/// The number of entries of a chunk, and with little memory.
const CHUNK_ENTRIES: usize = 256;
const FEW_ENTRIES: usize = 16;
/// The memory counted for a chunk, including the lines made of it.
const CHUNK_BYTES: usize = 256 << 10;

const READ: &str = "read the folder";

/// A listing of the store, without its meaning.
struct Keys {
    bucket: Bucket,
    /// The beginning of all keys.
    folder: String,
    path: PathBuf,
    lister: Option<opendal::Lister>,
    blocks: Blocks,
    /// The memory of the current chunk.
    permit: Option<Permit>,
}

/// The rest of a key behind the folder, and the metadata.
type Found = (String, Metadata);

impl Keys {
    async fn new(bucket: &Bucket, path: &Path, is_recursive: bool) -> Result<Self, Error> {
        let folder = bucket.folder_key(READ, path)?;
        let lister = match bucket.operator.lister_with(&root_or(&folder)).recursive(is_recursive).await {
            Ok(lister) => Some(lister),
            // The root of a store without objects.
            Err(error) if is_missing(&error) && path.as_os_str().is_empty() => None,
            Err(error) => return Err(failed(READ, path, &error)),
        };
        let (bucket, path) = (bucket.clone(), path.to_owned());
        Ok(Self { bucket, folder, path, lister, blocks: Blocks::default(), permit: None })
    }

    /// The next entries with their metadata, in the order of the store; none at the end. Those that vanish meanwhile are left out.
    async fn next_chunk(&mut self) -> Result<Vec<Found>, Error> {
        // The previous chunk is released.
        self.permit = None;
        self.permit = self.blocks.take(CHUNK_BYTES).filter(|permit| permit.bytes() == CHUNK_BYTES);
        let most = if self.permit.is_some() { CHUNK_ENTRIES } else { FEW_ENTRIES };
        let mut entries = Vec::new();
        while entries.len() < most {
            let Some(lister) = &mut self.lister else { break };
            match lister.next().await {
                Some(Ok(entry)) => entries.push(entry),
                Some(Err(error)) => {
                    self.lister = None;
                    return Err(failed(READ, &self.path, &error));
                }
                None => self.lister = None,
            }
        }
        let looked = stream::iter(entries).map(|entry| self.look(entry)).buffered(AT_ONCE);
        let looked: Vec<Result<Option<Found>, Error>> = looked.collect().await;
        looked.into_iter().filter_map(Result::transpose).collect()
    }

    async fn look(&self, entry: opendal::Entry) -> Result<Option<Found>, Error> {
        let (key, metadata) = entry.into_parts();
        let Some(rest) = key.strip_prefix(&self.folder).filter(|rest| !rest.is_empty()) else {
            return Ok(None);
        };
        let rest = rest.to_owned();
        if metadata.is_dir() || rest.ends_with('/') {
            return Ok(Some((rest, folder())));
        }
        if metadata.user_metadata().is_some() || !self.bucket.keeps_times() {
            return Ok(Some((rest, file(&metadata))));
        }
        match self.bucket.operator.stat(&key).await {
            Ok(found) => Ok(Some((rest, file(&found)))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(failed("look at", &self.path.join(&rest), &error)),
        }
    }
}

/// Reads one folder, one chunk at a time.
pub struct Lister(Keys);

/// Reads a tree, one chunk at a time, folders before their contents.
pub struct Walk {
    keys: Keys,
    /// The folder of the last entry, relative to the start of the walk: it and those above it were returned.
    inside: PathBuf,
    /// The last folder that was too deep.
    too_deep: Option<PathBuf>,
    is_done: bool,
}

impl std::fmt::Debug for Lister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Lister").field(&self.0.path).finish()
    }
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("path", &self.keys.path).finish_non_exhaustive()
    }
}

impl Bucket {
    /// Opens a folder to be read as a stream.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn list(&self, path: &Path) -> Result<Lister, Error> {
        Ok(Lister(Keys::new(self, path, false).await?))
    }

    /// Reads a whole tree as a stream.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn walk(&self, path: &Path) -> Result<Walk, Error> {
        let keys = Keys::new(self, path, true).await?;
        Ok(Walk { keys, inside: PathBuf::new(), too_deep: None, is_done: false })
    }
}

impl Lister {
    /// Sets the source of memory for chunks.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        self.0.blocks = blocks;
        self
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
        if self.is_done() {
            return Ok(None);
        }
        let found = self.0.next_chunk().await?;
        let entry = |(rest, metadata): Found| {
            let name = rest.trim_end_matches('/');
            let is_name = !matches!(name, "" | "." | "..") && !is_unfinished(name.as_ref());
            is_name.then(|| Entry { name: OsString::from(name), metadata })
        };
        Ok(Some(found.into_iter().filter_map(entry).collect()))
    }

    /// Whether everything was returned.
    pub fn is_done(&self) -> bool {
        self.0.lister.is_none()
    }
}

impl Walk {
    /// Sets the source of memory for chunks.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        self.keys.blocks = blocks;
        self
    }

    /// Returns the next items, or `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// Not safe: items may be lost.
    pub async fn next_chunk(&mut self) -> Option<Vec<WalkItem>> {
        if self.is_done {
            return None;
        }
        let mut items = Vec::new();
        match self.keys.next_chunk().await {
            Ok(found) => found.into_iter().for_each(|(rest, metadata)| self.add(&rest, metadata, &mut items)),
            Err(error) => {
                self.keys.lister = None;
                items.push(WalkItem::Unreadable { path: PathBuf::new(), error });
            }
        }
        self.is_done = self.keys.lister.is_none();
        Some(items)
    }

    /// Whether everything was returned.
    pub fn is_done(&self) -> bool {
        self.is_done
    }

    /// Adds an entry, after the folders that it is in.
    pub(super) fn add(&mut self, rest: &str, metadata: Metadata, items: &mut Vec<WalkItem>) {
        let is_folder = rest.ends_with('/');
        let parts: Vec<&str> = rest.strip_suffix('/').unwrap_or(rest).split('/').collect();
        let (mut folder, mut depth) = (PathBuf::new(), 0);
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            if matches!(*part, "" | "." | "..") {
                let why = Why::BadName("an object's key has an empty part, `.` or `..`");
                let error = Error::new(READ, &folder, why);
                return items.push(WalkItem::Unreadable { path: folder, error });
            }
            let path = folder.join(part);
            if is_last && !is_folder {
                if !is_unfinished(part.as_ref()) {
                    items.push(WalkItem::Found { path, metadata });
                }
                break;
            }
            depth += 1;
            if !self.inside.starts_with(&path) {
                items.push(WalkItem::Found { path: path.clone(), metadata: super::folder() });
                self.inside = path.clone();
            }
            if depth >= MAX_DEPTH && !is_last {
                if self.too_deep.as_ref() != Some(&path) {
                    self.too_deep = Some(path.clone());
                    let error = Error::new(READ, &path, Why::TooDeep);
                    items.push(WalkItem::Unreadable { path, error });
                }
                return;
            }
            folder = path;
        }
        // A folder is returned twice only if the store does not list it at one place.
        self.inside = folder;
    }
}
