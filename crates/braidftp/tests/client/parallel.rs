//! `--parallel`: several sessions over TCP, and servers that accept fewer.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use crate::client_support::{Room, Served, assert_same, braidftp, cli, pattern};

/// Enough files that one session has no room for all.
fn many(tree: &std::path::Path) {
    for n in 0..120 {
        let folder = tree.join(format!("folder {}/deeper", n % 7));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{n}")), pattern(n * 613)).unwrap();
    }
}

fn sessions(err: &str) -> usize {
    err.lines().filter(|line| line.contains("> USER")).count()
}

#[test]
fn the_requested_number_of_sessions_transfers_a_tree_both_ways() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    many(&tree);
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    for (given, expected) in [(Some("1"), 1), (Some("3"), 3), (None, 4)] {
        let name = expected.to_string();
        let (copy, sent) = (room.path(&name), store.join(&name));
        let url = format!("{}{name}", up.url("tcp"));
        let down = ["mirror", "-vv", &server.url("tcp"), copy.to_str().unwrap()];
        let up = ["mirror", "-vv", "-R", tree.to_str().unwrap(), &url];
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            let parallel: Vec<&str> = given.iter().flat_map(|n| ["--parallel", n]).collect();
            let (code, _, err) = cli(&room.home(), &[args, &parallel].concat());
            assert_eq!(code, 0, "{err}");
            assert_eq!(sessions(&err), expected, "{err}");
            assert_same(&tree, there);
        }
    }
    let (code, _, err) = cli(&room.home(), &["ls", &server.url("braid"), "--parallel", "2"]);
    assert!(code == 1 && err.contains("--parallel with SCTP"), "{err}");
}

/// A program that is killed when this value is dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_server_that_accepts_fewer_sessions_is_reported_once_and_all_files_arrive() {
    let room = Room::new();
    let tree = room.folder("tree");
    many(&tree);
    let config = room.path("braidftp.toml");
    fs::write(&config, "max-sessions-per-address = 2\n").unwrap();
    let mut serve = braidftp(&room.home());
    serve.args(["serve", tree.to_str().unwrap(), "--plain", "--listen", "ftp://127.0.0.1:0", "--config"]);
    let mut server = Ended(serve.arg(&config).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stderr.take().unwrap());
    let url = loop {
        let mut line = String::new();
        assert!(lines.read_line(&mut line).unwrap() > 0, "it ended");
        if let Some(at) = line.find("ftp://127.0.0.1:") {
            break line[at..].trim().to_owned() + "/";
        }
    };
    std::thread::spawn(move || lines.lines().for_each(drop));
    let copy = room.path("copy");
    let (code, _, err) = cli(&room.home(), &["mirror", &url, copy.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(err.matches("accepts no further session").count(), 1, "{err}");
    assert!(err.contains("continuing with 2 sessions"), "{err}");
    assert_same(&tree, &copy);
}
