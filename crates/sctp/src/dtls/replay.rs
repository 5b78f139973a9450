//! Replay protection for the records of an epoch (draft-ietf-tls-rfc9147bis §4.5.1): a bit window behind
//! the highest record number.

/// The maximum span of a window in records. Records carry 16 bits of their number: a number that is 2^15
/// or more behind is found by a second attempt only.
const REPLAY_WINDOW_MAX: usize = 1 << 16;

/// The numbers of the opened records.
#[derive(Debug)]
pub(super) struct Replay {
    /// A ring of bits by record number; empty until the first record, since restart keys are rarely
    /// used.
    bits: Vec<u64>,
    /// The size of the ring in bits: a power of two.
    span: u64,
    /// One above the highest number.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
    //# The received record counter for an epoch MUST be initialized to
    //# zero when that epoch is first used.
    next: u64,
}

impl Replay {
    /// Creates an empty window of at least `span` records.
    pub(super) fn new(span: usize) -> Self {
        let span = span.clamp(64, REPLAY_WINDOW_MAX).next_power_of_two();
        Self { bits: Vec::new(), span: span as u64, next: 0 }
    }

    /// The next number if nothing is lost.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// The lowest number that can be new.
    pub(super) fn edge(&self) -> u64 {
        self.next.saturating_sub(self.span)
    }

    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
    //# Sequence number verification SHOULD be performed using the following sliding window
    //# procedure, borrowed from Section 3.4.3 of {{RFC4303}}.
    /// Whether no record with this number was opened; numbers before the window count as opened.
    pub(super) fn is_new(&self, number: u64) -> bool {
        number >= self.next || (number >= self.edge() && self.bits[self.word(number)] & bit(number) == 0)
    }

    /// Records a number.
    pub(super) fn mark(&mut self, number: u64) {
        if self.bits.is_empty() {
            self.bits = vec![0; (self.span / 64) as usize];
        }
        if number >= self.next {
            if number - self.next >= self.span {
                self.bits.fill(0);
            } else {
                for passed in self.next..=number {
                    let word = self.word(passed);
                    self.bits[word] &= !bit(passed);
                }
            }
            self.next = number + 1;
        }
        let word = self.word(number);
        self.bits[word] |= bit(number);
    }

    /// Heap memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        size_of_val(&self.bits[..])
    }

    fn word(&self, number: u64) -> usize {
        ((number & (self.span - 1)) / 64) as usize
    }
}

const fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn records_before_the_window_are_not_new() {
        let mut replay = Replay::new(64);
        replay.mark(100);
        assert_eq!((replay.edge(), replay.next()), (37, 101));
        assert!(replay.is_new(37) && !replay.is_new(36));
        replay.mark(37);
        assert!(!replay.is_new(37));
    }

    #[test]
    fn nothing_is_allocated_before_the_first_record() {
        let mut replay = Replay::new(1_000);
        assert!(replay.is_new(0));
        assert_eq!(replay.memory_bytes(), 0);
        replay.mark(0);
        assert_eq!(replay.memory_bytes(), 128, "1,000 records are 1,024 bits");
    }

    proptest! {
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
        //= type=test
        //# Sequence number verification SHOULD be performed using the following sliding window
        //# procedure, borrowed from Section 3.4.3 of {{RFC4303}}.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
        //= type=test
        //# For each received record, the
        //# receiver MUST verify that the record contains a sequence number that
        //# does not duplicate the sequence number of any other record received
        //# in that epoch during the lifetime of the association.
        #[test]
        fn every_record_number_in_the_window_is_accepted_exactly_once(
            steps in vec((0..400_u64, 0..400_u64), 1..200), span in 64..300_usize
        ) {
            let (mut replay, mut came) = (Replay::new(span), BTreeSet::new());
            for (ahead, behind) in steps {
                let number = (replay.next() + ahead).saturating_sub(behind);
                let expected = number >= replay.edge() && !came.contains(&number);
                prop_assert_eq!(replay.is_new(number), expected, "{}", number);
                if expected {
                    replay.mark(number);
                    came.insert(number);
                }
            }
        }
    }
}
