//! Hostile servers: files, listings and trees that never end, over TCP and over SCTP, and the client that
//! stops them.

use crate::client_support::{Room, cli, names};
use crate::endless::{File, Says, Tree};

/// The number of bytes that the server may send beyond the limit before the client stops: the capacity of
/// sockets and windows.
const SLACK_BYTES: u64 = 100 << 20;

/// `braidftp mirror` with such a server, in a mode.
struct Ran {
    code: i32,
    err: String,
    names: Vec<String>,
    sent: u64,
    listings: u64,
}

fn run(mode: &str, says: Says, command: &[&str]) -> Ran {
    let room = Room::new();
    let server = crate::endless::serve(mode, says);
    let out = room.folder("out");
    let (verb, more) = command.split_first().unwrap();
    let (url, out_arg) = (server.url(), out.to_str().unwrap().to_owned());
    let mut args = vec![*verb, "--plain", "--mode", mode, "--timeout", "60", "--retries", "1", "-q"];
    let named = format!("{url}a");
    match *verb {
        "mirror" => args.extend([url.as_str(), &out_arg]),
        "get" => args.extend([named.as_str(), "-o", &out_arg]),
        "cat" => args.push(&named),
        "rm" => args.extend(["-r", &named]),
        _ => args.push(&url),
    }
    args.extend(more);
    let (code, _, err) = cli(&room.home(), &args);
    Ran { code, err, names: names(&out), sent: server.sent(), listings: server.listings() }
}

const MODES: [&str; 5] = crate::client_support::MODES;

#[test]
fn the_hostile_server_can_behave_correctly() {
    for mode in MODES {
        let ran = run(mode, Says::default(), &["mirror"]);
        assert_eq!((ran.code, ran.names), (0, vec!["a".to_owned()]), "{mode}: {}", ran.err);
    }
}

#[test]
fn a_reported_size_is_a_limit() {
    for mode in MODES {
        for command in [&["mirror"][..], &["get"]] {
            let says = Says { file: File::Endless { told: Some(4) }, ..Says::default() };
            let ran = run(mode, says, command);
            assert!(matches!(ran.code, 9 | 10 | 14), "{mode}: {}: {}", ran.code, ran.err);
            assert!(ran.err.contains("more than the 4 bytes that it reported"), "{mode}: {}", ran.err);
            assert!(ran.names.is_empty(), "{mode}: {:?}", ran.names);
            assert!(ran.sent < SLACK_BYTES, "{mode}: {} bytes", ran.sent);
        }
    }
}

#[test]
fn a_file_without_a_reported_size_is_limited_by_max_size() {
    // In ms the size is always reported.
    for mode in ["tcp", "naive", "braid"] {
        for command in [&["get", "--max-size", "1MB"][..], &["cat", "--max-size", "1MB"]] {
            let says = Says { file: File::Endless { told: None }, ..Says::default() };
            let ran = run(mode, says, command);
            assert_ne!(ran.code, 0, "{mode}: {}", ran.err);
            assert!(
                ran.err.contains("1000000 bytes") && ran.err.contains("--max-size"),
                "{mode}: {}",
                ran.err
            );
            assert!(ran.names.is_empty(), "{mode}: {:?}", ran.names);
            assert!(ran.sent < SLACK_BYTES, "{mode}: {} bytes", ran.sent);
        }
    }
}

#[test]
fn a_file_with_a_reported_size_above_max_size_is_not_requested() {
    for mode in MODES {
        let ran = run(mode, Says::default(), &["mirror", "--max-size", "4"]);
        assert_eq!((ran.code, ran.sent), (6, 0), "{mode}: {}", ran.err);
        assert!(ran.err.contains("it has 5 bytes, more than --max-size, 4"), "{mode}: {}", ran.err);
        assert!(ran.names.is_empty());
    }
}

#[test]
fn a_file_with_a_reported_size_above_max_size_fails_with_both_numbers() {
    for mode in MODES {
        for command in [&["get", "--max-size", "1MB"][..], &["cat", "--max-size", "1MB"]] {
            let says = Says { file: File::Endless { told: Some(8_000_000) }, ..Says::default() };
            let ran = run(mode, says, command);
            let known = "it has 8000000 bytes, more than --max-size, 1000000";
            // `cat` learns the size together with the data.
            let found = "it is longer than --max-size, 1000000 bytes";
            assert!(
                ran.err.contains(known) || command[0] == "cat" && ran.err.contains(found),
                "{mode}: {}",
                ran.err
            );
            // 14: the next file follows endless bytes.
            assert!(
                matches!(ran.code, 6 | 14) && ran.names.is_empty(),
                "{mode}: {}: {:?}",
                ran.code,
                ran.names
            );
            assert!(ran.sent < SLACK_BYTES, "{mode}: {} bytes", ran.sent);
        }
    }
}

#[test]
fn the_size_in_the_header_is_limited_by_max_size() {
    let says = Says { file: File::Grown { told: 5, header: u64::MAX / 4 }, ..Says::default() };
    let ran = run("braid", says, &["mirror", "--max-size", "1MB"]);
    assert!(ran.err.contains("more than --max-size, 1000000"), "{}", ran.err);
    assert!(ran.names.is_empty() && ran.sent < SLACK_BYTES, "{:?}, {} bytes", ran.names, ran.sent);
    // Without --max-size the disk must have room for the file.
    let ran = run("braid", says, &["mirror"]);
    assert!(ran.err.contains("no space"), "{}", ran.err);
    assert!(ran.names.is_empty() && ran.sent < SLACK_BYTES, "{:?}, {} bytes", ran.names, ran.sent);
}

#[test]
fn an_endless_listing_is_ended_at_max_entries() {
    // A listing of ms is one message of at most 16 MiB.
    for mode in ["tcp", "naive", "braid"] {
        for command in [&["mirror", "--dry-run"][..], &["ls"], &["rm"]] {
            let says = Says { tree: Tree::Endless, ..Says::default() };
            let ran = run(mode, says, &[command, &["--max-entries", "300"]].concat());
            assert_eq!(ran.code, 14, "{mode}: {}", ran.err);
            let bytes = "longer than 1048576 bytes";
            assert!(ran.err.contains("more than 300") || ran.err.contains(bytes), "{mode}: {}", ran.err);
        }
    }
}

#[test]
fn an_infinitely_deep_tree_is_ended_at_max_depth() {
    for mode in MODES {
        let says = Says { tree: Tree::Deep, ..Says::default() };
        let ran = run(mode, says, &["mirror", "--max-depth", "7"]);
        assert!(matches!(ran.code, 7 | 10), "{mode}: {}: {}", ran.code, ran.err);
        assert!(ran.err.contains("deeper than 7 levels"), "{mode}: {}", ran.err);
        assert_eq!(ran.names, ["d"], "{mode}");
        if mode != "braid" {
            // The root and seven folders below it.
            assert_eq!(ran.listings, 8, "{mode}");
        }
    }
    let ran = run("tcp", Says { tree: Tree::Deep, ..Says::default() }, &["mirror"]);
    assert!(ran.err.contains("deeper than 100 levels"), "{}", ran.err);
}

#[test]
fn a_folder_that_contains_itself_is_entered_once() {
    for mode in ["tcp", "naive", "ms", "ms-cp"] {
        let says = Says { tree: Tree::Cycle, ..Says::default() };
        let ran = run(mode, says, &["mirror"]);
        assert!(ran.err.contains("one of the folders that it lies in"), "{mode}: {}", ran.err);
        assert_eq!(ran.listings, 2, "{mode}: the root and one below it");
    }
}

#[test]
fn a_tree_that_grows_exponentially_is_ended_at_max_entries() {
    let says = Says { tree: Tree::Wide, ..Says::default() };
    for command in [&["mirror", "--dry-run"][..], &["rm"]] {
        let ran = run("tcp", says, &[command, &["--max-entries", "150"]].concat());
        assert_eq!(ran.code, 14, "{}", ran.err);
        assert!(ran.err.contains("more than 150 entries"), "{}", ran.err);
    }
}

#[test]
fn messages_about_invalid_lines_are_limited() {
    let says = Says { tree: Tree::Nonsense(5_000), ..Says::default() };
    let ran = run("tcp", says, &["mirror"]);
    assert_ne!(ran.code, 0);
    let lines = ran.err.lines().filter(|line| line.starts_with("braidftp:")).count();
    assert!((1_000..1_010).contains(&lines), "{lines} lines");
    assert!(ran.err.contains("the rest is counted"), "{}", ran.err);
}

#[test]
fn an_endless_reply_and_an_endless_line_end_the_session() {
    for (greeting, why) in [("220-hello\r\n", "1048576"), ("220 hello", "8192")] {
        let says = Says { greeting_again_and_again: Some(greeting), ..Says::default() };
        let ran = run("tcp", says, &["ls"]);
        assert_eq!(ran.code, 14, "{}", ran.err);
        assert!(ran.err.contains(why), "{}", ran.err);
        assert!(ran.sent < SLACK_BYTES);
    }
}

#[test]
fn attempts_end_even_if_the_server_lets_each_make_progress() {
    let says = Says { tree: Tree::Nonsense(1), hangs_up_after_a_listing: true, ..Says::default() };
    let ran = run("tcp", says, &["mirror", "--max-entries", "3"]);
    assert_ne!(ran.code, 0);
    assert!(ran.listings < 20, "{} listings", ran.listings);
}
