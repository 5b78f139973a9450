//! Uploads a tree: lists the remote tree, then walks the local one, creates folders and sends files in the
//! order of the walk. Entries that only the server has are deleted at the end, if requested.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::BuildHasherDefault;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braidftp_ftp::client::{Features, ListForm};
use braidftp_ftp::command::{Command, Site};
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::FileKind;
use braidftp_ftp::{Code, SafePath, store};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::bounds::{TreeBounds, Under, Unique};
use super::compare::Compare;
use super::delete::Seen;
use super::digests::{Digests, Pair};
use super::hard_links::{Names, without_file};
use super::journal::Journal;
use super::listing::{Line, Listing, folder_form, line_end_in_name};
use super::mirror::{DEVICE, Mirror, leads_out};
use super::plan::Facts;
use super::upload::{Send, Uploads};
use super::{Job, Ready, named_path, path_hash, remote_path};
use crate::client::{Client, same_time, timestamp};
use crate::exit::{Again, Error, Result, escape};
use crate::report::Action;
use crate::store::fs::{self, Kind, Root, WalkItem};

/// The maximum number of outstanding DELE and RMD commands.
const COMMANDS: usize = 256;
/// The maximum number of chunks of the local tree that wait to be compared, each a few hundred entries: some
/// 100,000 entries, of about 200 bytes each.
const CHUNKS_AHEAD: usize = 400;
/// The usual modes of files and folders, which are left to the server's umask.
const USUAL_MODES: (u32, u32) = (0o644, 0o755);

/// Replies of a server that does not know SITE HARDLINK, or cannot link these two paths.
const NO_SUCH_COMMAND: [Code; 4] =
    [Code::SYNTAX_ERROR, Code::BAD_PARAMETER, Code::NOT_IMPLEMENTED, Code::NOT_FOR_THAT_PARAMETER];

/// The permission bits that the owner needs to write into a folder.
const OWNER: u32 = 0o700;

/// A mirror to the server.
#[derive(Debug, Clone)]
pub struct MirrorUp {
    /// The settings common to both directions.
    pub mirror: Mirror,
    /// The local folder.
    pub from: PathBuf,
}

/// The tree on the server.
#[derive(Debug, Default)]
struct Remote {
    /// What the server listed, sorted by the hash of the path. A hash map would need three times the memory
    /// while it grows.
    listed: Vec<(Hash, There)>,
    /// Folders created since, by the hash of the path.
    made: HashSet<u128, BuildHasherDefault<Ready>>,
    /// The identities of files, by the hash of the path; only if hard links are kept.
    identities: HashMap<u128, (u64, u64), BuildHasherDefault<Ready>>,
    features: Features,
}

/// A path's hash in two halves: with a `u128`, which is aligned to 16 bytes, an entry of `Remote` takes an eighth more.
type Hash = [u64; 2];

fn halves(hash: u128) -> Hash {
    [(hash >> 64) as u64, hash as u64]
}

#[derive(Debug, Clone, Copy)]
enum There {
    Folder { mode: Option<u32> },
    File { size: u64, modified: Option<Timestamp>, mode: Option<u32> },
    Link { target: Hash },
    Other,
}

impl Remote {
    fn of_listed(mut listed: Vec<(Hash, There)>) -> Self {
        listed.sort_unstable_by_key(|(path, _)| *path);
        Self { listed, ..Self::default() }
    }

    fn of(&self, path: &[u8]) -> Option<There> {
        let path = path_hash(path);
        match self.listed.binary_search_by_key(&halves(path), |(listed, _)| *listed) {
            Ok(at) => Some(self.listed[at].1),
            Err(_) => self.made.contains(&path).then_some(There::Folder { mode: None }),
        }
    }

    /// Whether both are names of one file, as far as the server says.
    fn are_one(&self, first: &[u8], other: &[u8]) -> bool {
        let identity = |path| self.identities.get(&path_hash(path));
        identity(first).is_some_and(|first| identity(other) == Some(first))
    }
}

/// One attempt of a mirror to the server.
///
/// # Errors
/// The session has ended, or one of the trees cannot be read. Files that fail are in the job's record.
pub async fn mirror_up(client: Client, job: Job, up: MirrorUp) -> Result<()> {
    if up.mirror.plan.is_looking() {
        let look = MirrorUp { mirror: up.mirror.dry(), from: up.from.clone() };
        once(client.clone(), job.clone(), look).await?;
    }
    once(client, job, up).await
}

async fn once(client: Client, job: Job, up: MirrorUp) -> Result<()> {
    if up.mirror.delete.is_dry() {
        up.mirror.plan.begin()?;
    }
    let root = Root::open(&up.from).map_err(|error| Error::store(&error))?;
    // Read while the server lists its tree.
    let local = walk_ahead(&root).await?;
    let (features, mut listed) = (client.features().await?, Vec::new());
    let Compare { times, newer, contents } = up.mirror.compare;
    if !features.mfmt && times && !newer && !contents {
        job.reporter.warn(
            "the server cannot set the time of a file (MFMT): the next run of this command sends all files again; --size-only, --newer or \
             --checksum avoid that",
        );
    }
    let mut identities = HashMap::default();
    let base = job.url.path.clone();
    job.record.resume(client.bounds(), is_gone(&client, &base, &features)).await?;
    let read = read_remote(&client, &base, &features, job.record.journal(), |path, there, unique| {
        let path = path_hash(path.as_bytes());
        if let (There::File { .. }, Some(identity), true) = (there, unique, up.mirror.keep.hard_links) {
            identities.insert(path, identity);
        }
        listed.push((halves(path), there));
    })
    .await?;
    let remote = Remote { features, identities, ..Remote::of_listed(listed) };
    let dry = up.mirror.delete.is_dry();
    if !read.base_is_there && !base.is_empty() && !dry {
        super::files::make_folder_and_parents(&client, &base).await?;
    }
    let digests = match up.mirror.compare.contents {
        true => Some(Digests::begin(&client, &root).await?),
        false => None,
    };
    let mut sending = Sending {
        client: &client,
        job: &job,
        mirror: &up.mirror,
        base: &base,
        remote,
        uploads: Uploads::new(client.clone(), job.url.clone(), job.reporter.clone(), job.record.clone()),
        root: root.clone(),
        seen: up.mirror.delete.is_on().then(Seen::default),
        is_tcp: client.mode() == Mode::Tcp,
        has_sessions: client.parallel() > 1,
        modes: Vec::new(),
        digests,
        same: HashSet::default(),
        names: Names::default(),
    };
    let result = async {
        sending.walk(local).await?;
        sending.make_names().await?;
        sending.set_modes().await
    };
    let result = result.await;
    let Sending { uploads, seen, remote, .. } = sending;
    job.reporter.expect_no_more();
    let finished = uploads.finish().await;
    result.and(finished)?;
    up.mirror.report_missing(&job);
    if let Some(seen) = seen {
        delete_remote(&client, &job, &up.mirror, &base, &seen, &remote.features).await?;
    }
    if dry { up.mirror.plan.finish() } else { Ok(()) }
}

/// Walks the local tree, at most [`CHUNKS_AHEAD`] ahead of the receiver.
async fn walk_ahead(root: &Root) -> Result<mpsc::Receiver<Vec<WalkItem>>> {
    let mut walk = root.walk(Path::new("")).await.map_err(|error| Error::store(&error))?;
    let (tell, chunks) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        while let Some(items) = walk.next_chunk().await {
            if tell.send(items).await.is_err() {
                return;
            }
        }
    });
    Ok(chunks)
}

/// Whether the destination on the server is missing or empty.
async fn is_gone(client: &Client, base: &[u8], features: &Features) -> Result<bool> {
    let mut listing = Listing::ask(client, folder_form(features), remote_path(base, b"")?).await?;
    let mut is_empty = true;
    // Read to its end: a listing cannot be aborted cheaply.
    loop {
        match listing.next().await {
            Ok(Some(Line::Entry(entry))) => is_empty &= entry.path.is_root(),
            Ok(Some(Line::Bad(..))) => is_empty = false,
            Ok(None) => return Ok(is_empty),
            Err(error) if error.is_transient() || error.again == Again::Worthwhile => return Err(error),
            Err(_) => return Ok(true),
        }
    }
}

/// The result of reading the remote tree.
struct ReadRemote {
    base_is_there: bool,
}

/// Lists the remote tree and passes each entry on, folders before their contents.
async fn read_remote(
    client: &Client,
    base: &[u8],
    features: &Features,
    journal: Option<Journal>,
    mut tell: impl FnMut(&SafePath, There, Unique),
) -> Result<ReadRemote> {
    let there = |metadata: &store::Metadata| match metadata.kind {
        FileKind::Directory => There::Folder { mode: metadata.unix_mode },
        FileKind::File => {
            There::File { size: metadata.size, modified: metadata.modified, mode: metadata.unix_mode }
        }
        FileKind::Symlink => {
            There::Link { target: halves(metadata.target.as_ref().map_or(0, |target| path_hash(target))) }
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
        let path = remote_path(base, folder.as_bytes())?;
        let mut listing = Listing::ask_once(client, form, path, journal.clone()).await?;
        loop {
            let line = match listing.next().await {
                Ok(None) if folder.is_root() => match listing.check_folder(client, base).await {
                    Err(error) if error.is_transient() => return Err(error),
                    result => {
                        read.base_is_there = result.is_ok();
                        break;
                    }
                },
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) if error.is_transient() || error.again == Again::Worthwhile => return Err(error),
                Err(_) if folder.is_root() => {
                    read.base_is_there = false;
                    break;
                }
                // Files that cannot be compared are sent.
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
            tell(&path, there(&entry.metadata), entry.metadata.unique);
            if !whole && entry.metadata.kind == FileKind::Directory {
                tree.hold(&path)?;
                waiting.push((path, entry.metadata.unique));
            }
        }
    }
    Ok(read)
}

struct Sending<'a> {
    client: &'a Client,
    job: &'a Job,
    mirror: &'a Mirror,
    base: &'a [u8],
    remote: Remote,
    uploads: Uploads,
    root: Root,
    seen: Option<Seen>,
    /// Whether the server may be another implementation.
    is_tcp: bool,
    /// Whether files use several sessions.
    has_sessions: bool,
    /// Folders whose permission bits are set at the end, when no more files are written into them.
    modes: Vec<(PathBuf, u32)>,
    /// Compares contents, if requested.
    digests: Option<Digests>,
    /// The results of [`Sending::look_ahead`]: files with equal contents, by hash of the path.
    same: HashSet<u128, BuildHasherDefault<Ready>>,
    names: Names<OtherName>,
}

impl Sending<'_> {
    async fn walk(&mut self, mut local: mpsc::Receiver<Vec<WalkItem>>) -> Result<()> {
        if let Some(seen) = &mut self.seen {
            seen.is_whole(b"");
        }
        while let Some(items) = local.recv().await {
            self.look_ahead(&items).await?;
            let (folders, rest) = self.folders_first(items);
            for item in folders.into_iter().chain(rest) {
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

    /// With several sessions the folders of a chunk are created together, because a file waits until the
    /// folders before it exist.
    fn folders_first(&self, items: Vec<WalkItem>) -> (Vec<WalkItem>, Vec<WalkItem>) {
        if !self.has_sessions {
            return (items, Vec::new());
        }
        let is_folder = |item: &WalkItem| matches!(item, WalkItem::Found { metadata, .. } if metadata.kind == Kind::Folder);
        items.into_iter().partition(is_folder)
    }

    /// Compares the contents of those files whose sizes are equal, if contents are compared.
    async fn look_ahead(&mut self, items: &[WalkItem]) -> Result<()> {
        let Some(digests) = &self.digests else { return Ok(()) };
        self.same.clear();
        let (mut pairs, mut names) = (Vec::new(), Vec::new());
        for item in items {
            let WalkItem::Found { path, metadata } = item else { continue };
            let name = path.as_os_str().as_bytes();
            let there = self.remote.of(name);
            let is_candidate = metadata.kind == Kind::File
                && matches!(there, Some(There::File { size, .. }) if size == metadata.size)
                && self.mirror.filter.takes_file(name)
                && !self.job.record.is_settled(name);
            if is_candidate {
                let remote = named_path(self.base, name)?;
                pairs.push(Pair { remote, local: path.clone(), size: metadata.size });
                names.push(name);
            }
        }
        for (name, same) in names.into_iter().zip(digests.compare(pairs).await?) {
            match same {
                Ok(true) => drop(self.same.insert(path_hash(name))),
                Ok(false) => {}
                Err(error) => self.job.reporter.warn(format_args!("{} is sent: {error}", escape(name))),
            }
        }
        Ok(())
    }

    async fn found(&mut self, path: PathBuf, metadata: fs::Metadata) -> Result<()> {
        let name = path.as_os_str().as_bytes();
        self.mirror.filter.found(name);
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
        let first = match belongs {
            true => self.first_name(name, &metadata),
            false => None,
        };
        if !belongs || self.job.record.is_settled(name) {
            return Ok(());
        }
        if !fs::fits_a_line(name) {
            // The contents of such a folder are deleted with it.
            if path.parent().is_none_or(|folder| fs::fits_a_line(folder.as_os_str().as_bytes())) {
                let error = line_end_in_name(&format!("send {}", escape(name)));
                self.job.record.failed(&self.job.reporter, name, error);
            }
            return Ok(());
        }
        let there = self.remote.of(name);
        let dry = self.mirror.delete.is_dry();
        let facts = match &first {
            Some(first) => Facts { target: Some(first.to_vec()), ..Facts::default() },
            None => self.facts(&metadata),
        };
        if !dry {
            match self.mirror.plan.allows(name, &facts) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.job.record.failed(&self.job.reporter, name, error);
                    return Ok(());
                }
            }
        }
        let found = Found { path, metadata, there, facts };
        if let Some(first) = first {
            return self.found_name(found, first);
        }
        match &found.metadata.kind {
            Kind::Folder => self.found_new_folder(found).await,
            Kind::File => self.found_file(found).await,
            Kind::Link(_) if !self.mirror.keep.links => Ok(()),
            Kind::Link(target) => self.found_link(&found, target).await,
            Kind::Other => {
                self.job.record.left_out(&self.job.reporter, found.name(), DEVICE);
                Ok(())
            }
        }
    }

    /// Processes a folder: creates it on the server unless it exists.
    async fn found_new_folder(&mut self, found: Found) -> Result<()> {
        let mode = found.metadata.mode & 0o777;
        if let Some(There::Folder { mode: there }) = found.there {
            return self.found_folder(&found.path, mode, there).await;
        }
        if self.mirror.filter.is_selective() {
            return Ok(());
        }
        let name = found.name();
        if self.mirror.delete.is_dry() {
            return self.mirror.planned(self.job, name, Action::MadeFolder, &found.facts, &found.was());
        }
        self.uploads.make_folder(named_path(self.base, name)?, name).await?;
        if self.mirror.keep.permissions && mode != USUAL_MODES.1 {
            self.modes.push((found.path, mode));
        }
        Ok(())
    }

    /// The first name of a file that has several, if hard links are kept and this is another name.
    fn first_name(&mut self, name: &[u8], metadata: &fs::Metadata) -> Option<Arc<[u8]>> {
        let is_linked = metadata.kind == Kind::File && metadata.links > 1 && self.mirror.keep.hard_links;
        if !is_linked || !fs::fits_a_line(name) {
            return None;
        }
        let first = self.names.first(metadata.identity, name);
        if first.is_none() && self.job.record.is_settled(name) {
            // It was sent before, perhaps after the server listed its tree.
            self.names.replace(name);
        }
        first
    }

    /// Processes another name of a file.
    fn found_name(&mut self, found: Found, first: Arc<[u8]>) -> Result<()> {
        let name = found.name();
        let is_there = !self.names.is_replaced(&first) && self.remote.are_one(&first, name);
        match (is_there, self.mirror.delete.is_dry()) {
            (true, true) => self.mirror.plan.found(name, None, &found.facts, &found.was()),
            (true, false) => {
                self.job.record.finished(name);
                Ok(())
            }
            (false, true) => {
                self.mirror.planned(self.job, name, Action::HardLinked, &found.facts, &found.was())
            }
            (false, false) => {
                let has_contents = self.same.contains(&path_hash(name));
                self.names.others.push((OtherName { found, has_contents }, first));
                Ok(())
            }
        }
    }

    /// Makes the other names of files, when these are complete. Where the server cannot, each name gets the contents.
    async fn make_names(&mut self) -> Result<()> {
        let mut others = std::mem::take(&mut self.names.others).into_iter();
        if others.len() == 0 {
            return Ok(());
        }
        self.uploads.drain().await?;
        let (mut asked, mut was_told) = (VecDeque::new(), false);
        loop {
            let next = if asked.len() < COMMANDS { others.next() } else { None };
            if let Some((other, first)) = next {
                let name = other.found.name();
                if self.job.record.has_failed(&first) {
                    self.job.record.failed(&self.job.reporter, name, without_file(name, &first));
                    continue;
                }
                let (path, existing) = (named_path(self.base, name)?, named_path(self.base, &first)?);
                self.make_parents_of(&other.found.path).await?;
                let command = Command::Site(Site::HardLink(existing, path));
                asked.push_back((other, self.client.begin_command(command).await?));
                continue;
            }
            let Some((other, reply)) = asked.pop_front() else { break };
            let reply = self.client.reply(reply).await?;
            let name = other.found.name();
            if !reply.code.is_error() {
                self.job.record.finished(name);
                self.job.reporter.done(name, Action::HardLinked, 0, 0);
            } else if NO_SUCH_COMMAND.contains(&reply.code) {
                if !std::mem::replace(&mut was_told, true) {
                    self.job.reporter.warn(format_args!(
                        "the server did not make a hard link (SITE HARDLINK): {reply}; such names get contents of their own"
                    ));
                }
                if other.has_contents {
                    self.same.insert(path_hash(name));
                }
                self.found_file(other.found).await?;
            } else {
                let error = crate::client::of_write_reply(&format!("link {}", escape(name)), &reply);
                self.job.record.failed(&self.job.reporter, name, error);
            }
        }
        Ok(())
    }

    /// Processes a file: sends it unless the server has it, or sets the facts that differ.
    async fn found_file(&mut self, found: Found) -> Result<()> {
        let (name, metadata) = (found.name(), &found.metadata);
        let dry = self.mirror.delete.is_dry();
        let mode = metadata.mode & 0o777;
        let has_contents = self.same.contains(&path_hash(name));
        let (same, same_mode) = match found.there {
            Some(There::File { modified, .. })
                if has_contents && !same_time(modified, Some(timestamp(metadata.modified))) =>
            {
                return self.found_contents(&found.path, metadata).await;
            }
            Some(There::File { size, modified, mode: there }) => (
                has_contents || self.is_same(metadata, size, modified),
                !self.mirror.keep.permissions || there.is_none_or(|there| there & 0o777 == mode),
            ),
            _ => (false, true),
        };
        if same && !same_mode {
            if dry {
                return self.mirror.planned(self.job, name, Action::SetMode, &found.facts, &found.was());
            }
            return self.uploads.set_mode(named_path(self.base, name)?, name, mode).await;
        }
        if same && dry {
            return self.mirror.plan.found(name, None, &found.facts, &found.was());
        }
        if same {
            self.job.record.finished(name);
            self.job.reporter.done(name, Action::Skipped, metadata.size, 0);
            return Ok(());
        }
        if self.mirror.keep.hard_links && metadata.links > 1 {
            self.names.replace(name);
        }
        if dry {
            return self.mirror.planned(self.job, name, Action::Sent, &found.facts, &found.was());
        }
        self.make_parents_of(&found.path).await?;
        let send = Send {
            remote: named_path(self.base, name)?,
            name: name.to_vec(),
            root: self.root.clone(),
            size: metadata.size,
            modified: metadata.modified,
            mode: (self.mirror.keep.permissions && mode != USUAL_MODES.0).then_some(mode),
            local: found.path,
        };
        self.uploads.send(send, &self.remote.features).await
    }

    /// Processes a link: creates it on the server unless it exists, its target is outside the tree, or the
    /// server supports no links.
    async fn found_link(&mut self, found: &Found, target: &Path) -> Result<()> {
        let name = found.name();
        let dry = self.mirror.delete.is_dry();
        let to = target.as_os_str().as_bytes();
        if matches!(found.there, Some(There::Link { target: old }) if old == halves(path_hash(to))) {
            return if dry { self.mirror.plan.found(name, None, &found.facts, &found.was()) } else { Ok(()) };
        }
        if !fs::link_stays_inside(&found.path, target) {
            self.job.record.left_out(&self.job.reporter, name, leads_out(to));
            return Ok(());
        }
        if !self.remote.features.tree && self.is_tcp {
            // SITE SYMLINK is available with XTREE (specs/ftp-over-sctp.md §8.4); other servers do not know
            // it.
            let why = "it is a symbolic link, which the server cannot make";
            self.job.record.left_out(&self.job.reporter, name, why);
            return Ok(());
        }
        if dry {
            return self.mirror.planned(self.job, name, Action::Linked, &found.facts, &found.was());
        }
        let command = Command::Site(Site::Symlink(Bytes::copy_from_slice(to), named_path(self.base, name)?));
        self.uploads.command(command, name, Action::Linked).await
    }

    /// The local facts of a path, for a plan.
    fn facts(&self, metadata: &fs::Metadata) -> Facts {
        let mode = self.mirror.keep.permissions.then_some(metadata.mode & 0o777);
        match &metadata.kind {
            Kind::File => {
                let (size, time) = (Some(metadata.size), Some(timestamp(metadata.modified)));
                Facts { size, time, mode, target: None }
            }
            Kind::Folder => Facts { mode, ..Facts::default() },
            Kind::Link(target) => {
                Facts { target: Some(target.as_os_str().as_bytes().to_vec()), ..Facts::default() }
            }
            Kind::Other => Facts::default(),
        }
    }

    /// Whether a file of the server is kept.
    fn is_same(&self, here: &fs::Metadata, size: u64, modified: Option<Timestamp>) -> bool {
        let (Compare { times, newer, contents }, ours) = (self.mirror.compare, timestamp(here.modified));
        if contents {
            // Equal contents were found before.
            return false;
        }
        let is_newer =
            newer && modified.is_some_and(|there| (there.seconds, there.nanos) > (ours.seconds, ours.nanos));
        is_newer || (size == here.size && (!times || same_time(modified, Some(ours))))
    }

    /// Processes a file whose contents the server has, with another time.
    async fn found_contents(&mut self, path: &Path, metadata: &fs::Metadata) -> Result<()> {
        let name = path.as_os_str().as_bytes();
        if self.mirror.delete.is_dry() {
            let was = was(self.remote.of(name));
            return self.mirror.planned(self.job, name, Action::SetTime, &self.facts(metadata), &was);
        }
        let remote = named_path(self.base, name)?;
        if self.mirror.keep.permissions {
            self.uploads.set_mode(remote.clone(), b"", metadata.mode & 0o777).await?;
        }
        if !self.remote.features.mfmt {
            self.job.record.done(name);
            return Ok(());
        }
        let command = Command::SetModifiedTime(timestamp(metadata.modified), remote);
        self.uploads.command(command, name, Action::SetTime).await
    }

    /// Processes a folder that the server has: its mode is set at the end, and until then its owner may write
    /// into it.
    async fn found_folder(&mut self, path: &Path, mode: u32, there: Option<u32>) -> Result<()> {
        let name = path.as_os_str().as_bytes();
        let there = there.map(|there| there & 0o777).filter(|_| self.mirror.keep.permissions);
        if self.mirror.delete.is_dry() {
            let facts = Facts { mode: self.mirror.keep.permissions.then_some(mode), ..Facts::default() };
            return match there.is_some_and(|there| there != mode) {
                true => self.mirror.planned(self.job, name, Action::SetMode, &facts, "folder"),
                false => self.mirror.plan.found(name, None, &facts, "folder"),
            };
        }
        let Some(there) = there else { return Ok(()) };
        let is_closed = there & OWNER != OWNER;
        if is_closed {
            self.uploads.set_mode(named_path(self.base, name)?, b"", there | OWNER).await?;
        }
        if is_closed || there != mode {
            self.modes.push((path.to_owned(), mode));
        }
        Ok(())
    }

    /// Sets the modes of folders, the deepest first.
    async fn set_modes(&mut self) -> Result<()> {
        for (path, mode) in std::mem::take(&mut self.modes).into_iter().rev() {
            let name = path.as_os_str().as_bytes();
            self.uploads.set_mode(named_path(self.base, name)?, b"", mode).await?;
        }
        Ok(())
    }

    /// Creates the folders above a file if they are made only for files that are sent.
    async fn make_parents_of(&mut self, path: &Path) -> Result<()> {
        match path.parent().filter(|_| self.mirror.filter.is_selective()) {
            Some(parent) => self.make_parents(parent).await,
            None => Ok(()),
        }
    }

    /// Creates the folders above a file, with an include: when the first file needs them.
    async fn make_parents(&mut self, folder: &Path) -> Result<()> {
        let mut above: Vec<&Path> = folder.ancestors().filter(|path| !path.as_os_str().is_empty()).collect();
        above.reverse();
        for folder in above {
            let name = folder.as_os_str().as_bytes();
            if !matches!(self.remote.of(name), Some(There::Folder { .. })) {
                self.uploads.make_folder(named_path(self.base, name)?, name).await?;
                self.remote.made.insert(path_hash(name));
            }
        }
        Ok(())
    }
}

/// Another name of a file.
struct OtherName {
    found: Found,
    /// Whether the server has a file of this name with the same contents, if contents are compared.
    has_contents: bool,
}

/// A local entry to send.
struct Found {
    /// The path below the root of the tree.
    path: PathBuf,
    metadata: fs::Metadata,
    /// The server's entry of this name.
    there: Option<There>,
    facts: Facts,
}

impl Found {
    fn name(&self) -> &[u8] {
        self.path.as_os_str().as_bytes()
    }

    /// The server's entry, for a plan.
    fn was(&self) -> String {
        was(self.there)
    }
}

/// The server's state of a destination, for a plan.
fn was(there: Option<There>) -> String {
    match there {
        None => "missing".into(),
        Some(There::File { size, modified: Some(modified), .. }) => format!("file {size} {modified}"),
        Some(There::File { size, modified: None, .. }) => format!("file {size}"),
        Some(There::Folder { .. }) => "folder".into(),
        Some(There::Link { .. }) => "link".into(),
        Some(There::Other) => "other".into(),
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
    read_remote(client, base, features, None, |path, there, _| {
        let name = path.as_bytes();
        let is_folder = matches!(there, There::Folder { .. });
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
    if !mirror.delete.is_dry() {
        doomed.retain(|(path, _)| mirror.plan.allows_to_delete(path.as_bytes()));
    }
    if let Err(error) = mirror.check_deletions(doomed.len()) {
        job.record.failed(&job.reporter, b"", error);
        return Ok(());
    }
    // Folders were reported before their contents. The server executes commands in order, so none waits for
    // an earlier reply.
    let mut asked = VecDeque::new();
    let mut doomed = doomed.into_iter().rev();
    loop {
        let next = if asked.len() < COMMANDS { doomed.next() } else { None };
        if let Some((path, is_folder)) = next {
            if mirror.delete.is_dry() {
                let was = if is_folder { "folder" } else { "there" };
                mirror.planned(job, path.as_bytes(), Action::Deleted, &Facts::default(), was)?;
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
            // A folder with excluded entries is kept.
            true if is_folder => job.reporter.warn(format_args!("{path} was not deleted: {reply}")),
            true => {
                let error = crate::client::of_write_reply(&format!("delete {path}"), &reply);
                job.record.failed(&job.reporter, path.as_bytes(), error);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_among_what_the_server_listed_and_what_was_created() {
        let file = |size| There::File { size, modified: None, mode: None };
        let mut remote = Remote::of_listed(
            (0..1_000_u64).map(|nth| (halves(path_hash(&nth.to_le_bytes())), file(nth))).collect(),
        );
        assert_eq!(size_of_val(&remote.listed[0]), 56, "a million files on the server take so many MB");
        for nth in 0..1_000_u64 {
            assert!(matches!(remote.of(&nth.to_le_bytes()), Some(There::File { size, .. }) if size == nth));
        }
        assert!(remote.of(b"new").is_none());
        remote.made.insert(path_hash(b"new"));
        assert!(matches!(remote.of(b"new"), Some(There::Folder { .. })));
    }
}
