//! Where a server listens, as a URL.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use braidftp_ftp::mapping::CONTROL_PORT;

/// The port of `ftp://` for users who may not bind 21.
pub(super) const TCP_PORT_UNPRIVILEGED: u16 = 2121;
/// The port of `ftp://` (RFC 959 §8).
const TCP_PORT: u16 = 21;
/// The port of `ftps://`.
pub(super) const TLS_PORT: u16 = 990;
/// The port of `ftp+sctp://` (RFC 6951 §5.1).
pub(super) const UDP_PORT: u16 = 9899;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// FTP over TCP at this address; TLS by AUTH, if there is a key.
    Tcp(SocketAddr),
    /// FTP over TCP at this address, with implicit TLS.
    Tls(SocketAddr),
    /// FTP over SCTP, in UDP (RFC 6951), at these addresses of one endpoint, SCTP port 21.
    SctpUdp(Vec<SocketAddr>),
    /// FTP over SCTP, over IP itself, at these addresses of one endpoint.
    SctpIp(Vec<IpAddr>, u16 /* SCTP port */),
}

impl Listen {
    /// Whether this is a TCP address, whose sessions create sockets for data.
    pub(super) fn is_tcp(&self) -> bool {
        !matches!(self, Self::SctpUdp(_) | Self::SctpIp(..))
    }

    /// Parses a place to listen: a URL with an address, not a name, because a socket is bound to an address.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            format!(
                "cannot listen at `{text}`: {why}; write ftp://ADDRESS:PORT or ftp+sctp://ADDRESS:UDPPORT, as in ftp+sctp://0.0.0.0:9899"
            )
        };
        let url = url::Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() || !matches!(url.path(), "" | "/") {
            return Err(wrong("it holds more than an address"));
        }
        let host = url.host_str().unwrap_or_default();
        let host = if host == "localhost" { "127.0.0.1" } else { host };
        let ip: IpAddr = host
            .trim_matches(['[', ']'])
            .parse()
            .map_err(|_| wrong("the host must be an IP address, such as 0.0.0.0, [::] or 127.0.0.1"))?;
        match url.scheme() {
            "ftp" | "ftps" if url.query().is_some() => Err(wrong("a TCP listener has one address")),
            "ftps" => Ok(Self::Tls(SocketAddr::new(ip, url.port().unwrap_or(TLS_PORT)))),
            "ftp" => Ok(Self::Tcp(SocketAddr::new(ip, url.port().unwrap_or(TCP_PORT)))),
            "ftp+sctp" => {
                let port = url.port().unwrap_or(UDP_PORT);
                let mut addresses = vec![SocketAddr::new(ip, port)];
                for (key, value) in url.query_pairs() {
                    if key != "addr" {
                        return Err(wrong("of parameters there is `addr` alone"));
                    }
                    let more = value.parse::<SocketAddr>().or_else(|_| {
                        value.trim_matches(['[', ']']).parse().map(|ip| SocketAddr::new(ip, port))
                    });
                    addresses.push(more.map_err(|_| wrong("`addr` must be an IP address"))?);
                }
                once(&addresses).map_err(|twice| wrong(&twice))?;
                Ok(Self::SctpUdp(addresses))
            }
            "ftpes" => Err(wrong("ftp:// takes TLS by AUTH; ftps:// begins with TLS")),
            "ftp+sctp-ip" => {
                let mut addresses = vec![ip];
                for (key, value) in url.query_pairs() {
                    if key != "addr" {
                        return Err(wrong("of parameters there is `addr` alone"));
                    }
                    let more = value.trim_matches(['[', ']']).parse();
                    addresses.push(more.map_err(|_| wrong("`addr` must be an IP address, without a port"))?);
                }
                once(&addresses).map_err(|twice| wrong(&twice))?;
                match url.port().unwrap_or(CONTROL_PORT) {
                    0 => Err(wrong("an SCTP port is 1 to 65535")),
                    port => Ok(Self::SctpIp(addresses, port)),
                }
            }
            _ => Err(wrong("unknown scheme")),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "ftp://{address}"),
            Self::Tls(address) => write!(f, "ftps://{address}"),
            Self::SctpUdp(addresses) => {
                f.write_str("ftp+sctp://")?;
                for (at, address) in addresses.iter().enumerate() {
                    match at {
                        0 => write!(f, "{address}")?,
                        1 => write!(f, "/?addr={address}")?,
                        _ => write!(f, "&addr={address}")?,
                    }
                }
                Ok(())
            }
            Self::SctpIp(addresses, port) => {
                f.write_str("ftp+sctp-ip://")?;
                if let Some(first) = addresses.first() {
                    write!(f, "{}", SocketAddr::new(*first, *port))?;
                }
                for (at, address) in addresses.iter().enumerate().skip(1) {
                    write!(f, "{}{address}", if at == 1 { "/?addr=" } else { "&addr=" })?;
                }
                Ok(())
            }
        }
    }
}

/// Checks that no address is repeated.
fn once<T: PartialEq + fmt::Display>(addresses: &[T]) -> Result<(), String> {
    let twice = addresses.iter().enumerate().find(|(index, address)| addresses[..*index].contains(address));
    twice.map_or(Ok(()), |(_, address)| Err(format!("{address} is given twice")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_listen_are_urls_of_addresses() {
        for (text, shown) in [
            ("ftp://127.0.0.1:2121", "ftp://127.0.0.1:2121"),
            ("ftp://[::1]", "ftp://[::1]:21"),
            ("ftp://localhost:0/", "ftp://127.0.0.1:0"),
            ("ftps://[::]", "ftps://[::]:990"),
            ("ftp+sctp://0.0.0.0", "ftp+sctp://0.0.0.0:9899"),
            (
                "ftp+sctp://10.0.0.1:7000/?addr=10.1.0.1&addr=[::1]:7001",
                "ftp+sctp://10.0.0.1:7000/?addr=10.1.0.1:7000&addr=[::1]:7001",
            ),
            ("ftp+sctp-ip://10.0.0.1", "ftp+sctp-ip://10.0.0.1:21"),
            (
                "ftp+sctp-ip://[::]:7/?addr=10.1.0.1&addr=[::1]",
                "ftp+sctp-ip://[::]:7/?addr=10.1.0.1&addr=::1",
            ),
        ] {
            assert_eq!(Listen::parse(text).unwrap().to_string(), shown, "{text}");
        }
        for text in [
            "",
            "127.0.0.1:21",
            "ftp://example.org",
            "http://127.0.0.1",
            "ftpes://127.0.0.1",
            "ftps://127.0.0.1/?addr=127.0.0.2",
            "ftp+sctp-ip://127.0.0.1/?addr=127.0.0.2:21",
            "ftp+sctp-ip://127.0.0.1:0",
            "ftp+sctp-ip://example.org",
            "ftp://127.0.0.1/x",
            "ftp://u@127.0.0.1",
            "ftp+sctp://127.0.0.1/?x=1",
            "ftp+sctp://127.0.0.1/?addr=x",
            "ftp+sctp://127.0.0.1/?addr=127.0.0.1",
            "ftp+sctp-ip://127.0.0.1/?addr=127.0.0.2&addr=127.0.0.2",
            "ftp://127.0.0.1/?addr=127.0.0.2",
        ] {
            assert!(Listen::parse(text).is_err(), "{text}");
        }
    }
}
