//! Processing of INIT (RFC 9260 §5.1, §5.2): INIT ACK and its cookie for new peers, collisions of INITs, and restarts.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use bytes::{Bytes, BytesMut};
use rand_core::Rng;

use super::Endpoint;
use super::answers::{Answer, MAX_ANSWER_LEN};
use super::memory::MakeRoom;
use super::table::Slot;
use crate::association::{BadParameters, RANDOM_LEN, Violation, key_vector, parameters, reaches, to_list};
use crate::config::{A_RWND_MIN, Config};
use crate::cookie::{Contents, KEY_LIFE, MAX_ADDRESSES, TieTags};
use crate::dtls::{Agreement, Disagreement, Mode, agree, key_management, offer};
use crate::extensions::Extensions;
use crate::ids::{Tsn, VerificationTag};
use crate::route::{Route, is_unicast};
use crate::stats::Phase;
use crate::wire::{Cause, Chunk, Header, Init, KeyManagement, KeyVectors, Packet, Parameter};

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
pub(super) fn answering(header: &Header, tag: VerificationTag) -> Header {
    Header { source_port: header.destination_port, destination_port: header.source_port, tag }
}

fn encoded(parameters: &[Parameter]) -> Bytes {
    let mut bytes = BytesMut::new();
    parameters.iter().for_each(|parameter| parameter.encode(&mut bytes));
    bytes.freeze()
}
