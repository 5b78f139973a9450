//! A multiple get in the simulator, with its result: `cargo run --release -p braidftp-sim --example get --
//! ms-cp 100 1000000 rate=3mbit,delay=1ms,loss=0.1 [seeds]`.
#![allow(clippy::disallowed_types, reason = "the program measures its run time")]

use std::time::Instant;

use braidftp_sim::apps::ftp::{Session, Variant};
use braidftp_sim::link::LinkConfig;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [variant, count, size, link, rest @ ..] = &arguments[..] else {
        eprintln!("write: get VARIANT FILES BYTES LINK [SEEDS]");
        std::process::exit(2);
    };
    let variant: Variant = variant.parse().expect("a variant");
    let mut link: LinkConfig = link.parse().expect("a link");
    link.overhead_bytes = 20;
    let seeds: u64 = rest.first().map_or(1, |seeds| seeds.parse().expect("a number of seeds"));
    let files = vec![size.parse().expect("bytes"); count.parse().expect("a number of files")];
    for seed in 1..=seeds {
        let session = Session {
            variant,
            files: files.clone(),
            paths: vec![[link.clone(), link.clone()]],
            sctp: braidftp_sctp::Config::default().with(|c| c.path_mtu.packet_bytes = 1_480),
            seed,
            ..Session::default()
        };
        let begun = Instant::now();
        let outcome = session.run();
        let took = begun.elapsed().as_secs_f64();
        println!(
            "{variant} seed {seed}: {:.3} s, {:.3} s since 150; {} failed={:?} connections={} blocks={}/{:.2} \
             timeouts={} fast={} resent={} | {took:.3} s of ours, {:.2} million packets a second",
            outcome.since_asked.as_secs_f64(),
            outcome.since_opened.as_secs_f64(),
            outcome.to_client.total().packets + outcome.to_server.total().packets,
            outcome.failed,
            outcome.connections,
            outcome.control_blocks_max,
            outcome.control_blocks_mean,
            outcome.timeouts,
            outcome.fast_retransmits,
            outcome.retransmissions,
            outcome.packets_carried as f64 / took / 1e6,
        );
        println!("  to client {:?}\n  to server {:?}", outcome.to_client, outcome.to_server);
    }
}
