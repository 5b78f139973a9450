//! The system calls of a script, over the endpoint: sockets of both styles (RFC 6458 §3, §4) as far as the core goes.
//!
//! Association ids are this program's own: where a script names one, the socket's only association is meant. What a call
//! asks for and the core has not, is told as not supported; so are notifications, and changes to an association that
//! lives.

mod options;
mod values;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{
    AssociationId, Config, Connect, Endpoint, Event, Message, Order, Ppid, Reason, SendError, StreamId,
};
use bytes::Bytes;

use self::values::{flag, int, matches, member_int};
use crate::run::Settings;
use crate::script::{Call, Expr, ScriptError};

type Result<T> = std::result::Result<T, ScriptError>;

const O_NONBLOCK: i64 = 0x800;
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
    /// It is tried again whenever something happened.
    Again(Call, usize),
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
            Ok(number) => write!(f, "= {number}"),
            Err(errno) => write!(f, "= -1 {errno}"),
        }
    }
}

fn done(result: i64) -> Result<Outcome> {
    Ok(Outcome::Done(Done { result: Ok(result), out: Vec::new() }))
}

fn fails(errno: &'static str) -> Result<Outcome> {
    Ok(Outcome::Done(Done { result: Err(errno), out: Vec::new() }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    OneToOne,
    OneToMany,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    Fresh,
    Listening { waiting: VecDeque<AssociationId> },
    Connected(AssociationId),
}

#[derive(Debug, Clone)]
struct Socket {
    style: Style,
    nonblocking: bool,
    config: Config,
    local: Vec<SocketAddr>,
    port: Option<u16>,
    stage: Stage,
    error: Option<&'static str>,
    /// Whether closing aborts (SO_LINGER with no time).
    abort_at_close: bool,
    udp_port: u16,
    default_sid: u16,
    default_ppid: u32,
    /// What is left of a message that was read in part.
    left: usize,
}

/// What to send.
#[derive(Debug, Clone, Copy, Default)]
struct Outgoing {
    len: i64,
    sid: u16,
    ppid: u32,
    flags: i64,
}

pub(crate) struct Kernel {
    settings: Settings,
    sockets: BTreeMap<i64, Socket>,
    /// Associations that no socket has any more.
    orphans: Vec<AssociationId>,
    new_ports: Option<(u16, u16)>,
    udp_port: u16,
    base: Config,
}

impl Kernel {
    pub(crate) fn new(settings: Settings) -> Self {
        let base = Config { mtu: settings.sctp_mtu(), ..Config::default() };
        let (sockets, orphans) = (BTreeMap::new(), Vec::new());
        Self { settings, sockets, orphans, new_ports: None, udp_port: 0, base }
    }

    /// The SCTP ports of a socket that began to speak or to listen, once.
    pub(crate) fn take_new_ports(&mut self) -> Option<(u16, u16)> {
        self.new_ports.take()
    }

    /// The UDP ports, the peer's and ours; 0 is IP alone.
    pub(crate) fn udp_ports(&self) -> (u16, u16) {
        (self.udp_port, self.udp_port)
    }

    /// A shell command: none is run; those that set a limit of a kernel's set that of new sockets.
    pub(crate) fn command(&mut self, command: &str) -> std::result::Result<(), String> {
        let setting = command.strip_prefix("sysctl -w ").and_then(|setting| setting.split_once('='));
        let unknown = || format!("the command `{command}`");
        let (name, value) = setting.ok_or_else(unknown)?;
        let value: u32 = value.trim().parse().map_err(|_| unknown())?;
        let millis = Duration::from_millis(value.into());
        match name.trim().rsplit_once("sctp.").map(|(_, name)| name) {
            Some("assoc_rtx_max" | "association_max_retrans") => self.base.association_max_retrans = value,
            Some("path_rtx_max" | "path_max_retrans") => self.base.path_max_retrans = value,
            Some("init_rtx_max" | "max_init_retransmits") => self.base.max_init_retransmits = value,
            Some("rto_initial") => self.base.rto.initial = millis,
            Some("rto_min") => self.base.rto.min = millis,
            Some("rto_max") => self.base.rto.max = millis,
            Some("delayed_sack_time" | "sack_timeout") => self.base.sack_delay = millis,
            Some("outgoing_streams") => self.base.outbound_streams = value.clamp(1, 65_535) as u16,
            Some("incoming_streams") => self.base.inbound_streams = value.clamp(1, 65_535) as u16,
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Something happened to an association.
    pub(crate) fn happened(&mut self, endpoint: &mut Endpoint, id: AssociationId, event: Event) {
        match event {
            Event::Accepted => {
                let port = endpoint.association(id).map(|association| association.ports().0);
                for socket in self.sockets.values_mut().filter(|socket| socket.port == port) {
                    match &mut socket.stage {
                        Stage::Listening { .. } if socket.style == Style::OneToMany => {
                            socket.stage = Stage::Connected(id);
                            return;
                        }
                        Stage::Listening { waiting } => {
                            waiting.push_back(id);
                            return;
                        }
                        _ => {}
                    }
                }
                self.orphans.push(id);
            }
            Event::Closed(reason) => {
                for socket in self.sockets.values_mut().filter(|socket| socket.stage == Stage::Connected(id))
                {
                    socket.error = errno_of(&reason);
                }
            }
            _ => {}
        }
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

    pub(crate) fn poll(&mut self, endpoint: &mut Endpoint, waiting: &mut Waiting) -> Outcome {
        let Waiting::Again(call, line) = std::mem::replace(waiting, Waiting::Nothing) else {
            return Outcome::Waits(Waiting::Nothing);
        };
        match self.call(endpoint, Time::ZERO, &call, line) {
            Ok(Outcome::Done(done)) => Outcome::Done(done),
            // It was understood when it was called.
            _ => {
                *waiting = Waiting::Again(call, line);
                Outcome::Waits(Waiting::Nothing)
            }
        }
    }

    /// Makes a call, or tries one again that waits.
    pub(crate) fn call(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        call: &Call,
        line: usize,
    ) -> Result<Outcome> {
        let arguments = &call.arguments;
        let unsupported = |what: String| Err(ScriptError::unsupported(line, what));
        let expected: &[usize] = match call.name.as_str() {
            "close" => &[1],
            "listen" | "shutdown" => &[2],
            "socket" | "bind" | "accept" | "connect" | "read" | "write" | "recvmsg" | "sendmsg" => &[3],
            "send" | "recv" | "sctp_bindx" | "sctp_connectx" => &[4],
            "fcntl" => &[2, 3],
            "getsockopt" | "setsockopt" | "sctp_send" => &[5],
            "sendto" | "recvfrom" => &[6],
            "sctp_recvmsg" => &[7],
            "sctp_sendv" | "sctp_recvv" => &[9],
            "sctp_sendmsg" => &[10],
            other => return unsupported(format!("the call {other}")),
        };
        if !expected.contains(&arguments.len()) {
            let what = format!("{} has {expected:?} arguments, got {}", call.name, arguments.len());
            return Err(ScriptError::new(line, what));
        }
        if call.name == "socket" {
            return self.socket(call, line);
        }
        let fd = int(&arguments[0], line)?;
        let Some(socket) = self.sockets.get_mut(&fd) else { return fails("EBADF") };
        match call.name.as_str() {
            "fcntl" => match &arguments[1] {
                Expr::Word(word) if word == "F_GETFL" => {
                    done(O_RDWR | if socket.nonblocking { O_NONBLOCK } else { 0 })
                }
                Expr::Word(word) if word == "F_SETFL" && arguments.len() == 3 => {
                    socket.nonblocking = int(&arguments[2], line)? & O_NONBLOCK != 0;
                    done(0)
                }
                other => unsupported(format!("fcntl with {other:?}")),
            },
            "bind" => {
                let address = values::address(&arguments[1], line)?;
                socket.port = Some(address.map_or(self.settings.bind_port, |(_, port)| port));
                socket.local = address.into_iter().map(|(ip, _)| SocketAddr::new(ip, 0)).collect();
                done(0)
            }
            "sctp_bindx" => {
                if flag(&arguments[3], "SCTP_BINDX_REM_ADDR") {
                    return unsupported("sctp_bindx with SCTP_BINDX_REM_ADDR".to_owned());
                }
                let addresses = values::addresses(&arguments[1], line)?;
                let port = addresses.first().map(|(_, port)| *port).filter(|port| *port != 0);
                socket.port = socket.port.or(Some(port.unwrap_or(self.settings.bind_port)));
                socket.local.extend(addresses.into_iter().map(|(ip, _)| SocketAddr::new(ip, 0)));
                if socket.local.len() > 1 {
                    return unsupported("a socket bound to several addresses".to_owned());
                }
                done(0)
            }
            "listen" => self.listen(endpoint, fd, int(&arguments[1], line)?),
            "accept" => {
                let Stage::Listening { waiting } = &mut socket.stage else { return fails("EINVAL") };
                let Some(id) = waiting.pop_front() else { return Self::again(socket, call, line) };
                let accepted = Socket { stage: Stage::Connected(id), nonblocking: false, ..socket.clone() };
                self.give(call, accepted, line)
            }
            "connect" | "sctp_connectx" => self.connect(endpoint, now, call, line),
            "read" | "recv" | "recvfrom" => {
                let len = int(&arguments[2], line)?;
                self.receive(endpoint, call, line, len, |_, _| Vec::new())
            }
            "recvmsg" => {
                let len = values::iovecs(arguments[1].member("msg_iov").unwrap_or(&Expr::Any), line)?;
                self.receive(endpoint, call, line, len, |flags, _| {
                    let members = [("msg_flags", flags), ("msg_control", Expr::List(Vec::new()))];
                    vec![(1, values::structure(&members))]
                })
            }
            "sctp_recvmsg" => {
                let len = int(&arguments[2], line)?;
                self.receive(endpoint, call, line, len, |flags, info| vec![(5, info), (6, flags)])
            }
            "sctp_recvv" => {
                let len = values::iovecs(&arguments[1], line)?;
                self.receive(endpoint, call, line, len, |flags, _| {
                    vec![(7, values::list(Expr::Word("SCTP_RECVV_NOINFO".into()))), (8, values::list(flags))]
                })
            }
            "write" | "send" | "sendto" | "sctp_send" | "sctp_sendmsg" | "sctp_sendv" | "sendmsg" => {
                let outgoing = Self::outgoing(socket, call, line)?;
                self.send(endpoint, now, call, line, outgoing)
            }
            "shutdown" => {
                let how = &arguments[1];
                let Stage::Connected(id) = socket.stage else { return fails("ENOTCONN") };
                if !flag(how, "SHUT_RD")
                    && let Some(association) = endpoint.association_mut(id)
                {
                    association.shutdown();
                }
                done(0)
            }
            "close" => {
                let socket = self.sockets.remove(&fd).expect("it was there");
                let mut associations = Vec::new();
                match socket.stage {
                    Stage::Listening { waiting } => {
                        endpoint.unlisten(socket.port.unwrap_or_default());
                        associations.extend(waiting);
                    }
                    Stage::Connected(id) => associations.push(id),
                    Stage::Fresh => {}
                }
                for id in associations {
                    if let Some(association) = endpoint.association_mut(id) {
                        if socket.abort_at_close {
                            association.abort(Bytes::new())
                        } else {
                            association.shutdown()
                        }
                    }
                    self.orphans.push(id);
                }
                done(0)
            }
            "getsockopt" => options::get(self, endpoint, fd, call, line),
            _ => options::set(self, endpoint, fd, call, line),
        }
    }

    /// The call has nothing to return yet.
    fn again(socket: &Socket, call: &Call, line: usize) -> Result<Outcome> {
        if socket.nonblocking {
            fails("EAGAIN")
        } else {
            Ok(Outcome::Waits(Waiting::Again(call.clone(), line)))
        }
    }

    /// Gives a socket the number that the script has for it.
    fn give(&mut self, call: &Call, socket: Socket, line: usize) -> Result<Outcome> {
        let fd = int(&call.result, line)?;
        if fd >= 0 {
            if self.sockets.contains_key(&fd) {
                return Err(ScriptError::new(line, format!("the script has a socket {fd} already")));
            }
            self.sockets.insert(fd, socket);
        }
        done(fd.max(0))
    }

    fn socket(&mut self, call: &Call, line: usize) -> Result<Outcome> {
        let [_, style, protocol] = &call.arguments[..] else { unreachable!("counted") };
        let style = match style {
            Expr::Word(word) if word == "SOCK_STREAM" => Style::OneToOne,
            Expr::Word(word) if word == "SOCK_SEQPACKET" => Style::OneToMany,
            other => return Err(ScriptError::unsupported(line, format!("a socket of type {other:?}"))),
        };
        if !flag(protocol, "IPPROTO_SCTP") {
            return Err(ScriptError::unsupported(line, "a socket that is not SCTP's"));
        }
        let socket = Socket {
            style,
            nonblocking: false,
            config: self.base.clone(),
            local: Vec::new(),
            port: None,
            stage: Stage::Fresh,
            error: None,
            abort_at_close: false,
            udp_port: 0,
            default_sid: 0,
            default_ppid: 0,
            left: 0,
        };
        self.give(call, socket, line)
    }

    fn listen(&mut self, endpoint: &mut Endpoint, fd: i64, backlog: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it was there");
        let port = *socket.port.get_or_insert(self.settings.bind_port);
        match socket.stage {
            Stage::Listening { .. } if backlog == 0 => {
                endpoint.unlisten(port);
                socket.stage = Stage::Fresh;
            }
            Stage::Listening { .. } => {}
            Stage::Fresh if backlog > 0 => {
                if endpoint.listen(port, Arc::new(socket.config.clone())).is_err() {
                    return fails("EADDRINUSE");
                }
                socket.stage = Stage::Listening { waiting: VecDeque::new() };
                self.new_ports = Some((port, PEER_PORT));
            }
            Stage::Fresh => {}
            Stage::Connected(_) => return fails("EINVAL"),
        }
        done(0)
    }

    fn connect(&mut self, endpoint: &mut Endpoint, now: Time, call: &Call, line: usize) -> Result<Outcome> {
        let fd = int(&call.arguments[0], line)?;
        let socket = self.sockets.get_mut(&fd).expect("it was there");
        let nonblocking = socket.nonblocking;
        match socket.stage {
            Stage::Fresh => {
                let mut peers = match call.name.as_str() {
                    "connect" => values::address(&call.arguments[1], line)?.into_iter().collect(),
                    _ => values::addresses(&call.arguments[1], line)?,
                };
                if peers.len() > 1 {
                    return Err(ScriptError::unsupported(line, "a peer with several addresses"));
                }
                let (ip, port) = peers.pop().unwrap_or((self.settings.remote, self.settings.connect_port));
                if ip != self.settings.remote {
                    return Err(ScriptError::unsupported(
                        line,
                        "a peer that is not the script's remote address",
                    ));
                }
                self.begin(endpoint, now, fd, port)?;
                if call.name == "sctp_connectx" && nonblocking {
                    return done(0);
                }
                if nonblocking {
                    fails("EINPROGRESS")
                } else {
                    Ok(Outcome::Waits(Waiting::Again(call.clone(), line)))
                }
            }
            Stage::Connected(id) => {
                let association = endpoint.association(id);
                let up = association.is_some_and(|association| association.is_up());
                match (socket.error.take(), nonblocking) {
                    (Some(errno), _) => fails(errno),
                    // A call that waited for this.
                    (None, false) if up && call.until.is_some() => done(0),
                    (None, false) if !up => Ok(Outcome::Waits(Waiting::Again(call.clone(), line))),
                    (None, _) => fails(if up { "EISCONN" } else { "EALREADY" }),
                }
            }
            Stage::Listening { .. } => fails("EOPNOTSUPP"),
        }
    }

    /// Begins an association.
    fn begin(&mut self, endpoint: &mut Endpoint, now: Time, fd: i64, port: u16) -> Result<()> {
        let socket = self.sockets.get_mut(&fd).expect("it was there");
        let local = socket.local.first().map_or(self.settings.local, SocketAddr::ip);
        let connect = Connect {
            local: vec![SocketAddr::new(local, socket.udp_port)],
            peer: vec![SocketAddr::new(self.settings.remote, socket.udp_port)],
            source_port: socket.port,
            destination_port: port,
            config: Arc::new(socket.config.clone()),
        };
        match endpoint.connect(now, connect) {
            Ok(id) => {
                socket.stage = Stage::Connected(id);
                self.udp_port = socket.udp_port;
                let ports = endpoint.association(id).map(|association| association.ports());
                self.new_ports = ports;
                Ok(())
            }
            Err(error) => Err(ScriptError::new(0, error.to_string())),
        }
    }

    /// What a sending call wants sent.
    fn outgoing(socket: &Socket, call: &Call, line: usize) -> Result<Outgoing> {
        let arguments = &call.arguments;
        let mut outgoing =
            Outgoing { sid: socket.default_sid, ppid: socket.default_ppid, ..Outgoing::default() };
        let unsupported = |what: &str| Err(ScriptError::unsupported(line, what.to_owned()));
        match call.name.as_str() {
            "write" | "send" | "sendto" => outgoing.len = int(&arguments[2], line)?,
            "sctp_send" => {
                outgoing.len = int(&arguments[2], line)?;
                outgoing.info(&arguments[3], "sinfo_stream", "sinfo", line)?;
            }
            "sctp_sendmsg" => {
                outgoing.len = int(&arguments[2], line)?;
                outgoing.ppid = int(&arguments[5], line)? as u32;
                outgoing.flags = int(&arguments[6], line)?;
                outgoing.sid = int(&arguments[7], line)? as u16;
                if int(&arguments[8], line)? != 0 {
                    return unsupported("a time to live (RFC 3758)");
                }
            }
            "sctp_sendv" => {
                outgoing.len = values::iovecs(&arguments[1], line)?;
                match &arguments[7] {
                    Expr::Word(kind) if kind == "SCTP_SENDV_NOINFO" => {}
                    Expr::Word(kind) if kind == "SCTP_SENDV_SNDINFO" => {
                        outgoing.info(&arguments[5], "snd_sid", "snd", line)?;
                    }
                    Expr::Word(kind) if kind == "SCTP_SENDV_PRINFO" => {
                        outgoing.reliable(&arguments[5], line)?
                    }
                    Expr::Word(kind) if kind == "SCTP_SENDV_SPA" => {
                        let spa = &arguments[5];
                        let flags = spa.member("sendv_flags").unwrap_or(&Expr::Any);
                        let part = |name: &str| spa.member(name).unwrap_or(&Expr::Any);
                        if flag(flags, "SCTP_SEND_AUTHINFO_VALID") {
                            return unsupported("a key for a message (RFC 4895)");
                        }
                        if flag(flags, "SCTP_SEND_SNDINFO_VALID") {
                            outgoing.info(part("sendv_sndinfo"), "snd_sid", "snd", line)?;
                        }
                        if flag(flags, "SCTP_SEND_PRINFO_VALID") {
                            outgoing.reliable(part("sendv_prinfo"), line)?;
                        }
                    }
                    other => return unsupported(&format!("sctp_sendv with {}", values::text(other))),
                }
            }
            _ => {
                outgoing.len = values::iovecs(arguments[1].member("msg_iov").unwrap_or(&Expr::Any), line)?;
                if let Some(Expr::List(cmsgs)) = arguments[1].member("msg_control") {
                    for cmsg in cmsgs {
                        let data = cmsg.member("cmsg_data").unwrap_or(&Expr::Any);
                        match cmsg.member("cmsg_type") {
                            Some(Expr::Word(kind)) if kind == "SCTP_SNDINFO" => {
                                outgoing.info(data, "snd_sid", "snd", line)?;
                            }
                            Some(Expr::Word(kind)) if kind == "SCTP_SNDRCV" => {
                                outgoing.info(data, "sinfo_stream", "sinfo", line)?;
                            }
                            other => {
                                let kind = other.map(values::text).unwrap_or_default();
                                return unsupported(&format!("sendmsg with {kind}"));
                            }
                        }
                    }
                }
            }
        }
        if !(0..=MESSAGE_BYTES_MAX).contains(&outgoing.len) {
            return Err(ScriptError::new(line, format!("a message of {} bytes", outgoing.len)));
        }
        Ok(outgoing)
    }

    fn send(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        call: &Call,
        line: usize,
        outgoing: Outgoing,
    ) -> Result<Outcome> {
        let fd = int(&call.arguments[0], line)?;
        let socket = self.sockets.get_mut(&fd).expect("it was there");
        let known = values::SCTP_UNORDERED | values::SCTP_ABORT | values::SCTP_EOF;
        if outgoing.flags & !known != 0 {
            return Err(ScriptError::unsupported(
                line,
                format!("the flags {:#x} of a message", outgoing.flags),
            ));
        }
        if let Some(errno) = socket.error.take() {
            return fails(errno);
        }
        if socket.style == Style::OneToMany && socket.stage == Stage::Fresh {
            // RFC 6458 §3.1.6: a message to someone new sets up an association.
            let port = self.settings.connect_port;
            self.begin(endpoint, now, fd, port)?;
        }
        let socket = &self.sockets[&fd];
        let Stage::Connected(id) = socket.stage else { return fails("ENOTCONN") };
        let Some(association) = endpoint.association_mut(id) else { return fails("ENOTCONN") };
        if outgoing.flags & values::SCTP_ABORT != 0 {
            association.abort(Bytes::from(vec![0; outgoing.len as usize]));
            return done(outgoing.len);
        }
        if outgoing.len > 0 || outgoing.flags & values::SCTP_EOF == 0 {
            let unordered = outgoing.flags & values::SCTP_UNORDERED != 0;
            let order = if unordered { Order::Unordered } else { Order::Ordered };
            let payload = Bytes::from(vec![0; outgoing.len as usize]);
            let message = Message { order, ..Message::new(Ppid(outgoing.ppid), payload) };
            match association.send(StreamId(outgoing.sid), message) {
                Ok(()) => {}
                Err(SendError::Full) => return Self::again(socket, call, line),
                Err(SendError::ShuttingDown | SendError::Closed) => return fails("EPIPE"),
                Err(SendError::TooLong) => return fails("EMSGSIZE"),
                Err(SendError::Empty | SendError::NoSuchStream) => return fails("EINVAL"),
            }
        }
        if outgoing.flags & values::SCTP_EOF != 0 {
            association.shutdown();
        }
        done(outgoing.len)
    }

    /// Reads up to `len` bytes of one message; `out` makes the call's outputs of its flags and information.
    fn receive(
        &mut self,
        endpoint: &mut Endpoint,
        call: &Call,
        line: usize,
        len: i64,
        out: impl Fn(Expr, Expr) -> Vec<(usize, Expr)>,
    ) -> Result<Outcome> {
        let fd = int(&call.arguments[0], line)?;
        let socket = self.sockets.get_mut(&fd).expect("it was there");
        let id = match socket.stage {
            Stage::Connected(id) => id,
            Stage::Listening { .. } | Stage::Fresh if socket.style == Style::OneToMany => {
                return Self::again(socket, call, line);
            }
            _ => return fails("ENOTCONN"),
        };
        let len = usize::try_from(len).unwrap_or(0);
        let mut info = Expr::Any;
        let mut ends = true;
        if socket.left == 0 {
            let piece = endpoint.association_mut(id).and_then(|association| {
                let stream = association.readable()?;
                association.recv(stream).map(|piece| (stream, piece))
            });
            let Some((stream, piece)) = piece else {
                if let Some(errno) = socket.error.take() {
                    return fails(errno);
                }
                let association = endpoint.association(id);
                let finished = association.is_none_or(|association| {
                    use braidftp_sctp::stats::Phase;
                    let phase = association.phase();
                    !matches!(
                        phase,
                        Phase::CookieWait | Phase::CookieEchoed | Phase::Established | Phase::ShutdownPending
                    )
                });
                return if finished { done(0) } else { Self::again(socket, call, line) };
            };
            socket.left = piece.len();
            ends = piece.end;
            info = values::structure(&[
                ("sinfo_stream", Expr::Int(stream.0.into())),
                ("sinfo_ppid", Expr::Int(piece.ppid.0.into())),
                (
                    "sinfo_flags",
                    Expr::Int(if piece.order == Order::Unordered { values::SCTP_UNORDERED } else { 0 }),
                ),
            ]);
        }
        let taken = socket.left.min(len);
        socket.left -= taken;
        let flags = Expr::Int(if ends && socket.left == 0 { values::MSG_EOR } else { 0 });
        Ok(Outcome::Done(Done { result: Ok(taken as i64), out: out(flags, info) }))
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

impl Outgoing {
    /// Takes the stream, the PPID and the flags of a structure whose members begin with `prefix`.
    fn info(&mut self, info: &Expr, stream: &str, prefix: &str, line: usize) -> Result<()> {
        self.sid = member_int(info, stream, line)?.unwrap_or(0) as u16;
        self.ppid = member_int(info, &format!("{prefix}_ppid"), line)?.unwrap_or(0) as u32;
        self.flags = member_int(info, &format!("{prefix}_flags"), line)?.unwrap_or(0);
        match member_int(info, &format!("{prefix}_timetolive"), line)? {
            None | Some(0) => Ok(()),
            Some(_) => Err(ScriptError::unsupported(line, "a time to live (RFC 3758)")),
        }
    }

    /// Takes a PR-SCTP policy, of which there is but the one that gives nothing up.
    fn reliable(&mut self, info: &Expr, line: usize) -> Result<()> {
        match info.member("pr_policy") {
            None | Some(Expr::Int(0)) => Ok(()),
            Some(Expr::Word(policy)) if policy == "SCTP_PR_SCTP_NONE" => Ok(()),
            Some(policy) => {
                let what = format!("the policy {} of a message (RFC 3758)", values::text(policy));
                Err(ScriptError::unsupported(line, what))
            }
        }
    }
}

/// What SO_ERROR says of the end of an association.
fn errno_of(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::Shutdown => None,
        Reason::Aborted(_) => Some("ECONNABORTED"),
        Reason::PeerAborted(_) => Some("ECONNRESET"),
        Reason::NoAnswer | Reason::PeerUnreachable | Reason::ShutdownTimeout | Reason::StaleCookie => {
            Some("ETIMEDOUT")
        }
        Reason::PeerViolation(_) | Reason::TooFewStreams { .. } => Some("ECONNABORTED"),
    }
}
