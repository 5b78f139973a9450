//! Clients of a server that drains: what the server has sent is read to its end, however slowly.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::client_support::{MODES, Room, Served, assert_same, braidftp, pattern};

/// The size of the largest file: less than the first credit of a stream, so that the server sends all of it at once.
const FILE_BYTES: usize = 240_000;

/// Runs a slow client, drains the server once it has replied to `transfers`, and returns the client's exit code and errors.
fn drained(server: &Served, room: &Room, args: &[&str], transfers: usize) -> (Option<i32>, String) {
    let mut command = braidftp(&room.home());
    command.args(args).args(["--limit", "500kbit", "-vv", "--retries", "0"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut errors, mut replies) = (String::new(), 0);
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        replies += usize::from(line.starts_with("< 226"));
        if line.starts_with("< 226") && replies == transfers {
            server.drain();
        }
        errors.push_str(&line);
        errors.push('\n');
    }
    (child.wait().unwrap().code(), errors)
}

#[test]
fn a_slow_client_gets_the_whole_file_that_a_draining_server_has_sent() {
    for mode in MODES {
        let room = Room::new();
        let (tree, copy) = (room.folder("tree"), room.folder("copy"));
        fs::write(tree.join("file"), pattern(FILE_BYTES)).unwrap();
        let server = Served::new(&tree);
        let url = format!("{}file", server.url(mode));
        let args = ["get", &url, "-o", copy.to_str().unwrap(), "--mode", mode];
        let (code, errors) = drained(&server, &room, &args, 1);
        assert!(errors.contains("< 421"), "{mode}: {errors}");
        assert_eq!(code, Some(0), "{mode}: {errors}");
        assert_same(&tree, &copy);
    }
}

#[test]
fn a_slow_client_gets_all_files_of_a_tree_that_a_draining_server_has_sent() {
    let room = Room::new();
    let tree = room.folder("tree");
    for at in 0..60 {
        fs::write(tree.join(format!("{at}")), pattern(FILE_BYTES / 60)).unwrap();
    }
    let server = Served::new(&tree);
    let copy = room.path("copy");
    let args = ["mirror", &server.url("braid"), copy.to_str().unwrap()];
    // The listing is a transfer too.
    let (code, errors) = drained(&server, &room, &args, 61);
    assert!(errors.contains("< 421"), "{errors}");
    assert_eq!(code, Some(0), "{errors}");
    assert_same(&tree, &copy);
}
