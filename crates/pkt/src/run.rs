//! Runs a script: a virtual clock, one endpoint, and a peer that sends what the script injects.
//!
//! Time passes only where the script waits. A packet that the stack sends is queued with its time until the
//! script expects a packet. As in packetdrill, packets after the last event are ignored, unless
//! [`Leftovers::Forbidden`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_sctp::wire::Packet;
use braidftp_sctp::{AssociationId, Endpoint, Event as StackEvent, Transmit};
use bytes::Bytes;

use crate::calls::{Done, Kernel, Outcome, Waiting};
use crate::icmp::Message;
use crate::pattern::{self, Exactness, Pattern};
use crate::script::{
    Call, Content, Crc, Direction, EcnSpec, Event, Kind, PacketSpec, Script, ScriptError, ScriptOption, What,
    When,
};
use crate::settings::Settings;
use crate::translation::Translation;

/// How long the script waits for a packet: longer than every time-out of RFC 9260.
const PATIENCE: Duration = Duration::from_secs(1_000);
/// The maximum number of sent packets in the queue.
const SENT_MAX: usize = 10_000;

/// The result of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail { line: usize, what: String, expected: Option<String>, got: Option<String> },
    Unsupported { line: usize, what: String },
}

impl From<ScriptError> for Verdict {
    fn from(error: ScriptError) -> Self {
        let ScriptError { line, kind, what } = error;
        match kind {
            Kind::Unsupported => Self::Unsupported { line, what },
            Kind::Invalid => Self::Fail { line, what, expected: None, got: None },
        }
    }
}

/// How packets left in the queue at the end of the script are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leftovers {
    Ignored,
    Forbidden,
}

/// Options for running scripts.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) leftovers: Leftovers,
    pub(crate) exactness: Exactness,
    /// The names that `#ifdef` tests.
    pub(crate) defined: BTreeSet<String>,
    /// Options that override those of each script.
    pub(crate) overrides: Vec<ScriptOption>,
}

/// Runs the script in `text`. Returns the verdict, and notes on what was ignored.
pub(crate) fn run(text: &str, options: &Options) -> (Verdict, Vec<String>) {
    let mut notes = Vec::new();
    let script = crate::parser::parse(text, &options.defined).map_err(Verdict::from);
    let verdict = match script.and_then(|script| play(&script, options, &mut notes)) {
        Ok(()) => Verdict::Pass,
        Err(verdict) => verdict,
    };
    (verdict, notes)
}

fn play(script: &Script, options: &Options, notes: &mut Vec<String>) -> Result<(), Verdict> {
    let settings = Settings::new(script.options.iter().chain(&options.overrides))?;
    // Every packet of the script is parsed before the first event.
    let events =
        script.events.iter().map(|event| Step::new(event, &settings)).collect::<Result<Vec<_>, _>>()?;
    let routes = script.events.iter().filter_map(|event| match &event.what {
        What::Packet(packet) => packet.route,
        _ => None,
    });
    let named = routes.flat_map(|(from, to)| [from, to]).collect();
    let mut world = World::new(settings, options.exactness, named);
    let played = events.iter().try_for_each(|step| world.step(step)).and_then(|()| world.finish_call());
    notes.append(&mut world.kernel.notes);
    played?;
    world.drain();
    match world.sent.front() {
        Some(sent) if options.leftovers == Leftovers::Forbidden => {
            let sent = sent.clone();
            let got = world.text(&sent, &[]);
            let line = script.events.last().map_or(1, |event| event.line);
            let what = "the stack sent a packet that the script does not expect".to_owned();
            Err(Verdict::Fail { line, what, expected: None, got: Some(got) })
        }
        _ => Ok(()),
    }
}

/// An event with its resolved packet.
struct Step<'a> {
    event: &'a Event,
    patterns: Vec<Pattern>,
    icmp: Option<Message>,
}

impl<'a> Step<'a> {
    fn new(event: &'a Event, settings: &Settings) -> Result<Self, ScriptError> {
        let (mut patterns, mut icmp) = (Vec::new(), None);
        if let What::Packet(packet) = &event.what {
            match &packet.content {
                Content::Chunks(items) => {
                    for item in items {
                        patterns.push(Pattern::new(item, packet.direction)?);
                    }
                }
                Content::Bytes(_) if packet.direction == Direction::Out => {
                    return Err(ScriptError::unsupported(
                        event.line,
                        "an outbound packet given by its bytes",
                    ));
                }
                Content::Bytes(_) => {}
                Content::Icmp(spec) => {
                    let family = packet.route.map_or(settings.local, |(_, to)| to);
                    icmp = Some(Message::new(spec, family, event.line)?);
                }
            }
            if let Some(field) = &packet.header
                && packet.direction == Direction::Out
            {
                return Err(ScriptError::unsupported(event.line, format!("`{field}` of the IP header")));
            }
        }
        Ok(Self { event, patterns, icmp })
    }
}

/// A packet sent by the stack.
#[derive(Debug, Clone)]
struct Sent {
    at: Time,
    from: SocketAddr,
    to: SocketAddr,
    ecn: Ecn,
    payload: Bytes,
}

impl Sent {
    /// The SCTP ports, the stack's and the peer's.
    fn ports(&self) -> (u16, u16) {
        let port = |at: usize| match self.payload.get(at..at + 2) {
            Some(bytes) => u16::from_be_bytes([bytes[0], bytes[1]]),
            None => 0,
        };
        (port(0), port(2))
    }
}

/// A call that has not returned.
struct Pending {
    line: usize,
    text: String,
    call: Call,
    waiting: Waiting,
    /// When it should return.
    due: Time,
    /// When it returned, and its result.
    returned: Option<(Time, Done)>,
}

struct World {
    settings: Settings,
    now: Time,
    endpoint: Endpoint,
    kernel: Kernel,
    exactness: Exactness,
    /// The addresses that the packets of the script name.
    named: BTreeSet<IpAddr>,
    /// The translation of each association's numbers, by SCTP ports: the stack's and the peer's.
    translations: BTreeMap<(u16, u16), Translation>,
    /// The ports of packets for which the script names none.
    ports: (u16, u16),
    sent: VecDeque<Sent>,
    /// When the stack must be polled again.
    wake: Option<Time>,
    pending: Option<Pending>,
}

impl World {
    fn new(settings: Settings, exactness: Exactness, named: BTreeSet<IpAddr>) -> Self {
        Self {
            named,
            now: Time::ZERO,
            // The seed does not matter: the script's numbers are translated.
            endpoint: Endpoint::new([0x5c; 32]),
            kernel: Kernel::new(settings.clone()),
            exactness,
            translations: BTreeMap::new(),
            ports: (0, 0),
            sent: VecDeque::new(),
            wake: None,
            pending: None,
            settings,
        }
    }

    fn step(&mut self, step: &Step<'_>) -> Result<(), Verdict> {
        let event = step.event;
        let since = |micros: u64| Time::ZERO + Duration::from_micros(micros);
        let (from, to) = match event.when {
            When::Any => (Time::ZERO, None),
            When::At(at) => (since(at), Some(since(at))),
            When::AtRange(from, to) => (since(from), Some(since(to))),
            When::After(after) => {
                let at = self.now + Duration::from_micros(after);
                (at, Some(at))
            }
            When::AfterRange(from, to) => {
                (self.now + Duration::from_micros(from), Some(self.now + Duration::from_micros(to)))
            }
        };
        match &event.what {
            What::Packet(packet) if packet.direction == Direction::Out => {
                self.expect(event, packet, &step.patterns, from, to)
            }
            What::Packet(packet) => {
                self.advance(from);
                match &step.icmp {
                    Some(message) => self.inject_icmp(packet, message),
                    None => self.inject(packet, &step.patterns),
                }
                Ok(())
            }
            What::Call(call) => {
                self.finish_call()?;
                let started = self.now;
                self.advance(from);
                let due = call.until.map(|until| match event.when {
                    When::After(_) => started + Duration::from_micros(until),
                    _ => since(until),
                });
                self.call(event, call, due)
            }
            What::Command(command) => {
                self.advance(from);
                let result = self.kernel.command(command);
                result.map_err(|what| ScriptError::unsupported(event.line, what).into())
            }
        }
    }

    /// The time of the next event without input: in the stack, at a socket, or for a blocked call.
    fn next_wake(&self) -> Option<Time> {
        let deadline = self.pending.as_ref().filter(|pending| pending.returned.is_none());
        let deadline = deadline.and_then(|pending| pending.waiting.deadline());
        [self.wake, self.kernel.wake(), deadline].into_iter().flatten().min()
    }

    /// Advances the clock to `then`.
    fn advance(&mut self, then: Time) {
        while let Some(wake) = self.next_wake().filter(|wake| *wake <= then) {
            self.now = self.now.max(wake);
            self.drain();
            // Everything due has been done, or will not happen.
            if self.next_wake().is_some_and(|next| next <= wake) {
                break;
            }
        }
        self.now = self.now.max(then);
    }

    /// Polls the stack until it waits.
    fn drain(&mut self) {
        loop {
            match self.endpoint.poll(self.now) {
                Output::Send(transmit) => self.record(&transmit),
                Output::Event((id, event)) => self.on_event(id, event),
                Output::Wait(wake) => {
                    self.wake = wake;
                    break;
                }
            }
        }
        if self.kernel.act_on_state(&mut self.endpoint, self.now) {
            return self.drain();
        }
        self.kernel.remove_closed(&mut self.endpoint);
        if let Some(pending) = &mut self.pending
            && pending.returned.is_none()
            && let Outcome::Done(done) = self.kernel.poll(&mut self.endpoint, self.now, &mut pending.waiting)
        {
            pending.returned = Some((self.now, done));
            // Reading may have opened the receive window.
            self.drain();
        }
    }

    fn on_event(&mut self, id: AssociationId, event: StackEvent) {
        self.kernel.on_event(&self.endpoint, self.now, id, event);
    }

    /// The ports of a packet in the script.
    fn ports_of(&mut self, packet: &PacketSpec) -> (u16, u16) {
        if let Some(ports) = self.kernel.take_new_ports() {
            // The numbers that a new socket will choose are unknown.
            let mut translation = Translation::default();
            translation.reset(ports);
            self.translations.insert(ports, translation);
            self.ports = ports;
        }
        match (packet.ports, packet.direction) {
            (Some((source, destination)), Direction::Out) => (source, destination),
            (Some((source, destination)), Direction::In) => (destination, source),
            (None, _) => self.ports,
        }
    }

    fn translation(&mut self, ports: (u16, u16)) -> &mut Translation {
        self.translations.entry(ports).or_insert_with(|| {
            let mut translation = Translation::default();
            translation.reset(ports);
            translation
        })
    }

    /// Queues a packet that the stack sends, unless its destination is not the script's peer.
    fn record(&mut self, transmit: &Transmit) {
        let to = transmit.to.ip();
        if !self.settings.is_remote(to) && !self.named.contains(&to) {
            self.kernel
                .notes
                .push(format!("{}: ignored a packet to {to}, which is outside the remote network", self.now));
            return;
        }
        let size = transmit.segment_size.unwrap_or(transmit.payload.len()).max(1);
        let mut at = 0;
        while at < transmit.payload.len() && self.sent.len() < SENT_MAX {
            let end = (at + size).min(transmit.payload.len());
            let payload = transmit.payload.slice(at..end);
            let Transmit { from, to, ecn, .. } = *transmit;
            self.sent.push_back(Sent { at: self.now, from, to, ecn, payload });
            at = end;
        }
    }

    fn inject(&mut self, packet: &PacketSpec, patterns: &[Pattern]) {
        let ports = self.ports_of(packet);
        let keys = self.kernel.auth_keys();
        let translation = self.translation(ports);
        translation.auth.keys = keys;
        let payload = Bytes::from(translation.encode(packet, patterns));
        let (source, destination) = packet.udp.unwrap_or(self.kernel.udp_ports());
        let ecn = match packet.ecn {
            EcnSpec::Exactly(ecn) => ecn,
            EcnSpec::Unsaid | EcnSpec::Ect01 => Ecn::NotEct,
        };
        let (from, to) = packet.route.unwrap_or((self.settings.remote, self.settings.local));
        let (from, to) = (SocketAddr::new(from, source), SocketAddr::new(to, destination));
        self.drain();
        self.endpoint.handle(self.now, Datagram { from, to, ecn, payload });
        self.drain();
    }

    /// Passes an ICMP message to the stack, as the driver that received it would.
    fn inject_icmp(&mut self, packet: &PacketSpec, message: &Message) {
        let (stack_port, peer_port) = self.ports_of(packet);
        self.drain();
        if message.is_too_big() && !self.kernel.uses_packet_too_big() {
            self.kernel.notes.push(format!("{}: ignored an ICMP packet-too-big message", self.now));
            return;
        }
        let (peer_udp, stack_udp) = self.kernel.udp_ports();
        let (stack_udp, peer_udp) = message.udp().unwrap_or((stack_udp, peer_udp));
        let (peer, local) = packet.route.unwrap_or((self.settings.remote, self.settings.local));
        let (local, peer) = (SocketAddr::new(local, stack_udp), SocketAddr::new(peer, peer_udp));
        let quoted = message.quoted(stack_port, peer_port);
        self.endpoint.handle_icmp(self.now, message.about(local, peer, &quoted));
        self.drain();
    }

    fn expect(
        &mut self,
        event: &Event,
        packet: &PacketSpec,
        patterns: &[Pattern],
        from: Time,
        to: Option<Time>,
    ) -> Result<(), Verdict> {
        self.ports_of(packet);
        let fail = |what: String, got: Option<String>| {
            Err(Verdict::Fail { line: event.line, what, expected: Some(event.text.clone()), got })
        };
        self.drain();
        let patience = self.now + PATIENCE;
        while self.sent.is_empty() {
            let before = (self.now, self.next_wake());
            match before.1 {
                Some(wake) if wake <= patience => self.advance(wake.max(self.now)),
                _ => return fail("no packet was sent".to_owned(), None),
            }
            // Everything due has been tried, without a packet.
            if self.sent.is_empty() && before == (self.now, self.next_wake()) {
                return fail("no packet was sent".to_owned(), None);
            }
        }
        let sent = self.sent.pop_front().expect("one was sent");
        self.now = self.now.max(sent.at);
        let got = Some(self.text(&sent, patterns));
        if let Some(difference) = self.differs(&sent, packet, patterns) {
            return fail(difference, got);
        }
        let tolerance = self.settings.tolerance;
        if let Some(to) = to
            && (sent.at + tolerance < from || sent.at > to + tolerance)
        {
            let (from, at) = (from, sent.at);
            let when = if from == to { format!("{from}") } else { format!("{from}~{to}") };
            return fail(format!("time: expected {when}, got {at}"), got);
        }
        Ok(())
    }

    fn differs(&mut self, sent: &Sent, packet: &PacketSpec, patterns: &[Pattern]) -> Option<String> {
        let ports = sent.ports();
        let bytes = self.translation(ports).translate(&sent.payload, patterns);
        let decoded = match packet.crc {
            Crc::Zero => Packet::decode_without_checksum(sent.payload.clone()),
            Crc::Right | Crc::Wrong => Packet::decode(sent.payload.clone()),
        };
        if decoded.is_err() {
            return Some("the packet is malformed, or its checksum is not the expected one".to_owned());
        }
        match packet.ecn {
            EcnSpec::Exactly(ecn) if ecn != sent.ecn => {
                return Some(format!("ecn: expected {ecn:?}, got {:?}", sent.ecn));
            }
            EcnSpec::Ect01 if !matches!(sent.ecn, Ecn::Ect0 | Ecn::Ect1) => {
                return Some(format!("ecn: expected ECT(0) or ECT(1), got {:?}", sent.ecn));
            }
            _ => {}
        }
        if let Some(named_ports) = packet.ports
            && named_ports != ports
        {
            return Some(format!("ports: expected {named_ports:?}, got {ports:?}"));
        }
        if let Some((from, to)) = packet.route
            && (from, to) != (sent.from.ip(), sent.to.ip())
        {
            let (found_from, found_to) = (sent.from.ip(), sent.to.ip());
            return Some(format!("addresses: expected {from}>{to}, got {found_from}>{found_to}"));
        }
        if let Some(udp) = packet.udp
            && udp != (sent.from.port(), sent.to.port())
        {
            return Some(format!("udp: expected {udp:?}, got {:?}", (sent.from.port(), sent.to.port())));
        }
        if let Some(tag) = packet.tag {
            let got = u32::from_be_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            if got != tag {
                let peer = self.translation(ports).remote_tag();
                return Some(format!("tag: expected {tag}, got {got} (the peer's tag is {peer})"));
            }
        }
        let mut patterns: Vec<_> = patterns.iter().collect();
        let mut chunks: Vec<_> = pattern::chunks(&bytes[12..]).collect();
        if self.exactness == Exactness::Meaning {
            pattern::sacks_first(&mut patterns, |pattern| pattern.kind());
            pattern::sacks_first(&mut chunks, |chunk| chunk.first().copied());
        }
        let mut chunks = chunks.into_iter();
        let mut open_heartbeat = None;
        for pattern in patterns {
            let beside = open_heartbeat.take().map(|len| pattern.beside_heartbeat(len));
            let pattern = beside.as_ref().unwrap_or(pattern);
            let Some(chunk) = chunks.next() else {
                let kind = pattern.kind().map_or("a chunk".to_owned(), pattern::name_of);
                return Some(format!("chunk: expected {kind}, got the end of the packet"));
            };
            if let Some(difference) = pattern.differs(chunk, self.exactness) {
                return Some(difference);
            }
            open_heartbeat = pattern.is_open_heartbeat().then_some(chunk.len());
        }
        chunks
            .next()
            .map(|chunk| format!("chunk: expected the end of the packet, got {}", pattern::name_of(chunk[0])))
    }

    /// A packet of the stack in the script's notation and numbers.
    fn text(&mut self, sent: &Sent, patterns: &[Pattern]) -> String {
        let bytes = self.translation(sent.ports()).translate(&sent.payload, patterns);
        match Packet::decode(bytes.into()) {
            Ok(packet) => {
                let chunks: Vec<_> = packet
                    .chunks()
                    .map(|chunk| chunk.map_or_else(|wrong| wrong.to_string(), |chunk| chunk.to_string()))
                    .collect();
                format!("{} > sctp: {}", sent.at, chunks.join("; "))
            }
            Err(wrong) => format!("{} > {wrong}", sent.at),
        }
    }

    fn call(&mut self, event: &Event, call: &Call, due: Option<Time>) -> Result<(), Verdict> {
        self.drain();
        let outcome = self.kernel.call(&mut self.endpoint, self.now, call, event.line);
        self.drain();
        match (outcome?, due) {
            (Outcome::Done(done), None) => self.returned(event.line, &event.text, call, &done),
            (Outcome::Done(done), Some(due)) => {
                let returned = Some((self.now, done));
                let (line, text, call) = (event.line, event.text.clone(), call.clone());
                self.pending = Some(Pending { line, text, call, waiting: Waiting::Nothing, due, returned });
                Ok(())
            }
            (Outcome::Waits(waiting), Some(due)) => {
                let (line, text, call) = (event.line, event.text.clone(), call.clone());
                self.pending = Some(Pending { line, text, call, waiting, due, returned: None });
                self.drain();
                Ok(())
            }
            (Outcome::Waits(_), None) => Err(Verdict::Fail {
                line: event.line,
                what: "the call blocks, and the script gives no time of its return".to_owned(),
                expected: Some(event.text.clone()),
                got: None,
            }),
        }
    }

    /// A blocked call must return before the next one.
    fn finish_call(&mut self) -> Result<(), Verdict> {
        let Some(due) = self.pending.as_ref().map(|pending| pending.due) else { return Ok(()) };
        self.advance(due.max(self.now));
        self.drain();
        let Pending { line, text, call, due, returned, .. } = self.pending.take().expect("it is pending");
        let tolerance = self.settings.tolerance;
        match returned {
            None => Err(Verdict::Fail {
                line,
                what: format!("the call has not returned by {due}"),
                expected: Some(text),
                got: None,
            }),
            Some((at, _)) if at + tolerance < due || at > due + tolerance => Err(Verdict::Fail {
                line,
                what: format!("time: expected the call to return at {due}, got {at}"),
                expected: Some(text),
                got: None,
            }),
            Some((_, done)) => self.returned(line, &text, &call, &done),
        }
    }

    fn returned(&mut self, line: usize, text: &str, call: &Call, done: &Done) -> Result<(), Verdict> {
        let checked = self.kernel.check(call, done, line)?;
        match checked {
            None => Ok(()),
            Some(difference) => Err(Verdict::Fail {
                line,
                what: difference,
                expected: Some(text.to_owned()),
                got: Some(done.to_string()),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn options() -> Options {
        Options {
            leftovers: Leftovers::Ignored,
            exactness: Exactness::Meaning,
            defined: BTreeSet::from(["FreeBSD".to_owned()]),
            overrides: Vec::new(),
        }
    }

    /// Scripts that use most of the notation.
    const SCRIPTS: &[&str] = &[
        include_str!("../tests/scripts/rfc6458/3.1.2-two-peers.pkt"),
        include_str!("../tests/scripts/rfc6458/5.3.6-nxtinfo.pkt"),
        include_str!("../tests/scripts/rfc6458/9.3-addresses.pkt"),
        include_str!("../tests/scripts/rfc6458/8.1.12-heartbeats.pkt"),
        include_str!("../tests/scripts/rfc6525/5.1.2-outgoing-reset.pkt"),
        include_str!("../tests/scripts/rfc8260/2.1-i-data.pkt"),
        include_str!("../tests/scripts/rfc8899/4.6-packet-too-big.pkt"),
        include_str!("../tests/scripts/rfc9260/6.7-gaps.pkt"),
    ];

    #[test]
    fn a_call_that_blocks_unexpectedly_is_reported() {
        let text = "0 socket(..., SOCK_STREAM, IPPROTO_SCTP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n+0 accept(3, ..., ...) = 4";
        let (verdict, _) = run(text, &options());
        assert!(matches!(verdict, Verdict::Fail { line: 4, .. }), "{verdict:?}");
    }

    #[test]
    fn settings_without_effect_on_packets_are_noted() {
        let (verdict, notes) = run("`sysctl -w net.inet.sctp.blackhole=1`", &options());
        assert_eq!(verdict, Verdict::Pass);
        assert_eq!(notes, ["ignored the setting blackhole"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]
        #[test]
        fn no_change_of_a_script_makes_it_panic(
            which in 0..SCRIPTS.len(),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..4),
        ) {
            let pieces = |text: &str| {
                let mut pieces = vec![String::new()];
                for sign in text.chars() {
                    let word = |sign: char| sign.is_alphanumeric() || matches!(sign, '_' | '.');
                    let last = pieces.last_mut().expect("there is one");
                    if last.is_empty() || (last.chars().all(word) && word(sign)) {
                        last.push(sign);
                    } else {
                        pieces.push(sign.to_string());
                    }
                }
                pieces
            };
            let others: Vec<String> = ["0", "1", "-1", "4294967295", "99999999999", "0.5", "...", "NULL", "[]", "{}", "", "\n", "3", "4"]
                .iter()
                .map(|piece| (*piece).to_owned())
                .collect();
            let mut text = pieces(SCRIPTS[which]);
            let pool: Vec<String> = text.iter().chain(&others).chain(&others).cloned().collect();
            for (place, piece) in changes {
                let place = place.index(text.len());
                text[place] = pool[piece.index(pool.len())].clone();
            }
            let _ = run(&text.concat(), &options());
        }
    }
}
