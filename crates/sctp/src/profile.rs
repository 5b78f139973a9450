//! Named sets of [`Config`] values. Plain values: no profile is an `if` anywhere else.

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;
use std::time::Duration;

use braidftp_cc as cc;

use crate::config::{Config, LossDetection, MtuDiscovery};

/// A named [`Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// RFC 9260's recommended values.
    Rfc9260,
    /// What today's transports do: losses found by send order, tail loss probes, a short RTO.Min, SACKs that do not
    /// wait, a first window of ten packets, large buffers; another path after the first time-out.
    Modern,
}

impl Profile {
    /// All of them, in the order in which they are listed to people.
    pub const ALL: &[Self] = &[Self::Rfc9260, Self::Modern];

    /// The values.
    pub fn config(self) -> Config {
        match self {
            Self::Rfc9260 => Config::default(),
            Self::Modern => Config {
                // RFC 6928, and RFC 3465's L = 2 against the delay of SACKs.
                congestion_options: cc::Options {
                    initial_window: cc::InitialWindow::Mtus(NonZeroU8::new(10).expect("10 is not 0")),
                    byte_counting_limit: NonZeroU8::new(2).expect("2 is not 0"),
                    // A slow start that overflows the queue costs more than its loss: in order nothing is delivered
                    // until all of it has come again.
                    slow_start: cc::SlowStart::HyStart,
                    ..cc::Options::default()
                },
                // With SACKs gathered and batches sent, one event may answer for far more than four packets: the limit
                // would hold back what the window allows, and a burst into a full queue is found in one round trip.
                max_burst: None,
                loss_detection: LossDetection::SendOrder,
                tail_loss_probe: true,
                // With probes before it, T3 is the last resort; on a path of a few milliseconds a second of waiting is
                // what losses cost most.
                rto: cc::rtt::Bounds { min: Duration::from_millis(100), ..cc::rtt::Bounds::default() },
                //= specs/rfc7829.txt#section-3.2
                //# The RECOMMENDED value of PFMR is 0.
                //= specs/rfc7829.txt#section-6
                //# The following protocol parameter is RECOMMENDED:
                potentially_failed_max_retrans: Some(0),
                // From a size that works nearly everywhere, so that nothing is probed unless packets vanish.
                path_mtu_discovery: Some(MtuDiscovery::default()),
                sack_delay: Duration::from_millis(20),
                immediate_at_end: true,
                fill_packets: true,
                // A gigabit a second over 60 ms. A process that is to stay under 64 MB has room for one such
                // association that stalls; what is not full costs nothing.
                receive_buffer_bytes: 8 << 20,
                send_buffer_bytes: 4 << 20,
                // Whatever has to be agreed on in INIT stays off, ECN among it: it would be of use on few paths, and some
                // peers answer no INIT that has a parameter.
                ..Config::default()
            },
        }
    }

    /// The name by which [`FromStr`] knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc9260 => "rfc9260",
            Self::Modern => "modern",
        }
    }
}

impl From<Profile> for Config {
    fn from(profile: Profile) -> Self {
        profile.config()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// No profile has this name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Profile::ALL.iter().map(|profile| profile.name()).collect();
        write!(f, "no profile is called `{}`; there are {}", self.0.escape_debug(), names.join(", "))
    }
}

impl std::error::Error for UnknownProfile {}

impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        let known = Self::ALL.iter().find(|profile| profile.name() == text);
        known.copied().ok_or_else(|| UnknownProfile(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_reads_back_from_its_name() {
        //= specs/rfc7829.txt#section-3.2
        //= type=test
        //# The RECOMMENDED value of PFMR is 0.
        //= specs/rfc7829.txt#section-6
        //= type=test
        //# The following protocol parameter is RECOMMENDED:
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(*profile));
            assert_eq!(profile.config().mtu % 4, 0, "a full packet then needs no padding");
            let max = profile.config().potentially_failed_max_retrans;
            assert_eq!(max, (*profile == Profile::Modern).then_some(0));
        }
    }

    #[test]
    fn an_unknown_profile_is_told_what_exists() {
        let error = "kame".parse::<Profile>().unwrap_err().to_string();
        assert_eq!(error, "no profile is called `kame`; there are rfc9260, modern");
    }

    #[test]
    fn rfc9260_is_the_default() {
        assert_eq!(Config::default(), Profile::Rfc9260.config());
    }
}
