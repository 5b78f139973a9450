//! A path: a local address, a peer address, and the state of the route between them (RFC 9260 §6.3, §7.2,
//! §8.2).

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;
use braidftp_cc::coupled::Coupling;
use braidftp_cc::pacer::Pacer;
use braidftp_cc::rtt::Rtt;

use crate::association::PathParams;
use crate::association::multipath::delivery_rate::DeliveryRate;
use crate::association::multipath::send_times::SendTimes;
use crate::association::pmtu::{Family, Pmtu};
use crate::association::reduction::Reduction;
use crate::association::refused::Refused;
use crate::association::send_order::SendOrder;
use crate::association::sent::Found;
use crate::association::undo::SpuriousLoss;
use crate::config::{Config, LossDetection, MeasureEach, RetransmitTo};
use crate::ids::{PathId, Tsn};
use crate::route::Route;
use crate::stats::{PathState, PathStats};
use crate::wire::Header;

/// The granularity of a host's timers and scheduler.
pub(super) const TIMER_GRANULARITY: Duration = Duration::from_millis(1);

/// The number of consecutive unanswered packets that is attributed to random loss: at 30 % loss in each
/// direction, one working path in a million leaves more of them unanswered. Up to this number no wait is
/// much longer than a second, however far RTO has backed off.
pub(super) const RANDOM_LOSSES_MAX: u32 = 20;
/// The maximum number of tail loss probes before T3-rtx.
pub(super) const PROBES_MAX: u32 = 2;

/// The number of consecutive unanswered packets from which the interval of probes grows: at 30 % loss in
/// each direction, one working path in two thousand million leaves more of them unanswered.
const PROBE_LOSSES_MAX: u32 = 32;

/// The number of expired HEARTBEATs per path whose late acknowledgements are recognised.
const LATE_HEARTBEATS: usize = 8;

/// With a window of fewer packets, the path MTU is not probed.
const SMALL_WINDOW_MTUS: usize = 4;

/// One path of an association.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) local: SocketAddr,
    //= specs/rfc6951.txt#section-5.1
    //# An SCTP implementation supporting UDP encapsulation MUST maintain a
    //# remote UDP encapsulation port number per destination address for each
    //# SCTP association.
    pub(super) peer: SocketAddr,
    pub(super) state: PathState,
    pub(super) rtt: Rtt,
    /// The minimum RTT: nothing sent more recently can have been acknowledged.
    pub(super) min_rtt: Option<Duration>,
    /// The minimum RTT ever, whatever the return path was.
    shortest_rtt: Option<Duration>,
    /// The last RTT sample.
    pub(super) latest_rtt: Duration,
    /// When the RTT was last measured.
    measured_at: Option<Time>,
    measure_each: MeasureEach,
    //= specs/rfc9260.txt#section-7.2
    //# Unlike TCP, an SCTP sender MUST keep a set of the control variables
    //# cwnd, ssthresh, and partial_bytes_acked for EACH destination address
    //# of its peer (when its peer is multi-homed).
    //= specs/rfc7829.txt#section-3.2
    //# When the sender resumes data transmission on a destination address
    //# after a transition of the destination address from PF to active state,
    //# it MUST do this following the prescriptions of Section 7.2 of
    //# [RFC4960].
    pub(super) controller: Box<dyn cc::Controller>,
    /// When the next packet with data may be sent, if the controller paces.
    pacer: Pacer,
    /// The largest SCTP packet in bytes.
    pub(super) mtu: usize,
    /// Whether the peer has not yet accepted its local address: only ASCONF is sent on it.
    pub(super) awaits_ack: bool,
    /// The state of path MTU discovery, if enabled.
    //= specs/rfc9260.txt#section-7.3
    //# An endpoint SHOULD apply these techniques and SHOULD do so on a per-
    //# destination-address basis.
    pub(super) pmtu: Option<Pmtu>,
    /// Bytes of an AUTH chunk in a packet with DATA.
    pub(super) auth_len: usize,
    /// Bytes of user data in a full packet in place of padding: see `DtlsConfig::unpadded_with`.
    pub(super) unpadded: usize,
    pub(super) flight_bytes: usize,
    pub(super) recovery: Recovery,
    /// Proportional rate reduction during fast recovery, if enabled.
    pub(super) reduction: Option<Reduction>,
    /// Whether the last loss or time-out was spurious.
    pub(super) spurious_loss: SpuriousLoss,
    /// If a congestion mark reduced the window: the last TSN of that window.
    pub(super) marked_up_to: Option<Tsn>,
    /// Whether one packet of retransmissions may be sent whatever the window is (RFC 9260 §7.2.4 item
    /// 3).
    pub(super) fast_retransmit_due: bool,
    /// With concurrent multipath transfer, each path has its own Max.Burst: packets with new data that
    /// may still be sent.
    pub(super) burst: u32,
    /// Bytes of chunks sent on it, and of those lost.
    pub(super) carried_bytes: u64,
    pub(super) lost_bytes: u64,
    /// The delivery rate of the path.
    pub(super) delivery_rate: DeliveryRate,
    /// With concurrent multipath transfer, the number of bytes of new data sent at a time: each change
    /// to another path is a gap on the slower one.
    pub(super) burst_bytes: usize,
    /// With SACKs on several paths: when a SACK on this path last acknowledged data of this path.
    pub(super) answered_at: Option<Time>,
    /// With SACKs on several paths: when any SACK last arrived on this path.
    pub(super) heard_at: Time,
    /// The send times of chunks that such SACKs acknowledge.
    pub(super) send_times: SendTimes,
    /// The last RTT sample of such a SACK, if the controller has not received it yet.
    pub(super) pending_sample: Option<Duration>,
    /// Whether the RTT is measured by SACKs on other paths, for lack of own ones.
    pub(super) has_cross_path_rtt: bool,
    /// The minimum time from sending to an acknowledgement on another path.
    pub(super) min_cross_path_age: Option<Duration>,
    /// Bytes that arrived since the last loss, and between that loss and the previous one.
    pub(super) between_losses: [u64; 2],
    /// When the window was last reduced because the path blocked others.
    pub(super) penalised_at: Option<Time>,
    /// When the controller last reduced the window for congestion.
    pub(super) reduced_at: Option<Time>,
    /// Whether a tail loss probe may be sent, whatever the window is.
    pub(super) probe_due: bool,
    /// Probes sent since the last acknowledgement.
    pub(super) probes_unanswered: u32,
    /// Time-outs and probes since a chunk sent on this path was acknowledged.
    pub(super) packets_unanswered: u32,
    /// Time-outs and unanswered HEARTBEATs in a row (RFC 9260 §8.2).
    //= specs/rfc9260.txt#section-8.2
    //# When its peer endpoint is multi-homed, an endpoint SHOULD keep an
    //# error counter for each of the destination transport addresses of the
    //# peer endpoint.
    pub(super) errors: u32,
    /// Time-outs of T3-rtx since something on this path was acknowledged.
    pub(super) timeouts_unanswered: u32,
    /// Whether T3-rtx expired and nothing has been acknowledged on this path since: data may arrive on
    /// it, and its acknowledgement may not.
    pub(super) t3_unanswered: bool,
    /// The number of HEARTBEATs that were acknowledged.
    pub(super) heartbeats_answered: u8,
    pub(super) heartbeat: Option<PendingHeartbeat>,
    /// Expired HEARTBEATs, the newest first.
    late_heartbeats: VecDeque<PendingHeartbeat>,
    /// Reports of ICMP about the path.
    pub(super) refused: Refused,
    pub(super) heartbeat_due: bool,
    /// The path's heartbeat interval and error limit.
    pub(super) params: PathParams,
    /// Whether the heartbeat interval was changed, so that its timer must be restarted.
    pub(super) heartbeat_moved: bool,
    /// Whether the last packet asked the peer for an immediate SACK.
    pub(super) tail_is_immediate: bool,
    /// When a packet with DATA was last sent.
    pub(super) data_sent_at: Option<Time>,
    /// When a chunk was last retransmitted: acknowledgements of older chunks are ambiguous (RFC 9260
    /// §6.3.1 C5).
    pub(super) retransmitted_at: Option<Time>,
    /// When the last retransmission was sent that has been acknowledged.
    pub(super) retransmission_acked: Option<Time>,
    /// When T3-rtx last expired.
    pub(super) timed_out_at: Option<Time>,
    /// The number of packets with DATA sent.
    pub(super) order: u64,
    /// The order in which chunks were sent, if losses are detected by it.
    pub(super) send_order: Option<SendOrder>,
    /// The last TSN that the last SACK reported on, if it had no room for all.
    pub(super) reported_up_to: Option<Tsn>,
    pub(super) counters: Counters,
}

/// The state of loss recovery on a path (RFC 9260 §7.2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Recovery {
    /// Not in recovery.
    No,
    /// In fast recovery until this TSN is acknowledged.
    Fast(Tsn),
    /// A time-out has reduced the window for chunks up to this TSN: their losses do not reduce it again.
    AfterTimeout(Tsn),
}

/// An outstanding HEARTBEAT.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingHeartbeat {
    pub(super) nonce: u64,
    pub(super) sent_at: Time,
    /// Whether it accompanies retransmissions after a time-out. If neither is acknowledged, T3-rtx
    /// counts the error.
    pub(super) with_data: bool,
    /// The number of packets received from the peer, on all paths, before it was sent.
    pub(super) received_before: u64,
}

/// Counters of a path.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counters {
    pub(super) packets_sent: u64,
    pub(super) bytes_sent: u64,
    pub(super) packets_received: u64,
    pub(super) bytes_received: u64,
    pub(super) retransmitted_chunks: u64,
    pub(super) fast_retransmits: u64,
    pub(super) timeouts: u64,
    pub(super) undone: u64,
    pub(super) probes: u64,
    pub(super) ce_received: u64,
    pub(super) ecn_reductions: u64,
}

impl Path {
    /// Creates a path on which nothing was sent.
    pub(super) fn new(Route { local, peer }: Route, state: PathState, config: &Config) -> Self {
        Self {
            local,
            peer,
            state,
            rtt: Rtt::new(config.timers.rto),
            min_rtt: None,
            shortest_rtt: None,
            latest_rtt: Duration::ZERO,
            measured_at: None,
            measure_each: config.legacy.measure_each,
            controller: new_controller(peer, config),
            pacer: Pacer::default(),
            mtu: config.path_mtu.packet_bytes,
            awaits_ack: false,
            pmtu: config.path_mtu.discovery.as_ref().map(|settings| {
                let family = if peer.is_ipv4() { Family::V4 } else { Family::V6 };
                Pmtu::new(settings, config.path_mtu.packet_bytes, family)
            }),
            auth_len: 0,
            unpadded: 0,
            flight_bytes: 0,
            recovery: Recovery::No,
            reduction: None,
            spurious_loss: SpuriousLoss::default(),
            marked_up_to: None,
            fast_retransmit_due: false,
            burst: 0,
            carried_bytes: 0,
            lost_bytes: 0,
            delivery_rate: DeliveryRate::default(),
            burst_bytes: 0,
            answered_at: None,
            heard_at: Time::ZERO,
            send_times: SendTimes::default(),
            pending_sample: None,
            has_cross_path_rtt: false,
            min_cross_path_age: None,
            between_losses: [0; 2],
            penalised_at: None,
            reduced_at: None,
            probe_due: false,
            probes_unanswered: 0,
            packets_unanswered: 0,
            errors: 0,
            timeouts_unanswered: 0,
            t3_unanswered: false,
            heartbeats_answered: 0,
            heartbeat: None,
            late_heartbeats: VecDeque::new(),
            refused: Refused::default(),
            heartbeat_due: false,
            params: PathParams {
                heartbeat_interval: config.timers.heartbeat_interval,
                path_max_retrans: config.failover.path_max_retrans,
            },
            heartbeat_moved: false,
            tail_is_immediate: false,
            data_sent_at: None,
            retransmitted_at: None,
            retransmission_acked: None,
            timed_out_at: None,
            order: 0,
            send_order: (config.recovery.loss_detection == LossDetection::SendOrder).then(SendOrder::default),
            reported_up_to: None,
            counters: Counters::default(),
        }
    }

    /// Whether a probe of the path MTU would delay data: after a time-out until everything outstanding
    /// has arrived, and while the window is a few packets.
    pub(super) fn is_struggling(&self) -> bool {
        let in_time_out = self.timeouts_unanswered > 0 || matches!(self.recovery, Recovery::AfterTimeout(_));
        in_time_out || (self.flight_bytes > 0 && self.window() < SMALL_WINDOW_MTUS * self.pmdcs())
    }

    /// Stops waiting for the acknowledgement of the outstanding HEARTBEAT, which is still recognised if
    /// it arrives late.
    pub(super) fn expire_heartbeat(&mut self) -> Option<PendingHeartbeat> {
        let heartbeat = self.heartbeat.take()?;
        self.late_heartbeats.truncate(LATE_HEARTBEATS - 1);
        self.late_heartbeats.push_front(heartbeat);
        Some(heartbeat)
    }

    /// Takes the HEARTBEAT with this nonce: the outstanding one, or with `takes_late` an expired one.
    pub(super) fn take_heartbeat(&mut self, nonce: u64, takes_late: bool) -> Option<PendingHeartbeat> {
        let is_it = |heartbeat: &PendingHeartbeat| heartbeat.nonce == nonce;
        if let Some(heartbeat) = self.heartbeat.take_if(|heartbeat| is_it(heartbeat)) {
            return Some(heartbeat);
        }
        let at = self.late_heartbeats.iter().position(is_it).filter(|_| takes_late)?;
        self.late_heartbeats.remove(at)
    }

    /// Creates a new controller from the current configuration.
    pub(super) fn build_controller(&mut self, config: &Config) {
        self.controller = new_controller(self.peer, config);
    }

    /// Whether data sent on the path can be expected to arrive.
    fn may_deliver(&self) -> bool {
        self.is_proven_active() && self.timeouts_unanswered == 0
    }

    /// Whether the path is active, and not only because SACKs on other paths acknowledged its data.
    fn is_proven_active(&self) -> bool {
        self.state == PathState::Active && !self.t3_unanswered
    }

    /// Whether packets other than probes of the path may be sent on it.
    pub(super) fn is_usable(&self) -> bool {
        !matches!(self.state, PathState::Unconfirmed | PathState::SetAside | PathState::Removed)
    }

    /// Whether the path belongs to the association on both sides.
    pub(super) fn is_present(&self) -> bool {
        self.state != PathState::Removed && !self.awaits_ack
    }

    /// The path was removed: nothing is sent on it any more.
    pub(super) fn retire(&mut self) {
        self.heartbeat = None;
        self.late_heartbeats.clear();
        self.heartbeat_due = false;
        self.probe_due = false;
        self.fast_retransmit_due = false;
        self.awaits_ack = false;
    }

    /// The route of the path.
    pub(super) fn route(&self) -> Route {
        Route { local: self.local, peer: self.peer }
    }

    /// TSNs were reset with nothing in flight: forgets the old ones.
    pub(super) fn reset_tsns(&mut self) {
        self.recovery = Recovery::No;
        self.reduction = None;
        self.spurious_loss.forget();
        self.marked_up_to = None;
        self.fast_retransmit_due = false;
        self.probe_due = false;
        self.send_order = self.send_order.take().map(|_| SendOrder::default());
        self.send_times = SendTimes::default();
    }

    /// PMDCS (RFC 9260 §1.3): the largest DATA chunk that fits a packet, in bytes.
    //= specs/rfc8899.txt#section-5
    //# A PL MUST adjust the MPS indicated by DPLPMTUD to account for any
    //# additional overhead introduced by the PL.
    pub(super) fn pmdcs(&self) -> usize {
        pmdcs(self.mtu - self.auth_len) + self.unpadded
    }

    /// The maximum number of bytes of user data in a packet, with a chunk header of this length.
    pub(super) fn payload_max(&self, header_len: usize) -> usize {
        self.pmdcs() - header_len
    }

    /// The maximum number of bytes in flight.
    pub(super) fn window(&self) -> usize {
        match (&self.recovery, &self.reduction) {
            (Recovery::Fast(_), Some(reduction)) => reduction.window(),
            _ => self.controller.window(),
        }
    }

    /// Whether the controller paces.
    pub(super) fn is_paced(&self) -> bool {
        self.controller.pacing_rate().is_some()
    }

    /// Until when the pacing clock delays data that could be sent now.
    pub(super) fn holds(&mut self, now: Time) -> Option<Time> {
        if self.is_paced() { self.pacer.holds(now) } else { None }
    }

    /// A chunk was sent in packet `order`.
    pub(super) fn on_chunk_sent(&mut self, order: u64, tsn: Tsn) {
        if let Some(send_order) = &mut self.send_order {
            send_order.on_sent(order, tsn);
        }
    }

    /// A packet with this many bytes of chunks was sent, with `flight_before` bytes in flight before it.
    pub(super) fn on_data_sent(&mut self, now: Time, bytes: usize, flight_before: usize) {
        self.controller.on_sent(cc::Sent { now, bytes, flight_before });
        if let Some(reduction) = &mut self.reduction {
            reduction.on_sent(bytes);
        }
        if let Some(rate) = self.controller.pacing_rate() {
            self.pacer.leave_in_bursts(self.burst_bytes);
            self.pacer.on_sent(now, bytes, rate, self.pmdcs());
        }
    }

    /// Chunks were lost: their bytes, and when the last of them was sent.
    pub(super) fn on_lost(&mut self, now: Time, bytes: usize, sent_at: Time) {
        self.lost_bytes += bytes as u64;
        let (flight_bytes, mtu) = (self.flight_bytes, self.pmdcs());
        // How much of the flight was lost at a time-out is unknown: at least one packet.
        self.delivery_rate.on_lost(if flight_bytes > 0 { bytes } else { bytes.min(mtu) });
        self.controller.on_lost(cc::Lost { now, bytes, sent_at, flight_bytes, mtu });
    }

    /// Notifies the controller of congestion with this many bytes in flight.
    pub(super) fn on_congestion(&mut self, now: Time, cause: cc::Cause, flight_bytes: usize) {
        let window = self.controller.window();
        let mtu = self.pmdcs();
        self.controller.on_congestion(cc::Congestion { cause, now, flight_bytes, mtu });
        if self.controller.window() < window {
            self.reduced_at = Some(now);
        }
    }

    /// Takes an RTT sample, if one may be taken now.
    pub(super) fn measure(&mut self, now: Time, sample: Duration) {
        self.latest_rtt = sample;
        self.min_rtt = Some(self.min_rtt.map_or(sample, |min| min.min(sample)));
        self.shortest_rtt = Some(self.shortest_rtt.map_or(sample, |shortest| shortest.min(sample)));
        //= specs/rfc9260.txt#section-6.3.1
        //# Furthermore, new
        //# RTT measurements SHOULD be made no more than once per round trip
        //# for a given destination transport address.
        //= specs/rfc9260.txt#section-6.3.1
        //# C4) When data is in flight and when allowed by rule C5 below, a new
        //# RTT measurement MUST be made each round trip.
        let due = match (self.measured_at, self.rtt.srtt()) {
            (Some(at), Some(srtt)) => match self.measure_each {
                // If a queue of seconds empties at once, SRTT would remain that of the queue for many
                // RTTs.
                MeasureEach::SmoothedRoundTrip => now.since(at) >= srtt.min(sample * 2),
                MeasureEach::RoundTrip => now.since(at) >= sample,
            },
            _ => true,
        };
        // Back-off ends with the first possible sample.
        if due || self.timeouts_unanswered > 0 {
            self.measured_at = Some(now);
            self.rtt.on_sample(sample);
        }
    }

    /// The shortest time from sending to an acknowledgement, on any path.
    pub(super) fn soonest(&self) -> Option<Duration> {
        self.min_rtt.into_iter().chain(self.min_cross_path_age).min()
    }

    /// The duration of T3-rtx: the RTO, within [`Path::bounded_wait`].
    pub(super) fn t3_wait(&self, config: &Config) -> Duration {
        // A peer that acknowledges HEARTBEATs and never data counts as unreachable.
        self.bounded_wait(config, self.packets_unanswered)
    }

    /// The RTO. With [`recovery.early_repair`](crate::Config::recovery), it is limited to RTO.Initial,
    /// three minimum RTTs or the RTO without back-off, whichever is longest, unless more than
    /// [`RANDOM_LOSSES_MAX`] consecutive packets were unanswered. Two probes or more fit between two
    /// time-outs, so Association.Max.Retrans time-outs are some thirty consecutive packets.
    pub(super) fn bounded_wait(&self, config: &Config, unanswered_packets: u32) -> Duration {
        let rto = self.rtt.rto();
        // An RTO of at most RTO.Initial is within the bound.
        if rto <= config.timers.rto.initial
            || !config.recovery.early_repair
            || unanswered_packets > RANDOM_LOSSES_MAX
        {
            return rto;
        }
        let most = config.timers.rto.initial + self.shortest_rtt.unwrap_or_default() * 3;
        rto.min(most.max(self.rtt.without_back_off()))
    }

    /// When to send a tail loss probe, unless more is sent or acknowledged before; `None` until a round trip is known.
    //
    // RFC 8985 §7.2 waits two round trips from the last acknowledgement, which is up to three from the time that the tail was
    // sent. This waits from the time that the tail was sent: one round trip and a margin of a quarter of it or of RTTVAR. After
    // an acknowledgement it waits at least for the margin, since further acknowledgements may be queued behind that one.
    pub(super) fn probe_at(&self, now: Time, config: &Config) -> Option<Time> {
        let round_trip = self.rtt.srtt()?.max(self.latest_rtt);
        let delay = if self.tail_is_immediate { Duration::ZERO } else { config.sack.delay };
        let margin = (round_trip / 4).max(self.rtt.rttvar()) + TIMER_GRANULARITY + delay;
        let at = if self.probes_unanswered > 0 {
            now + (round_trip + margin) * backed_off(self.probes_unanswered)
        } else {
            let sent_at = self.data_sent_at.unwrap_or(now);
            (sent_at + round_trip + margin).max(now + margin)
        };
        Some(self.silence_max(config).map_or(at, |most| at.min(now + most)))
    }

    /// Returns the longest time for which a path with data in flight sends nothing while nothing is acknowledged, with
    /// [`recovery.early_repair`](crate::Config::recovery): RTO.Initial, or five quarters of the shortest round trip if that is longer. SRTT and RTTVAR may be
    /// those of a queue of many seconds that has emptied since; the shortest round trip may span lost SACKs, so that no multiple
    /// of it bounds the time. One probe too many costs one packet. Beyond [`PROBE_LOSSES_MAX`] unanswered packets in a row the time
    /// doubles with every second one.
    pub(super) fn silence_max(&self, config: &Config) -> Option<Duration> {
        // While only an upper bound of the RTT is known, probes precede T3-rtx, which runs for
        // RTO.Initial.
        let most = match self.shortest_rtt {
            Some(round_trip) => config.timers.rto.initial.max(round_trip + round_trip / 4),
            None => config.timers.rto.initial * 3 / 4,
        };
        config
            .recovery
            .early_repair
            .then(|| most * backed_off(self.packets_unanswered.saturating_sub(PROBE_LOSSES_MAX)))
    }

    /// The wait of a tail loss probe by RFC 8985 §7.2: two RTTs, once the RTT is known.
    pub(super) fn two_round_trips(&self) -> Option<Duration> {
        let wait = self.rtt.srtt()? * 2 + TIMER_GRANULARITY;
        Some(if self.rtt.is_bound() { wait.min(self.rtt.without_back_off()) } else { wait })
    }

    /// Compares the loss ratios of two paths.
    pub(super) fn compare_loss(&self, other: &Self) -> Ordering {
        let share = |one: &Self, of: &Self| u128::from(one.lost_bytes) * u128::from(of.carried_bytes.max(1));
        share(self, other).cmp(&share(other, self))
    }

    /// The memory of the path in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let order = self.send_order.as_ref().map_or(0, SendOrder::memory_bytes);
        size_of::<Self>() + size_of_val(&*self.controller) + order + self.send_times.memory_bytes()
    }

    /// Frees what only a path in use needs.
    pub(super) fn trim(&mut self) {
        if self.flight_bytes > 0 {
            return;
        }
        self.controller.trim();
        self.send_times.trim();
        self.spurious_loss.trim();
        if let Some(order) = &mut self.send_order {
            order.trim();
        }
        self.late_heartbeats.shrink_to_fit();
    }

    pub(super) fn stats(&self) -> PathStats {
        let counters = self.counters;
        PathStats {
            local: self.local,
            peer: self.peer,
            state: self.state,
            srtt: self.rtt.srtt(),
            min_rtt: self.shortest_rtt,
            rto: self.rtt.rto(),
            cwnd: self.controller.window(),
            ssthresh: self.controller.ssthresh(),
            flight_bytes: self.flight_bytes,
            mtu: self.mtu,
            packets_sent: counters.packets_sent,
            bytes_sent: counters.bytes_sent,
            packets_received: counters.packets_received,
            bytes_received: counters.bytes_received,
            retransmitted_chunks: counters.retransmitted_chunks,
            fast_retransmits: counters.fast_retransmits,
            timeouts: counters.timeouts,
            undone: counters.undone,
            probes: counters.probes,
            ce_received: counters.ce_received,
            ecn_reductions: counters.ecn_reductions,
        }
    }
}

fn new_controller(peer: SocketAddr, config: &Config) -> Box<dyn cc::Controller> {
    let mut options = config.congestion.options;
    if options.initial_window == cc::InitialWindow::Ipv4 && peer.is_ipv6() {
        options.initial_window = cc::InitialWindow::Ipv6;
    }
    let coupling = config.paths.multipath.map_or(Coupling::None, |multipath| multipath.coupling);
    coupling.build(config.congestion.control, options, pmdcs(config.path_mtu.packet_bytes))
}

/// The factor by which waits grow after this many unanswered probes. It doubles with every second probe,
/// up to 256: on lossy paths a single unanswered probe is common, and two consecutive ones are rare.
pub(super) fn backed_off(unanswered: u32) -> u32 {
    1 << (unanswered / 2).min(8)
}

fn pmdcs(mtu: usize) -> usize {
    (mtu - Header::LEN) & !3
}

/// The purpose for which a path is selected.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    /// New data, and other chunks that are not responses.
    New,
    /// Lost data to retransmit, by the configured rule.
    Retransmission(Found, RetransmitTo),
    /// SHUTDOWN or SHUTDOWN ACK after this many retransmissions.
    Closing(u32),
}

/// Selects a path (RFC 9260 §6.4, RFC 7829 §3.2 and §4) without changing any state. An unconfirmed path
/// is never selected (§5.4).
//= specs/rfc7829.txt#section-3.2
//# In all cases, the sender MUST NOT change the state of the chosen
//# destination address, whether this state be active or PF, and it MUST
//# NOT clear the error counter of the destination address as a result of
//# choosing the destination address for data transmission.
//= specs/rfc7829.txt#section-3.2
//# The sender MUST NOT change the state and the error counter of any
//# destination addresses as the result of the selection.
//= specs/rfc7829.txt#section-4.1
//# The sender MUST NOT change the state of the chosen destination address
//# (it remains in inactive state) and MUST NOT clear the error counter of
//# the destination address as a result of choosing the destination
//# address for data transmission.
pub(super) fn choose(paths: &[Path], primary: PathId, purpose: Purpose) -> PathId {
    if paths.len() == 1 {
        return PathId(0);
    }
    let path = |id: PathId| &paths[usize::from(id.0)];
    let in_state = |state: PathState| {
        let ids = (0..paths.len()).map(|index| PathId(index as u8));
        ids.filter(move |id| path(*id).state == state)
    };
    // RFC 9260 §6.4.1: the most divergent pair of addresses; among equals the primary, and then the first.
    let farthest_from = |from: PathId| {
        //= specs/rfc9260.txt#section-6.4.1
        //# When retransmitting timed-out data, the endpoint SHOULD attempt to
        //# pick the most divergent source-destination pair from the original
        //# source-destination pair to which the packet was transmitted.
        let likeness = move |id: &PathId| {
            let (one, other) = (path(*id), path(from));
            let same = u8::from(one.local == other.local) + u8::from(one.peer == other.peer);
            (same, *id != primary, *id)
        };
        //= specs/rfc9260.txt#section-8.2
        //# If more than one alternate address is active when the primary path is
        //# marked inactive, only ONE transport address SHOULD be chosen and used
        //# as the new destination transport address.
        let others = || in_state(PathState::Active).filter(|id| *id != from);
        others()
            .filter(|id| !path(*id).t3_unanswered)
            .min_by_key(likeness)
            .or_else(|| others().min_by_key(likeness))
    };
    let least_bad =
        //= specs/rfc7829.txt#section-3.2
        //# The sender SHOULD choose the destination in PF state with the lowest
        //# error count (fewest consecutive timeouts) for data transmission and
        //# transmit or retransmit data to this destination.
        //= specs/rfc7829.txt#section-4.1
        //# The sender SHOULD choose the destination in inactive state with the
        //# lowest error count (fewest consecutive timeouts) for data
        //# transmission.
        |state: PathState| in_state(state).min_by_key(|id: &PathId| (path(*id).errors, *id != primary, *id));
    let current = || {
        //= specs/rfc7829.txt#section-3.2
        //# An SCTP-PF sender SHOULD NOT send data to destination addresses in PF
        //# state when alternative destination addresses in active state are
        //# available.
        //= specs/rfc7829.txt#section-3.2
        //# When there is outbound data to send and the destination address
        //# presently used for data transmission is in PF state, the sender SHOULD
        //# choose a destination address in active state, if one exists, and use
        //# this destination address for data transmission.
        //= specs/rfc7829.txt#section-3.2
        //# When there is outbound data to send and the SCTP user explicitly
        //# requests to send data to a destination address in PF state, the sender
        //# SHOULD send the data to an alternate destination address in active
        //# state if one exists.
        let sound_elsewhere = || paths.iter().any(Path::is_proven_active);
        if path(primary).is_proven_active()
            || (path(primary).state == PathState::Active && !sound_elsewhere())
        {
            return primary;
        }
        //= specs/rfc9260.txt#section-6.4.1
        //# When there is outbound data to send and the primary path becomes
        //# inactive (e.g., due to failures) or where the SCTP user explicitly
        //# requests to send data to an inactive destination transport address
        //# before reporting an error to its ULP, the SCTP endpoint SHOULD try to
        //# send the data to an alternate active destination transport address if
        //# one exists.
        farthest_from(primary)
            //= specs/rfc7829.txt#section-3.2
            //# When the destination addresses are all in PF state, or some are
            //# in PF state and some in inactive state, the sender MUST choose
            //# one destination address in PF state and SHOULD transmit or
            //# retransmit data to this destination address
            .or_else(|| least_bad(PathState::PotentiallyFailed))
            //= specs/rfc7829.txt#section-4.1
            //# When the destination addresses are all in inactive state and data
            //# is available for transfer, the sender MUST choose one destination
            //# and transmit data to this destination address.
            //= specs/rfc7829.txt#section-4
            //# With the design goal that SCTP-PF shall provide the same level of
            //# disruption tolerance as a standard SCTP implementation with the same
            //# PMR and AMR setting, we prescribe that an SCTP-PF implementation
            //# SHOULD operate as described in Section 4.1 during dormant state.
            //= specs/rfc7829.txt#section-4
            //# The prescription below for SCTP-PF dormant state handling MUST NOT be
            //# coupled to the value of the PFMR, but solely to the activation of
            //# SCTP-PF logic in an SCTP implementation.
            .or_else(|| least_bad(PathState::Inactive))
            .unwrap_or(primary)
    };
    match purpose {
        //= specs/rfc9260.txt#section-6.4
        //# By default, an endpoint SHOULD always transmit to the primary path,
        //# unless the SCTP user explicitly specifies the destination transport
        //# address (and possibly source transport address) to use.
        Purpose::New => current(),
        //= specs/rfc9260.txt#section-6.4
        //# When its peer is multi-homed, an endpoint SHOULD send fast
        //# retransmissions to the same destination transport address to which
        //# the original data was sent.
        Purpose::Retransmission(Found::Missing(sent_on), RetransmitTo::ByCause)
            if path(sent_on).may_deliver() =>
        {
            sent_on
        }
        Purpose::Retransmission(found, RetransmitTo::Same)
            if path(found.sent_on()).state == PathState::Active =>
        {
            found.sent_on()
        }
        //= specs/rfc9260.txt#section-6.4
        //# Furthermore, when its peer is multi-homed, an endpoint SHOULD try to
        //# retransmit a chunk that timed out to an active destination transport
        //# address that is different from the last destination address to which
        //# the chunk was sent.
        //= specs/rfc7829.txt#section-3.2
        //# In this case, the sender SHOULD choose an alternate destination
        //# transport address in active state, if one exists.
        Purpose::Retransmission(found, _) => farthest_from(found.sent_on()).unwrap_or_else(current),
        Purpose::Closing(0) => current(),
        Purpose::Closing(repeated) => {
            let current = current();
            // As for data: a different path each time. If no other is active, paths that may have
            // recovered are tried, since no HEARTBEATs are sent any more.
            let states = [PathState::Active, PathState::PotentiallyFailed, PathState::Inactive];
            let rank = |id: PathId| states.iter().position(|state| *state == path(id).state);
            let mut others: Vec<_> =
                states.into_iter().flat_map(in_state).filter(|id| *id != current).collect();
            others.sort_by_key(|id| (rank(*id), *id < current, *id));
            let nth = repeated as usize % (others.len() + 1);
            nth.checked_sub(1).map_or(current, |nth| others[nth])
        }
    }
}

#[cfg(test)]
#[path = "tests/path.rs"]
mod tests;
