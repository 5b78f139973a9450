//! Each controller's behaviour as a readable table, round trip by round trip, kept beside this file.
//! `UPDATE_SNAPSHOTS=1 cargo test -p braidftp-cc` rewrites the tables.

mod kept;

use std::fmt::Write;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::{Ack, Cause, Congestion, Controller, Idle, Kind, Sent};
use kept::compare;

const MTU: usize = 1_452;
const RTT: Duration = Duration::from_millis(100);
const RTO: Duration = Duration::from_secs(1);

/// The conditions of a round trip.
#[derive(Clone, Copy)]
enum Round {
    /// The window is full; one acknowledgement for every two packets.
    Full,
    /// Only this many packets are available to send.
    Sparse(usize),
    /// One packet is lost: detected after the first acknowledgements, the rest arrives in recovery.
    Loss,
    /// Everything is lost.
    Timeout,
    /// Nothing to send for this many RTOs.
    Idle(u32),
}

fn play(controller: &mut dyn Controller, now: Time, rtt: Duration, round: Round) -> String {
    let packets = match round {
        Round::Full | Round::Loss => controller.window().div_ceil(MTU),
        Round::Sparse(packets) => packets,
        Round::Timeout => {
            let flight_bytes = controller.window();
            controller.on_congestion(Congestion { cause: Cause::Timeout, now, flight_bytes, mtu: MTU });
            return "time-out".into();
        }
        Round::Idle(rtos) => {
            controller.on_idle(Idle { now, idle_for: RTO * rtos, rto: RTO, mtu: MTU, ssthresh_min: 0 });
            return format!("idle {rtos} RTO");
        }
    };
    let mut flight = 0;
    for _ in 0..packets {
        controller.on_sent(Sent { now, bytes: MTU, flight_before: flight });
        flight += MTU;
    }
    let mut in_recovery = false;
    if let Round::Loss = round {
        let mtu = MTU;
        controller.on_congestion(Congestion { cause: Cause::Loss, now, flight_bytes: flight, mtu });
        in_recovery = true;
    }
    // The pipe is refilled as acknowledgements arrive, so that the flight before each is the same.
    let mut left = packets * MTU;
    while left > 0 {
        let bytes = left.min(2 * MTU);
        left -= bytes;
        controller.on_ack(Ack {
            now,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: if in_recovery || matches!(round, Round::Sparse(_)) {
                flight
            } else {
                flight.max(controller.window())
            },
            mtu: MTU,
            rtt: Some(rtt),
            cross_path_age: None,
            srtt: Some(rtt),
            cum_advanced: !in_recovery,
            in_recovery,
            siblings: &[],
        });
    }
    match round {
        Round::Loss => format!("{packets} packets, one lost"),
        _ => format!("{packets} packets"),
    }
}

fn table(kind: Kind, rtt: Duration) -> String {
    use Round::{Full, Idle, Loss, Sparse, Timeout};
    let mut script = vec![Full; 6];
    script.extend([
        Loss,
        Full,
        Full,
        Full,
        Sparse(3),
        Full,
        Timeout,
        Full,
        Full,
        Full,
        Full,
        Full,
        Idle(3),
        Full,
    ]);
    let mut controller = kind.build(MTU);
    let mut out = format!(
        "{kind}: MTU {MTU} bytes, RTT {} ms, an acknowledgement for every two packets\n",
        rtt.as_millis()
    );
    writeln!(out, "{:>5}  {:<22}{:>12}{:>12}", "round", "what", "cwnd", "ssthresh").unwrap();
    let row = |out: &mut String, round: usize, what: &str, controller: &dyn Controller| {
        writeln!(out, "{round:>5}  {what:<22}{:>12}{:>12}", controller.window(), controller.ssthresh())
            .unwrap();
    };
    row(&mut out, 0, "start", &*controller);
    for (index, round) in script.into_iter().enumerate() {
        let now = Time::ZERO + rtt * (index as u32 + 1);
        let what = play(&mut *controller, now, rtt, round);
        row(&mut out, index + 1, &what, &*controller);
    }
    out
}

#[test]
fn every_controller_matches_its_table() {
    for kind in Kind::ALL {
        compare(kind.name(), &table(*kind, RTT));
    }
}

/// With ρ = 2; at an RTT of 100 ms the controller is Reno.
#[test]
fn adalr_matches_its_table_over_a_long_path() {
    compare("adalr-long", &table(Kind::Adalr, 6 * RTT));
}
