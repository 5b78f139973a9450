//! The client session: when commands are sent, and how replies are matched.

use braidftp_base::{Output, Time};
use bytes::Bytes;

use super::*;
use crate::command::{Command, Secret, Type};

/// A session whose server is played by the test.
pub(super) struct Dialogue {
    pub(super) session: Session,
    /// Lines sent since the last call of `sent`.
    pub(super) lines: Vec<String>,
    pub(super) events: Vec<Event>,
}

impl Dialogue {
    pub(super) fn new(mode: Mode, pipelining: Pipelining) -> Self {
        let session = Session::new(Config { pipelining, ..Config::new(mode) });
        let mut dialogue = Self { session, lines: Vec::new(), events: Vec::new() };
        if mode != Mode::Braid {
            dialogue.reply("220 hi");
            assert!(matches!(dialogue.take_events()[..], [Event::Greeting(_)]));
        }
        dialogue
    }

    pub(super) fn reply(&mut self, text: &str) {
        self.handle(Input::Received(Bytes::from(format!("{text}\r\n"))));
    }

    pub(super) fn handle(&mut self, input: Input) {
        self.session.handle(input);
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        loop {
            match self.session.poll(Time::ZERO) {
                Output::Send(bytes) => {
                    self.lines.extend(String::from_utf8_lossy(&bytes).lines().map(String::from));
                }
                Output::Event(event) => self.events.push(event),
                Output::Wait(_) => return,
            }
        }
    }

    pub(super) fn take_sent(&mut self) -> Vec<String> {
        self.drain();
        std::mem::take(&mut self.lines)
    }

    pub(super) fn take_events(&mut self) -> Vec<Event> {
        self.drain();
        std::mem::take(&mut self.events)
    }

    pub(super) fn size(&mut self, path: &str) -> Tag {
        self.session.command(Command::Size(arg(path)))
    }

    pub(super) fn get(&mut self, path: &str) -> Tag {
        self.session.transfer(Transfer::Retrieve { path: arg(path), offset: 0 })
    }
}

pub(super) fn arg(path: &str) -> PathArg {
    PathArg::new(path.as_bytes().to_vec()).unwrap()
}

pub(super) fn complete(tag: Tag, bytes: u64) -> Input {
    Input::DataDone(tag, DataResult::Complete(bytes))
}

#[test]
fn nothing_is_sent_before_the_greeting_except_in_braid() {
    for mode in Mode::ALL {
        let mut dialogue =
            Dialogue { session: Session::new(Config::new(mode)), lines: Vec::new(), events: Vec::new() };
        dialogue.session.login(b"u", Secret::new("p")).unwrap();
        dialogue.get("/a");
        let expected = if mode == Mode::Braid { vec!["USER u", "PASS p", "RETR /a"] } else { vec![] };
        assert_eq!(dialogue.take_sent(), expected, "{mode}");
        dialogue.reply("120 in a minute");
        dialogue.reply("220 hi");
        let expected = if mode == Mode::Braid { vec![] } else { vec!["USER u"] };
        assert_eq!(dialogue.take_sent(), expected, "{mode}");
    }
}

#[test]
fn a_login_ends_with_the_deciding_reply() {
    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Deep);
    let tag = dialogue.session.login(b"u", Secret::new("p")).unwrap();
    dialogue.session.command(Command::Noop);
    assert_eq!(dialogue.take_sent(), ["USER u", "PASS p", "NOOP"]);
    dialogue.reply("331 password\r\n230 in");
    assert!(
        matches!(&dialogue.take_events()[..], [Event::Reply(found, reply)] if *found == tag && reply.code == Code::LOGGED_IN)
    );

    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::LockStep);
    dialogue.session.login(b"u", Secret::new("p")).unwrap();
    dialogue.drain();
    dialogue.reply("230 no password needed");
    assert!(matches!(dialogue.take_events()[..], [Event::Reply(..)]));
    dialogue.session.command(Command::Noop);
    assert_eq!(dialogue.take_sent(), ["USER u", "NOOP"]);

    // In braid PASS was sent together with USER; its reply is ignored.
    let mut dialogue = Dialogue::new(Mode::Braid, Pipelining::LockStep);
    let tag = dialogue.session.login(b"u", Secret::new("p")).unwrap();
    dialogue.drain();
    dialogue.reply("220 hi\r\n530 no\r\n503 USER first");
    let heard = dialogue.take_events();
    assert!(
        matches!(&heard[..], [Event::Greeting(_), Event::Reply(found, reply)] if *found == tag && reply.code.number() == 530),
        "{heard:?}"
    );

    let mut session = Session::new(Config::new(Mode::Tcp));
    assert_eq!(session.login(b"u\r\nDELE x", Secret::new("p")), None);
    assert_eq!(session.login(b"u", Secret::new("p\n")), None);
}

#[test]
fn the_greeting_selects_the_level_of_pipelining() {
    for (greeting, expected) in [
        ("220 braidftp ready", vec!["USER u", "PASS p", "SIZE /1", "EPSV"]),
        ("220 (vsFTPd 3.0.3)", vec!["USER u"]),
        ("220 Microsoft FTP Service", vec!["USER u"]),
    ] {
        let config = Config { pipelining: Pipelining::Adaptive, ..Config::new(Mode::Tcp) };
        let mut dialogue = Dialogue { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
        dialogue.session.login(b"u", Secret::new("p")).unwrap();
        dialogue.size("/1");
        dialogue.get("/2");
        assert!(dialogue.take_sent().is_empty());
        dialogue.reply(greeting);
        assert_eq!(dialogue.take_sent(), expected, "{greeting}");
        if expected.len() > 1 {
            continue;
        }
        dialogue.reply("331 password");
        let expected =
            if greeting.contains("Microsoft") { vec!["PASS p"] } else { vec!["PASS p", "SIZE /1", "EPSV"] };
        assert_eq!(dialogue.take_sent(), expected, "{greeting}");
    }
}

#[test]
fn each_level_pipelines_as_far_as_permitted() {
    for (pipelining, expected) in [
        (Pipelining::LockStep, vec!["SIZE /1"]),
        (Pipelining::Metadata, vec!["SIZE /1", "SIZE /2", "EPSV"]),
        (Pipelining::Deep, vec!["SIZE /1", "SIZE /2", "EPSV"]),
    ] {
        let mut dialogue = Dialogue::new(Mode::Tcp, pipelining);
        dialogue.size("/1");
        dialogue.size("/2");
        dialogue.get("/3");
        dialogue.size("/4");
        assert_eq!(dialogue.take_sent(), expected, "{pipelining:?}");
        dialogue.reply("213 1");
        if pipelining == Pipelining::LockStep {
            assert_eq!(dialogue.take_sent(), ["SIZE /2"]);
        }
        dialogue.reply("213 2");
        // No EPSV has succeeded yet, so this time even `Deep` sends line by line.
        let expected = if pipelining == Pipelining::LockStep { vec!["EPSV"] } else { vec![] };
        assert_eq!(dialogue.take_sent(), expected, "{pipelining:?}");
        dialogue.take_events();
        dialogue.reply("229 ok (|||4000|)");
        let heard = dialogue.take_events();
        let [Event::Connect(tag, 4000)] = heard[..] else { panic!("{heard:?}") };
        if pipelining == Pipelining::Deep {
            assert_eq!(dialogue.take_sent(), ["RETR /3", "SIZE /4"]);
            dialogue.handle(Input::Connected(tag));
            // From now on everything is pipelined.
            dialogue.get("/5");
            assert_eq!(dialogue.take_sent(), ["EPSV", "RETR /5"]);
        } else {
            assert!(dialogue.take_sent().is_empty());
            dialogue.handle(Input::Connected(tag));
            assert_eq!(dialogue.take_sent(), ["RETR /3"]);
        }
        dialogue.reply("150 here");
        assert_eq!(dialogue.take_events(), [Event::Receive(tag, Data::Connection)]);
        dialogue.handle(complete(tag, 9));
        assert!(dialogue.take_events().is_empty(), "its reply has not come");
        dialogue.reply("226 done");
        assert!(
            matches!(&dialogue.take_events()[..], [Event::Finished(found, Ok(finished))] if *found == tag && finished.bytes == 9)
        );
        if pipelining != Pipelining::Deep {
            assert_eq!(dialogue.take_sent(), ["SIZE /4"]);
        }
    }
}

#[test]
fn a_window_full_of_commands_waits() {
    let mut config = Config::new(Mode::Braid);
    config.window = 3;
    let mut dialogue = Dialogue { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
    for at in 0..5 {
        dialogue.size(&format!("/{at}"));
    }
    assert_eq!(dialogue.take_sent().len(), 3);
    assert_eq!(dialogue.session.outstanding(), 5);
    dialogue.reply("220 hi\r\n213 1");
    assert_eq!(dialogue.take_sent(), ["SIZE /3"]);
    assert_eq!(dialogue.session.outstanding(), 4);
}

//= specs/ftp-over-sctp.md#section-6.4
//= type=test
//# A client MUST NOT have more than 1 MiB of commands without their final replies
#[test]
fn long_commands_wait_before_the_window_is_full() {
    let config = Config::new(Mode::Braid);
    let mut dialogue = Dialogue { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
    let path = format!("/{}", vec!["n".repeat(250); 16].join("/"));
    for _ in 0..300 {
        dialogue.size(&path);
    }
    let bytes = |lines: Vec<String>| lines.iter().map(|line| line.len() + 2).sum::<usize>();
    let sent = bytes(dialogue.take_sent());
    assert!((900_000..1 << 20).contains(&sent), "{sent}");
    dialogue.reply(&format!("220 hi\r\n{}213 1", "213 1\r\n".repeat(99)));
    assert_eq!(bytes(dialogue.take_sent()), 300 * (path.len() + 7) - sent);
    assert!(dialogue.session.has_room(300));
}

#[test]
fn a_lost_reply_is_detected_before_misattribution() {
    let cases: [(Command, &str); 7] = [
        (Command::Size(arg("/a")), "226 transfer complete"),
        (Command::Size(arg("/a")), "150 what"),
        (Command::Noop, "331 password"),
        (Command::ModifiedTime(arg("/a")), "250 ok"),
        (Command::PrintDirectory, "200 /"),
        (Command::RenameFrom(arg("/a")), "250 ok"),
        (Command::Type(Type::Image), "350 go on"),
    ];
    for (command, reply) in cases {
        let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
        dialogue.session.command(command.clone());
        dialogue.drain();
        dialogue.reply(reply);
        let heard = dialogue.take_events();
        assert!(
            matches!(heard[..], [Event::Ended(Ended::Violation(Violation::Mismatch { .. }))]),
            "{command} {heard:?}"
        );
        // After the end nothing is sent, and no input is processed.
        dialogue.size("/b");
        dialogue.reply("213 1");
        assert!(dialogue.take_sent().len() <= 1 && dialogue.take_events().is_empty());
    }
    for (reply, unasked) in [("226 what", true), ("hello", false)] {
        let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
        dialogue.reply(reply);
        let heard = dialogue.take_events();
        let [Event::Ended(Ended::Violation(violation))] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(matches!(violation, Violation::Unasked(_)), unasked);
    }
}

#[test]
fn the_passive_address_of_the_server_is_ignored_and_pasv_is_the_fallback() {
    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
    let a = dialogue.get("/a");
    assert_eq!(dialogue.take_sent(), ["EPSV"]);
    dialogue.reply("500 what?");
    assert_eq!(dialogue.take_sent(), ["PASV"]);
    dialogue.reply("227 entering (10,6,6,6,1,0)");
    assert_eq!(dialogue.take_events(), [Event::Connect(a, 256)]);
    // The session stays ended.
    dialogue.handle(Input::DataFailed(a));
    assert_eq!(dialogue.take_events(), [Event::Finished(a, Err(TransferError::Data(None)))]);
    dialogue.get("/b");
    assert_eq!(dialogue.take_sent(), ["PASV"]);
    dialogue.reply("227 nothing here");
    assert!(matches!(dialogue.take_events()[..], [Event::Ended(Ended::Violation(Violation::Text { .. }))]));
}

#[test]
fn a_refused_rest_is_not_followed_by_the_whole_file() {
    for mode in [Mode::Tcp, Mode::Naive, Mode::Ms, Mode::MsCp] {
        let mut dialogue = Dialogue::new(mode, Pipelining::Metadata);
        let tag = dialogue.session.transfer(Transfer::Retrieve { path: arg("/a"), offset: 5 });
        dialogue.drain();
        match mode {
            Mode::Tcp => {
                dialogue.reply("229 ok (|||4000|)");
                dialogue.handle(Input::Connected(tag));
            }
            Mode::Naive => {
                dialogue.handle(Input::Listening(tag, "127.0.0.1:4000".parse().unwrap()));
                dialogue.reply("200 ok");
            }
            _ => dialogue.reply("213 10"),
        }
        assert_eq!(dialogue.take_sent().last().map(String::as_str), Some("REST 5"), "{mode}");
        dialogue.take_events();
        dialogue.reply("502 no");
        assert!(dialogue.take_sent().is_empty(), "{mode}");
        assert!(
            matches!(&dialogue.take_events()[..], [Event::Finished(found, Err(TransferError::Refused(_)))] if *found == tag)
        );
    }
}

#[test]
fn naive_listens_for_each_transfer() {
    let mut dialogue = Dialogue::new(Mode::Naive, Pipelining::LockStep);
    let tag = dialogue.get("/a");
    assert_eq!(dialogue.take_events(), [Event::Listen(tag)]);
    assert!(dialogue.take_sent().is_empty());
    dialogue.handle(Input::Listening(tag, "127.0.0.1:4000".parse().unwrap()));
    assert_eq!(dialogue.take_sent(), ["EPRT |1|127.0.0.1|4000|"]);
    dialogue.reply("200 ok");
    assert_eq!(dialogue.take_sent(), ["RETR /a"]);
    dialogue.reply("150 ok");
    assert_eq!(dialogue.take_events(), [Event::Receive(tag, Data::Association)]);
}

#[test]
fn ms_asks_file_by_file() {
    let mut dialogue = Dialogue::new(Mode::Ms, Pipelining::LockStep);
    let a = dialogue.get("/a");
    dialogue.get("/b");
    assert_eq!(dialogue.take_sent(), ["SIZE /a"]);
    dialogue.reply("213 7");
    assert_eq!(dialogue.take_sent(), ["RETR /a"]);
    dialogue.reply("150 ok");
    assert_eq!(dialogue.take_events(), [Event::Receive(a, Data::Counted(7))]);
    dialogue.reply("226 ok");
    assert!(dialogue.take_sent().is_empty(), "the bytes are not all here");
    dialogue.handle(complete(a, 7));
    assert_eq!(dialogue.take_sent(), ["SIZE /b"]);
}

//= specs/ftp-over-sctp.md#section-4.5
//= type=test
//# The client sends SIZE for all files at once (within the limit of 4.2); when a 213 arrives, it sends the RETR of
//# that file at once, without waiting for earlier transfers.
#[test]
fn ms_cp_sends_all_sizes_at_once_and_each_retr_after_the_reply_to_its_size() {
    let mut dialogue = Dialogue::new(Mode::MsCp, Pipelining::LockStep);
    let tags: Vec<_> = (0..100).map(|at| dialogue.get(&format!("/{at}"))).collect();
    assert_eq!(dialogue.take_sent().len(), 100);
    dialogue.reply("213 5\r\n213 6\r\n550 gone\r\n213 0");
    assert_eq!(dialogue.take_sent(), ["RETR /0", "RETR /1", "RETR /3"]);
    assert!(
        matches!(&dialogue.take_events()[..], [Event::Finished(found, Err(TransferError::Refused(_)))] if *found == tags[2])
    );
    for _ in 4..100 {
        dialogue.reply("213 1");
    }
    assert_eq!(dialogue.take_sent().len(), 96);
    dialogue.reply("150 a\r\n226 a\r\n150 b\r\n226 b");
    let expected = [Event::Receive(tags[0], Data::Counted(5)), Event::Receive(tags[1], Data::Counted(6))];
    assert_eq!(dialogue.take_events(), expected);
}

//= specs/ftp-over-sctp.md#section-4.2
//= type=test
//# A client MUST NOT have more than 4,096 paths whose size was reported and whose RETR is not done, and MUST NOT send
//# SIZE for a path again before its RETR is done.
#[test]
fn ms_cp_requests_at_most_as_many_sizes_as_a_server_remembers() {
    let mut dialogue = Dialogue::new(Mode::MsCp, Pipelining::LockStep);
    let first = dialogue.get("/same");
    let again = dialogue.get("/same");
    assert_eq!(dialogue.take_sent(), ["SIZE /same"]);
    dialogue.reply("213 1");
    assert_eq!(dialogue.take_sent(), ["RETR /same"]);
    dialogue.reply("150 ok\r\n226 ok");
    dialogue.handle(complete(first, 1));
    assert_eq!(dialogue.take_sent(), ["SIZE /same"]);
    dialogue.reply("550 gone");
    assert!(matches!(dialogue.take_events().last(), Some(Event::Finished(found, Err(_))) if *found == again));
    for at in 0..5000 {
        dialogue.get(&format!("/{at}"));
    }
    assert_eq!(dialogue.take_sent().len(), 4096);
    dialogue.reply("550 gone");
    assert_eq!(dialogue.take_sent().len(), 1);
}

#[test]
fn ms_consumes_the_bytes_of_a_failed_transfer() {
    let mut dialogue = Dialogue::new(Mode::MsCp, Pipelining::LockStep);
    let tag = dialogue.get("/a");
    dialogue.drain();
    dialogue.reply("213 5");
    dialogue.reply("150 ok\r\n451 it was cut");
    assert_eq!(dialogue.take_events(), [Event::Receive(tag, Data::Counted(5))]);
    dialogue.handle(complete(tag, 5));
    assert!(matches!(&dialogue.take_events()[..], [Event::Finished(_, Err(TransferError::Refused(_)))]));
}

#[test]
fn uploads_over_tcp_announce_the_size_without_another_round_trip() {
    let upload = |offset| Transfer::Store { path: arg("/a"), offset, length: 3 };
    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
    let tag = dialogue.session.transfer(upload(4));
    assert_eq!(dialogue.take_sent(), ["ALLO 7", "EPSV"]);
    // A server that does not implement ALLO accepts the upload nevertheless.
    dialogue.reply("502 no\r\n229 ok (|||4000|)");
    assert!(matches!(dialogue.take_events()[..], [Event::Connect(_, 4000)]));
    dialogue.handle(Input::Connected(tag));
    assert_eq!(dialogue.take_sent(), ["REST 4"]);
    dialogue.reply("350 ok");
    assert_eq!(dialogue.take_sent(), ["STOR /a"]);

    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::LockStep);
    dialogue.session.transfer(upload(0));
    assert_eq!(dialogue.take_sent(), ["EPSV"]);
}

#[test]
fn ms_uploads_announce_their_length() {
    let mut dialogue = Dialogue::new(Mode::MsCp, Pipelining::LockStep);
    let tags: Vec<_> = ["/a", "/b"]
        .map(|path| dialogue.session.transfer(Transfer::Store { path: arg(path), offset: 0, length: 3 }))
        .into();
    assert_eq!(dialogue.take_sent(), ["ALLO 3", "STOR /a", "ALLO 3", "STOR /b"]);
    dialogue.reply("200 ok\r\n150 ok");
    assert_eq!(dialogue.take_events(), [Event::Send(tags[0], Data::Counted(3))]);
}

#[test]
fn braid_numbers_transfers_as_they_are_sent() {
    let mut dialogue = Dialogue::new(Mode::Braid, Pipelining::LockStep);
    let a = dialogue.get("/a");
    let b = dialogue.session.transfer(Transfer::Store { path: arg("/b"), offset: 4, length: 3 });
    let tree = dialogue.session.transfer(Transfer::List { form: ListForm::Tree, path: Some(arg("/")) });
    assert_eq!(dialogue.take_sent(), ["RETR /a", "REST 4", "STOR /b", "XTREE /"]);
    let expected = [
        Event::Receive(a, Data::Framed(TransferNumber(1))),
        Event::Send(b, Data::Framed(TransferNumber(2))),
        Event::Receive(tree, Data::Framed(TransferNumber(3))),
    ];
    assert_eq!(dialogue.take_events(), expected);
    // The reply may arrive before the bytes, and a refused transfer has no bytes.
    dialogue.reply("220 hi\r\n226 ok\r\n350 ok\r\n553 no");
    let heard = dialogue.take_events();
    assert!(
        matches!(&heard[1..], [Event::Finished(found, Err(TransferError::Refused(_)))] if *found == b),
        "{heard:?}"
    );
    dialogue.handle(complete(a, 0));
    assert!(matches!(&dialogue.take_events()[..], [Event::Finished(found, Ok(_))] if *found == a));
}

#[test]
fn cancelling_sends_abor_in_braid_and_nothing_for_unsent_transfers() {
    let mut dialogue = Dialogue::new(Mode::Braid, Pipelining::LockStep);
    let a = dialogue.get("/a");
    let b = dialogue.get("/b");
    dialogue.drain();
    dialogue.take_events();
    dialogue.session.cancel(b);
    assert_eq!(dialogue.take_sent(), ["RETR /a", "RETR /b", "ABOR 2"]);
    dialogue.reply("220 hi\r\n226 ok\r\n426 aborted\r\n226 abort done");
    dialogue.handle(complete(a, 1));
    let finished: Vec<_> =
        dialogue.take_events().into_iter().filter(|event| matches!(event, Event::Finished(..))).collect();
    assert!(
        matches!(&finished[..], [Event::Finished(first, Err(_)), Event::Finished(second, Ok(_))] if (*first, *second) == (b, a))
    );

    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::LockStep);
    dialogue.get("/a");
    let b = dialogue.get("/b");
    dialogue.drain();
    dialogue.session.cancel(b);
    assert_eq!(dialogue.take_events(), [Event::Finished(b, Err(TransferError::Data(None)))]);
}

#[test]
fn the_end_is_reported_once_with_its_reason() {
    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
    dialogue.session.command(Command::Quit);
    dialogue.drain();
    dialogue.reply("221 bye");
    assert!(matches!(dialogue.take_events()[..], [Event::Reply(..), Event::Ended(Ended::Quit)]));
    dialogue.handle(Input::Closed);
    assert!(dialogue.take_events().is_empty());

    // Some servers reply 421 to QUIT.
    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
    dialogue.session.command(Command::Quit);
    dialogue.drain();
    dialogue.reply("421 bye");
    assert!(matches!(dialogue.take_events()[..], [Event::Reply(..), Event::Ended(Ended::Quit)]));

    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
    dialogue.reply("421 idle");
    assert!(matches!(dialogue.take_events()[..], [Event::Ended(Ended::ByServer(_))]));

    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::Metadata);
    dialogue.size("/a");
    dialogue.handle(Input::Closed);
    assert_eq!(dialogue.take_events(), [Event::Ended(Ended::Lost)]);
}

#[test]
fn a_transfer_that_the_server_has_finished_before_its_421_is_received_to_its_end() {
    let served = |end: fn(Tag) -> Input| {
        let mut dialogue = Dialogue::new(Mode::Braid, Pipelining::Deep);
        let (finished, unfinished) = (dialogue.get("/a"), dialogue.get("/b"));
        dialogue.drain();
        dialogue.reply("220 hi\r\n226 sent\r\n421 the server shuts down");
        dialogue.size("/c");
        assert_eq!(dialogue.take_sent(), ["RETR /a", "RETR /b"], "nothing is sent after the 421");
        let before = dialogue.take_events();
        assert!(!before.iter().any(|event| matches!(event, Event::Ended(_))), "{before:?}");
        dialogue.handle(end(finished));
        let events = dialogue.take_events();
        assert!(!events.iter().any(|event| matches!(event, Event::Finished(tag, _) if *tag == unfinished)));
        (finished, events)
    };
    let (tag, events) = served(|finished| complete(finished, 7));
    assert!(
        matches!(&events[..], [Event::Finished(found, Ok(_)), Event::Ended(Ended::ByServer(_))] if *found == tag),
        "{events:?}"
    );
    let (_, events) = served(|_| Input::Closed);
    assert!(matches!(events[..], [Event::Ended(Ended::ByServer(_))]), "{events:?}");
}

#[test]
fn a_data_connection_is_read_to_its_end_after_the_server_has_closed_the_control_connection() {
    let mut dialogue = Dialogue::new(Mode::Tcp, Pipelining::LockStep);
    let tag = dialogue.get("/a");
    dialogue.drain();
    dialogue.reply("229 (|||2000|)");
    dialogue.handle(Input::Connected(tag));
    dialogue.reply("150 data\r\n226 sent\r\n421 the server shuts down");
    dialogue.handle(Input::Closed);
    let before = dialogue.take_events();
    assert!(!before.iter().any(|event| matches!(event, Event::Ended(_))), "{before:?}");
    dialogue.handle(complete(tag, 7));
    let events = dialogue.take_events();
    assert!(
        matches!(&events[..], [Event::Finished(_, Ok(_)), Event::Ended(Ended::ByServer(_))]),
        "{events:?}"
    );
}

mod any_server {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a server sends, the session does not panic and ends each transfer at most once.
        #[test]
        fn no_server_output_causes_a_panic(
            mode in 0_usize..5,
            level in 0_usize..3,
            replies in proptest::collection::vec(
                proptest::sample::select(vec![
                    "220 hi", "331 p", "230 in", "213 5", "213 x", "229 (|||9|)", "227 1,2,3,4,5,6", "150 go", "226 done", "550 no",
                    "426 cut", "350 ok", "200 ok", "502 no", "211-a\r\n211 b", "garbage",
                ]),
                0..30,
            ),
        ) {
            let pipelining = [Pipelining::LockStep, Pipelining::Metadata, Pipelining::Deep][level];
            let config = Config { pipelining, ..Config::new(Mode::ALL[mode]) };
            let mut dialogue = Dialogue { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
            dialogue.session.login(b"u", Secret::new("p")).unwrap();
            let mut tags = vec![dialogue.get("/a")];
            dialogue.size("/s");
            tags.push(dialogue.session.transfer(Transfer::Store { path: arg("/b"), offset: 2, length: 5 }));
            tags.push(dialogue.session.transfer(Transfer::List { form: ListForm::Facts, path: None }));
            let mut ends = Vec::new();
            for reply in replies {
                dialogue.reply(reply);
                for event in dialogue.take_events() {
                    match event {
                        Event::Connect(tag, _) => dialogue.handle(Input::Connected(tag)),
                        Event::Listen(tag) => dialogue.handle(Input::Listening(tag, "127.0.0.1:9".parse().unwrap())),
                        Event::Receive(tag, _) | Event::Send(tag, _) => dialogue.handle(complete(tag, 5)),
                        Event::Finished(tag, _) => ends.push(tag),
                        _ => {}
                    }
                }
            }
            let unique = ends.iter().collect::<std::collections::BTreeSet<_>>().len();
            prop_assert!(unique == ends.len() && ends.iter().all(|tag| tags.contains(tag)));
        }
    }
}

#[test]
//= specs/rfc7151.txt#section-3.2.2
//= type=test
//# A user-PI MUST send the HOST command after opening the transport
//# connection, or after any REIN command, before attempting to
//# authenticate the user with the USER command.
fn host_precedes_user_in_the_same_flight_where_pipelining_is_safe() {
    let first = |mode: Mode, greeting: &str| {
        let host = Some("ftp.example.org".to_owned());
        let mut session =
            Session::new(Config { pipelining: Pipelining::Adaptive, host, ..Config::new(mode) });
        session.login(b"anna", Secret::new(b"p".to_vec())).unwrap();
        session.handle(Input::Received(Bytes::copy_from_slice(format!("220 {greeting}\r\n").as_bytes())));
        let mut sent = String::new();
        loop {
            match session.poll(Time::ZERO) {
                Output::Send(bytes) => sent += std::str::from_utf8(&bytes).unwrap(),
                Output::Event(_) => {}
                Output::Wait(_) => return (session, sent),
            }
        }
    };
    for (mode, greeting, wanted) in [
        (Mode::Tcp, "braidftp ready", "HOST ftp.example.org\r\nUSER anna\r\nPASS p\r\n"),
        (Mode::Tcp, "(vsFTPd 3.0.5)", "HOST ftp.example.org\r\nUSER anna\r\n"),
        (Mode::Tcp, "Microsoft FTP Service", "USER anna\r\n"),
        (Mode::Naive, "x", "USER anna\r\n"),
        (Mode::Ms, "x", "USER anna\r\n"),
        (Mode::MsCp, "x", "HOST ftp.example.org\r\nUSER anna\r\n"),
        (Mode::Braid, "x", "HOST ftp.example.org\r\nUSER anna\r\nPASS p\r\n"),
    ] {
        assert_eq!(first(mode, greeting).1, wanted, "{mode:?} {greeting}");
    }
    // The login proceeds on a server without HOST; an unknown host is reported.
    for (reply, is_told) in
        [("220 welcome", false), ("502 what?", false), ("530 log in", false), ("504 none", true)]
    {
        let (mut session, _) = first(Mode::Braid, "x");
        let said = format!("{reply}\r\n331 p\r\n230 in\r\n");
        session.handle(Input::Received(Bytes::copy_from_slice(said.as_bytes())));
        let mut events = Vec::new();
        while let Output::Event(event) = session.poll(Time::ZERO) {
            events.push(event);
        }
        let told = events.iter().filter(|event| matches!(event, Event::UnknownHost(_))).count();
        assert_eq!((told == 1, events.len() - told), (is_told, 1), "{reply}: {events:?}");
        assert!(matches!(events.last(), Some(Event::Reply(_, reply)) if reply.code.number() == 230));
    }
}

#[test]
fn the_final_error_of_a_dying_server_is_not_a_reply_to_a_command() {
    for before in ["", "220 (vsFTPd 3.0.5)\r\n", "220 (vsFTPd 3.0.5)\r\n331 p\r\n230 in\r\n"] {
        let mut session = Session::new(Config::new(Mode::Tcp));
        session.login(b"anna", Secret::new(b"p".to_vec())).unwrap();
        let mut ended = Vec::new();
        for line in before.split_inclusive("\r\n").chain(["500 OOPS: fork\r\n"]) {
            session.handle(Input::Received(Bytes::copy_from_slice(line.as_bytes())));
            loop {
                match session.poll(Time::ZERO) {
                    Output::Event(Event::Ended(why)) => ended.push(why),
                    Output::Wait(_) => break,
                    _ => {}
                }
            }
        }
        assert!(matches!(&ended[..], [Ended::ByServer(reply)] if reply.code.number() == 500), "{ended:?}");
    }
}
