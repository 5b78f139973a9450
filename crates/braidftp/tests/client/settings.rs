//! Settings and bookmarks (`config.toml`, `BRAIDFTP_…`, `config show`), and `doctor`.

use std::fs;
use std::net::{TcpListener, UdpSocket};
use std::time::{Duration, Instant};

use crate::client_support::{Room, Served, braidftp, cli, run};

#[test]
fn settings_and_bookmarks_apply_and_show_their_origin() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::create_dir(tree.join("folder")).unwrap();
    fs::write(tree.join("folder/file"), "x").unwrap();
    let server = Served::new(&tree);
    let folder = room.home().join(".config/braidftp");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("config.toml");
    let url = server.url("braid");
    fs::write(&file, format!("timeout = 20\nretries = 7\n[bookmark.site]\nurl = \"{url}\"\nretries = 2\n"))
        .unwrap();
    let (code, out, err) = cli(&room.home(), &["ls", "@site/folder"]);
    assert!(code == 0 && out.contains("file"), "{code} {out} {err}");
    let mut show = braidftp(&room.home());
    show.env("BRAIDFTP_TIMEOUT", "30").args(["config", "show", "--origin", "@site"]);
    let (code, out, err) = run(&mut show);
    assert_eq!(code, 0, "{err}");
    let line = |key: &str| out.lines().find(|line| line.starts_with(key)).unwrap_or_default().to_owned();
    assert!(
        line("timeout").contains(" 30 ") && line("timeout").ends_with("environment, BRAIDFTP_TIMEOUT"),
        "{out}"
    );
    assert!(line("retries").contains(" 2 ") && line("retries").ends_with("bookmark site"), "{out}");
    assert!(line("max-depth").ends_with("default"), "{out}");
    assert!(line("@site").ends_with(&url), "{out}");
    let (_, out, _) = cli(&room.home(), &["config", "show", "--origin"]);
    assert!(out.contains("config.toml:2"), "{out}");
    assert_eq!(cli(&room.home(), &["config", "path"]).1, format!("{}\n", file.display()));
    // An error affects every client command, and no server.
    fs::write(&file, "timeouts = 5\n").unwrap();
    let (code, _, err) = cli(&room.home(), &["ls", &url]);
    assert!(
        code == 1
            && err.contains("config.toml:1:1: there is no key `timeouts` here; did you mean `timeout`?"),
        "{err}"
    );
    assert_eq!(cli(&room.home(), &["help", "urls"]).0, 0);
    fs::remove_file(&file).unwrap();
    let (code, _, err) = run(braidftp(&room.home()).env("BRAIDFTP_LIMIT", "fast").args(["ls", &url]));
    assert!(code == 1 && err.contains("BRAIDFTP_LIMIT"), "{err}");
    let (code, _, err) = run(braidftp(&room.home()).env("BRAIDFTP_TIMEOUTS", "5").args(["ls", &url]));
    assert!(code == 0 && err.contains("BRAIDFTP_TIMEOUTS") && err.contains("BRAIDFTP_TIMEOUT?"), "{err}");
    let (code, _, err) = run(braidftp(&room.home()).env("BRAIDFTP_USER", "anonymous").args(["ls", &url]));
    assert!(code == 0 && err.is_empty(), "{err}");
}

#[test]
fn the_doctor_reports_a_working_server_within_a_second() {
    let room = Room::new();
    let tree = room.folder("tree");
    let server = Served::new(&tree);
    for mode in ["tcp", "braid"] {
        let (code, out, err) = cli(&room.home(), &["doctor", &server.url(mode)]);
        assert_eq!(code, 0, "{mode}: {out}{err}");
        for part in [
            "127.0.0.1 is 127.0.0.1",
            "with an MTU of",
            "lets anonymous in",
            "a command is answered in",
            "path ",
        ] {
            assert!(out.contains(part), "{mode}: {part} is not in {out}");
        }
        assert!(!out.contains("wrong"), "{mode}: {out}");
        if mode == "braid" {
            let path = out.lines().find(|line| line.contains("path ")).unwrap();
            for part in [" ms at least and ", " ms smoothed", "packets of up to ", "loss ", " sent again of "]
            {
                assert!(path.contains(part), "{part} is not in {path}");
            }
            // Nobody serves protocol 132 here; with CAP_NET_RAW nothing answers, as the kernel leaves the packets to the program's
            // own socket.
            let tried =
                out.lines().any(|line| line.contains("IP protocol 132") && line.contains("127.0.0.1"));
            assert!(tried, "{out}");
        }
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for url in [format!("ftp://{tcp}/"), format!("ftp+sctp://{udp}/")] {
        let begun = Instant::now();
        let (code, out, _) = cli(&room.home(), &["doctor", &url]);
        // It takes a second on an idle machine; the time-outs are at least 5 s.
        assert!(begun.elapsed() < Duration::from_secs(5), "{url}: {:?}", begun.elapsed());
        assert!(code == 2 && out.contains("nobody listens") && out.contains("try:"), "{url}: {code} {out}");
    }
    let (code, out, _) = cli(&room.home(), &["doctor", "ftp://no-such-name.invalid/"]);
    assert!(code == 2 && out.contains("find the address of no-such-name.invalid"), "{out}");
    assert_eq!(cli(&room.home(), &["doctor"]).0, 0);
}

#[test]
fn output_that_nobody_reads_is_no_panic() {
    let room = Room::new();
    let (read, _, _) = cli(&room.home(), &["ls", "ftp://127.0.0.1:1/"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unread = braidftp(&room.home());
    unread.args(["ls", "ftp://127.0.0.1:1/"]).stdout(writer.try_clone().unwrap()).stderr(writer);
    assert_eq!(unread.status().unwrap().code(), Some(read));
    assert_ne!(read, 0);
}
