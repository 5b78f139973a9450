//! `braidlab` from the command line: unknown names are answered with the known ones, and the same arguments
//! give the same bytes.

use std::path::Path;
use std::process::{Command, Output};

fn lab(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_braidlab")).args(words).current_dir(folder).output().unwrap()
}

#[test]
fn unknown_names_are_answered_with_the_known_ones() {
    let folder = tempfile::tempdir().unwrap();
    for (words, said) in [
        (
            &["run", "multistream/fig9"][..],
            "no figure or paper `multistream/fig9`; there are fcs, multistream",
        ),
        (&["check", "P2-C99"], "no claim, paper or figure `P2-C99`; there are P1 (P1-C01 to P1-C28)"),
        (&["check", "golden", "P1"], "`golden` cannot be combined"),
        (&["check", "P2-C24", "--quick"], "--quick decides no claim of a paper, such as P2-C24"),
        (&["merge", "P9"], "no figure or paper `P9`"),
        (&["merge", "multistream/fig6"], "has no parts of these figures"),
        (&["profiles", "tahoe"], "no profile `tahoe`; there are sctp/rfc2960-kame"),
        (&["run", "multistream/nat", "--shard", "5/4"], "`5/4` is not a shard: write i/n with i from 1 to n"),
        (&["run", "multistream/nat", "--threads", "0"], "0 is not in 1..=4096"),
        (&["run", "multistream/nat", "--runs", "0"], "0 is not in 1.."),
        (&["run", "multistream/nat", "--seed", "x"], "invalid digit"),
        (
            &["link", "--listen", "127.0.0.1:1", "--to", "127.0.0.1:2", "--rate", "3furlongs"],
            "`3furlongs` is not a rate: write a number and bit, kbit, mbit, gbit",
        ),
    ] {
        let output = lab(folder.path(), words);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{words:?}: {error}");
        assert!(error.contains(said), "{words:?}: {error}");
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing was begun");
}

#[test]
fn the_same_arguments_give_the_same_bytes_and_other_threads_the_same_rows() {
    let made = |words: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let output = lab(folder.path(), &[&["run", "multistream/nat", "--quick"], words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |ending| {
            std::fs::read(folder.path().join(format!("results/multistream/nat-quick.{ending}"))).unwrap()
        };
        ["csv", "svg", "png"].map(read)
    };
    let rows = |made: &[Vec<u8>; 3]| {
        let text = String::from_utf8(made[0].clone()).unwrap();
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    let once = made(&[]);
    assert_eq!(once, made(&[]));
    let seeded = made(&["--seed", "1", "--threads", "3"]);
    assert_eq!(rows(&once), rows(&seeded), "1 is the default seed");
    let titles = &rows(&once)[0];
    assert!(titles.contains(",run,seed,"), "{titles}");
    let other = made(&["--seed", "2"]);
    assert_ne!(rows(&once), rows(&other));
}

#[test]
fn drawn_data_is_printed_and_targets_are_checked_immediately() {
    let printed = |words: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let run = ["run", "utilisation/sat", "--quick", "--runs", "1"];
        let output = lab(folder.path(), &[&run, words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let file = folder.path().join("results/utilisation/sat-quick.csv");
        let text = std::fs::read_to_string(file).unwrap();
        let rows: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        (String::from_utf8(output.stdout).unwrap(), rows)
    };
    let (said, rows) = printed(&[]);
    let kinds = braidftp_cc::Kind::ALL;
    for kind in kinds {
        let line = said.lines().find(|line| line.trim_start().starts_with(kind.name()));
        let line = line.unwrap_or_else(|| panic!("no line for {kind}: {said}"));
        assert_eq!(line.matches('|').count(), 5, "{line}");
    }
    assert_eq!(said.matches("(default)").count(), 1, "{said}");
    assert_eq!(rows.len(), 1 + 5 * kinds.len());
    for claim in ["U-C03 ", "U-C09 "] {
        assert!(said.lines().any(|line| line.starts_with(claim)), "{said}");
    }
    assert!(!said.contains("U-C01"), "other paths were not run: {said}");
    assert_eq!(printed(&["--threads", "3"]).1, rows);
}

#[test]
fn a_run_is_replayed_with_lost_packets_and_a_file_for_wireshark() {
    let folder = tempfile::tempdir().unwrap();
    let replay = |words: &[&str]| {
        let output = lab(folder.path(), &[&["replay", "--path", "wan", "--files", "one"], words].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = replay(&["--lose", "server:1,client:2", "--pcap", "run.pcapng", "--qlog", "run.qlog"]);
    let lost: Vec<_> = said.lines().filter(|line| line.contains(" LOST ")).collect();
    assert_eq!(lost.len(), 2, "{said}");
    assert!(lost.iter().any(|line| line.contains("S1 LOST")), "{said}");
    assert!(lost.iter().any(|line| line.contains("C2 LOST")), "{said}");
    assert!(said.lines().last().unwrap().starts_with("whole: "), "{said}");
    assert!(std::fs::metadata(folder.path().join("run.pcapng")).unwrap().len() > 1_000);
    let qlog = std::fs::read_to_string(folder.path().join("run.qlog")).unwrap();
    let count = |name: &str| qlog.split('\u{1e}').filter(|record| record.contains(name)).count();

    assert!(count("sctp:packet_sent") > 5 && count("sctp:packet_received") > 5, "{qlog}");
    assert!(count("sctp:metrics_updated") > 2 && count("Established") > 0, "{qlog}");
    let random = ["--loss", "0.3", "--losses", "two-paths", "--seed", "5"];
    assert_eq!(replay(&random), replay(&random));
    assert!(replay(&random).contains(" LOST "));
    for (words, why) in
        [(["--lose", "peer:1"], "write client:N or server:N"), (["--loss", "0.5"], "less than 0.5")]
    {
        let output = lab(folder.path(), &[&["replay", "--path", "lan"], &words[..]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{words:?}");
    }
}

#[test]
fn a_figure_of_distributions_reports_quantiles_and_the_worst_seed_of_each_cell() {
    let folder = tempfile::tempdir().unwrap();
    let made = |threads: &str| {
        let output = lab(
            folder.path(),
            &["run", "early/tails", "--quick", "--runs", "4", "--fresh", "--threads", threads],
        );
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(folder.path().join("results/early/tails-quick.csv")).unwrap();
        let rows: Vec<_> =
            text.lines().filter(|line| !line.starts_with("# command")).map(str::to_owned).collect();
        (String::from_utf8(output.stdout).unwrap(), rows)
    };
    let (said, lines) = made("1");
    let is_cell =
        |line: &&String| line.starts_with("# tail: path=lan losses=independent loss=0.1: 4 runs, p50 ");
    let cell = lines.iter().find(is_cell).unwrap_or_else(|| panic!("{lines:?}"));
    let seed = cell.split("(seed ").nth(1).and_then(|rest| rest.split(')').next()).unwrap();
    let columns = |line: &&String| line.split(',').nth(4) == Some(seed);
    let worst = lines.iter().find(columns).unwrap_or_else(|| panic!("no run has seed {seed}"));
    assert!(worst.starts_with("lan,independent,0.1,"), "{worst}");
    assert!(said.contains("E-C05 ") && said.contains("4 runs, p50 "), "{said}");
    assert!(!lines.iter().any(|line| line.starts_with("# capped")), "a fixed number of runs is no cap");
    assert_eq!(made("3").1, lines);
}

#[test]
fn several_figures_say_before_they_start_how_long_they_take_and_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let words = ["run", "multistream/nat", "multistream/fig1", "--quick", "--times", "times.csv"];
    let said = |words: &[&str]| {
        let output = lab(folder.path(), words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        said
    };
    let first = said(&words);
    assert!(first.starts_with("2 figures: ") && first.contains("thread"), "{first}");
    let read = || std::fs::read_to_string(folder.path().join("times.csv")).unwrap();
    let times = read();
    let lines: Vec<&str> = times.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, "figure,form,runs,thread_seconds"), "{times}");
    assert!(lines[1].starts_with("multistream/fig1,quick,1,"), "{times}");
    assert!(lines[2].starts_with("multistream/nat,quick,"), "{times}");
    // Stored figures take no time, and are not recorded again.
    assert!(said(&words).starts_with("0 figures: "));
    assert_eq!(read(), times);
    assert!(!said(&["run", "multistream/nat", "--quick"]).contains("figures: "));
    std::fs::write(folder.path().join("times.csv"), "no times").unwrap();
    let output = lab(folder.path(), &[&words[..], &["--fresh"]].concat());
    assert_eq!(output.status.code(), Some(6));
    assert!(String::from_utf8_lossy(&output.stderr).contains("times.csv: line 1: not as `figure,form"));
}
