//! Paths over shared links between network namespaces. The tests print SKIPPED where TUN devices are not permitted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use braidftp_emu::LinkConfig;
use braidftp_emu::mesh::{Change, Mesh, MeshConfig, Path, address};

const BYTES: usize = 200_000;

fn up(config: MeshConfig) -> Option<Mesh> {
    Mesh::up(config).map_err(|error| eprintln!("SKIPPED: {error}")).ok()
}

/// Sends bytes from the first host of a pair to the second on a path; returns how many arrived.
fn send(mesh: &Mesh, pair: usize, path: usize) -> usize {
    let to = (address(pair, path, 1), 2121);
    let listener = mesh.host(pair, 1).run(move || TcpListener::bind(to).unwrap());
    let writing = mesh.host(pair, 0).spawn(move || {
        TcpStream::connect(to).unwrap().write_all(&vec![7; BYTES]).unwrap();
    });
    let read = mesh.host(pair, 1).run(move || {
        let mut read = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut read).unwrap();
        read.len()
    });
    writing.join();
    read
}

#[test]
fn packets_pass_the_links_of_their_paths_and_pairs_share_them() {
    let link = |text: &str| text.parse::<LinkConfig>().unwrap();
    // Links 0 and 1 are a bottleneck that both pairs share, 2 and 3 the access link of the first.
    let first = vec![Path { there: vec![2, 0], back: vec![1, 3] }, Path { there: vec![3], back: vec![2] }];
    let second = vec![Path { there: vec![1], back: vec![0] }];
    let links = vec![link("rate=50mbit,delay=1ms"), link("delay=1ms"), link("delay=1ms"), link("delay=1ms")];
    let config = MeshConfig { links, pairs: vec![first, second], changes: Vec::new(), seed: 1, mtu: 1_500 };
    let Some(mut mesh) = up(config) else { return };
    let moving = mesh.start().unwrap();
    assert_eq!(send(&mesh, 0, 0), BYTES);
    let device = mesh.device(0, 0, 1);
    std::thread::sleep(Duration::from_millis(50));
    let passed = moving.passed();
    assert!(passed.devices[device].data_bytes as usize >= BYTES, "{passed:?}");
    assert!(passed.devices[device].last_data > passed.devices[mesh.device(0, 0, 0)].first_sent);
    assert_eq!(passed.devices[mesh.device(0, 1, 1)].data_bytes, 0, "its other path was not used");
    assert_eq!(send(&mesh, 0, 1), BYTES);
    assert_eq!(send(&mesh, 1, 0), BYTES);
    let passed = moving.stop();
    let out = |link: usize| passed.links[link].bytes_out as usize;
    // Data there on 2 and 0, then on 3, then against the direction of the bottleneck on 1.
    assert!((0..4).all(|link| out(link) > BYTES), "{passed:?}");
    assert!(out(0) < 2 * BYTES, "one transfer's data passed it: {passed:?}");
    assert!(passed.links.iter().all(|link| link.is_conserved()), "{passed:?}");
}

#[test]
fn a_change_of_a_link_takes_effect_at_its_time() {
    let link = |text: &str| text.parse::<LinkConfig>().unwrap();
    let pairs = vec![vec![Path { there: vec![0], back: vec![1] }]];
    let changes = vec![Change { at: Duration::from_millis(30), link: 0, config: link("delay=1ms") }];
    // Until the change all packets are lost: the connection opens with a repeated SYN.
    let links = vec![link("loss=1"), link("delay=1ms")];
    let Some(mut mesh) = up(MeshConfig { links, pairs, changes, seed: 1, mtu: 1_500 }) else { return };
    let moving = mesh.start().unwrap();
    assert_eq!(send(&mesh, 0, 0), BYTES);
    assert!(moving.stop().links[0].packets_out > 0);
}
