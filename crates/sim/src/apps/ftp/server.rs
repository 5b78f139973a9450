//! The server: performs the jobs of [`server::Session`](braidftp_ftp::server::Session) as `braidftp
//! serve` does, with a [`Store`] in place of a disk.
//!
//! It sends files and receives none, and accepts every user. Its sessions never time out: the
//! experiments' links are slower than a current server's time limit.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Output, Time};
use braidftp_ftp::SafePath;
use braidftp_ftp::listing::encode_name;
use braidftp_ftp::mapping::frame::{Credit, Header};
use braidftp_ftp::mapping::sender::{Sender, Then, freest};
use braidftp_ftp::mapping::{
    CONTROL_PORT, CONTROL_STREAM, DATA_PORT, DATA_STREAM, DataPath, Mode, TransferNumber, ppid,
};
use braidftp_ftp::server::{
    Carrier, Config, Do, Extent, Failure, Form, Input, JobId, Outcome, Query, Session, Source,
};
use braidftp_ftp::store::{FileKind, Metadata, StoreError};
use braidftp_sctp as sctp;
use braidftp_tcp as tcp;
use bytes::Bytes;

use super::bundle;
use super::net::{Closed, Conn, ConnEvent, Net};
use super::piece::Sent;
use super::store::Store;
use super::{Handshake, digest};

/// The maximum silence of a session.
const IDLE: Duration = Duration::from_secs(1 << 30);

/// The first port of data connections in passive mode.
const FIRST_PASSIVE_PORT: u16 = 50_000;

/// The maximum length of replies joined in one message in mode braid.
const JOINED_BYTES: usize = 16 << 10;

/// The settings of a server.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// The server's addresses.
    pub(super) local: Vec<SocketAddr>,
    /// The configuration of data associations.
    pub(super) sctp: Arc<sctp::Config>,
    /// The configuration of data connections.
    pub(super) tcp: Arc<tcp::Config>,
    /// Bytes of a file per message.
    pub(super) message_bytes: usize,
    /// When the data of a new data association is sent.
    pub(super) handshake: Handshake,
}

/// The server.
#[derive(Debug)]
pub(super) struct Server {
    settings: Settings,
    store: Arc<Store>,
    config: Arc<Config>,
    sessions: Vec<Served>,
    /// The connections of unfinished transfers.
    data: Vec<Conn>,
}

/// One session.
#[derive(Debug)]
struct Served {
    control: Conn,
    session: Session,
    /// The payload protocol identifier of lines in this mode.
    lines: u32,
    /// Command lines that arrived before the session takes them.
    ahead: VecDeque<Bytes>,
    /// Replies for which the transport has no room.
    out: VecDeque<Bytes>,
    jobs: VecDeque<Job>,
    /// The data streams of mode braid.
    lanes: Vec<Sender>,
    /// Transfers in passive mode whose last bytes were written, and which are reported when these were sent.
    written: Vec<(JobId, Result<Outcome, Failure>)>,
    /// The port of the next transfer in passive mode, until the transfer begins.
    passive: Option<u16>,
    /// The port after it.
    next_port: u16,
    /// Connections to passive ports whose transfers have not begun.
    arrived: Vec<(u16, Conn)>,
    /// Connections opened for transfers since the last check.
    begun: Vec<Conn>,
    /// Whether data uses the control connection.
    shares: bool,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// To be closed when the replies were sent.
    Closing,
    Over,
}

/// A transfer.
#[derive(Debug)]
struct Job {
    id: JobId,
    content: Content,
    sent: u64,
    way: Way,
}

#[derive(Debug)]
enum Content {
    /// A part of a file.
    File { file: usize, at: u64, end: u64 },
    /// The rest of a listing.
    Listing(Bytes),
}

/// The transport of a transfer.
#[derive(Debug, Clone, Copy)]
enum Way {
    /// A connection of its own.
    Own { conn: Conn, open: Open },
    /// A connection of its own that the client opens to this port.
    Passive { port: u16 },
    /// Stream 1; the 150 may not have been sent yet.
    Stream1 { preliminary: Preliminary },
    /// A data stream of mode braid, once assigned.
    Framed { transfer: TransferNumber, lane: Option<usize> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    Awaited,
    Yes,
    /// By the client, in passive mode.
    Accepted,
}

/// Whether the reply 150 of a transfer was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Preliminary {
    Pending,
    Sent,
}

/// The progress of a transfer.
enum Progress {
    Waits,
    /// Something was sent, and more may be after the other transfers.
    Moves,
    Over(Result<Outcome, Failure>),
}

impl Server {
    pub(super) fn new(settings: Settings, store: Arc<Store>) -> Self {
        let active = braidftp_ftp::server::Active::ToPeer;
        let config =
            Config { idle: IDLE, idle_before_login: IDLE, login_within: IDLE, active, ..Config::default() };
        Self { settings, store, config: Arc::new(config), sessions: Vec::new(), data: Vec::new() }
    }

    /// The connections that carry data.
    pub(super) fn data_conns(&self) -> impl Iterator<Item = Conn> + '_ {
        let shared = self.sessions.iter().filter(|served| served.shares);
        shared.map(|served| served.control).chain(self.data.iter().copied())
    }

    /// Processes an event of a connection.
    pub(super) fn on(&mut self, net: &mut Net<'_>, conn: Conn, conn_event: ConnEvent) {
        match conn_event {
            ConnEvent::Accepted { .. } => net.accepted(conn),
            ConnEvent::Up { inbound_streams } => {
                if let Some(open) = self.sessions.iter_mut().find_map(|served| served.opening(conn)) {
                    *open = Open::Yes;
                } else if matches!(net.port(conn), Some(CONTROL_PORT | bundle::PORT)) {
                    let carrier = match (net.ends(conn), Mode::of_streams(inbound_streams)) {
                        (Some((local, peer)), _) => Carrier::Tcp { local, peer },
                        (None, Mode::Naive | Mode::Tcp) => Carrier::Naive,
                        (None, Mode::Ms | Mode::MsCp) => Carrier::Ms,
                        (None, Mode::Braid) => Carrier::Braid { data_streams: inbound_streams - 1 },
                    };
                    self.accept(net.now, conn, carrier);
                } else if let Some(port) = net.port(conn)
                    && let Some(served) = self.sessions.iter_mut().find(|served| served.listens(port))
                {
                    // The socket serves one connection.
                    net.unlisten(port);
                    served.on_arrived(port, conn);
                }
            }
            ConnEvent::PeerDone => {
                if let Some(served) = self.session(conn) {
                    served.session.handle(net.now, Input::Closed);
                }
            }
            ConnEvent::Closed(how) => {
                if let Some(served) = self.session(conn) {
                    served.session.handle(net.now, Input::Closed);
                    served.phase = Phase::Over;
                }
                for served in &mut self.sessions {
                    served.lost(net.now, conn, &how);
                }
                self.data.retain(|data| *data != conn);
                net.forget(conn);
            }
            ConnEvent::Changed => {}
        }
        self.sessions.retain(|served| served.phase != Phase::Over);
    }

    /// Does everything that is possible now.
    pub(super) fn pump(&mut self, net: &mut Net<'_>) {
        for served in &mut self.sessions {
            served.pump(net, &self.store, &self.settings);
            self.data.append(&mut served.begun);
        }
    }

    /// Whether a transfer waits until replies were sent, or replies wait for earlier ones.
    pub(super) fn waits_for_replies(&self) -> bool {
        let waits = |job: &Job| matches!(job.way, Way::Stream1 { preliminary: Preliminary::Pending });
        let replies = |served: &Served| served.lines == ppid::LINES && !served.out.is_empty();
        self.sessions.iter().any(|served| replies(served) || served.jobs.iter().any(waits))
    }

    /// Whether transfers wait to be reported until their bytes were sent.
    pub(super) fn has_written(&self) -> bool {
        self.sessions.iter().any(|served| !served.written.is_empty())
    }

    fn session(&mut self, control: Conn) -> Option<&mut Served> {
        self.sessions.iter_mut().find(|served| served.control == control)
    }

    fn accept(&mut self, now: Time, control: Conn, carrier: Carrier) {
        let (lines, lanes) = match carrier {
            Carrier::Braid { data_streams } => (ppid::LINES, (1..=data_streams).map(Sender::new).collect()),
            Carrier::Tcp { .. } | Carrier::Naive | Carrier::Ms => (ppid::PLAIN, Vec::new()),
        };
        self.sessions.push(Served {
            control,
            session: Session::new(self.config.clone(), carrier, now),
            lines,
            ahead: VecDeque::new(),
            out: VecDeque::new(),
            jobs: VecDeque::new(),
            lanes,
            written: Vec::new(),
            passive: None,
            next_port: FIRST_PASSIVE_PORT,
            arrived: Vec::new(),
            begun: Vec::new(),
            shares: matches!(carrier, Carrier::Ms | Carrier::Braid { .. }),
            phase: Phase::Open,
        });
    }
}

impl Served {
    /// Whether a transfer uses or will use a passive port.
    fn listens(&self, port: u16) -> bool {
        let waits = |job: &Job| matches!(job.way, Way::Passive { port: its } if its == port);
        self.passive == Some(port) || self.jobs.iter().any(waits)
    }

    /// The client has connected to a passive port.
    fn on_arrived(&mut self, port: u16, conn: Conn) {
        let waits = |job: &&mut Job| matches!(job.way, Way::Passive { port: its } if its == port);
        match self.jobs.iter_mut().find(waits) {
            Some(job) => {
                job.way = Way::Own { conn, open: Open::Accepted };
                self.begun.push(conn);
            }
            None => self.arrived.push((port, conn)),
        }
    }

    /// Opens a socket for the next transfer, in place of an earlier one.
    fn listen(&mut self, net: &mut Net<'_>, settings: &Settings) -> Result<Outcome, Failure> {
        if let Some(port) = self.passive.take() {
            net.unlisten(port);
            self.arrived.retain(|(its, _)| *its != port);
        }
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_PASSIVE_PORT);
        net.listen_tcp(port, &settings.tcp).map_err(|_| Failure::CannotOpenData)?;
        self.passive = Some(port);
        Ok(Outcome::Listening(SocketAddr::new(settings.local[0].ip(), port)))
    }

    fn opening(&mut self, wanted: Conn) -> Option<&mut Open> {
        self.jobs.iter_mut().find_map(|job| match &mut job.way {
            Way::Own { conn, open } if *conn == wanted => Some(open),
            _ => None,
        })
    }

    /// A connection has ended: its unfinished transfer has failed.
    fn lost(&mut self, now: Time, conn: Conn, _how: &Closed) {
        let Some(at) =
            self.jobs.iter().position(|job| matches!(job.way, Way::Own { conn: its, .. } if its == conn))
        else {
            return;
        };
        let Some(Job { id, way, .. }) = self.jobs.remove(at) else { return };
        let failure = match way {
            Way::Own { open: Open::Awaited, .. } => Failure::CannotOpenData,
            _ => Failure::DataLost,
        };
        self.session.handle(now, Input::Done { job: id, outcome: Err(failure) });
    }

    fn pump(&mut self, net: &mut Net<'_>, store: &Store, settings: &Settings) {
        for (job, outcome) in std::mem::take(&mut self.written) {
            self.session.handle(net.now, Input::Done { job, outcome });
        }
        loop {
            let mut more = false;
            // In braid the credit that running transfers wait for may follow commands that the session does not take yet.
            while (self.lines == ppid::LINES || self.session.wants_input())
                && let Some(piece) = net.recv(self.control, CONTROL_STREAM)
            {
                more = true;
                if piece.ppid == ppid::CREDIT {
                    self.on_credit(net, &piece.joined());
                } else {
                    self.ahead.push_back(piece.joined());
                    self.take_commands(net.now);
                }
            }
            self.take_commands(net.now);
            self.drain(net, store, settings);
            self.reply(net);
            more |= self.send(net, store, settings);
            if !more {
                break;
            }
        }
        if self.phase == Phase::Closing && self.out.is_empty() {
            net.close(self.control);
        }
    }

    /// Passes commands on while the session takes any.
    fn take_commands(&mut self, now: Time) {
        while self.session.wants_input()
            && let Some(lines) = self.ahead.pop_front()
        {
            self.session.handle(now, Input::Received(lines));
        }
    }

    fn on_credit(&mut self, net: &mut Net<'_>, payload: &[u8]) {
        let taken = Credit::decode(payload).ok().and_then(|credit| {
            let lane = self.lanes.get_mut(usize::from(credit.stream).checked_sub(1)?)?;
            lane.on_credit(credit).ok()
        });
        if taken.is_none() {
            net.abort(self.control);
        }
    }

    fn drain(&mut self, net: &mut Net<'_>, store: &Store, settings: &Settings) {
        loop {
            match self.session.poll(net.now) {
                Output::Send(bytes) => match self.out.back_mut() {
                    Some(last) if self.lines == ppid::LINES && last.len() + bytes.len() <= JOINED_BYTES => {
                        *last = [&last[..], &bytes[..]].concat().into();
                    }
                    _ => self.out.push_back(bytes),
                },
                Output::Event(todo) => self.execute(net, store, settings, todo),
                Output::Wait(_) => return,
            }
        }
    }

    fn reply(&mut self, net: &mut Net<'_>) {
        while let Some(first) = self.out.front_mut() {
            // Replies that cannot be sent yet are joined with later ones, as in `braidftp serve`.
            let more_come = self.lines == ppid::LINES && !self.jobs.is_empty();
            if more_come && net.waits(self.control, CONTROL_STREAM) {
                return;
            }
            match net.send(self.control, CONTROL_STREAM, self.lines, first) {
                Sent::All => drop(self.out.pop_front()),
                Sent::Full => return,
                Sent::Gone => return self.out.clear(),
            }
        }
    }

    fn execute(&mut self, net: &mut Net<'_>, store: &Store, settings: &Settings, todo: Do) {
        let now = net.now;
        let done = |job, outcome| Input::Done { job, outcome };
        let input = match todo {
            Do::Authenticate { .. } => Input::Authenticated(Ok(())),
            Do::LogOut | Do::NoteUnprotected { .. } => return,
            // Users are not authenticated here, and there is no TLS.
            Do::StartTls | Do::Admit { .. } => Input::Closed,
            Do::Query { job, path, query: Query::Followed | Query::Facts } => {
                let found = find(store, &path).map(|found| match found {
                    Found::Folder => Metadata::new(FileKind::Directory, 0),
                    Found::File(file) => Metadata::new(FileKind::File, store.size(file)),
                });
                done(job, found.map(Outcome::Facts))
            }
            Do::Query { job, query: Query::Digest(_), .. } => {
                done(job, Err(Failure::Store(StoreError::Denied)))
            }
            Do::Query { job, query: Query::Parts, .. } => done(job, Ok(Outcome::Parts(Vec::new()))),
            Do::Query { job, query: Query::Partial, .. } => done(job, Ok(Outcome::Partial(0))),
            Do::Change { job, .. } | Do::Receive { job, .. } => {
                done(job, Err(Failure::Store(StoreError::ReadOnly)))
            }
            Do::Listen { job } => done(job, self.listen(net, settings)),
            Do::Send { job, data, source } => match self.begin(net, store, settings, job, data, source) {
                Ok(()) => return,
                Err(failure) => done(job, Err(failure)),
            },
            Do::Cancel { job } => {
                let Some(at) = self.jobs.iter().position(|other| other.id == job) else { return };
                match self.jobs.remove(at).map(|job| job.way) {
                    Some(Way::Own { conn, .. }) => net.abort(conn),
                    Some(Way::Passive { port }) => net.unlisten(port),
                    _ => {}
                }
                done(job, Err(Failure::Cancelled))
            }
            Do::Close => {
                self.phase = Phase::Closing;
                return;
            }
        };
        self.session.handle(now, input);
    }

    fn begin(
        &mut self,
        net: &mut Net<'_>,
        store: &Store,
        settings: &Settings,
        id: JobId,
        data: DataPath,
        source: Source,
    ) -> Result<(), Failure> {
        let content = open(store, data, source)?;
        let size = content.left();
        self.session.handle(net.now, Input::Started { job: id, size: Some(size), name: None });
        let way = match data {
            DataPath::Association { port } => {
                let connect = sctp::Connect {
                    local: settings.local.clone(),
                    // Like `connect` to the address of EPRT; INIT ACK lists the others.
                    peer: net.peers(self.control).into_iter().take(1).collect(),
                    source_port: Some(DATA_PORT),
                    destination_port: port,
                    config: settings.sctp.clone(),
                };
                let conn = net.associate(connect).map_err(|_| Failure::CannotOpenData)?;
                let open = match settings.handshake {
                    Handshake::First => Open::Awaited,
                    Handshake::WithData => Open::Yes,
                };
                Way::Own { conn, open }
            }
            DataPath::Stream1 => Way::Stream1 { preliminary: Preliminary::Pending },
            DataPath::Framed { transfer } => Way::Framed { transfer, lane: None },
            DataPath::TcpActive(to) => {
                let (local, _) = net.ends(self.control).ok_or(Failure::CannotOpenData)?;
                let from = SocketAddr::new(local.ip(), DATA_PORT);
                let conn = net.connect(from, to, &settings.tcp).map_err(|_| Failure::CannotOpenData)?;
                Way::Own { conn, open: Open::Awaited }
            }
            DataPath::TcpPassive => {
                let port = self.passive.take().ok_or(Failure::CannotOpenData)?;
                match self.arrived.iter().position(|(its, _)| *its == port) {
                    Some(at) => Way::Own { conn: self.arrived.remove(at).1, open: Open::Accepted },
                    None => Way::Passive { port },
                }
            }
        };
        if let Way::Own { conn, .. } = way {
            self.begun.push(conn);
        }
        self.jobs.push_back(Job { id, content, sent: 0, way });
        Ok(())
    }

    /// Sends as much as there is room for. Returns whether a transfer was completed.
    fn send(&mut self, net: &mut Net<'_>, store: &Store, settings: &Settings) -> bool {
        let mut some_over = false;
        let mut moves = true;
        while std::mem::take(&mut moves) {
            let mut at = 0;
            while at < self.jobs.len() {
                match self.send_some(net, store, settings, at) {
                    Progress::Waits => at += 1,
                    Progress::Moves => {
                        moves = true;
                        at += 1;
                    }
                    Progress::Over(outcome) => {
                        let Some(job) = self.jobs.remove(at) else { break };
                        if matches!(job.way, Way::Own { open: Open::Accepted, .. }) {
                            self.written.push((job.id, outcome));
                            continue;
                        }
                        self.session.handle(net.now, Input::Done { job: job.id, outcome });
                        some_over = true;
                    }
                }
            }
        }
        some_over
    }

    fn send_some(&mut self, net: &mut Net<'_>, store: &Store, settings: &Settings, at: usize) -> Progress {
        match self.jobs[at].way {
            Way::Own { conn, open } => self.jobs[at].send_alone(net, store, settings, conn, open),
            Way::Passive { .. } => Progress::Waits,
            Way::Stream1 { preliminary } => {
                // Data sent before its 150 fills the window of a client that waits for the 150.
                let waits = || !self.out.is_empty() || net.waits(self.control, CONTROL_STREAM);
                if preliminary == Preliminary::Pending && waits() {
                    return Progress::Waits;
                }
                self.jobs[at].way = Way::Stream1 { preliminary: Preliminary::Sent };
                self.jobs[at].send_plain(net, store, settings, self.control, DATA_STREAM)
            }
            Way::Framed { transfer, lane } => self.send_framed(net, store, settings, at, transfer, lane),
        }
    }

    fn send_framed(
        &mut self,
        net: &mut Net<'_>,
        store: &Store,
        settings: &Settings,
        at: usize,
        transfer: TransferNumber,
        lane: Option<usize>,
    ) -> Progress {
        // Jobs are ordered by number, and so are headers: a job after one that has not begun waits as
        // well.
        let is_behind = at > 0 && matches!(self.jobs[at - 1].way, Way::Framed { lane: None, .. });
        let bytes = self.jobs[at].content.left();
        let free = || {
            let stream = freest(self.lanes.iter().filter_map(Sender::free), Some(bytes))?;
            Some(usize::from(stream) - 1)
        };
        let begins = lane.is_none();
        let Some(lane) = lane.or_else(|| free().filter(|_| !is_behind)) else {
            return Progress::Waits;
        };
        let (job, lane_sender) = (&mut self.jobs[at], &mut self.lanes[lane]);
        if begins {
            let (offset, size) = match &job.content {
                Content::File { file, at, .. } => (*at, Some(store.size(*file))),
                Content::Listing(_) => (0, None),
            };
            lane_sender.begin(Header { transfer, offset, size, modified: None });
        }
        let room = usize::try_from(lane_sender.room()).unwrap_or(usize::MAX);
        let part = job.content.next(store, settings.message_bytes.min(room));
        let sent = job.sent + part.len() as u64;
        let is_last = part.len() as u64 == job.content.left();
        let ending = if is_last { Then::Complete(digest(transfer, sent)) } else { Then::More };
        let Some(mut frame) = lane_sender.frame(part.clone(), ending) else {
            return Progress::Waits; // for credit
        };
        let mut payload = std::mem::take(&mut frame.payload);
        match net.send(self.control, lane_sender.stream(), frame.ppid, &mut payload) {
            Sent::All => {}
            Sent::Full => {
                if begins {
                    lane_sender.break_off(Failure::Cancelled.code().number());
                }
                return Progress::Waits;
            }
            Sent::Gone => return Progress::Over(Err(Failure::DataLost)),
        }
        lane_sender.on_sent(&frame);
        job.way = Way::Framed { transfer, lane: Some(lane) };
        job.advance(part.len());
        if is_last { Progress::Over(Ok(Outcome::Sent { bytes: sent })) } else { Progress::Moves }
    }
}

impl Job {
    fn send_alone(
        &mut self,
        net: &mut Net<'_>,
        store: &Store,
        settings: &Settings,
        conn: Conn,
        open: Open,
    ) -> Progress {
        if open == Open::Awaited {
            return Progress::Waits;
        }
        let progress = self.send_plain(net, store, settings, conn, CONTROL_STREAM);
        if matches!(progress, Progress::Over(Ok(_))) {
            net.close(conn);
        }
        progress
    }

    fn send_plain(
        &mut self,
        net: &mut Net<'_>,
        store: &Store,
        settings: &Settings,
        conn: Conn,
        stream: u16,
    ) -> Progress {
        let most = match self.content {
            Content::File { .. } => settings.message_bytes,
            // A listing is one message (specs/ftp-over-sctp.md §4.4).
            Content::Listing(_) => usize::MAX,
        };
        loop {
            let mut part = self.content.next(store, most);
            if part.is_empty() {
                return Progress::Over(Ok(Outcome::Sent { bytes: self.sent }));
            }
            let length = part.len();
            let sent = net.send(conn, stream, ppid::PLAIN, &mut part);
            self.advance(length - part.len());
            match sent {
                Sent::All => {}
                Sent::Full => return Progress::Waits,
                Sent::Gone => return Progress::Over(Err(Failure::DataLost)),
            }
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        match &mut self.content {
            Content::File { at, .. } => *at += bytes as u64,
            Content::Listing(rest) => drop(rest.split_to(bytes)),
        }
    }
}

impl Content {
    fn left(&self) -> u64 {
        match self {
            Self::File { at, end, .. } => end - at,
            Self::Listing(rest) => rest.len() as u64,
        }
    }

    /// Returns the next part of the content; empty at its end.
    fn next(&self, store: &Store, most: usize) -> Bytes {
        match self {
            Self::File { file, at, end } => {
                let left = usize::try_from(end - at).unwrap_or(usize::MAX);
                store.content(*file, *at, most.min(left))
            }
            Self::Listing(rest) => rest.slice(..rest.len().min(most)),
        }
    }
}

enum Found {
    Folder,
    File(usize),
}

fn find(store: &Store, path: &SafePath) -> Result<Found, Failure> {
    if path.is_root() {
        return Ok(Found::Folder);
    }
    let file = store.find(path.as_bytes()).ok_or(Failure::Store(StoreError::NotFound))?;
    Ok(Found::File(file))
}

fn open(store: &Store, data: DataPath, source: Source) -> Result<Content, Failure> {
    match source {
        Source::File { path, offset, extent, .. } => match find(store, &path)? {
            Found::Folder => Err(Failure::Store(StoreError::NotAFile)),
            Found::File(file) => {
                let size = store.size(file);
                if offset > size {
                    return Err(Failure::Store(StoreError::BadOffset));
                }
                // Files never change here, so the announced size is exact.
                let end = match extent {
                    Extent::ToEnd => size,
                    Extent::Exactly(bytes) => size.min(offset + bytes),
                };
                Ok(Content::File { file, at: offset, end })
            }
        },
        Source::Listing { path, form: Form::Names, .. } if path.is_root() => {
            let mut listing = Vec::new();
            for file in 0..store.len() {
                if let Ok(name) = SafePath::strict(Store::name(file).as_bytes()) {
                    listing.extend_from_slice(&encode_name(&name));
                }
            }
            if listing.is_empty() && data == DataPath::Stream1 {
                listing.extend_from_slice(b"\r\n");
            }
            Ok(Content::Listing(listing.into()))
        }
        Source::Listing { .. } => Err(Failure::Store(StoreError::Unsupported)),
    }
}
