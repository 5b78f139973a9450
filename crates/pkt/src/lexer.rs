//! The lexer: turns a script into packetdrill's tokens, each with its line number.
//!
//! Comments are `//` and `/* */`. `#ifdef NAME`, `#ifndef NAME`, `#else` and `#endif` select parts by the
//! names that are defined. By default that is `FreeBSD`, for which the public suites are written.

use std::collections::BTreeSet;
use std::fmt;

use crate::script::ScriptError;

/// The maximum length of a script in bytes; real scripts have a few hundred lines.
pub(crate) const SCRIPT_BYTES_MAX: usize = 1 << 20;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// `DATA`, `a_rwnd`, `O_RDWR`.
    Word(String),
    /// `12`, `-1`
    Int(i64),
    /// `0x1f`
    Hex(u64),
    /// `0.25`, in microseconds
    Decimal(i64),
    /// `192.0.2.1`, `2001:db8::1`
    Address(std::net::IpAddr),
    /// `"text"`
    Text(String),
    /// A command between backquotes.
    Command(String),
    /// `%{ code }%`
    Code,
    /// `--name`
    Option(String),
    /// `...`
    Ellipsis,
    /// Any other character.
    Sign(char),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => f.write_str(word),
            Self::Int(number) => number.fmt(f),
            Self::Hex(number) => write!(f, "{number:#x}"),
            Self::Decimal(micros) => write!(f, "{}", *micros as f64 / 1e6),
            Self::Address(address) => address.fmt(f),
            Self::Text(text) => write!(f, "\"{text}\""),
            Self::Command(command) => write!(f, "`{command}`"),
            Self::Code => f.write_str("%{ }%"),
            Self::Option(name) => write!(f, "--{name}"),
            Self::Ellipsis => f.write_str("..."),
            Self::Sign(sign) => sign.fmt(f),
        }
    }
}

/// A token and its line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Lexeme {
    pub(crate) token: Token,
    pub(crate) line: usize,
    /// The position of the token in the text.
    pub(crate) at: std::ops::Range<usize>,
}

/// Returns all tokens of the parts of a script that the names in `defined` select.
pub(crate) fn lex(text: &str, defined: &BTreeSet<String>) -> Result<Vec<Lexeme>, ScriptError> {
    if text.len() > SCRIPT_BYTES_MAX {
        return Err(ScriptError::new(1, format!("{} bytes exceed the maximum of a script", text.len())));
    }
    let defined = defined.clone();
    let mut lexer = Lexer { text, at: 0, line: 1, defined, skipping: Vec::new() };
    let mut lexemes = Vec::new();
    while let Some(lexeme) = lexer.next()? {
        lexemes.push(lexeme);
    }
    match lexer.skipping.last() {
        Some(&(line, _)) => Err(ScriptError::new(line, "no #endif closes this #ifdef")),
        None => Ok(lexemes),
    }
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    defined: BTreeSet<String>,
    /// For each open `#ifdef`: its line, and whether its lines are skipped.
    skipping: Vec<(usize, bool)>,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn error<T>(&self, what: impl Into<String>) -> Result<T, ScriptError> {
        Err(ScriptError::new(self.line, what))
    }

    /// Consumes `len` bytes.
    fn pass(&mut self, len: usize) -> &str {
        let passed = &self.text[self.at..self.at + len];
        self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
        self.at += len;
        passed
    }

    /// Consumes text up to and including `end`, and returns the text before `end`.
    fn up_to(&mut self, end: &str, what: &str) -> Result<String, ScriptError> {
        let Some(len) = self.rest().find(end) else { return self.error(format!("{what} has no end")) };
        let inside = self.pass(len).to_owned();
        self.pass(end.len());
        Ok(inside)
    }

    fn next(&mut self) -> Result<Option<Lexeme>, ScriptError> {
        loop {
            self.blanks()?;
            if self.skipping.iter().any(|(_, skip)| *skip)
                && !self.rest().is_empty()
                && !self.rest().starts_with('#')
            {
                let len = self.rest().find('\n').unwrap_or(self.rest().len());
                self.pass(len);
                continue;
            }
            if self.rest().starts_with('#') {
                self.condition()?;
                continue;
            }
            break;
        }
        if self.rest().is_empty() {
            return Ok(None);
        }
        let (line, start) = (self.line, self.at);
        let token = self.token()?;
        Ok(Some(Lexeme { token, line, at: start..self.at }))
    }

    fn blanks(&mut self) -> Result<(), ScriptError> {
        loop {
            let rest = self.rest();
            let len = rest.len() - rest.trim_start().len();
            self.pass(len);
            if self.rest().starts_with("//") {
                let len = self.rest().find('\n').unwrap_or(self.rest().len());
                self.pass(len);
            } else if self.rest().starts_with("/*") {
                self.pass(2);
                self.up_to("*/", "this comment")?;
            } else if len == 0 {
                return Ok(());
            }
        }
    }

    /// `#ifdef` and the other conditions.
    fn condition(&mut self) -> Result<(), ScriptError> {
        let len = self.rest().find('\n').unwrap_or(self.rest().len());
        let line = self.line;
        let text = self.pass(len).trim().to_owned();
        let text = text.split("//").next().unwrap_or_default();
        let (directive, name) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let name = name.split_whitespace().next().unwrap_or_default();
        if matches!(directive, "#ifdef" | "#ifndef" | "#define" | "#undef") && name.is_empty() {
            return Err(ScriptError::new(line, format!("{directive} without a name")));
        }
        let skips = self.skipping.iter().any(|(_, skip)| *skip);
        match directive.trim() {
            "#ifdef" => self.skipping.push((line, !self.defined.contains(name))),
            "#ifndef" => self.skipping.push((line, self.defined.contains(name))),
            "#define" | "#undef" if skips => {}
            "#define" => {
                self.defined.insert(name.to_owned());
            }
            "#undef" => {
                self.defined.remove(name);
            }
            "#else" => match self.skipping.last_mut() {
                Some((_, skip)) => *skip = !*skip,
                None => return Err(ScriptError::new(line, "#else without #ifdef")),
            },
            "#endif" => {
                if self.skipping.pop().is_none() {
                    return Err(ScriptError::new(line, "#endif without #ifdef"));
                }
            }
            _ => return Err(ScriptError::new(line, format!("`{text}` is not a known directive"))),
        }
        Ok(())
    }

    fn token(&mut self) -> Result<Token, ScriptError> {
        let rest = self.rest();
        let first = rest.chars().next().expect("there is more");
        if rest.starts_with("...") {
            self.pass(3);
            return Ok(Token::Ellipsis);
        }
        if rest.starts_with("--") && rest[2..].starts_with(|c: char| c.is_ascii_alphabetic()) {
            self.pass(2);
            let len = word_len(self.rest());
            return Ok(Token::Option(self.pass(len).to_owned()));
        }
        if rest.starts_with("%{") {
            self.pass(2);
            self.up_to("}%", "this code")?;
            return Ok(Token::Code);
        }
        match first {
            '"' => {
                self.pass(1);
                return Ok(Token::Text(self.up_to("\"", "this text")?));
            }
            '`' => {
                self.pass(1);
                return Ok(Token::Command(self.up_to("`", "this command")?));
            }
            _ => {}
        }
        if let Some((len, address)) = address(rest) {
            self.pass(len);
            return Ok(Token::Address(address));
        }
        if (first.is_ascii_digit() || first == '.' || first == '-')
            && let Some(token) = self.number()?
        {
            return Ok(token);
        }
        // Chunk types whose names contain a hyphen.
        for name in ["I-DATA", "I-FORWARD-TSN"] {
            if self.rest().starts_with(name) {
                return Ok(Token::Word(self.pass(name.len()).replace('-', "_")));
            }
        }
        if first.is_ascii_alphanumeric() || first == '_' {
            let len = word_len(self.rest());
            return Ok(Token::Word(self.pass(len).to_owned()));
        }
        self.pass(first.len_utf8());
        Ok(Token::Sign(first))
    }

    /// A number, unless the text is a word that begins with a digit.
    fn number(&mut self) -> Result<Option<Token>, ScriptError> {
        let rest = self.rest();
        if let Some(digits) = rest.strip_prefix("0x") {
            let len = digits.bytes().take_while(u8::is_ascii_hexdigit).count();
            if len > 0 {
                let parsed = u64::from_str_radix(&digits[..len], 16);
                let text = self.pass(2 + len).to_owned();
                return match parsed {
                    Ok(number) => Ok(Some(Token::Hex(number))),
                    Err(_) => self.error(format!("the number {text} is too large")),
                };
            }
        }
        let signed = usize::from(rest.starts_with('-'));
        let digits = rest[signed..].bytes().take_while(u8::is_ascii_digit).count();
        let whole = signed + digits;
        let fraction = match rest[whole..].strip_prefix('.') {
            // `0...0.5` is a time, an ellipsis and a time.
            Some(behind) => behind.bytes().take_while(u8::is_ascii_digit).count(),
            None => 0,
        };
        if fraction > 0 {
            let sign = if signed == 1 { -1 } else { 1 };
            let text = self.pass(whole + 1 + fraction).to_owned();
            let seconds: i64 = if digits == 0 { Some(0) } else { text[signed..whole].parse().ok() }
                .filter(|seconds| *seconds < 1_000_000_000)
                .ok_or_else(|| ScriptError::new(self.line, format!("the number {text} is too large")))?;
            let micros: i64 = format!("{:0<6.6}", &text[whole + 1..]).parse().expect("six digits");
            return Ok(Some(Token::Decimal(sign * (seconds * 1_000_000 + micros))));
        }
        if digits == 0 || word_len(&rest[signed..]) > digits {
            return Ok(None);
        }
        let text = self.pass(whole).to_owned();
        match text.parse() {
            Ok(number) => Ok(Some(Token::Int(number))),
            Err(_) => self.error(format!("the number {text} is too large")),
        }
    }
}

fn word_len(text: &str) -> usize {
    text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
}

/// The address at the start of `text`: four numbers with dots, or a valid IPv6 address with at least two
/// colons.
fn address(text: &str) -> Option<(usize, std::net::IpAddr)> {
    let len = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    if let Ok(address) = text[..len].parse::<std::net::Ipv4Addr>() {
        return Some((len, address.into()));
    }
    let mut len =
        text.bytes().take_while(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.')).count();
    // A colon after an address is not part of it.
    while len > 2 && text[..len].bytes().filter(|byte| *byte == b':').count() >= 2 {
        if let Ok(address) = text[..len].parse::<std::net::Ipv6Addr>() {
            return Some((len, address.into()));
        }
        len -= 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lex(text: &str) -> Result<Vec<Lexeme>, ScriptError> {
        super::lex(text, &BTreeSet::from(["FreeBSD".to_owned()]))
    }

    fn tokens(text: &str) -> Vec<String> {
        lex(text).unwrap().iter().map(|lexeme| lexeme.token.to_string()).collect()
    }

    #[test]
    fn times_ranges_and_numbers_are_distinguished() {
        assert_eq!(lex("0.25").unwrap()[0].token, Token::Decimal(250_000));
        assert_eq!(lex(".5").unwrap()[0].token, Token::Decimal(500_000));
        assert_eq!(lex("-1").unwrap()[0].token, Token::Int(-1));
        assert_eq!(lex("0x1F").unwrap()[0].token, Token::Hex(31));
        assert_eq!(tokens("+0.1...0.3 x"), ["+", "0.1", "...", "0.3", "x"]);
        assert_eq!(tokens("+0...1 x"), ["+", "0", "...", "1", "x"]);
        assert_eq!(tokens("+1~+2"), ["+", "1", "~", "+", "2"]);
        assert_eq!(tokens("gaps=[2:3,5:7]"), ["gaps", "=", "[", "2", ":", "3", ",", "5", ":", "7", "]"]);
    }

    #[test]
    fn an_address_is_one_token() {
        assert_eq!(
            tokens("IPV4_ADDRESS[addr=192.0.2.1]"),
            ["IPV4_ADDRESS", "[", "addr", "=", "192.0.2.1", "]"]
        );
        assert_eq!(tokens("addr=2001:db8::1]"), ["addr", "=", "2001:db8::1", "]"]);
        assert_eq!(tokens("ipv6 ::1 > ::2: sctp:"), ["ipv6", "::1", ">", "::2", ":", "sctp", ":"]);
    }

    #[test]
    fn comments_and_parts_for_other_systems_are_skipped() {
        assert_eq!(tokens("a // b\nc /* d\n e */ f"), ["a", "c", "f"]);
        assert_eq!(tokens("a\n#ifdef Linux\nb 'c\n#else\nd\n#endif\n#ifndef X\ne\n#endif"), ["a", "d", "e"]);
        assert_eq!(
            tokens("#ifdef FreeBSD // why\na\n#ifdef X\nb\n#else\nc\n#endif\n#else\nd\n#endif"),
            ["a", "c"]
        );
        assert_eq!(
            tokens("#ifdef X\n#define Y\n#else\n#define Z\n#endif\n#ifdef Y\na\n#endif\n#ifdef Z\nb\n#endif"),
            ["b"]
        );
        assert_eq!(tokens("#undef FreeBSD\n#ifndef FreeBSD\na\n#endif"), ["a"]);
        assert!(lex("#ifdef\n#endif").is_err());
        assert_eq!(lex("a\nb").unwrap()[1].line, 2);
        assert_eq!(lex("\n#ifdef X\n").unwrap_err(), ScriptError::new(2, "no #endif closes this #ifdef"));
    }

    #[test]
    fn an_unterminated_token_is_reported_with_its_line() {
        assert_eq!(lex("\n\"abc").unwrap_err(), ScriptError::new(2, "this text has no end"));
        assert_eq!(lex("/* abc").unwrap_err(), ScriptError::new(1, "this comment has no end"));
        assert!(lex("99999999999999999999").unwrap_err().what.contains("too large"));
        assert!(lex("0x11112222333344445").unwrap_err().what.contains("too large"));
        assert!(lex("99999999999999999999.5").unwrap_err().what.contains("too large"));
    }

    #[test]
    fn the_length_of_a_script_is_limited() {
        assert!(lex(&" ".repeat(SCRIPT_BYTES_MAX)).is_ok());
        assert!(lex(&" ".repeat(SCRIPT_BYTES_MAX + 1)).is_err());
    }
}
