//! Metadata of many files in one call to another thread; consecutive files of a folder share one open folder.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::{Metadata, Root, metadata_at, name};

/// The file at a path, and the temporary file of an interrupted transfer.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The metadata of the file, folder or link itself.
    pub file: Option<Metadata>,
    /// The metadata of the temporary file; not read if the file itself is enough.
    pub unfinished: Option<Metadata>,
}

impl Root {
    /// Reads the metadata of `paths`, and of the temporary file if `is_enough` returns false for the file.
    /// `None` where the folder cannot be reached without links or cannot be read; a separate call for that
    /// path returns the error.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn look<T: Send + 'static>(
        &self,
        paths: Vec<(PathBuf, T)>,
        is_enough: impl Fn(&Metadata, &T) -> bool + Send + 'static,
    ) -> Vec<Option<Found>> {
        self.blocking(move |root| {
            let mut folder: Option<(&Path, Result<Dir, Errno>)> = None;
            let mut found = Vec::with_capacity(paths.len());
            for (path, wanted) in &paths {
                let parent = path.parent().unwrap_or(Path::new(""));
                let dir = match &folder {
                    Some((known, dir)) if *known == parent => dir,
                    _ => &folder.insert((parent, root.folder_without_links(parent))).1,
                };
                found.push(match dir {
                    Ok(dir) => look_in(dir, path, |file| is_enough(file, wanted)),
                    Err(Errno::NOENT) => Some(Found::default()),
                    Err(_) => None,
                });
            }
            found
        })
        .await
    }

    fn folder_without_links(&self, path: &Path) -> Result<Dir, Errno> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let dir = rustix::fs::openat2(&*self.dir, path, flags, Mode::empty(), resolve)?;
        Ok(Dir::from_std_file(dir.into()))
    }
}

fn look_in(dir: &Dir, path: &Path, is_enough: impl Fn(&Metadata) -> bool) -> Option<Found> {
    let own = path.file_name()?;
    let look = |name: &Path| match metadata_at(dir, name) {
        Ok(metadata) => Some(Some(metadata)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    };
    let file = look(Path::new(own))?;
    let unfinished = match &file {
        Some(file) if is_enough(file) => None,
        _ => look(&name::unfinished(own))?,
    };
    Some(Found { file, unfinished })
}
