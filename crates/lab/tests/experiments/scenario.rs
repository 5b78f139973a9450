//! Scenarios: the papers' own scenarios give the bytes of their figures, templates are read, and the documentation is
//! true. What is shared by the modules is here.

mod claims;
mod effects;
mod mistakes;
mod running;

use std::path::Path;
use std::process::{Command, Output};

use braidftp_lab::figure::Runs;
use braidftp_lab::papers;
use braidftp_lab::papers::ftp::{self, Clock, LAN, SATELLITE, WAN};
use braidftp_lab::scenario::{self, templates};
use braidftp_sim::link::{Loss, Queue};

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

/// Checks that templates with one text replaced are refused with these words: template, text, replacement, words.
fn answered(mistakes: &[(&str, &str, &str, &str)]) {
    for (template, replaced, by, said) in mistakes {
        let text = edited(templates::text(template).unwrap(), &[(replaced, by)]);
        let error = scenario::parse("my", &text).expect_err(by).to_string();
        assert!(error.contains(said), "{by}: {error}");
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
