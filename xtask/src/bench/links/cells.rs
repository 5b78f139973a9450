//! The links and the transfers of `cargo xtask bench links`.

use std::fmt;
use std::path::Path;

use super::traces::Kind;

/// What is transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Files of equal size.
    Files { files: usize, bytes: u64 },
    /// The files below crates/ of this commit.
    Source,
}

impl Work {
    pub(super) fn is_one_file(self) -> bool {
        matches!(self, Self::Files { files: 1, .. })
    }

    /// Whether a program that transfers one file after another is worth a run.
    pub(super) fn has_few_files(self) -> bool {
        matches!(self, Self::Files { files: ..=100, .. })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files { files: 1, .. } => f.write_str("one file"),
            Self::Files { files, bytes } => write!(f, "{files} files of {} kB", bytes / 1000),
            Self::Source => f.write_str("the source files of crates/"),
        }
    }
}

/// A link, with the same properties both ways but for a trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    name: &'static str,
    /// What it resembles.
    pub(super) what: &'static str,
    /// With a trace: the rate to the server, and about the mean of the trace.
    mbit: u32,
    /// One way.
    pub(super) delay_ms: f64,
    /// The probability that a packet is lost, in bursts too.
    loss: f64,
    queue: &'static str,
    /// Further properties, as `braidlab net up --path` takes them.
    more: &'static str,
    /// The trace of the rate to the client.
    pub(super) trace: Option<Kind>,
    /// The size of the file of `bulk`; 0: this link has no such cell, but one of its own.
    bulk_mb: u64,
}

const PLAIN: Link = Link {
    name: "",
    what: "",
    mbit: 20,
    delay_ms: 20.0,
    loss: 0.0,
    queue: "100kB",
    more: "",
    trace: None,
    bulk_mb: 0,
};

/// Each of them carries one large file, 2,000 small ones and a source tree.
const LINKS: [Link; 9] = [
    Link {
        name: "geo",
        what: "a geostationary satellite",
        mbit: 50,
        delay_ms: 150.0,
        queue: "1800kB",
        bulk_mb: 100,
        ..PLAIN
    },
    Link {
        name: "leo",
        what: "satellites in a low orbit, 100 ms without a link every 15 s",
        mbit: 80,
        delay_ms: 25.0,
        loss: 0.0002,
        queue: "500kB",
        more: ",jitter=4ms,flap=15s:100ms",
        bulk_mb: 160,
        ..PLAIN
    },
    Link {
        name: "lte",
        what: "a generated trace like LTE's, not a measurement",
        mbit: 10,
        delay_ms: 25.0,
        queue: "1MB",
        trace: Some(Kind::Lte),
        bulk_mb: 30,
        ..PLAIN
    },
    Link {
        name: "wifi",
        what: "a generated trace like that of busy Wi-Fi, not a measurement",
        mbit: 40,
        delay_ms: 4.0,
        queue: "250kB",
        trace: Some(Kind::Wifi),
        bulk_mb: 50,
        ..PLAIN
    },
    Link {
        name: "intercontinental",
        what: "a long cable with few losses",
        mbit: 100,
        delay_ms: 100.0,
        loss: 0.00005,
        queue: "1MB",
        bulk_mb: 100,
        ..PLAIN
    },
    Link {
        name: "radio",
        what: "losses in bursts of three packets, 1.3 % in all",
        mbit: 10,
        delay_ms: 15.0,
        loss: 0.013,
        more: ",burst-loss=0.0044:0.3333",
        bulk_mb: 8,
        ..PLAIN
    },
    Link {
        name: "queue10",
        what: "a queue of 10 packets",
        delay_ms: 15.0,
        queue: "10p",
        bulk_mb: 15,
        ..PLAIN
    },
    Link {
        name: "queue50",
        what: "a queue of 50 packets",
        delay_ms: 15.0,
        queue: "50p",
        bulk_mb: 15,
        ..PLAIN
    },
    Link { name: "bloat", what: "a queue of 2 s", mbit: 10, queue: "2500kB", bulk_mb: 10, ..PLAIN },
];

/// Links with one cell of their own.
const SPECIAL: [(Link, Work); 6] = [
    (
        Link {
            name: "lossy-queue20",
            what: "a queue of 20 packets, .5 % lost",
            delay_ms: 10.0,
            loss: 0.005,
            queue: "20p",
            ..PLAIN
        },
        Work::Files { files: 100, bytes: 50_000 },
    ),
    (
        Link {
            name: "long-lossy",
            what: "a fast long path, .1 % lost",
            mbit: 100,
            delay_ms: 45.0,
            loss: 0.001,
            queue: "1MB",
            ..PLAIN
        },
        Work::Files { files: 1, bytes: 200_000_000 },
    ),
    (
        Link {
            name: "reordering",
            what: "a third of the packets is 5 ms late",
            more: ",reorder=0.33:5ms",
            ..PLAIN
        },
        HUNDRED,
    ),
    (
        Link {
            name: "bursts",
            what: "losses in bursts of three packets, 1.3 % in all",
            loss: 0.013,
            more: ",burst-loss=0.0044:0.3333",
            ..PLAIN
        },
        HUNDRED,
    ),
    (
        Link {
            name: "damage",
            what: "1 % duplicated, .1 % corrupted",
            more: ",duplicate=0.01,corrupt=0.001",
            ..PLAIN
        },
        HUNDRED,
    ),
    (
        Link { name: "queue4s", what: "a queue of 5 MB", mbit: 10, delay_ms: 40.0, queue: "5MB", ..PLAIN },
        Work::Files { files: 1, bytes: 12_000_000 },
    ),
];

const HUNDRED: Work = Work::Files { files: 100, bytes: 200_000 };
const SMALL: Work = Work::Files { files: 2_000, bytes: 4_000 };

/// Bytes of the source tree, about, for the time that a cell is expected to take.
const SOURCE_BYTES: u64 = 10_000_000;

impl Link {
    /// The rate to the client, for a trace its mean.
    pub(super) fn bits_per_second(&self) -> f64 {
        self.trace.map_or_else(|| f64::from(self.mbit), Kind::mean_mbit) * 1e6
    }

    /// The argument of `braidlab net up --path`.
    pub(super) fn path(&self, trace: &Path) -> String {
        let Self { mbit, delay_ms, loss, queue, more, .. } = self;
        // Losses in bursts are among the further properties.
        let loss =
            if more.contains("burst-loss") || *loss == 0.0 { String::new() } else { format!(",loss={loss}") };
        let down = self.trace.map(|_| format!("/trace={},delay={delay_ms}ms,queue={queue}", trace.display()));
        format!("rate={mbit}mbit,delay={delay_ms}ms,queue={queue}{loss}{more}{}", down.unwrap_or_default())
    }

    /// Whether it loses packets at random.
    pub(super) fn loses(&self) -> bool {
        self.loss > 0.0
    }

    /// Whether the link changes with time.
    pub(super) fn varies(&self) -> bool {
        self.trace.is_some() || self.more.contains("flap")
    }

    /// The least time of a transfer, in seconds.
    pub(super) fn limit(&self, bytes: u64) -> f64 {
        let rate = self.bits_per_second() * (1.0 - self.loss);
        bytes as f64 * 8.0 * 1480.0 / 1424.0 / rate + 2.0 * self.delay_ms / 1000.0
    }
}

/// A link and what it carries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    pub(super) link: Link,
    pub(super) work: Work,
    /// The last word of the name, if the link has several cells.
    kind: &'static str,
    /// Whether `--quick` has it.
    pub(super) is_quick: bool,
}

impl Cell {
    pub(super) fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for (place, link) in LINKS.into_iter().enumerate() {
            let bulk = Work::Files { files: 1, bytes: link.bulk_mb * 1_000_000 };
            for (column, (kind, work)) in
                [("bulk", bulk), ("small", SMALL), ("source", Work::Source)].into_iter().enumerate()
            {
                cells.push(Self { link, work, kind, is_quick: column == place % 3 });
            }
        }
        cells.extend(SPECIAL.map(|(link, work)| Self { link, work, kind: "", is_quick: true }));
        cells
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.link.name, self.kind).trim_end().to_owned()
    }

    /// The seconds that a transfer takes about.
    pub(super) fn expected(&self, is_slow: bool) -> f64 {
        let bytes = match self.work {
            Work::Files { files, bytes } => files as u64 * bytes,
            Work::Source => SOURCE_BYTES,
        };
        let factor = if is_slow { 3.0 } else { 1.35 };
        factor * self.link.limit(bytes) + 10.0 * self.link.delay_ms / 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_link_has_one_quick_cell() {
        let cells = Cell::all();
        let mut names: Vec<_> = cells.iter().map(Cell::name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), cells.len());
        assert_eq!(cells.iter().filter(|cell| cell.is_quick).count(), LINKS.len() + SPECIAL.len());
    }

    #[test]
    fn paths_name_all_properties() {
        let path = |name: &str| {
            let cell = Cell::all().into_iter().find(|cell| cell.name() == name).unwrap();
            cell.link.path(Path::new("/t"))
        };
        assert_eq!(
            path("leo bulk"),
            "rate=80mbit,delay=25ms,queue=500kB,loss=0.0002,jitter=4ms,flap=15s:100ms"
        );
        assert_eq!(path("bursts"), "rate=20mbit,delay=20ms,queue=100kB,burst-loss=0.0044:0.3333");
        assert_eq!(path("lte small"), "rate=10mbit,delay=25ms,queue=1MB/trace=/t,delay=25ms,queue=1MB");
    }

    #[test]
    fn traces_and_outages_change_with_time() {
        let varying = LINKS.iter().filter(|link| link.varies()).map(|link| link.name);
        assert_eq!(varying.collect::<Vec<_>>(), ["leo", "lte", "wifi"]);
    }

    #[test]
    fn the_limit_is_payload_over_rate_plus_a_round_trip() {
        let geo = LINKS[0];
        assert!((geo.limit(100_000_000) - 16.929).abs() < 0.001, "{}", geo.limit(100_000_000));
    }
}
