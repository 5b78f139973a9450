//! The command line of `braidftp serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use braidftp_net::cc;
use braidftp_net::sctp::Profile;

use super::confine::Level;
use super::log::Format;
use super::protection::ProtectionArgs;
use super::umask::Umask;
use crate::client::MultipathChoice;
use crate::dashboard;

/// The arguments of `braidftp serve`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The folder to serve; nothing outside it can be accessed. Or the address of an object store, as in
    /// s3://BUCKET/PREFIX?region=NAME (also gcs, azblob, webdav, webhdfs), with its keys in the variables of the store
    #[arg(required_unless_present_any = ["hash_password", "config", "print_config"])]
    pub dir: Option<PathBuf>,
    #[allow(rustdoc::broken_intra_doc_links, reason = "the brackets are those of a usage text")]
    /// Where to listen: ftp://ADDRESS[:PORT] (TLS by AUTH), ftps://ADDRESS[:PORT] (implicit TLS),
    /// ftp+sctp://ADDRESS[:UDPPORT][/?addr=ADDRESS[:PORT]&…],
    /// ftp+sctp-ip://ADDRESS[:SCTPPORT][/?addr=ADDRESS&…] (needs CAP_NET_RAW); may be repeated [default:
    /// ftp://0.0.0.0:2121 and ftp+sctp://0.0.0.0:9899]
    #[arg(long, value_name = "URL")]
    pub listen: Vec<String>,
    /// The users who may log in (TOML; read again on SIGHUP); without it everybody may, as anonymous. After
    /// 20 wrong passwords in 10 minutes an address is refused, and after 100 a user, except at addresses of
    /// earlier logins
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// Let users, or anonymous, change files; without it they may only read
    #[arg(long)]
    pub writable: bool,
    /// A file of settings (TOML; --print-config prints an example); the command line has precedence. SIGHUP
    /// reads it again
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// SCTP parameters: modern or rfc9260
    #[arg(long, value_name = "NAME")]
    pub profile: Option<Profile>,
    /// Congestion control for data that this side sends, as in cubic or fast:alpha=200 [default: the
    /// profile's]
    #[arg(long, value_name = "NAME[:KEY=VALUE,..]", long_help = cc::help())]
    pub cc: Option<cc::Choice>,
    /// How data uses several paths concurrently, to clients that support it: off, default, plain, or settings
    /// as in scheduler=ecf,remedy=split-both [default: default]
    #[arg(long, value_name = "off|NAME|KEY=NAME[,..]")]
    pub multipath: Option<MultipathChoice>,
    /// Write every SCTP packet to FILE (pcapng, for Wireshark)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Write every SCTP packet to FILE, one per line, in packetdrill's notation
    #[arg(long, value_name = "FILE")]
    pub packet_log: Option<PathBuf>,
    /// Write SCTP packets and the state of each path to FILE, as qlog (JSON-SEQ, for qvis and scripts)
    #[arg(long, value_name = "FILE")]
    pub qlog: Option<PathBuf>,
    /// Change to USER once the sockets are open and keys are read; NAME and GROUP may be numbers
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub user: Option<String>,
    /// Permissions that new files and folders do not get, in octal, as in 027 [default: the shell's]
    #[arg(long, value_name = "MODE")]
    pub umask: Option<Umask>,
    /// Confine the process to what it serves, by Landlock and seccomp: required (or fail to start),
    /// best-effort (warn if the kernel lacks a feature) or off [default: best-effort]
    #[arg(long, value_name = "LEVEL")]
    pub confine: Option<Level>,
    /// Append a line to FILE for each login, refusal and change; opened again when it was moved away, and on
    /// SIGHUP. Without it these lines are among those of --verbose
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Append a line to FILE for each file that was sent or received, in the format of wu-ftpd's xferlog
    #[arg(long, value_name = "FILE")]
    pub xferlog: Option<PathBuf>,
    /// Serve metrics for Prometheus at this address: GET /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// Options of the dashboard.
    #[command(flatten)]
    pub dashboard: dashboard::DashboardArgs,
    /// Create a Unix socket, with mode 600, through which `braidftp ctl` lists sessions, ends them, and
    /// drains the server
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Options for protection.
    #[command(flatten)]
    pub protection: ProtectionArgs,
    /// Log the beginning and end of sessions on standard error; given twice: also the reasons of refusals
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// The format of --verbose: text, or json with one object per line; lines of a session contain its number
    /// [default: text]
    #[arg(long, value_name = "text|json")]
    pub log_format: Option<Format>,
    /// How long transfers may continue after SIGTERM or SIGINT, while new sessions get 421; a second signal
    /// ends them immediately [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub drain_seconds: Option<u32>,
    /// Print a file of settings that shows every key and sets none, and exit
    #[arg(long)]
    pub print_config: bool,
    /// Check the configuration, print the effective settings, listeners and limits, and exit; exit code 0 if
    /// there is no error
    #[arg(long)]
    pub check: bool,
    /// Read a password from standard input, print its hash for the users file, and exit
    #[arg(long)]
    pub hash_password: bool,
}
