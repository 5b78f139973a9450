//! getsockopt and setsockopt: SO_ERROR, SO_LINGER, the buffers, and the SCTP options (RFC 6458 §8) that the core has.
//!
//! An option of an association takes effect on those that begin later; on one that lives it is told as not supported,
//! unless it says what is so already.

use std::sync::Arc;
use std::time::Duration;

use braidftp_sctp::stats::Phase;
use braidftp_sctp::{Config, Endpoint, PathState, PathStats};

use super::values::{flag, int, list, member_int, structure, text};
use super::{Done, Kernel, Outcome, Result, Stage, done, fails};
use crate::script::{Call, Expr, ScriptError};

fn millis(duration: Duration) -> Expr {
    Expr::Int(duration.as_millis() as i64)
}

fn number(number: impl TryInto<i64>) -> Expr {
    Expr::Int(number.try_into().unwrap_or(i64::MAX))
}

pub(super) fn get(
    kernel: &mut Kernel,
    endpoint: &mut Endpoint,
    fd: i64,
    call: &Call,
    line: usize,
) -> Result<Outcome> {
    let option = name(call, line)?;
    let socket = kernel.sockets.get_mut(&fd).expect("it was there");
    let config = &socket.config;
    let stats = match socket.stage {
        Stage::Connected(id) => endpoint.association(id).map(|association| association.stats()),
        _ => None,
    };
    let port = match socket.stage {
        Stage::Connected(id) => endpoint.association(id).map_or(0, |association| association.ports().1),
        _ => 0,
    };
    let path = stats.as_ref().and_then(|stats| stats.paths.first());
    let value = match option {
        "SO_ERROR" => list(Expr::Word(socket.error.take().unwrap_or("0").to_owned())),
        "SO_LINGER" => {
            let on = Expr::Int(socket.abort_at_close.into());
            structure(&[("onoff", on), ("linger", Expr::Int(0))])
        }
        "SO_RCVBUF" => list(number(config.receive_buffer_bytes)),
        "SO_SNDBUF" => list(number(config.send_buffer_bytes)),
        "SCTP_NODELAY" => list(Expr::Int(1)),
        "SCTP_RTOINFO" => structure(&[
            ("srto_initial", millis(config.rto.initial)),
            ("srto_max", millis(config.rto.max)),
            ("srto_min", millis(config.rto.min)),
        ]),
        "SCTP_ASSOCINFO" => structure(&[
            ("sasoc_asocmaxrxt", number(config.association_max_retrans)),
            ("sasoc_number_peer_destinations", number(stats.as_ref().map_or(0, |stats| stats.paths.len()))),
            ("sasoc_peer_rwnd", number(stats.as_ref().map_or(0, |stats| stats.peer_rwnd))),
            (
                "sasoc_local_rwnd",
                number(stats.as_ref().map_or(config.receive_buffer_bytes, |stats| stats.a_rwnd)),
            ),
            ("sasoc_cookie_life", millis(config.valid_cookie_life)),
        ]),
        "SCTP_INITMSG" => structure(&[
            ("sinit_num_ostreams", number(config.outbound_streams)),
            ("sinit_max_instreams", number(config.inbound_streams)),
            ("sinit_max_attempts", number(config.max_init_retransmits)),
            ("sinit_max_init_timeo", millis(config.rto.max)),
        ]),
        "SCTP_DELAYED_SACK" => structure(&[
            ("sack_delay", millis(config.sack_delay)),
            ("sack_freq", number(config.sack_frequency)),
        ]),
        "SCTP_MAX_BURST" => structure(&[("assoc_value", number(config.max_burst.unwrap_or(0)))]),
        "SCTP_STATUS" => {
            let Some(stats) = &stats else { return fails("EINVAL") };
            structure(&[
                ("sstat_state", Expr::Int(state(stats.phase))),
                ("sstat_rwnd", number(stats.peer_rwnd)),
                ("sstat_unackdata", chunks(stats.outstanding_bytes)),
                ("sstat_penddata", chunks(stats.queued_bytes)),
                ("sstat_instrms", number(stats.inbound_streams)),
                ("sstat_outstrms", number(stats.outbound_streams)),
                ("sstat_fragmentation_point", number(path.map_or(0, |path| path.mtu - 28))),
                ("sstat_primary", path.map_or(Expr::Any, |path| path_info(path, port))),
            ])
        }
        "SCTP_GET_PEER_ADDR_INFO" => match path {
            Some(path) => path_info(path, port),
            None => return fails("EINVAL"),
        },
        "SCTP_PEER_ADDR_PARAMS" => {
            let enabled =
                if config.heartbeat_interval.is_some() { "SPP_HB_ENABLE" } else { "SPP_HB_DISABLE" };
            structure(&[
                ("spp_hbinterval", config.heartbeat_interval.map_or(Expr::Int(0), millis)),
                ("spp_pathmaxrxt", number(config.path_max_retrans)),
                ("spp_pathmtu", number(path.map_or(0, |path| path.mtu))),
                ("spp_flags", Expr::Word(enabled.to_owned())),
            ])
        }
        "SCTP_DEFAULT_SNDINFO" => structure(&[
            ("snd_sid", number(socket.default_sid)),
            ("snd_ppid", number(socket.default_ppid)),
            ("snd_flags", Expr::Int(0)),
            ("snd_context", Expr::Int(0)),
        ]),
        other => return Err(ScriptError::unsupported(line, format!("the option {other}"))),
    };
    if option == "SO_ERROR" {
        return Ok(error(&value, call));
    }
    Ok(Outcome::Done(Done { result: Ok(0), out: vec![(3, value)] }))
}

/// SO_ERROR is a number that a script may write as the errno's name.
fn error(value: &Expr, call: &Call) -> Outcome {
    let Expr::List(found) = value else { unreachable!("made above") };
    let Expr::Word(found) = &found[0] else { unreachable!("made above") };
    let expected = match &call.arguments[3] {
        Expr::List(list) => list.first().map(text).unwrap_or_default(),
        other => text(other),
    };
    let same = expected == "..." || super::values::errno(&expected) == found;
    let shown = if same { Expr::Any } else { Expr::Text(found.clone()) };
    Outcome::Done(Done { result: Ok(0), out: vec![(3, shown)] })
}

/// What the core counts in bytes, and a script in chunks: none is none, and any other number cannot be checked.
fn chunks(bytes: usize) -> Expr {
    if bytes == 0 { Expr::Int(0) } else { Expr::Word("a count of chunks".to_owned()) }
}

/// The peer's address of a path, with its SCTP port.
fn address(path: &PathStats, port: u16) -> Expr {
    let ip = path.peer.ip();
    let family = if ip.is_ipv4() { "AF_INET" } else { "AF_INET6" };
    structure(&[
        ("sa_family", Expr::Word(family.to_owned())),
        ("sin_port", Expr::Int(port.into())),
        ("sin_addr", Expr::Of("inet_addr".to_owned(), vec![Expr::Text(ip.to_string())])),
    ])
}

fn path_info(path: &PathStats, port: u16) -> Expr {
    structure(&[
        ("spinfo_address", address(path, port)),
        (
            "spinfo_state",
            Expr::Int(match path.state {
                PathState::Active => 1,
                PathState::Unconfirmed => 0x200,
                _ => 2,
            }),
        ),
        ("spinfo_cwnd", number(path.cwnd)),
        ("spinfo_srtt", path.srtt.map_or(Expr::Int(0), millis)),
        ("spinfo_rto", millis(path.rto)),
        ("spinfo_mtu", number(path.mtu)),
    ])
}

fn state(phase: Phase) -> i64 {
    match phase {
        Phase::CookieWait => 2,
        Phase::CookieEchoed => 4,
        Phase::Established => 8,
        Phase::ShutdownPending => 128,
        Phase::ShutdownSent => 16,
        Phase::ShutdownReceived => 32,
        Phase::ShutdownAckSent => 64,
        Phase::Closed => 0,
    }
}

fn name(call: &Call, line: usize) -> Result<&str> {
    match &call.arguments[2] {
        Expr::Word(name) => Ok(name),
        other => Err(ScriptError::unsupported(line, format!("the option {}", text(other)))),
    }
}

pub(super) fn set(
    kernel: &mut Kernel,
    endpoint: &mut Endpoint,
    fd: i64,
    call: &Call,
    line: usize,
) -> Result<Outcome> {
    let option = name(call, line)?;
    let value = &call.arguments[3];
    let socket = kernel.sockets.get_mut(&fd).expect("it was there");
    let mut config = socket.config.clone();
    let member = |key: &str| member_int(value, key, line).map(|number| number.filter(|number| *number >= 0));
    let time = |key: &str| {
        Ok(member(key)?.filter(|millis| *millis > 0).map(|millis| Duration::from_millis(millis as u64)))
    };
    match option {
        "SO_LINGER" => {
            let on = member("onoff")?.is_some_and(|on| on != 0);
            if on && member("linger")? != Some(0) {
                return Err(ScriptError::unsupported(line, "a close that waits (SO_LINGER with a time)"));
            }
            socket.abort_at_close = on;
            return done(0);
        }
        "SO_RCVBUF" => config.receive_buffer_bytes = int(value, line)?.clamp(1_500, 1 << 30) as usize,
        "SO_SNDBUF" => config.send_buffer_bytes = int(value, line)?.clamp(1_500, 1 << 30) as usize,
        // Nothing waits for more to send here.
        "SCTP_NODELAY" if int(value, line)? != 0 => return done(0),
        "SCTP_RTOINFO" => {
            let rto = &mut config.rto;
            rto.initial = time("srto_initial")?.unwrap_or(rto.initial);
            rto.max = time("srto_max")?.unwrap_or(rto.max);
            rto.min = time("srto_min")?.unwrap_or(rto.min);
            if rto.min > rto.initial || rto.initial > rto.max {
                return fails("EINVAL");
            }
        }
        "SCTP_ASSOCINFO" => {
            if let Some(max) = member("sasoc_asocmaxrxt")?.filter(|max| *max > 0) {
                config.association_max_retrans = max as u32;
            }
            config.valid_cookie_life = time("sasoc_cookie_life")?.unwrap_or(config.valid_cookie_life);
        }
        "SCTP_INITMSG" => {
            let streams = |number: i64| number.clamp(1, 65_535) as u16;
            if let Some(count) = member("sinit_num_ostreams")?.filter(|count| *count > 0) {
                config.outbound_streams = streams(count);
            }
            if let Some(count) = member("sinit_max_instreams")?.filter(|count| *count > 0) {
                config.inbound_streams = streams(count);
            }
            if let Some(count) = member("sinit_max_attempts")?.filter(|count| *count > 0) {
                config.max_init_retransmits = count as u32;
            }
            if time("sinit_max_init_timeo")?.is_some_and(|most| most != config.rto.max) {
                return Err(ScriptError::unsupported(line, "sinit_max_init_timeo"));
            }
        }
        "SCTP_DELAYED_SACK" => {
            config.sack_delay =
                time("sack_delay")?.unwrap_or(config.sack_delay).min(Duration::from_millis(500));
            if let Some(frequency) = member("sack_freq")?.filter(|frequency| *frequency > 0) {
                config.sack_frequency = frequency as u32;
            }
        }
        "SCTP_MAX_BURST" => {
            let burst = if matches!(value, Expr::Struct(_)) {
                member("assoc_value")?
            } else {
                Some(int(value, line)?)
            };
            config.max_burst = burst.filter(|burst| *burst > 0).map(|burst| burst as u32);
        }
        "SCTP_PEER_ADDR_PARAMS" => {
            let flags = value.member("spp_flags").unwrap_or(&Expr::Any);
            if flag(flags, "SPP_HB_DISABLE") {
                config.heartbeat_interval = None;
            } else if flag(flags, "SPP_HB_ENABLE") {
                let before = config.heartbeat_interval.unwrap_or(Duration::from_secs(30));
                config.heartbeat_interval = Some(time("spp_hbinterval")?.unwrap_or(before));
            }
            if let Some(max) = member("spp_pathmaxrxt")?.filter(|max| *max > 0) {
                config.path_max_retrans = max as u32;
            }
        }
        "SCTP_DEFAULT_SNDINFO" => {
            socket.default_sid = member("snd_sid")?.unwrap_or(0) as u16;
            socket.default_ppid = member("snd_ppid")?.unwrap_or(0) as u32;
            return match member("snd_flags")? {
                None | Some(0) => done(0),
                Some(_) => Err(ScriptError::unsupported(line, "default flags of messages")),
            };
        }
        "SCTP_REMOTE_UDP_ENCAPS_PORT" => {
            socket.udp_port = member("sue_port")?.unwrap_or(0) as u16;
            return done(0);
        }
        // All off is how it is.
        "SCTP_EVENT" if member("se_on")? == Some(0) => return done(0),
        "SCTP_RECVRCVINFO" | "SCTP_RECVNXTINFO" if int(value, line)? == 0 => return done(0),
        "SCTP_STATUS" | "SCTP_GET_PEER_ADDR_INFO" => return fails("ENOPROTOOPT"),
        other => return Err(ScriptError::unsupported(line, format!("the option {other} as it is set here"))),
    }
    take_effect(kernel, endpoint, fd, config, line)
}

/// Whoever comes or goes from now on has this configuration.
fn take_effect(
    kernel: &mut Kernel,
    endpoint: &mut Endpoint,
    fd: i64,
    config: Config,
    line: usize,
) -> Result<Outcome> {
    let socket = kernel.sockets.get_mut(&fd).expect("it was there");
    if config == socket.config {
        return done(0);
    }
    match socket.stage {
        Stage::Connected(_) => {
            return Err(ScriptError::unsupported(line, "changing an option of an association that lives"));
        }
        Stage::Listening { .. } => {
            let port = socket.port.unwrap_or_default();
            endpoint.unlisten(port);
            if endpoint.listen(port, Arc::new(config.clone())).is_err() {
                return fails("EADDRINUSE");
            }
        }
        Stage::Fresh => {}
    }
    socket.config = config;
    done(0)
}
