//! Adds the two hosts of a session to a world.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use braidftp_ftp::mapping::{CONTROL_PORT, Mode};
use braidftp_keys::Settings as KeySettings;
use braidftp_sctp::{self as sctp, AllowedPath, Config, Endpoint};
use braidftp_tcp as tcp;

use super::bundle::{self, Bundle};
use super::client::{self, Carrier, Client};
use super::node::{HostApp, Node, Side};
use super::server::{self, Server};
use super::store::{self, Store};
use super::tap::Shared;
use super::{ACK_DICE, CLIENT, Holds, Nat, NatBox, RANDOM_STREAM, SERVER, Session, Watch, address};
use crate::host::{Endpoints, Host};
use crate::random::Random;
use crate::world::World;

/// The configurations of the session's associations.
struct Configs {
    /// The client's association with the control port.
    control: Arc<Config>,
    /// The client's data associations.
    client_data: Arc<Config>,
    /// The server's associations with its control port.
    accepting: Arc<Config>,
    /// The server's data associations.
    server_data: Arc<Config>,
    /// The key management of client and server, if packets are protected.
    keys: Option<[KeySettings; 2]>,
}

impl Session {
    /// Adds both hosts to a world, client first; `network` adds the links and routes between their addresses, one of each
    /// for each path. The client has begun.
    ///
    /// # Panics
    /// If there is no path.
    pub fn join<H: Holds>(
        &self,
        world: &mut World<H>,
        network: impl FnOnce(&mut World<H>, &[IpAddr], &[IpAddr]),
    ) -> [crate::HostId; 2] {
        assert!(!self.paths.is_empty(), "there is a path");
        let [outside, there] = [CLIENT, SERVER]
            .map(|host| (0..self.paths.len()).map(|path| address(path, host)).collect::<Vec<_>>());
        let (here, nat) = self.behind_nat(&outside);
        let mut random = Random::new(self.seed, RANDOM_STREAM);
        let mut endpoints = || {
            let seed = random.seed();
            let tcp = tcp::Endpoint::new(random.below(u64::MAX));
            Endpoints { sctp: Endpoint::new(seed), tcp }
        };
        let (mut client_ends, mut server_ends) = (endpoints(), endpoints());
        let configs = self.configs(&here, &there);
        if self.paths.len() > 1 {
            server_ends.sctp.set_addresses(there.clone(), sctp::Announce::Always);
            client_ends.sctp.set_addresses(here.clone(), sctp::Announce::Always);
        }
        let accepting = configs.accepting.clone();
        server_ends.sctp.listen(CONTROL_PORT, accepting).expect("a fresh endpoint listens nowhere");
        let bundles = self.listen_tcp(&mut server_ends.tcp);

        let (client, server) = self.parties(&configs, here, there.clone());
        let overhead = self.paths[0][0].overhead_bytes;
        let is_shared = self.variant.carrier(self.data_streams) == Carrier::Bundle(1, 2);
        let shared = if is_shared { Shared::Yes } else { Shared::No };
        let watched = Watch { silence: self.watch.silence, ..Watch::default() };
        let client = HostApp::new(Side::Client(Box::new(client)), Vec::new(), watched);
        let mut client = Host::new(client_ends, client);
        let mut server = Host::new(server_ends, HostApp::new(Side::Server(server), bundles, self.watch));
        if let Some([of_client, of_server]) = configs.keys {
            (client, server) = (client.protected(of_client), server.protected(of_server));
        }
        let (endpoints, party) = client.parts_mut();
        party.start(endpoints);

        let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
        let loses = self.lost_acks.map(|part| (Random::new(self.seed, ACK_DICE), part));
        let client = Node::new(client, overhead, shared, nat, loses);
        let client = world.add_host(client.into(), ips(&outside));
        let server = world.add_host(Node::new(server, overhead, shared, None, None).into(), ips(&there));
        network(world, &ips(&outside), &ips(&there));
        [client, server]
    }

    /// The client's own addresses, and its NAT, if there is one.
    fn behind_nat(&self, outside: &[SocketAddr]) -> (Vec<SocketAddr>, Option<Nat>) {
        let mut here = outside.to_vec();
        let nat = match self.nat {
            NatBox::None => None,
            NatBox::InFrontOfClient => {
                here[0] = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 168, 0, 2)), 0);
                Some(Nat { inside: here[0].ip(), outside: outside[0].ip() })
            }
        };
        (here, nat)
    }

    fn configs(&self, here: &[SocketAddr], there: &[SocketAddr]) -> Configs {
        let mode = self.variant.mode();
        let streams = mode.streams(self.data_streams).unwrap_or(1);
        let several = self.paths.len() > 1;
        let allowed = |from: &[SocketAddr], to: &[SocketAddr]| {
            let pairs = from.iter().zip(to).filter(|_| several);
            pairs.map(|(from, to)| AllowedPath { local: from.ip(), peer: Some(to.ip()) }).collect()
        };
        let mut config = self.sctp.clone();
        if mode == Mode::Braid {
            let needed = usize::from(self.data_streams) * (256 << 10) + (128 << 10);
            config.memory.receive_buffer_bytes = config.memory.receive_buffer_bytes.max(needed);
        }
        let identity = config.security.dtls.take();
        let identity = identity.map(|_| self.identity.clone().unwrap_or_default());
        let keys = identity.map(|identity| [identity.client(), identity.server()]);
        let [of_client, of_server] = [0, 1].map(|side| keys.as_ref().map(|keys| keys[side].dtls()));
        let client_config = |streams: u16| {
            Arc::new(config.clone().with(|c| {
                c.security.dtls = of_client.clone();
                c.streams.outbound = streams;
                c.streams.inbound = streams;
                c.paths.allowed = allowed(here, there);
            }))
        };
        let accepting = Arc::new(config.clone().with(|c| {
            c.security.dtls = of_server.clone();
            c.streams.outbound = 65;
            c.streams.inbound = 65;
        }));
        let server_data = Arc::new(config.clone().with(|c| {
            c.security.dtls = of_server;
            c.streams.outbound = 1;
            c.streams.inbound = 1;
            c.paths.allowed = allowed(there, here);
        }));
        let (control, client_data) = (client_config(streams), client_config(1));
        Configs { control, client_data, accepting, server_data, keys }
    }

    /// Listens on the TCP ports that the variant uses. Returns the server's bundles of connections, one for each login.
    fn listen_tcp(&self, endpoint: &mut tcp::Endpoint) -> Vec<Bundle> {
        match self.variant.carrier(self.data_streams) {
            Carrier::Sctp => Vec::new(),
            Carrier::Tcp => {
                // As in BSD's ftpd, so that no reply waits for the acknowledgement of the previous one.
                let control = Arc::new(tcp::Config { nagle: false, ..self.tcp.clone() });
                endpoint.listen(CONTROL_PORT, control).expect("it listens nowhere");
                Vec::new()
            }
            Carrier::Bundle(connections, streams) => {
                let config = Arc::new(self.tcp.clone());
                for line in 0..connections as u16 {
                    endpoint.listen(bundle::PORT + line, config.clone()).expect("it does not listen there");
                }
                (0..self.attempts).map(|_| Bundle::new(connections, streams)).collect()
            }
        }
    }

    fn parties(&self, configs: &Configs, here: Vec<SocketAddr>, there: Vec<SocketAddr>) -> (Client, Server) {
        let mode = self.variant.mode();
        let (store, tcp) = (Arc::new(Store::new(self.files.clone())), Arc::new(self.tcp.clone()));
        let server = Server::new(
            server::Settings {
                local: there.clone(),
                sctp: configs.server_data.clone(),
                tcp: tcp.clone(),
                message_bytes: self.message_bytes.clamp(1, store::SLICE_MAX),
                handshake: self.handshake,
            },
            store.clone(),
        );
        let client = Client::new(
            client::Settings {
                mode,
                local: here,
                // The papers' programs connect to one address, and learn of the others when they are connected.
                server: if mode == Mode::Braid { there } else { vec![there[0]] },
                sctp: configs.control.clone(),
                data_sctp: configs.client_data.clone(),
                tcp,
                carrier: self.variant.carrier(self.data_streams),
                data_streams: self.data_streams,
                attempts: self.attempts,
                patience: self.patience,
                asks: self.asks,
                dialog: self.dialog,
                ends: self.ends,
            },
            store,
        );
        (client, server)
    }
}
