//! Two endpoints of the core whose packets and statistics are written.

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Output};
use braidftp_sctp::{AssociationId, Connect, Endpoint, Message, Ppid, Profile, StreamId};

use super::*;

/// The records of a trace. Each must be one JSON text.
fn records(trace: Vec<u8>) -> Vec<Value> {
    let text = String::from_utf8(trace).unwrap();
    let (before, records) = text.split_once('\u{1e}').expect("a record separator");
    assert_eq!(before, "");
    records
        .split('\u{1e}')
        .map(|record| serde_json::from_str(record.strip_suffix('\n').unwrap()).unwrap())
        .collect()
}

fn named<'a>(records: &'a [Value], name: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["name"] == name).map(|record| &record["data"]).collect()
}

/// Delivers the packets that `from` sends to `to`, at once.
fn pass(now: Time, from: &mut Endpoint, to: &mut Endpoint, mut seen: impl FnMut(&Datagram)) {
    loop {
        match from.poll(now) {
            Output::Send(transmit) => {
                for datagram in transmit.into_datagrams() {
                    seen(&datagram);
                    to.handle(now, datagram);
                }
            }
            Output::Event(_) => {}
            Output::Wait(_) => return,
        }
    }
}

/// The trace of a client that sends `message` over a path of 10 ms each way.
fn trace(message: Vec<u8>) -> Vec<Value> {
    let (mut client, mut server) = (Endpoint::new([1; 32]), Endpoint::new([2; 32]));
    let config = Arc::new(Profile::Modern.config());
    server.listen(5, config.clone()).unwrap();
    let (here, there) = ("192.0.2.1:9899".parse().unwrap(), "192.0.2.2:9899".parse().unwrap());
    let connect =
        Connect { local: vec![here], peer: vec![there], source_port: None, destination_port: 5, config };
    let mut now = Time::ZERO;
    let id: AssociationId = client.connect(now, connect).unwrap();
    client.association_mut(id).unwrap().send(StreamId(3), Message::new(Ppid(0), message)).unwrap();
    let mut writer = Writer::new(Vec::new(), "a test", Vantage::Client).unwrap();
    for _ in 0..20 {
        let write = |writer: &mut Writer<_>, at, direction, datagram: &Datagram| {
            let Datagram { from, to, ecn, payload } = datagram.clone();
            writer.packet(&Packet { at, direction, from, to, ecn, payload }).unwrap();
        };
        pass(now, &mut client, &mut server, |it| write(&mut writer, now, Direction::Sent, it));
        now += Duration::from_millis(20);
        pass(now, &mut server, &mut client, |it| write(&mut writer, now, Direction::Received, it));
        writer.stats(now, id.0, &client.association(id).unwrap().stats()).unwrap();
    }
    records(writer.into_inner())
}

#[test]
fn a_trace_begins_with_its_schema_and_has_times_in_order() {
    let records = trace(vec![7; 1_000]);
    assert_eq!(records[0]["serialization_format"], "application/qlog+json-seq");
    assert_eq!(records[0]["trace"]["event_schemas"][0], EVENT_SCHEMA);
    assert_eq!(records[0]["trace"]["vantage_point"]["type"], "client");
    let times: Vec<f64> = records[1..].iter().map(|record| record["time"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] == 0.0 && times.contains(&20.0), "{times:?}");
}

#[test]
fn packets_contain_the_data_of_the_diagrams() {
    let records = trace(vec![7; 5_000]);
    let sent = named(&records, "sctp:packet_sent");
    assert_eq!(sent[0]["path"], "192.0.2.1:9899>192.0.2.2:9899");
    assert_eq!(sent[0]["chunks"][0]["chunk_type"], "init");
    let data: Vec<&Value> = sent
        .iter()
        .flat_map(|packet| packet["chunks"].as_array().unwrap())
        .filter(|chunk| chunk["chunk_type"] == "i_data" || chunk["chunk_type"] == "data")
        .collect();
    let len: u64 = data.iter().map(|chunk| chunk["length"].as_u64().unwrap()).sum();
    assert_eq!(len, 5_000);
    assert!(data.iter().all(|chunk| chunk["stream_id"] == 3));
    let tsns: Vec<u64> = data.iter().map(|chunk| chunk["tsn"].as_u64().unwrap()).collect();
    let last = tsns.last().unwrap();
    let received = named(&records, "sctp:packet_received");
    let acknowledged = received.iter().flat_map(|packet| packet["chunks"].as_array().unwrap());
    let acknowledged = acknowledged.filter_map(|chunk| chunk["cumulative_tsn_ack"].as_u64()).max();
    assert_eq!(acknowledged.as_ref(), Some(last), "{tsns:?}");
}

#[test]
fn statistics_are_written_when_they_change_and_only_what_changed() {
    let records = trace(vec![7; 5_000]);
    let states: Vec<_> =
        named(&records, "sctp:association_state_updated").iter().map(|it| &it["new"]).collect();
    assert_eq!(states.last().unwrap(), &"Established", "{states:?}");
    let metrics = named(&records, "sctp:metrics_updated");
    assert!(metrics[0].get("ssthresh").is_some());
    assert!(metrics[1..].iter().all(|it| it.get("ssthresh").is_none()), "it never changed");
    assert!(metrics.iter().any(|it| it["smoothed_rtt"].as_f64().is_some_and(|rtt| (rtt - 20.0).abs() < 1.0)));
    assert!(metrics.len() < 15, "nothing is written while nothing changes: {}", metrics.len());
    assert_eq!(named(&records, "sctp:path_state_updated")[0]["new"], "Active");
}

#[test]
fn invalid_packets_are_reported() {
    let mut writer = Writer::new(Vec::new(), "", Vantage::Unknown).unwrap();
    let address = "127.0.0.1:1".parse().unwrap();
    for payload in [&b""[..], b"short", &[0xff; 40]] {
        let payload = Bytes::copy_from_slice(payload);
        let (at, direction, ecn) = (Time::ZERO, Direction::Received, Ecn::Ce);
        writer.packet(&Packet { at, direction, from: address, to: address, ecn, payload }).unwrap();
    }
    let records = records(writer.into_inner());
    let packets = named(&records, "sctp:packet_received");
    assert_eq!(packets.len(), 3);
    assert!(packets.iter().all(|it| it["raw"]["error"].is_string() && it["ecn"] == "ce"));
}
