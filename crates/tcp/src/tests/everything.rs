//! Properties. On any link all bytes are delivered exactly once and in order, both ways, and both ends close.
//! For any input from a peer nothing panics and the counters stay consistent (`Sender::check` runs at each
//! wait in debug builds).

use proptest::prelude::*;

use super::*;
use crate::config::{AckClock, LossDetection, PartialAckTimer, RecoverRule, Timing};
use crate::segment::{Options, SackBlocks, Timestamps};
use crate::{Flags, Seq};

fn configs() -> impl Strategy<Value = Config> {
    let switches = any::<[bool; 14]>();
    let sizes = (0..Profile::ALL.len(), 200..1_460_u16, 2_000..70_000_usize, 1..4_u8, 0..200_u64);
    (switches, sizes).prop_map(|(on, (profile, mss, buffer, ack_every, ack_delay_ms))| Config {
        mss,
        window_scaling: on[0],
        timestamps: on[1],
        sack: on[2],
        limited_transmit: on[3],
        early_retransmit: on[4],
        loss_detection: if on[5] { LossDetection::Time } else { LossDetection::Duplicates },
        rack_takes_any_rtt: on[6],
        tail_loss_probe: on[5],
        proportional_reduction: on[6],
        timeout_clears_sack: on[7],
        recover_rule: if on[8] { RecoverRule::Covers } else { RecoverRule::CoversMore },
        partial_ack_timer: if on[8] { PartialAckTimer::Each } else { PartialAckTimer::First },
        timing: match (on[9], on[12]) {
            (true, _) => Timing::OneAtATime,
            (false, true) => Timing::FirstSegment,
            (false, false) => Timing::EverySegment,
        },
        wheel_tick: Duration::from_millis(if on[13] { 4 } else { 0 }),
        timer_margin: Duration::from_millis(if on[12] { 2 } else { 0 }),
        ack_clock: if on[10] { AckClock::Free } else { AckClock::Segment },
        nagle: on[11],
        ack_every: ack_every.try_into().unwrap(),
        ack_delay: Duration::from_millis(ack_delay_ms),
        receive_buffer_bytes: buffer,
        send_buffer_bytes: buffer,
        data_retries: u8::MAX,
        syn_retries: u8::MAX,
        // Longer than the largest back-off of a FIN; otherwise the FIN's sender gets a reset.
        time_wait: Duration::from_secs(2_000),
        ..Profile::ALL[profile].config()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn on_any_link_all_bytes_arrive_once_in_order_and_both_ends_close(
        configs in [configs(), configs()],
        faults in (0..250_u64, 0..200_u64, 0..200_u64),
        lengths in (0..60_000_usize, 0..30_000_usize),
        seed in any::<u64>(),
    ) {
        let [client, server] = configs;
        let mut pair = Pair::with(client, server).seeded(seed);
        (pair.loss, pair.duplication, pair.reordering) = faults;
        pair.write_and_close(Client, lengths.0);
        pair.write(Server, numbered(lengths.1));
        pair.finish(Duration::from_secs(20_000));
        prop_assert_eq!(pair.closed(Client), Some(Reason::Finished));
        prop_assert_eq!(pair.closed(Server), Some(Reason::Finished));
        prop_assert!(pair.read[1] == numbered(lengths.0)[..]);
        prop_assert!(pair.read[0] == numbered(lengths.1)[..]);
        // Connections in TIME-WAIT are gone in the end.
        pair.run(Duration::from_secs(20_000));
        prop_assert_eq!(pair.endpoints.each_ref().map(Endpoint::control_blocks), [0, 0]);
    }

    #[test]
    fn arbitrary_segments_from_the_peer_keep_the_invariants(
        config in configs(),
        lies in prop::collection::vec((any::<[u8; 3]>(), any::<[i16; 6]>(), 0..300_u64), 1..60),
        length in 0..60_000_usize,
    ) {
        let mut pair = Pair::new(config);
        pair.write(Client, numbered(length));
        pair.run(Duration::from_millis(25));
        // From now on the server sends arbitrary segments with known sequence numbers.
        let (client, server) = (Client as usize, Server as usize);
        let last = |pair: &Pair, side| pair.log.iter().rev().find(|(_, from, _)| *from == side).unwrap().2.clone();
        let (of_client, of_server) = (last(&pair, Client), last(&pair, Server));
        for ([flags, payload, blocks], by, millis) in lies {
            let near = |base: Seq, by: i16| base.plus(i64::from(by) as u64);
            let mut options = Options::default();
            if blocks & 1 == 1 {
                options.timestamps = of_server.options.timestamps.map(|stamps| Timestamps {
                    value: stamps.value.wrapping_add(by[2] as u32),
                    echo: stamps.echo.wrapping_add(by[3] as u32),
                });
            }
            let mut sack = SackBlocks::default();
            if blocks & 2 == 2 {
                sack.push(near(of_client.seq, by[4]), near(of_client.seq, by[5]));
                sack.push(near(of_client.seq, by[5]), near(of_client.seq, by[0]));
            }
            options.sack = sack;
            // SYNs and resets, which end the connection, are rare.
            let flags = if flags % 16 == 0 { Flags(flags) } else { Flags(flags & !6) | Flags::ACK };
            let segment = Segment {
                source_port: of_server.source_port,
                destination_port: of_server.destination_port,
                seq: near(of_server.seq, by[0] / 16),
                ack: near(of_client.seq, by[1]),
                flags,
                window: by[2] as u16,
                options,
                payload: vec![0; usize::from(payload)].into(),
            };
            let (from, to) = (address(Server), address(Client));
            let payload = segment.encode(from.ip(), to.ip());
            let datagram = Datagram { from, to, ecn: braidftp_base::Ecn::NotEct, payload };
            pair.endpoints[client].handle(pair.now, datagram);
            pair.drain(Client);
            pair.under_way.clear();
            pair.now += Duration::from_millis(millis);
            pair.drain(Client);
            pair.under_way.clear();
        }
        let _ = server;
    }
}
