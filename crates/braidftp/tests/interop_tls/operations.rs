//! What each third-party client does with our server, and our client with each third-party server, one operation at a time: FTP
//! over TCP without TLS.
//!
//! An operation is a line for the shell, run in the client's folder. The result is checked in the files of both sides, because
//! not every program sets its exit code. An operation that a program does not have is left empty.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::Command;

use super::clients::Ours;
use super::servers::{ANONYMOUS, JOE, Start, free, proftpd, pure_ftpd, pyftpdlib, served, vsftpd};
use super::{BIG, Outcome, Room, Way, is_installed, pattern, python, run};

const OPERATIONS: [&str; 12] = [
    "list", "get", "put", "resume", "append", "rename", "delete", "mkdir", "link", "UTF-8", "spaces", "5 GB",
];
const HUGE_BYTES: u64 = 5_000_000_000;
/// What is missing of the huge file.
const REST_BYTES: usize = 1_000;

/// A program: its shell function `f`, and the operations that it has.
struct Program {
    name: &'static str,
    prepare: &'static str,
    operations: &'static [(&'static str, &'static str)],
}

const CLIENTS: &[Program] = &[
    Program {
        name: "lftp",
        prepare: r#"f() { lftp -c "set cmd:fail-exit yes; set net:max-retries 1; set net:timeout 100; set ftp:ssl-allow no; open $U; $1"; }"#,
        operations: &[
            ("list", "f 'cls -1'"),
            ("get", "f 'get folder/big -o got'"),
            ("put", "f 'put up -o in/up'"),
            ("resume", "f 'get -c folder/big -o resumed'"),
            ("rename", "f 'mv in/old in/new'"),
            ("delete", "f 'rm in/old'"),
            ("mkdir", "f 'mkdir in/made'"),
            ("link", "f 'get link -o linked'"),
            ("UTF-8", "f 'get größe.txt -o utf8'"),
            ("spaces", r#"f 'get "a b.txt" -o spaces'"#),
            ("5 GB", "f 'get -c huge -o huge'"),
        ],
    },
    Program {
        name: "curl",
        prepare: r#"f() { curl -sS --max-time 100 "$@"; }"#,
        operations: &[
            ("list", "f $U/"),
            ("get", "f -o got $U/folder/big"),
            ("put", "f -T up $U/in/up"),
            ("resume", "f -C - -o resumed $U/folder/big"),
            ("append", "f -a -T tail $U/in/appended"),
            ("rename", "f -o list -Q 'RNFR in/old' -Q 'RNTO in/new' $U/"),
            ("delete", "f -o list -Q 'DELE in/old' $U/"),
            ("mkdir", "f -o list -Q 'MKD in/made' $U/"),
            ("link", "f -o linked $U/link"),
            ("UTF-8", "f -o utf8 $U/gr%C3%B6%C3%9Fe.txt"),
            ("spaces", "f -o spaces $U/a%20b.txt"),
            ("5 GB", "f -C - -o huge $U/huge"),
        ],
    },
    Program {
        name: "wget",
        prepare: r#"f() { wget -q -T 100 -t 1 "$@"; }"#,
        operations: &[
            ("list", "f -O - $U/"),
            ("get", "f -O got $U/folder/big"),
            ("resume", "f -c -O resumed $U/folder/big"),
            ("UTF-8", "f -O utf8 $U/gr%C3%B6%C3%9Fe.txt"),
            ("spaces", "f -O spaces $U/a%20b.txt"),
            ("5 GB", "f -c -O huge $U/huge"),
        ],
    },
    Program {
        name: "tnftp",
        prepare: r#"f() { printf 'open 127.0.0.1 %s\nuser anonymous x@\nbinary\n%s\nquit\n' $P "$1" | tnftp -n -V -i; }"#,
        operations: &[
            ("list", "f ls"),
            ("get", "f 'get folder/big got'"),
            ("put", "f 'put up in/up'"),
            ("resume", "f 'reget folder/big resumed'"),
            ("append", "f 'append tail in/appended'"),
            ("rename", "f 'rename in/old in/new'"),
            ("delete", "f 'delete in/old'"),
            ("mkdir", "f 'mkdir in/made'"),
            ("link", "f 'get link linked'"),
            ("UTF-8", "f 'get größe.txt utf8'"),
            ("spaces", r#"f 'get "a b.txt" spaces'"#),
            ("5 GB", "f 'reget huge huge'"),
        ],
    },
    Program {
        name: "ncftp",
        prepare: r#"get() { ncftpget -V -t 100 -r 1 -P $P 127.0.0.1 . "$1"; }
            put() { ncftpput -V -t 100 -r 1 -P $P "$@"; }"#,
        operations: &[
            ("list", "ncftpls -P $P ftp://127.0.0.1/"),
            ("get", "get folder/big; mv big got"),
            ("put", "put 127.0.0.1 in up"),
            ("resume", "mv resumed big; get folder/big; mv big resumed"),
            ("append", "mv tail appended; put -A 127.0.0.1 in appended"),
            ("delete", "ncftpls -P $P -W 'DELE in/old' ftp://127.0.0.1/"),
            ("mkdir", "put -m 127.0.0.1 in/made up"),
            ("UTF-8", "get größe.txt; mv größe.txt utf8"),
            ("spaces", "get 'a b.txt'; mv 'a b.txt' spaces"),
            ("5 GB", "get huge"),
        ],
    },
    Program {
        name: "aria2c",
        // It does not see a 226 that arrives with the 150, and waits for its time limit at the end of a small file.
        prepare: r#"f() { aria2c -q --no-conf -t 3 -m 1 -s 1 -x 1 --file-allocation=none -c "$@"; }"#,
        operations: &[
            ("get", "f -o got $U/folder/big"),
            ("resume", "f -o resumed $U/folder/big"),
            ("link", "f -o linked $U/link"),
            ("UTF-8", "f -o utf8 $U/gr%C3%B6%C3%9Fe.txt"),
            ("spaces", "f -o spaces $U/a%20b.txt"),
            ("5 GB", "f -o huge $U/huge"),
        ],
    },
    Program {
        name: "rclone",
        // The password is `x`, as rclone obscures it.
        prepare: r#"export RCLONE_FTP_HOST=127.0.0.1 RCLONE_FTP_PORT=$P RCLONE_FTP_USER=anonymous RCLONE_FTP_PASS=fYo8WUpCJ4x6bDpkYFJzYNs
            f() { rclone --config '' --retries 1 "$@"; }"#,
        operations: &[
            ("list", "f lsf :ftp:"),
            ("get", "f copyto :ftp:folder/big got"),
            ("put", "f copyto up :ftp:in/up"),
            ("rename", "f moveto :ftp:in/old :ftp:in/new"),
            ("delete", "f deletefile :ftp:in/old"),
            ("mkdir", "f mkdir :ftp:in/made"),
            ("link", "f copyto :ftp:link linked"),
            ("UTF-8", "f copyto :ftp:größe.txt utf8"),
            ("spaces", "f copyto ':ftp:a b.txt' spaces"),
        ],
    },
    Program {
        name: "ftplib",
        prepare: r#"f() { /usr/bin/python3 -c "
import ftplib, os
ftp = ftplib.FTP(timeout=100)
ftp.connect('127.0.0.1', $P)
ftp.login()
def get(name, to, rest=False):
    with open(to, 'ab') as file:
        ftp.retrbinary('RETR ' + name, file.write, rest=file.tell() if rest else None)
$1
ftp.quit()"; }"#,
        operations: &[
            ("list", "f \"ftp.retrlines('LIST')\""),
            ("get", "f \"get('folder/big', 'got')\""),
            ("put", "f \"ftp.storbinary('STOR in/up', open('up', 'rb'))\""),
            ("resume", "f \"get('folder/big', 'resumed', True)\""),
            ("append", "f \"ftp.storbinary('APPE in/appended', open('tail', 'rb'))\""),
            ("rename", "f \"ftp.rename('in/old', 'in/new')\""),
            ("delete", "f \"ftp.delete('in/old')\""),
            ("mkdir", "f \"ftp.mkd('in/made')\""),
            ("link", "f \"get('link', 'linked')\""),
            ("UTF-8", "f \"get('größe.txt', 'utf8')\""),
            ("spaces", "f \"get('a b.txt', 'spaces')\""),
            ("5 GB", "f \"get('huge', 'huge', True)\""),
        ],
    },
];

const OUR_CLIENT: Program = Program {
    name: "braidftp",
    prepare: r#"f() { "$B" "$@" --plain -q; }
        get() { f get "$U/$1" -o . ; }"#,
    operations: &[
        ("list", r#""$B" ls --plain $U/"#),
        ("get", "get folder/big; mv big got"),
        ("put", "f put up $U/in/"),
        ("rename", "f mv $U/in/old $U/in/new"),
        ("delete", "f rm $U/in/old"),
        ("mkdir", "f mkdir $U/in/made"),
        ("link", "get link; mv link linked"),
        ("UTF-8", "get größe.txt; mv größe.txt utf8"),
        ("spaces", "get 'a b.txt'; mv 'a b.txt' spaces"),
    ],
};

/// Faults of other programs: the program, the operation, and the sentence that says who breaks what.
const FAULTS: &[(&str, &str, &str)] = &[(
    "ProFTPD",
    "link",
    "MLST describes a symbolic link as the file that it leads to (type=file), with the size of the link's text (RFC 3659 §7.5.7); \
     our client takes no more than the announced size",
)];

/// Adds what the operations need to a room.
fn furnish(room: &Room) {
    fs::write(room.path("tree/a b.txt"), "spaces").unwrap();
    fs::write(room.path("tree/größe.txt"), "UTF-8").unwrap();
    std::os::unix::fs::symlink(BIG, room.path("tree/link")).unwrap();
    huge(&room.path("tree/huge"), &pattern()[..REST_BYTES]);
}

/// A file that is a hole but for its end.
fn huge(path: &Path, end: &[u8]) {
    let mut file = File::create(path).unwrap();
    file.set_len(HUGE_BYTES - REST_BYTES as u64).unwrap();
    file.seek(SeekFrom::End(0)).unwrap();
    file.write_all(end).unwrap();
}

/// The files of both sides before an operation.
fn begin(room: &Room, operation: &str) {
    for folder in ["tree/in", "here"] {
        for entry in fs::read_dir(room.path(folder)).unwrap() {
            let path = entry.unwrap().path();
            fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path)).unwrap();
        }
    }
    fs::write(room.path("tree/in/old"), "old").unwrap();
    fs::write(room.path("tree/in/appended"), "head and ").unwrap();
    fs::write(room.path("here/up"), pattern()).unwrap();
    fs::write(room.path("here/tail"), "tail").unwrap();
    room.partial("here/resumed");
    if operation == "5 GB" {
        huge(&room.path("here/huge"), b"");
    }
}

/// Whether the operation was done.
fn check(room: &Room, operation: &str, said: &str) -> Outcome {
    let holds = |name: &str, content: &str| match fs::read_to_string(room.path(name)) {
        Ok(text) if text == content => Ok(()),
        other => Err(format!("{name}: {other:?}")),
    };
    let is = |right: bool, why: &str| if right { Ok(()) } else { Err(why.to_owned()) };
    let there = |name: &str| room.path(name).exists();
    match operation {
        "list" => is(said.contains("one") && said.contains("folder"), said),
        "get" => room.is_whole("here/got"),
        "put" => room.is_whole("tree/in/up"),
        "resume" => room.is_whole("here/resumed"),
        "append" => holds("tree/in/appended", "head and tail"),
        "rename" => is(!there("tree/in/old"), "it is still there").and_then(|()| holds("tree/in/new", "old")),
        "delete" => is(!there("tree/in/old"), "it is still there"),
        "mkdir" => is(room.path("tree/in/made").is_dir(), "there is no folder"),
        "link" => room.is_whole("here/linked"),
        "UTF-8" => holds("here/utf8", "UTF-8"),
        "spaces" => holds("here/spaces", "spaces"),
        _ => {
            let mut file = File::open(room.path("here/huge")).map_err(|error| error.to_string())?;
            let mut end = Vec::new();
            let length = file.metadata().unwrap().len();
            file.seek(SeekFrom::Start(HUGE_BYTES - REST_BYTES as u64)).unwrap();
            file.take(2 * REST_BYTES as u64).read_to_end(&mut end).unwrap();
            is(length == HUGE_BYTES && end == pattern()[..REST_BYTES], &format!("it has {length} bytes"))
        }
    }
}

/// Runs all operations of a program; an outcome for each, `None` for what it does not have.
fn row(program: &Program, room: &Room, port: u16, user: &str) -> Vec<Option<Outcome>> {
    let one = |operation: &str| {
        let (_, line) = program.operations.iter().find(|(name, _)| *name == operation)?;
        begin(room, operation);
        let mut shell = Command::new("sh");
        shell.args(["-ec", &format!("{}\n{line}", program.prepare)]).current_dir(room.path("here"));
        shell.env("HOME", room.path("home")).env("P", port.to_string()).env("LC_ALL", "C.UTF-8");
        shell.env("U", format!("ftp://127.0.0.1:{port}")).env("B", env!("CARGO_BIN_EXE_braidftp"));
        shell.env("BRAIDFTP_USER", user).env("BRAIDFTP_PASSWORD", "secret");
        let outcome = run(&mut shell).and_then(|said| check(room, operation, &said));
        if let Err(why) = &outcome {
            println!("{user} {} {operation}: {why}", program.name);
        }
        Some(outcome)
    };
    OPERATIONS.map(one).into()
}

/// Prints the table; fails if an operation fails without a known fault, or one with a known fault succeeds.
fn judge(title: &str, rows: &[(&str, Option<Vec<Option<Outcome>>>)]) {
    println!("\n{title}\n  {:<10} {}", "", OPERATIONS.map(|name| format!("{name:<6}")).join(" "));
    let mut wrong = Vec::new();
    for (name, cells) in rows {
        let Some(cells) = cells else {
            assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "{name} is not there");
            println!("  {name:<10} LEFT OUT: it is not there; cargo xtask test interop-ftp installs it");
            continue;
        };
        let mut shown = Vec::new();
        for (operation, cell) in OPERATIONS.iter().zip(cells) {
            let fault = FAULTS.iter().find(|(whose, what, _)| whose == name && what == operation);
            shown.push(match (cell, fault) {
                (None, _) => "-",
                (Some(Ok(())), None) => "good",
                (Some(Err(_)), Some(_)) => "theirs",
                (Some(Ok(())), Some(_)) => {
                    wrong.push(format!("{name} {operation}: it holds, and is among the faults"));
                    "fault?"
                }
                (Some(Err(why)), None) => {
                    wrong.push(format!("{name} {operation}: {why}"));
                    "WRONG"
                }
            });
        }
        println!(
            "  {name:<10} {}",
            shown.iter().map(|cell| format!("{cell:<6}")).collect::<Vec<_>>().join(" ")
        );
    }
    for (name, operation, sentence) in FAULTS {
        println!("  {name}, {operation}: {sentence}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_client_does_each_operation_with_our_server() {
    let ours = Ours::new("");
    furnish(&ours.room);
    fs::create_dir(ours.room.path("home")).unwrap();
    let port = ours.address(Way::Plain, IpAddr::V4(Ipv4Addr::LOCALHOST)).port();
    let rows: Vec<_> = CLIENTS
        .iter()
        .map(|program| {
            let is_there = match program.name {
                "ftplib" => python("ftplib").is_some(),
                "ncftp" => is_installed("ncftpget"),
                name => is_installed(name),
            };
            (program.name, is_there.then(|| row(program, &ours.room, port, ANONYMOUS)))
        })
        .collect();
    judge("each client and our server, over TCP", &rows);
}

#[test]
fn our_client_does_each_operation_with_each_server() {
    let servers: [(&str, &str, Start); 4] = [
        ("vsftpd", ANONYMOUS, vsftpd),
        ("ProFTPD", JOE, proftpd),
        ("Pure-FTPd", JOE, pure_ftpd),
        ("pyftpdlib", JOE, pyftpdlib),
    ];
    let rows: Vec<_> = servers
        .into_iter()
        .map(|(name, user, start)| {
            let room = Room::new();
            furnish(&room);
            fs::create_dir(room.path("home")).unwrap();
            let address = free(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let cells = start(&room, Way::Plain, address).map(|mut command| {
                let _running = served(&mut command, address).unwrap();
                row(&OUR_CLIENT, &room, address.port(), user)
            });
            (name, cells)
        })
        .collect();
    judge("our client and each server, over TCP", &rows);
}
