//! Figure 7: the transfer time of 100 files, against loss, over a path from coast to coast: 1 Mbit/s, 35 ms.
//!
//! Published, in words: without loss TCP and naive alike; 10 KB with loss: MS half of naive's time; 1 MB: no
//! significant difference between the SCTPs. Ours, seconds at 0, 1, 3, 6, 10 %: 10 KB: tcp 34.6 47.8 80.9 140
//! 238; naive 55.9 86.2 146 263 542; ms 26.1 36.5 60.0 107 220; ms-cp 8.63 9.07 12.0 20.9 50.9; braid 8.48
//! 8.53 8.90 9.17 9.49. 50 KB: tcp 70.0 90.0 145 271 613; naive 95.5 126 200 346 778; ms 61.5 83.1 120 211
//! 502; ms-cp 41.8 43.3 58.4 106 286; braid 41.6 41.8 42.3 42.9 44.3. 200 KB: tcp 194 242 428 1009 2899;
//! naive 220 261 366 653 1576; ms 186 213 307 533 1315; ms-cp 166 174 231 439 1063; braid 166 166 167 168
//! 171. 500 KB: tcp 443 542 1082 2719 7839; naive 468 517 722 1298 3300; ms 434 466 640 1186 3128; ms-cp 414
//! 430 575 1067 2915; braid 414 416 417 419 427. 1 MB: tcp 857 1055 2231 5540 15829; naive 882 953 1288 2391
//! 6158; ms 848 901 1223 2281 5899; ms-cp 828 864 1153 2150 5767; braid 828 831 833 837 848. Reason for the
//! difference: without loss naive takes 1.6 times TCP's time for 10 KB. By the packets of a run
//! (`multistream/handshake`) the additional 212 ms of a file are three round trips: 72 ms for the handshake,
//! 70 ms for the initial window of two packets, where BSD's TCP has four, and 71 ms at the end: SHUTDOWN,
//! which signals that the file is complete, must not be sent before all data is acknowledged, while TCP's FIN
//! is in the last segment.

use crate::figure::Figure;
use crate::scenario;

/// The figure: `fig7.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in("multistream/fig7", include_str!("fig7.toml"))
}
