//! Beyond the paper: the parts of a file's time without loss, from the packets of a run, and the effect of
//! two parameters that the paper does not give (P2-C05, C16, C28): the initial window, and whether the first
//! data of a new association is bundled with COOKIE ECHO.
//!
//! ```text
//! asking   from the end of the previous file until the server executes RETR: EPRT, 200, RETR (SIZE, 213, RETR)
//! set-up   from there to the first packet with data: SYN and SYN ACK; INIT, INIT ACK, COOKIE ECHO and COOKIE ACK
//! data     from there until the last byte arrives: the windows of slow start
//! end      from there until the client knows that the file is complete
//! ```
//! Published: naive 10 % slower than TCP by satellite, and alike elsewhere. Ours, ms a file, on LAN, coast to
//! coast, by satellite: tcp 35.5 345 1254; tcp-1 140 590 1860; naive 40.0 557 1964; naive-3 40.0 486 1760;
//! naive-with-data 42.1 568 2057; ms 32.7 261 947. Coast to coast in parts: tcp asking 107.7, set-up 71.8,
//! data 165.4, end 0; naive 107.3, 143.7, 235.1, 70.7; naive-with-data 107.3, 72.9, 317.6, 70.7; ms 107.1, 0,
//! 153.4, 0. Reason for the differences: see Figure 7. Compared with a TCP whose initial window is one
//! packet, as in FreeBSD for a peer in another network, naive takes 0.94 of the time coast to coast and 1.06
//! by satellite, which agrees with the paper. But then each first segment waits 100 ms for its delayed
//! acknowledgement on the LAN too, which does not agree. Data bundled with COOKIE ECHO saves a round trip of
//! set-up and loses it again: no other packet may be sent before COOKIE ACK (RFC 9260 section 5.1), so the
//! first flight is one packet, which does not fill the window and so does not increase it, and the seven
//! packets of a file take four rounds and not three.

use std::num::NonZeroU8;

use braidftp_cc::InitialWindow;
use braidftp_sim::apps::ftp::{End, Handshake, Outcome, Pdu, Purpose};

use super::session;
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Runs, Sweep, Value};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/handshake",
    shows: "Where the time of a file of 10 KB goes, without loss",
    caption: "The time of a file, without loss: TCP, with the first window of four packets that FreeBSD had for peers of its own network, and \
              with the one packet that it had for others; SCTP-naive, with the two packets of RFC 2960, with the three of RFC 4960, and with \
              its first data beside COOKIE ECHO (RFC 2960 section 5.1); and SCTP-MS. Its table has the parts: asking, set-up, \
              data, end.",
    settings: &|| {
        ["lan", "wan", "sat"]
            .iter()
            .flat_map(|name| super::settings(ftp::path(name)).into_iter().take(1))
            .collect()
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            ftp::PATHS,
            Axis {
                name: "variant",
                label: "variant",
                values: &[
                    Value::Name("tcp"),
                    Value::Name("tcp-1"),
                    Value::Name("naive"),
                    Value::Name("naive-3"),
                    Value::Name("naive-with-data"),
                    Value::Name("ms"),
                ],
                show: &|value| match value {
                    Value::Name("tcp-1") => "TCP, first window of 1".to_owned(),
                    Value::Name("naive-3") => "SCTP-naive, of 3".to_owned(),
                    Value::Name("naive-with-data") => "SCTP-naive, data with COOKIE ECHO".to_owned(),
                    other => super::variant(other),
                },
            },
        ],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|_| true,
        paired: &["variant"],
        columns: &[
            Column { name: "seconds", unit: "s, a file, mean of all but the first" },
            Column { name: "asking", unit: "s of it" },
            Column { name: "setup", unit: "s of it" },
            Column { name: "data", unit: "s of it" },
            Column { name: "end", unit: "s of it" },
            Column { name: "setup_of_names", unit: "s from when the server acts on NLST to the first data" },
        ],
        runs: Runs { max: 2, ..Runs::PAPER },
        run: &run,
        plot: Plot::bars("variant", "seconds", "seconds, a file").facet("path"),
    }),
};

fn run(point: &Point, seed: u64) -> Row {
    let variant = point.name("variant");
    let plain = match variant {
        "tcp-1" => "tcp",
        "naive-3" | "naive-with-data" => "naive",
        other => other,
    };
    let place = Point::new(vec![
        ("size", Value::Number(10_000.0)),
        ("loss", Value::Number(0.0)),
        ("variant", Value::Name(plain)),
    ]);
    let mut session = session(ftp::path(point.name("path")), &place, seed);
    session.files.truncate(FILES);
    session.watch.packets = true;
    match variant {
        "tcp-1" => session.tcp.congestion_options.initial_window = InitialWindow::Mtus(NonZeroU8::MIN),
        "naive-3" => session.sctp.congestion.options.initial_window = InitialWindow::Tcp,
        "naive-with-data" => session.handshake = Handshake::WithData,
        _ => {}
    }
    parts(&session.run())
}

/// The number of files in a run; all are alike.
const FILES: usize = 10;

/// The parts of each file's time, from the packets.
fn parts(outcome: &Outcome) -> Row {
    assert!(outcome.failed.is_none(), "{}", outcome.failed.as_deref().unwrap_or_default());
    let pdus: Vec<Pdu> = outcome.transcript().into_iter().filter(|pdu| pdu.from == End::Server).collect();
    let is_data = |pdu: &&Pdu| pdu.purpose == Purpose::Data;
    let is_act = |pdu: &&Pdu| is_data(pdu) || pdu.says == "INIT" || pdu.says == "SYN";
    let done: Vec<_> = outcome.files.iter().map(|file| file.done.expect("no file failed")).collect();
    let mut sums = [0.0; 5];
    for pair in done.windows(2) {
        let its = || pdus.iter().filter(|pdu| pdu.sent >= pair[0] && pdu.sent < pair[1]);
        let acts = its().find(is_act).expect("the server acts").sent;
        let first = its().find(is_data).expect("a file has data").sent;
        let last = its().filter(is_data).filter_map(|pdu| pdu.arrived).max().expect("nothing is lost");
        let ends = [pair[0], acts, first, last, pair[1]];
        sums[0] += pair[1].since(pair[0]).as_secs_f64();
        for (sum, part) in sums[1..].iter_mut().zip(ends.windows(2)) {
            *sum += part[1].since(part[0]).as_secs_f64();
        }
    }
    let mut row: Vec<f64> = sums.iter().map(|sum| sum / (done.len() - 1) as f64).collect();
    let acts = pdus.iter().find(is_act).expect("the server acts").sent;
    let first = pdus.iter().find(is_data).expect("names are data").sent;
    row.push(first.since(acts).as_secs_f64());
    Row(row)
}
