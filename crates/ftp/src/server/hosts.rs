//! Virtual hosts (RFC 7151): selected by HOST, or by the server name that a client sends in TLS.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::Carrier;
use crate::reply::{Code, Reply};

/// A virtual host of a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VirtualHost {
    /// Its names, in any case.
    pub names: Vec<String>,
    /// The text of the reply to HOST.
    pub greeting: String,
}

impl VirtualHost {
    fn is_called(&self, name: &[u8]) -> bool {
        self.names.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(name))
    }
}

/// The number of a virtual host: its index in [`super::Config::hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub usize);

/// The virtual host with this name.
pub fn find(hosts: &[VirtualHost], name: &[u8]) -> Option<HostId> {
    hosts.iter().position(|host| host.is_called(name)).map(HostId)
}

/// Whether this is a valid argument of HOST: a name or an address literal, without a port (RFC 7151 §3.1).
pub fn is_host_name(name: &[u8]) -> bool {
    parse(name).is_ok()
}

/// The hosts that HOST may select.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice<'a> {
    /// The virtual hosts.
    pub(super) hosts: &'a [VirtualHost],
    /// The name of the default host, if one is configured.
    pub(super) own: Option<&'a str>,
    /// The carrier of the session, for TCP with the local address.
    pub(super) carrier: Carrier,
    /// The server name that the client sent in TLS.
    pub(super) server_name: Option<&'a Bytes>,
}

impl Choice<'_> {
    /// The virtual host of this name; `None` is the default host.
    pub(super) fn choose(self, name: &[u8]) -> Result<Option<HostId>, Reply> {
        let unknown = || Reply::new(Code::NOT_FOR_THAT_PARAMETER, "no such virtual host");
        let literal = parse(name)?;
        //= specs/rfc7151.txt#section-3.2.2
        //# When the user-PI specifies the hostname in the "server_name"
        //# extension of a TLS extended client hello, the server-PI MUST verify
        //# that the hostname in the HOST command matches the value of the
        //# "server_name" extension.
        if self.server_name.is_some_and(|given| !given.eq_ignore_ascii_case(name)) {
            return Err(Reply::new(Code::NOT_FOR_THAT_PARAMETER, "TLS was started for another host"));
        }
        //= specs/rfc7151.txt#section-3.2
        //# Upon receiving the HOST command, before authenticating the user-PI, a
        //# server-FTP process SHOULD validate that the hostname given represents
        //# a valid virtual host for that server and, if it is valid, establish
        //# the appropriate environment for that virtual host.
        if let Some(host) = find(self.hosts, name) {
            return Ok(Some(host));
        }
        if let Some(address) = literal {
            //= specs/rfc7151.txt#section-3.1
            //# That being said, if the IPv4 or IPv6 literal address specified by the
            //# client does not match the literal address for the server, the server
            //# MUST respond with a 504 reply to indicate that the IPv4 or IPv6
            //# literal address is not valid.
            return if self.is_here(address) { Ok(None) } else { Err(unknown()) };
        }
        //= specs/rfc7151.txt#section-3.2
        //# If the hostname specified is unknown at the server, or if the server
        //# is otherwise unwilling to treat the particular connection as a
        //# connection to the hostname specified, the server SHOULD respond with
        //# a 504 reply.
        match self.own {
            Some(own) if own.as_bytes().eq_ignore_ascii_case(name) => Ok(None),
            // A server without configured names accepts any name.
            None if self.hosts.is_empty() => Ok(None),
            _ => Err(unknown()),
        }
    }

    /// Whether the client connected to this address. An association has several addresses, which the session
    /// does not know.
    fn is_here(self, address: IpAddr) -> bool {
        match self.carrier {
            Carrier::Tcp { local, .. } => SocketAddr::ip(&local).to_canonical() == address.to_canonical(),
            Carrier::Naive | Carrier::Ms | Carrier::Braid { .. } => true,
        }
    }
}

/// Validates a name or an address literal (RFC 7151 §3.1); returns the address.
fn parse(name: &[u8]) -> Result<Option<IpAddr>, Reply> {
    //= specs/rfc7151.txt#section-3.1
    //# For example, the server-PI MUST respond with a 501
    //# reply if the client sends a HOST command with syntax like either of
    //# the following examples:
    //#
    //# HOST 192.0.2.1:2112
    //# HOST [2001:db8::c000:201]:2112
    let wrong = || {
        Reply::new(Code::BAD_PARAMETER, "the argument of HOST must be a name, or an address without a port")
    };
    let text = std::str::from_utf8(name).map_err(|_| wrong())?;
    if let Some(inside) = text.strip_prefix('[') {
        let inside = inside.strip_suffix(']').ok_or_else(wrong)?;
        return inside.parse().map(|address| Some(IpAddr::V6(address))).map_err(|_| wrong());
    }
    if let Ok(address) = text.parse() {
        return Ok(Some(IpAddr::V4(address)));
    }
    let is_label = |label: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        label.len() <= 63
            && edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
    };
    match text.len() <= 253 && text.split('.').all(is_label) {
        true => Ok(None),
        false => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts() -> Vec<VirtualHost> {
        let host = |names: &[&str]| VirtualHost {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            greeting: String::new(),
        };
        vec![host(&["a.example", "www.a.example"]), host(&["b.example", "192.0.2.9"])]
    }

    fn choice<'a>(hosts: &'a [VirtualHost], own: Option<&'a str>) -> Choice<'a> {
        let (local, peer) = ("192.0.2.1:21".parse().unwrap(), "192.0.2.77:5000".parse().unwrap());
        Choice { hosts, own, carrier: Carrier::Tcp { local, peer }, server_name: None }
    }

    #[test]
    fn hosts_are_found_by_their_names_and_others_are_refused() {
        let hosts = hosts();
        for own in [None, Some("main.example")] {
            let choice = choice(&hosts, own);
            for (name, found) in [
                ("a.example", Ok(Some(HostId(0)))),
                ("WWW.a.Example", Ok(Some(HostId(0)))),
                ("b.example", Ok(Some(HostId(1)))),
                ("192.0.2.9", Ok(Some(HostId(1)))),
                ("192.0.2.1", Ok(None)),
                ("192.0.2.2", Err(504)),
                ("[2001:db8::1]", Err(504)),
                ("c.example", Err(504)),
                ("main.example", if own.is_some() { Ok(None) } else { Err(504) }),
            ] {
                assert_eq!(
                    choice.choose(name.as_bytes()).map_err(|reply| reply.code.number()),
                    found,
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn a_server_without_names_accepts_any_host_and_a_named_server_only_its_name() {
        assert_eq!(choice(&[], None).choose(b"any.example"), Ok(None));
        assert_eq!(choice(&[], Some("x.example")).choose(b"X.EXAMPLE"), Ok(None));
        assert_eq!(choice(&[], Some("x.example")).choose(b"y.example").unwrap_err().code.number(), 504);
    }

    #[test]
    //= specs/rfc7151.txt#section-3.1
    //= type=test
    //# For example, the server-PI MUST respond with a 501
    //# reply if the client sends a HOST command with syntax like either of
    //# the following examples:
    //#
    //# HOST 192.0.2.1:2112
    //# HOST [2001:db8::c000:201]:2112
    fn host_arguments_that_are_neither_name_nor_address_are_refused() {
        for name in [
            "192.0.2.1:2112",
            "[2001:db8::c000:201]:2112",
            "[2001:db8::1",
            "[192.0.2.1]",
            "a.example:21",
            "2001:db8::1",
            "-a.example",
            "a-.example",
            "a..example",
            "a.example.",
            "a b",
            "a_b",
            "ä.example",
            "",
            &"a".repeat(64),
            &"a.".repeat(130),
        ] {
            assert_eq!(choice(&[], None).choose(name.as_bytes()).unwrap_err().code.number(), 501, "{name}");
        }
    }

    #[test]
    //= specs/rfc7151.txt#section-3.2.2
    //= type=test
    //# When the user-PI specifies the hostname in the "server_name"
    //# extension of a TLS extended client hello, the server-PI MUST verify
    //# that the hostname in the HOST command matches the value of the
    //# "server_name" extension.
    fn a_host_other_than_the_server_name_of_tls_is_refused() {
        let (hosts, given) = (hosts(), Bytes::from_static(b"A.example"));
        let choice = Choice { server_name: Some(&given), ..choice(&hosts, None) };
        assert_eq!(choice.choose(b"a.EXAMPLE"), Ok(Some(HostId(0))));
        assert_eq!(choice.choose(b"www.a.example").unwrap_err().code.number(), 504);
        assert_eq!(choice.choose(b"b.example").unwrap_err().code.number(), 504);
    }
}
