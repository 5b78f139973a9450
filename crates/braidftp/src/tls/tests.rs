//! Connections over the loopback: what each side is told, and which sessions a data connection may resume.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::{ClientConfig, ClientConnection, Connection, version};
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};

use super::server::{Binding, Offer, Resumption, Sender, failed};
use super::{ALPN_CONTROL, ALPN_DATA, Got, Wire, tls_error};
use crate::identity::{Authorities, Files, KnownHosts, OnUnknown, Peer, ServerIdentity, Trust};

/// A server's key, and a client that takes any.
struct Bench {
    offer: Offer,
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let identity = ServerIdentity::load_or_make(Files::one(folder.path().join("key.pem")), &[]).unwrap();
        Self { offer: Offer::new(&identity).unwrap(), folder }
    }

    fn client(
        &self,
        versions: &[&'static rustls::SupportedProtocolVersion],
        alpn: &[&[u8]],
    ) -> Arc<ClientConfig> {
        let trust = Arc::new(Trust {
            authorities: Authorities::these(rustls::RootCertStore::empty()),
            on_unknown: OnUnknown::Accept,
            ..Trust::new(KnownHosts::at(self.folder.path().join("known_hosts")))
        });
        let peer = Peer::new("localhost", 21);
        let mut config = match versions {
            [only] if **only == version::TLS13 => trust.verifier_tls13(peer, alpn).unwrap().config(),
            _ => trust.verifier(peer, alpn).unwrap().config(),
        };
        config.resumption = rustls::client::Resumption::in_memory_sessions(8);
        Arc::new(config)
    }
}

/// Both ends of a connection.
async fn pair() -> (Wire, Wire) {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (Wire::control(client), Wire::data(listener.accept().await.unwrap().0))
}

fn hello(wire: &Wire, config: &Arc<ClientConfig>) {
    let connection = ClientConnection::new(config.clone(), "localhost".try_into().unwrap()).unwrap();
    wire.begin(Connection::Client(connection)).unwrap();
}

/// A control connection with TLS; the client has its tickets.
async fn control(binding: &Binding, config: &Arc<ClientConfig>) -> (Wire, Wire) {
    let (client, server) = pair().await;
    hello(&client, config);
    binding.begin(&server).unwrap();
    let (ours, theirs) = tokio::join!(server.secured(), client.secured());
    ours.unwrap();
    theirs.unwrap();
    server.write_all(b"230 in\r\n").await.unwrap();
    let mut buffer = BytesMut::new();
    assert_eq!(client.read(&mut buffer).await.unwrap(), Got::Bytes);
    (client, server)
}

/// Whether the server takes a data connection.
async fn data(binding: &Binding, config: &Arc<ClientConfig>) -> Result<(), String> {
    let (client, server) = pair().await;
    hello(&client, config);
    let mut buffer = BytesMut::new();
    let (accepted, _) = tokio::join!(
        async {
            let accepted = binding.accept(&server, Sender::Server).await;
            if accepted.is_ok() {
                // More than the system takes at once, before the client's Finished was read.
                server.write_all(&[7; 2_000_000]).await.unwrap();
                server.secured().await.unwrap();
                server.finish().await.unwrap();
            }
            drop(server);
            accepted
        },
        // Reads to the end, and so gets its tickets.
        async { while let Ok(Got::Bytes | Got::Secured) = client.read(&mut buffer).await {} }
    );
    assert_eq!(accepted.is_ok(), buffer[..] == [7; 2_000_000]);
    accepted.map_err(|error| failed(&error))
}

#[tokio::test]
async fn a_wire_is_plain_then_protected_and_tells_how_it_ends() {
    let bench = Bench::new();
    let (client, server) = pair().await;
    client.write_all(b"AUTH TLS\r\n").await.unwrap();
    let mut buffer = BytesMut::new();
    assert_eq!(server.read(&mut buffer).await.unwrap(), Got::Bytes);
    assert_eq!(buffer, &b"AUTH TLS\r\n"[..]);
    hello(&client, &bench.client(&[], &[ALPN_CONTROL]));
    let binding = bench.offer.bind(Resumption::Required);
    binding.begin(&server).unwrap();
    assert!(server.is_handshaking());
    let mut heard = BytesMut::new();
    let (secured, _) = tokio::join!(server.read(&mut heard), client.secured());
    assert_eq!(secured.unwrap(), Got::Secured);
    assert!(!server.is_handshaking());
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    let (sent, got) = tokio::join!(
        async {
            client.write_all(&bytes).await.unwrap();
            client.finish().await
        },
        async {
            loop {
                match server.read(&mut heard).await.unwrap() {
                    Got::Bytes => {}
                    end => break end,
                }
            }
        }
    );
    sent.unwrap();
    assert_eq!(got, Got::End);
    assert!(heard == bytes[..], "{} bytes", heard.len());
    // The other half ends without a word.
    drop(server);
    assert_eq!(client.read(&mut buffer).await.unwrap(), Got::Cut);
}

#[tokio::test]
async fn a_data_connection_resumes_a_session_of_its_control_connection_or_is_refused() {
    let bench = Bench::new();
    for versions in [&[&version::TLS13][..], &[]] {
        let config = bench.client(versions, &[ALPN_CONTROL]);
        let binding = bench.offer.bind(Resumption::Required);
        let _control = control(&binding, &config).await;
        for turn in 0..20 {
            assert_eq!(data(&binding, &config).await, Ok(()), "data connection {turn}");
        }
        // A session of no control connection.
        let stranger = bench.client(versions, &[ALPN_CONTROL]);
        let refused = data(&binding, &stranger).await.unwrap_err();
        assert!(refused.contains("does not resume"), "{refused}");
        // A session of another one.
        let other = bench.offer.bind(Resumption::Required);
        let _control = control(&other, &stranger).await;
        assert!(data(&binding, &stranger).await.is_err());
        let optional = bench.offer.bind(Resumption::Optional);
        assert_eq!(data(&optional, &bench.client(versions, &[ALPN_DATA])).await, Ok(()));
    }
}

#[tokio::test]
async fn who_speaks_another_protocol_is_refused() {
    let bench = Bench::new();
    for (alpn, is_good) in
        [(&[b"ftp".as_slice()][..], true), (&[], true), (&[b"http/1.1"], false), (&[b"h2", b"ftp"], true)]
    {
        let (client, server) = pair().await;
        hello(&client, &bench.client(&[], alpn));
        bench.offer.bind(Resumption::Required).begin(&server).unwrap();
        let (ours, theirs) = tokio::join!(server.secured(), client.secured());
        assert_eq!((ours.is_ok(), theirs.is_ok()), (is_good, is_good), "{alpn:?}");
        if let Err(error) = ours {
            assert!(failed(&error).contains("its ALPN lacks `ftp`"), "{error}");
            let told = theirs.unwrap_err();
            assert!(
                tls_error(&told).is_some_and(|it| it.to_string().contains("NoApplicationProtocol")),
                "{told}"
            );
        }
    }
}
