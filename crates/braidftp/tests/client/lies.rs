//! Servers that violate the protocol: a scripted server over TCP.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::client_support::{Room, cli, names};

/// What the server sends.
#[derive(Clone)]
struct Lies {
    greeting: &'static str,
    /// The lines of MLSD for the root; other folders get 550.
    listing: &'static [u8],
    /// The content that RETR sends for every path.
    content: &'static [u8],
    /// The reply after a transfer.
    done: &'static str,
    /// How many more times RETR is answered by 425.
    breaks: Arc<AtomicU32>,
}

impl Default for Lies {
    fn default() -> Self {
        Self {
            greeting: "220 here\r\n",
            listing: b"type=file;size=5;modify=20200101000000; a\r\n",
            content: b"hello",
            done: "226 done\r\n",
            breaks: Arc::default(),
        }
    }
}

/// Serves until the test ends; returns the URL.
fn serve(lies: Lies) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ftp://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lies = lies.clone();
            std::thread::spawn(move || {
                // A client that disconnects ends the session.
                let _ = session(&stream, &lies);
            });
        }
    });
    url
}

fn session(mut stream: &TcpStream, lies: &Lies) -> std::io::Result<()> {
    stream.write_all(lies.greeting.as_bytes())?;
    let mut lines = BufReader::new(stream.try_clone()?);
    let mut passive: Option<TcpListener> = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line).trim_end().to_owned();
        let (verb, argument) = text.split_once(' ').unwrap_or((&text, ""));
        let mut data = |passive: &mut Option<TcpListener>, bytes: &[u8]| -> std::io::Result<()> {
            (&mut stream).write_all(b"150 here it comes\r\n")?;
            let (mut to, _) = passive.take().unwrap().accept()?;
            to.write_all(bytes)?;
            drop(to);
            (&mut stream).write_all(lies.done.as_bytes())
        };
        match verb {
            "USER" => stream.write_all(b"331 password\r\n")?,
            "PASS" => stream.write_all(b"230 in\r\n")?,
            "FEAT" => stream
                .write_all(b"211-Features:\r\n MLST type*;size*;modify*;\r\n REST STREAM\r\n211 End\r\n")?,
            "EPSV" => {
                let listener = TcpListener::bind("127.0.0.1:0")?;
                let port = listener.local_addr()?.port();
                passive = Some(listener);
                stream
                    .write_all(format!("229 Entering extended passive mode (|||{port}|)\r\n").as_bytes())?;
            }
            "MLSD" if argument.is_empty() => data(&mut passive, lies.listing)?,
            "MLSD" => stream.write_all(b"550 no such folder\r\n")?,
            "MLST" => stream.write_all(b"500 what?\r\n")?,
            "SIZE" => stream.write_all(b"213 5\r\n")?,
            "MDTM" => stream.write_all(b"213 20200101000000\r\n")?,
            "RETR" if lies.breaks.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() => {
                passive = None;
                stream.write_all(b"425 no data connection\r\n")?;
            }
            "RETR" => data(&mut passive, lies.content)?,
            "QUIT" => {
                stream.write_all(b"221 bye\r\n")?;
                return Ok(());
            }
            _ => stream.write_all(b"200 ok\r\n")?,
        }
    }
}

fn mirror(room: &Room, lies: Lies, more: &[&str]) -> (i32, String) {
    let url = serve(lies);
    let out = room.folder("out");
    let (code, _, err) = cli(
        &room.home(),
        &[&["mirror", "--plain", &url, out.to_str().unwrap(), "--timeout", "60"], more].concat(),
    );
    (code, err)
}

#[test]
fn the_scripted_server_can_behave_correctly() {
    let room = Room::new();
    let (code, err) = mirror(&room, Lies::default(), &[]);
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read(room.path("out/a")).unwrap(), b"hello");
}

#[test]
fn a_file_of_the_wrong_length_is_not_renamed() {
    for content in [&b"hell"[..], b"hello!", b""] {
        let room = Room::new();
        let (code, err) = mirror(&room, Lies { content, ..Lies::default() }, &[]);
        assert_eq!(code, 9, "{err}");
        assert!(names(&room.path("out")).is_empty(), "{:?}", names(&room.path("out")));

        let url = serve(Lies { content, ..Lies::default() });
        let out = room.path("got");
        let (code, _, err) =
            cli(&room.home(), &["get", "--plain", &format!("{url}a"), "-o", out.to_str().unwrap()]);
        assert_eq!(code, 9, "{err}");
        assert!(names(&out).is_empty());
    }
}

#[test]
fn a_file_whose_data_connection_fails_is_requested_again_a_limited_number_of_times() {
    for (breaks, expected) in [(1, 0), (100, 7)] {
        let room = Room::new();
        let lies = Lies { breaks: Arc::new(breaks.into()), ..Lies::default() };
        let (code, err) = mirror(&room, lies, &["--retries", "1"]);
        assert_eq!(code, expected, "{breaks}: {err}");
        assert_eq!(names(&room.path("out")).is_empty(), expected != 0);
    }
}

#[test]
fn a_file_that_the_server_aborts_is_not_renamed() {
    let room = Room::new();
    let lies = Lies { content: b"hel", done: "451 disk trouble\r\n", ..Lies::default() };
    let (code, err) = mirror(&room, lies, &[]);
    // The listing of this server's folder fails in the same way.
    assert!(matches!(code, 7 | 10), "{code}: {err}");
    assert!(!room.path("out/a").exists());
}

#[test]
fn unsafe_names_in_a_listing_are_refused_and_other_files_are_transferred() {
    let listing = b"type=file;size=5; ../evil\r\n\
        type=file;size=5; /etc/evil\r\n\
        type=file;size=5; ..\r\n\
        type=file;size=5; sub/evil\r\n\
        type=file;size=5; nul\0evil\r\n\
        type=file;size=5; cr\revil\r\n\
        nonsense\r\n\
        type=file;size=5;modify=20200101000000; good\r\n";
    let room = Room::new();
    let (code, err) = mirror(&room, Lies { listing, ..Lies::default() }, &[]);
    assert_eq!(code, 10, "{err}");
    assert_eq!(names(&room.path("out")), ["good"]);
    assert!(!room.path("evil").exists() && !Path::new("/etc/evil").exists());
    assert!(!err.contains('\0') && !err.contains('\r'), "{err:?}");
    // If it is the only file, this is a protocol violation.
    let room = Room::new();
    let (code, _) = mirror(&room, Lies { listing: b"type=file;size=5; ../evil\r\n", ..Lies::default() }, &[]);
    assert_eq!(code, 14);
}

#[test]
fn nothing_is_deleted_because_of_an_incomplete_listing() {
    for listing in
        [&b"type=file;size=5;modify=20200101000000; a\r\nnonsense\r\n"[..], b"type=dir; closed\r\n"]
    {
        let room = Room::new();
        let out = room.folder("out");
        fs::create_dir(out.join("closed")).unwrap();
        fs::write(out.join("closed/mine"), "x").unwrap();
        fs::write(out.join("precious"), "x").unwrap();
        let (code, err) = mirror(&room, Lies { listing, ..Lies::default() }, &["--delete"]);
        assert_ne!(code, 0, "{err}");
        assert!(out.join("closed/mine").exists());
        if listing.ends_with(b"nonsense\r\n") {
            assert!(out.join("precious").exists());
        }
    }
}

#[test]
fn nothing_is_deleted_because_of_an_aborted_listing() {
    let room = Room::new();
    let out = room.folder("out");
    fs::write(out.join("precious"), "x").unwrap();
    let (code, _) = mirror(&room, Lies { done: "426 broken\r\n", ..Lies::default() }, &["--delete"]);
    assert_ne!(code, 0);
    assert!(out.join("precious").exists());
}

#[test]
fn input_that_is_not_ftp_is_a_protocol_violation() {
    for greeting in ["HTTP/1.1 400 Bad Request\r\n", "220 hello\r\n999 what\r\n", "220 one\r\n220 two\r\n"] {
        let room = Room::new();
        let (code, err) = mirror(&room, Lies { greeting, ..Lies::default() }, &[]);
        assert_eq!(code, 14, "{greeting:?}: {err}");
    }
    let room = Room::new();
    let (code, err) = mirror(&room, Lies { greeting: "421 too many\r\n", ..Lies::default() }, &[]);
    assert_eq!(code, 2, "{err}");
}

#[test]
fn a_name_from_the_server_is_escaped_on_the_terminal() {
    let listing = b"type=file;size=4;modify=20200101000000; \x1b[2Jx\r\n";
    let room = Room::new();
    let (code, err) = mirror(&room, Lies { listing, ..Lies::default() }, &[]);
    assert_eq!(code, 9, "{err}");
    assert!(err.contains("\\x1b[2Jx") && !err.contains('\x1b'), "{err:?}");
}
