//! A new server and a user at a terminal: the question, its answers, and what is recorded.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Stdio;

use crate::protection_support::{ANY, Room, braidftp};

/// Both ends of a terminal: the user's and the program's.
fn terminal() -> (File, File) {
    let open = |path: &std::path::Path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    let person = open("/dev/ptmx".as_ref());
    let mut name = [0; 64];
    // SAFETY: the descriptor is open, and the buffer has the given length.
    let named = unsafe {
        libc::unlockpt(person.as_raw_fd()) == 0
            && libc::ptsname_r(person.as_raw_fd(), name.as_mut_ptr(), name.len()) == 0
    };
    assert!(named);
    let name = name.iter().take_while(|letter| **letter != 0).map(|letter| *letter as u8).collect();
    (person, open(&PathBuf::from(String::from_utf8(name).unwrap())))
}

/// Runs `ls` at a terminal, where a user answers the question, if there is one; returns the exit code and the
/// output of the terminal.
fn ls(room: &Room, url: &str, more: &[&str], answer: &str) -> (i32, String) {
    let (mut person, program) = terminal();
    let mut command = braidftp(&room.path("other"), &[&["ls", url], more].concat());
    let end = || Stdio::from(program.try_clone().unwrap());
    let mut child = command.stdin(end()).stderr(end()).stdout(Stdio::null()).spawn().unwrap();
    // Once the last descriptor of the program's side is closed, reading fails.
    drop((command, program));
    let (mut shown, mut piece, mut asked) = (String::new(), [0; 4096], false);
    while let Ok(count) = person.read(&mut piece) {
        shown += &String::from_utf8_lossy(&piece[..count]);
        if !asked && shown.contains("or the fingerprint: ") {
            asked = true;
            person.write_all(answer.as_bytes()).unwrap();
        }
    }
    (child.wait().unwrap().code().unwrap(), shown)
}

#[test]
fn the_user_is_asked_once_and_a_changed_key_is_refused_without_a_question() {
    let room = Room::new();
    let server = room.serve(ANY, &["--listen", "ftp://127.0.0.1:0", "--identity", &room.text("one")]);
    let known = room.path("other/.config/braidftp/known_hosts");
    let question = ["was never seen here", "Trust it from now on?"];
    for url in &server.urls {
        for refusal in ["no\n", "y\n", "\n", "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"] {
            let (code, shown) = ls(&room, url, &[], refusal);
            assert!(question.iter().all(|words| shown.contains(words)), "{shown}");
            assert!(shown.contains(&server.key) && code == 3, "{refusal:?}: {code}: {shown}");
            assert!(!known.exists(), "{refusal:?} is no yes");
        }
    }
    // The fingerprint itself, as copied from the server.
    let (code, shown) = ls(&room, &server.url, &[], &format!("{}\n", server.key));
    assert!(code == 0 && shown.contains(question[1]), "{code}: {shown}");
    assert!(std::fs::read_to_string(&known).unwrap().contains(&server.key));
    // Over the other transport it is the same server.
    for url in &server.urls {
        let (code, shown) = ls(&room, url, &[], "");
        assert!(code == 0 && !shown.contains(question[1]), "{code}: {shown}");
    }
    std::fs::remove_file(&known).unwrap();
    let (code, shown) = ls(&room, &server.url, &[], "yes\n");
    assert!(code == 0 && shown.contains(question[1]) && known.exists(), "{code}: {shown}");

    let (place, old) = (server.url.trim_end_matches('/').to_owned(), server.key.clone());
    drop(server);
    let changed = room.serve(&place, &["--identity", &room.text("two"), "--listen", "ftp://127.0.0.1:0"]);
    // At another port it may be another server: the user is asked, and the known key is named.
    let (code, shown) = ls(&room, &changed.urls[1], &[], "no\n");
    assert!(code == 3 && shown.contains(question[1]) && shown.contains(&old), "{code}: {shown}");
    for more in [&[][..], &["--accept-new"]] {
        let (code, shown) = ls(&room, &changed.url, more, "yes\n");
        assert!(code == 3 && !shown.contains(question[1]), "{code}: {shown}");
        for words in [&*old, &changed.key, "known_hosts line 1", "delete that line"] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
    }
}
