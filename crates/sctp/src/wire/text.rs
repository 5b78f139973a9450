//! Text form of packets, chunks, parameters and causes in packetdrill's notation, with its short form of
//! zero flags. Logs, scripts, test failures and traces all use `DATA[flgs=BE, len=1016, tsn=1, sid=0,
//! ssn=0, ppid=0]`.
//!
//! Opaque values are shown by their length only, and text of the peer is escaped.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;

use bytes::Bytes;

use super::{
    Asconf, AsconfAck, Auth, Cause, Change, Chunk, CompactSack, Data, Dtls, ForwardTsn, IForwardTsn, Init,
    Interleaved, KeyManagement, NextTsns, NrSack, Outcome, Packet, Parameter, Reconfig, Sack, Tlv, next_tlv,
    param,
};
use crate::ids::{StreamId, Tsn};

impl Display for Packet {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let header = &self.header;
        write!(f, "sctp({}>{}, tag={}):", header.source_port, header.destination_port, header.tag.0)?;
        for (index, chunk) in self.chunks().enumerate() {
            f.write_str(if index == 0 { " " } else { "; " })?;
            match chunk {
                Ok(chunk) => chunk.fmt(f)?,
                Err(wrong) => write!(f, "({wrong})")?,
            }
        }
        Ok(())
    }
}

impl Display for Chunk {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(data) => data.fmt(f),
            Self::Init(init) => init.write(f, "INIT"),
            Self::InitAck(init) => init.write(f, "INIT_ACK"),
            Self::Sack(sack) => sack.fmt(f),
            Self::Heartbeat(info) => write!(f, "HEARTBEAT[flgs=0, {}]", HeartbeatInfo(info)),
            Self::HeartbeatAck(info) => write!(f, "HEARTBEAT_ACK[flgs=0, {}]", HeartbeatInfo(info)),
            Self::Abort { reflected, causes } => {
                write!(f, "ABORT[flgs={}{}]", TBit(*reflected), Behind(causes))
            }
            Self::Shutdown { cum_tsn_ack } => write!(f, "SHUTDOWN[flgs=0, cum_tsn={cum_tsn_ack}]"),
            Self::ShutdownAck => f.write_str("SHUTDOWN_ACK[flgs=0]"),
            Self::Error(causes) => write!(f, "ERROR[flgs=0{}]", Behind(causes)),
            Self::CookieEcho(_) => write!(f, "COOKIE_ECHO[flgs=0, len={}]", self.encoded_len()),
            Self::CookieAck => f.write_str("COOKIE_ACK[flgs=0]"),
            Self::ShutdownComplete { reflected } => write!(f, "SHUTDOWN_COMPLETE[flgs={}]", TBit(*reflected)),
            Self::Reconfig(parameters) => write!(f, "RECONFIG[flgs=0{}]", Behind(parameters)),
            Self::Ecne { lowest_tsn } => write!(f, "ECNE[flgs=0, tsn={lowest_tsn}]"),
            Self::Cwr { lowest_tsn } => write!(f, "CWR[flgs=0, tsn={lowest_tsn}]"),
            Self::NrSack(sack) => sack.fmt(f),
            Self::CompactSack(sack) => sack.fmt(f),
            Self::ForwardTsn(forward) => forward.fmt(f),
            Self::IForwardTsn(forward) => forward.fmt(f),
            Self::Auth(auth) => auth.fmt(f),
            Self::Asconf(asconf) => asconf.fmt(f),
            Self::AsconfAck(ack) => ack.fmt(f),
            Self::Dtls(dtls) => dtls.fmt(f),
            Self::Pad(_) => write!(f, "PAD[flgs=0, len={}, val=...]", self.encoded_len()),
            Self::Unknown { kind, raw } => {
                let flags = raw.get(1).copied().unwrap_or_default();
                write!(f, "CHUNK[type={kind:#04x}, flgs={flags:#04x}, len={}]", raw.len())
            }
        }
    }
}

impl Display for Data {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.interleaved.is_some() { "I_DATA[flgs=" } else { "DATA[flgs=" })?;
        if self.flags() == 0 {
            f.write_str("0")?;
        }
        for (set, letter) in
            [(self.immediate, "I"), (self.unordered, "U"), (self.begin, "B"), (self.end, "E")]
        {
            if set {
                f.write_str(letter)?;
            }
        }
        let (len, tsn, sid) = (self.encoded_len(), self.tsn, self.stream.0);
        write!(f, ", len={len}, tsn={tsn}, sid={sid}, ")?;
        match self.interleaved {
            None => write!(f, "ssn={}, ppid={}]", self.ssn, self.ppid.0),
            Some(Interleaved { mid, .. }) if self.begin => write!(f, "mid={mid}, ppid={}]", self.ppid.0),
            Some(Interleaved { mid, fsn }) => write!(f, "mid={mid}, fsn={fsn}]"),
        }
    }
}

impl Display for Asconf {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ASCONF[flgs=0, serial={}", self.serial)?;
        match self.address {
            Some(ip) => write!(f, ", {}", Parameter::Address(ip))?,
            None => f.write_str(", HOSTNAME_ADDRESS[addr=...]")?,
        }
        for request in &self.requests {
            let (name, ip) = match &request.change {
                Change::Add(ip) => ("ADD_IP_ADDRESS", ip),
                Change::Delete(ip) => ("DELETE_IP_ADDRESS", ip),
                Change::SetPrimary(ip) => ("SET_PRIMARY_ADDRESS", ip),
                Change::Other { kind, .. } => {
                    write!(f, ", PARAMETER[type={kind:#06x}, len={}]", request.encoded_len())?;
                    continue;
                }
            };
            write!(f, ", {name}[correlation_id={}, {}]", request.correlation, Parameter::Address(*ip))?;
        }
        f.write_str("]")
    }
}

impl Display for AsconfAck {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "ASCONF_ACK[flgs=0, serial={}", self.serial)?;
        for response in &self.responses {
            let id = response.correlation;
            match &response.outcome {
                Outcome::Success => write!(f, ", SUCCESS_INDICATION[correlation_id={id}]")?,
                Outcome::Error(causes) => {
                    write!(f, ", ERROR_CAUSE_INDICATION[correlation_id={id}{}]", Behind(causes))?;
                }
                Outcome::Other { kind, .. } => {
                    write!(f, ", PARAMETER[type={kind:#06x}, len={}]", response.encoded_len())?;
                }
            }
        }
        f.write_str("]")
    }
}

impl Display for Dtls {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let flags = if self.is_restart { "R" } else { "0" };
        write!(f, "DTLS[flgs={flags}, len={}, val=...]", self.encoded_len())
    }
}

impl Display for KeyManagement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("DTLS_KEY_MANAGEMENT[flgs=")?;
        let letters = [(Self::RESTART, "R"), (Self::SERVER, "S"), (Self::CLIENT, "C")];
        if letters.iter().all(|(flag, _)| !self.has(*flag)) {
            f.write_str("0")?;
        }
        for (_, letter) in letters.iter().filter(|(flag, _)| self.has(*flag)) {
            f.write_str(letter)?;
        }
        write!(f, ", tie_breaker={}, ids=[", self.tie_breaker)?;
        for (index, id) in self.methods.iter().enumerate() {
            write!(f, "{}{id}", comma(index))?;
        }
        f.write_str("]]")
    }
}

impl Display for Auth {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (len, Self { key_id, hmac_id, .. }) = (self.encoded_len(), self);
        write!(f, "AUTH[flgs=0, len={len}, shk_id={key_id}, hmac_id={hmac_id}, hmac=...]")
    }
}

impl Display for Sack {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { flags, cum_tsn_ack, a_rwnd, .. } = self;
        write!(f, "SACK[flgs={flags}, cum_tsn={cum_tsn_ack}, a_rwnd={a_rwnd}, gaps=[")?;
        write!(f, "{}], dups=[{}]]", Blocks(&self.gaps), Tsns(&self.dups))
    }
}

impl Display for NrSack {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { flags, cum_tsn_ack, a_rwnd, gaps, nr_gaps, dups } = self;
        write!(f, "NR_SACK[flgs={flags}, cum_tsn={cum_tsn_ack}, a_rwnd={a_rwnd}, gaps=[{}]", Blocks(gaps))?;
        write!(f, ", nr_gaps=[{}], dups=[{}]]", Blocks(nr_gaps), Tsns(dups))
    }
}

impl Display for CompactSack {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { is_cut, cum_tsn_ack, a_rwnd, gaps, dups } = self;
        let flags = if *is_cut { "C" } else { "0" };
        write!(
            f,
            "COMPACT_SACK[flgs={flags}, cum_tsn={cum_tsn_ack}, a_rwnd={a_rwnd}, gaps=[{}]",
            Blocks(gaps)
        )?;
        write!(f, ", dups=[{}]]", Tsns(dups))
    }
}

struct Blocks<'a>(&'a [(u16, u16)]);

impl Display for Blocks<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut blocks = self.0.iter().enumerate();
        blocks.try_for_each(|(index, (start, end))| write!(f, "{}{start}:{end}", comma(index)))
    }
}

struct Tsns<'a>(&'a [Tsn]);

impl Display for Tsns<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(index, tsn)| write!(f, "{}{tsn}", comma(index)))
    }
}

impl Display for ForwardTsn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "FORWARD_TSN[cum_tsn={}, ids=[", self.new_cum_tsn)?;
        for (index, (stream, ssn)) in self.streams.iter().enumerate() {
            write!(f, "{}{{{},{ssn}}}", comma(index), stream.0)?;
        }
        f.write_str("]]")
    }
}

impl Display for IForwardTsn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "I_FORWARD_TSN[cum_tsn={}, ids=[", self.new_cum_tsn)?;
        for (index, skipped) in self.streams.iter().enumerate() {
            let (stream, unordered) = (skipped.stream.0, u8::from(skipped.unordered));
            write!(f, "{}{{{stream},{unordered},{}}}", comma(index), skipped.mid)?;
        }
        f.write_str("]]")
    }
}

impl Init {
    fn write(&self, f: &mut Formatter<'_>, name: &str) -> fmt::Result {
        let Self { initiate_tag, a_rwnd, outbound_streams, inbound_streams, initial_tsn, parameters } = self;
        write!(
            f,
            "{name}[flgs=0, tag={}, a_rwnd={a_rwnd}, os={outbound_streams}, is={inbound_streams}, \
             tsn={initial_tsn}{}]",
            initiate_tag.0,
            Behind(parameters)
        )
    }
}

impl Display for Parameter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(IpAddr::V4(address)) => write!(f, "IPV4_ADDRESS[addr={address}]"),
            Self::Address(IpAddr::V6(address)) => write!(f, "IPV6_ADDRESS[addr={address}]"),
            Self::StateCookie(_) => write!(f, "STATE_COOKIE[len={}, val=...]", self.encoded_len()),
            Self::Unrecognized(raw) => write!(f, "UNRECOGNIZED_PARAMETER[params=[{}]]", Raw(raw)),
            Self::CookiePreservative(millis) => write!(f, "COOKIE_PRESERVATIVE[incr={millis}]"),
            Self::HostName(name) => write!(f, "HOSTNAME_ADDRESS[addr={}]", Quoted(name)),
            Self::SupportedAddressTypes(types) => {
                f.write_str("SUPPORTED_ADDRESS_TYPES[types=[")?;
                for (index, kind) in types.iter().enumerate() {
                    f.write_str(comma(index))?;
                    match *kind {
                        Self::IPV4_ADDRESS => f.write_str("IPv4")?,
                        Self::IPV6_ADDRESS => f.write_str("IPv6")?,
                        Self::HOST_NAME => f.write_str("HOSTNAME")?,
                        kind => write!(f, "{kind:#06x}")?,
                    }
                }
                f.write_str("]]")
            }
            Self::Random(value) => write!(f, "RANDOM[len={}, val=...]", Tlv::HEADER_LEN + value.len()),
            Self::ChunkList(kinds) => {
                f.write_str("CHUNKS[types=[")?;
                for (index, kind) in kinds.iter().enumerate() {
                    write!(f, "{}{kind:#04x}", comma(index))?;
                }
                f.write_str("]]")
            }
            Self::HmacAlgo(ids) => {
                f.write_str("HMAC_ALGO[ids=[")?;
                for (index, id) in ids.iter().enumerate() {
                    write!(f, "{}{id}", comma(index))?;
                }
                f.write_str("]]")
            }
            Self::Adaptation(point) => {
                write!(f, "ADAPTATION_INDICATION[adaptation_code_point={point:#010x}]")
            }
            Self::SupportedExtensions(kinds) => {
                f.write_str("SUPPORTED_EXTENSIONS[types=[")?;
                for (index, kind) in kinds.iter().enumerate() {
                    match *kind {
                        Data::INTERLEAVED_KIND => write!(f, "{}I_DATA", comma(index))?,
                        Chunk::RECONFIG => write!(f, "{}RECONFIG", comma(index))?,
                        CompactSack::KIND => write!(f, "{}COMPACT_SACK", comma(index))?,
                        NrSack::KIND => write!(f, "{}NR_SACK", comma(index))?,
                        ForwardTsn::KIND => write!(f, "{}FORWARD_TSN", comma(index))?,
                        IForwardTsn::KIND => write!(f, "{}I_FORWARD_TSN", comma(index))?,
                        kind => write!(f, "{}{kind:#04x}", comma(index))?,
                    }
                }
                f.write_str("]]")
            }
            Self::EcnCapable => f.write_str("ECN_CAPABLE[]"),
            Self::ZeroChecksum(method) => write!(f, "ZERO_CHECKSUM_ACCEPTABLE[edmid={method}]"),
            Self::KeyManagement(keys) => keys.fmt(f),
            Self::ForwardTsnSupported => f.write_str("FORWARD_TSN_SUPPORTED[]"),
            Self::Unknown { kind, raw } => write!(f, "PARAMETER[type={kind:#06x}, len={}]", raw.len()),
        }
    }
}

impl Display for Reconfig {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutgoingReset { request, response, last_tsn, streams } => write!(
                f,
                "OUTGOING_SSN_RESET[req_sn={request}, resp_sn={response}, last_tsn={last_tsn}, sids=[{}]]",
                Sids(streams)
            ),
            Self::IncomingReset { request, streams } => {
                write!(f, "INCOMING_SSN_RESET[req_sn={request}, sids=[{}]]", Sids(streams))
            }
            Self::AssociationReset { request } => write!(f, "SSN_TSN_RESET[req_sn={request}]"),
            Self::Response { response, result, next_tsns } => {
                write!(f, "RECONFIG_RESPONSE[resp_sn={response}, result={}", result.code())?;
                if let Some(NextTsns { sender, receiver }) = next_tsns {
                    write!(f, ", sender_next_tsn={sender}, receiver_next_tsn={receiver}")?;
                }
                f.write_str("]")
            }
            Self::AddOutgoing { request, count } => {
                write!(f, "ADD_OUTGOING_STREAMS[req_sn={request}, number_of_new_streams={count}]")
            }
            Self::AddIncoming { request, count } => {
                write!(f, "ADD_INCOMING_STREAMS[req_sn={request}, number_of_new_streams={count}]")
            }
            Self::Unknown { kind, raw } => write!(f, "PARAMETER[type={kind:#06x}, len={}]", raw.len()),
        }
    }
}

impl Display for Cause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidStreamIdentifier(stream) => write!(f, "INVALID_STREAM_IDENTIFIER[sid={}]", stream.0),
            Self::MissingMandatoryParameter(types) => {
                f.write_str("MISSING_MANDATORY_PARAMETER[types=[")?;
                for (index, kind) in types.iter().enumerate() {
                    f.write_str(comma(index))?;
                    match *kind {
                        Parameter::STATE_COOKIE => f.write_str("STATE_COOKIE")?,
                        kind => write!(f, "{kind:#06x}")?,
                    }
                }
                f.write_str("]]")
            }
            Self::StaleCookie(micros) => write!(f, "STALE_COOKIE_ERROR[staleness={micros}]"),
            Self::OutOfResource => f.write_str("OUT_OF_RESOURCE[]"),
            Self::UnresolvableAddress(raw) => write!(f, "UNRESOLVABLE_ADDRESS[param={}]", Raw(raw)),
            Self::UnrecognizedChunkType(raw) => write!(
                f,
                "UNRECOGNIZED_CHUNK_TYPE[chk=CHUNK[type={:#04x}, len={}]]",
                raw.first().copied().unwrap_or_default(),
                raw.len()
            ),
            Self::InvalidMandatoryParameter => f.write_str("INVALID_MANDATORY_PARAMETER[]"),
            Self::UnrecognizedParameters(raw) => write!(f, "UNRECOGNIZED_PARAMETERS[{}]", Raw(raw)),
            Self::NoUserData(tsn) => write!(f, "NO_USER_DATA[tsn={tsn}]"),
            Self::CookieReceivedWhileShuttingDown => f.write_str("COOKIE_RECEIVED_WHILE_SHUTDOWN[]"),
            Self::RestartWithNewAddresses(raw) => write!(f, "RESTART_WITH_NEW_ADDRESSES[{}]", Raw(raw)),
            Self::UserInitiatedAbort(info) => write!(f, "USER_INITIATED_ABORT[info={}]", Quoted(info)),
            Self::ProtocolViolation(info) => write!(f, "PROTOCOL_VIOLATION[info={}]", Quoted(info)),
            Self::MissingDtlsSupport => f.write_str("MISSING_DTLS_CHUNK_SUPPORT[]"),
            Self::NoCommonKeyManagement => f.write_str("NO_COMMON_DTLS_KEY_MANAGEMENT_METHOD[]"),
            Self::TieBreakerCollision => f.write_str("DTLS_KEY_MANAGEMENT_TIE_BREAKER_COLLISION[]"),
            Self::IncompatibleKeyManagementRoles => f.write_str("INCOMPATIBLE_DTLS_KEY_MANAGEMENT_ROLES[]"),
            Self::DeleteLastAddress(raw) => {
                write!(f, "DELETE_LAST_ADDRESS[len={}]", Tlv::HEADER_LEN + raw.len())
            }
            Self::ResourceShortage(raw) => {
                write!(f, "RESOURCE_SHORTAGE[len={}]", Tlv::HEADER_LEN + raw.len())
            }
            Self::DeleteSourceAddress(raw) => {
                write!(f, "DELETE_SOURCE_ADDRESS[len={}]", Tlv::HEADER_LEN + raw.len())
            }
            Self::IllegalAsconfAck => f.write_str("ILLEGAL_ASCONF_ACK[]"),
            Self::NoAuthorization(raw) => write!(f, "NO_AUTHORIZATION[len={}]", Tlv::HEADER_LEN + raw.len()),
            Self::UnsupportedHmac(id) => write!(f, "UNSUPPORTED_HMAC_ID[hmac_id={id}]"),
            Self::Unknown { code, info } => {
                write!(f, "CAUSE[code={code:#06x}, len={}]", Tlv::HEADER_LEN + info.len())
            }
        }
    }
}

fn comma(index: usize) -> &'static str {
    if index == 0 { "" } else { ", " }
}

/// Streams, separated by commas.
struct Sids<'a>(&'a [StreamId]);

impl Display for Sids<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(index, sid)| write!(f, "{}{}", comma(index), sid.0))
    }
}

struct TBit(bool);

impl Display for TBit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 { "T" } else { "0" })
    }
}

struct HeartbeatInfo<'a>(&'a Bytes);

impl Display for HeartbeatInfo<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "HEARTBEAT_INFORMATION[len={}, val=...]", Tlv::HEADER_LEN + self.0.len())
    }
}

/// Each item after a comma.
struct Behind<'a, T>(&'a [T]);

impl<T: Display> Display for Behind<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|item| write!(f, ", {item}"))
    }
}

/// Encoded parameters; bytes that are not parameters are counted.
struct Raw<'a>(&'a Bytes);

impl Display for Raw<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rest = &self.0[..];
        let mut index = 0;
        while let Some(next) = next_tlv(rest) {
            f.write_str(comma(index))?;
            let parameter =
                next.ok().and_then(|(tlv, behind)| Some((param::decode(self.0, &tlv).ok()?, behind)));
            let Some((parameter, behind)) = parameter else {
                return write!(f, "({} bytes)", rest.len());
            };
            // A report of an unknown parameter could contain another report, and so on: one level is
            // shown.
            match parameter {
                Parameter::Unrecognized(inner) => {
                    write!(f, "UNRECOGNIZED_PARAMETER[params=[({} bytes)]]", inner.len())?;
                }
                parameter => parameter.fmt(f)?,
            }
            rest = behind;
            index += 1;
        }
        Ok(())
    }
}

/// The peer's text, with non-printable characters escaped.
struct Quoted<'a>(&'a Bytes);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}
