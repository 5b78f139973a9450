//! The client: one session with a server, over any transport and in any mode.
//!
//! [`Client::connect`] opens the transport and logs in; [`Client::command`], [`Client::retrieve`], [`Client::store`]
//! and [`Client::list`] may be called by any number of tasks at once: how many run at the same time on the wire is the
//! mode's business. A lost connection ends everything under way with a transient error; opening it again and going
//! on is the job's business ([`crate::job`]).

mod body;
mod bounds;
mod carrier;
mod control;
mod engine;
mod errors;
pub mod login;
mod path_rule;
mod pool;
mod protection;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braidftp_ftp::client::{Features, Finished, ListForm, Transfer};
use braidftp_ftp::command::Command;
use braidftp_ftp::server::is_host_name;
use braidftp_ftp::{PathArg, Reply};
use braidftp_net::cc;
use braidftp_net::sctp::{Multipath, MultipathError, MultipathWith};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

pub use body::{
    Body, DataEnd, FileSink, LISTING_AHEAD_BYTES, LISTING_QUEUE_BYTES, Queue, QueueSink, Sink, Source,
    same_time, system_time, timestamp,
};
pub use bounds::{
    Bounds, DISCARDED_BYTES_MAX, ENTRIES_MAX, HELD_BYTES_MAX, HELD_PATH_BYTES, UNTOLD_SIZE_MAX,
};
pub use braidftp_ftp::Mode;
pub use carrier::Totals;
pub use control::{PathControl, say};
pub(crate) use errors::{of_reply, of_write_reply};
pub use login::Login;
pub use path_rule::PathRule;
pub use pool::{Lane, PARALLEL, PARALLEL_MAX, Parallel, Turn};
pub use protection::Protection;

use crate::exit::{Error, Exit, Result};
pub use crate::limiter::Limiter;
use crate::progress::{Limit, Probe, Reporter};
use crate::report::PathSummary;
pub use crate::size::Size;
use crate::url::{Scheme, Url};

/// How a client talks.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which mode.
    pub mode: Mode,
    /// SCTP: congestion control of what this side sends; the profile's, if none.
    pub cc: Option<cc::Choice>,
    /// SCTP: the parameters; [`default_profile`] if none.
    pub profile: Option<braidftp_net::Profile>,
    /// SCTP: a file for all packets.
    pub pcap: Option<PathBuf>,
    /// SCTP: a file for all packets as text.
    pub packet_log: Option<PathBuf>,
    /// A qlog of the SCTP packets and paths.
    pub qlog: Option<PathBuf>,
    /// How fast file bytes may move.
    pub limiter: Option<Arc<Limiter>>,
    /// How long the server may be silent.
    pub timeout: Duration,
    /// What becomes of an attempt to connect to a port where nobody listens.
    pub refusal: Refusal,
    /// What the server can make this side take.
    pub bounds: Bounds,
    /// Which local addresses may be used, towards which of the server's.
    pub paths: Vec<PathRule>,
    /// Whether data takes several paths at once, and how; as [`default_multipath`] says, if none.
    pub multipath: Option<MultipathChoice>,
    /// Takes paths out of use and puts them back.
    pub control: PathControl,
    /// Whether the lines of the protocol are shown on standard error.
    pub trace: Trace,
    /// Whether what travels is protected, and which servers are trusted.
    pub protection: Protection,
    /// TCP: how many sessions transfers may have.
    pub parallel: Parallel,
    /// Where the session tells what is no error and should be known.
    pub reporter: Option<Reporter>,
}

/// What becomes of an attempt to connect over UDP when the server's host says that nobody listens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It ends with that.
    Ends,
    /// It goes on for [`Options::timeout`]: the server may be starting again.
    Waits,
}

/// Whether the lines of the protocol are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// No.
    No,
    /// Yes.
    Lines,
}

impl Options {
    /// The usual for a mode.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            cc: None,
            profile: None,
            pcap: None,
            packet_log: None,
            qlog: None,
            limiter: None,
            timeout: Duration::from_secs(60),
            refusal: Refusal::Waits,
            bounds: Bounds::default(),
            paths: Vec::new(),
            multipath: None,
            control: PathControl::default(),
            trace: Trace::No,
            protection: Protection::Plain,
            parallel: Parallel::new(1),
            reporter: None,
        }
    }
}

/// The mode for a scheme when none is asked for.
pub const fn default_mode(scheme: Scheme) -> Mode {
    match scheme {
        Scheme::Ftp | Scheme::Ftpes | Scheme::Ftps => Mode::Tcp,
        Scheme::FtpSctp | Scheme::FtpSctpIp => Mode::Braid,
    }
}

/// The SCTP parameters for a mode when none are asked for: the papers' modes run as the papers had them.
pub const fn default_profile(mode: Mode) -> braidftp_net::Profile {
    match mode {
        Mode::Braid => braidftp_net::Profile::Modern,
        Mode::Tcp | Mode::Naive | Mode::Ms | Mode::MsCp => braidftp_net::Profile::Rfc9260,
    }
}

/// Whether data of a mode takes several paths at once when nothing is asked for: the papers' modes run as the papers had them.
pub fn default_multipath(mode: Mode) -> MultipathChoice {
    match mode {
        Mode::Braid => MultipathChoice::On(Multipath::default()),
        Mode::Tcp | Mode::Naive | Mode::Ms | Mode::MsCp => MultipathChoice::Off,
    }
}

/// What `--multipath` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultipathChoice {
    /// Data takes one path, and others when that dies.
    Off,
    /// It takes all there are, so.
    On(Multipath),
}

impl MultipathChoice {
    /// How often a path is asked after that is idle, or dead, where there may be several.
    const ASK_EVERY: Duration = Duration::from_secs(5);

    /// What an association is told.
    pub(crate) fn apply(self, config: &mut braidftp_net::Config) {
        config.paths.multipath = match self {
            Self::Off => None,
            Self::On(multipath) => Some(multipath),
        };
        config.paths.multipath_with = MultipathWith::WhereAgreed;
    }

    /// What one is told that has several paths in view: one that comes back is to be used again soon.
    pub(crate) fn watch_paths(config: &mut braidftp_net::Config) {
        config.timers.heartbeat_interval =
            config.timers.heartbeat_interval.map(|every| every.min(Self::ASK_EVERY));
    }
}

impl FromStr for MultipathChoice {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            text => text.parse().map(Self::On).map_err(|error: MultipathError| format!("{error}; or off")),
        }
    }
}

/// Checks that a mode can run over a scheme.
///
/// # Errors
/// A usage error that says which modes can.
pub fn check_mode(mode: Mode, scheme: Scheme) -> Result<()> {
    match (mode.is_sctp(), scheme.is_tcp()) {
        (false, true) | (true, false) => Ok(()),
        (true, true) => Err(Error::usage(
            format_args!("use --mode {mode} with an {scheme}:// URL"),
            format_args!("{scheme}:// is FTP over TCP, and this mode needs SCTP"),
        )
        .hint("leave --mode out, or write ftp+sctp://HOST/ for --mode naive, ms, ms-cp or braid")),
        (false, false) => Err(Error::usage(
            format_args!("use --mode {mode} with an {scheme}:// URL"),
            "it is FTP over TCP, and this URL says SCTP",
        )
        .hint("use --mode naive, ms, ms-cp or braid; or write ftp://HOST/ for --mode tcp")),
    }
}

/// Reads the name of a congestion control or a profile, and says which there are.
///
/// # Errors
/// A usage error.
pub fn parse_name<T>(option: &str, text: &str) -> Result<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    text.parse().map_err(|error: T::Err| Error::usage(format_args!("use {option} {text}"), error))
}

/// A session with a server. Clones share it; it ends when the last is dropped, or by [`Client::close`].
#[derive(Debug, Clone)]
pub struct Client {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    /// Further sessions for transfers, where there may be some.
    pool: Option<Arc<pool::Pool>>,
}

/// What the engine and the handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// The name to ask for by HOST.
    pub(crate) host: Option<String>,
    pub(crate) activity: Arc<body::Activity>,
    /// Why the session is over.
    pub(crate) ended: Mutex<Option<Error>>,
    pub(crate) gauge: carrier::Gauge,
    /// Whether the server has let us in.
    pub(crate) logged_in: AtomicBool,
    stop: watch::Sender<bool>,
    engine: Mutex<Option<JoinHandle<()>>>,
}

/// What the engine is asked for.
#[allow(clippy::large_enum_variant, reason = "there is one for each transfer, and it moves a few times")]
#[derive(Debug)]
pub(crate) enum Request {
    Command { command: Command, answer: oneshot::Sender<Result<Reply>> },
    Transfer { transfer: Transfer, body: Body, answer: oneshot::Sender<Done> },
}

/// What came of a transfer.
#[derive(Debug)]
pub struct Done {
    /// This side's end of it, handed back, unless the transfer never began.
    pub body: Option<Body>,
    /// How the data ended.
    pub data: DataEnd,
    /// Whether it went well.
    pub result: Result<Finished>,
}

/// A transfer under way.
#[derive(Debug)]
pub struct UnderWay {
    answer: oneshot::Receiver<Done>,
    shared: Arc<Shared>,
}

impl UnderWay {
    /// The same, which gives `lane` back as soon as it has ended, whoever waits for it.
    pub fn releasing(self, lane: Lane) -> Self {
        let shared = self.shared.clone();
        let (tell, answer) = oneshot::channel();
        tokio::spawn(async move {
            let done = self.done().await;
            drop(lane);
            // Nobody may want to know.
            let _ = tell.send(done);
        });
        Self { answer, shared }
    }

    /// Waits for its end.
    ///
    /// # Cancel safety
    /// The transfer goes on if this is dropped; its end is then lost, and a file stays unfinished.
    pub async fn done(self) -> Done {
        match self.answer.await {
            Ok(done) => done,
            Err(_) => Done { body: None, data: DataEnd::default(), result: Err(self.shared.why()) },
        }
    }
}

impl Shared {
    /// Why the session is over.
    fn why(&self) -> Error {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.clone().unwrap_or_else(|| Error::new(Exit::Interrupted, "go on", "the session has ended"))
    }
}

/// The error of a listing of more than `most` bytes; `what` is what cannot be done then.
pub(crate) fn listing_beyond(most: u64, what: &str) -> Error {
    Error::new(Exit::Protocol, what, format_args!("it is longer than {most} bytes"))
        .hint("--max-entries takes more")
}

impl Client {
    /// Opens the transport to the server of `url` and begins to log in. In braid the login and whatever is asked next
    /// travel with the handshake, so that a refusal shows only with the first answer; [`Client::ready`] waits for it.
    ///
    /// # Errors
    /// The name cannot be resolved, or nobody answers.
    pub async fn connect(url: &Url, login: Login, options: Options) -> Result<Self> {
        check_mode(options.mode, url.scheme)?;
        if options.mode.is_sctp() && options.protection.of_association(options.mode).is_none() {
            options.protection.check_plain_login(&login)?;
        }
        let activity = Arc::new(body::Activity::new());
        let (stop, stopped) = watch::channel(false);
        let pump = body::Pump { activity: activity.clone(), limiter: options.limiter.clone(), stop: stopped };
        let (notes, notes_in) = mpsc::channel(256);
        let gauge = carrier::Gauge::default();
        options.control.attach(gauge.clone());
        let connected = carrier::connect(url, &login, &options, pump.clone(), notes, gauge.clone());
        let carrier = match tokio::time::timeout(options.timeout, connected).await {
            Ok(carrier) => carrier?,
            Err(_) => {
                return Err(Error::new(
                    Exit::Connect,
                    format_args!("connect to {url}"),
                    format_args!("no answer within {} s", options.timeout.as_secs_f64()),
                )
                .hint("check that the server runs and that no firewall drops its port; or give it longer with --timeout"));
            }
        };
        let (requests, requests_in) = mpsc::channel(16);
        let is_pooled = options.mode == Mode::Tcp && options.parallel.get() > 1;
        let pool = is_pooled.then(|| pool::Pool::new(url, &login, &options));
        //= specs/rfc7151.txt#section-3.1
        //# This SHOULD be the same hostname that was
        //# used to obtain the IP address to which the FTP control connection was
        //# made
        let host = match &url.host {
            url::Host::Domain(name) if is_host_name(name.as_bytes()) => Some(name.clone()),
            _ => None,
        };
        let shared = Arc::new(Shared {
            options,
            host,
            activity,
            ended: Mutex::default(),
            gauge,
            logged_in: AtomicBool::new(false),
            stop,
            engine: Mutex::default(),
        });
        let engine = engine::Engine::new(carrier, requests_in, notes_in, shared.clone());
        *shared.engine.lock().unwrap_or_else(PoisonError::into_inner) = Some(tokio::spawn(engine.run(login)));
        Ok(Self { requests, shared, pool })
    }

    /// A session for one transfer, when one has room for it: this one, or one of several where files move one after another
    /// ([`Options::parallel`]).
    ///
    /// # Cancel safety
    /// Safe: nothing is begun.
    pub async fn lane(&self) -> Lane {
        match &self.pool {
            Some(pool) => pool.lane(self, &self.shared.options.parallel).await,
            None => Lane::of(self),
        }
    }

    /// A session for one listing. For one that is asked for before its turn there is none unless another session has no listing, so
    /// that files can always move.
    pub fn listing_lane(&self, turn: Turn) -> Option<Lane> {
        match &self.pool {
            Some(pool) => pool.listing_lane(self, &self.shared.options.parallel, turn),
            None => (turn == Turn::Now).then(|| Lane::of(self)),
        }
    }

    /// Whether there is a session that has no listing to move.
    pub fn has_lane_without_listing(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.has_lane_without_listing())
    }

    /// How many sessions transfers may have at the same time.
    pub fn parallel(&self) -> usize {
        self.pool.as_ref().map_or(1, |_| self.shared.options.parallel.get())
    }

    /// Waits until the server has let us in.
    ///
    /// # Errors
    /// It has not, or the connection is gone.
    pub async fn ready(&self) -> Result<()> {
        self.command(Command::Noop).await.map(|_| ())
    }

    /// What the server can do beyond RFC 959. In braid that is known without asking.
    ///
    /// # Errors
    /// The connection is gone.
    pub async fn features(&self) -> Result<Features> {
        if self.mode() == Mode::Braid {
            return Ok(Features::of_braid());
        }
        Ok(Features::parse(&self.command(Command::Features).await?))
    }

    /// A command that moves no data. The reply may be a refusal.
    ///
    /// # Errors
    /// The session has ended, with why.
    ///
    /// # Cancel safety
    /// The command may have been sent.
    pub async fn command(&self, command: Command) -> Result<Reply> {
        let asked = self.begin_command(command).await?;
        self.reply(asked).await
    }

    /// The reply to a command that was begun.
    ///
    /// # Errors
    /// The session has ended, with why.
    pub async fn reply(&self, asked: oneshot::Receiver<Result<Reply>>) -> Result<Reply> {
        asked.await.unwrap_or_else(|_| Err(self.shared.why()))
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    /// The session has ended, with why.
    pub async fn begin_command(&self, command: Command) -> Result<oneshot::Receiver<Result<Reply>>> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Command { command, answer }).await?;
        Ok(answered)
    }

    /// While the result is held, the server may be silent beyond `--timeout`, as long as it takes to read so many bytes.
    pub(crate) fn have_patience(&self, bytes: u64) -> body::Patience {
        body::Patience::new(self.shared.activity.clone(), bytes)
    }

    /// Fetches a file into `sink`, from `offset` on. Returns when the engine has taken it, which is when there is room.
    ///
    /// # Errors
    /// The session has ended, with why.
    pub async fn retrieve(&self, path: PathArg, offset: u64, sink: Sink) -> Result<UnderWay> {
        self.transfer(Transfer::Retrieve { path, offset }, Body::Sink(sink)).await
    }

    /// Sends a file of `length` bytes from `offset` on.
    ///
    /// # Errors
    /// The session has ended, with why.
    pub async fn store(&self, path: PathArg, length: u64, source: Source) -> Result<UnderWay> {
        let offset = source.offset();
        let transfer = Transfer::Store { path, offset, length: length.saturating_sub(offset) };
        self.transfer(transfer, Body::Source(Box::new(source))).await
    }

    /// Asks for a listing, as bytes.
    ///
    /// # Errors
    /// The session has ended, with why.
    pub async fn list(&self, form: ListForm, path: Option<PathArg>) -> Result<(Queue, UnderWay)> {
        self.list_waiting(form, path, LISTING_QUEUE_BYTES).await
    }

    /// The same, of which no more than `waiting` bytes wait to be used.
    ///
    /// # Errors
    /// The session has ended, with why.
    pub async fn list_waiting(
        &self,
        form: ListForm,
        path: Option<PathArg>,
        waiting: usize,
    ) -> Result<(Queue, UnderWay)> {
        let most = self.bounds().listing_bytes();
        let (sink, queue) = Sink::queue(most, listing_beyond(most, "read the listing"), waiting);
        let under_way = self.transfer(Transfer::List { form, path }, Body::Sink(sink)).await?;
        Ok((queue, under_way))
    }

    async fn transfer(&self, transfer: Transfer, body: Body) -> Result<UnderWay> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Transfer { transfer, body, answer }).await?;
        Ok(UnderWay { answer: answered, shared: self.shared.clone() })
    }

    async fn request(&self, request: Request) -> Result<()> {
        let place = self.requests.reserve().await.map_err(|_| self.shared.why())?;
        match put(&self.requests, place, request) {
            Taken::ByTheEngine => Ok(()),
            Taken::ByNobody => Err(self.shared.why()),
        }
    }

    /// What the server can make this side take.
    pub fn bounds(&self) -> Bounds {
        self.shared.options.bounds
    }

    /// Which mode it speaks.
    pub fn mode(&self) -> Mode {
        self.shared.options.mode
    }

    /// Whether the server has let us in.
    pub fn was_up(&self) -> bool {
        self.shared.logged_in.load(Ordering::Relaxed)
    }

    /// The network paths and what limits the speed, at this moment.
    pub fn probe(&self) -> impl Fn() -> Probe + Send + 'static {
        let shared = self.shared.clone();
        move || shared.probe()
    }

    /// The network paths now.
    pub fn paths(&self) -> Vec<PathSummary> {
        self.shared.gauge.paths()
    }

    /// What tells, also when this client is gone, what it has opened and moved, packets and all.
    pub fn watch_totals(&self) -> impl Fn() -> Totals + Send + 'static {
        let gauge = self.shared.gauge.clone();
        move || gauge.totals()
    }

    /// Says goodbye and waits for the end, a few seconds at most.
    pub async fn close(self) {
        if let Some(pool) = &self.pool {
            pool.end().await;
        }
        self.close_session().await;
    }

    async fn close_session(self) {
        let engine = self.shared.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(self.requests);
        if let Some(mut engine) = engine {
            let patience = self.shared.options.timeout.min(Duration::from_secs(5));
            if tokio::time::timeout(patience, &mut engine).await.is_err() {
                engine.abort();
            }
        }
    }

    /// Ends the session at once. Transfers under way end with `why`, and what they wrote is handed back to be kept.
    pub async fn stop(&self, why: Error) {
        if let Some(pool) = &self.pool {
            pool.stop(&why).await;
        }
        self.stop_session(why).await;
    }

    async fn stop_session(&self, why: Error) {
        self.shared.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        let _ = self.shared.stop.send(true);
        let engine = self.shared.engine.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut engine) = engine
            && tokio::time::timeout(Duration::from_secs(5), &mut engine).await.is_err()
        {
            engine.abort();
        }
    }
}

/// Who takes a request out of the channel.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    ByTheEngine,
    ByNobody,
}

/// Puts a request where there is a place for it. An engine that has ended since there was one has emptied the channel before the
/// request was in it: there the request stays as long as this handle, and whoever waits for its answer would wait for ever.
fn put<T>(requests: &mpsc::Sender<T>, place: mpsc::Permit<'_, T>, request: T) -> Taken {
    place.send(request);
    match requests.is_closed() {
        true => Taken::ByNobody,
        false => Taken::ByTheEngine,
    }
}

impl Shared {
    fn probe(&self) -> Probe {
        let paths = self.gauge.paths();
        let limit = if self.options.limiter.as_ref().is_some_and(|limiter| limiter.is_holding()) {
            Some(Limit::Asked)
        } else if self.activity.is_busy_here() {
            Some(Limit::Disk)
        } else {
            self.gauge.limit()
        };
        Probe { paths, limit }
    }
}

/// The addresses of a URL's host, in the order in which they shall be tried: IPv4 first, because servers bound to
/// every IPv4 address and to no IPv6 one are common, and SCTP over UDP learns late that nobody listens.
pub(crate) async fn resolve(url: &Url) -> Result<Vec<SocketAddr>> {
    use url::Host;
    let port = url.port;
    let name = match &url.host {
        Host::Ipv4(ip) => return Ok(vec![SocketAddr::from((*ip, port))]),
        Host::Ipv6(ip) => return Ok(vec![SocketAddr::from((*ip, port))]),
        Host::Domain(name) => name,
    };
    let failed = |why: &dyn fmt::Display| {
        Error::new(Exit::Connect, format_args!("find the address of {name}"), why)
            .hint("check the spelling of the name and that this machine can resolve names; or write the address itself")
    };
    let found = tokio::net::lookup_host((name.as_str(), port)).await.map_err(|error| failed(&error))?;
    let mut found: Vec<_> = found.take(16).collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    match found.is_empty() {
        true => Err(failed(&"it has none")),
        false => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_that_is_late_for_an_engine_that_ended_waits_for_nothing() {
        let (requests, engine) = mpsc::channel(2);
        let (early, late) = (requests.reserve().await.unwrap(), requests.reserve().await.unwrap());
        assert_eq!(put(&requests, early, 1), Taken::ByTheEngine);
        drop(engine);
        assert_eq!(put(&requests, late, 2), Taken::ByNobody);
    }

    #[test]
    fn a_mode_that_does_not_fit_the_scheme_says_what_fits() {
        for mode in Mode::ALL {
            for scheme in [Scheme::Ftp, Scheme::Ftpes, Scheme::Ftps] {
                assert_eq!(check_mode(mode, scheme).is_ok(), mode == Mode::Tcp);
            }
            assert_eq!(check_mode(mode, Scheme::FtpSctp).is_ok(), mode != Mode::Tcp);
        }
        let error = check_mode(Mode::Braid, Scheme::Ftp).unwrap_err();
        assert_eq!(error.exit, Exit::Usage);
        assert!(error.to_string().contains("ftp+sctp://"));
    }
}
