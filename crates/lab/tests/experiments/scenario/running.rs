//! Scenarios that run: results, failures, added controllers, watchers, and sweeps in parts.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use braidftp_cc as cc;
use braidftp_lab::bench::{self, Bench, Made, Opened, Reporter};
use braidftp_lab::figure::{Point, RunFailed};
use braidftp_lab::papers::ftp;
use braidftp_lab::scenario::{self, templates};
use braidftp_lab::store::Store;
use braidftp_lab::sweep::Enough;
use braidftp_lab::table::Record;

use super::{lab, with};

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
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("\n  the file has also rtt, cwnd, link.core.queue, link.core.lost; `y` of [plot] "),
        "{said}"
    );
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

/// The first column at a point of a scenario.
fn first_column(text: &str, has: impl Fn(&Point) -> bool) -> f64 {
    let scenario = scenario::parse("my", text).unwrap_or_else(|error| panic!("{error}"));
    let sweep = scenario.figure.sweep().unwrap();
    let points = sweep.points();
    (sweep.run)(points.iter().find(|point| has(point)).unwrap(), 1).0[0]
}

#[test]
fn the_cut_of_the_outage_template_is_in_the_middle_of_the_transfer() {
    let text = templates::text("outage").unwrap();
    let at = |point: &Point| (point.name("cut"), point.name("paths")) == ("long", "both");
    // Over the second path alone: a second at 20 Mbit/s and the rest of 160 Mbit at 10.
    let alone = 1.0 + (160.0 - 20.0) / 10.0;
    let seconds = first_column(text, at);
    assert!((8.0..alone - 3.0).contains(&seconds), "{seconds}");
    // Without `asks-at-once` the login, and 2 s of silence, come first: the cut path carries next to nothing.
    let late = first_column(&text.replace("asks-at-once = true\n", ""), at);
    assert!((alone - 1.5..alone + 2.0).contains(&late), "{late}");
}

#[test]
fn goodput_over_sctp_counts_bytes_as_they_arrive_and_not_whole_messages() {
    let text = "title = \"t\"\nlasts = \"1 s\"\nmeasure = [\"goodput\"]\n[links.l]\nrate = \"$rate\"\ndelay = \"5 ms\"\n\
                [transports.s]\nprotocol = \"sctp\"\n[[workload]]\nkind = \"bulk\"\ntransport = \"s\"\n\
                [[axis]]\nname = \"rate\"\nin = \"kbit/s\"\nvalues = [\"400 kbit/s\", \"1000 kbit/s\", \"1500 kbit/s\"]\n";
    for rate in [400.0, 1_000.0, 1_500.0] {
        let goodput = first_column(text, |point| point.number("rate") == rate);
        // A message has 64 KiB, which are 0.52 Mbit.
        assert!((0.9..0.99).contains(&(goodput / rate / 1e3)), "{rate} kbit/s: {goodput} bit/s");
    }
}

#[test]
fn what_is_said_of_a_scenario_without_axes_names_no_axis() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"t\"\nlasts = \"1 s\"\nruns = { min = 2, max = 2, within = \"0.001 %\" }\n[links.l]\nrate = \"5 Mbit/s\"\n\
                delay = \"5 ms\"\nloss = \"3 %\"\n[transports.s]\nprotocol = \"sctp\"\n[[workload]]\nkind = \"bulk\"\ntransport = \"s\"\n";
    std::fs::write(folder.path().join("my.toml"), text).unwrap();
    let said = |words: &[&str]| {
        let output = lab(folder.path(), words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8([output.stderr, output.stdout].concat()).unwrap()
    };
    let text = said(&["run", "my.toml"]);
    assert!(text.contains("capped: the only point: 2 runs, within "), "{text}");
    let text = said(&["run", "my.toml", "--runs", "1", "--fresh"]);
    assert!(text.contains("my: 1 run, about 1 s on ") && text.contains("my: 1 run in "), "{text}");
}

/// Downloads over a link of a rate, for a time.
fn downloads(rate: &str, lasts: &str) -> String {
    format!(
        "title = \"t\"\n{lasts}runs = 3\nmeasure = [\"web.p95\", \"web.mean\", \"web.completed\"]\n\
         [links.l]\nrate = \"$rate\"\ndelay = \"5 ms\"\nloss = \"1 %\"\n[transports.s]\nprotocol = \"sctp\"\n[[workload]]\n\
         name = \"web\"\nkind = \"arrivals\"\ntransport = \"s\"\nlist = [{{ at = \"0 s\", size = \"1 MB\" }}]\n\
         [[axis]]\nname = \"rate\"\nin = \"Mbit/s\"\nvalues = [\"{rate}\", \"100 Mbit/s\"]\n"
    )
}

#[test]
fn an_infinite_completion_time_is_explained_with_the_workload_the_point_and_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    let said = |text: &str, words: &[&str]| {
        std::fs::write(folder.path().join("my.toml"), text).unwrap();
        let output = lab(folder.path(), words);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let slow = downloads("1 Mbit/s", "lasts = \"2 s\"\n");
    let explained = "  inf at rate=1 Mbit/s: in 3 of 3 runs no answer of workload `web` arrived before the run ended, at 2 s, or the \
                     connection of one failed: `web.p95`, `web.mean`\n  try a longer `lasts`, fewer or smaller transfers";
    let text = said(&slow, &["run", "my.toml"]);
    assert!(text.contains(explained) && !text.contains("at rate=100"), "{text}");
    // Stored results are explained as well.
    assert!(said(&slow, &["run", "my.toml"]).contains(explained));
    assert!(!said(&downloads("50 Mbit/s", "lasts = \"9 s\"\n"), &["run", "my.toml"]).contains("inf"));
}

#[test]
fn a_session_that_is_not_over_in_time_is_counted_with_what_to_try() {
    let folder = tempfile::tempdir().unwrap();
    let text = "title = \"t\"\nlasts = \"500 ms\"\nruns = 2\nmeasure = [\"seconds\"]\n[links.l]\nrate = \"1 Mbit/s\"\n\
                [transports.s]\nprotocol = \"sctp\"\n[[workload]]\nkind = \"ftp\"\nmode = \"braid\"\ntransport = \"s\"\n\
                files = [\"1 MB\"]\n";
    std::fs::write(folder.path().join("my.toml"), text).unwrap();
    let output = lab(folder.path(), &["run", "my.toml"]);
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(err.contains("not over when the run ended, at 0.5 s: give a longer `lasts`, or fewer"), "{err}");
    assert!(out.contains("  NaN: 2 of 2 runs failed, or measured nothing\n"), "{out}");
}

#[test]
fn a_run_says_before_it_starts_how_long_it_takes_and_an_absurd_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let said = |files: &str, runs: &str, words: &[&str]| {
        let text = format!(
            "title = \"t\"\n{runs}\nmeasure = [\"seconds\"]\n[links.l]\nrate = \"100 Gbit/s\"\nloss = \"$loss\"\n\
             [transports.s]\nprotocol = \"sctp\"\n[[workload]]\nkind = \"ftp\"\nmode = \"braid\"\ntransport = \"s\"\n\
             files = {files}\n[[axis]]\nname = \"loss\"\nvalues = [\"0 %\", \"0.1 %\"]\n"
        );
        std::fs::write(folder.path().join("my.toml"), text).unwrap();
        let output = lab(folder.path(), words);
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let (is_done, text) = said("[\"100 kB\"]", "runs = 3", &["run", "my.toml", "--threads", "2"]);
    assert!(is_done && text.starts_with("my: 6 runs, about 1 s on 2 threads\n"), "{text}");
    // A point without randomness is run twice, the other one until its mean is known.
    let (is_done, text) =
        said("[\"100 kB\"]", "runs = { min = 10, max = 20 }", &["run", "my.toml", "--threads", "1"]);
    assert!(is_done && text.starts_with("my: 12 to 22 runs, about 1 s on 1 thread\n"), "{text}");
    assert!(
        said("[\"100 kB\"]", "runs = { min = 10, max = 20 }", &["run", "my.toml"])
            .1
            .starts_with("my: up to date")
    );
    let many = "runs = 100000";
    for words in [&["run", "my.toml"][..], &["run", "my.toml", "--shard", "1/2"]] {
        let (is_done, text) = said("{ count = 10, size = \"1000 GB\" }", many, words);
        assert!(
            !is_done
                && text.contains(" days on ")
                && text.contains("and 30 days are possible: a run at loss=0"),
            "{text}"
        );
        assert!(text.contains("carries about 11 thousand million packets"), "{text}");
    }
}

#[test]
fn protected_flows_and_requests_carry_data() {
    for (kind, columns) in
        [("kind = \"bulk\"", "\"goodput\""), ("kind = \"requests\"\ncount = 20", "\"completed\"")]
    {
        let text = |protected: bool| {
            format!(
                "title = \"t\"\nlasts = \"5 s\"\nmeasure = [{columns}]\n[links.l]\nrate = \"5 Mbit/s\"\ndelay = \"10 ms\"\n\
                 [transports.s]\nprotocol = \"sctp\"\nprotected = {protected}\n[[workload]]\n{kind}\ntransport = \"s\"\n"
            )
        };
        let [plain, protected] = [false, true].map(|protected| {
            let scenario = scenario::parse("my", &text(protected)).unwrap_or_else(|error| panic!("{error}"));
            let sweep = scenario.figure.sweep().unwrap();
            (sweep.run)(&sweep.points()[0], 1).0[0]
        });
        // The chunks of DTLS take some bytes of each packet.
        assert!(plain > 0.0 && protected > 0.9 * plain && protected <= plain, "{kind}: {plain}, {protected}");
    }
}

#[test]
fn a_long_sweep_is_warned_of_with_its_longest_runs() {
    let text = "title = \"t\"\nruns = 200\n[links.l]\nrate = \"10 Gbit/s\"\nloss = \"0.1 %\"\n[transports.s]\nprotocol = \"sctp\"\n\
                [[workload]]\nkind = \"ftp\"\nmode = \"braid\"\ntransport = \"s\"\nfiles = [\"100 GB\"]\n";
    let scenario = scenario::parse("my", text).unwrap_or_else(|error| panic!("{error}"));
    let options = bench::Options { threads: 4, ..bench::Options::default() };
    let bench = Bench { store: Store::new("/nonexistent"), options };
    let cost = scenario.cost(&bench.part(scenario.figure.sweep().unwrap()));
    assert_eq!(cost.runs, [200; 2]);
    let lines = cost.says().unwrap();
    assert!(lines[0].starts_with("my: 200 runs, about ") && lines[0].ends_with(" on 4 threads"), "{lines:?}");
    assert!(lines[1].starts_with("my: a run carries about 105 million packets and takes "), "{lines:?}");
    assert!(lines[1].contains("smaller or fewer `files`") && lines.len() == 2, "{lines:?}");
    // Flows without an end send until the session beside them is over.
    let cross = scenario::parse("my", templates::text("cross-traffic").unwrap()).unwrap();
    let cost = cross.cost(&bench.part(cross.figure.sweep().unwrap()));
    assert!(cost.lasts[1] < Duration::from_secs(600), "{cost}");
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
