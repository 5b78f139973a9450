//! Figure 4: SCTP, four flows that begin one after the other.
//!
//! Published: the first flow's slow start stops too early and it climbs for long; drops within the first 102.8 s, and cuts of the
//! windows at about 200 s and 800 s. Ours: each flow that joins overflows the queue in its slow start and times out; which of them
//! have what afterwards is a matter of chance. A time-out that comes in a fast recovery leaves a window of one packet until the exit
//! point of that is acknowledged, a lost packet each round trip: RFC 4960 §7.2.1 opens none before, and in ns-2's `sctp.cc` no
//! time-out touches `uiRecover`, below which `AdjustCwnd` is not called. `--quick` has it small, from 2.8 s to 9.8 s. So the
//! first flow stands still where the paper's climbs.

use super::Protocol;
use super::film::Film;
use crate::figure::{Figure, Kind};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/fig4",
    shows: "SCTP, four flows that come and go",
    caption: "Figure 4: four SCTP flows that begin at 0, 50, 100 and 150 s and end at 1000, 950, 900 and 850 s. Each that joins overflows the queue in its slow start.",
    settings: || super::settings(Protocol::Sctp),
    kind: Kind::Film(|seed, quick| {
        let film = Film { figure: &FIGURE, protocol: Protocol::Sctp, flows: || super::staggered() };
        film.scene(seed, quick)
    }),
};
