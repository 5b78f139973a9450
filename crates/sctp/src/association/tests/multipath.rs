//! Which TSN of a path is next in order, and by which path a lost chunk leaves again; not what a link makes of it.

use braidftp_base::Time;
use bytes::Bytes;

use super::again::again;
use super::*;
use crate::association::partial::Terms;
use crate::association::path::Path;
use crate::association::sent::{Counting, Departure, Report, Sent};
use crate::ids::{Ppid, Ssn, StreamId, Tsn};
use crate::stats::PathState;
use crate::wire::{Data, Sack};

const A: PathId = PathId(0);
const B: PathId = PathId(1);

struct Bench {
    sent: Sent,
    points: Vec<PseudoCum>,
    order: u64,
}

impl Bench {
    /// TSNs from 1 on, each by one of these paths.
    fn new(paths: &[PathId]) -> Self {
        let mut bench = Self { sent: Sent::new(Tsn(1), 2), points: vec![PseudoCum::default(); 2], order: 0 };
        for path in paths {
            let departure = bench.departure(*path);
            let data = Data {
                begin: true,
                end: true,
                unordered: false,
                immediate: false,
                tsn: bench.sent.next_tsn(),
                stream: StreamId(0),
                ssn: Ssn(0),
                interleaved: None,
                ppid: Ppid(0),
                payload: Bytes::from_static(b"1234"),
            };
            bench.sent.insert(data, Terms::default(), departure);
        }
        bench
    }

    fn departure(&mut self, path: PathId) -> Departure {
        self.order += 1;
        Departure { path, now: Time::ZERO, order: self.order }
    }

    /// Which points advance, and which TSNs are lost, by a SACK that answers so many packets.
    fn sack(&mut self, cum: u32, gaps: &[(u16, u16)], packets: u8) -> (Vec<bool>, Vec<u32>) {
        let sack = Sack { cum_tsn_ack: Tsn(cum), gaps: gaps.to_vec(), ..Sack::default() };
        let advanced = advance(&mut self.points, &self.sent, &sack);
        self.sent.on_sack(&sack, Counting::Multipath { packets }, &mut Report::default()).unwrap();
        self.sent.check(2);
        (advanced, self.sent.lost().map(|(tsn, _)| tsn.0).collect())
    }
}

#[test]
fn a_path_advances_by_its_own_order_whatever_the_other_lacks() {
    let mut bench = Bench::new(&[A, B, A, B, A, B]);
    assert_eq!(bench.sack(0, &[(2, 2)], 1).0, [false, true], "2 is the first of B; 1, of A, is missing");
    assert_eq!(bench.sack(0, &[(2, 2), (4, 4)], 1).0, [false, true]);
    assert_eq!(bench.sack(0, &[(2, 2), (4, 5)], 1).0, [false, false], "5 is not the next of A");
    assert_eq!(bench.sack(2, &[(2, 3)], 1).0, [true, false], "1 has come; of B nothing new");
    assert_eq!(bench.sack(5, &[], 1).0, [true, false]);
    assert_eq!(bench.sack(6, &[], 1).0, [false, true]);
}

#[test]
fn what_left_again_by_another_path_holds_up_neither() {
    let mut bench = Bench::new(&[A, A, A, A, B, B]);
    bench.sack(0, &[(2, 4)], 3);
    let lost = bench.sent.next_lost().unwrap();
    assert_eq!(lost, Tsn(1));
    let departure = bench.departure(B);
    bench.sent.retransmit(lost, departure);
    bench.points[0].on_moved();
    assert_eq!(bench.sack(0, &[(2, 5)], 1).0, [false, true], "5 is the first that left by B once");
}

#[test]
fn only_what_left_by_the_same_path_overtakes() {
    let mut bench = Bench::new(&[A, B, B, B, B, A]);
    for last in 2..=5 {
        assert_eq!(bench.sack(0, &[(2, last)], 1).1, [] as [u32; 0], "all of it left by B");
    }
    assert_eq!(bench.sack(0, &[(2, 6)], 1).1, [] as [u32; 0], "once");
}

#[test]
fn a_sack_counts_for_the_packets_that_it_answers_unless_it_tells_of_two_paths() {
    let mut bench = Bench::new(&[A, A, A, A, A, A]);
    assert!(bench.sack(0, &[(2, 3)], 2).1.is_empty(), "twice");
    assert_eq!(bench.sack(0, &[(2, 4)], 1).1, [1], "and once more");
    let mut bench = Bench::new(&[A, B, A, A, A, B]);
    assert!(bench.sack(0, &[(2, 3), (6, 6)], 2).1.is_empty());
    assert!(bench.sack(0, &[(2, 4), (6, 6)], 1).1.is_empty(), "once, and once more");
    assert_eq!(bench.sack(0, &[(2, 6)], 1).1, [1]);
}

/// Three active paths with windows of 4, 2 and 3 packets.
fn paths() -> Vec<Path> {
    let config = crate::Config::default();
    let path = |(last, window): (u8, usize)| {
        let address = |host: u8| format!("10.0.{last}.{host}:0").parse().unwrap();
        let route = crate::endpoint::Route { local: address(1), peer: address(2) };
        let mut path = Path::new(route, PathState::Active, &config);
        path.controller.begin_again(window * path.pmdcs());
        path
    };
    [(0, 4), (1, 2), (2, 3)].into_iter().map(path).collect()
}

#[test]
fn each_policy_picks_by_what_it_is_named_after() {
    let mut paths = paths();
    let by = |paths: &[Path], policy, chance| again(paths, B, A, policy, chance);
    assert_eq!(by(&paths, RetransmitBy::Same, 0), B);
    assert_eq!(by(&paths, RetransmitBy::Cwnd, 0), A);
    for (path, lost) in paths.iter_mut().zip([20, 10, 15]) {
        (path.carried_bytes, path.lost_bytes) = (1_000, lost);
    }
    assert_eq!(by(&paths, RetransmitBy::LossRate, 0), B);
    paths[0].flight_bytes = paths[0].controller.window();
    paths[1].flight_bytes = paths[1].controller.window();
    assert_eq!(by(&paths, RetransmitBy::Asap, u32::MAX), PathId(2), "the others are full");
    for (path, window) in paths.iter_mut().zip([9, 10, 20]) {
        let mtu = path.pmdcs();
        path.controller.begin_again(window * mtu);
        let (cause, now) = (braidftp_cc::Cause::Loss, Time::ZERO);
        path.controller.on_congestion(braidftp_cc::Congestion { cause, now, flight_bytes: 0, mtu });
        path.controller.begin_again(mtu);
    }
    assert_eq!(by(&paths, RetransmitBy::Ssthresh, u32::MAX), PathId(2), "half of 20");
    assert_eq!(by(&paths, RetransmitBy::Cwnd, 0), A, "alike: the first");
    assert_eq!(by(&paths, RetransmitBy::Cwnd, 0b10), B, "alike, and chance has another");
}

#[test]
fn only_active_paths_carry_anything_while_there_is_one() {
    let mut paths = paths();
    paths[0].state = PathState::PotentiallyFailed;
    assert_eq!(
        again(&paths, A, A, RetransmitBy::Same, 0),
        PathId(2),
        "the larger window of those that are left"
    );
    assert_eq!([A, B].map(|id| carries(&paths, id, A)), [false, true]);
    for path in &mut paths {
        path.state = PathState::PotentiallyFailed;
    }
    assert_eq!([A, B].map(|id| carries(&paths, id, B)), [false, true], "what stands in");
    assert_eq!(again(&paths, A, B, RetransmitBy::Cwnd, 0), B);
}

#[test]
fn what_was_sent_again_is_not_found_missing_once_more() {
    let mut bench = Bench::new(&[A; 10]);
    assert_eq!(bench.sack(0, &[(2, 4)], 3).1, [1]);
    let departure = bench.departure(A);
    bench.sent.retransmit(Tsn(1), departure);
    assert!(bench.sack(0, &[(2, 10)], 9).1.is_empty());
}
