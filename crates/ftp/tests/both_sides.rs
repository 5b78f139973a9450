//! A client session and a server session joined by queues, without a network, in every mode: whole jobs from
//! end to end.

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use braidftp_ftp::client::{
    self, Data, DataResult, Event, ListForm, Pipelining, Tag, Transfer, TransferError,
};
use braidftp_ftp::command::{Command, Secret, Type};
use braidftp_ftp::mapping::frame::{Credit, Header};
use braidftp_ftp::mapping::pool::CreditPool;
use braidftp_ftp::mapping::receiver::{End, Incoming, Piece, Receiver};
use braidftp_ftp::mapping::sender::{Sender, Then};
use braidftp_ftp::mapping::{DataPath, Mode, TransferNumber, ppid};
use braidftp_ftp::path::SafePath;
use braidftp_ftp::server::{self, Carrier, Do, Failure, Input, JobId, Outcome, Sink, Upload, Write};
use braidftp_ftp::{Code, Output, PathArg, Time};
use bytes::Bytes;
use common::{Connection, MemoryStore, Messages, digest, path};

const STREAMS: u16 = 3;
const FIRST_PORT: u16 = 40_000;

/// Bytes between client and server, in the form of the mode.
#[derive(Default)]
struct Network {
    to_server: Vec<u8>,
    to_client: Vec<u8>,
    /// TCP and naive: by port.
    connections: BTreeMap<u16, Connection>,
    /// ms: stream 1 each way.
    down: Messages,
    up: Messages,
    /// braid: data streams each way, and credit.
    streams_down: BTreeMap<u16, Messages>,
    streams_up: BTreeMap<u16, Messages>,
    credit_down: Vec<Credit>,
    credit_up: Vec<Credit>,
}

struct Incomplete {
    job: JobId,
    sink: Sink,
    path: SafePath,
    data: DataPath,
    port: u16,
}

/// A download of braid, and the stream that carries it.
struct Download {
    transfer: TransferNumber,
    job: JobId,
    sent: usize,
    bytes: Vec<u8>,
    stream: Option<u16>,
}

struct Server {
    session: server::Session,
    /// The port in the most recent reply to EPSV.
    listening: u16,
    store: MemoryStore,
    receiving: Vec<Incomplete>,
    senders: Vec<Sender>,
    receivers: BTreeMap<u16, Receiver>,
    pool: CreditPool,
    downloads: VecDeque<Download>,
    uploads: BTreeMap<TransferNumber, Vec<u8>>,
    closed: bool,
}

struct Client {
    session: client::Session,
    contents: BTreeMap<Tag, Vec<u8>>,
    receiving: VecDeque<(Tag, Data)>,
    ports: BTreeMap<Tag, u16>,
    framed: BTreeMap<TransferNumber, (Tag, Vec<u8>)>,
    sending: VecDeque<(Tag, TransferNumber, usize)>,
    sender: Sender,
    receivers: BTreeMap<u16, Receiver>,
    pool: CreditPool,
    seen: Vec<Event>,
}

struct Pair {
    network: Network,
    server: Server,
    client: Client,
}

impl Pair {
    fn new(mode: Mode, pipelining: Pipelining, store: MemoryStore) -> Self {
        let carrier = match mode {
            Mode::Tcp => common::tcp(),
            Mode::Naive => Carrier::Naive,
            Mode::Ms | Mode::MsCp => Carrier::Ms,
            Mode::Braid => Carrier::Braid { data_streams: STREAMS },
        };
        let receivers =
            || (1..=STREAMS).map(|stream| (stream, Receiver::new(stream))).collect::<BTreeMap<_, _>>();
        let server = Server {
            session: server::Session::new(Arc::new(server::Config::default()), carrier, Time::ZERO),
            listening: FIRST_PORT,
            store,
            receiving: Vec::new(),
            senders: (1..=STREAMS).map(Sender::new).collect(),
            receivers: receivers(),
            pool: CreditPool::new(STREAMS, 0),
            downloads: VecDeque::new(),
            uploads: BTreeMap::new(),
            closed: false,
        };
        let mut config = client::Config::new(mode);
        config.pipelining = pipelining;
        let client = Client {
            session: client::Session::new(config),
            contents: BTreeMap::new(),
            receiving: VecDeque::new(),
            ports: BTreeMap::new(),
            framed: BTreeMap::new(),
            sending: VecDeque::new(),
            sender: Sender::new(1),
            receivers: receivers(),
            pool: CreditPool::new(STREAMS, 0),
            seen: Vec::new(),
        };
        let mut pair = Self { network: Network::default(), server, client };
        pair.client.session.login(b"user", Secret::new("secret")).unwrap();
        pair.client.session.command(Command::Type(Type::Image));
        pair
    }

    fn get(&mut self, name: &str, offset: u64) -> Tag {
        let path = PathArg::new(name.as_bytes().to_vec()).unwrap();
        self.client.session.transfer(Transfer::Retrieve { path, offset })
    }

    fn put(&mut self, name: &str, content: &[u8]) -> Tag {
        let path = PathArg::new(name.as_bytes().to_vec()).unwrap();
        let length = content.len() as u64;
        let tag = self.client.session.transfer(Transfer::Store { path, offset: 0, length });
        self.client.contents.insert(tag, content.to_vec());
        tag
    }

    fn list(&mut self, form: ListForm, name: &str) -> Tag {
        let path = PathArg::new(name.as_bytes().to_vec());
        self.client.session.transfer(Transfer::List { form, path })
    }

    /// Runs until neither side makes progress.
    fn run(&mut self) {
        for _ in 0..100_000 {
            let moved = self.server.turn(&mut self.network) | self.client.turn(&mut self.network);
            if !moved {
                return;
            }
        }
        panic!("it does not come to rest");
    }

    fn finished(&self, tag: Tag) -> Result<Vec<u8>, TransferError> {
        let result = self.client.seen.iter().find_map(|event| match event {
            Event::Finished(found, result) if *found == tag => Some(result.clone()),
            _ => None,
        });
        let finished = result.unwrap_or_else(|| panic!("{tag:?} did not finish: {:?}", self.client.seen))?;
        let content = self.client.contents.get(&tag).cloned().unwrap_or_default();
        assert_eq!(finished.bytes, content.len() as u64);
        Ok(content)
    }
}

impl Server {
    fn turn(&mut self, network: &mut Network) -> bool {
        let mut moved = false;
        if self.session.wants_input() && !network.to_server.is_empty() {
            // A few bytes at a time: sessions must accept lines divided anywhere.
            let length = network.to_server.len().min(100);
            let bytes: Vec<u8> = network.to_server.drain(..length).collect();
            self.session.handle(Time::ZERO, Input::Received(bytes.into()));
            moved = true;
        }
        loop {
            match self.session.poll(Time::ZERO) {
                Output::Send(bytes) => network.to_client.extend_from_slice(&bytes),
                Output::Event(todo) => self.execute(todo, network),
                Output::Wait(_) => break,
            }
            moved = true;
        }
        moved | self.receive(network) | self.pump(network)
    }

    fn done(&mut self, job: JobId, outcome: Result<Outcome, Failure>) {
        self.session.handle(Time::ZERO, Input::Done { job, outcome });
    }

    fn execute(&mut self, todo: Do, network: &mut Network) {
        match todo {
            Do::Authenticate { user, password } => {
                let result = self.store.authenticate(&user, &password);
                let result = if result { Ok(()) } else { Err(server::LoginError::Refused) };
                self.session.handle(Time::ZERO, Input::Authenticated(result));
            }
            Do::LogOut | Do::StartTls | Do::Admit { .. } | Do::NoteUnprotected { .. } => {}
            Do::Listen { job } => {
                self.listening += 1;
                let address = format!("127.0.0.1:{}", self.listening).parse().unwrap();
                self.done(job, Ok(Outcome::Listening(address)));
            }
            Do::Query { job, path, query } => {
                let outcome = self.store.query(&path, query);
                self.done(job, outcome);
            }
            Do::Change { job, change } => {
                let outcome = self.store.change(change);
                self.done(job, outcome);
            }
            Do::Send { job, data, source } => {
                let (bytes, failure) = match self.store.source(&source) {
                    Ok(found) => found,
                    Err(failure) => return self.done(job, Err(failure)),
                };
                let size = Some(bytes.len() as u64);
                self.session.handle(Time::ZERO, Input::Started { job, size, name: None });
                let outcome = Outcome::Sent { bytes: bytes.len() as u64 };
                match data {
                    DataPath::TcpPassive => {
                        network.connections.insert(self.listening, Connection { bytes, ended: true });
                    }
                    DataPath::Association { port } => {
                        network.connections.insert(port, Connection { bytes, ended: true });
                    }
                    DataPath::TcpActive(_) => panic!("nobody asked for that"),
                    DataPath::Stream1 => {
                        let listing = matches!(source, server::Source::Listing { .. });
                        if listing {
                            let bytes = if bytes.is_empty() { b"\r\n".to_vec() } else { bytes };
                            network.down.push_back((ppid::PLAIN, bytes));
                        } else {
                            network.down.extend(bytes.chunks(700).map(|part| (ppid::PLAIN, part.to_vec())));
                        }
                    }
                    DataPath::Framed { transfer } => {
                        self.downloads.push_back(Download { transfer, job, sent: 0, bytes, stream: None });
                        return;
                    }
                }
                self.done(job, failure.map_or(Ok(outcome), Err));
            }
            Do::Receive { job, data, sink } => match self.store.open(&sink) {
                Ok(path) => {
                    let name = (sink.write == Write::Unique).then(|| path.clone());
                    self.session.handle(Time::ZERO, Input::Started { job, size: None, name });
                    let port = match data {
                        DataPath::Association { port } => port,
                        _ => self.listening,
                    };
                    self.receiving.push(Incomplete { job, sink, path, data, port });
                }
                Err(failure) => self.done(job, Err(failure)),
            },
            Do::Cancel { job } => {
                self.receiving.retain(|incomplete| incomplete.job != job);
                self.downloads.retain(|download| download.job != job);
                self.done(job, Err(Failure::Cancelled));
            }
            Do::Close => self.closed = true,
        }
    }

    /// Processes the uploads whose bytes have arrived.
    fn receive(&mut self, network: &mut Network) -> bool {
        self.read_streams(network);
        let complete = self.receiving.iter().position(|incomplete| match incomplete.data {
            DataPath::Stream1 => {
                let there: usize = network.up.iter().map(|(_, bytes)| bytes.len()).sum();
                there as u64 >= incomplete.sink.length.unwrap()
            }
            DataPath::Framed { transfer } => {
                self.uploads.contains_key(&transfer)
                    && !self.receivers.values().any(|r| r.transfer() == Some(transfer))
            }
            _ => network.connections.get(&incomplete.port).is_some_and(|connection| connection.ended),
        });
        let Some(at) = complete else { return false };
        let Incomplete { job, sink, path, data, port } = self.receiving.remove(at);
        let bytes = match data {
            DataPath::Stream1 => {
                let mut all: Vec<u8> = network.up.drain(..).flat_map(|(_, bytes)| bytes).collect();
                let rest = all.split_off(usize::try_from(sink.length.unwrap()).unwrap());
                if !rest.is_empty() {
                    network.up.push_back((ppid::PLAIN, rest));
                }
                all
            }
            DataPath::Framed { transfer } => self.uploads.remove(&transfer).unwrap(),
            _ => network.connections.remove(&port).unwrap().bytes,
        };
        self.store.finish(&path, sink.write, &bytes);
        let name = (sink.write == Write::Unique).then_some(path);
        self.done(job, Ok(Outcome::Received { bytes: bytes.len() as u64, name }));
        true
    }

    /// braid: reads the data streams, as far as the session has decided on their transfers.
    fn read_streams(&mut self, network: &mut Network) {
        for (stream, messages) in &mut network.streams_up {
            let receiver = self.receivers.get_mut(stream).unwrap();
            while let Some((kind, payload)) = messages.front() {
                let transfer = match *kind {
                    ppid::WHOLE | ppid::FIRST => Header::decode(payload).unwrap().unwrap().0.transfer,
                    _ => receiver.transfer().unwrap(),
                };
                let upload = self.session.upload(transfer);
                if upload == Upload::Undecided {
                    break;
                }
                let (kind, payload) = messages.pop_front().unwrap();
                receiver.handle(Piece { ppid: kind, payload: payload.into(), end: End::Last }).unwrap();
                while let Some(incoming) = receiver.poll().unwrap() {
                    match incoming {
                        Incoming::Header(header) if matches!(upload, Upload::Open(_)) => {
                            self.uploads.insert(header.transfer, Vec::new());
                        }
                        Incoming::Header(_) => {}
                        Incoming::Bytes(part) => {
                            if let Some(bytes) = self.uploads.get_mut(&transfer) {
                                bytes.extend_from_slice(&part);
                            }
                            receiver.consume(part.len() as u64);
                            network.credit_up.extend(self.pool.grant(receiver));
                        }
                        Incoming::Complete(found) => {
                            if let Some(bytes) = self.uploads.get(&transfer) {
                                assert_eq!(found, digest(bytes));
                            }
                        }
                        Incoming::Broken(status) => panic!("{status}"),
                    }
                }
            }
        }
    }

    /// braid: continues downloads as far as credit permits.
    fn pump(&mut self, network: &mut Network) -> bool {
        for credit in network.credit_down.drain(..) {
            self.senders[usize::from(credit.stream) - 1].on_credit(credit).unwrap();
        }
        let mut moved = false;
        for sender in &mut self.senders {
            let stream = sender.stream();
            let messages = network.streams_down.entry(stream).or_default();
            // The transfer for which the stream is open, otherwise the next one that has not begun.
            let wanted = sender.transfer().map(|_| stream);
            let Some(at) = self.downloads.iter().position(|download| download.stream == wanted) else {
                continue;
            };
            let download = &mut self.downloads[at];
            if download.stream.is_none() {
                download.stream = Some(stream);
                let header = Header { transfer: download.transfer, offset: 0, size: None, modified: None };
                sender.begin(header);
            }
            let room = usize::try_from(sender.room()).unwrap().min(5000);
            let end = (download.sent + room).min(download.bytes.len());
            let part = Bytes::copy_from_slice(&download.bytes[download.sent..end]);
            let ends = end == download.bytes.len();
            let then = if ends { Then::Complete(digest(&download.bytes)) } else { Then::More };
            let Some(frame) = sender.frame(part, then) else { continue };
            messages.push_back((frame.ppid, frame.payload.to_vec()));
            sender.on_sent(&frame);
            download.sent = end;
            moved = true;
            if ends {
                let outcome = Outcome::Sent { bytes: download.sent as u64 };
                let job = download.job;
                self.downloads.remove(at);
                self.session.handle(Time::ZERO, Input::Done { job, outcome: Ok(outcome) });
            }
        }
        moved
    }
}

impl Client {
    fn turn(&mut self, network: &mut Network) -> bool {
        let mut moved = false;
        if !network.to_client.is_empty() {
            let length = network.to_client.len().min(37);
            let bytes: Vec<u8> = network.to_client.drain(..length).collect();
            self.session.handle(client::Input::Received(bytes.into()));
            moved = true;
        }
        loop {
            match self.session.poll(Time::ZERO) {
                Output::Send(bytes) => network.to_server.extend_from_slice(&bytes),
                Output::Event(event) => self.event(event, network),
                Output::Wait(_) => break,
            }
            moved = true;
        }
        moved | self.read(network) | self.write(network)
    }

    fn event(&mut self, event: Event, network: &mut Network) {
        match &event {
            Event::Connect(tag, port) => {
                self.ports.insert(*tag, *port);
                self.session.handle(client::Input::Connected(*tag));
            }
            Event::Listen(tag) => {
                let port = FIRST_PORT + u16::try_from(self.ports.len()).unwrap();
                self.ports.insert(*tag, port);
                let address = format!("127.0.0.1:{port}").parse().unwrap();
                self.session.handle(client::Input::Listening(*tag, address));
            }
            Event::Receive(tag, Data::Framed(transfer)) => {
                self.framed.insert(*transfer, (*tag, Vec::new()));
            }
            Event::Receive(tag, data) => self.receiving.push_back((*tag, *data)),
            Event::Send(tag, data) => {
                let bytes = self.contents[tag].clone();
                match data {
                    Data::Connection | Data::Association => {
                        let connection = Connection { bytes: bytes.clone(), ended: true };
                        network.connections.insert(self.ports[tag], connection);
                    }
                    Data::Counted(length) => {
                        assert_eq!(*length, bytes.len() as u64);
                        network.up.extend(bytes.chunks(900).map(|part| (ppid::PLAIN, part.to_vec())));
                    }
                    Data::Framed(transfer) => return self.sending.push_back((*tag, *transfer, 0)),
                    Data::Message => panic!("a listing is not sent by a client"),
                }
                self.session.handle(client::Input::DataDone(*tag, DataResult::Complete(bytes.len() as u64)));
            }
            Event::Ended(ended) => panic!("{ended:?}"),
            _ => {}
        }
        self.seen.push(event);
    }

    fn read(&mut self, network: &mut Network) -> bool {
        let mut moved = self.read_streams(network);
        while let Some((tag, data)) = self.receiving.front().copied() {
            let content = match data {
                Data::Connection | Data::Association => match network.connections.remove(&self.ports[&tag]) {
                    Some(connection) => connection.bytes,
                    None => break,
                },
                Data::Counted(length) => {
                    let there: usize = network.down.iter().map(|(_, bytes)| bytes.len()).sum();
                    let length = usize::try_from(length).unwrap();
                    if there < length {
                        break;
                    }
                    let mut content = Vec::new();
                    while content.len() < length {
                        content.extend(network.down.pop_front().unwrap().1);
                    }
                    assert_eq!(content.len(), length, "a file ends with its last message");
                    content
                }
                Data::Message => match network.down.pop_front() {
                    Some((_, bytes)) => bytes,
                    None => break,
                },
                Data::Framed(_) => panic!("frames are elsewhere"),
            };
            self.receiving.pop_front();
            let result = DataResult::Complete(content.len() as u64);
            self.contents.insert(tag, content);
            self.session.handle(client::Input::DataDone(tag, result));
            moved = true;
        }
        moved
    }

    fn read_streams(&mut self, network: &mut Network) -> bool {
        let mut moved = false;
        for (stream, messages) in &mut network.streams_down {
            let receiver = self.receivers.get_mut(stream).unwrap();
            let Some((kind, payload)) = messages.pop_front() else { continue };
            moved = true;
            receiver.handle(Piece { ppid: kind, payload: payload.into(), end: End::Last }).unwrap();
            let mut open = receiver.transfer();
            while let Some(incoming) = receiver.poll().unwrap() {
                match incoming {
                    Incoming::Header(header) => open = Some(header.transfer),
                    Incoming::Bytes(part) => {
                        self.framed.get_mut(&open.unwrap()).unwrap().1.extend_from_slice(&part);
                        receiver.consume(part.len() as u64);
                        network.credit_down.extend(self.pool.grant(receiver));
                    }
                    Incoming::Complete(found) => {
                        let (tag, content) = self.framed.remove(&open.unwrap()).unwrap();
                        assert_eq!(found, digest(&content));
                        let result = DataResult::Complete(content.len() as u64);
                        self.contents.insert(tag, content);
                        self.session.handle(client::Input::DataDone(tag, result));
                    }
                    Incoming::Broken(status) => panic!("{status}"),
                }
            }
        }
        moved
    }

    fn write(&mut self, network: &mut Network) -> bool {
        for credit in network.credit_up.drain(..) {
            self.sender.on_credit(credit).unwrap();
        }
        let Some((tag, transfer, sent)) = self.sending.front_mut() else { return false };
        let stream = network.streams_up.entry(1).or_default();
        let bytes = &self.contents[tag];
        if self.sender.transfer().is_none() {
            let header = Header { transfer: *transfer, offset: 0, size: None, modified: None };
            self.sender.begin(header);
        }
        let room = usize::try_from(self.sender.room()).unwrap().min(60_000);
        let part = Bytes::copy_from_slice(&bytes[*sent..(*sent + room).min(bytes.len())]);
        let ends = *sent + part.len() == bytes.len();
        let then = if ends { Then::Complete(digest(bytes)) } else { Then::More };
        *sent += part.len();
        let Some(frame) = self.sender.frame(part, then) else { return false };
        stream.push_back((frame.ppid, frame.payload.to_vec()));
        self.sender.on_sent(&frame);
        if ends {
            let (tag, result) = (*tag, DataResult::Complete(bytes.len() as u64));
            self.sending.pop_front();
            self.session.handle(client::Input::DataDone(tag, result));
        }
        true
    }
}

fn modes_and_pipelining() -> Vec<(Mode, Pipelining)> {
    let mut ways: Vec<_> = Mode::ALL.into_iter().map(|mode| (mode, Pipelining::LockStep)).collect();
    ways.extend([(Mode::Tcp, Pipelining::Metadata), (Mode::Tcp, Pipelining::Deep)]);
    ways
}

fn content(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn many_files_are_transferred_both_ways_in_every_mode() {
    for (mode, pipelining) in modes_and_pipelining() {
        let mut store = MemoryStore::new();
        let sizes = [0, 1, 1000, 70_000, 5, 600_000, 0, 12];
        let names: Vec<String> = (0..40).map(|at| format!("/dir {at}/\u{e9}\u{7f} {at}")).collect();
        for (at, name) in names.iter().enumerate() {
            store.file(name, &content(at as u8, sizes[at % sizes.len()]));
        }
        let mut pair = Pair::new(mode, pipelining, store.clone());
        let gets: Vec<_> = names.iter().map(|name| pair.get(name, 0)).collect();
        let puts: Vec<_> = (0..20_u8)
            .map(|at| pair.put(&format!("/up {at}"), &content(at, sizes[usize::from(at) % 8])))
            .collect();
        pair.run();
        for (at, tag) in gets.into_iter().enumerate() {
            assert_eq!(pair.finished(tag).as_deref(), Ok(store.read(&names[at]).unwrap()), "{mode} {at}");
        }
        for (at, tag) in puts.into_iter().enumerate() {
            let sent = pair.finished(tag).unwrap();
            assert_eq!(pair.server.store.read(&format!("/up {at}")), Some(&sent[..]), "{mode} {at}");
        }
        assert_eq!(pair.client.session.outstanding(), 0);
    }
}

#[test]
fn refused_transfers_do_not_disturb_others() {
    for (mode, pipelining) in modes_and_pipelining() {
        let mut pair = Pair::new(mode, pipelining, MemoryStore::with(&[("/a", b"aaa"), ("/b", b"")]));
        let missing = pair.get("/missing", 0);
        let a = pair.get("/a", 0);
        let denied = pair.put("/forbidden/x", &content(1, 400_000));
        let up = pair.put("/x", &content(2, 400_000));
        let beyond = pair.get("/a", 4);
        let tail = pair.get("/a", 2);
        let b = pair.get("/b", 0);
        pair.run();
        for (tag, code) in
            [(missing, Code::FILE_UNAVAILABLE), (denied, Code::FILE_UNAVAILABLE), (beyond, Code::BAD_RESTART)]
        {
            let error = pair.finished(tag).unwrap_err();
            assert_eq!(error.code(), Some(code), "{mode} {error}");
        }
        assert_eq!(pair.finished(a).unwrap(), b"aaa", "{mode}");
        assert_eq!(pair.finished(tail).unwrap(), b"a", "{mode}");
        assert_eq!(pair.finished(b).unwrap(), b"", "{mode}");
        assert_eq!(pair.finished(up).unwrap().len(), 400_000, "{mode}");
        assert_eq!(pair.server.store.read("/x").unwrap().len(), 400_000);
    }
}

#[test]
fn listings_are_complete_in_every_mode() {
    for (mode, pipelining) in modes_and_pipelining() {
        let mut pair = Pair::new(mode, pipelining, MemoryStore::with(&[("/d/a", b"aaa"), ("/d/b/c", b"")]));
        pair.server.store.change(server::Change::MakeDirectory(path("/empty"))).unwrap();
        let names = pair.list(ListForm::Names, "/d");
        let empty = pair.list(ListForm::Facts, "/empty");
        let facts = pair.list(ListForm::Facts, "/d");
        let file = pair.list(ListForm::Facts, "/d/a");
        let a = pair.get("/d/a", 0);
        let tree = (!matches!(mode, Mode::Ms | Mode::MsCp)).then(|| pair.list(ListForm::Tree, "/d"));
        pair.run();
        assert_eq!(pair.finished(names).unwrap(), b"a\r\nb\r\n", "{mode}");
        assert!(matches!(&pair.finished(empty).unwrap()[..], b"" | b"\r\n"), "{mode}");
        assert_eq!(pair.finished(facts).unwrap().split(|byte| *byte == b'\n').count(), 3, "{mode}");
        assert_eq!(pair.finished(file).unwrap_err().code(), Some(Code::BAD_PARAMETER), "{mode}");
        assert_eq!(pair.finished(a).unwrap(), b"aaa");
        if let Some(tree) = tree {
            let tree = String::from_utf8(pair.finished(tree).unwrap()).unwrap();
            let paths: Vec<_> = tree.lines().map(|line| line.split_once(' ').unwrap().1).collect();
            assert_eq!(paths, [".", "a", "b", "b/c"], "{mode}");
        }
    }
}

#[test]
fn ms_pads_a_file_that_was_truncated_after_size() {
    for mode in [Mode::Ms, Mode::MsCp] {
        let mut pair =
            Pair::new(mode, Pipelining::LockStep, MemoryStore::with(&[("/a", b"0123456789"), ("/b", b"bb")]));
        let a = pair.get("/a", 0);
        let b = pair.get("/b", 0);
        // Until SIZE was answered.
        while !pair.network.to_client.windows(6).any(|w| w == b"213 10") {
            pair.server.turn(&mut pair.network);
            if !pair.network.to_client.windows(6).any(|w| w == b"213 10") {
                pair.client.turn(&mut pair.network);
            }
        }
        pair.server.store.file("/a", b"0123");
        pair.run();
        assert_eq!(pair.finished(a).unwrap_err().code(), Some(Code::LOCAL_ERROR), "{mode}");
        assert_eq!(pair.finished(b).unwrap(), b"bb", "{mode}");
    }
}
