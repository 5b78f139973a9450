//! `braidftp serve` as a program: what it says, its exit codes, and how it ends.

mod server_support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use server_support::{Folder, assert_same_tree, connect_from, eventually, pattern, run_well};

fn braidftp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidftp"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The server's key goes there, and a client finds its user's own server there.
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/command-keys"));
    command.env_remove("STATE_DIRECTORY");
    command
}

/// A server that was started, and has said where it listens.
struct Running {
    child: Child,
    places: Vec<String>,
    stderr: BufReader<ChildStderr>,
}

impl Running {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut all = vec!["serve", folder.to_str().unwrap()];
        all.extend(arguments);
        let listeners = arguments.iter().filter(|argument| **argument == "--listen").count();
        let mut child = braidftp(&all).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut places = Vec::new();
        let mut line = String::new();
        if !arguments.contains(&"--plain") {
            stderr.read_line(&mut line).unwrap();
            assert!(line.starts_with("key SHA256:"), "{line}");
        }
        for _ in 0..listeners {
            line.clear();
            stderr.read_line(&mut line).unwrap();
            let place = line.strip_prefix("listening ").unwrap_or_else(|| panic!("{line}"));
            places.push(place.trim_end().to_owned());
        }
        Self { child, places, stderr }
    }

    fn tcp(&self) -> SocketAddr {
        self.places[0].strip_prefix("ftp://").unwrap().parse().unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        eventually("the server ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_says_where_it_listens_and_ends_in_order_when_told_to() {
    let folder = Folder::new();
    folder.put("f", "hello");
    let both = ["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"];
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Running::start(&folder.path(""), &both);
        assert!(server.places[1].starts_with("ftp+sctp://127.0.0.1:"), "{:?}", server.places);
        let url = format!("{}/f", server.places[0]);
        if let Some(got) = run_well("curl", &["-sS", "--max-time", "120", &url], &folder.path(""), "") {
            assert_eq!(got, "hello");
        }
        server.signal(signal);
        assert!(server.ended().success());
        let mut said = String::new();
        server.stderr.read_to_string(&mut said).unwrap();
        assert_eq!(said, "", "nothing to say by default");
    }
}

#[test]
fn a_signal_in_the_middle_of_an_upload_leaves_no_half_file() {
    let folder = Folder::new();
    let listen = ["--writable", "--listen", "ftp://127.0.0.1:0"];
    let mut server = Running::start(&folder.path(""), &listen);
    let mut control = BufReader::new(connect_from(server.tcp(), None));
    let mut ask = |line: &str, code: &str| {
        if !line.is_empty() {
            control.get_mut().write_all(format!("{line}\r\n").as_bytes()).unwrap();
        }
        let mut reply = String::new();
        control.read_line(&mut reply).unwrap();
        assert!(reply.starts_with(code), "{line}: {reply}");
        reply
    };
    ask("", "220");
    ask("USER anonymous", "331");
    ask("PASS x@", "230");
    ask("TYPE I", "200");
    let passive = ask("EPSV", "229");
    let port = passive.split('|').nth(3).unwrap().parse().unwrap();
    let mut data = connect_from(SocketAddr::new(server.tcp().ip(), port), None);
    ask("STOR f", "150");
    data.write_all(&pattern(3_000_000)).unwrap();
    // The upload goes on for ever, the server does not.
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!folder.path("f").exists());
    assert_eq!(folder.names(), [".f.braidftp-part"], "what had come can be continued");
}

/// A server that finishes what runs has 3 s for it. A machine that is busy may need as long to do nothing at all: of
/// several tries one must be quicker.
#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = Folder::new();
    folder.put("f", pattern(30_000_000));
    let mut took = Vec::new();
    while took.len() < 5 && took.last().is_none_or(|last| *last > AT_ONCE) {
        took.push(end_by_two_signals(&folder));
    }
    assert!(took.last().is_some_and(|last| *last <= AT_ONCE), "{took:?}");
}

const AT_ONCE: Duration = Duration::from_millis(2_500);

fn end_by_two_signals(folder: &Folder) -> Duration {
    let mut server = Running::start(&folder.path(""), &["--listen", "ftp://127.0.0.1:0"]);
    let mut control = connect_from(server.tcp(), None);
    control.write_all(b"USER anonymous\r\nPASS x@\r\nTYPE I\r\nEPSV\r\nRETR f\r\n").unwrap();
    let mut reader = BufReader::new(control.try_clone().unwrap());
    let passive = loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.starts_with("229") {
            break line;
        }
    };
    let port = passive.split('|').nth(3).unwrap().parse().unwrap();
    // A transfer that does not end, because nobody reads it.
    let _data = connect_from(SocketAddr::new(server.tcp().ip(), port), None);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert!(line.starts_with("150"), "{line}");
    let begin = Instant::now();
    server.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(200));
    server.signal(Signal::INT);
    assert!(server.ended().success());
    begin.elapsed()
}

#[test]
fn what_cannot_be_served_has_its_exit_code_and_advice() {
    let folder = Folder::new();
    let here = folder.path("");
    let here = here.to_str().unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let tcp_url = format!("ftp://{}", taken.local_addr().unwrap());
    let udp_url = format!("ftp+sctp://{}", udp.local_addr().unwrap());
    let users = folder.outer.path().join("users.toml");
    std::fs::write(&users, "[[user]]\nname = 'a'").unwrap();
    let users = users.to_str().unwrap();
    for (arguments, code, words) in [
        (&["serve", here, "--listen", &tcp_url][..], 2, "choose another port"),
        (&["serve", here, "--listen", &udp_url], 2, "choose another port"),
        (&["serve", here, "--listen", "ftp://192.0.2.1:2121"], 2, "this host has no such address"),
        (&["serve", "/nowhere", "--listen", "ftp://127.0.0.1:0"], 6, "no such file"),
        (&["serve", here, "--listen", "gopher://x"], 1, "ftp+sctp://"),
        (&["serve", here, "--users", users], 1, "--hash-password"),
        (&["serve", here, "--config", "/nowhere"], 1, "/nowhere"),
        (&["serve"], 1, "DIR"),
    ] {
        let output = braidftp(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(words), "{arguments:?}: {said}");
        assert!(!said.contains("listening"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_password_becomes_a_line_for_the_users_file() {
    let mut child = braidftp(&["serve", "--hash-password"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"pass word\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let hash = String::from_utf8(output.stdout).unwrap();
    assert!(hash.starts_with("$argon2id$"), "{hash}");
    let folder = Folder::new();
    folder.put("anna/f", "hers");
    let users = folder.outer.path().join("users.toml");
    let text = format!("[[user]]\nname = 'anna'\nhash = '{}'\nhome = 'anna'\n", hash.trim_end());
    std::fs::write(&users, text).unwrap();
    let listen =
        ["--listen", "ftp://127.0.0.1:0", "--users", users.to_str().unwrap(), "--allow-plain-passwords"];
    let server = Running::start(&folder.path(""), &listen);
    let url = format!("ftp://anna:pass%20word@{}/f", server.tcp());
    if let Some(got) = run_well("curl", &["-sS", "--max-time", "120", &url], &folder.path(""), "") {
        assert_eq!(got, "hers");
    }
}

/// The replies to many SIZEs wait on stream 0 while small files leave on stream 1. A file whose 150 is still among
/// them must not fill the client's window: it would never be read.
#[test]
fn ms_cp_moves_many_small_files_beside_a_large_one() {
    let folder = Folder::new();
    for i in 0..1500 {
        folder.put(format!("d{}/f{i}", i % 20), pattern(i * 37 % 9000));
    }
    folder.put("large", pattern(30_000_000));
    let server = Running::start(&folder.path(""), &["--allow-plain", "--listen", "ftp+sctp://127.0.0.1:0"]);
    let copy = folder.outer.path().join("copy");
    let arguments =
        ["mirror", "--mode", "ms-cp", "--timeout", "60", "-q", &server.places[0], copy.to_str().unwrap()];
    let output = braidftp(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same_tree(&copy, &folder.path(""));
}
