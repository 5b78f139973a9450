//! The entrance for packets of an endpoint without sockets.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use braidftp_base::{Datagram, Ecn};
use bytes::Bytes;

use crate::core::Shared;
use crate::in_process::{Waiting, lock};

/// Passes received packets to an endpoint without sockets: see [`Endpoint::over`](crate::Endpoint::over). Clones share it.
#[derive(Clone)]
pub struct PacketInput {
    shared: Arc<Shared>,
    waiting: Arc<Mutex<Waiting>>,
}

impl PacketInput {
    pub(crate) fn new(shared: Arc<Shared>, waiting: Arc<Mutex<Waiting>>) -> Self {
        Self { shared, waiting }
    }

    /// Passes on a packet that was received from `from` at the local address `to`. It is dropped while more than 2 MiB wait
    /// to be processed.
    pub fn receive(&self, from: SocketAddr, to: SocketAddr, payload: Bytes) {
        lock(&self.waiting).push(Datagram { from, to, ecn: Ecn::default(), payload });
        self.shared.task.notify_one();
    }
}

impl fmt::Debug for PacketInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PacketInput").field(&lock(&self.waiting)).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::time::Duration;

    use braidftp_sctp::{Message, Ppid, StreamId};

    use super::*;
    use crate::in_process::InProcess;
    use crate::{Bind, Carrier, Connect, Endpoint};

    const PORT: u16 = 5001;

    fn at(n: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, n], 0))
    }

    /// An endpoint whose packets go to the input that `to` will hold.
    fn endpoint(n: u8, to: Arc<OnceLock<PacketInput>>) -> (Endpoint, PacketInput) {
        let output = move |packet: Datagram| {
            if let Some(to) = to.get() {
                to.receive(packet.from, packet.to, packet.payload);
            }
        };
        Endpoint::over(Bind::to([at(n)]), Box::new(output)).unwrap()
    }

    #[tokio::test]
    async fn two_endpoints_without_sockets_exchange_messages() {
        let (client_in, server_in) = (Arc::new(OnceLock::new()), Arc::new(OnceLock::new()));
        let (client, input) = endpoint(1, server_in.clone());
        client_in.set(input).unwrap();
        let (server, input) = endpoint(2, client_in.clone());
        server_in.set(input).unwrap();
        assert_eq!((client.carrier(), client.local_addrs()), (Carrier::InProcess, vec![at(1)]));
        let listener = server.listen(PORT, Arc::default()).unwrap();
        let association = client.connect(Connect::to([at(2)], PORT)).unwrap();
        let payload = vec![7; 100_000];
        association.send(StreamId(1), Message::new(Ppid(0), payload.clone())).await.unwrap();
        let exchange = async {
            let accepted = listener.accept().await.unwrap();
            let mut received = Vec::new();
            while received.len() < payload.len() {
                let piece = accepted.recv(StreamId(1)).await.unwrap().unwrap();
                received.extend(piece.payload.concat());
            }
            assert_eq!(received, payload);
            association.shutdown().await;
            accepted.closed().await;
        };
        // Far longer than it takes: a hang fails.
        tokio::time::timeout(Duration::from_secs(100), exchange).await.unwrap();
    }

    #[tokio::test]
    async fn packets_that_wait_are_bounded_in_bytes() {
        let (mut end, waiting) = InProcess::new(Box::new(|_| {}));
        let (endpoint, _) = endpoint(1, Arc::default());
        let input = PacketInput::new(endpoint.shared.clone(), waiting);
        for _ in 0..40 {
            input.receive(at(2), at(1), Bytes::from_static(&[0; 65_535]));
        }
        let mut packets = Vec::new();
        end.receive(&mut packets);
        assert_eq!(packets.len(), (2 << 20) / 65_535);
        input.receive(at(2), at(1), Bytes::from_static(b"x"));
        end.receive(&mut packets);
        assert_eq!(packets.len(), (2 << 20) / 65_535 + 1);
    }

    #[test]
    fn sockets_are_not_bound_for_packets_of_the_caller() {
        let error = Endpoint::open(Bind { carrier: Carrier::InProcess, ..Bind::to([at(1)]) }).unwrap_err();
        assert!(error.to_string().contains("Endpoint::over"), "{error}");
    }
}
