//! The kernel's TCP over simulated links. The tests print SKIPPED where TUN devices are not permitted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use braidftp_emu::tun::{Net, TunConfig};

fn up(link: &str) -> Option<Net> {
    let link: braidftp_emu::LinkConfig = link.parse().unwrap();
    match Net::up(TunConfig { forward: link.clone(), back: link, seed: 7, ..TunConfig::default() }) {
        Ok(net) => Some(net),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// Sends `bytes` bytes from server to client over one connection; returns what the client received.
fn bulk(net: &Net, bytes: usize) -> Vec<u8> {
    let listener = net.server().run(|| TcpListener::bind((Net::SERVER, 2121)).unwrap());
    let serving = net.server().spawn(move || {
        let (mut stream, from) = listener.accept().unwrap();
        assert_eq!(from.ip(), Net::CLIENT);
        let data: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        stream.write_all(&data).unwrap();
    });
    let got = net.client().run(|| {
        let mut got = Vec::new();
        TcpStream::connect((Net::SERVER, 2121)).unwrap().read_to_end(&mut got).unwrap();
        got
    });
    serving.join();
    got
}

#[test]
fn tcp_moves_bytes_and_every_packet_is_accounted_for() {
    const BYTES: usize = 2_000_000;
    let Some(net) = up("rate=20mbit,delay=5ms,loss=0.01,queue=100p") else { return };
    let got = bulk(&net, BYTES);
    assert_eq!(got.len(), BYTES);
    assert!(got.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8));
    let counters = net.down();
    for link in [counters.forward, counters.back] {
        assert!(link.is_conserved() && link.packets_out > 100, "{counters:?}");
    }
    let back = counters.back;
    assert!(back.dropped_loss > 0 && back.bytes_out as usize > BYTES, "{back:?}");
    assert!(back.bytes_in / back.packets_in <= 1_500, "without offloads, packets are at most the MTU");
}

#[test]
fn several_nets_are_isolated_from_each_other() {
    let (Some(one), Some(two)) = (up("delay=1ms"), up("delay=1ms")) else { return };
    assert_eq!(bulk(&one, 10_000).len(), 10_000);
    let before = two.counters();
    assert_eq!((before.forward.packets_in, before.back.packets_in), (0, 0));
    assert_eq!(bulk(&two, 10_000).len(), 10_000);
}

#[test]
fn a_net_is_invisible_in_the_hosts_own_namespace() {
    let Some(net) = up("") else { return };
    let devices = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    assert!(net.client().run(devices).contains("braid0"));
    assert!(!devices().contains("braid0"));
}

#[test]
fn a_panic_in_a_host_is_a_panic_here() {
    let Some(net) = up("") else { return };
    let running = net.client().spawn(|| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.join())).is_err());
    assert_eq!(net.client().run(|| 7), 7, "the host is still usable");
}

/// Measures precision, not correctness: `cargo test --release -p braidftp-emu --test tun -- --ignored
/// --nocapture`.
#[test]
#[ignore = "measures time, which depends on the machine"]
fn measure_goodput_against_the_rate() {
    for (rate, text) in
        [(20e6, "rate=20mbit,delay=5ms,queue=500kB"), (500e6, "rate=500mbit,delay=1ms,queue=1MB")]
    {
        let Some(net) = up(text) else { return };
        let started = std::time::Instant::now();
        let bytes = (rate / 8.0 * 4.0) as usize;
        bulk(&net, bytes);
        let seconds = started.elapsed().as_secs_f64();
        let counters = net.down();
        println!(
            "{text}: goodput {:.1} Mbit/s, {:.3} of the limit; late by {:?} on average, {:?} at worst, dropped {}, peak {}",
            bytes as f64 * 8.0 / seconds / 1e6,
            bytes as f64 * 8.0 / seconds / rate * 1500.0 / 1448.0,
            counters.late.mean(),
            counters.late.max,
            counters.back.dropped_queue,
            counters.back.queue_peak_bytes
        );
    }
}
