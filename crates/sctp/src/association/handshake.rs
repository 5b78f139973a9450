//! The handshake (RFC 9260 §5): INIT to COOKIE ACK on the active side, a valid cookie on the passive side,
//! and a cookie for an existing association (§5.2.4). INIT ACK is processed in `init_ack`; T1 and
//! retransmissions are in `repetition`.

mod init_ack;
mod repetition;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use bytes::Bytes;
use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

use crate::association::asconf::addresses::Addresses;
use crate::association::auth::{self, Authentication, RANDOM_LEN};
use crate::association::dtls::Dtls;
use crate::association::multipath::coupled::Coupled;
use crate::association::multipath::uses_cmt_rules;
use crate::association::pairing::{pair_up, to_list};
use crate::association::partial::forward::Forward;
use crate::association::path::Path;
use crate::association::reassembly::Reassembly;
use crate::association::receive_buffer::ReceiveBuffer;
use crate::association::received::{Received, SackPolicy};
use crate::association::reset::state::Reconfiguration;
use crate::association::send_queue::SendQueue;
use crate::association::sent::{Report, Sent};
use crate::association::state::{Control, EcnState, Shutdown, State, Up, Window};
use crate::association::timers::{Timer, Timers};
use crate::association::{Association, Event, Reason};
use crate::config::{Config, MultipathWith};
use crate::cookie::Opened;
use crate::extensions::Extensions;
use crate::ids::{AssociationId, PathId, Tsn, VerificationTag};
use crate::packet_builder::PacketBuilder;
use crate::route::Route;
use crate::stats::PathState;
use crate::wire::{Cause, Chunk, Init, Parameter};

/// The lifetime requested for a new cookie after a stale one, in addition to an RTT.
const RENEWAL_GRACE: Duration = Duration::from_millis(500);

/// What a stale cookie leaves to the INIT that requests another one (RFC 9260 §5.2.6).
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// When COOKIE ECHO was first sent with the present cookie.
    pub(super) cookie_sent_at: Option<Time>,
    /// The time from the first INIT to the INIT ACK: an upper bound of the RTT.
    pub(super) init_took: Duration,
    /// How often a longer lifetime was requested.
    requests: u32,
    /// The new INIT needs a new tag, which the endpoint gives.
    needs_tag: bool,
    /// The requested extension of the next cookie's lifetime, after a stale one.
    extension: Option<Duration>,
    /// The chunks that were bundled with the stale cookie and dropped with it.
    bundled: Option<Box<Sent>>,
}

/// Parameters of a new association started by this side.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// The configuration.
    pub(crate) config: Arc<Config>,
    /// The local SCTP port.
    pub(crate) local_port: u16,
    /// The peer's SCTP port.
    pub(crate) peer_port: u16,
    /// Local addresses; at least one.
    pub(crate) local: Vec<SocketAddr>,
    /// The peer's addresses; at least one, which forms a path with a local address.
    pub(crate) peer: Vec<SocketAddr>,
    /// The tag for the peer's packets.
    pub(crate) tag: VerificationTag,
    /// The initial TSN.
    pub(crate) initial_tsn: Tsn,
    /// The seed for nonces and other unpredictable numbers.
    pub(crate) seed: [u8; 32],
}

/// The peer's parameters.
#[derive(Debug, Clone, Copy)]
struct Peer {
    tag: VerificationTag,
    initial_tsn: Tsn,
    a_rwnd: u32,
    /// What both sides support.
    extensions: Extensions,
    /// The adaptation code point of the peer's user.
    adaptation: Option<u32>,
}

impl Peer {
    /// Reads the peer's INIT ACK, which responds to an INIT that `offered` these extensions.
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

/// Parameters of a new association started by the peer, besides the cookie.
pub(crate) struct Passive {
    /// The configuration.
    pub(crate) config: Arc<Config>,
    /// Local addresses, the one that the INIT came to among them.
    pub(crate) local: Vec<SocketAddr>,
    /// The seed for nonces and other unpredictable numbers.
    pub(crate) seed: [u8; 32],
}

/// This side's parameters of a new association.
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
    /// Begins the handshake: `poll` returns the INIT.
    pub(crate) fn connect(now: Time, id: AssociationId, setup: Setup) -> Self {
        let paths = paths_of(pair_up(&setup.local, &setup.peer, None, &setup.config), &setup.config);
        // Addresses that must not be used are not listed.
        let allowed = &setup.config.paths.allowed;
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
        if association.config.security.auth.is_some() {
            association.rng.fill_bytes(&mut association.auth_random);
        }
        association.offer_keys();
        association.state = State::cookie_wait(true);
        association.arm_t1(now, 0);
        association
    }

    /// Creates the association of a valid COOKIE ECHO. `handle` then processes its whole packet.
    pub(crate) fn accept(now: Time, id: AssociationId, opened: &Opened, setup: Passive) -> Self {
        let Passive { config, local, seed } = setup;
        let ports = (opened.local_port, opened.peer_port);
        let paths = paths_of(routes(opened, &local, &config), &config);
        let initial_tsn = opened.local_initial_tsn;
        let own = Own { config, ports, local, tag: opened.local_tag, initial_tsn, seed };
        let admitted = own.config.memory.unadmitted_receive_buffer_bytes.is_none();
        let mut association = Self { admitted, ..Self::new(id, own, paths) };
        association.events.push_back(Event::Accepted);
        association.up_from_cookie(now, opened);
        association
    }

    /// The peer restarted (RFC 9260 §5.2.4 A): everything starts from the beginning with the same id.
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
        let (admitted, memory_limit, memory_room) = (self.admitted, self.memory_limit, self.memory_room);
        let mut auth = Authentication::new(&self.config);
        auth.keep_keys(&mut self.auth);
        let (dtls, sending) = self.restart_protection();
        *self = Self { auth, admitted, memory_limit, memory_room, ..Self::new(self.id, own, paths) };
        self.dtls = dtls.or(self.dtls.take());
        *self.builder.sending_mut() = sending;
        (self.events, self.queue) = (events, queue);
        //= specs/rfc9260.txt#section-5.2.4
        //# A RESTART notification SHOULD be sent to the ULP instead of a
        //# COMMUNICATION LOST notification.
        self.events.push_back(Event::Restarted);
        self.up_from_cookie(now, opened);
    }

    /// A valid cookie of this association arrived, for the first time or again, or one with a new tag of
    /// a peer that sent an INIT at the same time (RFC 9260 §5.2.4 B, D).
    pub(crate) fn confirm(&mut self, now: Time, opened: &Opened) {
        match &mut self.state {
            State::CookieWait { .. } => {
                self.replace_paths(routes(opened, &self.local, &self.config));
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
            // The chunks bundled with COOKIE ECHO were for a peer that has forgotten them; their
            // messages are sent again.
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
            // With its tag the peer lost its state: it restarted during the handshake.
            State::Up(_) => self.restart(now, opened),
            State::Closed(_) => {}
        }
        self.has_input = true;
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
            queue: SendQueue::new(config.messages.scheduler),
            inbound: Reassembly::new(Tsn(0), config.memory.receive_buffer_bytes),
            buffer: ReceiveBuffer::new(&config),
            outbound_streams: config.streams.outbound,
            inbound_streams: config.streams.inbound,
            events: std::collections::VecDeque::with_capacity(2),
            final_packet: None,
            leaving: false,
            renewal: Renewal::default(),
            builder: PacketBuilder::new(),
            auth: Authentication::new(&config),
            dtls: config.security.dtls.as_ref().map(|dtls| Box::new(Dtls::new(dtls))),
            auth_random: [0; RANDOM_LEN],
            moved: false,
            admitted: true,
            memory_limit: usize::MAX,
            memory_room: usize::MAX,
            burst: 0,
            carried: None,
            new_data_alone: false,
            has_input: true,
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

    /// Returns the INIT that this side sends.
    pub(super) fn init(&self) -> Init {
        Init {
            //= specs/rfc9260.txt#section-5.1
            //# In the INIT chunk, "A" MUST provide its Verification Tag (Tag_A) in
            //# the Initiate Tag field.
            initiate_tag: self.tag,
            a_rwnd: u32::try_from(self.config.memory.receive_buffer_bytes).unwrap_or(u32::MAX),
            //= specs/rfc9260.txt#section-5.1.1
            //# In the INIT and INIT ACK chunks, the sender of the chunk MUST
            //# indicate the number of outbound streams (OS) it wishes to have in the
            //# association, as well as the maximum inbound streams (MIS) it will
            //# accept from the other endpoint.
            outbound_streams: self.config.streams.outbound,
            inbound_streams: self.config.streams.inbound,
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
                let adaptation = self.config.handshake.adaptation.map(Parameter::Adaptation);
                let extensions = self.offered().parameters();
                let auth = auth::parameters(&self.config, &self.auth_random);
                let keys = self.key_management();
                let longer = self.renewal.extension.map(|extension| {
                    Parameter::CookiePreservative(u32::try_from(extension.as_millis()).unwrap_or(u32::MAX))
                });
                let others = adaptation.into_iter().chain(extensions).chain(auth).chain(keys);
                addresses.chain(longer).chain(others).collect()
            },
        }
    }

    /// Returns the local addresses to list in INIT, or in an INIT ACK to a peer that sent an INIT at the
    /// same time. A single address needs no parameter, and some stacks do not respond to an INIT that
    /// lists it.
    pub(crate) fn listed_addresses(&self) -> Vec<IpAddr> {
        to_list(&self.local, self.paths[0].peer.ip())
    }

    /// Replaces the paths when the peer's addresses become known. The first of `routes` is that of the
    /// handshake, the initial primary path.
    fn replace_paths(&mut self, routes: Vec<Route>) {
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

    pub(super) fn on_cookie_ack(&mut self, now: Time) {
        //= specs/rfc9260.txt#section-5.2.5
        //# At any state other than COOKIE-ECHOED, an endpoint SHOULD silently
        //# discard a received COOKIE ACK chunk.
        let State::CookieEchoed { retry, .. } = self.state else { return };
        // A COOKIE ECHO that was sent once gives an RTT sample, and so does one whose copy cannot have been answered yet.
        if let Some(sent_at) = self.renewal.cookie_sent_at
            && self.config.recovery.early_repair
        {
            let took = now.since(sent_at);
            let since_copy = took.saturating_sub(self.config.handshake.copy_after.unwrap_or_default());
            let is_too_soon = self.paths[0].rtt.measured_srtt().is_none_or(|srtt| since_copy < srtt);
            if retry == 0 || (retry <= self.copies() && is_too_soon) {
                self.paths[0].measure(now, took);
            }
        }
        self.established(now);
    }

    /// Treats DATA or SACK in COOKIE-ECHOED as a COOKIE ACK that was lost or is late: the peer sends them only once it has
    /// accepted the cookie. The caller has checked the Verification Tag, and AUTH where this side requires it.
    // COOKIE ACK is protected by the same tag only: an attacker who can forge this chunk can forge that one.
    pub(super) fn on_implicit_cookie_ack(&mut self, now: Time, chunk: &Chunk) {
        let implies =
            matches!(chunk, Chunk::Data(_) | Chunk::Sack(_) | Chunk::NrSack(_) | Chunk::CompactSack(_));
        if implies && self.config.recovery.early_repair && matches!(self.state, State::CookieEchoed { .. }) {
            self.established(now);
        }
    }

    /// A stale cookie (RFC 9260 §5.2.6): sends a new INIT that requests a longer cookie lifetime, the third alternative, up to
    /// Max.Init.Retransmits times. The INIT has a new tag: an INIT ACK or ERROR that answers an earlier INIT or cookie is discarded.
    pub(super) fn on_stale_cookie(&mut self, now: Time) {
        //= specs/rfc9260.txt#section-5.2.6
        //# an endpoint SHOULD first examine if an association is in the process
        //# of being set up, i.e., the association is in the COOKIE-ECHOED state.
        let State::CookieEchoed { up, .. } = &mut self.state else { return };
        let renewal = &mut self.renewal;
        let may_request = renewal.requests < self.config.handshake.max_init_retransmits;
        let Some(sent_at) = renewal.cookie_sent_at.filter(|_| may_request) else {
            return self.close(Reason::StaleCookie);
        };
        //= specs/rfc9260.txt#section-5.2.6
        //# When calculating the time
        //# extension, an implementation SHOULD use the RTT information
        //# measured based on the previous COOKIE ECHO/ERROR chunk exchange
        //# and SHOULD add no more than 1 second beyond the measured RTT,
        renewal.extension = renewal.extension.max(Some(now.since(sent_at) + RENEWAL_GRACE));
        renewal.requests += 1;
        renewal.needs_tag = true;
        renewal.bundled = Some(Box::new(std::mem::replace(&mut up.sent, Sent::new(self.initial_tsn, 1))));
        self.state = State::cookie_wait(true);
        for path in &mut self.paths {
            path.flight_bytes = 0;
        }
        self.arm_t1(now, 0);
    }

    /// Whether the next INIT needs a new tag.
    pub(crate) fn needs_tag(&self) -> bool {
        self.renewal.needs_tag
    }

    /// Sets the tag of the INIT after a stale cookie.
    pub(crate) fn renew_tag(&mut self, tag: VerificationTag) {
        self.tag = tag;
        self.renewal.needs_tag = false;
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
        self.agree_on_keys(opened.key_management.as_ref());
        let mut up = self.new_up(peer);
        // Chunks bundled with a COOKIE ECHO of our own did not count: they are sent again with the same
        // TSNs.
        if let State::CookieEchoed { up: old, .. } = &mut self.state {
            std::mem::swap(&mut up.sent, &mut old.sent);
        }
        up.control.cookie_ack = Some(PathId(0));
        up.first_flight_sent_at = Some(now);
        // The time from INIT ACK to COOKIE ECHO is a round trip, or longer if INIT ACK or COOKIE ECHO was lost. It is capped,
        // so that a peer that sends its cookie late does not make the RTO longer than it would be without a measurement. A
        // cookie from the future, whose clock was set back since, measures nothing.
        if self.config.recovery.early_repair && self.config.legacy.measure_handshake && opened.created <= now
        {
            let round_trip = now.since(opened.created).min(self.config.timers.rto.initial);
            self.paths[0].rtt.on_upper_bound(round_trip);
        }
        self.state =
            State::CookieEchoed { retry: 0, cookie: Bytes::new(), cookie_due: false, up: Box::new(up) };
        self.established(now);
        if self.is_up() {
            self.refuse_streams();
        }
    }

    /// The extensions that INIT lists. With one path, those for several paths are omitted.
    fn offered(&self) -> Extensions {
        let supported = Extensions::of(&self.config);
        if self.paths.len() > 1 { supported } else { supported.for_one_path(&self.config) }
    }

    /// With one path, or a peer that does not support multipath where both sides must, data is sent on
    /// one path at a time whatever is configured.
    fn settle_multipath(&mut self, extensions: Extensions) {
        let is_alone = self.paths.len() == 1 && !extensions.asconf;
        let is_agreed = self.config.paths.multipath_with == MultipathWith::Anyone || extensions.nr_sack;
        if self.config.paths.multipath.is_some() && (is_alone || !is_agreed) {
            Arc::make_mut(&mut self.config).paths.multipath = None;
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
            .with_overhead(self.config.legacy.chunk_overhead_bytes);
        //= specs/rfc8260.txt#section-2
        //# An SCTP implementation supporting user message interleaving is
        //# REQUIRED to support the coexistence of associations using DATA chunks
        //# and associations using I-DATA chunks.
        if peer.extensions.interleaving {
            self.inbound.interleave(self.buffer.bytes());
            self.queue.interleave();
        }
        self.keep_key_management_aside();
        let several = self.config.paths.multipath.is_some() && !uses_cmt_rules(&self.config);
        let sent = match self.renewal.bundled.take() {
            Some(bundled) => (*bundled).restarted(self.paths.len()).with_many_gaps(several.then_some(0)),
            None => Sent::new(self.initial_tsn, self.paths.len())
                .with_missing_reports(self.config.legacy.missing_reports)
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
                .with_sack_policy(SackPolicy {
                    sack_when_filled: self.config.legacy.sack_at_once_when_filled,
                    delay_with_gaps: self.config.paths.multipath.is_some(),
                })
                .with_paths_counted(several.then(Vec::new)),
            report: Report::default(),
            control: Control::default(),
            retransmissions_left: None,
            pseudo_cums: Vec::new(),
            coupled: Coupled::default(),
            skip_tsn_in: None,
            ecf_waits: false,
            turn: 0,
            turn_taken: false,
            new_data_at: Time::ZERO,
            tie_break: 0,
            primary: PathId(0),
            sack_path: PathId(0),
            sack_avoids: None,
            sack_may_be_lost: false,
            packed: Vec::new(),
            offered_bytes: self.buffer.bytes(),
            errors: 0,
            window: Window::Open,
            ecn: peer.extensions.ecn.then(EcnState::default),
            reconfiguration: peer.extensions.reconfiguration.then(|| {
                Reconfiguration::new(self.config.streams.peer_may, self.initial_tsn, peer.initial_tsn)
            }),
            addresses: Addresses::new(self.initial_tsn, peer.initial_tsn),
            forward: Forward::default(),
            first_flight_sent_at: None,
            first_flight_repairs: 0,
        }
    }

    /// Changes from COOKIE-ECHOED to ESTABLISHED.
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
            // The only timer of chunks bundled with COOKIE ECHO was T1.
            if self.paths[index].flight_bytes > 0 {
                self.timers.arm(Timer::T3Rtx(id), now + self.paths[index].t3_wait(&self.config));
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
        self.has_input = true;
    }

    /// Messages were queued for streams that the peer does not permit. They cannot be sent, and dropping
    /// them would violate the guarantee of `send`.
    fn refuse_streams(&mut self) {
        let outbound_streams = self.outbound_streams;
        if self.queue.highest_stream().is_some_and(|stream| stream.0 >= outbound_streams) {
            let reason = Reason::TooFewStreams { outbound_streams };
            self.abort_with(Cause::UserInitiatedAbort(Bytes::from_static(b"too few streams")), reason);
        }
    }
}

/// Creates the paths: the first one is that of the handshake, the others must be verified.
fn paths_of(routes: Vec<Route>, config: &Config) -> Vec<Path> {
    let state = |index| if index == 0 { PathState::Active } else { PathState::Unconfirmed };
    routes.into_iter().enumerate().map(|(index, route)| Path::new(route, state(index), config)).collect()
}

/// Returns the routes to a peer whose addresses are in a cookie.
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
