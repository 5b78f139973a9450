//! Scenarios in two worlds: what exists only simulated is refused with its place, rows of both are in one table and are
//! compared, and a tiny live run of the kernel's TCP. Live runs are left out with a message where namespaces are not permitted.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Weak;

use braidftp_lab::bench::{Bench, Options};
use braidftp_lab::scenario::live::{Late, Tools};
use braidftp_lab::scenario::worlds::{LIVE, SIMULATED, WORLD, Worlds, compare};
use braidftp_lab::scenario::{self, templates};
use braidftp_lab::table::{Record, Table};
use braidftp_lab::{plot, store, text};

/// Two bulk flows over the kernel's TCP.
const BULK: &str = r#"
title = "Two flows"
lasts = "1500 ms"
measure-from = "500 ms"
measure = ["goodput", "fairness", "link.dsl.throughput"]
runs = 1
[links.dsl]
rate = "$rate"
delay = "5 ms"
[transports.kernel]
protocol = "tcp"
[[workload]]
kind = "bulk"
transport = "kernel"
flows = 2
[[axis]]
name = "rate"
in = "Mbit/s"
values = ["2 Mbit/s", "4 Mbit/s"]
"#;

fn worlds(text: &str) -> Result<Worlds, String> {
    let scenario = scenario::parse("my", text).map_err(|error| error.to_string())?;
    let tools = Tools { braidftp: "braidftp".into(), scratch: Weak::new(), late: Late::default() };
    scenario.in_both_worlds(&tools).map_err(|error| error.to_string())
}

#[test]
fn the_estimate_knows_that_live_runs_over_fast_links_take_turns() {
    let lasts = |rates: &str| {
        let text =
            BULK.replacen("\"2 Mbit/s\", \"4 Mbit/s\"", rates, 1).replacen("runs = 1", "runs = 100", 1);
        let scenario = scenario::parse("my", &text).unwrap_or_else(|error| panic!("{error}"));
        let worlds = worlds(&text).unwrap_or_else(|error| panic!("{error}"));
        let bench = Bench {
            store: store::Store::new("/nonexistent"),
            options: Options { threads: 4, ..Options::default() },
        };
        let cost = scenario.cost_of_worlds(&bench.part(worlds.figure.sweep().unwrap()), &worlds);
        cost.lasts[1].as_secs()
    };
    // 200 live runs of 2.5 s, eight at once or one after another.
    let (slow, fast) = (lasts("\"2 Mbit/s\", \"4 Mbit/s\""), lasts("\"130 Mbit/s\", \"140 Mbit/s\""));
    assert!(slow < 250 && fast >= 500, "{slow} s, {fast} s");
}

#[test]
fn what_exists_only_simulated_is_refused_with_its_place() {
    let bulk = |from: &str, to: &str| {
        assert!(BULK.contains(from), "{from}");
        BULK.replacen(from, to, 1)
    };
    for (text, place, said) in [
        (bulk("delay = \"5 ms\"", "delay = \"5 ms\"\necn = \"20 kB\""), "my.toml:10:1", "do not mark"),
        (bulk("delay = \"5 ms\"", "overhead = \"0 B\""), "my.toml:9:12", "20 B at least"),
        (bulk("delay = \"5 ms\"", "overhead = \"28 B\""), "my.toml:14:13", "no UDP header"),
        (bulk("\"4 Mbit/s\"", "\"4 Gbit/s\""), "my.toml:19:23", "500 Mbit/s"),
        (
            bulk("\"tcp\"", "\"tcp\"\nnagle = true"),
            "my.toml:12:1",
            "`nagle` cannot be set in the kernel's TCP",
        ),
        (bulk("\"tcp\"", "\"tcp\"\nprofile = \"sack\""), "my.toml:12:11", "\"modern\""),
        (
            bulk("\"tcp\"", "\"tcp\"\ncontroller = \"fast\""),
            "my.toml:12:14",
            "\"reno\", \"cubic\" or \"bbr\"",
        ),
        (bulk("\"fairness\"", "\"timeouts\""), "my.toml:5:23", "`goodput`, `fairness`, `cwnd`, `rtt`"),
        (bulk("throughput", "queue"), "my.toml:5:35", "`queue-peak` and `throughput`"),
        (bulk("\"tcp\"", "\"sctp\"\nprotected = true"), "my.toml:12:1", "no certificates"),
        (bulk("\"1500 ms\"", "\"2 h\""), "my.toml:3:9", "30 minutes at most"),
        (bulk("\"rate\"", "\"world\"").replacen("$rate", "$world", 1), "my.toml:", "axis of --live"),
    ] {
        let error = worlds(&text).unwrap_err();
        assert!(error.starts_with(place) && error.contains(said), "{place} {said}: {error}");
    }
    let ftp = BULK
        .replacen("kind = \"bulk\"", "kind = \"ftp\"\nmode = \"tcp-two\"\nfiles = [\"1 kB\"]", 1)
        .replacen("flows = 2\n", "", 1)
        .replacen("measure = [\"goodput\", \"fairness\", \"link.dsl.throughput\"]\n", "", 1);
    let error = worlds(&ftp).unwrap_err();
    assert!(error.starts_with("my.toml:13:8") && error.contains("tcp, naive, ms, ms-cp or braid"), "{error}");
    let ftp = ftp.replacen("tcp-two", "tcp", 1);
    let columns = |text: &str| -> Vec<&str> {
        let figure = worlds(text).unwrap().figure;
        figure.sweep().unwrap().columns.iter().map(|column| column.name).collect()
    };
    assert_eq!(columns(&ftp), ["seconds"], "the default columns that exist live");
    let error = worlds(&ftp.replacen("mode = \"tcp\"", "mode = \"tcp\"\nattempts = 2", 1)).unwrap_err();
    assert!(error.starts_with("my.toml:14:1") && error.contains("`attempts` cannot be given"), "{error}");
}

#[test]
fn live_requests_have_a_limit_of_connections_and_no_programs() {
    let web = BULK
        .replacen("kind = \"bulk\"", "kind = \"web\"\nevery = \"1 ms\"\nends = \"30 s\"", 1)
        .replacen("flows = 2\n", "", 1)
        .replacen("\"goodput\", \"fairness\"", "\"mean\", \"p99\", \"completed\"", 1);
    let error = worlds(&web).unwrap_err();
    assert!(error.starts_with("my.toml:13:8") && error.contains("20000 connections at most"), "{error}");
    worlds(&web.replacen("\"30 s\"", "\"30 s\"\none-connection = true", 1)).unwrap();
    let web = web.replacen("\"1 ms\"", "\"2 ms\"", 1);
    worlds(&web).unwrap();
    let program = "\"tcp\"\nprogram = { server = [\"a\"], client = [\"b\"] }";
    let error = worlds(&web.replacen("\"tcp\"", program, 1)).unwrap_err();
    assert!(error.starts_with("my.toml:17:13") && error.contains("do not report their times"), "{error}");
}

#[test]
fn the_words_of_programs_are_checked() {
    let with =
        |program: &str| scenario::parse("my", &BULK.replacen("\"tcp\"", &format!("\"tcp\"\n{program}"), 1));
    for (program, said) in [
        ("program = { server = [\"a\"], client = [\"b\", \"{folders}\"] }", "did you mean `folder`?"),
        ("program = { server = [\"a\", \"{port\"], client = [\"b\"] }", "`{port}` stands for nothing here"),
        ("program = { server = [], client = [\"b\"] }", "names a program at least"),
        ("program = { server = [\"a\"] }", "program needs `client`"),
        ("program = { server = [\"a\"], clients = [\"b\"] }", "did you mean `client`?"),
        ("program = \"curl\"", "program"),
    ] {
        let error = with(program).unwrap_err();
        assert!(error.line == 12 && error.to_string().contains(said), "{program}: {error}");
    }
    let program =
        "program = { server = [\"iperf3\", \"-p\", \"{port}\"], client = [\"/bin/false\", \"{address}\"] }";
    with(program).unwrap();
    let worlds = worlds(&BULK.replacen("\"tcp\"", &format!("\"tcp\"\n{program}"), 1)).unwrap();
    assert_eq!(worlds.programs, ["/bin/false", "iperf3"]);
    assert_eq!((worlds.controllers, worlds.needs_braidftp), (vec!["cubic"], false));
}

#[test]
fn both_worlds_are_in_one_table_with_the_same_seeds() {
    let alone = scenario::parse("my", BULK).unwrap().figure.sweep().unwrap();
    let figure = worlds(BULK).unwrap().figure;
    let sweep = figure.sweep().unwrap();
    assert_eq!(figure.id, "my-live");
    let titles = String::from_utf8(store::csv::titles(sweep)).unwrap();
    assert!(titles.starts_with("world,rate,scenario,run,seed,goodput,fairness"), "{titles}");
    let titles = String::from_utf8(store::csv::titles(alone)).unwrap();
    assert!(titles.starts_with("rate,scenario,run,seed,goodput"), "without --live nothing changes: {titles}");
    let points = sweep.points();
    assert_eq!(points.len(), 2 * alone.points().len());
    for (point, its) in alone.points().iter().zip(&points) {
        let twin = points
            .iter()
            .find(|twin| twin.name(WORLD) == LIVE && twin.number("rate") == point.number("rate"));
        let seeds = [its, twin.unwrap()].map(|its| sweep.seed(its, 3, 7));
        assert_eq!(seeds, [alone.seed(point, 3, 7); 2]);
        assert_eq!(its.name(WORLD), SIMULATED);
    }
    // 2 Mbit/s: equal; 4 Mbit/s: the live goodput is 11 % higher, and the fairness 9 % lower. A failed run does not count.
    let row =
        |point, run, goodput, fairness| Record { point, run, seed: 0, numbers: vec![goodput, fairness, 5.0] };
    let records = vec![
        row(0, 0, 2e6, 1.0),
        row(1, 0, 4e6, 1.0),
        row(2, 0, 2e6, 1.0),
        row(3, 0, 4.44e6, 0.91),
        Record { point: 3, run: 1, seed: 0, numbers: vec![f64::NAN; 3] },
    ];
    let table = Table::new(figure, sweep, records);
    let compared = compare(&table);
    assert_eq!(compared.len(), 2 * 3);
    let apart: Vec<String> = compared.iter().filter(|it| !it.is_close()).map(ToString::to_string).collect();
    assert_eq!(apart.len(), 1, "{apart:?}");
    assert!(apart[0].starts_with("rate=4: the median of `goodput` is"), "{apart:?}");
    assert!(apart[0].ends_with("(+11 %)"), "{apart:?}");
    let svg = plot::draw(figure, &table);
    let only = |world: &str| {
        let its = table.records().iter().filter(|record| points[record.point].name(WORLD) == world);
        let table = Table::new(figure, sweep, its.cloned().collect());
        plot::draw(figure, &table).matches("<circle").count()
    };
    assert_eq!(
        svg.matches("<circle").count(),
        only(SIMULATED) + only(LIVE) - 1,
        "one entry of the legend is shared"
    );
    let text = text::table(&table);
    assert!(text.contains("  sim\n") && text.contains("  live\n"), "{text}");
}

#[test]
fn templates_that_say_so_can_run_live() {
    for name in ["one-path", "two-paths"] {
        worlds(templates::text(name).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// Requests over TCP or SCTP, one of which is too long for the run, beside a bulk flow over the same transport.
const REQUESTS: &str = r#"
title = "Requests"
lasts = "4 s"
measure-from = "1 s"
measure = ["asks.completed", "asks.failed", "asks.mean", "fills.goodput", "fills.cwnd", "fills.rtt", "fills.retransmissions"]
runs = 1
[links.dsl]
rate = "4 Mbit/s"
delay = "5 ms"
[transports]
tcp = { protocol = "tcp" }
sctp = { protocol = "sctp", receive-buffer = "200 kB" }
[[workload]]
kind = "bulk"
name = "fills"
transport = "$over"
[[workload]]
kind = "arrivals"
name = "asks"
transport = "$over"
list = [{ at = "10 ms", size = "1 kB" }, { at = "20 ms", size = "3 kB" }, { at = "1 s", size = "1 GB" }]
[[axis]]
name = "over"
paired = true
values = ["tcp", "sctp"]
"#;

/// Real hosts take time to wake up. Without it, acknowledgements of simulated hosts are spaced exactly as the path spaces packets.
#[test]
fn beside_live_runs_simulated_hosts_take_time_at_the_ends_of_a_path() {
    let requests = |via: &str| {
        let list: Vec<String> =
            (0..100).map(|at| format!("{{ at = \"{} ms\", size = \"1 kB\" }}", 35 * at)).collect();
        let list = format!("list = [{}]", list.join(", "));
        REQUESTS
            .replacen("measure-from = \"1 s\"\n", "", 1)
            .replacen("\"asks.completed\", \"asks.failed\", \"asks.mean\", \"fills.goodput\", \"fills.cwnd\", \"fills.rtt\", \"fills.retransmissions\"", "\"asks.mean\"", 1)
            .replacen("list = [{ at = \"10 ms\", size = \"1 kB\" }, { at = \"20 ms\", size = \"3 kB\" }, { at = \"1 s\", size = \"1 GB\" }]", &list, 1)
            .replacen("[[workload]]\nkind = \"bulk\"\nname = \"fills\"\ntransport = \"$over\"\n", via, 1)
    };
    let one = requests("");
    let three = requests(
        "[links.lan]\nrate = \"100 Mbit/s\"\n[links.wan]\nrate = \"100 Mbit/s\"\n[[path]]\nvia = [\"lan\", \"dsl\", \"wan\"]\n",
    );
    for text in [one, three] {
        let alone = scenario::parse("my", &text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let alone = alone.figure.sweep().unwrap();
        let both = worlds(&text).unwrap_or_else(|error| panic!("{error}")).figure.sweep().unwrap();
        for (point, its) in alone.points().iter().zip(both.points()) {
            assert_eq!(its.name(WORLD), SIMULATED);
            assert!(!(both.fixed)(&its), "its runs differ");
            let [before, after] =
                [(alone, point), (both, &its)].map(|(sweep, at)| (sweep.run)(at, 7).0[0] * 1e3);
            // Two round trips with up to .3 ms more each way, half of it in the mean, and less where packets wait for each other.
            assert!((0.3..0.7).contains(&(after - before)), "{before} and {after} ms\n{text}");
        }
    }
}

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).args(words).current_dir(folder).output().unwrap()
}

/// Runs a scenario in both worlds. Returns what was printed; `None` where live runs are not permitted.
fn live(folder: &Path, text: &str) -> Option<String> {
    std::fs::write(folder.join("my.toml"), text).unwrap();
    // No workload needs braidftp, and cargo need not build it.
    let output = lab(folder, &["run", "my.toml", "--live", "--braidftp", "/bin/true"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if !output.status.success() && (errors.contains("/dev/net/tun") || errors.contains("namespace")) {
        eprintln!("=========== LEFT OUT, a live run needs root or a user namespace: {errors} ===========");
        return None;
    }
    assert!(output.status.success(), "{said}{errors}");
    Some(said)
}

#[test]
fn live_requests_and_bulk_flows_are_measured_over_both_protocols() {
    let folder = tempfile::tempdir().unwrap();
    if live(folder.path(), REQUESTS).is_none() {
        return;
    }
    let table = std::fs::read_to_string(folder.path().join("results/my-live.csv")).unwrap();
    let rows: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("live,") || line.starts_with("sim,"))
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(rows.len(), 4, "{table}");
    for row in rows {
        let numbers: Vec<f64> = row[5..].iter().map(|number| number.parse().unwrap()).collect();
        let [completed, failed, mean, goodput, cwnd, rtt, resent] = numbers[..] else { panic!("{table}") };
        assert_eq!(
            (completed, failed),
            (2.0, 0.0),
            "the third one is interrupted by the end of the run: {table}"
        );
        assert!(mean > 0.01 && mean < 4.0, "{table}");
        assert!(goodput > 1e5 && goodput < 4e6 * 1.5, "{table}");
        assert!(cwnd > 2_000.0 && (0.01..4.0).contains(&rtt) && resent >= 0.0, "{table}");
    }
}

/// A flow over the kernel's MPTCP on two paths; the simulated one uses the first path.
const MPTCP: &str = r#"
title = "MPTCP"
lasts = "4 s"
measure-from = "1 s"
measure = ["goodput", "link.one.throughput", "link.two.throughput"]
runs = 1
[links]
one = { rate = "4 Mbit/s", delay = "5 ms" }
two = { rate = "4 Mbit/s", delay = "5 ms" }
[[path]]
via = ["one"]
[[path]]
via = ["two"]
[transports.mptcp]
protocol = "tcp"
program.server = ["python3", "-c", """
import socket
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
listener.bind(('0.0.0.0', {port}))
listener.listen()
connection, _ = listener.accept()
while connection.recv(65536): pass
"""]
program.client = ["python3", "-c", """
import socket
connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
connection.connect(('{address}', {port}))
while True: connection.sendall(bytes(65536))
"""]
[[workload]]
kind = "bulk"
transport = "mptcp"
"#;

#[test]
fn a_program_over_kernel_mptcp_uses_all_paths_of_its_workload() {
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|it| it.status.success());
    if !Path::new("/proc/sys/net/mptcp").exists() || !has("python3") {
        eprintln!("=========== LEFT OUT, this kernel has no MPTCP, or there is no python3 ===========");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if live(folder.path(), MPTCP).is_none() {
        return;
    }
    let table = std::fs::read_to_string(folder.path().join("results/my-live.csv")).unwrap();
    let row = table.lines().find(|line| line.starts_with("live,")).unwrap_or_else(|| panic!("{table}"));
    let numbers: Vec<f64> = row.split(',').skip(4).map(|number| number.parse().unwrap()).collect();
    let [goodput, one, two] = numbers[..] else { panic!("{table}") };
    assert!(one > 1e5 && two > 1e5 && goodput > 1e5 && goodput < 1.5 * (one + two), "{table}");
}

#[test]
fn a_live_run_of_kernel_tcp_is_stored_beside_the_simulated_one() {
    let folder = tempfile::tempdir().unwrap();
    let Some(said) = live(folder.path(), BULK) else { return };
    assert!(said.contains("medians of simulated and live runs are within 10 %"), "{said}");
    let table = std::fs::read_to_string(folder.path().join("results/my-live.csv")).unwrap();
    let live: Vec<Vec<&str>> = table
        .lines()
        .filter(|line| line.starts_with("live,"))
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(live.len(), 2, "{table}");
    for row in live {
        let [rate, goodput, throughput] = [1, 5, 7].map(|at| row[at].parse::<f64>().unwrap());
        // The measured second may end early or late on a busy machine, never by half.
        assert!(goodput > 0.0 && goodput <= throughput * 1.5 && throughput <= rate * 1.5e6, "{table}");
    }
    assert!(
        folder.path().join("results/my-live.parquet").exists()
            && !folder.path().join("results/my.csv").exists()
    );
}

#[test]
fn errors_of_the_command_line_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let said = |words: &[&str]| {
        let output = lab(folder.path(), words);
        assert_eq!(output.status.code(), Some(1), "{words:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said(&["run", "fcs/fig2a", "--live"]).contains("--live runs scenario files"));
    let missing = BULK.replacen(
        "\"tcp\"",
        "\"tcp\"\nprogram = { server = [\"no-such-program\"], client = [\"sh\"] }",
        1,
    );
    std::fs::write(folder.path().join("my.toml"), missing).unwrap();
    let error = said(&["run", "my.toml", "--live", "--braidftp", "/bin/true"]);
    assert!(error.contains("`no-such-program` of a transport is not installed"), "{error}");
}
