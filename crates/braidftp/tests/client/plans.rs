//! `mirror --plan FILE` and `--apply FILE`: the steps of a dry run, executed later exactly.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::client_support::{Room, Served, assert_same, cli, names};

const TREES: [&str; 3] = ["tcp", "ms-cp", "braid"];

fn fill(tree: &Path) {
    fs::create_dir_all(tree.join("folder/deep")).unwrap();
    for name in ["a", "100% 'x'", "folder/b", "folder/deep/c"] {
        fs::write(tree.join(name), name).unwrap();
    }
    fs::write(tree.join(std::ffi::OsStr::from_bytes(b"latin-\xe9")), "x").unwrap();
    symlink("a", tree.join("link")).unwrap();
}

#[test]
fn a_plan_is_executed_exactly_and_can_be_repeated() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    fill(&tree);
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    for mode in TREES {
        let (copy, sent) = (room.folder(mode), store.join(mode));
        fs::create_dir(&sent).unwrap();
        let url = format!("{}{mode}", up.url(mode));
        let down = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode, "--delete"];
        let up = ["mirror", "-R", tree.to_str().unwrap(), &url, "--mode", mode, "--delete"];
        for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
            fs::create_dir(there.join("old")).unwrap();
            fs::write(there.join("old/file"), "old").unwrap();
            fs::write(there.join("kept"), "kept").unwrap();
            let plan = room.path("plan.toml");
            let to_plan = ["--plan", plan.to_str().unwrap(), "--exclude", "deep"];
            let (code, _, err) = cli(&room.home(), &[args, &to_plan].concat());
            assert_eq!(code, 0, "{mode}: {err}");
            assert_eq!(names(there), ["kept", "old"], "a plan touches nothing");
            // Steps that were taken out are not executed.
            let text = fs::read_to_string(&plan).unwrap();
            let line = text.lines().find(|line| line.contains("\"kept\"")).unwrap();
            fs::write(&plan, text.replace(line, &line.replace(" }", ", skip = true }"))).unwrap();
            let apply = ["mirror", "--apply", plan.to_str().unwrap(), "--mode", mode];
            for _ in 0..2 {
                let (code, _, err) = cli(&room.home(), &apply);
                assert_eq!(code, 0, "{mode}: {err}\n{text}");
                assert!(there.join("kept").exists() && !there.join("old").exists(), "{mode}");
                assert!(!there.join("folder/deep").exists(), "{mode}: what was excluded stays out");
            }
            fs::remove_file(there.join("kept")).unwrap();
            cli(&room.home(), args);
            assert_same(&tree, there);
        }
    }
}

#[test]
fn a_plan_is_refused_with_all_changes_if_a_tree_has_changed() {
    let room = Room::new();
    let tree = room.folder("tree");
    fill(&tree);
    let server = Served::new(&tree);
    for mode in TREES {
        let copy = room.folder(mode);
        fs::write(copy.join("a"), "another").unwrap();
        let plan = room.path("plan.toml");
        let args = ["mirror", &server.url(mode), copy.to_str().unwrap(), "--mode", mode];
        let to_plan = ["--plan", plan.to_str().unwrap()];
        assert_eq!(cli(&room.home(), &[&args[..], &to_plan].concat()).0, 0);
        fs::write(copy.join("a"), "a third").unwrap();
        fs::write(tree.join("folder/b"), "longer than before").unwrap();
        fs::write(tree.join("new"), "new").unwrap();
        fs::rename(tree.join("100% 'x'"), room.path("away")).unwrap();
        let apply = ["mirror", "--apply", plan.to_str().unwrap(), "--mode", mode];
        let (code, out, err) = cli(&room.home(), &apply);
        assert_eq!((code, out.as_str()), (7, ""), "{mode}: {err}");
        for change in [
            "a: the destination has file 7",
            "folder/b: its source has changed (line",
            "new: the plan does not know that it is to be received",
            "100% 'x': the source has it no more (line",
        ] {
            assert!(err.contains(change), "{mode}: {change} is not in {err}");
        }
        assert!(!err.contains("x0a"), "{mode}: {err}");
        assert_eq!(names(&copy), ["a"], "{mode}: nothing was touched");
        fs::rename(room.path("away"), tree.join("100% 'x'")).unwrap();
        fs::remove_file(tree.join("new")).unwrap();
        fs::write(tree.join("folder/b"), "folder/b").unwrap();
    }
}

#[test]
fn invalid_plans_and_options_with_a_plan_are_refused() {
    let room = Room::new();
    let plan = room.path("p.toml");
    let head = "version = 1\ndirection = \"down\"\nurl = \"ftp://127.0.0.1:1/\"\nfolder = \"/nowhere\"\n";
    fs::write(&plan, format!("{head}options = [\"--frob\"]\nsteps = []\n")).unwrap();
    let (code, _, err) = cli(&room.home(), &["mirror", "--apply", plan.to_str().unwrap()]);
    assert!(code == 1 && err.contains("--frob"), "{err}");
    fs::write(
        &plan,
        format!(
            "{head}options = []\nsteps = [\n  {{ do = \"recv\", path = \"a\", was = \"missing\" }},\n]\n"
        ),
    )
    .unwrap();
    let (code, _, err) = cli(&room.home(), &["mirror", "--apply", plan.to_str().unwrap()]);
    assert!(
        code == 1 && err.contains("p.toml:7:10: `recv` is not an action; did you mean `receive`?"),
        "{err}"
    );
    let (code, _, err) = cli(&room.home(), &["mirror", "--apply", plan.to_str().unwrap(), "--delete"]);
    assert!(code == 1 && err.contains("--delete"), "{err}");
}
