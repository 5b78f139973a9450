//! Plans of a mirror: writes the steps of a dry run to a file for people (TOML), and executes exactly these
//! steps later.
//!
//! A step contains an action and a path, the facts of the source at that time (size, time, mode, target), and
//! the state of the destination. `--apply` compares both trees with the plan before it changes anything. It
//! refuses if a step no longer matches them, or if they contain changes that the plan does not know. If the
//! source of a path changes during the execution, only that path fails. Completed steps are accepted, so that
//! an interrupted plan can be applied again. `skip = true` leaves a step out.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use braidftp_ftp::stamp::Timestamp;
use toml::de::{DeTable, DeValue};

use super::{Ready, path_hash};
use crate::exit::{Error, Exit, Result, escape};
use crate::mistakes::{Mistakes, nearest};
use crate::report::Action;

/// The maximum size of a plan in bytes: several hundred for each of ten million steps.
const FILE_BYTES_MAX: u64 = 4 << 30;
/// The maximum number of paths named in a refusal.
const NAMED_MAX: usize = 20;
/// The actions and their names in a plan.
const ACTIONS: [(&str, Action); 9] = [
    ("receive", Action::Received),
    ("send", Action::Sent),
    ("link", Action::Linked),
    ("hard-link", Action::HardLinked),
    ("make-folder", Action::MadeFolder),
    ("set-mode", Action::SetMode),
    ("set-time", Action::SetTime),
    ("delete", Action::Deleted),
    ("skip", Action::Skipped),
];
/// The keys of a step.
const STEP_KEYS: [&str; 8] = ["do", "path", "size", "time", "mode", "target", "was", "skip"];
/// The keys of the file.
const KEYS: [&str; 6] = ["version", "direction", "url", "folder", "options", "steps"];

/// The facts of a path at the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) size: Option<u64>,
    pub(crate) time: Option<Timestamp>,
    pub(crate) mode: Option<u32>,
    pub(crate) target: Option<Vec<u8>>,
}

/// One action on a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) action: Action,
    pub(crate) facts: Facts,
    /// The state of the destination: `missing`, `file SIZE TIME`, `folder`, `link` or `other`.
    pub(crate) was: String,
    /// Whether the step is left out.
    skip: bool,
    /// The line in the plan.
    line: usize,
}

/// The use of a plan by a mirror. Clones share it.
#[derive(Debug, Clone, Default)]
pub enum Plan {
    /// No plan.
    #[default]
    None,
    /// The steps of a dry run are written to a file.
    Write(Writing),
    /// The steps of a file are executed.
    Apply(Applying),
}

/// A plan that is being written.
#[derive(Debug, Clone)]
pub struct Writing {
    path: PathBuf,
    header: Header,
    out: Arc<Mutex<Option<Part>>>,
}

/// The temporary file, and its writer.
type Part = (PathBuf, BufWriter<File>);

/// A plan that is being applied.
#[derive(Debug, Clone)]
pub struct Applying(Arc<Applied>);

#[derive(Debug)]
struct Applied {
    path: PathBuf,
    steps: HashMap<u128, (Vec<u8>, Step), BuildHasherDefault<Ready>>,
    /// The results of the comparison.
    looked: Mutex<Looked>,
}

#[derive(Debug, Default)]
struct Looked {
    /// Whether the trees match the plan.
    fits: bool,
    /// Steps that were matched, by the hash of their path.
    met: HashMap<u128, (), BuildHasherDefault<Ready>>,
    /// Differences from the plan.
    changed: Vec<String>,
    count: u64,
}

/// The head of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Whether the mirror uploads.
    pub is_up: bool,
    /// The URL, without a password.
    pub url: String,
    /// The local folder.
    pub folder: PathBuf,
    /// The options that select paths, as on the command line.
    pub options: Vec<String>,
}

impl Plan {
    /// Records an action of a dry run.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn found(&self, path: &[u8], action: Option<Action>, facts: &Facts, was: &str) -> Result<()> {
        match (self, action) {
            (Self::None, _) | (Self::Write(_), None) => Ok(()),
            (Self::Write(writing), Some(action)) => writing.write(path, action, facts, was),
            (Self::Apply(applying), action) => {
                applying.look(path, action, facts, was);
                Ok(())
            }
        }
    }

    /// Whether the trees are still being compared with the plan, so that nothing may be changed.
    pub(crate) fn is_looking(&self) -> bool {
        matches!(self, Self::Apply(applying) if !applying.looked().fits)
    }

    /// Whether a path may be changed now: it is in the plan, if there is one, and its source is unchanged.
    ///
    /// # Errors
    ///
    /// Its source has changed.
    pub(crate) fn allows(&self, path: &[u8], facts: &Facts) -> Result<bool> {
        let Self::Apply(applying) = self else { return Ok(true) };
        match applying.0.steps.get(&path_hash(path)) {
            None | Some((_, Step { skip: true, .. })) => Ok(false),
            Some((_, step)) if step.action == Action::Deleted || step.facts == *facts => Ok(true),
            Some(_) => Err(Error::new(
                Exit::Refused,
                format_args!("apply the plan to {}", escape(path)),
                "it has changed since",
            )
            .hint("make a new plan")),
        }
    }

    /// Whether a path may be deleted.
    pub(crate) fn allows_to_delete(&self, path: &[u8]) -> bool {
        let Self::Apply(applying) = self else { return true };
        let step = applying.0.steps.get(&path_hash(path));
        step.is_some_and(|(_, step)| step.action == Action::Deleted && !step.skip)
    }

    /// Begins a dry run, or begins it again.
    ///
    /// # Errors
    ///
    /// The file cannot be created.
    pub(crate) fn begin(&self) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Write(writing) => writing.begin(),
            Self::Apply(applying) => {
                *applying.looked() = Looked::default();
                Ok(())
            }
        }
    }

    /// Ends a dry run: renames the plan, or decides whether the trees match.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the trees have changed since the plan was made.
    pub(crate) fn finish(&self) -> Result<()> {
        match self {
            Self::None => Ok(()),
            Self::Write(writing) => writing.finish(),
            Self::Apply(applying) => applying.judge(),
        }
    }
}

impl Writing {
    /// A plan to be written to this file.
    pub fn new(path: PathBuf, header: Header) -> Self {
        Self { path, header, out: Arc::default() }
    }

    fn failed(&self) -> impl Fn(std::io::Error) -> Error {
        let what = format!("write the plan {}", self.path.display());
        move |error| Error::local(&what, &error)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Part>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".part");
        let part = PathBuf::from(name);
        let mut out = BufWriter::new(File::create(&part).map_err(self.failed())?);
        let Header { is_up, url, folder, options } = &self.header;
        let folder = folder.display().to_string();
        let mut text = String::from(
            "# A plan of `braidftp mirror`. `braidftp mirror --apply FILE` does these steps and nothing else, if both sides are\n\
             # still as they were. `skip = true` in a step leaves it out.\n",
        );
        // Writing to a string does not fail.
        let _ = writeln!(text, "version = 1\ndirection = \"{}\"", if *is_up { "up" } else { "down" });
        let _ = writeln!(text, "url = {}\nfolder = {}", quoted(url), quoted(&folder));
        let options: Vec<String> = options.iter().map(|option| quoted(option)).collect();
        let _ = writeln!(text, "options = [{}]\nsteps = [", options.join(", "));
        out.write_all(text.as_bytes()).map_err(self.failed())?;
        *self.lock() = Some((part, out));
        Ok(())
    }

    fn write(&self, path: &[u8], action: Action, facts: &Facts, was: &str) -> Result<()> {
        let mut out = self.lock();
        let Some((_, out)) = &mut *out else { return Ok(()) };
        let line = line(path, action, facts, was);
        out.write_all(line.as_bytes()).map_err(self.failed())
    }

    fn finish(&self) -> Result<()> {
        let Some((part, mut out)) = self.lock().take() else { return Ok(()) };
        out.write_all(b"]\n").and_then(|()| out.flush()).map_err(self.failed())?;
        std::fs::rename(part, &self.path).map_err(self.failed())
    }
}

/// A step as one line.
fn line(path: &[u8], action: Action, facts: &Facts, was: &str) -> String {
    let name = ACTIONS.iter().find(|(_, known)| *known == action).map_or("skip", |(name, _)| name);
    let mut line = format!("  {{ do = \"{name}\", path = {}", quoted(&shown(path)));
    if let Some(size) = facts.size {
        let _ = write!(line, ", size = {size}");
    }
    if let Some(time) = facts.time {
        let _ = write!(line, ", time = \"{time}\"");
    }
    if let Some(mode) = facts.mode {
        let _ = write!(line, ", mode = \"{mode:03o}\"");
    }
    if let Some(target) = &facts.target {
        let _ = write!(line, ", target = {}", quoted(&shown(target)));
    }
    let _ = writeln!(line, ", was = \"{was}\" }},");
    line
}

/// A text in TOML's notation.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Bytes as text: invalid UTF-8, control characters and `%` are written as %XX.
fn shown(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c.is_control() || c == '%' {
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
            } else {
                out.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("%{byte:02X}")));
    }
    out
}

/// The bytes of a text that [`shown`] made; `None` if a `%` is not followed by two hexadecimal digits.
fn bytes_of(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte != b'%' {
            out.push(*byte);
            continue;
        }
        let digits = rest.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = &rest[2..];
    }
    Some(out)
}

impl Applying {
    /// Reads a plan.
    ///
    /// # Errors
    ///
    /// It cannot be read; every invalid line is reported.
    pub fn load(path: &Path) -> Result<(Header, Self)> {
        let what = format!("read the plan {}", path.display());
        let length = std::fs::metadata(path).map_err(|error| Error::local(&what, &error))?.len();
        if length > FILE_BYTES_MAX {
            return Err(Error::usage(what, format_args!("it has {length} bytes, too many for a plan")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| Error::local(&what, &error))?;
        let (header, steps) = read(path, &text)?;
        let looked = Mutex::default();
        Ok((header, Self(Arc::new(Applied { path: path.to_owned(), steps, looked }))))
    }

    fn looked(&self) -> MutexGuard<'_, Looked> {
        self.0.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, path: &[u8], action: Option<Action>, facts: &Facts, was: &str) {
        let hash = path_hash(path);
        let mut looked = self.looked();
        let change = match (self.0.steps.get(&hash), action) {
            (None, None) => return,
            (None, Some(action)) => {
                Some(format!("{}: the plan does not know that it is to be {}", escape(path), done(action)))
            }
            (Some((_, step)), action) => {
                looked.met.insert(hash, ());
                let differs = |what: &str| Some(format!("{}: {what} (line {})", escape(path), step.line));
                match action {
                    // Done before, if the source is unchanged.
                    None if step.facts == *facts => None,
                    Some(action) if action != step.action => differs(&format!(
                        "it is to be {} now, and the plan has it {}",
                        done(action),
                        done(step.action)
                    )),
                    _ if step.facts != *facts => differs("its source has changed"),
                    _ if step.was != was => {
                        differs(&format!("the destination has {was} now, and had {}", step.was))
                    }
                    _ => None,
                }
            }
        };
        if let Some(change) = change {
            looked.count += 1;
            if looked.changed.len() < NAMED_MAX {
                looked.changed.push(change);
            }
        }
    }

    fn judge(&self) -> Result<()> {
        let mut looked = self.looked();
        let mut lost: Vec<&(Vec<u8>, Step)> = self
            .0
            .steps
            .iter()
            // An entry to delete that does not exist is done.
            .filter(|(hash, (_, step))| step.action != Action::Deleted && !looked.met.contains_key(hash))
            .map(|(_, step)| step)
            .collect();
        lost.sort_by_key(|(_, step)| step.line);
        for (path, step) in lost {
            looked.count += 1;
            if looked.changed.len() < NAMED_MAX {
                looked.changed.push(format!(
                    "{}: the source has it no more (line {})",
                    escape(path),
                    step.line
                ));
            }
        }
        if looked.count == 0 {
            looked.fits = true;
            return Ok(());
        }
        let more = looked.count - looked.changed.len() as u64;
        let more = (more > 0).then(|| format!("and {more} more"));
        let what = format_args!("apply the plan {}", self.0.path.display());
        Err(Error::new(Exit::Refused, what, "the trees have changed since it was made")
            .list(looked.changed.iter().chain(&more))
            .hint("nothing was touched; make a new plan with --plan FILE"))
    }
}

/// The past tense of an action.
fn done(action: Action) -> &'static str {
    match action {
        Action::Received => "received",
        Action::Sent => "sent",
        Action::Linked => "linked",
        Action::HardLinked => "hard-linked",
        Action::MadeFolder => "made",
        Action::SetMode => "given another mode",
        Action::SetTime => "given another time",
        Action::Deleted => "deleted",
        Action::Renamed => "renamed",
        Action::Skipped => "left alone",
    }
}

type Steps = HashMap<u128, (Vec<u8>, Step), BuildHasherDefault<Ready>>;

/// Parses the text of a plan.
fn read(path: &Path, text: &str) -> Result<(Header, Steps)> {
    let (table, mut mistakes) = Mistakes::parse(path, text);
    let mut header = Header { is_up: false, url: String::new(), folder: PathBuf::new(), options: Vec::new() };
    let mut steps = Steps::default();
    for (key, value) in table.get_ref().iter() {
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("version", DeValue::Integer(number)) if number.as_str() == "1" => {}
            ("version", _) => {
                mistakes.add(value.span().start, "version is 1: another program made this plan")
            }
            ("direction", DeValue::String(text)) if matches!(text.as_ref(), "up" | "down") => {
                header.is_up = text == "up";
            }
            ("direction", _) => mistakes.add(value.span().start, "direction is \"up\" or \"down\""),
            ("url", DeValue::String(text)) => header.url = text.to_string(),
            ("folder", DeValue::String(text)) => header.folder = PathBuf::from(text.as_ref()),
            ("url" | "folder", _) => mistakes.mismatch(value, key.get_ref(), "a text"),
            ("options", DeValue::Array(options)) => {
                for option in options.iter() {
                    match option.get_ref() {
                        DeValue::String(text) => header.options.push(text.to_string()),
                        _ => mistakes.mismatch(option, "an option", "a text"),
                    }
                }
            }
            ("options", _) => mistakes.mismatch(value, "options", "a list"),
            ("steps", DeValue::Array(items)) => {
                for item in items.iter() {
                    match item.get_ref() {
                        DeValue::Table(table) => {
                            let at = item.span().start;
                            let Some((path, step)) = step(table, at, &mut mistakes) else { continue };
                            let (hash, shown) = (path_hash(&path), escape(&path));
                            if let Some((_, first)) = steps.insert(hash, (path, step)) {
                                let told = format!("{shown} has a step already, in line {}", first.line);
                                mistakes.add(at, told);
                            }
                        }
                        _ => mistakes.mismatch(
                            item,
                            "a step",
                            "a table, as in { do = \"receive\", path = \"a\", … }",
                        ),
                    }
                }
            }
            ("steps", _) => mistakes.mismatch(value, "steps", "a list"),
            (other, _) => mistakes.unknown(key.span().start, other, &KEYS),
        }
    }
    for key in KEYS {
        if !table.get_ref().contains_key(key) {
            mistakes.add(0, format_args!("`{key}` is missing"));
        }
    }
    mistakes.check("--plan FILE makes a plan; skip = true leaves a step out")?;
    Ok((header, steps))
}

/// Parses one step.
fn step(table: &DeTable<'_>, at: usize, mistakes: &mut Mistakes<'_>) -> Option<(Vec<u8>, Step)> {
    let before = mistakes.count();
    let line = mistakes.line(at);
    let mut path = None;
    let mut step =
        Step { action: Action::Skipped, facts: Facts::default(), was: String::new(), skip: false, line };
    for (key, value) in table.iter() {
        let at = value.span().start;
        match (key.get_ref().as_ref(), value.get_ref()) {
            ("do", DeValue::String(text)) => {
                match ACTIONS[..ACTIONS.len() - 1].iter().find(|(name, _)| name == text) {
                    Some((_, action)) => step.action = *action,
                    None => {
                        let names: Vec<&str> =
                            ACTIONS[..ACTIONS.len() - 1].iter().map(|(name, _)| *name).collect();
                        let meant = match nearest(text, &names) {
                            Some(meant) => format!("did you mean `{meant}`?"),
                            None => format!("there are {}", names.join(", ")),
                        };
                        mistakes.add(at, format_args!("`{}` is not an action; {meant}", text.escape_debug()));
                    }
                }
            }
            ("path", DeValue::String(text)) => match bytes_of(text).filter(|bytes| !bytes.is_empty()) {
                Some(bytes) => path = Some(bytes),
                None => mistakes
                    .add(at, "path is a path from the top of the tree; %XX is a byte, %25 a percent sign"),
            },
            ("target", DeValue::String(text)) => match bytes_of(text) {
                Some(bytes) => step.facts.target = Some(bytes),
                None => mistakes.add(at, "target: %XX is a byte, %25 a percent sign"),
            },
            ("size", DeValue::Integer(number)) => match number.as_str().parse() {
                Ok(size) => step.facts.size = Some(size),
                Err(_) => mistakes.add(at, "size is a number of bytes"),
            },
            ("time", DeValue::String(text)) => match Timestamp::parse(text.as_bytes()) {
                Some(time) => step.facts.time = Some(time),
                None => mistakes.add(at, "time is YYYYMMDDhhmmss in UTC, as in \"20261124160000.5\""),
            },
            ("mode", DeValue::String(text)) => match u32::from_str_radix(text, 8) {
                Ok(mode) if mode <= 0o7777 => step.facts.mode = Some(mode),
                _ => mistakes.add(at, "mode is octal, as in \"644\""),
            },
            ("was", DeValue::String(text)) => step.was = text.to_string(),
            ("skip", DeValue::Boolean(skip)) => step.skip = *skip,
            ("do" | "path" | "target" | "time" | "mode" | "was", _) => {
                mistakes.mismatch(value, key.get_ref(), "a text");
            }
            ("size", _) => mistakes.mismatch(value, "size", "a number of bytes"),
            ("skip", _) => mistakes.mismatch(value, "skip", "true or false"),
            (other, _) => mistakes.unknown(key.span().start, other, &STEP_KEYS),
        }
    }
    for key in ["do", "path", "was"] {
        if !table.contains_key(key) {
            mistakes.add(at, format_args!("the step lacks `{key}`"));
        }
    }
    path.filter(|_| mistakes.count() == before).map(|path| (path, step))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "version = 1\ndirection = \"down\"\nurl = \"ftp://h/\"\nfolder = \"/f\"\noptions = [\"--delete\"]\nsteps = [\n";

    fn facts() -> Facts {
        let time = Timestamp::parse(b"20261118110640.5");
        Facts { size: Some(7), time, mode: Some(0o640), target: Some(b"a%\xff".to_vec()) }
    }

    #[test]
    fn a_written_plan_is_read_back() {
        for path in [&b"a"[..], b"a b/\"'#\\", b"100%/\xff\n\x1b", "größe/日本語".as_bytes()] {
            for (_, action) in &ACTIONS[..ACTIONS.len() - 1] {
                let text = format!("{HEAD}{}]\n", line(path, *action, &facts(), "file 3 20261118110640"));
                let (header, steps) = read(Path::new("p"), &text).unwrap();
                assert_eq!((header.is_up, &header.options[..]), (false, &["--delete".to_owned()][..]));
                let (read, step) = &steps[&path_hash(path)];
                assert_eq!((&read[..], step.action, &step.facts), (path, *action, &facts()));
                assert_eq!(step.was, "file 3 20261118110640");
            }
        }
    }

    #[test]
    fn every_invalid_line_is_reported_with_its_place_and_the_right_form() {
        let text = HEAD.replace("direction", "directoin")
            + "  { do = \"recv\", path = \"a\", was = \"missing\" },\n  { do = \"send\", was = 1 },\n\
               { do = \"send\", path = \"%zz\", was = \"missing\", seize = 4 },\n  { do = \"send\", path = \"b\", was = \"missing\" },\n\
               { do = \"send\", path = \"b\", was = \"missing\" },\n 5,\n]\n";
        let error = read(Path::new("p.toml"), &text).unwrap_err().to_string();
        for part in [
            "p.toml:1:1: `direction` is missing",
            "p.toml:2:1: there is no key `directoin` here; did you mean `direction`?",
            "p.toml:7:10: `recv` is not an action; did you mean `receive`?",
            "p.toml:8:24: was is a text, not a whole number",
            "p.toml:8:3: the step lacks `path`",
            "p.toml:9:23: path is a path",
            "there is no key `seize` here; did you mean `size`?",
            "p.toml:11:1: b has a step already, in line 10",
            "p.toml:12:2: a step is a table",
        ] {
            assert!(error.contains(part), "{part}\nis not in {error}");
        }
        let error = read(Path::new("p"), "version = \n").unwrap_err().to_string();
        assert!(error.contains("p:1:"), "{error}");
    }
}
