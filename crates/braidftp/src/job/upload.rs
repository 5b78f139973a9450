//! Uploads: sends files, and sets their times under their final names.
//!
//! An interrupted upload is resumed if the server keeps its data (XPART, specs/ftp-over-sctp.md §7.3) and the
//! local file is unchanged. Its size and time at the beginning are recorded in the state folder
//! (`$XDG_STATE_HOME`).

use std::fs as std_fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use braidftp_ftp::client::Features;
use braidftp_ftp::command::{Command, Site};
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::{PathArg, Reply};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::tasks::Tasks;
use super::{Record, path_hash};
use crate::client::{Body, Client, Completion, Done, Lane, Source, of_write_reply, timestamp};
use crate::exit::{Error, Exit, Result, escape};
use crate::progress::Reporter;
use crate::report::Action;
use crate::store::fs::Root;
use crate::url::Url;

/// Smaller files are sent again without a query.
const WORTH_RESUMING: u64 = 1 << 20;
/// The maximum number of outstanding small commands.
const COMMANDS: usize = 256;

const fn most_under_way(mode: Mode) -> usize {
    match mode {
        Mode::Tcp | Mode::Naive | Mode::Ms => 4,
        Mode::MsCp => 512,
        // The window of commands.
        Mode::Braid => 1024,
    }
}

/// A file to send.
#[derive(Debug, Clone)]
pub(crate) struct Send {
    /// The path on the server.
    pub(crate) remote: PathArg,
    /// The name in reports.
    pub(crate) name: Vec<u8>,
    /// The local root.
    pub(crate) root: Root,
    /// The path below the local root.
    pub(crate) local: PathBuf,
    /// The size.
    pub(crate) size: u64,
    /// The modification time.
    pub(crate) modified: SystemTime,
    /// Permission bits to set after the upload, unless they are left to the server.
    pub(crate) mode: Option<u32>,
}

/// Sends files, as many concurrently as the mode permits.
#[derive(Debug)]
pub(crate) struct Uploads {
    client: Client,
    url: Url,
    reporter: Reporter,
    record: Record,
    under_way: Arc<Semaphore>,
    commands: Arc<Semaphore>,
    tasks: Tasks,
    modes: Modes,
}

/// Whether the server supports setting permission bits. Clones share it.
#[derive(Debug, Clone, Default)]
struct Modes(Arc<AtomicBool>);

impl Modes {
    fn are_refused(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Records that it does not; reported once.
    fn refuse(&self, reporter: &Reporter, reply: &Reply) {
        if !self.0.swap(true, Ordering::Relaxed) {
            reporter.warn(format_args!("permissions could not be set (SITE CHMOD): {reply}"));
        }
    }
}

impl Uploads {
    pub(crate) fn new(client: Client, url: Url, reporter: Reporter, record: Record) -> Self {
        let most = most_under_way(client.mode()) * client.parallel();
        let under_way = Arc::new(Semaphore::new(most));
        let commands = Arc::new(Semaphore::new(COMMANDS));
        let tasks = Tasks::new(record.clone());
        Self { client, url, reporter, record, under_way, commands, tasks, modes: Modes::default() }
    }

    /// Sends MKD without waiting. An existing folder is no error.
    pub(crate) async fn make_folder(&mut self, remote: PathArg, name: &[u8]) -> Result<()> {
        self.tasks.reap()?;
        let Ok(permit) = self.commands.clone().acquire_owned().await else { return Ok(()) };
        let reply = self.client.begin_command(Command::MakeDirectory(remote.clone())).await?;
        let (client, reporter, record, name) =
            (self.client.clone(), self.reporter.clone(), self.record.clone(), name.to_vec());
        self.tasks.spawn(async move {
            let _permit = permit;
            let Ok(reply) = reply.await else { return Ok(()) };
            let reply = reply?;
            if !reply.code.is_error() {
                record.done(&name);
                reporter.done(&name, Action::MadeFolder, 0, 0);
                return Ok(());
            }
            // 550 is the reply for an existing folder, and for one that may not be created. CWD distinguishes
            // these, and so does MLST without changing the session's folder.
            let facts = client.command(Command::MachineFacts(Some(remote))).await?;
            if facts.code.is_error() {
                record.failed(
                    &reporter,
                    &name,
                    of_write_reply(&format!("make the folder {}", escape(&name)), &reply),
                );
            }
            Ok(())
        });
        Ok(())
    }

    /// Sends a command about an entry of the tree, without waiting.
    pub(crate) async fn command(&mut self, command: Command, name: &[u8], action: Action) -> Result<()> {
        self.tasks.reap()?;
        let Ok(permit) = self.commands.clone().acquire_owned().await else { return Ok(()) };
        let reply = self.client.begin_command(command).await?;
        let (reporter, record, name) = (self.reporter.clone(), self.record.clone(), name.to_vec());
        self.tasks.spawn(async move {
            let _permit = permit;
            let Ok(reply) = reply.await else { return Ok(()) };
            let reply = reply?;
            match reply.code.is_error() {
                false => {
                    record.done(&name);
                    reporter.done(&name, action, 0, 0);
                }
                true => record.failed(
                    &reporter,
                    &name,
                    of_write_reply(&format!("change {}", escape(&name)), &reply),
                ),
            }
            Ok(())
        });
        Ok(())
    }

    /// Sets permission bits, without waiting; reported under `name`, if given. An unsupported command is
    /// reported once and not sent again.
    pub(crate) async fn set_mode(&mut self, remote: PathArg, name: &[u8], mode: u32) -> Result<()> {
        self.tasks.reap()?;
        let Ok(permit) = self.commands.clone().acquire_owned().await else { return Ok(()) };
        let modes = self.modes.clone();
        if modes.are_refused() {
            return Ok(());
        }
        let reply = self.client.begin_command(Command::Site(Site::Chmod(mode, remote))).await?;
        let (reporter, record, name) = (self.reporter.clone(), self.record.clone(), name.to_vec());
        self.tasks.spawn(async move {
            let _permit = permit;
            let Ok(reply) = reply.await else { return Ok(()) };
            let reply = reply?;
            if reply.code.is_error() {
                modes.refuse(&reporter, &reply);
            } else if !name.is_empty() {
                record.done(&name);
                reporter.done(&name, Action::SetMode, 0, 0);
            }
            Ok(())
        });
        Ok(())
    }

    /// Begins to send a file; returns when there is room for it.
    ///
    /// # Errors
    ///
    /// The session has ended, or an error that affects every file.
    pub(crate) async fn send(&mut self, file: Send, features: &Features) -> Result<()> {
        self.tasks.reap()?;
        if self.record.is_settled(&file.name) {
            return Ok(());
        }
        let Ok(permit) = self.under_way.clone().acquire_owned().await else { return Ok(()) };
        let memory = (file.size >= WORTH_RESUMING).then(|| Memory::of(&self.url, &file));
        let offset = match features.partial && memory.as_ref().is_some_and(Memory::is_of_this_file) {
            true => self.kept(&file).await?,
            false => 0,
        };
        memory.iter().for_each(Memory::remember);
        self.reporter.expect(file.size - offset);
        let source = Source::new(
            file.root.clone(),
            file.local.clone(),
            file.name.clone(),
            offset,
            self.reporter.clone(),
        );
        if self.client.parallel() > 1 {
            // Another session creates the folder of the file.
            let _all = self.commands.acquire_many(COMMANDS as u32).await;
        }
        let lane = self.client.lane().await;
        let (client, remote, size) = (lane.client.clone(), file.remote.clone(), file.size);
        let finish = Finish {
            lane,
            reporter: self.reporter.clone(),
            record: self.record.clone(),
            tasks: self.tasks.clone(),
            file,
            offset,
            memory,
            set_time: self.client.mode() != Mode::Braid && features.mfmt,
            modes: self.modes.clone(),
            _permit: permit,
        };
        client.store_then(remote, size, source, Box::new(finish)).await
    }

    /// The number of bytes that the server keeps of this file from an interrupted upload.
    async fn kept(&self, file: &Send) -> Result<u64> {
        let reply = self.client.command(Command::Partial(file.remote.clone())).await?;
        let text = reply.lines.first().map(|line| String::from_utf8_lossy(line).trim().to_owned());
        let kept =
            text.and_then(|text| text.parse::<u64>().ok()).filter(|_| !reply.code.is_error()).unwrap_or(0);
        Ok(if kept <= file.size { kept } else { 0 })
    }

    /// Waits until no file and no command is in progress.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) async fn drain(&mut self) -> Result<()> {
        let most = most_under_way(self.client.mode()) * self.client.parallel();
        let _files = self.under_way.acquire_many(most as u32).await;
        let _commands = self.commands.acquire_many(COMMANDS as u32).await;
        self.tasks.reap()
    }

    /// Waits for everything that was begun.
    ///
    /// # Errors
    ///
    /// As [`Self::send`].
    pub(crate) async fn finish(self) -> Result<()> {
        let most = most_under_way(self.client.mode()) * self.client.parallel();
        let _files = self.under_way.acquire_many(most as u32).await;
        self.tasks.finish().await
    }
}

#[derive(Debug)]
struct Finish {
    /// The session of the transfer, which is also used for the following commands.
    lane: Lane,
    reporter: Reporter,
    record: Record,
    tasks: Tasks,
    file: Send,
    offset: u64,
    /// `None` for a small file.
    memory: Option<Memory>,
    set_time: bool,
    modes: Modes,
    _permit: OwnedSemaphorePermit,
}

impl Completion for Finish {
    /// Ends an upload without a fault that needs no further command. A task ends every other one.
    fn complete(mut self: Box<Self>, mut done: Done) {
        // Time and mode are set while the next file is transferred.
        self.lane.release();
        let is_right = done.result.is_ok() && done.data.error.is_none();
        let has_more = self.set_time || self.file.mode.is_some_and(|_| !self.modes.are_refused());
        if !is_right || has_more {
            return self.tasks.clone().spawn(self.run(done));
        }
        if let Some(Body::Source(source)) = &mut done.body {
            source.close();
        }
        self.end(done.data.bytes);
    }
}

impl Finish {
    fn end(&self, bytes: u64) {
        let name = &self.file.name;
        self.memory.iter().for_each(Memory::forget);
        self.record.finished(name);
        self.reporter.done(name, Action::Sent, self.offset + bytes, self.offset);
    }

    async fn run(self: Box<Self>, done: Done) -> Result<()> {
        let (name, client) = (&self.file.name, &self.lane.client);
        if let Some(Body::Source(mut source)) = done.body {
            source.close();
        }
        let error = match (done.result, done.data.error) {
            (Ok(_), None) => None,
            (Err(error), None) => Some(error),
            // Of two errors the local one is the cause, unless it only says that the transfer was stopped.
            (Ok(_), Some(here)) => Some(here),
            (Err(there), Some(here)) if here.is_transient() => Some(there),
            (Err(_), Some(here)) => Some(here),
        };
        if let Some(error) = error {
            let error = Error { what: format!("send {}", escape(name)), ..error };
            if error.is_transient() || error.exit == Exit::Sigint {
                return Err(error);
            }
            self.memory.iter().for_each(Memory::forget);
            self.record.failed(&self.reporter, name, error);
            return Ok(());
        }
        if self.set_time {
            let command = Command::SetModifiedTime(timestamp(self.file.modified), self.file.remote.clone());
            let reply = client.command(command).await?;
            if reply.code.is_error() {
                self.reporter.warn(format_args!("the time of {} could not be set: {reply}", escape(name)));
            }
        }
        if let Some(mode) = self.file.mode.filter(|_| !self.modes.are_refused()) {
            let command = Command::Site(Site::Chmod(mode, self.file.remote.clone()));
            let reply = client.command(command).await?;
            if reply.code.is_error() {
                self.modes.refuse(&self.reporter, &reply);
            }
        }
        self.end(done.data.bytes);
        Ok(())
    }
}

/// The size and time of a file when its upload began, stored on the local disk under a name derived from its
/// destination.
#[derive(Debug)]
struct Memory {
    path: Option<PathBuf>,
    content: String,
}

impl Memory {
    fn of(url: &Url, file: &Send) -> Self {
        let time = timestamp(file.modified);
        let content = format!("{} {}.{:09}\n", file.size, time.seconds, time.nanos);
        let user = url.user.as_deref().unwrap_or(b"anonymous");
        let key = [url.host.to_string().as_bytes(), user, file.remote.as_bytes()].join(&0);
        let state = std::env::var_os("XDG_STATE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")));
        let path =
            state.map(|state| state.join("braidftp/uploads").join(format!("{:032x}", path_hash(&key))));
        Self { path, content }
    }

    fn is_of_this_file(&self) -> bool {
        self.path
            .as_ref()
            .is_some_and(|path| std_fs::read_to_string(path).is_ok_and(|text| text == self.content))
    }

    /// Without a record an interrupted upload restarts from its first byte: slower, and correct.
    fn remember(&self) {
        if let Some(path) = &self.path {
            let _ = path.parent().map(std_fs::create_dir_all);
            let _ = std_fs::write(path, &self.content);
        }
    }

    fn forget(&self) {
        if let Some(path) = &self.path {
            let _ = std_fs::remove_file(path);
        }
    }
}
