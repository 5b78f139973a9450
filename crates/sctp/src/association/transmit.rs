//! Fills packets (RFC 9260 §6.1, §6.10): selects the path, then bundles chunks from the control chunks that
//! MUST come first to lost and new data.

mod data;

use braidftp_base::{Ecn, Time};
use bytes::Bytes;

use crate::association::multipath::next_lost;
use crate::association::permit::SendPermit;
use crate::association::state::{Shutdown, State};
use crate::association::timers::Timer;
use crate::association::{Association, Split, Transmit};
use crate::config::Fragments;
use crate::ids::{PathId, VerificationTag};
use crate::packet_builder::Checksum;
use crate::stats::PathState;
use crate::wire::{Chunk, Header, NrSack, Sack};

/// The maximum length of a HEARTBEAT in bytes.
const HEARTBEAT_LEN_MAX: usize = 64;

/// A sealed packet that is longer than those of its batch: it begins the next batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    /// Its path.
    path: PathId,
    /// Whether it may be marked ECT(0).
    ect: bool,
}

/// A chunk that is larger than the packets of its path, because these became smaller since it was cut.
struct Oversized {
    /// Bytes of the chunk.
    bytes: usize,
    /// Why it is sent.
    permit: SendPermit,
}

impl Association {
    /// Returns packets to send, if there are any.
    pub(super) fn transmit(&mut self, now: Time) -> Option<Transmit> {
        if let Some(carried) = self.carried.take() {
            self.builder.resume();
            return self.fill_batch(now, carried.path, carried.ect);
        }
        if let Some(final_packet) = self.final_packet.take_if(|final_packet| final_packet.chunk.is_some()) {
            self.begin(final_packet.path, final_packet.tag);
            //= specs/rfc9260.txt#section-3.3.7
            //# DATA chunks MUST NOT be bundled with ABORT chunks.
            //= specs/rfc9260.txt#section-3.3.7
            //# Control chunks (except for INIT, INIT ACK, and SHUTDOWN COMPLETE) MAY
            //# be bundled with an ABORT chunk, but they MUST be placed before the
            //# ABORT chunk in the SCTP packet; otherwise, they will be ignored by the
            //# receiver.
            self.builder.push(&final_packet.chunk.expect("just checked"));
            return Some(self.finish(final_packet.path));
        }
        match &mut self.state {
            State::CookieWait { init_due, .. } => {
                if std::mem::take(init_due) {
                    return Some(self.transmit_init(now));
                }
                None
            }
            State::CookieEchoed { cookie_due, .. } => {
                if std::mem::take(cookie_due) {
                    return Some(self.transmit_cookie(now));
                }
                None
            }
            //= specs/rfc9260.txt#section-5
            //# Before the first data transmission can take place from one SCTP
            //# endpoint ("A") to another SCTP endpoint ("Z"), the two endpoints MUST
            //# complete an initialization process in order to set up an SCTP
            //# association between them.
            State::Up(_) if self.leaving => Some(self.transmit_leave()),
            State::Up(_) => {
                if let Some(transmit) = self.transmit_asconf(now) {
                    return Some(transmit);
                }
                // With concurrent multipath transfer, the path that carried new data last continues until
                // its window is full.
                let first = self.state.up().map_or(0, |up| up.turn);
                let count = self.paths.len();
                let turns = (0..count).map(|step| PathId(((first + step) % count) as u8));
                turns.into_iter().find_map(|id| self.transmit_by(now, id))
            }
            State::Closed(_) => None,
        }
    }

    pub(super) fn begin(&mut self, path: PathId, tag: VerificationTag) {
        self.begin_sized(tag, self.paths[usize::from(path.0)].mtu);
    }

    pub(super) fn begin_sized(&mut self, tag: VerificationTag, size: usize) {
        let header = Header { source_port: self.local_port, destination_port: self.peer_port, tag };
        self.builder.begin(header, size);
        self.queue.begin_packet();
    }

    fn seal(&mut self, id: PathId, checksum: Checksum) -> usize {
        let len = self.builder.seal_with(checksum);
        let counters = &mut self.paths[usize::from(id.0)].counters;
        counters.packets_sent += 1;
        counters.bytes_sent += len as u64;
        len
    }

    /// Seals the open packet and returns its batch.
    pub(super) fn finish(&mut self, id: PathId) -> Transmit {
        if !self.builder.is_empty() {
            self.seal(id, Checksum::Crc32c);
        }
        let batch = self.builder.finish().expect("a packet was sealed");
        let path = &self.paths[usize::from(id.0)];
        Transmit {
            from: path.local,
            to: path.peer,
            ecn: Ecn::NotEct,
            payload: batch.payload,
            segment_size: batch.segment_size,
            split: if path.pmtu.is_some() { Split::Forbidden } else { Split::Unspecified },
        }
    }

    fn transmit_init(&mut self, now: Time) -> Transmit {
        let State::CookieWait { retry, sent_at, .. } = &mut self.state else {
            unreachable!("the caller checked the state")
        };
        sent_at.push(now);
        let retry = *retry;
        let path = self.handshake_path(retry);
        let init = self.init_to_send(retry);
        //= specs/rfc9260.txt#section-8.5.1
        //# The sender MUST set the Verification Tag of the packet to 0.
        //= specs/rfc9260.txt#section-3.1
        //# A packet containing an INIT chunk MUST have a zero Verification Tag.
        let header = Header {
            source_port: self.local_port,
            destination_port: self.peer_port,
            tag: VerificationTag(0),
        };
        self.builder.begin_plain(header, self.paths[usize::from(path.0)].mtu);
        //= specs/rfc9260.txt#section-3
        //# INIT, INIT ACK, and SHUTDOWN COMPLETE chunks MUST NOT be bundled with
        //# any other chunk into an SCTP packet.
        //= specs/rfc9260.txt#section-6.10
        //# An endpoint MUST NOT bundle INIT, INIT ACK, or SHUTDOWN COMPLETE
        //# chunks with any other chunks.
        self.builder.push(&Chunk::Init(init));
        self.finish(path)
    }

    fn transmit_cookie(&mut self, now: Time) -> Transmit {
        self.give_up(now);
        let is_keyed = self.dtls_agreement().is_some();
        let State::CookieEchoed { retry, .. } = self.state else {
            unreachable!("the caller checked the state")
        };
        let mut path = self.handshake_path(retry);
        let is_timed_out = retry > self.copies();
        // An acknowledgement of a retransmission may be one of the first transmission, which gives an upper
        // bound of the RTT.
        if retry == 0 {
            self.renewal.cookie_sent_at = Some(now);
        }
        let State::CookieEchoed { cookie, up, .. } = &mut self.state else {
            unreachable!("the caller checked the state")
        };
        //= specs/rfc9260.txt#section-8.5.1
        //# Rules for packets carrying a COOKIE ECHO chunk: * When sending a
        //# COOKIE ECHO chunk, the endpoint MUST use the value of the Initiate Tag
        //# received in the INIT ACK chunk.
        let (cookie, tag) = (cookie.clone(), up.peer_tag);
        //= specs/rfc9260.txt#section-5.4
        //# if the bundled COOKIE
        //# ECHO chunk plus HEARTBEAT chunk (including nonce) would result in
        //# an SCTP packet larger than the PMTU, then the implementation MUST
        //# NOT send a COOKIE ECHO chunk to an UNCONFIRMED address.
        let least = Header::LEN + Chunk::CookieEcho(cookie.clone()).padded_len();
        if least + HEARTBEAT_LEN_MAX > self.paths[usize::from(path.0)].mtu {
            path = up.primary;
        }
        if self.paths[usize::from(path.0)].state == PathState::Unconfirmed {
            return self.transmit_cookie_and_heartbeat(now, path, tag, cookie);
        }
        let errors = std::mem::take(&mut up.control.errors);
        //= specs/rfc9260.txt#section-5.1
        //# The COOKIE ECHO chunk MAY be bundled with any pending outbound
        //# DATA chunks, but it MUST be the first chunk in the packet and,
        //# until the COOKIE ACK chunk is returned, the sender MUST NOT send
        //# any other packets to the peer.
        // After a time-out, the packet also passes a path whose MTU, not discovered yet, is too small for full packets.
        let mtu = self.paths[usize::from(path.0)].mtu;
        let discovery = self.config.path_mtu.discovery.as_ref().filter(|_| is_timed_out);
        self.begin_sized(tag, discovery.map_or(mtu, |discovery| discovery.min.max(least).min(mtu)));
        //= specs/rfc9260.txt#section-3.2.2
        //# Any time a COOKIE ECHO chunk is sent in a packet, it MUST be the
        //# first chunk.
        //= specs/rfc9260.txt#section-3.3.11
        //# This chunk MUST precede any DATA chunk sent within the association but
        //# MAY be bundled with one or more DATA chunks in the same packet.
        self.builder.push(&Chunk::CookieEcho(cookie));
        if !errors.is_empty() {
            let error = Chunk::Error(errors);
            if error.padded_len() <= self.builder.room() {
                self.builder.push(&error);
            } else if let (Chunk::Error(errors), State::CookieEchoed { up, .. }) = (error, &mut self.state) {
                //= specs/rfc9260.txt#section-3.2.2
                //# If the receiver of an INIT ACK chunk cannot
                //# bundle the COOKIE ECHO chunk with the ERROR chunk, the ERROR chunk
                //# MAY be sent separately but not before the COOKIE ACK chunk has been
                //# received.
                up.control.errors = errors;
            }
        }
        let room = self.builder.room();
        self.fill_data(now, path, SendPermit::Window);
        let is_filled = self.builder.room() < room;
        // Key management messages with a post-quantum key are longer than a packet. The rest is sent after
        // the same COOKIE ECHO, as if that had been lost: one RTT earlier, and the receiver understands
        // either order.
        if let State::CookieEchoed { cookie_due, up, .. } = &mut self.state {
            let is_more = !self.queue.is_empty() || up.sent.next_lost().is_some();
            *cookie_due = is_keyed && is_filled && is_more;
        }
        self.finish(path)
    }

    /// Retransmits COOKIE ECHO on a path without measurements.
    fn transmit_cookie_and_heartbeat(
        &mut self,
        now: Time,
        path: PathId,
        tag: VerificationTag,
        cookie: Bytes,
    ) -> Transmit {
        self.begin(path, tag);
        self.builder.push(&Chunk::CookieEcho(cookie));
        //= specs/rfc9260.txt#section-5.4
        //# A COOKIE ECHO chunk MAY be sent to an UNCONFIRMED address, but it
        //# MUST be bundled with a HEARTBEAT chunk including a nonce, and the
        //# size of the SCTP packet MUST NOT exceed the PMTU.
        let heartbeat = Chunk::Heartbeat(self.new_heartbeat(now, path));
        self.builder.push(&heartbeat);
        self.finish(path)
    }

    /// The path of the next INIT or COOKIE ECHO.
    pub(super) fn handshake_path(&self, retry: u32) -> PathId {
        //= specs/rfc9260.txt#section-5.1
        //# Retransmissions of INIT chunks and
        //# COOKIE ECHO chunks SHOULD use all addresses of the peer similar to
        //# retransmissions of DATA chunks.
        PathId((retry.saturating_sub(self.copies()) as usize % self.paths.len()) as u8)
    }

    fn transmit_by(&mut self, now: Time, path: PathId) -> Option<Transmit> {
        //= specs/rfc9260.txt#section-3.1
        //# On transmit, the value of the Verification Tag MUST be set to the
        //# value of the Initiate Tag received from the peer endpoint during the
        //# association initialization, with the following exceptions:
        //= specs/rfc9260.txt#section-8.5
        //# When sending an SCTP packet, the endpoint MUST fill in the
        //# Verification Tag field of the outbound packet with the tag value in
        //# the Initiate Tag parameter of the INIT or INIT ACK chunk received from
        //# its peer.
        let path_now = &self.paths[usize::from(path.0)];
        if path_now.state == PathState::Removed || path_now.awaits_ack {
            return None;
        }
        let tag = self.peer_tag().expect("an established association has a peer tag");
        if let Some(probe) = self.transmit_probe(now, path, tag) {
            return Some(probe);
        }
        if let Some(oversized) = self.transmit_oversized(now, path, tag) {
            return Some(oversized);
        }
        let ect = self.state.up().is_some_and(|up| up.ecn.is_some());
        self.fill_batch(now, path, ect).or_else(|| self.transmit_oversized_probe(now, path, tag))
    }

    /// Fills packets with what may be sent on the path, as one batch with those that the builder holds. `ect`: whether these
    /// may be marked ECT(0).
    fn fill_batch(&mut self, now: Time, path: PathId, mut ect: bool) -> Option<Transmit> {
        // Decided by what the peer announced, not by what it sends: a sender of packets without a checksum
        // may not accept them. INIT, COOKIE ECHO and the last packets of an association are not sent here.
        let agreed = self.state.up().is_some_and(|up| up.extensions.zero_checksum);
        while let Some(tag) = self.peer_tag().filter(|_| self.is_up() && !self.builder.is_full()) {
            let order = self.paths[usize::from(path.0)].order;
            self.begin(path, tag);
            self.give_up(now);
            self.new_data_alone = false;
            self.fill(now, path);
            if self.builder.is_empty() {
                self.builder.cancel();
                break;
            }
            self.pad_within_batch();
            // A peer without the association only understands packets with a checksum, to which it can
            // respond. So packets that check whether the peer is alive have one, and so have
            // retransmissions.
            let closing = matches!(self.shutdown, Shutdown::Sent { .. } | Shutdown::AckSent { .. });
            let way = &self.paths[usize::from(path.0)];
            let silent = way.errors > 0 || way.timeouts_unanswered > 0 || way.heartbeat.is_some();
            let bare = (agreed || self.omits_checksum(path)) && !closing && !silent;
            let has_data = way.order > order;
            self.seal(path, if bare { Checksum::Zero } else { Checksum::Crc32c });
            if self.builder.is_carrying() {
                let ect = self.new_data_alone && self.state.up().is_some_and(|up| up.ecn.is_some());
                self.carried = Some(Carried { path, ect });
                break;
            }
            // A batch has one ECN field: a packet that must not be marked excludes others.
            ect &= self.new_data_alone;
            if !has_data || !self.has_data_to_send() {
                break;
            }
        }
        let ecn = if ect { Ecn::Ect0 } else { Ecn::NotEct };
        (self.builder.packets() > 0).then(|| Transmit { ecn, ..self.finish(path) })
    }

    /// Whether there is lost or new data, which may have to wait for a window.
    fn has_data_to_send(&mut self) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        up.sent.next_lost().is_some() || self.queue.peek_len().is_some()
    }

    /// Pads the open packet if it would end its batch although more data follows, and the padding is
    /// shorter than any fragment. A GSO batch is worth more than these bytes. With protected packets, where padding
    /// also hides the length of a message; in others, if batches matter and the peer certainly skips PAD (RFC 4820
    /// §3). pion and webrtc-sctp drop packets with a chunk that they do not know; a peer with COMPACT-SACK is none of those.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
    //# However, the padding MUST be applied within the encryption envelope to ensure
    //# the padding itself is protected.
    fn pad_within_batch(&mut self) {
        let (missing, least) =
            (self.builder.missing(), data::FRAGMENT_MIN_IN_BATCH + self.queue.header_len());
        let is_cut_short = (Chunk::HEADER_LEN..least).contains(&missing) && self.queue.peek_len().is_some();
        let knows_pad = || self.extensions().is_some_and(|extensions| extensions.compact_sack);
        let may_pad =
            self.builder.is_protected() || (self.config.messages.fragments != Fragments::Full && knows_pad());
        if may_pad && is_cut_short {
            self.builder.push(&Chunk::Pad((missing - Chunk::HEADER_LEN) as u16));
        }
    }

    /// The next lost chunk, if it is larger than the path's packets because they became smaller since.
    fn transmit_oversized(&mut self, now: Time, id: PathId, tag: VerificationTag) -> Option<Transmit> {
        let State::Up(up) = &mut self.state else { return None };
        let path = &self.paths[usize::from(id.0)];
        let lost = match self.config.paths.multipath {
            None => up.sent.next_lost(),
            Some(multipath) => next_lost(up, &self.paths, multipath, id),
        };
        let bytes = lost.and_then(|tsn| up.sent.get(tsn)).map_or(0, |slot| slot.bytes);
        if bytes <= path.pmdcs() {
            return None;
        }
        let permit = self
            .permit(now, id)
            .filter(|permit| !matches!(permit, SendPermit::NewData | SendPermit::HeadOfLine(_)))?;
        self.transmit_sized(now, id, tag, Oversized { bytes, permit })
    }

    /// A tail loss probe whose chunk is larger than the path's packets: nothing smaller is in flight on the path, and no new
    /// data is sent.
    fn transmit_oversized_probe(&mut self, now: Time, id: PathId, tag: VerificationTag) -> Option<Transmit> {
        let State::Up(up) = &self.state else { return None };
        let path = &self.paths[usize::from(id.0)];
        if !path.probe_due {
            return None;
        }
        let bytes = up.sent.last_bytes_in_flight(id, now).filter(|bytes| *bytes > path.pmdcs());
        let permit = self.permit(now, id)?;
        self.paths[usize::from(id.0)].probe_due = false;
        let bytes = bytes.filter(|_| permit == SendPermit::Probe)?;
        self.transmit_sized(now, id, tag, Oversized { bytes, permit })
    }

    /// A packet for a chunk that is larger than the path's packets.
    fn transmit_sized(
        &mut self,
        now: Time,
        id: PathId,
        tag: VerificationTag,
        Oversized { bytes, permit }: Oversized,
    ) -> Option<Transmit> {
        let size = Header::LEN + self.paths[usize::from(id.0)].auth_len + bytes;
        self.begin_sized(tag, size);
        self.fill_data(now, id, permit);
        if self.builder.is_empty() {
            self.builder.cancel();
            return None;
        }
        //= specs/rfc9260.txt#section-6.9
        //# Instead, if
        //# the PMTU has been reduced, then IP fragmentation MUST be used.
        Some(Transmit { split: Split::Allowed, ..self.finish(id) })
    }

    /// Fills the open packet for this path, in bundling order.
    fn fill(&mut self, now: Time, id: PathId) {
        let permit = self.permit(now, id);
        //= specs/rfc9260.txt#section-5.4
        //# An endpoint MUST NOT send any chunks to an UNCONFIRMED address, with
        //# the following exceptions:
        let confirmed = self.paths[usize::from(id.0)].is_usable();
        if !self.is_up() {
            return;
        }
        self.fill_cookie_ack(id);
        // As in other stacks, chunks that arrived before the DATA of a packet are answered before the SACK.
        let mut answered = confirmed && self.fill_errors(id);
        if confirmed {
            self.fill_sack(id, permit);
        }
        answered |= self.fill_heartbeat_acks(id);
        if answered {
            self.drop_answers(id);
        }
        self.fill_cwr(id);
        if confirmed {
            self.fill_reconfig(now, id);
            self.fill_shutdown(id);
        }
        if self.paths[usize::from(id.0)].heartbeat_due && self.builder.room() >= HEARTBEAT_LEN_MAX {
            let heartbeat = Chunk::Heartbeat(self.new_heartbeat(now, id));
            self.builder.push(&heartbeat);
        }
        //= specs/rfc9260.txt#section-6
        //# Control chunks MUST come before DATA chunks in the packet.
        //= specs/rfc9260.txt#section-6.10
        //# When bundling control chunks with DATA chunks, an endpoint MUST place
        //# control chunks first in the outbound SCTP packet.
        //= specs/rfc3758.txt#section-3.5
        //# F2) The data sender SHOULD always attempt to bundle an outgoing
        //# FORWARD TSN with outbound DATA chunks for efficiency.
        // In front of the data sent now; no packet is sent for it alone.
        if confirmed
            && self.forward_is_due(id)
            && let Some(forward) = self.take_forward(now, id)
        {
            self.builder.push(&forward);
        }
        if let Some(permit) = permit {
            self.fill_data(now, id, permit);
        }
    }

    /// COOKIE ACK, on the path of its COOKIE ECHO.
    fn fill_cookie_ack(&mut self, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        let builder = &mut self.builder;
        //= specs/rfc9260.txt#section-5.1
        //# A COOKIE ACK chunk MAY be bundled with any
        //# pending DATA chunks (and/or SACK chunks), but the COOKIE ACK
        //# chunk MUST be the first chunk in the packet.
        if up.control.cookie_ack.take_if(|path| *path == id).is_some() {
            //= specs/rfc9260.txt#section-3.3.12
            //# This chunk MUST precede any DATA or SACK chunk sent within the
            //# association but MAY be bundled with one or more DATA chunks or SACK
            //# chunk's in the same SCTP packet.
            //= specs/rfc9260.txt#section-5.1.5
            //# The COOKIE ACK chunk MAY be bundled with an outbound DATA chunk or
            //# SACK chunk; however, the COOKIE ACK chunk MUST be the first chunk in
            //# the SCTP packet.
            //= specs/rfc9260.txt#section-5.1.5
            //# As mentioned in step 6, if the SACK chunk is bundled with the COOKIE
            //# ACK chunk, the COOKIE ACK chunk MUST appear first in the SCTP packet.
            builder.push(&Chunk::CookieAck);
        }
    }

    /// The pending ERROR causes, if a SACK still fits; returns whether any were added.
    fn fill_errors(&mut self, id: PathId) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        if up.sack_path != id || up.control.errors.is_empty() {
            return false;
        }
        let builder = &mut self.builder;
        let error = Chunk::Error(std::mem::take(&mut up.control.errors));
        if error.padded_len() + Sack::HEADER_LEN <= builder.room() {
            builder.push(&error);
            return true;
        }
        // Deferred, with fewer causes, so that a SACK fits.
        if let Chunk::Error(mut causes) = error {
            causes.pop();
            up.control.errors = causes;
        }
        false
    }

    /// The SACK, if it is due, or if data follows that it can be bundled with.
    pub(super) fn fill_sack(&mut self, id: PathId, permit: Option<SendPermit>) {
        let State::Up(up) = &self.state else { return };
        //= specs/rfc9260.txt#section-6.1
        //# Before an endpoint transmits a DATA chunk, if any received DATA
        //# chunks have not been acknowledged (e.g., due to delayed ack), the
        //# sender SHOULD create a SACK chunk and bundle it with the outbound
        //# DATA chunk, as long as the size of the final SCTP packet does not
        //# exceed the current PMTU.
        // With several paths at once, only on the path that it acknowledges: another path may take longer
        // than that path's T3-rtx.
        let is_bundled = permit.is_some()
            && up.received.may_bundle_sack()
            && (up.sack_path == id || !up.received.counts_by_path());
        let due = is_bundled || (up.sack_path == id && up.received.sack_is_due());
        if !due || self.builder.room() < NrSack::HEADER_LEN {
            return;
        }
        let a_rwnd = self.a_rwnd_to_offer(up.offered_bytes);
        let State::Up(up) = &mut self.state else { return };
        let builder = &mut self.builder;
        //= specs/rfc9260.txt#section-6.2
        //# Acknowledgements MUST be sent in SACK chunks unless shutdown was
        //# requested by the ULP, in which case an endpoint MAY send an
        //# acknowledgement in the SHUTDOWN chunk.
        //= specs/rfc9260.txt#section-6.2
        //# When sending a SACK chunk, the data receiver SHOULD place the current
        //# value of a_rwnd into the a_rwnd field.
        if let Some(lowest_tsn) = up.ecn.as_ref().and_then(|ecn| ecn.echo) {
            let ecne = Chunk::Ecne { lowest_tsn };
            // Before the SACK, which would open the window again.
            if builder.room() >= NrSack::HEADER_LEN + ecne.padded_len() {
                builder.push(&ecne);
            }
        }
        let header_more = if up.extensions.nr_sack { NrSack::HEADER_LEN - Sack::HEADER_LEN } else { 0 };
        let room = builder.room().saturating_sub(header_more);
        let window = u32::try_from(a_rwnd).unwrap_or(u32::MAX);
        up.offered_bytes = a_rwnd;
        self.timers.stop(Timer::DelayedSack);
        up.sack_may_be_lost = self.paths[usize::from(id.0)].state != PathState::Active;
        //= specs/compact-sack.md#section-2
        //# A host MUST NOT send the chunk if the extension is not negotiated.
        //= specs/compact-sack.md#section-4
        //# If the extension is negotiated, a SACK MUST report all TSNs that have arrived. If it has no room for them,
        //# this chunk MUST be sent instead.
        // Accepted data is kept until it is read.
        builder.push(&if up.extensions.nr_sack {
            let Sack { flags, cum_tsn_ack, a_rwnd, gaps: nr_gaps, dups } =
                up.received.take_sack(window, room);
            Chunk::NrSack(NrSack { flags, cum_tsn_ack, a_rwnd, gaps: Vec::new(), nr_gaps, dups })
        } else if up.extensions.compacts() && !up.received.fits_a_sack(room) {
            Chunk::CompactSack(up.received.take_compact_sack(window, room))
        } else {
            Chunk::Sack(up.received.take_sack(window, room))
        });
    }

    /// HEARTBEAT ACKs for this path, as many as fit; returns whether any were added.
    fn fill_heartbeat_acks(&mut self, id: PathId) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        let builder = &mut self.builder;
        let mut answered = false;
        //= specs/rfc9260.txt#section-6.4
        //# An endpoint SHOULD transmit reply chunks (e.g., INIT ACK, COOKIE ACK,
        //# and HEARTBEAT ACK) in response to control chunks to the same
        //# destination transport address from which it received the control chunk
        //# to which it is replying.
        while let Some(index) = up.control.heartbeat_acks.iter().position(|(path, _)| *path == id) {
            let ack = up.control.heartbeat_acks[index].1.clone();
            if ack.padded_len() > builder.room() {
                // One that never fits cannot be expected back by its sender.
                if builder.is_empty() {
                    up.control.heartbeat_acks.remove(index);
                }
                break;
            }
            builder.push(&ack);
            up.control.heartbeat_acks.remove(index);
            answered = true;
        }
        answered
    }

    /// A packet with responses was sent: those that did not fit are dropped.
    fn drop_answers(&mut self, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc9260.txt#section-12.4
        //# the sender of the
        //# response chunk(s) MUST NOT send more than one packet containing
        //# chunks other than DATA chunks.
        up.control.heartbeat_acks.retain(|(path, _)| *path != id);
        up.control.errors.clear();
    }

    /// CWR, on the path of SACKs.
    fn fill_cwr(&mut self, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        let builder = &mut self.builder;
        if let Some(ecn) = &mut up.ecn
            && up.sack_path == id
            && let Some(lowest_tsn) = ecn.cwr
            && builder.room() >= Chunk::HEADER_LEN + 4
        {
            builder.push(&Chunk::Cwr { lowest_tsn });
            ecn.cwr = None;
        }
    }

    /// RE-CONFIG: a request or a response.
    fn fill_reconfig(&mut self, now: Time, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        let Some(reconfiguration) = &mut up.reconfiguration else { return };
        let paths = &self.paths;
        reconfiguration.leave_by(id, |by| !paths[usize::from(by.0)].is_usable());
        if let Some(reconfig) = self.take_reconfig(now, id, self.builder.room()) {
            self.builder.push(&reconfig);
        }
    }

    /// SHUTDOWN or SHUTDOWN ACK.
    pub(super) fn fill_shutdown(&mut self, id: PathId) {
        let is_due =
            matches!(self.shutdown, Shutdown::Sent { due: true, .. } | Shutdown::AckSent { due: true, .. });
        if !is_due || self.closing_path() != id {
            return;
        }
        let State::Up(up) = &mut self.state else { return };
        let builder = &mut self.builder;
        let cum_tsn_ack = up.received.cum_tsn();
        match &mut self.shutdown {
            Shutdown::Sent { due, .. } => {
                let shutdown = Chunk::Shutdown { cum_tsn_ack };
                if *due && builder.room() >= shutdown.padded_len() {
                    *due = false;
                    builder.push(&shutdown);
                }
            }
            Shutdown::AckSent { due, .. } => {
                if *due && builder.room() >= Chunk::HEADER_LEN {
                    *due = false;
                    //= specs/rfc9260.txt#section-3.3.9
                    //# This chunk MUST be used to acknowledge the receipt of the SHUTDOWN
                    //# chunk at the completion of the shutdown process; see Section 9.2 for
                    //# details.
                    builder.push(&Chunk::ShutdownAck);
                }
            }
            Shutdown::No | Shutdown::Pending | Shutdown::Received => {}
        }
    }
}
