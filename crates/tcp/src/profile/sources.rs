//! The source of each value of a profile.

use super::{Profile, Row};
use crate::config::Config;

/// Builds a row for each field of a [`Config`]; a missing field is a compile error.
macro_rules! rows {
    ($config:expr, $options:literal, { $($field:ident: $source:expr,)* }) => {{
        let Config { $($field,)* congestion_options } = $config;
        vec![
            $(Row { field: stringify!($field), value: format!("{:?}", $field), source: $source },)*
            Row { field: "congestion_options", value: format!("{congestion_options:?}"), source: $options },
        ]
    }};
}

const RFC: &str = "not known or of no effect here: the crate's default";
const AT_ONCE: &str = "the send buffer has its size from the start";
const BEYOND: &str = "RFC 9293 §3.10.7.4; the model of P3's ADaLR alone has another";
const CHECKED: &str = "RFC 9293 §3.1: MUST";
const WHEEL: &str = "Linux alone has such a wheel";
const RACK_OFF: &str = "RFC 8985 is of 2021";

pub(super) fn rows(profile: Profile) -> Vec<Row> {
    let config = profile.config();
    match profile {
        Profile::NewrenoBsd46 => bsd46(config),
        Profile::Sack => changed(bsd46(config), &[("sack", ASKED)]),
        Profile::SackLtAbc => changed(
            bsd46(config),
            &[("sack", ASKED), ("limited_transmit", ASKED), ("congestion_options", ABC)],
        ),
        Profile::SackLtAbcEr => changed(
            bsd46(config),
            &[
                ("sack", ASKED),
                ("limited_transmit", ASKED),
                ("congestion_options", ABC),
                ("early_retransmit", "the draft that P1 names as future work, now RFC 5827 §3.2"),
            ],
        ),
        Profile::Opnet11 => opnet11(config),
        Profile::Modern => modern(config),
        Profile::Linux => changed(modern(config), LINUX),
    }
}

const ASKED: &str = "P2 §5: what its TCP lacked and its SCTP had; the rest is as in newreno-bsd46";
const ABC: &str = "as newreno-bsd46, but bytes are counted with L = 2 (RFC 3465 §2.2)";

fn changed(mut rows: Vec<Row>, sources: &[(&str, &'static str)]) -> Vec<Row> {
    for row in &mut rows {
        if let Some((_, source)) = sources.iter().find(|(field, _)| *field == row.field) {
            row.source = source;
        }
    }
    rows
}

const LINUX: &[(&str, &str)] = &[
    ("wheel_tick", "Linux timer.c at CONFIG_HZ = 250: calc_index() rounds up"),
    (
        "timer_margin",
        "Linux tcp.h: TCP_TIMEOUT_MIN_US, in tcp_schedule_loss_probe() and tcp_rack_mark_lost()",
    ),
    ("timing", "Linux tcp_clean_rtx_queue(): first_ackt, and first_sackt of tcp_sacktag_one()"),
    ("timer_tick", "see wheel_tick"),
    ("rack_takes_any_rtt", "Linux tcp_rack_advance(): rack.rtt_us is set for each segment"),
    (
        "congestion_options",
        "RFC 6928: 10 segments; Linux tcp_cubic.c: its slope, its HyStart, its HZ/32; no growth while the window is not used",
    ),
];

fn bsd46(config: Config) -> Vec<Row> {
    rows!(config,
        "FreeBSD 4.x tcp_output.c: ss_fltsz_local 4, also after idleness. It is 1 (ss_fltsz) for a peer in another subnet, and the \
         papers do not say which theirs was: a delay node of Netbed is a bridge, and with 1 each file's first segment would \
         wait 100 ms for its acknowledgement, against P2-C16. tcp_input.c: one segment an ACK in slow start, maxseg²/cwnd \
         beyond, however full the window was", {
        mss: "Ethernet: 1500 less 40; 12 more go to the timestamps, so a segment holds 1448",
        window_scaling: "FreeBSD 4.6 net.inet.tcp.rfc1323 = 1; the shift is 0, as the buffer is below 64 KB",
        timestamps: "FreeBSD 4.6 net.inet.tcp.rfc1323 = 1",
        timestamp_tick: "FreeBSD 4.6: kern.hz = 100",
        checksum: CHECKED,
        sack: "FreeBSD had none before 5.3; P1 and P2 say so of theirs",
        congestion_control: "P1 and P2: NewReno (RFC 2582), net.inet.tcp.newreno = 1",
        halve: "FreeBSD 4.6 tcp_input.c, tcp_timer.c: min(snd_wnd, snd_cwnd) / 2 / maxseg, at each time-out",
        dup_threshold: "FreeBSD 4.6 tcp_input.c: tcprexmtthresh 3",
        limited_transmit: "P2 §5: not in it (FreeBSD has it since 2003)",
        early_retransmit: "not in it",
        loss_detection: RACK_OFF,
        rack_takes_any_rtt: RACK_OFF,
        tail_loss_probe: RACK_OFF,
        probe_ack_delay: RFC,
        proportional_reduction: "RFC 6937 is of 2013",
        recover_rule: "FreeBSD 4.6 tcp_input.c: SEQ_LT(th_ack, snd_recover) is what keeps it out",
        partial_ack_timer: "FreeBSD 4.6 tcp_newreno(): stops the timer with each, and tcp_output() starts it",
        timeout_clears_sack: RFC,
        idle_raises_ssthresh: "not in it",
        idle_restart: "FreeBSD 4.6 tcp_output.c: idle and t_rcvtime older than t_rxtcur",
        rto: "FreeBSD 4.6 tcp_timer.h: TCPTV_RTOBASE 3 s, TCPTV_MIN 1 s, TCPTV_REXMTMAX 64 s",
        timing: "FreeBSD 4.6 tcp_input.c: by timestamps where both have them, back-off ended by each",
        timer_tick: "FreeBSD 4.6: callouts at kern.hz = 100",
        wheel_tick: WHEEL,
        timer_margin: RACK_OFF,
        initial_srtt: "FreeBSD 4.6 tcp_xmit_timer(): the first sample is SRTT",
        syn_backoff: "FreeBSD 4.6 tcp_timer.c: tcp_syn_backoff 1 1 1 1 1 2 4 8 …; SYN|ACK doubles (tcp_syncache.c)",
        syn_retries: "FreeBSD 4.6 tcp_timer.h: TCP_MAXRXTSHIFT 12; a server's SYN|ACK would give up after 3",
        data_retries: "FreeBSD 4.6 tcp_timer.h: TCP_MAXRXTSHIFT 12",
        ack_every: "FreeBSD 4.6 tcp_input.c: DELAY_ACK unless one waits",
        ack_delay: "FreeBSD 4.6 tcp_timer.h: TCPTV_DELACK hz/10",
        ack_clock: "FreeBSD 4.6: a callout of the connection's own, not the 200 ms clock of 4.4BSD",
        quick_acks: "not in it",
        receive_buffer_bytes: "FreeBSD 4.6 tcp_usrreq.c: tcp_recvspace 57344; the papers do not say that they changed it",
        beyond_window_bytes: BEYOND,
        send_buffer_first_bytes: AT_ONCE,
        send_buffer_bytes: "FreeBSD 4.6 tcp_usrreq.c: tcp_sendspace 32768; the papers do not say that they changed it",
        out_of_order_max: RFC,
        nagle: "RFC 896, on by default",
        persist_min: "FreeBSD 4.6 tcp_timer.h: TCPTV_PERSMIN 5 s",
        persist_max: "FreeBSD 4.6 tcp_timer.h: TCPTV_PERSMAX 60 s",
        time_wait: "FreeBSD 4.6 tcp_timer.h: 2 · TCPTV_MSL = 2 · 30 s",
    })
}

const P3: &str = "P3 Table 1";
const P3_MODEL: &str = "the comparator's model in OPNET 11, as its author ran it";

fn opnet11(config: Config) -> Vec<Row> {
    rows!(config, "P3 Table 1: slow-start initial count 2; the model clamps slow start at ssthresh, counts ACKs, and does not \
        cap cwnd by rwnd; its ssthresh is 65,535 at the start, without window scaling", {
        mss: P3,
        window_scaling: "P3: rwnd 65,535, no scaling",
        timestamps: P3_MODEL,
        timestamp_tick: RFC,
        checksum: CHECKED,
        sack: "P3: NewReno; without losses SACK is the same (P3-C08)",
        congestion_control: "P3: TCP NewReno",
        halve: P3_MODEL,
        dup_threshold: P3,
        limited_transmit: P3_MODEL,
        early_retransmit: P3_MODEL,
        loss_detection: RACK_OFF,
        rack_takes_any_rtt: RACK_OFF,
        tail_loss_probe: RACK_OFF,
        probe_ack_delay: RFC,
        proportional_reduction: "RFC 6937 is of 2013",
        recover_rule: "RFC 6582 §3.2",
        partial_ack_timer: "RFC 6582 §3.2",
        timeout_clears_sack: P3_MODEL,
        idle_restart: P3_MODEL,
        idle_raises_ssthresh: "the model: ssthresh is then the larger of cwnd and ssthresh",
        rto: "P3 Table 1: RTO initial, minimum, maximum 3, 1, 64 s; deviation coefficient 4 without a least",
        timing: "the model: one segment at a time without timestamps, in slow-timer ticks",
        timer_tick: "P3 Table 1: timer granularity 0.5 s",
        wheel_tick: WHEEL,
        timer_margin: RACK_OFF,
        initial_srtt: "the model: SRTT starts at half of the initial RTO, deviation 0; gains .125 and .25 (P3 Table 1)",
        syn_backoff: RFC,
        syn_retries: RFC,
        data_retries: "P3 Table 1: retransmission threshold 6",
        ack_every: "P3 Table 1: maximum ACK segment 1",
        ack_delay: "P3 Table 1: maximum ACK delay 0.0 s",
        ack_clock: P3_MODEL,
        quick_acks: RFC,
        receive_buffer_bytes: "P3 Table 1: rwnd 65,535: with whole segments 44 of them",
        beyond_window_bytes: BEYOND,
        send_buffer_first_bytes: AT_ONCE,
        send_buffer_bytes: "more than any window: the model has no limit",
        out_of_order_max: RFC,
        nagle: RFC,
        persist_min: "P3 Table 1: persistence time-out 1.0 s",
        persist_max: RFC,
        time_wait: RFC,
    })
}

fn modern(config: Config) -> Vec<Row> {
    rows!(config, "RFC 6928: 10 segments; Linux tcp_cong.c: bytes that were acknowledged, no growth while the window is not used; \
        HyStart++ (RFC 9406) stands for Linux's older HyStart, L = 2 for its uncapped count", {
        mss: "Ethernet: 1500 less 40; 12 more go to the timestamps",
        window_scaling: "Linux tcp_window_scaling = 1",
        timestamps: "Linux tcp_timestamps = 1",
        timestamp_tick: "Linux: 1 ms",
        checksum: CHECKED,
        sack: "Linux tcp_sack = 1",
        congestion_control: "Linux tcp_congestion_control = cubic (RFC 9438)",
        halve: "RFC 9438 §4.6, of what is in flight",
        dup_threshold: "Linux tcp_reordering = 3",
        limited_transmit: "Linux tcp_limited_transmit, by its SACK counting",
        early_retransmit: "Linux dropped it for RACK (4.12)",
        loss_detection: "Linux tcp_recovery = 1: RACK (RFC 8985)",
        rack_takes_any_rtt: "RFC 8985 §6.2 step 2; Linux takes any, see linux",
        tail_loss_probe: "Linux tcp_early_retrans = 3: TLP (RFC 8985 §7)",
        probe_ack_delay: "Linux: TCP_RTO_MIN 200 ms for a single segment",
        proportional_reduction: "Linux tcp_input.c: RFC 6937, with RFC 9937's care",
        recover_rule: RFC,
        partial_ack_timer: RFC,
        timeout_clears_sack: "Linux tcp_enter_loss(): only when the receiver reneged",
        idle_raises_ssthresh: "not here: Linux tcp_cwnd_restart() keeps ssthresh at three quarters of the window",
        idle_restart: "Linux tcp_slow_start_after_idle = 1",
        rto: "Linux: TCP_TIMEOUT_INIT 1 s, TCP_RTO_MIN 200 ms for 4·RTTVAR too, TCP_RTO_MAX 120 s",
        timing: "Linux tcp_clean_rtx_queue(): the latest segment that was sent once",
        timer_tick: "Linux: at 1000 Hz or finer; not of interest here",
        wheel_tick: "as timer_tick",
        timer_margin: "RFC 8985 §7.2 has none",
        initial_srtt: "RFC 6298 §2.2",
        syn_backoff: "RFC 6298 §5.5",
        syn_retries: "Linux tcp_syn_retries = 6",
        data_retries: "Linux tcp_retries2 = 15",
        ack_every: "RFC 9293 §3.8.6.3",
        ack_delay: "Linux: TCP_DELACK_MIN 40 ms",
        ack_clock: "RFC 9293 §3.8.6.3",
        quick_acks: "Linux: TCP_MAX_QUICKACKS 16",
        receive_buffer_bytes: "Linux tcp_rmem[2] 6 MB; there it grows up to that, here it is there from the start",
        beyond_window_bytes: BEYOND,
        send_buffer_first_bytes: AT_ONCE,
        send_buffer_bytes: "Linux tcp_wmem[2] 4 MB, likewise",
        out_of_order_max: RFC,
        nagle: "RFC 9293 §3.7.4, on by default",
        persist_min: "Linux: after an RTO, 200 ms at least",
        persist_max: "RFC 9293 §3.8.6.1",
        time_wait: "Linux TCP_TIMEWAIT_LEN 60 s",
    })
}
