//! Claims of scenarios: what they compare, and how they are decided.

use braidftp_lab::scenario::{self, templates};
use braidftp_lab::table::{Record, Table};

use super::{answered, edited, lab};

#[test]
fn claims_compare_what_has_the_same_dimension() {
    answered(&[
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
    ]);
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
