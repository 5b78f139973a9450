//! Protected flows beside the same ones in the clear: goodput over several paths and through failover, the time of an FTP job, and
//! what does not need a new handshake.

use std::time::Duration;

use braidftp_base::Rate;
use braidftp_sctp::{Config, DtlsConfig, Multipath, Profile};
use braidftp_sim::LinkConfig;
use braidftp_sim::apps::ftp::{Ends, Session, Variant};
use braidftp_sim::failover;
use braidftp_sim::several::{Change, Flow, Outcome, Trial};

/// The part of the goodput in the clear that protection must leave: its 28 bytes a packet are 1.97 % of 1,424.
const LEAST: f64 = 0.98;

fn protected(config: Config) -> Config {
    config.with(|c| c.security.dtls = Some(DtlsConfig::default()))
}

fn together() -> Config {
    Profile::Modern.config().with(|c| {
        c.sack.nr_sack = true;
        c.paths.multipath = Some(Multipath::default());
    })
}

fn link(text: &str) -> [LinkConfig; 2] {
    let link: LinkConfig = text.parse().expect("a link");
    [link.clone(), link]
}

fn run(links: &[&str], config: Config, changes: Vec<Change>) -> Outcome {
    let links: Vec<_> = links.iter().map(|text| link(text)).collect();
    let flows = vec![Flow { config, over: (0..links.len()).collect() }];
    Trial { seed: 1, links, flows, changes, end: Duration::from_secs(12) }.run().remove(0)
}

/// From the first INIT on, less the round trip of the handshake. What waits for a gap when time ends counts for neither, so the mean
/// over many ends is compared.
#[test]
fn several_paths_carry_as_much_as_in_the_clear() {
    const ENDS: std::ops::RangeInclusive<u64> = 15..=30;
    for (links, round_trip) in [
        (["rate=10mbit,delay=45ms,queue=100p"; 2], 0.09),
        (["rate=20mbit,delay=10ms,queue=100p", "rate=5mbit,delay=150ms,queue=100p"], 0.02),
    ] {
        let [plain, secret] = [together(), protected(together())].map(|config| {
            let flows = vec![Flow { config, over: vec![0, 1] }];
            let links = links.map(link).to_vec();
            let end = Duration::from_secs(*ENDS.end());
            let outcome = Trial { seed: 1, links, flows, changes: Vec::new(), end }.run().remove(0);
            let until = |end| outcome.goodput(Duration::ZERO, Duration::from_secs(end)) * end as f64;
            ENDS.map(until).sum::<f64>() / ENDS.sum::<u64>() as f64
        });
        let mean_end = ENDS.sum::<u64>() as f64 / ENDS.count() as f64;
        let least = LEAST * plain * (1.0 - round_trip / mean_end);
        println!("{links:?}: {plain:.0} bit/s in the clear, {secret:.0} protected: {:.4}", secret / plain);
        assert!(secret >= least, "{links:?}: {secret:.0} of {plain:.0} bit/s, less than {least:.0}");
    }
}

/// A path that fails and comes back again and again: the same keys serve all along.
#[test]
fn a_flapping_path_needs_no_new_handshake() {
    let links = ["rate=10mbit,delay=20ms,queue=100p", "rate=5mbit,delay=40ms,queue=100p"];
    let [up, down] = [links[0].to_owned(), format!("{},loss=1", links[0])].map(|text| link(&text));
    let changes = (1..10).map(|second| Change {
        at: Duration::from_secs(second),
        link: 0,
        to: if second % 2 == 1 { down.clone() } else { up.clone() },
    });
    let outcome = run(&links, protected(together()), changes.collect());
    assert_eq!(outcome.epoch, Some(3));
    let moved = outcome.goodput(Duration::from_secs(1), Duration::from_secs(12));
    assert!(moved > 5e6, "{moved:.0} bit/s");
}

#[test]
fn protected_failover_takes_no_longer_than_unprotected() {
    let rate: Rate = "10mbit".parse().expect("a rate");
    let cut_at = Duration::from_secs(5);
    let [plain, secret] = [Profile::Modern.config(), protected(Profile::Modern.config())].map(|config| {
        let trial = failover::Trial {
            config,
            seed: 1,
            rates: [rate; 2],
            delay: Duration::from_millis(20),
            queue: Duration::from_millis(100),
            flow: failover::Flow::FromServer,
            cut: failover::Cut::Both,
            cut_at,
            whole_at: None,
            end: Duration::from_secs(15),
        };
        trial.run().back_after(cut_at, rate, 0.5).expect("the other path carries on")
    });
    assert!(secret <= plain + Duration::from_millis(100), "{secret:?}, in the clear {plain:?}");
}

#[test]
fn an_ftp_job_takes_one_round_trip_longer_and_the_overhead() {
    let delay = Duration::from_millis(35);
    let job = |sctp: Config| {
        let session = Session {
            variant: Variant::Braid,
            files: vec![10_000; 100],
            sctp,
            paths: vec![link("rate=3mbit,delay=35ms,queue=100p")],
            ends: Ends::WithLastFile,
            ..Session::default()
        };
        let outcome = session.run();
        assert_eq!(outcome.failed, None);
        outcome.since_started
    };
    let (plain, secret) = (job(Profile::Modern.config()), job(protected(Profile::Modern.config())));
    println!("100 files of 10 kB: {plain:?} in the clear, {secret:?} protected");
    assert!(
        secret <= plain.mul_f64(1.0 / LEAST) + 2 * delay + Duration::from_millis(20),
        "{secret:?}, {plain:?}"
    );
}
