//! How fast ADaLR-R grows beyond the peer's window, and how far (P3-C09, P3-C11, P3-C13).
//!
//! The reconstruction has two parameters that the paper does not give: k, the growth beyond the peer's window in ρ segments a
//! round trip, and the round trip to which ρ refers, which decides how far it grows. Figure 5 is run again for each pair.
//!
//! Published: nothing. Ours: `braidlab check P3-C09`.

use std::time::Duration;

use braidftp_sim::apps::bulk::Protocol;

use super::download::Download;
use super::{COLUMNS, DELAY_MS, Network, SIZES, settings, stack};
use crate::data::Data;
use crate::figure::{Axis, Figure, Kind, Point, Row, Runs, Sweep, Value};
use crate::plot::Plot;
use crate::stats::short;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/growth",
    shows: "ADaLR-R: growth beyond the peer's window",
    caption: "P3, Figure 5 for ADaLR-R, by k, the growth beyond the peer's window in ρ segments a round trip, and by the round trip to which ρ \
              refers, which limits this growth.",
    settings: &|| settings(&["workload: one file", "adalr: with rtt-ref and k as the axes say"]),
    kind: Kind::Sweep(Sweep {
        axes: &[REFERENCE, SIZES, K],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|point| point.number("size") <= 50e6,
        paired: &["rtt-ref", "k"],
        columns: COLUMNS,
        runs: Runs::PAPER,
        run: &run,
        plot: Plot::lines("size", "throughput", "kB/s, throughput of TCP").by("k").facet("rtt-ref"),
    }),
};

const REFERENCE: Axis = Axis {
    name: "rtt-ref",
    label: "ms, to which ρ refers",
    values: &[Value::Number(200.0), Value::Number(250.0), Value::Number(300.0)],
    show: &|value| format!("ρ = RTT / {value} ms"),
};

const K: Axis = Axis {
    name: "k",
    label: "k",
    values: &[
        Value::Number(0.01),
        Value::Number(0.02),
        Value::Number(0.03),
        Value::Number(0.05),
        Value::Number(0.1),
        Value::Number(0.2),
        Value::Number(1.0),
    ],
    show: &|value| format!("k = {value}"),
};

/// What each k makes of a column from 50 MB to a larger file, and of the throughput beside NewReno's, in a sentence.
pub(super) fn told(data: &Data, column: &str, bytes: &str) -> String {
    let (table, newreno) = (data.table(FIGURE.id), data.table("adalr/fig5"));
    let each = |k: &str| {
        let at = |bytes: &str| table.at(&format!("rtt-ref=300 size={bytes} k={k}"));
        let percent = |value: f64| short(100.0 * (value - 1.0));
        let rises = at(bytes).mean(column).mean / at("50000000").mean(column).mean;
        let more = at("500000000").mean("throughput").mean
            / newreno.at("size=500000000 variant=newreno").mean("throughput").mean;
        format!("k = {k}: {} and {}", percent(rises), percent(more))
    };
    format!(
        "Only k decides (adalr/growth), with the same limit of the growth (ρ = RTT / 300 ms): % by which it rises, and % by which throughput exceeds \
         NewReno's with 500 MB: {}",
        ["0.01", "0.02", "0.03", "0.05", "0.1", "0.2", "1"].map(each).join("; ")
    )
}

fn run(point: &Point, _: u64) -> Row {
    let mut config = stack("adalr");
    let params = &mut config.congestion_options.adalr;
    params.rtt_ref = Duration::from_millis(point.number("rtt-ref") as u64);
    params.k_thousandths = (point.number("k") * 1e3).round() as u32;
    let links = Network::lossless(DELAY_MS).links();
    let protocol = Protocol::Tcp(config.into());
    Download { protocol, bytes: point.number("size") as u64, links, seed: 1 }.run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers;

    #[test]
    fn with_the_parameters_of_adalr_it_is_adalr() {
        let sweep = FIGURE.sweep().expect("it is a sweep");
        let at = |point: &&Point| {
            (point.number("rtt-ref"), point.number("k"), point.number("size")) == (300.0, 1.0, 500e3)
        };
        let points = sweep.points();
        let row = (sweep.run)(points.iter().find(at).expect("it is a point"), 1);
        let sweep = papers::figure("adalr/fig5").and_then(Figure::sweep).expect("it is a sweep");
        let points = sweep.points();
        let its = |point: &&Point| point.name("variant") == "adalr" && point.number("size") == 500e3;
        assert_eq!(row, (sweep.run)(points.iter().find(its).expect("it is a point"), 1));
    }
}
