//! Storage of results: `OUT/<paper>/<figure>.csv`, with a Parquet file, an SVG and a PNG beside it.
//!
//! A running sweep appends the runs of each finished point to `<figure>.csv.part`, as complete lines in one
//! write. At the end the rows are sorted and the file is renamed. The next sweep continues the file of an
//! interrupted one if the same build would create the same rows.

pub mod csv;
pub mod parquet;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::figure::{Figure, Scene, Sweep};
use crate::sweep::Shard;
use crate::table::{Record, Rows};
use csv::{Head, Read};

/// Distinguishes the files of one figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Variety {
    /// Whether `--quick` made them.
    pub quick: bool,
    /// The shard, if they are a part.
    pub shard: Option<Shard>,
}

/// A folder of results.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

/// An error reading or writing a file.
#[derive(Debug)]
pub struct StoreError {
    /// The file.
    pub path: PathBuf,
    /// The operation.
    pub doing: &'static str,
    /// The error.
    pub error: io::Error,
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cannot {} {}: {}", self.doing, self.path.display(), self.error)
    }
}

impl std::error::Error for StoreError {}

impl Store {
    /// Uses this folder, which is created when needed.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// The path.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a figure with this extension.
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

    /// Loads a complete sweep. `None` if there is none.
    pub fn sweep(
        &self,
        figure: &Figure,
        sweep: &Sweep,
        variety: Variety,
    ) -> Result<Option<Read>, StoreError> {
        read(&self.path(figure, variety, "csv"), sweep)
    }

    /// Loads an interrupted sweep. `None` if there is none.
    pub fn unfinished(
        &self,
        figure: &Figure,
        sweep: &Sweep,
        variety: Variety,
    ) -> Result<Option<Read>, StoreError> {
        read(&self.path(figure, variety, "csv.part"), sweep)
    }

    /// Loads the rows of a scene, if they are stored.
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

    /// Begins the file of a sweep, with the rows that are known already.
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

    /// Completes a sweep: sorts the rows and renames the file.
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

    /// Stores the rows and the picture of a scene.
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

    /// Stores another file of a figure.
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

    /// The parts of a figure in this folder that shards made.
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

/// Writes a file atomically.
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

/// The file of a running sweep, which grows by complete lines.
#[derive(Debug)]
pub struct Appending {
    file: File,
    /// The length of the complete rows in bytes.
    length: u64,
    path: PathBuf,
}

impl Appending {
    /// The path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends lines, all or none.
    pub fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        match self.file.write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => {
                // Truncating succeeds even on a full disk.
                self.file.set_len(self.length)?;
                Err(error)
            }
        }
    }
}
