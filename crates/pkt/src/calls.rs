//! The system calls of a script, as operations on the endpoint: sockets of both styles (RFC 6458 §3, §4).
//!
//! - `socket`: creating sockets, opening and closing associations; `sending` and `receiving`: messages
//! - `notices`: notifications; `options`: getsockopt and setsockopt; `commands`: shell commands that set
//!   kernel parameters
//! - `values`: constants, addresses, and the comparison of what a call wrote with what the script expects
//!
//! A call that needs a feature which the core lacks is reported as not supported.

mod commands;
mod notice;
mod notices;
mod options;
mod outgoing;
mod plpmtud;
mod reading;
mod receiving;
mod sending;
mod socket;
mod values;

use std::collections::BTreeMap;
use std::fmt;

use braidftp_base::Time;
use braidftp_sctp::{AssociationId, Config, Endpoint, Extensions, Reason};
use bytes::Bytes;

use self::plpmtud::Plpmtud;
use self::socket::Socket;
use self::values::{int, matches};
use crate::script::{Call, Expr, ScriptError};
use crate::settings::Settings;

type Result<T> = std::result::Result<T, ScriptError>;

const O_NONBLOCK: i64 = 4;
const O_RDWR: i64 = 2;
/// The longest message that a script may send, in bytes.
const MESSAGE_BYTES_MAX: i64 = 1 << 24;
/// The first source port of peers that connect to a listening socket.
const PEER_PORT: u16 = 40_000;

/// The result of making a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Done),
    Waits(Waiting),
}

/// What a blocked call waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    Nothing,
    /// Retried after each event, and when its time is over.
    Retry {
        call: Call,
        line: usize,
        deadline: Option<Time>,
    },
}

impl Waiting {
    fn until(ctx: &Ctx<'_>, deadline: Option<Time>) -> Self {
        Self::Retry { call: ctx.call.clone(), line: ctx.line, deadline }
    }

    /// The latest time of the next attempt.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Nothing => None,
            Self::Retry { deadline, .. } => *deadline,
        }
    }
}

/// What a call returned: a number or an errno, and what it wrote to its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    result: std::result::Result<i64, &'static str>,
    out: Vec<(usize, Expr)>,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.result {
            Ok(number) => write!(f, "= {number}")?,
            Err(errno) => write!(f, "= -1 {errno}")?,
        }
        for (index, value) in &self.out {
            write!(f, "; argument {}: {}", index + 1, values::text(value))?;
        }
        Ok(())
    }
}

fn done(result: i64) -> Result<Outcome> {
    Ok(Outcome::Done(Done { result: Ok(result), out: Vec::new() }))
}

fn fails(errno: &'static str) -> Result<Outcome> {
    Ok(Outcome::Done(Done { result: Err(errno), out: Vec::new() }))
}

/// A call in progress.
struct Ctx<'a> {
    endpoint: &'a mut Endpoint,
    now: Time,
    call: &'a Call,
    line: usize,
    /// Whether this is a retry of a call that blocked.
    is_retry: bool,
    /// When the call times out.
    deadline: Option<Time>,
    /// Whether the call timed out.
    timed_out: bool,
}

pub(crate) struct Kernel {
    settings: Settings,
    sockets: BTreeMap<i64, Socket>,
    /// Associations whose socket is closed.
    orphans: Vec<AssociationId>,
    new_ports: Option<(u16, u16)>,
    /// The UDP ports of packets for which the script names none: the peer's and ours.
    udp_ports: (u16, u16),
    /// Our UDP port, if a command set it.
    tunnel_port: Option<u16>,
    base: Config,
    plpmtud: Plpmtud,
    /// What was ignored, for the user.
    pub(crate) notes: Vec<String>,
}

impl Kernel {
    pub(crate) fn new(settings: Settings) -> Self {
        let base = Config::default().with(|c| c.path_mtu.packet_bytes = settings.sctp_mtu());
        Self {
            settings,
            sockets: BTreeMap::new(),
            orphans: Vec::new(),
            new_ports: None,
            udp_ports: (0, 0),
            tunnel_port: None,
            base,
            plpmtud: Plpmtud::default(),
            notes: Vec::new(),
        }
    }

    /// The SCTP ports of a socket that started to connect or to listen, its own and the peer's. Returned
    /// once.
    pub(crate) fn take_new_ports(&mut self) -> Option<(u16, u16)> {
        self.new_ports.take()
    }

    /// The UDP ports, the peer's and ours; 0 means no UDP encapsulation.
    pub(crate) fn udp_ports(&self) -> (u16, u16) {
        self.udp_ports
    }

    /// Whether ICMP messages "packet too big" are passed to path MTU discovery.
    pub(crate) fn uses_packet_too_big(&self) -> bool {
        self.plpmtud.use_ptb
    }

    /// The keys that the user set, by key number.
    pub(crate) fn auth_keys(&self) -> BTreeMap<u16, Bytes> {
        let configs = self.sockets.values().filter_map(|socket| socket.config.security.auth.as_ref());
        configs.flat_map(|auth| &auth.keys).map(|key| (key.id, key.secret.clone())).collect()
    }

    /// Removes associations that have ended and belong to no socket.
    pub(crate) fn remove_closed(&mut self, endpoint: &mut Endpoint) {
        self.orphans.retain(|id| {
            let over = endpoint.association(*id).is_none_or(|association| association.closed().is_some());
            if over {
                endpoint.remove(*id);
            }
            !over
        });
    }

    /// Retries a call that blocked.
    pub(crate) fn poll(&mut self, endpoint: &mut Endpoint, now: Time, waiting: &mut Waiting) -> Outcome {
        let Waiting::Retry { call, line, deadline } = std::mem::replace(waiting, Waiting::Nothing) else {
            return Outcome::Waits(Waiting::Nothing);
        };
        let timed_out = deadline.is_some_and(|deadline| deadline <= now);
        let mut ctx = Ctx { endpoint, now, call: &call, line, is_retry: true, deadline, timed_out };
        match self.dispatch(&mut ctx) {
            Ok(Outcome::Done(done)) => Outcome::Done(done),
            // The first attempt parsed it without an error.
            _ => {
                *waiting = Waiting::Retry { call, line, deadline };
                Outcome::Waits(Waiting::Nothing)
            }
        }
    }

    /// Makes a call.
    pub(crate) fn call(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        call: &Call,
        line: usize,
    ) -> Result<Outcome> {
        let expected: &[usize] = match call.name.as_str() {
            "close" | "sctp_freepaddrs" | "sctp_freeladdrs" => &[1],
            "listen" | "shutdown" | "sctp_peeloff" => &[2],
            "socket" | "bind" | "accept" | "connect" | "read" | "readv" | "write" | "writev" | "recvmsg"
            | "sendmsg" | "poll" | "getsockname" | "getpeername" | "sctp_getpaddrs" | "sctp_getladdrs" => {
                &[3]
            }
            "send" | "recv" | "sctp_bindx" => &[4],
            // The older form, without an association id.
            "sctp_connectx" => &[3, 4],
            "fcntl" => &[2, 3],
            "getsockopt" | "setsockopt" | "sctp_send" | "sctp_opt_info" => &[5],
            "sendto" | "recvfrom" => &[6],
            "sctp_recvmsg" | "sctp_sendx" => &[7],
            "sctp_sendv" | "sctp_recvv" => &[9],
            "sctp_sendmsg" => &[10],
            other => return Err(ScriptError::unsupported(line, format!("the call {other}"))),
        };
        if !expected.contains(&call.arguments.len()) {
            let what = format!("{} has {expected:?} arguments, got {}", call.name, call.arguments.len());
            return Err(ScriptError::new(line, what));
        }
        let mut ctx = Ctx { endpoint, now, call, line, is_retry: false, deadline: None, timed_out: false };
        self.dispatch(&mut ctx)
    }

    fn dispatch(&mut self, ctx: &mut Ctx<'_>) -> Result<Outcome> {
        match ctx.call.name.as_str() {
            "socket" => return self.socket(ctx),
            "poll" => return self.poll_sockets(ctx),
            "sctp_freepaddrs" | "sctp_freeladdrs" => return done(0),
            _ => {}
        }
        let fd = int(&ctx.call.arguments[0], ctx.line)?;
        if !self.sockets.contains_key(&fd) {
            return fails("EBADF");
        }
        match ctx.call.name.as_str() {
            "fcntl" => self.fcntl(ctx, fd),
            "bind" => self.bind(ctx, fd),
            "sctp_bindx" => self.bindx(ctx, fd),
            "listen" => self.listen(ctx, fd),
            "accept" => self.accept(ctx, fd),
            "connect" | "sctp_connectx" => self.connect(ctx, fd),
            "read" | "readv" | "recv" | "recvfrom" | "recvmsg" | "sctp_recvmsg" | "sctp_recvv" => {
                self.receive(ctx, fd)
            }
            "shutdown" => self.shutdown(ctx, fd),
            "close" => self.close(ctx, fd),
            "sctp_peeloff" => self.peeloff(ctx, fd),
            "sctp_getpaddrs" | "sctp_getladdrs" => self.all_addresses(ctx, fd),
            "getsockname" | "getpeername" => self.name(ctx, fd),
            "getsockopt" | "sctp_opt_info" => self.get_option(ctx, fd),
            "setsockopt" => self.set_option(ctx, fd),
            _ => self.send(ctx, fd),
        }
    }

    /// The call cannot return yet.
    fn blocked(socket: &Socket, ctx: &Ctx<'_>) -> Result<Outcome> {
        if socket.nonblocking { fails("EAGAIN") } else { Ok(Outcome::Waits(Waiting::until(ctx, None))) }
    }

    /// Compares what a call returned with what the script expects; returns the difference.
    pub(crate) fn check(&self, call: &Call, done: &Done, line: usize) -> Result<Option<String>> {
        let expected = match &call.result {
            Expr::Any => return Ok(None),
            result => int(result, line)?,
        };
        match (done.result, &call.errno) {
            (Ok(got), _) if got != expected => {
                return Ok(Some(format!("result: expected {expected}, got {got}")));
            }
            (Err(got), _) if expected != -1 => {
                return Ok(Some(format!("result: expected {expected}, got -1 {got}")));
            }
            (Err(got), Some(errno)) if values::errno(errno) != got => {
                return Ok(Some(format!("errno: expected {errno}, got {got}")));
            }
            _ => {}
        }
        for (index, got) in &done.out {
            if let Some(expected) = call.arguments.get(*index)
                && let Some(difference) = matches(expected, got, line)?
            {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }
}

/// The value of SO_ERROR after the end of an association.
fn errno_of(reason: &Reason, was_up: bool) -> Option<&'static str> {
    match reason {
        Reason::Shutdown => None,
        Reason::PeerAborted(_) if !was_up => Some("ECONNREFUSED"),
        Reason::Refused => Some("ECONNREFUSED"),
        Reason::PeerAborted(_) => Some("ECONNRESET"),
        Reason::NoAnswer
        | Reason::PeerUnreachable
        | Reason::ShutdownTimeout
        | Reason::StaleCookie
        | Reason::OutOfMemory => Some("ETIMEDOUT"),
        _ => Some("ECONNABORTED"),
    }
}

/// The extensions of an association, as the constants of SCTP_COMM_UP.
fn features_of(extensions: Extensions) -> Vec<Expr> {
    let listed = [
        (extensions.partial_reliability(), "SCTP_ASSOC_SUPPORTS_PR"),
        (extensions.auth, "SCTP_ASSOC_SUPPORTS_AUTH"),
        (extensions.asconf, "SCTP_ASSOC_SUPPORTS_ASCONF"),
        (extensions.reconfiguration, "SCTP_ASSOC_SUPPORTS_RE_CONFIG"),
        (extensions.interleaving, "SCTP_ASSOC_SUPPORTS_INTERLEAVING"),
    ];
    listed.into_iter().filter(|(on, _)| *on).map(|(_, name)| Expr::Word(name.to_owned())).collect()
}
