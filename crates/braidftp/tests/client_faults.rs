//! Failures, and what the user sees: exit codes, messages, no incomplete file under a final name, and
//! resuming by the same command.

mod client_support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use braidftp::users::Access;
use client_support::{Room, Served, assert_same, braidftp, cli, names, pattern, run};

/// A generous time limit for busy machines.
const PATIENCE: Duration = Duration::from_secs(150);

/// A tree with a file that takes 15 s at `--limit 2MB`, so that even a very busy machine acts in the middle
/// of it.
fn slow_tree(root: &Path) {
    fs::write(root.join("small"), pattern(1000)).unwrap();
    fs::write(root.join("zz big"), pattern(30_000_000)).unwrap();
}

/// Starts a slow mirror, and waits until part of the big file is on the disk.
fn begin(room: &Room, url: &str, mode: &str, copy: &Path, more: &[&str]) -> Child {
    let child = braidftp(&room.home())
        .args(["mirror", url, copy.to_str().unwrap(), "--mode", mode, "--limit", "2MB"])
        .args(more)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let part = copy.join(".zz big.braidftp-part");
    let start = Instant::now();
    while fs::metadata(&part).map_or(0, |m| m.len()) < 300_000 {
        assert!(start.elapsed() < PATIENCE, "{mode}: nothing came");
        sleep(Duration::from_millis(10));
    }
    child
}

/// Checks that there is no incomplete file under a final name, and that the same command resumes.
fn goes_on(room: &Room, url: &str, mode: &str, tree: &Path, copy: &Path) {
    assert!(!copy.join("zz big").exists(), "{mode}: a half file has the final name");
    let (code, out, err) =
        cli(&room.home(), &["mirror", url, copy.to_str().unwrap(), "--mode", mode, "--json"]);
    assert_eq!(code, 0, "{mode}: {err}");
    assert_same(tree, copy);
    let big = out.lines().find(|line| line.contains("zz big")).unwrap_or_else(|| panic!("{out}"));
    let big: serde_json::Value = serde_json::from_str(big).unwrap();
    assert!(big["resumed"].as_u64().unwrap_or(0) >= 256 * 1024, "{mode}: it began anew: {big}");
}

#[test]
fn ctrl_c_leaves_no_incomplete_file_and_the_same_command_resumes() {
    let room = Room::new();
    let tree = room.folder("tree");
    slow_tree(&tree);
    let server = Served::new(&tree);
    for mode in ["tcp", "naive", "ms", "ms-cp", "braid"] {
        let copy = room.path(mode);
        let child = begin(&room, &server.url(mode), mode, &copy, &[]);
        run(Command::new("kill").args(["-INT", &child.id().to_string()]));
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{mode}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("run the same command again to resume"));
        goes_on(&room, &server.url(mode), mode, &tree, &copy);
    }
}

#[test]
fn a_silent_server_is_detected_in_time_and_the_same_command_resumes() {
    let room = Room::new();
    let tree = room.folder("tree");
    slow_tree(&tree);
    for mode in ["ms", "braid"] {
        let server = Served::new(&tree);
        let link = server.link("delay=1ms");
        let copy = room.path(mode);
        let url = format!("ftp+sctp://{}/", link.local_addr());
        let mut child = begin(&room, &url, mode, &copy, &["--timeout", "4"]);
        // No more packets arrive, without any notification.
        let _ = link.stop();
        let start = Instant::now();
        let status = child.wait().unwrap();
        assert!(matches!(status.code(), Some(8 | 11)), "{mode}: {status}");
        assert!(start.elapsed() < PATIENCE, "{mode}");
        goes_on(&room, &server.url(mode), mode, &tree, &copy);
    }
}

#[test]
fn a_dead_association_is_replaced_by_a_new_one() {
    let room = Room::new();
    let tree = room.folder("tree");
    slow_tree(&tree);
    let server = Served::new(&tree);
    let link = server.link("delay=1ms");
    let address = link.local_addr();
    let copy = room.path("copy");
    let url = format!("ftp+sctp://{address}/");
    let mut child = begin(&room, &url, "braid", &copy, &["--timeout", "10", "--retries", "20"]);
    let _ = link.stop();
    // A socket that nobody reads: packets vanish, without an ICMP error.
    let hole = UdpSocket::bind(address).unwrap();
    // The link is restored when the old association has ended.
    let mut said = BufReader::new(child.stderr.take().unwrap());
    wait_for_words(&mut said, "no packet has come for 10 s");
    drop(hole);
    let _link = server.link_at(address, "delay=1ms");
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_same(&tree, &copy);
}

/// Reads a child's standard error until a line contains these words.
fn wait_for_words(said: &mut impl BufRead, words: &str) {
    let mut line = String::new();
    while !line.contains(words) {
        line.clear();
        assert!(said.read_line(&mut line).unwrap() > 0, "it ended before `{words}`");
    }
}

#[test]
fn reconnects_without_answer_are_repeated_up_to_retries() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("zz big"), pattern(3_000_000)).unwrap();
    for (mode, address) in [("tcp", "127.0.14.4:0"), ("braid", "127.0.14.5:0")] {
        let any = address.parse().unwrap();
        let server = Served::at(&tree, Access::ReadOnly, any, any);
        let (tcp, udp, url) = (server.tcp, server.udp, server.url(mode));
        let copy = |name: &str| room.path(&format!("{mode} {name}"));
        let with = |retries: &'static str| ["--retries", retries, "--timeout", "2"];
        let mut gives_up = begin(&room, &url, mode, &copy("gives up"), &with("2"));
        let mut goes_on = begin(&room, &url, mode, &copy("goes on"), &with("60"));
        drop(server);
        // The port exists, but answers neither packets nor connections.
        let start = Instant::now();
        let silent = loop {
            if let (Ok(tcp), Ok(udp)) = (TcpListener::bind(tcp), UdpSocket::bind(udp)) {
                break (tcp, udp);
            }
            assert!(start.elapsed() < PATIENCE, "{mode}: the ports are not free");
            sleep(Duration::from_millis(1));
        };
        let mut said = BufReader::new(gives_up.stderr.take().unwrap());
        wait_for_words(&mut said, "(1 of 2)");
        wait_for_words(&mut said, "(2 of 2)");
        assert!(matches!(gives_up.wait().unwrap().code(), Some(8 | 11)), "{mode}");
        let mut said = BufReader::new(goes_on.stderr.take().unwrap());
        wait_for_words(&mut said, "(3 of 60)");
        drop(silent);
        let _server = Served::at(&tree, Access::ReadOnly, tcp, udp);
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        assert_eq!(goes_on.wait().unwrap().code(), Some(0), "{mode}");
        assert_same(&tree, &copy("goes on"));
    }
}

#[test]
fn a_job_continues_after_a_server_restart() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("zz big"), pattern(3_000_000)).unwrap();
    for (mode, address) in [("tcp", "127.0.14.1:0"), ("braid", "127.0.14.2:0")] {
        // Own addresses, so that no other program takes the ports meanwhile.
        let any = address.parse().unwrap();
        let server = Served::at(&tree, Access::ReadOnly, any, any);
        let (tcp, udp, url) = (server.tcp, server.udp, server.url(mode));
        let copy = room.path(mode);
        let mut child = begin(&room, &url, mode, &copy, &["--retries", "8", "--timeout", "30"]);
        drop(server);
        let _server = Served::at(&tree, Access::ReadOnly, tcp, udp);
        let status = child.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{mode}");
        assert_same(&tree, &copy);
    }
}

#[test]
fn a_job_continues_after_a_server_restart_before_the_login() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("zz big"), "small").unwrap();
    let any: SocketAddr = "127.0.14.6:0".parse().unwrap();
    let dying = TcpListener::bind(any).unwrap();
    let tcp = dying.local_addr().unwrap();
    let copy = room.path("copy");
    let args = ["mirror", &format!("ftp://{tcp}/"), copy.to_str().unwrap(), "--plain", "--retries", "8"];
    let mut child = braidftp(&room.home()).args(args).stderr(Stdio::null()).spawn().unwrap();
    let (mut control, _) = dying.accept().unwrap();
    control.write_all(b"220 hello\r\n").unwrap();
    drop((control, dying));
    let _server = Served::at(&tree, Access::ReadOnly, tcp, any);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_same(&tree, &copy);
}

#[test]
fn an_upload_is_resumed() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    fs::write(tree.join("big"), pattern(30_000_000)).unwrap();
    let server = Served::writable(&store);
    for mode in ["ms", "braid"] {
        let url = format!("{}{mode}", server.url(mode));
        let args = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode];
        let child =
            braidftp(&room.home()).args(args).args(["--limit", "2MB"]).stderr(Stdio::null()).spawn().unwrap();
        let part = store.join(mode).join(".big.braidftp-part");
        let start = Instant::now();
        while fs::metadata(&part).map_or(0, |m| m.len()) < 300_000 {
            assert!(start.elapsed() < PATIENCE, "{mode}: nothing came");
            sleep(Duration::from_millis(10));
        }
        run(Command::new("kill").args(["-INT", &child.id().to_string()]));
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(130), "{mode}");
        assert_eq!(names(&store.join(mode)), [".big.braidftp-part"], "{mode}");
        let (code, out, err) = cli(&room.home(), &[&args[..], &["--json"]].concat());
        assert_eq!(code, 0, "{mode}: {err}");
        assert_same(&tree, &store.join(mode));
        assert!(out.contains("\"resumed\":"), "{mode}: it began anew: {out}");
    }
}

#[test]
fn each_error_has_its_exit_code_and_a_hint() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("file"), "x").unwrap();
    let server = Served::new(&tree);
    let (tcp, sctp) = (server.url("tcp"), server.url("braid"));
    // An address of this host without a listener, which the system does not assign.
    let free = "127.0.14.3:7";
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = tree.join("file");
    let local = local.to_str().unwrap();
    let out = room.path("out");
    let out = out.to_str().unwrap();
    let cases: &[(&[&str], i32)] = &[
        (&["get"], 1),
        (&["frobnicate"], 1),
        (&["ls", "http://h/"], 1),
        (&["ls", "ftps://h/", "--plain"], 1),
        (&["ls", &tcp, "--mode", "braid"], 1),
        (&["ls", &sctp, "--mode", "tcp"], 1),
        (&["ls", &sctp, "--mode", "warp"], 1),
        (&["ls", &sctp, "--cc", "warp"], 1),
        (&["ls", &sctp, "--profile", "warp"], 1),
        (&["ls", &sctp, "--path", "192.0.2.77"], 1),
        (&["ls", &tcp, "--pcap", "x"], 1),
        (&["ls", &tcp, "--packet-log", "x"], 1),
        (&["mirror", &tcp, out, "--exclude", "["], 1),
        (&["mirror", out, &tcp], 1),
        (&["ls", &format!("ftp://{free}/"), "--timeout", "4"], 2),
        (&["ls", &format!("ftp+sctp://{free}/"), "--timeout", "4"], 2),
        (&["ls", "ftp://no-such-host.invalid/"], 2),
        (&["ls", &tcp.replace("://", "://nobody:x@")], 4),
        (&["ls", "--plain", &tcp.replace("://", "://nobody:x@")], 4),
        (&["ls", &sctp.replace("://", "://nobody:x@")], 4),
        (&["get", &format!("{tcp}nothing"), "-o", out], 5),
        (&["get", &format!("{sctp}nothing"), "-o", out], 5),
        (&["mirror", &format!("{sctp}nothing"), out], 5),
        (&["mirror", &format!("{tcp}nothing"), out], 5),
        (&["put", "/no/such/file", &sctp], 6),
        (&["mirror", &sctp, "/proc/self/none"], 6),
        (&["ls", &format!("ftp://{}/", silent.local_addr().unwrap()), "--timeout", "4"], 8),
    ];
    for (args, expected) in cases {
        let (code, _, err) = cli(&room.home(), args);
        assert_eq!(code, *expected, "{args:?}: {err}");
        assert!(err.len() > 20, "{args:?} says nothing");
        if code != 1 {
            assert!(err.contains("  try: "), "{args:?} says nothing to try: {err}");
        }
    }
    // Read-only: refused, although the path exists.
    for url in [&tcp, &sctp] {
        let (code, _, err) = cli(&room.home(), &["put", local, &format!("{url}new")]);
        assert_eq!(code, 7, "{err}");
    }
    // Some files succeed, some fail.
    let (code, _, err) =
        cli(&room.home(), &["get", &format!("{sctp}file"), &format!("{sctp}nothing"), "-o", out]);
    assert_eq!(code, 10, "{err}");
    assert_eq!(names(Path::new(out)), ["file"]);
}

#[test]
fn passwords_are_read_from_environment_and_netrc_and_a_password_in_the_url_causes_a_warning() {
    let room = Room::new();
    let tree = room.folder("tree");
    let server = Served::new(&tree);
    let url = server.url("tcp");
    let (_, _, err) = cli(&room.home(), &["ls", &url.replace("://", "://bob:secret@"), "-v"]);
    assert!(err.contains("ps") && !err.contains("secret"), "{err}");
    // A .netrc that others can read is refused.
    let netrc = room.home().join(".netrc");
    fs::write(&netrc, "machine 127.0.0.1 login anonymous password me@\n").unwrap();
    let (code, _, err) = cli(&room.home(), &["ls", &url]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("chmod 600"), "{err}");
    run(Command::new("chmod").arg("600").arg(&netrc));
    let (code, _, err) = cli(&room.home(), &["ls", &url]);
    assert_eq!(code, 0, "{err}");
    let (code, _, _) = run(braidftp(&room.home())
        .args(["ls", "--plain", &url])
        .env("BRAIDFTP_USER", "bob")
        .env("BRAIDFTP_PASSWORD", "x"));
    assert_eq!(code, 4);
}
