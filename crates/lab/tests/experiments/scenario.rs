//! Scenarios: the papers' own scenarios give the bytes of their figures, templates run, and errors are
//! reported with positions before anything runs.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use braidftp_cc as cc;
use braidftp_lab::bench::{self, Bench, Made, Opened, Reporter};
use braidftp_lab::figure::{RunFailed, Runs};
use braidftp_lab::papers;
use braidftp_lab::papers::ftp::{self, Clock, LAN, SATELLITE, WAN};
use braidftp_lab::scenario::{self, templates};
use braidftp_lab::store::Store;
use braidftp_lab::sweep::Enough;
use braidftp_lab::table::{Record, Table};
use braidftp_sim::link::{Loss, Queue};
use proptest::prelude::*;

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).args(words).current_dir(folder).output().unwrap()
}

#[test]
fn figures_6_to_8_as_scenarios_give_the_rows_of_their_sessions() {
    assert!(include_str!("../../src/papers/multistream/fig6.toml").lines().count() < 60);
    for (id, path) in [("multistream/fig6", LAN), ("multistream/fig7", WAN), ("multistream/fig8", SATELLITE)]
    {
        let figure = papers::figure(id).unwrap();
        let sweep = figure.sweep().unwrap();
        let head = (figure.settings)();
        let link = path.link(Queue::Bytes(500_000), Loss::None);
        assert_eq!(head[0], format!("path, each way: {link}"));
        let titles = String::from_utf8(braidftp_lab::store::csv::titles(sweep)).unwrap();
        let columns: Vec<&str> = ftp::COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(titles.trim_end(), format!("size,loss,variant,run,seed,{}", columns.join(",")));
        assert_eq!((sweep.paired, sweep.runs.max), (&["variant"][..], Runs::PAPER.max));
        let points = sweep.points();
        assert_eq!(points.len(), 125);
        for (at, point) in points.iter().enumerate() {
            let (size, loss) = (point.number("size"), point.number("loss"));
            assert_eq!((sweep.fixed)(point), loss == 0.0, "{point}");
            assert_eq!((sweep.quick)(point), size <= 50_000.0, "{point}");
            let value = point.value("loss");
            assert_eq!((sweep.axis("loss").unwrap().show)(&value), (ftp::LOSS.show)(&value));
            if (sweep.quick)(point) && at % 4 == 0 {
                let seed = sweep.seed(point, 0, 1);
                let paths = vec![path.both(Queue::Bytes(500_000), ftp::bernoulli(loss))];
                let session = ftp::session(point.name("variant"), vec![size as u64; 100], paths, seed);
                assert_eq!((sweep.run)(point, seed), ftp::run(&session, Clock::Opened), "{id} {point}");
            }
        }
    }
}

#[test]
fn figures_2_and_3_of_p1_as_scenarios_give_the_rows_of_their_sessions() {
    for (id, path, bytes) in [
        ("fcs/fig2a", LAN, 1_000_000),
        ("fcs/fig2b", SATELLITE, 1_000_000),
        ("fcs/fig3a", LAN, 200_000),
        ("fcs/fig3b", SATELLITE, 200_000),
    ] {
        let figure = papers::figure(id).unwrap();
        let sweep = figure.sweep().unwrap();
        let head = (figure.settings)();
        assert_eq!(head[0], format!("path, each way: {}", path.link(Queue::Packets(50), Loss::None)));
        assert_eq!((sweep.paired, sweep.runs), (&["variant"][..], Runs { max: 1_000, ..Runs::PAPER }));
        let points = sweep.points();
        assert_eq!(points.len(), 20);
        for point in &points {
            let (loss, variant) = (point.number("loss"), point.name("variant"));
            assert_eq!(((sweep.fixed)(point), (sweep.quick)(point)), (loss == 0.0, true), "{point}");
            if loss > 0.01 {
                continue;
            }
            let seed = sweep.seed(point, 0, 1);
            let mode = if variant.starts_with("sctp") { "naive" } else { variant };
            let mut paths = vec![path.both(Queue::Packets(50), ftp::bernoulli(loss))];
            if variant == "sctp-clean" {
                paths.push(ftp::control_network());
            }
            let session = ftp::session(mode, vec![bytes; 10], paths, seed);
            assert_eq!((sweep.run)(point, seed), ftp::run(&session, Clock::Asked), "{id} {point}");
        }
    }
}

#[test]
fn every_template_is_read_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    for name in templates::names() {
        let text = templates::text(name).unwrap();
        let scenario = scenario::parse(name, text).unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.expects.is_empty(), "{name}");
        assert!(text.lines().all(|line| line.len() <= 125), "{name}");
        let printed = lab(folder.path(), &["new", name]);
        assert_eq!(String::from_utf8(printed.stdout).unwrap(), text);
    }
}

/// A valid scenario with one text replaced.
fn with(replaced: &str, by: &str) -> String {
    let text = r#"
title = "t"
lasts = "10 s"
expect = ["sctp < tcp at loss >= 1 %"]

[links.core]
rate = "10 Mbit/s"
loss = "$loss"

[transports]
sctp = { protocol = "sctp", controller = "cubic" }
tcp = { protocol = "tcp" }

[[workload]]
kind = "bulk"
transport = "$transport"

[[axis]]
name = "loss"
values = ["0 %", "1 %"]

[[axis]]
name = "transport"
paired = true
values = ["tcp", "sctp"]
"#;
    edited(text, &[(replaced, by)])
}

/// A text with others replaced, each once.
fn edited(text: &str, replaced: &[(&str, &str)]) -> String {
    let one = |text: String, (old, new): &(&str, &str)| {
        assert!(text.contains(old), "{old}");
        text.replacen(old, new, 1)
    };
    replaced.iter().fold(text.to_owned(), one)
}

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
fn claims_compare_what_has_the_same_dimension() {
    for (template, replaced, by, said) in [
        (
            "controllers",
            "> 15 Mbit/s",
            "> 15 ms",
            "my.toml:7:29: this is a time, and what stands before it is a rate",
        ),
        (
            "requests",
            "< 200 ms",
            "< 200 kB",
            "my.toml:7:53: this is a number of bytes, and what stands before it is a time",
        ),
        (
            "requests",
            "< 200 ms",
            "< 200",
            "this is a number without a unit, and what stands before it is a time; a quantity is written as in 35 ms",
        ),
        (
            "two-paths",
            "1.05 * first",
            "1.05 * first + 3 Mbit/s",
            "this is a rate, and what stands before it is a time",
        ),
        (
            "controllers",
            "goodput(cubic) > 15 Mbit/s",
            "goodput(cubic) > rtt(cubic)",
            "this is a time, and what stands before it is a rate",
        ),
        (
            "controllers",
            "goodput(cubic) > 15 Mbit/s",
            "goodput(cubic) / goodput(reno) > 1 s",
            "this is a time, and what stands before it is a number without a unit",
        ),
    ] {
        let text = edited(templates::text(template).unwrap(), &[(replaced, by)]);
        let error = scenario::parse("my", &text).expect_err(by).to_string();
        assert!(error.contains(said), "{by}: {error}");
    }
    for by in [
        "goodput(cubic) > 0",
        "rtt(cubic) / rtt(reno) < 2",
        "fairness(cubic) > 80 %",
        "rtt(cubic) * 2 > 1 ms",
        "goodput(cubic) * rtt(cubic) > 5",
        "link.core.dropped(cubic) < 1000 packets",
    ] {
        let text = edited(templates::text("controllers").unwrap(), &[("goodput(cubic) > 15 Mbit/s", by)]);
        assert!(scenario::parse("my", &text).is_ok(), "{by}: {:?}", scenario::parse("my", &text).err());
    }
}

#[test]
fn mistakes_are_answered_with_the_word_that_was_meant() {
    for (template, replaced, by, said) in [
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
    ] {
        let text = edited(templates::text(template).unwrap(), &[(replaced, by)]);
        let error = scenario::parse("my", &text).expect_err(by).to_string();
        assert!(error.contains(said), "{by}: {error}");
    }
}

/// The first claim of a text, decided from runs whose numbers are given by column.
fn decided(text: &str, runs: u32, number: fn(&str, &str) -> f64) -> (String, String) {
    let scenario = scenario::parse("my", text).unwrap_or_else(|error| panic!("{error}"));
    let sweep = scenario.figure.sweep().unwrap();
    let mut records = Vec::new();
    for (at, point) in sweep.points().iter().enumerate() {
        let numbers: Vec<f64> =
            sweep.columns.iter().map(|column| number(column.name, point.name("controller"))).collect();
        records.extend((0..runs).map(|run| Record { point: at, run, seed: 0, numbers: numbers.clone() }));
    }
    let finding = scenario.expects[0].decide(&Table::new(scenario.figure, sweep, records));
    (finding.verdict.to_string(), finding.why)
}

#[test]
fn a_claim_is_about_the_first_column_whatever_is_drawn() {
    let text = edited(
        templates::text("controllers").unwrap(),
        &[("goodput(cubic) > 15 Mbit/s", "reno > cubic"), ("y = \"fairness\"", "y = \"rtt\"")],
    );
    let number = |column: &str, controller: &str| match (column, controller) {
        ("fairness", "reno") => 0.9,
        ("fairness", _) => 0.5,
        _ => 1.0,
    };
    let (verdict, why) = decided(&text, 2, number);
    assert_eq!(verdict, "holds", "{why}");
}

#[test]
fn verdicts_have_units_and_one_run_of_what_is_random_decides_nothing() {
    let text = templates::text("controllers").unwrap();
    let number = |column: &str, _: &str| if column == "goodput" { 19_326_566.0 } else { 1.0 };
    let (verdict, why) = decided(text, 2, number);
    assert_eq!(verdict, "holds");
    assert!(
        why.contains("at 3 of 3 points; the closest sides at delay=5 ms: 19.3 Mbit/s and 15.0 Mbit/s"),
        "{why}"
    );
    let (verdict, why) = decided(text, 1, number);
    assert_eq!(verdict, "does not hold");
    assert!(why.ends_with("one run of what is random has no interval: more runs would tell"), "{why}");
    // So `--quick` runs each point twice.
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), edited(text, &[("lasts = \"30 s\"", "lasts = \"11 s\"")]))
        .unwrap();
    let output = lab(folder.path(), &["run", "my.toml", "--quick"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.starts_with("my: 24 runs in "), "{said}");
}

#[test]
fn impossible_values_in_templates_are_refused_with_their_places() {
    for (template, replaced, by, said) in [
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
    ] {
        let text = templates::text(template).unwrap();
        assert!(text.contains(replaced), "{template}: {replaced}");
        let text = text.replacen(replaced, by, 1);
        let error = scenario::parse("my", &text).expect_err(by).to_string();
        assert!(error.contains(said), "{by}: {error}");
    }
}

/// A valid scenario with two links and one flow that lasts 5 s, with texts replaced.
fn flow(replaced: &[(&str, &str)]) -> Result<scenario::Scenario, String> {
    let text = r#"
title = "t"
hosts = ["client", "server"]
lasts = "5 s"

[links.near]
rate = "10 Mbit/s"
delay = "10 ms"

[links.far]
delay = "$delay"

[[path]]
via = ["near", "far"]

[transports.one]
protocol = "sctp"

[[workload]]
kind = "bulk"
transport = "one"

[[axis]]
name = "delay"
values = ["1 ms", "2 ms"]

[[event]]
at = "1 s"
link = "near"
set = { rate = "5 Mbit/s" }
"#;
    scenario::parse("my", &edited(text, replaced)).map_err(|error| error.to_string())
}

/// Notes what is said of a scenario that is not refused with these words.
fn refused(replaced: &[(&str, &str)], said: &str, others: &mut Vec<String>) {
    match flow(replaced) {
        Err(error) if error.contains(said) => {}
        Err(error) => others.push(format!("{said}: {error}")),
        Ok(_) => others.push(format!("{said}: accepted")),
    }
}

#[test]
fn what_never_happens_in_a_run_is_refused() {
    assert!(flow(&[]).is_ok());
    let (bulk, lasts, near) = ("kind = \"bulk\"", "lasts = \"5 s\"", "rate = \"10 Mbit/s\"");
    let requests = (bulk, "kind = \"requests\"\ncount = 5");
    let mut others = Vec::new();
    for (replaced, said) in [
        (&[("\"far\"]", "\"far\", \"near\"]")][..], "my.toml:14:23: link `near` is in this path twice"),
        (&[("\"server\"]", "\"client\"]")], "my.toml:3:20: there is another host `client`"),
        (
            &[("at = \"1 s\"", "at = \"5 s\"")],
            "my.toml:28:6: this event changes nothing: the run ends at 5 s",
        ),
        (
            &[(lasts, "runs = 1"), requests, ("at = \"1 s\"", "at = \"1000 h\"")],
            "my.toml:29:6: this event changes nothing: a run lasts 30 days at most",
        ),
        (
            &[(bulk, "kind = \"bulk\"\nstarts = \"6 s\"")],
            "my.toml:21:10: this workload never begins: the run ends at 5 s",
        ),
        (
            &[requests, ("count = 5", "count = 5\nstarts = \"6 s\"")],
            "my.toml:22:10: this workload never begins",
        ),
        (
            &[(bulk, "kind = \"arrivals\"\nlist = [{ at = \"7 s\", size = \"1 kB\" }]")],
            "my.toml:21:8: this workload never begins",
        ),
        (
            &[(bulk, "kind = \"web\"\nevery = \"1 s\"\nstarts = \"3 s\"\nends = \"2 s\"")],
            "my.toml:23:8: it ends before it begins",
        ),
        (
            &[(near, "rate = \"10 Mbit/s\"\ndown = [[\"1 s\", \"2 s\"], [\"6 s\", \"7 s\"]]")],
            "my.toml:8:25: this cut changes nothing: the run ends at 5 s",
        ),
        (
            &[(near, "rate = \"10 Mbit/s\"\nback = { down = [[\"6 s\", \"7 s\"]] }")],
            "my.toml:8:18: this cut changes nothing",
        ),
        (&[(lasts, "lasts = \"5 s\"\nquick = \"delay > 2 ms\"")], "my.toml:5:9: no point fulfils `quick`"),
        (
            &[(lasts, "lasts = \"5 s\"\nexpect = [\"goodput > 1 kbit/s at delay > 2 ms\"]")],
            "my.toml:5:11: no point fulfils the condition of this claim",
        ),
        (
            &[("[[event]]", "[plot]\nx = \"delay\"\nby = \"delay\"\n[[event]]")],
            "my.toml:29:6: `by` and `x` are the same axis",
        ),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
}

/// Runs of 5 s and of 9 s.
const LASTS: (&str, &str) = ("lasts = \"5 s\"", "lasts = \"$a\"");
const TWICE: (&str, &str) = ("[[axis]]", "[[axis]]\nname = \"a\"\nvalues = [\"5 s\", \"9 s\"]\n\n[[axis]]");

#[test]
fn what_no_workload_uses_is_refused() {
    let via = "via = [\"near\", \"far\"]";
    let apart = (via, "via = [\"near\"]\n\n[[path]]\nvia = [\"far\"]");
    let more = (via, "name = \"a\"\nvia = [\"near\", \"far\"]\n\n[[path]]\nname = \"b\"\nvia = [\"far\"]");
    let only = |path| ("transport = \"one\"", path);
    let tcp = ("protocol = \"sctp\"", "protocol = \"tcp\"");
    let mut others = Vec::new();
    for (replaced, said) in [
        (&[(via, "via = [\"near\"]")][..], "my.toml:10:8: link `far` is in no path: name it in the `via`"),
        (
            &[apart, only("transport = \"one\"\npaths = [\"near\"]")],
            "my.toml:10:8: no workload uses a path over link `far`",
        ),
        (&[apart, tcp], "my.toml:10:8: no workload uses a path over link `far`"),
        (&[more, only("transport = \"one\"\npaths = [\"a\"]")], "my.toml:17:1: no workload uses path `b`"),
        (&[more, tcp], "my.toml:17:1: nothing is sent on path `b`: TCP uses the first path of a workload"),
        (
            &[("[[workload]]", "[transports.two]\nprotocol = \"tcp\"\n\n[[workload]]")],
            "my.toml:19:13: no workload uses transport `two`",
        ),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
    // An axis may choose. Here each path is used at a point; the event changes its link or the other one.
    let chosen = |values: &str| {
        let axis = format!("[[axis]]\nname = \"use\"\nvalues = [{values}]\n\n[[axis]]");
        let event = ("link = \"near\"", "link = \"$use.link\"");
        flow(&[apart, only("transport = \"one\"\npaths = \"$use.path\""), event, ("[[axis]]", &axis)])
    };
    let same = "{ name = \"x\", path = [\"near\"], link = \"near\" }, { name = \"y\", path = [\"far\"], link = \"far\" }";
    assert!(chosen(same).is_ok());
    let crossed = "{ name = \"x\", path = [\"near\"], link = \"far\" }, { name = \"y\", path = [\"far\"], link = \"near\" }";
    let said = "my.toml:29:49: this event changes nothing: no workload uses a path over link `far`";
    assert!(chosen(crossed).is_err_and(|error| error.contains(said)), "{:?}", chosen(crossed).err());
}

#[test]
fn what_happens_after_the_end_of_every_run_is_refused() {
    let near = "rate = \"10 Mbit/s\"";
    let steps = (near, r#"rate = [{ rate = "10 Mbit/s" }, { rate = "5 Mbit/s", from = "7 s" }]"#);
    let back = (near, r#"back = { rate = [{ rate = "10 Mbit/s" }, { rate = "5 Mbit/s", from = "7 s" }] }"#);
    let set = "set = { rate = \"5 Mbit/s\" }";
    let (cut, later) = (
        (set, "set = { down = [[\"7 s\", \"8 s\"]] }"),
        (set, r#"set = { rate = [{ rate = "1 Mbit/s" }, { rate = "5 Mbit/s", from = "7 s" }] }"#),
    );
    let mut others = Vec::new();
    for (replaced, said) in [
        (&[steps][..], "my.toml:7:61: this rate changes nothing: the run ends at 5 s"),
        (&[back], "my.toml:7:70: this rate changes nothing: the run ends at 5 s"),
        (&[later], "my.toml:30:68: this rate changes nothing: the run ends at 5 s"),
        (&[cut], "my.toml:30:17: this cut changes nothing: the run ends at 5 s"),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
    // The longer run has them.
    for late in [steps, back, later, cut, ("at = \"1 s\"", "at = \"7 s\"")] {
        assert!(flow(&[late, LASTS, TWICE]).is_ok(), "{late:?}: {:?}", flow(&[late, LASTS, TWICE]).err());
    }
}

#[test]
fn runs_without_end_are_refused() {
    let (bulk, lasts, near) = ("kind = \"bulk\"", "lasts = \"5 s\"", "rate = \"10 Mbit/s\"");
    let event = "\n[[event]]\nat = \"1 s\"\nlink = \"near\"\nset = { rate = \"5 Mbit/s\" }\n";
    let requests = (bulk, "kind = \"requests\"\ncount = 5");
    let free = ("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n", "");
    let (no_event, still) = ((event, ""), ("\"1 ms\", ", "\"0 ms\", "));
    let mut others = Vec::new();
    for (replaced, said) in [
        (
            &[free, no_event, still][..],
            "my.toml:17:1: a run of this scenario cannot end: packets of bulk flows take no time over path `near`",
        ),
        (
            &[(lasts, "lasts = \"5 s\"\nsample-every = \"100 us\""), ("\"5 s\"", "\"1 h\"")],
            "my.toml:5:16: there are 10000000 samples at most",
        ),
        (
            &[("\"5 s\"", "\"700 h\""), ("\"10 Mbit/s\"", "\"100 Gbit/s\"")],
            "my.toml:20:8: this would be about 21000000 million packets, and 10000 million are possible",
        ),
        (
            &[(
                "protocol = \"sctp\"",
                "protocol = \"sctp\"\nrto-max = \"0 s\"\nrto-min = \"0 s\"\nrto-initial = \"0 s\"",
            )],
            "my.toml:20:15: `rto-initial` and `rto-max` are 1 ms at least",
        ),
        (
            &[(lasts, "runs = 1"), requests, (near, "burst-loss = { to-bad = 1, to-good = 0 }"), no_event],
            "my.toml:19:1: a run of this scenario cannot end: link `near` loses every packet in its bad state",
        ),
        (
            &[(lasts, "runs = 1"), requests, (near, "down = [[\"0 s\", \"1000 h\"]]"), no_event],
            "my.toml:19:1: a run of this scenario cannot end: link `near` is cut from the beginning to the end",
        ),
    ] {
        refused(replaced, said, &mut others);
    }
    assert!(others.is_empty(), "{others:#?}");
    // With a window that a round trip limits, time passes.
    assert!(flow(&[(near, ""), no_event]).is_ok());
}

#[test]
fn a_session_that_fails_ends_its_run_alone_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let text = templates::text("outage").unwrap();
    let text = text.replace("down = [[\"2 s\", \"$cut.until\"]]", "down = [[\"2 s\", \"700 h\"]]");
    let cut = text.find("[[axis]]\nname = \"cut\"").unwrap();
    let paths = text.find("[[axis]]\nname = \"paths\"").unwrap();
    let text = format!("{}{}", &text[..cut], &text[paths..]);
    let text = text.replace("expect = [\"both < first at cut != short\"]\n", "");
    std::fs::write(folder.path().join("my.toml"), text).unwrap();
    let output = lab(folder.path(), &["run", "my.toml", "--runs", "2"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("failed: paths=first") && said.contains("the FTP session failed: the session was lost"),
        "{said}"
    );
    assert!(!said.contains("panicked"), "{said}");
    let csv = std::fs::read_to_string(folder.path().join("results/my.csv")).unwrap();
    let rows =
        |path: &str| csv.lines().filter(|line| line.starts_with(path)).map(str::to_owned).collect::<Vec<_>>();
    assert!(rows("first").iter().all(|row| row.contains("NaN")) && rows("first").len() == 2, "{csv}");
    assert!(rows("both").iter().all(|row| !row.contains("NaN")) && rows("both").len() == 2, "{csv}");
}

#[test]
fn default_columns_that_other_workloads_have_too_name_the_session() {
    let text = "title = \"t\"\n[links.l]\nrate = \"1 Mbit/s\"\n[transports.s]\nprotocol = \"sctp\"\n\
                [[workload]]\nkind = \"ftp\"\nmode = \"braid\"\ntransport = \"s\"\nfiles = [\"1 MB\"]\n";
    let columns = |text: &str| -> Vec<&str> {
        let scenario = scenario::parse("my", text).unwrap_or_else(|error| panic!("{error}"));
        scenario.figure.sweep().unwrap().columns.iter().map(|column| column.name).collect()
    };
    assert_eq!(columns(text), ftp::COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>());
    let beside = columns(&format!("{text}[[workload]]\nkind = \"bulk\"\ntransport = \"s\"\n"));
    assert_eq!((beside[0], beside.len()), ("seconds", ftp::COLUMNS.len()));
    assert_eq!(
        beside.iter().filter(|name| name.starts_with("ftp.")).collect::<Vec<_>>(),
        [&"ftp.timeouts", &"ftp.retransmissions"]
    );
}

#[test]
fn a_scenario_that_cannot_end_is_refused_before_it_runs() {
    let base = |link: &str, files: &str| {
        format!(
            "title = \"t\"\n[links.l]\n{link}\n[transports.s]\nprotocol = \"sctp\"\npacket = \"1480 B\"\n\
             [[workload]]\nkind = \"ftp\"\nmode = \"braid\"\ntransport = \"s\"\nfiles = [\"{files}\"]\n"
        )
    };
    assert!(scenario::parse("my", &base("rate = \"1 Mbit/s\"", "1 MB")).is_ok());
    for (link, files, said) in [
        ("loss = 1", "1 MB", "cannot end: link `l` loses every packet"),
        ("back = { loss = 1 }", "1 MB", "cannot end: link `l` loses every packet"),
        ("corrupt = 1", "1 MB", "cannot end: link `l` corrupts every packet"),
        ("mtu = \"1000 B\"", "1 MB", "those of this transport are up to 1500 bytes"),
        ("rate = \"1 kbit/s\"", "1 GB", "this would take 93 days at the rate of its links"),
        ("flap = { period = \"1 s\", down = \"1 s\" }", "1 MB", "a cut is shorter than its period"),
    ] {
        let error = scenario::parse("my", &base(link, files)).expect_err(link).to_string();
        assert!(error.contains(said), "{link}: {error}");
    }
}

#[test]
fn a_scenario_runs_and_is_checked_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), with("lasts = \"10 s\"", "lasts = \"2 s\"\nruns = 3\nmeasure = [\"goodput\", \"rtt\", \"cwnd\", \"link.core.queue\", \"link.core.lost\"]")).unwrap();
    let output = lab(folder.path(), &["run", "my.toml"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for ending in ["csv", "parquet", "svg", "png"] {
        assert!(folder.path().join(format!("results/my.{ending}")).exists(), "{ending}");
    }
    let csv = std::fs::read_to_string(folder.path().join("results/my.csv")).unwrap();
    let rows: Vec<Vec<&str>> =
        csv.lines().filter(|line| !line.starts_with('#')).map(|line| line.split(',').collect()).collect();
    assert_eq!(
        rows[0],
        ["loss", "transport", "run", "seed", "goodput", "rtt", "cwnd", "link.core.queue", "link.core.lost"]
    );
    assert_eq!(rows.len(), 1 + 4 * 3);
    for row in &rows[1..] {
        let numbers: Vec<f64> = row[4..].iter().map(|text| text.parse().unwrap()).collect();
        assert!((1e5..10e6).contains(&numbers[0]), "{row:?}");
        assert!(numbers.iter().all(|number| number.is_finite()), "{row:?}");
        assert_eq!(row[0] == "0", numbers[4] == 0.0, "{row:?}");
    }
    assert!(csv.contains("# setting: link core: rate = 10 Mbit/s, loss = $loss\n"), "{csv}");
    // Another text is another experiment, so its results are not reused.
    let said = |output: Output| String::from_utf8(output.stderr).unwrap();
    assert!(said(lab(folder.path(), &["run", "my.toml"])).contains("my: up to date"));
    let text = std::fs::read_to_string(folder.path().join("my.toml")).unwrap();
    std::fs::write(folder.path().join("my.toml"), format!("{text}# no longer the same\n")).unwrap();
    assert!(!said(lab(folder.path(), &["run", "my.toml"])).contains("up to date"));
    // The claim says that SCTP has less, which is clearly wrong without losses.
    let output = lab(folder.path(), &["check", "my.toml", "--json"]);
    let line: serde_json::Value =
        serde_json::from_slice(output.stdout.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    assert_eq!(line["says"], "sctp < tcp at loss >= 1 %");
    assert_eq!(output.status.success(), line["verdict"] == "holds");
    for (words, said) in [
        (&["run", "no.toml"][..], "cannot read the scenario no.toml"),
        (&["check", "my.toml", "P1"], "`P1` cannot be combined with scenario files"),
        (&["new", "three-paths"], "invalid value 'three-paths'"),
    ] {
        let output = lab(folder.path(), words);
        assert!(!output.status.success());
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(said),
            "{words:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn documentation_and_schema_agree_with_the_program() {
    let docs = include_str!("../../../../docs/scenarios.md");
    let tables = docs.split_once("prints these tables.\n\n").unwrap().1;
    assert!(
        tables == scenario::schema::reference(),
        "run: braidlab schema --markdown, and put it at the end of docs/scenarios.md"
    );
    let published = include_str!("../../../../docs/scenario.schema.json");
    assert!(published == scenario::schema::json(), "run: braidlab schema > docs/scenario.schema.json");
    let example = docs.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    scenario::parse("example", example).unwrap_or_else(|error| panic!("{error}"));
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

/// One flow with a controller that is not in `cc`.
const EXTERNAL: &str = r#"
title = "One flow"
lasts = "3 s"
runs = 4
[links.dsl]
rate = "8 Mbit/s"
delay = "10 ms"
loss = "1 %"
[transports.mine]
protocol = "sctp"
controller = "$controller"
[[workload]]
kind = "bulk"
transport = "mine"
[[axis]]
name = "controller"
values = ["mine", "reno"]
paired = true
"#;

/// A Reno called `mine`, which fails at its first loss if `fails` is set.
fn with_own_controller(fails: bool) -> scenario::Scenario {
    let build = move |options: cc::Options, mtu: usize| -> Box<dyn cc::Controller> {
        let reno = cc::reno::Reno::new(options, mtu);
        cc::guarded(mtu, |_| Own { reno, fails })
    };
    let own = cc::External { name: "mine", build: Box::leak(Box::new(build)) };
    let (controllers, notes) = (vec![own], vec!["mine: as in this test".to_owned()]);
    let source =
        scenario::Source { id: "own", text: EXTERNAL, shown: "own.toml", folder: None, controllers, notes };
    source.read().unwrap_or_else(|error| panic!("{error}"))
}

#[derive(Debug, Clone)]
struct Own {
    reno: cc::reno::Reno,
    fails: bool,
}

impl cc::Controller for Own {
    fn window(&self) -> usize {
        self.reno.window()
    }

    fn ssthresh(&self) -> usize {
        self.reno.ssthresh()
    }

    fn on_ack(&mut self, ack: cc::Ack<'_>) {
        self.reno.on_ack(ack);
    }

    fn on_congestion(&mut self, congestion: cc::Congestion) {
        if self.fails {
            RunFailed::end("at its first loss".to_owned());
        }
        self.reno.on_congestion(congestion);
    }

    fn on_idle(&mut self, idle: cc::Idle) {
        self.reno.on_idle(idle);
    }

    fn limit_window(&mut self, at_most: usize) {
        self.reno.limit_window(at_most);
    }

    fn restart_window(&mut self, window: usize) {
        self.reno.restart_window(window);
    }
}

#[test]
fn an_added_controller_runs_like_a_built_in_one() {
    let scenario = with_own_controller(false);
    let head = (scenario.figure.settings)();
    assert!(head.iter().any(|line| line == "mine: as in this test"), "{head:?}");
    let sweep = scenario.figure.sweep().unwrap();
    let points = sweep.points();
    let seed = sweep.seed(&points[0], 0, 1);
    assert_eq!(seed, sweep.seed(&points[1], 0, 1));
    assert_eq!((sweep.run)(&points[0], seed), (sweep.run)(&points[1], seed));
    let error = scenario::parse("own", EXTERNAL).unwrap_err().to_string();
    assert!(error.contains("no congestion control is called `mine`"), "{error}");
}

#[derive(Default)]
struct Told {
    failed: Vec<String>,
}

impl Reporter for Told {
    fn on_failed(&mut self, what: &str) {
        self.failed.push(what.to_owned());
    }
}

#[test]
fn a_failed_run_does_not_end_other_runs() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = with_own_controller(true);
    let bench = Bench { store: Store::new(folder.path()), options: bench::Options::default() };
    let mut told = Told::default();
    let Made::Sweep(table) = bench.make(scenario.figure, &mut told).unwrap() else { panic!("no sweep") };
    let [own, reno] = ["controller=mine", "controller=reno"].map(|at| table.at(at).values("goodput"));
    assert_eq!((own.len(), told.failed.len()), (4, 4));
    assert!(own.iter().all(|goodput| goodput.is_nan()), "{own:?}");
    assert!(reno.iter().all(|goodput| *goodput > 1e5), "{reno:?}");
    assert!(told.failed[0].ends_with(": at its first loss"), "{}", told.failed[0]);
}

#[test]
fn a_slurm_array_gives_the_rows_and_pictures_of_one_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), with("lasts = \"10 s\"", "lasts = \"1 s\"\nruns = 2"))
        .unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/sweep_slurm.sh");
    let submit = |task: Option<&str>| {
        let mut command = Command::new("sh");
        command.args([script, "my.toml", "parts"]).current_dir(folder.path());
        command.env("BRAIDLAB", env!("CARGO_BIN_EXE_braidlab")).env_remove("SLURM_ARRAY_TASK_ID");
        if let Some(task) = task {
            command.env("SLURM_ARRAY_TASK_ID", task).env("SLURM_ARRAY_TASK_COUNT", "2");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{task:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    [Some("1"), Some("2"), None].into_iter().for_each(submit);
    assert!(lab(folder.path(), &["run", "my.toml"]).status.success());
    let read = |of: &str, name: &str| std::fs::read(folder.path().join(of).join(name)).unwrap();
    let rows = |of: &str| -> Vec<String> {
        let text = String::from_utf8(read(of, "my.csv")).unwrap();
        text.lines().filter(|line| !line.starts_with("# command: ")).map(str::to_owned).collect()
    };
    assert_eq!(rows("parts"), rows("results"));
    for name in ["my.svg", "my.png"] {
        assert!(read("parts", name) == read("results", name), "{name}");
    }
}

struct Watching {
    looks: Vec<scenario::Look>,
}

impl scenario::Watcher for Watching {
    fn every(&self) -> Duration {
        Duration::from_millis(250)
    }

    fn look(&mut self, look: &scenario::Look) {
        self.looks.push(look.clone());
    }
}

#[test]
fn a_watched_run_gives_the_same_numbers() {
    let scenario = with_own_controller(false);
    let sweep = scenario.figure.sweep().unwrap();
    let point = &sweep.points()[0];
    let mut watching = Watching { looks: Vec::new() };
    assert_eq!(scenario.watch(point, 5, &mut watching), (sweep.run)(point, 5));
    let times: Vec<u128> = watching.looks.iter().map(|look| look.now.as_millis()).collect();
    assert_eq!(times, (1..12).map(|step| step * 250).collect::<Vec<_>>());
    let last = watching.looks.last().unwrap();
    assert!(last.flows[0].0 == "bulk" && last.flows[0].1 > 100_000, "{last:?}");
    assert_eq!(last.queues[0].0, "dsl");
}

#[test]
fn a_sweep_with_added_points_has_the_files_of_a_run_sweep() {
    let scenario = with_own_controller(false);
    let sweep = scenario.figure.sweep().unwrap();
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bench = |folder: &Path| Bench { store: Store::new(folder), options: bench::Options::default() };
    bench(here.path()).make(scenario.figure, &mut bench::Silent).unwrap();
    let by_points = || {
        let Opened::Unfinished(open) =
            bench(there.path()).open(scenario.figure, sweep, &mut bench::Silent).unwrap()
        else {
            panic!("it was never run")
        };
        open
    };
    let records = |point: usize| -> Vec<Record> {
        let seeds = (0..4).map(|run| (run, sweep.seed(&sweep.points()[point], run, 1)));
        let row = |seed| (sweep.run)(&sweep.points()[point], seed).0;
        seeds.map(|(run, seed)| Record { point, run, seed, numbers: row(seed) }).collect()
    };
    // The last point first; then the program is interrupted.
    by_points().add(1, &records(1), Enough::Known).unwrap();
    let mut open = by_points();
    assert_eq!((open.points(), open.known()), (&[0, 1][..], &records(1)[..]));
    open.add(1, &records(1), Enough::Known).unwrap();
    open.add(0, &records(0), Enough::Known).unwrap();
    open.finish(&mut bench::Silent).unwrap();
    for name in ["own.csv", "own.parquet", "own.svg", "own.png"] {
        let [here, there] =
            [here.path(), there.path()].map(|folder| std::fs::read(folder.join(name)).unwrap());
        assert!(here == there, "{name}");
    }
    assert!(!there.path().join("own.csv.part").exists());
}
