//! One path of two is cut while data flows: how soon the other carries all it can, and what happens when the first returns.
//! `cargo xtask proof --only failover` runs hundreds of these.

use std::time::Duration;

use braidftp_base::Rate;
use braidftp_sctp::{Config, PathState, Profile};
use braidftp_sim::failover::{Cut, Flow, Trial};

/// One way.
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

/// The user gets 90 % of the other path's rate within a second.
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
fn within_a_second_the_other_path_carries_what_it_can() {
    for (seed, mbits) in [[5, 5], [10, 20], [20, 10], [20, 20]].into_iter().enumerate() {
        check(&trial(modern(), seed as u64, mbits));
    }
}

#[test]
fn whichever_way_the_data_goes() {
    check(&Trial { flow: Flow::FromServer, ..trial(modern(), 1, [10, 10]) });
}

#[test]
fn when_only_the_way_of_the_data_is_cut() {
    check(&Trial { cut: Cut::Data, ..trial(modern(), 2, [10, 10]) });
}

#[test]
fn when_only_the_way_of_the_acknowledgements_is_cut() {
    check(&Trial { cut: Cut::Acknowledgements, ..trial(modern(), 3, [10, 10]) });
    for (seed, mbits) in (4..).zip([[20, 10], [5, 20], [10, 10], [20, 5]]) {
        let trial = trial(modern(), seed, mbits);
        check(&Trial { cut: Cut::Acknowledgements, flow: Flow::FromServer, ..trial });
    }
}

#[test]
fn by_the_rfcs_values_acknowledgements_that_get_lost_take_the_other_path() {
    // What arrives still arrives, and only its SACKs do not: they have another way to go.
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
fn data_returns_to_the_path_that_returned_and_does_not_stall() {
    let base = trial(modern(), 1, [10, 10]);
    let whole_at = base.cut_at + Duration::from_secs(2);
    let trial = Trial { whole_at: Some(whole_at), end: whole_at + Duration::from_secs(6), ..base };
    let outcome = trial.run();
    let found = outcome.primary_back.expect("a HEARTBEAT finds it");
    assert!(found >= whole_at && found < whole_at + Duration::from_secs(2), "{found:?}");
    let back = outcome.back_after(found, trial.rates[0], 0.9);
    assert!(back.is_some_and(|back| back < Duration::from_millis(1_500)), "{back:?}");
    // While the window of the path that returned grows, something arrives in every three tenths of a second.
    let first = (found.as_millis() / 100) as usize;
    assert!(outcome.windows[first..].windows(3).all(|three| three.iter().sum::<u64>() > 0));
    assert_eq!(outcome.paths[0].state, PathState::Active);
    assert!(outcome.paths[0].flight_bytes > 0, "data goes by the primary path again");
}
