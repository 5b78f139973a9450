//! The claims of P1, and how they are decided.

use super::{changes, fewer};
use crate::claim::{Claim, Finding, Holds, Measured, Verdict};
use crate::compare::{Way, judge};
use crate::data::Data;
use crate::papers::judge::{
    ALL_LOSSES, Bound, COOKIE, Compared, Everywhere, LOSSES, and, but, cell, grows, losses, number, places,
    ratios, series, waits,
};
use crate::stats::{self, Estimate, Line, short};
use crate::table::Table;

/// The paper's four figures, with their names.
const FIGURES: [(&str, &str); 4] =
    [("fcs/fig2a", "2a"), ("fcs/fig2b", "2b"), ("fcs/fig3a", "3a"), ("fcs/fig3b", "3b")];
const FOUR: &[&str] = &["fcs/fig2a", "fcs/fig2b", "fcs/fig3a", "fcs/fig3b"];

/// All claims, in order.
pub const ALL: &[&[Claim]] = &[RESULTS, BACKGROUND, FUTURE];

const RESULTS: &[Claim] = &[
    Claim {
        id: "P1-C01",
        says: "SCTP significantly reduces FTP transfer time on the tested paths",
        needs: FOUR,
        check: |data| {
            let remark = format!(
                "Counted are the losses above 0; without loss see P1-C05. {}. {}.",
                without_loss(data),
                at_one_percent(data)
            );
            Everywhere { what: "time of SCTP : TCP", bound: Bound::Below(1.0), remark: &remark }
                .judge(&of_all(data, &LOSSES, "sctp", "tcp"))
        },
    },
    Claim {
        id: "P1-C02",
        says: "FTP over SCTP is more robust to loss",
        needs: FOUR,
        check: |data| {
            let slowdown = |table: &Table, variant: &str| {
                let (bad, good) = (at(table, "0.1", variant), at(table, "0", variant));
                let good = good.mean("seconds").mean;
                scaled(bad.mean("seconds"), 1.0 / good)
            };
            let mut compared = Vec::new();
            let mut told = Vec::new();
            for (id, name) in FIGURES {
                let (sctp, tcp) = (slowdown(data.table(id), "sctp"), slowdown(data.table(id), "tcp"));
                told.push(format!("{name}: SCTP {} and TCP {}", short(sctp.mean), short(tcp.mean)));
                compared.push(Compared { place: name.to_owned(), ratio: stats::quotient(sctp, tcp) });
            }
            Everywhere {
                what: "slowdown from 0 to 10 % of SCTP : TCP",
                bound: Bound::Below(1.0),
                remark: &format!("Times as long at 10 % loss as without: {}.", told.join("; ")),
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P1-C03",
        says: "irrespective of the path configuration SCTP outperforms TCP in total time (Figs 2a, 2b, 3a, 3b)",
        needs: FOUR,
        check: |data| {
            let high = Everywhere { what: "time of SCTP : TCP", bound: Bound::Below(1.0), remark: "" }
                .judge(&of_all(data, &["0.03", "0.06", "0.1"], "sctp", "tcp"));
            let none = of_all(data, &["0"], "sctp", "tcp");
            let none: Vec<String> = none
                .iter()
                .map(|compared| format!("{} {}", compared.place, short(compared.ratio.mean)))
                .collect();
            let why = format!(
                "as it stands it cannot be true together with P1-C05, by which TCP is faster at low loss. At 3 % and above it {}: {}. \
                 Without loss SCTP : TCP is {}",
                if high.verdict == Verdict::Holds { "holds" } else { "does not hold" },
                high.why,
                none.join(", ")
            );
            but(Verdict::Contradicts("P1-C05"), Finding { why, ..high })
        },
    },
    Claim {
        id: "P1-C04",
        says: "the gain of SCTP grows with the loss rate",
        needs: FOUR,
        check: |data| {
            let mut all = true;
            let mut told = Vec::new();
            let mut shown = None;
            for (id, name) in FIGURES {
                let gains = gains(data.table(id));
                all &= grows(&gains);
                told.push(format!("{name}: {} s", series(&gains)));
                shown = shown.or(gains.last().copied());
            }
            let measured = Measured {
                what: "TCP - SCTP, 2a at 10 %".into(),
                unit: "s",
                value: shown.expect("four figures"),
            };
            Finding::decided(
                Holds::from(all),
                measured,
                format!("TCP - SCTP at 0, 1, 3, 6, 10 %: {}", told.join("; ")),
            )
        },
    },
    Claim {
        id: "P1-C05",
        says: "(2a) LAN, 10 x 1 MB, low loss: SCTP takes marginally more time than TCP",
        needs: &["fcs/fig2a"],
        check: |data| {
            let remark = format!(
                "Low are 0 and 1 %, marginal is up to a tenth more. A packet of 1500 bytes has 1452 bytes of a file in SCTP, and 1448 in TCP \
                 with timestamps, so it is not the packets' overhead that could make the difference (P1-C14). At 1 %: {}.",
                waits(data.table("fcs/fig2a"), "loss=0.01", &["sctp", "tcp"])
            );
            Everywhere { what: "time of SCTP : TCP", bound: Bound::Between(1.0, 1.1), remark: &remark }
                .judge(&ratios(data.table("fcs/fig2a"), "2a", &losses(&["0", "0.01"]), "sctp", "tcp"))
        },
    },
    Claim {
        id: "P1-C06",
        says: "(2a) at 10 % loss TCP takes about 350 s more than SCTP",
        needs: &["fcs/fig2a", "fcs/changes", fewer::ID],
        check: |data| {
            let table = data.table("fcs/fig2a");
            let tcp = at(table, "0.1", "tcp");
            let more = tcp.minus(&at(table, "0.1", "sctp"), "seconds");
            let clean = tcp.minus(&at(table, "0.1", "sctp-clean"), "seconds");
            let why = format!(
                "TCP takes {} s and SCTP {} s. About 350 is 300 to 400 here. With a clean second path that catches retransmissions, \
                 as the group later found its testbed had (P2 section 5.1), SCTP takes {} s and TCP {} s more. {}. {}",
                tcp.mean("seconds"),
                at(table, "0.1", "sctp").mean("seconds"),
                at(table, "0.1", "sctp-clean").mean("seconds"),
                clean,
                waits(table, "loss=0.1", &["tcp", "sctp"]),
                changes::told(data)
            );
            let why = format!("{why}. {}", fewer::told(data));
            number(fewer::MORE, "TCP - SCTP, 2a at 10 %", "s", more, why)
        },
    },
    Claim {
        id: "P1-C07",
        says: "(2b) the satellite follows the pattern of 2a: near-equal at small loss; TCP significantly slower at higher loss",
        needs: &["fcs/fig2b"],
        check: |data| {
            let table = data.table("fcs/fig2b");
            close_then_ahead(table, "2b", &["0", "0.01"], &["0.06", "0.1"])
        },
    },
    Claim {
        id: "P1-C08",
        says: "(3a, 3b) 10 x 200 KB: close at low loss, SCTP outperforms as loss rises",
        needs: FOUR,
        check: |data| {
            let lan = close_then_ahead(data.table("fcs/fig3a"), "3a", &["0", "0.01"], &["0.06", "0.1"]);
            let both =
                and(lan, close_then_ahead(data.table("fcs/fig3b"), "3b", &["0", "0.01"], &["0.06", "0.1"]));
            let why = format!("{}. {}", both.why, without_loss(data));
            Finding { why, ..both }
        },
    },
    Claim {
        id: "P1-C09",
        says: "the improvement is directly proportional to the number of files",
        needs: &["fcs/count"],
        check: |data| proportional(data.table("fcs/count"), "count", 1.0, ["files", "a file", ""]),
    },
    Claim {
        id: "P1-C10",
        says: "the improvement is directly proportional to the size of the files",
        needs: &["fcs/size"],
        check: |data| {
            let table = data.table("fcs/size");
            let remark = format!(
                ". What SCTP loses at each file whatever its size is its set-up: 50 KB, {}",
                waits(table, "size=50000", &["sctp", "tcp"])
            );
            proportional(table, "size", 1e-6, ["MB", "a MB of each file", &remark])
        },
    },
    Claim {
        id: "P1-C11",
        says: "the time difference is directly proportional to the path's loss rate",
        needs: &["fcs/loss"],
        check: |data| {
            let table = data.table("fcs/loss");
            let remark = format!(
                ". TCP's time-outs grow faster than the loss, and so does how long each is, since they back off: at 4 % {}; at 8 % {}",
                waits(table, "loss=0.04", &["tcp"]),
                waits(table, "loss=0.08", &["tcp"])
            );
            proportional(table, "loss", 100.0, ["% of loss", "a % of loss", &remark])
        },
    },
    Claim {
        id: "P1-C12",
        says: "SCTP's congestion control is more robust while still conforming to AIMD",
        needs: &["fcs/fig2a", "fcs/fig2b"],
        check: |data| {
            let mut compared = Vec::new();
            for (id, name) in [FIGURES[0], FIGURES[1]] {
                let table = data.table(id);
                for loss in ["0.03", "0.06", "0.1"] {
                    let ratio = at(table, loss, "sctp").ratio(&at(table, loss, "tcp"), "timeouts");
                    compared.push(Compared { place: format!("{name} at {loss}"), ratio });
                }
            }
            Everywhere {
                what: "retransmission time-outs of SCTP : TCP",
                bound: Bound::Below(1.0),
                remark: "That its window grows by one packet a round trip and halves at a loss is shown by the tables of \
                         crates/cc/tests/rounds.rs.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P1-C13",
        says: "at low loss, SCTP's per-packet overhead leads to marginally lower throughput",
        needs: &["fcs/fig2a", "fcs/fig2b"],
        check: |data| {
            let compared: Vec<Compared> = [FIGURES[0], FIGURES[1]]
                .iter()
                .flat_map(|(id, name)| {
                    let table = data.table(id);
                    ["0", "0.01"].map(|loss| Compared {
                        place: format!("{name} at {loss}"),
                        ratio: at(table, loss, "tcp").ratio(&at(table, loss, "sctp"), "seconds"),
                    })
                })
                .collect();
            let finding = Everywhere {
                what: "throughput of SCTP : TCP",
                bound: Bound::Between(0.9, 1.0),
                remark: "The paper's own footnote says that its SCTP has no more overhead than TCP: see P1-C14 for the bytes.",
            }
            .judge(&compared);
            but(Verdict::Contradicts("P1-C14"), finding)
        },
    },
    Claim {
        id: "P1-C14",
        says: "(footnote) KAME's SCTP has no extra per-packet overhead compared with TCP",
        needs: &["fcs/fig2a", "fcs/fig2b"],
        check: |data| {
            let compared: Vec<Compared> = [FIGURES[0], FIGURES[1]]
                .iter()
                .map(|(id, name)| {
                    let table = data.table(id);
                    let ratio = at(table, "0", "sctp").ratio(&at(table, "0", "tcp"), "kilobytes");
                    Compared { place: format!("{name} without loss"), ratio }
                })
                .collect();
            Everywhere {
                what: "bytes on the wire of SCTP : TCP",
                bound: Bound::NotAbove(1.0),
                remark: "All packets, both ways, IP headers included. A full packet has 12 + 16 bytes of headers in SCTP and 20 + 12 in TCP \
                         with timestamps.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P1-C15",
        says: "losing acknowledgements is as common as losing data, but has minimal effect, since they are cumulative",
        needs: &["fcs/reverse"],
        check: |data| {
            let table = data.table("fcs/reverse");
            let (mut compared, mut back) = (Vec::new(), Vec::new());
            for variant in ["tcp", "sctp"] {
                let base = table.at(&format!("way=both loss=0 variant={variant}")).mean("seconds").mean;
                for loss in ["0.03", "0.06", "0.1"] {
                    let extra = |way: &str| {
                        let cell = table.at(&format!("way={way} loss={loss} variant={variant}"));
                        cell.values("seconds").iter().map(|seconds| seconds - base).collect::<Vec<_>>()
                    };
                    let data = extra("data");
                    let against = |other: Vec<f64>| {
                        let runs = other.len().min(data.len());
                        stats::ratio(&other[..runs], &data[..runs])
                    };
                    let ratio = against(extra("acks"));
                    compared.push(Compared { place: format!("{variant} at {loss}"), ratio });
                    back.push(format!("{variant} at {loss} {}", short(against(extra("back")).mean)));
                }
            }
            let remark = format!(
                "Minimal is a tenth of what losing data does, over the time without loss. Lost are packets that acknowledge and do nothing else. \
                 All that goes that way, the client's commands and half of every handshake among it, costs, as a part of the same: {}.",
                back.join(", ")
            );
            Everywhere {
                what: "delay by lost acknowledgements : delay by lost data",
                bound: Bound::Below(0.1),
                remark: &remark,
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P1-C16",
        says: "11 connections are established in a run",
        needs: &["fcs/fig2a"],
        check: |data| {
            let cell = at(data.table("fcs/fig2a"), "0", "sctp");
            let connections = cell.mean("connections");
            let transfers = Estimate {
                mean: connections.mean - 1.0,
                low: connections.low - 1.0,
                high: connections.high - 1.0,
                ..connections
            };
            number(
                Bound::Between(11.0, 11.0),
                "connections but the control one, 2a",
                "",
                transfers,
                "one for the names and ten for files",
            )
        },
    },
    Claim {
        id: "P1-C17",
        says: "setting up an SCTP association has one extra leg (4, not 3)",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "INIT, INIT ACK, COOKIE ECHO, COOKIE ACK: crates/pkt/tests/scripts/rfc9260/5.1-active.pkt; SYN, SYN ACK, ACK: \
                 crates/tcp/src/connection/mod.rs. What the fourth leg costs is P2-C16",
            )
        },
    },
    Claim {
        id: "P1-C23",
        says: "SCTP improves transfer time and throughput on lossy paths, irrespective of the configuration",
        needs: FOUR,
        check: |data| {
            Everywhere {
                what: "throughput of SCTP : TCP",
                bound: Bound::Above(1.0),
                remark: "The same bytes in the inverse of the time, so it stands or falls with P1-C01.",
            }
            .judge(&of_all(data, &LOSSES, "tcp", "sctp"))
        },
    },
];

const BACKGROUND: &[Claim] = &[
    Claim {
        id: "P1-C18",
        says: "TCP's SACK has 3 to 4 blocks, SCTP's has no limit: faster, more robust recovery",
        needs: &["fcs/sack"],
        check: |data| {
            let table = data.table("fcs/sack");
            let compared: Vec<Compared> = [("lan", "LAN"), ("sat", "satellite")]
                .iter()
                .flat_map(|(path, name)| {
                    let cells: Vec<String> =
                        ["0.06", "0.1"].iter().map(|loss| format!("path={path} loss={loss}")).collect();
                    ratios(table, name, &cells, "sctp", "sack+lt+abc")
                })
                .collect();
            Everywhere {
                what: "time of SCTP : TCP with SACK, Limited Transmit and byte counting",
                bound: Bound::Below(1.0),
                remark: "Windows of these cells are a few packets, which have no four gaps: what differs is not the number of blocks. That TCP's \
                         option has room for three or four is in crates/tcp/src/segment.rs.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P1-C19",
        says: "a cookie: the receiver keeps no state until it proves the peer, so blind denial of service fails; TCP lacks it",
        needs: &[],
        check: |_| Finding::shown_by(COOKIE),
    },
    Claim {
        id: "P1-C20",
        says: "failover: a transfer goes on when one path dies; TCP times out and aborts",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "crates/sim/tests/runs/failover.rs (virtual time, by cargo run --release -p braidftp-sim --bin failover) and cargo xtask \
                 proof --only path-cut (real sockets)",
            )
        },
    },
    Claim {
        id: "P1-C21",
        says: "multistreaming separates delivery from reliability: no head-of-line blocking between streams",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "crates/sctp/src/association/tests/reassembly.rs: a_gap_on_one_stream_blocks_no_other_stream",
            )
        },
    },
    Claim {
        id: "P1-C22",
        says: "simulations verify the emulated results",
        needs: &[],
        check: |data| {
            let judged = data.compared();
            let Some(median) = judge::overall(judged, Way::is_sctp) else {
                return Finding::shown_by(
                    "no live runs are kept here: `sudo braidlab compare` makes them (a few cells: `sudo braidlab compare \
                     --quick`), and the verdict is made of them",
                );
            };
            let value =
                Estimate { mean: median.value, low: median.low, high: median.high, runs: median.runs };
            let what = format!("time live : simulated, median of {} SCTP cells", median.runs);
            Finding::decided(
                judge::TARGET.contains(&median.value).into(),
                Measured { what, unit: "x", value },
                format!(
                    "`braidlab compare`: cells of P2's Figures 6 to 8 with the real programs over emulated links. {}",
                    judge::medians(judged).trim_end().replace('\n', "; ")
                ),
            )
        },
    },
];

const FUTURE: &[Claim] = &[
    Claim {
        id: "P1-C24",
        says: "(future) bursts, several losses in one window, would be more realistic: taken to say that SCTP's lead stays with them",
        needs: &["fcs/burst"],
        check: |data| {
            let table = data.table("fcs/burst");
            let compared: Vec<Compared> = [("lan", "LAN"), ("sat", "satellite")]
                .iter()
                .flat_map(|(path, name)| {
                    let cells: Vec<String> = ["0.03", "0.06", "0.1"]
                        .iter()
                        .map(|loss| format!("path={path} burst=3 loss={loss}"))
                        .collect();
                    ratios(table, name, &cells, "sctp", "tcp")
                })
                .collect();
            Everywhere {
                what: "time of SCTP : TCP, bursts of 3",
                bound: Bound::Below(1.0),
                remark: "The paper asks for it and says nothing of what would come out.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P1-C25",
        says: "(weakness) the comparison may be unfair: TCP had no SACK",
        needs: &["fcs/sack"],
        check: |data| unfair(data, "sack", "TCP with SACK : TCP without"),
    },
    Claim {
        id: "P1-C26",
        says: "(weakness) TCP's newer tunings, Limited Transmit and Early Retransmit, recover faster and time out less",
        needs: &["fcs/sack"],
        check: |data| unfair(data, "sack+lt+abc+er", "TCP with SACK, LT, ABC and ER : TCP of the paper"),
    },
    Claim {
        id: "P1-C27",
        says: "(future) one association for the whole FTP session should improve it further",
        needs: &["multistream/fig6", "multistream/fig8", "fcs/fig2a", "fcs/fig2b", "fcs/fig3a", "fcs/fig3b"],
        check: |data| {
            let compared: Vec<Compared> = [("multistream/fig6", "LAN"), ("multistream/fig8", "satellite")]
                .iter()
                .flat_map(|(id, name)| {
                    let cells = places(&["200000", "1000000"], &ALL_LOSSES);
                    ratios(data.table(id), name, &cells, "ms", "naive")
                })
                .collect();
            let braid = Everywhere { what: "time of braid : SCTP", bound: Bound::Below(1.0), remark: "" }
                .judge(&of_all(data, &ALL_LOSSES, "braid", "sctp"));
            let remark = format!(
                "The same stack, 100 files of this paper's sizes: P2's MS through its naive. In this paper's own figures {}.",
                braid.why
            );
            Everywhere {
                what: "time of one association : one a file",
                bound: Bound::Below(1.0),
                remark: &remark,
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P1-C28",
        says: "file transfer needs fault tolerance, robustness to loss and efficient use of bandwidth, which SCTP gives",
        needs: &["fcs/fig2a", "fcs/fig2b"],
        check: |data| {
            let efficiency = |id: &str, bits_per_second: f64| {
                let cell = at(data.table(id), "0", "sctp");
                let efficiency: Vec<f64> =
                    cell.values("seconds").iter().map(|seconds| 80e6 / (seconds * bits_per_second)).collect();
                stats::mean(&efficiency)
            };
            let (lan, satellite) = (efficiency("fcs/fig2a", 3e6), efficiency("fcs/fig2b", 256e3));
            let worst = if lan.mean < satellite.mean { lan } else { satellite };
            let why = format!(
                "efficient: files are {} of what the LAN carries without loss, and {} of the satellite's; efficient is 0.9 here. Robust to loss: \
                 P1-C02. Fault tolerant: P1-C20",
                short(lan.mean),
                short(satellite.mean)
            );
            number(Bound::Above(0.9), "files : what the path carries, without loss", "", worst, why)
        },
    },
];

fn at<'a>(table: &'a Table, loss: &str, variant: &str) -> crate::table::Cell<'a> {
    table.at(&format!("loss={loss} variant={variant}"))
}

fn of_all(data: &Data, at: &[&str], of: &str, to: &str) -> Vec<Compared> {
    FIGURES.iter().flat_map(|(id, name)| ratios(data.table(id), name, &losses(at), of, to)).collect()
}

/// The additional time of SCTP without loss, as text.
fn without_loss(data: &Data) -> String {
    let more = |(id, name): &(&str, &str)| {
        let table = data.table(id);
        let more = at(table, "0", "sctp").minus(&at(table, "0", "tcp"), "seconds");
        format!("{name} {}", short(more.mean / 10.0))
    };
    format!(
        "Without loss a file takes SCTP so many seconds longer, by its set-up, its first window of two packets and its closing \
         (multistream/handshake): {}",
        FIGURES.iter().map(more).collect::<Vec<_>>().join(", ")
    )
}

/// The waiting times of both protocols where they are closest, as text.
fn at_one_percent(data: &Data) -> String {
    format!("3a at 1 %: {}", waits(data.table("fcs/fig3a"), "loss=0.01", &["sctp", "tcp"]))
}

/// The additional time of TCP, at each loss ratio.
fn gains(table: &Table) -> Vec<Estimate> {
    ALL_LOSSES.iter().map(|loss| at(table, loss, "tcp").minus(&at(table, loss, "sctp"), "seconds")).collect()
}

fn scaled(estimate: Estimate, by: f64) -> Estimate {
    Estimate { mean: estimate.mean * by, low: estimate.low * by, high: estimate.high * by, ..estimate }
}

/// Decides that the times differ by at most a tenth at some losses, and that SCTP is ahead at others.
fn close_then_ahead(table: &Table, name: &str, low: &[&str], high: &[&str]) -> Finding {
    let close =
        Everywhere { what: "time of SCTP : TCP at low loss", bound: Bound::Between(0.9, 1.1), remark: "" }
            .judge(&ratios(table, name, &losses(low), "sctp", "tcp"));
    let ahead = Everywhere { what: "time of SCTP : TCP at high loss", bound: Bound::Below(1.0), remark: "" }
        .judge(&ratios(table, name, &losses(high), "sctp", "tcp"));
    and(close, ahead)
}

/// Decides whether the gain of SCTP is proportional to the values of an axis: a straight line through the
/// origin.
fn proportional(table: &Table, axis: &str, unit: f64, [name, of_one, remark]: [&str; 3]) -> Finding {
    let mut points = Vec::new();
    let mut means = Vec::new();
    for value in table.sweep().axis(axis).expect("the figure varies it").values {
        let tcp = judge_cell(table, axis, &value.to_string(), "tcp");
        let sctp = judge_cell(table, axis, &value.to_string(), "sctp");
        let gain = tcp.minus(&sctp, "seconds");
        let x: f64 = value.to_string().parse().expect("the axis has numbers");
        points.push((x * unit, gain.mean));
        means.push(gain);
    }
    let Line { slope, intercept, r_squared } = stats::line(&points);
    let is_straight = r_squared >= 0.95;
    let through_origin = intercept.low <= 0.0 && intercept.high >= 0.0;
    let grows = slope.is_above(0.0);
    let why = format!(
        "TCP - SCTP at {} {name}: {} s. The line through these has R2 = {r_squared:.3} and meets 0 at {intercept} s. Directly proportional is R2 of \
         0.95 or more, a slope above 0 and an intercept that may be 0: {}",
        points.iter().map(|(x, _)| short(*x)).collect::<Vec<_>>().join(", "),
        series(&means),
        match (grows, is_straight, through_origin) {
            (false, ..) => "it does not grow",
            (_, false, _) => "it is no straight line",
            (_, _, false) => "it is a straight line, but not through the origin",
            _ => "it is",
        }
    );
    let why = format!("{why}{remark}");
    let measured = Measured { what: format!("seconds gained for {of_one}"), unit: "s", value: slope };
    Finding::decided(Holds::from(grows && is_straight && through_origin), measured, why)
}

fn judge_cell<'a>(table: &'a Table, axis: &str, value: &str, variant: &str) -> crate::table::Cell<'a> {
    cell(table, &format!("{axis}={value}"), variant).expect("the figure has this cell")
}

/// Decides whether a better TCP is faster than the paper's: the comparison was then unfair.
fn unfair(data: &Data, better: &str, what: &str) -> Finding {
    let table = data.table("fcs/sack");
    let compared: Vec<Compared> = [("lan", "LAN"), ("sat", "satellite")]
        .iter()
        .flat_map(|(path, name)| {
            let cells: Vec<String> =
                ["0.03", "0.06", "0.1"].iter().map(|loss| format!("path={path} loss={loss}")).collect();
            ratios(table, name, &cells, better, "newreno-bsd46")
        })
        .collect();
    let left: Vec<String> = [("lan", "LAN"), ("sat", "satellite")]
        .iter()
        .map(|(path, name)| {
            let cells = [format!("path={path} loss=0.1")];
            let ratio = ratios(table, name, &cells, better, "sctp");
            format!(
                "{name} {}",
                ratio.first().map_or_else(String::new, |compared| compared.ratio.to_string())
            )
        })
        .collect();
    let remark = format!("At 10 % it then takes so many times as long as SCTP: {}.", left.join(", "));
    Everywhere { what: &format!("time of {what}"), bound: Bound::Below(1.0), remark: &remark }
        .judge(&compared)
}
