//! Bulk transfers.

use super::*;

#[test]
fn bytes_arrive_in_order_and_both_ends_close() {
    for profile in Profile::ALL {
        let mut pair = Pair::new(profile.config());
        pair.write_and_close(Client, 300_000);
        pair.write(Server, numbered(70_000));
        pair.finish(Duration::from_secs(60));
        assert_eq!(pair.closed(Client), Some(Reason::Finished), "{profile}");
        assert_eq!(pair.closed(Server), Some(Reason::Finished), "{profile}");
        assert!(pair.read[1] == numbered(300_000)[..] && pair.read[0] == numbered(70_000)[..], "{profile}");
        let counters = pair.connection(Client).stats().counters;
        assert_eq!(counters.retransmissions, 0, "{profile}");
        assert_eq!(counters.bytes_acked, 300_000, "{profile}");
        assert_eq!(pair.events[1][..2], [Event::Accepted { port: PORT }, Event::Up]);
    }
}

#[test]
fn checksum_offload_works_where_both_sides_use_it() {
    let [here, below] = [Checksum::Here, Checksum::Below].map(|checksum| Config {
        checksum,
        data_retries: 2,
        ..Profile::Sack.config()
    });
    let mut pair = Pair::new(below.clone());
    pair.write_and_close(Client, 300_000);
    pair.finish(Duration::from_secs(60));
    assert!(pair.read[1] == numbered(300_000)[..]);
    assert_eq!(pair.endpoints[1].bad_segments(), 0);
    // A side that verifies checksums finds this one wrong.
    let mut pair = Pair::with(below, here);
    pair.write(Client, numbered(1_000));
    pair.run(Duration::from_secs(10));
    assert!(pair.read[1].is_empty() && pair.endpoints[1].bad_segments() > 0);
}

#[test]
fn every_lost_segment_is_retransmitted() {
    for profile in Profile::ALL {
        for seed in 0..6 {
            let mut pair = Pair::new(profile.config()).seeded(seed);
            (pair.loss, pair.duplication, pair.reordering) = (100, 20, 20);
            pair.write_and_close(Client, 100_000);
            pair.write(Server, numbered(50_000));
            pair.finish(Duration::from_secs(3_000));
            assert_eq!(pair.closed(Client), Some(Reason::Finished), "{profile}, seed {seed}");
            assert!(
                pair.read[1] == numbered(100_000)[..] && pair.read[0] == numbered(50_000)[..],
                "{profile} {seed}"
            );
        }
    }
}

#[test]
fn a_pacing_controller_sends_two_segments_at_a_time_with_and_without_loss() {
    for loss in [0, 50] {
        let mut config = Profile::Modern.config();
        config.congestion_control = braidftp_cc::Kind::Bbr;
        config.congestion_options.bbr.version = braidftp_cc::bbr::Version::V1;
        let mut pair = Pair::up(config).seeded(3);
        pair.rate = Some(Rate::from_bits_per_second(4_000_000));
        pair.loss = loss;
        pair.write_and_close(Client, 2_000_000);
        pair.finish(Duration::from_secs(30));
        assert!(pair.read[1] == numbered(2_000_000)[..], "{loss}");
        let times: Vec<Time> = pair.data_of(Client).iter().map(|entry| entry.0).collect();
        // After the first round trip. A quantum at 5/4 of the rate is two segments, and a tail loss probe may
        // join it.
        let most = times[20..].chunk_by(|one, next| one == next).map(|at_once| at_once.len()).max();
        assert!(most <= Some(3), "{loss}: {most:?} at once");
        let took = times[times.len() - 1].since(times[0]).as_secs_f64();
        let least = times.len() as f64 * 1_448.0 * 8.0 / 4e6;
        assert!(took < least * 1.25 && took > least * 0.8, "{loss}: {took} s, {least} s at the rate");
    }
}
