//! The DATA chunks of a packet (RFC 9260 §6.1): whether data may be sent on a path, and which: lost chunks
//! first, then new ones. Assigns TSNs.

use std::num::NonZeroU16;

use braidftp_base::Time;
use braidftp_cc as cc;
use rand_core::Rng;

use crate::association::Association;
use crate::association::multipath::{carries, next_lost};
use crate::association::path::{PROBES_MAX, Path, Purpose, Recovery, choose};
use crate::association::permit::{SendPermit, may_send, window_takes};
use crate::association::send_queue::Stale;
use crate::association::sent::Transmission;
use crate::association::state::{Shutdown, State, Window};
use crate::association::timers::Timer;
use crate::association::undo::Resent;
use crate::config::{BurstRule, Fragments, Multipath};
use crate::extensions::Extensions;
use crate::ids::{PathId, Tsn};
use crate::stats::PathState;
use crate::wire::Data;

/// The minimum room for a fragment: a message is not fragmented for less, and the rest of the packet
/// stays empty.
const FRAGMENT_MIN: usize = 256;
/// The minimum room if packets are protected, or if packets are filled and the open one is shorter than those before it in its
/// batch: it would be padded, or end the batch, and with it a system call. That costs more than a short fragment.
pub(super) const FRAGMENT_MIN_IN_BATCH: usize = 8;
/// With a window of at most this many chunks, the last one requests an immediate SACK: the peer's
/// delayed SACK would stall it.
const SMALL_WINDOW: usize = 4;
/// On average, a TSN is skipped once in this many windows, or less often.
const SKIP_TSN_WINDOWS: u64 = 128;

/// The length of the next fragment of a message of which `rest` bytes are left, in as few fragments of at most `largest` bytes
/// as possible, all of the same length but for less than a word. Where packets are small, the first has [`FRAGMENT_MIN`] bytes.
fn even(rest: usize, largest: usize) -> usize {
    rest.div_ceil(rest.div_ceil(largest)).next_multiple_of(4).max(FRAGMENT_MIN).min(largest)
}

/// A packet being filled with DATA, and its contents so far.
#[derive(Debug, Clone, Copy)]
struct Filled {
    transmission: Transmission,
    permit: SendPermit,
    /// Set if several paths are used at once.
    multipath: Option<Multipath>,
    /// The path of new data if no scheduler selects one.
    fallback: PathId,
    /// Bytes in flight on the path before this packet.
    flight_before: usize,
    /// Bytes of the chunks in the packet.
    bytes: usize,
    /// The first retransmitted chunk.
    resent: Option<Tsn>,
    /// Whether the packet contains a new chunk.
    brought_new: bool,
    /// The path of a blocking chunk that is retransmitted on this path.
    held_up: Option<PathId>,
}

impl Association {
    /// Whether data may be sent on this path regardless of the pacing clock, and why.
    //= specs/rfc9260.txt#section-6.1
    //# The following general rules MUST be applied by the data sender for
    //# transmission and/or retransmission of outbound DATA chunks:
    //= specs/rfc8260.txt#section-2.2.2
    //# All other properties of the existing SCTP DATA chunk also apply to the
    //# I-DATA chunk, i.e., congestion control as well as receiver window
    //# conditions MUST be observed, as defined in [RFC4960].
    pub(in crate::association) fn permit_unpaced(&mut self, now: Time, id: PathId) -> Option<SendPermit> {
        if let Some(multipath) = self.config.paths.multipath {
            return self.permit_multipath(now, id, multipath);
        }
        let State::Up(up) = &mut self.state else { return None };
        let path = &self.paths[usize::from(id.0)];
        if !path.is_usable() {
            return None;
        }
        //= specs/rfc9260.txt#section-6.1
        //# B)  At any given time, the sender MUST NOT transmit new data to a
        //# given transport address if it has cwnd + (PMDCS - 1) or more
        //# bytes of data outstanding to that transport address.  If data is
        //# available, the sender SHOULD exceed cwnd by up to (PMDCS - 1)
        //# bytes on a new data transmission if the flightsize does not
        //# currently reach cwnd.  The breach of cwnd MUST constitute one
        //# packet only.
        //= specs/rfc9260.txt#section-7.2.1
        //# The initial cwnd after a retransmission timeout MUST be no more
        //# than PMDCS, and only one packet is allowed to be in flight until
        //# successful acknowledgement.
        let alone = path.timeouts_unanswered > 0;
        //= specs/rfc9260.txt#section-7.2.1
        //# A limited overbooking as described in rule B in Section 6.1 SHOULD be
        //# supported.
        let open = path.flight_bytes < if alone { 1 } else { path.window() };
        //= specs/rfc9260.txt#section-6.1
        //# C)  When the time comes for the sender to transmit, before sending
        //# new DATA chunks, the sender MUST first transmit any DATA chunks
        //# that are marked for retransmission (limited by the current cwnd).
        if let Some(tsn) = up.sent.next_lost() {
            let found = up.sent.get(tsn).expect("a lost chunk is kept").found();
            if choose(
                &self.paths,
                up.primary,
                Purpose::Retransmission(found, self.config.legacy.retransmit_to),
            ) != id
            {
                return None;
            }
            if up.retransmissions_left == Some(0) && up.sent.flight_bytes() > 0 {
                return None;
            }
            return if self.paths[usize::from(found.sent_on().0)].fast_retransmit_due {
                //= specs/rfc9260.txt#section-7.2.4
                //# When a Fast Retransmit is being performed, the sender SHOULD ignore
                //# the value of cwnd and SHOULD NOT delay retransmission for this single
                //# packet.
                Some(SendPermit::FastRetransmit)
            } else if path.probe_due {
                Some(SendPermit::Probe)
            } else {
                open.then_some(SendPermit::Window)
            };
        }
        if path.probe_due {
            return Some(SendPermit::Probe);
        }
        if !open || choose(&self.paths, up.primary, Purpose::New) != id || !may_send(self.shutdown) {
            return None;
        }
        if self.config.legacy.burst_rule == BurstRule::LowerWindow
            && let Some(packets) = self.config.congestion.max_burst
            && !path.is_paced()
        {
            let path = &mut self.paths[usize::from(id.0)];
            let at_most = path.flight_bytes + packets as usize * path.pmdcs();
            path.controller.limit_window(at_most);
        }
        let path = &self.paths[usize::from(id.0)];
        let len = self.queue.peek_len()?;
        //= specs/rfc9260.txt#section-6.1
        //# A
        //# zero window probe MUST only be sent when the cwnd allows (see
        //# rule B below).
        //= specs/rfc9260.txt#section-6.1
        //# D)  When the time comes for the sender to transmit new DATA chunks,
        //# the protocol parameter 'Max.Burst' SHOULD be used to limit the
        //# number of packets sent.
        //= specs/rfc9260.txt#section-6.1
        //# transmission is disallowed by rule A and/or rule B), the sender MAY
        //# still accept send requests from its upper layer but MUST transmit no
        //# more DATA chunks until some or all of the outstanding DATA chunks are
        //# acknowledged and transmission is allowed by rule A and rule B again.
        let fits = self.burst > 0
            && !up.sent.is_full()
            && window_takes(up, len.min(path.payload_max(self.queue.header_len())));
        fits.then_some(SendPermit::Window)
    }

    /// Fills the open packet with DATA: lost chunks first, then new ones.
    pub(super) fn fill_data(&mut self, now: Time, id: PathId, permit: SendPermit) {
        // With COOKIE ECHO, one path is used whatever is configured.
        let multipath = self.config.paths.multipath.filter(|_| permit != SendPermit::Window);
        // The chunk for which the permit was given. The reduction of an idle window below must not move
        // it to another path.
        let permitted = match (&mut self.state, multipath) {
            (State::Up(up), Some(multipath)) => next_lost(up, &self.paths, multipath, id),
            _ => None,
        };
        self.shrink_idle_window(now, id);
        let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return };
        up.packed.clear();
        let path = &self.paths[usize::from(id.0)];
        let mut filled = Filled {
            transmission: Transmission { path: id, now, order: path.order + 1 },
            permit,
            multipath,
            fallback: choose(&self.paths, up.primary, Purpose::New),
            flight_before: path.flight_bytes,
            bytes: 0,
            resent: None,
            brought_new: false,
            held_up: None,
        };
        //= specs/rfc9260.txt#section-6.10
        //# The transmitter MUST transmit DATA chunks within an SCTP packet in
        //# increasing order of TSN.
        self.fill_lost(&mut filled, permitted);
        if self.takes_new(&filled) {
            self.fill_new(&mut filled);
        }
        match permit {
            SendPermit::Probe if filled.bytes == 0 => self.fill_probe(&mut filled),
            SendPermit::HeadOfLine(tsn) => self.fill_head_of_line(&mut filled, tsn),
            _ => {}
        }
        self.on_filled(filled);
    }

    /// Reduces the window of an idle path.
    fn shrink_idle_window(&mut self, now: Time, id: PathId) {
        let primary = self.state.up().map(|up| up.primary);
        //= specs/rfc9260.txt#section-6.1
        //# Also note that the cwnd SHOULD be adjusted according to Section 7.2.1.
        if let Some(idle_for) = self.idle_for(now, id) {
            let path = &mut self.paths[usize::from(id.0)];
            let (rto, mtu) = (path.rtt.rto(), path.pmdcs());
            // A path that carried little data in place of another one has not lost it: with failover
            // after a single time-out, RFC 9260's rule would make the next transmission start in
            // congestion avoidance.
            let stands_by =
                self.config.failover.potentially_failed_max_retrans.is_some() && primary != Some(id);
            let ssthresh_min = if stands_by { path.controller.ssthresh() } else { 0 };
            path.controller.on_idle(cc::Idle { now, idle_for, rto, mtu, ssthresh_min });
        }
    }

    /// Adds lost chunks, lowest TSN first; `permitted` is the one for which the permit was given.
    fn fill_lost(&mut self, filled: &mut Filled, mut permitted: Option<Tsn>) {
        let Filled { transmission, permit, multipath, .. } = *filled;
        let Transmission { path: id, now, .. } = transmission;
        let partial = self.extensions().is_some_and(Extensions::partial_reliability);
        let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return };
        while let Some(tsn) = match multipath {
            None => up.sent.next_lost(),
            Some(_)
                if matches!(permit, SendPermit::NewData | SendPermit::Probe | SendPermit::HeadOfLine(_)) =>
            {
                None
            }
            Some(multipath) => permitted.take().or_else(|| next_lost(up, &self.paths, multipath, id)),
        } {
            let slot = up.sent.get(tsn).expect("a lost chunk is kept");
            let (bytes, sent_on, found) = (slot.bytes, slot.path, slot.found());
            let resent_at = (slot.path == id).then_some(now);
            let resent = Resent { tsn, sent_at: slot.sent_at, resent_at, found };
            let was_sent = slot.transmissions > 0;
            let lost_again =
                (slot.transmissions > 1).then_some((usize::from(slot.packet_bytes), slot.sent_at));
            let here = multipath.is_some()
                || choose(
                    &self.paths,
                    up.primary,
                    Purpose::Retransmission(found, self.config.legacy.retransmit_to),
                ) == id;
            // A message that is over its limit is abandoned before the next packet.
            let over = partial && up.sent.get(tsn).is_some_and(|slot| slot.is_over(now));
            if bytes > self.builder.room_for(self.queue.data_kind()) || !here || over {
                break;
            }
            if let (Some((size, sent_at)), Some(pmtu)) =
                (lost_again, &mut self.paths[usize::from(sent_on.0)].pmtu)
            {
                pmtu.on_large_lost(size, sent_at);
            }
            up.packed.push(tsn);
            if multipath.is_none() {
                self.paths[usize::from(sent_on.0)].fast_retransmit_due = false;
            } else if sent_on != id
                && let Some(point) = up.pseudo_cums.get_mut(usize::from(sent_on.0))
            {
                point.on_moved();
            }
            if was_sent {
                self.paths[usize::from(sent_on.0)].spurious_loss.on_resent(resent);
            }
            self.paths[usize::from(sent_on.0)].send_times.on_retransmitted(tsn);
            let path = &mut self.paths[usize::from(id.0)];
            let (data, _) = up.sent.retransmit(tsn, transmission);
            data.immediate = self.config.sack.immediate_at_end;
            self.builder.push_data(data);
            path.flight_bytes += bytes;
            path.counters.retransmitted_chunks += u64::from(was_sent);
            path.on_chunk_sent(transmission.order, tsn);
            filled.bytes += bytes;
            filled.resent.get_or_insert(tsn);
        }
    }

    /// Whether new data may follow lost chunks.
    fn takes_new(&mut self, filled: &Filled) -> bool {
        let Filled { transmission, permit, multipath, fallback, .. } = *filled;
        let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return false };
        let id = transmission.path;
        // Beyond the window, only lost chunks and one probe may be sent.
        let takes_new = match multipath {
            None => permit != SendPermit::FastRetransmit && up.sent.next_lost().is_none() && fallback == id,
            Some(_) => {
                matches!(permit, SendPermit::NewData | SendPermit::Probe)
                    && carries(&self.paths, id, fallback)
            }
        };
        takes_new && may_send(self.shutdown)
    }

    /// Adds new chunks, as packet, windows and Max.Burst permit.
    fn fill_new(&mut self, filled: &mut Filled) {
        let Filled { transmission, permit, .. } = *filled;
        let Transmission { path: id, now, .. } = transmission;
        let several_ack_paths = self.has_several_ack_paths();
        //= specs/rfc9260.txt#section-7.3
        //# The sender SHOULD track an AMDCS that will be the smallest PMDCS
        //# discovered for all of the peer's destination addresses.
        let there = self.paths.iter().filter(|path| path.state != PathState::Removed);
        let amdcs = there.map(Path::pmdcs).min().expect("there is a path");
        let several = self.paths.len() > 1;
        let skip_tsn_every =
            self.config.security.skip_tsn_every.filter(|_| permit == SendPermit::NewData && several);
        while let Some(len) = self.len_of_next(filled, amdcs) {
            let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return };
            if up.window == Window::ProbeDue {
                up.window = Window::Probing { tsn: up.sent.next_tsn(), answered: false };
            } else if !window_takes(up, len) || matches!(up.window, Window::Probing { .. }) {
                break;
            }
            let Some(fragment) = self.queue.next(len) else { break };
            // A chunk that fills a protected packet has no padding in it.
            let bytes = (self.queue.header_len() + fragment.payload.len()).next_multiple_of(4).min(amdcs);
            let terms = fragment.terms;
            //= specs/rfc9260.txt#section-6.9
            //# 2)  The transmitter MUST then assign, in sequence, a separate TSN to
            //# each of the DATA chunks in the series.
            //= specs/rfc9260.txt#section-3.3.1
            //# This means that the TSNs for each fragment of a fragmented user
            //# message MUST be strictly sequential.
            //= specs/rfc9260.txt#section-3.3.1
            //# The TSNs of DATA chunks sent SHOULD be strictly sequential.
            let tsn = up.sent.next_tsn();
            let immediate = self.asks_for_sack(id, bytes);
            let data = Data {
                begin: fragment.begin,
                end: fragment.end,
                unordered: fragment.unordered,
                immediate,
                tsn,
                stream: fragment.stream,
                ssn: fragment.ssn,
                //= specs/rfc8260.txt#section-2.2.1
                //# If user message interleaving support has been negotiated for an
                //# association, I-DATA chunks MUST be used for all user messages and
                //# DATA chunks MUST NOT be used.
                interleaved: fragment.interleaved,
                //= specs/rfc9260.txt#section-3.3.1
                //# This field MUST be sent even in fragmented DATA chunks (to make sure
                //# it is available for agents in the middle of the network).
                ppid: fragment.ppid,
                payload: fragment.payload,
            };
            let skips_tsn = skip_tsn_every.is_some_and(|every| self.skips_tsn(id, every));
            let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return };
            if skips_tsn {
                up.sent.insert(data, bytes, terms, transmission);
                up.sent.skip_tsn();
                continue;
            }
            let path = &mut self.paths[usize::from(id.0)];
            path.tail_is_immediate = immediate;
            self.builder.push_data(up.sent.insert(data, bytes, terms, transmission));
            up.packed.push(tsn);
            path.flight_bytes += bytes;
            path.on_chunk_sent(transmission.order, tsn);
            if several_ack_paths {
                path.send_times.on_sent(tsn, now);
            }
            filled.bytes += bytes;
            filled.brought_new = true;
            if matches!(up.window, Window::Probing { .. }) {
                break;
            }
        }
    }

    /// Returns the length of the next fragment in the open packet, if any.
    fn len_of_next(&self, filled: &Filled, amdcs: usize) -> Option<usize> {
        let up = self.state.up()?;
        if self.burst == 0 || up.sent.is_full() {
            return None;
        }
        let partial = self.extensions().is_some_and(Extensions::partial_reliability);
        let rest = self.queue.peek_len()?;
        match self.queue.stale(filled.transmission.now) {
            Some(Stale::Whole(_)) => return None,
            Some(Stale::Rest(_)) if partial => return None,
            _ => {}
        }
        //= specs/rfc9260.txt#section-6
        //# The size of each DATA chunk SHOULD be smaller than or equal to the
        //# Association Maximum DATA Chunk Size (AMDCS).
        //= specs/rfc9260.txt#section-6.9
        //# If its peer is multi-homed, the endpoint SHOULD choose a DATA chunk
        //# size smaller than or equal to the AMDCS.
        //= specs/rfc9260.txt#section-6.9
        //# The sender SHOULD choose a size of DATA chunks that is smaller than or
        //# equal to the AMDCS.
        //= specs/rfc9260.txt#section-6.10
        //# If its peer endpoint is multi-homed, the sending endpoint SHOULD
        //# choose a size no larger than the PMTU of the current primary path.
        let room = self.builder.room_for(self.queue.data_kind()).saturating_sub(self.queue.header_len());
        //= specs/rfc9260.txt#section-6.9
        //# When determining when to fragment, the SCTP implementation MUST take
        //# into account the SCTP packet header as well as the DATA chunk
        //# header(s).  The implementation MUST also take into account the space
        //# required for a SACK chunk if bundling a SACK chunk with the DATA
        //# chunk.
        //= specs/rfc9260.txt#section-6
        //# When converting user messages into DATA chunks, an endpoint MUST
        //# fragment large user messages into multiple DATA chunks.
        //= specs/rfc9260.txt#section-6.9
        //# If an endpoint supports fragmentation, it MUST fragment a user message
        //# if the size of the user message to be sent causes the outbound SCTP
        //# packet size to exceed the current PMTU.
        //= specs/rfc9260.txt#section-6.9
        //# The data sender MUST break the user message into a series of DATA
        //# chunks.
        let largest = match self.config.messages.fragments {
            Fragments::Even => even(rest, amdcs - self.queue.header_len()),
            Fragments::Full | Fragments::Filling => amdcs - self.queue.header_len(),
        };
        // A message that is fragmented anyway leaves room for a SACK before it.
        let first_of_packet = !filled.brought_new && filled.resent.is_none();
        let is_filling = self.config.messages.fragments == Fragments::Filling;
        let may_cut = is_filling || (first_of_packet && rest > largest);
        if rest.min(largest) > room && !may_cut && !self.builder.is_empty() {
            return None;
        }
        let mut len = rest.min(largest).min(room);
        // How much shorter than the packets before it in its batch, which it would end, the packet is.
        let is_protected = self.builder.is_protected();
        let missing = if is_filling && !is_protected { self.builder.missing() } else { 0 };
        let is_filled_up = missing >= self.queue.header_len() + FRAGMENT_MIN_IN_BATCH;
        if is_filled_up && len < rest && len < FRAGMENT_MIN {
            len = len.min(missing - self.queue.header_len());
        }
        // A fragment's length is a multiple of four, so that the packet is filled without padding; or all of
        // the room, at the end of which the padding is left out.
        let len = if len < rest && len < room { len & !3 } else { len };
        let least = if is_protected || is_filled_up { FRAGMENT_MIN_IN_BATCH } else { FRAGMENT_MIN };
        if len == 0 || (len < rest && len < least) {
            return None;
        }
        Some(len)
    }

    /// Whether the next chunk on this path, of this many bytes, requests an immediate SACK.
    //= specs/rfc9260.txt#section-6.1
    //# Whenever the sender of a DATA chunk can benefit from the
    //# corresponding SACK chunk being sent back without delay, the sender
    //# MAY set the I bit in the DATA chunk header.
    fn asks_for_sack(&self, id: PathId, bytes: usize) -> bool {
        let path = &self.paths[usize::from(id.0)];
        let window = path.controller.window();
        let small_window = self.config.sack.immediate_at_end;
        let window_filled = path.flight_bytes + bytes >= window;
        (self.queue.is_idle() && (small_window || self.shutdown == Shutdown::Pending))
            || (small_window && window_filled && window <= SMALL_WINDOW * path.pmdcs())
    }

    /// Whether the next TSN on this path is skipped, at most one in `every`.
    fn skips_tsn(&mut self, id: PathId, every: NonZeroU16) -> bool {
        let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return false };
        let path = &self.paths[usize::from(id.0)];
        let windows = SKIP_TSN_WINDOWS * (path.controller.window() / path.pmdcs()) as u64;
        let mean = windows.max(every.get().into());
        let left = up.skip_tsn_in.get_or_insert_with(|| self.rng.next_u64() % (2 * mean));
        *left = left.saturating_sub(1);
        // Chunks before and after it show whether it is reported missing.
        let shows = path.flight_bytes > 0 && self.queue.peek_len().is_some();
        let calm = path.recovery == Recovery::No && up.window == Window::Open;
        let passes = *left == 0 && shows && calm && !up.sent.has_skipped_tsn();
        if passes {
            up.skip_tsn_in = None;
        }
        passes
    }

    /// Adds the last chunks in flight, as many as fit, to a probe without new data: if the lost packet
    /// held several small chunks, one probe retransmits all of them.
    fn fill_probe(&mut self, filled: &mut Filled) {
        let transmission = filled.transmission;
        let Transmission { path: id, now, .. } = transmission;
        let room = self.builder.room_for(self.queue.data_kind());
        let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        let first = up.packed.len();
        up.sent.last_in_flight(id, now, room, &mut up.packed);
        for tsn in &up.packed[first..] {
            let tsn = *tsn;
            path.spurious_loss.on_probed(tsn);
            path.send_times.on_retransmitted(tsn);
            filled.bytes += up.sent.get(tsn).map_or(0, |slot| slot.bytes);
            let (data, moved_from) = up.sent.retransmit(tsn, transmission);
            debug_assert_eq!(moved_from, Some(id), "a probe stays on its path");
            data.immediate = true;
            self.builder.push_data(data);
            path.tail_is_immediate = true;
            path.counters.retransmitted_chunks += 1;
            path.on_chunk_sent(transmission.order, tsn);
            filled.resent.get_or_insert(tsn);
        }
    }

    /// Retransmits the chunk that blocks delivery on this path, in place of another path.
    fn fill_head_of_line(&mut self, filled: &mut Filled, tsn: Tsn) {
        let transmission = filled.transmission;
        let Transmission { path: id, now, .. } = transmission;
        let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        let slot = up.sent.get(tsn).expect("it is in flight");
        let (bytes, waited) = (slot.bytes, now.since(slot.sent_at));
        if bytes <= self.builder.room_for(self.queue.data_kind()) {
            up.packed.push(tsn);
            let (data, moved_from) = up.sent.retransmit(tsn, transmission);
            data.immediate = true;
            self.builder.push_data(data);
            path.flight_bytes += bytes;
            path.counters.retransmitted_chunks += 1;
            path.spurious_loss.on_probed(tsn);
            path.on_chunk_sent(transmission.order, tsn);
            filled.bytes += bytes;
            filled.resent = Some(tsn);
            let from = moved_from.expect("it was in flight");
            let other = &mut self.paths[usize::from(from.0)];
            other.flight_bytes -= bytes;
            other.spurious_loss.on_probed(tsn);
            other.send_times.on_retransmitted(tsn);
            other.on_retransmitted_elsewhere(bytes, waited);
            filled.held_up = Some(from);
        }
    }

    /// Updates path, burst limit and timers for the filled packet.
    fn on_filled(&mut self, filled: Filled) {
        let Filled { transmission, multipath, flight_before, .. } = filled;
        let Transmission { path: id, now, .. } = transmission;
        let (State::Up(up) | State::CookieEchoed { up, .. }) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        if filled.bytes == 0 {
            // A probe or retransmission that did not fit behind the control chunks is sent in the next
            // packet. A probe with a chunk larger than the packet: see `transmit_oversized_probe`.
            if self.builder.is_empty() {
                path.fast_retransmit_due = false;
            }
            return;
        }
        self.new_data_alone =
            filled.brought_new && filled.resent.is_none() && !matches!(up.window, Window::Probing { .. });
        up.sent.set_packet(&up.packed, self.builder.len());
        path.probe_due = false;
        path.fast_retransmit_due = false;
        path.order += 1;
        path.data_sent_at = Some(now);
        if filled.resent.is_some() {
            path.retransmitted_at = Some(now);
            up.retransmissions_left = up.retransmissions_left.map(|left| left.saturating_sub(1));
        }
        path.carried_bytes += filled.bytes as u64;
        if filled.brought_new {
            up.new_data_at = now;
            (up.turn, up.turn_taken) =
                if multipath.is_some() { (usize::from(id.0), true) } else { (0, false) };
        }
        if filled.brought_new && multipath.is_some() {
            path.burst = path.burst.saturating_sub(u32::from(self.config.congestion.max_burst.is_some()));
        } else if filled.brought_new
            && self.config.congestion.max_burst.is_some()
            && self.config.legacy.burst_rule == BurstRule::Packets
        {
            self.burst -= 1;
        }
        path.on_data_sent(now, filled.bytes, flight_before);
        // With COOKIE ECHO, T1 is the only timer.
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc9260.txt#section-6.1
        //# When starting or restarting the T3-rtx timer, the timer value SHOULD
        //# be adjusted according to the timer rules defined in Sections 6.3.2 and
        //# 6.3.3.
        //= specs/rfc9260.txt#section-6.3.3
        //# The RTO to be used for starting T3-rtx SHOULD be the one for the
        //# destination address to which the retransmission is sent, which, when
        //# the receiver is multi-homed, might be different from the destination
        //# address for which the timer expired (see Section 6.4 below).
        let deadline = now + path.t3_wait(&self.config);
        //= specs/rfc9260.txt#section-6.1
        //# Whenever a transmission or retransmission is made to any address, if
        //# the T3-rtx timer of that address is not currently running, the sender
        //# MUST start that timer.  If the timer for that address is already
        //# running, the sender MUST restart the timer if the earliest (i.e.,
        //# lowest TSN) outstanding DATA chunk sent to that address is being
        //# retransmitted.  Otherwise, the data sender MUST NOT restart the
        //# timer.
        // A probe beyond those before T3-rtx is sent because T3-rtx is long, and does not restart it.
        let delays_t3 = path.probes_unanswered <= PROBES_MAX;
        if filled.resent.is_some() && delays_t3 && up.sent.earliest(id) == filled.resent {
            self.timers.arm(Timer::T3Rtx(id), deadline);
        } else {
            self.timers.arm_if_idle(Timer::T3Rtx(id), deadline);
        }
        self.arm_tail_probe(now, id);
        if let (Some(held_up), Some(multipath)) = (filled.held_up, multipath) {
            self.stop_idle_t3(held_up);
            self.on_head_of_line_sent(now, held_up, multipath);
        }
    }
}
