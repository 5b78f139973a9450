//! ICMP and ICMPv6 messages about packets that were not delivered (RFC 9260 §10).
//!
//! A message is accepted if the packet it quotes proves that its sender saw a packet of ours. It never
//! triggers a response to its sender. "Port unreachable" for the peer's UDP port ends an association only
//! after three consecutive HEARTBEATs were refused and not acknowledged, or before it is up after as many INITs as
//! [`crate::config::Handshake::refused_inits`] says (`association/refused.rs`).
//! Unreachable hosts and networks are left to timers and HEARTBEATs, since routers also report short
//! outages. The lower layer parses the messages and identifies the quoted packet.

use std::net::SocketAddr;

use braidftp_base::Time;

use super::{Endpoint, Slot};
use crate::ids::VerificationTag;
use crate::route::Route;
use crate::stats::Phase;
use crate::wire::{Chunk, Init};

/// An ICMP or ICMPv6 message, depending on the addresses, about an SCTP packet sent by this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Icmp<'a> {
    /// The source of the packet, with its UDP encapsulation port.
    pub local: SocketAddr,
    /// The destination of the packet, with its UDP encapsulation port.
    pub peer: SocketAddr,
    /// The message's type (RFC 792, RFC 4443).
    pub kind: u8,
    /// The message's code.
    pub code: u8,
    /// For "packet too big": the maximum size of an SCTP packet in bytes, which is the MTU less the
    /// headers of IP and UDP. 0 if the message contains none.
    pub size: usize,
    /// The quoted SCTP packet, from the source port on.
    pub quoted: &'a [u8],
}

impl Icmp<'_> {
    pub(super) fn meaning(&self) -> Meaning {
        match (self.peer.is_ipv4(), self.kind, self.code) {
            // Over UDP, the peer's kernel reports this when the process with the port has ended (RFC
            // 6951 §5.5).
            (true, 3, 3) | (false, 1, 4) if self.peer.port() != 0 => Meaning::NoSuchPort,
            //= specs/rfc9260.txt#section-10
            //# ICMP3)  An implementation SHOULD ignore any ICMP messages where the
            //# code indicates "Port Unreachable".
            (true, 3, 3) | (false, 1, 4) => Meaning::Nothing,
            (true, 3, 4) | (false, 2, _) => Meaning::TooBig,
            (true, 3, 2) | (false, 4, 1) => Meaning::NoSuchProtocol,
            //= specs/rfc9260.txt#section-10
            //# ICMP9)  If the ICMP type is "Destination Unreachable", the
            //# implementation MAY move the destination to the unreachable
            //# state or, alternatively, increment the path error counter.
            // This implementation does neither.
            (true, 3, _) | (false, 1, _) => Meaning::Nothing,
            //= specs/rfc9260.txt#section-10
            //# ICMP1)  An implementation MAY ignore all ICMPv4 messages where the
            //# type field is not set to "Destination Unreachable".
            //= specs/rfc9260.txt#section-10
            //# ICMP2)  An implementation MAY ignore all ICMPv6 messages where the
            //# type field is not "Destination Unreachable", "Parameter
            //# Problem", or "Packet Too Big".
            //= specs/rfc9260.txt#section-10
            //# ICMP4)  An implementation MAY ignore all ICMPv6 messages of type
            //# "Parameter Problem" if the code is not "Unrecognized Next
            //# Header Type Encountered".
            _ => Meaning::Nothing,
        }
    }
}

/// The relevant meaning of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    TooBig,
    NoSuchProtocol,
    NoSuchPort,
    Nothing,
}

/// The kind of packet that a message quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quoted {
    Init,
    Other,
}

impl Endpoint {
    /// Processes an ICMP message that arrived at `now`. Drain [`Endpoint::poll`] afterwards.
    //= specs/rfc9260.txt#section-10
    //# Whenever an ICMP message is received by an SCTP endpoint, the
    //# following procedures MUST be followed to ensure proper utilization of
    //# the information being provided by layer 3.
    //= specs/rfc9260.txt#section-12.4
    //# To provide a non-SCTP-capable host with the same level of protection
    //# against attacks as for SCTP-capable ones, all SCTP implementations
    //# MUST implement the ICMP handling described in Section 10.
    pub fn handle_icmp(&mut self, now: Time, message: Icmp<'_>) {
        let meaning = message.meaning();
        if meaning == Meaning::Nothing {
            return;
        }
        let Icmp { local, peer, size, .. } = message;
        let Some(&[s0, s1, d0, d1]) = message.quoted.first_chunk() else { return };
        let (local_port, peer_port) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
        //= specs/rfc9260.txt#section-10
        //# ICMP5)  An implementation MUST use the payload of the ICMP message
        //# (v4 or v6) to locate the association that sent the message to
        //# which ICMP is responding.  If the association cannot be
        //# found, an implementation SHOULD ignore the ICMP message.
        let Some(id) = self.table.by_address(local_port, peer_port, peer).map(|slot| slot.id) else { return };
        let Some(slot) = self.table.get_mut(id) else { return };
        let Some(quoted) = ours(message.quoted, slot) else { return };
        match (meaning, quoted) {
            //= specs/rfc9260.txt#section-10
            //# ICMP7)  If the ICMP message is either an ICMPv6 message of type
            //# "Packet Too Big" or an ICMPv4 message of type "Destination
            //# Unreachable" and code "Fragmentation Needed", an
            //# implementation SHOULD process this information as defined for
            //# PMTU discovery.
            //= specs/rfc8899.txt#section-4.6.1
            //# A PL that supports PTB messages MUST validate these messages before they
            //# are further processed.
            (Meaning::TooBig, _) => slot.association.on_packet_too_big(now, Route { local, peer }, size),
            //= specs/rfc9260.txt#section-10
            //# ICMP8)  If the ICMP code is "Unrecognized Next Header Type
            //# Encountered" or "Protocol Unreachable", an implementation
            //# MUST treat this message as an abort with the T bit set if it
            //# does not contain an INIT chunk.  If it does contain an INIT
            //# chunk and the association is in the COOKIE-WAIT state, handle
            //# the ICMP message like an ABORT chunk.
            // Unlike Protocol Unreachable, this does not end the association by itself: HEARTBEATs
            // follow.
            (Meaning::NoSuchPort, Quoted::Other) => {
                slot.association.on_port_unreachable(Route { local, peer })
            }
            (Meaning::NoSuchPort, Quoted::Init) => slot.association.on_init_refused(),
            (Meaning::NoSuchProtocol, Quoted::Init) if slot.association.phase() != Phase::CookieWait => {
                return;
            }
            (Meaning::NoSuchProtocol, _) => slot.association.on_protocol_unreachable(),
            (Meaning::Nothing, _) => return,
        }
        self.settle(now, id);
        self.table.ready(id);
    }
}

/// Returns the kind of the quoted packet if this association sent it, which its tag proves: the peer's
/// tag or, in an INIT, the Initiate Tag. Only those who saw the packet know either. An INIT contains the
/// tag for the peer's packets, which is compared.
//= specs/rfc9260.txt#section-10
//# ICMP6)  An implementation MUST validate that the Verification Tag
//# contained in the ICMP message matches the Verification Tag of
//# the peer.  If the Verification Tag is not 0 and does not
//# match, discard the ICMP message.  If it is 0 and the ICMP
//# message contains enough bytes to verify that the chunk type
//# is an INIT chunk and that the Initiate Tag matches the tag of
//# the peer, continue with ICMP7.  If the ICMP message is too
//# short or the chunk type or the Initiate Tag does not match,
//# silently discard the packet.
// An INIT that was sent from here holds the tag that the peer is to use, which is what can be compared.
//= specs/rfc8899.txt#section-4.6.1
//# The PL MUST check the protocol information in the quoted packet
//# carried in an ICMP PTB message payload to validate the message
//# originated from the sending node.
//= specs/rfc8899.txt#section-4.6.1
//# The validation SHOULD utilize information that is not simple for an off-
//# path attacker to determine [BCP145].
//= specs/rfc8899.txt#section-6.2.1.4
//# Normal ICMP validation MUST be performed as specified in Appendix C of
//# [RFC4960].
//= specs/rfc8899.txt#section-6.2.2.4
//# ICMP validation MUST be performed for PTB messages as specified in
//# Appendix C of [RFC4960].
//= specs/rfc8899.txt#section-8
//# A node supporting DPLPMTUD MUST therefore appropriately validate the
//# payload of PTB messages to ensure these are received in response to
//# transmitted traffic (i.e., a reported error condition that corresponds
//# to a datagram actually sent by the path layer, see Section 4.6.1).
//= specs/rfc8899.txt#section-8
//# This processing SHOULD be limited to avoid a denial-of-service attack
//# when arbitrary headers are included.
//= specs/rfc6951.txt#section-5.5
//# If a
//# received ICMP or ICMPv6 packet cannot be related to a specific SCTP
//# association or the verification tag cannot be verified, it MUST be
//# discarded silently.
fn ours(quoted: &[u8], slot: &Slot) -> Option<Quoted> {
    let tag_at =
        |at: usize| quoted.get(at..)?.first_chunk().map(|tag| VerificationTag(u32::from_be_bytes(*tag)));
    let tag = tag_at(TAG_AT)?;
    if tag != VerificationTag(0) {
        return (slot.association.peer_tag() == Some(tag)).then_some(Quoted::Other);
    }
    let init = quoted.get(CHUNK_AT) == Some(&Init::KIND) && tag_at(INITIATE_TAG_AT)? == slot.known.tag;
    init.then_some(Quoted::Init)
}

/// The offsets of the Verification Tag (RFC 9260 §3.1), of the first chunk, and of an INIT's Initiate
/// Tag (§3.3.2), in bytes.
const TAG_AT: usize = 4;
const CHUNK_AT: usize = crate::wire::Header::LEN;
const INITIATE_TAG_AT: usize = CHUNK_AT + Chunk::HEADER_LEN;
