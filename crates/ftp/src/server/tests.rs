//! The server session: pipelining, invalid input, refusals, and jobs that end in any order.

use std::sync::Arc;

use braidftp_base::{Output, Time};
use bytes::Bytes;

use super::*;
use crate::line::LINE_MAX;
use crate::store::FileKind;

/// A session whose jobs the test answers.
pub(super) struct Dialogue {
    pub(super) session: Session,
    /// Replies since the last look, one per line.
    replies: Vec<String>,
    pub(super) todo: Vec<Do>,
}

pub(super) fn tcp() -> Carrier {
    Carrier::Tcp { local: "127.0.0.1:21".parse().unwrap(), peer: "127.0.0.1:5000".parse().unwrap() }
}

impl Dialogue {
    pub(super) fn new(carrier: Carrier, config: Config) -> Self {
        Self::of(Session::new(Arc::new(config), carrier, Time::ZERO))
    }

    pub(super) fn of(session: Session) -> Self {
        let mut dialogue = Self { session, replies: Vec::new(), todo: Vec::new() };
        dialogue.drain();
        assert_eq!(dialogue.take_replies(), ["220 braidftp ready"]);
        dialogue
    }

    /// A session that is logged in, with TYPE I.
    pub(super) fn logged_in(carrier: Carrier, config: Config) -> Self {
        let mut dialogue = Self::new(carrier, config);
        dialogue.send("USER u\r\nPASS p\r\nTYPE I\r\n");
        assert!(matches!(dialogue.todo.pop(), Some(Do::Authenticate { .. })));
        dialogue.handle(Input::Authenticated(Ok(())));
        assert_eq!(dialogue.codes(), [331, 230, 200]);
        dialogue
    }

    pub(super) fn send(&mut self, text: &str) {
        self.handle(Input::Received(Bytes::copy_from_slice(text.as_bytes())));
    }

    pub(super) fn handle(&mut self, input: Input) {
        self.session.handle(Time::ZERO, input);
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        loop {
            match self.session.poll(Time::ZERO) {
                Output::Send(bytes) => {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    assert!(text.ends_with("\r\n"), "whole lines");
                    self.replies.extend(text.lines().map(String::from));
                }
                Output::Event(todo) => self.todo.push(todo),
                Output::Wait(_) => return,
            }
        }
    }

    pub(super) fn take_replies(&mut self) -> Vec<String> {
        std::mem::take(&mut self.replies)
    }

    pub(super) fn codes(&mut self) -> Vec<u16> {
        let code = |line: String| line.split(' ').next().and_then(|code| code.parse().ok());
        self.take_replies().into_iter().filter_map(code).collect()
    }

    pub(super) fn done(&mut self, job: JobId, outcome: Result<Outcome, Failure>) {
        self.handle(Input::Done { job, outcome });
    }

    /// The jobs that were issued and not taken.
    pub(super) fn jobs(&mut self) -> Vec<(JobId, Do)> {
        let job = |todo: &Do| match todo {
            Do::Listen { job }
            | Do::Query { job, .. }
            | Do::Change { job, .. }
            | Do::Send { job, .. }
            | Do::Receive { job, .. } => *job,
            other => panic!("{other:?} has no job"),
        };
        std::mem::take(&mut self.todo).into_iter().map(|todo| (job(&todo), todo)).collect()
    }

    pub(super) fn job(&mut self) -> JobId {
        let jobs = self.jobs();
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs[0].0
    }

    pub(super) fn size(&mut self, job: JobId, size: u64) {
        self.done(job, Ok(Outcome::Facts(Metadata::new(FileKind::File, size))));
    }

    /// Sends EPSV and answers its job; the reply is 229.
    pub(super) fn passive(&mut self) {
        self.send("EPSV\r\n");
        let job = self.job();
        self.done(job, Ok(Outcome::Listening("127.0.0.1:4000".parse().unwrap())));
        assert_eq!(self.take_replies(), ["229 entering extended passive mode (|||4000|)"]);
    }
}

pub(super) const SENT: Result<Outcome, Failure> = Ok(Outcome::Sent { bytes: 1 });

#[test]
fn fifty_sizes_in_one_write_are_answered_in_order() {
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut dialogue = Dialogue::logged_in(carrier, Config::default());
        let lines: String = (0..50).map(|at| format!("SIZE f{at}\r\n")).collect();
        dialogue.send(&lines);
        // In whichever order the store answers.
        let mut answered = 0;
        while answered < 50 {
            let mut jobs = dialogue.jobs();
            jobs.reverse();
            for (job, todo) in jobs {
                let Do::Query { path, .. } = todo else { panic!("{todo:?}") };
                let number = path.to_string()[1..].parse().unwrap();
                dialogue.size(job, number);
                answered += 1;
            }
        }
        let expected: Vec<_> = (0..50).map(|at| format!("213 {at}")).collect();
        assert_eq!(dialogue.take_replies(), expected, "{carrier:?}");
    }
}

#[test]
fn commands_after_a_transfer_wait_for_it_and_none_is_lost() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    dialogue.passive();
    dialogue.send("RETR a\r\nSIZE a\r\nNOOP\r\nEPSV\r\n");
    let transfer = dialogue.job();
    dialogue.handle(Input::Started { job: transfer, size: Some(1), name: None });
    assert_eq!(dialogue.take_replies(), ["150 opening data connection for /a (1 bytes)"]);
    // SIZE during the transfer is queued.
    assert!(dialogue.todo.is_empty());
    dialogue.done(transfer, SENT);
    assert_eq!(dialogue.codes(), [226]);
    let size = dialogue.job();
    dialogue.size(size, 1);
    assert_eq!(dialogue.codes(), [213, 200]);
    assert!(matches!(dialogue.jobs()[..], [(_, Do::Listen { .. })]));
}

#[test]
fn status_is_answered_during_a_transfer_and_abort_stops_the_transfer() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    dialogue.passive();
    dialogue.send("RETR a\r\n");
    let job = dialogue.job();
    dialogue.handle(Input::Started { job, size: None, name: None });
    dialogue.send("STAT\r\n");
    assert_eq!(dialogue.codes(), [150, 211]);
    // IP and Synch precede ABOR, as RFC 959 requires.
    dialogue.handle(Input::Received(Bytes::from_static(b"\xff\xf4\xff\xf2ABOR\r\nNOOP\r\n")));
    assert_eq!(dialogue.todo, [Do::Cancel { job }]);
    dialogue.todo.clear();
    assert!(dialogue.take_replies().is_empty());
    dialogue.done(job, Err(Failure::Cancelled));
    assert_eq!(dialogue.codes(), [426, 226, 200]);
    // ABOR is answered also when there is nothing to abort.
    dialogue.send("ABOR\r\n");
    assert_eq!(dialogue.codes(), [226]);
}

#[test]
fn quit_after_a_transfer_waits_for_its_end() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    dialogue.passive();
    dialogue.send("RETR a\r\nQUIT\r\nNOOP\r\n");
    let job = dialogue.job();
    assert!(dialogue.take_replies().is_empty());
    dialogue.done(job, SENT);
    assert_eq!(dialogue.codes(), [226, 221]);
    assert_eq!(dialogue.todo, [Do::Close]);
}

#[test]
fn rest_applies_to_one_transfer_even_if_it_is_refused() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    dialogue.send("REST 5\r\nRETR a\r\n");
    assert_eq!(dialogue.codes(), [350, 425]);
    dialogue.passive();
    dialogue.send("RETR a\r\n");
    let jobs = dialogue.jobs();
    let Do::Send { source: Source::File { offset, .. }, .. } = &jobs[0].1 else { panic!("{jobs:?}") };
    assert_eq!(*offset, 0);
}

//= specs/ftp-over-sctp.md#section-6.4
//= type=test
//# It MUST NOT take further lines into its session beyond that
#[test]
fn a_full_window_stops_reading_until_commands_end() {
    let config = Config { window_commands: 8, ..Config::default() };
    for carrier in [tcp(), Carrier::Braid { data_streams: 4 }] {
        let mut dialogue = Dialogue::logged_in(carrier, config.clone());
        for at in 0..8 {
            assert!(dialogue.session.wants_input(), "{at}");
            dialogue.send("SIZE a\r\n");
        }
        assert!(!dialogue.session.wants_input());
        // Input that was read into the same buffer is kept nevertheless.
        dialogue.send("NOOP\r\n");
        let mut answered = 0;
        while answered < 8 {
            for (job, _) in dialogue.jobs() {
                dialogue.size(job, 1);
                answered += 1;
            }
        }
        assert!(dialogue.session.wants_input());
        assert_eq!(dialogue.codes(), [vec![213; 8], vec![200]].concat());
    }
}

#[test]
fn the_window_also_counts_bytes() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config { window_bytes: 20, ..Config::default() });
    dialogue.send("SIZE a\r\nSIZE bbbbbbbbbbbbbbbbbb\r\n");
    assert!(!dialogue.session.wants_input());
}

#[test]
fn unsent_replies_stop_further_commands() {
    let config = Config { replies_bytes: 100, ..Config::default() };
    let mut session = Session::new(Arc::new(config), tcp(), Time::ZERO);
    session.handle(Time::ZERO, Input::Received(Bytes::from("NOOP\r\n".repeat(1000))));
    let mut replies = 0;
    while let Output::Send(bytes) = session.poll(Time::ZERO) {
        assert!(bytes.len() < 200, "{}", bytes.len());
        replies += bytes.len() / 10;
    }
    // The window opened while commands ended, and no command was lost.
    assert!(replies >= 1000, "{replies}");
}

#[test]
fn invalid_lines_are_refused_and_the_next_line_is_processed() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    for (line, code) in [
        ("", 500),
        ("FROB", 500),
        ("123", 500),
        ("MKD a\0b", 501),
        ("MKD a\rb", 501),
        ("MKD", 501),
        ("PORT 1,2,3", 501),
        ("EPRT |3|x|1|", 522),
        ("TYPE E", 504),
        ("MODE B", 504),
        ("STRU R", 504),
        ("SITE EXEC x", 504),
        ("MFMT yesterday a", 501),
        ("PORT 127,0,0,1,10,10", 502),
    ] {
        dialogue.send(&format!("{line}\r\nNOOP\r\n"));
        assert_eq!(dialogue.codes(), [code, 200], "{line:?}");
    }
    let long = "x".repeat(LINE_MAX + 1);
    dialogue.send(&format!("SIZE {long}\r\nNOOP\r\n"));
    assert_eq!(dialogue.codes(), [500, 200]);
}

#[test]
fn a_line_without_end_takes_no_memory_and_does_not_block_the_session() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    for _ in 0..1000 {
        dialogue.send(&"y".repeat(1000));
    }
    assert_eq!(dialogue.codes(), [500]);
    dialogue.send("\r\nNOOP\r\n");
    assert_eq!(dialogue.codes(), [200]);
}

#[test]
fn paths_do_not_leave_the_root() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    dialogue.send("CWD /a/b\r\n");
    let job = dialogue.job();
    dialogue.done(job, Ok(Outcome::Facts(Metadata::new(FileKind::Directory, 0))));
    dialogue.send("SIZE ../../../../etc/passwd\r\n");
    let jobs = dialogue.jobs();
    let Do::Query { path, .. } = &jobs[0].1 else { panic!("{jobs:?}") };
    assert_eq!(path.to_absolute(), b"/etc/passwd");
    dialogue.size(jobs[0].0, 0);
    dialogue.send("PWD\r\nMKD /\r\nDELE ..\r\nRNFR /a/../..\r\n");
    assert_eq!(dialogue.take_replies()[2], "257 \"/a/b\" is the current folder");
    // `..` of /a/b is /a, which DELE and RMD may remove if it exists.
    assert!(
        matches!(&dialogue.jobs()[..], [(_, Do::Change { change: Change::Remove(path), .. })] if path.as_bytes() == b"a")
    );
}

#[test]
fn commands_require_a_login_and_three_wrong_passwords_end_the_session() {
    let mut dialogue = Dialogue::new(tcp(), Config::default());
    dialogue.send("SIZE a\r\nRETR a\r\nEPSV\r\nPASS x\r\nFEAT\r\n");
    assert_eq!(&dialogue.codes()[..4], [530, 530, 530, 503]);
    for round in 0..3 {
        dialogue.send("USER u\r\nPASS wrong\r\nSIZE a\r\n");
        assert!(matches!(dialogue.todo.pop(), Some(Do::Authenticate { .. })));
        dialogue.handle(Input::Authenticated(Err(LoginError::Refused)));
        let expected = if round < 2 { &[331, 530, 530][..] } else { &[331, 421] };
        assert_eq!(dialogue.codes(), expected);
    }
    assert_eq!(dialogue.todo, [Do::Close]);
}

#[test]
fn an_idle_session_ends_and_a_busy_one_does_not() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    let later = Time::ZERO + Config::default().idle;
    assert_eq!(dialogue.session.poll(Time::ZERO), Output::Wait(Some(later)));
    dialogue.send("SIZE a\r\n");
    let job = dialogue.job();
    assert_eq!(dialogue.session.poll(later), Output::Wait(None));
    dialogue.size(job, 1);
    dialogue.drain();
    assert!(matches!(dialogue.session.poll(later), Output::Send(bytes) if bytes.starts_with(b"213")
        || bytes.starts_with(b"421")));
    let mut last = None;
    while let Output::Event(todo) = dialogue.session.poll(later) {
        last = Some(todo);
    }
    assert_eq!(last, Some(Do::Close));
}

#[test]
fn bounce_attacks_are_refused_and_active_mode_connects_to_the_peer_only() {
    let config = Config { active: Active::ToPeer, ..Config::default() };
    let mut dialogue = Dialogue::logged_in(tcp(), config);
    dialogue.send("PORT 10,0,0,1,39,16\r\nPORT 127,0,0,1,0,22\r\nEPRT |2|::1|5000|\r\nEPRT |1|127.0.0.1|5001|\r\nRETR a\r\n");
    assert_eq!(dialogue.codes(), [501, 501, 501, 200]);
    let jobs = dialogue.jobs();
    assert!(
        matches!(&jobs[..], [(_, Do::Send { data: DataPath::TcpActive(address), .. })] if address.port() == 5001)
    );
    // EPSV ALL refuses the rest from then on (RFC 2428 §4).
    dialogue.done(jobs[0].0, SENT);
    dialogue.send("EPSV ALL\r\nPASV\r\nEPRT |1|127.0.0.1|5001|\r\nEPSV 2\r\n");
    assert_eq!(dialogue.codes(), [226, 200, 503, 503, 522]);
}

//= specs/ftp-over-sctp.md#section-3.1
//= type=test
//# of EPRT and PORT it uses only the port
#[test]
fn naive_uses_the_port_of_eprt_and_ignores_the_address() {
    let mut dialogue = Dialogue::logged_in(Carrier::Naive, Config::default());
    dialogue.send("EPRT |1|10.9.8.7|80|\r\nRETR a\r\nEPSV\r\nEPRT |1|10.9.8.7|0|\r\n");
    let jobs = dialogue.jobs();
    assert!(matches!(&jobs[..], [(_, Do::Send { data: DataPath::Association { port: 80 }, .. })]));
    dialogue.done(jobs[0].0, SENT);
    assert_eq!(dialogue.codes(), [200, 226, 502, 501]);
}

//= specs/ftp-over-sctp.md#section-4.2
//= type=test
//# RETR MUST send exactly as many bytes as SIZE last reported in this session for that path.
#[test]
fn ms_sends_the_reported_size_minus_the_restart_offset() {
    let mut dialogue = Dialogue::logged_in(Carrier::Ms, Config::default());
    dialogue.send("RETR a\r\n");
    assert_eq!(dialogue.codes(), [503]);
    dialogue.send("SIZE a\r\nREST 4\r\nRETR a\r\nREST 11\r\nRETR a\r\n");
    let job = dialogue.job();
    dialogue.size(job, 10);
    let jobs = dialogue.jobs();
    let Do::Send { source: Source::File { offset, extent, .. }, data, .. } = &jobs[0].1 else {
        panic!("{jobs:?}")
    };
    assert_eq!((*offset, *extent, *data), (4, Extent::Exactly(6), DataPath::Stream1));
    dialogue.done(jobs[0].0, SENT);
    assert_eq!(dialogue.codes(), [213, 350, 226, 350, 554]);
}

//= specs/ftp-over-sctp.md#section-4.2
//= type=test
//# A server remembers at least 4,096 sizes and MAY forget the oldest when there are more.
#[test]
fn ms_limits_the_remembered_sizes_and_forgets_the_oldest() {
    let mut dialogue = Dialogue::logged_in(Carrier::Ms, Config::default());
    for at in 0..=crate::mapping::REPORTED_SIZES_MAX {
        dialogue.send(&format!("SIZE f{at}\r\n"));
        let job = dialogue.job();
        dialogue.size(job, 1);
    }
    dialogue.take_replies();
    dialogue.send("RETR f0\r\nRETR f1\r\n");
    assert_eq!(dialogue.codes(), [503]);
    assert_eq!(dialogue.jobs().len(), 1);
}

//= specs/ftp-over-sctp.md#section-4.3
//= type=test
//# A STOR, APPE or STOU without ALLO before it MUST be refused with 503; an ALLO applies to one such command, even if
//# that fails.
#[test]
fn ms_uploads_require_allo() {
    let mut dialogue = Dialogue::logged_in(Carrier::Ms, Config::default());
    dialogue.send("STOR a\r\nALLO 9\r\nSTOR /\r\nSTOR a\r\nALLO 7\r\nSTOR a\r\n");
    assert_eq!(dialogue.codes(), [503, 200, 550, 503, 200]);
    assert!(matches!(&dialogue.jobs()[..], [(_, Do::Receive { sink: Sink { length: Some(7), .. }, .. })]));
}

//= specs/ftp-over-sctp.md#section-5.3
//= type=test
//# MUST then shut the association down.
#[test]
fn ms_ends_the_session_after_an_abort_of_a_running_transfer() {
    let mut dialogue = Dialogue::logged_in(Carrier::Ms, Config::default());
    dialogue.send("SIZE a\r\n");
    let job = dialogue.job();
    dialogue.size(job, 10);
    dialogue.send("RETR a\r\n");
    dialogue.send("ABOR\r\nNOOP\r\n");
    let job = JobId(dialogue.jobs_and_cancels());
    dialogue.done(job, Err(Failure::Cancelled));
    assert_eq!(dialogue.codes(), [213, 426, 226]);
    assert_eq!(dialogue.todo, [Do::Close]);
}

impl Dialogue {
    /// The job that was issued and then cancelled.
    fn jobs_and_cancels(&mut self) -> u64 {
        match &std::mem::take(&mut self.todo)[..] {
            [Do::Send { job, .. }, Do::Cancel { job: cancelled }] if job == cancelled => job.0,
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn braid() -> Dialogue {
    Dialogue::logged_in(
        Carrier::Braid { data_streams: 2 },
        Config { concurrent_transfers: 3, concurrent_downloads: 2, ..Config::default() },
    )
}

#[test]
fn rnto_must_follow_rnfr_directly() {
    for carrier in [tcp(), Carrier::Braid { data_streams: 2 }] {
        let mut dialogue = Dialogue::logged_in(carrier, Config::default());
        dialogue.send("RNTO b\r\nRNFR a\r\nNOOP\r\nRNTO b\r\nRNFR a\r\nRNTO b\r\n");
        let first = dialogue.job();
        dialogue.size(first, 0);
        let second = dialogue.job();
        dialogue.size(second, 0);
        let jobs = dialogue.jobs();
        assert!(matches!(&jobs[..], [(_, Do::Change { change: Change::Rename { .. }, .. })]));
        dialogue.done(jobs[0].0, Ok(Outcome::Changed));
        assert_eq!(dialogue.codes(), [503, 350, 200, 503, 350, 250]);
    }
}

#[test]
fn a_closed_control_connection_cancels_running_jobs() {
    let mut dialogue = braid();
    dialogue.send("RETR a\r\nRETR b\r\n");
    let jobs = dialogue.jobs();
    dialogue.handle(Input::Closed);
    assert_eq!(dialogue.todo, [Do::Cancel { job: jobs[0].0 }, Do::Cancel { job: jobs[1].0 }, Do::Close]);
    dialogue.todo.clear();
    // Results that arrive late are dropped.
    dialogue.done(jobs[0].0, Err(Failure::Cancelled));
    dialogue.send("NOOP\r\n");
    assert!(
        dialogue.take_replies().is_empty() && dialogue.todo.is_empty() && !dialogue.session.wants_input()
    );
}

#[test]
fn draining_lets_running_jobs_end() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    dialogue.passive();
    dialogue.send("RETR a\r\n");
    let job = dialogue.job();
    dialogue.handle(Input::Drain);
    assert!(dialogue.todo.is_empty());
    dialogue.done(job, SENT);
    assert_eq!(dialogue.codes(), [226, 421]);
    assert_eq!(dialogue.todo, [Do::Close]);
}

#[test]
fn abort_cancels_transfers_that_were_read_ahead_and_their_preparations() {
    let mut dialogue = Dialogue::logged_in(Carrier::Ms, Config::default());
    dialogue.send("SIZE a\r\n");
    let job = dialogue.job();
    dialogue.size(job, 10);
    dialogue.send("SIZE slow\r\nREST 5\r\nRETR a\r\nALLO 3\r\nSTOR b\r\nABOR\r\nRETR a\r\nSTOR b\r\n");
    let slow = dialogue.job();
    dialogue.size(slow, 1);
    // The first RETR and STOR are cancelled before they began; neither REST nor ALLO applies to the next
    // transfer.
    assert_eq!(dialogue.codes(), [213, 213, 350, 426, 200, 426, 226]);
    let jobs = dialogue.jobs();
    let Do::Send { source: Source::File { offset: 0, .. }, .. } = &jobs[0].1 else { panic!("{jobs:?}") };
    dialogue.done(jobs[0].0, SENT);
    assert_eq!(dialogue.codes(), [226, 503]);
}

#[test]
fn a_transfer_is_cancelled_once_for_repeated_aborts() {
    let mut dialogue = braid();
    dialogue.send("RETR a\r\n");
    let job = dialogue.job();
    dialogue.send("ABOR\r\nABOR 1\r\n");
    dialogue.handle(Input::Closed);
    assert_eq!(dialogue.todo, [Do::Cancel { job }, Do::Close]);
}

#[test]
fn a_new_login_waits_for_running_commands() {
    let mut dialogue = braid();
    dialogue.send("RETR a\r\nUSER other\r\nPASS p\r\nSIZE b\r\n");
    let job = dialogue.job();
    dialogue.done(job, SENT);
    let todo = std::mem::take(&mut dialogue.todo);
    assert!(
        matches!(&todo[..], [Do::LogOut, Do::Authenticate { user, .. }] if &user[..] == b"other"),
        "{todo:?}"
    );
    dialogue.handle(Input::Authenticated(Err(LoginError::Refused)));
    assert_eq!(dialogue.codes(), [226, 331, 530, 530]);
}

#[test]
fn a_user_with_a_proved_key_needs_no_password_and_others_do() {
    let carrier = Carrier::Braid { data_streams: 4 };
    let mut dialogue =
        Dialogue::of(Session::over_protection(Arc::new(Config::default()), carrier, Time::ZERO));
    dialogue.session.vouch([(None, Bytes::from_static(b"anna"))]);
    // As from a client that does not wait for replies.
    dialogue.send("USER anna\r\nPASS \r\nTYPE I\r\n");
    assert_eq!(std::mem::take(&mut dialogue.todo), [Do::Admit { user: Bytes::from_static(b"anna") }]);
    assert!(dialogue.codes().is_empty(), "PASS waits");
    dialogue.handle(Input::Authenticated(Ok(())));
    assert_eq!(dialogue.codes(), [232, 202, 200]);
    dialogue.send("USER bert\r\nPASS p\r\n");
    let todo = std::mem::take(&mut dialogue.todo);
    assert!(matches!(&todo[..], [Do::LogOut, Do::Authenticate { .. }]), "{todo:?}");
    dialogue.handle(Input::Authenticated(Err(LoginError::Refused)));
    assert_eq!(dialogue.codes(), [331, 530]);
    dialogue.send("USER anna\r\n");
    dialogue.handle(Input::Authenticated(Err(LoginError::Busy)));
    dialogue.send("PWD\r\n");
    assert_eq!(dialogue.codes(), [530, 530]);
}

fn with_hosts() -> Arc<Config> {
    let host = |name: &str| VirtualHost { names: vec![name.into()], greeting: format!("welcome to {name}") };
    Arc::new(Config { hosts: vec![host("a.example"), host("b.example")], ..Config::default() })
}

#[test]
//= specs/rfc7151.txt#section-3
//= type=test
//# Server-FTP processes MUST treat a situation in which the HOST command
//# is issued more than once before the user has been authenticated as
//# though only the last HOST command had been sent, and return the
//# appropriate reply for the last HOST command.  Server-FTP processes
//# MUST treat a situation in which the HOST command is issued after the
//# user has been authenticated as an erroneous sequence of commands and
//# return a 503 reply.
fn the_last_host_before_the_login_applies_and_later_ones_are_refused() {
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut dialogue = Dialogue::of(Session::new(with_hosts(), carrier, Time::ZERO));
        dialogue.send("HOST a.example\r\nHOST B.example\r\n");
        assert_eq!((dialogue.codes(), dialogue.session.host()), (vec![220, 220], Some(HostId(1))));
        dialogue.send("HOST c.example\r\n");
        assert_eq!((dialogue.codes(), dialogue.session.host()), (vec![504], None));
        dialogue.send("HOST a.example\r\nUSER anna\r\nPASS p\r\nHOST b.example\r\n");
        assert_eq!(dialogue.session.host(), Some(HostId(0)), "while the password is checked");
        dialogue.handle(Input::Authenticated(Err(LoginError::Refused)));
        assert_eq!(dialogue.codes()[..3], [220, 331, 530]);
        dialogue.send("HOST a.example\r\nUSER anna\r\nPASS p\r\n");
        dialogue.handle(Input::Authenticated(Ok(())));
        dialogue.send("HOST b.example\r\n");
        assert_eq!((dialogue.codes().last(), dialogue.session.host()), (Some(&503), Some(HostId(0))));
    }
}

#[test]
//= specs/rfc7151.txt#section-3.2.1
//= type=test
//# The effect of a HOST command MUST be reset if a REIN command is
//# performed
fn rein_returns_to_the_default_host() {
    let mut dialogue = Dialogue::of(Session::new(with_hosts(), tcp(), Time::ZERO));
    dialogue.send("HOST a.example\r\nREIN\r\n");
    assert_eq!((dialogue.codes(), dialogue.session.host()), (vec![220, 220], None));
}

#[test]
fn a_key_of_one_hosts_user_grants_no_login_at_another_host() {
    let carrier = Carrier::Braid { data_streams: 4 };
    let mut dialogue = Dialogue::of(Session::over_protection(with_hosts(), carrier, Time::ZERO));
    dialogue.session.vouch([(Some(HostId(0)), Bytes::from_static(b"anna"))]);
    dialogue.send("USER anna\r\n");
    assert_eq!((dialogue.codes(), dialogue.todo.len()), (vec![331], 0), "at the host without a table");
    let mut dialogue = Dialogue::of(Session::over_protection(with_hosts(), carrier, Time::ZERO));
    dialogue.session.vouch([(Some(HostId(0)), Bytes::from_static(b"anna"))]);
    dialogue.send("HOST b.example\r\nUSER anna\r\n");
    assert_eq!((dialogue.codes(), dialogue.todo.len()), (vec![220, 331], 0), "at another");
    let mut dialogue = Dialogue::of(Session::over_protection(with_hosts(), carrier, Time::ZERO));
    dialogue.session.vouch([(Some(HostId(0)), Bytes::from_static(b"anna"))]);
    dialogue.send("HOST a.example\r\nUSER anna\r\n");
    assert_eq!(dialogue.todo, [Do::Admit { user: Bytes::from_static(b"anna") }]);
}

#[test]
fn the_server_name_in_tls_selects_the_host_for_the_whole_session() {
    let mut dialogue = Dialogue::of(Session::secured(with_hosts(), tcp(), Time::ZERO));
    dialogue.session.name_server("B.EXAMPLE");
    assert_eq!(dialogue.session.host(), Some(HostId(1)));
    dialogue.send("HOST a.example\r\nHOST b.example\r\n");
    assert_eq!((dialogue.codes(), dialogue.session.host()), (vec![504, 220], Some(HostId(1))));
}

#[test]
fn if_protection_is_required_no_carrier_accepts_unprotected_passwords() {
    let config = Arc::new(Config { unprotected: Unprotected::Anonymous, ..Config::default() });
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut plain = Dialogue::of(Session::new(config.clone(), carrier, Time::ZERO));
        plain.send("USER u\r\nPASS p\r\nUSER anonymous\r\n");
        let refused = Do::NoteUnprotected { user: Bytes::from_static(b"u") };
        assert_eq!((plain.codes(), plain.todo), (vec![530, 503, 331], vec![refused]));
        let mut protected = Dialogue::of(Session::over_protection(config.clone(), carrier, Time::ZERO));
        protected.send("USER u\r\nPASS p\r\n");
        assert_eq!(protected.codes(), [331]);
        assert!(matches!(protected.todo[..], [Do::Authenticate { .. }]));
    }
}

#[test]
fn the_idle_time_starts_at_the_last_input_and_is_shorter_before_the_login() {
    for (mut dialogue, idle) in [
        (Dialogue::new(tcp(), Config::default()), Config::default().idle_before_login),
        (Dialogue::logged_in(tcp(), Config::default()), Config::default().idle),
    ] {
        let first = Time::ZERO + idle;
        dialogue.session.handle(first, Input::Received(Bytes::from_static(b"NOOP\r\n")));
        assert!(matches!(dialogue.session.poll(first), Output::Send(_)));
        assert_eq!(dialogue.session.poll(first), Output::Wait(Some(first + idle)));
    }
}

#[test]
fn a_session_without_a_login_ends_in_time_despite_input_and_also_after_a_logout() {
    let within = Config::default().login_within;
    let goes_on = |dialogue: &mut Dialogue, from: Time| {
        let mut now = from;
        // Sent before each time limit expires, with the replies taken.
        while now < from + within {
            dialogue.session.handle(now, Input::Received(Bytes::from_static(b"NOOP\r\n")));
            while let Output::Send(_) = dialogue.session.poll(now) {}
            assert!(dialogue.session.wants_input(), "{now:?}");
            now = (now + Duration::from_secs(5)).min(from + within);
        }
        let Output::Send(reply) = dialogue.session.poll(now) else { panic!("it goes on") };
        assert!(reply.starts_with(b"421 no login within 60 s"), "{reply:?}");
        assert_eq!(dialogue.session.poll(now), Output::Event(Do::Close));
    };
    goes_on(&mut Dialogue::new(tcp(), Config::default()), Time::ZERO);
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    let later = Time::ZERO + Duration::from_secs(200);
    dialogue.session.handle(later, Input::Received(Bytes::from_static(b"REIN\r\n")));
    while !matches!(dialogue.session.poll(later), Output::Wait(_)) {}
    goes_on(&mut dialogue, later);
}

#[test]
fn a_password_check_that_is_pending_at_the_login_deadline_still_decides() {
    let mut dialogue = Dialogue::new(tcp(), Config::default());
    dialogue.send("USER a\r\nPASS b\r\n");
    let late = Time::ZERO + 2 * Config::default().login_within;
    assert_eq!(dialogue.session.poll(late), Output::Wait(None));
    dialogue.session.handle(late, Input::Authenticated(Ok(())));
    let Output::Send(reply) = dialogue.session.poll(late) else { panic!("no reply") };
    assert!(reply.starts_with(b"230"), "{reply:?}");
    assert_eq!(dialogue.session.poll(late), Output::Wait(Some(late + Config::default().idle)));
}

#[test]
fn a_restart_in_ascii_is_refused() {
    let mut dialogue = Dialogue::logged_in(tcp(), Config::default());
    dialogue.passive();
    dialogue.send("TYPE A\r\nREST 3\r\nRETR a\r\n");
    assert_eq!(dialogue.codes(), [200, 350, 554]);
}

mod any_order {
    use proptest::prelude::*;

    use super::*;

    const LINES: [&str; 14] = [
        "RETR a", "STOR a", "SIZE b", "MKD a", "CWD c", "REST 3", "RNFR a", "RNTO b", "NOOP", "FROB", "ABOR",
        "MLSD", "DELE a/b", "ALLO 3",
    ];

    proptest! {
        /// Each command gets one final reply, in whichever order jobs end; no job is issued twice.
        #[test]
        fn every_command_gets_one_final_reply(
            which in 0_usize..4,
            script in proptest::collection::vec((0..LINES.len(), any::<bool>(), any::<proptest::sample::Index>()), 1..60),
        ) {
            let carrier = [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 2 }][which];
            let mut dialogue = Dialogue::logged_in(carrier, Config { window_commands: 10, ..Config::default() });
            let mut open: Vec<Do> = Vec::new();
            let mut said = 0;
            for (line, finish, pick) in script {
                dialogue.send(&format!("{}\r\n", LINES[line]));
                said += 1;
                open.append(&mut dialogue.todo);
                if finish && !open.is_empty() {
                    let todo = open.remove(pick.index(open.len()));
                    finish_one(&mut dialogue, todo);
                }
            }
            for _ in 0..1000 {
                open.append(&mut dialogue.todo);
                if open.is_empty() { break; }
                let todo = open.remove(0);
                finish_one(&mut dialogue, todo);
            }
            let closed = dialogue.session.poll(Time::ZERO) == Output::Wait(None);
            let finals = dialogue.codes().into_iter().filter(|code| *code >= 200).count();
            // A session of ms ends early after an ABOR that aborted a transfer.
            prop_assert!(finals == said || (closed && finals < said), "{finals} of {said}");
        }
    }

    fn finish_one(dialogue: &mut Dialogue, todo: Do) {
        match todo {
            Do::Listen { job } => {
                dialogue.done(job, Ok(Outcome::Listening("127.0.0.1:4000".parse().unwrap())))
            }
            Do::Query { job, query: Query::Digest(_), .. } => {
                dialogue.done(job, Ok(Outcome::Digest { digest: Bytes::from_static(&[7; 32]), bytes: 3 }));
            }
            Do::Query { job, query: Query::Partial, .. } => dialogue.done(job, Ok(Outcome::Partial(0))),
            Do::Query { job, .. } => {
                dialogue.done(job, Ok(Outcome::Facts(Metadata::new(FileKind::Directory, 0))))
            }
            Do::Change { job, .. } => dialogue.done(job, Err(Failure::Store(StoreError::Denied))),
            Do::Send { job, .. } => dialogue.done(job, SENT),
            Do::Receive { job, .. } => dialogue.done(job, Ok(Outcome::Received { bytes: 0, name: None })),
            // A cancelled job is answered by its own entry.
            Do::Cancel { .. }
            | Do::Close
            | Do::LogOut
            | Do::StartTls
            | Do::Admit { .. }
            | Do::NoteUnprotected { .. } => {}
            Do::Authenticate { .. } => {}
        }
    }
}
