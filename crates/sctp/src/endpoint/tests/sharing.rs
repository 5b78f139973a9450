//! Addresses shared with other stacks: their packets are ignored.

use super::*;

fn to_port(port: u16, tag: VerificationTag, chunk: Chunk) -> Datagram {
    datagram(peer(), Header { destination_port: port, ..to_bench(tag) }, &[chunk])
}

fn everything(port: u16) -> Vec<Datagram> {
    vec![
        to_port(port, VerificationTag(0), Chunk::Init(init())),
        to_port(port, VerificationTag(5), Chunk::CookieEcho(Bytes::from_static(b"cookie"))),
        to_port(port, VerificationTag(5), data(PEER_TSN)),
        to_port(port, VerificationTag(5), Chunk::ShutdownAck),
    ]
}

#[test]
fn without_other_stacks_every_port_is_owned_and_with_others_only_ports_in_use() {
    let mut bench = Bench::new();
    let answers = |bench: &mut Bench, port| {
        everything(port).into_iter().map(|it| bench.tell_raw(it).len()).collect::<Vec<_>>()
    };
    assert_eq!(answers(&mut bench, LOCAL_PORT + 1), [1, 0, 1, 1]);
    bench.endpoint.set_sharing(Sharing::WithOthers);
    assert_eq!(answers(&mut bench, LOCAL_PORT + 1), [0; 4]);
    assert_eq!(bench.endpoint.counters().of_others, 4);
    assert_eq!(answers(&mut bench, LOCAL_PORT), [1, 0, 1, 1], "here it listens");
    bench.endpoint.unlisten(LOCAL_PORT);
    assert_eq!(answers(&mut bench, LOCAL_PORT), [0; 4]);
}

#[test]
fn a_port_counts_as_in_use_during_and_some_time_after_an_association() {
    let mut bench = Bench::new();
    bench.endpoint.set_sharing(Sharing::WithOthers);
    let connect = Connect {
        local: vec![local()],
        peer: vec![peer()],
        source_port: Some(5_000),
        destination_port: PEER_PORT,
        config: Arc::new(config()),
    };
    let late = || to_port(5_000, VerificationTag(5), Chunk::ShutdownAck);
    assert!(bench.tell_raw(late()).is_empty());
    let id = bench.endpoint.connect(bench.now, connect).unwrap();
    assert_eq!(bench.drain()[0].header.source_port, 5_000);
    let complete = |bench: &mut Bench| {
        let answer = bench.tell_raw(late());
        answer.iter().map(Sent::text).collect::<Vec<_>>()
    };
    assert_eq!(complete(&mut bench), ["SHUTDOWN_COMPLETE[flgs=T]"]);
    bench.endpoint.remove(id);
    bench.drain();
    assert!(bench.endpoint.is_empty());
    bench.now += Duration::from_secs(299);
    assert_eq!(complete(&mut bench), ["SHUTDOWN_COMPLETE[flgs=T]"]);
    bench.now += Duration::from_secs(1);
    assert!(bench.tell_raw(late()).is_empty());
}
