//! The sending half: outstanding segments, the processing of acknowledgements, and the choice of the next
//! segment.
//!
//! Loss recovery follows RFC 6582 without SACK and RFC 6675 with SACK; RFC 3042 and RFC 5827 are optional. A
//! time-out marks all unacknowledged data for retransmission. Sequence numbers are kept as offsets in the
//! stream; the FIN takes the offset after the last byte.

mod rack;
mod recovery;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;
use braidftp_cc::pacer::Pacer;
use cc::adalr::{Extension, Opening};

use super::rto::Rto;
use super::send_queue::SendQueue;
use crate::config::{Config, PartialAckTimer, Timing};
use crate::segment::SACK_BLOCKS_MAX;
use crate::stats::Counters;
use rack::Rack;
use recovery::Prr;

/// A segment that was sent and is not cumulatively acknowledged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// When it was last sent.
    sent_at: Time,
    /// How many times it was sent.
    times: u32,
    sacked: bool,
    /// Whether it was declared lost, and whether it was retransmitted since.
    lost: bool,
    repaired: bool,
}

impl Sent {
    fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Bytes of this segment counted in pipe (SetPipe of RFC 6675 §4): its length times its copies in the
    /// network.
    fn pipe(&self) -> u64 {
        let copies = u64::from(!self.sacked && !self.lost) + u64::from(!self.sacked && self.repaired);
        copies * self.len()
    }
}

/// The kind of loss recovery in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// No recovery.
    No,
    /// RFC 6582, up to `recover`.
    NewReno { recover: u64, window: usize, partial_acks: u32 },
    /// RFC 6675, up to `recover`; `rescue` is the end of the rescue retransmission (NextSeg 4).
    Sack { recover: u64, rescue: Option<u64>, prr: Option<Prr> },
    /// After a time-out, up to `recover`.
    Timeout { recover: u64 },
}

/// The outcome of the handshake.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agreed {
    /// Bytes of data per segment.
    pub(crate) mss: usize,
    /// Whether both ends support SACK.
    pub(crate) sack: bool,
    /// The peer's window, in bytes.
    pub(crate) window: u64,
}

/// An acknowledgement, in offsets of the stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Acknowledgement<'a> {
    pub(crate) now: Time,
    /// The next offset the peer expects.
    pub(crate) ack: u64,
    /// Ranges selectively acknowledged.
    pub(crate) sacked: &'a [Range<u64>],
    /// The right edge of the window, if this segment may update it.
    pub(crate) edge: Option<u64>,
    /// Whether the segment has no data and so may count as a duplicate acknowledgement.
    pub(crate) bare: bool,
    /// The age of the echoed timestamp.
    pub(crate) echoed: Option<Duration>,
}

/// What an acknowledgement newly covers.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// The advance of SND.UNA.
    bytes: u64,
    newly_sacked: u64,
    window_moved: bool,
}

/// The result of [`Sender::on_ack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// An old acknowledgement without effect.
    Old,
    /// This many offsets are newly acknowledged; may be 0.
    Taken { bytes: u64 },
    /// It acknowledges data not yet sent (RFC 9293 §3.10.7.4).
    Future,
}

/// A segment to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outgoing {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct Sender {
    pub(crate) queue: SendQueue,
    /// The offset of the FIN, once the user closed.
    fin: Option<u64>,
    sent: VecDeque<Sent>,
    /// SND.UNA and SND.NXT.
    una: u64,
    next: u64,
    /// Whether [`Config::sack`] was negotiated.
    sack: bool,
    mss: usize,
    /// The right edge of the peer's window, and the largest window it advertised.
    edge: u64,
    window_largest: u64,
    cc: Box<dyn cc::Controller>,
    /// By how much the sender may exceed the edge ([`Config::beyond_window_bytes`]).
    extension: Option<Extension>,
    pacer: Pacer,
    /// Until when pacing delays the next segment.
    paced_until: Option<Time>,
    /// Bytes declared lost and not yet reported to the controller, and when the last of them was sent.
    newly_lost: u64,
    newly_lost_sent_at: Time,
    rto: Rto,
    recovery: Recovery,
    /// No recovery begins before data up to this offset is acknowledged (`recover` of RFC 6582).
    recover: u64,
    dup_acks: u32,
    /// The first segment is to be retransmitted regardless of the window.
    forced: bool,
    /// Bytes in the network: the sum of [`Sent::pipe`].
    pipe: u64,
    /// Segments declared lost and not retransmitted.
    lost_unrepaired: usize,
    /// An index below which no segment is both lost and not retransmitted.
    lost_from: usize,
    /// Bytes and segments selectively acknowledged.
    sacked_bytes: u64,
    sacked_segments: u32,
    /// The end of the highest range selectively acknowledged.
    high_sacked: u64,
    /// All unacknowledged data below this offset is lost (IsLost of RFC 6675 §4).
    lost_edge: u64,
    rto_at: Option<Time>,
    /// Time-outs since the last acknowledgement of new data.
    timeouts: u32,
    persist_at: Option<Time>,
    persists: u32,
    probe_due: bool,
    /// The segment being timed: its end, and when it was sent.
    timed: Option<(u64, Time)>,
    last_sent: Option<Time>,
    rack: Rack,
    /// When the first segment that the last acknowledgement newly covered by SACK was sent, if it was sent once.
    first_sacked_at: Option<Time>,
    /// The latest SACK blocks, whose segments are already marked.
    known_blocks: [Range<u64>; SACK_BLOCKS_MAX],
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        let mss = usize::from(config.mss);
        Self {
            queue: SendQueue::default(),
            fin: None,
            sent: VecDeque::new(),
            una: 0,
            next: 0,
            sack: false,
            mss,
            edge: 0,
            window_largest: 0,
            cc: config.congestion_control.build_with(config.congestion_options, mss),
            extension: (config.beyond_window_bytes > 0 && config.congestion_control == cc::Kind::Adalr)
                .then(|| Extension::new(config.congestion_options.adalr)),
            pacer: Pacer::default(),
            paced_until: None,
            newly_lost: 0,
            newly_lost_sent_at: Time::ZERO,
            rto: Rto::new(config),
            recovery: Recovery::No,
            recover: 0,
            dup_acks: 0,
            forced: false,
            pipe: 0,
            lost_unrepaired: 0,
            lost_from: 0,
            sacked_bytes: 0,
            sacked_segments: 0,
            high_sacked: 0,
            lost_edge: 0,
            rto_at: None,
            timeouts: 0,
            persist_at: None,
            persists: 0,
            probe_due: false,
            timed: None,
            last_sent: None,
            rack: Rack::new(config),
            first_sacked_at: None,
            known_blocks: [0..0, 0..0, 0..0, 0..0],
        }
    }

    /// Takes the outcome of the handshake.
    pub(crate) fn agree(&mut self, config: &Config, agreed: Agreed) {
        let Agreed { mss, sack, window } = agreed;
        self.mss = mss;
        self.sack = sack;
        self.edge = window;
        self.window_largest = window;
        self.cc = config.congestion_control.build_with(config.congestion_options, mss);
    }

    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    pub(crate) fn mss(&self) -> usize {
        self.mss
    }

    pub(crate) fn rto(&self) -> &Rto {
        &self.rto
    }

    pub(crate) fn rto_mut(&mut self) -> &mut Rto {
        &mut self.rto
    }

    pub(crate) fn pipe(&self) -> usize {
        self.pipe as usize
    }

    /// Bytes of memory held besides the struct itself: unacknowledged data, segments, and the congestion
    /// controller.
    pub(crate) fn held_bytes(&self) -> usize {
        self.queue.len() + self.sent.len() * size_of::<Sent>() + size_of_val(&*self.cc)
    }

    pub(crate) fn outstanding(&self) -> usize {
        (self.next - self.una) as usize
    }

    pub(crate) fn ssthresh(&self) -> usize {
        self.cc.ssthresh()
    }

    /// The remaining part of the peer's window.
    pub(crate) fn peer_window(&self) -> usize {
        self.edge.saturating_sub(self.una) as usize
    }

    /// The end of the data that the peer's window allows, regardless of the congestion window.
    fn last_to_send(&self, config: &Config) -> u64 {
        let beyond = self.extension.as_ref().map_or(0, Extension::bytes);
        self.edge + beyond.min(config.beyond_window_bytes as u64)
    }

    /// The congestion window, inflated as in RFC 6582.
    pub(crate) fn window(&self) -> usize {
        match self.recovery {
            Recovery::NewReno { window, .. } => window,
            _ => self.cc.window(),
        }
    }

    /// Closes: a FIN follows the queued data.
    pub(crate) fn close(&mut self) {
        self.fin.get_or_insert(self.queue.end());
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.fin.is_some()
    }

    /// Whether the FIN was sent.
    pub(crate) fn fin_sent(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Whether the FIN, and thus all data, was acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.fin.is_some_and(|fin| self.una > fin)
    }

    /// Whether this segment carries the FIN.
    pub(crate) fn is_fin(&self, segment: Outgoing) -> bool {
        self.fin.is_some_and(|fin| segment.end > fin)
    }

    /// The end of the written data and the FIN.
    fn all(&self) -> u64 {
        self.queue.end() + u64::from(self.fin.is_some())
    }

    // ---- acknowledgements -------------------------------------------------------------------------------------------

    pub(crate) fn on_ack(
        &mut self,
        config: &Config,
        ack: &Acknowledgement<'_>,
        counters: &mut Counters,
    ) -> Verdict {
        if ack.ack > self.next {
            return Verdict::Future;
        }
        let window_moved = self.on_window(ack);
        if ack.ack < self.una {
            return Verdict::Old;
        }
        let (flight_before, pipe_before) = (self.outstanding(), self.pipe());
        self.rack.on_ack();
        let newly_sacked = self.on_sack_blocks(ack);
        let bytes = ack.ack - self.una;
        let in_recovery = matches!(self.recovery, Recovery::NewReno { .. } | Recovery::Sack { .. });
        let sacked_before = self.sacked_bytes;
        let mut sample = None;
        if bytes > 0 {
            sample = self.advance(config, ack);
        }
        if config.timing == Timing::FirstSegment && sample.is_none() {
            sample = self.first_sacked_at.map(|at| ack.now.since(at));
        }
        if let Some(sample) = sample {
            self.rto.on_sample(sample);
        }
        let counts_arrivals = self.cc.counts_arrivals();
        // Bytes selectively acknowledged earlier have been counted as arrived.
        let arrived = bytes + newly_sacked - (sacked_before - self.sacked_bytes);
        let told = cc::Ack {
            now: ack.now,
            bytes: if counts_arrivals { arrived } else { bytes } as usize,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: if counts_arrivals { pipe_before } else { flight_before },
            mtu: self.mss,
            rtt: match config.timing {
                _ if counts_arrivals => self.rack.latest_round_trip(),
                Timing::FirstSegment => sample.and(self.rack.latest_round_trip()),
                _ => sample,
            },
            cross_path_age: None,
            srtt: self.rto.srtt(),
            cum_advanced: bytes > 0,
            in_recovery,
            siblings: &[],
        };
        // The acknowledgement of a FIN alone does not open the window.
        if (bytes > 0 || counts_arrivals && arrived > 0) && (!self.fin_acked() || bytes > 1) {
            self.cc.on_ack(told);
        }
        if let Some(extension) = self.extension.as_mut().filter(|_| bytes > 0 && !in_recovery) {
            extension.on_ack(Opening {
                srtt: told.srtt,
                acked: bytes,
                flight: flight_before as u64,
                cwnd: self.cc.window() as u64,
                rwnd: self.edge.saturating_sub(self.una),
                mtu: self.mss as u64,
            });
        }
        let found = Found { bytes, newly_sacked, window_moved };
        self.detect_losses(config, ack, found, counters);
        self.restart_timer(config, ack.now, bytes);
        if bytes > 0 || newly_sacked > 0 {
            self.schedule_probe(config, ack.now);
        }
        Verdict::Taken { bytes }
    }

    /// Updates the peer's window; returns whether it changed.
    fn on_window(&mut self, ack: &Acknowledgement<'_>) -> bool {
        let Some(edge) = ack.edge else { return false };
        let moved = edge.saturating_sub(ack.ack) != self.edge.saturating_sub(self.una);
        let opened = edge > self.edge;
        self.edge = edge;
        self.window_largest = self.window_largest.max(edge.saturating_sub(ack.ack));
        if self.persist_at.is_some() && opened {
            self.persist_at = None;
            self.persists = 0;
            self.probe_due = false;
            if self.sent.is_empty() {
                self.rto_at = None;
            }
        }
        moved
    }

    /// Marks the segments that SACK blocks cover; returns the bytes newly covered.
    fn on_sack_blocks(&mut self, ack: &Acknowledgement<'_>) -> u64 {
        self.first_sacked_at = None;
        if !self.sack {
            return 0;
        }
        let before = self.sacked_bytes;
        let mut blocks = [0..0, 0..0, 0..0, 0..0];
        for (nth, block) in ack.sacked.iter().enumerate() {
            // Blocks for data that was not sent, or with swapped edges, are invalid. D-SACK blocks lie below
            // the cumulative acknowledgement (RFC 2883).
            if block.start >= block.end || block.end > self.next || block.start < ack.ack.max(self.una) {
                continue;
            }
            blocks[nth] = block.clone();
            // Segments covered by a block of the last acknowledgement are already marked.
            let mut from = block.start;
            for known in &self.known_blocks {
                if known.contains(&from) {
                    from = known.end;
                }
            }
            let first = self.sent.partition_point(|sent| sent.start < from);
            for index in first..self.sent.len() {
                let sent = &mut self.sent[index];
                if sent.end > block.end {
                    break;
                }
                if !sent.sacked {
                    self.rack.on_arrival(ack.now, sent);
                    if sent.times == 1 {
                        self.first_sacked_at.get_or_insert(sent.sent_at);
                    }
                    self.pipe -= sent.pipe();
                    self.lost_unrepaired -= usize::from(sent.lost && !sent.repaired);
                    sent.sacked = true;
                    self.sacked_bytes += sent.len();
                    self.sacked_segments += 1;
                    self.high_sacked = self.high_sacked.max(sent.end);
                }
            }
        }
        self.known_blocks = blocks;
        self.sacked_bytes - before
    }

    /// Advances SND.UNA; returns a round-trip sample if there is one.
    fn advance(&mut self, config: &Config, ack: &Acknowledgement<'_>) -> Option<Duration> {
        let (mut latest, mut first_covered, mut repeated): (Option<Sent>, Option<Sent>, bool) =
            (None, None, false);
        while let Some(first) = self.sent.front_mut() {
            if first.start >= ack.ack {
                break;
            }
            let known = *first;
            self.pipe -= known.pipe();
            if known.end > ack.ack {
                // Part of a segment was acknowledged: the rest becomes the segment.
                first.start = ack.ack;
                self.pipe += first.pipe();
                if known.sacked {
                    self.sacked_bytes -= known.len() - first.len();
                }
                break;
            }
            self.lost_unrepaired -= usize::from(known.lost && !known.repaired && !known.sacked);
            if known.sacked {
                self.sacked_bytes -= known.len();
                self.sacked_segments -= 1;
            } else {
                self.rack.on_arrival(ack.now, &known);
            }
            latest = Some(known);
            repeated |= known.times > 1;
            if known.times == 1 && !known.sacked {
                first_covered.get_or_insert(known);
            }
            self.sent.pop_front();
            self.lost_from = self.lost_from.saturating_sub(1);
        }
        self.una = ack.ack;
        self.timeouts = 0;
        self.queue.release(ack.ack);
        let timed = self.timed.take_if(|(end, _)| *end <= ack.ack);
        match config.timing {
            Timing::Timestamps if ack.echoed.is_some() => ack.echoed,
            Timing::FirstSegment => {
                first_covered.filter(|_| !repeated).map(|sent| ack.now.since(sent.sent_at))
            }
            Timing::EverySegment => {
                latest.filter(|sent| sent.times == 1 && !sent.sacked).map(|sent| ack.now.since(sent.sent_at))
            }
            _ => timed.map(|(_, left)| self.rto.elapsed(left, ack.now)),
        }
    }

    fn restart_timer(&mut self, config: &Config, now: Time, bytes: u64) {
        if self.sent.is_empty() {
            if self.persist_at.is_none() {
                self.rto_at = None;
            }
            return;
        }
        let restarts = match self.recovery {
            _ if bytes == 0 => false,
            Recovery::NewReno { partial_acks, .. } => {
                partial_acks <= 1 || config.partial_ack_timer == PartialAckTimer::Each
            }
            _ => true,
        };
        if restarts {
            self.rto_at = Some(self.rto.deadline(now, self.rto.current()));
        }
    }

    // ---- sending ----------------------------------------------------------------------------------------------------

    /// Returns the next segment to send now and counts it as sent.
    pub(crate) fn poll(&mut self, config: &Config, now: Time, counters: &mut Counters) -> Option<Outgoing> {
        if let Some(segment) = self.take_tail_probe(now, counters) {
            return Some(segment);
        }
        self.paced_until = self.pacing_delay(now);
        if self.paced_until.is_some() {
            return None;
        }
        let segment = self.next_outgoing(config, now, counters);
        let nothing_left = self.all() == self.next && self.lost_unrepaired == 0;
        if segment.is_none() && nothing_left && self.pipe() < self.window() {
            self.cc.on_app_limited(now, self.pipe());
        }
        segment
    }

    /// Until when pacing delays the next segment. Pacing does not apply after a time-out, when the window is
    /// below any paced rate.
    fn pacing_delay(&mut self, now: Time) -> Option<Time> {
        let held = self.cc.pacing_rate().is_some() && (self.timeouts == 0 || self.pipe > 0);
        if held && !self.fin_acked() { self.pacer.holds(now) } else { None }
    }

    fn next_outgoing(&mut self, config: &Config, now: Time, counters: &mut Counters) -> Option<Outgoing> {
        if let Some(index) = self.next_retransmission(config) {
            counters.retransmissions += 1;
            return Some(self.retransmit(now, index));
        }
        if self.sent.is_empty()
            && config.idle_restart
            && let Some(last_sent) = self.last_sent
        {
            let (idle_for, rto) = (now.since(last_sent), self.rto.current());
            if idle_for > rto && self.all() > self.next {
                let ssthresh_min = if config.idle_raises_ssthresh { self.cc.window() } else { 0 };
                self.cc.on_idle(cc::Idle { now, idle_for, rto, mtu: self.mss, ssthresh_min });
                self.last_sent = None;
            }
        }
        let segment = self.next_new(config)?;
        counters.data_segments_sent += 1;
        self.send_new(now, segment);
        self.schedule_probe(config, now);
        Some(segment)
    }

    /// The index of the segment to retransmit now.
    fn next_retransmission(&mut self, config: &Config) -> Option<usize> {
        if std::mem::take(&mut self.forced) {
            let first = self.sent.front()?;
            if first.lost && !first.repaired && !first.sacked {
                return Some(0);
            }
        }
        if self.lost_unrepaired == 0 {
            return self.next_rescue(config);
        }
        let lost = |sent: &Sent| sent.lost && !sent.repaired && !sent.sacked;
        let offset =
            self.sent.iter().skip(self.lost_from).position(lost).expect("lost_unrepaired counts a segment");
        self.lost_from += offset;
        let window = match self.recovery {
            Recovery::Sack { prr: Some(prr), .. } => prr.window,
            _ => self.window() as u64,
        };
        // The FIN is not subject to the window.
        let end = self.sent[self.lost_from].end.min(self.queue.end());
        let bytes = end.saturating_sub(self.sent[self.lost_from].start);
        let fits = self.pipe + bytes <= window || self.pipe == 0;
        fits.then_some(self.lost_from)
    }

    /// Reports a sent segment, new or retransmitted, to the congestion controller.
    fn report_sent(&mut self, now: Time, bytes: u64) {
        let (bytes, flight_before) = (bytes as usize, self.pipe as usize);
        self.cc.on_sent(cc::Sent { now, bytes, flight_before });
        if let Some(rate) = self.cc.pacing_rate() {
            self.pacer.on_sent(now, bytes, rate, self.mss);
        }
    }

    fn retransmit(&mut self, now: Time, index: usize) -> Outgoing {
        self.report_sent(now, self.sent[index].len());
        let sent = &mut self.sent[index];
        self.lost_unrepaired -= usize::from(sent.lost && !sent.repaired);
        self.pipe -= sent.pipe();
        sent.repaired = true;
        sent.sent_at = now;
        sent.times += 1;
        self.pipe += sent.pipe();
        // Karn's algorithm (RFC 6298 §3).
        self.timed = None;
        self.last_sent = Some(now);
        let segment = Outgoing { start: sent.start, end: sent.end };
        if let Recovery::Sack { prr: Some(prr), .. } = &mut self.recovery {
            prr.out += segment.end - segment.start;
        }
        if self.rto_at.is_none() || index == 0 && matches!(self.recovery, Recovery::Sack { .. }) {
            self.rto_at = Some(self.rto.deadline(now, self.rto.current()));
        }
        segment
    }

    /// New data or the FIN, as far as the windows, Nagle's algorithm and silly window avoidance allow.
    fn next_new(&self, config: &Config) -> Option<Outgoing> {
        let left = self.all() - self.next;
        if left == 0 {
            return None;
        }
        let fin = u64::from(self.fin.is_some());
        let full = self.mss as u64;
        let data = (left - fin).min(full);
        let usable = self.last_to_send(config).saturating_sub(self.next);
        let length = data.min(usable);
        // The FIN is sent with the last data, or alone once all data is sent; it is not subject to the
        // window.
        let whole = length == left - fin;
        let end = self.next + length + if whole { fin } else { 0 };
        if end == self.next {
            return None;
        }
        // RFC 9293 §3.8.6.2.1.
        let worthwhile = length == full
            || whole && (fin == 1 || !config.nagle || self.una == self.next)
            || length * 2 >= self.window_largest && length > 0;
        if !worthwhile {
            return None;
        }
        if length > 0 && !self.congestion_allows(config, length) {
            return None;
        }
        Some(Outgoing { start: self.next, end })
    }

    fn congestion_allows(&self, config: &Config, length: u64) -> bool {
        let window = self.window() as u64;
        match self.recovery {
            Recovery::NewReno { .. } => self.outstanding() as u64 + length <= window,
            Recovery::Sack { prr: Some(prr), .. } => self.pipe + length <= prr.window,
            Recovery::Sack { .. } | Recovery::Timeout { .. } => self.pipe + length <= window,
            // Such a controller's window is compared with pipe.
            Recovery::No if self.cc.counts_arrivals() => self.pipe + length <= window,
            // Duplicates below DupThresh send nothing new (RFC 5681 §3.2 step 1), except with Limited
            // Transmit.
            Recovery::No if self.dup_acks > 0 => {
                let limited = match config.limited_transmit {
                    true => u64::from(self.dup_acks.min(2)) * self.mss as u64,
                    false => 0,
                };
                self.outstanding() as u64 + length <= window + limited
            }
            Recovery::No => self.outstanding() as u64 + length <= window,
        }
    }

    fn send_new(&mut self, now: Time, segment: Outgoing) {
        let Outgoing { start, end } = segment;
        self.report_sent(now, end - start);
        let sent = Sent { start, end, sent_at: now, times: 1, sacked: false, lost: false, repaired: false };
        self.sent.push_back(sent);
        self.pipe += sent.pipe();
        if let Recovery::Sack { prr: Some(prr), .. } = &mut self.recovery {
            prr.out += end - start;
        }
        self.next = end;
        self.last_sent = Some(now);
        self.timed.get_or_insert((end, now));
        if self.rto_at.is_none() {
            self.rto_at = Some(self.rto.deadline(now, self.rto.current()));
        }
    }

    // ---- timers -----------------------------------------------------------------------------------------------------

    /// When the retransmission timer or the persist timer expires, or pacing allows the next segment.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let probes = self.rack.reorder_deadline.into_iter().chain(self.rack.probe_at).chain(self.paced_until);
        self.rto_at.into_iter().chain(self.persist_at).chain(probes).min()
    }

    /// Whether the retransmission timer has run out.
    pub(crate) fn is_timed_out(&self, config: &Config, now: Time) -> bool {
        // Linux has one timer for both: a probe that waits until the RTO is sent in its place.
        let probes = !config.wheel_tick.is_zero() && self.rack.probe_at.is_some_and(|at| at <= now);
        self.rto_at.is_some_and(|at| at <= now) && !self.sent.is_empty() && !probes
    }

    /// Time-outs since the last acknowledgement of new data.
    pub(crate) fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Called when nothing more can be sent. Starts the persist timer if data waits, nothing is in flight and
    /// the window is closed or too small (RFC 9293 §3.8.6.1).
    pub(crate) fn arm_persist(&mut self, config: &Config, now: Time) {
        let closed = self.sent.is_empty() && self.all() > self.next && self.paced_until.is_none();
        if closed && self.persist_at.is_none() && !self.probe_due {
            let wait = self.rto.current().clamp(config.persist_min, config.persist_max);
            self.persist_at = Some(self.rto.deadline(now, wait));
        }
    }

    /// Handles the expiry of the persist timer.
    pub(crate) fn expire_persist(&mut self, config: &Config, now: Time) {
        if self.persist_at.is_none_or(|at| at > now) {
            return;
        }
        self.probe_due = true;
        self.persists += 1;
        let wait = self.rto.current().max(config.persist_min).saturating_mul(1 << self.persists.min(16));
        self.persist_at = Some(self.rto.deadline(now, wait.clamp(config.persist_min, config.persist_max)));
    }

    /// Returns whether a window probe is to be sent now.
    pub(crate) fn take_probe(&mut self) -> bool {
        std::mem::take(&mut self.probe_due)
    }
}
