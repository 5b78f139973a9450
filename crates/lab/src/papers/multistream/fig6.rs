//! Figure 6: the transfer time of 100 files, against loss, over a local network: 3 Mbit/s, 1 ms.
//!
//! Published, in words: without loss all alike; 10 KB with loss: MS half of naive's time, CP as much as 8
//! times faster than MS; 50 KB: MS about 40 % faster than naive; 200 KB: CP 30 % better than MS; 1 MB at 10
//! %: TCP four times as long as naive. Ours, seconds at 0, 1, 3, 6, 10 %: 10 KB: tcp 3.55 17.7 48.7 104 190;
//! naive 4.01 29.3 95.5 220 489; ms 3.27 10.6 31.5 75.2 188; ms-cp 2.80 2.89 4.04 9.07 36.4; braid 2.81 2.81
//! 2.82 2.86 2.96. 50 KB: tcp 14.6 30.3 77.9 179 502; naive 15.1 43.2 105 243 631; ms 14.3 21.4 45.8 121 378;
//! ms-cp 13.8 13.9 18.9 46.4 199; braid 13.8 13.9 14.0 14.1 14.3. 200 KB: tcp 56.1 78.9 197 647 2506; naive
//! 56.5 89.0 164 376 1164; ms 55.7 65.5 107 264 940; ms-cp 55.3 57.1 75.1 194 773; braid 55.2 55.5 55.7 56.0
//! 56.7. 500 KB: tcp 139 172 480 1783 6223; naive 139 171 268 659 2469; ms 139 149 208 541 2165; ms-cp 138
//! 142 184 468 1999; braid 138 139 139 140 142. 1 MB: tcp 277 330 983 3644 12801; naive 277 314 452 1125
//! 4409; ms 277 293 397 993 4005; ms-cp 276 284 367 913 3883; braid 276 277 278 280 283. Reason for the
//! differences: 1 MB at 10 % takes 2.9 times as long and not 4 times, and 3.6 times if only packets towards the
//! client are lost (`fcs/changes`); 50 KB are slower with naive than with TCP, whose handshake is shorter. At every loss ratio
//! braid takes the transmission time of the link: it detects losses by order of sending and probes, not by
//! time-outs.

use crate::figure::Figure;
use crate::scenario;

/// The figure: `fig6.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in("multistream/fig6", include_str!("fig6.toml"))
}
