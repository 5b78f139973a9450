//! One controller for every path: CUBIC (RFC 9438) where losses tell of congestion, a model of the path where they do not,
//! and the evidence that decides between them.
//!
//! **Why two.** A controller that takes each loss for congestion cannot fill a path that loses by chance: CUBIC's and Reno's
//! windows stay near 1.2/√p segments, 4 at p = 10 %. One that ignores losses, as BBR's first version does
//! (draft-cardwell-iccrg-bbr-congestion-control-00), starves CUBIC and Reno at short queues. So this one asks what its losses
//! are. That has been asked by the spacing of arrivals (Biaz, Vaidya: "Discriminating Congestion Losses from Wireless Losses Using
//! Inter-Arrival Times at the Receiver", ASSET 1999), by one-way delay against thresholds (Tobe, Tamura, Molano, Ghosh,
//! Tokuda: "Achieving Moderate Fairness for UDP Flows by Path-Status Classification", LCN 2000: Spike), by both in turn (Cen,
//! Cosman, Voelker: "End-to-End Differentiation of Congestion and Wireless Losses", ToN 11(5), 2003: ZigZag), by the number of
//! packets that queue (TCP Veno: Fu, Liew, JSAC 21(2), 2003), and left open by cutting to the measured rate (TCP Westwood:
//! Mascolo, Casetti, Gerla, Sanadidi, Wang, MobiCom 2001). All but the last need a threshold or a base round trip; the rank
//! that `evidence` takes needs neither; where the round trips are all alike, it goes by the longest queue that it has seen.
//!
//! **How it goes.**
//! - *Ramp*: the window grows exponentially, through losses that are not shown to be congestion. The acknowledgements of the first
//!   flight, which leaves at once, come as far apart as the path spreads them: while the window is below half of what that
//!   rate fills, a round trip may be worth twenty times the one before (SUSS, by Arghavani, Zhang, Eyers and Arghavani, SIGCOMM 2024,
//!   goes by the same sign, up to four times); then it doubles, and beyond that it grows by an eighth: a
//!   queue that overflows at its end would cost who begins beside it the slow start, and its share for minutes. It ends by
//!   HyStart++ (RFC 9406), or when the rate of delivery has not grown for three round trips, with a window of little more than
//!   fills the path: that is the answer to what left before and turns out to be lost.
//! - *Shared*: CUBIC, unless the evidence is clear; its plateau is halfway to the window that it had, so that flows of this kind have
//!   equal shares after some losses. But where Reno would take twice as long as CUBIC to have its window
//!   again, no faster than Reno while there is a queue and the `neighbours` are in no hurry or it has half of what the path
//!   was seen to carry; and who has more of that beside them closes, as long as that makes the queue shorter: a loss comes once in
//!   minutes there, and would be all that brings them nearer. A window of less than a third of that hurries until it is half, as does one
//!   whose first flight was lost and so told nothing of the path. A queue of seconds grows no more. Windows are whole
//!   packets, as TCP's are in effect, and less than 32 of them are not paced: evenly spaced packets would take more of a short queue
//!   than those that come in pairs beside them.
//! - *Lossy*: paced at the measured rate of delivery plus what is lost, with a probe and its drain in every eight round trips, a
//!   window of little more than fills the path, and no answer to a loss: BBR's first version, but that a
//!   probe that found nothing makes the next one smaller, that half of the path is emptied, and not all but four packets,
//!   where the drains have not let the shortest round trip be seen, and that the window is not two bandwidth-delay products:
//!   several such flows keep a queue of a whole one full, so that those beside them lose by it, take it for congestion and
//!   starve. A tenth of the product and four packets: beside each other such flows differ by the tenth, and come to be
//!   equal by the packets.
//!
//! **What brings it back to CUBIC**: ranks that say so; a mark (ECN); more than 17 % of 250 packets lost, or 39 % among the first
//! 2,000. The window is then what was delivered in a round trip, cut as CUBIC cuts.
//!
//! It is what the profile `modern` of SCTP has.
//!
//! **What it does not do.** A Reno whose slow start meets a ramp over a path of hundreds of milliseconds and thousands of packets has
//! minutes to go, as it has beside another Reno. Beside several Renos over such a path it is CUBIC up to half of what the path
//! carries. Flows of its own kind that are in no hurry take as long as Reno's to have equal shares. A SACK in 1500 bytes has room for
//! 360 gaps (RFC 9260 §6.7: the lowest ones), and a gap lasts a round trip: over paths
//! that lose more packets than that in one, no more than 360 in a round trip come again, but for a peer that knows COMPACT-SACK.

mod evidence;
mod model;
mod neighbours;
#[cfg(test)]
mod tests;

use std::time::Duration;

use braidftp_base::{Rate, Time};

use self::evidence::Evidence;
use self::model::{Model, bytes_in};
use self::neighbours::Neighbours;
use crate::cubic::{Cubic, Opens};
use crate::hystart::{Advice, HyStart};
use crate::{Ack, Cause, Congestion, Controller, Idle, Lost, Options, Recovered, Sent, Spurious};

/// "Arbitrarily high" (RFC 5681 §3.1).
const SSTHRESH_INITIAL: usize = u32::MAX as usize;
/// More than any path holds.
const WINDOW_MAX: usize = u32::MAX as usize;
/// Of what fills the path the model's window has so much, in hundredths, but while it probes.
const WINDOW: u64 = 110;
/// What it has beyond, in packets, for acknowledgements that come for two at a time.
const SPARE_MTUS: usize = 4;
/// Round trips are told from a queue by a driver's clock, which is not finer: over a shorter one, what arrives in this is no queue.
const SHORTEST: Duration = Duration::from_millis(1);
/// A queue that takes longer than this, and than seven round trips without one, grows no more.
const QUEUE_MAX: Duration = Duration::from_secs(1);
/// Reno takes twice as long as CUBIC to have its window again where the square of its packets, times the cube of the
/// round trip's milliseconds, is this. With more, Reno has less than half of its share beside it over 1 Mbit/s with 300 ms.
const FAR: u128 = 33_000_000_000;
/// A window that is a smaller part of all that is under way, in hundredths, is behind; and with this it has caught up.
const BEHIND: usize = 33;
const CAUGHT_UP: usize = 50;
/// With so large a part, of a rate that is known to a tenth, there is nobody else.
const ALONE: usize = 90;
/// A CUBIC window of fewer packets is not paced.
const PACED_MTUS: usize = 32;

/// A flight of one in so many of what the train told has tried it.
const TRIED: usize = 16;
/// What a round trip of a ramp may be worth at most, in hundredths of the one before.
const RAMP_MAX: usize = 6_000;

/// At this score losses are random: odds of 55 to 1. A window of few packets loses few in a round trip, and a job of seconds is over
/// before longer odds are reached.
const RANDOM_AT: i32 = -40;
/// In a ramp, two of a round trip do, until the queue grows.
const RANDOM_IN_RAMP_AT: i32 = -25;
/// And at this they are congestion again.
const CONGESTION_AT: i32 = 20;
/// The same where the model was chosen, and its own probes raise the round trips of what is lost beside them: odds of 3,000 to 1.
const CONGESTION_IN_MODEL_AT: i32 = 80;
/// In a ramp whose round trips have not become longer by an eighth.
const CONGESTION_AT_FLAT: i32 = 50;
/// From here on randomness is likelier, and half as much is given way to a loss, in hundredths of the window.
const LEANING_AT: i32 = -20;
const LEANING_CUT: usize = 85;
/// A larger part than this of 250 packets, in thousandths, is never taken for random loss: 10 %, and three standard deviations. Many
/// flows that share a queue of half a round trip lose more than this if they keep to what each once had.
const LOSS_MAX: u64 = 170;
/// The same for the first 2,000 packets: 30 %, and three standard deviations. A flow of so few packets takes little from others for
/// long, and over a path that loses 30 % by chance, CUBIC takes three times as long.
const LOSS_MAX_AT_FIRST: u64 = 390;

/// By how much a probe is beyond the rate, in hundredths: as BBR's, and less where the last ones brought nothing.
const PROBE_MAX: u64 = 25;
const PROBE_MIN: u64 = 10;
/// Phases of a cycle, a round trip each: a probe, its drain, and then as much as arrives.
const PHASES: usize = 8;

/// The controller.
#[derive(Debug, Clone)]
pub struct Auto {
    options: Options,
    mtu: usize,
    mode: Mode,
    /// The window, in bytes, of ramp and model.
    cwnd: usize,
    /// The window otherwise, and who shares the path with it.
    cubic: Cubic,
    /// The windows of other paths of this association that share its bottleneck, in bytes: to others, all of them are one.
    siblings: usize,
    neighbours: Neighbours,
    model: Model,
    evidence: Evidence,
    srtt: Duration,
    latest_rtt: Duration,
    /// The shortest round trip ever.
    base_rtt: Option<Duration>,
    /// The most that the path was seen to carry, others' packets too, in bytes a second, if its first flight has told that.
    carries: Option<u64>,
    /// When a ramp ended that had seen for itself what fills the path.
    ramped_at: Time,
    /// Whether what was lost last had left before: the window that fills the path is the answer to all of it.
    lost_in_ramp: bool,
    /// What was before it gave way last: mode, window and CUBIC, if that can be undone.
    before: Option<Box<(Mode, usize, Cubic, Neighbours)>>,
}

#[derive(Debug, Clone)]
enum Mode {
    /// Exponentially to what the path carries.
    Ramp(Ramp),
    /// CUBIC.
    Shared,
    /// By the model.
    Lossy(Cycle),
}

/// An exponential growth.
#[derive(Debug, Clone, Default)]
struct Ramp {
    hystart: HyStart,
    train: Train,
    /// What was under way when this round trip began, in bytes.
    flight: usize,
    /// The largest rate so far in bytes a second, and for how many round trips it has not become larger by an eighth.
    rate: u64,
    stalled: u32,
    /// For how many the round trip has been longer than before.
    waiting: u32,
    /// The lowest score so far: at its end the queue grows with the window, and every loss seems to be the queue's.
    score: i32,
    /// Whether it is one of the model, which has found that there is more.
    again: bool,
}

/// The acknowledgements of the first flight, which left in one burst: they come as far apart as the path spreads it.
#[derive(Debug, Clone, Copy, Default)]
struct Train {
    first_at: Option<Time>,
    /// What the first one acknowledged, and those after it.
    first_bytes: usize,
    bytes: usize,
    over: bool,
    /// Bytes a second.
    rate: u64,
}

/// Where the model's probing is.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    phase: usize,
    began: Time,
    /// What is to be emptied before.
    drain: Option<Drain>,
    /// The path's rate before the probe, in bytes a second.
    rate: u64,
    /// By how much the probe is beyond it, in hundredths.
    probe: u64,
    /// How many in a row have brought more.
    streak: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    /// The queue that a ramp has filled.
    Queue,
    /// Half of the path, too, to see how short its round trip is where others hold a queue.
    Path,
}

impl Train {
    /// Gives for how many bytes the window may grow as the train says: those of this acknowledgement, and with the first that tells
    /// a rate, of those before it too.
    fn on_ack(&mut self, ack: &Ack<'_>, round: bool) -> usize {
        let Some(first_at) = self.first_at else {
            // What left beside a handshake was no burst.
            if ack.flight_before > 4 * ack.mtu {
                (self.first_at, self.first_bytes) = (Some(ack.now), ack.bytes);
            }
            return ack.bytes;
        };
        // Answers by another way that is clearly shorter come as far apart as that one's packets do.
        let is_shorter = |(took, srtt): (Duration, Duration)| took < srtt / 4 * 3;
        self.over |= round || ack.by_another_way.zip(ack.srtt).is_some_and(is_shorter);
        if self.over {
            return ack.bytes;
        }
        self.bytes = self.bytes.saturating_add(ack.bytes);
        let nanos = ack.now.since(first_at).as_nanos();
        if self.bytes < 4 * ack.mtu || nanos == 0 {
            return ack.bytes;
        }
        let is_first = self.rate == 0;
        let rate = self.bytes as u128 * 1_000_000_000 / nanos;
        self.rate = self.rate.max(u64::try_from(rate).unwrap_or(u64::MAX));
        if is_first { self.bytes.saturating_add(self.first_bytes) } else { ack.bytes }
    }
}

impl Cycle {
    fn new(now: Time, rate: u64) -> Self {
        Self { phase: 0, began: now, drain: None, rate, probe: PROBE_MAX, streak: 0 }
    }

    /// Of the pacing rate, in hundredths.
    fn gain(&self) -> u64 {
        match (self.drain, self.phase) {
            (Some(_), _) => 50,
            (None, 0) => 100 + self.probe,
            (None, 1) => 100 - self.probe,
            _ => 100,
        }
    }
}

impl Auto {
    /// A controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        Self {
            options,
            mtu,
            mode: Mode::Ramp(Ramp::default()),
            cwnd: options.initial_window.bytes(mtu),
            cubic: Cubic::new(options, mtu),
            siblings: 0,
            neighbours: Neighbours::default(),
            model: Model::default(),
            evidence: Evidence::default(),
            srtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            base_rtt: None,
            carries: None,
            ramped_at: Time::ZERO,
            lost_in_ramp: false,
            before: None,
        }
    }

    fn spare(&self) -> usize {
        SPARE_MTUS * self.mtu
    }

    fn min_rtt(&self) -> Duration {
        self.model.min_rtt().unwrap_or(self.srtt)
    }

    /// The most that the model lets be under way.
    fn target(&self) -> usize {
        let hundredths = match &self.mode {
            Mode::Lossy(Cycle { phase: 0, .. }) => 100 + PROBE_MAX,
            _ => WINDOW,
        };
        self.model.window(hundredths).saturating_add(self.spare()).min(WINDOW_MAX)
    }

    fn is_random(&self) -> bool {
        let below = match &self.mode {
            Mode::Ramp(_) if self.latest_rtt <= self.min_rtt() * 9 / 8 => CONGESTION_AT_FLAT,
            Mode::Ramp(_) => CONGESTION_AT,
            Mode::Lossy(_) => CONGESTION_IN_MODEL_AT,
            Mode::Shared => RANDOM_AT,
        };
        let loss_max = if self.model.losses.is_long() { LOSS_MAX } else { LOSS_MAX_AT_FIRST };
        self.evidence.score() <= below && self.model.losses.last <= loss_max
    }

    /// CUBIC from here on, with no more than this, in bytes.
    fn share(&mut self, window: usize) {
        let window = self.cwnd.min(window.max(self.spare()));
        self.cubic = Cubic::halfway(self.options, self.mtu, window);
        self.neighbours.begin();
        self.mode = Mode::Shared;
    }

    /// It is congestion.
    fn give_way(&mut self, congestion: Congestion) {
        let mut congestion = congestion;
        let undoable = congestion.cause != Cause::Ecn;
        self.before =
            undoable.then(|| Box::new((self.mode.clone(), self.cwnd, self.cubic.clone(), self.neighbours)));
        if !matches!(self.mode, Mode::Shared) {
            let queued = self.srtt.max(self.latest_rtt);
            self.share(bytes_in(self.model.lately(2), queued.max(SHORTEST)));
            congestion.flight_bytes = self.cubic.window();
        }
        let window = self.cubic.window();
        self.cubic.on_congestion(congestion);
        let large = window >= PACED_MTUS * self.mtu;
        if large && congestion.cause == Cause::Loss && self.evidence.score() < LEANING_AT {
            self.cubic.raise(window / 100 * LEANING_CUT);
        }
        if let Some(before) = self.neighbours.on_reduction(window, self.cubic.ssthresh().min(window)) {
            self.cubic.aim_at(before);
        }
    }

    /// Whether Reno would take twice as long as CUBIC to have this window again.
    fn is_far(&self) -> bool {
        let packets = (self.all_windows() / self.mtu.max(1)) as u128;
        packets.pow(2).saturating_mul(self.srtt.as_millis().saturating_pow(3)) > FAR
    }

    /// CUBIC's windows as a part of all that is under way, in hundredths, if it is known what the path carries.
    fn part(&self) -> Option<usize> {
        self.part_of(self.srtt)
    }

    /// The same of what is under way when round trips take so long.
    fn part_of(&self, rtt: Duration) -> Option<usize> {
        let all = bytes_in(self.carries?, rtt);
        self.all_windows().saturating_mul(100).checked_div(all)
    }

    fn all_windows(&self) -> usize {
        self.cubic.window().saturating_add(self.siblings)
    }

    /// A round trip is over: a part is smaller after a loss, and when others fill the queue.
    fn look_at_part(&mut self) {
        let Some(part) = self.part() else { return };
        if part < BEHIND && self.is_far() {
            self.neighbours.fall_behind();
        } else if part >= CAUGHT_UP {
            self.neighbours.catch_up();
        }
    }

    /// Whether it may leave room to those who open slowly. Where nobody knows what the path carries, others' queue took all of the
    /// first flight: that is no time to wait.
    fn has_time(&self) -> bool {
        self.part().is_some_and(|part| part >= CAUGHT_UP || self.neighbours.are_slow())
    }

    /// Whether it has more than half of the path, and another that opens slowly the rest; not by a mean that has yet to see
    /// how much shorter the queue is after a loss.
    fn gives(&self) -> bool {
        let is_most = |rtt| self.part_of(rtt).is_some_and(|part| part > CAUGHT_UP && part < ALONE);
        self.neighbours.are_slow() && is_most(self.srtt) && is_most(self.latest_rtt)
    }

    /// How fast CUBIC's window may open.
    fn opens(&self) -> Opens {
        let base = self.base_rtt.unwrap_or(self.srtt);
        let queue = self.srtt.saturating_sub(base);
        if queue > (base * 7).max(QUEUE_MAX) {
            Opens::No
        } else if queue > (base / 8).max(SHORTEST) && self.has_time() && self.is_far() {
            if self.gives() { Opens::Closes } else { Opens::AsReno }
        } else {
            Opens::AsCubic
        }
    }

    fn ramp(&mut self, ack: &Ack<'_>, round: bool) {
        let (rate, spare) = (self.model.lately(2), self.spare());
        let (app_limited, min_rtt) =
            (self.model.is_app_limited(), self.model.told_after().unwrap_or(self.srtt));
        let product = bytes_in(rate, min_rtt.max(SHORTEST));
        let score = self.evidence.settled();
        let Mode::Ramp(ramp) = &mut self.mode else { return };
        ramp.score = ramp.score.min(score);
        let advice = ramp.hystart.on_ack(ack.bytes, ack.flight_before, ack.by_another_way.or(ack.rtt));
        let acked = ramp.train.on_ack(ack, round);
        if ramp.train.rate > 0 {
            self.carries = self.carries.max(Some(ramp.train.rate));
        }
        if round {
            ramp.flight = ack.flight_before;
        }
        if round && !app_limited {
            if rate >= ramp.rate.saturating_add(ramp.rate / 8) {
                (ramp.rate, ramp.stalled) = (rate, 0);
            } else if ack.flight_before > product + product / 8 + spare {
                ramp.stalled += 1;
            }
        }
        match advice {
            Advice::Grow => ramp.waiting = 0,
            _ => ramp.waiting += u32::from(round),
        }
        let waits = advice != Advice::Grow && (ramp.again || ramp.waiting > 1);
        if waits || ramp.stalled > 2 {
            if !self.drain(ack.now) {
                self.share(product + product / 8);
                self.ramped_at = ack.now;
            }
            return;
        }
        if app_limited {
            return;
        }
        if ack.rtt.is_none() {
            // Only what was sent again arrives (§6.3.1 of RFC 9260, C5): there is no rate to go by.
            self.cwnd = self.cwnd.saturating_add(ack.bytes).min(WINDOW_MAX);
            return;
        }
        let carried = bytes_in(ramp.train.rate, min_rtt);
        let initial = self.options.initial_window.bytes(self.mtu);
        // A rate is known a round trip late.
        let shown = product.max(initial);
        // What a round trip makes of the one before, in hundredths, and what that was.
        let (gain, before) = if advice != Advice::Grow {
            (106, shown)
        } else if ramp.stalled > 1 {
            (125, shown)
        } else if ramp.again {
            (150, shown)
        } else if carried == 0 || product > carried + carried / 4 {
            // More than a quarter as much again arrives already: what the train told was not the path's rate.
            (200, shown)
        } else if self.cwnd > carried {
            // What is lost by chance makes a train tell less.
            (if ramp.score < 0 { 125 } else { 112 }, shown)
        } else {
            let before = ramp.flight.max(initial);
            let aim = if before < carried / TRIED {
                carried / 4
            } else if ack.rtt.is_some_and(|rtt| rtt <= min_rtt + (min_rtt / 32).max(SHORTEST)) {
                carried
            } else {
                carried / 2
            };
            ((100 * aim / before.max(1)).clamp(200, RAMP_MAX), before)
        };
        let most = before.saturating_mul(gain + 100) / 100;
        let grown = self.cwnd.saturating_add(acked.saturating_mul(gain - 100) / 100);
        self.cwnd = grown.min(most.max(self.cwnd)).min(WINDOW_MAX);
    }

    /// The model's from here on, once the queue of the ramp is empty, if its losses were random until that grew.
    fn drain(&mut self, now: Time) -> bool {
        let Mode::Ramp(Ramp { score, .. }) = self.mode else { return false };
        if score > RANDOM_IN_RAMP_AT {
            return false;
        }
        self.evidence.settle_at(score);
        self.mode = Mode::Lossy(Cycle { drain: Some(Drain::Queue), ..Cycle::new(now, self.model.rate()) });
        true
    }

    fn cycle(&mut self, ack: &Ack<'_>) {
        let (product, target, spare) = (self.model.product(), self.target(), self.spare());
        let (rate, lately) = (self.model.rate(), self.model.lately(4));
        let (min_rtt, srtt) = (self.min_rtt(), self.srtt);
        let flight = ack.flight_before.saturating_sub(ack.bytes);
        let Mode::Lossy(cycle) = &mut self.mode else { return };
        if cycle.phase > 1 && self.model.is_stale(ack.now) {
            self.model.look_for_shortest(ack.now);
            *cycle = Cycle { drain: Some(Drain::Path), ..Cycle::new(ack.now, rate) };
        }
        let lasted = ack.now.since(cycle.began);
        if let Some(drain) = cycle.drain {
            let empty = match drain {
                Drain::Queue => product + spare,
                Drain::Path => product / 2,
            };
            if flight <= empty || lasted > 2 * srtt {
                *cycle = Cycle { phase: 2, ..Cycle::new(ack.now, rate) };
            }
        } else if lasted >= min_rtt || (cycle.phase == 1 && flight <= product) {
            cycle.phase = (cycle.phase + 1) % PHASES;
            cycle.began = ack.now;
            // What the probe has brought is known a round trip after it.
            if cycle.phase == 3 {
                let grown = lately > cycle.rate + cycle.rate / 200 * cycle.probe;
                cycle.rate = rate;
                if !grown {
                    (cycle.probe, cycle.streak) = ((cycle.probe / 2).max(PROBE_MIN), 0);
                } else if cycle.streak == 0 {
                    (cycle.probe, cycle.streak, cycle.phase) = (PROBE_MAX, 1, 0);
                } else {
                    self.mode = Mode::Ramp(Ramp { again: true, ..Ramp::default() });
                    return;
                }
            }
        }
        self.cwnd = self.cwnd.saturating_add(ack.bytes).min(target);
    }

    /// So many hundredths of the window in the time after which what has left makes room for more: a round trip, or less where
    /// others tell of it sooner.
    fn pace(&self, hundredths: u128) -> Option<Rate> {
        // A mean has yet to see how much shorter the queue is after a reduction.
        let lately = self.srtt.min(self.latest_rtt);
        let turn = self.model.is_told_after().map_or(lately, |after| after.min(lately));
        let bits = (self.window() as u128 * 8 * hundredths * 10_000_000).checked_div(turn.as_nanos())?;
        Some(Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX).max(1)))
    }
}

impl Controller for Auto {
    fn window(&self) -> usize {
        match self.mode {
            // What is less than a packet would let one more leave.
            Mode::Shared => match self.cubic.window() {
                window if window < self.mtu => window,
                window => window - window % self.mtu.max(1),
            },
            Mode::Ramp(_) | Mode::Lossy(_) => self.cwnd,
        }
    }

    fn ssthresh(&self) -> usize {
        match self.mode {
            Mode::Shared => self.cubic.ssthresh(),
            Mode::Ramp(_) => SSTHRESH_INITIAL,
            Mode::Lossy(_) => self.model.product().max(self.spare()),
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        match &self.mode {
            Mode::Ramp(ramp) if ramp.train.rate == 0 => self.pace(200),
            // No slower than half of what the train has shown, nor faster than all of it, but for a window that is beyond.
            Mode::Ramp(ramp) => {
                let bits = ramp.train.rate.saturating_mul(8);
                let [half, all] = [bits / 2, bits].map(Rate::from_bits_per_second);
                let shown = self.pace(400)?.min(all).max(half);
                let is_beyond = self.cwnd > bytes_in(ramp.train.rate, self.min_rtt());
                Some(if is_beyond { shown.max(self.pace(120)?) } else { shown })
            }
            Mode::Shared if self.cubic.window() < PACED_MTUS * self.mtu => None,
            Mode::Shared if self.cubic.window() < self.cubic.ssthresh() => self.pace(200),
            Mode::Shared => self.pace(120),
            Mode::Lossy(cycle) => self.model.pace(cycle.gain()),
        }
    }

    fn counts_arrivals(&self) -> bool {
        true
    }

    fn on_sent(&mut self, sent: Sent) {
        self.model.on_sent(sent);
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.mtu = ack.mtu;
        self.siblings = ack.siblings.iter().map(|view| view.window).sum();
        self.srtt = ack.srtt.or(ack.rtt).unwrap_or(self.srtt);
        if let Some(rtt) = ack.rtt {
            self.latest_rtt = rtt;
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.evidence.on_sample(ack.now, rtt);
        }
        let round = self.model.on_ack(&ack);
        if round {
            self.evidence.on_round(ack.now);
            self.carries = self.carries.map(|carries| carries.max(self.model.rate()));
        }
        if round && matches!(self.mode, Mode::Shared) && self.is_random() {
            // Paced at the rate that there was, all of the window may be used at once.
            self.cwnd = self.target().max(self.cubic.window());
            self.mode = Mode::Lossy(Cycle::new(ack.now, self.model.rate()));
        }
        match &self.mode {
            Mode::Ramp(_) => self.ramp(&ack, round),
            Mode::Shared => {
                if round {
                    self.look_at_part();
                }
                let opens = self.opens();
                match opens {
                    Opens::AsReno if round => self.neighbours.on_round(self.srtt, self.cubic.window()),
                    Opens::Closes if round => self.neighbours.on_closing(self.srtt, self.cubic.window()),
                    Opens::AsReno | Opens::Closes => {}
                    Opens::AsCubic | Opens::No => self.neighbours.rest(),
                }
                self.cubic.on_ack_that(ack, opens);
            }
            Mode::Lossy(_) => self.cycle(&ack),
        }
    }

    fn on_lost(&mut self, lost: Lost) {
        self.mtu = lost.mtu;
        self.model.on_lost(&lost);
        self.evidence.on_lost(lost.sent_at);
        self.lost_in_ramp = lost.sent_at < self.ramped_at;
        if self.is_random() {
            return;
        }
        let Lost { now, mtu, flight_bytes, .. } = lost;
        match self.mode {
            // `on_congestion` comes once a recovery.
            Mode::Shared => {}
            Mode::Ramp(_) | Mode::Lossy(_) => {
                if self.drain(now) {
                    return;
                }
                self.give_way(Congestion { cause: Cause::Loss, now, flight_bytes, mtu });
            }
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.mtu = congestion.mtu;
        match (congestion.cause, &self.mode) {
            (Cause::Ecn, _) => {
                self.evidence.on_mark();
                self.give_way(congestion);
            }
            // `on_lost` has judged it. After a time-out the transport lets out one packet until something comes back.
            (Cause::Loss, Mode::Ramp(_) | Mode::Lossy(_)) | (Cause::Timeout, Mode::Lossy(_)) => {}
            (Cause::Timeout, Mode::Ramp(_)) if self.evidence.score() < 0 => {}
            // A queue that others fill has taken all of the first flight: of how much there is room for, that tells nothing.
            (Cause::Timeout, Mode::Ramp(_)) if self.base_rtt.is_none() => self.cwnd = self.mtu,
            (Cause::Loss, Mode::Shared) if self.is_random() || self.lost_in_ramp => {}
            _ => self.give_way(congestion),
        }
    }

    fn on_spurious(&mut self, _spurious: Spurious) {
        if let Some(before) = self.before.take() {
            (self.mode, self.cwnd, self.cubic, self.neighbours) = *before;
        }
    }

    fn on_idle(&mut self, idle: Idle) {
        self.mtu = idle.mtu;
        match self.mode {
            Mode::Shared => self.cubic.on_idle(idle),
            // What was measured is of another time.
            Mode::Ramp(_) | Mode::Lossy(_) if idle.idle_for >= idle.rto => {
                self.cwnd = self.cwnd.min(self.options.initial_window.bytes(self.mtu));
            }
            Mode::Ramp(_) | Mode::Lossy(_) => {}
        }
    }

    fn on_recovered(&mut self, recovered: Recovered) {
        if let Mode::Shared = self.mode {
            self.cubic.on_recovered(recovered);
        }
    }

    fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        self.model.on_app_limited(now, flight_bytes);
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.cubic.on_mtu(mtu);
    }

    fn limit_window(&mut self, at_most: usize) {
        self.cwnd = self.cwnd.min(at_most);
        self.cubic.limit_window(at_most);
    }

    fn begin_again(&mut self, window: usize) {
        *self = Self { cwnd: window, ..Self::new(self.options, self.mtu) };
    }
}
