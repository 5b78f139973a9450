//! FAST over a queue, round trip by round trip: readable tables kept beside this file. `UPDATE_SNAPSHOTS=1
//! cargo test -p braidftp-cc` rewrites them.
//!
//! The path carries 10 packets per millisecond and has an RTT of 100 ms: 1000 packets are in transit, and the
//! rest is in the queue. In each round every source has its window acknowledged packet by packet; all see the
//! queue that their windows make together.

mod kept;

use std::fmt::Write;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::fast::Params;
use braidftp_cc::{Ack, Cause, Congestion, Controller, InitialWindow, Kind, Options};
use kept::compare;

const MTU: usize = 1_000;
const WAY: Duration = Duration::from_millis(100);
const PACKET: Duration = Duration::from_micros(100);
const ON_THE_WAY: usize = 1_000;

/// An event at the beginning of a round.
#[derive(Clone, Copy)]
enum Happens {
    Begins(usize),
    Ends(usize),
    Loses(usize),
    TimesOut(usize),
}

struct Bottleneck {
    now: Time,
    sources: Vec<Option<Box<dyn Controller>>>,
    queue: usize,
}

impl Bottleneck {
    fn happens(&mut self, params: Params, what: Happens) {
        let (now, mtu) = (self.now, MTU);
        let mut congestion = |number: usize, cause| {
            let source = self.sources[number].as_mut().expect("it has begun");
            let flight_bytes = source.window();
            source.on_congestion(Congestion { cause, now, flight_bytes, mtu });
        };
        match what {
            Happens::Begins(number) => {
                let options =
                    Options { fast: params, initial_window: InitialWindow::Tcp, ..Options::default() };
                self.sources[number] = Some(Kind::Fast.build_with(options, MTU));
            }
            Happens::Ends(number) => self.sources[number] = None,
            Happens::Loses(number) => congestion(number, Cause::Loss),
            Happens::TimesOut(number) => congestion(number, Cause::Timeout),
        }
    }

    /// One round trip: the packets sent meet the current queue, and their acknowledgements are evenly spaced.
    fn round(&mut self) {
        let windows: Vec<usize> =
            self.sources.iter().map(|source| source.as_ref().map_or(0, |its| its.window() / MTU)).collect();
        let all: usize = windows.iter().sum();
        self.queue = all.saturating_sub(ON_THE_WAY);
        let rtt = WAY + PACKET * self.queue as u32;
        for (source, window) in self.sources.iter_mut().zip(&windows) {
            let Some(source) = source else { continue };
            for nth in 1..=*window {
                source.on_ack(Ack {
                    now: self.now + rtt * nth as u32 / *window as u32,
                    bytes: MTU,
                    gap_bytes: 0,
                    regained_bytes: 0,
                    flight_before: source.window(),
                    mtu: MTU,
                    rtt: Some(rtt),
                    cross_path_age: None,
                    srtt: Some(rtt),
                    cum_advanced: true,
                    in_recovery: false,
                    siblings: &[],
                });
            }
        }
        self.now += rtt;
    }
}

/// A table of the sources' windows; the first rounds one by one, then every `every`-th.
fn table(params: Params, rounds: u32, every: u32, script: &[(u32, Happens)]) -> String {
    let count = script.iter().filter(|(_, what)| matches!(what, Happens::Begins(_))).count();
    let mut path = Bottleneck { now: Time::ZERO, sources: (0..count).map(|_| None).collect(), queue: 0 };
    let mut out = format!("fast ({params}): 1000 packets on the way, 100 ms, 10 packets a millisecond\n");
    write!(out, "{:>5}  {:>8}{:>8}", "round", "s", "queue").unwrap();
    (0..count).for_each(|number| write!(out, "{:>9}", format!("cwnd {}", number + 1)).unwrap());
    out.push('\n');
    for round in 0..=rounds {
        let mut told = String::new();
        for (_, what) in script.iter().filter(|(at, _)| *at == round) {
            path.happens(params, *what);
            let text = match what {
                Happens::Begins(number) => format!("  {} begins", number + 1),
                Happens::Ends(number) => format!("  {} ends", number + 1),
                Happens::Loses(number) => format!("  {} loses a packet", number + 1),
                Happens::TimesOut(number) => format!("  {} times out", number + 1),
            };
            told.push_str(&text);
        }
        if round <= 16 || round % every == 0 || !told.is_empty() {
            write!(out, "{round:>5}  {:>8.3}{:>8}", path.now.as_secs_f64(), path.queue).unwrap();
            for source in &path.sources {
                let window = source
                    .as_ref()
                    .map_or(String::new(), |its| format!("{:.1}", its.window() as f64 / MTU as f64));
                write!(out, "{window:>9}").unwrap();
            }
            writeln!(out, "{told}").unwrap();
        }
        path.round();
    }
    out
}

#[test]
fn one_source_keeps_alpha_packets_in_the_queue() {
    use Happens::{Begins, Loses, TimesOut};
    let script = [(0, Begins(0)), (60, Loses(0)), (100, TimesOut(0))];
    compare("fast-one", &table(Params::default(), 160, 5, &script));
}

#[test]
fn the_papers_equation_alone() {
    let mut params = Params::default();
    for (name, value) in [("increases", "at-once"), ("average", "paper"), ("period", "0ms")] {
        params.set(name, value).unwrap();
    }
    compare("fast-paper", &table(params, 100, 5, &[(0, Happens::Begins(0))]));
}

/// Two sources; the second starts late and mistakes the first's queue for propagation delay. Then the first
/// leaves.
const LATE: [(u32, Happens); 3] =
    [(0, Happens::Begins(0)), (130, Happens::Begins(1)), (700, Happens::Ends(0))];

#[test]
fn a_late_source_has_more_than_its_share() {
    compare("fast-late", &table(Params::default(), 800, 50, &LATE));
}

#[test]
fn a_refresh_of_the_base_equalizes_the_shares() {
    let mut params = Params::default();
    params.set("refresh", "10s").unwrap();
    compare("fast-refresh", &table(params, 800, 20, &LATE));
}
