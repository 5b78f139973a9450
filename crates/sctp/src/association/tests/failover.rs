//! Paths that are in doubt: how one becomes so, is asked after, and is trusted again (RFC 7829 §3.2).

use super::multihoming::{addresses, confirmed, cut, paths, states};
use super::*;
use crate::ids::PathId;
use crate::stats::PathState;

/// The first path is cut, in doubt, and what was lost there went by the second.
fn in_doubt(config: Config) -> Pair {
    let mut pair = confirmed(config);
    cut(&mut pair, 0);
    pair.send(Client, 0, "by the other");
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 1));
    pair.run(Duration::from_millis(100));
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# SHOULD NOT move a destination address in PF state back to active
    //# state, since a sender cannot disambiguate whether the ACK was for the
    //# original transmission or the retransmission(s).
    assert_eq!(states(&mut pair, Client), [PathState::PotentiallyFailed, PathState::Active]);
    pair.clear_log();
    pair
}

/// When the client sent HEARTBEATs by the first path.
fn beats(pair: &Pair) -> Vec<Time> {
    let first = addresses()[0][0];
    let sent = pair.log.iter().zip(&pair.routes).filter(|((_, side, packet), route)| {
        *side == Client && route.0 == first && has(packet, Chunk::HEARTBEAT)
    });
    sent.map(|((at, _, _), _)| *at).collect()
}

#[test]
fn a_path_in_doubt_is_asked_after_once_in_an_rto_if_paths_are_asked_after_at_all() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# The HB.Interval of the Path Heartbeat function of [RFC4960] MUST be
    //# ignored for destination addresses in PF state.
    let mut pair = in_doubt(modern());
    pair.run(Duration::from_secs(2));
    let beats_sent = beats(&pair);
    assert!(beats_sent.len() >= 2, "{beats_sent:?}");
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# if the Path Heartbeat function is disabled for the destination
    //# address in question, HEARTBEATs MUST NOT be sent.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# the sending of HEARTBEATs MUST honor whether or not the Path
    //# Heartbeat function (Section 8.3 of [RFC4960]) is enabled for the
    //# destination address.
    let mut pair = in_doubt(Config { heartbeat_interval: None, ..modern() });
    pair.run(Duration::from_secs(100));
    assert_eq!(beats(&pair), []);
    assert_eq!(states(&mut pair, Client)[0], PathState::PotentiallyFailed);
}

#[test]
fn an_answer_ends_the_doubt_and_the_path_begins_slowly() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# When the sender receives a HEARTBEAT ACK from a HEARTBEAT sent to a
    //# destination address in PF state, the sender SHOULD clear the error
    //# counter of the destination address and transition the destination
    //# address back to active state.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# When the sender resumes data transmission on a destination address
    //# after a transition of the destination address from PF to active
    //# state, it MUST do this following the prescriptions of Section 7.2 of
    //# [RFC4960].
    let mut pair = in_doubt(modern());
    pair.cut.clear();
    assert!(pair.run_until(|pair| states(pair, Client)[0] == PathState::Active));
    assert_eq!(pair.association(Client).paths[0].errors, 0);
    assert_eq!(paths(&mut pair, Client)[0].cwnd, 1_440, "as the time-out left it");
    pair.clear_log();
    pair.send(Client, 0, pattern(20_000));
    pair.drain(Client);
    let first = addresses()[0][0];
    assert!(pair.routes.iter().all(|route| route.0 == first), "the primary path again");
    assert!(pair.data(Client).len() <= 2, "{}", pair.data(Client).len());
}

#[test]
fn data_that_arrives_ends_the_doubt() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# Acknowledgments for data chunks that have been transmitted to one
    //# destination address only MUST clear the error counter for the
    //# destination address and MUST transition a destination address in PF
    //# state back to active state.
    let mut pair = in_doubt(Config { heartbeat_interval: None, ..modern() });
    cut(&mut pair, 1);
    pair.send(Client, 0, "by neither");
    assert!(pair.run_until(|pair| states(pair, Client) == [PathState::PotentiallyFailed; 2]));
    pair.cut.clear();
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 2));
    pair.run(Duration::from_millis(100));
    assert_eq!(states(&mut pair, Client), [PathState::PotentiallyFailed; 2], "it left by both");
    pair.send(Client, 0, "by one of them");
    pair.run(Duration::from_millis(200));
    let active: Vec<_> =
        (0..2).filter(|path| states(&mut pair, Client)[*path] == PathState::Active).collect();
    assert_eq!(active.len(), 1);
    assert_eq!(pair.association(Client).paths[active[0]].errors, 0);
    assert!(pair.events(Client).contains(&Event::Path(PathId(active[0] as u8), PathState::Active)));
}
