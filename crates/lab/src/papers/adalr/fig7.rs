//! Figure 7: the utilisation of the satellite link with files of 500 kB to 500 MB, over 260 ms one way.
//!
//! Published: about 50 % for NewReno, which rwnd limits; ADaLR's is 57 to 90 % higher. Ours, % for 500 kB,
//! 50, 100, 200, 300, 400, 500 MB: NewReno 27.4 49.6 49.7 49.9 49.9 49.9 49.9; ADaLR-R 34.8 86.9 87.5 87.9
//! 88.0 88.0 88.1; slow 32.1 82.3 90.3 94.9 96.5 97.4 97.9. This is Figure 6 divided by 2 Mbit/s, so P3-C13
//! and C14 are decided as there.

use super::sized;
use crate::figure::Figure;

/// The figure.
pub(super) const FIGURE: Figure = sized(
    "adalr/fig7",
    "Utilisation of the satellite's link",
    "P3, Figure 7: part of the 2 Mbit/s that the link to the client delivered, headers included, against the size of the file; 260 ms one way, no loss. ADaLR-R is a reconstruction, with k = 1 and with k = 0.05 (slow). SACK, HighSpeed and Scalable lie under NewReno.",
    "utilisation",
    "% of 2 Mbit/s",
);
