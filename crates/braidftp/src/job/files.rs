//! Commands for single paths: `ls`, `cat`, `rm`, `mkdir`, `mv`.

use std::io::Write;

use braidftp_ftp::client::ListForm;
use braidftp_ftp::command::{Command, Site};
use braidftp_ftp::listing::Listed;
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::{FileKind, Metadata};
use braidftp_ftp::{PathArg, Reply, SafePath};
use tokio::sync::oneshot;

use super::bounds::{TreeBounds, Unique};
use super::facts::{Facts, facts, is_folder, of_mlst};
use super::listing::{Line, Listing, bad_line, folder_form, missing};
use super::{Job, named_path, remote_path};
use crate::client::{Client, LISTING_QUEUE_BYTES, Sink, of_reply, of_write_reply};
use crate::exit::{Again, Error, Exit, Result, escape};
use crate::report::{Action, Event};
use crate::url::Url;

/// The output format of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One line per entry, for people.
    Text,
    /// One event per entry.
    Json,
}

/// What a listing prints, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shown {
    /// The format.
    pub form: Form,
    /// Whether permissions are printed.
    pub long: bool,
    /// Whether entries are sorted by name once all have arrived; otherwise they are printed as they arrive.
    pub sorted: bool,
}

/// One attempt to list the paths of `urls`.
///
/// # Errors
///
/// The session has ended, a folder cannot be listed, or its sorted entries take too much memory.
pub async fn ls(client: Client, job: Job, urls: Vec<Url>, shown: Shown) -> Result<()> {
    let Some(first) = urls.first() else { return Ok(()) };
    // Both are requested at once.
    let (features, mut asked) = tokio::try_join!(client.features(), begin_facts(&client, first))?;
    let list = folder_form(&features);
    for (at, url) in urls.iter().enumerate() {
        if at > 0 {
            asked = begin_facts(&client, url).await?;
        }
        if urls.len() > 1 && shown.form == Form::Text {
            say(format_args!("{}:", escape(&url.path)))?;
        }
        let path = remote_path(&url.path, b"")?;
        // In braid the listing is requested without waiting for the kind of the path. A file has no listing,
        // which is no error then.
        let ahead = match client.mode() {
            Mode::Braid => Some(Listing::ask(&client, list, path.clone()).await?),
            _ => None,
        };
        if let Some(asked) = asked.take()
            && let Some(Facts::Of(metadata)) = of_mlst(&client.reply(asked).await?)
            && metadata.kind != FileKind::Directory
            && list == ListForm::Facts
        {
            show(&job, url.file_name(), &metadata, shown)?;
            continue;
        }
        let mut listing = match ahead {
            Some(listing) => listing,
            None => Listing::ask(&client, list, path).await?,
        };
        let mut entries = Vec::new();
        let mut bounds = TreeBounds::new(client.bounds());
        while let Some(line) = listing.next().await? {
            match line {
                Line::Entry(entry) if entry.path.is_root() => {
                    if let Listed::Incomplete(gap) = &entry.listed {
                        let (path, error) = missing(&SafePath::ROOT, gap);
                        job.record.failed(&job.reporter, &path, error);
                    }
                }
                Line::Entry(entry) if shown.sorted => {
                    bounds.hold_entry(&entry.path, &entry.metadata)?;
                    entries.push((entry.path, entry.metadata));
                }
                Line::Entry(entry) => show(&job, entry.path.as_bytes(), &entry.metadata, shown)?,
                Line::Bad(line, why) => job.record.failed(&job.reporter, &line, bad_line(&line, &why)),
            }
        }
        listing.check_folder(&client, &url.path).await?;
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        entries.iter().try_for_each(|(path, metadata)| show(&job, path.as_bytes(), metadata, shown))?;
    }
    Ok(())
}

/// The names in a folder, for completion; those of folders end in a slash. Names that are not UTF-8 are left
/// out.
///
/// # Errors
///
/// The session has ended, or there is no such folder.
pub async fn names(client: &Client, folder: &[u8]) -> Result<Vec<String>> {
    let form = folder_form(&client.features().await?);
    let mut listing = Listing::ask(client, form, remote_path(folder, b"")?).await?;
    let mut bounds = TreeBounds::new(client.bounds());
    let mut names = Vec::new();
    while let Some(line) = listing.next().await? {
        bounds.entry()?;
        let Line::Entry(entry) = line else { continue };
        if entry.path.is_root() {
            continue;
        }
        bounds.hold(&entry.path)?;
        let Ok(name) = std::str::from_utf8(entry.path.as_bytes()) else { continue };
        let is_folder = entry.metadata.kind == FileKind::Directory;
        names.push(if is_folder { format!("{name}/") } else { name.to_owned() });
    }
    Ok(names)
}

/// The entries of a folder, sorted by name.
///
/// # Errors
///
/// The session has ended, there is no such folder, or the listing has an invalid line.
pub async fn entries(client: &Client, folder: &[u8]) -> Result<Vec<(Vec<u8>, Metadata)>> {
    let form = folder_form(&client.features().await?);
    let mut listing = Listing::ask(client, form, remote_path(folder, b"")?).await?;
    let mut bounds = TreeBounds::new(client.bounds());
    let mut entries = Vec::new();
    while let Some(line) = listing.next().await? {
        match line {
            Line::Entry(entry) if entry.path.is_root() => {
                if let Listed::Incomplete(gap) = &entry.listed {
                    return Err(missing(&SafePath::ROOT, gap).1);
                }
            }
            Line::Entry(entry) => {
                bounds.hold_entry(&entry.path, &entry.metadata)?;
                entries.push((entry.path.as_bytes().to_vec(), entry.metadata));
            }
            Line::Bad(line, why) => return Err(bad_line(&line, &why)),
        }
    }
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    Ok(entries)
}

/// The metadata of a path; the root is a folder.
///
/// # Errors
///
/// The session has ended, the path does not exist, or the server cannot report it.
pub async fn stat(client: &Client, path: &[u8]) -> Result<Metadata> {
    let Some(path) = remote_path(path, b"")? else { return Ok(Metadata::new(FileKind::Directory, 0)) };
    let what = || format!("look at {}", escape(path.as_bytes()));
    match facts(client, &path).await? {
        Facts::Of(metadata) => Ok(*metadata),
        Facts::Missing(reply) => Err(of_reply(&what(), &reply)),
        Facts::Unknown => {
            Err(Error::new(Exit::Refused, what(), "the server has no MLST and does not report its size"))
        }
    }
}

/// Requests the facts of a URL's path, without waiting; does nothing for an empty path.
async fn begin_facts(client: &Client, url: &Url) -> Result<Option<oneshot::Receiver<Result<Reply>>>> {
    Ok(match remote_path(&url.path, b"")? {
        Some(path) => Some(client.begin_command(Command::MachineFacts(Some(path))).await?),
        None => None,
    })
}

/// Prints one entry of a listing.
pub(super) fn show(job: &Job, name: &[u8], metadata: &Metadata, shown: Shown) -> Result<()> {
    let (kind, letter) = match metadata.kind {
        FileKind::File => ("file", '-'),
        FileKind::Directory => ("dir", 'd'),
        FileKind::Symlink => ("link", 'l'),
        FileKind::Other => ("other", '?'),
    };
    let size = (metadata.kind == FileKind::File).then_some(metadata.size);
    let target = metadata.target.as_ref().map(|target| escape(target));
    if shown.form == Form::Json {
        job.reporter.event(&Event::Entry {
            path: escape(name),
            kind,
            bytes: size,
            mtime: metadata.modified.map(|modified| modified.seconds),
            mode: metadata.unix_mode.map(|mode| format!("{mode:03o}")),
            target,
        });
        return Ok(());
    }
    let time = match metadata.modified {
        Some(modified) => {
            let civil = modified.civil();
            format!(
                "{:04}-{:02}-{:02} {:02}:{:02}",
                civil.year, civil.month, civil.day, civil.hour, civil.minute
            )
        }
        None => String::new(),
    };
    let arrow = target.map(|target| format!(" -> {target}")).unwrap_or_default();
    let size = size.map(|size| size.to_string()).unwrap_or_default();
    let rights = match (shown.long, metadata.unix_mode) {
        (false, _) => String::new(),
        (true, None) => "?????????".to_owned(),
        (true, Some(mode)) => rights(mode),
    };
    say(format_args!("{letter}{rights} {size:>14} {time:>16}  {}{arrow}", escape(name)))
}

/// Permission bits as `ls -l` writes them.
fn rights(mode: u32) -> String {
    let bit = |at: u32| if mode & (1 << at) != 0 { b"xwr"[at as usize % 3] as char } else { '-' };
    (0..9).rev().map(bit).collect()
}

/// Prints a line to standard output. If the reader has closed the pipe, the command ends quietly, as in `ls |
/// head`.
pub(super) fn say(line: std::fmt::Arguments<'_>) -> Result<()> {
    write_out(format!("{line}\n").as_bytes())
}

fn write_out(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) => Err(Error::local("write to standard output", &error)),
    }
}

/// One attempt to write the files of `urls` to standard output. Written output cannot be taken back, so a
/// connection lost after the first byte is an error.
///
/// # Errors
///
/// The session has ended, or a file cannot be fetched.
pub async fn cat(client: Client, job: Job, urls: Vec<Url>) -> Result<()> {
    for url in &urls {
        let most = client.bounds().max_size.unwrap_or(u64::MAX);
        let beyond = client.bounds().beyond(&format!("read {}", escape(&url.path)), None);
        let (sink, mut queue) = Sink::queue(most, beyond, LISTING_QUEUE_BYTES);
        let under_way = client.retrieve(named_path(&url.path, b"")?, 0, sink).await?;
        let meter = job.reporter.file(&url.path, None);
        let mut written = 0;
        while let Some(bytes) = queue.next().await {
            written += bytes.len() as u64;
            meter.add(bytes.len() as u64);
            tokio::task::spawn_blocking(move || write_out(&bytes)).await.unwrap_or_else(|_| {
                Err(Error::new(Exit::Local, "write to standard output", "interrupted"))
            })?;
        }
        let done = under_way.done().await;
        let result = match (done.result, done.data.error) {
            (Ok(_), None) => Ok(()),
            (Err(error), _) | (Ok(_), Some(error)) => Err(error),
        };
        match result {
            Ok(()) => {
                job.record.done(&url.path);
                job.reporter.done(&url.path, Action::Received, written, 0);
            }
            Err(error) if error.is_transient() && written > 0 => {
                return Err(Error { exit: Exit::TimedOut, ..error });
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => {
                let path = named_path(&url.path, b"")?;
                let is_no_file = error.exit == Exit::NoSuchPath
                    && matches!(facts(&client, &path).await?, Facts::Of(metadata) if metadata.kind == FileKind::Directory);
                let error = if is_no_file { is_folder(&url.path) } else { error };
                job.record.failed(&job.reporter, &url.path, Error { again: Again::Vain, ..error });
            }
        }
    }
    Ok(())
}

/// Which folders are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    /// Files only.
    No,
    /// Also folders.
    Yes,
    /// Only a folder that is empty.
    EmptyFolder,
}

/// One attempt to delete the paths of `urls`.
///
/// # Errors
///
/// The session has ended. Paths that cannot be deleted are in the job's record.
pub async fn remove(client: Client, job: Job, urls: Vec<Url>, recursion: Recursion) -> Result<()> {
    for url in &urls {
        if job.record.is_settled(&url.path) {
            continue;
        }
        let path = named_path(&url.path, b"")?;
        if recursion == Recursion::EmptyFolder {
            let what = format!("delete the folder {}", escape(&url.path));
            settle(&client, &job, Command::RemoveDirectory(path), &what, &url.path).await?;
            continue;
        }
        let is_folder = matches!(facts(&client, &path).await?, Facts::Of(metadata) if metadata.kind == FileKind::Directory);
        let what = format!("delete {}", escape(&url.path));
        match (is_folder, recursion) {
            (false, _) => settle(&client, &job, Command::Delete(path), &what, &url.path).await?,
            (true, Recursion::Yes) => remove_tree(&client, &job, &url.path).await?,
            (true, _) => {
                let error = Error::new(Exit::Refused, &what, "it is a folder")
                    .hint("-r deletes folders with all that is in them");
                job.record.failed(&job.reporter, &url.path, error);
            }
        }
    }
    Ok(())
}

async fn remove_tree(client: &Client, job: &Job, base: &[u8]) -> Result<()> {
    let form = folder_form(&client.features().await?);
    let mut tree = TreeBounds::new(client.bounds());
    let mut waiting: Vec<(SafePath, Unique)> = vec![(SafePath::ROOT, None)];
    let mut folders = Vec::new();
    while let Some((folder, unique)) = waiting.pop() {
        tree.check_depth(&folder)?;
        tree.enter(&folder, unique)?;
        let mut listing = Listing::ask(client, form, remote_path(base, folder.as_bytes())?).await?;
        while let Some(line) = listing.next().await? {
            tree.entry()?;
            let entry = match line {
                Line::Entry(entry) => entry,
                Line::Bad(line, why) => {
                    job.record.failed(&job.reporter, &line, bad_line(&line, &why));
                    continue;
                }
            };
            let Some(path) = entry.path.name().and_then(|name| folder.join(&name).ok()) else { continue };
            if entry.metadata.kind == FileKind::Directory {
                tree.hold(&path)?;
                waiting.push((path, entry.metadata.unique));
            } else {
                let what = format!("delete {path}");
                let command = Command::Delete(named_path(base, path.as_bytes())?);
                settle(client, job, command, &what, path.as_bytes()).await?;
            }
        }
        folders.push(folder);
    }
    // A folder was listed before its subfolders.
    for folder in folders.into_iter().rev() {
        let what = format!("delete the folder {}", escape(base));
        let command = Command::RemoveDirectory(named_path(base, folder.as_bytes())?);
        let name = if folder.is_root() { base } else { folder.as_bytes() };
        settle(client, job, command, &what, name).await?;
    }
    Ok(())
}

async fn settle(client: &Client, job: &Job, command: Command, what: &str, name: &[u8]) -> Result<()> {
    let reply = client.command(command).await?;
    match reply.code.is_error() {
        true => job.record.failed(&job.reporter, name, of_reply(what, &reply)),
        false => {
            job.record.done(name);
            job.reporter.done(name, Action::Deleted, 0, 0);
        }
    }
    Ok(())
}

/// One attempt to list or remove the server's unfinished uploads of the paths of `urls`.
///
/// # Errors
///
/// The session has ended. Refused paths are in the job's record.
pub async fn parts(client: Client, job: Job, urls: Vec<Url>, what: Parts) -> Result<()> {
    for url in &urls {
        if job.record.is_settled(&url.path) {
            continue;
        }
        let path = remote_path(&url.path, b"")?;
        let reply = client
            .command(Command::Site(match (what, path) {
                (Parts::Show(_), path) => Site::Parts(path),
                (Parts::Remove, path) => Site::RemoveParts(match path {
                    Some(path) => path,
                    None => named_path(b"/", b"")?,
                }),
            }))
            .await?;
        if reply.code.is_error() {
            let what = match what {
                Parts::Show(_) => format!("list the unfinished uploads of {}", escape(&url.path)),
                Parts::Remove => format!("remove the unfinished uploads of {}", escape(&url.path)),
            };
            job.record.failed(&job.reporter, &url.path, of_reply(&what, &reply));
            continue;
        }
        for line in &reply.lines {
            let Some((path, metadata)) = line.strip_prefix(b" ").and_then(part) else { continue };
            match what {
                Parts::Show(shown) => show(&job, path, &metadata, shown)?,
                Parts::Remove => job.reporter.done(path, Action::Deleted, 0, 0),
            }
        }
        job.record.done(&url.path);
    }
    Ok(())
}

/// What to do with unfinished uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// List them, unsorted.
    Show(Shown),
    /// Remove them.
    Remove,
}

/// `size YYYYMMDDhhmmss path`.
fn part(line: &[u8]) -> Option<(&[u8], Metadata)> {
    let mut words = line.splitn(3, |byte| *byte == b' ');
    let size = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    let modified = Some(Timestamp::parse(words.next()?)?);
    Some((words.next()?, Metadata { modified, ..Metadata::new(FileKind::File, size) }))
}

/// Whether missing parent folders are created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parents {
    /// They must exist.
    No,
    /// They are created, and an existing folder is no error.
    Make,
}

/// One attempt to create the folders of `urls`.
///
/// # Errors
///
/// The session has ended. Folders that cannot be created are in the job's record.
pub async fn make_folders(client: Client, job: Job, urls: Vec<Url>, parents: Parents) -> Result<()> {
    for url in &urls {
        if job.record.is_settled(&url.path) {
            continue;
        }
        let result = match parents {
            Parents::Make => make_folder_and_parents(&client, &url.path).await,
            Parents::No => {
                let reply = client.command(Command::MakeDirectory(named_path(&url.path, b"")?)).await?;
                match reply.code.is_error() {
                    true => Err(of_write_reply(&format!("make the folder {}", escape(&url.path)), &reply)),
                    false => Ok(()),
                }
            }
        };
        match result {
            Ok(()) => {
                job.record.done(&url.path);
                job.reporter.done(&url.path, Action::MadeFolder, 0, 0);
            }
            Err(error) if error.is_transient() => return Err(error),
            Err(error) => job.record.failed(&job.reporter, &url.path, error),
        }
    }
    Ok(())
}

/// Creates a folder and its parents. Only the last one must exist in the end: a server may hide the parents
/// or refuse to create them.
pub(super) async fn make_folder_and_parents(client: &Client, path: &[u8]) -> Result<()> {
    let mut asked = Vec::new();
    let ends = path.iter().enumerate().filter(|(at, byte)| **byte == b'/' && *at > 0).map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        let Some(folder) = PathArg::new(path[..end].to_vec()) else { continue };
        asked.push(client.begin_command(Command::MakeDirectory(folder)).await?);
    }
    let mut last = None;
    for asked in asked {
        last = Some(client.reply(asked).await?);
    }
    let Some(reply) = last.filter(|reply| reply.code.is_error()) else { return Ok(()) };
    match facts(client, &named_path(path, b"")?).await? {
        Facts::Of(metadata) if metadata.kind == FileKind::Directory => Ok(()),
        _ => Err(of_write_reply(&format!("make the folder {}", escape(path)), &reply)),
    }
}

/// One attempt to rename the URL's path to `to`.
///
/// # Errors
///
/// The session has ended, or the server refuses.
pub async fn rename(client: Client, job: Job, to: Vec<u8>) -> Result<()> {
    let what = format!("rename {} to {}", escape(&job.url.path), escape(&to));
    let from = client.command(Command::RenameFrom(named_path(&job.url.path, b"")?)).await?;
    if from.code.is_error() {
        return Err(of_reply(&what, &from));
    }
    let to = client.command(Command::RenameTo(named_path(&to, b"")?)).await?;
    if to.code.is_error() {
        return Err(of_write_reply(&what, &to));
    }
    job.record.done(&job.url.path);
    job.reporter.done(&job.url.path, Action::Renamed, 0, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_are_printed_as_by_ls() {
        assert_eq!((rights(0o754), rights(0o600)), ("rwxr-xr--".into(), "rw-------".into()));
    }
}
