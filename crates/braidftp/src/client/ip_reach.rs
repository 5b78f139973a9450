//! Whether SCTP over IP (protocol 132) reaches a host: one attempt to open an association, which is aborted at once.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_ftp::Mode;
use braidftp_ftp::mapping::CONTROL_PORT;
use braidftp_net::sctp::wire::Cause;
use braidftp_net::{Bind, BindError, Carrier, Connect, Endpoint, Reason};

use super::default_profile;
use crate::exit::{Error, Exit, Result};
use crate::url::{Scheme, Url};

/// How long to wait for an answer.
const ANSWER: Duration = Duration::from_secs(1);

/// What became of an INIT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IpReach {
    /// A server answered: it established the association, or refused it because it is not protected.
    Served,
    /// SCTP answered with an ABORT: nobody listens at the port.
    Aborted,
    /// ICMP: the host has no SCTP over IP.
    Refused,
    /// Nothing came.
    Silent,
    /// This process may not open raw sockets.
    Forbidden,
}

/// Sends INITs over IP to the SCTP port of `url`, or to the default one if its packets travel in another way.
///
/// # Errors
///
/// The socket cannot be opened, or there is no route.
pub(crate) async fn ip_reach(url: &Url, peer: IpAddr) -> Result<IpReach> {
    let failed = |error: &dyn std::fmt::Display| {
        Error::new(Exit::Connect, format!("try protocol 132 to {peer}"), error)
    };
    let any: IpAddr =
        if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let bind = Bind { carrier: Carrier::Ip, linger: Duration::ZERO, ..Bind::to([SocketAddr::new(any, 0)]) };
    let endpoint = match Endpoint::bind(bind) {
        Ok(endpoint) => endpoint,
        Err(BindError::Address { error, .. }) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Ok(IpReach::Forbidden);
        }
        Err(error) => return Err(failed(&error)),
    };
    let connect = Connect {
        local: vec![],
        peer: vec![SocketAddr::new(peer, 0)],
        source_port: None,
        destination_port: if url.scheme == Scheme::FtpSctpIp { url.port } else { CONTROL_PORT },
        // INITs follow each other within a quarter of a second, so that one loss hides no answer.
        config: Arc::new(default_profile(Mode::Braid).config()),
    };
    let association = endpoint.connect(connect).map_err(|error| failed(&error))?;
    let answer = tokio::time::timeout(ANSWER, association.up()).await;
    let has_received = association.stats().paths.iter().any(|path| path.packets_received > 0);
    let reach = match answer {
        Ok(Ok(_)) => IpReach::Served,
        Ok(Err(Reason::PeerAborted(causes))) if causes.contains(&Cause::MissingDtlsSupport) => {
            IpReach::Served
        }
        Ok(Err(_)) if has_received => IpReach::Aborted,
        // ICMP "protocol unreachable" ends an association as an ABORT does.
        Ok(Err(_)) => IpReach::Refused,
        Err(_) => IpReach::Silent,
    };
    if association.reason().is_none() {
        association.abort("a test of reachability");
    }
    endpoint.close().await;
    Ok(reach)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_and_silence_are_distinguished() {
        let url: Url = "ftp+sctp://127.0.98.1/".parse().unwrap();
        let reach = async |last: u8| ip_reach(&url, IpAddr::from([127, 0, 98, last])).await.unwrap();
        if reach(1).await == IpReach::Forbidden {
            println!("skipped: raw sockets are not allowed");
            return;
        }
        // Endpoints over IP of tests that run at the same time see these packets too, and may refuse them: until they end.
        let mut tries = 1;
        while reach(1).await != IpReach::Silent {
            tries += 1;
            assert!(tries <= 60, "somebody answers for an address that nobody has");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let here = SocketAddr::from(([127, 0, 98, 2], 0));
        let bind = Bind { carrier: Carrier::Ip, linger: Duration::ZERO, ..Bind::to([here]) };
        let serving = Endpoint::bind(bind).unwrap();
        let config = Arc::new(default_profile(Mode::Braid).config());
        let _control = serving.listen(CONTROL_PORT, config).unwrap();
        assert_eq!(reach(2).await, IpReach::Served);
    }
}
