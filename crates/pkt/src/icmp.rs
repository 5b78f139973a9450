//! ICMP and ICMPv6 messages that a script injects: packetdrill's names of types and codes, and the message
//! as the core takes it.
//!
//! As in packetdrill, a message quotes the first 8 bytes of the SCTP packet it refers to: the ports and the
//! verification tag.

use std::net::{IpAddr, SocketAddr};

use braidftp_sctp::Icmp;

use crate::script::{IcmpSpec, QuotedSpec, ScriptError};

/// A type: its number, its name, and the names of its codes from 0 on.
type Kind = (u8, &'static str, &'static [&'static str]);

/// RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1.
const V4: &[Kind] = &[
    (0, "echo_reply", &[]),
    (
        3,
        "unreachable",
        &[
            "net_unreachable",
            "host_unreachable",
            "protocol_unreachable",
            "port_unreachable",
            "frag_needed",
            "source_route_failed",
            "net_unknown",
            "host_unknown",
            "source_host_isolated",
            "net_prohibited",
            "host_prohibited",
            "net_unreachable_for_tos",
            "host_unreachable_for_tos",
            "packet_filtered",
            "precedence_violation",
            "precedence_cutoff",
        ],
    ),
    (4, "source_quench", &[]),
    (5, "redirect", &[]),
    (8, "echo_request", &[]),
    (11, "time_exceeded", &["ttl_exceeded_in_transit", "frag_reass_exceeded"]),
    (12, "parameter_problem", &[]),
    (13, "timestamp_request", &[]),
    (14, "timestamp_reply", &[]),
    (15, "information_request", &[]),
    (16, "information_reply", &[]),
    (17, "address_mask_request", &[]),
    (18, "address_mask_reply", &[]),
];

/// RFC 4443.
const V6: &[Kind] = &[
    (
        1,
        "unreachable",
        &["no_route", "admin_prohibited", "not_neighbour", "address_unreachable", "port_unreachable"],
    ),
    (2, "packet_too_big", &[]),
    (3, "time_exceeded", &["exceeded_hop_limit", "exceeded_frag_time"]),
    (4, "parameter_problem", &["header_field", "unknown_next_header", "unknown_option"]),
];

/// The length of a UDP header in bytes.
const UDP_LEN: usize = 8;

/// A message in the script's IP version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    kind: u8,
    code: u8,
    is_ipv4: bool,
    /// The reported MTU, in bytes of an IP packet; 0 if the message reports none.
    mtu: usize,
    quoted: QuotedSpec,
}

impl Message {
    /// Resolves `spec` for packets to and from `address`.
    pub(crate) fn new(spec: &IcmpSpec, address: IpAddr, line: usize) -> Result<Self, ScriptError> {
        let is_ipv4 = address.is_ipv4();
        let (table, family) = if is_ipv4 { (V4, "ICMP") } else { (V6, "ICMPv6") };
        let known = table.iter().find(|(_, name, _)| *name == spec.kind);
        let kind = match (known, numbered("type_", &spec.kind)) {
            (Some((number, ..)), _) => *number,
            (None, Some(number)) => number,
            (None, None) => {
                let what = format!("the type `{}` of {family}", spec.kind);
                return Err(ScriptError::unsupported(line, what));
            }
        };
        let code = match &spec.code {
            None => 0,
            Some(code) => {
                let codes = known.map_or(&[][..], |(.., codes)| codes);
                let place = codes.iter().position(|name| name == code).map(|place| place as u8);
                place.or(numbered("code_", code)).ok_or_else(|| {
                    ScriptError::new(line, format!("`{}` of {family} has no code `{code}`", spec.kind))
                })?
            }
        };
        let message = Self { kind, code, is_ipv4, mtu: 0, quoted: spec.quoted };
        let Some(mtu) = spec.mtu else { return Ok(message) };
        if !message.is_too_big() {
            let only = if is_ipv4 { "`unreachable frag_needed`" } else { "`packet_too_big`" };
            return Err(ScriptError::new(line, format!("an mtu is only valid with {only} of {family}")));
        }
        let largest = if is_ipv4 { u64::from(u16::MAX) } else { u64::from(u32::MAX) };
        match usize::try_from(mtu) {
            Ok(fits) if mtu <= largest => Ok(Self { mtu: fits, ..message }),
            _ => Err(ScriptError::new(line, format!("the mtu {mtu} is too large for {family}"))),
        }
    }

    /// Whether the message reports that a packet was too big for a link.
    pub(crate) fn is_too_big(&self) -> bool {
        matches!((self.is_ipv4, self.kind, self.code), (true, 3, 4) | (false, 2, _))
    }

    /// Source and destination port of the UDP header around the quoted packet, if the script names them.
    pub(crate) fn udp(&self) -> Option<(u16, u16)> {
        self.quoted.udp
    }

    /// The quoted bytes of a packet between these SCTP ports.
    pub(crate) fn quoted(&self, from: u16, to: u16) -> [u8; 8] {
        let mut quoted = [0; 8];
        quoted[..2].copy_from_slice(&from.to_be_bytes());
        quoted[2..4].copy_from_slice(&to.to_be_bytes());
        quoted[4..].copy_from_slice(&self.quoted.tag.to_be_bytes());
        quoted
    }

    /// The message as the core takes it, for a packet from `local` to `peer` that begins with `quoted`.
    pub(crate) fn about<'a>(&self, local: SocketAddr, peer: SocketAddr, quoted: &'a [u8]) -> Icmp<'a> {
        let ip = if self.is_ipv4 { 20 } else { 40 };
        let udp = if peer.port() == 0 { 0 } else { UDP_LEN };
        let size = self.mtu.saturating_sub(ip + udp);
        Icmp { local, peer, kind: self.kind, code: self.code, size, quoted }
    }
}

/// The number in `type_3` or `code_4`.
fn numbered(prefix: &str, name: &str) -> Option<u8> {
    name.strip_prefix(prefix)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Kind;

    fn message(
        address: &str,
        kind: &str,
        code: Option<&str>,
        mtu: Option<u64>,
    ) -> Result<Message, ScriptError> {
        let quoted = QuotedSpec { tag: 7, udp: None };
        let spec = IcmpSpec { kind: kind.to_owned(), code: code.map(str::to_owned), mtu, quoted };
        Message::new(&spec, address.parse().unwrap(), 1)
    }

    #[test]
    fn types_and_codes_have_names_and_numbers() {
        for (address, kind, code, numbers) in [
            ("::1", "unreachable", Some("port_unreachable"), (1, 4)),
            ("::1", "parameter_problem", Some("unknown_next_header"), (4, 1)),
            ("::1", "packet_too_big", None, (2, 0)),
            ("1.2.3.4", "unreachable", Some("port_unreachable"), (3, 3)),
            ("1.2.3.4", "unreachable", Some("precedence_cutoff"), (3, 15)),
            ("1.2.3.4", "type_3", Some("code_2"), (3, 2)),
            ("1.2.3.4", "echo_reply", None, (0, 0)),
        ] {
            let message = message(address, kind, code, None).unwrap();
            assert_eq!((message.kind, message.code), numbers, "{kind} {code:?}");
        }
        let unknown = message("::1", "router_advertisement", None, None).unwrap_err();
        assert_eq!(unknown.kind, Kind::Unsupported);
        assert_eq!(message("1.2.3.4", "packet_too_big", None, None).unwrap_err().kind, Kind::Unsupported);
        assert_eq!(
            message("1.2.3.4", "unreachable", Some("no_route"), None).unwrap_err().kind,
            Kind::Invalid
        );
        assert!(message("1.2.3.4", "type_256", None, None).is_err());
    }

    #[test]
    fn only_packet_too_big_has_an_mtu() {
        assert!(message("1.2.3.4", "unreachable", Some("host_unreachable"), Some(1_400)).is_err());
        assert!(message("1.2.3.4", "unreachable", Some("frag_needed"), Some(65_536)).is_err());
        assert!(message("::1", "packet_too_big", None, Some(1 << 32)).is_err());
        let [local, peer] = ["[::1]:0", "[::2]:0"].map(|addr| addr.parse().unwrap());
        let big = message("::1", "packet_too_big", None, Some(65_536)).unwrap();
        assert_eq!(big.about(local, peer, &[]).size, 65_536 - 40);
        assert_eq!(big.about(local, "[::2]:9899".parse().unwrap(), &[]).size, 65_536 - 48);
        assert_eq!(big.quoted(1, 2), [0, 1, 0, 2, 0, 0, 0, 7]);
    }
}
