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

/// FTP carried by SCTP: moves many files, fast, over links that lose packets, take long, or come several at a time.
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
    /// Carry out the hooks of a server, which starts this
    #[command(hide = true)]
    RunHooks,
    /// Ask a running server who is there, end a session, or have it drain
    Ctl(crate::server::ctl::command::Args),
    /// Fetch files; globs in the last part of a URL's path choose several
    #[command(after_help = URL_HELP)]
    Get(Get),
    /// Send files to a folder of a server, or one file to a name
    #[command(after_help = URL_HELP)]
    Put(Put),
    /// Make a local folder the same as a remote one, or with -R the other way round
    #[command(after_help = URL_HELP)]
    Mirror(Mirror),
    /// Tell what differs between a remote folder and a local one, by digest, without moving contents
    #[command(after_help = URL_HELP)]
    Verify(Verify),
    /// List a folder
    Ls(Ls),
    /// Tell the bytes of all files in folders
    Du(Du),
    /// Find files and folders by name, kind, size and time
    Find(FindCommand),
    /// Draw a tree
    Tree(Paths),
    /// Write files to standard output
    Cat(Paths),
    /// Delete files, or with -r whole folders
    Rm(Rm),
    /// Make folders
    Mkdir(Mkdir),
    /// Rename a file or a folder
    Mv(Mv),
    /// Run commands interactively, or lines from a script
    Shell(ShellCommand),
    /// Tell what works from here to a server, what does not, and what to do
    Doctor(Doctor),
    /// Show the settings that hold, and where each comes from
    Config(ConfigCommand),
    /// List the network paths of a job that runs, take one out of use, or put it back
    Path(PathCommand),
    /// Tell or change how fast a job that runs may move file bytes
    Limit(LimitCommand),
    /// Show the key of this user, by which a server may know them, or make one
    Key(KeyCommand),
    /// Explain a topic: cc, multipath, urls, filter, users
    Help(HelpCommand),
    /// Print completions for a shell: source <(braidftp completions bash)
    Completions(Completions),
    /// Write man pages to a folder
    Man(Man),
    /// Show on this machine, over an emulated lossy link, how long each mode takes
    Demo(crate::demo::Args),
}

/// What URLs, passwords and exit codes look like.
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

/// Options of every command that talks to a server.
#[derive(Debug, Clone, Args)]
pub struct Common {
    /// tcp (the one for ftp://), or naive, ms, ms-cp, braid (for ftp+sctp://; braid if not given)
    #[arg(long)]
    pub mode: Option<Mode>,
    /// Congestion control of what this side sends, as in cubic or fast:alpha=200 (braidftp help cc) [default: the profile's]
    #[arg(long, value_name = "NAME[:KEY=VALUE,..]")]
    pub cc: Option<String>,
    /// SCTP parameters: modern (the one for braid) or rfc9260 (the one for naive, ms, ms-cp)
    #[arg(long, value_name = "NAME")]
    pub profile: Option<String>,
    /// Write every SCTP packet to FILE (pcapng, for Wireshark)
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Write every SCTP packet to FILE, a line each, in packetdrill's notation
    #[arg(long, value_name = "FILE")]
    pub packet_log: Option<PathBuf>,
    /// Write SCTP packets and the state of each path to FILE, as qlog (JSON-SEQ, for qvis and scripts)
    #[arg(long, value_name = "FILE")]
    pub qlog: Option<PathBuf>,
    /// Move file bytes no faster than this, as in 3mbit or 2MB (a second); `braidftp limit` changes it while the job runs
    #[arg(long, value_name = "RATE", visible_alias = "bwlimit")]
    pub limit: Option<Rate>,
    /// One JSON event a line on standard output, the last a summary
    #[arg(long)]
    pub json: bool,
    /// Say nothing but errors
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Say more: each file; twice: the lines of the protocol too
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Over TCP: move so many files at the same time, each over a session of its own; fewer if the server takes no more sessions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=PARALLEL_MAX as i64))]
    pub parallel: Option<u8>,
    /// Give up on a server that says nothing for so long
    #[arg(long, value_name = "SECONDS", default_value = "60")]
    pub timeout: Seconds,
    /// How often to open a lost connection again, waiting for --timeout each time, and to ask again for a file whose data
    /// connection failed
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub retries: u32,
    /// Open no lost connection again later than so long after the start
    #[arg(long, value_name = "SECONDS")]
    pub retry_for: Option<Seconds>,
    /// Fetch no file that is longer, as in 500MB or 4GiB; without it a file may have the size that the server tells, or 64 GiB
    /// if it tells none
    #[arg(long, value_name = "SIZE")]
    pub max_size: Option<Size>,
    /// Enter no folder that lies deeper below the one that is named
    #[arg(long, value_name = "N", default_value_t = Bounds::default().max_depth)]
    pub max_depth: usize,
    /// Take no more entries of a tree, or of one listing
    #[arg(long, value_name = "N", default_value_t = Bounds::default().max_entries)]
    pub max_entries: u64,
    /// Use this local address only [, and with it this address of the server]; may be given several times
    #[arg(long = "path", value_name = "LOCAL[=REMOTE]")]
    pub paths: Vec<PathRule>,
    /// How data takes several paths at once: off, default, plain, or choices as in scheduler=ecf,remedy=split-both (braidftp help
    /// multipath) [default: default in braid, off in other modes]
    #[arg(long, value_name = "off|NAME|KEY=NAME[,..]")]
    pub multipath: Option<MultipathChoice>,
    /// Make a Unix socket of this name, by which `braidftp path` takes paths out and puts them back, and `braidftp limit` changes
    /// --limit, while the job runs
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    /// Whether what travels is protected.
    #[command(flatten)]
    pub protection: Protection,
}

impl Common {
    /// What the server can make this side take.
    pub fn bounds(&self) -> Bounds {
        let max_size = self.max_size.map(|Size(bytes)| bytes);
        Bounds { max_size, max_depth: self.max_depth, max_entries: self.max_entries }
    }
}

/// All names that `--multipath` knows.
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

/// `key`.
#[derive(Debug, Args)]
#[command(
    after_help = "The fingerprint goes to whoever runs the server, for `keys` in the users file. The key is in \
                        ~/.local/share/braidftp/client.pem; who can read it can log in as you."
)]
pub struct KeyCommand {
    /// `show` prints the fingerprint, `new` makes a key
    #[arg(default_value = "show", value_parser = ["show", "new"])]
    pub what: String,
    /// The key of a server in FILE, as `braidftp serve` makes it [default: where this user's server has it]
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub server: Option<Option<PathBuf>>,
}

/// `shell`.
#[derive(Debug, Args)]
#[command(
    after_help = "`help` in the shell lists what it does. Without a terminal lines come from standard input; the first that \
                        fails ends the shell with its exit code."
)]
pub struct ShellCommand {
    /// The server, and the folder, to begin with: a URL or @BOOKMARK
    pub url: Option<String>,
    /// Run the lines of FILE, and end
    #[arg(short = 'f', long, value_name = "FILE")]
    pub script: Option<PathBuf>,
}

/// `doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The server; without it this machine alone is looked at
    pub url: Option<Url>,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `config`.
#[derive(Debug, Args)]
#[command(
    after_help = "Settings are options of client commands, as in `timeout = 30` or `parallel = 8`, in \
                        ~/.config/braidftp/config.toml. [bookmark.site] with a url makes @site and @site/PATH stand for that \
                        URL. BRAIDFTP_TIMEOUT and its like go before the file, the command line before all."
)]
pub struct ConfigCommand {
    /// `show` prints each setting, `path` where the file is
    #[arg(default_value = "show", value_parser = ["show", "path"])]
    pub what: String,
    /// Where each comes from, too
    #[arg(long)]
    pub origin: bool,
    /// With the settings of this bookmark: @NAME
    #[arg(value_name = "URL")]
    pub url: Option<Url>,
}

/// `path`.
#[derive(Debug, Args)]
pub struct PathCommand {
    /// What the job was given as --control
    pub socket: PathBuf,
    /// `list`, `off` or `on`
    #[arg(default_value = "list", value_parser = ["list", "off", "on"])]
    pub what: String,
    /// The number of the path, as `list` shows it
    #[arg(required_if_eq_any([("what", "off"), ("what", "on")]))]
    pub number: Option<usize>,
}

/// `limit`.
#[derive(Debug, Args)]
pub struct LimitCommand {
    /// What the job was given as --control
    pub socket: PathBuf,
    /// The new rate, as in 3mbit or 2MB (a second), or `off`; without it the rate is told
    pub rate: Option<String>,
}

/// `get`.
#[derive(Debug, Args)]
pub struct Get {
    /// Files to fetch; `*`, `?`, `[a-z]` in the last part of the path choose several (`?` is written %3F)
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Folder to put them in
    #[arg(short, long, value_name = "DIR", default_value = ".")]
    pub output: PathBuf,
    #[command(flatten)]
    /// The page of what is under way.
    pub dashboard: dashboard::DashboardArgs,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `put`.
#[derive(Debug, Args)]
pub struct Put {
    /// Files to send
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A folder (its path ends in a slash or is empty), or, for one file, its new name
    #[arg(value_name = "URL")]
    pub url: Url,
    #[command(flatten)]
    /// The page of what is under way.
    pub dashboard: dashboard::DashboardArgs,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// Which paths of a tree a command is about.
#[derive(Debug, Clone, Args)]
pub struct Selection {
    /// Only paths that match the glob; may be given several times
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// No path that matches the glob; may be given several times; wins over --include
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Leave out what FILE says in .gitignore's notation; may be given several times
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// A rule in rsync's notation, as in '- *.o' or '+ /src/***'; of several the first that matches a path, or a folder above it,
    /// decides; may be given several times
    #[arg(short = 'f', long, value_name = "RULE", allow_hyphen_values = true)]
    pub filter: Vec<String>,
    /// Only the paths that FILE lists, one a line from the top of the tree, and with a folder all beneath it
    #[arg(long, value_name = "FILE")]
    pub files_from: Option<PathBuf>,
}

/// `mirror`.
#[derive(Debug, Clone, Args)]
pub struct Mirror {
    /// Source and destination: a URL and a folder, with -R a folder and a URL. Of several sources each goes to a folder of its own
    /// name in the destination
    #[arg(required_unless_present = "apply", value_names = ["SOURCE", "DESTINATION"], num_args = 1..)]
    pub places: Vec<String>,
    /// Send the local folder to the server
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Delete what the source does not have, after its folder's listing was read whole
    #[arg(long)]
    pub delete: bool,
    #[command(flatten)]
    /// Which paths of the tree.
    pub selection: Selection,
    /// Delete nothing if it would be more than N
    #[arg(long, value_name = "N", requires = "delete")]
    pub max_delete: Option<usize>,
    /// Replace no file that is newer at the destination
    #[arg(long)]
    pub newer: bool,
    /// Take files of the same size for the same, whatever their times
    #[arg(long)]
    pub size_only: bool,
    /// Compare contents, by digests from both sides, and not times
    #[arg(short = 'c', long, conflicts_with_all = ["newer", "size_only"])]
    pub checksum: bool,
    /// Say what would be done and do nothing
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Say what would be done, and write it to FILE as a plan
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// Do what the plan in FILE says and nothing else, if both sides are as they were when it was made
    #[arg(long, value_name = "FILE", conflicts_with_all = ["places", "reverse", "delete", "include", "exclude",
        "exclude_from", "filter", "files_from", "max_delete", "newer", "size_only", "checksum", "dry_run", "plan", "no_permissions",
        "no_links", "no_holes"])]
    pub apply: Option<PathBuf>,
    /// Write down what is finished, so that the same command goes on where this one was killed without looking at it again; in braid
    /// the tree is not listed again either
    #[arg(long, conflicts_with_all = ["dry_run", "plan", "apply", "checksum"])]
    pub journal: bool,
    /// Leave permission bits of files and folders to the other side
    #[arg(long)]
    pub no_permissions: bool,
    /// Leave symbolic links out
    #[arg(long)]
    pub no_links: bool,
    /// Write long runs of zeros to the disk; without this they become holes
    #[arg(long)]
    pub no_holes: bool,
    #[command(flatten)]
    /// The page of what is under way.
    pub dashboard: dashboard::DashboardArgs,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `verify`.
#[derive(Debug, Args)]
pub struct Verify {
    /// The folder on the server
    pub url: Url,
    /// The folder here
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    #[command(flatten)]
    /// Which paths of the tree.
    pub selection: Selection,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `cat`.
#[derive(Debug, Args)]
pub struct Paths {
    /// Where
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `ls`.
#[derive(Debug, Args)]
pub struct Ls {
    /// Where
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Permissions too
    #[arg(short, long)]
    pub long: bool,
    /// Everything beneath, a path a line
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Entries as they come, and not by name: the first at once, and none is kept in memory
    #[arg(short = 'U', long, conflicts_with = "recursive")]
    pub unsorted: bool,
    /// Unfinished uploads that the server keeps, of everything beneath
    #[arg(long, conflicts_with_all = ["recursive", "long", "unsorted"])]
    pub parts: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `du`.
#[derive(Debug, Args)]
pub struct Du {
    /// Folders
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Only the whole, not each folder in it
    #[arg(short, long)]
    pub summarize: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `find`.
#[derive(Debug, Args)]
pub struct FindCommand {
    /// Where to begin
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Names that match the glob
    #[arg(long, value_name = "GLOB")]
    pub name: Option<String>,
    /// f for files, d for folders, l for links
    #[arg(long = "type", value_name = "KIND", value_parser = ["f", "d", "l"])]
    pub kind: Option<String>,
    /// Files of no fewer bytes, as in 500MB or 4GiB
    #[arg(long, value_name = "SIZE")]
    pub larger: Option<Size>,
    /// What changed in the last so many days
    #[arg(long, value_name = "DAYS")]
    pub days: Option<u32>,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `help`.
#[derive(Debug, Args)]
pub struct HelpCommand {
    /// What to explain; without it the topics are listed
    pub topic: Option<String>,
}

/// `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// For which shell
    pub shell: clap_complete::Shell,
}

/// `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// Where to; made if it is not there
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// `rm`.
#[derive(Debug, Args)]
pub struct Rm {
    /// What to delete
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// Folders too, with all that is in them
    #[arg(short, long, conflicts_with = "parts")]
    pub recursive: bool,
    /// Unfinished uploads that the server keeps, of everything beneath, and nothing else
    #[arg(long)]
    pub parts: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `mkdir`.
#[derive(Debug, Args)]
pub struct Mkdir {
    /// Folders to make
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<Url>,
    /// The folders above them too, and no error if one exists
    #[arg(short, long)]
    pub parents: bool,
    #[command(flatten)]
    /// Options of every command.
    pub common: Common,
}

/// `mv`.
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

/// A time-out in seconds; `s`, `m` and `ms` may follow the number.
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
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_are_read() {
        assert_eq!("2.5".parse::<Seconds>().unwrap().0, Duration::from_millis(2500));
        assert_eq!("2m".parse::<Seconds>().unwrap().0, Duration::from_secs(120));
        assert_eq!("500ms".parse::<Seconds>().unwrap().0, Duration::from_millis(500));
        for text in ["", "0", "-1", "x", "1h", "nan", "inf"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
