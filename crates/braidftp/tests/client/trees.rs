//! What a mirror preserves of a tree, and what it reports about the rest.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::net::UdpSocket;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::{Duration, Instant};

use braidftp_ftp::mapping::FIRST_FILES;

use crate::client_support::{Room, Served, assert_same, cli, names, pattern};

const TREES: [&str; 3] = ["tcp", "ms-cp", "braid"];

fn mode(path: impl AsRef<Path>) -> u32 {
    path.as_ref().symlink_metadata().unwrap().mode() & 0o777
}

fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_name_with_a_line_end_is_reported_and_the_rest_is_transferred() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::create_dir_all(tree.join("folder/in\nside")).unwrap();
    for name in ["good", "bad\nname", "folder/good", "folder/other\rname", "folder/in\nside/file"] {
        fs::write(tree.join(name), "x").unwrap();
    }
    let (server, store) = (Served::new(&tree), room.folder("store"));
    let up = Served::writable(&store);
    for mode in TREES {
        let (copy, sent) = (room.path(mode), store.join(mode));
        fs::create_dir(&copy).unwrap();
        fs::write(copy.join("extra"), "stays: the listing has a hole").unwrap();
        let down = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode, "--delete"];
        let url = format!("{}{mode}", up.url(mode));
        let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode];
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            for args in [args.to_vec(), [args, &["--json"]].concat()] {
                let (code, out, err) = cli(&room.home(), &args);
                assert!(code == 10 || code == 7, "{mode}: {code} {err}");
                for name in ["bad\\x0aname", "folder/other\\x0dname", "folder/in\\x0aside"] {
                    assert!(err.contains(name), "{mode}: {name} in {err}");
                }
                assert!(!err.contains("side/file"), "it goes with its folder: {err}");
                if let Some(last) = out.lines().last() {
                    let summary: serde_json::Value = serde_json::from_str(last).unwrap();
                    assert_eq!(summary["failed"], 3, "{mode}: {out}");
                }
            }
            assert_eq!(names(&there.join("folder")), ["good"]);
        }
        assert_eq!(names(&copy), ["extra", "folder", "good"]);
        let excluded = [&down[..5], &["--exclude", "*\n*", "--exclude", "*\r*"]].concat();
        let (code, _, err) = cli(&room.home(), &excluded);
        assert_eq!(code, 0, "what is excluded is not missed: {err}");
        let (code, out, err) = cli(&room.home(), &["ls", &server.url(mode), "--mode", mode]);
        assert!(
            code != 0 && out.contains("good") && err.contains("bad\\x0aname"),
            "{mode}: {code} {out} {err}"
        );
    }
}

#[test]
fn several_sources_go_to_folders_of_their_names() {
    let room = Room::new();
    let tree = room.folder("tree");
    for folder in ["a", "deep/b"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
        fs::write(tree.join(folder).join("file"), folder).unwrap();
        fs::write(tree.join(folder).join("file.o"), "left out").unwrap();
    }
    let (server, store) = (Served::new(&tree), room.folder("store"));
    let up = Served::writable(&store);
    let (here, copy) = (tree.to_str().unwrap(), room.path("copy"));
    let urls = ["a/", "deep/b"].map(|folder| format!("{}{folder}", server.url("braid")));
    let down = ["mirror", &urls[0], &urls[1], copy.to_str().unwrap(), "--filter", "- *.o"];
    let folders = ["a", "deep/b"].map(|folder| format!("{here}/{folder}"));
    let url = format!("{}sent", up.url("tcp"));
    let up = ["mirror", "-R", "-f", "+ file", "-f", "- *", &folders[0], &folders[1], &url];
    for (args, there) in [(&down[..], &copy), (&up[..], &store.join("sent"))] {
        let (code, _, err) = cli(&room.home(), args);
        assert_eq!(code, 0, "{err}");
        assert_eq!(names(there), ["a", "b"]);
        assert_eq!(names(&there.join("b")), ["file"]);
        assert_eq!(fs::read_to_string(there.join("b/file")).unwrap(), "deep/b");
    }
    let refused = |args: &[&str], says: &str| {
        let (code, _, err) = cli(&room.home(), args);
        assert!(code == 1 && err.contains(says), "{err}");
    };
    refused(&["mirror", &urls[0], &urls[0], copy.to_str().unwrap()], "the same name");
    refused(&["mirror", &server.url("braid"), &urls[0], copy.to_str().unwrap()], "no name of its own");
    refused(&["mirror", &urls[0], &urls[1], copy.to_str().unwrap(), "--plan", "p"], "a plan is of one");
    refused(&["mirror", &urls[0], copy.to_str().unwrap(), "--filter", "hide x"], "not built");
    refused(&["mirror", &urls[0]], "2");
}

#[test]
fn permissions_are_transferred_in_both_directions_unless_disabled() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::create_dir_all(tree.join("closed/deeper")).unwrap();
    for (name, mode) in [("closed/file", 0o440), ("closed/deeper/run", 0o755), ("usual", 0o644)] {
        fs::write(tree.join(name), name).unwrap();
        set_mode(tree.join(name), mode);
    }
    let (server, store) = (Served::new(&tree), room.folder("store"));
    let up = Served::writable(&store);
    for name in TREES {
        set_mode(tree.join("closed"), 0o555);
        set_mode(tree.join("usual"), 0o644);
        let (copy, sent) = (room.path(name), store.join(name));
        let down = ["mirror", &server.url(name), copy.to_str().unwrap(), "--mode", name];
        let url = format!("{}{name}", up.url(name));
        let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", name];
        let run = |args: &[&str]| {
            let (code, out, err) = cli(&room.home(), args);
            assert_eq!((code, err.contains("CHMOD")), (0, false), "{name} {args:?}: {err}");
            out
        };
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            run(args);
            let found =
                ["closed", "closed/file", "closed/deeper/run", "usual"].map(|path| mode(there.join(path)));
            assert_eq!(found, [0o555, 0o440, 0o755, 0o644], "{name}");
        }
        // Only the modes changed, and a file goes into a folder that its owner may not write to.
        set_mode(tree.join("usual"), 0o600);
        set_mode(tree.join("closed"), 0o755);
        fs::write(tree.join("closed/new"), "new").unwrap();
        set_mode(tree.join("closed"), 0o500);
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            let out = run(&[args, &["--dry-run"]].concat());
            assert!(out.contains("set mode usual"), "{name}: {out}");
            run(args);
            assert_eq!([mode(there.join("usual")), mode(there.join("closed"))], [0o600, 0o500], "{name}");
            assert!(there.join("closed/new").exists());
            set_mode(there.join("usual"), 0o640);
            run(&[args, &["--no-permissions"]].concat());
            assert_eq!(mode(there.join("usual")), 0o640, "{name}");
        }
        set_mode(tree.join("closed"), 0o755);
        fs::remove_file(tree.join("closed/new")).unwrap();
    }
}

#[test]
fn long_runs_of_zeros_become_holes_without_changing_the_contents() {
    let room = Room::new();
    let tree = room.folder("tree");
    let mut file = fs::File::create(tree.join("sparse")).unwrap();
    file.write_all(&pattern(5_000)).unwrap();
    file.seek(SeekFrom::Start(20_000_000)).unwrap();
    file.write_all(&pattern(70_001)).unwrap();
    file.set_len(30_000_000).unwrap();
    let blocks = |path: &Path| path.metadata().unwrap().blocks() * 512;
    let (server, store) = (Served::new(&tree), room.folder("store"));
    let up = Served::writable(&store);
    for name in ["tcp", "braid"] {
        let copy = room.path(name);
        let args = ["mirror", &server.url(name), copy.to_str().unwrap(), "--mode", name];
        let (code, _, err) = cli(&room.home(), &args);
        assert_eq!(code, 0, "{err}");
        assert_same(&tree, &copy);
        assert!(blocks(&copy.join("sparse")) < 1_000_000, "{name}: {}", blocks(&copy.join("sparse")));
        let url = format!("{}{name}", up.url(name));
        let (code, _, err) =
            cli(&room.home(), &["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", name]);
        assert_eq!(code, 0, "{err}");
        assert_same(&tree, &store.join(name));
        assert!(blocks(&store.join(name).join("sparse")) < 1_000_000, "{name}");
        fs::remove_file(copy.join("sparse")).unwrap();
        let (code, _, err) = cli(&room.home(), &[&args[..], &["--no-holes"]].concat());
        assert_eq!(code, 0, "{err}");
        assert!(blocks(&copy.join("sparse")) >= 30_000_000, "{name}");
        assert_same(&tree, &copy);
    }
}

#[test]
fn a_dry_run_does_not_report_existing_links() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("file"), "x").unwrap();
    symlink("file", tree.join("link")).unwrap();
    symlink("../..", tree.join("out")).unwrap();
    let server = Served::new(&tree);
    for name in TREES {
        let copy = room.path(name);
        let args = ["mirror", &server.url(name), copy.to_str().unwrap(), "--mode", name];
        let (_, out, _) = cli(&room.home(), &[&args[..], &["--dry-run"]].concat());
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["link link", "receive file"], "{name}");
        let (_, out, _) = cli(&room.home(), &[&args[..], &["--dry-run", "--no-links"]].concat());
        assert_eq!(out, "receive file\n", "{name}");
        assert_eq!(cli(&room.home(), &args).0, 10, "a link is left out");
        let (code, out, _) = cli(&room.home(), &[&args[..], &["--dry-run"]].concat());
        assert_eq!((code, out.as_str()), (10, ""), "{name}");
    }
}

#[test]
fn what_is_left_out_is_reported_by_every_run_and_dry_run_with_exit_code_10() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("file"), "x").unwrap();
    for (folder, why) in [("link", "leads out of the tree"), ("name", "line end"), ("other", "a socket")] {
        let one = room.folder(&format!("tree/{folder}"));
        match folder {
            "link" => symlink("../..", one.join("out")).unwrap(),
            "name" => fs::write(one.join("two\nlines"), "x").unwrap(),
            _ => drop(UnixListener::bind(one.join("socket")).unwrap()),
        }
        let (server, up) = (Served::new(&tree), Served::writable(&room.folder("store")));
        for mode in ["tcp", "braid"] {
            let copy = room.path(&format!("{mode}-{folder}"));
            let down = ["mirror", &format!("{}{folder}", server.url(mode)), copy.to_str().unwrap()];
            let to = format!("{}{mode}-{folder}", up.url(mode));
            let up = ["mirror", "-R", one.to_str().unwrap(), &to];
            for args in [&down[..], &up[..]] {
                // The second run has nothing to do.
                for options in [&["--dry-run"][..], &[], &[], &["--dry-run"]] {
                    let (code, out, err) =
                        cli(&room.home(), &[args, &["--mode", mode, "--json"], options].concat());
                    assert!(code == 10 && err.contains(why), "{args:?} {options:?}: {code} {err}");
                    assert!(out.contains(r#""failed":1"#), "{out}");
                }
            }
        }
    }
}

#[test]
fn a_port_without_a_listener_is_reported_immediately() {
    let room = Room::new();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for mode in ["ms", "braid"] {
        let begun = Instant::now();
        let (code, _, err) = cli(&room.home(), &["ls", &format!("ftp+sctp://{free}/"), "--mode", mode]);
        // T1-init alone would take --timeout, a minute.
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
        assert!(code == 2 && err.contains("nobody listens"), "{mode}: {code} {err}");
    }
}

#[test]
fn the_first_files_of_a_tree_are_requested_with_its_listing_if_all_of_it_goes_to_an_empty_folder() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::create_dir_all(tree.join("a/b")).unwrap();
    fs::create_dir(tree.join("empty")).unwrap();
    for nth in 0..FIRST_FILES + 4 {
        let folder = ["", "a", "a/b"][nth % 3];
        fs::write(tree.join(folder).join(format!("f{nth}")), pattern(1_000 * nth)).unwrap();
    }
    symlink("f0", tree.join("link")).unwrap();
    fs::hard_link(tree.join("f3"), tree.join("other name")).unwrap();
    let server = Served::new(&tree);
    let bare = |args: &[&str], out: &Path| {
        let url = server.url("braid");
        let args = [&["mirror", "-vv", &url, out.to_str().unwrap()], args].concat();
        let (code, _, err) = cli(&room.home(), &args);
        assert_eq!(code, 0, "{err}");
        let asked = |line: &&str| line.starts_with("> RETR");
        let without = err.lines().filter(|line| *line == "> RETR").count();
        (without, err.lines().filter(asked).count())
    };
    let out = room.path("out");
    assert_eq!(bare(&[], &out), (FIRST_FILES, FIRST_FILES + 5));
    assert_same(&tree, &out);
    fs::remove_file(out.join("f0")).unwrap();
    assert_eq!(bare(&[], &out), (0, 1), "what is there is not requested");
    assert_eq!(bare(&["--exclude", "nothing"], &room.path("some")), (0, FIRST_FILES + 5));
    let small = room.folder("tree/only");
    fs::write(small.join("one"), "1").unwrap();
    let out = room.path("one");
    let url = format!("{}only", server.url("braid"));
    let (code, _, err) = cli(&room.home(), &["mirror", "-vv", &url, out.to_str().unwrap()]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read(out.join("one")).unwrap(), b"1");
    assert_eq!(err.lines().filter(|line| *line == "< 550 no further file").count(), FIRST_FILES - 1);
}
