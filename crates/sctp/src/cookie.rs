//! The state cookie (RFC 9260 §5.1.3 to §5.1.5): everything needed to create an association from an INIT
//! that was answered without keeping state. It is authenticated, so that only cookies of this endpoint are
//! accepted, and has a timestamp for its lifetime.
//!
//! A cookie is not encrypted: it contains nothing secret from its bearer, except for the tie tags, which
//! are random. It is authenticated by HMAC-SHA256, truncated to 128 bits, with a key that changes every
//! hour. The endpoint decides whether a valid cookie may create an association (§5.2.4).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use braidftp_base::Time;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::extensions::Extensions;
use crate::ids::{Tsn, VerificationTag};
use crate::wire::{Header, KeyVectors};

/// How long a key is used for new cookies. A cookie is accepted with the key of its own hour or the
/// next, so this bounds its lifetime.
//= specs/rfc9260.txt#section-5.1.3
//# The secret key SHOULD be changed reasonably frequently (e.g., hourly),
//# and the timestamp in the State Cookie MAY be used to determine which
//# key is used to verify the MAC.
pub(crate) const KEY_LIFE: Duration = Duration::from_secs(3_600);

/// The maximum number of addresses in a cookie besides the source of the INIT. Further addresses of the
/// peer are ignored.
pub const MAX_ADDRESSES: usize = 15;

/// Marks the extensions in a cookie, where an address would begin with 4 or 6.
const EXTENSIONS: u8 = 8;

/// Marks the key vectors in a cookie.
const KEY_VECTORS: u8 = 15;

/// Marks the adaptation code point in a cookie.
const ADAPTATION: u8 = 16;

/// Marks the DTLS Key Management parameters in a cookie.
const KEY_MANAGEMENT: u8 = 17;

/// The length of the MAC in bytes.
//= specs/rfc9260.txt#section-3.3.11
//# An implementation SHOULD make the cookie as small as possible to
//# ensure interoperability.
//= specs/rfc9260.txt#section-5.1.3
//# An implementation SHOULD make the cookie as small as possible to
//# ensure interoperability.
const SEAL_LEN: usize = 16;

/// The tie tags of an association that a restarted peer may replace (RFC 9260 §5.2.2): random
/// substitutes for its tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TieTags {
    /// The substitute for the local tag; never 0.
    pub local: u32,
    /// The substitute for the peer's tag; never 0.
    pub peer: u32,
}

/// The result of INIT and INIT ACK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// When the cookie was created.
    pub created: Time,
    /// The lifetime of the cookie in whole milliseconds.
    pub lifespan: Duration,
    /// The local SCTP port.
    pub local_port: u16,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The destination of the INIT, with the UDP encapsulation port.
    pub local: SocketAddr,
    /// The source of the INIT and destination of the INIT ACK, with the peer's UDP encapsulation port.
    pub peer: SocketAddr,
    /// The other addresses that the peer listed; at most [`MAX_ADDRESSES`].
    pub peer_addresses: Vec<IpAddr>,
    /// The tag in the peer's packets; never 0.
    pub local_tag: VerificationTag,
    /// The tag in this side's packets; never 0.
    pub peer_tag: VerificationTag,
    /// This side's initial TSN.
    pub local_initial_tsn: Tsn,
    /// The peer's initial TSN.
    pub peer_initial_tsn: Tsn,
    /// The peer's receive window, in bytes.
    pub peer_a_rwnd: u32,
    /// Outbound streams: the minimum of what this side wants and the peer permits.
    pub outbound_streams: u16,
    /// Inbound streams: the minimum of what the peer wants and this side permits.
    pub inbound_streams: u16,
    /// The extensions that both sides support.
    pub extensions: Extensions,
    /// The key vectors of both sides, if both authenticate. They contain no secret (RFC 4895 §6.3).
    pub auth: Option<KeyVectors>,
    /// The DTLS Key Management parameters of INIT ACK and INIT, without padding, if packets are
    /// protected.
    pub key_management: Option<[Bytes; 2]>,
    /// The adaptation code point of the peer's user.
    pub adaptation: Option<u32>,
    /// The tie tags of the association that existed when the INIT arrived, if there was one.
    pub tie_tags: Option<TieTags>,
}

/// The contents of a valid cookie of this endpoint; created by [`Keys::open`] only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened(Contents);

impl std::ops::Deref for Opened {
    type Target = Contents;

    fn deref(&self) -> &Contents {
        &self.0
    }
}

/// Why a cookie was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CookieError {
    /// The cookie was not made by this endpoint, is too old for its keys, or does not belong to the
    /// packet.
    Forged,
    /// The cookie was made by this endpoint and has expired.
    Stale(Box<Stale>),
}

/// An expired cookie of this endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stale {
    contents: Contents,
    by: Duration,
}

impl Stale {
    /// The contents, to respond to the sender; not to create an association.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// The time since the expiry in microseconds, rounded up, for the Stale Cookie cause.
    pub fn staleness_us(&self) -> u32 {
        u32::try_from(self.by.as_nanos().div_ceil(1_000)).unwrap_or(u32::MAX)
    }

    /// The contents, if they name the tags of an existing association.
    pub fn revived_by(
        self: Box<Self>,
        local_tag: VerificationTag,
        peer_tag: VerificationTag,
    ) -> Result<Opened, Box<Self>> {
        //= specs/rfc9260.txt#section-5.2.4
        //# If both Verification Tags in the State Cookie match the
        //# Verification Tags of the current association, consider the State
        //# Cookie valid (this is case E in Section 5.2), even if the
        //# lifespan is exceeded.
        if (self.contents.local_tag, self.contents.peer_tag) == (local_tag, peer_tag) {
            Ok(Opened(self.contents))
        } else {
            Err(self)
        }
    }
}

/// The keys of an endpoint's cookies: one for each hour, derived from one secret.
pub struct Keys {
    secret: [u8; 32],
    /// The key of the last hour, prepared for use, since preparing costs more than computing a MAC.
    latest: Option<(u32, Hmac<Sha256>)>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Keys {
    /// Creates the keys from `secret`, which must be random.
    //= specs/rfc9260.txt#section-5.1.3
    //# The secret key SHOULD be random ([RFC4086] provides some information
    //# on randomness guidelines).
    //= specs/rfc9260.txt#section-14.1
    //# This SHOULD be a cryptographic quality random number with a sufficient
    //# length.
    pub fn new(secret: [u8; 32]) -> Self {
        Self { secret, latest: None }
    }

    /// Prepares the key of this hour. Optional: without it, cookies take longer.
    pub(crate) fn prepare(&mut self, now: Time) {
        let hour = hour_of(now);
        if self.latest.as_ref().is_none_or(|(latest, _)| *latest != hour) {
            self.latest = Some((hour, self.derive(hour)));
        }
    }

    /// Creates a cookie with these contents.
    //= specs/rfc9260.txt#section-3.3.3.1.1
    //# Cookie: variable length This parameter value MUST contain all the
    //# necessary state and parameter information required for the sender of
    //# this INIT ACK chunk to create the association, along with a Message
    //# Authentication Code (MAC).
    //= specs/rfc9260.txt#section-5.1.3
    //# Inside this State Cookie, the sender MUST include a MAC (see [RFC2104]
    //# for an example) to provide integrity protection on the State Cookie.
    //= specs/rfc9260.txt#section-5.1.3
    //# The State Cookie SHOULD also contain a timestamp on when the State
    //# Cookie is created and the lifespan of the State Cookie, along with all
    //# the information necessary for it to establish the association,
    //# including the port numbers and the Verification Tags.
    pub fn seal(&self, contents: &Contents) -> Bytes {
        let mut sealed = BytesMut::with_capacity(128);
        let hour = hour_of(contents.created);
        sealed.put_u32(hour);
        encode(contents, &mut sealed);
        let seal = self.mac(hour).chain_update(&sealed).finalize().into_bytes();
        sealed.put_slice(&seal[..SEAL_LEN]);
        sealed.freeze()
    }

    /// Returns the contents of a cookie that arrived at `now` in a packet with `header`.
    pub fn open(&self, now: Time, header: &Header, sealed: &[u8]) -> Result<Opened, CookieError> {
        let (body, seal) = sealed.split_last_chunk::<SEAL_LEN>().ok_or(CookieError::Forged)?;
        let (hour, mut rest) = body.split_first_chunk().ok_or(CookieError::Forged)?;
        let hour = u32::from_be_bytes(*hour);
        //= specs/rfc9260.txt#section-5.1.5
        //# If secrets are kept
        //# only for a limited amount of time and the secret key to use is
        //# not available anymore, the packet containing the COOKIE ECHO
        //# chunk MUST be silently discarded.
        if !matches!(hour_of(now).wrapping_sub(hour), 0 | 1) {
            return Err(CookieError::Forged);
        }
        //= specs/rfc9260.txt#section-5.1.5
        //# If this comparison fails, the SCTP packet,
        //# including the COOKIE ECHO chunk and any DATA chunks, MUST be
        //# silently discarded.
        self.mac(hour).chain_update(body).verify_truncated_left(seal).map_err(|_| CookieError::Forged)?;
        let contents = decode(&mut rest).ok_or(CookieError::Forged)?;
        //= specs/rfc9260.txt#section-5.1.5
        //# Compare the port numbers and the Verification Tag contained
        //# within the COOKIE ECHO chunk to the actual port numbers and the
        //# Verification Tag within the SCTP common header of the received
        //# packet.  If these values do not match, the packet MUST be
        //# silently discarded.
        let belongs = Header {
            source_port: contents.peer_port,
            destination_port: contents.local_port,
            tag: contents.local_tag,
        };
        if *header != belongs {
            return Err(CookieError::Forged);
        }
        match now.since(contents.created).checked_sub(contents.lifespan) {
            Some(by) if !by.is_zero() => Err(CookieError::Stale(Box::new(Stale { contents, by }))),
            _ => Ok(Opened(contents)),
        }
    }

    fn mac(&self, hour: u32) -> Hmac<Sha256> {
        match &self.latest {
            Some((latest, mac)) if *latest == hour => mac.clone(),
            _ => self.derive(hour),
        }
    }

    fn derive(&self, hour: u32) -> Hmac<Sha256> {
        let key = hmac(&self.secret).chain_update(b"state cookie").chain_update(hour.to_be_bytes());
        hmac(&key.finalize().into_bytes())
    }
}

//= specs/rfc9260.txt#section-5.1.3
//# A MAC with acceptable security properties SHOULD be used.
fn hmac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes a key of any length")
}

fn hour_of(now: Time) -> u32 {
    // 2^32 hours are 490,000 years; the range of `Time` is shorter.
    (now.as_nanos() / KEY_LIFE.as_nanos() as u64) as u32
}

//= specs/rfc9260.txt#section-5.1.3
//# If the State Cookie is not encrypted, it MUST NOT contain information
//# that is not being envisioned to be shared.
fn encode(contents: &Contents, out: &mut BytesMut) {
    out.put_u64(contents.created.as_nanos());
    out.put_u32(u32::try_from(contents.lifespan.as_millis()).unwrap_or(u32::MAX));
    out.put_u16(contents.local_port);
    out.put_u16(contents.peer_port);
    out.put_u32(contents.local_tag.0);
    out.put_u32(contents.peer_tag.0);
    out.put_u32(contents.local_initial_tsn.0);
    out.put_u32(contents.peer_initial_tsn.0);
    out.put_u32(contents.peer_a_rwnd);
    out.put_u16(contents.outbound_streams);
    out.put_u16(contents.inbound_streams);
    let tie_tags = contents.tie_tags.unwrap_or(TieTags { local: 0, peer: 0 });
    out.put_u32(tie_tags.local);
    out.put_u32(tie_tags.peer);
    encode_address(contents.local, out);
    encode_address(contents.peer, out);
    for address in contents.peer_addresses.iter().take(MAX_ADDRESSES) {
        encode_ip(*address, out);
    }
    if contents.extensions != Extensions::default() {
        out.put_u8(EXTENSIONS);
        out.put_u16(contents.extensions.bits());
    }
    if let Some(KeyVectors { local, peer }) = &contents.auth {
        out.put_u8(KEY_VECTORS);
        for vector in [local, peer] {
            // Limited when read from an INIT, or written by this side: a few hundred bytes.
            out.put_u16(vector.len() as u16);
            out.put_slice(vector);
        }
    }
    if let Some(parameters) = &contents.key_management {
        out.put_u8(KEY_MANAGEMENT);
        for parameter in parameters {
            // At most 264 bytes.
            out.put_u16(parameter.len() as u16);
            out.put_slice(parameter);
        }
    }
    if let Some(adaptation) = contents.adaptation {
        out.put_u8(ADAPTATION);
        out.put_u32(adaptation);
    }
}

fn encode_ip(address: IpAddr, out: &mut BytesMut) {
    match address {
        IpAddr::V4(address) => {
            out.put_u8(4);
            out.put_slice(&address.octets());
        }
        IpAddr::V6(address) => {
            out.put_u8(6);
            out.put_slice(&address.octets());
        }
    }
}

fn encode_address(address: SocketAddr, out: &mut BytesMut) {
    encode_ip(address.ip(), out);
    out.put_u16(address.port());
    if let SocketAddr::V6(address) = address {
        // A link-local address needs its interface.
        out.put_u32(address.scope_id());
    }
}

/// Decodes the output of `encode`. The MAC was verified before, so `None` should not occur; but no
/// length in it is trusted.
fn decode(from: &mut &[u8]) -> Option<Contents> {
    let mut contents = Contents {
        created: Time::from_nanos(from.try_get_u64().ok()?),
        lifespan: Duration::from_millis(from.try_get_u32().ok()?.into()),
        local_port: from.try_get_u16().ok()?,
        peer_port: from.try_get_u16().ok()?,
        local_tag: VerificationTag(from.try_get_u32().ok()?),
        peer_tag: VerificationTag(from.try_get_u32().ok()?),
        local_initial_tsn: Tsn(from.try_get_u32().ok()?),
        peer_initial_tsn: Tsn(from.try_get_u32().ok()?),
        peer_a_rwnd: from.try_get_u32().ok()?,
        outbound_streams: from.try_get_u16().ok()?,
        inbound_streams: from.try_get_u16().ok()?,
        extensions: Extensions::default(),
        auth: None,
        key_management: None,
        adaptation: None,
        tie_tags: {
            let (local, peer) = (from.try_get_u32().ok()?, from.try_get_u32().ok()?);
            (local != 0 && peer != 0).then_some(TieTags { local, peer })
        },
        local: decode_address(from)?,
        peer: decode_address(from)?,
        peer_addresses: Vec::new(),
    };
    while let Some(&kind) = from.first() {
        if matches!(kind, 4 | 6) {
            contents.peer_addresses.push(decode_ip(from)?);
            continue;
        }
        from.advance(1);
        match kind {
            EXTENSIONS => contents.extensions = Extensions::from_bits(from.try_get_u16().ok()?),
            KEY_VECTORS => {
                let (local, peer) = (decode_bytes(from)?, decode_bytes(from)?);
                contents.auth = Some(KeyVectors { local, peer });
            }
            KEY_MANAGEMENT => contents.key_management = Some([decode_bytes(from)?, decode_bytes(from)?]),
            ADAPTATION => contents.adaptation = Some(from.try_get_u32().ok()?),
            _ => return None,
        }
    }
    Some(contents)
}

fn decode_bytes(from: &mut &[u8]) -> Option<Bytes> {
    let len = usize::from(from.try_get_u16().ok()?);
    let bytes = Bytes::copy_from_slice(from.get(..len)?);
    from.advance(len);
    Some(bytes)
}

fn decode_ip(from: &mut &[u8]) -> Option<IpAddr> {
    match from.try_get_u8().ok()? {
        4 => Some(Ipv4Addr::from_bits(from.try_get_u32().ok()?).into()),
        6 => Some(Ipv6Addr::from_bits(from.try_get_u128().ok()?).into()),
        _ => None,
    }
}

fn decode_address(from: &mut &[u8]) -> Option<SocketAddr> {
    let (ip, port) = (decode_ip(from)?, from.try_get_u16().ok()?);
    Some(match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(ip) => SocketAddrV6::new(ip, port, 0, from.try_get_u32().ok()?).into(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn contents() -> Contents {
        Contents {
            created: Time::from_millis(5_000),
            lifespan: Duration::from_secs(60),
            local_port: 21,
            peer_port: 40_000,
            local: "127.0.0.1:9899".parse().unwrap(),
            peer: "[fe80::1%3]:5000".parse().unwrap(),
            peer_addresses: vec!["10.0.0.1".parse().unwrap(), "2001:db8::7".parse().unwrap()],
            local_tag: VerificationTag(0xdead_beef),
            peer_tag: VerificationTag(7),
            local_initial_tsn: Tsn(1),
            peer_initial_tsn: Tsn(u32::MAX),
            peer_a_rwnd: 65_536,
            outbound_streams: 5,
            inbound_streams: 6,
            extensions: Extensions { auth: true, interleaving: true, ..Extensions::default() },
            auth: None,
            key_management: None,
            adaptation: Some(7),
            tie_tags: Some(TieTags { local: 8, peer: 9 }),
        }
    }

    const HEADER: Header =
        Header { source_port: 40_000, destination_port: 21, tag: VerificationTag(0xdead_beef) };

    fn keys() -> Keys {
        Keys::new([3; 32])
    }

    #[test]
    fn a_cookie_gives_back_what_it_holds() {
        //= specs/rfc9260.txt#section-3.3.11
        //= type=test
        //# An implementation SHOULD make the cookie as small as possible to
        //# ensure interoperability.
        //= specs/rfc9260.txt#section-5.1.3
        //= type=test
        //# The State Cookie SHOULD also contain a timestamp on when the State
        //# Cookie is created and the lifespan of the State Cookie, along with all
        //# the information necessary for it to establish the association,
        //# including the port numbers and the Verification Tags.
        //= specs/rfc9260.txt#section-5.1.3
        //= type=test
        //# An implementation SHOULD make the cookie as small as possible to
        //# ensure interoperability.
        //= specs/rfc9260.txt#section-3.3.3.1.1
        //= type=test
        //# Cookie: variable length This parameter value MUST contain all the
        //# necessary state and parameter information required for the sender of
        //# this INIT ACK chunk to create the association, along with a Message
        //# Authentication Code (MAC).
        let sealed = keys().seal(&contents());
        let opened = keys().open(Time::from_millis(65_000), &HEADER, &sealed).unwrap();
        assert_eq!(*opened, contents());
        assert!(sealed.len() < 160, "{} bytes: as small as possible (RFC 9260 §5.1.3)", sealed.len());
    }

    #[test]
    fn a_cookie_does_not_tell_its_key() {
        //= specs/rfc9260.txt#section-5.1.3
        //= type=test
        //# If the State Cookie is not encrypted, it MUST NOT contain information
        //# that is not being envisioned to be shared.
        let secret = [0xa5; 32];
        let sealed = Keys::new(secret).seal(&contents());
        assert!(!sealed.windows(4).any(|bytes| bytes == &secret[..4]));
    }

    #[test]
    fn key_vectors_round_trip_in_a_cookie() {
        let vectors = KeyVectors { local: vec![1; 60].into(), peer: vec![2; 332].into() };
        let contents = Contents { auth: Some(vectors), ..contents() };
        let opened = keys().open(contents.created, &HEADER, &keys().seal(&contents)).unwrap();
        assert_eq!(*opened, contents);
    }

    #[test]
    fn a_cookie_with_any_bit_changed_is_forged() {
        //= specs/rfc9260.txt#section-5.1.3
        //= type=test
        //# A MAC with acceptable security properties SHOULD be used.
        //= specs/rfc9260.txt#section-5.1.3
        //= type=test
        //# Inside this State Cookie, the sender MUST include a MAC (see [RFC2104]
        //# for an example) to provide integrity protection on the State Cookie.
        let sealed = keys().seal(&contents());
        for bit in 0..sealed.len() * 8 {
            let mut forged = sealed.to_vec();
            forged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                keys().open(Time::from_millis(5_000), &HEADER, &forged),
                Err(CookieError::Forged),
                "bit {bit}"
            );
        }
    }

    #[test]
    fn a_cookie_cut_short_or_grown_is_forged() {
        let sealed = keys().seal(&contents());
        for len in 0..sealed.len() {
            assert_eq!(keys().open(Time::ZERO, &HEADER, &sealed[..len]), Err(CookieError::Forged));
        }
        let grown = [&sealed[..], &[0]].concat();
        assert_eq!(keys().open(Time::from_millis(5_000), &HEADER, &grown), Err(CookieError::Forged));
    }

    #[test]
    fn another_endpoints_cookie_is_forged() {
        //= specs/rfc9260.txt#section-5.1.3
        //= type=test
        //# The secret key SHOULD be random ([RFC4086] provides some information
        //# on randomness guidelines).
        //= specs/rfc9260.txt#section-14.1
        //= type=test
        //# This SHOULD be a cryptographic quality random number with a sufficient
        //# length.
        let sealed = Keys::new([4; 32]).seal(&contents());
        assert_eq!(keys().open(Time::from_millis(5_000), &HEADER, &sealed), Err(CookieError::Forged));
    }

    #[test]
    fn a_cookie_belongs_to_the_ports_and_tag_of_its_packet() {
        //= specs/rfc9260.txt#section-5.1.5
        //= type=test
        //# If these values do not match, the packet MUST be silently discarded.
        let sealed = keys().seal(&contents());
        for header in [
            Header { source_port: 40_001, ..HEADER },
            Header { destination_port: 22, ..HEADER },
            Header { tag: VerificationTag(0xdead_beee), ..HEADER },
        ] {
            let opened = keys().open(Time::from_millis(5_000), &header, &sealed);
            assert_eq!(opened, Err(CookieError::Forged), "{header:?}");
        }
    }

    #[test]
    fn a_cookie_is_stale_from_the_nanosecond_after_its_life() {
        let sealed = keys().seal(&contents());
        let end = Time::from_millis(65_000);
        assert!(keys().open(end, &HEADER, &sealed).is_ok());
        let Err(CookieError::Stale(stale)) = keys().open(end + Duration::from_nanos(1), &HEADER, &sealed)
        else {
            panic!("not stale");
        };
        assert_eq!(stale.staleness_us(), 1, "rounded up (RFC 9260 §3.3.10.3)");
        let Err(CookieError::Stale(stale)) = keys().open(end + KEY_LIFE / 2, &HEADER, &sealed) else {
            panic!("not stale");
        };
        assert_eq!(stale.staleness_us(), 1_800_000_000);
    }

    //= specs/rfc9260.txt#section-5.2.4
    //= type=test
    //# If both Verification Tags in the State Cookie match the
    //# Verification Tags of the current association, consider the State
    //# Cookie valid (this is case E in Section 5.2), even if the
    //# lifespan is exceeded.
    #[test]
    fn a_stale_cookie_is_valid_only_for_its_own_association() {
        let sealed = keys().seal(&contents());
        let stale = || match keys().open(Time::from_millis(65_001), &HEADER, &sealed) {
            Err(CookieError::Stale(stale)) => stale,
            other => panic!("{other:?}"),
        };
        let (local, peer) = (contents().local_tag, contents().peer_tag);
        assert!(stale().revived_by(local, peer).is_ok());
        assert!(stale().revived_by(local, VerificationTag(1)).is_err());
        assert!(stale().revived_by(VerificationTag(1), peer).is_err());
    }

    #[test]
    fn keys_change_every_hour_and_the_last_one_still_opens() {
        //= specs/rfc9260.txt#section-5.1.5
        //= type=test
        //# If secrets are kept only for a limited amount of time and the secret
        //# key to use is not available anymore, the packet containing the COOKIE
        //# ECHO chunk MUST be silently discarded.
        //= specs/rfc9260.txt#section-5.1.3
        //= type=test
        //# The secret key SHOULD be changed reasonably frequently (e.g., hourly),
        //# and the timestamp in the State Cookie MAY be used to determine which
        //# key is used to verify the MAC.
        let late = Contents { created: Time::ZERO + (KEY_LIFE - Duration::from_secs(1)), ..contents() };
        let sealed = keys().seal(&late);
        assert!(keys().open(Time::ZERO + KEY_LIFE, &HEADER, &sealed).is_ok(), "an hour has passed, no life");
        assert_eq!(
            keys().open(Time::ZERO + 2 * KEY_LIFE, &HEADER, &sealed),
            Err(CookieError::Forged),
            "the key is gone"
        );
        let next = Contents { created: Time::ZERO + KEY_LIFE, ..late.clone() };
        assert!(keys().open(next.created, &HEADER, &keys().seal(&next)).is_ok());
        let strip = |sealed: &Bytes| sealed[sealed.len() - SEAL_LEN..].to_vec();
        assert_ne!(strip(&keys().seal(&late)), strip(&keys().seal(&next)));
        assert_eq!(
            keys().open(Time::ZERO, &HEADER, &keys().seal(&next)),
            Err(CookieError::Forged),
            "from the future"
        );
    }

    #[test]
    fn a_cookie_holds_a_bounded_number_of_addresses() {
        let many =
            Contents { peer_addresses: vec!["10.0.0.1".parse().unwrap(); MAX_ADDRESSES + 1], ..contents() };
        let opened = keys().open(many.created, &HEADER, &keys().seal(&many)).unwrap();
        assert_eq!(opened.peer_addresses.len(), MAX_ADDRESSES);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = keys().open(Time::ZERO, &HEADER, &bytes);
            let _ = decode(&mut &bytes[..]);
        }
    }
}
