//! The messages of key management (draft-porfiri-tsvwg-sctp-dtls-handshake §4): those of two real key managers, altered in
//! transit, and messages of arbitrary bytes.
//!
//! No panic; both become idle; a client whose server never had the keys is protected for at most the time limit of the
//! handshake. Without alterations both become protected.
#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use arbitrary::Arbitrary;
use braidftp_base::{Output, Time};
use braidftp_keys::{Action, KeyEvent, KeyManager};
use braidftp_sctp::dtls::{Agreement, Role};
use braidftp_sim::protection::Identity;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

static IDENTITY: LazyLock<Identity> = LazyLock::new(Identity::new);

const STEPS_MAX: usize = 300;

#[derive(Debug, Arbitrary)]
struct Input {
    /// Whether both use the draft's method, or the one without waiting.
    is_draft: bool,
    /// What happens to each message, in order; further ones arrive unchanged.
    edits: Vec<Edit>,
    /// The number of replacements of keys.
    rekeys: u8,
}

#[derive(Debug, Arbitrary)]
enum Edit {
    Keep,
    Drop,
    Flip { at: u16, bits: u8 },
    Cut { at: u16 },
    Append(Vec<u8>),
    /// A message of these bytes is inserted before it.
    Insert(Vec<u8>),
}

struct Side {
    manager: KeyManager,
    was_protected: bool,
    is_over: bool,
}

impl Side {
    fn on_event(&mut self, event: &KeyEvent) {
        self.was_protected |= *event == KeyEvent::Protected;
        self.is_over |= matches!(event, KeyEvent::Failed(_));
    }
}

fn agreement(role: Role, method: u8) -> Agreement {
    let [client, server] =
        [&b"\x80\x06\x00\x0aone__\xfe"[..], b"\x80\x06\x00\x0atwo__\xfe"].map(Bytes::from_static);
    let (local, peer) = if role == Role::Client { (client, server) } else { (server, client) };
    Agreement { role, method, restart: false, local, peer }
}

fuzz_target!(|input: Input| {
    let mut now = Time::ZERO;
    let method = if input.is_draft { 192 } else { 254 };
    let side = |role, settings| Side {
        manager: KeyManager::new(now, Arc::new(settings), agreement(role, method)),
        was_protected: false,
        is_over: false,
    };
    let mut sides = [side(Role::Client, IDENTITY.client()), side(Role::Server, IDENTITY.server())];
    let is_changed = input.edits.iter().any(|edit| !matches!(edit, Edit::Keep));
    let mut edits = input.edits.into_iter();
    let mut rekeys = input.rekeys % 5;
    for _ in 0..STEPS_MAX {
        let mut moved = false;
        for from in [0, 1] {
            loop {
                match sides[from].manager.poll(now) {
                    Output::Send(Action::Send(message)) => {
                        moved = true;
                        for message in edited(edits.next(), message) {
                            sides[1 - from].manager.handle(now, &message);
                        }
                    }
                    Output::Send(_) => {}
                    Output::Event(event) => sides[from].on_event(&event),
                    Output::Wait(_) => break,
                }
            }
        }
        now += Duration::from_millis(10);
        if !moved {
            let epoch = sides[0].manager.epoch();
            match epoch.filter(|_| rekeys > 0) {
                Some(epoch) => {
                    rekeys -= 1;
                    let at = usize::from(rekeys % 2 == 1);
                    sides[at].manager.want_keys(now, epoch);
                }
                None => break,
            }
        }
    }
    if !is_changed {
        assert!(sides.iter().all(|side| side.manager.is_protected() && !side.is_over));
        assert_eq!(sides[0].manager.epoch(), sides[1].manager.epoch());
    }
    // No waiting without a time limit.
    now += Duration::from_secs(400);
    for side in &mut sides {
        let mut outputs = 0;
        loop {
            outputs += 1;
            assert!(outputs < STEPS_MAX, "a key management does not come to rest");
            match side.manager.poll(now) {
                Output::Event(event) => side.on_event(&event),
                Output::Wait(_) => break,
                Output::Send(_) => {}
            }
        }
    }
    let [client, server] = &sides;
    assert!(!client.manager.is_protected() || server.was_protected, "the client alone is protected");
});

fn edited(edit: Option<Edit>, message: Bytes) -> Vec<Vec<u8>> {
    let mut bytes = message.to_vec();
    match edit {
        None | Some(Edit::Keep) => {}
        Some(Edit::Drop) => return Vec::new(),
        Some(Edit::Flip { at, bits }) => {
            let at = usize::from(at) % bytes.len();
            bytes[at] ^= bits;
        }
        Some(Edit::Cut { at }) => bytes.truncate(usize::from(at) % bytes.len()),
        Some(Edit::Append(more)) => bytes.extend(more),
        Some(Edit::Insert(other)) => return vec![other, bytes],
    }
    vec![bytes]
}
