//! Hooks of `braidftp serve`: a program or a URL, after uploads, downloads and logins, with a confined
//! server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use crate::server_support::program::{Running, braidftp};
use crate::server_support::{Control, Folder, PATIENCE, eventually};

/// Starts a server with hooks.
fn start(folder: &Folder, hooks: &str) -> Running {
    let settings = folder.outer.path().join("braidftp.toml");
    std::fs::write(&settings, format!("writable = true\nhook-queue = {:?}\n{hooks}", queue(folder))).unwrap();
    let (settings, here) = (settings.to_str().unwrap(), folder.path(""));
    let arguments =
        ["serve", "--plain", "--listen", "ftp://127.0.0.1:0", "--config", settings, here.to_str().unwrap()];
    Running::start(braidftp(&arguments), 1)
}

fn queue(folder: &Folder) -> PathBuf {
    folder.outer.path().join("queue")
}

fn waiting(folder: &Folder) -> usize {
    let names = std::fs::read_dir(queue(folder)).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| !name.as_encoded_bytes().starts_with(b".")).count()
}

/// A hook that runs a script, in which `OUT` is a file beside the served folder.
fn hook(folder: &Folder, more: &str, script: &str) -> (String, PathBuf) {
    let out = folder.outer.path().join("out");
    let script = script.replace("OUT", out.to_str().unwrap());
    (format!("[[hook]]\nname = 'test'\n{more}\nrun = ['/bin/sh', '-c', '{script}']\n"), out)
}

fn read(path: &PathBuf) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn a_program_receives_logins_uploads_and_downloads_and_no_failed_ones() {
    let folder = Folder::new();
    let on = "on = ['login', 'upload', 'download']";
    let (hooks, out) =
        hook(&folder, on, "cat >> OUT; echo \" $BRAIDFTP_HOOK_EVENT $BRAIDFTP_HOOK_PATH\" >> OUT");
    let server = start(&folder, &hooks);
    let mut session = Control::at(server.tcp(), None).log_in();
    assert!(session.store("STOR a b", b"12345").starts_with("226"));
    assert!(session.fetch("RETR missing").1.starts_with("550"));
    assert!(session.fetch("RETR a b").1.starts_with("226"));
    eventually("three events", || read(&out).lines().count() == 3);
    let said = read(&out);
    let event = |line: &str| -> serde_json::Value {
        serde_json::Deserializer::from_str(line).into_iter().next().unwrap().unwrap()
    };
    // The event of a transfer is recorded after its reply, so that a busy machine may run the next one's program first.
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_by_key(|line| event(line)["time_us"].as_u64());
    assert!(lines[0].ends_with(" login ") && lines[1].ends_with(" upload /a b"), "{lines:#?}");
    assert_eq!((&event(lines[0])["user"], &event(lines[0])["session"]), (&"anonymous".into(), &1.into()));
    let upload = event(lines[1]);
    assert_eq!((&upload["event"], &upload["bytes"]), (&"upload".into(), &5.into()));
    assert_eq!(upload["file"], folder.path("a b").canonicalize().unwrap().to_str().unwrap());
    assert_eq!(event(lines[2])["event"], "download");
    eventually("the queue is empty", || waiting(&folder) == 0);
}

#[test]
fn a_failed_hook_is_repeated_and_a_hanging_one_is_killed_with_its_children() {
    let folder = Folder::new();
    let (hooks, out) =
        hook(&folder, "on = ['login']", "test -e OUT && echo again >> OUT || { touch OUT; exit 3; }");
    let mut server = start(&folder, &hooks);
    Control::at(server.tcp(), None).log_in();
    let said = server.told("hook test");
    assert!(said.contains("exit status: 3; again in 1 s"), "{said}");
    eventually("the second attempt", || read(&out) == "again\n");
    eventually("the queue is empty", || waiting(&folder) == 0);
    drop(server);
    let more = "on = ['login']\ntimeout-seconds = 1\nattempts = 1";
    let (hooks, out) = hook(&folder, more, "sleep 1000 & echo $! > OUT; wait");
    let mut server = start(&folder, &hooks);
    Control::at(server.tcp(), None).log_in();
    let said = server.told("hook test");
    assert!(
        said.contains("took more than 1 s and was killed; dropped after 1 attempts: {\"event\":\"login\""),
        "{said}"
    );
    let process: i32 = read(&out).trim().parse().unwrap();
    let process = rustix::process::Pid::from_raw(process).unwrap();
    eventually("what it started is gone", || {
        let state = read(&format!("/proc/{}/stat", process.as_raw_nonzero()).into());
        state.is_empty() || state.contains(") Z ")
    });
    eventually("the queue is empty", || waiting(&folder) == 0);
}

#[test]
fn events_that_wait_survive_a_server_that_is_killed() {
    let folder = Folder::new();
    let (fails, _) = hook(&folder, "on = ['login']", "exit 1");
    let mut server = start(&folder, &fails);
    Control::at(server.tcp(), None).log_in();
    server.told("again in");
    drop(server);
    assert_eq!(waiting(&folder), 1);
    let (works, out) = hook(&folder, "on = ['login']", "cat >> OUT");
    let _server = start(&folder, &works);
    eventually("the event", || read(&out).starts_with("{\"event\":\"login\""));
    eventually("the queue is empty", || waiting(&folder) == 0);
}

#[test]
fn a_url_is_sent_the_event_until_it_is_taken() {
    let folder = Folder::new();
    let http = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = http.local_addr().unwrap();
    let hooks = format!("[[hook]]\nname = 'test'\non = ['upload']\nurl = 'http://{at}/x'\n");
    let mut server = start(&folder, &hooks);
    let mut session = Control::at(server.tcp(), None).log_in();
    assert!(session.store("STOR f", b"12345").starts_with("226"));
    let serve = |status: &str| {
        let (mut stream, _) = http.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(number) = line.to_lowercase().strip_prefix("content-length: ") {
                length = number.trim().parse().unwrap();
            }
            head.push_str(&line);
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
        (head, serde_json::from_slice::<serde_json::Value>(&body).unwrap())
    };
    serve("503 Service Unavailable");
    let said = server.told("hook test");
    assert!(said.contains("503") && said.contains("again in 1 s"), "{said}");
    let (head, event) = serve("204 No Content");
    assert!(head.starts_with("POST /x HTTP/1.1\r\n"), "{head}");
    assert_eq!((&event["path"], &event["bytes"]), (&"/f".into(), &5.into()));
    eventually("the queue is empty", || waiting(&folder) == 0);
}

#[test]
fn an_invalid_hook_is_reported_before_the_server_starts() {
    let folder = Folder::new();
    let settings = folder.outer.path().join("braidftp.toml");
    let here = folder.path("");
    for (text, why) in [
        ("hook-queue = '/q'\n[[hook]]\nname = 'a'\non = ['upload']\n", "give `run`, a program"),
        ("hook-queue = '/q'\n[[hook]]\nname = 'a'\non = ['upload']\nrun = ['sh']\n", "an absolute path"),
        (
            "hook-queue = '/q'\n[[hook]]\nname = 'a'\non = ['upload']\nrun = ['/nowhere']\n",
            "cannot run /nowhere",
        ),
        (
            "hook-queue = '/q'\n[[hook]]\nname = 'a'\non = ['upload']\nurl = 'ftp://x/'\n",
            "http:// or https://",
        ),
        ("hook-queue = '/q'\n[[hook]]\nname = 'a'\non = []\nurl = 'http://x/'\n", "`on` names upload"),
        ("hook-queue = '/q'\n[[hook]]\nname = '../a'\n", "a name is of letters"),
        ("[[hook]]\nname = 'a'\non = ['upload']\nurl = 'http://x/'\n", "hook-queue is not set"),
        (
            "[[hook]]\nname = 'a'\non = ['upl0ad']\n",
            ":3:7: on is one of upload, download, login, not `upl0ad`; did you mean `upload`?",
        ),
        ("[[hook]]\nnaqe = 'a'\n", ":2:1: there is no key `naqe`; did you mean `name`?"),
    ] {
        std::fs::write(&settings, text).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_braidftp"));
        command.args(["serve", "--plain", "--check", "--config", settings.to_str().unwrap()]).arg(&here);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(why), "{text}: {said}");
    }
}
