//! `mirror --journal`: files finished before a `kill -9` are not checked again by the next run, and a full
//! disk only causes a warning.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::client_support::{Room, Served, assert_same, braidftp, cli, pattern, run};
use rustix::process::{Pid, Signal, kill_process};

const FILES: usize = 400;

fn many(tree: &Path) {
    for at in 0..FILES {
        let folder = tree.join(format!("{}", at / 50));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{at}")), pattern(900 + at)).unwrap();
    }
}

/// The journal's folder, if it exists.
fn journal(room: &Room) -> Option<PathBuf> {
    let all = fs::read_dir(room.home().join(".local/state/braidftp/journals")).ok()?;
    all.map(|entry| entry.unwrap().path()).next()
}

fn mirror(args: &[&str], room: &Room) -> Command {
    let mut command = braidftp(&room.home());
    command.env_remove("XDG_STATE_HOME").args(["mirror", "--journal"]).args(args);
    command
}

/// Runs a mirror until some of its files are finished and its listing is stored, and stops it; returns the
/// number of finished files and how it ended.
fn stopped(args: &[&str], room: &Room, stop: fn(&mut Child)) -> (usize, ExitStatus) {
    let mut command = mirror(args, room);
    let mut child =
        command.args(["-q", "--limit", "1mbit"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let finished = loop {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        let done = journal(room).map(|folder| (folder.join("listing").exists(), folder.join("done")));
        if let Some((true, done)) = done
            && let Ok(done) = fs::metadata(done)
            && done.len() >= 20 * 16
        {
            break done.len() / 16;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    stop(&mut child);
    (finished as usize, child.wait().unwrap())
}

fn count(err: &str, verb: &str) -> usize {
    err.lines().filter(|line| line.starts_with(&format!("> {verb} "))).count()
}

#[test]
fn a_resumed_job_lists_and_transfers_nothing_twice() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    many(&tree);
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    let (copy, sent) = (room.path("copy"), store.join("sent"));
    fs::create_dir(&sent).unwrap();
    let url = format!("{}sent", up.url("braid"));
    let down = [&server.url("braid"), copy.to_str().unwrap()];
    let up = ["-R", tree.to_str().unwrap(), &url];
    for (args, verb, there) in [(&down[..], "RETR", &copy), (&up[..], "STOR", &sent)] {
        let (finished, _) = stopped(args, &room, |child| child.kill().unwrap());
        let (code, _, err) = run(mirror(args, &room).arg("-vv"));
        assert_eq!(code, 0, "{err}");
        assert_eq!(count(&err, "XTREE"), 0, "it was listed before: {err}");
        let moved = count(&err, verb);
        assert!(moved > 0 && moved <= FILES - finished, "{verb}: {moved} of {FILES}, {finished} were done");
        assert_same(&tree, there);
        assert!(journal(&room).is_none(), "it goes with the end of the job");
        let (code, _, err) = run(mirror(args, &room).arg("-vv"));
        assert_eq!((code, count(&err, verb)), (0, 0), "{err}");
        assert_eq!(
            count(&err, "XTREE") + usize::from(err.contains("> XTREE\n")),
            1,
            "the next one sees what is new: {err}"
        );
    }
}

#[test]
fn files_are_transferred_again_if_the_destination_of_a_killed_job_was_removed_or_emptied() {
    let room = Room::new();
    let (tree, store) = (room.folder("tree"), room.folder("store"));
    many(&tree);
    let (server, up) = (Served::new(&tree), Served::writable(&store));
    let (copy, sent) = (room.path("copy"), store.join("sent"));
    let url = format!("{}sent", up.url("braid"));
    let down = [&server.url("braid"), copy.to_str().unwrap()];
    let up = ["-R", tree.to_str().unwrap(), &url];
    for (args, there) in [(&down[..], &copy), (&up[..], &sent)] {
        for is_emptied in [false, true] {
            fs::create_dir(there).unwrap();
            stopped(args, &room, |child| child.kill().unwrap());
            // The server may still write the last files.
            while fs::remove_dir_all(there).is_err() {}
            if is_emptied {
                fs::create_dir(there).unwrap();
            }
            let (code, _, err) = run(mirror(args, &room).arg("-q"));
            assert_eq!(code, 0, "{err}");
            assert_same(&tree, there);
            fs::remove_dir_all(there).unwrap();
        }
    }
}

#[test]
fn a_terminated_job_makes_no_new_connection() {
    let room = Room::new();
    let tree = room.folder("tree");
    many(&tree);
    let server = Served::new(&tree);
    let copy = room.path("copy");
    let args = [&server.url("braid"), copy.to_str().unwrap()];
    let (_, status) =
        stopped(&args, &room, |child| kill_process(Pid::from_child(child), Signal::TERM).unwrap());
    assert_eq!(status.code(), Some(11));
}

#[test]
fn a_full_disk_loses_the_journal_and_no_file() {
    let room = Room::new();
    let tree = room.folder("tree");
    many(&tree);
    let (server, copy) = (Served::new(&tree), room.path("copy"));
    // Files of this process are limited to 2 KiB: enough for the transferred files, but not for the journal.
    let mut command = Command::new("bash");
    for (name, value) in braidftp(&room.home()).get_envs() {
        value.map(|value| command.env(name, value));
    }
    command.env_remove("XDG_STATE_HOME");
    command.args(["-c", "trap '' XFSZ; ulimit -f 2; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_braidftp")]);
    let args = ["mirror", "--journal", "-q", "--plain", &server.url("braid"), copy.to_str().unwrap()];
    let (code, _, err) = run(command.args(args));
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("the journal") && err.contains("cannot be written"), "{err}");
    assert_same(&tree, &copy);
    // If the journal cannot even be created.
    let state = room.home().join(".local/state/braidftp/journals");
    fs::remove_dir_all(&state).ok();
    fs::write(&state, "no folder").unwrap();
    let (code, _, err) =
        cli(&room.home(), &["mirror", "--journal", &server.url("braid"), copy.to_str().unwrap()]);
    assert!(code == 0 && err.contains("continues without it"), "{code} {err}");
}
