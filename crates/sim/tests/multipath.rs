//! The goodput of several paths with the default choices, compared with each path alone: the sum where the
//! buffers allow it, and never less than the best path. `cargo run --release -p braidftp-sim --example
//! several` does the same for any links.

use std::time::Duration;

use braidftp_sctp::{Config, Multipath, Profile};
use braidftp_sim::LinkConfig;
use braidftp_sim::apps::ftp::Session;
use braidftp_sim::several::{Change, Flow, Outcome, Trial};

/// 10 Mbit/s, RTT 90 ms.
const EQUAL: &str = "rate=10mbit,delay=45ms,queue=100p";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Both directions; only the data direction has losses.
fn link(text: &str) -> [LinkConfig; 2] {
    let there: LinkConfig = text.parse().expect("a link");
    let back = LinkConfig { loss: braidftp_sim::link::Loss::None, ..there.clone() };
    [there, back]
}

/// One path at a time, with buffers of this size; `None`: growing buffers.
fn alone(buffer: Option<usize>) -> Config {
    let mut config = Profile::Modern.config().with(|c| c.sack.nr_sack = true);
    if let Some(bytes) = buffer {
        (config.memory.receive_buffer_bytes, config.memory.receive_buffer_max_bytes) = (bytes, None);
        (config.memory.send_buffer_bytes, config.memory.send_buffer_max_bytes) = (bytes.max(1 << 20), None);
    }
    config
}

/// All paths at once.
fn together(buffer: Option<usize>) -> Config {
    alone(buffer).with(|c| c.paths.multipath = Some(Multipath::default()))
}

fn run(links: &[&str], config: Config, over: &[usize], seed: u64, end: Duration) -> Outcome {
    let links = links.iter().map(|text| link(text)).collect();
    let flows = vec![Flow { config, over: over.to_vec() }];
    Trial { seed, links, flows, changes: Vec::new(), end }.run().remove(0)
}

/// The goodput of each path alone and of all together, in bits per second: means over `seeds` seeds.
fn compare(links: &[&str], buffer: Option<usize>, seeds: u64, [from, to]: [u64; 2]) -> (Vec<f64>, f64) {
    let (from, end) = (seconds(from), seconds(to));
    let mean = |config: &Config, over: &[usize]| {
        let of = |seed| run(links, config.clone(), over, seed, end).goodput(from, end);
        (1..=seeds).map(of).sum::<f64>() / seeds as f64
    };
    let each = (0..links.len()).map(|path| mean(&alone(buffer), &[path])).collect();
    let all: Vec<usize> = (0..links.len()).collect();
    (each, mean(&together(buffer), &all))
}

fn assert_sum(links: &[&str], seeds: u64, span: [u64; 2], part: f64) {
    let (each, all) = compare(links, None, seeds, span);
    let sum: f64 = each.iter().sum();
    assert!(all >= part * sum, "{links:?}: {all:.0} of {sum:.0} bit/s: {:.3}", all / sum);
}

#[test]
fn equal_paths_carry_their_sum() {
    assert_sum(&[EQUAL; 2], 1, [3, 10], 0.95);
    assert_sum(&[EQUAL; 3], 1, [3, 10], 0.93);
}

#[test]
fn dissimilar_paths_carry_nine_tenths_of_their_sum() {
    let links = ["rate=20mbit,delay=10ms,queue=100p", "rate=5mbit,delay=150ms,queue=100p"];
    assert_sum(&links, 1, [5, 15], 0.9);
}

#[test]
fn a_long_path_with_sacks_on_a_shorter_path_carries_its_full_rate() {
    let short = "rate=1.5mbit,delay=1ms,queue=16p,loss=0.0029";
    assert_sum(&[short, "rate=31mbit,delay=30ms,queue=128p,loss=0.0052"], 3, [5, 20], 0.95);
    let short = "rate=1.3mbit,delay=1ms,queue=16p,loss=0.0158";
    assert_sum(&[short, "rate=16.5mbit,delay=95ms,queue=151p,loss=0.0019"], 2, [5, 20], 0.95);
}

#[test]
fn with_a_small_buffer_two_paths_carry_no_less_than_the_better_one() {
    let pairs = [
        [EQUAL; 2],
        ["rate=20mbit,delay=10ms,queue=100p", "rate=5mbit,delay=150ms,queue=100p"],
        ["rate=50mbit,delay=300ms,queue=300p", "rate=20mbit,delay=30ms,queue=100p,loss=0.01"],
    ];
    for (links, seeds) in pairs.into_iter().zip([1, 1, 2]) {
        for buffer in [16_384, 65_536] {
            let (each, all) = compare(&links, Some(buffer), seeds, [3, 12]);
            let better = each.iter().copied().fold(0.0, f64::max);
            assert!(all >= 0.97 * better, "{links:?}, {buffer}: {all:.0} of {better:.0} bit/s");
        }
    }
}

#[test]
fn lossy_paths_with_a_small_buffer_learn_no_reordering_from_chunks_sent_on_both() {
    // Regression: a chunk that arrived by the other path passed for a late one, so each path waited longer before it
    // retransmitted lost chunks, which block the buffer.
    let lossy = "rate=10mbit,delay=45ms,queue=120p,loss=0.01";
    let (each, all) = compare(&[lossy; 2], Some(131_072), 4, [10, 40]);
    let better = each.iter().copied().fold(0.0, f64::max);
    assert!(all >= 0.95 * better, "{all:.0} of {better:.0} bit/s");
}

#[test]
fn the_better_path_is_chosen_by_delivery_rate_and_loss() {
    // Small buffers, occasional losses, SACKs on the other path, or short queues: for each of these pairs the
    // wrong path was once chosen, or duplicate chunks delayed the transfer.
    let cases = [
        ("rate=11mbit,delay=189ms,queue=320p", "rate=4.2mbit,delay=54ms,queue=41p,loss=0.0013", 65_536),
        ("rate=23mbit,delay=2ms,queue=16p", "rate=1.9mbit,delay=1ms,queue=16p,loss=0.002", 32_768),
        ("rate=34mbit,delay=9ms,queue=61p,loss=0.015", "rate=2.4mbit,delay=2ms,queue=16p", 16_384),
        ("rate=1.079mbit,delay=1548us,queue=16p,loss=0.0044", "rate=4.713mbit,delay=23ms,queue=31p", 16_384),
        ("rate=90mbit,delay=10ms,queue=150p", "rate=1.5mbit,delay=1ms,queue=16p", 16_384),
    ];
    for (one, other, buffer) in cases {
        let (each, all) = compare(&[one, other], Some(buffer), 2, [5, 15]);
        let better = each.iter().copied().fold(0.0, f64::max);
        assert!(all >= 0.95 * better, "{one} {other}, {buffer}: {all:.0} of {better:.0} bit/s");
    }
}

#[test]
fn a_far_path_that_fills_the_window_is_supplemented_by_a_near_one() {
    // Regression: alone each path carries 7.5 Mbit/s, the near one limited by its rate and the far one by
    // this window. The near path delivers each chunk sooner, and was used alone.
    let links = ["rate=7.763mbit,delay=8092us,queue=16p", "rate=21.488mbit,delay=131412us,queue=470p"];
    let (each, all) = compare(&links, Some(262_144), 1, [5, 15]);
    let better = each.iter().copied().fold(0.0, f64::max);
    assert!(all >= 1.5 * better, "{all:.0} of {better:.0} bit/s");
}

#[test]
fn a_slower_path_with_a_long_queue_adds_its_rate_within_a_small_buffer() {
    // Regression: the slower path was admitted by its RTT, though SACKs of its chunks return on the faster path; and its
    // queue grew without a limit after each chunk that had to be rescued. The faster path was used alone. It has hardly a queue now, so
    // that chunks of the slower one block this buffer for longer by comparison.
    let links = ["rate=50mbit,delay=5ms,queue=83p", "rate=8mbit,delay=25ms,queue=166p"];
    let (each, all) = compare(&links, Some(262_144), 1, [5, 15]);
    let better = each.iter().copied().fold(0.0, f64::max);
    assert!(all >= 1.02 * better, "{all:.0} of {better:.0} bit/s");
}

/// The seconds of a job of ten files over these paths, with a send buffer of this size.
fn seconds_of_job(links: &[&str], file_bytes: u64, send_buffer_bytes: Option<usize>) -> f64 {
    let paths: Vec<_> = links.iter().map(|text| link(text)).collect();
    let several = paths.len() > 1;
    let sctp = Profile::Modern.config().with(|c| {
        c.paths.multipath = several.then(Multipath::default);
        if let Some(bytes) = send_buffer_bytes {
            c.sack.nr_sack = true;
            c.memory.send_buffer_bytes = bytes;
        }
    });
    let session = Session {
        variant: "braid".parse().expect("a variant"),
        files: vec![file_bytes; 10],
        paths,
        sctp,
        ..Session::default()
    };
    let outcome = session.run();
    assert_eq!(outcome.failed, None);
    outcome.since_asked.as_secs_f64()
}

#[test]
fn the_last_chunks_of_a_job_do_not_wait_for_a_slower_path() {
    // Regression: the queue of the slower path still held chunks when the faster one had sent its last packet.
    let fast = "rate=20mbit,delay=10ms,queue=100p";
    for slow in ["rate=2mbit,delay=10ms,queue=200kB", "rate=2mbit,delay=50ms,queue=200kB"] {
        let took = |links: &[&str]| seconds_of_job(links, 160_000, None);
        let (alone, both) = (took(&[fast]), took(&[fast, slow]));
        assert!(both <= 1.02 * alone, "{slow}: {both:.3} s, {alone:.3} s without it");
    }
}

#[test]
fn chunks_in_the_queue_of_a_slow_path_are_sent_again_at_the_end_of_a_job() {
    // Regression: a full send buffer does not show how little is left, so the slow path got chunks that it delivered when the
    // other one had been idle for a third of a second.
    let (fast, slow) = ("rate=35mbit,delay=5ms,queue=200kB", "rate=510kbit,delay=64ms,queue=200kB");
    let took = |links: &[&str]| seconds_of_job(links, 250_000, Some(1 << 20));
    let (alone, both) = (took(&[fast]), took(&[fast, slow]));
    assert!(both <= 1.02 * alone, "{both:.3} s, {alone:.3} s without the slow path");
}

#[test]
fn a_failed_path_costs_at_most_a_second_of_the_others_goodput() {
    let cut = seconds(4);
    let dead = link("rate=10mbit,delay=45ms,queue=100p,loss=1");
    let change = Change { at: cut, link: 0, to: [dead[0].clone(), dead[0].clone()] };
    let trial = Trial {
        seed: 1,
        links: vec![link(EQUAL), link(EQUAL)],
        flows: vec![Flow { config: together(None), over: vec![0, 1] }],
        changes: vec![change],
        end: seconds(9),
    };
    let outcome = trial.run().remove(0);
    let later = outcome.goodput(cut + seconds(1), cut + seconds(5));
    assert!(later >= 0.9 * 9.6e6, "{later:.0} bit/s, {:?}", outcome.windows);
}

#[test]
fn a_restored_path_is_used_within_two_seconds_after_any_outage() {
    let (dead, healed) = (seconds(2), seconds(14));
    let cut = link("rate=5mbit,delay=45ms,queue=100p,loss=1");
    let whole = "rate=5mbit,delay=45ms,queue=100p";
    let changes = vec![
        Change { at: dead, link: 1, to: [cut[0].clone(), cut[0].clone()] },
        Change { at: healed, link: 1, to: link(whole) },
    ];
    let trial = Trial {
        seed: 1,
        links: vec![link(whole), link(whole)],
        flows: vec![Flow { config: together(None), over: vec![0, 1] }],
        changes,
        end: seconds(19),
    };
    let outcome = trial.run().remove(0);
    let later = outcome.goodput(healed + seconds(3), trial.end);
    assert!(later >= 0.9 * 9.6e6, "{later:.0} bit/s, {:?}", outcome.windows);
}

#[test]
fn a_path_with_a_long_first_rtt_sample_is_still_used() {
    let near = "rate=10mbit,delay=25ms,queue=100p";
    let [slow, fast] = ["rate=20mbit,delay=250ms,queue=100p", "rate=20mbit,delay=5ms,queue=100p"].map(link);
    let trial = Trial {
        seed: 1,
        links: vec![link(near), slow],
        flows: vec![Flow { config: together(Some(65_536)), over: vec![0, 1] }],
        changes: vec![Change { at: seconds(1), link: 1, to: fast }],
        end: seconds(10),
    };
    let outcome = trial.run().remove(0);
    let later = outcome.goodput(seconds(8), seconds(10));
    assert!(later >= 0.9 * 19e6, "{later:.0} bit/s, {:?}", outcome.windows);
}

#[test]
fn a_flapping_path_does_not_slow_down_the_steady_one() {
    let end = seconds(16);
    let steady = run(&[EQUAL], alone(None), &[0], 1, end).goodput(seconds(3), end);
    let mut changes = Vec::new();
    for period in 0..5 {
        let dead = link("rate=10mbit,delay=45ms,queue=100p,loss=1");
        let at = seconds(3 * period + 2);
        changes.push(Change { at, link: 1, to: [dead[0].clone(), dead[0].clone()] });
        changes.push(Change { at: at + seconds(1), link: 1, to: link(EQUAL) });
    }
    let trial = Trial {
        seed: 1,
        links: vec![link(EQUAL), link(EQUAL)],
        flows: vec![Flow { config: together(None), over: vec![0, 1] }],
        changes,
        end,
    };
    let both = trial.run().remove(0).goodput(seconds(3), end);
    assert!(both >= 0.95 * steady, "{both:.0} of {steady:.0} bit/s");
}

#[test]
fn two_paths_over_a_shared_bottleneck_take_one_flows_share() {
    let end = seconds(30);
    let taken = |multipath: &str, seed: u64| {
        let several = alone(None).with(|c| c.paths.multipath = Some(multipath.parse().unwrap()));
        let flows =
            vec![Flow { config: several, over: vec![0, 0] }, Flow { config: alone(None), over: vec![0] }];
        let links = vec![link("rate=10mbit,delay=20ms,queue=33p")];
        let outcomes = Trial { seed, links, flows, changes: Vec::new(), end }.run();
        let [ours, other] = [0, 1].map(|flow| outcomes[flow].goodput(seconds(10), end));
        2.0 * ours / (ours + other)
    };
    // With so few packets the shares vary from seed to seed: coupled, .70 with a standard deviation of .12 (368 seeds), and the
    // mean of 16 seeds by .03. Coupled paths may take less than one flow's share, but not more.
    let mean =
        |multipath, seeds: u64| (1..=seeds).map(|seed| taken(multipath, seed)).sum::<f64>() / seeds as f64;
    let (coupled, uncoupled) = (mean("default", 16), mean("default,coupling=none", 8));
    assert!((0.6..1.2).contains(&coupled), "{coupled:.3} of its half");
    assert!(uncoupled > 1.2, "{uncoupled:.3}: the test shows nothing");
}

#[test]
fn two_pairs_of_paths_take_one_flows_share_of_each_bottleneck() {
    let end = seconds(40);
    let one = || alone(None).with(|c| c.paths.multipath = None);
    let taken = |seed: u64| {
        let flows = vec![
            Flow { config: together(None), over: vec![0, 0, 1, 1] },
            Flow { config: one(), over: vec![0] },
            Flow { config: one(), over: vec![1] },
        ];
        let links = vec![link("rate=6mbit,delay=20ms,queue=20p"), link("rate=10mbit,delay=15ms,queue=30p")];
        let outcomes = Trial { seed, links, flows, changes: Vec::new(), end }.run();
        let [ours, first, second] = [0, 1, 2].map(|flow| outcomes[flow].goodput(seconds(15), end));
        2.0 * ours / (ours + first + second)
    };
    // The shares vary from seed to seed, between .58 and 1.01.
    let each: Vec<f64> = (1..=16).map(taken).collect();
    let mean = each.iter().sum::<f64>() / each.len() as f64;
    // Neither one share in total, as of a single group, nor two shares of each bottleneck.
    assert!((0.75..1.2).contains(&mean), "{mean:.3} of half of both: {each:.3?}");
}

#[test]
fn every_multipath_choice_delivers_all_bytes_once_and_in_order() {
    // The readers of `several` verify each byte.
    let links = ["rate=10mbit,delay=5ms,queue=50p,loss=0.02", "rate=2mbit,delay=60ms,queue=50p,loss=0.05"];
    for scheduler in braidftp_sctp::PathScheduler::ALL {
        for remedy in braidftp_sctp::Remedy::ALL {
            let (scheduler, remedy) = (*scheduler, *remedy);
            let multipath = Some(Multipath { scheduler, remedy, ..Multipath::default() });
            let config = alone(Some(65_536)).with(|c| c.paths.multipath = multipath);
            let outcome = run(&links, config, &[0, 1], 1, seconds(4));
            let goodput = outcome.goodput(seconds(1), seconds(4));
            assert!(goodput > 1e5, "{scheduler}, {remedy}: {goodput:.0} bit/s");
        }
    }
}
