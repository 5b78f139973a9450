//! Sockets of both styles (RFC 6458 §3, §4): creating and binding them, and opening, peeling off and
//! closing associations.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{AddressError, AssociationId, Config, Connect, Endpoint, PathId};
use bytes::Bytes;

use super::notice::{Kind, Notice};
use super::outgoing::Outgoing;
use super::reading::Reading;
use super::values::{self, address, addresses, flag, int, is_null, text};
use super::{Ctx, Kernel, Outcome, PEER_PORT, Result, done, fails};
use crate::script::{Expr, ScriptError};

/// The first association id of a socket: lower ones mean all, none, or future associations (RFC 6458 §7.2).
const FIRST_ID: i64 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    OneToOne,
    OneToMany,
}

/// The information on each message that a socket requests (RFC 6458 §8.1.29 to §8.1.30, and the older
/// SCTP_EVENTS).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wants {
    pub(super) rcvinfo: bool,
    pub(super) nxtinfo: bool,
    pub(super) sndrcv: bool,
    pub(super) extended: bool,
}

/// An association of a socket.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) id: AssociationId,
    /// The numbers of outbound and inbound streams, once the association is up.
    pub(super) streams: Option<(u16, u16)>,
    /// Whether it has ended.
    pub(super) ended: bool,
    /// Whether it is being shut down because it was idle for too long.
    pub(super) closing: bool,
    /// Whether the user has been notified that all data is sent.
    pub(super) dry: bool,
    /// When data was last sent or received.
    pub(super) active_at: Time,
    /// A message of which part has been read: its stream and number.
    pub(super) partial: Option<(u16, u32)>,
    /// The paths reported to the user as unreachable.
    pub(super) unreachable: BTreeSet<u8>,
    /// Options of this association that are only stored.
    pub(super) stored: BTreeMap<String, Expr>,
    /// The messages sent, indexed by the number that the core reports.
    pub(super) sent_messages: Vec<Outgoing>,
}

impl Member {
    pub(super) fn new(id: AssociationId, now: Time) -> Self {
        Self {
            id,
            streams: None,
            ended: false,
            closing: false,
            dry: true,
            active_at: now,
            partial: None,
            unreachable: BTreeSet::new(),
            stored: BTreeMap::new(),
            sent_messages: Vec::new(),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Socket {
    pub(super) style: Style,
    pub(super) nonblocking: bool,
    /// The configuration of future associations.
    pub(super) config: Config,
    pub(super) local: Vec<IpAddr>,
    pub(super) port: Option<u16>,
    pub(super) listening: bool,
    /// Sockets to `accept`, each with its association.
    pub(super) waiting: VecDeque<Socket>,
    /// By association id.
    pub(super) members: BTreeMap<i64, Member>,
    next_id: i64,
    pub(super) error: Option<&'static str>,
    /// SO_LINGER: the maximum duration of close, in seconds.
    pub(super) linger: Option<i64>,
    pub(super) events: BTreeSet<Kind>,
    /// Notifications to be read.
    pub(super) notices: VecDeque<Notice>,
    pub(super) wants: Wants,
    pub(super) defaults: Outgoing,
    /// Options that are only stored.
    pub(super) stored: BTreeMap<String, Expr>,
    pub(super) udp_port: u16,
    pub(super) reading: Option<Reading>,
    /// Messages taken from the core early, because the information on the previous message includes the
    /// next one.
    pub(super) peeked: VecDeque<Reading>,
    /// Bytes of an unfinished message (SCTP_EXPLICIT_EOR).
    pub(super) unfinished: i64,
    /// Whether the socket is shut down for reading.
    pub(super) read_shut_down: bool,
    /// The idle time after which associations are shut down (SCTP_AUTOCLOSE).
    pub(super) autoclose: Option<Duration>,
}

impl Socket {
    fn new(style: Style, config: Config) -> Self {
        Self {
            style,
            nonblocking: false,
            config,
            local: Vec::new(),
            port: None,
            listening: false,
            waiting: VecDeque::new(),
            members: BTreeMap::new(),
            next_id: FIRST_ID,
            error: None,
            linger: None,
            events: BTreeSet::new(),
            notices: VecDeque::new(),
            wants: Wants::default(),
            defaults: Outgoing::default(),
            stored: BTreeMap::new(),
            udp_port: 0,
            reading: None,
            peeked: VecDeque::new(),
            unfinished: 0,
            read_shut_down: false,
            autoclose: None,
        }
    }

    /// A new socket for an association of this one.
    pub(super) fn child(&self) -> Self {
        Self {
            style: Style::OneToOne,
            nonblocking: false,
            listening: false,
            waiting: VecDeque::new(),
            members: BTreeMap::new(),
            error: None,
            notices: VecDeque::new(),
            reading: None,
            peeked: VecDeque::new(),
            unfinished: 0,
            ..self.clone()
        }
    }

    /// Adds an association; returns its id for the user.
    pub(super) fn add_member(&mut self, member: Member) -> i64 {
        let number = self.next_id;
        self.next_id += 1;
        self.members.insert(number, member);
        number
    }

    /// The association of a one-to-one socket, or the only one of a one-to-many socket.
    pub(super) fn only(&self) -> Option<(i64, &Member)> {
        let mut members = self.members.iter();
        match (members.next(), members.next()) {
            (Some((number, member)), None) => Some((*number, member)),
            _ => None,
        }
    }

    /// The association with this id, or the only one if there is no id.
    pub(super) fn member_by_id(&self, number: Option<i64>) -> Option<(i64, &Member)> {
        match number.filter(|number| *number >= FIRST_ID && self.style == Style::OneToMany) {
            Some(number) => self.members.get_key_value(&number).map(|(number, member)| (*number, member)),
            None => self.only(),
        }
    }

    /// Queues a notification if the user subscribed to its kind.
    pub(super) fn notify(&mut self, notice: Notice) {
        if self.events.contains(&notice.kind) {
            self.notices.push_back(notice);
        }
    }
}

impl Kernel {
    pub(super) fn socket(&mut self, ctx: &Ctx<'_>) -> Result<Outcome> {
        let [_, style, protocol] = &ctx.call.arguments[..] else { unreachable!("counted") };
        let style = match style {
            Expr::Word(word) if word == "SOCK_STREAM" => Style::OneToOne,
            Expr::Word(word) if word == "SOCK_SEQPACKET" => Style::OneToMany,
            other => {
                return Err(ScriptError::unsupported(ctx.line, format!("a socket of type {}", text(other))));
            }
        };
        if !flag(protocol, "IPPROTO_SCTP") {
            return Err(ScriptError::unsupported(ctx.line, "a socket of another protocol"));
        }
        let mut config = self.base.clone();
        self.plpmtud.apply(&mut config, &self.settings, self.tunnel_port.is_some());
        let socket = Socket::new(style, config);
        self.install(ctx, socket)
    }

    /// Assigns a socket the number that the script expects.
    fn install(&mut self, ctx: &Ctx<'_>, socket: Socket) -> Result<Outcome> {
        let fd = int(&ctx.call.result, ctx.line)?;
        if fd >= 0 {
            if self.sockets.contains_key(&fd) {
                let what = format!("the script already has a socket {fd}");
                return Err(ScriptError::new(ctx.line, what));
            }
            self.sockets.insert(fd, socket);
        }
        done(fd.max(0))
    }

    pub(super) fn fcntl(&mut self, ctx: &Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let arguments = &ctx.call.arguments;
        match &arguments[1] {
            Expr::Word(word) if word == "F_GETFL" => {
                done(super::O_RDWR | if socket.nonblocking { super::O_NONBLOCK } else { 0 })
            }
            Expr::Word(word) if word == "F_SETFL" && arguments.len() == 3 => {
                socket.nonblocking = int(&arguments[2], ctx.line)? & super::O_NONBLOCK != 0;
                done(0)
            }
            other => Err(ScriptError::unsupported(ctx.line, format!("fcntl with {}", text(other)))),
        }
    }

    pub(super) fn bind(&mut self, ctx: &Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        if socket.port.is_some() {
            return fails("EINVAL");
        }
        let address = address(&ctx.call.arguments[1], ctx.line)?;
        let port = address.map_or(self.settings.bind_port, |(_, port)| port);
        socket.port = Some(port).filter(|port| *port != 0);
        socket.local = address.iter().map(|(ip, _)| *ip).filter(|ip| !ip.is_unspecified()).collect();
        done(0)
    }

    pub(super) fn bindx(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let [_, list, _, how] = &ctx.call.arguments[..] else { unreachable!("counted") };
        let mut listed = addresses(list, ctx.line)?;
        if listed.is_empty() {
            listed.push((self.settings.local, self.settings.bind_port));
        }
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        if socket.members.values().any(|member| !member.ended) {
            return self.rebind(ctx, fd, &listed, flag(how, "SCTP_BINDX_REM_ADDR"));
        }
        if flag(how, "SCTP_BINDX_REM_ADDR") {
            let before = socket.local.len();
            let stays = |ip: &IpAddr| !listed.iter().any(|(gone, _)| gone == ip);
            let left: Vec<_> = socket.local.iter().copied().filter(stays).collect();
            // An address that is not bound, or the last one.
            if left.len() + listed.len() != before || left.is_empty() {
                return fails("EINVAL");
            }
            socket.local = left;
            return done(0);
        }
        let port = listed[0].1;
        if listed.iter().any(|(_, other)| *other != port) {
            return fails("EINVAL");
        }
        let port = if port == 0 { self.settings.bind_port } else { port };
        if socket.port.is_some_and(|bound| bound != port) {
            return fails("EINVAL");
        }
        socket.port = Some(port);
        for (ip, _) in listed {
            if !socket.local.contains(&ip) {
                socket.local.push(ip);
            }
        }
        done(0)
    }

    /// sctp_bindx on a socket with established associations, which send ASCONFs (RFC 5061 §4.2).
    fn rebind(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        listed: &[(IpAddr, u16)],
        remove: bool,
    ) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let udp = self.tunnel_port.unwrap_or(0);
        for member in socket.members.values().filter(|member| !member.ended) {
            let Some(association) = ctx.endpoint.association_mut(member.id) else { continue };
            for (ip, _) in listed {
                let local = SocketAddr::new(*ip, udp);
                let asked =
                    if remove { association.remove_address(local) } else { association.add_address(local) };
                if let Err(error) = asked {
                    return fails(errno_of_address(error));
                }
            }
        }
        for (ip, _) in listed {
            socket.local.retain(|it| it != ip);
            if !remove {
                socket.local.push(*ip);
            }
        }
        done(0)
    }

    pub(super) fn listen(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let backlog = int(&ctx.call.arguments[1], ctx.line)?;
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let port = *socket.port.get_or_insert(self.settings.bind_port);
        if socket.style == Style::OneToOne && !socket.members.is_empty() {
            return fails("EINVAL");
        }
        match (socket.listening, backlog > 0) {
            (false, true) => {
                if ctx.endpoint.listen(port, Arc::new(socket.config.clone())).is_err() {
                    return fails("EADDRINUSE");
                }
                if socket.local.len() > 1 {
                    let udp = self.tunnel_port.unwrap_or(0);
                    let all = socket.local.iter().map(|ip| SocketAddr::new(*ip, udp)).collect();
                    ctx.endpoint.set_addresses(all, braidftp_sctp::Announce::Always);
                }
                self.new_ports = Some((port, PEER_PORT));
            }
            (true, false) => ctx.endpoint.unlisten(port),
            _ => {}
        }
        socket.listening = backlog > 0;
        done(0)
    }

    pub(super) fn accept(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        if socket.style == Style::OneToMany {
            return fails("EOPNOTSUPP");
        }
        if !socket.listening {
            return fails("EINVAL");
        }
        let Some(accepted) = socket.waiting.pop_front() else { return Self::blocked(socket, ctx) };
        self.install(ctx, accepted)
    }

    pub(super) fn connect(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let (nonblocking, style) = (socket.nonblocking, socket.style);
        let connectx = ctx.call.name == "sctp_connectx" && ctx.call.arguments.len() == 4;
        if ctx.is_retry {
            let Some((number, member)) = socket.members.last_key_value() else { return fails("ENOTCONN") };
            let (number, up, ended) = (*number, member.streams.is_some(), member.ended);
            return match socket.error.take() {
                Some(errno) => fails(errno),
                None if ended => fails("ECONNREFUSED"),
                None if up => Self::connected(connectx, number),
                None => Self::blocked(socket, ctx),
            };
        }
        if style == Style::OneToOne {
            if socket.listening {
                return fails("EOPNOTSUPP");
            }
            if let Some((_, member)) = socket.only() {
                let up = member.streams.is_some();
                return match socket.error.take() {
                    Some(errno) => fails(errno),
                    None => fails(if up { "EISCONN" } else { "EALREADY" }),
                };
            }
        }
        let peers = match ctx.call.name.as_str() {
            "connect" => address(&ctx.call.arguments[1], ctx.line)?.into_iter().collect(),
            _ => addresses(&ctx.call.arguments[1], ctx.line)?,
        };
        let number = match self.begin(ctx, fd, &peers)? {
            Ok(number) => number,
            Err(errno) => return fails(errno),
        };
        match (nonblocking, connectx) {
            // RFC 6458 leaves this open; the public suites expect success when they request the id.
            (true, true) => Self::connected(true, number),
            (true, false) => fails("EINPROGRESS"),
            (false, _) => Self::blocked(&self.sockets[&fd], ctx),
        }
    }

    fn connected(connectx: bool, number: i64) -> Result<Outcome> {
        let out = if connectx { vec![(3, values::list(Expr::Int(number)))] } else { Vec::new() };
        Ok(Outcome::Done(super::Done { result: Ok(0), out }))
    }

    /// Opens an association to a peer with these addresses, or the script's; returns its id for the user.
    pub(super) fn begin(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        peers: &[(IpAddr, u16)],
    ) -> Result<std::result::Result<i64, &'static str>> {
        let default = [(self.settings.remote, self.settings.connect_port)];
        let peers = if peers.is_empty() { &default } else { peers };
        let port = peers[0].1;
        if port == 0 || peers.iter().any(|(_, other)| *other != port) {
            return Ok(Err("EINVAL"));
        }
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let local = if socket.local.is_empty() { vec![self.settings.local] } else { socket.local.clone() };
        let udp = if socket.udp_port == 0 { 0 } else { self.tunnel_port.unwrap_or(socket.udp_port) };
        let connect = Connect {
            local: local.iter().map(|ip| SocketAddr::new(*ip, udp)).collect(),
            peer: peers.iter().map(|(ip, _)| SocketAddr::new(*ip, socket.udp_port)).collect(),
            source_port: socket.port,
            destination_port: port,
            config: Arc::new(socket.config.clone()),
        };
        match ctx.endpoint.connect(ctx.now, connect) {
            Ok(id) => {
                let ports = ctx.endpoint.association(id).map(braidftp_sctp::Association::ports);
                // All associations of the socket share this port.
                socket.port = socket.port.or(ports.map(|(own, _)| own));
                let number = socket.add_member(Member::new(id, ctx.now));
                self.udp_ports = (socket.udp_port, udp);
                self.new_ports = ports;
                Ok(Ok(number))
            }
            Err(braidftp_sctp::ConnectError::InUse) => Ok(Err("EADDRINUSE")),
            Err(error) => Err(ScriptError::new(ctx.line, error.to_string())),
        }
    }

    pub(super) fn shutdown(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let how = int(&ctx.call.arguments[1], ctx.line)?;
        if socket.style == Style::OneToMany {
            return fails("EOPNOTSUPP");
        }
        let Some((_, member)) = socket.only() else { return fails("ENOTCONN") };
        let id = member.id;
        socket.read_shut_down |= how != 1;
        if how != 0
            && let Some(association) = ctx.endpoint.association_mut(id)
        {
            association.shutdown();
        }
        done(0)
    }

    pub(super) fn close(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get(&fd).expect("it exists");
        let waiting = socket.waiting.iter().flat_map(|socket| socket.members.values());
        let ids: Vec<_> = socket.members.values().chain(waiting).map(|member| member.id).collect();
        let over = |endpoint: &Endpoint| {
            ids.iter()
                .all(|id| endpoint.association(*id).is_none_or(|association| association.closed().is_some()))
        };
        let (linger, nonblocking) = (socket.linger, socket.nonblocking);
        if !ctx.is_retry {
            if socket.listening {
                ctx.endpoint.unlisten(socket.port.unwrap_or_default());
            }
            for id in &ids {
                let Some(association) = ctx.endpoint.association_mut(*id) else { continue };
                if linger == Some(0) {
                    association.abort(Bytes::new());
                } else {
                    association.shutdown();
                }
            }
        }
        // SO_LINGER: blocks until all data is acknowledged or the time is over (RFC 6458 §8.1.4).
        let lingers = linger.is_some_and(|seconds| seconds > 0) && !nonblocking && ctx.call.until.is_some();
        if lingers && !over(ctx.endpoint) {
            let until = ctx.now + Duration::from_secs(linger.unwrap_or(0) as u64);
            if !ctx.is_retry {
                return Ok(Outcome::Waits(super::Waiting::until(ctx, Some(until))));
            }
            if !ctx.timed_out {
                return Ok(Outcome::Waits(super::Waiting::until(ctx, ctx.deadline)));
            }
        }
        self.sockets.remove(&fd);
        self.orphans.extend(ids);
        done(0)
    }

    pub(super) fn peeloff(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let number = int(&ctx.call.arguments[1], ctx.line)?;
        let Some((number, _)) = socket.member_by_id(Some(number)) else { return fails("ENOENT") };
        let mut peeled = socket.child();
        let member = socket.members.remove(&number).expect("just looked up");
        let mut keep = VecDeque::new();
        for notice in std::mem::take(&mut socket.notices) {
            if notice.number == number { peeled.notices.push_back(notice) } else { keep.push_back(notice) }
        }
        socket.notices = keep;
        peeled.members.insert(number, member);
        self.install(ctx, peeled)
    }

    /// sctp_getpaddrs and sctp_getladdrs.
    pub(super) fn all_addresses(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = &self.sockets[&fd];
        let number = int(&ctx.call.arguments[1], ctx.line)?;
        let theirs = ctx.call.name == "sctp_getpaddrs";
        let association =
            socket.member_by_id(Some(number)).and_then(|(_, member)| ctx.endpoint.association(member.id));
        let mut listed: Vec<(IpAddr, u16)> = Vec::new();
        match association {
            Some(association) => {
                let (own, peer) = association.ports();
                for path in association.paths() {
                    let entry = if theirs { (path.peer.ip(), peer) } else { (path.local.ip(), own) };
                    if !listed.contains(&entry) {
                        listed.push(entry);
                    }
                }
            }
            None if theirs => return fails("ENOENT"),
            None => {
                let port = socket.port.unwrap_or(0);
                listed.extend(socket.local.iter().map(|ip| (*ip, port)));
                if listed.is_empty() {
                    listed.push((self.settings.local, port));
                }
            }
        }
        let count = listed.len() as i64;
        let list = Expr::List(listed.into_iter().map(|(ip, port)| values::sockaddr(ip, port)).collect());
        Ok(Outcome::Done(super::Done { result: Ok(count), out: vec![(2, list)] }))
    }

    /// getsockname and getpeername.
    pub(super) fn name(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let socket = &self.sockets[&fd];
        let association = socket.only().and_then(|(_, member)| ctx.endpoint.association(member.id));
        let named = match (ctx.call.name.as_str(), association) {
            ("getpeername", None) => return fails("ENOTCONN"),
            ("getpeername", Some(association)) => {
                association.paths().next().map(|path| (path.peer.ip(), association.ports().1))
            }
            (_, Some(association)) => {
                association.paths().next().map(|path| (path.local.ip(), association.ports().0))
            }
            (_, None) => {
                let ip = socket.local.first().copied().unwrap_or(self.settings.local);
                Some((ip, socket.port.unwrap_or(0)))
            }
        };
        let out = named.map(|(ip, port)| vec![(1, values::sockaddr(ip, port))]).unwrap_or_default();
        Ok(Outcome::Done(super::Done { result: Ok(0), out }))
    }

    /// poll(2) for one socket.
    pub(super) fn poll_sockets(&mut self, ctx: &mut Ctx<'_>) -> Result<Outcome> {
        let [fds, _, timeout] = &ctx.call.arguments[..] else { unreachable!("counted") };
        let Expr::List(list) = fds else {
            return Err(ScriptError::new(ctx.line, "poll expects a list of {fd=…, events=…}"));
        };
        let mut found = Vec::new();
        let mut ready = 0;
        for entry in list {
            let fd = values::member_int(entry, "fd", ctx.line)?.unwrap_or(-1);
            let events = values::member_int(entry, "events", ctx.line)?.unwrap_or(0);
            let revents = match self.sockets.get(&fd) {
                None => 0x20,
                Some(socket) => {
                    let mut revents = 0;
                    if self.has_something_to_read(ctx.endpoint, socket) {
                        revents |= values::POLLIN;
                    }
                    let room = socket.only().and_then(|(_, member)| ctx.endpoint.association(member.id));
                    if room.is_some_and(|association| association.is_up() && association.send_room() > 0) {
                        revents |= values::POLLOUT;
                    }
                    revents & (events | 0x38)
                }
            };
            ready += i64::from(revents != 0);
            found.push(values::structure(&[
                ("fd", Expr::Int(fd)),
                ("events", Expr::Int(events)),
                ("revents", Expr::Int(revents)),
            ]));
        }
        let millis = int(timeout, ctx.line)?;
        if ready == 0 && millis != 0 && !ctx.timed_out {
            let until = match (ctx.is_retry, u64::try_from(millis)) {
                (true, _) => ctx.deadline,
                (false, Ok(millis)) => Some(ctx.now + Duration::from_millis(millis)),
                (false, Err(_)) => None,
            };
            return Ok(Outcome::Waits(super::Waiting::until(ctx, until)));
        }
        Ok(Outcome::Done(super::Done { result: Ok(ready), out: vec![(0, Expr::List(found))] }))
    }

    /// The path to an address, or the primary path if there is none.
    pub(super) fn path_at(endpoint: &Endpoint, id: AssociationId, ip: Option<IpAddr>) -> Option<PathId> {
        let association = endpoint.association(id)?;
        match ip.filter(|ip| !ip.is_unspecified()) {
            Some(ip) => association.paths().find(|path| path.peer.ip() == ip).map(|path| path.id),
            None => Some(association.primary().unwrap_or(PathId(0))),
        }
    }

    /// The address in an argument, if there is one.
    pub(super) fn destination(expr: &Expr, line: usize) -> Result<Vec<(IpAddr, u16)>> {
        if is_null(expr) { Ok(Vec::new()) } else { addresses(expr, line) }
    }
}

/// The errno of a failed address change.
pub(super) fn errno_of_address(error: AddressError) -> &'static str {
    match error {
        AddressError::NotUp => "ENOTCONN",
        AddressError::NotSupported => "EOPNOTSUPP",
        AddressError::InUse => "EADDRINUSE",
        AddressError::NoSuchAddress => "EADDRNOTAVAIL",
        AddressError::Last | AddressError::NoPath => "EINVAL",
        AddressError::TooMany => "ENOBUFS",
    }
}
