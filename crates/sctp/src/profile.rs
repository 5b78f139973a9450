//! Named sets of [`Config`] values. No other code depends on the name of a profile.

use std::num::{NonZeroU8, NonZeroU16};
use std::time::Duration;

use braidftp_base::named;
use braidftp_cc as cc;

use crate::config::{
    BurstRule, Config, Fragments, LossDetection, LossRecovery, MeasureEach, MtuDiscovery, RetransmitTo,
    Scheduler, WindowUpdates,
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
    (
        "path_mtu.packet_bytes",
        |c| format!("{} B", c.path_mtu.packet_bytes),
        "Ethernet's 1500 bytes less IPv6 (40) and UDP (8)",
    ),
    (
        "path_mtu.discovery",
        |c| or_none(c.path_mtu.discovery, |m| format!("up to {} B", m.max)),
        "RFC 9260 §7.3 leaves it open",
    ),
    ("messages.fragments", |c| format!("{:?}", c.messages.fragments), "RFC 9260 §6.9 leaves it open"),
    ("messages.scheduler", |c| format!("{:?}", c.messages.scheduler), "RFC 8260 §3 leaves it open"),
    (
        "handshake.max_init_retransmits",
        |c| c.handshake.max_init_retransmits.to_string(),
        "RFC 9260 §16: Max.Init.Retransmits",
    ),
    (
        "handshake.copy_after",
        |c| or_none(c.handshake.copy_after, seconds),
        "RFC 9260 §5.1: T1 alone repeats INIT and COOKIE ECHO",
    ),
    (
        "handshake.init_interval",
        |c| or_none(c.handshake.init_interval, seconds),
        "RFC 9260 §5.1.6: T1-init follows the RTO",
    ),
    ("timers.rto.initial", |c| seconds(c.timers.rto.initial), "RFC 9260 §16: RTO.Initial"),
    ("timers.rto.min", |c| seconds(c.timers.rto.min), "RFC 9260 §16: RTO.Min"),
    ("timers.rto.max", |c| seconds(c.timers.rto.max), "RFC 9260 §16: RTO.Max"),
    (
        "timers.heartbeat_interval",
        |c| or_none(c.timers.heartbeat_interval, seconds),
        "RFC 9260 §16: HB.interval",
    ),
    ("sack.delay", |c| seconds(c.sack.delay), "RFC 9260 §16: SACK.Delay"),
    ("sack.frequency", |c| c.sack.frequency.to_string(), "RFC 9260 §6.2: every second packet"),
    (
        "sack.immediate_at_end",
        |c| on_off(c.sack.immediate_at_end),
        "RFC 9260 §6.1 leaves the I bit to the sender",
    ),
    ("sack.compact_sack", |c| on_off(c.sack.compact_sack), "RFC 9260 knows none"),
    ("congestion.control", |c| c.congestion.control.to_string(), "RFC 9260 §7.2"),
    (
        "congestion.options.initial_window",
        |c| format!("{:?}", c.congestion.options.initial_window),
        "RFC 9260 §7.2.1: min(4 PMDCS, max(2 PMDCS, 4404 B))",
    ),
    (
        "congestion.options.initial_ssthresh",
        |c| or_none(c.congestion.options.initial_ssthresh, |b| format!("{b} B")),
        "RFC 9260 §7.2.1: arbitrarily high",
    ),
    (
        "congestion.options.floor_mtus",
        |c| c.congestion.options.floor_mtus.to_string(),
        "RFC 9260 §7.2.3: 4 PMDCS",
    ),
    (
        "congestion.options.byte_counting_limit",
        |c| c.congestion.options.byte_counting_limit.to_string(),
        "RFC 9260 §7.2.1: L = 1",
    ),
    ("congestion.options.grows_on", |c| format!("{:?}", c.congestion.options.grows_on), "RFC 9260 §7.2.1"),
    (
        "congestion.options.partial_bytes",
        |c| format!("{:?}", c.congestion.options.partial_bytes),
        "RFC 9260 §7.2.2",
    ),
    ("congestion.options.idle_rule", |c| format!("{:?}", c.congestion.options.idle_rule), "RFC 9260 §7.2.1"),
    (
        "congestion.options.slow_start",
        |c| format!("{:?}", c.congestion.options.slow_start),
        "RFC 9260 §7.2.1",
    ),
    (
        "congestion.max_burst",
        |c| or_none(c.congestion.max_burst, |n| n.to_string()),
        "RFC 9260 §16: Max.Burst",
    ),
    (
        "congestion.proportional_reduction",
        |c| on_off(c.congestion.proportional_reduction),
        "RFC 9260 knows none",
    ),
    ("recovery.loss_detection", |c| format!("{:?}", c.recovery.loss_detection), "RFC 9260 §7.2.4"),
    ("recovery.tail_loss_probe", |c| on_off(c.recovery.tail_loss_probe), "RFC 9260 knows none"),
    ("recovery.undo_spurious", |c| on_off(c.recovery.undo_spurious), "RFC 9260 knows none"),
    ("recovery.early_repair", |c| on_off(c.recovery.early_repair), "RFC 9260 knows none"),
    (
        "failover.association_max_retrans",
        |c| c.failover.association_max_retrans.to_string(),
        "RFC 9260 §16: Association.Max.Retrans",
    ),
    (
        "failover.path_max_retrans",
        |c| c.failover.path_max_retrans.to_string(),
        "RFC 9260 §16: Path.Max.Retrans",
    ),
    (
        "failover.potentially_failed_max_retrans",
        |c| or_none(c.failover.potentially_failed_max_retrans, |n| n.to_string()),
        "RFC 9260 has no such state",
    ),
    (
        "failover.primary_switchover_max_retrans",
        |c| or_none(c.failover.primary_switchover_max_retrans, |n| n.to_string()),
        "RFC 9260 §6.4: data returns to the primary path",
    ),
    ("memory.receive_buffer_bytes", |c| format!("{} B", c.memory.receive_buffer_bytes), "ours: a megabyte"),
    (
        "memory.receive_buffer_max_bytes",
        |c| or_none(c.memory.receive_buffer_max_bytes, |b| format!("{b} B")),
        "RFC 9260 §3.3.2: not reduced; it says nothing of growing",
    ),
    ("memory.send_buffer_bytes", |c| format!("{} B", c.memory.send_buffer_bytes), "ours: a megabyte"),
    (
        "memory.send_buffer_max_bytes",
        |c| or_none(c.memory.send_buffer_max_bytes, |b| format!("{b} B")),
        "ours: the buffer does not grow",
    ),
    (
        "security.skip_tsn_every",
        |c| or_none(c.security.skip_tsn_every, |n| n.to_string()),
        "RFC 9260 knows none",
    ),
    (
        "legacy.burst_rule",
        |c| format!("{:?}", c.legacy.burst_rule),
        "RFC 9260 §6.1 D: the window is not changed for good",
    ),
    ("legacy.missing_reports", |c| c.legacy.missing_reports.to_string(), "RFC 9260 §7.2.4"),
    ("legacy.retransmit_to", |c| format!("{:?}", c.legacy.retransmit_to), "RFC 9260 §6.4"),
    ("legacy.loss_recovery", |c| format!("{:?}", c.legacy.loss_recovery), "RFC 9260 §6.3.3, §7.2.4"),
    (
        "legacy.measure_each",
        |c| format!("{:?}", c.legacy.measure_each),
        "RFC 9260 §6.3.1: no more than once per round trip",
    ),
    ("legacy.measure_handshake", |c| on_off(c.legacy.measure_handshake), "RFC 9260 §6.3.1 leaves it open"),
    ("legacy.sack_at_once_when_filled", |c| on_off(c.legacy.sack_at_once_when_filled), "RFC 5681 §4.2"),
    (
        "legacy.chunk_overhead_bytes",
        |c| format!("{} B", c.legacy.chunk_overhead_bytes),
        "ours: what holding a chunk takes of memory",
    ),
    (
        "legacy.window_updates",
        |c| format!("{:?}", c.legacy.window_updates),
        "RFC 9260 §6.2, RFC 1122 §4.2.3.3",
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
            Self::Rfc2960Kame => Config::default().with(|c| {
                // Packets of 1500 bytes over IPv4.
                c.path_mtu.packet_bytes = 1_480;
                c.congestion.options = cc::Options {
                    // RFC 2960 §7.2.1: "MUST be <= 2*MTU"; §7.2.3: "max(cwnd/2, 2*MTU)".
                    initial_window: cc::InitialWindow::Mtus(TWO),
                    floor_mtus: TWO,
                    grows_on: cc::GrowsOn::CumAdvance,
                    ..cc::Options::default()
                };
                c.legacy.burst_rule = BurstRule::LowerWindow;
                // RFC 2960 §7.2.4, and P2 §5.2.1: "requires 4 missing reports".
                c.legacy.missing_reports = NonZeroU8::new(4).expect("4 is not 0");
                c.legacy.retransmit_to = RetransmitTo::Another;
                c.legacy.loss_recovery = LossRecovery::Rfc4960;
                // P2 §5.2.1: "initially minRTO=3s; after the sender measures an RTT, minRTO=1s"; INIT gives
                // no sample.
                c.timers.rto =
                    cc::rtt::Bounds { initial: Duration::from_secs(3), ..cc::rtt::Bounds::default() };
                c.legacy.measure_handshake = false;
                c.legacy.measure_each = MeasureEach::RoundTrip;
                c.legacy.sack_at_once_when_filled = false;
            }),
            Self::Ns2 => Config::default().with(|c| {
                c.path_mtu.packet_bytes = 1_480;
                c.congestion.options = cc::Options {
                    initial_window: cc::InitialWindow::Tcp,
                    initial_ssthresh: Some(65_536),
                    grows_on: cc::GrowsOn::CumAdvance,
                    partial_bytes: cc::PartialBytes::WhileUsed,
                    idle_rule: cc::IdleRule::Rfc4960,
                    ..cc::Options::default()
                };
                c.legacy.retransmit_to = RetransmitTo::Another;
                c.legacy.loss_recovery = LossRecovery::Rfc4960;
                c.timers.rto =
                    cc::rtt::Bounds { initial: Duration::from_secs(3), ..cc::rtt::Bounds::default() };
                c.legacy.measure_handshake = false;
                c.legacy.measure_each = MeasureEach::RoundTrip;
                // Data never returns to a primary path that was inactive: PSMR = PMR (RFC 7829 §5).
                c.failover.primary_switchover_max_retrans = Some(5);
                c.legacy.sack_at_once_when_filled = false;
                c.memory.receive_buffer_bytes = 65_536;
                c.legacy.chunk_overhead_bytes = 16;
                c.legacy.window_updates = WindowUpdates::AsItIs;
            }),
            Self::Modern => Config::default().with(|c| {
                c.congestion.control = cc::Kind::Auto;
                // RFC 6928, and L = 2 of RFC 3465 against delayed SACKs.
                c.congestion.options = cc::Options {
                    initial_window: cc::InitialWindow::Mtus(NonZeroU8::new(10).expect("10 is not 0")),
                    byte_counting_limit: NonZeroU8::new(2).expect("2 is not 0"),
                    // A slow start that overflows the queue costs more than its loss: in order, nothing is
                    // delivered until all of it has been retransmitted.
                    slow_start: cc::SlowStart::HyStart,
                    ..cc::Options::default()
                };
                // With delayed SACKs and batched sending, one event may acknowledge far more than four
                // packets. The limit would keep the window unused, and a burst into a full queue is
                // detected within one RTT.
                c.congestion.max_burst = None;
                c.recovery.loss_detection = LossDetection::SendOrder;
                c.recovery.tail_loss_probe = true;
                c.congestion.proportional_reduction = true;
                c.recovery.undo_spurious = true;
                c.security.skip_tsn_every = NonZeroU16::new(4_096);
                // Tail loss probes make T3-rtx the last resort; on a path of a few milliseconds, waiting a
                // second is what losses cost most.
                c.timers.rto =
                    cc::rtt::Bounds { min: Duration::from_millis(100), ..cc::rtt::Bounds::default() };
                c.handshake.copy_after = Some(Duration::from_millis(10));
                c.handshake.init_interval = Some(Duration::from_millis(250));
                // With INITs at these intervals: 66 s in total.
                c.handshake.max_init_retransmits = 26;
                c.recovery.early_repair = true;
                //= specs/rfc7829.txt#section-3.2
                //# The RECOMMENDED value of PFMR is 0.
                //= specs/rfc7829.txt#section-6
                //# The following protocol parameter is RECOMMENDED:
                c.failover.potentially_failed_max_retrans = Some(0);
                // From a size that works nearly everywhere, so that nothing is probed unless packets are
                // lost.
                c.path_mtu.discovery = Some(MtuDiscovery::default());
                c.sack.delay = Duration::from_millis(20);
                c.sack.immediate_at_end = true;
                c.sack.compact_sack = true;
                c.messages.fragments = Fragments::Filling;
                // In turn, unless the user gives priorities.
                c.messages.scheduler = Scheduler::Priority;
                // 1 Gbit/s over 60 ms. A process limited to 64 MB has room for one such association that
                // stalls; unused buffer costs nothing.
                c.memory.receive_buffer_bytes = 8 << 20;
                c.memory.send_buffer_bytes = 4 << 20;
                // More where one or several paths carry more: 1 Gbit/s over half a second.
                c.memory.receive_buffer_max_bytes = Some(64 << 20);
                c.memory.send_buffer_max_bytes = Some(64 << 20);
            }),
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
            (Self::Rfc2960Kame | Self::Ns2, "path_mtu.packet_bytes") => {
                "1500 bytes less IPv4 (20): P2 §5.1, ns-2's `mtu` 1500"
            }
            (Self::Rfc2960Kame, "congestion.options.initial_window") => "RFC 2960 §7.2.1: no more than 2 MTU",
            (Self::Rfc2960Kame, "congestion.options.floor_mtus") => "RFC 2960 §7.2.3: max(cwnd/2, 2 MTU)",
            (Self::Rfc2960Kame | Self::Ns2, "congestion.options.grows_on") => {
                "RFC 2960 and RFC 4960 §7.2.1, §7.2.2"
            }
            (Self::Rfc2960Kame, "legacy.burst_rule") => "P2 §4.2 equation 1, after SOA03; RFC 4960 §6.1 D",
            (Self::Rfc2960Kame, "legacy.missing_reports") => "RFC 2960 §7.2.4; P2 §5.2.1",
            (Self::Rfc2960Kame, "legacy.retransmit_to") => {
                "RFC 2960 §6.4: an address different from the last"
            }
            (Self::Rfc2960Kame | Self::Ns2, "legacy.loss_recovery") => {
                "RFC 2960 and RFC 4960 §6.3.3 E3, §7.2.4: a single packet"
            }
            (Self::Rfc2960Kame, "timers.rto.initial") => "RFC 2960 §14: RTO.Initial 3 s; P2 §5.2.1",
            (Self::Rfc2960Kame | Self::Ns2, "legacy.measure_each") => {
                "one chunk of an address is timed at a time: BSD's way, ns-2's module"
            }
            (Self::Rfc2960Kame, "legacy.measure_handshake") => {
                "P2 §5.2.1: 3 s until data has measured a round trip"
            }
            (Self::Rfc2960Kame, "legacy.sack_at_once_when_filled") => {
                "RFC 2960 §6.7 asks for SACKs while there is a gap"
            }
            (Self::Ns2, "congestion.options.initial_window") => {
                "RFC 4960 §7.2.1: min(4 MTU, max(2 MTU, 4380 B))"
            }
            (Self::Ns2, "congestion.options.initial_ssthresh") => "ns-2's `initialSsthresh`",
            (Self::Ns2, "congestion.options.partial_bytes") => "ns-2's module",
            (Self::Ns2, "congestion.options.idle_rule") => "RFC 4960 §7.2.1",
            (Self::Ns2, "legacy.retransmit_to") => "ns-2's `rtxToAlt` 1; RFC 2960 §6.4",
            (Self::Ns2, "timers.rto.initial") => "ns-2's `initialRto`; RFC 4960 §15",
            (Self::Ns2, "legacy.measure_handshake") => "ns-2's module takes no sample of it",
            (Self::Ns2, "failover.primary_switchover_max_retrans") => {
                "ns-2's `changePrimaryThresh`, as PSMR = PMR in RFC 7829 §5"
            }
            (Self::Ns2, "legacy.sack_at_once_when_filled") => {
                "ns-2's module; RFC 4960 §6.7 asks for SACKs while there is a gap"
            }
            (Self::Ns2, "memory.receive_buffer_bytes") => "ns-2's `initialRwnd`",
            (Self::Ns2, "legacy.chunk_overhead_bytes") => "ns-2's module: the DATA chunk's header",
            (Self::Ns2, "legacy.window_updates") => "ns-2's module: its receiver reads at once",
            (Self::Modern, "congestion.control") => "ours: CUBIC, but where losses are not congestion",
            (Self::Modern, "congestion.options.initial_window") => "RFC 6928: ten packets",
            (Self::Modern, "congestion.options.byte_counting_limit") => {
                "RFC 3465: L = 2, against delayed SACKs"
            }
            (Self::Modern, "congestion.options.slow_start") => "RFC 9406",
            (Self::Modern, "congestion.max_burst") => "ours: one SACK may answer for many packets",
            (Self::Modern, "recovery.loss_detection") => "RFC 9002 §6.1, as packets and time",
            (Self::Modern, "recovery.tail_loss_probe") => "RFC 8985 §7",
            (Self::Modern, "congestion.proportional_reduction") => "RFC 9937",
            (Self::Modern, "recovery.undo_spurious") => "RFC 3708",
            (Self::Modern, "security.skip_tsn_every") => "ours: 6 MB; against peers that lie",
            (Self::Modern, "timers.rto.min") => "ours: probes come first",
            (Self::Modern, "handshake.copy_after") => "RFC 8305 §8: no attempt within 10 ms of another",
            (Self::Modern, "handshake.init_interval") => "RFC 8305 §5: Connection Attempt Delay",
            (Self::Modern, "handshake.max_init_retransmits") => "ours: 66 s in all",
            (Self::Modern, "recovery.early_repair") => "ours: see `specs/exceptions/rfc9260.toml`",
            (Self::Modern, "failover.potentially_failed_max_retrans") => "RFC 7829 §3.2: PFMR 0",
            (Self::Modern, "path_mtu.discovery") => "RFC 8899",
            (Self::Modern, "sack.delay") => "ours: a tenth of RFC 9260's",
            (Self::Modern, "sack.immediate_at_end") => "RFC 7053",
            (Self::Modern, "sack.compact_sack") => "ours: as many gaps as a gigabit a second has",
            (Self::Modern, "messages.fragments") => "ours: the fewest packets",
            (Self::Modern, "messages.scheduler") => "RFC 8260 §3.4: in turn among equal priorities",
            (Self::Modern, "memory.receive_buffer_bytes") => "ours: a gigabit a second over 60 ms",
            (Self::Modern, "memory.send_buffer_bytes") => "ours: a gigabit a second over 30 ms",
            (Self::Modern, "memory.receive_buffer_max_bytes" | "memory.send_buffer_max_bytes") => {
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
            assert_eq!(profile.config().path_mtu.packet_bytes % 4, 0, "a full packet then needs no padding");
            let max = profile.config().failover.potentially_failed_max_retrans;
            assert_eq!(max, (*profile == Profile::Modern).then_some(0));
        }
    }

    #[test]
    fn an_unknown_profile_is_refused_with_the_existing_ones() {
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

    /// The table of a group's values in each profile, as its documentation shows it.
    fn table(group: &str) -> String {
        let mut text = String::from("/// |");
        Profile::ALL.iter().for_each(|profile| text += &format!(" | `{profile}`"));
        text += &format!(" |\n/// |---{}|", "|---".repeat(Profile::ALL.len()));
        for (field, value, _) in FIELDS {
            let Some(name) = field.strip_prefix(group).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            text += &format!("\n/// | `{name}`");
            Profile::ALL.iter().for_each(|profile| text += &format!(" | {}", value(&profile.config())));
            text += " |";
        }
        text
    }

    #[test]
    fn every_group_shows_its_values_in_each_profile() {
        let source = concat!(
            include_str!("config/control.rs"),
            include_str!("config/data.rs"),
            include_str!("config/legacy.rs"),
            include_str!("config/paths.rs"),
            include_str!("config/security.rs"),
        );
        let mut groups: Vec<&str> =
            FIELDS.iter().map(|(field, ..)| field.split('.').next().unwrap()).collect();
        groups.dedup();
        let wrong = groups.into_iter().filter(|group| !source.contains(&table(group)));
        let wanted: Vec<String> = wrong.map(|group| format!("{group}:\n{}", table(group))).collect();
        assert!(wanted.is_empty(), "the documentation should show\n{}", wanted.join("\n"));
    }

    #[test]
    fn rfc9260_is_the_default() {
        assert_eq!(Config::default(), Profile::Rfc9260.config());
    }
}
