//! Targets of multipath transfer, and whether they are reached.

use crate::claim::{Claim, Finding, Holds, Measured};
use crate::data::Data;
use crate::papers::judge::{Bound, Compared, Everywhere, and};
use crate::stats::{Estimate, short};
use crate::table::{Cell, Table};

/// All claims, in order.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "M-C01",
        says: "Two equal paths bring 95 % of their sum, with 0 to 3 % lost and buffers that tune themselves",
        needs: &["multipath/equal"],
        check: |data| of_the_sum(data, "multipath/equal", "count=2", 0.95),
    },
    Claim {
        id: "M-C02",
        says: "Three equal paths bring 93 % of their sum, with 0 to 3 % lost",
        needs: &["multipath/equal"],
        check: |data| of_the_sum(data, "multipath/equal", "count=3", 0.93),
    },
    Claim {
        id: "M-C03",
        says: "20 Mbit/s, 10 ms and 5 Mbit/s, 150 ms bring 90 % of their sum",
        needs: &["multipath/dissimilar"],
        check: |data| of_the_sum(data, "multipath/dissimilar", "pair=near-far paths=both", 0.9),
    },
    Claim {
        id: "M-C04",
        says: "50 Mbit/s, 300 ms and 20 Mbit/s, 30 ms with 1 % lost bring 90 % of their sum",
        needs: &["multipath/dissimilar"],
        check: |data| of_the_sum(data, "multipath/dissimilar", "pair=sat paths=both", 0.9),
    },
    Claim {
        id: "M-C05",
        says: "Both paths never bring less than 0.97 of the better one alone: every pair, every buffer from 16 KB up",
        needs: &["multipath/buffer"],
        check: |data| {
            let table = data.table("multipath/buffer");
            let both = table.all("paths=both");
            let compared = both
                .iter()
                .map(|both| against_the_better(table, both, &["first", "second"], "mbps"))
                .collect::<Vec<_>>();
            Everywhere { what: "both paths : the better one alone", bound: Bound::Reaches(0.97), remark: "" }
                .judge(&compared)
        },
    },
    Claim {
        id: "M-C06",
        says: "Through a bottleneck that they share two paths take no more than 1.2 times what one would",
        needs: &["multipath/shared", "multipath/shared-slow"],
        check: |data| {
            let table = data.table("multipath/shared");
            let of = |beside: &str, coupling: &str| {
                let [two, one] = [coupling, "single"].map(|coupling| {
                    table.all(&format!("beside={beside} coupling={coupling}")).into_iter().next()
                });
                Some(two?.ratio(&one?, "taken"))
            };
            let besides = ["own", "reno", "cubic"];
            let slow = data.table("multipath/shared-slow");
            let better = |both: &Cell<'_>| against_the_better(slow, both, &["first", "second"], "taken");
            let compared: Vec<Compared> = besides
                .iter()
                .filter_map(|beside| {
                    Some(Compared { place: format!("beside {beside}"), ratio: of(beside, "default")? })
                })
                .chain(slow.all("paths=both").iter().map(better))
                .collect();
            let others: Vec<String> = ["none", "lia", "olia", "balia", "rpv1", "rpv2"]
                .iter()
                .filter_map(|coupling| {
                    let ratios: Option<Vec<Estimate>> =
                        besides.iter().map(|beside| of(beside, coupling)).collect();
                    Some(format!("{coupling} {}", crate::papers::judge::series(&ratios?)))
                })
                .collect();
            let range = |ratios: Vec<f64>| {
                let low = ratios.iter().copied().fold(f64::INFINITY, f64::min);
                let high = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                format!("{} to {}", short(low), short(high))
            };
            let at = |jitter: &str| {
                let both = slow.all(&format!("jitter={jitter} paths=both"));
                range(both.iter().map(|both| better(both).ratio.mean).collect())
            };
            let [first, second] =
                ["first", "second"].map(|paths| slow.all(&format!("jitter=0 paths={paths}")));
            let alone = first.iter().zip(&second).map(|(first, second)| second.ratio(first, "taken").mean);
            let slowly = format!(
                "At 5 and 10 Mbit/s, through the better path alone: {} with jitter, {} in step, where path 2 alone takes {} of what path 1 does.",
                at("5"),
                at("0"),
                range(alone.collect())
            );
            let remark = format!("Beside own, reno and cubic: {}. {slowly}", others.join("; "));
            let remark = if others.is_empty() { &slowly } else { &remark };
            Everywhere { what: "two paths : one, as they come", bound: Bound::AtMost(1.2), remark }
                .judge(&compared)
        },
    },
    Claim {
        id: "M-C07",
        says: "A path that is cut costs no more than a second at 90 % of what the other brings, in the three seconds that follow",
        needs: &["multipath/failover"],
        check: |data| seconds(data, "cost", 1.0),
    },
    Claim {
        id: "M-C08",
        says: "A path that was cut for ten seconds and is whole again is used within ten",
        needs: &["multipath/failover"],
        check: |data| seconds(data, "back", 10.0),
    },
    Claim {
        id: "M-C09",
        says: "A path that flaps (2 s up, 1 s down) never brings both below 0.95 of the steady one alone",
        needs: &["multipath/flapping"],
        check: |data| {
            let table = data.table("multipath/flapping");
            let both = table.all("paths=both");
            let compared = both
                .iter()
                .map(|both| against_the_better(table, both, &["first"], "mbps"))
                .collect::<Vec<_>>();
            Everywhere { what: "both paths : the steady one alone", bound: Bound::Reaches(0.95), remark: "" }
                .judge(&compared)
        },
    },
    Claim {
        id: "M-C10",
        says: "Fibre with ADSL and low with geostationary orbit bring 90 % of their sum; LTE with Wi-Fi 0.97 of the better alone at least",
        needs: &["multipath/dissimilar", "multipath/traces"],
        check: |data| {
            let table = data.table("multipath/traces");
            let both = table.all("paths=both");
            let compared = both
                .iter()
                .map(|both| against_the_better(table, both, &["first", "second"], "mbps"))
                .collect::<Vec<_>>();
            let radio = Everywhere {
                what: "LTE and Wi-Fi : the better alone",
                bound: Bound::Reaches(0.97),
                remark: "",
            }
            .judge(&compared);
            let fibre = of_the_sum(data, "multipath/dissimilar", "pair=fibre-adsl paths=both", 0.9);
            let orbits = of_the_sum(data, "multipath/dissimilar", "pair=leo-geo paths=both", 0.9);
            and(and(fibre, orbits), radio)
        },
    },
    Claim {
        id: "M-C11",
        says: "No remedy and no scheduler of the literature brings more than the default by over a twentieth",
        needs: &["multipath/remedies", "multipath/schedulers"],
        check: |data| {
            let compare = |figure: &str, axis: &str| {
                let table = data.table(figure);
                let default = table.all(&format!("{axis}=default"));
                let compared: Vec<Compared> = default
                    .iter()
                    .map(|default| {
                        let place = place(default, &[axis]);
                        let others = table.all(&selector(default, &[axis]));
                        let ratios = others.iter().map(|other| default.ratio(other, "mbps"));
                        let ratio = ratios
                            .min_by(|a, b| a.mean.total_cmp(&b.mean))
                            .expect("the default itself is one");
                        Compared { place, ratio }
                    })
                    .collect();
                let what = format!("the default : the best {axis}");
                Everywhere { what: &what, bound: Bound::Reaches(0.95), remark: "" }.judge(&compared)
            };
            and(compare("multipath/remedies", "remedy"), compare("multipath/schedulers", "scheduler"))
        },
    },
];

/// Decides whether this fraction of the sum is reached in each of these cells, after the beginning.
fn of_the_sum(data: &Data, figure: &str, selector: &str, least: f64) -> Finding {
    let cells = data.table(figure).all(selector);
    let compared: Vec<Compared> =
        cells.iter().map(|cell| Compared { place: place(cell, &[]), ratio: cell.mean("share") }).collect();
    let whole = cells.iter().map(|cell| cell.mean("whole").mean).fold(f64::INFINITY, f64::min);
    let remark = format!("From the first INIT on it is {} at least.", short(whole));
    Everywhere {
        what: "user data : what the wires could bring",
        bound: Bound::Reaches(least),
        remark: &remark,
    }
    .judge(&compared)
}

/// The goodput or the time of both paths compared with the better of these single paths, at the same point.
fn against_the_better(table: &Table, both: &Cell<'_>, alone: &[&str], column: &str) -> Compared {
    let place_of = selector(both, &["paths"]);
    let alone = alone.iter().flat_map(|paths| table.all(&format!("{place_of} paths={paths}")));
    let better = alone.max_by(|a, b| a.mean(column).mean.total_cmp(&b.mean(column).mean));
    let better = better.unwrap_or_else(|| panic!("`{place_of}` has no path alone"));
    Compared { place: place(both, &["paths"]), ratio: both.ratio(&better, column) }
}

/// Decides whether at most this many seconds are needed with the default, whichever path fails.
fn seconds(data: &Data, column: &'static str, most: f64) -> Finding {
    let cells = data.table("multipath/failover").all("policy=default");
    let mean = |cell: &Cell<'_>| cell.mean(column);
    let worst =
        cells.iter().max_by(|a, b| mean(a).mean.total_cmp(&mean(b).mean)).expect("the default was run");
    let told: Vec<String> = cells
        .iter()
        .map(|cell| format!("{}: {} s", place(cell, &["policy"]), short(mean(cell).mean)))
        .collect();
    let holds = Holds::from(cells.iter().all(|cell| mean(cell).mean <= most));
    let measured = Measured { what: place(worst, &["policy"]), unit: "s", value: mean(worst) };
    Finding::decided(holds, measured, format!("{}; to be {most} s or less", told.join("; ")))
}

/// The selector of a cell without these axes, for [`Table::all`].
fn selector(cell: &Cell<'_>, but: &[&str]) -> String {
    let places = cell.point().places().iter().filter(|(axis, _)| !but.contains(axis));
    places.map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(" ")
}

/// A cell without these axes, as text.
fn place(cell: &Cell<'_>, but: &[&str]) -> String {
    let places = cell.point().places().iter().filter(|(axis, _)| !but.contains(axis));
    places.map(|(axis, value)| format!("{axis} {value}")).collect::<Vec<_>>().join(", ")
}
