//! A chunk (RFC 9260 §3.2): its type, its length, and the treatment of unknown types.

use bytes::{Bytes, BytesMut};

use super::{
    Asconf, AsconfAck, Auth, Cause, CompactSack, Data, Dtls, ForwardTsn, IForwardTsn, Init, NrSack, Reconfig,
    Sack, WireError, cause, control, padded, put_padding, reconfig,
};
use crate::ids::Tsn;

/// A chunk of a known type (RFC 9260 §3.2), or an unknown one as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// §3.3.1, and I-DATA (RFC 8260 §2.1)
    Data(Data),
    /// §3.3.2
    Init(Init),
    /// §3.3.3, with its state cookie among the parameters
    InitAck(Init),
    /// §3.3.4
    Sack(Sack),
    /// §3.3.5; the opaque Heartbeat Info
    Heartbeat(Bytes),
    /// §3.3.6; the opaque Heartbeat Info
    HeartbeatAck(Bytes),
    /// §3.3.7
    Abort {
        /// Whether the tag is the sender's own, reflected (T bit).
        reflected: bool,
        /// The error causes.
        causes: Vec<Cause>,
    },
    /// §3.3.8
    Shutdown {
        /// The cumulative TSN.
        cum_tsn_ack: Tsn,
    },
    /// §3.3.9
    ShutdownAck,
    /// §3.3.10
    Error(Vec<Cause>),
    /// §3.3.11
    CookieEcho(Bytes),
    /// §3.3.12
    CookieAck,
    /// §3.3.13
    ShutdownComplete {
        /// Whether the tag is the receiver's own, reflected (T bit).
        reflected: bool,
    },
    /// RE-CONFIG (RFC 6525 §3.1)
    Reconfig(Vec<Reconfig>),
    /// NR-SACK (draft-natarajan-tsvwg-sctp-nrsack)
    NrSack(NrSack),
    /// COMPACT-SACK (`specs/compact-sack.md`)
    CompactSack(CompactSack),
    /// FORWARD TSN (RFC 3758 §3.2)
    ForwardTsn(ForwardTsn),
    /// ECNE (RFC 4960 Appendix A)
    Ecne {
        /// The lowest TSN of a packet received with a congestion mark.
        lowest_tsn: Tsn,
    },
    /// CWR (RFC 4960 Appendix A)
    Cwr {
        /// The TSN of the ECNE that it answers.
        lowest_tsn: Tsn,
    },
    /// I-FORWARD-TSN (RFC 8260 §2.3.1)
    IForwardTsn(IForwardTsn),
    /// RFC 4895 §5.1
    Auth(Auth),
    /// RFC 5061 §4.1.1
    Asconf(Asconf),
    /// RFC 5061 §4.1.2
    AsconfAck(AsconfAck),
    /// DTLS (draft-ietf-tsvwg-sctp-dtls-chunk §4.2): all other chunks of its packet, protected
    Dtls(Dtls),
    /// PAD (RFC 4820 §3): this many bytes of padding without meaning
    Pad(u16),
    /// A chunk of unknown type, whose high bits determine its treatment (§3.2). Or a HEARTBEAT with more
    /// than its info, which is echoed unchanged.
    Unknown {
        /// The chunk type.
        kind: u8,
        /// The complete chunk, including the header, as received.
        raw: Bytes,
    },
}

impl Chunk {
    /// The length of a chunk header in bytes: type, flags and length.
    pub const HEADER_LEN: usize = 4;

    /// HEARTBEAT.
    pub const HEARTBEAT: u8 = 4;
    /// HEARTBEAT ACK.
    pub const HEARTBEAT_ACK: u8 = 5;
    /// ABORT.
    pub const ABORT: u8 = 6;
    /// SHUTDOWN.
    pub const SHUTDOWN: u8 = 7;
    /// SHUTDOWN ACK.
    pub const SHUTDOWN_ACK: u8 = 8;
    /// ERROR.
    pub const ERROR: u8 = 9;
    /// COOKIE ECHO.
    pub const COOKIE_ECHO: u8 = 10;
    /// COOKIE ACK.
    pub const COOKIE_ACK: u8 = 11;
    /// ECNE.
    pub const ECNE: u8 = 12;
    /// CWR.
    pub const CWR: u8 = 13;
    /// SHUTDOWN COMPLETE.
    pub const SHUTDOWN_COMPLETE: u8 = 14;
    /// PAD.
    pub const PAD: u8 = 0x84;
    /// RE-CONFIG.
    pub const RECONFIG: u8 = reconfig::KIND;

    /// The T bit of ABORT and SHUTDOWN COMPLETE.
    pub(super) const REFLECTED: u8 = 0x01;

    /// The chunk type.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Data(data) => data.kind(),
            Self::Init(_) => Init::KIND,
            Self::InitAck(_) => Init::ACK_KIND,
            Self::Sack(_) => Sack::KIND,
            Self::Heartbeat(_) => Self::HEARTBEAT,
            Self::HeartbeatAck(_) => Self::HEARTBEAT_ACK,
            Self::Abort { .. } => Self::ABORT,
            Self::Shutdown { .. } => Self::SHUTDOWN,
            Self::ShutdownAck => Self::SHUTDOWN_ACK,
            Self::Error(_) => Self::ERROR,
            Self::CookieEcho(_) => Self::COOKIE_ECHO,
            Self::CookieAck => Self::COOKIE_ACK,
            Self::ShutdownComplete { .. } => Self::SHUTDOWN_COMPLETE,
            Self::Reconfig(_) => Self::RECONFIG,
            Self::Ecne { .. } => Self::ECNE,
            Self::Cwr { .. } => Self::CWR,
            Self::NrSack(_) => NrSack::KIND,
            Self::CompactSack(_) => CompactSack::KIND,
            Self::ForwardTsn(_) => ForwardTsn::KIND,
            Self::IForwardTsn(_) => IForwardTsn::KIND,
            Self::Auth(_) => Auth::KIND,
            Self::Asconf(_) => Asconf::KIND,
            Self::AsconfAck(_) => AsconfAck::KIND,
            Self::Dtls(_) => Dtls::KIND,
            Self::Pad(_) => Self::PAD,
            Self::Unknown { kind, .. } => *kind,
        }
    }

    /// The value of the chunk's length field: without padding.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Data(data) => data.encoded_len(),
            Self::Init(init) | Self::InitAck(init) => init.encoded_len(),
            Self::Sack(sack) => sack.encoded_len(),
            Self::Heartbeat(info) | Self::HeartbeatAck(info) => control::heartbeat_len(info),
            Self::Abort { causes, .. } | Self::Error(causes) => Self::HEADER_LEN + cause::encoded_len(causes),
            Self::Shutdown { .. } | Self::Ecne { .. } | Self::Cwr { .. } => control::SHUTDOWN_LEN,
            Self::CookieEcho(cookie) => Self::HEADER_LEN + cookie.len(),
            Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete { .. } => Self::HEADER_LEN,
            Self::Reconfig(parameters) => Self::HEADER_LEN + reconfig::encoded_len(parameters),
            Self::NrSack(sack) => sack.encoded_len(),
            Self::CompactSack(sack) => sack.encoded_len(),
            Self::ForwardTsn(forward) => forward.encoded_len(),
            Self::IForwardTsn(forward) => forward.encoded_len(),
            Self::Auth(auth) => auth.encoded_len(),
            Self::Asconf(asconf) => asconf.encoded_len(),
            Self::AsconfAck(ack) => ack.encoded_len(),
            Self::Dtls(dtls) => dtls.encoded_len(),
            Self::Pad(len) => Self::HEADER_LEN + usize::from(*len),
            Self::Unknown { raw, .. } => raw.len(),
        }
    }

    /// The chunk as in a packet, without padding, for quotation in an error cause.
    pub(crate) fn quoted(&self) -> Bytes {
        let mut raw = BytesMut::new();
        self.encode(&mut raw);
        raw.truncate(self.encoded_len());
        raw.freeze()
    }

    /// The length of the chunk in a packet, with padding.
    pub fn padded_len(&self) -> usize {
        padded(self.encoded_len())
    }

    /// The encoded chunk without padding.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let mut raw = BytesMut::with_capacity(self.padded_len());
        self.encode(&mut raw);
        raw.truncate(self.encoded_len());
        raw.freeze()
    }

    /// Decodes the chunk in `raw`, a complete chunk without padding within `datagram`.
    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Result<Self, WireError> {
        let (kind, flags) = (raw[0], raw[1]);
        let value = &raw[Self::HEADER_LEN..];
        let exactly = |len: usize| {
            if raw.len() == len { Ok(()) } else { Err(WireError::ChunkLength { kind, len: raw.len() }) }
        };
        Ok(match kind {
            Data::KIND | Data::INTERLEAVED_KIND => Self::Data(Data::decode(datagram, raw)?),
            Sack::KIND => Self::Sack(Sack::decode(raw)?),
            Init::KIND => Self::Init(Init::decode(datagram, raw)?),
            Init::ACK_KIND => Self::InitAck(Init::decode(datagram, raw)?),
            Self::HEARTBEAT | Self::HEARTBEAT_ACK => match control::decode_heartbeat(datagram, raw)? {
                Some(info) if kind == Self::HEARTBEAT => Self::Heartbeat(info),
                Some(info) => Self::HeartbeatAck(info),
                None => Self::Unknown { kind, raw: datagram.slice_ref(raw) },
            },
            Self::ABORT => Self::Abort {
                reflected: flags & Self::REFLECTED != 0,
                //= specs/rfc9260.txt#section-3.3.7
                //# If an endpoint receives an ABORT chunk with a format error or no
                //# TCB is found, it MUST silently discard it.
                causes: cause::decode_all(datagram, value)?,
            },
            Self::SHUTDOWN => {
                exactly(control::SHUTDOWN_LEN)?;
                Self::Shutdown { cum_tsn_ack: Tsn(super::u32_at(value, 0)) }
            }
            // Some stacks append a count of marked packets to the TSN.
            Self::ECNE if matches!(value.len(), 4 | 8) => {
                Self::Ecne { lowest_tsn: Tsn(super::u32_at(value, 0)) }
            }
            Self::CWR if value.len() == 4 => Self::Cwr { lowest_tsn: Tsn(super::u32_at(value, 0)) },
            Self::SHUTDOWN_ACK => {
                exactly(Self::HEADER_LEN)?;
                Self::ShutdownAck
            }
            Self::ERROR => Self::Error(cause::decode_all(datagram, value)?),
            Self::COOKIE_ECHO => Self::CookieEcho(datagram.slice_ref(value)),
            Self::COOKIE_ACK => {
                exactly(Self::HEADER_LEN)?;
                Self::CookieAck
            }
            Self::SHUTDOWN_COMPLETE => {
                exactly(Self::HEADER_LEN)?;
                Self::ShutdownComplete { reflected: flags & Self::REFLECTED != 0 }
            }
            //= specs/rfc6525.txt#section-4.1
            //# This parameter MUST
            //# NOT appear in any other chunk type.
            //= specs/rfc6525.txt#section-4.2
            //# This parameter MUST
            //# NOT appear in any other chunk type.
            //= specs/rfc6525.txt#section-4.3
            //# This parameter MUST
            //# NOT appear in any other chunk type.
            //= specs/rfc6525.txt#section-4.4
            //# This parameter MUST
            //# NOT appear in any other chunk type.
            //= specs/rfc6525.txt#section-4.5
            //# This parameter MUST
            //# NOT appear in any other chunk type.
            //= specs/rfc6525.txt#section-4.6
            //# This parameter MUST
            //# NOT appear in any other chunk type.
            // A malformed one counts as unknown: its high bits say that it is skipped.
            Self::RECONFIG => match reconfig::decode(datagram, value) {
                Ok(parameters) => Self::Reconfig(parameters),
                Err(_) => Self::Unknown { kind, raw: datagram.slice_ref(raw) },
            },
            NrSack::KIND => Self::NrSack(NrSack::decode(raw)?),
            CompactSack::KIND => Self::CompactSack(CompactSack::decode(raw)?),
            ForwardTsn::KIND => Self::ForwardTsn(ForwardTsn::decode(raw)?),
            IForwardTsn::KIND => Self::IForwardTsn(IForwardTsn::decode(raw)?),
            Auth::KIND => Self::Auth(Auth::decode(datagram, raw)?),
            Asconf::KIND => Self::Asconf(Asconf::decode(datagram, raw)?),
            AsconfAck::KIND => Self::AsconfAck(AsconfAck::decode(datagram, raw)?),
            // Without a record it counts as unknown.
            Dtls::KIND => match Dtls::decode(datagram, raw) {
                Some(dtls) => Self::Dtls(dtls),
                None => Self::Unknown { kind, raw: datagram.slice_ref(raw) },
            },
            Self::PAD => Self::Pad(value.len() as u16),
            kind => Self::Unknown { kind, raw: datagram.slice_ref(raw) },
        })
    }

    /// Appends the chunk and its padding.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        let header = |out: &mut BytesMut, flags: u8| {
            let len = u16::try_from(self.encoded_len()).expect("a chunk fits in a packet").to_be_bytes();
            out.extend_from_slice(&[self.kind(), flags, len[0], len[1]]);
        };
        let t_bit = |reflected: bool| if reflected { Self::REFLECTED } else { 0 };
        match self {
            Self::Data(data) => return data.encode(out),
            Self::Sack(sack) => return sack.encode(out),
            Self::NrSack(sack) => return sack.encode(out),
            Self::CompactSack(sack) => sack.encode(out),
            Self::ForwardTsn(forward) => return forward.encode(out),
            Self::IForwardTsn(forward) => return forward.encode(out),
            //= specs/rfc9260.txt#section-3.3.2
            //# The Chunk Flags field in INIT chunks is reserved, and all bits in it
            //# SHOULD be set to 0 by the sender and ignored by the receiver.
            //= specs/rfc9260.txt#section-3.3.3
            //# The Chunk Flags field in INIT ACK chunks is reserved, and all bits in
            //# it SHOULD be set to 0 by the sender and ignored by the receiver.
            Self::Init(init) | Self::InitAck(init) => {
                header(out, 0);
                init.encode_body(out);
            }
            Self::Heartbeat(info) | Self::HeartbeatAck(info) => {
                header(out, 0);
                control::encode_heartbeat_info(info, out);
            }
            Self::Abort { reflected, causes } => {
                //= specs/rfc9260.txt#section-3.3.7
                //# If the Verification Tag is reflected, the T bit MUST be set to 1.
                header(out, t_bit(*reflected));
                causes.iter().for_each(|cause| cause.encode(out));
            }
            Self::Ecne { lowest_tsn: tsn } | Self::Cwr { lowest_tsn: tsn } => {
                header(out, 0);
                out.extend_from_slice(&tsn.0.to_be_bytes());
            }
            Self::Shutdown { cum_tsn_ack } => {
                header(out, 0);
                out.extend_from_slice(&cum_tsn_ack.0.to_be_bytes());
            }
            Self::Error(causes) => {
                header(out, 0);
                causes.iter().for_each(|cause| cause.encode(out));
            }
            Self::CookieEcho(cookie) => {
                header(out, 0);
                out.extend_from_slice(cookie);
            }
            Self::ShutdownAck | Self::CookieAck => header(out, 0),
            //= specs/rfc9260.txt#section-3.3.13
            //# If the Verification Tag is reflected, the T bit MUST be set to 1.
            Self::ShutdownComplete { reflected } => header(out, t_bit(*reflected)),
            Self::Reconfig(parameters) => {
                header(out, 0);
                reconfig::encode(parameters, out);
            }
            Self::Auth(auth) => {
                header(out, 0);
                auth.encode_body(out);
            }
            Self::Asconf(asconf) => {
                header(out, 0);
                asconf.encode_body(out);
            }
            Self::AsconfAck(ack) => {
                header(out, 0);
                ack.encode_body(out);
            }
            Self::Dtls(dtls) => {
                header(out, dtls.flags());
                dtls.encode_body(out);
            }
            Self::Pad(len) => {
                header(out, 0);
                out.resize(out.len() + usize::from(*len), 0);
            }
            Self::Unknown { raw, .. } => out.extend_from_slice(raw),
        }
        put_padding(out, start);
    }
}
