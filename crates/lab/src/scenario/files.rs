//! The files that a scenario names, in the scenario's folder: recorded links and arrivals. Each is read once.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sim::link::{Bandwidth, Steps, Trace};

/// The maximum length of a file in bytes.
const BYTES_MAX: u64 = 256 << 20;
/// The maximum number of arrivals in a file.
const ARRIVALS_MAX: usize = 100_000;

/// The files beside a scenario.
#[derive(Debug, Default)]
pub(super) struct Files {
    folder: Option<PathBuf>,
    links: Mutex<BTreeMap<String, Bandwidth>>,
    arrivals: Mutex<BTreeMap<String, Arc<[Arrival]>>>,
    digests: Mutex<BTreeMap<String, String>>,
}

/// A recorded download.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    /// When it begins.
    pub at: Duration,
    /// Its size.
    pub bytes: u64,
}

impl Files {
    /// The files of this folder; `None`: files are not available.
    pub(super) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, ..Self::default() }
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let Some(folder) = &self.folder else {
            return Err("a scenario that is built in has no files".to_owned());
        };
        let path = folder.join(name);
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let file = std::fs::File::open(&path).map_err(failed)?;
        let mut text = String::new();
        file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(format!("{} is longer than {} MiB", path.display(), BYTES_MAX >> 20));
        }
        let digest = blake3::hash(text.as_bytes()).to_hex()[..16].to_owned();
        self.digests.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), digest);
        Ok(text)
    }

    /// A line for each file that was read, with the beginning of its digest.
    pub(super) fn digests(&self) -> Vec<String> {
        let digests = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        digests.iter().map(|(name, digest)| format!("file {name}: BLAKE3 {digest}")).collect()
    }

    /// Reads a recorded link.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a line is invalid.
    pub(super) fn link(&self, name: &str) -> Result<Bandwidth, String> {
        let mut known = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = known.get(name) {
            return Ok(link.clone());
        }
        let text = self.read(name)?;
        let link = if name.ends_with(".csv") {
            steps(name, &text)?
        } else {
            Bandwidth::Trace(Arc::new(Trace::parse(name, &text).map_err(|error| error.to_string())?))
        };
        known.insert(name.to_owned(), link.clone());
        Ok(link)
    }

    /// Reads recorded arrivals.
    ///
    /// # Errors
    ///
    /// It cannot be read, or a line is invalid.
    pub(super) fn arrivals(&self, name: &str) -> Result<Arc<[Arrival]>, String> {
        let mut known = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arrivals) = known.get(name) {
            return Ok(Arc::clone(arrivals));
        }
        let rows = columns(name, &self.read(name)?, ["seconds", "bytes"], ARRIVALS_MAX)?;
        let arrival = |[seconds, bytes]: [f64; 2]| Arrival {
            at: Duration::from_secs_f64(seconds),
            bytes: bytes as u64,
        };
        let arrivals: Arc<[Arrival]> = rows.into_iter().map(arrival).collect();
        known.insert(name.to_owned(), Arc::clone(&arrivals));
        Ok(arrivals)
    }
}

/// A rate that changes over time.
fn steps(name: &str, text: &str) -> Result<Bandwidth, String> {
    let rows = columns(name, text, ["seconds", "bits_per_second"], ARRIVALS_MAX)?;
    let mut steps = rows.into_iter().map(|[seconds, rate]| {
        (Time::ZERO + Duration::from_secs_f64(seconds), Rate::from_bits_per_second(rate as u64))
    });
    match steps.next() {
        Some((Time::ZERO, first)) => Steps::new(first, steps.collect())
            .map(|steps| Bandwidth::Steps(Arc::new(steps)))
            .map_err(|error| error.to_string()),
        _ => Err(format!("{name}: the first rate is that at 0 seconds")),
    }
}

/// Two columns of a CSV file; the first one, a time, is ascending.
fn columns(name: &str, text: &str, titles: [&str; 2], rows_max: usize) -> Result<Vec<[f64; 2]>, String> {
    let mut reader =
        csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let found = reader.headers().map_err(|error| format!("{name}: {error}"))?;
    let place = |title: &str| {
        let place = found.iter().position(|its| its == title);
        place.ok_or_else(|| format!("{name}: no column `{title}`; its first line is `{}`", titles.join(",")))
    };
    let places = [place(titles[0])?, place(titles[1])?];
    let mut rows: Vec<[f64; 2]> = Vec::new();
    for (at, record) in reader.records().enumerate() {
        let record = record.map_err(|error| format!("{name}: {error}"))?;
        let line = record.position().map_or(0, csv::Position::line);
        let number = |at: usize| {
            let field = record.get(places[at]).unwrap_or("");
            let number = field.parse::<f64>().ok().filter(|number| (0.0..=1e15).contains(number));
            number.ok_or_else(|| {
                format!("{name}, line {line}: `{}` is not a {}", field.escape_debug(), titles[at])
            })
        };
        let row = [number(0)?, number(1)?];
        if row[0] > 3.2e9 {
            return Err(format!("{name}, line {line}: {} seconds are more than a century", row[0]));
        }
        if rows.last().is_some_and(|last| last[0] > row[0]) {
            return Err(format!("{name}, line {line}: {} s is earlier than the line before", row[0]));
        }
        if at == rows_max {
            return Err(format!("{name} has more than {rows_max} lines"));
        }
        rows.push(row);
    }
    if rows.is_empty() { Err(format!("{name} has no lines")) } else { Ok(rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_and_invalid_lines_reported() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("rate.csv", "seconds, bits_per_second\n0,1000000\n10,2000000\n");
        write("late.csv", "seconds,bits_per_second\n1,1000000\n");
        write("back.csv", "seconds,bits_per_second\n0,1000000\n-1,5\n");
        write("up.trace", "1\n2\n");
        write("web.csv", "# recorded\nbytes,seconds\n1500,0.25\n");
        write("fall.csv", "seconds,bytes\n2,1\n1,1\n");
        let files = Files::new(Some(folder.path().to_owned()));
        assert!(matches!(files.link("rate.csv"), Ok(Bandwidth::Steps(_))));
        assert!(matches!(files.link("up.trace"), Ok(Bandwidth::Trace(_))));
        assert_eq!(
            files.arrivals("web.csv").unwrap()[0],
            Arrival { at: Duration::from_millis(250), bytes: 1_500 }
        );
        for (error, said) in [
            (files.link("late.csv").unwrap_err(), "the first rate is that at 0 seconds"),
            (files.link("back.csv").unwrap_err(), "back.csv, line 3: `-1` is not a seconds"),
            (files.link("no.csv").unwrap_err(), "cannot read"),
            (files.arrivals("rate.csv").unwrap_err(), "no column `bytes`"),
            (files.arrivals("fall.csv").unwrap_err(), "fall.csv, line 3: 1 s is earlier"),
            (Files::default().link("up.trace").unwrap_err(), "has no files"),
        ] {
            assert!(error.contains(said), "{error}");
        }
    }
}
