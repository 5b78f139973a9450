//! Shared by the tests against the Linux kernel's SCTP: a user-mode Linux (Debian's `user-mode-linux`), a kernel that runs as a
//! process and needs privileges only for its TAP devices. Its root is this machine's, read-only; its only program is
//! `bench-peers/linux_driven.c`, built here with `cc`.
#![allow(dead_code, reason = "each test file takes what it needs")]

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use braidftp_emu::LinkConfig;
use braidftp_emu::tun::{Net, TunConfig};
use braidftp_emu::wires::{LEADING, Wire, sweep};
use braidftp_net::{Carrier, Config, Reason};
use tempfile::TempDir;

use crate::usrsctp_support::{Ends, Load, Peer, Role, Session, block_on, enter, left_out, open_with};

const KERNEL: &str = "/usr/bin/linux.uml";
const MODULES: &str = "/usr/lib/uml/modules";

/// The kernel modules, in the order of their dependencies.
const LOADED: [&str; 11] = [
    "lib/crc-ccitt.ko",
    "crypto/hmac.ko",
    "net/ipv6/ipv6.ko",
    "net/ipv4/udp_tunnel.ko",
    "net/ipv6/ip6_udp_tunnel.ko",
    "net/sctp/sctp.ko",
    "net/sched/sch_netem.ko",
    "net/sched/sch_ingress.ko",
    "net/sched/cls_matchall.ko",
    "net/sched/act_mirred.ko",
    "drivers/net/ifb.ko",
];

/// Far longer than any step takes.
pub(crate) const SOON: Duration = Duration::from_secs(60);
/// About a megabyte each way.
pub(crate) const LIGHT: Load = Load { each_way: 2_000_000, streams: 4, message: 20_000, patience: SOON };
pub(crate) const BOTH: [Role; 2] = [Role::WeConnect, Role::TheyConnect];

/// Time limit for a kernel to boot on a busy machine.
const BOOT: Duration = Duration::from_secs(120);

/// The files that a kernel needs.
struct Kernel {
    /// `linux_driven.c`, built.
    program: PathBuf,
    /// `uml_xstate.c`, built: a library for LD_PRELOAD.
    preload: PathBuf,
    /// The folder of kernel modules.
    modules: PathBuf,
}

/// Returns the kernel's files; `None` if this machine has no user-mode Linux.
fn kernel() -> Option<&'static Kernel> {
    static FOUND: OnceLock<Option<Kernel>> = OnceLock::new();
    let find = || {
        let versions = std::fs::read_dir(MODULES).into_iter().flatten().flatten();
        let modules = versions.map(|version| version.path().join("kernel")).find(|folder| {
            Path::new(KERNEL).exists() && LOADED.iter().all(|module| folder.join(module).exists())
        });
        let Some(modules) = modules else {
            left_out("no kernel with SCTP to run as a process (Debian: apt install user-mode-linux)");
            return None;
        };
        let program = build("linux_driven", &["-lpthread"])?;
        let preload = build("uml_xstate", &["-shared", "-fPIC"])?;
        Some(Kernel { program, preload, modules })
    };
    FOUND.get_or_init(find).as_ref()
}

/// Builds a program, or a library, of `bench-peers`.
fn build(name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../bench-peers/{name}.c"));
    // Several test programs may build it concurrently.
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}_{}", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o"]).arg(&built).arg(source).args(options);
    let why = match cc.output() {
        Ok(output) if output.status.success() => return Some(built),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("cc: {error}"),
    };
    left_out(&format!("{name}.c does not build here (Debian: apt install gcc): {why}"));
    None
}

/// A host of this side: a namespace with a TAP device per wire, at whose other end is a kernel.
#[derive(Debug)]
pub(crate) struct Taps {
    name: String,
    wires: Vec<Wire>,
}

/// The address of one end of a wire. The kernel is the server of [`Wire`], this side the client.
fn station(n: usize, is_ours: bool) -> String {
    format!("02:00:00:01:{n:02x}:0{}", if is_ours { 2 } else { 1 })
}

impl Taps {
    /// Creates the host; `None` without the privilege, which is printed.
    pub(crate) fn up(wires: &[Wire]) -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        sweep();
        let name = format!("{LEADING}{}-taps{count}", std::process::id());
        let it = Self { name, wires: wires.to_vec() };
        if let Err(why) = it.make() {
            eprintln!("LEFT OUT: {why}");
            return None;
        }
        Some(it)
    }

    fn make(&self) -> Result<(), String> {
        ip(&["netns", "add", &self.name])?;
        self.ip(&["link", "set", "lo", "up"])?;
        for (n, wire) in self.wires.iter().enumerate() {
            let device = format!("tap{n}");
            self.ip(&["tuntap", "add", &device, "mode", "tap"])?;
            self.ip(&["link", "set", &device, "up"])?;
            let own = with_prefix(wire.client);
            self.ip(&address_words(&own, &device))?;
            self.be(n, &station(n, true), &station(n, false))?;
        }
        Ok(())
    }

    fn ip(&self, words: &[&str]) -> Result<(), String> {
        ip(&[&["-n", &self.name], words].concat())
    }

    /// The path of the namespace.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }

    /// Boots a kernel at the other end of the wires.
    pub(crate) async fn boot(&self) -> Option<Machine> {
        let mut setup = String::new();
        for (n, wire) in self.wires.iter().enumerate() {
            let (own, theirs) = (with_prefix(wire.server), wire.client);
            let station = station(n, true);
            let nodad = if wire.server.is_ipv6() { "nodad" } else { "" };
            // The device of user-mode Linux drops all batches of SCTP packets over UDP.
            writeln!(setup, "ip link set vec{n} gso_max_size 1500").unwrap();
            writeln!(setup, "ip link set vec{n} up; ip addr add {own} dev vec{n} {nodad}").unwrap();
            writeln!(setup, "ip neigh replace {theirs} lladdr {station} nud permanent dev vec{n}").unwrap();
        }
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, KERNEL]);
        for n in 0..self.wires.len() {
            command.arg(format!("vec{n}:transport=tap,ifname=tap{n},mac={}", station(n, false)));
        }
        Machine::boot(command, &setup, |mut command| command.spawn().unwrap()).await
    }

    /// Drops all packets of a wire, both ways.
    pub(crate) fn cut(&self, n: usize) {
        self.be(n, &station(n, true).replace("02:00:00:01", "02:00:00:02"), &station(n + 100, false))
            .unwrap();
    }

    /// Undoes [`Taps::cut`].
    pub(crate) fn mend(&self, n: usize) {
        self.be(n, &station(n, true), &station(n, false)).unwrap();
    }

    /// Sets the addresses of a wire: a device drops packets for other addresses.
    fn be(&self, n: usize, ours: &str, theirs: &str) -> Result<(), String> {
        let (device, to) = (format!("tap{n}"), self.wires[n].server.to_string());
        self.ip(&["link", "set", &device, "address", ours])?;
        self.ip(&["neigh", "replace", &to, "lladdr", theirs, "nud", "permanent", "dev", &device])
    }
}

impl Drop for Taps {
    fn drop(&mut self) {
        // Fails only if it does not exist.
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn with_prefix(address: IpAddr) -> String {
    format!("{address}/{}", if address.is_ipv4() { 24 } else { 64 })
}

fn address_words<'a>(own: &'a str, device: &'a str) -> Vec<&'a str> {
    let mut words = vec!["address", "replace", own, "dev", device];
    if own.contains(':') {
        words.push("nodad");
    }
    words
}

/// Runs iproute2's `ip`.
pub(crate) fn ip(words: &[&str]) -> Result<(), String> {
    let said = match Command::new("ip").args(words).output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    Err(format!("`ip {}` failed: {said}; it takes root (Debian: iproute2)", words.join(" ")))
}

/// Both ends of a wire, over this carrier. The kernel has one UDP port for all its associations; this side uses another one
/// each time, because sockets linger.
pub(crate) fn ends(carrier: Carrier, wire: Wire) -> Ends {
    static PORT: AtomicU16 = AtomicU16::new(10_000);
    match carrier {
        Carrier::Ip => Ends::raw(&[wire]),
        Carrier::InProcess => unreachable!("between hosts there are sockets"),
        Carrier::Udp => {
            let ours = PORT.fetch_add(1, Ordering::Relaxed);
            Ends::udp(SocketAddr::new(wire.client, ours), SocketAddr::new(wire.server, 9_899))
        }
    }
}

pub(crate) async fn we_shut_down(session: &mut Session) {
    let end = tokio::time::timeout(SOON, session.association.shutdown()).await;
    assert_eq!(end, Ok(Reason::Shutdown));
    assert_eq!(session.peer.tell("wait", SOON).await, "shutdown");
}

pub(crate) async fn they_shut_down(session: &mut Session) {
    session.peer.tell("shutdown", SOON).await;
    assert_eq!(tokio::time::timeout(SOON, session.association.recv_any()).await.unwrap(), Ok(None));
    assert_eq!(tokio::time::timeout(SOON, session.association.closed()).await, Ok(Reason::Shutdown));
    assert_eq!(session.peer.tell("wait", SOON).await, "shutdown");
}

/// Runs `work` with a kernel on its own host.
pub(crate) fn with_kernel(wires: &[Wire], work: impl AsyncFnOnce(&Taps, &mut Machine) + Send) {
    let Some(net) = Taps::up(wires) else { return };
    std::thread::scope(|scope| {
        let run = || {
            enter(&net.path());
            block_on(async {
                let Some(mut machine) = net.boot().await else { return };
                work(&net, &mut machine).await;
            });
        };
        scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

/// The same over IP, through links with loss and delay, and a router behind them.
pub(crate) fn with_kernel_behind(link: &str, work: impl AsyncFnOnce(&Ends, &mut Machine) + Send + 'static) {
    const GATE: [u8; 4] = [10, 1, 1, 2];
    let kernel = IpAddr::from([10, 1, 1, 1]);
    let mut bad = LinkConfig::default();
    bad.apply(link).unwrap();
    let net = match Net::up(TunConfig { forward: bad.clone(), back: bad, ..TunConfig::default() }) {
        Ok(net) => Arc::new(net),
        Err(error) => return eprintln!("LEFT OUT: {error}"),
    };
    let made = net.server().run(move || -> Result<(), String> {
        let forward = std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
        forward.map_err(|error| error.to_string())?;
        ip(&["tuntap", "add", "tap0", "mode", "tap"])?;
        let own = with_prefix(GATE.into());
        ip(&address_words(&own, "tap0"))?;
        ip(&["link", "set", "tap0", "up"])
    });
    let made = made.and_then(|()| {
        net.client().run(|| ip(&["route", "add", "10.1.1.0/24", "via", &Net::SERVER.to_string()]))
    });
    if let Err(why) = made {
        return eprintln!("LEFT OUT: {why}");
    }
    let host = net.clone();
    net.client().run(move || {
        block_on(async {
            let setup = format!(
                "ip link set vec0 up; ip addr add {} dev vec0; ip route add default via {}\n",
                with_prefix(kernel),
                IpAddr::from(GATE)
            );
            let mut command = Command::new(KERNEL);
            command.arg("vec0:transport=tap,ifname=tap0");
            let spawn = |mut command: Command| host.server().run(move || command.spawn().unwrap());
            let Some(mut machine) = Machine::boot(command, &setup, spawn).await else { return };
            let ends = Ends::raw(&[Wire { client: Net::CLIENT.into(), server: kernel }]);
            work(&ends, &mut machine).await;
        });
    });
}

/// A running kernel; killed when dropped.
pub(crate) struct Machine {
    peer: Option<Peer>,
    // Its files.
    folder: TempDir,
}

impl Machine {
    /// Boots with this command, which names the kernel and its devices; `setup` are the last shell commands of its init.
    pub(crate) async fn boot(
        mut command: Command,
        setup: &str,
        spawn: impl FnOnce(Command) -> Child,
    ) -> Option<Self> {
        let Kernel { program, preload, modules } = kernel()?;
        let folder = tempfile::tempdir().unwrap();
        let init = folder.path().join("init");
        let modules: Vec<_> =
            LOADED.iter().map(|module| modules.join(module).display().to_string()).collect();
        let program = program.display();
        let script = format!(
            "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
             mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmp /run\n\
             {program} modules {}\nip link set lo up\n{setup}exec {program} serve </dev/tty1 >/dev/tty1\n",
            modules.join(" ")
        );
        std::fs::write(&init, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&init, mode).unwrap();
        let log = folder.path().join("log");
        command
            .args(["mem=160M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro"])
            .args(["con=null", "con0=null,fd:2", "con1=fd:0,fd:1", "ssl=null"])
            .arg(format!("init={}", init.display()))
            .arg(format!("uml_dir={}", folder.path().display()))
            .env("TMPDIR", folder.path())
            .env("LD_PRELOAD", preload)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(&log).unwrap())
            .process_group(0);
        let mut peer = Peer::over(spawn(command));
        while let Some(line) = peer.next(BOOT).await {
            if line == "ready" {
                return Some(Self { peer: Some(peer), folder });
            }
        }
        drop(peer);
        // The system may forbid that it traces its own processes.
        let log = std::fs::read(&log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let last: Vec<&str> = log.lines().rev().take(8).collect();
        left_out(&format!("user-mode Linux does not come up here: {last:?}"));
        None
    }

    /// Returns the kernel's log.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Opens an association with it as `role`.
    pub(crate) async fn open(
        &mut self,
        ends: &Ends,
        role: Role,
        config: Config,
        options: &[&str],
    ) -> Session {
        let mut peer = self.peer.take().expect("one association at a time");
        let options = ends.options(options);
        open_with(ends, role, config, async |role| {
            peer.run(role, &options).await;
            peer
        })
        .await
    }

    /// Opens an association over a wire, with this carrier.
    pub(crate) async fn over(
        &mut self,
        carrier: Carrier,
        wire: Wire,
        role: Role,
        config: Config,
        options: &[&str],
    ) -> Session {
        self.open(&ends(carrier, wire), role, config, options).await
    }

    /// Starts a socket without an association.
    pub(crate) async fn begin(&mut self, role: &str, options: &[String]) -> Peer {
        let mut peer = self.peer.take().expect("one association at a time");
        peer.run(role, options).await;
        peer
    }

    /// Runs a shell command on it.
    pub(crate) async fn sh(&mut self, command: &str) {
        self.peer.as_mut().expect("nothing runs").tell(&format!("sh {command}"), SOON).await;
    }

    /// Lets it connect; `None` if the connection is refused.
    pub(crate) async fn try_connect(&mut self, options: &[String]) -> Option<Peer> {
        let mut peer = self.begin("connect", options).await;
        let said = peer.next(SOON).await.expect("it says how that went");
        if said.starts_with("event up") {
            return Some(peer);
        }
        assert_eq!(said, "error connect: Connection refused");
        assert!(peer.next(SOON).await.is_some_and(|end| end.starts_with("error it ended")));
        self.peer = Some(peer);
        None
    }

    /// Ends an association and this side's endpoint, whose address the next one uses.
    pub(crate) async fn end(&mut self, session: Session) {
        let Session { association, endpoint, peer, .. } = session;
        drop(association);
        // Until then the endpoint answers SHUTDOWN ACK, in case the last SHUTDOWN COMPLETE is lost.
        self.back(peer).await;
        drop(endpoint);
    }

    /// Ends the running program, and returns once the kernel has no association left. An association whose SHUTDOWN COMPLETE
    /// met a closed UDP port would block its address for the next one for more than a minute.
    pub(crate) async fn back(&mut self, mut peer: Peer) {
        assert_eq!(peer.tell("end", SOON).await, "ended");
        self.peer = Some(peer);
    }
}
