//! Virtual hosts: HOST (RFC 7151) over TCP and SCTP, server names in TLS (SNI), with our client, with manual
//! commands, and with curl.

use std::path::PathBuf;

use crate::server_support::program::{Running, braidftp};
use crate::server_support::{Control, Folder, eventually, run_well};
use braidftp::identity::{Files, ServerIdentity};
use rustix::process::Signal;

/// A server with its own folder and two hosts; the second one has a certificate and users.
struct Hosts {
    folder: Folder,
    settings: PathBuf,
    /// The key of the host `b.example`, and its certificate alone.
    key: PathBuf,
    certificate: PathBuf,
}

impl Hosts {
    fn new() -> Self {
        let folder = Folder::new();
        folder.put("f", "of the server");
        let outer = folder.outer.path();
        for name in ["a", "b"] {
            std::fs::create_dir(outer.join(name)).unwrap();
            std::fs::write(outer.join(name).join("f"), format!("of {name}")).unwrap();
        }
        let key = outer.join("b.pem");
        ServerIdentity::load_or_make(Files::one(&key), &["b.example".into()]).unwrap();
        let pem = std::fs::read_to_string(&key).unwrap();
        let certificate = outer.join("b-ca.pem");
        let from = pem.find("-----BEGIN CERTIFICATE").unwrap();
        let to = pem[from..].find("-----END CERTIFICATE-----").unwrap() + from + 25;
        std::fs::write(&certificate, format!("{}\n", &pem[from..to])).unwrap();
        std::fs::write(outer.join("b-users.toml"), "[[user]]\nname = 'anonymous'\nwritable = true\n")
            .unwrap();
        let settings = outer.join("braidftp.toml");
        let of = |name: &str| format!("{:?}", outer.join(name));
        let text = format!(
            "allow-plain = true\n\
             [[host]]\nnames = ['a.example', 'localhost']\ndir = {}\ngreeting = 'welcome to a'\n\
             [[host]]\nnames = 'b.example'\ndir = {}\nusers = {}\nanonymous = true\ntls-cert = {}\n",
            of("a"),
            of("b"),
            of("b-users.toml"),
            of("b.pem")
        );
        std::fs::write(&settings, text).unwrap();
        Self { folder, settings, key, certificate }
    }

    fn serve(&self) -> Running {
        let here = self.folder.path("");
        let mut arguments =
            vec!["serve", here.to_str().unwrap(), "--config", self.settings.to_str().unwrap()];
        arguments.extend(["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"]);
        Running::start(braidftp(&arguments), 2)
    }
}

#[test]
fn a_session_has_the_folder_the_users_and_the_welcome_of_its_host() {
    let hosts = Hosts::new();
    let server = hosts.serve();
    let fetch = |host: Option<&str>| {
        let mut session = Control::at(server.tcp(), None);
        if let Some(host) = host {
            session.command(&format!("HOST {host}"), "220");
        }
        let mut session = session.log_in();
        session.command("HOST a.example", "503");
        let may_write = session.store("STOR g", b"x").starts_with("226");
        (String::from_utf8(session.fetch("RETR f").0).unwrap(), may_write)
    };
    assert_eq!(fetch(None), ("of the server".into(), false));
    assert_eq!(fetch(Some("A.Example")), ("of a".into(), false));
    assert_eq!(fetch(Some("b.example")), ("of b".into(), true));
    assert_eq!(fetch(Some("127.0.0.1")), ("of the server".into(), false));
    assert!(hosts.folder.outer.path().join("b/g").exists());
    let mut session = Control::at(server.tcp(), None);
    assert!(session.command("HOST a.example", "220").contains("welcome to a"));
    assert!(session.command("HOST b.example", "220").contains("braidftp ready"));
    session.command("HOST c.example", "504");
    session.command("HOST 192.0.2.1", "504");
    session.command("HOST a.example:21", "501");
    session.command("NOOP", "200");
}

#[test]
fn our_client_asks_for_the_host_of_its_url_over_tcp_and_sctp() {
    let hosts = Hosts::new();
    let server = hosts.serve();
    let cat = |url: &str, more: &[&str]| {
        let output = braidftp(&[&["cat", url], more].concat()).output().unwrap();
        assert!(output.status.success(), "{url}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    for place in &server.places {
        let named = place.replace("127.0.0.1", "localhost");
        assert_eq!(cat(&format!("{named}/f"), &["--plain"]), "of a", "{named}");
        assert_eq!(cat(&format!("{place}/f"), &["--plain"]), "of the server", "{place}");
    }
    // Inside protection, over SCTP.
    let named = server.places[1].replace("127.0.0.1", "localhost");
    assert_eq!(cat(&format!("{named}/f"), &["--accept-new"]), "of a");
    // An unknown host is reported, and the default host is used.
    let text = std::fs::read_to_string(&hosts.settings).unwrap().replace(", 'localhost'", "");
    std::fs::write(&hosts.settings, text).unwrap();
    let server = hosts.serve();
    for place in &server.places {
        let (named, to) = (place.replace("127.0.0.1", "localhost"), hosts.folder.outer.path());
        let get = ["get", "--plain", &format!("{named}/f"), "-o", to.to_str().unwrap()];
        let output = braidftp(&get).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(std::fs::read_to_string(to.join("f")).unwrap(), "of the server", "{told}");
        std::fs::remove_file(to.join("f")).unwrap();
        assert!(told.contains("the server has no host with the name in the URL"), "{told}");
    }
}

#[test]
fn over_sctp_the_certificate_is_that_of_the_host_that_tls_names() {
    let hosts = Hosts::new();
    let text = std::fs::read_to_string(&hosts.settings).unwrap();
    let text = text.replace("'b.example'", "'localhost'").replace(", 'localhost']", "]");
    std::fs::write(&hosts.settings, text).unwrap();
    let server = hosts.serve();
    let pin = ServerIdentity::load(Files::one(&hosts.key)).unwrap().fingerprint().to_string();
    for (place, code, got) in [
        (server.places[1].replace("127.0.0.1", "localhost"), Some(0), "of b"),
        (server.places[1].clone(), Some(3), ""),
    ] {
        let output = braidftp(&["cat", "--pin", &pin, &format!("{place}/f")]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (code, got.as_bytes()), "{place}: {said}");
    }
}

#[test]
fn curl_comes_to_a_host_by_its_name_in_tls_and_trusts_its_certificate() {
    let hosts = Hosts::new();
    let server = hosts.serve();
    let port = server.tcp().port();
    let here = tempfile::tempdir().unwrap();
    let curl = |host: &str, more: &[&str]| {
        let (to, url) = (format!("{host}:{port}:127.0.0.1"), format!("ftp://{host}:{port}/f"));
        let all = [&["-sS", "--ssl-reqd", "--resolve", &to, &url], more].concat();
        run_well("curl", &all, here.path(), "")
    };
    let Some(got) = curl("b.example", &["--cacert", hosts.certificate.to_str().unwrap()]) else { return };
    assert_eq!(got, "of b");
    assert_eq!(curl("a.example", &["-k"]).unwrap(), "of a");
    assert_eq!(curl("c.example", &["-k"]).unwrap(), "of the server");
}

#[test]
fn mistakes_in_tables_of_hosts_are_reported_with_their_places_and_check_prints_the_hosts() {
    let hosts = Hosts::new();
    let here = hosts.folder.path("");
    let check = || {
        let arguments =
            ["serve", here.to_str().unwrap(), "--config", hosts.settings.to_str().unwrap(), "--check"];
        let output =
            braidftp(&[&arguments[..], &["--listen", "ftp://127.0.0.1:0"]].concat()).output().unwrap();
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (said, _) = check();
    let outer = hosts.folder.outer.path().display().to_string();
    let a = format!(
        "host a.example, localhost: folder {outer}/a; no file of users (anonymous, ftp); anonymous yes; the server's certificate; greeting \"welcome to a\"\n"
    );
    let b = format!(
        "host b.example: folder {outer}/b; users of {outer}/b-users.toml (anonymous, ftp); anonymous yes; certificate {outer}/b.pem\n"
    );
    assert!(said.contains(&a) && said.contains(&b), "{said}");
    for (text, wanted) in [
        ("[[host]]\nname = 'x'\n", ":2:1: there is no key `name`; did you mean `names`?"),
        ("[[host]]\nnames = ['x', 'a b']\ndir = '/'\n", ":2:15: names: a name such as ftp.example.org"),
        ("[[host]]\nnames = []\ndir = '/'\n", ":2:9: names is a list of at least one name"),
        ("[[host]]\nnames = 'x'\n", ":1:1: the host lacks `dir`"),
        ("[[host]]\ndir = '/'\n", ":1:1: the host lacks `names`"),
        ("host = 3\n", ":1:8: host is a name, or tables as in [[host]]"),
        (
            "[[host]]\nnames = 'x'\ndir = '/'\n[[host]]\nnames = ['y', 'X']\ndir = '/'\n",
            ":4:1: two hosts have the name x",
        ),
        ("[[host]]\nnames = 'x'\ndir = '/'\nanonymous = false\n", "host x: nobody could log in"),
        ("[[host]]\nnames = 'x'\ndir = '/'\ntls-key = 'k'\n", "host x: tls-key is set, and tls-cert is not"),
        ("plain = true\n[[host]]\nnames = 'x'\ndir = '/'\ntls-cert = 'c'\n", "a host has a certificate"),
        ("[[host]]\nnames = 'x'\ndir = '/nowhere'\n", "/nowhere"),
        ("[[host]]\nnames = 'x'\ndir = '/'\nusers = '/nowhere'\n", "host x: cannot read the users file"),
    ] {
        std::fs::write(&hosts.settings, text).unwrap();
        let (_, why) = check();
        assert!(why.contains(wanted), "{text}: {why}");
    }
}

#[test]
fn users_of_a_host_are_read_again_and_its_tables_stay() {
    let hosts = Hosts::new();
    let mut server = hosts.serve();
    let enters = || {
        let mut session = Control::at(server.tcp(), None);
        session.command("HOST b.example", "220");
        session.command("USER anonymous", "331");
        session.send("PASS x");
        session.reply().starts_with("230")
    };
    assert!(enters());
    let users = hosts.folder.outer.path().join("b-users.toml");
    std::fs::write(&users, "[[user]]\nname = 'anna'\nkeys = []\n").unwrap();
    let text = std::fs::read_to_string(&hosts.settings).unwrap();
    let anna = "[[user]]\nname = 'anna'\nkeys = ['SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA']\n";
    std::fs::write(&users, anna).unwrap();
    std::fs::write(&hosts.settings, text.replace("anonymous = true", "anonymous = false")).unwrap();
    server.signal(Signal::HUP);
    eventually("anonymous is not let in any more", || !enters());
    let told = server.told("has changed");
    assert!(told.contains("a table of a host has changed"), "{told}");
}
