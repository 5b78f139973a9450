//! `--path LOCAL[=REMOTE]`: the pairs of addresses that a session may use.

use std::net::IpAddr;
use std::str::FromStr;

/// A permitted path: from a local address to an address of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathRule {
    /// The local address.
    pub local: IpAddr,
    /// The server's address; `None`: any address of the URL's host.
    pub remote: Option<IpAddr>,
}

impl std::fmt::Display for PathRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.local)?;
        self.remote.map_or(Ok(()), |remote| write!(f, "={remote}"))
    }
}

impl FromStr for PathRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (local, remote) =
            text.split_once('=').map_or((text, None), |(local, remote)| (local, Some(remote)));
        let address = |text: &str| {
            let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
            bare.parse::<IpAddr>()
                .map_err(|_| format!("`{text}` is not an IP address; write LOCAL or LOCAL=REMOTE"))
        };
        let rule = Self { local: address(local)?, remote: remote.map(address).transpose()? };
        match rule.remote {
            Some(remote) if remote.is_ipv4() != rule.local.is_ipv4() => {
                Err("one address is IPv4 and the other IPv6".into())
            }
            _ => Ok(rule),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_rule_is_one_address_or_two_of_the_same_family() {
        let rule = "192.0.2.1=192.0.2.9".parse::<PathRule>().unwrap();
        assert_eq!(rule.remote, Some("192.0.2.9".parse().unwrap()));
        assert!("[::1]".parse::<PathRule>().is_ok());
        for text in ["", "eth0", "::1=127.0.0.1", "127.0.0.1="] {
            assert!(text.parse::<PathRule>().is_err(), "{text}");
        }
    }
}
