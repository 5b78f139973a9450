//! Clients that vanish, and newer sessions of the same user that resume their work.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_vanished_client_loses_its_session_and_its_partial_upload_is_kept() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let mut client = Client::braid(&served, 2).await;
    client.say("STOR f").await;
    client.begin(1, header(1)).await;
    // The first CREDIT arrives with the first bytes; with the next one, as many more as it grants were
    // accepted.
    let bytes = pattern(1_000_000);
    let mut parts = bytes.chunks(50_000);
    client.send(1, ppid::BYTES, parts.next().unwrap().to_vec()).await;
    let first = client.credited(1, 1_000_000).await;
    for part in parts {
        client.send(1, ppid::BYTES, part.to_vec()).await;
    }
    // The stream may then have all credit except the initial credit of the other stream.
    let window = (4 << 20) - INITIAL_CREDIT;
    let taken = (client.credited(1, first + 1).await - window) as usize;
    client.association.abort("gone");
    let kept = || std::fs::read(folder.path(".f.braidftp-part")).unwrap_or_default();
    server_support::eventually("what was taken is kept", || kept().len() >= taken);
    assert!(bytes.starts_with(&kept()) && taken > 0);
    assert!(!folder.path("f").exists());
    served.handle.stop();
    timeout(SOON, served.running).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_session_takes_over_an_upload_and_continues_it() {
    let folder = Folder::new();
    let bytes = pattern(200_000);
    let served = serve(folder.root());
    let mut first = Client::braid(&served, 2).await;
    first.say("STOR f").await;
    first.upload_some(1, header(1), &bytes[..50_000]).await;
    let mut second = Client::braid(&served, 2).await;
    while std::fs::metadata(folder.path(".f.braidftp-part")).is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The first session still exists, and is silent; its data in memory is lost, its data on the disk is not.
    second.say("STOR f").await;
    second.upload(1, header(1), &bytes).await;
    second.expect("226").await;
    assert!(folder.read("f") == bytes);
    // It no longer owns the file, and renames nothing.
    first.complete(1, digest(&bytes[..50_000])).await;
    let refusal = first.expect("450").await;
    // The newer session was even faster if it locked the file that the first one had just created.
    assert!(refusal.contains("newer session") || refusal.contains("busy"), "{refusal}");
    assert!(folder.read("f") == bytes);
    // Nor does an older session take over a file that a newer one writes.
    second.say("STOR g").await;
    second.upload_some(2, header(2), &bytes[..1000]).await;
    while std::fs::metadata(folder.path(".g.braidftp-part")).is_err() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(first.ask("STOR g", "450").await.contains("busy"));
    assert_eq!(folder.names(), [".g.braidftp-part", "f"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_upload_that_a_newer_session_has_finished_leaves_nothing_when_the_older_session_ends() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let small = |transfer| Header { size: Some(5), ..header(transfer) };
    let mut first = Client::braid(&served, 2).await;
    // The second of two is not opened before it has arrived.
    first.say("STOR g\r\nSTOR f").await;
    first.upload_some(1, small(2), b"hal").await;
    // The first CREDIT arrives with the first bytes.
    first.credited(1, 1).await;
    let mut second = Client::braid(&served, 2).await;
    second.say("STOR f").await;
    second.upload(1, small(1), b"whole").await;
    second.expect("226").await;
    first.association.abort("gone");
    served.handle.stop();
    timeout(SOON, served.running).await.unwrap().unwrap();
    assert_eq!(folder.names(), ["f"]);
    assert_eq!(folder.read("f"), b"whole");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_frames_never_come_is_given_up() {
    let folder = Folder::new();
    let served = serve_with(folder.root(), Settings { awaited: Duration::from_millis(300), ..quick() });
    let mut client = Client::braid(&served, 2).await;
    client.ask("STOR f", "426").await;
    assert_eq!(folder.names(), [""; 0]);
    // The session continues, and so does another upload.
    client.say("STOR g").await;
    client.upload(1, header(2), b"g").await;
    client.expect("226").await;
}

/// Settings with short time limits for uploads without frames, and longer ones for silent peers.
fn hasty() -> Settings {
    let sctp = Profile::Modern.config().with(|c| c.timers.heartbeat_interval = None);
    let (awaited, stall, silence) =
        (Duration::from_millis(400), Duration::from_millis(400), Duration::from_secs(2));
    Settings { awaited, stall, silence, max_sessions: 2, sctp, ..quick() }
}

/// Tests commands that a client sent after an upload of `f` before it vanished. A newer session then uploads
/// `f`. Returns what is wrong after the end of the older session.
async fn after_a_late(commands: &str, streams: u16) -> Option<String> {
    let folder = Folder::new();
    let bytes = pattern(60_000);
    let served = serve_with(folder.root(), hasty());
    let (wire, by_the_wire) = Wire::to(&served).await;
    let mut first = Client::connect(&by_the_wire, streams).log_in().await;
    // Nothing of the first upload arrives; frames of the second are present when it begins.
    first.say(&format!("ALLO 1\r\nSTOR f\r\n{commands}")).await;
    if streams > 2 {
        first.upload_some(2, header(2), &pattern(50_000)).await;
    }
    while first.association.stats().buffered_bytes > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    wire.fall_silent();
    let mut second = Client::braid(&served, 2).await;
    second.say("STOR f").await;
    second.upload(1, header(1), &bytes).await;
    second.expect("226").await;
    let changed = || std::fs::metadata(folder.path("f")).and_then(|found| found.modified()).ok();
    let before = changed();
    // There is room for a third session once the first one has ended.
    let third = async {
        while !Client::connect(&served, 3).is_greeted().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(SOON, third).await.expect("the session of the first client ends");
    let is_right = folder.names() == ["f"] && folder.read("f") == bytes && changed() == before;
    (!is_right).then(|| format!("{commands:?} over {streams} streams: {:?}", folder.names()))
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_of_a_vanished_client_are_not_begun_after_a_newer_login() {
    let late = [
        ("STOR f", 3),
        ("STOR f\r\nDELE f", 3),
        ("DELE f", 3),
        ("RNFR f\r\nRNTO g", 3),
        ("MFMT 19991231235959 f", 3),
        ("MKD f.old", 2),
        ("DELE f", 2),
    ];
    let mut wrong = Vec::new();
    for (commands, streams) in late {
        wrong.extend(after_a_late(commands, streams).await);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_session_with_a_living_client_continues_beside_a_newer_one() {
    let folder = Folder::new();
    folder.put("old", "text");
    let served = serve_with(folder.root(), hasty());
    let mut first = Client::braid(&served, 2).await;
    // Nothing is sent between the login of the second session and the time when these begin.
    first.say("STOR f\r\nDELE f\r\nSTOR f").await;
    first.upload(1, header(2), b"mine").await;
    let mut second = Client::braid(&served, 2).await;
    for code in ["426", "550", "226"] {
        first.expect(code).await;
    }
    assert_eq!(folder.read("f"), b"mine");
    second.ask("DELE old", "250").await;
    first.ask("DELE f", "250").await;
}

/// A wire between clients and a server: forwards datagrams until it is cut.
struct Wire {
    /// Whether all datagrams are dropped without an ICMP error.
    is_silent: Arc<AtomicBool>,
    running: tokio::task::AbortHandle,
}

impl Wire {
    async fn to(served: &Served) -> (Self, Served) {
        let (socket, to) = (tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap(), served.address);
        let address = socket.local_addr().unwrap();
        let is_silent = Arc::new(AtomicBool::new(false));
        let drops = is_silent.clone();
        let running = tokio::spawn(async move {
            let (mut buffer, mut client) = (vec![0; 65_536], None);
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let target = if from == to { client } else { Some(to) };
                if from != to {
                    client = Some(from);
                }
                if let Some(target) = target.filter(|_| !drops.load(Ordering::Relaxed)) {
                    let _ = socket.send_to(&buffer[..length], target).await;
                }
            }
        });
        let (endpoint, handle) = (served.endpoint.clone(), served.handle.clone());
        let by_the_wire = Served { address, endpoint, handle, running: tokio::spawn(async {}) };
        (Self { is_silent, running: running.abort_handle() }, by_the_wire)
    }

    /// Closes the port: the server's packets are answered by ICMP Port Unreachable.
    fn close(&self) {
        self.running.abort();
    }

    fn fall_silent(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }
}

/// Whether, with these settings, the session of a client ends if its wire is cut in the middle of an upload,
/// and releases the temporary file with the received data.
async fn ends_when_the_wire_is_cut(settings: Settings) {
    let folder = Folder::new();
    let served = serve_with(folder.root(), settings);
    let (wire, by_the_wire) = Wire::to(&served).await;
    let mut client = Client::braid(&by_the_wire, 2).await;
    client.say("STOR f").await;
    client.upload_some(1, header(1), &pattern(50_000)).await;
    // The first CREDIT arrives with the first bytes.
    client.credited(1, 1_000_000).await;
    let part = folder.path(".f.braidftp-part");
    wire.close();
    let wait = async {
        loop {
            let file = std::fs::File::open(&part).unwrap();
            if file.try_lock().is_ok() && file.metadata().unwrap().len() > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, wait).await.expect("the session ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_falls_silent_in_an_upload_loses_its_session_within_the_limit() {
    // Without own heartbeats, so that nothing else ends the association.
    let sctp = Profile::Modern.config().with(|c| c.timers.heartbeat_interval = None);
    ends_when_the_wire_is_cut(Settings { silence: Duration::from_secs(2), sctp, ..quick() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_whose_port_is_closed_in_an_upload_loses_its_session() {
    // Only ICMP Port Unreachable can end the association within the time limit of this test.
    let silence = Duration::from_secs(3600);
    ends_when_the_wire_is_cut(Settings { silence, ..quick() }).await;
}

/// A client behind a wire that has requested a file and reads nothing once its receive window is full.
async fn stuck(served: &Served, file: &str) -> (Wire, Client) {
    const WINDOW_BYTES: usize = 64 << 10;
    let (wire, by_the_wire) = Wire::to(served).await;
    let config = Profile::Modern.config().with(|c| {
        c.memory.receive_buffer_bytes = WINDOW_BYTES;
        c.memory.receive_buffer_max_bytes = None;
    });
    let client = Client::connect_with(Client::endpoint(1), &by_the_wire, 2 + 1, config);
    let mut client = client.log_in().await;
    client.credit(1, u64::MAX).await;
    client.say(&format!("RETR {file}")).await;
    while client.association.stats().paths[0].bytes_received < WINDOW_BYTES as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (wire, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_vanishes_behind_a_closed_window_loses_its_session_and_one_that_answers_keeps_it() {
    let folder = Folder::new();
    // The short file fits into the transport's buffer, the long one does not.
    let bytes = pattern(8 << 20);
    folder.put("short", &bytes[..200_000]);
    folder.put("long", &bytes);
    // Nothing else ends an association, or a transfer.
    let sctp = Profile::Modern.config().with(|c| {
        c.timers.heartbeat_interval = None;
        c.failover.association_max_retrans = 1_000_000;
        c.failover.path_max_retrans = 1_000_000;
    });
    let stall = Duration::from_secs(3600);
    let served =
        serve_with(folder.root(), Settings { silence: Duration::from_secs(2), stall, sctp, ..quick() });
    let gone = [stuck(&served, "short").await, stuck(&served, "long").await];
    let (_wire, mut slow) = stuck(&served, "long").await;
    gone.iter().for_each(|(wire, _)| wire.fall_silent());
    let end = async {
        while served.endpoint.associations() > 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, end).await.expect("the sessions of those that are gone end");
    let mut taken = 0;
    while taken < bytes.len() {
        taken += slow.frame(1).await.1.len();
    }
    slow.expect("226").await;
}

/// Settings with which only the limit of sessions ends the session of a silent client with an open upload.
fn patient() -> Settings {
    let sctp = Profile::Modern.config().with(|c| c.timers.heartbeat_interval = None);
    let hour = Duration::from_secs(3600);
    Settings { awaited: hour, stall: hour, silence: hour, sctp, ..quick() }
}

/// A client with an open upload, behind a wire.
async fn busy(served: &Served) -> (Wire, Client) {
    let (wire, by_the_wire) = Wire::to(served).await;
    let mut client = Client::braid(&by_the_wire, 2).await;
    client.say("STOR f").await;
    client.upload_some(1, header(1), &pattern(50_000)).await;
    client.credited(1, 1_000_000).await;
    (wire, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_answer_makes_room_at_the_limit_of_its_address_and_one_that_does_keeps_its_session()
 {
    let folder = Folder::new();
    let served = serve_with(folder.root(), Settings { max_sessions_per_address: 2, ..patient() });
    let (wire, _gone) = busy(&served).await;
    let (_wire, mut there) = busy(&served).await;
    assert!(!Client::connect(&served, 3).is_greeted().await, "both answer");
    wire.fall_silent();
    let third = async {
        while !Client::connect(&served, 3).is_greeted().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, third).await.expect("the client that is gone makes room");
    there.complete(1, digest(&pattern(50_000))).await;
    there.expect("226").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_answer_makes_room_for_its_user() {
    let folder = Folder::new();
    let users =
        Users::parse("[[user]]\nname = 'anonymous'\nsessions = 1\nwritable = true\n", Access::ReadOnly)
            .unwrap();
    let served = serve_users(folder.root(), users, patient());
    let (wire, _gone) = busy(&served).await;
    let logs_in = async || {
        let mut client = Client::connect(&served, 3);
        client.say("USER anonymous\r\nPASS x@").await;
        client.expect("220").await;
        client.expect("331").await;
        client.reply().await.starts_with("230")
    };
    assert!(!logs_in().await, "the client answers");
    wire.fall_silent();
    let again = async {
        while !logs_in().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, again).await.expect("the client that is gone makes room");
}
