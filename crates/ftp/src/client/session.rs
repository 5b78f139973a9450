//! The client session: when each command is sent, and which command a reply belongs to.
//!
//! A command or transfer becomes a [`Unit`] of one or more consecutive lines (`steps.rs`). Units wait in order; the mode
//! decides when the next line may be sent. Each sent line is queued as [`Sent`] with its permitted replies,
//! and every reply is matched with the first entry of that queue.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use braidftp_base::{Output, Time};
use bytes::{Bytes, BytesMut};

use super::expect::{Expect, passive_port};
use super::steps::{Gate, Rest, Role, Step, Unit, transfer_steps};
use super::{
    Config, Data, DataResult, Ended, Event, Finished, Input, Passive, Pipelining, Protection, Tag, Transfer,
    TransferError, Violation,
};
use crate::command::{Command, Epsv, PathArg, Secret};
use crate::mapping::{Mode, REPORTED_SIZES_MAX, TransferNumber};
use crate::reply::{Class, Code, Parser, Reply};

/// The maximum number of bytes sent at once.
const SEND_BYTES: usize = 16 << 10;
/// braid: the number of bytes of commands without a final reply from which on no other one begins. The lines of the last one
/// (at most 8,192 bytes each) fit into the rest of 1 MiB.
const UNANSWERED_BYTES: usize = (1 << 20) - (32 << 10);

/// One FTP session, client side.
#[derive(Debug)]
pub struct Session {
    config: Config,
    parser: Parser,
    next_tag: u64,
    greeting: Greeting,
    channel: Channel,
    /// The unit whose lines are partly sent; no other line may be sent in between.
    current: Option<Unit>,
    /// Units with priority: a RETR whose SIZE was answered.
    urgent: VecDeque<Unit>,
    waiting: VecDeque<Unit>,
    sent: VecDeque<Sent>,
    sent_bytes: usize,
    running: BTreeMap<Tag, Running>,
    /// The paths of SIZE commands whose RETR is not done (ms-cp).
    sized: BTreeSet<PathArg>,
    /// The number of transfers that have begun and not ended.
    under_way: usize,
    transfers_sent: u32,
    /// Whether EPSV succeeded in this session.
    extended: Extended,
    lines: VecDeque<Bytes>,
    events: VecDeque<Event>,
    /// The 421 of a server after which data of finished transfers is still awaited.
    leaving: Option<Reply>,
    over: Over,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Greeting {
    Awaited,
    Seen,
}

/// The state of the session's protection. No command of the caller is sent before it is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Channel {
    /// AUTH will be sent after the greeting, or TLS began before it.
    Undecided,
    /// AUTH was sent.
    Asked,
    /// 234 was received: TLS begins.
    Handshake,
    /// TLS is active; PBSZ or PROT was sent.
    Arranging,
    /// Protection is active, or not used.
    Settled,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extended {
    Untried,
    Works,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    No,
    Yes,
}

/// A line without its final reply.
#[derive(Debug)]
struct Sent {
    tag: Tag,
    role: Role,
    verb: &'static str,
    expect: Expect,
    /// The length of its line.
    bytes: usize,
}

/// A transfer that has not ended.
#[derive(Debug)]
struct Running {
    transfer: Transfer,
    turn: Turn,
    number: Option<TransferNumber>,
    size: Option<u64>,
    connection: Connection,
    /// Whether the reply 150 or its equivalent was received.
    opening: Opening,
    flow: Flow,
    reply: Option<Reply>,
}

impl Running {
    /// Whether the server has finished the transfer, and its data is not complete here.
    fn awaits_data(&self) -> bool {
        self.flow == Flow::Begun && self.reply.as_ref().is_some_and(|reply| !reply.code.is_error())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Awaited,
    Come,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    /// Not needed in this mode.
    None,
    Wanted,
    Ready,
    Failed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    Awaited,
    Seen,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    No,
    Begun,
    Over(DataResult),
}

impl Session {
    /// Creates a session on a new control connection. In braid the association may still be opening, and
    /// the first commands travel with COOKIE ECHO, so poll immediately.
    pub fn new(config: Config) -> Self {
        let channel = match (config.mode, config.protection) {
            (Mode::Tcp, Protection::IfOffered | Protection::Required | Protection::Implicit) => {
                Channel::Undecided
            }
            _ => Channel::Settled,
        };
        Self {
            config,
            channel,
            parser: Parser::new(),
            next_tag: 0,
            greeting: Greeting::Awaited,
            current: None,
            urgent: VecDeque::new(),
            waiting: VecDeque::new(),
            sent: VecDeque::new(),
            sent_bytes: 0,
            running: BTreeMap::new(),
            sized: BTreeSet::new(),
            under_way: 0,
            transfers_sent: 0,
            extended: Extended::Untried,
            lines: VecDeque::new(),
            events: VecDeque::new(),
            leaving: None,
            over: Over::No,
        }
    }

    /// Sends USER and PASS under one tag: [`Event::Reply`] has the deciding reply (230, or a refusal).
    ///
    /// `None` if the user name is empty or contains NUL, CR or LF, or the password contains one of them.
    //= specs/rfc4217.txt#section-4.2
    //# Although the TLS negotiation may be providing authentication information, the USER command MUST still be issued by
    //# the client.
    pub fn login(&mut self, user: &[u8], password: Secret) -> Option<Tag> {
        let is_clean = |text: &[u8]| !text.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        if user.is_empty() || !is_clean(user) || !is_clean(password.expose()) {
            return None;
        }
        // In braid both travel in the first packet. Otherwise PASS is sent on reply 331 only, so a server
        // that needs no password does not receive one.
        let gate = if self.config.mode == Mode::Braid { Gate::Open } else { Gate::Login };
        let user =
            Step { command: Command::User(Bytes::copy_from_slice(user)), role: Role::User, gate: Gate::Open };
        let password = Step { command: Command::Password(password), role: Role::Password, gate };
        let mut steps: VecDeque<Step> = [user, password].into();
        if let Some(host) = &self.config.host {
            let command = Command::Host(Bytes::copy_from_slice(host.as_bytes()));
            steps.push_front(Step { command, role: Role::Host, gate: Gate::Open });
        }
        Some(self.enqueue(steps))
    }

    /// Sends a command that is not a transfer and opens no data connection. Its final reply arrives as
    /// [`Event::Reply`].
    ///
    /// # Panics
    /// If it is a transfer command: those are numbered and need [`Self::transfer`].
    pub fn command(&mut self, command: Command) -> Tag {
        assert!(command.transfer().is_none(), "{} is a transfer", command.verb());
        self.enqueue([Step { command, role: Role::Plain, gate: Gate::Open }])
    }

    /// Requests a transfer. It ends with [`Event::Finished`]. Except in braid the caller must set `TYPE I`
    /// first.
    pub fn transfer(&mut self, transfer: Transfer) -> Tag {
        let connection = match self.config.mode {
            Mode::Tcp | Mode::Naive => Connection::Wanted,
            Mode::Ms | Mode::MsCp | Mode::Braid => Connection::None,
        };
        let steps = self.first_steps(&transfer);
        let tag = self.enqueue(steps);
        let running = Running {
            transfer,
            turn: Turn::Awaited,
            number: None,
            size: None,
            connection,
            opening: Opening::Awaited,
            flow: Flow::No,
            reply: None,
        };
        self.running.insert(tag, running);
        tag
    }

    /// Cancels a transfer. An unsent one ends immediately. In braid, ms and ms-cp one in progress is
    /// aborted with ABOR, which in ms and ms-cp ends the session. Over TCP and naive, close its data
    /// connection and report [`DataResult::Failed`]. In all cases it ends with [`Event::Finished`].
    pub fn cancel(&mut self, tag: Tag) {
        let Some(running) = self.running.get(&tag) else { return };
        if running.turn == Turn::Awaited {
            self.waiting.retain(|unit| unit.tag != tag);
            self.finish(tag, Err(TransferError::Data(None)));
            return;
        }
        let number = match self.config.mode {
            Mode::Braid => running.number.map(|number| number.0),
            Mode::Ms | Mode::MsCp => None,
            Mode::Tcp | Mode::Naive => return,
        };
        if running.reply.is_none() {
            // ABOR is sent immediately, ahead of waiting commands.
            self.put(tag, Step { command: Command::Abort(number), role: Role::Silent, gate: Gate::Open });
        }
    }

    /// Processes an input. Call [`Self::poll`] afterwards.
    pub fn handle(&mut self, input: Input) {
        if self.over == Over::Yes {
            return;
        }
        match input {
            Input::Received(_) if self.channel == Channel::Handshake => {
                self.end(Ended::Violation(Violation::BeforeTls));
            }
            Input::Secured => self.arrange(),
            Input::Received(bytes) => {
                self.parser.push(&bytes);
                self.read_replies();
            }
            // Data that has arrived is read to its end. The connections or the stream of these modes report their own end;
            // in braid, the data streams have been read before.
            Input::Closed if self.config.mode != Mode::Braid && self.awaits_data() => {}
            Input::Closed => {
                let why = self.leaving.take().map_or(Ended::Lost, Ended::ByServer);
                self.end(why);
            }
            Input::Connected(tag) => self.connection(tag, Connection::Ready),
            Input::Listening(tag, address) => {
                if let Some(unit) = self.current.as_mut().filter(|unit| unit.tag == tag) {
                    let port = Command::ExtendedPort(address);
                    unit.steps.push_front(Step { command: port, role: Role::Port, gate: Gate::Open });
                }
                self.connection(tag, Connection::Ready);
            }
            Input::DataFailed(tag) => self.connection(tag, Connection::Failed),
            Input::DataDone(tag, result) => {
                if let Some(running) = self.running.get_mut(&tag) {
                    running.flow = Flow::Over(result);
                }
                self.settle(tag);
            }
        }
        if !self.awaits_data()
            && let Some(reply) = self.leaving.take()
        {
            self.end(Ended::ByServer(reply));
        }
        self.advance();
    }

    /// Returns bytes for the control connection (complete lines; over SCTP one message of stream 0), or an
    /// event.
    pub fn poll(&mut self, _now: Time) -> Output<Bytes, Event> {
        self.advance();
        if let Some(bytes) = self.next_send() {
            return Output::Send(bytes);
        }
        self.events.pop_front().map_or(Output::Wait(None), Output::Event)
    }

    /// Whether the server is known to handle everything that is sent ahead of its replies.
    pub fn pipelines_all(&self) -> bool {
        self.config.pipelining == Pipelining::Deep
    }

    /// Whether fewer commands and transfers than this are unsent or unfinished. A caller with many files keeps their number near
    /// the window.
    pub fn has_room(&self, window: usize) -> bool {
        // Transfers alone are counted faster.
        self.running.len() < window && self.outstanding() < window
    }

    /// The number of commands and transfers that are unsent or unfinished.
    pub fn outstanding(&self) -> usize {
        // The line of a transfer command, unsent or without its final reply, belongs to a running transfer.
        let is_plain =
            |tag: Tag, role: Option<Role>| role != Some(Role::Transfer) && !self.running.contains_key(&tag);
        let units = self.waiting.iter().chain(&self.current);
        self.running.len()
            + units.filter(|unit| is_plain(unit.tag, unit.steps.front().map(|step| step.role))).count()
            + self.sent.iter().filter(|sent| is_plain(sent.tag, Some(sent.role))).count()
    }

    fn enqueue(&mut self, steps: impl Into<VecDeque<Step>>) -> Tag {
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        self.waiting.push_back(Unit { tag, steps: steps.into() });
        tag
    }

    /// The lines of a transfer that are known when it is requested.
    fn first_steps(&self, transfer: &Transfer) -> VecDeque<Step> {
        let step = |command, role, gate| Step { command, role, gate };
        match (self.config.mode, transfer) {
            (Mode::Ms | Mode::MsCp, Transfer::Retrieve { path, .. }) => {
                [step(Command::Size(path.clone()), Role::Size, Gate::Open)].into()
            }
            (Mode::Ms | Mode::MsCp, Transfer::Store { length, .. } | Transfer::Append { length, .. }) => {
                let mut steps = transfer_steps(transfer, Gate::Open, Rest::Checked);
                steps.push_front(step(Command::Allocate(*length), Role::Prepare, Gate::Open));
                steps
            }
            (Mode::Ms | Mode::MsCp, Transfer::List { .. } | Transfer::RetrieveNext) => {
                transfer_steps(transfer, Gate::Open, Rest::Checked)
            }
            (Mode::Braid, _) => transfer_steps(transfer, Gate::Open, Rest::Trusted),
            // The line for the data connection is prepended when its turn comes, since the command may
            // still change.
            (Mode::Tcp | Mode::Naive, _) => transfer_steps(transfer, Gate::Data, Rest::Checked),
        }
    }

    /// Whether the server leaves, and data of a transfer that it has finished is not complete here.
    fn awaits_data(&self) -> bool {
        self.leaving.is_some() && self.running.values().any(Running::awaits_data)
    }

    /// Sends the lines that may be sent.
    fn advance(&mut self) {
        while self.over == Over::No
            && self.leaving.is_none()
            && self.channel == Channel::Settled
            && (self.greeting == Greeting::Seen || self.config.mode == Mode::Braid)
        {
            if self.current.is_none() && !self.take_next() {
                return;
            }
            let Some(unit) = &self.current else { return };
            let (tag, gate) = (unit.tag, unit.steps.front().map(|step| step.gate));
            let is_host = unit.steps.front().is_some_and(|step| step.role == Role::Host);
            match gate {
                // Waiting for the reply to HOST would cost a round trip; a server that loses pipelined
                // commands would lose USER.
                Some(_) if is_host && self.is_in_lock_step() => {
                    self.current.as_mut().and_then(|unit| unit.steps.pop_front());
                }
                None => self.current = None,
                Some(gate) if !self.passes(tag, gate) => return,
                Some(_) => {
                    if let Some(step) = self.current.as_mut().and_then(|unit| unit.steps.pop_front()) {
                        self.put(tag, step);
                    }
                }
            }
        }
    }

    /// Whether each line waits for the reply to the one before.
    fn is_in_lock_step(&self) -> bool {
        match self.config.mode {
            Mode::Tcp => self.config.pipelining == Pipelining::LockStep,
            Mode::Naive | Mode::Ms => true,
            Mode::MsCp | Mode::Braid => false,
        }
    }

    /// Makes the next unit current; false if none may begin.
    fn take_next(&mut self) -> bool {
        if let Some(unit) = self.urgent.pop_front() {
            self.current = Some(unit);
            return true;
        }
        let Some(unit) = self.waiting.front() else { return false };
        let under_way = self.under_way > 0;
        let may = match (self.config.mode, self.config.pipelining) {
            (Mode::Naive | Mode::Ms, _) | (Mode::Tcp, Pipelining::LockStep) => {
                self.sent.is_empty() && !under_way
            }
            (Mode::Tcp, Pipelining::Metadata | Pipelining::Adaptive) => {
                self.sent.len() < self.config.window && !under_way
            }
            (Mode::Tcp, Pipelining::Deep) => self.sent.len() < self.config.window,
            //= specs/ftp-over-sctp.md#section-6.4
            //# A client MUST NOT have more than 1 MiB of commands without their final replies
            (Mode::Braid, _) => self.sent.len() < self.config.window && self.sent_bytes < UNANSWERED_BYTES,
            //= specs/ftp-over-sctp.md#section-4.2
            //# A client MUST NOT have more than 4,096 paths whose size was reported and whose RETR is not done
            (Mode::MsCp, _) => {
                self.sent.len().max(self.under_way) < REPORTED_SIZES_MAX && !self.is_sized(unit.tag)
            }
        };
        if !may {
            return false;
        }
        self.current = self.waiting.pop_front();
        if let Some(Unit { tag, .. }) = self.current
            && let Some(running) = self.running.get_mut(&tag)
        {
            running.turn = Turn::Come;
            self.under_way += 1;
            if let (Mode::MsCp, Transfer::Retrieve { path, .. }) = (self.config.mode, &running.transfer) {
                self.sized.insert(path.clone());
            }
            self.open_connection(tag);
        }
        true
    }

    /// Whether this transfer is a RETR of a path with another one in progress.
    fn is_sized(&self, tag: Tag) -> bool {
        //= specs/ftp-over-sctp.md#section-4.2
        //# MUST NOT send SIZE for a path again before its RETR is done.
        match self.running.get(&tag).map(|running| &running.transfer) {
            Some(Transfer::Retrieve { path, .. }) => self.sized.contains(path),
            _ => false,
        }
    }

    /// Requests the data connection of a transfer.
    fn open_connection(&mut self, tag: Tag) {
        let step = |command| Step { command, role: Role::Passive, gate: Gate::Open };
        let passive = match (self.config.mode, self.config.passive) {
            (Mode::Ms | Mode::MsCp | Mode::Braid, _) => return,
            (Mode::Naive, _) | (Mode::Tcp, Passive::Active) => {
                self.events.push_back(Event::Listen(tag));
                return;
            }
            (Mode::Tcp, Passive::Extended) => step(Command::ExtendedPassive(Epsv::Same)),
            (Mode::Tcp, Passive::Classic) => step(Command::Passive),
        };
        let announced_size = self.announced_size(tag);
        let Some(unit) = &mut self.current else { return };
        match announced_size {
            Some(size) => {
                unit.steps.push_front(Step { gate: Gate::Together, ..passive });
                let command = Command::Allocate(size);
                unit.steps.push_front(Step { command, role: Role::Silent, gate: Gate::Open });
            }
            None => unit.steps.push_front(passive),
        }
    }

    /// The size announced by ALLO before an upload over TCP, so that a server can distinguish the end of
    /// the file from a lost client. It is sent together with EPSV and costs no round trip.
    fn announced_size(&self, tag: Tag) -> Option<u64> {
        match self.running.get(&tag).map(|running| &running.transfer) {
            Some(Transfer::Store { offset, length, .. })
                if self.config.pipelining != Pipelining::LockStep =>
            {
                Some(offset.saturating_add(*length)).filter(|size| *size > 0)
            }
            _ => None,
        }
    }

    fn passes(&self, tag: Tag, gate: Gate) -> bool {
        let answered = || !self.sent.iter().any(|sent| sent.tag == tag);
        // Over TCP and naive a transfer is sent line by line, unless the server is known to support deep
        // pipelining.
        let deep = self.config.mode == Mode::Tcp
            && self.config.pipelining == Pipelining::Deep
            && self.extended == Extended::Works
            && self.config.passive != Passive::Active;
        let line_by_line = matches!(self.config.mode, Mode::Tcp | Mode::Naive | Mode::Ms) && !deep;
        let is_ready =
            || self.running.get(&tag).is_none_or(|running| running.connection == Connection::Ready);
        match gate {
            Gate::Open => !line_by_line || answered() || !self.running.contains_key(&tag),
            Gate::Together => true,
            Gate::Answered => answered(),
            Gate::Login => {
                answered() || (self.config.mode == Mode::Tcp && self.config.pipelining == Pipelining::Deep)
            }
            Gate::Data => deep || (is_ready() && answered()),
        }
    }

    /// Sends a line.
    fn put(&mut self, tag: Tag, step: Step) {
        let Step { command, role, .. } = step;
        if command.transfer().is_some() {
            self.transfers_sent += 1;
            if let Some(running) = self.running.get_mut(&tag) {
                running.number = Some(TransferNumber(self.transfers_sent));
            }
        }
        let line = command.encode();
        let (verb, expect, bytes) = (command.verb(), Expect::of(&command), line.len());
        self.sent.push_back(Sent { tag, role, verb, expect, bytes });
        self.sent_bytes += bytes;
        self.lines.push_back(line);
        if role == Role::Transfer && self.config.mode == Mode::Braid {
            // Data transfer begins without a reply.
            self.flow(tag);
        }
    }

    fn read_replies(&mut self) {
        while self.over == Over::No && self.leaving.is_none() {
            match self.parser.next_reply() {
                Ok(Some(reply)) => self.on_reply(reply),
                Ok(None) => return,
                Err(error) => self.end(Ended::Violation(Violation::Reply(error))),
            }
        }
    }

    fn on_reply(&mut self, reply: Reply) {
        if (reply.code == Code::UNAVAILABLE && !self.is_quitting()) || is_final_error(&reply) {
            self.lines.clear();
            self.leaving = Some(reply);
            return;
        }
        if self.greeting == Greeting::Awaited {
            return self.on_greeting(reply);
        }
        let Some(sent) = self.sent.front() else {
            return self.end(Ended::Violation(Violation::Unasked(reply)));
        };
        let (tag, role, verb, bytes) = (sent.tag, sent.role, sent.verb, sent.bytes);
        if !sent.expect.allows(reply.code) {
            return self.end(Ended::Violation(Violation::Mismatch { verb, reply }));
        }
        if reply.code.class() == Class::Preliminary {
            return self.opened(tag);
        }
        self.sent.pop_front();
        self.sent_bytes -= bytes;
        match role {
            Role::Plain | Role::Password => {
                let quit = verb == "QUIT";
                self.events.push_back(Event::Reply(tag, reply));
                if quit {
                    self.end(Ended::Quit);
                }
            }
            // Servers that do not implement HOST reply 500, 502 or 530.
            Role::Host if reply.code == Code::NOT_FOR_THAT_PARAMETER => {
                self.events.push_back(Event::UnknownHost(reply));
            }
            Role::Host => {}
            Role::Auth => self.on_auth(reply),
            // The reply to PROT shows whether PBSZ was necessary.
            Role::ProtectionBuffer if self.config.pipelining == Pipelining::LockStep => self.put_protection(),
            Role::ProtectionBuffer => {}
            Role::Protection if reply.code.is_error() => self.end(Ended::Unprotected { verb, reply }),
            Role::Protection => self.channel = Channel::Settled,
            Role::User => self.on_user(tag, reply),
            Role::Passive => self.on_passive(tag, verb, reply),
            Role::Port | Role::Prepare => {
                if reply.code.is_error() && self.drop_unsent(tag) {
                    self.finish(tag, Err(TransferError::Refused(reply)));
                }
            }
            Role::Size => self.on_size(tag, verb, reply),
            Role::Transfer => {
                if !reply.code.is_error() {
                    self.opened(tag);
                }
                if let Some(running) = self.running.get_mut(&tag) {
                    running.reply = Some(reply);
                }
                self.settle(tag);
            }
            Role::Silent => {}
        }
    }

    fn on_greeting(&mut self, reply: Reply) {
        match reply.code.class() {
            // 120: ready in some minutes.
            Class::Preliminary => {}
            Class::Completion => {
                self.greeting = Greeting::Seen;
                self.config.pipelining = self.config.pipelining.after(&reply);
                self.events.push_back(Event::Greeting(reply));
                match (self.channel, self.config.protection) {
                    (Channel::Undecided, Protection::Implicit) => self.arrange(),
                    (Channel::Undecided, _) => {
                        self.channel = Channel::Asked;
                        //= specs/rfc4217.txt#section-4.1
                        //# If a client wishes to attempt to secure a session, then it SHOULD, in accordance with [RFC-2228],
                        //# send the AUTH command with the parameter requesting TLS {TLS-PARM} ('TLS').
                        //= specs/rfc4217.txt#section-17
                        //# To request the TLS protocol in accordance with this document, the client MUST use 'TLS'
                        self.send_own(Command::Auth("TLS".into()), Role::Auth);
                    }
                    _ => {}
                }
            }
            _ => self.end(Ended::ByServer(reply)),
        }
    }

    /// Sends a line of the session itself.
    fn send_own(&mut self, command: Command, role: Role) {
        let tag = Tag(self.next_tag);
        self.next_tag += 1;
        self.put(tag, Step { command, role, gate: Gate::Open });
    }

    fn on_auth(&mut self, reply: Reply) {
        match (reply.code.is_error(), self.config.protection) {
            (false, _) if self.parser.holds_some() => self.end(Ended::Violation(Violation::BeforeTls)),
            (false, _) => {
                self.channel = Channel::Handshake;
                self.events.push_back(Event::StartTls);
            }
            (true, Protection::IfOffered) => {
                self.channel = Channel::Settled;
                self.events.push_back(Event::Unprotected(reply));
            }
            (true, _) => self.end(Ended::Unprotected { verb: "AUTH", reply }),
        }
    }

    fn put_protection(&mut self) {
        self.send_own(Command::Protection("P".into()), Role::Protection);
    }

    /// TLS is active: requests protection of data connections. The caller's commands wait for the reply, except towards servers
    /// known to handle everything that is sent ahead.
    fn arrange(&mut self) {
        if !matches!(self.channel, Channel::Undecided | Channel::Handshake) {
            return;
        }
        self.channel = Channel::Arranging;
        //= specs/rfc4217.txt#section-8
        //# To protect the data channel as well, the PBSZ command, followed by the PROT command sequence, MUST be used.
        //= specs/rfc4217.txt#section-9
        //# Thus, the PBSZ command MUST still be issued, but must have a parameter of '0' to indicate that no buffering is
        //# taking place and the data connection should not be encapsulated.
        self.send_own(Command::ProtectionBuffer("0".into()), Role::ProtectionBuffer);
        match self.config.pipelining {
            Pipelining::LockStep => {}
            Pipelining::Metadata | Pipelining::Adaptive => self.put_protection(),
            Pipelining::Deep => {
                self.put_protection();
                self.channel = Channel::Settled;
            }
        }
    }

    fn on_user(&mut self, tag: Tag, reply: Reply) {
        if reply.code == Code::NEED_PASSWORD {
            return;
        }
        // The login was decided without PASS, which is not sent, or whose reply is ignored.
        if let Some(unit) = self.current.as_mut().filter(|unit| unit.tag == tag) {
            unit.steps.clear();
        }
        for sent in self.sent.iter_mut().filter(|sent| sent.tag == tag) {
            sent.role = Role::Silent;
        }
        self.events.push_back(Event::Reply(tag, reply));
    }

    fn on_passive(&mut self, tag: Tag, verb: &'static str, reply: Reply) {
        if reply.code.is_error() {
            let may_fall_back = self.config.passive == Passive::Extended
                && self.extended == Extended::Untried
                && reply.code.class() == Class::Permanent;
            if let Some(unit) = self.current.as_mut().filter(|unit| unit.tag == tag && may_fall_back) {
                self.config.passive = Passive::Classic;
                unit.steps.push_front(Step {
                    command: Command::Passive,
                    role: Role::Passive,
                    gate: Gate::Open,
                });
            } else if self.drop_unsent(tag) {
                self.finish(tag, Err(TransferError::Refused(reply)));
            }
            return;
        }
        match passive_port(&reply) {
            Some(port) => {
                if reply.code == Code::EXTENDED_PASSIVE {
                    self.extended = Extended::Works;
                }
                self.events.push_back(Event::Connect(tag, port));
            }
            None => self.end(Ended::Violation(Violation::Text { verb, reply })),
        }
    }

    fn on_size(&mut self, tag: Tag, verb: &'static str, reply: Reply) {
        if reply.code.is_error() {
            return self.finish(tag, Err(TransferError::Refused(reply)));
        }
        let Some(size) = crate::command::parse_number(reply.text().trim_ascii()) else {
            return self.end(Ended::Violation(Violation::Text { verb, reply }));
        };
        let Some(running) = self.running.get_mut(&tag) else { return };
        running.size = Some(size);
        let steps = transfer_steps(&running.transfer, Gate::Open, Rest::Checked);
        // The RETR follows its answered SIZE, before any waiting SIZE.
        self.urgent.push_back(Unit { tag, steps });
    }

    /// Processes 150, or a final reply without one.
    fn opened(&mut self, tag: Tag) {
        if let Some(running) = self.running.get_mut(&tag) {
            running.opening = Opening::Seen;
            if self.config.mode != Mode::Braid {
                self.flow(tag);
            }
        }
    }

    fn connection(&mut self, tag: Tag, connection: Connection) {
        let Some(running) = self.running.get_mut(&tag) else { return };
        running.connection = connection;
        if connection == Connection::Failed {
            running.flow = Flow::Over(DataResult::Failed);
            // If the transfer command was sent, its reply is still expected.
            if self.drop_unsent(tag) {
                self.finish(tag, Err(TransferError::Data(None)));
            } else {
                self.settle(tag);
            }
        } else if running.opening == Opening::Seen {
            self.flow(tag);
        }
    }

    /// Starts the data transfer, once.
    fn flow(&mut self, tag: Tag) {
        let mode = self.config.mode;
        let Some(running) = self.running.get_mut(&tag) else { return };
        if running.flow != Flow::No || !matches!(running.connection, Connection::None | Connection::Ready) {
            return;
        }
        running.flow = Flow::Begun;
        let data = match (mode, &running.transfer, running.number) {
            (Mode::Tcp, ..) => Data::Connection,
            (Mode::Naive, ..) => Data::Association,
            (Mode::Braid, _, number) => Data::Framed(number.expect("a sent command has a number")),
            (Mode::Ms | Mode::MsCp, Transfer::Retrieve { offset, .. }, _) => {
                Data::Counted(running.size.unwrap_or(0).saturating_sub(*offset))
            }
            (Mode::Ms | Mode::MsCp, Transfer::Store { length, .. } | Transfer::Append { length, .. }, _) => {
                Data::Counted(*length)
            }
            // RETR without a path is refused there.
            (Mode::Ms | Mode::MsCp, Transfer::List { .. } | Transfer::RetrieveNext, _) => Data::Message,
        };
        self.events.push_back(match running.transfer {
            Transfer::Retrieve { .. } | Transfer::RetrieveNext | Transfer::List { .. } => {
                Event::Receive(tag, data)
            }
            Transfer::Store { .. } | Transfer::Append { .. } => Event::Send(tag, data),
        });
    }

    /// Ends a transfer once both its reply and its data are complete.
    fn settle(&mut self, tag: Tag) {
        let Some(running) = self.running.get(&tag) else { return };
        let Some(reply) = &running.reply else { return };
        let counted = matches!(self.config.mode, Mode::Ms | Mode::MsCp);
        let result = match (running.flow, reply.code.is_error()) {
            // On a counted stream the bytes arrive in any case, and must be consumed.
            (Flow::Begun, true) if counted => return,
            (Flow::Over(DataResult::Failed), _) => Err(TransferError::Data(Some(reply.clone()))),
            (_, true) => Err(TransferError::Refused(reply.clone())),
            (Flow::Over(DataResult::Complete(bytes)), false) => {
                Ok(Finished { reply: reply.clone(), bytes, size: running.size })
            }
            (Flow::No | Flow::Begun, false) => return,
        };
        self.finish(tag, result);
    }

    fn finish(&mut self, tag: Tag, result: Result<Finished, TransferError>) {
        let Some(running) = self.running.remove(&tag) else { return };
        if running.turn == Turn::Come {
            self.under_way -= 1;
            if let (Mode::MsCp, Transfer::Retrieve { path, .. }) = (self.config.mode, &running.transfer) {
                self.sized.remove(path);
            }
        }
        self.events.push_back(Event::Finished(tag, result));
    }

    /// Drops the unsent lines of a unit; false if its transfer command was sent already.
    fn drop_unsent(&mut self, tag: Tag) -> bool {
        if let Some(unit) = self.current.as_mut().filter(|unit| unit.tag == tag) {
            unit.steps.clear();
        }
        !self.sent.iter().any(|sent| sent.tag == tag && sent.role == Role::Transfer)
    }

    fn is_quitting(&self) -> bool {
        self.sent.front().is_some_and(|sent| sent.verb == "QUIT")
    }

    fn end(&mut self, why: Ended) {
        if self.over == Over::No {
            self.over = Over::Yes;
            self.lines.clear();
            self.events.push_back(Event::Ended(why));
        }
    }

    fn next_send(&mut self) -> Option<Bytes> {
        let mut joined = BytesMut::from(&self.lines.pop_front()?[..]);
        while let Some(next) = self.lines.front()
            && joined.len() + next.len() <= SEND_BYTES
        {
            joined.extend_from_slice(next);
            self.lines.pop_front();
        }
        Some(joined.freeze())
    }
}

/// Whether this reply is vsftpd's `500 OOPS`: the server process ends, whatever the command was. Mostly it
/// lacks memory or processes, because too many sessions are open.
fn is_final_error(reply: &Reply) -> bool {
    reply.code.number() == 500 && reply.text().starts_with(b"OOPS: ")
}
