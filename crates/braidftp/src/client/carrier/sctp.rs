//! FTP over SCTP: the association with the server, and how each mode transfers data besides its control
//! stream (specs/ftp-over-sctp.md §2 to §6).

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use braidftp_ftp::client::{Data, Tag};
use braidftp_ftp::mapping::frame::{BYTES_MAX, INITIAL_CREDIT};
use braidftp_ftp::mapping::{CONTROL_PORT, CONTROL_STREAM, DATA_PRIORITY, DATA_STREAMS_DEFAULT, Mode, ppid};
use braidftp_net::keys::rustls::{Error as TlsError, InvalidMessage};
use braidftp_net::keys::{KeyError, MessageError, Settings};
use braidftp_net::sctp::Violation;
use braidftp_net::sctp::dtls::Disagreement;
use braidftp_net::sctp::wire::Cause;
use braidftp_net::{
    AllowedPath, Association, Bind, Carrier, Config, Connect, Endpoint, Listener, Message, Order, Ppid,
    Reason, SendError, StreamId,
};
use bytes::BytesMut;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::framed::{CONTROL_BUFFER_BYTES, Framed, Senders};
use super::messages::{Lines, Out, joined, violation};
use super::stream1::Stream1;
use super::{Gauge, Note};
use crate::client::PathRule;
use crate::client::body::{Body, DataEnd, Pump, Sink, Source};
use crate::client::errors::lost;
use crate::client::{MultipathChoice, Options, Refusal, default_multipath, default_profile};
use crate::exit::{Again, Error, Exit, Result};
use crate::identity::{Peer, Trust, Verifier};
use crate::url::{Scheme, Url};

/// The first SCTP port that naive listens on for data.
const FIRST_DATA_PORT: u16 = 49_152;
/// How long naive waits for the server's data association. With 10 % loss, INITs 0, 1, 3, 7, 15 and 31 s
/// after the first are sometimes needed (RFC 9260 §5.1, T1-init).
const OPEN: Duration = Duration::from_secs(45);
/// The delay after which the next address of a name is tried concurrently (RFC 8305 §5).
const NEXT_ADDRESS: Duration = Duration::from_millis(250);
/// The time limit for shutting an association down when only the peer's shutdown is awaited.
const GOODBYE: Duration = Duration::from_secs(2);
/// The time limit for the last packet of the control association.
const LINGER: Duration = Duration::from_millis(50);

/// The number of INITs to each address of the server that must be refused because nobody listens, at
/// intervals below a quarter of a second: a server that is starting has half a second.
const REFUSED_INITS: u32 = 3;

/// The approximate number of bytes of command lines in one message.
const LINES_TOGETHER: usize = 4 << 10;

/// The association with the server, and its data paths.
#[derive(Debug)]
pub(crate) struct Sctp {
    pub(super) pump: Pump,
    pub(super) control: mpsc::UnboundedSender<Out>,
    pub(super) lines: Arc<Lines>,
    notes: mpsc::Sender<Note>,
    gauge: Gauge,
    endpoint: Endpoint,
    association: Association,
    was_up: Arc<AtomicBool>,
    url: Url,
    paths: Paths,
}

/// The silence after which the server is asked for an answer, while a reply is expected.
const ASK_AFTER: Duration = Duration::from_secs(2);

#[derive(Debug)]
enum Paths {
    Naive(Naive),
    Stream1(Stream1),
    Framed(Framed),
}

#[derive(Debug)]
struct Naive {
    config: Arc<Config>,
    next_port: u16,
    listening: BTreeMap<Tag, Listener>,
    busy: BTreeMap<Tag, oneshot::Sender<()>>,
}

impl Sctp {
    pub(super) async fn connect(
        url: &Url,
        options: &Options,
        pump: Pump,
        notes: mpsc::Sender<Note>,
        gauge: Gauge,
    ) -> Result<Self> {
        let mode = options.mode;
        let config = Arc::new(config(options));
        let (endpoint, candidates) = bind(url, options).await?;
        let trust = options.protection.of_association(mode);
        let trust = trust.map(|trust| Protected::towards(url, mode, trust)).transpose()?;
        let association = match &trust {
            None => associate(url, &endpoint, candidates, &config, None).await?,
            Some(trust) => {
                let within = tokio::time::timeout(
                    options.timeout,
                    protected(url, &endpoint, candidates, &config, trust),
                );
                within.await.map_err(|_| no_answer(url, options.timeout))??
            }
        };
        gauge.opened(&association);
        let was_up = Arc::new(AtomicBool::new(false));
        if mode == Mode::Braid {
            let (association, up) = (association.clone(), was_up.clone());
            tokio::spawn(check_streams(association, up, pump.clone(), notes.clone()));
        } else {
            association.up().await.map_err(|reason| cannot_connect(url, &reason))?;
            was_up.store(true, Ordering::Relaxed);
        }

        let (control, out) = mpsc::unbounded_channel();
        let lines = Arc::new(Lines::default());
        let mut readers = JoinSet::new();
        let paths = match mode {
            Mode::Naive | Mode::Tcp => Paths::Naive(Naive {
                config: config.clone(),
                next_port: FIRST_DATA_PORT,
                listening: BTreeMap::new(),
                busy: BTreeMap::new(),
            }),
            Mode::Ms | Mode::MsCp => Paths::Stream1(Stream1::new(&association, &pump, &notes)),
            Mode::Braid => {
                let writers = (&control, &lines);
                let framed =
                    Framed::new(&association, &pump, &notes, writers, &mut readers, DATA_STREAMS_DEFAULT);
                Paths::Framed(framed)
            }
        };
        tokio::spawn(write_control(association.clone(), out, mode, notes.clone(), lines.clone()));
        let credits = match &paths {
            Paths::Framed(framed) => Some(framed.senders()),
            _ => None,
        };
        let reading = read_control(association.clone(), credits, readers, notes.clone(), pump.stop.clone());
        tokio::spawn(reading);
        Ok(Self {
            pump,
            control,
            lines,
            notes,
            gauge,
            endpoint,
            association,
            was_up,
            url: url.clone(),
            paths,
        })
    }

    /// Tests a silent server with a HEARTBEAT: a restarted server answers with ABORT. Not in the modes of the
    /// papers, whose packets are compared.
    pub(super) fn probe_peer(&self) {
        if matches!(self.paths, Paths::Framed(_)) && self.association.silence() >= ASK_AFTER {
            self.association.probe_peer();
        }
    }

    /// Whether the server has ever answered.
    pub(super) fn was_up(&self) -> bool {
        self.was_up.load(Ordering::Relaxed)
    }

    pub(super) fn refuse(&self, tag: Tag) {
        let error = Error::new(Exit::Protocol, "open a data connection", "SCTP modes have none");
        self.tell(Note::DataFailed(tag, error));
    }

    fn tell(&self, note: Note) {
        let notes = self.notes.clone();
        tokio::spawn(async move {
            // Without an engine nobody needs the note.
            let _ = notes.send(note).await;
        });
    }

    /// naive: listens on the next free SCTP port.
    pub(super) fn listen(&mut self, tag: Tag) -> Result<SocketAddr> {
        let Paths::Naive(naive) = &mut self.paths else {
            return Err(Error::new(Exit::Protocol, "listen for data", "only naive does"));
        };
        let mut last = None;
        for _ in 0..64 {
            let port = naive.next_port;
            naive.next_port = port.checked_add(1).unwrap_or(FIRST_DATA_PORT);
            match self.endpoint.listen(port, naive.config.clone()) {
                Ok(listener) => {
                    naive.listening.insert(tag, listener);
                    let ip = self
                        .endpoint
                        .local_addrs()
                        .first()
                        .map_or(Ipv4Addr::UNSPECIFIED.into(), SocketAddr::ip);
                    return Ok(SocketAddr::new(ip, port));
                }
                Err(error) => last = Some(error.to_string()),
            }
        }
        Err(Error::new(Exit::Local, "listen for a data association", last.unwrap_or_default()))
    }

    pub(super) fn pump_data(&mut self, tag: Tag, data: Data, body: Body) {
        match (&mut self.paths, data) {
            (Paths::Naive(naive), Data::Association) => {
                let Some(listener) = naive.listening.remove(&tag) else {
                    let end = DataEnd { error: Some(lost("no data association")), ..DataEnd::default() };
                    self.tell(Note::DataDone(tag, body, end));
                    return;
                };
                naive.busy.retain(|_, cancel| !cancel.is_closed());
                let (cancel, cancelled) = oneshot::channel();
                naive.busy.insert(tag, cancel);
                let one = One {
                    control: self.association.clone(),
                    gauge: self.gauge.clone(),
                    pump: self.pump.clone(),
                };
                let notes = self.notes.clone();
                tokio::spawn(async move {
                    let (body, end) = one.run(listener, body, cancelled).await;
                    let _ = notes.send(Note::DataDone(tag, body, end)).await;
                });
            }
            (Paths::Stream1(stream), data @ (Data::Counted(_) | Data::Message)) => {
                stream.pump_data(tag, data, body)
            }
            (Paths::Framed(framed), Data::Framed(number)) => framed.pump_data(tag, number, body),
            (_, other) => {
                let error = Error::new(Exit::Protocol, "move data", format_args!("{other:?} in this mode"));
                let end = DataEnd { error: Some(error), ..DataEnd::default() };
                self.tell(Note::DataDone(tag, body, end));
            }
        }
    }

    pub(super) fn cancel(&mut self, tag: Tag) {
        match &mut self.paths {
            Paths::Naive(naive) => {
                naive.listening.remove(&tag);
                if let Some(cancel) = naive.busy.remove(&tag) {
                    let _ = cancel.send(());
                }
            }
            Paths::Stream1(stream) => stream.cancel(tag),
            Paths::Framed(framed) => framed.cancel(tag),
        }
    }

    pub(super) fn stop_data(&mut self) {
        match &mut self.paths {
            Paths::Naive(_) => {}
            Paths::Stream1(stream) => stream.stop(),
            Paths::Framed(framed) => framed.stop(),
        }
    }

    pub(super) fn why_lost(&self) -> Error {
        match self.association.reason() {
            Some(reason) if !self.was_up() => cannot_connect(&self.url, &reason),
            Some(reason) => lost(format_args!("the association ended: {reason}")),
            None => lost("the server ended the association"),
        }
    }

    /// The error of a server that has never answered.
    pub(super) fn never_answered(&self, silent: Duration) -> Error {
        no_answer(&self.url, silent)
    }

    pub(super) async fn close(self) {
        // An acknowledgement without news is not worth a round trip, nor a retransmission if it is lost.
        //= specs/ftp-over-sctp.md#section-2.3
        //# A client whose commands are all answered MAY end the session without QUIT, by the end of the association
        self.association.leave();
        let _ = tokio::time::timeout(LINGER, self.association.closed()).await;
        self.stop().await;
    }

    pub(super) async fn stop(self) {
        if self.association.reason().is_none() {
            self.association.abort("the client stops");
        }
        self.gauge.closed(&self.association);
        let endpoint = self.endpoint.clone();
        drop(self);
        let _ = tokio::time::timeout(GOODBYE, endpoint.close()).await;
    }
}

/// The parameters of the client's associations.
fn config(options: &Options) -> Config {
    let mut config = options.profile.unwrap_or(default_profile(options.mode)).config();
    if let Some(cc) = &options.cc {
        cc.apply(&mut config.congestion.control, &mut config.congestion.options);
    }
    let allowed = options.paths.iter().map(|rule| AllowedPath { local: rule.local, peer: rule.remote });
    config.paths.allowed = allowed.collect();
    options.multipath.unwrap_or(default_multipath(options.mode)).apply(&mut config);
    if options.paths.len() > 1 {
        MultipathChoice::watch_paths(&mut config);
    }
    if options.refusal == Refusal::Ends {
        config.handshake.refused_inits =
            Some(if config.handshake.init_interval.is_some() { REFUSED_INITS } else { 1 });
    }
    let streams = options.mode.streams(DATA_STREAMS_DEFAULT).unwrap_or(1);
    config.streams.outbound = streams;
    config.streams.inbound = streams;
    if options.mode == Mode::Braid {
        //= specs/ftp-over-sctp.md#section-6.6
        //# A receiver MUST offer an a_rwnd of at least N times 262,144 bytes plus 131,072
        let least = usize::from(DATA_STREAMS_DEFAULT) * INITIAL_CREDIT as usize + CONTROL_BUFFER_BYTES;
        config.memory.receive_buffer_bytes = config.memory.receive_buffer_bytes.max(least);
    }
    config
}

fn carrier(url: &Url) -> Carrier {
    if url.scheme == Scheme::FtpSctpIp { Carrier::Ip } else { Carrier::Udp }
}

/// Possible reasons why packets do not reach the server.
fn no_answer_hint(url: &Url) -> &'static str {
    match carrier(url) {
        Carrier::Udp | Carrier::InProcess => {
            "check that the server runs there and that no firewall drops its UDP port"
        }
        Carrier::Ip => {
            "check that a server serves ftp+sctp-ip:// there, and that nothing between drops IP protocol 132: \
             NAT and many firewalls do, and ftp+sctp:// goes through"
        }
    }
}

/// The local addresses, and the server's addresses grouped by host.
async fn bind(url: &Url, options: &Options) -> Result<(Endpoint, Vec<Vec<SocketAddr>>)> {
    let resolved = crate::client::resolve(url).await?;
    let allowed = |peer: &SocketAddr| {
        options.paths.is_empty()
            || options.paths.iter().any(|rule| {
                rule.local.is_ipv4() == peer.is_ipv4() && rule.remote.is_none_or(|remote| remote == peer.ip())
            })
    };
    // The addresses of a name may belong to several machines; those of `?addr=` belong to one.
    let mut candidates: Vec<Vec<SocketAddr>> = match url.addresses.is_empty() {
        true => resolved.iter().map(|peer| vec![*peer]).collect(),
        false => {
            let mut set: Vec<SocketAddr> = resolved.first().copied().into_iter().collect();
            set.extend(url.addresses.iter().filter(|more| Some(*more) != resolved.first()));
            vec![set]
        }
    };
    for set in &mut candidates {
        set.retain(allowed);
    }
    candidates.retain(|set| !set.is_empty());
    if candidates.is_empty() {
        return Err(Error::usage(
            format_args!("connect to {url}"),
            "no --path leads to any address of the server",
        )
        .hint("name a LOCAL address of the same family, and a REMOTE that the server has"));
    }
    let known: Vec<SocketAddr> = candidates.iter().flatten().copied().collect();
    options.paths.iter().try_for_each(|rule| check_path(rule, &known))?;
    let mut locals: Vec<IpAddr> = Vec::new();
    for rule in &options.paths {
        if !locals.contains(&rule.local) {
            locals.push(rule.local);
        }
    }
    if locals.is_empty() {
        if known.iter().any(SocketAddr::is_ipv4) {
            locals.push(Ipv4Addr::UNSPECIFIED.into());
        }
        if known.iter().any(SocketAddr::is_ipv6) {
            locals.push(Ipv6Addr::UNSPECIFIED.into());
        }
    }
    let mut bind = Bind::to(locals.into_iter().map(|ip| SocketAddr::new(ip, 0)));
    bind.carrier = carrier(url);
    bind.pcap = options.pcap.clone();
    bind.packet_log = options.packet_log.clone();
    bind.qlog = options.qlog.clone();
    bind.linger = GOODBYE;
    let endpoint = Endpoint::bind(bind.clone()).map_err(|error| match error {
        // The error is not about an address, and already contains a hint.
        braidftp_net::BindError::Address { error: ref why, .. }
            if bind.carrier == Carrier::Ip && why.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Error::new(Exit::Connect, format_args!("connect to {url}"), error)
        }
        braidftp_net::BindError::Address { .. } => Error::new(Exit::Usage, "open a socket", error)
            .hint("--path takes addresses of this machine (see `ip addr`)"),
        error => Error::new(Exit::Local, "open a socket", error),
    })?;
    Ok((endpoint, candidates))
}

/// Checks that a requested path leads to one of the server's addresses.
///
/// # Errors
///
/// The reason why it does not.
fn check_path(rule: &PathRule, known: &[SocketAddr]) -> Result<()> {
    if let Some(remote) = rule.remote.filter(|remote| !known.iter().any(|peer| peer.ip() == *remote)) {
        return Err(Error::usage(
            format_args!("use --path {rule}"),
            format_args!("{remote} is no address of the server that the URL names"),
        )
        .hint(format!("if it is, add ?addr={remote} to the URL")));
    }
    let leads = |peer: &&SocketAddr| {
        peer.is_ipv4() == rule.local.is_ipv4() && rule.remote.is_none_or(|remote| remote == peer.ip())
    };
    let mut failed = None;
    for peer in known.iter().filter(leads) {
        match route(rule.local, *peer) {
            Ok(()) => return Ok(()),
            Err(error) => failed = failed.or(Some((*peer, error))),
        }
    }
    let Some((peer, error)) = failed else {
        let family = if rule.local.is_ipv4() { "IPv4" } else { "IPv6" };
        return Err(Error::usage(
            format_args!("use --path {rule}"),
            format_args!("the server that the URL names has no {family} address"),
        )
        .hint("name another address of the server with ?addr=, or leave the path out"));
    };
    if error.kind() == std::io::ErrorKind::AddrNotAvailable {
        return Err(Error::usage(
            format_args!("use --path {rule}"),
            format_args!("{} is no address of this machine", rule.local),
        )
        .hint("`ip addr` lists those that are"));
    }
    Err(Error::new(
        Exit::Connect,
        format_args!("use --path {rule}"),
        format_args!("nothing leads from {} to {}: {error}", rule.local, peer.ip()),
    )
    .hint(format!("`ip route get {} from {}` prints the route", peer.ip(), rule.local)))
}

/// Whether the system would route packets from a local address to this peer. Nothing is sent.
fn route(local: IpAddr, peer: SocketAddr) -> std::io::Result<()> {
    std::net::UdpSocket::bind(SocketAddr::new(local, 0))?.connect(peer)
}

/// Opens the association: to the only set of addresses, without waiting, or to the first set that answers.
async fn associate(
    url: &Url,
    endpoint: &Endpoint,
    candidates: Vec<Vec<SocketAddr>>,
    config: &Arc<Config>,
    keys: Option<&Arc<Settings>>,
) -> Result<Association> {
    let connect = |peer: Vec<SocketAddr>| {
        let connect = Connect {
            local: vec![],
            peer,
            source_port: None,
            destination_port: if carrier(url) == Carrier::Ip { url.port } else { CONTROL_PORT },
            config: config.clone(),
        };
        match keys {
            Some(keys) => endpoint.connect_protected(connect, keys.clone()),
            None => endpoint.connect(connect),
        }
        .map_err(|error| Error::new(Exit::Connect, format_args!("connect to {url}"), error))
    };
    let alone = candidates.len() == 1;
    let mut tries = tokio::task::JoinSet::new();
    let mut last = None;
    let mut waiting = candidates.into_iter();
    loop {
        match waiting.next() {
            Some(peer) => match connect(peer) {
                Ok(association) if alone => return Ok(association),
                Ok(association) => {
                    tries.spawn(async move { association.up().await.map(|_| association) });
                }
                Err(error) => last = Some(error),
            },
            None if tries.is_empty() => break,
            None => {}
        }
        let more = !waiting.as_slice().is_empty();
        tokio::select! {
            Some(done) = tries.join_next() => match done {
                Ok(Ok(association)) => return Ok(association),
                Ok(Err(reason)) => last = Some(cannot_connect(url, &reason)),
                Err(_) => {}
            },
            () = tokio::time::sleep(NEXT_ADDRESS), if more => {}
        }
    }
    Err(last.unwrap_or_else(|| cannot_connect(url, &Reason::NoAnswer)))
}

/// The expected server of a protected association.
struct Protected {
    verifier: Verifier,
    keys: Arc<Settings>,
}

impl Protected {
    fn towards(url: &Url, mode: Mode, trust: &Arc<Trust>) -> Result<Self> {
        if mode == Mode::Naive {
            return Err(Error::usage(
                "protect --mode naive",
                "it transfers each file in a separate association, which the server opens",
            )
            .hint("use --mode braid, ms or ms-cp, or --plain"));
        }
        let verifier = trust.verifier_tls13(Peer::new(&url.host.to_string(), url.port), &[])?;
        let keys = Arc::new(Settings::client(Arc::new(verifier.config()), verifier.name()));
        Ok(Self { verifier, keys })
    }
}

/// Opens an association and verifies the server before any data is sent to it.
async fn protected(
    url: &Url,
    endpoint: &Endpoint,
    candidates: Vec<Vec<SocketAddr>>,
    config: &Arc<Config>,
    trust: &Protected,
) -> Result<Association> {
    // The reason for distrust takes precedence over the reason why the association ended.
    let in_words = |error: Error| match trust.verifier.refusal() {
        Some(_) => trust.verifier.explain(&TlsError::HandshakeNotComplete),
        None => error,
    };
    let association =
        associate(url, endpoint, candidates, config, Some(&trust.keys)).await.map_err(in_words)?;
    match association.up().await {
        Ok(_) => {}
        Err(reason) => {
            return Err(match association.key_error() {
                Some(KeyError::Tls(error)) => trust.verifier.explain(&error),
                Some(KeyError::Message(MessageError::TooLong)) => {
                    trust.verifier.explain(&InvalidMessage::HandshakePayloadTooLarge.into())
                }
                Some(KeyError::Timeout) | None => in_words(cannot_connect(url, &reason)),
                Some(error) => in_words(no_keys(trust, &error)),
            });
        }
    }
    trust.verifier.settle(association.peer_certificates().as_deref())?;
    Ok(association)
}

/// The error of a key exchange that failed because of the server or an attacker on the path.
fn no_keys(trust: &Protected, error: &KeyError) -> Error {
    let what = format!("set up protection with {}", trust.verifier.peer());
    Error::new(Exit::Trust, what, error).hint(
        "try again, and see the server's log; if the error persists, the data may be modified on the network",
    )
}

fn no_answer(url: &Url, silent: Duration) -> Error {
    Error::new(
        Exit::Connect,
        format_args!("connect to {url}"),
        format_args!("no answer within {:.0} s", silent.as_secs_f64()),
    )
    .hint(no_answer_hint(url))
}

fn cannot_connect(url: &Url, reason: &Reason) -> Error {
    match reason {
        Reason::PeerAborted(causes) if causes.contains(&Cause::MissingDtlsSupport) => {
            return Error::new(
                Exit::Trust,
                format_args!("connect to {url}"),
                "the server accepts only protected associations, and this one is not protected",
            )
            .hint("leave out --plain; for --mode ms and ms-cp use --protect; or let the server permit it with --allow-plain");
        }
        Reason::PeerViolation(Violation::Dtls(Disagreement::NotOffered)) => {
            return Error::new(
                Exit::Trust,
                format_args!("connect to {url}"),
                "the server offers no protection, or an attacker on the network has removed the offer",
            )
            .hint("--plain connects without protection: everything can be read on the network, and the server is not authenticated");
        }
        _ => {}
    }
    let hint = match reason {
        Reason::PeerAborted(causes) if causes.is_empty() => {
            "SCTP answers there, but nobody listens for FTP: check the port, or try again if the server is just stopping"
        }
        Reason::PeerAborted(_) => {
            "the port is right, but the server there does not serve FTP over SCTP, or is full"
        }
        Reason::Refused => {
            "check the port, and that `braidftp serve` runs there: its port is UDP 9899 unless --listen says otherwise"
        }
        _ => no_answer_hint(url),
    };
    Error::new(Exit::Connect, format_args!("connect to {url}"), reason).hint(hint)
}

/// Waits until an association of braid is established, and ends it if the server opens too few streams. Lines and credit are then sent
/// before data.
async fn check_streams(
    association: Association,
    was_up: Arc<AtomicBool>,
    pump: Pump,
    notes: mpsc::Sender<Note>,
) {
    // The control reader reports an association that is never established.
    let Ok(streams) = association.up().await else { return };
    was_up.store(true, Ordering::Relaxed);
    pump.activity.heard();
    if streams.outbound_streams < 3 || streams.inbound_streams < 3 {
        //= specs/ftp-over-sctp.md#section-2.2
        //# a client that requested braid and gets fewer than 3 streams in either direction MUST abort the association
        association.abort("braid needs 3 streams");
        let error = Error::new(Exit::Protocol, "use --mode braid", "the server opens too few streams")
            .hint("--mode ms-cp needs two streams only");
        let _ = notes.send(Note::Fatal(error)).await;
        return;
    }
    for stream in 1..streams.outbound_streams {
        let _ = association.set_stream_value(StreamId(stream), DATA_PRIORITY);
    }
}

/// Passes on the input of the control stream: replies, and in braid (with `credits`) the server's credit.
/// Ends with the stream, after a violation, or when stopped. The end by a shutdown is reported after `readers`: data that
/// arrived before it is read first.
async fn read_control(
    association: Association,
    credits: Option<Senders>,
    mut readers: JoinSet<()>,
    notes: mpsc::Sender<Note>,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        let piece = tokio::select! {
            piece = association.recv(StreamId(CONTROL_STREAM)) => piece,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let note = match piece {
            Ok(Some(piece)) => match (piece.ppid.0, &credits) {
                (ppid::CREDIT, Some(credits)) => match credits.on_credit(&joined(&piece)) {
                    Ok(()) => continue,
                    Err(error) => Note::Fatal(violation(&association, &error)),
                },
                (ppid::LINES, Some(_)) | (_, None) => Note::Control(joined(&piece)),
                (other, Some(_)) => {
                    let error = format!("a message with PPID {other:#010x} on the control stream");
                    Note::Fatal(violation(&association, &error))
                }
            },
            // An association that was lost is reported at once: the job opens another.
            Err(_) => Note::Closed,
            Ok(None) => {
                tokio::select! {
                    () = async { while readers.join_next().await.is_some() {} } => {}
                    _ = stop.wait_for(|stop| *stop) => break,
                }
                Note::Closed
            }
        };
        let over = !matches!(note, Note::Control(_));
        if notes.send(note).await.is_err() || over {
            break;
        }
    }
    // They return what they hold, so that a file is kept for resuming.
    readers.detach_all();
}

async fn write_control(
    association: Association,
    mut out: mpsc::UnboundedReceiver<Out>,
    mode: Mode,
    notes: mpsc::Sender<Note>,
    lines: Arc<Lines>,
) {
    let lines_ppid = if mode == Mode::Braid { ppid::LINES } else { ppid::PLAIN };
    let mut behind = None;
    loop {
        let mut blocks = 0;
        let next = match behind.take() {
            Some(next) => Some(next),
            None => out.recv().await,
        };
        let message = match next {
            None => return,
            // Waiting lines are sent in one message; the modes of the papers send one message each.
            Some(Out::Lines(bytes)) if mode == Mode::Braid => {
                blocks = 1;
                let mut together = BytesMut::from(bytes);
                while together.len() < LINES_TOGETHER && behind.is_none() {
                    match out.try_recv() {
                        Ok(Out::Lines(more)) => {
                            blocks += 1;
                            together.extend_from_slice(&more);
                        }
                        Ok(other) => behind = Some(other),
                        Err(_) => break,
                    }
                }
                Message::new(Ppid(lines_ppid), together.freeze())
            }
            Some(Out::Lines(bytes)) => Message::new(Ppid(lines_ppid), bytes),
            Some(Out::Credit(credit)) => {
                Message { order: Order::Unordered, ..Message::new(Ppid(ppid::CREDIT), credit.encode()) }
            }
        };
        match association.send(StreamId(CONTROL_STREAM), message).await {
            Ok(()) => lines.accepted(blocks),
            // The reader of the control stream reports the end.
            Err(SendError::ShuttingDown | SendError::Closed(_)) => return,
            Err(_) => {
                let _ = notes.send(Note::Closed).await;
                return;
            }
        }
    }
}

/// One data association of naive, from accept to end.
struct One {
    control: Association,
    gauge: Gauge,
    pump: Pump,
}

impl One {
    async fn run(
        self,
        listener: Listener,
        mut body: Body,
        mut cancelled: oneshot::Receiver<()>,
    ) -> (Body, DataEnd) {
        let mut end = DataEnd::default();
        let mut stop = self.pump.stop.clone();
        let mut association = None;
        let result = tokio::select! {
            result = self.transfer(listener, &mut body, &mut end.bytes, &mut association) => result,
            _ = &mut cancelled => Err(lost("given up")),
            _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
        };
        if let Body::Source(source) = &mut body {
            source.close();
        }
        if let Some(association) = association {
            if result.is_err() {
                association.abort("given up");
            }
            let gauge = self.gauge;
            tokio::spawn(async move {
                // Includes the last packets of the shutdown.
                let _ = tokio::time::timeout(GOODBYE, association.shutdown()).await;
                gauge.closed(&association);
            });
        }
        end.error = result.err();
        (body, end)
    }

    async fn transfer(
        &self,
        listener: Listener,
        body: &mut Body,
        moved: &mut u64,
        opened: &mut Option<Association>,
    ) -> Result<()> {
        let open = || {
            let why = format_args!("none came within {} s", OPEN.as_secs());
            let error = Error::new(Exit::Refused, "open a data association", why)
                .hint("--mode ms needs no second association");
            Error { again: Again::Worthwhile, ..error }
        };
        let association = tokio::time::timeout(OPEN, self.accept(&listener)).await.map_err(|_| open())?;
        let association = association.ok_or_else(|| lost("the endpoint is closed"))?;
        drop(listener);
        self.pump.activity.heard();
        self.gauge.opened(&association);
        *opened = Some(association.clone());
        match body {
            Body::Sink(sink) => receive(&association, sink, &self.pump, moved).await,
            Body::Source(source) => send(&association, source, &self.pump, moved).await,
        }
    }

    async fn accept(&self, listener: &Listener) -> Option<Association> {
        loop {
            let association = listener.accept().await?;
            //= specs/ftp-over-sctp.md#section-3.1
            //# The client MUST accept a data association only from an address of the control association's peer, and one for each transfer.
            let ours = self.control.stats().paths;
            match association.peer_addr() {
                Some(peer) if ours.iter().any(|path| path.peer.ip() == peer.ip()) => {
                    return Some(association);
                }
                _ => association.abort("not from the control association's peer"),
            }
        }
    }
}

async fn receive(association: &Association, sink: &mut Sink, pump: &Pump, moved: &mut u64) -> Result<()> {
    loop {
        let piece =
            association.recv(StreamId(0)).await.map_err(|reason| lost(format_args!("data: {reason}")))?;
        let Some(piece) = piece else { return Ok(()) };
        for bytes in piece.payload {
            *moved += bytes.len() as u64;
            sink.write(pump, bytes).await?;
        }
    }
}

async fn send(association: &Association, source: &mut Source, pump: &Pump, moved: &mut u64) -> Result<()> {
    source.open().await?;
    while let Some(mut block) = source.next(pump).await? {
        while !block.is_empty() {
            let part = block.split_to(block.len().min(BYTES_MAX));
            let length = part.len() as u64;
            let sent = association.send(StreamId(0), Message::new(Ppid(ppid::PLAIN), part)).await;
            sent.map_err(|error| lost(format_args!("data: {error}")))?;
            *moved += length;
            source.sent(pump, length);
        }
    }
    match association.shutdown().await {
        Reason::Shutdown => Ok(()),
        reason => Err(lost(format_args!("data: {reason}"))),
    }
}
