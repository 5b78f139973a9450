//! The rate of a wire: constant, scheduled, or recorded in a trace; and when the link is down.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};

use super::config_error::ConfigError;
use super::text::{Text, instant, parsed};

/// The bytes of one opportunity of a trace: an Ethernet packet with IP and TUN headers, as in Mahimahi
/// (`PACKET_SIZE`).
pub const OPPORTUNITY_BYTES: usize = 1_504;
/// The most opportunities of a trace.
const OPPORTUNITIES_MAX: usize = 10_000_000;
/// The latest opportunity of a trace, in milliseconds: one day.
const TRACE_MS_MAX: u64 = 86_400_000;
/// The most rate changes, or down times, of a schedule.
const SCHEDULE_MAX: usize = 10_000;

/// The rate of a wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bandwidth {
    /// Packets take no time and never queue.
    Unlimited,
    /// A constant rate.
    Fixed(Rate),
    /// A schedule of rates.
    Steps(Arc<Steps>),
    /// A recorded trace.
    Trace(Arc<Trace>),
}

/// A schedule of rates. A packet on the wire when the rate changes continues at the new rate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    first: Rate,
    /// The start time and the rate of each step, in order of time.
    later: Vec<(Time, Rate)>,
}

impl Steps {
    /// `first`, and from each of these times on another rate.
    pub fn new(first: Rate, later: Vec<(Time, Rate)>) -> Result<Self, ConfigError> {
        if !later.is_sorted_by(|a, b| a.0 < b.0) || later.len() > SCHEDULE_MAX {
            return Err(ConfigError::new(format!(
                "the times of a changing rate rise, and are no more than {SCHEDULE_MAX}, as in 3mbit:1mbit@10s:5mbit@20s"
            )));
        }
        Ok(Self { first, later })
    }

    /// The rate at a time.
    pub fn at(&self, time: Time) -> Rate {
        let past = self.later.partition_point(|(at, _)| *at <= time);
        past.checked_sub(1).map_or(self.first, |last| self.later[last].1)
    }

    /// The lowest rate.
    pub fn slowest(&self) -> Rate {
        self.later.iter().map(|(_, rate)| *rate).chain([self.first]).min().unwrap_or(self.first)
    }

    /// When the last bit is sent of a packet whose transmission starts at `start`; rounded up to whole
    /// nanoseconds.
    fn leaves(&self, start: Time, bytes: usize) -> Time {
        let past = self.later.partition_point(|(at, _)| *at <= start);
        let mut rate = past.checked_sub(1).map_or(self.first, |last| self.later[last].1);
        // In units of one bit per second times one nanosecond.
        let mut work = bytes as u128 * 8 * 1_000_000_000;
        let mut from = start;
        for (at, next) in &self.later[past..] {
            let until = at.since(from).as_nanos() * u128::from(rate.bits_per_second());
            if until >= work {
                break;
            }
            work -= until;
            (from, rate) = (*at, *next);
        }
        from + Duration::from_nanos(work.div_ceil(u128::from(rate.bits_per_second())) as u64)
    }
}

/// Returns the text of the trace with this name, or why it is not available. Links do not read files; their
/// callers may.
pub type Reader<'a> = &'a dyn Fn(&str) -> Result<String, String>;

/// A recorded link in the format of Mahimahi: the milliseconds at which a packet could be sent.
///
/// Each opportunity carries [`OPPORTUNITY_BYTES`]: several packets, or part of one whose rest waits for the
/// next. An unused opportunity is lost, and one at the very instant at which a packet arrives is too early
/// for it. After the last opportunity the trace repeats.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    name: String,
    /// In milliseconds, in order; at least one, and the last one above 0.
    opportunities: Vec<u32>,
}

impl Trace {
    /// Parses the text of a trace: one line per opportunity with its millisecond.
    pub fn parse(name: &str, text: &str) -> Result<Self, ConfigError> {
        let wrong = |line: usize, what: &str| {
            ConfigError::new(format!(
                "{}, line {line}: {what}; a trace has on each line the millisecond at which a packet can leave, none \
                 earlier than the one before, and the last above 0",
                name.escape_debug()
            ))
        };
        let mut opportunities: Vec<u32> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let (line, number) = (line.trim(), index + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let ms: u64 = line.parse().map_err(|_| wrong(number, &format!("`{}`", shortened(line))))?;
            if opportunities.last().is_some_and(|last| u64::from(*last) > ms) {
                return Err(wrong(number, &format!("{ms} is earlier than the one before")));
            }
            if ms > TRACE_MS_MAX || opportunities.len() >= OPPORTUNITIES_MAX {
                return Err(wrong(
                    number,
                    &format!("no more than {OPPORTUNITIES_MAX} lines, up to {TRACE_MS_MAX} ms, are read"),
                ));
            }
            opportunities.push(ms as u32);
        }
        if opportunities.last().is_none_or(|last| *last == 0) {
            return Err(wrong(text.lines().count(), "it ends without any time having passed"));
        }
        Ok(Self { name: name.to_owned(), opportunities })
    }

    /// Reads the text of a trace by its name and parses it.
    pub(super) fn read(name: &str, read: Reader<'_>) -> Result<Self, ConfigError> {
        let text = read(name).map_err(|why| {
            ConfigError::new(format!(
                "cannot read the trace {}: {why}; name a file with a millisecond on each line",
                name.escape_debug()
            ))
        })?;
        Self::parse(name, &text)
    }

    /// The name: the file it was read from.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The mean rate.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.opportunities.len() as u128 * OPPORTUNITY_BYTES as u128 * 8;
        Rate::from_bits_per_second((bits * 1_000 / u128::from(self.period_ms())) as u64)
    }

    fn period_ms(&self) -> u64 {
        u64::from(*self.opportunities.last().expect("a trace has an opportunity"))
    }

    /// The time of an opportunity, counted from 0 through all repetitions.
    fn time(&self, number: u64) -> Time {
        let length = self.opportunities.len() as u64;
        let within = self.opportunities[(number % length) as usize];
        Time::from_millis(number / length * self.period_ms() + u64::from(within))
    }

    /// The first opportunity after a time.
    fn first_after(&self, time: Time) -> u64 {
        let nanos = time.as_nanos();
        let round = nanos / (self.period_ms() * 1_000_000);
        let within = nanos % (self.period_ms() * 1_000_000);
        let past = self.opportunities.partition_point(|ms| u64::from(*ms) * 1_000_000 <= within);
        round * self.opportunities.len() as u64 + past as u64
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(40).collect::<String>().escape_debug().to_string()
}

/// The position of a wire in its trace: the rest of an opportunity.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Opportunity {
    number: u64,
    left_bytes: usize,
}

impl Opportunity {
    /// When an idle wire begins to transmit a packet that arrives now.
    pub(super) fn begin(&mut self, bandwidth: &Bandwidth, now: Time) -> Time {
        let Bandwidth::Trace(trace) = bandwidth else { return now };
        *self = Self { number: trace.first_after(now), left_bytes: OPPORTUNITY_BYTES };
        trace.time(self.number)
    }

    /// When a wire that has just sent a packet begins the next.
    pub(super) fn go_on(&mut self, bandwidth: &Bandwidth, now: Time) -> Time {
        let Bandwidth::Trace(trace) = bandwidth else { return now };
        if self.left_bytes == 0 || trace.time(self.number) != now {
            return self.begin(bandwidth, now);
        }
        now
    }

    /// When the last bit is sent of a packet whose transmission begins at `start`.
    pub(super) fn leaves(&mut self, bandwidth: &Bandwidth, start: Time, bytes: usize) -> Time {
        match bandwidth {
            Bandwidth::Unlimited => start,
            Bandwidth::Fixed(rate) => start + rate.transmit_time(bytes),
            Bandwidth::Steps(steps) => steps.leaves(start, bytes),
            Bandwidth::Trace(trace) => {
                let mut bytes = bytes;
                while bytes > self.left_bytes {
                    bytes -= self.left_bytes;
                    *self = Self { number: self.number + 1, left_bytes: OPPORTUNITY_BYTES };
                }
                self.left_bytes -= bytes;
                trace.time(self.number).max(start)
            }
        }
    }
}

impl Bandwidth {
    /// The lowest sustained rate: of a trace the mean. `None` if unlimited.
    pub fn slowest(&self) -> Option<Rate> {
        match self {
            Self::Unlimited => None,
            Self::Fixed(rate) => Some(*rate),
            Self::Steps(steps) => Some(steps.slowest()),
            Self::Trace(trace) => Some(trace.mean_rate()),
        }
    }

    /// The transmission time of `bytes` at about that time; of a trace in the mean.
    pub(super) fn about(&self, time: Time, bytes: usize) -> Duration {
        match self {
            Self::Unlimited => Duration::ZERO,
            Self::Fixed(rate) => rate.transmit_time(bytes),
            Self::Steps(steps) => steps.at(time).transmit_time(bytes),
            Self::Trace(trace) => trace.mean_rate().transmit_time(bytes),
        }
    }

    /// Parses `unlimited`, `3mbit`, or `3mbit:1mbit@10s:5mbit@20s`.
    pub(super) fn parse(parts: &[&str]) -> Result<Self, ConfigError> {
        match parts {
            ["unlimited"] => Ok(Self::Unlimited),
            [rate] => Ok(Self::Fixed(parsed(rate)?)),
            [first, later @ ..] => {
                let step = |text: &&str| {
                    let Some((rate, at)) = text.split_once('@') else {
                        return Err(ConfigError::new(format!(
                            "`{}` does not say from when on: write rate@time, as in 3mbit:1mbit@10s:5mbit@20s",
                            text.escape_debug()
                        )));
                    };
                    Ok((instant(at)?, parsed(rate)?))
                };
                let later = later.iter().map(step).collect::<Result<_, _>>()?;
                Ok(Self::Steps(Arc::new(Steps::new(parsed(first)?, later)?)))
            }
            [] => Err(ConfigError::new("a rate is missing, as in 3mbit".to_owned())),
        }
    }
}

/// As `key=value`, because a trace has its own key.
impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => write!(f, "rate=unlimited"),
            Self::Fixed(rate) => write!(f, "rate={rate}"),
            Self::Steps(steps) => {
                write!(f, "rate={}", steps.first)?;
                steps.later.iter().try_for_each(|(at, rate)| write!(f, ":{rate}@{}", Text::instant(*at)))
            }
            Self::Trace(trace) => write!(f, "trace={}", trace.name),
        }
    }
}

/// When a link is down: packets passed in are lost. Packets passed in before still arrive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Down {
    /// Never.
    #[default]
    Never,
    /// Between these times, the second excluded; in order.
    Between(Arc<[(Time, Time)]>),
    /// Periodically: at the end of each period.
    Flapping {
        /// The time from one down time to the next.
        period: Duration,
        /// The down time at the end of each period.
        down: Duration,
    },
}

impl Down {
    /// Whether the link is down at this time.
    pub fn at(&self, time: Time) -> bool {
        match self {
            Self::Never => false,
            Self::Between(spans) => {
                let begun = spans.partition_point(|(from, _)| *from <= time);
                begun > 0 && time < spans[begun - 1].1
            }
            Self::Flapping { period, down } => {
                let within = u128::from(time.as_nanos()) % period.as_nanos();
                within >= period.as_nanos() - down.as_nanos()
            }
        }
    }

    /// Parses `never`, or `1s-3s:10s-12s`.
    pub(super) fn parse(parts: &[&str]) -> Result<Self, ConfigError> {
        if parts == ["never"] {
            return Ok(Self::Never);
        }
        let span = |text: &&str| {
            let Some((from, to)) = text.split_once('-') else {
                return Err(ConfigError::new(format!(
                    "`{}` does not say from when to when: write from-to, as in 10s-12s:20s-25s, or never",
                    text.escape_debug()
                )));
            };
            Ok((instant(from)?, instant(to)?))
        };
        let spans: Vec<_> = parts.iter().map(span).collect::<Result<_, _>>()?;
        let each = spans.iter().all(|(from, to)| from < to);
        if !each || !spans.is_sorted_by(|a, b| a.1 <= b.0) || spans.len() > SCHEDULE_MAX {
            return Err(ConfigError::new(format!(
                "the times at which a link is down follow one another, and are no more than {SCHEDULE_MAX}, as in \
                 10s-12s:20s-25s"
            )));
        }
        Ok(Self::Between(spans.into()))
    }

    /// Parses `period:down`, as in `10s:500ms`.
    pub(super) fn parse_flapping(parts: &[&str]) -> Result<Self, ConfigError> {
        let wrong = || {
            ConfigError::new(format!(
                "`{}` is not a flapping: write a period, and for how long at its end the link is down, which is shorter, \
                 as in 10s:500ms",
                parts.join(":").escape_debug()
            ))
        };
        let [period, down] = parts else { return Err(wrong()) };
        let [period, down] = [instant(period)?, instant(down)?].map(|at| at.since(Time::ZERO));
        if down.is_zero() || down >= period {
            return Err(wrong());
        }
        Ok(Self::Flapping { period, down })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(parts: &str) -> Bandwidth {
        Bandwidth::parse(&parts.split(':').collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn a_packet_during_a_rate_change_is_sent_at_both_rates() {
        let bandwidth = rate("8kbit:16kbit@1s:4kbit@2s");
        let leaves = |start, bytes| {
            Opportunity::default().leaves(&bandwidth, Time::from_millis(start), bytes).as_nanos() / 1_000_000
        };
        assert_eq!(leaves(0, 500), 500);
        assert_eq!(leaves(0, 1_000), 1_000);
        assert_eq!(leaves(500, 1_000), 1_250); // 500 bytes by 1 s, and 500 at twice the rate
        assert_eq!(leaves(500, 3_000), 3_000); // 500 bytes, then 2,000, and 500 in a second more
        assert_eq!(leaves(5_000, 500), 6_000);
    }

    #[test]
    fn a_trace_gives_the_opportunities_and_repeats() {
        let trace = Trace::parse("t", "2\n2\n# two at once\n\n5\n10\n").unwrap();
        // Four packets of 1,504 bytes in 10 ms.
        assert_eq!(trace.mean_rate().bits_per_second(), 4 * 1_504 * 8 * 100);
        let times: Vec<_> = (0..9).map(|number| trace.time(number).as_nanos() / 1_000_000).collect();
        assert_eq!(times, [2, 2, 5, 10, 12, 12, 15, 20, 22]);
        for (after, number) in
            [(0, 0), (1, 0), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (12, 6), (19, 7), (20, 8)]
        {
            assert_eq!(trace.first_after(Time::from_millis(after)), number, "after {after}");
        }
    }

    #[test]
    fn errors_of_malformed_traces_name_the_line() {
        for (text, said) in [
            ("", "without any time having passed"),
            ("0\n0\n", "without any time having passed"),
            ("1\nx\n", "t, line 2: `x`"),
            ("3\n2\n", "line 2: 2 is earlier"),
            ("-1\n", "`-1`"),
            ("86400001", "up to 86400000 ms"),
        ] {
            let error = Trace::parse("t", text).unwrap_err().to_string();
            assert!(error.contains(said), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_link_is_down_at_the_scheduled_times() {
        let down = Down::parse(&["1s-3s", "10s-12s"]).unwrap();
        let at = |ms| down.at(Time::from_millis(ms));
        let times = [0, 999, 1_000, 2_999, 3_000, 9_999, 10_000, 12_000];
        assert_eq!(times.map(at), [false, false, true, true, false, false, true, false]);
        let flapping = Down::parse_flapping(&["10s", "500ms"]).unwrap();
        let at = |ms| flapping.at(Time::from_millis(ms));
        let times = [0, 9_499, 9_500, 9_999, 10_000, 19_499, 19_500];
        assert_eq!(times.map(at), [false, false, true, true, false, false, true]);
    }
}
