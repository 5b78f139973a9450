//! Dialogues between a client and the server, one per file: `tests/transcripts/*.txt`.
//!
//! ```text
//! # a comment
//! carrier: tcp | naive | ms | braid
//! file: /path content            before the dialogue: a file of the store (with \r \n \xNN)
//! > content                      the content of the next upload
//! C: RETR a                      lines of the client; those without an S: between are one write
//! S: 150 *                       lines of the server, exactly; `*` at the end matches anything
//! < content                      the content of the last download
//! ```
//! Here they run against the session and a store in memory. Any other implementation can be tested with them.

mod common;

use std::sync::Arc;

use braidftp_ftp::mapping::DataPath;
use braidftp_ftp::server::{Carrier, Config, Do, Failure, Input, JobId, LoginError, Outcome, Session, Write};
use braidftp_ftp::{Output, Time};
use common::MemoryStore;

struct Run {
    session: Session,
    store: MemoryStore,
    /// Output of the server that was not compared yet.
    said: Vec<u8>,
    upload: Vec<u8>,
    download: Vec<u8>,
    closed: bool,
}

impl Run {
    fn drain(&mut self) {
        loop {
            match self.session.poll(Time::ZERO) {
                Output::Send(bytes) => self.said.extend_from_slice(&bytes),
                Output::Event(todo) => self.execute(todo),
                Output::Wait(_) => return,
            }
        }
    }

    fn tell(&mut self, input: Input) {
        self.session.handle(Time::ZERO, input);
    }

    fn done(&mut self, job: JobId, outcome: Result<Outcome, Failure>) {
        self.tell(Input::Done { job, outcome });
    }

    fn execute(&mut self, todo: Do) {
        match todo {
            Do::Authenticate { user, password } => {
                let known = self.store.authenticate(&user, &password);
                self.tell(Input::Authenticated(if known { Ok(()) } else { Err(LoginError::Refused) }));
            }
            Do::LogOut | Do::StartTls | Do::Admit { .. } | Do::NoteUnprotected { .. } => {}
            Do::Listen { job } => self.done(job, Ok(Outcome::Listening("127.0.0.1:4000".parse().unwrap()))),
            Do::Query { job, path, query } => {
                let outcome = self.store.query(&path, query);
                self.done(job, outcome);
            }
            Do::Change { job, change } => {
                let outcome = self.store.change(change);
                self.done(job, outcome);
            }
            Do::Send { job, data, source } => match self.store.source(&source) {
                Ok((bytes, failure)) => {
                    let size = (data != DataPath::Stream1).then_some(bytes.len() as u64);
                    self.tell(Input::Started { job, size, name: None });
                    let outcome = failure.map_or(Ok(Outcome::Sent { bytes: bytes.len() as u64 }), Err);
                    self.download = bytes;
                    self.done(job, outcome);
                }
                Err(failure) => self.done(job, Err(failure)),
            },
            Do::Receive { job, sink, .. } => match self.store.open(&sink) {
                Ok(path) => {
                    let name = (sink.write == Write::Unique).then(|| path.clone());
                    self.tell(Input::Started { job, size: None, name: name.clone() });
                    let bytes = std::mem::take(&mut self.upload);
                    self.store.finish(&path, sink.write, &bytes);
                    self.done(job, Ok(Outcome::Received { bytes: bytes.len() as u64, name }));
                }
                Err(failure) => self.done(job, Err(failure)),
            },
            Do::Cancel { job } => self.done(job, Err(Failure::Cancelled)),
            Do::Close => self.closed = true,
        }
    }

    fn take_line(&mut self) -> Option<String> {
        let end = self.said.iter().position(|byte| *byte == b'\n')? + 1;
        let line: Vec<u8> = self.said.drain(..end).collect();
        let line = line.strip_suffix(b"\r\n").expect("each line ends with CRLF");
        Some(
            line.iter()
                .map(|byte| {
                    if (0x20..0x7f).contains(byte) {
                        char::from(*byte).to_string()
                    } else {
                        format!("\\x{byte:02x}")
                    }
                })
                .collect(),
        )
    }
}

/// `\r`, `\n`, `\xNN` and `\\`.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match (byte, byte == b'\\') {
            (byte, false) => byte,
            (_, true) => match rest.next().expect("something follows a backslash") {
                b'r' => b'\r',
                b'n' => b'\n',
                b'x' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                other => other,
            },
        });
    }
    bytes
}

fn run(name: &str, text: &str) {
    let mut carrier = common::tcp();
    let mut store = MemoryStore::new();
    let mut run = None;
    let mut said = Vec::new();
    // A final comment, so that the last client lines are sent.
    for (number, line) in text.lines().chain(["S: end"]).enumerate() {
        let at = format!("{name}:{}", number + 1);
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "" | "#" => continue,
            "carrier:" => {
                carrier = match rest {
                    "tcp" => common::tcp(),
                    "naive" => Carrier::Naive,
                    "ms" => Carrier::Ms,
                    "braid" => Carrier::Braid { data_streams: 4 },
                    other => panic!("{at}: no carrier {other}"),
                };
                continue;
            }
            "file:" => {
                let (path, content) = rest.split_once(' ').unwrap_or((rest, ""));
                store.file(path, &unescape(content));
                continue;
            }
            _ => {}
        }
        let run = run.get_or_insert_with(|| Run {
            session: Session::new(Arc::new(Config::default()), carrier, Time::ZERO),
            store: store.clone(),
            said: Vec::new(),
            upload: Vec::new(),
            download: Vec::new(),
            closed: false,
        });
        if kind == "C:" {
            said.extend(unescape(rest));
            said.extend(b"\r\n");
            continue;
        }
        if !said.is_empty() {
            run.tell(Input::Received(std::mem::take(&mut said).into()));
        }
        run.drain();
        match kind {
            "S:" if rest == "end" => {
                assert_eq!(run.take_line(), None, "{at}: the server says more than the file");
            }
            "S:" if rest == "(closes)" => assert!(run.closed, "{at}: not closed"),
            "S:" => {
                let found =
                    run.take_line().unwrap_or_else(|| panic!("{at}: the server says nothing, not {rest}"));
                let matches = match rest.strip_suffix('*') {
                    Some(start) => found.starts_with(start),
                    None => found == rest,
                };
                assert!(matches, "{at}: expected {rest}, got {found}");
            }
            "<" => {
                let found = std::mem::take(&mut run.download);
                assert_eq!(String::from_utf8_lossy(&found), String::from_utf8_lossy(&unescape(rest)), "{at}");
            }
            ">" => run.upload = unescape(rest),
            other => panic!("{at}: no such line: {other}"),
        }
    }
}

#[test]
fn the_session_follows_the_transcripts() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/transcripts");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        run(&name, &std::fs::read_to_string(&file).unwrap());
    }
}
