//! The server over TCP with manual commands: pipelining, the attacks of RFC 2577, and failures in the middle
//! of transfers.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use crate::server_support::{
    Control, Folder, PATIENCE, connect_from, eventually, pattern, quick, serve, serve_with, session,
};
use braidftp::server::Settings;
use braidftp::store::fs::Root;
use braidftp::users::{Access, Users};

const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

#[test]
fn fifty_commands_in_one_write_are_answered_in_their_order() {
    let folder = Folder::new();
    for i in 0..50 {
        folder.put(format!("f{i}"), "x".repeat(i));
    }
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let all: String = (0..50).map(|i| format!("SIZE f{i}\r\n")).collect();
    control.send_bytes(all.as_bytes());
    for i in 0..50 {
        assert_eq!(control.reply(), format!("213 {i}\r\n"));
    }
}

#[test]
fn commands_behind_a_transfer_wait_for_it_and_none_is_lost() {
    let folder = Folder::new();
    let bytes = pattern(20_000_000);
    folder.put("large", &bytes);
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let address = control.passive();
    // RETR, SIZE, NOOP and EPSV in one write.
    control.send_bytes(b"RETR large\r\nSIZE large\r\nNOOP\r\nEPSV\r\nRETR large\r\n");
    let mut data = connect_from(address, None);
    control.expect("150");
    let mut got = vec![0; 1_000_000];
    data.read_exact(&mut got).unwrap();
    // Another one in the middle of the transfer.
    control.send_bytes(b"SIZE large\r\n");
    data.read_to_end(&mut got).unwrap();
    assert!(got == bytes);
    control.expect("226");
    control.expect("213 20000000");
    control.expect("200");
    let reply = control.expect("229");
    let mut data = connect_from(control.passive_of(&reply), None);
    control.expect("150");
    let mut again = Vec::new();
    data.read_to_end(&mut again).unwrap();
    assert!(again == bytes);
    control.expect("226");
    control.expect("213");
}

#[test]
fn a_flood_of_commands_is_left_unread_and_answered_all_the_same() {
    let folder = Folder::new();
    folder.put("f", "x");
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let mut writer = control.stream.try_clone().unwrap();
    // 2 MB of commands whose replies are not read at first.
    let flood = std::thread::spawn(move || {
        for _ in 0..200 {
            writer.write_all("SIZE f\r\nNOOP\r\n".repeat(750).as_bytes()).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    for _ in 0..200 * 750 {
        assert_eq!(control.reply(), "213 1\r\n");
        control.expect("200");
    }
    flood.join().unwrap();
}

#[test]
fn type_a_has_crlf_on_the_wire_and_lf_on_the_disk() {
    let folder = Folder::new();
    folder.put("f", "one\ntwo\r\nthree");
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    control.command("TYPE A", "200");
    assert_eq!(control.fetch("RETR f").0, b"one\r\ntwo\r\nthree");
    assert!(control.store("STOR g", b"one\r\ntwo\rthree\r").starts_with("226"));
    assert_eq!(folder.read("g"), b"one\ntwo\rthree\r");
    control.command("SIZE f", "550");
}

#[test]
fn rest_resumes_both_ways_and_beyond_the_end_is_refused() {
    let folder = Folder::new();
    folder.put("f", "0123456789");
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    control.command("REST 4", "350");
    assert_eq!(control.fetch("RETR f").0, b"456789");
    assert_eq!(control.fetch("RETR f").0, b"0123456789", "REST counts once");
    control.command("REST 11", "350");
    assert!(control.fetch("RETR f").1.starts_with("554"));
    control.command("REST 5", "350");
    assert!(control.store("STOR f", b"new").starts_with("226"));
    assert_eq!(folder.read("f"), b"01234new");
    control.command("REST 99", "350");
    assert!(control.store("STOR f", b"x").starts_with("554"));
    assert_eq!(folder.read("f"), b"01234new");
    assert!(control.store("APPE f", b"!").starts_with("226"));
    assert_eq!(folder.read("f"), b"01234new!");
    let stou = control.store("STOU", b"unique");
    assert!(stou.starts_with("226") || stou.starts_with("250"), "{stou}");
    assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
}

#[test]
fn a_data_port_serves_the_control_peer_once() {
    let folder = Folder::new();
    folder.put("f", "mine");
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let address = control.passive();
    // A stranger connects first, and receives nothing.
    let mut stranger = connect_from(address, Some(OTHER));
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    control.send("RETR f");
    let mut data = connect_from(address, None);
    control.expect("150");
    let mut got = Vec::new();
    data.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"mine");
    control.expect("226");
    let mut nothing = Vec::new();
    let _ = stranger.read_to_end(&mut nothing);
    assert!(nothing.is_empty());
    // The port is closed after the transfer.
    assert!(std::net::TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err());
}

#[test]
fn an_unopened_data_connection_is_refused_with_425_in_time() {
    let folder = Folder::new();
    folder.put("f", "x");
    let served = serve_with(folder.root(), |builder| {
        builder.settings(Settings { data_open: Duration::from_millis(200), ..quick() })
    });
    let mut control = Control::anonymous(&served);
    control.passive();
    control.send("RETR f");
    let reply = control.reply();
    let last = if reply.starts_with("150") { control.reply() } else { reply };
    assert!(last.starts_with("425"), "{last}");
    let none = control.command("RETR f", "425");
    assert!(none.starts_with("425"), "without EPSV there is nowhere to send: {none}");
    control.command("NOOP", "200");
}

#[test]
fn nobody_is_bounced_to() {
    let folder = Folder::new();
    folder.put("f", "x");
    let victim = TcpListener::bind("127.0.0.1:0").unwrap();
    victim.set_nonblocking(true).unwrap();
    let port = victim.local_addr().unwrap().port();
    let eprt = |ip: &str, port: u16| format!("EPRT |1|{ip}|{port}|");
    let refused = |reply: &str| ["500", "501", "502", "504", "522"].contains(&&reply[..3]);

    // By default active mode is disabled.
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    control.send(&eprt("127.0.0.1", port));
    let reply = control.reply();
    assert!(refused(&reply), "{reply}");

    // If it is enabled, it connects to the control peer's address only, and to no port below 1024.
    let served = serve_with(folder.root(), |builder| {
        builder.settings(session(|config| config.active = braidftp_ftp::server::Active::ToPeer))
    });
    let mut stranger = Control::open_from(&served, Some(OTHER));
    stranger.command("USER anonymous", "331");
    stranger.command("PASS x@", "230");
    for line in [
        eprt("127.0.0.1", port),
        eprt("127.0.0.2", 25),
        format!("PORT 127,0,0,1,{},{}", port >> 8, port & 255),
    ] {
        stranger.send(&line);
        let reply = stranger.reply();
        assert!(refused(&reply), "{line}: {reply}");
        stranger.send("RETR f");
        let reply = stranger.reply();
        assert!(reply.starts_with("425") || reply.starts_with("503"), "{reply}");
    }
    assert!(victim.accept().is_err(), "nobody came");

    // And works for a client that gives its own address.
    let mut control = Control::anonymous(&served);
    victim.set_nonblocking(false).unwrap();
    control.command(&eprt("127.0.0.1", port), "200");
    control.send("RETR f");
    let (mut data, _) = victim.accept().unwrap();
    let mut got = String::new();
    data.read_to_string(&mut got).unwrap();
    assert_eq!(got, "x");
    control.expect("150");
    control.expect("226");
}

#[test]
fn nothing_outside_the_root_has_a_name() {
    let folder = Folder::new();
    folder.put("in/f", "x");
    symlink("../secret", folder.path("out")).unwrap();
    symlink("..", folder.path("up")).unwrap();
    symlink("/etc", folder.path("abs")).unwrap();
    symlink("in", folder.path("inside")).unwrap();
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    for path in ["../secret", "/../secret", "in/../../secret", "out", "up/secret", "abs/passwd"] {
        assert!(control.fetch(&format!("RETR {path}")).1.starts_with("550"), "{path}");
        control.command(&format!("SIZE {path}"), "550");
        let stored = control.store(&format!("STOR {path}x"), b"");
        if stored.starts_with("226") {
            // `..` stops at the root: the file was written within it.
            assert!(folder.path(format!("{}x", path.rsplit('/').next().unwrap())).exists(), "{path}");
        }
    }
    assert!(!folder.outer.path().join("secretx").exists());
    for folder in ["up", "abs", "out"] {
        control.command(&format!("CWD {folder}"), "550");
        assert!(control.fetch(&format!("MLSD {folder}")).1.starts_with('5'), "{folder}");
    }
    control.command("CWD ..", "250");
    let pwd = control.command("PWD", "257");
    assert!(pwd.starts_with("257 \"/\""), "{pwd}");
    assert_eq!(control.fetch("RETR inside/f").0, b"x", "a link that stays inside is followed");
    control.command("SITE SYMLINK ../../etc escape", "55");
    assert!(!folder.path("escape").exists());
    assert_eq!(std::fs::read(folder.outer.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn a_file_gets_another_name_within_the_root_and_a_new_upload_takes_it_away() {
    let folder = Folder::new();
    folder.put("in/a b", "content");
    folder.put("old", "old");
    std::fs::write(folder.outer.path().join("secret"), b"secret").unwrap();
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    control.command("SITE HARDLINK in/a%20b old", "200");
    control.command("SITE HARDLINK in/a%20b in/new name", "200");
    let inode =
        |name: &str| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(folder.path(name)).unwrap());
    assert!(inode("in/a b") == inode("old") && inode("in/a b") == inode("in/new name"));
    control.command("SITE HARDLINK /../secret x", "550");
    control.command("SITE HARDLINK old /../../x", "200");
    assert!(folder.path("x").exists() && !folder.outer.path().join("x").exists(), "`..` stops at the root");
    control.command("SITE HARDLINK old in", "550");
    control.command("SITE HARDLINK in y", "550");
    control.command("SITE HARDLINK / y", "550");
    assert!(control.store("STOR old", b"another").starts_with("226"));
    assert_eq!(std::fs::read(folder.path("in/a b")).unwrap(), b"content");
    let read_only = Folder::new();
    read_only.put("a", "content");
    let served = serve_with(read_only.root(), |builder| builder.access(Access::ReadOnly));
    Control::anonymous(&served).command("SITE HARDLINK a b", "550");
    assert!(!read_only.path("b").exists());
}

#[test]
fn bytes_that_are_no_command_are_refused_and_cost_nothing() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    for line in
        [&b"RETR a\0b\r\n"[..], b"MKD a\rb\r\n", b"\r\n", b"\x80\x81\r\n", b"STOR\r\n", b"REST -1\r\n"]
    {
        control.send_bytes(line);
        let reply = control.reply();
        assert!(reply.starts_with('5'), "{line:?}: {reply}");
    }
    // An endless line: refused once, then the session continues.
    control.send_bytes(&vec![b'a'; 10_000_000]);
    control.send_bytes(b"\r\nNOOP\r\n");
    let reply = control.reply();
    assert!(reply.starts_with("500"), "{reply}");
    control.expect("200");
    assert!(folder.names().is_empty());
}

#[test]
fn the_names_of_unfinished_files_are_refused() {
    let folder = Folder::new();
    folder.put(".f.braidftp-part", "half");
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    assert!(control.fetch("RETR .f.braidftp-part").1.starts_with("553"));
    control.command("DELE .f.braidftp-part", "553");
    assert_eq!(control.fetch("NLST").0, b"");
    let mlsd = control.fetch("MLSD").0;
    assert!(!String::from_utf8(mlsd).unwrap().contains("braidftp-part"));
}

#[test]
fn without_write_access_nothing_changes() {
    let folder = Folder::new();
    folder.put("f", "x");
    let served = serve_with(folder.root(), |builder| builder);
    let mut control = Control::anonymous(&served);
    for line in ["DELE f", "MKD d", "RNFR f\r\nRNTO g", "SITE CHMOD 777 f", "MFMT 20200101000000 f"] {
        control.send(line);
        for _ in line.lines() {
            let reply = control.reply();
            assert!(reply.starts_with('5') || reply.starts_with("350"), "{line}: {reply}");
        }
    }
    for line in ["STOR g", "APPE f", "STOU"] {
        assert!(control.store(line, b"new").starts_with("550"), "{line}");
    }
    assert_eq!((folder.names(), folder.read("f")), (vec!["f".to_owned()], b"x".to_vec()));
}

#[test]
fn users_see_their_homes_and_a_wrong_password_sees_nothing() {
    let folder = Folder::new();
    folder.put("anna/mine", "anna's");
    folder.put("other", "not hers");
    symlink("../other", folder.path("anna/link")).unwrap();
    let hash = Users::hash(b"pass word").unwrap();
    let text = format!("[[user]]\nname='anna'\nhash='{hash}'\nhome='anna'\nwritable=true");
    let users = Users::parse(&text, Access::ReadOnly).unwrap();
    let served = serve_with(folder.root(), |builder| builder.users(users));
    let mut control = Control::open(&served);
    control.command("SIZE mine", "530");
    control.command("USER anonymous", "331");
    control.command("PASS x@", "530");
    control.command("USER anna", "331");
    let begin = Instant::now();
    control.command("PASS wrong", "530");
    assert!(begin.elapsed() >= Duration::from_millis(250), "the second failure is answered later");
    control.command("USER anna", "331");
    control.command("PASS pass word", "230");
    control.command("TYPE I", "200");
    control.command("SIZE /mine", "213 6");
    control.command("SIZE link", "550");
    control.command("SIZE /../other", "550");
    assert!(control.store("STOR new", b"x").starts_with("226"));
    assert!(folder.path("anna/new").exists());
}

#[test]
fn sessions_are_counted() {
    let folder = Folder::new();
    let served = serve_with(folder.root(), |builder| {
        builder.settings(Settings { max_sessions_per_address: 2, ..quick() })
    });
    let _one = Control::anonymous(&served);
    let two = Control::anonymous(&served);
    let mut third = connect_from(served.address, None);
    let mut said = String::new();
    third.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("421"), "{said}");
    let _elsewhere = Control::open_from(&served, Some(OTHER));
    drop(two);
    eventually("the place is free again", || {
        let mut stream = connect_from(served.address, None);
        let mut first = [0; 3];
        stream.read_exact(&mut first).unwrap();
        &first == b"220"
    });
}

#[test]
fn silent_sessions_before_their_login_do_not_block_others() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let address = |host| Some(IpAddr::from([127, 0, 0, host]));
    let mut silent: Vec<Control> = (2..=5)
        .flat_map(|host| (0..50).map(move |_| host))
        .map(|host| Control::open_from(&served, address(host)))
        .collect();
    let mut fresh = Control::open_from(&served, address(6)).log_in();
    let mut beside = Control::open_from(&served, address(2)).log_in();
    silent[0].expect("421");
    assert!(silent[0].is_closed());
    for control in [&mut fresh, &mut beside, &mut silent[199]] {
        control.send("NOOP");
    }
    fresh.expect("200");
    beside.expect("200");
    silent[199].expect("200");
}

#[test]
fn a_session_that_says_nothing_ends() {
    let folder = Folder::new();
    let served = serve_with(folder.root(), |builder| {
        builder.settings(session(|config| config.idle = Duration::from_millis(200)))
    });
    let mut control = Control::open(&served);
    control.expect("421");
    assert!(control.is_closed());
}

#[test]
fn a_file_that_shrinks_while_sent_is_451_and_one_that_grows_is_sent_as_it_was() {
    let folder = Folder::new();
    let bytes = pattern(30_000_000);
    folder.put("f", &bytes);
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let mut data = control.begin("RETR f");
    data.read_exact(&mut [0; 1000]).unwrap();
    // The server waits for us: kernel buffers hold at most a few megabytes.
    std::fs::OpenOptions::new().write(true).open(folder.path("f")).unwrap().set_len(1000).unwrap();
    let mut rest = Vec::new();
    let end = data.read_to_end(&mut rest);
    control.expect("451");
    assert!(end.is_err(), "a reset, not an end of file");
    assert!(rest.len() < bytes.len());

    folder.put("f", &bytes);
    let mut data = control.begin("RETR f");
    data.read_exact(&mut [0; 1000]).unwrap();
    std::fs::OpenOptions::new().append(true).open(folder.path("f")).unwrap().write_all(b"more").unwrap();
    let mut rest = Vec::new();
    data.read_to_end(&mut rest).unwrap();
    control.expect("226");
    assert!(rest == bytes[1000..]);
}

#[test]
fn a_client_whose_data_connection_ends_first_when_it_is_killed_replaces_no_file() {
    let folder = Folder::new();
    folder.put("f", "the good old one");
    let served = serve_with(folder.root(), |builder| builder.access(Access::Writable).settings(quick()));
    // Data is closed first, control a moment later: with an announced size, and without.
    for (told, sent) in [(None, &b"half"[..]), (None, b""), (Some(9), b"half"), (Some(9), b"")] {
        let mut control = Control::anonymous(&served);
        if let Some(size) = told {
            control.command(&format!("ALLO {size}"), "200");
        }
        let mut data = control.begin("STOR f");
        data.write_all(sent).unwrap();
        drop(data);
        if told.is_some() {
            // The size decides, whether or not the client is alive.
            control.expect("426");
        } else {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(control);
        // Longer than the server observes the control connection; a file that is renamed later fails the next
        // round.
        std::thread::sleep(Duration::from_millis(400));
        assert_eq!(folder.read("f"), b"the good old one", "{told:?} {sent:?}");
    }
    let mut control = Control::anonymous(&served);
    control.command("ALLO 3", "200");
    assert!(control.store("STOR f", b"new").starts_with("226"));
    // More than announced, and nothing announced for the next one.
    control.command("ALLO 1", "200");
    assert!(control.store("STOR f", b"newer").starts_with("226"));
    assert!(control.store("STOR f", b"").starts_with("226"));
    assert_eq!(folder.read("f"), b"");
}

#[test]
fn a_client_that_is_killed_in_an_upload_leaves_no_file_and_can_go_on() {
    let folder = Folder::new();
    let bytes = pattern(5_000_000);
    let served = serve_with(folder.root(), |builder| {
        builder.access(Access::Writable).settings(Settings { max_sessions_per_address: 1, ..quick() })
    });
    let mut control = Control::anonymous(&served);
    let mut data = control.begin("STOR f");
    data.write_all(&bytes[..3_000_000]).unwrap();
    let kept = || std::fs::metadata(folder.path(".f.braidftp-part")).map_or(0, |m| m.len());
    eventually("all but the last block is on the disk", || kept() >= 2_500_000);
    // As the kernel does for a killed process: both connections are closed gracefully, control first.
    drop(control);
    drop(data);
    // The session has ended when there is room for another.
    let mut room = None;
    eventually("the session ends", || {
        room = Control::try_open(&served);
        room.is_some()
    });
    assert_eq!(folder.names(), [".f.braidftp-part"]);

    let mut control = room.unwrap().log_in();
    let kept = kept();
    control.command(&format!("REST {kept}"), "350");
    assert!(control.store("STOR f", &bytes[kept as usize..]).starts_with("226"));
    assert!(folder.read("f") == bytes);
    assert_eq!(folder.names(), ["f"]);
}

#[test]
fn a_data_connection_that_breaks_is_426_and_no_file() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let mut data = control.begin("STOR f");
    data.write_all(&pattern(100_000)).unwrap();
    socket2::SockRef::from(&data).set_linger(Some(Duration::ZERO)).unwrap();
    drop(data);
    control.expect("426");
    assert!(!folder.path("f").exists());
}

#[test]
fn abor_stops_a_transfer_and_the_session_goes_on() {
    let folder = Folder::new();
    folder.put("f", pattern(30_000_000));
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let mut data = control.begin("RETR f");
    data.read_exact(&mut [0; 1000]).unwrap();
    // After TELNET's Interrupt Process and Synch, as in RFC 959 §4.1.3.
    control.send_bytes(b"\xff\xf4\xff\xf2ABOR\r\n");
    control.expect("426");
    control.expect("226");
    assert!(data.read_to_end(&mut Vec::new()).is_err(), "reset");
    control.command("SIZE f", "213");
}

#[test]
fn stop_finishes_running_transfers_and_refuses_new_sessions() {
    let folder = Folder::new();
    let bytes = pattern(20_000_000);
    folder.put("f", &bytes);
    let served = serve(folder.root());
    let mut idle = Control::anonymous(&served);
    let mut control = Control::anonymous(&served);
    let mut data = control.begin("RETR f");
    data.read_exact(&mut [0; 1000]).unwrap();
    served.handle.stop();
    idle.expect("421");
    assert!(idle.is_closed());
    let mut late = String::new();
    let _ = connect_from(served.address, None).read_to_string(&mut late);
    // A connection that was accepted at the same moment is greeted first.
    assert!(late.lines().last().is_some_and(|line| line.starts_with("421 ")), "{late}");
    let mut rest = Vec::new();
    data.read_to_end(&mut rest).unwrap();
    assert!(rest == bytes[1000..]);
    control.expect("226");
    control.expect("421");
    eventually("nobody listens", || {
        std::net::TcpStream::connect_timeout(&served.address, Duration::from_secs(1)).is_err()
    });
}

#[test]
fn stop_leaves_no_half_file() {
    let folder = Folder::new();
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let mut data = control.begin("STOR f");
    data.write_all(&pattern(1_000_000)).unwrap();
    let begin = Instant::now();
    // The upload does not end while data may be absent; the server does.
    drop(served);
    assert!(begin.elapsed() < quick().stall);
    assert!(!folder.path("f").exists(), "{:?}", folder.names());
    drop(data);
}

#[test]
fn a_port_in_use_is_said_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let folder = Folder::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let error = runtime.block_on(async {
        braidftp::server::Server::builder(folder.root())
            .listen(braidftp::server::Listen::Tcp(address))
            .bind()
            .unwrap_err()
            .to_string()
    });
    assert!(
        error.contains("another program has TCP port") && error.contains("choose another port"),
        "{error}"
    );
}

/// A root on its own file system of this size, or `None` if this process may not mount.
fn small_disk(bytes: usize) -> Option<Root> {
    // The mount namespace of a thread: it ends with the thread, the file system with the last open folder.
    std::thread::spawn(move || {
        use rustix::mount::{MountFlags, MountPropagationFlags};
        let folder = tempfile::tempdir().unwrap();
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        // SAFETY: this thread shares no file descriptors that this takes away; it has a mount table of its own from
        // here to its end, and nothing else changes.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.ok()?;
        rustix::mount::mount_change("/", private).ok()?;
        rustix::mount::mount("tmpfs", folder.path(), "tmpfs", MountFlags::empty(), Some(size.as_c_str()))
            .ok()?;
        let root = Root::open(folder.path()).ok();
        rustix::mount::unmount(folder.path(), rustix::mount::UnmountFlags::DETACH).ok()?;
        root
    })
    .join()
    .unwrap()
}

#[test]
fn a_full_disk_is_452_and_keeps_nothing() {
    let Some(root) = small_disk(2_000_000) else {
        eprintln!("SKIPPED: no right to mount a small file system");
        return;
    };
    let served = serve(root.clone());
    let mut control = Control::anonymous(&served);
    let reply = control.store("STOR f", &pattern(5_000_000));
    assert!(reply.starts_with("452"), "{reply}");
    assert_eq!(root.unfinished_bytes(std::path::Path::new("f")).unwrap(), None);
    assert!(root.link_metadata(std::path::Path::new("f")).is_err());
    assert!(control.store("STOR g", &pattern(1_000_000)).starts_with("226"), "there is room for this");
}

#[test]
fn a_folder_that_cannot_be_read_is_an_error_of_its_own() {
    let folder = Folder::new();
    folder.put("open/f", "x");
    folder.put("closed/f", "x");
    std::fs::set_permissions(folder.path("closed"), PermissionsExt::from_mode(0o000)).unwrap();
    // Root reads everything, so the server runs as another user.
    let root = folder.root();
    std::fs::set_permissions(folder.outer.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let served = std::thread::spawn(move || {
        let nobody = rustix::process::Uid::from_raw(65534);
        if rustix::process::getuid().is_root() {
            rustix::thread::set_thread_uid(nobody).ok()?;
        }
        Some(serve(root))
    });
    let Some(served) = served.join().unwrap() else {
        eprintln!("SKIPPED: cannot become somebody else");
        return;
    };
    let mut control = Control::anonymous(&served);
    assert!(control.fetch("MLSD closed").1.starts_with("550"));
    assert_eq!(control.fetch("RETR open/f").0, b"x");
    assert!(control.fetch("RETR closed/f").1.starts_with("550"));
    assert!(String::from_utf8(control.fetch("MLSD").0).unwrap().contains(" closed\r\n"));
    drop(served);
    std::fs::set_permissions(folder.path("closed"), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn sizes_of_addresses_are_returned_by_the_call() {
    let folder = Folder::new();
    folder.put("f", "x");
    let served = serve_with(folder.root(), |builder| {
        builder.settings(Settings {
            passive_ports: Some(24_040..=24_049),
            passive_address: Some(IpAddr::from([192, 0, 2, 1])),
            ..quick()
        })
    });
    let mut control = Control::anonymous(&served);
    let pasv = control.command("PASV", "227");
    assert!(pasv.contains("192,0,2,1,"), "{pasv}");
    let address: SocketAddr = control.passive();
    assert!((24_040..=24_049).contains(&address.port()));
}

#[test]
fn unfinished_uploads_are_listed_and_removed_by_their_owner() {
    let folder = Folder::new();
    folder.put("a/whole", "whole");
    folder.put("a/.f.braidftp-part", "1234");
    folder.put(".g.braidftp-part", "1");
    let served = serve(folder.root());
    let mut control = Control::anonymous(&served);
    let listed = control.command("SITE PARTS", "250");
    assert!(listed.contains("2 unfinished uploads, 5 bytes"), "{listed}");
    assert!(listed.lines().any(|line| line.starts_with(" 4 ") && line.ends_with(" /a/f")), "{listed}");
    control.command("CWD a", "250");
    assert!(control.command("SITE PARTS", "250").contains("1 unfinished uploads, 4 bytes"));
    let removed = control.command("SITE DELPARTS f", "250");
    assert!(removed.contains("removed: 1 ") && removed.contains(" /a/f"), "{removed}");
    assert_eq!(folder.names(), [".g.braidftp-part", "a"]);
    control.command("SITE DELPARTS /", "250");
    assert_eq!(folder.names(), ["a"]);
    assert_eq!(folder.read("a/whole"), b"whole");
    // A user who may only read may list.
    folder.put(".h.braidftp-part", "1");
    let read_only = serve_with(folder.root(), |builder| builder.access(Access::ReadOnly));
    let mut control = Control::anonymous(&read_only);
    assert!(control.command("SITE PARTS /", "250").contains(" /h"));
    control.command("SITE DELPARTS /", "550");
    assert_eq!(folder.names(), [".h.braidftp-part", "a"]);
}

#[test]
fn unfinished_uploads_that_are_too_old_are_removed() {
    let folder = Folder::new();
    folder.put("a/.f.braidftp-part", "1234");
    let settings = Settings { parts_kept: Some(Duration::ZERO), ..quick() };
    let _served = serve_with(folder.root(), |builder| builder.access(Access::Writable).settings(settings));
    eventually("it goes", || !folder.path("a/.f.braidftp-part").exists());
}
