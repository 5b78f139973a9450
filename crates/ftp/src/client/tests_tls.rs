//! The client session and TLS: what is said before it, and what is made of a server that refuses it.

use proptest::prelude::*;

use super::tests::{Talk, arg, complete};
use super::*;
use crate::command::{Command, Secret};

/// A session that was asked for a login and a file before the greeting came.
fn begun(protection: Protection) -> Talk {
    let session = Session::new(Config { protection, ..Config::new(Mode::Tcp) });
    let mut talk = Talk { session, lines: Vec::new(), events: Vec::new() };
    talk.session.login(b"u", Secret::new("p")).unwrap();
    talk.session.transfer(Transfer::Retrieve { path: arg("/a"), offset: 0 });
    talk.reply("220 hi");
    assert!(matches!(talk.heard()[..], [Event::Greeting(_)] | [Event::Greeting(_), _]));
    talk
}

//= specs/rfc4217.txt#section-4.1
//= type=test
//# If a client wishes to attempt to secure a session, then it SHOULD, in accordance with [RFC-2228], send the AUTH command
//# with the parameter requesting TLS {TLS-PARM} ('TLS').
//= specs/rfc4217.txt#section-17
//= type=test
//# To request the TLS protocol in accordance with this document, the client MUST use 'TLS'
//= specs/rfc4217.txt#section-4.2
//= type=test
//# Although the TLS negotiation may be providing authentication information, the USER command MUST still be issued by the
//# client.
//= specs/rfc4217.txt#section-8
//= type=test
//# To protect the data channel as well, the PBSZ command, followed by the PROT command sequence, MUST be used.
//= specs/rfc4217.txt#section-9
//= type=test
//# Thus, the PBSZ command MUST still be issued, but must have a parameter of '0' to indicate that no buffering is
//# taking place and the data connection should not be encapsulated.
#[test]
fn tls_comes_before_everything_and_data_is_protected_too() {
    for protection in [Protection::IfOffered, Protection::Required] {
        let mut talk = begun(protection);
        assert_eq!(talk.said(), ["AUTH TLS"]);
        talk.reply("234 go on");
        assert_eq!(talk.heard(), [Event::StartTls]);
        assert!(talk.said().is_empty());
        talk.tell(Input::Secured);
        assert_eq!(talk.said(), ["PBSZ 0", "PROT P"]);
        talk.reply("200 PBSZ=0");
        assert!(talk.said().is_empty());
        talk.reply("200 ok");
        assert_eq!(talk.said(), ["USER u"]);
        // Told twice, it is no second beginning.
        talk.tell(Input::Secured);
        talk.reply("331 password");
        assert_eq!(talk.said(), ["PASS p", "EPSV"]);
        talk.reply("230 in");
        talk.reply("229 ok (|||4000|)");
        talk.heard();
        let tag = Tag(1);
        talk.tell(Input::Connected(tag));
        talk.reply("150 x");
        talk.tell(complete(tag, 7));
        talk.reply("226 x");
        assert!(matches!(talk.heard().last(), Some(Event::Finished(_, Ok(_)))));
    }
}

#[test]
fn where_tls_was_there_first_auth_is_not_said() {
    let mut talk = begun(Protection::Implicit);
    assert_eq!(talk.said(), ["PBSZ 0", "PROT P"]);
    // Servers of port 990 that know no PBSZ know PROT.
    talk.reply("502 what");
    assert!(talk.said().is_empty());
    talk.reply("200 ok");
    assert_eq!(talk.said(), ["USER u"]);
}

#[test]
fn how_much_is_sent_behind_tls_is_as_the_server_stands_it() {
    let after_tls = |greeting: &str| {
        let config = Config {
            protection: Protection::Required,
            pipelining: Pipelining::Adaptive,
            ..Config::new(Mode::Tcp)
        };
        let mut talk = Talk { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
        talk.session.login(b"u", Secret::new("p")).unwrap();
        talk.reply(greeting);
        assert_eq!(talk.said(), ["AUTH TLS"]);
        talk.reply("234 go on");
        talk.tell(Input::Secured);
        (talk.said(), talk)
    };
    let (said, mut talk) = after_tls("220 braidftp ready");
    assert_eq!(said, ["PBSZ 0", "PROT P", "USER u", "PASS p"]);
    talk.heard();
    talk.reply("200 ok");
    talk.reply("536 no");
    assert!(matches!(&talk.heard()[..], [Event::Ended(Ended::Unprotected { verb: "PROT", .. })]));
    assert_eq!(after_tls("220 hi").0, ["PBSZ 0", "PROT P"]);
    let (said, mut talk) = after_tls("220 Microsoft FTP Service");
    assert_eq!(said, ["PBSZ 0"]);
    talk.reply("200 ok");
    assert_eq!(talk.said(), ["PROT P"]);
}

#[test]
fn a_server_without_tls_is_told_nothing_where_it_is_required() {
    let mut talk = begun(Protection::Required);
    talk.said();
    talk.reply("530 log in first");
    assert!(
        matches!(&talk.heard()[..], [Event::Ended(Ended::Unprotected { verb: "AUTH", reply })] if reply.code.number() == 530)
    );
    assert!(talk.said().is_empty());

    let mut talk = begun(Protection::IfOffered);
    talk.said();
    talk.reply("500 what");
    assert!(matches!(&talk.heard()[..], [Event::Unprotected(reply)] if reply.code.number() == 500));
    assert_eq!(talk.said(), ["USER u"]);
}

#[test]
fn a_server_that_protects_no_data_is_told_nothing_in_any_case() {
    for protection in [Protection::IfOffered, Protection::Required, Protection::Implicit] {
        let mut talk = begun(protection);
        if protection != Protection::Implicit {
            talk.reply("234 go on");
            talk.tell(Input::Secured);
        }
        talk.reply("200 ok");
        talk.heard();
        talk.reply("534 no");
        assert!(matches!(&talk.heard()[..], [Event::Ended(Ended::Unprotected { verb: "PROT", .. })]));
        assert!(!talk.said().iter().any(|line| line.starts_with("USER")));
    }
}

#[test]
fn words_behind_the_answer_to_auth_are_an_attack() {
    for behind in ["234 go on\r\n230 in", "234 go on\r\n2", "234 go on\r\n\r\n"] {
        let mut talk = begun(Protection::Required);
        talk.tell(Input::Received(Bytes::from(format!("{behind}\r\n"))));
        let ended = Event::Ended(Ended::Violation(Violation::BeforeTls));
        assert_eq!(talk.heard(), std::slice::from_ref(&ended), "{behind}");
        let mut talk = begun(Protection::Required);
        talk.reply("234 go on");
        talk.heard();
        talk.reply("230 in");
        assert_eq!(talk.heard(), [ended]);
    }
    let mut talk = begun(Protection::Required);
    talk.reply("334 ADAT");
    assert!(matches!(
        &talk.heard()[..],
        [Event::Ended(Ended::Violation(Violation::Mismatch { verb: "AUTH", .. }))]
    ));
}

#[test]
fn a_session_asked_for_no_protection_says_no_auth_and_other_modes_never_do() {
    assert_eq!(begun(Protection::None).said(), ["USER u"]);
    for mode in [Mode::Naive, Mode::Ms, Mode::MsCp, Mode::Braid] {
        let session = Session::new(Config { protection: Protection::Required, ..Config::new(mode) });
        let mut talk = Talk { session, lines: Vec::new(), events: Vec::new() };
        talk.session.command(Command::Noop);
        talk.reply("220 hi");
        assert_eq!(talk.said(), ["NOOP"]);
    }
}

proptest! {
    /// Whatever a server or somebody in its place says: where protection is asked for, nothing but AUTH is
    /// said before it.
    #[test]
    fn nothing_is_told_before_tls(replies in proptest::collection::vec((0..9_usize, 0..4_u8), 0..12)) {
        const REPLIES: [&str; 9] = [
            "220 hi", "234 go on", "230 in", "331 password", "200 ok", "500 no", "334 x", "211-x\r\n AUTH TLS\r\n211 x", "421 bye",
        ];
        let mut talk = begun(Protection::Required);
        let (mut asked, mut secured) = (false, false);
        let mut said = talk.said();
        for (reply, then) in replies {
            talk.reply(REPLIES[reply]);
            asked |= talk.heard().contains(&Event::StartTls);
            if !secured {
                said.extend(talk.said());
            }
            if then == 0 && asked {
                secured = true;
                talk.tell(Input::Secured);
            }
        }
        prop_assert_eq!(said, ["AUTH TLS"]);
    }
}
