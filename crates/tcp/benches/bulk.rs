//! Benchmark of two endpoints connected to each other on one core, in segments per second: `cargo bench -p
//! braidftp-tcp --bench bulk`.

#![allow(clippy::disallowed_types, reason = "a benchmark reads the clock")]

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use braidftp_base::{Datagram, Output, Time};
use braidftp_tcp::{Endpoint, Event, Profile};
use bytes::Bytes;

const BYTES: u64 = 400_000_000;
static CONTENT: [u8; 1 << 16] = [7; 1 << 16];

fn main() {
    for (profile, loss) in
        [(Profile::NewrenoBsd46, 0), (Profile::Modern, 0), (Profile::SackLtAbc, 100), (Profile::Modern, 100)]
    {
        let (segments, took) = run(profile, loss);
        let a_second = segments as f64 / took.as_secs_f64() / 1e6;
        println!(
            "{profile:>14}, every {loss:>3}. lost: {a_second:.2} million segments/s, both ways and both ends"
        );
    }
}

/// Transfers `BYTES` and drops every `loss`-th data segment (0: none). Returns the number of segments sent
/// and the time taken.
fn run(profile: Profile, loss: u64) -> (u64, Duration) {
    let began = Instant::now();
    let config = Arc::new(profile.config());
    let mut endpoints = [Endpoint::new(1), Endpoint::new(2)];
    endpoints[1].listen(20, config.clone()).unwrap();
    let from = "10.0.0.1:1000".parse().unwrap();
    endpoints[0].connect(Time::ZERO, from, "10.0.0.2:20".parse().unwrap(), config).unwrap();
    let mut now = Time::ZERO;
    let mut under_way: VecDeque<(Time, usize, Datagram)> = VecDeque::new();
    let (mut received, mut segments, mut of_data) = (0, 0, 0);
    while received < BYTES {
        let mut wakes = [None, None];
        for side in [0, 1] {
            loop {
                match endpoints[side].poll(now) {
                    Output::Send(datagram) => {
                        segments += 1;
                        if datagram.payload.len() > 1_000 {
                            of_data += 1;
                            if loss > 0 && of_data % loss == 0 {
                                continue;
                            }
                        }
                        under_way.push_back((now + Duration::from_micros(500), 1 - side, datagram));
                    }
                    Output::Event((id, event)) => {
                        let connection = endpoints[side].connection_mut(id).unwrap();
                        match event {
                            Event::Up | Event::Writable if side == 0 => {
                                while connection.send(Bytes::from_static(&CONTENT)) == CONTENT.len() {}
                            }
                            _ => {
                                while let Some(piece) = connection.recv() {
                                    received += black_box(piece).len() as u64;
                                }
                            }
                        }
                    }
                    Output::Wait(at) => {
                        wakes[side] = at;
                        break;
                    }
                }
            }
        }
        let arrives = under_way.front().map(|(at, ..)| *at);
        now = wakes.into_iter().flatten().chain(arrives).min().expect("something is under way").max(now);
        while under_way.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, side, datagram) = under_way.pop_front().expect("it was just looked at");
            endpoints[side].handle(now, datagram);
        }
    }
    (segments, began.elapsed())
}
