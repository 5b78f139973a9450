//! Addresses of servers and of files on them: `ftp://user@host:port/path`, `ftpes://` and `ftps://` for TLS,
//! `ftp+sctp://host:udpport/path?addr=…`.
//!
//! Paths are bytes, percent-decoded segment by segment (RFC 1738 §3.2.2), so a name that is not UTF-8 can be
//! written and is never changed. A path is relative to the folder after the login; a path that starts with
//! `%2F` is absolute. `url::Url` is not used, because it rewrites paths (`..`, `\`) that are names here.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ::url::Host;

use crate::exit::Error;

/// The default UDP port of encapsulated SCTP (RFC 6951 §5.1).
pub const UDP_PORT: u16 = 9899;
/// The SCTP port of FTP.
pub const SCTP_PORT: u16 = 21;
/// The TCP port of FTP.
pub const TCP_PORT: u16 = 21;
/// The TCP port of FTP with implicit TLS (IANA's `ftps`).
pub const TLS_PORT: u16 = 990;
/// The maximum number of `?addr=` in a URL.
const MAX_ADDRESSES: usize = 16;
/// The maximum length of a URL in bytes.
const MAX_URL_BYTES: usize = 64 * 1024;

/// The transport of the session, with its protection over TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `ftp://`: TCP, with TLS if the server offers it.
    Ftp,
    /// `ftpes://`: TCP, with TLS by AUTH required (RFC 4217).
    Ftpes,
    /// `ftps://`: TCP, with TLS from the first byte.
    Ftps,
    /// `ftp+sctp://`: SCTP in UDP (RFC 6951).
    FtpSctp,
    /// `ftp+sctp-ip://`: SCTP over IP.
    FtpSctpIp,
}

impl Scheme {
    /// Whether the transport is TCP.
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::Ftp | Self::Ftpes | Self::Ftps)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ftp => "ftp",
            Self::Ftpes => "ftpes",
            Self::Ftps => "ftps",
            Self::FtpSctp => "ftp+sctp",
            Self::FtpSctpIp => "ftp+sctp-ip",
        })
    }
}

/// A server, and a file or folder on it.
#[derive(Clone, PartialEq, Eq)]
pub struct Url {
    /// The scheme.
    pub scheme: Scheme,
    /// The name or address of the server.
    pub host: Host,
    /// TCP port, or the UDP port that carries SCTP; without UDP, the SCTP port.
    pub port: u16,
    /// The user name, if the URL has one.
    pub user: Option<Vec<u8>>,
    /// The password, if the URL has one.
    pub password: Option<Vec<u8>>,
    /// The bytes of the path, without the slash that ends the authority; starts with `/` if written as
    /// `%2F…`.
    pub path: Vec<u8>,
    /// Additional addresses of a multihomed server, from `?addr=`; without a port they have [`Self::port`].
    pub addresses: Vec<SocketAddr>,
}

impl Url {
    /// Whether two URLs have the same login on the same server, so that one session serves both.
    pub fn same_server(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port, &self.user, &self.password, &self.addresses)
            == (other.scheme, &other.host, other.port, &other.user, &other.password, &other.addresses)
    }

    /// The last segment of the path; empty for the root and for a path that ends in a slash.
    pub fn file_name(&self) -> &[u8] {
        self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }
}

impl FromStr for Url {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |why: String| Error::usage(format_args!("read the URL `{}`", redact(text)), why);
        if text.len() > MAX_URL_BYTES {
            return Err(Error::usage(
                "read the URL",
                format_args!("it is longer than {MAX_URL_BYTES} bytes"),
            ));
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(
                wrong("it has no scheme".into()).hint("write ftp://HOST/PATH or ftp+sctp://HOST/PATH")
            );
        };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "ftp" => Scheme::Ftp,
            "ftp+sctp" => Scheme::FtpSctp,
            "ftpes" => Scheme::Ftpes,
            "ftps" => Scheme::Ftps,
            "ftp+sctp-ip" => Scheme::FtpSctpIp,
            other => {
                return Err(wrong(format!("`{other}` is not a scheme of this program"))
                    .hint("write ftp://HOST/PATH or ftp+sctp://HOST/PATH"));
            }
        };
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if tail.contains('#') {
            return Err(wrong("it has a fragment".into()).hint("write a `#` in a file's name as %23"));
        }
        let (path, query) = match tail.split_once('?') {
            Some((_, "")) => {
                return Err(wrong("nothing follows its `?`".into())
                    .hint("write a `?` in a file's name, or in a glob, as %3F"));
            }
            Some((path, query)) => (path, Some(query)),
            None => (tail, None),
        };

        let (userinfo, hostport) = match authority.rsplit_once('@') {
            Some((userinfo, hostport)) => (Some(userinfo), hostport),
            None => (None, authority),
        };
        let (user, password) = match userinfo
            .map(|u| u.split_once(':').map_or((u, None), |(u, p)| (u, Some(p))))
        {
            None => (None, None),
            Some((user, password)) => (
                Some(decode_login(user).map_err(|why| wrong(format!("user: {why}")))?),
                password.map(decode_login).transpose().map_err(|why| wrong(format!("password: {why}")))?,
            ),
        };
        let default_port = match scheme {
            Scheme::Ftp | Scheme::Ftpes => TCP_PORT,
            Scheme::Ftps => TLS_PORT,
            Scheme::FtpSctp => UDP_PORT,
            Scheme::FtpSctpIp => SCTP_PORT,
        };
        let (host, port) = parse_host_port(hostport, default_port).map_err(wrong)?;

        let path = decode_path(path.strip_prefix('/').unwrap_or(path)).map_err(wrong)?;
        let addresses = parse_addresses(query, scheme, &host, port, wrong)?;
        Ok(Self { scheme, host, port, user, password, path, addresses })
    }
}

/// Parses the addresses of `?addr=…&addr=…`.
fn parse_addresses(
    query: Option<&str>,
    scheme: Scheme,
    host: &Host,
    port: u16,
    wrong: impl Fn(String) -> Error,
) -> Result<Vec<SocketAddr>, Error> {
    let named = match host {
        Host::Ipv4(ip) => Some(SocketAddr::from((*ip, port))),
        Host::Ipv6(ip) => Some(SocketAddr::from((*ip, port))),
        Host::Domain(_) => None,
    };
    let mut addresses = Vec::new();
    for pair in query.into_iter().flat_map(|query| query.split('&')).filter(|pair| !pair.is_empty()) {
        let value = pair.strip_prefix("addr=").ok_or_else(|| {
            wrong(format!("`{pair}` is not a parameter that it may have: addr=ADDRESS is the only one"))
                .hint("write a `?` in a file's name as %3F; between quotes, or the shell takes it")
        })?;
        if scheme.is_tcp() {
            return Err(wrong(
                "?addr= is for ftp+sctp://: a TCP connection has one address at each end".into(),
            ));
        }
        if addresses.len() == MAX_ADDRESSES {
            return Err(wrong(format!("it has more than {MAX_ADDRESSES} addresses")));
        }
        let value = decode(value).map_err(&wrong)?;
        let value = String::from_utf8(value).map_err(|error| wrong(error.to_string()))?;
        let address =
            parse_address(&value, port).ok_or_else(|| wrong(format!("`{value}` is not an IP address")))?;
        if scheme == Scheme::FtpSctpIp && address.port() != port {
            return Err(wrong(format!(
                "`{value}` contains a port, but an association has a single SCTP port"
            ))
            .hint("write ?addr= without a port"));
        }
        if addresses.contains(&address) || named == Some(address) {
            return Err(wrong(format!("`{value}` is given twice"))
                .hint("?addr= names the addresses that the server has besides the one in front"));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// The server's part: scheme, host and port, without a password, so that it can be logged.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}:{}/", self.scheme, self.host, self.port)?;
        for byte in &self.path {
            match byte {
                b'/' | b'-' | b'.' | b'_' | b'~' | b'*' | b'+' | b',' | b'@' | b'=' | b':' => {
                    write!(f, "{}", char::from(*byte))?;
                }
                byte if byte.is_ascii_alphanumeric() => write!(f, "{}", char::from(*byte))?,
                byte => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses `ADDRESS`, `ADDRESS:PORT`, `[V6]:PORT` or `V6`; `port` is the default.
pub fn parse_address(text: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Some(address);
    }
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, port))
}

fn parse_host_port(text: &str, default_port: u16) -> Result<(Host, u16), String> {
    let (host, port) = match text.rfind(':') {
        Some(colon) if !text[colon..].contains(']') => (&text[..colon], Some(&text[colon + 1..])),
        _ => (text, None),
    };
    let port = match port {
        None | Some("") => default_port,
        Some(port) => match port.parse() {
            Ok(port) if port != 0 => port,
            _ => return Err(format!("`{port}` is not a port: it must be 1 to 65535")),
        },
    };
    if host.is_empty() {
        return Err("it has no host".into());
    }
    let host = Host::parse(host).map_err(|error| format!("`{host}` is not a host: {error}"))?;
    Ok((host, port))
}

/// Decodes a path (RFC 1738 §3.2.2): segments are decoded after the split, so `%2F` is a slash within a name,
/// except at the beginning, where it makes the path absolute. `;type=i` may follow.
fn decode_path(text: &str) -> Result<Vec<u8>, String> {
    let text = match text.rsplit_once(";type=") {
        Some((path, "i" | "I")) => path,
        Some((_, other)) => {
            return Err(format!("`;type={other}` is not supported: files are moved as they are, `;type=i`"));
        }
        None => text,
    };
    let path = decode(text)?;
    match path.iter().position(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        Some(_) => Err("its path has a NUL, CR or LF, which no FTP command can carry".into()),
        None => Ok(path),
    }
}

fn decode_login(text: &str) -> Result<Vec<u8>, String> {
    let bytes = decode(text)?;
    match bytes.iter().any(|byte| matches!(byte, 0 | b'\r' | b'\n')) {
        true => Err("it has a NUL, CR or LF, which no FTP command can carry".into()),
        false => Ok(bytes),
    }
}

/// Decodes percent-encoding.
fn decode(text: &str) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|digit| char::from(digit).to_digit(16));
        match (digit(), digit()) {
            (Some(high), Some(low)) => out.push((high * 16 + low) as u8),
            _ => {
                return Err(
                    "a `%` is not followed by two hexadecimal digits: write a percent sign as %25".into()
                );
            }
        }
    }
    Ok(out)
}

/// The text without the password between `:` and `@` of its authority.
fn redact(text: &str) -> String {
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = start + text[start..].find(['/', '?', '#']).unwrap_or(text.len() - start);
    match (text[start..end].find(':'), text[start..end].rfind('@')) {
        (Some(colon), Some(at)) if colon < at => {
            format!("{}:…{}", &text[..start + colon], &text[start + at..])
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Url {
        text.parse().unwrap()
    }

    #[test]
    fn the_default_ports_are_21_990_and_9899() {
        assert_eq!((parse("ftpes://h/").port, parse("ftps://h/").port), (21, 990));
        assert_eq!(parse("ftp://example.org").port, 21);
        assert_eq!(parse("ftp+sctp://example.org/").port, 9899);
        assert_eq!(parse("FTP+SCTP://[::1]:7000/a").port, 7000);
        assert_eq!(parse("ftp+sctp-ip://example.org/").port, 21);
        assert_eq!(parse("ftp+sctp-ip://[::1]:7000/a?addr=::2").addresses, ["[::2]:7000".parse().unwrap()]);
        assert_eq!(parse("ftp://[2001:db8::1]/a").port, 21);
    }

    #[test]
    fn a_path_is_bytes_and_percent_2f_makes_it_absolute() {
        assert_eq!(parse("ftp://h/a%20b/%ff%fe").path, b"a b/\xff\xfe");
        assert_eq!(parse("ftp://h/%2Fetc/motd;type=i").path, b"/etc/motd");
        assert_eq!(parse("ftp://h/a/../b").path, b"a/../b");
        assert_eq!(parse("ftp://h/*.txt").file_name(), b"*.txt");
    }

    #[test]
    fn a_login_may_contain_any_character_and_is_not_displayed() {
        let url = parse("ftp://us%40er:p%3Aw@h/x");
        assert_eq!((url.user.as_deref(), url.password.as_deref()), (Some(&b"us@er"[..]), Some(&b"p:w"[..])));
        assert!(!format!("{url} {url:?}").contains("p:w"));
        let error = "ftp://u:secret@h:0/".parse::<Url>().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }

    #[test]
    fn additional_addresses_of_a_multihomed_server_are_parsed() {
        let url = parse("ftp+sctp://h:7000/?addr=192.0.2.1&addr=2001:db8::1&addr=192.0.2.2:99&addr=[::1]:5");
        let expected = ["192.0.2.1:7000", "[2001:db8::1]:7000", "192.0.2.2:99", "[::1]:5"];
        assert_eq!(url.addresses, expected.map(|a| a.parse().unwrap()));
        assert!("ftp://h/?addr=192.0.2.1".parse::<Url>().is_err());
    }

    #[test]
    fn invalid_input_is_reported_with_the_reason() {
        for (text, says) in [
            ("example.org", "no scheme"),
            ("http://h/", "not a scheme"),
            ("ftps://h/?addr=192.0.2.1", "one address at each end"),
            ("ftp+sctp-ip://h/?addr=192.0.2.1:22", "a single SCTP port"),
            ("ftp://h:0/", "not a port"),
            ("ftp://h:65536/", "not a port"),
            ("ftp:///x", "no host"),
            ("ftp://h/%0d%0aDELE x", "NUL, CR or LF"),
            ("ftp://u%0d:p@h/", "NUL, CR or LF"),
            ("ftp://h/100%", "hexadecimal"),
            ("ftp://h/x;type=a", "type=a"),
            ("ftp+sctp://h/?adr=1.2.3.4", "only one"),
            ("ftp+sctp://h/?addr=nohost", "not an IP address"),
            ("ftp+sctp://h/?addr=::1&addr=::1", "given twice"),
            ("ftp://h/f?", "nothing follows"),
            ("ftp://h/#x", "fragment"),
        ] {
            let error = text.parse::<Url>().expect_err(text);
            assert_eq!(error.exit, crate::exit::Exit::Usage);
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn the_number_of_addresses_is_limited() {
        let with = |n: usize| {
            let addresses: Vec<String> = (1..=n).map(|i| format!("addr=::{i}")).collect();
            format!("ftp+sctp://h/?{}", addresses.join("&"))
        };
        assert_eq!(with(MAX_ADDRESSES).parse::<Url>().unwrap().addresses.len(), MAX_ADDRESSES);
        assert!(with(MAX_ADDRESSES + 1).parse::<Url>().is_err());
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = text.parse::<Url>();
            let _ = format!("ftp+sctp://{text}").parse::<Url>();
        }

        #[test]
        fn any_name_is_parsed_back_from_its_displayed_form(path in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut url = parse("ftp://h/");
            url.path = path;
            let shown = url.to_string();
            match shown.parse::<Url>() {
                Ok(again) => prop_assert_eq!(again.path, url.path),
                Err(_) => prop_assert!(url.path.iter().any(|b| matches!(b, 0 | b'\r' | b'\n'))),
            }
        }
    }
}
