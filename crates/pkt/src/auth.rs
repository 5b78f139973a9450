//! Computes the HMAC of an AUTH chunk that a script leaves open (RFC 4895 §6). A script cannot contain it,
//! since it depends on the random values of both sides.

use std::collections::BTreeMap;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

use crate::pattern;

const RANDOM: u16 = 0x8002;
const CHUNKS: u16 = 0x8003;
const HMAC_ALGO: u16 = 0x8004;
const AUTH: u8 = 15;
/// The length of AUTH without its HMAC, in bytes.
const AUTH_LEN: usize = 8;

/// The authentication parameters of both sides, and the keys that the user set.
#[derive(Debug, Default)]
pub(crate) struct Authenticator {
    local: Vec<u8>,
    peer: Vec<u8>,
    /// By key number; a missing key is the empty key.
    pub(crate) keys: BTreeMap<u16, Bytes>,
}

impl Authenticator {
    /// Takes the stack's parameters from its INIT or INIT ACK.
    pub(crate) fn on_stack_parameters(&mut self, parameters: &[u8]) {
        self.local = vector(parameters);
    }

    /// Takes the peer's parameters.
    pub(crate) fn on_peer_parameters(&mut self, parameters: &[u8]) {
        self.peer = vector(parameters);
    }

    /// Writes the HMAC into the AUTH chunk at offset `at` of `bytes`, the chunks of a packet.
    pub(crate) fn sign(&self, bytes: &mut [u8], at: usize) {
        let from_auth = &mut bytes[at..];
        let Some(len) = pattern::chunks(from_auth).next().map(<[u8]>::len).filter(|len| *len >= AUTH_LEN)
        else {
            return;
        };
        if from_auth[0] != AUTH {
            return;
        }
        let of = |at: usize| u16::from_be_bytes([from_auth[at], from_auth[at + 1]]);
        let (id, hash) = (of(4), of(6));
        from_auth[AUTH_LEN..len].fill(0);
        let secret = self.keys.get(&id).cloned().unwrap_or_default();
        // The smaller number comes first (§6.1). RANDOM has a fixed length, so the length and then the first
        // different byte decide.
        let number = |vector: &[u8]| (vector.len(), vector.to_vec());
        let (first, second) = match number(&self.local) <= number(&self.peer) {
            true => (&self.local, &self.peer),
            false => (&self.peer, &self.local),
        };
        let key = [&secret[..], first, second].concat();
        let code = match hash {
            1 => code::<Hmac<Sha1>>(&key, from_auth),
            3 => code::<Hmac<Sha256>>(&key, from_auth),
            _ => return,
        };
        let room = len - AUTH_LEN;
        let used = room.min(code.len());
        from_auth[AUTH_LEN..AUTH_LEN + used].copy_from_slice(&code[..used]);
    }
}

fn code<M: Mac + KeyInit>(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let mac = <M as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.chain_update(bytes).finalize().into_bytes().to_vec()
}

/// RANDOM, CHUNKS and HMAC-ALGO among parameters, without padding.
fn vector(parameters: &[u8]) -> Vec<u8> {
    let mut vector = Vec::new();
    for wanted in [RANDOM, CHUNKS, HMAC_ALGO] {
        let mut rest = parameters;
        while rest.len() >= 4 {
            let (kind, len) =
                (u16::from_be_bytes([rest[0], rest[1]]), usize::from(u16::from_be_bytes([rest[2], rest[3]])));
            if len < 4 || len > rest.len() {
                break;
            }
            if kind == wanted {
                vector.extend_from_slice(&rest[..len]);
                break;
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }
    vector
}
