//! Claims about ADaLR beyond P3, from the abstracts of the M.A.Sc. thesis and of the papers of WICON 2007 and
//! OPNETWORK 2007.

use super::{largest, percents, ratios};
use crate::claim::{Claim, Finding, Holds, Measured};
use crate::papers::judge::{Bound, Compared, Everywhere, and};
use crate::stats::short;
use crate::table::Table;

/// All bit error rates.
const RATES: [&str; 5] = ["0.000000001", "0.00000001", "0.0000001", "0.000001", "0.00001"];

/// ADaLR-X1 to X5.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "ADaLR-X1",
        says: "with error losses up to 61 % more throughput and up to 76 % more utilisation",
        needs: &["adalr/errors"],
        check: |data| up_to(data.table("adalr/errors"), &[("throughput", 1.61), ("utilisation", 1.76)]),
    },
    Claim {
        id: "ADaLR-X2",
        says: "with congestion alone it performs comparably to NewReno and SACK",
        needs: &["adalr/congestion"],
        check: |data| {
            let table = data.table("adalr/congestion");
            let compare = |of: &str, to: &str| {
                let at = |variant: &str| table.at(&format!("variant={variant}"));
                Compared { place: format!("{of} : {to}"), ratio: at(of).ratio(&at(to), "throughput") }
            };
            let dropped = |variant: &str| short(table.at(&format!("variant={variant}")).mean("dropped").mean);
            let remark = format!(
                "Comparable is within a tenth. The gateway drops {} packets of ADaLR's and {} of NewReno's: by a clock of 0.5 s most queues do \
                 not show, and their losses are taken for errors",
                dropped("adalr"),
                dropped("newreno")
            );
            Everywhere {
                what: "throughput of ADaLR : without",
                bound: Bound::Between(0.9, 1.1),
                remark: &remark,
            }
            .judge(&[compare("adalr", "newreno"), compare("adalr-sack", "sack")])
        },
    },
    Claim {
        id: "ADaLR-X3",
        says: "with congestion and error losses up to 43 % more goodput and throughput",
        needs: &["adalr/both"],
        check: |data| up_to(data.table("adalr/both"), &[("throughput", 1.43)]),
    },
    Claim {
        id: "ADaLR-X4",
        says: "better fairness than NewReno's, friendly, end to end",
        needs: &["adalr/fair"],
        check: |data| {
            let table = data.table("adalr/fair");
            let at = |flows: &str, variant: &str| table.at(&format!("flows={flows} variant={variant}"));
            let fairer = ["4", "8"].map(|flows| Compared {
                place: format!("{flows} flows"),
                ratio: at(flows, "adalr").ratio(&at(flows, "newreno"), "jain"),
            });
            let fairer = Everywhere {
                what: "Jain's index of ADaLR : NewReno",
                bound: Bound::AtLeast(1.0),
                remark: "",
            }
            .judge(&fairer);
            let shares = ["4", "8"].map(|flows| Compared {
                place: format!("{flows} flows"),
                ratio: at(flows, "mixed").mean("share"),
            });
            let told: Vec<String> = ["4", "8"]
                .iter()
                .map(|flows| {
                    let jain = |variant: &str| short(at(flows, variant).mean("jain").mean);
                    format!(
                        "{flows} flows: NewReno {}, ADaLR {}, mixed {}",
                        jain("newreno"),
                        jain("adalr"),
                        jain("mixed")
                    )
                })
                .collect();
            let remark = format!(
                "Friendly is at least half of the fair share. By a clock of 0.5 s ADaLR sees no queue, takes the losses of one for errors, and gives way \
                 by less than NewReno; where it times each segment NewReno gets {} and {}. Jain's index, {}",
                at("4", "mixed-timed").mean("share"),
                at("8", "mixed-timed").mean("share"),
                told.join("; ")
            );
            let friendly = Everywhere {
                what: "what NewReno gets beside as many ADaLR, of the fair share",
                bound: Bound::AtLeast(0.5),
                remark: &remark,
            }
            .judge(&shares);
            and(fairer, friendly)
        },
    },
    Claim {
        id: "ADaLR-X5",
        says: "the lowest latency of HTTP and FTP on the ideal channel, with and without delayed acknowledgements",
        needs: &["adalr/latency"],
        check: |data| {
            let table = data.table("adalr/latency");
            let mut compared = Vec::new();
            for acks in ["each", "delayed"] {
                for size in ["10000", "100000", "500000", "5000000"] {
                    let at = |variant: &str| table.at(&format!("acks={acks} size={size} variant={variant}"));
                    let ratio = at("adalr").ratio(&at("newreno"), "seconds");
                    compared
                        .push(Compared { place: format!("{acks} {}", super::place("size", size)), ratio });
                }
            }
            Everywhere {
                what: "time of ADaLR : NewReno",
                bound: Bound::NotAbove(1.0),
                remark: "Lowest is no longer anywhere. SRTT is 1.5 s in this TCP until it has been measured for some round trips, so that ρ \
                         begins with 5: that is what pages gain by.",
            }
            .judge(&compared)
        },
    },
];

/// Decides gains of "up to" a number: each must be reached somewhere.
fn up_to(table: &Table, claimed: &[(&str, f64)]) -> Finding {
    let one = |(column, most): &(&str, f64)| {
        let newreno = ratios(table, "ber", &RATES, column, "adalr", "newreno");
        let sack = ratios(table, "ber", &RATES, column, "adalr-sack", "sack");
        let why = format!(
            "% more {column} at 1e-9 to 1e-5: than NewReno {}; than SACK {}. What is claimed is to be reached: {} %",
            percents(&newreno),
            percents(&sack),
            short(100.0 * (most - 1.0))
        );
        let best = largest(newreno.into_iter().chain(sack).collect());
        let what = format!("{column} of ADaLR : without, at {}", best.place);
        // The gain rounds to the claimed number or exceeds it.
        let is_reached = best.ratio.mean >= most - 0.005;
        Finding::decided(Holds::from(is_reached), Measured { what, unit: "x", value: best.ratio }, why)
    };
    claimed.iter().map(one).reduce(and).expect("something is claimed")
}
