//! Compares the goodput of several paths at once with that of each path alone: `several BUFFER CHOICE CC
//! SECONDS SEED LINK LINK...`, as in `several 64kB default auto 20 1 rate=20mbit,delay=10ms,queue=100p
//! rate=5mbit,delay=150ms,queue=100p`. CHOICE is what `Multipath` parses; with the prefix `shared:` all paths
//! use the first link beside a competing flow. With `CUT=0@10-20` in the environment the first link is down
//! from 10 s to 20 s; with `SECONDS` the goodput of each second is printed.

use std::time::Duration;

use braidftp_sctp::Profile;
use braidftp_sim::LinkConfig;
use braidftp_sim::several::{Change, Flow, Outcome, Trial};

/// `LINK@FROM-TO`, in seconds.
fn cut(text: &str, links: &[[LinkConfig; 2]]) -> Vec<Change> {
    let (link, span) = text.split_once('@').expect("LINK@FROM-TO");
    let (from, to) = span.split_once('-').expect("LINK@FROM-TO");
    let link: usize = link.parse().expect("a link");
    let all: LinkConfig = "loss=1".parse().expect("a link");
    let dead = links[link].clone().map(|link| LinkConfig { loss: all.loss.clone(), ..link });
    let at = |text: &str| Duration::from_secs_f64(text.parse().expect("seconds"));
    vec![Change { at: at(from), link, to: dead }, Change { at: at(to), link, to: links[link].clone() }]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [buffer, choice, cc, seconds, seed, links @ ..] = &args[..] else {
        eprintln!("several BUFFER CHOICE CC SECONDS SEED LINK LINK...");
        std::process::exit(1);
    };
    let links: Vec<[LinkConfig; 2]> = links
        .iter()
        .map(|text| {
            let there: LinkConfig = text.parse().expect("a link");
            let back = LinkConfig { loss: braidftp_sim::link::Loss::None, ..there.clone() };
            [there, back]
        })
        .collect();
    let end = Duration::from_secs(seconds.parse().expect("seconds"));
    let seed = seed.parse().expect("a seed");
    let bytes: Option<usize> = (buffer != "auto").then(|| buffer.parse().expect("bytes"));
    let (shared, choice) = match choice.strip_prefix("shared:") {
        Some(choice) => (true, choice),
        None => (false, choice.as_str()),
    };
    let modern = Profile::Modern.config();
    let mut config = modern.with(|c| {
        c.sack.nr_sack = true;
        c.congestion.control = cc.parse().expect("a controller");
    });
    if let Some(bytes) = bytes {
        (config.memory.receive_buffer_bytes, config.memory.receive_buffer_max_bytes) = (bytes, None);
        (config.memory.send_buffer_bytes, config.memory.send_buffer_max_bytes) = (bytes.max(1 << 20), None);
    }
    let several = config.clone().with(|c| c.paths.multipath = Some(choice.parse().expect("a choice")));
    let begins = end / 4;
    let changes = std::env::var("CUT").map_or(Vec::new(), |text| cut(&text, &links));
    let run =
        |flows: Vec<Flow>| Trial { seed, links: links.clone(), flows, changes: changes.clone(), end }.run();
    let show = |name: &str, outcome: &Outcome| {
        let mbit = outcome.goodput(begins, end) / 1e6;
        print!(
            "{name:<8} {mbit:8.3} Mbit/s, twice {:4}, overrun {:4};",
            outcome.reader.duplicates, outcome.reader.overruns
        );
        for path in &outcome.sender.paths {
            print!(
                " [{:.1} MB, again {}, t/o {}, undone {}, srtt {:.0} ms, cwnd {} kB]",
                path.bytes_sent as f64 / 1e6,
                path.retransmitted_chunks,
                path.timeouts,
                path.undone,
                path.srtt.unwrap_or_default().as_secs_f64() * 1e3,
                path.cwnd / 1000
            );
        }
        println!();
        if std::env::var_os("SECONDS").is_some() {
            let seconds: Vec<String> = outcome
                .windows
                .chunks(10)
                .map(|second| format!("{:.1}", second.iter().sum::<u64>() as f64 * 8e-6))
                .collect();
            println!("         {}", seconds.join(" "));
        }
        mbit
    };
    if shared {
        let flows =
            vec![Flow { config: several, over: vec![0; 2] }, Flow { config: config.clone(), over: vec![0] }];
        let outcomes = run(flows);
        let [ours, other] =
            [0, 1].map(|nth| show(if nth == 0 { "several" } else { "beside" }, &outcomes[nth]));
        println!(
            "share {:.3} of what one has of two: {:.3}",
            ours / (ours + other),
            2.0 * ours / (ours + other)
        );
        return;
    }
    let alone: Vec<f64> = (0..links.len())
        .map(|link| show("alone", &run(vec![Flow { config: config.clone(), over: vec![link] }])[0]))
        .collect();
    let all = show("several", &run(vec![Flow { config: several, over: (0..links.len()).collect() }])[0]);
    let (best, sum) = (alone.iter().copied().fold(0.0, f64::max), alone.iter().sum::<f64>());
    println!("buffer {buffer}: {:.3} of the better alone, {:.3} of the sum", all / best, all / sum);
}
