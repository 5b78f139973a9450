//! The file of what was compared: `OUT/compare.csv`, a row for each run in either world, headed by where they come from.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Cell, Selection, select};
use crate::store::csv::{self, Head};

/// The titles of the columns.
const TITLES: &str = "cell,world,run,seed,seconds\n";

/// Where a run was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// In the simulator.
    Simulated,
    /// Between real programs.
    Live,
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Simulated => "simulated",
            Self::Live => "live",
        })
    }
}

/// One run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Of what.
    pub cell: Cell,
    /// Where.
    pub world: World,
    /// Which, from 0.
    pub run: u32,
    /// What it started from.
    pub seed: u64,
    /// How long it took.
    pub seconds: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, world, run, seed, seconds } = self;
        write!(f, "{cell},{world},{run},{seed},{seconds}")
    }
}

/// Where the rows are kept.
pub fn path(out: &Path, quick: bool) -> PathBuf {
    out.join(if quick { "compare-quick.csv" } else { "compare.csv" })
}

/// What is kept: of a whole comparison, or of a quick one. Nothing, if there is none that can be read.
pub fn kept(out: &Path) -> Option<(Head, Vec<Row>)> {
    [false, true].into_iter().find_map(|quick| read(&path(out, quick)).ok())
}

/// The rows of a file.
pub fn read(path: &Path) -> io::Result<(Head, Vec<Row>)> {
    let (head, read) = csv::read_rows(File::open(path)?)?;
    let wrong = |row: &[String]| io::Error::other(format!("`{}` is no row", row.join(",").escape_debug()));
    let rows = read.rows.iter().map(|row| parse(row).ok_or_else(|| wrong(row))).collect::<io::Result<_>>()?;
    Ok((head, rows))
}

fn parse(row: &[String]) -> Option<Row> {
    let [cell, world, run, seed, seconds] = row else { return None };
    let selected = select(&[cell.parse::<Selection>().ok()?]);
    let [cell] = selected[..] else { return None };
    let world = match world.as_str() {
        "simulated" => World::Simulated,
        "live" => World::Live,
        _ => return None,
    };
    let seconds = seconds.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds > 0.0)?;
    Some(Row { cell, world, run: run.parse().ok()?, seed: seed.parse().ok()?, seconds })
}

/// A file that grows by a row for each run, and gets its name when all are there.
#[derive(Debug)]
pub struct Growing {
    file: File,
    part: PathBuf,
    path: PathBuf,
}

impl Growing {
    /// Begins it.
    pub fn begin(path: PathBuf, head: &Head) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let part = path.with_extension("csv.part");
        let mut file = File::create(&part)?;
        file.write_all(format!("{head}{TITLES}").as_bytes())?;
        Ok(Self { file, part, path })
    }

    /// Where it is while it grows.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Adds a row.
    pub fn add(&mut self, row: &Row) -> io::Result<()> {
        self.file.write_all(format!("{row}\n").as_bytes())
    }

    /// All are there.
    pub fn finish(self) -> io::Result<PathBuf> {
        self.file.sync_all()?;
        std::fs::rename(&self.part, &self.path)?;
        Ok(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(kept(folder.path()), None);
        let cells = Cell::all();
        let row = |at: usize, world| Row {
            cell: cells[at],
            world,
            run: at as u32,
            seed: u64::MAX - at as u64,
            seconds: 1.0 / (at + 1) as f64,
        };
        let rows = [row(0, World::Simulated), row(7, World::Live), row(449, World::Live)];
        let mut head = Head::default();
        head.push("command", "braidlab compare");
        let mut growing = Growing::begin(path(folder.path(), true), &head).unwrap();
        rows.iter().for_each(|row| growing.add(row).unwrap());
        assert_eq!(kept(folder.path()), None, "it is not whole yet");
        growing.finish().unwrap();
        assert_eq!(kept(folder.path()), Some((head, rows.to_vec())));
    }

    #[test]
    fn a_row_that_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), false);
        for row in [
            "lan/10k/1/ms,live,0,1,-1",
            "lan/10k/*/ms,live,0,1,1",
            "lan/10k/1/ms,dead,0,1,1",
            "lan/10k/1/ms,live,0,1,inf",
        ] {
            std::fs::write(&path, format!("{TITLES}{row}\n")).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains(row), "{row}");
        }
    }
}
