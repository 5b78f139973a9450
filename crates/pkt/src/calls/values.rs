//! Values in system calls: constants, addresses, and the comparison of what a call wrote with the script.

use std::net::IpAddr;

use crate::script::{Expr, Member, ScriptError};

type Result<T> = std::result::Result<T, ScriptError>;

pub(super) const MSG_PEEK: i64 = 2;
pub(super) const MSG_EOR: i64 = 0x8;
pub(super) const MSG_DONTWAIT: i64 = 0x80;
pub(super) const MSG_NOTIFICATION: i64 = 0x2000;
pub(super) const SCTP_COMPLETE: i64 = 0x20;
pub(super) const SCTP_NOTIFICATION: i64 = 0x10;
pub(super) const SCTP_EOF: i64 = 0x100;
pub(super) const SCTP_ABORT: i64 = 0x200;
pub(super) const SCTP_UNORDERED: i64 = 0x400;
pub(super) const SCTP_ADDR_OVER: i64 = 0x800;
pub(super) const SCTP_SENDALL: i64 = 0x1000;
pub(super) const SCTP_EOR: i64 = 0x2000;
pub(super) const SCTP_SACK_IMMEDIATELY: i64 = 0x4000;
pub(super) const SPP_HB_ENABLE: i64 = 0x1;
pub(super) const SPP_HB_DISABLE: i64 = 0x2;
pub(super) const SPP_HB_DEMAND: i64 = 0x4;
pub(super) const SPP_PMTUD_ENABLE: i64 = 0x8;
pub(super) const SPP_PMTUD_DISABLE: i64 = 0x10;
pub(super) const SPP_HB_TIME_IS_ZERO: i64 = 0x80;
pub(super) const SPP_IPV6_FLOWLABEL: i64 = 0x100;
pub(super) const SPP_DSCP: i64 = 0x200;
pub(super) const SCTP_CURRENT_ASSOC: i64 = 1;
pub(super) const SCTP_ALL_ASSOC: i64 = 2;
pub(super) const POLLIN: i64 = 1;
pub(super) const POLLOUT: i64 = 4;

/// Constants by name. RFC 6458 does not define their values; these are FreeBSD's, since the public suites
/// write some as numbers.
const CONSTANTS: &[(&str, i64)] = &[
    ("O_RDONLY", 0),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 4),
    ("NULL", 0),
    ("AF_INET", 2),
    ("AF_INET6", 28),
    ("MSG_PEEK", MSG_PEEK),
    ("MSG_EOR", MSG_EOR),
    ("MSG_TRUNC", 0x10),
    ("MSG_CTRUNC", 0x20),
    ("MSG_WAITALL", 0x40),
    ("MSG_DONTWAIT", MSG_DONTWAIT),
    ("MSG_NOTIFICATION", MSG_NOTIFICATION),
    ("MSG_NOSIGNAL", 0x2_0000),
    ("POLLIN", POLLIN),
    ("POLLPRI", 2),
    ("POLLOUT", POLLOUT),
    ("POLLERR", 8),
    ("POLLHUP", 0x10),
    ("SHUT_RD", 0),
    ("SHUT_WR", 1),
    ("SHUT_RDWR", 2),
    ("IPPROTO_SCTP", 132),
    ("SCTP_FUTURE_ASSOC", 0),
    ("SCTP_CURRENT_ASSOC", SCTP_CURRENT_ASSOC),
    ("SCTP_ALL_ASSOC", SCTP_ALL_ASSOC),
    ("SCTP_NOTIFICATION", SCTP_NOTIFICATION),
    ("SCTP_COMPLETE", SCTP_COMPLETE),
    ("SCTP_EOF", SCTP_EOF),
    ("SCTP_ABORT", SCTP_ABORT),
    ("SCTP_UNORDERED", SCTP_UNORDERED),
    ("SCTP_ADDR_OVER", SCTP_ADDR_OVER),
    ("SCTP_SENDALL", SCTP_SENDALL),
    ("SCTP_EOR", SCTP_EOR),
    ("SCTP_SACK_IMMEDIATELY", SCTP_SACK_IMMEDIATELY),
    ("SCTP_NEXT_MSG_AVAIL", 0x1),
    ("SCTP_NEXT_MSG_ISCOMPLETE", 0x2),
    ("SCTP_NEXT_MSG_IS_UNORDERED", 0x4),
    ("SCTP_NEXT_MSG_IS_NOTIFICATION", 0x8),
    ("SCTP_SENDV_NOINFO", 0),
    ("SCTP_SENDV_SNDINFO", 1),
    ("SCTP_SENDV_PRINFO", 2),
    ("SCTP_SENDV_AUTHINFO", 3),
    ("SCTP_SENDV_SPA", 4),
    ("SCTP_SEND_SNDINFO_VALID", 1),
    ("SCTP_SEND_PRINFO_VALID", 2),
    ("SCTP_SEND_AUTHINFO_VALID", 4),
    ("SCTP_RECVV_NOINFO", 0),
    ("SCTP_RECVV_RCVINFO", 1),
    ("SCTP_RECVV_NXTINFO", 2),
    ("SCTP_RECVV_RN", 3),
    ("SCTP_PR_SCTP_NONE", 0),
    ("SCTP_PR_SCTP_TTL", 1),
    ("SCTP_PR_SCTP_PRIO", 2),
    ("SCTP_PR_SCTP_BUF", 2),
    ("SCTP_PR_SCTP_RTX", 3),
    ("SCTP_BINDX_ADD_ADDR", 0x8001),
    ("SCTP_BINDX_REM_ADDR", 0x8002),
    ("SCTP_CLOSED", 0),
    ("SCTP_COOKIE_WAIT", 2),
    ("SCTP_COOKIE_ECHOED", 4),
    ("SCTP_ESTABLISHED", 8),
    ("SCTP_SHUTDOWN_SENT", 16),
    ("SCTP_SHUTDOWN_RECEIVED", 32),
    ("SCTP_SHUTDOWN_ACK_SENT", 64),
    ("SCTP_SHUTDOWN_PENDING", 128),
    ("SCTP_ACTIVE", 1),
    ("SCTP_INACTIVE", 2),
    ("SCTP_UNCONFIRMED", 0x200),
    ("SPP_HB_ENABLE", SPP_HB_ENABLE),
    ("SPP_HB_DISABLE", SPP_HB_DISABLE),
    ("SPP_HB_DEMAND", SPP_HB_DEMAND),
    ("SPP_PMTUD_ENABLE", SPP_PMTUD_ENABLE),
    ("SPP_PMTUD_DISABLE", SPP_PMTUD_DISABLE),
    ("SPP_HB_TIME_IS_ZERO", SPP_HB_TIME_IS_ZERO),
    ("SPP_IPV6_FLOWLABEL", SPP_IPV6_FLOWLABEL),
    ("SPP_DSCP", SPP_DSCP),
    ("SCTP_ASSOC_CHANGE", 1),
    ("SCTP_PEER_ADDR_CHANGE", 2),
    ("SCTP_REMOTE_ERROR", 3),
    ("SCTP_SEND_FAILED", 4),
    ("SCTP_SHUTDOWN_EVENT", 5),
    ("SCTP_ADAPTATION_INDICATION", 6),
    ("SCTP_PARTIAL_DELIVERY_EVENT", 7),
    ("SCTP_AUTHENTICATION_EVENT", 8),
    ("SCTP_AUTHENTICATION_INDICATION", 8),
    ("SCTP_STREAM_RESET_EVENT", 9),
    ("SCTP_SENDER_DRY_EVENT", 10),
    ("SCTP_NOTIFICATIONS_STOPPED_EVENT", 11),
    ("SCTP_ASSOC_RESET_EVENT", 12),
    ("SCTP_STREAM_CHANGE_EVENT", 13),
    ("SCTP_SEND_FAILED_EVENT", 14),
    ("SCTP_COMM_UP", 1),
    ("SCTP_COMM_LOST", 2),
    ("SCTP_RESTART", 3),
    ("SCTP_SHUTDOWN_COMP", 4),
    ("SCTP_CANT_STR_ASSOC", 5),
    ("SCTP_ASSOC_SUPPORTS_PR", 1),
    ("SCTP_ASSOC_SUPPORTS_AUTH", 2),
    ("SCTP_ASSOC_SUPPORTS_ASCONF", 3),
    ("SCTP_ASSOC_SUPPORTS_MULTIBUF", 4),
    ("SCTP_ASSOC_SUPPORTS_RE_CONFIG", 5),
    ("SCTP_ASSOC_SUPPORTS_INTERLEAVING", 6),
    ("SCTP_ADDR_AVAILABLE", 1),
    ("SCTP_ADDR_UNREACHABLE", 2),
    ("SCTP_ADDR_REMOVED", 3),
    ("SCTP_ADDR_ADDED", 4),
    ("SCTP_ADDR_MADE_PRIM", 5),
    ("SCTP_ADDR_CONFIRMED", 6),
    ("SCTP_DATA_UNSENT", 1),
    ("SCTP_DATA_SENT", 2),
    ("SCTP_PARTIAL_DELIVERY_ABORTED", 1),
    ("SCTP_AUTH_NEW_KEY", 1),
    ("SCTP_AUTH_NEWKEY", 1),
    ("SCTP_AUTH_NO_AUTH", 2),
    ("SCTP_AUTH_FREE_KEY", 3),
    ("SCTP_AUTH_HMAC_ID_RSVD", 0),
    ("SCTP_AUTH_HMAC_ID_SHA1", 1),
    ("SCTP_AUTH_HMAC_ID_SHA256", 3),
    ("SCTP_STREAM_RESET_INCOMING", 1),
    ("SCTP_STREAM_RESET_OUTGOING", 2),
    ("SCTP_STREAM_RESET_INCOMING_SSN", 1),
    ("SCTP_STREAM_RESET_OUTGOING_SSN", 2),
    ("SCTP_STREAM_RESET_DENIED", 4),
    ("SCTP_STREAM_RESET_FAILED", 8),
    ("SCTP_ASSOC_RESET_DENIED", 4),
    ("SCTP_ASSOC_RESET_FAILED", 8),
    ("SCTP_STREAM_CHANGE_DENIED", 4),
    ("SCTP_STREAM_CHANGE_FAILED", 8),
    ("SCTP_ENABLE_RESET_STREAM_REQ", 1),
    ("SCTP_ENABLE_RESET_ASSOC_REQ", 2),
    ("SCTP_ENABLE_CHANGE_ASSOC_REQ", 4),
    ("SCTP_SS_DEFAULT", 0),
    ("SCTP_SS_RR", 1),
    ("SCTP_SS_ROUND_ROBIN", 1),
    ("SCTP_SS_RR_PKT", 2),
    ("SCTP_SS_ROUND_ROBIN_PACKET", 2),
    ("SCTP_SS_PRIO", 3),
    ("SCTP_SS_PRIORITY", 3),
    ("SCTP_SS_FB", 4),
    ("SCTP_SS_FAIR_BANDWITH", 4),
    ("SCTP_SS_FAIR_BANDWIDTH", 4),
    ("SCTP_SS_FC", 4),
    ("SCTP_SS_FCFS", 5),
    ("SCTP_SS_FIRST_COME", 5),
    ("SCTP_SS_WFQ", 6),
    ("SCTP_FRAG_LEVEL_0", 0),
    ("SCTP_FRAG_LEVEL_1", 1),
    ("SCTP_FRAG_LEVEL_2", 2),
    ("SCTP_CC_RFC2581", 0),
];

/// The number that an expression denotes, in host order; network order is the core's business.
pub(super) fn int(expr: &Expr, line: usize) -> Result<i64> {
    match expr {
        Expr::Int(number) => Ok(*number),
        Expr::Or(left, right) => Ok(int(left, line)? | int(right, line)?),
        Expr::Of(name, inner) if matches!(name.as_str(), "htons" | "htonl") && inner.len() == 1 => {
            int(&inner[0], line)
        }
        Expr::Word(word) => match CONSTANTS.iter().find(|(name, _)| name == word) {
            Some((_, number)) => Ok(*number),
            None => Err(ScriptError::unsupported(line, format!("the constant {word}"))),
        },
        // `[4]`: a number in brackets.
        Expr::List(list) if list.len() == 1 => int(&list[0], line),
        other => Err(ScriptError::new(line, format!("expected a number, got {}", text(other)))),
    }
}

/// A member of a structure as a number; `None` if it is absent or `...`.
pub(super) fn member_int(expr: &Expr, key: &str, line: usize) -> Result<Option<i64>> {
    match expr.member(key) {
        None | Some(Expr::Any) => Ok(None),
        Some(value) => int(value, line).map(Some),
    }
}

/// Whether `expr` contains the constant.
pub(super) fn flag(expr: &Expr, constant: &str) -> bool {
    match expr {
        Expr::Word(word) => word == constant,
        Expr::Or(left, right) => flag(left, constant) || flag(right, constant),
        _ => false,
    }
}

/// An address and a port; `None` if the script leaves them open.
pub(super) fn address(expr: &Expr, line: usize) -> Result<Option<(IpAddr, u16)>> {
    if matches!(expr, Expr::Any) || is_null(expr) {
        return Ok(None);
    }
    let wrong = || ScriptError::new(line, format!("expected an address, got {}", text(expr)));
    let port = member_int(expr, "sin_port", line)?.ok_or_else(wrong)?;
    let Some(Expr::Of(_, inner)) = expr.member("sin_addr") else { return Err(wrong()) };
    let ip = inner.iter().find_map(|inner| match inner {
        Expr::Text(text) => text.parse().ok(),
        _ => None,
    });
    Ok(Some((ip.ok_or_else(wrong)?, u16::try_from(port).map_err(|_| wrong())?)))
}

/// A list of addresses; empty if the script leaves them open.
pub(super) fn addresses(expr: &Expr, line: usize) -> Result<Vec<(IpAddr, u16)>> {
    match expr {
        Expr::List(list) => {
            let addresses = list.iter().map(|expr| address(expr, line)).collect::<Result<Vec<_>>>()?;
            Ok(addresses.into_iter().flatten().collect())
        }
        other => address(other, line).map(|address| address.into_iter().collect()),
    }
}

/// Whether the expression is a null pointer.
pub(super) fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Word(word) if word == "NULL")
}

/// The base and length of each buffer in a list of `{iov_base=…, iov_len=…}` or `{…, 500}`.
pub(super) fn iovecs(expr: &Expr, line: usize) -> Result<Vec<(&Expr, i64)>> {
    let Expr::List(list) = expr else {
        return Err(ScriptError::new(line, format!("expected a list of iovecs, got {}", text(expr))));
    };
    let mut buffers = Vec::new();
    for iovec in list {
        let (base, len) = match (iovec.member("iov_base"), iovec.member("iov_len"), iovec) {
            (Some(base), Some(len), _) => (base, len),
            (_, _, Expr::Struct(members)) if members.len() == 2 => (&members[0].value, &members[1].value),
            _ => return Err(ScriptError::new(line, "an iovec has a base and a length")),
        };
        buffers.push((base, int(len, line)?.max(0)));
    }
    Ok(buffers)
}

/// The total length of a list of iovecs, in bytes.
pub(super) fn iovecs_len(expr: &Expr, line: usize) -> Result<i64> {
    Ok(iovecs(expr, line)?.iter().fold(0_i64, |sum, (_, len)| sum.saturating_add(*len)))
}

/// An address as a structure.
pub(super) fn sockaddr(ip: IpAddr, port: u16) -> Expr {
    let family = if ip.is_ipv4() { "AF_INET" } else { "AF_INET6" };
    structure(&[
        ("sa_family", Expr::Word(family.to_owned())),
        ("sin_port", Expr::Int(port.into())),
        ("sin_addr", Expr::Of("inet_addr".to_owned(), vec![Expr::Text(ip.to_string())])),
    ])
}

pub(super) fn number(number: impl TryInto<i64>) -> Expr {
    Expr::Int(number.try_into().unwrap_or(i64::MAX))
}

pub(super) fn structure(members: &[(&str, Expr)]) -> Expr {
    let member = |(key, value): &(&str, Expr)| Member { key: Some((*key).to_owned()), value: value.clone() };
    Expr::Struct(members.iter().map(member).collect())
}

pub(super) fn list(expr: Expr) -> Expr {
    Expr::List(vec![expr])
}

/// The canonical name of an errno.
pub(super) fn errno(name: &str) -> &str {
    if name == "EWOULDBLOCK" { "EAGAIN" } else { name }
}

/// Compares what a call wrote with the script; returns the difference. Association ids that are `...`,
/// absent or 0 match any.
pub(super) fn matches(expected: &Expr, got: &Expr, line: usize) -> Result<Option<String>> {
    match (expected, got) {
        (Expr::Any, _) | (_, Expr::Any) => Ok(None),
        // The caller does not pass a buffer.
        _ if is_null(expected) => Ok(None),
        (Expr::Struct(members), Expr::Struct(_)) => {
            for Member { key, value } in members {
                let Some(key) = key else { continue };
                let found = got.member(key);
                if matches!(value, Expr::Any) || found == Some(&Expr::Any) {
                    continue;
                }
                if key.ends_with("assoc_id") && (found.is_none() || value == &Expr::Int(0)) {
                    continue;
                }
                // The caller set the lengths of the buffers.
                if matches!(key.as_str(), "iov_len" | "msg_name") {
                    continue;
                }
                let Some(found) = found else {
                    return Err(ScriptError::unsupported(line, format!("a check of {key}")));
                };
                if let Some(difference) = matches(value, found, line)? {
                    return Ok(Some(format!("{key}: {difference}")));
                }
            }
            Ok(None)
        }
        (Expr::List(list), _) if list[..] == [Expr::Any] => Ok(None),
        (Expr::List(expected), Expr::List(got)) => {
            if expected.len() != got.len() {
                let (expected, got) = (expected.len(), got.len());
                return Ok(Some(format!("expected {expected} entries, got {got}")));
            }
            for (expected, got) in expected.iter().zip(got) {
                if let Some(difference) = matches(expected, got, line)? {
                    return Ok(Some(difference));
                }
            }
            Ok(None)
        }
        (Expr::Of(expected_name, expected), Expr::Of(name, got)) if name == "inet_addr" => {
            let ip = |list: &[Expr]| match list {
                [Expr::Text(text)] => text.parse::<IpAddr>().ok(),
                _ => None,
            };
            let same = expected_name == name && ip(expected) == ip(got);
            let all = |list: &[Expr]| list.iter().map(text).collect::<String>();
            Ok((!same).then(|| format!("expected {}, got {}", all(expected), all(got))))
        }
        // A number may be alone or in brackets.
        (Expr::List(list), _) if list.len() == 1 => matches(&list[0], got, line),
        (_, Expr::List(list)) if list.len() == 1 => matches(expected, &list[0], line),
        (Expr::Struct(_) | Expr::List(_), _) | (_, Expr::Struct(_) | Expr::List(_)) => {
            Ok(Some(format!("expected {}, got {}", text(expected), text(got))))
        }
        (Expr::Word(word), Expr::Text(got)) if word == got => Ok(None),
        (_, Expr::Text(got)) => Ok(Some(format!("expected {}, got {got}", text(expected)))),
        _ => {
            let (wanted, found) = (int(expected, line)?, int(got, line)?);
            Ok((wanted != found)
                .then(|| format!("expected {}, got {}", shown(expected, wanted), shown(got, found))))
        }
    }
}

/// A constant as a name with its value.
fn shown(expr: &Expr, number: i64) -> String {
    match expr {
        Expr::Word(_) | Expr::Or(..) => format!("{} ({number})", text(expr)),
        _ => number.to_string(),
    }
}

/// An expression as text.
pub(super) fn text(expr: &Expr) -> String {
    let all = |list: &[Expr]| list.iter().map(text).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Any => "...".to_owned(),
        Expr::Int(number) => number.to_string(),
        Expr::Word(word) => word.clone(),
        Expr::Text(text) => format!("\"{text}\""),
        Expr::Or(left, right) => format!("{}|{}", text(left), text(right)),
        Expr::List(list) => format!("[{}]", all(list)),
        Expr::Of(name, list) => format!("{name}({})", all(list)),
        Expr::Struct(members) => {
            let member = |member: &Member| match &member.key {
                Some(key) => format!("{key}={}", text(&member.value)),
                None => text(&member.value),
            };
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
    }
}
