//! Where results are kept: `OUT/<paper>/<figure>.csv`, with a Parquet file, an SVG and a PNG beside it.
//!
//! A sweep at work appends the runs of each finished point to `<figure>.csv.part`, whole lines in one write; when all
//! are there the rows are put in order and the file gets its name. What is left of a sweep that was killed is taken up
//! by the next one, if the same program makes the same rows.

pub mod csv;
pub mod parquet;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::figure::{Figure, Scene, Sweep};
use crate::sweep::Shard;
use crate::table::{Record, Rows};
use csv::{Head, Read};

/// What distinguishes the files of one figure from each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variety {
    /// Made by `--quick`.
    pub quick: bool,
    /// One part of several.
    pub shard: Option<Shard>,
}

/// A folder of results.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// A file that could not be read or written.
#[derive(Debug)]
pub struct StoreError {
    /// Which file.
    pub path: PathBuf,
    /// What was to be done with it.
    pub doing: &'static str,
    /// Why not.
    pub error: io::Error,
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.path.display(), self.error)
    }
}

impl std::error::Error for StoreError {}

impl Store {
    /// This folder; made when something is kept.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a figure, with this ending.
    pub fn path(&self, figure: &Figure, variety: Variety, ending: &str) -> PathBuf {
        let mut name = figure.id.to_owned();
        if variety.quick {
            name.push_str("-quick");
        }
        if let Some(Shard { index, of }) = variety.shard {
            name.push_str(&format!("-{index}-of-{of}"));
        }
        self.folder.join(format!("{name}.{ending}"))
    }

    /// What is kept of a sweep: all of it. `None` if there is nothing.
    pub fn sweep(
        &self,
        figure: &Figure,
        sweep: &Sweep,
        variety: Variety,
    ) -> Result<Option<Read>, StoreError> {
        read(&self.path(figure, variety, "csv"), sweep)
    }

    /// What is left of a sweep that was interrupted. `None` if there is nothing.
    pub fn unfinished(
        &self,
        figure: &Figure,
        sweep: &Sweep,
        variety: Variety,
    ) -> Result<Option<Read>, StoreError> {
        read(&self.path(figure, variety, "csv.part"), sweep)
    }

    /// The rows of a scene, if they are kept.
    pub fn scene(&self, figure: &Figure, variety: Variety) -> Result<Option<(Head, Rows)>, StoreError> {
        let path = self.path(figure, variety, "csv");
        match File::open(&path) {
            Ok(file) => {
                let read = csv::read_rows(file);
                read.map(Some).map_err(|error| StoreError { path, doing: "read", error })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError { path, doing: "read", error }),
        }
    }

    /// Begin the file of a sweep at work, with the rows that are there already.
    pub fn begin(
        &self,
        figure: &Figure,
        sweep: &Sweep,
        variety: Variety,
        head: &Head,
        known: &[Record],
    ) -> Result<Appending, StoreError> {
        let path = self.path(figure, variety, "csv.part");
        let mut text = head.to_string().into_bytes();
        text.extend(csv::titles(sweep));
        text.extend(csv::lines(sweep, known));
        whole(&path, &text)?;
        let failed = |error| StoreError { path: path.clone(), doing: "append to", error };
        let file = File::options().append(true).open(&path).map_err(failed)?;
        Ok(Appending { file, length: text.len() as u64, path })
    }

    /// The sweep is whole: give its rows their order and their names.
    pub fn finish(
        &self,
        figure: &Figure,
        sweep: &Sweep,
        variety: Variety,
        head: &Head,
        records: &[Record],
    ) -> Result<(), StoreError> {
        let mut text = head.to_string().into_bytes();
        text.extend(csv::titles(sweep));
        text.extend(csv::lines(sweep, records));
        whole(&self.path(figure, variety, "csv"), &text)?;
        let path = self.path(figure, variety, "parquet");
        let bytes = parquet::encode(sweep, head, records).map_err(|error| StoreError {
            path: path.clone(),
            doing: "encode",
            error: io::Error::other(error),
        })?;
        whole(&path, &bytes)?;
        let part = self.path(figure, variety, "csv.part");
        match std::fs::remove_file(&part) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError { path: part, doing: "remove", error })
            }
            _ => Ok(()),
        }
    }

    /// Keep a scene's rows and picture.
    pub fn keep_scene(
        &self,
        figure: &Figure,
        variety: Variety,
        head: &Head,
        scene: &Scene,
    ) -> Result<(), StoreError> {
        let mut text = head.to_string().into_bytes();
        text.extend(csv::scene(scene));
        whole(&self.path(figure, variety, "csv"), &text)
    }

    /// Keep anything else of a figure.
    pub fn keep(
        &self,
        figure: &Figure,
        variety: Variety,
        ending: &str,
        bytes: &[u8],
    ) -> Result<PathBuf, StoreError> {
        let path = self.path(figure, variety, ending);
        whole(&path, bytes)?;
        Ok(path)
    }

    /// The parts of a figure that shards made, as far as they are in this folder.
    pub fn shards(&self, figure: &Figure, quick: bool) -> Vec<PathBuf> {
        let whole = self.path(figure, Variety { quick, shard: None }, "csv");
        let (Some(folder), Some(stem)) = (whole.parent(), whole.file_stem().and_then(|stem| stem.to_str()))
        else {
            return Vec::new();
        };
        let is_shard = |path: &PathBuf| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
            let part = name.strip_prefix(stem).and_then(|rest| rest.strip_prefix('-')?.strip_suffix(".csv"));
            part.and_then(|part| part.split_once("-of-"))
                .is_some_and(|(index, of)| [index, of].iter().all(|number| number.parse::<usize>().is_ok()))
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_shard).collect();
        paths.sort();
        paths
    }
}

fn read(path: &Path, sweep: &Sweep) -> Result<Option<Read>, StoreError> {
    let failed = |error| StoreError { path: path.to_owned(), doing: "read", error };
    match File::open(path) {
        Ok(file) => csv::read(file, sweep).map(Some).map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

/// Write a file that is there whole or not at all.
fn whole(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    let failed = |error| StoreError { path: path.to_owned(), doing: "write", error };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mut name = path.file_name().expect("a file has a name").to_owned();
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let written = std::fs::write(&temporary, bytes).and_then(|()| std::fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&temporary);
        failed(error)
    })
}

/// The file of a sweep at work: it grows by whole lines.
#[derive(Debug)]
pub struct Appending {
    file: File,
    /// Of the rows that are whole, in bytes.
    length: u64,
    path: PathBuf,
}

impl Appending {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Append lines, all of them or none.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        match self.file.write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // A disk that has no room for more has room for less.
                self.file.set_len(self.length)?;
                Err(error)
            }
        }
    }
}
