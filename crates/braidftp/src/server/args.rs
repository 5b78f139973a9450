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

/// What may be written after `braidftp serve`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// The folder to serve; nothing outside it can be reached
    #[arg(required_unless_present_any = ["hash_password", "config", "print_config"])]
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
    /// A file of settings (TOML; --print-config shows one); what is given here goes before what it says. SIGHUP reads it again
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
    /// Write SCTP packets and the state of each path to FILE, as qlog (JSON-SEQ, for qvis and scripts)
    #[arg(long, value_name = "FILE")]
    pub qlog: Option<PathBuf>,
    /// Become USER once the sockets are open and keys are read; NAME and GROUP may be numbers
    #[arg(long, value_name = "NAME[:GROUP]")]
    pub user: Option<String>,
    /// Permissions that new files and folders do not get, in octal, as in 027 [default: those of the shell]
    #[arg(long, value_name = "MODE")]
    pub umask: Option<Umask>,
    /// Confine the process to what it serves, by Landlock and seccomp: required (or do not start), best-effort (warn of what
    /// the kernel lacks) or off [default: best-effort]
    #[arg(long, value_name = "LEVEL")]
    pub confine: Option<Level>,
    /// Append a line to FILE for each login, refusal and change; opened anew when it was moved away, and on SIGHUP. Without it
    /// these lines are among those of --verbose
    #[arg(long, value_name = "FILE")]
    pub audit: Option<PathBuf>,
    /// Append a line to FILE for each file that was sent or received, in the format of wu-ftpd's xferlog
    #[arg(long, value_name = "FILE")]
    pub xferlog: Option<PathBuf>,
    /// Answer scrapers of Prometheus at this address: GET /metrics
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
    /// The page of what is under way.
    #[command(flatten)]
    pub dashboard: dashboard::DashboardArgs,
    /// A Unix socket, of mode 600, at which `braidftp ctl` asks who is there, ends sessions, and has the server drain
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// How sessions are protected.
    #[command(flatten)]
    pub protection: ProtectionArgs,
    /// Say on standard error who comes and goes; twice: and why things are refused
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// The lines of --verbose as text, or as json with an object a line; those of a session have its number [default: text]
    #[arg(long, value_name = "text|json")]
    pub log_format: Option<Format>,
    /// How long transfers may go on after SIGTERM or SIGINT, while new sessions are told 421; a second signal ends them at once
    /// [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub drain_seconds: Option<u32>,
    /// Print a file of settings that shows every key and sets none, and do nothing else
    #[arg(long)]
    pub print_config: bool,
    /// Check the configuration, print what would hold (settings, listeners, limits), and serve nothing; exit code 0 if nothing
    /// is wrong
    #[arg(long)]
    pub check: bool,
    /// Read a password from standard input, print its hash for the users file, and do nothing else
    #[arg(long)]
    pub hash_password: bool,
}
