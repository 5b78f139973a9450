//! The receiving half: reassembly, the advertised window, and when to acknowledge (RFC 9293 §3.8.6, RFC 5681
//! §4.2, RFC 2018 §4).
//!
//! Sequence numbers are kept as offsets in the stream: 0 is the first byte after the SYN, so offsets do not
//! wrap.

use std::collections::VecDeque;
use std::ops::Range;

use braidftp_base::Time;
use bytes::Bytes;

use super::rto::{after, round_up};
use crate::config::{AckClock, Config};
use crate::segment::SACK_BLOCKS_MAX;

/// The effect of a segment's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// All or part of the data was in order.
    InOrder,
    /// The data was out of order and is kept.
    Early,
    /// The data was a duplicate, or there was no room for it.
    Useless,
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// RCV.NXT.
    next: u64,
    /// The right edge of the advertised window; it never moves back.
    edge: u64,
    /// Data received in order and not yet read.
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    /// Out-of-order data, sorted and without overlap.
    early: VecDeque<(u64, Bytes)>,
    /// The same data as maximal ranges.
    ranges: Vec<Range<u64>>,
    /// Offsets of the latest arrivals, the latest first: the ranges that hold them are reported in the next
    /// SACK.
    latest: [u64; SACK_BLOCKS_MAX],
    /// The offset of the peer's FIN once it was received, in order or not.
    fin: Option<u64>,
    fin_reached: bool,
    /// Whether an acknowledgement is sent without delay.
    ack_now: bool,
    /// In-order segments since the last acknowledgement.
    unacked_segments: u32,
    delayed_until: Option<Time>,
    quick_acks: u16,
    /// The largest window that the header can express.
    window_max: u64,
    mss: u64,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            next: 0,
            edge: 0,
            ready: VecDeque::new(),
            ready_bytes: 0,
            early: VecDeque::new(),
            ranges: Vec::new(),
            latest: [u64::MAX; SACK_BLOCKS_MAX],
            fin: None,
            fin_reached: false,
            ack_now: false,
            unacked_segments: 0,
            delayed_until: None,
            quick_acks: config.quick_acks,
            window_max: 65_535,
            mss: u64::from(config.mss),
        }
    }

    /// Takes the negotiated window shift and segment size.
    pub(crate) fn agree(&mut self, shift: u8, mss: usize) {
        self.window_max = 65_535 << shift;
        self.mss = mss as u64;
    }

    /// RCV.NXT, including the FIN.
    pub(crate) fn next(&self) -> u64 {
        self.next + u64::from(self.fin_reached)
    }

    /// The offset of the peer's FIN, if it was received, in order or not.
    pub(crate) fn fin(&self) -> Option<u64> {
        self.fin
    }

    /// Whether the peer's FIN and all data before it were received.
    pub(crate) fn fin_reached(&self) -> bool {
        self.fin_reached
    }

    /// The end of the data that is accepted: the advertised right edge plus [`Config::beyond_window_bytes`].
    pub(crate) fn edge(&self, config: &Config) -> u64 {
        self.edge + config.beyond_window_bytes as u64
    }

    fn room(&self, config: &Config) -> u64 {
        let free = config.receive_buffer_bytes.saturating_sub(self.ready_bytes) as u64;
        free.min(self.window_max)
    }

    /// Returns the window to advertise and counts it as advertised.
    pub(crate) fn advertise(&mut self, config: &Config) -> u64 {
        self.edge = self.edge.max(self.advertisable_edge(config));
        self.edge - self.next
    }

    /// The right edge to advertise, with silly window avoidance (RFC 9293 §3.8.6.2.2).
    fn advertisable_edge(&self, config: &Config) -> u64 {
        let edge = self.next + self.room(config);
        let worthy = self.mss.min(config.receive_buffer_bytes as u64 / 2);
        if edge >= self.edge + worthy || self.edge == 0 { edge } else { self.edge.max(self.next) }
    }

    /// Takes the data of a segment.
    pub(crate) fn on_data(&mut self, config: &Config, start: u64, data: &Bytes) -> Arrival {
        let end = (start + data.len() as u64).min(self.edge(config).max(self.next));
        if end <= self.next || start >= end {
            return Arrival::Useless;
        }
        if start > self.next {
            return self.on_early(config, start, &data.slice(..(end - start) as usize));
        }
        let fresh = data.slice((self.next - start) as usize..(end - start) as usize);
        self.deliver(fresh);
        while let Some((at, _)) = self.early.front()
            && *at <= self.next
        {
            let (at, piece) = self.early.pop_front().expect("it was just looked at");
            let known = (self.next - at) as usize;
            if known < piece.len() {
                self.deliver(piece.slice(known..));
            }
        }
        let reached = self.ranges.partition_point(|range| range.start <= self.next);
        self.ranges.drain(..reached);
        self.reach_fin();
        Arrival::InOrder
    }

    fn deliver(&mut self, piece: Bytes) {
        self.next += piece.len() as u64;
        self.ready_bytes += piece.len();
        self.ready.push_back(piece);
    }

    fn on_early(&mut self, config: &Config, start: u64, data: &Bytes) -> Arrival {
        let end = start + data.len() as u64;
        self.note_latest(start);
        if self.early.len() >= config.out_of_order_max {
            return Arrival::Useless;
        }
        // Adjacent and overlapping ranges are merged.
        let first = self.ranges.partition_point(|range| range.end < start);
        let last = self.ranges.partition_point(|range| range.start <= end);
        let touched = &self.ranges[first..last];
        if let [range] = touched
            && range.start <= start
            && end <= range.end
        {
            return Arrival::Useless;
        }
        let merged = touched
            .iter()
            .fold(start..end, |merged, range| merged.start.min(range.start)..merged.end.max(range.end));
        self.ranges.splice(first..last, [merged]);
        // Keep only the data that is missing.
        let mut at = start;
        let mut index = self.early.partition_point(|(piece, data)| piece + data.len() as u64 <= start);
        while at < end {
            let (gap_end, skip_to) = match self.early.get(index) {
                Some((piece, data)) if *piece < end => ((*piece).max(at), *piece + data.len() as u64),
                _ => (end, end),
            };
            if gap_end > at {
                self.early.insert(index, (at, data.slice((at - start) as usize..(gap_end - start) as usize)));
                index += 1;
            }
            at = skip_to.max(gap_end);
            index += 1;
        }
        Arrival::Early
    }

    fn note_latest(&mut self, start: u64) {
        let same = |at: &u64| {
            let range = self.ranges.iter().find(|range| range.contains(&start));
            range.is_some_and(|range| range.contains(at))
        };
        let at = self.latest.iter().position(same).unwrap_or(SACK_BLOCKS_MAX - 1);
        self.latest[..=at].rotate_right(1);
        self.latest[0] = start;
    }

    /// Takes a FIN at this offset.
    pub(crate) fn on_fin(&mut self, at: u64) {
        // A FIN at another offset than the first is ignored.
        if self.fin.is_none() && at >= self.next {
            self.fin = Some(at);
        }
        self.reach_fin();
    }

    fn reach_fin(&mut self) {
        self.fin_reached |= self.fin == Some(self.next);
    }

    /// The ranges to report in a SACK, the latest first (RFC 2018 §4).
    pub(crate) fn sack_blocks(&self, max: usize) -> impl Iterator<Item = Range<u64>> {
        let mut told: [u64; SACK_BLOCKS_MAX] = [u64::MAX; SACK_BLOCKS_MAX];
        let of_latest = self.latest.iter().filter_map(|at| {
            let index = self.ranges.partition_point(|range| range.end <= *at);
            self.ranges.get(index).filter(|range| range.contains(at))
        });
        // If fewer than `max` ranges are remembered, report other ranges.
        let others = self.ranges.iter().rev().take(2 * SACK_BLOCKS_MAX);
        of_latest
            .chain(others)
            .filter(move |range| {
                let free = told.iter().position(|start| *start == u64::MAX || *start == range.start);
                match free {
                    Some(free) if told[free] == u64::MAX => {
                        told[free] = range.start;
                        true
                    }
                    _ => false,
                }
            })
            .take(max)
            .cloned()
    }

    /// Whether data is missing before the highest data received.
    pub(crate) fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Makes the next acknowledgement immediate.
    pub(crate) fn ack_now(&mut self) {
        self.ack_now = true;
    }

    /// Schedules the acknowledgement of a data segment: immediate or delayed (RFC 5681 §4.2).
    pub(crate) fn on_segment(&mut self, config: &Config, now: Time, arrival: Arrival, filled: bool) {
        if self.quick_acks > 0 {
            self.quick_acks -= 1;
            self.ack_now = true;
        }
        match arrival {
            Arrival::InOrder if !filled && !self.has_gap() => {
                self.unacked_segments += 1;
                if self.unacked_segments >= u32::from(config.ack_every.get()) || config.ack_delay.is_zero() {
                    self.ack_now = true;
                } else if self.delayed_until.is_none() {
                    let at = match config.ack_clock {
                        AckClock::Segment => {
                            after(now, config.ack_delay, config.wheel_tick, config.timer_tick)
                        }
                        // The next tick after now.
                        AckClock::Free => {
                            round_up(now + std::time::Duration::from_nanos(1), config.ack_delay)
                        }
                    };
                    self.delayed_until = Some(at);
                }
            }
            // RFC 5681 §4.2: immediate for out-of-order data and for data that fills all or part of a gap.
            _ => self.ack_now = true,
        }
    }

    /// Whether an acknowledgement is due.
    pub(crate) fn ack_due(&self, now: Time) -> bool {
        self.ack_now || self.delayed_until.is_some_and(|at| at <= now)
    }

    /// When the delay of a pending acknowledgement ends.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.delayed_until
    }

    /// A segment that acknowledges everything was sent.
    pub(crate) fn on_acked(&mut self) {
        self.ack_now = false;
        self.unacked_segments = 0;
        self.delayed_until = None;
    }

    /// Returns the next piece of data for the user. Schedules a window update if the window opened far
    /// enough.
    pub(crate) fn read(&mut self, config: &Config) -> Option<Bytes> {
        let piece = self.ready.pop_front()?;
        self.ready_bytes -= piece.len();
        // RFC 9293 §3.8.6.2.2, as BSD implements it: two segments, or half of the buffer.
        let opened = (self.next + self.room(config)).saturating_sub(self.edge);
        let half = (config.receive_buffer_bytes as u64).min(self.window_max) / 2;
        if !self.fin_reached && opened >= half.min(2 * self.mss).max(1) {
            self.ack_now = true;
        }
        Some(piece)
    }

    /// Bytes of memory held besides the struct itself: data received and not read, in order and out of order.
    pub(crate) fn held_bytes(&self) -> usize {
        let early = self.early.iter().map(|(_, piece)| piece.len() + size_of::<(u64, Bytes)>());
        self.ready_bytes + self.ready.len() * size_of::<Bytes>() + early.sum::<usize>()
    }

    /// Whether data can be read.
    pub(crate) fn is_readable(&self) -> bool {
        !self.ready.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// The byte of the test stream at an offset.
    fn byte(at: u64) -> u8 {
        (at % 251) as u8
    }

    proptest! {
        #[test]
        fn overlapping_pieces_in_any_order_are_reassembled(
            pieces in prop::collection::vec((0..400_u64, 1..60_u64), 1..60),
        ) {
            let config = Config { receive_buffer_bytes: 1_000, ..Config::default() };
            let mut receiver = Receiver::new(&config);
            receiver.advertise(&config);
            let (mut known, mut read) = (BTreeSet::new(), Vec::new());
            for (start, length) in pieces {
                let data: Bytes = (start..start + length).map(byte).collect::<Vec<_>>().into();
                let next_before = receiver.next();
                let arrival = receiver.on_data(&config, start, &data);
                let fresh = (start..start + length).filter(|at| known.insert(*at)).count();
                prop_assert_eq!(arrival != Arrival::Useless, fresh > 0);
                let next = (0..).find(|at| !known.contains(at)).unwrap();
                prop_assert_eq!(receiver.next(), next);
                prop_assert_eq!(arrival == Arrival::InOrder, next > next_before);
                // The SACK ranges are those beyond the first gap, the latest first.
                let beyond: Vec<_> = known.range(next..).copied().collect();
                let ends = beyond.iter().filter(|at| !known.contains(&(**at + 1))).count();
                prop_assert_eq!(receiver.ranges.len(), ends);
                prop_assert!(receiver.ranges.iter().all(|range| range.clone().all(|at| known.contains(&at))));
                let told: Vec<_> = receiver.sack_blocks(3).collect();
                prop_assert_eq!(told.len(), ends.min(3));
                prop_assert!(told.iter().all(|range| receiver.ranges.contains(range)));
                if arrival == Arrival::Early {
                    prop_assert!(told[0].contains(&start));
                }
                let kept: usize = receiver.early.iter().map(|(_, data)| data.len()).sum();
                prop_assert_eq!(kept, beyond.len(), "bytes are kept once");
                while let Some(piece) = receiver.read(&config) {
                    read.extend_from_slice(&piece);
                }
            }
            prop_assert_eq!(read, (0..receiver.next()).map(byte).collect::<Vec<_>>());
        }
    }

    #[test]
    fn data_beyond_the_window_is_dropped() {
        let config = Config { receive_buffer_bytes: 100, ..Config::default() };
        let mut receiver = Receiver::new(&config);
        assert_eq!(receiver.advertise(&config), 100);
        assert_eq!(receiver.on_data(&config, 50, &Bytes::from_static(&[0; 80])), Arrival::Early);
        assert_eq!(receiver.on_data(&config, 100, &Bytes::from_static(&[0; 10])), Arrival::Useless);
        assert_eq!(receiver.on_data(&config, 0, &Bytes::from_static(&[0; 50])), Arrival::InOrder);
        assert_eq!((receiver.next(), receiver.advertise(&config)), (100, 0));
        // A FIN needs no room in the buffer.
        receiver.on_fin(100);
        assert_eq!(receiver.next(), 101);
    }

    #[test]
    fn sack_reports_the_latest_ranges_first() {
        let config = Config::default();
        let mut receiver = Receiver::new(&config);
        receiver.advertise(&config);
        for start in [500, 100, 700, 300] {
            receiver.on_data(&config, start, &Bytes::from_static(&[0; 50]));
        }
        let told: Vec<_> = receiver.sack_blocks(3).collect();
        assert_eq!(told, [300..350, 700..750, 100..150]);
        receiver.on_data(&config, 150, &Bytes::from_static(&[0; 50]));
        let told: Vec<_> = receiver.sack_blocks(4).collect();
        assert_eq!(told, [100..200, 300..350, 700..750, 500..550]);
    }
}
