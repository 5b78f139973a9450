//! Against usrsctp over UDP encapsulation: each side as client and as server, 10 MB compared byte for byte, each side
//! beginning the shutdown. The program is `bench-peers/usrsctp_peer.c`, built here with `cc`.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use braidftp_net::{Association, Config, Connect, Profile, Reason};
use common::{PORT, content, endpoint, free_port, receive_all, send_all, soon};
use tokio::io::{AsyncBufReadExt, BufReader};

const TOTAL: usize = 10_000_000;
const STREAMS: usize = 4;

/// Returns the built program; `None`, with a notice, if this machine has no usrsctp.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench-peers/usrsctp_peer.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("usrsctp_peer");
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(&program).args([source, "-lusrsctp", "-lpthread"]);
        let why = match cc.output() {
            Ok(output) if output.status.success() => return Some(program),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => format!("cc: {error}"),
        };
        assert!(
            std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(),
            "BRAIDFTP_REQUIRE_PEERS is set, and usrsctp_peer.c does not build: {why}"
        );
        eprintln!(
            "LEFT OUT: usrsctp_peer.c does not build here (Debian: apt install gcc libusrsctp-dev): {why}"
        );
        None
    };
    BUILT.get_or_init(build).as_deref()
}

fn usrsctp(program: &Path, args: &[String]) -> tokio::process::Child {
    let mut command = tokio::process::Command::new(program);
    command.args(args).args(["check=1", &format!("port={PORT}")]).stdout(Stdio::piped()).kill_on_drop(true);
    command.spawn().unwrap()
}

fn config(profile: Profile) -> Arc<Config> {
    Arc::new(profile.config())
}

fn connect(udp: u16, profile: Profile) -> Connect {
    Connect {
        local: vec![],
        peer: vec![([127, 0, 0, 1], udp).into()],
        source_port: None,
        destination_port: PORT,
        config: config(profile),
    }
}

/// Sends [`TOTAL`] bytes as the program checks them.
async fn send(association: &Association) {
    let streams =
        (0..STREAMS).map(|s| tokio::spawn(send_all(association.clone(), s as u16, TOTAL / STREAMS, 30_000)));
    for stream in streams.collect::<Vec<_>>() {
        soon(stream).await.unwrap();
    }
}

async fn success(mut child: tokio::process::Child) {
    assert!(soon(child.wait()).await.unwrap().success());
}

async fn we_connect_and_send(profile: Profile, end: &str) {
    let Some(program) = program() else { return };
    let udp = free_port();
    let mut child = usrsctp(program, &["recv".into(), udp.to_string(), format!("bytes={TOTAL}"), end.into()]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(soon(lines.next_line()).await.unwrap().as_deref(), Some("listening"));
    let endpoint = endpoint();
    let association = endpoint.connect(connect(udp, profile)).unwrap();
    send(&association).await;
    if end == "end=peer" {
        assert_eq!(soon(association.shutdown()).await, Reason::Shutdown);
    } else {
        assert_eq!(soon(association.recv_any()).await, Ok(None));
        assert_eq!(soon(association.closed()).await, Reason::Shutdown);
    }
    success(child).await;
}

async fn they_connect_and_send(profile: Profile, end: &str) {
    let Some(program) = program() else { return };
    let endpoint = endpoint();
    let listener = endpoint.listen(PORT, config(profile)).unwrap();
    let ours = endpoint.local_addrs()[0].port();
    let child = usrsctp(
        program,
        &[
            "send".into(),
            free_port().to_string(),
            ours.to_string(),
            format!("bytes={TOTAL}"),
            format!("streams={STREAMS}"),
            "message=20000".into(),
            end.into(),
        ],
    );
    let association = soon(listener.accept()).await.unwrap();
    let streams =
        (0..STREAMS).map(|s| tokio::spawn(receive_all(association.clone(), s as u16, TOTAL / STREAMS)));
    for stream in streams.collect::<Vec<_>>() {
        soon(stream).await.unwrap();
    }
    if end == "end=self" {
        assert_eq!(soon(association.recv_any()).await, Ok(None));
        assert_eq!(soon(association.closed()).await, Reason::Shutdown);
    } else {
        assert_eq!(soon(association.shutdown()).await, Reason::Shutdown);
    }
    success(child).await;
}

#[tokio::test]
async fn usrsctp_receives_and_we_shut_down() {
    we_connect_and_send(Profile::Modern, "end=peer").await;
}

#[tokio::test]
async fn usrsctp_receives_and_shuts_down() {
    we_connect_and_send(Profile::Modern, "end=self").await;
}

#[tokio::test]
async fn usrsctp_sends_and_shuts_down() {
    they_connect_and_send(Profile::Modern, "end=self").await;
}

#[tokio::test]
async fn usrsctp_sends_and_we_shut_down() {
    they_connect_and_send(Profile::Modern, "end=peer").await;
}

#[tokio::test]
async fn usrsctp_and_the_letter_of_rfc_9260_both_ways() {
    we_connect_and_send(Profile::Rfc9260, "end=peer").await;
    they_connect_and_send(Profile::Rfc9260, "end=self").await;
}

#[test]
fn the_content_is_what_the_program_checks() {
    // usrsctp_peer.c: (o * 7 + o / 251 + s * 13) mod 256.
    assert_eq!(content(2, 1_000, 1), [(1_000u32 * 7 + 1_000 / 251 + 26) as u8]);
}
