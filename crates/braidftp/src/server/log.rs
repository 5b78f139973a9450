//! The log of `braidftp serve`, with rate limits for lines that peers cause, so that no peer can fill a disk.
//!
//! Lines are counted by kind (the place in the program) and by address, and in total. Lines that were left
//! out are counted, and their number is logged every `TOLD_EVERY`.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use crate::users::subnet;

/// The maximum number of lines per second of one kind about one address (IPv6: one /64).
pub const ADDRESS_LINES_A_SECOND: u32 = 5;
/// The maximum number of lines per second in total.
pub const LINES_A_SECOND: u32 = 100;
/// The number of kinds and addresses that are counted individually; the others of a kind share one count.
pub const COUNTED_MAX: usize = 4_096;
/// The lines of this time may be written at once after a pause.
pub const BURST: Duration = Duration::from_secs(10);
/// The target of audit lines, which have their own limits.
pub(super) const AUDIT: &str = "audit";
/// The interval at which the number of omitted lines is logged.
const TOLD_EVERY: Duration = Duration::from_secs(10);

/// The format of lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One object per line, for programs.
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            other => Err(format!("the log is written as text or json, not as `{other}`")),
        }
    }
}

/// Leaves out lines above the limits. Clones share their counts.
#[derive(Debug, Clone, Default)]
pub struct LineLimit(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    counts: Mutex<Counts<Identifier>>,
    left_out: AtomicU64,
}

/// For each count, the time up to which the written lines conform to the rate.
#[derive(Debug)]
pub(super) struct Counts<Kind> {
    by_key: HashMap<(Kind, Option<IpAddr>), Instant>,
    all: Option<Instant>,
}

impl<Kind> Default for Counts<Kind> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), all: None }
    }
}

impl<Kind: Clone + Eq + Hash> Counts<Kind> {
    /// Whether a line may be written now; if so, it is counted.
    pub(super) fn admits(&mut self, now: Instant, key: &(Kind, Option<IpAddr>)) -> bool {
        let mut key = key.clone();
        if self.by_key.len() >= COUNTED_MAX && !self.by_key.contains_key(&key) {
            self.by_key.retain(|_, until| *until > now);
            if self.by_key.len() >= COUNTED_MAX {
                // The number of kinds is bounded by the places in the program.
                key.1 = None;
            }
        }
        let next =
            |until: Option<Instant>, rate: u32| until.unwrap_or(now).max(now) + Duration::from_secs(1) / rate;
        let of_key = next(self.by_key.get(&key).copied(), ADDRESS_LINES_A_SECOND);
        let of_all = next(self.all, LINES_A_SECOND);
        let may = of_key <= now + BURST && of_all <= now + BURST;
        if may {
            self.by_key.insert(key, of_key);
            self.all = Some(of_all);
        }
        may
    }
}

impl LineLimit {
    /// The number of lines left out since the last call.
    pub fn take_omitted(&self) -> u64 {
        self.0.left_out.swap(0, Ordering::Relaxed)
    }

    /// Logs the number of omitted lines periodically, for ever.
    pub(super) async fn tell(self) {
        loop {
            tokio::time::sleep(TOLD_EVERY).await;
            let lines = self.take_omitted();
            if lines > 0 {
                tracing::warn!(
                    lines,
                    "lines left out of the log: too many of one kind about one address, or in all"
                );
            }
        }
    }
}

impl<S: Subscriber> Layer<S> for LineLimit {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        if event.metadata().target() == AUDIT {
            // They have their own limits.
            return true;
        }
        let mut about = About(None);
        event.record(&mut about);
        let key = (event.metadata().callsite(), about.0.map(subnet));
        let may = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner).admits(Instant::now(), &key);
        if !may {
            self.0.left_out.fetch_add(1, Ordering::Relaxed);
        }
        may
    }
}

/// The address that a line is about: its field `peer`, or `from`.
struct About(Option<IpAddr>);

impl Visit for About {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if matches!(field.name(), "peer" | "from") && self.0.is_none() {
            let text = format!("{value:?}");
            self.0 =
                text.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|address| address.ip()));
        }
    }
}

#[cfg(test)]
mod tests {
    use tracing::callsite::Callsite;

    use super::*;

    struct Kind;

    impl Callsite for Kind {
        fn set_interest(&self, _: tracing::subscriber::Interest) {}

        fn metadata(&self) -> &tracing::Metadata<'_> {
            unreachable!("nobody asks")
        }
    }

    static KIND: Kind = Kind;

    fn key(ip: u32) -> (Identifier, Option<IpAddr>) {
        (Identifier(&KIND), Some(IpAddr::from(std::net::Ipv4Addr::from_bits(ip))))
    }

    fn admitted(counts: &mut Counts<Identifier>, now: Instant, lines: u32, ip: impl Fn(u32) -> u32) -> u32 {
        (0..lines).map(|nth| u32::from(counts.admits(now, &key(ip(nth))))).sum()
    }

    #[test]
    fn one_address_has_its_rate_and_all_together_have_theirs() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        let burst = BURST.as_secs() as u32;
        assert_eq!(admitted(&mut counts, now, 9_999, |_| 1), burst * ADDRESS_LINES_A_SECOND);
        assert_eq!(admitted(&mut counts, now, 9_999, |_| 2), burst * ADDRESS_LINES_A_SECOND);
        let rest = burst * (LINES_A_SECOND - 2 * ADDRESS_LINES_A_SECOND);
        assert_eq!(admitted(&mut counts, now, 99_999, |nth| 3 + nth), rest);
        let later = now + Duration::from_secs(1);
        assert_eq!(admitted(&mut counts, later, 99, |_| 1), ADDRESS_LINES_A_SECOND);
    }

    #[test]
    fn addresses_beyond_the_table_share_a_count_and_the_table_empties() {
        let (mut counts, mut now) = (Counts::default(), Instant::now());
        for ip in 0..3 * COUNTED_MAX as u32 {
            counts.all = None;
            counts.admits(now, &key(ip));
            assert!(counts.by_key.len() <= COUNTED_MAX + 1);
        }
        now += 2 * BURST;
        counts.all = None;
        assert!(counts.admits(now, &key(7 << 20)));
        assert_eq!(counts.by_key.len(), 1);
    }
}
