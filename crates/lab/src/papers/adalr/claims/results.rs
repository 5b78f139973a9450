//! Claims of P3 about its figures (section 5).

use super::super::growth;
use super::{SIZES, largest, less, means, percents, place, ratios};
use crate::claim::{Claim, Finding, Holds, Measured, Verdict};
use crate::papers::judge::{Bound, Compared, Everywhere, and, but, grows, number, series};
use crate::stats::{Estimate, quotient, short};
use crate::table::Table;

const FIG1: &[&str] = &["adalr/fig1"];
const FIG3: &[&str] = &["adalr/fig3"];
/// The RTTs of Figure 3 up to 200 ms, and the longer ones.
const SHORT: [&str; 4] = ["50", "100", "150", "200"];
const LONG: [&str; 6] = ["300", "400", "520", "800", "1200", "1600"];
/// How the reconstruction explains a difference from the paper's numbers.
const RECONSTRUCTION: &str = "ADaLR is a reconstruction here: with k = 1 it is at its full window after some 20 round trips, \
                              with k = 0.05 after some hundred megabytes";

/// The minimum ratio from 50 MB on for a quantity that is claimed to rise.
const RISES: f64 = 1.05;
/// What "75 % higher" is taken for: 70 to 80.
const MOST: [f64; 2] = [1.70, 1.80];

/// Claims 1 to 17.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "P3-C01",
        says: "(1) throughput is rwnd / RTT, and falls with the round trip",
        needs: FIG1,
        check: |data| {
            let table = data.table("adalr/fig1");
            let rtts = ["10", "20", "50", "100", "200", "300", "400", "500", "600"];
            let falls = means(table, "rtt", &rtts, "throughput", "measured")
                .windows(2)
                .all(|pair| pair[1].mean < pair[0].mean);
            let remark = format!(
                "It {} from each round trip to the next. A window of 65,535 bytes holds 44 whole segments, 98 % of it",
                if falls { "falls" } else { "does not fall" }
            );
            let same = Everywhere {
                what: "measured : rwnd / RTT",
                bound: Bound::Between(0.95, 1.0),
                remark: &remark,
            }
            .judge(&ratios(table, "rtt", &rtts, "throughput", "measured", "formula"));
            if falls { same } else { but(Verdict::DoesNotHold, same) }
        },
    },
    Claim {
        id: "P3-C02",
        says: "(1) 100 Mbit/s and 500 ms let through about 1.3 Mbit/s",
        needs: FIG1,
        check: |data| {
            let table = data.table("adalr/fig1");
            let at = |variant: &str| table.at(&format!("rtt=500 variant={variant}")).mean("throughput");
            let why = format!(
                "64 KB in 500 ms are {} Mbit/s by the paper's own formula (P3-C01), which is what is accepted here: 1.0 to 1.1; \
                 1.3 is no number that a window of 64 KB can give",
                short(at("formula").mean)
            );
            number(Bound::Between(1.0, 1.1), "throughput at 500 ms", "Mbit/s", at("measured"), why)
        },
    },
    Claim {
        id: "P3-C03",
        says: "(3) for all variants response time rises noticeably once the delay exceeds 200 ms",
        needs: FIG3,
        check: |data| {
            let table = data.table("adalr/fig3");
            let rise = |variant: &str, from: &str, to: &str| {
                let at = |rtt: &str| table.at(&format!("rtt={rtt} variant={variant}"));
                Compared { place: variant.to_owned(), ratio: at(to).ratio(&at(from), "seconds") }
            };
            let variants = ["newreno", "sack", "adalr", "adalr-sack", "adalr-slow"];
            let below: Vec<_> = variants.iter().map(|variant| rise(variant, "50", "200")).collect();
            let above: Vec<_> = variants.iter().map(|variant| rise(variant, "200", "800")).collect();
            let far: Vec<String> = variants
                .iter()
                .map(|variant| format!("{variant} {}", short(rise(variant, "200", "800").ratio.mean)))
                .collect();
            let flat =
                Everywhere { what: "time at 200 ms : at 50 ms", bound: Bound::NotAbove(1.05), remark: "" }
                    .judge(&below);
            let remark = format!(
                "Noticeable is a tenth. Times as long at 800 ms: {}. The knee is where 64 KB no longer fill 2 Mbit/s: at 264 ms of round trip",
                far.join(", ")
            );
            let rises =
                Everywhere { what: "time at 800 ms : at 200 ms", bound: Bound::Above(1.1), remark: &remark }
                    .judge(&above);
            and(flat, rises)
        },
    },
    Claim {
        id: "P3-C04",
        says: "(3) for round trips below 200 ms all variants perform comparably",
        needs: FIG3,
        check: |data| {
            Everywhere {
                what: "time of ADaLR : NewReno",
                bound: Bound::Between(0.95, 1.05),
                remark: "Comparable is within a twentieth; 200 ms is counted in.",
            }
            .judge(&ratios(
                data.table("adalr/fig3"),
                "rtt",
                &SHORT,
                "seconds",
                "adalr",
                "newreno",
            ))
        },
    },
    Claim {
        id: "P3-C05",
        says: "(3) for round trips above 200 ms ADaLR takes 5.5 % to 75 % less time",
        needs: FIG3,
        check: |data| {
            let table = data.table("adalr/fig3");
            let compared = ratios(table, "rtt", &LONG, "seconds", "adalr", "newreno");
            let slow = ratios(table, "rtt", &LONG, "seconds", "adalr-slow", "newreno");
            let gains: Vec<f64> = compared.iter().map(|compared| 1.0 - compared.ratio.mean).collect();
            let grows = gains.windows(2).all(|pair| pair[1] > pair[0]);
            let (first, last) = (gains[0], gains[gains.len() - 1]);
            let why = format!(
                "% less at 300, 400, 520, 800, 1200, 1600 ms: {}; with k = 0.05 {}. Which round trips the paper has is not in its text, so what is \
                 asked is that the gain grows with the round trip and goes through all that is claimed. 75 % less needs 1.06 s even of a full link",
                less(&compared),
                less(&slow)
            );
            let holds = grows && first > 0.0 && first <= 0.055 && last >= 0.745;
            let value = compared[compared.len() - 1].ratio;
            let measured = Measured { what: "time of ADaLR : NewReno, 1600 ms".into(), unit: "x", value };
            Finding::decided(Holds::from(holds), measured, why)
        },
    },
    Claim {
        id: "P3-C06",
        says: "(4) response time grows with the size of the file for all",
        needs: &["adalr/fig4"],
        check: |data| {
            let table = data.table("adalr/fig4");
            let variants = ["newreno", "sack", "adalr", "adalr-sack", "adalr-slow", "highspeed", "scalable"];
            let all = variants.iter().all(|variant| grows(&means(table, "size", &SIZES, "seconds", variant)));
            let adalr = means(table, "size", &SIZES, "seconds", "adalr");
            let why = format!(
                "seconds from 500 kB to 500 MB: NewReno {}; ADaLR {}",
                series(&means(table, "size", &SIZES, "seconds", "newreno")),
                series(&adalr)
            );
            let value = *adalr.last().expect("there are sizes");
            let measured = Measured { what: "time of ADaLR, 500 MB".into(), unit: "s", value };
            Finding::decided(Holds::from(all), measured, why)
        },
    },
    Claim {
        id: "P3-C07",
        says: "(4) ADaLR takes 9 % to 38 % less time over 260 ms",
        needs: &["adalr/fig4"],
        check: |data| {
            let compared = ratios(data.table("adalr/fig4"), "size", &SIZES, "seconds", "adalr", "newreno");
            let remark = format!(
                "% less from 500 kB to 500 MB: {}. 75 % more throughput (P3-C11) is 43 % less time, and 38 % less is 61 % more: both cannot be so",
                less(&compared)
            );
            let finding = Everywhere {
                what: "time of ADaLR : NewReno",
                bound: Bound::Between(0.615, 0.915),
                remark: &remark,
            }
            .judge(&compared);
            but(Verdict::Contradicts("P3-C11"), finding)
        },
    },
    Claim {
        id: "P3-C08",
        says: "without loss ADaLR with NewReno is ADaLR with SACK, and NewReno is SACK",
        needs: &["adalr/fig4"],
        check: |data| {
            let table = data.table("adalr/fig4");
            let mut compared = ratios(table, "size", &SIZES, "seconds", "adalr-sack", "adalr");
            compared.extend(ratios(table, "size", &SIZES, "seconds", "sack", "newreno"));
            compared.extend(ratios(table, "size", &SIZES, "seconds", "highspeed", "newreno"));
            compared.extend(ratios(table, "size", &SIZES, "seconds", "scalable", "newreno"));
            Everywhere {
                what: "time with SACK : without",
                bound: Bound::Between(0.999, 1.001),
                remark: "HighSpeed and Scalable are counted in: where rwnd is what ends the window, they are NewReno, too. The same is \
                         within a thousandth: the option that asks for SACK takes 4 bytes of both SYNs.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P3-C09",
        says: "(5) ADaLR's throughput of TCP rises from 50 to 500 MB",
        needs: &["adalr/fig5", growth::FIGURE.id],
        check: |data| {
            let table = data.table("adalr/fig5");
            let (fast, slow) = (rise(table, "throughput", "adalr"), rise(table, "throughput", "adalr-slow"));
            let why = format!(
                "to rise is by a twentieth or more: NewReno's rises by {} %, since the start counts for less. ADaLR's rises by {} %, with k = 0.05 by {} %; kB/s {} and {}. {RECONSTRUCTION}. {}",
                short(100.0 * (rise(table, "throughput", "newreno").mean - 1.0)),
                short(100.0 * (fast.mean - 1.0)),
                short(100.0 * (slow.mean - 1.0)),
                series(&means(table, "size", &SIZES[1..], "throughput", "adalr")),
                series(&means(table, "size", &SIZES[1..], "throughput", "adalr-slow")),
                growth::told(data, "throughput", "500000000", (RISES, MOST))
            );
            number(Bound::AtLeast(RISES), "throughput of ADaLR, 500 MB : 50 MB", "x", fast, why)
        },
    },
    Claim {
        id: "P3-C10",
        says: "(5) NewReno's throughput is unchanged from 50 to 500 MB",
        needs: &["adalr/fig5"],
        check: |data| {
            let table = data.table("adalr/fig5");
            let why = format!(
                "kB/s {}. Unchanged is within a fiftieth",
                series(&means(table, "size", &SIZES[1..], "throughput", "newreno"))
            );
            let value = rise(table, "throughput", "newreno");
            number(Bound::Between(0.98, 1.02), "throughput of NewReno, 500 MB : 50 MB", "x", value, why)
        },
    },
    Claim {
        id: "P3-C11",
        says: "(5, abstract) ADaLR's throughput is 9 % to 75 % higher, and 75 % at 500 MB",
        needs: &["adalr/fig5"],
        check: |data| {
            let table = data.table("adalr/fig5");
            let compared = ratios(table, "size", &SIZES, "throughput", "adalr", "newreno");
            let slow = ratios(table, "size", &SIZES, "throughput", "adalr-slow", "newreno");
            let last = compared.last().expect("there are sizes").ratio;
            let remark = format!(
                "% more from 500 kB to 500 MB: {}; with k = 0.05 {}. No window can give more than 101 %: then the link is full. About 75 % is \
                 70 to 80, and the least of all sizes is not to be below 9",
                percents(&compared),
                percents(&slow)
            );
            let range = Everywhere {
                what: "throughput of ADaLR : NewReno",
                bound: Bound::Between(1.085, 1.80),
                remark: "",
            }
            .judge(&compared);
            let most = number(
                Bound::Between(MOST[0], MOST[1]),
                "throughput of ADaLR : NewReno, 500 MB",
                "x",
                last,
                remark,
            );
            and(range, most)
        },
    },
    Claim {
        id: "P3-C12",
        says: "(6, 7) utilisation is lowest for 500 kB, for both",
        needs: &["adalr/fig7"],
        check: |data| {
            let table = data.table("adalr/fig7");
            let mut compared = Vec::new();
            for variant in ["newreno", "adalr"] {
                let all = means(table, "size", &SIZES, "utilisation", variant);
                for (size, of) in SIZES.iter().zip(&all).skip(1) {
                    let ratio = quotient(all[0], *of);
                    compared.push(Compared { place: format!("{variant} {}", place("size", size)), ratio });
                }
            }
            Everywhere { what: "utilisation with 500 kB : with more", bound: Bound::Below(1.0), remark: "" }
                .judge(&compared)
        },
    },
    Claim {
        id: "P3-C13",
        says: "(6, 7) ADaLR's link throughput and utilisation rise for sizes up to 400 MB",
        needs: &["adalr/fig7", "adalr/fig5", growth::FIGURE.id],
        check: |data| {
            let table = data.table("adalr/fig7");
            let rising = means(table, "size", &SIZES[..6], "utilisation", "adalr");
            let slow = means(table, "size", &SIZES[..6], "utilisation", "adalr-slow");
            let value = quotient(rising[5], rising[1]);
            let what = "utilisation with 400 MB : with 50 MB, ADaLR";
            let why = format!(
                "% of 2 Mbit/s from 500 kB to 400 MB: {}; with k = 0.05 {}. {RECONSTRUCTION}. {}",
                series(&rising),
                series(&slow),
                growth::told(data, "utilisation", "400000000", (RISES, MOST))
            );
            number(Bound::AtLeast(RISES), what, "x", value, why)
        },
    },
    Claim {
        id: "P3-C14",
        says: "(6, 7) NewReno's link throughput and utilisation fall very slightly above 50 MB",
        needs: &["adalr/fig7", "adalr/intervals"],
        check: |data| {
            let table = data.table("adalr/fig7");
            let intervals = data.table("adalr/intervals");
            let falls = |seen: &str| -> Vec<f64> {
                let phases = ["0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5"];
                let by_phase = phases.map(|phase| {
                    let of = |size: &str| {
                        intervals
                            .at(&format!("size={size} seen={seen} phase={phase}"))
                            .mean("utilisation")
                            .mean
                    };
                    of("500000000") / of("50000000") - 1.0
                });
                by_phase.map(|rise| 100.0 * rise).into()
            };
            // A window more or less at the ends of the intervals within 50 MB, in % of what they hold.
            let used = table.at("size=50000000 variant=newreno").mean("utilisation").mean / 100.0;
            let seconds = 50e6 * 8.0 * 1_500.0 / 1_460.0 / (used * 2e6);
            let within = ((seconds - 10.0) / 5.0).floor() * 5.0 * 2e6 * used;
            let edge = 100.0 * 44.0 * 1_500.0 * 8.0 / within;
            let told = |seen: &str| {
                let rises = falls(seen);
                let least = rises.iter().copied().fold(f64::INFINITY, f64::min);
                let most = rises.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let down = rises.iter().filter(|rise| **rise < 0.0).count();
                format!(
                    "falls in {down} of {} phases of the intervals ({} to {} %)",
                    rises.len(),
                    short(least),
                    short(most)
                )
            };
            let why = format!(
                "% of 2 Mbit/s from 50 to 500 MB: {}. Where rwnd holds the window there is nothing in congestion avoidance that could make it \
                 fall, and the start counts for less the longer the file. As the mean of all intervals of 5 s, as OPNET reports, it {}; as the mean of those \
                 after the start and before the end it {} (adalr/intervals). There only the ends of the intervals are left: with 50 MB they hold a window of 44 \
                 packets more or less, so that -{edge} to {edge} % are predicted, and the time at which the first interval begins decides whether it falls",
                series(&means(table, "size", &SIZES[1..], "utilisation", "newreno")),
                told("all"),
                told("within"),
                edge = short(edge)
            );
            let value = rise(table, "utilisation", "newreno");
            number(Bound::Below(1.0), "utilisation of NewReno, 500 MB : 50 MB", "x", value, why)
        },
    },
    Claim {
        id: "P3-C15",
        says: "(7) rwnd holds NewReno's utilisation at about 50 %",
        needs: &["adalr/fig7"],
        check: |data| {
            let table = data.table("adalr/fig7");
            let value = table.at("size=500000000 variant=newreno").mean("utilisation");
            let why = "44 segments of 1500 bytes in a round trip of 527 ms; about 50 % is 48 to 52";
            number(Bound::Between(48.0, 52.0), "utilisation of NewReno, 500 MB", "%", value, why)
        },
    },
    Claim {
        id: "P3-C16",
        says: "(7, text) ADaLR's link throughput and utilisation are 57 % to 90 % higher",
        needs: &["adalr/fig7"],
        check: |data| {
            let table = data.table("adalr/fig7");
            let compared = ratios(table, "size", &SIZES, "utilisation", "adalr", "newreno");
            let slow = ratios(table, "size", &SIZES, "utilisation", "adalr-slow", "newreno");
            let remark = format!(
                "% more from 500 kB to 500 MB: {}; with k = 0.05 {}. The same packets hold the file, so that the link's gain is TCP's: 90 % here \
                 and 75 % there cannot both be so",
                percents(&compared),
                percents(&slow)
            );
            let finding = Everywhere {
                what: "utilisation of ADaLR : NewReno, from 50 MB on",
                bound: Bound::Between(1.565, 1.905),
                remark: &remark,
            }
            .judge(&compared[1..]);
            but(Verdict::Contradicts("P3-C11"), finding)
        },
    },
    Claim {
        id: "P3-C17",
        says: "(6, caption) ADaLR's link throughput is up to 81 % higher",
        needs: &["adalr/fig6"],
        check: |data| {
            let table = data.table("adalr/fig6");
            let most = largest(ratios(table, "size", &SIZES, "link_throughput", "adalr", "newreno"));
            let slow = largest(ratios(table, "size", &SIZES, "link_throughput", "adalr-slow", "newreno"));
            let why = format!(
                "the text of the same figure says up to 90 % (P3-C16). With k = 0.05 it is {} at most",
                short(slow.ratio.mean)
            );
            let what = format!("link throughput of ADaLR : NewReno at most, {}", most.place);
            let finding = number(Bound::Between(1.805, 1.815), what, "x", most.ratio, why);
            but(Verdict::Contradicts("P3-C16"), finding)
        },
    },
];

/// The ratio of a column of a variant with 500 MB to that with 50 MB.
fn rise(table: &Table, column: &str, variant: &str) -> Estimate {
    let at = |size: &str| table.at(&format!("size={size} variant={variant}"));
    at("500000000").ratio(&at("50000000"), column)
}
