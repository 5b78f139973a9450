//! A hostile server: endless files, listings and trees, over TCP and in every mode over SCTP. Listings and
//! trees do end, far beyond the limits of clients, so that a client without limits fails its test instead of
//! running for ever.
#![allow(dead_code, unreachable_pub, reason = "each test program uses part of it")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use braidftp::packed::{Follows, Packer};
use braidftp_ftp::Mode;
use braidftp_ftp::mapping::frame::{Credit, Header, INITIAL_CREDIT, truncated};
use braidftp_ftp::mapping::{CONTROL_PORT, DATA_PORT, TransferNumber, ppid};
use braidftp_net::sctp::Profile;
use braidftp_net::{Association, Bind, Connect, Endpoint, Message, Ppid, StreamId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// The depth of folders, with [`Tree::Deep`].
const LEVELS: usize = 1_000;
/// The bytes of a listing, with [`Tree::Blank`].
const BLANK_BYTES: usize = 64 << 20;
/// The lines of a listing, with [`Tree::Endless`].
const LINES_MAX: u64 = 20_000_000;

/// The behaviour of the server.
#[derive(Debug, Clone, Copy)]
pub struct Says {
    pub file: File,
    pub tree: Tree,
    /// TCP: sent first, repeated endlessly.
    pub greeting_again_and_again: Option<&'static str>,
    /// TCP: the control connection ends after the first listing of a session.
    pub hangs_up_after_a_listing: bool,
}

impl Default for Says {
    fn default() -> Self {
        Self {
            file: File::Honest,
            tree: Tree::One,
            greeting_again_and_again: None,
            hangs_up_after_a_listing: false,
        }
    }
}

/// The content of a file.
#[derive(Debug, Clone, Copy)]
pub enum File {
    /// Five bytes.
    Honest,
    /// It never ends; the reported size is `told`. In ms, whose files are counted, SIZE reports it.
    Endless { told: Option<u64> },
    /// It never ends; the listing reports one size, and the header of braid another.
    Grown { told: u64, header: u64 },
}

/// The tree.
#[derive(Debug, Clone, Copy)]
pub enum Tree {
    /// The file `a`.
    One,
    /// Endless files.
    Endless,
    /// Endless empty lines.
    Blank,
    /// Folders whose paths have the maximum length.
    LongNames,
    /// An endless chain of folders.
    Deep,
    /// Two folders in each.
    Wide,
    /// A folder `d`, which contains the root.
    Cycle,
    /// This many invalid lines, all different.
    Nonsense(u64),
}

impl Says {
    fn told(&self) -> Option<u64> {
        match self.file {
            File::Honest => Some(5),
            File::Endless { told } => told,
            File::Grown { told, .. } => Some(told),
        }
    }

    fn facts(&self) -> String {
        match self.told() {
            Some(size) => format!("type=file;size={size};modify=20200101000000;"),
            None => "type=file;".into(),
        }
    }

    fn content(&self) -> Source {
        match self.file {
            File::Honest => Box::new(std::iter::once(b"hello".to_vec())),
            File::Endless { .. } | File::Grown { .. } => {
                Box::new(std::iter::repeat_with(|| vec![7; 16 << 10]))
            }
        }
    }

    fn listing(&self, folder: &str, form: Form) -> Source {
        let facts = self.facts();
        let line = |text: String| format!("{text}\r\n").into_bytes();
        let lines = |lines: &[&str]| -> Source {
            Box::new(std::iter::once(
                lines.iter().map(|line| format!("{line}\r\n")).collect::<String>().into(),
            ))
        };
        match (self.tree, form) {
            (Tree::One, _) => Box::new(std::iter::once(line(format!("{facts} a")))),
            // In pieces of some size.
            (Tree::Endless, _) => Box::new((0..LINES_MAX / 100).map(move |nth| {
                let lines = (0..100).map(|more| format!("{facts} {nth}-{more}\r\n"));
                lines.collect::<String>().into_bytes()
            })),
            (Tree::Deep, Form::Folder) if folder.matches('/').count() >= LEVELS => lines(&[]),
            (Tree::Deep, Form::Folder) => lines(&["type=dir; d"]),
            (Tree::Deep, Form::Tree) => {
                Box::new((0..1_500).map(move |depth| line(format!("type=dir; {}d", "d/".repeat(depth)))))
            }
            (Tree::Blank, _) => {
                let blank = b"\r\n".repeat(2_000);
                let count = BLANK_BYTES / blank.len();
                Box::new(std::iter::repeat_n(blank, count))
            }
            // Fourteen levels with one folder each, then many.
            (Tree::LongNames, _) => {
                let count = if folder.matches('/').count() < 14 { 1 } else { 500_000 };
                Box::new((0..count).map(move |nth| line(format!("type=dir; {nth:0250}"))))
            }
            (Tree::Wide, _) => lines(&["type=dir; l", "type=dir; r"]),
            (Tree::Cycle, _) if folder.is_empty() => {
                lines(&["type=cdir;unique=1g1; .", "type=dir;unique=1g2; d"])
            }
            (Tree::Cycle, _) => lines(&["type=cdir;unique=1g2; .", "type=dir;unique=1g1; loop"]),
            (Tree::Nonsense(count), _) => {
                static NEXT: AtomicU64 = AtomicU64::new(0);
                Box::new((0..count).map(move |_| line(format!("nonsense {}", NEXT.fetch_add(1, Relaxed)))))
            }
        }
    }
}

type Source = Box<dyn Iterator<Item = Vec<u8>> + Send>;

#[derive(Debug, Clone, Copy)]
enum Form {
    Folder,
    Tree,
}

/// What was sent.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    listed: AtomicU64,
    listings: AtomicU64,
}

impl Counts {
    fn add(&self, kind: Kind, bytes: usize) {
        let count = if kind == Kind::File { &self.sent } else { &self.listed };
        count.fetch_add(bytes as u64, Relaxed);
    }
}

/// A server that runs until it is dropped.
pub struct Endless {
    url: String,
    counts: Arc<Counts>,
    runtime: Option<tokio::runtime::Runtime>,
}

impl Endless {
    pub fn url(&self) -> String {
        self.url.clone()
    }

    /// Data bytes that the client, or the network in between, has accepted.
    pub fn sent(&self) -> u64 {
        self.counts.sent.load(Relaxed)
    }

    /// Listing bytes that were accepted.
    pub fn listed(&self) -> u64 {
        self.counts.listed.load(Relaxed)
    }

    /// The number of requested listings.
    pub fn listings(&self) -> u64 {
        self.counts.listings.load(Relaxed)
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Serves in a mode.
pub fn serve(mode: &str, says: Says) -> Endless {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let counts = Arc::new(Counts::default());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let url = runtime.block_on(async {
        if mode == "tcp" {
            let listener = TcpListener::bind(any).await.unwrap();
            let url = format!("ftp://{}/", listener.local_addr().unwrap());
            let counts = counts.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(tcp(stream, says, counts.clone()));
                }
            });
            return url;
        }
        let endpoint = Endpoint::bind(Bind::to([any])).unwrap();
        let url = format!("ftp+sctp://{}/", endpoint.local_addrs()[0]);
        let config = Profile::Modern.config().with(|c| {
            c.streams.inbound = 65;
            c.streams.outbound = 65;
            c.messages.max_bytes = 32 << 20;
        });
        let listener = endpoint.listen(CONTROL_PORT, Arc::new(config)).unwrap();
        let counts = counts.clone();
        tokio::spawn(async move {
            while let Some(association) = listener.accept().await {
                tokio::spawn(sctp(endpoint.clone(), association, says, counts.clone()));
            }
        });
        url
    });
    Endless { url, counts, runtime: Some(runtime) }
}

/// The action for a command.
enum Act {
    Reply(String),
    Data(Kind, Source),
    Quit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Listing,
}

/// `is_counted`: the mode counts the bytes of a file, by the reply to SIZE.
fn act(line: &str, says: &Says, counts: &Counts, is_counted: bool) -> Act {
    let (verb, argument) = line.split_once(' ').unwrap_or((line, ""));
    let reply = |text: &str| Act::Reply(format!("{text}\r\n"));
    match verb {
        "USER" => reply("331 password"),
        "PASS" => reply("230 in"),
        "FEAT" => {
            reply("211-Features:\r\n MLST type*;size*;modify*;unique*;\r\n REST STREAM\r\n XTREE\r\n211 End")
        }
        "EPRT" => reply("200 ok"),
        "MLSD" | "XTREE" => {
            counts.listings.fetch_add(1, Relaxed);
            let form = if verb == "XTREE" { Form::Tree } else { Form::Folder };
            Act::Data(Kind::Listing, says.listing(argument, form))
        }
        "RETR" if argument.is_empty() => reply("501 which file?"),
        "RETR" => Act::Data(Kind::File, says.content()),
        // In a tree, `a` is a folder.
        "MLST" => match says.tree {
            Tree::One => Act::Reply(format!("250-facts\r\n {} a\r\n250 end\r\n", says.facts())),
            _ => reply("250-facts\r\n type=dir; a\r\n250 end"),
        },
        "SIZE" => match (says.file, is_counted, says.told()) {
            (File::Honest, ..) => reply("213 5"),
            (_, true, _) => Act::Reply(format!("213 {}\r\n", 1_u64 << 50)),
            (_, false, Some(told)) => Act::Reply(format!("213 {told}\r\n")),
            (_, false, None) => reply("500 what?"),
        },
        "MDTM" => reply(if says.told().is_some() { "213 20200101000000" } else { "500 what?" }),
        "DELE" | "RMD" => reply("250 gone"),
        "QUIT" => Act::Quit,
        _ => reply("200 ok"),
    }
}

/// Complete lines, as they arrive.
#[derive(Default)]
struct Lines(Vec<u8>);

impl Lines {
    fn next(&mut self) -> Option<String> {
        let end = self.0.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.0.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }
}

async fn tcp(mut stream: TcpStream, says: Says, counts: Arc<Counts>) -> std::io::Result<()> {
    if let Some(text) = says.greeting_again_and_again {
        loop {
            stream.write_all(text.as_bytes()).await?;
            counts.sent.fetch_add(text.len() as u64, Relaxed);
        }
    }
    stream.write_all(b"220 here\r\n").await?;
    let mut lines = Lines::default();
    let mut passive: Option<TcpListener> = None;
    loop {
        let Some(line) = lines.next() else {
            if stream.read_buf(&mut lines.0).await? == 0 {
                return Ok(());
            }
            continue;
        };
        if line == "EPSV" {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let reply = format!("229 here (|||{}|)\r\n", listener.local_addr()?.port());
            passive = Some(listener);
            stream.write_all(reply.as_bytes()).await?;
            continue;
        }
        match act(&line, &says, &counts, false) {
            Act::Reply(text) => stream.write_all(text.as_bytes()).await?,
            Act::Data(kind, source) => {
                stream.write_all(b"150 here it comes\r\n").await?;
                let (mut to, _) = passive.take().unwrap().accept().await?;
                let mut done = "226 done\r\n";
                for part in source {
                    if to.write_all(&part).await.is_err() {
                        done = "426 as you like\r\n";
                        break;
                    }
                    counts.add(kind, part.len());
                }
                drop(to);
                stream.write_all(done.as_bytes()).await?;
                if kind == Kind::Listing && says.hangs_up_after_a_listing {
                    return Ok(());
                }
            }
            Act::Quit => return stream.write_all(b"221 bye\r\n").await,
        }
    }
}

/// An association with a client in any mode.
struct Session {
    endpoint: Endpoint,
    association: Association,
    mode: Mode,
    says: Says,
    counts: Arc<Counts>,
    /// braid: the total credit of stream 1.
    credit: watch::Receiver<u64>,
    /// braid: the credit used so far.
    used: u64,
    transfers: u32,
    /// naive: the client's port.
    port: u16,
}

async fn sctp(endpoint: Endpoint, association: Association, says: Says, counts: Arc<Counts>) {
    let Ok(up) = association.up().await else { return };
    let mode = Mode::of_streams(up.inbound_streams);
    let (credited, credit) = watch::channel(INITIAL_CREDIT);
    let (lines, mut commands) = mpsc::unbounded_channel();
    let from = association.clone();
    tokio::spawn(async move {
        let mut whole = Lines::default();
        let mut limits = BTreeMap::new();
        while let Ok(Some(piece)) = from.recv(StreamId(0)).await {
            let payload = piece.payload.concat();
            if piece.ppid.0 == ppid::CREDIT {
                if let Ok(Credit { stream, limit }) = Credit::decode(&payload) {
                    limits.insert(stream, limit);
                    credited.send_replace(limits.get(&1).copied().unwrap_or(INITIAL_CREDIT));
                }
                continue;
            }
            whole.0.extend(payload);
            while let Some(line) = whole.next() {
                let _ = lines.send(line);
            }
        }
    });
    let mut session =
        Session { endpoint, association, mode, says, counts, credit, used: 0, transfers: 0, port: 0 };
    session.say("220 here\r\n").await;
    while let Some(line) = commands.recv().await {
        if let Some(address) = line.strip_prefix("EPRT ") {
            session.port = address.split('|').nth(3).and_then(|port| port.parse().ok()).unwrap_or(0);
        }
        match act(&line, &says, &session.counts.clone(), matches!(mode, Mode::Ms | Mode::MsCp)) {
            Act::Reply(text) => {
                // A refused transfer is numbered, too.
                session.transfers += u32::from(line == "RETR");
                session.say(&text).await;
            }
            Act::Quit => {
                session.say("221 bye\r\n").await;
                session.association.start_shutdown();
            }
            Act::Data(kind, source) => session.data(kind, source).await,
        }
    }
}

impl Session {
    async fn say(&self, text: &str) {
        let kind = if self.mode == Mode::Braid { ppid::LINES } else { ppid::PLAIN };
        self.send(0, kind, text.as_bytes().to_vec()).await;
    }

    /// Sends a message; returns whether the client's side accepted it.
    async fn send(&self, stream: u16, kind: u32, payload: Vec<u8>) -> bool {
        self.association.send(StreamId(stream), Message::new(Ppid(kind), payload)).await.is_ok()
    }

    fn count(&self, kind: Kind, bytes: usize) {
        self.counts.add(kind, bytes);
    }

    async fn data(&mut self, kind: Kind, source: Source) {
        match self.mode {
            Mode::Braid => self.framed(kind, source).await,
            Mode::Naive => self.associated(kind, source).await,
            _ => {
                self.say("150 here it comes\r\n").await;
                // One message, longer than any client accepts.
                let listed = || {
                    let mut whole = Vec::new();
                    source
                        .take_while(|part| {
                            whole.extend(part);
                            whole.len() < 17 << 20
                        })
                        .for_each(drop);
                    whole
                };
                let whole = if kind == Kind::Listing { listed() } else { Vec::new() };
                let source: Source = match kind {
                    Kind::Listing => Box::new(std::iter::once(whole)),
                    Kind::File => self.says.content(),
                };
                for part in source {
                    self.count(kind, part.len());
                    if !self.send(1, ppid::PLAIN, part).await {
                        return;
                    }
                }
                self.say("226 done\r\n").await;
            }
        }
    }

    async fn framed(&mut self, kind: Kind, source: Source) {
        self.transfers += 1;
        let transfer = TransferNumber(self.transfers);
        let size = match (kind, self.says.file) {
            (Kind::Listing, _) => None,
            (Kind::File, File::Grown { header, .. }) => Some(header),
            (Kind::File, _) => self.says.told(),
        };
        let header = Header { transfer, offset: 0, size, modified: None };
        if !self.send(1, ppid::FIRST, header.encode().to_vec()).await {
            return;
        }
        let (mut hasher, mut packer) = (blake3::Hasher::new(), Packer::default());
        // An empty part ends the listing.
        for part in source.chain([Vec::new()]) {
            let follows = if part.is_empty() { Follows::Nothing } else { Follows::More };
            let part = if kind == Kind::Listing { packer.pack(&part, follows).to_vec() } else { part };
            for part in part.chunks(16 << 10) {
                self.used += part.len() as u64;
                let used = self.used;
                // Credit is respected: a violation would be detected at once.
                if self.credit.wait_for(|limit| *limit >= used).await.is_err() {
                    return;
                }
                hasher.update(part);
                self.count(kind, part.len());
                if !self.send(1, ppid::BYTES, part.to_vec()).await {
                    return;
                }
            }
        }
        self.send(1, ppid::LAST, truncated(hasher.finalize().as_bytes()).to_vec()).await;
        self.say("226 done\r\n").await;
    }

    async fn associated(&mut self, kind: Kind, source: Source) {
        self.say("150 here it comes\r\n").await;
        let connect = Connect {
            local: vec![],
            peer: self.association.peer_addr().into_iter().collect(),
            source_port: Some(DATA_PORT),
            destination_port: self.port,
            config: Arc::new(Profile::Modern.config().with(|c| {
                c.streams.outbound = 1;
                c.streams.inbound = 1;
            })),
        };
        let Ok(data) = self.endpoint.connect(connect) else { return self.say("425 no\r\n").await };
        if data.up().await.is_err() {
            return self.say("425 no\r\n").await;
        }
        for part in source {
            let length = part.len();
            if data.send(StreamId(0), Message::new(Ppid(ppid::PLAIN), part)).await.is_err() {
                return self.say("426 as you like\r\n").await;
            }
            self.count(kind, length);
        }
        data.shutdown().await;
        self.say("226 done\r\n").await;
    }
}
