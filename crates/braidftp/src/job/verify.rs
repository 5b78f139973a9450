//! `verify`: reports the files, folders and links in which a remote and a local tree differ, by digest.
//! Nothing is changed, and no contents are transferred.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::hash::BuildHasherDefault;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use braidftp_ftp::store::{FileKind, Metadata};
use braidftp_ftp::{HashName, SafePath};

use super::digests::{Digests, Pair};
use super::download::as_path;
use super::files::{Form, say};
use super::filter::Filter;
use super::hard_links::Names;
use super::trees::{Held, RemoteTree};
use super::{Job, Ready, named_path, path_hash};
use crate::client::Client;
use crate::exit::{Error, Exit, Result, Told, escape};
use crate::report::{Difference, Event};
use crate::store::fs::{self, Kind, Root, WalkItem};

/// The number of files compared together.
const AT_ONCE: usize = 256;

/// Hashes of paths.
type Paths = HashSet<u128, BuildHasherDefault<Ready>>;

/// The settings of a comparison.
#[derive(Debug, Clone)]
pub struct Verify {
    /// The local folder.
    pub to: PathBuf,
    /// The selection of paths.
    pub filter: Filter,
    /// Whether names of one file on the server must be names of one file here.
    pub hard_links: bool,
    /// The format.
    pub form: Form,
    /// The differences found, over all attempts.
    pub found: Arc<Mutex<FoundSoFar>>,
}

/// The differences found so far. Each path is reported once.
#[derive(Debug, Default)]
pub struct FoundSoFar {
    same: u64,
    differ: u64,
    done: Paths,
    digest: Option<HashName>,
}

impl Verify {
    /// The result of the job.
    ///
    /// # Errors
    ///
    /// The trees differ.
    fn conclude(&self, job: &Job) -> Result<()> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let (same, differ) = (found.same, found.differ);
        let digest = found.digest.map(|digest| digest.to_string()).unwrap_or_default();
        match self.form {
            Form::Json => job.reporter.event(&Event::Verified { same, differ, digest }),
            Form::Text if differ == 0 => say(format_args!("{same} the same, by {digest}"))?,
            Form::Text => say(format_args!("{same} the same, by {digest}; {differ} differ"))?,
        }
        match differ {
            0 => Ok(()),
            _ => Err(Error {
                told: Told::Yes,
                ..Error::new(Exit::Verify, format_args!("verify {}", job.url), "the trees differ")
            }),
        }
    }

    fn tell(&self, job: &Job, path: &[u8], difference: Option<Difference>) -> Result<()> {
        {
            let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
            if !found.done.insert(path_hash(path)) {
                return Ok(());
            }
            match difference {
                Some(_) => found.differ += 1,
                None => found.same += 1,
            }
        }
        let Some(what) = difference else { return Ok(()) };
        match self.form {
            Form::Json => job.reporter.event(&Event::Difference { path: escape(path), what }),
            Form::Text => say(format_args!("{} {}", escape(path), what.says()))?,
        }
        Ok(())
    }

    fn is_done(&self, path: &[u8]) -> bool {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).done.contains(&path_hash(path))
    }

    fn takes(&self, path: &[u8], is_folder: bool) -> bool {
        if is_folder { self.filter.takes_folder(path) } else { self.filter.takes_file(path) }
    }
}

/// One attempt to compare a remote tree with a local one.
///
/// # Errors
///
/// The session has ended, the server supports no digests, or one of the trees cannot be read. Differences are
/// in `verify`.
pub async fn verify(client: Client, job: Job, verify: Verify) -> Result<()> {
    let root = Root::open(&verify.to).map_err(|error| Error::store(&error))?;
    let digests = Digests::begin(&client, &root).await?;
    verify.found.lock().unwrap_or_else(PoisonError::into_inner).digest = Some(digests.name());
    // Entries of the server that are not compared, so that they are not taken for missing.
    let mut there = Paths::default();
    let mut names = Names::<()>::default();
    let mut tree = RemoteTree::begin(&client, &job, &job.url.path, Held::None).await?;
    while let Some(tree) = tree.next().await? {
        for entries in tree.chunks(AT_ONCE) {
            let mut wanted = Vec::new();
            for (path, metadata) in entries {
                let name = path.as_bytes();
                let takes = verify.takes(name, metadata.kind == FileKind::Directory);
                let identity = metadata.unique.filter(|_| verify.hard_links && takes);
                let first = identity.filter(|_| metadata.kind == FileKind::File);
                let first = first.and_then(|identity| names.first(identity, name));
                if takes && !verify.is_done(name) {
                    wanted.push(Entry { path, metadata, first });
                } else if !takes {
                    there.insert(path_hash(name));
                }
            }
            compare(&job, &verify, &root, &digests, &wanted).await?;
            let left = wanted.iter().map(|entry| entry.path.as_bytes()).filter(|name| !verify.is_done(name));
            there.extend(left.map(path_hash));
        }
    }
    only_here(&job, &verify, &root, &there).await?;
    // Otherwise another attempt follows.
    if job.record.is_final() { verify.conclude(&job) } else { Ok(()) }
}

/// An entry of the remote tree.
struct Entry<'a> {
    path: &'a SafePath,
    metadata: &'a Metadata,
    /// The first name of the file, if this is another one.
    first: Option<Arc<[u8]>>,
}

/// Compares some entries of the remote tree with the local ones.
async fn compare(
    job: &Job,
    verify: &Verify,
    root: &Root,
    digests: &Digests,
    entries: &[Entry<'_>],
) -> Result<()> {
    let local = |first: &Arc<[u8]>| PathBuf::from(OsStr::from_bytes(first));
    let paths: Vec<(PathBuf, Option<PathBuf>)> = entries
        .iter()
        .map(|entry| (as_path(entry.path).to_owned(), entry.first.as_ref().map(local)))
        .collect();
    let found = root.blocking(move |root| {
        let look = |(path, first): &(PathBuf, Option<PathBuf>)| {
            let first = first.as_ref().map(|first| root.link_metadata(first).map(|found| found.identity));
            (root.link_metadata(path), first.map(Result::ok))
        };
        paths.iter().map(look).collect::<Vec<_>>()
    });
    let found = found.await;
    let mut pairs = Vec::new();
    let mut names = Vec::new();
    for (Entry { path, metadata: there, .. }, (here, first)) in entries.iter().zip(found) {
        let name = path.as_bytes();
        let here = match here {
            Ok(here) => here,
            Err(error) if matches!(error.why, fs::Why::NotFound | fs::Why::NotAFolder) => {
                verify.tell(job, name, Some(Difference::MissingHere))?;
                continue;
            }
            Err(error) => {
                job.record.failed(&job.reporter, name, Error::store(&error));
                continue;
            }
        };
        match at_a_glance(there, &here) {
            Glance::Is(difference) => verify.tell(job, name, difference)?,
            Glance::AskForContents if first.is_some_and(|first| first != Some(here.identity)) => {
                verify.tell(job, name, Some(Difference::Links))?;
            }
            Glance::AskForContents => {
                pairs.push(Pair {
                    remote: named_path(&job.url.path, name)?,
                    local: as_path(path).to_owned(),
                    size: there.size,
                });
                names.push(name);
            }
        }
    }
    for (name, same) in names.into_iter().zip(digests.compare(pairs).await?) {
        match same {
            Ok(same) => verify.tell(job, name, (!same).then_some(Difference::Contents))?,
            Err(error) => job.record.failed(&job.reporter, name, error),
        }
    }
    Ok(())
}

/// The result of comparing metadata.
#[derive(Debug, PartialEq, Eq)]
enum Glance {
    Is(Option<Difference>),
    AskForContents,
}

fn at_a_glance(there: &Metadata, here: &fs::Metadata) -> Glance {
    match (there.kind, &here.kind) {
        (FileKind::File, Kind::File) if there.size != here.size => Glance::Is(Some(Difference::Size)),
        (FileKind::File, Kind::File) => Glance::AskForContents,
        (FileKind::Directory, Kind::Folder) | (FileKind::Other, Kind::Other) => Glance::Is(None),
        (FileKind::Symlink, Kind::Link(target)) => match &there.target {
            Some(there) if Path::new(OsStr::from_bytes(there)) != target => {
                Glance::Is(Some(Difference::Target))
            }
            _ => Glance::Is(None),
        },
        _ => Glance::Is(Some(Difference::Kind)),
    }
}

/// Reports entries that exist only locally: those that were neither compared nor are in `there`.
async fn only_here(job: &Job, verify: &Verify, root: &Root, there: &Paths) -> Result<()> {
    let mut walk = root.walk(Path::new("")).await.map_err(|error| Error::store(&error))?;
    while let Some(items) = walk.next_chunk().await {
        for item in items {
            match item {
                WalkItem::Found { path, metadata } => {
                    let name = path.as_os_str().as_bytes();
                    if !there.contains(&path_hash(name))
                        && verify.takes(name, metadata.kind == Kind::Folder)
                        && !job.record.is_settled(name)
                    {
                        verify.tell(job, name, Some(Difference::MissingThere))?;
                    }
                }
                WalkItem::Unreadable { path, error } => {
                    job.record.failed(&job.reporter, path.as_os_str().as_bytes(), Error::store(&error));
                }
            }
        }
    }
    Ok(())
}
