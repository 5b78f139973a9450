//! Beyond the paper: a hundred files with braid, unprotected and protected by the DTLS chunk, from the
//! client's first packet on.
//!
//! Published: nothing. Target: a round trip for the TLS handshake, and 25 of 1,480 bytes per packet. Ours,
//! seconds unprotected and protected: without loss 4.82 4.89 at 3 Mbit/s, 10.8 11.0 at 1 Mbit/s, 36.1 36.9 at
//! 256 kbit/s; at 10 % 5.00 5.09, 11.5 12.0, 39.1 40.6. Without loss the first byte of a file arrives 11, 32
//! and 126 ms later: less than a round trip, except on the local path, whose RTT of 2 ms is shorter than the
//! transmission time of the handshake.

use braidftp_sctp as sctp;
use braidftp_sim::apps::ftp::Session;

use super::QUEUE;
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::ftp::{self, PATHS, Path};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/protected",
    shows: "100 files of 10 KB by braid, in the clear and protected",
    caption: "The time from the client's first packet to the last file's end, by what each way loses. Protected: TLS 1.3 for DTLS in SCTP, \
              AES-128-GCM, X25519MLKEM768.",
    settings: &|| {
        let link =
            |path: &Path| format!("{}, each way: {}", path.name, path.link(QUEUE, ftp::bernoulli(0.0)));
        let mut lines: Vec<_> = [ftp::LAN, ftp::WAN, ftp::SATELLITE].iter().map(link).collect();
        lines.push("sctp: profile modern with an MTU of 1480; mode braid".to_owned());
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[PATHS, ftp::LOSS, PROTECTION],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.name("path") == "lan",
        paired: &["protection"],
        columns: &[
            Column { name: "seconds", unit: "s, from the client's first packet" },
            Column { name: "first", unit: "s, to the first byte of a file" },
        ],
        runs: Runs::PAPER,
        run: &|point, seed| {
            let path = ftp::path(point.name("path"));
            let paths = vec![path.both(QUEUE, ftp::bernoulli(point.number("loss")))];
            let session = ftp::session("braid", vec![10_000; 100], paths, seed);
            let dtls = (point.name("protection") == "protected").then(sctp::DtlsConfig::default);
            let sctp = session.sctp.clone().with(|c| c.security.dtls = dtls);
            let outcome = Session { sctp, ..session }.run();
            assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
            let first = outcome.files.iter().filter_map(|file| file.first_byte).min();
            let first = first.map_or(f64::NAN, |at| at.as_nanos() as f64 / 1e9);
            Row(vec![outcome.since_started.as_secs_f64(), first])
        },
        plot: Plot::lines("loss", "seconds", "seconds, 100 files").by("protection").facet("path").log_y(),
    }),
};

/// Whether packets are protected.
const PROTECTION: Axis = Axis {
    name: "protection",
    label: "packets",
    values: &[Value::Name("plain"), Value::Name("protected")],
    show: &|value| if *value == Value::Name("plain") { "in the clear".to_owned() } else { value.to_string() },
};
