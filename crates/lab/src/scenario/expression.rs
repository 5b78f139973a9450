//! Claims and conditions: `braid < 0.5 * tcp at loss >= 0.03`, `size < 1 MB or loss = 0`.
//!
//! ```text
//! claim     = sum ("<" | "<=" | ">" | ">=") sum ["at" condition]
//! sum       = product {("+" | "-") product}
//! product   = factor {("*" | "/") factor}
//! factor    = ["-"] (number [unit] | term | "(" sum ")")
//! term      = name ["(" name ["," name] ")"]
//! condition = all {"or" all}
//! all       = test {"and" test}
//! test      = name ("=" | "!=" | "<" | "<=" | ">" | ">=") (number [unit] | name) | "(" condition ")"
//! ```
//! A name has letters, digits, `_`, `.` and `-`; other names are quoted. So a minus between names needs spaces. Which names
//! there are is not known here.

use std::fmt;
use std::ops::Range;

use super::quantity::{self, Quantity};

/// The maximum depth of parentheses.
const DEPTH_MAX: usize = 50;

/// A claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// The left side.
    pub left: Sum,
    /// The comparison.
    pub compares: Compares,
    /// The right side.
    pub right: Sum,
    /// The points that the claim covers; `None`: all.
    pub at: Option<Condition>,
}

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compares {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
}

/// An arithmetical expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Sum {
    /// A number, with its unit.
    Number(Literal),
    /// A measured value.
    Term(Term),
    /// The negative.
    Minus(Box<Sum>),
    /// Two expressions and their operator.
    Both(Box<Sum>, Operator, Box<Sum>),
}

/// An operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
}

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub struct Literal {
    /// In the base unit, if it has one.
    pub number: f64,
    /// The dimension, if it has a unit.
    pub dimension: Option<quantity::Dimension>,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// A measured value: a name, possibly with names in parentheses.
#[derive(Debug, Clone, PartialEq)]
pub struct Term {
    /// The name.
    pub name: Word,
    /// The names in parentheses, at most two.
    pub of: Vec<Word>,
}

/// A name and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    /// The name.
    pub text: String,
    /// Its bytes in the text.
    pub span: Range<usize>,
}

/// A condition on points.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// An axis compared with a value.
    Test(Word, Compares, Operand),
    /// All of these hold.
    All(Vec<Condition>),
    /// One of these holds.
    Any(Vec<Condition>),
}

/// What an axis is compared with.
#[derive(Debug, Clone, PartialEq)]
pub enum Operand {
    /// A number.
    Number(Literal),
    /// A name.
    Name(Word),
}

/// Why a text is not a claim or condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// The bytes of the text with the error.
    pub span: Range<usize>,
    /// The error.
    pub what: String,
}

impl fmt::Display for ExpressionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for ExpressionError {}

/// Parses a claim.
///
/// # Errors
///
/// The error and its position.
pub fn claim(text: &str) -> Result<Claim, ExpressionError> {
    let mut parser = Parser::new(text)?;
    let left = parser.sum()?;
    let compares = parser.comparison()?;
    if matches!(compares, Compares::Equal | Compares::NotEqual) {
        return Err(parser.wrong_before("means are never equal: compare with <, <=, > or >="));
    }
    let right = parser.sum()?;
    let at = if parser.takes_word("at") { Some(parser.any()?) } else { None };
    parser.ends("`at`, an operator or the end")?;
    Ok(Claim { left, compares, right, at })
}

/// Parses a condition.
///
/// # Errors
///
/// The error and its position.
pub fn condition(text: &str) -> Result<Condition, ExpressionError> {
    let mut parser = Parser::new(text)?;
    let condition = parser.any()?;
    parser.ends("`and`, `or` or the end")?;
    Ok(condition)
}

/// Checks a claim.
pub fn check_claim(text: &str) -> Result<(), String> {
    claim(text).map(drop).map_err(|error| error.what)
}

/// Checks a condition.
pub fn check_condition(text: &str) -> Result<(), String> {
    condition(text).map(drop).map_err(|error| error.what)
}

impl Compares {
    /// Whether two numbers satisfy the comparison.
    pub fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
            Self::Equal => left == right,
            Self::NotEqual => left != right,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64, Option<quantity::Dimension>),
    Word(String),
    /// A quoted word, which is never a keyword.
    Quoted(String),
    Sign(&'static str),
}

/// Longer signs first.
const SIGNS: [&str; 14] = ["<=", ">=", "!=", "==", "<", ">", "=", "+", "-", "*", "/", "(", ")", ","];
const KEYWORDS: [&str; 3] = ["at", "and", "or"];

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '-')
}

fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, ExpressionError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let (token, length) = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first.is_ascii_digit() {
            number(rest).ok_or_else(|| wrong(at..at + 1, "this is not a number"))?
        } else if matches!(first, '"' | '\'') {
            let Some(end) = rest[1..].find(first) else {
                return Err(wrong(at..text.len(), "a quoted name does not end"));
            };
            (Token::Quoted(rest[1..=end].to_owned()), end + 2)
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else if is_name(first) {
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            (Token::Word(rest[..end].to_owned()), end)
        } else {
            let what = format!(
                "`{}` means nothing here; put names with other signs into quotes",
                first.escape_debug()
            );
            return Err(wrong(at..at + first.len_utf8(), &what));
        };
        tokens.push((token, at..at + length));
        at += length;
    }
    Ok(tokens)
}

/// A number at the beginning of a text, with its unit if one follows, and the length of both in bytes.
fn number(text: &str) -> Option<(Token, usize)> {
    let is_digit = |c: char| c.is_ascii_digit() || c == '_' || c == '.';
    let mut end = text.find(|c| !is_digit(c)).unwrap_or(text.len());
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let digits = exponent.strip_prefix('-').unwrap_or(exponent);
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            let sign = exponent.len() - digits.len();
            end += 1 + sign + digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        }
    }
    let plain: f64 = text[..end].replace('_', "").parse().ok().filter(|number: &f64| number.is_finite())?;
    let space = text[end..].len() - text[end..].trim_start().len();
    let after = &text[end + space..];
    let is_unit_char = |c: char| c.is_alphanumeric() || matches!(c, '%' | '/');
    let unit = &after[..after.find(|c| !is_unit_char(c)).unwrap_or(after.len())];
    match quantity::parse(&format!("{} {unit}", &text[..end])) {
        Some(Quantity { number, dimension }) => {
            Some((Token::Number(number, Some(dimension)), end + space + unit.len()))
        }
        None => Some((Token::Number(plain, None), end)),
    }
}

fn wrong(span: Range<usize>, what: &str) -> ExpressionError {
    ExpressionError { span, what: what.to_owned() }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Range<usize>)>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Result<Self, ExpressionError> {
        Ok(Self { text, tokens: tokens(text)?, at: 0, depth: 0 })
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn span(&self) -> Range<usize> {
        self.tokens.get(self.at).map_or(self.text.len()..self.text.len(), |(_, span)| span.clone())
    }

    fn wrong(&self, expected: &str) -> ExpressionError {
        let found = &self.text[self.span()];
        let found =
            if found.is_empty() { "the end".to_owned() } else { format!("`{}`", found.escape_debug()) };
        ExpressionError { span: self.span(), what: format!("expected {expected}, found {found}") }
    }

    fn wrong_before(&self, what: &str) -> ExpressionError {
        wrong(self.tokens[self.at - 1].1.clone(), what)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let takes = matches!(self.peek(), Some(Token::Sign(its)) if *its == sign);
        self.at += usize::from(takes);
        takes
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let takes = matches!(self.peek(), Some(Token::Word(its)) if its == word);
        self.at += usize::from(takes);
        takes
    }

    fn ends(&self, expected: &str) -> Result<(), ExpressionError> {
        if self.at == self.tokens.len() { Ok(()) } else { Err(self.wrong(expected)) }
    }

    fn deeper<T>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<T, ExpressionError>,
    ) -> Result<T, ExpressionError> {
        if self.depth == DEPTH_MAX {
            return Err(wrong(self.span(), "too many parentheses"));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn comparison(&mut self) -> Result<Compares, ExpressionError> {
        for (sign, compares) in [
            ("<=", Compares::LessOrEqual),
            (">=", Compares::GreaterOrEqual),
            ("<", Compares::Less),
            (">", Compares::Greater),
            ("!=", Compares::NotEqual),
            ("==", Compares::Equal),
            ("=", Compares::Equal),
        ] {
            if self.takes(sign) {
                return Ok(compares);
            }
        }
        Err(self.wrong("a comparison: <, <=, > or >="))
    }

    fn sum(&mut self) -> Result<Sum, ExpressionError> {
        let mut sum = self.product()?;
        loop {
            let operator = match () {
                () if self.takes("+") => Operator::Plus,
                () if self.takes("-") => Operator::Minus,
                () => return Ok(sum),
            };
            sum = Sum::Both(Box::new(sum), operator, Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Sum, ExpressionError> {
        let mut product = self.factor()?;
        loop {
            let operator = match () {
                () if self.takes("*") => Operator::Times,
                () if self.takes("/") => Operator::Over,
                () => return Ok(product),
            };
            product = Sum::Both(Box::new(product), operator, Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Sum, ExpressionError> {
        if self.takes("-") {
            return Ok(Sum::Minus(Box::new(self.deeper(Self::factor)?)));
        }
        if self.takes("(") {
            let sum = self.deeper(Self::sum)?;
            return if self.takes(")") { Ok(sum) } else { Err(self.wrong("an operator or `)`")) };
        }
        if let Some(literal) = self.literal() {
            return Ok(Sum::Number(literal));
        }
        let name = self.word("a number, a name or `(`")?;
        let mut of = Vec::new();
        if self.takes("(") {
            of.push(self.word("a name")?);
            if self.takes(",") {
                of.push(self.word("a name")?);
            }
            if !self.takes(")") {
                return Err(self.wrong("`)`"));
            }
        }
        Ok(Sum::Term(Term { name, of }))
    }

    fn literal(&mut self) -> Option<Literal> {
        let Some(Token::Number(number, dimension)) = self.peek() else { return None };
        let literal = Literal { number: *number, dimension: *dimension, span: self.span() };
        self.at += 1;
        Some(literal)
    }

    fn word(&mut self, expected: &str) -> Result<Word, ExpressionError> {
        let text = match self.peek() {
            Some(Token::Word(text)) if !KEYWORDS.contains(&text.as_str()) => text.clone(),
            Some(Token::Quoted(text)) => text.clone(),
            _ => return Err(self.wrong(expected)),
        };
        let span = self.span();
        self.at += 1;
        Ok(Word { text, span })
    }

    fn any(&mut self) -> Result<Condition, ExpressionError> {
        self.several("or", Condition::Any, |parser| parser.several("and", Condition::All, Self::test))
    }

    fn several(
        &mut self,
        between: &str,
        of: fn(Vec<Condition>) -> Condition,
        each: impl Fn(&mut Self) -> Result<Condition, ExpressionError>,
    ) -> Result<Condition, ExpressionError> {
        let first = each(self)?;
        if !matches!(self.peek(), Some(Token::Word(word)) if word == between) {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.takes_word(between) {
            all.push(each(self)?);
        }
        Ok(of(all))
    }

    fn test(&mut self) -> Result<Condition, ExpressionError> {
        if self.takes("(") {
            let condition = self.deeper(Self::any)?;
            return if self.takes(")") { Ok(condition) } else { Err(self.wrong("`and`, `or` or `)`")) };
        }
        let axis = self.word("the name of an axis")?;
        let compares = self.comparison()?;
        let operand = match self.literal() {
            Some(literal) => Operand::Number(literal),
            None => Operand::Name(self.word("a number or a name")?),
        };
        Ok(Condition::Test(axis, compares, operand))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spoken(sum: &Sum) -> String {
        match sum {
            Sum::Number(literal) => literal.number.to_string(),
            Sum::Term(Term { name, of }) if of.is_empty() => name.text.clone(),
            Sum::Term(Term { name, of }) => {
                let of: Vec<_> = of.iter().map(|word| word.text.as_str()).collect();
                format!("{}({})", name.text, of.join(","))
            }
            Sum::Minus(sum) => format!("(-{})", spoken(sum)),
            Sum::Both(left, operator, right) => {
                let sign = match operator {
                    Operator::Plus => "+",
                    Operator::Minus => "-",
                    Operator::Times => "*",
                    Operator::Over => "/",
                };
                format!("({} {sign} {})", spoken(left), spoken(right))
            }
        }
    }

    #[test]
    fn a_claim_has_the_usual_precedence() {
        let claim =
            claim("ms-cp + 2 * (tcp - 1 s) / p95(braid) < -seconds(ms) at loss >= 3 % and size = 10 kB")
                .unwrap();
        assert_eq!(spoken(&claim.left), "(ms-cp + ((2 * (tcp - 1)) / p95(braid)))");
        assert_eq!(spoken(&claim.right), "(-seconds(ms))");
        assert_eq!(claim.compares, Compares::Less);
        let Some(Condition::All(tests)) = claim.at else { panic!() };
        let Condition::Test(axis, compares, Operand::Number(literal)) = &tests[1] else { panic!() };
        assert_eq!((axis.text.as_str(), *compares, literal.number), ("size", Compares::Equal, 10_000.0));
    }

    #[test]
    fn and_binds_before_or() {
        let Condition::Any(parts) = condition("a = 1 or b = 2 and c = x").unwrap() else { panic!() };
        assert!(matches!(&parts[1], Condition::All(all) if all.len() == 2), "{parts:?}");
    }

    #[test]
    fn an_error_names_what_was_expected_and_where() {
        for (text, what, at) in [
            ("", "expected a number, a name or `(`, found the end", 0),
            ("braid < 0.5 *", "expected a number, a name or `(`, found the end", 13),
            ("braid 0.5", "expected a comparison: <, <=, > or >=, found `0.5`", 6),
            ("braid < tcp when loss = 1", "expected `at`, an operator or the end, found `when`", 12),
            ("braid < (tcp", "expected an operator or `)`, found the end", 12),
            ("braid = tcp", "means are never equal", 6),
            ("a < b at loss >", "expected a number or a name, found the end", 15),
            ("a < b at at = 1", "expected the name of an axis, found `at`", 9),
            ("a < 'b", "a quoted name does not end", 4),
            ("a < b $ c", "`$` means nothing here", 6),
        ] {
            let error = claim(text).unwrap_err();
            assert!(error.what.contains(what), "{text}: {error}");
            assert_eq!(error.span.start, at, "{text}");
        }
        let deep = format!("{}a < b", "(".repeat(1_000));
        assert_eq!(claim(&deep).unwrap_err().what, "too many parentheses");
        assert_eq!(claim(&format!("{}a < b", "-".repeat(1_000))).unwrap_err().what, "too many parentheses");
    }

    fn sums() -> impl Strategy<Value = String> {
        let leaf = prop_oneof!["[a-z][a-z0-9_]{0,6}", "[1-9][0-9]{0,3}", "[b-z]{3,4}\\([b-z]{4,5}\\)"]
            .prop_filter("keywords", |text| !KEYWORDS.contains(&text.as_str()));
        leaf.prop_recursive(4, 30, 2, |inner| {
            (inner.clone(), "[-+*/]", inner)
                .prop_map(|(left, sign, right)| format!("({left} {sign} {right})"))
        })
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused_within_it(text in "[ -~µ]{0,40}") {
            for error in [claim(&text).err(), condition(&text).err()].into_iter().flatten() {
                prop_assert!(error.span.start <= error.span.end && error.span.end <= text.len());
                prop_assert!(text.is_char_boundary(error.span.start));
            }
        }

        #[test]
        fn a_fully_parenthesised_expression_is_parsed_back(left in sums(), right in sums()) {
            let parsed = claim(&format!("{left} < {right}")).unwrap();
            prop_assert_eq!(spoken(&parsed.left), left);
            prop_assert_eq!(spoken(&parsed.right), right);
        }
    }
}
