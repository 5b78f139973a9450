//! The server session and TLS: what is permitted before, during and inside TLS.

use std::sync::Arc;

use braidftp_base::{Output, Time};
use proptest::prelude::*;

use super::tests::{Dialogue, tcp};
use super::*;

fn config(unprotected: Unprotected) -> Config {
    Config { tls: Tls::Offered, unprotected, active: Active::ToPeer, ..Config::default() }
}

/// A session inside TLS, by AUTH.
fn inside(unprotected: Unprotected) -> Dialogue {
    let mut dialogue = Dialogue::new(tcp(), config(unprotected));
    dialogue.send("AUTH TLS\r\n");
    assert_eq!(dialogue.take_replies(), ["234 begin TLS"]);
    assert_eq!(std::mem::take(&mut dialogue.todo), [Do::StartTls]);
    assert!(!dialogue.session.wants_input() && !dialogue.session.is_secured());
    dialogue.handle(Input::Secured);
    assert!(dialogue.session.wants_input() && dialogue.session.is_secured());
    dialogue
}

fn log_in(dialogue: &mut Dialogue) {
    dialogue.send("USER u\r\nPASS p\r\n");
    assert!(matches!(dialogue.todo.pop(), Some(Do::Authenticate { .. })));
    dialogue.handle(Input::Authenticated(Ok(())));
    assert_eq!(dialogue.codes(), [331, 230]);
}

/// Sends each line and checks the code of its reply.
fn table(dialogue: &mut Dialogue, rows: &[(&str, u16)]) {
    for (line, code) in rows {
        dialogue.send(&format!("{line}\r\n"));
        assert_eq!(dialogue.codes(), [*code], "{line}");
    }
}

#[test]
fn tls_is_not_offered_without_a_key_or_over_sctp() {
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut config = config(Unprotected::Nobody);
        if carrier == tcp() {
            config.tls = Tls::Refused;
        }
        let mut dialogue = Dialogue::new(carrier, config);
        table(&mut dialogue, &[("AUTH TLS", 502), ("PBSZ 0", 503), ("PROT P", 503), ("CCC", 502)]);
        dialogue.send("FEAT\r\n");
        assert!(!dialogue.take_replies().concat().contains("AUTH"));
        dialogue.send("USER u\r\n");
        assert_eq!(dialogue.codes(), [530]);
    }
}

//= specs/rfc4217.txt#section-6
//= type=test
//# If a server supports the FEAT command, then it MUST advertise supported AUTH, PBSZ, and PROT commands in the reply, as
//# described in section 3.2 of [RFC-2389].
#[test]
fn commands_that_need_tls_are_refused_before_it() {
    let mut dialogue = Dialogue::new(tcp(), config(Unprotected::Everybody));
    let rows = [
        ("PBSZ 0", 503),
        ("PROT P", 503),
        ("CCC", 533),
        ("AUTH KERBEROS_V4", 504),
        ("AUTH SSL", 504),
        ("AUTH", 501),
    ];
    table(&mut dialogue, &rows);
    dialogue.send("FEAT\r\n");
    let features = dialogue.take_replies();
    for line in [" AUTH TLS", " PBSZ", " PROT"] {
        assert!(features.contains(&line.to_owned()), "{features:?}");
    }
    assert!(dialogue.todo.is_empty());
}

//= specs/rfc4217.txt#section-9
//= type=test
//# The initial state of the data connection MUST be 'Clear' (this is the behaviour as indicated by [RFC-2228]).
//= specs/rfc4217.txt#section-9
//= type=test
//# the PROT command MUST be preceded by a PBSZ command, and a PBSZ command MUST be preceded by a successful
//# security data exchange (the TLS negotiation in this case).
//= specs/rfc4217.txt#section-10.2
//= type=test
//# The server SHOULD only check the status of the data protection level (for options 3 and 4 above) on the
//# actual command that will initiate the data transfer (and not on the PORT or PASV).
#[test]
fn inside_tls_unprotected_data_is_refused() {
    let mut dialogue = inside(Unprotected::Anonymous);
    log_in(&mut dialogue);
    dialogue.passive();
    let refused = [
        ("AUTH TLS", 503),
        ("PROT P", 503),
        ("RETR f", 521),
        ("STOR f", 521),
        ("MLSD", 521),
        ("APPE f", 521),
    ];
    table(&mut dialogue, &refused);
    let sized = [("PBSZ x", 501), ("PBSZ 12345678901", 501), ("PBSZ 4096", 200), ("RETR f", 521)];
    table(&mut dialogue, &sized);
    let levels =
        [("PROT C", 534), ("PROT S", 536), ("PROT E", 536), ("PROT X", 504), ("LIST", 521), ("prot p", 200)];
    table(&mut dialogue, &levels);
    assert!(dialogue.todo.is_empty(), "{:?}", dialogue.todo);
    dialogue.send("RETR f\r\n");
    assert!(matches!(dialogue.job(), JobId(_)));
    table(&mut inside(Unprotected::Anonymous), &[("CCC", 534), ("REIN", 502)]);
}

//= specs/rfc4217.txt#section-9
//= type=test
//# Once a PROT command has been issued by the client and accepted by the server returning the '200' reply, the security of
//# subsequent data connections MUST be at that level until another PROT command is issued and accepted; the session ends
//# and a REIN command is issued, or the security of the session (via an AUTH command) is re-negotiated.
#[test]
fn prot_p_cannot_be_undone() {
    let mut dialogue = inside(Unprotected::Anonymous);
    log_in(&mut dialogue);
    table(&mut dialogue, &[("PBSZ 0", 200), ("PROT P", 200)]);
    let refused = [
        ("PROT C", 534),
        ("PROT X", 504),
        ("PBSZ x", 501),
        ("PBSZ 0", 200),
        ("REIN", 502),
        ("AUTH TLS", 503),
    ];
    table(&mut dialogue, &refused);
    for _ in 0..3 {
        dialogue.passive();
        dialogue.send("RETR f\r\n");
        let job = dialogue.job();
        assert!(dialogue.session.is_secured());
        dialogue.done(job, Err(Failure::DataLost));
        assert_eq!(dialogue.codes(), [426]);
    }
}

//= specs/rfc4217.txt#section-17
//= type=test
//# To maintain backward compatibility with older versions of this document, the server SHOULD accept 'TLS-C' as a synonym
//# for 'TLS'.
#[test]
fn auth_accepts_both_names_of_the_mechanism_in_any_case() {
    for line in ["AUTH TLS", "auth tls", "AUTH TLS-C", "AUTH Tls-c"] {
        let mut dialogue = Dialogue::new(tcp(), config(Unprotected::Nobody));
        table(&mut dialogue, &[(line, 234)]);
        assert_eq!(dialogue.todo, [Do::StartTls], "{line}");
    }
}

#[test]
fn implicit_tls_protects_data_without_prot() {
    let config = Arc::new(config(Unprotected::Nobody));
    let session = Session::secured(config, tcp(), Time::ZERO);
    let mut dialogue = Dialogue::of(session);
    assert!(dialogue.session.is_secured());
    log_in(&mut dialogue);
    dialogue.passive();
    table(&mut dialogue, &[("AUTH TLS", 503)]);
    dialogue.send("RETR f\r\n");
    assert!(matches!(dialogue.job(), JobId(_)));
}

#[test]
fn logins_without_tls_depend_on_the_configuration() {
    for (unprotected, user, anonymous) in [
        (Unprotected::Everybody, 331, 331),
        (Unprotected::Anonymous, 530, 331),
        (Unprotected::Nobody, 530, 530),
    ] {
        let mut dialogue = Dialogue::new(tcp(), config(unprotected));
        table(
            &mut dialogue,
            &[("USER anonymousx", user), ("USER Anonymous", anonymous), ("USER ftp", anonymous)],
        );
        // After a refused USER there is no user for PASS.
        let mut dialogue = Dialogue::new(tcp(), config(unprotected));
        dialogue.send("USER u\r\nPASS secret\r\n");
        let asked = matches!(dialogue.todo.pop(), Some(Do::Authenticate { .. }));
        assert_eq!(asked, unprotected == Unprotected::Everybody);
        if !asked {
            assert_eq!(dialogue.codes(), [530, 503]);
            let mut refused = Dialogue::new(tcp(), config(unprotected));
            refused.send("USER u\r\n");
            assert_eq!(refused.todo, [Do::NoteUnprotected { user: "u".into() }]);
        }
        log_in(&mut inside(unprotected));
    }
}

#[test]
fn auth_resets_login_and_parameters() {
    let mut dialogue = Dialogue::logged_in(tcp(), config(Unprotected::Everybody));
    dialogue.send("REST 5\r\nEPSV ALL\r\nAUTH TLS\r\n");
    assert_eq!(dialogue.codes(), [350, 200, 234]);
    assert_eq!(std::mem::take(&mut dialogue.todo), [Do::LogOut, Do::StartTls]);
    dialogue.handle(Input::Secured);
    table(&mut dialogue, &[("PWD", 530), ("PASS p", 503)]);
    log_in(&mut dialogue);
    // TYPE is A again, and SIZE is refused for it.
    table(&mut dialogue, &[("SIZE f", 550)]);
}

#[test]
fn a_failed_or_slow_handshake_ends_without_a_reply() {
    let begun = || {
        let mut dialogue = Dialogue::new(tcp(), config(Unprotected::Nobody));
        dialogue.send("AUTH TLS\r\n");
        dialogue.take_replies();
        dialogue.todo.clear();
        dialogue
    };
    let mut dialogue = begun();
    dialogue.handle(Input::Closed);
    assert_eq!((dialogue.take_replies(), std::mem::take(&mut dialogue.todo)), (vec![], vec![Do::Close]));
    let mut dialogue = begun();
    dialogue.handle(Input::Drain);
    assert_eq!((dialogue.take_replies(), std::mem::take(&mut dialogue.todo)), (vec![], vec![Do::Close]));
    let mut dialogue = begun();
    let late = Time::ZERO + Config::default().idle_before_login;
    assert_eq!(dialogue.session.poll(late), Output::Event(Do::Close));
}

#[test]
fn a_tls_failure_of_a_data_connection_is_reported_as_522() {
    let mut dialogue = inside(Unprotected::Nobody);
    log_in(&mut dialogue);
    table(&mut dialogue, &[("PBSZ 0", 200), ("PROT P", 200)]);
    dialogue.passive();
    dialogue.send("RETR f\r\n");
    let job = dialogue.job();
    dialogue.done(job, Err(Failure::DataUnprotected));
    assert_eq!(dialogue.codes(), [522]);
}

/// Valid and invalid lines, around AUTH.
fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("USER u".to_owned()),
        Just("PASS p".to_owned()),
        Just("AUTH TLS".to_owned()),
        Just("PBSZ 0".to_owned()),
        Just("PROT P".to_owned()),
        Just("PROT C".to_owned()),
        Just("CCC".to_owned()),
        Just("REIN".to_owned()),
        Just("RETR f".to_owned()),
        Just("EPSV".to_owned()),
        Just("QUIT".to_owned()),
        "[ -~]{0,12}",
    ];
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.join("\r\n") + "\r\n")
}

proptest! {
    /// Whatever follows AUTH unprotected, in the same write or later, is neither answered nor executed, and
    /// the session inside TLS is like a new one.
    #[test]
    fn input_before_the_handshake_is_discarded(injected in lines(), late in lines(), asked in lines()) {
        let mut dialogue = Dialogue::new(tcp(), config(Unprotected::Anonymous));
        dialogue.send(&format!("AUTH TLS\r\n{injected}USER cut"));
        prop_assert_eq!(dialogue.take_replies(), ["234 begin TLS"]);
        dialogue.send(&late);
        prop_assert_eq!(dialogue.take_replies(), Vec::<String>::new());
        prop_assert_eq!(std::mem::take(&mut dialogue.todo), [Do::StartTls]);
        dialogue.handle(Input::Secured);
        prop_assert_eq!(dialogue.take_replies(), Vec::<String>::new());
        let mut clean = inside(Unprotected::Anonymous);
        dialogue.send(&asked);
        clean.send(&asked);
        // Equal except for job numbers.
        prop_assert_eq!(dialogue.take_replies(), clean.take_replies());
        prop_assert_eq!(dialogue.todo.len(), clean.todo.len());
    }

    /// For any order of inputs, no password is checked and no data connection is used without protection.
    #[test]
    fn passwords_and_data_are_used_only_with_protection(steps in proptest::collection::vec((lines(), 0..4_u8), 1..8)) {
        let mut dialogue = Dialogue::new(tcp(), config(Unprotected::Nobody));
        for (said, then) in steps {
            dialogue.send(&said);
            for todo in std::mem::take(&mut dialogue.todo) {
                let secured = dialogue.session.is_secured();
                match todo {
                    Do::Authenticate { .. } | Do::Send { .. } | Do::Receive { .. } => prop_assert!(secured),
                    Do::StartTls => prop_assert!(!secured),
                    _ => {}
                }
            }
            match then {
                0 => dialogue.handle(Input::Secured),
                1 => dialogue.handle(Input::Authenticated(Ok(()))),
                _ => {}
            }
            dialogue.todo.retain(|todo| !matches!(todo, Do::LogOut));
        }
    }
}
