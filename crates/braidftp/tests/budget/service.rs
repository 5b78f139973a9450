//! Rows of what belongs to a server that runs as a service.

use super::*;

/// Twice as many scrapers as are answered at once say nothing: each is cut off in its time, and one that speaks gets its answer.
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
    // The first line says where it listens.
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
