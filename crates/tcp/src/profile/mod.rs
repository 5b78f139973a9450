//! Named sets of [`Config`] values that model the stack of some year. No code outside of this module depends
//! on a profile.

mod sources;

use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_base::named;
use braidftp_cc as cc;

use crate::config::{
    AckClock, Config, Halve, LossDetection, PartialAckTimer, RecoverRule, RtoBounds, SynBackoff, Timing,
};

/// A named [`Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// FreeBSD 4.6, the hosts of the FTP-over-SCTP papers: NewReno without SACK, Limited Transmit or byte counting.
    NewrenoBsd46,
    /// The same with SACK.
    Sack,
    /// The same with SACK, Limited Transmit and byte counting.
    SackLtAbc,
    /// The same with SACK, Limited Transmit, byte counting and Early Retransmit.
    SackLtAbcEr,
    /// The comparator of the TCP-ADaLR paper, as its author ran it in OPNET 11.
    Opnet11,
    /// Linux today, except what [`Profile::lacks`] names.
    Modern,
    /// Linux 6 at 250 Hz, as close as live runs over the kernel's TCP need it, except what [`Profile::lacks`] names.
    Linux,
}

/// One value of a profile and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The field of [`Config`].
    pub field: &'static str,
    /// The value.
    pub value: String,
    /// The reason or source of the value.
    pub source: &'static str,
}

impl Profile {
    /// All profiles, in the order in which they are listed.
    pub const ALL: &[Self] = &[
        Self::NewrenoBsd46,
        Self::Sack,
        Self::SackLtAbc,
        Self::SackLtAbcEr,
        Self::Opnet11,
        Self::Modern,
        Self::Linux,
    ];

    /// The configuration.
    pub fn config(self) -> Config {
        match self {
            Self::NewrenoBsd46 => bsd46(),
            Self::Sack => Config { sack: true, ..bsd46() },
            Self::SackLtAbc => {
                let mut config = Config { limited_transmit: true, ..Self::Sack.config() };
                config.congestion_options.counting = cc::Counting::Bytes;
                config.congestion_options.byte_counting_limit = nonzero(2);
                config
            }
            Self::SackLtAbcEr => Config { early_retransmit: true, ..Self::SackLtAbc.config() },
            Self::Opnet11 => opnet11(),
            Self::Modern => modern(),
            Self::Linux => linux(),
        }
    }

    /// Each value of the configuration as text, with its source.
    pub fn rows(self) -> Vec<Row> {
        sources::rows(self)
    }

    /// What the modelled stack does and this profile does not.
    pub const fn lacks(self) -> &'static str {
        match self {
            Self::NewrenoBsd46 | Self::Sack | Self::SackLtAbc | Self::SackLtAbcEr => {
                "the metrics that FreeBSD 4 kept per route (ssthresh, RTT after 16 samples); the syncache (here a half-open \
                 connection is a whole control block); T/TCP"
            }
            Self::Opnet11 => {
                "parts of the model that are not published: the persist timer beyond the first interval, closing"
            }
            Self::Modern => {
                "pacing, buffer autotuning, D-SACK, F-RTO, undo of spurious recoveries, ECN, TCP Fast Open, the larger \
                 acknowledgements of GRO, metrics kept per destination"
            }
            Self::Linux => {
                "D-SACK and the undo of spurious recoveries and time-outs, F-RTO (a time-out always repeats what was not \
                 SACKed), the delay of SACKs beyond the third (tcp_comp_sack_delay_ns), the delay of small bursts for \
                 segmentation offload, the immediate acknowledgement of segments with PSH, minimum and adaptation of the \
                 delay of acknowledgements, buffer autotuning, ECN, TCP Fast Open, the larger acknowledgements of GRO, \
                 metrics kept per destination; a time-out within a recovery reduces ssthresh again, which Linux does not; \
                 controllers other than CUBIC are those of modern"
            }
        }
    }

    /// The name by which [`FromStr`](std::str::FromStr) knows the profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewrenoBsd46 => "newreno-bsd46",
            Self::Sack => "sack",
            Self::SackLtAbc => "sack+lt+abc",
            Self::SackLtAbcEr => "sack+lt+abc+er",
            Self::Opnet11 => "opnet11",
            Self::Modern => "modern",
            Self::Linux => "linux",
        }
    }
}

fn nonzero(value: u8) -> NonZeroU8 {
    NonZeroU8::new(value).expect("profiles have no zero here")
}

fn bsd46() -> Config {
    Config {
        window_scaling: true,
        timestamps: true,
        timestamp_tick: Duration::from_millis(10),
        sack: false,
        congestion_options: cc::Options {
            initial_window: cc::InitialWindow::Mtus(nonzero(4)),
            counting: cc::Counting::Acks,
            growth: cc::Growth::Always,
            ..cc::Options::default()
        },
        halve: Halve::Window,
        recover_rule: RecoverRule::Covers,
        partial_ack_timer: PartialAckTimer::Each,
        rto: RtoBounds {
            initial: Duration::from_secs(3),
            min: Duration::from_secs(1),
            max: Duration::from_secs(64),
            granularity: Duration::from_millis(10),
        },
        timing: Timing::Timestamps,
        timer_tick: Duration::from_millis(10),
        syn_backoff: SynBackoff::Steps(&[1, 1, 1, 1, 1, 2, 4, 8, 16, 32, 64]),
        syn_retries: 12,
        ack_every: nonzero(2),
        ack_delay: Duration::from_millis(100),
        receive_buffer_bytes: 57_344,
        send_buffer_bytes: 32_768,
        ..Config::default()
    }
}

fn opnet11() -> Config {
    Config {
        sack: false,
        congestion_options: cc::Options {
            initial_window: cc::InitialWindow::Mtus(nonzero(2)),
            counting: cc::Counting::Acks,
            growth: cc::Growth::Always,
            slow_start_end: cc::SlowStartEnd::Clamp,
            initial_ssthresh: Some(65_535),
            ..cc::Options::default()
        },
        idle_raises_ssthresh: true,
        rto: RtoBounds {
            initial: Duration::from_secs(3),
            min: Duration::from_secs(1),
            max: Duration::from_secs(64),
            granularity: Duration::ZERO,
        },
        timing: Timing::OneAtATime,
        timer_tick: Duration::from_millis(500),
        initial_srtt: Some(Duration::from_millis(1_500)),
        data_retries: 6,
        ack_every: nonzero(1),
        ack_delay: Duration::ZERO,
        ack_clock: AckClock::Free,
        receive_buffer_bytes: 65_535,
        send_buffer_bytes: 1 << 20,
        persist_min: Duration::from_secs(1),
        ..Config::default()
    }
}

fn modern() -> Config {
    Config {
        window_scaling: true,
        timestamps: true,
        congestion_control: cc::Kind::Cubic,
        congestion_options: cc::Options {
            initial_window: cc::InitialWindow::Mtus(nonzero(10)),
            slow_start: cc::SlowStart::HyStart,
            counting: cc::Counting::Bytes,
            byte_counting_limit: nonzero(2),
            growth: cc::Growth::WhenFull,
            ..cc::Options::default()
        },
        limited_transmit: true,
        loss_detection: LossDetection::Time,
        tail_loss_probe: true,
        proportional_reduction: true,
        timeout_clears_sack: false,
        rto: RtoBounds {
            initial: Duration::from_secs(1),
            min: Duration::from_millis(200),
            max: Duration::from_secs(120),
            granularity: Duration::from_millis(200),
        },
        timing: Timing::EverySegment,
        syn_retries: 6,
        data_retries: 15,
        ack_delay: Duration::from_millis(40),
        quick_acks: 16,
        receive_buffer_bytes: 6 << 20,
        send_buffer_bytes: 4 << 20,
        persist_min: Duration::from_millis(200),
        ..Config::default()
    }
}

/// Differs from `modern` by what shows in durations where packets are lost and round trips are short.
fn linux() -> Config {
    let mut config = Config {
        wheel_tick: Duration::from_millis(4),
        timer_margin: Duration::from_millis(2),
        timing: Timing::FirstSegment,
        rack_takes_any_rtt: true,
        ..modern()
    };
    config.congestion_options.cubic = cc::cubic::Version::Linux;
    config
}

impl From<Profile> for Config {
    fn from(profile: Profile) -> Self {
        profile.config()
    }
}

named!(Profile, UnknownProfile, "TCP profile");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_parses_from_its_name_and_names_its_sources() {
        for profile in Profile::ALL {
            assert_eq!(profile.to_string().parse(), Ok(*profile));
            let rows = profile.rows();
            assert!(rows.iter().all(|row| row.source.len() > 5), "{profile}");
            let sack = rows.iter().find(|row| row.field == "sack").unwrap();
            assert_eq!(sack.value, profile.config().sack.to_string());
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "tahoe".parse::<Profile>().unwrap_err().to_string();
        let names = "newreno-bsd46, sack, sack+lt+abc, sack+lt+abc+er, opnet11, modern, linux";
        assert_eq!(error, format!("no TCP profile is called `tahoe`; there are {names}"));
    }
}
