//! `braidftp serve`.

use std::fmt;
use std::io::{IsTerminal, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use braidftp_ftp::mapping::CONTROL_PORT;
use braidftp_ftp::server as machine;
use braidftp_net::cc;
use braidftp_net::sctp::Profile;
use braidftp_net::{Ended, Endpoint};
use serde::Deserialize;
use tokio::task::JoinSet;
use zeroize::Zeroizing;

use super::check::check;
use super::confine::{Confinement, Level, Report, RunAs};
use super::log::LineLimit;
pub use super::plan::ServeError;
use super::plan::{Plan, cannot_open, processors, runtime};
use super::protection::ProtectionArgs;
use super::{Audit, Listen, Opened, Plain, Resumption, Roster, Settings};
use crate::client::{Mode, MultipathChoice, Size, default_multipath};
use crate::store::fs::Durability;
use crate::users::{Access, Users};

/// The port of `ftp://` for those who may not have 21.
const TCP_PORT_UNPRIVILEGED: u16 = 2121;
/// The port of `ftp://` (RFC 959 §8).
const TCP_PORT: u16 = 21;
/// The port of `ftps://`.
const TLS_PORT: u16 = 990;
/// The port of `ftp+sctp://` (RFC 6951 §5.1).
const UDP_PORT: u16 = 9899;

/// Bytes of a password that `--hash-password` reads.
const HASHED_BYTES_MAX: usize = 4096;

/// What may be written after `braidftp serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The folder to serve; nothing outside it can be reached
    #[arg(required_unless_present_any = ["hash_password", "config"])]
    pub dir: Option<PathBuf>,
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of a usage text")]
    /// Where to listen: ftp://ADDRESS[:PORT] (TLS by AUTH), ftps://ADDRESS[:PORT] (TLS from the first byte), ftp+sctp://ADDRESS[:UDPPORT][/?addr=ADDRESS[:PORT]&…],
    /// ftp+sctp-ip://ADDRESS[:SCTPPORT][/?addr=ADDRESS&…] (needs CAP_NET_RAW); may be repeated
    /// [default: ftp://0.0.0.0:2121 and ftp+sctp://0.0.0.0:9899]
    #[arg(long, value_name = "URL")]
    pub listen: Vec<String>,
    /// Who may log in (TOML; read again on SIGHUP); without it everybody may, as anonymous. After 20 wrong passwords in 10 minutes an address is refused,
    /// and after 100 a user, except where they have logged in before
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// Let users, or anonymous, change files; without it they read
    #[arg(long)]
    pub writable: bool,
    /// A file of settings (TOML); what is given here goes before what it says
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// SCTP parameters: modern or rfc9260
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,
    /// Congestion control of what this side sends, as in cubic or fast:alpha=200 [default: the profile's]
    #[arg(long, value_name = "NAME[:KEY=VALUE,..]", long_help = cc::help())]
    pub cc: Option<cc::Choice>,
    /// How data takes several paths at once, to clients that know of it: off, default, plain, or choices as in
    /// scheduler=ecf,remedy=split-both [default: default]
    #[arg(long, value_name = "off|NAME|KEY=NAME[,..]")]
    pub multipath: Option<MultipathChoice>,
    /// Write every SCTP packet to FILE (pcapng, for Wireshark)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Write every SCTP packet to FILE, a line each, in packetdrill's notation
    #[arg(long, value_name = "FILE")]
    pub packet_log: Option<PathBuf>,
    /// Become USER once the sockets are open and keys are read; NAME and GROUP may be numbers
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub user: Option<String>,
    /// Confine the process to what it serves, by Landlock and seccomp: required (or do not start), best-effort (warn of what
    /// the kernel lacks) or off [default: best-effort]
    #[arg(long, value_name = "LEVEL")]
    pub confine: Option<Level>,
    /// Append a line to FILE for each login, refusal and change; opened anew when it was moved away, and on SIGHUP. Without it
    /// these lines are among those of --verbose
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// How sessions are protected.
    #[command(flatten)]
    pub protection: ProtectionArgs,
    /// Say on standard error who comes and goes; twice: and why things are refused
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Check the configuration, print what would hold (settings, listeners, limits), and serve nothing; exit code 0 if nothing
    /// is wrong
    #[arg(long)]
    pub check: bool,
    /// Read a password from standard input, print its hash for the users file, and do nothing else
    #[arg(long)]
    pub hash_password: bool,
}

/// The file of `--config`. Every key is an option of the same name, or a setting of [`Settings`].
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct File {
    dir: Option<PathBuf>,
    listen: Option<Vec<String>>,
    users: Option<PathBuf>,
    writable: Option<bool>,
    user: Option<String>,
    confine: Option<String>,
    audit: Option<PathBuf>,
    profile: Option<String>,
    cc: Option<String>,
    multipath: Option<String>,
    greeting: Option<String>,
    host: Option<String>,
    max_sessions: Option<usize>,
    max_sessions_per_address: Option<usize>,
    /// `"50000-50100"`.
    passive_ports: Option<String>,
    passive_address: Option<IpAddr>,
    active: Option<bool>,
    idle_seconds: Option<u64>,
    stall_seconds: Option<u64>,
    /// How long unfinished uploads are kept; 0: for ever.
    parts_kept_days: Option<u64>,
    /// What the unfinished uploads of a home may have of the disk, as in "10GiB".
    parts_quota: Option<String>,
    /// What of the disk no upload takes; "0": nothing.
    disk_reserve: Option<String>,
    login_attempts: Option<u32>,
    /// `full`, `bytes` or `none`.
    durability: Option<String>,
    plain: Option<bool>,
    allow_plain: Option<bool>,
    allow_plain_passwords: Option<bool>,
    tls_cert: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    identity: Option<PathBuf>,
    /// `required`, or `optional` for clients that cannot.
    tls_resumption: Option<String>,
}

impl File {
    /// What it says of protection.
    fn protection(&self) -> ProtectionArgs {
        ProtectionArgs {
            plain: self.plain == Some(true),
            allow_plain: self.allow_plain == Some(true),
            allow_plain_passwords: self.allow_plain_passwords == Some(true),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            identity: self.identity.clone(),
        }
    }
}

/// Serves until SIGINT or SIGTERM. Says the fingerprint of its key on standard error, and `listening URL` for each listener once
/// it can be reached. Must be called before the process has other threads.
///
/// # Errors
/// [`ServeError`]; nothing was served.
pub fn serve_command(args: Args) -> Result<(), ServeError> {
    if args.hash_password {
        return hash_password();
    }
    if args.check {
        return check(plan(args)?);
    }
    let limit = log(args.verbose);
    allow_open_files();
    // What a control group allows, which is out of reach later.
    let processors = processors();
    let mut plan = plan(args)?;
    let (protection, origin) = plan.protection.load().map_err(ServeError::Key)?;
    let key = protection.told(origin);
    let weak: Vec<String> = plan.users.weaknesses().collect();
    plan.settings.protection = protection;
    let (audit, users_file) = (plan.settings.audit.clone(), plan.users_file.clone());
    let (opened, report) = plan.open()?;
    // By the user and within the bounds that hold when it has to be opened anew.
    audit
        .reopen()
        .map_err(|error| ServeError::Usage(cannot_open(&audit.path().unwrap_or_default(), &error)))?;
    runtime(processors)?.block_on(serve(Ready { opened, key, weak, users_file, audit, report }, limit))
}

/// A server that is about to serve.
#[derive(Debug)]
struct Ready {
    opened: Opened,
    /// What it says of its key.
    key: String,
    /// Sentences about weak hashes of users.
    weak: Vec<String>,
    users_file: Option<(PathBuf, Access)>,
    audit: Arc<Audit>,
    report: Report,
}

async fn serve(ready: Ready, limit: LineLimit) -> Result<(), ServeError> {
    let Ready { opened, key, weak, users_file, audit, report } = ready;
    let server = opened.start().map_err(ServeError::Start)?;
    // Before the first line, so that who waits for it may send a signal at once.
    let signals = Signals::new(audit.path().is_some() || users_file.is_some())
        .map_err(|error| ServeError::Usage(format!("cannot wait for signals: {error}")))?;
    {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{key}");
        for place in server.local_addrs() {
            let _ = writeln!(stderr, "listening {place}");
        }
    }
    weak.iter().for_each(|sentence| tracing::warn!("{sentence}"));
    report.holds.iter().for_each(|line| tracing::info!("confined: {line}"));
    report.missing.iter().for_each(|line| tracing::warn!("not confined: {line}"));
    report.lost.iter().for_each(|line| tracing::info!("out of reach: {line}"));
    let (handle, roster) = (server.handle(), server.roster());
    let endpoints = server.endpoints();
    let mut told = std::pin::pin!(limit.tell());
    let mut failed = std::pin::pin!(failed(endpoints));
    let mut running = std::pin::pin!(server.run());
    let mut signals = signals;
    loop {
        tokio::select! {
            () = &mut running => return Ok(()),
            () = &mut failed => return Err(ServeError::Sctp),
            () = &mut told => {}
            signal = signals.next() => match signal {
                Told::Stop => handle.stop(),
                Told::StopNow => handle.abort(),
                Told::Reopen => {
                    if let Err(error) = audit.reopen() {
                        tracing::error!("{}", cannot_open(&audit.path().unwrap_or_default(), &error));
                    }
                    if let Some((file, access)) = &users_file {
                        read_users_again(&roster, file, *access);
                    }
                },
            },
        }
    }
}

/// Puts the users of the file in the place of those before, if they are good; what is wrong with them is an error of the log.
fn read_users_again(roster: &Roster, file: &Path, access: Access) {
    let read = Users::load(file, access).map_err(|error| error.to_string());
    let weak: Vec<String> = read.iter().flat_map(Users::weaknesses).collect();
    let replaced = read.and_then(|users| {
        let why = |why| format!("the users file `{}` cannot be used: {why}", file.display());
        roster.replace(users).map_err(why)
    });
    match replaced {
        Ok(()) => {
            tracing::info!(file = %file.display(), "the users file was read again");
            weak.iter().for_each(|sentence| tracing::warn!("{sentence}"));
        }
        Err(why) => tracing::error!("{why}; the users before stay"),
    }
}

/// The process may open as many files as the system lets it: the usual limit is for programs that call `select`.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it may not, what it has must do; `--check` says whether it does.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Waits until the task of an SCTP endpoint has failed; for ever, if none does.
async fn failed(endpoints: Vec<Endpoint>) {
    let mut ends: JoinSet<Ended> =
        endpoints.into_iter().map(|endpoint| async move { endpoint.ended().await }).collect();
    while let Some(end) = ends.join_next().await {
        if matches!(end, Ok(Ended::Failed)) {
            return;
        }
    }
    std::future::pending().await
}

/// Sends what the server notes to standard error. Names and words of the other side are escaped where they are noted.
fn log(verbose: u8) -> LineLimit {
    use tracing_subscriber::filter::LevelFilter;
    use tracing_subscriber::layer::SubscriberExt;
    use tracing_subscriber::util::SubscriberInitExt;
    let level = match verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    // Fails if the program has a subscriber already: then that one is meant.
    let limit = LineLimit::default();
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr);
    // No colours in files and journals.
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    let _ = tracing_subscriber::registry().with(level).with(limit.clone()).with(lines).try_init();
    limit
}

#[derive(Debug)]
struct Signals {
    int: tokio::signal::unix::Signal,
    term: tokio::signal::unix::Signal,
    /// Without a file to open anew, it ends the process as usual.
    hangup: Option<tokio::signal::unix::Signal>,
    stops: u32,
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Stop,
    /// For the second time.
    StopNow,
    /// To open log files anew, and to read the users file again.
    Reopen,
}

impl Signals {
    fn new(has_files: bool) -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = has_files.then(|| signal(SignalKind::hangup())).transpose()?;
        let (int, term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { int, term, hangup, stops: 0 })
    }

    async fn next(&mut self) -> Told {
        let Self { int, term, hangup, .. } = self;
        let hung_up = async {
            match hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hung_up => return Told::Reopen,
        }
        self.stops += 1;
        if self.stops == 1 { Told::Stop } else { Told::StopNow }
    }
}

fn hash_password() -> Result<(), ServeError> {
    // Room for all of it, so that no copy stays behind.
    let mut password = Zeroizing::new(Vec::with_capacity(2 * HASHED_BYTES_MAX));
    let read = std::io::stdin().lock().take(HASHED_BYTES_MAX as u64).read_to_end(&mut password);
    read.map_err(|error| {
        ServeError::Usage(format!("cannot read the password from standard input: {error}"))
    })?;
    while password.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        password.pop();
    }
    if password.is_empty() {
        return Err(ServeError::Usage("no password on standard input: write one, then end the line".into()));
    }
    let hash = Users::hash(&password).map_err(|error| ServeError::Usage(error.to_string()))?;
    let _ = writeln!(std::io::stdout(), "{hash}");
    Ok(())
}

fn plan(args: Args) -> Result<Plan, ServeError> {
    let file = match &args.config {
        Some(path) => read_file(path)?,
        None => File::default(),
    };
    let usage = |why: String| ServeError::Usage(why);
    let protection = args.protection.or(file.protection()).wanted().map_err(ServeError::Key)?;
    let Some(dir) = args.dir.or(file.dir) else {
        return Err(usage("which folder shall be served? give DIR, or `dir` in the file of settings".into()));
    };
    let listen = if args.listen.is_empty() { file.listen.unwrap_or_default() } else { args.listen };
    let listen = if listen.is_empty() {
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        vec![
            Listen::Tcp(SocketAddr::new(any, TCP_PORT_UNPRIVILEGED)),
            Listen::SctpUdp(vec![SocketAddr::new(any, UDP_PORT)]),
        ]
    } else {
        listen.iter().map(|text| parse_listen(text).map_err(usage)).collect::<Result<_, _>>()?
    };
    let writable = args.writable || file.writable.unwrap_or(false);
    let access = if writable { Access::Writable } else { Access::ReadOnly };
    let users_file = args.users.or(file.users).map(|path| (path, access));
    let users = match &users_file {
        Some((path, access)) => Users::load(path, *access).map_err(|error| usage(error.to_string()))?,
        None => Users::anonymous(access),
    };
    if !protection.protects() && protection.plain_passwords == Plain::Refused && users.any_has_password() {
        return Err(usage(
            "the users file has users with passwords, and nothing is protected: they could not log in; leave out `plain`, or take \
             passwords in the clear with --allow-plain-passwords"
                .into(),
        ));
    }

    let mut settings = Settings::default();
    let mut session = machine::Config::default();
    let profile = match (args.profile, file.profile) {
        (Some(profile), _) => Some(profile),
        (None, Some(text)) => Some(text.parse().map_err(|error| usage(format!("{error}")))?),
        (None, None) => None,
    };
    settings.sctp = profile.unwrap_or(Profile::Modern).config();
    let cc: Option<cc::Choice> = match (args.cc, file.cc) {
        (Some(choice), _) => Some(choice),
        (None, Some(text)) => Some(text.parse().map_err(|error| usage(format!("cc: {error}")))?),
        (None, None) => None,
    };
    if let Some(cc) = cc {
        cc.apply(&mut settings.sctp.congestion.control, &mut settings.sctp.congestion.options);
    }
    let multipath = match (args.multipath, file.multipath) {
        (Some(choice), _) => choice,
        (None, Some(text)) => text.parse().map_err(|error| usage(format!("multipath: {error}")))?,
        (None, None) => default_multipath(Mode::Braid),
    };
    multipath.apply(&mut settings.sctp);
    settings.pcap = args.pcap;
    settings.packet_log = args.packet_log;
    if let Some(path) = args.audit.or(file.audit) {
        settings.audit = Arc::new(Audit::to_file(path));
    }
    set(&mut session.greeting, file.greeting);
    session.host = file.host;
    set(&mut session.login_attempts, file.login_attempts);
    set(&mut session.idle, file.idle_seconds.map(Duration::from_secs));
    if file.active == Some(true) {
        session.active = machine::Active::ToPeer;
    }
    if let Some(days) = file.parts_kept_days {
        settings.parts_kept = (days > 0).then(|| Duration::from_secs(days.saturating_mul(86_400)));
    }
    let size = |key: &str, text: Option<String>| {
        let parsed = text.map(|text| text.parse::<Size>().map(|Size(bytes)| bytes));
        parsed.transpose().map_err(|why| usage(format!("{key}: {why}")))
    };
    settings.parts_quota = size("parts-quota", file.parts_quota)?;
    settings.disk_reserve = size("disk-reserve", file.disk_reserve)?;
    set(&mut settings.stall, file.stall_seconds.map(Duration::from_secs));
    set(&mut settings.max_sessions, file.max_sessions);
    set(&mut settings.max_sessions_per_address, file.max_sessions_per_address);
    settings.passive_address = file.passive_address;
    settings.passive_ports = file.passive_ports.as_deref().map(parse_ports).transpose().map_err(usage)?;
    settings.durability = match file.durability.as_deref() {
        None | Some("full") => Durability::Full,
        Some("bytes") => Durability::Bytes,
        Some("none") => Durability::None,
        Some(other) => return Err(usage(format!("durability is `full`, `bytes` or `none`, not `{other}`"))),
    };
    settings.tls_resumption = match file.tls_resumption.as_deref() {
        None | Some("required") => Resumption::Required,
        Some("optional") => Resumption::Optional,
        Some(other) => {
            return Err(usage(format!("tls-resumption is `required` or `optional`, not `{other}`")));
        }
    };
    settings.session = Arc::new(session);
    let level = match (args.confine, file.confine) {
        (Some(level), _) => level,
        (None, Some(text)) => text.parse().map_err(usage)?,
        (None, None) => Level::default(),
    };
    let run_as = args.user.or(file.user).map(|user| user.parse::<RunAs>()).transpose().map_err(usage)?;
    // The rest follows from what is opened.
    let confinement = Confinement { level, run_as, ..Confinement::default() };
    Ok(Plan { dir, listen, users, users_file, settings, protection, confinement })
}

fn set<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

fn read_file(path: &Path) -> Result<File, ServeError> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| ServeError::Usage(format!("cannot read the settings `{}`: {e}", path.display())))?;
    toml::from_str(&text)
        .map_err(|e| ServeError::Usage(format!("the settings `{}` cannot be used: {e}", path.display())))
}

fn parse_ports(text: &str) -> Result<RangeInclusive<u16>, String> {
    let wrong = || format!("passive-ports is a range such as \"50000-50100\", not \"{text}\"");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong);
    let (first, last) = (port(first)?, port(last)?);
    if first <= last { Ok(first..=last) } else { Err(wrong()) }
}

/// A place to listen: a URL with an address, not a name, because a socket is bound to one.
fn parse_listen(text: &str) -> Result<Listen, String> {
    let wrong = |why: &str| {
        format!(
            "cannot listen at `{text}`: {why}; write ftp://ADDRESS:PORT or ftp+sctp://ADDRESS:UDPPORT, as in ftp+sctp://0.0.0.0:9899"
        )
    };
    let url = url::Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() || !matches!(url.path(), "" | "/") {
        return Err(wrong("it holds more than an address"));
    }
    let host = url.host_str().unwrap_or_default();
    let host = if host == "localhost" { "127.0.0.1" } else { host };
    let ip: IpAddr = host
        .trim_matches(['[', ']'])
        .parse()
        .map_err(|_| wrong("the host must be an IP address, such as 0.0.0.0, [::] or 127.0.0.1"))?;
    match url.scheme() {
        "ftp" | "ftps" if url.query().is_some() => Err(wrong("a TCP listener has one address")),
        "ftps" => Ok(Listen::Tls(SocketAddr::new(ip, url.port().unwrap_or(TLS_PORT)))),
        "ftp" => Ok(Listen::Tcp(SocketAddr::new(ip, url.port().unwrap_or(TCP_PORT)))),
        "ftp+sctp" => {
            let port = url.port().unwrap_or(UDP_PORT);
            let mut addresses = vec![SocketAddr::new(ip, port)];
            for (key, value) in url.query_pairs() {
                if key != "addr" {
                    return Err(wrong("of parameters there is `addr` alone"));
                }
                let more = value
                    .parse::<SocketAddr>()
                    .or_else(|_| value.trim_matches(['[', ']']).parse().map(|ip| SocketAddr::new(ip, port)));
                addresses.push(more.map_err(|_| wrong("`addr` must be an IP address"))?);
            }
            once(&addresses).map_err(|twice| wrong(&twice))?;
            Ok(Listen::SctpUdp(addresses))
        }
        "ftpes" => Err(wrong("ftp:// takes TLS by AUTH; ftps:// begins with TLS")),
        "ftp+sctp-ip" => {
            let mut addresses = vec![ip];
            for (key, value) in url.query_pairs() {
                if key != "addr" {
                    return Err(wrong("of parameters there is `addr` alone"));
                }
                let more = value.trim_matches(['[', ']']).parse();
                addresses.push(more.map_err(|_| wrong("`addr` must be an IP address, without a port"))?);
            }
            once(&addresses).map_err(|twice| wrong(&twice))?;
            match url.port().unwrap_or(CONTROL_PORT) {
                0 => Err(wrong("an SCTP port is 1 to 65535")),
                port => Ok(Listen::SctpIp(addresses, port)),
            }
        }
        _ => Err(wrong("unknown scheme")),
    }
}

/// Each address once.
fn once<T: PartialEq + fmt::Display>(addresses: &[T]) -> Result<(), String> {
    let twice = addresses.iter().enumerate().find(|(index, address)| addresses[..*index].contains(address));
    twice.map_or(Ok(()), |(_, address)| Err(format!("{address} is given twice")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: Option<&str>) -> Args {
        Args {
            dir: dir.map(PathBuf::from),
            listen: Vec::new(),
            users: None,
            writable: false,
            config: None,
            profile: None,
            cc: None,
            pcap: None,
            packet_log: None,
            multipath: None,
            user: None,
            confine: None,
            protection: ProtectionArgs { plain: true, ..ProtectionArgs::default() },
            audit: None,
            verbose: 0,
            check: false,
            hash_password: false,
        }
    }

    #[test]
    fn without_options_it_listens_on_both_transports_and_is_read_only() {
        let plan = plan(args(Some("/srv"))).unwrap();
        let listen: Vec<String> = plan.listen.iter().map(Listen::to_string).collect();
        assert_eq!(listen, ["ftp://0.0.0.0:2121", "ftp+sctp://0.0.0.0:9899"]);
        assert_eq!(plan.settings.session.active, machine::Active::Refused);
    }

    #[test]
    fn places_to_listen_are_urls_of_addresses() {
        for (text, shown) in [
            ("ftp://127.0.0.1:2121", "ftp://127.0.0.1:2121"),
            ("ftp://[::1]", "ftp://[::1]:21"),
            ("ftp://localhost:0/", "ftp://127.0.0.1:0"),
            ("ftps://[::]", "ftps://[::]:990"),
            ("ftp+sctp://0.0.0.0", "ftp+sctp://0.0.0.0:9899"),
            (
                "ftp+sctp://10.0.0.1:7000/?addr=10.1.0.1&addr=[::1]:7001",
                "ftp+sctp://10.0.0.1:7000/?addr=10.1.0.1:7000&addr=[::1]:7001",
            ),
            ("ftp+sctp-ip://10.0.0.1", "ftp+sctp-ip://10.0.0.1:21"),
            (
                "ftp+sctp-ip://[::]:7/?addr=10.1.0.1&addr=[::1]",
                "ftp+sctp-ip://[::]:7/?addr=10.1.0.1&addr=::1",
            ),
        ] {
            assert_eq!(parse_listen(text).unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "",
            "127.0.0.1:21",
            "ftp://example.org",
            "http://127.0.0.1",
            "ftpes://127.0.0.1",
            "ftps://127.0.0.1/?addr=127.0.0.2",
            "ftp+sctp-ip://127.0.0.1/?addr=127.0.0.2:21",
            "ftp+sctp-ip://127.0.0.1:0",
            "ftp+sctp-ip://example.org",
            "ftp://127.0.0.1/x",
            "ftp://u@127.0.0.1",
            "ftp+sctp://127.0.0.1/?x=1",
            "ftp+sctp://127.0.0.1/?addr=x",
            "ftp+sctp://127.0.0.1/?addr=127.0.0.1",
            "ftp+sctp-ip://127.0.0.1/?addr=127.0.0.2&addr=127.0.0.2",
            "ftp://127.0.0.1/?addr=127.0.0.2",
        ] {
            assert!(parse_listen(text).is_err(), "{text}");
        }
    }

    #[test]
    fn congestion_control_is_chosen_with_its_parameters_and_what_is_wrong_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        let with = |text: &str| {
            std::fs::write(&path, format!("cc = '{text}'\n")).unwrap();
            plan(Args { config: Some(path.clone()), ..args(Some("/srv")) })
        };
        let sctp = with("hybla:rtt0=50ms").unwrap().settings.sctp;
        assert_eq!(sctp.congestion.control, cc::Kind::Hybla);
        assert_eq!(sctp.congestion.options.hybla.rtt0, Duration::from_millis(50));
        let error = |text: &str| with(text).unwrap_err().to_string();
        assert!(
            error("vegas")
                .contains("cc: no congestion control is called `vegas`; there are sctp, reno, cubic")
        );
        assert!(error("hybla:rtt0=0s").contains("expected 1ms to 10s"));
    }

    #[test]
    fn a_file_of_settings_is_read_and_the_command_line_goes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        let text = "parts-kept-days = 2\nparts-quota = '3GB'\ndisk-reserve = '0'\ndir = '/srv'\nlisten = ['ftp://127.0.0.1:2121']\nwritable = true\npassive-ports = '50000-50100'\n\
                    active = true\nidle-seconds = 60\ndurability = 'bytes'\nprofile = 'rfc9260'\n";
        std::fs::write(&path, text).unwrap();
        let plan1 = plan(Args { config: Some(path.clone()), ..args(None) }).unwrap();
        assert_eq!(plan1.dir, Path::new("/srv"));
        assert_eq!(plan1.settings.passive_ports, Some(50_000..=50_100));
        assert_eq!(plan1.settings.session.idle, Duration::from_secs(60));
        assert_eq!(plan1.settings.durability, Durability::Bytes);
        assert_eq!(plan1.settings.parts_kept, Some(Duration::from_secs(2 * 86_400)));
        assert_eq!((plan1.settings.parts_quota, plan1.settings.disk_reserve), (Some(3_000_000_000), Some(0)));
        let both = Args {
            config: Some(path.clone()),
            listen: vec!["ftp://127.0.0.1:7".into()],
            ..args(Some("/other"))
        };
        let plan2 = plan(both).unwrap();
        assert_eq!((plan2.dir.as_path(), plan2.listen.len()), (Path::new("/other"), 1));
        assert_eq!(plan2.listen[0].to_string(), "ftp://127.0.0.1:7");

        for (text, why) in [
            ("lisen = []", "lisen"),
            ("passive-ports = '50100-50000'", "passive-ports"),
            ("passive-ports = '0-1'", "passive-ports"),
            ("durability = 'some'", "durability"),
            ("tls-resumption = 'never'", "tls-resumption"),
            ("parts-quota = '3 apples'", "parts-quota"),
            ("disk-reserve = 'all'", "disk-reserve"),
            ("profile = 'mordern'", "mordern"),
            ("users = '/nowhere'", "/nowhere"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = plan(Args { config: Some(path.clone()), ..args(Some("/srv")) }).unwrap_err();
            assert_eq!(error.exit_code(), 1);
            assert!(error.to_string().contains(why), "{text}: {error}");
        }
    }
}
