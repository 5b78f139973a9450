//! Downloads a tree.
//!
//! In braid one command lists the whole tree, and files are requested while the listing arrives. In other
//! modes folders are listed one by one (MLSD; LIST if there is no MLSD), and the files of a folder are
//! fetched before the next folder is listed; ms-cp lists all folders first, and then requests all files at
//! once.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::hash::BuildHasherDefault;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braidftp_ftp::client::ListForm;
use braidftp_ftp::listing::{Entry, Gap, Listed};
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::FileKind;
use braidftp_ftp::{SafePath, store};

use super::bounds::{TreeBounds, Unique, depth};
use super::delete::{self, Seen};
use super::digests::Digests;
use super::download::{Ahead, Downloads, Fetch, Have, LOOK_AHEAD, Wanted, as_path};
use super::hard_links::{self, Names};
use super::journal;
use super::listing::{Line, Listing, bad_line, folder_form, missing};
use super::local::{Folders, InTheWay, Linked, Made};
use super::mirror::{DEVICE, Delete, Mirror, leads_out};
use super::plan::{Facts, Plan};
use super::{Job, Ready, named_path, path_hash, remote_path};
use crate::client::{Client, LISTING_AHEAD_BYTES, LISTING_QUEUE_BYTES, timestamp};
use crate::exit::{Error, Exit, Result};
use crate::report::Action;
use crate::store::fs::{self, Kind, Root};

/// A mirror from the server.
#[derive(Debug, Clone)]
pub struct MirrorDown {
    /// The settings common to both directions.
    pub mirror: Mirror,
    /// The local folder; created if it does not exist.
    pub to: PathBuf,
}

/// One attempt of a mirror from the server.
///
/// # Errors
/// The session has ended, or the tree cannot be listed. Files that fail are in the job's record.
pub async fn mirror_down(client: Client, job: Job, down: MirrorDown) -> Result<()> {
    if down.mirror.plan.is_looking() {
        let look = MirrorDown { mirror: down.mirror.dry(), to: down.to.clone() };
        once(client.clone(), job.clone(), look).await?;
    }
    once(client, job, down).await
}

async fn once(client: Client, job: Job, down: MirrorDown) -> Result<()> {
    if down.mirror.delete.is_dry() {
        down.mirror.plan.begin()?;
    }
    job.record.resume(client.bounds(), async { Ok(journal::is_gone(&down.to)) }).await?;
    if !down.mirror.delete.is_dry() {
        std::fs::create_dir_all(&down.to)
            .map_err(|e| Error::local(format_args!("make {}", down.to.display()), &e))?;
    }
    let root = match Root::open(&down.to) {
        Ok(root) => root,
        // A dry run into a folder that does not exist compares with an empty one.
        Err(_) if down.mirror.delete.is_dry() => {
            let empty = tempfile::tempdir().map_err(|e| Error::local("make a temporary folder", &e))?;
            Root::open(empty.path()).map_err(|e| Error::store(&e))?
        }
        Err(error) => return Err(Error::store(&error)),
    };
    let is_new = std::fs::read_dir(&down.to).is_ok_and(|mut entries| entries.next().is_none());
    let in_the_way = match down.mirror.delete {
        Delete::Yes => InTheWay::Delete,
        _ => InTheWay::Keep,
    };
    let digests = match down.mirror.compare.contents {
        true => Some(Digests::begin(&client, &root).await?),
        false => None,
    };
    let mut tree = Down {
        base: job.url.path.clone(),
        downloads: Downloads::new(client.clone(), root.clone(), job.reporter.clone(), job.record.clone())
            .holes(down.mirror.keep.holes),
        folders: Folders::new(root.clone(), in_the_way),
        seen: down.mirror.delete.is_on().then(Seen::default),
        mirror: down.mirror,
        tree: TreeBounds::new(client.bounds()),
        later: Vec::new(),
        digests,
        names: Names::default(),
        is_new,
        first: VecDeque::new(),
        job,
        root,
    };
    let when = if tree.digests.is_some() { When::Later } else { When::Now };
    let result = match client.mode() {
        Mode::Braid => tree.whole(&client).await,
        Mode::MsCp => tree.by_folders(&client, ListForm::Facts, When::Later).await,
        Mode::Naive | Mode::Ms => tree.by_folders(&client, ListForm::Facts, when).await,
        Mode::Tcp => {
            let form = folder_form(&client.features().await?);
            let when = if when == When::Now { When::Behind } else { when };
            tree.by_folders(&client, form, when).await
        }
    };
    let result = match result {
        Ok(()) => tree.fetch_later().await,
        error => error,
    };
    // Waits for everything that was begun, even if the listing was aborted, so that received bytes are
    // stored.
    let Down { downloads, mut folders, seen, mirror, job, root, names, .. } = tree;
    job.reporter.expect_no_more();
    let finished = downloads.finish().await;
    result.and(finished)?;
    mirror.report_missing(&job);
    hard_links::make(&job, &mut folders, names.others).await;
    if let Some(seen) = seen {
        delete_local(&root, &seen, &mirror, &job).await?;
    }
    if mirror.delete.is_dry() {
        return mirror.plan.finish();
    }
    folders.set_facts().await;
    Ok(())
}

/// When files are requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    Now,
    Later,
    /// When the listing of their folder has arrived, while the next folders are listed.
    Behind,
}

/// The maximum number of listings requested ahead.
const LISTED_AHEAD: usize = LISTING_QUEUE_BYTES / LISTING_AHEAD_BYTES;
/// The maximum number of files of a folder that wait while the folder is still being listed.
const KEPT_FILES: usize = 4_096;

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
    /// Compares contents, if requested.
    digests: Option<Digests>,
    names: Names<SafePath>,
    /// Whether the local folder was empty.
    is_new: bool,
    /// The first files that the listing will name, and that were requested with it.
    first: VecDeque<Ahead>,
}

/// What is known of a file before its line is processed.
#[derive(Debug, Default)]
struct Known {
    /// The result of [`Down::look_ahead`].
    have: Option<Have>,
    /// The transfer, if it was requested.
    ahead: Option<Ahead>,
}

/// A file to request when all folders are listed. Small, because there may be many.
struct Later {
    path: SafePath,
    size: u64,
    modified: Option<Timestamp>,
    unix_mode: Option<u32>,
    /// Only if hard links are kept.
    unique: Option<Box<(u64, u64)>>,
}

impl Down {
    /// braid: one listing of the whole tree.
    async fn whole(&mut self, client: &Client) -> Result<()> {
        let mut listing = Listing::ask_once(
            client,
            ListForm::Tree,
            remote_path(&self.base, b"")?,
            self.job.record.journal(),
        )
        .await?;
        if listing.is_requested() && self.fetches_everything() {
            self.first = self.downloads.request_first().await?;
        }
        loop {
            let lines = listing.next_lines(LOOK_AHEAD).await?;
            if lines.is_empty() {
                return Ok(());
            }
            let files = lines.iter().map(|line| match line {
                Line::Entry(entry) => Some((&entry.path, &entry.metadata)),
                Line::Bad(..) => None,
            });
            let have = self.look_ahead(files).await?;
            for (line, have) in lines.into_iter().zip(have) {
                self.tree.entry()?;
                self.tree_line(line, have).await?;
            }
        }
    }

    /// Whether every file of the tree is fetched, whatever its name.
    fn fetches_everything(&self) -> bool {
        let Mirror { filter, delete, keep, plan, .. } = &self.mirror;
        self.is_new
            && self.digests.is_none()
            && filter.takes_everything()
            && !delete.is_dry()
            && !keep.hard_links
            && matches!(plan, Plan::None)
    }

    async fn tree_line(&mut self, line: Line, have: Option<Have>) -> Result<()> {
        match line {
            Line::Bad(line, why) => {
                // The server may have counted it as a file.
                self.first.clear();
                self.bad(&SafePath::ROOT, &line, &why);
            }
            Line::Entry(entry) => {
                let is_file = entry.metadata.kind == FileKind::File && !entry.path.is_root();
                // Dropped if the file is not fetched.
                let ahead = if is_file { self.first.pop_front() } else { None };
                let is_folder = entry.metadata.kind == FileKind::Directory;
                let folder = if is_folder { Some(entry.path.clone()) } else { entry.path.parent() };
                if let Some(Err(error)) = folder.map(|folder| self.tree.check_depth(&folder)) {
                    // Reported once, for the topmost folder that is too deep.
                    if depth(&entry.path) == self.job.options.bounds.max_depth + 1 {
                        self.too_deep(&entry.path, error);
                    }
                    return Ok(());
                }
                if is_folder && let Some(seen) = &mut self.seen {
                    seen.is_whole(entry.path.as_bytes());
                }
                self.entry(*entry, Known { have, ahead }).await?;
            }
        }
        Ok(())
    }

    /// Examines the local state of the files among these together; `None` for all others, and for those that need nothing. A folder
    /// created by this run contains none of them.
    async fn look_ahead(
        &self,
        entries: impl ExactSizeIterator<Item = Option<(&SafePath, &store::Metadata)>>,
    ) -> Result<Vec<Option<Have>>> {
        let mut have = vec![None; entries.len()];
        if self.mirror.delete.is_dry() && self.digests.is_none() {
            return Ok(have);
        }
        let (mut files, mut places) = (Vec::new(), Vec::new());
        for (entry, place) in entries.zip(&mut have) {
            let Some((path, metadata)) = entry else { continue };
            if metadata.kind != FileKind::File
                || !self.mirror.filter.takes_file(path.as_bytes())
                || self.job.record.is_settled(path.as_bytes())
            {
                continue;
            }
            if path.parent().is_some_and(|folder| self.folders.is_new(&folder)) {
                *place = Some(Have::Nothing);
                continue;
            }
            let size = (metadata.size > 0 || metadata.modified.is_some()).then_some(metadata.size);
            let facts = size.zip(metadata.modified);
            let wanted = Wanted { facts, mode: self.kept_mode(metadata), compare: self.mirror.compare };
            files.push((path.clone(), wanted));
            places.push(place);
        }
        let digests = self.digests.as_ref().map(|digests| (digests, &self.base[..]));
        let found = self.downloads.look_ahead(files, digests).await?;
        for (place, found) in places.into_iter().zip(found) {
            *place = found;
        }
        Ok(have)
    }

    /// One listing per folder.
    async fn by_folders(&mut self, client: &Client, form: ListForm, when: When) -> Result<()> {
        let mut waiting: Vec<(SafePath, Unique)> = vec![(SafePath::ROOT, None)];
        let mut ahead: HashMap<u128, Listing, BuildHasherDefault<Ready>> = HashMap::default();
        self.tree.hold(&SafePath::ROOT)?;
        while let Some((folder, unique)) = waiting.pop() {
            self.tree.release(&folder);
            let asked = ahead.remove(&path_hash(folder.as_bytes()));
            let may_enter = self.tree.check_depth(&folder).and_then(|()| self.tree.enter(&folder, unique));
            if let Err(error) = may_enter {
                self.too_deep(&folder, error);
                continue;
            }
            let path = remote_path(&self.base, folder.as_bytes())?;
            let mut listing = match asked {
                Some(listing) => listing,
                None => Listing::ask(client, form, path).await?,
            };
            let mut below = Vec::new();
            loop {
                let line = match listing.next().await {
                    Ok(Some(line)) => line,
                    Ok(None) => {
                        if folder.is_root() {
                            listing.check_folder(client, &self.base).await?;
                        }
                        if let Some(seen) = &mut self.seen {
                            seen.is_whole(folder.as_bytes());
                        }
                        break;
                    }
                    Err(error) if folder.is_root() || error.is_transient() => return Err(error),
                    Err(error) => {
                        // A folder that cannot be listed is one failure; the others continue.
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
                let Some(path) = self.path_in(&folder, &entry) else { continue };
                let is_folder = entry.metadata.kind == FileKind::Directory;
                if is_folder && self.mirror.filter.takes_folder(path.as_bytes()) {
                    self.tree.hold(&path)?;
                    below.push((path.clone(), entry.metadata.unique));
                }
                if !is_folder && when != When::Now && entry.metadata.kind == FileKind::File {
                    self.tree.hold(&path)?;
                    let store::Metadata { size, modified, unix_mode, unique, .. } = entry.metadata;
                    let unique = unique.filter(|_| self.mirror.keep.hard_links).map(Box::new);
                    self.later.push(Later { path, size, modified, unix_mode, unique });
                    // After a listing on the only session they would wait for an unread listing.
                    let is_much = self.later.len() >= KEPT_FILES && client.has_lane_without_listing();
                    if when == When::Behind && is_much {
                        self.fetch_later().await?;
                    }
                    continue;
                }
                self.entry(Entry { path, ..entry }, Known::default()).await?;
            }
            // Depth first, in the order of the listing.
            waiting.extend(below.into_iter().rev());
            if when == When::Behind {
                self.list_ahead(client, form, &waiting, &mut ahead).await?;
                self.fetch_later().await?;
            }
        }
        Ok(())
    }

    /// The path of an entry of a folder's listing; `None` for the folder itself, or for an invalid name.
    fn path_in(&mut self, folder: &SafePath, entry: &Entry) -> Option<SafePath> {
        // `cdir`, the folder itself.
        let Some(name) = entry.path.name() else {
            self.tree.identify(entry.metadata.unique);
            if folder.is_root() {
                let mode = self.kept_mode(&entry.metadata);
                self.folders.remember(folder, entry.metadata.modified, mode);
            }
            if let Listed::Incomplete(gap) = &entry.listed {
                self.missing(folder, gap);
            }
            return None;
        };
        match folder.join(&name) {
            Ok(path) if entry.path.as_bytes() == name.as_bytes() => Some(path),
            Ok(_) => {
                self.bad(folder, entry.path.as_bytes(), "a name in a folder's listing contains a slash");
                None
            }
            Err(error) => {
                self.bad(folder, entry.path.as_bytes(), &error.to_string());
                None
            }
        }
    }

    /// Requests the listings of the next folders, as far as sessions are available.
    async fn list_ahead(
        &self,
        client: &Client,
        form: ListForm,
        waiting: &[(SafePath, Unique)],
        ahead: &mut HashMap<u128, Listing, BuildHasherDefault<Ready>>,
    ) -> Result<()> {
        for (folder, unique) in waiting.iter().rev().take(LISTED_AHEAD) {
            let key = path_hash(folder.as_bytes());
            if ahead.len() >= LISTED_AHEAD {
                return Ok(());
            }
            let may_enter =
                self.tree.check_depth(folder).is_ok() && !self.tree.is_own_ancestor(folder, *unique);
            if ahead.contains_key(&key) || !may_enter {
                continue;
            }
            let path = remote_path(&self.base, folder.as_bytes())?;
            let Some(listing) = Listing::ask_ahead(client, form, path).await? else { return Ok(()) };
            ahead.insert(key, listing);
        }
        Ok(())
    }

    /// Requests the files that were waiting.
    async fn fetch_later(&mut self) -> Result<()> {
        let mut later = std::mem::take(&mut self.later).into_iter();
        loop {
            let files: Vec<(SafePath, store::Metadata)> = later
                .by_ref()
                .take(LOOK_AHEAD)
                .map(|Later { path, size, modified, unix_mode, unique }| {
                    let facts = store::Metadata::new(FileKind::File, size);
                    let unique = unique.map(|unique| *unique);
                    (path, store::Metadata { modified, unix_mode, unique, ..facts })
                })
                .collect();
            if files.is_empty() {
                return Ok(());
            }
            // Folders created by this run need no check; files in others are checked together.
            let have = self.look_ahead(files.iter().map(|(path, metadata)| Some((path, metadata)))).await?;
            for ((path, metadata), have) in files.into_iter().zip(have) {
                self.tree.release(&path);
                let known = Known { have, ahead: None };
                self.entry(Entry { path, metadata, listed: Listed::Whole }, known).await?;
            }
        }
    }

    /// Processes one entry of the tree.
    async fn entry(&mut self, entry: Entry, known: Known) -> Result<()> {
        let Entry { path, metadata, listed } = entry;
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
        self.mirror.filter.found(name);
        if let Listed::Incomplete(gap) = &listed {
            self.missing(&path, gap);
            if gap.name.is_some() {
                // The folder has its own line with its facts.
                return Ok(());
            }
        }
        let belongs = match metadata.kind {
            FileKind::Directory => self.mirror.filter.takes_folder(name),
            _ => self.mirror.filter.takes_file(name),
        };
        if !belongs {
            return Ok(());
        }
        if let Some(first) = self.first_name(&path, &metadata)? {
            return self.other_name(path, first).await;
        }
        if let Some(why) = self.why_left_out(&path, &metadata) {
            self.job.record.left_out(&self.job.reporter, name, why);
            return Ok(());
        }
        if self.mirror.delete.is_dry() {
            return self.plan(&path, &metadata, known.have).await;
        }
        let may_touch = match self.mirror.plan.allows(name, &self.facts(&metadata)) {
            Ok(may_touch) => may_touch,
            Err(error) => {
                self.job.record.failed(&self.job.reporter, name, error);
                return Ok(());
            }
        };
        if !may_touch {
            if metadata.kind == FileKind::Directory && metadata.modified.is_some() {
                self.tree.hold(&path)?;
                self.folders.remember(&path, metadata.modified, None);
            }
            return Ok(());
        }
        self.carry_out(path, &metadata, known).await
    }

    /// Makes the folder, fetches the file or makes the link of this entry.
    async fn carry_out(&mut self, path: SafePath, metadata: &store::Metadata, known: Known) -> Result<()> {
        match metadata.kind {
            FileKind::Directory => {
                if metadata.modified.is_some() {
                    self.tree.hold(&path)?;
                }
                self.folders.remember(&path, metadata.modified, self.kept_mode(metadata));
                if !self.mirror.filter.is_selective() {
                    self.make(&path).await?;
                }
            }
            FileKind::File => {
                if self.make_parent(&path).await? {
                    // A server that does not know the size also reports 0, so 0 says nothing.
                    let size = (metadata.size > 0 || metadata.modified.is_some()).then_some(metadata.size);
                    let fetch = Fetch {
                        remote: named_path(&self.base, path.as_bytes())?,
                        local: path,
                        size,
                        modified: metadata.modified,
                        unix_mode: self.kept_mode(metadata),
                        compare: self.mirror.compare,
                    };
                    self.downloads.fetch_rest(fetch, known.have, known.ahead).await?;
                }
            }
            FileKind::Symlink if self.mirror.keep.links => self.link(&path, metadata).await?,
            FileKind::Symlink | FileKind::Other => {}
        }
        Ok(())
    }

    /// Why this entry cannot be mirrored, also in a dry run.
    fn why_left_out(&self, path: &SafePath, metadata: &store::Metadata) -> Option<String> {
        match (metadata.kind, &metadata.target) {
            (FileKind::Other, _) => Some(DEVICE.to_owned()),
            (FileKind::Symlink, _) if !self.mirror.keep.links => None,
            (FileKind::Symlink, None) => {
                Some("it is a link, and the server does not report its target".to_owned())
            }
            (FileKind::Symlink, Some(target)) => {
                let is_inside = fs::link_stays_inside(as_path(path), Path::new(OsStr::from_bytes(target)));
                (!is_inside).then(|| leads_out(target))
            }
            (FileKind::File | FileKind::Directory, _) => None,
        }
    }

    /// The name under which the same file was listed before, if hard links are kept.
    fn first_name(&mut self, path: &SafePath, metadata: &store::Metadata) -> Result<Option<Arc<[u8]>>> {
        let is_file = metadata.kind == FileKind::File && self.mirror.keep.hard_links;
        let Some(identity) = metadata.unique.filter(|_| is_file) else { return Ok(None) };
        self.tree.hold(path)?;
        Ok(self.names.first(identity, path.as_bytes()))
    }

    /// Processes another name of a file.
    async fn other_name(&mut self, path: SafePath, first: Arc<[u8]>) -> Result<()> {
        let facts = Facts { target: Some(first.to_vec()), ..Facts::default() };
        if self.mirror.delete.is_dry() {
            return self.plan_name(&path, &first, &facts).await;
        }
        match self.mirror.plan.allows(path.as_bytes(), &facts) {
            Ok(true) => self.names.others.push((path, first)),
            Ok(false) => {}
            Err(error) => self.job.record.failed(&self.job.reporter, path.as_bytes(), error),
        }
        Ok(())
    }

    async fn plan_name(&self, path: &SafePath, first: &[u8], facts: &Facts) -> Result<()> {
        let paths = [as_path(path).to_owned(), PathBuf::from(OsStr::from_bytes(first))];
        let [there, file] =
            self.root.blocking(move |root| paths.map(|path| root.link_metadata(&path).ok())).await;
        let is_same = |a: &fs::Metadata, b: &fs::Metadata| a.kind == Kind::File && a.identity == b.identity;
        let is_there = !self.names.is_replaced(first)
            && there.as_ref().zip(file.as_ref()).is_some_and(|(there, file)| is_same(there, file));
        let was = was(there.as_ref());
        match is_there {
            true => self.mirror.plan.found(path.as_bytes(), None, facts, &was),
            false => self.mirror.planned(&self.job, path.as_bytes(), Action::HardLinked, facts, &was),
        }
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

    /// Whether the parent folder exists. Its line came before, or the folder is created now: with an include,
    /// or if the server's order is wrong.
    async fn make_parent(&mut self, path: &SafePath) -> Result<bool> {
        match path.parent() {
            Some(parent) if !self.folders.is_there(&parent) => {
                if self.job.record.is_settled(parent.as_bytes()) {
                    // It failed and was reported, so its contents fail too.
                    return Ok(false);
                }
                self.make(&parent).await
            }
            _ => Ok(true),
        }
    }

    async fn link(&mut self, path: &SafePath, metadata: &store::Metadata) -> Result<()> {
        let Some(target) = &metadata.target else { return Ok(()) };
        if self.job.record.is_settled(path.as_bytes()) || !self.make_parent(path).await? {
            return Ok(());
        }
        let to = PathBuf::from(OsStr::from_bytes(target));
        match self.folders.link(path, to, metadata.modified).await {
            Ok(Linked::Now) => {
                self.job.record.finished(path.as_bytes());
                self.job.reporter.done(path.as_bytes(), Action::Linked, 0, 0);
            }
            Ok(Linked::Before) => {}
            Ok(Linked::Refused) => {
                self.job.record.left_out(&self.job.reporter, path.as_bytes(), leads_out(target));
            }
            Err(error) => self.job.record.failed(&self.job.reporter, path.as_bytes(), error),
        }
        Ok(())
    }

    /// Records a folder that is too deep: it exists, with unknown contents.
    fn too_deep(&mut self, folder: &SafePath, error: Error) {
        if let Some(seen) = &mut self.seen {
            seen.is_there(folder.as_bytes());
        }
        self.hole(folder);
        self.job.record.failed(&self.job.reporter, folder.as_bytes(), error);
    }

    /// The mode of a file or folder here.
    fn kept_mode(&self, metadata: &store::Metadata) -> Option<u32> {
        metadata.unix_mode.filter(|_| self.mirror.keep.permissions)
    }

    /// Records an entry that is missing in a folder's listing.
    fn missing(&mut self, folder: &SafePath, gap: &Gap) {
        self.hole(folder);
        let (path, error) = missing(folder, gap);
        if self.mirror.filter.takes_file(&path) {
            self.job.record.failed(&self.job.reporter, &path, error);
        }
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
        // The folder of the line is unknown, so no listing may be taken as complete.
        match self.seen.as_mut().filter(|_| folder.is_root()) {
            Some(seen) => seen.has_hole_somewhere(),
            None => self.hole(folder),
        }
        self.job.record.failed(&self.job.reporter, line, bad_line(line, why));
    }

    /// The facts of a path on the server, for a plan.
    fn facts(&self, metadata: &store::Metadata) -> Facts {
        match metadata.kind {
            FileKind::File => Facts {
                size: Some(metadata.size),
                time: metadata.modified,
                mode: self.kept_mode(metadata).map(|mode| mode & 0o7777),
                target: None,
            },
            FileKind::Symlink => {
                Facts { target: metadata.target.as_ref().map(|target| target.to_vec()), ..Facts::default() }
            }
            FileKind::Directory | FileKind::Other => Facts::default(),
        }
    }

    async fn plan(&mut self, path: &SafePath, metadata: &store::Metadata, have: Option<Have>) -> Result<()> {
        let (local, root) = (PathBuf::from(as_path(path)), self.root.clone());
        let there = root.blocking(move |root| root.link_metadata(&local)).await.ok();
        if path.is_root() && there.is_none() {
            return Ok(());
        }
        let (facts, was) = (self.facts(metadata), was(there.as_ref()));
        let action = self.what_to_do(metadata, there, have);
        if self.mirror.keep.hard_links && action == Some(Action::Received) {
            self.names.replace(path.as_bytes());
        }
        match action {
            Some(action) => self.mirror.planned(&self.job, path.as_bytes(), action, &facts, &was),
            None => self.mirror.plan.found(path.as_bytes(), None, &facts, &was),
        }
    }

    /// The action for an entry, if any.
    fn what_to_do(
        &self,
        metadata: &store::Metadata,
        there: Option<fs::Metadata>,
        have: Option<Have>,
    ) -> Option<Action> {
        match (metadata.kind, there) {
            (FileKind::Directory, Some(there)) if there.kind == Kind::Folder => None,
            (FileKind::Directory, _) => Some(Action::MadeFolder),
            (FileKind::File, Some(_)) if self.digests.is_some() => match have {
                Some(Have::Whole) => None,
                Some(Have::ButFacts | Have::ButMode) => Some(Action::SetTime),
                Some(Have::Nothing | Have::Part(_)) | None => Some(Action::Received),
            },
            (FileKind::File, Some(there))
                if metadata.modified.is_some_and(|modified| {
                    let facts = Some((metadata.size, modified));
                    Wanted { facts, mode: None, compare: self.mirror.compare }.is(&there)
                }) =>
            {
                match self.kept_mode(metadata) {
                    Some(mode) if mode & 0o777 != there.mode & 0o777 => Some(Action::SetMode),
                    _ => None,
                }
            }
            (FileKind::File, _) => Some(Action::Received),
            (FileKind::Symlink, _) if !self.mirror.keep.links => None,
            (FileKind::Symlink, there) => {
                let target = metadata.target.as_ref().map(|target| PathBuf::from(OsStr::from_bytes(target)));
                match (there.map(|there| there.kind), target) {
                    (Some(Kind::Link(there)), Some(target)) if there == target => None,
                    _ => Some(Action::Linked),
                }
            }
            (FileKind::Other, _) => None,
        }
    }
}

/// The local state of a destination, for a plan.
fn was(there: Option<&fs::Metadata>) -> String {
    match there.map(|there| (&there.kind, there)) {
        None => "missing".into(),
        Some((Kind::File, there)) => format!("file {} {}", there.size, timestamp(there.modified)),
        Some((Kind::Folder, _)) => "folder".into(),
        Some((Kind::Link(_), _)) => "link".into(),
        Some((Kind::Other, _)) => "other".into(),
    }
}

async fn delete_local(root: &Root, seen: &Seen, mirror: &Mirror, job: &Job) -> Result<()> {
    let mut doomed =
        delete::doomed(root, seen, &mirror.filter).await.map_err(|error| Error::store(&error))?;
    if !mirror.delete.is_dry() {
        doomed.retain(|(path, _)| mirror.plan.allows_to_delete(path.as_os_str().as_bytes()));
    }
    if let Err(error) = mirror.check_deletions(doomed.len()) {
        job.record.failed(&job.reporter, b"", error);
        return Ok(());
    }
    for (path, kind) in doomed {
        let name = path.as_os_str().as_bytes().to_vec();
        if mirror.delete.is_dry() {
            let was = if kind == Kind::Folder { "folder" } else { "there" };
            mirror.planned(job, &name, Action::Deleted, &Facts::default(), was)?;
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
