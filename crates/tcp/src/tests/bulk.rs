//! Data in the ordinary course.

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
fn whatever_is_lost_comes_again() {
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
