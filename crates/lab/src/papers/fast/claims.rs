//! The claims of P4 about FAST and SCTP over one path (§1, §2), and how they are decided. Its delay can be
//! read in two ways; a claim holds if it holds with both.

mod observed;

use self::observed::Film;
use super::threshold::overflows;
use super::{READINGS, jain};
use crate::claim::{Claim, Finding, Measured, Verdict};
use crate::data::Data;
use crate::papers::judge::{Bound, Compared, Everywhere, and, number};
use crate::stats::{Estimate, short};

/// All claims, in order.
pub const ALL: &[&[Claim]] = &[CLAIMS];

const SCTP: &[&str] = &["fast/fig2", "fast/fig4"];
/// The same, and with a time-out that ends fast recovery.
const SCTP_ISOLATED: &[&str] = &["fast/fig2", "fast/fig4", "fast/recovered2", "fast/recovered4"];
const RECOVERED: &[&str] = &["fast/recovered2", "fast/recovered4"];
const FAST: &[&str] = &["fast/fig3", "fast/fig5"];
const FOUR: &[&str] = &["fast/fig2", "fast/fig3", "fast/fig4", "fast/fig5"];

/// The behaviour of four SCTP flows with the longer delay, and its reason: what one packet a round trip predicts, and what is measured.
fn stands_still(data: &Data) -> String {
    let repairs: Vec<String> = READINGS
        .iter()
        .filter_map(|(reading, _, spoken)| {
            let film = Film::of(data, "fast/fig4", reading);
            let (left, measured) = film.repair()?;
            let predicted = left * film.round_trip();
            Some(format!(
                "{spoken}, {} packets of the first flow after its time-out take {} s, predicted {}",
                short(left),
                short(measured),
                short(predicted)
            ))
        })
        .collect();
    let told = if repairs.is_empty() { String::new() } else { format!(": {}", repairs.join("; ")) };
    format!(
        "A flow whose slow start lost thousands of packets repairs one a round trip, with a window of one (fast/fig4){told}. Four such flows with 100 ms \
         each way neither swing nor fill a queue meanwhile"
    )
}

const CLAIMS: &[Claim] = &[
    Claim {
        id: "P4-C01",
        says: "SCTP's slow start knows nothing of the link: windows grow until the queue overflows (Fig 2)",
        needs: &["fast/fig2"],
        check: |data| {
            both(data, "fast/fig2", |film| {
                let first = film.first_drop();
                let windows: f64 = film.cwnd.iter().map(|flow| flow[first]).sum();
                let grown = |place: usize| {
                    let [now, before] = [place, place.saturating_sub(1)]
                        .map(|place| film.cwnd.iter().map(|flow| flow[place]).sum::<f64>());
                    now / before
                };
                let [last, before] = [1, 2].map(|back| grown(first.saturating_sub(back)));
                number(
                    Bound::AtLeast(0.95),
                    "growth of the windows in the last 0.2 s without a loss : in the 0.2 s before",
                    "x",
                    exact(last / before),
                    format!(
                        "windows grow by {} in the last 0.2 s before the first loss, and by {} in those before: nothing slows them down. By {} s, {} \
                         packets are dropped, with {} packets of window where the way holds {} and the queue {} more",
                        short(last),
                        short(before),
                        short(film.at[first]),
                        short(film.drops[first]),
                        short(windows),
                        short(film.way()),
                        short(film.queue_max())
                    ),
                )
            })
        },
    },
    Claim {
        id: "P4-C02",
        says: "all losses of SCTP are losses by congestion",
        needs: SCTP,
        check: |data| {
            each(data, SCTP, |name, film| {
                let [dropped, resent, twice] =
                    [&film.drops, &film.resent, &film.twice].map(|counted| film.last(counted));
                number(
                    Bound::Between(0.99, 1.01),
                    format!("chunks sent again that were missing : packets that the queue dropped, {name}"),
                    "x",
                    exact((resent - twice) / dropped),
                    format!(
                        "{name}: {dropped} packets dropped, all of them by the full queue, since links lose nothing; {resent} chunks sent \
                         again, of which {twice} were there already"
                    ),
                )
            })
        },
    },
    Claim {
        id: "P4-C03",
        says: "more SCTP flows: less stability, windows and queue that swing more, more loss (Fig 4 against Fig 2)",
        needs: SCTP_ISOLATED,
        check: |data| {
            let one = |[two, four]: [&str; 2], reading: &str| {
                let (two, four) = (Film::of(data, two, reading), Film::of(data, four, reading));
                let watched = 200.0..850.0;
                let swing = |film: &Film| film.spread(&film.queue, watched.clone());
                let windows = |film: &Film| {
                    let each = film.cwnd.iter().map(|flow| film.spread(flow, watched.clone()));
                    each.sum::<f64>() / film.cwnd.len() as f64
                };
                let lost = |film: &Film| film.last(&film.drops);
                let compared = [
                    ("packets dropped", lost(&two), lost(&four)),
                    ("swing of the queue", swing(&two), swing(&four)),
                    ("swing of a window", windows(&two), windows(&four)),
                ];
                let told: Vec<String> = compared
                    .iter()
                    .map(|(what, two, four)| {
                        format!("{what} {} with two and {} with four", short(*two), short(*four))
                    })
                    .collect();
                let ratios: Vec<Compared> = compared
                    .iter()
                    .map(|(what, two, four)| Compared { place: (*what).to_owned(), ratio: exact(four / two) })
                    .collect();
                let remark = format!(
                    "{}: {}; a swing is a standard deviation in means, from 200 to 850 s, while all four are there.",
                    spoken(reading),
                    told.join(", ")
                );
                Everywhere { what: "four flows : two", bound: Bound::Above(1.0), remark: &remark }
                    .judge(&ratios)
            };
            let judge = |figures: [&str; 2]| and(one(figures, READINGS[0].0), one(figures, READINGS[1].0));
            let finding = judge(["fast/fig2", "fast/fig4"]);
            let why = format!(
                "{} {}. {}",
                finding.why,
                stands_still(data),
                isolated(ENDS, &judge(["fast/recovered2", "fast/recovered4"]))
            );
            Finding { why, ..finding }
        },
    },
    Claim {
        id: "P4-C04",
        says: "FAST has a better throughput than SCTP (Figs 3 and 5 against 2 and 4)",
        needs: FOUR,
        check: |data| {
            let mut compared = Vec::new();
            for (fast, sctp, flows) in [("fast/fig3", "fast/fig2", "two"), ("fast/fig5", "fast/fig4", "four")]
            {
                for (reading, _, spoken) in READINGS {
                    let mean = |id| {
                        let film = Film::of(data, id, reading);
                        film.mean(&film.throughput, 0.0..1_000.0)
                    };
                    let ratio = exact(mean(fast) / mean(sctp));
                    compared.push(Compared { place: format!("{flows} flows, {spoken},"), ratio });
                }
            }
            Everywhere {
                what: "throughput of FAST : SCTP",
                bound: Bound::Above(1.0),
                remark: "Of the bottleneck, over all of the 1000 s.",
            }
            .judge(&compared)
        },
    },
    Claim {
        id: "P4-C05",
        says: "FAST loses no packet at the bottleneck (Figs 3 and 5)",
        needs: &["fast/fig3", "fast/fig5", "fast/start"],
        check: |data| {
            let peaks: Vec<String> = ["0.75", "3", "6"]
                .iter()
                .map(|threshold| {
                    let cells = data.table("fast/start").all(&format!("threshold={threshold}"));
                    let most = |column| cells.iter().map(|cell| cell.mean(column).mean).fold(0.0, f64::max);
                    format!(
                        "with a threshold of {threshold} ms at most {} packets wait and {} are dropped",
                        short(most("queue_peak")),
                        short(most("drops"))
                    )
                })
                .collect();
            let finding = each(data, FAST, |name, film| {
                let dropped = film.last(&film.drops);
                number(
                    Bound::Between(0.0, 0.0),
                    format!("packets dropped in 1000 s, {name}"),
                    "",
                    exact(dropped),
                    format!(
                        "{name}: {dropped} packets dropped, {} waiting at most",
                        short(film.highest(&film.queue))
                    ),
                )
            });
            let why = format!(
                "{}. What could overflow is the multiplicative start, and it stays small because it ends at 0.75 ms of queueing delay. One, two and four \
                 flows that begin together, both readings: {}",
                finding.why,
                peaks.join(", ")
            );
            Finding { why, ..finding }
        },
    },
    Claim {
        id: "P4-C06",
        says: "FAST is stable; each source keeps as many packets in the queue as any other, and has an equal share (Figs 3 and 5)",
        needs: &["fast/fig3", "fast/fig5", "fast/late"],
        check: |data| {
            let finding = each(data, FAST, |name, film| {
                let watched = 250.0..850.0;
                let shares = film.shares(watched.clone());
                let flows = shares.len() as f64;
                let farthest = shares
                    .iter()
                    .map(|share| share * flows)
                    .max_by(|one, other| (one - 1.0).abs().total_cmp(&(other - 1.0).abs()));
                let queue = film.mean(&film.queue, watched.clone());
                number(
                    Bound::Between(0.9, 1.1),
                    format!("the most unequal share, in fair shares, {name}"),
                    "x",
                    exact(farthest.unwrap_or(f64::NAN)),
                    format!(
                        "{name}: shares {}, Jain {}, {} packets waiting ({} α) with a standard deviation of {} %",
                        listed(&shares),
                        short(jain(&shares)),
                        short(queue),
                        short(queue / film.alpha()),
                        short(film.spread(&film.queue, watched) * 100.0)
                    ),
                )
            });
            // A quick run has two flows alone.
            let last = |flows: usize, bases: &str| {
                let cells = data.table("fast/late").all(&format!("flows={flows} bases={bases}"));
                cells.first().map_or("–".to_owned(), |cell| short(cell.mean("last_of_fair").mean))
            };
            let why = format!(
                "{}. It is stable throughout, and equal where flows begin together. One that begins late takes the others' packets for a part of the way, so \
                 that its baseRTT is too long and it keeps α beyond theirs: the last of two, three and four has {}, {} and {} fair shares (predicted {}, {} \
                 and {}), and {}, {} and {} where bases are measured anew (fast/late)",
                finding.why,
                last(2, "least"),
                last(3, "least"),
                last(4, "least"),
                last(2, "predicted"),
                last(3, "predicted"),
                last(4, "predicted"),
                last(2, "refreshed"),
                last(3, "refreshed"),
                last(4, "refreshed"),
            );
            Finding { why, ..finding }
        },
    },
    Claim {
        id: "P4-C07",
        says: "FAST keeps the link around full utilisation (Figs 3 and 5)",
        needs: FAST,
        check: |data| {
            each(data, FAST, |name, film| {
                let used = |between| film.mean(&film.throughput, between) / film.capacity();
                number(
                    Bound::AtLeast(0.95),
                    format!("part of the bottleneck that is used in 1000 s, {name}"),
                    "",
                    exact(used(0.0..1_000.0)),
                    format!(
                        "{name}: {} of it, the start and all joins and leaves included; {} from 250 to 850 s",
                        short(used(0.0..1_000.0)),
                        short(used(250.0..850.0))
                    ),
                )
            })
        },
    },
    Claim {
        id: "P4-C08",
        says: "SCTP swings between under- and full utilisation (Figs 2 and 4)",
        needs: SCTP_ISOLATED,
        check: |data| {
            let judge = |name: &str, film: &Film| {
                let mut used = film.within(&film.throughput, 10.0..1_000.0);
                used.sort_by(f64::total_cmp);
                let part = |part: f64| {
                    used.get((part * (used.len().max(1) - 1) as f64) as usize).copied().unwrap_or(f64::NAN)
                        / film.capacity()
                };
                let full = used.iter().filter(|value| **value > 0.99 * film.capacity()).count() as f64;
                let full = full / used.len().max(1) as f64;
                let low = number(
                    Bound::Below(0.9),
                    format!("part of the bottleneck used in the worst tenth of the time, {name}"),
                    "",
                    exact(part(0.1)),
                    format!(
                        "{name}: {} of the bottleneck or less for a tenth of the time after 10 s",
                        short(part(0.1))
                    ),
                );
                let high = number(
                    Bound::AtLeast(0.1),
                    format!("part of the time with a full bottleneck, {name}"),
                    "",
                    exact(full),
                    format!("more than 99 % of it for {} % of the time", short(full * 100.0)),
                );
                and(low, high)
            };
            let finding = each(data, SCTP, judge);
            let changed = isolated(ENDS, &each(data, RECOVERED, judge));
            Finding { why: format!("{}. {}. {changed}", finding.why, stands_still(data)), ..finding }
        },
    },
    Claim {
        id: "P4-C09",
        says: "the first SCTP flow's exponential phase stops too early, far from congestion, and a long linear climb follows (Fig 4)",
        needs: &["fast/fig4", "fast/threshold", "fast/forty"],
        check: |data| {
            let judge = |start: &str, film: &Film| {
                let at = |second: f64| film.value(&film.cwnd[0], second);
                let begins = at(15.0);
                let a_second = (at(45.0) - begins) / 30.0 / film.shorter();
                let climb = a_second * film.round_trip();
                let early = number(
                    Bound::Below(0.75),
                    "window from which the first flow climbs : what the way holds",
                    "x",
                    exact(begins / film.way()),
                    format!(
                        "{start}; of the {} packets that the way holds the flow has {} at 15 s and {} at 45 s; time-outs in the first 50 s: {}",
                        short(film.way()),
                        short(begins),
                        short(at(45.0)),
                        film.value(&film.timeouts, 49.0)
                    ),
                );
                let linear = number(
                    Bound::Between(0.5, 1.5),
                    "packets a round trip by which it climbs",
                    "",
                    exact(climb),
                    format!(
                        "from 15 to 45 s by {} packets a round trip, and the bottleneck is used to {} % meanwhile",
                        short(climb),
                        short(film.mean(&film.throughput, 15.0..45.0) / film.capacity() * 100.0)
                    ),
                );
                and(early, linear)
            };
            let overflows = "the first slow start ends at an overflowing queue (P4-C01), and with a window of one a lost packet is repaired in a round trip";
            let finding = both(data, "fast/fig4", |film| judge(overflows, film));
            let ends_early = "the first slow start ends at the threshold";
            let changed = both(data, "fast/threshold", |film| judge(ends_early, film));
            let drops = READINGS.map(|(reading, ..)| {
                let film = Film::of(data, "fast/threshold", reading);
                short(film.value(&film.drops, 102.8))
            });
            let part = both(data, "fast/forty", |film| judge(ends_early, film));
            let why = format!(
                "{}. {}. With it {} and {} packets are dropped in the first 102.8 s (P4-C10). {}. Slow start up to an overflowing queue (P4-C01) \
                 asks for a high threshold, and this claim for a low one",
                finding.why,
                isolated("With ns-2's initial threshold of 65,536 bytes (fast/threshold)", &changed),
                drops[0],
                drops[1],
                isolated(PART, &part)
            );
            Finding { why, ..finding }
        },
    },
    Claim {
        id: "P4-C10",
        says: "packets are dropped between 0 and 102.8 s, after flows 2 and 3 have joined at 50 and 100 s (Fig 4)",
        needs: &["fast/fig4"],
        check: |data| {
            both(data, "fast/fig4", |film| {
                let until = |second| film.value(&film.drops, second);
                let joined = until(102.8) - until(50.0);
                number(
                    Bound::AtLeast(1.0),
                    "packets dropped from 50 to 102.8 s",
                    "",
                    exact(joined),
                    format!(
                        "{} packets in the first 50 s, {} from there to 102.8 s, {} of {} in all by then. Windows are cut at {} s",
                        short(until(50.0)),
                        short(joined),
                        short(until(102.8)),
                        short(film.last(&film.drops)),
                        film.cuts_told(0.0..160.0)
                    ),
                )
            })
        },
    },
    Claim {
        id: "P4-C11",
        says: "windows are cut again at about 200 s, after flow 4 has joined at 150 s, and at about 800 s (Fig 4)",
        needs: &["fast/fig4", "fast/recovered4", "fast/threshold", "fast/forty"],
        check: |data| {
            let judge = |film: &Film| {
                let cuts = film.cuts(102.8..1_000.0);
                let nearest = |to: f64| {
                    let near = cuts
                        .iter()
                        .copied()
                        .min_by(|one, other| (one - to).abs().total_cmp(&(other - to).abs()));
                    near.unwrap_or(f64::NAN)
                };
                let one = |to: f64| {
                    let why = match cuts.is_empty() {
                        true => format!("there is none near {to} s"),
                        false => format!("{} s is the nearest to {to} s", short(nearest(to))),
                    };
                    let what = format!("the cut that is nearest to {to} s");
                    number(Bound::Between(0.9 * to, 1.1 * to), what, "s", exact(nearest(to)), why)
                };
                let finding = and(one(200.0), one(800.0));
                let why = format!(
                    "{}. After 102.8 s the queue overflows at {} s",
                    finding.why,
                    film.cuts_told(102.8..1_000.0)
                );
                Finding { why, ..finding }
            };
            let finding = both(data, "fast/fig4", judge);
            let forty = Film::of(data, "fast/forty", READINGS[0].0);
            let told = |at: Option<&f64>| at.map_or_else(|| "no".to_owned(), |at| short(*at));
            let first =
                |figure: &str| told(Film::of(data, figure, READINGS[0].0).cuts(150.0..1_000.0).first());
            let round_trip = 2.0 * READINGS[0].1.as_secs_f64();
            let part = super::THRESHOLD_PART * super::way(READINGS[0].1);
            let predicted = |threshold: f64| {
                let all = overflows(threshold, round_trip);
                all.into_iter().filter(|at| (151.0..850.0).contains(at)).collect::<Vec<f64>>()
            };
            let period = |times: &[f64]| match times {
                [first, .., last] => short((last - first) / (times.len() - 1) as f64),
                _ => "no".to_owned(),
            };
            let why = format!(
                "{}. The fourth flow begins at 150 s, and where slow start ends decides when the queue overflows next, with 100 ms there and back: at {} s \
                 without a threshold, at {} s with one of 40 % of what the way holds (predicted: {} s), at {} s with ns-2's (predicted: {} s). The prediction: \
                 windows grow by a packet a round trip and all halve at an overflow, {} s after the one before; measured are {} s in the mean, because at some \
                 overflows not all flows lose a packet ({} of 4 at the first). {}. {}. {}. {}",
                finding.why,
                first("fast/fig4"),
                first("fast/forty"),
                told(predicted(part).first()),
                first("fast/threshold"),
                told(predicted(f64::from(super::THRESHOLD) / f64::from(super::run::PACKET - 48)).first()),
                period(&predicted(part)),
                period(&forty.cuts(150.0..850.0)),
                forty.halved(forty.cuts(150.0..850.0).first().copied().unwrap_or(f64::NAN)),
                isolated(&format!("{PART}, {}", READINGS[0].2), &judge(&forty)),
                isolated(
                    &format!("{PART}, {}", READINGS[1].2),
                    &judge(&Film::of(data, "fast/forty", READINGS[1].0))
                ),
                isolated(ENDS, &both(data, "fast/recovered4", judge)),
                isolated(
                    "With ns-2's initial threshold of 65,536 bytes (fast/threshold)",
                    &both(data, "fast/threshold", judge)
                )
            );
            Finding { why, ..finding }
        },
    },
    Claim {
        id: "P4-C12",
        says: "beyond the link's rate a larger window brings nothing and only fills the buffer (Fig 4)",
        needs: SCTP,
        check: |data| fills(&films(data, SCTP)),
    },
    Claim {
        id: "P4-C13",
        says: "the benefit over the loss-based approach is small at low speed and significant at high speed",
        needs: &["fast/rate"],
        check: |data| {
            let table = data.table("fast/rate");
            let benefit = |rate: &str, queue: &str| {
                let used = |variant| {
                    table.at(&format!("rate={rate} queue={queue} variant={variant}")).mean("utilisation")
                };
                used("fast").mean / used("sctp").mean
            };
            let told = |queue: &str| {
                let all = ["1", "3", "10", "30", "100", "300", "1000"];
                all.map(|rate| format!("{} at {rate}", short(benefit(rate, queue)))).join(", ")
            };
            let why = format!(
                "times as much as SCTP has, by Mbit/s, with the paper's 3000 packets: {}; with 45 ms of queue: {}",
                told("packets"),
                told("time")
            );
            let small = number(
                Bound::Below(1.1),
                "throughput of FAST : SCTP at 1 Mbit/s, 3000 packets",
                "x",
                exact(benefit("1", "packets")),
                why,
            );
            let large = number(
                Bound::Above(1.1),
                "throughput of FAST : SCTP at 1 Gbit/s, 3000 packets",
                "x",
                exact(benefit("1000", "packets")),
                "Small is taken for less than a tenth, significant for more",
            );
            and(small, large)
        },
    },
    Claim {
        id: "P4-C14",
        says: "FAST's throughput adapts to flows that join and leave (Fig 5)",
        needs: &["fast/fig5"],
        check: |data| {
            both(data, "fast/fig5", |film| {
                let after = film.adapts();
                let longest = after.iter().map(|(.., seconds)| *seconds).fold(0.0, f64::max);
                let told: Vec<String> =
                    after.iter().map(|(what, seconds)| format!("{what} {} s", short(*seconds))).collect();
                number(
                    Bound::Below(25.0),
                    "longest time until flows have what they will have until the next comes or goes",
                    "s",
                    exact(longest),
                    format!(
                        "until each flow's throughput is within a tenth of the link of what it is before the next change: {}",
                        told.join(", ")
                    ),
                )
            })
        },
    },
];

/// The change that isolates where slow start ends.
const PART: &str = "With a threshold of 40 % of what the way holds (fast/forty)";
/// The change that isolates what a fast recovery does after a time-out.
const ENDS: &str = "With a time-out that ends fast recovery (RFC 9260; fast/recovered2 and fast/recovered4)";

/// What becomes of a claim with one change.
fn isolated(change: &str, finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Holds => "the claim holds",
        _ => "the claim does not hold",
    };
    format!("{change} {verdict}: {}", finding.why)
}

fn exact(value: f64) -> Estimate {
    Estimate::exact(value, 1)
}

fn spoken(reading: &str) -> &'static str {
    READINGS.iter().find(|(name, ..)| *name == reading).map_or("", |(.., spoken)| spoken)
}

fn listed(values: &[f64]) -> String {
    values.iter().map(|value| short(*value)).collect::<Vec<_>>().join(", ")
}

/// A finding for both readings of the delay of a figure.
fn both(data: &Data, figure: &str, judge: impl Fn(&Film) -> Finding) -> Finding {
    let one = |reading: &str| {
        let finding = judge(&Film::of(data, figure, reading));
        let measured = finding
            .figure
            .map(|measured| Measured { what: format!("{}, {}", measured.what, spoken(reading)), ..measured });
        Finding { why: format!("{}: {}", spoken(reading), finding.why), figure: measured, ..finding }
    };
    and(one(READINGS[0].0), one(READINGS[1].0))
}

/// A finding for both readings of several figures.
fn each(data: &Data, figures: &[&str], judge: impl Fn(&str, &Film) -> Finding) -> Finding {
    let all = films(data, figures);
    all.iter().map(|(name, film)| judge(name, film)).reduce(and).expect("there is a figure")
}

/// The runs of these figures with each reading of the delay, and their names.
fn films(data: &Data, figures: &[&str]) -> Vec<(String, Film)> {
    let one = |(figure, reading): (&str, &str)| {
        let flows = if figure.ends_with(['2', '3']) { "two" } else { "four" };
        (format!("{flows} flows, {}", spoken(reading)), Film::of(data, figure, reading))
    };
    let all = figures.iter().flat_map(|figure| READINGS.map(|(reading, ..)| (*figure, reading)));
    all.map(one).collect()
}

/// Decides whether larger windows only fill the queue and do not increase utilisation. A run whose queue
/// never fills decides nothing.
fn fills(films: &[(String, Film)]) -> Finding {
    let (seen, unseen): (Vec<_>, Vec<_>) = films
        .iter()
        .map(|(name, film)| (name, film, film.filling()))
        .partition(|(.., places)| places.len() > 1);
    let judge = |(name, film, places): (&String, &Film, Vec<usize>)| {
        let windows: Vec<f64> =
            places.iter().map(|place| film.cwnd.iter().map(|flow| flow[*place]).sum()).collect();
        let queue: Vec<f64> = places.iter().map(|place| film.queue[*place]).collect();
        let used = places.iter().map(|place| film.throughput[*place]).sum::<f64>()
            / places.len() as f64
            / film.capacity();
        let slope = slope(&windows, &queue);
        let filled = number(
            Bound::Between(0.9, 1.1),
            format!("packets in the queue for each more of window, {name}"),
            "",
            exact(slope),
            format!(
                "{name}: of each packet by which the windows grow beyond what the way holds, {} are in the queue",
                short(slope)
            ),
        );
        let nothing = number(
            Bound::Between(0.99, 1.01),
            format!("part of the bottleneck used while the queue fills, {name}"),
            "",
            exact(used),
            format!(
                "and {} of the bottleneck is used, whatever the window ({} samples)",
                short(used),
                places.len()
            ),
        );
        and(filled, nothing)
    };
    let untold: Vec<String> = unseen
        .iter()
        .map(|(name, ..)| {
            format!("{name}: the queue is never seen to fill, but by a slow start that overflows it")
        })
        .collect();
    match seen.into_iter().map(judge).reduce(and) {
        Some(finding) => {
            let why = [vec![finding.why], untold].concat().join("; ");
            Finding { why, ..finding }
        }
        None => Finding { verdict: Verdict::DoesNotHold, figure: None, why: untold.join("; ") },
    }
}

/// The slope of one quantity against another, by least squares.
fn slope(x: &[f64], y: &[f64]) -> f64 {
    let count = x.len().max(1) as f64;
    let (mean_x, mean_y) = (x.iter().sum::<f64>() / count, y.iter().sum::<f64>() / count);
    let above: f64 = x.iter().zip(y).map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    above / x.iter().map(|x| (x - mean_x).powi(2)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::super::RATE;
    use super::*;

    fn film(queue: &[f64], cwnd: &[f64], drops: &[f64]) -> Film {
        let at: Vec<f64> = (0..queue.len()).map(|place| place as f64 * 0.2 + 900.0).collect();
        let full = vec![RATE as f64 / 1e6; queue.len()];
        Film {
            at,
            throughput: full.clone(),
            queue: queue.to_vec(),
            drops: drops.to_vec(),
            timeouts: vec![0.0; queue.len()],
            resent: vec![0.0; queue.len()],
            twice: vec![0.0; queue.len()],
            cwnd: vec![cwnd.to_vec()],
            goodput: vec![full],
            reading: READINGS[0].0.to_owned(),
        }
    }

    #[test]
    fn consecutive_overflows_are_one_episode() {
        let mut drops = vec![0.0; 200];
        for (place, drops) in drops.iter_mut().enumerate() {
            *drops = if place < 20 {
                0.0
            } else if place < 22 {
                5.0
            } else if place < 100 {
                9.0
            } else {
                12.0
            };
        }
        let film = film(&[500.0; 200], &[7_000.0; 200], &drops);
        assert_eq!(film.cuts(0.0..1_000.0).len(), 2);
        assert_eq!(film.cuts_told(0.0..1_000.0), "904, 920");
    }

    #[test]
    fn a_repair_with_a_window_of_one_and_the_flows_that_halve_are_found() {
        let part = |place: usize| if (10..60).contains(&place) { 1.0 } else { 400.0 };
        let mut windows: Vec<f64> = (0..5_000).map(part).collect();
        windows[4_000..].fill(200.0);
        let drops: Vec<f64> = (0..5_000).map(|place| if place < 5 { 0.0 } else { 60.0 }).collect();
        let mut film = film(&[0.0; 5_000], &windows, &drops);
        film.at = (0..5_000).map(|place| place as f64 * 0.2).collect();
        film.resent = (0..5_000).map(|place| if place < 10 { 0.0 } else { 10.0 }).collect();
        let (left, seconds) = film.repair().expect("there is one");
        assert_eq!((left, (seconds * 10.0).round()), (50.0, 100.0));
        assert_eq!((film.halved(800.0), film.halved(700.0)), (1, 0));
        film.cwnd = vec![vec![400.0; 5_000]];
        assert_eq!(film.repair(), None);
    }

    #[test]
    fn a_run_whose_queue_never_fills_decides_nothing() {
        let queue: Vec<f64> = (0..100).map(|place| 400.0 + f64::from(place)).collect();
        let cwnd: Vec<f64> = queue.iter().map(|queue| queue + 6_667.0).collect();
        let fills_it = || ("two".to_owned(), film(&queue, &cwnd, &[0.0; 100]));
        let empty = || ("four".to_owned(), film(&[0.0; 100], &[100.0; 100], &[0.0; 100]));
        for films in [[fills_it(), empty()], [empty(), fills_it()]] {
            let finding = fills(&films);
            assert_eq!(finding.verdict, Verdict::Holds);
            assert!(finding.figure.is_some_and(|measured| measured.value.mean.is_finite()));
            assert!(finding.why.contains("four: the queue is never seen to fill"), "{}", finding.why);
        }
        assert_eq!(fills(&[empty()]).verdict, Verdict::DoesNotHold);
    }

    #[test]
    fn a_queue_that_takes_every_additional_packet_has_slope_one() {
        let queue: Vec<f64> = (0..100).map(|place| 400.0 + f64::from(place)).collect();
        let cwnd: Vec<f64> = queue.iter().map(|queue| queue + 6_667.0).collect();
        let film = film(&queue, &cwnd, &[0.0; 100]);
        let places = film.filling();
        assert_eq!(places.len(), 90);
        assert!((slope(&cwnd, &queue) - 1.0).abs() < 1e-9);
        assert!((film.way() - 6_666.7).abs() < 0.1);
    }
}
