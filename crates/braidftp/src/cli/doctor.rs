//! `braidftp doctor [URL]`: tests what works between this machine and a server, and suggests a remedy for what does not.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use braidftp_ftp::Mode;
use braidftp_ftp::command::Command;
use tokio::net::TcpStream;

use crate::client::{Client, IpReach, Refusal, ip_reach, resolve};
use crate::exit::{Error, Exit, Result, escape};
use crate::job::Job;
use crate::report::PathSummary;
use crate::url::{Scheme, TCP_PORT, UDP_PORT, Url};

/// How long to wait for a port to answer.
const SILENCE: Duration = Duration::from_secs(5);
/// The number of RTT measurements.
const ROUND_TRIPS: usize = 20;
/// The recommended size of a UDP socket buffer for fast paths: with a smaller one, bursts are lost in this
/// machine.
const BUFFER: u64 = 4 << 20;

/// The command that permits raw sockets.
const SETCAP: &str = "sudo setcap cap_net_raw+ep $(command -v braidftp)";
/// The loss in per cent above which it limits the speed, and the number of lost packets from which on it says something: one or
/// two may be probes of the tail of a flight.
const MUCH_LOSS: (f64, u64) = (1.0, 3);

/// The printed findings, and the first error.
#[derive(Default)]
struct Findings {
    worst: Option<Error>,
}

impl Findings {
    fn good(&self, what: impl std::fmt::Display) {
        println!("ok    {what}");
    }

    fn note(&self, what: impl std::fmt::Display) {
        println!("note  {what}");
    }

    fn bad(&mut self, error: Error) {
        println!("wrong {}", error.to_string().replace("\n  try: ", "\n      try: "));
        self.worst.get_or_insert(error);
    }
}

/// Tests everything between this machine and the server.
///
/// # Errors
///
/// The first problem found.
pub(super) async fn run(url: Option<Url>, job: impl FnOnce(Url) -> Result<Job>) -> Result<()> {
    let mut findings = Findings::default();
    this_machine(&findings);
    if let Some(url) = url {
        server(&mut findings, url, job).await;
    }
    match findings.worst {
        None => Ok(()),
        Some(error) => Err(Error { told: crate::exit::Told::Yes, ..error }),
    }
}

/// Tests that need no server.
fn this_machine(findings: &Findings) {
    match UdpSocket::bind("0.0.0.0:0") {
        Ok(_) => findings.good("UDP sockets can be opened: ftp+sctp:// is possible"),
        Err(error) => {
            findings.note(format_args!("no UDP socket can be opened ({error}): ftp+sctp:// is not possible"))
        }
    }
    match has_raw_sockets() {
        true => findings.good("raw sockets are allowed (CAP_NET_RAW): ftp+sctp-ip:// is possible"),
        false => findings.note(format_args!(
            "raw sockets are not allowed: ftp+sctp-ip:// needs root or CAP_NET_RAW ({SETCAP}); ftp+sctp:// does not"
        )),
    }
    let buffer = std::fs::read_to_string("/proc/sys/net/core/rmem_max");
    match buffer.ok().and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(bytes) if bytes < BUFFER => findings.note(format_args!(
            "a socket may buffer {bytes} bytes: on fast paths packets are lost in this machine; \
             sysctl -w net.core.rmem_max={BUFFER} net.core.wmem_max={BUFFER} gives more"
        )),
        Some(bytes) => findings.good(format_args!("a socket may buffer {bytes} bytes")),
        None => {}
    }
}

/// Whether the effective capabilities of this process hold CAP_NET_RAW (13).
fn has_raw_sockets() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & (1 << 13) != 0)
}

async fn server(findings: &mut Findings, url: Url, job: impl FnOnce(Url) -> Result<Job>) {
    let begun = Instant::now();
    let addresses = match resolve(&url).await {
        Ok(addresses) => addresses,
        Err(error) => return findings.bad(error),
    };
    let shown: Vec<String> = addresses.iter().map(|address| address.ip().to_string()).collect();
    findings.good(format_args!("{} is {} (found in {})", url.host, shown.join(", "), ms(begun.elapsed())));
    for address in addresses.iter().chain(&url.addresses) {
        route(findings, *address);
    }
    if !url.scheme.is_tcp() {
        for address in &addresses {
            protocol_132(findings, &url, address.ip()).await;
        }
    }
    if url.scheme.is_tcp() {
        for address in &addresses {
            tcp_port(findings, *address).await;
        }
        if findings.worst.is_some() {
            return;
        }
    }
    let job = match job(url.clone()) {
        Ok(job) => job,
        Err(error) => return findings.bad(error),
    };
    match session(findings, &job).await {
        Ok(()) => {}
        Err(error) => {
            let is_connect = matches!(error.exit, Exit::Connect | Exit::TimedOut);
            findings.bad(error);
            if is_connect && !url.scheme.is_tcp() {
                ways_around(findings, &url, &addresses).await;
            }
        }
    }
}

/// Prints the local address and MTU of the route to the server, and whether there is an address translator.
fn route(findings: &mut Findings, to: SocketAddr) {
    let any: SocketAddr = if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let opened = UdpSocket::bind(any).and_then(|socket| socket.connect(to).map(|()| socket));
    let socket = match opened {
        Ok(socket) => socket,
        Err(error) => {
            let what = format!("reach {}", to.ip());
            return findings.bad(
                Error::new(Exit::Connect, what, error)
                    .hint("check the network of this machine: ip route get ADDRESS"),
            );
        }
    };
    let mtu = match to.is_ipv4() {
        true => rustix::net::sockopt::ip_mtu(&socket),
        false => rustix::net::sockopt::ipv6_mtu(&socket),
    };
    let Ok(local) = socket.local_addr() else { return };
    match mtu {
        Ok(mtu) if mtu < 1280 => findings.note(format_args!(
            "packets to {} are sent from {} with an MTU of {mtu}: less than 1280 reduces the speed",
            to.ip(),
            local.ip()
        )),
        Ok(mtu) => findings.good(format_args!(
            "packets to {} are sent from {} with an MTU of {mtu}",
            to.ip(),
            local.ip()
        )),
        Err(_) => findings.good(format_args!("packets to {} are sent from {}", to.ip(), local.ip())),
    }
    if is_private(local.ip()) && !is_private(to.ip()) {
        findings.note(format_args!(
            "{} is a private address: an address translator (NAT) is on the way; SCTP goes through it in UDP (ftp+sctp://), \
             not over IP (ftp+sctp-ip://)",
            local.ip()
        ));
    }
}

/// Whether an address is private to one network.
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        // Including shared addresses of carriers (RFC 6598).
        IpAddr::V4(ip) => {
            let [a, b, ..] = ip.octets();
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || (a == 100 && (64..128).contains(&b))
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

async fn tcp_port(findings: &mut Findings, address: SocketAddr) {
    let begun = Instant::now();
    let what = format!("connect to {address} (TCP)");
    match tokio::time::timeout(SILENCE, TcpStream::connect(address)).await {
        Ok(Ok(_)) => {
            findings.good(format_args!("{address} accepts TCP connections, in {}", ms(begun.elapsed())))
        }
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => findings.bad(
            Error::new(Exit::Connect, what, "the port is refused: nobody listens there")
                .hint("check the port in the URL, and that the server runs"),
        ),
        Ok(Err(error)) => {
            findings.bad(Error::new(Exit::Connect, what, error).hint("check the route and the address"))
        }
        Err(_) => findings.bad(
            Error::new(Exit::Connect, what, format_args!("no answer within {} s", SILENCE.as_secs()))
                .hint("a firewall drops the packets, or the host is down"),
        ),
    }
}

/// Logs in, and measures RTTs.
async fn session(findings: &Findings, job: &Job) -> Result<()> {
    let begun = Instant::now();
    let options = crate::client::Options {
        refusal: Refusal::Ends,
        timeout: job.options.timeout.min(SILENCE * 2),
        reporter: Some(job.reporter.clone()),
        ..job.options.clone()
    };
    let client = Client::connect(&job.url, job.login.clone(), options).await?;
    let result = look(findings, job, &client, begun).await;
    client.close().await;
    result
}

async fn look(findings: &Findings, job: &Job, client: &Client, begun: Instant) -> Result<()> {
    client.ready().await?;
    let user = escape(&job.login.user);
    findings.good(format_args!(
        "the server answers in mode {} and lets {user} in, after {}",
        client.mode(),
        ms(begun.elapsed())
    ));
    if client.mode() != Mode::Braid {
        let reply = client.command(Command::Features).await?;
        let features = braidftp_ftp::client::Features::parse(&reply);
        if !features.mlst {
            findings.note("the server has no MLSD: times have the precision of LIST, a minute or a day");
        }
        if features.hash.is_empty() && features.digests.is_empty() {
            findings.note("the server supports no digests, which verify and mirror --checksum need");
        }
        if job.url.scheme == Scheme::Ftp && !features.tls && !reply.code.is_error() {
            findings.note("the server offers no TLS: names and contents can be read and changed on the way");
        }
    }
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let sent = Instant::now();
        client.command(Command::Noop).await?;
        times.push(sent.elapsed());
    }
    times.sort_unstable();
    let (least, median, most) = (times[0], times[ROUND_TRIPS / 2], times[ROUND_TRIPS - 1]);
    findings.good(format_args!(
        "a command is answered in {} (median of {ROUND_TRIPS}; {} to {})",
        ms(median),
        ms(least),
        ms(most)
    ));
    if most > median * 5 && most > Duration::from_millis(200) {
        findings.note("some answers took much longer: packets are lost, or the server is busy");
    }
    for path in client.paths() {
        path_line(findings, &path);
    }
    limits(findings, client.mode(), median);
    Ok(())
}

/// Prints the loss, the RTT and the MTU of a path.
fn path_line(findings: &Findings, path: &PathSummary) {
    let rtt = match (path.min_rtt_ms, path.srtt_ms) {
        (Some(min), Some(smoothed)) => format!(", RTT {min:.1} ms at least and {smoothed:.1} ms smoothed"),
        (_, Some(smoothed)) => format!(", RTT {smoothed:.1} ms smoothed"),
        _ => String::new(),
    };
    let mtu = path.mtu.map(|mtu| format!(", packets of up to {mtu} bytes")).unwrap_or_default();
    let state = path.state.unwrap_or("in use");
    let line = format!("path {} – {}: {state}{rtt}{mtu}", path.local, path.peer);
    let (Some(lost), Some(sent @ 1..)) = (path.retransmitted, path.packets_sent) else {
        return findings.good(line);
    };
    let per_cent = lost as f64 * 100.0 / sent as f64;
    let line = format!("{line}, loss {per_cent:.1} % ({lost} sent again of {sent} packets)");
    match per_cent > MUCH_LOSS.0 && lost >= MUCH_LOSS.1 {
        false => findings.good(line),
        true => findings.note(format_args!(
            "{line}: if a larger transfer loses as many, losses limit the speed; look for a bad cable, weak radio or a full link, \
             or leave the path out with --path"
        )),
    }
}

/// Tries an association over IP, and prints what became of it.
async fn protocol_132(findings: &mut Findings, url: &Url, to: IpAddr) {
    let is_needed = url.scheme == Scheme::FtpSctpIp;
    match ip_reach(url, to).await {
        Ok(IpReach::Served) => {
            findings.good(format_args!("a server answers at {to} over IP protocol 132: ftp+sctp-ip:// works"))
        }
        Ok(IpReach::Aborted) => findings.note(format_args!(
            "{to} answers over IP protocol 132 with an ABORT: packets pass, and no server listens at the SCTP port; there, \
             braidftp serve --listen ftp+sctp-ip://{to}/ opens it"
        )),
        Ok(IpReach::Refused) => findings.note(format_args!(
            "{to} refuses IP protocol 132 (ICMP: protocol unreachable): no SCTP over IP runs there; ftp+sctp:// needs none"
        )),
        Ok(IpReach::Silent) => findings.note(format_args!(
            "{to} does not answer over IP protocol 132 within 1 s: no server listens there with ftp+sctp-ip://, or a firewall or an \
             address translator (NAT) drops the packets; ftp+sctp:// puts them into UDP"
        )),
        Ok(IpReach::Forbidden) => findings.note(format_args!(
            "whether IP protocol 132 reaches {to} was not tried: raw sockets are not allowed; root may, or {SETCAP}"
        )),
        Err(error) if is_needed => findings.bad(error),
        Err(error) => findings.note(format_args!("IP protocol 132 was not tried: {error}")),
    }
}

/// Prints what limits the throughput of one flow over such a path.
fn limits(findings: &Findings, mode: Mode, round_trip: Duration) {
    let window = match mode {
        Mode::Tcp => std::fs::read_to_string("/proc/sys/net/ipv4/tcp_rmem")
            .ok()
            .and_then(|text| text.split_whitespace().last()?.parse::<u64>().ok()),
        _ => Some(64 << 20),
    };
    let Some(window) = window else { return };
    let rate = window as f64 * 8.0 / round_trip.as_secs_f64().max(1e-4);
    findings.note(format_args!(
        "the receive window of {} MiB bounds a download to {} over this round trip; below, the path and its losses do",
        window >> 20,
        crate::progress::bits_a_second(rate)
    ));
    if mode == Mode::Tcp && round_trip > Duration::from_millis(20) {
        findings.note("each small file costs several round trips over TCP: ftp+sctp:// needs none, --parallel hides some");
    }
}

/// Tests alternatives where SCTP over UDP does not work.
async fn ways_around(findings: &mut Findings, url: &Url, addresses: &[SocketAddr]) {
    for address in addresses {
        for port in [TCP_PORT, 2121] {
            let at = SocketAddr::new(address.ip(), port);
            let opened = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(at)).await;
            if matches!(opened, Ok(Ok(_))) {
                findings.note(format_args!("{at} accepts TCP connections: ftp://{at}/ may work meanwhile"));
            }
        }
    }
    if url.scheme == Scheme::FtpSctp {
        let port =
            if url.port == UDP_PORT { "UDP port 9899".to_owned() } else { format!("UDP port {}", url.port) };
        findings.note(format_args!("firewalls on both sides have to let {port} through, in both directions"));
    } else {
        findings.note(
            "many firewalls and all address translators drop IP protocol 132: ftp+sctp:// puts it into UDP",
        );
    }
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_include_shared_and_link_local_ones() {
        for private in [
            "10.1.2.3",
            "192.168.0.1",
            "172.31.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_private(private.parse().unwrap()), "{private}");
        }
        for global in ["192.0.2.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:db8::1"] {
            assert!(!is_private(global.parse().unwrap()), "{global}");
        }
    }
}
