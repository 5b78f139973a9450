//! Claims of P2 about FTP over TCP, its alternatives, and SCTP's streams (sections 2 to 4).

use super::control_blocks::{KEPT, blocks, count, memory};
use super::{SIZES, THREE, everywhere};
use crate::claim::{Claim, Finding, Holds, Measured};
use crate::data::Data;
use crate::papers::ftp::WAN;
use crate::papers::judge::{ALL_LOSSES, Bound, Compared, Everywhere, and, number, places, ratios};
use crate::stats::{Estimate, short};

/// Claims 1 to 15.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "P2-C01",
        says: "the control connection is send-and-wait, idle during files, and falls back to slow start for each file",
        needs: &["multistream/counts"],
        check: |data| {
            let cell = count(data, "sat", "200000", "0", "tcp");
            let packets = cell.mean("control_packets");
            let by_file = Estimate {
                mean: packets.mean / 101.0,
                low: packets.low / 101.0,
                high: packets.high / 101.0,
                ..packets
            };
            number(
                Bound::Between(5.0, 5.0),
                "packets of commands and replies, a transfer",
                "",
                by_file,
                "EPRT, 200, RETR, 150, 226, none of them sent before the one before it has come: exactly five packets a transfer, so no two share \
                 one. That an idle connection begins anew with slow start is crates/tcp's idle_restart and its tests",
            )
        },
    },
    Claim {
        id: "P2-C02",
        says: "losing a command or a reply costs a time-out: too few packets for a fast retransmit",
        needs: &["multistream/lost"],
        check: |data| {
            let lost = losses_of(data, "tcp", |purpose, _| purpose == "control");
            number(
                Bound::AtLeast(1.0),
                "least number of time-outs that a lost command or reply costs, TCP",
                "",
                least_timeouts(&lost),
                format!(
                    "each of the {} packets of commands and replies of a get lost alone, LAN: each costs a time-out, and {} s more in all; the \
                     150 and the 226 least, whose time-outs run while a file comes. Nothing follows a command that could bring a duplicate \
                     acknowledgement (P2-C01)",
                    lost.len(),
                    seconds(&lost)
                ),
            )
        },
    },
    Claim {
        id: "P2-C03",
        says: "two control blocks a session on average; more, with TIME-WAIT, for many small files",
        needs: &["multistream/counts"],
        check: |data| {
            let (small, large) =
                (count(data, "lan", "10000", "0", "tcp"), count(data, "sat", "200000", "0", "tcp"));
            let (small, large) = (small.mean("blocks_mean"), large.mean("blocks_mean"));
            let why = format!(
                "{large} for 200 KB by satellite, {small} for 10 KB on the LAN: the server closes each data connection first and keeps it in \
                 TIME-WAIT for 60 s. Two or more, and more for small files. {}",
                memory(data, &["tcp"])
            );
            let measured = Measured {
                what: "control blocks at the server, mean, 10 KB on the LAN".into(),
                unit: "",
                value: small,
            };
            Finding::decided(Holds::from(large.mean >= 2.0 && small.is_above(large.mean)), measured, why)
        },
    },
    Claim {
        id: "P2-C04",
        says: "PORT puts addresses and ports into the payload: trouble with NATs and firewalls",
        needs: &["multistream/nat"],
        check: |data| {
            let table = data.table("multistream/nat");
            let whole = table.at("nat=nat variant=tcp").mean("whole");
            number(
                Bound::Between(0.0, 0.0),
                "files that TCP brings through a NAT that rewrites no payload",
                "",
                whole,
                format!(
                    "of 10; without the NAT {}. That the address is plain text: crates/ftp/src/command.rs",
                    table.at("nat=none variant=tcp").mean("whole")
                ),
            )
        },
    },
    Claim {
        id: "P2-C05",
        says: "at least one round trip of set-up for each file or listing",
        needs: &["multistream/handshake"],
        check: |data| {
            let table = data.table("multistream/handshake");
            let round_trips = |variant: &str, column: &str| {
                let setup = table.at(&format!("path=wan variant={variant}")).mean(column);
                scaled(setup, 1.0 / (2.0 * WAN.delay.as_secs_f64()))
            };
            let (file, names) = (round_trips("tcp", "setup"), round_trips("tcp", "setup_of_names"));
            let why = format!(
                "from the packets of a run, coast to coast without loss: from the departure of SYN to that of the first data it takes {} round trips \
                 of 70 ms for a file and {} for the names; by naive, from INIT, {}. What the next commands overlap with is the closing, as \
                 the paper says",
                short(file.mean),
                short(names.mean),
                short(round_trips("naive", "setup").mean)
            );
            let least = if file.low < names.low { file } else { names };
            number(Bound::AtLeast(1.0), "round trips of 70 ms to open a data connection, TCP", "", least, why)
        },
    },
    Claim {
        id: "P2-C06",
        says: "each data connection probes for its window anew (Fig 1: three saw-teeth with gaps); an early loss is a time-out",
        needs: &["multistream/windows", "multistream/lost"],
        check: |data| {
            let cell = data.table("multistream/windows").at("variant=tcp");
            let (begin, largest) = (cell.mean("begins_mtus"), cell.mean("largest_mtus"));
            let anew = number(
                Bound::NotAbove(4.0),
                "window with which a file begins, in packets, TCP",
                "",
                begin,
                format!(
                    "the mean over all files but the first, 200 KB coast to coast without loss: the initial window each time, after the one before \
                     had reached {largest}. Figure 1 draws it"
                ),
            );
            // With an initial window of one packet, none of the first three is followed by three others.
            let early = |variant| losses_of(data, variant, |purpose, place| purpose == "data" && place < 1);
            let later =
                losses_of(data, "tcp-1", |purpose, place| purpose == "data" && (10..20).contains(&place));
            let (of_one, of_four) = (early("tcp-1"), early("tcp"));
            let timeout = number(
                Bound::AtLeast(1.0),
                "time-outs that the loss of a file's first packet costs, first window of one, least",
                "",
                least_timeouts(&of_one),
                format!(
                    "a packet of a file of 50 KB lost alone, LAN: with a first window of one packet the loss of the first costs {} s, that of one \
                     of the eleventh to twentieth {} s. With the four that BSD has for its own network three follow the first, and it costs \
                     {} s",
                    seconds(&of_one),
                    seconds(&later),
                    seconds(&of_four)
                ),
            );
            and(anew, timeout)
        },
    },
    Claim {
        id: "P2-C07",
        says: "at least one round trip a file for PORT and its 200",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "crates/sim/tests/transcripts/tcp.txt: every RETR waits for the 200 to its EPRT, and the EPRT for the 226 of the file before it",
            )
        },
    },
    Claim {
        id: "P2-C08",
        says: "one TCP connection for all: its window stays, but it needs markers, and a loss blocks all behind it",
        needs: &["multistream/pipelines"],
        check: |data| {
            pipelines(
                data,
                "TCP, one connection, pipelined : TCP",
                "tcp-one-cp",
                "tcp",
                "Markers: crates/sim's FTP session frames files on it; that one byte stream delivers in order is TCP's definition.",
            )
        },
    },
    Claim {
        id: "P2-C09",
        says: "two TCP connections that stay: idle gaps between files let the window decay",
        needs: &["multistream/windows", "multistream/pipelines"],
        check: |data| {
            let table = data.table("multistream/windows");
            let cell = |variant: &str| table.at(&format!("variant={variant}"));
            let (gaps, none) = (cell("tcp-two"), cell("tcp-two-cp"));
            let idle = pipelines(
                data,
                "TCP, two connections, pipelined : not pipelined",
                "tcp-two-cp",
                "tcp-two",
                "",
            );
            let why = format!(
                "200 KB coast to coast without loss: files begin with {} packets with gaps and {} without, {} of what the window was before. A gap of two \
                 round trips is shorter than an RTO, of 1 s at least, and only after that does BSD's TCP begin anew (RFC 5681 section 4.1). The \
                 gaps cost round trips all the same: {}",
                gaps.mean("begins_mtus"),
                none.mean("begins_mtus"),
                gaps.mean("kept"),
                idle.why
            );
            number(
                Bound::Below(1.0),
                "window with which a file begins, with gaps : without",
                "x",
                gaps.ratio(&none, "begins_mtus"),
                why,
            )
        },
    },
    Claim {
        id: "P2-C10",
        says: "two TCP connections and pipelining: a steady flow that keeps its window, with the overheads of two connections",
        needs: &["multistream/windows", "multistream/pipelines"],
        check: |data| {
            let faster = pipelines(data, "TCP, two connections, pipelined : TCP", "tcp-two-cp", "tcp", "");
            let kept = data.table("multistream/windows").at("variant=tcp-two-cp").mean("kept");
            let keeps = number(
                Bound::AtLeast(KEPT),
                "window with which a file begins : its mean during the file before",
                "x",
                kept,
                format!(
                    "20 files of 200 KB without loss begin with {} of the window's mean during the file before. Two control blocks all the while, \
                     where one association has one",
                    short(kept.mean)
                ),
            );
            and(faster, keeps)
        },
    },
    Claim {
        id: "P2-C11",
        says: "n parallel TCP connections: better throughput, but unfair",
        needs: &["multistream/pipelines", "multistream/fair"],
        check: |data| {
            let faster = pipelines(data, "TCP, 4 parallel connections : TCP", "tcp-parallel", "tcp", "");
            and(faster, super::conclusions::unfair(data))
        },
    },
    Claim {
        id: "P2-C12",
        says: "no head-of-line blocking: a loss on stream 1 delays only stream 1",
        needs: &[],
        check: |_| {
            Finding::shown_by(
                "crates/sctp/src/association/tests/reassembly.rs: a_gap_on_one_stream_blocks_no_other_stream",
            )
        },
    },
    Claim {
        id: "P2-C13",
        says: "MS: one association a session, no PORT, fewer round trips",
        needs: THREE,
        check: |data| {
            let one = super::FIGURES.iter().flat_map(|(id, _)| data.table(id).all("loss=0 variant=ms"));
            let most = one
                .map(|cell| cell.mean("connections"))
                .max_by(|a, b| a.mean.total_cmp(&b.mean))
                .expect("15 cells");
            let one = number(
                Bound::Between(1.0, 1.0),
                "associations of a session, MS",
                "",
                most,
                "one association for all",
            );
            let faster = Everywhere {
                what: "time of MS : naive without loss",
                bound: Bound::Below(1.0),
                remark: "No PORT: the transcript of Figure 4.",
            }
            .judge(&everywhere(data, &SIZES, &["0"], "ms", "naive"));
            and(one, faster)
        },
    },
    Claim {
        id: "P2-C14",
        says: "MS: at most half the control blocks at the server",
        needs: &["multistream/counts"],
        check: |data| blocks(data, "control blocks of MS : TCP", "ms", Bound::NotAbove(0.5)),
    },
    Claim {
        id: "P2-C15",
        says: "MS: cwnd collapses to 4 MTU between files (Max.Burst); CP: no collapse, a continuous flow (Fig 5)",
        needs: &["multistream/windows"],
        check: |data| {
            let table = data.table("multistream/windows");
            let (ms, cp) =
                (table.at("variant=ms").mean("begins_mtus"), table.at("variant=ms-cp").mean("begins_mtus"));
            let why = format!(
                "window with which files begin, all but the first, 200 KB coast to coast without loss: MS {ms} packets, CP {cp}. MS is to have 4, \
                 CP more"
            );
            let measured = Measured {
                what: "window with which a file begins, in packets, MS".into(),
                unit: "",
                value: ms,
            };
            Finding::decided(Holds::from((3.5..4.5).contains(&ms.mean) && cp.low > ms.high), measured, why)
        },
    },
];

/// The cost of losing a packet: seconds, and retransmission time-outs.
struct Lost {
    seconds: f64,
    timeouts: f64,
}

/// The costs of losing each packet of a purpose and of a position in the data of its file.
fn losses_of(data: &Data, variant: &str, which: fn(&str, usize) -> bool) -> Vec<Lost> {
    let rows = data.scene("multistream/lost");
    let (variants, purposes, says) = (rows.texts("variant"), rows.texts("purpose"), rows.texts("says"));
    let (seconds, timeouts) = (rows.numbers("costs_seconds"), rows.numbers("timeouts"));
    let (mut place, mut is_file) = (0, false);
    let mut found = Vec::new();
    for index in (0..seconds.len()).filter(|index| variants[*index] == variant) {
        is_file |= says[index].starts_with("RETR");
        // Each file, and the list of names, has its own connection.
        if says[index] == "SYN" {
            place = 0;
        }
        let is_data = purposes[index] == "data";
        if (!is_data || is_file) && which(purposes[index], place) {
            found.push(Lost { seconds: seconds[index], timeouts: timeouts[index] });
        }
        place += usize::from(is_data);
    }
    found
}

fn least_timeouts(lost: &[Lost]) -> Estimate {
    let least = lost.iter().map(|lost| lost.timeouts).fold(f64::INFINITY, f64::min);
    Estimate::exact(least, lost.len())
}

/// The range of the costs as text.
fn seconds(lost: &[Lost]) -> String {
    let all = || lost.iter().map(|lost| lost.seconds.max(0.0));
    format!("{} to {}", short(all().fold(f64::INFINITY, f64::min)), short(all().fold(0.0, f64::max)))
}

fn scaled(estimate: Estimate, by: f64) -> Estimate {
    Estimate { mean: estimate.mean * by, low: estimate.low * by, high: estimate.high * by, ..estimate }
}

/// Compares two alternatives of section 2.2, for 10 KB, at every loss, on the LAN and over the satellite.
fn pipelines(data: &Data, what: &str, of: &str, to: &str, remark: &str) -> Finding {
    let table = data.table("multistream/pipelines");
    let compared: Vec<Compared> = [("lan", "LAN"), ("sat", "satellite")]
        .iter()
        .flat_map(|(path, name)| {
            let cells: Vec<String> =
                places(&["10000"], &ALL_LOSSES).iter().map(|place| format!("path={path} {place}")).collect();
            ratios(table, name, &cells, of, to)
        })
        .collect();
    Everywhere { what: &format!("time of {what}"), bound: Bound::Below(1.0), remark }.judge(&compared)
}
