//! What a server is to serve, where and how: the command line and the file of settings together.

use std::fmt;
use std::path::{Path, PathBuf};

use braidftp_ftp::server as machine;

use super::confine::{ConfineError, Confinement, Network, Place, Report, Rights, confine};
use super::protection::Wanted;
use super::{Listen, Opened, Server, Settings, StartError};
use crate::exit::Error;
use crate::store::fs::Root;
use crate::users::{Access, Users};

/// Why `braidftp serve` ended.
#[derive(Debug)]
pub enum ServeError {
    /// The command line or a file it names cannot be used: exit code 1.
    Usage(String),
    /// The folder cannot be opened: exit code 6.
    Folder(String),
    /// An address cannot be had: exit code 2.
    Start(StartError),
    /// The process cannot be confined as it must be: exit code 1.
    Confine(ConfineError),
    /// The key or the certificate cannot be used; the exit code says in which way.
    Key(Error),
    /// `--check` found this wrong: the code is that of the first of it.
    Check {
        /// What is wrong, a sentence each.
        sentences: Vec<String>,
        /// The exit code.
        code: u8,
    },
    /// The task of an SCTP endpoint panicked: exit code 101, as of a program that panics. It served until then.
    Sctp,
}

impl ServeError {
    /// The exit code for it.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Confine(_) => 1,
            Self::Start(_) => 2,
            Self::Folder(_) => 6,
            Self::Key(error) => error.exit as u8,
            Self::Check { code, .. } => *code,
            Self::Sctp => 101,
        }
    }
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Folder(why) => f.write_str(why),
            Self::Start(error) => error.fmt(f),
            Self::Confine(error) => error.fmt(f),
            Self::Key(error) => error.fmt(f),
            Self::Check { sentences, .. } => f.write_str(&sentences.join("\nbraidftp: ")),
            Self::Sctp => f.write_str(
                "SCTP has failed: the task that drives it panicked, as said above, and all of its associations are lost; \
                 start the server again, and report this as a bug",
            ),
        }
    }
}

impl std::error::Error for ServeError {}

/// What to serve, where, and how: the command line and the file of settings together.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) dir: PathBuf,
    pub(super) listen: Vec<Listen>,
    pub(super) users: Users,
    /// Where they stand, and what is meant where it says nothing of changes.
    pub(super) users_file: Option<(PathBuf, Access)>,
    pub(super) settings: Settings,
    pub(super) protection: Wanted,
    pub(super) confinement: Confinement,
}

impl Plan {
    /// Opens the folder and the sockets, and confines the process. What the confinement lacks is in its report.
    pub(super) fn open(self) -> Result<(Opened, Report), ServeError> {
        let Self { dir, listen, users, users_file, settings, mut confinement, .. } = self;
        let root = Root::open(&dir).map_err(|error| ServeError::Folder(error.to_string()))?;
        confinement.network = network(&listen, &settings);
        confinement.places = places(&dir, &users, users_file.as_ref().map(|(file, _)| file), &settings);
        let mut builder = Server::builder(root).users(users).settings(settings);
        for place in listen {
            builder = builder.listen(place);
        }
        let opened = builder.open().map_err(ServeError::Start)?;
        let mut report = confine(&confinement).map_err(ServeError::Confine)?;
        let key = opened.settings.protection.identity.as_ref().map(|identity| ("key", &identity.files().key));
        let users = users_file.as_ref().map(|(file, _)| ("users file", file));
        for (what, file) in key.into_iter().chain(users) {
            report.lost.extend(std::fs::File::open(file).err().map(|error| {
                format!(
                    "the {what} {}, which was read: {error}; after a change of it, start again",
                    file.display()
                )
            }));
        }
        Ok((opened, report))
    }
}

/// The TCP sockets that the server makes while it runs.
fn network(listen: &[Listen], settings: &Settings) -> Network {
    let ports = settings.passive_ports.clone();
    match (listen.iter().any(Listen::is_tcp), settings.session.active) {
        (false, _) => Network::Nothing,
        (true, machine::Active::Refused) => Network::Listen(ports),
        (true, _) => Network::ListenAndConnect(ports),
    }
}

/// The folders that the server has to do with while it runs.
fn places(dir: &Path, users: &Users, users_file: Option<&PathBuf>, settings: &Settings) -> Vec<Place> {
    let rights = if users.any_may_write() { Rights::ReadWrite } else { Rights::Read };
    // Homes are beneath it, those that are made later among them.
    let mut places = vec![Place { path: dir.to_owned(), rights }];
    // They are read anew when they change, and change by being replaced: with them, their folders stay within reach. What
    // certbot gives are links to files of another folder.
    let identity = settings.protection.identity.as_ref().map(|identity| identity.files());
    let files = identity.into_iter().flat_map(|files| [&files.certificate, &files.key]).chain(users_file);
    for file in files.flat_map(|file| [Some(file.clone()), file.canonicalize().ok()]).flatten() {
        places.push(Place { path: folder_of(&file), rights: Rights::ReadFiles });
    }
    if let Some(log) = settings.audit.path() {
        places.push(Place { path: folder_of(&log), rights: Rights::Append });
    }
    places.sort();
    places.dedup();
    places
}

/// The folder that a file is in.
pub(super) fn folder_of(file: &Path) -> PathBuf {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new(".")).to_owned()
}

/// Why there is no audit log.
pub(super) fn cannot_open(audit: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot open the audit log {}: {error}; its folder must be there, and belong to the user that serves",
        audit.display()
    )
}

/// The processors that this process may use at once.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The runtime that serves, with a thread for each processor.
pub(super) fn runtime(processors: usize) -> Result<tokio::runtime::Runtime, ServeError> {
    let built = tokio::runtime::Builder::new_multi_thread().worker_threads(processors).enable_all().build();
    built.map_err(|error| ServeError::Usage(format!("cannot start the runtime: {error}")))
}
