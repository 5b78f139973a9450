//! The replies that each command may have (RFC 959 §5.4 and the extensions).

use crate::command::{Command, parse_host_port, parse_number};
use crate::reply::{Class, Code, Reply};

/// The permitted replies to a command. Errors are always permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    /// Any 2yz.
    Completion,
    /// Only this code.
    Only(Code),
    /// One of two codes.
    Either(Code, Code),
    /// 1yz, then 2yz.
    Transfer,
    /// 230, 232, 202, or 331 and 332.
    Login,
}

impl Expect {
    /// Commands with a distinctive reply code require that code, which detects lost replies.
    pub(super) const fn of(command: &Command) -> Self {
        match command {
            Command::Retrieve(_)
            | Command::RetrieveNext
            | Command::Store(_)
            | Command::StoreUnique(_)
            | Command::Append(_)
            | Command::List(_)
            | Command::NameList(_)
            | Command::MachineList(_)
            | Command::Tree(_) => Self::Transfer,
            Command::User(_) | Command::Password(_) | Command::Account(_) => Self::Login,
            Command::Size(_)
            | Command::ModifiedTime(_)
            | Command::SetModifiedTime(..)
            | Command::Hash(_)
            | Command::Partial(_) => Self::Only(Code::FILE_STATUS),
            Command::ExtendedPassive(_) => Self::Either(Code::EXTENDED_PASSIVE, Code::OK),
            Command::Passive => Self::Only(Code::PASSIVE),
            Command::Restart(_) | Command::RenameFrom(_) => Self::Only(Code::NEED_MORE),
            Command::PrintDirectory => Self::Only(Code::PATH_CREATED),
            // Some servers answer MKD with 250.
            Command::MakeDirectory(_) => Self::Either(Code::PATH_CREATED, Code::FILE_OK),
            Command::Features => Self::Only(Code::SYSTEM_STATUS),
            // 334 would begin an exchange with ADAT, which TLS does not use (RFC 4217 §4.2).
            Command::Auth(_) => Self::Only(Code::SECURITY_ACCEPTED),
            Command::MachineFacts(_) => Self::Only(Code::FILE_OK),
            Command::System => Self::Only(Code::SYSTEM_TYPE),
            Command::Abort(_) => Self::Either(Code::TRANSFER_COMPLETE, Code::DATA_OPEN),
            _ => Self::Completion,
        }
    }

    pub(super) fn allows(self, code: Code) -> bool {
        let class = code.class();
        if code.is_error() {
            return true;
        }
        match self {
            Self::Completion => class == Class::Completion,
            Self::Only(only) => code == only,
            Self::Either(one, other) => code == one || code == other,
            Self::Transfer => {
                class == Class::Preliminary
                    || matches!(code, Code::OK | Code::DATA_OPEN | Code::TRANSFER_COMPLETE | Code::FILE_OK)
            }
            Self::Login => {
                matches!(
                    code,
                    Code::LOGGED_IN
                        | Code::AUTHORIZED
                        | Code::SUPERFLUOUS
                        | Code::NEED_PASSWORD
                        | Code::NEED_ACCOUNT
                )
            }
        }
    }
}

/// The port in a 229 or 227. The address in a 227 is ignored: data connections go to the peer of the
/// control connection, because a server must not redirect the client elsewhere.
pub(super) fn passive_port(reply: &Reply) -> Option<u16> {
    let text = reply.text();
    let port = if reply.code == Code::EXTENDED_PASSIVE {
        // `(|||6446|)`, with any character as delimiter (RFC 2428 §3).
        let start = text.iter().position(|byte| *byte == b'(')? + 1;
        let inside = &text[start..text.iter().rposition(|byte| *byte == b')')?.max(start)];
        let delimiter = inside.first()?;
        let mut parts = inside.split(|byte| byte == delimiter).skip(3);
        u16::try_from(parse_number(parts.next()?)?).ok()?
    } else {
        // Some servers omit the brackets of 227 (RFC 1123 §4.1.2.6): six numbers, anywhere in the text.
        let start = text.iter().position(u8::is_ascii_digit)?;
        let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b',';
        let end = text[start..].iter().position(|byte| !is_part(byte)).map_or(text.len(), |at| start + at);
        parse_host_port(&text[start..end])?.port()
    };
    (port != 0).then_some(port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(code: Code, text: &str) -> Option<u16> {
        passive_port(&Reply::new(code, text))
    }

    #[test]
    fn ports_are_found_in_replies() {
        for (text, expected) in [
            ("Entering Extended Passive Mode (|||6446|)", Some(6446)),
            ("ok (!!!21!)", Some(21)),
            ("ok (|||0|)", None),
            ("ok (|||65536|)", None),
            ("ok |||6446|", None),
            ("ok )(", None),
            ("ok (", None),
            ("ok ()", None),
        ] {
            assert_eq!(port(Code::EXTENDED_PASSIVE, text), expected, "{text}");
        }
        for (text, expected) in [
            ("Entering Passive Mode (10,0,0,1,25,46).", Some(6446)),
            ("=127,0,0,1,25,46", Some(6446)),
            ("no numbers", None),
            ("1,2,3,4,5", None),
            ("1,2,3,4,256,1", None),
        ] {
            assert_eq!(port(Code::PASSIVE, text), expected, "{text}");
        }
    }
}
