//! Data paths of naive, ms and ms-cp (specs/ftp-over-sctp.md §3, §4): an association for each transfer, or stream 1
//! of the control association.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_ftp::mapping::{CONTROL_STREAM, DATA_PORT, DATA_STREAM, DataPath, LISTING_MESSAGE_MAX, ppid};
use braidftp_ftp::server::{Failure, Outcome};
use braidftp_ftp::store::StoreError;
use braidftp_net::sctp::Config;
use braidftp_net::{Association, Connect, Endpoint, Message, Ppid, Reason, StreamId};
use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::Settings;
use super::body::{Body, MESSAGE_BYTES};
use super::sink::Intake;
use crate::store::fs::Growing;

/// The time limit for an association of naive to open and to close: long enough for the sixth INIT or
/// SHUTDOWN, 31 s after the first (RFC 9260 §5.1, §9.2), which is sometimes needed on a lossy link.
const PATIENCE: Duration = Duration::from_secs(45);

/// The data side of a session of naive, ms or ms-cp.
pub(super) struct Data {
    pub endpoint: Endpoint,
    pub control: Association,
    /// The addresses of the control association: local and remote.
    pub local: Vec<SocketAddr>,
    pub peer: Vec<SocketAddr>,
    /// The configuration of data associations.
    pub config: Arc<Config>,
    /// Bytes received on stream 1 after the end of an upload.
    pub early: Arc<std::sync::Mutex<Bytes>>,
}

/// The data path of one transfer.
pub(super) enum Way {
    Associate { endpoint: Endpoint, connect: Connect },
    Stream1 { control: Association, early: Arc<std::sync::Mutex<Bytes>> },
    Nowhere,
}

impl Data {
    pub(super) fn way(&self, path: DataPath) -> Way {
        match path {
            // Its data would be unprotected.
            DataPath::Association { .. } if self.control.is_protected() => Way::Nowhere,
            //= specs/ftp-over-sctp.md#section-3.1
            //# The server MUST connect to the addresses of the control association's peer, over the same UDP ports, and to nothing else
            DataPath::Association { port } => Way::Associate {
                endpoint: self.endpoint.clone(),
                connect: Connect {
                    local: self.local.clone(),
                    peer: self.peer.clone(),
                    source_port: Some(DATA_PORT),
                    destination_port: port,
                    config: self.config.clone(),
                },
            },
            DataPath::Stream1 => Way::Stream1 { control: self.control.clone(), early: self.early.clone() },
            DataPath::TcpPassive | DataPath::TcpActive(_) | DataPath::Framed { .. } => Way::Nowhere,
        }
    }
}

async fn associate(endpoint: &Endpoint, connect: Connect) -> Result<Association, Failure> {
    let association = endpoint.connect(connect).map_err(|error| {
        tracing::warn!(%error, "no data association");
        Failure::CannotOpenData
    })?;
    match timeout(PATIENCE, association.up()).await {
        Ok(Ok(_)) => Ok(association),
        Ok(Err(_)) | Err(_) => {
            association.abort("the data association did not come up");
            Err(Failure::CannotOpenData)
        }
    }
}

async fn push(
    association: &Association,
    stream: u16,
    bytes: Bytes,
    settings: &Settings,
) -> Result<(), Failure> {
    let message = Message::new(Ppid(ppid::PLAIN), bytes);
    match timeout(settings.stall, association.send(StreamId(stream), message)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Failure::DataLost),
    }
}

/// Waits until all replies are sent, the 150 of this transfer being the last.
///
/// The transport takes a message of each stream in turn. Behind the replies to hundreds of SIZEs, a 150 would be sent long
/// after its data. The client reads stream 1 only when it has the 150 (specs/ftp-over-sctp.md §4.2), so the data could fill its
/// window and block the 150. No event reports this state; the polling interval of a millisecond is short beside a round trip,
/// and the previous transfer is being sent meanwhile.
async fn said(control: &Association) {
    let mut looks = 0;
    while control.queued_bytes(StreamId(CONTROL_STREAM)) > 0 && control.reason().is_none() {
        if looks < 4 {
            looks += 1;
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Aborts its association unless the transfer was successful.
struct Guard(Option<Association>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(association) = self.0.take() {
            association.abort("transfer aborted");
        }
    }
}

impl Way {
    /// Sends everything. `started` is called with the number of bytes, and returns when the first may be
    /// sent.
    pub(super) async fn send(
        self,
        body: &mut Body,
        settings: &Settings,
        started: impl AsyncFnOnce(Option<u64>),
    ) -> Result<Outcome, Failure> {
        match self {
            Self::Associate { endpoint, connect } => {
                started(body.length).await;
                let mut guard = Guard(Some(associate(&endpoint, connect).await?));
                let mut bytes = 0;
                if let Some(association) = &guard.0 {
                    while let Some(block) = body.next().await? {
                        bytes += send_block(association, CONTROL_STREAM, block, settings).await?;
                    }
                    association.start_shutdown();
                }
                guard.0 = None;
                Ok(Outcome::Sent { bytes })
            }
            Self::Stream1 { control, .. } if body.size.is_none() => {
                // Counts as held until the transport, which counts its own memory, has accepted it.
                let mut room = Growing::new(body.store.blocks.clone());
                let listing = whole(body, &mut room).await?;
                started(Some(listing.len() as u64)).await;
                said(&control).await;
                let bytes = listing.len() as u64;
                push(&control, DATA_STREAM, listing, settings).await?;
                Ok(Outcome::Sent { bytes })
            }
            Self::Stream1 { control, .. } => {
                started(body.length).await;
                said(&control).await;
                let mut bytes = 0;
                while let Some(block) = body.next().await? {
                    bytes += send_block(&control, DATA_STREAM, block, settings).await?;
                }
                Ok(Outcome::Sent { bytes })
            }
            Self::Nowhere => Err(Failure::CannotOpenData),
        }
    }

    /// Receives everything: to the end of the association, or `length` bytes of stream 1.
    pub(super) async fn receive(
        self,
        intake: &mut Intake,
        length: Option<u64>,
        settings: &Settings,
    ) -> Result<(), Failure> {
        match (self, length) {
            (Self::Associate { endpoint, connect }, _) => {
                let mut guard = Guard(Some(associate(&endpoint, connect).await?));
                if let Some(association) = &guard.0 {
                    loop {
                        let piece = timeout(settings.stall, association.recv(StreamId(CONTROL_STREAM))).await;
                        let Ok(Some(piece)) = piece.map_err(|_| Failure::DataLost)? else { break };
                        for bytes in piece.payload {
                            intake.write(bytes).await?;
                        }
                    }
                    // Only a graceful shutdown is the end of the file.
                    let end = timeout(PATIENCE, association.closed()).await;
                    if !matches!(end, Ok(Reason::Shutdown)) {
                        return Err(Failure::DataLost);
                    }
                }
                guard.0 = None;
                Ok(())
            }
            (Self::Stream1 { control, early }, Some(length)) => {
                let mut left = length;
                let mut fault = None;
                let mut take = async |bytes: Bytes, left: &mut u64| {
                    *left -= bytes.len() as u64;
                    if fault.is_none() {
                        fault = intake.write(bytes).await.err();
                    }
                };
                let before = std::mem::take(&mut *early.lock().unwrap_or_else(|e| e.into_inner()));
                let mut waiting = std::collections::VecDeque::from([before]);
                loop {
                    while let Some(mut bytes) = waiting.pop_front() {
                        let ours = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
                        take(bytes.split_to(ours), &mut left).await;
                        if !bytes.is_empty() {
                            // The beginning of the next upload: a message may contain the end of one and the
                            // beginning of another.
                            let rest: Vec<Bytes> = std::iter::once(bytes).chain(waiting.drain(..)).collect();
                            *early.lock().unwrap_or_else(|e| e.into_inner()) = rest.concat().into();
                        }
                    }
                    if left == 0 {
                        break;
                    }
                    let piece = timeout(settings.stall, control.recv(StreamId(DATA_STREAM))).await;
                    match piece.map_err(|_| Failure::DataLost)? {
                        Ok(Some(piece)) => waiting.extend(piece.payload),
                        Ok(None) | Err(_) => return Err(Failure::DataLost),
                    }
                }
                fault.map_or(Ok(()), Err)
            }
            (Self::Stream1 { .. } | Self::Nowhere, _) => Err(Failure::CannotOpenData),
        }
    }
}

async fn send_block(
    association: &Association,
    stream: u16,
    mut block: Bytes,
    settings: &Settings,
) -> Result<u64, Failure> {
    let bytes = block.len() as u64;
    while !block.is_empty() {
        let part = block.split_to(block.len().min(MESSAGE_BYTES));
        push(association, stream, part, settings).await?;
    }
    Ok(bytes)
}

/// A listing as a single message (specs/ftp-over-sctp.md §4.4). `room` is its memory.
async fn whole(body: &mut Body, room: &mut Growing) -> Result<Bytes, Failure> {
    let mut listing = BytesMut::new();
    while let Some(block) = body.next().await? {
        //= specs/ftp-over-sctp.md#section-4.4
        //# A listing of more than 16 MiB MUST be refused with 552.
        if listing.len() + block.len() > LISTING_MESSAGE_MAX {
            return Err(Failure::Store(StoreError::Quota));
        }
        listing.extend_from_slice(&block);
        if !room.grow_to(listing.capacity()) {
            return Err(Failure::Store(StoreError::NoMemory));
        }
    }
    if listing.is_empty() {
        return Ok(Bytes::from_static(b"\r\n"));
    }
    Ok(listing.freeze())
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};
    use std::path::Path;

    use braidftp_ftp::SafePath;
    use braidftp_ftp::command::Type;
    use braidftp_ftp::listing::FactSet;
    use braidftp_ftp::server::{Extent, Form, Source};

    use super::super::Audit;
    use super::super::body::Gives;
    use super::super::logins::Logins;
    use super::super::store::{Store, View};
    use super::*;
    use crate::packed::PACKER_BYTES;
    use crate::store::fs::{Allowance, Blocks, Pool, Root};
    use crate::users::Access;

    fn store(folder: &Path, pool: &Arc<Pool>) -> Store {
        View {
            root: Root::open(folder).unwrap().into(),
            rights: Access::ReadOnly.into(),
            login: Logins::default().enter("anonymous", IpAddr::V4(Ipv4Addr::LOCALHOST)),
            blocks: Blocks::of_session(pool),
            allowance: Allowance::default(),
            share: Arc::default(),
            _place: None,
            subject: Arc::new(Audit::default()).session(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            user: "anonymous".into(),
        }
        .into()
    }

    #[tokio::test]
    async fn listings_are_packed_while_there_is_memory_for_packers() {
        let folder = tempfile::tempdir().unwrap();
        (0..300).for_each(|nth| std::fs::write(folder.path().join(format!("file-{nth}")), "").unwrap());
        let pool = Arc::new(Pool::new(2 << 20));
        let store = store(folder.path(), &pool);
        let (mut bodies, mut lengths) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let source = Source::Listing { path: SafePath::ROOT, form: Form::Tree, pattern: None };
            let mut body = Body::open(&store, source, Gives::Frames).await.unwrap();
            let mut length = 0;
            while let Some(block) = body.next().await.unwrap() {
                length += block.len();
            }
            lengths.push(length);
            bodies.push(body);
        }
        assert!(lengths[0] * 2 < lengths[19], "{lengths:?}");
        assert!(pool.held() >= PACKER_BYTES && pool.held() <= 2 << 20, "{} bytes held", pool.held());
        drop(bodies);
        assert_eq!(pool.held(), 0);
    }

    #[tokio::test]
    async fn bytes_for_the_transport_take_no_more_memory_than_their_length() {
        let folder = tempfile::tempdir().unwrap();
        let name = "n".repeat(200);
        (0..600).for_each(|nth| std::fs::write(folder.path().join(format!("{name}{nth}")), "").unwrap());
        std::fs::write(folder.path().join("text"), "\n".repeat(100_000)).unwrap();
        let store = store(folder.path(), &Arc::new(Pool::default()));
        let listing = |form| Source::Listing { path: SafePath::ROOT, form, pattern: None };
        let text = Source::File {
            path: SafePath::strict(b"text").unwrap(),
            offset: 0,
            representation: Type::Ascii,
            extent: Extent::ToEnd,
        };
        let all = [text, listing(Form::List), listing(Form::Facts(FactSet::ALL)), listing(Form::Tree)];
        for source in all {
            let mut body = Body::open(&store, source.clone(), Gives::Frames).await.unwrap();
            let mut given = 0;
            while let Some(block) = body.next().await.unwrap() {
                let length = block.len();
                given += length;
                assert!(length <= 2 * MESSAGE_BYTES, "{source:?}: {length}");
                let memory = block.try_into_mut().expect("memory of its own");
                assert!(
                    memory.capacity() <= length + length / 8,
                    "{source:?}: {} for {length}",
                    memory.capacity()
                );
            }
            assert!(given > 1_000, "{source:?}: {given}");
        }
    }

    #[tokio::test]
    async fn listings_of_one_message_stay_within_the_memory_of_all_transfers() {
        let folder = tempfile::tempdir().unwrap();
        let name = "n".repeat(200);
        (0..3_000).for_each(|nth| std::fs::write(folder.path().join(format!("{name}{nth}")), "").unwrap());
        let pool = Arc::new(Pool::new(2 << 20));
        let list = async |room: &mut Growing| {
            let store = store(folder.path(), &pool);
            let source = Source::Listing { path: SafePath::ROOT, form: Form::Names, pattern: None };
            let mut body = Body::open(&store, source, Gives::Blocks).await.unwrap();
            *room = Growing::new(body.store.blocks.clone());
            whole(&mut body, room).await
        };
        let mut rooms: Vec<Growing> = (0..10).map(|_| Growing::default()).collect();
        let first = list(&mut rooms[0]).await.unwrap();
        assert!(first.len() > 600_000 && pool.held() >= first.len(), "{} of {}", pool.held(), first.len());
        let mut refused = 0;
        for room in &mut rooms[1..] {
            refused += usize::from(list(room).await == Err(Failure::Store(StoreError::NoMemory)));
        }
        assert!(refused >= 7 && pool.held() <= 2 << 20, "{refused}, {} bytes held", pool.held());
        drop(rooms);
        assert_eq!(pool.held(), 0);
        assert_eq!(list(&mut Growing::default()).await.unwrap(), first);
    }
}
