//! `fingerprints.csv`: scenario, seed, and the fingerprint of the run. The test shows that runs are
//! unchanged, not that they are right.
//!
//! Each row is run twice, once alone and once beside all others in threads. A change of a protocol or of the
//! links may change rows: check that it should, and rewrite them with `BRAIDFTP_FINGERPRINTS=write cargo test
//! -p braidftp-sim --test fingerprints`.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Protocol};
use braidftp_sim::scenario::Scenario;
use braidftp_sim::topology::{self, Dumbbell};
use braidftp_sim::{LinkConfig, World};
use braidftp_tcp as tcp;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fingerprints.csv");
const HEADER: &str = "scenario,seed,fingerprint";

/// The bottlenecks for bulk flows over a dumbbell of two pairs.
const BOTTLENECKS: &[(&str, &str)] = &[
    ("lossless", "rate=3mbit,delay=10ms,queue=50p"),
    ("loss", "rate=3mbit,delay=10ms,queue=50p,loss=0.01"),
    ("bursts", "rate=3mbit,delay=10ms,queue=49w,burst-loss=0.002:0.3"),
    ("red", "rate=3mbit,delay=10ms,queue=100p,red=5p:15p:0.1:0.002:gentle"),
    ("codel", "rate=3mbit,delay=10ms,queue=100p,codel=default:mark"),
    ("steps", "rate=3mbit:1mbit@2s:6mbit@4s,delay=10ms,queue=50p"),
    ("flapping", "rate=3mbit,delay=10ms,queue=50p,flap=2s:200ms"),
    ("odd", "rate=3mbit,delay=10ms,queue=50p,reorder=0.01:5ms,duplicate=0.01,corrupt=0.001"),
];
const SEEDS: std::ops::Range<u64> = 1..3;
const SOAK_SEEDS: std::ops::Range<u64> = 0..8;

/// All scenarios.
fn rows() -> Vec<(String, u64)> {
    let mut rows = Vec::new();
    for protocol in ["sctp", "tcp"] {
        for (name, _) in BOTTLENECKS {
            rows.extend(SEEDS.map(|seed| (format!("dumbbell/{protocol}/{name}"), seed)));
        }
    }
    rows.extend(SOAK_SEEDS.map(|seed| ("soak".to_owned(), seed)));
    rows
}

fn run(scenario: &str, seed: u64) -> u64 {
    let parts: Vec<_> = scenario.split('/').collect();
    match parts[..] {
        ["soak"] => Scenario::from_seed(seed).run().expect("a scenario ends well").fingerprint,
        ["dumbbell", protocol, name] => dumbbell(protocol, name, seed),
        _ => panic!("there is no scenario {scenario}"),
    }
}

fn dumbbell(protocol: &str, name: &str, seed: u64) -> u64 {
    let protocol = match protocol {
        "sctp" => Protocol::Sctp(Arc::new(sctp::Profile::Rfc9260.config())),
        _ => Protocol::Tcp(Arc::new(tcp::Profile::Sack.config())),
    };
    let (_, text) = BOTTLENECKS.iter().find(|(other, _)| *other == name).expect("it is listed");
    let link = |text: &str| -> LinkConfig { format!("overhead=20,{text}").parse().unwrap() };
    let mut world = World::new(seed);
    let [left, right] = topology::dumbbell_addresses(2);
    let links = Dumbbell::of(2, &link("rate=100mbit,delay=1ms,queue=1000p"), &link(text));
    topology::dumbbell(&mut world, &left, &right, &links);
    for (number, (left, right)) in left.into_iter().zip(right).enumerate() {
        let ends = [left, right].map(|ip| SocketAddr::new(ip, 0));
        let [sender, reader] = bulk::flow(&protocol, ends[0], ends[1], seed << 8 | number as u64);
        world.add_host(sender, [left]);
        world.add_host(reader, [right]);
    }
    world.run_until(Time::ZERO + Duration::from_secs(6));
    world.fingerprint()
}

#[test]
fn each_run_matches_its_fingerprint_alone_and_in_threads() {
    let rows = rows();
    let alone: Vec<u64> = rows.iter().map(|(scenario, seed)| run(scenario, *seed)).collect();
    let threads: Vec<u64> = std::thread::scope(|scope| {
        let four = rows.chunks(rows.len().div_ceil(4)).map(|rows| {
            scope.spawn(move || rows.iter().map(|(scenario, seed)| run(scenario, *seed)).collect::<Vec<_>>())
        });
        let four: Vec<_> = four.collect();
        four.into_iter().flat_map(|thread| thread.join().expect("no run panics")).collect()
    });
    for ((scenario, seed), (one, other)) in rows.iter().zip(alone.iter().zip(&threads)) {
        assert_eq!(one, other, "{scenario} with seed {seed} is another run when run again");
    }
    let mut text = format!("{HEADER}\n");
    for ((scenario, seed), fingerprint) in rows.iter().zip(&alone) {
        writeln!(text, "{scenario},{seed},{fingerprint:016x}").unwrap();
    }
    if std::env::var("BRAIDFTP_FINGERPRINTS").is_ok_and(|what| what == "write") {
        std::fs::write(Path::new(FILE), &text).unwrap();
        return;
    }
    let recorded = std::fs::read_to_string(FILE).expect("fingerprints.csv is beside this file");
    let differ: Vec<_> =
        recorded.lines().zip(text.lines()).filter(|(recorded, now)| recorded != now).collect();
    assert!(
        differ.is_empty() && recorded.lines().count() == text.lines().count(),
        "runs are not those of fingerprints.csv (recorded, now): {differ:#?}\nif they ought to differ: \
         BRAIDFTP_FINGERPRINTS=write cargo test -p braidftp-sim --test fingerprints"
    );
}
