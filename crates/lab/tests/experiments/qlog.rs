//! `braidlab qlog`: the packets of a run of a scenario, and how the state of its paths changes.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use braidftp_lab::scenario::{self, Look, Traced, TracedEnd, Watcher};
use braidftp_sim::record::HostEvent;
use serde_json::Value;

/// A bulk flow over SCTP beside one over TCP, and requests over SCTP.
const SCENARIO: &str = r#"
title = "Three workloads"
lasts = "3 s"
measure = ["a.goodput", "a.retransmissions", "tcp.goodput", "asks.mean"]

[links.core]
rate = "4 Mbit/s"
delay = "20 ms"
queue = "30 kB"
loss = "$loss"

[transports]
sctp = { protocol = "sctp" }
tcp = { protocol = "tcp" }

[[workload]]
name = "tcp"
kind = "bulk"
transport = "tcp"

[[workload]]
name = "a"
kind = "bulk"
transport = "sctp"
flows = 2

[[workload]]
name = "asks"
kind = "requests"
transport = "sctp"
count = 5
request = "200 B"
answer = "20 kB"
pause = "100 ms"

[[axis]]
name = "loss"
values = ["0 %", "2 %"]
"#;

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).args(words).current_dir(folder).output().unwrap()
}

fn made(folder: &Path, words: &[&str]) -> (Vec<Value>, String) {
    let output = lab(folder, &[&["qlog"], words].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(folder.join("run.qlog")).unwrap();
    let records = text.split('\u{1e}').skip(1).map(|record| serde_json::from_str(record).unwrap()).collect();
    (records, String::from_utf8(output.stdout).unwrap())
}

fn count(events: &[Value], name: &str) -> usize {
    events.iter().filter(|event| event["name"] == name).count()
}

fn folder(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.toml"), scenario).unwrap();
    folder
}

#[test]
fn a_run_of_ones_own_scenario_becomes_the_same_qlog_again_and_braidlab_draws_it() {
    let folder = folder(SCENARIO);
    let words = ["my.toml", "--at", "loss=0.02", "--seed", "7"];
    let (records, said) = made(folder.path(), &words);
    assert_eq!(made(folder.path(), &words).0, records);
    assert_ne!(made(folder.path(), &["my.toml", "--at", "loss=0.02", "--seed", "8"]).0, records);
    assert_ne!(made(folder.path(), &["my.toml", "--at", "loss=0", "--seed", "7"]).0, records);
    // The first workload over SCTP, at the end that sends.
    assert!(said.starts_with("run.qlog: loss=0.02: a client, "), "{said}");
    let (head, events) = records.split_first().unwrap();
    assert_eq!(head["trace"]["vantage_point"]["type"], "client");
    assert_eq!(head["title"], "my · loss=0.02 · seed 7 · a client");
    let [sent, received] = ["sctp:packet_sent", "sctp:packet_received"].map(|name| count(events, name));
    assert!(sent > 150 && received > 50, "{sent} sent, {received} received");
    let times: Vec<f64> = events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] == 0.0 && *times.last().unwrap() <= 3_000.0);
    // One host: all packets are of its address.
    let paths: std::collections::BTreeSet<&str> =
        events.iter().filter_map(|event| event["data"]["path"].as_str()).collect();
    assert_eq!(paths.len(), 1, "{paths:?}");
    // The state of the path is there, too, and changes after the packet that changes it.
    let windows = events.iter().filter(|event| !event["data"]["congestion_window"].is_null()).count();
    let metrics = count(events, "sctp:metrics_updated");
    assert!(windows > 10 && metrics > 100, "{windows} of {metrics}");
    let output = lab(folder.path(), &["view", "run.qlog", "-o", "page.html"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Counts the events of a host.
struct Counter {
    traced: Traced,
    events: usize,
}

impl Watcher for Counter {
    fn every(&self) -> Duration {
        Duration::from_millis(7)
    }

    fn look(&mut self, _: &Look) {}

    fn traces(&self) -> Option<Traced> {
        Some(self.traced)
    }

    fn trace(&mut self, events: Vec<HostEvent>) {
        self.events += events.len();
    }
}

#[test]
fn a_recorded_run_has_the_numbers_of_one_that_nobody_watches() {
    let scenario = scenario::parse("my", SCENARIO).unwrap();
    let sweep = scenario.figure.sweep().unwrap();
    for point in sweep.points() {
        let plain = (sweep.run)(&point, 7);
        for (workload, flow, end) in [
            (1, 0, TracedEnd::Client),
            (1, 1, TracedEnd::Server),
            (2, 0, TracedEnd::Client),
            (2, 0, TracedEnd::Server),
        ] {
            let mut counter = Counter { traced: Traced { workload, flow, end }, events: 0 };
            let watched = scenario.watch(&point, 7, &mut counter);
            assert_eq!(watched, plain, "{point}: {:?}", counter.traced);
            assert!(counter.events > 100, "{point}: {:?}: {}", counter.traced, counter.events);
        }
    }
}

#[test]
fn the_flows_of_a_workload_and_both_ends_are_recorded_one_by_one() {
    let folder = folder(SCENARIO);
    let first = made(folder.path(), &["my.toml", "--workload", "a"]).0;
    let second = made(folder.path(), &["my.toml", "--workload", "a", "--flow", "2"]).0;
    assert_ne!(first[1..], second[1..]);
    let (server, said) = made(folder.path(), &["my.toml", "--workload", "asks"]);
    assert!(said.contains(": asks server, "), "{said}");
    let (client, said) = made(folder.path(), &["my.toml", "--workload", "asks", "--side", "client"]);
    assert!(said.contains(": asks client, "), "{said}");
    let bytes = |events: &[Value], name: &str| -> u64 {
        let its = events[1..].iter().filter(|event| event["name"] == name);
        its.map(|event| event["data"]["length"].as_u64().unwrap()).sum()
    };
    // Without losses the client receives what the server sends.
    let [sent, received] = [bytes(&server, "sctp:packet_sent"), bytes(&client, "sctp:packet_received")];
    assert!(sent > 5 * 20_000, "{sent}");
    assert_eq!(sent, received);
}

#[test]
fn figures_of_ftp_are_recorded_at_the_server_and_parts_of_a_run_by_time() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["multistream/fig6", "--at", "variant=braid,loss=0.03"];
    let (all, said) = made(folder.path(), &words);
    assert!(said.contains("loss=0.03") && said.contains(" server, "), "{said}");
    let (part, _) = made(folder.path(), &[&words[..], &["--from", "2.2", "--lasts", "0.5"]].concat());
    let times = |events: &[Value]| -> Vec<f64> {
        events[1..].iter().map(|event| event["time"].as_f64().unwrap()).collect()
    };
    let inside = times(&all).into_iter().filter(|time| (2_200.0..2_700.0).contains(time)).count();
    assert!(inside > 20, "{inside}");
    assert!(times(&part).iter().all(|time| (2_200.0..2_700.0).contains(time)));
    let packets = |events: &[Value], between: std::ops::Range<f64>| {
        let is_packet =
            |event: &&Value| event["name"].as_str().is_some_and(|name| name.starts_with("sctp:packet_"));
        events[1..]
            .iter()
            .filter(is_packet)
            .filter(|event| between.contains(&event["time"].as_f64().unwrap()))
            .count()
    };
    assert_eq!(packets(&part, 0.0..1e9), packets(&all, 2_200.0..2_700.0));
}

#[test]
fn what_cannot_be_recorded_is_refused() {
    let folder = folder(SCENARIO);
    for (words, says) in [
        (&["multistream/fig6", "--at", "variant=tcp"][..], "no workload of this point runs over SCTP"),
        (
            &["my.toml", "--workload", "tcp"],
            "workload `tcp` does not run over SCTP, whose events this qlog has; those that do: a, asks",
        ),
        (&["my.toml", "--workload", "b"], "no workload `b`; there are tcp, a, asks"),
        (&["my.toml", "--flow", "3"], "workload `a` has 2 flows; --flow is 3"),
        (&["my.toml", "--flow", "0"], "0 is not in 1.."),
        (&["my.toml", "--at", "los=1"], "no axis `los`; there are loss"),
        (&["my.toml", "--from", "9"], "has no packets: the last one of this host is at 2.9"),
    ] {
        let output = lab(folder.path(), &[&["qlog"], words].concat());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
        assert!(error.contains(says), "{words:?}: {error}");
    }
    let output = lab(folder.path(), &["qlog", "my.toml", "-o", "none/run.qlog"]);
    assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
}
