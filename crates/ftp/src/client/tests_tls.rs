//! The client session and TLS: what is sent before TLS, and how the session handles a server that refuses
//! TLS.

use proptest::prelude::*;

use super::tests::{Dialogue, arg, complete};
use super::*;
use crate::command::{Command, Secret};

/// A session whose caller requested a login and a file before the greeting arrived.
fn begun(protection: Protection) -> Dialogue {
    let session = Session::new(Config { protection, ..Config::new(Mode::Tcp) });
    let mut dialogue = Dialogue { session, lines: Vec::new(), events: Vec::new() };
    dialogue.session.login(b"u", Secret::new("p")).unwrap();
    dialogue.session.transfer(Transfer::Retrieve { path: arg("/a"), offset: 0 });
    dialogue.reply("220 hi");
    assert!(matches!(dialogue.take_events()[..], [Event::Greeting(_)] | [Event::Greeting(_), _]));
    dialogue
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
        let mut dialogue = begun(protection);
        assert_eq!(dialogue.take_sent(), ["AUTH TLS"]);
        dialogue.reply("234 go on");
        assert_eq!(dialogue.take_events(), [Event::StartTls]);
        assert!(dialogue.take_sent().is_empty());
        dialogue.handle(Input::Secured);
        assert_eq!(dialogue.take_sent(), ["PBSZ 0", "PROT P"]);
        dialogue.reply("200 PBSZ=0");
        assert!(dialogue.take_sent().is_empty());
        dialogue.reply("200 ok");
        assert_eq!(dialogue.take_sent(), ["USER u"]);
        // A second `Secured` changes nothing.
        dialogue.handle(Input::Secured);
        dialogue.reply("331 password");
        assert_eq!(dialogue.take_sent(), ["PASS p", "EPSV"]);
        dialogue.reply("230 in");
        dialogue.reply("229 ok (|||4000|)");
        dialogue.take_events();
        let tag = Tag(1);
        dialogue.handle(Input::Connected(tag));
        dialogue.reply("150 x");
        dialogue.handle(complete(tag, 7));
        dialogue.reply("226 x");
        assert!(matches!(dialogue.take_events().last(), Some(Event::Finished(_, Ok(_)))));
    }
}

#[test]
fn implicit_tls_sends_no_auth() {
    let mut dialogue = begun(Protection::Implicit);
    assert_eq!(dialogue.take_sent(), ["PBSZ 0", "PROT P"]);
    // Servers with implicit TLS that do not implement PBSZ implement PROT.
    dialogue.reply("502 what");
    assert!(dialogue.take_sent().is_empty());
    dialogue.reply("200 ok");
    assert_eq!(dialogue.take_sent(), ["USER u"]);
}

#[test]
fn pipelining_after_tls_depends_on_the_server() {
    let after_tls = |greeting: &str| {
        let config = Config {
            protection: Protection::Required,
            pipelining: Pipelining::Adaptive,
            ..Config::new(Mode::Tcp)
        };
        let mut dialogue = Dialogue { session: Session::new(config), lines: Vec::new(), events: Vec::new() };
        dialogue.session.login(b"u", Secret::new("p")).unwrap();
        dialogue.reply(greeting);
        assert_eq!(dialogue.take_sent(), ["AUTH TLS"]);
        dialogue.reply("234 go on");
        dialogue.handle(Input::Secured);
        (dialogue.take_sent(), dialogue)
    };
    let (said, mut dialogue) = after_tls("220 braidftp ready");
    assert_eq!(said, ["PBSZ 0", "PROT P", "USER u", "PASS p"]);
    dialogue.take_events();
    dialogue.reply("200 ok");
    dialogue.reply("536 no");
    assert!(matches!(&dialogue.take_events()[..], [Event::Ended(Ended::Unprotected { verb: "PROT", .. })]));
    assert_eq!(after_tls("220 hi").0, ["PBSZ 0", "PROT P"]);
    let (said, mut dialogue) = after_tls("220 Microsoft FTP Service");
    assert_eq!(said, ["PBSZ 0"]);
    dialogue.reply("200 ok");
    assert_eq!(dialogue.take_sent(), ["PROT P"]);
}

#[test]
fn a_server_without_tls_receives_no_login_if_tls_is_required() {
    let mut dialogue = begun(Protection::Required);
    dialogue.take_sent();
    dialogue.reply("530 log in first");
    assert!(
        matches!(&dialogue.take_events()[..], [Event::Ended(Ended::Unprotected { verb: "AUTH", reply })] if reply.code.number() == 530)
    );
    assert!(dialogue.take_sent().is_empty());

    let mut dialogue = begun(Protection::IfOffered);
    dialogue.take_sent();
    dialogue.reply("500 what");
    assert!(matches!(&dialogue.take_events()[..], [Event::Unprotected(reply)] if reply.code.number() == 500));
    assert_eq!(dialogue.take_sent(), ["USER u"]);
}

#[test]
fn a_server_without_protected_data_receives_no_login() {
    for protection in [Protection::IfOffered, Protection::Required, Protection::Implicit] {
        let mut dialogue = begun(protection);
        if protection != Protection::Implicit {
            dialogue.reply("234 go on");
            dialogue.handle(Input::Secured);
        }
        dialogue.reply("200 ok");
        dialogue.take_events();
        dialogue.reply("534 no");
        assert!(matches!(
            &dialogue.take_events()[..],
            [Event::Ended(Ended::Unprotected { verb: "PROT", .. })]
        ));
        assert!(!dialogue.take_sent().iter().any(|line| line.starts_with("USER")));
    }
}

#[test]
fn unprotected_input_after_the_reply_to_auth_is_a_violation() {
    for behind in ["234 go on\r\n230 in", "234 go on\r\n2", "234 go on\r\n\r\n"] {
        let mut dialogue = begun(Protection::Required);
        dialogue.handle(Input::Received(Bytes::from(format!("{behind}\r\n"))));
        let ended = Event::Ended(Ended::Violation(Violation::BeforeTls));
        assert_eq!(dialogue.take_events(), std::slice::from_ref(&ended), "{behind}");
        let mut dialogue = begun(Protection::Required);
        dialogue.reply("234 go on");
        dialogue.take_events();
        dialogue.reply("230 in");
        assert_eq!(dialogue.take_events(), [ended]);
    }
    let mut dialogue = begun(Protection::Required);
    dialogue.reply("334 ADAT");
    assert!(matches!(
        &dialogue.take_events()[..],
        [Event::Ended(Ended::Violation(Violation::Mismatch { verb: "AUTH", .. }))]
    ));
}

#[test]
fn auth_is_sent_only_over_tcp_and_only_if_requested() {
    assert_eq!(begun(Protection::None).take_sent(), ["USER u"]);
    for mode in [Mode::Naive, Mode::Ms, Mode::MsCp, Mode::Braid] {
        let session = Session::new(Config { protection: Protection::Required, ..Config::new(mode) });
        let mut dialogue = Dialogue { session, lines: Vec::new(), events: Vec::new() };
        dialogue.session.command(Command::Noop);
        dialogue.reply("220 hi");
        assert_eq!(dialogue.take_sent(), ["NOOP"]);
    }
}

proptest! {
    /// Whatever the server, or an attacker in its place, sends: if protection is required, nothing but AUTH
    /// is sent before TLS.
    #[test]
    fn only_auth_is_sent_before_tls(replies in proptest::collection::vec((0..9_usize, 0..4_u8), 0..12)) {
        const REPLIES: [&str; 9] = [
            "220 hi", "234 go on", "230 in", "331 password", "200 ok", "500 no", "334 x", "211-x\r\n AUTH TLS\r\n211 x", "421 bye",
        ];
        let mut dialogue = begun(Protection::Required);
        let (mut asked, mut secured) = (false, false);
        let mut said = dialogue.take_sent();
        for (reply, then) in replies {
            dialogue.reply(REPLIES[reply]);
            asked |= dialogue.take_events().contains(&Event::StartTls);
            if !secured {
                said.extend(dialogue.take_sent());
            }
            if then == 0 && asked {
                secured = true;
                dialogue.handle(Input::Secured);
            }
        }
        prop_assert_eq!(said, ["AUTH TLS"]);
    }
}
