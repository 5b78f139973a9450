//! Comparison of trees by digest: `verify` and `mirror --checksum`, with our server and with other kinds of
//! servers.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::client_support::{Room, Served, assert_same, awkward_tree, cli, pattern};

const TREES: [&str; 3] = ["tcp", "ms-cp", "braid"];

fn set_time(path: impl AsRef<Path>, seconds: u64) {
    let file = fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn verify_reports_differences_and_sets_the_exit_code() {
    let room = Room::new();
    let tree = room.folder("tree");
    awkward_tree(&tree);
    let server = Served::new(&tree);
    for mode in TREES {
        let copy = room.path(mode);
        let url = server.url(mode);
        let verify = ["verify", &url, copy.to_str().unwrap(), "--mode", mode];
        assert_eq!(cli(&room.home(), &["mirror", &url, copy.to_str().unwrap(), "--mode", mode]).0, 0);
        let (code, out, err) = cli(&room.home(), &verify);
        assert_eq!((code, err.as_str()), (0, ""), "{mode}: {out}");
        assert!(out.ends_with(" the same, by BLAKE3\n") && out.lines().count() == 1, "{mode}: {out}");
        // Equal size and time with other contents; another size; another kind; a missing and an extra entry;
        // another link target.
        let several = copy.join("several blocks");
        let mut bytes = pattern(900_001);
        bytes[500_000] ^= 1;
        let time = several.metadata().unwrap().modified().unwrap();
        fs::write(&several, bytes).unwrap();
        fs::File::options().append(true).open(&several).unwrap().set_modified(time).unwrap();
        fs::write(copy.join("one byte"), "12").unwrap();
        fs::remove_file(copy.join("-rf")).unwrap();
        fs::create_dir(copy.join("-rf")).unwrap();
        fs::write(copy.join("many/new"), "").unwrap();
        fs::remove_file(copy.join("many/03")).unwrap();
        fs::remove_file(copy.join("dangling")).unwrap();
        symlink("elsewhere", copy.join("dangling")).unwrap();
        // A different time is not a different content.
        set_time(copy.join("many/07"), 5);
        let (code, out, _) = cli(&room.home(), &verify);
        let mut lines: Vec<&str> = out.lines().collect();
        let last = lines.pop().unwrap();
        lines.sort_unstable();
        let expected = [
            "-rf is of another kind",
            "dangling leads elsewhere",
            "many/03 is missing here",
            "many/new is missing on the server",
            "one byte differs in size",
            "several blocks differs in contents",
        ];
        assert_eq!((code, &lines[..]), (9, &expected[..]), "{mode}");
        assert!(last.ends_with("the same, by BLAKE3; 6 differ"), "{mode}: {last}");
        let (code, out, _) = cli(&room.home(), &[&verify[..], &["--json"]].concat());
        let events: Vec<serde_json::Value> =
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let differences: Vec<_> = events.iter().filter(|event| event["event"] == "difference").collect();
        assert_eq!((code, differences.len()), (9, 6), "{out}");
        assert!(
            differences.iter().any(|event| event["what"] == "contents" && event["path"] == "several blocks")
        );
        assert_eq!(events[events.len() - 2]["differ"], 6, "{out}");
        assert_eq!(events[events.len() - 1]["event"], "summary", "{out}");
        let only = [&verify[..], &["--include", "many/*", "--exclude", "new", "--exclude", "03"]].concat();
        assert_eq!(cli(&room.home(), &only).0, 0, "{mode}: what is left out is not compared");
    }
}

#[test]
fn a_mirror_by_checksum_transfers_only_files_with_different_contents() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    for name in ["same", "touched", "changed", "longer"] {
        fs::write(tree.join(name), pattern(100_000)).unwrap();
        set_time(tree.join(name), 1_000_000);
    }
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    for mode in TREES {
        let (copy, sent) = (room.path(mode), store.join(mode));
        let up_url = format!("{}{mode}", up.url(mode));
        let down = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode];
        let up = ["mirror", "-R", tree.to_str().unwrap(), &up_url, "--mode", mode];
        for (args, there, moved) in [(&down[..], &copy, "received"), (&up[..], &sent, "sent")] {
            assert_eq!(cli(&room.home(), args).0, 0);
            set_time(there.join("touched"), 2_000_000);
            let mut bytes = pattern(100_000);
            bytes[99_999] ^= 1;
            fs::write(there.join("changed"), &bytes).unwrap();
            set_time(there.join("changed"), 1_000_000);
            fs::write(there.join("longer"), [&bytes[..], b"x"].concat()).unwrap();
            set_time(there.join("longer"), 1_000_000);
            let verbs: Vec<&str> = if moved == "sent" { vec!["send"] } else { vec!["receive"] };
            let (code, out, err) = cli(&room.home(), &[args, &["--checksum", "--dry-run"]].concat());
            let mut lines: Vec<String> = out.lines().map(str::to_owned).collect();
            lines.sort();
            let planned = [format!("{} changed", verbs[0]), format!("{} longer", verbs[0])];
            assert_eq!((code, &lines[..2]), (0, &planned[..]), "{mode}: {out}{err}");
            assert_eq!(lines[2..], ["set time touched"], "{mode}: {out}");
            let (code, out, err) = cli(&room.home(), &[args, &["--checksum", "--json"]].concat());
            assert_eq!(code, 0, "{mode}: {err}");
            let acted = |action: &str| {
                let event = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
                let mut paths: Vec<String> = out
                    .lines()
                    .map(event)
                    .filter(|event| event["event"] == "file" && event["action"] == action)
                    .map(|event| event["path"].as_str().unwrap().to_owned())
                    .collect();
                paths.sort();
                paths
            };
            assert_eq!(acted(moved), ["changed", "longer"], "{mode}: {out}");
            assert_eq!(acted("set_time"), ["touched"], "{mode}: {out}");
            assert_same(&tree, there);
        }
    }
}

/// A server with the login and two more commands: its reply to FEAT, and its answer to each other command.
fn scripted(features: &'static str, answer: fn(&str) -> String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"220 old\r\n").unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut data: Option<TcpListener> = None;
            for line in lines {
                let Ok(line) = line else { break };
                let reply = match line.split(' ').next().unwrap() {
                    "AUTH" => "502 no\r\n".to_owned(),
                    "USER" => "230 in\r\n".to_owned(),
                    "FEAT" => features.to_owned(),
                    "TYPE" | "OPTS" => "200 ok\r\n".to_owned(),
                    "EPSV" => {
                        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                        let port = listener.local_addr().unwrap().port();
                        data = Some(listener);
                        format!("229 ok (|||{port}|)\r\n")
                    }
                    "MLSD" => {
                        stream.write_all(b"150 here\r\n").unwrap();
                        let (mut to, _) = data.take().unwrap().accept().unwrap();
                        to.write_all(b"type=file;size=3;modify=19700102000000; abc\r\n").unwrap();
                        "226 done\r\n".to_owned()
                    }
                    "QUIT" => break,
                    _ => answer(&line),
                };
                if stream.write_all(reply.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    format!("ftp://{address}/")
}

#[test]
fn each_servers_command_for_digests_is_used() {
    let room = Room::new();
    let copy = room.folder("copy");
    fs::write(copy.join("abc"), "abc").unwrap();
    let to = copy.to_str().unwrap();
    let md5 =
        scripted("211-f\r\n MLST size*;\r\n XMD5 filename\r\n XCRC\r\n211 End\r\n", |line| match line {
            "XMD5 abc" => "250 900150983CD24FB0D6963F7D28E17F72\r\n".to_owned(),
            _ => "502 no\r\n".to_owned(),
        });
    let (code, out, err) = cli(&room.home(), &["verify", &md5, to]);
    assert_eq!((code, out.as_str()), (0, "1 the same, by MD5\n"), "{err}");
    let hash = scripted("211-f\r\n MLST size*;\r\n HASH SHA-1*;MD5\r\n211 End\r\n", |line| match line {
        "HASH abc" => "213 SHA-1 0-3 a9993e364706816aba3e25717850c26c9cd0d89d abc\r\n".to_owned(),
        _ => "502 no\r\n".to_owned(),
    });
    assert_eq!(cli(&room.home(), &["verify", &hash, to]).1, "1 the same, by SHA-1\n");
    // A reply without a digest is an error, not a difference.
    let bad =
        scripted("211-f\r\n MLST size*;\r\n XCRC\r\n211 End\r\n", |_| "250 see the web page\r\n".to_owned());
    let (code, out, err) = cli(&room.home(), &["verify", &bad, to]);
    assert_eq!((code, out.as_str()), (14, "0 the same, by CRC32\n"), "{err}");
    assert!(err.contains("holds no CRC32 digest"), "{err}");
    let none = scripted("211-f\r\n MLST size*;\r\n211 End\r\n", |_| "502 no\r\n".to_owned());
    for args in [&["verify", &none, to][..], &["mirror", "--checksum", &none, to]] {
        let (code, out, err) = cli(&room.home(), args);
        assert_eq!((code, out.as_str()), (7, ""), "{err}");
        assert!(err.contains("the server supports no digests"), "{err}");
    }
}
