//! Values of system calls: constants, addresses, and whether what a call wrote is what the script says.

use std::net::IpAddr;

use crate::script::{Expr, Member, ScriptError};

type Result<T> = std::result::Result<T, ScriptError>;

pub(super) const MSG_EOR: i64 = 0x80;
pub(super) const SCTP_EOF: i64 = 0x100;
pub(super) const SCTP_ABORT: i64 = 0x200;
pub(super) const SCTP_UNORDERED: i64 = 0x400;

/// Constants by name. A script uses their names; the values are this program's, but for the states, which are those that
/// implementations of RFC 6458 §8.2.1 share.
const CONSTANTS: &[(&str, i64)] = &[
    ("O_RDWR", 2),
    ("O_NONBLOCK", 0x800),
    ("MSG_EOR", MSG_EOR),
    ("SCTP_EOF", SCTP_EOF),
    ("SCTP_ABORT", SCTP_ABORT),
    ("SCTP_UNORDERED", SCTP_UNORDERED),
    ("AF_INET", 2),
    ("AF_INET6", 10),
    ("NULL", 0),
    ("SCTP_RECVV_NOINFO", 0),
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
    ("SPP_HB_ENABLE", 1),
    ("SPP_HB_DISABLE", 4),
];

/// The number that an expression is, in the host's order: the network's is the wire's part.
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
        // `[4]`: where a number stands.
        Expr::List(list) if list.len() == 1 => int(&list[0], line),
        other => Err(ScriptError::new(line, format!("expected a number, got {}", text(other)))),
    }
}

/// A member of a structure as a number; `None` if it is not there or `...`.
pub(super) fn member_int(expr: &Expr, key: &str, line: usize) -> Result<Option<i64>> {
    match expr.member(key) {
        None | Some(Expr::Any) => Ok(None),
        Some(value) => int(value, line).map(Some),
    }
}

/// Whether `expr` is the constant, alone or among others.
pub(super) fn flag(expr: &Expr, constant: &str) -> bool {
    match expr {
        Expr::Word(word) => word == constant,
        Expr::Or(left, right) => flag(left, constant) || flag(right, constant),
        _ => false,
    }
}

/// An address and a port; `None` if the script leaves them to us.
pub(super) fn address(expr: &Expr, line: usize) -> Result<Option<(IpAddr, u16)>> {
    if matches!(expr, Expr::Any) {
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

/// A list of addresses; empty if the script leaves them to us.
pub(super) fn addresses(expr: &Expr, line: usize) -> Result<Vec<(IpAddr, u16)>> {
    match expr {
        Expr::List(list) => {
            let addresses = list.iter().map(|expr| address(expr, line)).collect::<Result<Vec<_>>>()?;
            Ok(addresses.into_iter().flatten().collect())
        }
        other => address(other, line).map(|address| address.into_iter().collect()),
    }
}

/// Bytes of all the buffers in a list of `{iov_base=…, iov_len=…}`.
pub(super) fn iovecs(expr: &Expr, line: usize) -> Result<i64> {
    let Expr::List(list) = expr else {
        return Err(ScriptError::new(line, format!("expected a list of iovecs, got {}", text(expr))));
    };
    let mut bytes: i64 = 0;
    for iovec in list {
        let (base, len) = match (iovec.member("iov_base"), iovec.member("iov_len"), iovec) {
            (Some(base), Some(len), _) => (base, len),
            (_, _, Expr::Struct(members)) if members.len() == 2 => (&members[0].value, &members[1].value),
            _ => return Err(ScriptError::new(line, "an iovec has a base and a length")),
        };
        if !matches!(base, Expr::Any) {
            return Err(ScriptError::unsupported(
                line,
                "a notification, or a buffer whose contents are given",
            ));
        }
        bytes = bytes.saturating_add(int(len, line)?);
    }
    Ok(bytes)
}

pub(super) fn structure(members: &[(&str, Expr)]) -> Expr {
    let member = |(key, value): &(&str, Expr)| Member { key: Some((*key).to_owned()), value: value.clone() };
    Expr::Struct(members.iter().map(member).collect())
}

pub(super) fn list(expr: Expr) -> Expr {
    Expr::List(vec![expr])
}

/// The name of an errno by which it is known here.
pub(super) fn errno(name: &str) -> &str {
    if name == "EWOULDBLOCK" { "EAGAIN" } else { name }
}

/// What differs in what a call wrote. Association ids are anyone's.
pub(super) fn matches(expected: &Expr, got: &Expr, line: usize) -> Result<Option<String>> {
    match (expected, got) {
        (Expr::Any, _) | (_, Expr::Any) => Ok(None),
        // A null pointer: the caller does not want to know.
        (Expr::Word(word), _) if word == "NULL" => Ok(None),
        (Expr::Struct(members), Expr::Struct(_)) => {
            for Member { key, value } in members {
                let Some(key) = key else { continue };
                if key.ends_with("assoc_id")
                    || matches!(value, Expr::Any)
                    || got.member(key) == Some(&Expr::Any)
                {
                    continue;
                }
                // An iovec's length is what the caller gave.
                if key.starts_with("msg_iov") || key == "msg_name" {
                    continue;
                }
                let Some(got) = got.member(key) else {
                    return Err(ScriptError::unsupported(line, format!("a check of {key}")));
                };
                if let Some(difference) = matches(value, got, line)? {
                    return Ok(Some(format!("{key}: {difference}")));
                }
            }
            Ok(None)
        }
        (Expr::List(list), _) if matches!(&list[..], [Expr::Any]) => Ok(None),
        (Expr::List(expected), Expr::List(got)) if expected.len() != 1 || got.len() != 1 => {
            let differs = expected.len() != got.len();
            Ok(differs.then(|| format!("expected {} entries, got {}", expected.len(), got.len())))
        }
        (Expr::Of(_, expected), Expr::Of(name, got)) if name == "inet_addr" => {
            Ok((expected != got).then(|| {
                format!(
                    "expected {}, got {}",
                    expected.iter().map(text).collect::<String>(),
                    got.iter().map(text).collect::<String>()
                )
            }))
        }
        (_, Expr::Text(got)) => Ok(Some(format!("expected {}, got {got}", text(expected)))),
        (Expr::Struct(_), _) | (_, Expr::Struct(_)) => {
            Ok(Some(format!("expected {}, got {}", text(expected), text(got))))
        }
        _ => {
            let (expected, got) = (int(expected, line)?, int(got, line)?);
            Ok((expected != got).then(|| format!("expected {expected}, got {got}")))
        }
    }
}

/// An expression for people.
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
        Expr::Struct(_) => "{...}".to_owned(),
    }
}
