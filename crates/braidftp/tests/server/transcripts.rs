//! The TCP dialogues of `crates/ftp/tests/transcripts`, with the real server and real files.
//! `crates/ftp/tests/transcripts.rs` describes their form.
//!
//! Properties of a real server only are normalised: port numbers, generated names, and facts that a table in
//! memory does not have.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use crate::server_support::{Folder, PATIENCE, connect_from, serve_with};
use braidftp::users::{Access, Users};

struct Talk {
    control: TcpStream,
    said: Vec<u8>,
    /// Commands without a final reply so far.
    commands: VecDeque<Vec<u8>>,
    data: Option<TcpStream>,
    upload: Vec<u8>,
    download: Vec<u8>,
}

impl Talk {
    /// The next line of the server, with control characters escaped; `None` if there is none.
    fn line(&mut self, wait: Duration) -> Option<String> {
        self.control.set_read_timeout(Some(wait)).unwrap();
        let end = loop {
            if let Some(end) = self.said.iter().position(|byte| *byte == b'\n') {
                break end + 1;
            }
            let mut buffer = [0; 4096];
            match self.control.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.said.extend_from_slice(&buffer[..count]),
            }
        };
        let line: Vec<u8> = self.said.drain(..end).collect();
        let line = line.strip_suffix(b"\r\n").expect("each line ends with CRLF");
        let show = |byte: &u8| {
            if (0x20..0x7f).contains(byte) { char::from(*byte).to_string() } else { format!("\\x{byte:02x}") }
        };
        let line: String = line.iter().map(show).collect();
        self.act(&line);
        Some(line)
    }

    /// Does what a client does for such a line.
    fn act(&mut self, line: &str) {
        let is_final = line.as_bytes().get(3) == Some(&b' ') && !line.starts_with([' ', '1']);
        let command = self.commands.front().cloned().unwrap_or_default();
        if line.starts_with("229 ") {
            let port = line.split("(|||").nth(1).unwrap().split('|').next().unwrap().parse().unwrap();
            self.connect(port);
        } else if line.starts_with("227 ") {
            let numbers = line.split('(').nth(1).unwrap().split(')').next().unwrap();
            let numbers: Vec<u16> = numbers.split(',').map(|n| n.parse().unwrap()).collect();
            self.connect(numbers[4] << 8 | numbers[5]);
        } else if line.starts_with("150 ") {
            let mut data = self.data.take().expect("a data connection before 150");
            if [&b"STOR"[..], b"STOU", b"APPE"].iter().any(|verb| command.starts_with(verb)) {
                data.write_all(&std::mem::take(&mut self.upload)).unwrap();
            } else {
                self.download.clear();
                data.read_to_end(&mut self.download).unwrap();
            }
        }
        // The greeting is not a reply to a command.
        if is_final {
            self.commands.pop_front();
        }
    }

    fn connect(&mut self, port: u16) {
        let mut to: SocketAddr = self.control.peer_addr().unwrap();
        to.set_port(port);
        // If commands were pipelined, the server may already have closed the port because of a later one. If
        // the dialogue needs the data, the comparison below fails.
        let Ok(data) = TcpStream::connect_timeout(&to, PATIENCE) else { return };
        data.set_read_timeout(Some(PATIENCE)).unwrap();
        self.data = Some(data);
    }
}

/// `\r`, `\n`, `\xNN` and `\\`.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let escaped = if byte == b'\\' { rest.next() } else { None };
        bytes.push(match escaped {
            None => byte,
            Some(b'r') => b'\r',
            Some(b'n') => b'\n',
            Some(b'x') => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            Some(other) => other,
        });
    }
    bytes
}

/// The form of a reply with a digest: the real server computes it, and the transcripts have sevens.
fn digest_shape(line: &str) -> Option<String> {
    let hexadecimal = |word: &str| word.len() >= 8 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    match *line.split(' ').collect::<Vec<_>>() {
        ["213", function, range, digest, path] if range.starts_with("0-") && hexadecimal(digest) => {
            Some(format!("213 {function}, {} digits, {path}", digest.len()))
        }
        ["250", digest] if hexadecimal(digest) => Some(format!("250 {} digits", digest.len())),
        _ => None,
    }
}

/// A line without properties that differ between servers.
fn even(line: &str) -> String {
    let line = match line.split_once(" (") {
        Some((before, rest)) if line.starts_with("150 ") && rest.ends_with("bytes)") => before,
        _ => line,
    };
    if line.starts_with("229 ") || line.starts_with("227 ") {
        return line[..4].to_owned();
    }
    if let Some(shape) = digest_shape(line) {
        return shape;
    }
    if line.contains(" FILE: ") {
        return format!("{} FILE:", &line[..3]);
    }
    if line.starts_with(" type=") || line.starts_with("type=") {
        let (facts, name) = line.trim_start().split_once(' ').unwrap();
        let told = |fact: &&str| {
            ["type=", "size=", "x.target="].iter().any(|known| fact.starts_with(known))
                || (fact.starts_with("modify=") && facts.contains("type=file"))
        };
        let facts: Vec<&str> = facts.split(';').filter(told).collect();
        return format!("{} {name}", facts.join(";"));
    }
    line.to_owned()
}

/// The lines of a listing in a fixed order, without files of the test itself; other data unchanged.
fn even_data(data: &[u8]) -> String {
    let text = String::from_utf8_lossy(data).into_owned();
    if !text.ends_with("\r\n") || text.starts_with("one") {
        return text;
    }
    let made_up = |name: &str| name.starts_with("upload-") || name == "unique-1";
    let mut lines: Vec<String> = text
        .split_terminator("\r\n")
        .filter(|line| !line.ends_with("forbidden"))
        .map(|line| if made_up(line) { "NAME".to_owned() } else { even(line) })
        .collect();
    lines.sort();
    lines.join("\n")
}

fn run(name: &str, text: &str) {
    let folder = Folder::new();
    // Folders that the dialogues must not write to.
    std::fs::create_dir(folder.outer.path().join("out")).unwrap();
    symlink("../out", folder.path("forbidden")).unwrap();
    for line in text.lines().filter_map(|line| line.strip_prefix("file: ")) {
        let (path, content) = line.split_once(' ').unwrap_or((line, ""));
        let path = path.trim_start_matches('/');
        folder.put(path, unescape(content));
        let told = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_000_000);
        std::fs::File::open(folder.path(path)).unwrap().set_modified(told).unwrap();
    }
    let hash = Users::hash(b"secret").unwrap();
    let users = format!("[[user]]\nname='user'\nhash='{hash}'\n[[user]]\nname='anonymous'");
    let users = Users::parse(&users, Access::Writable).unwrap();
    let served = serve_with(folder.root(), |builder| builder.users(users));
    let control = connect_from(served.address, None);
    let mut talk = Talk {
        control,
        said: Vec::new(),
        commands: VecDeque::from([b"(greeting)".to_vec()]),
        data: None,
        upload: Vec::new(),
        download: Vec::new(),
    };
    let mut pending = Vec::new();
    for (number, line) in text.lines().chain(["S: end"]).enumerate() {
        let at = format!("{name}:{}", number + 1);
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "" | "#" | "carrier:" | "file:" => continue,
            "C:" => {
                talk.commands.push_back(unescape(rest));
                pending.extend(unescape(rest));
                pending.extend(b"\r\n");
                continue;
            }
            _ => {}
        }
        talk.control.write_all(&std::mem::take(&mut pending)).unwrap();
        match kind {
            "S:" if rest == "end" => {
                assert_eq!(talk.line(Duration::from_millis(50)), None, "{at}: the server says more");
            }
            "S:" if rest == "(closes)" => {
                talk.control.set_read_timeout(Some(PATIENCE)).unwrap();
                assert_eq!(talk.control.read(&mut [0; 8]).unwrap(), 0, "{at}: not closed");
            }
            "S:" => {
                let found = talk.line(PATIENCE);
                let found = found.unwrap_or_else(|| panic!("{at}: the server says nothing, not {rest}"));
                let matches = match rest.strip_suffix('*') {
                    Some(start) => found.starts_with(start),
                    None => even(&found) == even(rest),
                };
                assert!(matches, "{at}: expected {rest}, got {found}");
            }
            "<" => {
                let found = std::mem::take(&mut talk.download);
                assert_eq!(even_data(&found), even_data(&unescape(rest)), "{at}");
            }
            ">" => talk.upload = unescape(rest),
            other => panic!("{at}: no such line: {other}"),
        }
    }
}

#[test]
fn the_server_follows_the_transcripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../ftp/tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut held = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.lines().any(|line| line == "carrier: tcp") {
            run(&file.file_name().unwrap().to_string_lossy(), &text);
            held += 1;
        }
    }
    assert!(held >= 7, "{held}");
}
