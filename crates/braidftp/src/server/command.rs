//! `braidftp serve`.

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

/// How often systemd is told how many sessions there are.
const STATUS_EVERY: Duration = Duration::from_secs(10);
/// What the end of the server takes besides the time for transfers.
const MARGIN: Duration = Duration::from_secs(15);
/// Arenas of the allocator: with one for each thread, the free memory between what 200 sessions hold is a third more.
const ARENAS_MAX: u8 = 4;
/// Bytes of a password that `--hash-password` reads.
const HASHED_BYTES_MAX: usize = 4096;

/// Serves until SIGINT or SIGTERM. Says the fingerprint of its key on standard error, and `listening URL` for each listener once
/// it can be reached. Must be called before the process has other threads.
///
/// # Errors
/// [`ServeError`]; nothing was served.
pub fn serve_command(args: Args) -> Result<(), ServeError> {
    if args.hash_password {
        return hash_password();
    }
    if args.print_config {
        // Who reads it may have gone away.
        let _ = std::io::stdout().write_all(config::example().as_bytes());
        return Ok(());
    }
    if args.check {
        return check(plan(args)?);
    }
    braidftp_emu::limit_arenas(ARENAS_MAX);
    allow_open_files();
    // What a control group allows, which is out of reach later.
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
    let again = Again { args, fixed, has_files, audit: audit.clone(), xferlog: xferlog.clone() };
    let passed = Passed::take().map_err(ServeError::Usage)?;
    let notify = Notify::from_env().map_err(ServeError::Usage)?;
    let (opened, report, asides) = plan.open(passed, RunsHooks::Yes)?;
    // By the user and within the bounds that hold when it has to be opened anew.
    audit
        .reopen()
        .map_err(|error| ServeError::Usage(cannot_open(&audit.path().unwrap_or_default(), &error)))?;
    if let Some(log) = xferlog {
        log.reopen().map_err(|error| ServeError::Usage(cannot_open(&log.path(), &error)))?;
    }
    runtime(processors)?.block_on(serve(Ready { opened, key, weak, again, report, asides, notify }, limit))
}

/// A server that is about to serve.
#[derive(Debug)]
struct Ready {
    opened: Opened,
    /// What it says of its key.
    key: String,
    /// Sentences about weak hashes of users.
    weak: Vec<String>,
    again: Again,
    report: Report,
    asides: Asides,
    notify: Notify,
}

/// What SIGHUP needs.
#[derive(Debug)]
struct Again {
    args: Args,
    /// What cannot be changed while the server runs.
    fixed: Vec<(&'static str, String)>,
    /// Whether there is a file that can be read again.
    has_files: bool,
    audit: Arc<Audit>,
    xferlog: Option<Arc<LogFile>>,
}

impl Again {
    /// Opens logs anew, and reads the settings and the users again. What is wrong with them is an error of the log.
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
        let stay = "the settings and users before stay";
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
                tracing::warn!("{key} has changed: the new value holds when the server is started again");
            }
        }
        let Plan { settings, users, hosts, .. } = plan;
        let weak: Vec<String> = users.weaknesses().collect();
        let of_hosts = hosts.into_iter().map(|host| host.users).collect();
        match server.reload(settings, users, of_hosts) {
            Ok(()) => {
                tracing::info!(
                    "settings and users were read again; sessions that are logged in keep what they have"
                );
                weak.iter().for_each(|sentence| tracing::warn!("{sentence}"));
            }
            Err(why) => tracing::error!("{why}; {stay}"),
        }
    }
}

async fn serve(ready: Ready, limit: LineLimit) -> Result<(), ServeError> {
    let Ready { opened, key, weak, again, report, asides, notify } = ready;
    let server = opened.start().map_err(ServeError::Start)?;
    // Before the first line, so that who waits for it may send a signal at once.
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
                Told::Stop => {
                    notify.stopping(reloader.drain() + MARGIN);
                    handle.stop();
                }
                Told::StopNow => handle.abort(),
                Told::Reload => {
                    notify.reloading();
                    again.reload(&reloader);
                    notify.ready();
                }
            },
        }
    }
}

/// Answers scrapers and operators, for ever.
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

/// What clients may have, for operators.
fn limits(settings: &Settings) -> Vec<Limit> {
    let effective = Effective::of(settings);
    let rows = Row::ALL.iter().filter(|row| row.entry().side == Side::Server);
    let limit = |row: &Row| {
        let Entry { what, setting, refused, .. } = row.entry();
        Limit { what, limit: row.limit(&effective).to_string(), setting, beyond: refused }
    };
    rows.map(limit).collect()
}

/// The process may open as many files as the system lets it: the usual limit is for programs that call `select`.
fn allow_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If it may not, what it has must do; `--check` says whether it does.
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
fn log(wanted: LogWanted) -> LineLimit {
    use tracing_subscriber::filter::LevelFilter;
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
        // No colours in files and journals.
        Format::Text => lines.with_ansi(std::io::stderr().is_terminal()).boxed(),
        Format::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    // Fails if the program has a subscriber already: then that one is meant.
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
    /// To open log files anew, and to read settings and users again.
    Reload,
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
            _ = hung_up => return Told::Reload,
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
