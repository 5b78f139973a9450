//! How claims are judged: which cells are compared, and by which bound. Bounds are the claims' own words; where a claim
//! gives a number, ours must round to it, and where it gives none an interval of 90 % must lie on the right side.

use crate::figure::{Finding, Holds, Measured, Verdict};
use crate::stats::Estimate;
use crate::table::{Cell, Data, Table};

/// The papers' losses above none.
pub const LOSSES: [&str; 4] = ["0.01", "0.03", "0.06", "0.1"];
/// All of the papers' losses.
pub const ALL_LOSSES: [&str; 5] = ["0", "0.01", "0.03", "0.06", "0.1"];

/// What shows that an INIT costs who is asked nothing, and that a forged cookie gets nowhere.
pub const COOKIE: &str = "crates/sctp/src/endpoint/tests/handshake.rs: an_init_is_answered_with_a_cookie_and_forgotten, \
     a_forged_cookie_is_silently_discarded_with_all_behind_it; a million forged INITs: cargo run --release -p braidftp-net --example \
     flood";

/// A place where two things are compared, and what came of it.
#[derive(Debug, Clone)]
pub struct Compared {
    /// Where, as a person says it.
    pub place: String,
    /// How many times as large the one is as the other.
    pub ratio: Estimate,
}

/// How many times as long the one takes as the other, wherever both were run.
pub fn ratios(table: &Table, name: &str, cells: &[String], of: &str, to: &str) -> Vec<Compared> {
    let compare = |place: &String| {
        let (of, to) = (cell(table, place, of)?, cell(table, place, to)?);
        Some(Compared { place: spoken(name, place), ratio: of.ratio(&to, "seconds") })
    };
    cells.iter().filter_map(compare).collect()
}

/// The cell at a place of a variant, if it was run.
pub fn cell<'a>(table: &'a Table, place: &str, variant: &str) -> Option<Cell<'a>> {
    let selector = format!("{place} variant={variant}");
    table.all(&selector).into_iter().next()
}

/// Every place of sizes and losses.
pub fn places(sizes: &[&str], losses: &[&str]) -> Vec<String> {
    sizes.iter().flat_map(|size| losses.iter().map(move |loss| format!("size={size} loss={loss}"))).collect()
}

/// Every place of losses.
pub fn losses(losses: &[&str]) -> Vec<String> {
    losses.iter().map(|loss| format!("loss={loss}")).collect()
}

/// A place as a person says it.
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
            // What the name says already.
            Some(("path" | "burst", _)) => String::new(),
            Some((_, value)) => value.to_owned(),
            None => part.to_owned(),
        });
    }
    words.retain(|word| !word.is_empty());
    words.join(" ")
}

/// Whether something is so at every place; the number shown is that of the place where it is least so.
#[derive(Debug)]
pub struct Everywhere<'a> {
    /// What is compared, as in `naive : TCP`.
    pub what: &'a str,
    /// What it is compared with: it is to be below, above or between.
    pub bound: Bound,
    /// What else is to be said.
    pub remark: &'a str,
}

/// What a ratio is to be.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// Its whole interval is below.
    Below(f64),
    /// Its whole interval is above.
    Above(f64),
    /// The ratio itself is between: it rounds to what is claimed.
    Between(f64, f64),
    /// It is not known to be above.
    NotAbove(f64),
    /// The ratio itself is no more.
    AtMost(f64),
    /// It is no less.
    AtLeast(f64),
    /// The ratio itself is no less: what is to be reached in the mean of a few runs.
    Reaches(f64),
}

impl Bound {
    /// Whether a ratio is within.
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

    /// How far a ratio is from what it is to be: more is worse.
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
    /// What these places say.
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

/// What variants do at a place: how long they take, and which timers make them wait.
///
/// # Panics
/// If the figure does not have it.
pub fn waits(table: &Table, place: &str, variants: &[&str]) -> String {
    let one = |variant: &&str| {
        let cell = cell(table, place, variant).expect("the figure has it");
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

/// A number that decides by a bound.
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

/// The same finding, with another verdict.
pub fn but(verdict: Verdict, finding: Finding) -> Finding {
    Finding { verdict, ..finding }
}

/// Both hold, or it does not hold; the number is that of the first that does not.
pub fn and(first: Finding, second: Finding) -> Finding {
    let why = format!("{}; {}", first.why.trim_end_matches('.'), second.why);
    let decides = if first.verdict == Verdict::Holds { second } else { first };
    Finding { why, ..decides }
}

/// A table, by a short name.
pub fn table<'a>(data: &'a Data, figure: &str) -> &'a Table {
    data.table(figure)
}

/// Means at places, as a row of text: `4.1, 5.2`.
pub fn series(values: &[Estimate]) -> String {
    values.iter().map(|value| crate::stats::short(value.mean)).collect::<Vec<_>>().join(", ")
}

/// Whether means grow from each to the next, as far as their intervals tell: none falls for certain, and the last is above
/// the first for certain.
pub fn grows(values: &[Estimate]) -> bool {
    let never_falls = values.windows(2).all(|pair| pair[1].high >= pair[0].low);
    let ends_higher = values.first().zip(values.last()).is_some_and(|(first, last)| last.low > first.high);
    never_falls && ends_higher
}
