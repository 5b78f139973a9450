//! `braidftp serve` as a service: systemd's notifications and sockets, `braidftp ctl`, metrics, and the transfer log. Each server is
//! confined as far as this kernel goes.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::server_support::program::{Running, braidftp};
use crate::server_support::{Control, Folder, PATIENCE, connect_from, eventually, pattern, run};
use rustix::process::{Signal, Uid};

fn serve(folder: &Folder, more: &[&str]) -> Command {
    let here = folder.path("");
    let mut arguments = vec!["serve", here.to_str().unwrap(), "--plain", "--listen", "ftp://127.0.0.1:0"];
    arguments.extend(more);
    braidftp(&arguments)
}

#[test]
fn systemd_is_notified_when_the_server_is_ready_alive_reloads_and_stops() {
    let folder = Folder::new();
    let settings = folder.outer.path().join("braidftp.toml");
    std::fs::write(&settings, "greeting = 'one'\n").unwrap();
    let socket = folder.outer.path().join("notify");
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = serve(&folder, &["--config", settings.to_str().unwrap()]);
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "100000");
    let mut server = Running::start(command, 1);
    let next = |beginning: &str| loop {
        let mut bytes = [0; 500];
        let length = systemd.recv(&mut bytes).unwrap_or_else(|error| panic!("no {beginning}: {error}"));
        let said = String::from_utf8_lossy(&bytes[..length]).into_owned();
        if said.starts_with(beginning) {
            return said;
        }
    };
    next("READY=1");
    for _ in 0..3 {
        next("WATCHDOG=1");
    }
    server.signal(Signal::HUP);
    assert!(next("RELOADING=1").contains("\nMONOTONIC_USEC="));
    next("READY=1");
    server.signal(Signal::TERM);
    assert_eq!(next("STOPPING=1"), "STOPPING=1\nEXTEND_TIMEOUT_USEC=45000000");
    assert!(server.ended().success());
}

/// A command that receives these sockets as from systemd, from descriptor 3 on.
fn passing(command: &Command, sockets: &[i32]) -> Command {
    let redirections: Vec<String> =
        sockets.iter().enumerate().map(|(at, fd)| format!("{}<&{fd}", at + 3)).collect();
    let script =
        format!("exec {}; LISTEN_FDS={} LISTEN_PID=$$ exec \"$@\"", redirections.join(" "), sockets.len());
    let mut shell = Command::new("bash");
    shell.args(["-c", &script, "bash"]).arg(command.get_program()).args(command.get_args());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    shell
}

#[test]
fn sockets_of_systemd_are_served_and_an_unnamed_one_is_reported() {
    let folder = Folder::new();
    folder.put("f", "hello");
    // Above those to which the shell moves them.
    let keep = |fd: std::os::fd::BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 50).unwrap();
    let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    let (at_tcp, at_udp) = (tcp.local_addr().unwrap(), udp.local_addr().unwrap());
    let fds = [keep(std::os::fd::AsFd::as_fd(&tcp)), keep(std::os::fd::AsFd::as_fd(&udp))];
    for fd in &fds {
        rustix::io::fcntl_setfd(fd, rustix::io::FdFlags::empty()).unwrap();
    }
    let raw = fds.each_ref().map(AsRawFd::as_raw_fd);
    let here = folder.path("");
    let mut arguments = vec!["serve", here.to_str().unwrap(), "--plain"];
    let server = Running::start(passing(&braidftp(&arguments), &raw), 2);
    assert_eq!(server.places, [format!("ftp://{at_tcp}"), format!("ftp+sctp://{at_udp}")]);
    for url in [format!("ftp://{at_tcp}/f"), format!("ftp+sctp://{at_udp}/f")] {
        let got = braidftp(&["cat", "--plain", &url]).output().unwrap();
        assert_eq!(got.stdout, b"hello", "{url}: {}", String::from_utf8_lossy(&got.stderr));
    }
    drop(server);
    let named = format!("ftp://{at_tcp}");
    arguments.extend(["--listen", &named]);
    let output = passing(&braidftp(&arguments), &raw).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("has passed a socket for ftp+sctp://{at_udp}")), "{said}");
    let server = Running::start(passing(&braidftp(&arguments), &raw[..1]), 1);
    Control::at(server.tcp(), None);
}

/// The output of `braidftp ctl`.
fn ctl(socket: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut all = vec!["ctl"];
    all.extend(arguments);
    all.extend(["--control", socket.to_str().unwrap()]);
    let output = braidftp(&all).output().unwrap();
    let both = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&both).into_owned())
}

#[test]
fn an_operator_sees_sessions_ends_one_and_has_the_server_drain() {
    let folder = Folder::new();
    folder.put("f", pattern(30_000_000));
    let socket = folder.outer.path().join("control");
    let mut server = Running::start(serve(&folder, &["--control", socket.to_str().unwrap()]), 1);
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ctl(&socket, &["who"]), (Some(0), "no sessions\n".into()));
    let mut one = Control::at(server.tcp(), None).log_in();
    let mut other = Control::at(server.tcp(), None).log_in();
    let data = one.begin("RETR f");
    let (_, said) = ctl(&socket, &["--json", "who"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let first = &said["sessions"][0];
    assert_eq!(
        (&first["id"], &first["user"], &first["mode"]),
        (&1.into(), &"anonymous".into(), &"tcp".into())
    );
    assert_eq!(first["transfers"][0]["path"], "/f", "{said}");
    assert_eq!(said["sessions"][1]["transfers"], serde_json::json!([]), "{said}");
    let (_, text) = ctl(&socket, &["who"]);
    assert!(text.starts_with("1  anonymous  127.0.0.1  tcp") && text.contains("    download /f: "), "{text}");
    assert_eq!(ctl(&socket, &["kick", "2"]), (Some(0), String::new()));
    other.expect("421");
    let (code, why) = ctl(&socket, &["kick", "7"]);
    assert!(code == Some(7) && why.contains("there is no session 7"), "{why}");
    eventually("one session", || ctl(&socket, &["stats"]).1.contains("sessions: 1\n"));
    let (_, limits) = ctl(&socket, &["limits"]);
    assert!(limits.contains("sessions at once: 200 [max-sessions]\n    beyond: "), "{limits}");
    assert_eq!(ctl(&socket, &["drain"]).0, Some(0));
    eventually("a new session is told 421", || {
        let mut said = String::new();
        let _ = connect_from(server.tcp(), None).read_to_string(&mut said);
        said.starts_with("421 ")
    });
    drop((one, data));
    assert!(server.ended().success());
    let (code, why) = ctl(&socket, &["who"]);
    assert!(code == Some(2) && why.contains("--control SOCKET"), "{why}");
    // A stale socket does not prevent the next server from creating its own.
    let server = Running::start(serve(&folder, &["--control", socket.to_str().unwrap()]), 1);
    assert_eq!(ctl(&socket, &["who"]).0, Some(0));
    let output = serve(&folder, &["--control", socket.to_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("another server listens there"));
    drop(server);
}

#[test]
fn the_control_socket_refuses_other_users_and_reports_invalid_requests() {
    let folder = Folder::new();
    let socket = folder.outer.path().join("control");
    let _server = Running::start(serve(&folder, &["--control", socket.to_str().unwrap()]), 1);
    let ask = |line: &str| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = stream.write_all(line.as_bytes());
        let mut said = String::new();
        // The server may close the connection.
        let _ = stream.read_to_string(&mut said);
        said
    };
    for nonsense in ["\n", "who\n", "{\"command\":\"who\",\"x\":1}\n", &format!("{}\n", "x".repeat(5000))] {
        let said = ask(nonsense);
        assert!(said.starts_with("{\"error\":\"not understood") || nonsense.len() > 1024, "{said}");
    }
    assert!(ask("{\"command\":\"who\"}\n").starts_with("{\"sessions\":[]}"));
    if !rustix::process::geteuid().is_root() {
        return eprintln!("LEFT OUT: another user, which takes root");
    }
    for (path, mode) in [(folder.outer.path(), 0o755), (&socket, 0o666)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let socket = socket.clone();
    let said = std::thread::spawn(move || {
        // Of this thread only.
        let nobody = Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        let mut stream = UnixStream::connect(socket).unwrap();
        let _ = stream.write_all(b"{\"command\":\"who\"}\n");
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        said
    });
    assert_eq!(said.join().unwrap(), "");
}

#[test]
fn a_scraper_gets_the_counters_and_a_silent_one_blocks_no_other() {
    let folder = Folder::new();
    folder.put("f", pattern(100_000));
    let address = {
        let free = TcpListener::bind("127.0.0.31:0").unwrap();
        free.local_addr().unwrap()
    };
    let mut command =
        serve(&folder, &["--metrics", &address.to_string(), "--listen", "ftp+sctp://127.0.0.1:0"]);
    command.arg("--writable");
    let server = Running::start(command, 2);
    let mut session = Control::at(server.tcp(), None).log_in();
    assert_eq!(session.fetch("RETR f").0.len(), 100_000);
    assert!(session.fetch("RETR missing").1.starts_with("550"));
    assert!(session.store("STOR g", &pattern(5000)).starts_with("226"));
    let copy = folder.outer.path().join("copy");
    let got =
        braidftp(&["mirror", "--plain", "-q", &server.places[1], copy.to_str().unwrap()]).output().unwrap();
    assert!(got.status.success(), "{}", String::from_utf8_lossy(&got.stderr));
    // As many silent connections as are served concurrently.
    let silent: Vec<_> = (0..8).map(|_| connect_from(address, None)).collect();
    let scrape = |what: &str| {
        let mut stream = connect_from(address, None);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(format!("GET {what} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    };
    let said = scrape("/metrics");
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    let value = |line: &str| -> f64 {
        let found = said.lines().find_map(|other| other.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("{line} is not in\n{said}"))
    };
    assert_eq!(value("braidftp_sessions{mode=\"tcp\"}"), 1.0);
    assert_eq!(value("braidftp_sessions_opened_total{mode=\"braid\"}"), 1.0);
    assert_eq!(value("braidftp_sessions{mode=\"braid\"}"), 0.0);
    assert_eq!(value("braidftp_transfers_finished_total{direction=\"download\",result=\"failed\"}"), 1.0);
    assert_eq!(value("braidftp_transferred_bytes_total{direction=\"upload\"}"), 5000.0);
    assert_eq!(value("braidftp_transferred_bytes_total{direction=\"download\"}"), 205_000.0);
    assert_eq!(value("braidftp_time_to_first_byte_seconds_count{direction=\"download\"}"), 3.0);
    assert!(value("braidftp_path_sent_bytes_total{local=\"127.0.0.1\"}") > 105_000.0);
    value("braidftp_path_retransmitted_chunks_total{local=\"127.0.0.1\"}");
    assert!(said.ends_with("# EOF\n"));
    assert!(scrape("/").starts_with("HTTP/1.1 404 "));
    for mut stream in silent {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0; 100]).unwrap_or(0), 0, "cut off");
    }
}

#[test]
fn the_transfer_log_has_a_line_for_each_file_and_is_begun_again_where_it_was_moved_away() {
    let folder = Folder::new();
    folder.put("a b", pattern(70_000));
    let logs = folder.outer.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let (log, old) = (logs.join("xferlog"), logs.join("xferlog.1"));
    let server = Running::start(serve(&folder, &["--writable", "--xferlog", log.to_str().unwrap()]), 1);
    let mut session = Control::at(server.tcp(), None).log_in();
    session.fetch("RETR a b");
    session.fetch("NLST");
    assert!(session.store("STOR up", b"12345").starts_with("226"));
    let lines = |path: &PathBuf| -> Vec<String> {
        std::fs::read_to_string(path).unwrap_or_default().lines().map(|line| line[24..].to_owned()).collect()
    };
    assert_eq!(
        lines(&log),
        [
            " 1 127.0.0.1 70000 /a_b b _ o a anonymous ftp 0 * c",
            " 1 127.0.0.1 5 /up b _ i a anonymous ftp 0 * c"
        ]
    );
    std::fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    eventually("the log is begun again", || log.exists());
    // A client that disconnects in the middle of its upload.
    let mut data = session.begin("STOR broken");
    data.write_all(&pattern(9000)).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop((session, data));
    eventually("an upload that broke off is written down", || !lines(&log).is_empty());
    assert_eq!(lines(&log), [" 1 127.0.0.1 9000 /broken b _ i a anonymous ftp 0 * i"]);
    assert_eq!(lines(&old).len(), 2);
}

#[test]
fn the_unit_is_hardened() {
    let packaging = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
    let unit = Path::new(packaging).join("braidftp.service");
    let arguments = ["security", "--offline=yes", "--no-pager", unit.to_str().unwrap()];
    let Some(output) = run("systemd-analyze", &arguments, Path::new(packaging), "") else { return };
    let said = String::from_utf8_lossy(&output.stdout);
    let level =
        said.lines().find(|line| line.contains("Overall exposure level")).unwrap_or_else(|| panic!("{said}"));
    println!("{level}");
    let level: f64 = level.rsplit(": ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!(level <= 2.0, "{said}");
}
