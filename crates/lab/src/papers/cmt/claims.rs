//! The claims of P4 §3 about multipath transfer, and how they are decided. The goodput of two paths is
//! compared with that of each path alone with the same buffer; where it matters that the worse path itself
//! has less, with the sum of both ("their sum").

use super::DELAY;
use crate::claim::{Claim, Finding, Holds, Measured, Verdict};
use crate::papers::judge::{Bound, Compared, Everywhere, and, grows, number, series};
use crate::stats::{Estimate, quotient, short};
use crate::table::Table;

/// All claims, in order.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "P4-C15",
        says: "CMT has one receive buffer for all paths, read in order; a sender is limited by it and by each path's window (§3.1)",
        needs: &["cmt/loss", "cmt/buffer"],
        check: |data| {
            let lossless = data.table("cmt/loss").at("buffer=64 loss=0").mean("mbps");
            let mut compared = vec![at_most("no losses, 64 KB", lossless, 64.0)];
            for kb in ["16", "32", "64", "128"] {
                let cell = data.table("cmt/buffer").at(&format!("buffer={kb} loss=0.01 paths=both"));
                let kilobytes = kb.parse().expect("it is a number");
                compared.push(at_most(&format!("1 % lost, {kb} KB"), cell.mean("mbps"), kilobytes));
            }
            let ample = data.table("cmt/loss").at("buffer=16384 loss=0").mean("mbps");
            let remark = format!(
                "Without losses 64 KB bring {} Mbit/s over two paths of 10, and an ample buffer {}.",
                short(lossless.mean),
                short(ample.mean)
            );
            let what = "user data : one buffer each round trip of 90 ms";
            let limited = Everywhere { what, bound: Bound::NotAbove(1.0), remark: &remark }.judge(&compared);
            let filled = number(
                Bound::AtLeast(0.85),
                "user data : one buffer each round trip, no losses, 64 KB",
                "x",
                compared[0].ratio,
                "nothing else limits it there",
            );
            and(limited, filled)
        },
    },
    Claim {
        id: "P4-C16",
        says: "the path that loses more puts down the whole association where the buffer is small (§3.1 i)",
        needs: &["cmt/buffer"],
        check: |data| {
            let table = data.table("cmt/buffer");
            let compared: Vec<Compared> = ["16", "32", "64"]
                .map(|kb| {
                    let of = |loss: &str| efficiency(table, &format!("buffer={kb} loss={loss}"));
                    Compared { place: format!("{kb} KB"), ratio: quotient(of("0.1"), of("0.01")) }
                })
                .into();
            let beside: Vec<String> = ["16", "32", "64", "128", "256"]
                .map(|kb| {
                    let of = |paths: &str| {
                        table.at(&format!("buffer={kb} loss=0.1 paths={paths}")).mean("mbps").mean
                    };
                    format!("{} and {} at {kb} KB", short(of("both")), short(of("first")))
                })
                .into();
            let remark = format!(
                "With 10 % lost on path 2 both paths and path 1 alone bring {} Mbit/s: below 64 KB a second path makes it less.",
                beside.join(", ")
            );
            let what = "both paths : their sum, 10 % lost on path 2 : 1 %";
            Everywhere { what, bound: Bound::Below(1.0), remark: &remark }.judge(&compared)
        },
    },
    Claim {
        id: "P4-C17",
        says: "it becomes worse the more the paths' delays differ (§3.1 ii)",
        needs: &["cmt/delay"],
        check: |data| {
            let table = data.table("cmt/delay");
            let mut compared = Vec::new();
            for kb in ["64", "256"] {
                for loss in LOSSES {
                    let of =
                        |delay: &str| efficiency(table, &format!("buffer={kb} loss={loss} delay={delay}"));
                    compared.push(Compared { place: place(kb, loss), ratio: quotient(of("360"), of("45")) });
                }
            }
            let told = DELAYS.map(|delay| efficiency(table, &format!("buffer=64 loss=0.01 delay={delay}")));
            let alone = |paths: &str| {
                table.at(&format!("buffer=64 loss=0.01 delay=360 paths={paths}")).mean("mbps").mean
            };
            let remark = format!(
                "At 64 KB and 1 %, 45, 90, 180 and 360 ms on path 2: {} of their sum; at 360 ms both bring {} Mbit/s where path 1 alone brings {}.",
                series(&told),
                short(alone("both")),
                short(alone("first"))
            );
            let what = "both paths : their sum, 360 ms on path 2 : 45 ms";
            Everywhere { what, bound: Bound::Below(1.0), remark: &remark }.judge(&compared)
        },
    },
    Claim {
        id: "P4-C18",
        says: "very small delays increase the blocking, too (§3.1 iii)",
        needs: &["cmt/short"],
        check: |data| {
            let table = data.table("cmt/short");
            let mut compared = Vec::new();
            for kb in ["16", "64"] {
                for loss in ["0.04", "0.1"] {
                    let of =
                        |delay: &str| efficiency(table, &format!("buffer={kb} loss={loss} delay={delay}"));
                    compared.push(Compared { place: place(kb, loss), ratio: quotient(of("1"), of("45")) });
                }
            }
            let told = ["1", "5", "15", "45", "90"].map(|delay| {
                table.at(&format!("buffer=64 loss=0.1 delay={delay} paths=both")).mean("blocked")
            });
            let remark = format!(
                "What is blocked of the time at 64 KB, 10 % and 1, 5, 15, 45 and 90 ms: {}. A time-out of a second is a round trip's work at \
                 90 ms, and hundreds at 1 ms.",
                series(&told)
            );
            let what = "both paths : their sum, 1 ms : 45 ms";
            Everywhere { what, bound: Bound::Below(1.0), remark: &remark }.judge(&compared)
        },
    },
    Claim {
        id: "P4-C19",
        says: "the larger the difference of the paths, in delay or loss, the more is blocked (§3.1)",
        needs: &["cmt/delay"],
        check: |data| {
            let table = data.table("cmt/delay");
            let of =
                |loss: &str, delay: &str| efficiency(table, &format!("buffer=64 loss={loss} delay={delay}"));
            let mut steps = Vec::new();
            for delay in DELAYS {
                let ratio = quotient(of("0.1", delay), of("0.01", delay));
                steps.push(Compared { place: format!("10 % : 1 %, {delay} ms"), ratio });
            }
            for loss in LOSSES {
                for pair in DELAYS.windows(2) {
                    let ratio = quotient(of(loss, pair[1]), of(loss, pair[0]));
                    steps.push(Compared {
                        place: format!("{} : {} ms, {loss} lost", pair[1], pair[0]),
                        ratio,
                    });
                }
            }
            let what = "both paths : their sum at 64 KB, the larger difference : the smaller";
            let steps = Everywhere { what, bound: Bound::NotAbove(1.0), remark: "" }.judge(&steps);
            let corner = quotient(of("0.1", "360"), of("0.01", "45"));
            let corner = number(
                Bound::Below(1.0),
                "both paths : their sum at 64 KB, 10 % and 360 ms on path 2 : 1 % and 45 ms",
                "x",
                corner,
                format!("from the least difference to the largest it falls to {corner} of what it was"),
            );
            and(corner, steps)
        },
    },
    Claim {
        id: "P4-C20",
        says: "a time-out blocks the buffer until it is over and leaves the sender idle (§3.2)",
        needs: &["cmt/timeouts"],
        check: |data| {
            let table = data.table("cmt/timeouts");
            let of = |kb: &str| {
                ["0.25", "0.5", "1", "2", "4"]
                    .map(|rto| table.at(&format!("buffer={kb} rto={rto}")).mean("idle"))
            };
            let (small, medium, ample) = (of("32"), of("64"), of("16384"));
            let why = format!(
                "part of the time in which nothing is sent, with RTO.Min of 0.25, 0.5, 1, 2 and 4 s: {} with 32 KB, {} with 64 KB, {} with an ample \
                 buffer, over the same losses",
                series(&small),
                series(&medium),
                series(&ample)
            );
            let idle = number(
                Bound::Above(ample[2].high),
                "idle with 64 KB and RTO.Min of 1 s",
                "of the time",
                medium[2],
                why,
            );
            let grow = grows(&small) && grows(&medium);
            let measured = Measured {
                what: "idle with 64 KB and RTO.Min of 4 s".to_owned(),
                unit: "of the time",
                value: medium[4],
            };
            and(idle, Finding::decided(Holds::from(grow), measured, "it grows with the time-out"))
        },
    },
    Claim {
        id: "P4-C21",
        says: "retransmission policies reduce the blocking, and cannot eliminate it (§3.2)",
        needs: &["cmt/policies"],
        check: |data| {
            let table = data.table("cmt/policies");
            let cell = |kb: &str, loss: &str, policy: &str| {
                table.at(&format!("buffer={kb} loss={loss} policy={policy}"))
            };
            let mut reduced = Vec::new();
            for kb in ["16", "32", "64", "128", "256"] {
                for loss in ["0.08", "0.1"] {
                    let ratio = cell(kb, loss, "cwnd").ratio(&cell(kb, loss, "same"), "mbps");
                    reduced.push(Compared { place: place(kb, loss), ratio });
                }
            }
            let what = "user data, RTX-CWND : RTX-SAME";
            let reduced = Everywhere { what, bound: Bound::Above(1.0), remark: "" }.judge(&reduced);
            let least = ["16", "32", "64", "128"].map(|kb| {
                let of = |policy: &&str| cell(kb, "0.1", policy).mean("blocked");
                let least = POLICIES.iter().map(|policy| (of(policy), *policy));
                least.min_by(|a, b| a.0.mean.total_cmp(&b.0.mean)).expect("there are policies")
            });
            let told: Vec<String> =
                least.iter().map(|(blocked, policy)| format!("{} ({policy})", short(blocked.mean))).collect();
            let left = number(
                Bound::Above(0.0),
                "blocked with the best policy, 128 KB, 10 %",
                "of the time",
                least[3].0,
                format!(
                    "with the best policy it is blocked for {} of the time at 16, 32, 64 and 128 KB and 10 %",
                    told.join(", ")
                ),
            );
            and(reduced, left)
        },
    },
    Claim {
        id: "P4-C22",
        says: "fewer losses, less blocking (§3.2)",
        needs: &["cmt/loss"],
        check: |data| {
            let table = data.table("cmt/loss");
            let losses = ["0", "0.001", "0.003", "0.01", "0.03", "0.1"];
            let of = |kb: &str| losses.map(|loss| table.at(&format!("buffer={kb} loss={loss}")).mean("held"));
            let (small, large) = (of("64"), of("256"));
            let why = format!(
                "KB that wait for what is missing with 0, 0.1, 0.3, 1, 3 and 10 % lost: {} of 64, and {} of 256, where without losses the queues \
                 overflow",
                series(&small),
                series(&large)
            );
            let measured = Measured {
                what: "held at 64 KB, 10 % lost : 1 %".to_owned(),
                unit: "x",
                value: quotient(small[5], small[3]),
            };
            Finding::decided(Holds::from(grows(&small) && grows(&large[1..])), measured, why)
        },
    },
    Claim {
        id: "P4-C23",
        says: "over two congested paths FAST does much better than SCTP with the same finite buffer (§3.2; argued)",
        needs: &["cmt/congested", "cmt/begins", "cmt/share"],
        check: |data| {
            let table = data.table("cmt/congested");
            let ratio = |beside: &str, kb: &str| {
                let of = |controller: &str| {
                    table.at(&format!("beside={beside} buffer={kb} controller={controller}"))
                };
                of("fast").ratio(&of("loss"), "mbps")
            };
            let buffers = ["256", "512", "1024", "2048"];
            let compared: Vec<Compared> =
                buffers.map(|kb| Compared { place: format!("{kb} KB"), ratio: ratio("own", kb) }).into();
            let told = |beside: &str| series(&buffers.map(|kb| ratio(beside, kb)));
            let begins = data.table("cmt/begins");
            let by_begin = |begin: &str| {
                series(&buffers.map(|kb| {
                    let of = |controller: &str| {
                        begins.at(&format!("begins={begin} buffer={kb} controller={controller}"))
                    };
                    of("fast").ratio(&of("loss"), "mbps")
                }))
            };
            let shares = data.table("cmt/share");
            // The part of what all bring that the association has, and what all bring.
            let share = |beside: &str, controller: &str| {
                let cell = shares.at(&format!("beside={beside} buffer=2048 controller={controller}"));
                let (own, others) = (cell.mean("mbps").mean, cell.mean("others").mean);
                [short(own / (own + others)), short(own + others)]
            };
            let [fast, flows] = ["fast", "loss"].map(|controller| share("flows", controller));
            let what = "FAST : SCTP's windows";
            let judge = |compared: &[Compared], remark: &str| {
                Everywhere { what, bound: Bound::Above(1.0), remark }.judge(compared)
            };
            let changed = |beside: &str| {
                let equal = buffers.map(|kb| {
                    let of = |controller: &str| {
                        shares.at(&format!("beside={beside} buffer={kb} controller={controller}"))
                    };
                    Compared { place: format!("{kb} KB"), ratio: of("fast").ratio(&of("loss"), "mbps") }
                });
                let ratios = series(&equal.clone().map(|compared| compared.ratio));
                let holds = match judge(&equal, "").verdict {
                    Verdict::Holds => "the claim holds",
                    _ => "the claim does not hold",
                };
                format!("has {} with SCTP's windows, and {holds}: {ratios}", share(beside, "loss")[0])
            };
            let remark = format!(
                "That is beside one more flow of the same kind on each path. With nobody else there it is {} at the same buffers, and beside TCP with \
                 Reno, which fills the queues, {}. With beginnings 5 s apart and all else the same (cmt/begins) it is {} where the association begins before \
                 the others, {} where all begin together, and {} where it begins after them. What decides is the share and not the use of the paths: over \
                 100 s, with 2 MB, all three bring {} Mbit/s with FAST and {} with SCTP's windows, but the association has {} of that with FAST and {} \
                 with SCTP's windows (cmt/share). Where the flows' packets are acknowledged one by one, so that flows do not send pairs into a full queue, it {}. \
                 Beside a second association with an ample buffer it {}. So FAST is better \
                 where the buffer blocks, and where nothing does, both have about half.",
                told("nobody"),
                told("tcp"),
                by_begin("before"),
                by_begin("with"),
                by_begin("after"),
                fast[1],
                flows[1],
                fast[0],
                flows[0],
                changed("prompt"),
                changed("twin")
            );
            judge(&compared, &remark)
        },
    },
    Claim {
        id: "P4-C24",
        says: "with FAST packets arrive mostly in the order in which they were sent, over paths of different load (§3.2; believed)",
        needs: &["cmt/order"],
        check: |data| {
            let table = data.table("cmt/order");
            let of =
                |controller: &str, column: &str| {
                    series(&["0", "1", "2", "3"].map(|others| {
                        table.at(&format!("controller={controller} others={others}")).mean(column)
                    }))
                };
            let late = table.at("controller=fast others=3").mean("late");
            let why = format!(
                "with 0, 1, 2 and 3 flows beside it on path 2, {} of the chunks arrive after one that was sent later with FAST, {} with SCTP's windows, {} \
                 with CUBIC; and {}, {} and {} KB wait for them. Paths in turn put runs of chunks on both at once, which then arrive in turn",
                of("fast", "late"),
                of("loss", "late"),
                of("cubic", "late"),
                of("fast", "held"),
                of("loss", "held"),
                of("cubic", "held")
            );
            number(
                Bound::Below(0.5),
                "late with FAST, 3 flows beside it on path 2",
                "of the chunks",
                late,
                why,
            )
        },
    },
    Claim {
        id: "P4-C25",
        says: "a multihomed transport with FAST, on complex networks, too (§4; future work)",
        needs: &["cmt/complex", "cmt/alpha"],
        check: |data| {
            let table = data.table("cmt/complex");
            let mut compared = Vec::new();
            for cross in ["none", "tcp"] {
                for kb in ["128", "256", "512", "1024", "16384"] {
                    let of = |controller: &str| {
                        table.at(&format!("cross={cross} buffer={kb} controller={controller}"))
                    };
                    let spoken = if cross == "none" { "nobody else" } else { "TCP across each hop" };
                    let kb = if kb == "16384" { "ample".to_owned() } else { format!("{kb} KB") };
                    let ratio = of("loss").ratio(&of("fast"), "mbps");
                    compared.push(Compared { place: format!("{spoken}, {kb}"), ratio });
                }
            }
            let alpha = data.table("cmt/alpha");
            let (bound, what) = (Bound::NotAbove(1.05), "SCTP's windows : FAST");
            let told: Vec<String> = ["10", "25", "50", "100", "200"]
                .map(|packets| {
                    let ratios = ["512", "1024", "16384"].map(|kb| {
                        let of = |control: &str| alpha.at(&format!("buffer={kb} control={control}"));
                        of("loss").ratio(&of(packets), "mbps")
                    });
                    let no_less =
                        if ratios.iter().all(|ratio| bound.has(ratio)) { "no less" } else { "less" };
                    format!("{} with α = {packets} ({no_less})", series(&ratios))
                })
                .into();
            let remark = format!(
                "It is built: FAST on each path of an association; here it runs over paths of two hops that TCP crosses, and is to bring \
                 no less than windows steered by losses. It keeps α packets in queues that Reno fills, and α alone decides its part of them: beside TCP, \
                 with 512 KB, 1 MB and an ample buffer, it is {} (cmt/alpha).",
                told.join(", ")
            );
            Everywhere { what, bound, remark: &remark }.judge(&compared)
        },
    },
];

const LOSSES: [&str; 3] = ["0.01", "0.04", "0.1"];
const DELAYS: [&str; 4] = ["45", "90", "180", "360"];
const POLICIES: [&str; 5] = ["same", "asap", "cwnd", "ssthresh", "lossrate"];

/// A point as text.
fn place(kb: &str, loss: &str) -> String {
    format!("{kb} KB, {} %", loss.parse::<f64>().map_or(0.0, |part| (part * 1e4).round() / 1e2))
}

/// The goodput divided by the maximum that a buffer of this size permits, one buffer per round trip.
fn at_most(place: &str, mbps: Estimate, kilobytes: f64) -> Compared {
    let limit = kilobytes * 1024.0 * 8.0 / (2.0 * DELAY.as_secs_f64()) / 1e6;
    Compared { place: place.to_owned(), ratio: quotient(mbps, Estimate::exact(limit, 1)) }
}

/// The goodput of both paths at a point, divided by the sum of each path alone.
fn efficiency(table: &Table, place: &str) -> Estimate {
    let of = |paths: &str| table.at(&format!("{place} paths={paths}")).mean("mbps");
    let (first, second) = (of("first"), of("second"));
    let mean = first.mean + second.mean;
    let half = ((first.high - first.low) / 2.0).hypot((second.high - second.low) / 2.0);
    let sum = Estimate { mean, low: mean - half, high: mean + half, runs: first.runs.min(second.runs) };
    quotient(of("both"), sum)
}
