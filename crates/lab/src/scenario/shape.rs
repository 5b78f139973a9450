//! The reference of scenario files as data: each table, its keys, their values and meanings. Files are
//! checked against it, and the JSON Schema and the reference in `docs/scenarios.md` are generated from it.

use super::quantity::Dimension;

/// A table.
#[derive(Debug)]
pub(super) struct Shape {
    /// Its name in the reference and in errors.
    pub name: &'static str,
    /// Its description.
    pub says: &'static str,
    /// Its keys.
    pub fields: &'static [Field],
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct Field {
    /// The key.
    pub key: &'static str,
    /// The permitted values.
    pub takes: Takes,
    /// The meaning.
    pub says: &'static str,
    /// The default; `None` if the key is required.
    pub default: Option<&'static str>,
}

/// The permitted values of a key.
#[derive(Debug)]
pub(super) enum Takes {
    /// Any text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number in a range.
    Count(u64, u64),
    /// Any number.
    Number,
    /// A number with a unit of one of these dimensions.
    Quantity(&'static [Dimension]),
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// The name of something in the file.
    Name(Names),
    /// A text that a parser checks.
    Parsed(&'static str, fn(&str) -> Result<(), String>),
    /// A congestion controller, with parameters if any.
    Controller,
    /// A list.
    List(&'static Takes),
    /// A list of this many values.
    Tuple(&'static Takes, usize),
    /// A table.
    Table(&'static Shape),
    /// A table whose keys are names.
    Map(&'static Takes),
    /// A table of one of these shapes, by the value of a key.
    Tagged(&'static str, &'static [(&'static str, &'static Shape)]),
    /// One of these alternatives.
    Either(&'static [Takes]),
    /// The values of an axis: any scalars, or tables with a name and parameters.
    Values,
}

impl Takes {
    /// Whether it may be a table that has this key.
    pub(super) fn has_key(&self, key: &str) -> bool {
        match self {
            Self::Table(shape) => shape.fields.iter().any(|field| field.key == key),
            Self::Either(several) => several.iter().any(|takes| takes.has_key(key)),
            _ => false,
        }
    }
}

/// The kinds of named items in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// `hosts`.
    Host,
    /// `[links.NAME]`.
    Link,
    /// `[[path]]` with a name.
    Path,
    /// `[transports.NAME]`.
    Transport,
    /// `[[axis]]`.
    Axis,
}

impl Names {
    /// The word for this kind.
    pub(super) const fn what(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Link => "link",
            Self::Path => "path",
            Self::Transport => "transport",
            Self::Axis => "axis",
        }
    }
}

const fn field(key: &'static str, takes: Takes, default: &'static str, says: &'static str) -> Field {
    Field { key, takes, says, default: Some(default) }
}

const fn needed(key: &'static str, takes: Takes, says: &'static str) -> Field {
    Field { key, takes, says, default: None }
}

const TIME: Takes = Takes::Quantity(&[Dimension::Time]);
const BYTES: Takes = Takes::Quantity(&[Dimension::Bytes]);
const RATE: Takes = Takes::Quantity(&[Dimension::Rate]);
const FRACTION: Takes = Takes::Quantity(&[Dimension::Fraction]);
const LENGTH: Takes = Takes::Quantity(&[Dimension::Bytes, Dimension::Packets]);

/// The file.
pub(super) static FILE: Shape = Shape {
    name: "the file",
    says: "The keys at the top, before the first table.",
    fields: &[
        needed("title", Takes::Text, "The heading of the picture."),
        field("caption", Takes::Text, "empty", "What was varied and measured, for the report."),
        field(
            "settings",
            Takes::List(&Takes::Text),
            "links, transports and workloads as written",
            "What does not vary, for the head of the CSV.",
        ),
        field("hosts", Takes::List(&Takes::Text), "[\"client\", \"server\"]", "The names of the hosts."),
        needed(
            "links",
            Takes::Map(&Takes::Table(&LINK)),
            "Links: `[links.NAME]`, each with its two directions.",
        ),
        field(
            "path",
            Takes::List(&Takes::Table(&PATH)),
            "over the only link",
            "Paths: `[[path]]`, links in a row with a router between any two. Paths may share links.",
        ),
        field(
            "transports",
            Takes::Map(&Takes::Tagged("protocol", &[("sctp", &SCTP), ("tcp", &TCP)])),
            "none",
            "Transports: `[transports.NAME]`, a profile and what differs from it.",
        ),
        needed(
            "workload",
            Takes::List(&Takes::Tagged(
                "kind",
                &[
                    ("ftp", &FTP),
                    ("bulk", &BULK),
                    ("requests", &REQUESTS),
                    ("web", &WEB),
                    ("arrivals", &ARRIVALS),
                ],
            )),
            "Workloads: `[[workload]]`.",
        ),
        field(
            "event",
            Takes::List(&Takes::Table(&EVENT)),
            "none",
            "Changes of links while data flows: `[[event]]`.",
        ),
        field(
            "axis",
            Takes::List(&Takes::Table(&AXIS)),
            "none",
            "What is varied: `[[axis]]`; the last varies fastest.",
        ),
        field(
            "measure",
            Takes::List(&Takes::Text),
            "of ftp all that its sessions count, else goodput or completion times",
            "The columns of the results. The number of runs is decided by the first.",
        ),
        field(
            "lasts",
            TIME,
            "until the ftp session is over, or all requests are answered",
            "When a run ends.",
        ),
        field(
            "measure-from",
            TIME,
            "\"0 s\"",
            "Goodput, queues, windows and round trips count from then on.",
        ),
        field("sample-every", TIME, "\"20 ms\"", "How often queues, windows and round trips are read."),
        field(
            "runs",
            Takes::Either(&[Takes::Count(1, 1_000_000), Takes::Table(&RUNS)]),
            "{ min = 10, max = 400, within = \"5 %\" }",
            "How often a point is run: a number, or until the mean is known.",
        ),
        field(
            "only",
            Takes::Parsed("condition", super::expression::check_condition),
            "all",
            "The points that exist, as in `size < 1 MB or loss > 0`.",
        ),
        field(
            "quick",
            Takes::Parsed("condition", super::expression::check_condition),
            "all",
            "The points that `--quick` runs.",
        ),
        field("plot", Takes::Table(&PLOT), "by the axes", "How the first column is drawn: `[plot]`."),
        field(
            "expect",
            Takes::List(&Takes::Parsed("claim", super::expression::check_claim)),
            "none",
            "Claims that `braidlab check` decides, as in `braid < 0.5 * tcp at loss >= 0.03`.",
        ),
    ],
};

/// A link.
pub(super) static LINK: Shape = Shape {
    name: "links.NAME",
    says: "A link, the same in both directions unless `back` says otherwise. Each direction loses, queues, sends and \
           delays packets, in this order.",
    fields: &[
        field(
            "rate",
            Takes::Either(&[RATE, Takes::List(&Takes::Table(&STEP))]),
            "unlimited",
            "The rate, or a list of rates with the time from which each holds.",
        ),
        field(
            "trace",
            Takes::Text,
            "none",
            "A file with a recorded link, instead of a rate: of Mahimahi (a millisecond on each line), or, if its name \
             ends in .csv, with the columns `seconds` and `bits_per_second`.",
        ),
        field("delay", TIME, "\"0 s\"", "The propagation delay."),
        field("jitter", TIME, "\"0 s\"", "The most that a random delay adds; packets keep their order."),
        field("loss", FRACTION, "0", "The probability that a packet is lost, each independently."),
        field("burst-loss", Takes::Table(&BURST), "none", "Losses in bursts, instead of `loss`."),
        field(
            "lose",
            Takes::List(&Takes::Count(0, u64::MAX >> 12)),
            "none",
            "The packets that are lost, counted from 0, instead of `loss`.",
        ),
        field("reorder", Takes::Table(&REORDER), "none", "Packets that are held back."),
        field("duplicate", FRACTION, "0", "The probability that a packet is duplicated."),
        field("corrupt", FRACTION, "0", "The probability that a bit of a packet is flipped."),
        field("queue", LENGTH, "\"500 kB\"", "The limit of the queue; what exceeds it is dropped."),
        field(
            "ecn",
            LENGTH,
            "no marks",
            "The length of the queue from which ECN-capable packets are marked.",
        ),
        field("red", Takes::Table(&RED), "none", "Random early detection."),
        field("codel", Takes::Table(&CODEL), "none", "CoDel (RFC 8289)."),
        field(
            "down",
            Takes::List(&Takes::Tuple(&TIME, 2)),
            "never",
            "When the link is cut: pairs of times, as in [[\"10 s\", \"12 s\"]].",
        ),
        field("flap", Takes::Table(&FLAP), "never", "Cuts again and again, instead of `down`."),
        field(
            "overhead",
            BYTES,
            "\"20 B\"",
            "Bytes of a packet on the wire beyond SCTP or TCP: IPv4 has 20, UDP 8 more.",
        ),
        field(
            "mtu",
            BYTES,
            "none",
            "Longer packets are dropped silently, except those that IP may fragment. With the default `overhead`, SCTP that discovers the MTU needs 532 B.",
        ),
        field("back", Takes::Table(&LINK), "as there", "What differs on the way back."),
    ],
};

static STEP: Shape = Shape {
    name: "a step of a rate",
    says: "A rate from a time on. The first begins at 0.",
    fields: &[needed("rate", RATE, "The rate."), field("from", TIME, "\"0 s\"", "From when on.")],
};

static BURST: Shape = Shape {
    name: "burst-loss",
    says: "The model of Gilbert and Elliott: by the mean loss and the mean length of bursts, or by its four probabilities.",
    fields: &[
        field("loss", FRACTION, "none", "The mean loss. Half of the packets of a burst are lost."),
        field(
            "packets",
            Takes::Number,
            "none",
            "With `loss`: how many packets a burst loses in the mean; 1 is independent losses.",
        ),
        field("to-bad", FRACTION, "none", "p: that the good state turns bad, at each packet."),
        field("to-good", FRACTION, "none", "r: that the bad state turns good."),
        field("pass-good", FRACTION, "1", "k: that a packet passes in the good state."),
        field("pass-bad", FRACTION, "0", "h: that a packet passes in the bad state."),
    ],
};

static REORDER: Shape = Shape {
    name: "reorder",
    says: "Packets that later ones overtake.",
    fields: &[
        needed("probability", FRACTION, "The probability that a packet is held back."),
        field("delay", TIME, "\"10 ms\"", "For how long."),
    ],
};

static RED: Shape = Shape {
    name: "red",
    says: "Random early detection (Floyd, Jacobson 1993).",
    fields: &[
        needed("min", LENGTH, "Below this mean queue no packet is selected."),
        needed("max", LENGTH, "Above it all are dropped."),
        field("probability", FRACTION, "0.1", "The probability of selection as the mean reaches `max`."),
        field("weight", FRACTION, "0.002", "The weight of the current queue in the mean."),
        field("gentle", Takes::Flag, "false", "Whether the probability rises steadily above `max`."),
        field("mark", Takes::Flag, "false", "Whether ECN-capable packets are marked instead of dropped."),
    ],
};

static CODEL: Shape = Shape {
    name: "codel",
    says: "Controlled delay (RFC 8289).",
    fields: &[
        field("target", TIME, "\"5 ms\"", "The acceptable standing delay."),
        field("interval", TIME, "\"100 ms\"", "How long the delay may exceed it."),
        field("mark", Takes::Flag, "false", "Whether ECN-capable packets are marked instead of dropped."),
    ],
};

static FLAP: Shape = Shape {
    name: "flap",
    says: "A cut at the end of each period.",
    fields: &[needed("period", TIME, "The period."), needed("down", TIME, "How long the cut lasts.")],
};

static PATH: Shape = Shape {
    name: "path",
    says: "A way between two hosts.",
    fields: &[
        field("name", Takes::Text, "its first link", "Its name."),
        field("between", Takes::Tuple(&Takes::Name(Names::Host), 2), "the first two hosts", "Its ends."),
        needed(
            "via",
            Takes::List(&Takes::Name(Names::Link)),
            "The links from the first host to the second, in order.",
        ),
        field(
            "reversed",
            Takes::Flag,
            "false",
            "Whether it passes its links against their direction, as cross traffic the other way does.",
        ),
    ],
};

static SCTP: Shape = Shape {
    name: "transports.NAME, protocol = \"sctp\"",
    says: "SCTP. `braidlab profiles` prints the values of each profile.",
    fields: &[
        needed("protocol", Takes::Text, "`sctp`."),
        field("profile", Takes::Word(super::words::sctp_profiles), "\"modern\"", "The profile."),
        field(
            "controller",
            Takes::Controller,
            "the profile's",
            "The congestion controller, with parameters if any: \"cubic\", \"fast:alpha=200\".",
        ),
        field(
            "multipath",
            Takes::Parsed("multipath transfer", super::words::check_multipath),
            "the profile's",
            "Data on all paths at once: \"default\", \"plain\", \"scheduler=ecf,remedy=none\"; or \"off\".",
        ),
        field("protected", Takes::Flag, "false", "Whether the association is protected by DTLS."),
        field("receive-buffer", BYTES, "the profile's", "The receive buffer."),
        field("send-buffer", BYTES, "the profile's", "The send buffer."),
        field(
            "packet",
            BYTES,
            "the profile's",
            "The longest packet, without the IP header; it is not discovered then.",
        ),
        field("ecn", Takes::Flag, "the profile's", "Whether it offers ECN."),
        field("rto-initial", TIME, "the profile's", "RTO.Initial."),
        field("rto-min", TIME, "the profile's", "RTO.Min."),
        field("rto-max", TIME, "the profile's", "RTO.Max."),
        field("sack-delay", TIME, "the profile's", "How long a SACK waits for another packet."),
        field("heartbeat", TIME, "the profile's", "HB.interval."),
        field(
            "association-retransmissions",
            Takes::Count(1, 255),
            "the profile's",
            "Association.Max.Retrans.",
        ),
        field("path-retransmissions", Takes::Count(1, 255), "the profile's", "Path.Max.Retrans."),
    ],
};

static TCP: Shape = Shape {
    name: "transports.NAME, protocol = \"tcp\"",
    says: "TCP.",
    fields: &[
        needed("protocol", Takes::Text, "`tcp`."),
        field("profile", Takes::Word(super::words::tcp_profiles), "\"modern\"", "The profile."),
        field(
            "controller",
            Takes::Controller,
            "the profile's",
            "The congestion controller, with parameters if any.",
        ),
        field("receive-buffer", BYTES, "the profile's", "The receive buffer."),
        field("send-buffer", BYTES, "the profile's", "The send buffer."),
        field("mss", BYTES, "the profile's", "The largest segment."),
        field("sack", Takes::Flag, "the profile's", "Whether it offers SACK (RFC 2018)."),
        field("nagle", Takes::Flag, "the profile's", "Whether small segments wait."),
        field("rto-initial", TIME, "the profile's", "The first retransmission time-out."),
        field("rto-min", TIME, "the profile's", "The shortest."),
        field("rto-max", TIME, "the profile's", "The longest."),
        field("ack-delay", TIME, "the profile's", "How long an acknowledgement waits."),
        field(
            "data-retransmissions",
            Takes::Count(1, 255),
            "the profile's",
            "Time-outs of a segment before the connection fails.",
        ),
        field(
            "program",
            Takes::Table(&PROGRAM),
            "braidftp, or sockets of the kernel",
            "The programs of live runs (`--live`).",
        ),
    ],
};

static PROGRAM: Shape = Shape {
    name: "program",
    says: "A server and a client for live runs: the words of their command lines. `{address}` and `{port}` are where the \
           server listens, `{folder}` is the server's folder with the files, `{to}` the client's, `{seconds}` how long the \
           run lasts. A word with `{file}` is repeated for each file.",
    fields: &[
        needed("server", Takes::List(&Takes::Text), "The server. It runs until the run ends."),
        needed("client", Takes::List(&Takes::Text), "The client. Of ftp it ends when it has all files."),
    ],
};

const NAME: Field = field("name", Takes::Text, "its kind", "Its name, for `measure`.");
const PATHS: Field =
    field("paths", Takes::List(&Takes::Name(Names::Path)), "all paths", "The paths. TCP uses the first.");
const TRANSPORT: Field = needed("transport", Takes::Name(Names::Transport), "Its transport.");
const FROM: Field =
    field("from", Takes::Name(Names::Host), "the first host of its path", "The host that begins.");
const STARTS: Field = field(
    "starts",
    Takes::Either(&[TIME, Takes::Tuple(&TIME, 2)]),
    "\"0 s\"",
    "When it begins: a time, or two times between which it is drawn.",
);
const SHARED: Field =
    field("one-connection", Takes::Flag, "true", "Whether all share a connection, or each has its own.");

static FTP: Shape = Shape {
    name: "workload, kind = \"ftp\"",
    says: "A multiple get by FTP, the sessions of real transfers. A scenario has one at most; other workloads end with it.",
    fields: &[
        needed("kind", Takes::Text, "`ftp`."),
        NAME,
        needed(
            "mode",
            Takes::Word(super::words::modes),
            "How files are asked for and carried: tcp, naive, ms, ms-cp, braid, and P2's variants of TCP.",
        ),
        TRANSPORT,
        PATHS,
        FROM,
        needed(
            "files",
            Takes::Either(&[Takes::List(&BYTES), Takes::Table(&FILES)]),
            "The files: their sizes, or a number and a size.",
        ),
        field(
            "clock",
            Takes::Word(super::words::clocks),
            "\"asked\"",
            "From when `seconds` counts: the client's first packet, its first word about the files (2 s after the login, unless \
             `asks-at-once`), or the 150 to NLST.",
        ),
        field("data-streams", Takes::Count(1, 64), "4", "Of braid: the streams for data."),
        field(
            "asks-at-once",
            Takes::Flag,
            "false",
            "Whether files are asked for with the login, as a job does. If not, 2 s of silence after the login come first: cuts, events \
             and other workloads count from the start of the run.",
        ),
        field("message", BYTES, "\"16 KiB\"", "Bytes of a file that share an SCTP message."),
        field("attempts", Takes::Count(1, 100), "5", "How often each file, and the login, is tried."),
    ],
};

static FILES: Shape = Shape {
    name: "files",
    says: "So many files.",
    fields: &[
        needed("count", Takes::Count(1, 100_000), "How many."),
        needed(
            "size",
            Takes::Either(&[BYTES, Takes::Table(&DISTRIBUTION)]),
            "The size of each, or how it is drawn.",
        ),
    ],
};

/// A distribution.
pub(super) static DISTRIBUTION: Shape = Shape {
    name: "a distribution",
    says: "The distribution from which sizes or times are drawn in each run.",
    fields: &[
        needed(
            "distribution",
            Takes::Word(super::words::distributions),
            "`exponential` by its mean, `uniform` from min to max, `pareto` by min and shape, `lognormal` by median and sigma.",
        ),
        field("mean", SIZE_OR_TIME, "none", "The mean."),
        field("median", SIZE_OR_TIME, "none", "The median."),
        field("min", SIZE_OR_TIME, "0", "The least."),
        field(
            "max",
            SIZE_OR_TIME,
            "a thousand times the mean, the median or the least",
            "The most: what exceeds it is cut.",
        ),
        field(
            "shape",
            Takes::Number,
            "1.2",
            "The exponent of a Pareto distribution: the smaller, the longer its tail.",
        ),
        field("sigma", Takes::Number, "1", "The standard deviation of the logarithm."),
    ],
};

const SIZE_OR_TIME: Takes = Takes::Quantity(&[Dimension::Bytes, Dimension::Time]);

static BULK: Shape = Shape {
    name: "workload, kind = \"bulk\"",
    says: "Flows that send as much as they can.",
    fields: &[
        needed("kind", Takes::Text, "`bulk`."),
        NAME,
        TRANSPORT,
        PATHS,
        FROM,
        field("flows", Takes::Count(1, 200), "1", "How many."),
        STARTS,
        field("ends", TIME, "never", "When they write for the last time."),
        field("write", BYTES, "\"64 KiB\"", "How much is written at a time: over SCTP a message."),
    ],
};

static REQUESTS: Shape = Shape {
    name: "workload, kind = \"requests\"",
    says: "Requests and answers, each a while after the answer before it.",
    fields: &[
        needed("kind", Takes::Text, "`requests`."),
        NAME,
        TRANSPORT,
        PATHS,
        FROM,
        needed("count", Takes::Count(1, 100_000), "How many."),
        field(
            "request",
            Takes::Either(&[BYTES, Takes::Table(&DISTRIBUTION)]),
            "\"100 B\"",
            "Bytes of a request; 16 at least.",
        ),
        field(
            "answer",
            Takes::Either(&[BYTES, Takes::Table(&DISTRIBUTION)]),
            "\"1 kB\"",
            "Bytes of an answer; 1 at least.",
        ),
        field(
            "pause",
            Takes::Either(&[TIME, Takes::Table(&DISTRIBUTION)]),
            "\"0 s\"",
            "Between an answer and the next request.",
        ),
        STARTS,
        SHARED,
    ],
};

static WEB: Shape = Shape {
    name: "workload, kind = \"web\"",
    says: "Cross traffic that comes and goes: downloads that begin at random, whether or not earlier ones are there.",
    fields: &[
        needed("kind", Takes::Text, "`web`."),
        NAME,
        TRANSPORT,
        PATHS,
        FROM,
        needed(
            "every",
            Takes::Either(&[TIME, Takes::Table(&DISTRIBUTION)]),
            "The time from one to the next; a plain time is the mean of an exponential one.",
        ),
        field(
            "size",
            Takes::Either(&[BYTES, Takes::Table(&DISTRIBUTION)]),
            "pareto, at least 4 kB, shape 1.2, at most 4 MB",
            "Bytes of a download.",
        ),
        field("request", BYTES, "\"300 B\"", "Bytes of a request."),
        STARTS,
        needed("ends", TIME, "When the last may begin."),
        field("one-connection", Takes::Flag, "false", "Whether all share a connection, or each has its own."),
    ],
};

static ARRIVALS: Shape = Shape {
    name: "workload, kind = \"arrivals\"",
    says: "Downloads at recorded times.",
    fields: &[
        needed("kind", Takes::Text, "`arrivals`."),
        NAME,
        TRANSPORT,
        PATHS,
        FROM,
        field("file", Takes::Text, "none", "A CSV file with the columns `seconds` and `bytes`."),
        field("list", Takes::List(&Takes::Table(&ARRIVAL)), "none", "Or the downloads themselves."),
        field("request", BYTES, "\"300 B\"", "Bytes of a request."),
        field("one-connection", Takes::Flag, "false", "Whether all share a connection, or each has its own."),
    ],
};

static ARRIVAL: Shape = Shape {
    name: "an arrival",
    says: "A download.",
    fields: &[needed("at", TIME, "When it begins."), needed("size", BYTES, "Its size.")],
};

static EVENT: Shape = Shape {
    name: "event",
    says: "A change of a link.",
    fields: &[
        needed("at", TIME, "When, after the start of the run."),
        needed("link", Takes::Name(Names::Link), "The link."),
        field("direction", Takes::Word(super::words::directions), "\"both\"", "Its directions that change."),
        needed("set", Takes::Table(&LINK), "What changes; everything else stays."),
    ],
};

static AXIS: Shape = Shape {
    name: "axis",
    says: "A varied parameter. Where the file says \"$NAME\", a point has its value; \"$NAME.key\" is a key of a value that is a table.",
    fields: &[
        needed("name", Takes::Text, "Its name, in tables and for `$NAME`."),
        needed(
            "values",
            Takes::Values,
            "Its values: numbers, quantities, words, or tables `{ name = \"..\", label = \"..\", key = .. }`.",
        ),
        field("label", Takes::Text, "its name", "Its label in pictures, with unit."),
        field("labels", Takes::List(&Takes::Text), "the values as written", "The label of each value."),
        field("in", Takes::Text, "bit/s, s, B", "The unit of its numbers in tables and in `expect`."),
        field(
            "paired",
            Takes::Flag,
            "false",
            "Whether runs that differ in it alone have the same seeds, and are compared in pairs.",
        ),
    ],
};

static RUNS: Shape = Shape {
    name: "runs",
    says: "Until the 90 % interval of the mean of the first column is narrow enough.",
    fields: &[
        field("min", Takes::Count(2, 1_000_000), "10", "Minimum number of runs, if anything is random."),
        field(
            "max",
            Takes::Count(1, 1_000_000),
            "400",
            "Maximum number of runs; points that reach it are reported.",
        ),
        field("within", FRACTION, "\"5 %\"", "Half the width of the interval, as a part of the mean."),
    ],
};

static PLOT: Shape = Shape {
    name: "plot",
    says: "How a column is drawn.",
    fields: &[
        field("x", Takes::Name(Names::Axis), "the last axis of numbers", "The horizontal axis."),
        field("y", Takes::Text, "the first column", "The column."),
        field("label", Takes::Text, "column and unit", "Its label."),
        field("by", Takes::Name(Names::Axis), "the last other axis", "The axis with a line for each value."),
        field(
            "facet",
            Takes::Name(Names::Axis),
            "the remaining axis",
            "The axis with a panel for each value.",
        ),
        field(
            "rows",
            Takes::Name(Names::Axis),
            "another remaining axis",
            "The axis with a row of panels for each value.",
        ),
        field(
            "marks",
            Takes::Word(super::words::marks),
            "\"lines\"",
            "Lines or bars of means, or the distribution of all runs (`tail`).",
        ),
        field("log-x", Takes::Flag, "false", "Whether the horizontal axis is logarithmic."),
        field("log-y", Takes::Flag, "false", "Whether the vertical axis is logarithmic."),
    ],
};
