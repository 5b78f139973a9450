//! Two endpoints and a man in the middle: see `braidftp_fuzz::adversary`.
#![no_main]

use braidftp_fuzz::adversary::{Game, play};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|game: Game| play(&game));
