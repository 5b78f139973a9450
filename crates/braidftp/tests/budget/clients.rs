//! Attacks of a server on the client.

use super::*;

/// Runs the program with a server that never stops sending. Returns exit code, standard error, and the
/// server.
fn against(mode: &str, says: Says, command: &[&str]) -> (i32, String, endless::Endless) {
    let room = Room::new();
    let server = endless::serve(mode, says);
    let out = room.folder("out");
    let (verb, more) = command.split_first().unwrap();
    let (url, out_arg) = (server.url(), out.to_str().unwrap().to_owned());
    let mut args = vec![*verb, "--plain", "--mode", mode, "-q"];
    let named = format!("{url}a");
    match *verb {
        "mirror" => args.extend([url.as_str(), &out_arg]),
        "get" => args.extend([named.as_str(), "-o", &out_arg]),
        "rm" => args.extend(["-r", &named]),
        _ => args.push(&url),
    }
    args.extend(more);
    let (code, _, err) = cli(&room.home(), &args);
    assert_ne!(code, 0, "{command:?} in {mode}");
    assert!(client_support::names(&out).iter().all(|name| name == "d"), "{:?}", client_support::names(&out));
    (code, err, server)
}

/// The bytes that sockets and windows between client and server hold.
const BETWEEN: u64 = 32 << 20;

pub(super) fn endless_files(_: Row) {
    let endless = |told| Says { file: File::Endless { told }, ..Says::default() };
    let (_, err, server) = against("tcp", endless(Some(4)), &["get"]);
    assert!(err.contains("more than the 4 bytes that it reported"), "{err}");
    assert!(server.sent() < BETWEEN, "{} bytes", server.sent());
    let (_, err, server) = against("tcp", endless(None), &["get", "--max-size", "1MB"]);
    assert!(err.contains("longer than --max-size, 1000000 bytes"), "{err}");
    assert!(server.sent() < BETWEEN, "{} bytes", server.sent());
    let (code, err, server) = against("braid", endless(Some(4)), &["get"]);
    assert!(code == 14 && err.contains("more than the 4 bytes that it reported"), "{code}: {err}");
    let most = limit(Row::Discarded, &quick()) as u64 + 2 * BETWEEN;
    assert!(server.sent() < most, "{} bytes", server.sent());
}

pub(super) fn endless_listings(_: Row) {
    let endless = Says { tree: Tree::Endless, ..Says::default() };
    let (code, err, _) = against("tcp", endless, &["ls", "--max-entries", "300"]);
    assert!(code == 14 && err.contains("more than 300"), "{code}: {err}");
    let blank = Says { tree: Tree::Blank, ..Says::default() };
    let (code, err, _) = against("tcp", blank, &["ls", "--max-entries", "300"]);
    assert!(code == 14 && err.contains("longer than 1048576 bytes"), "{code}: {err}");
    // In braid the listing is packed: few bytes, and endless lines.
    let (code, err, _) = against("braid", blank, &["ls", "--max-entries", "300"]);
    assert!(code == 14 && err.contains("longer than 1048576 bytes"), "{code}: {err}");
    let (code, err, _) = against("ms", blank, &["ls"]);
    assert!(code == 14 && err.contains("longer than 16 MiB"), "{code}: {err}");
    // A sorted listing is kept in memory until it is complete.
    let (code, err, _) = against("tcp", endless, &["ls"]);
    let most = limit(Row::HeldPaths, &quick()) >> 20;
    assert!(code == 14 && err.contains(&format!("more than {most} MiB")), "{code}: {err}");
    // A reader that does not read: the listing waits in a queue, and then in the server.
    let (room, server) = (Room::new(), endless::serve("tcp", endless));
    let mut reader = client_support::braidftp(&room.home());
    let child = reader
        .args(["ls", "--unsorted", "--plain", "-q", &server.url()])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let mut reader = Ended(child.unwrap());
    let mut before = u64::MAX;
    while before != server.listed() || before == 0 {
        before = server.listed();
        std::thread::sleep(Duration::from_secs(1));
        assert!(reader.0.try_wait().unwrap().is_none(), "the client ended");
    }
    assert!(before < limit(Row::ListingQueue, &quick()) as u64 + 2 * BETWEEN, "{before} bytes");
    drop(reader);
}

pub(super) fn endless_trees(_: Row) {
    let deep = Says { tree: Tree::Deep, ..Says::default() };
    let (_, err, _) = against("tcp", deep, &["mirror"]);
    assert!(err.contains(&format!("deeper than {} levels", limit(Row::Depth, &quick()))), "{err}");
    let long = Says { tree: Tree::LongNames, ..Says::default() };
    let (code, err, _) = against("tcp", long, &["rm"]);
    let most = limit(Row::HeldPaths, &quick()) >> 20;
    assert!(code == 14 && err.contains(&format!("more than {most} MiB")), "{code}: {err}");
}

pub(super) fn endless_replies(_: Row) {
    for (greeting, row) in
        [("220-hello\r\n", Row::Reply), ("220 hello", Row::ReplyLine), ("220-\r\n\r\n", Row::Reply)]
    {
        let says = Says { greeting_again_and_again: Some(greeting), ..Says::default() };
        let (code, err, _) = against("tcp", says, &["ls"]);
        assert!(code == 14 && err.contains(&limit(row, &quick()).to_string()), "{code}: {err}");
    }
}

pub(super) fn endless_errors(row: Row) {
    let most = limit(row, &quick());
    let says = Says { tree: Tree::Nonsense(3 * most as u64), ..Says::default() };
    let (_, err, _) = against("tcp", says, &["mirror"]);
    let lines = err.lines().filter(|line| line.starts_with("braidftp:")).count();
    assert!(lines >= most && lines < most + 10, "{lines} lines");
}
