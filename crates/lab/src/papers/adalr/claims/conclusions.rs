//! Claims of P3 about ADaLR itself, and its conclusions (sections 4 to 6).

use super::{SATELLITE_RTT, SIZES, percents, ratios};
use crate::claim::{Claim, Finding};
use crate::papers::judge::{Bound, Compared, Everywhere, and, number};
use crate::stats::{Estimate, short};
use crate::table::Cell;

/// Claims 18 to 23.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "P3-C18",
        says: "it changes the sender alone, with minimal overhead of processing and memory",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "what it keeps and does for an acknowledgement is in crates/cc/src/adalr.rs: five numbers, some products. But of the sender alone \
                 it is only while nothing is missing: a receiver that keeps to its window then drops what lies beyond, see \
                 what_lies_beyond_the_window_is_sent_and_taken_by_the_model_alone in crates/tcp/src/tests/windows.rs",
            )
        },
    },
    Claim {
        id: "P3-C19",
        says: "ADaLR sends additional segments in each round trip",
        needs: &["adalr/fig5"],
        check: |data| {
            let table = data.table("adalr/fig5");
            let a_round_trip = |cell: Cell<'_>| {
                let rtt: f64 = SATELLITE_RTT.parse().expect("it is a number");
                let scale = (rtt + 7.5) / 1_460.0;
                let Estimate { mean, low, high, runs } = cell.mean("throughput");
                Estimate { mean: mean * scale, low: low * scale, high: high * scale, runs }
            };
            let at = |variant: &str| a_round_trip(table.at(&format!("size=500000000 variant={variant}")));
            let newreno = at("newreno");
            let why = format!(
                "{} a round trip of 527 ms by NewReno, and {} by ADaLR with k = 0.05, in the mean of 500 MB",
                short(newreno.mean),
                short(at("adalr-slow").mean)
            );
            number(Bound::Above(newreno.high), "segments a round trip of ADaLR, 500 MB", "", at("adalr"), why)
        },
    },
    Claim {
        id: "P3-C20",
        says: "the mechanism of rwnd acts when cwnd exceeds rwnd and what is unacknowledged does not exceed rwnd",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "it is the condition of cc::adalr::Extension, crates/cc/src/adalr.rs: \
                 nothing_lies_beyond_a_window_that_cwnd_does_not_fill_or_over_a_short_path, \
                 it_goes_beyond_the_peers_window_by_k_rho_segments_a_round_trip_up_to_rho_windows. Read to the letter it gives some segments more and \
                 no more, 5 %; for what the figures show, what was allowed before must count with rwnd, and so it does here",
            )
        },
    },
    Claim {
        id: "P3-C21",
        says: "of a large file most is sent in congestion avoidance",
        needs: &["adalr/fig4"],
        check: |data| {
            let table = data.table("adalr/fig4");
            let at = |size: &str| table.at(&format!("size={size} variant=newreno"));
            let share = at("500000").ratio(&at("50000000"), "seconds");
            let why = "slow start ends at ssthresh, 65,535 bytes, before 200 kB are through: the whole time of 500 kB is more than all of \
                       it. Most is more than half, so no more than 0.5 may be before";
            number(Bound::NotAbove(0.5), "time of 500 kB : time of 50 MB, NewReno", "x", share, why)
        },
    },
    Claim {
        id: "P3-C22",
        says: "ADaLR scales with the size of the file, and is viable for large files over long delays without loss",
        needs: &["adalr/fig5"],
        check: |data| {
            let table = data.table("adalr/fig5");
            let compared = ratios(table, "size", &SIZES, "throughput", "adalr", "newreno");
            let remark = format!(
                "% more from 500 kB to 500 MB: {}. Where the window is scaled as hosts do it, there is nothing left to gain: see adalr/sctp",
                percents(&compared)
            );
            Everywhere { what: "throughput of ADaLR : NewReno", bound: Bound::Above(1.0), remark: &remark }
                .judge(&compared)
        },
    },
    Claim {
        id: "P3-C23",
        says: "it helps small and moderate files too, and recovers faster from errors than NewReno and SACK",
        needs: &["adalr/latency", "adalr/errors"],
        check: |data| {
            let latency = data.table("adalr/latency");
            let mut small = Vec::new();
            for size in ["100000", "500000", "5000000"] {
                let at = |variant: &str| latency.at(&format!("acks=each size={size} variant={variant}"));
                let ratio = at("adalr").ratio(&at("newreno"), "seconds");
                small.push(Compared { place: super::place("size", size), ratio });
            }
            let small = Everywhere { what: "time of ADaLR : NewReno", bound: Bound::Below(1.0), remark: "" }
                .judge(&small);
            let errors = data.table("adalr/errors");
            let rates = ["0.0000001", "0.000001", "0.00001"];
            let mut compared = ratios(errors, "ber", &rates, "throughput", "adalr", "newreno");
            compared.extend(ratios(errors, "ber", &rates, "throughput", "adalr-sack", "sack"));
            let recovers = Everywhere {
                what: "throughput of ADaLR : NewReno, and with SACK, by bit error rate",
                bound: Bound::Above(1.0),
                remark: "",
            }
            .judge(&compared);
            and(small, recovers)
        },
    },
];
