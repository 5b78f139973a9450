//! `cargo xtask bench files`: files a second of a mirror of many small files, beside rsync's daemon and lftp.
//!
//! Client and server run on this machine over 127.0.0.1 and use the same file system, tmpfs if available.
//! braid is protected, which is its default; rsync and lftp are not. lftp moves a sample of the files, to and from vsftpd, and
//! once more from this server over TCP: to it an upload takes 250 ms, because lftp announces no size and the server checks that
//! the client lives before it accepts the file as complete. A second table compares clients of vsftpd: this one with one
//! session and with four, and lftp with four. Each round runs all of them one after another, so that other load
//! on the machine affects all equally. Ratios are taken within a round, and medians over the rounds.

use std::fs;
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{in_memory, median};
use crate::peers::{Proof, install};
use crate::shell::{cargo, check, root, target};

const USAGE: &str = "usage: cargo xtask bench files [--rounds N] [--quick] [--files N,...] [--tree DIR] [--dir DIR] [--program FILE]";

/// The required multiple of rsync's files per second.
const RSYNC_TARGET: f64 = 1.0;
/// The required multiple of lftp's files per second.
const LFTP_TARGET: f64 = 10.0;
/// The required multiple of lftp's files per second over TCP, both with four sessions.
const TCP_TARGET: f64 = 1.0;
/// The number of files in a folder, and the size of a file in bytes.
const FOLDER_FILES: usize = 100;
const FILE_BYTES: usize = 1_000;
/// The number of files that lftp moves.
const SAMPLE_FILES: usize = 2_000;

const PACKAGES: &[(Proof, &str)] = &[
    (Proof::Program("rsync"), "rsync"),
    (Proof::Program("lftp"), "lftp"),
    (Proof::Program("vsftpd"), "vsftpd"),
];

struct Options {
    rounds: usize,
    files: Vec<usize>,
    tree: Option<PathBuf>,
    dir: PathBuf,
    /// A program to measure instead of a release build of this tree.
    program: Option<PathBuf>,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let dir = in_memory().unwrap_or_else(std::env::temp_dir);
        let mut options = Self { rounds: 3, files: vec![100_000, 30_000], tree: None, dir, program: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().context(USAGE);
            match arg.as_str() {
                "--rounds" => options.rounds = value()?.parse().context("--rounds takes a number")?,
                "--quick" => (options.rounds, options.files) = (1, vec![10_000]),
                "--files" => {
                    let numbers = value()?.split(',').map(str::parse).collect::<Result<_, _>>();
                    options.files = numbers.context("--files takes numbers, as in 100000,30000")?;
                }
                "--tree" => options.tree = Some(value()?.into()),
                "--program" => options.program = Some(value()?.into()),
                "--dir" => options.dir = value()?.into(),
                _ => bail!("{USAGE}"),
            }
        }
        if options.rounds == 0 {
            bail!("--rounds takes a number from 1 on");
        }
        Ok(options)
    }
}

/// The folder of all files; removed at the end.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A server that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The servers and their addresses.
struct Servers {
    program: PathBuf,
    home: PathBuf,
    udp: u16,
    tcp: u16,
    rsync: u16,
    vsftpd: u16,
    _running: [Running; 3],
}

const WHO: [&str; 4] = ["braid", "rsync", "lftp", FROM_OURS];
/// FTP over TCP without TLS: `braidftp --mode tcp` and lftp, with this number of sessions.
const OVER_TCP: [&str; 3] = ["tcp-1", "tcp-4", "lftp-4"];
/// lftp and this server; down only.
const FROM_OURS: &str = "lftp-ours";
const WHAT: [&str; 4] = ["down", "down again", "up", "up again"];

/// Runs the benchmark and prints the table.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::read(args)?;
    install(PACKAGES)?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => {
            check(cargo().current_dir(root()).args(["build", "--release", "-p", "braidftp"]))?;
            target().join("release/braidftp")
        }
    };
    let place = Place(options.dir.join(format!("braidftp-bench-{}", std::process::id())));
    fs::create_dir_all(&place.0)?;
    let mut failed = false;
    for files in &options.files {
        make_tree(&place.0.join("served/source"), *files)?;
        make_tree(&place.0.join("served/sample"), SAMPLE_FILES.min(*files))?;
        failed |= table(&options, &place.0, &program, &format!("{files} files of {FILE_BYTES} bytes"))?;
    }
    if let Some(tree) = &options.tree {
        fs::create_dir_all(place.0.join("served"))?;
        for copy in ["served/source", "served/sample"] {
            check(Command::new("cp").arg("-a").arg(tree).arg(place.0.join(copy)))?;
        }
        failed |= table(&options, &place.0, &program, &tree.display().to_string())?;
    }
    if failed {
        bail!("a target was missed");
    }
    Ok(())
}

/// The seconds of each program for each direction, by round, and its number of files.
struct Measured {
    files: Vec<usize>,
    seconds: Vec<[Vec<f64>; WHAT.len()]>,
}

impl Measured {
    /// Files a second, the median, of each program.
    fn rates(&self, what: usize) -> String {
        let rate = |(files, seconds): (&usize, &[Vec<f64>; WHAT.len()])| match seconds[what].is_empty() {
            true => "-".to_owned(),
            false => format!("{:.0}", *files as f64 / median(seconds[what].clone())),
        };
        self.files.iter().zip(&self.seconds).map(rate).collect::<Vec<_>>().join(" | ")
    }

    /// The ratio of two programs' files a second: the median over the rounds.
    fn ratio(&self, who: usize, other: usize, what: usize) -> f64 {
        let rounds = self.seconds[who][what].iter().zip(&self.seconds[other][what]);
        let within = rounds.map(|(ours, theirs)| theirs / ours).collect();
        median(within) * self.files[who] as f64 / self.files[other] as f64
    }
}

/// Runs all rounds of these programs over one tree.
fn measure(options: &Options, place: &Path, program: &Path, programs: &[&str]) -> Result<Measured> {
    let served = place.join("served");
    let files = programs.iter().map(|who| count(&served.join(source_of(who))));
    let files = files.collect::<Result<Vec<_>>>()?;
    let mut seconds: Vec<[Vec<f64>; WHAT.len()]> = programs.iter().map(|_| Default::default()).collect();
    for round in 1..=options.rounds {
        for folder in [served.join("up"), place.join("copy")] {
            fs::create_dir_all(folder)?;
        }
        let servers = Servers::start(program, place)?;
        for ((who, &files), seconds) in programs.iter().zip(&files).zip(&mut seconds) {
            let what = WHAT.iter().filter(|what| *who != FROM_OURS || what.starts_with("down"));
            for (what, seconds) in what.zip(seconds) {
                let mut command = servers.command(who, what, place);
                let begun = Instant::now();
                let output =
                    command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {who}"))?;
                let took = begun.elapsed().as_secs_f64();
                if !output.status.success() {
                    bail!("{who}, {what}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
                }
                eprintln!(
                    "round {round}: {who:<9} {what:<11} {took:>8.3} s {:>9.0} files/s",
                    files as f64 / took
                );
                seconds.push(took);
            }
            for copy in [place.join("copy").join(who), served.join("up").join(who)] {
                if *who == FROM_OURS && !copy.exists() {
                    continue;
                }
                if count(&copy)? != files {
                    bail!("{who}: {} has {} files of {files}", copy.display(), count(&copy)?);
                }
                fs::remove_dir_all(copy)?;
            }
        }
    }
    Ok(Measured { files, seconds })
}

/// Measures over one tree, which is removed at the end; returns whether a target was missed.
fn table(options: &Options, place: &Path, program: &Path, name: &str) -> Result<bool> {
    let measured = measure(options, place, program, &WHO)?;
    let over_tcp = measure(options, place, program, &OVER_TCP)?;
    for source in ["source", "sample"] {
        fs::remove_dir_all(place.join("served").join(source))?;
    }
    let mut failed = false;
    let head = |programs: &[&str], title: &str| {
        println!("\n{title}; median of {} round(s)\n", options.rounds);
        let columns: Vec<_> = programs.iter().map(|who| format!("{who}, files/s")).collect();
        println!("| | {} | | |\n|---|{}", columns.join(" | "), "---:|".repeat(programs.len() + 2));
    };
    let files = &measured.files;
    head(&WHO, &format!("{name}: {} files, {} of them by lftp", files[0], files[2]));
    for (at, what) in WHAT.iter().enumerate() {
        let (rsync, lftp) = (measured.ratio(0, 1, at), measured.ratio(0, 2, at));
        failed |= rsync < RSYNC_TARGET || (!what.ends_with("again") && lftp < LFTP_TARGET);
        println!("| {what} | {} | {rsync:.2} x rsync | {lftp:.1} x lftp |", measured.rates(at));
    }
    head(
        &OVER_TCP,
        &format!("{} of these files to and from vsftpd, with as many sessions", over_tcp.files[0]),
    );
    for (at, what) in WHAT.iter().enumerate() {
        let (one, lftp) = (over_tcp.ratio(1, 0, at), over_tcp.ratio(1, 2, at));
        failed |= !what.ends_with("again") && lftp < TCP_TARGET;
        println!("| {what} | {} | {one:.2} x one session | {lftp:.1} x lftp |", over_tcp.rates(at));
    }
    Ok(failed)
}

impl Servers {
    fn start(program: &Path, place: &Path) -> Result<Self> {
        let home = place.join("home");
        fs::create_dir_all(&home)?;
        let served = place.join("served");
        let (udp, tcp, rsync, vsftpd) = (free_udp()?, free_tcp()?, free_tcp()?, free_tcp()?);
        let ours = Command::new(program)
            .arg("serve")
            .arg(&served)
            .args(["--writable", "--listen", &format!("ftp+sctp://127.0.0.1:{udp}")])
            .args(["--listen", &format!("ftp://127.0.0.1:{tcp}"), "--identity"])
            .arg(home.join("data/braidftp"))
            .env("HOME", &home)
            .env("XDG_DATA_HOME", home.join("data"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start braidftp serve")?;
        let ours = Running(ours);
        let config = place.join("rsyncd.conf");
        let mut text = fs::File::create(&config)?;
        writeln!(text, "use chroot = no\nport = {rsync}\naddress = 127.0.0.1\nuid = root\ngid = root")?;
        writeln!(text, "[source]\npath = {}\nread only = yes", served.join("source").display())?;
        writeln!(text, "[up]\npath = {}\nread only = no", served.join("up").display())?;
        let daemon = Command::new("rsync")
            .args(["--daemon", "--no-detach", "--config"])
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start rsync's daemon")?;
        let daemon = Running(daemon);
        let ordinary = Running(start_vsftpd(place, &served, vsftpd)?);
        for port in [tcp, rsync, vsftpd] {
            wait_for(port)?;
        }
        Ok(Self {
            program: program.into(),
            home,
            udp,
            tcp,
            rsync,
            vsftpd,
            _running: [ours, daemon, ordinary],
        })
    }

    fn command(&self, who: &str, what: &str, place: &Path) -> Command {
        let down = what.starts_with("down");
        let source = place.join("served").join(source_of(who));
        let (copy, up) = (place.join("copy").join(who), format!("up/{who}"));
        let mut command = match who {
            "braid" => {
                let mut command = Command::new(&self.program);
                let url = |path: &str| format!("ftp+sctp://127.0.0.1:{}/{path}", self.udp);
                match down {
                    true => command.args(["mirror", "-q", "--accept-new", &url("source")]).arg(&copy),
                    false => command.args(["mirror", "-q", "--accept-new", "-R"]).arg(&source).arg(url(&up)),
                };
                command
            }
            "tcp-1" | "tcp-4" => {
                let mut command = Command::new(&self.program);
                let url = |path: &str| format!("ftp://127.0.0.1:{}/{path}", self.vsftpd);
                command.args(["mirror", "-q", "--plain", "--parallel", &who[4..]]);
                match down {
                    true => command.arg(url("sample")).arg(&copy),
                    // vsftpd sets no times.
                    false => command.args(["--size-only", "-R"]).arg(&source).arg(url(&up)),
                };
                command
            }
            "rsync" => {
                let _ = fs::create_dir_all(&copy);
                let url = |path: &str| format!("rsync://127.0.0.1:{}/{path}/", self.rsync);
                let mut command = Command::new("rsync");
                match down {
                    true => command.args(["-a", &url("source")]).arg(&copy),
                    false => command.arg("-a").arg(format!("{}/", source.display())).arg(url(&up)),
                };
                command
            }
            _ => {
                let (from, to) = match down {
                    true => ("/sample".to_owned(), copy.display().to_string()),
                    false => (source.display().to_string(), format!("/{up}")),
                };
                let reverse = if down { "" } else { "-R " };
                let sessions = if who == "lftp-4" { 4 } else { 8 };
                let port = if who == FROM_OURS { self.tcp } else { self.vsftpd };
                let script = format!(
                    "set ftp:ssl-allow no; open ftp://127.0.0.1:{port}; mirror {reverse}--parallel={sessions} {from} {to}; quit"
                );
                let mut command = Command::new("lftp");
                command.args(["-c", &script]);
                command
            }
        };
        command.env("HOME", &self.home).env("XDG_DATA_HOME", self.home.join("data"));
        command
    }
}

/// Starts vsftpd, to which anonymous users may upload into `up`.
fn start_vsftpd(place: &Path, served: &Path, port: u16) -> Result<Child> {
    let (empty, config) = (place.join("empty"), place.join("vsftpd.conf"));
    fs::create_dir_all(&empty)?;
    fs::set_permissions(served.join("up"), fs::Permissions::from_mode(0o777))?;
    // `daemon` is on every Debian, with a home that exists.
    let text = format!(
        "listen=YES\nlisten_address=127.0.0.1\nlisten_port={port}\nbackground=NO\nanonymous_enable=YES\n\
         no_anon_password=YES\nanon_root={}\nsecure_chroot_dir={}\nxferlog_enable=NO\nseccomp_sandbox=NO\n\
         ftp_username=daemon\nwrite_enable=YES\nanon_upload_enable=YES\nanon_mkdir_write_enable=YES\nanon_umask=022\n",
        served.display(),
        empty.display()
    );
    fs::write(&config, text)?;
    let mut vsftpd = Command::new("/usr/sbin/vsftpd");
    vsftpd.arg(config).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    vsftpd.spawn().context("cannot start vsftpd")
}

/// The folder of files that a program moves.
fn source_of(who: &str) -> &'static str {
    if matches!(who, "braid" | "rsync") { "source" } else { "sample" }
}

fn make_tree(root: &Path, files: usize) -> Result<()> {
    let mut content = vec![0; FILE_BYTES];
    for file in 0..files {
        let folder = root.join(format!("{:04}", file / FOLDER_FILES));
        if file % FOLDER_FILES == 0 {
            fs::create_dir_all(&folder)?;
        }
        content[..8].copy_from_slice(&file.to_le_bytes());
        fs::write(folder.join(format!("{file:06}")), &content)?;
    }
    Ok(())
}

/// The number of files in a tree.
fn count(folder: &Path) -> Result<usize> {
    let mut files = 0;
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        files += if entry.file_type()?.is_dir() { count(&entry.path())? } else { 1 };
    }
    Ok(files)
}

fn free_tcp() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn free_udp() -> Result<u16> {
    Ok(UdpSocket::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for(port: u16) -> Result<()> {
    let begun = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > Duration::from_secs(60) {
            bail!("nobody listens at port {port} after a minute");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
