//! TLS connections over loopback: the results on each side, and which sessions a data connection may resume.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use rustls::{ClientConfig, ClientConnection, Connection, version};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::server::{Binding, Offer, Resumption, Sender, failed};
use super::{ALPN_CONTROL, ALPN_DATA, Got, MESSAGE_BYTES, UNSENT_BYTES, Wire, tls_error};
use crate::identity::{Authorities, Files, KnownHosts, OnUnknown, Peer, ServerIdentity, Trust};

/// A server's key, and a client that trusts any key.
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

/// Whether the server accepts a data connection.
async fn data(binding: &Binding, config: &Arc<ClientConfig>) -> Result<(), String> {
    let (client, server) = pair().await;
    hello(&client, config);
    let mut buffer = BytesMut::new();
    let (accepted, _) = tokio::join!(
        async {
            let accepted = binding.accept(&server, Sender::Server).await;
            if accepted.is_ok() {
                // More than the system accepts at once, before the client's Finished was read.
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
async fn a_wire_is_plain_then_protected_and_reports_how_it_ends() {
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
async fn a_client_of_another_protocol_is_refused() {
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

#[tokio::test]
async fn a_message_larger_than_the_limit_is_refused_by_its_header_and_one_within_it_is_read() {
    let bench = Bench::new();
    for (length, says) in [
        (MESSAGE_BYTES + 1, "a TLS message that is too large"),
        (MESSAGE_BYTES, "closed the connection during"),
    ] {
        let (client, server) = pair().await;
        bench.offer.bind(Resumption::Required).begin(&server).unwrap();
        let length = u32::try_from(length).unwrap().to_be_bytes();
        client.write_all(&[&[22, 3, 1, 0, 4, 1][..], &length[1..]].concat()).await.unwrap();
        client.end_half().unwrap();
        let error = server.secured().await.unwrap_err();
        assert!(failed(&error).contains(says), "{}", failed(&error));
    }
}

#[tokio::test]
async fn written_bytes_are_buffered_up_to_a_limit_if_the_peer_does_not_read() {
    let bench = Bench::new();
    let (client, server) = pair().await;
    hello(&client, &bench.client(&[], &[ALPN_CONTROL]));
    bench.offer.bind(Resumption::Required).begin(&server).unwrap();
    let (ours, theirs) = tokio::join!(server.secured(), client.secured());
    ours.unwrap();
    theirs.unwrap();
    let block = vec![7; 8 << 20];
    let mut written = 0;
    // Until it would have to wait.
    while let std::task::Poll::Ready(count) =
        std::future::poll_fn(|cx| std::task::Poll::Ready(std::pin::pin!(server.write(&block)).poll(cx))).await
    {
        written += count.unwrap();
    }
    // Everything was sent, and nothing more is sent.
    let mut left = 0;
    let mut raw = vec![0; 1 << 20];
    loop {
        match client.stream().try_read(&mut raw) {
            Ok(count) => left += count,
            Err(_) => {
                match tokio::time::timeout(std::time::Duration::from_millis(500), client.stream().readable())
                    .await
                {
                    Ok(ready) => ready.unwrap(),
                    Err(_) => break,
                }
            }
        }
    }
    assert!(left > 0 && written <= left + UNSENT_BYTES, "{} bytes are held", written - left);
}

//= specs/rfc4217.txt#section-14
//= type=test
//# The client MUST send all data, including Telnet commands, across the TLS session.
#[tokio::test]
async fn nothing_is_sent_in_the_clear_after_tls_has_begun() {
    let bench = Bench::new();
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let client = Wire::control(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
    let (mut near, server) =
        (listener.accept().await.unwrap().0, TcpListener::bind("127.0.0.1:0").await.unwrap());
    let mut far = TcpStream::connect(server.local_addr().unwrap()).await.unwrap();
    let server = Wire::control(server.accept().await.unwrap().0);
    hello(&client, &bench.client(&[], &[ALPN_CONTROL]));
    bench.offer.bind(Resumption::Required).begin(&server).unwrap();
    // A proxy on the path that records the client's bytes.
    let on_the_way = tokio::spawn(async move {
        let (mut noted, mut up, mut down) = (Vec::new(), [0; 4096], [0; 4096]);
        loop {
            tokio::select! {
                read = near.read(&mut up) => match read.unwrap() {
                    0 => return noted,
                    count => {
                        noted.extend_from_slice(&up[..count]);
                        far.write_all(&up[..count]).await.unwrap();
                    }
                },
                read = far.read(&mut down) => {
                    let count = read.unwrap();
                    near.write_all(&down[..count]).await.unwrap();
                }
            }
        }
    });
    // Telnet's IP and DM, and a command behind them.
    let said = b"\xff\xf4\xff\xf2ABOR\r\n";
    let (ours, theirs) = tokio::join!(server.secured(), async {
        client.secured().await?;
        client.write_all(said).await?;
        client.finish().await
    });
    ours.unwrap();
    theirs.unwrap();
    let mut heard = BytesMut::new();
    while server.read(&mut heard).await.unwrap() != Got::End {}
    assert_eq!(&heard[..], said);
    drop((server, client));
    let noted = on_the_way.await.unwrap();
    let mut rest = &noted[..];
    while let [kind, 3, _, high, low, tail @ ..] = rest {
        // Handshake, change_cipher_spec, alert, application data (RFC 8446 §5.1).
        assert!((20..=23).contains(kind), "a record of type {kind}");
        rest = &tail[usize::from(u16::from_be_bytes([*high, *low]))..];
    }
    assert!(rest.is_empty(), "{rest:?} are no records");
}
