//! `braidftp serve` in confinement: everything that it serves works, each of its threads is confined, and its
//! audit log is complete. If the kernel cannot confine, the tests are skipped. As root it serves as another
//! user.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::server_support::{Folder, assert_same_tree, eventually, pattern};
use braidftp::identity::{Files, ServerIdentity};
use braidftp::users::Users;
use rustix::process::{Pid, Signal, kill_process};

fn braidftp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidftp"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The server's key is stored there, and clients find the key of their user's own server there.
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/confined-keys"));
    command.env_remove("STATE_DIRECTORY");
    command
}

/// Runs a command that must succeed; returns its standard output.
fn well(arguments: &[&str]) -> String {
    let output = braidftp(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

struct Running {
    child: Child,
    places: Vec<String>,
    _stderr: BufReader<std::process::ChildStderr>,
}

impl Running {
    fn start(folder: &Folder, more: &[&str]) -> Self {
        let mut arguments = vec!["serve", "--confine", "required"];
        arguments.extend(["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"]);
        if is_root() {
            arguments.extend(["--user", "nobody"]);
        }
        arguments.extend(more);
        let root = folder.path("");
        arguments.push(root.to_str().unwrap());
        let mut child = braidftp(&arguments).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut places = Vec::new();
        while places.len() < 2 {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "it did not start");
            match line.strip_prefix("listening ") {
                Some(place) => places.push(place.trim_end().to_owned()),
                None => println!("{line}"),
            }
        }
        Self { child, places, _stderr: stderr }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Lets the serving user access the folder.
fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
}

/// Whether this kernel supports confinement.
fn can_confine(folder: &Folder) -> bool {
    let root = folder.path("");
    let listen = ["--listen", "ftp://127.0.0.1:0"];
    let output =
        braidftp(&["serve", "--check", "--confine", "required", listen[0], listen[1]]).arg(root).output();
    let output = output.unwrap();
    if !output.status.success() {
        eprintln!("SKIPPED: this kernel cannot confine: {}", String::from_utf8_lossy(&output.stderr));
    }
    output.status.success()
}

/// A folder that the serving user may write to, and the folder of its log.
fn prepared() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let logs = folder.outer.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    for place in [folder.outer.path(), &folder.path(""), &logs] {
        open_to_all(place);
    }
    folder.put("tree/a/file", pattern(300_000));
    folder.put("tree/b", "b");
    (folder, logs)
}

#[test]
fn a_confined_server_serves_all_modes_and_every_thread_of_it_is_confined() {
    let (folder, logs) = prepared();
    if !can_confine(&folder) {
        return;
    }
    let log = logs.join("audit");
    let server = Running::start(&folder, &["--writable", "--allow-plain", "--audit", log.to_str().unwrap()]);
    let outer = folder.outer.path().to_owned();
    for (place, modes) in [(0, &["tcp"][..]), (1, &["braid", "naive", "ms", "ms-cp"])] {
        for mode in modes {
            let url = &server.places[place];
            let (copy, sent) = (outer.join(format!("copy-{mode}")), format!("{url}/sent-{mode}"));
            well(&["mirror", "--mode", mode, &format!("{url}/tree"), copy.to_str().unwrap()]);
            assert_same_tree(&folder.path("tree"), &copy);
            well(&["mirror", "-R", "--mode", mode, copy.to_str().unwrap(), &sent]);
            assert_same_tree(&copy, &folder.path(format!("sent-{mode}")));
        }
    }
    let url = &server.places[1];
    well(&["mv", &format!("{url}/sent-tcp/b"), "/sent-tcp/a/c"]);
    well(&["mkdir", &format!("{url}/new")]);
    well(&["rm", "-r", &format!("{url}/new")]);
    for thread in std::fs::read_dir(format!("/proc/{}/task", server.child.id())).unwrap() {
        let status = std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line =
                status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{name}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!((field("NoNewPrivs:"), field("Seccomp:")), ("1".into(), "2".into()));
        if is_root() {
            assert_eq!(field("Uid:"), "65534 65534 65534 65534");
            let none = "0000000000000000";
            for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
                assert_eq!(field(set), none, "{set}");
            }
        }
    }
    let said = std::fs::read_to_string(&log).unwrap();
    for what in [
        "name=\"anonymous\" event=login result=ok",
        "user=\"anonymous\" event=upload path=\"/sent-naive/a/file\" bytes=300000 result=ok",
        "user=\"anonymous\" event=upload path=\"/sent-braid/b\" bytes=1 result=ok",
        "event=rename path=\"/sent-tcp/b\" to=\"/sent-tcp/a/c\" result=ok",
        "event=mkdir path=\"/new\" result=ok",
        "event=rmdir path=\"/new\" result=ok",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
}

#[test]
fn a_home_that_is_made_later_and_a_log_that_is_moved_away_stay_within_reach() {
    let (folder, logs) = prepared();
    if !can_confine(&folder) {
        return;
    }
    let users = folder.outer.path().join("users.toml");
    std::fs::write(&users, "[[user]]\nname = 'anonymous'\nhome = 'later'\nwritable = true\n").unwrap();
    let (log, old) = (logs.join("audit"), logs.join("audit.1"));
    let server =
        Running::start(&folder, &["--users", users.to_str().unwrap(), "--audit", log.to_str().unwrap()]);
    let file = folder.path("tree/b");
    let put =
        |name: &str| braidftp(&["put", file.to_str().unwrap(), &format!("{}/{name}", server.places[0])]);
    assert!(!put("early").output().unwrap().status.success(), "there is no home yet");
    std::fs::create_dir(folder.path("later")).unwrap();
    open_to_all(&folder.path("later"));
    assert!(put("first").output().unwrap().status.success());
    std::fs::rename(&log, &old).unwrap();
    server.signal(Signal::HUP);
    eventually("the log is begun anew", || log.exists());
    assert!(put("second").output().unwrap().status.success());
    let (old, new) = (std::fs::read_to_string(&old).unwrap(), std::fs::read_to_string(&log).unwrap());
    let refused = "event=login result=\"its home cannot be opened\"";
    assert!(old.contains(refused) && old.contains("path=\"/first\""), "{old}");
    assert!(new.contains("path=\"/second\"") && !new.contains("path=\"/first\""), "{new}");
}

#[test]
fn a_replaced_key_is_read_again() {
    let (folder, _) = prepared();
    if !can_confine(&folder) {
        return;
    }
    let keys = folder.outer.path().join("keys");
    let make = |name: &str| {
        let files = Files::one(keys.join(name));
        let identity = ServerIdentity::load_or_make(files.clone(), &[]).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&files.key, Some(65_534), Some(65_534)).unwrap();
        }
        (files.key, identity.fingerprint().to_string())
    };
    let ((file, first), (next, second)) = (make("server.pem"), make("next.pem"));
    open_to_all(&keys);
    let server = Running::start(&folder, &["--tls-cert", file.to_str().unwrap()]);
    let ls = |pin: &str| braidftp(&["ls", "--pin", pin, &format!("{}/", server.places[1])]).output().unwrap();
    assert!(ls(&first).status.success());
    assert!(!ls(&second).status.success(), "any key would do");
    std::fs::rename(&next, &file).unwrap();
    eventually("the new key is shown", || ls(&second).status.success());
    assert!(!ls(&first).status.success());
}

#[test]
fn users_are_read_again_on_sighup_and_a_bad_file_changes_nothing() {
    let (folder, logs) = prepared();
    if !can_confine(&folder) {
        return;
    }
    let (users, log) = (folder.outer.path().join("users.toml"), logs.join("audit"));
    let user = |name: &str, more: &str| {
        let hash = Users::hash(b"secret").unwrap();
        format!("[[user]]\nname = '{name}'\nhash = '{hash}'\nwritable = true\n{more}")
    };
    std::fs::write(&users, user("anna", "")).unwrap();
    let (file, audit) = (users.to_str().unwrap().to_owned(), log.to_str().unwrap().to_owned());
    let server = Running::start(&folder, &["--users", &file, "--audit", &audit]);
    let ls = |place: usize, name: &str| {
        let url = server.places[place].replace("://", &format!("://{name}:secret@"));
        braidftp(&["ls", &format!("{url}/")]).output().unwrap().status.success()
    };
    assert!(ls(0, "anna") && !ls(1, "bert"));
    // A new file replaces the old one, as editors and package managers do.
    let put = |text: &str| {
        let next = folder.outer.path().join("next");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(&next, &users).unwrap();
        server.signal(Signal::HUP);
    };
    put(&user("bert", ""));
    eventually("bert may log in", || ls(1, "bert"));
    assert!(ls(0, "bert") && !ls(0, "anna") && !ls(1, "anna"));
    put("[[user]]\nname = 'carl'\n");
    put(&user("bert", "hoem = 'x'\n"));
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(ls(0, "bert") && ls(1, "bert"), "a file that is no good was used");
    // Refusals before a password is requested are recorded, too.
    let plain = server.places[0].replace("://", "://bert:secret@");
    assert!(!braidftp(&["ls", "--plain", &format!("{plain}/")]).output().unwrap().status.success());
    let said = std::fs::read_to_string(&log).unwrap();
    for result in ["ok", "\"name or password is wrong\"", "\"the session is not protected\""] {
        let line = format!("name=\"bert\" event=login result={result}");
        assert!(said.contains(&line), "{line}: {said}");
    }
    // A key that is added while the server runs permits its owner to log in.
    let shown = braidftp(&["key", "show"]).output().unwrap();
    let key = if shown.status.success() { shown } else { braidftp(&["key", "new"]).output().unwrap() };
    let key = String::from_utf8(key.stdout).unwrap().trim().to_owned();
    put(&format!("[[user]]\nname = 'dora'\nkeys = ['{key}']\nwritable = true\n"));
    let by_key = |place: usize| {
        let url = server.places[place].replace("://", "://dora@");
        braidftp(&["ls", "--protect", &format!("{url}/")]).output().unwrap().status.success()
    };
    eventually("dora may log in by her key", || by_key(1));
    assert!(by_key(0));
}

#[test]
fn no_password_and_no_private_key_is_in_any_output() {
    let (folder, logs) = prepared();
    let (log, said) = (logs.join("audit"), logs.join("said"));
    let users = folder.outer.path().join("users.toml");
    let hash = Users::hash(b"right-secret").unwrap();
    std::fs::write(&users, format!("[[user]]\nname = 'anna'\nhash = '{hash}'\nwritable = true\n")).unwrap();
    let listen = ["--listen", "ftp+sctp://127.0.0.1:0", "-vv"];
    let root = folder.path("");
    let mut server = braidftp(&["serve", root.to_str().unwrap(), "--confine", "best-effort"]);
    server.args(listen).args(["--users", users.to_str().unwrap(), "--audit", log.to_str().unwrap()]);
    let mut server = server.stderr(std::fs::File::create(&said).unwrap()).spawn().unwrap();
    let told = || std::fs::read_to_string(&said).unwrap();
    let place = || told().lines().find_map(|line| line.strip_prefix("listening ")).map(str::to_owned);
    eventually("it listens", || place().is_some());
    let place = place().unwrap();
    let mut all = String::new();
    for (password, is_right) in [("right-secret", true), ("wrong-secret", false)] {
        let url = place.replace("ftp+sctp://", &format!("ftp+sctp://anna:{password}@"));
        for format in ["--json", "-vv"] {
            let output = braidftp(&["ls", format, &format!("{url}/")]).output().unwrap();
            assert_eq!(output.status.success(), is_right, "{}", String::from_utf8_lossy(&output.stderr));
            all += &String::from_utf8_lossy(&output.stdout);
            all += &String::from_utf8_lossy(&output.stderr);
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
    all += &told();
    all += &std::fs::read_to_string(&log).unwrap();
    assert!(all.contains("event=login result=ok") && all.contains("name or password is wrong"), "{all}");
    for secret in ["right-secret", "wrong-secret", "PRIVATE KEY"] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
}

#[test]
fn the_check_says_how_far_the_process_is_confined() {
    let (folder, logs) = prepared();
    if !can_confine(&folder) {
        return;
    }
    let (root, log) = (folder.path(""), logs.join("audit"));
    let listen = ["--listen", "ftp+sctp://127.0.0.1:0"];
    let check = |more: &[&str]| {
        braidftp(&["serve", "--check", listen[0], listen[1]]).args(more).arg(&root).output().unwrap()
    };
    let said = |more: &[&str]| String::from_utf8(check(more).stdout).unwrap();
    let all = said(&["--audit", log.to_str().unwrap()]);
    for what in [
        "confined: no core dumps",
        "confined: no new privileges",
        &format!("makes and appends to files of {}", logs.display()),
        &format!("reads {}", root.display()),
        "confined: TCP by Landlock: none",
        "confined: system calls by seccomp",
        &format!("audit log: {}", log.display()),
    ] {
        assert!(all.contains(what), "{what}: {all}");
    }
    assert!(!log.exists(), "a check writes nothing");
    assert!(said(&["--confine", "off"]).contains("not confined: anything else: confine is off"));
    let nowhere = check(&["--audit", "/nowhere/audit"]);
    let why = String::from_utf8(nowhere.stderr).unwrap();
    assert!(nowhere.status.code() == Some(1) && why.contains("cannot open the log"), "{why}");
    let nobody = check(&["--user", "no-such-user"]);
    let why = String::from_utf8(nobody.stderr).unwrap();
    assert!(nobody.status.code() == Some(1) && why.contains("useradd"), "{why}");
}
