//! The program's default protection: what is protected, which servers are trusted, and errors for mismatched
//! sides.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use crate::protection_support::{ANY, Authority, Room, braidftp};

#[test]
fn the_users_own_local_server_is_trusted_and_plain_sessions_are_refused() {
    let room = Room::new();
    let server = room.serve(ANY, &[]);
    assert!(server.key.starts_with("SHA256:"), "{}", server.key);
    let mode = fs::metadata(room.path("home/.local/share/braidftp/server.pem")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    room.goes("home", &server.url, &[]);
    room.goes("home", &server.url.replace("127.0.0.1", "localhost"), &["--path", "127.0.0.1"]);
    assert!(!room.path("home/.config").exists(), "nothing had to be written down");
    let refused = "the server accepts only protected associations";
    room.is_refused("home", &server.url, &["--plain"], &[refused, "leave out --plain", "--allow-plain"]);
    for mode in ["naive", "ms", "ms-cp"] {
        room.is_refused("home", &server.url, &["--mode", mode], &[refused]);
    }
    room.goes("home", &server.url, &["--mode", "ms-cp", "--protect"]);
    let key = room.serve(ANY, &[]).key.clone();
    assert_eq!(key, server.key, "a key is made once");
    // Anybody who could have read the key file could impersonate the server.
    let file = room.path("home/.local/share/braidftp/server.pem");
    fs::set_permissions(file, fs::Permissions::from_mode(0o640)).unwrap();
    room.is_refused("home", &server.url, &[], &["was never seen here"]);
}

#[test]
fn a_script_refuses_a_new_server_unless_pinned_or_accepted() {
    let room = Room::new();
    let server = room.serve(ANY, &[]);
    let hints = [&*server.key, "was never seen here", "--accept-new", "--pin"];
    room.is_refused("other", &server.url, &[], &hints);
    room.goes("other", &server.url, &["--pin", &server.key]);
    room.is_refused("other", &server.url, &[], &hints);
    let wrong = "SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    room.is_refused("other", &server.url, &["--pin", wrong], &[&server.key, wrong]);
    room.goes("other", &server.url, &["--pin", wrong, "--pin", &server.key]);
    let elsewhere = room.text("elsewhere");
    room.goes("other", &server.url, &["--accept-new", "--known-hosts", &elsewhere]);
    room.is_refused("other", &server.url, &[], &hints);
    room.goes("other", &server.url, &["--accept-new"]);
    room.goes("other", &server.url, &[]);
    let known = fs::read_to_string(room.path("other/.config/braidftp/known_hosts")).unwrap();
    assert!(known.contains(&server.key), "{known}");
}

#[test]
fn files_of_keys_may_be_names_in_the_current_folder() {
    let room = Room::new();
    let server = room.serve(ANY, &[]);
    let here = |args: &[&str]| {
        let done = braidftp(&room.path("other"), args).current_dir(room.folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    here(&["ls", &server.url, "--accept-new", "--known-hosts", "hosts"]);
    assert!(fs::read_to_string(room.path("hosts")).unwrap().contains(&server.key));
    here(&["key", "new", "--server", "next.pem"]);
    assert!(room.path("next.pem").exists());
}

#[test]
fn a_server_with_a_new_key_is_refused_and_both_keys_named() {
    let room = Room::new();
    let first = room.serve(ANY, &["--identity", &room.text("one")]);
    room.goes("other", &first.url, &["--accept-new"]);
    let (url, old) = (first.url.clone(), first.key.clone());
    drop(first);
    let second = room.serve(url.trim_end_matches('/'), &["--identity", &room.text("two")]);
    for more in [&[][..], &["--accept-new"]] {
        room.is_refused("other", &url, more, &[&old, &second.key, "known_hosts line 1", "delete that line"]);
    }
}

#[test]
fn a_plain_server_is_refused_unless_the_client_uses_plain() {
    let room = Room::new();
    let server = room.serve(ANY, &["--plain"]);
    assert_eq!(server.key, "", "nobody asks it for one");
    for more in [&[][..], &["--accept-new"], &["--mode", "ms", "--protect"]] {
        room.is_refused("home", &server.url, more, &["the server offers no protection", "--plain"]);
    }
    room.goes("home", &server.url, &["--plain"]);
    room.goes("home", &server.url, &["--mode", "naive"]);
}

#[test]
fn a_server_that_allows_plain_serves_the_papers_modes_beside_protected_ones() {
    let room = Room::new();
    let config = room.text("serve.toml");
    fs::write(&config, "allow-plain = true\n").unwrap();
    let server = room.serve(ANY, &["--config", &config]);
    for mode in ["naive", "ms", "ms-cp", "braid"] {
        room.goes("home", &server.url, &["--mode", mode]);
    }
    room.goes("home", &server.url, &["--plain"]);
    // A client that requires protection gets it or fails.
    room.is_refused("other", &server.url, &[], &["was never seen here"]);
}

#[test]
fn a_certificate_of_a_trusted_authority_is_accepted() {
    let room = Room::new();
    let authority = Authority::new(&room);
    authority.sign(&room, "key.pem", |_| {});
    fs::copy(room.path("key.pem"), room.path("cert.pem")).unwrap();
    let given = ["--tls-cert", &room.text("cert.pem"), "--tls-key", &room.text("key.pem")];

    let refused = |more: &[&str]| {
        let tree = room.text("tree");
        let args = [&["serve", &tree, "--listen", ANY], &given[..], more].concat();
        let output = braidftp(&room.path("home"), &args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let chmod = |mode| fs::set_permissions(room.path("key.pem"), fs::Permissions::from_mode(mode)).unwrap();
    chmod(0o644);
    for more in [&[][..], &["--check"]] {
        let (code, said) = refused(more);
        assert!(code == 1 && said.contains("chmod 600") && said.contains("mode 644"), "{code}: {said}");
    }
    chmod(0o600);
    let server = room.serve(ANY, &given);
    assert!(!room.path("home/.local").exists(), "no key is made beside the one that was given");
    let url = server.url.replace("127.0.0.1", "localhost");
    let four = ["--path", "127.0.0.1"];
    let ca = ["--ca", &room.text("ca.pem")];
    room.goes("other", &url, &[&four[..], &ca].concat());
    room.is_refused("other", &url, &four, &["was never seen here"]);
    room.is_refused("other", &server.url, &ca, &["is for localhost, not for 127.0.0.1"]);
    assert!(!room.path("other/.config").exists());
}

#[test]
fn a_user_logs_in_by_key_and_passwords_are_sent_only_with_protection() {
    let room = Room::new();
    let key = |home: &str, what: &str| {
        let output = braidftp(&room.path(home), &["key", what]).output().unwrap();
        let (said, told) =
            (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
        (output.status.code().unwrap(), said.trim_end().to_owned() + &told)
    };
    let (code, said) = key("anna", "show");
    assert!(code == 6 && said.contains("braidftp key new makes one"), "{code}: {said}");
    let (code, fingerprint) = key("anna", "new");
    assert!(code == 0 && fingerprint.starts_with("SHA256:"), "{fingerprint}");
    assert_eq!(key("anna", "show"), (0, fingerprint.clone()));
    let (code, said) = key("anna", "new");
    assert!(code == 1 && said.contains("there is one already"), "{code}: {said}");

    let hash = {
        let params = argon2::Params::new(8, 1, 1, None).unwrap();
        use argon2::PasswordHasher;
        argon2::Argon2::from(params).hash_password(b"secret").unwrap().to_string()
    };
    let users = room.text("users.toml");
    let text = format!(
        "[[user]]\nname = 'anna'\nkeys = ['{fingerprint}']\n[[user]]\nname = 'bert'\nhash = '{hash}'\n[[user]]\nname = 'anonymous'\n"
    );
    fs::write(&users, text).unwrap();
    let server = room.serve(ANY, &["--users", &users, "--allow-plain"]);
    let pin = ["--pin", &server.key];
    let at = |user: &str| server.url.replace("://", &format!("://{user}@"));
    room.goes("anna", &at("anna"), &pin);
    room.goes("anna", &at("anna"), &[&pin[..], &["--mode", "ms"]].concat());
    let over_tcp = room.serve("ftp://127.0.0.1:0", &["--users", &users, "--listen", "ftps://127.0.0.1:0"]);
    for place in &over_tcp.urls {
        let pin = ["--pin", &over_tcp.key];
        let at = |user: &str| place.replace("://", &format!("://{user}@"));
        room.goes("anna", &at("anna"), &pin);
        room.goes("anna", &at("anna").replace("ftp://", "ftpes://"), &pin);
        assert_eq!(room.mirror("nobody", &at("anna"), &pin).0, 4, "without the key");
        room.goes("nobody", &at("bert:secret"), &pin);
    }
    let code = |home: &str, url: &str, more: &[&str]| room.mirror(home, url, more);
    // Another client has another key, or none.
    assert_eq!(code("bert", &at("anna"), &pin).0, 4);
    assert_eq!(key("bert", "new").0, 0);
    assert_eq!(code("bert", &at("anna"), &pin).0, 4);
    assert_eq!(code("bert", &at("anna:secret"), &pin).0, 4);
    room.goes("bert", &at("bert:secret"), &pin);
    assert_eq!(code("bert", &at("bert:wrong"), &pin).0, 4);
    room.goes("bert", &server.url, &["--plain"]);
    // Without protection neither side sends or accepts a password.
    let (refused, said) = code("bert", &at("bert:secret"), &["--plain"]);
    for words in ["passwords are refused without protection", "leave out --plain"] {
        assert!(refused == 4 && said.contains(words), "{refused}: {said}");
    }
    let (refused, said) = code("bert", &at("bert:secret"), &["--mode", "ms"]);
    assert!(refused == 1 && said.contains("the password would travel in the clear"), "{refused}: {said}");

    let file = room.path("anna/.local/share/braidftp/client.pem");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (refused, said) = code("anna", &at("anna"), &pin);
    assert!(refused == 1 && said.contains("chmod 600"), "{refused}: {said}");
    drop(server);

    // A server without protection does not start with users who have passwords.
    let tree = room.text("tree");
    let serve = ["serve", &tree, "--listen", ANY, "--plain", "--users", &users];
    let output = braidftp(&room.path("home"), &serve).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("--allow-plain-passwords"), "{said}");
    let server = room.serve(ANY, &["--plain", "--users", &users, "--allow-plain-passwords"]);
    room.goes("bert", &server.url.replace("://", "://bert:secret@"), &["--plain"]);
}

#[test]
fn users_have_rights_and_a_quota_over_tcp_and_sctp() {
    for listen in [ANY, "ftp://127.0.0.1:0"] {
        rights_and_quota(listen);
    }
}

fn rights_and_quota(listen: &str) {
    let room = Room::new();
    let users = room.text("users.toml");
    let text = "[[user]]\nname = 'anonymous'\nrights = ['read', 'list']\n[[user]]\nname = 'ftp'\nhome = 'box'\n\
                rights = ['write', 'list']\nquota = '10kB'\nrate = '1GB'\nsessions = 3\n";
    fs::write(&users, text).unwrap();
    fs::create_dir(room.path("tree/box")).unwrap();
    let server = room.serve(listen, &["--users", &users]);
    let run = |args: &[&str]| {
        let output = braidftp(&room.path("home"), args).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let at = |user: &str, path: &str| format!("{}{path}", server.url.replace("://", &format!("://{user}@")));
    let small = room.text("small");
    fs::write(&small, vec![1; 6_000]).unwrap();
    room.goes("home", &server.url, &[]);
    assert_eq!(run(&["put", &small, &at("anonymous", "x")]).0, 7);
    assert_eq!(run(&["put", "-q", &small, &at("ftp", "one")]), (0, String::new()));
    assert_eq!(fs::read(room.path("tree/box/one")).unwrap().len(), 6_000);
    assert_eq!(run(&["ls", "-q", &at("ftp", "")]), (0, String::new()));
    // It may not read, delete or rename.
    for args in [
        &["get", "-q", &at("ftp", "one"), "-o", &room.text("got")][..],
        &["rm", &at("ftp", "one")],
        &["mv", &at("ftp", "one"), "two"],
    ] {
        let (code, said) = run(args);
        assert!(matches!(code, 5 | 7) && said.contains("550"), "{args:?}: {code}: {said}");
    }
    assert!(!room.path("got/one").exists());
    assert!(room.path("tree/box/one").exists());
    // 10,000 bytes in total.
    let (code, said) = run(&["put", &small, &at("ftp", "three")]);
    assert!(code == 7 && said.contains("quota"), "{code}: {said}");
    assert!(!room.path("tree/box/three").exists());

    let tree = room.text("tree");
    let serve = ["serve", &tree, "--listen", ANY, "--users", &users, "--check"];
    let output = braidftp(&room.path("home"), &serve).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for words in
        ["user anonymous: read, list in .", "user ftp: list, write in box, quota 9.8 KiB", "sessions 3"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_users_sessions_and_rate_are_limited_over_tcp_and_sctp() {
    for listen in [ANY, "ftp://127.0.0.1:0"] {
        let room = Room::new();
        let users = room.text("users.toml");
        fs::write(&users, "[[user]]\nname = 'ftp'\nwritable = true\nrate = '200kB'\nsessions = 1\n").unwrap();
        let server = room.serve(listen, &["--users", &users]);
        let url = server.url.replace("://", "://ftp@");
        let (big, got) = (room.text("big"), room.text("got"));
        fs::write(&big, vec![1; 600_000]).unwrap();
        let ls = || {
            let output = braidftp(&room.path("home"), &["ls", "-q", &url]).output().unwrap();
            (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
        };
        let soon = |what: &str, is_so: &mut dyn FnMut() -> bool| {
            let mut tries = 0..1_200;
            let found = tries.any(|_| {
                is_so() || {
                    std::thread::sleep(Duration::from_millis(50));
                    false
                }
            });
            assert!(found, "{what}");
        };
        let has_files = |folder: &str| fs::read_dir(room.path(folder)).is_ok_and(|mut all| all.any(|_| true));
        fs::remove_file(room.path("tree/f")).unwrap();
        for (args, folder) in [
            (&["put", "-q", &big, &url][..], "tree"),
            (&["get", "-q", &format!("{url}big"), "-o", &got], "got"),
        ] {
            let start = || (Instant::now(), braidftp(&room.path("home"), args).spawn().unwrap());
            let (mut begin, mut running) = start();
            soon("it has begun", &mut || {
                // Refused, while the server still counts the session of the last `ls`.
                if running.try_wait().unwrap().is_some_and(|status| !status.success()) {
                    (begin, running) = start();
                }
                has_files(folder)
            });
            let (code, said) = ls();
            assert!(code == 4 && said.contains("too many sessions of this user"), "{code}: {said}");
            assert!(running.wait().unwrap().success(), "{args:?}");
            let least = Duration::from_millis(2_800);
            assert!(begin.elapsed() >= least, "{args:?}: 600 kB at 200 kB/s in {:?}", begin.elapsed());
            soon("its session is over", &mut || ls().0 == 0);
        }
    }
}

#[test]
fn the_servers_key_is_replaced_by_the_documented_steps() {
    let room = Room::new();
    let server = room.serve(ANY, &["--listen", "ftp://127.0.0.1:0"]);
    let key = |args: &[&str]| {
        let output = braidftp(&room.path("home"), &[&["key"], args].concat()).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap().trim_end().to_owned() + &told,
        )
    };
    assert_eq!(key(&["show", "--server"]), (0, server.key.clone()));
    let own = room.text("home/.local/share/braidftp/server.pem");
    let next = own.replace("server.pem", "next.pem");
    let (code, new) = key(&["new", "--server", &next]);
    assert!(code == 0 && new.starts_with("SHA256:") && new != server.key, "{code}: {new}");
    assert_eq!(fs::metadata(&next).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, said) = key(&["new", "--server", &own]);
    assert!(code == 1 && said.contains("there is one already"), "{code}: {said}");
    room.goes("other", &server.url, &["--accept-new"]);
    let both = ["--pin", &server.key, "--pin", &new];
    for url in &server.urls {
        room.goes("pinning", url, &both);
    }
    fs::rename(&next, &own).unwrap();
    let begin = Instant::now();
    while room.mirror("third", &server.url, &["--pin", &new]).0 != 0 {
        assert!(begin.elapsed() < Duration::from_secs(60), "the new key is not shown");
    }
    for url in &server.urls {
        room.goes("pinning", url, &both);
        room.is_refused("other", url, &["--accept-new"], &[&server.key, &new, "known_hosts line 1"]);
    }
}

#[test]
fn contradictory_options_are_reported() {
    let room = Room::new();
    for more in [&["--plain", "--accept-new"][..], &["--plain", "--protect"], &["--pin", "SHA256:short"]] {
        assert_eq!(room.mirror("home", "ftp+sctp://127.0.0.1:9/", more).0, 1, "{more:?}");
    }
    let (code, said) = room.mirror("home", "ftp+sctp://127.0.0.1:9/", &["--protect", "--mode", "naive"]);
    assert!(code == 1 && said.contains("use --mode braid, ms or ms-cp"), "{code}: {said}");
}

#[test]
fn over_tcp_an_unprotected_session_is_reported_or_refused() {
    let room = Room::new();
    let server = room.serve("ftp://127.0.0.1:0", &[]);
    let url = server.url.clone();
    let (code, said) = room.mirror("home", &url, &[]);
    assert_eq!((code, said.as_str()), (0, ""), "the key is this user's own");
    room.is_refused("other", &url, &[], &["was never seen here"]);
    room.goes("other", &url, &["--accept-new"]);
    let place = url.trim_end_matches('/').to_owned();
    drop(server);
    let _plain = room.serve(&place, &["--plain"]);
    // Known to protect its sessions: a plain answer may come from an attacker.
    room.is_refused("other", &url, &[], &["the server refused AUTH", "known_hosts", "--plain"]);
    room.goes("other", &url, &["--plain"]);
    let (code, said) = room.mirror("third", &url, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("the server offers no TLS"), "{said}");
    room.is_refused(
        "third",
        &url.replace("://", "://joe:secret@"),
        &[],
        &["the password would travel in the clear"],
    );
    for more in [&["--protect"][..], &["--accept-new"]] {
        room.is_refused("third", &url, more, &["the server refused AUTH"]);
    }
    room.is_refused("third", &url.replace("ftp://", "ftpes://"), &[], &["the server refused AUTH"]);
}
