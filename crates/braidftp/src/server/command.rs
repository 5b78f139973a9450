//! The command `braidftp serve`: start, signals, reload, stop.

use std::io::{IsTerminal, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use braidftp_net::{Ended, Endpoint};
use tokio::task::JoinSet;
use tokio::time::Instant;
use zeroize::Zeroizing;

pub use super::args::Args;
use super::check::check;
use super::config;
use super::confine::Report;
use super::ctl::Limit;
pub use super::error::ServeError;
use super::log::{Format, LineLimit};
use super::plan::{Asides, LogWanted, Plan, RunsHooks, cannot_open, plan, processors, runtime};
use super::systemd::{Notify, Passed};
use super::{Audit, LogFile, Monitor, Opened, Reloader, Server, Settings, metrics_http};
use crate::budget::{Effective, Entry, Row, Side};
use crate::dashboard;
use crate::users::Users;

/// Interval of the status line for systemd (number of sessions and transfers).
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// Time that stopping takes besides the time for transfers.
const MARGIN: Duration = Duration::from_secs(15);
/// Maximum length of a password that `--hash-password` reads.
const HASHED_BYTES_MAX: usize = 4096;

/// Serves until SIGINT or SIGTERM. Prints the fingerprint of the key on standard error, then `listening URL` for each listener
/// that accepts connections. Must be called before the process has other threads.
///
/// # Errors
/// [`ServeError`]; nothing was served.
pub fn serve_command(args: Args) -> Result<(), ServeError> {
    if args.hash_password {
        return hash_password();
    }
    if args.print_config {
        // A closed standard output is no error.
        let _ = std::io::stdout().write_all(config::example().as_bytes());
        return Ok(());
    }
    if args.check {
        return check(plan(args)?);
    }
    allow_open_files();
    // The memory limit of the control group; it cannot be read after confinement.
    let processors = processors();
    let mut plan = plan(args.clone())?;
    let limit = log(plan.log);
    let (protection, origin) = plan.protection.load().map_err(ServeError::Key)?;
    let key = protection.told(origin);
    let weak: Vec<String> = plan.users.weaknesses().collect();
    plan.settings.protection = protection;
    let audit = plan.settings.audit.clone();
    let xferlog = plan.settings.xferlog.clone();
    let (fixed, has_files) = (plan.fixed(), plan.has_files());
    let again = ReloadInputs { args, fixed, has_files, audit: audit.clone(), xferlog: xferlog.clone() };
    let passed = Passed::take().map_err(ServeError::Usage)?;
    let notify = Notify::from_env().map_err(ServeError::Usage)?;
    let (opened, report, asides) = plan.open(passed, RunsHooks::Yes)?;
    // With the user and umask under which reopening after confinement must work.
    audit
        .reopen()
        .map_err(|error| ServeError::Usage(cannot_open(&audit.path().unwrap_or_default(), &error)))?;
    if let Some(log) = xferlog {
        log.reopen().map_err(|error| ServeError::Usage(cannot_open(&log.path(), &error)))?;
    }
    runtime(processors)?.block_on(serve(Ready { opened, key, weak, again, report, asides, notify }, limit))
}

/// A server that is configured, confined and ready to serve.
#[derive(Debug)]
struct Ready {
    opened: Opened,
    /// The lines about the key, for standard error.
    key: String,
    /// Warnings about weak password hashes.
    weak: Vec<String>,
    again: ReloadInputs,
    report: Report,
    asides: Asides,
    notify: Notify,
}

/// What SIGHUP needs to read the settings again.
#[derive(Debug)]
struct ReloadInputs {
    args: Args,
    /// The settings that cannot change while the server runs.
    fixed: Vec<(&'static str, String)>,
    /// Whether there is a file to read again.
    has_files: bool,
    audit: Arc<Audit>,
    xferlog: Option<Arc<LogFile>>,
}

impl ReloadInputs {
    /// Reopens the log files, and reads settings and users again. Errors are logged.
    fn reload(&self, server: &Reloader) {
        if let Err(error) = self.audit.reopen() {
            tracing::error!("{}", cannot_open(&self.audit.path().unwrap_or_default(), &error));
        }
        if let Some(log) = &self.xferlog
            && let Err(error) = log.reopen()
        {
            tracing::error!("{}", cannot_open(&log.path(), &error));
        }
        if !self.has_files {
            return;
        }
        let stay = "the server keeps its settings and users";
        let plan = match plan(self.args.clone()) {
            Ok(plan) => plan,
            Err(ServeError::Settings(sentences)) => {
                sentences.iter().for_each(|sentence| tracing::error!("{sentence}"));
                return tracing::error!("{stay}");
            }
            Err(error) => return tracing::error!("{error}; {stay}"),
        };
        for ((key, now), (_, before)) in plan.fixed().iter().zip(&self.fixed) {
            if now != before {
                tracing::warn!("{key} has changed: restart the server to apply it");
            }
        }
        let Plan { settings, users, hosts, .. } = plan;
        let weak: Vec<String> = users.weaknesses().collect();
        let of_hosts = hosts.into_iter().map(|host| host.users).collect();
        match server.reload(settings, users, of_hosts) {
            Ok(()) => {
                tracing::info!("settings and users were read again; sessions that are logged in keep theirs");
                weak.iter().for_each(|sentence| tracing::warn!("{sentence}"));
            }
            Err(why) => tracing::error!("{why}; {stay}"),
        }
    }
}

async fn serve(ready: Ready, limit: LineLimit) -> Result<(), ServeError> {
    let Ready { opened, key, weak, again, report, asides, notify } = ready;
    let server = opened.start().map_err(ServeError::Start)?;
    // Before the first line is printed: a program that waits for the line may send a signal at once.
    let signals = Signals::new(again.has_files || again.audit.path().is_some() || again.xferlog.is_some())
        .map_err(|error| ServeError::Usage(format!("cannot wait for signals: {error}")))?;
    {
        let mut stderr = std::io::stderr().lock();
        let _ = write!(stderr, "{key}");
        if let Some(page) = &asides.dashboard {
            let _ = writeln!(stderr, "{}", dashboard::told(page));
        }
        for place in server.local_addrs() {
            let _ = writeln!(stderr, "listening {place}");
        }
    }
    weak.iter().for_each(|sentence| tracing::warn!("{sentence}"));
    report.holds.iter().for_each(|line| tracing::info!("confined: {line}"));
    report.missing.iter().for_each(|line| tracing::warn!("not confined: {line}"));
    report.lost.iter().for_each(|line| tracing::info!("out of reach: {line}"));
    let (handle, reloader, monitor) = (server.handle(), server.reloader(), server.monitor());
    let mut told = std::pin::pin!(limit.tell());
    let mut running = std::pin::pin!(run(server));
    let mut signals = signals;
    let mut aside = std::pin::pin!(attend(asides, monitor.clone()));
    let (mut next_alive, mut next_status) = (Instant::now(), Instant::now());
    notify.ready();
    loop {
        tokio::select! {
            over = &mut running => return over,
            () = &mut told => {}
            () = &mut aside => {}
            () = tokio::time::sleep_until(next_alive), if notify.watchdog().is_some() => {
                notify.alive();
                next_alive = Instant::now() + notify.watchdog().unwrap_or(STATUS_EVERY);
            }
            () = tokio::time::sleep_until(next_status) => {
                notify.status(&monitor.status());
                next_status = Instant::now() + STATUS_EVERY;
            }
            signal = signals.next() => match signal {
                SignalAction::Stop => {
                    notify.stopping(reloader.drain() + MARGIN);
                    handle.stop();
                }
                SignalAction::StopNow => handle.abort(),
                SignalAction::Reload => {
                    notify.reloading();
                    again.reload(&reloader);
                    notify.ready();
                }
            },
        }
    }
}

/// Serves metrics, the dashboard and `braidftp ctl`; never returns.
async fn attend(asides: Asides, monitor: Monitor) {
    let Asides { metrics, dashboard, control } = asides;
    let (scraped, watched) = (monitor.clone(), monitor.clone());
    let metrics = async {
        match metrics.map(tokio::net::TcpListener::from_std) {
            Some(Ok(listener)) => metrics_http::serve(listener, move || scraped.metrics()).await,
            Some(Err(error)) => tracing::error!(%error, "cannot answer scrapers"),
            None => {}
        }
    };
    let control = async {
        if let Some(control) = control {
            control.serve(monitor, limits).await;
        }
    };
    let page = async {
        match dashboard.map(tokio::net::TcpListener::from_std) {
            Some(Ok(listener)) => dashboard::serve(listener, "braidftp serve", move || watched.now()).await,
            Some(Err(error)) => tracing::error!(%error, "cannot show the dashboard"),
            None => {}
        }
    };
    tokio::join!(metrics, page, control);
    std::future::pending().await
}

/// The limits of the configuration, for operators.
fn limits(settings: &Settings) -> Vec<Limit> {
    let effective = Effective::of(settings);
    let rows = Row::ALL.iter().filter(|row| row.entry().side == Side::Server);
    let limit = |row: &Row| {
        let Entry { what, setting, refused, .. } = row.entry();
        Limit { what, limit: row.limit(&effective).to_string(), setting, beyond: refused }
    };
    rows.map(limit).collect()
}

/// Raises the limit of open files to the hard limit: the soft limit is for programs that call `select`.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // On failure the server runs with the present limit; `--check` reports whether it suffices.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Serves until the server is stopped.
///
/// # Errors
/// [`ServeError::Sctp`], as soon as the task of an SCTP endpoint has panicked.
async fn run(server: Server) -> Result<(), ServeError> {
    let endpoints = server.endpoints();
    tokio::select! {
        () = server.run() => Ok(()),
        () = failed(endpoints) => Err(ServeError::Sctp),
    }
}

/// Waits until the task of an SCTP endpoint fails; without a failure it never returns.
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

/// Sends the log to standard error. Names and texts of the peer are escaped where they are logged.
fn log(wanted: LogWanted) -> LineLimit {
    use tracing_subscriber::filter::{LevelFilter, filter_fn};
    use tracing_subscriber::layer::{Layer, SubscriberExt};
    use tracing_subscriber::util::SubscriberInitExt;
    let level = match wanted.verbose {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let limit = LineLimit::default();
    let lines = tracing_subscriber::fmt::layer().with_target(false).with_writer(std::io::stderr);
    let lines = match wanted.format {
        // No colours: the output may be a file or a journal.
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    // The libraries of an object store log every request, and each failed one over many lines. What matters is logged here.
    const FOREIGN: [&str; 4] = ["hyper", "opendal", "reqsign", "reqwest"];
    let ours = filter_fn(|about| !FOREIGN.iter().any(|name| about.target().starts_with(name)));
    // Fails if the program has set a subscriber already, which then stays.
    let _ = tracing_subscriber::registry().with(level).with(ours).with(limit.clone()).with(lines).try_init();
    limit
}

#[derive(Debug)]
struct Signals {
    int: tokio::signal::unix::Signal,
    term: tokio::signal::unix::Signal,
    /// `None` without a file to reopen: SIGHUP then ends the process, as is usual.
    hangup: Option<tokio::signal::unix::Signal>,
    stops: u32,
}

/// The action that a signal requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SignalAction {
    Stop,
    /// The second request to stop: end the sessions now.
    StopNow,
    /// Reopen log files, and read settings and users again.
    Reload,
}

impl Signals {
    fn new(has_files: bool) -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let hangup = has_files.then(|| signal(SignalKind::hangup())).transpose()?;
        let (int, term) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { int, term, hangup, stops: 0 })
    }

    async fn next(&mut self) -> SignalAction {
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
            _ = hung_up => return SignalAction::Reload,
        }
        self.stops += 1;
        if self.stops == 1 { SignalAction::Stop } else { SignalAction::StopNow }
    }
}

fn hash_password() -> Result<(), ServeError> {
    // Full capacity at once: growing the buffer would leave copies of the password in memory.
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

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Wake};

    use braidftp_net::Connect;

    use super::super::Listen;
    use super::*;
    use crate::store::fs::Root;

    /// Panics in the task that wakes it.
    struct Fault;

    impl Wake for Fault {
        fn wake(self: Arc<Self>) {
            if !std::thread::panicking() {
                panic!("a fault of the endpoint's task, on purpose");
            }
        }
    }

    #[tokio::test]
    async fn serve_ends_with_exit_code_101_when_the_task_of_an_endpoint_panics() {
        let folder = tempfile::tempdir().unwrap();
        let here = "127.0.0.1:0".parse().unwrap();
        let server = Server::builder(Root::open(folder.path()).unwrap());
        let server = server.listen(Listen::Tcp(here)).listen(Listen::SctpUdp(vec![here])).bind().unwrap();
        let endpoint = server.endpoints().remove(0);
        // The task of the endpoint wakes who waits for an association when this is over.
        let association = endpoint.connect(Connect::to(["127.0.0.1:9".parse().unwrap()], 21)).unwrap();
        let mut up = pin!(association.up());
        assert!(up.as_mut().poll(&mut Context::from_waker(&Arc::new(Fault).into())).is_pending());
        association.abort("it is over");
        let over = tokio::time::timeout(Duration::from_secs(60), run(server)).await.expect("serve ends");
        let error = over.expect_err("the task has panicked");
        assert!(matches!(error, ServeError::Sctp));
        assert_eq!(error.exit_code(), 101);
    }
}
