//! How fast ADaLR-R grows beyond the peer's window, and how far (P3-C09, P3-C11, P3-C13).
//!
//! The reconstruction has two parameters that the paper does not give: k, the growth beyond the peer's window in ρ segments a
//! round trip, and the round trip to which ρ refers, which decides how far it grows. Figure 5 is run again for each pair.
//!
//! A prediction ([`predicted`]): the window grows from 44 segments by kρ in a round trip, up to 44ρ.
//!
//! Published: nothing. Ours: `braidlab check P3-C09`. With k = 0.1 alone P3-C09, P3-C13 and the 75 % of P3-C11 are true together.

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

/// The values of k, as they are written.
const KS: [&str; 7] = ["0.01", "0.02", "0.03", "0.05", "0.1", "0.2", "1"];

/// Predicts by which factor the rate of a file exceeds that of 50 MB, if nothing counts but how the window grows beyond the peer's.
fn predicted(k: f64, bytes: f64) -> f64 {
    let rho = RTT_MS / 300.0;
    let rate = |bytes: f64| {
        let (mut window, mut left, mut trips) = (SEGMENTS, bytes / 1_460.0, 0.0);
        while left > 0.0 {
            trips += (left / window).min(1.0);
            left -= window;
            window = (window + k * rho).min(SEGMENTS * rho);
        }
        bytes / trips
    };
    rate(bytes) / rate(50e6)
}

/// What each k makes of a column from 50 MB to a larger file, and of the throughput beside NewReno's, in sentences. `claimed` are the least
/// rise and the least and the most of the throughput that the paper claims.
pub(super) fn told(data: &Data, column: &str, bytes: &str, claimed: (f64, [f64; 2])) -> String {
    let (table, newreno) = (data.table(FIGURE.id), data.table("adalr/fig5"));
    let mut fits = Vec::new();
    let mut each = |k: &str| {
        let at = |bytes: &str| table.at(&format!("rtt-ref=300 size={bytes} k={k}"));
        let percent = |value: f64| short(100.0 * (value - 1.0));
        let rises = at(bytes).mean(column).mean / at("50000000").mean(column).mean;
        let more = at("500000000").mean("throughput").mean
            / newreno.at("size=500000000 variant=newreno").mean("throughput").mean;
        let (least, [from, to]) = claimed;
        if rises >= least && (from..=to).contains(&more) {
            fits.push(k.to_owned());
        }
        let number = |text: &str| text.parse().unwrap_or(f64::NAN);
        let expected = predicted(number(k), number(bytes));
        format!("k = {k}: {} ({}) and {}", percent(rises), percent(expected), percent(more))
    };
    let told = KS.map(&mut each).join("; ");
    let fits = match fits.is_empty() {
        true => "no k".to_owned(),
        false => format!("k = {}", fits.join(", ")),
    };
    format!(
        "Only k decides (adalr/growth), with the same limit of the growth (ρ = RTT / 300 ms): % by which it rises, in parentheses as the growth of the \
         window alone predicts it, and % by which throughput exceeds NewReno's with 500 MB: {told}. Both as claimed, a rise and about 75 % (P3-C11), are \
         true with {fits}"
    )
}

/// The RTT of the satellite in ms, and the segments of NewReno's window.
const RTT_MS: f64 = 527.0;
const SEGMENTS: f64 = 44.0;

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
    fn the_predicted_rise_is_that_of_a_window_that_grows_linearly_up_to_a_limit() {
        // With k = 0.1 the window is at its limit after 190 round trips and 11,500 of 34,247 segments.
        let by_hand = (342_466.0 / (190.0 + 330_966.0 / 77.3)) / (34_247.0 / (190.0 + 22_747.0 / 77.3));
        let rise = predicted(0.1, 500e6);
        assert!((rise - by_hand).abs() < 0.005, "{rise} {by_hand}");
        assert!(predicted(1.0, 500e6) < 1.01 && predicted(0.01, 500e6) > 1.3);
        assert_eq!(predicted(0.1, 50e6), 1.0);
    }

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
