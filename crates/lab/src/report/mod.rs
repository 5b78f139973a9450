//! The report: one page of HTML with every figure as a picture that answers to the pointer and the keyboard, what the
//! papers claim, what came of it here, and where each number is from.
//!
//! The page is whole in itself: style, scripts and numbers are in it, and nothing is fetched. It is a function of what is
//! kept in the folder of results ([`Report::gather`]) and of nothing else: no clock, no host, so the same results give the same
//! bytes. Nothing is run for it; what is missing is said to be, with the command that makes it.

mod chart;
mod claim;
mod figure;
mod html;
mod kept;
mod page;
mod scene;

pub use kept::{Found, Judged, Kept, Outcome, PaperPart, Report, Results};
pub use page::page;
