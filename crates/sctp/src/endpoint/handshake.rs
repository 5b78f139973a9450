//! Processing of INIT and COOKIE ECHO (RFC 9260 §5.1, §5.2): new peers, INIT collisions, restarts, stale
//! and forged cookies.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use bytes::{Bytes, BytesMut};
use rand_core::Rng;

use super::answers::{Answer, MAX_ANSWER_LEN};
use super::memory::MakeRoom;
use super::table::{Known, Slot};
use super::waiting::{Echo, Entry, HandshakeTurn};
use super::{Endpoint, next_seed};
use crate::association::{
    Association, Authentication, BadParameters, Passive, RANDOM_LEN, Verdict, Violation, key_vector,
    parameters, reaches, to_list,
};
use crate::config::{A_RWND_MIN, Config};
use crate::cookie::{Contents, CookieError, KEY_LIFE, MAX_ADDRESSES, Opened, TieTags};
use crate::dtls::{Agreement, Disagreement, Mode, agree, key_management, offer};
use crate::extensions::Extensions;
use crate::ids::{AssociationId, Tsn, VerificationTag};
use crate::route::{Route, is_unicast};
use crate::stats::Phase;
use crate::wire::{Auth, Cause, Chunk, Header, Init, KeyManagement, KeyVectors, Packet, Parameter};

/// The maximum extension of a cookie's life by a Cookie Preservative parameter: a longer life would
/// permit replays for longer, and RFC 9260 §5.2.6 advises to request little more than an RTT.
const MAX_COOKIE_EXTENSION: Duration = Duration::from_secs(10);

/// This side's parameters in an INIT ACK.
struct Offer {
    config: Arc<Config>,
    tag: VerificationTag,
    initial_tsn: Tsn,
    tie_tags: Option<TieTags>,
    /// The local addresses to list.
    addresses: Vec<IpAddr>,
    /// The random number of the RANDOM parameter, if there is one.
    random: [u8; RANDOM_LEN],
    /// The DTLS Key Management parameter, and whether protection is required.
    keys: Option<(Mode, KeyManagement)>,
}

impl Offer {
    /// Negotiates key management with the sender of an INIT.
    fn agree(&self, init: &Init) -> Result<Option<Agreement>, Disagreement> {
        match &self.keys {
            Some((mode, own)) => agree(*mode, own, key_management(init)),
            None => Ok(None),
        }
    }
}

/// The comparison of a tag in a cookie with that of the association (RFC 9260 §5.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    /// M: the tags match.
    M,
    /// X: the tags differ.
    X,
    /// 0: the association has no tag yet, or the cookie contains none.
    O,
}

/// The reaction to the cookie of an existing association (RFC 9260 §5.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// A: the peer restarted.
    Restart,
    /// B: both sides sent an INIT, and the peer's arrived after it had answered ours. D: a cookie of
    /// this association, for the first time or again.
    Confirm,
    /// C: the cookie arrived late; and all other cases.
    Discard,
}

/// RFC 9260 Table 12.
fn action(local: Tag, peer: Tag, tie_tags: Tag) -> Action {
    use Tag::{M, O, X};
    match (local, peer, tie_tags) {
        (X, X, M) => Action::Restart, // A
        (M, X, _) => Action::Confirm, // B
        (M, O, _) => Action::Confirm, // B
        (X, M, O) => Action::Discard, // C
        (M, M, _) => Action::Confirm, // D
        //= specs/rfc9260.txt#section-5.2.4
        //# For any case not shown in Table 12, the cookie SHOULD be silently
        //# discarded.
        _ => Action::Discard,
    }
}

impl Endpoint {
    /// Processes a packet that contains only an INIT, without a tag.
    pub(super) fn on_init(&mut self, now: Time, route: Route, packet: &Packet) {
        self.counters.inits += 1;
        let Some(Ok(Chunk::Init(init))) = packet.chunks().next() else {
            self.counters.invalid += 1;
            return;
        };
        //= specs/rfc9260.txt#section-3.3.2
        //# If the value of the Initiate Tag in a received INIT chunk is found
        //# to be 0, the receiver MUST silently discard the packet.
        if init.initiate_tag == VerificationTag(0) {
            self.counters.discarded += 1;
            return;
        }
        if !is_unicast(route.peer.ip()) || !is_unicast(route.local.ip()) {
            self.counters.discarded += 1;
            return;
        }
        if !self.admission.admits(now, route.peer.ip()) {
            self.counters.answers_dropped += 1;
            return;
        }
        let offered = self.offer_to(route, &packet.header, &init).and_then(|offer| {
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
            //# If an SCTP endpoint operates in strict DTLS mode and receives an SCTP packet
            //# with an INIT or INIT ACK chunk does not contain any DTLS Key Management Parameter
            //# or only an incompatible one, the endpoint MUST send an SCTP packet with an
            //# ABORT chunk.
            match offer.as_ref().map(|(_, offer)| offer.agree(&init)) {
                Some(Err(why)) => Err(vec![why.cause()]),
                _ => Ok(offer),
            }
        });
        match offered {
            //= specs/rfc9260.txt#section-3.3.2
            //# If an INIT chunk is received with all mandatory parameters that are
            //# specified for the INIT chunk, then the receiver SHOULD process the
            //# INIT chunk and send back an INIT ACK.
            Ok(Some((route, offer))) => {
                //= specs/rfc9260.txt#section-5.1
                //# After sending an INIT ACK chunk with the State Cookie parameter, "Z"
                //# MUST NOT allocate any resources or keep any states for the new
                //# association.
                //= specs/rfc9260.txt#section-5.2.2
                //# After sending the INIT ACK or ABORT chunk, the endpoint MUST take no
                //# further actions, i.e., the existing association, including its current
                //# state, and the corresponding TCB MUST NOT be changed.
                let init_ack = self.init_ack(now, route, &packet.header, &init, offer);
                self.answer_init(route, &packet.header, &init, Chunk::InitAck(init_ack));
            }
            Ok(None) => {}
            Err(causes) => {
                //= specs/rfc9260.txt#section-8.4
                //# the Verification
                //# Tag of the packet containing the ABORT chunk MUST be the Initiate
                //# Tag of the received INIT chunk, and the T bit of the ABORT chunk
                //# has to be set to 0, indicating that the Verification Tag is not
                //# reflected.
                //= specs/rfc9260.txt#section-5.1
                //# invalid parameter values, or lack of local resources, it SHOULD
                //# respond with an ABORT chunk.
                //= specs/rfc9260.txt#section-5.1
                //# It SHOULD also specify the cause of abort, such as the type of the
                //# missing mandatory parameters, etc., by including an error cause in the
                //# ABORT chunk.
                let abort = Chunk::Abort { reflected: false, causes };
                if self.bears_protected_tag(route, &packet.header, &init) {
                    self.counters.discarded += 1;
                } else if self.budget.take(now) {
                    self.answer_init(route, &packet.header, &init, abort);
                } else {
                    self.counters.answers_dropped += 1;
                }
            }
        }
    }

    /// Returns what to offer to the sender of an INIT and the route of the response; `None` if another
    /// response was queued; or the causes for rejecting it.
    fn offer_to(
        &mut self,
        route: Route,
        header: &Header,
        init: &Init,
    ) -> Result<Option<(Route, Offer)>, Vec<Cause>> {
        //= specs/rfc9260.txt#section-3.3.2
        //# A receiver of an INIT chunk with the a_rwnd value set to a value
        //# smaller than 1500 MUST discard the packet, SHOULD send a packet in
        //# response containing an ABORT chunk and using the Initiate Tag as
        //# the Verification Tag, and MUST NOT change the state of any
        //# existing association.
        //= specs/rfc9260.txt#section-3.3.2
        //# A receiver of an INIT chunk with the OS value set to 0 MUST discard
        //# the packet, SHOULD send a packet in response containing an ABORT chunk
        //# and using the Initiate Tag as the Verification Tag, and MUST NOT
        //# change the state of any existing association.
        //= specs/rfc9260.txt#section-3.3.2
        //# A receiver of an INIT chunk with the MIS value set to 0 MUST discard
        //# the packet, SHOULD send a packet in response containing an ABORT chunk
        //# and using the Initiate Tag as the Verification Tag, and MUST NOT
        //# change the state of any existing association.
        if init.a_rwnd < A_RWND_MIN || init.outbound_streams == 0 || init.inbound_streams == 0 {
            return Err(vec![Cause::InvalidMandatoryParameter]);
        }
        //= specs/rfc9260.txt#section-3.3.2.1.4
        //# The receiver of an INIT chunk or an INIT ACK containing
        //# a Host Name Address parameter MUST send an ABORT chunk and MAY
        //# include an "Unresolvable Address" error cause.
        //= specs/rfc9260.txt#section-3.3.2
        //# The receiver of an INIT chunk containing a Host Name Address parameter
        //# MUST send an ABORT chunk and MAY include an "Unresolvable Address"
        //# error cause.
        //= specs/rfc9260.txt#section-5.1.2
        //# If there is a Host Name Address parameter present in the received INIT
        //# or INIT ACK chunk, the endpoint MUST immediately send an ABORT chunk
        //# and MAY include an "Unresolvable Address" error cause to its peer.
        //= specs/rfc9260.txt#section-12.2.4.1
        //# Endpoints receiving INIT or INIT ACK chunks containing the Host Name
        //# Address parameter MUST send an ABORT chunk in response and MAY include
        //# an "Unresolvable Address" error cause.
        if let Some(name) = init.parameters.iter().find(|p| matches!(p, Parameter::HostName(_))) {
            return Err(vec![Cause::UnresolvableAddress(encoded(std::slice::from_ref(name)))]);
        }
        let existing = self.existing(route.peer, header, init);
        let config = match existing {
            Some((_, slot)) => Some(&slot.known.config),
            None => self.listeners.get(&header.destination_port),
        };
        //= specs/rfc4895.txt#section-6.1
        //# If the Random
        //# Number is not 32 bytes, the association MUST be aborted.  The ABORT
        //# chunk SHOULD contain the error cause 'Protocol Violation'.
        if config.is_some_and(|config| config.security.auth.is_some())
            && key_vector(&init.parameters) == Err(BadParameters)
        {
            let words = Violation::AuthParameters.to_string().into_bytes();
            return Err(vec![Cause::ProtocolViolation(words.into())]);
        }
        //= specs/rfc5061.txt#section-6
        //# If an SCTP endpoint that supports this extension receives an INIT
        //# that indicates that the peer supports the ASCONF extension but does
        //# NOT support the [RFC4895] extension, the receiver of such an INIT
        //# MUST send an ABORT in response.
        if config.is_some_and(|config| config.paths.asconf && config.security.dtls.is_none())
            && Extensions::listed(init).asconf
            && key_vector(&init.parameters) == Ok(None)
        {
            let words = Violation::AsconfWithoutAuth.to_string().into_bytes();
            return Err(vec![Cause::ProtocolViolation(words.into())]);
        }
        if let Some((_, slot)) = existing
            && slot.association.phase() == Phase::ShutdownAckSent
            && slot.association.requires_protection()
        {
            // A normal response would be discarded: T2 retransmits SHUTDOWN ACK, protected.
            return Ok(None);
        }
        let Some((peer, slot)) = existing else {
            let Some(config) = self.listeners.get(&header.destination_port) else {
                return Err(Vec::new());
            };
            let config = Arc::clone(config);
            if !self.has_room(route.peer.ip(), &config, MakeRoom::No) {
                return Err(vec![Cause::OutOfResource]);
            }
            return Ok(Some((route, self.new_offer(route, init, config, None))));
        };
        let phase = slot.association.phase();
        //= specs/rfc9260.txt#section-5.2.2
        //# Before responding, the endpoint MUST check to see if the unexpected
        //# INIT chunk adds new addresses to the association.
        //= specs/rfc9260.txt#section-5.2.2
        //# The error SHOULD list the addresses that were added to the restarting
        //# association.
        // A late copy of the INIT that started the association adds no address: what it lists may have
        // been deleted since (RFC 5061). An ABORT with its tag would end the association at the peer. A
        // restart has a new tag (§5.3.1).
        let is_old = !matches!(phase, Phase::CookieWait | Phase::CookieEchoed)
            && slot.association.peer_tag() == Some(init.initiate_tag);
        let added: Vec<_> = std::iter::once(route.peer.ip())
            .chain(init.addresses())
            .filter(|_| !is_old)
            // An address that no local address can reach belongs to no association, including the old
            // one.
            .filter(|&ip| is_unicast(ip) && slot.association.can_reach(ip) && !slot.knows(ip))
            .map(Parameter::Address)
            .collect();
        match phase {
            //= specs/rfc9260.txt#section-5.2.1
            //# Upon receipt of an INIT chunk in the COOKIE-WAIT state, an endpoint
            //# MUST respond with an INIT ACK chunk using the same parameters it sent
            //# in its original INIT chunk (including its Initiate Tag, unchanged).
            //= specs/rfc9260.txt#section-5.2.1
            //# The packet containing the INIT ACK chunk MUST only be sent to an
            //# address passed by the upper layer in the request to initialize
            //# the association.
            //= specs/rfc9260.txt#section-5.2.1
            //# The packet containing the INIT ACK chunk MUST only be sent to an
            //# address reported in the incoming INIT chunk.
            Phase::CookieWait => {
                // The address by which the INIT was mapped to this association: its source, or one that
                // it lists.
                let path = slot.association.paths().find(|path| path.peer == peer && peer != route.peer);
                let route = path.map_or(route, |path| Route { local: path.local, peer });
                //= specs/rfc9260.txt#section-5.2.1
                //# When responding, the following rules MUST be applied:
                //= specs/rfc9260.txt#section-5.2.1
                //# After that, the endpoint MUST NOT change its state, the T1-init timer
                //# MUST be left running, and the corresponding TCB MUST NOT be destroyed.
                Ok(Some((route, slot.offer_again(None))))
            }
            //= specs/rfc9260.txt#section-9.2
            //# it SHOULD discard the INIT chunk and retransmit the
            //# SHUTDOWN ACK chunk.
            Phase::ShutdownAckSent => {
                if let Some(tag) = slot.association.peer_tag() {
                    let header = answering(header, tag);
                    self.answer(Answer { route, header, chunks: vec![Chunk::ShutdownAck] });
                }
                Ok(None)
            }
            //= specs/rfc9260.txt#section-5.2.2
            //# If
            //# new addresses are added to the association, the endpoint MUST respond
            //# with an ABORT chunk, copying the 'Initiate Tag' of the unexpected
            //# INIT chunk into the 'Verification Tag' of the outbound packet
            //# carrying the ABORT chunk.
            _ if !added.is_empty() => {
                //= specs/rfc9260.txt#section-5.2.1
                //# If the INIT chunk indicates that a new address has been added to the
                //# association, then the entire INIT chunk MUST be discarded, and the
                //# state of the existing association SHOULD NOT be changed.
                //= specs/rfc9260.txt#section-5.2.1
                //# An ABORT chunk SHOULD be sent in a response that MAY include the
                //# "Restart of an Association with New Addresses" error cause.
                //= specs/rfc9260.txt#section-5.2.1
                //# The error SHOULD list the addresses that were added to the restarting
                //# association.
                Err(vec![Cause::RestartWithNewAddresses(encoded(&added[..added.len().min(MAX_ADDRESSES)]))])
            }
            //= specs/rfc9260.txt#section-5.2.1
            //# For an endpoint that is in the COOKIE-ECHOED state, it MUST populate
            //# its Tie-Tags within both the association TCB and inside the State
            //# Cookie (see Section 5.2.2 for a description of the Tie-Tags).
            //= specs/rfc9260.txt#section-5.2.1
            //# Upon receipt of an INIT chunk in the COOKIE-ECHOED state, an endpoint
            //# MUST respond with an INIT ACK chunk using the same parameters it sent
            //# in its original INIT chunk (including its Initiate Tag, unchanged),
            Phase::CookieEchoed => Ok(Some((route, slot.offer_again(Some(slot.known.tie_tags))))),
            //= specs/rfc9260.txt#section-5.2.2
            //# And the INIT ACK chunk MUST contain a new
            //# Initiate Tag (randomly generated; see Section 5.3.1).
            _ => {
                //= specs/rfc9260.txt#section-5.2.2
                //# Other parameters for the endpoint SHOULD be copied from the existing
                //# parameters of the association (e.g., number of outbound streams) into
                //# the INIT ACK chunk and cookie.
                let (config, tie_tags) = (Arc::clone(&slot.known.config), slot.known.tie_tags);
                //= specs/rfc9260.txt#section-5.2.2
                //# If no new addresses are added, when responding to the INIT chunk in
                //# the outbound INIT ACK chunk, the endpoint MUST copy its current
                //# Tie-Tags to a reserved place within the State Cookie and the
                //# association's TCB.
                Ok(Some((route, self.new_offer(route, init, config, Some(tie_tags)))))
            }
        }
    }

    fn new_offer(
        &mut self,
        route: Route,
        init: &Init,
        config: Arc<Config>,
        tie_tags: Option<TieTags>,
    ) -> Offer {
        let listed = listed_by(init, route);
        //= specs/rfc9260.txt#section-3.3.3
        //# The valid range is from 0 to 4294967295 and the Initial TSN SHOULD be
        //# set to a random value in that range.
        let addresses = to_list(&self.addresses_for(route, &listed), route.peer.ip());
        let (tag, initial_tsn) = (self.new_tag(), Tsn(self.rng.next_u32()));
        let mut random = [0; RANDOM_LEN];
        if config.security.auth.is_some() {
            self.rng.fill_bytes(&mut random);
        }
        let keys = config.security.dtls.clone().map(|dtls| {
            // The side that draws last can avoid the other's number.
            let theirs = key_management(init).map(|keys| keys.tie_breaker);
            let mut tie_breaker = self.rng.next_u32();
            while Some(tie_breaker) == theirs {
                tie_breaker = self.rng.next_u32();
            }
            (dtls.mode, offer(&dtls, tie_breaker))
        });
        Offer { config, tag, initial_tsn, tie_tags, addresses, random, keys }
    }

    /// Returns the existing association with the sender of an INIT, by any of its addresses, and that
    /// address.
    fn existing(&self, from: SocketAddr, header: &Header, init: &Init) -> Option<(SocketAddr, &Slot)> {
        //= specs/rfc9260.txt#section-5.1.2
        //# D)  An INIT or INIT ACK chunk MUST be treated as belonging to an
        //# already established association (or one in the process of being
        //# established) if the use of any of the valid address parameters
        //# contained within the chunk would identify an existing TCB.
        let listed = init.addresses().take(MAX_ADDRESSES).map(|ip| SocketAddr::new(ip, from.port()));
        std::iter::once(from).chain(listed).find_map(|peer| {
            let slot = self.table.by_address(header.destination_port, header.source_port, peer)?;
            Some((peer, slot))
        })
    }

    /// Whether an INIT has the tag of the peer of a protected association, or one about to be protected.
    /// Such an INIT is old or forged: a restart draws a new tag (RFC 9260 §5.3.1). An unprotected ABORT
    /// with that tag would end the association at a peer that does not discard unprotected packets yet.
    fn bears_protected_tag(&self, route: Route, header: &Header, init: &Init) -> bool {
        self.existing(route.peer, header, init).is_some_and(|(_, slot)| {
            slot.association.opens_records() && slot.association.peer_tag() == Some(init.initiate_tag)
        })
    }

    /// Builds the INIT ACK, whose cookie contains the whole state.
    fn init_ack(&mut self, now: Time, route: Route, header: &Header, init: &Init, offer: Offer) -> Init {
        let agreement = offer.agree(init).ok().flatten();
        let Offer { config, tag, initial_tsn, tie_tags, addresses, random, keys } = offer;
        let wanted = init.parameters.iter().find_map(|parameter| match parameter {
            Parameter::CookiePreservative(millis) => Some(Duration::from_millis(u64::from(*millis))),
            _ => None,
        });
        let extension = wanted.unwrap_or_default().min(MAX_COOKIE_EXTENSION);
        //= specs/rfc9260.txt#section-5.2.2
        //# For a normal association INIT chunk (i.e., the
        //# endpoint is in the CLOSED state), the Tie-Tags MUST be set to 0
        //# (indicating that no previous TCB existed).
        let supported = Extensions::of(&config).in_response_to(Extensions::listed(init), &config);
        //= specs/rfc9260.txt#section-5.1
        //# Moreover, "Z" MUST generate and send along with the INIT ACK chunk a
        //# State Cookie.
        //= specs/rfc9260.txt#section-5.2.1
        //# The endpoint MUST also generate a State Cookie with the INIT ACK
        //# chunk.
        //= specs/rfc9260.txt#section-5.2.2
        //# Unless otherwise stated, upon receipt of an unexpected INIT chunk for
        //# this association, the endpoint MUST generate an INIT ACK chunk with a
        //# State Cookie.
        let auth = parameters(&config, &random);
        //= specs/rfc4895.txt#section-6.3
        //# Furthermore, it is important that the cookie contained in an INIT-ACK
        //# chunk and in a COOKIE-ECHO chunk MUST NOT contain any endpoint pair
        //# shared keys.
        let vectors = match (key_vector(&auth), key_vector(&init.parameters)) {
            (Ok(Some(local)), Ok(Some(peer))) => Some(KeyVectors { local, peer }),
            _ => None,
        };
        self.keys.prepare(now);
        let lifespan = (config.handshake.valid_cookie_life + extension).min(KEY_LIFE);
        self.table.note_cookie(tag, now + lifespan);
        let cookie = self.keys.seal(&Contents {
            created: now,
            lifespan,
            local_port: header.destination_port,
            peer_port: header.source_port,
            local: route.local,
            //= specs/rfc9260.txt#section-3.3.2.1.2
            //# If the INIT chunk does not contain any IP Address parameters, the
            //# endpoint receiving the INIT chunk MUST use the source address
            //# associated with the received IP datagram as its sole destination
            //# address for the association.
            peer: route.peer,
            peer_addresses: listed_by(init, route),
            local_tag: tag,
            peer_tag: init.initiate_tag,
            local_initial_tsn: initial_tsn,
            peer_initial_tsn: init.initial_tsn,
            peer_a_rwnd: init.a_rwnd,
            //= specs/rfc9260.txt#section-5.1.1
            //# After the association is initialized, the valid outbound stream
            //# identifier range for either endpoint MUST be 0 to min(local OS,
            //# remote MIS) - 1.
            outbound_streams: config.streams.outbound.min(init.inbound_streams),
            inbound_streams: config.streams.inbound.min(init.outbound_streams),
            extensions: supported.and(Extensions::listed(init)),
            auth: vectors,
            key_management: agreement.as_ref().map(|it| [it.local.clone(), it.peer.clone()]),
            adaptation: init.adaptation(),
            tie_tags,
        });
        let mut ack = Init {
            initiate_tag: tag,
            a_rwnd: u32::try_from(config.passive_receive_buffer_bytes()).unwrap_or(u32::MAX),
            //= specs/rfc9260.txt#section-3.3.3
            //# The value of 0 MUST
            //# NOT be used, and the value MUST NOT be greater than the MIS value
            //# sent in the INIT chunk.
            outbound_streams: config.streams.outbound.min(init.inbound_streams),
            inbound_streams: config.streams.inbound,
            initial_tsn,
            //= specs/rfc9260.txt#section-3.3.3
            //# Note 3: An INIT ACK chunk MUST NOT contain the Host Name Address
            //# parameter.
            //= specs/rfc9260.txt#section-3.3.3.1
            //# The Host Name Address parameter is described in Section 3.3.2.1.4 and
            //# MUST NOT be included in an INIT ACK chunk.
            parameters: Vec::new(),
        };
        let listed: Vec<_> = addresses.into_iter().filter(|ip| is_taken_by(init, route, *ip)).collect();
        if listed.len() > 1 {
            ack.parameters.extend(listed.into_iter().map(Parameter::Address));
        }
        ack.parameters.extend(config.handshake.adaptation.map(Parameter::Adaptation));
        ack.parameters.extend(supported.parameters());
        ack.parameters.extend(auth);
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
        //# If an SCTP endpoint operating in strict DTLS mode receives an SCTP packet
        //# containing an INIT chunk with a compatible DTLS Key Management Parameter,
        //# it MUST reply with a packet containing an INIT ACK containing its own DTLS Key
        //# Management Parameters.
        if let (Some(_), Some((_, own))) = (&agreement, keys) {
            ack.parameters.push(Parameter::KeyManagement(own));
        }
        let cookie = Parameter::StateCookie(cookie);
        let room = MAX_ANSWER_LEN - Header::LEN - cookie.encoded_len();
        //= specs/rfc9260.txt#section-3.2.2
        //# If the receiver of an INIT chunk detects unrecognized parameters and
        //# has to report them according to Section 3.2.1, it MUST put the
        //# "Unrecognized Parameter" parameter(s) in the INIT ACK chunk sent in
        //# response to the INIT chunk.
        for raw in supported.unrecognized(init) {
            //= specs/rfc9260.txt#section-3.3.3.1.2
            //# This parameter is returned to the originator of the INIT chunk when
            //# the INIT chunk contains an unrecognized parameter that has a type that
            //# indicates it SHOULD be reported to the sender.
            let report = Parameter::Unrecognized(raw);
            if ack.encoded_len() + report.encoded_len() + 2 * 3 > room {
                break;
            }
            ack.parameters.push(report);
        }
        ack.parameters.push(cookie);
        ack
    }

    fn answer_init(&mut self, route: Route, header: &Header, init: &Init, chunk: Chunk) {
        //= specs/rfc9260.txt#section-5.1
        //# An endpoint MUST send the INIT ACK chunk to the IP address from which
        //# it received the INIT chunk.
        //= specs/rfc9260.txt#section-3.3.2
        //# This value MUST be placed into the Verification Tag field of every
        //# SCTP packet that the receiver of the INIT chunk transmits within this
        //# association.
        //= specs/rfc9260.txt#section-5.1
        //# In the response, besides filling in other parameters, "Z" MUST set the
        //# Verification Tag field to Tag_A and also provide its own Verification
        //# Tag (Tag_Z) in the Initiate Tag field.
        //= specs/rfc9260.txt#section-5.2.2
        //# The outbound SCTP packet containing this INIT ACK chunk MUST carry a
        //# Verification Tag value equal to the Initiate Tag found in the
        //# unexpected INIT chunk.
        //= specs/rfc9260.txt#section-5.1
        //# The destination IP address of the INIT ACK chunk MUST be set to the
        //# source IP address of the INIT chunk to which this INIT ACK chunk is
        //# responding.
        //= specs/rfc9260.txt#section-5.1.2
        //# The packet containing the INIT ACK chunk MUST be sent to the source
        //# address of the packet containing the INIT chunk.
        //= specs/rfc9260.txt#section-5.2.1
        //# The packet containing the INIT ACK chunk SHOULD be sent to the source
        //# address of the received packet containing the INIT chunk.
        self.answer(Answer { route, header: answering(header, init.initiate_tag), chunks: vec![chunk] });
    }

    /// Processes a packet whose first chunk is a COOKIE ECHO, or the first one after an AUTH chunk.
    pub(super) fn on_cookie_echo(&mut self, now: Time, echo: Echo, turn: HandshakeTurn) {
        let Echo { route, ecn, packet } = echo;
        let mut chunks = packet.chunks();
        let from_auth = chunks.rest();
        let (auth, first) = match chunks.next() {
            Some(Ok(Chunk::Auth(auth))) => (Some((auth, from_auth)), chunks.next()),
            first => (None, first),
        };
        let Some(Ok(Chunk::CookieEcho(cookie))) = first else {
            self.counters.invalid += 1;
            return;
        };
        let header = packet.header;
        self.keys.prepare(now);
        let opened = match self.keys.open(now, &header, &cookie) {
            Ok(opened) => opened,
            Err(CookieError::Forged) => {
                //= specs/rfc9260.txt#section-4
                //# If the State Cookie in the received COOKIE ECHO chunk is invalid
                //# (i.e., failed to pass the integrity check), the receiver MUST silently
                //# discard the packet.
                self.counters.forged_cookies += 1;
                return;
            }
            Err(CookieError::Stale(stale)) => {
                let tags = self
                    .holder(route, stale.contents())
                    .and_then(|slot| Some((slot.known.tag, slot.association.peer_tag()?)));
                let (local, peer) = tags.unwrap_or_default();
                match stale.revived_by(local, peer) {
                    Ok(opened) => opened,
                    Err(stale) => {
                        //= specs/rfc9260.txt#section-5.1.5
                        //# If the elapsed time is longer than the lifespan
                        //# carried in the State Cookie, then the packet, including the
                        //# COOKIE ECHO chunk and any attached DATA chunks, SHOULD be
                        //# discarded, and the endpoint MUST transmit an ERROR chunk with a
                        //# "Stale Cookie" error cause to the peer endpoint.
                        //= specs/rfc9260.txt#section-4
                        //# Or, if the received State Cookie is expired (see Section 5.1.5), the
                        //# receiver MUST send back an ERROR chunk.
                        //= specs/rfc9260.txt#section-5.2.4
                        //# the packet, including the COOKIE ECHO chunk and any DATA chunks,
                        //# SHOULD be discarded.
                        //= specs/rfc9260.txt#section-5.2.4
                        //# The endpoint also MUST transmit an ERROR chunk with a "Stale Cookie"
                        //# error cause to the peer endpoint (this is case C or D in Section 5.2).
                        self.counters.stale_cookies += 1;
                        let error = Chunk::Error(vec![Cause::StaleCookie(stale.staleness_us())]);
                        let header = answering(&header, stale.contents().peer_tag);
                        self.answer_within_budget(now, Answer { route, header, chunks: vec![error] });
                        return;
                    }
                }
            }
        };
        // An intercepted cookie is of no use to a host whose address its owner did not list.
        let from = route.peer.ip();
        if from != opened.peer.ip() && !opened.peer_addresses.contains(&from) {
            self.counters.forged_cookies += 1;
            return;
        }
        if !self.is_authentic(route, &opened, auth.as_ref()) || !self.is_admissible(route, &opened, &packet) {
            self.counters.discarded += 1;
            return;
        }
        let is_authenticated = auth.is_some();
        let id = match self.holder(route, &opened) {
            None => self.begin(now, &opened, turn, Echo { route, ecn, packet: packet.clone() }),
            Some(slot) => {
                let same = |same| if same { Tag::M } else { Tag::X };
                let local = same(opened.local_tag == slot.known.tag);
                let peer = slot.association.peer_tag().map_or(Tag::O, |tag| same(opened.peer_tag == tag));
                let tie_tags = opened.tie_tags.map_or(Tag::O, |tags| same(tags == slot.known.tie_tags));
                let id = slot.id;
                //= specs/rfc9260.txt#section-5.1.5
                //# If a COOKIE ECHO chunk is received from an endpoint with which the
                //# receiver of the COOKIE ECHO chunk has an existing association, the
                //# procedures in Section 5.2 SHOULD be followed.
                match action(local, peer, tie_tags) {
                    Action::Restart => self.restart(now, route, id, &opened),
                    Action::Confirm => self.confirm(now, id, &opened),
                    //= specs/rfc9260.txt#section-5.2.4
                    //# The cookie SHOULD be silently discarded.
                    //= specs/rfc9260.txt#section-5.2.4
                    //# The endpoint SHOULD NOT change states and SHOULD leave any timers
                    //# running.
                    Action::Discard => {
                        self.counters.discarded += 1;
                        None
                    }
                }
            }
        };
        if let Some(id) = id {
            //= specs/rfc4895.txt#section-6.3
            //# If the authentication is
            //# successful, the COOKIE-ECHO and all the chunks after the COOKIE-ECHO
            //# MUST be processed.
            if let Some(slot) = self.table.get_mut(id)
                && is_authenticated
            {
                slot.association.auth_mut().set_verified();
            }
            self.deliver(now, id, route, ecn, packet);
        }
    }

    /// Creates an association from a cookie: a protected one, whose handshake costs more than others, when it has a turn.
    fn begin(
        &mut self,
        now: Time,
        opened: &Opened,
        turn: HandshakeTurn,
        echo: Echo,
    ) -> Option<AssociationId> {
        let route = echo.route;
        // A cookie that creates none takes no turn.
        let is_handshake = opened.key_management.is_some()
            && self.listeners.contains_key(&opened.local_port)
            && !self.table.is_spent(opened.local_tag);
        if is_handshake && turn == HandshakeTurn::Needed {
            match self.waiting.enter(now, opened.peer.ip(), echo) {
                Entry::Turn => {}
                Entry::Place => return None,
                Entry::Crowded => {
                    self.counters.handshakes_dropped += 1;
                    return None;
                }
            }
        }
        self.accept(now, route, opened)
    }

    /// Whether a COOKIE ECHO is authenticated as required: no AUTH chunk precedes it and none is
    /// required, or the AUTH chunk is valid.
    fn is_authentic(&mut self, route: Route, opened: &Opened, auth: Option<&(Auth, &[u8])>) -> bool {
        let holder = self.holder(route, opened).map(|slot| slot.id);
        let config = match holder.and_then(|id| self.table.get(id)) {
            Some(slot) => Arc::clone(&slot.known.config),
            None => match self.listeners.get(&opened.local_port) {
                Some(config) => Arc::clone(config),
                // It is rejected anyway, unless an unknown chunk precedes it.
                None => return auth.is_none(),
            },
        };
        let mut from_cookie = Authentication::new(&config);
        from_cookie.agree(opened.auth.as_ref());
        let Some((auth, from_auth)) = auth else { return !from_cookie.requires(Chunk::COOKIE_ECHO) };
        //= specs/rfc4895.txt#section-6.3
        //# If the receiver has an STCB, it MUST process the
        //# AUTH chunk as described above using the STCB from the existing
        //# association to authenticate the COOKIE-ECHO chunk and all the chunks
        //# after it.
        // An association in COOKIE-WAIT does not know the peer yet: the cookie contains everything there
        // as well.
        let theirs = holder.and_then(|id| self.table.get_mut(id)).map(|slot| slot.association.auth_mut());
        //= specs/rfc4895.txt#section-6.3
        //# In this situation, the receiver MUST authenticate the
        //# chunks in the packet by using the RANDOM parameters, CHUNKS
        //# parameters and HMAC_ALGO parameters obtained from the COOKIE-ECHO
        //# chunk, and possibly a local shared secret as inputs to the
        //# authentication procedure specified in Section 6.3.
        let keys = theirs.filter(|theirs| theirs.is_agreed()).unwrap_or(&mut from_cookie);
        keys.verify(auth, from_auth) == Verdict::Authentic
    }

    /// Returns the existing association of a cookie.
    pub(super) fn holder(&self, route: Route, contents: &Contents) -> Option<&Slot> {
        let ports = (contents.local_port, contents.peer_port);
        let header = Header { source_port: ports.1, destination_port: ports.0, tag: contents.local_tag };
        [contents.peer, route.peer]
            .into_iter()
            .find_map(|peer| self.table.by_address(ports.0, ports.1, peer))
            .or_else(|| self.table.by_tag(&header))
    }

    /// Creates an association from a cookie, if its port is still open.
    fn accept(&mut self, now: Time, route: Route, opened: &Opened) -> Option<AssociationId> {
        // A cookie creates one association. That one has ended: the packet is a retransmission or
        // replay.
        if self.table.is_spent(opened.local_tag) {
            self.counters.forged_cookies += 1;
            return None;
        }
        let refuse = match self.listeners.get(&opened.local_port).map(Arc::clone) {
            None => Err(Vec::new()),
            Some(config) if self.has_room(opened.peer.ip(), &config, MakeRoom::Yes) => Ok(config),
            Some(_) => Err(vec![Cause::OutOfResource]),
        };
        match refuse {
            Ok(config) => {
                let known = Known {
                    config: Arc::clone(&config),
                    local_port: opened.local_port,
                    peer_port: opened.peer_port,
                    tag: opened.local_tag,
                    initial_tsn: opened.local_initial_tsn,
                    tie_tags: self.new_tie_tags(),
                    cookie_until: Some(opened.created + opened.lifespan),
                };
                let route = Route { local: opened.local, peer: opened.peer };
                let local = self.addresses_for(route, &opened.peer_addresses);
                let setup = Passive { config, local, seed: next_seed(&mut self.rng) };
                let id = self.table.insert(known, |id| Association::accept(now, id, opened, setup));
                self.table.opened(now, id, opened.peer.ip());
                self.count_memory(now, id);
                self.map_paths(id);
                Some(id)
            }
            Err(causes) => {
                let header = Header {
                    source_port: opened.local_port,
                    destination_port: opened.peer_port,
                    tag: opened.peer_tag,
                };
                let chunks = vec![Chunk::Abort { reflected: false, causes }];
                self.answer_within_budget(now, Answer { route, header, chunks });
                None
            }
        }
    }

    /// §5.2.4 A: restarts the association with the peer.
    fn restart(
        &mut self,
        now: Time,
        route: Route,
        id: AssociationId,
        opened: &Opened,
    ) -> Option<AssociationId> {
        let tie_tags = self.new_tie_tags();
        let slot = self.table.get_mut(id)?;
        //= specs/rfc9260.txt#section-5.2.4
        //# If the endpoint is in the SHUTDOWN-ACK-SENT state and recognizes that
        //# the peer has restarted (Action A), it MUST NOT set up a new
        //# association but instead resend the SHUTDOWN ACK chunk and send an
        //# ERROR chunk with a "Cookie Received While Shutting Down" error cause
        if slot.association.phase() == Phase::ShutdownAckSent {
            //= specs/rfc9260.txt#section-5.2.4
            //# If the endpoint is in the SHUTDOWN-ACK-SENT state and recognizes
            //# that the peer has restarted (Action A), it MUST NOT set up a new
            //# association but instead resend the SHUTDOWN ACK chunk and send an
            //# ERROR chunk with a "Cookie Received While Shutting Down" error
            //# cause to its peer.
            let header = Header {
                source_port: slot.known.local_port,
                destination_port: slot.known.peer_port,
                tag: slot.association.peer_tag()?,
            };
            let error = Chunk::Error(vec![Cause::CookieReceivedWhileShuttingDown]);
            self.answer(Answer { route, header, chunks: vec![Chunk::ShutdownAck, error] });
            return None;
        }
        slot.association.restart(now, opened);
        slot.known.tie_tags = tie_tags;
        self.table.retag(now, id, opened.local_tag, opened.created + opened.lifespan);
        self.map_paths(id);
        Some(id)
    }

    /// §5.2.4 B and D.
    fn confirm(&mut self, now: Time, id: AssociationId, opened: &Opened) -> Option<AssociationId> {
        let slot = self.table.get_mut(id)?;
        slot.association.confirm(now, opened);
        slot.known.cookie_until = slot.known.cookie_until.max(Some(opened.created + opened.lifespan));
        self.map_paths(id);
        Some(id)
    }
}

impl Slot {
    /// Returns the parameters of the association's own INIT.
    fn offer_again(&self, tie_tags: Option<TieTags>) -> Offer {
        Offer {
            config: Arc::clone(&self.known.config),
            tag: self.known.tag,
            initial_tsn: self.known.initial_tsn,
            tie_tags,
            addresses: self.association.listed_addresses(),
            random: self.association.auth_random(),
            keys: self.association.keys_offered(),
        }
    }
}

/// Returns the addresses that the sender of an INIT lists besides its source, as far as they can be its
/// own.
fn listed_by(init: &Init, route: Route) -> Vec<IpAddr> {
    let mut listed: Vec<IpAddr> = Vec::new();
    for ip in init.addresses().filter(|&ip| reaches(ip, route.peer.ip()) && ip != route.peer.ip()) {
        if listed.len() < MAX_ADDRESSES && !listed.contains(&ip) {
            listed.push(ip);
        }
    }
    listed
}

/// Whether the sender of an INIT supports addresses of this family.
//= specs/rfc9260.txt#section-5.1.2
//# If an SCTP endpoint lists in the 'Supported Address
//# Types' parameter either IPv4 or IPv6 but uses the other family
//# for sending the packet containing the INIT chunk, or if it also
//# lists addresses of the other family in the INIT chunk, then the
//# address family that is not listed in the 'Supported Address
//# Types' parameter SHOULD also be considered as supported by the
//# receiver of the INIT chunk.
fn is_taken_by(init: &Init, route: Route, ip: IpAddr) -> bool {
    //= specs/rfc9260.txt#section-3.3.2.1.5
    //# The value indicating the Host Name Address parameter MUST NOT be used
    //# when sending this parameter and MUST be ignored when receiving this
    //# parameter.
    let named = init.parameters.iter().find_map(|parameter| match parameter {
        Parameter::SupportedAddressTypes(types) => Some(types),
        _ => None,
    });
    let mut shown = std::iter::once(route.peer.ip()).chain(init.addresses());
    //= specs/rfc9260.txt#section-5.1.2
    //# The receiver of the INIT chunk SHOULD NOT respond with any kind of
    //# error indication.
    named.is_none_or(|types| types.contains(&Parameter::Address(ip).kind()))
        || shown.any(|other| other.is_ipv4() == ip.is_ipv4())
}

/// Returns the header of a response to a packet, with its receiver's tag.
fn answering(header: &Header, tag: VerificationTag) -> Header {
    Header { source_port: header.destination_port, destination_port: header.source_port, tag }
}

fn encoded(parameters: &[Parameter]) -> Bytes {
    let mut bytes = BytesMut::new();
    parameters.iter().for_each(|parameter| parameter.encode(&mut bytes));
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::Tag::{M, O, X};
    use super::*;

    #[test]
    fn table_12_determines_the_action_for_a_cookie() {
        //= specs/rfc9260.txt#section-5.2.4
        //= type=test
        //# For any case not shown in Table 12, the cookie SHOULD be silently
        //# discarded.
        for peer in [M, X, O] {
            for ties in [M, X, O] {
                assert_eq!(action(M, peer, ties), Action::Confirm, "B, D: {peer:?} {ties:?}");
                let expected = if (peer, ties) == (X, M) { Action::Restart } else { Action::Discard };
                assert_eq!(action(X, peer, ties), expected, "A, C: {peer:?} {ties:?}");
            }
        }
    }
}
