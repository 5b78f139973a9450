//! The client session: when commands are sent, and how replies are matched.

use braidftp_base::{Output, Time};
use bytes::Bytes;

use super::*;
use crate::command::{Command, Secret, Type};

/// A session whose server is the test.
pub(super) struct Talk {
    pub(super) session: Session,
    /// Lines since the last look.
    pub(super) lines: Vec<String>,
    pub(super) events: Vec<Event>,
}

impl Talk {
    pub(super) fn new(mode: Mode, pipelining: Pipelining) -> Self {
        let session = Session::new(Config { pipelining, ..Config::new(mode) });
        let mut talk = Self { session, lines: Vec::new(), events: Vec::new() };
        if mode != Mode::Braid {
            talk.reply("220 hi");
            assert!(matches!(talk.heard()[..], [Event::Greeting(_)]));
        }
        talk
    }

    pub(super) fn reply(&mut self, text: &str) {
        self.tell(Input::Received(Bytes::from(format!("{text}\r\n"))));
    }

    pub(super) fn tell(&mut self, input: Input) {
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

    pub(super) fn said(&mut self) -> Vec<String> {
        self.drain();
        std::mem::take(&mut self.lines)
    }

    pub(super) fn heard(&mut self) -> Vec<Event> {
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
        let mut talk =
            Talk { session: Session::new(Config::new(mode)), lines: Vec::new(), events: Vec::new() };
        talk.session.login(b"u", Secret::new("p")).unwrap();
        talk.get("/a");
        let expected = if mode == Mode::Braid { vec!["USER u", "PASS p", "RETR /a"] } else { vec![] };
        assert_eq!(talk.said(), expected, "{mode}");
        talk.reply("120 in a minute");
        talk.reply("220 hi");
        let expected = if mode == Mode::Braid { vec![] } else { vec!["USER u"] };
        assert_eq!(talk.said(), expected, "{mode}");
    }
}

#[test]
fn a_login_ends_with_the_deciding_reply() {
    let mut talk = Talk::new(Mode::Tcp, Pipelining::Deep);
    let tag = talk.session.login(b"u", Secret::new("p")).unwrap();
    talk.session.command(Command::Noop);
    assert_eq!(talk.said(), ["USER u", "PASS p", "NOOP"]);
    talk.reply("331 password\r\n230 in");
    assert!(
        matches!(&talk.heard()[..], [Event::Reply(found, reply)] if *found == tag && reply.code == Code::LOGGED_IN)
    );

    let mut talk = Talk::new(Mode::Tcp, Pipelining::LockStep);
    talk.session.login(b"u", Secret::new("p")).unwrap();
    talk.drain();
    talk.reply("230 no password needed");
    assert!(matches!(talk.heard()[..], [Event::Reply(..)]));
    talk.session.command(Command::Noop);
    assert_eq!(talk.said(), ["USER u", "NOOP"]);

    // In braid PASS was sent with it; its reply goes nowhere.
    let mut talk = Talk::new(Mode::Braid, Pipelining::LockStep);
    let tag = talk.session.login(b"u", Secret::new("p")).unwrap();
    talk.drain();
    talk.reply("220 hi\r\n530 no\r\n503 USER first");
    let heard = talk.heard();
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
        let mut talk = Talk { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
        talk.session.login(b"u", Secret::new("p")).unwrap();
        talk.size("/1");
        talk.get("/2");
        assert!(talk.said().is_empty());
        talk.reply(greeting);
        assert_eq!(talk.said(), expected, "{greeting}");
        if expected.len() > 1 {
            continue;
        }
        talk.reply("331 password");
        let expected =
            if greeting.contains("Microsoft") { vec!["PASS p"] } else { vec!["PASS p", "SIZE /1", "EPSV"] };
        assert_eq!(talk.said(), expected, "{greeting}");
    }
}

#[test]
fn each_level_pipelines_as_far_as_permitted() {
    for (pipelining, expected) in [
        (Pipelining::LockStep, vec!["SIZE /1"]),
        (Pipelining::Metadata, vec!["SIZE /1", "SIZE /2", "EPSV"]),
        (Pipelining::Deep, vec!["SIZE /1", "SIZE /2", "EPSV"]),
    ] {
        let mut talk = Talk::new(Mode::Tcp, pipelining);
        talk.size("/1");
        talk.size("/2");
        talk.get("/3");
        talk.size("/4");
        assert_eq!(talk.said(), expected, "{pipelining:?}");
        talk.reply("213 1");
        if pipelining == Pipelining::LockStep {
            assert_eq!(talk.said(), ["SIZE /2"]);
        }
        talk.reply("213 2");
        // EPSV was never seen to work: even deep goes line by line this once.
        let expected = if pipelining == Pipelining::LockStep { vec!["EPSV"] } else { vec![] };
        assert_eq!(talk.said(), expected, "{pipelining:?}");
        talk.heard();
        talk.reply("229 ok (|||4000|)");
        let heard = talk.heard();
        let [Event::Connect(tag, 4000)] = heard[..] else { panic!("{heard:?}") };
        if pipelining == Pipelining::Deep {
            assert_eq!(talk.said(), ["RETR /3", "SIZE /4"]);
            talk.tell(Input::Connected(tag));
            // From now on all at once.
            talk.get("/5");
            assert_eq!(talk.said(), ["EPSV", "RETR /5"]);
        } else {
            assert!(talk.said().is_empty());
            talk.tell(Input::Connected(tag));
            assert_eq!(talk.said(), ["RETR /3"]);
        }
        talk.reply("150 here");
        assert_eq!(talk.heard(), [Event::Receive(tag, Data::Connection)]);
        talk.tell(complete(tag, 9));
        assert!(talk.heard().is_empty(), "its reply has not come");
        talk.reply("226 done");
        assert!(
            matches!(&talk.heard()[..], [Event::Finished(found, Ok(finished))] if *found == tag && finished.bytes == 9)
        );
        if pipelining != Pipelining::Deep {
            assert_eq!(talk.said(), ["SIZE /4"]);
        }
    }
}

#[test]
fn a_window_full_of_commands_waits() {
    let mut config = Config::new(Mode::Braid);
    config.window = 3;
    let mut talk = Talk { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
    for at in 0..5 {
        talk.size(&format!("/{at}"));
    }
    assert_eq!(talk.said().len(), 3);
    assert_eq!(talk.session.outstanding(), 5);
    talk.reply("220 hi\r\n213 1");
    assert_eq!(talk.said(), ["SIZE /3"]);
    assert_eq!(talk.session.outstanding(), 4);
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
        let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
        talk.session.command(command.clone());
        talk.drain();
        talk.reply(reply);
        let heard = talk.heard();
        assert!(
            matches!(heard[..], [Event::Ended(Ended::Violation(Violation::Mismatch { .. }))]),
            "{command} {heard:?}"
        );
        // Nothing more is said or heard.
        talk.size("/b");
        talk.reply("213 1");
        assert!(talk.said().len() <= 1 && talk.heard().is_empty());
    }
    for (reply, unasked) in [("226 what", true), ("hello", false)] {
        let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
        talk.reply(reply);
        let heard = talk.heard();
        let [Event::Ended(Ended::Violation(violation))] = &heard[..] else { panic!("{heard:?}") };
        assert_eq!(matches!(violation, Violation::Unasked(_)), unasked);
    }
}

#[test]
fn the_passive_address_of_the_server_is_ignored_and_pasv_is_the_fallback() {
    let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
    let a = talk.get("/a");
    assert_eq!(talk.said(), ["EPSV"]);
    talk.reply("500 what?");
    assert_eq!(talk.said(), ["PASV"]);
    talk.reply("227 entering (10,6,6,6,1,0)");
    assert_eq!(talk.heard(), [Event::Connect(a, 256)]);
    // For good.
    talk.tell(Input::DataFailed(a));
    assert_eq!(talk.heard(), [Event::Finished(a, Err(TransferError::Data(None)))]);
    talk.get("/b");
    assert_eq!(talk.said(), ["PASV"]);
    talk.reply("227 nothing here");
    assert!(matches!(talk.heard()[..], [Event::Ended(Ended::Violation(Violation::Text { .. }))]));
}

#[test]
fn a_refused_rest_is_not_followed_by_the_whole_file() {
    for mode in [Mode::Tcp, Mode::Naive, Mode::Ms, Mode::MsCp] {
        let mut talk = Talk::new(mode, Pipelining::Metadata);
        let tag = talk.session.transfer(Transfer::Retrieve { path: arg("/a"), offset: 5 });
        talk.drain();
        match mode {
            Mode::Tcp => {
                talk.reply("229 ok (|||4000|)");
                talk.tell(Input::Connected(tag));
            }
            Mode::Naive => {
                talk.tell(Input::Listening(tag, "127.0.0.1:4000".parse().unwrap()));
                talk.reply("200 ok");
            }
            _ => talk.reply("213 10"),
        }
        assert_eq!(talk.said().last().map(String::as_str), Some("REST 5"), "{mode}");
        talk.heard();
        talk.reply("502 no");
        assert!(talk.said().is_empty(), "{mode}");
        assert!(
            matches!(&talk.heard()[..], [Event::Finished(found, Err(TransferError::Refused(_)))] if *found == tag)
        );
    }
}

#[test]
fn naive_listens_for_each_transfer() {
    let mut talk = Talk::new(Mode::Naive, Pipelining::LockStep);
    let tag = talk.get("/a");
    assert_eq!(talk.heard(), [Event::Listen(tag)]);
    assert!(talk.said().is_empty());
    talk.tell(Input::Listening(tag, "127.0.0.1:4000".parse().unwrap()));
    assert_eq!(talk.said(), ["EPRT |1|127.0.0.1|4000|"]);
    talk.reply("200 ok");
    assert_eq!(talk.said(), ["RETR /a"]);
    talk.reply("150 ok");
    assert_eq!(talk.heard(), [Event::Receive(tag, Data::Association)]);
}

#[test]
fn ms_asks_file_by_file() {
    let mut talk = Talk::new(Mode::Ms, Pipelining::LockStep);
    let a = talk.get("/a");
    talk.get("/b");
    assert_eq!(talk.said(), ["SIZE /a"]);
    talk.reply("213 7");
    assert_eq!(talk.said(), ["RETR /a"]);
    talk.reply("150 ok");
    assert_eq!(talk.heard(), [Event::Receive(a, Data::Counted(7))]);
    talk.reply("226 ok");
    assert!(talk.said().is_empty(), "the bytes are not all here");
    talk.tell(complete(a, 7));
    assert_eq!(talk.said(), ["SIZE /b"]);
}

//= specs/ftp-over-sctp.md#section-4.5
//= type=test
//# The client sends SIZE for all files at once (as far as 4.2 lets it); as each 213 arrives, it sends the RETR of that file at
//# once, without waiting for the transfers before.
#[test]
fn ms_cp_sends_every_size_at_once_and_each_retr_on_its_answer() {
    let mut talk = Talk::new(Mode::MsCp, Pipelining::LockStep);
    let tags: Vec<_> = (0..100).map(|at| talk.get(&format!("/{at}"))).collect();
    assert_eq!(talk.said().len(), 100);
    talk.reply("213 5\r\n213 6\r\n550 gone\r\n213 0");
    assert_eq!(talk.said(), ["RETR /0", "RETR /1", "RETR /3"]);
    assert!(
        matches!(&talk.heard()[..], [Event::Finished(found, Err(TransferError::Refused(_)))] if *found == tags[2])
    );
    for _ in 4..100 {
        talk.reply("213 1");
    }
    assert_eq!(talk.said().len(), 96);
    talk.reply("150 a\r\n226 a\r\n150 b\r\n226 b");
    let expected = [Event::Receive(tags[0], Data::Counted(5)), Event::Receive(tags[1], Data::Counted(6))];
    assert_eq!(talk.heard(), expected);
}

//= specs/ftp-over-sctp.md#section-4.2
//= type=test
//# A client MUST NOT have more than 4,096 paths whose size was told and whose RETR is not done, and MUST NOT send SIZE for a
//# path again before its RETR is done.
#[test]
fn ms_cp_requests_at_most_as_many_sizes_as_a_server_remembers() {
    let mut talk = Talk::new(Mode::MsCp, Pipelining::LockStep);
    let first = talk.get("/same");
    let again = talk.get("/same");
    assert_eq!(talk.said(), ["SIZE /same"]);
    talk.reply("213 1");
    assert_eq!(talk.said(), ["RETR /same"]);
    talk.reply("150 ok\r\n226 ok");
    talk.tell(complete(first, 1));
    assert_eq!(talk.said(), ["SIZE /same"]);
    talk.reply("550 gone");
    assert!(matches!(talk.heard().last(), Some(Event::Finished(found, Err(_))) if *found == again));
    for at in 0..5000 {
        talk.get(&format!("/{at}"));
    }
    assert_eq!(talk.said().len(), 4096);
    talk.reply("550 gone");
    assert_eq!(talk.said().len(), 1);
}

#[test]
fn ms_consumes_the_bytes_of_a_failed_transfer() {
    let mut talk = Talk::new(Mode::MsCp, Pipelining::LockStep);
    let tag = talk.get("/a");
    talk.drain();
    talk.reply("213 5");
    talk.reply("150 ok\r\n451 it was cut");
    assert_eq!(talk.heard(), [Event::Receive(tag, Data::Counted(5))]);
    talk.tell(complete(tag, 5));
    assert!(matches!(&talk.heard()[..], [Event::Finished(_, Err(TransferError::Refused(_)))]));
}

#[test]
fn uploads_over_tcp_announce_the_size_without_another_round_trip() {
    let upload = |offset| Transfer::Store { path: arg("/a"), offset, length: 3 };
    let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
    let tag = talk.session.transfer(upload(4));
    assert_eq!(talk.said(), ["ALLO 7", "EPSV"]);
    // A server that does not know ALLO takes the upload all the same.
    talk.reply("502 no\r\n229 ok (|||4000|)");
    assert!(matches!(talk.heard()[..], [Event::Connect(_, 4000)]));
    talk.tell(Input::Connected(tag));
    assert_eq!(talk.said(), ["REST 4"]);
    talk.reply("350 ok");
    assert_eq!(talk.said(), ["STOR /a"]);

    let mut talk = Talk::new(Mode::Tcp, Pipelining::LockStep);
    talk.session.transfer(upload(0));
    assert_eq!(talk.said(), ["EPSV"]);
}

#[test]
fn ms_uploads_announce_their_length() {
    let mut talk = Talk::new(Mode::MsCp, Pipelining::LockStep);
    let tags: Vec<_> = ["/a", "/b"]
        .map(|path| talk.session.transfer(Transfer::Store { path: arg(path), offset: 0, length: 3 }))
        .into();
    assert_eq!(talk.said(), ["ALLO 3", "STOR /a", "ALLO 3", "STOR /b"]);
    talk.reply("200 ok\r\n150 ok");
    assert_eq!(talk.heard(), [Event::Send(tags[0], Data::Counted(3))]);
}

#[test]
fn braid_numbers_transfers_as_they_are_sent() {
    let mut talk = Talk::new(Mode::Braid, Pipelining::LockStep);
    let a = talk.get("/a");
    let b = talk.session.transfer(Transfer::Store { path: arg("/b"), offset: 4, length: 3 });
    let tree = talk.session.transfer(Transfer::List { form: ListForm::Tree, path: Some(arg("/")) });
    assert_eq!(talk.said(), ["RETR /a", "REST 4", "STOR /b", "XTREE /"]);
    let expected = [
        Event::Receive(a, Data::Framed(TransferNumber(1))),
        Event::Send(b, Data::Framed(TransferNumber(2))),
        Event::Receive(tree, Data::Framed(TransferNumber(3))),
    ];
    assert_eq!(talk.heard(), expected);
    // The reply may come before the bytes, and a refusal ends it without any.
    talk.reply("220 hi\r\n226 ok\r\n350 ok\r\n553 no");
    let heard = talk.heard();
    assert!(
        matches!(&heard[1..], [Event::Finished(found, Err(TransferError::Refused(_)))] if *found == b),
        "{heard:?}"
    );
    talk.tell(complete(a, 0));
    assert!(matches!(&talk.heard()[..], [Event::Finished(found, Ok(_))] if *found == a));
}

#[test]
fn cancelling_sends_abor_in_braid_and_nothing_for_unsent_transfers() {
    let mut talk = Talk::new(Mode::Braid, Pipelining::LockStep);
    let a = talk.get("/a");
    let b = talk.get("/b");
    talk.drain();
    talk.heard();
    talk.session.cancel(b);
    assert_eq!(talk.said(), ["RETR /a", "RETR /b", "ABOR 2"]);
    talk.reply("220 hi\r\n226 ok\r\n426 aborted\r\n226 abort done");
    talk.tell(complete(a, 1));
    let finished: Vec<_> =
        talk.heard().into_iter().filter(|event| matches!(event, Event::Finished(..))).collect();
    assert!(
        matches!(&finished[..], [Event::Finished(first, Err(_)), Event::Finished(second, Ok(_))] if (*first, *second) == (b, a))
    );

    let mut talk = Talk::new(Mode::Tcp, Pipelining::LockStep);
    talk.get("/a");
    let b = talk.get("/b");
    talk.drain();
    talk.session.cancel(b);
    assert_eq!(talk.heard(), [Event::Finished(b, Err(TransferError::Data(None)))]);
}

#[test]
fn the_end_is_reported_once_with_its_reason() {
    let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
    talk.session.command(Command::Quit);
    talk.drain();
    talk.reply("221 bye");
    assert!(matches!(talk.heard()[..], [Event::Reply(..), Event::Ended(Ended::Quit)]));
    talk.tell(Input::Closed);
    assert!(talk.heard().is_empty());

    // Some servers say goodbye by 421.
    let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
    talk.session.command(Command::Quit);
    talk.drain();
    talk.reply("421 bye");
    assert!(matches!(talk.heard()[..], [Event::Reply(..), Event::Ended(Ended::Quit)]));

    let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
    talk.reply("421 idle");
    assert!(matches!(talk.heard()[..], [Event::Ended(Ended::ByServer(_))]));

    let mut talk = Talk::new(Mode::Tcp, Pipelining::Metadata);
    talk.size("/a");
    talk.tell(Input::Closed);
    assert_eq!(talk.heard(), [Event::Ended(Ended::Lost)]);
}

mod any_server {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever a server sends: no panic, and at most one end for each transfer.
        #[test]
        fn no_server_makes_it_panic(
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
            let mut talk = Talk { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
            talk.session.login(b"u", Secret::new("p")).unwrap();
            let mut tags = vec![talk.get("/a")];
            talk.size("/s");
            tags.push(talk.session.transfer(Transfer::Store { path: arg("/b"), offset: 2, length: 5 }));
            tags.push(talk.session.transfer(Transfer::List { form: ListForm::Facts, path: None }));
            let mut ends = Vec::new();
            for reply in replies {
                talk.reply(reply);
                for event in talk.heard() {
                    match event {
                        Event::Connect(tag, _) => talk.tell(Input::Connected(tag)),
                        Event::Listen(tag) => talk.tell(Input::Listening(tag, "127.0.0.1:9".parse().unwrap())),
                        Event::Receive(tag, _) | Event::Send(tag, _) => talk.tell(complete(tag, 5)),
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
fn host_goes_ahead_of_user_in_the_same_flight_where_that_costs_nothing() {
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
    // A server that does not know HOST is logged in to all the same, and one that has no such host is told of.
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
fn the_last_word_of_a_server_that_ends_is_no_reply_to_a_command() {
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
