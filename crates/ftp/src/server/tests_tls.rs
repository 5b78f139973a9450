//! The server session and TLS: what is permitted before, during and inside TLS.

use std::sync::Arc;

use braidftp_base::{Output, Time};
use proptest::prelude::*;

use super::tests::{Talk, tcp};
use super::*;

fn config(unprotected: Unprotected) -> Config {
    Config { tls: Tls::Offered, unprotected, active: Active::ToPeer, ..Config::default() }
}

/// A session inside TLS, by AUTH.
fn inside(unprotected: Unprotected) -> Talk {
    let mut talk = Talk::new(tcp(), config(unprotected));
    talk.say("AUTH TLS\r\n");
    assert_eq!(talk.heard(), ["234 begin TLS"]);
    assert_eq!(std::mem::take(&mut talk.todo), [Do::StartTls]);
    assert!(!talk.session.wants_input() && !talk.session.is_secured());
    talk.tell(Input::Secured);
    assert!(talk.session.wants_input() && talk.session.is_secured());
    talk
}

fn log_in(talk: &mut Talk) {
    talk.say("USER u\r\nPASS p\r\n");
    assert!(matches!(talk.todo.pop(), Some(Do::Authenticate { .. })));
    talk.tell(Input::Authenticated(Ok(())));
    assert_eq!(talk.codes(), [331, 230]);
}

/// Sends each line and checks the code of its reply.
fn table(talk: &mut Talk, rows: &[(&str, u16)]) {
    for (line, code) in rows {
        talk.say(&format!("{line}\r\n"));
        assert_eq!(talk.codes(), [*code], "{line}");
    }
}

#[test]
fn without_a_key_and_over_sctp_nothing_is_offered() {
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut config = config(Unprotected::Nobody);
        if carrier == tcp() {
            config.tls = Tls::Refused;
        }
        let mut talk = Talk::new(carrier, config);
        table(&mut talk, &[("AUTH TLS", 502), ("PBSZ 0", 503), ("PROT P", 503), ("CCC", 502)]);
        talk.say("FEAT\r\n");
        assert!(!talk.heard().concat().contains("AUTH"));
        talk.say("USER u\r\n");
        assert_eq!(talk.codes(), [530]);
    }
}

//= specs/rfc4217.txt#section-6
//= type=test
//# If a server supports the FEAT command, then it MUST advertise supported AUTH, PBSZ, and PROT commands in the reply, as
//# described in section 3.2 of [RFC-2389].
#[test]
fn before_tls_all_is_refused_that_needs_it() {
    let mut talk = Talk::new(tcp(), config(Unprotected::Everybody));
    let rows = [
        ("PBSZ 0", 503),
        ("PROT P", 503),
        ("CCC", 533),
        ("AUTH KERBEROS_V4", 504),
        ("AUTH SSL", 504),
        ("AUTH", 501),
    ];
    table(&mut talk, &rows);
    talk.say("FEAT\r\n");
    let features = talk.heard();
    for line in [" AUTH TLS", " PBSZ", " PROT"] {
        assert!(features.contains(&line.to_owned()), "{features:?}");
    }
    assert!(talk.todo.is_empty());
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
    let mut talk = inside(Unprotected::Anonymous);
    log_in(&mut talk);
    talk.passive();
    let refused = [
        ("AUTH TLS", 503),
        ("PROT P", 503),
        ("RETR f", 521),
        ("STOR f", 521),
        ("MLSD", 521),
        ("APPE f", 521),
    ];
    table(&mut talk, &refused);
    let sized = [("PBSZ x", 501), ("PBSZ 12345678901", 501), ("PBSZ 4096", 200), ("RETR f", 521)];
    table(&mut talk, &sized);
    let levels =
        [("PROT C", 534), ("PROT S", 536), ("PROT E", 536), ("PROT X", 504), ("LIST", 521), ("prot p", 200)];
    table(&mut talk, &levels);
    assert!(talk.todo.is_empty(), "{:?}", talk.todo);
    talk.say("RETR f\r\n");
    assert!(matches!(talk.job(), JobId(_)));
    table(&mut inside(Unprotected::Anonymous), &[("CCC", 534), ("REIN", 502)]);
}

//= specs/rfc4217.txt#section-9
//= type=test
//# Once a PROT command has been issued by the client and accepted by the server returning the '200' reply, the security of
//# subsequent data connections MUST be at that level until another PROT command is issued and accepted; the session ends
//# and a REIN command is issued, or the security of the session (via an AUTH command) is re-negotiated.
#[test]
fn protection_of_data_stays_whatever_is_said_afterwards() {
    let mut talk = inside(Unprotected::Anonymous);
    log_in(&mut talk);
    table(&mut talk, &[("PBSZ 0", 200), ("PROT P", 200)]);
    let refused = [
        ("PROT C", 534),
        ("PROT X", 504),
        ("PBSZ x", 501),
        ("PBSZ 0", 200),
        ("REIN", 502),
        ("AUTH TLS", 503),
    ];
    table(&mut talk, &refused);
    for _ in 0..3 {
        talk.passive();
        talk.say("RETR f\r\n");
        let job = talk.job();
        assert!(talk.session.is_secured());
        talk.done(job, Err(Failure::DataLost));
        assert_eq!(talk.codes(), [426]);
    }
}

//= specs/rfc4217.txt#section-17
//= type=test
//# To maintain backward compatibility with older versions of this document, the server SHOULD accept 'TLS-C' as a synonym
//# for 'TLS'.
#[test]
fn the_mechanism_has_two_names_in_any_case() {
    for line in ["AUTH TLS", "auth tls", "AUTH TLS-C", "AUTH Tls-c"] {
        let mut talk = Talk::new(tcp(), config(Unprotected::Nobody));
        table(&mut talk, &[(line, 234)]);
        assert_eq!(talk.todo, [Do::StartTls], "{line}");
    }
}

#[test]
fn implicit_tls_protects_data_without_prot() {
    let config = Arc::new(config(Unprotected::Nobody));
    let session = Session::secured(config, tcp(), Time::ZERO);
    let mut talk = Talk::of(session);
    assert!(talk.session.is_secured());
    log_in(&mut talk);
    talk.passive();
    table(&mut talk, &[("AUTH TLS", 503)]);
    talk.say("RETR f\r\n");
    assert!(matches!(talk.job(), JobId(_)));
}

#[test]
fn logins_without_tls_depend_on_the_configuration() {
    for (unprotected, user, anonymous) in [
        (Unprotected::Everybody, 331, 331),
        (Unprotected::Anonymous, 530, 331),
        (Unprotected::Nobody, 530, 530),
    ] {
        let mut talk = Talk::new(tcp(), config(unprotected));
        table(
            &mut talk,
            &[("USER anonymousx", user), ("USER Anonymous", anonymous), ("USER ftp", anonymous)],
        );
        // After a refused USER there is no user for PASS.
        let mut talk = Talk::new(tcp(), config(unprotected));
        talk.say("USER u\r\nPASS secret\r\n");
        let asked = matches!(talk.todo.pop(), Some(Do::Authenticate { .. }));
        assert_eq!(asked, unprotected == Unprotected::Everybody);
        if !asked {
            assert_eq!(talk.codes(), [530, 503]);
            let mut refused = Talk::new(tcp(), config(unprotected));
            refused.say("USER u\r\n");
            assert_eq!(refused.todo, [Do::NoteUnprotected { user: "u".into() }]);
        }
        log_in(&mut inside(unprotected));
    }
}

#[test]
fn auth_resets_login_and_parameters() {
    let mut talk = Talk::logged_in(tcp(), config(Unprotected::Everybody));
    talk.say("REST 5\r\nEPSV ALL\r\nAUTH TLS\r\n");
    assert_eq!(talk.codes(), [350, 200, 234]);
    assert_eq!(std::mem::take(&mut talk.todo), [Do::LogOut, Do::StartTls]);
    talk.tell(Input::Secured);
    table(&mut talk, &[("PWD", 530), ("PASS p", 503)]);
    log_in(&mut talk);
    // TYPE is A again, for which SIZE is refused.
    table(&mut talk, &[("SIZE f", 550)]);
}

#[test]
fn a_failed_or_slow_handshake_ends_without_a_reply() {
    let begun = || {
        let mut talk = Talk::new(tcp(), config(Unprotected::Nobody));
        talk.say("AUTH TLS\r\n");
        talk.heard();
        talk.todo.clear();
        talk
    };
    let mut talk = begun();
    talk.tell(Input::Closed);
    assert_eq!((talk.heard(), std::mem::take(&mut talk.todo)), (vec![], vec![Do::Close]));
    let mut talk = begun();
    talk.tell(Input::Drain);
    assert_eq!((talk.heard(), std::mem::take(&mut talk.todo)), (vec![], vec![Do::Close]));
    let mut talk = begun();
    let late = Time::ZERO + Config::default().idle_before_login;
    assert_eq!(talk.session.poll(late), Output::Event(Do::Close));
}

#[test]
fn a_data_connection_whose_tls_is_wrong_is_522() {
    let mut talk = inside(Unprotected::Nobody);
    log_in(&mut talk);
    table(&mut talk, &[("PBSZ 0", 200), ("PROT P", 200)]);
    talk.passive();
    talk.say("RETR f\r\n");
    let job = talk.job();
    talk.done(job, Err(Failure::DataUnprotected));
    assert_eq!(talk.codes(), [522]);
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
        let mut talk = Talk::new(tcp(), config(Unprotected::Anonymous));
        talk.say(&format!("AUTH TLS\r\n{injected}USER cut"));
        prop_assert_eq!(talk.heard(), ["234 begin TLS"]);
        talk.say(&late);
        prop_assert_eq!(talk.heard(), Vec::<String>::new());
        prop_assert_eq!(std::mem::take(&mut talk.todo), [Do::StartTls]);
        talk.tell(Input::Secured);
        prop_assert_eq!(talk.heard(), Vec::<String>::new());
        let mut clean = inside(Unprotected::Anonymous);
        talk.say(&asked);
        clean.say(&asked);
        // Apart from job numbers.
        prop_assert_eq!(talk.heard(), clean.heard());
        prop_assert_eq!(talk.todo.len(), clean.todo.len());
    }

    /// In any order of input, no password is checked and no data connection used without protection.
    #[test]
    fn nothing_secret_happens_in_the_clear(steps in proptest::collection::vec((lines(), 0..4_u8), 1..8)) {
        let mut talk = Talk::new(tcp(), config(Unprotected::Nobody));
        for (said, then) in steps {
            talk.say(&said);
            for todo in std::mem::take(&mut talk.todo) {
                let secured = talk.session.is_secured();
                match todo {
                    Do::Authenticate { .. } | Do::Send { .. } | Do::Receive { .. } => prop_assert!(secured),
                    Do::StartTls => prop_assert!(!secured),
                    _ => {}
                }
            }
            match then {
                0 => talk.tell(Input::Secured),
                1 => talk.tell(Input::Authenticated(Ok(()))),
                _ => {}
            }
            talk.todo.retain(|todo| !matches!(todo, Do::LogOut));
        }
    }
}
