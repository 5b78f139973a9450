//! Proportional rate reduction (RFC 9937, before RFC 6937): how much is sent during a recovery, by the
//! bytes that arrive.
//!
//! After a loss halves the window, nothing could be sent until half of the flight has arrived, and then all
//! lost data at once. Instead, the data sent keeps the ratio of the new window to the old one to the data
//! delivered. Once the flight is below the new window, no more is sent than was delivered, or one packet
//! more as long as no further loss occurs (§6.2).

/// What a recovery lets out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reduction {
    /// RecoverFS: bytes in flight before the loss showed.
    recover_fs: u64,
    /// prr_delivered and prr_out, in bytes.
    delivered: u64,
    out: u64,
    /// Up to how many bytes may be in flight until something else arrives.
    window: usize,
}

/// What a SACK says to a recovery.
#[derive(Debug, Clone, Copy)]
pub(super) struct Progress {
    /// Bytes newly acknowledged, and those in flight now.
    pub(super) delivered: usize,
    pub(super) flight_bytes: usize,
    /// The window that the loss has left: ssthresh.
    pub(super) target: usize,
    /// Bytes of a packet.
    pub(super) mtu: usize,
    /// SafeACK: the cumulative point advanced, and nothing further was lost.
    pub(super) is_safe: bool,
}

impl Reduction {
    /// A recovery begins: so many bytes were in flight before the loss showed, and so many are now.
    pub(super) fn new(flight_before: usize, flight_bytes: usize) -> Self {
        Self { recover_fs: flight_before as u64, delivered: 0, out: 0, window: flight_bytes }
    }

    /// Up to how many bytes may be in flight. One packet always may: nothing else would keep the recovery going.
    pub(super) fn window(&self) -> usize {
        self.window.max(1)
    }

    /// So many bytes left.
    pub(super) fn on_sent(&mut self, bytes: usize) {
        self.out += bytes as u64;
    }

    /// Something arrived, or was lost (RFC 9937 §6.2).
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

    /// A window of 20 packets, all in flight, of which the first so many are lost, to be halved. One SACK a packet; what is
    /// allowed leaves. How many packets leave for each.
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
    fn after_one_loss_a_packet_leaves_for_every_two_that_arrive() {
        let left = play(1);
        // The first leaves for the first that arrives, and of 19 that do, 10 and what the lost one makes room for.
        assert!(left.iter().all(|packets| *packets <= 1), "{left:?}");
        assert!((10..=11).contains(&left.iter().sum::<usize>()), "{left:?}");
        assert!(left.windows(2).take(14).all(|pair| pair.iter().sum::<usize>() == 1), "{left:?}");
    }

    #[test]
    fn after_many_losses_no_more_leaves_than_arrives_and_then_a_packet_more() {
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
