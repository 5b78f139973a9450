//! What associations allocate: protection nothing per packet, and an association that pauses little in all.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Output, Time};
use braidftp_keys::record_keys;
use braidftp_sctp::dtls::{CipherSuite, DtlsConfig, Keys, KeysId, NONCE_LEN, Purpose};
use braidftp_sctp::{
    Association, AssociationId, Config, Connect, Endpoint, Event, Message, Ppid, Profile, StreamId,
};
use bytes::Bytes;

/// The system's allocator, which counts per thread, since tests run in threads.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
}

fn count(allocations: u64, bytes: usize, freed_bytes: usize) {
    // At the end of a thread the counters are gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + allocations));
    let _ = HELD_BYTES.try_with(|held| held.set(held.get() + bytes as i64 - freed_bytes as i64));
}

// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size(), 0);
        // SAFETY: the caller keeps to the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, 0, layout.size());
        // SAFETY: the pointer came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(1, new_size, layout.size());
        // SAFETY: the pointer came from the system's allocator, with this layout.
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PORT: u16 = 21;
const MESSAGE: usize = 65_536;
/// Bytes before counting begins: buffers have grown by then.
const WARM_UP: usize = 8_000_000;
const COUNTED: usize = 16_000_000;

/// Two endpoints in one thread: client and server.
struct Pair {
    now: Time,
    endpoints: [Endpoint; 2],
    ids: [Option<AssociationId>; 2],
    under_way: VecDeque<(usize, Datagram)>,
    packets: u64,
    received: usize,
}

impl Pair {
    fn new(config: Config) -> Self {
        let [here, there]: [SocketAddr; 2] = [([127, 0, 0, 1], 1).into(), ([127, 0, 0, 1], 2).into()];
        let config = Arc::new(config);
        let mut endpoints = [[1; 32], [2; 32]].map(Endpoint::new);
        endpoints[1].listen(PORT, config.clone()).unwrap();
        let connect = Connect { local: vec![here], config, ..Connect::to([there], PORT) };
        let id = endpoints[0].connect(Time::ZERO, connect).unwrap();
        Self {
            now: Time::ZERO,
            endpoints,
            ids: [Some(id), None],
            under_way: VecDeque::new(),
            packets: 0,
            received: 0,
        }
    }

    fn association(&mut self, side: usize) -> &mut Association {
        self.endpoints[side].association_mut(self.ids[side].unwrap()).unwrap()
    }

    /// Both sides send everything they have, and receive it a millisecond later.
    fn turn(&mut self) {
        for side in [0, 1] {
            loop {
                match self.endpoints[side].poll(self.now) {
                    Output::Send(transmit) => {
                        let mut rest = transmit.payload;
                        let size = transmit.segment_size.unwrap_or(rest.len());
                        while !rest.is_empty() {
                            let payload = rest.split_to(size.min(rest.len()));
                            let (from, to, ecn) = (transmit.from, transmit.to, transmit.ecn);
                            self.under_way.push_back((1 - side, Datagram { from, to, ecn, payload }));
                            self.packets += 1;
                        }
                    }
                    Output::Event((id, event)) => {
                        self.ids[side] = Some(id);
                        assert!(!matches!(event, Event::Closed(_)), "{event:?}");
                        if let Event::Readable(stream) = event {
                            while let Some(piece) = self.association(side).recv(stream) {
                                self.received += piece.len();
                            }
                        }
                    }
                    Output::Wait(_) => break,
                }
            }
        }
        self.now += Duration::from_millis(1);
        while let Some((side, datagram)) = self.under_way.pop_front() {
            self.endpoints[side].handle(self.now, datagram);
        }
    }

    /// The client sends until the server has received this many bytes.
    fn transfer(&mut self, bytes: usize, payload: &Bytes) {
        let until = self.received + bytes;
        while self.received < until {
            let message = Message::new(Ppid(0), payload.clone());
            while self.association(0).send(StreamId(0), message.clone()).is_ok() {}
            self.turn();
        }
    }
}

fn protect(pair: &mut Pair) {
    let keys = |side: u8| -> Keys {
        record_keys(CipherSuite::Aes128Gcm, &[side; 16], &[7 + side; 16], [9; NONCE_LEN])
    };
    let id = KeysId { purpose: Purpose::Primary, epoch: 3 };
    for side in [0, 1] {
        pair.association(side).add_receive_keys(id, keys(1 - side as u8)).unwrap();
    }
    for side in [0, 1] {
        pair.association(side).set_send_keys(id, keys(side as u8)).unwrap();
        pair.association(side).require_protection().unwrap();
    }
}

/// Allocations per packet of a transfer.
fn allocations(dtls: Option<DtlsConfig>) -> f64 {
    let is_protected = dtls.is_some();
    // Less is under way than the memory for opened packets holds (2 MiB), as where a driver reads after each batch.
    let config = Profile::Modern.config().with(|c| {
        c.security.dtls = dtls;
        c.memory.send_buffer_bytes = 500_000;
    });
    let mut pair = Pair::new(config);
    (0..10).for_each(|_| pair.turn());
    if is_protected {
        protect(&mut pair);
    }
    let payload = Bytes::from(vec![7; MESSAGE]);
    pair.transfer(WARM_UP, &payload);
    let (allocations, packets) = (ALLOCATIONS.get(), pair.packets);
    pair.transfer(COUNTED, &payload);
    let packets = pair.packets - packets;
    assert_eq!(pair.association(1).dtls_stats().opened > packets / 2, is_protected);
    (ALLOCATIONS.get() - allocations) as f64 / packets as f64
}

#[test]
fn protection_allocates_nothing_per_packet() {
    let (plain, protected) = (allocations(None), allocations(Some(DtlsConfig::default())));
    println!("allocations per packet: {plain:.4} in the clear, {protected:.4} protected");
    assert!(protected < plain + 0.02, "{protected} allocations per packet, in the clear {plain}");
}

/// The bytes that a pair of endpoints holds after both sides have sent this many bytes and then paused for two minutes.
fn held_after(bytes: usize) -> i64 {
    let before = HELD_BYTES.get();
    let mut pair = Pair::new(Profile::Modern.config());
    (0..10).for_each(|_| pair.turn());
    let payload = Bytes::from(vec![7; 1_000]);
    if bytes > 0 {
        pair.transfer(bytes, &payload);
    }
    drop(payload);
    (0..120_000).for_each(|_| pair.turn());
    pair.under_way.shrink_to_fit();
    HELD_BYTES.get() - before
}

#[test]
fn an_association_that_pauses_keeps_nothing_of_its_busiest_time() {
    let (fresh, used) = (held_after(0), held_after(20_000_000));
    println!("bytes of two endpoints with one association: {fresh} unused, {used} after 20 MB");
    assert!(fresh < 32_000, "{fresh}");
    assert!(used < fresh + 4_000, "{used} after a transfer, {fresh} without");
}
