//! The loop of one session: waits for the control connection, the jobs and the clock, passes their results to
//! `ftp::server::Session`, and executes the jobs that the machine returns.
//!
//! All modes run this loop; [`tcp`], [`sctp`] and [`braid`](super::braid) implement control connections and data paths. File
//! bytes do not pass through it: each transfer is a task of its own ([`transfer`]).

mod alarm;
mod client_watch;
mod login;
mod transfer;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use braidftp_base::{Output, Time};
use braidftp_ftp::Mode;
use braidftp_ftp::mapping::TransferNumber;
use braidftp_ftp::server::{Do, Failure, Input, JobId, NO_FURTHER_FILE, Outcome, Query, Session};
use braidftp_net::Association;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinSet, unconstrained};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span};

use self::alarm::Alarm;
use self::client_watch::Watch;
use super::activity::{Direction, Finished, SessionGuard};
use super::audit::Subject;
use super::braid::Lanes;
use super::control::{Arrived, Lost, More, Rx, Tx};
use super::events::{Ask, Event, Post, Upload};
use super::hooks::{self, On};
use super::hosts;
use super::limits::{Place, Standing};
use super::logins::Withheld;
use super::store::Store;
use super::transfers::UnderWay;
use super::{DIGESTS_OF_SESSION, Phase, Settings, Shared, sctp, tcp, xferlog};
use crate::store::fs::Blocks;

/// Maximum bytes of replies that are with the transport. At this number the machine is not polled for more.
pub(crate) const OUT_BYTES: usize = 64 << 10;
/// The maximum number of events that a step handles.
const EVENTS_A_STEP: usize = 64;
/// Refusals of one session that are logged at level info; further ones are logged at level debug.
const REFUSALS_LOGGED: u32 = 20;
/// Time limit for sending the last replies of a session.
const FAREWELL: Duration = Duration::from_secs(5);

/// The state of one session. Dropping it ends the session's transfers.
pub(super) struct Driver {
    shared: Arc<Shared>,
    /// The settings at the start of the session.
    settings: Arc<Settings>,
    peer: IpAddr,
    /// The span of the session's log lines.
    span: Span,
    subject: Subject,
    place: Place,
    /// The session's record for operators.
    seat: SessionGuard,
    session: Session,
    origin: Instant,
    rx: Rx,
    /// Whether the control connection may deliver more input.
    reading: Reading,
    tx: Tx,
    data: Data,
    store: Option<Store>,
    /// The home folder of the user, relative to the root of the server.
    home: PathBuf,
    /// Memory for blocks of files in transfers of this session.
    blocks: Blocks,
    /// Transfers under way.
    under_way: BTreeMap<JobId, UnderWay>,
    events: mpsc::UnboundedReceiver<Event>,
    post: Post,
    jobs: JoinSet<()>,
    /// Limits how many files of this session are read at once for digests.
    digests: Arc<Semaphore>,
    /// Cancels of the jobs that can be cancelled.
    cancels: BTreeMap<JobId, oneshot::Sender<()>>,
    /// Probes of a silent client.
    watch: Watch,
    /// Changes that are withheld because the client may have died after it requested them, and its user has a newer session.
    withheld: Withheld,
    /// braid: streams on which a transfer begins that the machine does not know yet.
    asks: Vec<Ask>,
    /// Whether a job that was begun in this step goes on as a task.
    has_long_job: bool,
    /// Jobs that wait until all present replies are with the transport.
    gates: Vec<oneshot::Sender<()>>,
    /// Replies to be sent.
    out: VecDeque<Bytes>,
    out_bytes: usize,
    /// When to poll the machine again.
    deadline: Option<Instant>,
    alarm: Alarm,
    /// Whether TLS begins once all replies are sent.
    tls: StartTls,
    /// The number of refusals that were logged.
    refusals: u32,
    /// Since when the session only sends what is left in `out`.
    closing: Option<Instant>,
    /// Whether the machine knows that the server drains.
    is_draining: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartTls {
    No,
    WhenSent,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Open,
    Ended,
}

/// The data paths of the session's transfers.
pub(super) enum Data {
    Tcp(tcp::Data),
    Sctp(sctp::Data),
    Braid(Arc<Lanes>),
}

/// An accepted control connection.
pub(super) struct Accepted {
    pub peer: IpAddr,
    pub place: Place,
    /// The mode of FTP.
    pub mode: Mode,
    pub session: Session,
    pub rx: Rx,
    pub tx: Tx,
    pub data: Data,
    pub events: mpsc::UnboundedReceiver<Event>,
    pub post: Post,
}

impl Driver {
    pub(super) fn new(shared: Arc<Shared>, accepted: Accepted) -> Self {
        let Accepted { peer, place, mode, session, rx, tx, data, events, post } = accepted;
        let blocks = Blocks::of_session(&shared.blocks);
        let settings = shared.settings.now();
        let subject = settings.audit.session(peer);
        let association = match &data {
            Data::Tcp(_) => None,
            Data::Sctp(data) => Some(data.control.clone()),
            Data::Braid(lanes) => Some(lanes.association().clone()),
        };
        let seat = shared.activity.enter(subject.session(), peer, mode.to_string(), association);
        place.set_progress(seat.progress());
        Self {
            shared,
            settings,
            peer,
            // Of the highest level, so that it marks lines of every level.
            span: tracing::error_span!("session", id = subject.session()),
            subject,
            place,
            seat,
            session,
            origin: Instant::now(),
            rx,
            reading: Reading::Open,
            tx,
            data,
            store: None,
            home: PathBuf::new(),
            blocks,
            under_way: BTreeMap::new(),
            events,
            post,
            jobs: JoinSet::new(),
            digests: Arc::new(Semaphore::new(DIGESTS_OF_SESSION)),
            cancels: BTreeMap::new(),
            watch: Watch::default(),
            withheld: Withheld::default(),
            asks: Vec::new(),
            has_long_job: false,
            gates: Vec::new(),
            out: VecDeque::new(),
            out_bytes: 0,
            deadline: None,
            alarm: Alarm::default(),
            tls: StartTls::No,
            refusals: 0,
            closing: None,
            is_draining: false,
        }
    }

    /// Runs the session to its end. `told` is the text of the log line at its start.
    ///
    /// # Cancel safety
    /// Dropping it ends the session: its jobs stop, its connections close.
    pub(super) async fn run(self, told: &str, phase: watch::Receiver<Phase>) {
        let span = self.span.clone();
        self.run_within(told, phase).instrument(span).await;
    }

    async fn run_within(mut self, told: &str, phase: watch::Receiver<Phase>) {
        tracing::info!(peer = %self.peer, "{told}");
        self.serve(phase).await;
        // Uploads under way store what has arrived, for resumption.
        for (_, cancel) in std::mem::take(&mut self.cancels) {
            let _ = cancel.send(());
        }
        if let Data::Braid(lanes) = &self.data {
            lanes.awaited().clear();
        }
        if self.store.is_none() {
            // Nobody waits for the result of a password check any more; a check that has begun is finished and counted.
            self.jobs.abort_all();
        }
        let _ = timeout(FAREWELL, async { while self.jobs.join_next().await.is_some() {} }).await;
        while let Ok(event) = self.events.try_recv() {
            if let Event::Input(Input::Done { job, outcome }) = event
                && let Some(finished) = self.seat.end(job, &outcome)
            {
                self.record(&finished);
            }
        }
    }

    async fn serve(&mut self, mut phase: watch::Receiver<Phase>) {
        if let Data::Braid(lanes) = &self.data {
            for reader in lanes.readers(&self.post) {
                self.jobs.spawn(reader.instrument(self.span.clone()));
            }
        }
        while self.step(&mut phase).await.is_continue() {}
    }

    /// Waits for the next event and handles it. [`Break`] ends the session.
    async fn step(&mut self, phase: &mut watch::Receiver<Phase>) -> ControlFlow<()> {
        self.settle();
        if self.closing.is_some() && self.out.is_empty() {
            self.tx.close().await;
            return Break(());
        }
        let now = Instant::now();
        let deadline = match self.closing {
            Some(since) => since + FAREWELL,
            None => self.deadline.unwrap_or(now + Duration::from_secs(3600)),
        };
        let stalled = now + self.settings.stall;
        let watched = match self.watch_client(now) {
            Ok(watched) => watched,
            Err(why) => return self.broken(why),
        };
        let looks = [watched, self.give_up_awaited(now), self.withheld.next_look(now)];
        let watched = looks.into_iter().flatten().fold(deadline, Instant::min);
        let alarm = if self.out.is_empty() { watched } else { watched.min(stalled) };
        let wanted = self.session.wants_input() && !self.rx.holds_some();
        let hungry = self.reading == Reading::Open
            && self.closing.is_none()
            && (wanted || self.may_hold() || self.tx.is_handshaking());
        let more = if self.under_way.is_empty() { More::None } else { More::Comes };
        tokio::select! {
            sent = self.tx.send(&mut self.out, more), if !self.out.is_empty() || self.tx.holds_some() => match sent {
                Ok(bytes) => self.out_bytes = self.out_bytes.saturating_sub(bytes),
                Err(lost) => return self.lost(&lost),
            },
            //= specs/rfc4217.txt#section-14
            //# When TLS is implemented as a security method in FTP, the server SHOULD NOT rely on the use of SIGURG to
            //# process input on the control channel during data transfers.
            arrived = self.rx.recv(), if hungry => return self.on_arrived(arrived),
            Some(event) = self.events.recv() => return self.on_events(event),
            Some(joined) = self.jobs.join_next() => {
                if joined.is_err_and(|error| error.is_panic()) {
                    // A panic is a bug of ours and the job will never report: end this session alone.
                    tracing::error!("a transfer task panicked; ending its session");
                    self.tx.abort("internal error");
                    return Break(());
                }
            }
            () = self.alarm.at(alarm) => {
                if !self.out.is_empty() && alarm == stalled {
                    return self.lost(&Lost("the client does not read its replies".into()));
                }
                if self.closing.is_some() && alarm == deadline {
                    return self.lost(&Lost("the client did not read the last replies".into()));
                }
            }
            () = self.seat.kicked() => {
                tracing::info!(peer = %self.peer, "session ended by an operator");
                self.tx.refuse("421 an operator has ended this session");
                return Break(());
            }
            () = self.place.closed_for_another() => return self.make_room(),
            changed = phase.changed() => match (changed.map(|()| *phase.borrow()), self.is_draining) {
                (Ok(Phase::Draining), false) => {
                    self.is_draining = true;
                    self.tell(Input::Drain);
                }
                (Ok(Phase::Serving | Phase::Draining), _) => {}
                (Ok(Phase::Stopped) | Err(_), _) => {
                    self.tx.abort("the server stops");
                    return Break(());
                }
            },
        }
        Continue(())
    }

    /// Does all work that needs no waiting: polls the machine, reports progress to the limits, and opens the gates of jobs that
    /// wait until all replies are sent.
    fn settle(&mut self) {
        self.has_long_job = false;
        self.look_at_withheld();
        self.drain();
        self.place.set_standing(match &self.store {
            None => Standing::BeforeLogin,
            Some(_) if !self.under_way.is_empty() => Standing::Transferring,
            Some(_) if self.session.is_idle() => Standing::Idle,
            Some(_) => Standing::Busy,
        });
        if self.out.is_empty() {
            for gate in self.gates.drain(..) {
                let _ = gate.send(());
            }
        }
        if self.tls == StartTls::WhenSent && self.out.is_empty() {
            self.tls = StartTls::No;
            self.begin_tls();
        }
    }

    /// Handles input of the control connection.
    fn on_arrived(&mut self, arrived: Result<Arrived, Lost>) -> ControlFlow<()> {
        match arrived {
            Ok(Arrived::Lines(bytes)) => {
                self.place.heard();
                self.rx.hold(&bytes);
            }
            Ok(Arrived::Secured) => {
                self.place.heard();
                if let Data::Tcp(data) = &self.data {
                    let version = data.control().with_tls(|tls| tls.protocol_version()).flatten();
                    tracing::info!(peer = %self.peer, ?version, "protected by TLS");
                    let shared = &self.shared;
                    let vouched = data.control().with_tls(|tls| shared.vouched(tls.peer_certificates()));
                    self.session.vouch(vouched.unwrap_or_default());
                    if let Some(name) = data.control().with_tls(hosts::server_name).flatten() {
                        self.session.name_server(&name);
                    }
                }
                self.tell(Input::Secured);
            }
            Ok(Arrived::Credit(credit)) => {
                if let Data::Braid(lanes) = &self.data
                    && let Err(error) = lanes.credit(credit)
                {
                    return self.broken(&error.to_string());
                }
            }
            Ok(Arrived::End) => self.ended(),
            Err(lost) => {
                self.tx.reply_tls_required();
                // First the transfers end: none may take the data so far for the whole file.
                self.ended();
                self.drain();
                return self.lost(&lost);
            }
        }
        Continue(())
    }

    /// Whether to read lines before the machine wants input. After the login only: before, nothing depends on them.
    fn may_hold(&self) -> bool {
        self.store.is_some() && self.rx.may_hold()
    }

    /// Starts a job of the session, within the session's span of the log.
    fn spawn(&mut self, job: impl Future<Output = ()> + Send + 'static) {
        self.jobs.spawn(job.instrument(self.span.clone()));
    }

    /// The same for a job that is mostly complete without waiting, as the download of a small file: it is begun here, and only
    /// the rest is a task. A task for each small file costs more than the file, most of it for waking another thread.
    /// After one that is not complete the others of a step are tasks from the beginning, so that of many large files the first one
    /// leaves before the others are opened.
    fn begin(&mut self, job: impl Future<Output = ()> + Send + 'static) {
        let mut job = Box::pin(job.instrument(self.span.clone()));
        // The task polls it again with a waker of its own.
        let mut context = Context::from_waker(Waker::noop());
        if !self.has_long_job && pin!(unconstrained(&mut job)).poll(&mut context).is_ready() {
            return;
        }
        self.has_long_job = true;
        self.jobs.spawn(job);
    }

    fn now(&self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    fn tell(&mut self, input: Input) {
        self.session.handle(self.now(), input);
    }

    fn ended(&mut self) {
        self.reading = Reading::Ended;
        self.tell(Input::Closed);
    }

    fn lost(&mut self, lost: &Lost) -> ControlFlow<()> {
        tracing::info!(peer = %self.peer, why = %lost, "session lost");
        Break(())
    }

    /// Ends the session to make room for another.
    fn make_room(&mut self) -> ControlFlow<()> {
        tracing::info!(peer = %self.peer, "session ended to make room for another");
        self.tx.refuse(match self.store {
            None => "421 this session ended to make room for others; connect again and log in sooner",
            Some(_) => {
                "421 this session was idle, stood still, or was the slowest of an address with more than its part of the sessions, and \
                 ended to make room for others; connect again, transfers resume"
            }
        });
        Break(())
    }

    fn broken(&mut self, why: &str) -> ControlFlow<()> {
        tracing::info!(peer = %self.peer, why, "session aborted");
        self.tx.abort(why);
        Break(())
    }

    /// Polls the machine until it waits, as long as the transport takes replies.
    fn drain(&mut self) {
        loop {
            self.session.allow_transfers(self.shared.transfers.allowed(self.under_way.len()));
            while self.out_bytes < OUT_BYTES {
                let now = self.now();
                match self.session.poll(now) {
                    Output::Send(bytes) => {
                        self.log_refusals(&bytes);
                        self.out_bytes += bytes.len();
                        self.tx.queue(&mut self.out, bytes);
                    }
                    Output::Event(task) => self.execute(task),
                    Output::Wait(until) => {
                        let at = |time: Time| self.origin + Duration::from_nanos(time.as_nanos());
                        self.deadline = until.map(at);
                        break;
                    }
                }
            }
            // Input that was read ahead comes first.
            match self.session.wants_input().then(|| self.rx.take_held()).flatten() {
                Some(bytes) if self.out_bytes < OUT_BYTES => self.tell(Input::Received(bytes)),
                Some(bytes) => {
                    self.rx.put_back(bytes);
                    break;
                }
                None => break,
            }
        }
        self.answer_asks();
    }

    /// Logs the refusals (4yz and 5yz) among the replies.
    fn log_refusals(&mut self, replies: &[u8]) {
        for reply in replies.split(|byte| *byte == b'\n') {
            let [b'4' | b'5', b'0'..=b'9', b'0'..=b'9', b' ', text @ ..] = reply else { continue };
            if text.trim_ascii_end() == NO_FURTHER_FILE.as_bytes() {
                continue;
            }
            let reply = String::from_utf8_lossy(reply.trim_ascii_end());
            if self.refusals < REFUSALS_LOGGED {
                tracing::info!(peer = %self.peer, reply = %reply.escape_debug(), "refused");
            } else {
                tracing::debug!(peer = %self.peer, reply = %reply.escape_debug(), "refused");
            }
            self.refusals = self.refusals.saturating_add(1);
        }
    }

    /// Handles an event and those that wait behind it: of many small files several wait, and a step costs more than an event.
    fn on_events(&mut self, first: Event) -> ControlFlow<()> {
        let mut next = Some(first);
        let mut left = EVENTS_A_STEP;
        while let Some(event) = next {
            if let Err(why) = self.on_event(event) {
                return self.broken(&why);
            }
            left -= 1;
            next = if left > 0 { self.events.try_recv().ok() } else { None };
        }
        Continue(())
    }

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Input(input) => {
                if let Input::Done { job, outcome } = &input {
                    if let Some(finished) = self.seat.end(*job, outcome) {
                        self.record(&finished);
                    }
                    self.cancels.remove(job);
                    self.under_way.remove(job);
                }
                self.tell(input);
            }
            Event::Told(input, gate) => {
                self.tell(input);
                self.gates.push(gate);
            }
            Event::LoggedIn(Ok((grant, store))) => {
                tracing::info!(peer = %self.peer, user = %grant.name.escape_debug(), "logged in");
                self.seat.logged_in(&grant.name);
                self.place.set_user(Some(self.user_at_host(&grant.name)));
                self.home = self.shared.site(self.session.host()).folder_of(&grant.home);
                self.tell_hooks(On::Login, &grant.name, None);
                self.store = Some(store);
                self.tx.admit();
                self.tell(Input::Authenticated(Ok(())));
            }
            Event::LoggedIn(Err(why)) => self.tell(Input::Authenticated(Err(why))),
            Event::Ask(ask) => self.asks.push(ask),
            Event::Awaited(upload) => self.awaits(*upload),
            Event::Broken(why) => return Err(why),
        }
        Ok(())
    }

    /// braid: an accepted upload waits for its frames.
    fn awaits(&self, upload: Upload) {
        match &self.data {
            Data::Braid(lanes) if self.cancels.contains_key(&upload.job) => {
                lanes.awaited().insert(upload.transfer, upload);
            }
            // Cancelled while it was prepared.
            _ => self.post.done(upload.job, Err(Failure::Cancelled)),
        }
    }

    fn take_awaited(&self, transfer: TransferNumber) -> Option<Upload> {
        let Data::Braid(lanes) = &self.data else { return None };
        lanes.awaited().remove(&transfer)
    }

    /// braid: assigns the waiting streams to uploads that are open, and refuses those of uploads that are over.
    fn answer_asks(&mut self) {
        use braidftp_ftp::server::Upload as Stand;
        let mut undecided = Vec::new();
        for ask in std::mem::take(&mut self.asks) {
            match self.session.upload(ask.transfer) {
                Stand::Undecided => undecided.push(ask),
                Stand::Over => ask.decide(None),
                Stand::Open(_) => match self.take_awaited(ask.transfer) {
                    Some(upload) => ask.decide(Some(upload)),
                    // The upload is being prepared.
                    None => undecided.push(ask),
                },
            }
        }
        self.asks = undecided;
    }

    /// Returns the association of the control connection, over SCTP.
    fn association(&self) -> Option<&Association> {
        match &self.data {
            Data::Tcp(_) => None,
            Data::Sctp(data) => Some(&data.control),
            Data::Braid(lanes) => Some(lanes.association()),
        }
    }

    /// Whether the client may be dead: its user has a newer session, and no packet has arrived from it since.
    fn may_be_dead(&self) -> bool {
        let login = self.store.as_ref().map(|store| &store.login);
        login.zip(self.association()).is_some_and(|(login, association)| login.may_be_dead(association))
    }

    /// Makes the withheld changes once a packet of the client has arrived; until then sends a HEARTBEAT.
    fn look_at_withheld(&mut self) {
        if self.withheld.is_empty() {
            return;
        }
        if self.may_be_dead() {
            self.association().inspect(|association| association.probe_peer());
            return;
        }
        for task in self.withheld.take() {
            self.execute(task);
        }
    }

    fn execute(&mut self, task: Do) {
        match task {
            Do::Change { .. } | Do::Receive { .. } if self.may_be_dead() => {
                self.withheld.push(task);
                self.look_at_withheld();
            }
            Do::Authenticate { user, password } => self.authenticate(user, password),
            Do::Admit { user } => self.admit(user),
            Do::LogOut => {
                self.seat.logged_out();
                self.place.set_user(None);
                self.store = None;
            }
            Do::NoteUnprotected { user } => self.subject.login(&user, Err("the session is not protected")),
            Do::StartTls => {
                self.tls = StartTls::WhenSent;
                self.rx.drop_held();
                // Input behind AUTH came in the clear and is dropped: the handshake begins after the reply, which is not sent
                // yet.
                if let Data::Tcp(data) = &self.data {
                    data.control().discard_unread();
                }
            }
            Do::Listen { job } => {
                let outcome = match &mut self.data {
                    Data::Tcp(data) => data.listen(&self.settings).map(Outcome::Listening),
                    Data::Sctp(_) | Data::Braid(_) => Err(Failure::CannotOpenData),
                };
                self.post.done(job, outcome);
            }
            Do::Query { job, path, query: Query::Digest(hash) } => self.digest(job, path, hash),
            Do::Query { job, path, query } => {
                self.ask_store(job, async move |store: Store| store.query(&path, query).await);
            }
            Do::Change { job, change } => {
                self.ask_store(job, async move |store: Store| store.change(&change).await);
            }
            Do::Send { job, data, source } => self.send(job, data, source),
            Do::Receive { job, data, sink } => self.receive(job, data, sink),
            Do::Cancel { job } => self.cancel(job),
            Do::Close => {
                self.closing = Some(Instant::now());
            }
        }
    }

    /// Starts TLS, after the reply to AUTH is sent.
    fn begin_tls(&mut self) {
        let begun = match (&mut self.data, self.shared.binding()) {
            (Data::Tcp(data), Some(binding)) => data.begin_tls(binding).is_ok(),
            // TLS is not offered.
            _ => false,
        };
        if !begun {
            self.tell(Input::Closed);
        }
    }

    /// Writes a finished transfer to metrics, the transfer log and hooks.
    fn record(&self, finished: &Finished) {
        let user = self.store.as_ref().map_or("", |store| &store.user);
        let on = match finished.direction {
            Direction::Upload => Some(On::Upload),
            Direction::Download => Some(On::Download),
            Direction::Listing => None,
        };
        if let Some(on) = on.filter(|_| finished.failure.is_none()) {
            self.tell_hooks(on, user, Some(finished));
        }
        if let Some(log) = &self.settings.xferlog
            && let Some(line) = xferlog::line(finished, self.peer, user)
            && let Err(error) = log.append(&line)
        {
            tracing::error!(path = %log.path().display(), %error, "cannot write the transfer log: {}", line.trim_end());
        }
    }

    /// Queues an event for hooks.
    fn tell_hooks(&self, event: On, user: &str, finished: Option<&Finished>) {
        let Some(hooks) = &self.settings.hooks else { return };
        let path = finished.map(|finished| OsStr::from_bytes(finished.path.as_bytes()));
        let event = hooks::Event {
            event,
            time_us: hooks::now_us(),
            session: self.subject.session(),
            peer: self.peer.to_string(),
            user: user.to_owned(),
            path: path.map(|path| format!("/{}", path.to_string_lossy())),
            file: path.map(|path| hooks.root.join(&self.home).join(path).to_string_lossy().into_owned()),
            bytes: finished.map(|finished| finished.bytes),
            seconds: finished.map(|finished| finished.took.as_secs_f64()),
        };
        let activity = self.shared.activity.clone();
        hooks.push(event, move |became| activity.metrics.hook_event(became));
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("peer", &self.peer).finish_non_exhaustive()
    }
}
