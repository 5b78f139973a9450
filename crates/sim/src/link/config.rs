//! The properties of a link, and their notation: `rate=3mbit,delay=1ms,loss=0.03,queue=500kB`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::config_error::ConfigError;
use super::loss::{GilbertElliott, Loss};
use super::queue::{CoDel, Management, Queue, Red};
use super::text::{Text, bytes, duration, parsed, probability};
use super::wire::{Bandwidth, Down, Reader, Trace};
use crate::random::Probability;

/// The range of the overhead per packet, in bytes.
const OVERHEAD: RangeInclusive<usize> = 0..=65_535;
/// The most packets that a loss script may name.
const SCRIPT_MAX: usize = 100_000;

/// The range of a link's MTU, in bytes: every IP module forwards packets of the minimum (RFC 791 §3.2).
const MTU: RangeInclusive<usize> = 68..=65_535;

/// A reader for callers without files.
const NO_FILES: Reader<'static> = &|_| Err("there are no files here".to_owned());

/// The properties of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkConfig {
    /// Which packets are lost. Default: none.
    pub loss: Loss,
    /// The limit of the queue. Default: 500 kB, as in the papers' experiments.
    pub queue: Queue,
    /// The queue length from which ECN-capable packets are marked, independent of the queue's management.
    /// `None`: no such marks.
    pub ecn: Option<Queue>,
    /// The queue's management before it is full. Default: none.
    pub management: Management,
    /// The rate. Default: unlimited.
    pub rate: Bandwidth,
    /// When the link is down. Default: never.
    pub down: Down,
    /// The propagation delay. Default: none.
    pub delay: Duration,
    /// The maximum of a random additional delay that preserves the order of packets. Default: none.
    pub jitter: Duration,
    /// Whether some packets are held back. Default: no.
    pub reorder: Option<Reorder>,
    /// The probability that a packet is duplicated. Default: 0.
    pub duplicate: Probability,
    /// The probability that a bit of a packet is flipped. Default: 0.
    pub corrupt: Probability,
    /// The bytes of a packet on the wire beyond its payload: 28 for UDP in IPv4, 48 in IPv6, 0 for whole IP
    /// packets. Default: 28.
    pub overhead_bytes: usize,
    /// Packets longer on the wire, in bytes, are dropped silently, except those that IP may fragment ([`HasDatagram`](super::HasDatagram)).
    /// `None`: no limit.
    pub mtu: Option<usize>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            loss: Loss::None,
            queue: Queue::Bytes(500_000),
            ecn: None,
            management: Management::None,
            rate: Bandwidth::Unlimited,
            down: Down::Never,
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            reorder: None,
            duplicate: Probability::NEVER,
            corrupt: Probability::NEVER,
            overhead_bytes: 28,
            mtu: None,
        }
    }
}

/// Packets held back so that later ones overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reorder {
    /// The probability that a packet is held back.
    pub probability: Probability,
    /// The delay, in addition to the link's.
    pub extra_delay: Duration,
}

impl LinkConfig {
    /// The names that [`LinkConfig::set`] accepts.
    pub const KEYS: &[&str] = &[
        "rate",
        "trace",
        "delay",
        "jitter",
        "loss",
        "burst-loss",
        "lose",
        "queue",
        "ecn",
        "red",
        "codel",
        "down",
        "flap",
        "reorder",
        "duplicate",
        "corrupt",
        "overhead",
        "mtu",
    ];

    /// Sets one property from text, as in `set("rate", "3mbit")`. Lists are separated by `,` or `:`.
    ///
    /// # Errors
    ///
    /// The property is unknown or the value invalid. Traces are not found: see [`LinkConfig::set_reading`].
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        self.set_reading(key, value, NO_FILES)
    }

    /// As [`LinkConfig::set`]; `read` resolves the names of traces.
    ///
    /// # Errors
    ///
    /// The property is unknown or the value invalid.
    pub fn set_reading(&mut self, key: &str, value: &str, read: Reader<'_>) -> Result<(), ConfigError> {
        let parts: Vec<_> = value.split([',', ':']).map(str::trim).collect();
        match (key, &parts[..]) {
            ("rate", parts) => self.rate = Bandwidth::parse(parts)?,
            ("trace", [file]) => self.rate = Bandwidth::Trace(Arc::new(Trace::read(file, read)?)),
            ("trace", _) => {
                return Err(ConfigError::new(format!(
                    "`{}` is not one file name: copy the trace to one without `,` and `:`",
                    value.escape_debug()
                )));
            }
            ("delay", [delay]) => self.delay = duration(delay)?,
            ("jitter", [jitter]) => self.jitter = duration(jitter)?,
            ("loss", [loss]) => self.loss = bernoulli(probability(loss)?),
            ("burst-loss", [p, r, rest @ ..]) if rest.len() <= 2 => {
                let part =
                    |index: usize, default| rest.get(index).map_or(Ok(default), |text| probability(text));
                self.loss = Loss::GilbertElliott(GilbertElliott {
                    to_bad: probability(p)?,
                    to_good: probability(r)?,
                    pass_good: part(0, Probability::ALWAYS)?,
                    pass_bad: part(1, Probability::NEVER)?,
                });
            }
            ("burst-loss", _) => {
                return Err(ConfigError::new(format!(
                    "`{}` is not a burst loss: write p,r or p,r,k,h, four probabilities: that the link turns bad, \
                     that it turns good, that a packet passes while it is good (1), and while it is bad (0)",
                    value.escape_debug()
                )));
            }
            ("lose", numbers) => self.loss = script(numbers)?,
            ("queue", [queue]) => self.queue = parsed::<Queue>(queue)?,
            ("ecn", ["none"]) => self.ecn = None,
            ("ecn", [queue]) => self.ecn = Some(parsed::<Queue>(queue)?),
            ("red" | "codel", ["none"]) => self.management = Management::None,
            ("red", parts) => self.management = Management::Red(Red::parse(parts)?),
            ("codel", parts) => self.management = Management::CoDel(CoDel::parse(parts)?),
            ("down", parts) => self.down = Down::parse(parts)?,
            ("flap", parts) => self.down = Down::parse_flapping(parts)?,
            ("reorder", [probability_text, rest @ ..]) if rest.len() <= 1 => {
                let probability = probability(probability_text)?;
                let extra_delay =
                    rest.first().map_or(Ok(Duration::from_millis(10)), |text| duration(text))?;
                self.reorder =
                    (probability > Probability::NEVER).then_some(Reorder { probability, extra_delay });
            }
            ("reorder", _) => {
                return Err(ConfigError::new(format!(
                    "`{}` is not a reordering: write a probability and perhaps a delay, as in 0.01,10ms",
                    value.escape_debug()
                )));
            }
            ("duplicate", [value]) => self.duplicate = probability(value)?,
            ("corrupt", [value]) => self.corrupt = probability(value)?,
            ("overhead", [value]) => self.overhead_bytes = bytes(value, OVERHEAD)?,
            ("mtu", ["none"]) => self.mtu = None,
            ("mtu", [value]) => self.mtu = Some(bytes(value, MTU)?),
            (
                "delay" | "jitter" | "loss" | "queue" | "ecn" | "duplicate" | "corrupt" | "overhead" | "mtu",
                _,
            ) => {
                return Err(ConfigError::new(format!(
                    "`{key}` takes one value, not `{}`",
                    value.escape_debug()
                )));
            }
            _ => {
                return Err(ConfigError::new(format!(
                    "a link has no property `{}`; there are {}",
                    key.escape_debug(),
                    Self::KEYS.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Sets the properties named in a text like `rate=3mbit,delay=1ms` and keeps the others. Lists in it are
    /// separated by `:`, as in `reorder=0.01:10ms`.
    ///
    /// # Errors
    ///
    /// As [`LinkConfig::set`].
    pub fn apply(&mut self, text: &str) -> Result<(), ConfigError> {
        self.apply_reading(text, NO_FILES)
    }

    /// As [`LinkConfig::apply`]; `read` resolves the names of traces.
    ///
    /// # Errors
    ///
    /// As [`LinkConfig::set`].
    pub fn apply_reading(&mut self, text: &str, read: Reader<'_>) -> Result<(), ConfigError> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(ConfigError::new(format!(
                    "`{}` is not a property of a link: write key=value, as in rate=3mbit,delay=1ms",
                    part.escape_debug()
                )));
            };
            self.set_reading(key.trim(), value, read)?;
        }
        Ok(())
    }
}

impl FromStr for LinkConfig {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        config.apply(text)?;
        Ok(config)
    }
}

/// In the notation of [`FromStr`]. Default values are omitted, except rate, delay and queue.
impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rate)?;
        write!(f, ",delay={}", Text(self.delay))?;
        if !self.jitter.is_zero() {
            write!(f, ",jitter={}", Text(self.jitter))?;
        }
        write!(f, ",queue={}", self.queue)?;
        if let Some(threshold) = self.ecn {
            write!(f, ",ecn={threshold}")?;
        }
        match &self.management {
            Management::None => {}
            Management::Red(red) => write!(f, ",red={red}")?,
            Management::CoDel(codel) => write!(f, ",codel={codel}")?,
        }
        match &self.down {
            Down::Never => {}
            Down::Between(spans) => {
                let spans: Vec<_> = spans
                    .iter()
                    .map(|(from, to)| format!("{}-{}", Text::instant(*from), Text::instant(*to)))
                    .collect();
                write!(f, ",down={}", spans.join(":"))?;
            }
            Down::Flapping { period, down } => write!(f, ",flap={}:{}", Text(*period), Text(*down))?,
        }
        match &self.loss {
            Loss::None => {}
            Loss::Bernoulli(probability) => write!(f, ",loss={probability}")?,
            Loss::GilbertElliott(model) => {
                let GilbertElliott { to_bad, to_good, pass_good, pass_bad } = model;
                write!(f, ",burst-loss={to_bad}:{to_good}:{pass_good}:{pass_bad}")?;
            }
            Loss::Script(numbers) => {
                let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                write!(f, ",lose={}", numbers.join(":"))?;
            }
        }
        if let Some(Reorder { probability, extra_delay }) = self.reorder {
            write!(f, ",reorder={probability}:{}", Text(extra_delay))?;
        }
        if self.duplicate > Probability::NEVER {
            write!(f, ",duplicate={}", self.duplicate)?;
        }
        if self.corrupt > Probability::NEVER {
            write!(f, ",corrupt={}", self.corrupt)?;
        }
        if self.overhead_bytes != Self::default().overhead_bytes {
            write!(f, ",overhead={}", self.overhead_bytes)?;
        }
        if let Some(mtu) = self.mtu {
            write!(f, ",mtu={mtu}")?;
        }
        Ok(())
    }
}

fn bernoulli(probability: Probability) -> Loss {
    if probability == Probability::NEVER { Loss::None } else { Loss::Bernoulli(probability) }
}

fn script(numbers: &[&str]) -> Result<Loss, ConfigError> {
    let wrong = |text: &str| {
        ConfigError::new(format!("`{}` is not the number of a packet, counted from 0", text.escape_debug()))
    };
    if numbers.len() > SCRIPT_MAX {
        return Err(ConfigError::new(format!("no more than {SCRIPT_MAX} packets may be named")));
    }
    let parsed: Result<Vec<u64>, _> =
        numbers.iter().map(|text| text.parse().map_err(|_| wrong(text))).collect();
    let mut numbers = parsed?;
    numbers.sort_unstable();
    Ok(Loss::Script(numbers))
}

#[cfg(test)]
mod tests {
    use braidftp_base::Rate;

    use super::*;

    #[test]
    fn a_link_parses_from_text_and_its_text_parses_back() {
        let text = "rate=3mbit,delay=1ms,loss=0.03,queue=500kB";
        let config: LinkConfig = text.parse().unwrap();
        assert_eq!(config.rate, Bandwidth::Fixed(Rate::from_bits_per_second(3_000_000)));
        assert_eq!(config.delay, Duration::from_millis(1));
        assert_eq!(config.queue, Queue::Bytes(500_000));
        assert_eq!(config.loss, Loss::Bernoulli(Probability::new(0.03).unwrap()));
        assert_eq!(config.to_string(), "rate=3mbit,delay=1ms,queue=500kB,loss=0.03");
        for text in [
            "",
            "delay=1.5ms,queue=100p",
            "delay=10ms,jitter=1.5ms",
            "burst-loss=0.01:0.25,overhead=48",
            "burst-loss=0.01:0.25:0.99:0.1",
            "lose=7:3:0,duplicate=1%,corrupt=0.5",
            "reorder=0.2:35ms,delay=17us,queue=1501B",
            "rate=unlimited,reorder=0.2",
            "mtu=1280",
            "ecn=50kB,queue=100p",
            "ecn=7p",
            "queue=49w",
            "rate=3mbit:1mbit@10s:5mbit@20.5s",
            "red=5p:15p",
            "red=30kB:90000B:0.02:0.25:gentle:mark",
            "codel=default",
            "codel=2ms:30ms:mark,queue=1MB",
            "down=1s-3s:10s-12.5s",
            "flap=10s:500ms",
        ] {
            let config: LinkConfig = text.parse().unwrap();
            assert_eq!(config.to_string().parse(), Ok(config), "{text}");
        }
    }

    #[test]
    fn errors_name_the_valid_notation() {
        for (text, said) in [
            ("rate=3furlongs", "is not a rate: write a number and bit"),
            ("rate=1mbit:2mbit", "does not say from when on"),
            ("rate=1mbit:2mbit@2s:3mbit@1s", "the times of a changing rate rise"),
            ("rate=1mbit:2mbit@soon", "is not a time after the start"),
            ("trace=up.trace", "cannot read the trace up.trace: there are no files here"),
            ("trace=a:b", "is not one file name"),
            ("red=5p", "is not RED: write min:max"),
            ("red=5p:15kB", "is not RED"),
            ("red=15p:5p", "0 < min < max"),
            ("red=5p:15p:2", "is not a probability"),
            ("red=5p:15p:0.1:0.2:0.3", "is not RED"),
            ("codel=5ms", "is not CoDel: write its target and interval"),
            ("codel=5ms:0ms", "must be longer than 0"),
            ("down=1s", "write from-to"),
            ("down=3s-1s", "follow one another"),
            ("down=1s-3s:2s-4s", "follow one another"),
            ("flap=1s:1s", "which is shorter"),
            ("flap=1s", "is not a flapping"),
            ("delay=1ms:2ms", "`delay` takes one value"),
            ("delay=5", "write a number and s, ms, us or ns"),
            ("delay=2000000s", "of up to an hour"),
            ("delay=-1ms", "is not a delay"),
            ("jitter=2000000s", "of up to an hour"),
            ("loss=2", "is not a probability"),
            ("queue=500", "write a number above 0 and p (packets,"),
            ("queue=0p", "is not a queue"),
            ("ecn=0p", "is not a queue"),
            ("queue=99999999999999MB", "is not a queue"),
            ("burst-loss=0.1", "write p,r or p,r,k,h"),
            ("burst-loss=0.1:0.1:0.1:0.1:0.1", "write p,r or p,r,k,h"),
            ("reorder=0.1:1ms:1ms", "write a probability and perhaps a delay"),
            ("lose=a", "is not the number of a packet"),
            ("overhead=70000", "bytes from 0 to 65535"),
            ("mtu=large", "bytes from 68 to 65535"),
            ("mtu=67", "bytes from 68 to 65535"),
            ("speed=3mbit", "there are rate, trace, delay, jitter, loss"),
            ("fast", "write key=value"),
        ] {
            let error = text.parse::<LinkConfig>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn a_trace_is_read_by_name_and_its_text_parses_back() {
        let mut config = LinkConfig::default();
        let read: Reader<'_> = &|name| match name {
            "up.trace" => Ok("1\n2\n4\n".to_owned()),
            other => Err(format!("there is no {other}")),
        };
        config.apply_reading("delay=1ms,trace=up.trace", read).unwrap();
        assert_eq!(config.to_string(), "trace=up.trace,delay=1ms,queue=500kB");
        let mut again = LinkConfig::default();
        again.apply_reading(&config.to_string(), read).unwrap();
        assert_eq!(again, config);
        assert_eq!(config.rate.slowest(), Some(Rate::from_bits_per_second(3 * 1_504 * 8 * 250)));
        let error = config.apply_reading("trace=down.trace", read).unwrap_err().to_string();
        assert!(error.contains("cannot read the trace down.trace: there is no down.trace"), "{error}");
    }

    #[test]
    fn apply_changes_only_the_named_properties() {
        let mut config: LinkConfig = "rate=3mbit,loss=0.1".parse().unwrap();
        config.apply("loss=0").unwrap();
        assert_eq!(config.to_string(), "rate=3mbit,delay=0ms,queue=500kB");
    }
}
