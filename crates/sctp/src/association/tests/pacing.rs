//! Pacing: the times at which packets are sent for a controller's rate, and the information passed to
//! controllers.

use std::sync::{Arc, Mutex};

use braidftp_cc as cc;

use super::*;

/// The calls that a controller received.
#[derive(Debug, Default, Clone, Copy)]
struct Told {
    sent: usize,
    acked: usize,
    lost: usize,
    lost_after_timeout: bool,
    app_limited: usize,
}

/// A controller with a constant window and rate.
#[derive(Debug)]
struct Fixed {
    window: usize,
    rate: Option<Rate>,
    told: Arc<Mutex<Told>>,
}

impl cc::Controller for Fixed {
    fn window(&self) -> usize {
        self.window
    }

    fn ssthresh(&self) -> usize {
        self.window
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }

    fn on_sent(&mut self, sent: cc::Sent) {
        self.told.lock().unwrap().sent += sent.bytes;
    }

    fn on_ack(&mut self, ack: cc::Ack<'_>) {
        self.told.lock().unwrap().acked += ack.bytes;
    }

    fn on_lost(&mut self, lost: cc::Lost) {
        assert!(lost.bytes > 0 && lost.sent_at <= lost.now && lost.sent_at > Time::ZERO);
        self.told.lock().unwrap().lost += lost.bytes;
    }

    fn on_app_limited(&mut self, _now: Time, flight_bytes: usize) {
        assert!(flight_bytes < self.window);
        self.told.lock().unwrap().app_limited += 1;
    }

    fn on_congestion(&mut self, congestion: cc::Congestion) {
        if congestion.cause == cc::Cause::Timeout {
            let mut told = self.told.lock().unwrap();
            told.lost_after_timeout = told.lost > 0;
        }
    }
}

/// A pair whose client sends with a window of 100 kB at this rate.
fn paced(config: Config, kbit: u64) -> (Pair, Arc<Mutex<Told>>) {
    let mut pair = Pair::up(config);
    let told = Arc::new(Mutex::new(Told::default()));
    let rate = (kbit > 0).then(|| Rate::from_bits_per_second(kbit * 1_000));
    let controller = Fixed { window: 100_000, rate, told: told.clone() };
    pair.association(Client).paths[0].controller = Box::new(controller);
    (pair, told)
}

/// The times at which packets with DATA were sent.
fn departures(pair: &Pair) -> Vec<Time> {
    let with_data = |packet: &Packet| packet.chunks().any(|chunk| matches!(chunk, Ok(Chunk::Data(_))));
    pair.log
        .iter()
        .filter(|(_, side, packet)| *side == Client && with_data(packet))
        .map(|entry| entry.0)
        .collect()
}

#[test]
fn a_paced_flow_leaves_evenly_two_packets_at_a_time() {
    for config in [rfc(), modern()] {
        let (mut pair, told) = paced(config, 8_000);
        let start = pair.now;
        pair.send(Client, 0, pattern(500_000));
        assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 1));
        let times = departures(&pair);
        let full = 1_452 * 2 * 8 / 8;
        for (nth, pairs) in times.chunks(2).enumerate() {
            assert!(pairs.iter().all(|time| *time == pairs[0]), "two leave at once");
            let at = pairs[0].since(start).as_micros() as usize;
            // With RFC 9260 chunks fill the packets; profile `modern` begins with smaller packets.
            assert!(at <= nth * full && at + 3 * full > nth * full * 8 / 10, "{nth} left after {at} us");
        }
        let took = pair.now.since(start).as_secs_f64();
        pair.run(Duration::from_secs(1));
        let told = *told.lock().unwrap();
        assert_eq!((told.sent, told.lost), (told.acked, 0));
        let due = told.sent as f64 * 8.0 / 8e6 + 0.010;
        assert!((due - 0.004..due + 0.004).contains(&took), "{took} s, {due} s due");
    }
}

#[test]
fn a_rate_is_kept_to_whatever_is_lost_and_nothing_stalls() {
    for config in [rfc(), modern()] {
        for kbit in [500, 8_000, 200_000] {
            let (mut pair, told) = paced(config.clone(), kbit);
            let start = pair.now;
            pair.loss = 100;
            pair.send(Client, 0, pattern(200_000));
            assert!(pair.run_until_within(Duration::from_secs(60), |pair| pair.read(Server, 0).len() == 1));
            let told = *told.lock().unwrap();
            assert!(told.lost > 0 && told.sent >= told.acked, "{told:?}");
            assert_eq!(told.lost as u64, pair.association(Client).paths[0].lost_bytes);
            let times = departures(&pair);
            let took = times[times.len() - 1].since(start).as_secs_f64();
            let due = told.sent as f64 / (kbit as f64 * 125.0);
            // Packets after a time-out and probes are not delayed; after each, the sender is a quantum ahead.
            let exempt = (pair.association(Client).stats().paths[0].timeouts
                + pair.association(Client).stats().paths[0].probes) as f64
                * 3_000.0;
            let ahead = (exempt + 65_536.0) / (kbit as f64 * 125.0);
            assert!(took + ahead > due, "{took} s, {due} s due");
        }
    }
}

#[test]
fn control_chunks_are_not_paced() {
    let mut took = Vec::new();
    for kbit in [0, 16] {
        let (mut pair, _) = paced(rfc(), kbit);
        let start = pair.now;
        pair.send(Client, 0, pattern(20_000));
        pair.send(Server, 1, pattern(300_000));
        assert!(pair.run_until(|pair| pair.read(Client, 1).len() == 1));
        took.push(pair.now.since(start));
    }
    assert!(took[1] <= took[0] * 11 / 10, "SACKs waited for the clock: {took:?}");
}

#[test]
fn retransmissions_after_a_time_out_are_not_paced() {
    // A quantum of two packets takes more than a second; so does T3.
    let (mut pair, told) = paced(rfc(), 8);
    pair.drop = Some(Box::new(|side, nth, _| side == Client && nth < 8));
    let start = pair.now;
    pair.send(Client, 0, pattern(1_000));
    pair.send(Client, 0, pattern(1_000));
    pair.send(Client, 0, pattern(1_000));
    assert!(pair.run_until_within(Duration::from_secs(120), |pair| pair.read(Server, 0).len() == 3));
    let stats = pair.association(Client).stats();
    assert!(stats.paths[0].timeouts >= 2 && told.lock().unwrap().lost_after_timeout);
    let rto = departures(&pair)[2..4].iter().map(|time| time.since(start)).collect::<Vec<_>>();
    assert!(rto.contains(&Duration::from_secs(1)), "the first RTO is a second: {rto:?}");
}

#[test]
fn a_controller_is_notified_when_the_application_limits_the_rate() {
    let (mut pair, told) = paced(modern(), 8_000);
    pair.send(Client, 0, pattern(500_000));
    pair.run(Duration::from_millis(400));
    assert_eq!(told.lock().unwrap().app_limited, 0, "there was always more to send");
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 1));
    assert!(told.lock().unwrap().app_limited > 0);
}

#[test]
fn max_burst_does_not_slow_a_paced_flow_down() {
    // A quantum of 65,536 bytes, of which Max.Burst would permit four packets for each SACK.
    let (mut pair, _) = paced(rfc(), 600_000);
    pair.send(Client, 0, pattern(90_000));
    pair.run(Duration::from_millis(5));
    assert!(departures(&pair).len() >= 60, "{} packets before anything is heard", departures(&pair).len());
}
