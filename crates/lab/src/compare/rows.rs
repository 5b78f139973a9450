//! The file of the comparison, `OUT/compare.csv`: a row for each run in either world, after a head with
//! their provenance.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{Cell, Selection, select};
use crate::store::csv::{self, Head};

/// The titles of the columns.
const TITLES: &str = "cell,world,run,seed,seconds\n";

/// The world of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// The simulator.
    Simulated,
    /// Real programs.
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
    /// The cell.
    pub cell: Cell,
    /// The world.
    pub world: World,
    /// The number of the run, from 0.
    pub run: u32,
    /// Its seed.
    pub seed: u64,
    /// Its duration in seconds.
    pub seconds: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cell, world, run, seed, seconds } = self;
        write!(f, "{cell},{world},{run},{seed},{seconds}")
    }
}

/// The path of the file.
pub fn path(out: &Path, quick: bool) -> PathBuf {
    out.join(if quick { "compare-quick.csv" } else { "compare.csv" })
}

/// Returns the stored comparison: the full one, else the quick one, else `None`.
pub fn kept(out: &Path) -> Option<(Head, Vec<Row>)> {
    [false, true].into_iter().find_map(|quick| read(&path(out, quick)).ok())
}

/// Reads the rows of a file.
pub fn read(path: &Path) -> io::Result<(Head, Vec<Row>)> {
    let (head, read) = csv::read_rows(File::open(path)?)?;
    let wrong = |row: &[String]| io::Error::other(format!("`{}` is not a row", row.join(",").escape_debug()));
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

/// A file that grows by a row for each run, and is renamed when it is complete.
#[derive(Debug)]
pub struct Growing {
    file: File,
    part: PathBuf,
    path: PathBuf,
}

impl Growing {
    /// Creates the file.
    pub fn begin(path: PathBuf, head: &Head) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let part = path.with_extension("csv.part");
        let mut file = File::create(&part)?;
        file.write_all(format!("{head}{TITLES}").as_bytes())?;
        Ok(Self { file, part, path })
    }

    /// The path while the file is incomplete.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Appends a row.
    pub fn add(&mut self, row: &Row) -> io::Result<()> {
        self.file.write_all(format!("{row}\n").as_bytes())
    }

    /// Completes the file.
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
    fn written_rows_are_read_back() {
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
        assert_eq!(kept(folder.path()), None, "it is incomplete");
        growing.finish().unwrap();
        assert_eq!(kept(folder.path()), Some((head, rows.to_vec())));
    }

    #[test]
    fn an_invalid_row_is_reported() {
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
