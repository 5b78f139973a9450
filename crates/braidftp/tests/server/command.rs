//! `braidftp serve` as a program: its output, its exit codes, and how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::server_support::program::{Running, braidftp};
use crate::server_support::{Folder, assert_same_tree, connect_from, eventually, pattern, run_well};
use rustix::process::Signal;

/// Starts `braidftp serve` with a folder; it only prints its key and its addresses.
fn start(folder: &Path, arguments: &[&str]) -> Running {
    let mut all = vec!["serve", folder.to_str().unwrap()];
    all.extend(arguments);
    let listeners = arguments.iter().filter(|argument| **argument == "--listen").count();
    let running = Running::start(braidftp(&all), listeners);
    let keys = usize::from(!arguments.contains(&"--plain"));
    assert_eq!(running.before.len(), keys, "{:?}", running.before);
    assert!(running.before.iter().all(|line| line.starts_with("key SHA256:")), "{:?}", running.before);
    running
}

#[test]
fn it_prints_its_addresses_and_ends_in_order_on_sigterm() {
    let folder = Folder::new();
    folder.put("f", "hello");
    let both = ["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"];
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = start(&folder.path(""), &both);
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
    let listen = ["--writable", "--drain-seconds", "1", "--listen", "ftp://127.0.0.1:0"];
    let mut server = start(&folder.path(""), &listen);
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
    // The upload continues for ever, the server does not.
    server.signal(Signal::TERM);
    assert!(server.ended().success());
    assert!(!folder.path("f").exists());
    assert_eq!(folder.names(), [".f.braidftp-part"], "what had come can be continued");
}

/// A draining server has 30 s.
#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = Folder::new();
    folder.put("f", pattern(30_000_000));
    let took = end_by_two_signals(&folder);
    assert!(took < Duration::from_secs(25), "{took:?}");
}

fn end_by_two_signals(folder: &Folder) -> Duration {
    let mut server = start(&folder.path(""), &["--listen", "ftp://127.0.0.1:0"]);
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

/// A session in the middle of an unread download, and its data connection.
fn stuck_download(server: &Running, control: &mut BufReader<TcpStream>) -> TcpStream {
    control.get_mut().write_all(b"USER anonymous\r\nPASS x@\r\nTYPE I\r\nEPSV\r\nRETR f\r\n").unwrap();
    let passive = line_with(control, "229");
    let port = passive.split('|').nth(3).unwrap().parse().unwrap();
    let data = connect_from(SocketAddr::new(server.tcp().ip(), port), None);
    line_with(control, "150");
    data
}

fn line_with(reader: &mut impl BufRead, beginning: &str) -> String {
    let mut line = String::new();
    while !line.starts_with(beginning) {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "no line begins with {beginning}");
    }
    line
}

#[test]
fn a_server_that_drains_tells_new_sessions_421_and_ends_when_the_last_transfer_is_over() {
    let folder = Folder::new();
    folder.put("f", pattern(30_000_000));
    let mut server = start(&folder.path(""), &["--drain-seconds", "600", "--listen", "ftp://127.0.0.1:0"]);
    let mut control = BufReader::new(connect_from(server.tcp(), None));
    let mut data = stuck_download(&server, &mut control);
    server.signal(Signal::TERM);
    eventually("a new session is told 421", || {
        let mut said = String::new();
        let _ = connect_from(server.tcp(), None).read_to_string(&mut said);
        said.starts_with("421 ")
    });
    assert!(server.child.try_wait().unwrap().is_none(), "the transfer is not over");
    let mut got = Vec::new();
    data.read_to_end(&mut got).unwrap();
    assert!(got == pattern(30_000_000));
    assert!(line_with(&mut control, "226").starts_with("226"));
    assert!(server.ended().success());
}

#[test]
fn an_example_of_the_settings_is_printed_and_each_mistake_is_reported_with_its_place() {
    let folder = Folder::new();
    let settings = folder.outer.path().join("braidftp.toml");
    let check = |more: &[&str]| {
        let mut arguments = vec!["serve", "--check", "--plain", "--config", settings.to_str().unwrap()];
        arguments.extend(more);
        let output = braidftp(&arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let example = braidftp(&["serve", "--print-config"]).output().unwrap();
    assert!(example.status.success());
    std::fs::write(&settings, &example.stdout).unwrap();
    let here = folder.path("");
    let (code, said) = check(&["--listen", "ftp://127.0.0.1:0", here.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{said}");
    std::fs::write(&settings, "wriable = true\numask = '9'\n").unwrap();
    let (code, said) = check(&[]);
    assert_eq!(code, Some(1));
    for place in [
        ":1:1: there is no key `wriable`; did you mean `writable`?",
        ":2:9: umask: expected three octal digits",
    ] {
        assert!(said.contains(&format!("{}{place}", settings.display())), "{said}");
    }
}

#[test]
fn settings_are_read_again_on_a_signal_and_no_transfer_is_dropped() {
    let folder = Folder::new();
    folder.put("f", pattern(30_000_000));
    let settings = folder.outer.path().join("braidftp.toml");
    let write = |text: &str| std::fs::write(&settings, format!("umask = '027'\n{text}")).unwrap();
    write("greeting = 'one'\n");
    let arguments = ["-v", "--listen", "ftp://127.0.0.1:0", "--config", settings.to_str().unwrap()];
    let mut server = start(&folder.path(""), &arguments);
    let mut control = BufReader::new(connect_from(server.tcp(), None));
    let mut data = stuck_download(&server, &mut control);
    // Errors change nothing.
    write("greeting = 'two'\nmax-sessins = 1\n");
    server.signal(Signal::HUP);
    let told = |server: &mut Running, words: &str| {
        let mut line = String::new();
        while !line.contains(words) {
            line.clear();
            assert_ne!(server.stderr.read_line(&mut line).unwrap(), 0, "it does not say {words}");
        }
    };
    told(&mut server, "did you mean `max-sessions`?");
    told(&mut server, "keeps its settings and users");
    let greeting = |server: &Running| {
        let mut line = String::new();
        BufReader::new(connect_from(server.tcp(), None)).read_line(&mut line).unwrap();
        line
    };
    assert!(greeting(&server).contains("one"));
    write("greeting = 'two'\nmax-sessions-per-address = 1\nprofile = 'rfc9260'\n");
    server.signal(Signal::HUP);
    told(&mut server, "profile, cc or multipath has changed: restart the server to apply it");
    told(&mut server, "read again");
    let refused = line_with(&mut BufReader::new(connect_from(server.tcp(), None)), "4");
    assert!(refused.starts_with("421 "), "{refused}");
    let mut got = Vec::new();
    data.read_to_end(&mut got).unwrap();
    assert!(got == pattern(30_000_000));
    line_with(&mut control, "226");
    drop(control);
    eventually("the new greeting", || greeting(&server).contains("two"));
}

#[test]
fn lines_of_the_log_are_json_with_the_number_of_their_session() {
    let folder = Folder::new();
    let arguments = ["-v", "--log-format", "json", "--listen", "ftp://127.0.0.1:0"];
    let mut server = start(&folder.path(""), &arguments);
    let mut control = BufReader::new(connect_from(server.tcp(), None));
    control.get_mut().write_all(b"USER anonymous\r\nPASS x@\r\nQUIT\r\n").unwrap();
    line_with(&mut control, "221");
    let mut line = String::new();
    while !line.contains("logged in") {
        line.clear();
        server.stderr.read_line(&mut line).unwrap();
    }
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["span"]["id"], &line["message"]), (&1.into(), &"logged in".into()), "{line}");
}

#[test]
fn an_invalid_server_has_an_exit_code_and_advice() {
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
    let server = start(&folder.path(""), &listen);
    let url = format!("ftp://anna:pass%20word@{}/f", server.tcp());
    if let Some(got) = run_well("curl", &["-sS", "--max-time", "120", &url], &folder.path(""), "") {
        assert_eq!(got, "hers");
    }
}

/// The replies to many SIZEs wait on stream 0 while small files are sent on stream 1. A file whose 150 is
/// still among them must not fill the client's window, because it would never be read.
#[test]
fn ms_cp_moves_many_small_files_beside_a_large_one() {
    let folder = Folder::new();
    for i in 0..1500 {
        folder.put(format!("d{}/f{i}", i % 20), pattern(i * 37 % 9000));
    }
    folder.put("large", pattern(30_000_000));
    let server = start(&folder.path(""), &["--allow-plain", "--listen", "ftp+sctp://127.0.0.1:0"]);
    let copy = folder.outer.path().join("copy");
    let arguments =
        ["mirror", "--mode", "ms-cp", "--timeout", "60", "-q", &server.places[0], copy.to_str().unwrap()];
    let output = braidftp(&arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same_tree(&copy, &folder.path(""));
}
