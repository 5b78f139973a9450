//! `auto`: one controller for every path. It is CUBIC (RFC 9438) where losses indicate congestion, sends by a
//! model of the path where losses are random, and decides between the two from evidence. `docs/auto.md`
//! describes the algorithm and each constant.
//!
//! **Motivation.** A controller that treats each loss as congestion cannot fill a path with random losses:
//! the windows of CUBIC and Reno stay near 1.2/√p segments, 4 at p = 10 %. A controller that ignores losses,
//! as the first version of BBR does (draft-cardwell-iccrg-bbr-congestion-control-00), starves CUBIC and Reno
//! at short queues. Earlier work classifies losses by the spacing of arrivals (Biaz, Vaidya: "Discriminating
//! Congestion Losses from Wireless Losses Using Inter-Arrival Times at the Receiver", ASSET 1999), by one-way
//! delay against thresholds (Tobe, Tamura, Molano, Ghosh, Tokuda: "Achieving Moderate Fairness for UDP Flows
//! by Path-Status Classification", LCN 2000: Spike), by both in turn (Cen, Cosman, Voelker: "End-to-End
//! Differentiation of Congestion and Wireless Losses", ToN 11(5), 2003: ZigZag), or by the number of queued
//! packets (TCP Veno: Fu, Liew, JSAC 21(2), 2003); TCP Westwood reduces to the measured rate without
//! classifying (Mascolo, Casetti, Gerla, Sanadidi, Wang, MobiCom 2001). All but the last need a threshold or
//! a base RTT. `evidence` takes ranks of RTTs, which need neither; where the RTTs are all alike, it uses the
//! longest queue seen.
//!
//! **States.**
//! - *Ramp*: the window grows exponentially, through losses not shown to be congestion. The first flight is
//!   sent at once, so the spacing of its acknowledgements shows the rate of the path. While the window is
//!   below half of what fills the path at that rate, a round trip may grow it twentyfold (SUSS, by Arghavani,
//!   Zhang, Eyers and Arghavani, SIGCOMM 2024, uses the same sign for up to fourfold growth), if what arrives confirms the rate. It then
//!   doubles, and beyond that rate grows by an eighth per round trip, or more if more arrives: an overflow at the end of the ramp
//!   would end the slow start of a competing flow and cost that flow its share for minutes. The ramp ends by
//!   HyStart++ (RFC 9406) or when the delivery rate has not grown for three round trips, with a window
//!   slightly larger than what fills the path. That window is also the response to losses of packets sent
//!   before.
//! - *Shared*: CUBIC, unless the evidence is clear. The plateau is halfway to the former window, so that
//!   flows of this kind converge to equal shares after some losses. Where Reno would need twice as long as
//!   CUBIC to regain its window, the window grows no faster than Reno's while there is a queue and either
//!   `competing_flows` are slow or this flow has half of what the path was seen to carry. With more than half
//!   beside slow flows the window shrinks as long as that shortens the queue: losses are minutes apart on
//!   such a path and would be the only other means of convergence. A window of less than a third grows as
//!   CUBIC until it is half, as does one whose first flight was lost and gave no rate. With a queue of
//!   seconds the window does not grow, nor with any queue while the flow is alone; alone, a loss costs it no more than the queue
//!   holds (H-TCP, draft-leith-tcp-htcp). If a full window causes no standing queue in three round trips, the path
//!   carries more than before: the window grows by a tenth in each further one. Windows are whole packets, as TCP's are in effect, and windows of
//!   fewer than 32 packets are not paced: evenly spaced packets would take more of a short queue than the
//!   pairs of packets of competing flows.
//! - *Lossy*: paced at the measured delivery rate plus the loss rate, with a probe and its drain in every
//!   eight round trips, a window slightly larger than what fills the path, and no response to single losses.
//!   Between probes packets are sent a tenth faster while fewer are in flight than the path and four packets
//!   of queue hold: losses are irregular, and a link that receives exactly its rate idles after each.
//!   It differs from the first version of BBR in three ways. A probe without gain makes the next one smaller.
//!   If the drains have not shown the shortest RTT, half of the path is emptied instead of all but four
//!   packets. The window is not two bandwidth-delay products: several such flows keep a queue of a whole
//!   product full, and competing flows take the losses for congestion and starve. The window is one product
//!   plus a tenth plus four packets: the tenth limits how far the shares of such flows differ, and the
//!   packets equalize them.
//!
//! **Back to CUBIC**: by ranks that indicate congestion, an ECN mark, or a loss of more than 17 % of 250
//! packets (39 % among the first 2,000 packets). The window is then what was delivered in a round trip,
//! reduced as CUBIC reduces.
//!
//! The SCTP profile `modern` uses `auto`.
//!
//! **Limitations.** A Reno flow whose slow start meets a ramp over a path of hundreds of milliseconds and
//! thousands of packets needs minutes to recover, as it does beside another Reno flow. Beside several Reno
//! flows over such a path, `auto` is CUBIC up to half of what the path carries. Flows of this kind in slow
//! growth take as long as Reno flows to converge. A SACK in 1500 bytes has room for 360 gap blocks (RFC 9260
//! §6.7: the lowest ones), and a gap lasts a round trip: over paths that lose more packets than that per
//! round trip, at most 360 are repaired in one, unless the peer supports COMPACT-SACK.

mod competing_flows;
mod constants;
mod evidence;
mod model;
mod ramp;
#[cfg(test)]
mod tests;

use std::time::Duration;

use braidftp_base::{Rate, Time};

use self::competing_flows::CompetingFlows;
pub use self::constants::Constants;
use self::evidence::{Evidence, WEIGHT_MAX};
use self::model::{Model, bytes_in};
use self::ramp::Ramp;
use crate::cubic::{BETA, Cubic, WindowGrowth};
use crate::{Ack, Cause, Congestion, Controller, Idle, Lost, Options, Recovered, Sent, Spurious};

/// "Arbitrarily high" (RFC 5681 §3.1).
const SSTHRESH_INITIAL: usize = u32::MAX as usize;
/// Larger than any path holds.
const WINDOW_MAX: usize = u32::MAX as usize;
/// The controller; see the module documentation.
#[derive(Debug, Clone)]
pub struct Auto {
    mtu: usize,
    mode: Mode,
    /// The window in bytes in `Ramp` and `Lossy`.
    cwnd: usize,
    /// The window in `Shared`, and the estimate of competing flows.
    cubic: Cubic,
    /// The windows of other paths of this association that share the bottleneck, in bytes: they count as one
    /// flow.
    siblings: usize,
    /// Bytes in flight after the last packet, acknowledgement or loss.
    flight: usize,
    competing: CompetingFlows,
    model: Model,
    evidence: Evidence,
    srtt: Duration,
    latest_rtt: Duration,
    /// The shortest RTT ever.
    base_rtt: Option<Duration>,
    /// The shortest RTT of the last round trip.
    round_rtt: Duration,
    /// The highest rate seen on the path in bytes per second, other flows included, if the first flight
    /// showed it.
    carries: Option<u64>,
    /// When a ramp that found the capacity itself ended.
    ramped_at: Time,
    /// Whether the latest lost packets were sent during the ramp; the window at its end is already the
    /// response to them.
    lost_in_ramp: bool,
    /// When a loss of a packet sent after the last such time was detected, and the window then; or the same for a mark.
    limit: (Time, usize),
    /// The number of successive round trips in which a full window of CUBIC caused no standing queue.
    without_queue: u32,
    /// Whether the window was full in the last round trip, and in this one.
    full: [bool; 2],
    /// The state before the last reduction, if the reduction can be undone: mode, window, CUBIC and competing
    /// flows.
    before: Option<Box<(Mode, usize, Cubic, CompetingFlows)>>,
}

#[derive(Debug, Clone)]
enum Mode {
    /// Exponential growth.
    Ramp(Ramp),
    /// CUBIC.
    Shared,
    /// The model.
    Lossy(Cycle),
}

/// The probing cycle of the model.
#[derive(Debug, Clone, Copy)]
struct Cycle {
    phase: usize,
    began: Time,
    /// What to drain first.
    drain: Option<Drain>,
    /// The path's rate before the probe, in bytes per second.
    rate: u64,
    /// The excess of the probe, in hundredths.
    probe: u64,
    /// The number of successive probes that found more.
    streak: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drain {
    /// The queue that a ramp filled.
    Queue,
    /// The packets of queue that the model keeps, to see the shortest RTT.
    Own,
    /// Half of the path too, to see the shortest RTT where other flows keep a queue.
    Path,
}

impl Cycle {
    fn new(now: Time, rate: u64, constants: &Constants) -> Self {
        Self { phase: 0, began: now, drain: None, rate, probe: constants.probe_max, streak: 0 }
    }

    /// The gain of the pacing rate, in hundredths; between probes `refill` more.
    fn gain(&self, refill: u64) -> u64 {
        match (self.drain, self.phase) {
            (Some(_), _) => 50,
            (None, 0) => 100 + self.probe,
            (None, 1) => 100 - self.probe,
            _ => 100 + refill,
        }
    }
}

impl Auto {
    /// Creates a controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        Self {
            mtu,
            mode: Mode::Ramp(Ramp::default()),
            cwnd: options.initial_window.bytes(mtu),
            cubic: Cubic::new(options, mtu),
            siblings: 0,
            flight: 0,
            competing: CompetingFlows::new(options.auto),
            model: Model::new(options.auto),
            evidence: Evidence::new(options.auto),
            srtt: Duration::ZERO,
            latest_rtt: Duration::ZERO,
            base_rtt: None,
            round_rtt: Duration::MAX,
            carries: None,
            ramped_at: Time::ZERO,
            lost_in_ramp: false,
            limit: (Time::ZERO, 0),
            without_queue: 0,
            full: [false; 2],
            before: None,
        }
    }

    const fn constants(&self) -> &'static Constants {
        self.cubic.options().auto
    }

    fn spare(&self) -> usize {
        self.constants().spare_mtus * self.mtu
    }

    fn min_rtt(&self) -> Duration {
        self.model.min_rtt().unwrap_or(self.srtt)
    }

    /// The limit of the flight in the model.
    fn target(&self) -> usize {
        let hundredths = match &self.mode {
            Mode::Lossy(Cycle { phase: 0, .. }) => 100 + self.constants().probe_max,
            _ => self.constants().window,
        };
        self.model.window(hundredths).saturating_add(self.spare()).min(WINDOW_MAX)
    }

    /// The gain by which the model refills the path between probes, in hundredths: none if the path and a queue of a few packets
    /// are full.
    fn refill(&self) -> u64 {
        let is_full = self.flight >= self.model.window(100).saturating_add(self.spare());
        if is_full { 0 } else { self.constants().probe_min }
    }

    fn is_random(&self) -> bool {
        let below = match &self.mode {
            Mode::Ramp(_) if self.latest_rtt <= self.min_rtt() * 9 / 8 => {
                self.constants().congestion_at + WEIGHT_MAX
            }
            Mode::Ramp(_) => self.constants().congestion_at,
            Mode::Lossy(_) => self.constants().congestion_in_model_at,
            Mode::Shared => self.constants().random_at,
        };
        let loss_max = if self.model.losses.is_long() {
            self.constants().loss_max
        } else {
            self.constants().loss_max_at_first
        };
        self.evidence.score() <= below && self.model.losses.last <= loss_max
    }

    /// Switches to CUBIC with a window of at most `window` bytes.
    fn enter_shared(&mut self, window: usize) {
        let window = self.cwnd.min(window.max(self.spare()));
        self.cubic = Cubic::halfway(*self.cubic.options(), self.mtu, window);
        self.competing.reset();
        self.mode = Mode::Shared;
    }

    /// Responds to congestion.
    fn respond_to_congestion(&mut self, congestion: Congestion) {
        let mut congestion = congestion;
        let undoable = congestion.cause != Cause::Ecn;
        self.before =
            undoable.then(|| Box::new((self.mode.clone(), self.cwnd, self.cubic.clone(), self.competing)));
        if !matches!(self.mode, Mode::Shared) {
            let queued = self.srtt.max(self.latest_rtt).max(self.constants().shortest);
            let delivered = bytes_in(self.model.recent_rate(2), queued);
            let arriving = match &self.mode {
                Mode::Ramp(ramp) => ramp.round.arriving(congestion.now, queued),
                Mode::Shared | Mode::Lossy(_) => 0,
            };
            self.enter_shared(delivered.max(arriving));
            congestion.flight_bytes = self.cubic.window();
        }
        let window = self.cubic.window();
        let large = self.is_large();
        self.cubic.reduce(congestion, self.beta(congestion.cause));
        if large && congestion.cause == Cause::Loss && self.evidence.score() < -self.constants().congestion_at
        {
            self.cubic.raise(window / 100 * self.constants().leaning_cut);
        }
        if let Some(before) = self.competing.on_reduction(window, self.cubic.ssthresh().min(window)) {
            self.cubic.aim_at(before);
        }
    }

    /// β of a reduction, in hundredths: that of CUBIC, or for a flow that is alone what empties a short queue, as in H-TCP
    /// (draft-leith-tcp-htcp §3). With less the path would be idle until the window has grown again; beside others it is not, and
    /// larger reductions equalize shares sooner.
    fn beta(&self, cause: Cause) -> usize {
        let queued = self.srtt.max(self.latest_rtt);
        match self.base_rtt {
            Some(base) if self.is_alone(queued) && cause == Cause::Loss && self.siblings == 0 => {
                let part = (100 * base.as_nanos()).checked_div(queued.as_nanos());
                let part = part.and_then(|part| usize::try_from(part).ok()).unwrap_or(BETA);
                part.min(self.constants().beta_max).max(BETA)
            }
            _ => BETA,
        }
    }

    /// Whether Reno would need twice as long as CUBIC to regain this window.
    fn is_far(&self) -> bool {
        let packets = (self.all_windows() / self.mtu.max(1)) as u128;
        packets.pow(2).saturating_mul(self.srtt.as_millis().saturating_pow(3)) > self.constants().far
    }

    /// The share of CUBIC's windows in all data in flight, in hundredths, if the capacity is known.
    fn part(&self) -> Option<usize> {
        self.part_of(self.srtt)
    }

    /// The same at a given RTT.
    fn part_of(&self, rtt: Duration) -> Option<usize> {
        let all = bytes_in(self.carries?, rtt);
        self.all_windows().saturating_mul(100).checked_div(all)
    }

    /// Whether CUBIC's window is so large that it is paced.
    fn is_large(&self) -> bool {
        self.cubic.window() >= self.constants().paced_mtus * self.mtu
    }

    /// Whether CUBIC's windows are nearly all data in flight at this RTT.
    fn is_alone(&self, rtt: Duration) -> bool {
        self.part_of(rtt).is_some_and(|part| part >= self.constants().alone)
    }

    fn all_windows(&self) -> usize {
        self.cubic.window().saturating_add(self.siblings)
    }

    /// Updates the share after a round trip: it falls after a loss and when other flows fill the queue.
    fn update_share(&mut self) {
        let Some(part) = self.part() else { return };
        if part < self.constants().behind && self.is_far() {
            self.competing.fall_behind();
        } else if part >= self.constants().caught_up {
            self.competing.catch_up();
        }
    }

    /// Whether the flow may leave room for slow competing flows. Where the capacity is unknown because
    /// others' queue dropped the first flight, it may not.
    fn may_leave_room(&self) -> bool {
        self.part().is_some_and(|part| part >= self.constants().caught_up || self.competing.are_slow())
    }

    /// Whether this flow has more than half of the path and a slow flow the rest; checked with the latest RTT
    /// too, because the smoothed RTT lags behind the queue after a loss.
    fn may_shrink(&self) -> bool {
        let is_most = |rtt| {
            self.part_of(rtt)
                .is_some_and(|part| part > self.constants().caught_up && part < self.constants().alone)
        };
        self.competing.are_slow() && is_most(self.srtt) && is_most(self.latest_rtt)
    }

    /// Raises CUBIC's window by as much as the model's least probe in each round trip, from the third on, in which a
    /// full window caused no standing queue. `shortest` is the shortest RTT of the last round trip. Up to 9/8 of
    /// the window of the last loss nothing is raised: the queue may be too short to see.
    fn use_rate_that_grew(&mut self, ack: &Ack<'_>, shortest: Option<Duration>) {
        let window = self.cubic.window();
        let is_full = !self.model.is_app_limited() && self.full[0];
        let has_no_queue = shortest
            .zip(self.base_rtt)
            .is_some_and(|(shortest, base)| shortest <= base + self.model.near_shortest(base, ack.mtu));
        let is_beyond = window >= self.cubic.ssthresh() && window > self.limit.1 / 8 * 9;
        if !is_full || !has_no_queue || !is_beyond || self.siblings > 0 {
            self.without_queue = 0;
            return;
        }
        self.without_queue += 1;
        // The RTTs of a round trip are those of packets sent in the one before, and it takes two to know that the
        // window was full in between.
        if self.without_queue > 2 {
            self.cubic.grow_to(window / 100 * (100 + self.constants().probe_min as usize));
        }
    }

    /// Whether the window was full in this round trip or the one before, as in Linux (`tcp_is_cwnd_limited`): where acknowledgements
    /// arrive in bursts, the pacing rate delays what they permit.
    fn was_full(&mut self, ack: &Ack<'_>, round: bool) -> bool {
        if round {
            self.full = [self.full[1], false];
        }
        self.full[1] |= ack.flight_before + ack.mtu > self.cubic.window();
        self.full[0] || self.full[1]
    }

    /// The growth mode of CUBIC's window.
    fn growth(&self) -> WindowGrowth {
        let base = self.base_rtt.unwrap_or(self.srtt);
        let little = (base / 8).max(self.constants().shortest);
        let queue = self.srtt.saturating_sub(base);
        // RTTs that vary are longer without a queue.
        let stands = self.round_rtt.min(self.srtt).saturating_sub(base) > little;
        if queue > (base * 7).max(self.constants().queue_max) {
            WindowGrowth::Hold
        } else if queue <= little {
            WindowGrowth::Cubic
        } else if stands && self.is_large() && self.siblings == 0 && self.is_alone(self.srtt) {
            // More would only make the queue longer.
            WindowGrowth::Hold
        } else if self.may_leave_room() && self.is_far() {
            if self.may_shrink() { WindowGrowth::Shrink } else { WindowGrowth::Reno }
        } else {
            WindowGrowth::Cubic
        }
    }

    fn initial_window(&self) -> usize {
        self.cubic.options().initial_window.bytes(self.mtu)
    }

    /// Switches to the model once the ramp's queue is drained, if the losses were random before the queue
    /// grew.
    fn drain(&mut self, now: Time) -> bool {
        let Mode::Ramp(Ramp { score, .. }) = self.mode else { return false };
        if score > self.constants().random_in_ramp_at {
            return false;
        }
        self.evidence.settle_at(score);
        self.mode = Mode::Lossy(Cycle {
            drain: Some(Drain::Queue),
            ..Cycle::new(now, self.model.rate(), self.constants())
        });
        true
    }

    fn cycle(&mut self, ack: &Ack<'_>) {
        let (product, target, spare) = (self.model.product(), self.target(), self.spare());
        let (rate, lately) = (self.model.rate(), self.model.recent_rate(4));
        let (min_rtt, srtt, filled) = (self.min_rtt(), self.srtt, self.model.window(100));
        let flight = self.flight;
        let constants = self.constants();
        let Mode::Lossy(cycle) = &mut self.mode else { return };
        if cycle.phase > 1
            && cycle.drain.is_none()
            && let Some(drain) = self.model.drain_for_min_rtt(ack.now)
        {
            *cycle = Cycle { drain: Some(drain), ..Cycle::new(ack.now, rate, constants) };
        }
        let lasted = ack.now.since(cycle.began);
        if let Some(drain) = cycle.drain {
            let empty = match drain {
                Drain::Queue => product + spare,
                Drain::Own => filled,
                Drain::Path => product / 2,
            };
            if flight <= empty || lasted > 2 * srtt {
                *cycle = Cycle { phase: 2, ..Cycle::new(ack.now, rate, constants) };
            }
        } else if lasted >= min_rtt || (cycle.phase == 1 && flight <= product) {
            cycle.phase = (cycle.phase + 1) % constants.phases;
            cycle.began = ack.now;
            // The effect of a probe is measured one round trip after the probe.
            if cycle.phase == 3 {
                let grown = lately > cycle.rate + cycle.rate / 200 * cycle.probe;
                cycle.rate = rate;
                if !grown {
                    (cycle.probe, cycle.streak) = ((cycle.probe / 2).max(constants.probe_min), 0);
                } else if cycle.streak == 0 {
                    (cycle.probe, cycle.streak, cycle.phase) = (constants.probe_max, 1, 0);
                } else {
                    self.mode = Mode::Ramp(Ramp::again());
                    return;
                }
            }
        }
        self.cwnd = self.cwnd.saturating_add(ack.bytes).min(target);
    }

    /// A rate of so many hundredths of the window per RTT, or per feedback delay where acknowledgements
    /// return sooner on another path.
    fn pace(&self, hundredths: u128) -> Option<Rate> {
        self.pace_by(hundredths, self.srtt)
    }

    /// The same for this RTT, if no other one is shorter.
    fn pace_by(&self, hundredths: u128, rtt: Duration) -> Option<Rate> {
        // The smoothed RTT lags behind the queue after a reduction.
        let lately = rtt.min(self.srtt).min(self.latest_rtt);
        let turn = self.model.cross_path_delay().map_or(lately, |after| after.min(lately));
        let bits = (self.window() as u128 * 8 * hundredths * 10_000_000).checked_div(turn.as_nanos())?;
        Some(Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX).max(1)))
    }
}

impl Controller for Auto {
    fn window(&self) -> usize {
        match self.mode {
            // Rounds down to whole packets: a fraction would let one more packet be sent.
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
            // The first flight leaves in one burst, whose acknowledgements show the rate of the path: also where the RTT is known
            // from small messages before it.
            Mode::Ramp(ramp) if ramp.train.first_at.is_none() && self.cwnd < 2 * self.initial_window() => {
                None
            }
            Mode::Ramp(ramp) if ramp.train.rate == 0 => self.pace(200),
            // Between half of the train's rate and all of it, except for a window larger than the train's.
            Mode::Ramp(ramp) => {
                let bits = ramp.train.rate.saturating_mul(8);
                let [half, all] = [bits / 2, bits].map(Rate::from_bits_per_second);
                let shown = self.pace(400)?.min(all).max(half);
                let is_beyond = self.cwnd > bytes_in(ramp.train.rate, self.min_rtt());
                Some(if is_beyond { shown.max(self.pace(120)?) } else { shown })
            }
            Mode::Shared if !self.is_large() => None,
            Mode::Shared if self.cubic.window() < self.cubic.ssthresh() => self.pace(200),
            Mode::Shared => self.pace_by(120, self.round_rtt),
            Mode::Lossy(cycle) => self.model.pace(cycle.gain(self.refill())),
        }
    }

    fn counts_arrivals(&self) -> bool {
        true
    }

    fn on_sent(&mut self, sent: Sent) {
        self.flight = sent.flight_before.saturating_add(sent.bytes);
        if let Mode::Ramp(ramp) = &mut self.mode {
            ramp.train.on_sent(sent.now, self.flight, self.mtu);
        }
        self.model.on_sent(sent);
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.mtu = ack.mtu;
        self.flight = ack.flight_before.saturating_sub(ack.bytes);
        self.siblings = ack.siblings.iter().map(|view| view.window).sum();
        self.srtt = ack.srtt.or(ack.rtt).unwrap_or(self.srtt);
        if let Some(rtt) = ack.rtt {
            self.latest_rtt = rtt;
            self.base_rtt = Some(self.base_rtt.map_or(rtt, |base| base.min(rtt)));
            self.evidence.on_sample(ack.now, rtt);
        }
        let round = self.model.on_ack(&ack);
        let mut shortest = None;
        if round {
            shortest = self.evidence.on_round(ack.now);
            self.round_rtt = shortest.unwrap_or(self.srtt);
            self.carries = self.carries.map(|carries| carries.max(self.model.rate()));
        }
        if round && matches!(self.mode, Mode::Shared) {
            self.evidence.expect_congestion();
            if self.is_random() {
                // Pacing at the former rate makes a full window safe at once.
                self.cwnd = self.target().max(self.cubic.window());
                self.mode = Mode::Lossy(Cycle::new(ack.now, self.model.rate(), self.constants()));
            }
        }
        match &self.mode {
            Mode::Ramp(_) => self.ramp(&ack, round),
            Mode::Shared => {
                let was_full = self.was_full(&ack, round);
                if round {
                    self.update_share();
                    self.use_rate_that_grew(&ack, shortest);
                }
                let growth = self.growth();
                match growth {
                    WindowGrowth::Reno if round => self.competing.on_round(self.srtt, self.cubic.window()),
                    WindowGrowth::Shrink if round => {
                        self.competing.on_shrinking(self.srtt, self.cubic.window())
                    }
                    WindowGrowth::Reno | WindowGrowth::Shrink => {}
                    WindowGrowth::Cubic | WindowGrowth::Hold => self.competing.pause(),
                }
                self.cubic.on_ack_with(ack, growth, was_full);
            }
            Mode::Lossy(_) => self.cycle(&ack),
        }
    }

    fn on_lost(&mut self, lost: Lost) {
        self.mtu = lost.mtu;
        self.flight = lost.flight_bytes;
        self.model.on_lost(&lost);
        self.evidence.on_lost(lost.sent_at);
        self.lost_in_ramp = lost.sent_at < self.ramped_at;
        // Packets sent before met the same window.
        if lost.sent_at >= self.limit.0 {
            self.limit = (lost.now, self.window());
        }
        if self.is_random() {
            return;
        }
        let Lost { now, mtu, flight_bytes, .. } = lost;
        match self.mode {
            // `on_congestion` reduces CUBIC once per recovery.
            Mode::Shared => {}
            Mode::Ramp(_) | Mode::Lossy(_) => {
                if self.drain(now) {
                    return;
                }
                self.respond_to_congestion(Congestion { cause: Cause::Loss, now, flight_bytes, mtu });
            }
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.mtu = congestion.mtu;
        match (congestion.cause, &self.mode) {
            (Cause::Ecn, _) => {
                self.evidence.on_mark();
                self.limit = (congestion.now, self.window());
                self.respond_to_congestion(congestion);
            }
            // `on_lost` has handled it. After a time-out the transport sends one packet until the next
            // acknowledgement.
            (Cause::Loss, Mode::Ramp(_) | Mode::Lossy(_)) | (Cause::Timeout, Mode::Lossy(_)) => {}
            (Cause::Timeout, Mode::Ramp(_)) if self.evidence.score() < 0 => {}
            // Others' queue dropped the whole first flight, which says nothing about the capacity.
            (Cause::Timeout, Mode::Ramp(_)) if self.base_rtt.is_none() => self.cwnd = self.mtu,
            (Cause::Loss, Mode::Shared) if self.is_random() || self.lost_in_ramp => {}
            _ => self.respond_to_congestion(congestion),
        }
    }

    fn on_spurious(&mut self, _spurious: Spurious) {
        if let Some(before) = self.before.take() {
            (self.mode, self.cwnd, self.cubic, self.competing) = *before;
        }
    }

    fn on_idle(&mut self, idle: Idle) {
        self.mtu = idle.mtu;
        // Where each transfer waits for a command, a round trip passes between two of them. An RTO hardly longer than the round
        // trip would otherwise restart the window at each transfer.
        let idle = Idle { idle_for: idle.idle_for.saturating_sub(self.srtt), ..idle };
        match self.mode {
            Mode::Shared => self.cubic.on_idle(idle),
            // The measurements are out of date.
            Mode::Ramp(_) | Mode::Lossy(_) if idle.idle_for >= idle.rto => {
                self.cwnd = self.cwnd.min(self.cubic.options().initial_window.bytes(self.mtu));
            }
            Mode::Ramp(_) | Mode::Lossy(_) => {}
        }
    }

    fn trim(&mut self) {
        self.model.trim();
        self.evidence.trim();
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

    fn restart_window(&mut self, window: usize) {
        *self = Self { cwnd: window, ..Self::new(*self.cubic.options(), self.mtu) };
    }
}
