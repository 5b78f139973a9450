//! The syntax tree of a packet script: options, and events with their times. See
//! [`pattern`](crate::pattern) for the meaning of packets and [`calls`](crate::calls) for system calls.

use std::net::IpAddr;

use braidftp_base::Ecn;

/// An error that the script itself shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptError {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The script is invalid.
    Invalid,
    /// The script is valid, and needs an unsupported feature.
    Unsupported,
}

impl ScriptError {
    pub(crate) fn new(line: usize, what: impl Into<String>) -> Self {
        Self { line, kind: Kind::Invalid, what: what.into() }
    }

    pub(crate) fn unsupported(line: usize, what: impl Into<String>) -> Self {
        Self { line, kind: Kind::Unsupported, what: what.into() }
    }
}

/// A script.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Script {
    pub(crate) options: Vec<ScriptOption>,
    pub(crate) events: Vec<Event>,
}

/// `--name=value` before the events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptOption {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) value: Option<String>,
}

/// An event: an action, or an expectation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    pub(crate) line: usize,
    pub(crate) when: When,
    pub(crate) what: What,
    /// The source text, on one line.
    pub(crate) text: String,
}

/// The time of an event, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// `+0.1`: after the previous event.
    After(u64),
    /// `0.1`: after the start of the script.
    At(u64),
    /// `*`
    Any,
    /// `+0.1~+0.2`
    AfterRange(u64, u64),
    /// `0.1~0.2`
    AtRange(u64, u64),
}

/// The contents of an event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum What {
    Packet(PacketSpec),
    Call(Call),
    /// A shell command.
    Command(String),
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// `<`: to the stack.
    In,
    /// `>`: from the stack.
    Out,
}

/// `< [ect0] sctp(tag=1)/udp(1>2): INIT[…]`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PacketSpec {
    pub(crate) direction: Direction,
    pub(crate) ecn: EcnSpec,
    /// Fields of the IP header that have no effect here: DSCP, TTL, flow label.
    pub(crate) header: Option<String>,
    /// Source and destination address: this program's own notation, for multihomed peers.
    pub(crate) route: Option<(IpAddr, IpAddr)>,
    /// Source and destination SCTP port.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) tag: Option<u32>,
    pub(crate) crc: Crc,
    /// Source and destination port of a UDP header around it.
    pub(crate) udp: Option<(u16, u16)>,
    pub(crate) content: Content,
}

/// The expected ECN field of the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EcnSpec {
    Unsaid,
    Exactly(Ecn),
    /// ECT(0) or ECT(1)
    Ect01,
}

/// The state of the checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crc {
    Right,
    Wrong,
    /// Absent: zero.
    Zero,
}

/// What follows the common header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Chunks(Vec<Item>),
    Bytes(Vec<u8>),
    /// Not an SCTP packet: an ICMP or ICMPv6 message about one.
    Icmp(IcmpSpec),
}

/// `icmp unreachable frag_needed mtu 1400 [sctp(1)]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IcmpSpec {
    /// The name of the type: `unreachable`, `type_3`.
    pub(crate) kind: String,
    /// The name of the code: `frag_needed`, `code_4`.
    pub(crate) code: Option<String>,
    /// The reported MTU, in bytes of an IP packet.
    pub(crate) mtu: Option<u64>,
    pub(crate) quoted: QuotedSpec,
}

/// `[sctp(1)/udp(9899>9899)]`: the packet that an ICMP message quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotedSpec {
    /// Its verification tag.
    pub(crate) tag: u32,
    /// Source and destination port of a UDP header around it.
    pub(crate) udp: Option<(u16, u16)>,
}

/// `NAME[field, …]`: a chunk, a parameter or a cause.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) line: usize,
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

/// `key=value`, or a value alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) key: Option<String>,
    pub(crate) value: Value,
}

/// A value in a packet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// `...`
    Any,
    Number(u64),
    Word(String),
    Text(String),
    Address(IpAddr),
    /// `2:3`
    Gap(u64, u64),
    /// A list in brackets or braces.
    List(Vec<Value>),
    Item(Item),
}

/// `name(arguments) = result ERRNO (note)`
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// When a blocking call returns, in microseconds, in the same notation as the time of the event.
    pub(crate) until: Option<u64>,
    pub(crate) name: String,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) result: Expr,
    pub(crate) errno: Option<String>,
}

/// A value in a system call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    /// `...`
    Any,
    Int(i64),
    Word(String),
    Text(String),
    Or(Box<Expr>, Box<Expr>),
    List(Vec<Expr>),
    Struct(Vec<Member>),
    /// `htonl(3)`
    Of(String, Vec<Expr>),
}

/// `key(count)=value` in a structure, or a value alone.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Member {
    pub(crate) key: Option<String>,
    pub(crate) value: Expr,
}

impl Expr {
    /// The value of a member of a structure.
    pub(crate) fn member(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Struct(members) => {
                members.iter().find(|member| member.key.as_deref() == Some(key)).map(|member| &member.value)
            }
            _ => None,
        }
    }
}
