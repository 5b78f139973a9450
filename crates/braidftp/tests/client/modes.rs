//! Trees are transferred in both directions in every mode without changes.

use std::fs;
use std::os::unix::fs::symlink;

use crate::client_support::{MODES, Room, Served, assert_same, awkward_tree, cli, names, pattern};

#[test]
fn a_downloaded_tree_is_identical_in_every_mode() {
    let room = Room::new();
    let tree = room.folder("tree");
    awkward_tree(&tree);
    let server = Served::new(&tree);
    for mode in MODES {
        let copy = room.path(mode);
        let to = copy.to_str().unwrap();
        let (code, out, err) =
            cli(&room.home(), &["mirror", &server.url(mode), to, "--mode", mode, "--json"]);
        assert_eq!(code, 0, "{mode}: {err}");
        assert_same(&tree, &copy);
        let summary: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!(summary["event"], "summary");
        assert_eq!(summary["mode"], mode);
        assert_eq!((summary["files"].as_u64(), summary["failed"].as_u64()), (Some(43), Some(0)), "{mode}");
        assert!(!summary["paths"].as_array().unwrap().is_empty());

        // The second run has nothing to do.
        let (code, out, err) =
            cli(&room.home(), &["mirror", &server.url(mode), to, "--mode", mode, "--json"]);
        assert_eq!(code, 0, "{mode}: {err}");
        let summary: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!((summary["files"].as_u64(), summary["bytes"].as_u64()), (Some(0), Some(0)), "{mode}");
    }
}

#[test]
fn an_uploaded_tree_is_identical_in_every_mode() {
    let room = Room::new();
    let tree = room.folder("tree");
    awkward_tree(&tree);
    let store = room.folder("store");
    let server = Served::writable(&store);
    for mode in MODES {
        let url = format!("{}in/{mode}", server.url(mode));
        let (code, _, err) =
            cli(&room.home(), &["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode]);
        assert_eq!(code, 0, "{mode}: {err}");
        assert_same(&tree, &store.join("in").join(mode));

        let (code, out, err) =
            cli(&room.home(), &["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode, "--json"]);
        assert_eq!(code, 0, "{mode}: {err}");
        let summary: serde_json::Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
        assert_eq!(summary["files"].as_u64(), Some(0), "{mode}: nothing is sent twice: {out}");
    }
}

#[test]
fn a_tree_is_downloaded_over_a_lossy_link() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::create_dir(tree.join("folder")).unwrap();
    for (name, length) in [("a", 0), ("b", 30_000), ("folder/c", 3_000)] {
        fs::write(tree.join(name), pattern(length)).unwrap();
    }
    let server = Served::new(&tree);
    let link = server.link("rate=10mbit,delay=1ms,loss=0.1,reorder=0.1,duplicate=0.05,queue=500kB");
    for mode in ["naive", "ms", "ms-cp", "braid"] {
        let copy = room.path(mode);
        let url = format!("ftp+sctp://{}/", link.local_addr());
        let (code, _, err) = cli(&room.home(), &["mirror", &url, copy.to_str().unwrap(), "--mode", mode]);
        assert_eq!(code, 0, "{mode}: {err}");
        assert_same(&tree, &copy);
    }
    assert!(link.counters().back.dropped_loss > 0, "the link was bad");
}

#[test]
fn links_that_lead_out_of_the_tree_are_refused_in_both_directions() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::write(tree.join("file"), "x").unwrap();
    symlink("/etc/passwd", tree.join("absolute")).unwrap();
    symlink("../..", tree.join("up")).unwrap();
    symlink("file", tree.join("inside")).unwrap();
    let (server, store) = (Served::new(&tree), room.folder("store"));
    let up = Served::writable(&store);
    for mode in ["tcp", "braid"] {
        let copy = room.path(mode);
        let (code, _, err) = cli(&room.home(), &["mirror", &server.url(mode), copy.to_str().unwrap()]);
        assert_eq!(code, 10, "{err}");
        assert!(
            err.contains("mirror absolute: the link leads out")
                && err.contains("mirror up: the link leads out"),
            "{err}"
        );
        assert_eq!(names(&copy), ["file", "inside"]);

        let url = format!("{}{mode}", up.url(mode));
        let (code, _, err) = cli(&room.home(), &["mirror", "-R", tree.to_str().unwrap(), &url]);
        assert_eq!(code, 10, "{err}");
        assert!(err.contains("mirror absolute: the link leads out"), "{err}");
        assert_eq!(names(&store.join(mode)), ["file", "inside"]);
    }
}

#[test]
fn single_files_and_small_commands_work_in_every_mode() {
    let room = Room::new();
    let store = room.folder("store");
    let server = Served::writable(&store);
    let local = room.folder("local");
    fs::write(local.join("a b"), pattern(5000)).unwrap();
    fs::write(local.join("c"), "c").unwrap();
    for mode in MODES {
        let url = |path: &str| format!("{}{path}", server.url(mode));
        let good = |args: &[&str]| {
            let mut all = args.to_vec();
            all.extend(["--mode", mode]);
            let (code, out, err) = cli(&room.home(), &all);
            assert_eq!(code, 0, "{mode} {args:?}: {err}");
            out
        };
        let (a, c) = (local.join("a b"), local.join("c"));
        good(&["mkdir", "-p", &url(&format!("{mode}/x/y"))]);
        good(&["put", a.to_str().unwrap(), c.to_str().unwrap(), &url(&format!("{mode}/x/"))]);
        good(&["put", c.to_str().unwrap(), &url(&format!("{mode}/x/renamed"))]);
        assert_eq!(fs::read(store.join(mode).join("x/a b")).unwrap(), pattern(5000));
        assert_eq!(names(&store.join(mode).join("x")), ["a b", "c", "renamed", "y"]);
        let listing = good(&["ls", &url(&format!("{mode}/x"))]);
        assert!(
            listing.contains("5000") && listing.contains("a b") && listing.lines().count() == 4,
            "{listing}"
        );
        good(&["mv", &url(&format!("{mode}/x/renamed")), &format!("{mode}/x/moved")]);
        assert_eq!(good(&["cat", &url(&format!("{mode}/x/moved"))]), "c");
        let got = room.path(&format!("got-{mode}"));
        good(&["get", &url(&format!("{mode}/x/*")), "-o", got.to_str().unwrap()]);
        assert_eq!(names(&got), ["a b", "c", "moved"]);
        good(&["get", &url(&format!("{mode}/x/a%20b")), "-o", got.to_str().unwrap()]);
        good(&["rm", &url(&format!("{mode}/x/c"))]);
        fs::write(store.join(mode).join("x/.big one.braidftp-part"), "1234").unwrap();
        let parts = good(&["ls", "--parts", &url(mode)]);
        assert!(parts.contains(" 4 ") && parts.trim_end().ends_with("x/big one"), "{parts}");
        let long = good(&["ls", "--parts", "-l", &url(mode)]);
        assert_eq!(
            long,
            parts.replacen("- ", "-????????? ", 1),
            "{mode}: permissions of parts are not known"
        );
        good(&["rm", "--parts", &url(mode)]);
        assert_eq!(names(&store.join(mode).join("x")), ["a b", "moved", "y"]);
        good(&["rm", "-r", &url(mode)]);
        assert!(names(&store).is_empty(), "{mode}");
    }
}

#[test]
fn delete_removes_extra_entries_and_a_dry_run_only_reports_them() {
    let room = Room::new();
    let tree = room.folder("tree");
    fs::create_dir(tree.join("kept")).unwrap();
    fs::write(tree.join("kept/a"), "a").unwrap();
    let server = Served::new(&tree);
    for mode in ["tcp", "ms-cp", "braid"] {
        let copy = room.folder(mode);
        fs::create_dir_all(copy.join("old/deep")).unwrap();
        fs::create_dir_all(copy.join("kept")).unwrap();
        for name in ["old/deep/f", "kept/extra", "keep.o"] {
            fs::write(copy.join(name), "x").unwrap();
        }
        let args = [
            "mirror",
            &server.url(mode),
            copy.to_str().unwrap(),
            "--mode",
            mode,
            "--delete",
            "--exclude",
            "*.o",
        ];
        let (code, out, err) = cli(&room.home(), &[&args[..], &["--dry-run"]].concat());
        assert_eq!(code, 0, "{err}");
        for line in ["receive kept/a", "delete old/deep/f", "delete old", "delete kept/extra"] {
            assert!(out.lines().any(|l| l == line), "{mode}: {line} in {out}");
        }
        assert!(copy.join("kept/extra").exists() && !copy.join("kept/a").exists());
        let (code, _, err) = cli(&room.home(), &args);
        assert_eq!(code, 0, "{err}");
        assert_eq!(
            (names(&copy), names(&copy.join("kept"))),
            (vec!["keep.o".into(), "kept".into()], vec!["a".into()])
        );
    }
}
