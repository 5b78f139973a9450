//! The framework with a figure whose runs take no time: the same rows for any number of threads,
//! interrupted sweeps, shards, caps, stored results and incomplete files.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use braidftp_lab::bench::{Bench, BenchError, Fresh, Made, Options, Quick, Reporter, Silent};
use braidftp_lab::figure::{Axis, Column, Figure, Kind, Point, Row, Runs, Sweep, Value};
use braidftp_lab::papers;
use braidftp_lab::plot::Plot;
use braidftp_lab::store::{Store, Variety, csv};
use braidftp_lab::sweep::{self, Chance, Shard};
use braidftp_lab::table::Table;
use braidftp_lab::times::Times;

const AXES: &[Axis] = &[
    Axis {
        name: "loss",
        label: "loss",
        values: &[Value::Number(0.0), Value::Number(0.01), Value::Number(0.1)],
        show: &Value::to_string,
    },
    Axis {
        name: "variant",
        label: "variant",
        values: &[Value::Name("tcp"), Value::Name("braid")],
        show: &Value::to_string,
    },
];

const SWEEP: Sweep = Sweep {
    axes: AXES,
    only: &|_| true,
    quick: &|point| point.number("loss") < 0.1,
    fixed: &|point| point.number("loss") == 0.0,
    paired: &["variant"],
    columns: &[Column { name: "seconds", unit: "s" }, Column { name: "packets", unit: "" }],
    runs: Runs { min: 4, max: 60, within: 0.05 },
    run: &run,
    plot: Plot::lines("loss", "seconds", "seconds"),
};

static FIGURE: Figure = Figure {
    id: "test/toy",
    shows: "A toy, with <signs> & all",
    caption: "Nothing at all is measured here, in as many words as it takes to fill more than a line of a caption.",
    settings: &|| vec!["rate=3mbit".into(), "two\nlines".into()],
    kind: Kind::Sweep(SWEEP),
};

/// The number of runs of `COUNTED`.
static RUNS: AtomicUsize = AtomicUsize::new(0);

static COUNTED: Figure = Figure {
    id: "test/counted",
    kind: Kind::Sweep(Sweep {
        run: &|point, seed| {
            RUNS.fetch_add(1, Ordering::SeqCst);
            run(point, seed)
        },
        ..SWEEP
    }),
    ..FIGURE
};

/// Deterministic without loss; else from 0.9 to 1.1 of the expected value, or much wider at 10 %.
fn run(point: &Point, seed: u64) -> Row {
    let loss = point.number("loss");
    let base = if point.name("variant") == "tcp" { 4.0 } else { 1.0 };
    let part = (seed >> 11) as f64 / (1_u64 << 53) as f64;
    let spread = if loss == 0.0 {
        0.0
    } else if loss < 0.1 {
        0.1
    } else {
        0.9
    };
    Row(vec![base * (1.0 + spread * (2.0 * part - 1.0)), 7.0])
}

fn bench(folder: &Path, options: Options) -> Bench {
    Bench { store: Store::new(folder), options: Options { command: "braidlab test".into(), ..options } }
}

fn sweep_of(figure: &'static Figure) -> &'static Sweep {
    figure.sweep().expect("the toy is a sweep")
}

fn table(made: Made) -> Table {
    match made {
        Made::Sweep(table) => table,
        Made::Scene(_) | Made::LeftOut(_) => panic!("the toy is a sweep"),
    }
}

#[derive(Default)]
struct Notes(Vec<String>);

impl Reporter for Notes {
    fn on_capped(&mut self, what: &str) {
        self.0.push(format!("capped: {what}"));
    }

    fn on_note(&mut self, note: &str) {
        self.0.push(note.to_owned());
    }
}

#[test]
fn the_rows_are_the_same_whatever_the_number_of_threads() {
    let files: Vec<Vec<u8>> = [1, 2, 7]
        .into_iter()
        .map(|threads| {
            let folder = tempfile::tempdir().unwrap();
            let bench = bench(folder.path(), Options { threads, ..Options::default() });
            bench.make(&FIGURE, &mut Silent).unwrap();
            std::fs::read(folder.path().join("test/toy.csv")).unwrap()
        })
        .collect();
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]));
    let other = Options { seed: 2, ..Options::default() };
    let folder = tempfile::tempdir().unwrap();
    bench(folder.path(), other).make(&FIGURE, &mut Silent).unwrap();
    assert_ne!(std::fs::read(folder.path().join("test/toy.csv")).unwrap(), files[0]);
}

#[test]
fn runs_are_added_until_the_mean_is_known_or_the_cap_is_reached_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut notes = Notes::default();
    let made = bench(folder.path(), Options::default()).make(&FIGURE, &mut notes).unwrap();
    let table = table(made);
    assert_eq!(table.at("loss=0 variant=tcp").runs(), 2, "it is deterministic");
    let known = table.at("loss=0.01 variant=tcp");
    assert!((4..60).contains(&known.runs()) && known.mean("seconds").relative() <= 0.05);
    let capped = table.at("loss=0.1 variant=tcp");
    assert_eq!(capped.runs(), 60);
    assert!(capped.mean("seconds").relative() > 0.05);
    assert!(notes.0.iter().any(|note| note.starts_with("capped: loss=0.1 variant=tcp: 60 runs, within ")));
    let text = std::fs::read_to_string(folder.path().join("test/toy.csv")).unwrap();
    assert!(text.starts_with("# figure: test/toy: A toy"), "{text}");
    for line in [
        "# command: braidlab test\n",
        "# setting: two lines\n",
        "# capped: loss=0.1 variant=tcp: 60",
        "\nloss,variant,run,seed,seconds,packets\n",
    ] {
        assert!(text.contains(line), "{line}");
    }
    // Paired runs have the same losses, so the ratio is known much more precisely than the means.
    let ratio = capped.ratio(&table.at("loss=0.1 variant=braid"), "seconds");
    assert!((ratio.mean - 4.0).abs() < 1e-9 && ratio.relative() < 1e-9, "{ratio}");
}

#[test]
fn an_interrupted_sweep_continues() {
    let folder = tempfile::tempdir().unwrap();
    let bench = bench(folder.path(), Options::default());
    bench.make(&COUNTED, &mut Silent).unwrap();
    let all = RUNS.swap(0, Ordering::SeqCst);
    let path = bench.store.path(&COUNTED, Variety::default(), "csv");
    let whole = std::fs::read_to_string(&path).unwrap();
    // Killed in the middle of a line.
    let lines: Vec<&str> = whole.lines().filter(|line| !line.starts_with("# capped")).collect();
    let torn = lines[..lines.len() / 2].join("\n") + "\n0.1,tcp,9,12";
    std::fs::remove_file(&path).unwrap();
    std::fs::write(bench.store.path(&COUNTED, Variety::default(), "csv.part"), &torn).unwrap();
    bench.make(&COUNTED, &mut Silent).unwrap();
    let again = RUNS.swap(0, Ordering::SeqCst);
    assert!(again > 0 && again < all, "{again} of {all}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), whole);
    // A complete sweep is not repeated; other settings or `fresh` replace it.
    bench.make(&COUNTED, &mut Silent).unwrap();
    assert_eq!(RUNS.swap(0, Ordering::SeqCst), 0);
    let fresh = Bench { options: Options { fresh: Fresh::Yes, ..bench.options.clone() }, ..bench.clone() };
    fresh.make(&COUNTED, &mut Silent).unwrap();
    assert_eq!(RUNS.swap(0, Ordering::SeqCst), all);
    let seeded = Bench { options: Options { seed: 9, ..bench.options.clone() }, ..bench };
    seeded.make(&COUNTED, &mut Silent).unwrap();
    assert!(RUNS.swap(0, Ordering::SeqCst) > 0);
}

#[test]
fn shards_together_give_the_rows_of_one_machine() {
    let whole = tempfile::tempdir().unwrap();
    let whole_bench = bench(whole.path(), Options::default());
    let expected = table(whole_bench.make(&FIGURE, &mut Silent).unwrap());
    let parts = tempfile::tempdir().unwrap();
    for index in 1..=4 {
        let options = Options { shard: Some(Shard { index, of: 4 }), ..Options::default() };
        bench(parts.path(), options).make(&FIGURE, &mut Silent).unwrap();
    }
    let bench = bench(parts.path(), Options::default());
    let merged = bench.merge(&FIGURE, &mut Silent).unwrap().expect("the parts exist");
    assert_eq!(merged.records(), expected.records());
    for ending in ["csv", "parquet", "svg", "png"] {
        assert!(parts.path().join(format!("test/toy.{ending}")).exists(), "{ending}");
    }
    let mut notes = Notes::default();
    std::fs::remove_file(parts.path().join("test/toy-2-of-4.csv")).unwrap();
    bench.merge(&FIGURE, &mut notes).unwrap();
    assert!(
        notes.0.iter().any(|note| note.contains("2 of 6 points are missing in all parts")),
        "{:?}",
        notes.0
    );
}

#[test]
fn quick_is_stored_separately_and_runs_few_points() {
    let folder = tempfile::tempdir().unwrap();
    let bench = bench(folder.path(), Options { quick: Quick::Yes, ..Options::default() });
    let table = table(bench.make(&FIGURE, &mut Silent).unwrap());
    assert_eq!(table.all("").len(), 4);
    assert!(table.all("").iter().all(|cell| cell.runs() <= 3));
    assert!(folder.path().join("test/toy-quick.png").exists());
    assert!(!folder.path().join("test/toy.csv").exists());
}

#[test]
fn a_file_of_another_version_is_refused_with_a_remedy() {
    for (text, said) in [
        ("loss,variant,run\n", "its columns are not those of this figure"),
        ("loss,variant,run,seed,seconds,packets\n0.5,tcp,0,1,2,3\n", "line 2: no point `0.5 tcp`"),
        ("loss,variant,run,seed,seconds,packets\n0,tcp,x,1,2,3\n", "`x` is not a number"),
        ("loss,variant,run,seed,seconds,packets\n0,tcp\n", "2 fields"),
        ("", "`nothing`"),
    ] {
        let error = csv::read(text.as_bytes(), sweep_of(&FIGURE)).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_panic_is_reported_with_its_point_and_seed() {
    static BAD: Figure = Figure {
        id: "test/bad",
        kind: Kind::Sweep(Sweep { run: &|point, _| panic!("nothing at {}", point.number("loss")), ..SWEEP }),
        ..FIGURE
    };
    let folder = tempfile::tempdir().unwrap();
    let bench = bench(folder.path(), Options { threads: 2, ..Options::default() });
    let error = bench.make(&BAD, &mut Silent).unwrap_err();
    assert!(matches!(error, BenchError::Run { .. }));
    let error = error.to_string();
    assert!(
        error.contains("test/bad: at loss=") && error.contains("seed") && error.contains("nothing at"),
        "{error}"
    );
}

#[test]
fn a_point_is_run_as_often_as_its_results_require() {
    let runs = Runs { min: 10, max: 100, within: 0.05 };
    let rows: Vec<Row> = [10.0, 14.0, 9.0, 12.0].iter().map(|value| Row(vec![*value])).collect();
    let ask = |count: usize, chance| sweep::plan(&rows.iter().take(count).collect::<Vec<_>>(), runs, chance);
    assert_eq!(ask(0, Chance::Some), Ok(10));
    assert_eq!(ask(3, Chance::None), Ok(10), "the point is not deterministic after all");
    let wide: Vec<&Row> = rows.iter().cycle().take(10).collect();
    let Ok(more) = sweep::plan(&wide, runs, Chance::Some) else { panic!("ten of these are too few") };
    assert!((11..=20).contains(&more), "{more}");
    let same = Row(vec![2.0]);
    let once = Runs { min: 1, max: 1, ..runs };
    assert_eq!(
        sweep::plan(&[&same; 1], once, Chance::None),
        Err(sweep::Enough::Known),
        "a single run is planned"
    );
    assert_eq!(sweep::plan(&[&same; 1], runs, Chance::None), Ok(2));
    assert_eq!(sweep::plan(&[&same; 2], runs, Chance::None), Err(sweep::Enough::Known));
    assert_eq!(sweep::plan(&[&same; 2], runs, Chance::Some), Ok(10));
    assert_eq!(
        sweep::plan(&[&same; 10], runs, Chance::Some),
        Ok(50),
        "a rare event may not have occurred yet"
    );
    assert_eq!(sweep::plan(&[&same; 50], runs, Chance::Some), Err(sweep::Enough::Known));
    for (text, shard) in
        [("1/4", Some((1, 4))), ("4/4", Some((4, 4))), ("0/4", None), ("5/4", None), ("x", None)]
    {
        let parsed = text.parse::<Shard>().ok().map(|shard| (shard.index, shard.of));
        assert_eq!(parsed, shard, "{text}");
    }
}

/// Runs a figure of a few seconds in a shell with a file size limit of `blocks` times 512 bytes.
fn braidlab(folder: &Path, blocks: &str) -> std::process::Output {
    let script = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec '{}' run multistream/nat --quick --out '{}'",
        env!("CARGO_BIN_EXE_braidlab"),
        folder.display()
    );
    std::process::Command::new("sh").args(["-c", &script]).output().unwrap()
}

#[test]
fn a_full_disk_keeps_complete_rows_and_the_sweep_continues_later() {
    let whole = tempfile::tempdir().unwrap();
    assert!(braidlab(whole.path(), "unlimited").status.success());
    let length = std::fs::metadata(whole.path().join("multistream/nat-quick.csv")).unwrap().len();
    let folder = tempfile::tempdir().unwrap();
    // Slightly fewer blocks than the file needs.
    let full = braidlab(folder.path(), &((length - 1) / 512).to_string());
    let said = String::from_utf8(full.stderr).unwrap();
    assert_eq!(full.status.code(), Some(6), "{said}");
    assert!(said.contains("cannot append to") && said.contains("rows so far are stored"), "{said}");
    let part = std::fs::read_to_string(folder.path().join("multistream/nat-quick.csv.part")).unwrap();
    assert!(
        part.ends_with('\n')
            && part.lines().all(|line| line.starts_with('#') || line.split(',').count() == 7)
    );
    let again = braidlab(folder.path(), "unlimited");
    let said = String::from_utf8(again.stderr).unwrap();
    assert!(again.status.success(), "{said}");
    assert!(said.contains("multistream/nat: continues with"), "{said}");
    assert!(!folder.path().join("multistream/nat-quick.csv.part").exists());
}

#[test]
fn how_long_each_figure_takes_is_known() {
    let bench = Bench { store: Store::new("/nonexistent"), options: Options::default() };
    let estimate = |figure: &'static Figure| Times::recorded().estimate(&bench, &[figure]);
    let unknown: Vec<&str> =
        papers::figures().filter(|figure| estimate(figure).unknown > 0).map(|figure| figure.id).collect();
    assert!(unknown.is_empty(), "`braidlab run ID --times FILE` records them: {unknown:?}");
}
