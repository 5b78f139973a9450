//! Validation of the simulator: cells of P2's Figures 6 to 8, each run in the simulator and live, with real
//! programs between two hosts joined by emulated links (`braidftp_emu::tun`).
//!
//! A cell is a path, a file size, a loss ratio and a [`Way`] of transfer. Both worlds use the same protocol
//! parameters, packet lengths and link seeds. But the login of a live run has additional packets and its
//! hosts take time, so losses soon hit other packets. Runs therefore share seeds, and are compared by their
//! medians.
//!
//! The time is measured from the first command for the first file to the end of the last file and its 226.
//! Listing and login are excluded: the real client requests facts (MLSD), the papers' client names (NLST).

pub mod clock;
pub mod judge;
pub mod live;
pub mod programs;
pub mod rows;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use braidftp_sctp as sctp;
use braidftp_sim::apps::ftp::{Session, Variant};
use braidftp_sim::link::{LinkConfig, Queue};
use braidftp_tcp as tcp;

use crate::papers::ftp::{self as papers, LAN, Path, SATELLITE, WAN};

/// The number of files in a run, as in P2.
pub const FILES: usize = 100;
/// The queue of the router, as in P2.
const QUEUE: Queue = Queue::Bytes(500_000);
/// The papers' paths, in the order of their figures.
pub const PATHS: [Path; 3] = [LAN, WAN, SATELLITE];
/// P2's file sizes in bytes.
pub const SIZES: [u64; 5] = [10_000, 50_000, 200_000, 500_000, 1_000_000];
/// The papers' loss ratios in per cent.
pub const LOSSES: [u32; 5] = [0, 1, 3, 6, 10];

/// The mode of transfer and the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// braidftp, one association per file; SCTP as in the papers.
    Naive,
    /// braidftp, one association; SCTP as in the papers.
    Ms,
    /// braidftp, one association, pipelined commands; SCTP as in the papers.
    MsCp,
    /// braidftp's own mode; modern SCTP.
    Braid,
    /// lftp and vsftpd over kernel TCP without SACK, with Reno.
    Tcp,
    /// lftp and vsftpd over kernel TCP with its defaults, SACK and CUBIC.
    TcpSack,
}

impl Way {
    /// All, in the order of tables.
    pub const ALL: [Self; 6] = [Self::Naive, Self::Ms, Self::MsCp, Self::Braid, Self::Tcp, Self::TcpSack];

    /// The name in tables and selections.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Ms => "ms",
            Self::MsCp => "ms-cp",
            Self::Braid => "braid",
            Self::Tcp => "tcp",
            Self::TcpSack => "tcp-sack",
        }
    }

    /// Whether this is SCTP, by our own programs.
    pub const fn is_sctp(self) -> bool {
        matches!(self, Self::Naive | Self::Ms | Self::MsCp | Self::Braid)
    }

    fn variant(self) -> Variant {
        match self {
            Self::Naive => Variant::Naive,
            Self::Ms => Variant::Ms,
            Self::MsCp => Variant::MsCp,
            Self::Braid => Variant::Braid,
            Self::Tcp | Self::TcpSack => Variant::Tcp,
        }
    }

    /// The SCTP profile in both worlds.
    pub const fn sctp(self) -> sctp::Profile {
        match self {
            Self::Braid => sctp::Profile::Modern,
            _ => sctp::Profile::Rfc2960Kame,
        }
    }

    /// The profile of the simulated TCP.
    pub const fn tcp(self) -> tcp::Profile {
        match self {
            Self::TcpSack => tcp::Profile::Modern,
            _ => tcp::Profile::NewrenoBsd46,
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The lower layer of SCTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// UDP (RFC 6951).
    Udp,
    /// IP: raw sockets, needs root.
    Ip,
}

impl Carrier {
    /// The bytes before an SCTP packet, including the IPv4 header.
    pub const fn overhead_bytes(self) -> usize {
        match self {
            Self::Udp => 28,
            Self::Ip => 20,
        }
    }
}

/// A cell of the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The path, equal in both directions.
    pub path: Path,
    /// The size of each file in bytes.
    pub size: u64,
    /// The loss ratio of each direction in per cent.
    pub loss: u32,
    /// The mode of transfer.
    pub way: Way,
}

impl Cell {
    /// Returns every cell of Figures 6 to 8 in order, and TCP with SACK.
    pub fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for path in PATHS {
            for size in SIZES {
                for loss in LOSSES {
                    cells.extend(Way::ALL.map(|way| Self { path, size, loss, way }));
                }
            }
        }
        cells
    }

    /// Whether the cell has random losses.
    pub const fn is_random(&self) -> bool {
        self.loss > 0
    }

    /// The link of each direction, without the configured overhead.
    pub fn link(&self) -> LinkConfig {
        self.path.link(QUEUE, papers::bernoulli(f64::from(self.loss) / 100.0))
    }

    /// The seed of a run: equal for all ways of transfer of the same files on the same path.
    pub fn seed(&self, run: u32, base: u64) -> u64 {
        let text = format!("{base} {run} {} {} {}", self.path.name, self.size, self.loss);
        u64::from_le_bytes(*blake3::hash(text.as_bytes()).as_bytes().first_chunk().expect("it has 32 bytes"))
    }

    /// Runs the cell in the simulator; returns seconds.
    pub fn simulate(&self, seed: u64, carrier: Carrier) -> Result<f64, String> {
        let overhead_bytes = if self.way.is_sctp() { carrier.overhead_bytes() } else { 20 };
        let link = LinkConfig { overhead_bytes, ..self.link() };
        let session = Session {
            variant: self.way.variant(),
            files: vec![self.size; FILES],
            sctp: self.way.sctp().config(),
            tcp: self.way.tcp().config(),
            paths: vec![[link.clone(), link]],
            seed,
            ..Session::default()
        };
        let outcome = session.run();
        if let Some(why) = outcome.failed {
            return Err(why);
        }
        let begun = outcome.files.iter().filter_map(|file| file.asked).min();
        let ended = outcome.files.iter().map(|file| file.done.filter(|_| file.whole)).max().flatten();
        match (begun, ended) {
            (Some(begun), Some(ended)) => Ok(ended.since(begun).as_secs_f64()),
            _ => Err("not every file arrived".to_owned()),
        }
    }

    /// The time limit of a live run, given its usual duration.
    pub fn patience(usual_seconds: f64) -> Duration {
        Duration::from_secs_f64(60.0 + 10.0 * usual_seconds)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}/{}k/{}/{}", self.path.name, self.size / 1000, self.loss, self.way))
    }
}

/// A selection of cells: `PATH/SIZE/LOSS/WAY`, each component a name or `*`, as in `lan/10k/*/ms-cp`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    path: Option<&'static str>,
    size: Option<u64>,
    loss: Option<u32>,
    way: Option<Way>,
}

impl Selection {
    /// Whether a cell is selected.
    pub fn has(&self, cell: &Cell) -> bool {
        self.path.is_none_or(|path| path == cell.path.name)
            && self.size.is_none_or(|size| size == cell.size)
            && self.loss.is_none_or(|loss| loss == cell.loss)
            && self.way.is_none_or(|way| way == cell.way)
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shape = || {
            format!(
                "`{}` is not a selection: write PATH/SIZE/LOSS/WAY, as in lan/10k/3/ms-cp, with * for any",
                text.escape_debug()
            )
        };
        let parts: Vec<&str> = text.split('/').collect();
        let [path, size, loss, way] = parts[..] else { return Err(shape()) };
        Ok(Self {
            path: one_of("path", path, PATHS.iter().map(|path| (path.name.to_owned(), path.name)))?,
            size: one_of("size", size, SIZES.iter().map(|size| (format!("{}k", size / 1000), *size)))?,
            loss: one_of(
                "loss",
                loss.strip_suffix('%').unwrap_or(loss),
                LOSSES.iter().map(|loss| (loss.to_string(), *loss)),
            )?,
            way: one_of("way", way, Way::ALL.iter().map(|way| (way.name().to_owned(), *way)))?,
        })
    }
}

fn one_of<T>(
    what: &str,
    text: &str,
    there: impl Iterator<Item = (String, T)> + Clone,
) -> Result<Option<T>, String> {
    if text == "*" {
        return Ok(None);
    }
    let names = || there.clone().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    match there.clone().find(|(name, _)| name == text) {
        Some((_, value)) => Ok(Some(value)),
        None => Err(format!("no {what} `{}`; there are {}", text.escape_debug(), names())),
    }
}

/// The cells of `--quick`: some of each path and way, none of which takes more than a minute live.
pub const QUICK: &[&str] = &[
    "lan/10k/0/naive",
    "lan/10k/1/naive",
    "lan/10k/0/ms",
    "lan/10k/1/ms",
    "lan/10k/3/ms",
    "lan/50k/1/ms",
    "lan/10k/0/ms-cp",
    "lan/10k/1/ms-cp",
    "lan/10k/3/ms-cp",
    "lan/10k/10/ms-cp",
    "lan/50k/3/ms-cp",
    "lan/10k/0/braid",
    "lan/10k/10/braid",
    "lan/50k/3/braid",
    "wan/10k/0/naive",
    "wan/10k/0/ms",
    "wan/10k/1/ms",
    "wan/10k/0/ms-cp",
    "wan/10k/3/ms-cp",
    "wan/10k/0/braid",
    "wan/10k/10/braid",
    "sat/10k/0/ms",
    "sat/10k/0/ms-cp",
    "sat/10k/1/ms-cp",
    "sat/10k/0/braid",
    "sat/10k/6/braid",
    "lan/10k/0/tcp",
    "lan/10k/1/tcp",
    "lan/10k/0/tcp-sack",
    "lan/10k/1/tcp-sack",
    "lan/10k/3/tcp-sack",
    "wan/10k/0/tcp",
    "wan/10k/0/tcp-sack",
    "wan/10k/1/tcp-sack",
];

/// The default cells: all whose runs are not too long.
pub const FULL: &[&str] = &["*/10k/*/*", "*/50k/*/*", "lan/200k/*/*"];

/// Returns the selected cells, in the order of the figures.
pub fn select(selections: &[Selection]) -> Vec<Cell> {
    Cell::all().into_iter().filter(|cell| selections.iter().any(|selection| selection.has(cell))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_selected_by_their_names() {
        for cell in Cell::all() {
            let selected = select(&[cell.to_string().parse().unwrap()]);
            assert_eq!(selected, [cell], "{cell}");
        }
        assert_eq!(select(&["*/*/*/*".parse().unwrap()]).len(), 3 * 5 * 5 * 6);
        assert_eq!(select(&["lan/10k/*/ms".parse().unwrap(), "lan/10k/3%/*".parse().unwrap()]).len(), 10);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        for (text, said) in [
            ("lan", "PATH/SIZE/LOSS/WAY"),
            ("moon/10k/0/ms", "lan, wan, sat"),
            ("lan/11k/0/ms", "10k, 50k, 200k, 500k, 1000k"),
            ("lan/10k/2/ms", "0, 1, 3, 6, 10"),
            ("lan/10k/0/quic", "naive, ms, ms-cp, braid, tcp, tcp-sack"),
        ] {
            assert!(text.parse::<Selection>().unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn the_default_selections_are_valid() {
        let parse = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<Vec<_>>();
        assert_eq!(select(&parse(QUICK)).len(), QUICK.len(), "no duplicates");
        assert!(select(&parse(FULL)).len() > QUICK.len());
    }

    #[test]
    fn only_ways_of_the_same_transfer_share_seeds() {
        let cell = |loss, way| Cell { path: LAN, size: 10_000, loss, way };
        assert_eq!(cell(1, Way::Ms).seed(0, 1), cell(1, Way::Tcp).seed(0, 1));
        assert_ne!(cell(1, Way::Ms).seed(0, 1), cell(3, Way::Ms).seed(0, 1));
        assert_ne!(cell(1, Way::Ms).seed(0, 1), cell(1, Way::Ms).seed(1, 1));
        assert_ne!(cell(1, Way::Ms).seed(0, 1), cell(1, Way::Ms).seed(0, 2));
    }

    #[test]
    fn a_simulated_run_takes_a_little_longer_than_its_bytes() {
        let cell = Cell { path: LAN, size: 10_000, loss: 0, way: Way::Braid };
        let seconds = cell.simulate(1, Carrier::Udp).unwrap();
        // 100 files of 10 kB take 2.67 s at 3 Mbit/s.
        assert!((2.67..3.0).contains(&seconds), "{seconds}");
        assert!(cell.simulate(1, Carrier::Ip).unwrap() < seconds, "the UDP header takes time");
    }
}
