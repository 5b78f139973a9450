//! Files in an object store (S3, Google Cloud Storage, Azure Blob, WebDAV, WebHDFS), through Apache OpenDAL.
//!
//! The objects whose keys begin with a prefix form a tree, in which `/` separates folders. A folder exists as
//! long as an object is below it, or an empty object marks it whose key is that of the folder and a `/`.
//! An object appears under its name when all of it has arrived and was checked: several servers may use one
//! bucket at once, and of two uploads to one name the first completion remains ([`Writer`]).
//!
//! What an object store lacks: symbolic links and permission bits are refused ([`Why::Unsupported`]), a
//! modification time is metadata of the object (`mtime`, as rclone writes it), a rename copies where the store
//! has none, an interrupted upload begins again.

mod lease;
mod list;
mod reader;
mod remains;
#[cfg(test)]
mod tests;
mod writer;

use std::hash::{BuildHasher as _, Hasher as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};

use braidftp_ftp::HashName;
use futures_util::{StreamExt, TryStreamExt};
use opendal::{ErrorKind, Operator};
use tokio::sync::Semaphore;

pub use lease::{Charge, Lease};
pub use list::{Lister, Walk};
pub use reader::Reader;
pub(crate) use writer::OBJECT_BYTES_MAX;
pub use writer::Writer;

use super::fs::{Digested, Error, Hashing, Kind, Metadata, Pieces, Why};

/// The kinds of object stores, as they begin an address.
pub const SCHEMES: [&str; 5] = ["s3", "gcs", "azblob", "webdav", "webhdfs"];
/// Bytes of uploads in memory, over all uploads of the process. A part of an object must be in memory before it
/// is sent.
pub const UPLOADS_BYTES: usize = 96 << 20;
/// The same, in units of [`writer::UNIT_BYTES`].
const UPLOADS_UNITS: u32 = (UPLOADS_BYTES / writer::UNIT_BYTES) as u32;
/// The memory for uploads of the process.
static ROOM: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(UPLOADS_UNITS as usize)));
/// How long a request, or a block of its body, may take before it is sent again.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often a request that failed for a passing reason is sent again: at a connection that broke, and at 429, 500, 502, 503
/// and 504.
const RETRIES: usize = 4;
/// The time before the first of them; before each further one it is twice as long. A random time is added.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The number of requests about single objects that run at once for a listing or a rename.
const AT_ONCE: usize = 32;
/// The user metadata of the modification time: seconds since 1970, with a fraction.
const MTIME: &str = "mtime";

/// A tree of objects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Bucket {
    operator: Operator,
    /// The address, for people.
    shown: Arc<str>,
    /// The beginning of the keys of this tree: empty, or with a `/` at its end.
    prefix: String,
    /// Memory for uploads, in units of [`writer::UNIT_BYTES`]: that of the process.
    room: Arc<Semaphore>,
    /// Requests that OpenDAL does not make, for S3.
    remains: Option<Arc<remains::Remains>>,
}

impl Bucket {
    /// Whether this is an address of an object store, and not a path: `SCHEME://…`.
    pub fn is_address(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    }

    /// Opens the tree at an address: `s3://BUCKET/PREFIX?endpoint=URL&region=NAME`, or one of the other
    /// [`SCHEMES`]. Nothing is sent.
    ///
    /// # Errors
    ///
    /// An unknown scheme or a wrong option: a sentence.
    pub fn open(address: &str) -> Result<Self, String> {
        let shown = Self::without_secrets(address);
        let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
        if !SCHEMES.contains(&scheme) {
            let known = SCHEMES.join("://, ");
            return Err(format!("no object store is called `{scheme}`: an address begins with {known}://"));
        }
        opendal::install_default();
        let unusable =
            |error: opendal::Error| format!("cannot use the object store {shown}: {}", sentence(&error));
        let operator = Operator::from_uri(address).map_err(unusable)?;
        let remains = remains::Remains::open(address).map_err(unusable)?.map(Arc::new);
        Ok(Self { remains, room: ROOM.clone(), ..Self::of(operator, &shown) })
    }

    /// The tree of all objects of `operator`.
    fn of(operator: Operator, shown: &str) -> Self {
        let timeout = opendal::layers::TimeoutLayer::new().with_timeout(PATIENCE).with_io_timeout(PATIENCE);
        let retry = opendal::layers::RetryLayer::new()
            .with_jitter()
            .with_min_delay(FIRST_RETRY)
            .with_max_times(RETRIES);
        Self {
            operator: operator.layer(timeout).layer(retry),
            shown: shown.into(),
            prefix: String::new(),
            room: Arc::new(Semaphore::new(UPLOADS_UNITS as usize)),
            remains: None,
        }
    }

    /// An address without its options, which may hold keys, and without user and password, for people.
    pub fn without_secrets(address: &str) -> String {
        let address = address.split('?').next().unwrap_or_default().trim_end_matches('/');
        let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}{}", &rest[authority.len()..])
    }

    /// The address as [`Bucket::without_secrets`] shows it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Waits until no upload is in memory, and the parts of those that were dropped are removed.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn uploads_ended(&self) {
        // The semaphore is never closed.
        let _ = self.room.acquire_many(UPLOADS_UNITS).await;
    }

    /// Whether the store renames without copying.
    pub fn renames(&self) -> bool {
        self.operator.info().capability().rename
    }

    /// The tree of a folder, which need not exist.
    ///
    /// # Errors
    ///
    /// [`Why::BadName`].
    pub fn beneath(&self, path: &Path) -> Result<Self, Error> {
        let prefix = self.folder_key("open the folder", path)?;
        Ok(Self { prefix, ..self.clone() })
    }

    /// The metadata of a file or folder.
    ///
    /// # Errors
    ///
    /// It does not exist, or the store does not answer.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn metadata(&self, path: &Path) -> Result<Metadata, Error> {
        let what = "look at";
        if path.as_os_str().is_empty() {
            return Ok(folder());
        }
        match self.operator.stat(&self.key(what, path)?).await {
            Ok(found) if found.is_file() => return Ok(file(&found)),
            Ok(_) => return Ok(folder()),
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(failed(what, path, &error)),
        }
        match self.is_folder(what, path).await? {
            true => Ok(folder()),
            false => Err(Error::new(what, path, Why::NotFound)),
        }
    }

    /// Whether there is an object below this path, or a mark of the folder.
    async fn is_folder(&self, what: &'static str, path: &Path) -> Result<bool, Error> {
        Ok(!self.some_below(what, path, 1).await?.is_empty())
    }

    /// Up to `most` keys of the folder and below it.
    async fn some_below(&self, what: &'static str, path: &Path, most: usize) -> Result<Vec<String>, Error> {
        let key = self.folder_key(what, path)?;
        let listed = self.operator.lister_with(&root_or(&key)).recursive(true).limit(most.max(2)).await;
        let listed = match listed {
            Ok(lister) => lister.take(most).map_ok(|entry| entry.path().to_owned()).try_collect().await,
            Err(error) => Err(error),
        };
        match listed {
            Ok(keys) => Ok(keys),
            Err(error) if is_missing(&error) => Ok(Vec::new()),
            Err(error) => Err(failed(what, path, &error)),
        }
    }

    /// Creates a folder: an empty object that marks it.
    ///
    /// # Errors
    ///
    /// The name exists, or the store refuses.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the folder exists.
    pub async fn mkdir(&self, path: &Path) -> Result<(), Error> {
        let what = "make the folder";
        match self.metadata(path).await {
            Ok(_) => return Err(Error::new(what, path, Why::Exists)),
            Err(error) if error.why == Why::NotFound => {}
            Err(error) => return Err(error),
        }
        let made = self.operator.create_dir(&self.folder_key(what, path)?).await;
        made.map_err(|error| failed(what, path, &error))
    }

    /// Removes a file.
    ///
    /// # Errors
    ///
    /// It does not exist or is a folder, or the store refuses.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the file exists.
    pub async fn remove_file(&self, path: &Path) -> Result<(), Error> {
        let what = "remove";
        if self.metadata(path).await?.kind == Kind::Folder {
            return Err(Error::new(what, path, Why::IsAFolder));
        }
        let removed = self.operator.delete(&self.key(what, path)?).await;
        removed.map_err(|error| failed(what, path, &error))
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    ///
    /// It does not exist, is a file, or is not empty; the store refuses.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the folder exists.
    pub async fn remove_dir(&self, path: &Path) -> Result<(), Error> {
        let what = "remove the folder";
        if self.metadata(path).await?.kind != Kind::Folder {
            return Err(Error::new(what, path, Why::NotAFolder));
        }
        let key = self.folder_key(what, path)?;
        // A home that was removed keeps no quota.
        let ledger = format!("{key}{}", lease::LEDGER);
        let found = self.some_below(what, path, 3).await?;
        if found.iter().any(|found| *found != key && *found != ledger) {
            return Err(Error::new(what, path, Why::NotEmpty));
        }
        if found.contains(&ledger) {
            self.operator.delete(&ledger).await.map_err(|error| failed(what, path, &error))?;
        }
        self.operator.delete(&key).await.map_err(|error| failed(what, path, &error))
    }

    /// Renames a file or a folder; a file of the new name is replaced. Where the store cannot rename, every object is
    /// copied and then deleted: other clients may see some objects under both names, or some under each.
    ///
    /// # Errors
    ///
    /// The old name does not exist, the new one is a folder, or the store refuses.
    ///
    /// # Cancel safety
    ///
    /// Not safe: some objects may have the new name.
    pub async fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let what = "rename";
        let kind = self.metadata(from).await?.kind;
        if from == to {
            return Ok(());
        }
        match self.metadata(to).await {
            Ok(found) if found.kind == Kind::Folder => return Err(Error::new(what, to, Why::IsAFolder)),
            Ok(_) if kind == Kind::Folder => return Err(Error::new(what, to, Why::NotAFolder)),
            Ok(_) => {}
            Err(error) if error.why == Why::NotFound => {}
            Err(error) => return Err(error),
        }
        if kind == Kind::Folder {
            if to.starts_with(from) {
                return Err(Error::new(what, to, Why::BadName("a folder cannot be moved below itself")));
            }
            // A copy, and then a deletion, of a folder that is more than the beginning of keys would be one of all that is in it.
            if !self.renames() {
                return self.move_below(from, to).await;
            }
        }
        let (old, new) = (self.key(what, from)?, self.key(what, to)?);
        let moved = match self.renames() {
            true => self.operator.rename(&old, &new).await,
            false => self.move_object(&old, &new).await,
        };
        moved.map_err(|error| failed(what, from, &error))
    }

    async fn move_object(&self, old: &str, new: &str) -> opendal::Result<()> {
        if old.ends_with('/') {
            self.operator.create_dir(new).await?;
        } else {
            self.operator.copy(old, new).await?;
        }
        self.operator.delete(old).await
    }

    /// Moves the objects of a folder. A move that failed half-way can be repeated: objects that were moved are gone.
    async fn move_below(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let what = "rename";
        let (old, new) = (self.folder_key(what, from)?, self.folder_key(what, to)?);
        let lister = self.operator.lister_with(&old).recursive(true).await;
        let lister = lister.map_err(|error| failed(what, from, &error))?;
        let moved = lister.try_for_each_concurrent(AT_ONCE, |entry| {
            let new = entry.path().strip_prefix(&old).map(|rest| format!("{new}{rest}"));
            async move {
                match new {
                    Some(new) => self.move_object(entry.path(), &new).await,
                    None => Ok(()),
                }
            }
        });
        moved.await.map_err(|error| failed(what, from, &error))
    }

    /// Sets the modification time of a file, by writing the object again with other metadata. A folder has no time, and
    /// nothing happens.
    ///
    /// # Errors
    ///
    /// It does not exist, was replaced meanwhile ([`Why::Busy`], [`Why::Replaced`]), or the store refuses.
    ///
    /// # Cancel safety
    ///
    /// Safe: the object is the old one or the new one.
    pub async fn set_modified(&self, path: &Path, modified: SystemTime) -> Result<(), Error> {
        let found = self.metadata(path).await?;
        if found.kind == Kind::Folder || found.modified == modified {
            return Ok(());
        }
        if !self.operator.info().capability().write_with_user_metadata {
            return Err(Error::new("set the time of", path, Why::Unsupported("it keeps times of its own")));
        }
        Writer::again(self, path, modified).await
    }

    /// Reads a file to its end and returns its digest. Ends early, with [`Why::Busy`], when `stop` becomes true.
    ///
    /// # Errors
    ///
    /// As [`Bucket::reader`].
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn digest(&self, path: &Path, hash: HashName, stop: &AtomicBool) -> Result<Digested, Error> {
        let mut reader = self.reader(Pieces::default(), path, 0).await?;
        let mut hashing = Hashing::new(hash);
        while let Some(block) = reader.next_block().await? {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::new("read", path, Why::Busy));
            }
            hashing.update(&block);
        }
        Ok(hashing.finish())
    }

    /// The size of all files, in bytes.
    ///
    /// # Errors
    ///
    /// The store does not answer.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn used_bytes(&self) -> Result<u64, Error> {
        let (what, root) = ("count the files of", Path::new(""));
        let lister = self.operator.lister_with(&root_or(&self.prefix)).recursive(true).await;
        let bytes = match lister {
            Ok(lister) => {
                let sizes = lister.map_ok(|entry| match entry.name() {
                    lease::LEDGER => 0,
                    _ => entry.metadata().content_length(),
                });
                sizes.try_fold(0_u64, async |sum, size| Ok(sum.saturating_add(size))).await
            }
            Err(error) => Err(error),
        };
        match bytes {
            Err(error) if is_missing(&error) => Ok(0),
            other => other.map_err(|error| failed(what, root, &error)),
        }
    }

    /// The key of a file.
    fn key(&self, what: &'static str, path: &Path) -> Result<String, Error> {
        let bad = |why| Error::new(what, path, Why::BadName(why));
        let path = path.to_str().ok_or_else(|| bad("an object store has names in UTF-8 only"))?;
        let key = format!("{}{path}", self.prefix);
        // OpenDAL would use another key.
        if key.trim() != key {
            return Err(bad("a path in an object store neither begins nor ends with a space"));
        }
        Ok(key)
    }

    /// The beginning of the keys below a folder: empty, or with a `/` at its end.
    fn folder_key(&self, what: &'static str, path: &Path) -> Result<String, Error> {
        match path.as_os_str().is_empty() {
            true => Ok(self.prefix.clone()),
            false => Ok(self.key(what, path)? + "/"),
        }
    }
}

/// OpenDAL's name of the root.
fn root_or(key: &str) -> String {
    if key.is_empty() { "/".into() } else { key.into() }
}

fn folder() -> Metadata {
    Metadata {
        kind: Kind::Folder,
        size: 0,
        modified: SystemTime::UNIX_EPOCH,
        mode: 0o755,
        identity: Metadata::NO_IDENTITY,
        links: 1,
    }
}

fn file(found: &opendal::Metadata) -> Metadata {
    let kept = found.user_metadata().and_then(|kept| kept.get(MTIME).and_then(parse_time));
    let modified = kept.or_else(|| found.last_modified().map(SystemTime::from));
    Metadata {
        kind: Kind::File,
        size: found.content_length(),
        modified: modified.unwrap_or(SystemTime::UNIX_EPOCH),
        mode: 0o644,
        identity: Metadata::NO_IDENTITY,
        links: 1,
    }
}

/// The text of a time: seconds since 1970 and nine digits of a fraction. An earlier time is that moment.
fn time_text(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:09}", since.as_secs(), since.subsec_nanos())
}

/// Parses a time with up to nine digits of a fraction.
fn parse_time(text: &str) -> Option<SystemTime> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos = format!("{fraction:0<9}").parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::new(whole.parse().ok()?, nanos))
}

/// A number that no other server has.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// Whether there is nothing of this name.
fn is_missing(error: &opendal::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory | ErrorKind::NotADirectory)
}

/// Converts an error of the store.
fn failed(what: &'static str, path: &Path, error: &opendal::Error) -> Error {
    let why = match error.kind() {
        ErrorKind::NotFound => Why::NotFound,
        ErrorKind::PermissionDenied => Why::Denied,
        ErrorKind::IsADirectory => Why::IsAFolder,
        ErrorKind::NotADirectory => Why::NotAFolder,
        ErrorKind::AlreadyExists => Why::Exists,
        ErrorKind::ConditionNotMatch | ErrorKind::Conflict => Why::Busy,
        ErrorKind::Unsupported => Why::Unsupported("an object store of this kind has no such operation"),
        ErrorKind::RateLimited => Why::Io("the object store answers that it gets too many requests".into()),
        _ => Why::Io(sentence(error)),
    };
    let failed = Error::new(what, path, why);
    if matches!(failed.why, Why::Io(_) | Why::Denied) {
        tracing::warn!(error = %failed, "the object store failed");
    }
    failed
}

/// The text of an error on one line, without its context, which may be long.
fn sentence(error: &opendal::Error) -> String {
    let mut text = format!("{} {}", error.kind(), error.message().replace(['\r', '\n'], " "));
    if let Some(source) = std::error::Error::source(error) {
        text.push_str(": ");
        text.push_str(&source.to_string().replace(['\r', '\n'], " "));
    }
    text
}
