//! The controllers by name, what each may be told, and how a person writes both: `fast`, or `fast:alpha=200,gamma=0.5`.
//!
//! A new controller is a file and a line in each `match` of [`Kind`]; if it has parameters, a field of [`Options`] too, whose
//! type has names and sets one by its name, as [`fast::Params`] does.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::frame::Framed;
use crate::guard::Guard;
use crate::{Controller, Options, adalr, auto, bbr, cubic, fast, highspeed, hybla, reno, scalable, sctp};

/// The controllers there are, by name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// RFC 9260 §7.2: [`sctp::Sctp`].
    #[default]
    Sctp,
    /// RFC 5681: [`reno::Reno`].
    Reno,
    /// RFC 9438: [`cubic::Cubic`].
    Cubic,
    /// RFC 3649: [`highspeed::HighSpeed`].
    HighSpeed,
    /// Scalable TCP: [`scalable::Scalable`].
    Scalable,
    /// TCP Hybla: [`hybla::Hybla`].
    Hybla,
    /// Jin, Wei, Low 2004: [`fast::Fast`].
    Fast,
    /// draft-ietf-ccwg-bbr: [`bbr::Bbr`].
    Bbr,
    /// A reconstruction of TCP-ADaLR: [`adalr::Adalr`].
    Adalr,
    /// CUBIC or a model of the path, by what losses tell: [`auto::Auto`].
    Auto,
}

impl Kind {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: &[Self] = &[
        Self::Sctp,
        Self::Reno,
        Self::Cubic,
        Self::HighSpeed,
        Self::Scalable,
        Self::Hybla,
        Self::Fast,
        Self::Bbr,
        Self::Adalr,
        Self::Auto,
    ];

    /// A controller with default [`Options`] for a path of this MTU, in bytes.
    pub fn build(self, mtu: usize) -> Box<dyn Controller> {
        self.build_with(Options::default(), mtu)
    }

    /// A controller for a path of this MTU, in bytes.
    pub fn build_with(self, options: Options, mtu: usize) -> Box<dyn Controller> {
        match self {
            Self::Sctp => Box::new(Guard::new(mtu, |mtu| sctp::Sctp::new(options, mtu))),
            Self::Reno => Box::new(Guard::new(mtu, |mtu| reno::Reno::new(options, mtu))),
            Self::Cubic => Box::new(Guard::new(mtu, |mtu| cubic::Cubic::new(options, mtu))),
            Self::HighSpeed => {
                Box::new(Guard::new(mtu, |mtu| Framed::<highspeed::HighSpeed>::new(options, mtu)))
            }
            Self::Scalable => {
                Box::new(Guard::new(mtu, |mtu| Framed::<scalable::Scalable>::new(options, mtu)))
            }
            Self::Hybla => Box::new(Guard::new(mtu, |mtu| Framed::<hybla::Hybla>::new(options, mtu))),
            Self::Fast => Box::new(Guard::new(mtu, |mtu| fast::Fast::new(options, mtu))),
            Self::Bbr => Box::new(Guard::new(mtu, |mtu| bbr::Bbr::new(options, mtu))),
            Self::Adalr => {
                let options = adalr::Adalr::counted(options);
                Box::new(Guard::new(mtu, |mtu| Framed::<adalr::Adalr>::new(options, mtu)))
            }
            Self::Auto => Box::new(Guard::new(mtu, |mtu| auto::Auto::new(options, mtu))),
        }
    }

    /// The name by which [`FromStr`] knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sctp => "sctp",
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::HighSpeed => "highspeed",
            Self::Scalable => "scalable",
            Self::Hybla => "hybla",
            Self::Fast => "fast",
            Self::Bbr => "bbr",
            Self::Adalr => "adalr",
            Self::Auto => "auto",
        }
    }

    /// What it is, in a line.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Sctp => "SCTP's own (RFC 9260 section 7.2)",
            Self::Reno => "TCP's (RFC 5681)",
            Self::Cubic => "CUBIC (RFC 9438)",
            Self::HighSpeed => "HighSpeed TCP (RFC 3649)",
            Self::Scalable => "Scalable TCP: a hundredth more an ACK, an eighth less a loss",
            Self::Hybla => "TCP Hybla: as fast over a long path as Reno over one of 25 ms",
            Self::Fast => "FAST: keeps a number of packets in the queue (Jin, Wei, Low 2004)",
            Self::Bbr => "BBR: by a model of the path (draft-ietf-ccwg-bbr); version=1 ignores losses",
            Self::Adalr => {
                "ADaLR-R, a reconstruction of TCP-ADaLR: steps that grow with the round trip beyond 300 ms"
            }
            Self::Auto => "CUBIC where losses tell of congestion, a model of the path where they do not",
        }
    }

    /// The names of its own parameters.
    pub const fn params(self) -> &'static [&'static str] {
        match self {
            Self::Sctp | Self::Reno | Self::Cubic | Self::HighSpeed | Self::Scalable | Self::Auto => &[],
            Self::Hybla => hybla::Params::NAMES,
            Self::Fast => fast::Params::NAMES,
            Self::Bbr => bbr::Params::NAMES,
            Self::Adalr => adalr::Params::NAMES,
        }
    }

    /// Sets one of them, as `rtt0` to `50ms`.
    ///
    /// # Errors
    /// It has none of that name, or the value is not in its range: the error says which there are.
    pub fn set(self, options: &mut Options, name: &str, value: &str) -> Result<(), ParameterError> {
        match self {
            Self::Sctp | Self::Reno | Self::Cubic | Self::HighSpeed | Self::Scalable | Self::Auto => {
                Err(ParameterError::unknown(self.name(), name, &[]))
            }
            Self::Hybla => options.hybla.set(name, value),
            Self::Fast => options.fast.set(name, value),
            Self::Bbr => options.bbr.set(name, value),
            Self::Adalr => options.adalr.set(name, value),
        }
    }
}

/// A controller with parameters: what `--cc` takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Which.
    pub kind: Kind,
    /// What it is told, in this order: each was found to be possible.
    params: Vec<(String, String)>,
}

impl Choice {
    /// Puts it where a transport's configuration keeps it.
    pub fn apply(&self, kind: &mut Kind, options: &mut Options) {
        *kind = self.kind;
        for (name, value) in &self.params {
            // What is possible for the default options is refused only beside another value that the profile has.
            let _ = self.kind.set(options, name, value);
        }
    }
}

impl From<Kind> for Choice {
    fn from(kind: Kind) -> Self {
        Self { kind, params: Vec::new() }
    }
}

/// What `--help` says of `--cc`: every controller with what it is and its parameters, a line each.
pub fn help() -> String {
    let mut text = "Congestion control of what this side sends, as in cubic or fast:alpha=200 [default: the profile's]. There \
                    are:\n"
        .to_owned();
    for kind in Kind::ALL {
        text.push_str(&format!("{:<11} {}\n", kind.name(), kind.says()));
        if !kind.params().is_empty() {
            text.push_str(&format!("{:<11}   it may be told: {}\n", "", kind.params().join(", ")));
        }
    }
    text
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// As it was written.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (index, (name, value)) in self.params.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// No controller has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        write!(
            f,
            "no congestion control is called `{}`; there are {}",
            self.0.escape_debug(),
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        let known = Self::ALL.iter().find(|kind| kind.name() == text);
        known.copied().ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// A controller has no parameter of this name, or the parameter no such value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterError(String);

impl ParameterError {
    pub(crate) fn unknown(controller: &str, name: &str, known: &[&str]) -> Self {
        let name = name.escape_debug();
        Self(match known {
            [] => format!("{controller} has no parameters, so no `{name}`"),
            known => format!("{controller} has no parameter `{name}`; there are {}", known.join(", ")),
        })
    }

    pub(crate) fn out_of_range(controller: &str, name: &str, value: &str, range: &str) -> Self {
        Self(format!("{controller}: {name} cannot be `{}`: it is {range}", value.escape_debug()))
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::error::Error for ParameterError {}

/// Why a text names no controller with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChoiceError {
    /// No controller has this name.
    Unknown(UnknownKind),
    /// It cannot be told this.
    Parameter(ParameterError),
    /// A parameter is given twice.
    Twice(String),
}

impl fmt::Display for ChoiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(error) => error.fmt(f),
            Self::Parameter(error) => error.fmt(f),
            Self::Twice(name) => write!(f, "`{}` is given twice", name.escape_debug()),
        }
    }
}

impl std::error::Error for ChoiceError {}

impl FromStr for Choice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        let (name, settings) = match text.split_once(':') {
            Some((name, settings)) => (name, settings.split(',').collect()),
            None => (text, Vec::new()),
        };
        let kind: Kind = name.parse().map_err(ChoiceError::Unknown)?;
        let mut choice = Self::from(kind);
        let mut options = Options::default();
        for setting in settings {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            if choice.params.iter().any(|(given, _)| given == name) {
                return Err(ChoiceError::Twice(name.to_owned()));
            }
            kind.set(&mut options, name, value).map_err(ChoiceError::Parameter)?;
            choice.params.push((name.to_owned(), value.to_owned()));
        }
        Ok(choice)
    }
}

/// A duration with its unit, s or ms.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, nanos) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e6),
        None => (text.strip_suffix('s')?, 1e9),
    };
    let number = number.parse::<f64>().ok().filter(|number| (0.0..=1e9).contains(number))?;
    Some(Duration::from_nanos((number * nanos).round() as u64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_kind_reads_back_from_its_name_and_builds() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(*kind));
            assert_eq!(kind.to_string().parse(), Ok(Choice::from(*kind)));
            assert!(kind.build(1452).window() >= 1452);
            assert!(help().contains(kind.says()));
        }
    }

    #[test]
    fn an_unknown_name_is_told_what_exists() {
        let error = "vegas".parse::<Choice>().unwrap_err().to_string();
        assert!(error.starts_with("no congestion control is called `vegas`; there are sctp, reno, cubic"));
        assert!(Kind::ALL.iter().all(|kind| error.contains(kind.name())), "{error}");
    }

    #[test]
    fn parameters_are_read_written_and_applied() {
        let choice: Choice = "hybla:rtt0=50ms,rho-max=8".parse().unwrap();
        assert_eq!(choice.to_string(), "hybla:rtt0=50ms,rho-max=8");
        let (mut kind, mut options) = (Kind::Sctp, Options::default());
        choice.apply(&mut kind, &mut options);
        assert_eq!(
            (kind, options.hybla.rtt0, options.hybla.rho_max),
            (Kind::Hybla, Duration::from_millis(50), 8)
        );
        "fast:alpha=200".parse::<Choice>().unwrap().apply(&mut kind, &mut options);
        assert_eq!((kind, options.fast.alpha_packets, options.hybla.rho_max), (Kind::Fast, 200, 8));
        "adalr:rtt-ref=200ms,k=0.05".parse::<Choice>().unwrap().apply(&mut kind, &mut options);
        assert_eq!((kind, options.adalr.k_thousandths, options.adalr.rho_max), (Kind::Adalr, 50, 8));
    }

    #[test]
    fn what_a_parameter_cannot_be_is_told_with_what_it_can() {
        let error = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        assert_eq!(error("reno:x=1"), "reno has no parameters, so no `x`");
        assert_eq!(error("reno:"), "reno has no parameters, so no ``");
        assert_eq!(error("hybla:rtt=1ms"), "hybla has no parameter `rtt`; there are rtt0, rho-max");
        assert_eq!(error("hybla:rtt0=0ms"), "hybla: rtt0 cannot be `0ms`: it is 1ms to 10s");
        assert_eq!(error("hybla:rtt0"), "hybla: rtt0 cannot be ``: it is 1ms to 10s");
        assert_eq!(error("hybla:rho-max=2.5"), "hybla: rho-max cannot be `2.5`: it is 1 to 32");
        assert_eq!(error("adalr:k=0"), "adalr: k cannot be `0`: it is 0.001 to 100");
        assert_eq!(error("adalr:rho-max=33"), "adalr: rho-max cannot be `33`: it is 1 to 32");
        assert_eq!(error("fast:alpha=5,alpha=5"), "`alpha` is given twice");
    }

    #[test]
    fn every_parameter_has_a_range_that_it_tells() {
        for kind in Kind::ALL {
            for name in kind.params() {
                let error = kind.set(&mut Options::default(), name, "nonsense").unwrap_err().to_string();
                assert!(
                    error.starts_with(&format!("{kind}: {name} cannot be `nonsense`: it is ")),
                    "{error}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn whatever_is_written_is_refused_or_reads_back(text in "[a-z]{0,6}(:[a-z0-9=.,+-]{0,24})?") {
            for text in [text.clone(), format!("hybla:{text}"), format!("hybla:rtt0={text}"), format!("fast:{text}"), format!("adalr:{text}")] {
                if let Ok(choice) = text.parse::<Choice>() {
                    prop_assert_eq!(choice.to_string(), text);
                }
            }
        }
    }
}
