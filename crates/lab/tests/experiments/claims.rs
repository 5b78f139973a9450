//! Every claim of the papers exists once and needs existing figures; each check finds the cells that it
//! needs and reaches a verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use braidftp_lab::claim::{Claim, Verdict};
use braidftp_lab::compare::{
    self,
    rows::{Row, World},
};
use braidftp_lab::data::Data;
use braidftp_lab::figure::{Figure, Kind, Quick};
use braidftp_lab::papers;
use braidftp_lab::table::{Record, Rows, Table};

/// The numbering of claims, with two digits where there is a 0, and their count: those of the papers, and
/// the targets of our own benches.
const PAPERS: [(&str, usize); 9] = [
    ("P1-C0", 28),
    ("P2-C0", 54),
    ("P3-C0", 23),
    ("P4-C0", 25),
    ("ADaLR-X", 5),
    ("U-C0", 12),
    ("F-C0", 9),
    ("M-C0", 11),
    ("E-C0", 10),
];

#[test]
fn every_claim_of_the_papers_exists_once() {
    let ids: Vec<&str> = papers::claims().map(|claim| claim.id).collect();
    let all: BTreeSet<String> = PAPERS
        .iter()
        .flat_map(|(first, count)| {
            (1..=*count).map(move |number| match first.strip_suffix('0') {
                Some(first) => format!("{first}{number:02}"),
                None => format!("{first}{number}"),
            })
        })
        .collect();
    let found: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    assert_eq!(found, all);
    assert_eq!(ids.len(), all.len(), "duplicate id");
}

#[test]
fn figures_have_distinct_names_and_claims_need_existing_figures() {
    let ids: Vec<&str> = papers::figures().map(|figure| figure.id).collect();
    let unique: BTreeSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for paper in papers::ALL {
        for figure in (paper.figures)() {
            assert_eq!(figure.paper(), paper.name, "{}", figure.id);
        }
    }
    for claim in papers::claims() {
        for needed in claim.needs {
            assert!(papers::figure(needed).is_some(), "{} needs {needed}", claim.id);
        }
    }
}

/// Arbitrary numbers: ten different runs for each point.
fn made_up(figure: &'static Figure, salt: u64) -> Option<Table> {
    let Kind::Sweep(sweep) = &figure.kind else { return None };
    let mut records = Vec::new();
    for point in 0..sweep.points().len() {
        for run in 0..10_u32 {
            let number = |column: usize| {
                let mix = (point as u64 * 31 + u64::from(run) * 7 + column as u64 * 13 + salt)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                1.0 + (mix >> 40) as f64 / 1e6
            };
            let numbers = (0..sweep.columns.len()).map(number).collect();
            records.push(Record { point, run, seed: 0, numbers });
        }
    }
    Some(Table::new(figure, sweep, records))
}

/// A scene is one run or a few, and takes little time, like a shortened film, so it is run.
fn scene(figure: &'static Figure) -> Rows {
    static MADE: Mutex<BTreeMap<&str, Rows>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let rows = made.entry(figure.id).or_insert_with(|| {
        let scene =
            figure.kind.scene(1, Quick::Yes).unwrap_or_else(|| panic!("{} is not a scene", figure.id));
        Rows { columns: scene.columns.iter().map(|column| (*column).to_owned()).collect(), rows: scene.rows }
    });
    rows.clone()
}

fn data(claim: &Claim, salt: u64) -> Data {
    let mut data = Data::default();
    for figure in papers::figures().filter(|figure| claim.needs.contains(&figure.id)) {
        match made_up(figure, salt) {
            Some(table) => data.add_table(figure, table),
            None => data.add_scene(figure, scene(figure)),
        }
    }
    data
}

#[test]
fn every_check_finds_its_data_and_explains_its_verdict() {
    for claim in papers::claims() {
        for salt in [1, 2] {
            let finding = (claim.check)(&data(claim, salt));
            assert!(!finding.why.is_empty(), "{}", claim.id);
            let is_shown = finding.verdict == Verdict::NotAMeasurement;
            assert_eq!(finding.figure.is_none(), is_shown, "{}: a measurement has a number", claim.id);
            assert_eq!(claim.needs.is_empty(), is_shown, "{}: a measurement has a figure", claim.id);
            if let Verdict::Contradicts(other) = finding.verdict {
                assert!(papers::claims().any(|claim| claim.id == other), "{}", claim.id);
            }
        }
    }
}

/// P1-C22 is decided by live runs, not by those of a figure.
#[test]
fn the_simulator_is_validated_by_live_sctp_cells() {
    let claim = papers::claims().find(|claim| claim.id == "P1-C22").unwrap();
    let verdict = |way: &str, ratio: f64| {
        let cell = compare::select(&[format!("lan/10k/1/{way}").parse().unwrap()])[0];
        let row = |world, seconds| Row { cell, world, run: 0, seed: 1, seconds };
        let mut data = Data::default();
        data.add_compared(&[row(World::Simulated, 20.0), row(World::Live, 20.0 * ratio)]);
        let finding = (claim.check)(&data);
        assert_eq!(finding.figure.is_none(), finding.verdict == Verdict::NotAMeasurement);
        finding.verdict
    };
    assert_eq!(verdict("ms", 1.05), Verdict::Holds);
    assert_eq!(verdict("braid", 1.2), Verdict::DoesNotHold);
    assert_eq!(verdict("ms", 0.8), Verdict::DoesNotHold);
    assert_eq!(verdict("tcp", 1.0), Verdict::NotAMeasurement, "kernel TCP is reported only");
}

#[test]
fn the_evidence_of_claims_without_measurement_exists() {
    let root = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let shown = papers::claims().map(|claim| (claim, (claim.check)(&data(claim, 1))));
    for (claim, finding) in shown {
        let words = finding.why.split([' ', ',', ';', ':', '(', ')', '\'']);
        for path in words.filter(|word| word.starts_with("crates/")) {
            let path = path.trim_end_matches('.');
            assert!(root.join(path).exists(), "{} names {path}", claim.id);
        }
    }
}
