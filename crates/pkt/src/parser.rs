//! The parser: builds a [`Script`] from tokens, by packetdrill's grammar for SCTP.
//!
//! TCP and UDP packets, code snippets and tunnels are reported as not supported.

use std::collections::BTreeSet;
use std::net::IpAddr;

use braidftp_base::Ecn;

use crate::lexer::{Lexeme, Token, lex};
use crate::script::{
    Call, Content, Crc, Direction, EcnSpec, Event, Expr, Field, IcmpSpec, Item, Member, PacketSpec,
    QuotedSpec, Script, ScriptError, ScriptOption, Value, What, When,
};

type Result<T> = std::result::Result<T, ScriptError>;

/// The maximum nesting of values.
const DEPTH_MAX: usize = 16;

/// Parses the parts of a script that the names in `defined` select.
pub(crate) fn parse(text: &str, defined: &BTreeSet<String>) -> Result<Script> {
    let lexemes = lex(text, defined)?;
    let mut parser = Parser { text, lexemes: &lexemes, at: 0, depth: 0 };
    let mut script = Script { options: Vec::new(), events: Vec::new() };
    while let Some(Token::Option(name)) = parser.peek() {
        let (line, name) = (parser.line(), name.clone());
        parser.at += 1;
        let value = if parser.take_sign('=') { Some(parser.option_value()?) } else { None };
        script.options.push(ScriptOption { line, name, value });
    }
    while parser.peek().is_some() {
        let event = parser.event()?;
        script.events.push(event);
    }
    if script.events.is_empty() {
        return Err(ScriptError::new(parser.line(), "the script has no event"));
    }
    Ok(script)
}

struct Parser<'a> {
    text: &'a str,
    lexemes: &'a [Lexeme],
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<&'a Token> {
        self.lexemes.get(self.at + ahead).map(|lexeme| &lexeme.token)
    }

    fn line(&self) -> usize {
        self.lexemes.get(self.at).or(self.lexemes.last()).map_or(1, |lexeme| lexeme.line)
    }

    fn error<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(ScriptError::new(self.line(), what))
    }

    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(ScriptError::unsupported(self.line(), what))
    }

    /// An error that names what was expected and which token was found.
    fn expected<T>(&self, what: &str) -> Result<T> {
        match self.peek() {
            Some(token) => self.error(format!("expected {what}, got `{token}`")),
            None => self.error(format!("expected {what}, found the end of the script")),
        }
    }

    fn is_sign(&self, sign: char) -> bool {
        self.peek() == Some(&Token::Sign(sign))
    }

    fn take_sign(&mut self, sign: char) -> bool {
        let taken = self.is_sign(sign);
        self.at += usize::from(taken);
        taken
    }

    fn sign(&mut self, sign: char) -> Result<()> {
        if self.take_sign(sign) { Ok(()) } else { self.expected(&format!("`{sign}`")) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(found)) if found == word)
    }

    fn word(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(word.clone())
            }
            _ => self.expected(what),
        }
    }

    fn number(&mut self, what: &str) -> Result<u64> {
        let number = match self.peek() {
            Some(Token::Int(number)) => u64::try_from(*number).ok(),
            Some(Token::Hex(number)) => Some(*number),
            _ => None,
        };
        match number {
            Some(number) => {
                self.at += 1;
                Ok(number)
            }
            None => self.expected(what),
        }
    }

    fn port(&mut self) -> Result<u16> {
        let number = self.number("a port")?;
        u16::try_from(number)
            .map_err(|_| ScriptError::new(self.line(), format!("{number} is not a port number")))
    }

    /// Limits the nesting of values.
    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == DEPTH_MAX {
            return self.error("values are nested too deep");
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn option_value(&mut self) -> Result<String> {
        let mut value = match self.peek() {
            Some(Token::Sign(_) | Token::Option(_) | Token::Code) | None => return self.expected("a value"),
            Some(Token::Text(text) | Token::Command(text)) => text.clone(),
            Some(token) => token.to_string(),
        };
        self.at += 1;
        if self.take_sign('=') {
            value = format!("{value}={}", self.option_value()?);
        }
        Ok(value)
    }

    fn time(&mut self) -> Result<u64> {
        let micros = match self.peek() {
            Some(Token::Int(seconds)) => seconds.checked_mul(1_000_000),
            Some(Token::Decimal(micros)) => Some(*micros),
            _ => return self.expected("a time"),
        };
        match micros.and_then(|micros| u64::try_from(micros).ok()) {
            Some(micros) => {
                self.at += 1;
                Ok(micros)
            }
            None => self.expected("a non-negative time"),
        }
    }

    fn event(&mut self) -> Result<Event> {
        let (line, first) = (self.line(), self.at);
        // A command before or after the script needs no time.
        let bare = matches!(self.peek(), Some(Token::Command(_)));
        let when = if bare { When::After(0) } else { self.when()? };
        let what = self.what()?;
        let waits = matches!(when, When::Any | When::AfterRange(..) | When::AtRange(..));
        if waits && !matches!(&what, What::Packet(packet) if packet.direction == Direction::Out) {
            return Err(ScriptError::new(line, "only an outbound packet may have a range of times or `*`"));
        }
        if let When::AfterRange(from, to) | When::AtRange(from, to) = when
            && to < from
        {
            return Err(ScriptError::new(line, "the range of times ends before it begins"));
        }
        let text = self.source(first);
        Ok(Event { line, when, what, text })
    }

    fn when(&mut self) -> Result<When> {
        if self.take_sign('*') {
            return Ok(When::Any);
        }
        let after = self.take_sign('+');
        let from = self.time()?;
        if !self.take_sign('~') {
            return Ok(if after { When::After(from) } else { When::At(from) });
        }
        if after {
            self.sign('+')?;
            return Ok(When::AfterRange(from, self.time()?));
        }
        Ok(When::AtRange(from, self.time()?))
    }

    fn what(&mut self) -> Result<What> {
        match self.peek() {
            Some(Token::Sign('<')) => {
                self.at += 1;
                self.packet(Direction::In).map(What::Packet)
            }
            Some(Token::Sign('>')) => {
                self.at += 1;
                self.packet(Direction::Out).map(What::Packet)
            }
            Some(Token::Command(command)) => {
                self.at += 1;
                Ok(What::Command(command.trim().to_owned()))
            }
            Some(Token::Code) => self.unsupported("a code snippet"),
            Some(Token::Ellipsis) => {
                self.at += 1;
                let until = Some(self.time()?);
                self.call(until).map(What::Call)
            }
            Some(Token::Word(_)) => self.call(None).map(What::Call),
            _ => self.expected("a packet, a call or a command"),
        }
    }

    fn packet(&mut self, direction: Direction) -> Result<PacketSpec> {
        for tunnel in ["ipv4", "ipv6", "gre", "mpls"] {
            if self.is_word(tunnel) {
                return self.unsupported(format!("{tunnel} around a packet"));
            }
        }
        // Older scripts quote the packet before the ICMP message.
        let quoted = match (self.peek(), self.peek_at(1)) {
            (Some(Token::Sign('[')), Some(Token::Word(word))) if word == "sctp" => Some(self.quoted()?),
            _ => None,
        };
        let (ecn, header) = self.ip_info()?;
        let route = self.route()?;
        let ports = self.ports()?;
        let is_icmp = self.is_word("icmp") || self.is_word("icmpv6");
        if quoted.is_some() && !(is_icmp && direction == Direction::In) {
            return self.error("only an inbound ICMP message may quote a packet");
        }
        if is_icmp && direction == Direction::In {
            let content = Content::Icmp(self.icmp(quoted)?);
            let (tag, crc, udp) = (None, Crc::Right, None);
            return Ok(PacketSpec { direction, ecn, header, route, ports, tag, crc, udp, content });
        }
        if !self.is_word("sctp") {
            return match self.peek() {
                Some(token) => self.unsupported(format!("a packet of `{token}`, not of sctp")),
                None => self.expected("a packet"),
            };
        }
        self.at += 1;
        let (tag, crc) = self.tag_and_checksum(direction)?;
        let udp = self.udp()?;
        self.sign(':')?;
        let content = self.content()?;
        Ok(PacketSpec { direction, ecn, header, route, ports, tag, crc, udp, content })
    }

    /// `49152>9899`
    fn ports(&mut self) -> Result<Option<(u16, u16)>> {
        Ok(match self.peek() {
            Some(Token::Int(_)) if self.peek_at(1) == Some(&Token::Sign('>')) => {
                let source = self.port()?;
                self.sign('>')?;
                Some((source, self.port()?))
            }
            _ => None,
        })
    }

    /// `(tag=1, bad_crc32c)`, if it is there.
    fn tag_and_checksum(&mut self, direction: Direction) -> Result<(Option<u32>, Crc)> {
        let (mut tag, mut crc) = (None, Crc::Right);
        if self.take_sign('(') {
            loop {
                match self.word("`tag` or `bad_crc32c`")?.as_str() {
                    "bad_crc32c" if direction == Direction::In => crc = Crc::Wrong,
                    // The notation of older scripts; outbound packets without a checksum are this project's
                    // own.
                    "crc32c" => {
                        self.sign('=')?;
                        match self.word("`bad` or `zero`")?.as_str() {
                            "zero" => crc = Crc::Zero,
                            "bad" if direction == Direction::In => crc = Crc::Wrong,
                            "bad" => return self.error("only an inbound packet can have a bad checksum"),
                            other => return self.unsupported(format!("the checksum `{other}`")),
                        }
                    }
                    "bad_crc32c" => {
                        return self.error("only an inbound packet can have a bad checksum");
                    }
                    "tag" => {
                        self.sign('=')?;
                        tag = Some(self.tag()?);
                    }
                    other => return self.error(format!("expected `tag` or `bad_crc32c`, found `{other}`")),
                }
                if !self.take_sign(',') {
                    break;
                }
            }
            self.sign(')')?;
        }
        Ok((tag, crc))
    }

    /// The bytes of a packet, or its chunks.
    fn content(&mut self) -> Result<Content> {
        if self.take_sign('[') {
            let mut bytes = Vec::new();
            while !self.take_sign(']') {
                let byte = self.number("a byte")?;
                bytes.push(
                    u8::try_from(byte)
                        .map_err(|_| ScriptError::new(self.line(), "the value does not fit in a byte"))?,
                );
                if !self.is_sign(']') {
                    self.sign(',')?;
                }
            }
            Ok(Content::Bytes(bytes))
        } else {
            let mut chunks = Vec::new();
            while matches!(self.peek(), Some(Token::Word(_))) {
                chunks.push(self.item()?);
                if !self.take_sign(';') {
                    break;
                }
            }
            Ok(Content::Chunks(chunks))
        }
    }

    /// `192.168.0.2>192.0.2.2`
    fn route(&mut self) -> Result<Option<(IpAddr, IpAddr)>> {
        let Some(Token::Address(from)) = self.peek() else { return Ok(None) };
        self.at += 1;
        self.sign('>')?;
        match self.peek() {
            Some(Token::Address(to)) => {
                self.at += 1;
                Ok(Some((*from, *to)))
            }
            _ => self.expected("an address"),
        }
    }

    /// `icmp unreachable frag_needed mtu 1400 [sctp(1)]`; `quoted` is the quoted packet, if it came first.
    fn icmp(&mut self, mut quoted: Option<QuotedSpec>) -> Result<IcmpSpec> {
        self.at += 1;
        let kind = self.word("the type of an ICMP message")?;
        let (mut code, mut mtu) = (None, None);
        if !self.is_word("mtu") && !self.is_word("id") && matches!(self.peek(), Some(Token::Word(_))) {
            code = Some(self.word("the code of an ICMP message")?);
        }
        if self.is_word("mtu") {
            self.at += 1;
            mtu = Some(self.number("an MTU")?);
        }
        if self.is_word("id") {
            self.at += 1;
            self.number("an echo identifier")?;
        }
        if quoted.is_none() && self.is_sign('[') && self.peek_at(1) == Some(&Token::Word("sctp".to_owned())) {
            quoted = Some(self.quoted()?);
        }
        match quoted {
            Some(quoted) => Ok(IcmpSpec { kind, code, mtu, quoted }),
            // packetdrill quotes a TCP segment in this case.
            None => self.unsupported(format!("an ICMP message ({kind}) that quotes no SCTP packet")),
        }
    }

    /// `[sctp(1)/udp(9899>9899)]`
    fn quoted(&mut self) -> Result<QuotedSpec> {
        self.sign('[')?;
        self.at += 1;
        self.sign('(')?;
        let tag = self.tag()?;
        self.sign(')')?;
        let udp = self.udp()?;
        self.sign(']')?;
        Ok(QuotedSpec { tag, udp })
    }

    /// A verification tag.
    fn tag(&mut self) -> Result<u32> {
        let number = self.number("a tag")?;
        u32::try_from(number).map_err(|_| ScriptError::new(self.line(), "the tag does not fit in 32 bits"))
    }

    /// `/udp(9899>9899)`, if it comes next.
    fn udp(&mut self) -> Result<Option<(u16, u16)>> {
        if !self.take_sign('/') {
            return Ok(None);
        }
        if self.word("`udp`")? != "udp" {
            return self.error("`sctp` can only be encapsulated in `udp`");
        }
        self.sign('(')?;
        let source = self.port()?;
        self.sign('>')?;
        let destination = self.port()?;
        self.sign(')')?;
        Ok(Some((source, destination)))
    }

    /// The source text since token `first`, on one line.
    fn source(&self, first: usize) -> String {
        let text = &self.text[self.lexemes[first].at.start..self.lexemes[self.at - 1].at.end];
        let text = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        text.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    }

    /// `[ect0]`, `(ecn ce, ttl 3)`: the ECN field, and the text of the other fields.
    fn ip_info(&mut self) -> Result<(EcnSpec, Option<String>)> {
        let close = match self.peek() {
            Some(Token::Sign('(')) => ')',
            Some(Token::Sign('[')) => ']',
            _ => return Ok((EcnSpec::Unsaid, None)),
        };
        self.at += 1;
        let (mut spec, mut header) = (EcnSpec::Unsaid, None);
        loop {
            let mut word = self.word("a field of the IP header")?;
            if word == "ecn" {
                word = self.word("an ECN field")?;
            }
            match word.as_str() {
                "noecn" => spec = EcnSpec::Exactly(Ecn::NotEct),
                "ect0" => spec = EcnSpec::Exactly(Ecn::Ect0),
                "ect1" => spec = EcnSpec::Exactly(Ecn::Ect1),
                "ce" => spec = EcnSpec::Exactly(Ecn::Ce),
                "ect01" => spec = EcnSpec::Ect01,
                "tos" | "class" => {
                    let tos = self.number("a byte")?;
                    spec = EcnSpec::Exactly(match tos & 3 {
                        0 => Ecn::NotEct,
                        1 => Ecn::Ect1,
                        2 => Ecn::Ect0,
                        _ => Ecn::Ce,
                    });
                    if tos > 3 {
                        header = Some(word);
                    }
                }
                "dscp" | "ttl" | "hlim" | "flowlabel" => {
                    self.at += usize::from(self.peek().is_some());
                    header = Some(word);
                }
                other => return self.error(format!("`{other}` is not a field of the IP header")),
            }
            if !self.take_sign(',') {
                break;
            }
        }
        self.sign(close)?;
        Ok((spec, header))
    }

    /// `NAME[…]`
    fn item(&mut self) -> Result<Item> {
        let line = self.line();
        let name = self.word("a chunk")?;
        self.sign('[')?;
        self.deeper(|parser| {
            let mut fields = Vec::new();
            while !parser.take_sign(']') {
                fields.push(parser.field()?);
                if !parser.is_sign(']') {
                    parser.sign(',')?;
                }
            }
            Ok(Item { line, name, fields })
        })
    }

    fn field(&mut self) -> Result<Field> {
        if let (Some(Token::Word(key)), Some(Token::Sign('='))) = (self.peek(), self.peek_at(1)) {
            self.at += 2;
            return Ok(Field { key: Some(key.clone()), value: self.value()? });
        }
        Ok(Field { key: None, value: self.value()? })
    }

    fn value(&mut self) -> Result<Value> {
        match self.peek() {
            Some(Token::Ellipsis) => {
                self.at += 1;
                Ok(Value::Any)
            }
            Some(Token::Int(_) | Token::Hex(_)) => {
                let number = self.number("a non-negative number")?;
                if self.take_sign(':') {
                    return Ok(Value::Gap(number, self.number("the end of a gap block")?));
                }
                Ok(Value::Number(number))
            }
            Some(Token::Word(_)) if self.peek_at(1) == Some(&Token::Sign('[')) => {
                Ok(Value::Item(self.item()?))
            }
            Some(Token::Word(word)) => {
                self.at += 1;
                Ok(Value::Word(word.clone()))
            }
            Some(Token::Text(text)) => {
                self.at += 1;
                Ok(Value::Text(text.clone()))
            }
            Some(Token::Address(address)) => {
                self.at += 1;
                Ok(Value::Address(*address))
            }
            Some(Token::Sign(open @ ('[' | '{'))) => {
                let close = if *open == '[' { ']' } else { '}' };
                self.at += 1;
                self.deeper(|parser| {
                    let mut values = Vec::new();
                    while !parser.take_sign(close) {
                        values.push(parser.value()?);
                        if !parser.is_sign(close) {
                            parser.sign(',')?;
                        }
                    }
                    Ok(Value::List(values))
                })
            }
            _ => self.expected("a value"),
        }
    }

    fn call(&mut self, until: Option<u64>) -> Result<Call> {
        let name = self.word("a call")?;
        self.sign('(')?;
        let mut arguments = Vec::new();
        while !self.take_sign(')') {
            arguments.push(self.expr()?);
            if !self.is_sign(')') {
                self.sign(',')?;
            }
        }
        self.sign('=')?;
        let result = self.expr()?;
        let errno = match self.peek() {
            Some(Token::Word(word)) => {
                self.at += 1;
                Some(word.clone())
            }
            _ => None,
        };
        if self.take_sign('(') {
            // A note for the reader.
            while !self.take_sign(')') {
                if self.peek().is_none() {
                    return self.expected("`)`");
                }
                self.at += 1;
            }
        }
        Ok(Call { until, name, arguments, result, errno })
    }

    fn expr(&mut self) -> Result<Expr> {
        let mut left = self.term()?;
        while self.take_sign('|') {
            left = Expr::Or(Box::new(left), Box::new(self.term()?));
        }
        Ok(left)
    }

    fn term(&mut self) -> Result<Expr> {
        let Some(token) = self.peek() else { return self.expected("a value") };
        match token {
            Token::Ellipsis => {
                self.at += 1;
                Ok(Expr::Any)
            }
            Token::Int(number) => {
                self.at += 1;
                Ok(Expr::Int(*number))
            }
            Token::Hex(number) => {
                self.at += 1;
                match i64::try_from(*number) {
                    Ok(number) => Ok(Expr::Int(number)),
                    Err(_) => self.error(format!("the number {number:#x} is too large")),
                }
            }
            Token::Text(text) => {
                self.at += 1;
                // `"text"...`: a text prefix.
                if self.peek() == Some(&Token::Ellipsis) {
                    self.at += 1;
                }
                Ok(Expr::Text(text.clone()))
            }
            Token::Word(word) => {
                self.at += 1;
                if !self.take_sign('(') {
                    return Ok(Expr::Word(word.clone()));
                }
                self.deeper(|parser| Ok(Expr::Of(word.clone(), parser.exprs(')')?)))
            }
            Token::Sign('[') => {
                self.at += 1;
                self.deeper(|parser| Ok(Expr::List(parser.exprs(']')?)))
            }
            Token::Sign('{') => {
                self.at += 1;
                self.deeper(Self::members)
            }
            _ => self.expected("a value"),
        }
    }

    fn exprs(&mut self, close: char) -> Result<Vec<Expr>> {
        let mut exprs = Vec::new();
        while !self.take_sign(close) {
            exprs.push(self.expr()?);
            if !self.is_sign(close) {
                self.sign(',')?;
            }
        }
        Ok(exprs)
    }

    /// The rest of `{key=value, msg_iov(1)=[…], value}`.
    fn members(&mut self) -> Result<Expr> {
        let mut members = Vec::new();
        while !self.take_sign('}') {
            let value = self.expr()?;
            members.push(if self.take_sign('=') {
                // The count in `msg_iov(1)` is the length of the list that follows.
                let (Expr::Word(key) | Expr::Of(key, _)) = value else {
                    return self.error("expected a name before `=`");
                };
                Member { key: Some(key), value: self.expr()? }
            } else {
                Member { key: None, value }
            });
            if !self.is_sign('}') {
                self.sign(',')?;
            }
        }
        Ok(Expr::Struct(members))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::script::Kind;

    fn parse(text: &str) -> Result<Script> {
        super::parse(text, &BTreeSet::new())
    }

    fn event(text: &str) -> Event {
        parse(text).unwrap().events.remove(0)
    }

    #[test]
    fn the_five_kinds_of_time() {
        assert_eq!(event("+0.1 close(3) = 0").when, When::After(100_000));
        assert_eq!(event("2 close(3) = 0").when, When::At(2_000_000));
        assert_eq!(event("* > sctp: COOKIE_ACK[flgs=0]").when, When::Any);
        assert_eq!(event("+1~+2 > sctp: COOKIE_ACK[flgs=0]").when, When::AfterRange(1_000_000, 2_000_000));
        assert_eq!(event("1~2.5 > sctp: COOKIE_ACK[flgs=0]").when, When::AtRange(1_000_000, 2_500_000));
        assert!(parse("* close(3) = 0").unwrap_err().what.contains("only an outbound packet may"));
        assert!(parse("2~1 > sctp: COOKIE_ACK[flgs=0]").unwrap_err().what.contains("ends before it begins"));
        assert!(parse("-1 close(3) = 0").unwrap_err().what.contains("non-negative"));
    }

    #[test]
    fn a_packet_with_all_its_parts() {
        let What::Packet(packet) = event(
            "+0 < [ce] sctp(bad_crc32c, tag=7)/udp(1>2): SACK[flgs=0, gaps=[2:3], dups=[]]; CHUNK[val=...]",
        )
        .what
        else {
            panic!("a packet")
        };
        assert_eq!((packet.ports, packet.route, packet.header.as_deref()), (None, None, None));
        assert_eq!((packet.direction, packet.ecn), (Direction::In, EcnSpec::Exactly(Ecn::Ce)));
        assert_eq!((packet.tag, packet.crc, packet.udp), (Some(7), Crc::Wrong, Some((1, 2))));
        let Content::Chunks(chunks) = packet.content else { panic!("chunks") };
        assert_eq!(chunks[0].fields[1].value, Value::List(vec![Value::Gap(2, 3)]));
        assert_eq!(chunks[1].fields, [Field { key: Some("val".into()), value: Value::Any }]);
    }

    #[test]
    fn a_packet_between_ports_and_addresses_with_more_of_its_header() {
        let packet = |text: &str| match event(text).what {
            What::Packet(packet) => packet,
            what => panic!("a packet, got {what:?}"),
        };
        let first = packet("+0 < (tos 0x02, ttl 3) 1.2.3.4>5.6.7.8 10>20 sctp(crc32c=bad): [0x01, 2]");
        assert_eq!(first.ecn, EcnSpec::Exactly(Ecn::Ect0));
        assert_eq!(first.header.as_deref(), Some("ttl"));
        assert_eq!(first.route, Some(("1.2.3.4".parse().unwrap(), "5.6.7.8".parse().unwrap())));
        assert_eq!((first.ports, first.crc), (Some((10, 20)), Crc::Wrong));
        assert_eq!(first.content, Content::Bytes(vec![1, 2]));
    }

    #[test]
    fn the_quoted_packet_may_precede_or_follow_the_icmp_message() {
        let message = |text: &str| -> Result<IcmpSpec> {
            match parse(text)?.events.remove(0).what {
                What::Packet(PacketSpec { content: Content::Icmp(message), .. }) => Ok(message),
                what => panic!("an ICMP message, got {what:?}"),
            }
        };
        let expected = IcmpSpec {
            kind: "unreachable".to_owned(),
            code: Some("frag_needed".to_owned()),
            mtu: Some(1_200),
            quoted: QuotedSpec { tag: 7, udp: Some((1, 2)) },
        };
        for text in [
            "+0 < [dscp cs1] icmp unreachable frag_needed mtu 1200 [sctp(7)/udp(1>2)]",
            "+0 < [sctp(7)/udp(1>2)] icmp unreachable frag_needed mtu 1200",
        ] {
            assert_eq!(message(text).as_ref(), Ok(&expected), "{text}");
        }
        let short = message("+0 < icmpv6 packet_too_big mtu 1280 [sctp(7)]").unwrap();
        assert_eq!((short.kind.as_str(), short.code, short.mtu), ("packet_too_big", None, Some(1_280)));
        assert_eq!(
            message("+0 < icmp type_3 code_2 id 5 [sctp(7)]").unwrap().code.as_deref(),
            Some("code_2")
        );
        for text in
            ["+0 < icmp unreachable", "+0 < icmp unreachable [1:2(1)]", "+0 < icmp echo_reply [udp(5)]"]
        {
            assert_eq!(message(text).unwrap_err().kind, Kind::Unsupported, "{text}");
        }
        for text in [
            "+0 < icmp",
            "+0 < icmp unreachable mtu [sctp(7)]",
            "+0 < icmp unreachable [sctp(4294967296)]",
            "+0 < [sctp(7)] sctp: COOKIE_ACK[flgs=0]",
            "+0 > [sctp(7)] icmp unreachable",
        ] {
            assert_eq!(message(text).unwrap_err().kind, Kind::Invalid, "{text}");
        }
    }

    #[test]
    fn a_command_needs_no_time() {
        let script = parse("`a`\n+0 close(3) = 0\n`b`").unwrap();
        assert_eq!(script.events.len(), 3);
        assert_eq!(script.events[2].what, What::Command("b".to_owned()));
    }

    #[test]
    fn a_call_with_structures_errno_and_note() {
        let What::Call(call) = event(
            "+0...0.2 sendmsg(3, {msg_name(...)=..., msg_iov(1)=[{..., 5}], msg_flags=A|B}, 0x2) = -1 EAGAIN (try, again)",
        )
        .what
        else {
            panic!("a call")
        };
        assert_eq!((call.until, call.name.as_str()), (Some(200_000), "sendmsg"));
        assert_eq!((call.result, call.errno.as_deref()), (Expr::Int(-1), Some("EAGAIN")));
        let [_, message, flags] = &call.arguments[..] else { panic!("three") };
        assert_eq!(flags, &Expr::Int(2));
        assert_eq!(message.member("msg_name"), Some(&Expr::Any));
        assert!(matches!(message.member("msg_iov"), Some(Expr::List(list)) if list.len() == 1));
        assert!(matches!(message.member("msg_flags"), Some(Expr::Or(..))));
    }

    #[test]
    fn an_event_keeps_its_text_and_its_first_line() {
        let event =
            parse("--mtu=1500\n\n+0 > sctp: A[flgs=0]; // why\n  B[flgs=0]").unwrap().events.remove(0);
        assert_eq!((event.line, event.text.as_str()), (3, "+0 > sctp: A[flgs=0]; B[flgs=0]"));
    }

    #[test]
    fn unsupported_is_distinguished_from_invalid() {
        for text in
            ["0 < S 0:0(0) win 1", "0 < udp (1000)", "0 > ipv4 1.1.1.1 > 2.2.2.2: sctp: A[]", "0 %{ x }%"]
        {
            assert_eq!(parse(text).unwrap_err().kind, Kind::Unsupported, "{text}");
        }
        for text in
            ["", "0", "0 <", "0 < sctp", "0 f(", "0 f() =", "0 > sctp: A[", "0 > sctp(bad_crc32c): A[]", "x"]
        {
            assert_eq!(parse(text).map_err(|error| error.kind), Err(Kind::Invalid), "{text}");
        }
    }

    #[test]
    fn the_nesting_of_values_is_limited() {
        let nested = |depth: usize| format!("0 f({}{}) = 0", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(&nested(DEPTH_MAX)).is_ok());
        assert!(parse(&nested(DEPTH_MAX + 1)).unwrap_err().what.contains("nested too deep"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "([+*<>~]|[0-9.]{1,3}|sctp|icmp|mtu|INIT|\\[|\\]|[{}()=,;:\"`/#-]|\\.\\.\\.| |\n|é|[a-z_]{1,4}){0,40}") {
            let _ = parse(&text);
        }
    }
}
