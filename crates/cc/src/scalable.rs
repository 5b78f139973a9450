//! Scalable TCP (Kelly: "Scalable TCP: improving performance in highspeed wide area networks", ACM SIGCOMM Computer
//! Communication Review 33(2), 2003): a window that opens by a part of itself, so that it is back after a loss in the same
//! number of round trips however large it was.
//!
//! Each acknowledged segment opens a hundredth of a segment, and a loss takes an eighth. A window of 16 segments or fewer
//! (the paper's `lwnd`) is Reno's. Slow start and time-outs are Reno's too.

use crate::frame::{Rule, Step, Window};
use crate::{Congestion, Options};

/// The paper's a: an acknowledged segment opens 1/100 of one.
const A_DIVISOR: u128 = 100;
/// The paper's b: a loss takes 1/8.
const B_DIVISOR: usize = 8;
/// The paper's legacy window: what is not larger is Reno's.
const LEGACY_SEGMENTS: usize = 16;

/// The rule of Scalable TCP.
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
    fn a_small_window_is_renos() {
        let mut scalable = framed::<Scalable>(Options::default(), 16, 2);
        assert!((MSS - 60..=MSS).contains(&round(&mut scalable, RTT)));
        let mut scalable = framed::<Scalable>(Options::default(), 16, 2);
        lose(&mut scalable, Cause::Loss);
        assert_eq!(scalable.window(), 8 * MSS);
    }

    #[test]
    fn a_larger_one_opens_by_a_hundredth_a_round_trip_and_falls_by_an_eighth() {
        for segments in [200, 2_000] {
            let mut scalable = framed::<Scalable>(Options::default(), segments, 2);
            assert_eq!(round(&mut scalable, RTT), segments * MSS / 100);
            let mut scalable = framed::<Scalable>(Options::default(), segments, 2);
            lose(&mut scalable, Cause::Loss);
            assert_eq!(scalable.window(), segments * MSS / 8 * 7);
        }
    }

    #[test]
    fn a_time_out_is_renos() {
        let mut scalable = framed::<Scalable>(Options::default(), 200, 2);
        lose(&mut scalable, Cause::Timeout);
        assert_eq!((scalable.window(), scalable.ssthresh()), (MSS, 100 * MSS));
    }
}
