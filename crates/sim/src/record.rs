//! Records of a run: numbers over time ([`Probes`]), and the packets of a link as a file ([`Capture`]).
//!
//! Observation is passive: a probe reads getters between two events, so that an observed run equals an
//! unobserved one, packet by packet.

use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

use braidftp_base::{Datagram, Time};
use braidftp_pcap as pcap;
use braidftp_qlog as qlog;
pub use braidftp_qlog::Vantage;
use braidftp_sctp::{AssociationId, Endpoint, PathStats, wire};
use braidftp_tcp as tcp;

use crate::apps::ftp::StatsPoint;
use crate::link::{Drop, Fate, Sighting};
use crate::world::{Actor, LinkId, Seen, Sight, World};

/// Reads one number of a world.
type Reading<'a, H> = Box<dyn FnMut(&World<H>) -> f64 + 'a>;

/// Numbers that are read again and again while a world runs.
///
/// ```no_run
/// # use braidftp_sim::{Actor, LinkId, World, record::Probes};
/// # use std::time::Duration;
/// # fn with<H: Actor>(mut world: World<H>, link: LinkId) {
/// let mut probes = Probes::new().queue("queue", link).throughput("bottleneck", link);
/// probes.run(&mut world, Duration::from_secs(10), Duration::from_millis(100));
/// print!("{}", probes.series());
/// # }
/// ```
pub struct Probes<'a, H> {
    readings: Vec<Reading<'a, H>>,
    series: Series,
}

/// A table of numbers over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// The names of the columns.
    pub names: Vec<String>,
    /// A time, and the values of the columns at that time.
    pub rows: Vec<(Time, Vec<f64>)>,
}

impl<H> fmt::Debug for Probes<'_, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probes").field("series", &self.series).finish_non_exhaustive()
    }
}

impl<H: Actor> Default for Probes<'_, H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, H: Actor> Probes<'a, H> {
    /// Probes without columns.
    pub fn new() -> Self {
        Self { readings: Vec::new(), series: Series::default() }
    }

    /// Adds a column read by a function of the world. NaN stands for a missing value.
    #[must_use]
    pub fn watch(mut self, name: &str, reading: impl FnMut(&World<H>) -> f64 + 'a) -> Self {
        self.series.names.push(name.to_owned());
        self.readings.push(Box::new(reading));
        self
    }

    /// Adds a column with the rate of a byte counter since the previous row, in bits per second.
    #[must_use]
    pub fn rate(self, name: &str, mut counter: impl FnMut(&World<H>) -> u64 + 'a) -> Self {
        let mut last: Option<(Time, u64)> = None;
        self.watch(name, move |world| {
            let (now, bytes) = (world.now(), counter(world));
            let (before, bytes_before) = last.replace((now, bytes)).unwrap_or((now, bytes));
            let seconds = now.since(before).as_secs_f64();
            if seconds > 0.0 { bytes.saturating_sub(bytes_before) as f64 * 8.0 / seconds } else { f64::NAN }
        })
    }

    /// Adds the queue of a link in packets, the packet on the wire included.
    #[must_use]
    pub fn queue(self, name: &str, link: LinkId) -> Self {
        self.watch(name, move |world| world.link(link).waiting_packets() as f64)
    }

    /// Adds the queue of a link in bytes, the packet on the wire included.
    #[must_use]
    pub fn queue_bytes(self, name: &str, link: LinkId) -> Self {
        self.watch(name, move |world| world.link(link).waiting_bytes() as f64)
    }

    /// Adds the output rate of a link, headers included, in bits per second.
    #[must_use]
    pub fn throughput(self, name: &str, link: LinkId) -> Self {
        self.rate(name, move |world| world.link(link).counters().bytes_out)
    }

    /// Adds columns for one path of an association: its window (`cwnd`), threshold (`ssthresh`) and flight
    /// (`flight`), in bytes, and its round-trip time (`srtt`), in seconds; `prefix` precedes each name.
    #[must_use]
    pub fn sctp_path(
        self,
        prefix: &str,
        path: usize,
        endpoint: impl Fn(&World<H>) -> Option<(&Endpoint, AssociationId)> + Clone + 'a,
    ) -> Self {
        let column = |name: &str, path: &PathStats| match name {
            "cwnd" => path.cwnd as f64,
            "ssthresh" => path.ssthresh as f64,
            "flight" => path.flight_bytes as f64,
            _ => path.srtt.map_or(f64::NAN, |srtt| srtt.as_secs_f64()),
        };
        ["cwnd", "ssthresh", "flight", "srtt"].into_iter().fold(self, |probes, name| {
            let endpoint = endpoint.clone();
            probes.watch(&format!("{prefix}{name}"), move |world| {
                let association = endpoint(world).and_then(|(endpoint, id)| endpoint.association(id));
                let stats =
                    association.and_then(|association| association.stats().paths.into_iter().nth(path));
                stats.map_or(f64::NAN, |stats| column(name, &stats))
            })
        })
    }

    /// Adds columns for a TCP connection, the same as those of [`Probes::sctp_path`].
    #[must_use]
    pub fn tcp_connection(
        self,
        prefix: &str,
        endpoint: impl Fn(&World<H>) -> Option<(&tcp::Endpoint, tcp::ConnectionId)> + Clone + 'a,
    ) -> Self {
        let column = |name: &str, stats: &tcp::Stats| match name {
            "cwnd" => stats.cwnd as f64,
            "ssthresh" => stats.ssthresh as f64,
            "flight" => stats.flight_bytes as f64,
            _ => stats.srtt.map_or(f64::NAN, |srtt| srtt.as_secs_f64()),
        };
        ["cwnd", "ssthresh", "flight", "srtt"].into_iter().fold(self, |probes, name| {
            let endpoint = endpoint.clone();
            probes.watch(&format!("{prefix}{name}"), move |world| {
                let connection = endpoint(world).and_then(|(endpoint, id)| endpoint.connection(id));
                connection.map_or(f64::NAN, |connection| column(name, &connection.stats()))
            })
        })
    }

    /// Runs the world for `lasts`, and reads a row now and at the end of each interval.
    pub fn run(&mut self, world: &mut World<H>, lasts: Duration, every: Duration) {
        assert!(!every.is_zero(), "the interval must be longer than 0");
        let end = world.now() + lasts;
        let mut next = world.now();
        loop {
            world.run_until(next);
            self.read(world);
            if next >= end {
                return;
            }
            next = (next + every).min(end);
        }
    }

    /// Runs the world until `until`, and reads a row at each event at which some column changes.
    pub fn run_by_events(&mut self, world: &mut World<H>, until: Time) {
        self.read(world);
        while world.step(until) {
            self.read_changes(world);
        }
        self.read_changes(world);
        world.check();
    }

    /// Reads a row now.
    pub fn read(&mut self, world: &mut World<H>) {
        world.settle();
        let row = self.readings.iter_mut().map(|reading| reading(world)).collect();
        self.series.rows.push((world.now(), row));
    }

    /// The rows so far.
    pub fn series(&self) -> &Series {
        &self.series
    }

    /// The rows.
    pub fn into_series(self) -> Series {
        self.series
    }

    fn read_changes(&mut self, world: &mut World<H>) {
        self.read(world);
        let same = |one: &[f64], other: &[f64]| {
            one.iter().zip(other).all(|(a, b)| a == b || (a.is_nan() && b.is_nan()))
        };
        if let [.., (_, before), (_, last)] = &self.series.rows[..]
            && same(before, last)
        {
            self.series.rows.pop();
        }
    }
}

impl Series {
    /// A column as pairs of seconds and values, without missing values.
    pub fn column(&self, name: &str) -> Vec<(f64, f64)> {
        let Some(index) = self.names.iter().position(|other| other == name) else { return Vec::new() };
        let rows = self.rows.iter().map(|(at, row)| (at.as_secs_f64(), row[index]));
        rows.filter(|(_, value)| !value.is_nan()).collect()
    }
}

/// CSV: seconds and the columns; missing values are empty.
impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &String| match name.contains([',', '"', '\n']) {
            true => format!("\"{}\"", name.replace('"', "\"\"")),
            false => name.clone(),
        };
        writeln!(f, "seconds,{}", self.names.iter().map(quoted).collect::<Vec<_>>().join(","))?;
        for (at, row) in &self.rows {
            let nanos = at.as_nanos();
            write!(f, "{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)?;
            for value in row {
                if value.is_nan() { write!(f, ",") } else { write!(f, ",{value}") }?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Which protocol the packets of a world belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    /// The UDP port of SCTP over UDP. Packets to or from port 0 are SCTP over IP, all others TCP.
    pub udp_encapsulation: Option<u16>,
}

impl Default for Ports {
    fn default() -> Self {
        Self { udp_encapsulation: Some(9_899) }
    }
}

impl Ports {
    /// The protocol below a packet's payload.
    pub fn carrier(self, datagram: &Datagram) -> pcap::Carrier {
        let ports = [datagram.from.port(), datagram.to.port()];
        if ports.contains(&0) {
            pcap::Carrier::Sctp
        } else if self.udp_encapsulation.is_some_and(|port| ports.contains(&port)) {
            pcap::Carrier::Udp
        } else {
            pcap::Carrier::Tcp
        }
    }
}

/// Packets as a pcapng file.
#[derive(Debug)]
pub struct Capture<W> {
    writer: pcap::Writer<W>,
    ports: Ports,
}

impl<W: Write> Capture<W> {
    /// Begins a file, at 1970 on a virtual clock.
    ///
    /// # Errors
    ///
    /// Errors of `out`.
    pub fn new(out: W, ports: Ports) -> io::Result<Self> {
        Ok(Self { writer: pcap::Writer::new(out, Duration::ZERO)?, ports })
    }

    /// Writes the record of a link: each packet as it was queued (or dropped, with the reason as a comment),
    /// and as it left the link.
    ///
    /// # Errors
    ///
    /// Errors of the underlying writer.
    pub fn link(&mut self, record: &[Sighting]) -> io::Result<()> {
        record.iter().try_for_each(|sighting| {
            let (direction, comment) = match sighting.what {
                Fate::Queued => (pcap::Direction::Out, ""),
                Fate::Arrives => (pcap::Direction::In, ""),
                Fate::Leaves => return Ok(()),
                Fate::Dropped(why) => (pcap::Direction::Unknown, reason(why)),
            };
            self.write(sighting.at, direction, comment, &sighting.datagram)
        })
    }

    /// Writes only the packets that left a link, as a capture at the far end of the wire shows them.
    ///
    /// # Errors
    ///
    /// Errors of the underlying writer.
    pub fn link_arrivals(&mut self, record: &[Sighting]) -> io::Result<()> {
        let arrivals = record.iter().filter(|sighting| sighting.what == Fate::Arrives);
        arrivals.into_iter().try_for_each(|seen| self.write(seen.at, pcap::Direction::In, "", &seen.datagram))
    }

    /// Writes the packets that hosts sent and received, as a capture on these hosts shows them.
    ///
    /// # Errors
    ///
    /// Errors of the underlying writer.
    pub fn hosts(&mut self, record: &[Seen]) -> io::Result<()> {
        record.iter().try_for_each(|seen| {
            let direction = match seen.what {
                Sight::Sent => pcap::Direction::Out,
                Sight::Arrived => pcap::Direction::In,
            };
            self.write(seen.at, direction, "", &seen.datagram)
        })
    }

    /// Ends the file and returns the writer.
    ///
    /// # Errors
    ///
    /// Errors of the underlying writer.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer.into_inner())
    }

    fn write(
        &mut self,
        at: Time,
        direction: pcap::Direction,
        comment: &str,
        datagram: &Datagram,
    ) -> io::Result<()> {
        let Datagram { from, to, ecn, ref payload } = *datagram;
        let carrier = self.ports.carrier(datagram);
        self.writer.write(pcap::Packet {
            at,
            direction,
            carrier,
            from,
            to,
            ecn,
            payload,
            segment_size: None,
            comment,
        })
    }
}

/// An event at a host, for a qlog of it.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEvent {
    /// It sent or received a packet.
    Packet(Seen),
    /// The statistics of an association have changed.
    Stats(StatsPoint),
}

/// A qlog of one host, written event by event.
#[derive(Debug)]
pub struct Qlog<W>(qlog::Writer<W>);

impl<W: Write> Qlog<W> {
    /// Begins a file about the end that opens associations, or about the one that accepts them.
    ///
    /// # Errors
    ///
    /// Errors of `out`, here as in every method.
    pub fn new(out: W, title: &str, vantage: Vantage) -> io::Result<Self> {
        qlog::Writer::new(out, title, vantage).map(Self)
    }

    /// Writes an event. Events come in order of time.
    pub fn event(&mut self, event: &HostEvent) -> io::Result<()> {
        match event {
            HostEvent::Packet(seen) => {
                let Datagram { from, to, ecn, payload } = seen.datagram.clone();
                let direction = match seen.what {
                    Sight::Sent => qlog::Direction::Sent,
                    Sight::Arrived => qlog::Direction::Received,
                };
                self.0.packet(&qlog::Packet { at: seen.at, direction, from, to, ecn, payload })
            }
            HostEvent::Stats(point) => self.0.stats(point.at, point.association.0, &point.stats),
        }
    }

    /// Ends the file.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Writes a qlog of the host whose associations' statistics these are: its packets, and how the statistics change.
///
/// # Errors
///
/// Errors of `out`.
pub fn write_qlog(out: impl Write, title: &str, packets: &[Seen], stats: &[StatsPoint]) -> io::Result<()> {
    let mut file = Qlog::new(out, title, Vantage::Client)?;
    let is_own = |addr| stats.iter().any(|point| point.stats.paths.iter().any(|path| path.local == addr));
    let mut stats = stats.iter().peekable();
    for seen in packets {
        let own = match seen.what {
            Sight::Sent => seen.datagram.from,
            Sight::Arrived => seen.datagram.to,
        };
        while let Some(point) = stats.next_if(|point| point.at < seen.at) {
            file.event(&HostEvent::Stats(point.clone()))?;
        }
        if is_own(own) {
            file.event(&HostEvent::Packet(seen.clone()))?;
        }
    }
    stats.try_for_each(|point| file.event(&HostEvent::Stats(point.clone())))?;
    file.finish()
}

/// Formats a datagram in packetdrill's notation, with its source and destination.
pub fn line(seen: &Seen) -> String {
    let way = match seen.what {
        Sight::Sent => '>',
        Sight::Arrived => '<',
    };
    let Datagram { from, to, .. } = seen.datagram;
    format!("{:.6} {way} {from} {to} {}", seen.at.as_secs_f64(), chunks(&seen.datagram))
}

/// The chunks of an SCTP packet in packetdrill's notation.
pub fn chunks(datagram: &Datagram) -> String {
    match wire::Packet::decode_observed(datagram.payload.clone()) {
        Ok(packet) => packet.to_string(),
        Err(error) => format!("({error})"),
    }
}

fn reason(why: Drop) -> &'static str {
    match why {
        Drop::Loss => "lost",
        Drop::Down => "dropped: the link is down",
        Drop::Full => "dropped: the queue is full",
        Drop::Early => "dropped: the queue's management picked it",
        Drop::Mtu => "dropped: longer than the link's MTU",
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::net::SocketAddr;

    use braidftp_base::{Ecn, Output};
    use bytes::Bytes;

    use super::*;
    use crate::link::LinkConfig;
    use crate::topology;

    /// Sends a packet of 1,500 bytes on the wire every two milliseconds.
    #[derive(Debug)]
    struct Clock {
        next: Time,
        sends: bool,
    }

    fn ends() -> [SocketAddr; 2] {
        [1, 2].map(|host| SocketAddr::new(topology::address(0, host), 0))
    }

    impl Actor for Clock {
        fn handle(&mut self, _now: Time, _datagram: Datagram) {}

        fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
            if !self.sends || now < self.next {
                return Output::Wait(self.sends.then_some(self.next));
            }
            self.next += Duration::from_millis(2);
            let [from, to] = ends();
            Output::Send(Datagram { from, to, ecn: Ecn::NotEct, payload: Bytes::from_static(&[0; 1_472]) })
        }
    }

    fn world() -> (World<Clock>, LinkId) {
        let mut world = World::new(1);
        let [from, to] = ends().map(|end| end.ip());
        let link: LinkConfig = "rate=3mbit,delay=10ms,queue=10p".parse().unwrap();
        let [there, _] = topology::path(&mut world, from, to, &[link.clone(), link]);
        world.add_host(Clock { next: Time::ZERO, sends: true }, [from]);
        world.add_host(Clock { next: Time::ZERO, sends: false }, [to]);
        (world, there)
    }

    #[test]
    fn a_queue_at_twice_the_wire_rate_grows_by_half_of_the_input() {
        let (mut world, link) = world();
        let mut probes =
            Probes::new().queue("queue", link).queue_bytes("bytes", link).throughput("out", link);
        probes.run(&mut world, Duration::from_millis(100), Duration::from_millis(8));
        let series = probes.into_series();
        // Four packets arrive in 8 ms and two leave; at 8 ms the fifth arrives, as the first row showed the
        // first.
        let queue: Vec<_> = series.column("queue").iter().map(|(_, packets)| *packets).collect();
        assert_eq!(queue[..6], [1.0, 3.0, 5.0, 7.0, 9.0, 10.0]);
        assert_eq!(series.column("bytes")[2].1, 7_500.0);
        // From 14 ms on a packet leaves every 4 ms: none in the first interval, and 3 Mbit/s in the last
        // complete one.
        let out = series.column("out");
        assert_eq!((out[0].1, out[10].1), (0.0, 3e6));
        assert_eq!(series.rows.last().unwrap().0, Time::from_millis(100));
    }

    #[test]
    fn observation_does_not_change_a_run_and_shows_every_event() {
        let (mut plain, link) = world();
        plain.run_until(Time::from_millis(100));
        let (mut watched, _) = world();
        watched.record();
        watched.record_link(link);
        let mut probes = Probes::new().queue("queue", link);
        probes.run_by_events(&mut watched, Time::from_millis(100));
        assert_eq!(plain.fingerprint(), watched.fingerprint());
        let rows = &probes.series().rows;
        let first: Vec<_> =
            rows.iter().take(4).map(|(at, row)| (at.as_nanos() / 1_000_000, row[0])).collect();
        // At 4 ms one packet arrives and one leaves.
        assert_eq!(first, [(0, 0.0), (0, 1.0), (2, 2.0), (6, 3.0)]);
    }

    #[test]
    fn a_series_is_csv() {
        let series = Series {
            names: vec!["cwnd".into(), "a,b".into()],
            rows: vec![(Time::ZERO, vec![4_380.0, f64::NAN]), (Time::from_micros(1_500_000), vec![0.5, 7.0])],
        };
        assert_eq!(series.to_string(), "seconds,cwnd,\"a,b\"\n0.000000000,4380,\n1.500000000,0.5,7\n");
        assert_eq!(series.column("a,b"), [(1.5, 7.0)]);
        assert!(series.column("srtt").is_empty());
    }

    #[test]
    fn a_captured_link_shows_the_fate_of_each_packet() {
        let (mut world, link) = world();
        world.record_link(link);
        world.run_until(Time::from_millis(80));
        let record = world.take_link_record(link);
        let count = |what: fn(&Fate) -> bool| record.iter().filter(|seen| what(&seen.what)).count();
        let counters = world.link(link).counters();
        assert!(counters.dropped_queue > 0);
        assert_eq!(count(|what| matches!(what, Fate::Dropped(Drop::Full))) as u64, counters.dropped_queue);
        assert_eq!(count(|what| *what == Fate::Arrives) as u64, counters.packets_out);
        let mut whole = Capture::new(Vec::new(), Ports::default()).unwrap();
        whole.link(&record).unwrap();
        let whole = whole.finish().unwrap();
        let mut far = Capture::new(Vec::new(), Ports::default()).unwrap();
        far.link_arrivals(&record).unwrap();
        assert!(whole.len() > far.finish().unwrap().len());
        let text = String::from_utf8_lossy(&whole).into_owned();
        assert!(text.contains("dropped: the queue is full"));
    }

    #[test]
    fn ports_determine_the_protocol_of_a_packet() {
        let carrier = |from: u16, to: u16| {
            let [a, b] = ends();
            let (from, to) = (SocketAddr::new(a.ip(), from), SocketAddr::new(b.ip(), to));
            Ports::default().carrier(&Datagram { from, to, ecn: Ecn::NotEct, payload: Bytes::new() })
        };
        assert_eq!(carrier(0, 0), pcap::Carrier::Sctp);
        assert_eq!(carrier(40_000, 9_899), pcap::Carrier::Udp);
        assert_eq!(carrier(40_000, 21), pcap::Carrier::Tcp);
    }
}
