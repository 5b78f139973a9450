//! ADaLR-R: a *reconstruction* of TCP-ADaLR, TCP with adaptive delay and loss response (Omueti, Trajković:
//! "Effect of transfer file size on TCP-ADaLR performance: a simulation study"). The authors' formulas are
//! not public; those below are ours.
//!
//! The paper states: a scaling component ρ, computed at the sender from measured round trips, adjusts the
//! increments of the window in slow start and in congestion avoidance; below a round trip of 200 ms the
//! algorithm is NewReno; a mechanism "allows additional segments" when cwnd exceeds the peer's window; a loss
//! response handles losses due to errors. The reconstruction, with all of its numbers:
//!
//! ```text
//! ρ = SRTT / rtt_ref, at least 1 and at most rho_max
//! per acknowledgement, of at most 2 segments (as RFC 3465 with L = 2):
//!   slow start            cwnd += ρ · bytes
//!   congestion avoidance  cwnd += ρ · MTU · bytes / cwnd         ρ segments per round trip; Hybla has ρ²
//! per loss: ssthresh = β · flight, at least 2 MTUs
//!   the latest RTT exceeds the minimum by more than a tenth:  congestion, β = 1/2
//!   otherwise:                                                an error,   β = 1 − 1/(2ρ)
//! ECN mark: β = 1/2; time-out: as Reno
//! ```
//! The mechanism beyond the peer's window is [`Extension`]. No RFC allows it, and while data is missing the
//! receiver must accept more than it advertised. Only a simulated TCP configured for it uses the mechanism
//! (`tcp::Config::beyond_window_bytes`); SCTP never does. Where the transport's round trips come from a
//! coarse clock, a rise is seen only when it crosses a tick.

use std::time::Duration;

use crate::frame::{Rule, Step, Window};
use crate::notation::duration;
use crate::{Ack, Cause, Congestion, Counting, Options, ParameterError};

const RTT_REF_MIN: Duration = Duration::from_millis(1);
const RTT_REF_MAX: Duration = Duration::from_secs(10);
const RHO_MAX: u8 = 32;
const K_THOUSANDTHS_MAX: u32 = 100_000;
/// The number of segments per acknowledgement that open the window.
const LIMIT_SEGMENTS: u8 = 2;
/// The unit of ρ and β.
const ONE: u128 = 1_000;

/// The parameters of ADaLR-R. Values out of range are clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// The round trip up to which the algorithm is Reno. 1 ms to 10 s. Default: 300 ms, with which the gain
    /// over the paper's link and window is the paper's "up to 75 %".
    pub rtt_ref: Duration,
    /// The growth of the [`Extension`], in thousandths of ρ segments per round trip. 1 to 100,000. Default:
    /// 1,000. With 50 it keeps growing during files of hundreds of megabytes.
    pub k_thousandths: u32,
    /// The largest ρ. 1 to 32. Default: 8.
    pub rho_max: u8,
}

impl Default for Params {
    fn default() -> Self {
        Self { rtt_ref: Duration::from_millis(300), k_thousandths: 1_000, rho_max: 8 }
    }
}

impl Params {
    /// The names of the parameters, in the order of [`Params`].
    pub const NAMES: &[&str] = &["rtt-ref", "k", "rho-max"];

    /// Sets a parameter by its name, as `rtt-ref` to `200ms`.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the value is out of range: the error lists the names or the range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ParameterError> {
        let wrong = |range: &'static str| ParameterError::out_of_range("adalr", name, value, range);
        match name {
            "rtt-ref" => {
                let rtt_ref = duration(value).filter(|rtt| (RTT_REF_MIN..=RTT_REF_MAX).contains(rtt));
                self.rtt_ref = rtt_ref.ok_or_else(|| wrong("1ms to 10s"))?;
            }
            "k" => {
                let k = value.parse::<f64>().ok().map(|k| (k * 1e3).round());
                let k = k.filter(|k| (1.0..=f64::from(K_THOUSANDTHS_MAX)).contains(k));
                self.k_thousandths = k.ok_or_else(|| wrong("0.001 to 100"))? as u32;
            }
            "rho-max" => {
                let rho_max = value.parse().ok().filter(|rho| (1..=RHO_MAX).contains(rho));
                self.rho_max = rho_max.ok_or_else(|| wrong("1 to 32"))?;
            }
            _ => return Err(ParameterError::unknown("adalr", name, Self::NAMES)),
        }
        Ok(())
    }

    /// Clamps all values to their ranges.
    fn within_ranges(self) -> Self {
        Self {
            rtt_ref: self.rtt_ref.clamp(RTT_REF_MIN, RTT_REF_MAX),
            k_thousandths: self.k_thousandths.clamp(1, K_THOUSANDTHS_MAX),
            rho_max: self.rho_max.clamp(1, RHO_MAX),
        }
    }

    /// ρ for a smoothed round trip, in thousandths: at least 1,000.
    fn rho(&self, srtt: Option<Duration>) -> u128 {
        let srtt = srtt.unwrap_or(self.rtt_ref).as_nanos();
        (ONE * srtt / self.rtt_ref.as_nanos()).clamp(ONE, ONE * u128::from(self.rho_max))
    }
}

/// The window rule of ADaLR-R.
#[derive(Debug, Clone)]
pub struct Adalr {
    params: Params,
    /// ρ, in thousandths.
    rho: u128,
    /// The minimum and the latest round trip.
    base: Option<Duration>,
    latest: Option<Duration>,
}

impl Adalr {
    /// The options of the underlying frame: counts bytes, at most two segments per acknowledgement.
    pub(crate) fn counted(options: Options) -> Options {
        let byte_counting_limit = LIMIT_SEGMENTS.try_into().expect("2 is not 0");
        Options { counting: Counting::Bytes, byte_counting_limit, ..options }
    }

    /// Whether the latest round trip exceeds the minimum by more than a tenth.
    fn is_congested(&self) -> bool {
        let (base, latest) = (self.base.unwrap_or_default(), self.latest.unwrap_or_default());
        latest > base + base / 10
    }
}

impl Rule for Adalr {
    fn new(options: &Options) -> Self {
        Self { params: options.adalr.within_ranges(), rho: ONE, base: None, latest: None }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.rho = self.params.rho(ack.srtt);
        if let Some(rtt) = ack.rtt {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
            self.latest = Some(rtt);
        }
    }

    fn slow_start(&self, _window: Window, bytes: usize) -> Step {
        Step { numerator: self.rho * bytes as u128, denominator: ONE }
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        let at_most = usize::from(LIMIT_SEGMENTS) * window.mtu;
        Step::segments_a_window(self.rho, window, bytes.min(at_most))
    }

    fn after_loss(&mut self, _window: Window, congestion: &Congestion) -> usize {
        let is_error = congestion.cause == Cause::Loss && !self.is_congested();
        let beta = if is_error { ONE - ONE * ONE / (2 * self.rho) } else { ONE / 2 };
        (congestion.flight_bytes as u128 * beta / ONE) as usize
    }
}

/// The paper's "adaptive rwnd increase": by how much a sender exceeds the peer's window, for a simulated
/// receiver that accepts it.
///
/// While cwnd exceeds the peer's window and the flight does not exceed both, the extension grows by k·ρ
/// segments per round trip, up to (ρ − 1) times the peer's window and never beyond cwnd.
#[derive(Debug, Clone)]
pub struct Extension {
    params: Params,
    bytes: u64,
    /// The fraction of a byte, in units of 1/[`Extension::PARTS`].
    parts: u128,
}

/// The input of [`Extension::on_ack`]. All values are bytes.
#[derive(Debug, Clone, Copy)]
pub struct Opening {
    /// The smoothed round trip, if measured.
    pub srtt: Option<Duration>,
    /// Bytes newly acknowledged.
    pub acked: u64,
    /// Bytes in flight before the acknowledgement.
    pub flight: u64,
    /// The congestion window.
    pub cwnd: u64,
    /// The peer's advertised window.
    pub rwnd: u64,
    /// The size of a full segment.
    pub mtu: u64,
}

impl Extension {
    const PARTS: u128 = 1 << 20;

    /// An extension of 0 bytes.
    pub fn new(params: Params) -> Self {
        Self { params: params.within_ranges(), bytes: 0, parts: 0 }
    }

    /// The current extension, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes an acknowledgement of new data outside of a recovery.
    pub fn on_ack(&mut self, told: Opening) {
        let Opening { srtt, acked, flight, cwnd, rwnd, mtu } = told;
        let rho = self.params.rho(srtt);
        if cwnd > rwnd && flight <= rwnd.saturating_add(self.bytes) {
            let window = u128::from(cwnd.min(rwnd.saturating_add(self.bytes)).max(1));
            let k_rho = u128::from(self.params.k_thousandths) * rho;
            // Packets and acknowledgements fit 32 bits.
            let [mtu, acked] = [mtu, acked].map(|bytes| u128::from(bytes.min(u64::from(u32::MAX))));
            let more = k_rho * mtu * acked * Self::PARTS / (ONE * ONE * window) + self.parts;
            self.parts = more % Self::PARTS;
            let more = u64::try_from(more / Self::PARTS).unwrap_or(u64::MAX);
            self.bytes = self.bytes.saturating_add(more);
        }
        let most = (rho - ONE) * u128::from(rwnd) / ONE;
        let most = u64::try_from(most).unwrap_or(u64::MAX).min(cwnd.saturating_sub(rwnd));
        self.bytes = self.bytes.min(most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{MSS, ack, framed, lose, round};
    use crate::{Cause, Controller};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn below_rtt_ref_the_window_equals_reno() {
        for rtt in [MS, 200 * MS, 300 * MS] {
            let mut adalr = framed::<Adalr>(Options::default(), 10, 2);
            assert!((MSS - 50..=MSS).contains(&round(&mut adalr, rtt)));
            let mut adalr = framed::<Adalr>(Options::default(), 10, 100);
            assert_eq!(round(&mut adalr, rtt), 10 * MSS);
            lose(&mut adalr, Cause::Loss);
            assert_eq!(adalr.window(), 10 * MSS);
        }
    }

    #[test]
    fn at_twice_rtt_ref_each_step_is_twice_as_large() {
        let mut adalr = framed::<Adalr>(Options::default(), 100, 2);
        let grown = round(&mut adalr, 600 * MS);
        assert!((1_900..=2_000).contains(&grown), "{grown}");
        let mut adalr = framed::<Adalr>(Options::default(), 10, 10_000);
        adalr.on_ack(ack(MSS, 600 * MS));
        assert_eq!(adalr.window(), 12 * MSS);
    }

    #[test]
    fn an_acknowledgement_of_many_segments_opens_the_window_by_two() {
        let counted = Adalr::counted(Options::default());
        for (segments, steps) in [(1, 1), (2, 2), (3, 2), (9, 2)] {
            let mut adalr = framed::<Adalr>(counted, 10, 100);
            adalr.on_ack(ack(segments * MSS, 100 * MS));
            assert_eq!(adalr.window(), (10 + steps) * MSS);
            let mut adalr = framed::<Adalr>(counted, 10, 2);
            adalr.on_ack(ack(segments * MSS, 100 * MS));
            assert_eq!(adalr.window(), 10 * MSS + steps * MSS / 10);
        }
    }

    #[test]
    fn a_loss_halves_the_window_only_if_the_round_trip_has_risen() {
        // At 600 ms ρ is 2 and β is 3/4; the minimum is 600 ms, a tenth above is 660 ms.
        for (latest, cause, window) in [
            (600, Cause::Loss, 75_000),
            (660, Cause::Loss, 77_300),
            (661, Cause::Loss, 50_000),
            (600, Cause::Ecn, 50_000),
            (600, Cause::Timeout, MSS),
        ] {
            let mut adalr = framed::<Adalr>(Options::default(), 100, 2);
            adalr.on_ack(ack(0, 600 * MS));
            adalr.on_ack(ack(0, latest * MS));
            lose(&mut adalr, cause);
            assert_eq!(adalr.window(), window, "{latest} ms, {cause:?}");
            assert_eq!(adalr.ssthresh(), window.max(50_000));
        }
    }

    /// A round trip of acknowledgements, segment by segment; returns the growth of the extension.
    fn opened(extension: &mut Extension, srtt: Duration, cwnd: u64, rwnd: u64) -> i64 {
        let (before, window) = (extension.bytes() as i64, cwnd.min(rwnd + extension.bytes()));
        for _ in 0..window / MSS as u64 {
            let srtt = Some(srtt);
            extension.on_ack(Opening {
                srtt,
                acked: MSS as u64,
                flight: window,
                cwnd,
                rwnd,
                mtu: MSS as u64,
            });
        }
        extension.bytes() as i64 - before
    }

    #[test]
    fn the_extension_grows_by_k_rho_segments_per_round_trip_up_to_rho_windows() {
        let rwnd = 40_000;
        for (k_thousandths, first) in [(1_000, 1_800..=2_000), (50, 90..=100)] {
            let mut extension = Extension::new(Params { k_thousandths, ..Params::default() });
            assert!(first.contains(&opened(&mut extension, 600 * MS, 1_000_000, rwnd)));
        }
        let mut extension = Extension::new(Params::default());
        while opened(&mut extension, 600 * MS, 1_000_000, rwnd) > 0 {}
        assert_eq!(extension.bytes(), rwnd, "ρ is 2");
        assert_eq!(opened(&mut extension, 600 * MS, 50_000, rwnd), -30_000, "never beyond cwnd");
    }

    #[test]
    fn there_is_no_extension_below_the_peers_window_or_over_a_short_path() {
        let mut extension = Extension::new(Params::default());
        assert_eq!(opened(&mut extension, 600 * MS, 40_000, 40_000), 0);
        assert_eq!(opened(&mut extension, 300 * MS, 1_000_000, 40_000), 0);
        opened(&mut extension, 600 * MS, 1_000_000, 40_000);
        assert!(extension.bytes() > 0);
        extension.on_ack(Opening {
            srtt: Some(600 * MS),
            acked: 1,
            flight: 1,
            cwnd: 1_000_000,
            rwnd: 0,
            mtu: 1,
        });
        assert_eq!(extension.bytes(), 0, "a closed window stays closed");
    }
}
