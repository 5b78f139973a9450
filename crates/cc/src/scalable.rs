//! Scalable TCP (Kelly: "Scalable TCP: improving performance in highspeed wide area networks", ACM SIGCOMM
//! Computer Communication Review 33(2), 2003): the window grows by a fraction of itself, so that it recovers
//! from a loss in the same number of round trips at any size.
//!
//! Each acknowledged segment adds a hundredth of a segment, and a loss takes an eighth of the window. A
//! window of up to 16 segments (the paper's `lwnd`) is Reno's, as are slow start and time-outs.

use crate::frame::{Rule, Step, Window};
use crate::{Congestion, Options};

/// The paper's a: an acknowledged segment adds 1/100 of a segment.
const A_DIVISOR: u128 = 100;
/// The paper's b: a loss takes 1/8 of the window.
const B_DIVISOR: usize = 8;
/// The paper's legacy window: up to this size the window is Reno's.
const LEGACY_SEGMENTS: usize = 16;

/// The window rule of Scalable TCP.
#[derive(Debug, Clone)]
pub struct Scalable;

impl Rule for Scalable {
    fn new(_options: &Options) -> Self {
        Self
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        if window.segments() <= LEGACY_SEGMENTS {
            return Step::segments_a_window(1_000, window, bytes);
        }
        Step { numerator: bytes as u128, denominator: A_DIVISOR }
    }

    fn after_loss(&mut self, window: Window, congestion: &Congestion) -> usize {
        let flight = congestion.flight_bytes;
        if window.segments() <= LEGACY_SEGMENTS { flight / 2 } else { flight - flight / B_DIVISOR }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::frame::testing::{MSS, framed, lose, round};
    use crate::{Cause, Controller};

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_small_window_equals_reno() {
        let mut scalable = framed::<Scalable>(Options::default(), 16, 2);
        assert!((MSS - 60..=MSS).contains(&round(&mut scalable, RTT)));
        let mut scalable = framed::<Scalable>(Options::default(), 16, 2);
        lose(&mut scalable, Cause::Loss);
        assert_eq!(scalable.window(), 8 * MSS);
    }

    #[test]
    fn a_larger_window_grows_by_a_hundredth_per_round_trip_and_falls_by_an_eighth() {
        for segments in [200, 2_000] {
            let mut scalable = framed::<Scalable>(Options::default(), segments, 2);
            assert_eq!(round(&mut scalable, RTT), segments * MSS / 100);
            let mut scalable = framed::<Scalable>(Options::default(), segments, 2);
            lose(&mut scalable, Cause::Loss);
            assert_eq!(scalable.window(), segments * MSS / 8 * 7);
        }
    }

    #[test]
    fn a_timeout_is_handled_as_in_reno() {
        let mut scalable = framed::<Scalable>(Options::default(), 200, 2);
        lose(&mut scalable, Cause::Timeout);
        assert_eq!((scalable.window(), scalable.ssthresh()), (MSS, 100 * MSS));
    }
}
