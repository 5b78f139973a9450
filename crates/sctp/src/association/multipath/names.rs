//! Names of the multipath options, and the text form of all of them together.

use std::fmt;
use std::num::NonZeroU8;
use std::str::FromStr;

use braidftp_base::named;
use braidftp_cc::coupled::{Coupling, UnknownCoupling};

/// How data takes several paths at once. Written as `scheduler=ecf,retransmit=cwnd`: what is not named is as in
/// [`Multipath::default`], and so is all of it in `default`; `plain` is [`Multipath::plain`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multipath {
    /// By which path new data leaves, of those that have room.
    pub scheduler: PathScheduler,
    /// By which path a lost chunk leaves again.
    pub retransmit_by: RetransmitBy,
    /// What keeps a bad path from blocking the receive buffer that all of them share.
    pub remedy: Remedy,
    /// What the paths' congestion control has to do with each other.
    pub coupling: Coupling,
    /// With [`Config::potentially_failed_max_retrans`](crate::Config): the window with which a path begins that was
    /// potentially failed and has answered a HEARTBEAT, in MTUs. 2 (CMT-PF).
    pub window_after_failure: NonZeroU8,
}

const TWO: NonZeroU8 = NonZeroU8::new(2).expect("2 is not 0");

impl Multipath {
    /// The transfer of the literature: paths in turn, RTX-CWND, no remedies, each path with a congestion control of its own.
    pub const fn plain() -> Self {
        Self {
            scheduler: PathScheduler::RoundRobin,
            retransmit_by: RetransmitBy::Cwnd,
            remedy: Remedy::None,
            coupling: Coupling::None,
            window_after_failure: TWO,
        }
    }
}

/// What needs no tuning: the path by which a chunk arrives first, the others where they do not hold it up, and as much as one
/// flow where they share a bottleneck.
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

/// Which path new data takes, of those that have room for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PathScheduler {
    /// One after the other, each until its window is full.
    RoundRobin,
    /// The one with the shortest round trip (LRTF, MPTCP's default).
    LowestRtt,
    /// BLEST (Ferlin, Alay, Mehani, Boreli: "BLEST: Blocking Estimation-based MPTCP Scheduler for Heterogeneous Networks", IFIP
    /// Networking 2016): a slower path only if the faster one's window is not blocked by it.
    Blest,
    /// ECF (Lim, Nahum, Towsley, Gibbens: "ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths", CoNEXT 2017): a slower
    /// path only if waiting for the faster one would not be over earlier.
    Ecf,
}

impl PathScheduler {
    /// All of them.
    pub const ALL: &[Self] = &[Self::RoundRobin, Self::LowestRtt, Self::Blest, Self::Ecf];

    /// The name by which [`FromStr`] knows it.
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

/// The retransmission policies of concurrent multipath transfer. Only active paths are chosen, while there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetransmitBy {
    /// RTX-SAME: the path by which it left.
    Same,
    /// RTX-ASAP: any whose window has room; one of them by chance.
    Asap,
    /// RTX-CWND: the one with the largest window.
    Cwnd,
    /// RTX-SSTHRESH: the one with the highest slow-start threshold.
    Ssthresh,
    /// RTX-LOSSRATE: the one that has lost the smallest share of what it carried.
    LossRate,
    /// Ours: the one by which it is expected to arrive first.
    Soonest,
}

impl RetransmitBy {
    /// All of them, in the order of the literature.
    pub const ALL: &[Self] =
        &[Self::Same, Self::Asap, Self::Cwnd, Self::Ssthresh, Self::LossRate, Self::Soonest];

    /// The name by which [`FromStr`] knows it.
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

/// The remedies against a receive buffer that one path blocks for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Remedy {
    /// None.
    None,
    /// No path has more of the send buffer outstanding than its equal share (Dreibholz, Becke, Rathgeb, Tüxen: "On the Use of
    /// Concurrent Multipath Transfer over Asymmetric Paths", GLOBECOM 2010).
    SplitSender,
    /// The same of the receive buffer.
    SplitReceiver,
    /// The same of both.
    SplitBoth,
    /// With both split: where a path has half of its share blocked by what another path has not brought, that leaves again by it
    /// (chunk rescheduling; Dreibholz, Seggelmann, Tüxen, Rathgeb: "Transmission Scheduling Optimizations for Concurrent
    /// Multipath Transfer", PFLDNeT 2010).
    Reschedule,
    /// Where the receive buffer is full, the oldest chunk outstanding leaves again by a path with room, and the window of the path
    /// that held it up is halved once a round trip (opportunistic retransmission and penalisation; Raiciu et al.: "How Hard Can It
    /// Be? Designing and Implementing a Deployable Multipath TCP", NSDI 2012).
    Opportunistic,
    /// Ours: a slower path gets a chunk only if the receive buffer holds beside it all that the faster ones bring until it arrives.
    Preventive,
}

impl Remedy {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::SplitSender,
        Self::SplitReceiver,
        Self::SplitBoth,
        Self::Reschedule,
        Self::Opportunistic,
        Self::Preventive,
    ];

    /// The name by which [`FromStr`] knows it.
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

/// What of [`Multipath`] can be written, by name.
const CHOICES: [&str; 5] = ["scheduler", "retransmit", "remedy", "coupling", "window-after-failure"];

impl fmt::Display for Multipath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheduler, retransmit_by, remedy, coupling, window_after_failure } = self;
        write!(f, "scheduler={scheduler},retransmit={retransmit_by},remedy={remedy},coupling={coupling}")?;
        write!(f, ",window-after-failure={window_after_failure}")
    }
}

/// Why a text is no [`Multipath`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MultipathError {
    /// There is nothing of this name to choose.
    Unknown(String),
    /// No such scheduler.
    Scheduler(UnknownPathScheduler),
    /// No such policy.
    RetransmitBy(UnknownRetransmitBy),
    /// No such remedy.
    Remedy(UnknownRemedy),
    /// No such coupling.
    Coupling(UnknownCoupling),
    /// A window that is not 1 to 255 MTUs.
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
    fn every_choice_reads_back_from_its_name() {
        for scheduler in PathScheduler::ALL {
            for retransmit_by in RetransmitBy::ALL {
                for remedy in Remedy::ALL {
                    for coupling in Coupling::ALL {
                        let (scheduler, retransmit_by, remedy) = (*scheduler, *retransmit_by, *remedy);
                        let window_after_failure = NonZeroU8::MIN;
                        let coupling = *coupling;
                        let all =
                            Multipath { scheduler, retransmit_by, remedy, coupling, window_after_failure };
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
    fn an_unknown_name_is_told_what_exists() {
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
