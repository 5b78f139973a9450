//! The server session: reads ahead, begins commands in order, and sends replies in order.
//!
//! A command moves from a line to the queue (read ahead), to a slot (begun, or waiting for an earlier one),
//! until its replies are sent. Over TCP, naive and ms there is one slot; in braid as many as the window
//! permits.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use braidftp_base::{Output, Time};
use bytes::{Bytes, BytesMut};

use super::answer::Answer;
use super::begun::{Barrier, Begun, Touches, What};
use super::first_files::FirstFile;
use super::hosts::{self, HostId};
use super::paths::Paths;
use super::state::{After, Channel, DataChannel, Login, State};
use super::{Carrier, Config, Do, Extent, Failure, Input, JobId, LoginError, Outcome, Source, Upload};
use crate::command::{Command, CommandError, TransferKind, Type, split_verb};
use crate::line::{LineError, Splitter, escape_iac};
use crate::mapping::{DataPath, TransferNumber};
use crate::path::SafePath;
use crate::reply::{Code, Reply};

/// The maximum number of bytes of replies sent at once, if each is smaller.
const SEND_BYTES: usize = 16 << 10;
/// The memory of a queued reply besides its text, in bytes.
const REPLY_OVERHEAD_BYTES: usize = 96;
/// The text of the reply to RETR without a path if the tree has no further file: no fault of the client, who cannot know.
pub const NO_FURTHER_FILE: &str = "no further file";
/// The maximum number of concurrent queries and changes in braid.
const CONCURRENT_LOOKUPS: usize = 64;

/// One FTP session, server side.
#[derive(Debug)]
pub struct Session {
    pub(super) config: Arc<Config>,
    pub(super) carrier: Carrier,
    pub(super) state: State,
    splitter: Splitter,
    queue: VecDeque<Queued>,
    queue_bytes: usize,
    slots: VecDeque<Slot>,
    /// The number of the first slot since the start of the session; slots are numbered consecutively.
    first_slot: u64,
    /// The paths of the slots.
    paths: Paths,
    /// The number of the next slot, which is also that of its job.
    next_job: u64,
    /// The numbers of the slots whose jobs are not issued, in order.
    waiting: VecDeque<u64>,
    /// The numbers of those among them whose file is not named yet.
    unnamed: VecDeque<u64>,
    /// The numbers of jobs that are not issued, and of those that run.
    waiting_jobs: Jobs,
    running_jobs: Jobs,
    /// The number of transfer commands read and begun or refused.
    transfers_read: u32,
    transfers_begun: u32,
    replies: VecDeque<Bytes>,
    replies_bytes: usize,
    todo: VecDeque<Do>,
    /// The time of the most recent input.
    heard: Time,
    /// Since when no user is logged in; `None` while a user is.
    nobody_since: Option<Time>,
    /// A limit on concurrent transfers besides that of the configuration.
    transfers_allowed: usize,
    ending: Ending,
    pub(super) channel: Channel,
    /// Users of whom the client has proved possession of a key, by virtual host.
    pub(super) vouched: BTreeSet<(Option<HostId>, Bytes)>,
    /// The selected virtual host.
    pub(super) host: Option<HostId>,
    /// The server name that the client sent in TLS.
    pub(super) server_name: Option<Bytes>,
}

/// A command that was read and has not begun.
#[derive(Debug)]
struct Queued {
    command: Result<Command, CommandError>,
    bytes: usize,
    transfer: Option<(TransferNumber, TransferKind)>,
    abort: Aborted,
}

/// The effect of ABOR on a queued command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aborted {
    No,
    /// A transfer that must not begin.
    Cancelled,
    /// An ABOR that stopped a running transfer of ms: stream 1 is out of step.
    OutOfStep,
}

/// A command that has begun and whose replies are not all sent.
#[derive(Debug)]
struct Slot {
    transfer: Option<(TransferNumber, TransferKind)>,
    phase: Phase,
    touches: Touches,
    replies: Vec<Reply>,
    after: After,
}

#[derive(Debug)]
enum Phase {
    /// Its job is not issued: the slot with this number must end first, or too many jobs are running.
    Waiting {
        job: JobId,
        todo: Do,
        answer: Answer,
        behind: Option<u64>,
    },
    /// A download whose file the listing of its tree has not named yet.
    Unnamed(FirstFile),
    Running {
        job: JobId,
        answer: Answer,
        cancel: Cancel,
    },
    Authenticating,
    Done,
}

/// A number of jobs, by kind.
#[derive(Debug, Default, Clone, Copy)]
struct Jobs {
    lookups: usize,
    downloads: usize,
    uploads: usize,
}

impl Jobs {
    fn of(&mut self, kind: Option<TransferKind>) -> &mut usize {
        match kind {
            None => &mut self.lookups,
            Some(TransferKind::Download) => &mut self.downloads,
            Some(TransferKind::Upload) => &mut self.uploads,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cancel {
    No,
    Asked,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// A command that ends the session has begun: no further one begins.
    Closing,
    /// [`Input::Drain`]: commands in progress are finished.
    Draining,
    /// [`Do::Close`] was returned.
    Closed,
}

impl Session {
    /// Creates a session on an accepted control connection; the greeting is the first output.
    pub fn new(config: Arc<Config>, carrier: Carrier, now: Time) -> Self {
        let mut session = Self {
            state: State::new(carrier),
            config,
            carrier,
            splitter: Splitter::new(),
            queue: VecDeque::new(),
            queue_bytes: 0,
            slots: VecDeque::new(),
            first_slot: 0,
            paths: Paths::default(),
            next_job: 0,
            waiting: VecDeque::new(),
            unnamed: VecDeque::new(),
            waiting_jobs: Jobs::default(),
            running_jobs: Jobs::default(),
            transfers_read: 0,
            transfers_begun: 0,
            replies: VecDeque::new(),
            replies_bytes: 0,
            todo: VecDeque::new(),
            heard: now,
            nobody_since: Some(now),
            transfers_allowed: usize::MAX,
            ending: Ending::No,
            channel: Channel::Clear,
            vouched: BTreeSet::new(),
            host: None,
            server_name: None,
        };
        let greeting = Reply::new(Code::READY, &session.config.greeting);
        session.send(&greeting);
        session
    }

    /// Creates a session on a TCP control connection that began with TLS (port 990). Data connections are
    /// protected from the beginning without PROT, since there is no alternative.
    pub fn secured(config: Arc<Config>, carrier: Carrier, now: Time) -> Self {
        let mut session = Self::new(config, carrier, now);
        session.channel = Channel::Tls;
        session.state.data_channel = DataChannel::Private;
        session
    }

    /// Creates a session over a protected association, which protects all data as well.
    pub fn over_protection(config: Arc<Config>, carrier: Carrier, now: Time) -> Self {
        let mut session = Self::new(config, carrier, now);
        session.channel = Channel::Below;
        session
    }

    /// From now on these users log in by USER alone, with [`Do::Admit`]: inside the protection, the client
    /// has proved possession of a key of theirs (RFC 4217 §12.2), for a virtual host or for the default host.
    /// Call this before the first input from inside the protection, and each time that protection starts.
    pub fn vouch(&mut self, users: impl IntoIterator<Item = (Option<HostId>, Bytes)>) {
        self.vouched = users.into_iter().collect();
    }

    /// Records the server name that the client sent in TLS ("server_name", RFC 6066 §3). The session uses the
    /// virtual host of that name, if there is one, and HOST may give no other name. Call this before the
    /// first input from inside TLS.
    pub fn name_server(&mut self, name: &str) {
        self.server_name = Some(Bytes::copy_from_slice(name.as_bytes()));
        self.host = hosts::find(&self.config.hosts, name.as_bytes());
    }

    /// The virtual host whose users log in; `None`: the default host. It does not change between USER and the
    /// answer to [`Do::Authenticate`] or [`Do::Admit`].
    pub fn host(&self) -> Option<HostId> {
        self.host
    }

    /// Whether the control connection, and with it each data connection, is protected by TLS.
    pub fn is_secured(&self) -> bool {
        self.channel == Channel::Tls
    }

    /// Processes an input. Call [`Self::poll`] afterwards.
    pub fn handle(&mut self, now: Time, input: Input) {
        if self.ending == Ending::Closed {
            return;
        }
        self.heard = now;
        match input {
            // Unprotected input is ignored: it may come from an attacker.
            Input::Received(_) if self.channel == Channel::Handshake => {}
            Input::Received(bytes) => self.splitter.push(&bytes),
            Input::Secured if self.channel == Channel::Handshake => self.channel = Channel::Tls,
            Input::Secured => {}
            Input::Closed => self.close(),
            Input::Authenticated(result) => self.authenticated(result),
            Input::Started { job, size, name } => self.started(job, size, name.as_ref()),
            Input::Listed { job, files } => self.listed(job, &files),
            Input::Done { job, outcome } => self.done(job, outcome),
            Input::Drain if self.ending == Ending::No => self.ending = Ending::Draining,
            Input::Drain => {}
        }
        self.advance();
        match self.state.login {
            Login::In(_) => self.nobody_since = None,
            Login::Nobody | Login::Named(_) | Login::Shown(_) => {
                self.nobody_since = self.nobody_since.or(Some(now))
            }
        }
    }

    /// Returns bytes for the control connection (complete reply lines; over SCTP one message of stream 0),
    /// or a [`Do`].
    pub fn poll(&mut self, now: Time) -> Output<Bytes, Do> {
        let is_over = |deadline: Option<Time>| deadline.is_some_and(|deadline| deadline <= now);
        if is_over(self.idle_deadline()) {
            self.send(&Reply::new(Code::UNAVAILABLE, "idle for too long, goodbye"));
            self.close();
        } else if is_over(self.login_deadline()) {
            let text = format!("no login within {} s, goodbye", self.config.login_within.as_secs());
            self.send(&Reply::new(Code::UNAVAILABLE, text));
            self.close();
        }
        loop {
            if let Some(bytes) = self.next_send() {
                return Output::Send(bytes);
            }
            if let Some(todo) = self.todo.pop_front() {
                return Output::Event(todo);
            }
            // Replies that blocked further commands have been sent.
            self.advance();
            if self.replies.is_empty() && self.todo.is_empty() {
                return Output::Wait(self.idle_deadline().into_iter().chain(self.login_deadline()).min());
            }
        }
    }

    /// Limits the number of concurrent transfers to `most`, but at least 1 and at most the configured number.
    /// Running transfers continue.
    pub fn allow_transfers(&mut self, most: usize) {
        self.transfers_allowed = most.max(1);
    }

    /// Whether more of the control connection may be read. If not, leave it in the transport.
    pub fn wants_input(&self) -> bool {
        //= specs/ftp-over-sctp.md#section-6.4
        //# It MUST NOT take further lines into its session beyond that
        self.ending == Ending::No && self.has_window() && self.channel != Channel::Handshake
    }

    /// The state of the upload with this number. May change after each `handle` and `poll`.
    pub fn upload(&self, transfer: TransferNumber) -> Upload {
        let slot = self.slots.iter().find(|slot| slot.transfer == Some((transfer, TransferKind::Upload)));
        match slot.map(|slot| &slot.phase) {
            Some(Phase::Running { job, .. }) => Upload::Open(*job),
            Some(Phase::Waiting { .. } | Phase::Unnamed(_)) => Upload::Undecided,
            Some(Phase::Authenticating | Phase::Done) => Upload::Over,
            None if transfer.0 > self.transfers_begun => Upload::Undecided,
            None => Upload::Over,
        }
    }

    fn has_window(&self) -> bool {
        self.queue.len() + self.slots.len() < self.config.window_commands
            && self.queue_bytes < self.config.window_bytes
    }

    fn idle_deadline(&self) -> Option<Time> {
        let idle = self.is_idle() && self.ending != Ending::Closed;
        let limit = match self.state.login {
            Login::In(_) => self.config.idle,
            _ => self.config.idle.min(self.config.idle_before_login),
        };
        idle.then(|| self.heard + limit)
    }

    /// The time at which a session without a login ends, unless a password is being checked.
    fn login_deadline(&self) -> Option<Time> {
        let is_checked = || self.slots.iter().any(|slot| matches!(slot.phase, Phase::Authenticating));
        let since = self.nobody_since.filter(|_| self.ending != Ending::Closed && !is_checked())?;
        Some(since + self.config.login_within)
    }

    /// Whether no command waits or runs.
    pub fn is_idle(&self) -> bool {
        self.slots.is_empty() && self.queue.is_empty()
    }

    /// Begins the commands that may begin.
    fn advance(&mut self) {
        loop {
            self.read_ahead();
            self.hand_out();
            self.flush();
            if self.ending == Ending::Draining && self.slots.is_empty() {
                self.send(&Reply::new(Code::UNAVAILABLE, "the server shuts down, goodbye"));
                self.close();
            }
            if self.ending != Ending::No || !self.begin_next() {
                return;
            }
        }
    }

    /// Moves lines into the queue within the window. ABOR takes effect here.
    fn read_ahead(&mut self) {
        while self.ending == Ending::No && self.has_window() && self.channel != Channel::Handshake {
            let Some(line) = self.splitter.next_line() else { return };
            let (command, bytes, kind) = match line {
                Ok(line) => {
                    let kind = TransferKind::of_verb(split_verb(&line.0).0);
                    (Command::parse(&line), line.0.len(), kind)
                }
                Err(LineError::TooLong) => (Err(CommandError::Syntax), 0, None),
            };
            //= specs/ftp-over-sctp.md#section-6.1
            //# The n-th transfer command of an association, counted from 1, is transfer n.
            let transfer = kind.map(|kind| {
                self.transfers_read += 1;
                (TransferNumber(self.transfers_read), kind)
            });
            let abort = match &command {
                Ok(Command::Abort(number)) => self.abort(number.map(TransferNumber)),
                _ => Aborted::No,
            };
            self.queue_bytes += bytes;
            self.queue.push_back(Queued { command, bytes, transfer, abort });
        }
    }

    /// Cancels the transfer with this number, or all transfers that were read and are not done.
    fn abort(&mut self, number: Option<TransferNumber>) -> Aborted {
        let meant = |transfer: Option<(TransferNumber, TransferKind)>| match (transfer, number) {
            (Some((transfer, _)), Some(number)) => transfer == number,
            (transfer, None) => transfer.is_some(),
            (None, Some(_)) => false,
        };
        let mut result = Aborted::No;
        for slot in self.slots.iter_mut().filter(|slot| meant(slot.transfer)) {
            match &mut slot.phase {
                Phase::Running { job, cancel, .. } => {
                    if *cancel == Cancel::No {
                        *cancel = Cancel::Asked;
                        self.todo.push_back(Do::Cancel { job: *job });
                    }
                    if matches!(self.carrier, Carrier::Ms) {
                        result = Aborted::OutOfStep;
                    }
                }
                Phase::Waiting { .. } | Phase::Unnamed(_) => {
                    *self.waiting_jobs.of(slot.kind()) -= 1;
                    slot.finish(cancelled());
                }
                Phase::Authenticating | Phase::Done => {}
            }
        }
        for queued in self.queue.iter_mut().filter(|queued| meant(queued.transfer)) {
            queued.abort = Aborted::Cancelled;
        }
        // The listing may be among them.
        self.name_first_files();
        result
    }

    /// Begins the first queued command; false if it must wait or there is none.
    fn begin_next(&mut self) -> bool {
        if self.answer_status_at_once() {
            return true;
        }
        let Some(next) = self.queue.front() else { return false };
        if self.replies_bytes >= self.config.replies_bytes {
            return false;
        }
        let may = if self.is_braid() {
            // A login change affects every command, so earlier ones must end first.
            let alone =
                matches!(next.command, Ok(Command::User(_) | Command::Password(_) | Command::Reinitialize));
            (!alone || self.slots.is_empty())
                // Nothing has begun behind a barrier that is not done.
                && !self.slots.back().is_some_and(|slot| slot.touches.barrier == Barrier::Yes && !slot.is_done())
        } else {
            self.slots.is_empty()
        };
        if !may {
            return false;
        }
        let Some(Queued { command, bytes, transfer, abort }) = self.queue.pop_front() else { return false };
        self.queue_bytes -= bytes;
        if let Some((number, _)) = transfer {
            self.transfers_begun = number.0;
        }
        let job = JobId(self.next_job);
        self.next_job += 1;
        let begun = match abort {
            Aborted::Cancelled => {
                if let (Ok(Command::RetrieveNext), Some(first)) = (&command, &mut self.state.first_files) {
                    first.request();
                }
                self.forget_preparations(transfer.map(|(_, kind)| kind));
                Begun::reply(cancelled())
            }
            _ => self.begin(job, command, transfer.map(|(number, _)| number)),
        };
        let Begun { what, touches, mut after } = begun;
        if abort == Aborted::OutOfStep {
            //= specs/ftp-over-sctp.md#section-5.3
            //# MUST then shut the association down.
            after = After::Close;
        }
        if after == After::Close {
            self.ending = Ending::Closing;
        }
        let mut slot = Slot { transfer, phase: Phase::Done, touches, replies: Vec::new(), after };
        match what {
            What::Reply(reply) => {
                slot.finish(reply);
            }
            What::Authenticate(todo) => {
                slot.phase = Phase::Authenticating;
                self.todo.push_back(todo);
            }
            What::Job(todo, answer) => {
                self.waiting.push_back(job.0);
                *self.waiting_jobs.of(slot.kind()) += 1;
                slot.phase = Phase::Waiting { job, todo, answer, behind: None };
            }
            What::FirstFile(file) => {
                self.waiting.push_back(job.0);
                self.unnamed.push_back(job.0);
                *self.waiting_jobs.of(slot.kind()) += 1;
                slot.phase = Phase::Unnamed(file);
            }
        }
        self.paths.add(job.0, &slot.touches);
        self.slots.push_back(slot);
        self.name_first_files();
        true
    }

    /// Names the downloads of first files that the listing of their tree has named; refuses those that it does not have.
    fn name_first_files(&mut self) {
        while let Some(&number) = self.unnamed.front() {
            let unnamed = self.place(number).and_then(|at| match self.slots[at].phase {
                Phase::Unnamed(file) => Some((at, file)),
                _ => None,
            });
            let Some((at, file)) = unnamed else {
                // Cancelled.
                self.unnamed.pop_front();
                continue;
            };
            let first = self.state.first_files.as_ref().filter(|first| first.listing() == file.listing);
            let is_listing = first.is_some()
                && self.place(file.listing.0).is_some_and(|listing| !self.slots[listing].is_done());
            let slot = &mut self.slots[at];
            match (first.and_then(|first| first.path(file.place)), slot.transfer) {
                (Some(Ok(path)), Some((transfer, _))) => {
                    let job = JobId(number);
                    let (todo, answer, touches) = retrieve_whole(job, transfer, path);
                    slot.phase = Phase::Waiting { job, todo, answer, behind: None };
                    self.paths.remove(number, &slot.touches);
                    self.paths.add(number, &touches);
                    slot.touches = touches;
                }
                (None, _) if is_listing => return,
                (named, _) => {
                    slot.finish(match named {
                        Some(Err(error)) => Reply::new(Code::NAME_NOT_ALLOWED, error.to_string()),
                        _ => Reply::new(Code::FILE_UNAVAILABLE, NO_FURTHER_FILE),
                    });
                    *self.waiting_jobs.of(self.slots[at].kind()) -= 1;
                }
            }
            self.unnamed.pop_front();
        }
    }

    /// STAT during a transfer is answered immediately (RFC 959 §4.1.3).
    fn answer_status_at_once(&mut self) -> bool {
        let waits = matches!(self.queue.front(), Some(Queued { command: Ok(Command::Status(None)), .. }));
        let running =
            matches!(self.slots.front(), Some(Slot { phase: Phase::Running { .. }, transfer: Some(_), .. }));
        if !waits || !running || self.is_braid() || self.replies_bytes >= self.config.replies_bytes {
            return false;
        }
        if let Some(queued) = self.queue.pop_front() {
            self.queue_bytes -= queued.bytes;
        }
        let status = self.status();
        self.send(&status);
        true
    }

    /// Issues the jobs of slots that no longer wait for others.
    fn hand_out(&mut self) {
        let (downloads_max, transfers_max) = match self.carrier {
            Carrier::Braid { data_streams } => {
                let downloads = self.config.concurrent_downloads.max(usize::from(data_streams));
                (downloads, self.config.concurrent_transfers.max(downloads).min(self.transfers_allowed))
            }
            _ => (1, 1),
        };
        let (mut next, mut is_upload_held_up, mut is_download_held_up) = (0, false, false);
        while let Some(&number) = self.waiting.get(next) {
            let Jobs { lookups, downloads, uploads } = self.running_jobs;
            let has_place = downloads + uploads < transfers_max;
            //= specs/ftp-over-sctp.md#section-6.3
            //# An upload that must wait for earlier commands (6.4) MUST hold up the uploads behind it
            let may_upload = has_place && !is_upload_held_up;
            let may_download = has_place && downloads < downloads_max && !is_download_held_up;
            let may_look_up = lookups < CONCURRENT_LOOKUPS;
            let left = self.waiting_jobs;
            if !(may_upload && left.uploads > 0
                || may_download && left.downloads > 0
                || may_look_up && left.lookups > 0)
            {
                return;
            }
            let is_open =
                |at: &usize| matches!(self.slots[*at].phase, Phase::Waiting { .. } | Phase::Unnamed(_));
            let Some(at) = self.place(number).filter(is_open) else {
                // Cancelled, or the session has ended.
                self.waiting.remove(next);
                continue;
            };
            let kind = self.slots[at].kind();
            let has_room = match kind {
                Some(TransferKind::Upload) => may_upload,
                Some(TransferKind::Download) => may_download,
                None => may_look_up,
            };
            if has_room && self.hand_out_one(at) {
                *self.waiting_jobs.of(kind) -= 1;
                *self.running_jobs.of(kind) += 1;
                self.waiting.remove(next);
            } else {
                // Otherwise uploads whose frames are behind those of this one could take all places.
                is_upload_held_up |= kind == Some(TransferKind::Upload);
                // Downloads begin in order.
                is_download_held_up |= matches!(self.slots[at].phase, Phase::Unnamed(_));
                next += 1;
            }
        }
    }

    /// The index of the slot with this number, unless it has ended.
    fn place(&self, number: u64) -> Option<usize> {
        let at = usize::try_from(number.checked_sub(self.first_slot)?).ok()?;
        (at < self.slots.len()).then_some(at)
    }

    /// Issues the job of a waiting slot; false if it must wait for an earlier slot.
    fn hand_out_one(&mut self, at: usize) -> bool {
        let Phase::Waiting { behind, .. } = self.slots[at].phase else { return false };
        // The blocking slot is remembered, so that the search is not repeated at each event.
        if behind.and_then(|number| self.place(number)).is_some_and(|at| !self.slots[at].is_done()) {
            return false;
        }
        let is_open = |number| self.place(number).is_some_and(|at| !self.slots[at].is_done());
        let found = self.paths.conflict(self.first_slot + at as u64, &self.slots[at].touches, is_open);
        let Phase::Waiting { behind, .. } = &mut self.slots[at].phase else { return false };
        if found.is_some() {
            *behind = found;
            return false;
        }
        if let Phase::Waiting { job, todo, answer, .. } =
            std::mem::replace(&mut self.slots[at].phase, Phase::Done)
        {
            self.todo.push_back(todo);
            self.slots[at].phase = Phase::Running { job, answer, cancel: Cancel::No };
        }
        true
    }

    /// Sends the replies of the first slot, and of the next ones once it is done.
    fn flush(&mut self) {
        while let Some(slot) = self.slots.front_mut() {
            let replies = std::mem::take(&mut slot.replies);
            let (done, after) = (slot.is_done(), slot.after);
            for reply in &replies {
                self.send(reply);
            }
            if !done {
                return;
            }
            if let Some(slot) = self.slots.pop_front() {
                self.paths.remove(self.first_slot, &slot.touches);
                self.first_slot += 1;
            }
            match after {
                After::Nothing => {}
                After::StartTls => self.start_tls(),
                After::Close => self.close(),
            }
        }
    }

    /// The reply 234 is being sent. Commands that follow AUTH were not protected and may come from an
    /// attacker: they are discarded (STARTTLS injection, CVE-2011-0411).
    fn start_tls(&mut self) {
        self.channel = Channel::Handshake;
        self.splitter = Splitter::new();
        self.queue.clear();
        self.queue_bytes = 0;
        self.todo.push_back(Do::StartTls);
    }

    fn started(&mut self, job: JobId, size: Option<u64>, name: Option<&SafePath>) {
        if self.is_braid() {
            return;
        }
        let Some(at) = self.place(job.0).filter(|at| self.slots[*at].runs(job)) else { return };
        if let Slot { phase: Phase::Running { answer, .. }, replies, .. } = &mut self.slots[at] {
            replies.push(answer.opening(size, name));
        }
    }

    fn done(&mut self, job: JobId, outcome: Result<Outcome, Failure>) {
        let Some(at) = self.place(job.0).filter(|at| self.slots[*at].runs(job)) else { return };
        *self.running_jobs.of(self.slots[at].kind()) -= 1;
        if let Phase::Running { answer, .. } = std::mem::replace(&mut self.slots[at].phase, Phase::Done) {
            let reply = self.state.answer(answer, outcome);
            self.slots[at].replies.push(reply);
        }
        self.name_first_files();
    }

    fn listed(&mut self, job: JobId, files: &[SafePath]) {
        if let Some(first) = self.state.first_files.as_mut().filter(|first| first.listing() == job) {
            first.add(files);
            self.name_first_files();
        }
    }

    fn authenticated(&mut self, result: Result<(), LoginError>) {
        let Some(at) = self.slots.iter().position(|slot| matches!(slot.phase, Phase::Authenticating)) else {
            return;
        };
        let (reply, after) = self.state.authenticated(result, self.config.login_attempts);
        self.slots[at].after = after;
        self.slots[at].finish(reply);
        if after == After::Close {
            self.ending = Ending::Closing;
        }
    }

    /// Ends the session: cancels running jobs, and begins no more commands.
    fn close(&mut self) {
        if self.ending == Ending::Closed {
            return;
        }
        self.ending = Ending::Closed;
        for slot in &mut self.slots {
            if let Phase::Running { job, cancel: Cancel::No, .. } = slot.phase {
                self.todo.push_back(Do::Cancel { job });
            }
        }
        self.slots.clear();
        self.paths = Paths::default();
        self.waiting.clear();
        self.unnamed.clear();
        (self.waiting_jobs, self.running_jobs) = (Jobs::default(), Jobs::default());
        self.queue.clear();
        self.queue_bytes = 0;
        self.todo.push_back(Do::Close);
    }

    /// REST and ALLO apply to one transfer command, even if it does not begin.
    fn forget_preparations(&mut self, kind: Option<TransferKind>) {
        self.state.restart = 0;
        if kind == Some(TransferKind::Upload) {
            self.state.allocated = None;
        }
    }

    pub(super) fn give(&mut self, todo: Do) {
        self.todo.push_back(todo);
    }

    fn send(&mut self, reply: &Reply) {
        if self.channel == Channel::Handshake {
            // It would appear between the records of a handshake.
            return;
        }
        //= specs/rfc3659.txt#section-2.2
        //# the Telnet IAC character, if part of a pathname sent over the control connection, MUST be correctly escaped as
        //# defined by the Telnet protocol.
        let reply = reply.encode();
        let mut bytes = Vec::with_capacity(reply.len());
        escape_iac(&reply, &mut bytes);
        self.replies_bytes += bytes.len() + REPLY_OVERHEAD_BYTES;
        self.replies.push_back(bytes.into());
    }

    fn next_send(&mut self) -> Option<Bytes> {
        let first = self.replies.pop_front()?;
        self.replies_bytes -= first.len() + REPLY_OVERHEAD_BYTES;
        let mut joined: Option<BytesMut> = None;
        let mut length = first.len();
        while let Some(next) = self.replies.front()
            && length + next.len() <= SEND_BYTES
        {
            length += next.len();
            self.replies_bytes -= next.len() + REPLY_OVERHEAD_BYTES;
            joined.get_or_insert_with(|| BytesMut::from(&first[..])).extend_from_slice(next);
            self.replies.pop_front();
        }
        Some(joined.map_or(first, BytesMut::freeze))
    }

    pub(super) fn is_braid(&self) -> bool {
        matches!(self.carrier, Carrier::Braid { .. })
    }

    /// The number of running transfers.
    pub(super) fn transfers_running(&self) -> usize {
        self.slots.iter().filter(|slot| slot.transfer.is_some() && !slot.is_done()).count()
    }
}

impl Slot {
    /// The kind of its transfer, if it is one.
    fn kind(&self) -> Option<TransferKind> {
        self.transfer.map(|(_, kind)| kind)
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    fn runs(&self, wanted: JobId) -> bool {
        matches!(self.phase, Phase::Running { job, .. } if job == wanted)
    }

    fn finish(&mut self, reply: Reply) {
        self.phase = Phase::Done;
        self.replies.push(reply);
    }
}

/// RETR of a file, named by the listing of its tree.
fn retrieve_whole(job: JobId, transfer: TransferNumber, path: &SafePath) -> (Do, Answer, Touches) {
    let representation = Type::Image;
    let source = Source::File { path: path.clone(), offset: 0, representation, extent: Extent::ToEnd };
    let todo = Do::Send { job, data: DataPath::Framed { transfer }, source };
    (todo, Answer::Transfer { path: path.clone() }, Touches::reading(path.clone()))
}

fn cancelled() -> Reply {
    Reply::new(Code::TRANSFER_ABORTED, Failure::Cancelled.to_string())
}
