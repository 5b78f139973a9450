//! getsockopt and setsockopt: options of SOL_SOCKET, and the SCTP options (RFC 6458 §8 and the extensions)
//! that the core has or that concern a socket only.
//!
//! An option is set for future associations, for an existing one, or for both (RFC 6458 §7.2). What the
//! handshake negotiates cannot be changed on an existing association.

mod auth;
mod get;
mod reset;
mod set;

use braidftp_sctp::stats::Phase;
use braidftp_sctp::{Config, PathState, PathStats, Scheduler};

use super::socket::Socket;
use super::values::{self, int, number, structure, text};
use super::{Ctx, Result};
use crate::script::{Expr, Member, ScriptError};

/// The length of the common header in bytes, which the MTU of RFC 6458 excludes (§8.1.12).
const COMMON_HEADER_LEN: usize = 12;
/// The length of the DATA chunk header in bytes.
const DATA_HEADER_LEN: usize = 16;

/// Options whose value is stored with the socket and each association, without any other effect. Each with
/// its default.
const REMEMBERED: &[(&str, i64)] = &[
    ("SCTP_NODELAY", 0),
    ("SCTP_DISABLE_FRAGMENTS", 0),
    ("SCTP_FRAGMENT_INTERLEAVE", 1),
    ("SCTP_EXPLICIT_EOR", 0),
    ("SCTP_I_WANT_MAPPED_V4_ADDR", 0),
    ("SCTP_REUSE_PORT", 0),
    ("SCTP_AUTO_ASCONF", 0),
    ("SCTP_CONTEXT", 0),
    ("SCTP_PLUGGABLE_SS", 0),
    ("SCTP_PLUGGABLE_CC", 0),
    ("SCTP_CMT_ON_OFF", 0),
    ("SO_REUSEADDR", 0),
    ("SO_REUSEPORT", 0),
    ("SO_KEEPALIVE", 0),
    ("SO_RCVLOWAT", 1),
    ("IPV6_V6ONLY", 0),
    ("IPV6_UNICAST_HOPS", 64),
    ("IP_TOS", 0),
    ("IP_TTL", 64),
];

/// The schedulers by number; the first is the default.
const SCHEDULERS: &[(i64, Scheduler)] = &[
    (0, Scheduler::RoundRobin),
    (1, Scheduler::RoundRobin),
    (2, Scheduler::RoundRobinByPacket),
    (3, Scheduler::Priority),
    (4, Scheduler::FairCapacity),
    (5, Scheduler::FirstComeFirstServed),
    (6, Scheduler::WeightedFairQueueing),
];

/// Switches the extension that a kernel setting or an option names; `None` if the core does not have it.
pub(super) fn extension(config: &mut Config, name: &str, on: bool) -> Option<()> {
    match name {
        "idata" | "intl_enable" | "SCTP_INTERLEAVING_SUPPORTED" => config.messages.interleaving = on,
        "auth_enable" | "SCTP_AUTH_SUPPORTED" => {
            config.security.auth = on.then(|| config.security.auth.take().unwrap_or_default());
        }
        "auth_disable" => {
            config.security.auth = (!on).then(|| config.security.auth.take().unwrap_or_default())
        }
        "ecn_enable" | "SCTP_ECN_SUPPORTED" => config.congestion.ecn = on,
        "asconf_enable" | "addip_enable" | "SCTP_ASCONF_SUPPORTED" => config.paths.asconf = on,
        "reconfig_enable" | "SCTP_RECONFIG_SUPPORTED" => config.streams.reconfiguration = on,
        "pr_enable" | "prsctp_enable" | "SCTP_PR_SUPPORTED" => config.messages.partial_reliability = on,
        "nrsack_enable" | "nrsack_on_off" | "nr_sack_on_off" | "SCTP_NRSACK_SUPPORTED" => {
            config.sack.nr_sack = on
        }
        // A missing extension is off.
        _ if !on && ABSENT.contains(&name) => {}
        _ => return None,
    }
    Some(())
}

/// Extensions that the core does not have, by the name of the kernel setting or option.
const ABSENT: &[&str] = &["SCTP_PKTDROP_SUPPORTED"];

/// Whether the extension that an option names is on; `None` if there is no such option.
fn extension_is_on(config: &Config, name: &str) -> Option<bool> {
    Some(match name {
        "SCTP_INTERLEAVING_SUPPORTED" => config.messages.interleaving,
        "SCTP_AUTH_SUPPORTED" => config.security.auth.is_some(),
        "SCTP_PR_SUPPORTED" => config.messages.partial_reliability,
        "SCTP_ASCONF_SUPPORTED" => config.paths.asconf,
        "SCTP_NRSACK_SUPPORTED" => config.sack.nr_sack,
        "SCTP_RECONFIG_SUPPORTED" => config.streams.reconfiguration,
        "SCTP_ECN_SUPPORTED" => config.congestion.ecn,
        _ if name.starts_with("SCTP_") && ABSENT.contains(&name) => false,
        _ => return None,
    })
}

/// The name of the option.
fn name<'a>(ctx: &Ctx<'a>) -> Result<&'a str> {
    match &ctx.call.arguments[2] {
        Expr::Word(name) => Ok(name),
        other => Err(ScriptError::unsupported(ctx.line, format!("the option {}", text(other)))),
    }
}

/// The association id in an option's structure, if it has one.
fn association_in(value: &Expr, line: usize) -> Result<Option<i64>> {
    let Expr::Struct(members) = value else { return Ok(None) };
    let is_id = |member: &&Member| {
        member.key.as_deref().is_some_and(|key| key.ends_with("assoc_id") && key != "gaids_assoc_id")
    };
    match members.iter().find(is_id).map(|member| &member.value) {
        None | Some(Expr::Any) => Ok(None),
        Some(value) => int(value, line).map(Some),
    }
}

/// The value of an option as a number: alone, in brackets, or as `assoc_value`.
fn plain(value: &Expr, line: usize) -> Result<i64> {
    match value.member("assoc_value") {
        Some(value) => int(value, line),
        None => int(value, line),
    }
}

/// A number in the form that the script uses for the value of this option.
fn as_written(like: &Expr, value: i64) -> Expr {
    if matches!(like, Expr::Struct(_)) {
        structure(&[("assoc_value", Expr::Int(value))])
    } else {
        values::list(Expr::Int(value))
    }
}

/// SPP_PMTUD_ENABLE or _DISABLE, as it was set. By default it is on, as in a kernel, although the core only
/// probes (RFC 8899) if an option or a setting says so.
fn path_mtu_discovery(remembered: Option<&Expr>) -> i64 {
    let flags = remembered.and_then(|value| value.member("spp_flags")).and_then(|flags| int(flags, 0).ok());
    match flags.unwrap_or(0) & (values::SPP_PMTUD_ENABLE | values::SPP_PMTUD_DISABLE) {
        0 => values::SPP_PMTUD_ENABLE,
        asked => asked,
    }
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

/// The information on a path (RFC 6458 §8.2.2).
fn path_info(path: &PathStats, port: u16, member: i64) -> Expr {
    structure(&[
        ("spinfo_assoc_id", Expr::Int(member)),
        ("spinfo_address", values::sockaddr(path.peer.ip(), port)),
        (
            "spinfo_state",
            Expr::Int(match path.state {
                PathState::Active => 1,
                PathState::Unconfirmed => 0x200,
                PathState::Inactive
                | PathState::PotentiallyFailed
                | PathState::SetAside
                | PathState::Removed => 2,
            }),
        ),
        ("spinfo_cwnd", number(path.cwnd)),
        ("spinfo_srtt", path.srtt.map_or(Expr::Int(0), |srtt| number(srtt.as_millis()))),
        ("spinfo_rto", number(path.rto.as_millis())),
        ("spinfo_mtu", number(path.mtu - COMMON_HEADER_LEN)),
    ])
}

/// The stored value of an option: of the association, or of the socket.
fn remembered<'a>(socket: &'a Socket, member: Option<i64>, name: &str) -> Option<&'a Expr> {
    let own =
        member.and_then(|member| socket.members.get(&member)).and_then(|member| member.stored.get(name));
    own.or_else(|| socket.stored.get(name))
}
