//! Commands that read a tree, the selection options of a mirror, and the printed help pages.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::client_support::{MODES, Room, Served, braidftp, cli, names, run};

fn small_tree(tree: &Path) {
    fs::create_dir_all(tree.join("b/c")).unwrap();
    for (name, bytes) in [("z", 10), ("a", 2_000), ("b/x.txt", 300), ("b/c/y.txt", 4)] {
        fs::write(tree.join(name), vec![b'.'; bytes]).unwrap();
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(0o640)).unwrap();
    }
    symlink("a", tree.join("link")).unwrap();
}

#[test]
fn trees_are_listed_counted_searched_and_drawn() {
    let room = Room::new();
    let tree = room.folder("tree");
    small_tree(&tree);
    let server = Served::new(&tree);
    for mode in MODES {
        let run = |args: &[&str]| {
            let url = server.url(mode);
            let (code, out, err) = cli(&room.home(), &[args, &[&url, "--mode", mode]].concat());
            assert_eq!(code, 0, "{mode} {args:?}: {err}");
            out
        };
        let last = |out: &str| -> Vec<String> {
            out.lines().map(|line| line.split("  ").last().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(last(&run(&["ls"])), ["a", "b", "link -> a", "z"], "{mode}");
        assert_eq!(
            last(&run(&["ls", "-R"])),
            ["a", "b", "b/c", "b/c/y.txt", "b/x.txt", "link -> a", "z"],
            "{mode}"
        );
        assert!(
            run(&["ls", "-l"]).lines().any(|line| line.starts_with("-rw-r-----") && line.ends_with("  z"))
        );
        let json = run(&["ls", "-R", "--json"]);
        assert!(json.contains(r#""path":"b/c/y.txt","kind":"file","bytes":4"#), "{json}");
        assert_eq!(last(&run(&["du"])), [".", "b", "b/c"], "{mode}");
        assert!(run(&["du", "-s", "--json"]).contains(r#""path":".","bytes":2314"#), "{mode}");
        assert_eq!(run(&["find", "--name", "*.txt"]), "b/c/y.txt\nb/x.txt\n", "{mode}");
        assert_eq!(run(&["find", "--type", "d"]), "b\nb/c\n", "{mode}");
        assert_eq!(run(&["find", "--larger", "300", "--days", "1"]), "a\nb/x.txt\n", "{mode}");
        let drawn = run(&["tree"]);
        assert!(drawn.contains("├── b/\n│   ├── c/\n│   │   └── y.txt\n│   └── x.txt\n"), "{mode}: {drawn}");
    }
    let (code, _, err) = cli(&room.home(), &["tree", &format!("{}a", server.url("braid"))]);
    assert!(code == 5 && err.contains("it is no folder"), "{code} {err}");
}

#[test]
fn get_writes_one_file_to_standard_output_and_nothing_else() {
    let room = Room::new();
    let tree = room.folder("tree");
    small_tree(&tree);
    let server = Served::new(&tree);
    let here = room.folder("here");
    let get = |args: &[&str]| run(braidftp(&room.home()).current_dir(&here).arg("get").args(args));
    for mode in MODES {
        let url = |path: &str| format!("{}{path}", server.url(mode));
        let (code, out, err) = get(&[&url("a"), "-o", "-", "--mode", mode]);
        assert_eq!((code, out), (0, ".".repeat(2_000)), "{mode}: {err}");
        assert!(err.contains("1 file, 1.95 KiB"), "{mode}: {err}");
        for (urls, why) in [
            (&["a", "z"][..], "there are several"),
            (&["*"], "a glob may match several"),
            (&["b/"], "names a folder"),
            (&["b"], "it is a folder"),
            (&["nothing"], "nothing"),
        ] {
            let urls: Vec<String> = urls.iter().map(|path| url(path)).collect();
            let mut args: Vec<&str> = urls.iter().map(String::as_str).collect();
            args.extend(["-o", "-", "--mode", mode]);
            let (code, out, err) = get(&args);
            assert!(code != 0 && err.contains(why), "{mode} {urls:?}: {code} {err}");
            assert_eq!(out, "", "{mode} {urls:?}");
        }
    }
    let (code, _, err) = get(&[&format!("{}a", server.url("braid")), "-o", "-", "--json"]);
    assert!(code == 1 && err.contains("mixed with the file"), "{code} {err}");
    assert!(names(&here).is_empty(), "{:?}", names(&here));
    let (code, _, err) = cli(&room.home(), &["put", "-", &server.url("braid")]);
    assert!(code == 1 && err.contains("standard input cannot be sent"), "{code} {err}");
}

#[test]
fn a_mirror_transfers_the_selection_and_deletes_at_most_the_maximum() {
    let room = Room::new();
    let tree = room.folder("tree");
    small_tree(&tree);
    let patterns = room.path("patterns");
    fs::write(&patterns, "*.txt\n!x.txt\n").unwrap();
    let list = room.path("list");
    fs::write(&list, "b/c\nz\n").unwrap();
    let longer = room.path("longer");
    fs::write(&longer, "b/c\nb/nothing\nz\n").unwrap();
    let (server, store) = (Served::new(&tree), room.folder("store"));
    let up = Served::writable(&store);
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for mode in ["tcp", "braid"] {
        let (copy, sent) = (room.path(mode), store.join(mode));
        let down = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode];
        let url = format!("{}{mode}", up.url(mode));
        let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode];
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            let run = |more: &[&str]| cli(&room.home(), &[args, more].concat());
            let fresh = || {
                let _ = fs::remove_dir_all(there);
                fs::create_dir_all(there).unwrap();
            };
            let good = |more: &[&str]| {
                let (code, out, err) = run(more);
                assert_eq!(code, 0, "{mode} {more:?}: {err}");
                out
            };
            fresh();
            good(&["--exclude-from", patterns.to_str().unwrap()]);
            assert_eq!(names(&there.join("b")), ["c", "x.txt"], "{mode}");
            assert!(names(&there.join("b/c")).is_empty());
            fresh();
            good(&["--files-from", list.to_str().unwrap()]);
            assert_eq!(
                (names(there), names(&there.join("b/c"))),
                (vec!["b".into(), "z".into()], vec!["y.txt".into()])
            );
            assert_eq!(names(&there.join("b")), ["c"]);
            for options in [&["--dry-run"][..], &[]] {
                let (code, _, err) =
                    run(&[&["--files-from", longer.to_str().unwrap(), "-q"], options].concat());
                assert!(
                    code == 10 && err.contains("b/nothing: --files-from lists it"),
                    "{mode}: {code} {err}"
                );
            }

            good(&[]);
            let file = fs::File::options().append(true).open(there.join("a")).unwrap();
            file.set_modified(old).unwrap();
            assert_eq!(good(&["--dry-run", "--size-only"]), "", "{mode}");
            assert!(good(&["--dry-run"]).contains(" a\n"));
            fs::write(there.join("a"), "changed here").unwrap();
            assert_eq!(good(&["--dry-run", "--newer"]), "", "{mode}: it is newer");
            fs::File::options().append(true).open(there.join("a")).unwrap().set_modified(old).unwrap();
            good(&["--newer"]);
            assert_eq!(fs::read(there.join("a")).unwrap().len(), 2_000);

            for extra in ["e1", "e2", "e3"] {
                fs::write(there.join(extra), "x").unwrap();
            }
            let (code, _, err) = run(&["--delete", "--max-delete", "2"]);
            assert!(code != 0 && err.contains("would delete 3"), "{mode}: {code} {err}");
            assert!(there.join("e1").exists());
            good(&["--delete", "--max-delete", "3"]);
            assert!(!there.join("e1").exists());
        }
    }
    let (code, _, err) = cli(&room.home(), &["mirror", "ftp://127.0.0.1/", "x", "--files-from", "/nowhere"]);
    assert!(code == 6 && err.contains("/nowhere"), "{code} {err}");
}

#[test]
fn topics_completions_and_man_pages_are_printed() {
    let room = Room::new();
    let run = |args: &[&str]| cli(&room.home(), args);
    assert!(run(&["help"]).1.contains("multipath"));
    assert!(run(&["help", "cc"]).1.contains("cubic"));
    assert!(run(&["help", "users"]).1.contains("[[user]]"));
    let (code, _, err) = run(&["help", "nonsense"]);
    assert!(code == 1 && err.contains("one of cc"), "{code} {err}");
    for shell in ["bash", "zsh", "fish"] {
        let (code, out, _) = run(&["completions", shell]);
        assert!(code == 0 && out.contains("max-delete"), "{shell}");
    }
    let man = room.path("man");
    assert_eq!(run(&["man", man.to_str().unwrap()]).0, 0);
    let page = fs::read_to_string(man.join("braidftp-mirror.1")).unwrap();
    assert!(page.contains(".TH") && page.contains("max\\-delete"), "{page}");
    assert!(man.join("braidftp.1").exists());
}
