//! Combines the command line, the file of settings and the users of `braidftp serve`, and opens what they name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use braidftp_ftp::server as machine;
use braidftp_net::sctp::Profile;

use super::args::Args;
use super::config::value::{Ports, Seconds};
use super::config::{File, HookEntry, Hosts};
use super::confine::{Confinement, Network, Place, Report, Rights, RunAs, confine};
use super::ctl;
use super::error::ServeError;
use super::hooks::{Hook, Queue, QueueSettings};
use super::hosts::{HostPlan, served};
use super::listen::{TCP_PORT_UNPRIVILEGED, UDP_PORT};
use super::log::Format;
use super::protection::Wanted;
use super::systemd::Passed;
use super::umask::Umask;
use super::{Audit, Listen, LogFile, Opened, Plain, Server, Settings};
use crate::client::{Mode, default_multipath};
use crate::dashboard;
use crate::identity::folder_of;
use crate::size::Size;
use crate::store::Tree;
use crate::users::{Access, Users, UsersError};

/// The plan of a server: the command line merged with the file of settings.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) dir: PathBuf,
    pub(super) listen: Vec<Listen>,
    pub(super) users: Users,
    /// The file of users, and the access of users without rights of their own.
    pub(super) users_file: Option<(PathBuf, Access)>,
    /// The file of settings.
    pub(super) config: Option<PathBuf>,
    pub(super) settings: Settings,
    pub(super) protection: Wanted,
    pub(super) confinement: Confinement,
    pub(super) umask: Option<Umask>,
    pub(super) hooks: Vec<Hook>,
    /// The queue of the hooks on disk.
    pub(super) hook_queue: Option<PathBuf>,
    /// Virtual hosts.
    pub(super) hosts: Vec<HostPlan>,
    /// The address that serves metrics.
    pub(super) metrics: Option<SocketAddr>,
    /// The dashboard.
    pub(super) dashboard: dashboard::DashboardArgs,
    /// The Unix socket of `braidftp ctl`.
    pub(super) control: Option<PathBuf>,
    pub(super) log: LogWanted,
}

/// The verbosity and destination of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LogWanted {
    /// 0: warnings; 1: also sessions and transfers; 2: also reasons of refusals.
    pub(super) verbose: u8,
    pub(super) format: Format,
}

impl Plan {
    /// Whether there is a file to read again on SIGHUP.
    pub(super) fn has_files(&self) -> bool {
        self.config.is_some() || self.users_file.is_some()
    }

    /// Returns the settings that cannot change while the server runs: keys and values.
    pub(super) fn fixed(&self) -> Vec<(&'static str, String)> {
        let Settings { sctp, pcap, packet_log, qlog, audit, passive_ports, session, .. } = &self.settings;
        let told = |value: &dyn fmt::Debug| format!("{value:?}");
        vec![
            ("dir", told(&self.dir)),
            ("listen", told(&self.listen)),
            ("users", told(&self.users_file.as_ref().map(|(file, _)| file))),
            ("umask", told(&self.umask)),
            ("user", told(&self.confinement.run_as)),
            ("confine", told(&self.confinement.level)),
            ("plain, allow-plain, tls-cert, tls-key or identity", told(&self.protection)),
            ("passive-ports", told(passive_ports)),
            ("active", told(&session.active)),
            ("profile, cc or multipath", told(sctp)),
            ("pcap", told(pcap)),
            ("packet-log", told(packet_log)),
            ("qlog", told(qlog)),
            ("audit", told(&audit.path())),
            ("xferlog", told(&self.settings.xferlog.as_ref().map(|log| log.path()))),
            ("hook or hook-queue", told(&(&self.hooks, &self.hook_queue))),
            ("a table of a host", told(&self.hosts.iter().map(HostPlan::fixed).collect::<Vec<_>>())),
            ("metrics", told(&self.metrics)),
            ("dashboard or dashboard-anywhere", told(&self.dashboard)),
            ("control", told(&self.control)),
            ("verbose or log-format", told(&self.log)),
        ]
    }

    /// Opens the folder and the sockets, and confines the process. The report names what confinement lacks.
    pub(super) fn open(
        self,
        passed: Passed,
        runs_hooks: RunsHooks,
    ) -> Result<(Opened, Report, Asides), ServeError> {
        let Self {
            dir,
            listen,
            users,
            users_file,
            config,
            mut settings,
            mut confinement,
            umask,
            metrics,
            dashboard,
            control,
            hooks,
            hook_queue,
            hosts,
            log,
            ..
        } = self;
        if let Some(umask) = umask {
            umask.apply();
        }
        let listen = match (listen.is_empty(), passed.places()) {
            (false, _) => listen,
            (true, places) if places.is_empty() => usual(),
            (true, places) => places,
        };
        if let Some(queue) = hook_queue.filter(|_| !hooks.is_empty() && runs_hooks == RunsHooks::Yes) {
            let started = Queue::start(QueueSettings {
                folder: &queue,
                root: &Tree::shown(&dir),
                hooks: &hooks,
                run_as: confinement.run_as.as_ref().map(RunAs::numbers),
                json: log.format == Format::Json,
            });
            settings.hooks = Some(Arc::new(started.map_err(ServeError::Usage)?));
            confinement.places.push(Place { path: queue, rights: Rights::ReadWrite });
        }
        let asides = Asides {
            metrics: metrics.map(open_metrics).transpose()?,
            dashboard: dashboard::open(&dashboard).map_err(ServeError::Usage)?,
            control: control.as_deref().map(ctl::open).transpose().map_err(ServeError::Usage)?,
        };
        let root = Tree::open(&dir).map_err(ServeError::Folder)?;
        confinement.network = network(&root, &hosts, &listen, &settings);
        let more = std::mem::take(&mut confinement.places);
        confinement.places = places(
            &dir,
            &users,
            users_file.as_ref().map(|(file, _)| file).into_iter().chain(&config),
            &settings,
        );
        confinement.places.extend(more.into_iter().chain(hosts.iter().flat_map(HostPlan::places)));
        let mut builder = Server::builder(root).users(users).settings(settings).passed(passed);
        for place in listen {
            builder = builder.listen(place);
        }
        for host in hosts {
            builder = builder.host(host.open()?);
        }
        let opened = builder.open().map_err(ServeError::Start)?;
        let mut report = confine(&confinement).map_err(ServeError::Confine)?;
        let key = opened.settings.protection.identity.as_ref().map(|identity| ("key", &identity.files().key));
        let users = users_file.as_ref().map(|(file, _)| ("users file", file));
        let config = config.as_ref().map(|file| ("file of settings", file));
        for (what, file) in key.into_iter().chain(users).chain(config) {
            report.lost.extend(std::fs::File::open(file).err().map(|error| {
                format!(
                    "the {what} {}, which was read: {error}; after a change of it, start again",
                    file.display()
                )
            }));
        }
        Ok((opened, report, asides))
    }
}

/// Whether to start the process that runs hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunsHooks {
    Yes,
    No,
}

/// The sockets besides those of sessions.
#[derive(Debug, Default)]
pub(super) struct Asides {
    /// For metrics.
    pub(super) metrics: Option<TcpListener>,
    /// For the dashboard.
    pub(super) dashboard: Option<TcpListener>,
    /// For `braidftp ctl`.
    pub(super) control: Option<ctl::Opened>,
}

fn open_metrics(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let opened = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    let why =
        |error| format!("cannot answer scrapers at {address}: {error}; choose another address by --metrics");
    opened.map_err(|error| ServeError::Usage(why(error)))
}

/// Returns the default addresses to listen at.
pub(super) fn usual() -> Vec<Listen> {
    let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
    vec![
        Listen::Tcp(SocketAddr::new(any, TCP_PORT_UNPRIVILEGED)),
        Listen::SctpUdp(vec![SocketAddr::new(any, UDP_PORT)]),
    ]
}

/// Returns the sockets that the server creates while it runs.
fn network(root: &Tree, hosts: &[HostPlan], listen: &[Listen], settings: &Settings) -> Network {
    let ports = settings.passive_ports.clone();
    if root.folder().is_none() || !hosts.iter().all(HostPlan::is_folder) {
        return Network::Everywhere(ports);
    }
    match (listen.iter().any(Listen::is_tcp), settings.session.active) {
        (false, _) => Network::Nothing,
        (true, machine::Active::Refused) => Network::Listen(ports),
        (true, _) => Network::ListenAndConnect(ports),
    }
}

/// Returns the folders that the server uses while it runs.
fn places<'a>(
    dir: &Path,
    users: &Users,
    read_again: impl Iterator<Item = &'a PathBuf>,
    settings: &'a Settings,
) -> Vec<Place> {
    let rights = if users.any_may_write() { Rights::ReadWrite } else { Rights::Read };
    let mut places = served(dir, rights);
    // Key files are replaced and then read again, so their folders must be accessible. certbot's are links to files of another
    // folder.
    let identity = settings.protection.identity.as_ref().map(|identity| identity.files());
    let files = identity.into_iter().flat_map(|files| [&files.certificate, &files.key]).chain(read_again);
    for file in files.flat_map(|file| [Some(file.clone()), file.canonicalize().ok()]).flatten() {
        places.push(Place { path: folder_of(&file), rights: Rights::ReadFiles });
    }
    for log in settings.audit.path().into_iter().chain(settings.xferlog.as_ref().map(|log| log.path())) {
        places.push(Place { path: folder_of(&log), rights: Rights::Append });
    }
    places.sort();
    places.dedup();
    places
}

/// The error of an audit log that cannot be opened.
pub(super) fn cannot_open(audit: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot open the log {}: {error}; its folder must be there, and belong to the user that serves",
        audit.display()
    )
}

/// Returns the number of processors that this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Maximum number of threads that wait for the disk or check passwords. Each has a stack, and a cache of the allocator.
pub(crate) const DISK_THREADS_MAX: usize = 32;

/// Builds the runtime of the server. One processor is left to the kernel's network and the threads that wait for the disk: with a
/// thread for it too, each task that wakes two others wakes that thread, which finds nothing to do and delays them.
pub(super) fn runtime(processors: usize) -> Result<tokio::runtime::Runtime, ServeError> {
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.saturating_sub(1).max(1))
        .max_blocking_threads(DISK_THREADS_MAX)
        .enable_all()
        .build();
    built.map_err(|error| ServeError::Usage(format!("cannot start the runtime: {error}")))
}

/// Reads the file of settings and the users, and merges the command line, which takes precedence.
pub(super) fn plan(mut args: Args) -> Result<Plan, ServeError> {
    let mut file = match &args.config {
        Some(path) => File::load(path).map_err(ServeError::Settings)?,
        None => File::default(),
    };
    let settings = settings(&mut args, &mut file);
    let usage = |why: String| ServeError::Usage(why);
    let protection = args.protection.or(file.protection()).wanted().map_err(ServeError::Key)?;
    let Some(dir) = args.dir.or(file.dir) else {
        return Err(usage("which folder shall be served? give DIR, or `dir` in the file of settings".into()));
    };
    let listen = match (args.listen.is_empty(), file.listen) {
        (true, listen) => listen.unwrap_or_default(),
        (false, _) => {
            args.listen.iter().map(|text| Listen::parse(text).map_err(usage)).collect::<Result<_, _>>()?
        }
    };
    let writable = args.writable || file.writable.unwrap_or(false);
    let access = if writable { Access::Writable } else { Access::ReadOnly };
    let users_file = args.users.or(file.users).map(|path| (path, access));
    let users = match &users_file {
        Some((path, access)) => {
            Users::load(path, *access).map_err(|UsersError(why)| ServeError::Settings(why))?
        }
        None => Users::anonymous(access),
    };
    let hosts = hosts(file.host.take(), access, &protection).map_err(usage)?;
    let any_has_password =
        || users.any_has_password() || hosts.iter().any(|host| host.users.any_has_password());
    if !protection.protects() && protection.plain_passwords == Plain::Refused && any_has_password() {
        return Err(usage(
            "the users file has users with passwords, and nothing is protected: they could not log in; leave out `plain`, or take \
             passwords in the clear with --allow-plain-passwords"
                .into(),
        ));
    }

    let level = args.confine.or(file.confine).unwrap_or_default();
    let log = LogWanted {
        verbose: if args.verbose > 0 { args.verbose } else { file.verbose.unwrap_or(0) },
        format: args.log_format.or(file.log_format).unwrap_or_default(),
    };
    let run_as = args.user.or(file.user).map(|user| user.parse::<RunAs>()).transpose().map_err(usage)?;
    // The remaining fields are set when the sockets and folders are open.
    let confinement = Confinement { level, run_as, ..Confinement::default() };
    let (umask, config) = (args.umask.or(file.umask), args.config);
    let hooks: Result<Vec<Hook>, String> =
        file.hook.unwrap_or_default().into_iter().map(HookEntry::hook).collect();
    let (hooks, hook_queue) = (hooks.map_err(usage)?, file.hook_queue);
    if !hooks.is_empty() && hook_queue.is_none() {
        return Err(usage("hook-queue is not set: where shall events wait for hooks?".into()));
    }
    let (metrics, control) = (args.metrics.or(file.metrics), args.control.or(file.control));
    let dashboard = dashboard::DashboardArgs {
        dashboard: args.dashboard.dashboard.or(file.dashboard),
        dashboard_anywhere: args.dashboard.dashboard_anywhere || file.dashboard_anywhere == Some(true),
    };
    Ok(Plan {
        dashboard,
        hosts,
        hooks,
        hook_queue,
        dir,
        listen,
        users,
        users_file,
        config,
        settings,
        protection,
        confinement,
        umask,
        log,
        metrics,
        control,
    })
}

/// Builds the virtual hosts and their users.
fn hosts(host: Option<Hosts>, access: Access, protection: &Wanted) -> Result<Vec<HostPlan>, String> {
    let tables = match host {
        Some(Hosts::Tables(tables)) => tables,
        Some(Hosts::Name(_)) | None => Vec::new(),
    };
    let hosts: Vec<HostPlan> =
        tables.into_iter().map(|entry| HostPlan::of(entry, access)).collect::<Result<_, _>>()?;
    match !protection.protects() && hosts.iter().any(HostPlan::has_certificate) {
        true => Err("`plain` is set, and a host has a certificate: leave out one of them".into()),
        false => Ok(hosts),
    }
}

/// Builds the settings of the server; takes their values out of `args` and `file`.
fn settings(args: &mut Args, file: &mut File) -> Settings {
    let mut settings = Settings::default();
    let mut session = machine::Config::default();
    settings.sctp = args.profile.or(file.profile).unwrap_or(Profile::Modern).config();
    if let Some(cc) = args.cc.take().or(file.cc.take()) {
        cc.apply(&mut settings.sctp.congestion.control, &mut settings.sctp.congestion.options);
    }
    let multipath = args.multipath.or(file.multipath).unwrap_or(default_multipath(Mode::Braid));
    multipath.apply(&mut settings.sctp);
    settings.pcap = args.pcap.take().or(file.pcap.take());
    settings.packet_log = args.packet_log.take().or(file.packet_log.take());
    settings.qlog = args.qlog.take().or(file.qlog.take());
    settings.xferlog = args.xferlog.take().or(file.xferlog.take()).map(|path| Arc::new(LogFile::new(path)));
    if let Some(path) = args.audit.take().or(file.audit.take()) {
        settings.audit = Arc::new(Audit::to_file(path));
    }
    set(&mut session.greeting, file.greeting.take());
    if let Some(Hosts::Name(name)) = &file.host {
        session.host = Some(name.clone());
    }
    set(&mut session.login_attempts, file.login_attempts);
    set(&mut session.idle, file.idle_seconds.map(|Seconds(time)| time));
    if file.active == Some(true) {
        session.active = machine::Active::ToPeer;
    }
    if let Some(days) = file.parts_kept_days {
        settings.parts_kept = (days > 0).then(|| Duration::from_secs(days.saturating_mul(86_400)));
    }
    settings.parts_quota = file.parts_quota.map(|Size(bytes)| bytes);
    settings.disk_reserve = file.disk_reserve.map(|Size(bytes)| bytes);
    set(&mut settings.stall, file.stall_seconds.map(|Seconds(time)| time));
    let drain = args.drain_seconds.map(|seconds| Duration::from_secs(seconds.into()));
    set(&mut settings.drain, drain.or(file.drain_seconds.map(|Seconds(time)| time)));
    set(&mut settings.max_sessions, file.max_sessions);
    set(&mut settings.max_sessions_per_address, file.max_sessions_per_address);
    settings.passive_address = file.passive_address;
    settings.passive_ports = file.passive_ports.take().map(|Ports(ports)| ports);
    set(&mut settings.durability, file.durability);
    set(&mut settings.tls_resumption, file.tls_resumption);
    settings.session = Arc::new(session);
    settings
}

fn set<T>(value: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *value = given;
    }
}

#[cfg(test)]
mod tests {
    use braidftp_net::cc;

    use super::super::protection::ProtectionArgs;
    use super::*;
    use crate::store::fs::Durability;

    fn args(dir: Option<&str>) -> Args {
        let protection = ProtectionArgs { plain: true, ..ProtectionArgs::default() };
        Args { dir: dir.map(PathBuf::from), protection, ..Args::default() }
    }

    #[test]
    fn without_options_it_listens_on_both_transports_and_is_read_only() {
        let plan = plan(args(Some("/srv"))).unwrap();
        assert!(plan.listen.is_empty());
        let listen: Vec<String> = usual().iter().map(Listen::to_string).collect();
        assert_eq!(listen, ["ftp://0.0.0.0:2121", "ftp+sctp://0.0.0.0:9899"]);
        assert_eq!(plan.settings.session.active, machine::Active::Refused);
    }

    #[test]
    fn congestion_control_is_chosen_with_its_parameters_and_mistakes_are_reported() {
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
    fn a_file_of_settings_is_read_and_the_command_line_takes_precedence() {
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
