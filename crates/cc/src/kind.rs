//! The controllers by name, with their parameters, and their notation: `fast`, or `fast:alpha=200,gamma=0.5`.
//!
//! To add a controller, add a file and a line in each `match` of [`Kind`]. If it has parameters, also add a
//! field of [`Options`] whose type lists their names and sets one by its name, as [`fast::Params`] does.

use std::fmt;
use std::str::FromStr;

use crate::frame::Framed;
use crate::guard::Guard;
use crate::{
    Controller, External, Options, adalr, auto, bbr, cubic, fast, highspeed, hybla, linux_cubic, reno,
    scalable, sctp,
};

/// The available controllers.
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
    /// CUBIC or a model of the path, depending on what losses indicate: [`auto::Auto`].
    Auto,
    /// A controller that is written outside this crate; none has a name that can be parsed here.
    External(External),
}

impl Kind {
    /// All controllers of this crate, in the order in which they are listed.
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

    /// Builds a controller with default [`Options`] for a path with this MTU, in bytes.
    pub fn build(self, mtu: usize) -> Box<dyn Controller> {
        self.build_with(Options::default(), mtu)
    }

    /// Builds a controller for a path with this MTU, in bytes.
    pub fn build_with(self, options: Options, mtu: usize) -> Box<dyn Controller> {
        match self {
            Self::Sctp => Box::new(Guard::new(mtu, |mtu| sctp::Sctp::new(options, mtu))),
            Self::Reno => Box::new(Guard::new(mtu, |mtu| reno::Reno::new(options, mtu))),
            Self::Cubic => match options.cubic {
                cubic::Version::Rfc9438 => Box::new(Guard::new(mtu, |mtu| cubic::Cubic::new(options, mtu))),
                cubic::Version::Linux => {
                    Box::new(Guard::new(mtu, |mtu| linux_cubic::LinuxCubic::new(options, mtu)))
                }
            },
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
            Self::External(external) => (external.build)(options, mtu),
        }
    }

    /// The name by which [`FromStr`] knows the controller.
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
            Self::External(external) => external.name,
        }
    }

    /// A description of one line.
    pub const fn says(self) -> &'static str {
        match self {
            Self::Sctp => "SCTP's own (RFC 9260 section 7.2)",
            Self::Reno => "TCP's (RFC 5681)",
            Self::Cubic => "CUBIC (RFC 9438)",
            Self::HighSpeed => "HighSpeed TCP (RFC 3649)",
            Self::Scalable => "Scalable TCP: grows 1/100 segment per ACKed segment, falls by 1/8 per loss",
            Self::Hybla => "TCP Hybla: as fast over a long path as Reno over one of 25 ms",
            Self::Fast => "FAST: keeps a number of packets in the queue (Jin, Wei, Low 2004)",
            Self::Bbr => "BBR: sends by a model of the path (draft-ietf-ccwg-bbr); version=1 ignores losses",
            Self::Adalr => {
                "ADaLR-R, a reconstruction of TCP-ADaLR: steps that grow with the round trip beyond 300 ms"
            }
            Self::Auto => "CUBIC where losses indicate congestion, a model of the path where they are random",
            Self::External(_) => "written outside this crate",
        }
    }

    /// The names of the controller's parameters.
    pub const fn params(self) -> &'static [&'static str] {
        match self {
            Self::Sctp
            | Self::Reno
            | Self::Cubic
            | Self::HighSpeed
            | Self::Scalable
            | Self::Auto
            | Self::External(_) => &[],
            Self::Hybla => hybla::Params::NAMES,
            Self::Fast => fast::Params::NAMES,
            Self::Bbr => bbr::Params::NAMES,
            Self::Adalr => adalr::Params::NAMES,
        }
    }

    /// Sets a parameter by its name, as `rtt0` to `50ms`.
    ///
    /// # Errors
    ///
    /// The controller has no such parameter, or the value is out of range: the error lists the names or the
    /// range.
    pub fn set(self, options: &mut Options, name: &str, value: &str) -> Result<(), ParameterError> {
        match self {
            Self::Sctp
            | Self::Reno
            | Self::Cubic
            | Self::HighSpeed
            | Self::Scalable
            | Self::Auto
            | Self::External(_) => Err(ParameterError::unknown(self.name(), name, &[])),
            Self::Hybla => options.hybla.set(name, value),
            Self::Fast => options.fast.set(name, value),
            Self::Bbr => options.bbr.set(name, value),
            Self::Adalr => options.adalr.set(name, value),
        }
    }
}

/// A controller with parameters: the value of `--cc`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The controller.
    pub kind: Kind,
    /// The parameters and their values in the given order; each was validated.
    params: Vec<(String, String)>,
}

impl Choice {
    /// Stores the choice in the fields of a transport's configuration.
    pub fn apply(&self, kind: &mut Kind, options: &mut Options) {
        *kind = self.kind;
        for (name, value) in &self.params {
            // Valid with default options, so it fails only in combination with another value of the profile.
            let _ = self.kind.set(options, name, value);
        }
    }
}

impl From<Kind> for Choice {
    fn from(kind: Kind) -> Self {
        Self { kind, params: Vec::new() }
    }
}

/// The help text of `--cc`: every controller with its description and its parameters, a line each.
pub fn help() -> String {
    let mut text = "Congestion control of what this side sends, as in cubic or fast:alpha=200 [default: the profile's]. \
                    Controllers:\n"
        .to_owned();
    for kind in Kind::ALL {
        text.push_str(&format!("{:<11} {}\n", kind.name(), kind.says()));
        if !kind.params().is_empty() {
            text.push_str(&format!("{:<11}   parameters: {}\n", "", kind.params().join(", ")));
        }
    }
    text
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Formats the choice as it was written.
impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (index, (name, value)) in self.params.iter().enumerate() {
            write!(f, "{}{name}={value}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// The error for an unknown name.
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

/// The error for an unknown parameter or a value out of range.
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
        Self(format!("{controller}: {name} cannot be `{}`: expected {range}", value.escape_debug()))
    }
}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl std::error::Error for ParameterError {}

/// Why a text cannot be parsed as a [`Choice`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChoiceError {
    /// The controller is unknown.
    Unknown(UnknownKind),
    /// A parameter is unknown or its value out of range.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::time::Duration;

    use super::*;

    #[test]
    fn every_kind_parses_from_its_name_and_builds() {
        for kind in Kind::ALL {
            assert_eq!(kind.to_string().parse(), Ok(*kind));
            assert_eq!(kind.to_string().parse(), Ok(Choice::from(*kind)));
            assert!(kind.build(1452).window() >= 1452);
            assert!(help().contains(kind.says()));
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "vegas".parse::<Choice>().unwrap_err().to_string();
        assert!(error.starts_with("no congestion control is called `vegas`; there are sctp, reno, cubic"));
        assert!(Kind::ALL.iter().all(|kind| error.contains(kind.name())), "{error}");
    }

    #[test]
    fn parameters_are_parsed_formatted_and_applied() {
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
    fn the_error_for_an_invalid_parameter_names_the_valid_values() {
        let error = |text: &str| text.parse::<Choice>().unwrap_err().to_string();
        assert_eq!(error("reno:x=1"), "reno has no parameters, so no `x`");
        assert_eq!(error("reno:"), "reno has no parameters, so no ``");
        assert_eq!(error("hybla:rtt=1ms"), "hybla has no parameter `rtt`; there are rtt0, rho-max");
        assert_eq!(error("hybla:rtt0=0ms"), "hybla: rtt0 cannot be `0ms`: expected 1ms to 10s");
        assert_eq!(error("hybla:rtt0"), "hybla: rtt0 cannot be ``: expected 1ms to 10s");
        assert_eq!(error("hybla:rho-max=2.5"), "hybla: rho-max cannot be `2.5`: expected 1 to 32");
        assert_eq!(error("adalr:k=0"), "adalr: k cannot be `0`: expected 0.001 to 100");
        assert_eq!(error("adalr:rho-max=33"), "adalr: rho-max cannot be `33`: expected 1 to 32");
        assert_eq!(error("fast:alpha=5,alpha=5"), "`alpha` is given twice");
    }

    #[test]
    fn the_error_for_every_parameter_names_its_range() {
        for kind in Kind::ALL {
            for name in kind.params() {
                let error = kind.set(&mut Options::default(), name, "nonsense").unwrap_err().to_string();
                assert!(
                    error.starts_with(&format!("{kind}: {name} cannot be `nonsense`: expected ")),
                    "{error}"
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_text_is_rejected_or_round_trips(text in "[a-z]{0,6}(:[a-z0-9=.,+-]{0,24})?") {
            for text in [text.clone(), format!("hybla:{text}"), format!("hybla:rtt0={text}"), format!("fast:{text}"), format!("adalr:{text}")] {
                if let Ok(choice) = text.parse::<Choice>() {
                    prop_assert_eq!(choice.to_string(), text);
                }
            }
        }
    }
}
