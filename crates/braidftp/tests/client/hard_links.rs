//! Hard links of a mirror (`-H`): names of one file stay names of one file, both ways, and what cannot be kept is named.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::client_support::{Room, Served, assert_same, cli, names, pattern};

const TREES: [&str; 4] = ["tcp", "ms", "ms-cp", "braid"];

fn file(path: impl AsRef<Path>) -> u64 {
    path.as_ref().symlink_metadata().unwrap().ino()
}

/// Three names of one file, two of another, and a file with one name.
fn fill(tree: &Path) {
    fs::create_dir_all(tree.join("folder")).unwrap();
    fs::write(tree.join("a b%"), pattern(100_000)).unwrap();
    fs::hard_link(tree.join("a b%"), tree.join("folder/b")).unwrap();
    fs::hard_link(tree.join("a b%"), tree.join("folder/c")).unwrap();
    fs::write(tree.join("x"), "x").unwrap();
    fs::hard_link(tree.join("x"), tree.join("y")).unwrap();
    fs::write(tree.join("alone"), "x").unwrap();
}

fn is_linked(copy: &Path) {
    let [a, b, c] = ["a b%", "folder/b", "folder/c"].map(|name| file(copy.join(name)));
    assert!(a == b && b == c, "{a} {b} {c}");
    assert_eq!(file(copy.join("x")), file(copy.join("y")));
    assert_eq!(copy.join("alone").metadata().unwrap().nlink(), 1);
    assert_eq!(copy.join("x").metadata().unwrap().nlink(), 2);
}

/// The actions of a run, sorted: `hard_linked folder/b`.
fn acted(out: &str) -> Vec<String> {
    let events = out.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let files = events.filter(|event| event["event"] == "file" && event["action"] != "skipped");
    let mut acted: Vec<String> = files
        .map(|event| format!("{} {}", event["action"].as_str().unwrap(), event["path"].as_str().unwrap()))
        .collect();
    acted.sort();
    acted
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    fill(&tree);
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    for mode in TREES {
        let (copy, sent) = (room.path(mode), store.join(mode));
        let url = format!("{}{mode}", up.url(mode));
        let down = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode, "-H", "--json"];
        let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode, "-H", "--json"];
        for (args, there, moved) in [(&down[..], &copy, "received"), (&up[..], &sent, "sent")] {
            let run = |more: &[&str]| {
                let (code, out, err) = cli(&room.home(), &[args, more].concat());
                assert_eq!((code, err.as_str()), (0, ""), "{mode}: {out}");
                acted(&out)
            };
            // Without -H each name is a file of its own, which -H replaces later.
            fs::create_dir_all(there.join("folder")).unwrap();
            fs::write(there.join("folder/c"), "another").unwrap();
            let first = run(&[]);
            let count = |what: &str| first.iter().filter(|line| line.starts_with(what)).count();
            assert_eq!((count(moved), count("hard_linked")), (3, 3), "{mode}: {first:?}");
            is_linked(there);
            assert_same(&tree, there);
            assert_eq!(run(&[]), Vec::<String>::new(), "{mode}: the second run has nothing to do");
            // A name that has become a file of its own is linked again, and its content is not moved.
            fs::remove_file(there.join("y")).unwrap();
            fs::remove_file(there.join("x")).unwrap();
            fs::write(there.join("x"), "?").unwrap();
            fs::remove_file(there.join("folder/b")).unwrap();
            fs::copy(there.join("a b%"), there.join("folder/b")).unwrap();
            let time = there.join("a b%").metadata().unwrap().modified().unwrap();
            fs::File::options()
                .append(true)
                .open(there.join("folder/b"))
                .unwrap()
                .set_modified(time)
                .unwrap();
            let again = run(&[]);
            assert!(
                again.iter().any(|line| line == "hard_linked folder/b" || line == "hard_linked a b%"),
                "{again:?}"
            );
            assert_eq!(again.iter().filter(|line| line.starts_with(moved)).count(), 1, "{mode}: {again:?}");
            is_linked(there);
            // A changed file is moved once, under all of its names.
            fs::write(tree.join("folder/c"), pattern(99_999)).unwrap();
            let changed = run(&[]);
            let lines: Vec<_> = changed.iter().map(|line| line.split(' ').next().unwrap()).collect();
            assert_eq!(lines, ["hard_linked", "hard_linked", moved], "{mode}: {changed:?}");
            is_linked(there);
            assert_same(&tree, there);
            for folder in [there.clone(), there.join("folder")] {
                assert!(names(&folder).iter().all(|name| !name.ends_with("part")), "{:?}", names(&folder));
            }
            assert_eq!(run(&[]), Vec::<String>::new(), "{mode}");
        }
        // What verify says, with and without the option.
        let verify = ["verify", &server.url(mode), copy.to_str().unwrap(), "--mode", mode];
        assert_eq!(cli(&room.home(), &[&verify[..], &["-H"]].concat()).0, 0, "{mode}");
        fs::remove_file(copy.join("y")).unwrap();
        fs::write(copy.join("y"), "x").unwrap();
        assert_eq!(cli(&room.home(), &verify).0, 0, "{mode}");
        let (code, out, _) = cli(&room.home(), &[&verify[..], &["-H"]].concat());
        assert!(
            code == 9 && (out.contains("y is not linked") || out.contains("x is not linked")),
            "{mode}: {out}"
        );
    }
}

#[test]
fn a_plan_names_hard_links_and_is_executed() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    fill(&tree);
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    for mode in TREES {
        let (copy, sent) = (room.folder(mode), store.join(mode));
        fs::create_dir(&sent).unwrap();
        let url = format!("{}{mode}", up.url(mode));
        let down = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode, "-H"];
        let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode, "-H"];
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            let (code, out, err) = cli(&room.home(), &[args, &["--dry-run"]].concat());
            assert_eq!(code, 0, "{mode}: {err}");
            assert_eq!(out.lines().filter(|line| line.starts_with("hard-link ")).count(), 3, "{mode}: {out}");
            let plan = room.path("plan.toml");
            let (code, _, err) = cli(&room.home(), &[args, &["--plan", plan.to_str().unwrap()]].concat());
            assert_eq!(code, 0, "{mode}: {err}");
            assert_eq!(names(there), Vec::<String>::new(), "a plan touches nothing");
            let apply = ["mirror", "--apply", plan.to_str().unwrap(), "--mode", mode];
            for _ in 0..2 {
                let (code, _, err) = cli(&room.home(), &apply);
                assert_eq!(code, 0, "{mode}: {err}");
                is_linked(there);
            }
            assert_same(&tree, there);
            let (code, out, _) = cli(&room.home(), &[args, &["--dry-run"]].concat());
            assert_eq!((code, out.as_str()), (0, ""), "{mode}: nothing is left to do");
        }
    }
}

/// Passes commands on to a server that does not know SITE HARDLINK.
fn without_hard_links(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
            let (mut answers, mut back) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut answers, &mut back));
            std::thread::spawn(move || {
                let mut server = server;
                for line in BufReader::new(client).lines() {
                    let Ok(line) = line else { return };
                    let line = line.replace("SITE HARDLINK", "SITE UNKNOWN");
                    server.write_all(format!("{line}\r\n").as_bytes()).unwrap();
                }
            });
        }
    });
    address
}

#[test]
fn a_server_without_hard_links_gets_contents_for_each_name_once() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    fill(&tree);
    let server = Served::writable(&store);
    let url = format!("ftp://{}/copy", without_hard_links(server.tcp));
    let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "-H", "--plain", "--parallel", "1"];
    let (code, out, err) = cli(&room.home(), &[&up[..], &["--json"]].concat());
    assert_eq!(code, 0, "{err}");
    assert_eq!(acted(&out).iter().filter(|line| line.starts_with("sent ")).count(), 6, "{out}");
    assert_same(&tree, &store.join("copy"));
    let (code, _, err) = cli(&room.home(), &up);
    assert_eq!(code, 0, "{err}");
    assert_eq!(err.matches("SITE HARDLINK").count(), 1, "it says so once: {err}");
    let (_, out, _) = cli(&room.home(), &[&up[..], &["--json"]].concat());
    assert_eq!(acted(&out), Vec::<String>::new(), "nothing is sent again");
}

#[test]
fn a_name_whose_file_failed_is_reported_with_it() {
    let room = Room::new();
    let tree = room.folder("tree");
    fill(&tree);
    let (server, copy) = (Served::new(&tree), room.path("copy"));
    // Something else has the place of every name but one.
    for name in ["a b%", "folder/b"] {
        fs::create_dir_all(copy.join(name).join("in the way")).unwrap();
    }
    let down = ["mirror", &server.url("braid"), copy.to_str().unwrap(), "-H"];
    let (code, _, err) = cli(&room.home(), &down);
    assert_eq!(code, 10, "{err}");
    assert!(err.contains("a b%") && err.contains("folder/b"), "{err}");
}

#[test]
fn entries_that_cannot_be_transferred_are_named_and_counted() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    fs::write(tree.join("file"), "x").unwrap();
    let _socket = UnixListener::bind(tree.join("socket")).unwrap();
    symlink("/etc/passwd", tree.join("out")).unwrap();
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    for mode in TREES {
        let (copy, sent) = (room.path(mode), store.join(mode));
        let url = format!("{}{mode}", up.url(mode));
        let down = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode];
        let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode];
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            for _ in 0..2 {
                let (code, _, err) = cli(&room.home(), args);
                assert_eq!(code, 10, "{mode}: {err}");
                assert!(
                    err.contains("socket") && err.contains("out") && err.contains("2 files failed"),
                    "{err}"
                );
                assert_eq!(names(there), ["file"]);
            }
            let rest = ["--exclude", "socket", "--no-links"];
            assert_eq!(cli(&room.home(), &[args, &rest].concat()).0, 0, "what is excluded is not missed");
            assert_eq!(
                cli(&room.home(), &[args, &["--dry-run"]].concat()).0,
                10,
                "{mode}: a dry run reports them, too"
            );
        }
    }
}
