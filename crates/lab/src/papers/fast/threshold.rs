//! Figure 4 again, with one change: the initial slow-start threshold (P4-C09, P4-C11).
//!
//! The paper does not give the threshold. Its Figure 2 has a slow start that overflows the queue (P4-C01), which asks for a high
//! threshold; its Figure 4 has one that stops far from congestion, which asks for a low one. `fast/threshold` has that of ns-2's
//! module, 65,536 bytes; `fast/forty` has 40 % of what the way holds.
//!
//! A prediction ([`overflows`]): a flow begins with the threshold, each window grows by a packet a round trip, and all halve
//! where they exceed what way and queue hold.
//!
//! Published: nothing. Ours: `braidlab check P4-C09 P4-C11`.

use super::film::Film;
use super::{LASTS, Protocol, QUEUE, RATE, STAGGERED, run};
use crate::figure::{Figure, Kind};

/// The threshold of ns-2's module.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/threshold",
    shows: "SCTP, four flows, ns-2's initial threshold",
    caption: "Figure 4 with one change: slow start ends at ns-2's default threshold of 65,536 bytes.",
    settings: &|| super::settings(Protocol::SctpThreshold),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::SctpThreshold, flows: || super::staggered() };
        film.scene(seed, quick)
    }),
};

/// A threshold of 40 % of what the way holds.
pub(super) const PART: Figure = Figure {
    id: "fast/forty",
    shows: "SCTP, four flows, a threshold of 40 % of what the way holds",
    caption: "Figure 4 with one change: slow start ends at 40 % of what the way holds without its queue.",
    settings: &|| super::settings(Protocol::SctpPart),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &PART, protocol: Protocol::SctpPart, flows: || super::staggered() };
        film.scene(seed, quick)
    }),
};

/// Predicts when the queue overflows, in seconds, if slow start ends at a threshold in packets.
pub(super) fn overflows(threshold: f64, round_trip: f64) -> Vec<f64> {
    const STEP: f64 = 0.01;
    let a_second = RATE as f64 / 8.0 / f64::from(run::PACKET);
    let room = a_second * round_trip + QUEUE as f64;
    let mut windows = [0.0_f64; STAGGERED.len()];
    let mut times = Vec::new();
    for step in 0..(LASTS.as_secs_f64() / STEP) as u64 {
        let now = step as f64 * STEP;
        let takes = round_trip.max(windows.iter().sum::<f64>() / a_second);
        for (window, (begins, ends)) in windows.iter_mut().zip(STAGGERED) {
            *window = match now {
                now if now < begins as f64 || now >= ends as f64 => 0.0,
                _ if *window == 0.0 => threshold,
                _ => *window + STEP / takes,
            };
        }
        if windows.iter().sum::<f64>() > room {
            times.push(now);
            windows.iter_mut().for_each(|window| *window /= 2.0);
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicted_overflows_are_a_sawtooth_after_the_flows_have_joined() {
        let far = overflows(45.0, 0.1);
        // Four flows fill 9,667 packets from 3,000 at 150 s at 40 packets a second, and slower when the queue grows.
        assert!((320.0..335.0).contains(&far[0]), "{far:?}");
        let periods: Vec<f64> = far.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // From half of the room: 46 s without a queue, and 92 s with a queue that delays.
        assert!(periods[..3].iter().all(|period| (136.0..140.0).contains(period)), "{periods:?}");
        // Three flows of 2,722 packets each and what they have grown by exceed the room as the third joins.
        assert_eq!(overflows(2_800.0, 0.1)[0].round(), 100.0);
        assert!(overflows(2_600.0, 0.1)[0] > 104.0);
    }
}
