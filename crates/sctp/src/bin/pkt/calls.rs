//! The system calls of a script, over the endpoint: sockets of both styles (RFC 6458 §3, §4) with all that the core can do.
//!
//! - `socket`: how sockets come, begin associations and end; `sending` and `receiving`: messages
//! - `notices`: notifications; `options`: getsockopt and setsockopt; `commands`: shell commands that set a kernel's limits
//! - `values`: constants, addresses, and whether what a call wrote is what the script says
//!
//! What a call asks for and the core has not, is told as not supported.

mod commands;
mod notices;
mod options;
mod plpmtud;
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
use crate::run::Settings;
use crate::script::{Call, Expr, ScriptError};

type Result<T> = std::result::Result<T, ScriptError>;

const O_NONBLOCK: i64 = 4;
const O_RDWR: i64 = 2;
/// The longest message that a script may send, in bytes.
const MESSAGE_BYTES_MAX: i64 = 1 << 24;
/// Where the peers of a listening socket come from.
const PEER_PORT: u16 = 40_000;

/// What became of a call.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Done),
    Waits(Waiting),
}

/// What a call waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    Nothing,
    /// It is tried again whenever something happened, and when its time is over.
    Again {
        call: Call,
        line: usize,
        deadline: Option<Time>,
    },
}

impl Waiting {
    fn until(ctx: &Ctx<'_>, deadline: Option<Time>) -> Self {
        Self::Again { call: ctx.call.clone(), line: ctx.line, deadline }
    }

    /// When it is tried again at the latest.
    pub(crate) fn deadline(&self) -> Option<Time> {
        match self {
            Self::Nothing => None,
            Self::Again { deadline, .. } => *deadline,
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

/// A call that is being made.
struct Ctx<'a> {
    endpoint: &'a mut Endpoint,
    now: Time,
    call: &'a Call,
    line: usize,
    /// Whether it was made before and waited.
    again: bool,
    /// How long it waits.
    deadline: Option<Time>,
    /// Whether it has waited so long.
    timed_out: bool,
}

pub(crate) struct Kernel {
    settings: Settings,
    sockets: BTreeMap<i64, Socket>,
    /// Associations that no socket has any more.
    orphans: Vec<AssociationId>,
    new_ports: Option<(u16, u16)>,
    /// The UDP ports that packets go between unless the script says others: the peer's and ours.
    udp_ports: (u16, u16),
    /// Our UDP port, where a command set it.
    tunnel_port: Option<u16>,
    base: Config,
    plpmtud: Plpmtud,
    /// What was passed over, for people who want to know.
    pub(crate) notes: Vec<String>,
}

impl Kernel {
    pub(crate) fn new(settings: Settings) -> Self {
        let base = Config { mtu: settings.sctp_mtu(), ..Config::default() };
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

    /// The SCTP ports of a socket that began to speak or to listen, once: its own and the peer's.
    pub(crate) fn take_new_ports(&mut self) -> Option<(u16, u16)> {
        self.new_ports.take()
    }

    /// The UDP ports, the peer's and ours; 0 is IP alone.
    pub(crate) fn udp_ports(&self) -> (u16, u16) {
        self.udp_ports
    }

    /// Whether messages that a packet was too big reach path MTU discovery.
    pub(crate) fn uses_packet_too_big(&self) -> bool {
        self.plpmtud.use_ptb
    }

    /// The keys that the user set, by number.
    pub(crate) fn auth_keys(&self) -> BTreeMap<u16, Bytes> {
        let configs = self.sockets.values().filter_map(|socket| socket.config.auth.as_ref());
        configs.flat_map(|auth| &auth.keys).map(|key| (key.id, key.secret.clone())).collect()
    }

    /// Forgets associations that are over and that no socket has.
    pub(crate) fn bury(&mut self, endpoint: &mut Endpoint) {
        self.orphans.retain(|id| {
            let over = endpoint.association(*id).is_none_or(|association| association.closed().is_some());
            if over {
                endpoint.remove(*id);
            }
            !over
        });
    }

    /// Tries a call again that waits.
    pub(crate) fn poll(&mut self, endpoint: &mut Endpoint, now: Time, waiting: &mut Waiting) -> Outcome {
        let Waiting::Again { call, line, deadline } = std::mem::replace(waiting, Waiting::Nothing) else {
            return Outcome::Waits(Waiting::Nothing);
        };
        let timed_out = deadline.is_some_and(|deadline| deadline <= now);
        let mut ctx = Ctx { endpoint, now, call: &call, line, again: true, deadline, timed_out };
        match self.dispatch(&mut ctx) {
            Ok(Outcome::Done(done)) => Outcome::Done(done),
            // It was understood when it was called.
            _ => {
                *waiting = Waiting::Again { call, line, deadline };
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
            // Without an association id, as it was once.
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
        let mut ctx = Ctx { endpoint, now, call, line, again: false, deadline: None, timed_out: false };
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

    /// The call has nothing to return yet.
    fn again(socket: &Socket, ctx: &Ctx<'_>) -> Result<Outcome> {
        if socket.nonblocking { fails("EAGAIN") } else { Ok(Outcome::Waits(Waiting::until(ctx, None))) }
    }

    /// What differs between what a call returned and what the script says.
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

/// What SO_ERROR says of the end of an association.
fn errno_of(reason: &Reason, was_up: bool) -> Option<&'static str> {
    match reason {
        Reason::Shutdown => None,
        Reason::PeerAborted(_) if !was_up => Some("ECONNREFUSED"),
        Reason::PeerAborted(_) => Some("ECONNRESET"),
        Reason::NoAnswer
        | Reason::PeerUnreachable
        | Reason::ShutdownTimeout
        | Reason::StaleCookie
        | Reason::OutOfMemory => Some("ETIMEDOUT"),
        _ => Some("ECONNABORTED"),
    }
}

/// The extensions of an association, as constants of SCTP_COMM_UP.
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
