//! Tests of the relay between real sockets on loopback. No test depends on timing: due packets must arrive in
//! the end.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_emu::{LinkConfig, Relay, RelayConfig, RelayHandle};
use braidftp_sim::Link;

/// Far longer than any test takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

fn relay(to: &UdpSocket, change: impl FnOnce(&mut RelayConfig)) -> RelayHandle {
    let mut config = RelayConfig::new("127.0.0.1:0".parse().unwrap(), to.local_addr().unwrap());
    change(&mut config);
    Relay::spawn(config).unwrap()
}

fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 2_000];
    let (length, from) = socket.recv_from(&mut buffer).unwrap();
    (buffer[..length].to_vec(), from)
}

fn config(text: &str) -> LinkConfig {
    text.parse().unwrap()
}

#[test]
fn each_client_gets_its_own_answers() {
    let server = socket();
    let relay = relay(&server, |config| config.forward.delay = Duration::from_millis(2));
    let clients = [socket(), socket(), socket()];
    for (number, client) in clients.iter().enumerate() {
        client.send_to(&[number as u8; 1_200], relay.local_addr()).unwrap();
    }
    for _ in &clients {
        let (payload, from) = receive(&server);
        server.send_to(&payload, from).unwrap();
    }
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(receive(client), (vec![number as u8; 1_200], relay.local_addr()));
    }
    let counters = relay.stop();
    assert_eq!((counters.clients, counters.refused, counters.unsent), (3, 0, 0));
    for link in [counters.forward, counters.back] {
        assert_eq!((link.packets_in, link.packets_out, link.bytes_out), (3, 3, 3 * 1_228));
        assert!(link.is_conserved());
    }
}

#[test]
fn packets_are_lost_and_kept_as_in_the_simulation() {
    let text = "loss=0.3,duplicate=0.1,corrupt=0.1";
    let packet = |number: u8| vec![number; 100];

    let mut simulated = Link::new(config(text), 7, 0);
    let mut expected = Vec::new();
    for number in 0..=255 {
        let any = "127.0.0.1:1".parse().unwrap();
        let payload = packet(number).into();
        simulated.handle(Time::ZERO, Datagram { from: any, to: any, ecn: Ecn::NotEct, payload });
        while let Output::Send(datagram) = simulated.poll(Time::ZERO) {
            expected.push(datagram.payload.to_vec());
        }
    }

    let server = socket();
    let relay = relay(&server, |relay| (relay.forward, relay.seed) = (config(text), 7));
    let client = socket();
    for number in 0..=255 {
        client.send_to(&packet(number), relay.local_addr()).unwrap();
        // The kernel buffers only a few hundred small datagrams.
        while number % 16 == 15 && relay.counters().forward.packets_in <= number.into() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let got: Vec<_> = expected.iter().map(|_| receive(&server).0).collect();
    assert_eq!(got, expected);
    assert_eq!(relay.stop().forward, simulated.counters());
}

#[test]
fn ecn_marks_are_preserved() {
    use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
    let (server, client) = (socket(), socket());
    let server_state = UdpSocketState::new((&server).into()).unwrap();
    let client_state = UdpSocketState::new((&client).into()).unwrap();
    server.set_nonblocking(false).unwrap();
    let relay = relay(&server, |_| {});
    for ecn in [Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ect1), Some(EcnCodepoint::Ce), None] {
        let transmit = Transmit {
            destination: relay.local_addr(),
            ecn,
            contents: b"marked",
            segment_size: None,
            src_ip: None,
        };
        client_state.try_send((&client).into(), &transmit).unwrap();
        let (mut buffer, mut meta) = ([0; 2_000], [RecvMeta::default()]);
        let slices = &mut [std::io::IoSliceMut::new(&mut buffer)];
        server_state.recv((&server).into(), slices, &mut meta).unwrap();
        assert_eq!((meta[0].len, meta[0].ecn), (6, ecn));
    }
}

#[test]
fn a_client_beyond_the_limit_is_refused_and_the_first_still_served() {
    let server = socket();
    let relay = relay(&server, |config| config.clients_max = 1);
    let (first, second) = (socket(), socket());
    first.send_to(b"one", relay.local_addr()).unwrap();
    assert_eq!(receive(&server).0, b"one");
    second.send_to(b"two", relay.local_addr()).unwrap();
    first.send_to(b"three", relay.local_addr()).unwrap();
    assert_eq!(receive(&server).0, b"three");
    let counters = relay.stop();
    assert_eq!((counters.clients, counters.refused), (1, 1));
}

#[test]
fn an_idle_client_makes_room_for_another() {
    let server = socket();
    let relay = relay(&server, |config| (config.clients_max, config.idle) = (1, Duration::ZERO));
    let (first, second) = (socket(), socket());
    first.send_to(b"one", relay.local_addr()).unwrap();
    let (_, upstream) = receive(&server);
    second.send_to(b"two", relay.local_addr()).unwrap();
    let (payload, other) = receive(&server);
    assert_eq!(payload, b"two");
    assert_ne!(upstream, other);
    assert_eq!(relay.stop().clients, 2);
}

#[test]
fn datagrams_from_other_addresses_to_the_upstream_port_are_ignored() {
    let (server, stranger, client) = (socket(), socket(), socket());
    let relay = relay(&server, |_| {});
    client.send_to(b"hello", relay.local_addr()).unwrap();
    let (_, upstream) = receive(&server);
    stranger.send_to(b"forged", upstream).unwrap();
    server.send_to(b"true", upstream).unwrap();
    assert_eq!(receive(&client).0, b"true");
    assert_eq!(relay.stop().back.packets_in, 1);
}

#[test]
fn the_error_for_a_port_in_use_suggests_a_remedy() {
    let (server, taken) = (socket(), socket());
    let config = RelayConfig::new(taken.local_addr().unwrap(), server.local_addr().unwrap());
    let error = Relay::spawn(config).unwrap_err().to_string();
    assert!(error.contains("another program has that port") && error.contains("ss -ulpn"), "{error}");
}

#[test]
fn the_error_for_an_address_of_another_machine_says_so() {
    let server = socket();
    let config = RelayConfig::new("192.0.2.1:22000".parse().unwrap(), server.local_addr().unwrap());
    let error = Relay::spawn(config).unwrap_err().to_string();
    assert!(error.contains("use an address of this machine"), "{error}");
}

#[test]
fn both_hops_are_captured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relay.pcapng");
    let (server, client) = (socket(), socket());
    let relay = relay(&server, |config| config.pcap = Some(path.clone()));
    client.send_to(b"needle", relay.local_addr()).unwrap();
    receive(&server);
    assert_eq!(relay.stop().pcap_error, None);
    let file = std::fs::read(&path).unwrap();
    assert_eq!(file.windows(6).filter(|window| window == b"needle").count(), 2);
    // From and to 127.0.0.1, never 0.0.0.0.
    let both_ends = [127, 0, 0, 1, 127, 0, 0, 1];
    assert_eq!(file.windows(8).filter(|window| *window == both_ends).count(), 2);

    let error = Relay::spawn(RelayConfig {
        pcap: Some(folder.path().join("no/such/folder.pcapng")),
        ..RelayConfig::new("127.0.0.1:0".parse().unwrap(), server.local_addr().unwrap())
    });
    assert!(error.unwrap_err().to_string().starts_with("cannot write the capture file"));
}

#[test]
fn ipv6_clients_reach_an_ipv4_target() {
    let Ok(client) = UdpSocket::bind("[::1]:0") else {
        eprintln!("SKIPPED: no IPv6 loopback here");
        return;
    };
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let server = socket();
    let relay = relay(&server, |config| config.listen = "[::1]:0".parse().unwrap());
    client.send_to(b"six", relay.local_addr()).unwrap();
    let (payload, from) = receive(&server);
    assert_eq!(payload, b"six");
    server.send_to(b"four", from).unwrap();
    assert_eq!(receive(&client).0, b"four");
}
