//! The client: one session with a server, over any transport and in any mode.
//!
//! [`Client::connect`] opens the transport and logs in. [`Client::command`], [`Client::retrieve`]
//! and [`Client::list`] may be called by any number of tasks concurrently; the mode decides
//! how many requests are concurrent on the wire. A lost connection ends all requests with a transient error.
//! Opening a new connection and resuming is the responsibility of the job ([`crate::job`]).

mod body;
mod bounds;
mod carrier;
mod control;
mod engine;
mod errors;
mod ip_reach;
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
    Body, DataEnd, FileSink, LISTING_AHEAD_BYTES, LISTING_QUEUE_BYTES, Name, Queue, QueueSink, Sink, Source,
    same_time, system_time, timestamp,
};
pub use bounds::{
    Bounds, DISCARDED_BYTES_MAX, ENTRIES_MAX, HELD_BYTES_MAX, HELD_PATH_BYTES, UNKNOWN_SIZE_MAX,
};
pub use braidftp_ftp::Mode;
pub use carrier::Totals;
pub use control::{PathControl, say};
pub(crate) use errors::{of_reply, of_write_reply};
pub(crate) use ip_reach::{IpReach, ip_reach};
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

/// Options of a session.
#[derive(Debug, Clone)]
pub struct Options {
    /// The mode.
    pub mode: Mode,
    /// SCTP: congestion control of data that this side sends. Default: the profile's.
    pub cc: Option<cc::Choice>,
    /// SCTP: the parameters. Default: [`default_profile`].
    pub profile: Option<braidftp_net::Profile>,
    /// SCTP: a pcapng file for all packets.
    pub pcap: Option<PathBuf>,
    /// SCTP: a file for all packets as text.
    pub packet_log: Option<PathBuf>,
    /// SCTP: a qlog of packets and paths.
    pub qlog: Option<PathBuf>,
    /// The limiter of file bytes.
    pub limiter: Option<Arc<Limiter>>,
    /// The maximum silence of the server.
    pub timeout: Duration,
    /// What to do if nobody listens on the server's port.
    pub refusal: Refusal,
    /// The limits on what the client accepts from the server.
    pub bounds: Bounds,
    /// The permitted pairs of local and server addresses.
    pub paths: Vec<PathRule>,
    /// Multipath transfer. Default: [`default_multipath`].
    pub multipath: Option<MultipathChoice>,
    /// Takes paths out of use and puts them back.
    pub control: PathControl,
    /// Whether protocol lines are printed on standard error.
    pub trace: Trace,
    /// Protection, and the trusted servers.
    pub protection: Protection,
    /// TCP: the number of sessions for transfers.
    pub parallel: Parallel,
    /// The receiver of warnings about the session.
    pub reporter: Option<Reporter>,
}

/// The reaction to an ICMP error that says that nobody listens on the server's UDP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The attempt fails immediately.
    Ends,
    /// The attempt continues for [`Options::timeout`], because the server may be restarting.
    Waits,
}

/// Whether protocol lines are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trace {
    /// No.
    No,
    /// Yes.
    Lines,
}

impl Options {
    /// The default options of a mode.
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

/// The default mode of a scheme.
pub const fn default_mode(scheme: Scheme) -> Mode {
    match scheme {
        Scheme::Ftp | Scheme::Ftpes | Scheme::Ftps => Mode::Tcp,
        Scheme::FtpSctp | Scheme::FtpSctpIp => Mode::Braid,
    }
}

/// The default SCTP parameters of a mode: those of the papers for the papers' modes.
pub const fn default_profile(mode: Mode) -> braidftp_net::Profile {
    match mode {
        Mode::Braid => braidftp_net::Profile::Modern,
        Mode::Tcp | Mode::Naive | Mode::Ms | Mode::MsCp => braidftp_net::Profile::Rfc9260,
    }
}

/// The default multipath transfer of a mode: that of the papers for the papers' modes.
pub fn default_multipath(mode: Mode) -> MultipathChoice {
    match mode {
        Mode::Braid => MultipathChoice::On(Multipath::default()),
        Mode::Tcp | Mode::Naive | Mode::Ms | Mode::MsCp => MultipathChoice::Off,
    }
}

/// The value of `--multipath`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MultipathChoice {
    /// Data uses one path, and others after a failure.
    Off,
    /// Data uses all paths concurrently, with these settings.
    On(Multipath),
}

impl MultipathChoice {
    /// The HEARTBEAT interval of idle and inactive paths, where there may be several paths.
    const ASK_EVERY: Duration = Duration::from_secs(5);

    /// Configures an association.
    pub(crate) fn apply(self, config: &mut braidftp_net::Config) {
        config.paths.multipath = match self {
            Self::Off => None,
            Self::On(multipath) => Some(multipath),
        };
        config.paths.multipath_with = MultipathWith::WhereAgreed;
    }

    /// Configures an association that may have several paths, so that a recovered path is soon used again.
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
///
/// A usage error with the possible modes.
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
            "it is FTP over TCP, and the scheme of this URL is SCTP",
        )
        .hint("use --mode naive, ms, ms-cp or braid; or write ftp://HOST/ for --mode tcp")),
    }
}

/// Parses the name of a congestion control or a profile.
///
/// # Errors
///
/// A usage error with the known names.
pub fn parse_name<T>(option: &str, text: &str) -> Result<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    text.parse().map_err(|error: T::Err| Error::usage(format_args!("use {option} {text}"), error))
}

/// A session with a server. Clones share it. The session ends when the last clone is dropped, or with
/// [`Client::close`].
#[derive(Debug, Clone)]
pub struct Client {
    requests: mpsc::Sender<Request>,
    shared: Arc<Shared>,
    /// Additional sessions for transfers, if permitted.
    pool: Option<Arc<pool::Pool>>,
}

/// State shared by the engine and the handles.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: Options,
    /// The argument of HOST.
    pub(crate) host: Option<String>,
    pub(crate) activity: Arc<body::Activity>,
    /// The reason why the session has ended.
    pub(crate) ended: Mutex<Option<Error>>,
    pub(crate) gauge: carrier::Gauge,
    /// Whether the login succeeded.
    pub(crate) logged_in: AtomicBool,
    stop: watch::Sender<bool>,
    engine: Mutex<Option<JoinHandle<()>>>,
}

/// Requests to the engine.
#[allow(clippy::large_enum_variant, reason = "there is one for each transfer, and it moves a few times")]
#[derive(Debug)]
pub(crate) enum Request {
    Command { command: Command, answer: oneshot::Sender<Result<Reply>> },
    Transfer { transfer: Transfer, body: Body, answer: Answer },
}

/// Processes the result of a transfer in the task of the session, which must not wait. For one of many small files this takes the
/// place of a task that waits for the result.
pub(crate) trait Completion: fmt::Debug + Send {
    /// The transfer has ended.
    fn complete(self: Box<Self>, done: Done);
}

impl Completion for oneshot::Sender<Done> {
    fn complete(self: Box<Self>, done: Done) {
        // The receiver may be gone.
        let _ = self.send(done);
    }
}

/// The receiver of the result of a transfer. If it is dropped, it is told why the session has ended.
#[derive(Debug)]
pub(crate) struct Answer {
    to: Option<Box<dyn Completion>>,
    shared: Arc<Shared>,
}

impl Answer {
    pub(crate) fn complete(mut self, done: Done) {
        if let Some(to) = self.to.take() {
            to.complete(done);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.complete(Done { body: None, data: DataEnd::default(), result: Err(self.shared.why()) });
        }
    }
}

/// The result of a transfer.
#[derive(Debug)]
pub struct Done {
    /// The returned body, unless the transfer never began.
    pub body: Option<Body>,
    /// How the data ended.
    pub data: DataEnd,
    /// Whether the transfer succeeded.
    pub result: Result<Finished>,
}

/// A transfer in progress.
#[derive(Debug)]
pub struct UnderWay {
    answer: oneshot::Receiver<Done>,
    shared: Arc<Shared>,
}

impl UnderWay {
    /// The same transfer, which releases `lane` as soon as it has ended, whether or not anybody waits for it.
    pub fn releasing(self, lane: Lane) -> Self {
        let shared = self.shared.clone();
        let (tell, answer) = oneshot::channel();
        tokio::spawn(async move {
            let done = self.done().await;
            drop(lane);
            // The receiver may be gone.
            let _ = tell.send(done);
        });
        Self { answer, shared }
    }

    /// Waits for the end of the transfer.
    ///
    /// # Cancel safety
    ///
    /// The transfer continues if this future is dropped; its result is then lost, and a file stays
    /// unfinished.
    pub async fn done(self) -> Done {
        match self.answer.await {
            Ok(done) => done,
            Err(_) => Done { body: None, data: DataEnd::default(), result: Err(self.shared.why()) },
        }
    }
}

impl Shared {
    /// The reason why the session has ended.
    fn why(&self) -> Error {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.clone().unwrap_or_else(|| Error::new(Exit::Interrupted, "go on", "the session has ended"))
    }
}

/// The error of a listing with more than `most` bytes; `what` is the operation that fails.
pub(crate) fn listing_beyond(most: u64, what: &str) -> Error {
    Error::new(Exit::Protocol, what, format_args!("it is longer than {most} bytes"))
        .hint("--max-entries takes more")
}

impl Client {
    /// Opens the transport to the server of `url` and begins to log in. In braid the login and the first
    /// requests are sent with the handshake, so a refusal is only reported by the first answer;
    /// [`Client::ready`] waits for it.
    ///
    /// # Errors
    ///
    /// The name cannot be resolved, or no server answers.
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

    /// Waits for a session with room for one transfer: this one, or another one of the pool
    /// ([`Options::parallel`]).
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is begun.
    pub async fn lane(&self) -> Lane {
        match &self.pool {
            Some(pool) => pool.lane(self, &self.shared.options.parallel).await,
            None => Lane::of(self),
        }
    }

    /// A session for one listing. A listing ahead of its use gets none unless another session has no listing,
    /// so that file transfers are never blocked.
    pub fn listing_lane(&self, turn: Turn) -> Option<Lane> {
        match &self.pool {
            Some(pool) => pool.listing_lane(self, &self.shared.options.parallel, turn),
            None => (turn == Turn::Now).then(|| Lane::of(self)),
        }
    }

    /// Whether some session transfers no listing.
    pub fn has_lane_without_listing(&self) -> bool {
        self.pool.as_ref().is_some_and(|pool| pool.has_lane_without_listing())
    }

    /// The number of sessions for concurrent transfers.
    pub fn parallel(&self) -> usize {
        self.pool.as_ref().map_or(1, |_| self.shared.options.parallel.get())
    }

    /// Waits for the end of the login.
    ///
    /// # Errors
    ///
    /// The login was refused, or the connection was lost.
    pub async fn ready(&self) -> Result<()> {
        self.command(Command::Noop).await.map(|_| ())
    }

    /// The features of the server beyond RFC 959. In braid they are known without a request.
    ///
    /// # Errors
    ///
    /// The connection was lost.
    pub async fn features(&self) -> Result<Features> {
        if self.mode() == Mode::Braid {
            return Ok(Features::of_braid());
        }
        Ok(Features::parse(&self.command(Command::Features).await?))
    }

    /// Sends a command without data transfer, and returns its reply, which may be an error reply.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason.
    ///
    /// # Cancel safety
    ///
    /// The command may have been sent.
    pub async fn command(&self, command: Command) -> Result<Reply> {
        let asked = self.begin_command(command).await?;
        self.reply(asked).await
    }

    /// The reply to a command sent by [`Self::begin_command`].
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason.
    pub async fn reply(&self, asked: oneshot::Receiver<Result<Reply>>) -> Result<Reply> {
        asked.await.unwrap_or_else(|_| Err(self.shared.why()))
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason.
    pub async fn begin_command(&self, command: Command) -> Result<oneshot::Receiver<Result<Reply>>> {
        let (answer, answered) = oneshot::channel();
        self.request(Request::Command { command, answer }).await?;
        Ok(answered)
    }

    /// While the result exists, the server may be silent longer than `--timeout`, by the time that reading
    /// this many bytes takes.
    pub(crate) fn have_patience(&self, bytes: u64) -> body::Patience {
        body::Patience::new(self.shared.activity.clone(), bytes)
    }

    /// Fetches a file into `sink`, from `offset` on. Returns when the engine has accepted the request, which
    /// it does when it has room.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason.
    pub async fn retrieve(&self, path: PathArg, offset: u64, sink: Sink) -> Result<UnderWay> {
        self.transfer(Transfer::Retrieve { path, offset }, Body::Sink(sink)).await
    }

    /// The same; the result is passed to `completion`.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason, which `completion` receives too.
    pub(crate) async fn retrieve_then(
        &self,
        path: PathArg,
        offset: u64,
        sink: Sink,
        completion: Box<dyn Completion>,
    ) -> Result<()> {
        self.transfer_then(Transfer::Retrieve { path, offset }, Body::Sink(sink), completion).await
    }

    /// braid: fetches the next of the first files of the tree whose listing was requested last, before the listing has named it.
    /// The result is the transfer, and the means to name it.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason.
    pub(crate) async fn retrieve_next(&self) -> Result<(UnderWay, Name)> {
        let (sink, name) = Sink::unnamed();
        Ok((self.transfer(Transfer::RetrieveNext, Body::Sink(sink)).await?, name))
    }

    /// Sends a file of `length` bytes from `offset` on, and passes the result to `completion`.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason, which `completion` receives too.
    pub(crate) async fn store_then(
        &self,
        path: PathArg,
        length: u64,
        source: Source,
        completion: Box<dyn Completion>,
    ) -> Result<()> {
        let offset = source.offset();
        let transfer = Transfer::Store { path, offset, length: length.saturating_sub(offset) };
        self.transfer_then(transfer, Body::Source(Box::new(source)), completion).await
    }

    /// Requests a listing, as bytes.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason.
    pub async fn list(&self, form: ListForm, path: Option<PathArg>) -> Result<(Queue, UnderWay)> {
        self.list_waiting(form, path, LISTING_QUEUE_BYTES).await
    }

    /// The same, with at most `waiting` unread bytes.
    ///
    /// # Errors
    ///
    /// The session has ended, with the reason.
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
        self.transfer_then(transfer, body, Box::new(answer)).await?;
        Ok(UnderWay { answer: answered, shared: self.shared.clone() })
    }

    async fn transfer_then(
        &self,
        transfer: Transfer,
        body: Body,
        completion: Box<dyn Completion>,
    ) -> Result<()> {
        let answer = Answer { to: Some(completion), shared: self.shared.clone() };
        self.request(Request::Transfer { transfer, body, answer }).await
    }

    async fn request(&self, request: Request) -> Result<()> {
        let place = self.requests.reserve().await.map_err(|_| self.shared.why())?;
        match put(&self.requests, place, request) {
            Taken::ByTheEngine => Ok(()),
            Taken::ByNobody => Err(self.shared.why()),
        }
    }

    /// The limits on what the client accepts from the server.
    pub fn bounds(&self) -> Bounds {
        self.shared.options.bounds
    }

    /// The mode of the session.
    pub fn mode(&self) -> Mode {
        self.shared.options.mode
    }

    /// Whether the login has succeeded.
    pub fn was_up(&self) -> bool {
        self.shared.logged_in.load(Ordering::Relaxed)
    }

    /// Returns a function that reports the network paths and what limits the throughput.
    pub fn probe(&self) -> impl Fn() -> Probe + Send + 'static {
        let shared = self.shared.clone();
        move || shared.probe()
    }

    /// The network paths now.
    pub fn paths(&self) -> Vec<PathSummary> {
        self.shared.gauge.paths()
    }

    /// Returns a function that reports the totals of connections, bytes and packets, also after this client
    /// was dropped.
    pub fn watch_totals(&self) -> impl Fn() -> Totals + Send + 'static {
        let gauge = self.shared.gauge.clone();
        move || gauge.totals()
    }

    /// Ends the session gracefully; waits for the end for a few seconds at most.
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

    /// Ends the session immediately. Transfers in progress end with `why`, and their bodies are returned so
    /// that the written bytes can be kept.
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

/// Whether the channel's receiver exists.
#[derive(Debug, PartialEq, Eq)]
enum Taken {
    ByTheEngine,
    ByNobody,
}

/// Puts a request into the channel. If the engine ended after the place was reserved, it has emptied the
/// channel before the request was added: the request would stay there as long as this handle, and the caller
/// would wait for its answer for ever.
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

/// The addresses of a URL's host, in the order in which they are tried: IPv4 first, because servers bound to
/// all IPv4 addresses and no IPv6 address are common, and SCTP over UDP detects late that nobody listens.
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
    async fn a_request_to_an_ended_engine_fails_immediately() {
        let (requests, engine) = mpsc::channel(2);
        let (early, late) = (requests.reserve().await.unwrap(), requests.reserve().await.unwrap());
        assert_eq!(put(&requests, early, 1), Taken::ByTheEngine);
        drop(engine);
        assert_eq!(put(&requests, late, 2), Taken::ByNobody);
    }

    #[derive(Debug)]
    struct Told(std::sync::mpsc::Sender<String>);

    impl Completion for Told {
        fn complete(self: Box<Self>, done: Done) {
            self.0.send(done.result.unwrap_err().why).unwrap();
        }
    }

    /// A client whose engine has ended with this reason.
    fn ended(why: &str) -> Client {
        let (requests, engine) = mpsc::channel(1);
        drop(engine);
        let shared = Shared {
            options: Options::new(Mode::Braid),
            host: None,
            activity: Arc::new(body::Activity::new()),
            ended: Mutex::new(Some(Error::new(Exit::Interrupted, "go on", why))),
            gauge: carrier::Gauge::default(),
            logged_in: AtomicBool::new(true),
            stop: watch::Sender::new(true),
            engine: Mutex::default(),
        };
        Client { requests, shared: Arc::new(shared), pool: None }
    }

    #[tokio::test]
    async fn a_completion_is_told_once_whatever_happens_to_its_transfer() {
        let client = ended("the cable is cut");
        let (told, hears) = std::sync::mpsc::channel();
        let (sink, _name) = Sink::unnamed();
        let path = PathArg::new(b"a".to_vec()).unwrap();
        let error = client.retrieve_then(path, 0, sink, Box::new(Told(told.clone()))).await.unwrap_err();
        assert_eq!(error.why, "the cable is cut");
        // An engine that panics drops what it holds.
        drop(Answer { to: Some(Box::new(Told(told.clone()))), shared: client.shared.clone() });
        let answer = Answer { to: Some(Box::new(Told(told))), shared: client.shared.clone() };
        let result = Err(Error::new(Exit::Refused, "fetch", "no"));
        answer.complete(Done { body: None, data: DataEnd::default(), result });
        assert_eq!(hears.iter().collect::<Vec<_>>(), ["the cable is cut", "the cable is cut", "no"]);
    }

    #[tokio::test]
    async fn a_request_that_comes_while_the_session_ends_is_answered() {
        let client = ended("the cable is cut");
        let (requests, mut engine) = mpsc::channel(1);
        let client = Client { requests, ..client };
        let place = client.requests.reserve().await.unwrap();
        let (told, hears) = std::sync::mpsc::channel();
        let why = Error::new(Exit::Interrupted, "go on", "stopped");
        let ((), ()) = tokio::join!(engine::refuse(&mut engine, &why), async {
            let answer = Answer { to: Some(Box::new(Told(told))), shared: client.shared.clone() };
            let (sink, _name) = Sink::unnamed();
            let (transfer, body) = (Transfer::RetrieveNext, Body::Sink(sink));
            place.send(Request::Transfer { transfer, body, answer });
        });
        assert_eq!(hears.try_iter().collect::<Vec<_>>(), ["stopped"]);
    }

    #[test]
    fn a_mode_that_the_scheme_excludes_is_refused_with_the_possible_ones() {
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
