//! `braidftp shell`: lines from standard input and from scripts, with a current server and folder.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use crate::client_support::{Room, Served, assert_same, awkward_tree, braidftp};

/// Runs lines in a folder; returns exit code, output and errors.
fn shell(room: &Room, folder: &std::path::Path, args: &[&str], lines: &str) -> (i32, String, String) {
    let mut command = braidftp(&room.home());
    command.arg("shell").args(args).current_dir(folder);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A shell that has ended reads no more.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

#[test]
fn commands_are_relative_to_the_current_folder() {
    let room = Room::new();
    let (tree, store, here) = (room.folder("tree"), room.folder("store"), room.folder("here"));
    awkward_tree(&tree);
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    for mode in ["tcp", "braid"] {
        let here = room.folder(&format!("here/{mode}"));
        let lines = format!(
            "# a comment\nopen {}\npwd\ncd many\nls\nget 05 '1?'\ncd ..\ncat \"one byte\"\nmirror größe\nlcd ..\nlpwd\n!echo from the system\n",
            server.url(mode)
        );
        let (code, out, err) = shell(&room, &here, &[], &lines);
        assert_eq!(code, 0, "{mode}: {out}{err}");
        for part in [
            server.url(mode).trim_end_matches('/'),
            "29",
            "1",
            "from the system",
            here.parent().unwrap().to_str().unwrap(),
        ] {
            assert!(out.contains(part), "{mode}: {part} is not in {out}");
        }
        assert_eq!(fs::read(here.join("05")).unwrap(), fs::read(tree.join("many/05")).unwrap());
        assert_same(&tree.join("größe"), &here.join("größe"));
        let lines = format!("mkdir {mode}\ncd {mode}\nput 05 &\nwait\nmput größe/日本語.txt\ndir\nmrm 05\n");
        let (code, out, err) = shell(&room, &here, &[&up.url(mode)], &lines);
        assert_eq!(code, 0, "{mode}: {out}{err}");
        assert!(out.contains("[1] put 05") && out.contains(" 05"), "{mode}: {out}");
        assert_eq!(crate::client_support::names(&store.join(mode)), ["日本語.txt"], "{mode}");
    }
    drop(here);
}

#[test]
fn the_first_line_that_fails_ends_a_script_with_its_exit_code() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("file"), "x").unwrap();
    let server = Served::new(&tree);
    let url = server.url("braid");
    let here = room.folder("here");
    for (lines, code, said) in [
        ("get nothing\nget file\n", 5, "nothing"),
        ("cd nowhere\nget file\n", 5, "nowhere"),
        ("mirrror\nget file\n", 1, "did you mean mirror?"),
        ("get 'file\n", 1, "has no end"),
        ("close\nls\n", 1, "no server is open"),
        ("!exit 3\nget file\n", 6, "exit 3"),
        ("kill 7\n", 1, "there is none"),
        ("ls --frob\n", 1, "--frob"),
        ("exit\nget file\n", 0, ""),
    ] {
        let (ended, out, err) = shell(&room, &here, &[&url], lines);
        assert!(ended == code && err.contains(said), "{lines}: {ended} {out}{err}");
        assert!(!here.join("file").exists(), "{lines}: it went on");
    }
    let script = room.path("script");
    fs::write(&script, format!("open {url}\nsource {}\n", room.path("inner").display())).unwrap();
    fs::write(room.path("inner"), "get file\n").unwrap();
    let (code, _, err) = shell(&room, &here, &["--script", script.to_str().unwrap()], "");
    assert_eq!(code, 0, "{err}");
    assert!(here.join("file").exists());
    fs::write(room.path("inner"), format!("source {}\n", room.path("inner").display())).unwrap();
    let (code, _, err) = shell(&room, &here, &["--script", script.to_str().unwrap()], "");
    assert!(code == 1 && err.contains("scripts have begun each other"), "{err}");
}
