//! The server session: pipelining, bad input, refusals, any order of jobs.

use std::sync::Arc;

use braidftp_base::{Output, Time};
use bytes::Bytes;

use super::*;
use crate::line::LINE_MAX;
use crate::mapping::TransferNumber;
use crate::store::FileKind;

/// A session whose jobs the test answers itself.
pub(super) struct Talk {
    pub(super) session: Session,
    /// Replies since the last look, a line each.
    replies: Vec<String>,
    pub(super) todo: Vec<Do>,
}

pub(super) fn tcp() -> Carrier {
    Carrier::Tcp { local: "127.0.0.1:21".parse().unwrap(), peer: "127.0.0.1:5000".parse().unwrap() }
}

impl Talk {
    pub(super) fn new(carrier: Carrier, config: Config) -> Self {
        Self::of(Session::new(Arc::new(config), carrier, Time::ZERO))
    }

    pub(super) fn of(session: Session) -> Self {
        let mut talk = Self { session, replies: Vec::new(), todo: Vec::new() };
        talk.drain();
        assert_eq!(talk.heard(), ["220 braidftp ready"]);
        talk
    }

    /// One that is logged in, with TYPE I.
    pub(super) fn logged_in(carrier: Carrier, config: Config) -> Self {
        let mut talk = Self::new(carrier, config);
        talk.say("USER u\r\nPASS p\r\nTYPE I\r\n");
        assert!(matches!(talk.todo.pop(), Some(Do::Authenticate { .. })));
        talk.tell(Input::Authenticated(Ok(())));
        assert_eq!(talk.codes(), [331, 230, 200]);
        talk
    }

    pub(super) fn say(&mut self, text: &str) {
        self.tell(Input::Received(Bytes::copy_from_slice(text.as_bytes())));
    }

    pub(super) fn tell(&mut self, input: Input) {
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

    pub(super) fn heard(&mut self) -> Vec<String> {
        std::mem::take(&mut self.replies)
    }

    pub(super) fn codes(&mut self) -> Vec<u16> {
        let code = |line: String| line.split(' ').next().and_then(|code| code.parse().ok());
        self.heard().into_iter().filter_map(code).collect()
    }

    pub(super) fn done(&mut self, job: JobId, outcome: Result<Outcome, Failure>) {
        self.tell(Input::Done { job, outcome });
    }

    /// The jobs that were given out and not taken.
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

    /// EPSV, and its 229.
    pub(super) fn passive(&mut self) {
        self.say("EPSV\r\n");
        let job = self.job();
        self.done(job, Ok(Outcome::Listening("127.0.0.1:4000".parse().unwrap())));
        assert_eq!(self.heard(), ["229 entering extended passive mode (|||4000|)"]);
    }
}

const SENT: Result<Outcome, Failure> = Ok(Outcome::Sent { bytes: 1 });

#[test]
fn fifty_sizes_in_one_write_are_answered_in_order() {
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut talk = Talk::logged_in(carrier, Config::default());
        let lines: String = (0..50).map(|at| format!("SIZE f{at}\r\n")).collect();
        talk.say(&lines);
        // Whatever the order in which the store answers.
        let mut answered = 0;
        while answered < 50 {
            let mut jobs = talk.jobs();
            jobs.reverse();
            for (job, todo) in jobs {
                let Do::Query { path, .. } = todo else { panic!("{todo:?}") };
                let number = path.to_string()[1..].parse().unwrap();
                talk.size(job, number);
                answered += 1;
            }
        }
        let expected: Vec<_> = (0..50).map(|at| format!("213 {at}")).collect();
        assert_eq!(talk.heard(), expected, "{carrier:?}");
    }
}

#[test]
fn commands_behind_a_transfer_wait_for_it_and_lose_nothing() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    talk.passive();
    talk.say("RETR a\r\nSIZE a\r\nNOOP\r\nEPSV\r\n");
    let transfer = talk.job();
    talk.tell(Input::Started { job: transfer, size: Some(1), name: None });
    assert_eq!(talk.heard(), ["150 opening data connection for /a (1 bytes)"]);
    // SIZE in the middle of the transfer: queued.
    assert!(talk.todo.is_empty());
    talk.done(transfer, SENT);
    assert_eq!(talk.codes(), [226]);
    let size = talk.job();
    talk.size(size, 1);
    assert_eq!(talk.codes(), [213, 200]);
    assert!(matches!(talk.jobs()[..], [(_, Do::Listen { .. })]));
}

#[test]
fn status_is_answered_while_a_transfer_runs_and_abort_stops_it() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    talk.passive();
    talk.say("RETR a\r\n");
    let job = talk.job();
    talk.tell(Input::Started { job, size: None, name: None });
    talk.say("STAT\r\n");
    assert_eq!(talk.codes(), [150, 211]);
    // IP and Synch in front, as RFC 959 has it.
    talk.tell(Input::Received(Bytes::from_static(b"\xff\xf4\xff\xf2ABOR\r\nNOOP\r\n")));
    assert_eq!(talk.todo, [Do::Cancel { job }]);
    talk.todo.clear();
    assert!(talk.heard().is_empty());
    talk.done(job, Err(Failure::Cancelled));
    assert_eq!(talk.codes(), [426, 226, 200]);
    // And when there is nothing to stop.
    talk.say("ABOR\r\n");
    assert_eq!(talk.codes(), [226]);
}

#[test]
fn quit_behind_a_transfer_waits_for_it() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    talk.passive();
    talk.say("RETR a\r\nQUIT\r\nNOOP\r\n");
    let job = talk.job();
    assert!(talk.heard().is_empty());
    talk.done(job, SENT);
    assert_eq!(talk.codes(), [226, 221]);
    assert_eq!(talk.todo, [Do::Close]);
}

#[test]
fn rest_counts_once_even_if_the_transfer_is_refused() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    talk.say("REST 5\r\nRETR a\r\n");
    assert_eq!(talk.codes(), [350, 425]);
    talk.passive();
    talk.say("RETR a\r\n");
    let jobs = talk.jobs();
    let Do::Send { source: Source::File { offset, .. }, .. } = &jobs[0].1 else { panic!("{jobs:?}") };
    assert_eq!(*offset, 0);
}

//= specs/ftp-over-sctp.md#section-6.4
//= type=test
//# It MUST NOT take further lines into its session beyond that
#[test]
fn the_window_stops_the_reading_and_opens_again() {
    let config = Config { window_commands: 8, ..Config::default() };
    for carrier in [tcp(), Carrier::Braid { data_streams: 4 }] {
        let mut talk = Talk::logged_in(carrier, config.clone());
        for at in 0..8 {
            assert!(talk.session.wants_input(), "{at}");
            talk.say("SIZE a\r\n");
        }
        assert!(!talk.session.wants_input());
        // What was read into the same buffer all the same is kept.
        talk.say("NOOP\r\n");
        let mut answered = 0;
        while answered < 8 {
            for (job, _) in talk.jobs() {
                talk.size(job, 1);
                answered += 1;
            }
        }
        assert!(talk.session.wants_input());
        assert_eq!(talk.codes(), [vec![213; 8], vec![200]].concat());
    }
}

#[test]
fn the_window_also_counts_bytes() {
    let mut talk = Talk::logged_in(tcp(), Config { window_bytes: 20, ..Config::default() });
    talk.say("SIZE a\r\nSIZE bbbbbbbbbbbbbbbbbb\r\n");
    assert!(!talk.session.wants_input());
}

#[test]
fn replies_that_are_not_taken_stop_the_commands() {
    let config = Config { replies_bytes: 100, ..Config::default() };
    let mut session = Session::new(Arc::new(config), tcp(), Time::ZERO);
    session.handle(Time::ZERO, Input::Received(Bytes::from("NOOP\r\n".repeat(1000))));
    let mut replies = 0;
    while let Output::Send(bytes) = session.poll(Time::ZERO) {
        assert!(bytes.len() < 200, "{}", bytes.len());
        replies += bytes.len() / 10;
    }
    // And the window opened as they went: none was lost.
    assert!(replies >= 1000, "{replies}");
}

#[test]
fn bad_lines_are_refused_and_the_next_is_served() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
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
        talk.say(&format!("{line}\r\nNOOP\r\n"));
        assert_eq!(talk.codes(), [code, 200], "{line:?}");
    }
    let long = "x".repeat(LINE_MAX + 1);
    talk.say(&format!("SIZE {long}\r\nNOOP\r\n"));
    assert_eq!(talk.codes(), [500, 200]);
}

#[test]
fn a_line_without_end_holds_no_memory_and_no_session_up() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    for _ in 0..1000 {
        talk.say(&"y".repeat(1000));
    }
    assert_eq!(talk.codes(), [500]);
    talk.say("\r\nNOOP\r\n");
    assert_eq!(talk.codes(), [200]);
}

#[test]
fn paths_do_not_leave_the_root() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    talk.say("CWD /a/b\r\n");
    let job = talk.job();
    talk.done(job, Ok(Outcome::Facts(Metadata::new(FileKind::Directory, 0))));
    talk.say("SIZE ../../../../etc/passwd\r\n");
    let jobs = talk.jobs();
    let Do::Query { path, .. } = &jobs[0].1 else { panic!("{jobs:?}") };
    assert_eq!(path.to_absolute(), b"/etc/passwd");
    talk.size(jobs[0].0, 0);
    talk.say("PWD\r\nMKD /\r\nDELE ..\r\nRNFR /a/../..\r\n");
    assert_eq!(talk.heard()[2], "257 \"/a/b\" is the current folder");
    // `..` of /a/b is /a: a folder that may be deleted if it is there.
    assert!(
        matches!(&talk.jobs()[..], [(_, Do::Change { change: Change::Remove(path), .. })] if path.as_bytes() == b"a")
    );
}

#[test]
fn nothing_is_served_before_the_login_and_three_wrong_passwords_end_it() {
    let mut talk = Talk::new(tcp(), Config::default());
    talk.say("SIZE a\r\nRETR a\r\nEPSV\r\nPASS x\r\nFEAT\r\n");
    assert_eq!(&talk.codes()[..4], [530, 530, 530, 503]);
    for round in 0..3 {
        talk.say("USER u\r\nPASS wrong\r\nSIZE a\r\n");
        assert!(matches!(talk.todo.pop(), Some(Do::Authenticate { .. })));
        talk.tell(Input::Authenticated(Err(LoginError::Refused)));
        let expected = if round < 2 { &[331, 530, 530][..] } else { &[331, 421] };
        assert_eq!(talk.codes(), expected);
    }
    assert_eq!(talk.todo, [Do::Close]);
}

#[test]
fn an_idle_session_ends_and_a_busy_one_does_not() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    let later = Time::ZERO + Config::default().idle;
    assert_eq!(talk.session.poll(Time::ZERO), Output::Wait(Some(later)));
    talk.say("SIZE a\r\n");
    let job = talk.job();
    assert_eq!(talk.session.poll(later), Output::Wait(None));
    talk.size(job, 1);
    talk.drain();
    assert!(matches!(talk.session.poll(later), Output::Send(bytes) if bytes.starts_with(b"213")
        || bytes.starts_with(b"421")));
    let mut last = None;
    while let Output::Event(todo) = talk.session.poll(later) {
        last = Some(todo);
    }
    assert_eq!(last, Some(Do::Close));
}

#[test]
fn bounce_is_refused_and_active_mode_goes_to_the_peer_alone() {
    let config = Config { active: Active::ToPeer, ..Config::default() };
    let mut talk = Talk::logged_in(tcp(), config);
    talk.say("PORT 10,0,0,1,39,16\r\nPORT 127,0,0,1,0,22\r\nEPRT |2|::1|5000|\r\nEPRT |1|127.0.0.1|5001|\r\nRETR a\r\n");
    assert_eq!(talk.codes(), [501, 501, 501, 200]);
    let jobs = talk.jobs();
    assert!(
        matches!(&jobs[..], [(_, Do::Send { data: DataPath::TcpActive(address), .. })] if address.port() == 5001)
    );
    // EPSV ALL refuses the rest from then on (RFC 2428 §4).
    talk.done(jobs[0].0, SENT);
    talk.say("EPSV ALL\r\nPASV\r\nEPRT |1|127.0.0.1|5001|\r\nEPSV 2\r\n");
    assert_eq!(talk.codes(), [226, 200, 503, 503, 522]);
}

//= specs/ftp-over-sctp.md#section-3.1
//= type=test
//# of EPRT and PORT it uses the port alone
#[test]
fn naive_takes_the_port_and_no_address() {
    let mut talk = Talk::logged_in(Carrier::Naive, Config::default());
    talk.say("EPRT |1|10.9.8.7|80|\r\nRETR a\r\nEPSV\r\nEPRT |1|10.9.8.7|0|\r\n");
    let jobs = talk.jobs();
    assert!(matches!(&jobs[..], [(_, Do::Send { data: DataPath::Association { port: 80 }, .. })]));
    talk.done(jobs[0].0, SENT);
    assert_eq!(talk.codes(), [200, 226, 502, 501]);
}

//= specs/ftp-over-sctp.md#section-4.2
//= type=test
//# RETR MUST send exactly as many bytes as SIZE last told in this session for that path.
#[test]
fn ms_sends_what_size_told_less_the_restart() {
    let mut talk = Talk::logged_in(Carrier::Ms, Config::default());
    talk.say("RETR a\r\n");
    assert_eq!(talk.codes(), [503]);
    talk.say("SIZE a\r\nREST 4\r\nRETR a\r\nREST 11\r\nRETR a\r\n");
    let job = talk.job();
    talk.size(job, 10);
    let jobs = talk.jobs();
    let Do::Send { source: Source::File { offset, extent, .. }, data, .. } = &jobs[0].1 else {
        panic!("{jobs:?}")
    };
    assert_eq!((*offset, *extent, *data), (4, Extent::Exactly(6), DataPath::Stream1));
    talk.done(jobs[0].0, SENT);
    assert_eq!(talk.codes(), [213, 350, 226, 350, 554]);
}

//= specs/ftp-over-sctp.md#section-4.2
//= type=test
//# A server remembers at least 4,096 numbers and MAY forget the oldest when there are more.
#[test]
fn ms_remembers_so_many_sizes_and_forgets_the_oldest() {
    let mut talk = Talk::logged_in(Carrier::Ms, Config::default());
    for at in 0..=crate::mapping::TOLD_SIZES_MAX {
        talk.say(&format!("SIZE f{at}\r\n"));
        let job = talk.job();
        talk.size(job, 1);
    }
    talk.heard();
    talk.say("RETR f0\r\nRETR f1\r\n");
    assert_eq!(talk.codes(), [503]);
    assert_eq!(talk.jobs().len(), 1);
}

//= specs/ftp-over-sctp.md#section-4.3
//= type=test
//# A STOR, APPE or STOU without ALLO before it MUST be refused with 503; the number serves one such command, even one that
//# fails.
#[test]
fn ms_uploads_tell_their_length_first() {
    let mut talk = Talk::logged_in(Carrier::Ms, Config::default());
    talk.say("STOR a\r\nALLO 9\r\nSTOR /\r\nSTOR a\r\nALLO 7\r\nSTOR a\r\n");
    assert_eq!(talk.codes(), [503, 200, 550, 503, 200]);
    assert!(matches!(&talk.jobs()[..], [(_, Do::Receive { sink: Sink { length: Some(7), .. }, .. })]));
}

//= specs/ftp-over-sctp.md#section-5.3
//= type=test
//# MUST then shut the association down.
#[test]
fn ms_ends_with_an_abort_that_puts_its_stream_out_of_step() {
    let mut talk = Talk::logged_in(Carrier::Ms, Config::default());
    talk.say("SIZE a\r\n");
    let job = talk.job();
    talk.size(job, 10);
    talk.say("RETR a\r\n");
    talk.say("ABOR\r\nNOOP\r\n");
    let job = JobId(talk.jobs_and_cancels());
    talk.done(job, Err(Failure::Cancelled));
    assert_eq!(talk.codes(), [213, 426, 226]);
    assert_eq!(talk.todo, [Do::Close]);
}

impl Talk {
    /// The job that was given out and then cancelled.
    fn jobs_and_cancels(&mut self) -> u64 {
        match &std::mem::take(&mut self.todo)[..] {
            [Do::Send { job, .. }, Do::Cancel { job: cancelled }] if job == cancelled => job.0,
            other => panic!("{other:?}"),
        }
    }
}

fn braid() -> Talk {
    Talk::logged_in(
        Carrier::Braid { data_streams: 2 },
        Config { concurrent_transfers: 2, ..Config::default() },
    )
}

#[test]
fn braid_runs_transfers_at_once_and_answers_in_order() {
    let mut talk = braid();
    talk.say("RETR a\r\nRETR b\r\nSIZE c\r\nRETR d\r\n");
    let jobs = talk.jobs();
    // Two transfers at most; SIZE is none.
    let [(a, _), (b, _), (c, _)] = jobs[..] else { panic!("{jobs:?}") };
    assert!(matches!(jobs[1].1, Do::Send { data: DataPath::Framed { transfer: TransferNumber(2) }, .. }));
    talk.size(c, 7);
    talk.done(b, SENT);
    let d = talk.job();
    assert!(talk.heard().is_empty(), "replies wait for the first");
    talk.done(a, SENT);
    assert_eq!(talk.codes(), [226, 226, 213]);
    talk.done(d, SENT);
    assert_eq!(talk.codes(), [226]);
}

#[test]
fn braid_runs_as_many_transfers_as_it_is_allowed_and_one_at_least() {
    let mut talk = braid();
    talk.session.allow_transfers(0);
    talk.say("RETR a\r\nRETR b\r\nRETR c\r\n");
    let jobs = talk.jobs();
    assert_eq!(jobs.len(), 1, "{jobs:?}");
    talk.session.allow_transfers(100);
    talk.drain();
    assert_eq!(talk.jobs().len(), 1, "the configuration says two");
    talk.session.allow_transfers(1);
    talk.done(jobs[0].0, SENT);
    assert!(talk.jobs().is_empty(), "one of the two still runs");
}

#[test]
fn braid_keeps_the_order_of_commands_that_meet() {
    let mut talk = braid();
    talk.say("MKD d\r\nSTOR d/f\r\nSIZE d/f\r\nSIZE e\r\nDELE x\r\n");
    let jobs = talk.jobs();
    // STOR waits for its folder, SIZE for STOR; the others for nothing.
    assert_eq!(jobs.len(), 3, "{jobs:?}");
    assert_eq!(talk.session.upload(TransferNumber(1)), Upload::Undecided);
    talk.done(jobs[0].0, Ok(Outcome::Changed));
    let stor = talk.job();
    assert_eq!(talk.session.upload(TransferNumber(1)), Upload::Open(stor));
    talk.done(stor, Ok(Outcome::Received { bytes: 3, name: None }));
    assert_eq!(talk.session.upload(TransferNumber(1)), Upload::Over);
    let size = talk.job();
    talk.size(size, 3);
    talk.size(jobs[1].0, 4);
    talk.done(jobs[2].0, Ok(Outcome::Changed));
    assert_eq!(talk.codes(), [257, 226, 213, 213, 250]);
}

//= specs/ftp-over-sctp.md#section-6.1
//= type=test
//# Both sides count alike: by the verb alone, whether the command is then served or refused, whether its argument makes sense
//# or not, and whether a user is logged in or not.
#[test]
fn braid_counts_by_the_verb_alone() {
    let mut talk = Talk::new(Carrier::Braid { data_streams: 2 }, Config::default());
    talk.say("RETR a\r\nstor\r\nMLSD x\0y\r\nUSER u\r\nPASS p\r\nSTOR /\r\nXTREE\r\n");
    assert_eq!(talk.codes(), [530, 501, 501, 331]);
    assert!(matches!(talk.todo[..], [Do::Authenticate { .. }]), "{:?}", talk.todo);
    talk.todo.clear();
    assert_eq!(talk.session.upload(TransferNumber(2)), Upload::Over);
    assert_eq!(talk.session.upload(TransferNumber(4)), Upload::Undecided);
    talk.tell(Input::Authenticated(Ok(())));
    let todo = std::mem::take(&mut talk.todo);
    assert_eq!(talk.session.upload(TransferNumber(4)), Upload::Over);
    let [Do::Send { data, .. }] = &todo[..] else { panic!("{todo:?}") };
    assert_eq!(*data, DataPath::Framed { transfer: TransferNumber(5) });
}

#[test]
fn braid_aborts_the_transfer_that_is_named() {
    let mut talk = braid();
    talk.say("RETR a\r\nRETR b\r\nRETR c\r\n");
    talk.say("ABOR 2\r\nABOR 3\r\n");
    let todo = std::mem::take(&mut talk.todo);
    let [Do::Send { job: a, .. }, Do::Send { job: b, .. }, Do::Cancel { job }] = todo[..] else {
        panic!("{todo:?}")
    };
    assert_eq!(job, b);
    talk.done(b, Err(Failure::Cancelled));
    talk.done(a, SENT);
    // The third had not been begun.
    assert_eq!(talk.codes(), [226, 426, 426, 226, 226]);
    assert!(talk.todo.is_empty());
}

#[test]
fn braid_takes_image_type_only_and_opens_no_connections() {
    let mut talk = braid();
    talk.say("TYPE A\r\nTYPE I\r\nPASV\r\nEPSV\r\nEPRT |1|127.0.0.1|5001|\r\nPORT 127,0,0,1,39,16\r\n");
    assert_eq!(talk.codes(), [504, 200, 503, 503, 503, 503]);
}

#[test]
fn rename_needs_its_two_halves_together() {
    for carrier in [tcp(), Carrier::Braid { data_streams: 2 }] {
        let mut talk = Talk::logged_in(carrier, Config::default());
        talk.say("RNTO b\r\nRNFR a\r\nNOOP\r\nRNTO b\r\nRNFR a\r\nRNTO b\r\n");
        let first = talk.job();
        talk.size(first, 0);
        let second = talk.job();
        talk.size(second, 0);
        let jobs = talk.jobs();
        assert!(matches!(&jobs[..], [(_, Do::Change { change: Change::Rename { .. }, .. })]));
        talk.done(jobs[0].0, Ok(Outcome::Changed));
        assert_eq!(talk.codes(), [503, 350, 200, 503, 350, 250]);
    }
}

#[test]
fn a_control_connection_that_is_gone_cancels_what_runs() {
    let mut talk = braid();
    talk.say("RETR a\r\nRETR b\r\n");
    let jobs = talk.jobs();
    talk.tell(Input::Closed);
    assert_eq!(talk.todo, [Do::Cancel { job: jobs[0].0 }, Do::Cancel { job: jobs[1].0 }, Do::Close]);
    talk.todo.clear();
    // Results that arrive late are dropped.
    talk.done(jobs[0].0, Err(Failure::Cancelled));
    talk.say("NOOP\r\n");
    assert!(talk.heard().is_empty() && talk.todo.is_empty() && !talk.session.wants_input());
}

#[test]
fn draining_finishes_what_runs() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    talk.passive();
    talk.say("RETR a\r\n");
    let job = talk.job();
    talk.tell(Input::Drain);
    assert!(talk.todo.is_empty());
    talk.done(job, SENT);
    assert_eq!(talk.codes(), [226, 421]);
    assert_eq!(talk.todo, [Do::Close]);
}

#[test]
fn abort_reaches_the_transfers_that_were_read_ahead_and_what_prepared_them() {
    let mut talk = Talk::logged_in(Carrier::Ms, Config::default());
    talk.say("SIZE a\r\n");
    let job = talk.job();
    talk.size(job, 10);
    talk.say("SIZE slow\r\nREST 5\r\nRETR a\r\nALLO 3\r\nSTOR b\r\nABOR\r\nRETR a\r\nSTOR b\r\n");
    let slow = talk.job();
    talk.size(slow, 1);
    // The first RETR and STOR are given up without having been begun; neither REST nor ALLO is left for the
    // next.
    assert_eq!(talk.codes(), [213, 213, 350, 426, 200, 426, 226]);
    let jobs = talk.jobs();
    let Do::Send { source: Source::File { offset: 0, .. }, .. } = &jobs[0].1 else { panic!("{jobs:?}") };
    talk.done(jobs[0].0, SENT);
    assert_eq!(talk.codes(), [226, 503]);
}

#[test]
fn a_transfer_is_cancelled_once_however_often_abort_is_said() {
    let mut talk = braid();
    talk.say("RETR a\r\n");
    let job = talk.job();
    talk.say("ABOR\r\nABOR 1\r\n");
    talk.tell(Input::Closed);
    assert_eq!(talk.todo, [Do::Cancel { job }, Do::Close]);
}

#[test]
fn nobody_else_is_logged_in_before_what_runs_is_done() {
    let mut talk = braid();
    talk.say("RETR a\r\nUSER other\r\nPASS p\r\nSIZE b\r\n");
    let job = talk.job();
    talk.done(job, SENT);
    let todo = std::mem::take(&mut talk.todo);
    assert!(
        matches!(&todo[..], [Do::LogOut, Do::Authenticate { user, .. }] if &user[..] == b"other"),
        "{todo:?}"
    );
    talk.tell(Input::Authenticated(Err(LoginError::Refused)));
    assert_eq!(talk.codes(), [226, 331, 530, 530]);
}

#[test]
fn a_user_whose_key_was_shown_needs_no_password_and_others_do() {
    let carrier = Carrier::Braid { data_streams: 4 };
    let mut talk = Talk::of(Session::over_protection(Arc::new(Config::default()), carrier, Time::ZERO));
    talk.session.vouch([(None, Bytes::from_static(b"anna"))]);
    // As a client says it that does not wait.
    talk.say("USER anna\r\nPASS \r\nTYPE I\r\n");
    assert_eq!(std::mem::take(&mut talk.todo), [Do::Admit { user: Bytes::from_static(b"anna") }]);
    assert!(talk.codes().is_empty(), "PASS waits");
    talk.tell(Input::Authenticated(Ok(())));
    assert_eq!(talk.codes(), [232, 202, 200]);
    talk.say("USER bert\r\nPASS p\r\n");
    let todo = std::mem::take(&mut talk.todo);
    assert!(matches!(&todo[..], [Do::LogOut, Do::Authenticate { .. }]), "{todo:?}");
    talk.tell(Input::Authenticated(Err(LoginError::Refused)));
    assert_eq!(talk.codes(), [331, 530]);
    talk.say("USER anna\r\n");
    talk.tell(Input::Authenticated(Err(LoginError::Busy)));
    talk.say("PWD\r\n");
    assert_eq!(talk.codes(), [530, 530]);
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
fn the_last_host_before_the_login_counts_and_none_after_it() {
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut talk = Talk::of(Session::new(with_hosts(), carrier, Time::ZERO));
        talk.say("HOST a.example\r\nHOST B.example\r\n");
        assert_eq!((talk.codes(), talk.session.host()), (vec![220, 220], Some(HostId(1))));
        talk.say("HOST c.example\r\n");
        assert_eq!((talk.codes(), talk.session.host()), (vec![504], None));
        talk.say("HOST a.example\r\nUSER anna\r\nPASS p\r\nHOST b.example\r\n");
        assert_eq!(talk.session.host(), Some(HostId(0)), "while the password is checked");
        talk.tell(Input::Authenticated(Err(LoginError::Refused)));
        assert_eq!(talk.codes()[..3], [220, 331, 530]);
        talk.say("HOST a.example\r\nUSER anna\r\nPASS p\r\n");
        talk.tell(Input::Authenticated(Ok(())));
        talk.say("HOST b.example\r\n");
        assert_eq!((talk.codes().last(), talk.session.host()), (Some(&503), Some(HostId(0))));
    }
}

#[test]
//= specs/rfc7151.txt#section-3.2.1
//= type=test
//# The effect of a HOST command MUST be reset if a REIN command is
//# performed
fn a_new_beginning_is_at_no_virtual_host() {
    let mut talk = Talk::of(Session::new(with_hosts(), tcp(), Time::ZERO));
    talk.say("HOST a.example\r\nREIN\r\n");
    assert_eq!((talk.codes(), talk.session.host()), (vec![220, 220], None));
}

#[test]
fn a_key_of_a_user_of_one_host_lets_nobody_in_at_another() {
    let carrier = Carrier::Braid { data_streams: 4 };
    let mut talk = Talk::of(Session::over_protection(with_hosts(), carrier, Time::ZERO));
    talk.session.vouch([(Some(HostId(0)), Bytes::from_static(b"anna"))]);
    talk.say("USER anna\r\n");
    assert_eq!((talk.codes(), talk.todo.len()), (vec![331], 0), "at the host without a table");
    let mut talk = Talk::of(Session::over_protection(with_hosts(), carrier, Time::ZERO));
    talk.session.vouch([(Some(HostId(0)), Bytes::from_static(b"anna"))]);
    talk.say("HOST b.example\r\nUSER anna\r\n");
    assert_eq!((talk.codes(), talk.todo.len()), (vec![220, 331], 0), "at another");
    let mut talk = Talk::of(Session::over_protection(with_hosts(), carrier, Time::ZERO));
    talk.session.vouch([(Some(HostId(0)), Bytes::from_static(b"anna"))]);
    talk.say("HOST a.example\r\nUSER anna\r\n");
    assert_eq!(talk.todo, [Do::Admit { user: Bytes::from_static(b"anna") }]);
}

#[test]
fn the_name_in_tls_chooses_the_host_and_holds_for_all_of_the_session() {
    let mut talk = Talk::of(Session::secured(with_hosts(), tcp(), Time::ZERO));
    talk.session.name_server("B.EXAMPLE");
    assert_eq!(talk.session.host(), Some(HostId(1)));
    talk.say("HOST a.example\r\nHOST b.example\r\n");
    assert_eq!((talk.codes(), talk.session.host()), (vec![504, 220], Some(HostId(1))));
}

#[test]
fn over_any_carrier_passwords_are_taken_inside_protection_alone_if_it_is_asked_for() {
    let config = Arc::new(Config { unprotected: Unprotected::Anonymous, ..Config::default() });
    for carrier in [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 4 }] {
        let mut plain = Talk::of(Session::new(config.clone(), carrier, Time::ZERO));
        plain.say("USER u\r\nPASS p\r\nUSER anonymous\r\n");
        let refused = Do::NoteUnprotected { user: Bytes::from_static(b"u") };
        assert_eq!((plain.codes(), plain.todo), (vec![530, 503, 331], vec![refused]));
        let mut protected = Talk::of(Session::over_protection(config.clone(), carrier, Time::ZERO));
        protected.say("USER u\r\nPASS p\r\n");
        assert_eq!(protected.codes(), [331]);
        assert!(matches!(protected.todo[..], [Do::Authenticate { .. }]));
    }
}

#[test]
fn silence_is_counted_from_the_last_word_and_is_shorter_before_the_login() {
    for (mut talk, idle) in [
        (Talk::new(tcp(), Config::default()), Config::default().idle_before_login),
        (Talk::logged_in(tcp(), Config::default()), Config::default().idle),
    ] {
        let first = Time::ZERO + idle;
        talk.session.handle(first, Input::Received(Bytes::from_static(b"NOOP\r\n")));
        assert!(matches!(talk.session.poll(first), Output::Send(_)));
        assert_eq!(talk.session.poll(first), Output::Wait(Some(first + idle)));
    }
}

#[test]
fn a_session_without_a_login_ends_in_time_whatever_it_says_and_also_after_a_logout() {
    let within = Config::default().login_within;
    let goes_on = |talk: &mut Talk, from: Time| {
        let mut now = from;
        // Said before each silence is over, and replies are taken.
        while now < from + within {
            talk.session.handle(now, Input::Received(Bytes::from_static(b"NOOP\r\n")));
            while let Output::Send(_) = talk.session.poll(now) {}
            assert!(talk.session.wants_input(), "{now:?}");
            now = (now + Duration::from_secs(5)).min(from + within);
        }
        let Output::Send(reply) = talk.session.poll(now) else { panic!("it goes on") };
        assert!(reply.starts_with(b"421 no login within 60 s"), "{reply:?}");
        assert_eq!(talk.session.poll(now), Output::Event(Do::Close));
    };
    goes_on(&mut Talk::new(tcp(), Config::default()), Time::ZERO);
    let mut talk = Talk::logged_in(tcp(), Config::default());
    let later = Time::ZERO + Duration::from_secs(200);
    talk.session.handle(later, Input::Received(Bytes::from_static(b"REIN\r\n")));
    while !matches!(talk.session.poll(later), Output::Wait(_)) {}
    goes_on(&mut talk, later);
}

#[test]
fn a_password_that_is_being_checked_when_the_time_for_the_login_ends_still_counts() {
    let mut talk = Talk::new(tcp(), Config::default());
    talk.say("USER a\r\nPASS b\r\n");
    let late = Time::ZERO + 2 * Config::default().login_within;
    assert_eq!(talk.session.poll(late), Output::Wait(None));
    talk.session.handle(late, Input::Authenticated(Ok(())));
    let Output::Send(reply) = talk.session.poll(late) else { panic!("no reply") };
    assert!(reply.starts_with(b"230"), "{reply:?}");
    assert_eq!(talk.session.poll(late), Output::Wait(Some(late + Config::default().idle)));
}

#[test]
fn a_restart_in_ascii_is_refused() {
    let mut talk = Talk::logged_in(tcp(), Config::default());
    talk.passive();
    talk.say("TYPE A\r\nREST 3\r\nRETR a\r\n");
    assert_eq!(talk.codes(), [200, 350, 554]);
}

mod any_order {
    use proptest::prelude::*;

    use super::*;

    const LINES: [&str; 14] = [
        "RETR a", "STOR a", "SIZE b", "MKD a", "CWD c", "REST 3", "RNFR a", "RNTO b", "NOOP", "FROB", "ABOR",
        "MLSD", "DELE a/b", "ALLO 3",
    ];

    proptest! {
        /// One final reply a command, whatever the order in which jobs end; no job is given out twice.
        #[test]
        fn every_command_gets_one_final_reply(
            which in 0_usize..4,
            script in proptest::collection::vec((0..LINES.len(), any::<bool>(), any::<proptest::sample::Index>()), 1..60),
        ) {
            let carrier = [tcp(), Carrier::Naive, Carrier::Ms, Carrier::Braid { data_streams: 2 }][which];
            let mut talk = Talk::logged_in(carrier, Config { window_commands: 10, ..Config::default() });
            let mut open: Vec<Do> = Vec::new();
            let mut said = 0;
            for (line, finish, pick) in script {
                talk.say(&format!("{}\r\n", LINES[line]));
                said += 1;
                open.append(&mut talk.todo);
                if finish && !open.is_empty() {
                    let todo = open.remove(pick.index(open.len()));
                    finish_one(&mut talk, todo);
                }
            }
            for _ in 0..1000 {
                open.append(&mut talk.todo);
                if open.is_empty() { break; }
                let todo = open.remove(0);
                finish_one(&mut talk, todo);
            }
            let closed = talk.session.poll(Time::ZERO) == Output::Wait(None);
            let finals = talk.codes().into_iter().filter(|code| *code >= 200).count();
            // ms ends in the middle after an ABOR that stopped something.
            prop_assert!(finals == said || (closed && finals < said), "{finals} of {said}");
        }
    }

    fn finish_one(talk: &mut Talk, todo: Do) {
        match todo {
            Do::Listen { job } => talk.done(job, Ok(Outcome::Listening("127.0.0.1:4000".parse().unwrap()))),
            Do::Query { job, query: Query::Digest(_), .. } => {
                talk.done(job, Ok(Outcome::Digest { digest: Bytes::from_static(&[7; 32]), bytes: 3 }));
            }
            Do::Query { job, query: Query::Partial, .. } => talk.done(job, Ok(Outcome::Partial(0))),
            Do::Query { job, .. } => {
                talk.done(job, Ok(Outcome::Facts(Metadata::new(FileKind::Directory, 0))))
            }
            Do::Change { job, .. } => talk.done(job, Err(Failure::Store(StoreError::Denied))),
            Do::Send { job, .. } => talk.done(job, SENT),
            Do::Receive { job, .. } => talk.done(job, Ok(Outcome::Received { bytes: 0, name: None })),
            // A cancelled job ends by its own entry.
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
