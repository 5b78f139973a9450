//! Losses and what is done about them.

use super::*;

fn times_of(pair: &Pair, number: usize) -> Vec<Duration> {
    let first = pair.data_of(Client)[0].2.seq;
    let wanted = (number - 1) * 1_460;
    let of_number = |(_, _, segment): &&&(Time, Side, Segment)| segment.seq == first.plus(wanted as u64);
    pair.data_of(Client).iter().filter(of_number).map(|(at, ..)| at.since(Time::from_millis(100))).collect()
}

fn config(sack: bool) -> Config {
    Config { sack, ack_every: std::num::NonZeroU8::MIN, ..Config::default() }
}

#[test]
fn the_third_duplicate_brings_the_lost_segment_again_and_no_timeout() {
    for sack in [false, true] {
        let mut pair = Pair::up(config(sack)).losing(Client, &[8]);
        pair.write_and_close(Client, 40_000);
        pair.finish(Duration::from_secs(10));
        let stats = pair.connection(Client).stats();
        assert_eq!((stats.counters.retransmissions, stats.counters.timeouts), (1, 0));
        assert_eq!(stats.counters.fast_retransmits, 1);
        // It left in the second flight of 3 and 6; behind it only one more, so two duplicates come of the third flight.
        assert_eq!(times_of(&pair, 8), [20, 60].map(Duration::from_millis));
        assert!(pair.read[1] == numbered(40_000)[..]);
    }
}
