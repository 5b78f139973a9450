//! What a connection may be told: plain values over a default of what the RFCs recommend.

use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_cc as cc;

/// How a connection behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The largest segment that this side takes, in bytes of data and options (RFC 9293 §3.7.1). 1460: what fits an
    /// Ethernet frame with IPv4.
    pub mss: u16,
    /// Whether to ask for window scaling (RFC 7323 §2). Without it no window is larger than 65,535 bytes.
    pub window_scaling: bool,
    /// Whether to ask for timestamps (RFC 7323 §3); each segment then holds 12 bytes less.
    pub timestamps: bool,
    /// How fast the clock of the timestamps ticks. 1 ms.
    pub timestamp_tick: Duration,
    /// Who sees to the checksums of data.
    pub checksum: Checksum,
    /// Whether to ask for selective acknowledgements (RFC 2018). With them recovery is RFC 6675's, without RFC 6582's.
    pub sack: bool,

    /// The congestion control.
    pub congestion_control: cc::Kind,
    /// What it is told when it is built.
    pub congestion_options: cc::Options,
    /// Half of what becomes ssthresh after a loss. RFC 5681: of what is in flight.
    pub halve: Halve,
    /// DupThresh: duplicate acknowledgements that mean a loss (RFC 5681 §3.2). 3.
    pub dup_threshold: NonZeroU8,
    /// Limited Transmit (RFC 3042): new data on each of the first two duplicate acknowledgements.
    pub limited_transmit: bool,
    /// Early Retransmit (RFC 5827), by segments: fewer duplicates are enough where no more can come.
    pub early_retransmit: bool,
    /// How losses are found where there is SACK. By duplicates.
    pub loss_detection: LossDetection,
    /// Whether the tail is probed before the retransmission timer runs out (RFC 8985 §7), where there is SACK.
    pub tail_loss_probe: bool,
    /// By how much the probe of a single segment allows for the peer's delay (RFC 8985 §7.2, TLP.max_ack_delay).
    pub probe_ack_delay: Duration,
    /// Whether a recovery with SACK sends by what was delivered (RFC 6937), and not by pipe alone.
    pub proportional_reduction: bool,
    /// From when duplicates may tell of a new loss without SACK (RFC 6582 §3.2 step 2).
    pub recover_rule: RecoverRule,
    /// Which partial acknowledgements restart the retransmission timer without SACK (RFC 6582 §3.2 step 5).
    pub partial_ack_timer: PartialAckTimer,
    /// Whether a time-out forgets what was selectively acknowledged (RFC 2018 §8, "SHOULD turn off").
    pub timeout_clears_sack: bool,
    /// Whether a first segment after an idle RTO finds the window as at the start (RFC 5681 §4.1).
    pub idle_restart: bool,
    /// Whether it then finds ssthresh no smaller than the window that it lost, so that slow start leads back to it (RFC 2861
    /// §3 goes three quarters of the way).
    pub idle_raises_ssthresh: bool,

    /// The time-out's bounds and granularity (RFC 6298 §2). Its initial value holds for SYN too.
    pub rto: RtoBounds,
    /// What is taken for a round-trip sample.
    pub timing: Timing,
    /// The clock of the retransmission timer: it fires, and elapsed time is counted, on multiples of this. 0: no tick.
    pub timer_tick: Duration,
    /// SRTT before anything was measured, if the first sample is averaged in as others are (RFC 6298 §2.2 does not).
    pub initial_srtt: Option<Duration>,
    /// How the time-outs of SYN grow.
    pub syn_backoff: SynBackoff,
    /// Retransmissions of a SYN, or of a SYN that acknowledges, before the connection fails.
    pub syn_retries: u8,
    /// Time-outs of one segment before the connection fails (R2 of RFC 9293 §3.8.3).
    pub data_retries: u8,

    /// An acknowledgement for every so many segments that came in order (RFC 5681 §4.2: 2 at most). 2.
    pub ack_every: NonZeroU8,
    /// How long one may wait (RFC 9293 §3.8.6.3: less than 0.5 s). 0 if none does.
    pub ack_delay: Duration,
    /// From when that is counted.
    pub ack_clock: AckClock,
    /// Segments at the start of a connection that are acknowledged at once.
    pub quick_acks: u16,

    /// Bytes that came and were not read, at most: the largest window advertised.
    pub receive_buffer_bytes: usize,
    /// A model, and no TCP: so far beyond the window that it advertised the receiver takes what comes, in bytes, and so far at
    /// most a sender with [`cc::Kind::Adalr`] goes beyond the peer's ([`cc::adalr::Extension`]). 0: what lies beyond is cut
    /// off, as RFC 9293 §3.10.7.4 has it.
    pub beyond_window_bytes: usize,
    /// Bytes that were written and not acknowledged, at most.
    pub send_buffer_bytes: usize,
    /// Pieces kept out of order, at most; those beyond are dropped and come again.
    pub out_of_order_max: usize,
    /// Nagle's algorithm (RFC 9293 §3.7.4): no small segment while data is not acknowledged.
    pub nagle: bool,
    /// The first wait before a closed window is probed (RFC 9293 §3.8.6.1).
    pub persist_min: Duration,
    /// The longest wait.
    pub persist_max: Duration,
    /// How long a connection lingers in TIME-WAIT: 2 MSL (RFC 9293 §3.6.1).
    pub time_wait: Duration,
}

/// The bounds of a retransmission time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RtoBounds {
    /// Until something was measured (RFC 6298 §2.1). 1 s.
    pub initial: Duration,
    /// Never less (§2.4). 1 s.
    pub min: Duration,
    /// Never more (§2.5), backed off or not. 60 s.
    pub max: Duration,
    /// G of §2.3: 4·RTTVAR counts as this at least.
    pub granularity: Duration,
}

/// Who puts the checksum into a segment with data, and looks whether one that comes is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// This stack.
    Here,
    /// What lies below it, as a network card does: segments with data leave with a checksum of zero, and one that comes with
    /// zero is believed. For links that damage nothing.
    Below,
}

/// What half is taken of when a loss shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Halve {
    /// What is in flight, once for all time-outs of a segment (RFC 5681 §3.1 equation 4).
    Flight,
    /// The smaller of both windows, in whole segments, with each time-out anew: BSD before 2002.
    Window,
}

/// What is taken for a round-trip sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// One segment at a time is timed, and none that was sent twice (RFC 6298 §3, §4).
    OneAtATime,
    /// The echoed timestamp of each acknowledgement of something new (RFC 7323 §4), if timestamps were agreed on;
    /// else one at a time.
    Timestamps,
    /// The latest segment that an acknowledgement newly covers, unless it was sent twice.
    EverySegment,
}

/// How losses are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossDetection {
    /// By duplicate acknowledgements and what lies above a gap (RFC 5681, RFC 6675).
    Duplicates,
    /// By the time since a segment left (RACK, RFC 8985 §6).
    Time,
}

/// From when duplicates may tell of a new loss after a recovery or a time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoverRule {
    /// When more than all that was in flight then is acknowledged.
    CoversMore,
    /// When all that was in flight then is acknowledged: BSD.
    Covers,
}

/// Which partial acknowledgements restart the retransmission timer (RFC 6582 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartialAckTimer {
    /// The first of a recovery: "Impatient".
    First,
    /// Each: "Slow-but-Steady".
    Each,
}

/// How the time-outs of SYN grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SynBackoff {
    /// Twice the last (RFC 6298 §5.5).
    Doubling,
    /// So many times the initial one for the first, second and each further; the last of these from then on.
    Steps(&'static [u32]),
}

/// From when the delay of an acknowledgement is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AckClock {
    /// From the segment.
    Segment,
    /// Not at all: a clock that runs anyway, with the delay for its period, sends what waits.
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
            out_of_order_max: 1 << 16,
            nagle: true,
            persist_min: Duration::from_secs(5),
            persist_max: Duration::from_secs(60),
            time_wait: Duration::from_secs(60),
        }
    }
}
