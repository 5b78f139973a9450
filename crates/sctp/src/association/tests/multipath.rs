//! Cumulative acknowledgements per path, and retransmission path policies.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::coupled::Coupling;

use super::bottleneck::Bottlenecks;
use super::coupled::Coupled;
use super::cuc::{PseudoCumAck, advance};
use super::delivery_rate::{Load, bytes_in};
use super::head_of_line::{Waits, is_held_up};
use super::rtx_policy::{rtx_path, sooner_on_other_paths};
use super::scheduler::{PendingData, blest_waits, ecf_waits, next_in_order};
use super::*;
use crate::association::partial::policy::Terms;
use crate::association::path::Path;
use crate::association::sent::{Counting, Report, Sent, Transmission};
use crate::config::{MultipathConstants, PathScheduler, Remedy, RetransmitBy};
use crate::ids::Tsn;
use crate::stats::PathState;
use crate::wire::{Data, Sack};

const A: PathId = PathId(0);
const B: PathId = PathId(1);
const C: &MultipathConstants = &MultipathConstants::DEFAULT;

fn by_policy(retransmit_by: RetransmitBy) -> Multipath {
    Multipath { retransmit_by, ..Multipath::plain() }
}

struct Bench {
    sent: Sent,
    points: Vec<PseudoCumAck>,
    order: u64,
}

impl Bench {
    /// TSNs from 1 on, each sent on one of these paths.
    fn new(paths: &[PathId]) -> Self {
        let mut bench =
            Self { sent: Sent::new(Tsn(1), 2), points: vec![PseudoCumAck::default(); 2], order: 0 };
        for path in paths {
            let transmission = bench.transmission(*path);
            let tsn = bench.sent.next_tsn();
            bench.sent.insert(Data::whole(tsn, b"1234"), 20, Terms::default(), transmission);
        }
        bench
    }

    fn transmission(&mut self, path: PathId) -> Transmission {
        self.order += 1;
        Transmission { path, now: Time::ZERO, order: self.order }
    }

    /// Returns which pseudo-cumulative TSNs advance and which TSNs are lost, after a SACK that acknowledges this many packets.
    fn sack(&mut self, cum: u32, gaps: &[(u16, u16)], packets: u8) -> (Vec<bool>, Vec<u32>) {
        let sack = Sack { cum_tsn_ack: Tsn(cum), gaps: gaps.to_vec(), ..Sack::default() };
        let advanced = advance(&mut self.points, &self.sent, &sack);
        self.sent.on_sack(&sack, Counting::Multipath { packets }, &mut Report::default()).unwrap();
        self.sent.check(2);
        (advanced, self.sent.lost().map(|(tsn, _)| tsn.0).collect())
    }
}

#[test]
fn the_pseudo_cumack_of_a_path_ignores_losses_of_other_paths() {
    let mut bench = Bench::new(&[A, B, A, B, A, B]);
    assert_eq!(bench.sack(0, &[(2, 2)], 1).0, [false, true], "2 is the first of B; 1, of A, is missing");
    assert_eq!(bench.sack(0, &[(2, 2), (4, 4)], 1).0, [false, true]);
    assert_eq!(bench.sack(0, &[(2, 2), (4, 5)], 1).0, [false, false], "5 is not the next of A");
    assert_eq!(bench.sack(2, &[(2, 3)], 1).0, [true, false], "1 has come; of B nothing new");
    assert_eq!(bench.sack(5, &[], 1).0, [true, false]);
    assert_eq!(bench.sack(6, &[], 1).0, [false, true]);
}

#[test]
fn a_sack_with_room_for_more_blocks_revokes_omitted_chunks() {
    let mut bench = Bench::new(&[A, B, A, B]);
    let chunk = bench.sent.flight_bytes() / 4;
    bench.sack(0, &[(2, 2), (4, 4)], 2);
    assert_eq!(bench.sent.flight_bytes(), 2 * chunk);
    bench.sack(0, &[(2, 2)], 1);
    assert_eq!(bench.sent.flight_bytes(), 3 * chunk, "4, beyond its last block");
    bench.sack(0, &[], 1);
    assert_eq!(bench.sent.flight_bytes(), 4 * chunk, "2, of which it says nothing");
    bench.sack(0, &[(2, 4)], 1);
    assert_eq!(bench.sent.flight_bytes(), chunk);
}

#[test]
fn the_first_beyond_the_last_block_is_expected_next() {
    let mut bench = Bench::new(&[A, B, B, B]);
    assert_eq!(bench.sack(0, &[(2, 2)], 1).0, [false, true], "3 is looked at, and expected from now on");
    assert_eq!(bench.sack(0, &[], 1).0, [false, false], "2 is taken back");
    assert_eq!(bench.sack(0, &[(2, 2)], 1).0, [false, false], "and named again: it is not what is expected");
    assert_eq!(bench.sack(0, &[(2, 3)], 1).0, [false, true]);
}

#[test]
fn chunks_revoked_by_an_overtaken_sack_count_again_with_cmt_rules_only() {
    let multipath = Counting::Multipath { packets: 1 };
    for (counting, news) in
        [(multipath, [(1, 0, 1), (2, 0, 0)]), (Counting::BelowNewest, [(0, 0, 0), (1, 0, 0)])]
    {
        let mut bench = Bench::new(&[A, A, A, A, A]);
        let chunk = bench.sent.flight_bytes() / 5;
        let mut said = |cum: u32, gaps: &[(u16, u16)]| {
            let sack = Sack { cum_tsn_ack: Tsn(cum), gaps: gaps.to_vec(), ..Sack::default() };
            let mut report = Report::default();
            bench.sent.on_sack(&sack, counting, &mut report).unwrap();
            let said = &report.paths[0];
            (said.acked_bytes / chunk, said.gap_bytes / chunk, said.regained_bytes / chunk)
        };
        assert_eq!(said(0, &[(2, 2), (4, 4)]), (2, 2, 0));
        assert_eq!(said(0, &[(4, 4)]), (0, 0, 0), "2 is taken back");
        assert_eq!(said(0, &[(2, 2), (4, 4)]), news[0], "2 is named once more");
        said(0, &[(4, 4)]);
        assert_eq!(said(2, &[(2, 2)]), news[1], "2, taken back, is passed by the cumulative point; 1 is new");
    }
}

#[test]
fn a_reneged_chunk_can_get_miss_indications() {
    let mut bench = Bench::new(&[B, A, A, A, A, A]);
    bench.sack(0, &[(2, 3)], 1);
    for last in 4..=6 {
        let lost = bench.sack(0, &[(3, last)], 1).1;
        assert_eq!(lost.contains(&2), last >= 5, "one indication as it is taken back: by {last}");
    }
}

#[test]
fn chunks_retransmitted_on_another_path_block_neither() {
    let mut bench = Bench::new(&[A, A, A, A, B, B]);
    bench.sack(0, &[(2, 4)], 3);
    let lost = bench.sent.next_lost().unwrap();
    assert_eq!(lost, Tsn(1));
    let transmission = bench.transmission(B);
    bench.sent.retransmit(lost, transmission);
    bench.points[0].on_moved();
    assert_eq!(bench.sack(0, &[(2, 5)], 1).0, [false, true], "5 is the first that left by B once");
}

#[test]
fn only_chunks_of_the_same_path_give_miss_indications() {
    let mut bench = Bench::new(&[A, B, B, B, B, A]);
    for last in 2..=5 {
        assert_eq!(bench.sack(0, &[(2, last)], 1).1, [] as [u32; 0], "all of it left by B");
    }
    assert_eq!(bench.sack(0, &[(2, 6)], 1).1, [] as [u32; 0], "once");
}

#[test]
fn a_delayed_sack_counts_per_packet_unless_it_acknowledges_two_paths() {
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
        let route = crate::route::Route { local: address(1), peer: address(2) };
        let mut path = Path::new(route, PathState::Active, &config);
        path.controller.restart_window(window * path.pmdcs());
        path
    };
    [(0, 4), (1, 2), (2, 3)].into_iter().map(path).collect()
}

#[test]
fn an_idle_path_with_ten_times_the_loss_is_not_preferred() {
    let mut paths = paths();
    paths.truncate(2);
    for (path, lost) in paths.iter_mut().zip([10, 100]) {
        path.measure(Time::ZERO, Duration::from_millis(90));
        let mtu = path.pmdcs();
        path.controller.restart_window(60 * mtu);
        path.delivery_rate.on_arrived(
            Time::ZERO,
            (1_000 - lost) * 1_000,
            Duration::from_millis(90),
            Load::Light,
            C,
        );
        path.delivery_rate.on_lost(lost * 1_000);
    }
    let bytes = paths[0].pmdcs();
    let pending = |window| PendingData {
        now: Time::ZERO,
        bytes,
        queued: usize::MAX,
        window,
        send_buffer: usize::MAX,
        is_last: false,
        fallback: A,
        constants: C,
    };
    let admits = |paths: &[Path], id, window| Remedy::Preventive.admits(paths, id, &pending(window));
    for flight in [0, 20, 40] {
        paths[0].flight_bytes = flight * bytes;
        assert!(admits(&paths, A, 64 << 10), "{flight}: the best always is");
        assert!(!admits(&paths, B, 64 << 10), "{flight}");
        assert!(admits(&paths, B, 1 << 20), "{flight}: there is room for all that it holds up");
    }
}

#[test]
fn an_overdue_rescued_chunk_counts_as_lost_on_its_path() {
    let mut path = paths().remove(0);
    path.rtt.on_sample(Duration::from_millis(90));
    path.min_rtt = Some(Duration::from_millis(90));
    path.delivery_rate.on_arrived(Time::ZERO, 99_000, Duration::from_millis(90), Load::Light, C);
    path.on_retransmitted_elsewhere(1_000, Duration::from_millis(80));
    assert_eq!(path.delivery_rate.lost_thousandths(C), 0, "it may be on its way");
    path.on_retransmitted_elsewhere(1_000, Duration::from_millis(181));
    assert_eq!(path.delivery_rate.lost_thousandths(C), 6, "of 100 KB, and 64 KB that count as arrived");
}

#[test]
fn a_path_that_lost_everything_has_a_finite_mean_delivery_time() {
    let mut path = paths().remove(0);
    path.measure(Time::ZERO, Duration::from_millis(90));
    for bytes in [1_000, 1 << 30, usize::MAX] {
        path.delivery_rate.on_lost(bytes);
        let takes = path.mean_delivery_time(1_000, C);
        assert!(takes >= path.takes(1_000) && takes < Duration::from_secs(3_600), "{takes:?}");
    }
}

/// Paths whose windows are reduced one at a time, every two seconds, and the resulting detection.
struct Reductions {
    found: Bottlenecks,
    paths: Vec<Path>,
    now: Time,
    /// The decrease of each path's queue, in milliseconds, when this path halves its window.
    beside: [[u64; 3]; 3],
    /// The paths that were asked to reduce.
    trial_paths: Vec<PathId>,
}

impl Reductions {
    fn new() -> Self {
        let mut paths = paths();
        paths.iter_mut().for_each(|path| path.rtt.on_sample(Duration::from_millis(100)));
        for path in &mut paths {
            path.min_rtt = Some(Duration::from_millis(50));
            path.latest_rtt = Duration::from_millis(100);
            path.flight_bytes = 4 * path.pmdcs();
        }
        Self {
            found: Bottlenecks::default(),
            paths,
            now: Time::ZERO,
            beside: [[0; 3]; 3],
            trial_paths: Vec::new(),
        }
    }

    /// Passes time with these round trips per path; those affected by a reduction are shorter.
    fn wait(&mut self, ms: u64, round_trips: [u64; 3]) {
        let mut shorter = [0; 3];
        let mut until = Time::ZERO;
        for _ in 0..ms / 10 {
            self.now += Duration::from_millis(10);
            for (index, ms) in round_trips.into_iter().enumerate() {
                let id = PathId(index as u8);
                let by = if self.now < until { shorter[index] } else { 0 };
                let round_trip = Duration::from_millis(ms - by);
                if let Some(choose_trial_path) =
                    self.found.on_round_trip(self.now, id, round_trip, &self.paths, C)
                {
                    self.trial_paths.push(choose_trial_path);
                    shorter = self.beside[usize::from(choose_trial_path.0)];
                    until = self.now + Duration::from_millis(250);
                }
            }
        }
    }

    /// Reduces these paths; 50 ms later the queues of all paths are this much shorter.
    fn reduce(&mut self, which: &[usize], shorter: [u64; 3]) {
        self.wait(2_000, [100; 3]);
        for path in which {
            self.paths[*path].reduced_at = Some(self.now + Duration::from_millis(10));
        }
        self.wait(50, [100; 3]);
        self.wait(250, shorter.map(|by| 100 - by));
    }

    fn common(&self) -> [bool; 3] {
        [(0, 1), (0, 2), (1, 2)].map(|(one, other)| self.found.are_common(one, other))
    }
}

#[test]
fn paths_whose_delay_falls_when_one_reduces_its_window_share_a_bottleneck() {
    let mut it = Reductions::new();
    it.reduce(&[0], [12, 10, 0]);
    assert_eq!(it.common(), [false; 3], "once is chance");
    it.reduce(&[1], [11, 12, 0]);
    assert_eq!(it.common(), [true, false, false]);
    it.reduce(&[2], [0, 0, 20]);
    assert_eq!(it.common(), [true, false, false]);
    for _ in 0..2 {
        it.reduce(&[0], [12, 0, 0]);
    }
    assert_eq!(it.common(), [false; 3], "their ways have parted");
}

#[test]
fn inconclusive_reductions_are_ignored() {
    let together = |it: &mut Reductions| it.reduce(&[0, 1], [12, 12, 12]);
    let none_shorter = |it: &mut Reductions| it.reduce(&[0], [2, 2, 2]);
    let far_more = |it: &mut Reductions| it.reduce(&[0], [12, 30, 5]);
    let one_soon_after = |it: &mut Reductions| {
        it.reduce(&[0], [12, 0, 0]);
        it.now = it.now - Duration::from_millis(290);
        it.paths[1].reduced_at = Some(it.now + Duration::from_millis(20));
        it.wait(300, [88; 3]);
    };
    let cases: [&dyn Fn(&mut Reductions); 4] = [&together, &none_shorter, &far_more, &one_soon_after];
    for (nth, case) in cases.into_iter().enumerate() {
        let mut it = Reductions::new();
        (0..8).for_each(|_| case(&mut it));
        assert_eq!(it.common(), [false; 3], "case {nth}");
    }
}

#[test]
fn if_windows_are_reduced_simultaneously_one_is_reduced_as_a_test() {
    let in_step = |beside: [[u64; 3]; 3], times: u32| {
        let mut it = Reductions { beside, ..Reductions::new() };
        (0..times).for_each(|_| it.reduce(&[0, 1, 2], [30; 3]));
        it
    };
    // The first two share a bottleneck, which is known after the first; the third and the second are not compared yet.
    let two_share = [[12, 12, 0], [12, 12, 0], [0, 0, 12]];
    assert_eq!(in_step(two_share, 2).trial_paths, [], "it may have been chance");
    let it = in_step(two_share, 12);
    assert_eq!(it.common(), [true, false, false]);
    assert_eq!(it.trial_paths, [A, A, PathId(2), PathId(2)], "the largest that something is to be known of");
    // Each path has its own bottleneck.
    let it = in_step([[12, 0, 0], [0, 12, 0], [0, 0, 12]], 12);
    assert_eq!((it.common(), it.trial_paths.len()), ([false; 3], 4));
    // Another flow fills the queue at once.
    let it = in_step([[0; 3]; 3], 12);
    assert_eq!((it.common(), it.trial_paths.len()), ([false; 3], 5), "after each two overflows");
    // There is no queue.
    let mut it = Reductions::new();
    it.paths.iter_mut().for_each(|path| path.min_rtt = Some(path.latest_rtt));
    (0..12).for_each(|_| it.reduce(&[0, 1, 2], [30; 3]));
    assert_eq!(it.trial_paths, []);
}

#[test]
fn the_coupling_determines_the_siblings() {
    let mut it = Reductions::new();
    for _ in 0..2 {
        it.reduce(&[0], [12, 0, 12]);
    }
    let mut coupled = Coupled { bottlenecks: it.found, siblings: Vec::new() };
    let mut windows = |of: PathId, coupling| {
        coupled.find_siblings(&it.paths, of, coupling);
        coupled.siblings.iter().map(|view| view.window / it.paths[0].pmdcs()).collect::<Vec<_>>()
    };
    assert_eq!(windows(A, Coupling::Detected), [3]);
    assert_eq!(windows(B, Coupling::Detected), [] as [usize; 0]);
    assert_eq!(windows(A, Coupling::Lia), [2, 3]);
    assert_eq!(windows(A, Coupling::None), [] as [usize; 0]);
    it.paths[2].t3_unanswered = true;
    coupled.find_siblings(&it.paths, A, Coupling::Detected);
    assert!(coupled.siblings.is_empty(), "nobody knows how long its queue is");
}

#[test]
fn each_retransmission_policy_selects_by_its_criterion() {
    let mut paths = paths();
    let by = |paths: &[Path], policy, chance| rtx_path(paths, B, A, by_policy(policy), chance);
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
        path.controller.restart_window(window * mtu);
        let (cause, now) = (braidftp_cc::Cause::Loss, Time::ZERO);
        path.controller.on_congestion(braidftp_cc::Congestion { cause, now, flight_bytes: 0, mtu });
        path.controller.restart_window(mtu);
    }
    assert_eq!(by(&paths, RetransmitBy::Ssthresh, u32::MAX), PathId(2), "half of 20");
    assert_eq!(by(&paths, RetransmitBy::Cwnd, 0), A, "alike: the first");
    assert_eq!(by(&paths, RetransmitBy::Cwnd, 0b10), B, "alike, and chance has another");
}

#[test]
fn lost_chunks_are_retransmitted_on_the_path_of_earliest_arrival_including_losses() {
    let mut paths = measured([20, 20], [94, 90]);
    let by = |paths: &[Path]| rtx_path(paths, A, A, by_policy(RetransmitBy::Soonest), 0);
    assert_eq!(by(&paths), B);
    paths[1].delivery_rate.on_arrived(Time::ZERO, 900_000, Duration::from_millis(90), Load::Light, C);
    paths[1].delivery_rate.on_lost(100_000);
    assert_eq!(by(&paths), A, "90 ms, and once in ten as much again");
}

#[test]
fn only_active_paths_carry_anything_while_there_is_one() {
    let mut paths = paths();
    paths[0].state = PathState::PotentiallyFailed;
    assert_eq!(
        rtx_path(&paths, A, A, by_policy(RetransmitBy::Same), 0),
        PathId(2),
        "the larger window of those that are left"
    );
    assert_eq!([A, B].map(|id| carries(&paths, id, A)), [false, true]);
    for path in &mut paths {
        path.state = PathState::PotentiallyFailed;
    }
    assert_eq!([A, B].map(|id| carries(&paths, id, B)), [false, true], "what stands in");
    assert_eq!(rtx_path(&paths, A, B, by_policy(RetransmitBy::Cwnd), 0), B);
}

#[test]
fn a_retransmitted_chunk_gets_no_further_miss_indications() {
    let mut bench = Bench::new(&[A; 10]);
    assert_eq!(bench.sack(0, &[(2, 4)], 3).1, [1]);
    let transmission = bench.transmission(A);
    bench.sent.retransmit(Tsn(1), transmission);
    assert!(bench.sack(0, &[(2, 10)], 9).1.is_empty());
}

#[test]
fn the_fast_path_retransmits_chunks_that_it_delivers_before_the_slow_path_could() {
    let mut paths = measured([20, 200], [20, 200]);
    let mut bench = Bench::new(&[B; 600]);
    bench.sack(0, &[(580, 600)], 20);
    let state = |bench: &mut Bench, paths: &[Path], id| {
        let chunks = sooner_on_other_paths(paths, id, A, C, |_| true)? / paths[usize::from(id.0)].pmdcs();
        bench.sent.nth_lost(chunks).map(|tsn| tsn.0)
    };
    assert_eq!(bench.sent.lost().count(), 579);
    // 20 packets in 20 ms are 200 in 200 ms.
    assert_eq!([A, B].map(|id| state(&mut bench, &paths, id)), [Some(1), Some(201)]);
    paths[0].flight_bytes = 10 * paths[0].pmdcs();
    assert_eq!(state(&mut bench, &paths, B), Some(191), "it is busy with ten already");
    paths[0].state = PathState::Inactive;
    assert_eq!([A, B].map(|id| state(&mut bench, &paths, id)), [None, Some(1)]);
    paths[0].state = PathState::Active;
    let mut few = Bench::new(&[B; 30]);
    few.sack(0, &[(28, 30)], 3);
    assert_eq!(state(&mut few, &paths, B), None);
}

/// Two active paths with these windows in packets and RTTs in milliseconds.
fn measured(windows: [usize; 2], round_trips: [u64; 2]) -> Vec<Path> {
    let mut paths = paths();
    paths.truncate(2);
    for ((path, window), ms) in paths.iter_mut().zip(windows).zip(round_trips) {
        path.controller.restart_window(window * path.pmdcs());
        path.measure(Time::from_millis(1_000), Duration::from_millis(ms));
    }
    paths
}

#[test]
fn of_two_equal_paths_the_one_with_less_in_flight_delivers_sooner() {
    let mut paths = measured([10, 10], [100, 100]);
    for (path, chunks) in paths.iter_mut().zip([15, 12]) {
        path.flight_bytes = chunks * path.pmdcs();
    }
    let takes: Vec<_> = paths.iter().map(|path| path.takes(path.pmdcs())).collect();
    assert_eq!(
        takes,
        [160, 130].map(Duration::from_millis),
        "by what it delivers, where what it carries is not known"
    );
}

fn pending(window: usize, queued: usize) -> PendingData {
    PendingData {
        now: Time::ZERO,
        bytes: 1_440,
        queued,
        window,
        send_buffer: 1 << 20,
        is_last: false,
        fallback: A,
        constants: C,
    }
}

#[test]
fn paths_are_asked_in_the_order_of_their_scheduler() {
    let paths = measured([10, 10], [80, 20]);
    let order = |scheduler, turn| {
        let first = next_in_order(&paths, scheduler, turn, None).unwrap();
        [first.1, next_in_order(&paths, scheduler, turn, Some(first)).unwrap().1]
    };
    assert_eq!(order(PathScheduler::RoundRobin, 0), [A, B]);
    assert_eq!(order(PathScheduler::RoundRobin, 1), [B, A]);
    assert_eq!(order(PathScheduler::LowestRtt, 0), [B, A]);
}

#[test]
fn a_slow_path_is_admitted_if_the_window_holds_the_fast_paths_deliveries_meanwhile() {
    let paths = measured([20, 20], [20, 200]);
    let admits = |id, window| Remedy::Preventive.admits(&paths, id, &pending(window, 1 << 20));
    // The fast path delivers 20 packets in 20 ms: 200 in 200 ms, and a quarter more.
    let needs = 250 * paths[0].pmdcs() + 1_440;
    assert!(admits(A, 2_000), "the best path needs no leave");
    assert!(!admits(B, needs - 2_000));
    assert!(admits(B, needs + 2_000));
    // Lost chunks are retransmitted on the fast path.
    let mut paths = paths;
    paths[1].delivery_rate.on_arrived(Time::ZERO, 90_000, Duration::from_millis(200), Load::Light, C);
    paths[1].delivery_rate.on_lost(10_000);
    let admits = |window| Remedy::Preventive.admits(&paths, B, &pending(window, 1 << 20));
    assert!(!admits(needs + 2_000) && admits(2 * needs));
}

#[test]
fn a_slow_path_blocks_until_a_sack_on_a_shorter_path_reports_its_chunk() {
    let ms = Duration::from_millis;
    let mut paths = measured([60, 20], [10, 50]);
    let bytes = paths[1].pmdcs();
    paths.iter_mut().for_each(|path| path.min_rtt = Some(path.latest_rtt));
    assert_eq!(paths[1].reported_in(bytes), paths[1].takes(bytes), "as far as known");
    // What the fast path delivers in 40 ms, and a quarter more, fits; in 50 ms it does not.
    let window = bytes + bytes_in(paths[0].rate(), ms(40)) as usize * 5 / 4;
    let admits = |paths: &[Path]| Remedy::Preventive.admits(paths, B, &pending(window, usize::MAX));
    assert!(!admits(&paths));
    paths[1].min_cross_path_age = Some(ms(30));
    assert_eq!(paths[1].reported_in(bytes), paths[1].takes(bytes) - ms(20));
    assert!(admits(&paths), "the SACK on the fast path returns 20 ms sooner");
}

#[test]
fn the_only_proven_path_is_always_admitted() {
    let mut paths = measured([20, 20], [20, 200]);
    paths[0].state = PathState::Inactive;
    assert!(Remedy::Preventive.admits(&paths, B, &pending(1_500, 1 << 20)));
}

#[test]
fn split_buffers_give_each_path_an_equal_share() {
    let mut paths = measured([50, 50], [20, 20]);
    let admits = |paths: &[Path], remedy: Remedy, window| {
        let pending = PendingData { send_buffer: 40_000, ..pending(window, 1 << 20) };
        remedy.admits(paths, A, &pending)
    };
    for remedy in [Remedy::SplitSender, Remedy::SplitReceiver, Remedy::SplitBoth, Remedy::Reschedule] {
        assert!(admits(&paths, remedy, 1_000), "what has nothing in flight blocks nobody");
    }
    paths[0].flight_bytes = 15_000;
    assert!(admits(&paths, Remedy::SplitSender, 1_000) && !admits(&paths, Remedy::SplitReceiver, 20_000));
    paths[0].flight_bytes = 19_000;
    assert!(!admits(&paths, Remedy::SplitSender, 1 << 20) && admits(&paths, Remedy::SplitReceiver, 40_000));
    assert!(!admits(&paths, Remedy::SplitBoth, 40_000) && admits(&paths, Remedy::None, 1_000));
}

#[test]
fn blest_avoids_the_slow_path_if_its_chunk_would_fill_the_window() {
    let paths = measured([20, 20], [20, 200]);
    // r is 10: (20 + 4.5) packets, ten times, and a fifth more.
    let sends = 294 * paths[0].pmdcs();
    assert!(!blest_waits(&paths, A, &pending(0, 0)), "the fast path waits for nobody");
    assert!(blest_waits(&paths, B, &pending(sends, 0)));
    assert!(!blest_waits(&paths, B, &pending(sends + 3_000, 0)));
}

#[test]
fn ecf_waits_for_the_fast_path_where_that_is_done_earlier() {
    let paths = measured([20, 20], [20, 200]);
    let waits = |queued, waited: &mut bool| ecf_waits(&paths, B, &pending(1 << 20, queued), waited);
    let packets = |count: usize| count * paths[0].pmdcs();
    let mut waited = false;
    assert!(!ecf_waits(&paths, A, &pending(1 << 20, packets(10)), &mut waited));
    // 20 ms, and 20 ms for each 20 packets, compared with 200 ms and a deviation of 100 ms.
    assert!(waits(packets(200), &mut waited) && waited);
    assert!(!waits(packets(500), &mut waited) && !waited);
    assert!(!waits(packets(300), &mut waited), "it has not waited");
    let mut waited = true;
    assert!(waits(packets(300), &mut waited), "who has waited waits a quarter longer");
}

#[test]
fn an_overtaken_sack_revokes_nothing() {
    let mut bench = Bench::new(&[A, B, A, B, A, B]);
    bench.sent = bench.sent.with_many_gaps(Some(0));
    bench.sack(0, &[(2, 2), (4, 4)], 1);
    let mut is_behind = |cum: u32, gaps: &[(u16, u16)]| {
        bench.sent.is_behind(&Sack { cum_tsn_ack: Tsn(cum), gaps: gaps.to_vec(), ..Sack::default() })
    };
    assert!(is_behind(0, &[]), "nothing is named");
    assert!(is_behind(0, &[(2, 2)]) && is_behind(0, &[(4, 6)]), "one of both is");
    assert!(!is_behind(0, &[(2, 2), (4, 4)]) && !is_behind(0, &[(2, 5)]), "as much or more is");
    assert!(!is_behind(1, &[(3, 3)]), "it moves the cumulative point: what it leaves out is taken back");
}

#[test]
fn a_reneged_chunk_is_credited_once() {
    let mut bench = Bench::new(&[A, B, A, B, A, B]);
    let mut acked = |cum: u32, gaps: &[(u16, u16)]| {
        let sack = Sack { cum_tsn_ack: Tsn(cum), gaps: gaps.to_vec(), ..Sack::default() };
        let mut report = Report::default();
        bench.sent.on_sack(&sack, Counting::Off, &mut report).unwrap();
        bench.sent.check(2);
        report.paths.iter().map(|said| said.acked_bytes).collect::<Vec<_>>()
    };
    assert_eq!(acked(0, &[(2, 2), (4, 4)]), [0, 40]);
    assert_eq!(acked(1, &[(3, 3)]), [20, 0], "2 is taken back");
    assert_eq!(acked(2, &[(2, 2)]), [0, 0], "and named again");
    assert_eq!(acked(6, &[]), [40, 20]);
}

#[test]
fn a_blocking_chunk_moves_once_and_proves_nothing_about_either_path() {
    let mut bench = Bench::new(&[A, A, B, B]);
    bench.sack(0, &[(3, 4)], 1);
    assert_eq!(bench.sent.gap_acked_bytes_of(B), 40);
    let first =
        |bench: &Bench| bench.sent.first_blocking(64, |slot| slot.path == A).map(|slot| slot.data.tsn);
    assert_eq!(first(&bench), Some(Tsn(1)));
    let transmission = bench.transmission(B);
    let (_, from) = bench.sent.retransmit(Tsn(1), transmission);
    assert_eq!(from, Some(A), "it was in flight there");
    assert_eq!(first(&bench), Some(Tsn(2)), "each once");
    let sack = Sack { cum_tsn_ack: Tsn(1), gaps: vec![(2, 3)], ..Sack::default() };
    let mut report = Report::default();
    bench.sent.on_sack(&sack, Counting::Off, &mut report).unwrap();
    bench.sent.check(2);
    let said = &report.paths[usize::from(B.0)];
    assert!(said.acked_bytes > 0 && said.newest.is_none() && !said.proves_path);
    assert_eq!(said.carried_bytes, 0, "nobody knows which path brought it");
    assert_eq!(bench.sent.gap_acked_bytes(), 40);
}

#[test]
fn a_chunk_retransmitted_on_a_slow_path_can_be_rescued() {
    let mut bench = Bench::new(&[A, A, A, A]);
    assert_eq!(bench.sack(0, &[(2, 4)], 3).1, [1]);
    let transmission = bench.transmission(B);
    bench.sent.retransmit(Tsn(1), transmission);
    let first =
        |bench: &Bench| bench.sent.first_blocking(64, |slot| slot.path == B).map(|slot| slot.data.tsn);
    assert_eq!(first(&bench), Some(Tsn(1)), "it is under way by B alone");
    let transmission = bench.transmission(A);
    bench.sent.retransmit(Tsn(1), transmission);
    assert!(bench.sent.first_blocking(64, |_| true).is_none());
}

#[test]
fn a_chunk_is_blocked_by_a_path_that_is_clearly_longer_or_overdue() {
    let waits = |waited, silent, patience, takes| {
        let [waited, silent, patience, takes] = [waited, silent, patience, takes].map(Duration::from_millis);
        is_held_up(Waits { waited, silent, patience }, takes, C)
    };
    let held_up = |waited, patience, takes| waits(waited, waited, patience, takes);
    assert!(!held_up(0, 100, 92) && !held_up(0, 115, 92), "paths alike");
    assert!(held_up(0, 120, 92) && held_up(200, 600, 60));
    assert!(!held_up(560, 600, 60) && !held_up(650, 600, 60), "it is as good as there");
    assert!(held_up(1_201, 600, 60) && held_up(161, 60, 100) && !held_up(160, 60, 100));
    assert!(
        !waits(5_000, 1_200, 600, 60) && waits(5_000, 1_201, 600, 60),
        "its path is slower than was thought"
    );
}

#[test]
fn a_time_out_counts_at_least_one_packet_as_lost() {
    let mut path = paths().remove(0);
    let mtu = path.pmdcs();
    path.delivery_rate.on_arrived(Time::ZERO, 9 * mtu, Duration::from_millis(90), Load::Light, C);
    path.on_lost(Time::ZERO, 4 * mtu, Time::ZERO);
    assert_eq!(
        path.delivery_rate.lost_thousandths(C),
        18,
        "nothing is in flight any more: it was a time-out"
    );
    path.flight_bytes = mtu;
    path.on_lost(Time::ZERO, 2 * mtu, Time::ZERO);
    assert_eq!(path.delivery_rate.lost_thousandths(C), 52);
}

#[test]
fn an_exceptionally_long_rtt_is_replaced_by_the_next_sample() {
    let mut path = paths().remove(0);
    let ms = Duration::from_millis;
    path.flight_bytes = 1;
    path.measure(Time::from_millis(1_000), ms(500));
    assert_eq!(path.round_trip(), ms(500));
    path.measure(Time::from_millis(2_000), ms(10));
    assert_eq!((path.round_trip(), path.rtt.srtt() > Some(ms(400))), (ms(10), true));
    path.measure(Time::from_millis(3_000), ms(900));
    assert_eq!(path.round_trip(), path.rtt.srtt().unwrap(), "one that is long says little");
    path.flight_bytes = 0;
    assert_eq!(path.round_trip(), ms(10));
}
