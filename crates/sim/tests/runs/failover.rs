//! One of two paths is cut while data flows: how soon the other carries its full rate, and what happens when
//! the first returns. `cargo xtask proof --only failover` runs hundreds of such trials.

use std::time::Duration;

use braidftp_base::Rate;
use braidftp_sctp::{Config, PathState, Profile};
use braidftp_sim::failover::{Cut, Flow, Trial};

/// The one-way delay.
const DELAY: Duration = Duration::from_millis(25);

fn trial(config: Config, seed: u64, mbits: [u64; 2]) -> Trial {
    let cut_at = Duration::from_millis(2_000 + 37 * seed);
    Trial {
        config,
        seed,
        rates: mbits.map(|mbit| Rate::from_bits_per_second(mbit * 1_000_000)),
        delay: DELAY,
        queue: Duration::from_millis(50),
        flow: Flow::FromClient,
        cut: Cut::Both,
        cut_at,
        whole_at: None,
        end: cut_at + Duration::from_millis(3_200),
    }
}

fn modern() -> Config {
    Profile::Modern.config()
}

/// Checks that the user gets 90 % of the other path's rate within a second.
fn check(trial: &Trial) {
    let outcome = trial.run();
    let other = trial.rates[1];
    let drained = trial.cut_at + trial.queue + trial.delay;
    let back = outcome.back_after(drained, other, 0.9).map(|back| back + (drained - trial.cut_at));
    assert!(back.is_some_and(|back| back <= Duration::from_secs(1)), "{trial:?}: {back:?}");
    let later = outcome.goodput(trial.cut_at + Duration::from_secs(1), trial.cut_at + Duration::from_secs(3));
    assert!(later > 0.9 * other.bits_per_second() as f64, "{trial:?}: {later} bit/s");
    assert_eq!(trial.run().fingerprint, outcome.fingerprint, "the same trial is the same run");
}

#[test]
fn the_other_path_carries_its_full_rate_within_a_second() {
    for (seed, mbits) in [[5, 5], [10, 20], [20, 10], [20, 20]].into_iter().enumerate() {
        check(&trial(modern(), seed as u64, mbits));
    }
}

#[test]
fn failover_works_in_both_directions_of_data() {
    check(&Trial { flow: Flow::FromServer, ..trial(modern(), 1, [10, 10]) });
}

#[test]
fn failover_works_if_only_the_data_direction_is_cut() {
    check(&Trial { cut: Cut::Data, ..trial(modern(), 2, [10, 10]) });
}

#[test]
fn failover_works_if_only_the_ack_direction_is_cut() {
    check(&Trial { cut: Cut::Acknowledgements, ..trial(modern(), 3, [10, 10]) });
    for (seed, mbits) in (4..).zip([[20, 10], [5, 20], [10, 10], [20, 5]]) {
        let trial = trial(modern(), seed, mbits);
        check(&Trial { cut: Cut::Acknowledgements, flow: Flow::FromServer, ..trial });
    }
}

#[test]
fn with_rfc_values_sacks_move_to_the_other_path_after_losses() {
    // Data still arrives, and only its SACKs are lost; they can use the other path.
    let trial = Trial {
        cut: Cut::Acknowledgements,
        end: Duration::from_secs(12),
        ..trial(Profile::Rfc9260.config(), 1, [5, 5])
    };
    let outcome = trial.run();
    let goodput = outcome.goodput(Duration::from_secs(8), Duration::from_secs(12));
    assert!(goodput > 0.85 * trial.rates[0].bits_per_second() as f64, "{goodput} bit/s");
    assert_eq!(outcome.paths[0].timeouts, 1);
}

#[test]
fn data_returns_to_a_restored_path_without_a_stall() {
    let base = trial(modern(), 1, [10, 10]);
    let whole_at = base.cut_at + Duration::from_secs(2);
    let trial = Trial { whole_at: Some(whole_at), end: whole_at + Duration::from_secs(6), ..base };
    let outcome = trial.run();
    let found = outcome.primary_back.expect("a HEARTBEAT finds it");
    assert!(found >= whole_at && found < whole_at + Duration::from_secs(2), "{found:?}");
    let back = outcome.back_after(found, trial.rates[0], 0.9);
    assert!(back.is_some_and(|back| back < Duration::from_millis(1_500)), "{back:?}");
    // While the window of the restored path grows, data arrives in every 300 ms.
    let first = (found.as_millis() / 100) as usize;
    assert!(outcome.windows[first..].windows(3).all(|three| three.iter().sum::<u64>() > 0));
    assert_eq!(outcome.paths[0].state, PathState::Active);
    assert!(outcome.paths[0].flight_bytes > 0, "the primary path carries data again");
}
