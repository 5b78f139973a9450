//! The conclusions of P2 (abstract, sections 5 and 6), and its corrections.

use super::control_blocks::{KEPT, blocks, count};
use super::{FIGURES, SIZES, THREE};
use crate::claim::{Claim, Finding, Holds, Measured};
use crate::data::Data;
use crate::papers::judge::{
    ALL_LOSSES, Bound, COOKIE, Compared, Everywhere, and, cell, number, places, ratios, waits,
};
use crate::stats::{Estimate, short};

/// Claims 44 to 54.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "P2-C44",
        says: "(abstract) the largest benefit is for many short files",
        needs: THREE,
        check: |data| {
            let mut compared = Vec::new();
            for (id, name) in FIGURES {
                let table = data.table(id);
                for loss in ALL_LOSSES {
                    let gain = |size: &str| {
                        ratios(table, name, &places(&[size], &[loss]), "tcp", "ms-cp").remove(0).ratio
                    };
                    let (small, large) = (gain("10000"), gain("1000000"));
                    let mean = small.mean / large.mean;
                    let half = mean * small.relative().hypot(large.relative());
                    let ratio = Estimate {
                        mean,
                        low: mean - half,
                        high: mean + half,
                        runs: small.runs.min(large.runs),
                    };
                    compared.push(Compared { place: format!("{name} at {loss}"), ratio });
                }
            }
            Everywhere {
                what: "gain (TCP : CP) for 10 KB : gain for 1 MB",
                bound: Bound::Above(1.0),
                remark: "TCP's own recovery in long files, without SACK, is a gain of SCTP that grows with their size (P2-C19).",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P2-C45",
        says: "single-file transfers: some minor gain by multistreaming, nothing significant",
        needs: &["multistream/single"],
        check: |data| {
            let table = data.table("multistream/single");
            let remark = format!(
                "Nothing significant is up to a tenth. A single file has an association of its own, too, and what that costs does not depend \
                 on how many follow: 10 KB at 3 %: {}.",
                waits(table, "size=10000 loss=0.03", &["naive", "ms"])
            );
            Everywhere {
                what: "time of MS : naive, one file",
                bound: Bound::Between(0.9, 1.0),
                remark: &remark,
            }
            .judge(&ratios(table, "LAN", &places(&SIZES, &ALL_LOSSES), "ms", "naive"))
        },
    },
    Claim {
        id: "P2-C46",
        says: "CP uses fewer connections",
        needs: &["multistream/counts"],
        check: |data| {
            let cells = ["tcp", "naive", "ms-cp"]
                .map(|variant| count(data, "lan", "10000", "0", variant).mean("connections"));
            number(
                Bound::Between(1.0, 1.0),
                "connections of a session, CP",
                "",
                cells[2],
                format!("TCP opens {}, naive {}", cells[0], cells[1]),
            )
        },
    },
    Claim {
        id: "P2-C47",
        says: "CP needs fewer round trips for set-up, teardown and commands",
        needs: &["multistream/counts"],
        check: |data| {
            let packets = |column: &str| {
                let mut compared = Vec::new();
                for path in ["lan", "wan", "sat"] {
                    for size in ["10000", "200000"] {
                        let (cp, tcp) =
                            (count(data, path, size, "0", "ms-cp"), count(data, path, size, "0", "tcp"));
                        compared.push(Compared {
                            place: format!("{path} {size}"),
                            ratio: cp.ratio(&tcp, column),
                        });
                    }
                }
                compared
            };
            let setup = Everywhere {
                what: "packets of set-up and teardown, CP : TCP",
                bound: Bound::Below(1.0),
                remark: "",
            }
            .judge(&packets("setup_packets"));
            let commands = Everywhere {
                what: "packets of commands and replies, CP : TCP",
                bound: Bound::Below(1.0),
                remark: "",
            }
            .judge(&packets("control_packets"));
            and(setup, commands)
        },
    },
    Claim {
        id: "P2-C48",
        says: "CP keeps the congestion window between files",
        needs: &["multistream/windows"],
        check: |data| {
            let table = data.table("multistream/windows");
            let mean = |variant: &str, column: &str| table.at(&format!("variant={variant}")).mean(column);
            number(
                Bound::AtLeast(KEPT),
                "window with which a file begins : its mean during the file before, CP",
                "x",
                mean("ms-cp", "kept"),
                format!(
                    "20 files of 200 KB coast to coast without loss; by MS it is {}, by TCP {}. Kept is nine tenths, for Max.Burst (equation 1) lets \
                     the window sway within a file too. Files begin with {} packets by CP, {} by MS, {} by TCP",
                    mean("ms", "kept"),
                    mean("tcp", "kept"),
                    mean("ms-cp", "begins_mtus"),
                    mean("ms", "begins_mtus"),
                    mean("tcp", "begins_mtus")
                ),
            )
        },
    },
    Claim {
        id: "P2-C49",
        says: "a server can serve at least twice the clients where control blocks are the bottleneck",
        needs: &["multistream/counts"],
        check: |data| blocks(data, "control blocks of CP : TCP", "ms-cp", Bound::NotAbove(0.5)),
    },
    Claim {
        id: "P2-C50",
        says: "an error-free alternate path for retransmissions biases results for SCTP",
        needs: &["multistream/clean"],
        check: |data| {
            let table = data.table("multistream/clean");
            let mut compared = Vec::new();
            for size in ["10000", "200000", "1000000"] {
                for loss in ["0.03", "0.06", "0.1"] {
                    let at = |paths: &str| {
                        table.at(&format!("size={size} loss={loss} variant=naive paths={paths}"))
                    };
                    compared.push(Compared {
                        place: format!("naive {size} B at {loss}"),
                        ratio: at("clean-second").ratio(&at("one"), "seconds"),
                    });
                }
            }
            Everywhere {
                what: "time with a clean second path : without",
                bound: Bound::Below(1.0),
                remark: "",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P2-C51",
        says: "CP reduces the number of PDUs, and so the load of the network",
        needs: THREE,
        check: |data| {
            let compare = |column: &str| {
                let mut compared = Vec::new();
                for (id, name) in FIGURES {
                    for place in places(&SIZES, &ALL_LOSSES) {
                        let table = data.table(id);
                        if let (Some(cp), Some(tcp)) =
                            (cell(table, &place, "ms-cp"), cell(table, &place, "tcp"))
                        {
                            compared.push(Compared {
                                place: format!("{name} {place}"),
                                ratio: cp.ratio(&tcp, column),
                            });
                        }
                    }
                }
                compared
            };
            let packets = Everywhere { what: "packets of CP : TCP", bound: Bound::Below(1.0), remark: "" }
                .judge(&compare("packets"));
            let bytes =
                Everywhere { what: "bytes on the wire of CP : TCP", bound: Bound::Below(1.0), remark: "" }
                    .judge(&compare("kilobytes"));
            and(packets, bytes)
        },
    },
    Claim {
        id: "P2-C52",
        says: "one association needs no NAT or firewall that rewrites payload",
        needs: &["multistream/nat"],
        check: |data| {
            let table = data.table("multistream/nat");
            let whole: Vec<String> = ["tcp", "naive", "ms", "ms-cp", "braid"]
                .iter()
                .map(|variant| {
                    format!(
                        "{variant} {}",
                        short(table.at(&format!("nat=nat variant={variant}")).mean("whole").mean)
                    )
                })
                .collect();
            let value = table.at("nat=nat variant=ms-cp").mean("whole");
            let why = format!(
                "files of 10 that come through a NAT that rewrites addresses and no payload: {}",
                whole.join(", ")
            );
            number(Bound::Between(10.0, 10.0), "files through the NAT, CP", "", value, why)
        },
    },
    Claim {
        id: "P2-C53",
        says: "FTP over SCTP stays TCP-friendly, unlike parallel TCP connections",
        needs: &["multistream/fair"],
        check: |data| {
            let table = data.table("multistream/fair");
            let share = table.at("watched=sack against=ms-cp").mean("share_of_tcp");
            let why = format!(
                "what one TCP connection (SACK) gets of a shared drop-tail link beside each, where half is fair: CP {share}, another TCP {}, \
                 4 parallel ones {}. Friendly is no less than 0.4",
                table.at("watched=sack against=tcp").mean("share_of_tcp"),
                table.at("watched=sack against=tcp-parallel").mean("share_of_tcp"),
            );
            let measured =
                Measured { what: "share of a TCP connection beside CP".into(), unit: "", value: share };
            let parallel = table.at("watched=sack against=tcp-parallel").mean("share_of_tcp");
            Finding::decided(Holds::from(share.mean >= 0.4 && parallel.mean < 0.4), measured, why)
        },
    },
    Claim {
        id: "P2-C54",
        says: "the handshake of four legs defends better against denial of service",
        needs: &[],
        check: |_| Finding::shown_by(COOKIE),
    },
];

/// Decides whether parallel TCP connections take more than their share.
pub(super) fn unfair(data: &Data) -> Finding {
    let share = data.table("multistream/fair").at("watched=sack against=tcp-parallel").mean("share_of_tcp");
    number(
        Bound::Below(0.4),
        "share of a TCP connection beside 4 parallel ones",
        "",
        share,
        "half is fair to a user, a fifth to a connection",
    )
}
