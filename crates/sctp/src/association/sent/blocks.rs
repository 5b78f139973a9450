//! The gap blocks of a SACK as runs of TSNs (RFC 9260 §3.3.4).

use crate::ids::Tsn;

/// Whether each gap block begins after the cumulative TSN and ends no earlier than it begins.
pub(in crate::association) fn are_valid_blocks(gaps: &[(u16, u16)]) -> bool {
    gaps.iter().all(|&(first, last)| first != 0 && first <= last)
}

/// Returns the gap blocks of a SACK as runs of TSNs, ascending and never adjacent, whatever their order
/// was.
pub(super) fn read_blocks(cum_tsn_ack: Tsn, gaps: &[(u16, u16)], runs: &mut Vec<(Tsn, Tsn)>) {
    runs.clear();
    let tsn = |offset: u16| cum_tsn_ack.plus(u32::from(offset));
    let mut previous = 0;
    let ascending = gaps.iter().all(|&(first, last)| {
        let fits = first > previous;
        previous = last;
        fits
    });
    let mut add = |(first, last): (u16, u16)| match runs.last_mut() {
        Some(run) if !tsn(first).after(run.1.next()) => {
            if tsn(last).after(run.1) {
                run.1 = tsn(last);
            }
        }
        _ => runs.push((tsn(first), tsn(last))),
    };
    if ascending {
        gaps.iter().copied().for_each(&mut add);
    } else {
        let mut sorted = gaps.to_vec();
        sorted.sort_unstable();
        sorted.into_iter().for_each(&mut add);
    }
}
