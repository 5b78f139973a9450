//! Figure 2(a) with fewer losses, in both directions or towards the client only (P1-C06, P2-C24).
//!
//! P1 and P2 print two numbers of the same experiment: TCP takes about 350 s more than SCTP, and four times as long. Both are true only if
//! TCP takes about 467 s and SCTP about 117 s. This figure shows whether some loss ratio gives both, where packets are lost in both
//! directions, and where only those towards the client are.
//!
//! Published: nothing. Ours, seconds of TCP and SCTP at 5, 6, 7, 8, 8.5, 9, 10 %: in both directions tcp 250 358 493 693 802 926 1292, sctp 84.9
//! 114 164 232 281 315 458; towards the client tcp 190 255 326 418 473 523 617, sctp 59.9 69.3 89.3 115 128 137 181. With losses in both
//! directions no ratio gives both numbers. Towards the client 8 to 9 % do: 8.5 % give 345 s and 3.7 times.

use crate::data::Data;
use crate::figure::Figure;
use crate::papers::judge::Bound;
use crate::scenario;
use crate::stats::{Estimate, short};

/// The figure: `fewer.toml` describes it.
pub(super) fn figure() -> Figure {
    scenario::built_in(ID, include_str!("fewer.toml"))
}

/// Its name.
pub(in crate::papers) const ID: &str = "fcs/fewer";
const LOSSES: [&str; 7] = ["0.05", "0.06", "0.07", "0.08", "0.085", "0.09", "0.1"];
/// "About 350 s more" and "four times", as P1-C06 and P2-C24 are decided.
pub(super) const MORE: Bound = Bound::Between(300.0, 400.0);
const TIMES: Bound = Bound::Between(3.5, 4.5);

/// At which losses the difference and the ratio are those that the papers print, in sentences.
pub(in crate::papers) fn told(data: &Data) -> String {
    let table = data.table(ID);
    let each = |direction: &str, spoken: &str| {
        let mut fits = Vec::new();
        let told: Vec<String> = LOSSES
            .iter()
            .map(|loss| {
                let of = |variant: &str| {
                    let point = format!("direction={direction} loss={loss} variant={variant}");
                    table.at(&point).mean("seconds").mean
                };
                let [tcp, sctp] = [of("tcp"), of("sctp")];
                let percent = short(100.0 * loss.parse::<f64>().unwrap_or(f64::NAN));
                if MORE.has(&exact(tcp - sctp)) && TIMES.has(&exact(tcp / sctp)) {
                    fits.push(percent.clone());
                }
                format!("{percent} %: {} s more, {} times", short(tcp - sctp), short(tcp / sctp))
            })
            .collect();
        let said = match fits.is_empty() {
            true => "no loss gives both".to_owned(),
            false => format!("{} % give both", fits.join(", ")),
        };
        (format!("With losses {spoken} {said} ({})", told.join("; ")), !fits.is_empty())
    };
    let (both, by_both) = each("both", "in both directions");
    let (one, by_one) = each("to-client", "of packets towards the client alone");
    let so = match (by_both, by_one) {
        (false, true) => {
            "So the direction of the losses decides: losses towards the client alone, as of a rule for one direction, which neither paper excludes, \
                          make both numbers true at once"
        }
        _ => "So the direction of the losses does not decide",
    };
    let at = |variant: &str| table.at(&format!("direction=to-client loss=0.1 variant={variant}"));
    let (tcp, sctp) = (at("tcp"), at("sctp"));
    format!(
        "{both}. {one} (fcs/fewer). {so}. At 10 % they give {} s more and {} times",
        tcp.minus(&sctp, "seconds"),
        tcp.ratio(&sctp, "seconds")
    )
}

fn exact(value: f64) -> Estimate {
    Estimate::exact(value, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::fcs::changes;

    #[test]
    fn both_directions_are_those_of_the_figure_and_one_is_that_of_the_change() {
        let (fewer, changes) = (figure(), changes::FIGURE);
        let (fewer, changes) = (fewer.sweep().expect("a sweep"), changes.sweep().expect("a sweep"));
        for (direction, change) in [("both", "none"), ("to-client", "to-client")] {
            let points = fewer.points();
            let its = points.iter().find(|point| {
                (point.name("direction"), point.name("variant")) == (direction, "sctp")
                    && point.number("loss") == 0.1
            });
            let row = (fewer.run)(its.expect("it is a point"), 3);
            let points = changes.points();
            let its =
                points.iter().find(|point| (point.name("change"), point.name("variant")) == (change, "sctp"));
            assert_eq!(row, (changes.run)(its.expect("it is a point"), 3), "{direction}");
        }
    }
}
