//! Completion of commands, local names and names on the server.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use tokio::runtime::Handle;

use super::line::{OWN, Place, REMOTE};
use crate::exit::Result;

/// How long the names of a folder are reused for completion.
const FRESH: Duration = Duration::from_secs(30);
/// The time limit for a server to list the names for a completion.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of folders whose names are cached.
const FOLDERS_MAX: usize = 64;

/// The names in the folder of a URL; those of folders end in a slash.
pub(in crate::cli) type Remote =
    Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = Result<Vec<String>>> + Send>> + Send + Sync>;

/// Completes lines.
pub(super) struct Completion {
    names: Remote,
    place: Option<Place>,
    runtime: Handle,
    known: Mutex<HashMap<String, (Instant, Vec<String>)>>,
}

impl Completion {
    pub(super) fn new(names: Remote) -> Self {
        Self { names, place: None, runtime: Handle::current(), known: Mutex::default() }
    }

    pub(super) fn set_place(&mut self, place: Option<Place>) {
        self.place = place;
    }

    /// The names in a folder of the server, if they arrive in time.
    fn remote(&self, folder: &str) -> Vec<String> {
        let Some(place) = &self.place else { return Vec::new() };
        let url = place.url(folder);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, names)) = known.get(&url)
            && at.elapsed() < FRESH
        {
            return names.clone();
        }
        let asked = tokio::time::timeout(PATIENCE, (self.names)(url.clone()));
        let names = match self.runtime.block_on(asked) {
            Ok(Ok(names)) => names,
            Ok(Err(_)) | Err(_) => Vec::new(),
        };
        if known.len() >= FOLDERS_MAX {
            known.clear();
        }
        known.insert(url, (Instant::now(), names.clone()));
        names
    }
}

/// The names in a local folder; those of folders end in a slash.
fn local(folder: &str) -> Vec<String> {
    let folder = if folder.is_empty() { "." } else { folder };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let is_folder = entry.path().is_dir();
            Some(if is_folder { name + "/" } else { name })
        })
        .collect()
}

/// Whether the argument of a command is a local path.
fn is_local(words: &[&str]) -> bool {
    match words.first() {
        Some(&("put" | "mput" | "lcd" | "source")) => true,
        Some(&"mirror") => {
            let paths = words[1..].iter().filter(|word| !word.starts_with('-')).count();
            words.contains(&"-R") == (paths == 0)
        }
        Some(&"verify") => words.len() > 1,
        _ => false,
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let before = &line[..at];
        // The word begins after an unescaped space.
        let space = |at: &usize| before[..*at].ends_with(' ') && !before[..*at].ends_with("\\ ");
        let start =
            (1..=before.len()).rev().filter(|at| before.is_char_boundary(*at)).find(space).unwrap_or(0);
        let word = before[start..].replace("\\ ", " ");
        let words: Vec<&str> = before[..start].split_whitespace().collect();
        let (folder, name) = word.rsplit_once('/').map_or(("", &word[..]), |(folder, name)| (folder, name));
        let folder = if word.starts_with('/') && folder.is_empty() { "/" } else { folder };
        let mut names = match words.is_empty() {
            true => OWN.into_iter().chain(REMOTE).map(|name| format!("{name} ")).collect(),
            false if is_local(&words) => local(folder),
            false => self.remote(folder),
        };
        names.retain(|found| found.starts_with(name));
        names.sort();
        let prefix = word.len() - name.len();
        let pairs = names.into_iter().map(|found| Pair {
            replacement: format!("{}{}", &word[..prefix], found).trim_end().replace(' ', "\\ "),
            display: found,
        });
        Ok((start, pairs.collect()))
    }
}

impl Hinter for Completion {
    type Hint = String;
}

impl Highlighter for Completion {}

impl Validator for Completion {}

impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn commands_and_local_and_remote_names_are_completed() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let names: Remote = {
            let asked = asked.clone();
            Arc::new(move |url| {
                asked.lock().unwrap().push(url);
                Box::pin(async { Ok(vec!["a file".to_owned(), "archive/".into(), "b".into()]) })
            })
        };
        let mut completion = Completion::new(names);
        completion.set_place(Some(Place::of("ftp://h/pub").unwrap()));
        let completed = tokio::task::spawn_blocking(move || {
            let history = rustyline::history::DefaultHistory::new();
            let complete = |line: &str| {
                let (start, found) = completion.complete(line, line.len(), &Context::new(&history)).unwrap();
                (start, found.into_iter().map(|pair| pair.replacement).collect::<Vec<_>>())
            };
            [complete("mir"), complete("get a"), complete("get x/a\\ f"), complete("lcd /etc/hostnam")]
        });
        let [verb, remote, below, local] = completed.await.unwrap();
        assert_eq!(verb, (0, vec!["mirror".to_owned()]));
        assert_eq!(remote, (4, vec!["a\\ file".to_owned(), "archive/".into()]));
        assert_eq!(below, (4, vec!["x/a\\ file".to_owned()]));
        assert_eq!(local.0, 4);
        assert_eq!(*asked.lock().unwrap(), ["ftp://h/pub", "ftp://h/pub/x"]);
    }

    #[test]
    fn local_names_are_completed_where_an_argument_is_a_local_path() {
        assert!(is_local(&["put"]) && is_local(&["mirror", "-R"]) && is_local(&["mirror", "x"]));
        assert!(!is_local(&["mirror"]) && !is_local(&["get"]) && !is_local(&["mirror", "-R", "x"]));
        assert!(is_local(&["verify", "x"]) && !is_local(&["verify"]));
    }
}
