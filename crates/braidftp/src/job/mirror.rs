//! A whole tree, down or up.
//!
//! Down: in braid one command lists the whole tree, and files are asked for while it still flows; elsewhere folder
//! after folder is listed (MLSD; LIST where there is no MLSD), and its files fetched before the next; ms-cp lists all
//! folders first, then asks for all files at once. Up: the remote tree is listed, then the local one walked, folders
//! made and files sent as they come.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::hash::BuildHasherDefault;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use braidftp_ftp::client::{Features, ListForm};
use braidftp_ftp::command::{Command, Site};
use braidftp_ftp::listing::Listed;
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::FileKind;
use braidftp_ftp::{SafePath, store};
use bytes::Bytes;

use super::bounds::{TreeBounds, Under, Unique, depth};
use super::delete::{self, Seen};
use super::download::{Downloads, Fetch, as_path};
use super::filter::Filter;
use super::listing::{Line, Listing, bad_line, folder_form, incomplete};
use super::local::{Folders, InTheWay, Linked, Made};
use super::upload::{Send, Uploads};
use super::{Job, Ready, named_path, path_hash, remote_path};
use crate::client::{Client, same_time, timestamp};
use crate::exit::{Again, Error, Exit, Result, escape};
use crate::report::Action;
use crate::store::fs::{self, Kind, Root, WalkItem};

/// Commands that delete and whose replies are waited for at once.
const COMMANDS: usize = 256;

/// What a mirror takes, and what it may remove.
#[derive(Debug, Clone)]
pub struct Mirror {
    /// Which paths belong.
    pub filter: Filter,
    /// Whether what the source does not have is removed.
    pub delete: Delete,
}

/// Whether a mirror removes what the source does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delete {
    /// Nothing is removed.
    No,
    /// It is, from folders whose listing was read whole.
    Yes,
    /// Nothing is removed and nothing moved: only said.
    DryRun {
        /// Whether a real run would remove.
        would: bool,
    },
}

impl Delete {
    fn is_on(self) -> bool {
        matches!(self, Self::Yes | Self::DryRun { would: true })
    }

    fn is_dry(self) -> bool {
        matches!(self, Self::DryRun { .. })
    }
}

/// A mirror from the server.
#[derive(Debug, Clone)]
pub struct MirrorDown {
    /// What is common to both directions.
    pub mirror: Mirror,
    /// The local folder; made if it is not there.
    pub to: PathBuf,
}

/// A mirror to the server.
#[derive(Debug, Clone)]
pub struct MirrorUp {
    /// What is common to both directions.
    pub mirror: Mirror,
    /// The local folder.
    pub from: PathBuf,
}

/// One attempt of a mirror from the server.
///
/// # Errors
/// The session has ended, or the tree cannot be listed. Files that fail are in the job's record.
pub async fn mirror_down(client: Client, job: Job, down: MirrorDown) -> Result<()> {
    if !down.mirror.delete.is_dry() {
        std::fs::create_dir_all(&down.to)
            .map_err(|e| Error::local(format_args!("make {}", down.to.display()), &e))?;
    }
    let root = match Root::open(&down.to) {
        Ok(root) => root,
        // A dry run towards a folder that is not there compares with an empty one.
        Err(_) if down.mirror.delete.is_dry() => {
            let empty = tempfile::tempdir().map_err(|e| Error::local("make a temporary folder", &e))?;
            Root::open(empty.path()).map_err(|e| Error::store(&e))?
        }
        Err(error) => return Err(Error::store(&error)),
    };
    let in_the_way = match down.mirror.delete {
        Delete::Yes => InTheWay::Delete,
        _ => InTheWay::Keep,
    };
    let mut tree = Down {
        base: job.url.path.clone(),
        downloads: Downloads::new(client.clone(), root.clone(), job.reporter.clone(), job.record.clone()),
        folders: Folders::new(root.clone(), in_the_way),
        seen: down.mirror.delete.is_on().then(Seen::default),
        mirror: down.mirror,
        tree: TreeBounds::new(client.bounds()),
        later: Vec::new(),
        job,
        root,
    };
    let result = match client.mode() {
        Mode::Braid => tree.whole(&client).await,
        Mode::MsCp => tree.by_folders(&client, ListForm::Facts, When::Later).await,
        Mode::Naive | Mode::Ms => tree.by_folders(&client, ListForm::Facts, When::Now).await,
        Mode::Tcp => {
            let form = folder_form(&client.features().await?);
            tree.by_folders(&client, form, When::Now).await
        }
    };
    let result = match result {
        Ok(()) => tree.fetch_later().await,
        error => error,
    };
    // What was begun is waited for even if the listing broke off: it puts its bytes away.
    let Down { downloads, mut folders, seen, mirror, job, root, .. } = tree;
    job.reporter.expect_no_more();
    let finished = downloads.finish().await;
    result.and(finished)?;
    if let Some(seen) = seen {
        delete_local(&root, &seen, &mirror, &job).await?;
    }
    folders.set_times().await;
    Ok(())
}

/// Whether files are asked for while folders are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    Later,
}

struct Down {
    base: Vec<u8>,
    job: Job,
    root: Root,
    mirror: Mirror,
    downloads: Downloads,
    folders: Folders,
    seen: Option<Seen>,
    tree: TreeBounds,
    later: Vec<Later>,
}

/// A file to ask for when all folders are listed; small, for there may be many.
struct Later {
    path: SafePath,
    size: u64,
    modified: Option<Timestamp>,
    unix_mode: Option<u32>,
}

impl Down {
    /// braid: one listing of all.
    async fn whole(&mut self, client: &Client) -> Result<()> {
        let mut listing = Listing::ask(client, ListForm::Tree, remote_path(&self.base, b"")?).await?;
        while let Some(line) = listing.next().await? {
            self.tree.entry()?;
            match line {
                Line::Bad(line, why) => self.bad(&SafePath::ROOT, &line, &why),
                Line::Entry(entry) => {
                    let is_folder = entry.metadata.kind == FileKind::Directory;
                    let folder = if is_folder { Some(entry.path.clone()) } else { entry.path.parent() };
                    if let Some(Err(error)) = folder.map(|folder| self.tree.check_depth(&folder)) {
                        // Told once, of the topmost folder that is too deep.
                        if depth(&entry.path) == self.job.options.bounds.max_depth + 1 {
                            self.too_deep(&entry.path, error);
                        }
                        continue;
                    }
                    if is_folder && let Some(seen) = &mut self.seen {
                        seen.is_whole(entry.path.as_bytes());
                    }
                    self.entry(entry.path, entry.metadata, entry.listed).await?;
                }
            }
        }
        Ok(())
    }

    /// A listing a folder.
    async fn by_folders(&mut self, client: &Client, form: ListForm, when: When) -> Result<()> {
        let mut waiting: Vec<(SafePath, Unique)> = vec![(SafePath::ROOT, None)];
        self.tree.hold(&SafePath::ROOT)?;
        while let Some((folder, unique)) = waiting.pop() {
            self.tree.release(&folder);
            let may_enter = self.tree.check_depth(&folder).and_then(|()| self.tree.enter(&folder, unique));
            if let Err(error) = may_enter {
                self.too_deep(&folder, error);
                continue;
            }
            let path = remote_path(&self.base, folder.as_bytes())?;
            let mut listing = Listing::ask(client, form, path).await?;
            let mut below = Vec::new();
            loop {
                let line = match listing.next().await {
                    Ok(Some(line)) => line,
                    Ok(None) => {
                        if let Some(seen) = &mut self.seen {
                            seen.is_whole(folder.as_bytes());
                        }
                        break;
                    }
                    Err(error) if folder.is_root() || error.is_transient() => return Err(error),
                    Err(error) => {
                        // A folder that cannot be listed is one of the things that fail; the others go on.
                        self.hole(&folder);
                        self.job.record.failed(&self.job.reporter, folder.as_bytes(), error);
                        break;
                    }
                };
                self.tree.entry()?;
                let entry = match line {
                    Line::Bad(line, why) => {
                        self.bad(&folder, &line, &why);
                        continue;
                    }
                    Line::Entry(entry) => *entry,
                };
                // `cdir`, the folder itself.
                let Some(name) = entry.path.name() else {
                    self.tree.identify(entry.metadata.unique);
                    if folder.is_root() {
                        self.folders.remember(&folder, entry.metadata.modified);
                    }
                    if let Listed::Incomplete(code) = entry.listed {
                        self.hole(&folder);
                        self.job.record.failed(&self.job.reporter, folder.as_bytes(), incomplete(code));
                    }
                    continue;
                };
                let path = match folder.join(&name) {
                    Ok(path) if entry.path.as_bytes() == name.as_bytes() => path,
                    Ok(_) => {
                        self.bad(
                            &folder,
                            entry.path.as_bytes(),
                            "a name of a folder's listing holds a slash",
                        );
                        continue;
                    }
                    Err(error) => {
                        self.bad(&folder, entry.path.as_bytes(), &error.to_string());
                        continue;
                    }
                };
                let is_folder = entry.metadata.kind == FileKind::Directory;
                if is_folder && self.mirror.filter.takes_folder(path.as_bytes()) {
                    self.tree.hold(&path)?;
                    below.push((path.clone(), entry.metadata.unique));
                }
                if !is_folder && when == When::Later && entry.metadata.kind == FileKind::File {
                    self.tree.hold(&path)?;
                    let store::Metadata { size, modified, unix_mode, .. } = entry.metadata;
                    self.later.push(Later { path, size, modified, unix_mode });
                    continue;
                }
                self.entry(path, entry.metadata, entry.listed).await?;
            }
            // Depth first, in the order of the listing.
            waiting.extend(below.into_iter().rev());
        }
        Ok(())
    }

    async fn fetch_later(&mut self) -> Result<()> {
        for Later { path, size, modified, unix_mode } in std::mem::take(&mut self.later) {
            let metadata =
                store::Metadata { modified, unix_mode, ..store::Metadata::new(FileKind::File, size) };
            self.entry(path, metadata, Listed::Whole).await?;
        }
        Ok(())
    }

    /// One thing of the tree.
    async fn entry(&mut self, path: SafePath, metadata: store::Metadata, listed: Listed) -> Result<()> {
        let name = path.as_bytes();
        if path.is_root() && metadata.kind != FileKind::Directory {
            return Err(Error::new(
                Exit::NoSuchPath,
                format_args!("mirror {}", self.job.url),
                "it is not a folder",
            )
            .hint("braidftp get fetches single files"));
        }
        if let Some(seen) = &mut self.seen {
            seen.is_there(name);
        }
        if let Listed::Incomplete(code) = listed {
            self.hole(&path);
            self.job.record.failed(&self.job.reporter, name, incomplete(code));
        }
        let belongs = match metadata.kind {
            FileKind::Directory => self.mirror.filter.takes_folder(name),
            _ => self.mirror.filter.takes_file(name),
        };
        if !belongs {
            return Ok(());
        }
        if self.mirror.delete.is_dry() {
            return self.plan(&path, &metadata).await;
        }
        match metadata.kind {
            FileKind::Directory => {
                if metadata.modified.is_some() {
                    self.tree.hold(&path)?;
                }
                self.folders.remember(&path, metadata.modified);
                if !self.mirror.filter.is_selective() {
                    self.make(&path).await?;
                }
            }
            FileKind::File => {
                if self.make_parent(&path).await? {
                    // A server that tells no size says 0 too: nothing to go by.
                    let size = (metadata.size > 0 || metadata.modified.is_some()).then_some(metadata.size);
                    let fetch = Fetch {
                        remote: named_path(&self.base, name)?,
                        local: path,
                        size,
                        modified: metadata.modified,
                        unix_mode: metadata.unix_mode,
                    };
                    self.downloads.fetch(fetch).await?;
                }
            }
            FileKind::Symlink => self.link(&path, &metadata).await?,
            FileKind::Other => {
                self.job.reporter.warn(format_args!("{path} is a device, a pipe or a socket: left out"));
            }
        }
        Ok(())
    }

    async fn make(&mut self, path: &SafePath) -> Result<bool> {
        match self.folders.make(path).await {
            Ok(Made::Now) => self.job.reporter.done(path.as_bytes(), Action::MadeFolder, 0, 0),
            Ok(Made::Before) => {}
            Err(error) => {
                let no_space = error.exit == Exit::Local && error.why == fs::Why::NoSpace.to_string();
                match no_space {
                    true => self.job.record.fatal(&self.job.reporter, path.as_bytes(), error),
                    false => self.job.record.failed(&self.job.reporter, path.as_bytes(), error),
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether there is a folder for this to go into. Its line came before, or it is made now: with an include, or
    /// from a server that lists carelessly.
    async fn make_parent(&mut self, path: &SafePath) -> Result<bool> {
        match path.parent() {
            Some(parent) if !self.folders.is_there(&parent) => {
                if self.job.record.is_settled(parent.as_bytes()) {
                    // It failed, and was told: so does what is in it.
                    return Ok(false);
                }
                self.make(&parent).await
            }
            _ => Ok(true),
        }
    }

    async fn link(&mut self, path: &SafePath, metadata: &store::Metadata) -> Result<()> {
        let Some(target) = &metadata.target else {
            self.job.reporter.warn(format_args!(
                "{path} is a link, and the server does not tell where it leads: left out"
            ));
            return Ok(());
        };
        if self.job.record.is_settled(path.as_bytes()) || !self.make_parent(path).await? {
            return Ok(());
        }
        let to = PathBuf::from(OsStr::from_bytes(target));
        match self.folders.link(path, to, metadata.modified).await {
            Ok(Linked::Now) => {
                self.job.record.done(path.as_bytes());
                self.job.reporter.done(path.as_bytes(), Action::Linked, 0, 0);
            }
            Ok(Linked::Before) => {}
            Ok(Linked::Refused) => self
                .job
                .reporter
                .warn(format_args!("refused: the link {path} leads out of the tree, to {}", escape(target))),
            Err(error) => self.job.record.failed(&self.job.reporter, path.as_bytes(), error),
        }
        Ok(())
    }

    /// A folder that is not entered: it is there, and what is in it is not known.
    fn too_deep(&mut self, folder: &SafePath, error: Error) {
        if let Some(seen) = &mut self.seen {
            seen.is_there(folder.as_bytes());
        }
        self.hole(folder);
        self.job.record.failed(&self.job.reporter, folder.as_bytes(), error);
    }

    fn hole(&mut self, folder: &SafePath) {
        if let Some(seen) = &mut self.seen {
            seen.has_hole(folder.as_bytes());
        }
    }

    fn bad(&mut self, folder: &SafePath, line: &[u8], why: &str) {
        if self.job.record.is_settled(line) {
            return;
        }
        // Where in the tree the line belongs cannot be told: nothing may be concluded from any folder's.
        match self.seen.as_mut().filter(|_| folder.is_root()) {
            Some(seen) => seen.has_hole_somewhere(),
            None => self.hole(folder),
        }
        self.job.record.failed(&self.job.reporter, line, bad_line(line, why));
    }

    async fn plan(&mut self, path: &SafePath, metadata: &store::Metadata) -> Result<()> {
        let (local, root) = (PathBuf::from(as_path(path)), self.root.clone());
        let there = root.blocking(move |root| root.link_metadata(&local)).await.ok();
        let (action, bytes) = match (metadata.kind, there) {
            (_, None) if path.is_root() => return Ok(()),
            (FileKind::Directory, Some(there)) if there.kind == Kind::Folder => return Ok(()),
            (FileKind::Directory, _) => (Action::MadeFolder, 0),
            (FileKind::File, Some(there))
                if there.kind == Kind::File
                    && there.size == metadata.size
                    && same_time(Some(timestamp(there.modified)), metadata.modified) =>
            {
                return Ok(());
            }
            (FileKind::File, _) => (Action::Received, metadata.size),
            (FileKind::Symlink, _) => (Action::Linked, 0),
            (FileKind::Other, _) => return Ok(()),
        };
        self.job.reporter.plan(path.as_bytes(), action, bytes);
        Ok(())
    }
}

async fn delete_local(root: &Root, seen: &Seen, mirror: &Mirror, job: &Job) -> Result<()> {
    let doomed = delete::doomed(root, seen, &mirror.filter).await.map_err(|error| Error::store(&error))?;
    for (path, kind) in doomed {
        let name = path.as_os_str().as_bytes().to_vec();
        if mirror.delete.is_dry() {
            job.reporter.plan(&name, Action::Deleted, 0);
            continue;
        }
        match root.blocking(move |root| delete::remove(root, &path, &kind)).await {
            Ok(true) => job.reporter.done(&name, Action::Deleted, 0, 0),
            Ok(false) => {}
            Err(error) => job.record.failed(&job.reporter, &name, Error::store(&error)),
        }
    }
    Ok(())
}

/// What the server has, by hash of the path.
#[derive(Debug, Default)]
struct Remote {
    there: HashMap<u128, There, BuildHasherDefault<Ready>>,
    features: Features,
}

#[derive(Debug, Clone, Copy)]
enum There {
    Folder,
    File { size: u64, modified: Option<Timestamp> },
    Link { target: u128 },
    Other,
}

impl Remote {
    fn of(&self, path: &[u8]) -> Option<There> {
        self.there.get(&path_hash(path)).copied()
    }
}

/// One attempt of a mirror to the server.
///
/// # Errors
/// The session has ended, or one of the trees cannot be read. Files that fail are in the job's record.
pub async fn mirror_up(client: Client, job: Job, up: MirrorUp) -> Result<()> {
    let root = Root::open(&up.from).map_err(|error| Error::store(&error))?;
    let mut remote = Remote { features: client.features().await?, ..Remote::default() };
    let base = job.url.path.clone();
    let listed = read_remote(&client, &base, &remote.features, |path, there| {
        remote.there.insert(path_hash(path.as_bytes()), there);
    })
    .await?;
    let dry = up.mirror.delete.is_dry();
    if !listed.base_is_there && !base.is_empty() && !dry {
        super::files::make_folder_and_parents(&client, &base).await?;
    }
    let mut sending = Sending {
        job: &job,
        mirror: &up.mirror,
        base: &base,
        remote,
        uploads: Uploads::new(client.clone(), job.url.clone(), job.reporter.clone(), job.record.clone()),
        root: root.clone(),
        seen: up.mirror.delete.is_on().then(Seen::default),
        is_tcp: client.mode() == Mode::Tcp,
    };
    let result = sending.walk().await;
    let Sending { uploads, seen, remote, .. } = sending;
    job.reporter.expect_no_more();
    let finished = uploads.finish().await;
    result.and(finished)?;
    if let Some(seen) = seen {
        delete_remote(&client, &job, &up.mirror, &base, &seen, &remote.features).await?;
    }
    Ok(())
}

/// How the remote tree was read.
struct ReadRemote {
    base_is_there: bool,
}

/// Lists the remote tree and tells each thing in it, folders before what is in them.
async fn read_remote(
    client: &Client,
    base: &[u8],
    features: &Features,
    mut tell: impl FnMut(&SafePath, There),
) -> Result<ReadRemote> {
    let there = |metadata: &store::Metadata| match metadata.kind {
        FileKind::Directory => There::Folder,
        FileKind::File => There::File { size: metadata.size, modified: metadata.modified },
        FileKind::Symlink => {
            There::Link { target: metadata.target.as_ref().map_or(0, |target| path_hash(target)) }
        }
        FileKind::Other => There::Other,
    };
    let mut read = ReadRemote { base_is_there: true };
    let whole = client.mode() == Mode::Braid;
    let form = if whole { ListForm::Tree } else { folder_form(features) };
    let mut tree = TreeBounds::new(client.bounds());
    let mut waiting: Vec<(SafePath, Unique)> = vec![(SafePath::ROOT, None)];
    tree.hold(&SafePath::ROOT)?;
    while let Some((folder, unique)) = waiting.pop() {
        tree.release(&folder);
        tree.check_depth(&folder)?;
        tree.enter(&folder, unique)?;
        let mut listing = Listing::ask(client, form, remote_path(base, folder.as_bytes())?).await?;
        loop {
            let line = match listing.next().await {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) if error.is_transient() || error.again == Again::Worthwhile => return Err(error),
                Err(_) if folder.is_root() => {
                    read.base_is_there = false;
                    break;
                }
                // What cannot be compared is sent.
                Err(_) => break,
            };
            tree.entry()?;
            let Line::Entry(entry) = line else { continue };
            if entry.path.is_root() {
                continue;
            }
            let path = match whole {
                true => entry.path.clone(),
                false => match entry.path.name().and_then(|name| folder.join(&name).ok()) {
                    Some(path) => path,
                    None => continue,
                },
            };
            tell(&path, there(&entry.metadata));
            if !whole && entry.metadata.kind == FileKind::Directory {
                tree.hold(&path)?;
                waiting.push((path, entry.metadata.unique));
            }
        }
    }
    Ok(read)
}

struct Sending<'a> {
    job: &'a Job,
    mirror: &'a Mirror,
    base: &'a [u8],
    remote: Remote,
    uploads: Uploads,
    root: Root,
    seen: Option<Seen>,
    /// Whether the server may be another's.
    is_tcp: bool,
}

impl Sending<'_> {
    async fn walk(&mut self) -> Result<()> {
        let mut walk = self.root.walk(Path::new("")).await.map_err(|error| Error::store(&error))?;
        if let Some(seen) = &mut self.seen {
            seen.is_whole(b"");
        }
        while let Some(items) = walk.next_chunk().await {
            for item in items {
                match item {
                    WalkItem::Found { path, metadata } => self.found(path, metadata).await?,
                    WalkItem::Unreadable { path, error } => {
                        let name = path.as_os_str().as_bytes();
                        if let Some(seen) = &mut self.seen {
                            seen.has_hole(name);
                        }
                        self.job.record.failed(&self.job.reporter, name, Error::store(&error));
                    }
                }
            }
        }
        Ok(())
    }

    async fn found(&mut self, path: PathBuf, metadata: fs::Metadata) -> Result<()> {
        let name = path.as_os_str().as_bytes();
        if let Some(seen) = &mut self.seen {
            seen.is_there(name);
            if metadata.kind == Kind::Folder {
                seen.is_whole(name);
            }
        }
        let belongs = match metadata.kind {
            Kind::Folder => self.mirror.filter.takes_folder(name),
            _ => self.mirror.filter.takes_file(name),
        };
        if !belongs || self.job.record.is_settled(name) {
            return Ok(());
        }
        let there = self.remote.of(name);
        let dry = self.mirror.delete.is_dry();
        match &metadata.kind {
            Kind::Folder => {
                if matches!(there, Some(There::Folder)) || self.mirror.filter.is_selective() {
                    return Ok(());
                }
                if dry {
                    self.job.reporter.plan(name, Action::MadeFolder, 0);
                    return Ok(());
                }
                self.uploads.make_folder(named_path(self.base, name)?, name).await
            }
            Kind::File => {
                let same = match there {
                    Some(There::File { size, modified }) => {
                        size == metadata.size && same_time(modified, Some(timestamp(metadata.modified)))
                    }
                    _ => false,
                };
                if same {
                    self.job.record.done(name);
                    self.job.reporter.done(name, Action::Skipped, metadata.size, 0);
                    return Ok(());
                }
                if dry {
                    self.job.reporter.plan(name, Action::Sent, metadata.size);
                    return Ok(());
                }
                if self.mirror.filter.is_selective()
                    && let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty())
                {
                    self.make_parents(parent).await?;
                }
                let send = Send {
                    remote: named_path(self.base, name)?,
                    name: name.to_vec(),
                    root: self.root.clone(),
                    size: metadata.size,
                    modified: metadata.modified,
                    local: path,
                };
                self.uploads.send(send, &self.remote.features).await
            }
            Kind::Link(target) => {
                let target = target.as_os_str().as_bytes();
                if matches!(there, Some(There::Link { target: old }) if old == path_hash(target)) {
                    return Ok(());
                }
                if !fs::link_stays_inside(&path, Path::new(OsStr::from_bytes(target))) {
                    self.job.reporter.warn(format_args!(
                        "refused: the link {} leads out of the tree, to {}",
                        escape(name),
                        escape(target)
                    ));
                    return Ok(());
                }
                if dry {
                    self.job.reporter.plan(name, Action::Linked, 0);
                    return Ok(());
                }
                if !self.remote.features.tree && self.is_tcp {
                    // SITE SYMLINK comes with XTREE (specs/ftp-over-sctp.md §8.4); others do not know it.
                    self.job.reporter.warn(format_args!(
                        "{} is a link, which the server cannot make: left out",
                        escape(name)
                    ));
                    return Ok(());
                }
                let command = Command::Site(Site::Symlink(
                    Bytes::copy_from_slice(target),
                    named_path(self.base, name)?,
                ));
                self.uploads.command(command, name, Action::Linked).await
            }
            Kind::Other => {
                self.job
                    .reporter
                    .warn(format_args!("{} is a device, a pipe or a socket: left out", escape(name)));
                Ok(())
            }
        }
    }

    /// The folders above a file, with an include: made when the first file needs them.
    async fn make_parents(&mut self, folder: &Path) -> Result<()> {
        let mut above: Vec<&Path> = folder.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        above.reverse();
        for folder in above {
            let name = folder.as_os_str().as_bytes();
            if !matches!(self.remote.of(name), Some(There::Folder)) {
                self.uploads.make_folder(named_path(self.base, name)?, name).await?;
                self.remote.there.insert(path_hash(name), There::Folder);
            }
        }
        Ok(())
    }
}

async fn delete_remote(
    client: &Client,
    job: &Job,
    mirror: &Mirror,
    base: &[u8],
    seen: &Seen,
    features: &Features,
) -> Result<()> {
    let mut doomed: Vec<(SafePath, bool)> = Vec::new();
    let mut going = Under::default();
    read_remote(client, base, features, |path, there| {
        let name = path.as_bytes();
        let is_folder = matches!(there, There::Folder);
        let below = going.holds(path);
        let belongs =
            if is_folder { mirror.filter.takes_folder(name) } else { mirror.filter.takes_file(name) };
        if belongs && (below || seen.may_go(name)) {
            if is_folder && !below {
                going.insert(path);
            }
            doomed.push((path.clone(), is_folder));
        }
    })
    .await?;
    // Folders were told before what is in them. Commands take effect in their order, so that none waits for the reply before.
    let mut asked = VecDeque::new();
    let mut doomed = doomed.into_iter().rev();
    loop {
        let next = if asked.len() < COMMANDS { doomed.next() } else { None };
        if let Some((path, is_folder)) = next {
            if mirror.delete.is_dry() {
                job.reporter.plan(path.as_bytes(), Action::Deleted, 0);
                continue;
            }
            let remote = named_path(base, path.as_bytes())?;
            let command = if is_folder { Command::RemoveDirectory(remote) } else { Command::Delete(remote) };
            asked.push_back((path, is_folder, client.begin_command(command).await?));
            continue;
        }
        let Some((path, is_folder, reply)) = asked.pop_front() else { break };
        let reply = client.reply(reply).await?;
        match reply.code.is_error() {
            false => job.reporter.done(path.as_bytes(), Action::Deleted, 0, 0),
            // A folder with something excluded in it stays.
            true if is_folder => job.reporter.warn(format_args!("{path} was not deleted: {reply}")),
            true => {
                let error = crate::client::of_write_reply(&format!("delete {path}"), &reply);
                job.record.failed(&job.reporter, path.as_bytes(), error);
            }
        }
    }
    Ok(())
}
