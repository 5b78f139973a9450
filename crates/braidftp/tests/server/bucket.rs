//! `braidftp serve s3://…` before a real S3 server, moto. `cargo xtask test` installs it and names its Python by
//! `BRAIDFTP_MOTO`; without it the tests are skipped, or fail where all peers are required. One test is before WsgiDAV.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use braidftp::store::bucket::Bucket;
use rustix::process::Signal;

use crate::server_support::program::{Running, braidftp};
use crate::server_support::{Control, Folder, assert_same_tree, eventually, pattern};

/// The S3 server, or another store; it is killed when this value is dropped.
struct Moto {
    child: Child,
    address: SocketAddr,
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    /// Starts it with one bucket, `box`.
    fn start() -> Option<Self> {
        let Some(program) = std::env::var_os("BRAIDFTP_MOTO") else {
            assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "moto is not named");
            println!("skipped: BRAIDFTP_MOTO does not name a Python with moto (`cargo xtask test store-s3`)");
            return None;
        };
        let mut command = Command::new(program);
        command.args([concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/s3_server.py"), "0"]);
        let moto = Self::running(command);
        assert!(moto.ask("PUT /box").starts_with("HTTP/1.1 200"), "{}", moto.ask("GET /"));
        Some(moto)
    }

    /// The server that a command starts, which prints its port once it listens.
    fn running(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port = port.trim().parse().expect("the server listens");
        Self { child, address: (Ipv4Addr::LOCALHOST, port).into() }
    }

    /// The answer to a request without a body.
    fn ask(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let key = "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0";
        write!(
            stream,
            "{request} HTTP/1.1\r\nHost: {}\r\nAuthorization: {key}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.address
        )
        .unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Whether there are parts of an upload that is not complete.
    fn has_parts(&self) -> bool {
        self.ask("GET /box?uploads").contains("<UploadId>")
    }

    /// The address of the tree that the servers serve.
    fn place(&self) -> String {
        format!("s3://box/home?endpoint=http://{}&region=us-east-1", self.address)
    }
}

/// A session of one that sends a file by STOR, up to its 150.
fn storing(server: &Running, name: &str) -> (Control, TcpStream) {
    let mut control = Control::at(server.tcp(), None).log_in();
    control.command("TYPE I", "200");
    let data = control.begin(&format!("STOR {name}"));
    (control, data)
}

fn store(server: &Running, name: &str, bytes: &[u8]) -> String {
    let mut control = Control::at(server.tcp(), None).log_in();
    control.command("TYPE I", "200");
    control.store(&format!("STOR {name}"), bytes)
}

/// The contents of a file.
fn contents(server: &Running, name: &str) -> Vec<u8> {
    Control::at(server.tcp(), None).log_in().fetch(&format!("RETR {name}")).0
}

/// A server before the bucket, reached at `endpoint`.
fn serve(endpoint: SocketAddr, more: &[&str]) -> Running {
    let place = format!("s3://box/home?endpoint=http://{endpoint}&region=us-east-1");
    // A server that ends by itself would end within a test.
    let mut arguments = vec!["serve", &place, "--writable", "--drain-seconds", "1"];
    arguments.extend(["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"]);
    arguments.extend(more);
    let mut command = braidftp(&arguments);
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    Running::start(command, 2)
}

fn run(arguments: &[&str]) -> Output {
    braidftp(arguments).output().unwrap()
}

/// Runs a command that must succeed; returns its standard output.
fn well(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A tree with small, empty and large files, and a name that needs care.
fn tree() -> Folder {
    let folder = Folder::new();
    folder.put("a/one", pattern(1_000));
    folder.put("a/b/two words", pattern(300_000));
    folder.put("empty", b"");
    folder.put("ü+%/x&y=z", b"name");
    folder.put("large", pattern(12_000_000));
    folder
}

#[test]
fn a_bucket_is_served_like_a_folder() {
    let Some(moto) = Moto::start() else { return };
    let server = serve(moto.address, &[]);
    let (source, copy) = (tree(), Folder::new());
    let url = |path: &str| format!("{}/{path}", server.places[1]);
    let from = source.path("").display().to_string();
    well(&["mirror", "-R", &from, &url("t")]);
    let again = run(&["mirror", "-R", &from, &url("t")]);
    let again = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.contains("0 files"), "times are kept: {again}");
    let to = copy.path("t").display().to_string();
    well(&["mirror", &url("t"), &to]);
    assert_same_tree(&source.path(""), Path::new(&to));
    let again = String::from_utf8_lossy(&run(&["mirror", &url("t"), &to]).stderr).into_owned();
    assert!(again.contains("0 files"), "{again}");
    well(&["verify", &url("t"), &to]);

    // Over TCP times are set by MFMT, after the file.
    let by_tcp = format!("{}/u", server.places[0]);
    well(&["mirror", "-R", &from, &by_tcp]);
    let again = String::from_utf8_lossy(&run(&["mirror", "-R", &from, &by_tcp]).stderr).into_owned();
    assert!(again.contains("0 files"), "{again}");
    well(&["verify", &url("u"), &to]);

    let of_tcp = format!("{}/t/", server.places[0]);
    assert!(well(&["ls", &of_tcp]).contains("large"));
    assert_eq!(run(&["cat", &url("t/a/one")]).stdout, pattern(1_000));
    well(&["mv", &url("t/a"), &url("t/c")]);
    assert_eq!(run(&["cat", &url("t/c/b/two%20words")]).stdout, pattern(300_000));
    assert_eq!(run(&["cat", &url("t/a/one")]).status.code(), Some(5));
    assert_eq!(run(&["rm", &url("t/c")]).status.code(), Some(7), "a folder");
    well(&["rm", "-r", &url("t/c")]);
    well(&["mkdir", &url("t/new")]);
    assert!(!run(&["mkdir", &url("t/new")]).status.success());
    let listed = well(&["ls", &url("t/")]);
    assert!(listed.contains("new") && !listed.contains(" c\n"), "{listed}");
}

#[test]
fn two_servers_share_a_bucket_and_one_is_killed_in_the_middle_of_an_upload() {
    let Some(moto) = Moto::start() else { return };
    let (mut first, second) = (serve(moto.address, &[]), serve(moto.address, &[]));
    let source = Folder::new();
    source.put("large", pattern(40_000_000));
    let from = source.path("").display().to_string();
    let (one, two) = (format!("{}/t", first.places[1]), format!("{}/t", second.places[1]));
    let client = ["mirror", "-R", &from, &one, "--limit", "4MB", "--retries", "0"];
    let mut client = braidftp(&client).spawn().unwrap();
    eventually("a part has arrived", || moto.has_parts());
    first.signal(Signal::KILL);
    first.ended();
    let _ = client.kill();
    client.wait().unwrap();
    let listed = well(&["ls", "-R", &format!("{}/", second.places[1])]);
    assert!(!listed.contains("large"), "nothing half written: {listed}");
    well(&["mirror", "-R", &from, &two]);
    let copy = Folder::new();
    let to = copy.path("t").display().to_string();
    well(&["mirror", &two, &to]);
    assert_same_tree(&source.path(""), Path::new(&to));
}

#[test]
fn of_two_uploads_to_one_name_through_two_servers_the_first_completion_remains() {
    let Some(moto) = Moto::start() else { return };
    let (first, second) = (serve(moto.address, &[]), serve(moto.address, &[]));
    let (small, large) = (pattern(1_000), pattern(12_000_000));
    // One request or several parts, of a new name or of one that exists.
    for (number, (bytes, before)) in
        [(&small, None), (&large, None), (&small, Some(b"old")), (&large, Some(b"old"))]
            .into_iter()
            .enumerate()
    {
        let name = format!("file{number}");
        if let Some(before) = before {
            assert!(store(&second, &name, before).starts_with("226"));
        }
        let (mut control, mut data) = storing(&first, &name);
        data.write_all(&bytes[..bytes.len() - 1]).unwrap();
        if bytes.len() == large.len() {
            eventually("a part has arrived", || moto.has_parts());
        }
        assert!(store(&second, &name, b"the other").starts_with("226"), "{name}");
        data.write_all(&bytes[bytes.len() - 1..]).unwrap();
        drop(data);
        let reply = control.reply();
        assert!(reply.starts_with("450") && reply.contains("completed first"), "{name}: {reply}");
        assert_eq!(contents(&first, &name), b"the other", "{name}");
        assert!(!moto.has_parts(), "{name}: what was refused leaves no parts");
        // A later one replaces it.
        assert!(store(&first, &name, bytes).starts_with("226"), "{name}");
        assert!(contents(&second, &name) == *bytes, "{name}");
    }
}

#[test]
fn an_upload_whose_client_or_server_goes_away_leaves_no_parts() {
    let Some(moto) = Moto::start() else { return };
    let mut server = serve(moto.address, &[]);
    let begin = |server: &Running| {
        let (control, mut data) = storing(server, "large");
        data.write_all(&pattern(12_000_000)).unwrap();
        eventually("a part has arrived", || moto.has_parts());
        (control, data)
    };
    let (control, data) = begin(&server);
    // The control connection first: the end of the data connection would be the end of the file.
    drop(control);
    eventually("the parts of a client that went away are removed", || !moto.has_parts());
    drop(data);
    let (mut control, data) = begin(&server);
    control.send("ABOR");
    eventually("the parts of a transfer that was aborted are removed", || !moto.has_parts());
    drop((control, data));
    let _connections = begin(&server);
    server.signal(Signal::TERM);
    server.ended();
    assert!(!moto.has_parts(), "a server that ends removes the parts of what it interrupts");
}

#[test]
fn an_upload_that_is_cancelled_while_the_store_begins_it_leaves_no_parts() {
    let Some(moto) = Moto::start() else { return };
    // Every answer arrives late.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, upstream) = (listener.local_addr().unwrap(), moto.address);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(upstream).unwrap();
            let (mut up, mut from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut up));
            std::thread::spawn(move || late(server, client));
        }
    });
    let server = serve(address, &[]);
    let (control, mut data) = storing(&server, "large");
    // The connection may end before all is read.
    std::thread::spawn(move || data.write_all(&pattern(12_000_000)));
    eventually("the upload has begun", || moto.has_parts());
    drop(control);
    eventually("it is removed", || !moto.has_parts());
}

/// Copies answers, each after a while.
fn late(mut from: TcpStream, mut to: TcpStream) {
    let mut answer = [0; 10_000];
    while let Ok(length @ 1..) = from.read(&mut answer) {
        std::thread::sleep(Duration::from_millis(1_500));
        if to.write_all(&answer[..length]).is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_a_server_that_was_killed_are_removed_by_their_age() {
    let Some(moto) = Moto::start() else { return };
    let mut server = serve(moto.address, &[]);
    // With a name that needs care.
    let (_control, mut data) = storing(&server, "large \u{fc}+%&=x");
    data.write_all(&pattern(12_000_000)).unwrap();
    eventually("a part has arrived", || moto.has_parts());
    server.signal(Signal::KILL);
    server.ended();
    let bucket = |address: &str| {
        Bucket::open(&format!("{address}&access_key_id=key&secret_access_key=secret")).unwrap()
    };
    let here = bucket(&moto.place());
    let elsewhere = bucket(&moto.place().replace("/home", "/ho"));
    // The time at which every upload begins in moto.
    let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1_289_422_113);
    assert_eq!(here.remove_parts(began, 10).await.unwrap(), []);
    assert_eq!(elsewhere.remove_parts(began + Duration::from_secs(1), 10).await.unwrap(), []);
    assert!(moto.has_parts());
    let removed = here.remove_parts(began + Duration::from_secs(1), 10).await.unwrap();
    assert_eq!(
        removed.iter().map(|part| part.path.as_path()).collect::<Vec<_>>(),
        [Path::new("large \u{fc}+%&=x")]
    );
    assert!(!moto.has_parts());
    // A server does that when it starts.
    let mut server = serve(moto.address, &[]);
    let (_control, mut data) = storing(&server, "large");
    data.write_all(&pattern(12_000_000)).unwrap();
    eventually("a part has arrived", || moto.has_parts());
    server.signal(Signal::KILL);
    server.ended();
    assert!(moto.has_parts());
    let _next = serve(moto.address, &[]);
    eventually("the next server removes the parts", || !moto.has_parts());
}

#[test]
fn two_servers_to_which_all_upload_at_once_keep_within_a_quota() {
    const FILES: usize = 24;
    const FILE_BYTES: usize = 500_000;
    const QUOTA_BYTES: usize = 4_000_000;
    let Some(moto) = Moto::start() else { return };
    let folder = Folder::new();
    let users = format!("[[user]]\nname = 'anonymous'\nquota = '{QUOTA_BYTES}B'\nwritable = true\n");
    folder.put("users.toml", users);
    let users = folder.path("users.toml").display().to_string();
    let servers = [serve(moto.address, &["--users", &users]), serve(moto.address, &["--users", &users])];
    let bytes = pattern(FILE_BYTES);
    let replies: Vec<String> = std::thread::scope(|scope| {
        let uploads: Vec<_> = (0..FILES)
            .map(|number| {
                let (server, bytes) = (&servers[number % 2], &bytes);
                scope.spawn(move || store(server, &format!("file{number}"), bytes))
            })
            .collect();
        uploads.into_iter().map(|upload| upload.join().unwrap()).collect()
    });
    let stored = replies.iter().filter(|reply| reply.starts_with("226")).count();
    let others: Vec<&String> = replies.iter().filter(|reply| !reply.starts_with("226")).collect();
    assert!(others.iter().all(|reply| reply.starts_with("552") || reply.starts_with("450")), "{others:?}");
    assert!(stored > 0 && stored * FILE_BYTES <= QUOTA_BYTES, "{stored} files: {replies:?}");
    let listed = well(&["ls", &format!("{}/", servers[0].places[0])]);
    assert_eq!(listed.lines().filter(|line| line.contains("file")).count(), stored, "{listed}");
    assert!(!listed.contains("quota"), "{listed}");
    // What is deleted is free again, and what an idle server had reserved, too.
    let mut control = Control::at(servers[1].tcp(), None).log_in();
    for number in 0..FILES {
        control.send(&format!("DELE file{number}"));
        control.reply();
    }
    let all = pattern(QUOTA_BYTES - 1);
    eventually("all of the quota is free", || store(&servers[1], "all", &all).starts_with("226"));
    assert!(store(&servers[0], "more", &bytes).starts_with("552"));
}

#[test]
fn a_quota_counts_what_other_servers_wrote() {
    let Some(moto) = Moto::start() else { return };
    let folder = Folder::new();
    folder.put("users.toml", b"[[user]]\nname = 'anonymous'\nquota = '1MB'\nwritable = true\n");
    folder.put("file", pattern(700_000));
    let users = folder.path("users.toml").display().to_string();
    let (first, second) =
        (serve(moto.address, &["--users", &users]), serve(moto.address, &["--users", &users]));
    let file = folder.path("file").display().to_string();
    well(&["put", &file, &format!("{}/one", first.places[1])]);
    let refused = run(&["put", &file, &format!("{}/two", second.places[1])]);
    assert_eq!(refused.status.code(), Some(7), "{}", String::from_utf8_lossy(&refused.stderr));
}

/// Passes connections to the S3 server; of sixteen, one ends in the middle of a body, one before its first answer, one answers 500,
/// one 503.
fn faulty(upstream: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, client) in listener.incoming().flatten().enumerate() {
            std::thread::spawn(move || pass(number, client, upstream));
        }
    });
    address
}

fn pass(number: usize, mut client: TcpStream, upstream: SocketAddr) {
    let words = match number % 16 {
        1 => "500 Internal Server Error",
        2 => "503 Slow Down",
        _ => {
            let mut server = TcpStream::connect(upstream).unwrap();
            let (mut up, mut from) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut up);
            });
            let most = match number % 16 {
                3 => 200_000,
                5 => 0,
                _ => u64::MAX,
            };
            let _ = std::io::copy(&mut (&mut server).take(most), &mut client);
            let _ = client.shutdown(std::net::Shutdown::Both);
            let _ = server.shutdown(std::net::Shutdown::Both);
            return;
        }
    };
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") && client.read(&mut byte).is_ok_and(|count| count > 0) {
        seen.push(byte[0]);
    }
    let _ = write!(client, "HTTP/1.1 {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
}

#[test]
fn transfers_survive_a_store_that_answers_500_and_503_and_half_a_body_and_one_whose_answers_are_lost() {
    let Some(moto) = Moto::start() else { return };
    let server = serve(faulty(moto.address), &[]);
    let (source, copy) = (tree(), Folder::new());
    let url = format!("{}/t", server.places[1]);
    let from = source.path("").display().to_string();
    well(&["mirror", "-R", &from, &url]);
    let to = copy.path("t").display().to_string();
    well(&["mirror", &url, &to]);
    assert_same_tree(&source.path(""), Path::new(&to));
}

#[test]
fn a_webdav_store_is_served_like_a_folder_with_files_that_fit_into_memory() {
    let Some(python) = std::env::var_os("BRAIDFTP_MOTO") else { return };
    let (room, kept) = (Folder::new(), Folder::new());
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().self_signed(&key).unwrap();
    room.put("certificate.pem", certificate.pem());
    room.put("key.pem", key.serialize_pem());
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../xtask/src/webdav_server.py"));
    command.arg(kept.path("")).arg(room.path("certificate.pem")).arg(room.path("key.pem"));
    let dav = Moto::running(command);

    let place = format!("webdav://{}/home", dav.address);
    // Its certificate is outside of what a confined server may read.
    let mut command =
        braidftp(&["serve", &place, "--writable", "--confine", "off", "--listen", "ftp://127.0.0.1:0"]);
    command.args(["--listen", "ftp+sctp://127.0.0.1:0"]).env("SSL_CERT_FILE", room.path("certificate.pem"));
    let server = Running::start(command, 2);
    let (source, copy) = (tree(), Folder::new());
    let (from, to) = (source.path("").display().to_string(), copy.path("t").display().to_string());
    for place in &server.places {
        let url = format!("{place}/t");
        well(&["mirror", "-R", &from, &url]);
        well(&["mirror", &url, &to]);
        assert_same_tree(&source.path(""), Path::new(&to));
        // Files that are there are replaced.
        well(&["put", &source.path("large").display().to_string(), &format!("{url}/a/one")]);
        assert!(contents(&server, "t/a/one") == pattern(12_000_000));
        well(&["mv", &format!("{url}/a"), &format!("{url}/c")]);
        well(&["rm", "-r", &url]);
    }
    assert!(store(&server, "t", b"1").starts_with("226"));
    let reply = store(&server, "t", &vec![1; (48 << 20) + 1]);
    assert!(reply.starts_with("452"), "{reply}");
    assert_eq!(contents(&server, "t"), b"1");
}

#[test]
fn a_store_that_is_not_there_is_named_with_the_reason() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let place = format!("s3://box/home?endpoint=http://{closed}&region=us-east-1");
    let mut check = braidftp(&["serve", &place, "--check"]);
    check.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", "secret");
    let output = check.output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(6), "{told}");
    assert!(told.contains("the object store s3://box/home"), "{told}");
    let unknown = run(&["serve", "s4://box", "--check"]);
    let told = String::from_utf8_lossy(&unknown.stderr);
    assert!(told.contains("s4") && told.contains("webdav://"), "{told}");
}
