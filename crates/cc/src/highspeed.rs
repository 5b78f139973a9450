//! HighSpeed TCP (RFC 3649): the larger the window, the faster it grows and the less a loss reduces it. A
//! window of up to 38 segments is Reno's.
//!
//! At a window of w segments, a window of acknowledgements adds a(w) segments, and a loss takes b(w) of the
//! window (§5). Both come from the table of the RFC (Appendix B, for Low_Window 38, High_Window 83,000,
//! High_P 10⁻⁷ and High_Decrease 0.1), in the row of the largest w not above the window, so never more than
//! the formula. Slow start (§10.1) and time-outs are unchanged.

use crate::frame::{Rule, Step, Window};
use crate::{Congestion, Options};

/// Table 12: w where a(w) is 1, 2, 3, …, and 100 b(w).
const TABLE: [(u32, u8); 73] = [
    (38, 50),
    (118, 44),
    (221, 41),
    (347, 38),
    (495, 37),
    (663, 35),
    (851, 34),
    (1_058, 33),
    (1_284, 32),
    (1_529, 31),
    (1_793, 30),
    (2_076, 29),
    (2_378, 28),
    (2_699, 28),
    (3_039, 27),
    (3_399, 27),
    (3_778, 26),
    (4_177, 26),
    (4_596, 25),
    (5_036, 25),
    (5_497, 24),
    (5_979, 24),
    (6_483, 23),
    (7_009, 23),
    (7_558, 22),
    (8_130, 22),
    (8_726, 22),
    (9_346, 21),
    (9_991, 21),
    (10_661, 21),
    (11_358, 20),
    (12_082, 20),
    (12_834, 20),
    (13_614, 19),
    (14_424, 19),
    (15_265, 19),
    (16_137, 19),
    (17_042, 18),
    (17_981, 18),
    (18_955, 18),
    (19_965, 17),
    (21_013, 17),
    (22_101, 17),
    (23_230, 17),
    (24_402, 16),
    (25_618, 16),
    (26_881, 16),
    (28_193, 16),
    (29_557, 15),
    (30_975, 15),
    (32_450, 15),
    (33_986, 15),
    (35_586, 14),
    (37_253, 14),
    (38_992, 14),
    (40_808, 14),
    (42_707, 13),
    (44_694, 13),
    (46_776, 13),
    (48_961, 13),
    (51_258, 13),
    (53_677, 12),
    (56_230, 12),
    (58_932, 12),
    (61_799, 12),
    (64_851, 11),
    (68_113, 11),
    (71_617, 11),
    (75_401, 10),
    (79_517, 10),
    (84_035, 10),
    (89_053, 10),
    (94_717, 9),
];

/// a(w) in segments, and 100 b(w).
fn row(segments: usize) -> (u32, u8) {
    let above = TABLE.partition_point(|(w, _)| *w as usize <= segments).max(1);
    (above as u32, TABLE[above - 1].1)
}

/// The window rule of RFC 3649.
#[derive(Debug, Clone)]
pub struct HighSpeed;

impl Rule for HighSpeed {
    fn new(_options: &Options) -> Self {
        Self
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        let (a, _) = row(window.segments());
        Step::segments_a_window(1_000 * u128::from(a), window, bytes)
    }

    fn after_loss(&mut self, window: Window, congestion: &Congestion) -> usize {
        let (_, b) = row(window.segments());
        congestion.flight_bytes - congestion.flight_bytes / 100 * usize::from(b)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::frame::testing::{MSS, framed, lose, round};
    use crate::{Cause, Controller};

    const RTT: Duration = Duration::from_millis(100);

    /// The formulas of §5, from which the RFC made its table: a(w) with p(w) = 0.078 / w^1.2, and b(w).
    fn formula(w: f64) -> (f64, f64) {
        let b = (0.1 - 0.5) * (w.ln() - 38_f64.ln()) / (83_000_f64.ln() - 38_f64.ln()) + 0.5;
        (w * w * 2.0 * b / ((2.0 - b) * w.powf(1.2) * 12.8), b)
    }

    #[test]
    fn the_table_is_the_formula_rounded_down() {
        for (index, (w, b)) in TABLE.iter().enumerate().skip(1) {
            let (a, exact) = formula(f64::from(*w));
            let expected = index as f64 + 1.0;
            assert!((expected..expected + 0.2).contains(&a), "a({w}) = {a}");
            assert!((exact * 100.0 - f64::from(*b)).abs() < 0.6, "b({w}) = {exact}");
        }
        assert_eq!(row(1), (1, 50));
        assert_eq!(row(117), (1, 50));
        assert_eq!(row(118), (2, 44));
        assert_eq!(row(10_000_000), (73, 9));
    }

    #[test]
    fn a_window_of_at_most_38_segments_equals_reno() {
        let mut highspeed = framed::<HighSpeed>(Options::default(), 38, 2);
        let grown = round(&mut highspeed, RTT);
        assert!((MSS - 30..=MSS).contains(&grown), "{grown}");
        let mut highspeed = framed::<HighSpeed>(Options::default(), 38, 2);
        lose(&mut highspeed, Cause::Loss);
        assert_eq!(highspeed.window(), 19 * MSS);
    }

    #[test]
    fn a_large_window_grows_faster_and_is_reduced_less() {
        let mut highspeed = framed::<HighSpeed>(Options::default(), 1_058, 2);
        let grown = round(&mut highspeed, RTT);
        assert!((7_900..=8_000).contains(&grown), "{grown}");
        let mut highspeed = framed::<HighSpeed>(Options::default(), 1_000, 2);
        lose(&mut highspeed, Cause::Loss);
        assert_eq!(highspeed.window(), 660 * MSS);
    }

    #[test]
    fn a_timeout_is_handled_as_in_reno() {
        let mut highspeed = framed::<HighSpeed>(Options::default(), 1_000, 2);
        lose(&mut highspeed, Cause::Timeout);
        assert_eq!((highspeed.window(), highspeed.ssthresh()), (MSS, 500 * MSS));
    }
}
