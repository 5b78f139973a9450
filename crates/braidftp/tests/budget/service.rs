//! Rows about a server that runs as a service.

use super::server_support::program::{Running, braidftp};
use super::*;

/// Twice as many silent scrapers as are served concurrently: each is disconnected after its time limit, and
/// one that sends a request is answered.
pub(super) fn silent_scrapers(_: Row) {
    let settings = Settings::default();
    let most = limit(Row::Scrapers, &settings);
    let within = Duration::from_millis(limit(Row::ScraperTime, &settings) as u64);
    let folder = Folder::new();
    let address = {
        let free = std::net::TcpListener::bind("127.0.0.32:0").unwrap();
        free.local_addr().unwrap()
    };
    let mut server = Command::new(env!("CARGO_BIN_EXE_braidftp"))
        .args(["serve", "--plain", "--listen", "ftp://127.0.0.1:0", "--metrics", &address.to_string()])
        .arg(folder.path(""))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first line contains the address.
    server.stderr.as_mut().unwrap().read_exact(&mut [0; 10]).unwrap();
    let start = Instant::now();
    let silent: Vec<_> = (0..2 * most).map(|_| connect_from(address, None)).collect();
    let mut speaks = connect_from(address, None);
    speaks.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut said = String::new();
    speaks.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    assert!(start.elapsed() >= 2 * within, "more than {most} were answered at once: {:?}", start.elapsed());
    for mut stream in silent {
        assert_eq!(stream.read(&mut [0; 100]).unwrap_or(0), 0, "cut off");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

/// A server with a dashboard, and the address of that.
fn with_dashboard(folder: &Folder, more: &[&str]) -> (Running, SocketAddr) {
    let here = folder.path("");
    let mut arguments = vec!["serve", here.to_str().unwrap(), "--plain", "--listen", "ftp://127.0.0.1:0"];
    arguments.extend(["--dashboard", "127.0.0.1:0"]);
    arguments.extend(more);
    let server = Running::start(braidftp(&arguments), 1);
    let page = server.before.iter().find_map(|line| line.strip_prefix("dashboard http://"));
    let page = page.unwrap().trim_end().trim_end_matches('/').parse().unwrap();
    (server, page)
}

/// Readers of the dashboard that read nothing, as many as are served concurrently: each is disconnected after
/// its time limit, the next one is served then, and a transfer continues meanwhile.
pub(super) fn stalled_readers(_: Row) {
    let settings = Settings::default();
    let most = limit(Row::PageReaders, &settings);
    let within = Duration::from_millis(limit(Row::PageTime, &settings) as u64);
    let folder = Folder::new();
    folder.put("f", pattern(3_000_000));
    let (server, page) = with_dashboard(&folder, &[]);
    let start = Instant::now();
    let question = |what: &str| format!("GET {what} HTTP/1.1\r\nhost: {page}\r\n\r\n");
    let stalled: Vec<_> = (0..most)
        .map(|_| {
            let mut stream = connect_from(page, None);
            stream.write_all(question("/events").as_bytes()).unwrap();
            // The first bytes of the response show that the connection is being served.
            stream.read_exact(&mut [0; 12]).unwrap();
            stream
        })
        .collect();
    let mut next = connect_from(page, None);
    next.write_all(question("/").as_bytes()).unwrap();
    let mut session = Control::at(server.tcp(), None).log_in();
    assert_eq!(session.fetch("RETR f").0.len(), 3_000_000);
    let mut said = String::new();
    next.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    assert!(start.elapsed() >= within, "more than {most} were answered at once: {:?}", start.elapsed());
    for mut stream in stalled {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
    }
}

/// More sessions than the dashboard lists: the others are counted.
pub(super) fn many_sessions_on_the_page(row: Row) {
    let most = limit(row, &Settings::default());
    let folder = Folder::new();
    let settings = folder.outer.path().join("braidftp.toml");
    std::fs::write(&settings, "max-sessions-per-address = 200\n").unwrap();
    let (server, page) = with_dashboard(&folder, &["--config", settings.to_str().unwrap()]);
    let _sessions: Vec<_> = (0..most + 3).map(|_| Control::at(server.tcp(), None)).collect();
    let mut stream = connect_from(page, None);
    stream.write_all(format!("GET /events HTTP/1.1\r\nhost: {page}\r\n\r\n").as_bytes()).unwrap();
    for line in std::io::BufRead::lines(std::io::BufReader::new(stream)).map(Result::unwrap) {
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let now: serde_json::Value = serde_json::from_str(data).unwrap();
        assert!(now["sessions"].as_array().unwrap().len() <= most, "{now}");
        if now["totals"]["sessions"] == most + 3 {
            assert_eq!(
                (now["sessions"].as_array().unwrap().len(), &now["more"]["sessions"]),
                (most, &3.into())
            );
            break;
        }
    }
}

/// A full queue: the next event is dropped and logged, and the session continues.
pub(super) fn full_hook_queue(row: Row) {
    let most = limit(row, &Settings::default());
    let folder = Folder::new();
    let queue = folder.outer.path().join("queue");
    std::fs::create_dir(&queue).unwrap();
    for number in 0..most {
        std::fs::write(queue.join(format!("{:020}-{number:010}-other.json", 1)), "{}").unwrap();
    }
    let settings = folder.outer.path().join("braidftp.toml");
    let text =
        format!("hook-queue = {queue:?}\n[[hook]]\nname = 'late'\non = ['login']\nrun = ['/bin/false']\n");
    std::fs::write(&settings, text).unwrap();
    let mut server = Command::new(env!("CARGO_BIN_EXE_braidftp"))
        .args(["serve", "--plain", "--listen", "ftp://127.0.0.1:0", "--config", settings.to_str().unwrap()])
        .arg(folder.path(""))
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(server.stderr.take().unwrap()));
    let mut told = |words: &str| loop {
        let line = lines.next().unwrap().unwrap();
        if line.contains(words) {
            return line;
        }
    };
    let place = told("listening ");
    let address = place.strip_prefix("listening ftp://").unwrap().parse().unwrap();
    let mut session = Control::at(address, None).log_in();
    told("events wait already");
    session.command("NOOP", "200");
    let events = std::fs::read_dir(&queue).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(events.filter(|name| !name.as_encoded_bytes().starts_with(b".")).count(), most);
    server.kill().unwrap();
    server.wait().unwrap();
}
