//! Data associations that fail in mode naive: a scripted server that fails as instructed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::client_support::{Room, cli, names, pattern};
use braidftp_ftp::mapping::{CONTROL_PORT, DATA_PORT, ppid};
use braidftp_net::{Association, Bind, Config, Connect, Endpoint, Listener, Message, Ppid, StreamId};

/// What happens to the data association of a RETR.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It is not opened: 425.
    Closed,
    /// It is aborted when the client has [`KEPT`] bytes on its disk: 426.
    Broken,
    Whole,
}

const LENGTH: usize = 3_000_000;
const KEPT: usize = 1_000_000;

/// Serves one file, with the given outcomes in order, to one client at a time.
struct Server {
    endpoint: Endpoint,
    content: Vec<u8>,
    fates: Vec<Fate>,
    /// The offsets of the RETRs, in order.
    offsets: Vec<usize>,
    /// The client's temporary file.
    part: PathBuf,
}

impl Server {
    async fn run(&mut self, listener: Listener) {
        while let Some(control) = listener.accept().await {
            // A client that disconnects ends the session.
            self.session(&control).await;
        }
    }

    async fn session(&mut self, control: &Association) -> Option<()> {
        let (mut port, mut offset) = (0, 0);
        say(control, "220 here").await?;
        let mut lines = Vec::new();
        loop {
            while !lines.contains(&b'\n') {
                lines.extend(control.recv(StreamId(0)).await.ok()??.payload.concat());
            }
            let end = lines.iter().position(|byte| *byte == b'\n')?;
            let line: Vec<u8> = lines.drain(..=end).collect();
            let line = String::from_utf8(line).unwrap();
            let (verb, argument) = line.trim_end().split_once(' ').unwrap_or((line.trim_end(), ""));
            match verb {
                "USER" => say(control, "331 password").await?,
                "PASS" => say(control, "230 in").await?,
                "FEAT" => {
                    say(control, "211-Features:\r\n MLST size*;modify*;\r\n REST STREAM\r\n211 End").await?
                }
                "EPRT" => {
                    port = argument.split('|').nth(3)?.parse().ok()?;
                    say(control, "200 ok").await?;
                }
                "REST" => {
                    offset = argument.parse().ok()?;
                    say(control, "350 from there").await?;
                }
                "MLST" => {
                    let size = self.content.len();
                    let facts =
                        format!("250-Facts\r\n type=file;size={size};modify=20200101000000; a\r\n250 End");
                    say(control, &facts).await?;
                }
                "MLSD" => {
                    let size = self.content.len();
                    let listing = format!("type=file;size={size};modify=20200101000000; a\r\n");
                    say(control, "150 here it comes").await?;
                    let data = self.data(control, port).await?;
                    send(&data, listing.as_bytes()).await?;
                    data.shutdown().await;
                    say(control, "226 done").await?;
                }
                "RETR" => {
                    self.offsets.push(offset);
                    say(control, "150 here it comes").await?;
                    let rest = self.content[std::mem::take(&mut offset)..].to_vec();
                    match if self.fates.is_empty() { Fate::Whole } else { self.fates.remove(0) } {
                        Fate::Closed => say(control, "425 cannot open the data connection").await?,
                        Fate::Broken => {
                            let data = self.data(control, port).await?;
                            send(&data, &rest[..rest.len() / 2]).await?;
                            while std::fs::metadata(&self.part).map_or(0, |part| part.len()) < KEPT as u64 {
                                tokio::time::sleep(Duration::from_millis(5)).await;
                            }
                            data.abort("broken");
                            say(control, "426 it broke").await?;
                        }
                        Fate::Whole => {
                            let data = self.data(control, port).await?;
                            send(&data, &rest).await?;
                            data.shutdown().await;
                            say(control, "226 done").await?;
                        }
                    }
                }
                "QUIT" => {
                    say(control, "221 bye").await?;
                    control.closed().await;
                    return Some(());
                }
                _ => say(control, "200 ok").await?,
            }
        }
    }

    async fn data(&self, control: &Association, port: u16) -> Option<Association> {
        let config = Arc::new(Config::default().with(|c| {
            c.streams.outbound = 1;
            c.streams.inbound = 1;
        }));
        let peer = vec![control.peer_addr()?];
        let source_port = Some(DATA_PORT);
        let connect = Connect { local: vec![], peer, source_port, destination_port: port, config };
        let data = self.endpoint.connect(connect).unwrap();
        data.up().await.ok()?;
        Some(data)
    }
}

async fn say(control: &Association, line: &str) -> Option<()> {
    let message = Message::new(Ppid(ppid::PLAIN), format!("{line}\r\n"));
    control.send(StreamId(0), message).await.ok()
}

async fn send(data: &Association, bytes: &[u8]) -> Option<()> {
    for part in bytes.chunks(10_000) {
        data.send(StreamId(0), Message::new(Ppid(ppid::PLAIN), part.to_vec())).await.ok()?;
    }
    Some(())
}

/// Fetches the file with `command` from a server with these outcomes. Returns the exit code, and the offsets
/// of the RETRs.
fn fetch(room: &Room, command: &str, fates: &[Fate]) -> (i32, String, Vec<usize>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let endpoint = runtime.block_on(async { Endpoint::bind(Bind::to([any])).unwrap() });
    // Before the client is started: an INIT to a port without listener is answered with ABORT.
    let config = Arc::new(Config::default().with(|c| {
        c.streams.outbound = 1;
        c.streams.inbound = 1;
    }));
    let listener = endpoint.listen(CONTROL_PORT, config).unwrap();
    let address = endpoint.local_addrs()[0];
    let out = room.folder("out");
    let server = Server {
        endpoint,
        content: pattern(LENGTH),
        fates: fates.to_vec(),
        offsets: Vec::new(),
        part: out.join(".a.braidftp-part"),
    };
    let server = Arc::new(tokio::sync::Mutex::new(server));
    let running = server.clone();
    let task = runtime.spawn(async move { running.lock().await.run(listener).await });
    let url = format!("ftp+sctp://{address}/{}", if command == "get" { "a" } else { "" });
    let mut args = vec![command, &url];
    args.extend(if command == "get" {
        vec!["-o", out.to_str().unwrap()]
    } else {
        vec![out.to_str().unwrap()]
    });
    args.extend(["--mode", "naive", "--retries", "2"]);
    let (code, _, err) = cli(&room.home(), &args);
    task.abort();
    let offsets = runtime.block_on(async { server.lock().await.offsets.clone() });
    (code, err, offsets)
}

#[test]
fn a_file_whose_data_association_fails_is_requested_again_and_resumed() {
    for command in ["mirror", "get"] {
        let room = Room::new();
        let (code, err, offsets) = fetch(&room, command, &[Fate::Closed, Fate::Broken]);
        assert_eq!(code, 0, "{command}: {err}");
        assert!(std::fs::read(room.path("out/a")).unwrap() == pattern(LENGTH), "{command}");
        assert_eq!((offsets.len(), offsets[1]), (3, 0), "{command}");
        assert!((KEPT..=LENGTH / 2).contains(&offsets[2]), "{command}: what had come is kept: {offsets:?}");
    }
}

#[test]
fn a_file_whose_data_association_never_opens_fails() {
    let room = Room::new();
    let (code, err, offsets) = fetch(&room, "mirror", &[Fate::Closed; 10]);
    assert_eq!(code, 7, "{err}");
    assert!(err.contains("425") && names(&room.path("out")).is_empty(), "{err}");
    assert_eq!(offsets.len(), 3);
}
