//! Which TSN of a path is next in order, and by which path a lost chunk leaves again; not what a link makes of it.

use braidftp_base::Time;
use bytes::Bytes;

use super::*;
use crate::association::partial::Terms;
use crate::association::sent::{Counting, Departure, Report};
use crate::ids::{Ppid, Ssn, StreamId};
use crate::wire::Data;

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

#[test]
fn what_was_sent_again_is_not_found_missing_once_more() {
    let mut bench = Bench::new(&[A; 10]);
    assert_eq!(bench.sack(0, &[(2, 4)], 3).1, [1]);
    let departure = bench.departure(A);
    bench.sent.retransmit(Tsn(1), departure);
    assert!(bench.sack(0, &[(2, 10)], 9).1.is_empty());
}
