//! Commands that read a whole remote tree and move nothing: `ls -R`, `du`, `find`, `tree`.

use std::collections::BTreeMap;

use braidftp_ftp::SafePath;
use braidftp_ftp::client::ListForm;
use braidftp_ftp::listing::Listed;
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::store::{FileKind, Metadata};
use indicatif::HumanBytes;

use super::bounds::{TreeBounds, Unique};
use super::files::{Form, Shown, say, show};
use super::filter::name_glob;
use super::listing::{Line, Listing, bad_line, folder_form, missing};
use super::{Job, remote_path};
use crate::client::{Client, Size};
use crate::exit::{Error, Exit, Result, escape};
use crate::report::Event;
use crate::url::Url;

/// The number of entries of a whole tree that are passed on together.
const AT_ONCE: usize = 256;

/// The kind of output about a tree.
#[derive(Debug, Clone)]
pub enum Reading {
    /// One line per path (`ls -R`).
    List(Shown),
    /// The total size of the files in each folder (`du`).
    Usage {
        /// Whether only the total is printed.
        whole: bool,
        /// The format.
        form: Form,
    },
    /// The matching paths (`find`).
    Find(Find),
    /// A drawing of the tree (`tree`).
    Draw,
}

/// The conditions of `find`, all of which must hold.
#[derive(Debug, Clone, Default)]
pub struct Find {
    /// A glob for the last name.
    pub name: Option<String>,
    /// The kind.
    pub kind: Option<FileKind>,
    /// The minimum size of files.
    pub larger: Option<Size>,
    /// The time after which the entry must have changed, in seconds since 1970.
    pub newer_than: Option<i64>,
    /// The format.
    pub form: Option<Form>,
}

/// One attempt to read the trees of `urls`.
///
/// # Errors
///
/// The session has ended, or a tree cannot be listed. Folders in it that cannot be listed are in the job's
/// record.
pub async fn read_trees(client: Client, job: Job, urls: Vec<Url>, reading: Reading) -> Result<()> {
    for url in &urls {
        let tree = collect(&client, &job, &url.path).await?;
        if urls.len() > 1 && matches!(reading, Reading::List(Shown { form: Form::Text, .. }) | Reading::Draw)
        {
            say(format_args!("{}:", escape(&url.path)))?;
        }
        match &reading {
            Reading::List(shown) => {
                tree.iter().try_for_each(|(path, metadata)| show(&job, path.as_bytes(), metadata, *shown))?;
            }
            Reading::Usage { whole, form } => usage(&job, &tree, *whole, *form)?,
            Reading::Find(find) => search(&job, &tree, find)?,
            Reading::Draw => drawing(&tree).iter().try_for_each(|line| say(format_args!("{line}")))?,
        }
        job.record.done(&url.path);
    }
    Ok(())
}

/// Everything below a folder, each folder before its contents, names in byte order.
async fn collect(client: &Client, job: &Job, base: &[u8]) -> Result<Vec<(SafePath, Metadata)>> {
    let mut tree = RemoteTree::begin(client, job, base, Held::All).await?;
    let mut found = Vec::new();
    while let Some(entries) = tree.next().await? {
        found.extend(entries);
    }
    found.sort_by(|(a, _), (b, _)| a.components().cmp(b.components()));
    Ok(found)
}

/// What the caller keeps of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// All entries.
    All,
    /// None beyond the next call.
    None,
}

/// Reads everything below a folder, some entries at a time. In braid they are returned while the listing arrives, elsewhere
/// when their folder is listed, so that commands about them do not wait for an unread listing.
pub(super) struct RemoteTree<'a> {
    client: &'a Client,
    job: &'a Job,
    base: &'a [u8],
    form: ListForm,
    held: Held,
    bounds: TreeBounds,
    /// The open listing, and its folder.
    listing: Option<(SafePath, Listing)>,
    /// Folders to be listed.
    waiting: Vec<(SafePath, Unique)>,
}

impl<'a> RemoteTree<'a> {
    pub(super) async fn begin(client: &'a Client, job: &'a Job, base: &'a [u8], held: Held) -> Result<Self> {
        let form = match client.mode() {
            Mode::Braid => ListForm::Tree,
            _ => folder_form(&client.features().await?),
        };
        let mut bounds = TreeBounds::new(client.bounds());
        bounds.hold(&SafePath::ROOT)?;
        let waiting = vec![(SafePath::ROOT, None)];
        Ok(Self { client, job, base, form, held, bounds, listing: None, waiting })
    }

    fn is_whole(&self) -> bool {
        self.form == ListForm::Tree
    }

    /// The next entries, perhaps none; `None` at the end.
    ///
    /// # Errors
    ///
    /// The session has ended, or the tree cannot be listed. Folders that cannot be listed are in the job's record.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<(SafePath, Metadata)>>> {
        let (folder, mut listing) = match self.listing.take() {
            Some(open) => open,
            None => {
                let Some((folder, unique)) = self.waiting.pop() else { return Ok(None) };
                self.bounds.release(&folder);
                self.bounds.check_depth(&folder)?;
                self.bounds.enter(&folder, unique)?;
                let path = remote_path(self.base, folder.as_bytes())?;
                let listing = Listing::ask(self.client, self.form, path).await?;
                (folder, listing)
            }
        };
        let mut found: Vec<(SafePath, Metadata)> = Vec::new();
        loop {
            match listing.next().await {
                Ok(Some(line)) => found.extend(self.entry(&folder, line)?),
                Ok(None) => {
                    if folder.is_root() {
                        listing.check_folder(self.client, self.base).await?;
                    }
                    break;
                }
                Err(error) if folder.is_root() || error.is_transient() => return Err(error),
                Err(error) => {
                    self.job.record.failed(&self.job.reporter, folder.as_bytes(), error);
                    break;
                }
            }
            if self.is_whole() && found.len() >= AT_ONCE {
                self.listing = Some((folder, listing));
                break;
            }
        }
        if self.held == Held::None {
            found.iter().for_each(|(path, metadata)| self.bounds.release_entry(path, metadata));
        }
        Ok(Some(found))
    }

    /// The entry of a line in the listing of `folder`.
    fn entry(&mut self, folder: &SafePath, line: Line) -> Result<Option<(SafePath, Metadata)>> {
        let job = self.job;
        self.bounds.entry()?;
        let entry = match line {
            Line::Entry(entry) => *entry,
            Line::Bad(line, why) => {
                job.record.failed(&job.reporter, &line, bad_line(&line, &why));
                return Ok(None);
            }
        };
        let path = match (self.is_whole(), entry.path.name()) {
            (true, _) => entry.path.clone(),
            (false, None) => folder.clone(),
            (false, Some(name)) => match folder.join(&name) {
                Ok(path) => path,
                Err(error) => {
                    let error = bad_line(name.as_bytes(), &error.to_string());
                    job.record.failed(&job.reporter, name.as_bytes(), error);
                    return Ok(None);
                }
            },
        };
        if let Listed::Incomplete(gap) = &entry.listed {
            let (path, error) = missing(&path, gap);
            job.record.failed(&job.reporter, &path, error);
            return Ok(None);
        }
        if entry.path.is_root() {
            if self.is_whole() && entry.metadata.kind != FileKind::Directory {
                return Err(Error::new(
                    Exit::NoSuchPath,
                    format_args!("list the tree {}", escape(self.base)),
                    "it is no folder",
                )
                .hint("braidftp ls shows single files"));
            }
            return Ok(None);
        }
        self.bounds.check_depth(&path.parent().unwrap_or_default())?;
        self.bounds.hold_entry(&path, &entry.metadata)?;
        if !self.is_whole() && entry.metadata.kind == FileKind::Directory {
            self.bounds.hold(&path)?;
            self.waiting.push((path.clone(), entry.metadata.unique));
        }
        Ok(Some((path, entry.metadata)))
    }
}

/// The total size of the files in and below each folder; the root is `.`.
fn sums(tree: &[(SafePath, Metadata)]) -> BTreeMap<SafePath, u64> {
    let mut sums = BTreeMap::from([(SafePath::ROOT, 0)]);
    for (path, metadata) in tree {
        match metadata.kind {
            FileKind::Directory => {
                sums.entry(path.clone()).or_default();
            }
            FileKind::File => {
                for folder in std::iter::successors(path.parent(), SafePath::parent) {
                    *sums.entry(folder).or_default() += metadata.size;
                }
            }
            FileKind::Symlink | FileKind::Other => {}
        }
    }
    sums
}

fn usage(job: &Job, tree: &[(SafePath, Metadata)], whole: bool, form: Form) -> Result<()> {
    for (path, bytes) in sums(tree) {
        if whole && !path.is_root() {
            continue;
        }
        let name = if path.is_root() { ".".to_owned() } else { escape(path.as_bytes()) };
        match form {
            Form::Json => job.reporter.event(&Event::Usage { path: name, bytes }),
            Form::Text => say(format_args!("{:>12}  {name}", HumanBytes(bytes).to_string()))?,
        }
    }
    Ok(())
}

fn search(job: &Job, tree: &[(SafePath, Metadata)], find: &Find) -> Result<()> {
    let glob = find.name.as_deref().map(name_glob).transpose()?;
    for (path, metadata) in tree {
        let name = path.name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let matches = glob.as_ref().is_none_or(|glob| glob(&name))
            && find.kind.is_none_or(|kind| kind == metadata.kind)
            && find
                .larger
                .is_none_or(|Size(bytes)| metadata.kind == FileKind::File && metadata.size >= bytes)
            && find.newer_than.is_none_or(|then| metadata.modified.is_some_and(|at| at.seconds > then));
        if matches {
            match find.form {
                Some(Form::Json) => show(
                    job,
                    path.as_bytes(),
                    metadata,
                    Shown { form: Form::Json, long: false, sorted: true },
                )?,
                _ => say(format_args!("{}", escape(path.as_bytes())))?,
            }
        }
    }
    Ok(())
}

/// The lines of a drawing, each with the branches of its parent folders.
fn drawing(tree: &[(SafePath, Metadata)]) -> Vec<String> {
    let depth = |path: &SafePath| path.components().count();
    // The last entry of a folder: at its depth nothing follows before an entry of a smaller depth.
    let mut is_last = vec![false; tree.len()];
    let mut open: Vec<bool> = Vec::new();
    for (at, (path, _)) in tree.iter().enumerate().rev() {
        let level = depth(path);
        open.resize(level.max(open.len()), false);
        open.truncate(level);
        is_last[at] = !open[level - 1];
        open[level - 1] = true;
    }
    let mut lines = vec![".".to_owned()];
    let mut lasts: Vec<bool> = Vec::new();
    for ((path, metadata), last) in tree.iter().zip(is_last) {
        lasts.truncate(depth(path) - 1);
        let branches: String = lasts.iter().map(|last| if *last { "    " } else { "│   " }).collect();
        let name = path.name().map(|name| escape(name.as_bytes())).unwrap_or_default();
        let end = match (&metadata.kind, &metadata.target) {
            (FileKind::Directory, _) => "/".to_owned(),
            (FileKind::Symlink, Some(target)) => format!(" -> {}", escape(target)),
            _ => String::new(),
        };
        lines.push(format!("{branches}{}{name}{end}", if last { "└── " } else { "├── " }));
        lasts.push(last);
    }
    let folders = tree.iter().filter(|(_, metadata)| metadata.kind == FileKind::Directory).count();
    lines.push(format!("{folders} folders, {} files", tree.len() - folders));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[(&str, u64)]) -> Vec<(SafePath, Metadata)> {
        let entry = |(path, size): &(&str, u64)| {
            let (path, kind) = match path.strip_suffix('/') {
                Some(folder) => (folder, FileKind::Directory),
                None => (*path, FileKind::File),
            };
            (SafePath::strict(path.as_bytes()).unwrap(), Metadata::new(kind, *size))
        };
        paths.iter().map(entry).collect()
    }

    #[test]
    fn a_tree_is_drawn_with_its_branches() {
        let tree = tree(&[("a/", 0), ("a/b/", 0), ("a/b/c", 1), ("a/d", 1), ("e/", 0), ("e/f", 1)]);
        let expected = [
            ".",
            "├── a/",
            "│   ├── b/",
            "│   │   └── c",
            "│   └── d",
            "└── e/",
            "    └── f",
            "3 folders, 3 files",
        ];
        assert_eq!(drawing(&tree), expected);
    }

    #[test]
    fn the_size_of_a_folder_includes_everything_below_it() {
        let sums = sums(&tree(&[("a/", 0), ("a/b/", 0), ("a/b/c", 3), ("a/d", 4), ("e", 5)]));
        let of = |path: &str| sums[&SafePath::strict(path.as_bytes()).unwrap()];
        assert_eq!((sums[&SafePath::ROOT], of("a"), of("a/b")), (12, 7, 3));
    }
}
