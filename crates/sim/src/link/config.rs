//! What a link is like, and how people write it: `rate=3mbit,delay=1ms,loss=0.03,queue=500kB`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use braidftp_base::Rate;

use super::loss::{GilbertElliott, Loss};
use crate::dice::Probability;

/// The longest delay that may be asked for: Mars at its farthest is 22 minutes away.
const DELAY_MAX: Duration = Duration::from_secs(3_600);
/// The largest overhead of a packet, in bytes.
const OVERHEAD_MAX: usize = 65_535;
/// The most packets that a script may name.
const SCRIPT_MAX: usize = 100_000;

/// No packet is larger.
const MTU_MAX: usize = 65_535;

/// What a link is like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkConfig {
    /// Which packets are lost. None.
    pub loss: Loss,
    /// How much may wait for the wire. 500 kB, as in the papers' experiments.
    pub queue: Queue,
    /// From how much that waits on, packets that are ECN-capable get a congestion mark. `None`: none is marked.
    pub ecn: Option<Queue>,
    /// How fast the wire is. Unlimited.
    pub rate: Bandwidth,
    /// How long a packet travels. None.
    pub delay: Duration,
    /// Whether some packets are held back. No.
    pub reorder: Option<Reorder>,
    /// How likely a packet comes twice. Never.
    pub duplicate: Probability,
    /// How likely a bit of a packet is flipped. Never.
    pub corrupt: Probability,
    /// What a packet takes on the wire beyond its payload, in bytes: 28 for UDP in IPv4, 48 in IPv6, 0 for whole IP
    /// packets. 28.
    pub overhead_bytes: usize,
    /// Packets that are longer on the wire, in bytes, vanish without a word. `None`: none is too long.
    pub mtu: Option<usize>,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            loss: Loss::None,
            queue: Queue::Bytes(500_000),
            ecn: None,
            rate: Bandwidth::Unlimited,
            delay: Duration::ZERO,
            reorder: None,
            duplicate: Probability::NEVER,
            corrupt: Probability::NEVER,
            overhead_bytes: 28,
            mtu: None,
        }
    }
}

/// A drop-tail queue: what may wait, the packet on the wire included. At least one packet always may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// So many bytes.
    Bytes(usize),
    /// So many packets.
    Packets(usize),
}

/// How fast a wire is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bandwidth {
    /// Packets take no time and never wait.
    Unlimited,
    /// Always the same.
    Fixed(Rate),
}

/// Packets held back so that later ones overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reorder {
    /// How likely a packet is held back.
    pub probability: Probability,
    /// For how long, beyond the link's delay.
    pub extra_delay: Duration,
}

/// Why a text does not describe a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError(String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl LinkConfig {
    /// The names that [`LinkConfig::set`] knows.
    pub const KEYS: &[&str] = &[
        "rate",
        "delay",
        "loss",
        "burst-loss",
        "lose",
        "queue",
        "ecn",
        "reorder",
        "duplicate",
        "corrupt",
        "overhead",
        "mtu",
    ];

    /// Sets one property from text, as in `set("rate", "3mbit")`. Lists are separated by `,` or `:`.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let parts: Vec<_> = value.split([',', ':']).map(str::trim).collect();
        match (key, &parts[..]) {
            ("rate", ["unlimited"]) => self.rate = Bandwidth::Unlimited,
            ("rate", [rate]) => self.rate = Bandwidth::Fixed(parsed::<Rate>(rate)?),
            ("delay", [delay]) => self.delay = duration(delay)?,
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
                return Err(ConfigError(format!(
                    "`{}` is not a burst loss: write p,r or p,r,k,h, four probabilities: that the link turns bad, \
                     that it turns good, that a packet passes while it is good (1), and while it is bad (0)",
                    value.escape_debug()
                )));
            }
            ("lose", numbers) => self.loss = script(numbers)?,
            ("queue", [queue]) => self.queue = parsed::<Queue>(queue)?,
            ("ecn", ["none"]) => self.ecn = None,
            ("ecn", [queue]) => self.ecn = Some(parsed::<Queue>(queue)?),
            ("reorder", [probability_text, rest @ ..]) if rest.len() <= 1 => {
                let probability = probability(probability_text)?;
                let extra_delay =
                    rest.first().map_or(Ok(Duration::from_millis(10)), |text| duration(text))?;
                self.reorder =
                    (probability > Probability::NEVER).then_some(Reorder { probability, extra_delay });
            }
            ("reorder", _) => {
                return Err(ConfigError(format!(
                    "`{}` is not a reordering: write a probability and perhaps a delay, as in 0.01,10ms",
                    value.escape_debug()
                )));
            }
            ("duplicate", [value]) => self.duplicate = probability(value)?,
            ("corrupt", [value]) => self.corrupt = probability(value)?,
            ("overhead", [value]) => self.overhead_bytes = bytes(value, OVERHEAD_MAX)?,
            ("mtu", ["none"]) => self.mtu = None,
            ("mtu", [value]) => self.mtu = Some(bytes(value, MTU_MAX)?),
            (
                "rate" | "delay" | "loss" | "queue" | "ecn" | "duplicate" | "corrupt" | "overhead" | "mtu",
                _,
            ) => {
                return Err(ConfigError(format!("`{key}` takes one value, not `{}`", value.escape_debug())));
            }
            _ => {
                return Err(ConfigError(format!(
                    "a link has no property `{}`; there are {}",
                    key.escape_debug(),
                    Self::KEYS.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Sets the properties that a text like `rate=3mbit,delay=1ms` names and leaves the others. Within it lists are
    /// separated by `:`, as in `reorder=0.01:10ms`.
    pub fn apply(&mut self, text: &str) -> Result<(), ConfigError> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let Some((key, value)) = part.split_once('=') else {
                return Err(ConfigError(format!(
                    "`{}` is not a property of a link: write key=value, as in rate=3mbit,delay=1ms",
                    part.escape_debug()
                )));
            };
            self.set(key.trim(), value)?;
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

/// As [`FromStr`] reads it; what is as by default is left out, except rate, delay and queue.
impl fmt::Display for LinkConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rate {
            Bandwidth::Unlimited => write!(f, "rate=unlimited")?,
            Bandwidth::Fixed(rate) => write!(f, "rate={rate}")?,
        }
        write!(f, ",delay={}", Text(self.delay))?;
        write!(f, ",queue={}", self.queue)?;
        if let Some(threshold) = self.ecn {
            write!(f, ",ecn={threshold}")?;
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

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) if bytes.is_multiple_of(1_000) => write!(f, "{}kB", bytes / 1_000),
            Self::Bytes(bytes) => write!(f, "{bytes}B"),
            Self::Packets(packets) => write!(f, "{packets}p"),
        }
    }
}

impl FromStr for Queue {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let wrong = || {
            ConfigError(format!(
                "`{}` is not a queue: write a number above 0 and p (packets), B, kB or MB, as in 500kB or 100p",
                text.escape_debug()
            ))
        };
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(split);
        let number: usize = number.trim().parse().ok().filter(|number| *number > 0).ok_or_else(wrong)?;
        let bytes = |scale: usize| number.checked_mul(scale).map(Self::Bytes).ok_or_else(wrong);
        match unit {
            "p" => Ok(Self::Packets(number)),
            "B" => bytes(1),
            "kB" => bytes(1_000),
            "MB" => bytes(1_000_000),
            _ => Err(wrong()),
        }
    }
}

fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, ConfigError> {
    text.parse().map_err(|error: T::Err| ConfigError(error.to_string()))
}

fn bytes(text: &str, most: usize) -> Result<usize, ConfigError> {
    let wrong = || ConfigError(format!("`{}` is not a number of bytes up to {most}", text.escape_debug()));
    text.parse().ok().filter(|bytes| *bytes <= most).ok_or_else(wrong)
}

fn probability(text: &str) -> Result<Probability, ConfigError> {
    parsed(text)
}

fn bernoulli(probability: Probability) -> Loss {
    if probability == Probability::NEVER { Loss::None } else { Loss::Bernoulli(probability) }
}

fn script(numbers: &[&str]) -> Result<Loss, ConfigError> {
    let wrong = |text: &str| {
        ConfigError(format!("`{}` is not the number of a packet, counted from 0", text.escape_debug()))
    };
    if numbers.len() > SCRIPT_MAX {
        return Err(ConfigError(format!("no more than {SCRIPT_MAX} packets may be named")));
    }
    let parsed: Result<Vec<u64>, _> =
        numbers.iter().map(|text| text.parse().map_err(|_| wrong(text))).collect();
    let mut numbers = parsed?;
    numbers.sort_unstable();
    Ok(Loss::Script(numbers))
}

fn duration(text: &str) -> Result<Duration, ConfigError> {
    let wrong = || {
        ConfigError(format!(
            "`{}` is not a delay of up to an hour: write a number and s, ms, us or ns, as in 1ms",
            text.escape_debug()
        ))
    };
    let split = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let nanos_a_unit = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        _ => return Err(wrong()),
    };
    let nanos = number.trim().parse::<f64>().map_err(|_| wrong())? * nanos_a_unit;
    if !(0.0..=DELAY_MAX.as_nanos() as f64).contains(&nanos) {
        return Err(wrong());
    }
    Ok(Duration::from_nanos(nanos.round() as u64))
}

/// A duration as [`duration`] reads it.
struct Text(Duration);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            n if n % 1_000_000_000 == 0 && n > 0 => write!(f, "{}s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}us", n / 1_000),
            n => write!(f, "{n}ns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_reads_as_people_write_it_and_prints_so_that_it_reads_back() {
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
            "burst-loss=0.01:0.25,overhead=48",
            "burst-loss=0.01:0.25:0.99:0.1",
            "lose=7:3:0,duplicate=1%,corrupt=0.5",
            "reorder=0.2:35ms,delay=17us,queue=1501B",
            "rate=unlimited,reorder=0.2",
            "mtu=1280",
            "ecn=50kB,queue=100p",
            "ecn=7p",
        ] {
            let config: LinkConfig = text.parse().unwrap();
            assert_eq!(config.to_string().parse(), Ok(config), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        for (text, said) in [
            ("rate=3furlongs", "is not a rate: write a number and bit"),
            ("rate=1mbit:2mbit", "`rate` takes one value"),
            ("delay=5", "write a number and s, ms, us or ns"),
            ("delay=2000000s", "of up to an hour"),
            ("delay=-1ms", "is not a delay"),
            ("loss=2", "is not a probability"),
            ("queue=500", "write a number above 0 and p (packets), B, kB or MB"),
            ("queue=0p", "is not a queue"),
            ("ecn=0p", "is not a queue"),
            ("queue=99999999999999MB", "is not a queue"),
            ("burst-loss=0.1", "write p,r or p,r,k,h"),
            ("burst-loss=0.1:0.1:0.1:0.1:0.1", "write p,r or p,r,k,h"),
            ("reorder=0.1:1ms:1ms", "write a probability and perhaps a delay"),
            ("lose=a", "is not the number of a packet"),
            ("overhead=70000", "bytes up to 65535"),
            ("mtu=large", "bytes up to 65535"),
            ("speed=3mbit", "there are rate, delay, loss"),
            ("fast", "write key=value"),
        ] {
            let error = text.parse::<LinkConfig>().unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn apply_changes_what_it_names_and_nothing_else() {
        let mut config: LinkConfig = "rate=3mbit,loss=0.1".parse().unwrap();
        config.apply("loss=0").unwrap();
        assert_eq!(config.to_string(), "rate=3mbit,delay=0ms,queue=500kB");
    }
}
