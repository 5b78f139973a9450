//! Decides claims: compares cells against bounds. Bounds follow the claim's wording. If a claim states a
//! number, ours must round to it; otherwise the 90 % interval must lie on the claimed side.

use crate::claim::{Finding, Holds, Measured, Verdict};
use crate::data::Data;
use crate::stats::Estimate;
use crate::table::{Cell, Table};

/// The papers' loss ratios except 0.
pub const LOSSES: [&str; 4] = ["0.01", "0.03", "0.06", "0.1"];
/// All loss ratios of the papers.
pub const ALL_LOSSES: [&str; 5] = ["0", "0.01", "0.03", "0.06", "0.1"];

/// Evidence that an INIT causes no state, and that a forged cookie is discarded.
pub const COOKIE: &str = "crates/sctp/src/endpoint/tests/handshake.rs: an_init_is_answered_with_a_cookie_without_state, \
     a_forged_cookie_is_silently_discarded_with_its_packet; a million forged INITs: cargo run --release -p braidftp-net --example \
     flood";

/// A comparison of two variants at a place.
#[derive(Debug, Clone)]
pub struct Compared {
    /// The place, as text.
    pub place: String,
    /// The ratio of the two.
    pub ratio: Estimate,
}

/// The ratio of the times of two variants, at all places where both were run.
pub fn ratios(table: &Table, name: &str, cells: &[String], of: &str, to: &str) -> Vec<Compared> {
    let compare = |place: &String| {
        let (of, to) = (cell(table, place, of)?, cell(table, place, to)?);
        Some(Compared { place: spoken(name, place), ratio: of.ratio(&to, "seconds") })
    };
    cells.iter().filter_map(compare).collect()
}

/// The cell of a variant at a place, if it was run.
pub fn cell<'a>(table: &'a Table, place: &str, variant: &str) -> Option<Cell<'a>> {
    let selector = format!("{place} variant={variant}");
    table.all(&selector).into_iter().next()
}

/// All combinations of sizes and losses.
pub fn places(sizes: &[&str], losses: &[&str]) -> Vec<String> {
    sizes.iter().flat_map(|size| losses.iter().map(move |loss| format!("size={size} loss={loss}"))).collect()
}

/// All losses.
pub fn losses(losses: &[&str]) -> Vec<String> {
    losses.iter().map(|loss| format!("loss={loss}")).collect()
}

/// A place as text.
fn spoken(name: &str, place: &str) -> String {
    let mut words = vec![name.to_owned()];
    for part in place.split(' ') {
        words.push(match part.split_once('=') {
            Some(("size", bytes)) => match bytes.parse::<f64>() {
                Ok(bytes) if bytes >= 1e6 => format!("{} MB", bytes / 1e6),
                Ok(bytes) => format!("{} KB", bytes / 1e3),
                Err(_) => bytes.to_owned(),
            },
            Some(("loss", part)) => {
                format!("{} %", part.parse::<f64>().map_or(0.0, |part| (part * 1e4).round() / 1e2))
            }
            // Already part of the name.
            Some(("path" | "burst", _)) => String::new(),
            Some((_, value)) => value.to_owned(),
            None => part.to_owned(),
        });
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// Decides whether a bound holds at every place; the number shown is that of the worst place.
#[derive(Debug)]
pub struct Everywhere<'a> {
    /// What is compared, as in `naive : TCP`.
    pub what: &'a str,
    /// The bound.
    pub bound: Bound,
    /// A remark for the explanation.
    pub remark: &'a str,
}

/// A bound for a ratio.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// The whole interval is below.
    Below(f64),
    /// The whole interval is above.
    Above(f64),
    /// The ratio is within: it rounds to the claimed number.
    Between(f64, f64),
    /// The interval is not entirely above.
    NotAbove(f64),
    /// The ratio is not above.
    AtMost(f64),
    /// The interval is not entirely below.
    AtLeast(f64),
    /// The ratio is not below: a target for the mean of a few runs.
    Reaches(f64),
}

impl Bound {
    /// Whether a ratio satisfies the bound.
    pub fn has(&self, ratio: &Estimate) -> bool {
        match *self {
            Self::Below(bound) => ratio.is_below(bound),
            Self::Above(bound) => ratio.is_above(bound),
            Self::Between(low, high) => (low..=high).contains(&ratio.mean),
            Self::NotAbove(bound) => !ratio.is_above(bound),
            Self::AtMost(bound) => ratio.mean <= bound,
            Self::AtLeast(bound) => ratio.low >= bound,
            Self::Reaches(bound) => ratio.mean >= bound,
        }
    }

    /// The distance of a ratio from the bound; a larger one is worse.
    fn distance(&self, ratio: &Estimate) -> f64 {
        match *self {
            Self::Below(_) | Self::NotAbove(_) => ratio.high,
            Self::Above(_) | Self::AtLeast(_) => -ratio.low,
            Self::Reaches(_) => -ratio.mean,
            Self::AtMost(_) => ratio.mean,
            Self::Between(low, high) => {
                let middle = (low * high).abs().sqrt().max(f64::MIN_POSITIVE);
                (ratio.mean / middle).abs().ln().abs()
            }
        }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Below(bound) => write!(f, "below {bound}"),
            Self::Above(bound) => write!(f, "above {bound}"),
            Self::Between(low, high) => write!(f, "from {low} to {high}"),
            Self::NotAbove(bound) | Self::AtMost(bound) => write!(f, "not above {bound}"),
            Self::AtLeast(bound) | Self::Reaches(bound) => write!(f, "at least {bound}"),
        }
    }
}

impl Everywhere<'_> {
    /// Decides over these places.
    ///
    /// # Panics
    /// If there are none.
    pub fn judge(&self, compared: &[Compared]) -> Finding {
        let holds = |compared: &&Compared| self.bound.has(&compared.ratio);
        let worst = compared
            .iter()
            .max_by(|a, b| self.bound.distance(&a.ratio).total_cmp(&self.bound.distance(&b.ratio)))
            .unwrap_or_else(|| panic!("{}: nothing to compare", self.what));
        let count = compared.iter().filter(holds).count();
        let failing: Vec<String> = compared
            .iter()
            .filter(|compared| !holds(compared))
            .map(|compared| format!("{} {}", compared.place, compared.ratio))
            .collect();
        let low = compared.iter().map(|compared| compared.ratio.mean).fold(f64::INFINITY, f64::min);
        let high = compared.iter().map(|compared| compared.ratio.mean).fold(f64::NEG_INFINITY, f64::max);
        let mut why = format!(
            "{} is {} in {count} of {} cells ({} to {})",
            self.what,
            self.bound,
            compared.len(),
            crate::stats::short(low),
            crate::stats::short(high)
        );
        if !failing.is_empty() {
            let shown = failing.len().min(6);
            why.push_str(&format!("; not: {}", failing[..shown].join(", ")));
            if shown < failing.len() {
                why.push_str(&format!(" and {} more", failing.len() - shown));
            }
        }
        if !self.remark.is_empty() {
            why.push_str(". ");
            why.push_str(self.remark);
        }
        let what = format!("{}, {}", self.what, worst.place);
        let measured = Measured { what, unit: "x", value: worst.ratio };
        Finding::decided(Holds::from(count == compared.len()), measured, why)
    }
}

/// The durations of variants at a place, and the timers that delay them.
///
/// # Panics
/// If the figure does not have the place.
pub fn waits(table: &Table, place: &str, variants: &[&str]) -> String {
    let one = |variant: &&str| {
        let cell = cell(table, place, variant).expect("the figure has this cell");
        let mean = |column| crate::stats::short(cell.mean(column).mean);
        format!(
            "{variant} {} s with {} packets of set-up and closing sent again and {} time-outs of data",
            mean("seconds"),
            mean("setup_resent"),
            mean("timeouts")
        )
    };
    variants.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A finding decided by one number and a bound.
pub fn number(
    bound: Bound,
    what: impl Into<String>,
    unit: &'static str,
    value: Estimate,
    why: impl Into<String>,
) -> Finding {
    let holds = bound.has(&value);
    Finding::decided(Holds::from(holds), Measured { what: what.into(), unit, value }, why)
}

/// The same finding with another verdict.
pub fn but(verdict: Verdict, finding: Finding) -> Finding {
    Finding { verdict, ..finding }
}

/// Holds if both hold; the number is that of the first that does not.
pub fn and(first: Finding, second: Finding) -> Finding {
    let why = format!("{}; {}", first.why.trim_end_matches('.'), second.why);
    let decides = if first.verdict == Verdict::Holds { second } else { first };
    Finding { why, ..decides }
}

/// A table by the short name of its figure.
pub fn table<'a>(data: &'a Data, figure: &str) -> &'a Table {
    data.table(figure)
}

/// Means as text: `4.1, 5.2`.
pub fn series(values: &[Estimate]) -> String {
    values.iter().map(|value| crate::stats::short(value.mean)).collect::<Vec<_>>().join(", ")
}

/// Whether means grow, within their intervals: none is certainly below its predecessor, and the last is
/// certainly above the first.
pub fn grows(values: &[Estimate]) -> bool {
    let never_falls = values.windows(2).all(|pair| pair[1].high >= pair[0].low);
    let ends_higher = values.first().zip(values.last()).is_some_and(|(first, last)| last.low > first.high);
    never_falls && ends_higher
}
