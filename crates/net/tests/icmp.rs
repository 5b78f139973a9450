//! ICMP messages of routers and hosts reach the core: over a route with a smaller MTU, and from hosts without SCTP. Needs
//! namespaces, which need root; without them the tests are skipped with a notice.

mod common;
mod usrsctp_support;

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::sync::Arc;

use braidftp_emu::wires::{End, Wire, Wires};
use braidftp_net::{Association, Bind, Carrier, Connect, Endpoint, Profile, Reason};
use common::{PORT, receive_all, send_all, soon};
use usrsctp_support::{inside, wires};

const TOTAL: usize = 2_000_000;
/// The MTU beyond the router.
const NARROW: usize = 1_300;

/// The server's second address: not on the wire, but behind the router that its host is.
fn beyond(family: usize) -> IpAddr {
    [IpAddr::from([10, 9, 9, 1]), IpAddr::from([0xfd00, 9, 0, 0, 0, 0, 0, 1])][family]
}

fn run(mut command: Command, words: &str) {
    let output = command.args(words.split(' ')).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn ip(wires: &Wires, end: End, words: &str) {
    run(wires.command(end, "ip"), words);
}

/// A third host behind the server's, over a device with a smaller MTU; the server's host is the router.
struct Beyond {
    name: String,
}

impl Beyond {
    fn new(wires: &Wires, family: usize, wire: Wire, carrier: Carrier) -> Self {
        let it = Self { name: format!("bi{}-{}{family}", std::process::id(), carrier as u8) };
        run(Command::new("ip"), &format!("netns add {}", it.name));
        let router = wires.path(End::Server).file_name().unwrap().to_str().unwrap().to_owned();
        run(
            Command::new("ip"),
            &format!(
                "link add far address 02:00:00:00:99:02 netns {router} type veth peer name near address 02:00:00:00:99:01 netns {}",
                it.name
            ),
        );
        let (own, gate, prefix) =
            [("10.9.9.1", "10.9.9.2", "10.9.9.0/24"), ("fd00:9::1", "fd00:9::2", "fd00:9::/64")][family];
        let bits = [24, 64][family];
        let nodad = ["", " nodad"][family];
        ip(wires, End::Server, &format!("address add {gate}/{bits} dev far{nodad}"));
        ip(wires, End::Server, &format!("link set far mtu {NARROW} up"));
        let sysctl = ["net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1"][family];
        run(wires.command(End::Server, "sysctl"), &format!("-q -w {sysctl}"));
        it.ip(&format!("address add {own}/{bits} dev near{nodad}"));
        it.ip("link set lo up");
        it.ip(&format!("link set near mtu {NARROW} up"));
        it.ip(&format!("neigh replace {gate} lladdr 02:00:00:00:99:02 nud permanent dev near"));
        ip(
            wires,
            End::Server,
            &format!("neigh replace {own} lladdr 02:00:00:00:99:01 nud permanent dev far"),
        );
        it.ip(&format!("route add default via {gate}"));
        ip(wires, End::Client, &format!("route add {prefix} via {}", wire.server));
        it
    }

    fn ip(&self, words: &str) {
        run(Command::new("ip"), &format!("-n {} {words}", self.name));
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.name]).output();
    }
}

fn bind(carrier: Carrier, ip: IpAddr) -> Endpoint {
    let port = if carrier == Carrier::Udp { 9_899 } else { 0 };
    Endpoint::bind(Bind { carrier, ..Bind::to([SocketAddr::new(ip, port)]) }).unwrap()
}

fn connect(endpoint: &Endpoint, carrier: Carrier, peer: IpAddr) -> Association {
    let port = if carrier == Carrier::Udp { 9_899 } else { 0 };
    let peer = SocketAddr::new(peer, port);
    let config = Arc::new(Profile::Modern.config());
    endpoint.connect(Connect { config, ..Connect::to([peer], PORT) }).unwrap()
}

/// A transfer through the router whose first packets are too large, as the router reports.
fn through_a_router(carrier: Carrier, family: usize) {
    let wire = [Wire::v4(7), Wire::v6(7)][family];
    let Some(wires) = wires(&[wire], None) else { return };
    let beyond_it = Beyond::new(&wires, family, wire, carrier);
    let path = std::path::PathBuf::from("/run/netns").join(&beyond_it.name);
    let (up, is_up) = tokio::sync::oneshot::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            inside(&path, async {
                let listener =
                    bind(carrier, beyond(family)).listen(PORT, Arc::new(Profile::Modern.config())).unwrap();
                up.send(()).unwrap();
                let server = soon(listener.accept()).await.unwrap();
                soon(receive_all(server.clone(), 0, TOTAL)).await;
                soon(server.closed()).await;
            });
        });
        let client = inside(&wires.path(End::Client), async {
            is_up.await.unwrap();
            let endpoint = bind(carrier, wire.client);
            let client = connect(&endpoint, carrier, beyond(family));
            soon(send_all(client.clone(), 0, TOTAL, 50_000)).await;
            assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
            client.stats()
        });
        let path = &client.paths[0];
        let headers = if family == 0 { 20 } else { 40 } + if carrier == Carrier::Udp { 8 } else { 0 };
        // The MTU is the reported one, not one found by probing.
        assert_eq!(path.mtu, (NARROW - headers) & !3, "{path:?}");
    });
}

#[test]
fn packet_too_big_reduces_the_packet_size_over_ip() {
    (0..2).for_each(|family| through_a_router(Carrier::Ip, family));
}

#[test]
fn packet_too_big_reduces_the_packet_size_over_udp() {
    (0..2).for_each(|family| through_a_router(Carrier::Udp, family));
}

#[test]
fn protocol_unreachable_is_reported_at_once() {
    for wire in [Wire::v4(8), Wire::v6(8)] {
        let Some(wires) = wires(&[wire], None) else { return };
        inside(&wires.path(End::Client), async {
            let endpoint = bind(Carrier::Ip, wire.client);
            let client = connect(&endpoint, Carrier::Ip, wire.server);
            let closed = soon(client.closed()).await;
            assert!(matches!(closed, Reason::PeerAborted(_)), "not for lack of an answer: {closed:?}");
        });
    }
}
