//! Proportional rate reduction (RFC 9937, before RFC 6937): how much is sent during a recovery, by the
//! bytes that arrive.
//!
//! After a loss halves the window, nothing could be sent until half of the flight has arrived, and then all
//! lost data at once. Instead, the data sent keeps the ratio of the new window to the old one to the data
//! delivered. Once the flight is below the new window, no more is sent than was delivered, or one packet
//! more as long as no further loss occurs (§6.2).

/// The state of proportional rate reduction during a recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reduction {
    /// RecoverFS: bytes in flight before the loss was detected.
    recover_fs: u64,
    /// prr_delivered and prr_out, in bytes.
    delivered: u64,
    out: u64,
    /// The maximum number of bytes in flight until the next SACK.
    window: usize,
}

/// The effect of a SACK during recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Bytes newly acknowledged, and bytes in flight now.
    pub(super) delivered: usize,
    pub(super) flight_bytes: usize,
    /// The window after the reduction: ssthresh.
    pub(super) target: usize,
    /// The packet size in bytes.
    pub(super) mtu: usize,
    /// SafeACK: the cumulative point advanced, and nothing further was lost.
    pub(super) is_safe: bool,
}

impl Reduction {
    /// A recovery begins with this many bytes in flight before the loss was detected, and this many now.
    pub(super) fn new(flight_before: usize, flight_bytes: usize) -> Self {
        Self { recover_fs: flight_before as u64, delivered: 0, out: 0, window: flight_bytes }
    }

    /// The maximum number of bytes in flight. One packet is always permitted, since nothing else would
    /// continue the recovery.
    pub(super) fn window(&self) -> usize {
        self.window.max(1)
    }

    /// This many bytes were sent.
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.out += bytes as u64;
    }

    /// A SACK acknowledged data or reported losses (RFC 9937 §6.2).
    pub(super) fn on_progress(&mut self, progress: Progress) {
        let Progress { delivered, flight_bytes, target, mtu, is_safe } = progress;
        self.delivered += delivered as u64;
        let room = if flight_bytes > target {
            let due = u128::from(self.delivered) * target as u128;
            let due = due.div_ceil(u128::from(self.recover_fs.max(1)));
            u64::try_from(due).unwrap_or(u64::MAX).saturating_sub(self.out)
        } else {
            let limit = self.delivered.saturating_sub(self.out).max(delivered as u64);
            let limit = limit + if is_safe { mtu as u64 } else { 0 };
            limit.min((target - flight_bytes) as u64)
        };
        self.window = flight_bytes + room as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: usize = 1_000;

    /// A window of 20 packets, all in flight, of which the first `lost` are lost; the window is halved.
    /// Each packet triggers a SACK, and everything permitted is sent. Returns the number of packets sent
    /// for each SACK.
    fn play(lost: usize) -> Vec<usize> {
        let (before, target) = (20 * MTU, 10 * MTU);
        let mut flight = before - lost * MTU;
        let mut reduction = Reduction::new(before, flight);
        let mut left = Vec::new();
        for nth in 0..20 - lost {
            flight -= MTU;
            let is_safe = nth > 3;
            reduction.on_progress(Progress {
                delivered: MTU,
                flight_bytes: flight,
                target,
                mtu: MTU,
                is_safe,
            });
            let mut packets = 0;
            while flight < reduction.window() {
                reduction.on_sent(MTU);
                flight += MTU;
                packets += 1;
            }
            left.push(packets);
        }
        left
    }

    #[test]
    fn after_one_loss_a_packet_is_sent_for_every_two_that_arrive() {
        let left = play(1);
        // The first arrival permits one packet; of the 19 arrivals, 10 do, plus one in place of the lost
        // packet.
        assert!(left.iter().all(|packets| *packets <= 1), "{left:?}");
        assert!((10..=11).contains(&left.iter().sum::<usize>()), "{left:?}");
        assert!(left.windows(2).take(14).all(|pair| pair.iter().sum::<usize>() == 1), "{left:?}");
    }

    #[test]
    fn after_many_losses_as_much_is_sent_as_arrives_and_then_one_packet_more() {
        let left = play(14);
        assert_eq!(left, [1, 1, 1, 1, 2, 2], "6 arrive; the fifth is safe, and there is room for 10");
    }

    #[test]
    fn it_never_ends_above_its_target_nor_overflows() {
        for lost in 0..20 {
            assert!(play(lost).iter().sum::<usize>() <= 11);
        }
        let mut reduction = Reduction::new(5 * MTU, 0);
        let nothing = Progress { delivered: 0, flight_bytes: 0, target: MTU, mtu: MTU, is_safe: false };
        reduction.on_progress(nothing);
        assert!(reduction.window() > 0, "a packet leaves where nothing is in flight");
        let mut reduction = Reduction::new(0, usize::MAX);
        let huge = usize::MAX / 4;
        reduction.on_progress(Progress {
            delivered: huge,
            flight_bytes: huge,
            target: 1,
            mtu: MTU,
            is_safe: true,
        });
        assert!(reduction.window() >= huge);
    }
}
