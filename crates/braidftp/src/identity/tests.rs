//! Handshakes in memory between a server's and a client's identity, and every way in which one is refused.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConnection, HandshakeKind, NamedGroup, RootCertStore, ServerConnection};
use tempfile::TempDir;

use super::*;
use crate::exit::Exit;

const ALPN: &[&[u8]] = &[b"ftp"];

/// A folder with a server's files and a client's.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn server(&self) -> Arc<ServerIdentity> {
        ServerIdentity::load_or_make(Files::one(self.path("keys/server.pem")), &["localhost".into()]).unwrap()
    }

    fn known_hosts(&self) -> KnownHosts {
        KnownHosts::at(self.path("config/known_hosts"))
    }

    fn trust(&self) -> Trust {
        Trust { authorities: Authorities::these(RootCertStore::empty()), ..Trust::new(self.known_hosts()) }
    }
}

fn peer() -> Peer {
    Peer::new("localhost", 2121)
}

fn verifier(trust: Trust) -> Verifier {
    Arc::new(trust).verifier(peer(), ALPN).unwrap()
}

/// Runs a handshake in memory; returns the client's connection, or the error on its side.
fn shake_hands(server: rustls::ServerConfig, verifier: &Verifier) -> Result<ClientConnection, rustls::Error> {
    let mut client = ClientConnection::new(Arc::new(verifier.config()), verifier.name()).unwrap();
    let mut server = ServerConnection::new(Arc::new(server)).unwrap();
    // The last messages of a side are read too: they may contain the reason.
    for _ in 0..8 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            let _ = server.process_new_packets();
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut rest = &wire[..];
        while !rest.is_empty() {
            client.read_tls(&mut rest).unwrap();
            client.process_new_packets()?;
        }
    }
    assert!(!client.is_handshaking() && !server.is_handshaking());
    Ok(client)
}

fn try_with(server: &Arc<ServerIdentity>, trust: Trust) -> Result<PeerIdentity, crate::exit::Error> {
    let verifier = verifier(trust);
    match shake_hands(server.config(ALPN).unwrap(), &verifier) {
        Ok(connection) => verifier.settle(connection.peer_certificates()),
        Err(error) => Err(verifier.explain(&error)),
    }
}

/// The text of a refusal, which has the exit code of TLS and contains these texts.
fn says(result: Result<PeerIdentity, crate::exit::Error>, words: &[&str]) {
    let error = result.expect_err("refused");
    assert_eq!(error.exit, Exit::Trust, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` in: {error}");
    }
}

#[test]
fn a_server_generates_its_key_once_and_nobody_else_can_read_it() {
    let bench = Bench::new();
    let first = bench.server();
    let mode = |name: &str| fs::metadata(bench.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("keys"), mode("keys/server.pem")), (0o700, 0o600));
    assert_eq!(fs::read_dir(bench.path("keys")).unwrap().count(), 1, "nothing is left over");
    assert_eq!(bench.server().fingerprint(), first.fingerprint());
    assert_eq!(first.complaint(), None);
}

/// `openssl req -x509`: a self-signed certificate that is an authority, openssl's default.
const BY_OPENSSL: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBejCCASGgAwIBAgIUPTwd1HcZwb9uMtSe33FgI7q9wiEwCgYIKoZIzj0EAwIw\n\
EjEQMA4GA1UEAwwHZXhhbXBsZTAgFw0yNjExMjQwNDEyMzVaGA8yMTI2MTAzMTA0\n\
MTIzNVowEjEQMA4GA1UEAwwHZXhhbXBsZTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n\
A0IABD6LJiFDLUCPDP3J1KyDPx9gLQniIUVbBT6PAlwM40Tt14emHxe5fvb/K2NX\n\
OX5fqCPoprEkYObo073JNwzS1hqjUzBRMB0GA1UdDgQWBBQigHJg53ICsj0iBgoK\n\
aoZEZ9Wi+TAfBgNVHSMEGDAWgBQigHJg53ICsj0iBgoKaoZEZ9Wi+TAPBgNVHRMB\n\
Af8EBTADAQH/MAoGCCqGSM49BAMCA0cAMEQCIF4MMwVrWv+BhIVQXNojZ6KvJzqc\n\
o7vP/7E8nzWaoSukAiBQ7/+IysnE3P34cz3ApuilB0513LE1XVycN5wZXtAkGw==\n\
-----END CERTIFICATE-----\n";

#[test]
fn the_fingerprint_equals_that_of_openssl() {
    use rustls::pki_types::pem::PemObject;
    // openssl x509 -pubkey -noout | openssl pkey -pubin -outform der | openssl dgst -sha256 -binary | base64
    let certificate = CertificateDer::from_pem_slice(BY_OPENSSL.as_bytes()).unwrap();
    let told = "SHA256:R0teEPmHwF/xMKtqJkfsUypM+jXhERUTG4DfoRcY5EY";
    assert_eq!(Fingerprint::of(&certificate).unwrap().to_string(), told);
}

#[test]
fn a_new_server_is_refused_then_accepted_then_known() {
    let bench = Bench::new();
    let server = bench.server();
    let key = server.fingerprint().to_string();
    says(
        try_with(&server, bench.trust()),
        &["never seen here", &key, "--accept-new", &format!("--pin {key}")],
    );
    assert!(!bench.known_hosts().path().exists(), "a refusal writes nothing");

    let accept = || Trust { on_unknown: OnUnknown::Accept, ..bench.trust() };
    let vouched = |trust| try_with(&server, trust).map(|identity| identity.vouched);
    assert_eq!(vouched(accept()), Ok(Vouched::FirstUse));
    let text = fs::read_to_string(bench.known_hosts().path()).unwrap();
    assert_eq!(text, format!("localhost:2121 {key}\n"));
    assert_eq!(vouched(bench.trust()), Ok(Vouched::KnownHost));
    assert_eq!(vouched(accept()), Ok(Vouched::KnownHost));
    assert_eq!(fs::read_to_string(bench.known_hosts().path()).unwrap(), text, "it is written once");

    // The same key at another port of the same host is the same server; at another host it is not.
    let at = |host, port| {
        let verifier = Arc::new(bench.trust()).verifier(Peer::new(host, port), ALPN).unwrap();
        shake_hands(server.config(ALPN).unwrap(), &verifier).is_ok()
    };
    assert!(at("localhost", 9899));
    assert!(!at("localhost.localdomain", 2121));
}

#[test]
fn a_changed_key_is_refused_and_both_keys_named_even_with_accept_new() {
    let bench = Bench::new();
    let old = bench.server().fingerprint();
    bench.trust().remember(&Stranger { peer: peer(), key: old, note: String::new() }).unwrap();
    fs::remove_file(bench.path("keys/server.pem")).unwrap();
    let server = bench.server();
    let (old, new) = (old.to_string(), server.fingerprint().to_string());
    let trust = || Trust { on_unknown: OnUnknown::Accept, ..bench.trust() };
    says(try_with(&server, trust()), &[&old, &new, "known_hosts line 1", "delete that line"]);
    // A second line for the same server adds a second key, as during key rotation.
    bench
        .trust()
        .remember(&Stranger { peer: peer(), key: server.fingerprint(), note: String::new() })
        .unwrap();
    assert_eq!(try_with(&server, trust()).unwrap().vouched, Vouched::KnownHost);
}

#[test]
fn another_key_at_another_port_of_a_known_host_is_not_accepted_without_a_question() {
    let bench = Bench::new();
    let first = bench.server();
    let other = ServerIdentity::load_or_make(Files::one(bench.path("other.pem")), &[]).unwrap();
    let (old, new) = (first.fingerprint().to_string(), other.fingerprint().to_string());
    let trust = || Trust { on_unknown: OnUnknown::Accept, ..bench.trust() };
    try_with(&first, trust()).unwrap();
    let at_another_port = || {
        let verifier = Arc::new(trust()).verifier(Peer::new("localhost", 9899), ALPN).unwrap();
        let shaken = shake_hands(other.config(ALPN).unwrap(), &verifier);
        let connection = shaken.map_err(|error| verifier.explain(&error))?;
        verifier.settle(connection.peer_certificates())
    };
    let line = format!("localhost:9899 {new}");
    says(at_another_port(), &[&old, &new, "known_hosts line 1", "another port", &line]);
    // As the message suggests.
    let text = fs::read_to_string(bench.known_hosts().path()).unwrap();
    fs::write(bench.known_hosts().path(), text + &line + "\n").unwrap();
    assert_eq!(at_another_port().unwrap().vouched, Vouched::KnownHost);
    assert_eq!(try_with(&first, trust()).unwrap().vouched, Vouched::KnownHost);
}

#[test]
fn with_pins_other_sources_of_trust_are_ignored() {
    let bench = Bench::new();
    let server = bench.server();
    let other = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU".parse().unwrap();
    bench
        .trust()
        .remember(&Stranger { peer: peer(), key: server.fingerprint(), note: String::new() })
        .unwrap();
    let pinned = |pins| Trust { pins, ..bench.trust() };
    let (shown, wanted) = (server.fingerprint().to_string(), format!("--pin is {other}"));
    says(try_with(&server, pinned(vec![other])), &[&shown, &wanted]);
    assert_eq!(try_with(&server, pinned(vec![other, server.fingerprint()])).unwrap().vouched, Vouched::Pin);
}

#[test]
fn an_invalid_line_of_known_hosts_is_an_error() {
    let bench = Bench::new();
    let server = bench.server();
    fs::create_dir_all(bench.path("config")).unwrap();
    for bad in ["localhost:2121", "localhost:2121 SHA256:x", "\u{1}"] {
        fs::write(bench.known_hosts().path(), format!("# comment\n\n{bad}\n")).unwrap();
        let trust = Trust { on_unknown: OnUnknown::Accept, ..bench.trust() };
        says(try_with(&server, trust), &["line 3", "mend or delete the line"]);
    }
    fs::write(bench.known_hosts().path(), b"\xff\xfe").unwrap();
    says(try_with(&server, bench.trust()), &["not text"]);
    fs::write(bench.known_hosts().path(), vec![b'#'; 5 << 20]).unwrap();
    says(try_with(&server, bench.trust()), &["larger than"]);
}

#[test]
fn servers_are_appended_and_concurrent_additions_lose_none() {
    let bench = Bench::new();
    let key = bench.server().fingerprint();
    fs::create_dir_all(bench.path("config")).unwrap();
    fs::write(bench.known_hosts().path(), "# mine, without an end of line").unwrap();
    std::thread::scope(|scope| {
        for port in 1..=16 {
            let known = bench.known_hosts();
            scope.spawn(move || known.add(&Peer::new("h", port), key).unwrap());
        }
    });
    let text = fs::read_to_string(bench.known_hosts().path()).unwrap();
    assert!(text.starts_with("# mine, without an end of line\nh:"), "{text}");
    assert_eq!(text.lines().count(), 17, "{text}");
}

/// An authority that signs certificates of servers.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn trusted(&self) -> Authorities {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        Authorities::these(roots)
    }

    /// A server in `folder` whose certificate `change` modifies.
    fn server(&self, folder: &Path, change: impl FnOnce(&mut CertificateParams)) -> Arc<ServerIdentity> {
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let files = Files { certificate: folder.join("cert.pem"), key: folder.join("key.pem") };
        fs::write(&files.certificate, certificate.pem() + &self.0.pem()).unwrap();
        write_key(&files.key, key.serialize_pem().as_bytes(), 0o600);
        ServerIdentity::load(files).unwrap()
    }
}

fn write_key(path: &Path, text: &[u8], mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn certificates_of_an_authority_are_verified_and_each_problem_is_named() {
    let bench = Bench::new();
    let authority = Authority::new();
    let folder = bench.folder.path();
    // Even --accept-new does not accept a certificate that is expired or for another name.
    let with = |server: &Arc<ServerIdentity>| {
        let trust =
            Trust { authorities: authority.trusted(), on_unknown: OnUnknown::Accept, ..bench.trust() };
        try_with(server, trust)
    };
    let good = authority.server(folder, |_| {});
    assert_eq!(with(&good).unwrap().vouched, Vouched::Authority);
    assert_eq!(good.complaint(), None);
    assert!(!bench.known_hosts().path().exists(), "what an authority vouches for is not written down");

    let expired = authority.server(folder, |params| params.not_after = date_time_ymd(2024, 5, 1));
    says(with(&expired), &["its certificate has expired on 2024-05-01", "(it is 20"]);
    assert!(expired.complaint().unwrap().contains("has expired on 2024-05-01"));
    let early = authority.server(folder, |params| params.not_before = date_time_ymd(2999, 1, 1));
    says(with(&early), &["its certificate is not valid before 2999-01-01"]);
    let other = authority.server(folder, |params| {
        *params = CertificateParams::new(vec!["a.example".into(), "b.example".into()]).unwrap();
    });
    says(with(&other), &["its certificate is for a.example, b.example, not for localhost"]);
    let usage = authority.server(folder, |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    says(with(&usage), &["its certificate is not for servers", "--pin SHA256:"]);
    assert!(usage.complaint().unwrap().contains("not for servers"));

    // The user's own entry has precedence: the key is right, whatever the certificate says.
    let trust = Trust { pins: vec![expired.fingerprint()], ..bench.trust() };
    assert_eq!(try_with(&expired, trust).unwrap().vouched, Vouched::Pin);
    // This authority is unknown: the server is treated as a new one.
    says(try_with(&good, bench.trust()), &["never seen here"]);
}

#[test]
fn certificate_chains_that_are_too_long_are_refused_on_both_sides() {
    let bench = Bench::new();
    let authority = Authority::new();
    let names: Vec<String> = (0..1200).map(|n| format!("a-name-that-is-long-enough-{n}.example")).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &authority.0).unwrap();
    assert!(certificate.der().len() > CHAIN_BYTES_MAX);
    let files = Files { certificate: bench.path("c.pem"), key: bench.path("k.pem") };
    fs::write(&files.certificate, certificate.pem()).unwrap();
    write_key(&files.key, key.serialize_pem().as_bytes(), 0o600);
    let error = ServerIdentity::load(files).unwrap_err().to_string();
    assert!(error.contains("clients take 32768 at most"), "{error}");

    let hostile = |count: usize| {
        let key = rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone(); count], key)
            .unwrap()
    };
    for (count, words) in [(1, "more than 32768"), (3, "more than 64 KiB")] {
        let verifier = verifier(bench.trust());
        let error = shake_hands(hostile(count), &verifier).map(|_| ()).unwrap_err();
        says(Err(verifier.explain(&error)), &[words]);
    }
}

#[test]
fn each_problem_of_key_files_has_its_message() {
    let bench = Bench::new();
    let good = bench.server();
    let pem = fs::read_to_string(&good.files().key).unwrap();
    let other = ServerIdentity::load_or_make(Files::one(bench.path("other.pem")), &[]).unwrap();
    let file = bench.path("f.pem");
    let error = |text: &str, mode: u32| {
        write_key(&file, text.as_bytes(), mode);
        ServerIdentity::load(Files::one(&file)).map(|_| ()).unwrap_err().to_string()
    };
    let key_only = &pem[..pem.find("-----BEGIN CERT").unwrap()];
    let certificate_only = &pem[pem.find("-----BEGIN CERT").unwrap()..];
    let cases = [
        (String::new(), 0o600, "there is no private key in it"),
        (key_only.into(), 0o600, "there is no certificate in it"),
        (certificate_only.into(), 0o600, "there is no private key in it"),
        (pem.clone(), 0o644, "others than its owner may read or change it (mode 644)"),
        (pem.clone(), 0o620, "others than its owner may read or change it (mode 620)"),
        (pem.replacen("PRIVATE KEY", "ENCRYPTED PRIVATE KEY", 2), 0o600, "encrypted with a passphrase"),
        (pem.replacen("-----\nM", "-----\nA", 1), 0o600, "use the key"),
        (pem.replacen("-----\nM", "-----\n!", 1), 0o600, "it is damaged"),
        (
            pem.replacen("CERTIFICATE-----\nMII", "CERTIFICATE-----\nAAA", 1),
            0o600,
            "not an X.509 certificate",
        ),
        (" ".repeat(2 << 20), 0o600, "larger than"),
    ];
    for (text, mode, says) in cases {
        let error = error(&text, mode);
        assert!(error.contains(says) && error.contains("f.pem"), "{says}: {error}");
    }
    // Debian's group of programs that may read keys.
    write_key(&file, pem.as_bytes(), 0o640);
    ServerIdentity::load(Files::one(&file)).unwrap();
    let mixed = Files { certificate: other.files().certificate.clone(), key: good.files().key.clone() };
    let error = ServerIdentity::load(mixed).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("not the key of the certificate"), "{error}");
    let nowhere = Files { certificate: bench.path("x"), key: bench.path("y") };
    let error = ServerIdentity::load_or_make(nowhere, &[]).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("No such file"), "files that were named are not made: {error}");
    fs::write(bench.path("file"), "").unwrap();
    let beneath = Files::one(bench.path("file/server.pem"));
    let error = ServerIdentity::load_or_make(beneath, &[]).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("make the server's key") || error.contains("read the"), "{error}");
}

#[test]
fn a_default_certificate_of_openssl_is_treated_as_a_new_server() {
    use rustls::pki_types::pem::PemObject;
    let bench = Bench::new();
    let certificate = CertificateDer::from_pem_slice(BY_OPENSSL.as_bytes()).unwrap();
    let verifier = verifier(bench.trust());
    let now = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000));
    let refused = verifier.check.judge(&certificate, &[], &verifier.name(), now).unwrap_err();
    assert!(matches!(refused, Refusal::Unknown { .. }), "{refused:?}");
}

#[test]
fn the_post_quantum_exchange_is_preferred_and_resumed_sessions_need_no_verification() {
    assert_eq!(provider().kx_groups[0].name(), NamedGroup::X25519MLKEM768);
    let bench = Bench::new();
    let server = bench.server();
    let config = server.config(ALPN).unwrap();
    let verifier = verifier(Trust { pins: vec![server.fingerprint()], ..bench.trust() });
    let first = shake_hands(config.clone(), &verifier).unwrap();
    assert_eq!(first.negotiated_key_exchange_group().unwrap().name(), NamedGroup::X25519MLKEM768);
    assert_eq!(first.alpn_protocol(), Some(&b"ftp"[..]));
    let second = shake_hands(config, &verifier).unwrap();
    assert_eq!(second.handshake_kind(), Some(HandshakeKind::Resumed));
    assert_eq!(verifier.settle(second.peer_certificates()).unwrap().fingerprint, server.fingerprint());
}

#[test]
fn another_alpn_protocol_is_refused_and_none_is_accepted() {
    let bench = Bench::new();
    let server = bench.server();
    let offering = |alpn: &[&[u8]]| {
        let trust = Trust { pins: vec![server.fingerprint()], ..bench.trust() };
        let verifier = Arc::new(trust).verifier(peer(), alpn).unwrap();
        let result = shake_hands(server.config(ALPN).unwrap(), &verifier);
        result.map(|_| ()).map_err(|error| verifier.explain(&error).to_string())
    };
    assert_eq!(offering(&[]), Ok(()));
    assert_eq!(offering(&[b"x", b"ftp"]), Ok(()));
    assert!(offering(&[b"http/1.1"]).unwrap_err().contains("(ALPN)"));
}

#[test]
fn input_that_is_not_tls_is_reported() {
    let bench = Bench::new();
    let verifier = verifier(bench.trust());
    let mut client = ClientConnection::new(Arc::new(verifier.config()), verifier.name()).unwrap();
    client.read_tls(&mut &b"220 braidftp ready\r\n"[..]).unwrap();
    let error = client.process_new_packets().unwrap_err();
    says(Err(verifier.explain(&error)), &["its data is not TLS", "ftps://"]);
    let error = Arc::new(bench.trust()).verifier(Peer::new("a b", 1), ALPN).unwrap_err();
    assert!(error.to_string().contains("no such names"), "{error}");
}
