//! Processing of INIT ACK on the active side (RFC 9260 §3.3.3, §5.1.2 to §5.1.4): validates it, takes the
//! peer's addresses and streams, and echoes the cookie; or rejects it.

use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::Time;
use bytes::{Bytes, BytesMut};

use super::Peer;
use crate::association::auth;
use crate::association::pairing::{in_scope, pair_up, reaches};
use crate::association::path::Path;
use crate::association::shutdown::FinalPacket;
use crate::association::state::{State, quotable};
use crate::association::{Association, Reason, Violation};
use crate::config::A_RWND_MIN;
use crate::cookie::MAX_ADDRESSES;
use crate::dtls::{Agreement, PACKET_OVERHEAD};
use crate::extensions::Extensions;
use crate::ids::{PathId, VerificationTag};
use crate::route::Route;
use crate::wire::{Auth, Cause, Chunk, Header, Init, KeyVectors, Parameter};

/// The contents of a valid INIT ACK, besides those of [`Peer`].
struct Answer {
    cookie: Bytes,
    /// The peer's key vector, if both sides authenticate.
    key_vector: Option<Bytes>,
    /// The agreed key management, if there is any.
    agreement: Option<Agreement>,
}

/// Why an INIT ACK is rejected.
enum Refusal {
    /// Its Initiate Tag is 0, so no response is possible.
    NoTag,
    /// Its window is smaller than the minimum.
    SmallWindow,
    /// The sender supports ASCONF without authentication.
    AsconfWithoutAuth,
    /// Another violation, which is reported to the peer.
    Violation(Violation),
}

impl Association {
    /// Processes an INIT ACK from `from`, received on `path` if that is the address of one.
    pub(in crate::association) fn on_init_ack(
        &mut self,
        now: Time,
        path: PathId,
        from: SocketAddr,
        init_ack: &Init,
    ) {
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
        let Answer { cookie, key_vector, agreement } = match self.check_init_ack(init_ack) {
            Ok(answer) => answer,
            Err(refusal) => return self.refuse_init_ack(path, init_ack, refusal),
        };
        self.measure_init(now, path, init_ack);
        if let State::CookieWait { sent_at, .. } = &self.state {
            self.renewal.init_took = sent_at.first().map_or(Duration::ZERO, |first| now.since(*first));
        }
        let offered = self.offered();
        self.replace_paths(self.routes_to(path, from, init_ack));
        //= specs/rfc9260.txt#section-5.1.1
        //# After the association is initialized, the valid outbound stream
        //# identifier range for either endpoint MUST be 0 to min(local OS,
        //# remote MIS) - 1.
        //= specs/rfc9260.txt#section-5.1.1
        //# After receiving the stream configuration information from the other
        //# side, each endpoint MUST perform the following check: If the peer's
        //# MIS is less than the endpoint's OS,
        self.outbound_streams = self.config.streams.outbound.min(init_ack.inbound_streams);
        self.inbound_streams = self.config.streams.inbound.min(init_ack.outbound_streams);
        let peer = Peer::of_init_ack(init_ack, offered);
        let own = auth::key_vector(&auth::parameters(&self.config, &self.auth_random));
        let vectors = match (own, key_vector) {
            (Ok(Some(local)), Some(peer)) => Some(KeyVectors { local, peer }),
            _ => None,
        };
        self.agree_on_auth(vectors.as_ref());
        self.begin_protection(agreement);
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

    /// Returns the path of the INIT that this INIT ACK answers.
    fn asked_by(&self, path: PathId, from: SocketAddr, init_ack: &Init) -> PathId {
        // Some peers respond from one address whatever the destination was; the addresses that they list
        // tell which path it can be.
        let asked = |path: &Path| init_ack.addresses().any(|ip| ip == path.peer.ip());
        match self.paths.iter().position(asked) {
            Some(index) if self.paths[usize::from(path.0)].peer.ip() != from.ip() => PathId(index as u8),
            _ => path,
        }
    }

    /// Returns the routes to a peer that received an INIT on `path` and responded from `from`.
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
            // The encapsulation port is the one given by the user, or that of the responding address.
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

    /// Validates an INIT ACK.
    fn check_init_ack(&self, init_ack: &Init) -> Result<Answer, Refusal> {
        if init_ack.initiate_tag == VerificationTag(0) {
            return Err(Refusal::NoTag);
        }
        if init_ack.a_rwnd < A_RWND_MIN {
            return Err(Refusal::SmallWindow);
        }
        let key_vector = match &self.config.security.auth {
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
        // That is, a peer that supports ASCONF with authentication; one that supports neither is
        // acceptable.
        let needs_auth = self.config.paths.asconf && self.config.security.dtls.is_none();
        if needs_auth && Extensions::listed(init_ack).asconf && key_vector == Ok(None) {
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
        let agreement = self.agree_with(init_ack).map_err(|why| Refusal::Violation(Violation::Dtls(why)))?;
        let Some(cookie) = init_ack.state_cookie() else {
            return Err(Refusal::Violation(Violation::InitAckWithoutCookie));
        };
        //= specs/rfc9260.txt#section-3.3.3
        //# Implementation Note: An implementation MUST be prepared to receive an
        //# INIT ACK chunk that is quite large (more than 1500 bytes) due to the
        //# variable size of the State Cookie and the variable address list.
        let auth_len = match self.config.security.dtls {
            Some(_) => PACKET_OVERHEAD,
            None if self.config.security.auth.is_some() => Auth::MAX_LEN,
            None => 0,
        };
        if cookie.len() > self.paths[0].mtu - Header::LEN - Chunk::HEADER_LEN - auth_len {
            return Err(Refusal::Violation(Violation::CookieTooLong));
        }
        //= specs/rfc9260.txt#section-3.3.11
        //# Cookie: variable size This field MUST contain the exact cookie
        //# received in the State Cookie parameter from the previous INIT ACK
        //# chunk.
        Ok(Answer { cookie: cookie.clone(), key_vector, agreement })
    }

    /// Rejects an INIT ACK: the association ends, except if only the window is too small.
    fn refuse_init_ack(&mut self, path: PathId, init_ack: &Init, refusal: Refusal) {
        match refusal {
            Refusal::NoTag => {
                //= specs/rfc9260.txt#section-3.3.3
                //# If an endpoint in the COOKIE-WAIT state receives an INIT ACK chunk
                //# with the Initiate Tag set to 0, it MUST destroy the TCB and SHOULD
                //# send an ABORT chunk with the T bit set.
                let chunk = Chunk::Abort { reflected: true, causes: vec![Cause::InvalidMandatoryParameter] };
                self.final_packet = Some(Box::new(FinalPacket { path, tag: self.tag, chunk: Some(chunk) }));
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
                self.final_packet =
                    Some(Box::new(FinalPacket { path, tag: init_ack.initiate_tag, chunk: Some(chunk) }));
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
                self.final_packet =
                    Some(Box::new(FinalPacket { path, tag: init_ack.initiate_tag, chunk: None }));
                // An unresolvable address is quoted, as on the passive side; a name that is too long is
                // reported without quotation.
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
}

/// Returns the Host Name Address parameter, which an INIT ACK must not contain.
fn host_name(init_ack: &Init) -> Option<&Parameter> {
    init_ack.parameters.iter().find(|parameter| matches!(parameter, Parameter::HostName(_)))
}
