//! Comparisons of several claims of P2: control blocks at the server, and preserved windows.

use crate::claim::Finding;
use crate::data::Data;
use crate::papers::judge::{Bound, Compared, Everywhere};
use crate::stats::short;
use crate::table::Cell;

/// The minimum ratio of a window to its mean for the window to count as preserved.
pub(super) const KEPT: f64 = 0.9;

/// A cell of the figure `counts`.
pub(super) fn count<'a>(data: &'a Data, path: &str, size: &str, loss: &str, variant: &str) -> Cell<'a> {
    data.table("multistream/counts").at(&format!("path={path} size={size} loss={loss} variant={variant}"))
}

/// Compares the number of control blocks of a variant at the server with that of TCP, at every place.
pub(super) fn blocks(data: &Data, what: &str, variant: &str, bound: Bound) -> Finding {
    let mut compared = Vec::new();
    for path in ["lan", "wan", "sat"] {
        for (size, spoken) in [("10000", "10 KB"), ("200000", "200 KB")] {
            for (loss, percent) in [("0", "0 %"), ("0.03", "3 %")] {
                let ratio = count(data, path, size, loss, variant)
                    .ratio(&count(data, path, size, loss, "tcp"), "blocks_mean");
                compared.push(Compared { place: format!("{path} {spoken} {percent}"), ratio });
            }
        }
    }
    let remark = format!(
        "Mean over the transfer, what is in TIME-WAIT included. {}",
        memory(data, &["tcp", "naive", "ms", "ms-cp", "braid"])
    );
    Everywhere { what, bound, remark: &remark }.judge(&compared)
}

/// The memory of a server's transports for a client, as text.
pub(super) fn memory(data: &Data, variants: &[&str]) -> String {
    let of = |variant: &&str, (path, size): (&str, &str)| {
        short(count(data, path, size, "0", variant).mean("memory_mean").mean)
    };
    let of_both = |variant: &&str| {
        format!("{variant} {} and {} kB", of(variant, ("lan", "10000")), of(variant, ("sat", "200000")))
    };
    format!(
        "Memory of the server's transports, control blocks and buffers, for 10 KB on the LAN and 200 KB by satellite: {}",
        variants.iter().map(of_both).collect::<Vec<_>>().join(", ")
    )
}
