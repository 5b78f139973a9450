//! Tests against sctp-proto, a WebRTC stack in Rust, over UDP: each side as client and as server, data in both directions, and
//! a shutdown by this side. The program is `bench-peers/src/proto_peer.rs`, built here with cargo, which needs its
//! dependencies: `cargo xtask test interop` runs this.

mod common;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};

use braidftp_net::{Association, Bind, Connect, Endpoint, Message, Ppid, Profile, Reason, StreamId};
use common::{PORT, content, soon};
use tokio::sync::mpsc;

const TOTAL: usize = 5_000_000;
const MESSAGE: usize = 10_000;
/// WebRTC Binary (RFC 8831 §8).
const BINARY: Ppid = Ppid(53);

/// Returns the built program; `None`, with a notice, if it cannot be built.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench-peers/Cargo.toml");
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-peers");
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["build", "--locked", "--bin", "proto_peer", "--manifest-path", manifest, "--target-dir"]);
        match cargo.arg(&target).output() {
            Ok(output) if output.status.success() => Some(target.join("debug/proto_peer")),
            output => {
                let why = output.map_or_else(
                    |error| error.to_string(),
                    |output| String::from_utf8_lossy(&output.stderr).into_owned(),
                );
                assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "proto_peer: {why}");
                eprintln!("LEFT OUT: proto_peer does not build here: {why}");
                None
            }
        }
    };
    BUILT.get_or_init(build).as_deref()
}

/// The running program; killed when dropped.
struct Peer {
    child: Child,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Peer {
    fn start(program: &Path, role: &str, own: SocketAddr, peer: SocketAddr) -> Self {
        let numbers = [own.port().into(), peer.port().into(), u64::from(PORT), TOTAL as u64];
        let mut command = Command::new(program);
        command.arg(role).args(numbers.map(|number| number.to_string())).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (told, lines) = mpsc::unbounded_channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = told.send(line);
            }
        });
        Self { child, lines }
    }

    async fn says(&mut self, words: &str) {
        let line = soon(self.lines.recv()).await;
        assert_eq!(line.as_deref(), Some(words));
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn free() -> SocketAddr {
    ([127, 0, 0, 1], common::free_port()).into()
}

async fn both_ways(association: Association, mut peer: Peer) {
    peer.says("up").await;
    let sender = association.clone();
    let sends = tokio::spawn(async move {
        let mut at = 0;
        while at < TOTAL {
            let message = Message::new(BINARY, content(0, at, MESSAGE.min(TOTAL - at)));
            sender.send(StreamId(0), message).await.unwrap();
            at += MESSAGE;
        }
    });
    let mut at = 0;
    while at < TOTAL {
        let piece = soon(association.recv(StreamId(0))).await.unwrap().expect("it is not over");
        assert_eq!(piece.ppid, BINARY);
        for bytes in piece.payload {
            assert!(bytes == content(0, at, bytes.len()), "other bytes near {at}");
            at += bytes.len();
        }
    }
    soon(sends).await.unwrap();
    peer.says("ok").await;
    // It answers with SHUTDOWN ACK or with ABORT.
    let end = soon(association.shutdown()).await;
    assert!(matches!(end, Reason::Shutdown | Reason::PeerAborted(_)), "{end:?}");
}

async fn we_connect(profile: Profile) {
    let Some(program) = program() else { return };
    let (own, theirs) = (free(), free());
    let mut peer = Peer::start(program, "listen", theirs, own);
    peer.says("listening").await;
    let endpoint = Endpoint::bind(Bind::to([own])).unwrap();
    let connect = Connect {
        local: vec![],
        peer: vec![theirs],
        source_port: Some(PORT),
        destination_port: PORT,
        config: Arc::new(profile.config()),
    };
    both_ways(endpoint.connect(connect).unwrap(), peer).await;
}

async fn they_connect(profile: Profile) {
    let Some(program) = program() else { return };
    let (own, theirs) = (free(), free());
    let endpoint = Endpoint::bind(Bind::to([own])).unwrap();
    let listener = endpoint.listen(PORT, Arc::new(profile.config())).unwrap();
    let mut peer = Peer::start(program, "connect", theirs, own);
    peer.says("connecting").await;
    both_ways(soon(listener.accept()).await.unwrap(), peer).await;
}

#[tokio::test]
#[ignore = "it builds a program from crates of others; cargo xtask test interop runs it"]
async fn we_connect_to_sctp_proto() {
    for profile in Profile::ALL {
        we_connect(*profile).await;
    }
}

#[tokio::test]
#[ignore = "it builds a program from crates of others; cargo xtask test interop runs it"]
async fn the_kernel_connects() {
    for profile in Profile::ALL {
        they_connect(*profile).await;
    }
}
