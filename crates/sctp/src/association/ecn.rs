//! Explicit congestion notification (RFC 4960 Appendix A, RFC 3168): the receiver echoes a mark until the
//! sender reports a smaller window, and the sender reduces its window once per window.
//!
//! Only packets with new data are sent as ECN-capable, not retransmissions and window probes (RFC 3168
//! §6.1.5, §6.1.6): for those, a forged mark, or one that the network set before dropping the packet, would
//! hide the loss, the one congestion signal that cannot be suppressed. RFC 9260 omits ECN; the Appendix of
//! RFC 4960 is what other stacks implement.

use braidftp_base::Time;
use braidftp_cc as cc;

use crate::association::Association;
use crate::association::path::{Purpose, Recovery, choose};
use crate::association::state::State;
use crate::ids::{PathId, Tsn};

impl Association {
    /// A packet with a congestion mark arrived; `lowest` is its lowest TSN.
    pub(super) fn on_ce(&mut self, path: PathId, lowest: Tsn) {
        let State::Up(up) = &mut self.state else { return };
        let Some(ecn) = &mut up.ecn else { return };
        self.paths[usize::from(path.0)].counters.ce_received += 1;
        if ecn.echo.is_none() {
            // The sooner the sender is notified, the shorter the queue.
            up.received.sack_now();
        }
        if ecn.echo.is_none_or(|before| lowest.after(before)) {
            ecn.echo = Some(lowest);
        }
    }

    /// The peer reports a mark on the packet with this TSN.
    pub(super) fn on_ecne(&mut self, now: Time, tsn: Tsn) {
        let State::Up(up) = &mut self.state else { return };
        let next_tsn = up.sent.next_tsn();
        let Some(ecn) = up.ecn.as_mut().filter(|_| tsn.before(next_tsn)) else { return };
        ecn.cwr = Some(tsn);
        // Chunks that were cumulatively acknowledged are attributed to no path.
        let id = match up.sent.get(tsn) {
            Some(slot) => slot.path,
            None => choose(&self.paths, up.primary, Purpose::New),
        };
        let path = &mut self.paths[usize::from(id.0)];
        // RFC 3168 §6.1.2: at most one reduction per window of data, whether for a mark or a loss.
        let lost_since = match path.recovery {
            Recovery::Fast(exit) | Recovery::AfterTimeout(exit) => !tsn.after(exit),
            Recovery::No => false,
        };
        if lost_since || path.marked_up_to.is_some_and(|exit| !tsn.after(exit)) {
            return;
        }
        path.on_congestion(now, cc::Cause::Ecn, path.flight_bytes);
        path.spurious_loss.forget();
        path.marked_up_to = Some(next_tsn.minus(1));
        path.counters.ecn_reductions += 1;
    }

    /// The peer reports a reduced window in response to the mark on the packet with this TSN.
    pub(super) fn on_cwr(&mut self, tsn: Tsn) {
        let State::Up(up) = &mut self.state else { return };
        if let Some(ecn) = &mut up.ecn {
            ecn.echo.take_if(|echo| !echo.after(tsn));
        }
    }
}
