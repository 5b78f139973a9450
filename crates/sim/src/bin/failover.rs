//! Failover trials: cuts the path in use many times, and measures how soon the other path carries its full
//! rate.
//!
//! Two paths with an RTT of 50 ms, rates of 5 to 100 Mbit/s, queues of 50 to 200 ms, cuts of either direction
//! or both, data in either direction. The exit code says whether the requirement holds: with the `modern`
//! values the user gets 90 % of the other path's rate within a second, and every byte once. `--only N` runs
//! every N-th trial; `-v` prints each in tenths of a second.

use std::process::ExitCode;
use std::time::Duration;

use braidftp_base::Rate;
use braidftp_sctp::{Config, Profile};
use braidftp_sim::failover::{Cut, Flow, Outcome, Trial, WINDOW};

/// The one-way delay.
const DELAY: Duration = Duration::from_millis(25);
/// The required share of the other path's rate.
const SHARE: f64 = 0.9;
/// The time limit to reach it.
const LIMIT: Duration = Duration::from_secs(1);
/// The time limit with RFC 9260's own values: 64 RTOs, of up to 1.25 s each with a full queue, and the ramp.
const RFC_LIMIT: Duration = Duration::from_secs(90);
/// The duration of the failure, in trials where the path returns.
const GONE: Duration = Duration::from_secs(6);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let verbose = args.iter().any(|arg| arg == "-v");
    let step = args.iter().position(|arg| arg == "--only").and_then(|at| args.get(at + 1)?.parse().ok());
    let step: usize = step.filter(|step| *step > 0).unwrap_or(1);
    let failed = cuts(step, verbose) + returns(verbose) + rfc_values();
    println!("{failed} trials missed the requirement");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Cuts the path in use, in every `step`-th trial; returns how many missed the requirement.
fn cuts(step: usize, verbose: bool) -> usize {
    let mut failed = 0;
    println!("modern: the path in use is cut; goodput of the other, user data of the wire's rate");
    println!("queue    trials  90 % after: median  longest   goodput 1..3 s: least  median");
    for queue in [50, 100, 200] {
        let mut rows = Vec::new();
        for trial in trials(queue).step_by(step) {
            let outcome = trial.run();
            let row = Row::of(&trial, &outcome);
            if verbose {
                println!("{}", tenths(&trial, &outcome));
            }
            if row.back.is_none_or(|back| back > LIMIT) || row.later < SHARE {
                println!("NOT ENOUGH: {}", tenths(&trial, &outcome));
                failed += 1;
            }
            rows.push(row);
        }
        rows.sort_by_key(|row| row.back);
        let longest = rows.last().and_then(|row| row.back).unwrap_or(Duration::MAX);
        let median = rows[rows.len() / 2].back.unwrap_or(Duration::MAX);
        rows.sort_by(|one, other| one.later.total_cmp(&other.later));
        println!(
            "{queue:>3} ms  {:>8} {:>16} ms {:>6} ms {:>20.1} %  {:>4.1} %",
            rows.len(),
            median.as_millis(),
            longest.as_millis(),
            rows[0].later * 100.0,
            rows[rows.len() / 2].later * 100.0
        );
    }
    failed
}

/// Restores the path that was cut; returns how many trials never found it again.
fn returns(verbose: bool) -> usize {
    let mut failed = 0;
    println!("modern: the path returns after {} s; goodput of the path that returned", GONE.as_secs());
    println!("Mbit/s   found after   90 % from then after   least tenth meanwhile");
    for mbit in [5, 20, 100] {
        for seed in 0..2 {
            let cut_at = Duration::from_millis(3_000 + 37 * seed);
            let whole_at = cut_at + GONE;
            let trial = Trial {
                whole_at: Some(whole_at),
                end: whole_at + Duration::from_secs(12),
                ..trial(Profile::Modern.config(), seed, [mbit, mbit], 50)
            };
            let outcome = trial.run();
            let Some(found) = outcome.primary_back.filter(|back| *back >= whole_at) else {
                println!("NOT ENOUGH: {mbit} Mbit/s: the path that returned was never found");
                failed += 1;
                continue;
            };
            let back = outcome.back_after(found + Duration::from_millis(100), trial.rates[0], SHARE);
            let start = (found.as_millis() / 100) as usize;
            let least = outcome.windows[start..start + 20].iter().min().expect("twenty") * 80;
            println!(
                "{mbit:>6} {:>10} ms {:>19} ms {:>19.1} %",
                (found - whole_at).as_millis(),
                back.unwrap_or(Duration::MAX).as_millis(),
                least as f64 / (mbit * 10_000) as f64,
            );
            if verbose {
                println!("{}", tenths(&trial, &outcome));
            }
        }
    }
    failed
}

/// The same cut with RFC 9260's own values; returns how many trials took longer than those allow.
fn rfc_values() -> usize {
    let mut failed = 0;
    println!(
        "rfc9260: 5 time-outs that double, and a sixth, make the path inactive: 63 RTOs of 1 s or more, after one for"
    );
    println!(
        "what still arrived; then the other path goes from 4 packets in flight, one more each round trip"
    );
    for mbit in [5, 20] {
        let cut_at = Duration::from_secs(5);
        let trial = Trial {
            end: cut_at + RFC_LIMIT + LIMIT,
            cut_at,
            ..trial(Profile::Rfc9260.config(), 1, [mbit, mbit], 50)
        };
        let outcome = trial.run();
        let drained = cut_at + trial.queue + DELAY;
        let back = outcome.back_after(drained, trial.rates[1], SHARE).unwrap_or(Duration::MAX);
        let timeouts = outcome.paths[0].timeouts;
        println!("{mbit:>3} Mbit/s: {timeouts} time-outs, 90 % after {:.1} s", back.as_secs_f64());
        failed += usize::from(back > RFC_LIMIT);
    }
    failed
}

/// The judged values of a trial.
struct Row {
    /// The time until [`SHARE`] was reached again.
    back: Option<Duration>,
    /// The share of the other path's rate from 1 s to 3 s after the cut.
    later: f64,
}

impl Row {
    fn of(trial: &Trial, outcome: &Outcome) -> Self {
        let other = trial.rates[1];
        // Data blocked by a packet lost at the end arrives within two windows.
        let spans = (0..3)
            .map(|more| outcome.goodput(trial.cut_at + LIMIT, trial.cut_at + LIMIT * 3 + WINDOW * more));
        let later = spans.fold(0.0, f64::max);
        // Data in flight on the cut path does not count for the other path; it has arrived by then.
        let drained = trial.cut_at + trial.queue + DELAY;
        let back = outcome.back_after(drained, other, SHARE).map(|back| back + (drained - trial.cut_at));
        Self { back, later: later / other.bits_per_second() as f64 }
    }
}

fn trials(queue_ms: u64) -> impl Iterator<Item = Trial> {
    let cases = [
        (Flow::FromClient, Cut::Both),
        (Flow::FromServer, Cut::Both),
        (Flow::FromClient, Cut::Data),
        (Flow::FromServer, Cut::Data),
        (Flow::FromClient, Cut::Acknowledgements),
        (Flow::FromServer, Cut::Acknowledgements),
    ];
    let mut trials = Vec::new();
    for mbit in [5, 10, 20, 50, 100] {
        for rates in [[mbit, mbit], [mbit, mbit / 2], [mbit, mbit * 2]] {
            for (flow, cut) in cases {
                for seed in 0..3 {
                    let config = Profile::Modern.config();
                    trials.push(Trial { flow, cut, ..trial(config, seed, rates, queue_ms) });
                }
            }
        }
    }
    trials.into_iter()
}

fn trial(config: Config, seed: u64, mbits: [u64; 2], queue_ms: u64) -> Trial {
    let cut_at = Duration::from_millis(3_000 + 37 * seed);
    Trial {
        config,
        seed,
        rates: mbits.map(|mbit| Rate::from_bits_per_second(mbit * 1_000_000)),
        delay: DELAY,
        queue: Duration::from_millis(queue_ms),
        flow: Flow::FromClient,
        cut: Cut::Both,
        cut_at,
        whole_at: None,
        end: cut_at + Duration::from_millis(3_200),
    }
}

/// The goodput in percent of the other path's rate for each tenth of a second from the cut on.
fn tenths(trial: &Trial, outcome: &Outcome) -> String {
    let [primary, other] = trial.rates.map(Rate::bits_per_second);
    let start = (trial.cut_at.as_millis() / 100) as usize;
    let shares = outcome.windows[start..].iter().map(|bytes| format!("{}", bytes * 8_000 / other));
    format!(
        "{primary} then {other} bit/s, queue {:?}, {:?}, {:?} cut, seed {}: {}",
        trial.queue,
        trial.flow,
        trial.cut,
        trial.seed,
        shares.collect::<Vec<_>>().join(" ")
    )
}
