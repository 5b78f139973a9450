//! Limits for the cost of early losses, and whether they are kept.

use crate::claim::{Claim, Finding, Holds, Measured};
use crate::data::Data;
use crate::stats::{Estimate, short};
use crate::table::{Cell, Rows, Tail};

/// All claims, in order.
pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        id: "E-C01",
        says: "a lost INIT or INIT ACK costs at most 300 ms and one round trip, on each path, for 100 files and for one",
        needs: &["early/single"],
        check: |data| rows(data.scene("early/single"), "single packets", |row| row.is("kind", "init")),
    },
    Claim {
        id: "E-C02",
        says: "any other of the first 60 packets of either side that is lost costs at most two round trips and 100 ms",
        needs: &["early/single"],
        check: |data| {
            rows(data.scene("early/single"), "single packets", |row| {
                !row.is("kind", "init") && row.is("place", "first")
            })
        },
    },
    Claim {
        id: "E-C03",
        says: "of the last 10 packets of either side, a loss is found within a round trip of that packet and a quarter, queues \
               included: it costs no more than that and 50 ms",
        needs: &["early/single"],
        check: |data| last(data.scene("early/single")),
    },
    Claim {
        id: "E-C04",
        says: "any two lost packets among the first 40 of either side cost at most 1 s and four round trips together",
        needs: &["early/pairs"],
        check: |data| rows(data.scene("early/pairs"), "pairs", |_| true),
    },
    tail::<0>(
        "E-C05",
        "3 Mbit/s, 1 ms, 10 % lost: median ≤ 1.03, p95 ≤ 1.12, p99 ≤ 1.35, worst ≤ 4 of the limit; none fails",
    ),
    tail::<1>(
        "E-C06",
        "1 Mbit/s, 35 ms, 10 % lost: median ≤ 1.03, p95 ≤ 1.06, p99 ≤ 1.12, worst ≤ 2 of the limit; none fails",
    ),
    tail::<2>(
        "E-C07",
        "256 kbit/s, 125 ms, 10 % lost: median ≤ 1.03, p95 ≤ 1.06, p99 ≤ 1.12, worst ≤ 2 of the limit; none fails",
    ),
    Claim {
        id: "E-C08",
        says: "30 % lost, the papers' three paths: p99 ≤ 4 of the limit, and fewer than one run in 1,000 fails",
        needs: &["early/tails"],
        check: thirty,
    },
    Claim {
        id: "E-C09",
        says: "no sender is silent for more than four round trips and 1 s while it has something to send and fewer than eight packets in a row \
               were lost: where one packet is lost, or two",
        needs: &["early/single", "early/pairs"],
        check: silent_scenes,
    },
    Claim {
        id: "E-C10",
        says: "the same in each run with random losses, whatever the path, the loss and its bursts, and with two paths",
        needs: &["early/tails"],
        check: silent_tails,
    },
];

/// A row of a scene.
struct Row<'a> {
    rows: &'a Rows,
    row: &'a [String],
}

impl Row<'_> {
    fn text(&self, column: &str) -> &str {
        let place = self.rows.columns.iter().position(|its| its == column);
        &self.row[place.unwrap_or_else(|| panic!("there is no column `{column}`"))]
    }

    fn is(&self, column: &str, value: &str) -> bool {
        self.text(column) == value
    }

    fn number(&self, column: &str) -> f64 {
        self.text(column).parse().unwrap_or(f64::NAN)
    }

    /// The lost packets, in the notation of `braidlab replay`.
    fn lost(&self) -> String {
        let second = self.rows.columns.iter().any(|column| column == "from_2");
        let mut text = format!("{} {}:{}", self.text("path"), self.text("from"), self.text("packet"));
        if second {
            text.push_str(&format!(",{}:{}", self.text("from_2"), self.text("packet_2")));
        } else if self.is("files", "one") {
            text.push_str(" of one file");
        }
        text
    }
}

/// Whether a number of each row is at most this fraction of its limit.
fn judge(rows: &Rows, what: &str, of: impl Fn(&Row<'_>) -> Option<f64>) -> Finding {
    let all = rows.rows.iter().map(|row| Row { rows, row });
    let mut judged: Vec<(f64, Row<'_>)> = all.filter_map(|row| of(&row).map(|part| (part, row))).collect();
    judged.sort_by(|a, b| b.0.total_cmp(&a.0));
    let over = judged.iter().filter(|(part, _)| *part > 1.0).count();
    let worst = judged.first().unwrap_or_else(|| panic!("{what}: no runs"));
    let mut why = format!(
        "{over} of {} runs exceed what is allowed; the worst takes {} of it ({})",
        judged.len(),
        short(worst.0),
        worst.1.lost()
    );
    if over > 1 {
        let next: Vec<String> = judged[1..over.min(6)]
            .iter()
            .map(|(part, row)| format!("{} {}", row.lost(), short(*part)))
            .collect();
        why.push_str(&format!("; then {}", next.join(", ")));
    }
    let measured = Measured {
        what: format!("{what}, worst, of what is allowed"),
        unit: "x",
        value: Estimate::exact(worst.0, judged.len()),
    };
    Finding::decided(Holds::from(over == 0), measured, why)
}

/// Whether the cost in each of these rows is within its limit.
fn rows(rows: &Rows, what: &str, which: impl Fn(&Row<'_>) -> bool) -> Finding {
    judge(rows, what, |row| which(row).then(|| row.number("cost_seconds") / row.number("allowed_seconds")))
}

/// Whether a loss at the end is detected in time. The round trip is that of the lost packet: the sender
/// cannot detect the loss earlier, because the job's own queue delays the packet.
fn last(rows: &Rows) -> Finding {
    judge(rows, "last packets", |row| {
        let part = row.number("cost_seconds").max(0.0) / (row.number("found_seconds") + 0.05);
        row.is("place", "last").then_some(part)
    })
}

/// The targets of a path at 10 % loss: its name, and median, p95, p99 and maximum.
const REACH: [(&str, [f64; 4]); 3] =
    [("lan", [1.03, 1.12, 1.35, 4.0]), ("wan", [1.03, 1.06, 1.12, 2.0]), ("sat", [1.03, 1.06, 1.12, 2.0])];

const fn tail<const N: usize>(id: &'static str, says: &'static str) -> Claim {
    Claim { id, says, needs: &["early/tails"], check: |data| ten(data, N) }
}

fn ten(data: &Data, path: usize) -> Finding {
    let (path, reach) = REACH[path];
    let cells = data.table("early/tails").all(&format!("path={path} losses=independent loss=0.1"));
    let cell = cells.first().unwrap_or_else(|| panic!("early/tails has {path} at 10 %"));
    let tail = cell.tail("of_limit");
    let Tail { p50, p95, p99, worst, failures, .. } = tail;
    let parts: Vec<f64> = [p50, p95, p99, worst].iter().zip(reach).map(|(is, to_be)| is / to_be).collect();
    let names = ["median", "p95", "p99", "worst"];
    let missed: Vec<&str> =
        names.iter().zip(&parts).filter(|(_, part)| **part > 1.0).map(|(name, _)| *name).collect();
    let least = (0..4).max_by(|a, b| parts[*a].total_cmp(&parts[*b])).unwrap_or(0);
    let missed = if missed.is_empty() {
        "all are reached".to_owned()
    } else {
        format!("not reached: {}", missed.join(", "))
    };
    let measured = Measured {
        what: format!("{path}, {} of the limit, to be at most {}", names[least], reach[least]),
        unit: "x",
        value: Estimate::exact([p50, p95, p99, worst][least], tail.runs),
    };
    let holds = parts.iter().all(|part| *part <= 1.0) && failures == 0;
    Finding::decided(Holds::from(holds), measured, format!("{tail}; {missed}"))
}

fn thirty(data: &Data) -> Finding {
    let mut cells = data.table("early/tails").all("losses=independent loss=0.3");
    cells.retain(|cell| cell.point().name("path") != "geo");
    let tails: Vec<(&str, Tail)> =
        cells.iter().map(|cell| (cell.point().name("path"), cell.tail("of_limit"))).collect();
    assert!(!tails.is_empty(), "early/tails has cells at 30 %");
    let is_good = |tail: &Tail| tail.p99 <= 4.0 && tail.failures * 1_000 < tail.runs;
    let worst = tails.iter().max_by(|a, b| a.1.p99.total_cmp(&b.1.p99)).expect("there is one");
    let why: Vec<String> = tails.iter().map(|(path, tail)| format!("{path}: {tail}")).collect();
    let measured = Measured {
        what: format!("{}, p99 of the limit at 30 %", worst.0),
        unit: "x",
        value: Estimate::exact(worst.1.p99, worst.1.runs),
    };
    Finding::decided(Holds::from(tails.iter().all(|(_, tail)| is_good(tail))), measured, why.join("; "))
}

fn silent_scenes(data: &Data) -> Finding {
    let part = |row: &Row<'_>| Some(row.number("silent_seconds") / row.number("silent_allowed"));
    let single = judge(data.scene("early/single"), "longest silence after one loss", part);
    let pairs = judge(data.scene("early/pairs"), "longest silence after two losses", part);
    crate::papers::judge::and(single, pairs)
}

fn silent_tails(data: &Data) -> Finding {
    let cells = data.table("early/tails").all("");
    let judged: Vec<(&Cell<'_>, Tail, usize, f64)> = cells
        .iter()
        .map(|cell| {
            let allowed = super::silence_allowed(cell.point().name("path"));
            let silent = cell.values("silent");
            let over = silent.iter().filter(|silent| **silent > allowed).count();
            (cell, cell.tail("silent"), over, allowed)
        })
        .collect();
    let worst = judged
        .iter()
        .max_by(|a, b| (a.1.worst / a.3).total_cmp(&(b.1.worst / b.3)))
        .unwrap_or_else(|| panic!("early/tails has no runs"));
    let (over, runs) = judged.iter().fold((0, 0), |sum, cell| (sum.0 + cell.2, sum.1 + cell.1.runs));
    let mut why = format!(
        "{over} of {runs} runs have a longer silence; the longest, of {} s where {} s are allowed, at {} (seed {})",
        short(worst.1.worst),
        short(worst.3),
        worst.0.point(),
        worst.1.worst_seed
    );
    let some: Vec<String> = judged
        .iter()
        .filter(|cell| cell.2 > 0)
        .map(|cell| format!("{}: {} of {}", cell.0.point(), cell.2, cell.1.runs))
        .collect();
    if !some.is_empty() {
        why.push_str(&format!("; {}", some.join(", ")));
    }
    let measured = Measured {
        what: "the longest silence, of what is allowed".to_owned(),
        unit: "x",
        value: Estimate::exact(worst.1.worst / worst.3, runs),
    };
    Finding::decided(Holds::from(over == 0), measured, why)
}
