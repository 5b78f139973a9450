//! The file of settings of `braidftp serve` (TOML): its keys, each with an explanation and an example, and
//! its parser.
//!
//! A file is parsed completely: each mistake is reported by a sentence with line and column, and with the
//! nearest known word for a misspelt one. [`example`] is a file that sets nothing and shows every key; a test
//! parses it with all of its examples enabled.

pub(super) mod value;

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use braidftp_net::cc;
use braidftp_net::sctp::Profile;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Resumption;
use super::confine::Level;
use super::hooks::{Action, Hook, On};
use super::listen::Listen;
use super::log::Format;
use super::protection::ProtectionArgs;
use super::umask::Umask;
use crate::client::MultipathChoice;
use crate::mistakes::{Mistakes, nearest};
use crate::size::Size;
use crate::store::fs::Durability;
use value::{HostNames, Ports, Seconds, Value, mismatch};

/// The maximum size of a file of settings in bytes; real files are far smaller.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The width of the explanations in [`example`].
const WIDTH: usize = 100;

/// A key of a file, for display.
#[derive(Debug, Clone, Copy)]
struct Key {
    name: &'static str,
    example: &'static str,
    help: &'static str,
}

/// Defines a table of settings by its keys: name, type, example, and explanation.
macro_rules! keys {
    ($(#[$doc:meta])* $table:ident: $($name:ident $key:literal $kind:ty = $example:expr, $help:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Default)]
        pub(super) struct $table {
            $(#[doc = concat!("The key `", $key, "`: see [`Key::help`].")] pub(super) $name: Option<$kind>,)*
        }

        impl $table {
            const KEYS: &[Key] = &[$(Key { name: $key, example: $example, help: $help },)*];

            fn of(table: &DeTable<'_>, mistakes: &mut Mistakes<'_>) -> Self {
                let mut read = Self::default();
                for (key, value) in table.iter() {
                    match key.get_ref().as_ref() {
                        $($key => read.$name = <$kind>::read(value, $key, mistakes),)*
                        other => unknown(key.span().start, other, Self::KEYS, mistakes),
                    }
                }
                read
            }
        }

        impl Value for $table {
            fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
                match value.get_ref() {
                    DeValue::Table(table) => Some(Self::of(table, mistakes)),
                    _ => mismatch(value, key, "a table", mistakes),
                }
            }
        }
    };
}

/// Reports an unknown key.
fn unknown(at: usize, key: &str, keys: &[Key], mistakes: &mut Mistakes<'_>) {
    let names: Vec<&str> = keys.iter().map(|key| key.name).collect();
    let meant = match nearest(key, &names) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "`braidftp serve --print-config` prints those there are".into(),
    };
    mistakes.add(at, format!("there is no key `{}`; {meant}", key.escape_debug()));
}

keys! {
    /// The file of `--config`. Every key is an option of the same name, or one of the settings of
    /// [`super::Settings`].
    File:
    dir "dir" PathBuf = r#""/srv/ftp""#, "The folder to serve; nothing outside it can be reached. Or an object store: s3://BUCKET/PREFIX?region=NAME.";
    listen "listen" Vec<Listen> = r#"["ftp://0.0.0.0:2121", "ftp+sctp://0.0.0.0:9899"]"#,
        "Where to listen: ftp://ADDRESS[:PORT] (TLS by AUTH), ftps://ADDRESS[:PORT], ftp+sctp://ADDRESS[:UDPPORT][/?addr=ADDRESS&…], ftp+sctp-ip://ADDRESS[:SCTPPORT]. Sockets that systemd passes are used for the addresses named here; without this key, they are the only ones.";
    users "users" PathBuf = r#""/etc/braidftp/users.toml""#, "The file of permitted users; without it everybody may log in, as anonymous.";
    writable "writable" bool = "true", "Users, or anonymous, may change files; default: they only read.";
    umask "umask" Umask = r#""027""#, "Permissions that new files and folders do not get, in octal.";
    user "user" String = r#""braidftp:braidftp""#, "The user, and the group, to become once the sockets are open and keys are read.";
    confine "confine" Level = r#""required""#, "Confinement by Landlock and seccomp: required, best-effort or off.";
    greeting "greeting" String = r#""files of example.org""#, "The text of the first reply.";
    host "host" Hosts = "", "The name of the server, or a list of virtual hosts.";

    plain "plain" bool = "false", "No protection: no TLS, and only plain associations.";
    allow_plain "allow-plain" bool = "true", "Also accept associations without protection, from clients that request it.";
    allow_plain_passwords "allow-plain-passwords" bool = "true", "Accept passwords without protection, which everybody on the path can read.";
    tls_cert "tls-cert" PathBuf = r#""/etc/braidftp/fullchain.pem""#, "The server's certificate and its chain (PEM).";
    tls_key "tls-key" PathBuf = r#""/etc/braidftp/privkey.pem""#, "Its private key (PEM, mode 600).";
    identity "identity" PathBuf = r#""/var/lib/braidftp""#, "Instead of these: the folder of the key that the server generates on its first start.";
    tls_resumption "tls-resumption" Resumption = r#""required""#, "Over TCP, data connections resume the TLS session of their control connection: required, or optional for clients that cannot.";

    max_sessions "max-sessions" usize = "200", "Maximum number of sessions.";
    max_sessions_per_address "max-sessions-per-address" usize = "50", "Maximum number of sessions from one address.";
    login_attempts "login-attempts" u32 = "3", "Maximum number of wrong passwords in a session.";
    idle_seconds "idle-seconds" Seconds = "300", "Time limit for silence of a session without transfers.";
    stall_seconds "stall-seconds" Seconds = "300", "Time limit for a transfer without progress.";
    drain_seconds "drain-seconds" Seconds = "30", "Time for transfers to finish once the server is stopped.";

    passive_ports "passive-ports" Ports = r#""50000-50100""#, "Ports of passive data connections (TCP); default: dynamic ones.";
    passive_address "passive-address" IpAddr = r#""192.0.2.1""#, "The IPv4 address in replies to PASV, behind a NAT.";
    active "active" bool = "true", "Data connections that the server opens (PORT, EPRT), to the client's address alone.";

    durability "durability" Durability = r#""full""#, "What must be on the disk before the server confirms an upload: full, bytes or none.";
    parts_kept_days "parts-kept-days" u64 = "7", "How long unfinished uploads are kept for resumption; 0: for ever.";
    parts_quota "parts-quota" Size = r#""10GiB""#, "Maximum size of the unfinished uploads in a home; default: a tenth of the disk.";
    disk_reserve "disk-reserve" Size = r#""1GiB""#, "Disk space that uploads leave free; default: 1 % of the disk, at most 1 GiB.";

    profile "profile" Profile = r#""modern""#, "SCTP parameters: modern or rfc9260.";
    cc "cc" cc::Choice = r#""auto""#, "Congestion control of data that the server sends; see `braidftp help cc`.";
    multipath "multipath" MultipathChoice = r#""default""#, "The use of several paths at once; see `braidftp help multipath`.";
    pcap "pcap" PathBuf = r#""/var/lib/braidftp/sctp.pcapng""#, "Write every SCTP packet to a file (pcapng).";
    packet_log "packet-log" PathBuf = r#""/var/lib/braidftp/sctp.txt""#, "Write every SCTP packet to a file, a line each.";
    qlog "qlog" PathBuf = r#""/var/lib/braidftp/sctp.qlog""#, "Write SCTP packets and the state of paths to a file, as qlog.";

    audit "audit" PathBuf = r#""/var/log/braidftp/audit""#, "Append a line for each login, refusal and change to a file.";
    xferlog "xferlog" PathBuf = r#""/var/log/braidftp/xferlog""#, "Append a line for each file that was sent or received to a file, in the format of wu-ftpd.";
    metrics "metrics" SocketAddr = r#""127.0.0.1:9464""#, "Serve metrics for Prometheus at this address: GET /metrics.";
    dashboard "dashboard" SocketAddr = r#""127.0.0.1:8080""#, "Serve a web page at this address that shows sessions, transfers and each network path.";
    dashboard_anywhere "dashboard-anywhere" bool = "true", "Permit a dashboard at an address that others can reach, who then read names of users and files without a password.";
    control "control" PathBuf = r#""/run/braidftp/control""#, "A Unix socket, of mode 600, for `braidftp ctl`.";
    verbose "verbose" u8 = "1", "Contents of the log: 0 warnings, 1 also sessions and transfers, 2 also reasons of refusals.";
    hook_queue "hook-queue" PathBuf = r#""/var/lib/braidftp/hooks""#, "The folder where events wait for hooks; it survives a restart.";
    hook "hook" Vec<HookEntry> = "", "Hooks.";
    log_format "log-format" Format = r#""json""#, "The log as text, or as json with an object a line.";
}

keys! {
    /// A virtual host.
    HostEntry:
    names "names" HostNames = r#"["ftp.example.org", "files.example.org"]"#, "The names by which clients select it, with HOST or in TLS (SNI).";
    dir "dir" PathBuf = r#""/srv/example""#, "Its folder; nothing outside it can be reached.";
    users "users" PathBuf = r#""/etc/braidftp/example-users.toml""#, "The file of its permitted users; without it everybody may log in, as anonymous.";
    anonymous "anonymous" bool = "true", "Whether anonymous and ftp may log in without a password; default: only without a file of users.";
    tls_cert "tls-cert" PathBuf = r#""/etc/braidftp/example.pem""#, "The certificate and its chain for clients that name this host in TLS (PEM); default: the server's.";
    tls_key "tls-key" PathBuf = r#""/etc/braidftp/example-key.pem""#, "The private key of that certificate (PEM, mode 600).";
    greeting "greeting" String = r#""files of example.org""#, "The text of the reply to HOST; default: the server's greeting.";
}

/// The value of `host`: the single name of the server, or virtual hosts.
#[derive(Debug)]
pub(super) enum Hosts {
    Name(String),
    Tables(Vec<HostEntry>),
}

impl Default for Hosts {
    fn default() -> Self {
        Self::Tables(Vec::new())
    }
}

impl Value for Hosts {
    fn read(value: &Spanned<DeValue<'_>>, key: &str, mistakes: &mut Mistakes<'_>) -> Option<Self> {
        let tables = match value.get_ref() {
            DeValue::String(name) => return Some(Self::Name(name.to_string())),
            DeValue::Array(tables) => tables,
            _ => return mismatch(value, key, "a name, or tables as in [[host]]", mistakes),
        };
        let (mut read, mut seen) = (Vec::new(), Vec::new());
        for table in tables.iter() {
            let Some(host) = HostEntry::read(table, key, mistakes) else { continue };
            let has = |key: &str| matches!(table.get_ref(), DeValue::Table(keys) if keys.contains_key(key));
            for (key, why) in [("names", "which names has it?"), ("dir", "which folder shall it serve?")] {
                if !has(key) {
                    mistakes.add(table.span().start, format_args!("the host lacks `{key}`: {why}"));
                }
            }
            for name in host.names.iter().flat_map(|names| &names.0) {
                let name = name.to_ascii_lowercase();
                match seen.contains(&name) {
                    true => mistakes.add(table.span().start, format_args!("two hosts have the name {name}")),
                    false => seen.push(name),
                }
            }
            read.push(host);
        }
        Some(Self::Tables(read))
    }
}

keys! {
    /// A hook.
    HookEntry:
    name "name" String = r#""scan""#, "Its name in the log and the queue: letters, digits, - and _.";
    on "on" Vec<On> = r#"["upload"]"#, "The events after which it is run: upload, download, login, or several. Failed transfers do not count.";
    run "run" Vec<String> = r#"["/bin/true"]"#, "The program and its arguments. The event is on its standard input as JSON, and in BRAIDFTP_HOOK_EVENT, BRAIDFTP_HOOK_USER, BRAIDFTP_HOOK_PATH and BRAIDFTP_HOOK_FILE.";
    url "url" String = r#""https://example.org/uploads""#, "In place of `run`: where the event is sent by POST, as JSON.";
    timeout_seconds "timeout-seconds" u32 = "60", "How long it may take until it is killed.";
    attempts "attempts" u32 = "8", "How often it is tried, with pauses from 1 s to 5 min.";
}

impl HookEntry {
    /// The described hook.
    ///
    /// # Errors
    ///
    /// A sentence with the problem.
    pub(super) fn hook(self) -> Result<Hook, String> {
        let name = self.name.unwrap_or_default();
        let action = match (self.run, self.url) {
            (Some(_), Some(_)) => {
                return Err(format!("hook {name}: `run` and `url` are both set: leave out one"));
            }
            (None, Some(url)) => Action::Post(url),
            (run, None) => Action::Run(run.unwrap_or_default()),
        };
        let hook = Hook {
            name,
            on: self.on.unwrap_or_default(),
            action,
            timeout_seconds: self.timeout_seconds.unwrap_or(60).max(1).into(),
            attempts: self.attempts.unwrap_or(8).max(1),
        };
        hook.complaint().map_or(Ok(hook), Err)
    }
}

impl File {
    /// The settings of protection.
    pub(super) fn protection(&self) -> ProtectionArgs {
        ProtectionArgs {
            plain: self.plain == Some(true),
            allow_plain: self.allow_plain == Some(true),
            allow_plain_passwords: self.allow_plain_passwords == Some(true),
            tls_cert: self.tls_cert.clone(),
            tls_key: self.tls_key.clone(),
            identity: self.identity.clone(),
        }
    }

    /// Reads a file of settings.
    ///
    /// # Errors
    ///
    /// All problems, one sentence each.
    pub(super) fn load(path: &Path) -> Result<Self, Vec<String>> {
        let cannot =
            |why: &dyn fmt::Display| vec![format!("cannot read the settings {}: {why}", path.display())];
        let length = std::fs::metadata(path).map_err(|error| cannot(&error))?.len();
        if length > FILE_BYTES_MAX {
            return Err(cannot(&format_args!("it has {length} bytes, too many for a file of settings")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| cannot(&error))?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, Vec<String>> {
        let (table, mut mistakes) = Mistakes::parse(path, text);
        let file = Self::of(table.get_ref(), &mut mistakes);
        if mistakes.count() == 0 { Ok(file) } else { Err(mistakes.sentences()) }
    }
}

/// A file of settings that sets nothing: every key with its explanation, in a comment.
pub(super) fn example() -> String {
    let mut out = String::from(
        "# Settings of `braidftp serve --config FILE`. A line that begins with `#` and a letter shows a setting; take the `#`\n\
         # away to set it. What is given on the command line goes before what stands here. `braidftp serve --config FILE\n\
         # --check` tells what is wrong. SIGHUP reads the file again.\n",
    );
    let show = |out: &mut String, key: &Key| {
        comment(out, key.help);
        let _ = writeln!(out, "#{} = {}", key.name, key.example);
    };
    File::KEYS.iter().filter(|key| !key.example.is_empty()).for_each(|key| show(&mut out, key));
    comment(
        &mut out,
        "A virtual host (RFC 7151); there may be several. Sessions that name none have the folder and the users above. Without \
         such tables, `host = \"ftp.example.org\"` at the top is the one name that clients may ask for with HOST.",
    );
    out.push_str("#[[host]]\n");
    HostEntry::KEYS.iter().for_each(|key| show(&mut out, key));
    comment(&mut out, "A hook; there may be several.");
    out.push_str("#[[hook]]\n");
    HookEntry::KEYS.iter().for_each(|key| show(&mut out, key));
    out
}

/// Writes a comment in lines of [`WIDTH`].
fn comment(out: &mut String, text: &str) {
    let mut line = String::from("\n#");
    for word in text.split(' ') {
        if line.chars().count() + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            line = String::from("#");
        }
        let _ = write!(line, " {word}");
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<File, Vec<String>> {
        File::parse(Path::new("b.toml"), text)
    }

    #[test]
    fn the_example_sets_nothing_and_is_right_with_every_setting_in_force() {
        let example = example();
        assert!(example.lines().all(|line| line.is_empty() || line.starts_with('#')), "{example}");
        parse(&example).unwrap();
        let set = |line: &str| match line.strip_prefix('#') {
            Some(setting) if setting.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => {
                setting.to_owned()
            }
            _ => line.to_owned(),
        };
        let all: Vec<String> = example.lines().map(set).collect();
        let file = parse(&all.join("\n")).unwrap();
        for (key, is_set) in [
            ("dir", file.dir.is_some()),
            ("listen", file.listen.is_some_and(|places| places.len() == 2)),
            ("umask", file.umask.is_some()),
            ("log-format", file.log_format == Some(Format::Json)),
        ] {
            assert!(is_set, "{key}");
        }
        for key in File::KEYS.iter().chain(HookEntry::KEYS).filter(|key| !key.example.is_empty()) {
            assert!(all.iter().any(|line| line.starts_with(key.name)), "{}", key.name);
        }
    }

    #[test]
    fn a_time_that_no_clock_reaches_is_refused() {
        let told = parse("[[hook]]\ntimeout-seconds = 18446744073709\n").unwrap_err();
        assert_eq!(told, ["b.toml:2:19: timeout-seconds is 4294967295 at most, not 18446744073709"]);
    }

    #[test]
    fn every_mistake_is_reported_with_its_place_and_the_nearest_word() {
        let text = "lisen = []\nmax-sessions = 'many'\n  profile = \"mordern\"\nlisten = [\"ftp://127.0.0.1\",\n \"http://x\"]\n\
                    passive-ports = '2-1'\numask = '888'\nzzz = 1\nstall-seconds = -1\nverbose = 300\n";
        let told = parse(text).unwrap_err();
        let wanted = [
            "b.toml:1:1: there is no key `lisen`; did you mean `listen`?",
            "b.toml:2:16: max-sessions is a whole number, not a text",
            "b.toml:3:13: profile is one of modern, rfc9260, not `mordern`; did you mean `modern`?",
            "b.toml:5:2: cannot listen at `http://x`",
            "b.toml:6:17: passive-ports: expected a range such as",
            "b.toml:7:9: umask: expected three octal digits",
            "b.toml:8:1: there is no key `zzz`; `braidftp serve --print-config`",
            "b.toml:9:17: stall-seconds is a whole number from 0, not -1",
            "b.toml:10:11: verbose is 255 at most, not 300",
        ];
        assert_eq!(told.len(), wanted.len(), "{told:#?}");
        for (told, wanted) in told.iter().zip(wanted) {
            assert!(told.starts_with(wanted), "{told}\nis not\n{wanted}");
        }
    }

    #[test]
    fn invalid_toml_is_reported_once_for_each_line() {
        let told = parse("dir = \nwritable = true\nhost = \"x\nactive = maybe\n").unwrap_err();
        assert!(told.iter().any(|line| line.starts_with("b.toml:1:")), "{told:#?}");
        assert!(told.iter().any(|line| line.starts_with("b.toml:3:")), "{told:#?}");
        assert!(told.iter().any(|line| line.starts_with("b.toml:4:")), "{told:#?}");
        let told = parse("dir = 'a'\ndir = 'b'\n").unwrap_err();
        assert!(told[0].starts_with("b.toml:2:1: duplicate key"), "{told:#?}");
    }
}
