//! Shared by the tests of the server: a server in its own thread, a plain control connection, a tree.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod program;
pub mod tls;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use braidftp::server::{Builder, Handle, Listen, Plain, Protection, Server, Settings};
use braidftp::store::fs::{Durability, Root};
use braidftp::users::Access;

/// A generous time limit for busy machines: a hang becomes a failure.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// A server that runs until it is dropped.
pub struct Served {
    pub address: SocketAddr,
    pub places: Vec<Listen>,
    pub handle: Handle,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.handle.abort();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A server of `root`, writable for everybody, on a free port.
pub fn serve(root: Root) -> Served {
    serve_with(root, |builder| builder.access(Access::Writable))
}

/// Settings for tests: nothing is synced to the disk, and a disk that other builds have nearly filled is good enough.
pub fn quick() -> Settings {
    let protection = Protection { plain_passwords: Plain::Allowed, ..Protection::default() };
    Settings {
        durability: Durability::None,
        protection,
        drain: Duration::from_secs(3),
        disk_reserve: Some(0),
        ..Settings::default()
    }
}

/// A server of `root`, configured by `configure`.
pub fn serve_with(root: Root, configure: impl FnOnce(Builder) -> Builder + Send + 'static) -> Served {
    let (told, tell) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let builder = Server::builder(root)
                .settings(quick())
                .listen(Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))));
            let server = configure(builder).bind().unwrap();
            told.send((server.local_addrs(), server.handle())).unwrap();
            server.run().await;
        });
    });
    let (places, handle) = tell.recv().unwrap();
    let address = places.iter().find_map(|place| match place {
        Listen::Tcp(address) => Some(*address),
        Listen::Tls(_) | Listen::SctpUdp(_) | Listen::SctpIp(..) => None,
    });
    Served { address: address.unwrap(), places, handle, thread: Some(thread) }
}

/// A served folder, beside a file that must not be reachable.
pub struct Folder {
    pub outer: tempfile::TempDir,
}

impl Folder {
    pub fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        std::fs::create_dir(outer.path().join("root")).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        Self { outer }
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.outer.path().join("root").join(name)
    }

    pub fn root(&self) -> Root {
        Root::open(self.path("")).unwrap()
    }

    pub fn put(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    pub fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// The sorted names in the root, including temporary files.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// Bytes without a period that is a power of two.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 % 251) as u8 ^ (i >> 13) as u8).collect()
}

/// A control connection for manual commands.
pub struct Control {
    pub stream: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Control {
    /// Connects and reads the greeting.
    pub fn open(served: &Served) -> Self {
        Self::open_from(served, None)
    }

    /// The same; `None` if the server has no room for another session.
    pub fn try_open(served: &Served) -> Option<Self> {
        let mut control = Self::unread(connect_from(served.address, None));
        control.reply().starts_with("220").then_some(control)
    }

    /// The same from another loopback address.
    pub fn open_from(served: &Served, from: Option<IpAddr>) -> Self {
        Self::at(served.address, from)
    }

    /// The same, to a server elsewhere.
    pub fn at(address: SocketAddr, from: Option<IpAddr>) -> Self {
        let mut control = Self::unread(connect_from(address, from));
        control.expect("220");
        control
    }

    fn unread(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(stream.try_clone().unwrap());
        Self { stream, reader }
    }

    /// Connected and logged in, with TYPE I.
    pub fn anonymous(served: &Served) -> Self {
        Self::open(served).log_in()
    }

    /// Logs in and sends TYPE I.
    pub fn log_in(mut self) -> Self {
        self.send("USER anonymous");
        let first = self.reply();
        if first.starts_with("331") {
            self.command("PASS x@", "230");
        }
        self.command("TYPE I", "200");
        self
    }

    pub fn send(&mut self, line: &str) {
        self.send_bytes(format!("{line}\r\n").as_bytes());
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next complete reply, with all its lines.
    pub fn reply(&mut self) -> String {
        let first = self.line();
        if first.as_bytes().get(3) != Some(&b'-') {
            return first;
        }
        let end = format!("{} ", &first[..3]);
        let mut all = first;
        loop {
            let line = self.line();
            all.push_str(&line);
            if line.starts_with(&end) {
                return all;
            }
        }
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.reader.read_until(b'\n', &mut line).expect("a reply in time");
        assert!(line.ends_with(b"\r\n"), "a whole line, not {:?}", String::from_utf8_lossy(&line));
        String::from_utf8_lossy(&line).into_owned()
    }

    /// Whether something arrives within this time.
    pub fn answers_within(&mut self, time: Duration) -> bool {
        self.stream.set_read_timeout(Some(time)).unwrap();
        let came = self.reader.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        came
    }

    pub fn expect(&mut self, code: &str) -> String {
        let reply = self.reply();
        assert!(reply.starts_with(code), "expected {code}, got {reply}");
        reply
    }

    pub fn command(&mut self, line: &str, code: &str) -> String {
        self.send(line);
        let reply = self.reply();
        assert!(reply.starts_with(code), "{line}: expected {code}, got {reply}");
        reply
    }

    /// Sends EPSV; returns the address for the data connection.
    pub fn passive(&mut self) -> SocketAddr {
        let reply = self.command("EPSV", "229");
        self.passive_of(&reply)
    }

    pub fn passive_of(&self, reply: &str) -> SocketAddr {
        let port = reply.split("(|||").nth(1).unwrap().split('|').next().unwrap().parse().unwrap();
        SocketAddr::new(self.stream.peer_addr().unwrap().ip(), port)
    }

    /// Sends RETR, STOR or similar, up to the 150; returns the data connection.
    pub fn begin(&mut self, line: &str) -> TcpStream {
        let address = self.passive();
        self.send(line);
        let data = connect_from(address, None);
        self.expect("150");
        data
    }

    /// Sends RETR or similar; returns the bytes and the final reply.
    pub fn fetch(&mut self, line: &str) -> (Vec<u8>, String) {
        let address = self.passive();
        let mut data = connect_from(address, None);
        self.send(line);
        let first = self.reply();
        if !first.starts_with('1') {
            return (Vec::new(), first);
        }
        let mut bytes = Vec::new();
        // A reset also ends it; the reply decides.
        let _ = data.read_to_end(&mut bytes);
        (bytes, self.reply())
    }

    /// Sends STOR or similar; returns the final reply.
    pub fn store(&mut self, line: &str, bytes: &[u8]) -> String {
        let address = self.passive();
        let mut data = connect_from(address, None);
        self.send(line);
        let first = self.reply();
        if !first.starts_with('1') {
            return first;
        }
        // The server may refuse in the middle.
        let _ = data.write_all(bytes);
        drop(data);
        self.reply()
    }

    /// Everything that the server sends until it closes the connection.
    pub fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = self.reader.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        matches!(self.reader.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

/// A connection, from another loopback address if one is given.
pub fn connect_from(to: SocketAddr, from: Option<IpAddr>) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).unwrap();
    if let Some(from) = from {
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
    }
    socket.connect_timeout(&to.into(), PATIENCE).unwrap();
    socket.into()
}

/// Waits for an effect of another process or thread.
pub fn eventually(what: &str, mut reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a program that may be missing; `None`, with a message, if it is.
pub fn run(program: &str, arguments: &[&str], folder: &Path, input: &str) -> Option<Output> {
    let child = Command::new("timeout")
        .arg(PATIENCE.as_secs().to_string())
        .arg(program)
        .args(arguments)
        .current_dir(folder)
        .env("HOME", folder)
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("timeout(1) of coreutils");
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    // 127: timeout found no such program.
    if output.status.code() == Some(127) {
        assert!(
            std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(),
            "BRAIDFTP_REQUIRE_PEERS is set, and {program} is not installed"
        );
        eprintln!("LEFT OUT: {program} is not installed; cargo xtask test installs it");
        return None;
    }
    Some(output)
}

/// The same; the program must succeed.
pub fn run_well(program: &str, arguments: &[&str], folder: &Path, input: &str) -> Option<String> {
    let output = run(program, arguments, folder, input)?;
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}: {}\n{out}\n{err}", output.status);
    Some(out.into_owned())
}

/// Every file, folder and link below a folder: relative path, and content or target.
pub fn tree(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    use std::os::unix::ffi::OsStrExt;
    let mut all = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let kind = std::fs::symlink_metadata(&path).unwrap().file_type();
            let content = if kind.is_dir() {
                todo.push(path.clone());
                b"folder".to_vec()
            } else if kind.is_symlink() {
                std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else {
                std::fs::read(&path).unwrap()
            };
            all.push((path.strip_prefix(folder).unwrap().to_owned(), content));
        }
    }
    all.sort();
    all
}

/// Fails if the trees differ, with a short description.
pub fn assert_same_tree(one: &Path, other: &Path) {
    let (one, other) = (tree(one), tree(other));
    let only = |a: &[(PathBuf, Vec<u8>)], b: &[(PathBuf, Vec<u8>)]| -> Vec<String> {
        let show = |(path, bytes): &(PathBuf, Vec<u8>)| format!("{path:?} ({} bytes)", bytes.len());
        a.iter().filter(|entry| !b.contains(entry)).map(show).collect()
    };
    let (left, right) = (only(&one, &other), only(&other, &one));
    assert!(
        left.is_empty() && right.is_empty(),
        "only in the first: {left:?}\nonly in the second: {right:?}"
    );
}

/// Settings in an `Arc` with a modified session.
pub fn session(change: impl FnOnce(&mut braidftp_ftp::server::Config)) -> Settings {
    let mut config = braidftp_ftp::server::Config::default();
    change(&mut config);
    Settings { session: Arc::new(config), ..quick() }
}
