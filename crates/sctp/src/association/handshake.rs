//! How an association begins (RFC 9260 §5): INIT to COOKIE ACK as the side that asks, the valid cookie as the side that
//! is asked, and what a cookie does to an association that exists (§5.2.4).

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use bytes::{Bytes, BytesMut};
use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

use crate::association::asconf::Addresses;
use crate::association::auth::{self, Authentication, KeyVectors, RANDOM_LEN};
use crate::association::ecn::EcnState;
use crate::association::multipath::{Coupled, by_the_literature};
use crate::association::pairing::{in_scope, pair_up, reaches, to_list};
use crate::association::partial::Forward;
use crate::association::path::{Path, backed_off};
use crate::association::reassembly::Reassembly;
use crate::association::receive_buffer::ReceiveBuffer;
use crate::association::received::{Haste, Received};
use crate::association::reset::Reconfiguration;
use crate::association::send_queue::SendQueue;
use crate::association::sent::{Report, Sent};
use crate::association::shutdown::Farewell;
use crate::association::state::{Control, Shutdown, State, Up, Window, quotable};
use crate::association::timers::{Timer, Timers};
use crate::association::{Association, Event, Reason, Violation};
use crate::config::{A_RWND_MIN, Config, MultipathWith};
use crate::cookie::{MAX_ADDRESSES, Opened};
use crate::endpoint::{Route, Setup};
use crate::extensions::Extensions;
use crate::ids::{AssociationId, PathId, Tsn, VerificationTag};
use crate::stats::PathState;
use crate::wire::{Auth, Cause, Chunk, Header, Init, PacketBuilder, Parameter};

/// By how much more than a round trip a cookie is to live longer, once one was stale.
const RENEWAL_GRACE: Duration = Duration::from_millis(500);

/// The type of the parameter that numbers a repeated INIT. IANA has not assigned it. Its two high bits make a receiver that
/// does not know it skip and report it (RFC 9260 §3.2.1), so that the INIT ACK names the INIT that it answers.
const INIT_NUMBER: u16 = 0xFFA5;
/// How many times COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK is sent with the wait of a tail loss probe, before T1-cookie or T2
/// follows the RTO.
const CONTROL_PROBES: u32 = 4;
/// One INIT in so many is not numbered, for peers that discard an INIT with a parameter that they do not know.
const PLAIN_INIT_EVERY: u32 = 8;
/// The least time between two retransmissions of the first flight, where the round trip is shorter.
const FIRST_FLIGHT_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// What a cookie that was found stale leaves to the INIT that asks for another (RFC 9260 §5.2.6).
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// When COOKIE ECHO left last.
    pub(super) cookie_sent_at: Option<Time>,
    /// By how much the next cookie is to live longer, once one was stale.
    extension: Option<Duration>,
    /// What rode with the stale cookie and was dropped with it.
    rode: Option<Sent>,
}

/// What the peer said of itself.
#[derive(Debug, Clone, Copy)]
struct Peer {
    tag: VerificationTag,
    initial_tsn: Tsn,
    a_rwnd: u32,
    /// What both sides support.
    extensions: Extensions,
    /// What its user says of itself.
    adaptation: Option<u32>,
}

impl Peer {
    /// As the peer says of itself in its INIT ACK, to whom this much was `offered`.
    fn of_init_ack(init_ack: &Init, offered: Extensions) -> Self {
        Self {
            //= specs/rfc9260.txt#section-3.3.3
            //# This value MUST be placed into the Verification Tag field of every
            //# SCTP packet that the receiver of the INIT ACK chunk transmits within
            //# this association.
            tag: init_ack.initiate_tag,
            initial_tsn: init_ack.initial_tsn,
            a_rwnd: init_ack.a_rwnd,
            extensions: offered.and(Extensions::listed(init_ack)),
            //= specs/rfc5061.txt#section-4.2.6
            //# This parameter SHOULD NOT be examined by the receiving SCTP
            //# implementation and should be passed opaquely to the upper-layer
            //# protocol.
            //= specs/rfc5061.txt#section-4.2.6
            //# The Adaptation Layer Indication parameter may appear in INIT or
            //# INIT- ACK chunk and SHOULD be passed to the receiver's upper-layer
            //# protocol based upon the upper-layer protocol configuration of the
            //# SCTP stack.
            //= specs/rfc5061.txt#section-6
            //# This parameter SHOULD be opaque to the SCTP protocol (see Section
            //# 4.2.6), and so changes to the parameter will likely not affect the
            //# SCTP protocol.
            adaptation: init_ack.adaptation(),
        }
    }
}

/// What an INIT ACK that can be accepted brings, beside what makes a [`Peer`].
struct Answer {
    cookie: Bytes,
    /// The peer's, if both sides authenticate.
    key_vector: Option<Bytes>,
}

/// Why an INIT ACK sets up no association.
enum Refusal {
    /// It has no tag by which to answer.
    NoTag,
    /// Its window is smaller than any peer's may be.
    SmallWindow,
    /// Its sender would have addresses change and cannot prove that it is who asks for it.
    AsconfWithoutAuth,
    /// Anything else, which the peer is told.
    Violation(Violation),
}

/// What a new association is made of, beside a cookie, when the peer started it.
pub(crate) struct Passive {
    /// How to behave.
    pub(crate) config: Arc<Config>,
    /// Local addresses, the one that the INIT came to among them.
    pub(crate) local: Vec<SocketAddr>,
    /// For the nonces of HEARTBEAT and whatever else must not be guessed.
    pub(crate) seed: [u8; 32],
}

/// What this side makes an association of.
struct Own {
    config: Arc<Config>,
    ports: (u16, u16),
    /// The local addresses.
    local: Vec<SocketAddr>,
    tag: VerificationTag,
    initial_tsn: Tsn,
    seed: [u8; 32],
}

impl Association {
    /// Begins the handshake: INIT comes out of `poll`.
    pub(crate) fn connect(now: Time, id: AssociationId, setup: Setup) -> Self {
        let paths = paths_of(pair_up(&setup.local, &setup.peer, None, &setup.config), &setup.config);
        // The peer is not told of an address that is not to be used.
        let allowed = &setup.config.allowed_paths;
        let may_be_used =
            |local: &SocketAddr| allowed.is_empty() || allowed.iter().any(|path| path.local == local.ip());
        let local = setup.local.into_iter().filter(may_be_used).collect();
        let own = Own {
            config: setup.config,
            ports: (setup.local_port, setup.peer_port),
            local,
            tag: setup.tag,
            initial_tsn: setup.initial_tsn,
            seed: setup.seed,
        };
        let mut association = Self::new(id, own, paths);
        if association.config.auth.is_some() {
            association.rng.fill_bytes(&mut association.auth_random);
        }
        association.state = State::cookie_wait(true);
        association.arm_t1(now, 0);
        association
    }

    /// A COOKIE ECHO came: up. `handle` then sees its whole packet.
    pub(crate) fn accept(now: Time, id: AssociationId, opened: &Opened, setup: Passive) -> Self {
        let Passive { config, local, seed } = setup;
        let ports = (opened.local_port, opened.peer_port);
        let paths = paths_of(routes(opened, &local, &config), &config);
        let initial_tsn = opened.local_initial_tsn;
        let own = Own { config, ports, local, tag: opened.local_tag, initial_tsn, seed };
        let admitted = own.config.unadmitted_receive_buffer_bytes.is_none();
        let mut association = Self { admitted, ..Self::new(id, own, paths) };
        association.events.push_back(Event::Accepted);
        association.up_from_cookie(now, opened);
        association
    }

    /// The peer restarted (RFC 9260 §5.2.4 A): all begins again, under the same name.
    pub(crate) fn restart(&mut self, now: Time, opened: &Opened) {
        let mut seed = [0; 32];
        self.rng.fill_bytes(&mut seed);
        //= specs/rfc9260.txt#section-5.2.4
        //# All the congestion control parameters (e.g., cwnd, ssthresh)
        //# related to this peer MUST be reset to their initial values (see
        //# Section 6.2.1).
        let local = std::mem::take(&mut self.local);
        let paths = paths_of(routes(opened, &local, &self.config), &self.config);
        let own = Own {
            config: Arc::clone(&self.config),
            ports: (opened.local_port, opened.peer_port),
            local,
            tag: opened.local_tag,
            initial_tsn: opened.local_initial_tsn,
            seed,
        };
        let (events, queue) = (std::mem::take(&mut self.events), self.queue.emptied());
        let (admitted, memory_limit) = (self.admitted, self.memory_limit);
        let mut auth = Authentication::new(&self.config);
        auth.keep_keys(&mut self.auth);
        *self = Self { auth, admitted, memory_limit, ..Self::new(self.id, own, paths) };
        (self.events, self.queue) = (events, queue);
        //= specs/rfc9260.txt#section-5.2.4
        //# A RESTART notification SHOULD be sent to the ULP instead of a
        //# COMMUNICATION LOST notification.
        self.events.push_back(Event::Restarted);
        self.up_from_cookie(now, opened);
    }

    /// A cookie of this very association came, for the first time or again, or one with a new tag of a peer that asked
    /// at the same time (RFC 9260 §5.2.4 B, D).
    pub(crate) fn confirm(&mut self, now: Time, opened: &Opened) {
        match &mut self.state {
            State::CookieWait { .. } => {
                self.repath(routes(opened, &self.local, &self.config));
                self.up_from_cookie(now, opened);
            }
            //= specs/rfc9260.txt#section-5.2.4
            //# When both local and remote tags match, the endpoint SHOULD enter the
            //# ESTABLISHED state if it is in the COOKIE-ECHOED state.
            //= specs/rfc9260.txt#section-5.2.4
            //# It SHOULD stop any T1-cookie timer that is running and send a COOKIE
            //# ACK chunk.
            State::CookieEchoed { up, .. } if up.peer_tag == opened.peer_tag => {
                up.control.cookie_ack = Some(PathId(0));
                self.established(now);
            }
            // What rode with COOKIE ECHO was for a peer that has forgotten it; its messages are still ours to send.
            State::CookieEchoed { .. } => self.up_from_cookie(now, opened),
            State::Up(up) if up.peer_tag == opened.peer_tag => {
                up.control.cookie_ack = Some(PathId(0));
                self.repair_first_flight(now);
            }
            //= specs/rfc9260.txt#section-5.2.4
            //# The endpoint SHOULD stay in or enter the ESTABLISHED state, but it
            //# MUST update its peer's Verification Tag from the State Cookie, stop
            //# any T1-init or T1-cookie timers that might be running, and send a
            //# COOKIE ACK chunk.
            // With its tag the peer forgot what it had received and where its TSNs were: it restarted during the handshake.
            State::Up(_) => self.restart(now, opened),
            State::Closed(_) => {}
        }
        self.stirred = true;
    }

    fn new(id: AssociationId, own: Own, paths: Vec<Path>) -> Self {
        let config = own.config;
        Self {
            id,
            local_port: own.ports.0,
            peer_port: own.ports.1,
            local: own.local,
            tag: own.tag,
            initial_tsn: own.initial_tsn,
            rng: ChaCha12Rng::from_seed(own.seed),
            state: State::cookie_wait(false),
            shutdown: Shutdown::No,
            timers: Timers::new(paths.len()),
            paths,
            queue: SendQueue::new(config.scheduler),
            inbound: Reassembly::new(Tsn(0), config.receive_buffer_bytes),
            buffer: ReceiveBuffer::new(&config),
            outbound_streams: config.outbound_streams,
            inbound_streams: config.inbound_streams,
            events: std::collections::VecDeque::new(),
            farewell: None,
            renewal: Renewal::default(),
            builder: PacketBuilder::new(),
            auth: Authentication::new(&config),
            auth_random: [0; RANDOM_LEN],
            moved: false,
            admitted: true,
            memory_limit: usize::MAX,
            burst: 0,
            new_data_alone: false,
            stirred: true,
            draining_bytes: 0,
            writable_at: None,
            messages_sent: 0,
            messages_received: 0,
            abandoned_unsent: 0,
            abandoned_sent: 0,
            duplicates: 0,
            overruns: 0,
            config,
        }
    }

    /// Waits for the answer to an INIT or COOKIE ECHO that leaves for the `retry`-th time.
    //= specs/rfc9260.txt#section-5.1
    //# If the
    //# application provided multiple IP addresses of the peer, there
    //# SHOULD be a T1-init and T1-cookie timer for each address of the
    //# peer.
    // One address is tried after the other: one timer runs at a time, for as long as the RTO of its address says.
    fn arm_t1(&mut self, now: Time, retry: u32) {
        let wait = self.t1_wait(now, retry).unwrap_or_else(|| {
            let path = self.handshake_path(retry);
            self.paths[usize::from(path.0)].rtt.rto()
        });
        self.timers.arm(Timer::T1, now + wait);
    }

    /// How long T1 runs where it does not follow the RTO: for INIT as [`Config::init_interval`] says, for COOKIE ECHO as
    /// [`Association::control_wait`] does.
    fn t1_wait(&self, now: Time, retry: u32) -> Option<Duration> {
        match &self.state {
            State::CookieWait { sent_at, .. } => {
                let elapsed = sent_at.first().map_or(Duration::ZERO, |first| now.since(*first));
                self.config.init_interval.map(|interval| interval.max(elapsed / 4))
            }
            State::CookieEchoed { .. } => self.control_wait(PathId(0), retry),
            _ => None,
        }
    }

    /// How long COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK waits for its answer after `retry` repetitions: the first few times as
    /// long as a tail loss probe would. `None`: T1-cookie and T2 follow the RTO.
    pub(super) fn control_wait(&self, path: PathId, retry: u32) -> Option<Duration> {
        if retry >= self.control_probes() {
            return None;
        }
        Some(self.paths[usize::from(path.0)].two_round_trips()? * backed_off(retry))
    }

    /// How many times COOKIE ECHO, SHUTDOWN or SHUTDOWN ACK is sent before its timer follows the RTO.
    pub(super) fn control_probes(&self) -> u32 {
        if self.config.tail_loss_probe { CONTROL_PROBES } else { 0 }
    }

    /// The INIT to send after `retry` repetitions. A repetition carries [`INIT_NUMBER`], but for one in [`PLAIN_INIT_EVERY`].
    pub(super) fn init_to_send(&self, retry: u32) -> Init {
        let mut init = self.init();
        if self.config.init_interval.is_some() && !retry.is_multiple_of(PLAIN_INIT_EVERY) {
            init.parameters.push(Parameter::Unknown { kind: INIT_NUMBER, raw: init_number_parameter(retry) });
        }
        init
    }

    /// Takes the round trip from the INIT to its INIT ACK, which came by `path`.
    fn measure_init(&mut self, now: Time, path: PathId, init_ack: &Init) {
        let State::CookieWait { retry, sent_at, .. } = &self.state else { return };
        if !self.config.measure_handshake {
            return;
        }
        let reports = |number: &u32| {
            let raw = init_number_parameter(*number);
            init_ack.parameters.iter().any(|p| matches!(p, Parameter::Unrecognized(report) if *report == raw))
        };
        let number = (1..=*retry).find(reports);
        let Some(first) = sent_at.first() else { return };
        let takes_bound = self.config.init_interval.is_some();
        // Only a repeated INIT is sent to another address than the first.
        let path = if takes_bound { path } else { PathId(0) };
        let path = &mut self.paths[usize::from(path.0)];
        match number.and_then(|number| sent_at.get(number as usize)) {
            Some(sent_at) => path.measure(now, now.since(*sent_at)),
            // An INIT that was sent once measures the round trip like any DATA chunk (§6.3.1).
            None if *retry == 0 => path.measure(now, now.since(*first)),
            // Karn's algorithm (§6.3.1 C5): an upper bound at best.
            // It is exact if the first INIT is answered by a peer that reports parameters.
            None if takes_bound => path.rtt.on_upper_bound(now.since(*first).min(self.config.rto.initial)),
            None => {}
        }
    }

    /// The INIT that this side sends.
    pub(super) fn init(&self) -> Init {
        Init {
            //= specs/rfc9260.txt#section-5.1
            //# In the INIT chunk, "A" MUST provide its Verification Tag (Tag_A) in
            //# the Initiate Tag field.
            initiate_tag: self.tag,
            a_rwnd: u32::try_from(self.config.receive_buffer_bytes).unwrap_or(u32::MAX),
            //= specs/rfc9260.txt#section-5.1.1
            //# In the INIT and INIT ACK chunks, the sender of the chunk MUST
            //# indicate the number of outbound streams (OS) it wishes to have in the
            //# association, as well as the maximum inbound streams (MIS) it will
            //# accept from the other endpoint.
            outbound_streams: self.config.outbound_streams,
            inbound_streams: self.config.inbound_streams,
            initial_tsn: self.initial_tsn,
            //= specs/rfc9260.txt#section-3.3.2
            //# Unless otherwise noted, each parameter MUST only be included once in
            //# the INIT chunk.
            //= specs/rfc9260.txt#section-3.3.2
            //# An INIT chunk MUST NOT contain the Host Name Address parameter.
            //= specs/rfc9260.txt#section-3.3.2.1.4
            //# The sender of an INIT chunk or INIT ACK chunk MUST NOT include this
            //# parameter.
            parameters: {
                let addresses = self.listed_addresses().into_iter().map(Parameter::Address);
                let adaptation = self.config.adaptation.map(Parameter::Adaptation);
                let extensions = self.offered().parameters();
                let auth = auth::parameters(&self.config, &self.auth_random);
                let longer = self.renewal.extension.map(|extension| {
                    Parameter::CookiePreservative(u32::try_from(extension.as_millis()).unwrap_or(u32::MAX))
                });
                addresses.chain(longer).chain(adaptation).chain(extensions).chain(auth).collect()
            },
        }
    }

    /// The local addresses to list in INIT, or in the INIT ACK to the INIT of a peer that asked at the same time. One
    /// address needs no parameter, and some stacks answer no INIT that has any.
    pub(crate) fn listed_addresses(&self) -> Vec<IpAddr> {
        to_list(&self.local, self.paths[0].peer.ip())
    }

    /// The paths to a peer that was asked by `path` and has answered from `from`.
    fn routes_to(&self, path: PathId, from: SocketAddr, init_ack: &Init) -> Vec<Route> {
        let first = self.paths[usize::from(path.0)].route();
        //= specs/rfc9260.txt#section-5.1.2
        //# If there are no address parameters present in the received INIT
        //# or INIT ACK chunk, the endpoint MUST take the source IP address
        //# from which the chunk arrives and record it, in combination with
        //# the SCTP Source Port Number, as the only destination transport
        //# address for this peer.
        //= specs/rfc9260.txt#section-3.3.3
        //# If the INIT ACK chunk does not contain any IP Address parameters, the
        //# receiver of the INIT ACK chunk MUST use the source address associated
        //# with the received IP datagram as its sole destination address for the
        //# association.
        let mut peer = vec![first.peer];
        //= specs/rfc9260.txt#section-5.1.2
        //# If there are only IPv4/IPv6 addresses present in the received
        //# INIT or INIT ACK chunk, the receiver MUST derive and record all
        //# the transport addresses from the received chunk AND the source IP
        //# address that sent the INIT or INIT ACK chunk.
        let all = std::iter::once(from.ip()).chain(init_ack.addresses());
        for ip in all.filter(|ip| reaches(*ip, first.peer.ip())) {
            // The encapsulation port is that which the user gave, or that of the address that answered.
            let known = self.paths.iter().map(|path| path.peer).find(|peer| peer.ip() == ip);
            if peer.len() <= MAX_ADDRESSES && peer.iter().all(|other| other.ip() != ip) {
                peer.push(known.unwrap_or(SocketAddr::new(ip, first.peer.port())));
            }
        }
        //= specs/rfc9260.txt#section-5.1.2
        //# The receiver SHOULD use only these transport addresses as destination
        //# transport addresses when sending subsequent packets to its peer.
        let local = in_scope(self.local.iter().copied(), first.peer.ip());
        pair_up(&local, &peer, Some(first), &self.config)
    }

    /// Before the peer is known: what its addresses were thought to be is replaced by what it says. The first of
    /// `routes` is that of the handshake, the initial primary path.
    fn repath(&mut self, routes: Vec<Route>) {
        let mut before = std::mem::take(&mut self.paths);
        self.timers = Timers::new(routes.len());
        self.paths = paths_of(routes, &self.config);
        for path in &mut self.paths {
            if let Some(index) = before.iter().position(|old| old.route() == path.route()) {
                let state = path.state;
                *path = before.swap_remove(index);
                path.state = state;
            }
        }
    }

    /// It came from `from`, by `path` if that is the address of one.
    pub(super) fn on_init_ack(&mut self, now: Time, path: PathId, from: SocketAddr, init_ack: &Init) {
        //= specs/rfc9260.txt#section-5.2.3
        //# If an INIT ACK chunk is received by an endpoint in any state other
        //# than the COOKIE-WAIT or CLOSED state, the endpoint SHOULD discard the
        //# INIT ACK chunk.
        //= specs/rfc9260.txt#section-3.3.3
        //# If such an INIT ACK chunk is received in any state other than CLOSED
        //# or COOKIE-WAIT, it SHOULD be discarded silently (see Section 5.2.3).
        if !matches!(self.state, State::CookieWait { .. }) {
            return;
        }
        let path = self.asked_by(path, from, init_ack);
        let Answer { cookie, key_vector } = match self.check_init_ack(init_ack) {
            Ok(answer) => answer,
            Err(refusal) => return self.refuse_init_ack(path, init_ack, refusal),
        };
        self.measure_init(now, path, init_ack);
        let offered = self.offered();
        self.repath(self.routes_to(path, from, init_ack));
        //= specs/rfc9260.txt#section-5.1.1
        //# After the association is initialized, the valid outbound stream
        //# identifier range for either endpoint MUST be 0 to min(local OS,
        //# remote MIS) - 1.
        //= specs/rfc9260.txt#section-5.1.1
        //# After receiving the stream configuration information from the other
        //# side, each endpoint MUST perform the following check: If the peer's
        //# MIS is less than the endpoint's OS,
        self.outbound_streams = self.config.outbound_streams.min(init_ack.inbound_streams);
        self.inbound_streams = self.config.inbound_streams.min(init_ack.outbound_streams);
        let peer = Peer::of_init_ack(init_ack, offered);
        let own = auth::key_vector(&auth::parameters(&self.config, &self.auth_random));
        let vectors = match (own, key_vector) {
            (Ok(Some(local)), Some(peer)) => Some(KeyVectors { local, peer }),
            _ => None,
        };
        self.agree_on_auth(vectors.as_ref());
        let mut up = self.new_up(peer);
        //= specs/rfc9260.txt#section-3.2.2
        //# If the receiver of any other chunk (e.g., INIT ACK) detects
        //# unrecognized parameters and has to report them according to
        //# Section 3.2.1, it SHOULD bundle the ERROR chunk containing the
        //# "Unrecognized Parameters" error cause with the chunk sent in response
        //# (e.g., COOKIE ECHO).
        for raw in Extensions::of(&self.config).unrecognized(init_ack).filter_map(|raw| quotable(&raw)) {
            up.control.add_error(Cause::UnrecognizedParameters(raw));
        }
        //= specs/rfc9260.txt#section-5.1.4
        //# When an endpoint (in the COOKIE-WAIT state) receives an INIT ACK
        //# chunk with a State Cookie parameter, it MUST immediately send a
        //# COOKIE ECHO chunk to its peer with the received State Cookie.
        //= specs/rfc9260.txt#section-3.3.3
        //# If an INIT ACK chunk is received with all mandatory parameters that
        //# are specified for the INIT ACK chunk, then the receiver SHOULD process
        //# the INIT ACK chunk and send back a COOKIE ECHO chunk.
        self.state = State::CookieEchoed { retry: 0, cookie, cookie_due: true, up: Box::new(up) };
        //= specs/rfc9260.txt#section-5.1.4
        //# The endpoint MUST also start the T1-cookie timer after sending the
        //# COOKIE ECHO chunk.
        self.arm_t1(now, 0);
        self.refuse_streams();
    }

    /// The path by which the INIT left that was answered by `path`, from `from`.
    fn asked_by(&self, path: PathId, from: SocketAddr, init_ack: &Init) -> PathId {
        // Some peers send from one of their addresses whichever was asked; what they list says which that can have been.
        let asked = |path: &Path| init_ack.addresses().any(|ip| ip == path.peer.ip());
        match self.paths.iter().position(asked) {
            Some(index) if self.paths[usize::from(path.0)].peer.ip() != from.ip() => PathId(index as u8),
            _ => path,
        }
    }

    /// What an INIT ACK brings, or why it does not set up an association.
    fn check_init_ack(&self, init_ack: &Init) -> Result<Answer, Refusal> {
        if init_ack.initiate_tag == VerificationTag(0) {
            return Err(Refusal::NoTag);
        }
        if init_ack.a_rwnd < A_RWND_MIN {
            return Err(Refusal::SmallWindow);
        }
        let key_vector = match &self.config.auth {
            Some(_) => auth::key_vector(&init_ack.parameters),
            None => Ok(None),
        };
        //= specs/rfc5061.txt#section-6
        //# An implementation that receives an INIT-ACK that indicates that the
        //# peer does not support the [RFC4895] extension MUST NOT send the
        //# COOKIE-ECHO to establish the association.  Instead, the
        //# implementation MUST discard the INIT-ACK and report to the upper-
        //# layer user that an association cannot be established destroying the
        //# Transmission Control Block (TCB).
        // That is, one that does so and supports ASCONF; one that supports neither is as good as any other.
        if self.config.asconf && Extensions::listed(init_ack).asconf && key_vector == Ok(None) {
            return Err(Refusal::AsconfWithoutAuth);
        }
        if init_ack.outbound_streams == 0 || init_ack.inbound_streams == 0 {
            //= specs/rfc9260.txt#section-3.3.3
            //# If an endpoint in the COOKIE-WAIT state receives an INIT ACK chunk
            //# with the OS value set to 0, it MUST destroy the TCB and SHOULD
            //# send an ABORT chunk.
            //= specs/rfc9260.txt#section-3.3.3
            //# If an endpoint in the COOKIE-WAIT state receives an INIT ACK chunk
            //# with the MIS value set to 0, it MUST destroy the TCB and SHOULD
            //# send an ABORT chunk.
            return Err(Refusal::Violation(Violation::InitAckInvalid));
        }
        if host_name(init_ack).is_some() {
            //= specs/rfc9260.txt#section-3.3.3
            //# The
            //# receiver of INIT ACK chunks containing a Host Name Address
            //# parameter MUST send an ABORT chunk and MAY include an
            //# "Unresolvable Address" error cause.
            return Err(Refusal::Violation(Violation::HostName));
        }
        let key_vector = key_vector.map_err(|_| Refusal::Violation(Violation::AuthParameters))?;
        let Some(cookie) = init_ack.state_cookie() else {
            return Err(Refusal::Violation(Violation::InitAckWithoutCookie));
        };
        //= specs/rfc9260.txt#section-3.3.3
        //# Implementation Note: An implementation MUST be prepared to receive an
        //# INIT ACK chunk that is quite large (more than 1500 bytes) due to the
        //# variable size of the State Cookie and the variable address list.
        let auth_len = if self.config.auth.is_some() { Auth::MAX_LEN } else { 0 };
        if cookie.len() > self.paths[0].mtu - Header::LEN - Chunk::HEADER_LEN - auth_len {
            return Err(Refusal::Violation(Violation::CookieTooLong));
        }
        //= specs/rfc9260.txt#section-3.3.11
        //# Cookie: variable size This field MUST contain the exact cookie
        //# received in the State Cookie parameter from the previous INIT ACK
        //# chunk.
        Ok(Answer { cookie: cookie.clone(), key_vector })
    }

    /// What an INIT ACK that is refused comes to: the end, but for that with a window too small.
    fn refuse_init_ack(&mut self, path: PathId, init_ack: &Init, refusal: Refusal) {
        match refusal {
            Refusal::NoTag => {
                //= specs/rfc9260.txt#section-3.3.3
                //# If an endpoint in the COOKIE-WAIT state receives an INIT ACK chunk
                //# with the Initiate Tag set to 0, it MUST destroy the TCB and SHOULD
                //# send an ABORT chunk with the T bit set.
                let chunk = Chunk::Abort { reflected: true, causes: vec![Cause::InvalidMandatoryParameter] };
                self.farewell = Some(Farewell { path, tag: self.tag, chunk: Some(chunk) });
                self.close(Reason::PeerViolation(Violation::InitAckInvalid));
            }
            Refusal::SmallWindow => {
                //= specs/rfc9260.txt#section-3.3.3
                //# A receiver of an INIT ACK chunk with the a_rwnd value set to a
                //# value smaller than 1500 MUST discard the packet, SHOULD send a
                //# packet in response containing an ABORT chunk and using the
                //# Initiate Tag as the Verification Tag, and MUST NOT change the
                //# state of any existing association.
                let chunk = Chunk::Abort { reflected: false, causes: vec![Cause::InvalidMandatoryParameter] };
                self.farewell = Some(Farewell { path, tag: init_ack.initiate_tag, chunk: Some(chunk) });
            }
            Refusal::AsconfWithoutAuth => {
                self.close(Reason::PeerViolation(Violation::AsconfWithoutAuth));
            }
            Refusal::Violation(violation) => {
                // There is no state yet that holds the peer's tag.
                //= specs/rfc9260.txt#section-5.1
                //# The Verification Tag field in the common
                //# header of the outbound SCTP packet containing the ABORT chunk MUST be
                //# set to the Initiate Tag value of the received INIT or INIT ACK chunk
                //# this ABORT chunk is responding to.
                //= specs/rfc9260.txt#section-5.1.2
                //# The ABORT chunk SHOULD be sent to the source IP address from which the
                //# last peer packet was received.
                self.farewell = Some(Farewell { path, tag: init_ack.initiate_tag, chunk: None });
                // What cannot be resolved is quoted, as the passive side does; a name too long for that is only told.
                let name = host_name(init_ack).filter(|_| violation == Violation::HostName);
                let quoted = name.and_then(|name| {
                    let mut raw = BytesMut::new();
                    name.encode(&mut raw);
                    quotable(&raw.freeze())
                });
                match quoted {
                    Some(raw) => {
                        self.abort_with(Cause::UnresolvableAddress(raw), Reason::PeerViolation(violation));
                    }
                    None => self.on_violation(violation),
                }
            }
        }
    }

    pub(super) fn on_cookie_ack(&mut self, now: Time) {
        //= specs/rfc9260.txt#section-5.2.5
        //# At any state other than COOKIE-ECHOED, an endpoint SHOULD silently
        //# discard a received COOKIE ACK chunk.
        let State::CookieEchoed { retry, .. } = self.state else { return };
        // A COOKIE ECHO that was sent once measures the round trip.
        if let Some(sent_at) = self.renewal.cookie_sent_at.filter(|_| retry == 0)
            && self.config.early_repair
        {
            self.paths[0].measure(now, now.since(sent_at));
        }
        self.established(now);
    }

    /// Treats DATA or SACK in COOKIE-ECHOED as a COOKIE ACK that was lost or is late: the peer sends them only once it has
    /// accepted the cookie. The caller has checked the Verification Tag, and AUTH where this side requires it.
    // Nothing but the same tag protects COOKIE ACK: whoever can forge this chunk can forge that one.
    pub(super) fn on_implicit_cookie_ack(&mut self, now: Time, chunk: &Chunk) {
        let implies =
            matches!(chunk, Chunk::Data(_) | Chunk::Sack(_) | Chunk::NrSack(_) | Chunk::CompactSack(_));
        if implies && self.config.early_repair && matches!(self.state, State::CookieEchoed { .. }) {
            self.established(now);
        }
    }

    /// Answers a repeated COOKIE ECHO. The peer has received neither COOKIE ACK nor any DATA since, so all DATA in flight is
    /// retransmitted, at most once a round trip and only until the peer has acknowledged a chunk. Back-off of RTO ends.
    fn repair_first_flight(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        let heard = up.sent.has_been_acknowledged();
        let round_trip = self.paths[0].rtt.srtt().unwrap_or(self.config.rto.initial);
        let round_trip = round_trip.max(FIRST_FLIGHT_INTERVAL_MIN);
        let early = up.first_flight_sent_at.is_none_or(|at| now.since(at) < round_trip);
        if !self.config.early_repair || heard || early {
            return;
        }
        up.first_flight_sent_at = Some(now);
        for (index, path) in self.paths.iter_mut().enumerate() {
            let id = PathId(index as u8);
            path.flight_bytes -= up.sent.mark_path_lost(id);
            path.rtt.end_back_off();
            (path.timeouts_unanswered, path.probes_unanswered) = (0, 0);
            for timer in [Timer::T3Rtx(id), Timer::TailProbe(id), Timer::Overdue(id)] {
                self.timers.stop(timer);
            }
        }
    }

    /// RFC 9260 §5.2.6. Of its alternatives the third, once: INIT again, which asks for a cookie that lives longer.
    pub(super) fn on_stale_cookie(&mut self, now: Time) {
        //= specs/rfc9260.txt#section-5.2.6
        //# an endpoint SHOULD first examine if an association is in the process
        //# of being set up, i.e., the association is in the COOKIE-ECHOED state.
        let State::CookieEchoed { up, .. } = &mut self.state else { return };
        let Some(sent_at) = self.renewal.cookie_sent_at.filter(|_| self.renewal.extension.is_none()) else {
            return self.close(Reason::StaleCookie);
        };
        //= specs/rfc9260.txt#section-5.2.6
        //# When calculating the time
        //# extension, an implementation SHOULD use the RTT information
        //# measured based on the previous COOKIE ECHO/ERROR chunk exchange
        //# and SHOULD add no more than 1 second beyond the measured RTT,
        self.renewal.extension = Some(now.since(sent_at) + RENEWAL_GRACE);
        self.renewal.rode = Some(std::mem::replace(&mut up.sent, Sent::new(self.initial_tsn, 1)));
        self.state = State::cookie_wait(true);
        for path in &mut self.paths {
            path.flight_bytes = 0;
        }
        self.arm_t1(now, 0);
    }

    fn up_from_cookie(&mut self, now: Time, opened: &Opened) {
        self.outbound_streams = opened.outbound_streams;
        self.inbound_streams = opened.inbound_streams;
        let peer = Peer {
            tag: opened.peer_tag,
            initial_tsn: opened.peer_initial_tsn,
            a_rwnd: opened.peer_a_rwnd,
            extensions: opened.extensions,
            adaptation: opened.adaptation,
        };
        self.agree_on_auth(opened.auth.as_ref());
        let mut up = self.new_up(peer);
        // What rode with a COOKIE ECHO of our own never counted: it goes again, with the same TSNs.
        if let State::CookieEchoed { up: old, .. } = &mut self.state {
            std::mem::swap(&mut up.sent, &mut old.sent);
        }
        up.control.cookie_ack = Some(PathId(0));
        up.first_flight_sent_at = Some(now);
        // The time from INIT ACK to COOKIE ECHO is a round trip, or longer if INIT ACK or COOKIE ECHO was lost. It is capped,
        // so that a peer that sends its cookie late does not make the RTO longer than it would be without a measurement.
        if self.config.early_repair && self.config.measure_handshake {
            let round_trip = now.since(opened.created).min(self.config.rto.initial);
            self.paths[0].rtt.on_upper_bound(round_trip);
        }
        self.state =
            State::CookieEchoed { retry: 0, cookie: Bytes::new(), cookie_due: false, up: Box::new(up) };
        self.established(now);
        if self.is_up() {
            self.refuse_streams();
        }
    }

    /// What INIT lists. Of one path there is nothing to say that concerns several.
    fn offered(&self) -> Extensions {
        let supported = Extensions::of(&self.config);
        if self.paths.len() > 1 { supported } else { supported.for_one_path(&self.config) }
    }

    /// Whatever is configured, data takes one path at a time as it always did where there is but one, or where the peer is to
    /// know of several and does not.
    fn settle_multipath(&mut self, extensions: Extensions) {
        let is_alone = self.paths.len() == 1 && !extensions.asconf;
        let is_agreed = self.config.multipath_with == MultipathWith::Anyone || extensions.nr_sack;
        if self.config.multipath.is_some() && (is_alone || !is_agreed) {
            Arc::make_mut(&mut self.config).multipath = None;
            self.paths.iter_mut().for_each(|path| path.build_controller(&self.config));
        }
    }

    fn new_up(&mut self, peer: Peer) -> Up {
        self.settle_multipath(peer.extensions);
        self.buffer = if self.admitted {
            ReceiveBuffer::new(&self.config)
        } else {
            ReceiveBuffer::unadmitted(&self.config)
        };
        self.inbound = Reassembly::new(peer.initial_tsn, self.buffer.bytes())
            .with_overhead(self.config.chunk_overhead_bytes);
        //= specs/rfc8260.txt#section-2
        //# An SCTP implementation supporting user message interleaving is
        //# REQUIRED to support the coexistence of associations using DATA chunks
        //# and associations using I-DATA chunks.
        if peer.extensions.interleaving {
            self.inbound.interleave(self.buffer.bytes());
            self.queue.interleave();
        }
        let several = self.config.multipath.is_some() && !by_the_literature(&self.config);
        let sent = match self.renewal.rode.take() {
            Some(rode) => rode.begun_again(self.paths.len()).with_many_gaps(several.then_some(0)),
            None => Sent::new(self.initial_tsn, self.paths.len())
                .with_missing_reports(self.config.missing_reports)
                .with_many_gaps(several.then_some(0)),
        };
        Up {
            peer_tag: peer.tag,
            extensions: peer.extensions,
            adaptation: peer.adaptation,
            //= specs/rfc9260.txt#section-6.2.1
            //# A)  At the establishment of the association, the endpoint initializes
            //# the rwnd to the Advertised Receiver Window Credit (a_rwnd) the
            //# peer specified in the INIT or INIT ACK chunk.
            peer_a_rwnd: peer.a_rwnd as usize,
            //= specs/rfc9260.txt#section-5.1
            //# When the TCB is created, each endpoint MUST set its internal
            //# Cumulative TSN Ack Point to the value of its transmitted Initial TSN
            //# minus one.
            sent,
            received: Received::new(peer.initial_tsn)
                .with_haste(Haste {
                    at_once_when_filled: self.config.sack_at_once_when_filled,
                    delayed_gaps: self.config.multipath.is_some(),
                })
                .with_paths_counted(several.then(Vec::new)),
            report: Report::default(),
            control: Control::default(),
            retransmissions_left: None,
            points: Vec::new(),
            coupled: Coupled::default(),
            pass_over_in: None,
            ecf_waits: false,
            turn: 0,
            turn_taken: false,
            chance: 0,
            primary: PathId(0),
            sack_path: PathId(0),
            sack_avoids: None,
            sack_in_doubt: false,
            packed: Vec::new(),
            offered_bytes: self.buffer.bytes(),
            errors: 0,
            window: Window::Open,
            ecn: peer.extensions.ecn.then(EcnState::default),
            reconfiguration: peer
                .extensions
                .reconfiguration
                .then(|| Reconfiguration::new(self.config.peer_may, self.initial_tsn, peer.initial_tsn)),
            addresses: Addresses::new(self.initial_tsn, peer.initial_tsn),
            forward: Forward::default(),
            first_flight_sent_at: None,
        }
    }

    /// COOKIE-ECHOED becomes ESTABLISHED.
    fn established(&mut self, now: Time) {
        let State::CookieEchoed { up, .. } = std::mem::replace(&mut self.state, State::cookie_wait(false))
        else {
            unreachable!("only an association that knows its peer is established")
        };
        let adaptation = up.adaptation;
        self.state = State::Up(up);
        self.timers.stop(Timer::T1);
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            // What rode with COOKIE ECHO had no timer but T1.
            if self.paths[index].flight_bytes > 0 {
                self.timers.arm(Timer::T3Rtx(id), now + self.paths[index].rtt.rto());
                self.arm_tail_probe(now, id);
            }
        }
        self.begin_heartbeats(now);
        self.events.push_back(Event::Up {
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            adaptation,
        });
        self.advance_shutdown(now);
        self.stirred = true;
    }

    /// Messages were queued for streams that the peer does not allow: they cannot be sent, and dropping them would break
    /// the promise that `send` gave.
    fn refuse_streams(&mut self) {
        let outbound_streams = self.outbound_streams;
        if self.queue.highest_stream().is_some_and(|stream| stream.0 >= outbound_streams) {
            let reason = Reason::TooFewStreams { outbound_streams };
            self.abort_with(Cause::UserInitiatedAbort(Bytes::from_static(b"too few streams")), reason);
        }
    }

    /// T1 ran out.
    pub(super) fn on_t1(&mut self, now: Time) {
        let (mut max, probes) = (self.config.max_init_retransmits, self.control_probes());
        let retry = match &mut self.state {
            //= specs/rfc9260.txt#section-4
            //# 2)  If the T1-init timer expires, the endpoint MUST retransmit the
            //# INIT chunk and restart the T1-init timer.
            State::CookieWait { retry, init_due, .. } => {
                *retry += 1;
                *init_due = true;
                *retry
            }
            //= specs/rfc9260.txt#section-4
            //# 3)  If the T1-cookie timer expires, the endpoint MUST retransmit
            //# COOKIE ECHO chunk and restart the T1-cookie timer.
            //= specs/rfc9260.txt#section-5.1.4
            //# If the timer expires, the endpoint MUST retransmit the COOKIE ECHO
            //# chunk and restart the T1-cookie timer.
            State::CookieEchoed { retry, cookie_due, up, .. } => {
                *retry += 1;
                *cookie_due = true;
                for (index, path) in self.paths.iter_mut().enumerate() {
                    path.flight_bytes -= up.sent.mark_path_lost(PathId(index as u8));
                }
                // What is sent as probes are takes nothing of the patience that the RTO gives.
                max += probes;
                *retry
            }
            State::Up(_) | State::Closed(_) => return,
        };
        if retry <= max {
            //= specs/rfc9260.txt#section-5.1
            //# The T1-init timer and T1-cookie timer SHOULD follow the same rules
            //# given in Section 6.3.
            //= specs/rfc9260.txt#section-5.1.6
            //# When retransmitting the INIT chunk, the endpoint MUST follow the rules
            //# defined in Section 6.3 to determine the proper timer value.
            if self.t1_wait(now, retry).is_none() {
                let path = self.handshake_path(retry - 1);
                self.paths[usize::from(path.0)].rtt.back_off();
            }
            self.arm_t1(now, retry);
        } else {
            //= specs/rfc9260.txt#section-4
            //# This MUST be
            //# repeated up to 'Max.Init.Retransmits' times.  After that, the
            //# endpoint MUST abort the initialization process and report the
            //# error to the SCTP user.
            self.close(Reason::NoAnswer);
        }
    }
}

/// The parameter that numbers a repeated INIT, as bytes.
fn init_number_parameter(number: u32) -> Bytes {
    let mut raw = [0; 8];
    raw[..2].copy_from_slice(&INIT_NUMBER.to_be_bytes());
    raw[2..4].copy_from_slice(&8_u16.to_be_bytes());
    raw[4..].copy_from_slice(&number.to_be_bytes());
    Bytes::copy_from_slice(&raw)
}

/// The Host Name Address parameter that no INIT ACK may have.
fn host_name(init_ack: &Init) -> Option<&Parameter> {
    init_ack.parameters.iter().find(|parameter| matches!(parameter, Parameter::HostName(_)))
}

/// Paths of which the first is that of the handshake, and the others still have to show that they are there.
fn paths_of(routes: Vec<Route>, config: &Config) -> Vec<Path> {
    let state = |index| if index == 0 { PathState::Active } else { PathState::Unconfirmed };
    routes.into_iter().enumerate().map(|(index, route)| Path::new(route, state(index), config)).collect()
}

/// The paths to a peer whose addresses stand in a cookie.
fn routes(opened: &Opened, local: &[SocketAddr], config: &Config) -> Vec<Route> {
    //= specs/rfc9260.txt#section-5.4
    //# For the receiver of the COOKIE ECHO chunk, the only CONFIRMED
    //# address is the address to which the packet containing the INIT
    //# ACK chunk was sent.
    let first = Route { local: opened.local, peer: opened.peer };
    let others = opened.peer_addresses.iter().map(|ip| SocketAddr::new(*ip, opened.peer.port()));
    let peer: Vec<_> = std::iter::once(opened.peer).chain(others).collect();
    pair_up(local, &peer, Some(first), config)
}
