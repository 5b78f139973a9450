//! `Bind::pcap`: the packets of an endpoint as tshark reads them. `Bind::packet_log`: the same as text.

mod common;
mod usrsctp_support;

use std::process::Command;
use std::sync::Arc;

use braidftp_emu::wires::End;
use braidftp_net::{Bind, BindError, Carrier, Connect, Endpoint, Profile, Reason};
use common::{PORT, has_ipv6_loopback, receive_all, send_all, soon, to};
use usrsctp_support::{inside, wires};

async fn tshark_reads(carrier: Carrier, at: &str) {
    if at == "[::1]:0" && !has_ipv6_loopback() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcapng");
    let bind = || Bind { carrier, ..Bind::to([at.parse().unwrap()]) };
    let server_end = match Endpoint::bind(bind()) {
        Err(error) if carrier == Carrier::Ip && error.to_string().contains("CAP_NET_RAW") => {
            eprintln!("LEFT OUT: {error}");
            return;
        }
        bound => bound.unwrap(),
    };
    let client_end = Endpoint::bind(Bind { pcap: Some(file.clone()), ..bind() }).unwrap();
    let config = Arc::new(Profile::Modern.config());
    let port = PORT + (std::process::id() % 10_000) as u16;
    let listener = server_end.listen(port, config.clone()).unwrap();
    let to = Connect { destination_port: port, ..to(&server_end, &config) };
    let client = client_end.connect(to).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let sender = tokio::spawn(send_all(client.clone(), 1, 500_000, 100_000));
    soon(receive_all(server.clone(), 1, 500_000)).await;
    sender.await.unwrap();
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
    let path = client.stats().paths[0].clone();
    soon(client_end.close()).await;

    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-o", "sctp.checksum:CRC 32c"]);
    if carrier == Carrier::Udp {
        tshark.args(["-d", &format!("udp.port=={},sctp", server_end.local_addrs()[0].port())]);
    }
    tshark.args([
        "-T",
        "fields",
        "-e",
        "sctp.checksum.status",
        "-e",
        "_ws.malformed",
        "-e",
        "udp.length",
        "-e",
        "sctp.chunk_type",
    ]);
    let output = match tshark.output() {
        Ok(output) => output,
        Err(error) => {
            assert!(std::env::var_os("BRAIDFTP_REQUIRE_PEERS").is_none(), "tshark: {error}");
            eprintln!("LEFT OUT: no tshark here (Debian: apt install tshark): {error}");
            return;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut packets = 0;
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let (good, udp) = (fields[..2] == ["1", ""], !fields[2].is_empty());
        assert_eq!((good, udp), (true, carrier == Carrier::Udp), "packet {packets}: {line}");
        assert!(!fields[3].is_empty(), "packet {packets}: no chunk");
        packets += 1;
    }
    // Raw sockets at one address receive both directions; repeated packets after the end are counted by no path.
    let ours = path.packets_sent + path.packets_received;
    assert!(packets >= ours, "{packets} of {ours}");
}

#[tokio::test]
async fn tshark_reads_every_packet_with_its_checksum() {
    tshark_reads(Carrier::Udp, "127.0.0.1:0").await;
}

/// In a network namespace, because raw sockets at ::1 would receive the packets of other tests too.
#[test]
fn tshark_reads_packets_of_raw_ip() {
    let Some(host) = wires(&[], None) else { return };
    for at in ["127.0.0.1:0", "[::1]:0"] {
        inside(&host.path(End::Client), tshark_reads(Carrier::Ip, at));
    }
}

#[tokio::test]
async fn a_capture_file_that_cannot_be_written_is_reported() {
    let mut bind = Bind::to(["127.0.0.1:0".parse().unwrap()]);
    bind.pcap = Some("/nowhere/at/all.pcapng".into());
    let error = Endpoint::bind(bind).unwrap_err();
    assert!(matches!(error, BindError::Pcap { .. }));
    assert!(error.to_string().contains("/nowhere/at/all.pcapng"), "{error}");
}

#[tokio::test]
async fn the_packet_log_and_the_qlog_have_every_packet() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("packets.pkt");
    let bind = || Bind::to(["127.0.0.1:0".parse().unwrap()]);
    let server_end = Endpoint::bind(bind()).unwrap();
    let qlog = folder.path().join("run.qlog");
    let logs = Bind { packet_log: Some(file.clone()), qlog: Some(qlog.clone()), ..bind() };
    let client_end = Endpoint::bind(logs).unwrap();
    let config = Arc::new(Profile::Modern.config());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let sender = tokio::spawn(send_all(client.clone(), 1, 200_000, 50_000));
    soon(receive_all(server.clone(), 1, 200_000)).await;
    sender.await.unwrap();
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
    let path = client.stats().paths[0].clone();
    soon(client_end.close()).await;
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    // A packet after the end, which the peer repeats if the last one was lost, is counted by no path.
    assert!(lines.len() as u64 >= path.packets_sent + path.packets_received);
    assert!(
        lines[0].contains(" > 127.0.0.1>127.0.0.1 ") && lines[0].contains("): INIT[flgs=0, tag="),
        "{}",
        lines[0]
    );
    // On a busy machine a copy of INIT leaves first.
    let received = lines.iter().find(|line| line.contains(" < ")).unwrap();
    assert!(received.contains("INIT_ACK["), "{received}");
    assert!(
        lines.iter().any(|line| line.contains("DATA[flgs="))
            && lines.iter().any(|line| line.contains(" SACK["))
    );
    assert!(lines.iter().any(|line| line.contains("SHUTDOWN_COMPLETE[flgs=0]")), "{}", lines.last().unwrap());

    let text = std::fs::read_to_string(&qlog).unwrap();
    let count = |name: &str| text.split('\u{1e}').filter(|record| record.contains(name)).count();
    let packets = count("sctp:packet_sent") + count("sctp:packet_received");
    assert_eq!(packets, lines.len(), "both have the same packets");
    assert!(count("sctp:metrics_updated") > 2 && count(r#""new":"Established""#) == 1);
}

#[tokio::test]
async fn a_packet_log_that_cannot_be_written_is_reported() {
    let mut bind = Bind::to(["127.0.0.1:0".parse().unwrap()]);
    bind.packet_log = Some("/nowhere/at/all.pkt".into());
    let error = Endpoint::bind(bind).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all.pkt"), "{error}");
    let mut bind = Bind::to(["127.0.0.1:0".parse().unwrap()]);
    bind.qlog = Some("/nowhere/at/all.qlog".into());
    let error = Endpoint::bind(bind).unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all.qlog"), "{error}");
}
