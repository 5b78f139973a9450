//! Attacks by commands: long and endless ones.

use super::*;

pub(super) fn long_words(_: Row) {
    let (folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    let of = |bytes: usize| "x".repeat(bytes);
    control.command(&format!("CWD {}", of(limit(Row::CommandLine, &quick()))), "500");
    let name = limit(Row::NameBytes, &quick());
    control.command(&format!("MKD {}", of(name)), "257");
    control.command(&format!("MKD {}", of(name + 1)), "553");
    let path = vec![of(200); limit(Row::PathBytes, &quick()) / 200 + 1].join("/");
    control.command(&format!("MKD {path}"), "553");
    control.command("NOOP", "200");
    assert_eq!(folder.names().len(), 1);
}

pub(super) fn commands_without_end(_: Row) {
    let (_folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    control.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let line = b"NOOP\r\n".repeat(10_000);
    let mut written = 0;
    // Until the server, and the sockets in between, accept no more.
    while let Ok(bytes) = control.stream.write(&line) {
        written += bytes;
        assert!(written < 64 << 20, "it reads on, though nobody takes its replies");
    }
    // None is lost: there are as many replies as commands.
    let whole = written / 6;
    (0..whole).for_each(|_| assert!(control.reply().starts_with("200")));

    // After a command that does not end: a transfer that nobody reads.
    let (folder, served) = with(quick());
    folder.put("big", pattern(64 << 20));
    let mut control = Control::anonymous(&served);
    let unread = control.begin("RETR big");
    control.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut written = 0;
    while let Ok(bytes) = control.stream.write(&line) {
        written += bytes;
        assert!(written < 64 << 20, "it reads on, though no command is begun");
    }
    drop(unread);
}

/// The shortest commands, after one that does not end: their number is the limit, not their bytes.
pub(super) fn short_commands(row: Row) {
    let (settings, address) = (quick(), SocketAddr::from(([127, 0, 0, 1], 21)));
    let most = limit(row, &settings);
    let carrier = machine::Carrier::Tcp { local: address, peer: address };
    let mut session = machine::Session::new(settings.session.clone(), carrier, Time::ZERO);
    let mut say = |lines: &[u8]| {
        session.handle(Time::ZERO, machine::Input::Received(Bytes::copy_from_slice(lines)));
        while !matches!(session.poll(Time::ZERO), Output::Wait(_)) {}
        session.wants_input()
    };
    // The password check never ends.
    assert!(say(b"USER anonymous\r\nPASS x\r\n"));
    let taken = 1 + (0..10 * most).take_while(|_| say(b"NOOP\r\n")).count();
    // PASS is the first command, and the last one fills the window.
    assert_eq!(taken + 1, most);
    assert!(6 * most < limit(Row::CommandBytesAhead, &settings));
}

pub(super) fn lines_without_end(row: Row) {
    in_tokio(async {
        // The buffers of both sides stay small, so that replies soon wait in the server.
        let sctp = Profile::Modern.config().with(|c| {
            c.memory.send_buffer_bytes = 64 << 10;
            c.memory.send_buffer_max_bytes = None;
        });
        let served = sctp_server(Settings { sctp, ..quick() }, |_| {});
        let config = streams(3).with(|c| {
            c.memory.receive_buffer_bytes = 64 << 10;
            c.memory.receive_buffer_max_bytes = None;
            c.memory.send_buffer_bytes = 64 << 10;
            c.memory.send_buffer_max_bytes = None;
        });
        let (_endpoint, association) = connect(served.address, config);
        say(&association, LOG_IN).await;
        let lines = Bytes::from(b"NOOP\r\n".repeat(2_000));
        // Until the window is closed: the probes of a closed window (RFC 9260 §6.1 A) still carry a chunk each, ten a second.
        const FASTER_THAN_PROBES: usize = 64 << 10;
        let (mut sent, mut before) = (0, None);
        while before.is_none_or(|before| sent - before >= FASTER_THAN_PROBES) {
            before = Some(sent);
            let end = tokio::time::Instant::now() + Duration::from_secs(2);
            while tokio::time::timeout_at(end, say(&association, lines.clone())).await.is_ok() {
                sent += lines.len();
                assert!(sent < 256 << 20, "it reads on, though nobody takes its replies");
            }
        }
        let held = limit(row, &quick()) + limit(Row::SctpMemory, &quick());
        assert!(served.endpoint.memory_bytes() < held);
    });
}
