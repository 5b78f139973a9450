//! The server over SCTP, frame by frame: braid, ms and naive, as specified in specs/ftp-over-sctp.md.

#[path = "../server_support/mod.rs"]
mod server_support;
mod vanished;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use braidftp::packed::Unpacker;
use braidftp::server::{Handle, Listen, Server, Settings};
use braidftp::store::fs::Root;
use braidftp::users::{Access, Users};
use braidftp_ftp::mapping::frame::{Credit, DIGEST_LENGTH, Header, INITIAL_CREDIT, truncated};
use braidftp_ftp::mapping::pool::CreditPool;
use braidftp_ftp::mapping::receiver::{End, Incoming, Piece as Frame, Receiver};
use braidftp_ftp::mapping::{CONTROL_PORT, TransferNumber, ppid};
use braidftp_ftp::stamp::Timestamp;
use braidftp_net::sctp::{Config, Profile};
use braidftp_net::{Association, Bind, Connect, Endpoint, Message, Order, Ppid, StreamId};
use bytes::Bytes;
use server_support::{Folder, pattern, quick};
use tokio::time::timeout;

/// A generous time limit for busy machines.
const SOON: Duration = Duration::from_secs(150);

/// A server of a folder, on a free UDP port.
struct Served {
    address: SocketAddr,
    endpoint: Endpoint,
    handle: Handle,
    running: tokio::task::JoinHandle<()>,
}

fn serve(root: Root) -> Served {
    serve_with(root, quick())
}

fn serve_with(root: Root, settings: Settings) -> Served {
    serve_users(root, Users::anonymous(Access::Writable), settings)
}

fn serve_users(root: Root, users: Users, settings: Settings) -> Served {
    let server = Server::builder(root)
        .users(users)
        .settings(settings)
        .listen(Listen::SctpUdp(vec![SocketAddr::from(([127, 0, 0, 1], 0))]))
        .bind()
        .unwrap();
    let [Listen::SctpUdp(addresses)] = &server.local_addrs()[..] else { panic!("one listener") };
    let (address, handle, endpoint) = (addresses[0], server.handle(), server.endpoints().remove(0));
    Served { address, endpoint, handle, running: tokio::spawn(server.run()) }
}

/// The client's end of an association.
struct Client {
    endpoint: Endpoint,
    association: Association,
    kind: u32,
    lines: Vec<u8>,
    /// The credit of each data stream, if more than the initial credit.
    credits: BTreeMap<u16, u64>,
}

impl Client {
    fn connect(served: &Served, streams: u16) -> Self {
        Self::connect_by(Self::endpoint(1), served, streams)
    }

    /// An endpoint at this loopback address.
    fn endpoint(host: u8) -> Endpoint {
        Endpoint::bind(Bind::to([SocketAddr::from(([127, 0, 0, host], 0))])).unwrap()
    }

    fn connect_by(endpoint: Endpoint, served: &Served, streams: u16) -> Self {
        Self::connect_with(endpoint, served, streams, Profile::Modern.config())
    }

    fn connect_with(endpoint: Endpoint, served: &Served, streams: u16, config: Config) -> Self {
        let config = config.with(|c| {
            c.streams.outbound = streams;
            c.streams.inbound = streams;
        });
        let connect = Connect {
            local: vec![],
            peer: vec![served.address],
            source_port: None,
            destination_port: CONTROL_PORT,
            config: Arc::new(config),
        };
        let association = endpoint.connect(connect).unwrap();
        let kind = if streams > 2 { ppid::LINES } else { ppid::PLAIN };
        Self { endpoint, association, kind, lines: Vec::new(), credits: BTreeMap::new() }
    }

    /// braid with this many data streams, logged in without waiting for any reply.
    async fn braid(served: &Served, data_streams: u16) -> Self {
        Self::connect(served, 1 + data_streams).log_in().await
    }

    async fn log_in(mut self) -> Self {
        self.say("USER anonymous\r\nPASS x@\r\nTYPE I").await;
        for code in ["220", "331", "230", "200"] {
            self.expect(code).await;
        }
        self
    }

    /// Whether the server has room for this session: it sends the greeting.
    async fn is_greeted(&self) -> bool {
        let first = timeout(SOON, self.association.recv(StreamId(0))).await.expect("a greeting in time");
        matches!(first, Ok(Some(_)))
    }

    async fn say(&mut self, lines: &str) {
        self.send(0, self.kind, format!("{lines}\r\n")).await;
    }

    async fn send(&self, stream: u16, kind: u32, payload: impl Into<Bytes>) {
        self.association.send(StreamId(stream), Message::new(Ppid(kind), payload)).await.unwrap();
    }

    async fn credit(&self, stream: u16, limit: u64) {
        let mut message = Message::new(Ppid(ppid::CREDIT), Credit { stream, limit }.encode());
        message.order = Order::Unordered;
        self.association.send(StreamId(0), message).await.unwrap();
    }

    /// Processes the next message of stream 0, a CREDIT or a part of lines.
    async fn take_in(&mut self) {
        let piece = timeout(SOON, self.association.recv(StreamId(0))).await.expect("a reply in time");
        let piece = piece.unwrap().expect("a reply, not the end");
        let payload = piece.payload.concat();
        if piece.ppid.0 == self.kind {
            self.lines.extend(payload);
        } else if piece.ppid.0 == ppid::CREDIT {
            let Credit { stream, limit } = Credit::decode(&payload).unwrap();
            let known = self.credits.entry(stream).or_default();
            *known = limit.max(*known);
        }
    }

    /// Waits until this many bytes may be sent on a stream, and returns the credit.
    async fn credited(&mut self, stream: u16, limit: u64) -> u64 {
        loop {
            match self.credits.get(&stream) {
                Some(known) if *known >= limit => return *known,
                _ => self.take_in().await,
            }
        }
    }

    /// The next line of stream 0; CREDITs are recorded.
    async fn reply(&mut self) -> String {
        loop {
            if let Some(end) = self.lines.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.lines.drain(..=end).collect();
                return String::from_utf8_lossy(&line).trim_end().to_owned();
            }
            self.take_in().await;
        }
    }

    async fn expect(&mut self, code: &str) -> String {
        let reply = self.reply().await;
        assert!(reply.starts_with(code), "expected {code}, got {reply}");
        reply
    }

    async fn ask(&mut self, line: &str, code: &str) -> String {
        self.say(line).await;
        self.expect(code).await
    }

    /// The next complete message of a data stream.
    async fn frame(&self, stream: u16) -> (u32, Bytes) {
        let mut all = Vec::new();
        loop {
            let piece =
                timeout(SOON, self.association.recv(StreamId(stream))).await.expect("a frame in time");
            let piece = piece.unwrap().expect("a frame, not the end");
            all.extend(piece.payload.concat());
            if piece.end {
                return (piece.ppid.0, all.into());
            }
        }
    }

    /// A complete download of a stream; `Err` is the status of a BREAK.
    async fn download(&self, stream: u16) -> (Header, Vec<u8>, Result<(), u16>) {
        let mut receiver = Receiver::new(stream);
        let (mut header, mut bytes) = (None, Vec::new());
        loop {
            for incoming in taken_apart(&mut receiver, self.frame(stream).await) {
                match incoming {
                    Incoming::Header(found) => header = Some(found),
                    Incoming::Bytes(part) => bytes.extend_from_slice(&part),
                    Incoming::Complete(digest) => {
                        assert_eq!(digest, truncated(blake3::hash(&bytes).as_bytes()));
                        return (header.unwrap(), bytes, Ok(()));
                    }
                    Incoming::Broken(status) => return (header.unwrap(), bytes, Err(status)),
                }
            }
        }
    }

    /// Begins an upload without content.
    async fn begin(&self, stream: u16, header: Header) {
        self.send(stream, ppid::FIRST, header.encode()).await;
    }

    /// Ends an upload, with a digest.
    async fn complete(&self, stream: u16, digest: [u8; DIGEST_LENGTH]) {
        self.send(stream, ppid::LAST, digest.to_vec()).await;
    }

    /// Sends a complete upload, within the initial credit.
    async fn upload(&self, stream: u16, header: Header, bytes: &[u8]) {
        self.upload_some(stream, header, bytes).await;
        self.complete(stream, digest(bytes)).await;
    }

    /// The same, without ending it.
    async fn upload_some(&self, stream: u16, header: Header, bytes: &[u8]) {
        self.begin(stream, header).await;
        for part in bytes.chunks(10_000) {
            self.send(stream, ppid::BYTES, part.to_vec()).await;
        }
    }

    /// Waits until the server aborts the association; returns the reason.
    async fn broken(&self) -> String {
        let reason = timeout(SOON, self.association.closed()).await.expect("the end in time");
        reason.to_string()
    }
}

/// The lines of a listing.
fn unpacked(packed: Vec<u8>) -> String {
    let mut unpacker = Unpacker::new(u64::MAX);
    unpacker.push(packed.into());
    let mut lines = Vec::new();
    while let Some(more) = unpacker.unpack().unwrap() {
        lines.extend_from_slice(&more);
    }
    assert!(unpacker.is_over());
    String::from_utf8(lines).unwrap()
}

fn digest(bytes: &[u8]) -> [u8; DIGEST_LENGTH] {
    truncated(blake3::hash(bytes).as_bytes())
}

/// The contents of a message of a data stream.
fn taken_apart(receiver: &mut Receiver, (ppid, payload): (u32, Bytes)) -> Vec<Incoming> {
    receiver.handle(Frame { ppid, payload, end: End::Last }).unwrap();
    std::iter::from_fn(|| receiver.poll().unwrap()).collect()
}

fn header(transfer: u32) -> Header {
    Header { transfer: TransferNumber(transfer), offset: 0, size: None, modified: None }
}

#[tokio::test(flavor = "multi_thread")]
async fn braid_serves_a_file_from_a_cold_start() {
    let folder = Folder::new();
    let bytes = pattern(100_000);
    folder.put("a", &bytes);
    let served = serve(folder.root());
    let mut client = Client::connect(&served, 5);
    // Before the association is established.
    client.say("USER anonymous\r\nPASS x@\r\nTYPE I\r\nRETR /a\r\nREST 99990\r\nRETR a\r\nRETR none").await;
    let stream = 1;
    let (header, got, end) = client.download(stream).await;
    assert_eq!((header.transfer.0, header.offset, header.size), (1, 0, Some(100_000)));
    let modified = std::fs::metadata(folder.path("a")).unwrap().modified().unwrap();
    let since = modified.duration_since(std::time::UNIX_EPOCH).unwrap();
    let stamp = Timestamp { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() };
    assert_eq!(header.modified, Some(stamp));
    assert!(got == bytes && end == Ok(()));
    let (header, got, _) = client.download(2).await;
    assert_eq!((header.transfer.0, header.offset), (2, 99_990));
    assert_eq!(got, bytes[99_990..]);
    for code in ["220", "331", "230", "200", "226", "350", "226", "550"] {
        client.expect(code).await;
    }
    client.ask("QUIT", "221").await;
    assert_eq!(client.broken().await, braidftp_net::Reason::Shutdown.to_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn braid_streams_many_small_files_in_the_order_of_their_headers() {
    let folder = Folder::new();
    for i in 0..300 {
        folder.put(format!("f{i}"), format!("file {i}").repeat(i));
    }
    let served = serve(folder.root());
    let client = Client::braid(&served, 4).await;
    let mut asking = Client {
        endpoint: client.endpoint.clone(),
        association: client.association.clone(),
        kind: client.kind,
        lines: Vec::new(),
        credits: BTreeMap::new(),
    };
    let all: Vec<String> = (0..300).map(|i| format!("RETR f{i}")).collect();
    asking.say(&all.join("\r\n")).await;
    let mut files = BTreeMap::new();
    let mut streams = [1, 2, 3, 4].map(|stream| (Receiver::new(stream), (0, Vec::new()), 0));
    let mut pool = CreditPool::new(4, 4 << 20);
    let mut replies = Vec::new();
    while files.len() < 300 || replies.len() < 300 {
        let (stream, piece) = timeout(SOON, client.association.recv_any()).await.unwrap().unwrap().unwrap();
        let payload = piece.payload.concat();
        if piece.ppid.0 == ppid::LINES {
            replies.extend(String::from_utf8(payload).unwrap().lines().map(str::to_owned));
            continue;
        }
        let (receiver, open, last_header) = &mut streams[usize::from(stream.0) - 1];
        assert!(piece.end, "messages are short");
        for incoming in taken_apart(receiver, (piece.ppid.0, payload.into())) {
            match incoming {
                Incoming::Header(header) => {
                    assert!(header.transfer.0 > *last_header, "ascending");
                    *last_header = header.transfer.0;
                    *open = (header.transfer.0, Vec::new());
                }
                Incoming::Bytes(bytes) => {
                    open.1.extend_from_slice(&bytes);
                    receiver.consume(bytes.len() as u64);
                    if let Some(credit) = pool.grant(receiver) {
                        client.credit(credit.stream, credit.limit).await;
                    }
                }
                Incoming::Complete(_) => drop(files.insert(open.0, std::mem::take(&mut open.1))),
                Incoming::Broken(status) => panic!("{status}"),
            }
        }
    }
    for (number, bytes) in files {
        let i = number as usize - 1;
        assert_eq!(bytes, format!("file {i}").repeat(i).into_bytes());
    }
    assert!(replies.iter().all(|reply| reply.starts_with("226")), "{replies:?}");
    assert!(streams.iter().all(|(_, _, last)| *last > 0), "every stream was used");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_several_blocks_is_one_message_up_to_the_longest_frame() {
    let folder = Folder::new();
    folder.put("short", pattern(65_536));
    folder.put("long", pattern(65_537));
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("RETR short\r\nRETR long").await;
    let (kind, payload) = client.frame(1).await;
    let (_, length) = Header::decode(&payload).unwrap().unwrap();
    assert_eq!((kind, payload.len()), (ppid::WHOLE, length + 65_536 + DIGEST_LENGTH));
    assert_eq!(payload[length..length + 65_536], pattern(65_536));
    let (kind, payload) = client.frame(2).await;
    let (_, length) = Header::decode(&payload).unwrap().unwrap();
    assert_eq!((kind, payload.len()), (ppid::FIRST, length + 16_384));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unread_stream_gets_its_credit_and_blocks_no_other() {
    let folder = Folder::new();
    folder.put("large", pattern(2_000_000));
    folder.put("small", "small");
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("RETR large\r\nNOOP").await;
    let (kind, payload) = client.frame(1).await;
    let (header, length) = Header::decode(&payload).unwrap().unwrap();
    assert_eq!((kind, header.size), (ppid::FIRST, Some(2_000_000)));
    let mut got = payload[length..].to_vec();
    while (got.len() as u64) < INITIAL_CREDIT {
        let (kind, payload) = client.frame(1).await;
        assert_eq!(kind, ppid::BYTES);
        got.extend_from_slice(&payload);
    }
    assert_eq!(got.len() as u64, INITIAL_CREDIT, "not a byte beyond the credit");
    // The other stream and the commands continue.
    client.say("RETR small").await;
    let (_, small, _) = client.download(2).await;
    assert_eq!(small, b"small");
    // An older CREDIT changes nothing; a newer one does.
    client.credit(1, 10).await;
    client.credit(1, 3_000_000).await;
    loop {
        match client.frame(1).await {
            (ppid::BYTES, payload) => got.extend_from_slice(&payload),
            (kind, payload) => {
                assert_eq!(kind, ppid::LAST);
                got.extend_from_slice(&payload[..payload.len() - DIGEST_LENGTH]);
                break;
            }
        }
    }
    assert!(got == pattern(2_000_000));
    for code in ["226", "200", "226"] {
        client.expect(code).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_beyond_the_window_do_not_hold_up_the_credit_they_wait_for() {
    let folder = Folder::new();
    // A window of them is several times the initial credit of both streams.
    folder.put("f", pattern(10_000));
    let served = serve(folder.root());
    let client = Client::braid(&served, 2).await;
    let mut control = Client {
        endpoint: client.endpoint.clone(),
        association: client.association.clone(),
        kind: client.kind,
        lines: Vec::new(),
        credits: BTreeMap::new(),
    };
    // Ten times as many commands as the server's window, all before the first CREDIT.
    let all = "RETR f\r\n".repeat(2560);
    for part in all.as_bytes().chunks(8 * 500) {
        control.send(0, ppid::LINES, part.to_vec()).await;
    }
    let done = Arc::new(AtomicU64::new(0));
    let read = |stream: u16| {
        let done = done.clone();
        let client = Client {
            endpoint: client.endpoint.clone(),
            association: client.association.clone(),
            kind: client.kind,
            lines: Vec::new(),
            credits: BTreeMap::new(),
        };
        async move {
            let mut receiver = Receiver::new(stream);
            while done.load(Ordering::Relaxed) < 2560 {
                // The other stream may have had the last of them.
                let piece =
                    timeout(Duration::from_millis(200), client.association.recv(StreamId(stream))).await;
                let Ok(piece) = piece else { continue };
                let piece = piece.unwrap().unwrap();
                assert!(piece.end, "messages are short");
                for incoming in taken_apart(&mut receiver, (piece.ppid.0, piece.payload.concat().into())) {
                    match incoming {
                        Incoming::Bytes(bytes) => receiver.consume(bytes.len() as u64),
                        Incoming::Complete(_) => _ = done.fetch_add(1, Ordering::Relaxed),
                        Incoming::Header(_) | Incoming::Broken(_) => {}
                    }
                }
                if let Some(credit) = CreditPool::new(2, 2 * INITIAL_CREDIT).grant(&mut receiver) {
                    client.credit(credit.stream, credit.limit).await;
                }
            }
        }
    };
    let replies = async {
        for _ in 0..2560 {
            control.expect("226").await;
        }
    };
    timeout(SOON, async { tokio::join!(read(1), read(2), replies) }).await.expect("no deadlock");
}

#[tokio::test(flavor = "multi_thread")]
async fn braid_takes_uploads_without_being_asked_first() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 4).await;
    let bytes = pattern(200_000);
    let modified = Some(Timestamp { seconds: 1_000_000_000, nanos: 123_456_789 });
    // The frames of the second arrive before its command.
    client.say("STOR a").await;
    client.upload(1, Header { modified, size: Some(200_000), ..header(1) }, &bytes).await;
    client.upload(2, header(2), b"second").await;
    client.say("STOR b").await;
    client.expect("226").await;
    client.expect("226").await;
    assert!(folder.read("a") == bytes);
    assert_eq!(folder.read("b"), b"second");
    let since = std::fs::metadata(folder.path("a")).unwrap().modified().unwrap();
    let since = since.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!((since.as_secs(), since.subsec_nanos()), (1_000_000_000, 123_456_789));
    // An empty file, and the next one on the same stream immediately.
    client.say("STOR empty\r\nSTOR c\r\nAPPE c").await;
    client.upload(1, header(3), b"").await;
    client.upload(1, header(4), b"one").await;
    client.upload(1, header(5), b" two").await;
    for _ in 0..3 {
        client.expect("226").await;
    }
    assert_eq!((folder.read("empty"), folder.read("c")), (vec![], b"one two".to_vec()));
    assert_eq!(folder.names(), ["a", "b", "c", "empty"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_upload_is_discarded_and_the_stream_continues() {
    let folder = Folder::new();
    folder.put("folder/x", "");
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("STOR none/f\r\nSTOR ../..\r\nSTOR folder\r\nSTOR good").await;
    // 200,000 bytes each: more than the initial credit without renewal.
    client.upload(1, header(1), &pattern(200_000)).await;
    client.upload(2, header(2), &pattern(200_000)).await;
    let mut refused = Vec::new();
    for _ in 0..2 {
        refused.push(client.reply().await);
    }
    assert!(refused.iter().all(|reply| reply.starts_with('5')), "{refused:?}");
    // CREDIT arrives as they are discarded.
    client.credited(1, 400_000).await;
    client.upload(1, header(3), &pattern(200_000)).await;
    client.expect("55").await;
    client.upload(2, header(4), b"good").await;
    client.expect("226").await;
    assert_eq!(folder.read("good"), b"good");
    assert_eq!(folder.names(), ["folder", "good"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_uploads_a_small_one_is_opened_when_it_is_complete() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 4).await;
    // The first is alone and opened at once.
    client.say("STOR first\r\nSTOR small\r\nSTOR large\r\nSTOR none/large").await;
    let sized = |transfer, size| Header { size: Some(size), ..header(transfer) };
    client.upload_some(1, header(1), b"first").await;
    client.upload_some(2, sized(2, 8), b"half").await;
    client.upload_some(3, sized(3, 100_000), b"half").await;
    client.upload_some(4, sized(4, 100_000), b"half").await;
    while folder.names().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(folder.names(), [".first.braidftp-part", ".large.braidftp-part"]);
    for (stream, bytes) in [(1, &b"first"[..]), (2, b"half"), (3, b"half")] {
        client.complete(stream, digest(bytes)).await;
        client.expect("226").await;
    }
    // Refused before its end.
    client.expect("550").await;
    assert_eq!(folder.names(), ["first", "large", "small"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_upload_gets_no_name() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("STOR gave-up").await;
    client.upload_some(1, header(1), &pattern(50_000)).await;
    client.send(1, ppid::BREAK, 426_u16.to_be_bytes().to_vec()).await;
    client.expect("426").await;
    client.say("STOR damaged").await;
    client.upload_some(1, header(2), b"bytes").await;
    client.complete(1, [7; DIGEST_LENGTH]).await;
    client.expect("451").await;
    client.say("STOR short").await;
    client.begin(1, header(3)).await;
    client.complete(1, digest(b"bytes")).await;
    client.expect("451").await;
    client.say("STOR elsewhere").await;
    client.upload(1, Header { offset: 7, ..header(4) }, b"x").await;
    let reply = client.reply().await;
    assert!(reply.starts_with("501") || reply.starts_with("451"), "{reply}");
    // Aborted uploads are kept, reported, and can be resumed.
    assert_eq!(folder.names(), [".gave-up.braidftp-part"]);
    client.ask("XPART gave-up", "213 50000").await;
    client.say("REST 50000\r\nSTOR gave-up").await;
    client.upload(2, Header { offset: 50_000, ..header(5) }, b"end").await;
    client.expect("350").await;
    client.expect("226").await;
    assert!(folder.read("gave-up") == [&pattern(50_000)[..], b"end"].concat());
    assert_eq!(folder.names(), ["gave-up"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn abor_breaks_a_download_off_and_ends_an_upload_with_its_reply() {
    let folder = Folder::new();
    folder.put("large", pattern(5_000_000));
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("RETR large\r\nSTOR up").await;
    assert_eq!(client.frame(1).await.0, ppid::FIRST);
    client.upload_some(1, header(2), b"begun").await;
    // It was accepted, as the first CREDIT shows.
    client.credited(1, INITIAL_CREDIT + 1).await;
    client.say("ABOR").await;
    let status = loop {
        if let (ppid::BREAK, payload) = client.frame(1).await {
            break payload;
        }
    };
    assert_eq!(status[..], 426_u16.to_be_bytes());
    for code in ["426", "426", "226"] {
        client.expect(code).await;
    }
    // The rest of the upload is discarded, and the streams can be used further.
    client.send(1, ppid::BYTES, "more").await;
    client.complete(1, digest(b"begunmore")).await;
    client.say("STOR next").await;
    client.upload(1, header(3), b"next").await;
    client.expect("226").await;
    assert_eq!(folder.read("next"), b"next");
    assert!(!folder.path("up").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_frames_end_their_own_association() {
    let folder = Folder::new();
    folder.put("f", "x");
    let served = serve(folder.root());
    let mut witness = Client::braid(&served, 2).await;
    type Wrong = Vec<(u16, u32, Bytes)>;
    let (begun, end) = (|transfer| header(transfer).encode(), || Bytes::from_static(&[0; DIGEST_LENGTH]));
    let cases: Vec<(&str, Wrong)> = vec![
        ("order", vec![(1, ppid::BYTES, "x".into())]),
        ("order", vec![(1, ppid::LAST, end())]),
        ("order", vec![(1, ppid::FIRST, begun(1)), (1, ppid::FIRST, begun(2))]),
        ("length", vec![(1, ppid::FIRST, begun(1)), (1, ppid::LAST, "short".into())]),
        ("length", vec![(1, ppid::FIRST, "\x02".into())]),
        ("field", vec![(1, ppid::FIRST, begun(0))]),
        ("field", vec![(1, ppid::FIRST, begun(1)), (1, ppid::BREAK, "\x00\x01".into())]),
        // HEADER of version 1.
        ("message type", vec![(1, ppid::LINES + 1, Bytes::from_static(&[0; 32]))]),
        ("message type", vec![(1, ppid::LINES, "NOOP\r\n".into())]),
        ("message type", vec![(1, 7, "x".into())]),
        ("payload protocol", vec![(0, ppid::FIRST, begun(1))]),
        ("field", vec![(0, ppid::CREDIT, Credit { stream: 9, limit: 1 }.encode())]),
        ("length", vec![(0, ppid::CREDIT, "x".into())]),
    ];
    for (at, (words, messages)) in cases.into_iter().enumerate() {
        let mut client = Client::braid(&served, 2).await;
        client.say("STOR up\r\nSTOR up2").await;
        for (stream, kind, payload) in messages {
            client.send(stream, kind, payload).await;
        }
        let said = client.broken().await;
        assert!(said.contains(words), "{at}: wanted {words}, the server said {said}");
    }
    witness.ask("NOOP", "200").await;
    // The sessions end before the associations: their unfinished work is removed a moment later.
    server_support::eventually("nothing is left of any of them", || folder.names() == ["f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn xtree_lists_a_whole_tree_while_files_flow() {
    let folder = Folder::new();
    for i in 0..1000 {
        folder.put(format!("d{}/e{}/f{i}", i % 10, i % 7), "x");
    }
    std::os::unix::fs::symlink("d0", folder.path("link")).unwrap();
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("XTREE\r\nRETR d0/e0/f0").await;
    let (one, two) = tokio::join!(client.download(1), client.download(2));
    let ((_, listing, end), (_, file, _)) = if one.0.transfer.0 == 1 { (one, two) } else { (two, one) };
    assert_eq!((end, file), (Ok(()), b"x".to_vec()));
    let packed = listing.len();
    let listing = unpacked(listing);
    assert!(packed < listing.len() / 5, "{packed} bytes");
    // Of 1,000 lines with a common prefix.
    let uniques = listing.lines().filter(|line| line.contains("unique=")).count();
    assert_eq!(uniques, 1 + 10 + 70, "of folders alone");
    let paths: Vec<&str> =
        listing.split_terminator("\r\n").map(|line| line.split_once(' ').unwrap().1).collect();
    assert_eq!(paths[0], ".");
    assert_eq!(paths.len(), 1 + 10 + 70 + 1000 + 1);
    for (at, path) in paths.iter().enumerate().skip(1) {
        if let Some((parent, _)) = path.rsplit_once('/') {
            assert!(paths[..at].contains(&parent), "{parent} before {path}");
        }
    }
    assert!(listing.contains("type=OS.unix=slink") && listing.contains("x.target=d0;"), "{listing}");
    client.expect("226").await;
    client.expect("226").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ms_counts_bytes_and_sends_a_listing_as_one_message() {
    let folder = Folder::new();
    let bytes = pattern(300_000);
    folder.put("a", &bytes);
    folder.put("b", "");
    std::fs::create_dir(folder.path("none")).unwrap();
    let served = serve(folder.root());
    let mut client = Client::connect(&served, 2);
    client.say("USER anonymous").await;
    client.expect("220").await;
    client.expect("331").await;
    client.ask("PASS x@", "230").await;
    client.ask("TYPE I", "200").await;
    client.ask("EPSV", "503").await;
    client.ask("RETR a", "503").await;
    client.say("SIZE a\r\nSIZE b\r\nRETR a\r\nRETR b").await;
    client.expect("213 300000").await;
    client.expect("213 0").await;
    client.expect("150").await;
    let mut got = Vec::new();
    while got.len() < bytes.len() {
        got.extend_from_slice(&client.frame(1).await.1);
    }
    assert!(got == bytes);
    for code in ["226", "150", "226"] {
        client.expect(code).await;
    }
    client.say("NLST").await;
    let listing = String::from_utf8(client.frame(1).await.1.to_vec()).unwrap();
    let mut names: Vec<&str> = listing.split_terminator("\r\n").collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b", "none"]);
    client.expect("150").await;
    client.expect("226").await;
    client.say("NLST none").await;
    assert_eq!(client.frame(1).await.1, "\r\n", "an empty listing is a message all the same");
    client.expect("150").await;
    client.expect("226").await;

    // A file that was truncated after SIZE: zeros up to the reported size, then 451.
    client.ask("SIZE a", "213 300000").await;
    folder.put("a", "short");
    client.say("RETR a").await;
    client.expect("150").await;
    let mut got = Vec::new();
    while got.len() < 300_000 {
        got.extend_from_slice(&client.frame(1).await.1);
    }
    assert_eq!((&got[..5], got.len()), (&b"short"[..], 300_000));
    assert!(got[5..].iter().all(|byte| *byte == 0));
    client.expect("451").await;

    // Uploads: counted, pipelined, and two in one message.
    client.ask("STOR x", "503").await;
    client.say("ALLO 7\r\nSTOR x\r\nALLO 3\r\nSTOR y").await;
    client.expect("200").await;
    client.expect("150").await;
    client.send(1, ppid::PLAIN, "seven b").await;
    client.expect("226").await;
    client.expect("200").await;
    client.expect("150").await;
    client.send(1, ppid::PLAIN, "thr").await;
    client.expect("226").await;
    assert_eq!((folder.read("x"), folder.read("y")), (b"seven b".to_vec(), b"thr".to_vec()));
    client.ask("QUIT", "221").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn naive_opens_an_association_for_each_transfer() {
    let folder = Folder::new();
    let bytes = pattern(300_000);
    folder.put("a", &bytes);
    let served = serve(folder.root());
    let mut client = Client::connect(&served, 1);
    client.say("USER anonymous").await;
    client.expect("220").await;
    client.expect("331").await;
    client.ask("PASS x@", "230").await;
    client.ask("TYPE I", "200").await;
    let config = Arc::new(Config::default().with(|c| {
        c.streams.outbound = 1;
        c.streams.inbound = 1;
    }));

    let listener = client.endpoint.listen(5001, config.clone()).unwrap();
    // The address has the right form and is ignored.
    client.ask("EPRT |1|192.0.2.1|5001|", "200").await;
    client.say("RETR a").await;
    let data = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    assert_eq!(data.ports(), (5001, 20));
    let mut got = Vec::new();
    while let Some(piece) = timeout(SOON, data.recv(StreamId(0))).await.unwrap().unwrap() {
        got.extend(piece.payload.concat());
    }
    assert!(got == bytes);
    client.expect("150").await;
    client.expect("226").await;
    drop(listener);

    let listener = client.endpoint.listen(5002, config.clone()).unwrap();
    client.ask("EPRT |1|127.0.0.1|5002|", "200").await;
    client.say("STOR b").await;
    let data = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    client.expect("150").await;
    for part in bytes.chunks(30_000) {
        data.send(StreamId(0), Message::new(Ppid(0), part.to_vec())).await.unwrap();
    }
    data.shutdown().await;
    client.expect("226").await;
    assert!(folder.read("b") == bytes);
    drop(listener);

    // An aborted association does not mark the end of a file.
    let listener = client.endpoint.listen(5003, config.clone()).unwrap();
    client.ask("EPRT |1|127.0.0.1|5003|", "200").await;
    client.say("STOR c").await;
    let data = timeout(SOON, listener.accept()).await.unwrap().unwrap();
    client.expect("150").await;
    data.send(StreamId(0), Message::new(Ppid(0), "half")).await.unwrap();
    data.abort("no more");
    client.expect("426").await;
    assert!(!folder.path("c").exists());
    client.ask("NOOP", "200").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_folder_of_partial_files_is_not_listed() {
    let folder = Folder::new();
    folder.put(".x.braidftp-part", "half");
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("MLSD").await;
    let (_, listing, _) = client.download(1).await;
    assert!(!unpacked(listing).contains("part"));
    client.expect("226").await;
    assert!(Path::new(&folder.path(".x.braidftp-part")).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_associations_before_their_login_do_not_block_others() {
    let folder = Folder::new();
    folder.put("a", "text");
    let served = serve(folder.root());
    let mut silent = Vec::new();
    for host in 2..=5 {
        let endpoint = Client::endpoint(host);
        for _ in 0..50 {
            let client = Client::connect_by(endpoint.clone(), &served, 3);
            timeout(SOON, client.association.up()).await.unwrap().unwrap();
            silent.push(client);
        }
    }
    for host in [6, 2] {
        let mut fresh = Client::connect_by(Client::endpoint(host), &served, 3).log_in().await;
        fresh.ask("SIZE a", "213").await;
    }
    timeout(SOON, silent[0].association.closed()).await.expect("the first made room");
    assert!(silent[199].association.reason().is_none(), "the last did not");
}
