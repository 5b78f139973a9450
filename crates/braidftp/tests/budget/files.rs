//! Attacks on the disk: deep trees, uploads and their temporary files.

use super::server_support::program;
use super::*;

pub(super) fn deep_tree(row: Row) {
    let (folder, served) = with(quick());
    let most = limit(row, &quick());
    std::fs::create_dir_all(folder.path("d/".repeat(most + 5))).unwrap();
    let (listing, done) = Control::anonymous(&served).fetch("XTREE");
    let deepest =
        String::from_utf8(listing).unwrap().lines().map(|line| line.matches("d/").count() + 1).max();
    assert!(deepest.unwrap() <= most + 1 && done.starts_with("226"), "{deepest:?}, {done}");
}

pub(super) fn giant_upload(_: Row) {
    let (folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    control.command(&format!("ALLO {}", 1_u64 << 60), "2");
    let reply = control.store("STOR giant", b"x");
    assert!(reply.starts_with("45"), "{reply}");
    assert!(folder.names().iter().all(|name| name != "giant"));
}

/// An upload to a disk with less free space than the reserve: with an announced size, and without.
pub(super) fn full_disk(row: Row) {
    let settings = Settings { disk_reserve: Some(1 << 60), ..quick() };
    assert_eq!(limit(row, &settings), 1 << 60);
    let (folder, served) = with(settings);
    let mut control = Control::anonymous(&served);
    for allo in [None, Some("ALLO 1")] {
        allo.iter().for_each(|allo| drop(control.command(allo, "2")));
        let reply = control.store("STOR more", b"x");
        assert!(reply.starts_with("452"), "{reply}");
        assert_eq!(folder.names(), [""; 0]);
    }
}

/// Temporary files in a folder: bytes and number.
fn left(folder: &Folder) -> (usize, usize) {
    let parts = folder.names().into_iter().filter(|name| name.ends_with(".braidftp-part"));
    // One may vanish meanwhile.
    let sizes: Vec<usize> =
        parts.filter_map(|name| Some(std::fs::metadata(folder.path(name)).ok()?.len() as usize)).collect();
    (sizes.iter().sum(), sizes.len())
}

/// Interrupted uploads, and what a starting server does with their files.
pub(super) fn broken_uploads(_: Row) {
    const EACH: usize = 40_000;
    let settings = Settings { parts_quota: Some(100_000), ..quick() };
    let most = limit(Row::PartsBytes, &settings);
    let (folder, served) = with(settings);
    for nth in 0..8 {
        let mut control = Control::anonymous(&served);
        control.command("ALLO 100000", "2");
        let mut data = control.begin(&format!("STOR broken-{nth}"));
        data.write_all(&pattern(EACH)).unwrap();
        drop(data);
        control.expect("4");
        assert!(left(&folder).0 <= most, "{:?}", left(&folder));
    }
    assert_eq!(left(&folder), (2 * EACH, 2));
    assert_eq!(folder.names(), [".broken-6.braidftp-part", ".broken-7.braidftp-part"]);

    let most = limit(Row::PartsCount, &quick());
    let folder = Folder::new();
    (0..most + 20).for_each(|nth| folder.put(format!(".{nth}.braidftp-part"), "x"));
    let _served = serve_with(folder.root(), |builder| builder.access(Access::Writable));
    server_support::eventually("the oldest are removed", || left(&folder).1 <= most);
    assert_eq!(left(&folder).1, most);
}

/// Interrupted uploads that nobody resumes.
pub(super) fn old_uploads(_: Row) {
    let folder = Folder::new();
    folder.put(".old.braidftp-part", "x");
    folder.put("whole", "x");
    let settings = Settings { parts_kept: Some(Duration::ZERO), ..quick() };
    let _served = serve_with(folder.root(), |builder| builder.access(Access::Writable).settings(settings));
    server_support::eventually("it is removed", || folder.names() == ["whole"]);
}

/// Sessions that request digests of large files: others wait, and get their turn when one of the sessions
/// ends.
pub(super) fn digests(_: Row) {
    let (folder, served) = with(quick());
    folder.put("small", b"small");
    std::fs::File::create(folder.path("giant")).unwrap().set_len(1 << 40).unwrap();
    let all = limit(Row::Digests, &quick());
    // Over TCP a session runs one command at a time, so one request each is enough.
    let mut readers: Vec<Control> = (0..all).map(|_| Control::anonymous(&served)).collect();
    readers.iter_mut().for_each(|reader| reader.send("HASH giant"));
    std::thread::sleep(Duration::from_secs(1));
    let mut late = Control::anonymous(&served);
    late.send("HASH small");
    assert!(!late.answers_within(Duration::from_secs(1)), "there is no turn for it");
    drop(readers.pop());
    let reply = late.reply();
    let digest = "81db8ebbbbc69c6c6ad4a6aa92b76e0c08af547da236b9e2c9dbe1d8285a8130";
    assert_eq!(reply, format!("213 SHA-256 0-5 {digest} /small\r\n"));
    drop(readers);
    // One session of braid cannot occupy all turns.
    in_tokio(async {
        let served = sctp_server(quick(), |folder| {
            folder.put("small", b"small");
            std::fs::File::create(folder.path("giant")).unwrap().set_len(1 << 40).unwrap();
        });
        assert!(limit(Row::DigestsOfSession, &quick()) < all);
        let (_greedy_endpoint, greedy) = connect(served.address, streams(4));
        say(&greedy, LOG_IN).await;
        hear(&greedy, "200").await;
        say(&greedy, "HASH giant\r\n".repeat(2 * all)).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (_endpoint, other) = connect(served.address, streams(4));
        say(&other, LOG_IN).await;
        say(&other, "HASH small\r\n").await;
        hear(&other, "213").await;
    });
}

/// An S3 server that begins every upload and takes no byte of it.
fn silent_store() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            std::thread::spawn(move || answer(client));
        }
    });
    address
}

fn answer(mut client: std::net::TcpStream) {
    loop {
        let mut head = Vec::new();
        let mut byte = [0];
        while !head.ends_with(b"\r\n\r\n") {
            match client.read(&mut byte) {
                Ok(1) => head.push(byte[0]),
                _ => return,
            }
        }
        let (status, body) = match head.split(|byte| *byte == b' ').next() {
            Some(b"HEAD") => ("404 Not Found", ""),
            Some(b"GET") => {
                ("200 OK", "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
            }
            Some(b"POST") => (
                "200 OK",
                "<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>",
            ),
            // A body, which is not read.
            _ => loop {
                std::thread::park();
            },
        };
        let length = body.len();
        if write!(client, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}").is_err() {
            return;
        }
    }
}

/// Uploads in all ways to a server of an object store that takes nothing. The whole process keeps within its budget of 256 MB.
pub(super) fn dead_store(_: Row) {
    const PROCESS_BYTES: usize = 256_000_000;
    let place = format!(
        "s3://box/home?endpoint=http://{}&region=us-east-1&access_key_id=key&secret_access_key=secret",
        silent_store()
    );
    let mut command = program::braidftp(&["serve", &place, "--writable", "--drain-seconds", "0"]);
    command.args(["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"]);
    let server = program::Running::start(command, 2);
    let log_in = || Control::at(server.tcp(), None).log_in();
    let mut control = log_in();
    control.command(&format!("ALLO {}", limit(Row::BucketFile, &quick()) + 1), "2");
    assert!(control.store("STOR giant", b"x").starts_with("452"));

    // Zeros, which take no disk.
    let folder = Folder::new();
    for nth in 0..16 {
        folder.put(format!("{nth}"), b"");
        let file = std::fs::OpenOptions::new().write(true).open(folder.path(format!("{nth}"))).unwrap();
        file.set_len(20_000_000).unwrap();
    }
    let from = folder.path("").display().to_string();
    let mut clients: Vec<_> = (0..6)
        .map(|nth| {
            let to = format!("{}/{nth}", server.places[nth % 2]);
            program::braidftp(&["mirror", "-R", &from, &to, "--retries", "0"]).spawn().unwrap()
        })
        .collect();
    let mut connections = Vec::new();
    for nth in 0..12 {
        let mut control = log_in();
        let mut data = control.begin(&format!("STOR raw-{nth}"));
        data.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        // It ends when the server reads no more.
        let _ = data.write_all(&vec![0; 16_000_000]);
        connections.push((control, data));
    }
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
    };
    // Until it has not risen for a while.
    let (mut most, mut steady, until) = (peak(), 0, Instant::now() + Duration::from_secs(180));
    while steady < 40 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(250));
        steady = if peak() > most { 0 } else { steady + 1 };
        most = most.max(peak());
    }
    for client in &mut clients {
        let _ = client.kill();
        let _ = client.wait();
    }
    println!("dead store: {most} bytes resident at most");
    assert!(most > limit(Row::BucketUploads, &quick()) / 2, "the uploads hold little: {most}");
    assert!(most <= PROCESS_BYTES, "{most}");
}
