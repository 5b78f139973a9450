//! The configuration of a connection: plain values. The defaults are what the RFCs recommend.

use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_cc as cc;

/// How a connection behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The largest segment this side accepts, in bytes of data and options (RFC 9293 §3.7.1). Default: 1460,
    /// which fits an Ethernet frame with IPv4.
    pub mss: u16,
    /// Whether to ask for window scaling (RFC 7323 §2). Without it no window is larger than 65,535 bytes.
    pub window_scaling: bool,
    /// Whether to ask for timestamps (RFC 7323 §3); each segment then holds 12 bytes less.
    pub timestamps: bool,
    /// The tick of the timestamp clock. Default: 1 ms.
    pub timestamp_tick: Duration,
    /// Where checksums of data segments are computed and verified.
    pub checksum: Checksum,
    /// Whether to offer selective acknowledgements (RFC 2018). With SACK, loss recovery follows RFC 6675
    /// instead of RFC 6582.
    pub sack: bool,

    /// The congestion controller.
    pub congestion_control: cc::Kind,
    /// The parameters of the congestion controller.
    pub congestion_options: cc::Options,
    /// Which quantity ssthresh is half of after a loss (RFC 5681: the flight size).
    pub halve: Halve,
    /// DupThresh: the number of duplicate acknowledgements that indicate a loss (RFC 5681 §3.2). Default: 3.
    pub dup_threshold: NonZeroU8,
    /// Limited Transmit (RFC 3042): new data on each of the first two duplicate acknowledgements.
    pub limited_transmit: bool,
    /// Early Retransmit (RFC 5827), counted in segments: lowers DupThresh when too few segments are
    /// outstanding to produce DupThresh duplicates.
    pub early_retransmit: bool,
    /// Loss detection with SACK. Default: by duplicates.
    pub loss_detection: LossDetection,
    /// Whether RACK.rtt is the RTT of the segment that was processed last of those that an acknowledgement newly covers, as in
    /// Linux, and not of the one that was sent last (RFC 8985 §6.2 step 2). After a delayed acknowledgement losses are then
    /// detected later.
    pub rack_takes_any_rtt: bool,
    /// Whether a tail loss probe is sent before the retransmission timer expires (RFC 8985 §7); requires
    /// SACK.
    pub tail_loss_probe: bool,
    /// TLP.max_ack_delay: the delay of the peer's acknowledgement that the probe of a single segment allows
    /// for (RFC 8985 §7.2).
    pub probe_ack_delay: Duration,
    /// Whether recovery with SACK uses Proportional Rate Reduction (RFC 6937) instead of pipe alone.
    pub proportional_reduction: bool,
    /// When duplicates may indicate a new loss without SACK (RFC 6582 §3.2 step 2).
    pub recover_rule: RecoverRule,
    /// Which partial acknowledgements restart the retransmission timer without SACK (RFC 6582 §3.2 step 5).
    pub partial_ack_timer: PartialAckTimer,
    /// Whether a time-out discards selective acknowledgements (RFC 2018 §8, "SHOULD turn off").
    pub timeout_clears_sack: bool,
    /// Whether cwnd is reset to the restart window after the connection was idle for one RTO (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// Whether ssthresh is raised to at least the lost cwnd on that reset, so that slow start leads back to
    /// the former window (RFC 2861 §3 raises ssthresh to three quarters of cwnd).
    pub idle_raises_ssthresh: bool,

    /// The bounds and granularity of the RTO (RFC 6298 §2). The initial value applies to SYN too.
    pub rto: RtoBounds,
    /// Which segments give round-trip samples.
    pub timing: Timing,
    /// The tick of the retransmission timer: it expires, and elapsed time is counted, on multiples of the
    /// tick. 0: exact.
    pub timer_tick: Duration,
    /// The tick of the timer wheel, as of Linux (1/CONFIG_HZ): the wait of every timer is rounded up to whole ticks, and the
    /// timer expires at the tick after its wait. Long waits are less exact. RTTs are measured exactly. Such a stack has one
    /// timer for retransmission, probe and reordering: a probe that is due takes the place of a time-out, and the reordering timer
    /// waits for the last segment. 0: exact, and a timer for each.
    pub wheel_tick: Duration,
    /// What is added to the wait for a tail loss probe of several segments, and to that of the reordering timer.
    pub timer_margin: Duration,
    /// The SRTT before the first measurement, for stacks that average the first sample like later ones (RFC
    /// 6298 §2.2 does not).
    pub initial_srtt: Option<Duration>,
    /// The back-off of the SYN retransmission timer.
    pub syn_backoff: SynBackoff,
    /// Retransmissions of a SYN or SYN|ACK before the connection fails.
    pub syn_retries: u8,
    /// Time-outs of one segment before the connection fails (R2 in RFC 9293 §3.8.3).
    pub data_retries: u8,

    /// The number of in-order segments per acknowledgement (RFC 5681 §4.2: at most 2). Default: 2.
    pub ack_every: NonZeroU8,
    /// The delay of a delayed acknowledgement (RFC 9293 §3.8.6.3: less than 0.5 s). 0: no delay.
    pub ack_delay: Duration,
    /// When the delay starts.
    pub ack_clock: AckClock,
    /// Segments at the start of a connection that are acknowledged without delay.
    pub quick_acks: u16,

    /// The receive buffer, in bytes: the largest window advertised.
    pub receive_buffer_bytes: usize,
    /// Not TCP, but the model of P3: how far beyond its advertised window the receiver accepts data, in
    /// bytes, and the limit by which a sender with [`cc::Kind::Adalr`] exceeds the peer's window
    /// ([`cc::adalr::Extension`]). 0: data beyond the window is cut off (RFC 9293 §3.10.7.4).
    pub beyond_window_bytes: usize,
    /// The send buffer, in bytes: data written and not yet acknowledged.
    pub send_buffer_bytes: usize,
    /// The send buffer at first, in bytes, if it grows as Linux's does: while it is full, to two congestion windows, each segment
    /// with what Linux allots for it (tcp_sndbuf_expand: 2304 bytes for an MSS of 1460), and the user may write again once a
    /// third of it is free (sk_stream_min_wspace). `None`: it has `send_buffer_bytes` at once.
    pub send_buffer_first_bytes: Option<usize>,
    /// The largest number of out-of-order pieces kept. Further pieces are dropped, and the peer retransmits
    /// them.
    pub out_of_order_max: usize,
    /// Nagle's algorithm (RFC 9293 §3.7.4): no small segment is sent while data is outstanding.
    pub nagle: bool,
    /// The first interval of the persist timer (RFC 9293 §3.8.6.1).
    pub persist_min: Duration,
    /// The longest interval of the persist timer.
    pub persist_max: Duration,
    /// The duration of TIME-WAIT: 2 MSL (RFC 9293 §3.6.1).
    pub time_wait: Duration,
}

/// The bounds of the retransmission time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtoBounds {
    /// The RTO before the first measurement (RFC 6298 §2.1). Default: 1 s.
    pub initial: Duration,
    /// The minimum (§2.4). Default: 1 s.
    pub min: Duration,
    /// The maximum (§2.5), with back-off included. Default: 60 s.
    pub max: Duration,
    /// The clock granularity G: the lower bound of 4·RTTVAR (§2.3).
    pub granularity: Duration,
}

/// Where the checksum of a data segment is computed and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// In this stack.
    Here,
    /// Below this stack, as with checksum offload to a network card: data segments are sent with a checksum
    /// of zero, and a received checksum of zero is accepted. For links that do not corrupt data.
    Below,
}

/// Which quantity ssthresh is half of after a loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halve {
    /// The flight size, once for all time-outs of a segment (RFC 5681 §3.1 equation 4).
    Flight,
    /// The smaller of cwnd and the peer's window, in whole segments, at each time-out anew: BSD before 2002.
    Window,
}

/// Which segments give round-trip samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// One segment at a time, and never a retransmitted one (RFC 6298 §3, §4).
    OneAtATime,
    /// The echoed timestamp of each acknowledgement of new data (RFC 7323 §4) if timestamps were negotiated;
    /// else one segment at a time.
    Timestamps,
    /// The last segment newly covered by an acknowledgement, unless it was retransmitted.
    EverySegment,
    /// The first segment newly covered by an acknowledgement, if none that it covers was retransmitted, or
    /// else the first that was newly covered by SACK.
    FirstSegment,
}

/// How losses are detected with SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossDetection {
    /// By duplicate acknowledgements and the SACKed data above a gap (RFC 5681, RFC 6675).
    Duplicates,
    /// By the time since a segment was sent (RACK, RFC 8985 §6).
    Time,
}

/// When duplicates may indicate a new loss after a recovery or a time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverRule {
    /// When an acknowledgement covers more than the data outstanding at the last loss.
    CoversMore,
    /// When an acknowledgement covers the data outstanding at the last loss: BSD.
    Covers,
}

/// Which partial acknowledgements restart the retransmission timer (RFC 6582 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialAckTimer {
    /// The first partial acknowledgement of a recovery: "Impatient".
    First,
    /// Each partial acknowledgement: "Slow-but-Steady".
    Each,
}

/// The back-off of the SYN retransmission timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynBackoff {
    /// Each interval is twice the previous one (RFC 6298 §5.5).
    Doubling,
    /// Multiples of the initial RTO for the first, second and further intervals; the last multiple repeats.
    Steps(&'static [u32]),
}

/// When the delay of an acknowledgement starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckClock {
    /// When the segment arrives.
    Segment,
    /// At no particular event: a free-running clock whose period is the delay sends the pending
    /// acknowledgements.
    Free,
}

impl Default for RtoBounds {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            min: Duration::from_secs(1),
            max: Duration::from_secs(60),
            granularity: Duration::from_millis(1),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            mss: 1_460,
            window_scaling: false,
            timestamps: false,
            timestamp_tick: Duration::from_millis(1),
            checksum: Checksum::Here,
            sack: true,
            congestion_control: cc::Kind::Reno,
            congestion_options: cc::Options {
                initial_window: cc::InitialWindow::Tcp,
                counting: cc::Counting::Acks,
                growth: cc::Growth::Always,
                ..cc::Options::default()
            },
            halve: Halve::Flight,
            dup_threshold: NonZeroU8::new(3).expect("3 is not 0"),
            limited_transmit: false,
            early_retransmit: false,
            loss_detection: LossDetection::Duplicates,
            rack_takes_any_rtt: false,
            tail_loss_probe: false,
            probe_ack_delay: Duration::from_millis(200),
            proportional_reduction: false,
            recover_rule: RecoverRule::CoversMore,
            partial_ack_timer: PartialAckTimer::First,
            timeout_clears_sack: true,
            idle_restart: true,
            idle_raises_ssthresh: false,
            rto: RtoBounds::default(),
            timing: Timing::OneAtATime,
            timer_tick: Duration::ZERO,
            wheel_tick: Duration::ZERO,
            timer_margin: Duration::ZERO,
            initial_srtt: None,
            syn_backoff: SynBackoff::Doubling,
            syn_retries: 5,
            data_retries: 12,
            ack_every: NonZeroU8::new(2).expect("2 is not 0"),
            ack_delay: Duration::from_millis(200),
            ack_clock: AckClock::Segment,
            quick_acks: 0,
            receive_buffer_bytes: 65_535,
            beyond_window_bytes: 0,
            send_buffer_bytes: 65_535,
            send_buffer_first_bytes: None,
            out_of_order_max: 1 << 16,
            nagle: true,
            persist_min: Duration::from_secs(5),
            persist_max: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
        }
    }
}
