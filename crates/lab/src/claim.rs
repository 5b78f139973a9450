//! Papers and their claims: a [`Claim`] states a finding of a paper, and how the runs of figures decide it.

use std::fmt;

use crate::data::Data;
use crate::figure::Figure;
use crate::stats::Estimate;

/// A paper: its figures, additional figures, and its claims.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    /// The first component of its figures' ids.
    pub name: &'static str,
    /// The first component of its claims' ids, as in `P2`.
    pub key: &'static str,
    /// The citation.
    pub citation: &'static str,
    /// Its figures, in order, followed by additional ones.
    pub figures: fn() -> &'static [Figure],
    /// Its claims, in order.
    pub claims: &'static [&'static [Claim]],
    /// What its text prints as a number, by claim: the id, and the value as printed.
    pub printed: &'static [(&'static str, &'static str)],
    /// What may make our numbers differ from the paper's although both are right, or agree by chance.
    pub threats: &'static [&'static str],
}

impl Paper {
    /// Returns all claims, in order.
    pub fn claims(&self) -> impl Iterator<Item = &'static Claim> + use<> {
        self.claims.iter().flat_map(|claims| claims.iter())
    }
}

/// A claim of a paper.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// As in `P2-C38`.
    pub id: &'static str,
    /// The paper's statement, shortened.
    pub says: &'static str,
    /// The figures whose runs decide it.
    pub needs: &'static [&'static str],
    /// Decides the claim.
    pub check: fn(&Data) -> Finding,
}

/// The result of checking a claim.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// The number that decides, if there is one.
    pub figure: Option<Measured>,
    /// The explanation: all relevant numbers, and the reason for a difference from the paper.
    pub why: String,
}

/// A number that decides a claim.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What it is, as in `TCP : naive, 1 MB, 10 %`.
    pub what: String,
    /// Its unit: `s`, `x` for a ratio, or empty.
    pub unit: &'static str,
    /// The number with its interval.
    pub value: Estimate,
}

/// The verdict on a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Confirmed here.
    Holds,
    /// Not confirmed here.
    DoesNotHold,
    /// Incompatible with another claim of the same paper.
    Contradicts(&'static str),
    /// Not a measurement; the explanation names the evidence.
    NotAMeasurement,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.pad("holds"),
            Self::DoesNotHold => f.pad("does not hold"),
            Self::Contradicts(other) => f.pad(&format!("contradicts {other}")),
            Self::NotAMeasurement => f.pad("not a measurement"),
        }
    }
}

impl Finding {
    /// A finding that a number decides.
    pub fn decided(holds: Holds, figure: Measured, why: impl Into<String>) -> Self {
        let verdict = match holds {
            Holds::Yes => Verdict::Holds,
            Holds::No => Verdict::DoesNotHold,
        };
        Self { verdict, figure: Some(figure), why: why.into() }
    }

    /// A finding that is not a measurement; a test or code is the evidence.
    pub fn shown_by(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotAMeasurement, figure: None, why: why.into() }
    }
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It holds.
    Yes,
    /// It does not hold.
    No,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}
