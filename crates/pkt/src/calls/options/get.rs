//! getsockopt.

use std::net::IpAddr;
use std::time::Duration;

use braidftp_sctp::{Association, Config, PathId, Stats};

use super::super::notice::Kind;
use super::super::socket::{Socket, Style};
use super::super::values::{self, address, int, list, member_int, number, structure, text};
use super::super::{Ctx, Done, Kernel, Outcome, Result, fails};
use super::{
    COMMON_HEADER_LEN, DATA_HEADER_LEN, REMEMBERED, SCHEDULERS, as_written, association_in, extension_is_on,
    name, path_info, remembered, state,
};
use crate::script::{Expr, ScriptError};

fn millis(duration: Duration) -> Expr {
    number(duration.as_millis())
}

fn wrote(value: Expr) -> Result<Outcome> {
    Ok(Outcome::Done(Done { result: Ok(0), out: vec![(3, value)] }))
}

/// The core counts bytes where the socket API counts chunks: 0 is 0, and other values are not comparable.
fn chunks(bytes: usize) -> Expr {
    if bytes == 0 { Expr::Int(0) } else { Expr::Text("a count of chunks".to_owned()) }
}

/// SO_ERROR is a number that a script may write as the name of the errno.
fn error(found: &'static str, expected: &Expr) -> Expr {
    let expected = match expected {
        Expr::List(list) => list.first().map(text).unwrap_or_default(),
        other => text(other),
    };
    let same = expected == "..." || values::errno(&expected) == found;
    if same { Expr::Any } else { Expr::Text(found.to_owned()) }
}

impl Kernel {
    pub(in super::super) fn get_option(&mut self, ctx: &mut Ctx<'_>, fd: i64) -> Result<Outcome> {
        let (option, line) = (name(ctx)?, ctx.line);
        let expected = &ctx.call.arguments[3];
        let socket = self.sockets.get_mut(&fd).expect("it exists");
        // An empty buffer holds no option.
        if int(&ctx.call.arguments[4], line).is_ok_and(|room| room == 0) {
            return fails("EINVAL");
        }
        if option == "SO_ERROR" {
            let found = socket.error.take().unwrap_or("0");
            return wrote(error(found, expected));
        }
        let named = match ctx.call.name.as_str() {
            // RFC 6458 §9.14: the association is an argument of its own.
            "sctp_opt_info" => int(&ctx.call.arguments[1], line).ok().filter(|number| *number != 0),
            _ => association_in(expected, line)?,
        };
        let member = socket.member_by_id(named).map(|(number, member)| (number, member.id));
        if named.is_some_and(|number| number > values::SCTP_ALL_ASSOC) && member.is_none() {
            return fails("ENOENT");
        }
        let number_of = member.map(|(number, _)| number);
        let association = member.and_then(|(_, id)| ctx.endpoint.association(id));
        let existing = association.filter(|association| association.closed().is_none());
        let query = Query {
            socket,
            member: number_of,
            id: number_of.unwrap_or(0),
            association,
            existing,
            config: existing.map_or(&socket.config, Association::config),
            stats: association.map(Association::stats),
            port: association.map_or(0, |association| association.ports().1),
            option,
            expected,
            line,
        };
        match query.value()? {
            Ok(value) => wrote(value),
            Err(errno) => fails(errno),
        }
    }
}

/// A value, or the errno.
type Value = std::result::Result<Expr, &'static str>;

/// What a call asks for.
struct Query<'a> {
    socket: &'a Socket,
    /// The user's id of the association, and the same for structures, where 0 is none.
    member: Option<i64>,
    id: i64,
    association: Option<&'a Association>,
    /// The association, unless it is closed.
    existing: Option<&'a Association>,
    config: &'a Config,
    stats: Option<Stats>,
    port: u16,
    option: &'a str,
    /// The value in the script.
    expected: &'a Expr,
    line: usize,
}

impl Query<'_> {
    /// Returns the value of an option, or an errno.
    fn value(&self) -> Result<Value> {
        for group in [Self::of_socket, Self::of_delivery, Self::of_configuration, Self::of_paths] {
            if let Some(value) = group(self)? {
                return Ok(value);
            }
        }
        self.of_extension()
    }

    /// Options of the socket itself.
    fn of_socket(&self) -> Result<Option<Value>> {
        let Self { socket, member, id, option, expected, line, .. } = *self;
        Ok(Some(Ok(match option {
            "SO_LINGER" => {
                let on = socket.linger.is_some();
                // Any number but 0 means on.
                let expected_value =
                    member_int(expected, "onoff", line)?.filter(|expected_value| on && *expected_value != 0);
                let onoff = Expr::Int(expected_value.unwrap_or(on.into()));
                structure(&[("onoff", onoff), ("linger", Expr::Int(socket.linger.unwrap_or(0)))])
            }
            "SO_TYPE" => {
                list(Expr::Int(if socket.style == super::super::socket::Style::OneToOne { 1 } else { 5 }))
            }
            "SCTP_DEFAULT_SNDINFO" => {
                let defaults = &socket.defaults;
                structure(&[
                    ("snd_sid", number(defaults.sid)),
                    ("snd_flags", Expr::Int(defaults.flags)),
                    ("snd_ppid", number(defaults.ppid)),
                    ("snd_context", number(defaults.context)),
                    ("snd_assoc_id", Expr::Int(id)),
                ])
            }
            // Returns the structure exactly as it was set.
            "SCTP_DEFAULT_SEND_PARAM" => match remembered(socket, member, option) {
                Some(value) => value.clone(),
                None => structure(&[
                    ("sinfo_stream", Expr::Int(0)),
                    ("sinfo_ssn", Expr::Int(0)),
                    ("sinfo_flags", Expr::Int(0)),
                    ("sinfo_ppid", Expr::Int(0)),
                    ("sinfo_context", Expr::Int(0)),
                    ("sinfo_timetolive", Expr::Int(0)),
                    ("sinfo_tsn", Expr::Int(0)),
                    ("sinfo_cumtsn", Expr::Int(0)),
                    ("sinfo_assoc_id", Expr::Int(id)),
                ]),
            },
            "SCTP_DEFAULT_PRINFO" => match remembered(socket, member, option) {
                Some(value) => value.clone(),
                None => structure(&[
                    ("pr_policy", Expr::Int(0)),
                    ("pr_value", Expr::Int(0)),
                    ("pr_assoc_id", Expr::Int(id)),
                ]),
            },
            "SCTP_AUTOCLOSE" => list(Expr::Int(socket.autoclose.map_or(0, |time| time.as_secs() as i64))),
            "SCTP_GET_ASSOC_NUMBER" => {
                let existing = socket.members.values().filter(|member| !member.ended).count();
                list(number(existing))
            }
            "SCTP_GET_ASSOC_ID_LIST" => {
                let existing: Vec<_> = socket
                    .members
                    .iter()
                    .filter(|(_, member)| !member.ended)
                    .map(|(number, _)| Expr::Int(*number))
                    .collect();
                let room = room(expected, line)?;
                if room.is_some_and(|room| room < existing.len() as i64) {
                    return Ok(Some(Err("EINVAL")));
                }
                structure(&[
                    ("gaids_number_of_ids", number(existing.len())),
                    ("gaids_assoc_id", Expr::List(existing)),
                ])
            }
            "SCTP_ADAPTATION_LAYER" => {
                structure(&[("ssb_adaptation_ind", number(socket.config.handshake.adaptation.unwrap_or(0)))])
            }
            _ => return Ok(None),
        })))
    }

    /// Notifications and ancillary data that the socket receives.
    fn of_delivery(&self) -> Result<Option<Value>> {
        let Self { socket, id, option, expected, line, .. } = *self;
        Ok(Some(Ok(match option {
            "SCTP_EVENT" => {
                let kind = member_int(expected, "se_type", line)?.and_then(Kind::of);
                let Some(kind) = kind else { return Ok(Some(Err("EINVAL"))) };
                structure(&[
                    ("se_assoc_id", Expr::Int(id)),
                    ("se_type", Expr::Int(kind as i64)),
                    ("se_on", Expr::Int(socket.events.contains(&kind).into())),
                ])
            }
            "SCTP_EVENTS" => {
                let on = |kind: &Option<Kind>| match kind {
                    Some(kind) => socket.events.contains(kind),
                    None => socket.wants.sndrcv,
                };
                let members: Vec<_> = Kind::SUBSCRIPTIONS
                    .iter()
                    .map(|(name, kind)| (*name, Expr::Int(on(kind).into())))
                    .collect();
                structure(&members)
            }
            "SCTP_RECVRCVINFO" => list(Expr::Int(socket.wants.rcvinfo.into())),
            "SCTP_RECVNXTINFO" => list(Expr::Int(socket.wants.nxtinfo.into())),
            "SCTP_USE_EXT_RCVINFO" => list(Expr::Int(socket.wants.extended.into())),
            _ => return Ok(None),
        })))
    }

    /// The configuration of the association, or of future ones.
    fn of_configuration(&self) -> Result<Option<Value>> {
        let Self { socket, member, config, id, option, expected, line, .. } = *self;
        Ok(Some(Ok(match option {
            "SO_RCVBUF" => list(number(config.memory.receive_buffer_bytes)),
            "SO_SNDBUF" => list(number(config.memory.send_buffer_bytes)),
            "SCTP_RTOINFO" => structure(&[
                ("srto_assoc_id", Expr::Int(id)),
                ("srto_initial", millis(config.timers.rto.initial)),
                ("srto_max", millis(config.timers.rto.max)),
                ("srto_min", millis(config.timers.rto.min)),
            ]),
            "SCTP_ASSOCINFO" => structure(&[
                ("sasoc_assoc_id", Expr::Int(id)),
                ("sasoc_asocmaxrxt", number(config.failover.association_max_retrans)),
                (
                    "sasoc_number_peer_destinations",
                    number(self.stats.as_ref().map_or(0, |stats| stats.paths.len())),
                ),
                ("sasoc_peer_rwnd", number(self.stats.as_ref().map_or(0, |stats| stats.peer_rwnd))),
                (
                    "sasoc_local_rwnd",
                    number(
                        self.stats.as_ref().map_or(config.memory.receive_buffer_bytes, |stats| stats.a_rwnd),
                    ),
                ),
                ("sasoc_cookie_life", millis(socket.config.handshake.valid_cookie_life)),
            ]),
            "SCTP_INITMSG" => structure(&[
                ("sinit_num_ostreams", number(config.streams.outbound)),
                ("sinit_max_instreams", number(config.streams.inbound)),
                ("sinit_max_attempts", number(config.handshake.max_init_retransmits)),
                ("sinit_max_init_timeo", millis(config.timers.rto.max)),
            ]),
            "SCTP_DELAYED_SACK" => structure(&[
                ("sack_assoc_id", Expr::Int(id)),
                ("sack_delay", millis(config.sack.delay)),
                ("sack_freq", number(config.sack.frequency)),
            ]),
            "SCTP_MAX_BURST" => as_written(expected, config.congestion.max_burst.unwrap_or(0).into()),
            "SCTP_MAXSEG" => {
                let mtu = self
                    .stats
                    .as_ref()
                    .and_then(|stats| stats.paths.first())
                    .map_or(config.path_mtu.packet_bytes, |path| path.mtu);
                let most = (mtu - COMMON_HEADER_LEN - DATA_HEADER_LEN) as i64;
                let set =
                    remembered(socket, member, option).map(|value| super::plain(value, line)).transpose()?;
                as_written(expected, set.filter(|set| *set > 0).map_or(most, |set| set.min(most)))
            }
            "SCTP_PARTIAL_DELIVERY_POINT" => match remembered(socket, member, option) {
                Some(value) => list(Expr::Int(super::plain(value, line)?)),
                // The default of the core's `reassembly`.
                None => list(number(config.memory.receive_buffer_bytes / 2)),
            },
            "SCTP_STREAM_SCHEDULER" | "SCTP_PLUGGABLE_SS" => {
                let found =
                    SCHEDULERS.iter().filter(|(_, scheduler)| *scheduler == config.messages.scheduler);
                let mut numbers = found.map(|(number, _)| *number);
                let expected_value = super::plain(expected, line).unwrap_or(-1);
                let same = numbers.clone().any(|number| number == expected_value);
                as_written(expected, if same { expected_value } else { numbers.next().unwrap_or(0) })
            }
            _ => return Ok(None),
        })))
    }

    /// The state of the association and of its paths.
    fn of_paths(&self) -> Result<Option<Value>> {
        let Self { socket, member, association, existing, port, id, option, expected, line, .. } = *self;
        Ok(Some(Ok(match option {
            "SCTP_STATUS" => {
                let (Some(stats), Some(association)) = (&self.stats, association) else {
                    return Ok(Some(Err("EINVAL")));
                };
                let primary = association.primary().unwrap_or(PathId(0));
                let path = stats.paths.get(usize::from(primary.0));
                let point = |path: &braidftp_sctp::PathStats| path.mtu - COMMON_HEADER_LEN - DATA_HEADER_LEN;
                structure(&[
                    ("sstat_assoc_id", Expr::Int(id)),
                    ("sstat_state", Expr::Int(state(stats.phase))),
                    ("sstat_rwnd", number(stats.peer_rwnd)),
                    ("sstat_unackdata", chunks(stats.outstanding_bytes)),
                    ("sstat_penddata", chunks(stats.queued_bytes)),
                    ("sstat_instrms", number(stats.inbound_streams)),
                    ("sstat_outstrms", number(stats.outbound_streams)),
                    ("sstat_fragmentation_point", path.map_or(Expr::Any, |path| number(point(path)))),
                    ("sstat_primary", path.map_or(Expr::Any, |path| path_info(path, port, id))),
                ])
            }
            "SCTP_GET_PEER_ADDR_INFO" => {
                let Some(stats) = &self.stats else { return Ok(Some(Err("EINVAL"))) };
                let wanted = expected.member("spinfo_address").unwrap_or(&Expr::Any);
                let ip = address(wanted, line)?.map(|(ip, _)| ip);
                let path = stats.paths.iter().find(|path| ip.is_none_or(|ip| path.peer.ip() == ip));
                match path {
                    Some(path) => path_info(path, port, id),
                    None => return Ok(Some(Err("EINVAL"))),
                }
            }
            "SCTP_PRIMARY_ADDR" => {
                let primary = association.and_then(Association::primary);
                let Some((primary, stats)) = primary.zip(self.stats.as_ref()) else {
                    return Ok(Some(Err("EINVAL")));
                };
                let path = &stats.paths[usize::from(primary.0)];
                let at = values::sockaddr(path.peer.ip(), port);
                structure(&[("ssp_assoc_id", Expr::Int(id)), ("ssp_addr", at.clone()), ("ssp_address", at)])
            }
            "SCTP_PEER_ADDR_PARAMS" => {
                let wanted = expected.member("spp_address").unwrap_or(&Expr::Any);
                let ip = address(wanted, line)?.map(|(ip, _)| ip).filter(|ip| !ip.is_unspecified());
                let Some(value) = path_params(socket, existing, member, ip, port) else {
                    return Ok(Some(Err("EINVAL")));
                };
                value
            }
            "SCTP_REMOTE_UDP_ENCAPS_PORT" => {
                let path = self.stats.as_ref().and_then(|stats| stats.paths.first());
                let udp = path.map_or(socket.udp_port, |path| path.peer.port());
                structure(&[
                    ("sue_assoc_id", Expr::Int(id)),
                    ("sue_address", Expr::Any),
                    ("sue_port", number(udp)),
                ])
            }
            _ => return Ok(None),
        })))
    }

    /// Extensions, each with its own notation, and options that are only stored.
    fn of_extension(&self) -> Result<Value> {
        let Self { socket, member, existing, config, id, option, expected, line, .. } = *self;
        // The current configuration: an existing association keeps its own.
        if let Some(value) = super::reset::get(config, option) {
            return Ok(Ok(value));
        }
        if let Some(value) = super::auth::get(&socket.config, existing, id, option) {
            return Ok(Ok(value));
        }
        if let Some(on) = extension_is_on(config, option) {
            return Ok(Ok(as_written(expected, on.into())));
        }
        match REMEMBERED.iter().find(|(name, _)| *name == option) {
            Some((_, before)) => {
                let value = remembered(socket, member, option);
                let value = value.map(|value| super::plain(value, line)).transpose()?;
                // On a one-to-one socket all messages are of one association (§8.1.20).
                let level_0 = option == "SCTP_FRAGMENT_INTERLEAVE" && socket.style == Style::OneToOne;
                let before = if level_0 { 0 } else { *before };
                Ok(Ok(as_written(expected, value.unwrap_or(before))))
            }
            None => Err(ScriptError::unsupported(line, format!("the option {option}"))),
        }
    }
}

/// How many ids the caller's buffer holds, if the script says it.
fn room(expected: &Expr, line: usize) -> Result<Option<i64>> {
    member_int(expected, "gaids_number_of_ids", line)
}

/// The parameters of a path, or of future paths (RFC 6458 §8.1.12).
fn path_params(
    socket: &Socket,
    association: Option<&Association>,
    member: Option<i64>,
    ip: Option<IpAddr>,
    port: u16,
) -> Option<Expr> {
    let config = association.map_or(&socket.config, Association::config);
    let path = match (association, ip) {
        (Some(association), Some(ip)) => Some(association.paths().find(|path| path.peer.ip() == ip)?),
        (Some(association), None) => {
            let primary = association.primary().unwrap_or(PathId(0));
            association.paths().find(|path| path.id == primary)
        }
        (None, _) => None,
    };
    let params =
        path.as_ref().zip(association).and_then(|(path, association)| association.path_params(path.id).ok());
    let interval = params.map_or(config.timers.heartbeat_interval, |params| params.heartbeat_interval);
    let max = params.map_or(config.failover.path_max_retrans, |params| params.path_max_retrans);
    let mtu = path.as_ref().zip(association).map_or(config.path_mtu.packet_bytes, |(path, association)| {
        association.stats().paths[usize::from(path.id.0)].mtu
    });
    let remembered = remembered(socket, member, "SCTP_PEER_ADDR_PARAMS");
    let before = |key: &str| {
        let value = remembered.and_then(|value| value.member(key));
        value.and_then(|value| int(value, 0).ok()).unwrap_or(0)
    };
    let ipv6 = path.as_ref().is_some_and(|path| path.peer.is_ipv6());
    let heartbeats = if interval.is_some() { values::SPP_HB_ENABLE } else { values::SPP_HB_DISABLE };
    let discovery = super::path_mtu_discovery(remembered);
    let fields = values::SPP_DSCP | if ipv6 { values::SPP_IPV6_FLOWLABEL } else { 0 };
    Some(structure(&[
        ("spp_assoc_id", Expr::Int(member.unwrap_or(0))),
        ("spp_address", path.as_ref().map_or(Expr::Any, |path| values::sockaddr(path.peer.ip(), port))),
        // While HEARTBEATs are off: the interval they would have.
        ("spp_hbinterval", interval.map_or_else(|| Expr::Int(before("spp_hbinterval")), millis)),
        ("spp_pathmaxrxt", number(max)),
        ("spp_pathmtu", number(mtu - COMMON_HEADER_LEN)),
        ("spp_flags", Expr::Int(heartbeats | discovery | fields)),
        ("spp_ipv6_flowlabel", Expr::Int(before("spp_ipv6_flowlabel"))),
        ("spp_dscp", Expr::Int(before("spp_dscp"))),
    ]))
}
