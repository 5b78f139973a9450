//! Mistakes in scenarios: each is reported with its place, and the nearest right word.

use braidftp_lab::scenario::{self, templates};
use proptest::prelude::*;

use super::{answered, with};

#[test]
fn errors_have_a_place_and_the_nearest_known_word() {
    assert!(scenario::parse("my", &with("", "")).is_ok());
    for (replaced, by, said) in [
        ("rate =", "ratee =", "my.toml:7:1: links.NAME has no key `ratee`; did you mean `rate`?"),
        ("\"10 Mbit/s\"", "10", "my.toml:7:8: `rate`: `10` has no unit: write one of bit/s, kbit/s"),
        (
            "\"10 Mbit/s\"",
            "\"10 Mbits\"",
            "my.toml:7:8: `rate`: `Mbits` is no unit of a rate: did you mean `Mbit/s`?",
        ),
        ("\"10 Mbit/s\"", "\"10 ms\"", "`10 ms` is a time, not a rate"),
        ("\"10 Mbit/s\"", "\"0 Mbit/s\"", "7:8: a rate is 1 bit/s to"),
        ("\"$loss\"", "\"$los\"", "my.toml:8:8: no axis `los`; did you mean `loss`?"),
        ("\"$loss\"", "\"$transport\"", "`loss`: `tcp` is not a fraction"),
        ("\"1 %\"]", "\"101 %\"]", "my.toml:20:18: `loss`: `101 %` is more than 100 %"),
        (
            "\"1 %\"]",
            "\"$loss\"]",
            "my.toml:20:18: \"$loss\" stands for a value of an axis, and cannot be one itself",
        ),
        (
            "\"1 %\"]",
            "[{ x = \"$transport\" }]]",
            "my.toml:20:25: \"$transport\" stands for a value of an axis",
        ),
        (
            "\"10 Mbit/s\"",
            "[{ rate = \"1 Mbit/s\" }, { rate = \"2 Mbit/s\" }]",
            "my.toml:7:32: each rate of a list begins later than the one before: give it a `from`",
        ),
        (
            "lasts = \"10 s\"",
            "lasts = \"10 s\"\nsample-every = \"10 s\"",
            "my.toml:4:16: nothing is sampled after the first time: the run ends at 10 s",
        ),
        ("\"1 %\"]", "\"0 %\"]", "axis `loss` has the value \"0 %\" twice"),
        ("\"1 %\"]", "\"x\"]", "the other values of this axis are each a fraction"),
        ("\"bulk\"", "\"bulkk\"", "`kind` cannot be \"bulkk\"; did you mean `bulk`?"),
        (
            "kind = \"bulk\"\n",
            "",
            "each of `workload` needs `kind`: one of ftp, bulk, requests, web, arrivals",
        ),
        ("transport = \"$transport\"", "", "workload, kind = \"bulk\" needs `transport`"),
        ("transport = \"$transport\"", "transport = \"tpc\"", "no transport `tpc`; did you mean `tcp`?"),
        ("\"cubic\"", "\"cubik\"", "no congestion control is called `cubik`"),
        ("\"cubic\"", "\"cubik\"", "; did you mean `cubic`?"),
        (
            "kind = \"bulk\"",
            "kind = \"$transport\"",
            "my.toml:15:8: `kind` is one of ftp, bulk, requests, web, arrivals, and an axis does not vary it: write a table for each",
        ),
        ("lasts = \"10 s\"\n", "", "a run of this scenario cannot end: give `lasts`"),
        (
            "lasts = \"10 s\"",
            "lasts = \"10 s\"\nmeasure-from = \"10 s\"",
            "nothing is measured: the run ends before",
        ),
        ("lasts = \"10 s\"", "lasts = \"10 s\"\nmeasure = [\"goodputt\"]", "did you mean `goodput`?"),
        (
            "lasts = \"10 s\"",
            "lasts = \"10 s\"\nmeasure = [\"link.cor.queue\"]",
            "no link `cor`; did you mean `core`?",
        ),
        (
            "lasts = \"10 s\"",
            "lasts = \"10 s\"\nonly = \"los > 0\"",
            "my.toml:4:9: no axis `los`; did you mean `loss`?",
        ),
        ("lasts = \"10 s\"", "lasts = \"10 s\"\nonly = \"loss > 2 %\"", "no point fulfils `only`"),
        ("lasts = \"10 s\"", "lasts = \"10 s\"\nonly = \"loss > 5 ms\"", "axis `loss` is a fraction"),
        ("sctp < tcp at", "sctpp < tcp at", "my.toml:4:12: nothing is called `sctpp`; did you mean `sctp`?"),
        ("sctp < tcp at", "sctp tcp at", "my.toml:4:17: this is no claim: expected a comparison"),
        ("loss >= 1 %", "lost >= 1 %", "no axis `lost`; did you mean `loss`?"),
        ("loss >= 1 %", "transport = tcp", "the claim itself names values of `transport`"),
        ("paired = true", "paird = true", "axis has no key `paird`; did you mean `paired`?"),
        ("name = \"transport\"", "name = \"run\"", "there is another axis or column `run`"),
        ("loss = \"$loss\"", "", "axis `loss` changes nothing: write \"$loss\""),
        ("[links.core]", "[links.core", "this is not TOML"),
        (
            "rate = \"10 Mbit/s\"",
            "rate = \"10 Mbit/s\"\nred = { min = \"5 packets\", max = \"9 kB\" }",
            "`min` and `max` are both bytes or both packets",
        ),
        (
            "rate = \"10 Mbit/s\"",
            "rate = \"10 Mbit/s\"\ntrace = \"x.trace\"",
            "`rate` and `trace` exclude each other",
        ),
        ("rate = \"10 Mbit/s\"", "trace = \"x.trace\"", "has no files"),
        (
            "[transports]",
            "[links.other]\n[transports]",
            "of 2 links, [[path]] says which are between the hosts",
        ),
    ] {
        let error = scenario::parse("my", &with(replaced, by)).expect_err(by).to_string();
        assert!(error.contains(said), "{by}: {error}");
    }
}

#[test]
fn mistakes_are_answered_with_the_word_that_was_meant() {
    answered(&[
        (
            "two-paths",
            "\"10 Mbit/s\"\ndelay",
            "\"10Mbps\"\ndelay",
            "my.toml:10:8: `rate`: `Mbps` is no unit of a rate: did you mean `Mbit/s`?",
        ),
        (
            "two-paths",
            "delay = \"10 ms\"",
            "delay = \"10,5 ms\"",
            "my.toml:11:9: `delay`: a decimal fraction has a point",
        ),
        (
            "two-paths",
            "in = \"Mbit/s\"",
            "in = \"Mbits\"",
            "my.toml:41:6: \"Mbits\" is no unit; did you mean `Mbit/s`?",
        ),
        (
            "two-paths",
            "in = \"Mbit/s\"",
            "in = \"ms\"",
            "this is a unit of a time, and the values of this axis are each a rate",
        ),
        (
            "two-paths",
            "[[workload]]",
            "[workload]",
            "`workload` may be there several times: write [[workload]]",
        ),
        (
            "two-paths",
            "\"$paths.use\"",
            "\"$paths.uses\"",
            "my.toml:35:9: no value of axis `paths` has a `uses`; did you mean `use`?",
        ),
        (
            "outage",
            "set = { rate = \"10 Mbit/s\" }",
            "rate = \"10 Mbit/s\"",
            "my.toml:22:1: event has no key `rate`, but `set` has: set = { rate = .. }",
        ),
        (
            "outage",
            "[[\"2 s\", \"$cut.until\"]]",
            "[\"2 s\", \"$cut.until\"]",
            "my.toml:12:9: `down` is a list of lists of 2 values, and this is \"2 s\"",
        ),
        (
            "two-paths",
            "[transports.sctp]",
            "[transports]",
            "my.toml:28:1: `transports` has a table for each name, as in [transports.NAME], and `protocol` is none",
        ),
        ("cross-traffic", "\"fifo\"", "fifo", "my.toml:68:14: this is not TOML: a text is in quotes"),
        ("two-paths", "0.75 * first", "first / 0", "my.toml:6:27: a number cannot be divided by 0"),
        (
            "outage",
            "set = { rate = \"10 Mbit/s\" }",
            "set = {}",
            "my.toml:22:7: this event changes nothing: `set` has no key",
        ),
        ("cross-traffic", "[\"0 s\", \"1 s\"]", "\"1000 h\"", "it would begin after about 42 days"),
        (
            "controllers",
            "queue = \"100 kB\"",
            "queue = \"100 kB\"\nloss = 1",
            "no packet of this workload arrives: link `core` loses every packet",
        ),
        ("cross-traffic", "\"web.p95\"", "\"web.p96\"", "workload `web` has no `p96`; did you mean `p90`?"),
        (
            "requests",
            "median = \"10 kB\"",
            "median = \"10 ms\"",
            "my.toml:25:49: `median`: `10 ms` is a time, not a number of bytes",
        ),
        (
            "requests",
            "mean = \"100 ms\"",
            "mean = \"100 kB\"",
            "my.toml:26:48: `mean`: `100 kB` is a number of bytes, not a time",
        ),
    ]);
}

#[test]
fn impossible_values_in_templates_are_refused_with_their_places() {
    answered(&[
        ("two-paths", "loss = \"0.5 %\"", "loss = nan", "my.toml:13:8: nan is not a number"),
        (
            "two-paths",
            "delay = \"10 ms\"",
            "delay = \"-10 ms\"",
            "my.toml:11:9: `delay`: `-10 ms` is negative",
        ),
        (
            "two-paths",
            "\"10 Mbit/s\"\ndelay",
            "\"1e300 Gbit/s\"\ndelay",
            "my.toml:10:8: `rate`: `1e300 Gbit/s` is too large",
        ),
        (
            "two-paths",
            "count = 20",
            "count = 99999999999999999999",
            "my.toml:36:19: 99999999999999999999 is too large",
        ),
        (
            "two-paths",
            "size = \"1 MB\"",
            "size = \"1 EB\"",
            "my.toml:36:30: `size`: `EB` is no unit of a number of bytes: did you mean `GB`?",
        ),
        (
            "two-paths",
            "[\"1 Mbit/s\", \"5 Mbit/s\", \"10 Mbit/s\"]",
            "[]",
            "my.toml:42:10: an axis has a list of 1 to",
        ),
        ("two-paths", "max = 50 }", "max = 4 }", "my.toml:7:25: `max` is `min` at least"),
        (
            "two-paths",
            "title = \"20",
            "title = \"\\u0000",
            "my.toml:5:9: a text has no control characters, such as \\u{0}",
        ),
        (
            "cross-traffic",
            "every = \"200 ms\"",
            "every = \"0 ms\"",
            "my.toml:60:9: `every` is a time above 0",
        ),
        (
            "cross-traffic",
            "every = \"200 ms\"",
            "every = \"1 ns\"",
            "my.toml:60:9: up to 50000 downloads are possible",
        ),
        ("cross-traffic", "max = \"1 MB\"", "max = \"1 kB\"", "my.toml:61:68: `max` is below the least"),
        (
            "cross-traffic",
            "[\"0 s\", \"1 s\"]",
            "[\"3 s\", \"1 s\"]",
            "my.toml:53:10: the second time is the later one",
        ),
        ("requests", "sigma = 0.5", "sigma = 1e308", "my.toml:25:66: `sigma` is 10 at most"),
        (
            "requests",
            "mean = \"100 ms\"",
            "mean = \"30 days\"",
            "`days` is no unit of a number of bytes or a time: there are B, kB",
        ),
        (
            "requests",
            "mean = \"100 ms\"",
            "mean = \"300 h\"",
            "my.toml:20:1: its last request would begin after about 2500 days",
        ),
        (
            "requests",
            "count = 200",
            "count = 200\nstarts = [\"0 s\", \"1000 h\"]",
            "its last request would begin after about 42 days",
        ),
        (
            "outage",
            "[[\"2 s\", \"$cut.until\"]]",
            "[[\"2 s\", \"1 s\"], [\"3 s\", \"$cut.until\"]]",
            "my.toml:12:9: cuts end after they begin",
        ),
        (
            "outage",
            "set = { rate",
            "set = { rat",
            "my.toml:22:9: links.NAME has no key `rat`; did you mean `rate`?",
        ),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_modified_template_is_read_or_refused_with_a_place(
        which in 0..templates::names().count(),
        at in 0.0..1.0_f64,
        removed in 0..40_usize,
        added in "[ -~\\n]{0,12}",
    ) {
        let name = templates::names().nth(which).unwrap();
        let mut text: Vec<char> = templates::text(name).unwrap().chars().collect();
        let begin = (at * text.len() as f64) as usize;
        let end = (begin + removed).min(text.len());
        text.splice(begin..end, added.chars());
        let text: String = text.into_iter().collect();
        if let Err(error) = scenario::parse("my", &text) {
            prop_assert!(error.line >= 1 && error.line <= text.lines().count() + 1);
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
