//! Figure 4: SCTP, four flows that begin one after the other.
//!
//! Published: the first flow's slow start stops too early and it climbs for long; drops within the first
//! 102.8 s, and cuts of the windows at about 200 s and 800 s. Ours: each flow that joins overflows the
//! queue in its slow start and times out; which of them have what afterwards is a matter of chance. A
//! time-out that comes in a fast recovery leaves a window of one packet until the exit point of that is
//! acknowledged, a lost packet each round trip: RFC 4960 §7.2.1 opens none before, and in ns-2's `sctp.cc`
//! no time-out touches `uiRecover`, below which `AdjustCwnd` is not called. `--quick` has it small, from
//! 2.8 s to 9.8 s. So the first flow stands still where the paper's climbs: after its slow start the link
//! is used to 1 % from 15 s to 45 s. With 100 ms there and back 14,936 packets are dropped, 10,831 of them
//! in the first 102.8 s, when the queue overflows at 2, 52 and 102 s; then at 152, 452, 563, 669, 732 and
//! 821 s: at 800 s as published, at 200 s not, for the fourth flow's slow start takes two seconds and not
//! 50. With 100 ms each way 17,199, at 5, 55, 105 and 155 s alone: thousands of packets at one a round trip
//! of 0.2 s take longer than the run.

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/fig4",
    shows: "SCTP, four flows that come and go",
    caption: "Figure 4: four SCTP flows that begin at 0, 50, 100 and 150 s and end at 1000, 950, 900 and 850 s. Each that joins overflows the queue in its slow start.",
    settings: &|| super::settings(Protocol::Sctp),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::Sctp, flows: || super::staggered() };
        film.scene(seed, quick)
    }),
};
