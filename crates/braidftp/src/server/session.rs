//! One session: the loop around `ftp::server::Session` that waits for the control connection, the jobs and the
//! clock, tells the machine, and does what it asks for.
//!
//! All modes run this loop; what a control connection and a data path are is in [`tcp`],
//! [`sctp`] and [`braid`](super::braid). File bytes never come here: each transfer is a task of its own ([`transfer`]).

mod login;
mod transfer;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow::{self, Break, Continue};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Output, Time};
use braidftp_ftp::Mode;
use braidftp_ftp::server::{Do, Failure, Input, JobId, Outcome, Query, Session};
use braidftp_net::Association;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::{Instrument, Span};

use super::activity::{Direction, Finished, Seat};
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

/// Bytes of replies handed to the transport at once. While they wait, no more are asked for.
pub(crate) const OUT_BYTES: usize = 64 << 10;
/// While a transfer is under way over SCTP: after so much silence the client is asked for an answer by a HEARTBEAT, and again each
/// time that this has passed. A quarter of [`Settings::silence`] if that is less.
const ASK_AFTER: Duration = Duration::from_secs(5);
/// Refusals of one session that are logged for the operator; further ones are for debugging.
const REFUSALS_LOGGED: u32 = 20;
/// How long the last replies of a session may take to leave.
const FAREWELL: Duration = Duration::from_secs(5);

/// One session and all that belongs to it. Dropping it ends its transfers.
pub(super) struct Driver {
    shared: Arc<Shared>,
    /// Those with which the session began.
    settings: Arc<Settings>,
    peer: IpAddr,
    /// What marks its lines of the log.
    span: Span,
    subject: Subject,
    place: Place,
    /// What operators see of it.
    seat: Seat,
    session: Session,
    origin: Instant,
    rx: Rx,
    /// Whether the control connection may still bring something.
    reading: Reading,
    tx: Tx,
    data: Data,
    store: Option<Store>,
    /// The folder of the user, relative to the one that is served.
    home: PathBuf,
    /// Where its transfers get room for what they hold of files.
    blocks: Blocks,
    /// Transfers that are not over.
    under_way: BTreeMap<JobId, UnderWay>,
    events: mpsc::UnboundedReceiver<Event>,
    post: Post,
    jobs: JoinSet<()>,
    /// Its own turns to read a file for its digest.
    digests: Arc<Semaphore>,
    /// How to stop each job that can be stopped.
    cancels: BTreeMap<JobId, oneshot::Sender<()>>,
    /// Uploads of braid whose frames have not come yet.
    awaited: BTreeMap<JobId, Upload>,
    /// When its client was last asked whether it is there.
    watch: Watch,
    /// Changes that a client may have asked for before it died: a newer session of its user is there.
    withheld: Withheld,
    /// Streams of braid on which a transfer begins that is not known yet.
    asks: Vec<Ask>,
    /// Who waits until the replies so far are with the transport.
    gates: Vec<oneshot::Sender<()>>,
    /// Replies on their way.
    out: VecDeque<Bytes>,
    out_bytes: usize,
    /// When the session asked to be polled again.
    deadline: Option<Instant>,
    /// Whether TLS begins as soon as all replies are sent.
    tls: StartTls,
    /// Refusals logged.
    refusals: u32,
    /// When it was over; what is left of `out` is sent, no more.
    closing: Option<Instant>,
    /// Whether the machine was told that the server drains.
    is_draining: bool,
}

/// Looks whether a client with transfers is still there.
#[derive(Debug, Default)]
struct Watch {
    /// When to look again; `None`: when the next transfer begins.
    next_at: Option<Instant>,
    /// Whether the client was asked at the last look.
    has_asked: bool,
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

/// What the transfers of the session go over.
pub(super) enum Data {
    Tcp(tcp::Data),
    Sctp(sctp::Data),
    Braid(Arc<Lanes>),
}

/// A control connection that was accepted.
pub(super) struct Accepted {
    pub peer: IpAddr,
    pub place: Place,
    /// How FTP travels.
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
        place.progresses(seat.progress());
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
            awaited: BTreeMap::new(),
            watch: Watch::default(),
            withheld: Withheld::default(),
            asks: Vec::new(),
            gates: Vec::new(),
            out: VecDeque::new(),
            out_bytes: 0,
            deadline: None,
            tls: StartTls::No,
            refusals: 0,
            closing: None,
            is_draining: false,
        }
    }

    /// Runs the session to its end. `told` is what the log says of its beginning.
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
        // Uploads under way put away what they have, to be continued.
        for (_, cancel) in std::mem::take(&mut self.cancels) {
            let _ = cancel.send(());
        }
        self.awaited.clear();
        if self.store.is_none() {
            // Nobody waits for the answer to a password any more; a check that has begun is finished and counted.
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
            () = tokio::time::sleep_until(stalled), if !self.out.is_empty() => {
                return self.lost(&Lost("it takes no replies".into()));
            }
            //= specs/rfc4217.txt#section-14
            //# When TLS is implemented as a security method in FTP, the server SHOULD NOT rely on the use of SIGURG to
            //# process input on the control channel during data transfers.
            arrived = self.rx.recv(), if hungry => return self.on_arrived(arrived),
            Some(event) = self.events.recv() => {
                if let Err(why) = self.on_event(event) {
                    return self.broken(&why);
                }
            }
            Some(joined) = self.jobs.join_next() => {
                if joined.is_err_and(|error| error.is_panic()) {
                    // Its answer will never come; ours was the mistake, the session alone pays.
                    tracing::error!("a transfer task panicked; ending its session");
                    self.tx.abort("internal error");
                    return Break(());
                }
            }
            () = tokio::time::sleep_until(watched) => {
                if self.closing.is_some() && watched == deadline {
                    return self.lost(&Lost("it did not take the last replies".into()));
                }
            }
            () = self.seat.kicked() => {
                tracing::info!(peer = %self.peer, "session ended by an operator");
                self.tx.refuse("421 an operator has ended this session");
                return Break(());
            }
            () = self.place.taken() => return self.make_room(),
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

    /// Does everything that needs no waiting: lets the machine speak, tells limits how busy the session is, and opens the gates
    /// of those who wait until all replies are sent.
    fn settle(&mut self) {
        self.look_at_withheld();
        self.drain();
        self.place.stands(match &self.store {
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

    /// Handles what the control connection brought.
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
                self.tx.miss_tls();
                // The transfers are told first, so that none takes what it has for all there is.
                self.ended();
                self.drain();
                return self.lost(&lost);
            }
        }
        Continue(())
    }

    /// Whether lines may be read that the session does not want yet. Before the login, nothing waits behind them.
    fn may_hold(&self) -> bool {
        self.store.is_some() && self.rx.may_hold()
    }

    /// Runs a job of the session; its lines of the log have the session's number.
    fn spawn(&mut self, job: impl Future<Output = ()> + Send + 'static) {
        self.jobs.spawn(job.instrument(self.span.clone()));
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

    /// Ends for another session.
    fn make_room(&mut self) -> ControlFlow<()> {
        tracing::info!(peer = %self.peer, "session ended to make room for another");
        self.tx.refuse(match self.store {
            None => "421 room is wanted for other sessions; connect again and log in sooner",
            Some(_) => {
                "421 room is wanted for other sessions, and this one was idle or stood still; connect again"
            }
        });
        Break(())
    }

    fn broken(&mut self, why: &str) -> ControlFlow<()> {
        tracing::info!(peer = %self.peer, why, "session broken off");
        self.tx.abort(why);
        Break(())
    }

    /// Lets the machine say all it has to say, as far as replies leave.
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
            // What was read ahead of the session's wish goes first.
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

    /// Logs the replies among these that refuse something: 4yz and 5yz.
    fn log_refusals(&mut self, replies: &[u8]) {
        for reply in replies.split(|byte| *byte == b'\n') {
            let [b'4' | b'5', b'0'..=b'9', b'0'..=b'9', b' ', ..] = reply else { continue };
            let reply = String::from_utf8_lossy(reply.trim_ascii_end());
            if self.refusals < REFUSALS_LOGGED {
                tracing::info!(peer = %self.peer, reply = %reply.escape_debug(), "refused");
            } else {
                tracing::debug!(peer = %self.peer, reply = %reply.escape_debug(), "refused");
            }
            self.refusals = self.refusals.saturating_add(1);
        }
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
                self.place.belongs_to(Some(self.user_at_host(&grant.name)));
                self.home = self.shared.site(self.session.host()).folder_of(&grant.home);
                self.tell_hooks(On::Login, &grant.name, None);
                self.store = Some(store);
                self.tx.admit();
                self.tell(Input::Authenticated(Ok(())));
            }
            Event::LoggedIn(Err(why)) => self.tell(Input::Authenticated(Err(why))),
            Event::Ask(ask) => self.asks.push(ask),
            Event::Awaited(upload) if self.cancels.contains_key(&upload.job) => {
                self.awaited.insert(upload.job, upload);
            }
            // Stopped while it was prepared.
            Event::Awaited(upload) => self.post.done(upload.job, Err(Failure::Cancelled)),
            Event::Broken(why) => return Err(why),
        }
        Ok(())
    }

    /// Tells the data streams of braid what to do with the uploads that have begun to come.
    fn answer_asks(&mut self) {
        use braidftp_ftp::server::Upload as Stand;
        let mut undecided = Vec::new();
        for ask in std::mem::take(&mut self.asks) {
            match self.session.upload(ask.transfer) {
                Stand::Undecided => undecided.push(ask),
                Stand::Over => ask.decide(None),
                Stand::Open(job) => match self.awaited.remove(&job) {
                    Some(upload) => ask.decide(Some(upload)),
                    // It is being prepared.
                    None => undecided.push(ask),
                },
            }
        }
        self.asks = undecided;
    }

    /// The association of the control connection, over SCTP.
    fn association(&self) -> Option<&Association> {
        match &self.data {
            Data::Tcp(_) => None,
            Data::Sctp(data) => Some(&data.control),
            Data::Braid(lanes) => Some(lanes.association()),
        }
    }

    /// Whether the client may have died before a newer session of its user came: it has not been heard of since.
    fn may_be_dead(&self) -> bool {
        let login = self.store.as_ref().map(|store| &store.login);
        login.zip(self.association()).is_some_and(|(login, association)| login.may_be_dead(association))
    }

    /// Makes the changes that were withheld once the client has been heard of, and asks it for a word until then.
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
                self.place.belongs_to(None);
                self.store = None;
            }
            Do::NoteUnprotected { user } => self.subject.login(&user, Err("the session is not protected")),
            Do::StartTls => {
                self.tls = StartTls::WhenSent;
                self.rx.drop_held();
                // Whoever sent it, it was not protected, and the handshake begins with the reply, which has not left.
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
            Do::Query { job, path, query } => self.ask_store(job, move |store| store.query(&path, query)),
            Do::Change { job, change } => self.ask_store(job, move |store| store.change(&change)),
            Do::Send { job, data, source } => self.send(job, data, source),
            Do::Receive { job, data, sink } => self.receive(job, data, sink),
            Do::Cancel { job } => self.cancel(job),
            Do::Close => {
                self.closing = Some(Instant::now());
            }
        }
    }

    /// The reply to AUTH has left.
    fn begin_tls(&mut self) {
        let begun = match (&mut self.data, self.shared.binding()) {
            (Data::Tcp(data), Some(binding)) => data.begin_tls(binding).is_ok(),
            // It is not offered.
            _ => false,
        };
        if !begun {
            self.tell(Input::Closed);
        }
    }

    /// Writes of a transfer that is over what the operator wants to have written.
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

    /// Puts an event into the queue of hooks.
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
