//! Settings that only reconstructions of older stacks change.

use std::num::NonZeroU8;

use super::CHUNK_OVERHEAD_BYTES;

/// What only the reconstruction of an older stack sets, as the profiles `rfc2960-kame` and `ns2` do.
///
/// The defaults are those of RFC 9260. No product and no profile of a current stack sets one of these.
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `burst_rule` | LowerWindow | Packets | Packets | Packets |
/// | `missing_reports` | 4 | 3 | 3 | 3 |
/// | `retransmit_to` | Another | ByCause | ByCause | Another |
/// | `loss_recovery` | Rfc4960 | Rfc9260 | Rfc9260 | Rfc4960 |
/// | `measure_each` | RoundTrip | SmoothedRoundTrip | SmoothedRoundTrip | RoundTrip |
/// | `measure_handshake` | off | on | on | off |
/// | `sack_at_once_when_filled` | off | on | on | off |
/// | `chunk_overhead_bytes` | 64 B | 64 B | 64 B | 16 B |
/// | `window_updates` | AvoidSilly | AvoidSilly | AvoidSilly | AsItIs |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Legacy {
    /// How Max.Burst is applied. Default: by counting packets.
    pub burst_rule: BurstRule,
    /// With [`LossDetection::MissingReports`](super::LossDetection::MissingReports): the number of miss indications that marks a TSN lost.
    /// Default 3 (RFC 9260 §7.2.4); 4 in RFC 2960 §7.2.4.
    pub missing_reports: NonZeroU8,
    /// The path of retransmissions when one of several paths is used at a time. Default RFC 9260 §6.4.
    pub retransmit_to: RetransmitTo,
    /// What is retransmitted immediately after a loss, and when fast recovery ends. Default RFC 9260
    /// §7.2.4.
    pub loss_recovery: LossRecovery,
    /// Whether the RTT of an INIT that was answered without retransmission is measured (optional in RFC
    /// 9260 §6.3.1). Default on.
    pub measure_handshake: bool,
    /// What "once per round trip" (RFC 9260 §6.3.1) means for RTT samples. Default: per smoothed RTT.
    pub measure_each: MeasureEach,
    /// Whether a packet that fills the last gap is acknowledged immediately, as in RFC 5681 §4.2 for TCP.
    /// If not, its SACK may be delayed, which "until the hole is filled" (RFC 9260 §7.2.4) permits. Default
    /// on.
    pub sack_at_once_when_filled: bool,
    /// The overhead in bytes charged to the receive buffer for each chunk besides its data, which limits
    /// the number of tiny chunks. At least 16, the length of its header. Default 64.
    pub chunk_overhead_bytes: usize,
    /// Which receive window is advertised. Default RFC 9260 §6.2.
    pub window_updates: WindowUpdates,
}

impl Default for Legacy {
    fn default() -> Self {
        Self {
            burst_rule: BurstRule::Packets,
            missing_reports: NonZeroU8::new(3).expect("3 is not 0"),
            retransmit_to: RetransmitTo::ByCause,
            loss_recovery: LossRecovery::Rfc9260,
            measure_handshake: true,
            measure_each: MeasureEach::SmoothedRoundTrip,
            sack_at_once_when_filled: true,
            chunk_overhead_bytes: CHUNK_OVERHEAD_BYTES,
            window_updates: WindowUpdates::AvoidSilly,
        }
    }
}

/// How Max.Burst is applied (RFC 9260 §6.1 D permits both).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BurstRule {
    /// At most this many packets with new data are sent in response to one event, whatever the window.
    Packets,
    /// Before new data is sent, the window is reduced to Max.Burst packets above the flight, permanently:
    /// `if ((flightsize + Max.Burst*MTU) < cwnd) cwnd = flightsize + Max.Burst*MTU`, as RFC 4960 §6.1 D
    /// permits and P2 §4.2 reports of KAME. RFC 9260 does not want a permanent change.
    LowerWindow,
}

/// How often the RTT is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureEach {
    /// When the smoothed RTT has passed since the last sample, so that a growing queue is noticed soon; or
    /// twice the current RTT, so that its end is noticed soon.
    SmoothedRoundTrip,
    /// On a chunk sent after the last sample: one chunk is timed at a time, as in implementations without a
    /// time for each chunk.
    RoundTrip,
}

/// What is retransmitted immediately after a loss, and when fast recovery ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossRecovery {
    /// The first packet of a fast recovery is sent whatever the window, the others as soon as the window
    /// permits (RFC 9260 §6.3.3, §7.2.4). A time-out ends fast recovery.
    Rfc9260,
    /// Each time-out and each fast retransmission, also during fast recovery, sends one packet; the others
    /// follow with the next SACK: "normally, when a SACK chunk arrives" (RFC 4960 §6.3.3, §7.2.4). Only its
    /// exit point ends fast recovery, and no window grows until then; the SACK that ends it lets the window
    /// grow, as in BSD and Linux.
    Rfc4960,
}

/// The path of retransmissions when one of several paths is used at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetransmitTo {
    /// The same path after miss indications, another one after a time-out (RFC 9260 §6.4).
    ByCause,
    /// The same path, unless it is inactive.
    Same,
    /// Another path, also after miss indications (RFC 2960 §6.4: an active address different from the
    /// last).
    Another,
}

/// Which receive window is advertised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowUpdates {
    /// Only large increases, and immediately when a small window opens wide (RFC 9260 §6.2, RFC 1122
    /// §4.2.3.3).
    AvoidSilly,
    /// The free space in each SACK, without additional SACKs for window updates: for receivers that read
    /// immediately.
    AsItIs,
}
