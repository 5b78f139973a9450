//! braidftp beside kernel TCP over one emulated bottleneck, in real time: a file over one association with
//! the default controller, and a connection with Reno, CUBIC or BBR.
//!
//! Published: nothing. Ours, the default's share with queues of 0.5, 1 and 4 BDP, two runs each: beside Reno
//! .982 .987 .950, CUBIC .975 .861 .659, BBR .204 .234 1.04. Needs two minutes and root; `--quick` runs this
//! figure only if it is named.

use std::time::Duration;

use braidftp_sim::link::LinkConfig;

use super::{Path, QUEUE};
use crate::figure::{Axis, Column, Figure, Kind, LiveSweep, Row, Runs, Sweep, Value};
use crate::papers::bottleneck::{TCP_SHARE, default_controller};
use crate::papers::live::{Beside, Live, possible};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/live",
    shows: "braidftp beside the kernel's TCP, live",
    caption: "What a file over one association of braidftp takes on the wire beside one TCP connection of this machine's kernel, through half of \
              what both take: 1 is fair. 10 Mbit/s emulated, 25 ms each way, drop-tail queues of 0.5, 1 and 4 BDP; from 20 s to 110 s.",
    settings: &|| {
        vec![
            "path: 10 Mbit/s, 25 ms each way".to_owned(),
            format!("braidftp: profile modern over UDP, {}; tcp: the kernel's, as it comes", default_controller()),
            "share: of the bytes of IP packets that came to the reading host; TCP's are its user data 1500/1448 times".to_owned(),
        ]
    },
    kind: Kind::Live(LiveSweep {
        possible: || possible(&TCP, Beside::Braidftp),
        sweep: Sweep {
            axes: &[
                Axis {
                    name: "tcp",
                    label: "beside the kernel's TCP",
                    values: &[Value::Name("reno"), Value::Name("cubic"), Value::Name("bbr")],
                    show: &Value::to_string,
                },
                QUEUE,
            ],
            only: &|_| true,
            fixed: &|_| false,
            quick: &|point| point.number("queue") == 1.0,
            paired: &[],
            columns: &[
                Column { name: "share", unit: "what braidftp takes through half of what both take" },
                Column { name: "sctp_mbit", unit: "Mbit/s on the wire, braidftp" },
                Column { name: "tcp_mbit", unit: "Mbit/s on the wire, TCP" },
            ],
            runs: Runs { min: 2, max: 2, within: 0.05 },
            run: &|point, seed| {
                let path = Path {
                    megabits: 10.0,
                    round_trip: Duration::from_millis(50),
                    queue: point.number("queue"),
                };
                let (from, to) = (Duration::from_secs(20), Duration::from_secs(110));
                let live = Live {
                    links: [path.link(), LinkConfig { ..path.link() }],
                    tcp: point.name("tcp"),
                    beside: Beside::Braidftp,
                    megabits: 10,
                    times: vec![from, to],
                    seed,
                };
                let brought = live.run();
                let megabits =
                    |bytes: &[u64]| (bytes[1] - bytes[0]) as f64 * 8e-6 / (to - from).as_secs_f64();
                let all = megabits(&brought.all);
                let tcp = megabits(&brought.tcp) / TCP_SHARE;
                Row(vec![(all - tcp) / (all / 2.0), all - tcp, tcp])
            },
            plot: Plot::bars("tcp", "share", "share of braidftp through its fair share").by("queue"),
        },
    }),
};

const TCP: [&str; 3] = ["reno", "cubic", "bbr"];
