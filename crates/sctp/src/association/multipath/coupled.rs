//! What coupled congestion control knows of the paths of one association: which of them share a bottleneck, and the
//! views of a path's siblings.

use crate::config::MultipathConstants;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;
use braidftp_cc::coupled::Coupling;

use crate::association::multipath::bottleneck::Bottlenecks;
use crate::association::path::Path;
use crate::ids::PathId;
use crate::stats::PathState;

/// What the controllers of paths know of each other; updated by one event at a time.
#[derive(Debug, Default)]
pub(in crate::association) struct Coupled {
    pub(in crate::association) bottlenecks: Bottlenecks,
    /// Scratch: the siblings of a path.
    pub(in crate::association) siblings: Vec<cc::PathView>,
}

impl Coupled {
    /// Records an RTT sample of a path.
    pub(in crate::association) fn on_round_trip(
        &mut self,
        now: Time,
        id: PathId,
        round_trip: Duration,
        paths: &mut [Path],
        constants: &MultipathConstants,
    ) {
        if let Some(trial) = self.bottlenecks.on_round_trip(now, id, round_trip, paths, constants) {
            let controller = &mut paths[usize::from(trial.0)].controller;
            controller.limit_window(controller.window() / 2);
        }
    }

    /// Finds the other active paths with which the congestion control of this path is coupled.
    pub(in crate::association) fn find_siblings(&mut self, paths: &[Path], id: PathId, coupling: Coupling) {
        self.siblings.clear();
        let own = usize::from(id.0);
        let is_sibling = |index: usize| match coupling {
            Coupling::None => false,
            Coupling::Detected => self.bottlenecks.are_common(own, index),
            _ => index != own,
        };
        let others = paths.iter().enumerate().filter(|(index, path)| {
            is_sibling(*index) && path.state == PathState::Active && !path.t3_unanswered
        });
        let view = |(_, path): (usize, &Path)| cc::PathView {
            window: path.controller.window(),
            ssthresh: path.controller.ssthresh(),
            srtt: path.rtt.srtt(),
            between_losses: path.between_losses[0].max(path.between_losses[1]),
        };
        self.siblings.extend(others.map(view));
    }
}
