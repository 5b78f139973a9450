//! Shared by the tests against usrsctp: the program `bench-peers/usrsctp_driven.c`, built with `cc` and controlled line by
//! line, and hosts and wires to run it on.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use braidftp_emu::wires::{End, Wire, Wires};
use braidftp_net::{Association, Bind, Carrier, Config, Connect, Endpoint};
use tokio::sync::mpsc;

use crate::common::{PATIENCE, PORT, receive_all, send_all};

/// Prints that a test is skipped, and why; fails instead where all requirements must be met.
pub(crate) fn left_out(why: &str) {
    assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "BRAIDFTP_REQUIRE_PEERS is set: {why}");
    eprintln!("LEFT OUT: {why}");
}

/// The built program; `None` if this machine has no usrsctp.
pub(crate) fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench-peers/usrsctp_driven.c");
        // Several test programs may build it concurrently.
        let program =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("usrsctp_driven_{}", std::process::id()));
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o"]).arg(&program).args([source, "-lusrsctp", "-lpthread"]);
        let why = match cc.output() {
            Ok(output) if output.status.success() => return Some(program),
            Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => format!("cc: {error}"),
        };
        left_out(&format!(
            "usrsctp_driven.c does not build here (Debian: apt install gcc libusrsctp-dev): {why}"
        ));
        None
    };
    BUILT.get_or_init(build).as_deref()
}

/// Creates hosts and wires; `None` without the privilege, which is printed.
pub(crate) fn wires(between: &[Wire], rate: Option<&str>) -> Option<Wires> {
    Wires::up(between, rate).map_err(|error| eprintln!("LEFT OUT: {error}")).ok()
}

/// Runs `future` in a network namespace, on its own thread.
pub(crate) fn inside<T: Send>(namespace: &Path, future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            enter(namespace);
            block_on(future)
        };
        scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Moves this thread into the network namespace.
pub(crate) fn enter(namespace: &Path) {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let file = std::fs::File::open(namespace).unwrap();
    move_into_link_name_space(std::os::fd::AsFd::as_fd(&file), Some(LinkNameSpaceType::Network)).unwrap();
}

/// Runs `future` on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// The running program; killed when dropped.
pub(crate) struct Peer {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
    /// The events that it reported.
    pub(crate) events: Vec<String>,
}

impl Peer {
    /// The command that starts the program, to be run on the given host.
    pub(crate) fn command(mut on: Command, program: &Path, role: &str, options: &[String]) -> Command {
        if on.get_program() == "ip" {
            on.arg(program);
        } else {
            on = Command::new(program);
        }
        on.arg(role).arg(format!("port={PORT}")).args(options).stdin(Stdio::piped()).stdout(Stdio::piped());
        on.process_group(0);
        on
    }

    /// Takes over a started program, and waits until it listens or connects.
    pub(crate) async fn new(child: Child) -> Self {
        let mut peer = Self::over(child);
        peer.begins().await;
        peer
    }

    /// Takes over a started program that leads its process group.
    pub(crate) fn over(mut child: Child) -> Self {
        let (told, lines) = mpsc::unbounded_channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if told.send(line).is_err() {
                    break;
                }
            }
        });
        let stdin = child.stdin.take().unwrap();
        Self { child, stdin, lines, events: Vec::new() }
    }

    /// Waits until the program listens or connects.
    async fn begins(&mut self) {
        let first = self.line(PATIENCE).await;
        assert!(matches!(first.as_str(), "listening" | "connecting"), "{first}");
    }

    /// Returns its next line, if one arrives in time.
    pub(crate) async fn next(&mut self, patience: Duration) -> Option<String> {
        tokio::time::timeout(patience, self.lines.recv()).await.ok().flatten()
    }

    async fn line(&mut self, patience: Duration) -> String {
        match tokio::time::timeout(patience, self.lines.recv()).await {
            Ok(Some(line)) => line,
            Ok(None) => panic!("the peer is gone; {:?}", self.events),
            Err(_) => panic!("the peer says nothing for {patience:?}; {:?}", self.events),
        }
    }

    /// Starts the next socket, of a program that runs several in sequence.
    pub(crate) async fn run(&mut self, role: &str, options: &[String]) {
        self.events.clear();
        writeln!(self.stdin, "run {role} port={PORT} {}", options.join(" ")).unwrap();
        self.begins().await;
    }

    /// Sends a command and returns the answer, which must report success.
    pub(crate) async fn tell(&mut self, command: &str, patience: Duration) -> String {
        writeln!(self.stdin, "{command}").unwrap();
        loop {
            let line = self.line(patience).await;
            match line.strip_prefix("ok") {
                Some(rest) => return rest.trim().to_owned(),
                None if line.starts_with("event") => self.events.push(line),
                None => panic!("`{command}`: {line}; {:?}", self.events),
            }
        }
    }

    /// Waits until it reports an event that contains `words`.
    pub(crate) async fn event(&mut self, words: &str, patience: Duration) -> String {
        let mut seen = 0;
        loop {
            while seen < self.events.len() {
                seen += 1;
                if self.events[seen - 1].contains(words) {
                    return self.events.remove(seen - 1);
                }
            }
            let line = self.line(patience).await;
            assert!(line.starts_with("event"), "{line}");
            self.events.push(line);
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        use rustix::process::{Pid, Signal, kill_process_group};
        // Including its child processes.
        let group = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

/// The addresses of both sides.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    pub(crate) carrier: Carrier,
    pub(crate) ours: Vec<SocketAddr>,
    pub(crate) theirs: Vec<SocketAddr>,
    /// Our destination, if a link is in between.
    pub(crate) by: Option<SocketAddr>,
    /// Their destination, likewise.
    pub(crate) their_way: Option<SocketAddr>,
}

impl Ends {
    /// Over IP, on these wires, with our side at the client's end.
    pub(crate) fn raw(between: &[Wire]) -> Self {
        let at = |ip| SocketAddr::new(ip, 0);
        Self {
            carrier: Carrier::Ip,
            ours: between.iter().map(|wire| at(wire.client)).collect(),
            theirs: between.iter().map(|wire| at(wire.server)).collect(),
            by: None,
            their_way: None,
        }
    }

    /// Over UDP between these addresses.
    pub(crate) fn udp(ours: SocketAddr, theirs: SocketAddr) -> Self {
        Self { carrier: Carrier::Udp, ours: vec![ours], theirs: vec![theirs], by: None, their_way: None }
    }

    /// The options of usrsctp as `theirs`, and further ones.
    pub(crate) fn options(&self, more: &[&str]) -> Vec<String> {
        let ips = |of: &[SocketAddr]| {
            let all: Vec<String> = of.iter().map(|addr| addr.ip().to_string()).collect();
            all.join(",")
        };
        let mut options = vec![format!("local={}", ips(&self.theirs)), format!("peer={}", ips(&self.ours))];
        if self.carrier == Carrier::Udp {
            options.push(format!("udp={}", self.theirs[0].port()));
            options.push(format!("peer_udp={}", self.their_way.unwrap_or(self.ours[0]).port()));
        }
        options.extend(more.iter().map(|&option| option.to_owned()));
        options
    }

    pub(crate) fn bind(&self) -> Endpoint {
        // To inspect the packets: BRAIDFTP_TEST_PCAP=file.pcapng, with one test at a time.
        let pcap = std::env::var_os("BRAIDFTP_TEST_PCAP").map(PathBuf::from);
        Endpoint::bind(Bind { carrier: self.carrier, pcap, ..Bind::to(self.ours.clone()) }).unwrap()
    }
}

/// The side that opens the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    WeConnect,
    TheyConnect,
}

/// An association with usrsctp.
pub(crate) struct Session {
    pub(crate) association: Association,
    pub(crate) peer: Peer,
    pub(crate) endpoint: Endpoint,
    /// The numbers of streams and bytes that earlier exchanges used.
    streams_used: u16,
    bytes_sent: usize,
}

/// Opens an association as `role`; `spawn` starts the program on its host.
pub(crate) async fn open(
    ends: &Ends,
    role: Role,
    config: Config,
    options: &[&str],
    spawn: impl FnOnce(&Path, &str, &[String]) -> Child,
) -> Option<Session> {
    let program = program()?;
    let begin = async |role: &str| Peer::new(spawn(program, role, &ends.options(options))).await;
    Some(open_with(ends, role, config, begin).await)
}

/// Opens an association with a peer that `begin` starts.
pub(crate) async fn open_with(
    ends: &Ends,
    role: Role,
    config: Config,
    begin: impl AsyncFnOnce(&str) -> Peer,
) -> Session {
    let config = Arc::new(config);
    let endpoint = ends.bind();
    let (association, peer) = match role {
        Role::WeConnect => {
            let peer = begin("listen").await;
            let connect = Connect {
                local: vec![],
                peer: ends.by.map_or_else(|| ends.theirs.clone(), |by| vec![by]),
                source_port: None,
                destination_port: PORT,
                config,
            };
            (endpoint.connect(connect).unwrap(), peer)
        }
        Role::TheyConnect => {
            let listener = endpoint.listen(PORT, config).unwrap();
            let peer = begin("connect").await;
            let accepted = tokio::time::timeout(PATIENCE, listener.accept());
            (accepted.await.expect("the peer does not connect").unwrap(), peer)
        }
    };
    let up = tokio::time::timeout(PATIENCE, association.up());
    up.await.expect("it does not come up").unwrap();
    Session { association, peer, endpoint, streams_used: 0, bytes_sent: 0 }
}

/// The bytes of an exchange in both directions at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) each_way: usize,
    pub(crate) streams: u16,
    pub(crate) message: usize,
    pub(crate) patience: Duration,
}

impl Session {
    /// Transfers `load` on unused streams; both sides compare every byte.
    pub(crate) async fn exchange(&mut self, load: Load) {
        let part = load.each_way / usize::from(load.streams);
        let streams = self.streams_used..self.streams_used + load.streams;
        self.streams_used = streams.end;
        let ours: Vec<_> = streams
            .clone()
            .flat_map(|stream| {
                let send = tokio::spawn(send_all(self.association.clone(), stream, part, load.message));
                let receive = tokio::spawn(receive_all(self.association.clone(), stream, part));
                [send, receive]
            })
            .collect();
        for stream in streams {
            self.peer.tell(&format!("send {stream} {part} {}", load.message), load.patience).await;
        }
        self.bytes_sent += part * usize::from(load.streams);
        self.peer.tell(&format!("expect {}", self.bytes_sent), load.patience).await;
        for task in ours {
            tokio::time::timeout(load.patience, task).await.expect("it takes too long").unwrap();
        }
    }

    /// Returns the addresses and states of the paths.
    pub(crate) fn paths(&self) -> Vec<(IpAddr, IpAddr, braidftp_net::PathState)> {
        let paths = self.association.stats().paths;
        paths.iter().map(|path| (path.local.ip(), path.peer.ip(), path.state)).collect()
    }
}

/// Starts the program at the server's end of wires.
pub(crate) fn on_server(net: &Wires) -> impl FnOnce(&Path, &str, &[String]) -> Child {
    let on = net.command(End::Server, "env");
    move |program, role, options| Peer::command(on, program, role, options).spawn().unwrap()
}

/// Starts the program on this host.
pub(crate) fn here(program: &Path, role: &str, options: &[String]) -> Child {
    Peer::command(Command::new("here"), program, role, options).spawn().unwrap()
}
