//! The report: one HTML page with every figure as an interactive picture, the claims of the papers with
//! their verdicts, and the provenance of each number.
//!
//! The page is self-contained: styles, scripts and data are embedded, and nothing is fetched. It depends
//! only on the stored results ([`Report::gather`]), not on clock or host, so the same results give the same
//! bytes. The report runs nothing; for missing results it names the command that makes them.

mod chart;
mod claim;
mod figure;
mod html;
mod kept;
mod page;
mod scene;
mod view;

pub use kept::{Found, Judged, Kept, Outcome, PaperPart, Report, Results};
pub use page::{commands, page};
pub use view::{BYTES_MAX as VIEW_BYTES_MAX, viewer};
