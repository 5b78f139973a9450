//! An SCTP bulk flow with verified contents: one side sends numbered messages without end; the other reads
//! them, counts the bytes of each tenth of a second, and panics unless they arrive unchanged, in order and
//! once.
//!
//! Used by `several` and `failover`. `apps::bulk` is cheaper, only counts bytes, and also runs over TCP.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{
    Announce, AssociationId, Config, Connect, Endpoint, Event, Message, PathState, Ppid, SendError, Stats,
    StreamId,
};
use bytes::{BufMut, Bytes, BytesMut};

use crate::host::{App, Endpoints, Host};
use crate::protection::Identity;
use crate::random::Random;

/// The length of the windows in which bytes are counted.
pub const WINDOW: Duration = Duration::from_millis(100);

/// The SCTP port of the accepting side.
const PORT: u16 = 21;
/// Bytes of a message.
const MESSAGE: usize = 8_192;

/// One side of the flow.
#[derive(Debug)]
pub(crate) struct Numbered {
    side: Side,
    id: Option<AssociationId>,
    /// Messages sent, or read whole.
    messages: u64,
    /// The pieces of an incomplete message.
    partial: VecDeque<Bytes>,
    windows: Vec<u64>,
    primary_back: Option<Time>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Sends,
    Reads,
}

/// What a sender asks for with ASCONF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRequest {
    /// The address becomes one of the association's.
    Add,
    /// The address leaves the association.
    Remove,
}

impl Numbered {
    pub(crate) fn new(side: Side) -> Self {
        let (partial, windows) = (VecDeque::new(), Vec::new());
        Self { side, id: None, messages: 0, partial, windows, primary_back: None }
    }

    /// The sender's or reader's statistics of its association.
    ///
    /// # Panics
    /// If it never had one.
    pub(crate) fn stats(host: &Host<Self>) -> Stats {
        let id = host.app().id.expect("the association came about");
        host.endpoint().association(id).expect("nothing removes it").stats()
    }

    /// The epoch of the keys of its association; none without protection.
    pub(crate) fn epoch(host: &Host<Self>) -> Option<u64> {
        host.keys(host.app().id?)?.epoch()
    }

    /// Changes the addresses of a host's association.
    ///
    /// # Panics
    /// If there is none, or it refuses.
    pub(crate) fn change_address(host: &mut Host<Self>, local: SocketAddr, what: AddressRequest) {
        let (endpoints, app) = host.parts_mut();
        let association = app.id.and_then(|id| endpoints.sctp.association_mut(id)).expect("it came about");
        let asked = match what {
            AddressRequest::Add => association.add_address(local),
            AddressRequest::Remove => association.remove_address(local),
        };
        asked.unwrap_or_else(|error| panic!("{what:?} {local}: {error}"));
    }

    /// Bytes of user data read per window, from the start until `end`.
    pub(crate) fn windows(&self, end: Duration) -> Vec<u64> {
        let mut windows = self.windows.clone();
        windows.resize((end.as_nanos() / WINDOW.as_nanos()) as usize, 0);
        windows
    }

    /// When the primary path was last found to work again.
    pub(crate) fn primary_back(&self) -> Option<Time> {
        self.primary_back
    }

    fn read(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        let Some(association) = endpoint.association_mut(id) else { return };
        while let Some(piece) = association.recv(StreamId(0)) {
            let window = (now.as_nanos() / WINDOW.as_nanos() as u64) as usize;
            if self.windows.len() <= window {
                self.windows.resize(window + 1, 0);
            }
            self.windows[window] += piece.len() as u64;
            assert_eq!(piece.begin, self.partial.is_empty(), "the pieces of a message are contiguous");
            self.partial.extend(piece.payload);
            if piece.end {
                let message: Vec<u8> = self.partial.drain(..).flatten().collect();
                assert!(message == message_of(self.messages)[..], "message {} is another", self.messages);
                self.messages += 1;
            }
        }
    }

    fn write(&mut self, endpoint: &mut Endpoint, id: AssociationId) {
        let Some(association) = endpoint.association_mut(id) else { return };
        loop {
            match association.send(StreamId(0), Message::new(Ppid(0), message_of(self.messages))) {
                Ok(()) => self.messages += 1,
                Err(SendError::Full) => return,
                Err(error) => panic!("message {} was refused: {error}", self.messages),
            }
        }
    }
}

impl App for Numbered {
    fn on_event(&mut self, now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        let endpoint = &mut endpoints.sctp;
        self.id = Some(id);
        match event {
            Event::Up { .. } | Event::Writable if self.side == Side::Sends => self.write(endpoint, id),
            Event::Readable(_) => self.read(now, endpoint, id),
            Event::Path(path, PathState::Active) if path.0 == 0 => self.primary_back = Some(now),
            Event::Closed(reason) => panic!("closed: {reason}"),
            _ => {}
        }
    }

    fn wake(&mut self, _now: Time, _endpoints: &mut Endpoints) -> Option<Time> {
        None
    }
}

/// Two hosts with these addresses; the first has opened an association to all addresses of the second. Both are protected if the
/// configuration has `Config.security.dtls`, by the key management of [`Identity`].
pub(crate) fn hosts(
    random: &mut Random,
    config: &Config,
    [here, there]: &[Vec<SocketAddr>; 2],
    sides: [Side; 2],
) -> [Host<Numbered>; 2] {
    let [mut asks, mut is_asked] = [random.seed(), random.seed()].map(Endpoint::new);
    let identity = config.security.dtls.as_ref().map(|_| Identity::new());
    let settings = identity.map(|identity| [identity.client(), identity.server()]);
    let config = |side: usize| {
        let dtls = settings.as_ref().map(|settings| settings[side].dtls());
        Arc::new(config.clone().with(|c| c.security.dtls = dtls))
    };
    is_asked.set_addresses(there.clone(), Announce::Always);
    is_asked.listen(PORT, config(1)).expect("a fresh endpoint listens nowhere");
    let (local, peer) = (here.clone(), there.clone());
    let connect = Connect { local, peer, source_port: None, destination_port: PORT, config: config(0) };
    asks.connect(Time::ZERO, connect).expect("there are free ports");
    let [first, second] = sides;
    let hosts = [Host::new(asks, Numbered::new(first)), Host::new(is_asked, Numbered::new(second))];
    match settings {
        None => hosts,
        Some([client, server]) => {
            let [asks, is_asked] = hosts;
            [asks.protected(client), is_asked.protected(server)]
        }
    }
}

fn message_of(number: u64) -> Bytes {
    let mut message = BytesMut::with_capacity(MESSAGE);
    message.put_u64(number);
    message.resize(MESSAGE, number as u8);
    message.freeze()
}

/// The rate in bits per second at which a reader got data between two instants, in whole windows.
pub(crate) fn goodput(windows: &[u64], from: Duration, to: Duration) -> f64 {
    let index = |at: Duration| (at.as_nanos() / WINDOW.as_nanos()) as usize;
    let windows = &windows[index(from)..index(to)];
    let bytes: u64 = windows.iter().sum();
    bytes as f64 * 8.0 / (WINDOW.as_secs_f64() * windows.len() as f64)
}
