//! Beyond the paper: bit errors and congestion together (scenario E of the author's OPNET project; ADaLR-X3).
//!
//! Published, in abstracts: up to 43 % more goodput and throughput. Ours, kB/s at 1e-9 to 1e-5: NewReno 42.2
//! 42.2 41.7 26.2 4.74; SACK 42.9 42.9 42.3 26.6 4.80; ADaLR-R 40.7 40.7 40.8 39.4 9.16; with SACK 41.7 41.7
//! 41.7 40.8 13.6; slow 38.5 38.5 38.7 38.9 11.0. Below 1e-6 the gateway limits all variants, and ADaLR-R
//! slightly more than the others.

use super::{Network, by_bit_errors, settings, with_bit_errors};
use crate::figure::Figure;

/// The figure.
pub(super) const FIGURE: Figure = by_bit_errors(
    "adalr/both",
    "50 MB through a gateway of little memory, with bit errors",
    "A file of 50 MB through a gateway that forwards 360 kbit/s and has 37,500 bytes of memory, against the rate of bit errors of the satellite's link (ADaLR-X3); 260 ms one way.",
    &|| {
        settings(&[
            "gateway: forwards 360 kbit/s, memory 37,500 bytes",
            "workload: 50 MB, for five hours at most",
        ])
    },
    &|point, seed| with_bit_errors(Network::congested(), point, seed),
);
