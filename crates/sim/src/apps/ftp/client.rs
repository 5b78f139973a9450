//! The client of a multiple get: logs in, requests the names (NLST), and then every file, with
//! [`client::Session`](braidftp_ftp::client::Session) as the session's mode requires. Compares every
//! received byte with the expected one.
//!
//! The data of a failed transfer is discarded, and the transfer is repeated; if the session is lost, the
//! client logs in again and requests what is missing. A session that is silent for too long counts as
//! lost: the server may have closed a connection and its last packet been lost, and then neither side
//! would send anything again.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Output, Time};
use braidftp_ftp::PathArg;
use braidftp_ftp::client::{
    Config, Data, DataResult, Event, Input, ListForm, Passive, Pipelining, Session, Tag, Transfer,
    TransferError,
};
use braidftp_ftp::command::{Command, Secret, Type};
use braidftp_ftp::listing::parse_name;
use braidftp_ftp::mapping::pool::CreditPool;
use braidftp_ftp::mapping::receiver::{End, Incoming, Piece as Frame, Receiver};
use braidftp_ftp::mapping::{CONTROL_PORT, CONTROL_STREAM, DATA_STREAM, Mode, TransferNumber, ppid};
use braidftp_sctp as sctp;
use braidftp_tcp as tcp;
use bytes::Bytes;

use super::net::{Closed, Conn, ConnEvent, Net, Refused};
use super::piece::{Piece, Sent};
use super::store::Store;
use super::{Asks, Dialog, Ends, FileOutcome, digest};

/// The first port on which the client listens for data.
const FIRST_PORT: u16 = 40_000;
/// Room in the receive buffer for the control stream, in addition to the credit of the data streams, as
/// in `braidftp`.
const CONTROL_BUFFER_BYTES: usize = 128 << 10;

/// `braidftp get` over TCP: how many commands it sends ahead, two for each file.
const TCP_WINDOW: usize = 2 * 12;
/// The same in ms-cp.
const MS_CP_WINDOW: usize = 2_048;

/// The settings of a client.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) mode: Mode,
    /// The client's own addresses.
    pub(super) local: Vec<SocketAddr>,
    /// The server's addresses.
    pub(super) server: Vec<SocketAddr>,
    /// The configuration of the control association.
    pub(super) sctp: Arc<sctp::Config>,
    /// The configuration of data associations.
    pub(super) data_sctp: Arc<sctp::Config>,
    /// The configuration of TCP connections.
    pub(super) tcp: Arc<tcp::Config>,
    /// The transport of the session.
    pub(super) carrier: Carrier,
    /// The number of data streams in mode braid.
    pub(super) data_streams: u16,
    /// The maximum number of attempts for each file and for the session.
    pub(super) attempts: u32,
    /// The silence after which a session counts as lost.
    pub(super) patience: Duration,
    /// When the files are requested.
    pub(super) asks: Asks,
    /// The commands.
    pub(super) dialog: Dialog,
    /// When the session ends.
    pub(super) ends: Ends,
}

/// The transport of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carrier {
    /// An association.
    Sctp,
    /// A TCP connection, and one for each file.
    Tcp,
    /// This many TCP connections, for this many streams.
    Bundle(usize, usize),
}

/// The client.
#[derive(Debug)]
pub(super) struct Client {
    settings: Settings,
    store: Arc<Store>,
    session: Session,
    control: Option<Conn>,
    lines: u32,
    /// Data for which the transport has no room, with the kind of message.
    out: VecDeque<(u32, Bytes)>,
    stage: Stage,
    fetches: BTreeMap<Tag, Fetch>,
    /// The transfers that use stream 1, in order.
    stream1: VecDeque<Tag>,
    /// Data of stream 1 beyond the end of a file.
    over: VecDeque<Bytes>,
    /// Whether a message ended where `over` begins.
    at_end: bool,
    /// The port on which a data connection is expected, and its transfer.
    awaited: Option<(u16, Tag)>,
    next_port: u16,
    /// Open data connections.
    data: BTreeMap<Conn, DataConn>,
    /// The data streams of mode braid.
    streams: Vec<Stream>,
    /// The credit of the data streams.
    pool: CreditPool,
    sessions: u32,
    /// When the server was last heard.
    heard: Time,
    /// When the silence is checked next, rather than at each packet.
    looks_at: Option<Time>,
    report: Report,
}

/// The observations of the client.
#[derive(Debug, Default)]
pub(super) struct Report {
    /// When it was asked for all files: the start of the first paper's measurement.
    pub(super) asked: Option<Time>,
    /// When the 150 to NLST arrived: the start of the second paper's measurement.
    pub(super) opened: Option<Time>,
    /// When the last file was complete and its 226 had arrived.
    pub(super) done: Option<Time>,
    /// When the session ended after QUIT.
    pub(super) left: Option<Time>,
    pub(super) files: Vec<FileOutcome>,
    pub(super) attempts: Vec<u32>,
    pub(super) failed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// USER, PASS and TYPE were sent: the number of replies missing.
    LoggingIn {
        answers: u32,
    },
    /// Logged in, and not asked for files yet.
    Ready,
    Listing,
    Fetching {
        left: usize,
    },
    /// QUIT was sent.
    Quitting,
    /// The association is being shut down.
    Closing,
    Over,
}

#[derive(Debug)]
struct Fetch {
    what: What,
    flow: Flow,
    /// Bytes received.
    bytes: u64,
    /// Whether they were the bytes of the file.
    right: Right,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Right {
    Yes,
    No,
}

#[derive(Debug)]
enum What {
    Names(Vec<u8>),
    File(usize),
}

/// Where the session expects a transfer's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// Nowhere yet: they are not read.
    Unasked,
    /// On the data connection, until its end.
    Connection,
    /// On stream 1, this many bytes.
    Counted(u64),
    /// On stream 1, as one message.
    Message,
    /// In the frames with this transfer number.
    Framed(TransferNumber),
}

#[derive(Debug)]
struct DataConn {
    tag: Tag,
    end: Option<Closed>,
    /// Whether this side opens it, and waits until it is open.
    opens: bool,
    /// Whether the transport has closed it too.
    closed: bool,
}

#[derive(Debug)]
struct Stream {
    receiver: Receiver,
    /// The transfer of the frames; `None`: they are discarded.
    tag: Option<Tag>,
}

impl Client {
    pub(super) fn new(settings: Settings, store: Arc<Store>) -> Self {
        let files = vec![FileOutcome::default(); store.len()];
        let attempts = vec![0; store.len()];
        let lines = if settings.mode == Mode::Braid { ppid::LINES } else { ppid::PLAIN };
        Self {
            session: Session::new(config(&settings)),
            settings,
            store,
            control: None,
            lines,
            out: VecDeque::new(),
            stage: Stage::Over,
            fetches: BTreeMap::new(),
            stream1: VecDeque::new(),
            over: VecDeque::new(),
            at_end: false,
            awaited: None,
            next_port: FIRST_PORT,
            data: BTreeMap::new(),
            streams: Vec::new(),
            pool: CreditPool::new(0, 0),
            sessions: 0,
            heard: Time::ZERO,
            looks_at: None,
            report: Report { files, attempts, ..Report::default() },
        }
    }

    /// Whether nothing more will happen.
    pub(super) fn is_over(&self) -> bool {
        self.stage == Stage::Over
    }

    /// Returns the observations.
    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    /// Whether it requests the files without waiting.
    pub(super) fn asks_at_once(&self) -> bool {
        self.settings.asks == Asks::AtOnce
    }

    /// Whether it can be asked for the files.
    pub(super) fn is_ready(&self) -> bool {
        self.stage == Stage::Ready
    }

    /// The number of repeated logins.
    pub(super) fn reconnections(&self) -> u32 {
        self.sessions.saturating_sub(1)
    }

    /// Opens the control connection.
    pub(super) fn start(&mut self, net: &mut Net<'_>) {
        self.sessions += 1;
        self.heard = net.now;
        self.session = Session::new(config(&self.settings));
        self.fetches.clear();
        self.stream1.clear();
        self.over.clear();
        self.out.clear();
        self.at_end = false;
        for conn in std::mem::take(&mut self.data).into_keys() {
            net.abort(conn);
        }
        if let Some((port, _)) = self.awaited.take() {
            net.unlisten(port);
        }
        let stream = |stream| Stream { receiver: Receiver::new(stream), tag: None };
        self.streams = match self.settings.mode {
            Mode::Braid => (1..=self.settings.data_streams).map(stream).collect(),
            _ => Vec::new(),
        };
        self.pool = CreditPool::new(self.settings.data_streams, 0);
        match self.connect(net) {
            Ok(conn) => self.control = Some(conn),
            Err(Refused(why)) => return self.fail(format!("cannot connect: {why}")),
        }
        let login = self.session.login(b"anonymous", Secret::new("guest@"));
        assert!(login.is_some(), "the name has nothing that FTP cannot carry");
        self.session.command(Command::Type(Type::Image));
        let answers = 2 + self.put_questions();
        self.stage = Stage::LoggingIn { answers };
        if self.settings.asks == Asks::AtOnce {
            match answers {
                2 => self.ask(net.now),
                // The files are requested when all questions are answered.
                _ => drop(self.report.asked.get_or_insert(net.now)),
            }
        }
    }

    /// Sends the commands that `braidftp get` sends before it asks for files. Returns their number.
    fn put_questions(&mut self) -> u32 {
        let commands = match (self.settings.dialog, self.settings.mode) {
            (Dialog::Papers, _) | (Dialog::Braidftp, Mode::Braid) => Vec::new(),
            (Dialog::Braidftp, Mode::Tcp) => vec![Command::Options("UTF8 ON".into()), Command::Features],
            (Dialog::Braidftp, _) => vec![Command::Features],
        };
        let number = commands.len() as u32;
        for command in commands {
            self.session.command(command);
        }
        number
    }

    fn connect(&self, net: &mut Net<'_>) -> Result<Conn, Refused> {
        let settings = &self.settings;
        let (from, to) = (settings.local[0], SocketAddr::new(settings.server[0].ip(), CONTROL_PORT));
        match settings.carrier {
            Carrier::Sctp => net.associate(sctp::Connect {
                local: settings.local.clone(),
                peer: settings.server.clone(),
                source_port: None,
                destination_port: CONTROL_PORT,
                config: settings.sctp.clone(),
            }),
            Carrier::Tcp => net.connect(from, to, &settings.tcp),
            Carrier::Bundle(connections, streams) => {
                net.open_bundle((connections, streams), from, to, &settings.tcp)
            }
        }
    }

    /// Processes an event of a connection.
    pub(super) fn on(&mut self, net: &mut Net<'_>, conn: Conn, conn_event: ConnEvent) {
        self.heard = net.now;
        match conn_event {
            ConnEvent::Accepted { port } => {
                net.accepted(conn);
                match self.awaited {
                    Some((awaited, tag)) if awaited == port => {
                        self.awaited = None;
                        net.unlisten(port);
                        self.data.insert(conn, DataConn { tag, end: None, opens: false, closed: false });
                    }
                    _ => net.abort(conn),
                }
            }
            ConnEvent::PeerDone if self.control == Some(conn) => self.session.handle(Input::Closed),
            ConnEvent::PeerDone => {
                if let Some(data) = self.data.get_mut(&conn) {
                    data.end.get_or_insert(Closed::InOrder);
                    // TCP closes each direction separately.
                    if let Conn::Tcp(_) = conn {
                        net.close(conn);
                    }
                }
            }
            ConnEvent::Closed(_) if self.control == Some(conn) => {
                self.session.handle(Input::Closed);
                self.control = None;
                net.forget(conn);
                if self.stage == Stage::Closing {
                    self.report.left = Some(net.now);
                    self.stage = Stage::Over;
                }
            }
            ConnEvent::Closed(how) => match self.data.get_mut(&conn) {
                Some(DataConn { tag, opens: true, .. }) => {
                    self.session.handle(Input::DataFailed(*tag));
                    self.data.remove(&conn);
                    net.forget(conn);
                }
                // Received data is read first.
                Some(data) => {
                    data.end.get_or_insert(how);
                    data.closed = true;
                }
                None => net.forget(conn),
            },
            ConnEvent::Up { .. } => {
                if let Some(data) = self.data.get_mut(&conn)
                    && std::mem::take(&mut data.opens)
                {
                    self.session.handle(Input::Connected(data.tag));
                }
            }
            ConnEvent::Changed => {}
        }
    }

    /// Whether it has waited for the server for too long. If so, it acts as if the session had been
    /// closed.
    pub(super) fn has_waited_too_long(&mut self, now: Time) -> bool {
        if matches!(self.stage, Stage::Ready | Stage::Over) {
            self.looks_at = None;
            return false;
        }
        let given_up_at = self.heard + self.settings.patience;
        if now >= given_up_at {
            self.looks_at = None;
            self.session.handle(Input::Closed);
            return true;
        }
        if self.looks_at.is_none_or(|at| now >= at) {
            self.looks_at = Some(given_up_at);
        }
        false
    }

    /// When it checks the silence next.
    pub(super) fn looks_at(&self) -> Option<Time> {
        self.looks_at
    }

    /// Does everything that is possible now.
    pub(super) fn pump(&mut self, net: &mut Net<'_>) {
        while !self.is_over() {
            let sessions = self.sessions;
            let mut more = false;
            if let Some(control) = self.control {
                while let Some(piece) = net.recv(control, CONTROL_STREAM) {
                    more = true;
                    if piece.ppid == self.lines {
                        self.session.handle(Input::Received(piece.joined()));
                    }
                }
            }
            more |= self.drain(net);
            more |= self.take_data(net);
            if let Some(control) = self.control {
                while let Some((kind, first)) = self.out.front_mut() {
                    match net.send(control, CONTROL_STREAM, *kind, first) {
                        Sent::All => drop(self.out.pop_front()),
                        Sent::Full => break,
                        Sent::Gone => self.out.clear(),
                    }
                }
            }
            if !more && sessions == self.sessions {
                break;
            }
        }
        if self.is_over() {
            self.read_out(net);
        }
    }

    /// After the end, connections are only closed.
    fn read_out(&mut self, net: &mut Net<'_>) {
        for (conn, data) in &self.data {
            while net.recv(*conn, CONTROL_STREAM).is_some() {}
            if data.closed {
                net.forget(*conn);
            }
        }
        self.data.retain(|_, data| !data.closed);
    }

    fn drain(&mut self, net: &mut Net<'_>) -> bool {
        let mut more = false;
        loop {
            match self.session.poll(net.now) {
                Output::Send(bytes) => self.out.push_back((self.lines, bytes)),
                Output::Event(event) => self.on_event(net, event),
                Output::Wait(_) => return more,
            }
            more = true;
            if self.is_over() {
                return false;
            }
        }
    }

    fn on_event(&mut self, net: &mut Net<'_>, event: Event) {
        match event {
            Event::Greeting(_) | Event::Send(..) => {}
            Event::Reply(_, reply) => {
                if reply.code.is_error() {
                    return self.fail(format!("the server said: {reply}"));
                }
                if let Stage::LoggingIn { answers } = &mut self.stage {
                    *answers -= 1;
                    if *answers == 0 {
                        self.stage = Stage::Ready;
                        // Only the first request is triggered from outside.
                        if self.report.asked.is_some() {
                            self.ask(net.now);
                        }
                    }
                }
            }
            Event::Connect(tag, port) => {
                let (from, to) =
                    (self.settings.local[0], SocketAddr::new(self.settings.server[0].ip(), port));
                match net.connect(from, to, &self.settings.tcp) {
                    Ok(conn) => {
                        let data = DataConn { tag, end: None, opens: true, closed: false };
                        self.data.insert(conn, data);
                    }
                    Err(_) => self.session.handle(Input::DataFailed(tag)),
                }
            }
            Event::Listen(tag) => {
                let port = self.next_port;
                self.next_port = port.checked_add(1).unwrap_or(FIRST_PORT);
                let listening = match self.settings.carrier {
                    Carrier::Tcp => net.listen_tcp(port, &self.settings.tcp),
                    Carrier::Sctp | Carrier::Bundle(..) => net.listen(port, &self.settings.data_sctp),
                };
                let input = match listening {
                    Ok(()) => {
                        self.awaited = Some((port, tag));
                        Input::Listening(tag, SocketAddr::new(self.settings.local[0].ip(), port))
                    }
                    Err(_) => Input::DataFailed(tag),
                };
                self.session.handle(input);
            }
            Event::Receive(tag, data) => self.begin(net.now, tag, data),
            Event::Finished(tag, result) => self.finished(net, tag, result.map(|finished| finished.bytes)),
            // No protection is requested.
            Event::StartTls => self.session.handle(Input::Closed),
            Event::Unprotected(_) | Event::UnknownHost(_) => {}
            Event::Ended(_) if self.stage == Stage::Quitting => self.leave(net),
            Event::Ended(_) if self.stage == Stage::Closing => {}
            Event::Ended(why) => {
                if self.sessions >= self.settings.attempts {
                    return self
                        .fail(format!("the session was lost {} times, at last: {why:?}", self.sessions));
                }
                if let Some(control) = self.control.take() {
                    net.abort(control);
                }
                self.start(net);
            }
        }
    }

    /// The server announces a transfer's bytes or, in mode braid, the transfer was requested.
    fn begin(&mut self, now: Time, tag: Tag, data: Data) {
        let Some(fetch) = self.fetches.get_mut(&tag) else { return };
        fetch.flow = match data {
            Data::Connection | Data::Association => Flow::Connection,
            Data::Counted(bytes) => Flow::Counted(bytes),
            Data::Message => Flow::Message,
            Data::Framed(number) => Flow::Framed(number),
        };
        if matches!(data, Data::Counted(_) | Data::Message) {
            self.stream1.push_back(tag);
        }
        if !matches!(data, Data::Framed(_)) {
            self.opened(now, tag);
        }
    }

    /// The 150 of a transfer or, in mode braid, its header arrived.
    fn opened(&mut self, now: Time, tag: Tag) {
        match self.fetches.get(&tag).map(|fetch| &fetch.what) {
            Some(What::Names(_)) => drop(self.report.opened.get_or_insert(now)),
            Some(What::File(file)) => self.report.files[*file].opened = Some(now),
            None => {}
        }
    }

    /// Requests the names, or the files if their names are known from an earlier session.
    pub(super) fn ask(&mut self, now: Time) {
        self.report.asked.get_or_insert(now);
        self.heard = now;
        let missing: Vec<_> = (0..self.store.len()).filter(|file| !self.report.files[*file].whole).collect();
        let names_known = self.report.attempts.iter().any(|attempts| *attempts > 0);
        if names_known {
            self.fetch_all(now, missing);
            return;
        }
        self.stage = Stage::Listing;
        let tag = self.session.transfer(Transfer::List { form: ListForm::Names, path: None });
        self.add(tag, What::Names(Vec::new()));
    }

    fn fetch_all(&mut self, now: Time, files: Vec<usize>) {
        self.stage = Stage::Fetching { left: files.len() };
        if files.is_empty() {
            return self.done(now);
        }
        for file in files {
            self.fetch(now, file);
        }
    }

    fn fetch(&mut self, now: Time, file: usize) {
        self.report.files[file].asked.get_or_insert(now);
        self.report.attempts[file] += 1;
        let path = PathArg::new(Store::name(file)).expect("a name that FTP can carry");
        let tag = self.session.transfer(Transfer::Retrieve { path, offset: 0 });
        self.add(tag, What::File(file));
    }

    fn add(&mut self, tag: Tag, what: What) {
        self.fetches.insert(tag, Fetch { what, flow: Flow::Unasked, bytes: 0, right: Right::Yes });
    }

    fn finished(&mut self, net: &mut Net<'_>, tag: Tag, result: Result<u64, TransferError>) {
        let Some(fetch) = self.fetches.remove(&tag) else { return };
        self.stream1.retain(|other| *other != tag);
        if let Some((port, _)) = self.awaited.take_if(|(_, awaited)| *awaited == tag) {
            net.unlisten(port);
        }
        match (fetch.what, result) {
            (What::Names(names), Ok(_)) => match self.files_of(&names) {
                Some(files) => self.fetch_all(net.now, files),
                None => self.fail("the names are not those of the files".into()),
            },
            (What::Names(_), Err(_)) if self.report.files.is_empty() => self.fail("no names came".into()),
            (What::Names(_), Err(error)) => {
                self.report.attempts[0] += 1;
                if self.report.attempts[0] >= self.settings.attempts {
                    return self.fail(format!("no names: {error}"));
                }
                let tag = self.session.transfer(Transfer::List { form: ListForm::Names, path: None });
                self.add(tag, What::Names(Vec::new()));
            }
            (What::File(file), Ok(bytes)) if fetch.right == Right::Yes && bytes == self.store.size(file) => {
                self.report.files[file].whole = true;
                self.report.files[file].done = Some(net.now);
                if let Stage::Fetching { left } = &mut self.stage {
                    *left -= 1;
                    if *left == 0 {
                        self.done(net.now);
                    }
                }
            }
            (What::File(file), result) => {
                let why = match result {
                    Ok(bytes) => format!("{bytes} bytes came, not those of the file"),
                    Err(error) => error.to_string(),
                };
                if self.report.attempts[file] >= self.settings.attempts {
                    return self.fail(format!("{}: {why}", Store::name(file)));
                }
                self.fetch(net.now, file);
            }
        }
    }

    /// Returns the files that a listing names, if these are all files.
    fn files_of(&self, names: &[u8]) -> Option<Vec<usize>> {
        let mut files = Vec::new();
        for line in names.split(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(name) = parse_name(line, b"").ok()? {
                files.push(self.store.find(name.as_bytes())?);
            }
        }
        (files == (0..self.store.len()).collect::<Vec<_>>()).then_some(files)
    }

    fn done(&mut self, now: Time) {
        self.report.done = Some(now);
        self.stage = match self.settings.ends {
            Ends::WithLastFile => Stage::Over,
            Ends::WithQuit => {
                self.session.command(Command::Quit);
                Stage::Quitting
            }
        };
    }

    /// The server answered QUIT, or closed the connection.
    fn leave(&mut self, net: &mut Net<'_>) {
        if let Some(control) = self.control {
            net.close(control);
        }
        self.stage = match self.control {
            Some(Conn::Sctp(_)) => Stage::Closing,
            _ => {
                self.report.left = Some(net.now);
                Stage::Over
            }
        };
    }

    fn fail(&mut self, why: String) {
        self.report.failed.get_or_insert(why);
        self.stage = Stage::Over;
    }

    /// Reads the data of transfers. Returns whether one was completed.
    fn take_data(&mut self, net: &mut Net<'_>) -> bool {
        match self.settings.mode {
            Mode::Tcp | Mode::Naive => self.take_connections(net),
            Mode::Ms | Mode::MsCp => self.take_stream1(net),
            Mode::Braid => self.take_frames(net),
        }
    }

    fn take_connections(&mut self, net: &mut Net<'_>) -> bool {
        let mut some_over = false;
        let mut gone = Vec::new();
        for (conn, data) in &self.data {
            let fetch = self.fetches.get_mut(&data.tag);
            match fetch {
                Some(fetch) if fetch.flow == Flow::Unasked => continue,
                Some(fetch) => {
                    while let Some(piece) = net.recv(*conn, CONTROL_STREAM) {
                        for part in piece.payload {
                            fetch.take(&self.store, &mut self.report, net.now, &part);
                        }
                    }
                    if let Some(end) = &data.end
                        && fetch.flow == Flow::Connection
                    {
                        fetch.flow = Flow::Counted(0);
                        let result = match end {
                            Closed::InOrder => DataResult::Complete(fetch.bytes),
                            Closed::Broken(_) => DataResult::Failed,
                        };
                        self.session.handle(Input::DataDone(data.tag, result));
                        some_over = true;
                    }
                }
                None => while net.recv(*conn, CONTROL_STREAM).is_some() {},
            }
            if data.closed {
                gone.push(*conn);
            }
        }
        for conn in gone {
            net.forget(conn);
            self.data.remove(&conn);
        }
        some_over
    }

    fn take_stream1(&mut self, net: &mut Net<'_>) -> bool {
        let Some(control) = self.control else { return false };
        let mut some_over = false;
        while let Some(tag) = self.stream1.front().copied() {
            let Some(fetch) = self.fetches.get_mut(&tag) else {
                self.stream1.pop_front();
                continue;
            };
            let whole = match fetch.flow {
                Flow::Counted(length) if fetch.bytes == length => true,
                Flow::Message => fetch.bytes > 0 && self.over.is_empty() && self.at_end,
                _ => false,
            };
            if whole {
                self.stream1.pop_front();
                self.session.handle(Input::DataDone(tag, DataResult::Complete(fetch.bytes)));
                some_over = true;
                continue;
            }
            if self.over.is_empty() {
                let Some(Piece { payload, end, .. }) = net.recv(control, DATA_STREAM) else { break };
                self.at_end = end;
                self.over.extend(payload);
            }
            let Some(mut part) = self.over.pop_front() else { continue };
            if let Flow::Counted(length) = fetch.flow {
                let most = usize::try_from(length - fetch.bytes).unwrap_or(usize::MAX);
                if part.len() > most {
                    self.over.push_front(part.split_off(most));
                }
            }
            fetch.take(&self.store, &mut self.report, net.now, &part);
        }
        some_over
    }

    fn take_frames(&mut self, net: &mut Net<'_>) -> bool {
        let Some(control) = self.control else { return false };
        let mut some_over = false;
        let buffer = net.receive_buffer_bytes(control).saturating_sub(CONTROL_BUFFER_BYTES);
        self.pool.set_bytes(buffer as u64);
        for at in 0..self.streams.len() {
            while let Some(piece) = net.recv(control, at as u16 + 1) {
                match self.take_piece(net.now, at, piece) {
                    Some(over) => some_over |= over,
                    None => {
                        net.abort(control);
                        return true;
                    }
                }
            }
        }
        some_over
    }

    /// Processes a piece of a data stream in mode braid; `None` if it violates the protocol.
    fn take_piece(&mut self, now: Time, at: usize, piece: Piece) -> Option<bool> {
        let (last, mut over) = (piece.payload.len(), false);
        for (nth, payload) in piece.payload.into_iter().enumerate() {
            let end = if piece.end && nth + 1 == last { End::Last } else { End::More };
            self.streams[at].receiver.handle(Frame { ppid: piece.ppid, payload, end }).ok()?;
            while let Some(incoming) = self.streams[at].receiver.poll().ok()? {
                over |= self.take_incoming(now, at, incoming);
            }
        }
        Some(over)
    }

    /// Processes the contents of a piece. Returns whether a transfer was completed.
    fn take_incoming(&mut self, now: Time, at: usize, incoming: Incoming) -> bool {
        let result = match incoming {
            Incoming::Header(header) => {
                let meant = |fetch: &Fetch| fetch.flow == Flow::Framed(header.transfer);
                let tag = self.fetches.iter().find(|(_, fetch)| meant(fetch)).map(|(tag, _)| *tag);
                self.streams[at].tag = tag;
                tag.into_iter().for_each(|tag| self.opened(now, tag));
                return false;
            }
            Incoming::Bytes(part) => {
                if let Some(fetch) = self.streams[at].tag.and_then(|tag| self.fetches.get_mut(&tag)) {
                    fetch.take(&self.store, &mut self.report, now, &part);
                }
                self.streams[at].receiver.consume(part.len() as u64);
                self.grant(at);
                return false;
            }
            Incoming::Complete(digest) => Some(digest),
            Incoming::Broken(_) => None,
        };
        self.grant(at);
        let Some(tag) = self.streams[at].tag.take() else { return false };
        let Some(Fetch { bytes, flow: Flow::Framed(number), .. }) = self.fetches.get(&tag) else {
            return false;
        };
        let is_right = result.is_some_and(|came| came == digest(*number, *bytes));
        let result = if is_right { DataResult::Complete(*bytes) } else { DataResult::Failed };
        self.session.handle(Input::DataDone(tag, result));
        true
    }

    /// Sends the credit of a data stream, if due.
    fn grant(&mut self, at: usize) {
        if let Some(credit) = self.pool.grant(&mut self.streams[at].receiver) {
            self.out.push_back((ppid::CREDIT, credit.encode()));
        }
    }
}

/// Active mode with one command at a time, as the papers' clients; the SCTP modes have their own rules.
fn config(settings: &Settings) -> Config {
    let config = Config::new(settings.mode);
    match (settings.dialog, settings.mode) {
        (Dialog::Papers, _) => {
            Config { pipelining: Pipelining::LockStep, passive: Passive::Active, ..config }
        }
        (Dialog::Braidftp, Mode::Tcp) => {
            Config { pipelining: Pipelining::Adaptive, window: TCP_WINDOW, ..config }
        }
        (Dialog::Braidftp, Mode::MsCp) => Config { window: MS_CP_WINDOW, ..config },
        (Dialog::Braidftp, Mode::Naive | Mode::Ms | Mode::Braid) => config,
    }
}

impl Fetch {
    fn take(&mut self, store: &Store, report: &mut Report, now: Time, part: &[u8]) {
        match &mut self.what {
            What::Names(names) => names.extend_from_slice(part),
            What::File(file) => {
                if !store.matches(*file, self.bytes, part) {
                    self.right = Right::No;
                }
                report.files[*file].first_byte.get_or_insert(now);
                report.files[*file].last_byte = Some(now);
            }
        }
        self.bytes += part.len() as u64;
    }
}
