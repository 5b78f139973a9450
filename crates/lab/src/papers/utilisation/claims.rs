//! The target of utilisation, and whether it is reached: 95 % of the capacity of a path, with the default
//! controller.

use super::PATHS;
use crate::claim::{Claim, Finding};
use crate::data::Data;
use crate::papers::bottleneck::default_controller;
use crate::papers::judge::{Bound, Compared, Everywhere};

/// All claims, in order.
pub(super) const CLAIMS: &[Claim] = &[
    claim::<0>(
        "U-C01",
        "3 Mbit/s, 1 ms: the default brings 95 % of C(1-p) at every loss, slow start included",
        &["utilisation/lan"],
    ),
    claim::<1>("U-C02", "1 Mbit/s, 35 ms: the same", &["utilisation/wan"]),
    claim::<2>("U-C03", "256 kbit/s, 125 ms: the same", &["utilisation/sat"]),
    claim::<3>("U-C04", "50 Mbit/s, 300 ms: the same", &["utilisation/geo"]),
    claim::<4>("U-C05", "200 Mbit/s, 25 ms: the same", &["utilisation/leo"]),
    claim::<5>("U-C06", "1 Gbit/s, 50 ms: the same", &["utilisation/fat"]),
    later::<0>("U-C07", "3 Mbit/s, 1 ms: the same in the last 50 of 60 s", &["utilisation/lan"]),
    later::<1>("U-C08", "1 Mbit/s, 35 ms: the same in the last 50 s", &["utilisation/wan"]),
    later::<2>("U-C09", "256 kbit/s, 125 ms: the same in the last 50 s", &["utilisation/sat"]),
    later::<3>("U-C10", "50 Mbit/s, 300 ms: the same in the last 50 s", &["utilisation/geo"]),
    later::<4>("U-C11", "200 Mbit/s, 25 ms: the same in the last 50 s", &["utilisation/leo"]),
    later::<5>("U-C12", "1 Gbit/s, 50 ms: the same in the last 50 s", &["utilisation/fat"]),
];

const fn claim<const N: usize>(
    id: &'static str,
    says: &'static str,
    needs: &'static [&'static str],
) -> Claim {
    Claim { id, says, needs, check: |data| judge(data, N, "utilisation") }
}

const fn later<const N: usize>(
    id: &'static str,
    says: &'static str,
    needs: &'static [&'static str],
) -> Claim {
    Claim { id, says, needs, check: |data| judge(data, N, "later") }
}

/// Decides whether the default reaches 95 % in every cell of a path.
fn judge(data: &Data, path: usize, column: &'static str) -> Finding {
    let path = &PATHS[path];
    let selector = format!("controller={}", default_controller());
    let cells = data.table(path.id).all(&selector);
    let compared: Vec<Compared> = cells
        .iter()
        .map(|cell| Compared {
            place: format!("{} {} %", path.name, (cell.point().number("loss") * 1e4).round() / 1e2),
            ratio: cell.mean(column),
        })
        .collect();
    let what = format!("{}, of C(1-p)", default_controller());
    Everywhere { what: &what, bound: Bound::AtLeast(0.95), remark: "" }.judge(&compared)
}
