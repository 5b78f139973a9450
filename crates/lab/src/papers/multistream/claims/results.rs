//! Claims of P2 about Figures 6, 7 and 8 (section 5.2).

use super::{FIGURES, SIZES, THREE, everywhere, within};
use crate::claim::{Claim, Finding, Holds, Measured};
use crate::data::Data;
use crate::papers::fcs::{changes, fewer};
use crate::papers::ftp::{LAN, SATELLITE};
use crate::papers::judge::{
    ALL_LOSSES, Bound, Compared, Everywhere, LOSSES, and, cell, number, places, ratios, series, waits,
};
use crate::stats::{self, Estimate, short};

/// Claims 16 to 43.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "P2-C16",
        says: "at 0 % loss TCP and SCTP-naive are almost identical, except that SCTP is about 10 % slower for 10K by satellite",
        needs: &["multistream/fig6", "multistream/fig7", "multistream/fig8", "multistream/handshake"],
        check: |data| {
            let mut same = everywhere(data, &SIZES, &["0"], "naive", "tcp");
            same.retain(|compared| !compared.place.contains("satellite 10 KB"));
            let same =
                Everywhere { what: "time of naive : TCP", bound: Bound::Between(0.95, 1.05), remark: "" }
                    .judge(&same);
            let slower = Everywhere {
                what: "time of naive : TCP, 10 KB by satellite",
                bound: Bound::Between(1.05, 1.15),
                remark: "",
            }
            .judge(&within(data, 2, &["10000"], &["0"], "naive", "tcp"));
            let table = data.table("multistream/handshake");
            let at = |path: &str, variant: &str, column: &str| {
                table.at(&format!("path={path} variant={variant}")).mean(column).mean
            };
            let more = |column: &str| short(1e3 * (at("wan", "naive", column) - at("wan", "tcp", column)));
            let by_path = |of: &str, to: &str| {
                let ratio = |path: &&str| short(at(path, of, "seconds") / at(path, to, "seconds"));
                ["lan", "wan", "sat"].iter().map(ratio).collect::<Vec<_>>().join(", ")
            };
            let remark = format!(
                "Almost identical is within a twentieth. By the packets of a run coast to coast, a file of 10 KB takes naive {} ms longer: its \
                 set-up {} ms, a round trip more; its data {} ms, for RFC 2960 begins with two packets and BSD with four; its end {} ms, for \
                 SHUTDOWN leaves when the last SACK is here, and FIN with the last segment. Naive : TCP on LAN, coast to coast and by \
                 satellite is {}; with three packets to begin with (RFC 4960) {}; against the one packet of a BSD whose peer is in another \
                 network {}, which for the two long paths is what the paper saw. Data beside COOKIE ECHO saves no time ({}): nothing more may \
                 leave until COOKIE ACK, so the first window is one packet and does not grow",
                more("seconds"),
                more("setup"),
                more("data"),
                more("end"),
                by_path("naive", "tcp"),
                by_path("naive-3", "tcp"),
                by_path("naive", "tcp-1"),
                by_path("naive-with-data", "tcp"),
            );
            let both = and(same, slower);
            let why = format!("{}. {remark}", both.why);
            Finding { why, ..both }
        },
    },
    Claim {
        id: "P2-C17",
        says: "with loss, 10K: SCTP-naive is consistently slower than TCP",
        needs: THREE,
        check: |data| {
            let remark = at_three_percent(data, "10000", &["naive", "tcp"]);
            Everywhere { what: "time of naive : TCP, 10 KB", bound: Bound::Above(1.0), remark: &remark }
                .judge(&everywhere(data, &["10000"], &LOSSES, "naive", "tcp"))
        },
    },
    Claim {
        id: "P2-C18",
        says: "with loss, 50K to 1M: SCTP-naive is consistently faster than TCP",
        needs: THREE,
        check: |data| {
            let remark = at_three_percent(data, "50000", &["naive", "tcp"]);
            Everywhere {
                what: "time of naive : TCP, 50 KB to 1 MB",
                bound: Bound::Below(1.0),
                remark: &remark,
            }
            .judge(&everywhere(data, &SIZES[1..], &LOSSES, "naive", "tcp"))
        },
    },
    Claim {
        id: "P2-C19",
        says: "the relative gain of SCTP-naive grows with the file size",
        needs: THREE,
        check: |data| monotone(data, "TCP : naive", "tcp", "naive", Trend::Grows),
    },
    Claim {
        id: "P2-C20",
        says: "cause: 4 legs of set-up and not 3: half a round trip more, more exposure to loss (4:3), an initial RTO of 3 s",
        needs: &["multistream/fig6"],
        check: |data| {
            // Both round trips of SCTP's handshake are exposed, one of TCP's: E = RTO f / (1 - 2f), f = 1 -
            // (1-p)^2 each.
            let table = data.table("multistream/fig6");
            let mut compared = Vec::new();
            for loss in ["0.06", "0.1"] {
                let p: f64 = loss.parse().expect("it is a number");
                let exposed = 1.0 - (1.0 - p) * (1.0 - p);
                let expected = 100.0 * 3.0 * exposed / (1.0 - 2.0 * exposed);
                let place = format!("size=10000 loss={loss}");
                let (naive, tcp) = (
                    cell(table, &place, "naive").expect("the figure has it"),
                    cell(table, &place, "tcp").expect("the figure has it"),
                );
                let difference = naive.minus(&tcp, "seconds");
                let by = 1.0 / expected;
                let ratio = Estimate {
                    mean: difference.mean * by,
                    low: difference.low * by,
                    high: difference.high * by,
                    ..difference
                };
                compared.push(Compared { place: format!("LAN 10 KB {loss}"), ratio });
            }
            Everywhere {
                what: "naive - TCP : what a second exposed round trip with an RTO of 3 s costs",
                bound: Bound::Between(0.5, 1.5),
                remark: "The expectation is 100 RTO f / (1 - 2f) with f = 1 - (1 - p)^2: it explains the difference if both are of one size. \
                         Beside it stands that a new association knows no round trip until data was acknowledged: what is lost of its first \
                         packets, and its SHUTDOWN, waits 3 s too.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P2-C21",
        says: "a 10K file is about 7 PDUs",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "10,000 bytes are 6.9 chunks of 1452 bytes, 7 packets, and 10,240 are 7.05, 8 packets: the paper's K is 1000, as it is here. \
                 Counted: crates/sim/src/apps/ftp/tests.rs, ten_kilobytes_are_seven_packets",
            )
        },
    },
    Claim {
        id: "P2-C22",
        says: "cause: 4 missing reports and not 3 duplicate acknowledgements, with windows of 3 to 4 packets",
        needs: &["multistream/reports"],
        check: |data| {
            let table = data.table("multistream/reports");
            Everywhere {
                what: "time of naive with 4 reports : with 3, 10 KB",
                bound: Bound::Above(1.0),
                remark: "Nothing but the number of missing reports differs.",
            }
            .judge(&ratios(
                table,
                "LAN",
                &places(&["10000"], &["0.03", "0.06", "0.1"]),
                "four",
                "three",
            ))
        },
    },
    Claim {
        id: "P2-C23",
        says: "Limited Transmit, which SCTP has, may make the fourth report insignificant",
        needs: &["multistream/reports"],
        check: |data| {
            let table = data.table("multistream/reports");
            Everywhere {
                what: "time of naive with 4 reports : with 3",
                bound: Bound::Between(0.95, 1.05),
                remark: "Insignificant is within a twentieth; with files of 10 KB there is often no new data to send on a report.",
            }
            .judge(&ratios(table, "LAN", &places(&["10000", "200000"], &["0.03", "0.06", "0.1"]), "four", "three"))
        },
    },
    Claim {
        id: "P2-C24",
        says: "(6) LAN, 100 x 1M, 10 %: SCTP-naive is four times faster than TCP",
        needs: &["multistream/fig6", "fcs/changes", fewer::ID],
        check: |data| {
            let remark = format!(
                "Here {}. {}. {}.",
                waits(data.table("multistream/fig6"), "size=1000000 loss=0.1", &["tcp", "naive"]),
                changes::told(data),
                fewer::told(data)
            );
            Everywhere { what: "time of TCP : naive", bound: Bound::Between(3.5, 4.5), remark: &remark }
                .judge(&within(data, 0, &["1000000"], &["0.1"], "tcp", "naive"))
        },
    },
    Claim {
        id: "P2-C25",
        says: "cause: TCP lacks Limited Transmit, byte counting and SACK; with them TCP and naive should be similar at all loss rates",
        needs: &["multistream/tcp"],
        check: |data| {
            let table = data.table("multistream/tcp");
            let cells = places(&["200000", "1000000"], &ALL_LOSSES);
            let before = ratios(table, "LAN", &places(&["1000000"], &["0.1"]), "newreno-bsd46", "sctp");
            let after = ratios(table, "LAN", &places(&["1000000"], &["0.1"]), "sack+lt+abc", "sctp");
            let remark = format!(
                "Similar is within a quarter, for 200 KB and 1 MB. 1 MB at 10 %: {} without them, {} with them",
                before[0].ratio, after[0].ratio
            );
            Everywhere {
                what: "time of TCP with SACK, LT and ABC : naive",
                bound: Bound::Between(0.75, 1.33),
                remark: &remark,
            }
            .judge(&ratios(table, "LAN", &cells, "sack+lt+abc", "sctp"))
        },
    },
    Claim {
        id: "P2-C26",
        says: "MS against naive: gains are larger for small files",
        needs: THREE,
        check: |data| monotone(data, "naive : MS", "naive", "ms", Trend::Falls),
    },
    Claim {
        id: "P2-C27",
        says: "MS against naive: gains are larger on the LAN than by satellite",
        needs: THREE,
        check: |data| {
            let sizes = ["10000", "50000", "200000"];
            let lan = within(data, 0, &sizes, &LOSSES, "naive", "ms");
            let satellite = within(data, 2, &sizes, &LOSSES, "naive", "ms");
            let compared: Vec<Compared> = lan
                .iter()
                .zip(&satellite)
                .map(|(lan, satellite)| Compared {
                    place: lan.place.replace("LAN ", ""),
                    ratio: stats::quotient(lan.ratio, satellite.ratio),
                })
                .collect();
            Everywhere {
                what: "gain on the LAN : gain by satellite",
                bound: Bound::Above(1.0),
                remark: "The gain is naive's time through MS's; 10, 50 and 200 KB, with loss.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P2-C28",
        says: "MS against naive: no significant gain at 0 % loss on the LAN",
        needs: &["multistream/fig6", "multistream/handshake"],
        check: |data| {
            let remark = format!("Significant is a tenth. {}", parts_on_lan(data));
            Everywhere { what: "time of MS : naive", bound: Bound::Between(0.9, 1.1), remark: &remark }
                .judge(&within(data, 0, &SIZES, &["0"], "ms", "naive"))
        },
    },
    Claim {
        id: "P2-C29",
        says: "MS against naive: no significant gain for 1M files, at any loss, on any path",
        needs: THREE,
        check: |data| {
            let remark =
                format!("Significant is a tenth. {}", at_three_percent(data, "1000000", &["naive", "ms"]));
            Everywhere { what: "time of MS : naive, 1 MB", bound: Bound::Between(0.9, 1.1), remark: &remark }
                .judge(&everywhere(data, &["1000000"], &ALL_LOSSES, "ms", "naive"))
        },
    },
    Claim {
        id: "P2-C30",
        says: "10K with loss: MS takes roughly half the time of naive, at every loss, on every path",
        needs: THREE,
        check: |data| {
            let remark =
                format!("Roughly half is 0.4 to 0.6. {}", at_three_percent(data, "10000", &["naive", "ms"]));
            Everywhere { what: "time of MS : naive, 10 KB", bound: Bound::Between(0.4, 0.6), remark: &remark }
                .judge(&everywhere(data, &["10000"], &LOSSES, "ms", "naive"))
        },
    },
    Claim {
        id: "P2-C31",
        says: "50K with loss: MS is roughly 30 to 40 % faster than naive",
        needs: THREE,
        check: |data| {
            let compared = everywhere(data, &["50000"], &LOSSES, "ms", "naive");
            let remark = format!(
                "30 to 40 % less time, to the nearest 5 %. P2-C33's 20 % for the satellite is outside of it in the paper too. {}",
                at_three_percent(data, "50000", &["naive", "ms"])
            );
            Everywhere {
                what: "time of MS : naive, 50 KB",
                bound: Bound::Between(0.55, 0.75),
                remark: &remark,
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P2-C32",
        says: "(6) 50K on the LAN: MS is about 40 % faster than naive",
        needs: &["multistream/fig6"],
        check: |data| {
            Everywhere {
                what: "time of MS : naive, 50 KB",
                bound: Bound::Between(0.55, 0.65),
                remark: "See P2-C31.",
            }
            .judge(&within(data, 0, &["50000"], &LOSSES, "ms", "naive"))
        },
    },
    Claim {
        id: "P2-C33",
        says: "(8) 50K by satellite: MS is only about 20 % faster than naive",
        needs: &["multistream/fig8"],
        check: |data| {
            Everywhere {
                what: "time of MS : naive, 50 KB",
                bound: Bound::Between(0.75, 0.85),
                remark: "See P2-C31.",
            }
            .judge(&within(data, 2, &["50000"], &LOSSES, "ms", "naive"))
        },
    },
    Claim {
        id: "P2-C34",
        says: "naive has at least 7 more PDUs a file (4 + 3), and so more time-outs",
        needs: &["multistream/fig6"],
        check: |data| {
            let table = data.table("multistream/fig6");
            let pick = |loss: &str, variant: &str| {
                cell(table, &format!("size=10000 loss={loss}"), variant).expect("the figure has it")
            };
            let more = pick("0", "naive").minus(&pick("0", "ms"), "setup_packets");
            let by_file =
                Estimate { mean: more.mean / 101.0, low: more.low / 101.0, high: more.high / 101.0, ..more };
            let timeouts: Vec<Compared> = LOSSES
                .iter()
                .map(|loss| Compared {
                    place: format!("at {loss}"),
                    ratio: pick(loss, "naive").ratio(&pick(loss, "ms"), "timeouts"),
                })
                .collect();
            let timeouts =
                Everywhere { what: "time-outs of naive : MS, 10 KB", bound: Bound::Above(1.0), remark: "" }
                    .judge(&timeouts);
            let pdus = number(
                Bound::AtLeast(7.0),
                "packets of set-up and shutdown that naive has more than MS, a transfer",
                "",
                by_file,
                "100 files and a listing, 10 KB without loss; packets with COOKIE ECHO or shutdown chunks and data count as data",
            );
            and(pdus, timeouts)
        },
    },
    Claim {
        id: "P2-C35",
        says: "a time-out of the least RTO idles about 500 round trips on the LAN, about 3 by satellite",
        needs: &[],
        check: |_| {
            let idle = |path: crate::papers::ftp::Path| 1.0 / (2.0 * path.delay.as_secs_f64());
            Finding::shown_by(format!(
                "arithmetic: an RTO.Min of 1 s is {} times twice the LAN's delay, and {} times twice the satellite's, whose round trip of a full \
                 packet is longer: 298 ms, of which there are 3.4",
                short(idle(LAN)),
                short(idle(SATELLITE)),
            ))
        },
    },
    Claim {
        id: "P2-C36",
        says: "(8) 500K to 1M by satellite: MS is 1 to 2 % slower than naive at some losses",
        needs: &["multistream/fig8"],
        check: |data| {
            let compared = within(data, 2, &["500000", "1000000"], &ALL_LOSSES, "ms", "naive");
            let slower: Vec<&Compared> =
                compared.iter().filter(|compared| compared.ratio.is_above(1.0)).collect();
            let most =
                compared.iter().max_by(|a, b| a.ratio.mean.total_cmp(&b.ratio.mean)).expect("ten cells");
            let why = format!(
                "MS is slower for certain in {} of {} cells, at most {} ({}). The paper puts it down to different patch levels of its SCTP",
                slower.len(),
                compared.len(),
                most.ratio,
                most.place
            );
            let measured = Measured {
                what: format!("time of MS : naive, {}", most.place),
                unit: "x",
                value: most.ratio,
            };
            Finding::decided(Holds::from(!slower.is_empty() && most.ratio.mean <= 1.025), measured, why)
        },
    },
    Claim {
        id: "P2-C37",
        says: "CP improves on MS on all three paths, more for small files",
        needs: THREE,
        check: |data| {
            let faster = Everywhere { what: "time of CP : MS", bound: Bound::Below(1.0), remark: "" }
                .judge(&everywhere(data, &SIZES, &ALL_LOSSES, "ms-cp", "ms"));
            and(faster, monotone(data, "MS : CP", "ms", "ms-cp", Trend::Falls))
        },
    },
    Claim {
        id: "P2-C38",
        says: "(6) LAN, 10K: CP is as much as 8 times faster than MS as loss rises above 2 %",
        needs: &["multistream/fig6"],
        check: |data| {
            let compared = within(data, 0, &["10000"], &LOSSES[1..], "ms", "ms-cp");
            let all: Vec<String> = compared
                .iter()
                .map(|compared| format!("{} {}", compared.place, short(compared.ratio.mean)))
                .collect();
            let most = compared
                .into_iter()
                .max_by(|a, b| a.ratio.mean.total_cmp(&b.ratio.mean))
                .expect("three cells");
            let why = format!("as much as: the largest of {} is to round to 8", all.join(", "));
            number(Bound::Between(7.5, 8.5), format!("time of MS : CP, {}", most.place), "x", most.ratio, why)
        },
    },
    Claim {
        id: "P2-C39",
        says: "(6) LAN, 200K: CP is 30 % better than MS",
        needs: &["multistream/fig6"],
        check: |data| {
            Everywhere {
                what: "time of CP : MS, 200 KB",
                bound: Bound::Between(0.65, 0.75),
                remark: "30 % less time, to the nearest 5 %, where loss is above 2 %: the paper says it in the sentence after P2-C38's.",
            }
            .judge(&within(data, 0, &["200000"], &LOSSES[1..], "ms-cp", "ms"))
        },
    },
    Claim {
        id: "P2-C40",
        says: "1M: the gain of CP is only minimally significant",
        needs: THREE,
        check: |data| {
            Everywhere {
                what: "time of CP : MS, 1 MB",
                bound: Bound::Between(0.9, 1.0),
                remark: "Minimal is up to a tenth.",
            }
            .judge(&everywhere(data, &["1000000"], &ALL_LOSSES, "ms-cp", "ms"))
        },
    },
    Claim {
        id: "P2-C41",
        says: "hypothesis (a): the round trips that CP saves are about constant, whatever the size and the loss",
        needs: THREE,
        check: |data| {
            let mut told = Vec::new();
            let mut saved = Vec::new();
            let mut by_loss = Vec::new();
            for (id, name) in FIGURES {
                let save = |size: &str, loss: &str| {
                    let place = format!("size={size} loss={loss}");
                    let table = data.table(id);
                    cell(table, &place, "ms")
                        .expect("the figure has it")
                        .minus(&cell(table, &place, "ms-cp").expect("the figure has it"), "seconds")
                };
                let sizes: Vec<Estimate> = SIZES.iter().map(|size| save(size, "0")).collect();
                let losses: Vec<Estimate> = ALL_LOSSES.iter().map(|loss| save("10000", loss)).collect();
                told.push(format!(
                    "{name} by size {} s, 10 KB by loss {} s",
                    series(&sizes),
                    series(&losses)
                ));
                saved.push(spread(&sizes));
                by_loss.push(spread(&losses));
            }
            let worst = saved.iter().chain(&by_loss).copied().fold(1.0, f64::max);
            let measured = Measured {
                what: "largest : smallest saving of time".into(),
                unit: "x",
                value: Estimate::exact(worst, 0),
            };
            let why = format!(
                "MS - CP, at 0 % for 10 KB to 1 MB, and for 10 KB from 0 to 10 %: {}. About constant is within a quarter of each other. \
                 Without loss it is so; with loss each packet of SIZE, 213, RETR and 150 that MS sends and waits for may be lost and cost a \
                 time-out of a second or more (P2-C02): LAN, 10 KB, {}",
                told.join("; "),
                waits(data.table("multistream/fig6"), "size=10000 loss=0.1", &["ms", "ms-cp"])
            );
            Finding::decided(Holds::from(worst <= 1.25), measured, why)
        },
    },
    Claim {
        id: "P2-C42",
        says: "hypothesis (b): keeping cwnd between files matters more for small files",
        needs: THREE,
        check: |data| monotone(data, "MS : CP", "ms", "ms-cp", Trend::Falls),
    },
    Claim {
        id: "P2-C43",
        says: "pipelining is no feature of SCTP: FTP over TCP could have it",
        needs: &["multistream/pipelines"],
        check: |data| {
            let table = data.table("multistream/pipelines");
            Everywhere {
                what: "time of TCP, two connections, pipelined : TCP as it is",
                bound: Bound::Below(1.0),
                remark: "10 KB on the LAN.",
            }
            .judge(&ratios(
                table,
                "",
                &places(&["10000"], &ALL_LOSSES)
                    .iter()
                    .map(|place| format!("path=lan {place}"))
                    .collect::<Vec<_>>(),
                "tcp-two-cp",
                "tcp",
            ))
        },
    },
];

/// The waiting times of two variants on the LAN at 3 %, as text.
fn at_three_percent(data: &Data, size: &str, variants: &[&str]) -> String {
    format!(
        "LAN at 3 %: {}.",
        waits(data.table("multistream/fig6"), &format!("size={size} loss=0.03"), variants)
    )
}

/// The parts of the time of a file of 10 KB on the LAN with naive and MS, as text.
fn parts_on_lan(data: &Data) -> String {
    let table = data.table("multistream/handshake");
    let part = |column: &str| {
        let of = |variant: &str| table.at(&format!("path=lan variant={variant}")).mean(column).mean;
        short(1e3 * (of("naive") - of("ms")))
    };
    format!(
        "By the packets of a run, a file of 10 KB takes naive {} ms longer than MS: asking {}, set-up {}, data {}, end {} ms.",
        part("seconds"),
        part("asking"),
        part("setup"),
        part("data"),
        part("end")
    )
}

/// The change of a gain with the file size.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trend {
    Grows,
    Falls,
}

/// Decides whether a gain changes monotonically from the smallest files to the largest, on each path and at
/// each loss, in its geometric mean over the losses.
fn monotone(data: &Data, what: &str, of: &str, to: &str, trend: Trend) -> Finding {
    let mut all = true;
    let mut told = Vec::new();
    let mut shown = None;
    for (id, name) in FIGURES {
        let table = data.table(id);
        let gain = |size: &&str| {
            let ratios = ratios(table, name, &places(&[size], &LOSSES), of, to);
            let logs: Vec<f64> = ratios.iter().map(|compared| compared.ratio.mean.ln()).collect();
            let half: f64 =
                ratios.iter().map(|compared| compared.ratio.relative().powi(2)).sum::<f64>().sqrt();
            let mean = stats::mean(&logs).mean.exp();
            let half = mean * half / logs.len() as f64;
            let runs = ratios.iter().map(|compared| compared.ratio.runs).min().unwrap_or(0);
            Estimate { mean, low: mean - half, high: mean + half, runs }
        };
        let mut gains: Vec<Estimate> = SIZES.iter().map(gain).collect();
        let text = series(&gains);
        if trend == Trend::Falls {
            gains.reverse();
        }
        let is_so = crate::papers::judge::grows(&gains);
        all &= is_so;
        told.push(format!("{name} {text}{}", if is_so { "" } else { " (not)" }));
        let change = stats::quotient(gains[gains.len() - 1], gains[0]);
        if shown.is_none_or(|shown: Estimate| change.mean < shown.mean) {
            shown = Some(change);
        }
    }
    let which = match trend {
        Trend::Grows => "gain for 1 MB : gain for 10 KB, least of three paths",
        Trend::Falls => "gain for 10 KB : gain for 1 MB, least of three paths",
    };
    let value = shown.expect("three figures");
    let measured = Measured { what: format!("{what}: {which}"), unit: "x", value };
    let why =
        format!("{what} for 10, 50, 200, 500 KB, 1 MB, geometric means over the losses: {}", told.join("; "));
    Finding::decided(Holds::from(all), measured, why)
}

/// The ratio of the largest to the smallest.
fn spread(values: &[Estimate]) -> f64 {
    let low = values.iter().map(|value| value.mean).fold(f64::INFINITY, f64::min);
    let high = values.iter().map(|value| value.mean).fold(f64::NEG_INFINITY, f64::max);
    if low > 0.0 { high / low } else { f64::INFINITY }
}
