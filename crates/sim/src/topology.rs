//! The network topologies of experiments, by name: their links and routes.
//!
//! Each function adds links and routes to a [`World`]; the caller adds the hosts, before or after. A link is
//! one-way, so each connection is a pair `[there, back]`, where "there" leads away from the client, or from
//! left to right.

use std::net::{IpAddr, Ipv4Addr};

use crate::link::LinkConfig;
use crate::world::{Actor, LinkId, World};

/// A connection: there and back.
pub type Both<T> = [T; 2];

/// The address of a host in one of the networks `10.0.0.0/24`, `10.0.1.0/24`, …
pub fn address(network: u8, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, network, host))
}

/// The number of the host that has an address of [`address`], in whichever network.
pub fn host_of(address: IpAddr) -> Option<u8> {
    match address {
        IpAddr::V4(address) => Some(address.octets()[3]),
        IpAddr::V6(_) => None,
    }
}

/// A path: a link there and a link back.
///
/// ```text
/// client ──links──> server
/// ```
pub fn path<H: Actor>(
    world: &mut World<H>,
    client: IpAddr,
    server: IpAddr,
    links: &Both<LinkConfig>,
) -> Both<LinkId> {
    let [there, back] = links.clone().map(|link| world.add_link(link));
    world.route(client, server, there);
    world.route(server, client, back);
    [there, back]
}

/// Several paths that share nothing: the k-th addresses of client and server are joined by the k-th links.
///
/// ```text
///        ┌──links[0]──┐
/// client ┤            ├ server
///        └──links[1]──┘
/// ```
pub fn paths<H: Actor>(
    world: &mut World<H>,
    clients: &[IpAddr],
    servers: &[IpAddr],
    links: &[Both<LinkConfig>],
) -> Vec<Both<LinkId>> {
    assert!(
        clients.len() == links.len() && servers.len() == links.len(),
        "{} and {} addresses for {} paths",
        clients.len(),
        servers.len(),
        links.len()
    );
    let ends = clients.iter().zip(servers);
    ends.zip(links).map(|((client, server), links)| path(world, *client, *server, links)).collect()
}

/// Client and server in separate networks, with a router between them.
///
/// ```text
/// client ──near──> router ──far──> server
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientRouterServer<T> {
    /// Between client and router: there, and back.
    pub near: Both<T>,
    /// Between router and server: there, and back.
    pub far: Both<T>,
}

/// Client, router and server in a row. The way there takes `near[0]` and `far[0]`, the way back `far[1]` and `near[1]`.
pub fn client_router_server<H: Actor>(
    world: &mut World<H>,
    client: IpAddr,
    server: IpAddr,
    links: &ClientRouterServer<LinkConfig>,
) -> ClientRouterServer<LinkId> {
    let near = links.near.clone().map(|link| world.add_link(link));
    let far = links.far.clone().map(|link| world.add_link(link));
    world.route_via(client, server, &[near[0], far[0]]);
    world.route_via(server, client, &[far[1], near[1]]);
    ClientRouterServer { near, far }
}

/// A shared bottleneck, and an access link for each host.
///
/// ```text
/// left[0] ──left──┐                             ┌──right── right[0]
///                 ├ router ──bottleneck── router ┤
/// left[1] ──left──┘                             └──right── right[1]
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dumbbell<T> {
    /// The access links of the left hosts: towards the bottleneck, and back.
    pub left: Vec<Both<T>>,
    /// The bottleneck: from left to right, and back.
    pub bottleneck: Both<T>,
    /// The access links of the right hosts: away from the bottleneck, and back.
    pub right: Vec<Both<T>>,
}

impl Dumbbell<LinkConfig> {
    /// A dumbbell of `pairs` hosts per side with equal access links.
    pub fn of(pairs: usize, access: &LinkConfig, bottleneck: &LinkConfig) -> Self {
        let access = vec![[access.clone(), access.clone()]; pairs];
        Self { left: access.clone(), bottleneck: [bottleneck.clone(), bottleneck.clone()], right: access }
    }
}

/// The addresses of a dumbbell's hosts on the left and on the right, numbered from 0.
pub fn dumbbell_addresses(pairs: usize) -> Both<Vec<IpAddr>> {
    [10, 20].map(|net| {
        let host = |number: usize| IpAddr::V4(Ipv4Addr::from_bits(net << 24 | (number as u32 + 1)));
        (0..pairs).map(host).collect()
    })
}

/// A dumbbell: every host on the left reaches every host on the right, over three links.
pub fn dumbbell<H: Actor>(
    world: &mut World<H>,
    left: &[IpAddr],
    right: &[IpAddr],
    links: &Dumbbell<LinkConfig>,
) -> Dumbbell<LinkId> {
    assert!(
        left.len() == links.left.len() && right.len() == links.right.len(),
        "{} and {} addresses for {} and {} links",
        left.len(),
        right.len(),
        links.left.len(),
        links.right.len()
    );
    let ids = Dumbbell {
        bottleneck: links.bottleneck.clone().map(|link| world.add_link(link)),
        left: links.left.iter().map(|links| links.clone().map(|link| world.add_link(link))).collect(),
        right: links.right.iter().map(|links| links.clone().map(|link| world.add_link(link))).collect(),
    };
    for (here, near) in left.iter().zip(&ids.left) {
        for (there, far) in right.iter().zip(&ids.right) {
            world.route_via(*here, *there, &[near[0], ids.bottleneck[0], far[0]]);
            world.route_via(*there, *here, &[far[1], ids.bottleneck[1], near[1]]);
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use braidftp_base::{Datagram, Ecn, Output, Time};
    use bytes::Bytes;

    use super::*;

    /// Sends the given datagrams and stores those received.
    #[derive(Debug, Default)]
    struct Mute {
        to_send: VecDeque<Datagram>,
        got: Vec<(Time, IpAddr)>,
    }

    impl Actor for Mute {
        fn handle(&mut self, now: Time, datagram: Datagram) {
            self.got.push((now, datagram.from.ip()));
        }

        fn poll(&mut self, _now: Time) -> Output<Datagram, Infallible> {
            self.to_send.pop_front().map_or(Output::Wait(None), Output::Send)
        }
    }

    fn datagram(from: IpAddr, to: IpAddr) -> Datagram {
        let [from, to] = [from, to].map(|ip| SocketAddr::new(ip, 0));
        Datagram { from, to, ecn: Ecn::NotEct, payload: Bytes::from_static(&[0; 1_480]) }
    }

    fn link(text: &str) -> LinkConfig {
        let mut config = LinkConfig { overhead_bytes: 20, ..LinkConfig::default() };
        config.apply(text).unwrap();
        config
    }

    #[test]
    fn a_router_stores_a_packet_before_it_forwards_it() {
        let mut world = World::new(1);
        let (client, server) = (address(0, 1), address(1, 1));
        let near = link("rate=12mbit,delay=1ms");
        let far = link("rate=3mbit,delay=10ms");
        let links =
            ClientRouterServer { near: [near.clone(), near.clone()], far: [far.clone(), far.clone()] };
        let ids = client_router_server(&mut world, client, server, &links);
        let to_send = [datagram(client, server), datagram(client, server)].into();
        world.add_host(Mute { to_send, ..Mute::default() }, [client]);
        let answer = [datagram(server, client)].into();
        let there = world.add_host(Mute { to_send: answer, ..Mute::default() }, [server]);
        world.run_until(Time::from_millis(100));
        // 1 ms on the first wire and 1 ms of delay, 4 ms on the second and 10 ms of delay; the second packet
        // waits for the first.
        let times: Vec<_> = world.host(there).got.iter().map(|(at, _)| at.as_nanos() / 1_000).collect();
        assert_eq!(times, [16_000, 20_000]);
        assert_eq!(world.link(ids.near[0]).counters().packets_out, 2);
        assert_eq!(world.link(ids.far[1]).counters().packets_out, 1);
        assert_eq!(world.link(ids.near[1]).counters().packets_out, 1);
    }

    #[test]
    fn in_a_dumbbell_every_left_host_reaches_every_right_host_over_three_links() {
        let [left, right] = dumbbell_addresses(3);
        let mut world = World::new(1);
        let ids =
            dumbbell(&mut world, &left, &right, &Dumbbell::of(3, &link("delay=1ms"), &link("delay=2ms")));
        let mut hosts = Vec::new();
        for here in &left {
            let to_send = right.iter().map(|there| datagram(*here, *there)).collect();
            world.add_host(Mute { to_send, ..Mute::default() }, [*here]);
        }
        for here in &right {
            let to_send = [datagram(*here, left[0])].into();
            hosts.push(world.add_host(Mute { to_send, ..Mute::default() }, [*here]));
        }
        world.run_until(Time::from_millis(100));
        for host in hosts {
            assert_eq!(
                world.host(host).got,
                left.iter().map(|from| (Time::from_millis(4), *from)).collect::<Vec<_>>()
            );
        }
        let out = |link: LinkId| world.link(link).counters().packets_out;
        assert_eq!(ids.bottleneck.map(out), [9, 3]);
        assert_eq!(ids.left[0].map(out), [3, 3]);
        assert_eq!(ids.left[1].map(out), [3, 0]);
        assert_eq!(ids.right[2].map(out), [3, 1]);
        assert_eq!(world.packet_events(), 12 * 3 * 3);
    }

    #[test]
    fn paths_share_no_links() {
        let mut world = World::new(1);
        let (clients, servers) = ([address(0, 1), address(1, 1)], [address(0, 2), address(1, 2)]);
        let links = [link("delay=1ms"), link("delay=5ms")].map(|link| [link.clone(), link]);
        let ids = paths(&mut world, &clients, &servers, &links);
        let to_send = [0, 1].map(|k| datagram(clients[k], servers[k])).into();
        world.add_host(Mute { to_send, ..Mute::default() }, clients);
        let there = world.add_host(Mute::default(), servers);
        world.run_until(Time::from_millis(100));
        let expected = [(Time::from_millis(1), clients[0]), (Time::from_millis(5), clients[1])];
        assert_eq!(world.host(there).got, expected);
        assert_eq!(ids.len(), 2);
    }
}
