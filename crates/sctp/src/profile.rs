//! Named sets of [`Config`] values. No other code depends on the name of a profile.

use std::num::{NonZeroU8, NonZeroU16};
use std::time::Duration;

use braidftp_base::named;
use braidftp_cc as cc;

use crate::config::{
    BurstRule, Config, LossDetection, LossRecovery, MeasureEach, MtuDiscovery, RetransmitTo, WindowUpdates,
};

const TWO: NonZeroU8 = NonZeroU8::new(2).expect("2 is not 0");

/// A named [`Config`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Profile {
    /// SCTP at the time of the papers: RFC 2960 with Max.Burst, as in the KAME kernel stack that they
    /// measured. P1 is "FTP over SCTP in future combat systems", P2 "Multistreamed FTP"; SOA03 is the
    /// Implementer's Guide that P2 cites for Max.Burst.
    Rfc2960Kame,
    /// RFC 9260's recommended values.
    Rfc9260,
    /// Modern transport features: loss detection by send order, tail loss probes, a short RTO.Min, little
    /// SACK delay, an initial window of ten packets, large buffers, and failover after the first time-out.
    /// Its congestion control is `auto`, which distinguishes congestion losses from others.
    Modern,
    /// ns-2's SCTP module 3.8 as far as it follows standards: RFC 2960 and RFC 4960 with the module's own
    /// numbers. Its non-standard behaviour is left out.
    Ns2,
}

/// One value of a profile, for a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The field of [`Config`], as a path.
    pub field: &'static str,
    /// Its value.
    pub value: String,
    /// The source of the value.
    pub source: &'static str,
}

/// A field of [`Config`] that a profile may set: its name, its value as text, and the source of its
/// default.
type Field = (&'static str, fn(&Config) -> String, &'static str);

fn seconds(duration: Duration) -> String {
    format!("{} s", duration.as_secs_f64())
}

fn or_none<T>(value: Option<T>, text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "none".to_owned(), text)
}

fn on_off(on: bool) -> String {
    if on { "on" } else { "off" }.to_owned()
}

/// The fields that a profile may set, in the order of [`Config`].
const FIELDS: &[Field] = &[
    ("mtu", |c| format!("{} B", c.mtu), "Ethernet's 1500 bytes less IPv6 (40) and UDP (8)"),
    (
        "path_mtu_discovery",
        |c| or_none(c.path_mtu_discovery, |m| format!("up to {} B", m.max)),
        "RFC 9260 §7.3 leaves it open",
    ),
    ("congestion_control", |c| c.congestion_control.to_string(), "RFC 9260 §7.2"),
    (
        "congestion_options.initial_window",
        |c| format!("{:?}", c.congestion_options.initial_window),
        "RFC 9260 §7.2.1: min(4 PMDCS, max(2 PMDCS, 4404 B))",
    ),
    (
        "congestion_options.initial_ssthresh",
        |c| or_none(c.congestion_options.initial_ssthresh, |b| format!("{b} B")),
        "RFC 9260 §7.2.1: arbitrarily high",
    ),
    (
        "congestion_options.floor_mtus",
        |c| c.congestion_options.floor_mtus.to_string(),
        "RFC 9260 §7.2.3: 4 PMDCS",
    ),
    (
        "congestion_options.byte_counting_limit",
        |c| c.congestion_options.byte_counting_limit.to_string(),
        "RFC 9260 §7.2.1: L = 1",
    ),
    ("congestion_options.grows_on", |c| format!("{:?}", c.congestion_options.grows_on), "RFC 9260 §7.2.1"),
    (
        "congestion_options.partial_bytes",
        |c| format!("{:?}", c.congestion_options.partial_bytes),
        "RFC 9260 §7.2.2",
    ),
    ("congestion_options.idle_rule", |c| format!("{:?}", c.congestion_options.idle_rule), "RFC 9260 §7.2.1"),
    (
        "congestion_options.slow_start",
        |c| format!("{:?}", c.congestion_options.slow_start),
        "RFC 9260 §7.2.1",
    ),
    ("max_burst", |c| or_none(c.max_burst, |n| n.to_string()), "RFC 9260 §16: Max.Burst"),
    ("burst_rule", |c| format!("{:?}", c.burst_rule), "RFC 9260 §6.1 D: the window is not changed for good"),
    ("loss_detection", |c| format!("{:?}", c.loss_detection), "RFC 9260 §7.2.4"),
    ("missing_reports", |c| c.missing_reports.to_string(), "RFC 9260 §7.2.4"),
    ("retransmit_to", |c| format!("{:?}", c.retransmit_to), "RFC 9260 §6.4"),
    ("loss_recovery", |c| format!("{:?}", c.loss_recovery), "RFC 9260 §6.3.3, §7.2.4"),
    ("tail_loss_probe", |c| on_off(c.tail_loss_probe), "RFC 9260 knows none"),
    ("proportional_reduction", |c| on_off(c.proportional_reduction), "RFC 9260 knows none"),
    ("undo_spurious", |c| on_off(c.undo_spurious), "RFC 9260 knows none"),
    ("pass_over_every", |c| or_none(c.pass_over_every, |n| n.to_string()), "RFC 9260 knows none"),
    ("rto.initial", |c| seconds(c.rto.initial), "RFC 9260 §16: RTO.Initial"),
    ("rto.min", |c| seconds(c.rto.min), "RFC 9260 §16: RTO.Min"),
    ("rto.max", |c| seconds(c.rto.max), "RFC 9260 §16: RTO.Max"),
    (
        "measure_each",
        |c| format!("{:?}", c.measure_each),
        "RFC 9260 §6.3.1: no more than once per round trip",
    ),
    ("measure_handshake", |c| on_off(c.measure_handshake), "RFC 9260 §6.3.1 leaves it open"),
    ("max_init_retransmits", |c| c.max_init_retransmits.to_string(), "RFC 9260 §16: Max.Init.Retransmits"),
    ("init_interval", |c| or_none(c.init_interval, seconds), "RFC 9260 §5.1.6: T1-init follows the RTO"),
    ("early_repair", |c| on_off(c.early_repair), "RFC 9260 knows none"),
    (
        "association_max_retrans",
        |c| c.association_max_retrans.to_string(),
        "RFC 9260 §16: Association.Max.Retrans",
    ),
    ("path_max_retrans", |c| c.path_max_retrans.to_string(), "RFC 9260 §16: Path.Max.Retrans"),
    (
        "potentially_failed_max_retrans",
        |c| or_none(c.potentially_failed_max_retrans, |n| n.to_string()),
        "RFC 9260 has no such state",
    ),
    (
        "primary_switchover_max_retrans",
        |c| or_none(c.primary_switchover_max_retrans, |n| n.to_string()),
        "RFC 9260 §6.4: data returns to the primary path",
    ),
    ("heartbeat_interval", |c| or_none(c.heartbeat_interval, seconds), "RFC 9260 §16: HB.interval"),
    ("sack_delay", |c| seconds(c.sack_delay), "RFC 9260 §16: SACK.Delay"),
    ("sack_frequency", |c| c.sack_frequency.to_string(), "RFC 9260 §6.2: every second packet"),
    ("sack_at_once_when_filled", |c| on_off(c.sack_at_once_when_filled), "RFC 5681 §4.2"),
    ("immediate_at_end", |c| on_off(c.immediate_at_end), "RFC 9260 §6.1 leaves the I bit to the sender"),
    ("compact_sack", |c| on_off(c.compact_sack), "RFC 9260 knows none"),
    ("fill_packets", |c| on_off(c.fill_packets), "RFC 9260 §6.9 has both"),
    ("receive_buffer_bytes", |c| format!("{} B", c.receive_buffer_bytes), "ours: a megabyte"),
    (
        "receive_buffer_max_bytes",
        |c| or_none(c.receive_buffer_max_bytes, |b| format!("{b} B")),
        "RFC 9260 §3.3.2: not reduced; it says nothing of growing",
    ),
    (
        "chunk_overhead_bytes",
        |c| format!("{} B", c.chunk_overhead_bytes),
        "ours: what holding a chunk takes of memory",
    ),
    ("window_updates", |c| format!("{:?}", c.window_updates), "RFC 9260 §6.2, RFC 1122 §4.2.3.3"),
    ("send_buffer_bytes", |c| format!("{} B", c.send_buffer_bytes), "ours: a megabyte"),
    (
        "send_buffer_max_bytes",
        |c| or_none(c.send_buffer_max_bytes, |b| format!("{b} B")),
        "ours: it is what it is",
    ),
];

impl Profile {
    /// All profiles, in the order of listings.
    pub const ALL: &[Self] = &[Self::Rfc2960Kame, Self::Rfc9260, Self::Modern, Self::Ns2];

    /// Returns the values.
    pub fn config(self) -> Config {
        match self {
            Self::Rfc9260 => Config::default(),
            // Limited Transmit (RFC 3042) and appropriate byte counting (RFC 3465), which P2 §5.2.1 reports
            // of KAME's SCTP, need no field: data acknowledged by gap blocks makes room in the window, and
            // windows count bytes.
            Self::Rfc2960Kame => Config {
                // Packets of 1500 bytes over IPv4.
                mtu: 1_480,
                congestion_options: cc::Options {
                    // RFC 2960 §7.2.1: "MUST be <= 2*MTU"; §7.2.3: "max(cwnd/2, 2*MTU)".
                    initial_window: cc::InitialWindow::Mtus(TWO),
                    floor_mtus: TWO,
                    grows_on: cc::GrowsOn::CumAdvance,
                    ..cc::Options::default()
                },
                burst_rule: BurstRule::LowerWindow,
                // RFC 2960 §7.2.4, and P2 §5.2.1: "requires 4 missing reports".
                missing_reports: NonZeroU8::new(4).expect("4 is not 0"),
                retransmit_to: RetransmitTo::Another,
                loss_recovery: LossRecovery::Rfc4960,
                // P2 §5.2.1: "initially minRTO=3s; after the sender measures an RTT, minRTO=1s"; INIT gives
                // no sample.
                rto: cc::rtt::Bounds { initial: Duration::from_secs(3), ..cc::rtt::Bounds::default() },
                measure_handshake: false,
                measure_each: MeasureEach::RoundTrip,
                sack_at_once_when_filled: false,
                ..Config::default()
            },
            Self::Ns2 => Config {
                mtu: 1_480,
                congestion_options: cc::Options {
                    initial_window: cc::InitialWindow::Tcp,
                    initial_ssthresh: Some(65_536),
                    grows_on: cc::GrowsOn::CumAdvance,
                    partial_bytes: cc::PartialBytes::WhileUsed,
                    idle_rule: cc::IdleRule::Rfc4960,
                    ..cc::Options::default()
                },
                retransmit_to: RetransmitTo::Another,
                loss_recovery: LossRecovery::Rfc4960,
                rto: cc::rtt::Bounds { initial: Duration::from_secs(3), ..cc::rtt::Bounds::default() },
                measure_handshake: false,
                measure_each: MeasureEach::RoundTrip,
                // Data never returns to a primary path that was inactive: PSMR = PMR (RFC 7829 §5).
                primary_switchover_max_retrans: Some(5),
                sack_at_once_when_filled: false,
                receive_buffer_bytes: 65_536,
                chunk_overhead_bytes: 16,
                window_updates: WindowUpdates::AsItIs,
                ..Config::default()
            },
            Self::Modern => Config {
                congestion_control: cc::Kind::Auto,
                // RFC 6928, and L = 2 of RFC 3465 against delayed SACKs.
                congestion_options: cc::Options {
                    initial_window: cc::InitialWindow::Mtus(NonZeroU8::new(10).expect("10 is not 0")),
                    byte_counting_limit: NonZeroU8::new(2).expect("2 is not 0"),
                    // A slow start that overflows the queue costs more than its loss: in order, nothing is
                    // delivered until all of it has been retransmitted.
                    slow_start: cc::SlowStart::HyStart,
                    ..cc::Options::default()
                },
                // With delayed SACKs and batched sending, one event may acknowledge far more than four
                // packets. The limit would keep the window unused, and a burst into a full queue is
                // detected within one RTT.
                max_burst: None,
                loss_detection: LossDetection::SendOrder,
                tail_loss_probe: true,
                proportional_reduction: true,
                undo_spurious: true,
                pass_over_every: NonZeroU16::new(4_096),
                // Tail loss probes make T3-rtx the last resort; on a path of a few milliseconds, waiting a
                // second is what losses cost most.
                rto: cc::rtt::Bounds { min: Duration::from_millis(100), ..cc::rtt::Bounds::default() },
                init_interval: Some(Duration::from_millis(250)),
                // With INITs at these intervals: 66 s in total.
                max_init_retransmits: 26,
                early_repair: true,
                //= specs/rfc7829.txt#section-3.2
                //# The RECOMMENDED value of PFMR is 0.
                //= specs/rfc7829.txt#section-6
                //# The following protocol parameter is RECOMMENDED:
                potentially_failed_max_retrans: Some(0),
                // From a size that works nearly everywhere, so that nothing is probed unless packets are
                // lost.
                path_mtu_discovery: Some(MtuDiscovery::default()),
                sack_delay: Duration::from_millis(20),
                immediate_at_end: true,
                compact_sack: true,
                fill_packets: true,
                // 1 Gbit/s over 60 ms. A process limited to 64 MB has room for one such association that
                // stalls; unused buffer costs nothing.
                receive_buffer_bytes: 8 << 20,
                send_buffer_bytes: 4 << 20,
                // More where one or several paths carry more: 1 Gbit/s over half a second.
                receive_buffer_max_bytes: Some(64 << 20),
                send_buffer_max_bytes: Some(64 << 20),
                // Everything that INIT must negotiate is off, ECN included: few paths support it, and some
                // peers do not answer an INIT with parameters.
                ..Config::default()
            },
        }
    }

    /// The name by which [`FromStr`](std::str::FromStr) knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc2960Kame => "rfc2960-kame",
            Self::Rfc9260 => "rfc9260",
            Self::Modern => "modern",
            Self::Ns2 => "ns2",
        }
    }

    /// Returns the values with the source of each, in the order of [`Config`].
    pub fn rows(self) -> Vec<Row> {
        let (config, default) = (self.config(), Config::default());
        let row = |&(field, text, by_default): &Field| {
            let value = text(&config);
            let source = if value == text(&default) { None } else { self.source(field) };
            Row { field, value, source: source.unwrap_or(by_default) }
        };
        FIELDS.iter().map(row).collect()
    }

    /// The source of a value that differs from RFC 9260.
    fn source(self, field: &str) -> Option<&'static str> {
        let source = match (self, field) {
            (Self::Rfc2960Kame | Self::Ns2, "mtu") => "1500 bytes less IPv4 (20): P2 §5.1, ns-2's `mtu` 1500",
            (Self::Rfc2960Kame, "congestion_options.initial_window") => "RFC 2960 §7.2.1: no more than 2 MTU",
            (Self::Rfc2960Kame, "congestion_options.floor_mtus") => "RFC 2960 §7.2.3: max(cwnd/2, 2 MTU)",
            (Self::Rfc2960Kame | Self::Ns2, "congestion_options.grows_on") => {
                "RFC 2960 and RFC 4960 §7.2.1, §7.2.2"
            }
            (Self::Rfc2960Kame, "burst_rule") => "P2 §4.2 equation 1, after SOA03; RFC 4960 §6.1 D",
            (Self::Rfc2960Kame, "missing_reports") => "RFC 2960 §7.2.4; P2 §5.2.1",
            (Self::Rfc2960Kame, "retransmit_to") => "RFC 2960 §6.4: an address different from the last",
            (Self::Rfc2960Kame | Self::Ns2, "loss_recovery") => {
                "RFC 2960 and RFC 4960 §6.3.3 E3, §7.2.4: a single packet"
            }
            (Self::Rfc2960Kame, "rto.initial") => "RFC 2960 §14: RTO.Initial 3 s; P2 §5.2.1",
            (Self::Rfc2960Kame | Self::Ns2, "measure_each") => {
                "one chunk of an address is timed at a time: BSD's way, ns-2's module"
            }
            (Self::Rfc2960Kame, "measure_handshake") => "P2 §5.2.1: 3 s until data has measured a round trip",
            (Self::Rfc2960Kame, "sack_at_once_when_filled") => {
                "RFC 2960 §6.7 asks for SACKs while there is a gap"
            }
            (Self::Ns2, "congestion_options.initial_window") => {
                "RFC 4960 §7.2.1: min(4 MTU, max(2 MTU, 4380 B))"
            }
            (Self::Ns2, "congestion_options.initial_ssthresh") => "ns-2's `initialSsthresh`",
            (Self::Ns2, "congestion_options.partial_bytes") => "ns-2's module",
            (Self::Ns2, "congestion_options.idle_rule") => "RFC 4960 §7.2.1",
            (Self::Ns2, "retransmit_to") => "ns-2's `rtxToAlt` 1; RFC 2960 §6.4",
            (Self::Ns2, "rto.initial") => "ns-2's `initialRto`; RFC 4960 §15",
            (Self::Ns2, "measure_handshake") => "ns-2's module takes no sample of it",
            (Self::Ns2, "primary_switchover_max_retrans") => {
                "ns-2's `changePrimaryThresh`, as PSMR = PMR in RFC 7829 §5"
            }
            (Self::Ns2, "sack_at_once_when_filled") => {
                "ns-2's module; RFC 4960 §6.7 asks for SACKs while there is a gap"
            }
            (Self::Ns2, "receive_buffer_bytes") => "ns-2's `initialRwnd`",
            (Self::Ns2, "chunk_overhead_bytes") => "ns-2's module: the DATA chunk's header",
            (Self::Ns2, "window_updates") => "ns-2's module: its receiver reads at once",
            (Self::Modern, "congestion_control") => "ours: CUBIC, but where losses are not congestion",
            (Self::Modern, "congestion_options.initial_window") => "RFC 6928: ten packets",
            (Self::Modern, "congestion_options.byte_counting_limit") => {
                "RFC 3465: L = 2, against delayed SACKs"
            }
            (Self::Modern, "congestion_options.slow_start") => "RFC 9406",
            (Self::Modern, "max_burst") => "ours: one SACK may answer for many packets",
            (Self::Modern, "loss_detection") => "RFC 9002 §6.1, as packets and time",
            (Self::Modern, "tail_loss_probe") => "RFC 8985 §7",
            (Self::Modern, "proportional_reduction") => "RFC 9937",
            (Self::Modern, "undo_spurious") => "RFC 3708",
            (Self::Modern, "pass_over_every") => "ours: 6 MB; against peers that lie",
            (Self::Modern, "rto.min") => "ours: probes come first",
            (Self::Modern, "init_interval") => "RFC 8305 §5: Connection Attempt Delay",
            (Self::Modern, "max_init_retransmits") => "ours: 66 s in all",
            (Self::Modern, "early_repair") => "ours: see `specs/exceptions/rfc9260.toml`",
            (Self::Modern, "potentially_failed_max_retrans") => "RFC 7829 §3.2: PFMR 0",
            (Self::Modern, "path_mtu_discovery") => "RFC 8899",
            (Self::Modern, "sack_delay") => "ours: a tenth of RFC 9260's",
            (Self::Modern, "immediate_at_end") => "RFC 7053",
            (Self::Modern, "compact_sack") => "ours: as many gaps as a gigabit a second has",
            (Self::Modern, "fill_packets") => "ours: RFC 9260 §6.9 has both",
            (Self::Modern, "receive_buffer_bytes") => "ours: a gigabit a second over 60 ms",
            (Self::Modern, "send_buffer_bytes") => "ours: a gigabit a second over 30 ms",
            (Self::Modern, "receive_buffer_max_bytes" | "send_buffer_max_bytes") => {
                "ours: a gigabit a second over half a second"
            }
            _ => return None,
        };
        Some(source)
    }
}

impl From<Profile> for Config {
    fn from(profile: Profile) -> Self {
        profile.config()
    }
}

named!(Profile, UnknownProfile, "profile");

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
        assert_eq!(error, "no profile is called `kame`; there are rfc2960-kame, rfc9260, modern, ns2");
    }

    #[test]
    fn every_value_that_is_not_the_default_is_listed_with_its_source() {
        for profile in Profile::ALL {
            for (row, (field, text, _)) in profile.rows().into_iter().zip(FIELDS) {
                let by_default = row.value == text(&Config::default());
                assert!(by_default || profile.source(field).is_some(), "{profile}: {field} {}", row.value);
                assert!(!row.source.is_empty());
            }
        }
    }

    #[test]
    fn rfc9260_is_the_default() {
        assert_eq!(Config::default(), Profile::Rfc9260.config());
    }
}
