//! `braidftp shell [URL]`: an interactive shell with a current server and folder, history, completion and
//! background jobs.
//!
//! At a terminal lines are edited. Otherwise they are read from standard input or a file, and the first line
//! that fails ends the shell with its exit code. Each command runs in its own session, as outside the shell.

mod complete;
mod line;

use std::future::Future;
use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use rustyline::error::ReadlineError;
use tokio::task::JoinHandle;

use self::complete::Completion;
pub(super) use self::complete::Remote;
use self::line::{OWN, Place, REMOTE};
use crate::exit::{Error, Exit, Result, Told};
use crate::stderr;

/// The maximum number of lines of history.
const HISTORY: usize = 10_000;
/// The maximum depth of nested scripts.
const DEPTH: usize = 16;

/// Runs a command line of the program, given as words.
pub(super) type Run =
    Arc<dyn Fn(Vec<String>) -> Pin<Box<dyn Future<Output = Result<()>> + Send>> + Send + Sync>;

/// Returns the URL for a word that may be a bookmark.
type Resolve = Box<dyn Fn(&str) -> Result<String> + Send>;

/// The parts of the program that the shell uses.
pub(super) struct Program {
    /// Runs a command.
    pub(super) run: Run,
    /// Names in a folder of the server, for completion.
    pub(super) names: Remote,
    /// Returns the URL of `@NAME`.
    pub(super) resolve: Resolve,
}

struct Shell {
    program: Program,
    place: Option<Place>,
    before: Option<Place>,
    jobs: Vec<(usize, String, JoinHandle<Result<()>>)>,
    next_job: usize,
}

/// Whether the shell continues.
enum Next {
    Line,
    End,
}

/// Reads and runs lines until the input ends.
///
/// # Errors
///
/// In a script: the first line that fails. At a terminal: the terminal cannot be used.
pub(super) async fn run(program: Program, url: Option<String>, script: Option<PathBuf>) -> Result<()> {
    let mut shell = Shell { program, place: None, before: None, jobs: Vec::new(), next_job: 1 };
    if let Some(url) = url {
        shell.open(&url)?;
    }
    let result = match script {
        Some(file) => shell.source(&file, 0).await.map(|_| ()),
        None if std::io::stdin().is_terminal() => shell.terminal().await,
        None => {
            let lines = std::io::stdin().lock().lines().collect::<std::io::Result<Vec<String>>>();
            let lines = lines.map_err(|error| Error::local("read standard input", &error))?;
            shell.lines(lines, 0).await.map(|_| ())
        }
    };
    let waited = shell.wait(None).await;
    result.and(waited)
}

impl Shell {
    async fn terminal(&mut self) -> Result<()> {
        let failed = |error: ReadlineError| Error::new(Exit::Local, "use the terminal", error);
        let config = rustyline::Config::builder().max_history_size(HISTORY).map_err(failed)?;
        let config = config.completion_type(rustyline::CompletionType::List).build();
        let mut editor = rustyline::Editor::<Completion, _>::with_config(config).map_err(failed)?;
        editor.set_helper(Some(Completion::new(self.program.names.clone())));
        let history = history();
        if let Some(file) = &history {
            // The history file does not exist the first time.
            let _ = editor.load_history(file);
        }
        loop {
            self.tell_of_jobs();
            let prompt = match &self.place {
                Some(place) => format!(
                    "{}:/{}> ",
                    place.host(),
                    String::from_utf8_lossy(&place.folder).trim_start_matches('/')
                ),
                None => "braidftp> ".to_owned(),
            };
            if let Some(helper) = editor.helper_mut() {
                helper.set_place(self.place.clone());
            }
            // Reading the terminal blocks, so it runs on a thread that may block.
            let read = tokio::task::spawn_blocking(move || {
                let line = editor.readline(&prompt);
                (editor, line)
            });
            let line;
            (editor, line) = match read.await {
                Ok(read) => read,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            match line {
                Ok(line) => {
                    // Passwords must not be stored in the history.
                    if !line.contains("://") || !line.contains('@') {
                        let _ = editor.add_history_entry(line.as_str());
                    }
                    match self.line(&line, 0).await {
                        Ok(Next::Line) => {}
                        Ok(Next::End) => break,
                        Err(error) => tell(&error),
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => return Err(failed(error)),
            }
        }
        if let Some(file) = &history {
            let _ = file.parent().map(std::fs::create_dir_all);
            let _ = editor.save_history(file);
        }
        Ok(())
    }

    async fn lines(&mut self, lines: Vec<String>, depth: usize) -> Result<Next> {
        for line in lines {
            match Box::pin(self.line(&line, depth)).await? {
                Next::Line => {}
                Next::End => return Ok(Next::End),
            }
        }
        Ok(Next::Line)
    }

    async fn source(&mut self, file: &Path, depth: usize) -> Result<Next> {
        let what = format!("run the script {}", file.display());
        if depth >= DEPTH {
            return Err(Error::usage(what, format_args!("{DEPTH} scripts have begun each other")));
        }
        let text = std::fs::read_to_string(file).map_err(|error| Error::local(&what, &error))?;
        self.lines(text.lines().map(str::to_owned).collect(), depth + 1).await
    }

    /// Runs one line.
    async fn line(&mut self, line: &str, depth: usize) -> Result<Next> {
        let line = line.trim();
        if let Some(command) = line.strip_prefix('!') {
            return system(command).await.map(|()| Next::Line);
        }
        let (line, in_background) = match line.strip_suffix('&') {
            Some(line) => (line.trim_end(), true),
            None => (line, false),
        };
        let words = line::expand(line::words(line)?)?;
        let argument = words.get(1).map(String::as_str);
        match (words.first().map(String::as_str), argument) {
            (None, _) => {}
            (Some("exit" | "quit" | "bye"), _) => return Ok(Next::End),
            (Some("open"), Some(url)) => self.open(url)?,
            (Some("close"), _) => self.place = None,
            (Some("cd"), path) => self.cd(path).await?,
            (Some("pwd"), _) => println!("{}", self.open_place("pwd")?.url("")),
            (Some("lcd"), path) => lcd(path)?,
            (Some("lpwd"), _) => println!("{}", current()?.display()),
            (Some("source"), Some(file)) => return self.source(Path::new(file), depth).await,
            (Some("jobs"), _) => self.list_jobs(),
            (Some("wait"), job) => self.wait(job.map(number).transpose()?).await?,
            (Some("kill"), Some(job)) => self.kill(number(job)?)?,
            (Some("history"), _) => println!("{}", history().unwrap_or_default().display()),
            (Some("help"), None) => help(),
            (Some("help"), Some(verb)) if !OWN.contains(&verb) => {
                (self.program.run)(vec![verb.to_owned(), "--help".into()]).await?;
            }
            (Some("help"), Some(_)) => help(),
            (Some(verb @ ("open" | "source" | "kill")), None) => {
                return Err(Error::usage(verb, "an argument is missing").hint("help lists what each takes"));
            }
            (Some(_), _) => {
                let command = line::command(&words, self.place.as_ref())?;
                let work = (self.program.run)(command);
                if in_background {
                    println!("[{}] {line}", self.next_job);
                    self.jobs.push((self.next_job, line.to_owned(), tokio::spawn(work)));
                    self.next_job += 1;
                } else {
                    work.await?;
                }
            }
        }
        Ok(Next::Line)
    }

    fn open(&mut self, url: &str) -> Result<()> {
        self.place = Some(Place::of(&(self.program.resolve)(url)?)?);
        Ok(())
    }

    fn open_place(&self, what: &str) -> Result<&Place> {
        self.place
            .as_ref()
            .ok_or_else(|| Error::usage(what, "no server is open").hint("open URL, or open @BOOKMARK"))
    }

    /// Changes to an existing folder.
    async fn cd(&mut self, path: Option<&str>) -> Result<()> {
        let place = self.open_place("cd")?.clone();
        let folder = match path {
            Some("-") => {
                std::mem::swap(&mut self.place, &mut self.before);
                if self.place.is_none() {
                    self.place = self.before.clone();
                }
                return Ok(());
            }
            Some(path) => place.join(path.trim_end_matches('/').trim_start_matches("//")),
            None => Vec::new(),
        };
        let there = Place { folder, ..place.clone() };
        (self.program.names)(there.url("")).await?;
        self.before = Some(place);
        self.place = Some(there);
        Ok(())
    }

    fn list_jobs(&self) {
        for (job, line, handle) in &self.jobs {
            println!("[{job}] {} {line}", if handle.is_finished() { "done   " } else { "running" });
        }
    }

    /// Reports the jobs that have ended since.
    fn tell_of_jobs(&mut self) {
        for (job, line, handle) in std::mem::take(&mut self.jobs) {
            if !handle.is_finished() {
                self.jobs.push((job, line, handle));
                continue;
            }
            // The task is finished, so this does not wait.
            println!("[{job}] done {line}");
        }
    }

    /// Waits for one job, or for all.
    async fn wait(&mut self, job: Option<usize>) -> Result<()> {
        let mut result = Ok(());
        let (waited, others) =
            std::mem::take(&mut self.jobs).into_iter().partition(|(n, ..)| job.is_none_or(|job| job == *n));
        self.jobs = others;
        let waited: Vec<_> = waited;
        if let (Some(job), true) = (job, waited.is_empty()) {
            return Err(no_job(job));
        }
        for (_, _, handle) in waited {
            match handle.await {
                Ok(done) => result = result.and(done),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => {}
            }
        }
        result
    }

    fn kill(&mut self, job: usize) -> Result<()> {
        let at = self.jobs.iter().position(|(n, ..)| *n == job).ok_or_else(|| no_job(job))?;
        self.jobs.remove(at).2.abort();
        Ok(())
    }
}

impl Place {
    fn host(&self) -> &str {
        let rest = self.server.split_once("://").map_or(&self.server[..], |(_, rest)| rest);
        rest.rsplit_once('@').map_or(rest, |(_, host)| host)
    }
}

fn tell(error: &Error) {
    if error.told == Told::No {
        stderr::line(format_args!("braidftp: {error}"));
    }
}

fn no_job(job: usize) -> Error {
    Error::usage(format_args!("find job {job}"), "there is none").hint("jobs lists them")
}

fn number(text: &str) -> Result<usize> {
    let text = text.trim_start_matches('%');
    text.parse()
        .map_err(|_| Error::usage(format_args!("find job {text}"), "it is no number").hint("jobs lists them"))
}

/// Runs a command of the system's shell.
async fn system(command: &str) -> Result<()> {
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
    let command = command.trim().to_owned();
    let what = format!("run {command}");
    let mut child = std::process::Command::new(shell);
    if !command.is_empty() {
        child.arg("-c").arg(&command);
    }
    let status = tokio::task::spawn_blocking(move || child.status()).await;
    match status.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Error::new(Exit::Local, what, format_args!("it ended with {status}"))),
        Err(error) => Err(Error::local(what, &error)),
    }
}

fn current() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| Error::local("find the current folder", &error))
}

fn lcd(path: Option<&str>) -> Result<()> {
    let folder = match path {
        Some(path) => PathBuf::from(path),
        None => std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default(),
    };
    std::env::set_current_dir(&folder)
        .map_err(|error| Error::local(format_args!("go to {}", folder.display()), &error))
}

/// The path of the history file.
fn history() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = folder("XDG_STATE_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("braidftp/history"))
}

fn help() {
    println!(
        "open URL|@BOOKMARK, close, cd [PATH|-], pwd: the server and its folder; lcd [PATH], lpwd: the folder here\n\
         {}: as outside the shell, paths from the open folder on (help COMMAND)\n\
         COMMAND &: in the background; jobs, wait [N], kill N\n\
         source FILE: lines from a file; !COMMAND: the system's shell; exit\n\
         lftp's names are known too: dir, cls, mget, mput, mrm, pget, rmdir, rename, more",
        REMOTE.join(", ")
    );
}
