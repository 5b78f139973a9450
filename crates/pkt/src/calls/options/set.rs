//! setsockopt.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_sctp::{
    AssociationId, Config, Endpoint, ErrorDetection, MtuDiscovery, PathId, SackTiming, StreamId,
};

use super::super::notice::{Kind, Notice};
use super::super::outgoing::Outgoing;
use super::super::socket::{Socket, Style, errno_of_address};
use super::super::values::{self, address, int, member_int, text};
use super::super::{Ctx, Kernel, Outcome, Result, done, fails};
use super::{REMEMBERED, SCHEDULERS, association_in, extension, extension_is_on, name, plain};
use crate::script::{Expr, ScriptError};

/// The minimum and maximum size of a buffer.
const BUFFER_BYTES: std::ops::RangeInclusive<i64> = 1_500..=1 << 30;

/// The errno of a call that failed.
type Errno = Option<&'static str>;

/// The associations that an option is set for.
struct Targets {
    /// Future associations.
    future: bool,
    /// Existing associations, by the user's id.
    existing: Vec<(i64, AssociationId)>,
}

impl Kernel {
    pub(in super::super) fn set_option(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let (option, line) = (name(ctx)?, ctx.line);
        let value = &ctx.call.arguments[3];
        let needed = match (option, value) {
            ("SCTP_RTOINFO", _) => 16,
            ("SCTP_INITMSG", _) => 8,
            (_, Expr::List(_)) => 4,
            _ => 0,
        };
        if int(&ctx.call.arguments[4], line).is_ok_and(|len| len < needed) {
            return fails("EINVAL");
        }
        let targets = match self.targets(ctx.endpoint, fd, association_in(value, line)?) {
            Ok(targets) => targets,
            Err(errno) => return fails(errno),
        };
        match option {
            "SCTP_STATUS"
            | "SCTP_GET_PEER_ADDR_INFO"
            | "SCTP_GET_ASSOC_NUMBER"
            | "SCTP_GET_ASSOC_ID_LIST"
            | "SCTP_PEER_AUTH_CHUNKS"
            | "SCTP_LOCAL_AUTH_CHUNKS"
            | "SCTP_TIMEOUTS"
            | "SO_ERROR" => {
                return fails("ENOPROTOOPT");
            }
            _ => {}
        }
        if let Some(outcome) = self.set_of_socket(ctx, fd, option, value, &targets)? {
            return Ok(outcome);
        }
        self.set_of_associations(ctx, fd, option, value, &targets)
    }

    /// RFC 6458 §7.2: a one-to-one socket has at most one association; a call on a one-to-many socket names
    /// its target.
    fn targets(
        &self,
        endpoint: &Endpoint,
        fd: i64,
        named: Option<i64>,
    ) -> std::result::Result<Targets, &'static str> {
        let socket = &self.sockets[&fd];
        let exists = |id: AssociationId| {
            endpoint.association(id).is_some_and(|association| association.closed().is_none())
        };
        let members = socket.members.iter().filter(|(_, member)| exists(member.id));
        let all = || members.clone().map(|(number, member)| (*number, member.id)).collect::<Vec<_>>();
        Ok(match (socket.style, named) {
            (Style::OneToOne, _) => Targets { future: true, existing: all() },
            (_, None | Some(0)) => Targets { future: true, existing: Vec::new() },
            (_, Some(values::SCTP_CURRENT_ASSOC)) => Targets { future: false, existing: all() },
            (_, Some(values::SCTP_ALL_ASSOC)) => Targets { future: true, existing: all() },
            (_, Some(number)) => match socket.members.get(&number) {
                Some(member) => Targets { future: false, existing: vec![(number, member.id)] },
                None => return Err("ENOENT"),
            },
        })
    }

    /// Sets options of the socket itself; `None` if `option` is another option.
    fn set_of_socket(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        option: &str,
        value: &Expr,
        targets: &Targets,
    ) -> Result<Option<Outcome>> {
        let line = ctx.line;
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        match option {
            "SO_LINGER" => {
                let on = member_int(value, "onoff", line)?.is_some_and(|on| on != 0);
                socket.linger = if on { Some(member_int(value, "linger", line)?.unwrap_or(0)) } else { None };
            }
            "SCTP_EVENT" => return subscribe(ctx, socket, value, targets).map(Some),
            "SCTP_EVENTS" => subscribe_to_all(socket, value, line)?,
            "SCTP_RECVRCVINFO" => socket.wants.rcvinfo = int(value, line)? != 0,
            "SCTP_RECVNXTINFO" => socket.wants.nxtinfo = int(value, line)? != 0,
            "SCTP_USE_EXT_RCVINFO" => socket.wants.extended = int(value, line)? != 0,
            "SCTP_AUTOCLOSE" => {
                if socket.style == Style::OneToOne {
                    return fails("EOPNOTSUPP").map(Some);
                }
                let seconds = int(value, line)?;
                socket.autoclose = (seconds > 0).then(|| Duration::from_secs(seconds as u64));
            }
            "SCTP_DEFAULT_SNDINFO" | "SCTP_DEFAULT_SEND_PARAM" => {
                let prefix = if option == "SCTP_DEFAULT_SNDINFO" { "snd" } else { "sinfo" };
                let stream = if prefix == "snd" { "snd_sid" } else { "sinfo_stream" };
                let mut defaults = Outgoing::default();
                defaults.policy = socket.defaults.policy;
                defaults.info(value, stream, prefix, line)?;
                defaults.forget_association();
                socket.defaults = defaults;
                remember(socket, targets, option, value);
            }
            "SCTP_DEFAULT_PRINFO" => {
                socket.defaults.reliability(value, line)?;
                remember(socket, targets, option, value);
            }
            "SCTP_REMOTE_UDP_ENCAPS_PORT" => {
                socket.udp_port = member_int(value, "sue_port", line)?.unwrap_or(0) as u16;
                if !targets.existing.is_empty() {
                    let what = "another encapsulation port on an existing association";
                    return Err(ScriptError::unsupported(line, what));
                }
            }
            "SCTP_PARTIAL_DELIVERY_POINT" => {
                if int(value, line)? < 0 {
                    return fails("EINVAL").map(Some);
                }
                remember(socket, targets, option, value);
            }
            "SCTP_FRAGMENT_INTERLEAVE" if !(0..=2).contains(&int(value, line)?) => {
                return fails("EINVAL").map(Some);
            }
            "SCTP_MAXSEG" => {
                let most = plain(value, line)?;
                let fits = (socket.config.path_mtu.packet_bytes
                    - super::COMMON_HEADER_LEN
                    - super::DATA_HEADER_LEN) as i64;
                if most != 0 && most < fits && !Self::limit_fragments(ctx, socket, targets, most)? {
                    let what = "SCTP_MAXSEG below the MTU on an existing association";
                    return Err(ScriptError::unsupported(line, what));
                }
                remember(socket, targets, option, value);
            }
            // A scheduler with a kernel's own name.
            "SCTP_PLUGGABLE_SS" => return Ok(None),
            _ if REMEMBERED.iter().any(|(name, _)| *name == option) => {
                remember(socket, targets, option, value);
            }
            _ => return Ok(None),
        }
        done(0).map(Some)
    }

    /// Limits the size of message fragments: the core only has the MTU for that.
    fn limit_fragments(
        _ctx: &mut Ctx<'_>,
        socket: &mut Socket,
        targets: &Targets,
        _most: i64,
    ) -> Result<bool> {
        // For future associations the value is stored; nothing is fragmented yet.
        let _ = socket;
        Ok(targets.existing.is_empty() || targets.future)
    }

    /// Sets options of associations: on existing ones where the core allows a change, and in the
    /// configuration of future ones.
    fn set_of_associations(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        option: &str,
        value: &Expr,
        targets: &Targets,
    ) -> Result<Outcome> {
        let line = ctx.line;
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        let mut config = socket.config.clone();
        let errno = match option {
            "SO_RCVBUF" | "SO_SNDBUF" => set_buffer(&mut config, option, value, targets, line)?,
            "SCTP_RTOINFO"
            | "SCTP_ASSOCINFO"
            | "SCTP_DELAYED_SACK"
            | "SCTP_DELAYED_ACK_TIME"
            | "SCTP_MAX_BURST" => set_timing(ctx, &mut config, option, value, targets)?,
            // An INIT is sent once: the option applies to future associations (RFC 6458 §8.1.3).
            "SCTP_INITMSG" => {
                init_message(&mut config, value, line)?;
                None
            }
            "SCTP_PEER_ADDR_PARAMS" => return self.set_path_params(ctx, fd, value, targets),
            "SCTP_PRIMARY_ADDR" | "SCTP_SET_PRIMARY_ADDR" => return Self::set_primary(ctx, value, targets),
            "SCTP_SET_PEER_PRIMARY_ADDR" => return self.set_peer_primary(ctx, value, targets),
            "SCTP_STREAM_SCHEDULER_VALUE" | "SCTP_SS_VALUE" => return set_stream_value(ctx, value, targets),
            "SCTP_STREAM_SCHEDULER" | "SCTP_PLUGGABLE_SS" => {
                set_scheduler(ctx, &mut config, option, value, targets)?
            }
            "SCTP_ACCEPT_ZERO_CHECKSUM" => set_zero_checksum(&mut config, value, line)?,
            "SCTP_ADAPTATION_LAYER" => {
                config.handshake.adaptation =
                    member_int(value, "ssb_adaptation_ind", line)?.map(|code| code as u32);
                None
            }
            _ if extension_is_on(&config, option).is_some() => {
                let on = plain(value, line)? != 0;
                if extension(&mut config, option, on).is_none() {
                    return Err(ScriptError::unsupported(line, format!("the option {option}")));
                }
                if !targets.existing.is_empty() && config != socket.config {
                    return Err(unchangeable(option, line));
                }
                None
            }
            _ => return self.set_of_negotiated(ctx, fd, option, value, targets),
        };
        match errno {
            Some(errno) => fails(errno),
            None if targets.future => self.reconfigure(ctx, fd, config),
            None => done(0),
        }
    }

    /// Sets options of stream re-configuration and of authentication.
    fn set_of_negotiated(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        option: &str,
        value: &Expr,
        targets: &Targets,
    ) -> Result<Outcome> {
        let line = ctx.line;
        let mut config = self.sockets[&fd].config.clone();
        let first = targets.existing.first().map(|(_, id)| *id);
        let association = first.and_then(|id| ctx.endpoint.association_mut(id));
        let asked = (option, value);
        if let Some(outcome) = super::reset::set(&mut config, association, ctx.now, asked, line)? {
            if targets.future {
                self.reconfigure(ctx, fd, config)?;
            }
            return Ok(outcome);
        }
        let mut existing = Vec::new();
        // Associations are borrowed from the endpoint one at a time; only SCTP_ALL_ASSOC names more
        // than one.
        if let Some((_, id)) = targets.existing.first() {
            existing.extend(ctx.endpoint.association_mut(*id));
        }
        if let Some(outcome) = super::auth::set(&mut config, existing, option, value, line)? {
            if targets.future && targets.existing.len() < 2 {
                self.reconfigure(ctx, fd, config)?;
            }
            return Ok(outcome);
        }
        let what = format!("the option {option} ({})", text(value));
        Err(ScriptError::unsupported(line, what))
    }

    /// Sets the primary path of an association.
    fn set_primary(ctx: &mut Ctx<'_>, value: &Expr, targets: &Targets) -> Result<Outcome> {
        let line = ctx.line;
        let wanted = value.member("ssp_addr").or(value.member("ssp_address")).unwrap_or(&Expr::Any);
        let ip = address(wanted, line)?.map(|(ip, _)| ip);
        let Some((_, id)) = targets.existing.first() else { return fails("EINVAL") };
        let path = ip.and_then(|ip| Self::path_at(ctx.endpoint, *id, Some(ip)));
        let association = ctx.endpoint.association_mut(*id).expect("the association exists");
        match path.map(|path| association.set_primary(path)) {
            Some(Ok(())) => done(0),
            _ => fails("EINVAL"),
        }
    }

    /// Asks the peer to make an address its primary one.
    fn set_peer_primary(&self, ctx: &mut Ctx<'_>, value: &Expr, targets: &Targets) -> Result<Outcome> {
        let line = ctx.line;
        let wanted = value.member("sspp_addr").unwrap_or(&Expr::Any);
        let ip = address(wanted, line)?.map_or(self.settings.local, |(ip, _)| ip);
        let local = SocketAddr::new(ip, self.tunnel_port.unwrap_or(0));
        let Some((_, id)) = targets.existing.first() else { return fails("EINVAL") };
        let association = ctx.endpoint.association_mut(*id).expect("the association exists");
        match association.set_peer_primary(local) {
            Ok(()) => done(0),
            Err(error) => fails(errno_of_address(error)),
        }
    }

    /// Sets the configuration of future associations, opened by either side.
    pub(in super::super) fn reconfigure(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        config: Config,
    ) -> Result<Outcome> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        if socket.listening && config != socket.config {
            let port = socket.port.unwrap_or_default();
            ctx.endpoint.unlisten(port);
            if ctx.endpoint.listen(port, Arc::new(config.clone())).is_err() {
                return fails("EADDRINUSE");
            }
        }
        socket.config = config;
        done(0)
    }

    /// SCTP_INIT with a message that opens an association (RFC 6458 §5.3.1).
    pub(in super::super) fn set_init(&mut self, fd: i64, init: &Expr, line: usize) -> Result<()> {
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        init_message(&mut socket.config, init, line)
    }

    /// The parameters of paths (RFC 6458 §8.1.12).
    fn set_path_params(
        &mut self,
        ctx: &mut Ctx<'_>,
        fd: i64,
        value: &Expr,
        targets: &Targets,
    ) -> Result<Outcome> {
        let line = ctx.line;
        let default = self.base.timers.heartbeat_interval.unwrap_or(Duration::from_secs(30));
        let wanted = WantedPathParams::read(value, default, line)?;
        let has_no_target = wanted.has(values::SPP_HB_DEMAND) && targets.existing.is_empty();
        if wanted.contradict() || has_no_target || !wanted.set_on_existing(ctx, targets) {
            return fails("EINVAL");
        }
        if wanted.has(values::SPP_PMTUD_DISABLE)
            && let Some(mtu) = member_int(value, "spp_pathmtu", line)?.filter(|mtu| *mtu > 0)
            && !Self::set_mtu(ctx, targets, wanted.ip, mtu as usize + super::COMMON_HEADER_LEN)
        {
            return Err(ScriptError::unsupported(line, "another path MTU (SPP_PMTUD_DISABLE)"));
        }
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        remember(socket, targets, "SCTP_PEER_ADDR_PARAMS", value);
        if !targets.future || wanted.ip.is_some() {
            return done(0);
        }
        let mut config = socket.config.clone();
        wanted.set_on_future(&mut config);
        self.reconfigure(ctx, fd, config)
    }

    /// Sets the packet size of a path; returns whether that is possible.
    fn set_mtu(ctx: &mut Ctx<'_>, targets: &Targets, ip: Option<IpAddr>, mtu: usize) -> bool {
        targets.existing.iter().all(|(_, id)| {
            let stats = ctx.endpoint.association(*id).expect("the association exists").stats();
            stats
                .paths
                .iter()
                .filter(|path| ip.is_none_or(|ip| path.peer.ip() == ip))
                .all(|path| path.mtu == mtu)
        })
    }
}

/// The parameters of paths that a call sets.
struct WantedPathParams {
    flags: i64,
    /// The peer's address, if the call names one path.
    ip: Option<IpAddr>,
    interval: Option<Duration>,
    /// The interval where none was set.
    default_interval: Duration,
    max_retrans: Option<u32>,
}

impl WantedPathParams {
    fn read(value: &Expr, default_interval: Duration, line: usize) -> Result<Self> {
        let flags = match value.member("spp_flags") {
            None | Some(Expr::Any) => 0,
            Some(flags) => int(flags, line)?,
        };
        let wanted = value.member("spp_address").unwrap_or(&Expr::Any);
        // `...` may also be the script's own address, since there is only one.
        let ip = address(wanted, line)?.map(|(ip, _)| ip).filter(|ip| !ip.is_unspecified());
        let interval = member_int(value, "spp_hbinterval", line)?.filter(|millis| *millis > 0);
        let interval = interval.map(|millis| Duration::from_millis(millis as u64));
        let max = member_int(value, "spp_pathmaxrxt", line)?.filter(|max| *max > 0);
        Ok(Self { flags, ip, interval, default_interval, max_retrans: max.map(|max| max as u32) })
    }

    fn has(&self, flag: i64) -> bool {
        self.flags & flag != 0
    }

    /// Whether a feature is both enabled and disabled.
    fn contradict(&self) -> bool {
        (self.has(values::SPP_HB_ENABLE) && self.has(values::SPP_HB_DISABLE))
            || (self.has(values::SPP_PMTUD_ENABLE) && self.has(values::SPP_PMTUD_DISABLE))
    }

    /// The heartbeat interval that follows `before`.
    fn interval_after(&self, before: Option<Duration>) -> Option<Duration> {
        if self.has(values::SPP_HB_DISABLE) {
            None
        } else if self.has(values::SPP_HB_TIME_IS_ZERO) {
            Some(Duration::ZERO)
        } else if self.has(values::SPP_HB_ENABLE) {
            Some(self.interval.or(before).unwrap_or(self.default_interval))
        } else {
            before
        }
    }

    /// Sets the parameters on existing associations; returns whether every one has such paths and accepts them.
    fn set_on_existing(&self, ctx: &mut Ctx<'_>, targets: &Targets) -> bool {
        targets.existing.iter().all(|(_, id)| {
            let association = ctx.endpoint.association_mut(*id).expect("the association exists");
            let is_meant = |ip: IpAddr| self.ip.is_none_or(|wanted| wanted == ip);
            let paths: Vec<PathId> =
                association.paths().filter(|path| is_meant(path.peer.ip())).map(|path| path.id).collect();
            !paths.is_empty()
                && paths.into_iter().all(|path| {
                    let Ok(mut params) = association.path_params(path) else { return true };
                    params.heartbeat_interval = self.interval_after(params.heartbeat_interval);
                    params.path_max_retrans = self.max_retrans.unwrap_or(params.path_max_retrans);
                    association.set_path_params(path, params).is_ok()
                        && (!self.has(values::SPP_HB_DEMAND) || association.demand_heartbeat(path).is_ok())
                })
        })
    }

    /// Sets the parameters for future associations.
    fn set_on_future(&self, config: &mut Config) {
        config.timers.heartbeat_interval = self.interval_after(config.timers.heartbeat_interval);
        config.failover.path_max_retrans = self.max_retrans.unwrap_or(config.failover.path_max_retrans);
        if self.has(values::SPP_PMTUD_ENABLE) {
            let on = MtuDiscovery { max: config.path_mtu.packet_bytes, ..MtuDiscovery::default() };
            config.path_mtu.discovery.get_or_insert(on);
        } else if self.has(values::SPP_PMTUD_DISABLE)
            && let Some(was) = config.path_mtu.discovery.take()
        {
            // The MTU of the interface.
            config.path_mtu.packet_bytes = config.path_mtu.packet_bytes.max(was.max);
        }
    }
}

/// The parameters of INIT (RFC 6458 §8.1.3).
fn init_message(config: &mut Config, value: &Expr, line: usize) -> Result<()> {
    let streams = |number: i64| number.clamp(1, 65_535) as u16;
    let member = |key: &str| member_int(value, key, line).map(|number| number.filter(|number| *number > 0));
    if let Some(count) = member("sinit_num_ostreams")? {
        config.streams.outbound = streams(count);
    }
    if let Some(count) = member("sinit_max_instreams")? {
        config.streams.inbound = streams(count);
    }
    if let Some(count) = member("sinit_max_attempts")? {
        config.handshake.max_init_retransmits = count as u32;
    }
    // The RTO of the handshake has the bounds of every RTO: a lower maximum applies to all.
    if let Some(millis) = member("sinit_max_init_timeo")? {
        let most = Duration::from_millis(millis as u64);
        if most > config.timers.rto.max || most < config.timers.rto.initial {
            return Ok(());
        }
        config.timers.rto.max = most;
    }
    Ok(())
}

/// Stores an option as the script wrote it.
fn remember(socket: &mut Socket, targets: &Targets, option: &str, value: &Expr) {
    for (number, _) in &targets.existing {
        if let Some(member) = socket.members.get_mut(number) {
            member.stored.insert(option.to_owned(), value.clone());
        }
    }
    if targets.future {
        socket.stored.insert(option.to_owned(), value.clone());
    }
}

fn unchangeable(option: &str, line: usize) -> ScriptError {
    ScriptError::unsupported(line, format!("{option} on an existing association"))
}

/// SCTP_EVENT: subscribes to one kind of notification, or ends the subscription.
fn subscribe(ctx: &Ctx<'_>, socket: &mut Socket, value: &Expr, targets: &Targets) -> Result<Outcome> {
    let line = ctx.line;
    let Some(kind) = member_int(value, "se_type", line)?.and_then(Kind::of) else {
        return fails("EINVAL");
    };
    if member_int(value, "se_on", line)?.unwrap_or(0) == 0 {
        socket.events.remove(&kind);
    } else if socket.events.insert(kind) && kind == Kind::SenderDry {
        // RFC 6458 §6.1.9: a sender without data is notified immediately.
        let is_dry = |id: AssociationId| {
            ctx.endpoint.association(id).is_some_and(|association| {
                let stats = association.stats();
                association.is_up() && stats.queued_bytes + stats.outstanding_bytes == 0
            })
        };
        for (number, id) in &targets.existing {
            if is_dry(*id) {
                socket.notices.push_back(Notice::dry(*number));
            }
        }
    }
    done(0)
}

/// SCTP_EVENTS: subscribes to the kinds that the structure names.
fn subscribe_to_all(socket: &mut Socket, value: &Expr, line: usize) -> Result<()> {
    for (name, kind) in Kind::SUBSCRIPTIONS {
        let Some(on) = member_int(value, name, line)? else { continue };
        match kind {
            None => socket.wants.sndrcv = on != 0,
            Some(kind) if on != 0 => {
                socket.events.insert(*kind);
            }
            Some(kind) => {
                socket.events.remove(kind);
            }
        }
    }
    Ok(())
}

/// The size of the send buffer, or of the receive buffer.
fn set_buffer(
    config: &mut Config,
    option: &str,
    value: &Expr,
    targets: &Targets,
    line: usize,
) -> Result<Errno> {
    let bytes = int(value, line)?.clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end()) as usize;
    let buffer = match option {
        "SO_RCVBUF" => &mut config.memory.receive_buffer_bytes,
        _ => &mut config.memory.send_buffer_bytes,
    };
    if *buffer != bytes && !targets.existing.is_empty() {
        return Err(unchangeable(option, line));
    }
    *buffer = bytes;
    Ok(None)
}

/// The stream scheduler, which an existing association keeps.
fn set_scheduler(
    ctx: &Ctx<'_>,
    config: &mut Config,
    option: &str,
    value: &Expr,
    targets: &Targets,
) -> Result<Errno> {
    let line = ctx.line;
    let wanted = plain(value, line)?;
    let Some((_, scheduler)) = SCHEDULERS.iter().find(|(number, _)| *number == wanted) else {
        return Ok(Some("EINVAL"));
    };
    let same = |(_, id): &(i64, AssociationId)| {
        ctx.endpoint
            .association(*id)
            .is_some_and(|association| association.config().messages.scheduler == *scheduler)
    };
    if !targets.existing.iter().all(same) {
        return Err(unchangeable(option, line));
    }
    config.messages.scheduler = *scheduler;
    Ok(None)
}

/// Whether packets without a checksum are accepted (RFC 9653).
fn set_zero_checksum(config: &mut Config, value: &Expr, line: usize) -> Result<Errno> {
    let method = [ErrorDetection::Dtls].into_iter();
    let wanted = plain(value, line)?;
    let found = method.clone().find(|method| i64::from(method.edmid()) == wanted);
    if found.is_none() && wanted != 0 {
        return Ok(Some("EINVAL"));
    }
    config.security.zero_checksum = found;
    Ok(None)
}

/// The weight or priority of a stream, on existing associations.
fn set_stream_value(ctx: &mut Ctx<'_>, value: &Expr, targets: &Targets) -> Result<Outcome> {
    let line = ctx.line;
    let number = |key: &str| Ok(member_int(value, key, line)?.unwrap_or(0));
    let (stream, weight) = (number("stream_id")? as u16, number("stream_value")? as u16);
    for (_, id) in &targets.existing {
        let association = ctx.endpoint.association_mut(*id).expect("the association exists");
        if association.set_stream_value(StreamId(stream), weight).is_err() {
            return fails("EINVAL");
        }
    }
    if targets.existing.is_empty() { fails("EINVAL") } else { done(0) }
}

/// Timers, retransmission limits, delayed SACKs and bursts: of existing associations, and of future ones in `config`.
fn set_timing(
    ctx: &mut Ctx<'_>,
    config: &mut Config,
    option: &str,
    value: &Expr,
    targets: &Targets,
) -> Result<Errno> {
    let line = ctx.line;
    let member = |key: &str| member_int(value, key, line).map(|number| number.filter(|number| *number > 0));
    let time = |key: &str| Ok(member(key)?.map(|millis| Duration::from_millis(millis as u64)));
    match option {
        "SCTP_RTOINFO" => {
            let mut bounds = match targets.existing.first().and_then(|(_, id)| ctx.endpoint.association(*id))
            {
                Some(association) => association.config().timers.rto,
                None => config.timers.rto,
            };
            bounds.initial = time("srto_initial")?.unwrap_or(bounds.initial);
            bounds.max = time("srto_max")?.unwrap_or(bounds.max);
            bounds.min = time("srto_min")?.unwrap_or(bounds.min);
            if bounds.min > bounds.initial || bounds.initial > bounds.max {
                return Ok(Some("EINVAL"));
            }
            config.timers.rto = bounds;
            for (_, id) in &targets.existing {
                ctx.endpoint.association_mut(*id).expect("the association exists").set_rto(bounds);
            }
        }
        "SCTP_ASSOCINFO" => {
            if let Some(max) = member("sasoc_asocmaxrxt")? {
                config.failover.association_max_retrans = max as u32;
                for (_, id) in &targets.existing {
                    ctx.endpoint
                        .association_mut(*id)
                        .expect("the association exists")
                        .set_association_max_retrans(max as u32);
                }
            }
            config.handshake.valid_cookie_life =
                time("sasoc_cookie_life")?.unwrap_or(config.handshake.valid_cookie_life);
        }
        "SCTP_DELAYED_SACK" | "SCTP_DELAYED_ACK_TIME" => {
            let delay = time("sack_delay")?.unwrap_or(config.sack.delay);
            let frequency = member("sack_freq")?.map_or(config.sack.frequency, |number| number as u32);
            if delay > Duration::from_millis(500) {
                return Ok(Some("EINVAL"));
            }
            (config.sack.delay, config.sack.frequency) = (delay, frequency);
            for (_, id) in &targets.existing {
                let timing = SackTiming { delay, frequency };
                ctx.endpoint.association_mut(*id).expect("the association exists").set_delayed_sack(timing);
            }
        }
        "SCTP_MAX_BURST" => {
            let burst = plain(value, line)?;
            config.congestion.max_burst = (burst > 0).then_some(burst as u32);
            for (_, id) in &targets.existing {
                ctx.endpoint
                    .association_mut(*id)
                    .expect("the association exists")
                    .set_max_burst(config.congestion.max_burst);
            }
        }
        _ => {}
    }
    Ok(None)
}
