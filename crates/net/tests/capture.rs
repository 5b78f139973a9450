//! `Bind::pcap`: what crossed an endpoint, as tshark reads it.

mod common;

use std::process::Command;
use std::sync::Arc;

use braidftp_net::{Bind, BindError, Endpoint, Profile, Reason};
use common::{PORT, endpoint, receive_all, send_all, soon, to};

#[tokio::test]
async fn tshark_reads_every_packet_with_its_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.pcapng");
    let server_end = endpoint();
    let mut bind = Bind::to(["127.0.0.1:0".parse().unwrap()]);
    bind.pcap = Some(file.clone());
    let client_end = Endpoint::bind(bind).unwrap();
    let config = Arc::new(Profile::Modern.config());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    let sender = tokio::spawn(send_all(client.clone(), 1, 500_000, 100_000));
    soon(receive_all(server.clone(), 1, 500_000)).await;
    sender.await.unwrap();
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
    let path = client.stats().paths[0].clone();
    soon(client_end.close()).await;

    let udp = server_end.local_addrs()[0].port();
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(&file).args(["-d", &format!("udp.port=={udp},sctp"), "-o", "sctp.checksum:CRC 32c"]);
    tshark.args([
        "-T",
        "fields",
        "-e",
        "sctp.checksum.status",
        "-e",
        "_ws.malformed",
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
        assert_eq!(&fields[..2], ["1", ""], "packet {packets}: {line}");
        assert!(!fields[2].is_empty(), "packet {packets}: no chunk");
        packets += 1;
    }
    assert_eq!(packets, path.packets_sent + path.packets_received);
}

#[tokio::test]
async fn a_capture_file_that_cannot_be_written_is_said_so() {
    let mut bind = Bind::to(["127.0.0.1:0".parse().unwrap()]);
    bind.pcap = Some("/nowhere/at/all.pcapng".into());
    let error = Endpoint::bind(bind).unwrap_err();
    assert!(matches!(error, BindError::Pcap { .. }));
    assert!(error.to_string().contains("/nowhere/at/all.pcapng"), "{error}");
}
