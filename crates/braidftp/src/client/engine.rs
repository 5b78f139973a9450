//! The task that runs one FTP session: requests in, lines to the control connection, data paths to the carrier.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use braidftp_base::{Output, Time};
use braidftp_ftp::client::{
    Config, DataResult, Ended, Event, Finished, Input, Pipelining, Session, Tag, Transfer, TransferError,
};
use braidftp_ftp::command::{Command, Secret, Type};
use braidftp_ftp::mapping::Mode;
use braidftp_ftp::{Code, PathArg, Reply};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};

use super::body::{Body, DataEnd, Sink};
use super::carrier::{Carrier, Note};
use super::errors::{lost, of_reply, of_write_reply};
use super::{Answer, Done, Protection, Request, Shared, Totals, Trace};
use crate::client::Login;
use crate::exit::{Error, Exit, Result, escape};

/// The interval of checks for silence.
const LOOK: Duration = Duration::from_millis(100);
/// The time limit for data tasks to return their bodies after the session has ended.
const HAND_BACK: Duration = Duration::from_secs(3);
/// tcp: the maximum number of commands and transfers in the session: one flight, and the next transfers.
const TCP_WINDOW: usize = 12;
/// ms-cp: the maximum number of outstanding SIZE and RETR commands. Larger than any folder of the papers; it
/// bounds the memory of both sides.
const MS_CP_WINDOW: usize = 2048;

/// The state of the task.
pub(crate) struct Engine {
    session: Session,
    carrier: Carrier,
    requests: mpsc::Receiver<Request>,
    notes: mpsc::Receiver<Note>,
    shared: Arc<Shared>,
    waiting: BTreeMap<Tag, Waiting>,
    login: Option<Tag>,
    /// The packets sent and received when the last answer of the server arrived.
    counted: Totals,
    origin: Instant,
    window: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// QUIT was requested.
    Quitting,
    /// The session has ended as requested.
    Over,
}

enum Waiting {
    Reply(oneshot::Sender<Result<Reply>>),
    /// The caller ignores the reply.
    Ignored,
    Transfer(Box<Pending>),
}

/// A transfer. The body is here before it is passed to the data path and after it was returned.
struct Pending {
    what: Doing,
    /// How an error reply is interpreted.
    explain: Explain,
    body: Option<Body>,
    data: Option<DataEnd>,
    finished: Option<Result<Finished>>,
    answer: Answer,
}

impl Engine {
    pub(crate) fn new(
        carrier: Carrier,
        requests: mpsc::Receiver<Request>,
        notes: mpsc::Receiver<Note>,
        shared: Arc<Shared>,
    ) -> Self {
        let mode = shared.options.mode;
        let host = shared.host.clone();
        let mut config = Config { protection: carrier.protection(), host, ..Config::new(mode) };
        let window = match mode {
            Mode::Tcp => {
                config.pipelining = Pipelining::Adaptive;
                TCP_WINDOW
            }
            Mode::Naive | Mode::Ms => 2,
            Mode::MsCp => {
                config.window = MS_CP_WINDOW;
                MS_CP_WINDOW
            }
            Mode::Braid => config.window,
        };
        Self {
            session: Session::new(config),
            carrier,
            requests,
            notes,
            shared,
            waiting: BTreeMap::new(),
            login: None,
            counted: Totals::default(),
            origin: Instant::now(),
            window,
            state: State::Open,
        }
    }

    /// Runs the session until it ends.
    pub(crate) async fn run(mut self, login: Login) {
        self.shared.activity.heard();
        self.login = self.session.login(&login.user, Secret::new(login.password));
        let tag = self.session.command(Command::Type(Type::Image));
        self.waiting.insert(tag, Waiting::Ignored);
        if self.shared.options.mode == Mode::Tcp {
            // Some old servers send names in a local character set until they receive OPTS UTF8.
            let tag = self.session.command(Command::Options("UTF8 ON".into()));
            self.waiting.insert(tag, Waiting::Ignored);
        }
        let driven = match self.login {
            Some(_) => self.drive().await,
            None => {
                Err(Error::usage("log in", "the user or the password has a character that FTP cannot carry"))
            }
        };
        let why = match driven {
            Ok(()) => Error::new(Exit::Interrupted, "go on", "the session has ended"),
            Err(error) => error,
        };
        let why = self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why).clone();
        self.requests.close();
        self.give_up(&why).await;
        refuse(&mut self.requests, &why).await;
        match self.state {
            State::Over => self.carrier.close().await,
            State::Open | State::Quitting => self.carrier.stop().await,
        }
    }

    async fn drive(&mut self) -> Result<()> {
        let mut stop = self.carrier.pump().stop.clone();
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.drain()?;
            if self.state == State::Over {
                return Ok(());
            }
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => {
                    return Err(Error::new(Exit::Interrupted, "go on", "stopped"));
                }
                note = self.notes.recv() => match note {
                    Some(note) => self.on_note(note)?,
                    None => return Err(lost("the connection was lost")),
                },
                request = self.requests.recv(), if self.wants_more() => match request {
                    Some(request) => self.on_request(request),
                    None if self.session.outstanding() > 0 => {
                        self.state = State::Quitting;
                        let tag = self.session.command(Command::Quit);
                        self.waiting.insert(tag, Waiting::Ignored);
                    }
                    // All commands are answered. The client does not wait for the reply to QUIT, which
                    // contains nothing new; over SCTP the shutdown of the association has the same meaning as
                    // QUIT.
                    None => {
                        if self.shared.options.mode == Mode::Tcp {
                            self.session.command(Command::Quit);
                            self.drain()?;
                        }
                        self.state = State::Over;
                    }
                },
                _ = look.tick() => self.look_for_silence()?,
            }
        }
    }

    fn wants_more(&self) -> bool {
        // What is outstanding is the login or has a caller, and counting the callers is cheaper.
        let callers = self.waiting.len() + usize::from(self.login.is_some());
        self.state == State::Open
            && (callers < self.window || (callers < 2 * self.window && self.session.has_room(self.window)))
    }

    fn look_for_silence(&mut self) -> Result<()> {
        let timeout = self.shared.options.timeout + self.shared.activity.patience();
        let silent = self.shared.activity.silent_for();
        if silent < 2 * LOOK {
            self.counted = self.shared.gauge.totals();
        } else if silent > timeout / 2 && self.shared.gauge.totals().packets_sent == self.counted.packets_sent
        {
            // A side that only waits sends nothing that would test the path.
            self.shared.gauge.demand_heartbeats();
        }
        if self.waiting.is_empty() && self.login.is_none() {
            // No reply is expected, so the server need not send anything.
            self.shared.activity.heard();
        } else if self.shared.activity.silent_for() > timeout {
            if let Some(error) = self.carrier.never_answered(timeout) {
                return Err(error);
            }
            // Silence on the path does not mean a silent server: a new association may use another path or
            // the restored one, and begins without the backed-off time-outs of the old one.
            let now = self.shared.gauge.totals();
            if now.packets_sent > self.counted.packets_sent
                && now.packets_received == self.counted.packets_received
            {
                return Err(lost(format_args!("no packet has come for {} s", timeout.as_secs_f64())));
            }
            return Err(Error::new(
                Exit::TimedOut,
                "go on",
                format_args!("the server has sent nothing for {} s", timeout.as_secs_f64()),
            )
            .hint("run the same command again to resume; --timeout permits a slow server more time"));
        } else {
            // A client that only receives would not detect that the server was killed and restarted.
            self.carrier.probe_peer();
        }
        Ok(())
    }

    fn on_request(&mut self, request: Request) {
        match request {
            Request::Command { command, answer } => {
                let tag = self.session.command(command);
                self.waiting.insert(tag, Waiting::Reply(answer));
            }
            Request::Transfer { transfer, body, answer } => {
                let (what, explain) = describe(&transfer);
                let tag = self.session.transfer(transfer);
                let pending = Pending { what, explain, body: Some(body), data: None, finished: None, answer };
                self.waiting.insert(tag, Waiting::Transfer(Box::new(pending)));
            }
        }
    }

    fn on_note(&mut self, note: Note) -> Result<()> {
        match note {
            Note::Control(bytes) => {
                self.shared.activity.heard();
                if self.shared.options.trace == Trace::Lines {
                    trace('<', &bytes);
                }
                self.session.handle(Input::Received(bytes));
            }
            Note::Closed => self.session.handle(Input::Closed),
            Note::Secured(key) => {
                self.shared.activity.heard();
                self.carrier.secured(key);
                self.session.handle(Input::Secured);
            }
            Note::Connected(tag, wire) => {
                self.shared.activity.heard();
                self.carrier.connected(tag, wire);
                self.session.handle(Input::Connected(tag));
            }
            Note::DataFailed(tag, error) => {
                if let Some(Waiting::Transfer(pending)) = self.waiting.get_mut(&tag) {
                    pending.data = Some(DataEnd { error: Some(error), ..DataEnd::default() });
                }
                self.session.handle(Input::DataFailed(tag));
            }
            Note::Unwanted(tag) => self.session.cancel(tag),
            Note::DataDone(tag, body, end) => {
                let result = match &end.error {
                    None => DataResult::Complete(end.bytes),
                    Some(_) => DataResult::Failed,
                };
                if let Some(Waiting::Transfer(pending)) = self.waiting.get_mut(&tag) {
                    pending.body = Some(body);
                    pending.data = Some(end);
                    if pending.finished.is_some() {
                        self.answer(tag);
                        return Ok(());
                    }
                }
                self.session.handle(Input::DataDone(tag, result));
            }
            Note::Fatal(error) => return Err(error),
        }
        Ok(())
    }

    /// Executes the events of the session until there are none.
    fn drain(&mut self) -> Result<()> {
        loop {
            let now = Time::ZERO + self.origin.elapsed();
            match self.session.poll(now) {
                Output::Wait(_) => return Ok(()),
                Output::Send(bytes) => {
                    if self.shared.options.trace == Trace::Lines {
                        trace('>', &bytes);
                    }
                    self.carrier.send_control(bytes);
                }
                Output::Event(event) => self.on_event(event)?,
            }
        }
    }

    fn on_event(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Greeting(_) => {}
            Event::Unprotected(reply) => {
                if let Some(reporter) = &self.shared.options.reporter {
                    reporter.caution(format_args!(
                        "the server offers no TLS ({reply}): names and contents can be read and changed on the way; ftpes:// refuses \
                         such a server, and --plain does not ask"
                    ));
                }
            }
            Event::UnknownHost(reply) => self.on_unknown_host(&reply),
            Event::StartTls => self.carrier.start_tls(),
            Event::Reply(tag, reply) => {
                if self.login == Some(tag) {
                    self.login = None;
                    if reply.code.is_error() {
                        return Err(login_refused(&reply, &self.shared.options.protection));
                    }
                    self.shared.logged_in.store(true, Ordering::Relaxed);
                } else if let Some(Waiting::Reply(answer)) = self.waiting.remove(&tag) {
                    // The requester may be gone.
                    let _ = answer.send(Ok(reply));
                }
            }
            Event::Connect(tag, port) => self.carrier.connect(tag, port, self.session.pipelines_all()),
            Event::Listen(tag) => {
                let input = match self.carrier.listen(tag) {
                    Ok(addr) => Input::Listening(tag, addr),
                    Err(error) => {
                        if let Some(Waiting::Transfer(pending)) = self.waiting.get_mut(&tag) {
                            pending.data = Some(DataEnd { error: Some(error), ..DataEnd::default() });
                        }
                        Input::DataFailed(tag)
                    }
                };
                self.session.handle(input);
            }
            Event::Receive(tag, data) | Event::Send(tag, data) => {
                if let Some(Waiting::Transfer(pending)) = self.waiting.get_mut(&tag)
                    && let Some(body) = pending.body.take()
                {
                    self.carrier.pump_data(tag, data, body);
                }
            }
            Event::Finished(tag, result) => {
                let Some(Waiting::Transfer(pending)) = self.waiting.get_mut(&tag) else { return Ok(()) };
                let result = result.map_err(|error| refused(pending, &error));
                let has_body = pending.body.is_some();
                let failed = result.is_err();
                pending.finished = Some(result);
                if failed {
                    // Its data connection is closed; a body held by the data path is returned.
                    self.carrier.cancel(tag);
                }
                if has_body || !failed {
                    self.answer(tag);
                }
            }
            Event::Ended(Ended::Quit) => self.state = State::Over,
            Event::Ended(Ended::ByServer(reply)) => {
                let error = match self.login {
                    Some(_) => Error::new(Exit::Connect, "log in", format_args!("the server said: {reply}"))
                        .hint("wait a while: it has too many clients, or shuts down"),
                    None => lost(format_args!("the server ended the session: {reply}")),
                };
                return Err(error);
            }
            Event::Ended(Ended::Lost) if self.state == State::Quitting => self.state = State::Over,
            Event::Ended(Ended::Lost) => return Err(self.carrier.why_lost()),
            Event::Ended(Ended::Unprotected { verb, reply }) => {
                return Err(self.carrier.unprotected(verb, &reply));
            }
            Event::Ended(Ended::Violation(violation)) => {
                return Err(Error::new(Exit::Protocol, "understand the server", violation).hint(
                    "-vv shows the lines of both sides; is this an FTP server, and does it speak this mode?",
                ));
            }
        }
        Ok(())
    }

    /// Warns that the server has no host of the URL's name. Servers without HOST support reply so for every
    /// name.
    fn on_unknown_host(&self, reply: &Reply) {
        let is_ours = self.shared.options.mode.is_sctp() || self.session.pipelines_all();
        if let Some(reporter) = self.shared.options.reporter.as_ref().filter(|_| is_ours) {
            reporter.warn(format_args!(
                "the server has no host with the name in the URL ({reply}): its default host is used"
            ));
        }
    }

    fn answer(&mut self, tag: Tag) {
        if let Some(Waiting::Transfer(pending)) = self.waiting.remove(&tag)
            && let Some(result) = pending.finished
        {
            let data = pending.data.unwrap_or_default();
            // The reply may precede the local error that caused it.
            let result = match (result, &data.error) {
                (Err(_), Some(here)) if !here.is_transient() => Err(here.clone()),
                (result, _) => result,
            };
            pending.answer.complete(Done { body: handed_back(pending.body), data, result });
        }
    }

    /// Ends the session: returns bodies of transfers and reports the reason to all callers.
    async fn give_up(&mut self, why: &Error) {
        self.shared.stop.send_replace(true);
        let deadline = Instant::now() + HAND_BACK;
        self.carrier.stop_data();
        while self.waiting.values().any(|w| matches!(w, Waiting::Transfer(pending) if pending.body.is_none()))
        {
            match tokio::time::timeout_at(deadline, self.notes.recv()).await {
                Ok(Some(Note::DataDone(tag, body, end))) => {
                    if let Some(Waiting::Transfer(pending)) = self.waiting.get_mut(&tag) {
                        pending.body = Some(body);
                        pending.data = Some(end);
                    }
                }
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            match waiting {
                Waiting::Reply(answer) => {
                    let _ = answer.send(Err(why.clone()));
                }
                Waiting::Ignored => {}
                Waiting::Transfer(pending) => {
                    let result = match pending.finished {
                        Some(result) => result,
                        None => Err(why.clone()),
                    };
                    let data = pending.data.unwrap_or_default();
                    pending.answer.complete(Done { body: handed_back(pending.body), data, result });
                }
            }
        }
    }
}

/// Tells those who requested something that the session no longer begins it. A place in the closed channel may still be filled.
pub(super) async fn refuse(requests: &mut mpsc::Receiver<Request>, why: &Error) {
    requests.close();
    while let Some(request) = requests.recv().await {
        match request {
            Request::Command { answer, .. } => {
                let _ = answer.send(Err(why.clone()));
            }
            Request::Transfer { body, answer, .. } => {
                let (body, data) = (handed_back(Some(body)), DataEnd::default());
                answer.complete(Done { body, data, result: Err(why.clone()) });
            }
        }
    }
}

/// The body to return to the requester. A queue is dropped instead, which shows its reader the end.
fn handed_back(body: Option<Body>) -> Option<Body> {
    body.filter(|body| !matches!(body, Body::Sink(Sink::Queue(_))))
}

fn trace(direction: char, bytes: &[u8]) {
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let line = line.trim_ascii_end();
        let shown = if line.starts_with(b"PASS ") { "PASS …".to_owned() } else { escape(line) };
        // In one write: the line stays whole if both outputs go to the same file.
        let _ = std::io::stderr().write_all(format!("{direction} {shown}\n").as_bytes());
    }
}

/// Converts an error reply to the program's error: [`of_reply`] or [`of_write_reply`].
type Explain = fn(&str, &Reply) -> Error;

/// What a transfer does, for errors.
enum Doing {
    Fetch(PathArg),
    FetchNext,
    Send(PathArg),
    List(Option<PathArg>),
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fetch(path) => write!(f, "fetch {path}"),
            Self::FetchNext => f.write_str("fetch a file of the tree"),
            Self::Send(path) => write!(f, "send {path}"),
            Self::List(Some(path)) => write!(f, "list {path}"),
            Self::List(None) => f.write_str("list the folder"),
        }
    }
}

fn describe(transfer: &Transfer) -> (Doing, Explain) {
    match transfer {
        Transfer::Retrieve { path, .. } => (Doing::Fetch(path.clone()), of_reply),
        Transfer::RetrieveNext => (Doing::FetchNext, of_reply),
        Transfer::Store { path, .. } | Transfer::Append { path, .. } => {
            (Doing::Send(path.clone()), of_write_reply)
        }
        Transfer::List { path, .. } => (Doing::List(path.clone()), of_reply),
    }
}

fn login_refused(reply: &Reply, protection: &Protection) -> Error {
    match reply.code {
        Code::UNAVAILABLE => Error::new(Exit::Connect, "log in", format_args!("the server said: {reply}"))
            .hint("wait a while: it has too many clients, or shuts down"),
        _ if matches!(protection, Protection::Plain) => {
            Error::new(Exit::Login, "log in", format_args!("the server said: {reply}")).hint(
                "leave out --plain, for servers take most passwords inside protection alone; or check the user in the URL and the \
                 password (BRAIDFTP_PASSWORD, or ~/.netrc)",
            )
        }
        _ => Error::new(Exit::Login, "log in", format_args!("the server said: {reply}")).hint(
            "check the user in the URL (ftp://USER@HOST/) and the password (BRAIDFTP_PASSWORD, or ~/.netrc); without \
             a user the login is anonymous",
        ),
    }
}

/// Converts a failed transfer to the program's error. A local error takes precedence, because the server's
/// reply is then only its consequence. For a broken data path the server's reply is the explanation, if there
/// is one.
fn refused(pending: &Pending, error: &TransferError) -> Error {
    let here = pending.data.as_ref().and_then(|data| data.error.clone());
    match (here, error) {
        (Some(here), _) if !here.is_transient() => here,
        (_, TransferError::Refused(reply)) => (pending.explain)(&pending.what.to_string(), reply),
        (_, TransferError::Data(Some(reply))) if reply.code.is_error() => {
            (pending.explain)(&pending.what.to_string(), reply)
        }
        (Some(here), _) => here,
        (None, TransferError::Data(_)) => lost("the data connection broke"),
    }
}
