//! Single files in both directions: `get` and `put`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use braidftp_ftp::mapping::Mode;
use braidftp_ftp::store::FileKind;
use braidftp_ftp::{SafeName, SafePath};
use tokio::task::JoinSet;

use super::compare::Compare;
use super::download::{Downloads, Fetch, LOOK_AHEAD};
use super::facts::{Facts, ask, facts, is_folder, of_file};
use super::filter::{is_glob, name_glob};
use super::listing::{Line, Listing, bad_line, folder_form};
use super::upload::{Send, Uploads};
use super::{Job, named_path, remote_path};
use crate::client::{Client, of_reply};
use crate::exit::{Error, Exit, Result, escape};
use crate::store::fs::{Kind, Root};
use crate::url::Url;

/// One attempt to fetch the files of `urls`, all on one server, into the folder `to`.
///
/// # Errors
///
/// The session has ended. Files that fail are in the job's record.
pub async fn get(client: Client, job: Job, urls: Vec<Url>, to: PathBuf) -> Result<()> {
    std::fs::create_dir_all(&to).map_err(|e| Error::local(format_args!("make {}", to.display()), &e))?;
    let root = Root::open(&to).map_err(|error| Error::store(&error))?;
    let mut downloads = Downloads::new(client.clone(), root, job.reporter.clone(), job.record.clone());
    let mut asked = JoinSet::new();
    let result = get_each(&client, &job, &urls, &mut downloads, &mut asked).await;
    while asked.join_next().await.is_some() {}
    job.reporter.expect_no_more();
    // Waits for everything that was begun, so that received bytes are stored.
    let finished = downloads.finish().await;
    result.and(finished)
}

async fn get_each(
    client: &Client,
    job: &Job,
    urls: &[Url],
    downloads: &mut Downloads,
    asked: &mut JoinSet<()>,
) -> Result<()> {
    let names = urls.iter().map(local_name).collect::<Result<Vec<_>>>()?;
    // If nothing of a file exists locally, its facts decide nothing, so both are requested at once. The papers' modes keep their round
    // trips.
    let mut are_missing = match client.mode() {
        Mode::Braid | Mode::Tcp => downloads.are_missing(names.iter().flatten()).await,
        Mode::Naive | Mode::Ms | Mode::MsCp => Vec::new(),
    }
    .into_iter();
    for (url, name) in urls.iter().zip(names) {
        let Some(local) = name else {
            get_glob(client, job, url, downloads).await?;
            continue;
        };
        let remote = named_path(&url.path, b"")?;
        let path = remote.clone();
        let fetch = |(size, modified)| {
            let (remote, compare) = (path, Compare::default());
            Fetch { remote, local, size, modified, unix_mode: None, compare }
        };
        if are_missing.next() == Some(true) {
            let told = ask(client, &remote, job, asked).await?;
            downloads.fetch_and_ask(fetch((None, None)), told).await?;
            continue;
        }
        match facts(client, &remote).await? {
            Facts::Of(metadata) if metadata.kind == FileKind::Directory => {
                job.record.failed(&job.reporter, &url.path, is_folder(&url.path));
            }
            Facts::Of(metadata) => downloads.fetch(fetch(of_file(&metadata))).await?,
            Facts::Missing(reply) => {
                let error = of_reply(&format!("fetch {}", escape(&url.path)), &reply);
                job.record.failed(&job.reporter, &url.path, error);
            }
            Facts::Unknown => downloads.fetch(fetch((None, None))).await?,
        }
    }
    Ok(())
}

/// The local name of the file of `url`; `None` for a glob.
fn local_name(url: &Url) -> Result<Option<SafePath>> {
    if is_glob(url.file_name()) {
        return Ok(None);
    }
    let Ok(name) = SafeName::new(url.file_name().to_vec()) else {
        return Err(Error::usage(format_args!("get {url}"), "the path names no file")
            .hint("braidftp mirror fetches folders"));
    };
    SafePath::ROOT.join(&name).map(Some).map_err(|e| Error::usage(format_args!("get {url}"), e))
}

async fn get_glob(client: &Client, job: &Job, url: &Url, downloads: &mut Downloads) -> Result<()> {
    let pattern = std::str::from_utf8(url.file_name())
        .map_err(|_| Error::usage(format_args!("get {url}"), "the glob is not UTF-8"))?;
    let matches = name_glob(pattern)?;
    let folder = &url.path[..url.path.len() - url.file_name().len()];
    let features = client.features().await?;
    let mut listing = Listing::ask(client, folder_form(&features), remote_path(folder, b"")?).await?;
    let mut found = 0;
    loop {
        let lines = listing.next_lines(LOOK_AHEAD).await?;
        if lines.is_empty() {
            break;
        }
        let mut files = Vec::new();
        for line in lines {
            let entry = match line {
                Line::Entry(entry) => entry,
                Line::Bad(line, why) => {
                    job.record.failed(&job.reporter, &line, bad_line(&line, &why));
                    continue;
                }
            };
            let Some(name) = entry.path.name().filter(|name| name.as_bytes() == entry.path.as_bytes()) else {
                continue;
            };
            if entry.metadata.kind == FileKind::File && matches(name.as_bytes()) {
                files.push(Fetch {
                    remote: named_path(folder, name.as_bytes())?,
                    local: entry.path,
                    size: Some(entry.metadata.size),
                    modified: entry.metadata.modified,
                    unix_mode: None,
                    compare: Compare::default(),
                });
            }
        }
        found += files.len();
        downloads.fetch_all(files).await?;
    }
    if found == 0 {
        let error = Error::new(Exit::NoSuchPath, format_args!("fetch {url}"), "no file matches")
            .hint("braidftp ls shows the folder; put the URL between quotes, or the shell expands it");
        job.record.failed(&job.reporter, &url.path, error);
    }
    Ok(())
}

/// One attempt to send `files` to `url`: into a folder, or, for one file, under a new name.
///
/// # Errors
/// The session has ended. Files that fail are in the job's record.
pub async fn put(client: Client, job: Job, files: Vec<PathBuf>) -> Result<()> {
    let base = job.url.path.clone();
    let sure = base.is_empty() || base.ends_with(b"/") || files.len() > 1;
    let look = async {
        let facts = if sure { Facts::Unknown } else { facts(&client, &named_path(&base, b"")?).await? };
        Ok(sure || matches!(facts, Facts::Of(metadata) if metadata.kind == FileKind::Directory))
    };
    // Both are requested at once.
    let (features, is_folder) = tokio::try_join!(client.features(), look)?;
    let mut uploads = Uploads::new(client.clone(), job.url.clone(), job.reporter.clone(), job.record.clone());
    for path in files {
        let shown = path.as_os_str().as_bytes().to_vec();
        let (root, local, name) = match open(&path) {
            Ok(opened) => opened,
            Err(error) => {
                job.record.failed(&job.reporter, &shown, error);
                continue;
            }
        };
        let metadata = match root.metadata(&local) {
            Ok(metadata) if metadata.kind == Kind::File => metadata,
            Ok(metadata) => {
                let (why, hint) = match metadata.kind {
                    Kind::Folder => ("it is a folder", "braidftp mirror -R sends folders"),
                    _ => ("it is no regular file", "only files can be sent"),
                };
                let error = Error::new(Exit::Local, format_args!("send {}", escape(&shown)), why).hint(hint);
                job.record.failed(&job.reporter, &shown, error);
                continue;
            }
            Err(error) => {
                job.record.failed(&job.reporter, &shown, Error::store(&error));
                continue;
            }
        };
        let remote = if is_folder { named_path(&base, &name)? } else { named_path(&base, b"")? };
        let send = Send {
            remote,
            name: shown,
            root,
            local,
            size: metadata.size,
            modified: metadata.modified,
            mode: None,
        };
        if let Err(error) = uploads.send(send, &features).await {
            let _ = uploads.finish().await;
            return Err(error);
        }
    }
    job.reporter.expect_no_more();
    uploads.finish().await
}

/// The folder of a file, the file's path in it, and its name.
fn open(path: &Path) -> Result<(Root, PathBuf, Vec<u8>)> {
    let Some(name) = path.file_name() else {
        return Err(Error::usage(format_args!("send {}", path.display()), "it names no file"));
    };
    // Links in a path that the user gives are followed anywhere; only names from the server are confined to a
    // root.
    let real = path.canonicalize().map_err(|e| Error::local(format_args!("open {}", path.display()), &e))?;
    let (folder, file) = match (real.parent(), real.file_name()) {
        (Some(folder), Some(file)) => (folder, file),
        _ => return Err(Error::new(Exit::Local, format_args!("send {}", path.display()), "it is a folder")),
    };
    let root = Root::open(folder).map_err(|error| Error::store(&error))?;
    Ok((root, PathBuf::from(file), name.as_bytes().to_vec()))
}
