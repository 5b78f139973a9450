//! Attacks on the log.

use super::*;

/// The lines written to the log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(super) fn log_flood(_: Row) {
    use tracing_subscriber::layer::SubscriberExt;
    const LINES: usize = 20_000;
    let (written, line_limit) = (Written::default(), log::LineLimit::default());
    let to = written.clone();
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
    let subscriber = tracing_subscriber::registry().with(line_limit.clone()).with(lines);
    let start = Instant::now();
    tracing::subscriber::with_default(subscriber, || {
        for nth in 0..LINES {
            // From one address with many ports, then from a different address each time.
            let peer = SocketAddr::from(([192, 0, 2, 1], 1 + nth as u16 % 60_000));
            tracing::info!(%peer, "too many sessions");
            let peer = Ipv4Addr::from_bits(nth as u32);
            tracing::info!(%peer, "login refused");
        }
    });
    let seconds = start.elapsed().as_secs() as usize + 1 + log::BURST.as_secs() as usize;
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let (one, all) = (text.matches("too many sessions").count(), text.lines().count());
    assert!(one > 0 && one <= seconds * limit(Row::LogLines, &quick()), "{one} lines about one address");
    assert!(all <= seconds * limit(Row::LogLinesInAll, &quick()), "{all} lines");
    assert_eq!(line_limit.take_omitted() as usize, 2 * LINES - all);
    assert!(LINES > limit(Row::LogAddresses, &quick()));
}
