//! Invalid certificates, keys and users files, and a full disk, over TCP and over SCTP: each error states the
//! problem, the place, and what to do.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use crate::protection_support::{ANY, Authority, Room, braidftp};
use braidftp_net::keys::Settings;
use braidftp_net::sctp::Profile;
use braidftp_net::{Bind, Endpoint};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Both transports, and both beginnings of TLS over TCP.
const PLACES: [&str; 4] = ["--listen", "ftp://127.0.0.1:0", "--listen", "ftps://127.0.0.1:0"];

#[test]
fn an_invalid_certificate_or_one_for_another_name_is_refused_over_tcp_and_sctp() {
    let room = Room::new();
    let authority = Authority::new(&room);
    type Change = fn(&mut CertificateParams);
    let cases: [(Change, &str); 4] = [
        (|params| params.not_after = date_time_ymd(2024, 5, 1), "its certificate has expired on 2024-05-01"),
        (
            |params| params.not_before = date_time_ymd(2999, 1, 1),
            "its certificate is not valid before 2999-01-01",
        ),
        (
            |params| *params = CertificateParams::new(["a.example".to_owned()]).unwrap(),
            "its certificate is for a.example, not for localhost",
        ),
        (
            |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth],
            "its certificate is not for servers",
        ),
    ];
    let ca = ["--ca", &room.text("ca.pem"), "--path", "127.0.0.1"];
    for (change, says) in cases {
        let file = authority.sign(&room, "server.pem", change);
        let server = room.serve(ANY, &[&PLACES[..], &["--tls-cert", &file]].concat());
        for url in server.urls.iter().map(|url| url.replace("127.0.0.1", "localhost")) {
            let own = if url.contains("sctp") { &ca[..] } else { &ca[..2] };
            let hint = format!("--pin {}", server.key);
            room.is_refused("other", &url, own, &[says, "correct the server's certificate", &hint]);
            // Also without an authority: a client that accepts new servers accepts no invalid certificate.
            room.is_refused("other", &url, &[own, &["--accept-new"]].concat(), &[says]);
            room.goes("other", &url, &[&own[2..], &["--pin", &server.key]].concat());
        }
        assert!(!room.path("other/.config").exists(), "nothing was written down");
    }
}

/// A server whose certificate chain is longer than clients accept, over both transports.
struct Hostile {
    tcp: SocketAddr,
    sctp: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Hostile {
    fn with(count: usize) -> Self {
        let names: Vec<String> =
            (0..1200).map(|n| format!("a-name-that-is-long-enough-{n}.example")).collect();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(names).unwrap().self_signed(&key).unwrap();
        let config = |chain: Vec<CertificateDer<'static>>| {
            let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
            ServerConfig::builder_with_provider(braidftp::identity::provider())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .unwrap()
        };
        let config = Arc::new(config(vec![certificate.der().clone(); count]));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let tcp = listener.local_addr().unwrap();
        let for_tcp = config.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = rustls::ServerConnection::new(for_tcp.clone()).unwrap();
                let mut tls = rustls::StreamOwned::new(connection, stream.unwrap());
                // The client aborts the handshake.
                let _ = tls.read(&mut [0]);
            }
        });
        let sctp = runtime.block_on(async {
            let endpoint = Endpoint::bind(Bind::to([SocketAddr::from(([127, 0, 0, 1], 0))])).unwrap();
            let address = endpoint.local_addrs()[0];
            let settings = Arc::new(Settings::server(config));
            let listener =
                endpoint.listen_protected(21, Arc::new(Profile::Modern.config()), settings).unwrap();
            tokio::spawn(async move {
                let _endpoint = endpoint;
                while let Some(association) = listener.accept().await {
                    let _ = association.up().await;
                }
            });
            address
        });
        Self { tcp, sctp, _runtime: runtime }
    }
}

#[test]
fn certificate_chains_that_are_too_long_are_refused_over_tcp_and_sctp() {
    let room = Room::new();
    for (count, says) in [(1, "more than 32768"), (3, "more than 64 KiB")] {
        let hostile = Hostile::with(count);
        for url in [format!("ftps://{}/", hostile.tcp), format!("ftp+sctp://{}/", hostile.sctp)] {
            room.is_refused("other", &url, &["--accept-new"], &[says, "certificate"]);
        }
    }
    assert!(!room.path("other/.config").exists());
}

#[test]
fn a_server_with_invalid_tls_is_distinguished_from_one_without_tls() {
    let room = Room::new();
    let large = [&[22, 3, 3, 0, 4, 2, 1, 0, 0][..]].concat();
    let cases: [(&[u8], i32, &str); 5] = [
        (b"220 ready\r\n", 3, "its data is not TLS"),
        // Half a record, then the end.
        (&[22, 3, 3, 1, 0, 2, 0], 2, "the server closed the connection"),
        (b"", 2, "the server closed the connection"),
        // The head of a message of 65,536 bytes.
        (&large, 3, "more than 64 KiB"),
        // A record longer than permitted.
        (&[22, 3, 3, 255, 255, 2], 3, "its data is not TLS"),
    ];
    for (says, code, words) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("ftps://{}/", listener.local_addr().unwrap());
        let says = says.to_vec();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(&says);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let _ = stream.read_to_end(&mut Vec::new());
            }
        });
        let (got, said) = room.mirror("other", &url, &["--retries", "0"]);
        assert!(got == code && said.contains(words) && said.contains("try: "), "{words}: {got}: {said}");
    }
}

#[test]
fn replaced_certificates_are_presented_to_new_sessions_over_tcp_and_sctp() {
    let room = Room::new();
    let authority = Authority::new(&room);
    let file = authority.sign(&room, "server.pem", |_| {});
    let server = room.serve(ANY, &[&PLACES[..], &["--tls-cert", &file]].concat());
    let ca = ["--ca", &room.text("ca.pem"), "--path", "127.0.0.1"];
    let urls: Vec<(String, &[&str])> = server
        .urls
        .iter()
        .map(|url| {
            (url.replace("127.0.0.1", "localhost"), if url.contains("sctp") { &ca[..] } else { &ca[..2] })
        })
        .collect();
    urls.iter().for_each(|(url, own)| room.goes("other", url, own));
    let eventually = |what: &str, is_so: &dyn Fn() -> bool| {
        let tries = (0..600).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(100));
            is_so()
        });
        assert!(tries.is_some(), "{what}");
    };
    authority.sign(&room, "server.pem", |params| params.not_after = date_time_ymd(2024, 5, 1));
    eventually("the expired one is shown", &|| room.mirror("other", &urls[0].0, urls[0].1).0 == 3);
    for (url, own) in &urls {
        room.is_refused("other", url, own, &["has expired on 2024-05-01"]);
    }
    // Invalid files change nothing, and a valid one is used again.
    fs::write(room.path("server.pem"), "nothing good").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_200));
    for (url, own) in &urls {
        room.is_refused("other", url, own, &["has expired on 2024-05-01"]);
    }
    authority.sign(&room, "server.pem", |_| {});
    eventually("the good one is shown", &|| room.mirror("other", &urls[0].0, urls[0].1).0 == 0);
    urls.iter().for_each(|(url, own)| room.goes("other", url, own));
}

/// The error of `serve` with these arguments, which prevent the start.
fn serve_fails(room: &Room, more: &[&str]) -> String {
    let tree = room.text("tree");
    let args = [&["serve", &tree, "--listen", ANY], more].concat();
    let mut command = braidftp(&room.path("home"), &args);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap) {
        if line.starts_with("listening") {
            child.kill().unwrap();
        }
        said += &line;
        said.push('\n');
    }
    assert_eq!(child.wait().unwrap().code(), Some(1), "{more:?}: {said}");
    said
}

#[test]
fn an_invalid_key_file_prevents_the_start_with_a_hint() {
    let room = Room::new();
    let file = Authority::new(&room).sign(&room, "server.pem", |_| {});
    let good = fs::read_to_string(&file).unwrap();
    let bad = room.path("bad.pem");
    let key_only = &good[..good.find("-----BEGIN CERT").unwrap()];
    let cases: [(String, u32, &str, &str); 7] = [
        (good.clone(), 0o644, "(mode 644)", "chmod 600"),
        (good.clone(), 0o602, "(mode 602)", "chmod 600"),
        (good.replacen("-----\nM", "-----\n!", 1), 0o600, "it is damaged", "restore it"),
        (good[..60].to_owned(), 0o600, "-----END …----- is missing", "restore it"),
        (key_only.to_owned(), 0o600, "there is no certificate in it", "PEM"),
        (
            good.replacen("PRIVATE KEY", "ENCRYPTED PRIVATE KEY", 2),
            0o600,
            "with a passphrase",
            "openssl pkey",
        ),
        (String::new(), 0o600, "there is no private key in it", "PEM"),
    ];
    for (text, mode, says, hint) in cases {
        fs::write(&bad, text).unwrap();
        fs::set_permissions(&bad, fs::Permissions::from_mode(mode)).unwrap();
        for more in [&[][..], &["--check"]] {
            let said = serve_fails(&room, &[&["--tls-cert", bad.to_str().unwrap()], more].concat());
            assert!(said.contains("bad.pem") && said.contains(says) && said.contains(hint), "{says}: {said}");
        }
    }
    // The same for the server's generated key, and for a client's key.
    let server = room.serve(ANY, &[]);
    drop(server);
    for name in ["server.pem", "client.pem"] {
        let own = room.path("home/.local/share/braidftp").join(name);
        fs::write(&own, &good).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o604)).unwrap();
    }
    assert!(serve_fails(&room, &[]).contains("(mode 604)"));
    let (code, said) = room.mirror("home", "ftp+sctp://127.0.0.1:9/", &[]);
    assert!(code == 1 && said.contains("client.pem") && said.contains("chmod 600"), "{code}: {said}");
}

#[test]
fn an_invalid_users_file_prevents_the_start_and_weak_hashes_are_reported() {
    let room = Room::new();
    let users = room.text("users.toml");
    let strong = braidftp::users::Users::hash(b"x").unwrap();
    for (text, says) in [
        (
            "[[user]]\nname = 'anna'\nkeys = ['SHA256:unknown']\n".into(),
            "users.toml:3:8: one of its keys is not a fingerprint",
        ),
        (
            format!(
                "[[user]]\nname = 'anna'\nhash = '{strong}'\n[[user]]\nname = 'anna'\nhash = '{strong}'\n"
            ),
            "users.toml:4:1: user `anna`: it is there twice",
        ),
        ("[[user]]\nname = 'anna'\nhash = 'secret'\n".into(), "not one of argon2"),
        (
            "[[user]]\nname = 'anna'\nhsah = 'secret'\n".into(),
            "there is no key `hsah` here; did you mean `hash`?",
        ),
        ("[[user]]\nname = 'anna'\n".into(), "braidftp serve --hash-password"),
    ] {
        fs::write(&users, text).unwrap();
        for more in [&[][..], &["--check"]] {
            let said = serve_fails(&room, &[&["--users", &users], more].concat());
            assert!(said.contains("users.toml") && said.contains(says), "{says}: {said}");
            assert!(!said.contains("secret"), "what may be a password is not shown: {said}");
        }
    }
    let weak = {
        use argon2::PasswordHasher;
        let params = argon2::Params::new(8, 1, 1, None).unwrap();
        argon2::Argon2::from(params).hash_password(b"secret").unwrap().to_string()
    };
    fs::write(&users, format!("[[user]]\nname = 'anna'\nhash = '{weak}'\n")).unwrap();
    let said = serve_fails(&room, &["--users", &users, "--check"]);
    let words = ["user anna: the hash is weak (m=8, t=1)", "braidftp serve --hash-password"];
    assert!(words.iter().all(|words| said.contains(words)), "{said}");
}

/// Runs `work` in a thread with its own mount table, with a file system of this size mounted on the folder;
/// `None` if that is not permitted.
fn on_small_disk<T: Send>(bytes: usize, folder: &Path, work: impl FnOnce() -> T + Send) -> Option<T> {
    std::thread::scope(|scope| {
        let mounted = scope.spawn(move || {
            use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
            let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
            let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
            // SAFETY: this thread shares no file descriptors that this takes away; it has a mount table of its own from
            // here to its end, and nothing else changes.
            unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.ok()?;
            mount_change("/", private).ok()?;
            mount("tmpfs", folder, "tmpfs", MountFlags::empty(), Some(size.as_c_str())).ok()?;
            Some(work())
        });
        mounted.join().unwrap()
    })
}

#[test]
fn a_full_disk_for_known_hosts_ends_the_job_before_the_transfer() {
    let room = Room::new();
    let server = room.serve(ANY, &PLACES);
    let disk = room.path("disk");
    fs::create_dir(&disk).unwrap();
    let done = on_small_disk(64 << 10, &disk, || {
        let known = disk.join("known_hosts");
        let _ = fs::write(disk.join("filler"), vec![0; 1 << 20]);
        let accept = ["--accept-new", "--known-hosts", known.to_str().unwrap()];
        for url in &server.urls {
            let (code, said) = room.mirror("other", url, &accept);
            let words = ["known_hosts (it is unchanged)", "free some space", "--pin"];
            assert!(code == 6 && words.iter().all(|word| said.contains(word)), "{code}: {said}");
            assert_eq!(fs::read_dir(&disk).unwrap().count(), 1, "nothing is left over");
        }
        fs::remove_file(disk.join("filler")).unwrap();
        room.goes("other", &server.urls[0], &accept);
        assert!(fs::read_to_string(&known).unwrap().contains(&server.key));
    });
    if done.is_none() {
        eprintln!("SKIPPED: no right to mount a small file system");
    }
}
