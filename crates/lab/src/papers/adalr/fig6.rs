//! Figure 6: the throughput of the satellite link with files of 500 kB to 500 MB, over 260 ms one way.
//!
//! Published: NewReno's falls very slightly from 50 MB on; ADaLR's rises up to 400 MB, and is up to 81 %
//! (caption) or 57 to 90 % (text) higher. Ours, kbit/s for 500 kB, 50, 100, 200, 300, 400, 500 MB: NewReno
//! 548 991 995 997 998 998 998; ADaLR-R 696 1737 1750 1757 1760 1761 1762; slow 642 1646 1806 1898 1931 1948
//! 1958. NewReno's does not fall: rwnd limits its window, so congestion avoidance has no effect, and the
//! share of the start decreases with the file size (P3-C14). ADaLR-R's hardly rises with k = 1, and rises by
//! a sixth with k = 0.05 (P3-C13): see Figure 5.

use super::sized;
use crate::figure::Figure;

/// The figure.
pub(super) const FIGURE: Figure = sized(
    "adalr/fig6",
    "Throughput of the satellite's link",
    "P3, Figure 6: bits a second that the link to the client delivered, headers included, against the size of the file; 2 Mbit/s, 260 ms one way, no loss. ADaLR-R is a reconstruction, with k = 1 and with k = 0.05 (slow). SACK, HighSpeed and Scalable lie under NewReno.",
    "link_throughput",
    "kbit/s, throughput of the link",
);
