//! Names of the multipath options, and the text form of all of them together.

mod constants;

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;

use braidftp_base::named;
use braidftp_cc::coupled::{Coupling, UnknownCoupling};

pub use self::constants::MultipathConstants;

/// Options of concurrent multipath transfer. As text: `scheduler=ecf,retransmit=cwnd`; unnamed options are
/// as in [`Multipath::default`]. `default` stands for all defaults, `plain` for [`Multipath::plain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multipath {
    /// The scheduler that selects the path of new data.
    pub scheduler: PathScheduler,
    /// The policy that selects the path of retransmissions.
    pub retransmit_by: RetransmitBy,
    /// The remedy against receive-buffer blocking.
    pub remedy: Remedy,
    /// The coupling of the paths' congestion control.
    pub coupling: Coupling,
    /// With [`failover.potentially_failed_max_retrans`](crate::Config::failover): the initial window, in MTUs, of a
    /// potentially failed path whose HEARTBEAT was acknowledged. Default 2 (CMT-PF).
    pub window_after_failure: NonZeroU8,
    /// The constants of the default algorithm. Not part of the text form.
    pub constants: &'static MultipathConstants,
}

const TWO: NonZeroU8 = NonZeroU8::new(2).expect("2 is not 0");

impl Multipath {
    /// CMT as in the papers: round robin, RTX-CWND, no remedies, independent congestion control on each
    /// path.
    pub const fn plain() -> Self {
        Self {
            scheduler: PathScheduler::RoundRobin,
            retransmit_by: RetransmitBy::Cwnd,
            remedy: Remedy::None,
            coupling: Coupling::None,
            window_after_failure: TWO,
            constants: &MultipathConstants::DEFAULT,
        }
    }
}

/// Options that need no tuning: the path on which a chunk arrives first, other paths where they do not
/// block it, and congestion control of one flow for paths with a shared bottleneck.
impl Default for Multipath {
    fn default() -> Self {
        Self {
            scheduler: PathScheduler::LowestRtt,
            retransmit_by: RetransmitBy::Soonest,
            remedy: Remedy::Preventive,
            coupling: Coupling::Detected,
            ..Self::plain()
        }
    }
}

/// The path of new data, among those with room in the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathScheduler {
    /// Paths in turn, each until its window is full.
    RoundRobin,
    /// The path with the shortest RTT (LRTF, the default of MPTCP).
    LowestRtt,
    /// BLEST (Ferlin, Alay, Mehani, Boreli: "BLEST: Blocking Estimation-based MPTCP Scheduler for
    /// Heterogeneous Networks", IFIP Networking 2016): a slower path only if it does not block the faster
    /// one's window.
    Blest,
    /// ECF (Lim, Nahum, Towsley, Gibbens: "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths",
    /// CoNEXT 2017): a slower path only if waiting for the faster one would not finish earlier.
    Ecf,
}

impl PathScheduler {
    /// All schedulers.
    pub const ALL: &[Self] = &[Self::RoundRobin, Self::LowestRtt, Self::Blest, Self::Ecf];

    /// The name that [`FromStr`] parses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RoundRobin => "round-robin",
            Self::LowestRtt => "lrtf",
            Self::Blest => "blest",
            Self::Ecf => "ecf",
        }
    }
}

named!(PathScheduler, UnknownPathScheduler, "path scheduler");

/// Retransmission path policies of CMT. Only active paths are selected, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetransmitBy {
    /// RTX-SAME: the path on which the chunk was sent.
    Same,
    /// RTX-ASAP: a random path among those with room in the window.
    Asap,
    /// RTX-CWND: the path with the largest window.
    Cwnd,
    /// RTX-SSTHRESH: the path with the highest slow-start threshold.
    Ssthresh,
    /// RTX-LOSSRATE: the path with the lowest loss ratio.
    LossRate,
    /// Ours: the path on which the chunk is expected to arrive first.
    Soonest,
}

impl RetransmitBy {
    /// All policies, in the order of the papers.
    pub const ALL: &[Self] =
        &[Self::Same, Self::Asap, Self::Cwnd, Self::Ssthresh, Self::LossRate, Self::Soonest];

    /// The name that [`FromStr`] parses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Asap => "asap",
            Self::Cwnd => "cwnd",
            Self::Ssthresh => "ssthresh",
            Self::LossRate => "lossrate",
            Self::Soonest => "soonest",
        }
    }
}

named!(RetransmitBy, UnknownRetransmitBy, "retransmission policy");

/// Remedies against receive-buffer blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remedy {
    /// None.
    None,
    /// No path may have more than its equal share of the send buffer outstanding (Dreibholz, Becke,
    /// Rathgeb, Tüxen: "On the Use of Concurrent Multipath Transfer over Asymmetric Paths", GLOBECOM 2010).
    SplitSender,
    /// The same for the receive buffer.
    SplitReceiver,
    /// The same for both.
    SplitBoth,
    /// Both split; and if half of a path's share is blocked by a chunk of another path, the chunk is
    /// retransmitted on this path (chunk rescheduling; Dreibholz, Seggelmann, Tüxen, Rathgeb: "Transmission
    /// Scheduling Optimizations for Concurrent Multipath Transfer", PFLDNeT 2010).
    Reschedule,
    /// If the receive buffer is full, the oldest outstanding chunk is retransmitted on a path with room,
    /// and the window of the path that blocked it is halved once per RTT (opportunistic retransmission and
    /// penalisation; Raiciu et al.: "How Hard Can It Be? Designing and Implementing a Deployable Multipath
    /// TCP", NSDI 2012).
    Opportunistic,
    /// Ours: a slower path gets a chunk only if the receive buffer also holds everything that the faster
    /// paths deliver until it arrives. At the end of the data the last chunks in flight there are sent on a faster path too.
    Preventive,
}

impl Remedy {
    /// All remedies.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::SplitSender,
        Self::SplitReceiver,
        Self::SplitBoth,
        Self::Reschedule,
        Self::Opportunistic,
        Self::Preventive,
    ];

    /// The name that [`FromStr`] parses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::SplitSender => "split-sender",
            Self::SplitReceiver => "split-receiver",
            Self::SplitBoth => "split-both",
            Self::Reschedule => "reschedule",
            Self::Opportunistic => "opportunistic",
            Self::Preventive => "preventive",
        }
    }
}

named!(Remedy, UnknownRemedy, "remedy");

/// The options in the text form of [`Multipath`].
const CHOICES: [&str; 5] = ["scheduler", "retransmit", "remedy", "coupling", "window-after-failure"];

impl fmt::Display for Multipath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheduler, retransmit_by, remedy, coupling, window_after_failure, constants: _ } = self;
        write!(f, "scheduler={scheduler},retransmit={retransmit_by},remedy={remedy},coupling={coupling}")?;
        write!(f, ",window-after-failure={window_after_failure}")
    }
}

/// Why a text is not a valid [`Multipath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultipathError {
    /// An unknown option.
    Unknown(String),
    /// An unknown scheduler.
    Scheduler(UnknownPathScheduler),
    /// An unknown policy.
    RetransmitBy(UnknownRetransmitBy),
    /// An unknown remedy.
    Remedy(UnknownRemedy),
    /// An unknown coupling.
    Coupling(UnknownCoupling),
    /// A window outside of 1 to 255 MTUs.
    Window(String),
}

impl fmt::Display for MultipathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(
                f,
                "multipath transfer has no `{}` to choose; there are default, plain, and {}=…",
                name.escape_debug(),
                CHOICES.join("=…, ")
            ),
            Self::Scheduler(error) => error.fmt(f),
            Self::RetransmitBy(error) => error.fmt(f),
            Self::Remedy(error) => error.fmt(f),
            Self::Coupling(error) => error.fmt(f),
            Self::Window(text) => {
                write!(f, "window-after-failure cannot be `{}`: it is 1 to 255", text.escape_debug())
            }
        }
    }
}

impl std::error::Error for MultipathError {}

impl FromStr for Multipath {
    type Err = MultipathError;

    fn from_str(text: &str) -> Result<Self, MultipathError> {
        let mut chosen = Self::default();
        for part in text.split(',') {
            match part.split_once('=') {
                None if part == "default" => chosen = Self::default(),
                None if part == "plain" => chosen = Self::plain(),
                Some(("scheduler", name)) => {
                    chosen.scheduler = name.parse().map_err(MultipathError::Scheduler)?;
                }
                Some(("retransmit", name)) => {
                    chosen.retransmit_by = name.parse().map_err(MultipathError::RetransmitBy)?;
                }
                Some(("remedy", name)) => chosen.remedy = name.parse().map_err(MultipathError::Remedy)?,
                Some(("coupling", name)) => {
                    chosen.coupling = name.parse().map_err(MultipathError::Coupling)?
                }
                Some(("window-after-failure", mtus)) => {
                    chosen.window_after_failure =
                        mtus.parse().map_err(|_| MultipathError::Window(mtus.to_owned()))?;
                }
                Some((name, _)) => return Err(MultipathError::Unknown(name.to_owned())),
                None => return Err(MultipathError::Unknown(part.to_owned())),
            }
        }
        Ok(chosen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_parsed_from_its_name() {
        for scheduler in PathScheduler::ALL {
            for retransmit_by in RetransmitBy::ALL {
                for remedy in Remedy::ALL {
                    for coupling in Coupling::ALL {
                        let (scheduler, retransmit_by, remedy) = (*scheduler, *retransmit_by, *remedy);
                        let window_after_failure = NonZeroU8::MIN;
                        let coupling = *coupling;
                        let all = Multipath {
                            scheduler,
                            retransmit_by,
                            remedy,
                            coupling,
                            window_after_failure,
                            ..Multipath::plain()
                        };
                        assert_eq!(all.to_string().parse(), Ok(all));
                    }
                }
            }
        }
        assert_eq!("default".parse(), Ok(Multipath::default()));
        let written: Multipath = "plain,remedy=split-both".parse().unwrap();
        assert_eq!(written, Multipath { remedy: Remedy::SplitBoth, ..Multipath::plain() });
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = |text: &str| text.parse::<Multipath>().unwrap_err().to_string();
        assert_eq!(
            error("scheduler=fast"),
            "no path scheduler is called `fast`; there are round-robin, lrtf, blest, ecf"
        );
        assert_eq!(
            error("ecf"),
            "multipath transfer has no `ecf` to choose; there are default, plain, and scheduler=…, retransmit=…, \
             remedy=…, coupling=…, window-after-failure=…"
        );
        assert!(error("remedy=").ends_with("opportunistic, preventive"));
        assert!(error("retransmit=x,remedy=none").starts_with("no retransmission policy is called `x`"));
        assert!(error("coupling=mptcp").contains("none, lia, olia, balia, rpv1, rpv2, fast, detected"));
        assert_eq!(error("window-after-failure=0"), "window-after-failure cannot be `0`: it is 1 to 255");
    }
}
