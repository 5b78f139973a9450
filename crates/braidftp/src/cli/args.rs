//! The definition of the command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use braidftp_base::Rate;
use braidftp_net::cc;
use braidftp_net::sctp::{PathScheduler, Remedy, RetransmitBy};
use clap::{Args, Parser, Subcommand};

use super::protection::Protection;
use crate::client::{Bounds, Mode, MultipathChoice, PARALLEL_MAX, PathRule, Size};
use crate::dashboard;
use crate::url::Url;

/// FTP carried by SCTP: moves many files fast over links that lose packets or have long delays, and over
/// several links at once.
#[derive(Debug, Parser)]
#[command(name = "braidftp", version, disable_help_subcommand = true, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve a folder over FTP, on TCP and on SCTP
    Serve(crate::server::command::Args),
    /// Run the hooks of a server; started by the server itself
    #[command(hide = true)]
    RunHooks,
    /// List the sessions of a running server, end one, or drain the server
    Ctl(crate::server::ctl::command::Args),
    /// Fetch files; globs in the last part of a URL's path select several
    #[command(after_help = URL_HELP)]
    Get(Get),
    /// Send files to a folder of a server, or one file to a name
    #[command(after_help = URL_HELP)]
    Put(Put),
    /// Make a local folder the same as a remote one, or with -R the other way round
    #[command(after_help = URL_HELP)]
    Mirror(Mirror),
    /// List the differences between a remote and a local folder, by digest, without transferring contents
    #[command(after_help = URL_HELP)]
    Verify(Verify),
    /// List a folder
    Ls(Ls),
    /// Print the total size of the files in folders
    Du(Du),
    /// Find files and folders by name, kind, size and time
    Find(FindCommand),
    /// Print the tree of folders and files
    Tree(Paths),
    /// Write files to standard output
    Cat(Paths),
    /// Delete files, or with -r whole folders
    Rm(Rm),
    /// Make folders
    Mkdir(Mkdir),
    /// Rename or move a file or a folder
    Mv(Mv),
    /// Run commands interactively or from a script
    Shell(ShellCommand),
    /// Test the connection to a server, and suggest remedies for problems
    Doctor(Doctor),
    /// Print the effective settings and where each comes from
    Config(ConfigCommand),
    /// List the network paths of a running job, take one out of use, or put it back
    Path(PathCommand),
    /// Print or change the rate limit of a running job
    Limit(LimitCommand),
    /// Print the key by which servers identify this user, or create one
    Key(KeyCommand),
    /// Explain a topic: cc, multipath, urls, filter, users
    Help(HelpCommand),
    /// Print completions for a shell: source <(braidftp completions bash)
    Completions(Completions),
    /// Write man pages to a folder
    Man(Man),
    /// Compare the modes on this machine over an emulated lossy link
    Demo(crate::demo::Args),
}

/// The help text on URLs, passwords and exit codes.
pub(super) const URL_HELP: &str = "\
URLs: ftp://[USER@]HOST[:PORT]/PATH (TCP, port 21), ftp+sctp://[USER@]HOST[:UDPPORT]/PATH (SCTP in UDP, port 9899),
  ftp+sctp-ip://[USER@]HOST[:SCTPPORT]/PATH (SCTP over IP itself, port 21; needs CAP_NET_RAW).
  More addresses of a multihomed server: ?addr=ADDRESS&addr=ADDRESS.
  PATH is relative to the login folder; %2F at its start makes it absolute; %XX writes any byte.
Protection: ftp+sctp:// in mode braid is protected, or refused; --plain does without on both sides. A server is known by --pin,
  by known_hosts, or by an authority; one that is new is asked about at a terminal, and refused in a script.
Passwords: BRAIDFTP_PASSWORD (with USER in the URL or in BRAIDFTP_USER), ~/.netrc, or the URL, which others can see.
Exit codes: 0 ok; 1 usage; 2 cannot connect; 3 not trusted or not protected; 4 login; 5 no such remote path; 6 local file error; 7 remote refused;
  8 timed out; 9 verify mismatch; 10 some files failed; 11 interrupted, can resume; 14 protocol violation; 130 Ctrl-C.";

/// Options of every command that connects to a server.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// The mode: tcp (for ftp://), or naive, ms, ms-cp, braid (for ftp+sctp://; default braid)
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Congestion control for data that this side sends, as in cubic or fast:alpha=200 (braidftp help cc)
    /// [default: the profile's]
    #[arg(long, value_name = "NAME[:KEY=VALUE,..]")]
    pub cc: Option<String>,
    /// SCTP parameters: modern (default for braid) or rfc9260 (default for naive, ms, ms-cp)
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Write every SCTP packet to FILE (pcapng, for Wireshark)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Write every SCTP packet to FILE, one per line, in packetdrill's notation
    #[arg(long, value_name = "FILE")]
    pub packet_log: Option<PathBuf>,
    /// Write SCTP packets and the state of each path to FILE, as qlog (JSON-SEQ, for qvis and scripts)
    #[arg(long, value_name = "FILE")]
    pub qlog: Option<PathBuf>,
    /// The maximum rate of file bytes, as in 3mbit or 2MB (per second); `braidftp limit` changes it while the
    /// job runs
    #[arg(long, value_name = "RATE", visible_alias = "bwlimit")]
    pub limit: Option<Rate>,
    /// Print one JSON event per line to standard output; the last one is a summary
    #[arg(long)]
    pub json: bool,
    /// Print errors only
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print each file; given twice, also the lines of the protocol
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Over TCP: the number of sessions that transfer files concurrently; fewer if the server refuses more
    /// sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=PARALLEL_MAX as i64))]
    pub parallel: Option<u8>,
    /// End the attempt if the server sends nothing for this time
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    pub timeout: Seconds,
    /// How often a lost connection is opened again, for up to --timeout each time, and a file whose data
    /// connection failed is requested again
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: u32,
    /// Stop reconnecting this long after the start of the job
    #[arg(long, value_name = "SECONDS")]
    pub retry_for: Option<Seconds>,
    /// The maximum size of a file to fetch, as in 500MB or 4GiB [default: the size that the server reports,
    /// or 64 GiB if it reports none]
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<Size>,
    /// The maximum depth of folders below the given one
    #[arg(long, value_name = "N", default_value_t = Bounds::default().max_depth)]
    pub max_depth: usize,
    /// The maximum number of entries of a tree or of one listing
    #[arg(long, value_name = "N", default_value_t = Bounds::default().max_entries)]
    pub max_entries: u64,
    /// Use only this local address [and with it this address of the server]; may be given several times
    #[arg(long = "path", value_name = "LOCAL[=REMOTE]")]
    pub paths: Vec<PathRule>,
    /// How data uses several paths concurrently: off, default, plain, or settings as in
    /// scheduler=ecf,remedy=split-both (braidftp help multipath) [default: default in braid, off in other
    /// modes]
    #[arg(long, value_name = "off|NAME|KEY=NAME[,..]")]
    pub multipath: Option<MultipathChoice>,
    /// Create a Unix socket with this name, with which `braidftp path` takes paths out of use and puts them
    /// back, and `braidftp limit` changes --limit, while the job runs
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Options for protection.
    #[command(flatten)]
    pub protection: Protection,
}

impl Common {
    /// The limits on what the client accepts from the server.
    pub fn bounds(&self) -> Bounds {
        let max_size = self.max_size.map(|Size(bytes)| bytes);
        Bounds { max_size, max_depth: self.max_depth, max_entries: self.max_entries }
    }
}

/// All values that `--multipath` accepts.
pub(super) fn multipath_help() -> String {
    let names = |all: Vec<String>| all.join(", ");
    format!(
        "How data takes several paths at once: off (one at a time, others when it dies), default (which needs no tuning), plain (as \
         the literature has it), or a choice of\n  scheduler={}\n  retransmit={}\n  remedy={}\n  coupling={}\n\
         [default: default in braid, off in other modes; where the server knows of it]",
        names(PathScheduler::ALL.iter().map(ToString::to_string).collect()),
        names(RetransmitBy::ALL.iter().map(ToString::to_string).collect()),
        names(Remedy::ALL.iter().map(ToString::to_string).collect()),
        names(cc::coupled::Coupling::ALL.iter().map(ToString::to_string).collect()),
    )
}

/// The command `key`.
#[derive(Debug, Args)]
#[command(
    after_help = "Send the fingerprint to the server's operator, for `keys` in the users file. The key is in \
                        ~/.local/share/braidftp/client.pem; who can read it can log in as you."
)]
pub struct KeyCommand {
    /// `show` prints the fingerprint, `new` creates a key
    #[arg(default_value = "show", value_parser = ["show", "new"])]
    pub what: String,
    /// The key of a server in FILE, as created by `braidftp serve` [default: the file of this user's server]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub server: Option<Option<PathBuf>>,
}

/// The command `shell`.
#[derive(Debug, Args)]
#[command(
    after_help = "`help` in the shell lists what it does. Without a terminal lines come from standard input; the first that \
                        fails ends the shell with its exit code."
)]
pub struct ShellCommand {
    /// The server and folder to start with: a URL or @BOOKMARK
    pub url: Option<String>,
    /// Run the lines of FILE, then exit
    #[arg(short = 'f', long, value_name = "FILE")]
    pub script: Option<PathBuf>,
}

/// The command `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The server; without it only this machine is tested
    pub url: Option<Url>,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `config`.
#[derive(Debug, Args)]
#[command(
    after_help = "Settings are options of client commands, as in `timeout = 30` or `parallel = 8`, in \
                        ~/.config/braidftp/config.toml. [bookmark.site] with a url makes @site and @site/PATH stand for that \
                        URL. BRAIDFTP_TIMEOUT and its like go before the file, the command line before all."
)]
pub struct ConfigCommand {
    /// `show` prints each setting, `path` the location of the file
    #[arg(default_value = "show", value_parser = ["show", "path"])]
    pub what: String,
    /// Also print where each setting comes from
    #[arg(long)]
    pub origin: bool,
    /// Include the settings of this bookmark: @NAME
    #[arg(value_name = "URL")]
    pub url: Option<Url>,
}

/// The command `path`.
#[derive(Debug, Args)]
pub struct PathCommand {
    /// The socket that the job created with --control
    pub socket: PathBuf,
    /// `list`, `off` or `on`
    #[arg(default_value = "list", value_parser = ["list", "off", "on"])]
    pub what: String,
    /// The number of the path, as printed by `list`
    #[arg(required_if_eq_any([("what", "off"), ("what", "on")]))]
    pub number: Option<usize>,
}

/// The command `limit`.
#[derive(Debug, Args)]
pub struct LimitCommand {
    /// The socket that the job created with --control
    pub socket: PathBuf,
    /// The new rate, as in 3mbit or 2MB (per second), or `off`; without it the current rate is printed
    pub rate: Option<String>,
}

/// The command `get`.
#[derive(Debug, Args)]
pub struct Get {
    /// Files to fetch; `*`, `?`, `[a-z]` in the last part of the path select several (`?` is written %3F)
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// The folder to put them in; `-` writes a single file to standard output
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub output: PathBuf,
    #[command(flatten)]
    /// Options of the dashboard.
    pub dashboard: dashboard::DashboardArgs,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `put`.
#[derive(Debug, Args)]
pub struct Put {
    /// Files to send
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A folder (the path ends in a slash or is empty), or the new name of a single file
    #[arg(value_name = "URL")]
    pub url: Url,
    #[command(flatten)]
    /// Options of the dashboard.
    pub dashboard: dashboard::DashboardArgs,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The selection of paths of a tree.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// Include only paths that match the glob; may be given several times
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Exclude paths that match the glob; may be given several times; takes precedence over --include
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Exclude the patterns in FILE, in .gitignore's notation; may be given several times
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// A rule in rsync's notation, as in '- *.o' or '+ /src/***'; the first rule that matches a path, or a
    /// folder above it, decides; may be given several times
    #[arg(short = 'f', long, value_name = "RULE", allow_hyphen_values = true)]
    pub filter: Vec<String>,
    /// Include only the paths listed in FILE, one per line, relative to the top of the tree; a folder
    /// includes everything below it
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
}

/// The command `mirror`.
#[derive(Debug, Clone, Args)]
pub struct Mirror {
    /// Source and destination: a URL and a folder, with -R a folder and a URL. Several sources go to folders
    /// of their own names in the destination
    #[arg(required_unless_present = "apply", value_names = ["SOURCE", "DESTINATION"], num_args = 1..)]
    pub places: Vec<String>,
    /// Send the local folder to the server
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Delete what the source does not have, in folders whose listing is complete
    #[arg(long)]
    pub delete: bool,
    #[command(flatten)]
    /// The selection of paths.
    pub selection: Selection,
    /// Delete nothing if more than N entries would be deleted
    #[arg(long, value_name = "N", requires = "delete")]
    pub max_delete: Option<usize>,
    /// Do not replace files that are newer at the destination
    #[arg(long)]
    pub newer: bool,
    /// Treat files of the same size as equal, regardless of their times
    #[arg(long)]
    pub size_only: bool,
    /// Compare contents by digests from both sides instead of times
    #[arg(short = 'c', long, conflicts_with_all = ["newer", "size_only"])]
    pub checksum: bool,
    /// Print what would be done without doing it
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Print what would be done, and write it to FILE as a plan
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Execute exactly the plan in FILE, if both sides are unchanged since it was made
    #[arg(long, value_name = "FILE", conflicts_with_all = ["places", "reverse", "delete", "include", "exclude",
        "exclude_from", "filter", "files_from", "max_delete", "newer", "size_only", "checksum", "dry_run", "plan", "no_permissions",
        "hard_links", "no_links", "no_holes"])]
    pub apply: Option<PathBuf>,
    /// Record finished files, so that the same command resumes a killed job without checking them again; in
    /// braid without listing the tree again either
    #[arg(long, conflicts_with_all = ["dry_run", "plan", "apply", "checksum"])]
    pub journal: bool,
    /// Do not transfer permission bits
    #[arg(long)]
    pub no_permissions: bool,
    /// Keep names of one file (hard links) names of one file; without it each gets contents of its own
    #[arg(short = 'H', long)]
    pub hard_links: bool,
    /// Do not transfer symbolic links
    #[arg(long)]
    pub no_links: bool,
    /// Write long runs of zeros to the disk instead of making holes
    #[arg(long)]
    pub no_holes: bool,
    #[command(flatten)]
    /// Options of the dashboard.
    pub dashboard: dashboard::DashboardArgs,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The folder on the server
    pub url: Url,
    /// The local folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Names of one file (hard links) on the server must be names of one file here
    #[arg(short = 'H', long)]
    pub hard_links: bool,
    #[command(flatten)]
    /// The selection of paths.
    pub selection: Selection,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `cat`.
#[derive(Debug, Args)]
pub struct Paths {
    /// Files
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// Files or folders
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Also print permissions
    #[arg(short, long)]
    pub long: bool,
    /// List everything below, one path per line
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Print entries as they arrive, unsorted: the first immediately, without keeping any in memory
    #[arg(short = 'U', long, conflicts_with = "recursive")]
    pub unsorted: bool,
    /// List unfinished uploads that the server keeps, in all folders below
    #[arg(long, conflicts_with_all = ["recursive", "unsorted"])]
    pub parts: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `du`.
#[derive(Debug, Args)]
pub struct Du {
    /// Folders
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Print only the total, not each folder
    #[arg(short, long)]
    pub summarize: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `find`.
#[derive(Debug, Args)]
pub struct FindCommand {
    /// Where to start
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Only names that match the glob
    #[arg(long, value_name = "GLOB")]
    pub name: Option<String>,
    /// f for files, d for folders, l for links
    #[arg(long = "type", value_name = "KIND", value_parser = ["f", "d", "l"])]
    pub kind: Option<String>,
    /// Only files of at least this size, as in 500MB or 4GiB
    #[arg(long, value_name = "SIZE")]
    pub larger: Option<Size>,
    /// Only entries that changed in the last N days
    #[arg(long, value_name = "DAYS")]
    pub days: Option<u32>,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `help`.
#[derive(Debug, Args)]
pub struct HelpCommand {
    /// The topic; without it the topics are listed
    pub topic: Option<String>,
}

/// The command `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// The command `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder; created if it does not exist
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// The command `rm`.
#[derive(Debug, Args)]
pub struct Rm {
    /// What to delete
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Also delete folders, with everything in them
    #[arg(short, long, conflicts_with = "parts")]
    pub recursive: bool,
    /// Delete only unfinished uploads that the server keeps, in all folders below
    #[arg(long)]
    pub parts: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `mkdir`.
#[derive(Debug, Args)]
pub struct Mkdir {
    /// Folders to create
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Create missing parent folders too; an existing folder is no error
    #[arg(short, long)]
    pub parents: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// The command `mv`.
#[derive(Debug, Args)]
pub struct Mv {
    /// What to rename
    pub from: Url,
    /// Its new URL on the same server, or its new path there
    pub to: String,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// A time-out in seconds; the number may be followed by `s`, `m` or `ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit) = match text.strip_suffix("ms") {
            Some(number) => (number, 0.001),
            None => match text.strip_suffix('m') {
                Some(number) => (number, 60.0),
                None => (text.strip_suffix('s').unwrap_or(text), 1.0),
            },
        };
        let seconds = number.parse::<f64>().map_or(f64::NAN, |n| n * unit);
        match (0.001..=1e6).contains(&seconds) {
            true => Ok(Self(Duration::from_secs_f64(seconds))),
            false => Err("write seconds, as in 60 or 2.5, or with a unit: 500ms, 2m".into()),
        }
    }
}

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_are_parsed() {
        assert_eq!("2.5".parse::<Seconds>().unwrap().0, Duration::from_millis(2500));
        assert_eq!("2m".parse::<Seconds>().unwrap().0, Duration::from_secs(120));
        assert_eq!("500ms".parse::<Seconds>().unwrap().0, Duration::from_millis(500));
        for text in ["", "0", "-1", "x", "1h", "nan", "inf"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
