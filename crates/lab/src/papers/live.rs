//! Real-time flows over emulated links, for `utilisation/live` and `fairness/live`: kernel TCP, and
//! braidftp's SCTP beside it, between two hosts of `emu::tun`.
//!
//! A run takes as long as it measures. Many run concurrently, limited by the total link rate that one
//! machine can emulate. Needs root for namespaces and TUN devices; nothing is left behind.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use braidftp_emu::tun::{Host, Net, TunConfig};
use braidftp_sim::link::LinkConfig;

use crate::compare::programs::{self, bound};

/// The maximum number of concurrent runs.
pub const AT_ONCE: usize = 32;
/// The total rate of the links that one machine emulates, in Mbit/s.
const MEGABITS_AT_ONCE: u64 = 260;
/// The port of the reader.
const PORT: u16 = 5_001;
/// The limits of socket buffers: more than two BDPs of the largest path that is run live.
const BUFFER_MAX: &str = "4096 131072 67108864";
/// The kernel's send buffer at first: the second of these numbers.
pub(crate) const SEND_BUFFER_BYTES: usize = 131_072;
/// The time limit for a connection or a program to come up.
const UP: Duration = Duration::from_secs(30);

/// A run.
#[derive(Debug, Clone)]
pub struct Live {
    /// The links to the reader and back.
    pub links: [LinkConfig; 2],
    /// The kernel's congestion control of the TCP connection.
    pub tcp: &'static str,
    /// Whether a braidftp association competes.
    pub beside: Beside,
    /// The total rate of its links, in Mbit/s.
    pub megabits: u64,
    /// Sampling times from the start; the last one ends the run.
    pub times: Vec<Duration>,
    /// The seed of the links.
    pub seed: u64,
}

/// The competing sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// None.
    Nothing,
    /// braidftp: a file over one association of the profile `modern`, with its default controller.
    Braidftp,
}

/// The bytes received at each sampling time.
#[derive(Debug, Clone, PartialEq)]
pub struct Brought {
    /// User data over TCP.
    pub tcp: Vec<u64>,
    /// IP packets of all flows.
    pub all: Vec<u64>,
}

/// Whether live runs with these kernel controllers are possible here; if not, the reason.
pub fn possible(controllers: &[&str], beside: Beside) -> Result<(), String> {
    Net::up(TunConfig::default()).map_err(|error| error.to_string())?;
    let file = "/proc/sys/net/ipv4/tcp_available_congestion_control";
    let there = fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    if let Some(missing) = controllers.iter().find(|name| !there.split_whitespace().any(|its| its == **name))
    {
        return Err(format!(
            "the kernel has not loaded {missing} (it has {}): modprobe tcp_{missing}",
            there.trim()
        ));
    }
    match beside {
        Beside::Nothing => Ok(()),
        Beside::Braidftp => programs::braidftp(None).map(|_| ()),
    }
}

impl Live {
    /// Runs it once the machine has capacity.
    ///
    /// # Panics
    /// If it cannot run.
    pub fn run(&self) -> Brought {
        let _room = Room::of(self.megabits);
        self.flow().unwrap_or_else(|why| panic!("live: {why}"))
    }

    fn flow(&self) -> Result<Brought, String> {
        let [forward, back] = self.links.clone();
        let net = Net::up(TunConfig { forward, back, seed: self.seed, ..TunConfig::default() })
            .map_err(|error| error.to_string())?;
        for (host, address) in [(net.client(), Net::CLIENT), (net.server(), Net::SERVER)] {
            tune(host, self.tcp, Net::NETWORK, Net::DEVICE, address)?;
        }
        let (count, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (ready, is_ready) = channel();
        let reads = net.server().spawn({
            let (count, stop) = (count.clone(), stop.clone());
            move || read((Net::SERVER, PORT), &count, &stop, || ready.send(()).unwrap_or_default())
        });
        is_ready.recv().map_err(|_| "the reader ended before it listened".to_owned())?;
        let file = match self.beside {
            Beside::Nothing => None,
            Beside::Braidftp => {
                Some(File::new(self.most_bytes()).map_err(|error| format!("a file: {error}"))?)
            }
        };
        let serves = file.as_ref().map(|file| serve(net.client(), &file.folder)).transpose()?;
        let began = Instant::now();
        let writes = net.client().spawn({
            let stop = stop.clone();
            move || write((Net::SERVER, PORT), &stop, |_| {})
        });
        let fetches = file.as_ref().map(|file| fetch(net.server(), &file.folder));
        let mut brought = Brought { tcp: Vec::new(), all: Vec::new() };
        let mut failed = None;
        for time in &self.times {
            sleep(time.saturating_sub(began.elapsed()));
            brought.tcp.push(count.load(Ordering::Relaxed));
            match net.server().run(arrived) {
                Ok(bytes) => brought.all.push(bytes),
                Err(why) => failed = Some(why),
            }
        }
        stop.store(true, Ordering::Relaxed);
        let ended = [writes.join(), reads.join()].into_iter().find_map(|ended: io::Result<()>| ended.err());
        drop((fetches, serves));
        if let Some(why) = failed.or(ended.map(|error| error.to_string())) {
            return Err(why);
        }
        Ok(brought)
    }

    /// More than the links can carry until the end.
    fn most_bytes(&self) -> u64 {
        let seconds = self.times.last().map_or(0, Duration::as_secs) + 60;
        self.megabits.max(1) * 125_000 * seconds
    }
}

/// A part of the machine's capacity; released on drop.
pub(crate) struct Room {
    megabits: u64,
}

static USED: Mutex<u64> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

impl Room {
    /// How many runs of so many Mbit/s have room at once: at least one.
    pub(crate) fn at_once(megabits: u64) -> usize {
        (MEGABITS_AT_ONCE / megabits.max(1)).max(1) as usize
    }

    /// Waits for free capacity.
    pub(crate) fn of(megabits: u64) -> Self {
        let mut used = USED.lock().unwrap_or_else(PoisonError::into_inner);
        while *used > 0 && *used + megabits > MEGABITS_AT_ONCE {
            used = FREED.wait(used).unwrap_or_else(PoisonError::into_inner);
        }
        *used += megabits;
        Self { megabits }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        *USED.lock().unwrap_or_else(PoisonError::into_inner) -= self.megabits;
        FREED.notify_all();
    }
}

/// Configures kernel TCP on a host: this controller, large buffers, and no cached metrics of earlier runs.
pub(crate) fn tune(
    host: &Host,
    controller: &str,
    network: &str,
    device: &str,
    address: Ipv4Addr,
) -> Result<(), String> {
    let mut command = Command::new("ip");
    // Set in the route: through `tcp_congestion_control` a namespace may only use what the host allows
    // to everyone.
    command.args(["route", "replace", network, "dev", device, "scope", "link"]);
    command.args(["src", &address.to_string(), "congctl", controller]);
    host.run(move || {
        for (name, value) in
            [("tcp_no_metrics_save", "1"), ("tcp_rmem", BUFFER_MAX), ("tcp_wmem", BUFFER_MAX)]
        {
            let file = Path::new("/proc/sys/net/ipv4").join(name);
            fs::write(&file, value)
                .map_err(|error| format!("cannot write to {}: {error}", file.display()))?;
        }
        run(command)
    })
}

/// Runs a command of `ip` in this thread's namespace.
pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let object = command.get_args().next().unwrap_or_default().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => Err(format!("ip {object}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        Err(error) => Err(format!("cannot run `ip` (Debian: iproute2): {error}")),
    }
}

/// The reader, which counts bytes.
pub(crate) fn read(
    at: (Ipv4Addr, u16),
    count: &AtomicU64,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> io::Result<()> {
    let listener = TcpListener::bind(at)?;
    listener.set_nonblocking(true)?;
    ready();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(Duration::from_millis(1)),
            Err(error) => return Err(error),
        }
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("no connection was opened"));
        }
    };
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    let mut bytes = vec![0; 256 << 10];
    while !stop.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => break,
            Ok(read) => {
                count.fetch_add(read as u64, Ordering::Relaxed);
            }
            Err(error) if is_later(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The sender. It passes its connection to `opened`, which may keep a copy.
pub(crate) fn write(
    to: (Ipv4Addr, u16),
    stop: &AtomicBool,
    opened: impl FnOnce(&TcpStream),
) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to.into(), UP)?;
    opened(&stream);
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    let bytes = vec![0x5a; 256 << 10];
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&bytes) {
            // The reader may close first when both are stopped.
            Err(error) if !is_later(&error) && !stop.load(Ordering::Relaxed) => return Err(error),
            _ => {}
        }
    }
    // A copy would keep it open. The reader may have closed it already.
    let _ = stream.shutdown(Shutdown::Write);
    Ok(())
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The bytes of IP packets received in this thread's namespace.
fn arrived() -> Result<u64, String> {
    let file = "/proc/thread-self/net/netstat";
    let text = fs::read_to_string(file).map_err(|error| format!("cannot read {file}: {error}"))?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt: "));
    let (names, values) = (lines.next().unwrap_or(""), lines.next().unwrap_or(""));
    let place = names.split(' ').position(|name| name == "InOctets");
    let value = place.and_then(|place| values.split(' ').nth(place)?.parse().ok());
    value.ok_or_else(|| format!("{file} has no IpExt InOctets"))
}

/// A file to send, in a folder that is removed on drop.
struct File {
    folder: PathBuf,
}

impl File {
    /// A sparse file of this length.
    fn new(bytes: u64) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("braidlab-live-{}-{number}", std::process::id()));
        let file = Self { folder };
        fs::create_dir_all(file.folder.join("out"))?;
        fs::create_dir_all(file.folder.join("in"))?;
        fs::File::create(file.folder.join("out/bulk"))?.set_len(bytes)?;
        Ok(file)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // A folder that cannot be removed contains only a sparse file.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A program that is killed on drop.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Programs end with the thread that starts them, so each gets a thread with the right lifetime.
struct Hosted {
    stop: std::sync::mpsc::Sender<()>,
    runs: Option<braidftp_emu::tun::Running<()>>,
}

impl Drop for Hosted {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(runs) = self.runs.take() {
            runs.join();
        }
    }
}

fn host(host: &Host, mut command: Command) -> (Hosted, std::sync::mpsc::Receiver<Result<(), String>>) {
    let (stop, stopped) = channel();
    let (said, says) = channel();
    let runs = host.spawn(move || {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut running = match child {
            Ok(child) => Running(child),
            Err(error) => return drop(said.send(Err(format!("cannot run it: {error}")))),
        };
        let stderr = running.0.stderr.take();
        // The first output shows that the program is up; the rest is read so that it does not block.
        std::thread::spawn(move || {
            let mut bytes = [0; 4_096];
            let mut stderr = stderr.expect("it is piped");
            while let Ok(1..) = stderr.read(&mut bytes) {
                let _ = said.send(Ok(()));
            }
        });
        let _ = stopped.recv();
    });
    (Hosted { stop, runs: Some(runs) }, says)
}

fn url(address: &str) -> String {
    format!("ftp+sctp://{address}:9899")
}

/// Starts braidftp's server for a folder. Waits until it listens.
fn serve(at: &Host, folder: &Path) -> Result<Hosted, String> {
    let mut command = bound(&programs::braidftp(None)?);
    command.arg("serve").arg(folder.join("out")).args([
        "--plain",
        "--listen",
        &url(&Net::CLIENT.to_string()),
    ]);
    let (hosted, says) = host(at, command);
    match says.recv_timeout(UP) {
        Ok(Ok(())) => Ok(hosted),
        Ok(Err(why)) => Err(format!("braidftp serve: {why}")),
        Err(_) => Err("braidftp serve did not start to listen".to_owned()),
    }
}

/// Starts braidftp's client, which gets the file.
fn fetch(at: &Host, folder: &Path) -> Hosted {
    let mut command = bound(&programs::braidftp(None).unwrap_or_default());
    command.args(["get", "--plain", "--output"]).arg(folder.join("in"));
    command.arg(format!("{}/bulk", url(&Net::CLIENT.to_string())));
    host(at, command).0
}
