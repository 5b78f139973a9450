//! The CSV files: lines of `#` with the provenance, a line of titles, a row for each run.

use std::fmt::{self, Write as _};
use std::io;

use crate::figure::{Figure, Runs, Scene, Sweep};
use crate::table::{Record, Rows};

/// The provenance of rows, at the beginning of their file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Head {
    /// Names and texts, in order.
    pub lines: Vec<(String, String)>,
}

/// The line with the points that reached the maximum number of runs.
pub const CAPPED: &str = "capped";
/// The line with the distribution of a point's runs.
pub const TAIL: &str = "tail";
/// The line with the build that made the rows.
pub const BUILD: &str = "build";
/// The line with the commit of that build.
pub const COMMIT: &str = "commit";
/// The line with the version of braidlab.
pub const VERSION: &str = "braidlab";
/// The line with the version of the compiler.
pub const COMPILER: &str = "rustc";

impl Head {
    /// Creates the head for the rows of a figure.
    pub fn new(figure: &Figure, command: &str, seed: u64, runs: Option<Runs>) -> Self {
        let mut head = Self::default();
        head.push("figure", format!("{}: {}", figure.id, figure.shows));
        head.lines.extend(Self::of_program(command).lines);
        let pairs = figure.sweep().map(|sweep| sweep.paired.join(", ")).unwrap_or_default();
        let pairs = if pairs.is_empty() { String::new() } else { format!(", the same whatever {pairs}") };
        head.push("seeds", format!("from {seed}{pairs}"));
        if let Some(runs) = runs.filter(Runs::is_counted) {
            head.push("runs", format!("{} a point", runs.max));
        } else if let Some(Runs { min, max, within }) = runs {
            head.push(
                "runs",
                format!("{min} to {max} a point, until the 90 % interval is within {} %", within * 100.0),
            );
        }
        for line in (figure.settings)() {
            head.push("setting", line);
        }
        head
    }

    /// Creates the head for other rows.
    pub fn of_program(command: &str) -> Self {
        let mut head = Self::default();
        head.push("command", command);
        head.push(VERSION, env!("CARGO_PKG_VERSION"));
        head.push(COMPILER, env!("BRAIDFTP_RUSTC"));
        head.push(COMMIT, env!("BRAIDFTP_COMMIT"));
        head.push(BUILD, crate::build());
        head
    }

    /// Adds a line.
    pub fn push(&mut self, name: &str, says: impl Into<String>) {
        let says = says.into().replace(['\n', '\r'], " ");
        self.lines.push((name.to_owned(), says));
    }

    /// Returns the text of a line.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(its, _)| its == name).map(|(_, says)| says.as_str())
    }

    /// Whether rows under both heads may be combined: they are equal except for the command and the
    /// findings about the rows.
    pub fn goes_with(&self, other: &Self) -> bool {
        let essence = |head: &Self| {
            let lines =
                head.lines.iter().filter(|(name, _)| !["command", CAPPED, TAIL].contains(&name.as_str()));
            lines.cloned().collect::<Vec<_>>()
        };
        essence(self) == essence(other)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, says) in &self.lines {
            writeln!(f, "# {name}: {says}")?;
        }
        Ok(())
    }
}

/// The contents of a file.
#[derive(Debug, Clone)]
pub struct Read {
    /// The provenance of the rows.
    pub head: Head,
    /// The rows. An incomplete last line is left out.
    pub records: Vec<Record>,
}

/// The line of titles of a sweep.
pub fn titles(sweep: &Sweep) -> Vec<u8> {
    let axes = sweep.axes.iter().map(|axis| axis.name);
    let titles: Vec<&str> =
        axes.chain(["run", "seed"]).chain(sweep.columns.iter().map(|column| column.name)).collect();
    write(|writer| writer.write_record(&titles))
}

/// The lines of runs.
pub fn lines(sweep: &Sweep, records: &[Record]) -> Vec<u8> {
    let points = sweep.points();
    write(|writer| {
        for record in records {
            let places = points[record.point].places().iter().map(|(_, value)| value.to_string());
            let numbers = record.numbers.iter().map(f64::to_string);
            let fields = places.chain([record.run.to_string(), record.seed.to_string()]).chain(numbers);
            writer.write_record(fields)?;
        }
        Ok(())
    })
}

/// The titles and lines of a scene.
pub fn scene(scene: &Scene) -> Vec<u8> {
    write(|writer| {
        writer.write_record(&scene.columns)?;
        scene.rows.iter().try_for_each(|row| writer.write_record(row))
    })
}

fn write(fill: impl FnOnce(&mut ::csv::Writer<Vec<u8>>) -> ::csv::Result<()>) -> Vec<u8> {
    let mut writer = ::csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    fill(&mut writer).expect("writing to memory cannot fail");
    writer.into_inner().expect("writing to memory cannot fail")
}

/// Reads the file of a sweep.
pub fn read(mut from: impl io::Read, sweep: &Sweep) -> io::Result<Read> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    let (head, body) = head(&text);
    let expected = String::from_utf8(titles(sweep)).expect("titles are text");
    let Some(rows) = body.strip_prefix(&expected) else {
        let found = body.lines().next().unwrap_or("nothing");
        return Err(io::Error::other(format!(
            "its columns are not those of this figure: `{}` instead of `{}`; it was made by another version: move it away, or run with --fresh",
            found.escape_debug(),
            expected.trim_end()
        )));
    };
    // A line that was incomplete when the disk was full or the machine stopped.
    let rows = &rows[..rows.rfind('\n').map_or(0, |end| end + 1)];
    let points: Vec<Vec<String>> = sweep
        .points()
        .iter()
        .map(|point| point.places().iter().map(|(_, value)| value.to_string()).collect())
        .collect();
    let mut records = Vec::new();
    let mut reader = ::csv::ReaderBuilder::new().has_headers(false).from_reader(rows.as_bytes());
    for (index, line) in reader.records().enumerate() {
        let wrong = |what: String| {
            let line = index + head.lines.len() + 2;
            io::Error::other(format!("line {line}: {what}; move the file away, or run with --fresh"))
        };
        let line = line.map_err(|error| wrong(error.to_string()))?;
        let fields: Vec<&str> = line.iter().collect();
        let axes = sweep.axes.len();
        if fields.len() != axes + 2 + sweep.columns.len() {
            return Err(wrong(format!(
                "{} fields instead of {}",
                fields.len(),
                axes + 2 + sweep.columns.len()
            )));
        }
        let point =
            points.iter().position(|point| point.iter().zip(&fields).all(|(its, field)| its == field));
        let point = point.ok_or_else(|| wrong(format!("no point `{}`", fields[..axes].join(" "))))?;
        let number =
            |field: &str| field.parse::<f64>().map_err(|_| wrong(format!("`{field}` is not a number")));
        let integer =
            |field: &str| field.parse::<u64>().map_err(|_| wrong(format!("`{field}` is not a number")));
        records.push(Record {
            point,
            run: u32::try_from(integer(fields[axes])?).map_err(|_| wrong("too many runs".into()))?,
            seed: integer(fields[axes + 1])?,
            numbers: fields[axes + 2..].iter().map(|field| number(field)).collect::<Result<_, _>>()?,
        });
    }
    records.sort_by_key(|record| (record.point, record.run));
    records.dedup_by_key(|record| (record.point, record.run));
    Ok(Read { head, records })
}

/// Reads the file of a scene.
pub fn read_rows(mut from: impl io::Read) -> io::Result<(Head, Rows)> {
    let mut text = String::new();
    from.read_to_string(&mut text)?;
    let (head, body) = head(&text);
    let mut reader = ::csv::ReaderBuilder::new().from_reader(body.as_bytes());
    let columns = reader.headers().map_err(io::Error::other)?.iter().map(str::to_owned).collect();
    let mut rows = Vec::new();
    for line in reader.records() {
        rows.push(line.map_err(io::Error::other)?.iter().map(str::to_owned).collect());
    }
    Ok((head, Rows { columns, rows }))
}

/// The lines of provenance, and the rest.
fn head(text: &str) -> (Head, &str) {
    let mut head = Head::default();
    let mut rest = text;
    while let Some((line, after)) = rest.split_once('\n')
        && let Some(line) = line.strip_prefix("# ")
    {
        let (name, says) = line.split_once(": ").unwrap_or((line, ""));
        head.lines.push((name.to_owned(), says.to_owned()));
        rest = after;
    }
    (head, rest)
}

/// The means of all points as text.
pub fn summary(table: &crate::table::Table) -> String {
    let sweep = table.sweep();
    let mut text = String::new();
    for index in 0..table.points().len() {
        let cell = table.cell(index);
        if cell.runs() == 0 {
            continue;
        }
        let first = &sweep.columns[0];
        let _ = writeln!(
            text,
            "{}: {} {}, median {}, {}",
            cell.point(),
            cell.mean(first.name),
            first.unit,
            crate::stats::short(cell.quantile(first.name, 0.5)),
            crate::stats::count(cell.runs(), "run")
        );
    }
    text
}
