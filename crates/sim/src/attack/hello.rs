//! A ClientHello (RFC 8446 §4.1.2) that makes a TLS 1.3 server agree on keys, sign, and respond.
//!
//! It only offers TLS_AES_128_GCM_SHA256 and X25519 with a fixed key share without a secret, so it costs
//! the attacker nothing.

/// Returns a record with the ClientHello.
pub fn client_hello() -> Vec<u8> {
    let extensions = [
        // supported_versions: TLS 1.3.
        extension(43, &[2, 3, 4]),
        // supported_groups: x25519.
        extension(10, &[0, 2, 0, 29]),
        // signature_algorithms: ed25519, ecdsa_secp256r1_sha256, rsa_pss_rsae_sha256.
        extension(13, &[0, 6, 8, 7, 4, 3, 8, 4]),
        // key_share: x25519, and 32 bytes.
        extension(51, &[&[0, 36, 0, 29, 0, 32][..], &[9; 32]].concat()),
    ];
    let body = [
        // legacy_version, and a fixed random number.
        &[&[3, 3][..], &[7; 32]].concat()[..],
        // No session ID; TLS_AES_128_GCM_SHA256; no compression.
        &[0, 0, 2, 0x13, 0x01, 1, 0],
        &prefixed(&extensions.concat()),
    ]
    .concat();
    let message = [&[1, 0][..], &prefixed(&body)].concat();
    [&[22, 3, 1][..], &prefixed(&message)].concat()
}

/// Bytes with a two-byte length prefix.
fn prefixed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat()
}

fn extension(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[0, kind][..], &prefixed(bytes)].concat()
}

#[cfg(test)]
mod tests {
    use braidftp_keys::rustls::server::Acceptor;

    use super::*;

    #[test]
    fn rustls_takes_it_for_a_client_hello() {
        let mut acceptor = Acceptor::default();
        acceptor.read_tls(&mut &client_hello()[..]).unwrap();
        let accepted = acceptor.accept().unwrap().expect("it is whole");
        assert_eq!(accepted.client_hello().server_name(), None);
    }
}
