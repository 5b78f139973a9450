//! Films: a run of a scenario as an animated SVG, with its packets, queues and windows over the simulated time.
//!
//! A [`Recorder`] watches a run; [`draw()`] makes the SVG of what it recorded. The animation is SMIL, so that a browser
//! plays the file without a script. The same run gives the same bytes. [`Movie`] encodes the same pictures as MP4, by
//! the program ffmpeg.

mod draw;
mod movie;

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_sim::link::{Fate, Sighting};
use braidftp_sim::windows::SendWindows;

pub use self::draw::{Titles, draw, draw_still};
pub use self::movie::Movie;
use crate::scenario::{Look, Shot, ShotOfLink, Watcher};

/// The maximum number of packets of a film; a run with more is shown up to this packet.
const PACKETS_MAX: usize = 4_000;
/// The maximum number of samples. When it is reached, every second one is dropped, and the interval doubles.
const SAMPLES_MAX: usize = 800;
/// The first sampling interval.
const EVERY: Duration = Duration::from_micros(500);

/// A packet on one direction of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Packet {
    /// The index of the direction.
    way: usize,
    /// The bytes of its payload.
    bytes: usize,
    /// When its transmission began, and when it left the link; or when it was dropped.
    fate: End,
}

/// The end of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Carried { from: Duration, to: Duration },
    Dropped(Duration),
}

impl Packet {
    fn ends(&self) -> Duration {
        match self.fate {
            End::Carried { to, .. } => to,
            End::Dropped(at) => at,
        }
    }
}

/// The queues and windows at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sample {
    at: Duration,
    /// By direction of a link.
    queues: Vec<u64>,
    /// By sender, and by path.
    windows: Vec<Vec<SendWindows>>,
}

/// A direction of a link, with its packets that are on the wire.
#[derive(Debug, Clone, Default, PartialEq)]
struct Way {
    name: String,
    is_return: bool,
    on_wire: VecDeque<(Duration, Sighting)>,
}

/// Records a run.
#[derive(Debug, Clone)]
pub struct Recorder {
    from: Duration,
    to: Duration,
    every: Duration,
    ways: Vec<Way>,
    senders: Vec<String>,
    samples: Vec<Sample>,
    packets: Vec<Packet>,
    /// The time of the last shot.
    now: Duration,
    /// When there were too many packets.
    full: Option<Duration>,
}

impl Recorder {
    /// Records the time from `from` for `lasts`.
    pub fn new(from: Duration, lasts: Duration) -> Self {
        Self {
            from,
            to: from.saturating_add(lasts),
            every: EVERY,
            ways: Vec::new(),
            senders: Vec::new(),
            samples: Vec::new(),
            packets: Vec::new(),
            now: Duration::ZERO,
            full: None,
        }
    }

    /// The recorded span of simulated time.
    pub fn span(&self) -> (Duration, Duration) {
        (self.from, self.full.unwrap_or(self.to).min(self.now).max(self.from))
    }

    /// When the run ended.
    pub fn ended(&self) -> Duration {
        self.now
    }

    /// The number of packets in the film.
    pub fn packets(&self) -> usize {
        self.shown().count()
    }

    /// The packets within the span.
    fn shown(&self) -> impl Iterator<Item = &Packet> {
        let (from, to) = self.span();
        let starts = |packet: &Packet| match packet.fate {
            End::Carried { from, .. } => from,
            End::Dropped(at) => at,
        };
        self.packets.iter().filter(move |packet| packet.ends() >= from && starts(packet) < to)
    }

    fn follow(&mut self, number: usize, seen: Sighting) {
        let at = Duration::from_nanos(seen.at.as_nanos());
        let way = &mut self.ways[number];
        let fate = match seen.what {
            Fate::Queued => return,
            Fate::Leaves => {
                way.on_wire.push_back((at, seen));
                return;
            }
            Fate::Dropped(_) => End::Dropped(at),
            Fate::Arrives => {
                // Packets may overtake each other, and equal ones arrive in the order in which they were sent.
                let is_it = |(_, sent): &(Duration, Sighting)| sent.datagram.payload == seen.datagram.payload;
                let found = way.on_wire.iter().position(is_it);
                let Some((from, _)) = found.and_then(|found| way.on_wire.remove(found)) else { return };
                End::Carried { from, to: at }
            }
        };
        self.add(Packet { way: number, bytes: seen.datagram.payload.len(), fate });
    }

    fn add(&mut self, packet: Packet) {
        let ends = packet.ends();
        if self.full.is_some() || ends < self.from {
            return;
        }
        if let End::Carried { from, .. } = packet.fate
            && from >= self.to
        {
            return;
        }
        self.packets.push(packet);
        if self.packets.len() == PACKETS_MAX {
            self.full = Some(ends);
        }
    }

    fn sample(&mut self, sample: Sample) {
        if !(self.from..=self.to).contains(&sample.at) || self.full.is_some_and(|full| sample.at > full) {
            return;
        }
        self.samples.push(sample);
        if self.samples.len() >= SAMPLES_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.every *= 2;
        }
    }
}

impl Watcher for Recorder {
    fn every(&self) -> Duration {
        self.every
    }

    fn look(&mut self, _: &Look) {}

    fn is_filming(&self) -> bool {
        true
    }

    fn shoot(&mut self, shot: Shot) {
        let Shot { now, senders, links } = shot;
        self.now = now;
        let (names, windows): (Vec<String>, Vec<Vec<SendWindows>>) = senders.into_iter().unzip();
        self.senders = names;
        let mut queues = Vec::new();
        for (number, link) in links.into_iter().enumerate() {
            let ShotOfLink { name, is_return, queue_bytes, packets } = link;
            if self.ways.len() <= number {
                self.ways.push(Way { name, is_return, on_wire: VecDeque::new() });
            }
            queues.push(queue_bytes);
            packets.into_iter().for_each(|seen| self.follow(number, seen));
        }
        self.sample(Sample { at: now, queues, windows });
    }
}
